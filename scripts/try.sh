#!/bin/sh
# From a fresh clone to a result: installs what is missing, builds, and shows the main job.
set -eu
cd "$(dirname "$0")/.."

sh scripts/setup.sh build
cmake --preset release -DGRIDSMITH_TESTS=OFF >/dev/null
cmake --build --preset release

show() {
    echo
    echo "\$ $*" | sed 's|build/release/||'
    "$@" || true
}
show build/release/gridsmith gpus
show build/release/gridsmith predict --explain scenarios/case-2.1.json
show build/release/gridsmith check scenarios/persistent-too-late.json
show build/release/gridsmith occupancy --gpu rtx3090 --threads 512 --registers 32 --shared 32768
build/release/gridsmith predict --svg -o build/streams.svg scenarios/streams.json
echo
echo "A picture of two streams is in build/streams.svg; open it in a browser."
echo "The program is build/release/gridsmith; 'build/release/gridsmith --help' says what else it does."
