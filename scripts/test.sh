#!/bin/sh
# The tests: installs what is missing, builds with gcc and clang without a warning, runs the suite, also under
# AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Needs no GPU and no network once set up.
#
#   sh scripts/test.sh quick    # a minute: no sanitizers, few random runs, without the tests that are labeled slow
#   sh scripts/test.sh          # the suite: at most 8 minutes on two cores, once the compiler cache (ccache) is filled
#   sh scripts/test.sh full     # everything, for what is called done: it first says what it adds
#
# tests/CMakeLists.txt explains the labels. GRIDSMITH_RUNS is how many random runs are played: 4,000 in quick, 20,000 in the
# suite and 100,000 in full; with sanitizers, which look at what is run and not at how often, 2,000.
set -eu
cd "$(dirname "$0")/.."

case $* in
"" | quick | full) kind=${1:-suite} ;;
*) echo "test.sh: unknown argument \"$*\"; usage: sh scripts/test.sh [quick | full]" >&2 && exit 2 ;;
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

# run_tests PRESET RUNS [LABELS]: without the tests that have one of these labels. Two tests more at a time than there are
# processors, because of those that wait.
run_tests() {
    echo "==== $1: tests"
    GRIDSMITH_RUNS="${GRIDSMITH_RUNS:-$2}" ctest --preset "$1" ${3:+--label-exclude "^($3)\$"} \
        --parallel $(($(nproc) + 2))
}

# list_tests PRESET LABEL: their names.
list_tests() {
    ctest --preset "$1" -N --label-regex "^$2\$" | sed -n 's/^ *Test *#[0-9]*: //p' | tr '\n' ' '
}

say_what_full_adds() {
    echo "==== full adds"
    echo "more random runs: 100,000 instead of 20,000"
    echo "to release: $(list_tests release full)"
    cmake --preset asan >/dev/null
    echo "to asan: $(list_tests asan daemon)$(list_tests asan full)"
    cmake --preset tsan >/dev/null
    echo "to tsan: $(list_tests tsan full)"
}

case $kind in
quick)
    build release
    run_tests release 4000 'slow|full'
    ;;
suite)
    build release all bench
    build_beside asan
    run_tests release 20000 full
    finish_build asan
    build_beside tsan
    run_tests asan 2000 'daemon|full'
    finish_build tsan
    run_tests tsan 2000 full
    ;;
full)
    build release all bench
    say_what_full_adds
    build_beside asan
    run_tests release 100000
    finish_build asan
    build_beside tsan
    run_tests asan 2000
    finish_build tsan
    run_tests tsan 2000
    ;;
esac
