#!/bin/sh
# gridsmith bound KERNEL --launch FILE: its answers, and what it refuses, in one line each.
#
#   sh tests/flow/bound_kernel.sh GRIDSMITH SOURCE_DIR
set -u
gridsmith=$1
cd "$2" || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
complain() {
    echo "$1"
    failed=1
}
ask() {
    kernel=$1
    shift
    "$gridsmith" bound tests/cases/flow90.cubin --kernel "$kernel" --launch tests/cases/flow-launch.json --gpu h200 "$@" \
        >"$folder/out" 2>"$folder/err"
}
# expect STATUS WORDS: the status of the last question, and what it says.
expect() {
    [ "$status" -eq "$1" ] || complain "$kernel: exit status $status, not $1: $(cat "$folder/err")"
    grep -qF -e "$2" "$folder/out" "$folder/err" || complain "$kernel does not say '$2': $(cat "$folder/out" "$folder/err")"
    [ "$1" -eq 0 ] || [ "$(wc -l <"$folder/err")" -eq 1 ] || complain "$kernel: more than one line of error"
    [ "$1" -eq 0 ] || [ ! -s "$folder/out" ] || complain "$kernel: an answer beside an error"
}

ask counts --instructions; status=$?
expect 0 'loops: line 17 100'
expect 0 'line 18                   100'
for latencies in corpus/h200-kernel-latencies*.json; do
    ask counts --latencies "$latencies"; status=$?
    expect 0 'done after'
done
ask counts --latencies tests/bound/machine.json; status=$?
expect 0 'done after'
expect 0 'its first block to its last:'
expect 0 'its launch, as measured:                 14.000 us'
expect 0 'both, from the launch to its end:'
expect 0 'for each round less of the loop'
ask counts --latencies tests/bound/machine.json --csv; status=$?
expect 0 'line,offset,instructions,saved_cycles'
grep -q '^18,[0-9]*,100,[0-9]*,[0-9]*,14000$' "$folder/out" || complain "CSV has no row of line 18: $(cat "$folder/out")"
ask counts --latencies tests/bound/machine.json --json; status=$?
expect 0 '"loops":[{"line":17,'
if command -v python3 >/dev/null; then
    python3 - "$folder/out" <<'PYTHON' || complain 'the terms are not the bound'
import json, sys
answer = json.load(open(sys.argv[1]))
for key in "alone", "beside":
    bound = answer[key]
    terms = bound["chain_blocks"] * bound["path_cycles"] + bound["block_cycles"] + bound["issue_cycles"]
    terms += bound["fetch_cycles"] + bound["burst_cycles"] + sum(bound["unit_cycles"].values())
    assert terms == bound["cycles"], (key, terms)
    assert bound["kernel_ns"] + bound["launch_ns"] == bound["nanoseconds"] and bound["kernel_ns"] >= bound["cycles"] / 1.5
assert answer["beside"]["cycles"] >= answer["alone"]["cycles"]
assert answer["instructions"]["global_store_near"] == 100
assert max(row["saved_cycles"] for row in answer["rows"]) <= answer["alone"]["cycles"]
assert all(relief["saved_cycles"] > 0 for relief in answer["reliefs"])
PYTHON
fi

# A page: each part of the bound, each line, and what would lower it.
ask counts --latencies tests/bound/machine.json --html; status=$?
expect 0 '<td>the longest path of a warp<td class="number">'
expect 0 '<tr><td>line 18<td class="number">100<td class="number">'
expect 0 'for each round less of the loop'
ask counts --latencies tests/bound/machine.json --html --csv; status=$?
expect 2 'excludes --json and --csv'
ask counts --instructions --html; status=$?
expect 2 'excludes --json and --csv'

for option in --fair --no-search --memory=10; do
    ask counts --instructions $option; status=$?
    expect 2 'do not go with --launch: it searches for no schedule'
done

# Fewer rounds, a lower bound.
cycles_with() {
    sed "s/\"int32\": 100/\"int32\": $1/" tests/cases/flow-launch.json >"$folder/launch.json"
    "$gridsmith" bound tests/cases/flow90.cubin --kernel counts --launch "$folder/launch.json" --gpu h200 \
        --latencies tests/bound/machine.json | sed -n 's/^done after \([0-9]*\) .*/\1/p'
}
[ "$(cycles_with 10)" -lt "$(cycles_with 11)" ] || complain 'a round more does not take longer'

ask counts; status=$?
expect 0 'latencies: gridsmith probe --latency on NVIDIA H200'
"$gridsmith" bound tests/cases/flow90.cubin --kernel counts --launch tests/cases/flow-launch.json --gpu rtx3090 \
    >"$folder/out" 2>"$folder/err"; status=$?
expect 2 'the latencies of rtx3090 are not known: measure them (gridsmith probe --latency'
ask counts --cached; status=$?
expect 0 'assumed: the L2 has the buffers of the launch when the kernel starts'
ask counts --cached --json; status=$?
expect 0 '"kind":"cached-repeated"'
"$gridsmith" bound --cached 2>"$folder/err" >"$folder/out"; status=$?; kernel='--cached alone'
expect 2 'go with --launch'
ask spins --instructions; status=$?
expect 1 'at 0x30: the rounds of the loop in line 31 are not known; --loop 31=ROUNDS gives them'
ask spins --instructions --loop 31=50; status=$?
expect 0 'line 31 51 (50 given, and its test once more)'
ask spins --instructions --loop 0x30=50; status=$?
expect 0 'line 31 51 (50 given, and its test once more)'
ask counts --instructions --loop 3=50; status=$?
expect 2 'no loop begins at "3=50" of --loop'
for rounds in 0 98; do
    ask counts --instructions --loop 17=$rounds; status=$?
    expect 2 "--loop 17=$rounds: the loop at 0x70, in line 17, has 100 rounds by its code"
done
for rounds in 99 100 1000; do
    ask counts --instructions --loop 17=$rounds; status=$?
    expect 0 'loops: line 17 100'
done
for word in 31 31= =4 31=x 31=-1 0x=1 31=5x; do
    ask spins --instructions --loop "$word"; status=$?
    expect 2 '--loop takes LINE=ROUNDS or 0xOFFSET=ROUNDS'
done

# A grid has 1 to 65535 blocks in y and in z.
for blocks in 0 65536; do
    sed "s/\"grid\": \[[0-9]*, 1, 1\]/\"grid\": [1, $blocks, 1]/" tests/cases/flow-launch.json >"$folder/grid.json"
    "$gridsmith" bound tests/cases/flow90.cubin --kernel counts --launch "$folder/grid.json" --gpu h200 --instructions \
        2>"$folder/err" >"$folder/out"; status=$?; kernel="$blocks blocks in y"
    [ $blocks = 0 ] && expect 2 'a grid has 1 to 2147483647 blocks in x, and 1 to 65535 in y and in z, not 1 x 0 x 1'
    [ $blocks = 0 ] || expect 2 'a grid has at most 65535 blocks in y and in z (2147483647 in x), not 65536'
done

# Rounds of one input, counted on the CPU: element 7 of the buffer is 7. Needs ptxas.
sed 's/"float32", "count": 100/"int32", "count": 100, "fill": "index"/' tests/cases/flow-launch.json >"$folder/index.json"
ask reads --instructions; status=$?
expect 1 'are not known'
ask reads --instructions --input; status=$?
expect 2 '--input runs the kernel on the CPU: give the PTX itself (a .ptx file)'
if [ -x /usr/local/cuda/bin/ptxas ] || command -v ptxas >/dev/null; then
    sed 's/ld.relaxed.cta.global.u32 %r1, \[%rd1+28\]/ld.global.u32 %r1, [%rd1+28]/' tests/flow/cases.ptx >"$folder/reads.ptx"
    "$gridsmith" bound "$folder/reads.ptx" --kernel reads --launch "$folder/index.json" --gpu h200 --instructions --input \
        2>"$folder/err" >"$folder/out"; status=$?; kernel='reads, with its input'
    expect 0 ' 7 (of this input)'
    expect 0 'this is for one input'
    # A GPU may go another way than the CPU: what the rounds depend on is read while others write it, approximate, a sum that may be
    # fused with a product, of the order of atomic operations, of an address, or of the machine. Or it is none of these.
    while IFS='|' read -r wanted words operation; do
        sed "s/ld.relaxed.cta.global.u32 %r1, .%rd1+28.;/$operation/; s/.reg .b32 %r<4>;/.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %x, %y; .reg .b16 %h<9>; .reg .f64 %d<9>; .shared .b32 here; .shared .b32 there; .local .b32 own; .const .b32 fixed; .reg .pred %q, %s;/" \
            tests/flow/cases.ptx >"$folder/reads.ptx"
        "$gridsmith" bound "$folder/reads.ptx" --kernel reads --launch "$folder/index.json" --gpu h200 --instructions --input \
            2>"$folder/err" >"$folder/out"; status=$?; kernel=$operation
        expect "$wanted" "$words"
    done <<'INPUTS'
1|what others may write meanwhile in line 120|ld.relaxed.cta.global.u32 %r1, [%rd1+28];
1|it depends on an approximation in line 120|ld.global.f32 %f1, [%rd1+28]; sqrt.approx.f32 %f2, %f1; mov.b32 %r1, %f2; shr.u32 %r1, %r1, 28;
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; sqrt.rn.f32 %f2, %f1; mov.b32 %r1, %f2; shr.u32 %r1, %r1, 28;
1|an approximation in line 120, which is stored in line 120|ld.global.f32 %f1, [%rd1+28]; ex2.approx.f32 %f2, %f1; st.global.f32 [%rd1], %f2; ld.global.u32 %r1, [%rd1+28];
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; ex2.approx.f32 %f2, %f1; st.global.f32 [%rd1], %f2; ld.global.nc.u32 %r1, [%rd1+28];
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f1; mov.b32 %r1, %f3; shr.u32 %r1, %r1, 28;
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; mul.rn.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f1; mov.b32 %r1, %f3; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; neg.f32 %f3, %f2; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; abs.f32 %f3, %f2; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; min.f32 %f3, %f2, %f2; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; cvt.f32.f32 %f3, %f2; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; mov.b32 %r4, %f2; mov.b32 %f3, %r4; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; mov.b64 %x, {%f2, %f1}; mov.b64 {%f3, %f5}, %x; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; setp.eq.u32 %q, %r2, %r3; selp.f32 %f3, %f2, %f2, %q; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; shfl.sync.idx.b32 %r4, %f2, 0, 31, -1; mov.b32 %f3, %r4; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; st.local.f32 [own], %f2; ld.local.f32 %f3, [own]; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; st.shared.f32 [here], %f2; ld.shared.f32 %f3, [here]; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; st.global.f32 [%rd1+40], %f2; ld.global.f32 %f3, [%rd1+40]; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; mov.b32 %r4, %f2; add.cc.u32 %r5, %r4, 0; addc.u32 %r5, %r4, 0; mov.b32 %f3, %r5; add.f32 %f4, %f3, %f1; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mul.ftz.f32 %f2, %f1, %f1; neg.ftz.f32 %f3, %f2; sub.ftz.f32 %f4, %f1, %f3; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
1|a sum that may be fused with a product in line 120|ld.global.u32 %r1, [%rd1+28]; cvt.rn.f16.s32 %h1, %r1; mul.f16 %h2, %h1, %h1; neg.f16 %h3, %h2; sub.f16 %h4, %h1, %h3; cvt.u32.u16 %r1, %h4; and.b32 %r1, %r1, 7;
1|a sum that may be fused with a product in line 120|ld.global.u32 %r1, [%rd1+28]; mul.f16x2 %r4, %r1, %r1; mov.b32 {%h1, %h2}, %r4; mov.b32 %r5, {%h1, %h2}; add.f16x2 %r4, %r5, %r1; and.b32 %r1, %r4, 7;
1|a sum that may be fused with a product in line 120|ld.global.u32 %r1, [%rd1+28]; mul.bf16x2 %r4, %r1, %r1; mov.b32 %r5, %r4; add.bf16x2 %r4, %r5, %r1; and.b32 %r1, %r4, 7;
1|a sum that may be fused with a product in line 120|ld.global.u32 %r1, [%rd1+28]; cvt.rn.f64.s32 %d1, %r1; mul.f64 %d2, %d1, %d1; neg.f64 %d3, %d2; sub.f64 %d4, %d1, %d3; cvt.rzi.u32.f64 %r1, %d4; and.b32 %r1, %r1, 7;
1|a sum that may be fused with a product in line 120|ld.global.f32 %f1, [%rd1+28]; mov.f32 %f3, 0f00000000; mov.u32 %r4, 0; Q: add.f32 %f4, %f3, %f1; mul.f32 %f2, %f1, %f1; neg.f32 %f3, %f2; add.u32 %r4, %r4, 1; setp.lt.u32 %q, %r4, 3; @%q bra Q; mov.b32 %r1, %f4; shr.u32 %r1, %r1, 28;
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; add.rn.f32 %f3, %f2, %f1; mov.b32 %r1, %f3; shr.u32 %r1, %r1, 28;
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; fma.rn.f32 %f3, %f1, %f1, %f2; mov.b32 %r1, %f3; shr.u32 %r1, %r1, 28;
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; mul.f32 %f2, %f1, %f1; neg.f32 %f3, %f2; mul.f32 %f3, %f3, %f1; mov.b32 %r1, %f3; shr.u32 %r1, %r1, 29;
0|(of this input)|ld.global.f32 %f1, [%rd1+28]; add.f32 %f3, %f1, %f1; mov.b32 %r1, %f3; shr.u32 %r1, %r1, 28;
1|the order of atomic operations in line 120|atom.global.gpu.add.u32 %r1, [%rd1+28], 1;
0|(of this input)|red.global.gpu.add.u32 [%rd1+32], 1; ld.global.u32 %r1, [%rd1+28];
1|a register of the machine in line 120|mov.u32 %r1, %smid; and.b32 %r1, %r1, 3;
1|a register of the machine in line 120|mov.u32 %r1, %clock; and.b32 %r1, %r1, 3;
1|a register of the machine in line 120|mov.u32 %r4, %clock; setp.eq.u32 %q, %r4, 0; mov.u32 %r1, 5; @%q mov.u32 %r1, 6;
1|the number of an address in line 120|cvt.u32.u64 %r1, %rd1; shr.u32 %r1, %r1, 29;
1|the number of an address in line 120|mov.u32 %r1, here; shr.u32 %r1, %r1, 4;
1|the number of an address in line 120|and.b64 %x, %rd1, 1020; cvt.u32.u64 %r1, %x;
1|the number of an address in line 120|and.b64 %x, %rd1, 60; add.u64 %x, %x, %rd1; ld.global.u32 %r1, [%x];
1|the number of an address in line 120, which is stored in line 120|st.global.u64 [%rd1+40], %rd1; ld.global.u32 %r1, [%rd1+28];
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; setp.gt.u32 %q, %r4, 900; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; setp.ne.u32 %q, %r4, 0; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, own; setp.ne.u32 %q, %r4, 0; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, fixed; setp.ne.u32 %q, %r4, 0; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; sub.u32 %r5, %r4, 1024; setp.eq.u32 %q, %r5, 0; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; setp.eq.and.u32 %q, %r4, 0, %q; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u64 %x, here; cvta.shared.u64 %x, %x; setp.ne.u64 %q, %x, 0; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u64 %x, a; setp.ne.u64 %q, %x, 0; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u64 %x, a; sub.u64 %x, %x, %rd1; setp.gt.u64 %q, %x, 9; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; sub.u32 %r5, %r4, 4; setp.lt.u32 %q, %r4, %r5; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; mov.u32 %r5, there; setp.ne.u32 %q, %r4, %r5; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; shr.u32 %r5, %r4, 10; add.u32 %r1, %r1, %r5;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; mov.b32 %f1, %r4; add.rn.f32 %f2, %f1, 0f3F800000; setp.eq.f32 %q, %f1, %f2; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; setp.eq.f32 %q, %r4, %r4; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; cvt.u16.u32 %h1, %r4; cvt.u32.u16 %r4, %h1; st.shared.u32 [here], %r1; ld.shared.u32 %r1, [%r4];
1|the number of an address in line 120|mov.u64 %x, 16; cvta.shared.u64 %x, %x; shr.u64 %x, %x, 40; cvt.u32.u64 %r1, %x;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; isspacep.shared %q, %rd1; @%q add.u32 %r1, %r1, 9;
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, 0; st.shared.u32 [here], %r1; ld.shared.u32 %r1, [%r4];
1|the number of an address in line 120, which is stored in line 120|ld.global.u32 %r1, [%rd1+28]; st.shared.u32 [here], %r1; mov.u32 %r4, 0; st.shared.u32 [%r4], 5; ld.shared.u32 %r1, [here];
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; setp.eq.u32 %q, %r1, 7777; selp.b32 %r4, %r4, 0, %q; st.shared.u32 [here], %r1; ld.shared.u32 %r1, [%r4];
1|the number of an address in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; setp.ne.u32 %q, %r1, 7777; selp.b32 %r5, %r4, %r8, %q; setp.ne.u32 %q, %r5, 0; @%q add.u32 %r1, %r1, 9;
1|a register of the machine in line 120|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, %dynamic_smem_size; setp.ne.u32 %q, %r4, 0; @%q add.u32 %r1, %r1, 9;
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; add.u32 %r5, %r4, 4; setp.eq.u32 %q, %r4, %r5; @%q add.u32 %r1, %r1, 9;
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; add.u64 %x, %rd1, 4; setp.lt.u64 %q, %x, %rd1; @%q add.u32 %r1, %r1, 9;
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; mov.u64 %x, here; cvta.shared.u64 %x, %x; st.shared.u32 [here], %r1; ld.u32 %r1, [%x];
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; mov.u64 %x, here; cvt.u32.u64 %r4, %x; st.shared.u32 [here], %r1; ld.shared.u32 %r1, [%r4];
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; st.local.u32 [own], %r1; mov.u64 %x, own; cvta.local.u64 %x, %x; ld.u32 %r1, [%x];
0|(of this input)|add.u64 %x, %rd1, 20; selp.b64 %x, %x, %rd1, 1; ld.global.u32 %r1, [%x+8];
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; cvt.u64.u32 %x, %r1; add.u64 %x, %x, %rd1; sub.u64 %x, %x, %rd1; cvt.u32.u64 %r1, %x;
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; setp.eq.u64 %q, %rd1, 0; @%q add.u32 %r1, %r1, 9;
0|(of this input)|ld.global.u32 %r1, [%rd1+28]; mov.u32 %r4, here; st.shared.u32 [%r4], %r1; ld.shared.u32 %r1, [here];
1|the bits of a cache policy in line 120|createpolicy.fractional.L2::evict_last.b64 %x, 1.0; shr.u64 %x, %x, 50; cvt.u32.u64 %r1, %x;
1|the order of atomic operations in line 120|st.shared.u32 [here], 0; bar.sync 0; red.shared.max.u32 [here], 3; red.shared.add.u32 [here], 3; bar.sync 0; ld.shared.u32 %r1, [here];
1|the order of atomic operations in line 120|st.shared.u32 [here], 0; bar.sync 0; red.shared.max.u32 [here], 3; red.shared.max.s32 [here], 3; bar.sync 0; ld.shared.u32 %r1, [here];
1|the order of atomic operations in line 120|st.shared.u32 [here], 0; bar.sync 0; red.shared.inc.u32 [here], 3; bar.sync 0; ld.shared.u32 %r1, [here];
0|(of this input)|st.shared.u32 [here], 0; bar.sync 0; red.shared.max.u32 [here], 3; red.shared.max.u32 [here], 7; bar.sync 0; ld.shared.u32 %r1, [here];
0|(of this input)|st.shared.u32 [here], 0; bar.sync 0; red.shared.add.u32 [here], 3; red.global.add.u32 [%rd1+256], 7; bar.sync 0; ld.shared.u32 %r1, [here];
INPUTS
    # A side that no thread takes does not count; one that some thread takes does. Element 7 of the buffer is 7, others are not.
    cat >"$folder/never.ptx" <<'PTX'
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to, .param .u32 most) {
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %a, %b;
ld.param.u64 %a, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %b, %r1, 4; add.u64 %b, %b, %a; ld.global.u32 %r2, [%b];
setp.ne.u32 %p1, %r2, 7777;
@%p1 bra A;
st.volatile.global.u32 [%a], %r1;
membar.gl;
A: setp.ne.u32 %p2, %r2, 7;
@%p2 bra B;
st.volatile.global.u32 [%a+4], %r1;
membar.gl;
B: ret; }
PTX
    sed 's/"int32": 100/"uint32": 100/' "$folder/index.json" >"$folder/never.json"
    for option in --csv --input; do
        "$gridsmith" bound "$folder/never.ptx" --launch "$folder/never.json" --gpu h200 --instructions --csv $(echo $option | grep -v csv) \
            2>"$folder/err" >"$folder/out"; status=$?; kernel="a side that no thread takes, $option"
        expect 0 '13,'
        grep -q '^9,' "$folder/out" && [ $option = --input ] && complain "$kernel counts: $(cat "$folder/out")"
        grep -q '^9,' "$folder/out" || [ $option = --input ] || complain "$kernel does not count: $(cat "$folder/out")"
    done
    # ptxas makes one branch of two that lead to one place, with the line of the second. That all threads which come to the second leave it
    # the same way says nothing of the first: half of the lanes store here, and half there.
    cat >"$folder/joined.ptx" <<'PTX'
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to, .param .u64 from) {
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %a, %b, %c, %d, %e;
ld.param.u64 %a, [to]; ld.param.u64 %c, [from]; mov.u32 %r1, %tid.x; mul.wide.u32 %e, %r1, 4; add.u64 %d, %c, %e; add.u64 %b, %a, %e;
ld.global.u32 %r2, [%d];
ld.global.u32 %r3, [%c+4];
setp.lt.s32 %p1, %r2, 16;
setp.lt.s32 %p2, %r3, 100;
@!%p1 bra L;
@!%p2 bra L;
STORES
bra.uni D;
L:
STORES
D: ret; }
PTX
    for i in 1 2 3 4 5 6 7 8 9; do printf 'st.volatile.global.u32 [%%b], %s;\n' $i; done >"$folder/stores"
    sed -i "/^STORES/{r $folder/stores
d}" "$folder/joined.ptx"
    echo '{"schema": "gridsmith.launch/1", "grid": [4, 1, 1], "block": [32, 1, 1], "arguments": [{"buffer": "int32", "count": 99, "fill": "zero"},
           {"buffer": "int32", "count": 99, "fill": "index"}]}' >"$folder/joined.json"
    "$gridsmith" bound "$folder/joined.ptx" --launch "$folder/joined.json" --gpu h200 --instructions --input --json \
        2>"$folder/err" >"$folder/out"; status=$?; kernel='one branch of two'
    expect 0 '"global_store_near":18'
    # Transactions of an input: element N of the buffer is N, so lanes load beside each other; without the input any places count. They
    # do not count where a line has several instructions, or accesses, another access has none, or the place may differ on a GPU.
    while IFS='|' read -r what wanted code; do
        { printf '.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to, .param .u32 most) {\n'
          printf '.reg .pred %%p; .reg .b32 %%r<9>; .reg .b64 %%a, %%b, %%c, %%d; ld.param.u64 %%a, [to]; mov.u32 %%r4, 0; mov.u32 %%r5, 0;\n'
          printf 'mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d, %%r1, 4; add.u64 %%b, %%a, %%d;\nld.global.u32 %%r2, [%%b];\n'
          printf '%s' "$code" | tr '~' '\n'
          printf '\nadd.u32 %%r4, %%r4, %%r3;\nst.global.v2.u32 [%%a+384], {%%r4, %%r5}; ret; }\n'; } >"$folder/places.ptx"
        for option in --json --input; do
            "$gridsmith" bound "$folder/places.ptx" --launch "$folder/never.json" --gpu h200 --instructions --json $(echo $option | grep -v json) \
                2>"$folder/err" >"$folder/out"; status=$?; kernel="$what, $option"
            expect 0 '"instructions":'
            counted=no; grep -q '"global_load":' "$folder/out" || counted=yes
            [ "$option" = --json ] && [ $counted = yes ] && complain "$kernel: near without the input"
            [ "$option" = --input ] && [ $counted != "$wanted" ] && complain "$kernel: expected $wanted: $(cat "$folder/out")"
        done
    done <<'PLACES'
one access|yes|and.b32 %r2, %r2, 63; mul.wide.u32 %d, %r2, 4; add.u64 %c, %a, %d;~ld.global.u32 %r3, [%c];
an access in a loop|yes|A:~.pragma "nounroll";~and.b32 %r2, %r2, 63; mul.wide.u32 %d, %r2, 4; add.u64 %c, %a, %d;~ld.global.u32 %r3, [%c];~add.u32 %r2, %r3, 1; add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, 9;~@%p bra A;
an access in a loop that is unrolled|no|A:~and.b32 %r2, %r2, 63; mul.wide.u32 %d, %r2, 4; add.u64 %c, %a, %d;~ld.global.u32 %r3, [%c];~add.u32 %r2, %r3, 1; add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, 4;~@%p bra A;
two accesses in a line|no|and.b32 %r2, %r2, 63; mul.wide.u32 %d, %r2, 4; add.u64 %c, %a, %d;~ld.global.u32 %r3, [%c]; ld.global.u32 %r5, [%c+64];
an access that another one stands for|no|and.b32 %r2, %r2, 63; mul.wide.u32 %d, %r2, 4; add.u64 %c, %a, %d;~ld.global.u32 %r3, [%c];~ld.global.u32 %r5, [%c];
a place that depends on the order of atomic operations|no|atom.global.gpu.add.u32 %r2, [%a+256], 1; and.b32 %r2, %r2, 63; mul.wide.u32 %d, %r2, 4; add.u64 %c, %a, %d;~ld.global.u32 %r3, [%c];
PLACES
    # Two loops in one line: a line names neither of them.
    cat >"$folder/line.ptx" <<'PTX'
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to, .param .u32 most) { .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a;
ld.param.u64 %a, [to]; ld.param.u32 %r1, [most]; mov.u32 %r2, 1; A: st.volatile.global.u32 [%a], %r2; mul.lo.u32 %r2, %r2, 2; setp.lt.u32 %p, %r2, %r1; @%p bra A; mov.u32 %r3, 1; B: st.volatile.global.u32 [%a], %r3; mul.lo.u32 %r3, %r3, 30; setp.lt.u32 %p, %r3, %r1; @%p bra B; ret; }
PTX
    sed 's/"int32": 100/"uint32": 100/' tests/cases/flow-launch.json >"$folder/line.json"
    for option in --input --loop=5=3 --json; do
        "$gridsmith" bound "$folder/line.ptx" --launch "$folder/line.json" --gpu h200 --instructions "$option" \
            2>"$folder/err" >"$folder/out"; status=$?; kernel="two loops in a line, $option"
        case $option in
        --input) expect 1 'the rounds of the loop are not known; --loop 0x' ;;
        --loop*) expect 1 'several loops begin in line 5; --loop 0x' ;;
        --json) expect 1 'the rounds of the loop are not known; --loop 0x' ;;
        esac
    done
    # Which loop of the PTX a loop of the machine code is must be clear from lines. Not so: loops that begin at one place, also with two
    # branches back; a branch back beside another branch; loops that ptxas joins, or whose ends it joins. A loop that is entered behind its
    # label has a round more than the label. Element N of the buffer is N.
    ask_loops() {
        { printf '.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to, .param .u32 most) {\n'
          printf '.reg .pred %%p, %%q; .reg .b32 %%r<9>; .reg .b64 %%a;\n'
          printf 'ld.param.u64 %%a, [to]; ld.global.u32 %%r1, [%%a+28]; ld.global.u32 %%r2, [%%a+8]; ld.global.u32 %%r3, [%%a+12];\n'
          cat; printf 'ret; }\n'; } >"$folder/loops.ptx"
        "$gridsmith" bound "$folder/loops.ptx" --launch "$folder/never.json" --gpu h200 --instructions --input 2>"$folder/err" >"$folder/out"
    }
    kernel='a loop alone'; status=0
    ask_loops <<'PTX'
A:
red.global.add.u32 [%a], 1;
shr.u32 %r1, %r1, 1;
setp.ge.u32 %p, %r1, %r2;
@%p bra A;
PTX
    status=$?
    expect 0 'line 8 2 (of this input)'
    kernel='a loop that is entered behind its label'
    ask_loops <<'PTX'
bra B;
A:
red.global.add.u32 [%a], 1;
sub.u32 %r1, %r1, 1;
B:
red.global.add.u32 [%a+4], 2;
setp.gt.u32 %p, %r1, %r2;
@%p bra A;
PTX
    status=$?
    expect 0 '6 (of this input)'
    kernel='two loops from one place'
    ask_loops <<'PTX'
A:
B:
red.global.add.u32 [%a], 1;
sub.u32 %r1, %r1, 1;
setp.gt.u32 %p, %r1, %r2;
@%p bra B;
red.global.add.u32 [%a], 2;
sub.u32 %r3, %r3, 1;
setp.ne.u32 %p, %r3, 0;
@%p bra A;
PTX
    status=$?
    expect 1 'the rounds of the loop in line'
    kernel='two branches back to one place'
    ask_loops <<'PTX'
A:
red.global.add.u32 [%a], 1;
sub.u32 %r1, %r1, 1;
setp.gt.u32 %p, %r1, %r2;
@%p bra A;
red.global.add.u32 [%a], 2;
sub.u32 %r3, %r3, 1;
setp.ne.u32 %p, %r3, 0;
@%p bra A;
PTX
    status=$?
    expect 1 'the rounds of the loop in line'
    kernel='a branch back beside another branch'
    ask_loops <<'PTX'
A:
red.global.add.u32 [%a], 1;
sub.u32 %r2, %r2, 1;
setp.ne.u32 %p, %r2, 1;
@%p bra A; B: setp.eq.u32 %p, %r1, %r3; @%p bra C;
red.global.add.u32 [%a+4], 2;
sub.u32 %r1, %r1, 1;
bra B;
C:
PTX
    status=$?
    expect 1 'the rounds of the loop'
    kernel='an inner loop whose end is that of the outer one'
    ask_loops <<'PTX'
mov.u32 %r4, 0;
A:
add.u32 %r4, %r4, 1;
red.global.add.u32 [%a], 1;
setp.gt.s32 %p, %r4, %r1;
@!%p bra D;
B:
ld.global.u32 %r5, [%a+4];
setp.ge.u32 %q, %r5, %r3;
@%q bra C;
bra B;
C:
bra A;
D:
PTX
    status=$?
    expect 1 'the rounds of the loop in line'
    # Of two loops ptxas makes one where nothing is left between their labels: its rounds are those of both. %r3 is 3.
    kernel='two loops that ptxas joins'
    ask_loops <<'PTX'
mov.u32 %r4, 0;
A:
mov.u32 %r6, %r1;
B:
red.global.add.u32 [%a], %r4;
add.u32 %r4, %r4, 1;
and.b32 %r5, %r4, %r3;
setp.ne.u32 %p, %r5, 0;
@%p bra B;
setp.lt.u32 %q, %r4, 100;
@%q bra A;
PTX
    status=$?
    expect 0 '100 (of this input)'
    kernel='two loops of which ptxas keeps both'
    ask_loops <<'PTX'
mov.u32 %r4, 0;
A:
red.global.add.u32 [%a+8], %r3;
B:
red.global.add.u32 [%a], %r4;
add.u32 %r4, %r4, 1;
and.b32 %r5, %r4, %r3;
setp.ne.u32 %p, %r5, 0;
@%p bra B;
setp.lt.u32 %q, %r4, 100;
@%q bra A;
PTX
    status=$?
    expect 0 '25 (of this input)'
    expect 0 ' 4 (of this input)'
    # A round is one of the body: the code before the test of a loop is executed once more, wherever the compiler has put the test.
    # In these, that code has 100 products of FP64.
    ask_tested() {
        { printf '.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to, .param .u32 most) {\n'
          printf '.reg .pred %%p, %%q; .reg .b32 %%r<9>; .reg .b64 %%a, %%b; .reg .f64 %%d; ld.param.u64 %%a, [to]; mov.u64 %%b, %%a; mov.u32 %%r1, 0;\n'
          cat; printf 'st.global.u32 [%%a], %%r1; ret; }\n'; } | sed 's/TESTED/ld.global.f64 %d, [%b]; mov.u32 %r2, 0; I: mul.rn.f64 %d, %d, %d; add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 100; @%p bra I; setp.gt.f64 %q, %d, 0d3FF0000000000000;/' >"$folder/tested.ptx"
        set -- "$1" "$gridsmith" bound "$folder/tested.ptx" --launch "$folder/never.json" --gpu h200 --instructions --json
        rounds=$1; shift
        place=$("$@" 2>&1 >/dev/null | sed -n 's/.*--loop \([0-9a-fx]*\)=ROUNDS.*/\1/p')
        "$@" --loop "$place=$rounds" 2>"$folder/err" >"$folder/out"
    }
    # expect_products LEAST: of the last answer, at least.
    expect_products() {
        products=$(sed -n 's/.*"fp64":\([0-9]*\).*/\1/p' "$folder/out")
        [ "${products:-0}" -ge "$1" ] || complain "$kernel: ${products:-no} products, not $1: $(cat "$folder/err")"
    }
    for rounds in 0 1 7; do
        least=$((100 * (rounds + 1)))
        kernel="a loop with its test in front, $rounds rounds"
        ask_tested $rounds <<'PTX'
A: TESTED
@!%q bra E;
st.global.u32 [%b], %r1;
add.u64 %b, %b, 8; add.u32 %r1, %r1, 1;
bra A;
E:
PTX
        expect_products $least
        kernel="a loop whose body is done early, in front of a test at the end, $rounds rounds"
        ask_tested $rounds <<'PTX'
A: TESTED
add.u64 %b, %b, 8; add.u32 %r1, %r1, 1;
@%q bra A;
PTX
        expect_products $least
        kernel="a loop with a break in the middle, $rounds rounds"
        ask_tested $rounds <<'PTX'
A: TESTED
@!%q bra E;
st.global.u32 [%b], %r1;
add.u64 %b, %b, 8; add.u32 %r1, %r1, 1; ld.global.u32 %r3, [%b]; setp.ne.u32 %p, %r3, 9;
@%p bra A;
E:
PTX
        expect_products $least
    done
    # A counter that steps over its limit: what is given must not make the code behind the loop unreachable.
    kernel='a loop that cannot be left'
    ask_tested 10 <<'PTX'
A: st.volatile.global.u32 [%a], %r1; add.u32 %r1, %r1, 3;
setp.ne.u32 %q, %r1, 1000;
@%q bra A;
PTX
    status=$?
    expect 2 'cannot be left after so few rounds'
    # Additions of integers, for the GPU, have a bound; other atomic operations, those of the system, and other instructions of which
    # not all forms were measured, have none.
    while IFS='|' read -r wanted words operation; do
        cat >"$folder/form.ptx" <<PTX
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to, .param .u32 most) { .reg .b32 %r<3>; .reg .b64 %a, %d; .reg .f32 %f;
ld.param.u64 %a, [to]; cvta.to.global.u64 %a, %a; mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; mov.b32 %f, %r1; $operation st.global.u32 [%a+4], %r2; ret; }
PTX
        "$gridsmith" bound "$folder/form.ptx" --launch "$folder/line.json" --gpu h200 --instructions 2>"$folder/err" >"$folder/out"
        status=$?; kernel=$operation
        expect "$wanted" "$words"
    done <<'FORMS'
0|line 5 |atom.global.gpu.add.u32 %r2, [%a], %r1;
0|line 5 |red.global.gpu.add.s32 [%a], %r1;
1|an atomic operation for the whole system|atom.global.sys.add.u32 %r2, [%a], %r1;
1|an atomic operation for the whole system|atom.global.sys.cas.b32 %r2, [%a], %r1, 5;
1|other than the addition of 32-bit integers|atom.global.gpu.cas.b32 %r2, [%a], %r1, 5;
1|other than the addition of 32-bit integers|atom.global.gpu.exch.b32 %r2, [%a], %r1;
1|other than the addition of 32-bit integers|red.global.gpu.max.u32 [%a], %r1;
1|other than the addition of 32-bit integers|red.global.gpu.add.f32 [%a], %f;
1|other than the addition of 32-bit integers|mov.b64 %d, {%r1, %r2}; red.global.gpu.add.u64 [%a], %d;
0|line 5 |ld.global.u32 %r2, [%a];
0|line 5 |ld.global.nc.u32 %r2, [%a];
1|is a load past the L1|ld.volatile.global.u32 %r2, [%a];
1|is a load past the L1|ld.relaxed.gpu.global.u32 %r2, [%a];
1|is a load past the L1|ld.global.cg.u32 %r2, [%a];
0|line 5 |membar.gl;
1|a fence for the whole system|membar.sys;
0|line 5 |match.all.sync.b32 %r2, %r1, -1;
1|is PTX's dp2a or dp4a, which were not measured|dp4a.s32.s32 %r2, %r1, %r2, %r1;
1|is PTX's mma of integers, which was not measured|mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r1}, {%r2}, {%r1,%r2};
1|is PTX's mma of bits, which was not measured|mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%r1,%r2}, {%r1}, {%r2}, {%r1,%r2};
1|extracts bits, as PTX's bfe, szext and fns do|szext.clamp.s32 %r2, %r1, %r2;
1|: the instruction is PTX's sad, which was not measured|sad.u32 %r2, %r1, %r2, %r1;
1|compares all lanes of a warp|match.any.sync.b32 %r2, %r1, -1;
FORMS
    # Blocks that a kernel forbids: a launch of 64 threads. verify refuses them, too.
    while IFS='|' read -r wanted words directive; do
        sed "s/{ .reg/$directive { .reg/; s/match.any[^;]*;//" "$folder/form.ptx" >"$folder/block.ptx"
        kernel="bound with $directive"
        "$gridsmith" bound "$folder/block.ptx" --launch "$folder/line.json" --gpu h200 --instructions 2>"$folder/err" >"$folder/out"
        status=$?
        expect "$wanted" "$words"
        [ "$wanted" -eq 0 ] && continue
        kernel="verify with $directive"
        "$gridsmith" verify "$folder/block.ptx" --kernel k --as persistent --launch "$folder/line.json" 2>"$folder/err" >"$folder/out"
        status=$?
        expect 2 "$words"
    done <<'BLOCKS'
2|may have at most 63 threads (.maxntid|.maxntid 63
0||.maxntid 64
0||.maxntid 1, 8, 8
2|must be 32 x 2 x 1 threads (.reqntid), not 64 x 1 x 1|.reqntid 32, 2
0||.reqntid 64
BLOCKS
    # What times were not measured for: clusters, addresses of which nothing is known, more memory than was measured.
    sed 's/{ .reg/.reqnctapercluster 2, 1, 1 { .reg/' "$folder/form.ptx" | sed 's/match.any[^;]*;//' >"$folder/cluster.ptx"
    sed 's/match.any[^;]*;//' "$folder/form.ptx" >"$folder/plain.ptx"
    sed 's/{"buffer"[^}]*}/{"int64": 140000000000000}/' "$folder/line.json" >"$folder/address.json"
    sed 's/{"buffer"[^}]*}/{"int64": 12918456320}/' "$folder/line.json" >"$folder/context.json"
    sed 's/{"buffer"[^}]*}/{"int64": -4294967296}/' "$folder/line.json" >"$folder/negative.json"
    sed 's/"count": [0-9]*/"count": 600000000/' "$folder/line.json" >"$folder/large.json"
    while read -r wanted file launch words; do
        "$gridsmith" bound "$folder/$file.ptx" --launch "$folder/$launch.json" --gpu h200 2>"$folder/err" >"$folder/out"
        status=$?; kernel="$file with $launch.json"
        expect "$wanted" "$words"
    done <<'LIMITS'
0 plain line done after
1 cluster line has clusters of blocks
1 plain address argument 0 may be an address
1 plain context argument 0 may be an address
0 plain negative done after
1 plain large MB of memory
LIMITS
    # More code than an SM keeps, and more cycles than can be counted.
    cat >"$folder/line.cu.ptx" <<'PTX'
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to, .param .u32 most) { .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a;
PTX
    { cat "$folder/line.cu.ptx"; printf 'ld.param.u64 %%a, [to];\n'
      awk 'BEGIN { for (i = 0; i < 3000; i++) printf "st.volatile.global.u32 [%%a+%d], %%r%d;\n", 4 * i, i % 9 }'; echo 'ret; }'; } >"$folder/long.ptx"
    { cat "$folder/line.cu.ptx"; printf 'ld.param.u64 %%a, [to];\nmov.u32 %%r1, 0;\nA: mov.u32 %%r2, 0;\nB: st.volatile.global.u32 [%%a], %%r2;\n'
      printf 'add.u32 %%r2, %%r2, 1;\nsetp.ne.u32 %%p, %%r2, 2000000000;\n@%%p bra B;\nadd.u32 %%r1, %%r1, 1;\nsetp.ne.u32 %%p, %%r1, 2000000000;\n@%%p bra A;\nret; }\n'; } >"$folder/years.ptx"
    while read -r file words; do
        "$gridsmith" bound "$folder/$file.ptx" --launch "$folder/line.json" --gpu h200 2>"$folder/err" >"$folder/out"
        status=$?; kernel=$file
        expect 1 "$words"
        expect 1 'at 0x'
    done <<'LARGE'
long bytes, and an SM keeps 32768
years this takes more than 2^60 cycles, which is 18 years at 2 GHz; the loop in line 8 has 4e+18 rounds in all
LARGE
    # A small table of constants is fetched once, a large one for each read. Parameters of other kernels are not read.
    for words in 93 2048; do
        cat >"$folder/table.ptx" <<PTX
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .u32 table[$words];
.visible .entry other(.param .align 4 .b8 large[4000]) { ret; }
.visible .entry k(.param .u64 to, .param .u32 most) { .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a, %b, %t;
ld.param.u64 %a, [to];
mov.u64 %t, table;
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0;
A: and.b32 %r3, %r1, 63;
mul.wide.u32 %b, %r3, 4;
add.s64 %b, %t, %b;
ld.const.u32 %r1, [%b];
add.u32 %r2, %r2, 1;
setp.ne.u32 %p, %r2, 100;
@%p bra A;
st.global.u32 [%a], %r1;
ret; }
PTX
        "$gridsmith" bound "$folder/table.ptx" --kernel k --launch "$folder/line.json" --gpu h200 2>"$folder/err" >"$folder/out"
        status=$?; kernel="a table of $words words"
        expect 0 'waiting for constant'
        sed -n 's/^ *1 block in a row, .* \([0-9]*\)$/\1/p' "$folder/out" >"$folder/path$words"
    done
    [ $(($(cat "$folder/path93") * 3)) -lt "$(cat "$folder/path2048")" ] || complain "the path with a small table is $(cat "$folder/path93"), with a large one $(cat "$folder/path2048")"
fi

ask half_waits --instructions; status=$?
expect 1 "a barrier of some of the block's threads"
ask nobody --instructions; status=$?
expect 2 'has no kernel nobody for sm_90'
ask counts --instructions --launch kernels/vector_add.json; status=$?
expect 2 'bytes'
ask counts --instructions --gpu rtx3090; status=$?
expect 2 'for sm_86'
"$gridsmith" bound --launch tests/cases/flow-launch.json 2>"$folder/err" >"$folder/out"; status=$?; kernel='no file'
expect 2 '--launch needs the file of a kernel'
"$gridsmith" bound tests/cases/flow-launch.json --launch tests/cases/flow-launch.json --gpu h200 --instructions \
    2>"$folder/err" >"$folder/out"; status=$?; kernel='JSON as a kernel'
[ "$status" -eq 2 ] || complain "JSON as a kernel: exit status $status"
[ "$failed" -eq 0 ] && echo 'bounds of compiled kernels: in order'
exit "$failed"
