#!/bin/sh
# bench/pairs: one pair of kernels in every mode on a fake GPU, with correct results and nothing left behind.
#
#   sh tests/share/pairs.sh PAIRS FAKE_FOLDER
. "$(dirname "$0")/../support/checks.sh"
pairs=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
PATH=$here:$PATH
TMPDIR=$work
GRIDSMITH_PTXAS=$here/../fake/ptxas
export PATH TMPDIR GRIDSMITH_PTXAS

# run EXIT_CODE ARGUMENTS...
run() {
    wanted=$1
    shift
    check "$*" "$wanted" env GRIDSMITH_FAKE=h200 LD_LIBRARY_PATH="$folder" "$pairs" "$@"
}

run 2 --ms 0
run 2 --size huge
run 0 --size tiny --ms 0.01 --repeats 1 --only wgemm-histo --clocks --json "$work/pairs.json"
for word in '"schema":"gridsmith.pairs/1"' '"first":"wgemm","second":"histo"' '"serial":{' '"streams":{' '"mps":{' '"inside":{' \
    '"split":{' '"right":true' '"clocks":{"first":{"mhz":'; do
    grep -qF -- "$word" "$work/pairs.json" || fail "the document has no $word"
done
grep -q '^wgemm  *histo ' "$work/out" || fail "there is no row for the pair"
[ -z "$(cat "$work/err")" ] || fail "something is on standard error"
find "$work" -name "gridsmith*" | grep -q . && fail "a folder is left"
finish "a pair of kernels was measured"
