#!/bin/sh
# Records the corpus again on the GPU of this machine: random runs of every class, a file of compressed JSON Lines.
#
#   sh scripts/record.sh PROGRAM FILE.jsonl.gz [SEED]
set -eu
program=$1
file=$2
seed=${3:-2026}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

record() {
    echo "$2 runs of class $1" >&2
    # Exit code 1 means that some predictions differ, which recordings are meant to show.
    "$program" fuzz --device cuda --class "$1" --count "$2" --seed "$seed" -o "$work/$1.jsonl" || [ $? = 1 ]
    cat "$work/$1.jsonl" >>"$work/all.jsonl"
}
record plain 400
record shared 400
record small 400
record exits 400
record priority 150
record local 150
record carveout 200
record cluster 300
record timed 20
record urgent 10
gzip -9 -n -c "$work/all.jsonl" >"$work/all.gz"
mv "$work/all.gz" "$file"
