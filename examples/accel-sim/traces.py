#!/usr/bin/env python3
"""Writes runs of Gridsmith as traces that Accel-Sim and MGPUSim read, so that a simulator can play recorded launches.

    traces.py RUNS FOLDER [--class NAME] [--every N] [--count N] [--instructions N] [--loads N]

RUNS is a file of gridsmith.run/1, .gz or plain. Each run becomes FOLDER/ID/kernelslist.g with a trace for each launch,
up to the first exit and up to the first launch that had to wait. Each kernel has a stream of its own. A recording does
not say what its kernels computed, so each warp executes the same instructions: a chain of slow ones, in which each waits
for the one before, and, with --loads, that many loads of its own memory.

FOLDER/ID/recorded.json has the launches with the SMs of their blocks, as recorded. Runs with clusters, graphs, green
contexts or local memory are left out: a trace does not have these.
"""
import argparse
import gzip
import json
import os
import sys

PLAIN = {"op", "kernel", "blocks", "threads", "registers", "shared_bytes", "placed", "warp_slots"}
HEADER = """-kernel name = {kernel}
-kernel id = {number}
-grid dim = ({blocks},1,1)
-block dim = ({threads},1,1)
-shmem = {shared_bytes}
-nregs = {registers}
-binary version = 80
-cuda stream id = {number}
-shmem base_addr = 0x00007f0000000000
-local mem base_addr = 0x00007e0000000000
-nvbit version = 1.7
-accelsim tracer version = 5
-enable lineinfo = 0

#the instructions of each warp: PC, mask, registers written, opcode, registers read, bytes, address

"""


def scored_launches(run):
    """The launches that can be compared; None: the run has what a trace does not have."""
    launches = []
    for event in run["events"]:
        if event["op"] != "launch":
            break
        if set(event) - PLAIN or "placed" not in event:
            return None
        launches.append(event)
        if None in event["placed"]:
            break
    return launches


def warp_lines(threads, address, instructions, loads):
    mask = f"{(1 << threads) - 1:08x}"
    lines = [f"{16 * i:04x} {mask} 1 R2 MUFU.RCP 1 R2 0 0" for i in range(instructions)]
    for i in range(loads):
        at = instructions + i
        lines.append(f"{16 * at:04x} {mask} 1 R4 LDG.E 1 R4 4 1 0x{address + 128 * i:x} 4 0")
    lines.append(f"{16 * (instructions + loads):04x} {mask} 0 EXIT 0 0 0")
    return lines


def write_trace(path, number, launch, instructions, loads):
    warps = (launch["threads"] + 31) // 32
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER.format(number=number, **launch))
        for block in range(launch["blocks"]):
            file.write(f"#BEGIN_TB\n\nthread block = {block},0,0\n\n")
            for warp in range(warps):
                address = 0x700000000000 + (number << 32) + (block * warps + warp) * 128 * max(loads, 1)
                lines = warp_lines(min(32, launch["threads"] - 32 * warp), address, instructions, loads)
                file.write(f"warp = {warp}\ninsts = {len(lines)}\n" + "\n".join(lines) + "\n\n")
            file.write("#END_TB\n\n")


def write_run(folder, launches, instructions, loads):
    os.makedirs(folder, exist_ok=True)
    names = [f"kernel-{number}.traceg" for number in range(1, len(launches) + 1)]
    for number, (name, launch) in enumerate(zip(names, launches), 1):
        write_trace(os.path.join(folder, name), number, launch, instructions, loads)
    with open(os.path.join(folder, "kernelslist.g"), "w", encoding="utf-8") as file:
        file.write("\n".join(names) + "\n")
    with open(os.path.join(folder, "recorded.json"), "w", encoding="utf-8") as file:
        json.dump(launches, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs")
    parser.add_argument("folder")
    parser.add_argument("--class", dest="name", help="only runs of this class")
    parser.add_argument("--every", type=int, default=1, help="only every Nth run of the file (1)")
    parser.add_argument("--count", type=int, default=10, help="runs to write (10)")
    parser.add_argument("--instructions", type=int, default=40, help="of a warp (40)")
    parser.add_argument("--loads", type=int, default=0, help="of a warp (0)")
    options = parser.parse_args()
    opened = gzip.open if options.runs.endswith(".gz") else open
    written = 0
    with opened(options.runs, "rt", encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            if written == options.count or index % options.every:
                continue
            run = json.loads(line)
            launches = scored_launches(run) if options.name in (None, run.get("class")) else None
            if launches:
                folder = os.path.join(options.folder, f"{run.get('class', 'run')}-{run.get('id', written)}")
                write_run(folder, launches, options.instructions, options.loads)
                written += 1
    print(f"{written} runs in {options.folder}")
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
