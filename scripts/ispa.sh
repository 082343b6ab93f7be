#!/bin/sh
# ISPA's experiment on a GPU: five networks, layer by layer, each beside fifteen tasks of the zoo.
#
#   [TASKS="cp lbm"] [MODES=bsd] [WARM_UP=8] [LIMIT=900] sh scripts/ispa.sh GRIDSMITH SHARE FOLDER [NETWORK...]
#
# GRIDSMITH is the program and SHARE is bench/share. FOLDER gets NETWORK.json and NETWORK.txt: what each pair takes under
# MPS (b), on two streams (s), and through the daemon without (d) and with a plan (e). With e in MODES, it also gets
# plan.json, the plan of the kernels, and NETWORK.forecast, what that promises. What is there is not made again. A network
# beside all tasks takes about ten minutes; no pair begins after LIMIT seconds.
set -eu
gridsmith=$1 share=$2 folder=$3
shift 3
tasks=${TASKS:-bfs cp cutcp fft histo img lbm mrif mriq pns regtil sgemm spmv stenc tpacf} modes=${MODES:-bsde}
[ $# -gt 0 ] || set -- resnet50 resnext50 vgg16 inception_v3 densenet121
mkdir -p "$folder"

case $modes in *e*) plan=$folder/plan.json ;; *) plan= ;; esac
if [ -n "$plan" ] && [ ! -s "$plan" ]; then
    # shellcheck disable=SC2086
    "$gridsmith" plan tgemm transpose $tasks --measurements "$folder/kernels.db" --models --json -o "$plan"
fi
for network; do
    names=$network pairs=
    for task in $tasks; do
        names=$names,$task
        pairs=$pairs${pairs:+,}$network-$task
        [ -z "$plan" ] || [ -s "$folder/$network.forecast" ] ||
            "$gridsmith" plan --simulate "$plan" --tasks "$network,$task" --for 300 2>/dev/null |
            sed -n "s/^pairs  */$network-$task /p" >>"$folder/$network.some"
    done
    [ ! -e "$folder/$network.some" ] || mv "$folder/$network.some" "$folder/$network.forecast"
    [ -s "$folder/$network.json" ] ||
        "$share" --program "$gridsmith" --kernels "$names" --only "$pairs" --modes "$modes" ${plan:+--plan "$plan"} \
            --seconds 0.1 --repeats 3 --warm-up "${WARM_UP:-8}" --limit "${LIMIT:-900}" --brief --json \
            >"$folder/$network.json" 2>"$folder/$network.txt"
    tail -8 "$folder/$network.txt"
done
