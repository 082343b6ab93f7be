#!/bin/sh
# bench/pairs: one pair of kernels in every mode on a fake GPU, with correct results and nothing left behind.
#
#   sh tests/share/pairs.sh PAIRS FAKE_FOLDER
set -u
pairs=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
PATH=$here:$PATH
TMPDIR=$work
GRIDSMITH_PTXAS=$here/../fake/ptxas
export PATH TMPDIR GRIDSMITH_PTXAS

complain() {
    failed=1
    echo "FAILED $*"
    head -n 30 "$work/out" "$work/err" | sed 's/^/    /'
}

# run EXIT_CODE ARGUMENTS...
run() {
    wanted=$1
    shift
    GRIDSMITH_FAKE=h200 LD_LIBRARY_PATH=$folder "$pairs" "$@" >"$work/out" 2>"$work/err" </dev/null
    found=$?
    [ "$found" = "$wanted" ] || complain "$*: exit code $found, not $wanted"
}

run 2 --ms 0
run 2 --size huge
run 0 --size tiny --ms 0.01 --repeats 1 --only wgemm-histo --clocks --json "$work/pairs.json"
for word in '"schema":"gridsmith.pairs/1"' '"first":"wgemm","second":"histo"' '"serial":{' '"streams":{' '"mps":{' '"inside":{' \
    '"split":{' '"right":true' '"clocks":{"first":{"mhz":'; do
    grep -qF -- "$word" "$work/pairs.json" || complain "the document has no $word"
done
grep -q '^wgemm  *histo ' "$work/out" || complain "there is no row for the pair"
[ -z "$(cat "$work/err")" ] || complain "something is on standard error"
find "$work" -name "gridsmith*" | grep -q . && complain "a folder is left"
exit $failed
