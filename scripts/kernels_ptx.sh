#!/bin/sh
# Compiles the kernels of kernels/*.cu to kernels/ptx/*.ptx.gz, with nvcc, for the program and for tests on machines without
# CUDA. The PTX is for compute capability 8.0, so that every later GPU can run it, and is kept in the repository, compressed: the
# same PTX gives the same bytes. That of wgemm, which has instructions of Hopper, is for 9.0a. To make it again:
#
#   sh scripts/kernels_ptx.sh
#
# With the word "clang" it compiles with clang and src/kernels/ptx/gridsmith_device.h instead, into build/kernels_ptx, and says which
# kernels do not compile. No CUDA is needed for that; if ptxas is there, it checks the PTX.
#
#   sh scripts/kernels_ptx.sh clang
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# architecture NAME: the target of the PTX.
architecture() {
    case $1 in
    wgemm) echo 90a ;;
    *) echo 80 ;;
    esac
}

# instances NAME: a line after the source for each template that the tests use.
instances() {
    case $1 in
    reduce) echo 'template __global__ void reduce<256>(const int *, int *, int);' ;;
    esac
}

# source NAME: the kernel with its instances; errors have the name and lines of the original.
source() {
    echo "#line 1 \"kernels/$1.cu\""
    cat "kernels/$1.cu"
    instances "$1"
}

by_nvcc() {
    mkdir -p kernels/ptx
    for file in kernels/*.cu; do
        name=$(basename "$file" .cu)
        source "$name" >"$scratch/$name.cu"
        nvcc -ptx -arch="compute_$(architecture "$name")" -o "$scratch/$name.ptx" "$scratch/$name.cu"
        gzip -9 -n -c "$scratch/$name.ptx" >"kernels/ptx/$name.ptx.gz"
    done
    du -sh kernels/ptx
}

by_clang() {
    output=build/kernels_ptx
    mkdir -p "$output"
    for header in cuda_runtime.h cuda_fp16.h mma.h; do
        : >"$scratch/$header"
    done
    failed=0
    for file in kernels/*.cu; do
        name=$(basename "$file" .cu)
        architecture=$(architecture "$name")
        [ "$architecture" = 80 ] || continue
        source "$name" >"$scratch/$name.cu"
        if ! clang++ -x cuda --cuda-device-only -S -O2 -w -std=c++17 -nocudainc -nocudalib --cuda-path=/nonexistent \
            -Xclang -target-feature -Xclang +ptx70 --cuda-gpu-arch="sm_$architecture" -I "$scratch" \
            -include src/kernels/ptx/gridsmith_device.h -o "$output/$name.ptx" "$scratch/$name.cu"; then
            echo "clang does not compile $name" && failed=1
        elif command -v ptxas >/dev/null && ! ptxas -arch="sm_$architecture" -o /dev/null "$output/$name.ptx"; then
            echo "ptxas does not accept what clang made of $name" && failed=1
        fi
    done
    echo "the PTX of clang is in $output"
    return $failed
}

case ${1:-nvcc} in
nvcc) by_nvcc ;;
clang) by_clang ;;
*) echo "kernels_ptx.sh: unknown argument \"$1\"; usage: sh scripts/kernels_ptx.sh [clang]" >&2 && exit 2 ;;
esac
