"""requests.py: how long requests took beside best-effort work, against their bounds (docs/bounds.md).

    python3 bench/neighbors/requests.py --record bert,vit --recordings FOLDER [--gridsmith PROGRAM] [--seconds 0.5]
    python3 bench/neighbors/requests.py --measure bert:40,vit@25:60 --recordings FOLDER --results FOLDER [--count 10000] [--measure-limit 500]
    python3 bench/neighbors/requests.py --results ours.json --recordings FOLDER [--gridsmith PROGRAM] [--latencies FILE]
    python3 bench/neighbors/requests.py --kept corpus/h200-requests-fresh.json.gz

The first records the programs of pairs, each alone on the GPU: FOLDER/KIND.jsonl; requests three times as long as work. The second does that, and
measures --count requests of each pair under `gridsmith run`, for at most so many seconds, or longer if time is left: FOLDER/PAIR.json.
With @25, pauses between requests are at least 25 ms, and a tenth as many are measured; otherwise pauses are those of the benchmark (NEIGHBORS_PAUSES). Programs that are measured import their
modules while others are recorded. The third prints, for each pair and mode of files that neighbors.py (--json) or --measure
wrote, the bound of a request, and p99.9 and the longest of those measured; and which part made requests late, if they were measured with
NEIGHBORS_PARTS=1. The fourth prints the same of a file that has the bounds. The exit code is 1 if one took longer than its bound.
"""
import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import time

from neighbors import HERE, MORE_S, PAIRS, Lost, Program, Start, close_all, play_round
from percentiles import percentile
from table import numbers_of, of_all

ROUND_S, WARM_S, REQUEST_TIMES = 8, 0.5, 3


def kinds_of(pair):
    """The programs of a pair: the file, and for each program its role and kind."""
    program, requests, work = PAIRS[pair]
    return program, [("serve", kind) for kind in requests.split()] + [("work", kind) for kind in work.split()]


def recording_of(options, kind):
    return os.path.join(options.recordings, kind + ".jsonl")


def told_as(wanted, kind):
    """Requests are named in their recording."""
    return kind + "+named" if wanted[kind][1] == "serve" else kind


def record(options, pairs):
    """Programs start and build at the same time, because that takes long, and then play one after the other."""
    os.makedirs(options.recordings, exist_ok=True)
    wanted = {kind: (program, role) for program, kinds in map(kinds_of, pairs) for role, kind in kinds
              if not os.path.exists(recording_of(options, kind))}
    programs = {kind: Program([options.gridsmith, "trace", "--quiet", "-o", recording_of(options, kind), "--", sys.executable,
                               os.path.join(HERE, program), role], {}) for kind, (program, role) in wanted.items()}
    for kind, program in programs.items():
        program.tell("build", told_as(wanted, kind))
    until = time.monotonic() + options.limit
    built = [kind for kind in programs if is_built(kind, programs[kind], until)]  # all of them, before the first one plays
    began = {}
    for kind in built:
        try:
            began[kind] = time.time_ns()
            seconds = options.seconds * (REQUEST_TIMES if wanted[kind][1] == "serve" else 1)
            programs[kind].tell("play", told_as(wanted, kind), seconds)
            print(kind, str(programs[kind].answer(seconds + MORE_S))[:80], flush=True)
        except Lost as why:
            print(kind, why, flush=True)
    close_all(programs.values())
    for kind, unix_ns in began.items():
        keep_played(recording_of(options, kind), unix_ns)
    return 0


def keep_played(path, unix_ns):
    """Leaves out of a recording, if there is one, what was issued before a time: others used the GPU then, while they were built."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        head, *events = map(json.loads, file)
    from_us = (unix_ns - head["start_unix_ns"]) / 1e3
    events = [event for event in events if event.get("at_us", event.get("from_us", from_us)) >= from_us]
    known = {event.get("id") for event in events}
    for event in events:
        if "after" in event:
            event["after"] = [other for other in event["after"] if (other["id"] if isinstance(other, dict) else other) in known]
    with open(path, "w", encoding="utf-8") as file:
        for event in [head, *events]:
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


def is_built(kind, program, until):
    try:
        for _ in ("ready", "built"):
            print(kind, program.answer(max(until - time.monotonic(), 1)), flush=True)
        return True
    except Lost as why:
        print(kind, why, flush=True)
        return False


class Part:
    """Requests of a pair that are measured: PAIR[@PAUSE_MS]:SECONDS."""

    def __init__(self, words):
        name, _, seconds = words.partition(":")
        self.pair, _, pause = name.partition("@")
        self.name, self.seconds, self.pause_ms = name, float(seconds or 0), [float(pause)] if pause else []
        self.result = {"rounds": [], **({"every_us": 1e3 * float(pause)} if pause else {})}

    def count(self):
        return sum(len(answer.get("wall_ms", [])) for answers in self.result["rounds"] for answer in answers)

    def save(self, options):
        with open(os.path.join(options.results[0], self.name + ".json"), "w", encoding="utf-8") as file:
            json.dump({self.pair: {"ours-mps" + self.name.removeprefix(self.pair): self.result}}, file)

    def measure(self, start, seconds, options):
        until, count = time.monotonic() + seconds, options.count // (10 if self.pause_ms else 1)
        start.play("together", self.pair, WARM_S, *self.pause_ms)
        while self.count() < count and time.monotonic() + 1 < until:
            begun, had = time.monotonic(), self.count()
            wanted = self.result.get("each_s", 4e-4) * (count - had) * 1.05
            play_round(start, "together", self.pair, self.result, max(min(ROUND_S, wanted, until - time.monotonic()), 0.5), *self.pause_ms)
            self.result["each_s"] = (time.monotonic() - begun) / max(self.count() - had, 1)
            self.save(options)
        print(f"{self.name}: {self.count()} requests after {time.monotonic() - options.began:.0f} s", flush=True)


def start_programs(options, pairs):
    return Start("ours-mps", kinds_of(pairs[0])[0], [role for role, _ in kinds_of(pairs[0])[1]], options, None)


def measure_parts(options, start, parts):
    """Returns the parts that were not measured, because a program was lost."""
    try:
        start.wait()
        start.begin_build(list(dict.fromkeys(part.pair for part in parts)))
        start.end_build()
        print(f"built after {time.monotonic() - options.began:.0f} s", flush=True)
        while parts and time.monotonic() < options.ends:
            part = parts.pop(0)
            left_s = options.ends - time.monotonic()
            part.measure(start, min(max(part.seconds, left_s / (len(parts) + 1)), left_s), options)
        return []
    except Lost as why:
        start.lose(why)
        return parts


def measure(options):
    parts = [Part(words) for words in options.measure.split(",")]
    pairs = list(dict.fromkeys(part.pair for part in parts))
    options.gridsmith = os.path.abspath(options.gridsmith)
    options.began = time.monotonic()
    options.ends = options.began + options.measure_limit
    os.makedirs(options.results[0], exist_ok=True)
    start = start_programs(options, pairs)  # they use the GPU only when they are told to
    record(options, pairs)
    print(f"recorded after {time.monotonic() - options.began:.0f} s", flush=True)
    parts = measure_parts(options, start, parts)
    start.close()
    if parts:  # a program was lost: once more, without the part in which it was
        start = start_programs(options, pairs)
        measure_parts(options, start, parts)
        start.close()
    return 0


def unstopped_of(result):
    """Patterns of the kernels of which the daemon says why they cannot be stopped."""
    known = {kernel["name"] for program in result.get("programs", []) for kernel in program.get("long_kernels", []) if "why" in kernel}
    return ["*" + re.split("[<(]", name.replace("(anonymous namespace)::", ""))[0].split("::")[-1].split(" ")[-1] + "*" for name in sorted(known)]


def bound_of(options, request, work, result):
    """The bound of a request beside the work, as `gridsmith bound` prints it; or why there is none."""
    words = [options.gridsmith, "bound", "--run", recording_of(options, request), "--beside", recording_of(options, work), "--json",
             "--range", "request"]
    words += ["--latencies", options.latencies] if options.latencies else []
    words += ["--gpu", options.gpu] if options.gpu else []
    words += ["--every", str(round(result["every_us"]))] if "every_us" in result else []
    words += [word for pattern in options.unstopped + unstopped_of(result) for word in ("--unstopped", pattern)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["no answer"])[-1]
    return json.loads(done.stdout), None


def times_of(result, number):
    """The times of each request: for the host, on the GPU, and of its parts, if they were measured."""
    return [times for answers in result["rounds"] for times in zip(answers[number]["wall_ms"], answers[number]["gpu_ms"],
                                                                    answers[number].get("parts_ms", answers[number]["wall_ms"]))]


def cause_of(on_gpu, parts, answer):
    """Which part of a late request took longer than its part of the bound."""
    issued, first, rest = parts
    response_ms, request_ms = answer["response_us"] / 1e3, answer["request_us"] / 1e3
    if issued > response_ms:
        return "the host, issuing"
    if first > (answer["stop_us"] + answer["launch_us"]) / 1e3:
        return "its first kernel"
    if rest > request_ms:
        return "the host, issuing" if issued > request_ms else "its other kernels"
    return "the host, after the end" if on_gpu <= response_ms else "two parts together"


def show_causes(result, number, answer):
    """Prints why requests were late, and the longest of each cause."""
    causes = {}
    for wall, on_gpu, parts in times_of(result, number):
        if wall > answer["response_us"] / 1e3 and isinstance(parts, list):
            causes.setdefault(cause_of(on_gpu, parts, answer), []).append((wall, *parts))
    for cause, found in sorted(causes.items(), key=lambda item: -len(item[1])):
        wall, issued, first, rest = max(found)
        print(f"    {len(found)} late by {cause}; the longest: {wall:.3f} ms, issued after {issued:.3f}, first kernel {first:.3f}, others {rest:.3f}")


def show_pair(options, pair, modes):
    """Prints the modes of a pair. Returns how many requests took longer than their bound."""
    _, kinds = kinds_of(pair)
    works = [kind for role, kind in kinds if role == "work"]
    late = 0
    for mode, result in modes.items():
        if mode == "alone" or not result["rounds"] or len(works) != 1:
            continue
        for number in numbers_of(result, "wall_ms"):
            answer, why = bound_of(options, kinds[number][1], works[0], result)
            if why:
                print(f"{pair:18} {mode:14} {why}")
            else:
                late += show_requests(f"{pair:18} {mode:14}", result, number, answer)
    return late


def show_requests(name, result, number, answer):
    """Prints requests against their bound. Returns how many took longer."""
    times = of_all(result, number, "wall_ms")
    bound, unstopped = answer["response_us"] / 1e3, answer["unstopped_response_us"] / 1e3
    after = sum(time > bound for time in times)
    host = sum(time > bound >= on_gpu for time, on_gpu, _ in times_of(result, number))
    print(f"{name} {len(times):6} requests, p99.9 {percentile(times, 0.999):.3f} ms, longest {times[-1]:.3f} ms, "
          f"bound {bound:.3f} ms, {bound / percentile(times, 0.999):.2f} times p99.9, {bound / times[-1]:.2f} times the longest; "
          f"after it: {after}, of which {host} were done on the GPU by then; "
          f"if kernels do not stop: {unstopped:.3f} ms, after it {sum(time > unstopped for time in times)}")
    show_causes(result, number, answer)
    return after


def show_kept(path):
    """Prints a file of corpus/, which has for each pair its requests and their bound. Returns how many took longer."""
    with gzip.open(path, "rt") as file:
        kept = json.load(file)
    late = 0
    for pair, known in kept.items():
        for mode, result in known.get("modes", {known.get("mode", ""): known}).items():
            late += show_requests(f"{pair:18} {mode.partition(':')[0]:9}", {"rounds": [[result]]}, 0, known["bound"])
    return late


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--recordings")
    parser.add_argument("--kept", help="a file with requests and their bounds")
    parser.add_argument("--record", help="pairs whose programs are recorded")
    parser.add_argument("--measure", help="parts: PAIR[@PAUSE_MS]:SECONDS,...")
    parser.add_argument("--count", type=int, default=10000, help="requests of each part")
    parser.add_argument("--measure-limit", type=float, default=500, help="seconds after which no round begins")
    parser.add_argument("--results", nargs="+", help="files of neighbors.py or --measure, or with --measure a folder")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=60, help="seconds until all programs must be built")
    parser.add_argument("--gpu", help="default: the GPU of the recording")
    parser.add_argument("--latencies")
    parser.add_argument("--unstopped", action="append", default=[], help="kernels that do not stop, as `gridsmith status` names them")
    options = parser.parse_args()
    if options.kept:
        return 1 if show_kept(options.kept) else 0
    if not options.recordings:
        parser.error("give --recordings FOLDER, or --kept FILE")
    if options.record:
        return record(options, options.record.split(","))
    if not options.results:
        parser.error("give --record PAIRS, --measure PARTS, --results FILE or --kept FILE")
    if options.measure:
        return measure(options)
    late = 0
    for path in options.results:
        with open(path, encoding="utf-8") as file:
            late += sum(show_pair(options, pair, modes) for pair, modes in json.load(file).items() if pair in PAIRS)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
