#!/bin/sh
# Makes src/kernels/sass/sass_guards.c of src/kernels/sass/guard.ptx with ptxas. tests/sass/guard_maker.c explains how.
#
#   sh scripts/guards.sh
#
# The tests compare that file with what ptxas makes, where it is installed.
set -eu
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target test_guards
GRIDSMITH_GUARDS=src/kernels/sass/sass_guards.c build/release/tests/test_guards
