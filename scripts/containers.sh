#!/bin/sh
# Makes the files of tests/fuzz/corpus/container again, with nvcc: the same two kernels in each kind of file that contains
# PTX. tests/ptx/test_ptx_container.c reads them; they are the first inputs of the fuzz target.
#
#   sh scripts/containers.sh
set -eu
cd "$(dirname "$0")/.."
folder=tests/fuzz/corpus/container
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder"

cat >"$scratch/add.cu" <<'END'
__global__ void add(float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] += b[i];
}
END
sed 's/add/scale/; s/+= b/*= b/' "$scratch/add.cu" >"$scratch/scale.cu"

two="-gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=compute_90"
# shellcheck disable=SC2086
{
    for mode in none speed size; do
        nvcc -fatbin $two --compress-mode=$mode -o "$folder/$mode.fatbin" "$scratch/add.cu"
    done
    nvcc -ptx -arch=compute_80 -o "$folder/add80.ptx" "$scratch/add.cu"
    nvcc -ptx -arch=compute_90 -o "$folder/add90.ptx" "$scratch/add.cu"
    nvcc -cubin -arch=sm_90 -o "$folder/add.cubin" "$scratch/add.cu"
    nvcc -fatbin -gencode arch=compute_90,code=sm_90 -o "$folder/machine.fatbin" "$scratch/add.cu"
    nvcc -c $two -Xcompiler -g0 -o "$scratch/add.o" "$scratch/add.cu"
    nvcc -c -rdc=true $two -o "$scratch/scale.o" "$scratch/scale.cu"
}
# Keeps only the sections with PTX, so that the files are small.
for name in add scale; do
    objcopy -j .nv_fatbin -j __nv_relfatbin "$scratch/$name.o" "$folder/$name.o" 2>/dev/null
done
rm -f "$folder/library.a"
ar rcD "$folder/library.a" "$folder/add.o" "$folder/scale.o"
fatbinary --create "$folder/named.fatbin" -64 --ident add.cu --cmdline="--maxrregcount=32 " \
    --image3=kind=ptx,sm=80,file="$folder/add80.ptx"
ls -l "$folder"
