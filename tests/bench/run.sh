#!/bin/sh
# bench/share and bench/programs: their results for known times, that they leave nothing behind, and one pair on a fake GPU.
#
#   sh tests/bench/run.sh SHARE GRIDSMITH FAKE_FOLDER PROGRAMS
. "$(dirname "$0")/../support/checks.sh"
share=$1
program=$2
folder=$3
programs=$4
here=$(cd "$(dirname "$0")" && pwd)
PATH=$here:$PATH
TMPDIR=$work
export PATH TMPDIR

# known EXIT_CODE ARGUMENTS...: runs bench/share with known times.
known() {
    wanted=$1
    shift
    check "$*" "$wanted" "$share" --program "$here/gridsmith" "$@"
}

# The number of processes that are alive: MPS, the daemon and the loads that hang. One that has ended counts no more, even if
# nobody has waited for it yet.
alive() {
    count=0
    for pid in $(cat "$work/pids"); do
        grep -qs "^State:.[^ZX]" "/proc/$pid/status" && count=$((count + 1))
    done
    echo "$count"
}

all_run() {
    [ "$(alive)" = 4 ]
}

nothing_is_left() {
    left=$(ls -d "$work"/gridsmith-share* 2>/dev/null)
    [ -z "$left" ] && [ "$(alive)" = 0 ]
}

# soon COMMAND: waits until the command succeeds, a minute at most.
soon() {
    tries=600
    until "$1"; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 0.1
    done
}

# Waits until they have ended and the folder is removed.
gone() {
    soon nothing_is_left || fail "$1: left behind: $left, $(alive) processes"
}

# ---- known times ----
known 0 --repeats 3
says "BS  black_scholes     101.00 ms alone, spread 2.0%; 7 repetitions; set up in 40 ms"
says "BS-RG      202.0      201.0   1.0%   +0.5%      161.0   1.2%  +25.5%      181.0   1.1%  +11.6%      126.0   1.6%  +60.3%    +27.8%       +27.8%"
[ "$(grep -c '^[A-Z][A-Z]-[A-Z][A-Z] ' "$work/out")" = 15 ] || fail "there are not 15 pairs"
says "Gridsmith over MPS                        +27.8% on average over 15 pairs, least +27.8% (BS-BS)"
says "TR alone through the daemon: communication +1.98%, injection and compilation 0.10% of 30 seconds"
says "an empty kernel direct: 10.00 us launched and waited for, 2.50 us in a row"
says "an empty kernel through the daemon: 15.50 us launched and waited for, 4.25 us in a row"
gone "a whole run"
known 0 --repeats 2 --json --only RG-BS --modes bd
says '"pairs":[{"pair":"BS-RG","mps":{"makespan_ms":{"median":160.5000,"spread_percent":0.6231,"all":[160.0000,161.0000]}'
says '"over_mps_percent":27.8884,"over_best_percent":27.8884}]'
says '"launch":{"direct":{"waited_us":10.000,"pipelined_us":2.500},"served":{"waited_us":15.500,"pipelined_us":4.250}}'
says '"failed":0}'
known 0 --repeats 1 --only BS-RG --modes bde --plan plan.json --json
says '"planned":{"makespan_ms":{"median":125.0000'
gone "two daemons"
known 0 --repeats 1 --warm-up 4 --kernels fft,spmv --only spmv-fft --modes sd --brief --json
says '"pair":"fft-spmv","streams":{"makespan_ms":{"median":200.0000,'
says '"gridsmith":{"makespan_ms":{"median":127.0000,'
says '"launch":{}'
gone "other kernels"

# ---- programs that stay loaded ----
# loaded EXIT_CODE ARGUMENTS...: runs bench/programs with known times.
loaded() {
    whole=$share
    share=$programs
    known "$@"
    share=$whole
}
loaded 0 --first fft,vgg16/cublas --second lbm,spmv --modes osbde --plan plan.json --rounds 2
says '"first":"fft","second":"lbm","first_repeat":7,"second_repeat":7,"serial":{"makespan_ms":[200.000,200.000],"first_ms":[100.000,'
says '"streams":{"makespan_ms":[200.000,200.000],'
says '"mps":{"makespan_ms":[160.000,160.000],'
says '"served":{"makespan_ms":[125.000,125.000],"first_ms":[125.000,125.000],"second_ms":[125.000,125.000],"launches":[0,0],"launches_inside":[0,0],"launches_confined":[0,0],"launches_looped":[0,0],"resizes":[0,0],"turns":[0,0],"first_alone_ms":[125.000,125.000,'
[ "$(grep -F vgg16/cublas "$work/out" | grep -cF served)" = 2 ] || fail "cuBLAS was not run through the daemon"
[ "$(grep -c gridsmith.programs/1 "$work/out")" = 4 ] || fail "there are not four pairs"
says "mps over one after the other: +25.0% on average over 4 pairs"
says "served over one after the other: +60.0% on average over 4 pairs"
gone "programs that stay loaded"
loaded 0 --first fft,lbm,spmv --modes o --rounds 1
[ "$(sed 's/.*"first":"\([a-z]*\)","second":"\([a-z]*\)".*/\1-\2/' "$work/out" | tr '\n' ' ')" = "fft-fft lbm-lbm spmv-spmv fft-lbm lbm-spmv fft-spmv " ] ||
    fail "all pairs of three programs"
loaded 0 --first fft,lbm --second spmv,cp --only lbm-cp,fft-spm --modes o --rounds 1
[ "$(grep -c . "$work/out")" = 1 ] && says '"first":"lbm","second":"cp"'
FAKE_WRONG=lbm loaded 1 --first fft --second lbm --modes os --rounds 1
loaded 2 --first fft --modes ox
loaded 2 --second fft
loaded 2 --first fft --rounds 26

# ---- failures ----
FAKE_NO_SERVE=2 known 0 --repeats 1 --only GS-TR --modes cd
says "(d) Gridsmith: not built: the program has no 'gridsmith serve'"
FAKE_WRONG=sgemm known 1 --repeats 1 --only MM-TR --modes a
says "failed"
FAKE_HANG=sgemm known 1 --repeats 1 --only MM-TR,TR-TR --modes a --patience 2 --seconds 0.001
says "TR-TR"
gone "a load that hangs"
known 2 --only BS-XX
known 2 --modes ax
known 2 --kernels fft,spmv --only BS-RG
known 2 --kernels a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q
known 2 --warm-up -1
known 2 --seconds never

# ---- interrupted, and killed: FAKE_HANG keeps it busy ----
for signal in TERM KILL; do
    FAKE_HANG=sgemm "$share" --program "$here/gridsmith" --only MM-MM >"$work/out" 2>"$work/err" &
    pid=$!
    soon all_run || fail "MPS, the daemon and two loads should run, not $(alive)"
    kill -$signal $pid
    wait $pid 2>/dev/null
    [ $signal = KILL ] && rm -rf "$work"/gridsmith-share*
    gone "SIG$signal"
done

# ---- a fake GPU ----
GRIDSMITH_FAKE=small GRIDSMITH_PTXAS=$(dirname "$0")/../fake/ptxas LD_LIBRARY_PATH=$folder "$share" --program "$program" --size small --seconds 0.02 --repeats 2 \
    --sms 4 --only BS-TR >"$work/out" 2>"$work/err" </dev/null || fail "a pair on a fake GPU"
says "BS-TR"
grep -qF failed "$work/out" && fail "a pair on a fake GPU failed"
gone "a fake GPU"

finish "sharing is measured as it should be"
