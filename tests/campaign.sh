#!/bin/sh
# A campaign loses nothing: killed in the middle and resumed, it ends with the same file and report as one that was never
# interrupted; Ctrl-C keeps the runs that are done.
#
#   sh tests/campaign.sh PROGRAM
set -u
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() {
    echo "FAILED $1"
    failed=1
}

# The number of runs that takes well over a second here: sanitized programs and busy machines are slower.
campaign="fuzz --device model:h200,skip=5 --seed 9"
begin=$(date +%s%N)
"$program" $campaign --count 200 >/dev/null 2>&1
took=$((($(date +%s%N) - begin) / 1000000 + 1))
count=$((200 * 1200 / took))
[ "$count" -lt 200 ] && count=200
campaign="$campaign --count $count"

"$program" $campaign --out "$work/whole.jsonl" >"$work/whole.txt" 2>/dev/null
[ $? = 1 ] || complain "the undisturbed campaign did not find the quirk"
[ "$(wc -l <"$work/whole.jsonl")" = "$((count + 1))" ] || complain "the undisturbed campaign has not $count runs"

# stop SIGNAL TENTHS: continues the campaign and ends it by a signal when this much of it is done.
stop() {
    wanted=$((count * $2 / 10))
    "$program" $campaign --out "$work/cut.jsonl" --resume >"$work/cut.txt" 2>"$work/cut.err" &
    running=$!
    while kill -0 "$running" 2>/dev/null && [ "$(wc -l <"$work/cut.jsonl")" -lt "$wanted" ]; do
        sleep 0.01
    done
    kill -"$1" "$running" 2>/dev/null
    wait "$running" 2>/dev/null
    status=$?
}

# ---- killed ----
: >"$work/cut.jsonl"
for tenths in 1 2 3; do
    stop KILL $tenths
    lines=$(wc -l <"$work/cut.jsonl")
    head -n "$lines" "$work/cut.jsonl" >"$work/head.jsonl"
    head -n "$lines" "$work/whole.jsonl" | cmp -s - "$work/head.jsonl" || complain "killed: $lines lines are not whole"
    echo "killed after $tenths tenths: $lines of $count runs"
done

# A kill in the middle of a write, which is too short to hit, is simulated: the next line without its end.
lines=$(wc -l <"$work/cut.jsonl")
if [ "$lines" -lt "$count" ]; then
    sed -n "$((lines + 1))p" "$work/whole.jsonl" | head -c 1000 >"$work/torn"
    head -n "$lines" "$work/cut.jsonl" >"$work/next.jsonl"
    cat "$work/torn" >>"$work/next.jsonl"
    mv "$work/next.jsonl" "$work/cut.jsonl"
else
    complain "the campaign was over before it was killed"
fi

# ---- Ctrl-C: not KILL, so there is a report of what was done ----
stop INT 5
[ "$status" = 1 ] || complain "interrupted: exit code $status, not 1"
grep -q "stopped after [0-9]* of $count runs; --resume goes on" "$work/cut.err" || complain "interrupted: does not say so"
grep -q "^repeatability" "$work/cut.txt" || complain "interrupted: no report"
[ "$(wc -l <"$work/cut.jsonl")" -ge "$lines" ] || complain "interrupted: runs were lost"
tail -c 1 "$work/cut.jsonl" | od -c | grep -q '\\n' || complain "interrupted: the last line is not whole"
stop TERM 7
[ "$status" = 1 ] || complain "terminated: exit code $status, not 1"

# ---- to the end ----
"$program" $campaign --out "$work/cut.jsonl" --resume >"$work/cut.txt" 2>"$work/cut.err"
cmp "$work/whole.jsonl" "$work/cut.jsonl" || complain "the resumed file differs"
cmp "$work/whole.txt" "$work/cut.txt" || complain "the resumed report differs"
"$program" $campaign --out "$work/cut.jsonl" --resume >"$work/again.txt" 2>/dev/null
cmp "$work/whole.jsonl" "$work/cut.jsonl" || complain "resuming what is complete changed the file"
cmp "$work/whole.txt" "$work/again.txt" || complain "resuming what is complete changed the report"

# ---- recordings are a device, and replay gives the same result for them ----
"$program" fuzz --device "replay:$work/whole.jsonl" --seed 9 --count "$count" >"$work/replayed.txt" 2>/dev/null
cmp "$work/whole.txt" "$work/replayed.txt" || complain "the recordings play differently"
"$program" replay "$work/whole.jsonl" >"$work/score.txt"
head -n "$(wc -l <"$work/score.txt")" "$work/whole.txt" | cmp - "$work/score.txt" || complain "replay scores differently"

# ---- shards: whatever their number, killed, resumed and merged, they are the same file ----
# shard NUMBER COUNT: plays a shard; every third one is killed after some time first.
shard() {
    if [ $(($1 % 3)) = 0 ]; then
        "$program" $campaign --shard "$1/$2" --out "$work/shards" --resume >/dev/null 2>&1 &
        running=$!
        sleep 0.$((($1 * 7) % 10))
        kill -KILL $running 2>/dev/null
        wait $running 2>/dev/null
    fi
    "$program" $campaign --shard "$1/$2" --out "$work/shards" --resume >/dev/null 2>&1
}
for shards in 1 2 7 20; do
    rm -rf "$work/shards" && mkdir "$work/shards"
    number=0
    while [ $number -lt $shards ]; do
        number=$((number + 1))
        shard $number $shards
    done
    "$program" merge -o "$work/merged.jsonl" "$work/shards" 2>/dev/null || complain "$shards shards are not merged"
    cmp "$work/whole.jsonl" "$work/merged.jsonl" || complain "$shards shards are not the whole"
done

# What is wrong is named, and nothing is written.
# refused WORDS COMMAND...
refused() {
    words=$1
    shift
    rm -f "$work/merged.jsonl"
    "$@" >"$work/said.txt" 2>&1
    [ $? = 1 ] && grep -qF -- "$words" "$work/said.txt" || { complain "merge: does not say $words" && cat "$work/said.txt"; }
    [ ! -e "$work/merged.jsonl" ] || complain "merge: wrote a file, but $words"
}
mv "$work/shards/fuzz-seed9-shard05of20.jsonl" "$work/fifth.jsonl"
refused "shard 5 of 20 is missing" "$program" merge -o "$work/merged.jsonl" "$work/shards"
refused "shard 4 is there twice" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/fifth.jsonl" \
    "$work/shards/fuzz-seed9-shard04of20.jsonl"
head -c -10 "$work/fifth.jsonl" >"$work/torn.jsonl"
refused "torn.jsonl: incomplete" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/torn.jsonl"
sed 's/"skip=5"/"skip=6"/; s/,skip=5/,skip=6/' "$work/fifth.jsonl" >"$work/foreign.jsonl"
refused "not of the same campaign" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/foreign.jsonl"
sed '1s|campaign/1|campaign/2|' "$work/fifth.jsonl" >"$work/newer.jsonl"
refused "newer.jsonl: not the file of a campaign" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/newer.jsonl"
sed '3d' "$work/fifth.jsonl" >"$work/hole.jsonl"
refused "hole.jsonl: line 3 is not the next run of this shard" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/hole.jsonl"
for hostile in '"shard":[0,20]' '"shard":[21,20]' '"shard":[1,9223372036854775807]' '"shard":7' '"count":-5,"shard":[5,20]'; do
    sed "1s/\"shard\":[^]]*]/$hostile/" "$work/fifth.jsonl" >"$work/hostile.jsonl"
    refused "hostile.jsonl: " "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/hostile.jsonl"
done
"$program" $campaign --shard 5/20 --out "$work/shards" --seed 10 --resume >/dev/null 2>&1
sed -n 1p "$work/fifth.jsonl" | grep -q '"seed":9,' || complain "a shard does not state its seed"
"$program" merge -o "$work/merged.jsonl" "$work"/shards/*seed9* "$work/fifth.jsonl" 2>/dev/null
cmp "$work/whole.jsonl" "$work/merged.jsonl" || complain "the shards, given as files, are not the whole"

[ "$failed" = 0 ] && echo "$count runs: nothing was lost"
exit "$failed"
