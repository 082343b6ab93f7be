#!/bin/sh
# The program on the command line: right answers, and one clear line for each mistake.
#
#   sh tests/cmd/cli.sh PROGRAM SOURCE_DIR
. "$(dirname "$0")/../support/checks.sh"
program=$1
source_dir=$2
cd "$source_dir" || exit 1

# complaint EXIT_CODE NAME WORDS COMMAND...: nothing on standard output, one line on standard error with the words.
complaint() {
    code=$1 name=$2 words=$3
    shift 3
    check "$name" "$code" "$@"
    says "$words"
    is_one_line
}

# stopped NAME WORDS COMMAND...: SIGINT after a second ends the command, which says how far it came. On a busy machine it
# may not have begun by then: then it gets more time. Without --foreground it would get the signal twice, and end at the second.
stopped() {
    name=$1 words=$2
    shift 2
    for seconds in 1 2 4 8 16 32; do
        timeout --foreground --preserve-status -s INT -k 60 $seconds env --default-signal=INT "$@" >"$work/said" 2>&1 </dev/null
        found=$?
        grep -qF -- "$words" "$work/said" && break
    done
    check "$name" 130 sh -c "cat '$work/said'; exit $found"
    says "$words"
}

# As test_is_brief: with sanitizers, what takes seconds and runs the same code as other commands is left out.
is_brief() {
    [ "${GRIDSMITH_RUNS:-100000}" -lt 4000 ]
}

has_driver() {
    [ -e /dev/nvidiactl ] || PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep -q libcuda.so.1
}

# mistake NAME WORDS COMMAND...: the command line or the input is wrong. unfit: a kernel can never run on the GPU.
mistake() {
    complaint 2 "$@"
}
unfit() {
    complaint 1 "$@"
}

# documents SCHEMA: each line of the output of the last command is a JSON document of this schema. The reader of the
# program, which is strict, must get as far as the schema.
documents() {
    count=0
    while IFS= read -r line; do
        printf '%s\n' "$line" >"$work/document.json"
        count=$((count + 1))
        "$program" predict "$work/document.json" 2>&1 | grep -qF '"schema" must be "gridsmith.run/1"' || count=-1000000
        grep -q "^{\"schema\": \{0,1\}\"$1\"" "$work/document.json" || count=-1000000
    done <"$work/out"
    [ "$count" -gt 0 ] || fail "$name: does not print documents of $1"
}

# ---- help ----
check "help" 0 "$program" --help
says "predict"
for title in "Predict and explain" "Reshape kernels" "Record and measure" "Share a GPU"; do
    says "$title: "
    grep -q "^\.Ss $title\$" man/gridsmith.1 || fail "man page: no group \"$title\""
done
check "the example of the help" 0 sh -c "$(sed -n "s|^  gridsmith predict|'$program' predict|p" "$work/out")"
says "132 of 132 blocks of b wait"
check "version" 0 "$program" --version
check "no command" 2 "$program"
mistake "unknown command" 'unknown command "prdict" (did you mean "predict"?)' "$program" prdict
for command in $("$program" completion bash | sed -n "s/.*--version help \([a-z ]*\)'.*/\1/p"); do
    check "help of $command" 0 "$program" $command --help
    says "usage: gridsmith $command"
    check "help for $command" 0 "$program" help $command
    # Every option of the help is in the man page.
    sed -n 's/^ *\(-[a-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' "$work/out" | sort -u | while read -r option; do
        sed 's/\\-/-/g; s/^\.Fl -\{0,1\}/--/; s/Fl -\{0,1\}\([a-z]\)/--\1/g' "man/gridsmith-$command.1" |
            grep -q -e "--$option" -e "Fl \(Fl \)\{0,1\}-\{0,1\}$option" || echo "$option"
    done >"$work/missing"
    [ ! -s "$work/missing" ] || fail "man page of $command: without $(tr '\n' ' ' <"$work/missing")"
done

# ---- a GPU, drawn ----
for gpu in h200 rtx3090 a2 corpus/h200-3c13bb67.json; do
    check "draw $gpu" 0 "$program" gpus --svg $gpu
    ! command -v xmllint >/dev/null || xmllint --noout "$work/out" || fail "the picture of $gpu is not XML"
    # Each SM once, and each block of the first launch once.
    sms=$("$program" gpus --json $gpu | sed 's/.*"sms":\([0-9]*\).*/\1/')
    drawn=$(grep -o '>block [0-9]*<' "$work/out" | sort -u | wc -l)
    [ "$drawn" = "$sms" ] && [ "$(grep -o 'font-weight="600">[0-9]*<' "$work/out" | sort -u | wc -l)" = "$sms" ] ||
        fail "the picture of $gpu has $drawn blocks of $sms"
done
check "the SMs of GPCs" 0 "$program" gpus corpus/h200-3c13bb67.json
says "GPC    6,  18 SMs        12+13 28+29 44+45 60+61 74+75 88+89 102+103 116+117 120+121"
mistake "draw several GPUs" "--svg draws one GPU" "$program" gpus --svg h200 a100
mistake "draw as JSON" "--json and --svg exclude each other" "$program" gpus --svg --json h200

# ---- completion ----
# complete WORD...: the completions that bash would offer for a command line.
complete() {
    bash -c '. "$0"; COMP_WORDS=(gridsmith "$@"); COMP_CWORD=$#; _gridsmith; printf "%s\n" "${COMPREPLY[@]}"' "$work/bash" "$@"
}
"$program" completion bash >"$work/bash"
if command -v bash >/dev/null; then
    check "complete a command" 0 complete pred
    says "predict"
    check "complete an option" 0 complete predict --ex
    says "--explain"
    check "complete a GPU" 0 complete predict --gpu h2
    says "h200"
    check "complete a verb" 0 complete zoo ben
    says "bench"
    check "complete a file" 0 complete predict scenarios/case-1.1
    says "scenarios/case-1.1.json"
fi
for shell in zsh fish; do
    check "completion of $shell" 0 "$program" completion $shell
    says "explain"
    command -v $shell >/dev/null && check "syntax of $shell" 0 $shell -n "$work/out"
done
mistake "completion of another shell" 'unknown shell "csh": use bash, zsh or fish' "$program" completion csh

# ---- answers ----
check "predict" 0 "$program" predict scenarios/case-1.1.json
says "0, 2, .. 80"
check "explain" 0 "$program" predict --explain scenarios/case-2.1.json
says "partition 0 of every SM has no headroom for another 255-register warp, and warps do not step aside"
check "standard input" 0 sh -c "'$program' predict - <scenarios/case-1.1.json"
says "1, 3, .. 81"
echo '{"schema":"gridsmith.run/1","gpu":"h200","events":[{"op":"launch","kernel":"k","blocks":1,"threads":32,
"registers":16,"shared_bytes":0,"duration_us":1,"spread_us":0}]}' >"$work/spread.json"
check "a default, given" 0 "$program" predict "$work/spread.json"
check "gzip" 0 "$program" predict --json --run 1 corpus/h200-starter.jsonl.gz
says '"gpu":"h200"'
check "another GPU" 0 "$program" predict --gpu h200 scenarios/case-1.1.json
says "h200, 132 SMs"
check "a description" 0 "$program" predict --gpu gpus/a100.json scenarios/case-1.1.json
says "a100, 108 SMs"
says "a100: limits from the specification, mechanisms assumed"
check "a GPU in other letters" 0 "$program" predict --gpu "RTX 4090" --json scenarios/case-1.1.json
says '"gpu":"rtx4090","assumed":"limits from the specification, mechanisms assumed"'
check "a prediction that is read again" 0 sh -c "'$program' predict --gpu a10 --json scenarios/case-1.1.json | '$program' predict -"
says "a10: limits from the specification, mechanisms assumed"
check "a GPU like another" 0 "$program" predict --like h200 --sms 114 scenarios/h200-case-1.1.json
says "like-h200: limits and mechanisms of h200, assumed for a GPU with 114 SMs"
check "a description like another" 0 "$program" gpus --like h200 --sms 114 --json
says '"name":"like-h200"'
mistake "like two GPUs" "--gpu and --like exclude each other" "$program" predict --like h200 --gpu h200 scenarios/case-1.1.json
mistake "SMs of nothing" "--like excludes names, and --sms needs --like" "$program" gpus --sms 3
check "a check with assumptions" 0 "$program" check --gpu b200 a=148x1024,r32 --json
says '"sms":148,"assumed":"limits from the specification, mechanisms assumed","works":true'
check "a check of a GPU like another" 0 "$program" check --like h200 --sms 78 a=77x1024,r64
says "like-h200: limits and mechanisms of h200, assumed for a GPU with 78 SMs"
check "a bound with assumptions" 0 "$program" bound --gpu l4 --run scenarios/case-1.1.json --json
says '"assumed":"limits from the specification, mechanisms assumed"'
check "a policy" 0 "$program" predict --policy round-robin scenarios/case-1.1.json
says "0-40"
check "a policy of two names" 0 "$program" predict --policy leftover/most-room scenarios/case-1.1.json
check "a mechanism" 0 "$program" predict --set warp_placement=free --set=extra_step=no scenarios/case-2.1.json
check "check yes" 0 "$program" check scenarios/case-1.1.json
says "in any order:  yes"
check "check no" 1 "$program" check scenarios/case-3.json
says "the fewest kernels that fail: k1, then k2"
says "an order that works: k2, then k1"
check "check json" 1 "$program" check --json scenarios/case-3.json
documents gridsmith.check/2
says '"smallest":{"kernels":["k1","k2"]'
says '"works":false'
says '{"kind":"order","kernel":"k2","from":1,"to":0,"is_limit":false,"words":"launch k2 first"}'
printf '{"schema":"gridsmith.run/1","gpu":"rtx3090","events":[%s,%s]}' \
    '{"op":"launch","id":7,"kernel":"k","blocks":82,"threads":256,"registers":32,"shared_bytes":0}' \
    '{"op":"launch","id":9,"kernel":"k","blocks":82,"threads":256,"registers":32,"shared_bytes":90000}' >"$work/alike.json"
mistake "an empty kind of fixes" 'unknown kind ""' "$program" check --fix blocks, scenarios/case-3.json
mistake "kernels of no file" "--kernels chooses kernels of a file" "$program" check --gpu h200 --kernels a a=1x32,r32
mistake "warps of a run" "--warps does not go with --run" "$program" bound --run scenarios/case-3.json --warps 3
mistake "registers twice" '"r64" was given before' "$program" check --gpu h200 a=1x32,r32,r64
check "registers that a prediction assumes" 0 "$program" predict --gpu h200 a=8x256,s0
says "gridsmith predict: assumed: 32 registers a thread for a (give r)"
says "gridsmith predict: assumed: no local memory for a (give l)"
for format in --json --csv --svg --trace; do
    check "what is assumed of a GPU, with $format" 0 "$program" predict --gpu a100 $format a=1x32,r16,s0,l0
    says "limits from the specification, mechanisms assumed"
done
for format in --json --svg -- ; do
    check "what an occupancy assumes, with $format" 0 "$program" occupancy --gpu a100 --threads 32 --registers 32 $format
    says "limits from the specification, mechanisms assumed"
done
printf '%s\n' '{"schema":"gridsmith.run/1","gpu":"h200","events":"follow"}' \
    '{"op":"copy","id":1,"bytes":4096,"stream":7,"at_us":25,"start_us":30,"end_us":35}' '{"op":"end"}' >"$work/copies.jsonl"
check "a program of copies" 0 "$program" predict "$work/copies.jsonl"
says "h200, 132 SMs: 0 launches, 1 copy or memset, predicted to end at 35.0 us"
check "a program of copies, compared" 0 "$program" predict --compare "$work/copies.jsonl"
says "no launches overlap: nothing to compare"

# ---- what is wrong is found before anything is written ----
cat >"$work/program.jsonl" <<END
{"schema":"gridsmith.run/1","gpu":"h200","events":"follow"}
{"op":"launch","id":1,"kernel":"a","blocks":132,"threads":1024,"registers":32,"shared_bytes":0,"at_us":0,"start_us":5,"end_us":105,"stream":7}
{"op":"launch","id":2,"kernel":"b","blocks":1,"threads":32,"registers":32,"shared_bytes":0,"at_us":1,"start_us":106,"end_us":110,"stream":7}
{"op":"launch","id":3,"kernel":"c","blocks":1,"threads":32,"registers":32,"shared_bytes":0,"at_us":2,"start_us":111,"end_us":115,"stream":7}
END
for format in --html --csv --svg --trace; do
    mistake "the longest waits with $format" "--top goes with the table and --json" "$program" predict --top 2 $format "$work/program.jsonl"
done
mistake "a page of very many blocks" "at most 20000000 can be drawn" "$program" predict --gpu h200 --html b=30000000x32,r16,s0,l0
check "a page on standard output" 0 "$program" predict --html "$work/program.jsonl"
cp "$work/out" "$work/page.html"
check "the same page in a file" 0 "$program" predict --html -o "$work/file.html" "$work/program.jsonl"
check "both pages are the same" 0 cmp "$work/page.html" "$work/file.html"
check "the longest waits in JSON" 0 "$program" predict --top 2 --json "$work/program.jsonl"
printf '"id":"3"\n"id":"2"\n' >"$work/wanted"
grep -o '^{"id":"[0-9]*"' "$work/out" | tr -d '{' >"$work/found"
check "the two that waited longest" 0 cmp "$work/wanted" "$work/found"
mistake "two changes" "give --what-if once: changes made together are separated by commas" \
    "$program" predict --what-if graph --what-if sms=100 "$work/program.jsonl"

# ---- one kernel in two streams: both launches change ----
cat >"$work/twice.jsonl" <<END
{"schema":"gridsmith.run/1","gpu":"h200","events":"follow"}
{"op":"launch","id":1,"kernel":"mega","blocks":120,"threads":1024,"registers":64,"shared_bytes":204800,"at_us":0,"start_us":5,"end_us":9,"stream":1,"cooperative":true}
{"op":"launch","id":2,"kernel":"mega","blocks":120,"threads":1024,"registers":64,"shared_bytes":204800,"at_us":1,"start_us":6,"end_us":9,"stream":2,"cooperative":true}
END
check "a kernel beside itself" 1 "$program" check --waiting --fix blocks "$work/twice.jsonl"
says "  blocks     mega with at most 66 blocks, in each launch of it"
cp "$work/out" "$work/answer"
check "only one fix" 1 grep -F 'mega#2 with' "$work/answer"
check "a kernel beside itself, fixed" 0 sh -c "sed 's/\"blocks\":120/\"blocks\":66/' '$work/twice.jsonl' | '$program' check --waiting -"

# ---- work that is too short for the clock ----
sed 's/"start_us":106,"end_us":110/"start_us":106,"end_us":106/' "$work/program.jsonl" >"$work/short.jsonl"
check "a launch that ends when it starts" 0 "$program" predict "$work/short.jsonl"
says "1 launch has no measured time, and is assumed to end at once"
sed 's/"start_us":106,"end_us":110/"start_us":106,"end_us":105/' "$work/program.jsonl" >"$work/short.jsonl"
mistake "a launch that ends before it starts" 'short.jsonl:3:1: it ends before it starts: "end_us" is less than "start_us"' \
    "$program" predict "$work/short.jsonl"

# ---- a recording of two GPUs: a run for each ----
launch='"kernel":"barrier","blocks":132,"threads":256,"registers":32,"shared_bytes":200000,"cooperative":true'
cat >"$work/gpus.jsonl" <<END
{"schema":"gridsmith.run/1","gpu":"h200","events":"follow"}
{"op":"launch","id":1,$launch,"at_us":0,"start_us":5,"end_us":105,"stream":7,"device":0}
{"op":"launch","id":2,$launch,"at_us":1,"after":[1],"start_us":6,"end_us":106,"stream":8,"device":1}
END
check "a prediction of two GPUs" 0 "$program" predict "$work/gpus.jsonl"
says "gridsmith predict: the recording has several GPUs, each a run; this is GPU 0"
says "this is GPU 1, without 1 wait for work of others"
check "one of two GPUs" 0 "$program" predict --run 2 "$work/gpus.jsonl"
says "h200, 132 SMs: 1 launch, 0 copies and memsets, "
says "predicted to end at 106.0 us"
mistake "a picture of two GPUs" "choose it with --run N" "$program" predict --svg "$work/gpus.jsonl"
check "kernels that wait on two GPUs" 0 "$program" check --waiting "$work/gpus.jsonl"
says "1 kernel of 1 launch waits for other blocks; 0 pairs may run at the same time"
says "this is GPU 1, without 1 wait for work of others"
check "explain as CSV" 0 "$program" explain --csv corpus/h200-program-eager.jsonl.gz
says "name,kernel,launches,total_us"
says "reduce_kernel<128>,_ZN2at"
check "explain --csv has all 40 kernels" 0 [ "$(awk 'END { print NR }' "$work/out")" = 41 ]
mistake "explain in two formats" "--json, --csv and --html exclude each other" "$program" explain --csv --json corpus/h200-program-eager.jsonl.gz
mistake "explain two GPUs" "has several runs: choose one with --run N" "$program" explain "$work/gpus.jsonl"
sed '3s/,"device":1//; 2p; 2s/"id":1/"id":3/; 2s/"device":0/"device":2/' "$work/gpus.jsonl" >"$work/nameless.jsonl"
mistake "a launch on none of two GPUs" 'nameless.jsonl:4:1: "device" is missing: the run has the work of 2 GPUs' \
    "$program" predict "$work/nameless.jsonl"

check "kernels that share a name" 1 "$program" check "$work/alike.json"
says "an order that works: k#9, then k#7"
says "launch k#9 first"
says "k#7 with a carve-out of 65 percent"
check "a word and a file that share a name" 1 "$program" check nccl=1x32,r16 scenarios/hangs/deepep-496.json
says "nccl#2 with at most 4 blocks"
check "a budget for few changes" 1 "$program" check --budget 100 --gpu h200 mega=132x256,r168,s200K,l0 nccl=16x512,r96,s0,l0
says "no single change that is enough was found within the budget; the smallest combination of two changes that was found"
check "a budget that ends after the fix" 1 "$program" check --budget 52 --fix registers --gpu h200 mega=132x256,r168,s200K,l0 \
    nccl=16x512,r96,s0,l0
says "nccl with 40 registers a thread"
if ! is_brief; then
    check "a budget for some pairs" 1 "$program" check --budget 20000 --gpu h200 k0=264x128,r128,s40000,l0 k1=264x512,r64,s8192,l0 \
        k2=132x256,r96,s0,l0
    says "no single change is enough; the smallest combination of two changes that was found within the budget (--budget) is:"
fi
check "check words" 1 "$program" check --gpu h200 mega=132x256,r168,s200K nccl=16x512,r96
says "together: no, in no launch order"
says "a block needs 12,288 registers in partition 1 where at most 5,632 are free"
says "  blocks     mega with at most 116 blocks (leaves 16 SMs free)"
says "  registers  nccl with at most 40 registers a thread (-maxrregcount 40)"
check "check a file and words" 1 "$program" check --fix blocks first=1x32 scenarios/persistent-and-nccl.json last=1x32
says "  first  1 block of 32 threads"
says "h200, 132 SMs: 4 kernels, 150 blocks"
check "check words that fit" 0 "$program" check --gpu h200 --sms 78 a=77x1024,r64 b=1x32 --json
says '"works":true,"in_this_order":true,"in_any_order":true'
says '"fixes":[],"fixes_unfinished":[]'
check "check without registers" 1 "$program" check --gpu h200 mega=132x256,r168,s200K nccl=16x512
says "assumed: 32 registers a thread for nccl; in this order the answer holds from 16 to 40 (give r)"
says "together: not known; if nccl has at most 40 registers a thread: yes, in this launch order"
check "check without registers, any order" 1 "$program" check --gpu h200 --any-order --fix none a=132x1024,s0,l0 b=132x512,s0,l0
says "assumed: 32 registers a thread for a and b; the answer holds from 16 to "
check "check, no fix of these kinds" 1 "$program" check --gpu a100 --sms 6 --fix green a=6x110,r32,s0,l0 b=10x64,r128,s40000,l0
says "no change of these kinds, and no combination of two changes, is enough"
check "check with memory that helps" 1 "$program" check --gpu h100-pcie --sms 4 --fix none \
    a=4x384,r64,l0,carveout=25 b=3x384,r32,s60000,l0
says "assumed: no shared memory for a; in this order 1 byte gives another answer (give s)"
check "check without registers, json" 1 "$program" check --gpu h200 mega=132x256,r168,s200K nccl=16x512 --json
documents gridsmith.check/2
says '"assumptions":[{"what":"registers","kernels":["nccl"],"value":32,"least":16,"most":40,"decides":true}'
says '"works":false'
check "check every order" 1 "$program" check --sms 148 --any-order scenarios/hangs/mirage-775.json
says "together: no, not in this launch order; yes, if workers is launched first"
says "fixes, each of which is enough in every launch order:"
says "  blocks     schedulers with at most 20 blocks"
check "check one kind of fixes" 1 "$program" check --fix order,stream scenarios/case-3.json
says "  order      launch k2 first"
check "check without fixes" 1 "$program" check --fix none --gpu h200 a=133x1024,r64
says "together: no, not even a alone"
check "check two changes" 1 "$program" check --gpu h200 a=132x1024,r64 b=132x1024,r64 --fix registers
says "no single change of these kinds is enough; the smallest combination of two changes is:"
says "a with 32 registers a thread (-maxrregcount 32), and b with 32 registers a thread (-maxrregcount 32)"
printf '%s\n' '{"schema":"gridsmith.run/1","gpu":"h200","program":"app","events":"follow"}' \
    '{"op":"launch","id":1,"kernel":"mega","blocks":132,"threads":256,"registers":168,"shared_bytes":204800,"stream":7,"cooperative":true}' \
    '{"op":"launch","id":2,"kernel":"nccl","blocks":8,"threads":512,"registers":96,"shared_bytes":0,"stream":7}' \
    '{"op":"launch","id":3,"kernel":"other","blocks":8,"threads":512,"registers":96,"shared_bytes":0,"stream":7}' \
    '{"op":"launch","id":4,"kernel":"nccl","blocks":16,"threads":512,"registers":96,"shared_bytes":0,"stream":7}' \
    '{"op":"launch","id":5,"kernel":"nccl","blocks":4,"threads":512,"registers":64,"shared_bytes":0,"stream":7}' >"$work/app.jsonl"
# ---- the same words everywhere ----
for gpu in "NVIDIA H200" nvidia-h200 "nvidia h200 NVL" H200; do
    check "the GPU $gpu" 0 "$program" predict --gpu "$gpu" a=8x256,r32 b=4x512,s20K
    says "h200, 132 SMs"
    says "2  launch   b             4     512   32     20480        4       0"
    check "the GPU $gpu in occupancy" 0 "$program" occupancy --gpu "$gpu" --threads 1024 --registers 64
    says "1 block per SM: 32 of 64 warps"
    check "the GPU $gpu as a device" 0 "$program" fuzz --device "model:$gpu" --count 4
    check "the GPU $gpu in gpus" 0 "$program" gpus "$gpu"
    says "h200: NVIDIA H200"
done
check "a description from standard input" 0 sh -c "'$program' gpus --json a10 | '$program' gpus -"
says "a10: NVIDIA A10"
mistake "a similar GPU" 'no GPU is called "NVIDIA H2OO" (did you mean "h20"?)' "$program" predict --gpu "NVIDIA H2OO" a=1x32
mistake "another board" 'no GPU is called "NVIDIA GeForce RTX 3095"' "$program" gpus "NVIDIA GeForce RTX 3095"
mistake "kernels without a GPU" "kernels on the command line need --gpu NAME" "$program" predict a=8x256
mistake "a file and kernels" 'scenarios/case-3.json" is no kernel' "$program" predict --gpu h200 a=1x32 scenarios/case-3.json
mistake "two kernels of a name" 'duplicate name of a kernel' "$program" predict --gpu h200 a=1x32 a=1x32
mistake "a run of words" "the kernels on the command line are one run: there is no run 2" "$program" predict --gpu h200 --run 2 a=1x32
mistake "an option without dashes" '"explain" is no kernel (did you mean "--explain"?)' "$program" predict explain scenarios/case-3.json
mistake "an option without dashes, a word" '"jsn" is not an option (did you mean "--json"?)' "$program" status jsn
mistake "an option with one dash" 'unknown option -explain (did you mean "--explain"?)' "$program" predict -explain scenarios/case-3.json
mistake "an output with one dash" 'unknown option -output (did you mean "--output"?)' "$program" predict -output x scenarios/case-3.json
mistake "an option of no command" 'gridsmith: unknown option --hlep (did you mean "--help"?)' "$program" --hlep
mistake "help with a value" "gridsmith: --help takes no value" "$program" --help=foo
mistake "help of a command with a value" "gridsmith predict: --help takes no value" "$program" predict --help=foo
mistake "an empty value" "--output needs a value: FILE" "$program" predict -o '' scenarios/case-3.json
mistake "an unknown verb" 'unknown verb "stat" (did you mean "status"?)' "$program" campaign stat
mistake "a run that is not there" "scenarios/case-3.json has 1 run: there is no run 7" "$program" predict --run 7 scenarios/case-3.json

# ---- options without an effect ----
mistake "--top of a scenario" "--top is for recorded programs" "$program" predict --top 3 scenarios/case-3.json
mistake "--placed of a scenario" "--placed is for recorded programs" "$program" predict --placed scenarios/case-3.json
mistake "--follow of a scenario" "--follow needs a recording" "$program" predict --follow scenarios/persistent-too-late.json
ptx=kernels/ptx/reduce.ptx.gz
for rule in "--as persistent --stops 3:--stops goes with --as confined" "--as confined --seed 3:--seed goes with --stops" \
    "--as confined --registers 32:--registers goes with --as registers" "--as registers --workers 3:--workers goes with" \
    "--as registers --task 3:--task goes with" "--as registers --look-back:--look-back goes with" "--as confined --on cuda --sanitize:--sanitize goes with --device host"; do
    mistake "verify ${rule%%:*}" "${rule#*:}" "$program" verify $ptx --kernel k --launch kernels/reduce.json ${rule%%:*}
done
for rule in "--as confined --factor 2:--factor goes with --as elastic" "--as confined --json:--json goes with" \
    "--as registers --task 3:--task goes with" "--as registers -o x:--output goes with" "--as confined --launch x:--launch goes with"; do
    mistake "reshape ${rule%%:*}" "${rule#*:}" "$program" reshape $ptx --kernel k ${rule%%:*}
done
mistake "reshape two files" "give one file with kernels: compiler options stand after --" "$program" reshape --list $ptx $ptx
mistake "reshape no kernel" "$ptx: the file has no kernel NOSUCH" "$program" reshape $ptx --kernel NOSUCH --as confined
mistake "an empty description" "$work/empty.json: the description of the GPU is empty" sh -c ": >'$work/empty.json'; '$program' gpus '$work/empty.json'"
mistake "recordings into a folder" "is a folder: name a file, or play one shard into it with --shard I/N" "$program" fuzz --device model:h200 --out "$work"
mistake "a shard into nothing" "no such folder; with --shard, --output names the folder of the shards" "$program" fuzz --device model:h200 --shard 1/2 --out "$work/none"
mistake "status without a campaign" "there is no campaign in this folder" sh -c "cd '$work' && '$program' campaign status"
if ! has_driver; then
    check "a campaign that cannot start" 3 env LD_LIBRARY_PATH=/nonexistent "$program" campaign submit --local --shards 2 --dir "$work/none" -- fuzz --device cuda --count 4
    says "no NVIDIA driver was found"
    [ ! -e "$work/none" ] || fail "the folder of a campaign that did not start is still there"
fi
mistake "the zoo on nothing" 'unknown device "gpu"; it must be host, cuda, cuda:N or serve' "$program" zoo run sgemm --on gpu
for command in "run --latency" trace; do
    check "$command of no program" 127 "$program" $command -- nosuchprogram
    says 'cannot start "nosuchprogram": No such file or directory'
done
printf '{"schema": "gridsmith.run/1",\n "events": [{"op": "launch", "threads": tru}]}' >"$work/word.json"
mistake "a wrong word of JSON" "$work/word.json:2:41: not valid JSON: invalid token near 'tru'" "$program" predict "$work/word.json"
stopped "a stopped campaign" "stopped after" "$program" fuzz --device model:h200 --count 1000000000

# ---- traces ----
mistake "a pattern that matches nothing" "--set 'nosuch*:cluster=2': no kernel matches \"nosuch*\"" "$program" import --set 'nosuch*:cluster=2' corpus/pytorch-two-streams.json.gz
gzip -dc corpus/pytorch-two-streams.json.gz | sed 's/"ts": [0-9.]*, //' >"$work/no-ts.json"
mistake "a trace without times" 'has no "ts" in the trace, the time' "$program" import "$work/no-ts.json"
gzip -dc corpus/pytorch-two-streams.json.gz | sed 's/NVIDIA H200/NVIDIA H300/' >"$work/other.json"
check "a trace of another GPU" 0 "$program" import -o "$work/other.jsonl" "$work/other.json"
says "no description of GPU 0 (NVIDIA H300); the nearest is h200: predict with --gpu h200"
gzip -dc corpus/pytorch-two-streams.json.gz | sed 's/NVIDIA H200/NVIDIA H200 MIG 3g.71gb/; s/"numSms": 132/"numSms": 60/' >"$work/slice.json"
check "a trace of a slice of a GPU" 0 "$program" import -o "$work/slice.jsonl" "$work/slice.json"
says "the nearest is h200: predict with --gpu h200 --sms 60"

check "check kernels of a recording" 1 "$program" check "$work/app.jsonl" --kernels 'mega,nc*'
says "h200, 132 SMs: 3 kernels, 152 blocks"
says "  nccl    16 blocks of 512 threads, 96 registers"
says "  nccl#2  4 blocks of 512 threads, 64 registers"
says "shared memory, cooperative"
mistake "check kernels that are not there" 'no kernel matches "x*"; the kernels are mega, nccl, other' "$program" check "$work/app.jsonl" --kernels 'x*'
printf '%s' '{"schema":"gridsmith.run/1","gpu":"h200","green_contexts":[[0,1,2,3,4,5,6,7],[8,9,10,11,12,13,14,15]],"events":[
    {"op":"launch","kernel":"a","blocks":9,"threads":1024,"registers":64,"shared_bytes":0,"green_context":0},
    {"op":"launch","kernel":"b","blocks":8,"threads":1024,"registers":64,"shared_bytes":0,"green_context":1}]}' \
    >"$work/green.json"
check "check green contexts" 1 "$program" check "$work/green.json"
says "1 of 9 blocks of a wait: in its green context, "
check "check green contexts and a word" 1 "$program" check "$work/green.json" last=1x32,r32,s0,l0
says "1 of 9 blocks of a wait: in its green context, "
check "check green contexts by name" 1 "$program" check "$work/green.json" --kernels '*'
says "1 of 9 blocks of a wait: in its green context, "
mistake "check kernels of a few" 'no kernel matches "zz"; the kernels are a, b' "$program" check "$work/green.json" --kernels zz
for k in 1 2 3 4 5 6; do
    printf '{"op":"launch","kernel":"k%s","blocks":1,"threads":32,"registers":32,"shared_bytes":0}%s' $k "$([ $k = 6 ] || echo ,)"
done >"$work/six"
printf '{"schema":"gridsmith.run/1","events":[%s]}' "$(sed 's/,{[^{]*"k6".*//' "$work/six")" >"$work/five.json"
printf '{"schema":"gridsmith.run/1","events":[%s]}' "$(cat "$work/six")" >"$work/six.json"
mistake "check kernels of five" 'the kernels are k1, k2, k3, k4, k5' "$program" check --gpu h200 "$work/five.json" --kernels zz
check "no dots after five" 1 grep -qF ... "$work/err"
mistake "check kernels of six" 'the kernels are k1, k2, k3, k4, k5, ...' "$program" check --gpu h200 "$work/six.json" --kernels zz
mistake "check words without a GPU" "kernels on the command line need --gpu NAME" "$program" check a=1x1
mistake "check a word" '"a=1": give BLOCKSxTHREADS after the name, as a=132x256, not "1"' "$program" check --gpu h200 a=1
mistake "check two of a name" "duplicate name of a kernel" "$program" check --gpu h200 a=1x1 a=2x1
mistake "check two files" "give one file of runs; a kernel is NAME=BLOCKSxTHREADS" "$program" check a.json b.json
mistake "check an unknown kind" 'unknown kind "sms"' "$program" check --fix blocks,sms scenarios/case-3.json
check "gpus" 0 "$program" gpus
says "rtx3090"
check "gpus json" 0 "$program" gpus --json rtx3090
documents gridsmith.gpu/1
says '"schema":"gridsmith.gpu/1"'
check "occupancy" 0 "$program" occupancy --gpu rtx3090 --threads 512 --registers 32 --shared 32768
says "3 blocks per SM"
check "occupancy of one block" 0 "$program" occupancy --gpu h200 --threads 1024 --registers 64
says "1 block per SM: 32 of 64 warps"
says "more warps fit with 32 registers a thread (100.0%)"
check "bound of one warp" 0 "$program" bound --warps 1
says "C (L L C)x1 S, 1 warp: cycles"
check "predict on one SM" 0 "$program" predict --gpu h200 --sms 1 a=1x32,r32
check "one SM is no SMs" 0 [ "$(head -n 1 "$work/out")" = "h200, 1 SM" ]
check "check on one SM" 1 "$program" check --gpu h200 --sms 1 a=2x1024,r64
says "h200, 1 SM: 1 kernel, 2 blocks"
says "an empty GPU takes 1 block of a:"
check "occupancy json" 0 "$program" occupancy --gpu rtx3090 --threads=512 --registers=32 --shared=32768 --json
documents gridsmith.occupancy/1
says '"blocks_per_sm":3,"limits":["warps","shared_memory"]'
unfit "occupancy of what never fits" "the kernel can never run on rtx3090" \
    "$program" occupancy --gpu rtx3090 --threads 1024 --registers 255
unfit "check of a word that never fits" 'kernel "a" can never run on this GPU' "$program" check --gpu h200 a=1x2048
unfit "check of a cluster that never fits" "its clusters have 32 blocks" "$program" check --gpu h200 a=32x32,c32

check "bound" 0 "$program" bound --warps 4 --repeat 2
says "the paper's formula                                    22  too small"
says "warp 4      .   C"
check "bound, fair" 0 "$program" bound --warps 4 --repeat 1 --fair
says "a worst schedule in which earlier sub-blocks go first"
"$program" bound --warps 8 --repeat 4 --json >"$work/bound.json"
check "bound json" 0 grep -qxF '{"schema":"gridsmith.bound/1","formula_cycles":74,"exact_fair_cycles":74,"exact_cycles":77,"proven_cycles":77}' "$work/bound.json"
check "bound without a search" 0 "$program" bound --warps 4 --repeat 1000000000 --no-search --json
documents gridsmith.bound/1
says '"formula_cycles":8000000006,"exact_fair_cycles":null,"exact_cycles":null,"proven_cycles":9000000005}'
check "bound of a billion repetitions" 0 "$program" bound --warps 4 --repeat 1000000000
says "no search: a warp takes 3000000002 cycles alone; the limit of a schedule is 60000"
check "search of too many warps" 0 "$program" bound --warps 65
says "the search goes up to 64 warps, not 65"
check "search with little memory" 0 "$program" bound --warps 12 --repeat 8 --issue 2 --memory 1
says "the search stopped at its memory limit of 1 MB"
says "found a schedule of"
check "grid" 0 "$program" bound --grid
says "exact in 89, pessimistic in 0, too small in 7"
says "exact in 13, pessimistic in 0, too small in 83"
check "grid json" 0 "$program" bound --grid --warps 2 --repeat 1 --json
documents gridsmith.bound-grid/1
says '{"warps":2,"repeat":1,"formula_cycles":8,"exact_fair_cycles":8,"exact_cycles":8,"proven_cycles":8}]}'
check "random programs" 0 "$program" bound --random --count 300
says "below the worst case                      0"
check "anomalies" 0 "$program" bound --anomalies --count 60
says "a faster unit"
check "a program" 0 "$program" bound scenarios/bound/tensor.json
says "worst case, any work-conserving schedule              169"
check "a program of standard input" 0 sh -c "'$program' bound --json - <scenarios/bound/faster-unit-after.json"
says '"formula_cycles":null,"exact_fair_cycles":25,"exact_cycles":28,'
check "bound of a run" 0 "$program" bound --run scenarios/case-1.2.json --repeat 10 --clock-mhz 1000 --before-ns 5 --copy-in-ns 20
says "response time: 372 ns = 5 before + 20 copy in + 347 on the GPU at 1000 MHz"
check "bound of waves" 0 "$program" bound --run scenarios/waves.json --program sgemm=scenarios/bound/tensor.json --json
documents gridsmith.run-bound/1
says '{"schema":"gridsmith.run-bound/1","at_once":false,'
# The longest request takes 225 us. A block of gemm, in four waves, takes 100 us, and 32 blocks of each SM 600 cycles each to exit.
check "a request beside work" 0 "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies tests/bound/machine.json --every 2000
says "request: 0.225 ms, the longest of 6 recorded; the GPU waits for the host for 0.012 ms of it"
says "requests begin at least 2.000 ms after each other"
says "longest that stops between its blocks: 0.400 ms, gemm: a block 0.100 ms, exits 0.013 ms"
says "longest that does not stop:            0.080 ms, reduce"
says "response: 0.432 ms = 0.193 stopping + 0.014 launch + 0.225 request"
says "if requests come more often, so that kernels do not stop: 0.719 ms"
# A kernel is sure to stop once: before the next request, 432 us are over, and 413 us in each of two streams.
check "requests that come just often enough" 0 "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies tests/bound/machine.json --every 1258
says "response: 0.432 ms"
check "requests that come too often" 0 "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies tests/bound/machine.json --every 1257
says "response: 0.719 ms"
check "requests as often as recorded" 0 "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies tests/bound/machine.json
says "requests begin at least 1.000 ms after each other"
says "response: 0.719 ms = 0.480 stopping + 0.014 launch + 0.225 request"
check "a request beside work that does not stop" 0 "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies tests/bound/machine.json --no-guard --ahead 100 --json
documents gridsmith.beside/1
says '"response_us":739,"unstopped_response_us":739,"stop_us":500,"launch_us":14,"request_us":225,"host_us":12,"requests":6,"every_us":1000,"streams":2,"ahead_us":100,'
check "a kernel that does not stop" 0 "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies tests/bound/machine.json --every 2000 --unstopped nosuch --unstopped 'g*m'
says "response: 0.719 ms = 0.480 stopping + 0.014 launch + 0.225 request"
# The last request counts, too.
{
    echo '{"schema":"gridsmith.run/1","gpu":"h200","events":"follow"}'
    for number in 1 2 3 4 5; do
        echo "{\"op\":\"launch\",\"id\":$number,\"kernel\":\"r\",\"blocks\":64,\"threads\":256,\"registers\":32,\"shared_bytes\":0,\"stream\":\"7\",\"at_us\":${number}0000,\"start_us\":${number}0010,\"end_us\":${number}0${number}50}"
    done
} >"$work/requests.jsonl"
check "the last request is the longest" 0 "$program" bound --run "$work/requests.jsonl" --beside tests/bound/work.json --latencies tests/bound/machine.json --json
says '"request_us":550,"host_us":10,"requests":5,"every_us":10000,'
# Requests that the program names take as long as the host says.
for number in 1 2 3; do
    echo "{\"op\":\"range\",\"name\":\"request\",\"from_us\":${number}0000,\"to_us\":${number}0${number}70}"
done >>"$work/requests.jsonl"
check "requests by name" 0 "$program" bound --run "$work/requests.jsonl" --beside tests/bound/work.json --latencies tests/bound/machine.json --range request --json
says '"request_us":370,"host_us":30,"requests":3,"every_us":10000,'
sed -n '1,2p' "$work/requests.jsonl" >"$work/one.jsonl"
check "a single request" 0 "$program" bound --run "$work/one.jsonl" --beside tests/bound/work.json --latencies tests/bound/machine.json
says "the time between requests is not known, so no kernel counts as one that stops (--every)"
mistake "requests of another name" 'has no range "answer"' "$program" bound --run "$work/requests.jsonl" --beside tests/bound/work.json --latencies tests/bound/machine.json --range answer
mistake "a kernel without a GPU" "--gpu NAME|FILE is needed" "$program" bound tests/cases/flow90.cubin --launch tests/cases/flow-launch.json --instructions
mistake "a GPU without latencies" "the latencies of a100 are not known: measure them" "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --gpu a100
mistake "work without requests" "--beside needs --run FILE" "$program" bound --beside tests/bound/work.json
mistake "guards of nothing" "--ahead, --every, --no-guard, --unstopped and --range go with --beside" "$program" bound --run tests/bound/request.json --no-guard
mistake "work that was not recorded" "the work beside it was not recorded" "$program" bound --run tests/bound/request.json --beside scenarios/case-1.1.json --gpu h200 --latencies tests/bound/machine.json
mistake "requests that were not recorded" "the request was not recorded" "$program" bound --run scenarios/case-1.1.json --beside tests/bound/work.json --gpu h200 --latencies tests/bound/machine.json
mistake "no such latencies" "nosuch.json" "$program" bound --run tests/bound/request.json --beside tests/bound/work.json --latencies nosuch.json

# An artificial difference shrinks to one launch that just reaches SM 5; the file has both answers, and differs again.
check "shrink" 0 "$program" shrink --device model:rtx3090,skip=5 -o "$work/small.jsonl" scenarios/case-4.1.json
says "SM 5: the device has 0 blocks of k1, the model 1"
says "run 1 of the file shrank from 9 launches to 1"
check "shrunk, both ways" 0 test "$(wc -l <"$work/small.jsonl")" = 2
check "as seen" 0 grep -q '"class":"shrunk: as seen".*"blocks":44,"threads":1,"registers":24' "$work/small.jsonl"
check "as predicted" 0 grep -q '"class":"shrunk: as predicted"' "$work/small.jsonl"
check "shrink the small one" 0 "$program" shrink --device model:rtx3090,skip=5 --run 2 --json "$work/small.jsonl"
documents gridsmith.shrink/1
says '"schema":"gridsmith.shrink/1","run":2,"launches":1,'
says '"kept":0,"kernel":"k1"'
check "shrink by mechanism" 0 "$program" shrink --device model:rtx3090 --set shared_scope=sm --plays 100 \
    scenarios/case-3.json
says "the SM is idle"
check "describe a recording" 0 "$program" shrink --device replay:corpus/h200-starter.jsonl.gz --policy round-robin \
    corpus/h200-starter.jsonl.gz
says "run 1 of the file shrank"
check "agree with a recording" 1 "$program" shrink --device replay:corpus/h200-starter.jsonl.gz --run 2 \
    corpus/h200-starter.jsonl.gz
check "no difference" 1 "$program" shrink --device model:rtx3090 scenarios/case-3.json
says "device and model agree on all runs that can be played: 1 of 1"
check "no difference in JSON" 1 "$program" shrink --json --device model:rtx3090 scenarios/case-3.json
documents gridsmith.shrink/1
says '{"schema":"gridsmith.shrink/1","run":null}'
if ! has_driver; then
    check "no GPU" 3 "$program" shrink --device cuda scenarios/case-3.json
fi
# Recordings of a model that differs from the description: fit finds it, and proposes a run for what is still open.
sed 's/"sms": 82/"sms": 6/; s/"rtx3090"/"six"/' gpus/rtx3090.json >"$work/six.json"
gzip -dc corpus/h200-starter.jsonl.gz | head -n 40 >"$work/real.jsonl"
"$program" predict --gpu "$work/six.json" --policy round-robin --json "$work/real.jsonl" >"$work/model.jsonl"
check "fit" 0 "$program" fit --gpu "$work/six.json" --propose "$work/next.json" "$work/model.jsonl"
says "agree with 40 of 40 recordings"
says "round-robin        40  the recordings say so"
says "ruled out by run "
says "a run that tells some of them apart"
check "fit by several files" 0 "$program" fit --json --gpu "$work/six.json" "$work/model.jsonl" "$work/model.jsonl"
documents gridsmith.fit/1
says '"schema":"gridsmith.fit/1","gpu":"six","recordings":80,"settings_tried":'
check "the proposed run can be played" 0 "$program" predict --gpu "$work/six.json" "$work/next.json"
head -n 3 "$work/model.jsonl" | sed '2s/"placed":\[[0-9]*/"placed":[5/' >"$work/none.jsonl"
check "fit where nothing agrees" 1 "$program" fit --gpu "$work/six.json" "$work/none.jsonl"
says "with 2 of 3 recordings, the most of any"

# A model with other mechanisms than its description is measured, and the result agrees with it.
check "probe" 0 "$program" probe --device "model:$work/six.json,tie_order=ascending,extra_step=no" --name mine \
    --runs 20 -o "$work/mine.json"
says "tie order   ascending: SMs 0-5; 3 of 3 measurements alike"
says "GPCs        not measured: no cluster was seen"
says "extra_step          no           the recordings say so"
says "not measured: how many kernels run at a time; signals and memory nodes of CUDA graphs"
check "nothing else is written" 1 test -s "$work/out"
check "the description is one" 0 "$program" gpus "$work/mine.json"
says "measured by gridsmith probe on 20"
check "fuzz with the description" 0 "$program" fuzz --gpu "$work/mine.json" --count 100 --seed 9 \
    --device "model:$work/six.json,tie_order=ascending,extra_step=no"
if ! is_brief; then
    check "probe to standard output" 0 sh -c "'$program' probe --device 'model:$work/six.json' --runs 20 | '$program' gpus -- /dev/stdin"
    says "six: "
    check "probe a quirk" 1 "$program" probe --device "model:$work/six.json,skip=3" --runs 10 -o "$work/quirk.json"
    says "tie order   listed: SMs 0, 2, 4, 1, 5, 3; 3 of 3 measurements alike"
    says "the last 1 of these never got their own block"
    check "written all the same" 0 grep -q '"tie_order":\[0,2,4,1,5,3\]' "$work/quirk.json"
fi
if ! has_driver; then
    check "probe without a GPU" 3 "$program" probe --device cuda -o "$work/no-gpu.json"
    check "no description without a GPU" 1 test -e "$work/no-gpu.json"
fi

# If another order fits, the exit code is still that of this order, unless every order is requested.
sed -n '1,2p' scenarios/case-3.json >"$work/turned.json"
sed -n '4p' scenarios/case-3.json | sed 's/$/,/' >>"$work/turned.json"
sed -n '3p;5p' scenarios/case-3.json | sed 's/},$/}/' >>"$work/turned.json"
check "this order" 0 "$program" check "$work/turned.json"
says "in this order: yes"
says "in any order:  no"
check "any order" 1 "$program" check --any-order "$work/turned.json"

# A compressed file without bytes has no run.
: | gzip >"$work/empty.gz"
for command in predict check replay; do
    mistake "$command of nothing, compressed" "empty.gz has no run" "$program" $command "$work/empty.gz"
done

# Kernels that wait are found in machine code and in PTX, with the place.
cat >"$work/recorded.json" <<'END'
{"schema": "gridsmith.run/1", "gpu": "h200", "events": [
 {"op": "launch", "kernel": "waits_for_value", "blocks": 9, "threads": 32, "registers": 32, "shared_bytes": 0, "stream": 1},
 {"op": "launch", "kernel": "runs_search", "blocks": 9, "threads": 32, "registers": 32, "shared_bytes": 0, "stream": 2}]}
END
kernels=tests/fuzz/corpus
line=$(grep -n 'ld.volatile.global.u64' $kernels/ptx/waits | head -n 1 | cut -d: -f1)
check "waits without code" 0 "$program" check --waiting "$work/recorded.json"
says "0 kernels of 2 launches wait for other blocks"
check "waits in PTX" 0 "$program" check --waiting --code $kernels/ptx/waits "$work/recorded.json"
says "1 kernel of 2 launches waits for other blocks"
says "waits_for_value reads memory until it has changed, in line $line of its PTX in $kernels/ptx/waits"
check "waits in machine code" 0 "$program" check --waiting --code $kernels/cubin/waits90.cubin "$work/recorded.json"
says "waits_for_value reads memory until it has changed, at byte 0x"
check "waits in a program without kernels" 0 "$program" check --waiting --code "$program" "$work/recorded.json"
says "0 kernels of 2 launches wait for other blocks"
mistake "waits in a text" "the file is neither PTX nor a file that contains PTX" \
    "$program" check --waiting --code README.md "$work/recorded.json"
sed "s/ld.volatile.global.u64/ld.volatile.global.u64 {/" $kernels/ptx/waits >"$work/broken.ptx"
mistake "waits in PTX with an error" "$work/broken.ptx:$line:" \
    "$program" check --waiting --code "$work/broken.ptx" "$work/recorded.json"

# A recording of the model is its prediction.
"$program" predict --json scenarios/case-2.1.json >"$work/predicted.json"
check "record" 0 "$program" record --device model:rtx3090 -o "$work/recorded.json" scenarios/case-2.1.json
check "record is what was predicted" 0 cmp "$work/predicted.json" "$work/recorded.json"
check "record without a GPU" 3 env LD_LIBRARY_PATH= "$program" record --device cuda:99 scenarios/case-2.1.json
mistake "record nothing" "give files of runs" "$program" record --device model:rtx3090

# JSON Lines in, JSON Lines out; a prediction can be predicted again.
check "json lines" 0 "$program" predict --json -o "$work/once.jsonl" corpus/h200-holes.jsonl.gz
check "json lines again" 0 "$program" predict --json -o "$work/twice.jsonl" "$work/once.jsonl"
check "the same again" 0 cmp "$work/once.jsonl" "$work/twice.jsonl"
check "23 lines" 0 test "$(wc -l <"$work/once.jsonl")" = 23
for format in json csv svg html trace; do
    check "--$format" 0 "$program" predict --$format scenarios/timed-2.1.json
done

# ---- campaigns and recordings ----
check "fuzz" 0 "$program" fuzz --device model:rtx3090 --count 40 --out "$work/runs.jsonl"
says "repeatability: no run was played twice: nothing to compare"
check "fuzz twice" 0 "$program" fuzz --device model:rtx3090 --count 40 --out "$work/again.jsonl"
check "the same runs" 0 cmp "$work/runs.jsonl" "$work/again.jsonl"
check "fuzz finds a quirk" 1 "$program" fuzz --device model:rtx3090,skip=5 --count 40
says "differs: class plain, --seed 1 --index 0"
check "one run again" 1 "$program" fuzz --device model:rtx3090,skip=5 --class plain --seed 1 --index 0
says "the device: run 0, plain, rtx3090, 82 SMs"
says "the model: run 0, plain, rtx3090, 82 SMs"
check "one run that agrees" 0 "$program" fuzz --device model:rtx3090 --class shared --index 7
check "the quirk is a mechanism" 0 "$program" fuzz --device model:h200,warp_placement=free --set warp_placement=free \
    --count 20
check "another model" 1 "$program" fuzz --device model:h200 --gpu gpus/h200.json --policy round-robin --count 20
check "fuzz json" 0 "$program" fuzz --device model:rtx3090 --class small --count 5 --seed 4 --patient-every 2 --json
documents gridsmith.score/1
says '{"schema":"gridsmith.score/1","classes":{"small":{"runs":5,"runs_exact":5,'
says '"seed":4,"mismatches":0,"not_covered":0,"repeated":0,"repeated_alike":0,"patient":2,"patient_alike":2}'
check "recordings as a device" 0 "$program" fuzz --device "replay:$work/runs.jsonl" --count 40
check "replay" 0 "$program" replay "$work/runs.jsonl"
says "all       40    40 100.0%"
check "replay of two files" 0 "$program" replay "$work/runs.jsonl" "$work/again.jsonl"
says "all       80    80 100.0%"
check "replay differs" 1 "$program" replay --policy round-robin --mismatches 2 "$work/runs.jsonl"
says "runs.jsonl:2, run 0, plain"
cat >"$work/roots.json" <<'X'
{"schema":"gridsmith.run/1","gpu":"h200","events":[
{"op":"launch","kernel":"a","blocks":1,"threads":1024,"registers":64,"shared_bytes":0,"graph":0,"node":0},
{"op":"launch","kernel":"b","blocks":1,"threads":1024,"registers":64,"shared_bytes":0,"graph":0,"node":1},
{"op":"launch","kernel":"c","blocks":1,"threads":1024,"registers":64,"shared_bytes":0,"graph":0,"node":2}]}
X
check "all that can happen" 0 "$program" predict --all --json "$work/roots.json"
says "2 predictions; the first is the usual one"
says '"kernel":"c","blocks":1,"threads":1024,"registers":64,"shared_bytes":0,"graph":0,"node":2,"placed":[128]'
says '"kernel":"c","blocks":1,"threads":1024,"registers":64,"shared_bytes":0,"graph":0,"node":2,"placed":[126]'
check "only one thing can happen" 0 "$program" predict --all scenarios/h200-graph-join.json
says "1 prediction"
mistake "all of a run with times" "known only of runs without durations" "$program" predict --all scenarios/waves.json
mistake "all in a picture" "--all goes with the table, --json and --csv" "$program" predict --all --svg "$work/roots.json"
check "replay on a device that agrees" 0 "$program" replay --device model:rtx3090 "$work/runs.jsonl"
says "all       40    40 100.0%"
check "replay on one that does not" 1 "$program" replay --device model:rtx3090,skip=0 --mismatches 1 "$work/runs.jsonl"
says "runs.jsonl:2, run 0, plain"
"$program" fuzz --device model:rtx3090 --class timed --count 2 --out "$work/timed.jsonl" >"$work/out" 2>&1
check "replay on a device what has times" 0 "$program" replay --device model:rtx3090 "$work/timed.jsonl"
says "2 runs were not scored: they have times"
"$program" fuzz --device model:h200 --class green --count 5 --out "$work/green.jsonl" >"$work/out" 2>&1
check "replay on a device green contexts" 0 "$program" replay --device model:h200 "$work/green.jsonl"
says "green      5     5 100.0%"
sed 's/"green_contexts":\[\[0,/"green_contexts":[[131,/' "$work/green.jsonl" >"$work/others.jsonl"
check "replay on a device with others" 0 "$program" replay --device model:h200 "$work/others.jsonl"
says "5 runs were not scored: they have times, or the device has other green contexts"
mistake "replay on a device with another policy" "--policy and --set do nothing" "$program" replay --device model:h200 \
    --policy paper "$work/runs.jsonl"
mistake "replay on no device" 'there is no device "gpu"' "$program" replay --device gpu "$work/runs.jsonl"
check "replay json" 0 "$program" replay --json scenarios/case-1.1.json
documents gridsmith.score/1
says '"classes":{"case 1.1: equal room, ties in even-then-odd order":{"runs":1,"runs_exact":1,"launches":3,'
says '"launches_exact":3,"blocks":83,"blocks_exact":83}}}'
check "resume with more" 0 "$program" fuzz --device model:rtx3090 --count 60 --out "$work/runs.jsonl" --resume
says "40 runs were already in the file"
check "resume what is not there" 0 "$program" fuzz --device model:rtx3090 --count 5 --out "$work/new.jsonl" --resume
mistake "no device" "--device DEVICE is needed" "$program" fuzz
mistake "unknown device" 'there is no device "gpu"' "$program" fuzz --device gpu
mistake "unknown class" 'unknown class "huge": use plain, shared' "$program" fuzz \
    --device model:rtx3090 --class huge
mistake "existing file" "exists already: continue it with --resume" "$program" fuzz --device model:rtx3090 \
    --out "$work/runs.jsonl"
mistake "one run and many" "--index plays one run" "$program" fuzz --device model:rtx3090 --index 3 --count 5
mistake "resume nothing" "--resume needs the file" "$program" fuzz --device model:rtx3090 --resume
mistake "runs to standard output" "--output takes the name of a file" "$program" fuzz --device model:rtx3090 --out -
mistake "two outputs in one file" "--html and --output name the same file" "$program" fuzz --device model:rtx3090 \
    --out "$work/both" --html "$work/./both"
mistake "a file to fuzz" '"runs.jsonl" is not an option' "$program" fuzz --device model:rtx3090 runs.jsonl
mistake "resume with another seed" 'was made with other settings: "seed" is 1 in the file, but 2 now' "$program" fuzz --device model:rtx3090 \
    --seed 2 --out "$work/runs.jsonl" --resume
mistake "resume with another class" 'was made with other settings: "classes" is ["plain","shared","small","exits"] in the file, but' "$program" fuzz --device model:rtx3090 \
    --class small --out "$work/runs.jsonl" --resume
mistake "resume with fewer runs" "already has 60 runs" "$program" fuzz --device model:rtx3090 --count 10 \
    --out "$work/runs.jsonl" --resume
printf 'my notes' >"$work/notes"
mistake "resume something else" "is not the file of a campaign" "$program" fuzz --device model:rtx3090 \
    --out "$work/notes" --resume
check "the notes are left" 0 grep -q "my notes" "$work/notes"
cp corpus/h200-starter.jsonl.gz "$work/starter.gz"
check "resume a compressed file" 2 "$program" fuzz --device model:h200 --out "$work/starter.gz" --resume
check "which is left" 0 cmp corpus/h200-starter.jsonl.gz "$work/starter.gz"
unfit "another GPU's limits" "can never run on this GPU" "$program" fuzz --device model:h200 --gpu rtx3090
mistake "replay nothing" "give files of recordings" "$program" replay
mistake "replay a scenario" 'this launch was not recorded: it has no "placed"' "$program" replay scenarios/waves.json
if ! has_driver; then
    check "no driver" 3 "$program" fuzz --device cuda --out "$work/never.jsonl"
    says "no NVIDIA driver"
    check "no file without a GPU" 1 test -e "$work/never.jsonl"
fi

# ---- mistakes on the command line ----
mistake "no file" "give a file of runs, or - for standard input, or kernels as NAME=BLOCKSxTHREADS" "$program" predict
mistake "two files" "give one file of runs" "$program" predict scenarios/case-3.json scenarios/case-3.json
mistake "no such file" "cannot read no-such-file: No such file" "$program" predict no-such-file
mistake "a name that is too long" "aaaa: File name too long" "$program" predict "$(printf '%05000d' 0 | tr 0 a)"
{ printf '\357\273\277' && cat scenarios/case-3.json; } >"$work/mark.json"
check "a byte order mark" 0 "$program" predict --json "$work/mark.json"
"$program" predict --json scenarios/case-3.json | cmp -s - "$work/out" || says "the same as without"
printf '\357\273\277' >"$work/mark.json"
mistake "nothing but a byte order mark" "mark.json" "$program" predict "$work/mark.json"
mistake "unknown option" 'unknown option --jsn (did you mean "--json"?)' "$program" predict --jsn scenarios/case-3.json
mistake "unknown GPU" 'no GPU is called "rtx309" (did you mean "rtx3090"?)' "$program" gpus rtx309
mistake "the number of a GPU" 'no GPU is called "4090" (did you mean "rtx4090"?)' "$program" gpus 4090
mistake "a GPU without its option" 'h200 is a GPU: give it as --gpu h200' "$program" predict h200 a=8x256
mistake "unknown zoo kernel" 'unknown kernel "sgem" (did you mean "sgemm"?)' "$program" zoo run sgem
mistake "not a size" '--shared takes a size, such as 4096 or 200K, from 0 to 2147483647, not "1.5K"' \
    "$program" occupancy --gpu h200 --threads 64 --registers 32 --shared 1.5K
mistake "a size that is too small" '--memory takes a size, such as 16G, from 1048576 to ' "$program" run --memory 1 -- true
check "a size" 0 "$program" occupancy --gpu h200 --threads 64 --registers 32 --shared 100K
says "102400 bytes of shared memory"
mistake "two formats" "exclude each other" "$program" predict --json --csv scenarios/case-3.json
mistake "explain in CSV" "goes with the table" "$program" predict --csv --explain scenarios/case-3.json
check "explain in JSON" 0 "$program" predict --json --explain scenarios/case-2.1.json
says '"why":["82 of 82 blocks of k5 wait: partition 0 of every SM has no headroom for another 255-register warp'
check "read it again" 0 sh -c "'$program' predict --json --explain scenarios/case-2.1.json | '$program' predict --json -"
mistake "missing value" "--gpu needs a value" "$program" predict --gpu
mistake "unknown GPU" 'no GPU is called "gtx480"' "$program" predict --gpu gtx480 scenarios/case-3.json
mistake "unknown policy" 'unknown policy "best"' "$program" predict --policy best scenarios/case-3.json
mistake "unknown mechanism" 'unknown mechanism "warps"' "$program" predict --set warps=free scenarios/case-3.json
mistake "unknown value" 'cannot be "loose"' "$program" predict --set warp_placement=loose scenarios/case-3.json
mistake "no value" "--set takes MECHANISM=VALUE" "$program" predict --set warp_placement scenarios/case-3.json
mistake "a run as a GPU" '"schema" must be "gridsmith.gpu/1"' "$program" predict --gpu scenarios/case-3.json \
    scenarios/case-3.json
mistake "a GPU as a run" '"schema" must be "gridsmith.run/1"' "$program" predict gpus/a100.json
mistake "several runs in a picture" "choose it with --run N" "$program" predict --svg corpus/h200-starter.jsonl.gz
mistake "a run that is not there" "has 1 run: there is no run 2" "$program" predict --run 2 scenarios/case-3.json
mistake "run 0" "--run takes a whole number" "$program" predict --run 0 scenarios/case-3.json
mistake "occupancy of nothing" "give --threads and --registers, or a file with kernels" "$program" occupancy
mistake "occupancy without threads" "give --threads and --registers" "$program" occupancy --gpu a100 --registers 3
mistake "no threads" "--threads takes a whole number" "$program" occupancy --gpu a100 --threads 0 --registers 3
mistake "shrink without a device" "--device DEVICE is needed" "$program" shrink scenarios/case-3.json
mistake "shrink on no known device" 'there is no device "gtx480"' "$program" shrink --device gtx480 scenarios/case-3.json
mistake "shrink on a wrong quirk" "skip must be an SM" "$program" shrink --device model:rtx3090,skip=82 \
    scenarios/case-3.json
mistake "shrink in one play" "--plays takes a whole number" "$program" shrink --device model:rtx3090 --plays 1 \
    scenarios/case-3.json
mistake "shrink no file" "give one file of runs" "$program" shrink --device model:rtx3090
mistake "shrink a run that is not there" "has 1 run: there is no run 2" "$program" shrink --device model:rtx3090 --run 2 \
    scenarios/case-3.json
unfit "shrink what never fits" "can never run on this GPU" "$program" shrink --device model:rtx3090 \
    scenarios/persistent-and-nccl.json
mistake "fit to nothing" "give files of recordings" "$program" fit
mistake "fit on an unknown GPU" 'no GPU is called "gtx480"' "$program" fit --gpu gtx480 "$work/real.jsonl"
mistake "fit to a plan" 'has no "placed"' "$program" fit scenarios/waves.json
mistake "fit to a run without a GPU" "the run names no GPU" \
    sh -c "sed 's/\"gpu\":\"h200\",//' '$work/real.jsonl' | '$program' fit -"

# ---- guard ----
check "guard" 0 "$program" guard tests/fuzz/corpus/cubin/speed.fatbin
says "      4  sm_90   yes"
check "guard a cubin" 0 "$program" guard tests/fuzz/corpus/cubin/count90.cubin -o "$work/guarded.cubin"
check "a kernel has one guard after the other" 0 "$program" guard "$work/guarded.cubin"
says "      2  sm_90   yes"
check "guard a part of the kernels" 0 "$program" guard tests/fuzz/corpus/cubin/takes100.cubin -o "$work/guarded.cubin"
says "gridsmith guard: 1 of 2 kernels has no guard; 'gridsmith guard tests/fuzz/corpus/cubin/takes100.cubin' says why"
mistake "guard several cubins" "-o writes one cubin, but the file has 3" "$program" guard tests/fuzz/corpus/cubin/size.fatbin -o \
    "$work/guarded.cubin"
cp tests/fuzz/corpus/cubin/count80.cubin "$work/count75.cubin"
printf '\113' | dd of="$work/count75.cubin" bs=1 seek=49 conv=notrunc 2>/dev/null # for sm_75
check "guard what cannot have one" 1 "$program" guard "$work/count75.cubin"
says "      2  sm_75   no: there is no guard for sm_75"
check "no guard is written" 1 "$program" guard "$work/count75.cubin" -o "$work/absent.cubin"
says "      2  sm_75   no: there is no guard for sm_75"
check "nothing is written" 1 test -e "$work/absent.cubin"
cp tests/fuzz/corpus/cubin/count80.cubin "$work/object.cubin"
printf '\001' | dd of="$work/object.cubin" bs=1 seek=16 conv=notrunc 2>/dev/null # to be linked
check "guard an object" 1 "$program" guard "$work/object.cubin" -o "$work/absent.cubin"
says "cubins: 0; objects that must be linked first: 1"
mistake "guard without machine code" "README.md: the file has no machine code" "$program" guard README.md

# ---- reshape and verify ----
check "reshape" 0 "$program" reshape kernels/ptx/reduce.ptx.gz --kernel 'reduce<256>' --as persistent \
    -o "$work/reshaped.ptx"
check "the original is there" 0 grep -q 'entry _Z6reduceILi256EEvPKiPii($' "$work/reshaped.ptx"
check "the form is there" 0 grep -q 'entry _Z6reduceILi256EEvPKiPii__persistent($' "$work/reshaped.ptx"
check "reshape twice" 1 "$program" reshape "$work/reshaped.ptx" --kernel _Z6reduceILi256EEvPKiPii__persistent \
    --as confined -o "$work/twice.ptx"
says "names that begin with gs_ are reserved for reshaped kernels"
[ ! -e "$work/twice.ptx" ] || fail "a refused kernel left a file"
check "list" 0 "$program" reshape --list kernels/ptx/reduce.ptx.gz
says "yes         yes       reduce<256>(int const*, int*, int)"
cat >"$work/grid.ptx" <<'EOF'
.version 8.0
.target sm_80
.address_size 64
.visible .entry whole()
{
  .reg .b32 %r<2>;
  mov.u32 %r1, %envreg2;
  ret;
}
EOF
check "list in JSON" 0 "$program" reshape --list --json "$work/grid.ptx"
documents gridsmith.reshape/2
says '"kernel":"whole","name":"whole"'
says '"confined":{"accepted":false,"reason":"'
says 'grid.ptx:7:3: it reads data of a cooperative launch, to wait for the whole grid","line":7,"column":3}'
check "a refusal" 1 "$program" reshape "$work/grid.ptx" --kernel whole --as confined
check "verify" 0 "$program" verify kernels/reduce.cu --kernel 'reduce<256>' --as confined --stops 2 \
    --launch kernels/reduce.json
says "reduce<256> as confined: same"
gunzip -c kernels/ptx/reduce.ptx.gz >"$work/reduce.ptx"
sed 's/^\.target .*/.target sm_90/' "$work/reduce.ptx" >"$work/newer.ptx"
check "verify PTX for newer GPUs" 0 "$program" verify "$work/newer.ptx" --kernel 'reduce<256>' --as persistent \
    --launch kernels/reduce.json
check "verify a refusal" 1 "$program" verify "$work/grid.ptx" --kernel whole --as persistent \
    --launch kernels/reduce.json --json
documents gridsmith.verify/1
says '{"schema":"gridsmith.verify/1","verdict":"refused","reason":"'
cat >"$work/chain.ptx" <<'EOF'
.version 8.0
.target sm_80
.address_size 64
.visible .entry chain(.param .u64 flags)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  .reg .pred %p;
  ld.param.u64 %d1, [flags];
  mov.u32 %r1, %ctaid.x;
  mul.lo.u32 %r2, %r1, %r1;
  mul.wide.u32 %d2, %r2, 4;
  add.u64 %d2, %d1, %d2;
  setp.eq.u32 %p, %r1, 0;
  @%p bra tell;
  sub.u32 %r1, %r1, 1;
  mul.lo.u32 %r2, %r1, %r1;
  mul.wide.u32 %d3, %r2, 4;
  add.u64 %d3, %d1, %d3;
again:
  ld.volatile.global.u32 %r3, [%d3];
  setp.eq.u32 %p, %r3, 0;
  @%p bra again;
tell:
  st.volatile.global.u32 [%d2], 1;
  ret;
}
EOF
echo '{"schema": "gridsmith.launch/1", "grid": [5, 1, 1], "block": [1, 1, 1], "arguments": [{"buffer": "int32", "count": 20}]}' \
    >"$work/chain.json"
check "verify blocks that wait" 1 "$program" verify "$work/chain.ptx" --kernel chain --as confined --launch "$work/chain.json"
says "it waits in a loop for memory that another block may write"
check "verify blocks that wait for lower ones" 0 "$program" verify "$work/chain.ptx" --kernel chain --as confined \
    --launch "$work/chain.json" --workers 1 --look-back
says "chain as confined: same"
sed 's/\[5, 1, 1\]/[5, 0, 1]/' "$work/chain.json" >"$work/nothing.json"
check "verify a grid without blocks" 0 "$program" verify "$work/chain.ptx" --kernel chain --as confined \
    --launch "$work/nothing.json" --look-back
says "chain as confined: same: the grid has no blocks"
cat >"$work/racy.cu" <<'EOF'
__global__ void racy(const int *in, int *out, int n) {
    __shared__ int last;
    if (threadIdx.x == 0 && gridDim.x == 40)
        last = 1;
    __syncthreads();
    out[blockIdx.x] = atomicAdd(&out[0], 0) + last + (int)(warpSize * 0);
    atomicExch(&out[0], (int)threadIdx.x);
}
EOF
check "verify what differs" 1 "$program" verify "$work/racy.cu" --kernel racy --as persistent \
    --launch kernels/reduce.json --json
documents gridsmith.verify/1
says '"verdict":"different"'
mistake "a template without arguments" "has no kernel reduce (of a template, name an instance, such as 'reduce<256>')" \
    "$program" verify kernels/reduce.cu --kernel reduce --as confined --launch kernels/reduce.json
mistake "no kernel of that name" "the file has no kernel sum; 'gridsmith reshape --list' shows its kernels" "$program" \
    reshape kernels/ptx/reduce.ptx.gz --kernel sum --as persistent
mistake "a small file that expands to a large one" "more than 100 times as long as its compressed bytes" sh -c \
    "head -c 40000000 /dev/zero | gzip >'$work/bomb.ptx.gz'; '$program' reshape --list '$work/bomb.ptx.gz'"
mistake "compressed PTX that is cut short" "the gzip file is cut short" sh -c \
    "head -c 500 kernels/ptx/reduce.ptx.gz >'$work/cut.ptx.gz'; '$program' reshape --list '$work/cut.ptx.gz'"
mistake "not PTX" "the file is neither PTX nor a file that contains PTX" "$program" reshape --list README.md
mistake "PTX that is cut short" "the module ends here" sh -c \
    "head -c 1500 '$work/reduce.ptx' > '$work/short.ptx'; '$program' reshape --list '$work/short.ptx'"
mistake "PTX of the future" "PTX 9.9 is not supported; the newest supported version is 9.0" sh -c \
    "sed 's/^.version.*/.version 9.9/' '$work/reduce.ptx' > '$work/new.ptx'; '$program' reshape --list '$work/new.ptx'"
mistake "reshape without a form" "--as FORM is needed" "$program" reshape kernels/reduce.cu --kernel reduce
mistake "no form" '--as takes persistent, confined, elastic or registers, not "round"' "$program" reshape \
    kernels/reduce.cu --kernel reduce --as round
mistake "no kernel" "--kernel NAME is needed" "$program" reshape kernels/reduce.cu --as persistent
mistake "elastic without a launch" "--launch FILE is needed" "$program" reshape kernels/reduce.cu --kernel reduce \
    --as elastic
mistake "no such source" "cannot read nowhere.cu" "$program" reshape nowhere.cu --kernel a --as persistent
: >"$work/empty.json"
mistake "an empty launch" "empty.json: the launch is empty" "$program" verify kernels/ptx/reduce.ptx.gz \
    --kernel 'reduce<256>' --as persistent --launch "$work/empty.json"
mistake "a folder" "cannot read $work: Is a directory" "$program" reshape --list "$work"
echo '{"schema": "gridsmith.launch/1", "grid": [1, 1, 1], "block": [64, 64, 1], "arguments": []}' >"$work/large.json"
mistake "too many threads" "a block must have at most 1024 threads" "$program" verify kernels/ptx/reduce.ptx.gz \
    --kernel 'reduce<256>' --as persistent --launch "$work/large.json"
for command in "reshape" "verify"; do
    mistake "$command PTX as elastic" "elastic needs CUDA source" "$program" $command kernels/ptx/reduce.ptx.gz --kernel 'reduce<256>' \
        --as elastic --launch kernels/reduce.json
done
mistake "too many workers" "--workers" "$program" verify kernels/ptx/reduce.ptx.gz --kernel 'reduce<256>' --as persistent \
    --launch kernels/reduce.json --workers 65536
mistake "too many layers of a block" "a block must have at most 64 layers (z)" sh -c \
    "sed 's/\[256, 1, 1\]/[1, 1, 65]/' kernels/reduce.json > '$work/layers.json'; '$program' verify kernels/ptx/reduce.ptx.gz \
    --kernel 'reduce<256>' --as persistent --launch '$work/layers.json'"
echo '{"schema": "gridsmith.launch/1", "grid": [1, 1, 1], "block": [64, 1, 1], "arguments": [{"int8": 3}]}' \
    >"$work/type.json"
mistake "an unknown type" 'an argument must be {"buffer": TYPE, "count": N} or {TYPE: VALUE}' "$program" verify \
    kernels/ptx/reduce.ptx.gz --kernel 'reduce<256>' --as persistent --launch "$work/type.json"
echo '{"schema": "gridsmith.launch/1", "grid": [1, 1, 1], "block": [64, 1, 1], "arguments": [{"int32": 3}]}' \
    >"$work/few.json"
mistake "too few arguments" "has 3 parameters, but 1 arguments are given" "$program" verify kernels/ptx/reduce.ptx.gz \
    --kernel 'reduce<256>' --as persistent --launch "$work/few.json"
mistake "work on a toaster" 'unknown device "toaster"; it must be host, cuda or cuda:N' "$program" verify kernels/ptx/reduce.ptx.gz \
    --kernel 'reduce<256>' --as persistent --launch kernels/reduce.json --on toaster

# ---- probe ----
mistake "probe without a device" "--device DEVICE is needed" "$program" probe -o "$work/none.json"
# It is said before measuring, which would take many minutes here.
check "probe into no folder" 4 timeout 60 "$program" probe --device model:rtx3090 --runs 20000 -o "$work/none/mine.json"
says "cannot write $work/none/mine.json: No such file or directory"
mistake "probe an unknown device" 'there is no device "gtx480"' "$program" probe --device gtx480
mistake "probe recordings" "recordings cannot be measured" "$program" probe --device replay:corpus/h200-starter.jsonl.gz
mistake "probe in no run" "--count takes a whole number" "$program" probe --device model:rtx3090 --runs 0
mistake "a name like a path" "--name takes letters, digits" "$program" probe --device model:rtx3090 --name ./mine
mistake "no name" "--name needs a value: NAME" "$program" probe --device model:rtx3090 --name ""
mistake "probe a file" '"mine.json" is not an option' "$program" probe --device model:rtx3090 mine.json
mistake "a directory" "cannot read" "$program" predict scenarios
mistake "a deadline without a unit" "--deadline takes a time with its unit" "$program" run --latency --deadline 5 -- true
mistake "a deadline of nothing" "--deadline takes a time with its unit" "$program" run --latency --deadline 0ms -- true
mistake "a deadline of work" "--deadline is for latency programs" "$program" run --best-effort --deadline 5ms -- true
mistake "bound of nothing" "give a program, or --warps N" "$program" bound
mistake "bound without warps" "the paper's program needs --warps N, the number of warps on the SM" "$program" bound --repeat 2
mistake "bound of no warps" "--warps takes a whole number from 1" "$program" bound --warps 0
mistake "bound of no repetitions" "--repeat takes a whole number from 1" "$program" bound --warps 1 --repeat 0
mistake "bound beyond numbers" "more than 2^60 cycles" "$program" bound --warps 1000000000000 --repeat 1000000000000
mistake "two questions" "exclude each other" "$program" bound --grid --random
mistake "a program twice" "give one program, or --repeat" "$program" bound --repeat 2 scenarios/bound/tensor.json
mistake "picture of nothing" "no schedule to draw" "$program" bound --warps 65 --svg
mistake "bound with exits" "a bound is for kernels that end by themselves" "$program" bound --run scenarios/case-2.1.json
printf '{"schema":"gridsmith.run/1","gpu":"rtx3090","events":[%s,"priority":1},%s}]}' \
    '{"op":"launch","kernel":"a","blocks":1,"threads":1,"registers":1,"shared_bytes":0' \
    '{"op":"launch","kernel":"b","blocks":1,"threads":1,"registers":1,"shared_bytes":0' >"$work/urgent.json"
mistake "bound with priorities" "another priority than the first" "$program" bound --run "$work/urgent.json"
# no_bound WHAT WORDS LAUNCH ...: a run of these launches on an H200 has no bound; without braces, and what all share.
no_bound() {
    what=$1 words=$2 list=
    shift 2
    for launch; do
        list="$list${list:+,}{\"op\":\"launch\",\"threads\":32,\"registers\":32,\"shared_bytes\":200000,$launch}"
    done
    printf '{"schema":"gridsmith.run/1","gpu":"h200","green_contexts":[[0,1],[2,3]],"events":[%s]}' "$list" >"$work/no.json"
    mistake "bound of $what" "$words" "$program" bound --run "$work/no.json"
}
no_bound clusters 'kernel "a" has clusters' '"kernel":"a","blocks":160,"cluster":16'
no_bound "two contexts" 'kernel "b" is in another green context' '"kernel":"a","blocks":5,"green_context":0' \
    '"kernel":"b","blocks":1,"green_context":1'
no_bound after 'kernel "b" waits for others (after)' '"kernel":"a","blocks":1' '"kernel":"b","blocks":1,"after":["a"]'
no_bound "two times" 'kernel "b" is launched at another time' '"kernel":"a","blocks":1,"at_us":0' '"kernel":"b","blocks":1,"at_us":1'
no_bound "a graph" 'kernel "a" is in a CUDA graph' '"kernel":"a","blocks":1,"graph":1'
no_bound "a copy" 'give --copy-in-ns and --copy-out-ns' '"kernel":"a","blocks":1},{"op":"copy","bytes":1'
printf '{"schema":"gridsmith.run/1","gpu":"h200","events":[%s]}' \
    '{"op":"launch","kernel":"a","blocks":133,"threads":32,"registers":32,"shared_bytes":200000,"cooperative":true}' \
    >"$work/whole.json"
unfit "bound of a cooperative launch that is too large" 'kernel "a" never starts: it is cooperative' "$program" bound \
    --run "$work/whole.json"
mistake "times without a clock" "the times of the task around a run need --clock-mhz" "$program" bound \
    --run scenarios/case-3.json --before-ns 5
mistake "two outputs of a status" "--json and --limits exclude each other" "$program" status --json --limits
mistake "bound with streams" 'share one' "$program" bound --run scenarios/streams.json
mistake "program of no kernel" "--program takes KERNEL=FILE for a kernel of the run" "$program" bound \
    --run scenarios/waves.json --program k=scenarios/bound/tensor.json
mistake "not what was measured" '"schema" must be "gridsmith.measured/1"' "$program" bound \
    --measured scenarios/bound/tensor.json
printf '{"schema":"gridsmith.program/1","sm":{"issue":1,"units":[{"name":"a","warps":0}]},"program":[]}' >"$work/zero.json"
mistake "no units" '"warps" must be from 1' "$program" bound --warps 1 "$work/zero.json"

# ---- plans ahead of time ----
kernels=examples/plan-kernels.json
check "plan on the model" 0 "$program" plan $kernels --on model --plan "$work/a.plan" --svg "$work/gains.svg"
says "stream + fma                     inside"
says "not measured: 4 blocks per SM of stream fit beside 1 of library"
cp "$work/out" "$work/plan.txt"
grep -q "<title>gemm + stream: 2 + 3 blocks per SM" "$work/gains.svg" || fail "the heat map has no gemm"
check "plan as JSON" 0 "$program" plan $kernels --on model --json --models
documents gridsmith.plan/1
says '"points":[{"ratio":'
cp "$work/out" "$work/plan.json"
check "a plan is simulated" 0 "$program" plan --simulate "$work/plan.json" --tasks stream:20,fma:20
says "1.71"
check "a plan with pairs of other forms is simulated" 0 "$program" plan --simulate "$work/plan.json" --tasks gemm:20,stream:20
says "2 pairs of the plan need kernels with fewer registers or threads"
check "part of a plan" 0 "$program" plan $kernels --on model --plan "$work/b.plan" --most 5
says "with --measurements, the same command continues"
check "the rest of a plan" 0 "$program" plan $kernels --on model --plan "$work/b.plan"
cmp -s "$work/out" "$work/plan.txt" || fail "a plan in two parts is another"
check "a plan against all ways" 0 "$program" plan $kernels --on model --plan "$work/b.plan" --all
says "gemm + stream: "
says "(inside 2 + 3 blocks per SM; gemm: 80 registers): +0.0%"
check "a plan against coarser ways" 0 "$program" plan $kernels --on model --plan "$work/b.plan" --all --coarse
says "best of 129 ways 944.2 us (inside 2 + 3 blocks per SM; gemm: 80 registers): +0.0%"
mistake "--coarse without --all" "--coarse is for --all" "$program" plan $kernels --on model --coarse
printf '{"schema":"gridsmith.plan-kernels/1","kernels":[%s,%s]}' \
    '{"name":"long","block_threads":64,"registers":32,"alone_us":5000,"model":{"workers":1,"units":[0.71,0.88],"surplus":1.72}}' \
    '{"name":"short","block_threads":128,"registers":32,"alone_us":50,"model":{"workers":2,"units":[0.85,0.61],"surplus":2.53}}' \
    >"$work/unequal.json"
check "a plan of unequal loads" 0 "$program" plan "$work/unequal.json" --on model --all
says "1 pair, "
says "(split 115 + 17 SMs): +0.0%"
printf '{"schema":"gridsmith.run/1","events":[{"op":"launch","kernel":"k","blocks":3,"threads":64,"registers":32,"shared_bytes":0}]}' >"$work/recorded.json"
check "a plan with a recorded program" 0 "$program" plan $kernels "$work/recorded.json" --on model
says "fit beside 1 of k"
printf '%s\n' '{"schema":"gridsmith.run/1","program":"app","events":"follow"}' >"$work/traced.jsonl"
mistake "a plan with a recording of no launches" "traced.jsonl: the recording has no launches" "$program" plan $kernels "$work/traced.jsonl" --on model
printf '{"op":"launch","kernel":"%s","blocks":3,"threads":64,"registers":32,"shared_bytes":0}\n' add_bias add >>"$work/traced.jsonl"
check "a plan with a program whose events are on lines of their own" 0 "$program" plan $kernels "$work/traced.jsonl" --on model
says "fit beside 1 of add_bias"
says "31 blocks per SM of add fit beside 1 of add_bias"
cp "$work/traced.jsonl" "$work/damaged.jsonl"
printf '{"op":"launch","blocks":"3"}\n' >>"$work/damaged.jsonl"
mistake "a plan with a damaged recording" "damaged.jsonl:4" "$program" plan $kernels "$work/damaged.jsonl" --on model
mistake "a plan of nothing" "give kernels of the zoo, or files with kernels" "$program" plan
mistake "a plan of no kernel" 'is neither a kernel of the zoo (did you mean "sgemm"?)' "$program" plan sgem
for device in cuda:x cuda: cuda:-1 cuda:0,sms=0 cudax; do
    mistake "a plan on $device" "not \"$device\"" "$program" plan sgemm --device $device
    mistake "work on $device" "unknown device \"$device\"" "$program" verify kernels/ptx/reduce.ptx.gz \
        --kernel 'reduce<256>' --as persistent --launch kernels/reduce.json --device $device
    mistake "the zoo on $device" "unknown device \"$device\"" "$program" zoo run sgemm --device $device
    mistake "a daemon on $device" "unknown device \"$device\"" "$program" serve --device $device --no-mps --socket "$work/socket"
    mistake "a recording on $device" "there is no device \"$device\"" "$program" record --device $device scenarios/case-2.1.json
done
mistake "a prediction for no GPU" 'there is no device "cuda:x"' "$program" predict --gpu cuda:x a=8x256
mistake "requests that run ahead" "--ahead is for best-effort programs" "$program" run --latency --ahead 50 -- true
mistake "work that holds" "--hold is for latency programs" "$program" run --best-effort --hold 5 -- true
mistake "a plan on nothing" '--device takes cuda, cuda:N or model, not "host"' "$program" plan sgemm --on host
mistake "a plan of a size that is not there" '--size takes tiny, odd, small or large, not "huge"' "$program" plan sgemm --size huge
mistake "a plan of the zoo on the model" "the model knows kernels of a list" "$program" plan sgemm --on model
mistake "a plan of a kernel twice" 'duplicate kernel "sgemm"' "$program" plan sgemm sgemm
mistake "a plan of another GPU" "was made for h200 on model; expected rtx3090 on model" "$program" plan $kernels --on model --gpu rtx3090 --plan "$work/a.plan"
mistake "a file that is not a plan" "not a database" "$program" plan $kernels --on model --plan "$work/gains.svg"
printf '{"schema":"gridsmith.plan-kernels/1","kernels":[{"name":"a","registers":32}]}' >"$work/list.json"
mistake "a kernel without threads" 'or "name" with "block_threads" and "registers"' "$program" plan "$work/list.json" --on model
printf '{"schema":"gridsmith.plan-kernels/1","kernels":[{"file":"a.cu"}]}' >"$work/list.json"
mistake "a file without a kernel" 'a kernel of a file needs "kernel" and "launch"' "$program" plan "$work/list.json"
printf '{"schema":"gridsmith.plan-kernels/1","kernels":[{"name":"a","block_threads":64,"registers":32,"model":{"workers":-1}}]}' >"$work/list.json"
mistake "a model without workers" "must be a number from 1 to 64" "$program" plan "$work/list.json" --on model
bad_kernel() { # WORDS KERNEL: a list of this kernel is refused, with its place
    printf '{"schema":"gridsmith.plan-kernels/1","kernels":[%s]}' "$2" >"$work/list.json"
    mistake "a list of $2" "$1" "$program" plan "$work/list.json" --on model
    says "list.json:1:"
}
bad_model() { # WORDS KEYS: the same for a kernel with a model of these keys
    bad_kernel "$1" '{"name":"a","block_threads":64,"registers":32,"alone_us":5,"model":'"$2"'}'
}
bad_model 'model must be an object' '[]'
bad_model '"workers" is missing' '{}'
bad_model '"workers" must be a number' '{"workers":"2"}'
bad_model '"surplus" must be a number from 1' '{"workers":2,"surplus":null}'
bad_model '"units" must be a list of up to 6 numbers' '{"workers":2,"units":0.5}'
bad_model '"units" must be a list' '{"workers":2,"units":[0,0,0,0,0,0,0]}'
bad_model '"units" must be a list of up to 6 numbers from 0 to 1' '{"workers":2,"units":[0.5,2]}'
bad_model '"halves" must be a list' '{"workers":2,"halves":["1.05"]}'
bad_model '"never_ends" must be true or false' '{"workers":2,"never_ends":1}'
bad_model 'unknown key "unit" (did you mean "units"?)' '{"workers":2,"unit":[1]}'
bad_kernel '"size" must be a string, not a number' '{"zoo":"lbm","size":7}'
bad_kernel 'unknown key "blocks"' '{"zoo":"lbm","blocks":7}'
bad_kernel '"zoo" must be a string' '{"zoo":7}'
bad_kernel '"launch" must be a string' '{"file":"a.cu","kernel":"a","launch":[]}'
printf '{"schema":"gridsmith.plan-kernels/1","kernel":[]}' >"$work/list.json"
mistake "a list without kernels" 'list.json:1:1: "kernels" must be a list' "$program" plan "$work/list.json" --on model

# ---- the zoo ----
check "zoo list" 0 "$program" zoo list
says "breadth-first search"
says "large 2048x16, load 3072x4"
check "zoo list as JSON" 0 "$program" zoo list --json
documents gridsmith.zoo-list/1
says '{"kernel":"bfs","summary":"breadth-first search, a launch for each level","numbers":"nodes, edges a node, levels"'
check "zoo run" 0 "$program" zoo run transpose --as confined --stops 2 --json
documents gridsmith.zoo/1
says '"wrong":0'
says '{"kernel":"transpose","size":"odd","form":"confined","right":true,'
check "zoo run of fewer threads" 0 "$program" zoo run histo --size odd --as elastic --factor 2
says "right: histo: block [256, 1, 1], grid [6, 1, 1]"
check "zoo bench" 0 "$program" zoo bench transpose --size tiny --repeat 2 --json
documents gridsmith.zoo-bench/1
says '{"schema":"gridsmith.zoo-bench/1","on":"host","kernels":[{"kernel":"transpose","size":"tiny","launches":1,'
mistake "a kernel that is not there" 'unknown kernel "dodo"' "$program" zoo run transpose dodo
mistake "no verb" "give a verb: list, run, bench, load or launch" "$program" zoo
mistake "an unknown verb" 'unknown verb "lst" (did you mean "list"?): use list, run, bench, load or launch' "$program" zoo lst
mistake "an option of another verb" "--wait goes with load, not with run" "$program" zoo run bfs --wait
mistake "an option of several others" "--size goes with run, bench and load, not with list" "$program" zoo list --size tiny
mistake "an option of no run" "--repeat goes with bench, load and launch, not with run" "$program" zoo run bfs --repeat 3
mistake "a name for list" '"bfs" is not an option' "$program" zoo list bfs
mistake "run nothing" "give the names of kernels, or 'all'" "$program" zoo run
mistake "a size that is not there" 'tiny, odd, small or large, not "huge"' "$program" zoo run bfs --size huge
mistake "a form that is not there" 'registers, not "round"' "$program" zoo run bfs --as round
mistake "a factor that is not there" "--factor takes 2 or 4" "$program" zoo run bfs --as elastic --factor 3
mistake "a form through the daemon" "--as does not go with --device serve" "$program" zoo run bfs --as confined --on serve
mistake "bench the daemon" "--device serve does not go with bench" "$program" zoo bench bfs --on serve
mistake "load nothing" "give 1 to 32 names" "$program" zoo load
# shellcheck disable=SC2046
mistake "load too much" "give 1 to 32 names" "$program" zoo load $(seq 33 | sed 's/.*/bfs/')
mistake "load what is not there" '"dodo:3" is neither a kernel of the zoo, a network, nor a file' "$program" zoo load dodo:3
mistake "load no times" 'NAME or NAME:REPEAT, not "bfs:0"' "$program" zoo load bfs:0
mistake "load a size that is not there" 'bfs has no size "huge"' "$program" zoo load bfs --size huge
long=$(printf '%0120d' 0)
mistake "a long socket" "the path of the socket is too long" "$program" serve --socket "/tmp/$long"
mistake "no such device" 'unknown device "bogus": use host, cuda or cuda:N' "$program" serve --device bogus --no-mps --socket "$work/socket"
mistake "load a host" 'loads run on cuda or serve, not on "host"' "$program" zoo load bfs --on host
mistake "a form for bench" "--as goes with run, not with bench" "$program" zoo bench bfs --as persistent

# ---- mistakes in files: a place, a reason, and no output file ----
bad() {
    name=$1 words=$2
    printf '%s' "$3" >"$work/bad.json"
    mistake "$name" "$words" "$program" predict --json --gpu rtx3090 -o "$work/never.json" "$work/bad.json"
    says "bad.json"
    if [ -n "$(ls "$work" | grep never)" ]; then
        fail "$name: left an output file"
        rm -f "$work"/never*
    fi
}
head='{"schema":"gridsmith.run/1","events":['
bad "empty file" "has no run" ""
bad "truncated" "1:40: the text ends in the middle" "$head{"
bad "zero blocks" '1:76: "blocks" must be from 1' \
    "$head"'{"op":"launch","kernel":"k","blocks":0,"threads":1,"registers":1,"shared_bytes":0}]}'
bad "2^63" "too big integer" "$head"'{"op":"launch","kernel":"k","blocks":9223372036854775808}]}'
printf '%s' "$head"'{"op":"launch","kernel":"k","blocks":1,"threads":2048,"registers":1,"shared_bytes":0}]}' >"$work/unfit.json"
for command in predict "predict --json" check; do
    unfit "$command of what never fits" "1:39: kernel \"k\" can never run on this GPU: threads of a block: 2048 requested" \
        "$program" $command --gpu rtx3090 "$work/unfit.json"
done
bad "unknown kernel" 'has the kernel "k"' "$head"'{"op":"exit","kernel":"k"}]}'
bad "wrong type" '"events" must be a list' '{"schema":"gridsmith.run/1","events":7}'
bad "not JSON" "not valid JSON" "$head}]"
gzip -c scenarios/case-1.1.json | head -c 200 >"$work/cut.json.gz"
mistake "gzip cut short" "cut short" "$program" predict "$work/cut.json.gz"

# ---- explain ----
check "explain" 0 "$program" explain corpus/h200-program-eager.jsonl.gz
says "host-bound: the GPU works 7.0% of the time"
says "3 steps of 150 operations"
says "make each step a CUDA graph: one call instead of 150"
check "explain a trace" 0 "$program" explain --what-if host=2x --what-if gpu=a100 corpus/pytorch-two-streams.json.gz
says "gpu=a100"
check "explain as JSON" 0 "$program" explain --json --range all --what-if graph corpus/h200-program-graphs.jsonl.gz
says '"schema":"gridsmith.explain/1"'
says '"first":0,"last":282,"steps":0'
check "explain all of a program" 0 "$program" explain --range all corpus/h200-program-eager.jsonl.gz
check "all was asked for" 1 grep -q "no steps that repeat" "$work/out"
check "explain one step" 0 "$program" explain --range steps=1-1 corpus/h200-program-eager.jsonl.gz
says "1 step of 150 operations, 6.09 ms; "
says "369 operations before and 458 after it are left out"
check "explain says what is assumed" 0 "$program" explain --gpu h100-sxm --what-if gpu=a100 corpus/h200-program-eager.jsonl.gz
says "a100: limits from the specification, mechanisms assumed"
says "h100-sxm: limits from the specification, mechanisms assumed"
says "h200, 132 SMs: "
says "played on h100-sxm, 132 SMs; all else is as recorded"
check "explain says what is assumed in JSON" 0 "$program" explain --json --gpu h100-sxm --what-if gpu=a100 corpus/h200-program-eager.jsonl.gz
says '"gpu":"h100-sxm","assumed":"limits from the specification, mechanisms assumed"'
says '"change":"gpu=a100","assumed":"limits from'
check "versions say what is assumed" 0 "$program" explain --gpu h100-sxm --compare corpus/h200-program-eager.jsonl.gz corpus/h200-program-nccl.jsonl.gz
says "h100-sxm: limits from the specification, mechanisms assumed"
mistake "clusters on a GPU without" "; --what-if gpu=a100 plays them as single blocks" "$program" explain --gpu a100 corpus/h200-program-eager.jsonl.gz
mistake "clusters with --sms" "; --what-if sms=60 plays a green context with that many SMs" "$program" explain --sms 60 corpus/h200-program-eager.jsonl.gz
check "what a trace lacks is supplied by import" 0 "$program" explain corpus/pytorch-two-streams.json.gz
says "priority; 'gridsmith import' supplies them with --set or --with"
check "clusters that never start have no time" 0 "$program" explain --what-if sms=1 --what-if graph corpus/h200-program-eager.jsonl.gz
says "no end                        sms=1: 2 launches of a step never start: nvjet_sm90_tst_64x32_64x16_2x4_h_bz_TNT (clusters of 8 blocks)"
check "clusters that never start in JSON" 0 "$program" explain --json --what-if sms=1 corpus/h200-program-eager.jsonl.gz
says '"change":"sms=1","never_starts":{"name":"nvjet_sm90_tst_64x32_64x16_2x4_h_bz_TNT","launches":2,"cluster":8,'
check "no time in JSON" 1 grep -q '"change":"sms=1".*least_us' "$work/out"
check "a page of a change without an end" 0 "$program" explain --html --what-if sms=1 corpus/h200-program-eager.jsonl.gz
mistake "predict what never ends" "sms=1: 2 launches of a step never start" "$program" predict --what-if sms=1 corpus/h200-program-eager.jsonl.gz
complaint 7 "explain keeps the exit status" "the program made no CUDA calls" "$program" explain -- sh -c 'exit 7'
for option in "--what-if zzz" "--what-if gpu=zzz" "--range foo" "--range steps=2-1" "--range ms=2" "--pairs $work/none" "--gpu zzz" "--set zzz=1"; do
    check "explain a program with $option" 2 "$program" explain $option -- touch "$work/was-run"
done
check "explain a program into no folder" 4 "$program" explain -o "$work/none/x" -- touch "$work/was-run"
check "options are checked before a program is run" 1 test -e "$work/was-run"
mistake "explain a run without times" "no launch has start_us and a later end_us" "$program" explain scenarios/case-1.1.json
mistake "an unknown range" "a range is all, steps=FIRST-LAST, every=N, ms=FROM-TO or nvtx=NAME" "$program" explain --range x corpus/h200-program-eager.jsonl.gz
echo hello >"$work/text"
mistake "explain a text" "text: expected a recording of 'gridsmith trace', a trace of the PyTorch profiler" "$program" explain "$work/text"
gzip -dc corpus/h200-program-eager.jsonl.gz | sed -n 5,9p >"$work/middle.jsonl"
mistake "explain the middle of a recording" "a recording of 'gridsmith trace' begins with \"schema\"" "$program" explain "$work/middle.jsonl"
check "a step of two equal layers" 0 "$program" explain corpus/h200-explain-experts.jsonl.gz
says "14 steps of 94 operations, 2.56 ms each"
says "a step is 2 equal parts: the host pauses longer after them"
check "a late host does not wait" 0 "$program" explain --what-if graph,streams=2 corpus/h200-explain-retrieval.jsonl.gz
says "381.9 us to 397.4 us"
check "two of what repeats are a step" 0 "$program" explain --range every=2 corpus/h200-program-cupy-streams.jsonl.gz
says "a step is 2 equal parts: by --range"
mistake "too many steps" "give FIRST-LAST, from 1 to 3" "$program" explain --range steps=1-9 corpus/h200-program-eager.jsonl.gz
mistake "an unknown change" "unknown change \"grap\" (did you mean \"graph\"?)" "$program" explain --what-if grap corpus/h200-program-eager.jsonl.gz
mistake "two files" "give one recording, or -- and a program" "$program" explain a b
mistake "a recording of a file" "--record goes with a program" "$program" explain --record x corpus/h200-program-eager.jsonl.gz
check "explain two versions" 0 "$program" explain --compare corpus/h200-program-eager.jsonl.gz corpus/h200-program-nccl.jsonl.gz
says "and 28 more kernels, which changed less"
check "versions of one program" 1 grep -q "two programs?\|two GPUs" "$work/out"
check "two programs are no versions" 0 "$program" explain --compare corpus/h200-program-jax.jsonl.gz corpus/h200-program-cupy.jsonl.gz
says "two programs? Kernels that are in both have 0% of the time of all kernels"
zcat corpus/h200-program-cupy.jsonl.gz | sed '1s/"gpu": *"h200"/"gpu":"h100-sxm"/' >"$work/elsewhere.jsonl"
check "versions on two GPUs" 0 "$program" explain --compare corpus/h200-program-cupy.jsonl.gz "$work/elsewhere.jsonl"
says "two GPUs: h200, 132 SMs, before, and h100-sxm, 132 SMs, after"
zcat corpus/h200-program-blocks.jsonl.gz | sed 's/_Z4spinyP5times/void spin(unsigned long long, times *)/g' >"$work/spelled.jsonl"
check "versions that spell names differently" 0 "$program" explain --compare corpus/h200-program-blocks.jsonl.gz "$work/spelled.jsonl"
says "2976.3       2976.3         +0.0       106       106  spin"
check "a program whose kernels do not fit at once" 1 "$program" check --fix none corpus/h200-program-blocks.jsonl.gz
says "a minimal set that fails: spin#1, then spin#2"
says "check --waiting"
mistake "predict a trace" "a trace, not runs: make runs of it with 'gridsmith import'" "$program" predict --compare corpus/pytorch-two-streams.json.gz
check "occupancy of a trace" 0 "$program" occupancy --kernel '*softmax*' corpus/pytorch-two-streams.json.gz
mistake "check a trace" "a trace, not runs: make runs of it with 'gridsmith import'" "$program" check corpus/pytorch-two-streams.json.gz
printf 'SQLite format 3' >"$work/other.sqlite"
printf 'report' >"$work/other.nsys-rep"
printf '\177ELF' >"$work/other"
printf 'import torch' >"$work/other.py"
for command in predict check explain import; do
    mistake "$command a report" "'nsys export --type sqlite'" "$program" $command "$work/other.nsys-rep"
    mistake "$command a program" "'gridsmith explain -- PROGRAM' records a program" "$program" $command "$work/other"
    mistake "$command a script" "'gridsmith explain -- python FILE' records it" "$program" $command "$work/other.py"
done
for command in predict check; do
    mistake "$command a database" "'gridsmith import' makes runs of it" "$program" $command "$work/other.sqlite"
done
check "a page of two versions" 0 "$program" explain --html --compare corpus/h200-program-eager.jsonl.gz corpus/h200-program-nccl.jsonl.gz
says 'data-title="h200-program-nccl.jsonl.gz: NVIDIA H200'
printf '%s' '{"schema":"gridsmith.plan/1","gpu":"h200","kernels":[{"name":"*reduce*","blocks":1,"alone_us":5},{"name":"*elementwise*",
"blocks":1,"alone_us":5}],"pairs":[{"first":"*reduce*","second":"*elementwise*","option":"split","first_sms":66,"first_us":5,
"second_us":5,"together_us":6}]}' > "$work/pairs.json"
check "explain with measured pairs" 0 "$program" explain --pairs "$work/pairs.json" --what-if graph,streams=2 corpus/h200-program-eager.jsonl.gz
says "graph,streams=2"
mistake "pairs that are no plan" "not a plan" "$program" explain --pairs scenarios/case-1.1.json corpus/h200-program-eager.jsonl.gz
mistake "a range that nothing has" "the recording has no named ranges" "$program" explain --range nvtx=x corpus/h200-program-eager.jsonl.gz
mistake "a comparison with a change" "--compare goes with two recordings" "$program" explain --compare x --what-if graph y
mistake "several runs" "has several runs: choose one with --run N" "$program" explain corpus/h200-times.jsonl.gz

# ---- import: runs that predict and check read, and mistakes in traces ----
check "import" 0 "$program" import -o "$work/app.jsonl" corpus/pytorch-two-streams.json.gz
says "lacks cluster, carveout_percent, local_bytes, priority; 'gridsmith import' supplies them"
mistake "kernels of a trace" "--json is for the kernels of cuobjdump and ptxas" "$program" import --json \
    corpus/pytorch-two-streams.json.gz
check "import to standard output" 0 "$program" import --set 'nvjet*:cluster=2' corpus/pytorch-two-streams.json.gz
says '"cluster":2'
check "predict an import" 0 "$program" predict "$work/app.jsonl"
says "h200, 132 SMs"
printf "ptxas info : Compiling entry function 'k' for 'sm_90'\nptxas info : Used 12 registers, 512 bytes smem\n" >"$work/ptxas.txt"
check "import of compiler output" 0 "$program" import "$work/ptxas.txt"
says "       12     512       0  sm_90         k"
check "import of compiler output as JSON" 0 "$program" import --json "$work/ptxas.txt"
says '"kernel":"k","architecture":"sm_90","registers":12,"shared_bytes":512,"local_bytes":0'
check "import with an unknown stack" 0 sh -c "sed 's/Used/5 bytes stack frame Used/' '$work/ptxas.txt' | '$program' import --set k:local_bytes=64 -"
says "       12     512      64  sm_90         k"
sed 's/sm_90/sm_80/; s/12 registers/14 registers/' "$work/ptxas.txt" >"$work/older.txt"
mistake "a kernel for two architectures" 'kernel "k" has code for sm_90 and sm_80: choose the GPU with --gpu NAME' \
    "$program" import --set 'k:blocks=3,threads=64' "$work/ptxas.txt" "$work/older.txt"
check "a kernel for one of two architectures" 0 "$program" import --gpu "NVIDIA A100" --set 'k:blocks=3,threads=64' "$work/ptxas.txt" "$work/older.txt"
says "1 kernel is left out: not for a100, which is sm_80"
says '"gpu":"a100","events":[{"op":"launch","id":1,"kernel":"k","blocks":3,"threads":64,"registers":14,'
mistake "no kernel for a GPU" "no kernel is for t4, which is sm_75" "$program" import --gpu t4 "$work/ptxas.txt"
mistake "a trace for a GPU" "--gpu is for the kernels of cuobjdump and ptxas" "$program" import --gpu t4 corpus/pytorch-two-streams.json.gz
"$program" import --set 'k:blocks=3,threads=64' "$work/ptxas.txt" >"$work/kernels.json"
check "check an import" 0 "$program" check --gpu h200 "$work/kernels.json"
bad_trace() {
    name=$1 words=$2
    printf '%s' "$3" >"$work/bad.json"
    mistake "$name" "$words" "$program" import -o "$work/never.jsonl" "$work/bad.json"
    says "bad.json"
    check "$name: no output" 1 test -e "$work/never.jsonl"
}
bad_trace "trace cut short" "1:32: the file is cut short" '{"traceEvents":[{"cat":"cpu_op"'
bad_trace "no kernels" "the trace has no kernel" '{"traceEvents":[]}'
bad_trace "not a trace" "not a trace: expected one of the PyTorch profiler" 'hello'
bad_trace "another JSON" '"traceEvents" is missing' '{}'
mistake "no trace" "give traces" "$program" import
mistake "trace that is not there" "No such file" "$program" import "$work/nowhere.json"
mistake "bad setting" "expected PATTERN:KEY=VALUE" "$program" import --set x "$work/ptxas.txt"

# Plans without a GPU.
plan=examples/plan-invented.json
check "a simulation" 0 "$program" plan --simulate "$plan" --tasks vgg16,lbm:3
says "pairs  "
check "on another GPU" 0 "$program" plan --simulate "$plan" --tasks lbm,fft --gpu rtx2080ti --for 5 --json
documents gridsmith.simulation/1
says "the waves of rtx2080ti"
stopped "a stopped simulation" "gridsmith: interrupted while simulating: " "$program" plan --simulate $plan --tasks lbm,fft --for 100000000
says " launches in "
check "a simulation from standard input" 0 sh -c "'$program' plan --simulate - --tasks lbm <$plan"
printf '%s' '{"schema":"gridsmith.task/1","task":"t","kernels":[{"kernel":"lbm"}]}' >"$work/short.tasks"
check "a file of tasks without a slash" 0 sh -c "cd '$work' && '$program' plan --simulate '$source_dir/$plan' --tasks short.tasks"
says "t "
mistake "an option of another form of plan" "unknown option --cuont; see 'gridsmith plan --simulate --help'" "$program" plan --simulate "$plan" --cuont 3
mistake "a matrix product without a network" "--gemm is for networks, and no task is one" "$program" plan --simulate "$plan" --tasks lbm --gemm x
mistake "an unknown task" 'did you mean "resnet50"' "$program" plan --simulate "$plan" --tasks resnet
mistake "a plan has no cuBLAS" '"resnet50/cublas:2": cuBLAS goes with --play, because a plan has no durations of it' "$program" \
    plan --simulate "$plan" --tasks resnet50/cublas:2
mistake "a task that cannot be played" '"im2col:2" is neither a kernel of the zoo, a network, nor a file' "$program" plan --play "$plan" --tasks im2col:2
for list in , lbm, ,lbm lbm,,fft; do
    mistake "tasks $list" "has a place without a name: \"$list\"" "$program" plan --simulate "$plan" --tasks "$list"
done
mistake "a task without a number" "must be NAME:N" "$program" plan --simulate "$plan" --tasks lbm:x
mistake "a file with a number" 'short.tasks" is a file, which takes no ":3"' "$program" plan --simulate "$plan" --tasks "$work/short.tasks:3"
for option in "--rounds 3" "--seconds 9" "--size tiny"; do
    # shellcheck disable=SC2086
    mistake "$option without --play" "--rounds, --seconds and --size are for --play" "$program" plan --simulate "$plan" --tasks lbm $option
done
check "a plan to play without a GPU" 3 "$program" plan --play "$plan" --tasks lbm:3
says "pairs               3"
says "gridsmith: no NVIDIA driver was found"
check "the same as JSON" 3 "$program" plan --play "$plan" --tasks lbm:3 --json
documents gridsmith.simulation/1
sed 's/"alone_us": 159.7/"alone_us": null/' "$plan" >"$work/null.json"
mistake "a kernel without a duration" 'the plan has no duration of "lbm"' "$program" plan --simulate "$work/null.json" --tasks lbm
mistake "a task of it" 'task "t": the plan has no duration of "lbm"' "$program" plan --simulate "$work/null.json" --tasks "$work/short.tasks"
sed 's/"alone_us": 6526.6/"alone_us": null/' "$plan" >"$work/null.json"
mistake "a network of it" "needs the kernel tgemm, which has no duration in the plan" "$program" plan --simulate "$work/null.json" --tasks vgg16
mistake "a damaged plan" 'damaged.json:9:' sh -c "sed 's/\"alone_us\": 2611.4/\"alone_us\": -2611.4/' '$plan' >'$work/damaged.json' && '$program' plan --simulate '$work/damaged.json' --tasks lbm"
printf '\037\213\010\000aaaaaaaaaaaaaaaaaaaaaaaa' >"$work/damaged.gz"
mistake "a damaged gzip file" "damaged.gz: the gzip file is damaged" "$program" plan --simulate "$work/damaged.gz" --tasks lbm
[ "$(grep -o damaged.gz "$work/err" | wc -l)" = 1 ] || fail "a damaged gzip file is named twice"
printf '%s' '{"schema":"gridsmith.task/1","task":"a\u001b[31m\nb","kernels":[{"kernel":"lbm"}]}' >"$work/escape.json"
check "a task whose name could harm a terminal" 0 "$program" plan --simulate "$plan" --tasks "$work/escape.json"
says "a?[31m?b   "
mistake "a bound of nothing" "/dev/null has no run" "$program" bound --run /dev/null
mistake "nothing to record" "/dev/null has no run" "$program" record --device model:h200 /dev/null
mistake "no measurements to show" "has no row of 'zoo bench -o'" "$program" zoo bench --measured /dev/null
mistake "a list of kernels as a plan" '"schema" must be "gridsmith.plan/1"' "$program" plan --simulate examples/plan-kernels.json --tasks resnet50
mistake "a shard that is not there" "cannot read nope" "$program" merge -o "$work/merged.jsonl" nope
mistake "no matrix product" "which the plan lacks: name another one with --gemm" "$program" plan --simulate "$plan" --tasks vgg16 --gemm wgmma
: >"$work/empty.json"
mistake "no task" "empty.json:1:1: the file has no task" "$program" plan --simulate "$plan" --tasks "$work/empty.json"
mistake "half a shape" "--gemm must be" "$program" plan --simulate "$plan" --tasks vgg16 --gemm tgemm:64x
mistake "a run as a plan" "not a plan" "$program" plan --simulate scenarios/case-3.json --tasks lbm
mistake "a run whose kernels the plan lacks" 'case-3, launch 0: the plan has no kernel "k1"' "$program" plan --simulate "$plan" \
    --tasks scenarios/case-3.json
mistake "no such GPU" "no GPU" "$program" plan --simulate "$plan" --tasks lbm --gpu h2000

# A good run and then a bad one: an existing output file is not changed.
{ tr -d '\n' <scenarios/case-3.json; echo; echo "{}"; } >"$work/second.jsonl"
echo before >"$work/kept.json"
check "second run is bad" 2 "$program" predict --json -o "$work/kept.json" "$work/second.jsonl"
says "second.jsonl:2:1"
check "the old file is left" 0 grep -q before "$work/kept.json"

# An output that is a link is written through it, a file keeps its mode, and what is no file is written directly.
echo before >"$work/named.json"
chmod 600 "$work/named.json"
ln -sf named.json "$work/link.json"
check "an output that is a link" 0 "$program" gpus --json h200 -o "$work/link.json"
[ -h "$work/link.json" ] && grep -q gridsmith.gpu/1 "$work/named.json" || fail "a link is replaced"
[ "$(stat -c %a "$work/named.json")" = 600 ] || fail "an output has another mode"
ln -sf new.json "$work/ahead.json"
check "an output that is a link to nothing" 0 "$program" gpus --json h200 -o "$work/ahead.json"
[ -h "$work/ahead.json" ] && grep -q gridsmith.gpu/1 "$work/new.json" || fail "a link to nothing is replaced"
check "an output that is standard output" 0 "$program" gpus --json h200 -o /dev/stdout
says gridsmith.gpu/1
[ -h /dev/stdout ] || fail "/dev/stdout is replaced"
check "an output that is a descriptor" 0 sh -c "'$program' gpus --json h200 -o /dev/fd/3 3>'$work/third.json'; cat '$work/third.json'"
says gridsmith.gpu/1
if [ -w /dev/shm ]; then
    kept=$(mktemp /dev/shm/gridsmith-XXXXXX)
    before=$(stat -c %i "$kept")
    check "an output in memory" 0 "$program" gpus --json h200 -o "$kept"
    after=$(stat -c %i "$kept")
    rm "$kept"
    [ "$before" != "$after" ] || fail "a file in /dev/shm is not replaced as a whole"
fi

# One output has one document, and no output is an input.
check "a plan on standard output" 0 "$program" plan examples/plan-kernels.json --device model -o -
documents gridsmith.plan/1
mistake "a comparison behind it" "--all prints its comparison" "$program" plan examples/plan-kernels.json --device model --all -o -
mistake "a plan in the place of its measurements" "name the same file" \
    "$program" plan examples/plan-kernels.json --device model --measurements "$work/m.db" -o "$work/m.db"
mistake "a plan in the place of its picture" "--svg takes the name of a file of its own" \
    "$program" plan examples/plan-kernels.json --device model --svg "$work/p" -o "$work/p"

# Options that would have no effect, and values that nobody would look at.
mistake "a GPU for warps" "go with --run and --launch" "$program" bound --warps 3 --gpu h200
mistake "a number behind a blank" "--sms takes a whole number" "$program" predict --sms ' 5' --gpu h200 a=8x256,r32
mistake "a size that is none" '--size takes tiny, odd, small or large, not "huge"' \
    "$program" plan examples/plan-kernels.json --device model --size huge
mistake "a compiler for PTX" "--compiler needs a CUDA source" "$program" reshape --list tests/flow/cases.ptx --compiler nvcc
{ cat tests/cases/flow-launch.json; echo more; } >"$work/more.json"
mistake "more behind a launch" "more.json" "$program" bound tests/cases/flow90.cubin --kernel counts --launch "$work/more.json" --gpu h200

# Very deep brackets are refused at the seventeenth, not read to the last.
mistake "a gigabyte of brackets" ":1:17: brackets are nested too deep" \
    sh -c "head -c 1000000000 /dev/zero | tr '\\0' '[' | '$program' predict -"

# ---- the system fails ----
if [ -w /dev/full ]; then
    check "full disk" 4 "$program" predict --json -o /dev/full scenarios/case-1.1.json
    check "full standard output" 4 sh -c "'$program' gpus >/dev/full"
    complaint 4 "standard output that is full early" "No space left on device" sh -c "'$program' gpus --json >/dev/full"
    check "a plan that does not arrive" 4 sh -c "'$program' plan examples/plan-kernels.json --on model >/dev/full"
    cp "$work/err" "$work/err.kept"
    check "one line of it" 0 sh -c "[ \$(wc -l <'$work/err.kept') = 1 ]"
    check "an answer that does not arrive" 4 sh -c "'$program' check scenarios/persistent-too-late.json >/dev/full"
fi
# ThreadSanitizer opens a file of its own and does not work with a limit on files.
if ! grep -q __tsan_init "$program"; then
    check "no room for recordings" 4 sh -c "trap '' XFSZ; ulimit -f 64; '$program' fuzz --device model:h200 --out '$work/full.jsonl'"
    check "whole lines" 0 "$program" replay "$work/full.jsonl"
fi
check "no such folder" 4 "$program" predict -o "$work/no/such/file" scenarios/case-1.1.json

# ---- colors: on terminals, unless NO_COLOR is set ----
red=$(printf '\033[31m')
if command -v script >/dev/null; then
    check "colors on a terminal" 1 env -u NO_COLOR TERM=xterm script -qec "'$program' check scenarios/persistent-too-late.json" /dev/null
    says "${red}together: no"
    check "colors of errors" 2 env -u NO_COLOR TERM=xterm script -qec "'$program' predict --gpu nosuch scenarios/case-1.1.json" /dev/null
    says "${red}gridsmith:"
    for off in NO_COLOR=1 TERM=dumb; do
        check "no colors with $off" 1 env TERM=xterm "$off" script -qec "'$program' check scenarios/persistent-too-late.json" /dev/null
        says "together: no"
        cp "$work/out" "$work/plain"
        check "no escape codes with $off" 1 grep -q "$(printf '\033')\[[0-9]*m" "$work/plain"
    done
fi
check "no colors in a file" 1 env TERM=xterm "$program" check scenarios/persistent-too-late.json
cp "$work/out" "$work/plain"
check "no escape codes in a file" 1 grep -q "$(printf '\033')\[[0-9]*m" "$work/plain"

# ---- output for programs is well formed ----
if command -v xmllint >/dev/null; then
    for scenario in scenarios/*.json; do
        "$program" predict --svg "$scenario" >"$work/picture.svg"
        check "picture of $scenario" 0 xmllint --noout "$work/picture.svg"
    done
    "$program" bound --svg scenarios/bound/tensor.json >"$work/picture.svg"
    check "picture of a schedule" 0 xmllint --noout "$work/picture.svg"
fi

finish "all answers are right"
