#!/usr/bin/env python3
"""programs_table.py: tables of what bench/programs has measured.

    python3 bench/programs_table.py pairs.jsonl [more.jsonl ...]

The gain of a way is (one after the other) / makespan - 1, of the medians. For each program of --first there is a column, and for each of
--second a row, with the gain of streams and, where it was measured, that of the daemon. Then the averages, and by how much each way is
behind the best of one after the other, streams and MPS. Of a pair that is in several files, the last counts.
"""
import json
import statistics
import sys

PLAIN = ("serial", "streams", "mps")
WAYS = {"streams": "streams", "mps": "MPS", "served": "daemon", "served_2": "second daemon", "served_3": "third daemon", "planned": "daemon with a plan"}


def median(pair, way):
    return statistics.median(pair[way]["makespan_ms"])


def gain(pair, way, over="serial"):
    return 100 * (median(pair, over) / median(pair, way) - 1)


def over_best(pair, way):
    return 100 * (min(median(pair, plain) for plain in PLAIN if plain in pair) / median(pair, way) - 1)


def print_matrix(pairs, title):
    firsts, seconds = list(dict.fromkeys(first for first, _ in pairs)), sorted({second for _, second in pairs})
    print(f"**{title}**\n\n| beside | " + " | ".join(firsts) + " |\n|" + " --- |" * (len(firsts) + 1))
    for second in seconds:
        cells = []
        for first in firsts:
            pair = pairs.get((first, second), {})
            cells.append(", ".join(f"{gain(pair, way):+.1f}" for way in ("streams", "served") if way in pair))
        print(f"| `{second}` | " + " | ".join(cells) + " |")
    print()


def print_averages(pairs):
    print("| way | pairs | over one after the other | over streams | behind the best of the plain ways | within 1% | within 2% | worst |\n|" +
          " --- |" * 8)
    for way, words in WAYS.items():
        found = {name: pair for name, pair in pairs.items() if way in pair}
        if not found:
            continue
        behind = {name: over_best(pair, way) for name, pair in found.items()}
        worst = min(behind, key=behind.get)
        print(f"| {words} | {len(found)} | {statistics.mean(gain(pair, way) for pair in found.values()):+.1f}% | "
              f"{statistics.mean(gain(pair, way, 'streams') for pair in found.values() if 'streams' in pair):+.1f}% | "
              f"{statistics.mean(behind.values()):+.1f}% | {sum(value > -1 for value in behind.values())} | "
              f"{sum(value > -2 for value in behind.values())} | {behind[worst]:+.1f}% ({worst[0]}, {worst[1]}) |")
    print()


def main(paths):
    if not paths or paths[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    pairs = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                pair = json.loads(line)
                pairs[pair["first"], pair["second"]] = pair
    libraries = {name: pair for name, pair in pairs.items() if name[0].endswith("/cublas")}
    others = {name: pair for name, pair in pairs.items() if name not in libraries}
    for part, title in ((others, "Kernels of the zoo"), (libraries, "Products of cuBLAS")):
        if part:
            print_matrix(part, title)
            print_averages(part)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
