#!/bin/sh
# Small inputs with large numbers in them: the cost follows the answer, or there is one clear line.
#
# Each command may use 2 GB of memory, and must end by itself in five minutes on any machine. Nothing here measures time:
# what depends on the numbers would take hours.
#
#   sh tests/cmd/large.sh PROGRAM SOURCE_DIR
. "$(dirname "$0")/../support/checks.sh"
program=$1
cd "$2" || exit 1

# A program with AddressSanitizer needs more addresses than any limit allows.
limit=2000000
(ulimit -v $limit && "$program" --version) >"$work/out" 2>&1 || limit=unlimited

# check NAME EXIT_CODE WORDS ARGUMENTS...: runs the program; its output has the words.
check() {
    name=$1 wanted=$2 words=$3
    shift 3
    (ulimit -v $limit && exec timeout 300 "$program" "$@") >"$work/out" 2>"$work/err"
    found=$?
    [ $found = "$wanted" ] && cat "$work/out" "$work/err" | grep -q -- "$words" ||
        fail "$name: exit code $found, not $wanted, or it does not say \"$words\""
    [ "$wanted" != 2 ] || is_one_line
}

# run FILE EVENT...: a file with a run on the H200.
run() {
    file=$1
    shift
    events=$(printf ',%s' "$@")
    printf '{"schema":"gridsmith.run/1","gpu":"h200","events":[%s]}\n' "${events#,}" >"$file"
}

# launch KERNEL BLOCKS REST
launch() {
    printf '{"op":"launch","kernel":"%s","blocks":%s,"threads":256,"registers":32,"shared_bytes":0%s}' "$1" "$2" "$3"
}

# ---- blocks ----

most=2147483647
run "$work/waves.json" "$(launch a $most ',"duration_us":10')"
check "waves" 0 "2147483647       0         0.000 20336020.000  128-131, 124-127" predict "$work/waves.json"
run "$work/beside.json" "$(launch a 7 ',"duration_us":5000000')" "$(launch b $most ',"duration_us":10,"cluster":1')" \
    "$(launch c $most ',"duration_us":3,"priority":-5')" '{"op":"exit","kernel":"b"}' "$(launch d $most '')"
check "waves beside each other" 0 "launch   d" predict --explain "$work/beside.json"
run "$work/waiting.json" "$(launch a 1 '')" "$(launch b $most '')" '{"op":"exit","kernel":"a"}'
check "blocks that wait" 0 "2147482591" predict "$work/waiting.json"
for format in json csv; do
    check "every block as $format" 2 "at most 100000000" predict --$format -o "$work/blocks" "$work/waves.json"
done
for format in svg trace html; do
    check "every block as $format" 2 "at most 20000000 can be drawn" predict --$format -o "$work/blocks" "$work/waves.json"
done

# ---- launches ----

# launches COUNT KIND: a run of COUNT launches on the H200; the last does not fit.
launches() {
    awk -v count="$1" -v kind="$2" 'BEGIN {
        printf "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":["
        for (i = 0; i < count; i++) {
            printf "{\"op\":\"launch\",\"kernel\":\"k%d\",\"blocks\":1,\"threads\":%d,", i, kind == "shapes" ? 32 + i % 992 : 32
            printf "\"registers\":32,\"shared_bytes\":0%s},", kind == "priorities" ? ",\"priority\":" int(i * 1000 / count) : ""
            if (kind == "exits" && i >= 100)
                printf "{\"op\":\"exit\",\"kernel\":\"k%d\"},", i - 100
        }
        print "{\"op\":\"launch\",\"kernel\":\"last\",\"blocks\":100000,\"threads\":1024,\"registers\":32,\"shared_bytes\":0}]}"
    }'
}

for kind in same shapes exits; do
    launches 10000 $kind >"$work/launches.json"
    check "10000 launches: $kind" 1 "in this order: no" check "$work/launches.json"
done

launches 100000 priorities | sed 's/"events":\[/&{"op":"launch","kernel":"all","blocks":100000,"threads":1024,"registers":32,"shared_bytes":0},/' \
    >"$work/launches.json"
check "100000 launches that wait, by priority" 0 "100002  launch   last" predict "$work/launches.json"

# ---- documents ----

# spaces MIB: a document of MIB MiB that takes no memory except its text.
spaces() {
    printf '['
    head -c $(($1 << 20)) /dev/zero | tr '\0' ' '
    printf ']\n'
}

spaces 40 | gzip >"$work/expands.gz"
check "a small file that expands" 2 "more than 100 times as long" predict "$work/expands.gz"
check "a small input that expands" 2 "more than 100 times as long" predict - <"$work/expands.gz"
spaces 129 >"$work/long.json"
check "a long document" 2 "longer than 128 MiB" predict "$work/long.json"
head -c 30000000 /dev/zero | tr '\0' ' ' | sed 's/   /{},/g; s/.*/[&0]/' >"$work/brackets.json"
check "many objects" 2 "more objects and lists than" predict "$work/brackets.json"

# ---- recorded programs ----

# lines COUNT NAME: a run with COUNT launches, a line each.
lines() {
    echo '{"schema":"gridsmith.run/1","gpu":"h200","events":"follow"}'
    awk -v count="$1" -v name="$2" 'BEGIN {
        for (i = 1; i <= count; i++) {
            printf "{\"op\":\"launch\",\"id\":%d,\"kernel\":\"%s\",\"blocks\":1,\"threads\":32,", i, name
            printf "\"registers\":32,\"shared_bytes\":0,\"stream\":7,\"at_us\":%d.5}\n", i
        }
    }'
}

long=$(printf '%04000d' 0)
{ lines 300000 k; echo '{"op":"launch"}'; } >"$work/lines.jsonl"
check "300000 lines" 2 'lines.jsonl:300002:1: "kernel" is missing' check "$work/lines.jsonl"
lines 10000 "$long" | gzip -9 >"$work/lines.gz"
check "lines that expand" 2 "more than 100 times as long" check "$work/lines.gz"

# kernels COUNT NAME: a trace of the PyTorch profiler with COUNT kernels.
kernels() {
    awk -v count="$1" -v name="$2" 'BEGIN {
        print "["
        for (i = 1; i <= count; i++) {
            printf "{\"cat\":\"cpu_op\",\"args\":{\"a\":[%d]}},{\"cat\":\"kernel\",\"name\":\"%s\",\"ts\":%d,", i, name, i
            printf "\"dur\":1,\"args\":{\"stream\":7,\"grid\":[1,1,1],\"block\":[32,1,1],\"registers per thread\":8}},\n"
        }
        print "0]"
    }'
}

kernels 200000 k >"$work/trace.json"
check "a trace of 400000 events" 0 '"id":200000,' import "$work/trace.json"
kernels 10000 "$long" | gzip -9 >"$work/trace.gz"
check "a trace that expands" 2 "more than 100 times as long" import "$work/trace.gz"

# Every reader has the limit.
spaces 2 >"$work/two.json"
GRIDSMITH_DOCUMENT_MIB=1
export GRIDSMITH_DOCUMENT_MIB
check "a long run" 2 "longer than 1 MiB" check "$work/two.json"
check "a long recording" 2 "longer than 1 MiB" replay "$work/two.json"
check "a long GPU" 2 "longer than 1 MiB" gpus "$work/two.json"
check "a long program" 2 "longer than 1 MiB" bound "$work/two.json"
check "long measurements" 2 "longer than 1 MiB" bound --measured "$work/two.json"
check "a long launch" 2 "longer than 1 MiB" verify kernels/ptx/conv.ptx.gz --kernel im2col --as persistent \
    --launch "$work/two.json"
GRIDSMITH_DOCUMENT_MIB=3
check "a higher limit" 2 "must be an object\|expected an object" check "$work/two.json"
unset GRIDSMITH_DOCUMENT_MIB

# ---- interrupted ----

# interrupted NAME WORDS ARGUMENTS...: sends SIGINT as soon as the output file is begun. The program ends, says how far it
# came, and leaves no file.
interrupted() {
    name=$1 words=$2
    shift 2
    mkdir "$work/results"
    env --default-signal=INT "$program" "$@" -o "$work/results/file" >"$work/out" 2>"$work/err" </dev/null &
    process=$!
    while [ -z "$(ls "$work/results")" ] && kill -0 $process 2>/dev/null; do
        sleep 0.1
    done
    kill -INT $process
    wait $process
    found=$?
    [ $found = 130 ] && grep -q "gridsmith: interrupted while $words" "$work/err" && [ -z "$(ls "$work/results")" ] ||
        fail "$name: exit code $found, not 130, or it does not say \"$words\", or leaves $(ls "$work/results")"
    rm -rf "$work/results"
}

run "$work/spread.json" "$(launch a $most ',"duration_us":10,"spread_us":7')"
interrupted "predict" "\\(reading runs\\|placing blocks\\)" predict "$work/spread.json"

# A reader that leaves ends the program, also where SIGPIPE is ignored: there is no end of runs.
run "$work/rows.json" "$(launch a 1000 ',"duration_us":10')"
{
    trap '' PIPE
    yes "$(cat "$work/rows.json")" 2>/dev/null | timeout 300 "$program" predict --csv - 2>"$work/err"
    echo $? >"$work/code"
} | head -n 1 >/dev/null
[ "$(cat "$work/code")" = 4 ] && grep -q "Broken pipe" "$work/err" || fail "a reader that leaves: exit code $(cat "$work/code")"

finish "large numbers are no trouble"
