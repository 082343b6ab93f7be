"""What-ifs beside measurements, all of it on a GPU: python3 run.py GRIDSMITH FOLDER [seen|fresh] [SECONDS]

Records each program of programs.py with `gridsmith trace`, makes its changes and measures them, and prints the table of compare.py.
FOLDER gets the recordings and `measured.jsonl`. A program that takes longer than SECONDS (120) is left out, and said.
"""
import gzip
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_program(words, seconds, **more):
    """Its output; "" if it fails or takes too long."""
    try:
        done = subprocess.run(words, timeout=seconds, capture_output=True, text=True, **more)
    except subprocess.TimeoutExpired:
        print("%s took longer than %d s" % (" ".join(words), seconds), file=sys.stderr)
        return ""
    if done.returncode:
        print("%s: %s" % (" ".join(words), done.stderr[-500:]), file=sys.stderr)
    return "" if done.returncode else done.stdout


def main():
    gridsmith, folder = sys.argv[1:3]
    chosen = sys.argv[3] if len(sys.argv) > 3 else "fresh"
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else 120
    programs = HERE + "/programs.py"
    os.makedirs(folder, exist_ok=True)
    names = [line.split()[0] for line in run_program([sys.executable, programs, "list", chosen], 60).splitlines()]
    with open(folder + "/measured.jsonl", "w") as measured:
        for name in names:
            path = "%s/%s.jsonl" % (folder, name)
            run_program([gridsmith, "trace", "-o", path, "--", sys.executable, programs, name, "record"], seconds)
            if not os.path.exists(path):
                continue
            with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
                packed.write(plain.read())
            os.remove(path)
            measured.write(run_program([sys.executable, programs, name, "measure"], seconds))
            measured.flush()
    sys.exit(subprocess.run([sys.executable, HERE + "/compare.py", gridsmith, folder]).returncode)


main()
