#!/bin/sh
# container.sh: runs a program as container engines do, without one: in namespaces of its own (user, processes, mounts, IPC,
# network, host name), with a root that has the programs of the system and what is mounted into it.
#
#   sh container.sh ROOT FROM:TO... -- PROGRAM [ARGUMENT...]     ROOT is an empty folder
set -e

if [ "$1" != inside ]; then
    exec unshare --user --map-root-user --mount --pid --fork --kill-child --ipc --net --uts sh "$0" inside "$@"
fi
root=$2
shift 2
mount -t tmpfs none "$root"
mkdir "$root/usr" "$root/dev" "$root/proc" "$root/tmp"
mount --rbind /usr "$root/usr"
mount --rbind /dev "$root/dev"
mount -t proc none "$root/proc"
for folder in bin lib lib64; do
    ln -s "usr/$folder" "$root/$folder"
done
while [ "$1" != -- ]; do
    from=${1%%:*}
    to=$root${1#*:}
    mkdir -p "$(dirname "$to")"
    if [ -d "$from" ]; then mkdir -p "$to"; else : >"$to"; fi
    mount --bind "$from" "$to"
    shift
done
shift
exec chroot "$root" "$@"
