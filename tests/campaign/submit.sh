#!/bin/sh
# A submitted campaign loses nothing, with any player of its shards, and even if they are killed often: this machine, GNU
# parallel, the commands of the Kubernetes manifest, a fake Slurm. tests/campaign/slurm.sh has the real one.
#
#   sh tests/campaign/submit.sh PROGRAM
#
# With GRIDSMITH_RUNS below 4000, kernels of the zoo are not compiled.
. "$(dirname "$0")/../support/checks.sh"
program=$(realpath "$1")
cd "$work" || exit 1
# same FOLDER: the shards of a campaign are the file of one process.
same() {
    "$program" campaign fetch "$1" -o "$1.jsonl" >fetched.txt 2>&1 || { fail "$1 is not merged" && cat fetched.txt; }
    cmp whole.jsonl "$1.jsonl" || fail "$1 is not the whole"
}
# mistake CODE WORDS COMMAND...: one line with these words, and this exit code.
mistake() {
    code=$1 words=$2
    shift 2
    "$@" >said.txt 2>&1
    status=$?
    [ $status = "$code" ] && grep -qF -- "$words" said.txt && [ "$(wc -l <said.txt)" = 1 ] ||
        { fail "exit code $status, not $code with: $words" && cat said.txt; }
}
campaign="fuzz --device model:h200,skip=5 --seed 4 --count 200"
"$program" $campaign --out whole.jsonl >/dev/null 2>&1

# ---- this machine ----
# The commands of shards that are being played.
players() {
    grep -lzs -- "$work/$1/shard[s]" /proc/[0-9]*/cmdline | sed 's|/proc/||; s|/cmdline||'
}
# stopped PROCESS: stops it, or says that it ends by itself. A signal to a process that ends is no error. Its state is read once
# at a time: between two looks it may become the other one.
stopped() {
    kill -STOP "$1" 2>/dev/null
    while :; do
        case $(sed -n 's/^State:.\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) in
        T) return 0 ;;
        [RSD]) ;;
        *) return 1 ;;
        esac
    done
}
"$program" campaign submit --local --jobs 3 --shards 8 --dir here -- $campaign >here.txt 2>&1 &
running=$!
# is_early PROCESS: the shard of this stopped process has runs left: a file has a header and 25 runs.
is_early() {
    shard=$(tr '\0' '\n' <"/proc/$1/cmdline" | sed -n '/^--shard$/{n;s|/.*||;p;}')
    [ "$(cat here/shards/*shard"$shard"of8.jsonl 2>/dev/null | wc -l)" -lt 26 ]
}
killed=0 early=0
while kill -0 $running 2>/dev/null; do
    for process in $(players here | head -n 1); do
        [ $killed -lt 4 ] && stopped "$process" || continue
        ! is_early "$process" || early=1
        kill -KILL "$process" && killed=$((killed + 1))
    done
    sleep 0.02
done
wait $running || { fail "--local" && cat here.txt; }
same here
"$program" campaign status here >status.txt || fail "status of a complete campaign"
grep -q "^shards 8: 8 complete, 0 playing, 0 waiting, 0 stopped$" status.txt && grep -q "^runs   200 of 200$" status.txt ||
    { fail "status" && cat status.txt; }
[ $early = 0 ] || grep -hq "ended by signal 9" here/logs/*.log || fail "no log says that its command was killed"
mistake 2 "has a campaign already" "$program" campaign submit --local --dir here -- $campaign

# Stopped, looked at, and continued. More runs than are played before the signal arrives.
"$program" campaign submit --local --jobs 2 --shards 3 --dir stopped -- $campaign --count 100000000 >stopped.txt 2>&1 &
running=$!
while [ -z "$(players stopped)" ] && kill -0 $running 2>/dev/null; do
    sleep 0.02
done
kill -INT $running 2>/dev/null || kill -TERM $running
wait $running
[ $? = 130 ] && grep -q "0 of 3 shards are complete; 'gridsmith campaign resume' continues" stopped.txt ||
    { fail "stopped" && cat stopped.txt; }
[ -z "$(players stopped)" ] || fail "commands go on after the campaign was stopped"
"$program" campaign status stopped >status.txt
[ $? = 1 ] || fail "status: a stopped campaign is complete"
mistake 1 '"shards":3,"complete":0,"playing":0,' "$program" campaign status stopped --json
sed -i 's/"100000000"/"200"/' stopped/campaign.json
rm -f stopped/shards/*
"$program" campaign resume stopped --jobs 2 2>resumed.txt || { fail "resumed" && cat resumed.txt; }
same stopped

# ---- other commands ----
# The runs of files, recorded; numbers are those of the list.
record="record --device model:h200,skip=5"
"$program" $record -o recorded.jsonl --resume whole.jsonl whole.jsonl 2>/dev/null || fail "record --resume"
"$program" campaign submit --local --shards 7 --dir recorded -- $record whole.jsonl whole.jsonl >/dev/null || fail "record"
"$program" campaign fetch recorded 2>/dev/null && cmp recorded.jsonl recorded/campaign.jsonl || fail "record in shards differs"
"$program" replay recorded.jsonl >replayed.txt
grep -q "^all  *400 " replayed.txt || fail "replay does not read what record keeps"
head -c 20000 recorded.jsonl >cut.jsonl
"$program" $record --out cut.jsonl --resume whole.jsonl whole.jsonl 2>/dev/null && cmp recorded.jsonl cut.jsonl || fail "record --resume, cut"
mistake 2 '"runs" is' "$program" $record --out cut.jsonl --resume whole.jsonl
mistake 2 "--resume needs the file to continue" "$program" $record --resume whole.jsonl
mistake 2 "not standard input" "$program" $record -o x --resume -
mistake 2 "a description belongs to one GPU" "$program" probe --device model:h200 --shard 1/2
# Kernels of the zoo, timed: the times differ, what is timed does not.
zoo_bench() {
    "$program" campaign submit --local --shards 2 --dir zoo -- zoo bench bfs cp --size tiny --repeat 1 >/dev/null || fail "zoo bench"
    "$program" campaign fetch zoo -o zoo.jsonl 2>/dev/null || fail "zoo bench is not merged"
    "$program" zoo bench --measured zoo.jsonl >zoo.txt || fail "zoo bench --measured"
    grep -q "^bfs  *tiny " zoo.txt && grep -q "^cp  *tiny " zoo.txt && grep -q "^average of 2 " zoo.txt || { fail "zoo" && cat zoo.txt; }
    "$program" zoo bench bfs cp --size tiny --repeat 1 --out zoo.jsonl --resume >again.txt 2>&1 || fail "zoo bench --resume"
    grep -q "2 runs, 2 of them already in the file" again.txt || fail "zoo bench measures again what is there"
    "$program" zoo bench --measured zoo.jsonl --json >zoo.json && grep -q '"kernels":\[{"kernel":"bfs",' zoo.json || fail "zoo --json"
    mistake 2 '"repeat" is 1 in the file, but 2 now' "$program" zoo bench bfs cp --size tiny --repeat 2 --out zoo.jsonl --resume
    mistake 2 "not a row of 'zoo bench -o'" "$program" zoo bench --measured whole.jsonl
}
[ "${GRIDSMITH_RUNS:-100000}" -lt 4000 ] || zoo_bench

# ---- Kubernetes: the command of the manifest, with an index ----
"$program" campaign submit --kubernetes --image 'gridsmith:1' --claim runs --shards 5 --dir pods -- $campaign >pods.txt ||
    fail "--kubernetes"
grep -q "^kubectl apply -f .*/pods/kubernetes.yaml$" pods.txt || fail "--kubernetes does not say what to do"
for line in "completionMode: Indexed" "completions: 5" 'image: "gridsmith:1"' 'claimName: "runs"' 'subPath: "pods"'; do
    grep -q "^ *$line$" pods/kubernetes.yaml || fail "the manifest has no $line"
done
grep -q nvidia.com/gpu pods/kubernetes.yaml && fail "the manifest asks for a GPU that is not needed"
if python3 -c 'import yaml' 2>/dev/null; then
    python3 -c 'import json, yaml; json.dump(yaml.safe_load(open("pods/kubernetes.yaml"))["spec"]["template"]["spec"]["containers"][0]["command"], open("command.json", "w"))' &&
        grep -q '^\["/bin/sh", "-c", "exec .*", "gridsmith"\]$' command.json || fail "the manifest is not read as YAML"
fi
command=$(sed -n 's/^        - \(exec .*\)/\1/p' pods/kubernetes.yaml | sed "s|/campaign |$work/pods |")
for index in 4 2 0 1 3; do
    if [ $index = 1 ]; then
        JOB_COMPLETION_INDEX=1 sh -c "$command" "$program" >/dev/null 2>&1 &
        running=$!
        sleep 0.05
        kill -KILL $running 2>/dev/null
        wait $running 2>/dev/null
    fi
    JOB_COMPLETION_INDEX=$index sh -c "$command" "$program" >pod.txt 2>&1 || { fail "pod $index" && cat pod.txt; }
done
same pods

# ---- GNU parallel ----
"$program" campaign submit --parallel --jobs 2 --shards 5 --dir "by hand" -- $campaign >parallel.txt || fail "--parallel"
grep -q "^sh .*/by hand/parallel.sh$" parallel.txt || fail "--parallel does not say what to do"
if command -v parallel >/dev/null; then
    sh "by hand/parallel.sh" >/dev/null 2>&1 || fail "parallel"
    same "by hand"
else
    echo "GNU parallel is not installed: its script is not run"
fi

# ---- a fake Slurm: the jobs that are submitted, and submitted again ----
mkdir bin
cat >bin/sbatch <<'EOF'
#!/bin/sh
echo "$@" >>sbatch.txt
echo "sbatch: a warning" >&2
echo "$((40 + $(wc -l <sbatch.txt)));cluster"
EOF
cat >bin/squeue <<'EOF'
#!/bin/sh
[ ! -e away ] || { echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2 && exit 1; }
cat queue.txt
EOF
chmod +x bin/*
PATH=$work/bin:$PATH
"$program" campaign submit --slurm --shards 6 --time 1:00:00 --partition long --jobs 2 --dir far -- fuzz --device cuda \
    --count 30 >far.txt 2>&1 || { fail "--slurm" && cat far.txt; }
grep -q "/far: Slurm job 41$" far.txt || { fail "--slurm does not name the job" && cat far.txt; }
for line in '--array=1-6%2' '--requeue' '--gres=gpu:1' '--time=1:00:00' '--partition=long' '--signal=B:TERM@30' "--output=\"$work/far/logs/shard%a.log\""; do
    grep -qxF -- "#SBATCH $line" far/slurm.sh || fail "the job script has no $line"
done
sh -n far/slurm.sh || fail "the job script is not valid"
sed -i 's/"cuda"/"model:h200"/' far/campaign.json
printf '41 1 RUNNING\n41 4 PENDING\n7 2 RUNNING\n41 99 RUNNING\n41 x RUNNING\n' >queue.txt
"$program" campaign play far 3 >/dev/null 2>&1 || fail "play"
"$program" campaign status far >status.txt 2>&1
grep -q "^shards 6: 1 complete, 1 playing, 4 waiting, 0 stopped$" status.txt || { fail "status with Slurm" && cat status.txt; }
"$program" campaign resume far >resumed.txt 2>&1 || fail "resume with Slurm"
[ "$(tail -n 1 sbatch.txt)" = "--parsable --array=2,5-6 $work/far/slurm.sh" ] || { fail "resume" && cat sbatch.txt; }
grep -q '"jobs":\[41,42\]' far/campaign.json || fail "the job of resume is not kept"
touch away
"$program" campaign status far >status.txt 2>status.err
grep -q "the states of tasks are not known: squeue failed: slurm_load_jobs error" status.err || fail "Slurm is away"
grep -q "1 complete" status.txt || fail "status without Slurm"
mistake 4 "squeue failed: slurm_load_jobs error: Unable to contact" "$program" campaign resume far
printf '#!/bin/sh\necho "sbatch: error: invalid partition" >&2\nexit 1\n' >bin/sbatch
mistake 4 "sbatch failed: sbatch: error: invalid partition" "$program" campaign submit --slurm --dir no -- $campaign

# ---- mistakes ----
mistake 2 "give one of --local, --slurm, --kubernetes and --parallel" "$program" campaign submit -- $campaign
mistake 2 "give one of --local" "$program" campaign submit --local --slurm -- $campaign
mistake 2 "give the command of the campaign after --" "$program" campaign submit --local
mistake 2 'fuzz, record, bound or zoo, not "probe"' "$program" campaign submit --local -- probe --device cuda
mistake 2 "'bound' needs --measure to be a list of runs" "$program" campaign submit --local -- bound --random
mistake 2 "only 'zoo bench' is a list of runs" "$program" campaign submit --local -- zoo run all
mistake 2 "leave out --shard" "$program" campaign submit --local -- $campaign --shard 1/2
mistake 2 "leave out --out" "$program" campaign submit --local -- $campaign --out=x
mistake 2 "leave out --html: it applies to the whole campaign, not to a shard" "$program" campaign submit --local -- $campaign --html x.html
mistake 2 "leave out -o: the campaign gives it to each shard" "$program" campaign submit --local -- record --device model:h200 -o x whole.jsonl
mistake 2 "write cuda, not cuda:1" "$program" campaign submit --local -- fuzz --device cuda:1
mistake 2 "unknown option --cuont" "$program" campaign submit --local -- fuzz --device cuda --cuont 4
mistake 2 "--gres, --time and --partition go with --slurm" "$program" campaign submit --local --gres gpu:2 -- $campaign
mistake 2 "--kubernetes needs --image IMAGE and --claim NAME" "$program" campaign submit --kubernetes -- $campaign
mistake 2 'Slurm cannot take "1:00"' "$program" campaign submit --slurm --time '1:00"' -- $campaign
mistake 2 "the number of a shard must be 1 to 8" "$program" campaign play here 9
mistake 2 "cannot read nowhere: No such file" "$program" campaign status nowhere
mistake 2 'shard 1 failed: gridsmith fuzz: unknown class "huge"' \
    sh -c "'$program' campaign submit --local --dir huge -- fuzz --device model:h200 --class huge >/dev/null"
[ ! -e campaign-1 ] || fail "a mistake made a folder"

# ---- hostile descriptions ----
# hostile WORDS SED: the description, changed.
hostile() {
    rm -rf bad && mkdir -p bad/shards && sed "$2" here/campaign.json >bad/campaign.json
    mistake 2 "$1" "$program" campaign play bad 1
}
hostile '"schema" must be "gridsmith.submission/1"' 's|submission/1|submission/2|'
hostile 'submitted with version 99 of gridsmith' 's|"version":"[^"]*"|"version":"99"|'
hostile 'fuzz, record, bound or zoo, not "serve"' 's|"fuzz"|"serve"|'
hostile 'leave out --output' 's|"--seed"|"--output","/etc/x","--seed"|'
hostile '"shards"' 's|"shards":8|"shards":-1|'
hostile '"shards"' 's|"shards":8|"shards":99999999999|'
hostile '"on" must be' 's|"local"|"moon"|'
hostile 'an argument must be a string' 's|"fuzz"|"fuzz",7|'
hostile '"more"' 's|"jobs"|"more":1,"jobs"|'
hostile 'campaign.json' 's|.$||'

finish "$killed commands were killed: nothing was lost"
