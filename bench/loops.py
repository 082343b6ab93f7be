#!/usr/bin/env python3
"""Random loops against what `gridsmith bound` says about their rounds: nothing may run more often than it says.

  python3 bench/loops.py [--kernels 1000] [--seed 1] [--gridsmith build/release/gridsmith] [--input 0]

A kernel is drawn as a tree: up to three nested loops whose counters have 16, 32 or 64 bits, are signed or not, and are
added to, subtracted from, shifted, multiplied, or several of these; that begin and end with numbers, parameters, numbers of
threads or counters of outer loops; that are tested at the begin, the end or in the middle, with any comparison, also of another width; and that
are left early. It is written as PTX, which ptxas assembles, at any level of optimization, and executed here for each thread, from the tree, up to a
number of steps. Loops are not unrolled: ptxas does that as if counters never went around, and leaves out rounds that the PTX has. So nothing is
shared with the program but the kernel. Stores that count have lines of their own: a line must not be executed
more often by a thread than `bound --instructions` says it is by a warp. Kernels that are refused count by themselves.
With --input N, every Nth kernel also runs on the CPU, and its rounds come from there.

The exit code is 1 if something runs more often. FOLDER keeps such kernels (--keep).
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

MOST_STEPS, BATCH = 700, 50
COMPARISONS = {"lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
               "ne": lambda x, y: x != y, "eq": lambda x, y: x == y}
SPECIAL = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536, (1 << 31) - 1,
           1 << 31, (1 << 31) + 1, (1 << 32) - 1, (1 << 32) - 2, (1 << 32) - 5, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 3]


class TooLong(Exception):
    """A thread has made MOST_STEPS steps."""


class Left(Exception):
    """A thread has returned."""


def wrap(value, bits, signed):
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def number(dice):
    return dice.choice(SPECIAL) if dice.random() < 0.5 else dice.randrange(0, dice.choice([4, 10, 40, 300, 70000]))


class Kernel:
    """Draws a kernel; its tree executes itself, and writes itself as PTX."""

    def __init__(self, dice, name):
        self.dice, self.name = dice, name
        self.parameters = [number(dice) & 0xffffffff if i < 2 else number(dice) for i in range(3)]
        self.is_plain = dice.random() < 0.75  # counters that a person could have written, most of the time
        self.threads, self.blocks = dice.choice([32, 32, 64, 7, 1]), dice.choice([1, 1, 2, 5])
        self.registers, self.marks, self.labels = collections.Counter(), 0, 0
        self.body = [self.draw_loop(1, []) for _ in range(dice.choice([1, 1, 2]))]
        self.lines, self.text = {}, []

    def new(self, bits):
        self.registers[bits] += 1
        return f"%v{bits}_{self.registers[bits] - 1}"

    # ---- drawing: what a node does to a thread's registers, and its PTX ----

    def draw_leaf(self, bits, outer):
        """A value: PTX that writes it to a register, and a function of the state."""
        dice, into, kind = self.dice, self.new(bits), self.dice.random()
        if kind < 0.45:
            value = (dice.randrange(60) if self.is_plain and dice.random() < 0.8 else number(dice)) & ((1 << bits) - 1)
            return into, [f"mov.b{bits} {into}, {wrap(value, bits, True)};"], lambda state: value
        if kind < 0.6:
            index = 2 if bits == 64 else dice.randrange(2)
            value = self.parameters[index] & ((1 << bits) - 1)
            source = {16: f"cvt.u16.u32 {into}, %pa{index};", 32: f"mov.b32 {into}, %pa{index};", 64: f"mov.b64 {into}, %pc;"}[bits]
            return into, [source], lambda state: value
        if kind < 0.85 or not outer:
            times, plus, special = dice.choice([1, 1, 2, 3, -1, 16]), dice.choice([0, 0, 1, 5, -3]), dice.choice(["tid", "tid", "ctaid"])
            temporary = self.new(32)
            lines = [f"mov.u32 {temporary}, %{special}.x;", f"mad.lo.s32 {temporary}, {temporary}, {times}, {plus};",
                     {16: f"cvt.u16.u32 {into}, {temporary};", 32: f"mov.b32 {into}, {temporary};", 64: f"cvt.s64.s32 {into}, {temporary};"}[bits]]
            return into, lines, lambda state: wrap(wrap(state[special] * times + plus, 32, True), bits, False)
        other, other_bits = dice.choice(outer)
        plus = dice.choice([0, 1, 2, -1, 10])
        kind, signed = dice.choice("us"), 0
        signed = kind == "s"
        convert = f"cvt.{kind}{bits}.{kind}{other_bits} {into}, {other};" if bits != other_bits else f"mov.b{bits} {into}, {other};"
        return into, [convert, f"add.s{bits} {into}, {into}, {plus};"], lambda state: wrap(wrap(state[other], other_bits, signed) + plus, bits, False)

    def draw_update(self, counter, bits, outer):
        dice, kind = self.dice, self.dice.random()
        sign = dice.choice("us")
        mask = (1 << bits) - 1
        if self.is_plain:
            kind = kind * 0.9 if dice.random() < 0.6 else 0
        if kind < 0.55:
            step = dice.choice([1, 1, 1, 2, 3, 4, 7, 8, 100, 1 << 20, -1, -1, -2, -3, -16]) if dice.random() < 0.9 else number(dice)
            step = wrap(step, bits, True)
            return [f"add.{sign}{bits} {counter}, {counter}, {step};"], lambda state: state[counter] + step & mask
        if kind < 0.63:
            step, lines, value = self.draw_leaf(bits, outer)
            word, way = dice.choice([("add", 1), ("sub", -1)])
            return lines + [f"{word}.{sign}{bits} {counter}, {counter}, {step};"], lambda state: state[counter] + way * value(state) & mask
        if kind < 0.73:
            shift = dice.choice([1, 1, 2, 3, bits - 1])
            return [f"shl.b{bits} {counter}, {counter}, {shift};"], lambda state: state[counter] << shift & mask
        if kind < 0.86:
            shift = dice.choice([1, 1, 2, 3, bits - 1])
            return ([f"shr.{sign}{bits} {counter}, {counter}, {shift};"],
                    lambda state: wrap(state[counter], bits, sign == "s") >> shift & mask)
        if kind < 0.95:
            times, plus = dice.choice([2, 3, 5, -1, -2, 10]), dice.choice([0, 0, 1, -1, 7])
            return ([f"mul.lo.{sign}{bits} {counter}, {counter}, {times};", f"add.{sign}{bits} {counter}, {counter}, {plus};"],
                    lambda state: state[counter] * times + plus & mask)
        what = wrap(number(dice), bits, True)
        word = dice.choice(["xor", "and", "or"])
        act = {"xor": lambda x: x ^ what, "and": lambda x: x & what, "or": lambda x: x | what}[word]
        return ([f"{word}.b{bits} {counter}, {counter}, {what};", f"add.{sign}{bits} {counter}, {counter}, 1;"],
                lambda state: (act(state[counter]) & mask) + 1 & mask)

    def draw_test(self, counter, bits, limit, way=("lt", "le", "ne", "gt", "ge")):
        """PTX that sets a predicate if the loop goes on, and a function of the state; `limit` is a register."""
        dice, predicate = self.dice, self.new("p")
        word = dice.choice(["lt", "lt", "le", "gt", "ge", "ne", "ne", "ne", "eq"])
        kind, plus = dice.choice("us"), dice.choice([0, 0, 0, 0, 1, -1, 4])
        width = dice.choice([w for w in (16, 32, 64) if w != bits]) if dice.random() < (0.03 if self.is_plain else 0.12) else bits
        if self.is_plain and dice.random() < 0.85:
            word, plus = dice.choice(way), 0
        moved, edge = self.new(width), self.new(width)
        lines = [f"cvt.{kind}{width}.{kind}{bits} {moved}, {counter};" if width != bits else f"mov.b{bits} {moved}, {counter};",
                 f"cvt.{kind}{width}.{kind}{bits} {edge}, {limit};" if width != bits else f"mov.b{bits} {edge}, {limit};"]
        lines += [f"add.{kind}{width} {moved}, {moved}, {plus};"] if plus else []
        lines += [f"setp.{word}.{kind if word not in ('ne', 'eq') else dice.choice('us')}{width} {predicate}, {moved}, {edge};"]
        signed, compare = kind == "s", COMPARISONS[word]

        def value(state):
            x = wrap(wrap(state[counter], bits, signed) + plus, width, signed)
            return compare(x, wrap(wrap(state[limit], bits, signed), width, signed))
        return predicate, lines, value

    def draw_mark(self):
        self.marks += 1
        return ("mark", self.marks - 1)

    def draw_loop(self, depth, outer):
        dice, bits = self.dice, self.dice.choice([32] * (16 if self.is_plain else 4) + [16, 64, 64])
        counter, begin, first = self.draw_leaf(bits, outer)
        limit, end, last = self.draw_leaf(bits, outer)
        inside = outer + [(counter, bits)]
        updates = [self.draw_update(counter, bits, outer) for _ in range(dice.choice([1, 1, 1, 1, 1, 1, 2] if self.is_plain else [1, 1, 1, 2]))]
        grows = wrap(updates[0][1](collections.defaultdict(int, {counter: 20, "tid": 3, "ctaid": 1})), bits, True) > 20
        node = {"counter": counter, "begin": begin, "first": first, "limit": limit, "end": end, "last": last,
                "test": self.draw_test(counter, bits, limit, ["lt", "le", "ne"] if grows else ["gt", "ge", "ne"]), "at": dice.choice(["begin", "end", "end", "middle"]),
                "updates": updates,
                "body": [self.draw_mark()], "early": None, "moving": None}
        if depth < 3 and dice.random() < 0.4:
            node["body"].append(self.draw_loop(depth + 1, inside))
        if dice.random() < 0.25:
            other, lines, value = self.draw_leaf(bits, outer)
            node["early"] = (lines, value, other, self.draw_test(counter, bits, other), dice.choice(["break", "break", "return"]))
        if dice.random() < (0.05 if self.is_plain else 0.2):
            node["moving"] = self.draw_update(limit, bits, outer)
        node["labels"] = (self.labels, self.labels + 1)
        self.labels += 2
        return node

    # ---- executing ----

    def run(self, thread, block):
        """How often a thread executes each mark."""
        counts, state = [0] * self.marks, collections.defaultdict(int, tid=thread, ctaid=block)
        self.left = MOST_STEPS
        try:
            for node in self.body:
                self.run_node(node, state, counts)
            return counts, True
        except Left:
            return counts, True
        except TooLong:
            return counts, False

    def run_all(self):
        """The most of all threads of some blocks, and whether all of them ended."""
        ran, is_whole = [0] * self.marks, True
        for thread in range(self.threads):
            for block in {0, self.blocks // 2, self.blocks - 1}:
                counts, ended = self.run(thread, block)
                ran, is_whole = [max(pair) for pair in zip(ran, counts)], is_whole and ended
        return ran, is_whole

    def run_node(self, node, state, counts):
        if isinstance(node, tuple):
            counts[node[1]] += 1
            return
        state[node["counter"]], state[node["limit"]] = node["first"](state), node["last"](state)
        goes_on = node["test"][2]
        while True:
            self.left -= 1
            if self.left < 0:
                raise TooLong
            if node["at"] == "begin" and not goes_on(state):
                return
            if node["early"]:
                _, value, other, test, how = node["early"]
                state[other] = value(state)
                if test[2](state):
                    if how == "return":
                        raise Left
                    return
            for inner in node["body"]:
                self.run_node(inner, state, counts)
            if node["at"] == "middle" and not goes_on(state):
                return
            for _, update in node["updates"]:
                state[node["counter"]] = update(state)
            if node["moving"]:
                state[node["limit"]] = node["moving"][1](state)
            if node["at"] == "end" and not goes_on(state):
                return

    # ---- PTX ----

    def write(self, first_line):
        """The text; its first line has this number."""
        self.text = [f".visible .entry {self.name}(.param .u64 out, .param .u32 pa0, .param .u32 pa1, .param .u64 pc)", "{",
                     ".reg .b64 %out, %pc;", ".reg .b32 %pa<2>, %one;"]
        self.text += [f".reg .{'pred' if bits == 'p' else f'b{bits}'} %v{bits}_<{count}>;" for bits, count in self.registers.items()]
        self.text += ["ld.param.u64 %out, [out];", "cvta.to.global.u64 %out, %out;", "ld.param.u32 %pa0, [pa0];", "ld.param.u32 %pa1, [pa1];",
                      "ld.param.u64 %pc, [pc];", "mov.u32 %one, 1;"]
        self.first_line = first_line
        for node in self.body:
            self.write_node(node)
        self.text += ["ret;", "}", ""]
        return self.text

    def write_node(self, node):
        if isinstance(node, tuple):
            self.lines[node[1]] = self.first_line + len(self.text)
            self.text.append(f"st.volatile.global.u32 [%out+{4 * node[1]}], %one;")
            return
        again, over = (f"$L{self.name}_{label}" for label in node["labels"])
        predicate, test, _ = node["test"]
        self.text += node["begin"] + node["end"] + [again + ":", '.pragma "nounroll";']
        if node["at"] == "begin":
            self.text += test + [f"@!{predicate} bra {over};"]
        if node["early"]:
            lines, _, _, (leaves, early, _), how = node["early"]
            self.text += lines + early + [f"@{leaves} ret;" if how == "return" else f"@{leaves} bra {over};"]
        for inner in node["body"]:
            self.write_node(inner)
        if node["at"] == "middle":
            self.text += test + [f"@!{predicate} bra {over};"]
        for lines, _ in node["updates"]:
            self.text += lines
        self.text += node["moving"][0] if node["moving"] else []
        self.text += test + [f"@{predicate} bra {again};"] if node["at"] == "end" else [f"bra {again};"]
        self.text.append(over + ":")

    def launch(self):
        a, b, c = self.parameters
        return {"schema": "gridsmith.launch/1", "grid": [self.blocks, 1, 1], "block": [self.threads, 1, 1], "shared_bytes": 0,
                "arguments": [{"buffer": "float32", "count": 64, "fill": "zero"}, {"int32": wrap(a, 32, True)}, {"int32": wrap(b, 32, True)},
                              {"int64": wrap(c, 64, True)}]}


def check(options, folder, path, kernel, with_input):
    """What was found: a word, and for what runs too often a sentence."""
    launch = os.path.join(folder, kernel.name + ".json")
    with open(launch, "w", encoding="utf-8") as file:
        json.dump(kernel.launch(), file)
    words = [options.gridsmith, "bound", path if with_input else path + ".cubin", "--kernel", kernel.name, "--launch", launch, "--gpu", "h200",
             "--instructions", "--json"] + (["--input"] if with_input else [])
    ran, is_whole = kernel.run_all()
    if with_input and not is_whole:
        return "too long for the CPU", None
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        return ("refused: " + re.sub(r"0x[0-9a-f]+|\d+", "N", why.split(": ", 2)[-1])[:90], None) if done.returncode == 1 or "refuse" in why or \
            "not known" in why or "no bound" in why or "--input" in " ".join(words) else (f"FAILED {done.returncode}", why)
    answer = json.loads(done.stdout)
    most = collections.Counter()
    for row in answer["rows"]:
        most[row["line"]] += row["instructions"]
    for mark, count in enumerate(ran):
        if count > most[kernel.lines[mark]]:
            return "BROKEN", f"line {kernel.lines[mark]} runs {count} times{'' if is_whole else ' or more'}, said: {most[kernel.lines[mark]]}"
    exact = is_whole and all(count == most[kernel.lines[mark]] for mark, count in enumerate(ran))
    return "exact" if exact else "more" if is_whole else "more, of a long one", None


def run_batch(options, number):
    """Draws a batch of kernels from its number, and checks it. Returns counts and the sentences of what is broken."""
    dice, found, broken = random.Random(f"{options.seed}:{number}"), collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        head, kernels = [".version 8.0", ".target sm_90", ".address_size 64", ""], []
        for index in range(BATCH):
            kernel = Kernel(dice, f"k{number}_{index}")
            kernels.append(kernel)
            head += kernel.write(len(head) + 1)
        path = os.path.join(folder, "loops.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(head))
        level = dice.choice(["-O3", "-O3", "-O3", "-O2", "-O1"])
        done = subprocess.run(["ptxas", "-arch=sm_90", level, "-lineinfo", path, "-o", path + ".cubin"], capture_output=True, text=True)
        if done.returncode:
            return collections.Counter({"not assembled": BATCH}), [done.stderr[:500]]
        for index, kernel in enumerate(kernels):
            for with_input in [False, True] if options.input and index % options.input == 0 else [False]:
                word, why = check(options, folder, path, kernel, with_input)
                found[("input: " if with_input else "") + word] += 1
                if why:
                    broken.append(f"{kernel.name} (seed {options.seed}, {level}{', input' if with_input else ''}): {why}")
        if broken and options.keep:
            os.makedirs(options.keep, exist_ok=True)
            for name in os.listdir(folder):
                os.replace(os.path.join(folder, name), os.path.join(options.keep, f"{number}-{name}"))
    return found, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--input", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep")
    options = parser.parse_args()
    found, broken = collections.Counter(), []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for more, sentences in pool.map(run_batch, [options] * (-(-options.kernels // BATCH)), range(-(-options.kernels // BATCH))):
            found.update(more)
            broken += sentences
            for sentence in sentences:
                print(sentence, flush=True)
    for word, count in found.most_common():
        print(f"{count:7} {word}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
