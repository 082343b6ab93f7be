#!/usr/bin/env python3
"""Compares the blocks of a simulator with a recording: how many of each launch are on each SM before any block ends.

    compare.py FOLDER LOG...

FOLDER is one that traces.py has written; a LOG is the file of GRIDSMITH_LOG of a simulation of it. A launch is exact if the
right number of its blocks is on every SM. A run is exact if all its launches are.
"""
import collections
import json
import os
import sys


def read_log(path):
    """By uid: the SMs of the blocks that started before the first block ended. And the last cycle."""
    sms, cycle, has_ended = collections.defaultdict(list), 0, False
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            what, uid, _, sm, _, cycle = line.split()
            has_ended = has_ended or what == "end"
            if not has_ended:
                sms[int(uid)].append(int(sm))
    return sms, int(cycle)


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(os.path.join(sys.argv[1], "recorded.json"), encoding="utf-8") as file:
        launches = json.load(file)
    for path in sys.argv[2:]:
        sms, cycle = read_log(path)
        if not sms:
            print(f"{path}: no block started", file=sys.stderr)
            return 1
        exact = blocks = right = 0
        for uid, launch in enumerate(launches, 1):
            wanted = collections.Counter(sm for sm in launch["placed"] if sm is not None)
            found = collections.Counter(sms[uid])
            exact += wanted == found
            blocks += sum(wanted.values())
            right += sum((wanted & found).values())
        print(f"{path}: {exact} of {len(launches)} launches exact, {right} of {blocks} blocks on their SM, {cycle} cycles")
    return 0


if __name__ == "__main__":
    sys.exit(main())
