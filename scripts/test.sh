#!/bin/sh
# Every test: installs what is missing, builds with gcc and clang without a warning, runs everything, also under
# AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Needs no GPU and no network once set up.
#
#   sh scripts/test.sh          # everything, some minutes
#   sh scripts/test.sh quick    # about two minutes: no sanitizers, fewer random runs, without the tests that are slow even so
set -eu
cd "$(dirname "$0")/.."

case $* in
"" | quick) ;;
*) echo "test.sh: unknown argument \"$*\"; usage: sh scripts/test.sh [quick]" >&2 && exit 2 ;;
esac

sh scripts/setup.sh test

# configure_and_build PRESET [TARGET...]: ends as the build tool, so that a signal to it ends the build.
configure_and_build() {
    preset=$1
    shift
    cmake --preset "$preset" >/dev/null
    exec nice -n "$build_nice" ninja -C "build/$preset" "$@"
}

# build PRESET [TARGET...]
build() {
    echo "==== $1: build"
    (build_nice=0 && configure_and_build "$@")
}

# Tests of daemons and their clients mostly wait. Meanwhile the next preset is built, at the lowest
# priority.
build_beside() {
    mkdir -p build
    (build_nice=19 && configure_and_build "$1") >"build/$1.log" 2>&1 &
    beside=$!
    trap 'kill $beside 2>/dev/null' EXIT
}

# finish_build PRESET: waits for build_beside.
finish_build() {
    echo "==== $1: build"
    wait $beside || { cat "build/$1.log" && exit 1; }
    trap - EXIT
}

# run_tests PRESET [OPTIONS OF CTEST...]: two tests more at a time than there are processors, because of those that wait.
run_tests() {
    echo "==== $1: tests"
    ctest --preset "$@" --parallel $(($(nproc) + 2))
}

build release all bench
if [ "$*" = quick ]; then
    export GRIDSMITH_RUNS="${GRIDSMITH_RUNS:-4000}"
    run_tests release --label-exclude '^slow$'
    exit
fi
build_beside asan
run_tests release
finish_build asan
# Sanitizers need each path once, so there are few random runs.
export GRIDSMITH_RUNS="${GRIDSMITH_RUNS:-2000}"
build_beside tsan
run_tests asan
finish_build tsan
run_tests tsan
