#!/bin/sh
# The zoo on a real GPU: every kernel in every form at every size, the cost of the forms, and compute-sanitizer if it is
# installed. Build first.
#
#   sh scripts/zoo.sh [--quick] [check] [bench] [sanitize]     (default: all three)
set -u
cd "$(dirname "$0")/.." || exit 1
zoo="${GRIDSMITH:-build/release/gridsmith} zoo"
repeat=25 large=large
[ "${1:-}" = --quick ] && repeat=2 large= && shift
[ $# = 0 ] && set -- check bench sanitize
failed=0

# once ARGUMENTS...: one table; the last line counts the correct rows.
once() {
    echo "== zoo run $*"
    # shellcheck disable=SC2086
    $zoo run "$@" --device cuda --seconds 300 || failed=1
}

check() {
    for size in tiny odd small $large; do
        once all --size "$size"
        once all --size "$size" --as persistent
        once all --size "$size" --as confined --stops 3
    done
    for size in tiny odd small; do
        once all --size "$size" --as elastic
        once all --size "$size" --as registers --registers 40
    done
}

bench() {
    echo "== zoo bench"
    # shellcheck disable=SC2086
    $zoo bench --device cuda --repeat "$repeat" --seconds 300 --size "${large:-small}" || failed=1
}

sanitize() {
    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    [ -x "$sanitizer" ] || { echo "== no compute-sanitizer here" && return; }
    for tool in memcheck racecheck synccheck; do
        for form in "" "--as persistent" "--as confined"; do
            echo "== $tool, zoo run all --size odd $form"
            # shellcheck disable=SC2086
            "$sanitizer" --tool "$tool" --error-exitcode 9 $zoo run all --size odd --device cuda --seconds 300 $form \
                >sanitizer.log 2>&1 || { failed=1 && grep -E '=========|wrong' sanitizer.log | head -n 20; }
            tail -n 1 sanitizer.log && rm -f sanitizer.log
        done
    done
}

for part; do
    case $part in
    check | bench | sanitize) $part ;;
    *) echo "unknown part \"$part\"; it must be check, bench or sanitize" && exit 2 ;;
    esac
done
exit "$failed"
