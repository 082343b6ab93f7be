#!/bin/sh
# The tests: installs what is missing, builds with gcc and clang without a warning, runs the suite, also under
# AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Needs no GPU and no network once set up.
#
#   sh scripts/test.sh quick    # a minute: no sanitizers, few random runs, without the tests that are labeled slow
#   sh scripts/test.sh          # the suite: the goal is 8 minutes on two cores, once the compiler cache (ccache) is filled
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

# beside LOG COMMAND...: runs a function of this script in the background; finish_beside waits for it.
beside() {
    mkdir -p build
    log=build/$1.log
    shift
    ("$@") >"$log" 2>&1 &
    beside=$!
    trap 'kill $beside 2>/dev/null' EXIT
}

# finish_beside: whether it succeeded.
finish_beside() {
    wait $beside && status=0 || status=$?
    trap - EXIT
    return $status
}

# Tests of daemons and their clients mostly wait. Meanwhile the presets with sanitizers are built, at the lowest priority.
build_sanitizers() {
    build_nice=19
    trap 'kill $tool 2>/dev/null; exit 1' TERM
    for each in asan tsan; do
        (configure_and_build $each) &
        tool=$!
        wait $tool || exit 1
    done
}

# run_tests PRESET RUNS AT_ONCE [LABELS]: without the tests that have one of these labels. It ends as ctest, where $run is
# exec.
run=
run_tests() {
    echo "==== $1: tests"
    GRIDSMITH_RUNS="${GRIDSMITH_RUNS:-$2}" $run ctest --preset "$1" ${4:+--label-exclude "^($4)\$"} --parallel "$3"
}

# run_sanitizers ASAN_LABELS TSAN_LABELS: without the tests that have one of these labels. Those of asan compute, those of
# tsan mostly wait: both at a time, and those that wait go first. So do compilers that daemons start, with a lower priority
# than theirs.
run_sanitizers() {
    echo "==== asan, tsan: build"
    finish_beside || { cat "$log" && exit 1; }
    run="exec"
    beside tsan run_tests tsan 2000 "$processors" "$2"
    failed=0
    (run="exec nice -n 10" && run_tests asan 2000 "$processors" "$1") || failed=1
    finish_beside || failed=1
    cat "$log"
    return $failed
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

processors=$(nproc)
more=$((processors + 2)) # because of those that wait
case $kind in
quick)
    build release
    run_tests release 4000 "$more" 'slow|full'
    ;;
suite)
    build release all bench
    beside sanitizers build_sanitizers
    run_tests release 20000 "$more" full
    run_sanitizers 'daemon|full' full
    ;;
full)
    build release all bench
    say_what_full_adds
    beside sanitizers build_sanitizers
    run_tests release 100000 "$more"
    run_sanitizers '' ''
    ;;
esac
