#!/bin/sh
# Makes a release of the last commit in out/release, or in DIR:
#
#   gridsmith-VERSION.tar.gz               the source
#   gridsmith-VERSION-linux-MACHINE.tar.gz the program for x86_64 and aarch64, which needs only glibc 2.35 or later
#   *.deb, *.dsc, *.debian.tar.xz          Debian packages for this machine, and their source
#   Containerfile                          an image of the program
#   SHA256SUMS
#
#   sh scripts/release.sh [DIR [PART...]]     PART: source, portable, debian; default: all
#
# The same commit gives the same bytes, wherever and whenever it is built with the same compiler and libraries: times are
# those of the commit, and names of folders are left out. Needs what scripts/setup.sh installs; debhelper, dh-python and lintian for
# Debian packages; and for the other machine what scripts/cross.sh installs.
set -eu
cd "$(dirname "$0")/.."
out=${1:-out/release}
[ $# -gt 0 ] && shift
parts=${*:-source portable debian}

# check_tools: all that the parts need, before the first of them is built.
check_tools() {
    tools="git tar gzip sha256sum"
    for part in $parts; do
        case $part in
        source) ;;
        portable) tools="$tools cmake ninja cc pkg-config objdump strip" ;;
        debian) tools="$tools cmake ninja cc pkg-config dpkg-buildpackage dh dh_python3 lintian" ;;
        *) echo "usage: sh scripts/release.sh [DIR [source] [portable] [debian]]" >&2 && exit 2 ;;
        esac
    done
    missing=
    for tool in $tools; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    case " $missing" in *" dpkg-buildpackage"*) missing="$missing (package dpkg-dev)" ;; esac
    case " $missing" in *" dh"*) missing="$missing (packages debhelper, dh-python)" ;; esac
    [ -z "$missing" ] || { echo "release: not found:$missing; nothing was built" >&2 && exit 4; }
    case " $parts " in *" debian "*) dpkg-checkbuilddeps debian/control || { echo "release: nothing was built" >&2 && exit 4; } ;; esac
}
check_tools

mkdir -p "$out"
out=$(cd "$out" && pwd)
version=$(sed -n 's/^project(gridsmith VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=gridsmith-$version
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
LC_ALL=C
TZ=UTC
export LC_ALL TZ
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() {
    echo "release: $*"
}


# pack FOLDER FILE: a folder of $work as an archive that depends only on its files.
pack() {
    tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$1" |
        gzip -n -9 >"$2"
}

# The source has no debian/: Debian's packages add it.
make_source() {
    git archive --format=tar --prefix="$name/" HEAD . ':!debian' | gzip -n -9 >"$work/$name.tar.gz"
    tar -C "$work" -xf "$work/$name.tar.gz"
}

# ---- portable programs ----------------------------------------------------------------------------------------------

# check that each program and library needs only symbols of glibc 2.35.
check_portable() {
    for file in "$@"; do
        needed=$(objdump -p "$file" | awk '$1 == "NEEDED" && $2 !~ /^(libc|libm|ld-linux.*)\.so/ { print $2 }')
        [ -z "$needed" ] || { say "$file needs $needed" && exit 1; }
        newest=$(objdump -T "$file" | grep -o 'GLIBC_2\.[0-9]*' | cut -d. -f2 | sort -n | tail -n 1)
        [ "${newest:-0}" -le 35 ] || { say "$file needs glibc 2.$newest" && exit 1; }
    done
}

# build_portable MACHINE PREFIX_OF_TOOLS OPTIONS...: $work/NAME-linux-MACHINE
build_portable() {
    machine=$1 tools=$2
    shift 2
    tree=$work/$name-linux-$machine
    say "portable program for $machine"
    cmake -G Ninja -S "$work/$name" -B "$work/$machine" -DCMAKE_BUILD_TYPE=Release -DGRIDSMITH_TESTS=OFF \
        -DGRIDSMITH_PORTABLE=ON -DCMAKE_INSTALL_LIBDIR=lib "$@" >"$work/log"
    cmake --build "$work/$machine" --target gridsmith gridsmith_trace gridsmith_gate gridsmith_trace_front gridsmith_watch_front \
        >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
    mkdir -p "$tree/bin" "$tree/lib/gridsmith/gate" "$tree/lib/gridsmith/front" "$tree/lib/gridsmith/watch" "$tree/share/man/man1" \
        "$tree/share/doc/gridsmith"
    cp "$work/$machine/gridsmith" "$tree/bin/"
    cp "$work/$machine/libgridsmith-trace.so" "$tree/lib/gridsmith/"
    cp "$work/$machine/gate/libcuda.so.1" "$tree/lib/gridsmith/gate/"
    ln -s libcuda.so.1 "$tree/lib/gridsmith/gate/libcuda.so"
    cp "$work/$machine/front/libcuda.so.1" "$tree/lib/gridsmith/front/"
    cp "$work/$machine/watch/libcuda.so.1" "$tree/lib/gridsmith/watch/"
    files="$tree/bin/gridsmith $tree/lib/gridsmith/libgridsmith-trace.so $tree/lib/gridsmith/gate/libcuda.so.1
        $tree/lib/gridsmith/front/libcuda.so.1 $tree/lib/gridsmith/watch/libcuda.so.1"
    # shellcheck disable=SC2086
    "${tools}strip" --strip-unneeded $files
    # shellcheck disable=SC2086
    check_portable $files
    cp "$work/$name"/man/*.1 "$tree/share/man/man1/"
    cp "$work/$name/README.md" "$work/$name/LICENSE" "$tree/share/doc/gridsmith/"
    pack "$name-linux-$machine" "$out/$name-linux-$machine.tar.gz"
}

make_portable() {
    native=$(uname -m)
    build_portable "$native" ""
    if [ "$native" = x86_64 ] || ! command -v x86_64-linux-gnu-gcc >/dev/null; then
        say "no program for another machine: only $native builds for x86_64 too, with what scripts/cross.sh installs"
    else
        build_portable x86_64 x86_64-linux-gnu- -DCMAKE_TOOLCHAIN_FILE="$work/$name/cmake/x86_64.cmake"
    fi
    cp "$work/$name/Containerfile" "$out/"
}

# ---- Debian packages ------------------------------------------------------------------------------------------------

make_debian() {
    say "Debian packages"
    mkdir "$work/debian"
    cp "$work/$name.tar.gz" "$work/debian/gridsmith_$version.orig.tar.gz"
    tar -C "$work/debian" -xf "$work/$name.tar.gz"
    git archive HEAD debian | tar -C "$work/debian/$name" -xf -
    # Files in the packages have the time of the changelog.
    (cd "$work/debian/$name" && unset SOURCE_DATE_EPOCH && DEB_BUILD_OPTIONS="noautodbgsym" dpkg-buildpackage -us -uc) \
        >"$work/log" 2>&1 || { tail -n 30 "$work/log" && exit 1; }
    lintian --fail-on error,warning "$work"/debian/*.changes
    cp "$work"/debian/*.deb "$work"/debian/*.dsc "$work"/debian/*.debian.tar.xz "$work"/debian/*.orig.tar.gz "$out/"
}

make_source
for part in $parts; do
    case $part in
    source) cp "$work/$name.tar.gz" "$out/" ;;
    portable) make_portable ;;
    debian) make_debian ;;
    esac
done
(cd "$out" && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | sort | xargs sha256sum >SHA256SUMS)
say "$out has $(wc -l <"$out/SHA256SUMS") files"
