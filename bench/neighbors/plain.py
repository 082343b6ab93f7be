"""plain.py: a server and a training job of the same shape as those of serve.py and train.py, on the CUDA driver alone.

    python plain.py serve KIND SECONDS        python plain.py train KIND SECONDS

A request is a graph of 300 kernels of about 3 us. A step is 1800 kernels; KIND says how long they are: `plain` has up to
0.13 ms, as training of BERT, and `plain-long` up to 0.9 ms, as training of ResNet. The kernels compute and touch memory as
long as their arguments say. Needs libcuda.so.1 and NVRTC, found by the loader or under CUDA_PATH.
"""
import ctypes
import ctypes.util
import glob
import json
import os
import random
import sys
import time

SOURCE = b"""
extern "C" __global__ void work(float *data, int rounds) {
    float value = threadIdx.x;
    size_t at = (blockIdx.x * blockDim.x + threadIdx.x) % (1 << 22);
    for (int i = 0; i < rounds; i++) {
        value = value * 1.0001f + data[at];
        at = (at + 262144) % (1 << 22);
    }
    if (value == 12345.0f)
        data[at] = value;
}
"""
STEP_US = {"plain": [(900, 10), (500, 30), (300, 60), (100, 125)],
           "plain-long": [(1200, 8), (400, 25), (150, 80), (30, 300), (5, 900)]}


def load_nvrtc():
    folders = [os.environ.get("CUDA_PATH", "/usr/local/cuda"), *sys.path]
    names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
    for folder in folders:
        names += sorted(glob.glob(f"{folder}/lib64/libnvrtc.so*") + glob.glob(f"{folder}/nvidia/*/lib/libnvrtc.so.*"))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("plain.py: NVRTC was not found: set CUDA_PATH")


def compile_source(architecture):
    nvrtc, program, size = load_nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"work.cu", 0, None, None)
    option = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{architecture}".encode())
    if nvrtc.nvrtcCompileProgram(program, 1, option):
        sys.exit("plain.py: the kernel does not compile")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, image)
    return image


class Gpu:
    """The first GPU, a stream, and a kernel that takes as long as one likes."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context, major, minor, self.stream = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), compile_source(major.value * 10 + minor.value))
        self.call("cuModuleGetFunction", ctypes.byref(self.function), module, b"work")
        self.data = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(self.data), ctypes.c_size_t(4 << 22))
        self.call("cuMemsetD8_v2", self.data, 0, ctypes.c_size_t(4 << 22))
        self.arguments = {}
        self.rounds_per_us = 1
        self.rounds_per_us = self.calibrate()

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            sys.exit(f"plain.py: {name} returned {code}")

    def launch(self, us, blocks):
        if us not in self.arguments:
            values = (self.data, ctypes.c_int(max(1, int(us * self.rounds_per_us))))
            pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
            self.arguments[us] = (values, pointers)
        self.call("cuLaunchKernel", self.function, blocks, 1, 1, 256, 1, 1, 0, self.stream, self.arguments[us][1], None)

    def calibrate(self):
        self.launch(20000, 264)
        self.synchronize()
        start = time.perf_counter()
        self.launch(20000, 264)
        self.synchronize()
        self.arguments.clear()
        return 20000 / ((time.perf_counter() - start) * 1e6)

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)

    def capture(self):
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 0)
        for _ in range(300):
            self.launch(3, 64)
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        return ready


def wait_for_start():
    print("ready", flush=True)
    sys.stdin.readline()


def serve(gpu, seconds):
    from percentiles import summary

    graph, wall, pause = gpu.capture(), [], random.Random(1)
    for number in range(-50, 10**9):
        if number == 0:
            wait_for_start()
            until = time.perf_counter() + seconds
        start = time.perf_counter()
        if number >= 0 and start > until:
            break
        gpu.call("cuGraphLaunch", graph, gpu.stream)
        gpu.synchronize()
        if number >= 0:
            wall.append((time.perf_counter() - start) * 1e3)
            time.sleep(pause.uniform(0.002, 0.008))
    return {"requests": len(wall), "wall_ms": summary(wall), "gpu_ms": summary(wall)}


def train(gpu, kind, seconds):
    kernels = [us for count, us in STEP_US[kind] for _ in range(count)]
    random.Random(2).shuffle(kernels)

    def take_step():
        for us in kernels:
            gpu.launch(us, 264)

    take_step()
    gpu.synchronize()
    wait_for_start()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        take_step()
        steps += 1
        gpu.synchronize()
    return {"steps_per_s": round(steps / (time.perf_counter() - start), 3)}


def main(role, kind, seconds):
    gpu = Gpu()
    print(json.dumps(serve(gpu, seconds) if role == "serve" else train(gpu, kind, seconds)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
