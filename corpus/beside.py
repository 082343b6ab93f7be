"""A kernel of Gridsmith beside kernels of PyTorch: python3 corpus/beside.py BLOCKS_FILE [--cases N].

Each case starts a kernel of PyTorch that runs for a millisecond or more on one stream, or two of them on two streams, and
then a probe on another stream, of a random shape. Each block of the probe notes its SM and when it started. BLOCKS_FILE
gets a line for each probe, in the order of the launches: the SM of every block, and its start in ns after the first.
`--join RECORDING` prints a recording of it by `gridsmith trace`, with these SMs as "placed" and starts as "start_ns":

    gridsmith trace -o beside.jsonl -- python3 corpus/beside.py blocks.txt
    python3 corpus/beside.py blocks.txt --join beside.jsonl > joined.jsonl

tests/test_recorded.c compares them with predictions.
"""
import argparse
import ctypes
import json
import random
import sys
import time

PROBE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry gridsmith_probe(.param .u64 out, .param .u64 wait_ns)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %d<8>;
    mov.u64 %d0, %globaltimer;
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d1, %d1;
    ld.param.u64 %d2, [wait_ns];
    add.u64 %d3, %d0, %d2;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %smid;
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %d4, %r2, 16;
    add.u64 %d4, %d1, %d4;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra WAIT;
    st.global.u32 [%d4], %r1;
    st.global.u64 [%d4+8], %d0;
WAIT:
    nanosleep.u32 100;
    mov.u64 %d5, %globaltimer;
    setp.lt.u64 %p1, %d5, %d3;
    @%p1 bra WAIT;
    ret;
}
\0"""

parser = argparse.ArgumentParser()
parser.add_argument("blocks_file")
parser.add_argument("--cases", type=int, default=100)
parser.add_argument("--join", metavar="RECORDING")
options = parser.parse_args()


def join():
    blocks = [json.loads(line) for line in open(options.blocks_file)]
    number = -1  # the first launch is to warm up
    for line in open(options.join):
        event = json.loads(line)
        if event.get("kernel") == "gridsmith_probe":
            if number >= 0:
                event["placed"], starts = blocks[number]
                event["start_ns"] = [round(event["start_us"] * 1000) + start for start in starts]
            number += 1
            line = json.dumps(event, separators=(",", ":")) + "\n"
        sys.stdout.write(line)


if options.join:
    join()
    sys.exit()

import torch  # noqa: E402

random.seed(1)
torch.cuda.init()
torch.zeros(1, device="cuda")
cuda = ctypes.CDLL("libcuda.so.1")
module, probe = ctypes.c_void_p(), ctypes.c_void_p()


def check(code):
    if code:
        raise RuntimeError("the driver failed: %d" % code)


check(cuda.cuModuleLoadData(ctypes.byref(module), PROBE))
check(cuda.cuModuleGetFunction(ctypes.byref(probe), module, b"gridsmith_probe"))
check(cuda.cuFuncSetAttribute(probe, 8, 200 * 1024))  # most dynamic shared memory


def launch_probe(stream, out, blocks, threads, shared_bytes, wait_ns):
    values = (ctypes.c_uint64 * 2)(out.data_ptr(), wait_ns)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(values), ctypes.addressof(values) + 8)
    check(cuda.cuLaunchKernel(probe, blocks, 1, 1, threads, 1, 1, shared_bytes, ctypes.c_void_p(stream.cuda_stream),
                              pointers, None))


def soft(rows):
    x = torch.randn(rows, 1 << 21, device="cuda")
    return lambda: torch.softmax(x, -1)


def gemm(size, kind):
    a = torch.randn(size, size, device="cuda", dtype=kind)
    return lambda: a @ a


def scan(rows):
    x = torch.randn(rows, 1 << 21, device="cuda")
    return lambda: torch.cumsum(x, -1)


def both(first, second):
    def run():
        first()
        with torch.cuda.stream(other):
            second()
    return run


main, other, side = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
neighbors = [soft(20), soft(60), soft(100), soft(132), gemm(8192, torch.half), scan(40), scan(120),
             both(soft(30), scan(50)), both(scan(20), soft(80)), lambda: None]
with torch.cuda.stream(main):
    for run in neighbors:
        run()
out = torch.zeros(4096, 2, dtype=torch.int64, device="cuda")
launch_probe(side, out, 1, 32, 0, 0)
torch.cuda.synchronize()
with open(options.blocks_file, "w") as file:
    for case in range(options.cases):
        blocks = random.choice([1, 7, 33, 66, 132, 133, 200, 264, 500])
        threads = random.choice([32, 64, 128, 256, 512, 1024])
        shared_bytes = random.choice([0, 0, 0, 1000, 20000, 60000, 100000])
        with torch.cuda.stream(main):
            neighbors[case % len(neighbors)]()
        began = time.perf_counter()
        while time.perf_counter() - began < 300e-6:
            pass
        launch_probe(side, out, blocks, threads, shared_bytes, 100000)
        torch.cuda.synchronize()
        seen = out[:blocks].tolist()
        first = min(start for _, start in seen)
        print(json.dumps([[sm & 0xffffffff for sm, _ in seen], [start - first for _, start in seen]]), file=file)
        time.sleep(0.002)
