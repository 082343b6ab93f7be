#!/usr/bin/env python3
"""Bounds of compiled kernels against their times on a GPU: no run may end after its bound.

  python3 bench/bounds.py --ptx FOLDER [--ptx FOLDER]... [--runs 1000] [--limit SECONDS] --out rows.jsonl
  python3 bench/bounds.py --ptx FOLDER [--ptx FOLDER]... --prepare FOLDER
  python3 bench/bounds.py --collect FOLDER --out rows.jsonl
  python3 bench/bounds.py --show rows.jsonl [--ptx FOLDER]...

Each kernel of each PTX file is launched in three sizes: whole numbers among its parameters are the size, pointers are
buffers with zeros, and there are as many blocks as an eighth of the size. PTX is assembled by ptxas. With --input,
rounds of loops that the code does not say are counted on the CPU, for these buffers; with --input all, those of all loops. A buffer has
64 MB; with --fit it has 2, 4 or 8 MB if the kernel runs to its end with that on the CPU, within so many seconds.
`gridsmith bound` bounds the launches on all cores. Then `bounds` (bench/bounds.c) times those that have a bound:
  alone    again and again, so that the L2 has what the kernel accesses (--cached);
  cold     each time after a kernel that filled the L2 with other data;
  beside   beside warps that read memory on all other SMs;
  writing  beside warps that write there.
A kernel that has no bound, or that fails, is counted with its reason. --prepare writes all that the timing needs to a folder; on the
GPU's machine, without Python, `bounds FOLDER/cases RUNS [MODE] > FOLDER/MODE.times` follows there for each mode, and
--collect makes the rows. With --show and --ptx the bounds are computed again, for times that were measured before.

Behind each run an empty kernel is timed. If one takes longer than the latencies promise for a launch, others used the GPU, or they
promise too little. Where a run is late by no more than the empty kernel among the runs of its launch, that is not evidence, and counts
by itself.

The exit code is 1 if a run ended after its bound, and the empty kernel does not explain it.
"""
import argparse
import concurrent.futures
import glob
import gzip
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = (256, 1024, 4096)
BUFFER_FLOATS, FITTED_FLOATS = 1 << 24, (1 << 19, 1 << 20, 1 << 21)
GPU_SMS, PART_SMS = 132, 64
CLOCK_GHZ = 1.98
MODES = ("alone", "cold", "beside", "writing")
BESIDE = ("beside", "writing")
MEASURED = ("runs", "least_ns", "median_ns", "p99_ns", "most_ns", "empty_most_ns", "neighbor_launches", "failed")
LAUNCHES = {"transpose": {"block": [32, 8, 1]},  # kernels that access memory outside of their buffers otherwise
            "stenc": {"sizes": (64, 128, 256)},
            "lbm": {"sizes": (256, 512, 1024)}}
ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{", re.S)
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr[^,]*?)?([\w$]+)(\[\d+\])?")


def kernels_of(text):
    """The kernels of a PTX module: symbol, types of the parameters (None: there is one that is not simple), threads."""
    for symbol, parameters, rest in ENTRY.findall(text):
        types = [None if array else kind for kind, _, array in PARAMETER.findall(parameters)]
        limit = re.search(r"\.(?:max|req)ntid\s+([\d, ]+)", rest)
        threads = [int(number) for number in limit.group(1).split(",")] if limit else [128]
        yield symbol, types, (threads + [1, 1])[:3]


def special_of(symbol):
    """What is special about the launches of a kernel, by its name in the source."""
    mangled = re.match(r"_Z(\d+)", symbol)
    name = symbol[mangled.end():mangled.end() + int(mangled.group(1))] if mangled else symbol
    return LAUNCHES.get(name, {})


def launch_of(types, threads, size, floats):
    """A launch, or None: a parameter is of a type that is not known."""
    values = {"u32": ("uint32", size), "s32": ("int32", size), "b32": ("int32", size), "f32": ("float32", 1.0),
              "f64": ("float64", 1.0), "s64": ("int64", size)}
    arguments = []
    for kind in types:
        if kind in ("u64", "b64"):
            arguments.append({"buffer": "float32", "count": floats, "fill": "zero"})
        elif kind in values:
            arguments.append({values[kind][0]: values[kind][1]})
        else:
            return None
    return {"schema": "gridsmith.launch/1", "grid": [size // 8, 1, 1], "block": threads, "shared_bytes": 0,
            "arguments": arguments}


def run_tool(words, seconds):
    """What a command prints, and the last line of its errors, or None."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", f"not done after {seconds} seconds"
    if done.returncode:
        return done.stdout, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return done.stdout, None


def open_text(path):
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8", errors="replace")


def files_of(folders):
    """The PTX files: name and text."""
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.ptx")) + glob.glob(os.path.join(folder, "*.ptx.gz"))):
            with open_text(path) as file:
                yield os.path.basename(path).removesuffix(".gz"), file.read()


def assemble(work, name, text):
    """Writes the cubin of a PTX file. Returns why there is none, or None."""
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    architecture = "sm_90a" if re.search(r"^\.target\s+sm_90a", text, re.M) else "sm_90"
    return run_tool(["ptxas", "-arch=" + architecture, "-lineinfo", path, "-o", path + ".cubin"], 120)[1]


def fits(options, work, row):
    """Whether a kernel runs to its end on the CPU, with the buffers of its launch. Without loops there is nothing to run: it
    accesses no more than an element for each thread."""
    cubin, launch = paths_of(work, row)
    words = [options.gridsmith, "bound", cubin.removesuffix(".cubin"), "--input", "--instructions", "--json", "--gpu", options.gpu]
    why = run_tool(words + ["--kernel", row["kernel"], "--launch", launch], options.fit)[1]
    return why is None or "another way than on the CPU" in why  # it ran to its end, and was refused then


def write_launch(options, work, row, types, threads):
    """Writes the launch of a row, with buffers that are as small as it allows."""
    known = [row["floats"]] if "floats" in row else [*FITTED_FLOATS, BUFFER_FLOATS] if options.fit else [BUFFER_FLOATS]
    for floats in known:
        with open(paths_of(work, row)[1], "w", encoding="utf-8") as file:
            json.dump(launch_of(types, threads, row["size"], floats), file)
        row["floats"] = floats
        if floats == known[-1] or fits(options, work, row):
            return


def cases_of(options, work, pool, times=None):
    """A row for each launch of each kernel; `times`: for those only, which say how large their buffers are."""
    files = list(files_of(options.ptx))
    failed = list(pool.map(lambda file: assemble(work, *file), files))
    rows, launches = [], []
    for (name, text), why in zip(files, failed):
        for symbol, types, threads in kernels_of(text):
            special = special_of(symbol)
            for size in sizes_of(options, special, times, name, symbol):
                row = {"file": name, "kernel": symbol, "size": size}
                rows.append(row)
                if why or not launch_of(types, threads, size, 1):
                    row["alone"] = {"refused": why or "a parameter is not a number or a pointer"}
                else:
                    row.update({key: value for key, value in (times or {}).get((name, symbol, size), {}).items() if key == "floats"})
                    launches.append((row, types, special.get("block", threads)))
    list(pool.map(lambda launch: write_launch(options, work, *launch), launches))
    return rows


def sizes_of(options, special, times, name, symbol):
    if times:
        return [size for known_name, known_symbol, size in times if (known_name, known_symbol) == (name, symbol)]
    return special.get("sizes", SIZES) if not options.sizes else [int(size) for size in options.sizes.split(",")]


def paths_of(work, row):
    return os.path.join(work, row["file"] + ".cubin"), os.path.join(work, f"{row['kernel'][:200]}.{row['size']}.json")


def formula_of(answer, sms):
    """The paper's formula, for as many loads and stores as a warp of this kernel executes: all of an SM, and 2 cycles."""
    memory = sum(count for name, count in answer["instructions"].items() if "_load" in name or "_store" in name)
    return -(-answer["blocks"] // sms) * -(-answer["threads"] // 32) * memory + 2


def terms_of(bound):
    """The parts of a bound, in ns."""
    terms = {"path": bound["chain_blocks"] * bound["path_cycles"] + bound["burst_cycles"], "blocks": bound["block_cycles"],
             "issue": bound["issue_cycles"], "fetch": bound["fetch_cycles"]}
    terms.update(bound["unit_cycles"])
    terms = {name: round(cycles / CLOCK_GHZ) for name, cycles in terms.items() if cycles}
    terms["launch"] = bound["launch_ns"]
    return terms


def largest_term(row):
    """The part of a bound that is the largest, and its share."""
    terms = row.get("terms_ns", {"": 0})
    name = max(terms, key=terms.get)
    return f"{name} {100 * terms[name] / row['bound_ns']:.0f}%"


def bound_launch(options, cubin, words, known):
    """What `gridsmith bound` prints for a launch, and why it does not."""
    found, why = run_tool([options.gridsmith, "bound", cubin] + words, 60)
    if options.input == "all" or (why and options.input and "the rounds of the loop" in why):
        counted, why_not = run_tool([options.gridsmith, "bound", cubin.removesuffix(".cubin"), "--input"] + words, 90)
        if why or not why_not:
            known["is_for_input"] = True
            return counted, why_not
    return found, why


def bound(options, work, row, modes=MODES):
    """Adds the bounds of a launch to its row, or why there are none."""
    if "refused" in row.get("alone", {}):
        return
    cubin, launch = paths_of(work, row)
    for mode in modes:
        part = ["--like", options.gpu, "--sms", str(PART_SMS)] if mode in BESIDE else ["--gpu", options.gpu]
        part += {"alone": ["--cached"], "writing": ["--writers"]}.get(mode, [])
        latencies = ["--latencies", options.latencies] if options.latencies else []
        words = ["--kernel", row["kernel"], "--launch", launch, "--json"] + latencies + part
        known = row.setdefault(mode, {})
        found, why = bound_launch(options, cubin, words, known)
        known.pop("bound_ns", None)
        if why:
            known["refused"] = why
            return
        answer = json.loads(found)
        key = "beside" if mode in BESIDE else "alone"
        known["bound_ns"] = answer[key]["nanoseconds"]
        known["launch_ns"] = answer[key]["launch_ns"]
        known["kind"] = answer[key]["kind"]
        known["terms_ns"] = terms_of(answer[key])
        known["formula_cycles"] = formula_of(answer, PART_SMS if mode in BESIDE else GPU_SMS)


def times_in(printed):
    """What `bounds` printed, up to where it was cut."""
    lines = []
    for line in printed.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def time_rows(options, work, rows, mode, until):
    """Times launches in one process; after one that fails, in another."""
    while rows and time.monotonic() < until:
        cases = os.path.join(work, "cases")
        with open(cases, "w", encoding="utf-8") as file:
            for row in rows:
                cubin, launch = paths_of(work, row)
                file.write(f"{cubin} {row['kernel']} {launch}\n")
        words = [options.bounds, cases, str(options.runs)] + ([] if mode == "alone" else [mode])
        printed, why = run_tool(["timeout", str(int(until - time.monotonic()) + 1)] + words, 3600)
        lines = times_in(printed)
        if lines:
            print(f"{mode}: an empty kernel: {lines[0]}", file=sys.stderr)
        for row, times in zip(rows, lines[1:]):
            row[mode].update({key: value for key, value in times.items() if key in MEASURED})
        rows = rows[max(len(lines) - 1, 0):]
        if rows and why:
            rows[0][mode]["failed"] = why
            rows = rows[1:]


def some_of(rows, count):
    """The rows of so many kernels, spread over all."""
    symbols = list(dict.fromkeys(row["kernel"] for row in rows))
    chosen = {symbols[i * len(symbols) // count] for i in range(count)} if 0 < count < len(symbols) else set(symbols)
    files = {}
    for row in rows:
        files.setdefault(row["kernel"], row["file"])
    return [row for row in rows if row["kernel"] in chosen and files[row["kernel"]] == row["file"]]


def run(options, work, pool):
    until = time.monotonic() + options.limit
    rows = cases_of(options, work, pool)
    list(pool.map(lambda row: bound(options, work, row), rows))
    print(f"bounds known after {options.limit - until + time.monotonic():.0f} s", file=sys.stderr)
    alone = some_of([row for row in rows if "bound_ns" in row.get("alone", {})], options.kernels)
    for mode, share in zip(MODES, (0.7, 0.5, 0.2, 0)):
        timed = [row for row in alone if mode == "alone" or ("runs" in row["alone"] and "bound_ns" in row[mode])]
        time_rows(options, work, timed, mode, until - options.limit * share)
    write_rows(options.out, rows)


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")


def prepare(options, pool):
    """Writes cubins, launches, cases and rows to a folder, for launches that have a bound; in random order, so that the first ones are
    a fair sample if there is no time for all."""
    folder = options.prepare
    os.makedirs(folder, exist_ok=True)
    rows = cases_of(options, folder, pool)
    list(pool.map(lambda row: bound(options, folder, row), rows))
    chosen = some_of([row for row in rows if "bound_ns" in row.get("alone", {})], options.kernels)
    random.Random(1).shuffle(chosen)
    with open(os.path.join(folder, "cases"), "w", encoding="utf-8") as file:
        for row in chosen:
            cubin, launch = (os.path.basename(path) for path in paths_of(folder, row))
            file.write(f"{cubin} {row['kernel']} {launch}\n")
    write_rows(os.path.join(folder, "rows.jsonl"), chosen)
    print(f"{len(chosen)} launches of {len({row['kernel'] for row in chosen})} kernels")


def collect(options):
    """Adds the times of a folder to its rows. Launches that failed have none."""
    folder = options.collect
    with open(os.path.join(folder, "rows.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    row_of = {os.path.basename(paths_of("", row)[1]): row for row in rows}
    for mode in MODES:
        path = os.path.join(folder, mode + ".times")
        for times in times_in(open(path, encoding="utf-8").read()) if os.path.exists(path) else []:
            launch = times.pop("launch")
            if launch:
                row_of[launch].setdefault(mode, {}).update({key: value for key, value in times.items() if key in MEASURED})
            else:
                print(f"{mode}: an empty kernel: {times}", file=sys.stderr)
    write_rows(options.out, rows)


def bound_again(options, work, pool):
    with open_text(options.show) as file:
        times = {(row["file"], row["kernel"], row["size"]): row for row in map(json.loads, file)
                 if any("runs" in row.get(mode, {}) for mode in MODES)}
    rows = cases_of(options, work, pool, times)
    known_of = lambda row: times[row["file"], row["kernel"], row["size"]]
    list(pool.map(lambda row: bound(options, work, row, [mode for mode in MODES if "runs" in known_of(row).get(mode, {})]), rows))
    for row in rows:
        for mode in MODES:
            known = known_of(row).get(mode, {})
            row.setdefault(mode, {}).update({key: value for key, value in known.items() if key in MEASURED})
    return rows


def show_ratios(ratios, mode):
    for ratio, row in reversed(ratios):
        print(f"  {ratio:8.2f}  {row['kernel'][:60]} {row['size']}: {largest_term(row[mode])}")


def empty_late_ns(row):
    """By how much the empty kernel was late among the runs of a launch."""
    return max(row.get("empty_most_ns", 0) - row["launch_ns"], 0) if "launch_ns" in row else 0


def is_explained(row):
    return row["most_ns"] - row["bound_ns"] <= empty_late_ns(row)


def show_late(measured, mode):
    """Launches whose longest run ended after its bound. Returns how many the empty kernel does not explain."""
    late = [row for row in measured if row[mode]["most_ns"] > row[mode]["bound_ns"]]
    shared = [row[mode] for row in measured if empty_late_ns(row[mode])]
    explained = [row for row in late if is_explained(row[mode])]
    print(f"longest run after its bound: {len(late) - len(explained)}, and {len(explained)} that are not evidence")
    if shared:
        print(f"an empty kernel took up to {max(row['empty_most_ns'] for row in shared)} ns, more than the latencies promise, among "
              f"the runs of {len(shared)} launches: others used the GPU, or a launch takes longer")
    for row in late:
        known = row[mode]
        word = "not evidence" if row in explained else "LATE"
        print(f"  {word} {row['kernel']} {row['size']}: {known['most_ns']} ns, bound {known['bound_ns']} ns, "
              f"empty kernel {known.get('empty_most_ns', 'not timed')}")
    return len(late) - len(explained)


def show_parts(measured, mode):
    """What the median would be if a part of the bounds took no time, for parts that change it."""
    def median_without(part):
        ratios = [(row[mode]["bound_ns"] - row[mode].get("terms_ns", {}).get(part, 0)) / row[mode]["most_ns"] for row in measured]
        return statistics.median(ratios)
    whole = median_without("")
    parts = {part for row in measured for part in row[mode].get("terms_ns", {})}
    found = sorted((median_without(part), part) for part in parts)
    print("the median if a part took no time: " + ", ".join(f"{part} {median:.2f}" for median, part in found if median < whole - 0.01))


def show_mode(rows, mode):
    """A table of one mode. Returns how many launches had a run after their bound."""
    measured = [row for row in rows if "bound_ns" in row.get(mode, {}) and "runs" in row[mode]]
    ratios = sorted(((row[mode]["bound_ns"] / row[mode]["most_ns"], row) for row in measured), key=lambda pair: pair[0])
    kernels = len({(row["file"], row["kernel"]) for row in measured})
    if not measured:
        return 0
    print(f"{mode}: {len(measured)} launches of {kernels} kernels, {sum(row[mode]['runs'] for row in measured)} runs")
    late = show_late(measured, mode)
    short = sum(row[mode].get("formula_cycles", 0) / CLOCK_GHZ < row[mode]["least_ns"] for row in measured)
    print(f"the paper's formula is below the shortest run in {short}")
    print(f"bound / longest run: least {ratios[0][0]:.2f}, median {statistics.median(ratio for ratio, _ in ratios):.2f}, "
          f"most {ratios[-1][0]:.2f}; the largest:")
    show_ratios(ratios[-10:], mode)
    show_parts(measured, mode)
    print("around the median:")
    show_ratios(ratios[len(ratios) // 2 - 2:len(ratios) // 2 + 3], mode)
    return late


def show(rows):
    late = sum(show_mode(rows, mode) for mode in MODES)
    reasons = {}
    for row in rows:
        for mode in MODES:
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
    parser.add_argument("--kernels", type=int, default=0, help="so many of those that have a bound; 0: all")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which no launch begins")
    parser.add_argument("--sizes", help="as 256,1024,4096, for all kernels")
    parser.add_argument("--fit", type=float, default=0, help="buffers of 2 MB where the CPU can run the kernel with them, in so many seconds")
    parser.add_argument("--prepare", help="write what the timing needs to a folder")
    parser.add_argument("--collect", help="make rows of what was timed in a folder")
    parser.add_argument("--input", nargs="?", const="unknown", choices=("unknown", "all"),
                        help="count rounds of loops on the CPU where the code does not say them, or of all loops")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--latencies", help="a file of gridsmith probe --latency; default: those of the GPU's description")
    parser.add_argument("--gridsmith", default="gridsmith")
    parser.add_argument("--bounds", default=os.path.join(here, "bounds"))
    parser.add_argument("--out", help="the file of rows")
    parser.add_argument("--show", help="only show the rows of a file")
    options = parser.parse_args()
    if options.collect:
        return collect(options)
    if not options.show and not (options.ptx and (options.out or options.prepare)):
        parser.error("give --ptx FOLDER and --out FILE, or --show FILE")
    if options.prepare:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return prepare(options, pool)
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if not options.show:
            run(options, work, pool)
        if options.show and options.ptx:
            rows = bound_again(options, work, pool)
        else:
            with open_text(options.show or options.out) as file:
                rows = [json.loads(line) for line in file]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
