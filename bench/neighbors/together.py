"""together.py: best-effort programs in pairs, under MPS and one after the other: does it matter which of them run together?

    python3 together.py [--ms 250] [--rounds 2] [--limit 60] [KIND...] >pairs.jsonl

Each kind of work of models.py is a process of unmodified PyTorch, started once, under the MPS of CUDA_MPS_PIPE_DIRECTORY. For each pair
both run so many steps as take --ms alone: first the one, then the other, then both at once. A line of JSON for each pair has every round;
the table goes to standard error. At the end: what the best and the worst way to pair four programs gain, over all sets of four. With
`work KIND` it is such a process, which runs as many steps as a line says, from a time of the monotonic clock on, and prints when it was
done.
"""
import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time

AHEAD_S = 0.002  # a round begins so long after it was sent


def work(kind):
    import torch

    import models

    step = models.WORK[kind]()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        steps, begin = int(line.split()[0]), float(line.split()[1])
        while time.monotonic() < begin:
            pass
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        print(time.monotonic(), flush=True)


class Program:
    def __init__(self, kind):
        self.kind, self.steps = kind, 1
        self.process = subprocess.Popen([sys.executable, __file__, "work", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def is_ready(self):
        return self.process.stdout.readline().strip() == "ready"

    def send(self, begin):
        self.process.stdin.write(f"{self.steps} {begin}\n")
        self.process.stdin.flush()

    def ended(self):
        return float(self.process.stdout.readline())


def run(*programs):
    """Seconds from the begin to the last end."""
    begin = time.monotonic() + AHEAD_S
    for program in programs:
        program.send(begin)
    return max(program.ended() for program in programs) - begin


def find_steps(program, seconds):
    while (took := run(program)) < seconds / 2:
        program.steps = max(program.steps + 1, int(program.steps * seconds / took))
    program.steps = max(1, round(program.steps * seconds / took))


def measure(one, other, rounds):
    found = {"alone_ms": [], "together_ms": []}
    for _ in range(rounds):
        found["alone_ms"].append([1e3 * run(one), 1e3 * run(other)])
        found["together_ms"].append(1e3 * run(one, other))
    alone = sum(statistics.median(column) for column in zip(*found["alone_ms"]))
    gain = 100 * (alone / statistics.median(found["together_ms"]) - 1)
    return found, alone, gain


def pairings(kinds, times):
    """The makespans of the three ways to run four programs in two pairs, one pair after the other; None: not all were measured."""
    a, b, c, d = kinds
    ways = [((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c))]
    if any(pair not in times for way in ways for pair in way):
        return None
    return sorted(sum(times[pair] for pair in way) for way in ways)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ms", type=float, default=250)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60, help="no pair begins after so many seconds")
    parser.add_argument("kinds", nargs="*", default=["bert-training", "resnet-training", "prefill", "gpt2-training", "lstm-training",
                                                     "long-kernels", "bert-graph"])
    options = parser.parse_args()
    began, times = time.monotonic(), {}
    programs = [Program(kind) for kind in options.kinds]
    programs = [program for program in programs if program.is_ready()]
    print(f"{len(programs)} programs are ready after {time.monotonic() - began:.1f} s", file=sys.stderr)
    for program in programs:
        find_steps(program, options.ms / 1e3)
    for one, other in itertools.combinations(programs, 2):
        if time.monotonic() - began > options.limit:
            break
        found, alone, gain = measure(one, other, options.rounds)
        times[one.kind, other.kind] = statistics.median(found["together_ms"])
        print(json.dumps({"first": one.kind, "second": other.kind, "steps": [one.steps, other.steps], "gain_percent": round(gain, 2), **found}), flush=True)
        print(f"{one.kind:16} {other.kind:16} one after the other {alone:7.1f} ms, together {times[one.kind, other.kind]:7.1f} ms, {gain:+.1f}%",
              file=sys.stderr)
    sets = [found for kinds in itertools.combinations([program.kind for program in programs], 4) if (found := pairings(kinds, times))]
    for words, place in (("middle", 1), ("worst", 2)):
        if sets:
            gains = [100 * (found[place] / found[0] - 1) for found in sets]
            print(f"the best of three pairings over the {words}: {statistics.mean(gains):+.1f}% on average, {max(gains):+.1f}% at most "
                  f"({len(sets)} sets of four)", file=sys.stderr)
    for program in programs:
        program.process.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    else:
        main()
