#!/usr/bin/env python3
"""pairs_units.py: which units of the GPU are busy while two kernels of bench/pairs run, from hardware counters.

    ncu --target-processes application-only --clock-control none --cache-control none --metrics METRICS --page raw --csv \
        build/release/bench/pairs --alone --no-mps --ms 1 >counters.csv
    python3 bench/pairs_units.py counters.csv [more.csv ...] [--pairs pairs.json]

`--metrics` without files prints METRICS. ncu measures each kernel alone: how much of the peak of each unit it uses, in
the cycles that it takes. Without `--pairs` that is the table. With the document of `pairs --json`, there is a row for each
pair: both kernels do the same work as alone, so a unit is busy for the sum of the times, and its part of the makespan of
the best way is what is printed: the three units that are used most.
"""
import csv
import json
import re
import sys

SUFFIX = ".avg.pct_of_peak_sustained_elapsed"
UNITS = {
    "issue": "sm__issue_active",
    "tensor": "sm__pipe_tensor_cycles_active",
    "FMA": "sm__pipe_fma_cycles_active",
    "FMA heavy": "sm__pipe_fmaheavy_cycles_active",
    "ALU": "sm__pipe_alu_cycles_active",
    "special": "sm__inst_executed_pipe_xu",
    "LSU": "sm__inst_executed_pipe_lsu",
    "L1": "l1tex__data_pipe_lsu_wavefronts",
    "L2": "lts__throughput",
    "DRAM": "gpu__dram_throughput",
}
DURATION = "gpu__time_duration.sum"
CUBLAS = r"nvjet|gemm_|cutlass"  # names of its kernels


def read_rows(paths):
    """Launches: the kernel's name and what was counted."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.startswith('"')]
        table = list(csv.reader(lines))
        for row in table[2:]:
            values = dict(zip(table[0], row))
            name = re.split(r"[(<]", values["Kernel Name"])[0].strip()
            yield name, {key: number(text) for key, text in values.items()}


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 0.0


def side_of(kernel, before):
    """The name of a kernel in bench/pairs; `before` is the kernel of the launch before it."""
    if kernel == "im2col" or (kernel == "tgemm" and before == "im2col"):
        return "conv"
    if re.search(CUBLAS, kernel):
        return "cuBLAS"
    return "(%s)" % kernel[5:] if kernel.startswith("unit_") else kernel


def sides(paths):
    """For each name of bench/pairs: the parts of peaks, in percent, over the time of all its launches."""
    found, before = {}, ""
    for kernel, values in read_rows(paths):
        found.setdefault(side_of(kernel, before), []).append(values)
        before = kernel
    return {name: mean(launches) for name, launches in found.items()}


def mean(launches):
    total = sum(values[DURATION] for values in launches)
    return {
        unit: sum(values[metric + SUFFIX] * values[DURATION] for values in launches) / total for unit, metric in UNITS.items()
    }


def print_alone(units):
    print("| kernel | " + " | ".join(UNITS) + " |\n|" + " --- |" * (len(UNITS) + 1))
    for name, used in units.items():
        print("| %s | %s |" % (name, " | ".join("%.0f" % used[unit] for unit in UNITS)))


def together(units, pair):
    """Percent of the makespan of the best way that each unit is busy; or None."""
    both = [(pair["first"], pair["first_ms"]), (pair["second"], pair["second_ms"])]
    if any(name not in units for name, _ in both):
        return None
    makespan = pair[pair["best"]]["makespan_ms"]
    return {unit: sum(units[name][unit] * ms for name, ms in both) / makespan for unit in UNITS}


def print_pairs(units, pairs):
    print("| pair | best way | over streams | most used then |\n| --- | --- | --- | --- |")
    for pair in pairs:
        used = together(units, pair)
        gain = 100 * (pair["streams"]["makespan_ms"] / pair[pair["best"]]["makespan_ms"] - 1)
        words = "not counted"
        if used:
            most = sorted(used, key=used.get, reverse=True)[:3]
            words = ", ".join("%s %.0f%%" % (unit, used[unit]) for unit in most)
        print("| %s + %s | %s | %+.1f%% | %s |" % (pair["first"], pair["second"], pair["best"], gain, words))


def main(words):
    if words == ["--metrics"]:
        print(",".join([metric + SUFFIX for metric in UNITS.values()] + [DURATION]))
        return 0
    pairs = None
    if "--pairs" in words[:-1]:
        at = words.index("--pairs")
        with open(words[at + 1], encoding="utf-8") as file:
            pairs = json.load(file)["pairs"]
        words = words[:at] + words[at + 2 :]
    if not words or any(word.startswith("-") for word in words):
        print(__doc__, file=sys.stderr)
        return 2
    units = sides(words)
    if pairs is None:
        print_alone(units)
    else:
        print_pairs(units, pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
