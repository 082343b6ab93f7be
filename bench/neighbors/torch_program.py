"""torch_program.py: an inference server or a best-effort job with unmodified PyTorch:

    python3 torch_program.py serve [--priority]        python3 torch_program.py work

Reads commands (commands.py); the kinds are in models.py. With --priority its stream has the highest priority. A request of a kind
that ends in "+clock" also measures the clock of the GPU, by a kernel that takes a number of cycles.
"""
import faulthandler
import signal
import sys

import torch

import commands
import models

CYCLES = 200000  # 0.1 ms at 2 GHz


def build_request(kind):
    """A function that does requests for some seconds."""
    kind, *extra = kind.split("+")
    make, is_graph, steps, unit_ms = models.REQUESTS[kind]
    stream = torch.cuda.Stream(priority=-5 if "--priority" in sys.argv else 0)
    begin, end, later = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    clocks = []
    with torch.inference_mode(), torch.cuda.stream(stream):
        step = make()
        for _ in range(5):
            step()
        stream.synchronize()
        model = step  # its memory is needed as long as the graph
        if is_graph:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                model()
            step = graph.replay

    def request():
        begin.record(stream)
        for _ in range(steps):
            step()
        end.record(stream)
        if extra:
            torch.cuda._sleep(CYCLES)
            later.record(stream)
        stream.synchronize()
        if extra:
            clocks.append(round(CYCLES / end.elapsed_time(later) / 1e3))
        return lambda: begin.elapsed_time(end)

    def play(seconds):
        clocks.clear()
        with torch.inference_mode(), torch.cuda.stream(stream):
            answer = commands.serve(request, seconds, unit_ms)
        return {**answer, "mhz": clocks[:]} if extra else answer

    play.model = model
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(50):
            request()
    return play


def build_work(kind):
    step = models.WORK[kind]()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    return step


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    if sys.argv[1] == "serve":
        commands.obey(build_request, lambda play, seconds: play(seconds))
    else:
        commands.obey(build_work, lambda step, seconds: commands.work(step, torch.cuda.synchronize, seconds))
