#!/bin/sh
# Every test: installs what is missing, builds with gcc and clang without a warning, runs everything, also under
# AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Needs no GPU and no network once set up.
set -eu
cd "$(dirname "$0")/.."

sh scripts/setup.sh test

build_and_test() {
    echo "==== $1"
    cmake --preset "$1" -DGRIDSMITH_TESTS=ON >/dev/null
    cmake --build --preset "$1" --target all bench
    ctest --preset "$1"
}

build_and_test release
# Sanitized programs are slow: a twentieth of the random runs.
GRIDSMITH_RUNS=${GRIDSMITH_RUNS:-5000}
export GRIDSMITH_RUNS
build_and_test asan
build_and_test tsan
