"""Small programs that `gridsmith trace` was tried on: python3 corpus/programs.py MODE [--steps N] [--profile FILE].

Each prints the time of a step. With --profile, the PyTorch profiler records the program instead.
"""
import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("mode", choices=["eager", "compile", "graphs", "nccl", "cupy", "jax"])
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--size", choices=["small", "large"], default="small")
parser.add_argument("--profile", metavar="FILE", help="write a Chrome trace of the PyTorch profiler")
options = parser.parse_args()


def say(began):
    print("step_us %.1f" % ((time.perf_counter() - began) / options.steps * 1e6))


def cupy():
    import cupy as cp
    x = cp.random.rand(1 << 20, dtype=cp.float32)
    stream = cp.cuda.Stream(non_blocking=True)
    began = time.perf_counter()
    for _ in range(options.steps):
        float((cp.sqrt(x) + x * 2).sum())
        with stream:
            cp.sort(x[:100000])
            cp.dot(x[:65536].reshape(256, 256), x[:65536].reshape(256, 256))
        stream.synchronize()
    cp.cuda.Device().synchronize()
    say(began)


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax as j
    import jax.numpy as jnp
    f = j.jit(lambda x, w: jnp.tanh(x @ w).sum(axis=1))
    x, w = jnp.ones((512, 512)), jnp.ones((512, 512))
    f(x, w).block_until_ready()
    began = time.perf_counter()
    for _ in range(options.steps):
        r = f(x, w)
    r.block_until_ready()
    say(began)
    float(r[0])


def model():
    import torch
    width, heads, layers, batch, length = (1024, 16, 12, 16, 512) if options.size == "large" else (256, 4, 2, 4, 64)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, activation="gelu")
    made = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()
    return made, torch.randn(batch, length, width, device="cuda")


def timed(step):
    import torch
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(options.steps):
        step()
    torch.cuda.synchronize()
    say(began)


def training(wrap=lambda m: m, also=lambda: None):
    import torch
    m, x = model()
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-4)
    wrapped = wrap(m)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = wrapped(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        also()
    timed(step)


def compiled():
    import torch
    training(torch.compile)


def nccl():
    import torch
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29591", RANK="0", WORLD_SIZE="1")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=0, world_size=1)
    ones = torch.ones(1 << 20, device="cuda")
    training(lambda m: torch.nn.parallel.DistributedDataParallel(m, device_ids=[0]), lambda: dist.all_reduce(ones))
    dist.destroy_process_group()


def graphs():
    import torch
    m, x = model()
    m.eval().half()
    x = x.half()
    side = torch.cuda.Stream(priority=-1)
    y = torch.randn(1024, 1024, device="cuda", dtype=torch.half)
    with torch.no_grad():
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                m(x)
        torch.cuda.current_stream().wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = m(x)

        def step():
            graph.replay()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                z = (y @ y).relu_() @ y
            doubled = out * 2
            torch.cuda.current_stream().wait_stream(side)
            doubled.sum() + z.sum()
        timed(step)


modes = {"eager": training, "compile": compiled, "graphs": graphs, "nccl": nccl, "cupy": cupy, "jax": jax}
if options.profile:
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        modes[options.mode]()
    profiler.export_chrome_trace(options.profile)
else:
    modes[options.mode]()
