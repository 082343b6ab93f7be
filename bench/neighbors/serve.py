"""serve.py: an inference server as it is: python serve.py KIND SECONDS

Replays a CUDA graph of one request, waits for it, and sleeps for 2 to 8 ms. Prints "ready", waits for a line, and then
prints percentiles of wall time, of time on the GPU and of the call that launches the graph as JSON.
"""
import json
import random
import sys
import time

import torch

from models import request
from percentiles import summary


def capture(kind, stream):
    with torch.inference_mode(), torch.cuda.stream(stream):
        forward = request(kind)
        for _ in range(5):
            forward()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            forward()
    return graph


def main(kind, seconds):
    stream = torch.cuda.Stream(priority=-5 if "--priority" in sys.argv else 0)
    graph = capture(kind, stream)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    wall, gpu, launching, pause = [], [], [], random.Random(1)

    def serve_one():
        start = time.perf_counter()
        begin.record(stream)
        launch = time.perf_counter()
        graph.replay()
        launched = time.perf_counter()
        end.record(stream)
        stream.synchronize()
        return (time.perf_counter() - start) * 1e3, begin.elapsed_time(end), (launched - launch) * 1e3

    with torch.cuda.stream(stream):
        for _ in range(50):
            serve_one()
        print("ready", flush=True)
        sys.stdin.readline()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            times = serve_one()
            wall.append(times[0])
            gpu.append(times[1])
            launching.append(times[2])
            time.sleep(pause.uniform(0.002, 0.008))
    print(json.dumps({"requests": len(wall), "wall_ms": summary(wall), "gpu_ms": summary(gpu),
                      "launch_ms": summary(launching)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
