#!/bin/sh
# The second recorder compiles, and reads the plans of each class that draw.py draws: sh plans.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ] || ! command -v python3 >/dev/null; then
    echo "skipped: needs nvcc and python3"
    exit 77
fi
mkdir -p "$1"
"$nvcc" -arch=sm_90 -std=c++17 -o "$1/recorder" "$here/recorder.cu"
"$nvcc" -arch=sm_90 -std=c++17 -o "$1/beside" "$here/beside.cu"
for class in $(python3 "$here/draw.py" 2>&1 | sed -n 's/^classes: //p'); do
    python3 "$here/draw.py" "$class" 1 50 >"$1/plans"
    [ "$("$1/recorder" --check "$1/plans")" = 50 ] || { echo "$class: not all plans were read"; exit 1; }
done
printf 'run 1 wrong\nkernel a grid=1 colour=2\nlaunch a\nend\n' >"$1/plans"
if "$1/recorder" --check "$1/plans" >/dev/null 2>&1; then
    echo "a plan with an unknown key was read"
    exit 1
fi
