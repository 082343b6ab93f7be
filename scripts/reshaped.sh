#!/bin/sh
# Reshaped kernels on a real GPU: the traps and random kernels in all forms, the cost of persistent and confined kernels
# over the original (medians of alternating runs), and compute-sanitizer if it is installed. Build first; GRIDSMITH and
# GRIDSMITH_TESTS name the program and the folder of the tests if they are elsewhere.
#
#   sh scripts/reshaped.sh [--quick]
set -u
cd "$(dirname "$0")/.." || exit 1
gridsmith=${GRIDSMITH:-build/release/gridsmith}
tests=${GRIDSMITH_TESTS:-build/release/tests}
repeat=200
large=67108864
[ "${1:-}" = --quick ] && repeat=3 large=65536
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

echo "==== the traps and random kernels, in all forms"
for test in test_traps test_forms_of_cuda; do
    GRIDSMITH_ON=cuda "$tests/$test" >"$work/log" 2>&1 || { failed=1 && grep ERROR "$work/log"; }
    grep -E 'accepted|PASSED' "$work/log"
done

blocks=$((large / 256))
cat >"$work/vector_add.json" <<EOF
{"schema": "gridsmith.launch/1", "grid": [$blocks, 1, 1], "block": [256, 1, 1], "arguments": [
 {"buffer": "float32", "count": $large, "fill": "index"}, {"buffer": "float32", "count": $large, "fill": "index"},
 {"buffer": "float32", "count": $large, "fill": "zero"}, {"int32": $large}]}
EOF
cat >"$work/reduce.json" <<EOF
{"schema": "gridsmith.launch/1", "grid": [$blocks, 1, 1], "block": [256, 1, 1], "arguments": [
 {"buffer": "int32", "count": $large, "fill": "index"}, {"buffer": "int32", "count": $blocks, "fill": "zero"},
 {"int32": $large}]}
EOF

# cost FILE KERNEL FORM [OPTIONS...]
cost() {
    file=$1 kernel=$2 form=$3
    shift 3
    "$gridsmith" verify "kernels/$file.cu" --kernel "$kernel" --as "$form" --launch "$work/$file.json" --device cuda \
        --seconds 300 "$@" || failed=1
}

echo "==== what it costs"
for form in persistent confined; do
    cost vector_add vector_add $form --repeat $repeat
    cost reduce 'reduce<256>' $form --repeat $repeat
done
cost reduce 'reduce<256>' confined --stops 20 --seed 7

if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        echo "==== compute-sanitizer, $tool"
        GRIDSMITH_ON=cuda compute-sanitizer --tool $tool --error-exitcode 9 "$tests/test_traps" \
            >"$work/log" 2>&1 || { failed=1 && grep -v '^\[' "$work/log" | head -n 20; }
        grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$work/log"
    done
else
    echo "compute-sanitizer is not here"
fi
exit $failed
