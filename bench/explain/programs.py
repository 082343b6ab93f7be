"""Programs that `gridsmith explain` was tried on, each with changes that it predicts: how long a step takes.

    python3 programs.py list [seen|fresh|later|all] the programs and their changes
    python3 programs.py PROGRAM record [wait]       the unchanged program, to be recorded: gridsmith trace -o FILE -- ...
    python3 programs.py PROGRAM profile FILE        the same, as a trace of the PyTorch profiler
    python3 programs.py PROGRAM measure             a JSON line for each change, and the unchanged program beside it
    python3 programs.py measure FILE SECONDS [wait] the same for the lines of FILE, {"program":, "changes": [], "advice": []}: all
                                                    changes (null: of the program), and the first advice that there is a variant of

With `wait`, PyTorch is loaded and the GPU is opened, and then a line of standard input awaited: so programs start together, and
run one after the other. unseen.py has more programs, and is called in the same way.

A change is named as `--what-if` names it. A step is timed without a profiler: many steps, one synchronization, seven rounds, and
before each round one of the unchanged program, as hosts are not always equally fast; medians and both ends are printed. The rules of what-ifs were made with the measurements of the programs that are `seen`, and
later of those that are `fresh`; those that are `later` had no part in them. "host=never-late" is measured by a kernel that holds the stream while the host issues
the steps behind it, without what it waits for after a step.
"""
import contextlib
import json
import os
import signal
import sys
import time

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # then `communicate` does not run
    triton = None

HALF = dict(device="cuda", dtype=torch.half)
ROUNDS = 7


# ---- how a step is run ----

def plain(step, count):
    for i in range(count):
        step(i)


def graphed(step):
    """The step as a CUDA graph, which is launched instead."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for i in range(3):
            step(i)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(0)

    def replay(_, kept=step):  # the graph reads its tensors, which must not become those of another program
        graph.replay()
    return replay


def in_turn(steps, streams):
    """Steps on several streams in turn."""
    def run(i):
        with torch.cuda.stream(streams[i % len(streams)]):
            steps[i % len(streams)](i)
    return run


def timed(step, count):
    """How long a step takes, in us."""
    began = time.perf_counter()
    plain(step, count)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count * 1e6


def ahead(step, count):
    """The same, if the host is never late: it issues `count` steps while a kernel holds the stream."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(int(60e-3 * 1.8e9))
    first.record()
    plain(step, count)
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / count * 1e3


@contextlib.contextmanager
def confined(context):
    """In a green context; None: in none."""
    if context:
        context.set_context()
    try:
        yield
    finally:
        torch.cuda.synchronize()
        if context:
            context.pop_context()


def spread(name, times):
    """Their median and both ends."""
    times = sorted(times)
    return {name + "_us": round(times[len(times) // 2], 2), name + "_least_us": round(times[0], 2),
            name + "_most_us": round(times[-1], 2)}


# ---- the programs: make(change) returns a step; `changes` are measured; `issue` is how many launches a step has at most ----

class Program:
    steps = 40      # measured together
    ahead_steps = 3  # issued behind one kernel: at most 1,024 launches may wait
    recorded = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112", "sms=64"]
    after = None    # what follows a step, and cannot be a part of its graph
    is_independent = True  # of the step before it

    def make(self, change):
        raise NotImplementedError

    def here(self, change):
        """The change; some depend on the GPU."""
        return change

    def has_variant(self, change):
        """Whether the change can be measured."""
        parts = change.split(",")
        return change in self.changes or all(
            part in ("graph", "host=never-late") or (part == "streams=2" and self.is_independent) for part in parts)

    def whole(self, step):
        """The step with what follows it."""
        after = self.after
        if not after:
            return step

        def run(i):
            step(i)
            after()
        return run


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, past=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).unbind(2)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        y = torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Decode(Program):
    """A decode step of a model of GPT-2's size: batch 1, 256 tokens before it. Limited by the host."""
    def make(self, change):
        blocks = torch.nn.ModuleList(Block(768, 12) for _ in range(12)).half().cuda().eval()
        head = torch.nn.Linear(768, 50257, bias=False).half().cuda()
        x = torch.randn(1, 1, 768, **HALF)
        past = [[torch.randn(1, 256, 12, 64, **HALF) for _ in range(2)] for _ in range(12)]

        def step(_):
            with torch.no_grad():
                y = x
                for block, kept in zip(blocks, past):
                    y = block(y, kept)
                return head(y).argmax(-1)
        return step


class Encode(Program):
    """Inference of a large batch. Limited by the GPU."""
    steps, recorded = 12, 8

    def make(self, change):
        blocks = torch.nn.ModuleList(Block(1024, 16) for _ in range(8)).half().cuda().eval()
        head = torch.nn.Linear(1024, 1000).half().cuda()
        x = torch.randn(16, 512, 1024, **HALF)

        def step(_):
            with torch.no_grad():
                y = x
                for block in blocks:
                    y = block(y)
                return head(y.mean(1)).softmax(-1)
        return step


class Serve(Program):
    """Requests one after the other: a small batch, and its result is copied to the host, which waits for it."""
    is_independent = False
    changes = ["graph", "sms=112", "sms=64"]

    def make(self, change):
        blocks = torch.nn.Sequential(*(Block(1024, 16) for _ in range(6)), torch.nn.Linear(1024, 16)).half().cuda().eval()
        x = torch.randn(8, 256, 1024, **HALF)
        result = torch.empty(8, 256, 16, **HALF)

        def step(_):
            with torch.no_grad():
                result.copy_(blocks(x))

        self.after = lambda: result.cpu()
        return step


def training_step(blocks, optimizer, x):
    """Its parts are ranges of NVTX."""
    named = torch.cuda.nvtx.range

    def step(_):
        with named("forward"), torch.autocast("cuda", torch.bfloat16):
            loss = blocks(x).float().pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        with named("backward"):
            loss.backward()
        with named("optimizer"):
            optimizer.step()
    return step


class Train(Program):
    """A training step of a small transformer with Adam. Limited by the host."""
    ahead_steps, is_independent = 2, False
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        blocks = torch.nn.Sequential(*(Block(512, 8) for _ in range(4))).cuda()
        optimizer = torch.optim.Adam(blocks.parameters(), lr=1e-5, capturable=True, foreach=True)
        return training_step(blocks, optimizer, torch.randn(8, 128, 512, device="cuda"))


class Branches(Program):
    """Two independent branches in one stream: small matrix products, and sorting and softmax of another tensor."""
    changes = ["graph", "host=never-late", "streams=*softmax*+*vectorized*", "graph,streams=*softmax*+*vectorized*",
               "sms=112", "streams=2", "graph,streams=2"]

    def make(self, change):
        a, b = torch.randn(1024, 1024, **HALF), torch.randn(1024, 1024, **HALF)
        table = torch.randn(4096, 512, device="cuda")
        side = torch.cuda.Stream()

        def products():
            y = a
            for _ in range(8):
                y = torch.mm(y, b)
            return y

        def softmaxes():
            z = table
            for _ in range(8):
                z = torch.softmax(z, -1)
                z = z * 1.5
            return z

        def step(_):
            with torch.no_grad():
                if "softmax" not in change:
                    products()
                    softmaxes()
                    return
                main = torch.cuda.current_stream()
                side.wait_stream(main)
                with torch.cuda.stream(side):
                    softmaxes()
                products()
                main.wait_stream(side)
        return step


class Recommend(Program):
    """A recommender: a batch is copied to the GPU, looked up in tables and goes through a small network."""
    changes = ["host=never-late", "streams=copy", "streams=2", "sms=112", "graph"]

    def make(self, change):
        tables = [torch.randn(200000, 64, device="cuda") for _ in range(8)]
        layers = torch.nn.Sequential(torch.nn.Linear(8 * 64 + 256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512),
                                     torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
        batch = 8192
        dense = torch.randn(batch, 256).pin_memory()
        sparse = torch.randint(0, 200000, (8, batch)).pin_memory()
        buffers = [(torch.empty(batch, 256, device="cuda"), torch.empty(8, batch, dtype=torch.long, device="cuda"))
                   for _ in range(2)]
        copier = torch.cuda.Stream()

        def compute(kept):
            found = [torch.nn.functional.embedding(kept[1][t], tables[t]) for t in range(8)]
            return torch.sigmoid(layers(torch.cat(found + [kept[0]], 1)))

        def bring(kept):
            kept[0].copy_(dense, non_blocking=True)
            kept[1].copy_(sparse, non_blocking=True)

        done = [None, None]

        def step(i):
            with torch.no_grad():
                kept = buffers[i % 2 if change.startswith("streams") else 0]
                if change != "streams=copy":
                    bring(kept)
                    compute(kept)
                    return
                if done[i % 2]:
                    copier.wait_event(done[i % 2])
                with torch.cuda.stream(copier):
                    bring(kept)
                torch.cuda.current_stream().wait_stream(copier)
                compute(kept)
                done[i % 2] = torch.cuda.Event()
                done[i % 2].record()
        return step


if triton:
    @triton.jit
    def exchange(source, target, count, BLOCK: tl.constexpr):
        for at in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
            offsets = at + tl.arange(0, BLOCK)
            tl.store(target + offsets, tl.load(source + offsets, mask=offsets < count) + 1, mask=offsets < count)


class Communicate(Program):
    """Matrix products, and kernels of 24 blocks that move memory, as a collective does: each waits for a product, and is
    issued behind the next one."""
    changes = ["graph", "host=never-late", "priority=exchange:-1", "order=exchange:first", "streams=1", "sms=112"]

    def make(self, change):
        weights = [torch.randn(4096, 4096, **HALF) for _ in range(6)]
        x = torch.randn(2048, 4096, **HALF)
        source, target = torch.zeros(16 << 20, device="cuda"), torch.empty(16 << 20, device="cuda")
        side = torch.cuda.Stream(priority=-1 if change.startswith("priority") else 0)
        is_first = change.startswith("order")

        def communicate(event):
            if change == "streams=1":
                exchange[(24,)](source, target, source.numel(), BLOCK=8192, num_warps=16)
                return
            side.wait_event(event)
            with torch.cuda.stream(side):
                exchange[(24,)](source, target, source.numel(), BLOCK=8192, num_warps=16)

        def step(_):
            with torch.no_grad():
                main = torch.cuda.current_stream()
                y, late = x, None
                for weight in weights:
                    y = torch.mm(y, weight)
                    done = torch.cuda.Event()
                    done.record()
                    if late:
                        communicate(late)
                    late = None if is_first else done
                    if is_first:
                        communicate(done)
                if late:
                    communicate(late)
                main.wait_stream(side)
        return step


# ---- programs that no rule was made with ----

class Vision(Program):
    """Inference of a convolutional network: two branches of convolutions that are added."""
    changes = ["graph", "host=never-late", "streams=2"]

    def make(self, change):
        def branch(width):
            layers = [torch.nn.Conv2d(3, width, 7, 2, 3)]
            for _ in range(8):
                layers += [torch.nn.Conv2d(width, width, 3, 1, 1), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
            return torch.nn.Sequential(*layers).half().cuda().eval().to(memory_format=torch.channels_last)
        one, two = branch(64), branch(64)
        x = torch.randn(16, 3, 112, 112, **HALF).to(memory_format=torch.channels_last)

        def step(_):
            with torch.no_grad():
                return (one(x) + two(x)).mean((2, 3)).softmax(-1)
        return step


class Recurrent(Program):
    """A recurrent network, cell by cell: many small products. Limited by the host."""
    ahead_steps = 1
    changes = ["graph", "host=never-late"]

    def make(self, change):
        cell = torch.nn.GRUCell(256, 512).half().cuda()
        xs = torch.randn(48, 32, 256, **HALF)
        start = torch.zeros(32, 512, **HALF)

        def step(_):
            with torch.no_grad():
                state = start
                for x in xs:
                    state = cell(x, state)
                return state.softmax(-1)
        return step


class Tune(Program):
    """A training step of a large batch. Limited by the GPU."""
    steps, recorded, ahead_steps, is_independent = 12, 8, 2, False
    changes = ["graph", "host=never-late"]

    def make(self, change):
        blocks = torch.nn.Sequential(*(Block(1024, 16) for _ in range(4))).cuda()
        optimizer = torch.optim.SGD(blocks.parameters(), lr=1e-5, foreach=True)
        return training_step(blocks, optimizer, torch.randn(16, 512, 1024, device="cuda"))


if triton:
    @triton.jit
    def work(source, target, count, rounds, BLOCK: tl.constexpr):
        for at in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
            offsets = at + tl.arange(0, BLOCK)
            value = tl.load(source + offsets, mask=offsets < count)
            for _ in range(rounds):
                value = value * 1.000001 + 0.5
            tl.store(target + offsets, value, mask=offsets < count)


class Worker(Program):
    """Base of programs with the kernel `work`, whose blocks share its work evenly."""
    def compile_work(self):
        """How many of its blocks the GPU holds at once."""
        self.data = torch.zeros(264 * 16 * 1024, device="cuda")
        kernel = self.run_work(1)
        gpu, threads = torch.cuda.get_device_properties(0), 32 * 32
        registers = (kernel.n_regs + 7) // 8 * 8
        return gpu.multi_processor_count * min(2048 // threads, 65536 // (registers * threads))

    def run_work(self, blocks):
        return work[(blocks,)](self.data, self.data, self.data.numel(), 4000, BLOCK=1024, num_warps=32)

    def has_variant(self, change):
        number = change[len("blocks=work:"):] if change.startswith("blocks=work:") else ""
        return number.isdigit() or super().has_variant(change)


class Tail(Worker):
    """A kernel whose last wave is nearly empty, beside small ones."""
    changes = ["blocks=work:full"]

    def make(self, change):
        capacity = self.compile_work()
        blocks = 300
        if change.startswith("blocks"):
            number = change.rsplit(":", 1)[1]
            blocks = int(number) if number.isdigit() else blocks // capacity * capacity
        x = torch.randn(1024, 1024, **HALF)

        def step(_):
            self.run_work(blocks)
            return torch.mm(x, x)
        return step


class Margin(Worker):
    """A kernel as large as the GPU, and after each of these one of 24 blocks that moves memory, beside the next; at last a product."""
    changes = ["blocks=work:N", "streams=1"]

    def here(self, change):
        return "blocks=work:%d" % (self.compile_work() * 108 // 132) if change == "blocks=work:N" else change

    def make(self, change):
        blocks = self.compile_work()
        if change.startswith("blocks"):
            blocks = int(change.rsplit(":", 1)[1])
        source, target = torch.zeros(4 << 20, device="cuda"), torch.empty(4 << 20, device="cuda")
        x = torch.randn(1024, 1024, **HALF)
        side = torch.cuda.current_stream() if change == "streams=1" else torch.cuda.Stream()

        def step(_):
            main = torch.cuda.current_stream()
            for _ in range(6):
                self.run_work(blocks)
                side.wait_stream(main)
                with torch.cuda.stream(side):
                    exchange[(24,)](source, target, source.numel(), BLOCK=8192, num_warps=16)
            main.wait_stream(side)
            return torch.mm(x, x)
        return step


# ---- programs that no rule was made with, measured after those ----

class Experts(Program):
    """A mixture of experts: each token goes through two of eight small networks, one after the other. Limited by the host."""
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2"]

    def make(self, change):
        router = torch.nn.Linear(512, 8).half().cuda()
        experts = [torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.SiLU(), torch.nn.Linear(1024, 512)).half().cuda()
                   for _ in range(8)]
        x = torch.randn(256, 512, **HALF)

        def step(_):
            with torch.no_grad():
                y = x
                for _ in range(2):
                    weights = router(y).softmax(-1)
                    kept = torch.topk(weights, 2).values[:, 1:]
                    weights = weights * (weights >= kept)
                    y = y + sum(weights[:, i:i + 1] * expert(y) for i, expert in enumerate(experts))
                return y
        return step


class Frames(Program):
    """Pictures are copied to the GPU, filtered, and copied back."""
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2"]

    def make(self, change):
        source = torch.randint(0, 256, (8, 3, 540, 960), dtype=torch.uint8).pin_memory()
        result = torch.empty(8, 3, 540, 960, dtype=torch.uint8).pin_memory()
        blur = torch.nn.Conv2d(3, 3, 9, padding=4, groups=3, bias=False).cuda()

        def step(_):
            with torch.no_grad():
                picture = source.to("cuda", non_blocking=True).float()
                sharp = picture + 0.5 * (picture - blur(picture))
                result.copy_(sharp.clamp(0, 255).to(torch.uint8), non_blocking=True)
        return step


class Search(Program):
    """The nearest vectors of a table, by products and a selection. Limited by the GPU."""
    steps = 20
    changes = ["host=never-late", "streams=2", "sms=112", "graph"]

    def make(self, change):
        table = torch.nn.functional.normalize(torch.randn(100000, 384, **HALF), dim=1)
        queries = torch.randn(64, 384, **HALF)

        def step(_):
            with torch.no_grad():
                found = torch.topk(torch.nn.functional.normalize(queries, dim=1) @ table.T, 16)
                return table[found.indices].mean(1)
        return step


PROGRAMS = {"decode": Decode, "encode": Encode, "serve": Serve, "train": Train, "branches": Branches, "recommend": Recommend,
            "communicate": Communicate}
FRESH = {"vision": Vision, "recurrent": Recurrent, "tune": Tune, "tail": Tail, "margin": Margin}
LATER = {"experts": Experts, "frames": Frames, "search": Search}
SETS = {"seen": PROGRAMS, "fresh": FRESH, "later": LATER}
ALL = {**PROGRAMS, **FRESH, **LATER}


def prepared(program, parts):
    """The program with a change: a function that runs some steps, and returns how long one took."""
    torch.manual_seed(0)
    steps = [program.make(parts[-1] if "streams" in parts[-1] else parts[0]) for _ in range(2 if "streams=2" in parts else 1)]
    if "graph" in parts:  # a graph of its own for each stream: one graph does not run beside itself
        steps = [graphed(step) for step in steps]
    step = steps[0]
    if "streams=2" in parts:
        step = in_turn(steps, [torch.cuda.Stream(), torch.cuda.Stream()])
    is_ahead = "host=never-late" in parts
    step = step if is_ahead else program.whole(step)
    plain(step, 4)
    torch.cuda.synchronize()
    return lambda: ahead(step, program.ahead_steps) if is_ahead else timed(step, program.steps)


def measure_change(name, program, unchanged, change, **more):
    parts = change.split(",")
    sms = [int(part[4:]) for part in parts if part.startswith("sms=")]
    context = None
    if sms:
        from torch.cuda.green_contexts import GreenContext
        context = GreenContext.create(num_sms=sms[0], device_id=0)
    with confined(context):
        changed = prepared(program, parts)
    before, times = [], []
    for _ in range(ROUNDS):
        before.append(unchanged())
        with confined(context):
            times.append(changed())
    print(json.dumps(dict(program=name, change=change, **spread("step", times), **spread("unchanged", before), **more)), flush=True)


def chosen(program, changes, advice):
    """What is measured: changes, and the place of each among the advice (0: none)."""
    wanted = [program.here(change) for change in changes]
    made = [change for change in advice if program.has_variant(change)][:1]
    wanted += [change for change in made if change not in wanted]
    return [(change, advice.index(change) + 1 if change in made else 0) for change in wanted]


def measure(name, program, changes, advice=()):
    """Each change beside the unchanged program."""
    unchanged = prepared(program, [""])
    began = time.perf_counter()
    while time.perf_counter() - began < 1:
        unchanged()
    for change, place in chosen(program, changes, list(advice)):
        try:
            measure_change(name, program, unchanged, change, advice=place)
        except Exception as problem:  # a change that this PyTorch cannot make
            print(json.dumps(dict(program=name, change=change, error=str(problem)[:200])), flush=True)


def measure_list(path, seconds):
    """Each program in a process of its own: a graph that cannot be made breaks the next ones. None takes longer than this."""
    for line in open(path):
        row = json.loads(line)
        child = os.fork()
        if child:
            status = os.waitpid(child, 0)[1]
            if status:
                print(json.dumps(dict(program=row["program"], error="ended with %d" % status)), flush=True)
            continue
        signal.alarm(seconds)
        program = ALL[row["program"]]()
        measure(row["program"], program, program.changes if row["changes"] is None else row["changes"], row["advice"])
        sys.exit(0)


def await_line():
    torch.cuda.init()
    print("ready", flush=True)
    sys.stdin.readline()


def record(program, path):
    torch.manual_seed(0)
    step = program.whole(program.make(""))
    plain(step, 4)
    torch.cuda.synchronize()
    began = time.perf_counter()
    if path:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for i in range(program.recorded):
                step(i)
                profiler.step()
            torch.cuda.synchronize()
        profiler.export_chrome_trace(path)
    else:
        plain(step, program.recorded)
        torch.cuda.synchronize()
    print("step_us %.1f" % ((time.perf_counter() - began) / program.recorded * 1e6), flush=True)


def main():
    if sys.argv[1] == "list":
        for name, program in SETS.get(sys.argv[2] if len(sys.argv) > 2 else "seen", ALL).items():
            print(name, " ".join(program.changes))
        return
    if sys.argv[1] == "measure":
        if sys.argv[-1] == "wait":
            sys.stdin.readline()  # the GPU is opened by each child
        measure_list(sys.argv[2], int(sys.argv[3]))
        return
    name, mode = sys.argv[1], sys.argv[2]
    program = ALL[name]()
    if sys.argv[-1] == "wait":
        await_line()
    if mode == "measure":
        measure(name, program, program.changes)
    else:
        record(program, sys.argv[3] if mode == "profile" else None)


if __name__ == "__main__":
    main()
