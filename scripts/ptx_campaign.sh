#!/bin/sh
# Runs many random PTX kernels in all forms on the CPU: tests/forms/test_ptx_forms.c explains what is compared.
#
#   sh scripts/ptx_campaign.sh [KERNELS [SEED [PROGRAM]]]
#
# KERNELS is 100000 by default, SEED 1. PROGRAM is a compiled test_ptx_forms; without it, it is built. Each process of a
# campaign has a seed of its own. Ends at the first kernel that a form computes differently, and prints its seed.
# tcc makes it faster if it is installed (scripts/fast_cc.sh).
set -eu
kernels=${1:-100000}
seed=${2:-1}
program=${3:-}
cd "$(dirname "$0")/.."
if [ -z "$program" ]; then
    cmake --preset release -DGRIDSMITH_TESTS=ON >/dev/null
    cmake --build --preset release --target test_ptx_forms >/dev/null
    program=build/release/tests/test_ptx_forms
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
GRIDSMITH_RUNS=$((kernels * 5000))
export GRIDSMITH_SEED="$seed" GRIDSMITH_RUNS

. scripts/fast_cc.sh
"$program"
