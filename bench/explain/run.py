"""What-ifs to be compared with measurements, made on a GPU: python3 run.py GRIDSMITH FOLDER [SET [SECONDS [PROGRAM...]]]

Records programs with `gridsmith trace`, one after the other, then makes changes in them and measures them. SET: `seen`, `fresh`,
`later` of programs.py, `unseen`, `held` or `last` of unseen.py, or `all`: with all their changes, and the first advice of
`gridsmith explain` that there is a variant of; `advice`: the programs that are seen with that advice alone. PROGRAM: only these, in
this order. FOLDER gets the recordings, `wanted.jsonl` and `measured.jsonl`, of which compare.py makes tables, also on another machine.
All programs load PyTorch at the same time, before the first one runs. What a program takes longer than SECONDS (120) for is left
out, and said.
"""
import concurrent.futures
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

PROGRAMS = os.path.dirname(os.path.abspath(__file__)) + "/unseen.py"


def complain(words, why):
    print("%s: %s" % (" ".join(words), why[-500:]), file=sys.stderr, flush=True)


def run_program(words, seconds):
    """Its output; "" if it fails or takes too long."""
    try:
        done = subprocess.run(words, timeout=seconds, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        complain(words, "took longer than %d s" % seconds)
        return ""
    if done.returncode:
        complain(words, done.stderr)
    return "" if done.returncode else done.stdout


def start(words, output=subprocess.PIPE):
    """A program that waits for a line before it uses the GPU."""
    return subprocess.Popen(words + ["wait"], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def let_run(program, seconds):
    """Lets a recorded program run, until it has printed how long a step took. It ends by itself, or is ended."""
    timer = threading.Timer(seconds, os.killpg, (program.pid, signal.SIGKILL))
    timer.start()
    try:
        program.stdin.write("\n")
        program.stdin.flush()
        program.stdout.readline()
    except BrokenPipeError:
        pass
    timer.cancel()


def finish(gridsmith, program, path, seconds):
    """What `explain` advises, the best first; None: there is no recording."""
    try:
        problem = program.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        program.kill()
        problem = "took longer than %d s" % seconds
    if program.returncode or not os.path.exists(path):
        complain(program.args, problem)
        return None
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(path)
    answer = run_program([gridsmith, "explain", "--json", path + ".gz"], 60)
    return [row["change"] for row in json.loads(answer)["advice"]] if answer else []


def record_all(gridsmith, folder, names, seconds):
    """By name: the advice."""
    recorders = {}
    for name in names:
        path = "%s/%s.jsonl" % (folder, name)
        recorders[name] = start([gridsmith, "trace", "-o", path, "--", sys.executable, PROGRAMS, name, "record"])
    ready = [name for name in names if recorders[name].stdout.readline()]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ends = {}
        for name in names:
            if name in ready:
                let_run(recorders[name], seconds)
            ends[name] = pool.submit(finish, gridsmith, recorders[name], "%s/%s.jsonl" % (folder, name), seconds)
        return {name: end.result() for name, end in ends.items()}


def main():
    gridsmith, folder = sys.argv[1:3]
    chosen = sys.argv[3] if len(sys.argv) > 3 else "unseen"
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else 120
    os.makedirs(folder, exist_ok=True)
    names = sys.argv[5:] or [line.split()[0] for line in run_program(
        [sys.executable, PROGRAMS, "list", "seen" if chosen == "advice" else chosen], 60).splitlines()]
    with open(folder + "/measured.jsonl", "w") as measured:
        measurer = start([sys.executable, PROGRAMS, "measure", folder + "/wanted.jsonl", str(seconds)], measured)
        advice = record_all(gridsmith, folder, names, seconds)
        with open(folder + "/wanted.jsonl", "w") as wanted:
            for name in names:
                if advice[name] is not None:
                    print(json.dumps(dict(program=name, changes=[] if chosen == "advice" else None, advice=advice[name])), file=wanted)
        problem = measurer.communicate("\n")[1]
    if measurer.returncode:
        complain(measurer.args, problem)
    sys.exit(measurer.returncode)


main()
