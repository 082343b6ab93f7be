"""neighbors.py: the latency of requests and the throughput of best-effort work when both share a GPU, in several modes.

    python3 bench/neighbors/neighbors.py --gridsmith build/release/gridsmith [--pairs bert,vit,...]
        [--modes alone+sliced+ours-slices+ours-mps,mps+priorities] [--rounds 5] [--seconds 1] [--warm 0.5] [--limit S]
        [--json FILE]

The pairs are in PAIRS, and the modes in MODES. In "alone", "run-alone" and "idle" the programs of a pair play one after the other: without
`gridsmith run`, with it, and with it while the other one is there and idle. "drawn-1", "drawn-2" and so on are pairs of random programs
(drawn.py): take numbers that nobody has looked at. Pairs that begin with "plain" need no PyTorch. "bert-training/prefill" and others
have two best-effort programs and no requests, and "three" has three; they need a run of their own. "four" has two programs of each
class, which play at the same time; it needs a run of its own. Prints medians of the rounds, and the least and greatest p99. Needs a
GPU, and for MPS nvidia-cuda-mps-control. It starts and stops `gridsmith serve` and MPS in folders of its own.

Results are written after each round of each mode. The programs of a mode are killed if one of them does not answer, after they
have printed their state on standard error; the mode is left out from then on. With --limit S no round begins after S seconds.

Modes that are joined by "+" are measured alternately, a round of each, so that modes which differ by a percent can be compared. The
programs of all of them need memory of the GPU at the same time.

chosen.py measures pairs for which `gridsmith run` chooses by itself.

Options of `gridsmith run --best-effort`, and variables, may follow a mode: ours-mps:--ahead=30:VARIABLE=VALUE. With "serve."
before them, they are for the server: ours-mps:serve.VARIABLE=VALUE; with "first.", for the first program that works:
ours-mps:first.--weight=200. A mode for some of the pairs only: ours-mps@bert/prefill.
"""
import argparse
import itertools
import json
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from percentiles import percentile
from table import compare, compare_work, numbers_of, of_all, of_rounds, steps_of

HERE = os.path.dirname(os.path.abspath(__file__))

# A pair: the file of its programs, the requests, the work beside them: a program for each.
PAIRS = {
    "bert": ("torch_program.py", "bert", "bert-training"),
    "resnet": ("torch_program.py", "resnet", "resnet-training"),
    "gpt2": ("torch_program.py", "gpt2", "bert-training"),
    "eager": ("torch_program.py", "bert-eager", "resnet-training"),
    "triton": ("torch_program.py", "triton", "bert-training"),
    "prefill": ("torch_program.py", "bert", "prefill"),
    "vit": ("torch_program.py", "vit", "gpt2-training"),
    "tokens": ("torch_program.py", "tokens", "gpt2-training"),
    "recommender": ("torch_program.py", "recommender", "long-kernels"),
    "convolutions": ("torch_program.py", "convolutions", "bert-graph"),
    "vit-long": ("torch_program.py", "vit", "long-kernels"),
    "recommender-lstm": ("torch_program.py", "recommender", "lstm-training"),
    "four": ("torch_program.py", "vit recommender", "gpt2-training lstm-training"),
    "three": ("torch_program.py", "", "gpt2-training lstm-training resnet-training"),
    "clock": ("torch_program.py", "bert+clock", "prefill"),
    "plain": ("plain_program.py", "plain", "plain-short"),
    "plain-long": ("plain_program.py", "plain", "plain-long"),
    "plain-graph": ("plain_program.py", "plain", "plain-graph"),
}

# Two programs of best-effort work.
PAIRS.update({f"{one}/{other}": ("torch_program.py", "", f"{one} {other}")
              for one in ("bert-training", "resnet-training", "gpt2-training")
              for other in ("lstm-training", "long-kernels", "prefill", "bert-graph")})

# A mode: how its programs are started, and whether they play together or one after the other.
MODES = {
    "alone": dict(start="plain", play="apart"),
    "sliced": dict(start="plain", play="together"),
    "mps": dict(start="mps", play="together"),
    "priorities": dict(start="priorities", play="together"),
    "ours-mps": dict(start="ours-mps", play="together"),
    "ours-slices": dict(start="ours-slices", play="together"),
    "ours-mixed": dict(start="ours-mixed", play="together"),
    "run-alone": dict(start="run-alone", play="apart"),
    "idle": dict(start="ours-mps", play="apart"),
    "two-mps": dict(start="two-mps", play="together"),
    "two-ours": dict(start="two-ours", play="together"),
}
ALL = "bert,resnet,gpt2,eager,triton,prefill,vit,tokens,recommender,convolutions,vit-long,recommender-lstm"
# Whether the programs use MPS and its priorities, and whether `gridsmith run` runs them: with one daemon, or each with its own; and
# its options, which may differ by role. The roles of the programs are those of the pair, or other ones.
STARTS = {
    "plain": dict(),
    "mps": dict(mps=True),
    "priorities": dict(mps=True, priorities=True),
    "ours-mps": dict(run="together", options=["--mps"]),
    "ours-slices": dict(run="together", options=["--no-mps"]),
    "ours-mixed": dict(run="together", options={"serve": ["--mps"], "work": ["--no-mps"]}),
    "run-alone": dict(run="apart"),
    "two-mps": dict(roles=("work", "work"), mps=True),
    "two-ours": dict(roles=("work", "work"), run="together", options=["--mps"]),
}


def programs_of(pair):
    """The file of its programs, the requests, the work. Pairs that are drawn have the same name for both."""
    return ("torch_program.py", pair, pair) if pair.startswith("drawn-") else PAIRS[pair]


def roles_of(pair):
    _, requests, work = programs_of(pair)
    return ("serve",) * len(requests.split()) + ("work",) * len(work.split())


def kinds_of(pair, roles):
    """What each program does."""
    _, requests, work = programs_of(pair)
    kinds = {"serve": itertools.cycle(requests.split()), "work": itertools.cycle(work.split())}
    return [next(kinds[role]) for role in roles]


def start_of(mode):
    """How the programs of a mode are started, with what follows the mode. Modes that start alike share their programs."""
    name, *words = mode.split("@")[0].split(":")
    return ":".join([MODES[name]["start"], *words])


def words_for(role, is_first, words):
    """What follows the mode, for a program of that role: the first that works, or another."""
    prefixes = {"serve": ("serve.",), "work": ("", "first.") if is_first else ("",)}[role]
    split = [("".join(word.partition(".")[:2]), word.partition(".")[2]) if word.startswith(("serve.", "first.")) else ("", word)
             for word in words]
    return [word for prefix, word in split if prefix in prefixes]


def options_of(how, role):
    given = how.get("options", [])
    return given[role] if isinstance(given, dict) else given


class Mps:
    """MPS in a folder of its own, until it is closed."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="gridsmith-mps-")
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.environment}, check=True)

    def close(self):
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env={**os.environ, **self.environment})
        shutil.rmtree(self.folder, ignore_errors=True)


class Daemon:
    """gridsmith serve at a socket of its own, with the CPU as its device: the programs use the real GPU directly."""

    def __init__(self, gridsmith, has_profiles=False):
        self.gridsmith = gridsmith
        self.folder = tempfile.mkdtemp(prefix="gridsmith-serve-")
        self.socket = os.path.join(self.folder, "sock")
        profiles = os.path.join(self.folder, "profiles.json") if has_profiles else ""
        self.process = subprocess.Popen([gridsmith, "serve", "--device", "host", "--profiles", profiles, "--socket", self.socket],
                                        stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            if self.process.poll() is not None:
                sys.exit("neighbors.py: gridsmith serve has ended")
            time.sleep(0.05)

    def run(self, *words):
        return [self.gridsmith, "run", "--socket", self.socket, *words, "--"]

    def status(self):
        try:
            text = subprocess.run([self.gridsmith, "status", "--json", "--socket", self.socket], capture_output=True,
                                  text=True, timeout=END_S).stdout
        except subprocess.TimeoutExpired:
            text = ""
        return json.loads(text or "{}").get("programs", [])

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Lost(Exception):
    """A program has ended, or does not answer."""


START_S, BUILD_S, MORE_S, END_S = 60, 60, 12, 5  # how long programs may take to start, to build, longer than they play, to end


class Program:
    """A process that obeys commands (commands.py)."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def tell(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Lost(f"{' '.join(self.process.args)} has ended")

    def answer(self, seconds):
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise Lost(f"{' '.join(self.process.args)} did not answer within {seconds:.0f} s")
        if not line:
            raise Lost(f"{' '.join(self.process.args)} has ended")
        return json.loads(line)

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(END_S)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Programs:
    """Programs that play with each other, and the daemons that they have. They use the GPU only when told to."""

    def __init__(self, roles, daemons):
        self.roles, self.daemons, self.programs, self.is_lost = roles, daemons, [], False

    def wait(self):
        """Waits until all have imported their modules, because imports would disturb measurements."""
        for program in self.programs:
            program.answer(START_S)

    def begin_build(self, pairs, role=None):
        """Each program, or each of that role, builds all it needs, at the same time as others."""
        for number, program in enumerate(self.programs):
            kinds = {kinds_of(pair, self.roles)[number] for pair in pairs if role in (None, self.roles[number])}
            for kind in kinds:
                program.tell("build", kind)
            program.awaited = len(kinds)

    def end_build(self):
        for program in self.programs:
            for _ in range(program.awaited):
                answer = program.answer(BUILD_S)
                program.about_ms = answer.get("about_ms", 1)
                if "failed" in answer:
                    print(answer["failed"], flush=True)

    def play(self, how, pair, seconds, *pause_ms):
        """One round, with the least pause between requests. Returns the answer of each program."""
        for program, kind in zip(self.programs, kinds_of(pair, self.roles)):
            program.tell("play", kind, seconds, *pause_ms)
            if how == "apart":
                program.last = program.answer(seconds + MORE_S)
        return [program.last if how == "apart" else program.answer(seconds + MORE_S) for program in self.programs]

    def status(self):
        return [program for daemon in self.daemons for program in daemon.status()]

    def close(self):
        for part in self.programs + self.daemons:
            part.close()
        self.programs, self.daemons = [], []

    def lose(self, why):
        """Ends all programs, because one is lost."""
        print(why, flush=True)
        for program in self.programs:
            program.process.send_signal(signal.SIGUSR1)  # it prints the stacks of its threads
        time.sleep(0.3)
        for program in self.programs:
            program.process.kill()
        self.is_lost = True
        self.close()


class Start(Programs):
    """The programs of a mode. They are started early, because importing takes long."""

    def __init__(self, key, file, roles, options, mps):
        name, *words = key.split(":")
        how = STARTS[name]
        run, roles = how.get("run"), how.get("roles", roles)
        super().__init__(roles, [Daemon(options.gridsmith) for _ in range({"together": 1, "apart": len(roles)}.get(run, 0))])
        self.is_sliced = bool(run) and "--mps" not in options_of(how, "work")
        for number, role in enumerate(self.roles):
            command = [sys.executable, os.path.join(HERE, file), role]
            environment = dict(mps.environment) if how.get("mps") else {}
            if how.get("priorities"):
                command += ["--priority"] if role == "serve" else []
                environment.update({"CUDA_MPS_CLIENT_PRIORITY": "1"} if role == "work" else {})
            if run:
                given = words_for(role, role == "work" and "work" not in roles[:number], words)
                options_given = [word for word in given if word.startswith("-")]
                environment.update(word.split("=", 1) for word in given if not word.startswith("-"))
                daemon = self.daemons[number % len(self.daemons)]
                command = daemon.run("--latency" if role == "serve" else "--best-effort", *options_of(how, role),
                                     *options_given) + command
            self.programs.append(Program(command, environment))


def warm(start, mode, pair, seconds):
    """`gridsmith run` learns how long kernels take."""
    if start.daemons:
        start.play(kind_of(mode)["play"], pair, seconds)


def attempt(start, action, *arguments):
    """Does something with the programs of a mode, unless one of them is lost. What fails here must not end the others."""
    if not start.is_lost:
        try:
            action(*arguments)
        except Lost as why:
            start.lose(why)
        except Exception:
            traceback.print_exc()


def count_since(before, after, kind, number_of):
    """The sum over the programs of a class of what has been counted since."""
    old = {program["process"]: number_of(program) for program in before if program["class"] == kind}
    return sum(number_of(program) - old.get(program["process"], 0) for program in after if program["class"] == kind)


def decide(before, after):
    """What `run` decides by: what requests lose, if it is measured; and the part of the best-effort work, in percent, in which a request
    would wait for long."""
    late, work = (count_since(before, after, "best-effort", lambda program: program[key]) for key in ("late_ns", "work_ns"))
    requests = [program["requests"] for program in after if program["class"] == "latency"]
    return {"late_percent": 100 * late / work if work else 0,
            "lost_us": max((each["lost_us"] for each in requests if "lost_us" in each), default=None)}


def play_round(start, how, pair, result, seconds, *pause_ms):
    before = start.status()
    answers = start.play(how, pair, seconds, *pause_ms)
    if all(answer.get("wall_ms", True) for answer in answers):  # on a busy machine there may have been no request
        result["rounds"].append(answers)
    result["roles"], result["programs"] = start.roles, start.status()
    result.update(decide(before, result["programs"]))


def failure(result):
    return next((answer["failed"] for answers in result["rounds"] for answer in answers if "failed" in answer), None)


def show_round(pair, mode, result):
    """Prints the results of the last round on standard error."""
    answers = result["rounds"][-1] if result["rounds"] else []
    times = sorted(time for answer in answers for time in answer.get("wall_ms", []))
    steps = sum(answer.get("steps_per_s", 0) for answer in answers)
    print(f"{pair} {mode} round {len(result['rounds'])}: p99 {percentile(times, 0.99) if times else 0:.3f} ms, "
          f"{steps:.2f} steps/s", file=sys.stderr, flush=True)


class Table:
    """All results, and the rows that are printed."""

    def __init__(self, pairs, options):
        self.results, self.options = {pair: {} for pair in pairs}, options

    def add(self, pair, mode, result):
        failed, alone = failure(result), self.results[pair].get("alone")
        if failed:
            print(f"| {pair} | {mode} | failed: {failed} |", flush=True)
        else:
            self.results[pair][mode] = result
            print(row(pair, mode, result, alone if alone and alone["rounds"] else result), flush=True)

    def save(self, results=None):
        """Writes all results, also of incomplete rounds, so that stopping this program loses nothing."""
        if self.options.json:
            everything = {pair: dict(modes) for pair, modes in self.results.items()}
            for (pair, mode), result in (results or {}).items():
                everything[pair][mode] = result
            with open(self.options.json, "w") as output:
                json.dump(everything, output)


def kind_of(mode):
    return MODES[mode.split("@")[0].split(":")[0]]


def is_measured(mode, pair):
    return "@" not in mode or pair in mode.split("@")[1].split("/")


def build(starts, pairs):
    """All at the same time; but those of `gridsmith run` without MPS one after the other: their time slices are so short that the GPU
    would do nothing but switch between them."""
    together = [start for start in starts if not start.is_sliced]
    for group in [together, *([start] for start in starts if start.is_sliced)]:
        for start in group:
            attempt(start, start.begin_build, pairs)
        for start in group:
            attempt(start, start.end_build)


def measure(starts, group, pairs, table, options):
    """A round of each mode and pair, then the next round: slow changes of the machine affect all of them."""
    results = {(pair, mode): {"rounds": []} for pair in pairs for mode in group if is_measured(mode, pair)}
    for pair, mode in results:
        attempt(starts[start_of(mode)], warm, starts[start_of(mode)], mode, pair, options.warm)
    for _ in range(options.rounds):
        for (pair, mode), result in results.items():
            if time.time() < options.ends:
                start = starts[start_of(mode)]
                attempt(start, play_round, start, kind_of(mode)["play"], pair, result, options.seconds)
                table.save(results)
                show_round(pair, mode, result)
    for (pair, mode), result in results.items():
        if result["rounds"]:
            table.add(pair, mode, result)
    table.save()


def close_all(parts):
    with ThreadPoolExecutor(len(parts) or 1) as pool:
        list(pool.map(lambda part: part.close(), parts))


def measure_all(starts, groups, pairs, table, options):
    """Programs use memory of the GPU only while their groups are measured."""
    built = set()
    for number, group in enumerate(groups):
        keys = list(dict.fromkeys(start_of(mode) for mode in group))
        later = {start_of(mode) for other in groups[number + 1:] for mode in other}
        build([starts[key] for key in keys if key not in built], pairs)
        print(f"built after {time.time() - options.began:.0f} s", file=sys.stderr, flush=True)
        built.update(keys)
        measure(starts, group, pairs, table, options)
        for key in keys:
            if key not in later:
                starts[key].close()


# ---- output ----

def row(pair, mode, result, alone):
    """For each program with requests: p50 and p99, p99 of the least and the greatest round, p99.9, times on the GPU, p99 of alone; for
    each that works: steps per second, and the share that was kept."""
    text = f"| {pair} | {mode} "
    for number in numbers_of(result, "wall_ms"):
        wall, gpu = of_all(result, number, "wall_ms"), of_all(result, number, "gpu_ms")
        p99s = of_rounds(result, number, "wall_ms", 0.99)
        base = statistics.median(of_rounds(alone, number, "wall_ms", 0.99))
        text += (f"| {percentile(wall, 0.5):.3f} | {statistics.median(p99s):.3f} | {min(p99s):.3f}-{max(p99s):.3f} "
                 f"| {percentile(wall, 0.999):.3f} | {percentile(gpu, 0.5):.3f} | {percentile(gpu, 0.99):.3f} "
                 f"| {statistics.median(p99s) / base:.2f}x ")
        clocks = sorted(mhz for answers in result["rounds"] for mhz in answers[number].get("mhz", []))
        if clocks:
            text = (f"{mode}: the clock of the GPU in a request, MHz: {percentile(clocks, 0.5):.0f} (median), {clocks[0]:.0f} to "
                    f"{clocks[-1]:.0f}\n" + text)
    for number in numbers_of(result, "steps_per_s"):
        steps = [answers[number]["steps_per_s"] for answers in result["rounds"]]
        works = numbers_of(alone, "steps_per_s")
        base = steps_of(alone, number if number in works else works[0])
        text += f"| {statistics.median(steps):.2f} ({min(steps):.2f}-{max(steps):.2f}) | {100 * statistics.median(steps) / base:.0f}% "
    return text + "|"


HEADER = ("| pair | mode | wall p50 ms | wall p99 | of rounds | p99.9 | GPU p50 | GPU p99 | p99 of alone | steps/s | kept |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")


def averages_of_work(results, mode):
    """Of pairs without requests: the work of both programs, as a part of what one alone would do in this time."""
    sums = [sum(compare_work(modes[mode], modes["alone"])) for modes in results.values()
            if mode in modes and "alone" in modes and not numbers_of(modes[mode], "wall_ms")]
    if sums and mode != "alone":
        print(f"{mode}: {statistics.mean(sums):.0f}% of the work of one program alone in both on average, {min(sums):.0f}% to "
              f"{max(sums):.0f}%", flush=True)


def averages(results, mode):
    found = [compare(modes[mode], modes["alone"]) for modes in results.values()
             if mode in modes and "alone" in modes and numbers_of(modes[mode], "wall_ms")]
    if found:
        ratios, kept = zip(*found)
        print(f"{mode}: p99 {statistics.mean(ratios):.2f}x on average, {max(ratios):.2f}x at most; "
              f"{statistics.mean(kept):.0f}% kept", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--pairs", default=ALL)
    parser.add_argument("--modes", default="alone+sliced+ours-slices+ours-mps,mps+priorities")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--warm", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("neighbors.py: stopped"))  # the programs that it has started end, too
    options.began = time.time()
    options.ends = options.began + options.limit
    options.gridsmith = os.path.abspath(options.gridsmith)
    pairs, groups = options.pairs.split(","), [group.split("+") for group in options.modes.split(",")]
    modes = [mode for group in groups for mode in group]
    files = {programs_of(pair)[0] for pair in pairs}
    if len(files) > 1:
        sys.exit("neighbors.py: pairs with PyTorch and pairs without it need runs of their own")
    if len({roles_of(pair) for pair in pairs}) > 1:
        sys.exit("neighbors.py: pairs with more programs than others need runs of their own")
    file, began = files.pop(), options.began
    mps = Mps() if any(STARTS[kind_of(mode)["start"]].get("mps") for mode in modes) else None
    starts, table = {}, Table(pairs, options)
    try:
        for key in dict.fromkeys(start_of(mode) for mode in modes):
            starts[key] = Start(key, file, roles_of(pairs[0]), options, mps)
        for start in starts.values():
            attempt(start, start.wait)
        print(f"started after {time.time() - began:.0f} s\n\n{HEADER}", flush=True)
        measure_all(starts, groups, pairs, table, options)
    finally:
        close_all(starts.values())
        if mps:
            mps.close()
    for mode in modes:
        averages(table.results, mode)
        averages_of_work(table.results, mode)
    print(f"{time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
