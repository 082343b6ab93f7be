#!/bin/sh
# The protocol between clients, the daemon and the worker, as state machines (tests/spin/*.pml), checked with spin: every
# state that can be reached. Models that are broken on purpose must be found, because a check that cannot fail is worthless.
#
#   sh tests/spin/run.sh SOURCE_DIR [long]     # long: also larger models, takes some minutes
set -u
command -v spin >/dev/null || { echo "spin is not installed: skipped"; exit 77; }
models=$(cd "$1" && pwd)/tests/spin || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# For short searches compiling takes longest: clang without optimization is the quickest.
command -v clang >/dev/null && quick="clang -O0" || quick="cc -O0"

# explore MODEL "DEFINES" "COMPILER AND OPTIONS" "OPTIONS OF THE SEARCH": what it found is in `found`.
explore() {
    rm -f pan* ./*.trail found
    # shellcheck disable=SC2086
    spin $2 -a "$models/$1.pml" >found 2>&1 && $3 -w -DMEMLIM=1500 -o pan pan.c >>found 2>&1 &&
        ./pan -m100000 $4 >>found 2>&1
    grep -q 'errors:' found && ! grep -q 'Search not completed' found
}

says() {
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' found)
    printf '%-8s %-28s %-9s %s states\n' "$1" "$2" "$3" "$states"
}

# judge STATUS MODEL WORDS: the search must have found no error.
judge() {
    if [ "$1" = 0 ] && grep -q 'errors: 0' found; then
        says "$2" "$3" right
    else
        echo "FAILED $2 $3"
        tail -n 25 found
        failed=1
    fi
}

# right MODEL DEFINES: all states, no error, no deadlock.
right() {
    compiler="cc -Og"
    case $1 in
    file | blocks) compiler=$quick ;;
    session) compiler="cc -Og -DCOLLAPSE" ;; # half the memory
    esac
    explore "$1" "$2" "$compiler -DSAFETY" ""
    judge $? "$1" "$2"
}

# ends MODEL DEFINES: each process that waits gets an answer, if no process that can move waits forever (weak fairness).
ends() {
    explore "$1" "-DENDS $2" "cc -Og -DNFAIR=4" "-a -f"
    judge $? "$1" "ends $2"
}

# wrong MODEL DEFINES [OPTIONS OF CC]: the search stops at an error.
wrong() {
    explore "$1" "$2" "$quick -DSAFETY ${3:-}" "-w20"
    if grep -q 'errors: 1' found; then
        says "$1" "$2" caught
    else
        echo "FAILED $1 $2 is broken, and was not caught"
        tail -n 25 found
        failed=1
    fi
}

right ring ""
right ring "-DKILL -DORDERS=2"
wrong ring -DBROKEN_WAKE
wrong ring -DBROKEN_ORDER
wrong ring -DBROKEN_SILENCE
wrong ring -DBROKEN_FLUSH
wrong ring "-DBROKEN_ROOM -DORDERS=5"

right wait -DEND
right wait "-DKILL -DFIRST=1"
ends wait -DFIRST=1
wrong wait -DBROKEN_FENCE
wrong wait -DBROKEN_NAP
wrong wait -DBROKEN_LATE
wrong wait "-DEND -DBROKEN_END"

right session ""
wrong session -DBROKEN_FREE
wrong session "-DBROKEN_DECIDE -DLOSSES=0"
backwards="-DREVERSE -DT_REVERSE" # it is found sooner
wrong session -DBROKEN_STALE "$backwards"
wrong session -DBROKEN_SETTLE "$backwards"
wrong session -DBROKEN_DOWN "$backwards"

right file ""
wrong file -DBROKEN_ORDER
wrong file -DBROKEN_FULL
wrong file -DBROKEN_LATE

right run ""
ends run -DCHANGES=1
wrong run -DBROKEN_RESUME
wrong run -DBROKEN_TASK
wrong run -DBROKEN_LAND

right blocks ""
right blocks "-DWORKERS=4 -DBLOCKS=7"
wrong blocks -DBROKEN_LAST

if [ "${2:-}" = long ]; then
    right ring "-DKILL -DORDERS=3"
    right wait -DKILL
    ends session -DLOSSES=0
    right run "-DCHANGES=3"
fi
exit "$failed"
