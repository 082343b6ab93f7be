#!/bin/sh
# Installs what building and testing need, if anything is missing. Called by try.sh and test.sh.
# A tool or a library is detected by using it, so it may come from anywhere. Missing ones are installed with apt-get,
# by the names that Debian and Ubuntu have for it.
#
#   sh scripts/setup.sh build|test      GRIDSMITH_SETUP=ask: only names what is missing
set -eu
missing=
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT

# need PACKAGE COMMAND...: the package is missing if the command fails.
need() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

# links COMPILER OPTIONS...: whether the compiler builds the C program on standard input.
links() {
    "$@" -x c - -o "$scratch"
}

has_c_library() {
    echo '#include <stdio.h>
int main(void) { return puts(""); }' | links gcc
}

has_sanitizers() {
    echo 'int LLVMFuzzerTestOneInput(const char *bytes, unsigned long size) { return bytes && !size; }' |
        links clang -fsanitize=address,undefined,fuzzer
}

look_for_what_builds() {
    need gcc command -v gcc
    need libc6-dev has_c_library
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libjansson-dev pkg-config --exists jansson
    need libsqlite3-dev pkg-config --exists sqlite3
    need libuv1-dev pkg-config --exists libuv
    need zlib1g-dev pkg-config --exists zlib
    need libzstd-dev pkg-config --exists libzstd
}

look_for_what_tests() {
    need g++ command -v g++
    need clang command -v clang
    need libcmocka-dev pkg-config --exists cmocka
}

# What uses these is skipped without them; without ccache everything is compiled each time. The test with the real Slurm is
# skipped too, unless slurmctld, slurmd, slurm-client and munge are installed: they would be lines here, but their packages
# set up services.
look_for_what_helps() {
    need libxml2-utils command -v xmllint
    need mandoc command -v mandoc
    need spin command -v spin
    need python3 command -v python3
    need ccache command -v ccache
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# The names that other systems have for a package. A minus: it is there, or there is none.
#    Debian, Ubuntu   Fedora              Arch      macOS (Homebrew)
other_names() {
    cat <<'END'
    gcc              gcc                 gcc       -
    libc6-dev        glibc-devel         glibc     -
    cmake            cmake               cmake     cmake
    ninja-build      ninja-build         ninja     ninja
    pkg-config       pkgconf-pkg-config  pkgconf   pkgconf
    libjansson-dev   jansson-devel       jansson   jansson
    libsqlite3-dev   sqlite-devel        sqlite    -
    libuv1-dev       libuv-devel         libuv     -
    zlib1g-dev       zlib-devel          zlib      zlib
    libzstd-dev      libzstd-devel       zstd      -
    g++              gcc-c++             gcc       -
    clang            clang               clang     llvm
    libcmocka-dev    libcmocka-devel     cmocka    cmocka
END
}

# names_on COLUMN PACKAGES...: a line of packages.
names_on() {
    column=$1
    shift
    for package; do
        other_names | awk -v name="$package" -v column="$column" '$1 == name && $column != "-" { print $column }'
    done | sort -u | tr '\n' ' '
}

# ask_for PACKAGES...: says what to install, and ends.
ask_for() {
    {
        echo "setup: these packages are missing: $*"
        echo "  Debian, Ubuntu:  apt-get install $*"
        echo "  Fedora:          dnf install $(names_on 2 "$@")"
        echo "  Arch:            pacman -S $(names_on 3 "$@")"
        echo "  macOS:           brew install $(names_on 4 "$@")(for the library; the program needs Linux)"
    } >&2
    exit 4
}

can_install() {
    [ "${GRIDSMITH_SETUP:-}" != ask ] || return 1
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
}

# apt_install PACKAGES...
apt_install() {
    echo "setup: installing $*" >&2
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# must_install PACKAGES...
must_install() {
    [ $# != 0 ] || return 0
    can_install || ask_for "$@"
    apt_install "$@" || exit 4
}

# The runtime of clang's sanitizers, which has the version of clang in its name where it is a package of its own.
must_install_sanitizers() {
    has_sanitizers >/dev/null 2>&1 && return
    version=$(clang -dumpversion)
    must_install "libclang-rt-${version%%.*}-dev"
}

# may_install PACKAGES...: installs those that exist.
may_install() {
    known=
    for package; do
        apt-cache show "$package" >/dev/null 2>&1 && known="$known $package"
    done
    # shellcheck disable=SC2086
    { [ -n "$known" ] && can_install && apt_install $known; } || echo "setup: skipping what needs these packages: $*" >&2
}

# shellcheck disable=SC2086
{
    look_for_what_builds
    [ "${1:-build}" = build ] || look_for_what_tests
    must_install $missing
    if [ "${1:-build}" = test ]; then
        must_install_sanitizers
        missing=
        look_for_what_helps
        [ -z "$missing" ] || may_install $missing
    fi
}
