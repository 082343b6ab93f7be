#!/bin/sh
# Every test: installs what is missing, builds with gcc and clang without a warning, runs everything, also under
# AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Needs no GPU and no network once set up.
set -eu
cd "$(dirname "$0")/.."

sh scripts/setup.sh test

build_and_test() {
    preset=$1
    shift
    echo "==== $preset"
    cmake --preset "$preset" -DGRIDSMITH_TESTS=ON >/dev/null
    cmake --build --preset "$preset" --target all bench
    ctest --preset "$preset" "$@"
}

build_and_test release
# Sanitized programs are slow: a twentieth of the random runs, and no benchmark.
GRIDSMITH_RUNS=${GRIDSMITH_RUNS:-5000}
export GRIDSMITH_RUNS
build_and_test asan --exclude-regex "^bench_share$"
# The long tests that have no threads have nothing to show there.
build_and_test tsan --exclude-regex \
    '^(engine|corpus|gpu|check|fit|probe|bound|plan_[a-z]+|shrink|cli|bench_share)$'
