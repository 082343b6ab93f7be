"""Two streams of PyTorch that wait for each other, recorded by its profiler with synchronization events.

    python3 corpus/waits.py FILE
"""
import sys

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

matrix = torch.randn(1024, 1024, device="cuda")
pinned = torch.randn(1 << 20).pin_memory()
first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)


def work():
    with torch.cuda.stream(first):
        product = matrix @ matrix
        event = torch.cuda.Event()
        event.record(first)
    with torch.cuda.stream(second):
        second.wait_event(event)
        product.softmax(-1).sum()
        pinned.to("cuda", non_blocking=True).zero_()
    first.wait_stream(second)
    with torch.cuda.stream(first):
        product.add_(1)


for _ in range(3):
    work()
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
             experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)) as profiler:
    for _ in range(3):
        work()
    torch.cuda.synchronize()
profiler.export_chrome_trace(sys.argv[1])
