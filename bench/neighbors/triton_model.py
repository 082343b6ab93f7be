"""triton_model.py: a model whose kernels are written in Triton: 12 layers of a normalization and two matrix products."""
import torch
import triton
import triton.language as tl

ROWS, WIDTH, LAYERS = 64, 1024, 12


@triton.jit
def normalize(x, y, WIDTH: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, WIDTH)
    value = tl.load(x + row * WIDTH + at).to(tl.float32)
    value -= tl.sum(value, 0) / WIDTH
    value /= tl.sqrt(tl.sum(value * value, 0) / WIDTH + 1e-5)
    tl.store(y + row * WIDTH + at, value.to(tl.float16))


@triton.jit
def multiply(x, w, y, inner, width, ACTIVATE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, part = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, K)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, inner, K):
        left = tl.load(x + rows[:, None] * inner + start + part[None, :])
        right = tl.load(w + columns[None, :] * inner + start + part[:, None])
        sums = tl.dot(left, right, sums)
    if ACTIVATE:
        sums = sums * tl.sigmoid(1.702 * sums)
    tl.store(y + rows[:, None] * width + columns[None, :], sums.to(tl.float16))


def forward():
    weight = lambda *shape: torch.randn(*shape, device="cuda").half() * 0.02
    stack = [(weight(4 * WIDTH, WIDTH), weight(WIDTH, 4 * WIDTH)) for _ in range(LAYERS)]
    state, normal, wide = weight(ROWS, WIDTH), weight(ROWS, WIDTH), weight(ROWS, 4 * WIDTH)

    def run():
        for up, down in stack:
            normalize[(ROWS,)](state, normal, WIDTH)
            multiply[(ROWS // 32, 4 * WIDTH // 64)](normal, up, wide, WIDTH, 4 * WIDTH, True, 32, 64, 64)
            multiply[(ROWS // 32, WIDTH // 64)](wide, down, state, 4 * WIDTH, WIDTH, False, 32, 64, 64)
        return state

    return run
