"""What-ifs beside measurements, all of it on a GPU: python3 run.py GRIDSMITH FOLDER [seen|fresh|later|advice] [SECONDS [PROGRAM...]]

Records programs of programs.py with `gridsmith trace`, makes changes and measures them, and prints the tables of compare.py. `seen`,
`fresh` and `later`: those programs with all their changes, and the first advice of `gridsmith explain` that there is a variant of;
`advice`: the programs that are seen with that advice alone. FOLDER gets the recordings, `wanted.jsonl` and `measured.jsonl`. A
program that takes longer than SECONDS (120) is left out, and said. PROGRAM: only these.
"""
import gzip
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = HERE + "/programs.py"


def run_program(words, seconds, output=subprocess.PIPE):
    """Its output; "" if it fails or takes too long. Without a pipe, the output is in a file as far as it came."""
    try:
        done = subprocess.run(words, timeout=seconds, stdout=output, stderr=subprocess.PIPE, text=True)
    except subprocess.TimeoutExpired:
        print("%s took longer than %d s" % (" ".join(words), seconds), file=sys.stderr)
        return ""
    if done.returncode:
        print("%s: %s" % (" ".join(words), done.stderr[-500:]), file=sys.stderr)
    return "" if done.returncode else done.stdout


def record(gridsmith, name, folder, seconds):
    """The path of the recording; None: there is none."""
    path = "%s/%s.jsonl" % (folder, name)
    run_program([gridsmith, "trace", "-o", path, "--", sys.executable, PROGRAMS, name, "record"], seconds)
    if not os.path.exists(path):
        return None
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(path)
    return path + ".gz"


def advice_of(gridsmith, path):
    """The changes that `explain` advises, the best first."""
    answer = run_program([gridsmith, "explain", "--json", path], 60)
    return [row["change"] for row in json.loads(answer)["advice"]] if answer else []


def main():
    gridsmith, folder = sys.argv[1:3]
    chosen = sys.argv[3] if len(sys.argv) > 3 else "fresh"
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else 120
    only = sys.argv[5:]
    os.makedirs(folder, exist_ok=True)
    listed = run_program([sys.executable, PROGRAMS, "list", "seen" if chosen == "advice" else chosen], 60).splitlines()
    with open(folder + "/wanted.jsonl", "w") as wanted:
        for name, *changes in (line.split() for line in listed):
            if only and name not in only:
                continue
            path = record(gridsmith, name, folder, seconds)
            if path:
                print(json.dumps(dict(program=name, changes=[] if chosen == "advice" else changes,
                                      advice=advice_of(gridsmith, path))), file=wanted, flush=True)
    with open(folder + "/measured.jsonl", "w") as measured:
        run_program([sys.executable, PROGRAMS, "measure", folder + "/wanted.jsonl", str(seconds)], seconds * len(listed) + 60,
                    measured)
    sys.exit(subprocess.run([sys.executable, HERE + "/compare.py", gridsmith, folder]).returncode)


main()
