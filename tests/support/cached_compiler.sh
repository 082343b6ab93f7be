#!/bin/sh
# Compiles kernels that run on the CPU (src/kernels/cpu) through ccache: the tests compile the same kernels with each preset.
# tests/CMakeLists.txt makes a link to this file, cc; a test gets it as CC.
#
# Kernels are compiled in a temporary folder, whose name ccache must not see: the compiler runs in that folder, and gets
# the names of the files in it without the folder.
set -eu
name=${0##*/}
case " $* " in
*" -c "*) ;;
*) exec "$name" "$@" ;; # it links
esac
command -v ccache >/dev/null || exec "$name" "$@" # tests that were built elsewhere

for source; do :; done
folder=${source%/*}
for word; do
    shift
    case $word in
    "$folder") word=. ;;
    "$folder"/*) word=${word#"$folder"/} ;;
    esac
    set -- "$@" "$word"
done
cd "$folder"
CCACHE_NOHASHDIR=1 exec ccache "$name" "$@"
