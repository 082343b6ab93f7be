#!/bin/bash
# Every program of tests/hangs on a GPU, under `gridsmith watch`: is the right cause named, does the program end with its fix,
# and are programs that do not hang left alone?
#
#   bash scripts/hangs.sh GRIDSMITH FOLDER [hangs] [fixed] [fine]
#
# Needs nvcc and a GPU with 228 KB of shared memory an SM. Each program that hangs is asked twice: without a dump, after 2 s, then
# with one (`watch --now PID --abort`), which ends it. A line for each program:
#
#   hang NAME: expected CAUSE, inferred CAUSE, seen CAUSE in SECONDS s: right, or wrong
#   fixed NAME: ended, or not
#   fine NAME: alarms N, exit code N
#
# The reports are in FOLDER. Four programs run at a time, or AT_ONCE. The exit code is 1 if a line is not as it should be.
set -u
gridsmith=$(realpath "$1")
mkdir -p "$2" && folder=$(realpath "$2") || exit 1
shift 2
parts=${*:-hangs fixed fine}
source_dir=$(cd "$(dirname "$0")/.." && pwd)
for name in hangs reported fine; do
    [ "$folder/$name" -nt "$source_dir/tests/hangs/$name.cu" ] ||
        timeout 120 nvcc -arch=native -lineinfo -o "$folder/$name" "$source_dir/tests/hangs/$name.cu" -lcuda &
done
wait
[ -x "$folder/hangs" ] && [ -x "$folder/reported" ] && [ -x "$folder/fine" ] || exit 1

# The program's file, its name, the causes that are right, with commas between.
programs="hangs barrier too-many-blocks
hangs two-kernels two-kernels
hangs lazy loading
hangs free whole-gpu
hangs local whole-gpu
hangs connections connections
hangs configuration configuration
hangs programmatic programmatic
hangs host-lock host-function
hangs wait-value never-issued
hangs circle never-issued
hangs heap heap
hangs block-barrier endless
hangs endless endless
hangs lost-flag endless
hangs ranks ranks
reported mirage-775 two-kernels
reported deepep-496 two-kernels,ranks
reported interpreter-lock host-function
reported lorax-149 endless"

# cause_in FILE...: the cause of the first report of these that is there.
cause_in() {
    local found
    found=$(cat "$@" 2>/dev/null | grep -o '"cause": *"[a-z-]*"' | head -n 1 | sed 's/.*"\([a-z-]*\)"$/\1/')
    echo "${found:-none}"
}

# children PROCESS: the processes that it has started, and those that they have.
children() {
    local child
    for child in $(ps -o pid= --ppid "$1" 2>/dev/null); do
        echo "$child"
        children "$child"
    done
}

try_hang() {
    local file=$1 name=$2 expected=$3 reports=$folder/hang.$2 watch app inferred seen start seconds verdict=wrong
    mkdir -p "$reports"
    timeout -s KILL 60 "$gridsmith" watch --after 2s -o "$reports" -- "$folder/$file" "$name" >"$reports/text" 2>&1 &
    watch=$!
    for _ in $(seq 25); do # until there is a report, or for 5 s
        sleep 0.2
        [ "$(cause_in "$reports"/hang*.json)" != none ] && break
    done
    sleep 0.5 # for the other rank
    inferred=$(cause_in "$reports"/hang*.json)
    start=$(date +%s)
    for app in $(children $watch); do # those that are not watched are refused
        timeout -s KILL 30 "$gridsmith" watch --now "$app" --abort >>"$reports/now" 2>/dev/null
    done
    seen=$(sed -n '1s/.*: \([a-z-]*\)$/\1/p' "$reports/now" 2>/dev/null)
    seconds=$(($(date +%s) - start))
    for app in $(children $watch); do
        kill -KILL "$app" 2>/dev/null
    done
    wait $watch
    case ,$expected, in *,"$seen",*) verdict=right ;; esac
    [ -z "$seen" ] && grep -q ' ended$' "$reports/text" && seen="nothing, it ended"
    echo "hang $name: expected $expected, inferred $inferred, seen ${seen:-none} in $seconds s: $verdict"
}

try_fixed() {
    local said
    said=$(timeout -s KILL 30 "$folder/$1" "$2" fixed 2>&1)
    echo "fixed $2: $([ "$said" = "$2 ended" ] && echo ended || echo "not: $said")"
}

try_fine() {
    local code
    timeout -s KILL 40 "$gridsmith" watch --after 1s -- "$folder/fine" "$1" >"$folder/fine.$1" 2>&1
    code=$?
    echo "fine $1: alarms $(grep -c 'no progress' "$folder/fine.$1"), exit code $code"
}

# Runs a function for each line of the input, several at a time.
side_by_side() {
    local line
    while read -r line; do
        while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-4}" ]; do
            wait -n
        done
        # shellcheck disable=SC2086
        $1 $line </dev/null &
    done
    wait
}

{
    for part in $parts; do
        case $part in
        hangs) echo "$programs" | side_by_side try_hang ;;
        fixed) echo "$programs" | side_by_side try_fixed ;;
        fine) "$folder/fine" | side_by_side try_fine ;;
        *) echo "unknown part $part: use hangs, fixed or fine" ;;
        esac
    done
} | tee "$folder/answers"
! grep -qE ': wrong$|: not|alarms [1-9]|^unknown' "$folder/answers"
