#!/bin/sh
# bench/neighbors/requests.py --kept: requests against the bounds of their file, and which part made them late.
#
#   sh tests/bench/requests.sh PYTHON SOURCE_FOLDER
. "$(dirname "$0")/../support/checks.sh"
python=$1
source=$2

# shows EXIT_CODE FILE WORDS...: each of the WORDS must be printed.
shows() {
    wanted=$1
    file=$2
    shift 2
    check "$file" "$wanted" "$python" "$source/bench/neighbors/requests.py" --kept "$file"
    for words in "$@"; do
        says "$words"
    done
}

# The bound is 3 ms: 1 to stop, 0.5 for a launch, 1.5 for the request. Requests: in time; and late by each part.
cat >"$work/late.json" <<'JSON'
{"pair": {"mode": "ours", "bound": {"response_us": 3000, "unstopped_response_us": 5000, "stop_us": 1000, "launch_us": 500, "request_us": 1500},
 "wall_ms": [2.9, 4.0, 4.1, 4.2, 4.3, 4.4, 6.0], "gpu_ms": [2.8, 3.9, 4.0, 2.5, 3.2, 2.9, 5.9],
 "parts_ms": [[0.1, 0.2, 2.6], [0.1, 0.9, 3.0], [0.1, 2.5, 1.5], [0.1, 1.2, 1.3], [2.9, 0.1, 2.8], [0.1, 1.2, 1.7], [5.5, 0.1, 5.8]]}}
JSON
gzip "$work/late.json"
shows 1 "$work/late.json.gz" '7 requests, p99.9 6.000 ms, longest 6.000 ms, bound 3.000 ms' 'after it: 6, of which 2 were' \
    '5.000 ms, after it 1' '2 late by its other kernels; the longest: 4.400 ms' '1 late by its first kernel; the longest: 4.100 ms' \
    '1 late by the host, after the end; the longest: 4.200 ms' '2 late by the host, issuing; the longest: 6.000 ms'
echo '{"pair": {"mode": "ours", "bound": {"response_us": 3000, "unstopped_response_us": 3000}, "wall_ms": [3.0], "gpu_ms": [2.0]}}' |
    gzip >"$work/kept.json.gz"
shows 0 "$work/kept.json.gz" 'after it: 0, of which 0'
shows 1 "$source/corpus/h200-requests-fresh.json.gz" 'triton             ours-mps   10014 requests' 'after it: 62,'
finish "late requests are explained"
