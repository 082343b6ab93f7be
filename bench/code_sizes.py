"""code_sizes.py: how long warps take for code of 1 to 128 KB that is in a cache, and for the rounds of a loop (docs/bounds.md).

    python3 bench/code_sizes.py        # needs a GPU, CuPy and NVRTC

A kernel of the first kind has independent FMAs, in lines of 8, and executes them 50 times; the first time does not count. With 4 warps in
a partition a line takes 32 cycles to issue. A kernel of the second kind has a loop of 64 rounds with dependent FMAs, of 4 cycles each.
Prints the longest time of a warp, and the shortest, in cycles, with 1, 4 and 16 warps on each SM.
"""
import cupy
import numpy

SIZES, STEPS = (16, 32, 64, 128, 256, 512, 1024, 2048), (1, 2, 4, 8, 16, 32, 64)
SOURCE = r'''
static __device__ __forceinline__ unsigned long long now() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory");
    return t;
}
template <int COUNT, int LOOP> static __device__ __forceinline__ void code(unsigned long long *out, float f, int rounds) {
    unsigned long long took, most = 0, least = ~0ull;
    float a = f, b = f + 1, c = f + 2, d = f + 3;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        unsigned long long began = now();
        if (LOOP) {
#pragma unroll 1
            for (int i = 0; i < 64; i++) {
#pragma unroll
                for (int j = 0; j < COUNT; j++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a));
            }
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                asm volatile("fma.rn.f32 %0, %0, %0, %0; fma.rn.f32 %1, %1, %1, %1; fma.rn.f32 %2, %2, %2, %2; fma.rn.f32 %3, %3, %3, %3;"
                             : "+f"(a), "+f"(b), "+f"(c), "+f"(d));
        }
        took = now() - began;
        if (r) most = took > most ? took : most, least = took < least ? took : least;
    }
    unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) out[2 * warp] = most, out[2 * warp + 1] = least;
    if (a + b + c + d == 12345.f) out[0] = 1;
}
'''


def main():
    source, kernels = SOURCE, [f"code_{size}" for size in SIZES] + [f"loop_{steps}" for steps in STEPS]
    for name in kernels:
        kind, count = name.split("_")
        source += f'extern "C" __global__ void {name}(unsigned long long *out, float f, int rounds) {{ code<{count}, {int(kind == "loop")}>(out, f, rounds); }}\n'
    module = cupy.RawModule(code=source)
    sms = cupy.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"]
    for name in kernels:
        for warps in (1, 4, 16):
            out = cupy.zeros(2 * sms * warps, dtype=cupy.uint64)
            module.get_function(name)((sms,), (32 * warps,), (out, numpy.float32(1), numpy.int32(50)))
            times = out.get().reshape(-1, 2)
            kind, count = name.split("_")
            what = f"{int(count) * 64 / 1024:g} KB" if kind == "code" else f"64 rounds of {count}"
            print(f"{what}, {warps} warps: longest {times[:, 0].max()}, shortest {times[:, 1].min()}", flush=True)


if __name__ == "__main__":
    main()
