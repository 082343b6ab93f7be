#!/bin/sh
# Each description that was made of a pack still predicts the runs of that pack: as many as its row in docs/gpus.md says, those it was
# fitted with and those that were held out. `gridsmith adopt` adds the description, the runs and the row, so this test covers it.
#
#   sh tests/calibrate/adopted.sh PROGRAM TREE
set -u
program=$1
tree=$2
failed=0
count=0
while IFS='|' read -r _ name _ _ _ _ fitted held_out _; do
    name=$(echo $name) fitted=$(echo "${fitted%% of *}") held_out=$(echo "${held_out%% of *}")
    case "x$(echo $fitted)/$(echo $held_out)" in *[!0-9/x]* | x/* | x*/) continue ;; esac
    wanted=$((fitted + held_out))
    found=$("$program" replay --json --gpu "$tree/gpus/$name.json" "$tree/corpus/$name.jsonl.gz" |
        sed 's/"runs_exact"/\n&/g' | sed -n 's/^"runs_exact": *\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }')
    count=$((count + 1))
    if [ "$found" -ge "$wanted" ]; then
        echo "$name: $found of $wanted runs"
    else
        echo "FAILED $name: $found runs are exact, but docs/gpus.md says $wanted"
        failed=1
    fi
done <"$tree/docs/gpus.md"
[ -d "$tree/gpus" ] || failed=1
echo "adopted descriptions: $count"
exit $failed
