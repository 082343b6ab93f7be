#!/usr/bin/env python3
"""draw.py: draws plans for recorder.cu, at random, from what docs/formats.md lets a run say.

    draw.py CLASS SEED COUNT [LIVE] > plans

A run repeats from its class, the seed and its number. Kernels keep at least LIVE words in registers (default 0; from 20 on
the other recorder can play them too). Classes: plain, graph, programmatic, cooperative, cluster, mixed, memory, green,
children (kernels that a kernel launches), and with times: cooperative-timed, cluster-timed, mixed-timed.
"""
import random
import sys

least_live = 0
LIVE = [0, 12, 20, 28, 36, 44, 60, 76, 92, 112, 140, 172, 204, 228]


def most_threads_of(live):
    """A quarter of the warps, rounded up, must find registers in a partition; a thread has up to 24 besides its words."""
    registers = min(256, (live + 24 + 7) // 8 * 8)
    return min(1024, 16384 // (32 * registers) * 4 * 32)


def draw_shape(rng, most_blocks=120):
    """The size of a kernel: any number of threads, blocks in up to three dimensions, odd shared memory."""
    live = max(least_live, rng.choice(LIVE))
    most_threads = most_threads_of(live)
    kind = rng.random()
    if kind < 0.4:
        threads = 32 * rng.randint(1, most_threads // 32)
    elif kind < 0.7:
        threads = rng.randint(1, most_threads)
    else:
        threads = rng.choice([t for t in (32, 64, 128, 160, 256, 512, 1024) if t <= most_threads])
    block = [threads, 1, 1]
    if rng.random() < 0.2:
        for y in (7, 5, 4, 3, 2):
            if threads % y == 0:
                block = [threads // y, y, 1]
                break
    blocks = max(1, int(most_blocks ** rng.random()))
    grid = [blocks, 1, 1]
    if rng.random() < 0.2:
        for y in (6, 5, 4, 3, 2):
            if blocks % y == 0:
                grid = [y, blocks // y, 1] if rng.random() < 0.5 else [1, y, blocks // y]
                break
    shared = 0
    if rng.random() < 0.45:
        shared = int(232448 ** rng.random()) if rng.random() < 0.7 else rng.choice([1024, 4096, 40000, 100000, 231000])
    return {"grid": grid, "block": block, "live": live, "shared": shared}


def words_of(keys):
    out = []
    for key, value in keys.items():
        out.append(f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}")
    return " ".join(out)


class Run:
    """A run being drawn: what was launched, and what may exit."""

    def __init__(self, rng, number, kind):
        self.rng, self.kind, self.lines, self.kernels, self.graphs = rng, kind, [f"run {number} {kind}"], [], 0
        self.streams, self.parent = {}, None

    def kernel(self, **keys):
        name = f"k{len(self.kernels)}"
        self.kernels.append({"name": name, "after": keys.get("after", []), "ended": False, "launched": False,
                             "stream": keys.get("stream"), "trigger": keys.get("trigger"), "triggered": False,
                             "programmatic": keys.get("programmatic", 0), "is_memory": "kind" in keys})
        self.lines.append(f"{'memory' if 'kind' in keys else 'kernel'} {name} {words_of(keys)}")
        return name

    def find(self, name):
        return self.kernels[int(name[1:])]

    def launch(self, name):
        kernel = self.find(name)
        kernel["launched"] = True
        if kernel["stream"] is not None:
            before = self.streams.setdefault(kernel["stream"], [])
            kernel["before"] = list(before)
            before.append(name)
        self.lines.append(f"launch {name}")

    def graph(self, names):
        for name in names:
            self.find(name)["launched"] = True
        self.lines.append(f"graph {self.graphs} {' '.join(names)}")
        self.graphs += 1

    def parents_ended(self, kernel):
        """Whether nothing that a node waits for still runs. A memory node ends when it can."""
        parents = [self.find(name) for name in kernel["after"]]
        return all(self.parents_ended(p) if p["is_memory"] else p["ended"] for p in parents)

    def runs(self, kernel):
        """Whether the kernel has surely started, if there is room."""
        if kernel["is_memory"] or not kernel["launched"] or kernel["ended"] or not self.parents_ended(kernel):
            return False
        before = kernel.get("before", [])
        if not before:
            return True
        last = self.find(before[-1])
        if kernel["programmatic"]:
            older = before[:-7]  # at most eight of a stream run at a time
            has_triggered = last["trigger"] == "early" or last["triggered"]
            return all(self.find(b)["ended"] for b in older) and (last["ended"] or (has_triggered and self.runs(last)))
        return all(self.find(b)["ended"] for b in before)

    def exit_one(self):
        running = [k for k in self.kernels if self.runs(k) and k["name"] != self.parent]
        if not running:
            return False
        kernel = self.rng.choice(running)
        kernel["ended"] = True
        self.lines.append(f"exit {kernel['name']}")
        return True

    def trigger_one(self):
        able = [k for k in self.kernels if k["trigger"] in ("late", "some") and not k["triggered"] and self.runs(k)]
        if not able:
            return False
        kernel = self.rng.choice(able)
        kernel["triggered"] = True
        self.lines.append(f"trigger {kernel['name']}")
        return True

    def text(self):
        return "\n".join(self.lines + ["end", ""])


def draw_plain(run, **more):
    keys = draw_shape(run.rng)
    if run.rng.random() < 0.15:
        keys["carveout"] = run.rng.randint(0, 100)
    if run.kind == "mixed" and run.rng.random() < 0.2:
        keys["priority"] = run.rng.randint(1, 5)
    keys.update(more)
    run.launch(run.kernel(**keys))


def draw_memory(rng):
    """A memset or a copy of 16 bytes to 1 MB."""
    return {"kind": rng.choice(["memset", "memset", "device_to_device", "host_to_device", "device_to_host"]),
            "bytes": 16 * int(65536 ** rng.random())}


def draw_graph(run):
    rng = run.rng
    names, count = [], rng.randint(2, 12)
    roots, edges = rng.choice([0.15, 0.3, 0.6]), rng.choice([1, 2, 4])
    memory = 0.35 if run.kind == "memory" else 0
    for i in range(count):
        keys = draw_memory(rng) if memory and i and rng.random() < memory else draw_shape(rng, 60)
        if i and rng.random() > roots:
            keys["after"] = rng.sample(names, min(len(names), rng.randint(1, edges)))
        names.append(run.kernel(**keys))
    run.graph(names)


def draw_green(run):
    draw_plain(run, green=run.rng.randrange(4))


def draw_child(run):
    """A kernel that another one launches. The first of a run launches all others of this kind."""
    rng = run.rng
    live = rng.choice([0, 36, 92])
    threads = rng.randint(1, most_threads_of(live))
    blocks = int(60 ** rng.random())
    shared = rng.choice([0, 0, int(40000 ** rng.random())])
    if not run.parent:
        run.parent = run.kernel(block=[32, 1, 1])
        run.launch(run.parent)
    run.launch(run.kernel(by=run.parent, grid=[blocks, 1, 1], block=[threads, 1, 1], live=live, shared=shared))


def draw_programmatic(run):
    rng = run.rng
    stream = rng.choice([0, 0, 0, 1, 2])
    keys = draw_shape(rng, 60)
    run.launch(run.kernel(stream=stream, programmatic=int(rng.random() < 0.7),
                          trigger=rng.choice(["early", "early", "late", "some", "never"]), **keys))


def draw_cooperative(run, **more):
    rng = run.rng
    keys = draw_shape(rng, 130)
    blocks = keys["grid"][0] * keys["grid"][1] * keys["grid"][2]
    keys.update(more)
    if blocks <= 132:
        keys["cooperative"] = 1
    run.launch(run.kernel(**keys))


def draw_cluster(run, **more):
    rng = run.rng
    size = rng.choice([2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16])
    keys = draw_shape(rng, 60)
    keys["grid"] = [size * rng.randint(1, max(1, 130 // size)), 1, 1]
    keys["cluster"] = size
    keys.update(more)
    run.launch(run.kernel(**keys))


def draw_steps(run, kinds, least, most, exits=0.4):
    rng = run.rng
    wanted, last = rng.randint(least, most), 60
    while len(run.kernels) < wanted and last:
        last -= 1
        if rng.random() < exits and run.kernels:
            if rng.random() < 0.3 and run.trigger_one():
                continue
            run.exit_one()
        else:
            rng.choice(kinds)(run)
    for _ in range(rng.randint(0, 12) if exits else 0):
        if not (rng.random() < 0.3 and run.trigger_one()) and not run.exit_one():
            break


def timed(draw):
    def draw_timed(run):
        draw(run, us=run.rng.randint(400, 800), spread=run.rng.randint(300, 1500))
    return draw_timed


MIX = [draw_plain, draw_graph, draw_programmatic, draw_programmatic, draw_programmatic, draw_cooperative, draw_cluster]
CLASSES = {
    "plain": ([draw_plain], 3, 14, 0.3),
    "graph": ([draw_graph, draw_plain, draw_plain], 4, 20, 0.5),
    "programmatic": ([draw_programmatic] * 4 + [draw_plain], 4, 14, 0.4),
    "cooperative": ([draw_cooperative, draw_plain], 3, 14, 0.3),
    "cluster": ([draw_cluster, draw_plain], 3, 12, 0.3),
    "mixed": (MIX, 4, 18, 0.45),
    "memory": ([draw_graph, draw_plain, draw_plain], 4, 20, 0.5),
    "children": ([draw_child, draw_plain], 4, 16, 0.3),
    "green": ([draw_green] * 3 + [draw_plain], 4, 18, 0.35),
    "cooperative-timed": ([timed(draw_cooperative), timed(draw_plain)], 4, 14, 0),
    "cluster-timed": ([timed(draw_cluster), timed(draw_plain)], 4, 14, 0),
    "mixed-timed": ([timed(draw_cluster), timed(draw_cooperative), timed(draw_plain), timed(draw_plain)], 4, 14, 0),
}


def main():
    global least_live
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in CLASSES:
        sys.exit(f"usage: draw.py CLASS SEED COUNT [LIVE]\nclasses: {' '.join(CLASSES)}")
    least_live = int(sys.argv[4]) if len(sys.argv) == 5 else 0
    kind, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    kinds, least, most, exits = CLASSES[kind]
    for number in range(count):
        run = Run(random.Random(f"{kind} {seed} {number}"), number, kind)
        draw_steps(run, kinds, least, most, exits)
        sys.stdout.write(run.text())


if __name__ == "__main__":
    main()
