#!/bin/sh
# The tests: installs what is missing, builds without a warning, runs them. Needs no GPU and no network once set up.
#
#   sh scripts/test.sh         all: gcc, clang with AddressSanitizer and UndefinedBehaviorSanitizer, ThreadSanitizer
#   sh scripts/test.sh quick   for the inner loop: gcc alone, few random runs, without what takes long
set -eu
cd "$(dirname "$0")/.."
case $#${1:-} in
0 | 1quick) ;;
*) echo "usage: sh scripts/test.sh [quick]" >&2 && exit 2 ;;
esac

sh scripts/setup.sh test

# build_and_test PRESET OPTIONS OF CTEST...
build_and_test() {
    preset=$1
    shift
    echo "==== $preset"
    cmake --preset "$preset" -DGRIDSMITH_TESTS=ON >/dev/null
    cmake --build --preset "$preset" --target all bench
    ctest --preset "$preset" "$@"
}

if [ "${1:-}" = quick ]; then
    GRIDSMITH_RUNS=${GRIDSMITH_RUNS:-4000}
    export GRIDSMITH_RUNS
    build_and_test release --label-exclude slow
    exit
fi

build_and_test release
# Sanitized programs are slow: a twentieth of the random runs. Of the long tests, those without threads have nothing to
# show to ThreadSanitizer.
GRIDSMITH_RUNS=${GRIDSMITH_RUNS:-5000}
export GRIDSMITH_RUNS
build_and_test asan
build_and_test tsan --label-regex threads
