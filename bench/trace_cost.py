"""trace_cost.py: the cost of recording in front of the driver for a PyTorch program, measured alternately in one process.

    gridsmith trace --through driver -o /tmp/cost.jsonl -- python3 bench/trace_cost.py

Each program runs alternately with the recorder off and on. A row has the median time of both, the median of the ratios with
its standard error, and the ratio of processor times. Needs PyTorch and a GPU.
"""
import ctypes
import gc
import statistics
import time

import torch
import torch.nn as nn


def transformer(width, heads, layers, batch, length):
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, activation="gelu")
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()
    data = torch.randn(batch, length, width, device="cuda")
    return model, data


def training_step(*shape):
    model, data = transformer(*shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(data).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def captured(work, times=1):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        work()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.no_grad(), torch.cuda.graph(graph):
        for _ in range(times):
            work()
    return graph.replay


def programs():
    """Name, function, and number of rounds."""
    small = torch.zeros(1024, device="cuda")
    square = torch.randn(256, 256, device="cuda")
    model, data = transformer(1024, 16, 12, 16, 512)
    model.eval().half()
    data = data.half()

    def adds():
        for _ in range(500):
            small.add_(1)

    yield "training step, limited by the GPU", training_step(1024, 16, 12, 40, 512), 12
    yield "training step of 900 kernels", training_step(1024, 16, 12, 16, 512), 40
    yield "training step of a small model", training_step(256, 4, 2, 4, 64), 150
    yield "forward pass as a graph", captured(lambda: model(data)), 30
    yield "graph of 200 small kernels", captured(lambda: (square @ square).relu_(), 100), 80
    yield "500 add_ of a small tensor", adds, 60


def once(work):
    torch.cuda.synchronize()
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    work()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - wall) / 1e3, (time.process_time_ns() - cpu) / 1e3


def main():
    record = ctypes.CDLL("libcuda.so.1").gridsmith_record
    gc.disable()
    print(f"{'program':36} {'off us':>10} {'on us':>10} {'wall':>18} {'processor':>10}")
    for name, work, turns in programs():
        for _ in range(3):
            work()
        found = {0: [], 1: []}
        for turn in range(turns):
            for is_on in (0, 1) if turn % 2 else (1, 0):
                record(is_on)
                found[is_on].append(once(work))
        ratios = [on[0] / off[0] - 1 for off, on in zip(found[0], found[1])]
        middle = statistics.median(ratios)
        error = 1.85 * statistics.median(abs(ratio - middle) for ratio in ratios) / turns**0.5
        median = lambda is_on, column: statistics.median(row[column] for row in found[is_on])
        print(f"{name:36} {median(0, 0):10.1f} {median(1, 0):10.1f} {100 * middle:+10.2f}% ±{100 * error:5.2f}"
              f" {100 * (median(1, 1) / median(0, 1) - 1):+9.2f}%", flush=True)


if __name__ == "__main__":
    main()
