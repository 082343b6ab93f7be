"""table.py: the tables of docs/reports/neighbors.md from what neighbors.py has written: python3 bench/neighbors/table.py FILE.json

The first table has p99 of the wall time of requests as a multiple of p99 alone, and the share of the work that was kept: medians of
the rounds, and the least and greatest round. The second has times in ms, on the wall and on the GPU.
"""
import json
import statistics
import sys

from percentiles import percentile

NAMES = {"bert": "BERT-large as a graph, training of BERT", "resnet": "ResNet-50 as a graph, training of ResNet",
         "gpt2": "2 decode steps of GPT-2 size as graphs, training of BERT", "eager": "BERT-large, eager, training of ResNet",
         "triton": "a model in Triton, eager, training of BERT", "prefill": "BERT-large as a graph, prefill"}
HEADS = {"sliced": "time-sliced", "mps": "MPS", "priorities": "MPS, priorities", "ours": "`run`"}


def of_rounds(result, key, share):
    return [percentile(sorted(answers[0][key]), share) for answers in result["rounds"]]


def steps_of(result):
    return statistics.median(answers[1]["steps_per_s"] for answers in result["rounds"])


def compare(result, alone):
    """The ratio of p99, those of the rounds, and the share of the work that was kept."""
    base = statistics.median(of_rounds(alone, "wall_ms", 0.99))
    ratios = [p99 / base for p99 in of_rounds(result, "wall_ms", 0.99)]
    return statistics.median(ratios), min(ratios), max(ratios), 100 * steps_of(result) / steps_of(alone)


def print_ratios(results, modes):
    print("| request, work beside it | alone p50, p99 ms |", " | ".join(HEADS.get(mode, mode) for mode in modes), "|")
    print("| --- " * (len(modes) + 2) + "|")
    found = {mode: [] for mode in modes}
    for pair, given in results.items():
        alone = given["alone"]
        cells = [", ".join(f"{statistics.median(of_rounds(alone, 'wall_ms', share)):.2f}" for share in (0.5, 0.99))]
        for mode in modes:
            if mode in given:
                ratio, least, most, kept = compare(given[mode], alone)
                found[mode].append((ratio, kept))
                cells.append(f"{ratio:.2f}x ({least:.2f}–{most:.2f}), {kept:.0f}%")
            else:
                cells.append("")
        print("|", NAMES.get(pair, pair), "|", " | ".join(cells), "|")
    means = [[statistics.mean(column) for column in zip(*found[mode])] for mode in modes]
    print("| average | |", " | ".join(f"{ratio:.2f}x, {kept:.0f}%" for ratio, kept in means), "|")


def print_times(results):
    print("\n| request | mode | wall p50 | p99 | p99.9 of all | GPU p50 | p99 | steps/s |\n" + "| --- " * 8 + "|")
    for pair, given in results.items():
        for mode, result in given.items():
            wall, gpu = ([statistics.median(of_rounds(result, key, share)) for share in (0.5, 0.99)] for key in ("wall_ms", "gpu_ms"))
            everything = sorted(time for answers in result["rounds"] for time in answers[0]["wall_ms"])
            numbers = [*wall, percentile(everything, 0.999), *gpu]
            print(f"| {pair} | {mode} |", " | ".join(f"{number:.3f}" for number in numbers), f"| {steps_of(result):.2f} |")


def main():
    with open(sys.argv[1]) as file:
        results = {pair: given for pair, given in json.load(file).items() if given.get("alone", {}).get("rounds")}
    results = {pair: {mode: result for mode, result in given.items() if result["rounds"]} for pair, given in results.items()}
    modes = list(dict.fromkeys(mode for given in results.values() for mode in given if mode != "alone"))
    modes.sort(key=lambda mode: list(HEADS).index(mode) if mode in HEADS else len(HEADS))
    print_ratios(results, modes)
    print_times(results)


if __name__ == "__main__":
    main()
