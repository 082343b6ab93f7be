#!/bin/sh
# From a fresh clone to a result: installs what is missing, builds, and shows the main job.
set -eu
cd "$(dirname "$0")/.."

sh scripts/setup.sh build

# The output of the build is kept here, and is shown if it fails.
log=build/try.log

build() {
    { cmake --preset release -DGRIDSMITH_TESTS=OFF && cmake --build --preset release; } 2>&1 || echo "the build failed"
}

# state WORDS: prints the progress of the build; on a terminal, in place of the last state.
state() {
    if [ -t 1 ]; then
        printf '\rbuilding ... %-16s' "$1"
    else
        printf ' %s' "$1"
    fi
}

# Reads the output of the build. Ninja begins a line with [STEP/STEPS].
follow() {
    begin=$(date +%s)
    printf 'building ...'
    while IFS= read -r line; do
        printf '%s\n' "$line" >&3
        case $line in
        "the build failed") state "failed" && echo && return 1 ;;
        "["*/*"]"*) [ ! -t 1 ] || state "$(echo "$line" | sed 's|^.\([0-9]*\)/\([0-9]*\)].*|\1 of \2|')" ;;
        esac
    done 3>"$log"
    state "done in $(($(date +%s) - begin)) s"
    echo
}

mkdir -p build
build | follow || { cat "$log" >&2 && exit 1; }

# show COMMAND...: 1 is an answer: no.
show() {
    echo
    echo "\$ $*" | sed 's|build/release/||'
    "$@" || [ $? = 1 ]
}
show build/release/gridsmith gpus h200
show build/release/gridsmith predict --explain scenarios/case-2.1.json
show build/release/gridsmith check scenarios/persistent-too-late.json
show build/release/gridsmith occupancy --gpu rtx3090 --threads 512 --registers 32 --shared 32768
build/release/gridsmith predict --svg -o build/streams.svg scenarios/streams.json
echo
echo "A picture of two streams is in build/streams.svg; open it in a browser."
echo "The program is build/release/gridsmith; 'build/release/gridsmith --help' says what else it does."
