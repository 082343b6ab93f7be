#!/bin/sh
# occupancy of files: the registers and the shared memory of each kernel are those that ptxas reports, whether the file is a CUDA
# source, PTX, a cubin or a program; without ptxas PTX is refused, and machine code is not.
#
#   sh tests/cmd/occupancy.sh PROGRAM SOURCE_DIR
. "$(dirname "$0")/../support/checks.sh"
program=$1
cd "$2" || exit 1

# occupancy NAME EXIT_CODE WORDS ARGUMENTS...: the output of the command, in $work/out, has the words.
occupancy() {
    name=$1 wanted=$2 words=$3
    shift 3
    "$program" occupancy "$@" >"$work/out" 2>&1 </dev/null
    found=$?
    [ "$found" = "$wanted" ] || fail "$name: exit code $found, not $wanted"
    grep -qF -- "$words" "$work/out" || fail "$name: does not say \"$words\""
}

# ---- machine code: no tool is needed ----
GRIDSMITH_PTXAS=/nowhere/ptxas
export GRIDSMITH_PTXAS
occupancy "a cubin" 0 '"kernel":"count","threads":256,"registers":24,"shared_bytes":0,"gpu":"h200","blocks_per_sm":8,' \
    --gpu h200 --json tests/fuzz/corpus/cubin/count90.cubin
occupancy "other threads, dynamic memory" 0 '"threads":64,"registers":24,"shared_bytes":40960,"gpu":"h200","blocks_per_sm":5,' \
    --gpu h200 --json --threads 64 --shared 40KB tests/fuzz/corpus/cubin/count90.cubin
# The share of the runtime, 1,024 bytes, is in the sections of code that is linked, also where no section of its own says so.
for file in debug90 linked90 object90; do
    occupancy "shared memory of $file" 0 '"shared_bytes":2000,"gpu":"h200"' --gpu h200 --json tests/fuzz/corpus/cubin/$file.cubin
    grep -q '"shared_block_bytes":3072' "$work/out" || fail "$file: the runtime has 1,024 bytes, and they are rounded up to 128"
done
occupancy "a cubin for an older GPU of the same kind" 0 '"gpu":"rtx3090"' --gpu rtx3090 --json tests/fuzz/corpus/cubin/count80.cubin
occupancy "a cubin of another GPU" 2 "has machine code for sm_80, which sm_90 does not run, and no PTX for it" \
    --gpu h200 tests/fuzz/corpus/cubin/count80.cubin
occupancy "a kernel that is alone" 0 "with 256 threads a block, which are assumed (give --threads)" \
    --gpu a100 --kernel count tests/fuzz/corpus/cubin/count80.cubin
occupancy "too many threads" 1 "the kernel can never run on a100" --gpu a100 --kernel count --threads 2048 tests/fuzz/corpus/cubin/count80.cubin
occupancy "a cluster that never fits" 1 "0 clusters of 32 blocks" --gpu h200 --threads 256 --registers 64 --cluster 32
occupancy "a recording" 0 "14 kernels" corpus/h200-program-cupy.jsonl.gz
grep -q '^ *128 *21 *0 *16 *100.0%  warps *cupy_sqrt__float32_float32$' "$work/out" || fail "a recording: a row"
occupancy "one kernel of a recording" 0 "16 blocks per SM: 64 of 64 warps" --kernel 'cupy_sqrt*' corpus/h200-program-cupy.jsonl.gz
occupancy "a recording on another GPU" 0 "a100, 108 SMs" --gpu a100 corpus/h200-program-cupy.jsonl.gz

# ---- advice: each number gives the occupancy that is promised, which is higher, and the next larger number does not ----
# percent GPU THREADS REGISTERS SHARED: the occupancy, with one decimal.
percent() {
    "$program" occupancy --gpu "$1" --threads "$2" --registers "$3" --shared "$4" 2>/dev/null | sed -n 's/.* warps, \(.*\)%$/\1/p'
}
# exceeds A B: A is more than B.
exceeds() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a > b + 0.04) }'
}
occupancy "fewer threads, fewer warps" 0 "more warps fit with 80 registers a thread (37.5%)" --gpu h100 --threads 128 --registers 96
! grep -q "[0-9] threads (" "$work/out" || fail "with fewer threads no more warps fit"
occupancy "fewer threads, more warps" 0 "more warps fit with 640 threads (83.3%)" --gpu rtx3090 --threads 1024 --registers 42
awk 'BEGIN { srand(20); split("h200 rtx3090 a100 t4 b200", gpus)
    for (i = 0; i < 60; i++) print gpus[i % 5 + 1], 1 + int(rand() * 1024), 16 + int(rand() * 100), int(rand() * rand() * 65536) }' >"$work/kernels"
while read -r gpu threads registers shared; do
    now=$(percent "$gpu" "$threads" "$registers" "$shared")
    [ -n "$now" ] || continue
    "$program" occupancy --gpu "$gpu" --threads "$threads" --registers "$registers" --shared "$shared" | sed -n 's/^more warps fit with //p' |
        sed 's/, or /\n/g' | sed 's/^\([0-9]*\) \([a-z]*\).*(\(.*\)%)$/\1 \2 \3/' >"$work/advice"
    while read -r value what promised; do
        t=$threads r=$registers s=$shared
        case $what in
        registers) r=$value step=1 ;;
        threads) t=$value step=32 ;;
        *) s=$value step=128 ;;
        esac
        found=$(percent "$gpu" "$t" "$r" "$s")
        [ "$found" = "$promised" ] && exceeds "$found" "$now" || fail "$gpu $threads $registers $shared: $value $what give $found%, not $promised%, from $now%"
        case $what in
        registers) r=$((value + step)) ;;
        threads) t=$((value + step < threads ? value + step : threads)) ;;
        *) s=$((value + step < shared ? value + step : shared)) ;;
        esac
        ! exceeds "$(percent "$gpu" "$t" "$r" "$s")" "$now" || fail "$gpu $threads $registers $shared: more than $value $what would do"
        echo "$what" >>"$work/kinds"
    done <"$work/advice"
done <"$work/kernels"
[ "$(sort -u "$work/kinds" | wc -l)" = 3 ] || fail "advice of the three kinds was not tried"

# ---- mistakes ----
occupancy "no kernel of this name" 2 "no kernel matches zz; the first of 14 is" --kernel zz corpus/h200-program-cupy.jsonl.gz
occupancy "a page of many" 2 "there are 14 kernels, but --html is for one: choose it with --kernel" --html corpus/h200-program-cupy.jsonl.gz
occupancy "a text" 2 "README.md" --gpu h200 README.md
occupancy "no file" 2 "cannot read none.cu" --gpu h200 none.cu
occupancy "registers of a file" 2 "--registers goes without a file" --gpu h200 --registers 9 kernels/sgemm.cu
occupancy "no kernel at all" 2 "or a file with kernels" --gpu h200
occupancy "no GPU" 2 "--gpu NAME|FILE is needed" kernels/sgemm.cu
occupancy "a damaged cubin" 2 "" --gpu a100 tests/cmd/occupancy.sh
head -c 900 tests/fuzz/corpus/cubin/count80.cubin >"$work/cut.cubin"
occupancy "a cut cubin" 2 "cut.cubin" --gpu a100 "$work/cut.cubin"
occupancy "options for a cubin" 2 "compiler options need a CUDA source, but tests/fuzz/corpus/cubin/count90.cubin is not one" --gpu h200 tests/fuzz/corpus/cubin/count90.cubin -- -maxrregcount=32
occupancy "code to be linked" 2 "-rdc=true: registers are known only when the code is linked" --gpu h200 kernels/sgemm.cu -- -rdc true
occupancy "an object" 2 "-dc: registers are known only when the code is linked" --gpu h200 kernels/sgemm.cu -- -dc
occupancy "an option without its value" 2 "-Xptxas needs a value" --gpu h200 kernels/sgemm.cu -- -Xptxas
occupancy "debugging, optimized" 2 "-dopt: give -G or -lineinfo alone" --gpu h200 kernels/sgemm.cu -- -G -dopt on
gzip -dc kernels/ptx/sgemm.ptx.gz >"$work/sgemm.ptx"
occupancy "PTX without ptxas" 3 "give a cubin or a program, or --threads and --registers" --gpu h200 "$work/sgemm.ptx"
cat >"$work/ptxas" <<'END'
#!/bin/sh
echo "ptxas in.ptx, line 3; warning : a warning"
echo "ptxas in.ptx, line 32; fatal   : Initial value type mismatch"
echo "ptxas fatal   : Ptx assembly aborted due to errors"
exit 255
END
chmod +x "$work/ptxas"
GRIDSMITH_PTXAS=$work/ptxas
occupancy "PTX that ptxas refuses" 2 "sgemm.ptx:32:1: ptxas says: Initial value type mismatch" --gpu h200 "$work/sgemm.ptx"

# ---- against ptxas ----
unset GRIDSMITH_PTXAS
ptxas=$(command -v ptxas || ls "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas" 2>/dev/null)
if [ -n "$ptxas" ]; then
    number=0
    for file in kernels/ptx/*.ptx.gz; do
        gzip -dc "$file" >"$work/one.ptx"
        number=$((number + 1))
        # One GPU for each file, in rotation.
        set -- h200:90 rtx4090:89 b200:100
        shift $((number % 3))
        for row in "$1"; do
            arch=sm_${row#*:}
            ! grep -q "^.target $arch"a "$work/one.ptx" || arch=${arch}a
            "$ptxas" -v -arch="$arch" -o "$work/one.cubin" "$work/one.ptx" 2>"$work/log" || continue
            # "SYMBOL REGISTERS SHARED" by ptxas, and by the program of PTX and of the cubin.
            awk '/Compiling entry/ { split($0, part, "\x27"); name = part[2] }
                /Used [0-9]* registers/ { shared = 0
                    if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH) + 0
                    match($0, /Used [0-9]+/); print name, substr($0, RSTART + 5, RLENGTH - 5), shared }' "$work/log" | sort >"$work/wanted"
            for kind in ptx cubin; do
                "$program" occupancy --json --threads 32 --gpu "${row%:*}" "$work/one.$kind" 2>"$work/out" |
                    sed 's/.*"kernel":"\([^"]*\)".*"registers":\([0-9]*\),"shared_bytes":\([0-9]*\).*/\1 \2 \3/' | sort >"$work/found"
                cmp -s "$work/wanted" "$work/found" || { cp "$work/found" "$work/out" && fail "$file as $kind for $arch"; }
            done
        done
    done
    occupancy "a source" 0 "sgemm" --gpu h200 --json kernels/sgemm.cu
    # Options for ptxas reach it, whichever compiler makes the PTX; nvcc, where it is, says what they give.
    cat >"$work/many.cu" <<'END'
extern "C" __global__ void many(float *x) {
    float r[40];
    for (int i = 0; i < 40; i++)
        r[i] = x[threadIdx.x * 40 + i];
    for (int k = 0; k < 100; k++)
        for (int i = 0; i < 40; i++)
            r[i] = r[i] * r[(i + 7) % 40] + r[(i + 11) % 40];
    for (int i = 0; i < 40; i++)
        x[threadIdx.x * 40 + i] = r[i];
}
END
    nvcc=${ptxas%ptxas}nvcc
    for compiler in nvcc nvrtc clang; do
        "$program" occupancy --gpu h200 --compiler $compiler "$work/many.cu" >"$work/out" 2>&1 || continue
        for options in -maxrregcount=24 "--maxrregcount 24" "-Xptxas -maxrregcount=24,-v" "--ptxas-options=--maxrregcount=24"; do
            # shellcheck disable=SC2086
            occupancy "$compiler with $options" 0 '"registers":24,' --gpu h200 --json --compiler $compiler "$work/many.cu" -- $options
        done
        occupancy "$compiler with an option that ptxas does not know" 2 "ptxas" --gpu h200 --compiler $compiler "$work/many.cu" -- -Xptxas --none
        [ $compiler != clang ] || { occupancy "clang with -G" 2 "-G is for nvcc and NVRTC" --gpu h200 --compiler clang "$work/many.cu" -- -G && continue; }
        for options in "" -G "-Xptxas -O0" "-Xptxas -O1 -lineinfo" -rdc=false; do
            # shellcheck disable=SC2086
            "$nvcc" -cubin -arch=sm_90 -Xptxas -v $options -o "$work/many.cubin" "$work/many.cu" 2>"$work/log" || continue
            registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$work/log")
            # shellcheck disable=SC2086
            occupancy "$compiler with '$options'" 0 "\"registers\":$registers," --gpu h200 --json --compiler $compiler "$work/many.cu" -- $options
        done
    done
    # With -g, as an object (-c) and linked, the shared memory is the 2,000 bytes that ptxas reports.
    for row in rtx4090:89 h200:90 b200:100 rtx5090:120; do
        arch=sm_${row#*:}
        sed "s/@ARCH@/$arch/" >"$work/keeps.ptx" <<'END'
.version 8.7
.target @ARCH@
.address_size 64
.visible .entry keeps(.param .u64 to) {
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    .shared .align 4 .b8 bytes[2000];
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd2, %rd1;
    ld.shared.u32 %r1, [bytes+1996];
    st.global.u32 [%rd2], %r1;
    ret;
}
END
        for option in -g -c; do
            "$ptxas" -v $option -arch="$arch" -o "$work/keeps.cubin" "$work/keeps.ptx" 2>"$work/log" || continue
            grep -q "2000 bytes smem" "$work/log" || fail "ptxas $option for $arch reports other bytes"
            occupancy "ptxas $option for $arch" 0 '"shared_bytes":2000,' --gpu "${row%:*}" --json "$work/keeps.cubin"
        done
        [ -x "${ptxas%ptxas}nvlink" ] && "${ptxas%ptxas}nvlink" -arch="$arch" -o "$work/linked.cubin" "$work/keeps.cubin" 2>"$work/log" || continue
        occupancy "nvlink for $arch" 0 '"shared_bytes":2000,' --gpu "${row%:*}" --json "$work/linked.cubin"
    done
else
    echo "no ptxas: PTX is not compared with it"
fi
finish "all passed"
