#!/bin/sh
# A soak of the daemon: 64 honest clients for long, beside clients that are killed, stopped or leave in the middle of
# everything; then with the worker killed again and again; then with a daemon whose clocks are not those of its clients.
#
#   sh scripts/soak.sh [SECONDS [KIT [PROGRAM [OPTION...]]]]
#
# 1,800 seconds, and the programs of build/release, if nothing else is said; the options go to the kit (--device cuda). The kit is
# tests/hostile: it fails if an honest client is ended, gets a wrong result or hangs, if the daemon or, where nobody kills it, the
# worker ends, or if descriptors, mappings, memory, processes or files are left. How long clients wait is not asked: 64 of them
# are more than most machines have cores. A line for each part; exit code 1: one failed.
#
# The other clocks need root, and time namespaces of Linux. Jumps of the time of day, which change it for the whole machine, and
# memory limits of a cgroup are not tried.
set -u
seconds=${1:-1800}
here=$(cd "$(dirname "$0")/.." && pwd)
kit=${2:-$here/build/release/tests/hostile}
program=${3:-$here/build/release/gridsmith}
shift $(($# < 3 ? $# : 3))
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# part NAME SECONDS OPTION...
part() {
    name=$1 share=$2
    shift 2
    if "$kit" --seconds "$share" --control 0 "$@" >"$folder/out" 2>&1; then
        echo "$name, $share s: nothing lost; $(grep '^daemon ' "$folder/out" | tr -s ' ')"
    else
        echo "$name, $share s: FAILED"
        grep -v '^ ' "$folder/out" | tail -n 40
        failed=1
    fi
}

# All attacks but those that kill, stop and leave.
kept="all_in_flight sudden_exit connect_close clients_of_children clients_stopped loads_without_end handles_reused program_pages"
others=$("$kit" --list | awk -v kept=" $kept " '!index(kept, " " $1 " ") { printf "%s%s", count++ ? "," : "", $1 }')

part "clients that are killed" $((seconds * 8 / 10)) --all --without "$others" --honest 64 --program "$program" "$@"
part "a worker that is killed" $((seconds / 10)) --only worker_killed --honest 64 --program "$program" "$@"
printf '#!/bin/sh\nexec unshare --time --monotonic 100000 --boottime 100000 "%s" "$@"\n' "$program" >"$folder/other_clock"
chmod +x "$folder/other_clock"
if "$folder/other_clock" --version >/dev/null 2>&1; then
    part "other clocks" $((seconds / 10)) --all --without "$others" --honest 64 --program "$folder/other_clock" "$@"
else
    echo "other clocks: not tried: they need root, and time namespaces"
fi
exit $failed
