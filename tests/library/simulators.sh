#!/bin/sh
# What examples/accel-sim and examples/mgpusim have, as far as it goes without the simulators: their patches add lines and
# change none, recorded launches become traces, the C++ header dispatches the blocks of these as recorded, and the Go package
# passes its tests.
#
#   sh tests/library/simulators.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1
examples=$2/examples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/usr" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name gridsmith.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH

for patch in "$examples/accel-sim/dispatch.patch" "$examples/mgpusim/dispatch.patch"; do
    (cd "$work" && git apply --unidiff-zero --numstat "$patch") >"$work/numstat"
    awk -v patch="$patch" '{ added += $1; removed += $2 } END {
        if (added < 10 || added > 200 || removed) { print patch ": " added " lines added, " removed " removed"; exit 1 } }' \
        "$work/numstat"
    if grep -E '^( |-[^-]|@@ .* @@.)' "$patch"; then
        echo "$patch has lines of the simulator" && exit 1
    fi
done

python3 "$examples/accel-sim/traces.py" "$2/corpus/h200.jsonl.gz" "$work/traces" --count 3 --class shared --instructions 1 \
    --loads 1 >/dev/null
# shellcheck disable=SC2046
c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$examples/accel-sim" "$2/tests/library/trace_dispatch.cpp" \
    -o "$work/dispatch" $(pkg-config --cflags --libs gridsmith)
for run in "$work"/traces/*; do
    grep -q '^insts = 3$' "$run/kernel-1.traceg"
    GRIDSMITH_GPU=h200 GRIDSMITH_LOG=$work/log "$work/dispatch" "$run"
    python3 "$examples/accel-sim/compare.py" "$run" "$work/log" >"$work/compared"
    awk '$2 != $4 || $7 != $9 || $9 < 50 { print; exit 1 }' "$work/compared"
    sed 's/^\(start 1 0\) [0-9]*/\1 60/' "$work/log" >"$work/other" # the first block on another SM
    python3 "$examples/accel-sim/compare.py" "$run" "$work/other" | awk '$2 != $4 - 1 || $7 != $9 - 1 { print; exit 1 }'
done
: >"$work/empty"
if python3 "$examples/accel-sim/compare.py" "$run" "$work/empty" 2>/dev/null; then
    echo "a simulation without blocks was compared" && exit 1
fi

# Bad input gets one line. With limits of its own, a simulator can have any number of SMs.
code=0
GRIDSMITH_GPU=rtx3090 "$work/dispatch" "$run" 2>"$work/errors" || code=$?
if [ "$code" != 2 ] ||
    ! grep -qx 'gridsmith: rtx3090 has 82 SMs, the simulator has 132; set GRIDSMITH_LIMITS=1' "$work/errors"; then
    echo "exit code $code:" && cat "$work/errors" && exit 1
fi
GRIDSMITH_GPU=b200 GRIDSMITH_LIMITS=1 GRIDSMITH_LOG=$work/log "$work/dispatch" "$work/traces/shared-0"
awk '$1 == "start" { started++ } $4 > 131 { outside++ } END { exit started < 100 || outside }' "$work/log"

if command -v go >/dev/null; then
    cp "$examples"/mgpusim/nvidia/gridsmith/*.go "$work"
    (cd "$work" && GOCACHE=$work/cache GO111MODULE=off go test gridsmith.go gridsmith_test.go)
    [ -z "$(gofmt -l "$examples/mgpusim/nvidia")" ] || { echo "gofmt would change a file" && exit 1; }
else
    echo "no Go compiler: its package was not tested"
fi
echo "patches, traces and dispatchers agree"
