#!/bin/sh
# Every test: installs what is missing, builds with gcc and clang without a warning, runs everything, also under
# AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Needs no GPU and no network once set up.
#
#   sh scripts/test.sh          # everything, some minutes
#   sh scripts/test.sh quick    # about a minute: no sanitizers, fewer random runs, without the tests that are slow even so
set -eu
cd "$(dirname "$0")/.."

case $* in
"" | quick) ;;
*) echo "test.sh: unknown argument \"$*\"; usage: sh scripts/test.sh [quick]" >&2 && exit 2 ;;
esac

sh scripts/setup.sh test

# build_and_test PRESET [OPTIONS OF CTEST...]
build_and_test() {
    echo "==== $1"
    cmake --preset "$1" >/dev/null
    targets=all
    [ "$1" != release ] || targets="all bench"
    # shellcheck disable=SC2086
    cmake --build --preset "$1" --target $targets
    # Daemons and their clients wait a good part of their time: two tests more than there are processors.
    ctest --preset "$@" --parallel $(($(nproc) + 2))
}

if [ "$*" = quick ]; then
    export GRIDSMITH_RUNS="${GRIDSMITH_RUNS:-4000}"
    build_and_test release --label-exclude '^slow$'
    exit
fi
build_and_test release
# Sanitizers look at what is run, not at how often: few random runs.
export GRIDSMITH_RUNS="${GRIDSMITH_RUNS:-2000}"
build_and_test asan
build_and_test tsan
