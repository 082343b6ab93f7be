#!/bin/sh
# Assembles the PTX files of a folder with both forms of all their kernels, and names those that fail.
#
#   sh scripts/ptx_assemble.sh FOLDER [PROGRAM]
#
# PROGRAM is a compiled ptx_compare; without it, it is built. ptxas is needed.
set -eu
[ $# -ge 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(cd "$1" && pwd)
program=${2:-}
if [ -z "$program" ]; then
    cd "$(dirname "$0")/.."
    cmake --preset release -DGRIDSMITH_TESTS=ON >/dev/null
    cmake --build --preset release --target ptx_compare >/dev/null
    program=build/release/tests/ptx_compare
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
find "$folder" -name '*.ptx' -print0 | xargs -0 "$program" -a "$made" >"$made/forms"
find "$made" -name '*.ptx' | xargs -n 1 -P "$(nproc)" sh -c \
    'ptxas -arch=sm_90 -o /dev/null "$1" >"$1.log" 2>&1 || { echo "failed: $(basename "$1"): $(head -n 1 "$1.log")"; }' sh \
    >"$made/failed"
cat "$made/failed"
echo "$(find "$made" -name '*.ptx' | wc -l) modules with $(wc -l <"$made/forms") forms, $(wc -l <"$made/failed") failed"
[ ! -s "$made/failed" ]
