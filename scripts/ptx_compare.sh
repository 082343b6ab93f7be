#!/bin/sh
# Compares kernels of the PTX files of a folder on the CPU and on a GPU, with random buffers, and counts the verdicts.
#
#   GRIDSMITH_ON=cuda sh scripts/ptx_compare.sh FOLDER [PROGRAM]
#
# tests/cpu/ptx_compare.c explains the lines; GRIDSMITH_COMPARE may hold its options, such as -f for both forms. PROGRAM is a
# compiled ptx_compare; without it, it is built. As many files are tried at a time as there are cores. Without GRIDSMITH_ON
# it says which kernels can be compared.
set -eu
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(cd "$1" && pwd)
program=${2:-}
cd "$(dirname "$0")/.."
if [ -z "$program" ]; then
    cmake --preset release >/dev/null
    cmake --build --preset release --target ptx_compare >/dev/null
    program=build/release/tests/ptx_compare
fi
modules=$folder
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
. scripts/fast_cc.sh
lines=$folder/lines
# shellcheck disable=SC2086
find "$modules" -name '*.ptx' | sort | xargs -n 1 -P "$(nproc)" timeout 120 "$program" ${GRIDSMITH_COMPARE:-} >"$lines" || true
sort "$lines"
echo
awk '/^same/ {same++; if (/approximate|matrix/) near++}
     /^ulps/ {if ($2 == 1) one++; else if (/approximate|matrix/) rough++; else wrong++}
     /^differs/ {wrong++} /^ready/ {ready++} /^left out/ {left++; reason[$3]++}
     END {
        printf "%d kernels are the same byte for byte, %d of them with approximate or matrix instructions\n", same, near
        printf "%d within 1 ulp, %d further away with approximate or matrix instructions, %d differ\n", one, rough, wrong
        printf "%d ready, %d left out\n", ready, left
        for (r in reason) printf "  %s %d\n", r, reason[r]
     }' "$lines"
