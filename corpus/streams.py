"""Programs whose kernels run beside each other: python3 streams.py MODE...  A pause of 0.3 s separates the modes."""
import os
import sys
import time
import torch

torch.manual_seed(0)
half = dict(device="cuda", dtype=torch.half)
main, side, third, urgent = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream(priority=-1)


def play(parts, rounds):
    """Each part alone twice, then all together."""
    for _ in range(3):
        for stream, part in parts:
            with torch.cuda.stream(stream):
                part()
            torch.cuda.synchronize()
    for _ in range(rounds):
        for stream, part in parts:
            with torch.cuda.stream(stream):
                part()
        torch.cuda.synchronize()
    for _ in range(rounds):  # not synchronized
        for stream, part in parts:
            with torch.cuda.stream(stream):
                part()
    torch.cuda.synchronize()


def transformer():
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0, activation="gelu")
    made = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).half().eval().cuda()
    x = torch.randn(4, 128, 512, **half)
    return lambda: made(x)


def transformers():
    def other():
        y = torch.randn(2048, 2048, device="cuda")
        (y @ y).softmax(-1).sum()
    play([(main, transformer()), (urgent, other)], 6)


def gemms():
    a, b = torch.randn(4096, 4096, **half), torch.randn(1024, 1024, **half)
    c, d = torch.randn(512, 2048, **half), torch.randn(2048, 512, **half)

    def large():
        for _ in range(4):
            torch.mm(a, a)

    def middle():
        for _ in range(8):
            torch.mm(b, b)

    def small():
        for _ in range(12):
            torch.mm(c, d)
    play([(main, large), (side, middle), (third, small)], 6)


def copies():
    x, w = torch.randn(8192, 1024, **half), torch.randn(1024, 1024, **half)
    host = torch.randn(8 << 20).pin_memory()
    there, back = torch.empty(8 << 20, device="cuda"), torch.empty(8 << 20).pin_memory()

    def compute():
        y = x
        for _ in range(6):
            y = torch.nn.functional.gelu(y @ w)

    def bring():
        there.copy_(host, non_blocking=True)
        there.mul_(2)

    def take():
        back.copy_(there, non_blocking=True)
    play([(main, compute), (side, bring), (third, take)], 6)


def branches():
    x, w, f = torch.randn(1024, 1024, **half), torch.randn(1024, 1024, **half), torch.randn(4096, 1024, device="cuda")
    ran = transformer()
    with torch.cuda.stream(main):
        for _ in range(3):
            torch.mm(x, w), torch.softmax(f, -1), torch.nn.functional.layer_norm(f, [1024]), ran()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=main):
        side.wait_stream(main), third.wait_stream(main)
        with torch.cuda.stream(side):
            y = x
            for _ in range(6):
                y = torch.mm(y, w)
        with torch.cuda.stream(third):
            z = f
            for _ in range(6):
                z = torch.softmax(z, -1)
                z = torch.nn.functional.layer_norm(z, [1024])
        ran()
        main.wait_stream(side), main.wait_stream(third)
        y.sum() + z.sum()
    for _ in range(8):
        graph.replay()
        torch.cuda.synchronize()
    for _ in range(8):
        graph.replay()
    torch.cuda.synchronize()


def many():
    streams = [torch.cuda.Stream() for _ in range(4)]
    xs = [torch.randn(64, 256 * (i + 1), device="cuda") for i in range(4)]

    def part(x):
        def go():
            y = x
            for _ in range(6):
                y = torch.relu(y * 1.5 + x)
                y = torch.softmax(y, -1)
        return go
    play([(s, part(x)) for s, x in zip(streams, xs)], 4)


def heavy():
    streams = [torch.cuda.Stream() for _ in range(3)]
    xs = [torch.randn(48 << 20, device="cuda"), torch.randn(16384, 4096, device="cuda"), torch.randn(3072, 3072, **half)]

    def elementwise():
        for _ in range(6):
            xs[0].mul_(1.0001).add_(0.1)

    def rows():
        for _ in range(4):
            torch.softmax(xs[1], -1)
            xs[1].sum(0)

    def products():
        for _ in range(8):
            xs[2] @ xs[2]
    play(list(zip(streams, [elementwise, rows, products])), 4)


def nccl():
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29597", RANK="0", WORLD_SIZE="1")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=0, world_size=1)
    grads = [torch.randn(1 << 20, device="cuda") for _ in range(6)]
    op = dist._make_nccl_premul_sum(0.5)
    x, w = torch.randn(4096, 2048, **half), torch.randn(2048, 2048, **half)

    def step(overlapped):
        works = []
        y = x
        for g in grads:
            y = torch.nn.functional.gelu(y @ w)
            g.mul_(2)
            works.append(dist.all_reduce(g, op=op, async_op=True))
            if not overlapped:
                torch.cuda.synchronize()
        for work in works:
            work.wait()
        y.sum()
    for overlapped in [False] * 3 + [True] * 8:
        step(overlapped)
    torch.cuda.synchronize()
    dist.destroy_process_group()


modes = dict(transformers=transformers, gemms=gemms, copies=copies, branches=branches, many=many, heavy=heavy, nccl=nccl)
for mode in sys.argv[1:]:
    began = time.perf_counter()
    try:
        with torch.no_grad():
            modes[mode]()
        torch.cuda.synchronize()
        print(mode, "%.2f s" % (time.perf_counter() - began), flush=True)
    except Exception as error:
        print(mode, "failed:", repr(error)[:300], flush=True)
    time.sleep(0.3)
