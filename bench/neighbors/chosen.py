"""chosen.py: the latency of requests and the throughput of best-effort work when `gridsmith run` chooses how they share the GPU.

    python3 bench/neighbors/chosen.py --gridsmith build/release/gridsmith [--pairs bert,vit,...,drawn-1] [--rounds 2]
        [--requests 250] [--seconds 4] [--starts 3] [--at-once 6] [--limit S] [--json FILE]

The pairs, and what is written, are those of neighbors.py; the mode is "ours". Each pair has a daemon of its own that keeps profiles,
and its programs are started up to --starts times: the first time the daemon gets to know them under MPS, later `gridsmith run` chooses by
that. The server plays alone for a moment, because the daemon compares. If `run` says when asked that it would do the same again,
the last measurement counts, and the programs are not started again. Whether the first one will be used is guessed from what the
daemon counts.

Most of the time would go into starts, so one process imports modules for all programs (nursery.py), and programs of several pairs
are built at the same time: --at-once pairs need memory of the GPU together. A round has about --requests requests, and takes
--seconds at most. With --limit S no round begins after S seconds. What was
counted at each start (`learned`), what `gridsmith run` said then that it would choose (`asked`), and what was measured at earlier
starts (`before`), is in the file, too.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from neighbors import (ALL, HEADER, HERE, MORE_S, Daemon, Program, Programs, Table, attempt, averages, close_all, decide, kinds_of,
                       play_round, programs_of, roles_of, show_round)

LEARN_S, MOST_LEARN_S, LEARN_REQUESTS, ALONE_REQUESTS = 0.6, 3.0, 160, 80
LEAST_S, WORK_S = 1.5, 1.0
PERIOD = 6  # a request and the pause behind it take about so many times its duration


class Nursery:
    """A process that starts programs, with the library of a daemon in front of the driver or without (nursery.py)."""

    def __init__(self, module, daemon=None):
        self.folder = tempfile.mkdtemp(prefix="gridsmith-nursery-")
        self.environment = {"NEIGHBORS_NURSERY": os.path.join(self.folder, "sock")}
        words = daemon.run("--best-effort") if daemon else []
        words += [sys.executable, os.path.join(HERE, "nursery.py"), self.environment["NEIGHBORS_NURSERY"], module]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE)
        while not os.path.exists(self.environment["NEIGHBORS_NURSERY"]):
            if self.process.poll() is not None:
                sys.exit("chosen.py: nursery.py has ended")
            time.sleep(0.05)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def command_of(file, role, kind):
    return [sys.executable, os.path.join(HERE, file), role, kind]


def seconds_of(program, requests, least, most):
    """How long it takes to have that many requests, within limits."""
    return min(max(requests * PERIOD * program.about_ms / 1e3, least), most)


def prefers_mps(known):
    """Whether `gridsmith run` will probably take MPS again. See src/sharing/serve/choice.c."""
    if known["lost_us"] is not None:
        return known["lost_us"] <= 166
    return known["late_percent"] <= 1


class Pair(Programs):
    """The programs of a pair, and a daemon that stays when they are started again."""

    def __init__(self, name, options):
        super().__init__(roles_of(name), [Daemon(options.gridsmith, has_profiles=True)])
        self.name, self.options, self.result, self.sharing, self.starts = name, options, None, [], 0
        self.learned, self.asked, self.before = [], [], []

    def commands(self):
        run = {"serve": "--latency", "work": "--best-effort"}
        return [self.daemons[0].run(run[role]) + command_of(programs_of(self.name)[0], role, kind) for role, kind in self.keys()]

    def begin(self, environment):
        self.environment, self.starts = environment, self.starts + 1
        self.programs = [Program(command, environment) for command in self.commands()]

    def keys(self):
        """The role and the kind of each program."""
        return list(zip(self.roles, kinds_of(self.name, self.roles)))

    def seconds(self, *limits):
        """Of a round with that many requests."""
        return max(seconds_of(program, *limits) for role, program in zip(self.roles, self.programs) if role == "serve")

    def is_in_time(self):
        return time.time() < self.options.ends and not self.is_lost

    def learn(self):
        """They play, and nothing is measured. Returns whether `gridsmith run` will probably choose the same again."""
        for program, (role, kind) in zip(self.programs, self.keys()):
            if role == "serve":
                program.tell("play", kind, seconds_of(program, ALONE_REQUESTS, 0.2, MOST_LEARN_S))
                program.answer(MOST_LEARN_S + MORE_S)
        before = self.status()
        self.play("together", self.name, self.seconds(LEARN_REQUESTS, LEARN_S, MOST_LEARN_S))
        after = self.status()
        self.sharing = sorted(program["sharing"] for program in after)
        self.learned.append({**decide(before, after), "programs": after})
        return all(sharing != "MPS" for sharing in self.sharing) or prefers_mps(self.learned[-1])

    def measure(self, table):
        self.before += [self.result] if self.result else []
        self.result = {"rounds": []}
        for _ in range(self.options.rounds):
            if self.is_in_time():
                attempt(self, play_round, self, "together", self.name, self.result,
                        self.seconds(self.options.requests, LEAST_S, self.options.seconds))
        if self.result["rounds"]:
            show_round(self.name, f"ours, {' and '.join(self.sharing)}", self.result)
        elif self.before:
            self.result = self.before.pop()
        self.publish(table)

    def try_first(self, table):
        if self.is_in_time() and self.learn():
            self.measure(table)

    def try_again(self, table):
        if self.is_in_time():
            self.learn()
            self.measure(table)

    def end(self):
        """The daemon stays. The server ends first, so that the daemon knows what the work has seen."""
        for program in self.programs:
            program.close()
        self.programs = []

    def ask(self):
        """How programs would share the GPU if they were started now."""
        if self.is_lost:
            return
        answers = [subprocess.run(command, env={**os.environ, **self.environment, "NEIGHBORS_ASK": "1"}, capture_output=True, text=True)
                   for command in self.commands()]
        self.asked.append([answer.stderr for answer in answers])

    def is_wanted(self):
        """Whether it is to be started again: what was measured is not what would be chosen now."""
        if self.starts == self.options.starts or not self.is_in_time():
            return False
        chosen = sorted("MPS" if "by MPS" in answer else "time slices" for answer in self.asked[-1])
        return chosen != self.sharing or not (self.result and self.result["rounds"])

    def publish(self, table):
        if self.result and self.result["rounds"]:
            table.add(self.name, "ours", {**self.result, "starts": self.starts, "learned": self.learned, "asked": self.asked,
                                           "before": self.before})
            table.save()


class Alone(Programs):
    """A program of a kind, without `gridsmith run`."""

    def __init__(self, file, role, kind, environment):
        super().__init__([role], [])
        self.role, self.kind = role, kind
        self.programs = [Program(command_of(file, role, kind), environment)]

    def begin_build(self):
        self.programs[0].tell("build", self.kind)
        self.programs[0].awaited = 1

    def measure(self, known, options):
        if time.time() < options.ends:
            program = self.programs[0]
            seconds = seconds_of(program, options.requests, LEAST_S, options.seconds) if self.role == "serve" else WORK_S
            program.tell("play", self.kind, seconds)
            known[self.role, self.kind] = program.answer(seconds + MORE_S)


def start_alone(pairs, known, environment):
    """Programs of all kinds of which nothing is known."""
    keys = dict.fromkeys((programs_of(pair.name)[0], *key) for pair in pairs for key in pair.keys() if key not in known)
    return [Alone(*key, environment) for key in keys]


def add_alone(pairs, known, table):
    for pair in pairs:
        if all(key in known for key in pair.keys()):
            table.add(pair.name, "alone", {"rounds": [[known[key] for key in pair.keys()]], "roles": pair.roles})
    table.save()


# ---- groups of pairs ----

def build(pairs, alone=()):
    """All at the same time, the work first: while a daemon has no latency program, its time slices are usual ones, and no kernel is
    timed beside those of other pairs."""
    for programs in [*pairs, *alone]:
        attempt(programs, programs.wait)
    for program in alone:
        attempt(program, program.begin_build)
    for role in ("work", "serve"):
        for pair in pairs:
            attempt(pair, pair.begin_build, [pair.name], role)
        for pair in pairs:
            attempt(pair, pair.end_build)
    for program in alone:
        attempt(program, program.end_build)


def say(options, what):
    print(f"{what} after {time.time() - options.began:.0f} s", file=sys.stderr, flush=True)


def together(pairs, action):
    """At the same time. Returns what each returns."""
    with ThreadPoolExecutor(len(pairs) or 1) as pool:
        return list(pool.map(action, pairs))


def measure_wave(again, new, known, nurseries, table, options):
    """Starts pairs, and measures them: those that are started again, which daemons know, and new ones."""
    pairs = again + new
    alone = start_alone(new, known, nurseries["plain"].environment)
    try:
        for pair in pairs:
            pair.begin(nurseries["run"].environment)
        build(pairs, alone)
        say(options, f"built {', '.join(pair.name for pair in pairs)}")
        for program in alone:
            attempt(program, program.measure, known, options)
        add_alone(new, known, table)
        say(options, "alone")
    finally:
        close_all(alone)
    for pair in again:
        attempt(pair, pair.try_again, table)
    for pair in new:
        attempt(pair, pair.try_first, table)
    together(pairs, Pair.end)
    time.sleep(0.2)  # the daemons notice that programs have ended
    together(pairs, Pair.ask)
    table.save()
    say(options, "measured")


def measure_waves(names, known, nurseries, table, options):
    """As many pairs at a time as the memory of the GPU holds. Those that `run` would start in another way now come first."""
    names, pairs, all_pairs = list(names), [], []
    try:
        while (names or pairs) and time.time() < options.ends:
            again, pairs = pairs[:options.at_once], pairs[options.at_once:]
            count = options.at_once - len(again)
            new, names = together(names[:count], lambda name: Pair(name, options)), names[count:]
            all_pairs += new
            measure_wave(again, new, known, nurseries, table, options)
            pairs += [pair for pair in again + new if pair.is_wanted()]
    finally:
        close_all(all_pairs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--pairs", default=ALL)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--requests", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("chosen.py: stopped"))  # the programs that it has started end, too
    options.began = time.time()
    options.ends = options.began + options.limit
    options.gridsmith = os.path.abspath(options.gridsmith)
    names = options.pairs.split(",")
    modules = {programs_of(name)[0].removesuffix(".py") for name in names}
    if len(modules) > 1:
        sys.exit("chosen.py: pairs with PyTorch and pairs without it need runs of their own")
    module, table, known = modules.pop(), Table(names, options), {}
    daemon = Daemon(options.gridsmith)
    nurseries = {"plain": Nursery(module), "run": Nursery(module, daemon)}
    print(HEADER, flush=True)
    try:
        measure_waves(names, known, nurseries, table, options)
    finally:
        close_all([*nurseries.values(), daemon])
    averages(table.results, "ours")
    say(options, "done")


if __name__ == "__main__":
    main()
