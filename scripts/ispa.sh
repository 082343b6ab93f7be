#!/bin/sh
# ISPA's experiment on a GPU: five networks, layer by layer, each beside fifteen tasks of the zoo.
#
#   sh scripts/ispa.sh GRIDSMITH SHARE FOLDER [NETWORK...]
#
# GRIDSMITH is the program and SHARE is bench/share. FOLDER gets plan.json, the plan of the kernels; NETWORK.json and
# NETWORK.txt, what each pair takes under MPS, on two streams, and through the daemon without and with the plan; and
# NETWORK.forecast, what the plan promises. What is there is not made again. A network takes about ten minutes.
set -eu
gridsmith=$1 share=$2 folder=$3
shift 3
tasks="bfs cp cutcp fft histo img lbm mrif mriq pns regtil sgemm spmv stenc tpacf"
[ $# -gt 0 ] || set -- resnet50 resnext50 vgg16 inception_v3 densenet121
mkdir -p "$folder"

if [ ! -s "$folder/plan.json" ]; then
    # shellcheck disable=SC2086
    "$gridsmith" plan tgemm transpose $tasks --plan "$folder/kernels.plan" --models --json -o "$folder/plan.json"
fi
for network; do
    names=$network pairs=
    for task in $tasks; do
        names=$names,$task
        pairs=$pairs${pairs:+,}$network-$task
        [ -s "$folder/$network.forecast" ] ||
            "$gridsmith" plan --simulate "$folder/plan.json" --tasks "$network,$task" --for 300 2>/dev/null |
            sed -n "s/^pairs  */$network-$task /p" >>"$folder/$network.some"
    done
    [ -s "$folder/$network.forecast" ] || mv "$folder/$network.some" "$folder/$network.forecast"
    [ -s "$folder/$network.json" ] ||
        "$share" --program "$gridsmith" --kernels "$names" --only "$pairs" --modes bsde --plan "$folder/plan.json" \
            --seconds 0.1 --repeats 3 --warm-up 8 --limit 900 --json >"$folder/$network.json" 2>"$folder/$network.txt"
    tail -8 "$folder/$network.txt"
done
