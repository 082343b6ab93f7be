"""plain_program.py: an inference server or a best-effort job like those with PyTorch, on the CUDA driver only:

    python3 plain_program.py serve [--priority]        python3 plain_program.py work

Reads commands (commands.py). A request ("plain") is a graph of 300 kernels of about 3 us. A step of work is 1800 kernels:
"plain-short" has up to 0.13 ms, as training of BERT, and "plain-long" up to 0.9 ms, as training of ResNet; "plain-graph" is
"plain-short" as one graph. The argument of the kernel sets how long it computes and reads memory. Needs only libcuda.so.1.
"""
import ctypes
import random
import sys

import commands
import nursery

KERNEL = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry work(.param .u64 data, .param .u32 rounds)
{
    .reg .pred %again, %never;
    .reg .f32 %value, %read;
    .reg .u32 %round, %rounds, %thread, %block, %threads, %at;
    .reg .u64 %base, %offset, %address;
    ld.param.u64 %base, [data];
    ld.param.u32 %rounds, [rounds];
    cvta.to.global.u64 %base, %base;
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mad.lo.u32 %at, %block, %threads, %thread;
    cvt.rn.f32.u32 %value, %thread;
    mov.u32 %round, 0;
loop:
    and.b32 %at, %at, 4194303;
    mul.wide.u32 %offset, %at, 4;
    add.u64 %address, %base, %offset;
    ld.global.f32 %read, [%address];
    fma.rn.f32 %value, %value, 0f3F800347, %read;
    add.u32 %at, %at, 262144;
    add.u32 %round, %round, 1;
    setp.lt.u32 %again, %round, %rounds;
    @%again bra loop;
    setp.eq.f32 %never, %value, 0f4640E400;
    @%never st.global.f32 [%address], %value;
    ret;
}
"""
DATA_BYTES = 4 << 22
ROUNDS_PER_US = 5  # about, on an H200; the same in each process, so that all ways to share do the same work
# Kernels of a step: how many, and how long in us.
STEP_US = {"plain-short": [(900, 10), (500, 30), (300, 60), (100, 125)],
           "plain-long": [(1200, 8), (400, 25), (150, 80), (30, 300), (5, 900)]}
STEP_US["plain-graph"] = STEP_US["plain-short"]


class Gpu:
    """The first GPU, a stream, and a kernel of any duration."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = self.make("cuDevicePrimaryCtxRetain", 0)
        self.call("cuCtxSetCurrent", context)
        self.stream = self.make("cuStreamCreateWithPriority", 1, -5 if "--priority" in sys.argv else 0)
        self.function = self.make("cuModuleGetFunction", self.make("cuModuleLoadData", KERNEL), b"work")
        self.data = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(self.data), ctypes.c_size_t(DATA_BYTES))
        self.call("cuMemsetD8_v2", self.data, 0, ctypes.c_size_t(DATA_BYTES))
        self.begin, self.end = self.make("cuEventCreate", 0), self.make("cuEventCreate", 0)
        self.arguments = {}

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            sys.exit(f"plain_program.py: {name} returned {code}")

    def make(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def launch(self, us, blocks):
        if us not in self.arguments:
            values = (self.data, ctypes.c_int(max(1, int(us * ROUNDS_PER_US))))
            pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
            self.arguments[us] = (values, pointers)
        self.call("cuLaunchKernel", self.function, blocks, 1, 1, 256, 1, 1, 0, self.stream, self.arguments[us][1], None)

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)

    def record(self, event):
        self.call("cuEventRecord", event, self.stream)

    def time_on_gpu(self):
        ms = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(ms), self.begin, self.end)
        return ms.value

    def capture(self, kernels, blocks):
        """A function that launches a graph of kernels."""
        self.call("cuStreamBeginCapture_v2", self.stream, 0)
        for us in kernels:
            self.launch(us, blocks)
        ready = self.make("cuGraphInstantiateWithFlags", self.make_last("cuStreamEndCapture", self.stream), ctypes.c_uint64(0))
        return lambda: self.call("cuGraphLaunch", ready, self.stream)

    def make_last(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle


GPU = []  # made by the first command


def gpu():
    if not GPU:
        GPU.append(Gpu())
    return GPU[0]


def build_request(_):
    launch = gpu().capture([3] * 300, 64)

    def request():
        gpu().record(gpu().begin)
        launch()
        gpu().record(gpu().end)
        gpu().synchronize()
        return gpu().time_on_gpu

    for _ in range(50):
        request()
    return request


def build_work(kind):
    kernels = [us for count, us in STEP_US[kind] for _ in range(count)]
    random.Random(2).shuffle(kernels)
    step = gpu().capture(kernels, 264) if kind == "plain-graph" else lambda: [gpu().launch(us, 264) for us in kernels]
    for _ in range(3):
        step()
    gpu().synchronize()
    return step


def main():
    if sys.argv[1] == "serve":
        commands.obey(build_request, lambda request, seconds, least_ms=0: commands.serve(request, seconds, least_ms=least_ms))
    else:
        commands.obey(build_work, lambda step, seconds, *_: commands.work(step, lambda: gpu().synchronize(), seconds))


if __name__ == "__main__":
    nursery.enter(__name__)
    main()
