"""CuPy on two streams."""
import cupy as cp
x, y = cp.random.rand(1 << 22, dtype=cp.float32), cp.random.rand(1024, 1024, dtype=cp.float32)
a, b = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)


def one():
    z = x
    for _ in range(6):
        z = cp.sqrt(z) * 2 + x
    return z.sum()


def two():
    z = y
    for _ in range(6):
        z = cp.dot(z, y)
        z = z / 1000
    return z


for overlapped in [False] * 3 + [True] * 6:
    with a:
        one()
    if not overlapped:
        a.synchronize()
    with b:
        two()
    if not overlapped:
        b.synchronize()
cp.cuda.Device().synchronize()
