"""commands.py: the commands that the programs of the benchmark read, and their answers.

A program reports when it is ready, and reads lines: "build KIND" prepares something, and "play KIND SECONDS [PAUSE_MS]" runs it for SECONDS, requests with
at least that pause between them. It answers each line by a line of JSON. So one process serves many measurements, and slow starts happen only once.
"""
import json
import os
import random
import sys
import time


def told_of(kind, what):
    """The answer when it is built. A request may say how long it takes, about."""
    return {"built": kind, "about_ms": getattr(what, "about_ms", 1)}


def obey(build, play):
    """build(kind) returns something; play(that, seconds, ...) measures it and returns a dictionary."""
    built = {}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        word, kind, *numbers = line.split()
        try:
            if word == "build":
                built[kind] = build(kind)
            answer = told_of(kind, built[kind]) if word == "build" else play(built[kind], *map(float, numbers))
        except Exception as error:  # one kind that fails must not cost the others
            answer = {"failed": f"{word} {kind}: {error!r}"}
        print(json.dumps(answer), flush=True)


SETTLE_S = 0.2  # the GPU may have worked for another process just before: the first requests are slower


def pause_ms(dice, unit_ms, pauses, least_ms):
    if least_ms:
        return least_ms * dice.uniform(1, 1.2)
    return (dice.expovariate(1 / 5) if pauses == "exponential" else dice.uniform(2, 8)) * unit_ms


def serve(request, seconds, unit_ms=1, pauses="uniform", least_ms=0):
    """Calls request(), with pauses of 2 to 8 times its usual duration, or as those of random arrivals ("exponential"), 5 times on average.
    With least_ms, pauses are 1 to 1.2 times that. It returns its time on the GPU. Times are in ms. NEIGHBORS_PAUSES=0.5 halves the pauses."""
    wall, gpu, dice = [], [], random.Random(time.time_ns())
    unit_ms *= float(os.environ.get("NEIGHBORS_PAUSES", 1))
    begun = time.perf_counter()
    while time.perf_counter() < begun + SETTLE_S + seconds:
        start = time.perf_counter()
        time_on_gpu = request()
        end = time.perf_counter()
        if start > begun + SETTLE_S:
            wall.append(round((end - start) * 1e3, 4))
            gpu.append(round(time_on_gpu(), 4))
        time.sleep(pause_ms(dice, unit_ms, pauses, least_ms) / 1e3)
    return {"wall_ms": wall, "gpu_ms": gpu}


def work(step, synchronize, seconds):
    """Calls step() over and over, and waits for all of it now and then."""
    steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + SETTLE_S + seconds:
        step()
        steps += 1
        if steps % 4 == 0:
            synchronize()
    synchronize()
    return {"steps_per_s": round(steps / (time.perf_counter() - start), 4)}
