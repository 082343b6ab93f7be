#!/bin/sh
# A disk that is full, at every size: commands that write say one line, exit with 4 and leave nothing half-written; a
# campaign continues when there is space again; a daemon goes on. The disk is a small tmpfs in a namespace of its own.
#
#   sh tests/cmd/full_disk.sh PROGRAM SOURCE_DIR
set -u
if [ "${3:-}" != inside ]; then
    unshare -rm true 2>/dev/null || { echo "skipped: no namespace can be made"; exit 77; }
    exec unshare -rm sh "$0" "$1" "$2" inside
fi
. "$(dirname "$0")/../support/checks.sh"
program=$1
cd "$2" || exit 1
disk=$work/disk
mkdir "$disk"
daemon=
clean_up() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null
    umount "$disk" 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

# Commands that write one file: all of it or nothing.
for size in 4k 8k 16k 32k 64k 128k 512k; do
    for form in json html svg trace csv; do
        mount -t tmpfs -o size=$size,mode=700 none "$disk" || exit 77
        "$program" predict --$form -o "$disk/out" scenarios/h200-sixty.json >/dev/null 2>"$work/err"
        code=$?
        if [ $code = 0 ]; then
            "$program" predict --$form scenarios/h200-sixty.json 2>/dev/null | cmp -s - "$disk/out" ||
                fail "predict --$form on $size: another file"
        elif [ $code != 4 ] || [ "$(wc -l <"$work/err")" != 1 ] || [ -n "$(ls -A "$disk")" ]; then
            fail "predict --$form on $size: exit code $code, or a file is left"
        fi
        umount "$disk"
    done
done

# A campaign: what is in the file are whole runs, and it continues.
mount -t tmpfs -o size=16k,mode=700 none "$disk" || exit 77
"$program" fuzz --device model --count 40 --out "$disk/runs.jsonl" >/dev/null 2>"$work/err"
[ $? = 4 ] || fail "fuzz on a full disk"
[ -z "$(tail -c 1 "$disk/runs.jsonl")" ] || fail "fuzz leaves a part of a line"
mount -o remount,size=4m "$disk"
"$program" fuzz --device model --count 40 --out "$disk/runs.jsonl" --resume >/dev/null 2>"$work/err" ||
    fail "fuzz --resume after the disk was full"
"$program" fuzz --device model --count 40 --out "$work/whole.jsonl" >/dev/null 2>&1
cmp -s "$disk/runs.jsonl" "$work/whole.jsonl" || fail "fuzz --resume: another file than without a full disk"
umount "$disk"

# A daemon whose cache, profiles and temporary files are on the disk.
mount -t tmpfs -o size=200k,mode=700 none "$disk" || exit 77
mkdir "$disk/cache" "$disk/tmp"
TMPDIR=$disk/tmp "$program" serve --device host --no-mps --sms 2 --socket "$work/s" --cache "$disk/cache" \
    --profiles "$disk/profiles.sqlite" 2>"$work/log" &
daemon=$!
tries=1200
until "$program" status --socket "$work/s" >/dev/null 2>&1 || [ $((tries -= 1)) = 0 ]; do
    sleep 0.1
done
GRIDSMITH_SOCKET=$work/s timeout 200 "$program" zoo run cp --on serve --size tiny >/dev/null 2>"$work/err"
code=$?
[ $code != 0 ] && [ $code != 124 ] && [ -s "$work/err" ] || fail "a kernel compiled on a full disk: exit code $code"
"$program" status --socket "$work/s" >/dev/null 2>"$work/err" || fail "the daemon does not answer after that"
[ -z "$(ls -A "$disk/tmp")" ] || fail "temporary files are left: $(ls "$disk/tmp")"
mount -o remount,size=64m "$disk"
GRIDSMITH_SOCKET=$work/s timeout 200 "$program" zoo run cp --on serve --size tiny >/dev/null 2>"$work/err" ||
    fail "a kernel after there is space again"
kill "$daemon"
wait "$daemon" || fail "the daemon ends with $?"
daemon=
finish "every full disk was answered"
