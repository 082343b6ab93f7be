#!/bin/sh
# The program on a fake GPU: a campaign, and one clear line for each way in which a GPU can be unusable.
#
#   sh tests/fake/run.sh PROGRAM FOLDER WHOLE_FOLDER OLD_FOLDER
. "$(dirname "$0")/../support/checks.sh"
program=$1
folder=$2
whole_folder=$3
old_folder=$4
export GRIDSMITH_PTXAS="$(cd "$(dirname "$0")" && pwd)/ptxas"

# on WORDS EXIT_CODE SAYS ARGUMENTS...: runs the program with GRIDSMITH_FAKE=WORDS; its output must contain SAYS.
on() {
    words=$1 wanted=$2 says=$3
    shift 3
    check "$words, $*" "$wanted" env GRIDSMITH_FAKE="$words" LD_LIBRARY_PATH="${libraries:-$folder}" "$program" "$@"
    says "$says"
    [ "$wanted" -le 1 ] || [ "$(wc -l <"$work/err")" = 1 ] || fail "$words, $*: more than one line of errors"
}

# ---- a GPU without a description is described by the driver ----
on small 0 "10, 2 per TPC" gpus cuda
on small 0 "assumed: limits from the driver, mechanisms assumed" gpus cuda
on small 0 '"sms":10' gpus --json cuda:0
cp "$work/out" "$work/mine.json"
on small 0 "a" predict --gpu "$work/mine.json" a=100x256,r32
grep -qF "limits from the driver, mechanisms assumed" "$work/out" "$work/err" || fail "nothing is said to be assumed"
on h200 0 "h200: NVIDIA H200" gpus cuda
on small 0 "cuda0, 10 SMs" predict --gpu cuda a=100x256,r32
on h200 0 "h200: 256 threads" occupancy --gpu cuda:0 --threads 256 --registers 32
on no-device 3 'there is no GPU "0": CUDA sees 0' predict --gpu cuda a=1x32,r32

# ---- campaigns ----
on small 0 "seed 3" fuzz --device cuda --count 24 --seed 3 --patient-every 8 --out "$work/small.jsonl"
on small 0 '"mismatches":0' fuzz --device cuda:0 --count 12 --class priority --class local --json
on small 0 "graph" fuzz --device cuda --count 6 --class graph
on small 0 "programmatic" fuzz --device cuda --count 6 --class programmatic
on small 0 "cooperative" fuzz --device cuda --count 6 --class cooperative
on h200 0 "graph" fuzz --device cuda --count 2 --class graph
on small 0 "memory" fuzz --device cuda --count 6 --class memory
on h200 0 "graph" fuzz --device cuda --count 12 --class carveout --class graph # a node has its own carve-out
on h200 0 "seed 1" fuzz --device cuda --count 8 --out "$work/h200.jsonl"
on small,blocks-host 0 "local" fuzz --device cuda --count 4 --class local
[ "$(grep -c '"schema":"gridsmith.run/1"' "$work/small.jsonl")" = 24 ] || fail "not all runs were kept"
grep -q '"gpu":"cuda0".*"warp_slots"' "$work/small.jsonl" || fail "no GPU or warp slots"
on none 0 "8" replay "$work/h200.jsonl"
on h200 1 "differs" fuzz --device cuda --count 8 --set warp_placement=free

# ---- a campaign on all GPUs of a machine: one shard at a time on each ----
on small,three-gpus 0 "$work/gpus" campaign submit --local --shards 7 --dir "$work/gpus" -- fuzz --device cuda --count 21
on none 0 "21 runs of 7 shards in $work/gpus.jsonl" campaign fetch "$work/gpus" -o "$work/gpus.jsonl"
for gpu in 00 01 02; do
    head -n 1 "$work/gpus.jsonl" | grep -q "GPU-$gpu$gpu$gpu$gpu-" || fail "GPU $gpu had no shard"
done
on small 0 "seed 1" fuzz --device cuda --count 21 --out "$work/one.jsonl"
sed 1d "$work/one.jsonl" >"$work/one.runs" && sed 1d "$work/gpus.jsonl" | cmp - "$work/one.runs" ||
    fail "the runs of three GPUs are others"
on no-device 3 "this machine has no GPU" campaign submit --local --dir "$work/never" -- fuzz --device cuda

# ---- timing ----
on small 0 "20 of 20 placed as predicted" bound --measure cuda --count 20 --seed 5 -o "$work/measured.jsonl"
[ "$(wc -l <"$work/measured.jsonl")" = 22 ] || fail "not all samples were kept"
on none 0 "latency of a load                               23.000    23.000    23.000" bound --measured "$work/measured.jsonl"
on none 0 "bounds and measurements of 20 configurations" bound --measured "$work/measured.jsonl" --svg
# Latencies are those of fake_class_times: of the second row of alu, of the second of global_load, and of all 64 units of memory.
on small 0 "alu                        5         5             1  alu 2.000" probe --latency --device cuda -o "$work/machine.json"
on small 0 "12 cycles around an access, and 42 in a row, are taken off" probe --latency --device cuda -o "$work/machine.json"
on h200 0 "global_load              860      2580            32  memory 0.047 load/store 0.841" probe --latency --device cuda -o "$work/machine.json"
grep -qF '"repeated_cycles":3225,"kept_cycles":430,"kept_millicycles":47' "$work/machine.json" ||
    fail "accesses in a row, or in the L2, have other times"
on small 2 "only a real GPU can be timed" probe --latency --device model:h200
on small 2 "--trials goes with --latency" probe --trials 3
on small 2 "leave out --pack" probe --latency --pack "$work/none.gspack"
on small,slows-down 1 "20 of 20 placed as predicted" bound --measure cuda --count 20 --seed 5 -o "$work/slow.jsonl"
on none 1 "after bound" bound --measured "$work/slow.jsonl"
on none 2 "only a real GPU can be timed" bound --measure model:rtx3090
# In shards: the first has the latencies, and merged they are what one process keeps, but for the fake times.
mkdir "$work/shards"
for shard in 3/3 1/3 2/3; do
    on small 0 "gridsmith bound: 7 runs" bound --measure cuda --count 20 --seed 5 --shard $shard --out "$work/shards"
done
on none 2 "a shard without latencies" bound --measured "$work/shards/bound-seed5-shard2of3.jsonl"
on none 0 "21 runs of 3 shards" merge -o "$work/merged.jsonl" "$work/shards"
on none 0 "20 of 20 placed as predicted" bound --measured "$work/merged.jsonl"
on small 0 "20 of 20 placed as predicted" bound --measure cuda --count 20 --seed 5 --out "$work/kept.jsonl"
for file in merged kept; do
    sed 's/"skew_cycles".*//; s/"overhead.*//' "$work/$file.jsonl" >"$work/$file.drawn"
done
cmp "$work/merged.drawn" "$work/kept.drawn" || fail "the samples of shards are others"
on small 0 "21 runs, 21 of them already in the file" bound --measure cuda --count 20 --seed 5 --out "$work/kept.jsonl" --resume
on small 2 "more than the 11 of this campaign" bound --measure cuda --count 10 --seed 5 --out "$work/kept.jsonl" --resume
on none 2 "--resume and --shard go with --measure" bound --random -o "$work/random.jsonl" --resume
on small 0 "campaign" campaign submit --local --shards 2 --dir "$work/campaign" -- bound --measure cuda --count 4

# ---- kernels, reshaped and verified ----
kernels=$(dirname "$0")/../../kernels
on small 0 "reduce<256> as persistent: same" verify "$kernels/reduce.cu" --kernel 'reduce<256>' --as persistent \
    --launch "$kernels/reduce.json" --on cuda
on small 0 "reduce<256> as confined: same" verify "$kernels/reduce.cu" --kernel 'reduce<256>' --as confined \
    --stops 3 --task 2 --launch "$kernels/reduce.json" --on cuda --repeat 2
on small 0 "vector_add as registers: same" verify "$kernels/vector_add.cu" --kernel vector_add --as registers \
    --registers 32 --launch "$kernels/vector_add.json" --on cuda:0
on small 0 '"variants":[{"max_registers":0,"registers":' reshape "$kernels/ptx/reduce.ptx.gz" --kernel 'reduce<256>' \
    --as registers --json
on compile-fails 2 "NVRTC says: error: this is fake" verify "$kernels/vector_add.cu" --kernel vector_add \
    --as elastic --launch "$kernels/vector_add.json" --on cuda
on no-device 3 'there is no GPU "0": CUDA sees 0' verify "$kernels/vector_add.cu" --kernel vector_add \
    --as persistent --launch "$kernels/vector_add.json" --on cuda

on small 0 "right" zoo run conv --size odd --as confined --stops 2 --on cuda
on small 0 '"average":{' zoo bench transpose --size small --repeat 2 --on cuda --json

# ---- applications ----
on small 0 '"application":1,"kernel":"sgemm","right":true' zoo load gaussian:1 sgemm:2 --size small \
    --on cuda:0,sms=4 --rounds 2 --json
on small 0 '"kernel":"vgg16","right":true' zoo load vgg16:1 --size odd --on cuda:0 --rounds 2 --json
on small 0 '"kernel":"vgg16","right":true' zoo load vgg16/cublas:1 --size odd --on cuda --rounds 2 --json
on blas-fails 4 'cuBLAS: starting failed: CUBLAS_STATUS_NOT_INITIALIZED (1)' zoo load vgg16/cublas:1 --size odd

# ---- the same through the daemon ----
# served WORDS EXIT_CODE SAYS ARGUMENTS...: like `on`, with a daemon on that GPU.
served() {
    export GRIDSMITH_SOCKET="$work/socket"
    GRIDSMITH_FAKE=$1 LD_LIBRARY_PATH=$folder "$program" serve --device cuda --no-mps --profiles "" --cache "$work/cache" \
        >"$work/daemon.log" 2>&1 &
    daemon=$!
    for _ in $(seq 600); do
        [ -S "$GRIDSMITH_SOCKET" ] && break
        sleep 0.1
    done
    on "$@"
    kill "$daemon"
    wait "$daemon" || fail "the daemon on $1"
    unset GRIDSMITH_SOCKET
}
served small 0 '"application":1,"kernel":"vgg16","right":true' zoo load tgemm/cublas:2 vgg16/cublas:1 --size odd --on serve \
    --rounds 2 --json
served blas-fails 4 'cuBLAS: starting failed: CUBLAS_STATUS_NOT_INITIALIZED (1)' zoo load vgg16/cublas:1 --size odd --on serve

# ---- applications in rounds, and of files ----
# A line names the applications of a round, and how often each repeats; an empty line stands for all of them.
load_lines() { # LINES
    # shellcheck disable=SC2059
    printf "$1" | GRIDSMITH_FAKE=small LD_LIBRARY_PATH=$folder "$program" zoo load sgemm:1 fft:2 --size tiny --on cuda \
        --wait --rounds 9 --json >"$work/out" 2>"$work/err"
}
load_lines '1:3\n\n0:5\n'
found=$(sed -n 's/.*"application":\([0-9]\).*"round":\([0-9]*\),"repeat":\([0-9]*\).*/\2 \1:\3,/p' "$work/out" | tr -d '\n')
[ "$found" = "1 1:3,2 0:1,2 1:3,3 0:5," ] || fail "rounds of applications: $found"
load_lines '2:1\n'
[ $? = 2 ] && grep -qF 'with numbers below 2, not "2:1"' "$work/err" || fail "a line with a wrong number"
# A file has tasks and networks. A launch has the blocks that it asks for, 3 and 2, or those of the size, 4 + 8 + 8 + 8.
cat >"$work/tasks.json" <<'EOT'
{"schema": "gridsmith.task/1", "task": "train", "repeat": 3, "kernels": [
  {"kernel": "fft", "blocks": 3}, {"kernel": "tgemm", "blocks": 2, "work": 0.5}, {"kernel": "tgemm", "after": [0]},
  {"kernel": "sgemm"}, {"kernel": "fft", "after": [1, 2]}, {"kernel": "sgemm"}]}
{"schema": "gridsmith.task/1", "task": "flow", "at_us": 500, "kernels": [{"kernel": "stenc"}, {"kernel": "bfs"}]}
{"schema": "gridsmith.network/1", "network": "mlp", "layers": [{"layer": "hidden", "in": 4096, "out": 4096}]}
EOT
on small 0 '"kernel":"train","right":true' zoo load "$work/tasks.json" fft:2 --size small --json
grep -qF '"kernel":"train","size":"small","on":"cuda","repeat":3,"launches":6,"blocks":33,"streams":2,' "$work/out" &&
    grep -qF '"launches":10,"blocks":80,"streams":1,' "$work/out" &&
    grep -qF '"kernel":"flow","right":true' "$work/out" && grep -qF '"kernel":"mlp","right":true' "$work/out" ||
    fail "the tasks of a file"
awk '/^```json tasks.json/ { is_in = 1; next } /^```/ { is_in = 0 } is_in' "$(dirname "$0")/../../docs/simulate.md" >"$work/documented.json"
on no-device 3 'there is no GPU "0"' zoo load "$work/documented.json" # the mistakes of a file come first
one_launch() { # LAUNCH
    printf '{"schema":"gridsmith.task/1","task":"t","kernels":[\n%s]}' "$1" >"$work/one.json"
}
one_launch '{"kernel":"tgemm","blocks":3}'
on none 2 'one.json:2:1: task "t", launch 0: tgemm (small) has up to 2 x 2 blocks, and cannot have 3' zoo load "$work/one.json" --size small
one_launch '{"kernel":"lbm","work":2}'
on none 2 'one.json:2:1: task "t", launch 0: the work of a block of lbm cannot be changed' zoo load "$work/one.json" --size small
one_launch '{"kernel":"im2col"}'
on none 2 'one.json:2:11: task "t": the zoo has no kernel "im2col"' zoo load "$work/one.json" --size small
plan="$(dirname "$0")/../../examples/plan-invented.json"
on small 0 "daemon  " plan --play "$plan" --tasks fft:2,lbm --size tiny --rounds 2
cat >"$work/products.json" <<'EOT'
{"schema": "gridsmith.task/1", "task": "two", "kernels": [{"kernel": "tgemm"}, {"kernel": "tgemm", "work": 0.5},
  {"kernel": "tgemm", "after": [1]}]}
EOT
on small 0 "daemon  " plan --play "$plan" --tasks "tgemm/cublas:2,$work/products.json/cublas" --size small --rounds 2
grep -qxF "gridsmith plan: forecasts of products of cuBLAS are those of the kernel of the plan" "$work/err" || fail "no forecasts of cuBLAS"
cat >"$work/play.json" <<'EOT'
{"schema": "gridsmith.task/1", "task": "waves", "kernels": [{"kernel": "fft", "blocks": 2}, {"kernel": "lbm", "blocks": 8, "after": []},
  {"kernel": "fft", "blocks": 5, "after": [0, 1]}]}
{"schema": "gridsmith.task/1", "task": "late", "repeat": 2, "at_us": 300000, "kernels": [{"kernel": "fft"}]}
EOT
on small 0 "late                    2" plan --play "$plan" --tasks "$work/play.json" --size small --rounds 1
grep -q "^daemon  " "$work/out" || fail "tasks of a file through the daemon"
# In turn, both tasks take their time alone. On streams the second one begins 0.3 s later.
awk '/^streams/ { exit !($2 >= 300) }' "$work/out" || fail "a task did not arrive late"
one_launch '{"kernel":"lbm","blocks":3}'
on small 2 'one.json:2:1: task "t", launch 0: lbm (small) has up to 1 x 24 blocks in 4 launches, and cannot have 3' \
    plan --play "$plan" --tasks "fft,$work/one.json" --size small
one_launch '{"kernel":"im2col"}'
on small 2 'one.json:2:11: task "t": the zoo has no kernel "im2col"' plan --play "$plan" --tasks "$work/one.json"
# Kernels of files, beside the tasks or elsewhere; the launch of one is known by its name.
mkdir "$work/own"
cat >"$work/own/add.ptx" <<'EOT'
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 count) {
	.reg .pred %out;
	.reg .b32 %i, %b, %t, %n, %v;
	.reg .b64 %p, %q;
	mov.u32 %i, %tid.x;
	mov.u32 %b, %ctaid.x;
	mov.u32 %t, %ntid.x;
	mad.lo.u32 %i, %b, %t, %i;
	ld.param.u32 %n, [count];
	setp.ge.u32 %out, %i, %n;
	@%out ret;
	mul.wide.u32 %q, %i, 4;
	ld.param.u64 %p, [data];
	add.u64 %p, %p, %q;
	ld.global.u32 %v, [%p];
	add.u32 %v, %v, 1;
	st.global.u32 [%p], %v;
	ret;
}
EOT
echo '{"schema": "gridsmith.launch/1", "grid": [16, 1, 1], "block": [64, 1, 1],
    "arguments": [{"buffer": "uint32", "count": 1000, "fill": "index"}, {"int32": 1000}]}' >"$work/own/add.json"
cat >"$work/own.json" <<'EOT'
{"schema": "gridsmith.task/1", "task": "own", "repeat": 3, "kernels": [{"kernel": "add_one", "file": "own/add.ptx"}, {"kernel": "fft"},
  {"kernel": "add_one", "file": "own/add.ptx", "launch": "own/add.json", "blocks": 16, "after": []}]}
EOT
on small 0 '"kernel":"own","right":true' zoo load "$work/own.json" --size tiny --rounds 2 --json
grep -qF '"launches":3,"blocks":33,"streams":2,' "$work/out" || fail "kernels of files"
on small 0 "add_one" plan "$work/own/add.ptx:add_one" fft --size tiny -o "$work/own.plan"
on small 0 "daemon  " plan --play "$work/own.plan" --tasks "$work/own.json" --size tiny --rounds 1
one_launch '{"kernel":"add_one","file":"own/add.ptx","work":2}'
on none 2 'one.json:2:1: task "t", launch 0: add_one has the 16 blocks of its launch, and their work' zoo load "$work/one.json"
one_launch '{"kernel":"add_two","file":"own/add.ptx"}'
on none 2 'one.json:2:1: task "t", launch 0: the file has no kernel add_two (did you mean "add_one"?)' zoo load "$work/one.json"
one_launch '{"kernel":"add_one","file":7}'
on none 2 'one.json:2:28: "file" must be a string, not a number' zoo load "$work/one.json"
one_launch '{"kernel":"fft","launch":"own/add.json"}'
on none 2 'one.json:2:26: "launch" belongs to a "file"' zoo load "$work/one.json"
one_launch '{"kernel":"add_one","file":"own/add.ptx"},{"kernel":"add_one"}'
on none 2 'one.json:2:43: task "t", launch 1: the zoo has no kernel "add_one"' zoo load "$work/one.json"
one_launch '{"kernel":"add_one","file":"own/none.ptx","launch":"own/add.json"}'
on none 2 'own/none.ptx' zoo load "$work/one.json"
one_launch '{"kernel":"add_one","file":"own/add.ptx","launch":"own/none.json"}'
on none 2 'own/none.json' zoo load "$work/one.json"
on small 0 '"daemon_us":' plan --play "$plan" --tasks lbm --size tiny --rounds 1 --json
grep -q "daemon: started in .* s" "$work/err" && grep -q "streams: rounds of [0-9. ]* ms" "$work/err" || fail "what --play took"
# Sources are compiled once, for the GPU that is there.
mkdir -p "$work/cuda/bin"
printf '#!/bin/sh\necho "$@" >>"%s/compiled"\nfor last; do :; done\ncp "%s/own/add.ptx" "${last%%/*}/out.ptx"\n' "$work" "$work" >"$work/cuda/bin/nvcc"
chmod +x "$work/cuda/bin/nvcc"
echo "add_one" >"$work/own/add.cu"
sed 's/add\.ptx/add.cu/g' "$work/own.json" >"$work/sources.json"
export CUDA_PATH="$work/cuda"
on small 0 "daemon  " plan --play "$work/own.plan" --tasks "$work/sources.json" --size tiny --rounds 1
unset CUDA_PATH
[ "$(wc -l <"$work/compiled")" = 1 ] && grep -q -e "-arch=compute_86 " "$work/compiled" || fail "sources: $(cat "$work/compiled")"
# What does not end in its part of the time is left out.
one_launch '{"kernel":"lbm"}'
sed 's/"task":"t"/"task":"t","at_us":9000000/' "$work/one.json" >"$work/later.json"
on small 1 "on the GPU" plan --play "$plan" --tasks "$work/later.json" --size tiny --rounds 1 --seconds 4
grep -q "one process: not done after .* s, its part of --seconds 4" "$work/err" || fail "a way that takes too long"
! grep -q "^streams" "$work/out" || fail "a way that did not end has a row"
on no-device 3 'gridsmith: there is no GPU "0"' plan --play "$plan" --tasks lbm --size tiny
grep -q "^pairs  " "$work/out" || fail "a simulation that cannot be played is not printed"
on small 0 "of many in a row" zoo launch --repeat 20
on small 3 "this GPU has no part 1 of 6 SMs: there are 1" zoo load transpose transpose --size tiny --on cuda:0,sms=6

# ---- plans: a kernel that never ends, and one that is measured nevertheless ----
cat >"$work/spin.ptx" <<'EOT'
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 stop) {
	.reg .pred %p;
	.reg .b32 %v;
	.reg .b64 %x;
	ld.param.u64 %x, [stop];
	cvta.to.global.u64 %x, %x;
again:
	ld.volatile.global.u32 %v, [%x];
	setp.eq.u32 %p, %v, 0;
	@%p bra again;
	ret;
}
EOT
echo '{"schema": "gridsmith.launch/1", "grid": [4, 1, 1], "block": [32, 1, 1],
    "arguments": [{"buffer": "int32", "count": 1, "fill": "zero"}]}' >"$work/spin.json"
gzip -n "$work/spin.ptx"
on small 0 "spin            it did not end within 3 seconds" plan "$work/spin.ptx.gz" transpose --size tiny --seconds 3
grep -q "^transpose       whole         256" "$work/out" || fail "the plan ends with the kernel that never does"
on no-device 3 'there is no GPU "0": CUDA sees 0' plan transpose --size tiny

# ---- no usable GPU ----
on compile-fails 3 "compiling the probe: a PTX JIT" bound --measure cuda
on init-fails 3 "starting CUDA: no CUDA-capable device is detected (CUDA error 100)" fuzz --device cuda
on no-device 3 'there is no GPU "0": CUDA sees 0' fuzz --device cuda
on small 3 'there is no GPU "1": CUDA sees 1' fuzz --device cuda:1
on small 2 'there is no device "cuda:first"' fuzz --device cuda:first
on small 2 'there is no device "cuda:0,sms=0"' fuzz --device cuda:0,sms=0
on small 3 "this GPU has no part 1 of 6 SMs: there are 1" fuzz --device cuda:0,sms=6,part=1
on compile-fails 3 "compiling the probe: a PTX JIT compilation failed (CUDA error 218)" fuzz --device cuda
on launch-fails 1 "launching: too many resources requested for launch (CUDA error 701)" fuzz --device cuda
on stuck 3 "the GPU is stuck" fuzz --device cuda
libraries=$whole_folder # a driver, and no compiler
on small 0 "seed 3" fuzz --device cuda --count 4 --seed 3
libraries=$whole_folder:$folder # its compiler is there
on small 3 "green contexts need CUDA 12.5" fuzz --device cuda:0,sms=4,part=1
on small 3 "green contexts need CUDA 12.5" verify "$kernels/vector_add.cu" --kernel vector_add --as elastic \
    --launch "$kernels/vector_add.json" --on cuda:0,sms=4
libraries=$old_folder
on small 3 "too old: it has no cuLaunchKernelEx" fuzz --device cuda

finish "the program gets on with a GPU, and without"
