#!/bin/sh
# gridsmith trace, on the fake driver and CUPTI (tests/fake): the recording, for all ends of a program.
#
#   sh tests/record/trace.sh PROGRAM APP FOLDER CUPTI [driver]
#
# APP is tests/record/traced_app.c, FOLDER has the fake driver, and CUPTI the fake CUPTI. With `driver`, programs are recorded
# without CUPTI, by the library in front of the driver.
. "$(dirname "$0")/../support/checks.sh"
program=$1
app=$2
folder=$3
cupti=$4
through=${5-cupti}
cd "$work" || exit 1

# trace EXIT_STATUS SAYS ARGUMENTS...: runs the program; standard error must contain SAYS.
trace() {
    wanted=$1 says=$2
    shift 2
    check "trace $*" "$wanted" env GRIDSMITH_FAKE="h200,nvl,${fake:-}" LD_LIBRARY_PATH="${libraries-$folder:$cupti}" TMPDIR="$work" \
        "$program" trace ${way-$way_of_all} "$@"
    [ -z "$says" ] || grep -qF -- "$says" err || fail "trace $*: does not say \"$says\""
    if ls -d "$work"/gridsmith-trace-* >/dev/null 2>&1; then
        fail "trace $*: left its temporary folder"
    fi
}

# The recorder in front of the driver does not use CUPTI.
way_of_all=
[ "$through" = driver ] && way_of_all="--through driver"

# launches FILE: how many kernels a file has.
launches() {
    grep -c '"op":"launch"' "$1"
}

# readable FILE: the program reads it as a run.
readable() {
    "$program" predict "$1" >out 2>err || fail "$1 cannot be read"
}

# has FILE KERNEL TEXT: the first launch of a kernel has these words.
has() {
    grep -F "\"kernel\":\"$2\"" "$1" | head -n 1 | grep -qF -- "$3" || fail "$1: the launch of $2 has no $3:
$(grep -F "\"kernel\":\"$2\"" "$1" | head -n 1)"
}

# id KERNEL: its id in all.jsonl.
id() {
    grep -F "\"kernel\":\"$1\"" all.jsonl | head -n 1 | sed 's/^{"op":"[a-z]*","id":\([0-9]*\),.*/\1/'
}

# ---- what is recorded ----

# Paths of this machine stay here: a path is one below this folder, or its last name.
mkdir below && cp "$app" below/app || exit 1
here=$(pwd -P)
trace 0 "" -o paths.jsonl -- "$here/below/app" all "$here/below/data/" "--out=$here/x.txt" /usr/lib/ plain a=b / ..
head -n 1 paths.jsonl | grep -qF '"program":"below/app all below/data/ --out=x.txt lib/ plain a=b / ..",' ||
    fail "the paths of the program: $(head -n 1 paths.jsonl)"

trace 0 "29 kernels (14 in graphs), 2 copies, 3 memsets on 7 streams" -o all.jsonl -- "$app" all
readable all.jsonl
head -n 1 all.jsonl | grep -q '"schema":"gridsmith.run/1","gpu":"h200",.*"program":"traced_app all".*"gpu_name":"NVIDIA H200 NVL"' ||
    fail "the header: $(head -n 1 all.jsonl)"
tail -n 1 all.jsonl | grep -q '^{"op":"end",' || fail "there is no end"
has all.jsonl first '"blocks":3,"threads":96,"registers":40,"shared_bytes":512,'
has all.jsonl first '"priority":-2,'
if [ "$through" = driver ]; then
    head -n 1 all.jsonl | grep -qF '"lacks":["start_us","end_us","shared_config_bytes","green_context"]' ||
        fail "the header does not say what is missing: $(head -n 1 all.jsonl)"
    grep -q '"start_us":\|"shared_config_bytes":[0-9]' all.jsonl && fail "the recording has times or configurations, which cannot be known"
    has all.jsonl first '"stream":0,"at_us":'
    has all.jsonl first '"grid":[3,1,1],"block":[96,1,1],"static_shared_bytes":512,"device":0,'
    has all.jsonl root '"graph":1,"node":1'
else
    has all.jsonl first '"stream":13,"at_us":'
    has all.jsonl first '"grid":[3,1,1],"block":[96,1,1],"static_shared_bytes":512,"shared_config_bytes":65536,'
    has all.jsonl root '"graph":3,"node":'
    grep -q '"kind":"host_to_device","bytes":4096,"stream":14,' all.jsonl || fail "the copy to the device"
    grep -q '"kind":"device_to_host","bytes":0,"stream":7,' all.jsonl || fail "the copy to the host"
    grep -q '"op":"memset","id":[0-9]*,"bytes":77,"stream":14,' all.jsonl || fail "the memset"
fi
has all.jsonl right '"priority":-3,'
has all.jsonl clustered '"blocks":16,"threads":256,"registers":40,"shared_bytes":1512,"cluster":8,'
has all.jsonl clustered '"cluster_shape":[4,2,1]'
has all.jsonl cached '"shared_bytes":512,"carveout_percent":100,'
# A configuration that is too small for a block of the kernel cannot be.
grep -F '"kernel":"impossible"' all.jsonl | grep -q shared_config_bytes && fail "a configuration that cannot be is recorded"
has all.jsonl local_carveout '"local_bytes":96,"carveout_percent":75,'
grep -q '"kind":"host_to_device","bytes":4096,"stream":' all.jsonl || fail "the copy to the device"
grep -q '"kind":"device_to_host","bytes":0,"stream":' all.jsonl || fail "the copy to the host"
grep -q '"op":"memset","id":[0-9]*,"bytes":77,"stream":' all.jsonl || fail "the memset"
grep -q '"op":"memset","id":[0-9]*,"bytes":64,"at_us":' all.jsonl || fail "the memset of the graph"

# The last line may be cut anywhere.
whole=$(head -n 9 all.jsonl | wc -c)
for cut in 1 2 9 30 200; do
    head -c $((whole + cut)) all.jsonl >cut.jsonl
    readable cut.jsonl
done

# ---- what launches wait for ----
has all.jsonl after_first "\"after\":[$(id first)]"
grep -F '"kernel":"in_order"' all.jsonl | grep -q '"after"' && fail "in_order waits for more than its stream"
has all.jsonl blocking "\"after\":[$(id on_default)]"
has all.jsonl default_after_blocking "\"after\":[$(id blocking)]"
has all.jsonl early "\"after\":[{\"id\":$(id local_carveout),\"when\":\"trigger\"}]"
has all.jsonl root "\"after\":[$(id before_graph)]"
has all.jsonl left "\"after\":[$(id root)]"
has all.jsonl right "\"after\":[$(id root)]"
has all.jsonl joined "\"after\":[$(id left),$(($(id right) + 1))]"
has all.jsonl early_in_graph "\"after\":[{\"id\":$(id joined),\"when\":\"trigger\"}]"
has all.jsonl child_1 "\"after\":[$(id early_in_graph)]"
has all.jsonl child_2 "\"after\":[$(id child_1)]"
has all.jsonl behind_graph "\"after\":[$(id child_2)]"
has all.jsonl beside_graph "\"after\":[$(id child_2)]"
[ "$(sed -n 's/^{"op":"[a-z]*","id":\([0-9]*\),.*/\1/p' all.jsonl | sort | uniq -d)" = "" ] || fail "ids are not unique"
[ "$(sed -n 's/^{"op":"[a-z]*","id":\([0-9]*\),.*/\1/p' all.jsonl | wc -l)" = 34 ] || fail "launches without an id"

# ---- changes ----
trace 0 "6 kernels (4 in graphs)" -o changes.jsonl -- "$app" changes
readable changes.jsonl
[ "$(sed -n 's/.*"kernel":"\([a-z]*\)","blocks":\([0-9]*\).*/\1 \2/p' changes.jsonl | tr '\n' ' ')" = \
    "settable 1 settable 2 before 2 before 3 after 2 after 3 " ] || fail "what changed is not recorded: $(cat changes.jsonl)"
[ "$(grep -c '"carveout_percent":60' changes.jsonl)" = 1 ] || fail "the carve-out of the second launch"

# What is known of a kernel is asked for once, also if a library sets the same carve-out before each launch.
GRIDSMITH_FAKE_QUESTIONS=$work/questions
export GRIDSMITH_FAKE_QUESTIONS
trace 0 "100 kernels" -o again.jsonl -- "$app" set_again
unset GRIDSMITH_FAKE_QUESTIONS
[ "$(grep -c '"carveout_percent":60' again.jsonl)" = 50 ] || fail "the carve-out that is set again"
[ "$(sort -n questions | tail -n 1)" -lt 50 ] || fail "the driver was asked $(sort -n questions | tail -n 1) times"

# ---- ranges ----
trace 0 "9 kernels" -o ranges.jsonl -- "$app" ranges
readable ranges.jsonl
named='crossed 1
deep 64
inner \"quoted\" 4
registered 1
started 1
step 4
whole 1
wide ? 1'
[ "$through" = driver ] && named=
[ "$(sed -n 's/^{"op":"range","name":"\(.*\)","from_us":[0-9.]*,"to_us":[0-9.]*}$/\1/p' ranges.jsonl | sort | uniq -c |
    sed 's/^ *\([0-9]*\) \(.*\)/\2 \1/' | LC_ALL=C sort)" = "$(printf %s "$named" | LC_ALL=C sort)" ] ||
    fail "the ranges: $(grep '"op":"range"' ranges.jsonl | sort | uniq -c)"
tail -n 1 ranges.jsonl | grep -q '^{"op":"end",' || fail "the end of ranges.jsonl is $(tail -n 1 ranges.jsonl)"
if [ "$through" = cupti ]; then
    grep '"name":"whole"' ranges.jsonl | grep -q '"from_us":0.000,' || fail "the range that began before CUDA does not begin at 0"
    "$program" explain --json --range 'nvtx=inner "quoted":2' ranges.jsonl >out 2>err || fail "explain --range nvtx="
    grep -q '"name":"two"' out && ! grep -q '"name":"one"' out || fail "what is in the range: $(cat out)"
fi

# The words of the command line may have any bytes.
trace 0 "1 kernel, " -o bytes.jsonl -- "$app" status 0 "$(printf 'a"b\\c \303\274 \377 \tend')"
readable bytes.jsonl
head -n 1 bytes.jsonl | grep -qF "status 0 a\\\"b\\\\c $(printf '\303\274') ? ?end\"" || fail "the program: $(head -n 1 bytes.jsonl)"

# ---- ends ----
trace 9 "1 kernel, " -o status.jsonl -- "$app" status 9
trace 139 "did not end normally" -o segv.jsonl -- "$app" end segv
trace 137 "did not end normally" -o killed.jsonl -- "$app" end kill
trace 5 "did not end normally" -o exited.jsonl -- "$app" end _exit
for file in segv.jsonl killed.jsonl exited.jsonl; do
    readable $file
    [ "$(launches $file)" -gt 0 ] || fail "$file has no launches"
    # The end of the process may cut its last write short, but nothing before it.
    [ "$(sed '$d' $file | grep -vc '^{.*}$')" = 0 ] || fail "$file has something that is not a line"
done
trace 0 "no CUDA calls: nothing was recorded" -o nothing.jsonl -- "$app" nothing
[ -e nothing.jsonl ] && fail "a program without CUDA left a recording"
trace 3 "no CUDA calls" -- sh -c 'exit 3'
trace 0 "0 kernels" -o start.jsonl "$app" start
[ "$(wc -l <start.jsonl)" = 2 ] || fail "a program that launches nothing has more than a header and an end"
trace 127 "cannot start \"$work/absent\"" -o x.jsonl -- "$work/absent"
trace 2 "is not a regular file" -o /dev/null -- "$app" status 0
trace 4 "cannot write" -o "$work/absent/x.jsonl" -- "$app" status 0

# ---- many launches, threads, children ----
trace 0 "80000 kernels, 0 copies, 0 memsets on 4 streams" -o many.jsonl -- "$app" many 20000 4
[ "$(launches many.jsonl)" = 80000 ] || fail "$(launches many.jsonl) launches of 80000"
[ "$(grep -c '"at_us"' many.jsonl)" = 80001 ] || fail "launches without a time"
trace 0 "80000 kernels (80000 in graphs)" -o replay.jsonl -- "$app" replay 20000
readable replay.jsonl
[ "$(grep -c '"after":\[' replay.jsonl)" = 79999 ] || fail "nodes of graphs that wait for nothing"
trace 0 "2 kernels" -o fork.jsonl -- "$app" fork
[ "$(launches fork.jsonl)" = 2 ] || fail "the parent launched 2 kernels"
child=$(ls fork.*.jsonl)
[ "$(launches "$child")" = 1 ] || fail "the child launched 1 kernel: $child"
[ "$(ls fork*.jsonl | wc -l)" = 2 ] || fail "a child without CUDA left a recording"
trace 0 "1 kernel, " -o children.jsonl -- sh -c "$app status 0; $app start"
[ "$(ls children*.jsonl)" = children.jsonl ] || fail "a second process that launched nothing left a recording"
trace 0 "1 kernel, " -o 'number.%p.jsonl' -- "$app" status 0
[ "$(ls number.*.jsonl | wc -l)" = 1 ] && [ ! -e 'number.%p.jsonl' ] || fail "%p: $(ls number.*)"
trace 0 "1 kernel, " -o status.jsonl -- "$app" status 0
[ "$(launches status.jsonl)" = 1 ] || fail "the old recording was not replaced"
trace 0 "" --quiet -o status.jsonl -- "$app" status 0
[ -s err ] && fail "--quiet says something"

# ---- limits ----
trace 0 "the limit was reached" -o oldest.jsonl --limit 1M -- "$app" many 20000
[ "$(wc -c <oldest.jsonl)" -le 1048700 ] || fail "the limit was not kept: $(wc -c <oldest.jsonl)"
sed -n 2p oldest.jsonl | grep -q '"id":1,' || fail "the oldest launch was not kept"
readable oldest.jsonl
kept=$(launches oldest.jsonl)
tail -n 1 oldest.jsonl | grep -q "\"op\":\"end\".*\"lost\":$((20000 - kept))}" || fail "the end does not count what was lost"
trace 0 "the limit was reached" -o newest.jsonl --limit 1M --keep newest -- "$app" many 20000
[ "$(wc -c <newest.jsonl)" -le 1048700 ] || fail "the limit was not kept: $(wc -c <newest.jsonl)"
[ "$(wc -c <newest.jsonl)" -ge 400000 ] || fail "less than half of the limit was kept: $(wc -c <newest.jsonl)"
tail -n 2 newest.jsonl | head -n 1 | grep -q '"id":20000,' || fail "the newest launch was not kept"
readable newest.jsonl
grep -c '"schema"' newest.jsonl | grep -qx 1 || fail "the halves were not joined"
[ -e newest.jsonl.older ] && fail "the older half was left"
# A limit below the size of a batch of lines.
for keep in oldest newest; do
    trace 0 "the limit was reached" -o small.jsonl --limit 20K --keep $keep -- "$app" many 20000
    [ "$(wc -c <small.jsonl)" -le 20480 ] || fail "$keep: the limit of 20 KiB was not kept: $(wc -c <small.jsonl)"
    [ "$(wc -c <small.jsonl)" -ge 9000 ] || fail "$keep: less than half of 20 KiB was kept: $(wc -c <small.jsonl)"
    kept=$(launches small.jsonl)
    tail -n 1 small.jsonl | grep -q "\"op\":\"end\".*\"lost\":$((20000 - kept))}" || fail "$keep: $(tail -n 1 small.jsonl)"
done
trace 2 "--limit takes a size" -o x.jsonl --limit much -- "$app" status 0
trace 2 "--keep takes oldest or newest" -o x.jsonl --keep all -- "$app" status 0

# ---- a full disk ----
# ThreadSanitizer needs large files in TMPDIR for itself.
limited() {
    trap '' XFSZ
    ulimit -f 200
    "$@"
}
if ! grep -q __tsan_init "$program"; then
    (limited trace 0 "could not be written completely" -o full.jsonl -- "$app" many 20000 && exit "$((failed > 0))") || failed=1
    readable full.jsonl
    [ "$(tail -c 1 full.jsonl)" = "" ] || fail "a file that could not be written ends in the middle of a line"
fi

fake=refuses trace 1 "4 kernels" -o refuses.jsonl -- "$app" all
readable refuses.jsonl
trace 2 "give a program to run" -o x.jsonl
trace 2 "--through takes cupti or driver" -o x.jsonl --through magic -- "$app" status 0

# ---- without CUPTI ----
if [ "$through" = driver ]; then
    grep -q "no CUPTI was found" err && fail "the library in front was asked for, and yet its choice is explained"
    trace 2 "exclude each other" -o x.jsonl --cupti /x.so -- "$app" status 0

    # A program that chooses what is recorded.
    trace 0 "2 kernels" -o part.jsonl -- "$app" part
    grep -q hidden part.jsonl && fail "what was not to be recorded is in the file"

    # The library for CUPTI looks for it when CUDA starts, and hands over if there is none.
    beside=$(dirname "$program")
    GRIDSMITH_TRACE_THROUGH=any GRIDSMITH_TRACE_OUTPUT=$work/handed.jsonl GRIDSMITH_TRACE_STATUS=$work GRIDSMITH_TRACE_CUPTI=/absent.so \
        GRIDSMITH_DRIVER=$folder/libcuda.so.1 CUDA_INJECTION64_PATH=$beside/libgridsmith-trace.so \
        LD_LIBRARY_PATH=$beside/front:$folder:$cupti "$app" many 1000 2 2>err || fail "the program that is handed over ends with $?"
    [ "$(launches handed.jsonl)" = 2000 ] || fail "$(launches handed.jsonl) launches of 2000 after the hand-over"

    # A machine without CUPTI; where there is one, CUPTI is used.
    unset CUDA_HOME CUDA_PATH
    mkdir bare && ln -s "$folder/libcuda.so.1" bare/
    if ! ls /usr/local/cuda/*/libcupti.so* /opt/cuda/*/libcupti.so* /usr/local/cuda/extras/CUPTI/*/libcupti.so* >/dev/null 2>&1 &&
        ! ldconfig -p 2>/dev/null | grep -q libcupti; then
        way="" libraries=$work/bare trace 0 "no CUPTI was found: recorded in front of the driver" -o bare.jsonl -- "$app" all
        [ "$(launches bare.jsonl)" = 29 ] || fail "$(launches bare.jsonl) launches of 29 without CUPTI"
        way="--through cupti" libraries=$work/bare trace 3 "no CUPTI (libcupti.so.12 or .13) was found" -o x.jsonl -- "$app" all
    fi
    finish "programs are recorded without CUPTI"
fi

# ---- trouble with CUPTI ----
fake=drops trace 0 "CUPTI lost 200 records" -o drops.jsonl -- "$app" many 2000
[ "$(launches drops.jsonl)" = 1800 ] || fail "$(launches drops.jsonl) launches of 1800"
tail -n 1 drops.jsonl | grep -q '"lost":200' || fail "the end does not count dropped records"
fake=drops trace 0 "CUPTI lost 3 records" -o drops.jsonl -- "$app" all
readable drops.jsonl
fake=nameless trace 0 "1 kernel, " -o nameless.jsonl -- "$app" status 0
readable nameless.jsonl
fake=subscribed trace 3 "another profiler is active" -o x.jsonl -- "$app" status 0
trace 3 "CUPTI cannot be opened" -o x.jsonl --cupti "$work/absent.so" -- "$app" status 0

finish "programs are recorded, however they end"
