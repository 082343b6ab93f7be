"""drawn.py: requests and work that nobody chose: programs drawn at random by a number, so that a figure of the benchmark can be had for
programs that Gridsmith was not made with.

Kind "drawn-N" is the same program each time: one to four kinds of parts (PARTS), of random shapes and types, in random order, each as
often as it takes to fill its share of a random time, by an estimate: what is drawn must not depend on what was measured.
"""
import math
import random

import torch
import torch.nn.functional as F

from models import DEVICE, Request, perceptron, training

TFLOPS = {"float16": 400, "bfloat16": 400, "float32": 40, "float64": 40}  # what a product reaches, about
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
GPU_BYTES_PER_US, HOST_BYTES_PER_US, LAUNCH_US = 3e6, 5e4, 4


def about(dice, low, high):
    """A whole number; small ones are as frequent as large ones. Half of them are powers of two."""
    number = math.exp(dice.uniform(math.log(low), math.log(high)))
    return 2 ** round(math.log2(number)) if dice.random() < 0.5 else round(number)


def tensor(kind, *shape):
    return torch.randn(*shape, device=DEVICE).to(getattr(torch, kind)) * 0.02


def time_of(flops, numbers, kind, launches=1):
    return LAUNCH_US * launches + max(flops / TFLOPS[kind] / 1e6, numbers * BYTES[kind] / GPU_BYTES_PER_US)


# ---- parts: each draws its shape, and returns about how long it takes in us, and a function that returns its step ----

def product(dice):
    kind, rows, inner, columns = dice.choice(list(TFLOPS)), *(about(dice, 32, 16384) for _ in range(3))

    def make():
        left, right = tensor(kind, rows, inner), tensor(kind, inner, columns)
        return lambda: left @ right

    return time_of(2 * rows * inner * columns, rows * inner + inner * columns + rows * columns, kind), make


def attention(dice):
    kind, batch, heads, tokens, width = (dice.choice(["float16", "bfloat16"]), about(dice, 1, 32), about(dice, 4, 32),
                                         about(dice, 64, 8192), dice.choice([64, 128]))

    def make():
        query, key, value = (tensor(kind, batch, heads, tokens, width) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(query, key, value)

    return time_of(4 * batch * heads * tokens ** 2 * width, 4 * batch * heads * tokens * width, kind), make


def convolution(dice):
    kind, images, channels, side, width = (dice.choice(["float16", "float32"]), about(dice, 1, 64), 8 * about(dice, 2, 64),
                                           about(dice, 7, 224), dice.choice([1, 3, 5]))
    groups = dice.choice([1, 1, channels])

    def make():
        inputs, weights = tensor(kind, images, channels, side, side), tensor(kind, channels, channels // groups, width, width)
        return lambda: F.relu(F.conv2d(inputs, weights, padding=width // 2, groups=groups))

    numbers = images * channels * side * side
    return time_of(2 * numbers * (channels // groups) * width * width, 4 * numbers, kind, 3), make


def pointwise(dice):
    kind, numbers = dice.choice(list(TFLOPS)), about(dice, 1 << 10, 1 << 28)

    def make():
        values = tensor(kind, numbers)
        return lambda: torch.tanh(values * 1.5 + 1)

    return time_of(0, 6 * numbers, kind, 3), make


def normalization(dice):
    kind, rows, width = dice.choice(["float16", "float32"]), about(dice, 16, 65536), about(dice, 32, 16384)

    def make():
        values = tensor(kind, rows, width)
        return lambda: F.softmax(F.layer_norm(values, (width,)), -1)

    return time_of(0, 4 * rows * width, kind, 2), make


def order(dice):
    numbers, what = about(dice, 1 << 12, 1 << 27), dice.choice([torch.sort, torch.argsort, lambda values: values.cumsum(0)])

    def make():
        values = tensor("float32", numbers)

        def step():
            found = what(values)
            return found if torch.is_tensor(found) else found[0]

        return step

    return time_of(0, 20 * numbers, "float32", 8), make


def transform(dice):
    rows, width = about(dice, 1, 4096), 2 ** dice.randint(8, 22)

    def make():
        values = tensor("float32", rows, width)
        return lambda: torch.fft.rfft(values).real

    return time_of(0, 8 * rows * width, "float32", 3), make


def look_up(dice):
    rows, width, count = about(dice, 1 << 10, 1 << 22), about(dice, 16, 512), about(dice, 1 << 8, 1 << 20)

    def make():
        table, places = tensor("float16", rows, width), torch.randint(0, rows, (count,), device=DEVICE)
        sums = torch.zeros(rows, width, device=DEVICE).half()
        return lambda: sums.index_add_(0, places, table[places])

    return time_of(0, 6 * count * width, "float16", 2), make


def transfer(dice):
    numbers = about(dice, 1 << 8, 1 << 26)

    def make():
        here, there = torch.randn(numbers).pin_memory(), torch.empty(numbers, device=DEVICE)

        def step():
            there.copy_(here, non_blocking=True)
            here.copy_(there, non_blocking=True)
            return there

        return step

    return LAUNCH_US * 2 + 8 * numbers / HOST_BYTES_PER_US, make


def recurrent(dice):
    batch, tokens, width = about(dice, 1, 128), about(dice, 8, 512), about(dice, 64, 2048)

    def make():
        model, inputs = torch.nn.GRU(width, width, batch_first=True).to(DEVICE).half(), tensor("float16", batch, tokens, width)
        return lambda: model(inputs)[0]

    return tokens * time_of(12 * batch * width * width, 6 * width * width, "float16", 3), make


def learning(dice):
    rows, widths = about(dice, 32, 16384), [about(dice, 64, 8192) for _ in range(dice.randint(2, 6))]
    optimizer = dice.choice([torch.optim.SGD, torch.optim.AdamW])

    def make():
        return training(perceptron(*widths).float(), tensor("float32", rows, widths[0]),
                        lambda output: output.float().pow(2).mean(), optimizer)

    flops = sum(6 * rows * entering * leaving for entering, leaving in zip(widths, widths[1:]))
    weights = sum(entering * leaving for entering, leaving in zip(widths, widths[1:]))
    return time_of(flops, 12 * weights, "bfloat16", 30 * len(widths)), make


PARTS = [product, attention, convolution, pointwise, normalization, order, transform, look_up, transfer, recurrent]


TRIES = 1000


def draw_part(dice, part, share_us):
    """As often as fills its share. Returns nothing where its smallest shapes take longer."""
    for _ in range(TRIES):
        us, make = part(dice)
        if share_us / 50 <= us <= share_us:
            return [make] * round(share_us / us)
    return []


def draw_steps(dice, parts, total_us):
    """Functions that make steps, in the order in which they are played: about `total_us` in all."""
    chosen, steps = dice.sample(parts, dice.randint(1, 4)), []
    for part in chosen:
        steps += draw_part(dice, part, total_us / len(chosen))
    if dice.random() < 0.5:
        dice.shuffle(steps)
    return steps or draw_steps(dice, parts, total_us)


def make_all(steps):
    """Each part is made once, however often it is played."""
    made = {make: make() for make in dict.fromkeys(steps)}

    def step():
        for make in steps:
            output = made[make]()
        return output

    return step


def with_short_answer(step):
    """Returns 16 numbers of the last output, as an answer that is copied to the host."""
    def short():
        output = step()
        return output[(0,) * (output.dim() - 1)][:16]

    return short


def request(kind):
    dice = random.Random(f"request {kind}")
    form, total_us = dice.choice(["graph", "graph", "tokens", "eager"]), math.exp(dice.uniform(math.log(300), math.log(15000)))
    count = dice.randint(4, 16) if form == "tokens" else 1
    steps = draw_steps(dice, PARTS, total_us / count)
    return Request(lambda: with_short_answer(make_all(steps)), form, count, total_us / 1e3, dice.choice(["uniform", "exponential"]))


def work(kind):
    dice = random.Random(f"work {kind}")
    steps = draw_steps(dice, [*PARTS, learning, learning], math.exp(dice.uniform(math.log(2000), math.log(60000))))
    return make_all(steps)
