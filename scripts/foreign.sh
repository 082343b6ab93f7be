#!/bin/sh
# Reshapes CUDA code of other projects: fetches Debian packages with CUDA code, unpacks them into a temporary folder, and
# tries to reshape every kernel in them and in the CUDA toolkit. Build first; needs apt and the network.
set -eu
cd "$(dirname "$0")/.."
program=$PWD/build/release/tests/foreign
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for package in libviennacl-dev libthrust-dev libcub-dev libopencv-dev; do
    apt-get download "$package" >/dev/null 2>&1 && dpkg -x "$package"_*.deb unpacked || echo "no $package here"
done
mkdir -p unpacked
"$program" unpacked /usr/local/cuda/include/cccl
