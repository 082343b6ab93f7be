#!/bin/sh
# Installs the Debian packages that building and testing need, if any are missing. Called by try.sh and test.sh.
#
#   sh scripts/setup.sh build|test
set -eu

build_packages="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libsqlite3-dev libuv1-dev zlib1g-dev"
test_packages="g++ clang libclang-rt-14-dev libcmocka-dev libxml2-utils mandoc spin"

packages=$build_packages
[ "${1:-build}" = test ] && packages="$build_packages $test_packages"

missing=
for package in $packages; do
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "setup: these packages, or your system's names for them, are needed:$missing" >&2
    exit 4
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install:$missing" >&2; exit 4; }
    as_root=sudo
fi
echo "setup: installing$missing" >&2
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
