#!/bin/sh
# A campaign with the real Slurm: 20 shards on a model; commands killed, tasks told to end, requeued and canceled, the
# controller restarted midway. The result is that of one process, byte for byte.
#
#   sh tests/campaign/slurm.sh PROGRAM
#
# Starts munged, slurmctld and slurmd of its own, on free ports and with all their files in a temporary folder, and stops
# them. Needs root, because slurmd does, and Debian's packages slurmctld, slurmd, slurm-client and munge. Skipped with 77.
set -u
program=$1
skip() {
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
PATH=$PATH:/usr/sbin
for tool in munged slurmctld slurmd sbatch squeue scontrol; do
    command -v $tool >/dev/null || skip "$tool is not installed (Debian: slurmctld slurmd slurm-client munge)"
done
work=$(mktemp -d)
cd "$work" || exit 1
failed=0
complain() {
    echo "FAILED $1"
    failed=1
}
# stop PROCESS: ends a daemon that this test has started, and waits for it.
stop() {
    [ -z "$1" ] || { kill "$1" && wait "$1"; } 2>/dev/null
}
munged='' slurmctld='' slurmd=''
finish() {
    [ -z "$slurmctld" ] || timeout 10 scancel --user=root 2>/dev/null
    for process in $(players); do
        kill -KILL "$process" 2>/dev/null
    done
    stop "$slurmd"
    stop "$slurmctld"
    stop "$munged"
    cd / && rm -rf "$work"
}
# The processes that play shards of this campaign.
players() {
    grep -lzs -- "$work/far/shard[s]" /proc/[0-9]*/cmdline | sed 's|/proc/||; s|/cmdline||'
}
trap finish EXIT
trap 'exit 1' INT TERM

# ---- the cluster: this machine ----
# Ports that are free now: from the number of this process, so that two tests do not meet.
port=$((20000 + $$ % 20000))
mkdir state spool
head -c 1024 /dev/urandom >munge.key
chmod 400 munge.key
munged --foreground --force --socket="$work/munge.sock" --key-file="$work/munge.key" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munge.seed" 2>"$work/munged.err" &
munged=$!
cat >slurm.conf <<EOF
ClusterName=gridsmith
SlurmctldHost=localhost
SlurmUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$work/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
KillWait=1
NodeName=localhost NodeAddr=127.0.0.1 CPUs=6 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
EOF
SLURM_CONF=$work/slurm.conf
export SLURM_CONF
# until_done COMMAND...: waits until the command succeeds, for two minutes at most in the whole test.
deadline=$(($(date +%s) + 120))
until_done() {
    while ! "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt $deadline ] || return 1
        sleep 0.05
    done
}
is_idle() {
    timeout 5 sinfo --noheader --format=%T | grep -q idle
}
start_controller() {
    slurmctld -D -f slurm.conf >/dev/null 2>&1 &
    slurmctld=$!
}
start_controller
slurmd -D -f slurm.conf -N localhost >/dev/null 2>&1 &
slurmd=$!
has_ended() {
    ! { kill -0 "$munged" && kill -0 "$slurmctld" && kill -0 "$slurmd"; }
}
has_begun() {
    is_idle || has_ended
}
until_done has_begun
is_idle || skip "Slurm does not start here: $(tail -q -n 1 slurmd.log slurmctld.log munged.log 2>/dev/null | tr '\n' ' ')"

# ---- the campaign ----
campaign="fuzz --device model:h200,skip=5 --seed 4 --count 4000"
"$program" $campaign --out whole.jsonl >/dev/null 2>&1 &
whole=$!
"$program" campaign submit --slurm --shards 20 --time 10 --dir far -- $campaign >submitted.txt 2>&1 || {
    complain "not submitted: $(cat submitted.txt)"
    exit 1
}
job=$(sed -n 's/.*Slurm job \([0-9]*\)$/\1/p' submitted.txt)
[ -n "$job" ] || complain "no job: $(cat submitted.txt)"

# Five commands are stopped while they play, so that what follows does not depend on how fast they are. A command that has
# played nothing yet, or most of its shard, goes on.
held=''
hold() {
    for process in $(players); do
        case " $held " in *" $process "*) continue ;; esac
        kill -STOP "$process" 2>/dev/null || continue
        lines=$(lines_of "$(shard_of "$process")")
        if [ "$lines" -gt 1 ] && [ "$lines" -lt 140 ]; then
            held="$held $process"
        else
            kill -CONT "$process"
        fi
        set -- $held
        [ $# -lt 5 ] || return 0
    done
    return 1
}
# shard_of PROCESS: the number of the shard that it plays.
shard_of() {
    tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | sed -n 's|.* --shard \([0-9]*\)/20 .*|\1|p'
}
# lines_of SHARD: the lines of its file: one, and one for each of its 200 runs.
lines_of() {
    cat far/shards/*-shard"$(printf %02d "${1:-0}")"of20.jsonl 2>/dev/null | wc -l
}
# Without a pause, because a shard is played in a fraction of a second.
until hold; do
    [ "$(date +%s)" -lt $deadline ] || { complain "five commands cannot be stopped" && exit 1; }
done
set -- $held
ended=$(shard_of "$2") requeued=$(shard_of "$3") canceled=$(shard_of "$4")
# A command is killed: its task asks to be queued again.
kill -KILL "$1"
# A task is told to end, as Slurm does before the time limit: it stops after a run, and asks to be queued again.
scancel --batch --signal=TERM "${job}_$ended" || complain "scancel"
has_signal() {
    [ $((0x$(sed -n 's/^ShdPnd:[^0-9a-f]*//p' "/proc/$1/status") & 0x4000)) != 0 ]
}
until_done has_signal "$2" || complain "the signal of Slurm does not arrive at the command"
kill -CONT "$2"
# A task is preempted: Slurm kills everything of it and queues it again.
scontrol requeue "${job}_$requeued" || complain "scontrol requeue"
# A task is canceled, which Slurm does not queue again: it is submitted again below. Slurm lets a stopped command continue
# before it ends it. So that it is not done by then, it is stopped again until it is gone.
while [ "$(shard_of "$4")" = "$canceled" ]; do
    kill -STOP "$4" 2>/dev/null
    sleep 0.002
done &
scancel "${job}_$canceled" || complain "scancel"
# The controller is restarted, while a task runs and others wait.
stop "$slurmctld"
slurmctld=''
start_controller
kill -CONT "$5"
until_done squeue --noheader

# Tasks that were queued again wait for a time that Slurm sets. Here they need not.
is_over() {
    for task in $(squeue --noheader --array --states=PENDING --format='%i %r' | sed -n 's/ BeginTime$//p'); do
        scontrol update "JobId=$task" StartTime=now
    done
    squeue --noheader >queue.txt && [ ! -s queue.txt ]
}
until_done is_over || complain "the tasks do not end: $(head -n 3 queue.txt)"
"$program" campaign status far >status.txt 2>&1 && complain "a canceled task was not missed"
grep -q "CANCELLED" "far/logs/shard$canceled.log" || complain "no log says that its task was canceled"
"$program" campaign resume far >resumed.txt 2>&1 || complain "not resumed: $(cat resumed.txt)"
"$program" campaign submit --slurm --shards 1 --dir "far away" -- fuzz --device model:orin --count 2 >/dev/null || complain "spaces"
until_done is_over || complain "the tasks do not end after they were submitted again"
"$program" campaign status "far away" >/dev/null && [ -s "far away/logs/shard1.log" ] || complain "a folder with a space in its name"
"$program" campaign status far >status.txt 2>&1 || complain "status: not complete"
grep -q "^shards 20: 20 complete, 0 playing, 0 waiting, 0 stopped$" status.txt || { complain "status" && cat status.txt; }
grep -q "^runs   4,000 of 4,000$" status.txt || complain "status does not count all runs"
"$program" campaign fetch far -o merged.jsonl >fetched.txt 2>&1 || { complain "not merged" && cat fetched.txt; }
wait $whole
cmp whole.jsonl merged.jsonl || complain "20 shards with Slurm are not the whole"
grep -hq "is not complete, .* ended by signal 9" far/logs/*.log || complain "no log says that its command was killed"
grep -hq "shard $ended .*: it \(ended with 1\|was ended by signal 15\)" "far/logs/shard$ended.log" || complain "no log says that its command was ended"
grep -hq "CANCELLED .* DUE TO JOB REQUEUE" "far/logs/shard$requeued.log" || complain "no log says that its task was requeued"
[ $failed = 0 ] || tail -n 20 slurmctld.log
[ $failed = 0 ] && echo "20 shards with Slurm: nothing was lost"
exit $failed
