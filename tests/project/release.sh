#!/bin/sh
# Whether the parts of a release can be installed and work.
#
#   sh tests/project/release.sh quick BUILD_DIR SOURCE_DIR   what needs no release: versions, lists of files; part of the suite
#   sh tests/project/release.sh DIR                          the release in DIR, made by scripts/release.sh, in fresh roots
#   sh tests/project/release.sh twice                        makes two releases in different folders, compares them, tries one
#
# A fresh root is a folder with Debian's essential packages (mmdebstrap; as root, with Debian's archive at hand). The program
# for x86_64 is tried elsewhere too, if there is a qemu-x86_64 that is linked statically; $GRIDSMITH_QEMU names it. The
# container file is tried if there is buildah. $GRIDSMITH_OLD_ROOT is a root of x86_64 with glibc 2.35, if you have one.
set -eu

complain() {
    echo "FAILED $1"
    exit 1
}

# ---- quick ----------------------------------------------------------------------------------------------------------

# All say the same version.
check_versions() {
    version=$(sed -n 's/^project(gridsmith VERSION \([0-9.]*\).*/\1/p' "$1/CMakeLists.txt")
    grep -q "^#define GS_VERSION \"$version\"" "$1/include/gridsmith/gridsmith.h" || complain "GS_VERSION is not $version"
    grep -q "^version = \"$version\"" "$1/pyproject.toml" || complain "pyproject.toml is not of version $version"
    head -n 1 "$1/debian/changelog" | grep -q "^gridsmith ($version-" || complain "debian/changelog is not of $version"
}

# Each file that is installed is in a list of debian/, and each line of a list finds one.
check_lists() {
    find "$work/root" -type f -o -type l | sed "s|^$work/root/||" | sort >"$work/installed"
    : >"$work/listed"
    for list in "$1"/debian/*.install; do
        while read -r pattern _; do
            # A pattern is a file, or a folder with all that is in it.
            expression=$(echo "$pattern" | sed 's/\./\\./g; s/\*/[^\/]*/g')
            grep -E "^$expression(\$|/)" "$work/installed" >>"$work/listed" || complain "$list: no file is $pattern"
        done <"$list"
    done
    sort -u "$work/listed" | comm -23 "$work/installed" - >"$work/missing"
    [ ! -s "$work/missing" ] || complain "no package of debian/ has $(cat "$work/missing")"
}

quick() {
    check_versions "$2"
    DESTDIR=$work/root cmake --install "$1" --prefix /usr >/dev/null
    # Debian's folder of libraries is that of the machine.
    machine=$work/root/usr/lib/machine
    mkdir -p "$machine"
    libdir=$(dirname "$(dirname "$(find "$work/root" -name gridsmith.pc)")")
    for file in "$libdir"/lib* "$libdir"/cmake "$libdir"/pkgconfig "$libdir"/gridsmith; do
        mv "$file" "$machine/"
    done
    check_lists "$2"
    # Releases are made on Debian 12. A program that is built with a newer glibc may need that.
    newest=$(objdump -T "$work/root/usr/bin/gridsmith" | grep -o 'GLIBC_2\.[0-9]*' | cut -d. -f2 | sort -n | tail -n 1)
    [ "$newest" -le 35 ] || [ "$(getconf GNU_LIBC_VERSION | cut -d. -f2)" -gt 36 ] || complain "the program needs glibc 2.$newest"
    echo "versions and lists of files are right"
}

# ---- fresh roots ----------------------------------------------------------------------------------------------------

say() {
    echo "release test: $*"
}

# in_root ROOT COMMAND...
in_root() {
    root=$1
    shift
    chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

# try_program ROOT COMMAND...: the program predicts, makes a pack and adopts it.
try_program() {
    root=$1
    shift
    in_root "$root" "$@" predict /tmp/case.json >"$work/out" || complain "predict in $root"
    in_root "$root" rm -f /tmp/gpu.gspack
    in_root "$root" "$@" probe --device model:rtx3090 --runs 20 --held-out 13 --pack /tmp/gpu.gspack 2>"$work/err" ||
        complain "probe --pack in $root: $(cat "$work/err")"
    in_root "$root" "$@" adopt --dry-run /tmp/gpu.gspack >"$work/out" || complain "adopt in $root"
    grep -q "13 *13 100.0%" "$work/out" || complain "the description of a pack in $root is not exact"
}

try_portable() {
    say "portable program for $(uname -m)"
    tar -C "$work/fresh/opt" -xf "$release"/gridsmith-*-linux-"$(uname -m)".tar.gz
    program=$(cd "$work/fresh" && echo opt/gridsmith-*/bin/gridsmith)
    try_program "$work/fresh" "/$program"
    rm -rf "$work/fresh/opt/"gridsmith-*
}

# try_foreign ROOT: the program for x86_64 through qemu.
try_foreign() {
    mkdir -p "$1/opt" "$1/tmp"
    tar -C "$1/opt" -xf "$release"/gridsmith-*-linux-x86_64.tar.gz
    cp "$qemu" "$1/opt/qemu"
    cp "$source_dir/scenarios/case-2.1.json" "$1/tmp/case.json"
    program=$(cd "$1" && echo opt/gridsmith-*/bin/gridsmith)
    for library in "$1"/opt/gridsmith-*/lib/gridsmith/gate/libcuda.so.1; do
        [ -s "$library" ] || complain "there is no $library"
    done
    chroot "$1" /opt/qemu "/$program" predict /tmp/case.json >/dev/null || complain "predict on x86_64 in $1"
    rm -f "$1/tmp/gpu.gspack"
    chroot "$1" /opt/qemu "/$program" probe --device model:rtx3090 --runs 6 --held-out 13 --pack /tmp/gpu.gspack \
        2>/dev/null || complain "probe --pack on x86_64 in $1"
    rm -rf "$1"/opt/gridsmith-* "$1/opt/qemu" "$1/tmp/gpu.gspack" "$1/tmp/case.json"
}

try_x86_64() {
    qemu=${GRIDSMITH_QEMU:-$(command -v qemu-x86_64-static || true)}
    [ "$(uname -m)" != x86_64 ] || return 0
    [ -n "$qemu" ] || { say "skipped: the program for x86_64, because there is no qemu-x86_64-static" && return 0; }
    say "portable program for x86_64"
    mmdebstrap --quiet --variant=extract --architectures=amd64 --include=libc6 bookworm "$work/amd64"
    try_foreign "$work/amd64"
    [ -z "${GRIDSMITH_OLD_ROOT:-}" ] || try_foreign "$GRIDSMITH_OLD_ROOT"
}

try_packages() {
    say "Debian packages"
    cp "$release"/*.deb "$work/fresh/tmp/"
    in_root "$work/fresh" find / -xdev -name '*gridsmith*' ! -path '/tmp/*' ! -path '/proc/*' >"$work/before"
    in_root "$work/fresh" sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends /tmp/*.deb gcc libc6-dev \
        pkg-config >/dev/null 2>&1' || complain "the packages cannot be installed"
    try_program "$work/fresh" gridsmith
    cp "$source_dir/examples/dispatcher.c" "$work/fresh/tmp/"
    in_root "$work/fresh" sh -c 'cc -std=c17 -Wall -Werror /tmp/dispatcher.c -o /tmp/dispatcher \
        $(pkg-config --cflags --libs gridsmith) && /tmp/dispatcher' >"$work/out" || complain "a program with the library"
    diff "$source_dir/examples/expected/dispatcher.txt" "$work/out" || complain "a program with the library"
    in_root "$work/fresh" python3 -c 'import gridsmith' || complain "the Python module"
    for file in usr/share/man/man1/gridsmith-probe.1.gz usr/lib/systemd/user/gridsmith.socket usr/share/gridsmith/gpus; do
        [ -e "$work/fresh/$file" ] || [ -d "$work/fresh/$file" ] || complain "$file is not installed"
    done
    in_root "$work/fresh" sh -c 'apt-get -qq purge -y "*gridsmith*" >/dev/null 2>&1'
    in_root "$work/fresh" find / -xdev -name '*gridsmith*' ! -path '/tmp/*' ! -path '/proc/*' ! -path '/var/lib/apt/*' \
        ! -path '/var/cache/*' ! -path '/var/log/*' | diff "$work/before" - || complain "files are left after a purge"
}

try_source() {
    say "source archive"
    tar -C "$work/fresh/root" -xf "$release"/gridsmith-[0-9].[0-9].[0-9].tar.gz
    in_root "$work/fresh" sh -c 'cd /root/gridsmith-* && sh scripts/setup.sh build >/dev/null 2>&1 &&
        cmake -G Ninja -B build -DGRIDSMITH_TESTS=OFF >/dev/null && cmake --build build >/dev/null &&
        cmake --install build --prefix /usr/local >/dev/null' || complain "the source archive cannot be built"
    try_program "$work/fresh" /usr/local/bin/gridsmith
}

try_container() {
    command -v buildah >/dev/null || { say "skipped: the container file, because there is no buildah" && return 0; }
    say "container file"
    export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
    store="buildah --root $work/store --runroot $work/store-run"
    tar -C "$work/fresh" --exclude=./proc --exclude=./sys --exclude=./dev --exclude=./tmp --exclude=./root -cf "$work/base.tar" .
    base=$($store from scratch)
    $store add --quiet "$base" "$work/base.tar" / >/dev/null
    $store commit --quiet "$base" localhost/base >/dev/null
    case $(uname -m) in aarch64) arch=arm64 ;; *) arch=amd64 ;; esac
    $store bud --quiet --pull-never --build-arg BASE=localhost/base --build-arg TARGETARCH=$arch -t gridsmith \
        -f "$release/Containerfile" "$release" >/dev/null || complain "the container file"
    container=$($store from gridsmith)
    $store run "$container" -- gridsmith gpus | grep -q rtx3090 || complain "the program in a container"
}

try_release() {
    [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null || { echo "skipped: needs root and mmdebstrap" && exit 0; }
    (cd "$release" && sha256sum --quiet -c SHA256SUMS) || complain "SHA256SUMS"
    say "a fresh root"
    mmdebstrap --quiet --variant=apt bookworm "$work/fresh"
    cp /etc/resolv.conf "$work/fresh/etc/" 2>/dev/null || true
    cp "$source_dir/scenarios/case-2.1.json" "$work/fresh/tmp/case.json"
    try_portable
    try_x86_64
    try_container
    try_packages
    try_source
    say "everything works"
}

# Another folder, another time zone, another language, and files that others cannot read.
make_twice() {
    say "two releases"
    sh "$source_dir/scripts/release.sh" "$work/one"
    mkdir "$work/other folder"
    git clone -q "$source_dir" "$work/other folder/clone"
    (umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 TMPDIR="$work/other folder" \
        sh "$work/other folder/clone/scripts/release.sh" "$work/two")
    diff "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || complain "the two releases differ"
    release=$work/one
}

work=$(mktemp -d /var/tmp/gridsmith-release-XXXXXX)
trap 'rm -rf "$work"' EXIT
case ${1:-} in
quick) quick "$2" "$3" ;;
twice)
    source_dir=$(cd "$(dirname "$0")/.." && pwd)
    make_twice
    try_release
    ;;
?*)
    source_dir=$(cd "$(dirname "$0")/.." && pwd)
    release=$(cd "$1" && pwd)
    try_release
    ;;
*) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
