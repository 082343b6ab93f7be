"""torch_program.py: an inference server or a best-effort job with unmodified PyTorch:

    python3 torch_program.py serve [--priority]        python3 torch_program.py work

Reads commands (commands.py); the kinds are in models.py, and drawn at random (drawn.py). With --priority its stream has the highest
priority. Words that follow only name the program. A request of a kind
that ends in "+clock" also measures the clock of the GPU, by a kernel that takes a number of cycles. One that ends in "+named" names
each request that counts by a range, "request", for a recorder. With NEIGHBORS_PARTS=1 a request begins with a kernel of one thread,
and the times of its parts are reported.
"""
import faulthandler
import os
import signal
import sys
import time

import nursery

nursery.enter(__name__)  # before the imports that take long

import torch

import commands
import drawn
import models

CYCLES = 200000  # 0.1 ms at 2 GHz


def capture(model, stream, waits):
    """A function that replays the model as a graph. `waits`: it also copies the answer to the host, and waits for it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        output = model()
    if not waits:
        return graph.replay
    answer = torch.empty(output.shape, dtype=output.dtype).pin_memory()

    def step():
        graph.replay()
        answer.copy_(output, non_blocking=True)
        stream.synchronize()

    return step


def is_drawn(kind):
    return kind.startswith("drawn-")


def build_request(kind):
    """A function that does requests for some seconds."""
    kind, *extra = kind.split("+")
    has_clock, has_parts = "clock" in extra, "NEIGHBORS_PARTS" in os.environ
    asked = drawn.request(kind) if is_drawn(kind) else models.REQUESTS[kind]
    stream = torch.cuda.Stream(priority=-5 if "--priority" in sys.argv else 0)
    begin, first, end, later = (torch.cuda.Event(enable_timing=True) for _ in range(4))
    clocks, parts = [], []
    with torch.inference_mode(), torch.cuda.stream(stream):
        step = model = asked.make()  # its memory is needed as long as the graph
        for _ in range(5):
            model()
        stream.synchronize()
        if asked.form != "eager":
            step = capture(model, stream, asked.form == "tokens")

    def request():
        start = time.perf_counter()
        begin.record(stream)
        if has_parts:
            torch.cuda._sleep(1)  # runs as soon as a block finds room
            first.record(stream)
        for _ in range(asked.steps):
            step()
        end.record(stream)
        if has_clock:
            torch.cuda._sleep(CYCLES)
            later.record(stream)
        issued = time.perf_counter()
        stream.synchronize()
        if has_clock:
            clocks.append(round(CYCLES / end.elapsed_time(later) / 1e3))
        return lambda: told(issued - start)

    def told(issued_s):
        """The time on the GPU. The parts are, in ms: until the host has issued the request; until its first kernel is over; from there to its end."""
        if has_parts:
            parts.append([round(time_ms, 4) for time_ms in (issued_s * 1e3, begin.elapsed_time(first), first.elapsed_time(end))])
        return begin.elapsed_time(end)

    def named_request():
        with torch.cuda.nvtx.range("request"):
            return request()

    def play(seconds, least_ms=0):
        clocks.clear()
        parts.clear()
        with torch.inference_mode(), torch.cuda.stream(stream):
            answer = commands.serve(named_request if "named" in extra else request, seconds, asked.about_ms, asked.pauses, least_ms)
        return {**answer, **({"mhz": clocks[:]} if has_clock else {}), **({"parts_ms": parts[:]} if has_parts else {})}

    play.model, play.about_ms = model, asked.about_ms
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(50):
            request()
    return play


def build_work(kind):
    step = drawn.work(kind) if is_drawn(kind) else models.WORK[kind]()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # it may be long until it plays, and others need memory
    return step


def main():
    faulthandler.register(signal.SIGUSR1)
    if sys.argv[1] == "serve":
        commands.obey(build_request, lambda play, *given: play(*given))
    else:
        commands.obey(build_work, lambda step, seconds, *_: commands.work(step, torch.cuda.synchronize, seconds))


if __name__ == "__main__":
    main()
