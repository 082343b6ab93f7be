#!/bin/sh
# Says which PTX files of a folder run on the CPU: translates each and compiles it.
#
#   sh scripts/ptx_corpus.sh FOLDER
#
# A line for each file: "ok", the milliseconds of translating and of compiling, and its name; or the reason, and the kernels
# that cannot run. The last line counts files and kernels.
set -eu
[ $# -eq 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
folder=$(cd "$1" && pwd)
cmake --preset release >/dev/null
cmake --build --preset release --target ptx_corpus >/dev/null
find "$folder" -name '*.ptx' | sort | xargs build/release/tests/ptx_corpus
