#!/bin/sh
# Makes the files of tests/fuzz/corpus/cubin again, with nvcc: a kernel with variables as cubins, and in fatbins of both
# compressions. tests/sass/test_fatbins.c reads them; they are the first inputs of the fuzz target.
#
#   sh scripts/cubins.sh
set -eu
cd "$(dirname "$0")/.."
folder=tests/fuzz/corpus/cubin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder"

cat >"$scratch/count.cu" <<'END'
#include <cstdio>
__device__ int counter;
__device__ int sums[4] = {1, 2, 3, 4};
__device__ int *pointer = &counter;
extern "C" __global__ void count(int *out, int n) {
    *pointer += atomicAdd(&counter, sums[n & 3]);
    printf("%d\n", out[n]);
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
extern "C" __global__ void only_90a() {}
#elif __CUDA_ARCH__ == 900
extern "C" __global__ void only_90() {}
#else
extern "C" __global__ void only_80() {}
#endif
END
for architecture in 80 90 90a 100; do
    nvcc -cubin -arch=sm_$architecture -o "$scratch/count$architecture.cubin" "$scratch/count.cu"
done
cp "$scratch/count80.cubin" "$scratch/count90.cubin" "$scratch/count100.cubin" "$folder"
pack() {
    mode=$1
    shift
    images=
    for architecture; do
        images="$images --image3=kind=elf,sm=$architecture,file=$scratch/count$architecture.cubin"
    done
    # shellcheck disable=SC2086
    fatbinary --create "$folder/$mode.fatbin" -64 --compress-all --compress-mode=$mode $images
}
pack speed 80 90 90a
pack size 90a 90 80
ls -l "$folder"
