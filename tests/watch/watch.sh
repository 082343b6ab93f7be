#!/bin/sh
# `gridsmith watch` on the fake driver: programs that hang are explained, others are left alone.
#
#   sh tests/watch/watch.sh GRIDSMITH WATCHED_APP FAKE_DRIVER_FOLDER
set -u
gridsmith=$1 app=$2
export GRIDSMITH_FAKE=h200 LD_LIBRARY_PATH=$3
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
complain() {
    echo "$1"
    failed=1
}
# expect NAME TEXT: the report has this text.
expect() {
    grep -qF -- "$2" "$folder/$1" || {
        complain "$1: \"$2\" is missing in"
        cat "$folder/$1"
    }
}

# Programs with ThreadSanitizer have a thread of its own, which could end a wait for all that is known.
has_other_threads() {
    ldd "$app" | grep -q libtsan
}

# goes_on NAME PROGRAM...: watches a program that goes on until `timeout` ends it, and has its exit status in $status. On a
# busy machine the program gets more time to begin.
goes_on() {
    name=$1
    shift
    for seconds in 4 16 64; do
        timeout -s KILL 120 "$gridsmith" watch --after 700ms -- timeout $seconds "$@" 2>"$folder/$name"
        status=$?
        [ -s "$folder/$name" ] && break
    done
}

# Hangs: the program goes on, and its exit status is passed on; or it is ended.
goes_on value "$app" value
[ $status = 124 ] || complain "value: the exit status is not that of the program"
for how in circle batch host-lock host-many host-calls callback poll-error poll-failed graph-wait; do
    fake=h200
    [ $how = poll-failed ] && fake=h200,failed
    GRIDSMITH_FAKE=$fake timeout -s KILL 60 "$gridsmith" watch --after 700ms --abort -- "$app" $how 2>"$folder/$how"
    [ $? = 1 ] || complain "$how: the exit status is not 1"
done
for how in circle batch host-calls poll-failed; do
    [ "$(grep -c 'no progress' "$folder/$how")" = 1 ] || complain "$how: not one report"
done
# The program may still do what these wait for.
for how in value host-lock host-many callback poll-error graph-wait; do
    [ "$(grep -c 'a wait that may be long, or a hang' "$folder/$how")" = 1 ] || complain "$how: not one report"
done
expect value ': never-issued'
expect value 'is 1, and no stream has an operation that writes it.'
expect value 'is in cuStreamSynchronize for'
expect circle 'Streams wait in a circle: stream 1 waits for stream 2, which waits for stream 1.'
expect batch 'Streams wait in a circle: stream 1 waits for stream 2, which waits for stream 1.'
for how in host-lock host-many callback; do
    expect $how 'It is not in a call of CUDA: it waits for a lock or for another thread.'
done
expect poll-error ': error'
expect poll-error 'and the answer is error 900, because of a stream that captures. It does not become ready before the capture ends.'
expect poll-failed 'and the answer is error 700. It does not become ready.'
expect graph-wait ': never-issued'
expect graph-wait 'A graph of stream 1 waits until the word at 0x'
expect host-calls 'It is in cuStreamSynchronize, which waits for the GPU.'

# A kernel whose code is not known may be long: that is said, and is no hang.
goes_on long env GRIDSMITH_FAKE=h200,stuck "$app" lost-flag
expect long 'a wait that may be long, or a hang, in process'
expect long 'kernel spin_flag, 2 x 32'

# What the stream stands at: the kernel that waits, not the fill before it, nor what stands behind it, nor a graph without
# a name; and what the code says.
code=$source_dir/tests/fuzz/corpus
for how in memset-first gate graph at-barrier default-stream behind-long; do
    GRIDSMITH_FAKE=h200,stuck timeout -s KILL 60 \
        "$gridsmith" watch --after 700ms --abort -- "$app" $how "$code/cubin/waits90.cubin" 2>"$folder/$how"
    [ $? = 1 ] || complain "$how: the exit status is not 1"
    expect $how 'a wait that may be long, or a hang, in process'
done
expect memset-first 'waits_for_value (1 block of 32 threads, stream 0) does not end. Its code waits for memory.'
expect memset-first '2 of 2 operations may be unfinished, probably at: kernel waits_for_value, 1 x 32'
expect gate 'Its code waits for memory. 100 operations of its stream wait for it.'
expect graph 'stream 1: 1 of 1 operations may be unfinished, at: graph, its kernel waits_for_value, 1 x 32'
grep -q 'stream 2:' "$folder/graph" && complain "graph: what a capture took is unfinished"
expect at-barrier 'Its code waits at barriers.'
expect behind-long ': too-many-blocks'
expect default-stream ': default-stream'
expect default-stream 'Behind it stands kernel runs_sum in stream 0'

# What a kernel waits for may still come, from its own blocks or the host: that is no alarm. Nor do streams that wait for each
# other in turn wait in a circle.
for how in held-for-host held-for-good held-for-itself held-by-sum in-turn grid-barrier events-ahead default-event late read-once \
    graph-branches green-context; do
    GRIDSMITH_FAKE=h200,stuck timeout -s KILL 60 \
        "$gridsmith" watch --after 700ms --abort -- "$app" $how "$code/cubin/waits90.cubin" 2>"$folder/$how"
    [ $? = 1 ] || complain "$how: the exit status is not 1"
    case $how in
    held-for-good | grid-barrier | late | green-context) expect $how 'no progress in process' ;;
    *) expect $how 'a wait that may be long, or a hang, in process' ;;
    esac
done
for how in held-for-host held-for-good held-for-itself held-by-sum graph-branches green-context; do
    expect $how ': two-kernels'
done
expect held-for-good 'at_barrier (8 blocks of 64 threads, stream 2) cannot start 8 of its blocks'
expect green-context 'at_barrier (1 block of 64 threads, stream 2) cannot start 1 of its blocks'
expect green-context 'They are in a green context of 8 SMs.'
expect green-context 'waits_to_acquire with at most 7 blocks'
expect in-turn 'its code waits for memory: if the other 868 would write it, it does not end.'
expect grid-barrier 'its code waits for others: 868 never started.'
expect events-ahead 'ncclAllReduce_kernel_60000000 (8 blocks of 512 threads, stream 1) is collective 1 of its stream'
expect default-event ': default-stream'
expect default-event 'Behind it stands an event that another stream waits for in stream 0'
expect late 'The first launch of at_barrier loads its code'
expect read-once 'Its code has a loop that nothing leads out of.'
expect graph-branches 'Both are in one graph: this holds if it runs them at the same time.'

# A look does not wake a thread that sleeps.
timeout -s KILL 60 "$gridsmith" watch --after 700ms -- "$app" host-sleeps 2>"$folder/host-sleeps" || complain "host-sleeps: it was woken"
expect host-sleeps 'it waits for some time (sleep).'

# What computes is probably long, and is not ended.
for how in runs computes; do
    GRIDSMITH_FAKE=h200,stuck timeout -s KILL 60 \
        "$gridsmith" watch --after 700ms --abort -- timeout 4 "$app" $how "$code/cubin/waits90.cubin" 2>"$folder/$how"
    [ $? = 1 ] && complain "$how: it was ended"
    [ "$(wc -l <"$folder/$how")" -le 1 ] || complain "$how: more than a line"
done
expect runs 'in process'
expect runs 'its code waits for nothing, so it is long or has no end'
expect computes 'It computes.'
GRIDSMITH_FAKE=h200,slow-load timeout -s KILL 60 \
    "$gridsmith" watch --after 700ms --abort -- "$app" idle "$code/cubin/waits90.cubin" 2>"$folder/compiles" || complain "compiles: it was ended"
expect compiles 'and computes: it compiles or loads code'

# Hangs that were reported: blocks have no room, and machine code or PTX tells that kernels wait.
for how in "schedulers $code/cubin/waits90.cubin" "dispatch $code/ptx/waits"; do
    for after in 700ms 4s 20s; do # on a busy machine PTX is compiled for a while
        GRIDSMITH_FAKE=h200,stuck timeout -s KILL 60 \
            "$gridsmith" watch --after $after --abort -- "$app" $how 2>"$folder/${how%% *}"
        grep -q 'is in cuModuleLoadData' "$folder/${how%% *}" || break
    done
    how=${how%% *}
    grep -E ' for 0\.[0-6] s: ' "$folder/$how" && complain "$how: a wait is reported that is shorter than --after"
    [ "$(grep -c ': two-kernels$' "$folder/$how")" = 1 ] || complain "$how: not one report"
done
has_other_threads || expect schedulers 'no progress in process'
expect dispatch 'a wait that may be long, or a hang, in process' # the other rank may be late
expect schedulers 'waits_to_acquire (112 blocks of 256 threads, stream 2) cannot start 60 of its blocks'
expect schedulers 'The SMs are held by waits_for_value (80 blocks of 32 threads, stream 1)'
expect schedulers 'waits_for_value with at most 20 blocks'
expect dispatch 'waits_for_grid (128 blocks of 1024 threads, stream 2) cannot start 12 of its blocks'
expect dispatch 'ncclDevKernel_AllReduce with at most 4 blocks'

# Two ranks in different collectives, and one that is missing. The first report ends both: on a busy machine one may not
# have begun by then.
for after in 700ms 4s 20s; do
    rm -rf "$folder/reports"
    timeout -s KILL 60 "$gridsmith" watch --after $after --abort -o "$folder/reports" -- "$app" ranks 2>"$folder/ranks"
    [ -s "$folder/reports/hang.rank0.json" ] && [ -s "$folder/reports/hang.rank1.json" ] && break
done
expect ranks 'is collective 2 of its stream on rank 0, and waits for other ranks'
"$gridsmith" watch --join "$folder/reports" >"$folder/join"
[ $? = 1 ] || complain "join: the exit status is not 1"
cat >"$folder/expected" <<'END'
rank 0: ranks, in collective 2, ncclAllReduce_kernel_60000000
rank 1: ranks, in collective 2, ncclAllGather_kernel_60000000
rank 2 has no report: it has ended, does not wait, or is not watched
collective 2 is ncclAllReduce_kernel_60000000 on rank 0, and ncclAllGather_kernel_60000000 on rank 1: the ranks issue collectives in different orders
END
cmp "$folder/join" "$folder/expected" || { complain "join: another answer"; cat "$folder/join"; }
for ending in txt json html; do
    [ -s "$folder/reports/hang.rank1.$ending" ] || complain "no report hang.rank1.$ending"
done

# Asked for a report, and for one of the GPU: the dump is one that was recorded on an H200.
gunzip -c "$source_dir/corpus/dumps/spin.core.gz" >"$folder/spin.core"
# start_watched HOW: sets watch and program, the processes of `watch` and of what it watches, which waits for the GPU.
start_watched() {
    GRIDSMITH_FAKE=h200,stuck,slow-dump GRIDSMITH_FAKE_DUMP=$folder/spin.core timeout -s KILL 60 \
        "$gridsmith" watch --after 60s -o "$folder/seen" -- "$app" "$1" 2>"$folder/seen.txt" &
    watch=$!
    program=
    for _ in $(seq 300); do
        program=$(ps -o pid= --ppid $watch 2>/dev/null | head -n 1 | tr -d ' ')
        [ -n "$program" ] && program=$(ps -o pid= --ppid "$program" | head -n 1 | tr -d ' ')
        [ -n "$program" ] && "$gridsmith" watch --now "$program" 2>/dev/null | grep -q ' is in cu[A-Za-z]*Synchronize for ' && return
        sleep 0.1
    done
    complain "$1: it does not wait for the GPU"
}
start_watched lost-flag
"$gridsmith" watch --now "$program" >"$folder/now" || complain "now: failed"
expect now 'inferred from the calls of the program'
"$gridsmith" watch --now "$program" --abort >"$folder/abort" || complain "now: failed"
wait $watch
[ $? = 1 ] || complain "abort: the exit status is not 1"
expect abort ': endless'
expect abort 'waits for something that nothing which is issued can do: 2 warps wait for memory (go) at hang.cu:10.'
expect abort 'seen in a dump of the GPU: 1 grid, 2 resident blocks'
grep -qF '"variable":"go"' "$folder"/seen/hang.*.json || complain "abort: no variable in the JSON"
# What is not in the dump has not started: its first launch loads it. A copy that has returned has ended.
start_watched lazy
"$gridsmith" watch --now "$program" --abort >"$folder/lazy"
wait $watch
expect lazy ': loading'
expect lazy 'The first launch of late loads its code, which waits until the GPU is idle; spin_flag (2 blocks of 32 threads, stream 1)'
start_watched copy-first
"$gridsmith" watch --now "$program" >"$folder/copy-first"
"$gridsmith" watch --now "$program" --abort >"$folder/other-shape"
wait $watch
expect copy-first 'at: kernel spin_flag, 4 x 32'
expect other-shape ': endless'
expect other-shape 'at: kernel spin_flag, 4 x 32, 2 blocks resident'

# A call that failed, and threads that wait for something else than the GPU: that is told if somebody asks.
for how in failed-call forks; do
    timeout -s KILL 60 "$gridsmith" watch -- "$app" $how 2>/dev/null &
    watch=$!
    for _ in $(seq 300); do
        program=$(ps -o pid= --ppid "$(ps -o pid= --ppid $watch | head -n 1 | tr -d ' ')" 2>/dev/null | head -n 1 | tr -d ' ')
        [ -n "$program" ] && "$gridsmith" watch --now "$program" >"$folder/$how" 2>/dev/null &&
            grep -q 'failed with error\|was forked' "$folder/$how" && break
        sleep 0.1
    done
    "$gridsmith" watch --now "$program" --abort >"$folder/ended"
    wait $watch
    has_other_threads || expect $how 'is in no call of CUDA'
done
expect failed-call 'cuStreamWaitValue32_v2 failed with error 1 '
expect forks 'was forked from this one after CUDA had started, and cannot use CUDA'

"$gridsmith" watch --now 2147483647 2>"$folder/gone"
[ $? = 2 ] && grep -q 'there is no process 2147483647' "$folder/gone" || complain "now: of no process"
"$gridsmith" watch --now $$ 2>"$folder/other"
[ $? = 2 ] || complain "now: a process that is not watched is not refused"
expect other 'was not started by'

# Programs that do not hang.
for how in works idle persistent polls events many; do
    for _ in 1 2 3; do # a machine may be so busy that there is no progress for two seconds
        timeout -s KILL 60 "$gridsmith" watch --after 2s -- "$app" $how 2>"$folder/$how" || complain "$how: failed"
        [ -s "$folder/$how" ] || break
    done
    [ -s "$folder/$how" ] && { complain "$how: it is not left alone"; cat "$folder/$how"; }
done

# Mistakes.
"$gridsmith" watch 2>"$folder/usage" && complain "no program is no mistake"
expect usage 'give a program to run, --now PID, or --join FOLDER'
"$gridsmith" watch --after 3 -- true 2>"$folder/after" && complain "--after 3 is no mistake"
expect after '--after takes a time such as'
"$gridsmith" watch --join "$folder" 2>"$folder/empty" && complain "a folder without reports is no mistake"
expect empty 'has no report'
"$gridsmith" watch -- "$folder/missing" 2>"$folder/none"
[ $? = 127 ] || complain "a program that is not there: not 127"
[ $failed = 0 ] && echo "watch: all is well"
exit $failed
