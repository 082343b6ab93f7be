#!/usr/bin/env python3
"""Bounds of compiled kernels against their times on a GPU: no run may end after its bound.

  python3 bench/bounds.py --ptx FOLDER [--ptx FOLDER]... [--runs 1000] [--limit SECONDS] --out rows.jsonl
  python3 bench/bounds.py --show rows.jsonl

Each kernel of each PTX file is launched in three sizes: whole numbers among its parameters are the size, pointers are
buffers of 64 MB with zeros, and there are as many blocks as an eighth of the size. `gridsmith bound` bounds the launch,
alone and beside other programs; `bounds` (bench/bounds.c) times it, alone and beside warps that read memory on 64 other SMs.
A kernel that has no bound, or that fails, is counted with its reason. Rows are kept in the file, and the same command goes on
after them. PTX is assembled by ptxas on the machine with the GPU.

The exit code is 1 if a run ended after its bound.
"""
import argparse
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time

SIZES = (256, 1024, 4096)
BUFFER_FLOATS = 1 << 24
PART_SMS = 64
ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{", re.S)
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr[^,]*?)?([\w$]+)(\[\d+\])?")


def kernels_of(text):
    """The kernels of a PTX module: symbol, types of the parameters (None: there is one that is not simple), threads."""
    for symbol, parameters, rest in ENTRY.findall(text):
        types = [None if array else kind for kind, _, array in PARAMETER.findall(parameters)]
        limit = re.search(r"\.(?:max|req)ntid\s+([\d, ]+)", rest)
        threads = [int(number) for number in limit.group(1).split(",")] if limit else [128]
        yield symbol, types, (threads + [1, 1])[:3]


def launch_of(types, threads, size):
    """A launch, or None: a parameter is of a type that is not known."""
    values = {"u32": ("uint32", size), "s32": ("int32", size), "b32": ("int32", size), "f32": ("float32", 1.0),
              "f64": ("float64", 1.0), "s64": ("int64", size)}
    arguments = []
    for kind in types:
        if kind in ("u64", "b64"):
            arguments.append({"buffer": "float32", "count": BUFFER_FLOATS, "fill": "zero"})
        elif kind in values:
            arguments.append({values[kind][0]: values[kind][1]})
        else:
            return None
    return {"schema": "gridsmith.launch/1", "grid": [size // 8, 1, 1], "block": threads, "shared_bytes": 0,
            "arguments": arguments}


def answer_of(words, seconds):
    """The JSON that a command prints, or the last line of its errors."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"not done after {seconds} seconds"
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return json.loads(done.stdout), None


def measure(options, file, symbol, launch, beside):
    """The bound and the times of a launch."""
    part = ["--like", options.gpu, "--sms", str(PART_SMS)] if beside else ["--gpu", options.gpu]
    bound, why = answer_of([options.gridsmith, "bound", file, "--kernel", symbol, "--launch", launch, "--latencies",
                            options.latencies, "--json"] + part, 60)
    if not bound:
        return {"refused": why}
    times, why = answer_of([options.bounds, file, symbol, launch, str(options.runs)] + (["beside"] if beside else []), 120)
    if not times:
        return {"failed": why}
    return {"bound_ns": bound["beside" if beside else "alone"]["nanoseconds"], **times}


def cases_of(options):
    for folder in options.ptx:
        for path in sorted(glob.glob(os.path.join(folder, "*.ptx")) + glob.glob(os.path.join(folder, "*.ptx.gz"))):
            opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8", errors="replace")
            with opened as file:
                text = file.read()
            for symbol, types, threads in kernels_of(text):
                for size in SIZES:
                    yield path, text, symbol, size, launch_of(types, threads, size)


def run(options):
    began = time.monotonic()
    known = set()
    if os.path.exists(options.out):
        with open(options.out, encoding="utf-8") as file:
            known = {(row["file"], row["kernel"], row["size"]) for row in map(json.loads, file)}
    with tempfile.TemporaryDirectory() as work, open(options.out, "a", encoding="utf-8") as out:
        for path, text, symbol, size, launch in cases_of(options):
            name = os.path.basename(path).removesuffix(".gz")
            if (name, symbol, size) in known:
                continue
            if time.monotonic() - began > options.limit:
                print("stopped at --limit; the same command goes on", file=sys.stderr)
                return
            row = {"file": name, "kernel": symbol, "size": size}
            if launch:
                files = os.path.join(work, name), os.path.join(work, "launch.json")
                for path_of, content in zip(files, (text, json.dumps(launch))):
                    with open(path_of, "w", encoding="utf-8") as file:
                        file.write(content)
                row["alone"] = measure(options, files[0], symbol, files[1], False)
                if "bound_ns" in row["alone"]:
                    row["beside"] = measure(options, files[0], symbol, files[1], True)
            else:
                row["alone"] = {"refused": "a parameter is not a number or a pointer"}
            out.write(json.dumps(row) + "\n")
            out.flush()


def show_mode(rows, mode):
    """A table of one mode. Returns how many runs ended after their bound."""
    measured = [row for row in rows if "bound_ns" in row.get(mode, {})]
    ratios = sorted(((row[mode]["bound_ns"] / row[mode]["most_ns"], row) for row in measured), key=lambda pair: pair[0])
    late = [row for ratio, row in ratios if ratio < 1]
    kernels = len({(row["file"], row["kernel"]) for row in measured})
    print(f"{mode}: {len(measured)} launches of {kernels} kernels, {sum(row[mode]['runs'] for row in measured)} runs; "
          f"longest run after its bound: {len(late)}")
    for row in late:
        print(f"  LATE {row['kernel']} {row['size']}: {row[mode]['most_ns']} ns, bound {row[mode]['bound_ns']} ns")
    if not ratios:
        return 0
    print(f"bound / longest run: least {ratios[0][0]:.2f}, median {ratios[len(ratios) // 2][0]:.2f}, "
          f"most {ratios[-1][0]:.2f}; the largest:")
    for ratio, row in reversed(ratios[-10:]):
        print(f"  {ratio:8.2f}  {row['kernel'][:60]} {row['size']}")
    return len(late)


def show(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    late = sum(show_mode(rows, mode) for mode in ("alone", "beside"))
    reasons = {}
    for row in rows:
        for mode in ("alone", "beside"):
            for kind in ("refused", "failed"):
                why = row.get(mode, {}).get(kind)
                if why:
                    words = re.sub(r"0x[0-9a-f]+|\d+", "N", why.split(": ")[-1])
                    reasons[kind, words] = reasons.get((kind, words), 0) + 1
    for (kind, why), count in sorted(reasons.items(), key=lambda item: -item[1])[:20]:
        print(f"{count:6} {kind}: {why}")
    return 1 if late else 0


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptx", action="append", default=[], help="a folder of .ptx or .ptx.gz files")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no launch begins")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--latencies", default="latencies.json")
    parser.add_argument("--gridsmith", default="gridsmith")
    parser.add_argument("--bounds", default=os.path.join(here, "bounds"))
    parser.add_argument("--out", help="the file of rows")
    parser.add_argument("--show", help="only show the rows of a file")
    options = parser.parse_args()
    if not options.show and not (options.ptx and options.out):
        parser.error("give --ptx FOLDER and --out FILE, or --show FILE")
    if not options.show:
        run(options)
    return show(options.show or options.out)


if __name__ == "__main__":
    sys.exit(main())
