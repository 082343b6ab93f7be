#!/bin/sh
# Makes the files of tests/fuzz/corpus/cubin again, with nvcc and ptxas: a kernel with variables as cubins, and in
# fatbins of both compressions; lines; a block that takes another; damage. tests/sass/test_fatbins.c reads them; they
# are the first inputs of the fuzz target.
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

# With lines before sm_90, where relocations have no addends; with a block that takes another one; and damaged:
# relocations of a section that there is not.
cat >"$scratch/lines.ptx" <<'END'
.version 8.0
.target sm_80
.address_size 64
.file 1 "lines.cu"
.visible .entry lines(.param .u64 out)
{
    .reg .b32 %i;
    .reg .b64 %to;
    .loc 1 2 3
    ld.param.u64 %to, [out];
    .loc 1 3 3
    mov.u32 %i, %tid.x;
    .loc 1 4 3
    st.global.u32 [%to], %i;
    ret;
}
END
ptxas -lineinfo -arch=sm_80 -o "$folder/lines80.cubin" "$scratch/lines.ptx"
cat >"$scratch/takes.ptx" <<'END'
.version 8.8
.target sm_100
.address_size 64
.visible .entry takes()
{
    .reg .b32 %place, %barrier;
    .shared .align 16 .b8 answer[16];
    .shared .align 8 .b64 arrived;
    mov.u32 %place, answer;
    mov.u32 %barrier, arrived;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%place], [%barrier];
    ret;
}
END
ptxas -arch=sm_100 -o "$folder/takes100.cubin" "$scratch/takes.ptx"
python3 - "$folder/count90.cubin" "$folder/nowhere90.cubin" <<'END'
import struct
import sys

cubin = bytearray(open(sys.argv[1], "rb").read())
(headers,) = struct.unpack_from("<Q", cubin, 40)
(count,) = struct.unpack_from("<H", cubin, 60)
for at in range(headers, headers + 64 * count, 64):
    if struct.unpack_from("<I", cubin, at + 4)[0] in (4, 9):  # relocations
        struct.pack_into("<I", cubin, at + 44, 0xFFFFFFFF)
        break
open(sys.argv[2], "wb").write(cubin)
END
ls -l "$folder"
