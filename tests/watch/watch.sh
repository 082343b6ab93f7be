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
complain() {
    echo "$1"
    echo "$1" >>"$folder/failed"
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

# side_by_side FUNCTION: calls it for each line of the input, with the words of the line. They wait most of the time.
side_by_side() {
    started=0
    while read -r line; do
        # shellcheck disable=SC2086
        $1 $line </dev/null &
        started=$((started + 1))
        [ $((started % 8)) = 0 ] && wait
    done
    wait
}

# ---- programs that are ended, and those that go on ----

# A program that hangs, the fake GPU, the code of its kernels, and what the report says: an alarm, or a wait that may be long.
# In most of the latter the program, the host or another rank may still do what is waited for.
cubin=$source_dir/tests/fuzz/corpus/cubin/waits90.cubin ptx=$source_dir/tests/fuzz/corpus/ptx/waits
end_hanging() {
    how=$1 reported='a wait that may be long, or a hang, in process'
    [ "$4" = alarm ] && reported='no progress in process'
    for after in 700ms 4s 20s; do # on a busy machine PTX is compiled for a while
        # shellcheck disable=SC2086
        GRIDSMITH_FAKE=$2 timeout -s KILL 60 "$gridsmith" watch --after $after --abort -- "$app" $how ${3#-} 2>"$folder/$how"
        [ $? = 1 ] || complain "$how: the exit status is not 1"
        grep -q 'is in cuModuleLoadData' "$folder/$how" || break
    done
    [ "$(grep -c ' in process [0-9]* for ' "$folder/$how")" = 1 ] || complain "$how: not one report"
    grep -E ' for 0\.[0-6] s: ' "$folder/$how" && complain "$how: a wait is reported that is shorter than --after"
    [ "$4" = either ] || expect $how "$reported"
    expect $how ": $5"
}
sure=alarm # nobody is left who could end the wait
has_other_threads && sure=either
side_by_side end_hanging <<END
circle h200 - $sure never-issued
batch h200 - $sure never-issued
circle-with-thread h200 - wait never-issued
circle-with-work h200 $cubin wait never-issued
value-long-ago h200 - wait never-issued
host-lock h200 - wait host-function
host-many h200 - wait host-function
host-later h200 - wait host-function
host-calls h200 - wait host-function
host-waits-for-itself h200 - alarm host-function
callback h200 - wait host-function
poll-error h200 - wait error
poll-failed h200,failed - alarm error
graph-wait h200 - wait never-issued
memset-first h200,stuck $cubin wait endless
gate h200,stuck $cubin wait endless
graph h200,stuck $cubin wait endless
at-barrier h200,stuck $cubin wait endless
default-stream h200,stuck $cubin wait default-stream
events-ahead h200,stuck $cubin wait ranks
default-event h200,stuck $cubin wait default-stream
late h200,stuck $cubin $sure loading
read-once h200,stuck $cubin wait endless
reset-for-good h200,stuck $cubin $sure whole-gpu
reset-for-host h200,stuck $cubin $sure whole-gpu
reset-for-thread h200,stuck $cubin wait whole-gpu
reset-for-signal h200,stuck $cubin wait whole-gpu
reset-for-process h200,stuck $cubin wait whole-gpu
reset-for-itself h200,stuck $cubin wait whole-gpu
copy-2d h200,stuck $cubin wait endless
green-context h200,stuck $cubin $sure two-kernels
END
for how in circle circle-with-thread circle-with-work batch; do
    expect $how 'Streams wait in a circle: stream 1 waits for stream 2, which waits for stream 1.'
done
for how in host-lock host-many host-later callback; do
    expect $how 'It is not in a call of CUDA: it waits for a lock or for another thread.'
done
expect host-later 'It computes.' # at the first look
expect value-long-ago 'is 1, and no stream has an operation that writes it.'
for how in host-calls host-waits-for-itself; do
    expect $how 'It is in cuStreamSynchronize, which waits for the GPU.'
done
expect poll-error 'and the answer is error 900, because of a stream that captures. It does not become ready before the capture ends.'
expect poll-failed 'and the answer is error 700. It does not become ready.'
expect graph-wait 'A graph of stream 1 waits until the word at 0x'
# What the stream stands at: the kernel that waits, not the fill before it, nor what stands behind it, nor a graph without
# a name; and what the code says.
expect memset-first 'waits_for_value (1 block of 32 threads, stream 0) does not end. Its code waits for memory.'
expect memset-first '2 of 2 operations may be unfinished, probably at: kernel waits_for_value, 1 x 32'
expect gate 'Its code waits for memory. 100 operations of its stream wait for it.'
expect graph 'stream 1: 1 of 1 operations may be unfinished, at: graph, its kernel waits_for_value, 1 x 32'
grep -q 'stream 2:' "$folder/graph" && complain "graph: what a capture took is unfinished"
expect at-barrier 'Its code waits at barriers.'
expect default-stream 'Behind it stands kernel runs_sum in stream 0'
expect green-context 'at_barrier (1 block of 64 threads, stream 2) cannot start 1 of its blocks'
expect green-context 'They are in a green context of 8 SMs.'
expect green-context 'waits_to_acquire with at most 7 blocks'
# Streams that wait for each other in turn do not wait in a circle.
expect events-ahead 'ncclAllReduce_kernel_60000000 (8 blocks of 512 threads, stream 1) is collective 1 of its stream'
expect default-event 'Behind it stands an event that another stream waits for in stream 0'
expect late 'The first launch of at_barrier loads its code'
expect read-once 'Its code has a loop without an exit.'
expect reset-for-good 'A thread has been in cuDevicePrimaryCtxReset_v2 for'
expect copy-2d 'is in cuMemcpy2D_v2 for'

# Who has no room is worked out by one thread, for which ThreadSanitizer has nothing to find, and takes twenty times as long.
if ! has_other_threads; then
    side_by_side end_hanging <<END
behind-long h200,stuck $cubin wait too-many-blocks
held-for-good h200,stuck $cubin alarm two-kernels
graph-branches h200,stuck $cubin wait two-kernels
held-by-worker h200,stuck $cubin wait two-kernels
held-whole h200,stuck $cubin alarm two-kernels
held-by-sum h200,stuck $cubin wait two-kernels
in-turn h200,stuck $cubin wait too-many-blocks
in-turn-again h200,stuck $cubin wait too-many-blocks
grid-barrier h200,stuck $cubin wait too-many-blocks
graph-barrier h200,stuck $cubin wait too-many-blocks
schedulers h200,stuck $cubin alarm two-kernels
dispatch h200,stuck $ptx wait two-kernels
END
    expect held-for-good 'at_barrier (8 blocks of 64 threads, stream 2) cannot start 8 of its blocks'
    expect graph-branches 'Both are in one graph: this holds if it runs them at the same time.'
    expect held-by-worker 'The SMs are held by runs_until (132 blocks of 64 threads, stream 1)'
    expect held-whole 'at_barrier (64 blocks of 64 threads, stream 2) cannot start 64 of its blocks'
    expect in-turn-again 'It was launched 2 times: if an earlier launch with this many blocks has ended, this one only takes long.'
    expect in-turn 'its code waits for memory: if the other 868 would write it, it does not end.'
    for how in grid-barrier graph-barrier; do
        expect $how 'its code waits for others: 868 never started.'
    done
    # Hangs that were reported: blocks have no room, and machine code or PTX tells that kernels wait.
    expect schedulers 'waits_to_acquire (112 blocks of 256 threads, stream 2) cannot start 60 of its blocks'
    expect schedulers 'The SMs are held by waits_for_value (80 blocks of 32 threads, stream 1)'
    expect schedulers 'waits_for_value with at most 20 blocks'
    expect dispatch 'waits_for_grid (128 blocks of 1024 threads, stream 2) cannot start 12 of its blocks'
    expect dispatch 'ncclDevKernel_AllReduce with at most 4 blocks'
fi

# NAME, the fake GPU, the exit status, and a program that goes on until `timeout` ends it. On a busy machine the program gets
# more time to begin.
go_on() {
    name=$1 fake=$2 expected=$3
    shift 3
    for seconds in 4 16 64; do
        GRIDSMITH_FAKE=$fake timeout -s KILL 120 "$gridsmith" watch --after 700ms -- timeout $seconds "$@" 2>"$folder/$name"
        status=$?
        [ -s "$folder/$name" ] && break
    done
    [ $status = "$expected" ] || complain "$name: the exit status is $status, not that of the program"
}
# What computes is probably long, and is not ended.
let_compute() {
    GRIDSMITH_FAKE=$2 timeout -s KILL 60 "$gridsmith" watch --after 700ms --abort -- timeout 4 "$app" $1 "$cubin" 2>"$folder/$1"
    [ $? = 1 ] && complain "$1: it was ended"
    [ "$(wc -l <"$folder/$1")" -le 1 ] || complain "$1: more than a line"
}
let_compile() {
    GRIDSMITH_FAKE=$2 timeout -s KILL 60 \
        "$gridsmith" watch --after 700ms --abort -- "$app" $1 "$cubin" 2>"$folder/compiles.$1" || complain "$1: it was ended"
}
# Programs that do not hang.
leave_alone() {
    for _ in 1 2 3; do # a machine may be so busy that there is no progress for two seconds
        timeout -s KILL 60 "$gridsmith" watch --after 2s -- "$app" $1 2>"$folder/$1" || complain "$1: failed"
        [ -s "$folder/$1" ] || return
    done
    complain "$1: it is not left alone"
    cat "$folder/$1"
}
side_by_side eval <<END
go_on value h200 124 "$app" value
go_on long h200,stuck 124 "$app" lost-flag
go_on host-sleeps h200 0 "$app" host-sleeps
let_compute runs h200,stuck
let_compute computes h200,stuck
let_compile idle h200,slow-load
let_compile load-behind h200,stuck,slow-load
leave_alone works
leave_alone idle
leave_alone persistent
leave_alone polls
leave_alone events
leave_alone many
END
for how in value long host-sleeps; do
    [ "$(grep -c 'a wait that may be long, or a hang, in process' "$folder/$how")" = 1 ] || complain "$how: not one report"
done
expect value ': never-issued'
expect value 'is 1, and no stream has an operation that writes it.'
expect value 'is in cuStreamSynchronize for'
expect long 'kernel spin_flag, 2 x 32' # its code is not known: it may be long
expect host-sleeps 'it waits for some time (sleep).' # and a look did not wake it
expect runs 'its code waits for nothing, so it is long or never ends'
expect computes 'It computes.'
expect compiles.idle 'and computes: it compiles or loads code'
expect compiles.load-behind 'and computes: it compiles or loads code, or waits for runs_sum'

# ---- several ranks ----

# NAME: the reports of two ranks, and of one that is missing, put together. The first report ends both: on a busy machine one
# may not have begun by then.
put_together() {
    for after in 700ms 4s 20s; do
        rm -rf "$folder/reports.$1"
        timeout -s KILL 60 "$gridsmith" watch --after $after --abort -o "$folder/reports.$1" -- "$app" $1 2>"$folder/$1"
        [ -s "$folder/reports.$1/hang.rank0.json" ] && [ -s "$folder/reports.$1/hang.rank1.json" ] && break
    done
    "$gridsmith" watch --join "$folder/reports.$1" >"$folder/join.$1"
    [ $? = 1 ] || complain "join: the exit status is not 1"
}
printf 'ranks\ncommunicators\n' | side_by_side put_together
expect ranks 'is collective 2 of its stream on rank 0, and waits for other ranks'
expect communicators 'is collective 3 of its stream, of communicator 1, on rank 0, and waits for other ranks'
cat >"$folder/expected" <<'END'
rank 0: ranks, in collective 2, ncclAllReduce_kernel_60000000
rank 1: ranks, in collective 2, ncclAllGather_kernel_60000000
rank 2 has no report: it has ended, does not wait, or is not watched
collective 2 is ncclAllReduce_kernel_60000000 on rank 0, and ncclAllGather_kernel_60000000 on rank 1: the ranks issue collectives in different orders
END
cmp "$folder/join.ranks" "$folder/expected" || { complain "join: another answer"; cat "$folder/join.ranks"; }
expect join.communicators 'rank 0 waits in communicator 1, and rank 1 in communicator 2: the ranks issue collectives of these in different orders'
for ending in txt json html; do
    [ -s "$folder/reports.ranks/hang.rank1.$ending" ] || complain "no report hang.rank1.$ending"
done

# ---- asked for a report ----

# A program, the fake GPU, and a text that its report has when the program is at its wait: asked for a report (HOW.now), and for
# one of the GPU (HOW.abort), which ends it. The dump is one that was recorded on an H200.
gunzip -c "$source_dir/corpus/dumps/spin.core.gz" >"$folder/spin.core"
ask() {
    GRIDSMITH_FAKE=$2 GRIDSMITH_FAKE_DUMP=$folder/spin.core timeout -s KILL 60 \
        "$gridsmith" watch --after 60s -o "$folder/seen.$1" -- "$app" $1 2>/dev/null &
    watch=$!
    for _ in $(seq 300); do
        program=$(ps -o pid= --ppid "$(ps -o pid= --ppid $watch | head -n 1 | tr -d ' ')" 2>/dev/null | head -n 1 | tr -d ' ')
        [ -n "$program" ] && "$gridsmith" watch --now "$program" >"$folder/$1.now" 2>/dev/null && grep -q "$3" "$folder/$1.now" && break
        sleep 0.1
    done
    "$gridsmith" watch --now "$program" --abort >"$folder/$1.abort" || complain "$1: no answer"
    wait $watch
    [ $? = 1 ] || complain "$1: the exit status is not 1"
}
side_by_side ask <<'END'
lost-flag h200,stuck,slow-dump cuStreamSynchronize
lazy h200,stuck,slow-dump cuStreamSynchronize
copy-first h200,stuck,slow-dump cuCtxSynchronize
graph-seen h200,stuck,slow-dump cuStreamSynchronize
failed-call h200 failed
forks h200 forked
END
expect lost-flag.now 'inferred from the calls of the program'
expect lost-flag.abort ': endless'
expect lost-flag.abort 'waits for something that no issued operation can do: 2 warps wait for memory (go) at hang.cu:10.'
expect lost-flag.abort 'seen in a dump of the GPU: 1 grid, 2 resident blocks'
grep -qF '"variable":"go"' "$folder"/seen.lost-flag/hang.*.json || complain "lost-flag: no variable in the JSON"
# What is not in the dump has not started: its first launch loads it. A copy that has returned has ended.
expect lazy.abort ': loading'
expect lazy.abort 'The first launch of late loads its code, which waits until the GPU is idle; spin_flag (2 blocks of 32 threads, stream 1)'
expect copy-first.now 'at: kernel spin_flag, 4 x 32'
expect copy-first.abort ': endless'
expect copy-first.abort 'at: kernel spin_flag, 4 x 32, 2 blocks resident'
# What has not started is in the graph of what waits.
expect graph-seen.abort ': two-kernels'
expect graph-seen.abort 'late (132 blocks of 32 threads, stream 1) cannot start 2 of its blocks. The SMs are held by spin_flag (2 blocks of 32 threads, stream 1): 2 warps wait'
# A call that failed, and threads that wait for something else than the GPU.
for how in failed-call forks; do
    has_other_threads || expect $how.now 'is in no call of CUDA'
done
expect failed-call.now 'cuStreamWaitValue32_v2 failed with error 1 '
for report in now abort; do
    expect forks.$report 'was forked from this one after CUDA had started, and cannot use CUDA'
done

"$gridsmith" watch --now 2147483647 2>"$folder/gone"
[ $? = 2 ] && grep -q 'there is no process 2147483647' "$folder/gone" || complain "now: of no process"
"$gridsmith" watch --now $$ 2>"$folder/other"
[ $? = 2 ] || complain "now: a process that is not watched is not refused"
expect other 'was not started by'

# Mistakes.
"$gridsmith" watch 2>"$folder/usage" && complain "no program is no mistake"
expect usage 'give a program to run, --now PID, or --join FOLDER'
"$gridsmith" watch --after 3 -- true 2>"$folder/after" && complain "--after 3 is no mistake"
expect after '--after takes a time such as'
"$gridsmith" watch --join "$folder" 2>"$folder/empty" && complain "a folder without reports is no mistake"
expect empty 'has no report'
"$gridsmith" watch -- "$folder/missing" 2>"$folder/none"
[ $? = 127 ] || complain "a program that is not there: not 127"
[ -e "$folder/failed" ] && exit 1
echo "watch: all is well"
