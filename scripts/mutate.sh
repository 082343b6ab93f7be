#!/bin/sh
# Plants single faults, one at a time, and counts those that no test sees.
#
#   sh scripts/mutate.sh                                  # 300 faults, a fifth of them in each group of rooms
#   sh scripts/mutate.sh --seed 7 --count 60 --room check
#   sh scripts/mutate.sh --room engine --file src/model/engine/waves.c:141   # all faults of a file, or of a line of it
#   sh scripts/mutate.sh --again                          # once more those that survived the last time
#   sh scripts/mutate.sh --toolchain cmake/x86_64.cmake --pack mutate.tar.xz # build only, for a machine with more processors
#   sh scripts/mutate.sh --toolchain cmake/x86_64.cmake --run --seconds 300  # on that machine: what was built is run
#
# The faults that are possible are listed by scripts/mutate.awk, and drawn from the seed. All of them are compiled into one
# build, build/mutate; the environment variable GS_MUTANT chooses one when a test starts. First each test runs without a fault,
# and notes which places it reaches. Then, for each fault, the tests that reach its place run in the order of `tests_of`, the
# quickest first, until one fails or takes more than twice its processor time without a fault. A busy machine decides nothing:
# tests with daemons must fail twice, and a test that takes too long without using the processor must take less than half of
# that time without the fault, right afterwards. So many faults are tried at a time as there are processors (--jobs), and with
# --seconds no fault begins after so many; those of the rooms take turns, so that what was tried until then is a sample too. The
# tests of the last faults are then divided among all processes. A test that fails without a fault is left out, and named. The
# tests that take longest (`is_long`, or more than QUICK_SECONDS), and those of other groups, run for the faults that no other
# test has seen. --continue goes on where a run was cut: with the same build, it keeps what was measured and what was seen.
#
# The archive of --pack has all that running needs, by its path on this machine: unpack it with `tar -C / -xJf` there. No
# compiler is needed there except by kernels that run on the CPU. tests/mutations.txt lists faults that change nothing that
# anybody can see, or only how long it takes.
#
# Only programs of Debian are used: sh, awk, cmake, ninja and a compiler. The exit status is 1 if fewer than 95% are caught.
set -eu
cd "$(dirname "$0")/.."

folders_of() {
    case $1 in
    engine) echo src/model/engine src/model/run ;;
    check) echo src/model/check ;;
    forms) echo src/kernels/forms ;;
    decide) echo src/sharing/decide ;;
    serve) echo src/sharing/serve ;;
    esac
}

# Each with GRIDSMITH_RUNS, at most what `sh scripts/test.sh` takes.
tests_of() {
    case $1 in
    engine)
        echo plays:1000 readings:1000 run engine:1000 bulk:1000 scores plays:4000 readings:4000 reasons launch_word engine_check timeline cluster_capacity shared_memory_layout predict scenarios dispatcher:4000 \
            check:4000 library import bound view recorded_programs large_graphs engine:4000 bulk:4000 dispatcher_states:4000 \
            graph_shape host_order explain what_if_ends:4000 shrink:4000 fuzz_campaign documented_commands recorded_runs:4000 engine:20000
        ;;
    check) echo check_answers:1000 check:4000 concurrent assumed:500 check_fixes:50 check_answers:4000 reported_hangs:4000 library check_fixes:1000 documented_commands check:20000 assumed:10000 check_fixes:10000 command_line ;;
    forms)
        echo ptx_file ptx_facts:1000 ptx_linear:20000 ptx_replay:20000 ptx_facts:4000 ptx_waits:4000 ptx_variations:4000 ptx_waits_random:20000 ptx_threads:2000 ptx_waits:20000 ptx_threads:20000 ptx_variations:20000 \
            ptx_text:20000 ptx_wait_pairs traps form_cases controls zoo_ptx forms_of_cuda ptx_forms documented_commands
        ;;
    decide)
        echo decisions sm_masks windows plan_readings:1000 random_simulations:1000 plan_readings:4000 decisions_literal:4000 random_simulations:4000 decisions_literal:20000 decisions_pairs decisions_random:5000 decision_orders:20000 decisions_intra_sm:10000 simulate:4000 \
            pair_search trials_recorded decisions_played:4000 launches_ahead fairness durations profiles pair_search_recorded documented_commands
        ;;
    serve) echo random_clients files loads choice choices_random programs random_programs quotas listener connections pauses requests closing launches_ahead fairness client_threads image gate worker serve hostile_clients terminal ;;
    esac
}

all_tests() {
    for group in $groups; do tests_of "$group"; done | tr ' ' '\n' | sort -u
}

# Tests that a busy machine may fail.
is_fragile() {
    case $1 in
    random_clients | files | loads | choice | choices_random | programs | random_programs | quotas | listener | connections | pauses | requests | closing | fairness | \
        client_threads | image | gate | worker | serve | hostile_clients | terminal) true ;;
    *) false ;;
    esac
}

# Tests that take longer than many others together.
is_long() {
    case $1 in
    engine:4000 | engine:20000 | bulk:4000 | fuzz_campaign | recorded_runs:4000 | check_fixes:1000 | check_fixes:10000 | assumed:10000 | command_line | traps | ptx_threads:* | ptx_waits:20000 | ptx_text:* | forms_of_cuda | pair_search | fairness | image | gate | worker | serve | hostile_clients | terminal) true ;;
    *) false ;;
    esac
}

QUICK_SECONDS=4 # of processor time
seed=1 count=300 again= continues= groups= only= jobs=$(nproc) seconds=86400 toolchain= archive= is_built=
while [ $# -gt 0 ]; do
    case $1 in
    --seed) seed=$2 && shift 2 ;;
    --count) count=$2 && shift 2 ;;
    --room) groups="$groups $2" && shift 2 ;;
    --file) only="$only $2" && shift 2 ;;
    --again) again=yes && shift ;;
    --jobs) jobs=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --toolchain) toolchain=$2 && shift 2 ;;
    --pack) archive=$2 && shift 2 ;;
    --run) is_built=yes && shift ;;
    --continue) continues=yes is_built=yes && shift ;;
    *) echo "mutate.sh: unknown option \"$1\"; usage: sh scripts/mutate.sh [--seed SEED] [--count COUNT] [--room ROOM]... [--file FILE[:LINE]]... [--again] [--jobs JOBS] [--seconds SECONDS] [--toolchain FILE] [--pack ARCHIVE | --run | --continue]" >&2 && exit 2 ;;
    esac
done
groups=${groups:-engine check forms decide serve}
for group in $groups; do
    [ -n "$(folders_of "$group")" ] || { echo "mutate.sh: no room is called \"$group\"; there are: engine, check, forms, decide, serve" >&2 && exit 2; }
done

root=$PWD
place=$root/build/mutate${toolchain:+_for_another_processor}
tree=$place/tree
deadline=$(($(date +%s) + seconds))
mkdir -p "$tree/src"
unset GS_MUTANT

# ---- which faults ----

# list_faults GROUP: all possible faults: GROUP, FILE, ORDINAL, LINE, KIND, what is changed, into what. The invariants of the
# engine are left out: only tests ask for them. So is what talks to NVIDIA's MPS, which only machines with GPUs have.
list_faults() {
    for file in $(find $(folders_of "$1") -name '*.[ch]' ! -name engine_check.c ! -name mps.c | sort); do
        awk -v mode=list -f scripts/mutate.awk "$file" | sed "s|^|$1	$file	|"
    done
}

# draw_faults GROUP: the list in an order that the seed decides.
draw_faults() {
    list_faults "$1" | awk -v seed="$seed" '
        # The generator of Lehmer: its numbers fit into a double.
        function next_random() { return state = state * 48271 % 2147483647 }
        { row[NR] = $0 }
        END {
            state = seed % 2147483646 + 1
            for (i = 0; i < 10; i++)
                next_random()
            for (i = NR; i > 1; i--) {
                j = int(next_random() / 2147483647 * i) + 1
                kept = row[i]; row[i] = row[j]; row[j] = kept
            }
            for (i = 1; i <= NR; i++)
                print row[i]
        }'
}

# choose_faults: the file "chosen": NUMBER and the columns above. What does not compile is left out.
choose_faults() {
    each=$((count / $(echo "$groups" | wc -w)))
    : >"$place/chosen"
    for group in $groups; do
        if [ -n "$again" ]; then
            list_faults "$group" | awk -F '\t' -v survivors="$place/survivors" '
                BEGIN { while ((getline row < survivors) > 0) survived[row] = 1 }
                ($2 FS $5 FS $6 FS $7) in survived'
        elif [ -n "$only" ]; then
            list_faults "$group" | awk -F '\t' -v only="$only " 'index(only, " " $2 " ") || index(only, " " $2 ":" $4 " ")'
        else
            draw_faults "$group"
        fi | awk -F '\t' -v broken="$place/broken" -v each="$each" '
            BEGIN { while ((getline row < broken) > 0) is_broken[row] = 1 }
            !(($2 FS $7) in is_broken) && chosen++ < each' >>"$place/chosen"
    done
    awk -F '\t' '{ print ++turn[$1] "\t" $0 }' "$place/chosen" | sort -s -n -k 1,1 | cut -f2- |
        awk '{ print NR "\t" $0 }' >"$place/numbered" && mv "$place/numbered" "$place/chosen"
}

# ---- the build ----

# put FILE: standard input becomes the file, unless it is that already.
put() {
    cat >"$place/new"
    cmp -s "$place/new" "$1" || { mkdir -p "$(dirname "$1")" && cp "$place/new" "$1"; }
}

# copy_tree: the sources, with the chosen faults. All else is linked.
copy_tree() {
    for entry in * .clang-format; do
        case $entry in
        src | build) ;;
        *) [ -e "$tree/$entry" ] || ln -s "$root/$entry" "$tree/$entry" ;;
        esac
    done
    cut -f3 "$place/chosen" | sort -u >"$place/planted_files"
    (cd src && find . -type f) | sed 's|^\./|src/|' | sort >"$place/files"
    (cd "$tree/src" && find . -type f) | sed 's|^\./|src/|' | sort | comm -13 "$place/files" - | (cd "$tree" && xargs -r rm)
    grep -vxF -f "$place/planted_files" "$place/files" | while read -r file; do
        cmp -s "$file" "$tree/$file" || { mkdir -p "$tree/$(dirname "$file")" && cp "$file" "$tree/$file"; }
    done
    while read -r file; do
        awk -F '\t' -v file="$file" '$3 == file { print $4, $1 }' "$place/chosen" >"$place/ordinals"
        { echo '#include "'"$place/mutant.h"'"' && awk -v mode=plant -v chosen="$place/ordinals" -f scripts/mutate.awk "$file"; } |
            put "$tree/$file"
    done <"$place/planted_files"
    put "$place/mutant.h" <<'END'
#pragma once
extern int gs_mutant;
extern unsigned char *gs_reached;
#define GS_FAULT(number) (gs_reached[number] = 1, gs_mutant == (number))
END
    put "$tree/src/base/mutant.c" <<'END'
/* mutant.c: the fault that this process has, and the places that it has reached, which are shared through a file. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
enum { MOST = 1 << 16 };
static unsigned char own[MOST];
__attribute__((visibility("hidden"))) int gs_mutant;
__attribute__((visibility("hidden"))) unsigned char *gs_reached = own;
__attribute__((constructor)) static void choose_mutant(void) {
    const char *text = getenv("GS_MUTANT"), *path = getenv("GS_REACHED");
    int file = path ? open(path, O_RDWR) : -1;
    void *shared = file < 0 ? MAP_FAILED : mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    gs_mutant = text ? atoi(text) : 0;
    if (shared != MAP_FAILED)
        gs_reached = shared;
    if (file >= 0)
        close(file);
}
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "detect_leaks=0:protect_shadow_gap=0"; /* NVIDIA's driver wants that memory */
}
END
}

# With AddressSanitizer and the engine's own checks, as the preset asan: reading behind the end of an array is seen, and so is a
# division by zero, which some processors do without a word. Optimized
# little, because functions with faults in them are long. The sanitizer of older compilers and programs at random addresses do
# not agree on where memory is.
configure() {
    [ -n "$(find "$place/build/build.ninja" -newer scripts/mutate.sh 2>/dev/null)" ] || cmake -S "$tree" -B "$place/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        ${toolchain:+"-DCMAKE_TOOLCHAIN_FILE=$root/$toolchain"} -DGRIDSMITH_TESTS=ON \
        -DGRIDSMITH_CCACHE=ON -DCMAKE_C_FLAGS=-w "-DCMAKE_EXE_LINKER_FLAGS=-s -no-pie -Wl,-rpath,$place/lib" \
        "-DCMAKE_SHARED_LINKER_FLAGS=-s -Wl,-rpath,$place/lib" "-DCMAKE_MODULE_LINKER_FLAGS=-s -Wl,-rpath,$place/lib" \
        "-DCMAKE_C_FLAGS_RELEASE=-O1 -fsanitize=address,bounds,integer-divide-by-zero -fno-sanitize-recover=all -DGRIDSMITH_CHECKED" >"$place/cmake.log"
}

# note_broken LOG: the faults whose lines the compiler complains of. ccache may name files by their path from the build.
note_broken() {
    sed -n -e 's|^\.\./tree/|'"$tree"'/|' -e 's/^\([^ :]*\):\([0-9]*\):[0-9]*: error: .*/\1 \2/p' "$1" | sort -u | while read -r file line; do
        head -n "$line" "$file" | sed -n 's/.*GS_FAULT(\([0-9]*\)).*/\1/p' | tail -n 1
    done | sort -un | while read -r number; do
        awk -F '\t' -v number="$number" '$1 == number { print $3 FS $8 }' "$place/chosen"
    done
}

# build_tests: again, until all faults compile.
build_tests() {
    : >>"$place/broken"
    while :; do
        choose_faults
        copy_tree
        configure
        programs=$(all_tests | sed -e 's/:.*//' -e '/^documented_commands$/d' -e '/^command_line$/d' -e '/^terminal$/d' -e 's/^/test_/' -e 's/^test_hostile_clients$/hostile/')
        # shellcheck disable=SC2086
        nice ninja -C "$place/build" -k 0 gridsmith $programs >"$place/build.log" 2>&1 && return
        note_broken "$place/build.log" >"$place/more_broken"
        [ -s "$place/more_broken" ] || { cat "$place/build.log" && exit 1; }
        cat "$place/more_broken" >>"$place/broken"
    done
}

# ---- the tests ----

# run_test NAME[:RUNS] FAULT CPU_SECONDS SECONDS: whether it passes; 124 or 137 where it takes more SECONDS. Each of the $jobs
# has a folder, $own, in which ctest writes.
run_test() {
    (
        runs=${1#*:}
        [ "$runs" != "$1" ] || runs=1000
        ulimit -c 0
        ulimit -t "$3"
        cd "$own"
        GRIDSMITH_RUNS=$runs CMOCKA_TEST_ABORT=1 GS_MUTANT=$2 exec nice timeout -k 5 "$4" ctest --output-on-failure -R "^${1%:*}\$"
    ) >"$own/log" 2>&1
}

# at_a_time FUNCTION: $jobs processes of it.
at_a_time() {
    rm -rf "$place/jobs"
    for job in $(seq "$jobs"); do
        own=$place/jobs/$job
        mkdir -p "$own"
        echo "subdirs(\"$place/build/tests\")" >"$own/CTestTestfile.cmake"
        "$1" &
    done
    wait
}

# take NAME: whether no other process has taken it.
take() {
    mkdir "$place/taken/$1" 2>/dev/null
}

# count_cpu: sets cpu_seconds to those of the processes that this shell has waited for.
count_cpu() {
    times >"$own/cpu"
    cpu_seconds=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] } print int(sum + 0.5) }' "$own/cpu")
}

# measure_test NAME: how long it takes without a fault: the file "times" has NAME, SECONDS and CPU_SECONDS. Which faults it
# reaches: the file "reached.NAME".
measure_test() {
    head -c 65536 /dev/zero >"$own/reached"
    count_cpu
    begin=$(date +%s) begin_cpu=$cpu_seconds
    GS_REACHED=$own/reached run_test "$1" 0 300 600 || { is_fragile "$1" && run_test "$1" 0 300 600; } || {
        cp "$own/log" "$place/failed.$1"
        echo "mutate.sh: the test $1 fails without a fault, and is left out" >&2
        return
    }
    count_cpu
    echo "$1 $(($(date +%s) - begin)) $((cpu_seconds - begin_cpu))" >>"$place/times"
    od -An -v -tu1 -w1 "$own/reached" | awk '$1 { print NR - 1 }' >"$place/reached.$1"
}

# longest_first: tests, in the order of their COST in tests/CMakeLists.txt, so that none begins last and takes long.
longest_first() {
    awk 'FNR == NR && match($0, /COST "[0-9]+/) { split($0, part, /\[=\[|\]=\]/); cost[part[2]] = substr($0, RSTART + 6, RLENGTH - 6) }
        FNR < NR { name = $0; sub(/:.*/, "", name); print cost[name] + 0, $0 }' "$place/build/tests/CTestTestfile.cmake" - | sort -s -n -r -k 1,1 | cut -d ' ' -f 2
}

# is_of_phase NAME: whether the test is one of those that are measured now.
is_of_phase() {
    if is_long "$1"; then [ "$phase" = long ]; else [ "$phase" = quick ]; fi
}

measure_tests() {
    for name in $(all_tests | longest_first); do
        [ "$(date +%s)" -lt "$deadline" ] || break
        ! is_of_phase "$name" || [ -e "$place/reached.$name" ] || ! take "$name" || measure_test "$name"
    done
}

# list_late: the file "late": the tests that run last, because they take long, or have turned out to.
list_late() {
    for name in $(all_tests); do ! is_long "$name" || echo "$name"; done >"$place/late"
    awk -v most="$QUICK_SECONDS" '$3 > most { print $1 }' "$place/times" >>"$place/late"
}

# is_seen NAME FAULT: whether the test fails, or takes too long where the same test without the fault does not.
is_seen() {
    failures=0
    usual=$(awk -v name="$1" '$1 == name { print $2 }' "$place/times") cpu=$(awk -v name="$1" '$1 == name { print $3 }' "$place/times")
    for try in 1 2 3; do
        run_test "$1" "$2" $((cpu * 2 + 5)) $((usual * 4 + 40)) && return 1 || status=$?
        if [ "$status" -ne 124 ] && [ "$status" -ne 137 ]; then
            failures=$((failures + 1))
            is_fragile "$1" && [ "$failures" -lt 2 ] || return 0
        elif run_test "$1" 0 $((cpu * 2 + 5)) $((usual * 2 + 20)); then
            return 0
        fi
    done
    return 1
}

# tests_for GROUP FAULT: the tests of this phase that reach its place. Those of other groups run last, as the long ones.
tests_for() {
    tests_of "$1" | tr ' ' '\n' >"$own/of_group"
    if [ "$phase" = quick ]; then
        grep -vxF -f "$place/late" "$own/of_group"
    else
        grep -xF -f "$place/late" "$own/of_group"
        sort -n -k 3 "$place/times" | cut -d ' ' -f 1 | grep -vxF -f "$own/of_group"
    fi | while read -r name; do
        ! grep -qxs "$2" "$place/reached.$name" || echo "$name"
    done | awk '!is_listed[$0]++'
}

# run_tests FAULT: those that nobody has taken, until one sees it.
run_tests() {
    while read -r name; do
        [ ! -e "$place/taken/$1.seen" ] || return 0
        ! grep -qxs "$name" "$place/passed.$1" && take "$1.$name" || continue
        if is_seen "$name" "$1" </dev/null; then
            ! take "$1.seen" || echo "$1	$name" >>"$place/results"
        else
            echo "$name" >>"$place/passed.$1"
        fi
    done <"$place/tests.$1.$phase"
}

# is_equivalent FILE ORIGINAL FAULTY: whether tests/mutations.txt lists it, or all faults of that place.
is_equivalent() {
    cut -f1-3 tests/mutations.txt | grep -qxF -e "$1	$2	$3" -e "$1	$2	*"
}

# check_list: each row of tests/mutations.txt is that of a fault, and has a reason.
check_list() {
    for group in engine check forms decide serve; do list_faults "$group"; done | awk -F '\t' '
        FNR == NR { is_fault[$2 FS $6 FS $7] = is_fault[$2 FS $6 FS "*"] = 1 }
        FNR < NR && !/^#/ && (!(($1 FS $2 FS $3) in is_fault) || $4 == "") {
            print "tests/mutations.txt:" FNR ": no such fault, or no reason: " $2
            is_wrong = 1
        }
        END { exit is_wrong }' - tests/mutations.txt >&2
}

# try_faults: each process takes faults. When all are taken, or the time is over, it helps others with theirs.
try_faults() {
    while IFS='	' read -r number group file ordinal line kind original faulty; do
        [ "$(date +%s)" -lt "$deadline" ] || break
        [ ! -e "$place/taken/$number.seen" ] && take "$number.$phase" || continue
        if is_equivalent "$file" "$original" "$faulty"; then
            take "$number.seen"
            echo "$number	equivalent" >>"$place/results"
        else
            tests_for "$group" "$number" >"$own/tests" && mv "$own/tests" "$place/tests.$number.$phase"
            run_tests "$number"
        fi
    done <"$place/chosen"
    for number in $(cut -f1 "$place/chosen"); do
        [ ! -e "$place/tests.$number.$phase" ] || run_tests "$number"
    done
}

# name_survivors: "results" gets a line for each fault that was begun and not seen. All that comes after the first that was not
# begun is left out.
name_survivors() {
    total=$(wc -l <"$place/chosen")
    while IFS='	' read -r number group file ordinal line kind original faulty; do
        [ -e "$place/taken/$number.quick" ] || [ -e "$place/taken/$number.seen" ] || break
        [ ! -e "$place/taken/$number.seen" ] || continue
        why=
        grep -qx "$number" "$place"/reached.* || why=", not reached"
        [ -e "$place/tests.$number.long" ] && [ "$(cat "$place/passed.$number" 2>/dev/null | wc -l)" -ge "$(cat "$place/tests.$number".* | wc -l)" ] || why=", not finished"
        echo "$number	survived" >>"$place/results"
        printf '%s\t%s\t%s\t%s\n' "$file" "$kind" "$original" "$faulty" >>"$place/survivors"
        printf '%s of %s: survived: %s:%s: %s%s\n    %s\n    %s\n' "$number" "$total" "$file" "$line" "$kind" "$why" "$original" "$faulty"
    done <"$place/chosen"
}

report() {
    join -t '	' "$place/sorted_chosen" "$place/sorted_results" | awk -F '\t' '
        function row(name, p, e, s) {
            printf "%-8s %8d %8d %9d %11d %7.1f%%\n", name, p, p - e - s, s, e, p - e ? 100 * (p - e - s) / (p - e) : 100
        }
        { planted[$2]++; planted_all++ }
        $NF == "survived" { survived[$2]++; survived_all++ }
        $NF == "equivalent" { equivalent[$2]++; equivalent_all++ }
        !($2 in seen) { seen[$2] = 1; order[++groups] = $2 }
        END {
            printf "%-8s %8s %8s %9s %11s %8s\n", "room", "planted", "caught", "survived", "equivalent", "caught"
            for (i = 1; i <= groups; i++)
                row(order[i], planted[order[i]], equivalent[order[i]], survived[order[i]])
            row("all", planted_all, equivalent_all, survived_all)
            exit planted_all - equivalent_all > 0 && (planted_all - equivalent_all - survived_all) / (planted_all - equivalent_all) < 0.95
        }'
}

# pack ARCHIVE: what tests read of the repository, and the build without its objects. For another processor, libraries come along.
pack() {
    mkdir -p "$place/lib"
    for library in ${toolchain:+libasan.so.8 libubsan.so.1 libjansson.so.4 libcmocka.so.0 libsqlite3.so.0 libuv.so.1 libzstd.so.1 libz.so.1}; do
        find /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu /usr/x86_64-linux-gnu/lib -name "$library" -exec x86_64-linux-gnu-strip -o "$place/lib/$library" {} ';' 2>/dev/null || true
    done
    {
        git ls-files | grep -v -e '^corpus/dumps/' -e '^docs/pictures/.*png$' -e '^src/lab/.*c$' -e '^src/cmd/.*c$' -e '^tests/.*/test_.*c$' \
            -e '^tests/fuzz/corpus/\([bdgjnrs]\|p[alr]\)'
        find "${place#"$root"/}" ! -type d ! -name '*.[oa]' ! -path '*/CMakeFiles/*' ! -path '*/jobs/*' ! -name '*.log' ! -name build.ninja \
            ! -name .ninja_deps ! -name compile_commands.json ! -path '*/tree/src/*.c' ! -path "*/${place##*/}/build/*.c"
    } | sort -u | sed "s|^|${root#/}/|" | tar -C / -cf - -T - | xz --x86 --lzma2=preset=6,dict=192MiB >"$1"
}

check_list || exit 2
if [ -z "$is_built" ]; then
    [ -n "$again" ] || : >"$place/survivors"
    build_tests
fi
[ -z "$archive" ] || { pack "$archive" || exit 1; exit 0; }
if [ -n "$continues" ]; then
    find "$place/taken" -mindepth 1 ! -name '*.seen' -delete
    sed -i '/survived$/d' "$place/results"
else
    rm -rf "$place"/reached.* "$place"/failed.* "$place"/tests.* "$place"/passed.* "$place/times" "$place/taken"
    mkdir "$place/taken"
    : >"$place/results"
fi
: >"$place/survivors"
for phase in quick long; do
    at_a_time measure_tests
    list_late
    at_a_time try_faults
done
name_survivors
sort -t '	' -k 1,1 "$place/chosen" >"$place/sorted_chosen"
sort -t '	' -k 1,1 "$place/results" >"$place/sorted_results"
report
