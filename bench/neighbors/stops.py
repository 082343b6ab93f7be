"""stops.py: how soon the work of the benchmark leaves the GPU when a request comes, against its bound (stop_cost.c).

    python3 bench/neighbors/stops.py --probe build/release/bench/stop_cost [--gridsmith build/release/gridsmith]
        [--kinds bert-training,prefill,...] [--requests 400] [--limit S] [--json FILE]

Each kind of work runs under `gridsmith run --best-effort --mps`, with a daemon of its own, and requests that need the whole GPU come
beside it; nothing else runs meanwhile. The bound is stop_us of the status: the longest kernel that cannot be stopped, or one block of
those that can be, and the waves that come and go. Work between two waits, 50 us at most, and the request itself, as alone, come on
top of it.
"""
import argparse
import json
import os
import subprocess
import sys
import time

from neighbors import BUILD_S, HERE, MORE_S, START_S, Daemon, Lost, Program, close_all

KINDS = "bert-training,resnet-training,prefill,gpt2-training,long-kernels,bert-graph,lstm-training"
MEAN_S = 0.005  # of a request and the pause before it, about
PLAY_MORE_S = 3  # until the probe has begun, and learning


class Work:
    """A best-effort program and its daemon."""

    def __init__(self, kind, options):
        self.kind, self.daemon = kind, Daemon(options.gridsmith)
        command = [sys.executable, os.path.join(HERE, "torch_program.py"), "work", kind]
        self.program = Program(self.daemon.run("--best-effort", "--mps") + command, {})

    def begin_build(self):
        self.program.answer(START_S)
        self.program.tell("build", self.kind)

    def measure(self, options):
        """What the probe prints, and what the status says after it."""
        seconds = options.requests * MEAN_S + PLAY_MORE_S
        self.program.tell("play", self.kind, seconds)
        probe = self.daemon.run("--latency", "--mps") + [options.probe, self.kind, str(options.requests)]
        answer = subprocess.run(probe, capture_output=True, text=True, timeout=seconds + MORE_S)
        status = next(program for program in self.daemon.status() if program["class"] == "best-effort")
        self.program.answer(seconds + MORE_S)
        return {**json.loads(answer.stdout), "status": status}

    def close(self):
        self.program.close()
        self.daemon.close()


def print_row(found, alone_us):
    us, status = found["us"], found.get("status", {})
    kernels = "; ".join(f"{kernel['us']:.0f} us, {kernel.get('why', '')}: {kernel['name'][:60]}" for kernel in status.get("long_kernels", []))
    print(f"| {found['name']} | {us['p50'] - alone_us:.0f} | {us['p99'] - alone_us:.0f} | {us['most'] - alone_us:.0f} "
          f"| {status.get('stop_us', 0):.0f} | {status.get('guarded', 0)} | {found['requests']} | {kernels} |", flush=True)


def measure_all(works, options):
    alone = json.loads(subprocess.run([options.probe, "alone", str(options.requests)], capture_output=True, text=True).stdout)
    results = [alone]
    print(f"A request alone takes {alone['us']['p50']} us (p50), {alone['us']['p99']} us (p99). Longer than that, beside work:\n\n"
          "| work | p50 us | p99 | most | bound | launches that could be stopped | requests | kernels that cannot be stopped |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for work in works:
        if time.time() > options.ends:
            break
        try:
            results.append(work.measure(options))
            print_row(results[-1], alone["us"]["p50"])
        except (Lost, StopIteration, ValueError, subprocess.TimeoutExpired) as why:
            print(f"{work.kind}: {why!r}", flush=True)
        if options.json:
            with open(options.json, "w") as output:
                json.dump(results, output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--probe", default="build/release/bench/stop_cost")
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.gridsmith, options.probe = os.path.abspath(options.gridsmith), os.path.abspath(options.probe)
    options.ends = time.time() + options.limit
    works = [Work(kind, options) for kind in options.kinds.split(",")]
    try:
        for work in works:
            work.begin_build()
        for work in works:
            work.program.answer(BUILD_S)
        measure_all(works, options)
    finally:
        close_all(works)


if __name__ == "__main__":
    main()
