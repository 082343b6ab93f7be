#!/bin/sh
# ISPA's experiment on a GPU: five networks, layer by layer, each beside fifteen tasks of the zoo: 75 pairs with tgemm, and 75 with
# products of cuBLAS. It takes about four minutes.
#
#   [TASKS=cp,lbm] [MODES=osbde] [LIMIT=540] sh scripts/ispa.sh GRIDSMITH PROGRAMS FOLDER [NETWORK...]
#
# GRIDSMITH is the program and PROGRAMS is bench/programs. FOLDER gets pairs.jsonl, every round of each pair, and pairs.md, tables of
# them (bench/programs_table.py). With e in MODES it also gets plan.json, a plan of tgemm and the tasks, which is not made again.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
gridsmith=$1 programs=$2 folder=$3
shift 3
tasks=${TASKS:-bfs,cp,cutcp,fft,histo,img,lbm,mrif,mriq,pns,regtil,sgemm,spmv,stenc,tpacf} modes=${MODES:-osbde}
[ $# -gt 0 ] || set -- resnet50 resnext50 vgg16 inception_v3 densenet121
mkdir -p "$folder"

case $modes in *e*) plan=$folder/plan.json ;; *) plan= ;; esac
if [ -n "$plan" ] && [ ! -s "$plan" ]; then
    # shellcheck disable=SC2046
    "$gridsmith" plan tgemm $(echo "$tasks" | tr , ' ') --measurements "$folder/kernels.db" -o "$plan" >"$folder/plan.txt"
fi
networks=
for network; do
    networks=$networks${networks:+,}$network
done
libraries=$(echo "$networks" | sed 's|,|/cublas,|g')/cublas
"$programs" --program "$gridsmith" --first "$networks,$libraries" --second "$tasks" --modes "$modes" ${plan:+--plan "$plan"} --ms 40 \
    --limit "${LIMIT:-540}" >"$folder/pairs.jsonl"
python3 "$here/bench/programs_table.py" "$folder/pairs.jsonl" >"$folder/pairs.md"
