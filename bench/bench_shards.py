#!/usr/bin/env python3
# bench_shards.py: the cost of playing a campaign in shards, and the speed of merging them.
#
#   python3 bench/bench_shards.py PROGRAM [RUNS [SHARDS]]
#
# A campaign on a model is played by two plain processes, each a half, and in 64 shards, two at a time, with
# `gridsmith campaign submit --local`. Both are done in several alternating rounds, so that other work on the machine affects both.
# CPU times are compared, because they depend little on other work. Then the shards are merged: bytes for each second of CPU
# time and of real time, and memory, for all shards and for a tenth of the runs. The results must be the same bytes.
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROUNDS = 4


def run(*words):
    """Runs a program, and returns the seconds of CPU time, the real seconds, and the KiB of memory that it used."""
    begin = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"bench_shards: {' '.join(words)} failed")
    return used.ru_utime + used.ru_stime, time.monotonic() - begin, used.ru_maxrss


def play_plainly(program, folder, campaign):
    """Two processes at the same time, started by a shell so that one call waits for both."""
    os.mkdir(folder)
    half = '"$0" "$@" --out "' + folder + '" --shard '
    return run("sh", "-c", f"{half} 1/2 & {half} 2/2; wait", program, *campaign)


def play_shards(program, folder, campaign, shards):
    return run(program, "campaign", "submit", "--local", "--jobs", "2", "--shards", str(shards), "--dir", folder, "--", *campaign)


def merge(program, folder, output):
    cpu, real, memory = run(program, "merge", "-o", output, folder)
    size = os.path.getsize(output) / 1e6
    print(f"merging {size:8.1f} MB: {size / cpu:6.0f} MB for a second of CPU time, {size / real:6.0f} MB/s, {memory / 1024:.1f} MiB of memory")


def same(one, two):
    return subprocess.run(["cmp", "-s", one, two]).returncode == 0


def main():
    program = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1000000
    shards = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    work = tempfile.mkdtemp()
    sums = {"two processes": [0.0, 0.0], f"{shards} shards": [0.0, 0.0]}
    for number in range(ROUNDS):
        campaign = ["fuzz", "--device", "model:orin", "--seed", str(number), "--count", str(runs // ROUNDS)]
        plain, cut = os.path.join(work, f"plain{number}"), os.path.join(work, f"cut{number}")
        for which in (number % 2, 1 - number % 2):
            used = play_shards(program, cut, campaign, shards) if which else play_plainly(program, plain, campaign)
            total = sums[f"{shards} shards" if which else "two processes"]
            total[0] += used[0]
            total[1] += used[1]
        if number + 1 < ROUNDS:
            shutil.rmtree(plain)
            shutil.rmtree(cut)
    for name, (cpu, real) in sums.items():
        print(f"{name:16} {runs} runs: {cpu:7.1f} s of CPU time, {real:7.1f} s")
    (plain_cpu, plain_real), (cut_cpu, cut_real) = sums.values()
    print(f"ratio: {cut_cpu / plain_cpu:.3f} of the CPU time, {cut_real / plain_real:.3f} of the time")
    merge(program, os.path.join(cut, "shards"), os.path.join(work, "cut.jsonl"))
    merge(program, plain, os.path.join(work, "plain.jsonl"))
    campaign = ["fuzz", "--device", "model:orin", "--count", str(max(runs // ROUNDS // 10, 1))]
    play_shards(program, os.path.join(work, "tenth"), campaign, shards)
    merge(program, os.path.join(work, "tenth", "shards"), os.path.join(work, "tenth.jsonl"))
    is_same = same(os.path.join(work, "cut.jsonl"), os.path.join(work, "plain.jsonl"))
    shutil.rmtree(work)
    print("the same bytes" if is_same else "FAILED: other bytes")
    sys.exit(0 if is_same else 1)


main()
