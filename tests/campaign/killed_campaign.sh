#!/bin/sh
# A campaign loses nothing: killed in the middle and resumed, it ends with the same file and report as one that was never
# interrupted; Ctrl-C keeps the runs that are done. Cut into shards that are killed, resumed and merged, it is the same file.
#
#   sh tests/campaign/killed_campaign.sh PROGRAM
#
# GRIDSMITH_SEED is the seed of the random campaigns, GRIDSMITH_RUNS / 20000 (5) how many there are.
. "$(dirname "$0")/../support/checks.sh"
program=$1

# The number of runs that takes well over a second here: sanitized programs and busy machines are slower.
campaign="fuzz --device model:h200,skip=5 --seed 9"
begin=$(date +%s%N)
"$program" $campaign --count 200 >/dev/null 2>&1
took=$((($(date +%s%N) - begin) / 1000000 + 1))
count=$((200 * 1200 / took))
[ "$count" -lt 200 ] && count=200
campaign="$campaign --count $count"

"$program" $campaign --out "$work/whole.jsonl" >"$work/whole.txt" 2>/dev/null
[ $? = 1 ] || fail "the undisturbed campaign did not find the quirk"
[ "$(wc -l <"$work/whole.jsonl")" = "$((count + 1))" ] || fail "the undisturbed campaign has not $count runs"

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
    head -n "$lines" "$work/whole.jsonl" | cmp -s - "$work/head.jsonl" || fail "killed: $lines lines are not whole"
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
    fail "the campaign was over before it was killed"
fi

# ---- Ctrl-C: not KILL, so there is a report of what was done ----
stop INT 5
[ "$status" = 130 ] || fail "interrupted: exit code $status, not 130"
grep -q "stopped after [0-9]* of $count runs; --resume continues" "$work/cut.err" || fail "interrupted: does not say so"
grep -q "^repeatability" "$work/cut.txt" || fail "interrupted: no report"
[ "$(wc -l <"$work/cut.jsonl")" -ge "$lines" ] || fail "interrupted: runs were lost"
tail -c 1 "$work/cut.jsonl" | od -c | grep -q '\\n' || fail "interrupted: the last line is not whole"
stop TERM 7
[ "$status" = 143 ] || fail "terminated: exit code $status, not 143"

# ---- to the end ----
"$program" $campaign --out "$work/cut.jsonl" --resume >"$work/cut.txt" 2>"$work/cut.err"
cmp "$work/whole.jsonl" "$work/cut.jsonl" || fail "the resumed file differs"
cmp "$work/whole.txt" "$work/cut.txt" || fail "the resumed report differs"
"$program" $campaign --out "$work/cut.jsonl" --resume >"$work/again.txt" 2>/dev/null
cmp "$work/whole.jsonl" "$work/cut.jsonl" || fail "resuming what is complete changed the file"
cmp "$work/whole.txt" "$work/again.txt" || fail "resuming what is complete changed the report"

# ---- recordings are a device, and replay gives the same result for them ----
"$program" fuzz --device "replay:$work/whole.jsonl" --seed 9 --count "$count" >"$work/replayed.txt" 2>/dev/null
cmp "$work/whole.txt" "$work/replayed.txt" || fail "the recordings play differently"
"$program" replay "$work/whole.jsonl" >"$work/score.txt"
head -n "$(wc -l <"$work/score.txt")" "$work/whole.txt" | cmp - "$work/score.txt" || fail "replay scores differently"

# ---- shards: random campaigns in any number of shards, killed, torn, resumed and merged, are the same file ----
seed=${GRIDSMITH_SEED:-1}
# draw N: a number from 0 to N - 1, in $drawn.
draw() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 1024 % $1))
}
# play NUMBER COUNT: plays a shard to its end.
play() {
    "$program" $random --shard "$1/$2" --out "$work/shards" --resume >/dev/null 2>"$work/shard.err"
    [ $? -le 1 ] || { fail "seed $first: shard $1/$2 of $random fails" && cat "$work/shard.err"; }
}
# disturb NUMBER COUNT: plays a shard that is killed, or cuts off a played one at any byte: a kill in the middle of a write.
disturb() {
    draw 2
    if [ "$drawn" = 0 ]; then
        "$program" $random --shard "$1/$2" --out "$work/shards" --resume >/dev/null 2>&1 &
        running=$!
        draw 8
        sleep 0.0$drawn
        kill -KILL $running 2>/dev/null
        wait $running 2>/dev/null
    else
        play "$1" "$2"
        file=$(ls "$work/shards"/*-shard*"$1"of"$2".jsonl | grep -E "shard0*$1of")
        draw $(($(wc -c <"$file") + 1))
        head -c "$drawn" "$file" >"$work/cut" && mv "$work/cut" "$file"
    fi
}
rounds=$((${GRIDSMITH_RUNS:-100000} / 20000))
[ $rounds -ge 2 ] || rounds=2
while [ $rounds -gt 0 ]; do
    rounds=$((rounds - 1))
    first=$seed
    draw 60 && runs=$((drawn + 1))
    draw 1000 && random="fuzz --device model:rtx3090,skip=5 --seed $drawn --count $runs"
    draw 4
    for class in shared timed exits; do
        [ "$drawn" = 0 ] || { random="$random --class $class" && drawn=$((drawn - 1)); }
    done
    draw 20 && shards=$((drawn + 1))
    rm -rf "$work/shards" "$work/random.jsonl" && mkdir "$work/shards"
    "$program" $random --out "$work/random.jsonl" >/dev/null 2>&1
    number=$shards
    while [ $number -gt 0 ]; do
        draw 4
        [ "$drawn" != 0 ] || disturb $number $shards
        play $number $shards
        number=$((number - 1))
    done
    "$program" merge -o "$work/merged.jsonl" "$work/shards" >"$work/said.txt" 2>/dev/null ||
        { fail "seed $first: $shards shards of $random are not merged" && cat "$work/said.txt"; }
    cmp "$work/random.jsonl" "$work/merged.jsonl" || fail "seed $first: $shards shards of $random are not the whole"
done

# One campaign in 20 shards, for what follows.
rm -rf "$work/shards" && mkdir "$work/shards"
random=$campaign first=$seed number=0
while [ $number -lt 20 ]; do
    number=$((number + 1))
    play $number 20
done

# What is wrong is named, and nothing is written.
# refused WORDS COMMAND...
refused() {
    words=$1
    shift
    rm -f "$work/merged.jsonl"
    "$@" >"$work/said.txt" 2>&1
    [ $? = 1 ] && grep -qF -- "$words" "$work/said.txt" || { fail "merge: does not say $words" && cat "$work/said.txt"; }
    [ ! -e "$work/merged.jsonl" ] || fail "merge: wrote a file, but $words"
}
mv "$work/shards/fuzz-seed9-shard05of20.jsonl" "$work/fifth.jsonl"
refused "shard 5 of 20 is missing" "$program" merge -o "$work/merged.jsonl" "$work/shards"
refused "duplicate of shard 4" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/fifth.jsonl" \
    "$work/shards/fuzz-seed9-shard04of20.jsonl"
head -c -10 "$work/fifth.jsonl" >"$work/torn.jsonl"
refused "torn.jsonl: incomplete" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/torn.jsonl"
sed 's/"skip=5"/"skip=6"/; s/,skip=5/,skip=6/' "$work/fifth.jsonl" >"$work/foreign.jsonl"
refused '"device" is "model:h200,skip=6", not "model:h200,skip=5"' "$program" merge -o "$work/merged.jsonl" "$work/shards" \
    "$work/foreign.jsonl"
sed '1s|campaign/1|campaign/2|' "$work/fifth.jsonl" >"$work/newer.jsonl"
refused "newer.jsonl: written by a newer version of gridsmith" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/newer.jsonl"
sed '3d' "$work/fifth.jsonl" >"$work/hole.jsonl"
refused "hole.jsonl: line 3 is not the next run of this shard" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/hole.jsonl"
sed '3{p}' "$work/fifth.jsonl" >"$work/twice.jsonl"
refused "twice.jsonl: line 4 is not the next run of this shard" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/twice.jsonl"
sed '3s/.$//' "$work/fifth.jsonl" >"$work/damaged.jsonl"
refused "damaged.jsonl: line 3 is damaged" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/damaged.jsonl"
{ cat "$work/fifth.jsonl" && printf '{"schema":'; } >"$work/more.jsonl"
lines=$(($(wc -l <"$work/fifth.jsonl") + 1))
refused "more.jsonl: line $lines is not the next run of this shard" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/more.jsonl"
{ cat "$work/fifth.jsonl" && head -c 3000000 /dev/zero; } >"$work/zeros.jsonl"
refused "zeros.jsonl: line $lines is not the next run of this shard" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/zeros.jsonl"
head -c 50 "$work/fifth.jsonl" >"$work/begun.jsonl"
refused "begun.jsonl: incomplete, no runs" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/begun.jsonl"
: >"$work/empty.jsonl"
refused "empty.jsonl: empty" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/empty.jsonl"
mkfifo "$work/pipe.jsonl"
refused "pipe.jsonl: not a plain file" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/pipe.jsonl"
"$program" $campaign --shard 2/3 --out "$work" >/dev/null 2>&1
refused "one of 3 shards, but" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/fuzz-seed9-shard2of3.jsonl"
mkdir "$work/none"
refused "none: no shard in this folder" "$program" merge -o "$work/merged.jsonl" "$work/none"
for hostile in '"shard":[0,20]' '"shard":[21,20]' '"shard":[1,9223372036854775807]' '"shard":7' '"count":-5,"shard":[5,20]' \
    '"count":7,"shard":[5,20]' '"shard": [5,20]' '"shard":[5,20],"shard":[5,20]' '"shard":[5,20,1]' '"shard":[5,20],"gpu":{}'; do
    sed "1s/\"shard\":[^]]*]/$hostile/" "$work/fifth.jsonl" >"$work/hostile.jsonl"
    refused "hostile.jsonl: not the file of a campaign" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/hostile.jsonl"
    [ "$(wc -l <"$work/said.txt")" = 1 ] || fail "merge: several lines about $hostile"
done
{ sed '1s/,"gpus":.*//; 1q' "$work/fifth.jsonl" | tr -d '\n' && printf ',"gpus":[0' && seq -s '' -f ',%.0f' 1 90000 && printf ']}\n'; } |
    tr -d '\n' >"$work/hostile.jsonl"
echo >>"$work/hostile.jsonl"
refused "hostile.jsonl: not the file of a campaign" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/hostile.jsonl"
sed '1s/"command":"fuzz"/"command":"dance"/' "$work/fifth.jsonl" >"$work/hostile.jsonl"
refused "hostile.jsonl: not the file of a campaign" "$program" merge -o "$work/merged.jsonl" "$work/shards" "$work/hostile.jsonl"
# Nor is such a shard continued.
sed '3d' "$work/fifth.jsonl" >"$work/shards/fuzz-seed9-shard05of20.jsonl"
"$program" $campaign --shard 5/20 --out "$work/shards" --resume >"$work/said.txt" 2>&1
[ $? = 2 ] && grep -q "line 3 is not the next run of this campaign" "$work/said.txt" || fail "a shard with a hole is continued"
rm "$work/shards/fuzz-seed9-shard05of20.jsonl"
"$program" $campaign --shard 5/20 --out "$work/shards" --seed 10 --resume >/dev/null 2>&1
sed -n 1p "$work/fifth.jsonl" | grep -q '"seed":9,' || fail "a shard does not state its seed"
"$program" merge -o "$work/merged.jsonl" "$work"/shards/*seed9* "$work/fifth.jsonl" 2>/dev/null
cmp "$work/whole.jsonl" "$work/merged.jsonl" || fail "the shards, given as files, are not the whole"

finish "$count runs: nothing was lost"
