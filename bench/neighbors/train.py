"""train.py: a training job as it is: python train.py KIND SECONDS

Prints "ready", waits for a line, trains, and prints its steps per second as JSON.
"""
import json
import sys
import time

import torch

from models import step


def main(kind, seconds):
    take_step = step(kind)
    for _ in range(8):
        take_step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        take_step()
        steps += 1
        if steps % 4 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    print(json.dumps({"steps_per_s": round(steps / (time.perf_counter() - start), 3)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
