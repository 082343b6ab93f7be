#!/bin/sh
# The program on a terminal of 80 columns: help and tables fit, pages do not flood it, top leaves it as it was. And what people
# type without having read everything: older names of options, names that end in .gz, a plan where it is needed.
#
#   sh tests/cmd/terminal.sh PROGRAM SOURCE_DIR
. "$(dirname "$0")/../support/checks.sh"
program=$1
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$work"' EXIT
cd "$2" || exit 1

# fits NAME COLUMNS COMMAND...: runs a command, whose lines have at most so many columns.
fits() {
    name=$1 columns=$2
    shift 2
    COLUMNS=$columns "$@" >"$work/out" 2>&1
    awk -v most="$columns" '{ gsub(/\033\[[0-9;]*m/, "") } length($0) > most { exit 1 }' "$work/out" || fail "$name: too wide"
    [ -s "$work/out" ] || fail "$name: no output"
}

# says NAME WORDS
says() {
    grep -qF -- "$2" "$work/out" || fail "$1: does not say \"$2\""
}

# ---- 80 columns ----
fits "the overview" 80 "$program" --help
for command in $("$program" completion bash | sed -n "s/.*--version help \([a-z ]*\)'.*/\1/p"); do
    fits "help of $command" 80 "$program" "$command" --help
    COLUMNS= "$program" "$command" --help >"$work/piped"
    cmp -s "$work/piped" "$work/out" || fail "help of $command: 80 columns is not what a pipe gets"
done
fits "help of plan --simulate" 80 "$program" plan --simulate --help
fits "predict" 80 "$program" predict --explain scenarios/case-2.1.json
fits "a run with times" 80 "$program" predict scenarios/h200-sixty.json
fits "check" 80 "$program" check scenarios/persistent-too-late.json
fits "replay" 80 "$program" replay corpus/h200-starter.jsonl.gz
fits "gpus" 80 "$program" gpus
head -n 1 "$work/out" | grep -q measured || fail "the head of gpus has two lines"
fits "a GPU" 80 "$program" gpus h200
fits "occupancy" 80 "$program" occupancy --gpu gh200 --threads 256 --registers 64
fits "plan" 80 "$program" plan examples/plan-kernels.json --device model
fits "what changed" 80 "$program" explain --compare corpus/h200-program-eager.jsonl.gz corpus/h200-program-nccl.jsonl.gz
fits "explain" 80 "$program" explain corpus/h200-program-eager.jsonl.gz
fits "bound" 80 "$program" bound --warps 4 --repeat 2
says "bound, in two parts" "warp 4      L   C   L   L   C   S"
fits "bound --grid" 80 "$program" bound --grid
fits "bound --run" 80 "$program" bound --run scenarios/case-1.2.json --repeat 10 --clock-mhz 1395 --copy-in-ns 20000
fits "bound --measured" 80 "$program" bound --measured corpus/h200-bounds.jsonl.gz
fits "zoo list" 80 "$program" zoo list
fits "zoo run" 80 "$program" zoo run sgemm --size tiny
fits "zoo bench" 80 "$program" zoo bench bfs --size tiny --repeat 1
"$program" bound --warps 4 --json >"$work/json"
COLUMNS=30 "$program" bound --warps 4 --json | cmp -s - "$work/json" || fail "JSON of bound is folded"
"$program" predict --json scenarios/case-2.1.json >"$work/json"
COLUMNS=30 "$program" predict --json scenarios/case-2.1.json | cmp -s - "$work/json" || fail "JSON is folded"
COLUMNS=30 "$program" check --json scenarios/persistent-too-late.json >"$work/out"
[ "$(wc -l <"$work/out")" = 1 ] || fail "JSON of check is folded"
COLUMNS=30 "$program" predict --csv scenarios/case-2.1.json >"$work/out"
"$program" predict --csv scenarios/case-2.1.json | cmp -s - "$work/out" || fail "CSV is folded"

# ---- names of files ----
"$program" predict --json -o "$work/run.json.gz" scenarios/case-2.1.json
gzip -dc "$work/run.json.gz" | cmp -s - "$work/json" || fail "-o FILE.gz is not the output, compressed"
"$program" predict --json -o "$work/bad.json.gz" scenarios/none.json 2>/dev/null
[ -z "$(ls "$work" | grep bad)" ] || fail "-o FILE.gz after an error leaves a file"

"$program" fuzz --device model:rtx3090 --count 4 -o "$work/runs.jsonl.gz" >"$work/out" 2>&1
[ $? = 2 ] || fail "a campaign into a .gz: exit code"
says "a campaign into a .gz" "leave out .gz"
"$program" trace -o "$work/app.jsonl.gz" -- true >"$work/out" 2>&1
[ $? = 2 ] || fail "a recording into a .gz: exit code"

# ---- what is missing is named for every system ----
mkdir "$work/bin"
for tool in sh awk sort tr cat mktemp rm sed dirname mkdir; do
    ln -s "$(command -v $tool)" "$work/bin/$tool"
done
PATH=$work/bin sh scripts/setup.sh build >"$work/out" 2>&1
[ $? = 4 ] || fail "setup without tools: exit code"
says "setup without tools" "dnf install cmake gcc glibc-devel jansson-devel libuv-devel libzstd-devel ninja-build pkgconf-pkg-config sqlite-devel zlib-devel"
says "setup without tools" "pacman -S cmake gcc glibc jansson libuv ninja pkgconf sqlite zlib zstd"
PATH=$work/bin sh scripts/release.sh "$work/release" >"$work/out" 2>&1
[ $? = 4 ] || fail "a release without tools: exit code"
says "a release without tools" "nothing was built"
[ ! -e "$work/release" ] || fail "a release without tools leaves a folder"

# ---- older names of options ----
"$program" fuzz --device model:rtx3090 --count 4 --out "$work/old.jsonl" >/dev/null 2>&1 || fail "fuzz --out"
"$program" fuzz --device model:rtx3090 --count 4 -o "$work/new.jsonl" >/dev/null 2>&1 || fail "fuzz -o"
cmp -s "$work/old.jsonl" "$work/new.jsonl" || fail "fuzz --out and -o differ"
for on in --on --device; do
    "$program" zoo run bfs $on host --size tiny >"$work/out" 2>&1 || fail "zoo run $on"
    "$program" plan examples/plan-kernels.json $on model --most 3 >"$work/out" 2>&1 || fail "plan $on"
done

# ---- one plan: what plan writes, plan --simulate reads ----
"$program" plan examples/plan-kernels.json --device model --measurements "$work/plan.db" -o "$work/plan.json" >"$work/out" ||
    fail "plan -o"
says "plan -o" "gemm + stream"
"$program" plan --simulate "$work/plan.json" --tasks gemm:3,stream:3 >"$work/out" 2>&1 || fail "plan --simulate of a plan"
says "plan --simulate" "throughput"
"$program" plan --simulate "$work/plan.db" --tasks gemm >"$work/out" 2>&1
[ $? = 2 ] || fail "plan --simulate of measurements: exit code"
says "plan --simulate of measurements" "the plan is what -o FILE writes"

# ---- Ctrl-C in fuzz: not complete, whatever was found so far ----
for device in model:rtx3090 model:rtx3090,warp_placement=free; do
    for seconds in 1 2 4 8 16 32; do # on a busy machine it may not have begun after a second
        timeout --preserve-status -k 60 $seconds "$program" fuzz --device $device --count 100000000 >"$work/out" 2>&1
        code=$?
        grep -q "stopped after" "$work/out" && break
    done
    [ $code = 143 ] || fail "fuzz on $device, stopped: exit code $code"
    says "fuzz on $device, stopped" "stopped after"
done

# ---- a real terminal ----
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    unset DISPLAY WAYLAND_DISPLAY
    export TMPDIR="$work"
    script -qec "stty cols 60; exec '$program' predict --explain scenarios/case-2.1.json" /dev/null </dev/null | tr -d '\r' >"$work/out"
    awk '{ gsub(/\033\[[0-9;]*m/, "") } length($0) > 60 { exit 1 }' "$work/out" || fail "a terminal of 60 columns: too wide"
    for kind in html svg; do
        script -qec "'$program' predict --$kind scenarios/case-2.1.json" /dev/null </dev/null >"$work/out"
        [ "$(wc -l <"$work/out")" = 1 ] || fail "--$kind floods the terminal"
        says "--$kind on a terminal" "predict.$kind"
        "$program" predict --$kind -o "$work/page" scenarios/case-2.1.json
        cmp -s "$work/page" "$work"/gridsmith-page-*/predict.$kind || fail "--$kind on a terminal: the file"
        rm -rf "$work"/gridsmith-page-*
    done
    script -qec "'$program' predict --html scenarios/none.json" /dev/null </dev/null >"$work/out"
    [ -z "$(ls "$work" | grep gridsmith-page)" ] || fail "a page that cannot be written leaves a folder"

    XDG_DATA_HOME=$work XDG_CACHE_HOME=$work "$program" serve --device host --no-mps --socket "$work/s" >/dev/null 2>&1 &
    daemon=$!
    tries=600
    until "$program" status --socket "$work/s" >/dev/null 2>&1 || [ $((tries -= 1)) = 0 ]; do
        sleep 0.1
    done
    # Some updates, then q, until it is read. The other screen is entered and left, and the keys work as before.
    (for _ in $(seq 600); do sleep 0.1 && grep -qs up "$work/raw" && break; done
     for _ in $(seq 60); do sleep 1 && printf q; done) | script -qec "stty cols 80 rows 5; before=\$(stty -g)
        timeout --foreground 120 '$program' top --every 100 --socket '$work/s'
        echo code \$?; [ \$(stty -g) = \$before ] && echo restored" /dev/null >"$work/raw"
    tr -d '\r' <"$work/raw" >"$work/out"
    says "top and q" "code 0"
    says "top and q" "restored"
    [ "$(grep -c "$(printf '\033\\[?1049[hl]')" "$work/out")" -ge 2 ] || fail "top: no screen of its own"
    says "top" "up"
else
    echo "no 'script': terminals are not tried"
fi

finish "all passed"
