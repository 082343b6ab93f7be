"""What `gridsmith explain` costs for large programs: python3 large.py GRIDSMITH [LAUNCHES...]

Makes recordings of programs of this many launches (20,000 and 100,000 if none are given) on one, two and four streams:
steps of 500 launches of 40 kernels, each with a named range, most of them larger than the GPU, with waits between streams and a copy.
Prints the CPU seconds and the memory that the whole command takes, for each. Nothing needs a GPU.
"""
import json
import os
import random
import subprocess
import sys
import tempfile


def step_of(streams, chosen):
    """The operations of a step: kernel, blocks, stream, duration in us."""
    return [("kernel%d" % chosen.randrange(40), chosen.choice([1, 24, 132, 528, 4096, 20000]), chosen.randrange(streams),
             chosen.choice([3, 10, 40, 150])) for _ in range(500)]


def write_recording(path, launches, streams):
    step = step_of(streams, random.Random(1))
    now, free, number = 0.0, [0.0] * streams, 0
    with open(path, "w") as out:
        def put(**event):
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
        put(schema="gridsmith.run/1", gpu="h200", recorder="large.py", events="follow")
        for _ in range(max(4, launches // len(step))):
            began = now
            for kernel, blocks, stream, us in step:
                now += 4
                number += 1
                start = max(now + 5, free[stream] + 1)
                free[stream] = start + us
                put(op="launch", id=number, kernel=kernel, blocks=blocks, threads=256, registers=40, shared_bytes=0,
                    stream=stream, at_us=round(now, 3), start_us=round(start, 3), end_us=round(free[stream], 3))
            number += 1
            start = max(now + 5, free[0] + 1)
            free[0] = start + 20
            put(op="copy", id=number, bytes=1 << 20, stream=0, at_us=round(now, 3), start_us=round(start, 3),
                end_us=round(free[0], 3))
            put(op="range", name="step", from_us=round(began, 3), to_us=round(now, 3))
        put(op="end")


def main():
    gridsmith, sizes = sys.argv[1], [int(word) for word in sys.argv[2:]] or [20000, 100000]
    print("| launches | streams | file MB | CPU s | MB |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/large.jsonl"
        for launches in sizes:
            for streams in (1, 2, 4):
                write_recording(path, launches, streams)
                child = subprocess.Popen([gridsmith, "explain", path], stdout=subprocess.DEVNULL)
                _, status, usage = os.wait4(child.pid, 0)
                if status:
                    sys.exit("gridsmith explain failed")
                print("| %d | %d | %.0f | %.1f | %.0f |" % (launches, streams, os.path.getsize(path) / 1e6,
                                                        usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), flush=True)


main()
