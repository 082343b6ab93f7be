"""table.py: the tables of docs/reports/neighbors.md from what neighbors.py has written: python3 bench/neighbors/table.py FILE.json...

The first table has p99 of the wall time of requests as a multiple of p99 alone, and the share of the work that was kept: medians of
the rounds, and the least and greatest round. The second has times in ms, on the wall and on the GPU, and p50, p99 and p99.9 as
multiples of those alone. Where several programs of a kind run at once, each has a number of its own. "What the rule takes" is what
`gridsmith run` should choose when the daemon has measured both ways: the numbers are those of `run --mps` or `run --no-mps`. Of
a file of chosen.py there is one more table, first: what `gridsmith run` chose, and why.
"""
import json
import statistics
import sys

from percentiles import percentile

NAMES = {"bert": "BERT-large as a graph, training of BERT", "resnet": "ResNet-50 as a graph, training of ResNet",
         "gpt2": "2 decode steps of GPT-2 size as graphs, training of BERT", "eager": "BERT-large, eager, training of ResNet",
         "triton": "a model in Triton, eager, training of BERT", "prefill": "BERT-large as a graph, prefill",
         "vit": "vision transformer as a graph, training of GPT-2", "tokens": "16 tokens, each waited for, training of GPT-2",
         "recommender": "recommender, eager, with copies; kernels of up to 20 ms",
         "convolutions": "convolutions on two streams, a graph of 35 ms", "vit-long": "vision transformer as a graph, kernels of up to 20 ms",
         "recommender-lstm": "recommender, eager, with copies; training of an LSTM with copies of 256 MB",
         "four": "vision transformer and recommender, training of GPT-2 and of an LSTM"}
HEADS = {"sliced": "time-sliced", "mps": "MPS", "priorities": "MPS, priorities", "ours-slices": "`run --no-mps`",
         "ours-mps": "`run --mps`", "ours-mixed": "`run --mps`, `run --no-mps` beside it", "ours": "`run`",
         "run-alone": "`run`, alone", "idle": "`run`, the other idle",
         "rule": "what the rule takes"}
SHARES = (0.5, 0.99, 0.999)


def numbers_of(result, key):
    """Of the programs that answer with this key."""
    return [number for number, answer in enumerate(result["rounds"][0]) if key in answer]


def of_rounds(result, number, key, share):
    return [percentile(sorted(answers[number][key]), share) for answers in result["rounds"]]


def of_all(result, number, key):
    return sorted(value for answers in result["rounds"] for value in answers[number][key])


def steps_of(result, number):
    return statistics.median(answers[number]["steps_per_s"] for answers in result["rounds"])


def compare_requests(result, alone):
    """For each program with requests: p99 as a multiple of p99 alone, and that of the least and of the greatest round."""
    found = []
    for number in numbers_of(result, "wall_ms"):
        base = statistics.median(of_rounds(alone, number, "wall_ms", 0.99))
        ratios = [p99 / base for p99 in of_rounds(result, number, "wall_ms", 0.99)]
        found.append((statistics.median(ratios), min(ratios), max(ratios)))
    return found


def compare_work(result, alone):
    """For each program that works: the share of its work that was kept, in percent."""
    return [100 * steps_of(result, number) / steps_of(alone, number) for number in numbers_of(result, "steps_per_s")]


def compare(result, alone):
    """The worst ratio of p99, and the mean share of the work that was kept."""
    return max(ratio for ratio, _, _ in compare_requests(result, alone)), statistics.mean(compare_work(result, alone))


def cell_of(result, alone):
    ratios = " and ".join(f"{ratio:.2f}x ({least:.2f}–{most:.2f})" for ratio, least, most in compare_requests(result, alone))
    return f"{ratios}, {' and '.join(f'{kept:.0f}%' for kept in compare_work(result, alone))}"


def slow_ms(result, number):
    """The mean of the slowest twentieth of the requests without the slowest hundredth, of each a hundred times."""
    times = sorted(time for answers in result["rounds"] for time in answers[number].get("wall_ms", []) for _ in range(100))
    return statistics.mean(times[len(times) * 95 // 100:len(times) * 99 // 100])


def lost_ms(result, alone, tolerated):
    """What requests lose, as src/sharing/serve/stretch.c counts it, but of all rounds, and exactly."""
    lost = [(slow_ms(result, number) - slow_ms(alone, number), slow_ms(alone, number)) for number in numbers_of(alone, "wall_ms")]
    return max(ms if ms > tolerated * slow else 0 for ms, slow in lost)


def choose(given):
    """What `gridsmith run` takes when both ways were measured. See src/sharing/serve/choice.c."""
    if "ours-mps" not in given or "ours-slices" not in given:
        return None
    mps, slices = lost_ms(given["ours-mps"], given["alone"], 0.1), lost_ms(given["ours-slices"], given["alone"], 0)
    return "ours-mps" if slices >= 0.75 * mps else "ours-slices"


def print_ratios(results, modes):
    print("| request, work beside it | alone p50, p99 ms |", " | ".join(HEADS.get(mode, mode) for mode in modes), "|")
    print("| --- " * (len(modes) + 2) + "|")
    for pair, given in results.items():
        alone = given["alone"]
        times = [", ".join(f"{statistics.median(of_rounds(alone, number, 'wall_ms', share)):.2f}" for share in SHARES[:2])
                 for number in numbers_of(alone, "wall_ms")]
        cells = [cell_of(given[mode], alone) if mode in given else "" for mode in modes]
        print("|", NAMES.get(pair, pair), "|", " and ".join(times), "|", " | ".join(cells), "|")
    means = []
    for mode in modes:
        found = [compare(given[mode], given["alone"]) for given in results.values() if mode in given]
        means.append("{:.2f}x, {:.0f}%".format(*(statistics.mean(column) for column in zip(*found))))
    print("| average | |", " | ".join(means), "|")


def print_times(results):
    print("\n| pair | mode | wall p50 | p99 | p99.9 | GPU p50 | p99 | of alone: p50 | p99 | p99.9 | requests |\n" + "| --- " * 11 + "|")
    for pair, given in results.items():
        for mode, result in given.items():
            for number in numbers_of(result, "wall_ms"):
                wall, alone = of_all(result, number, "wall_ms"), of_all(given["alone"], number, "wall_ms")
                gpu = of_all(result, number, "gpu_ms")
                times = [f"{percentile(values, share):.3f}" for values, shares in ((wall, SHARES), (gpu, SHARES[:2])) for share in shares]
                ratios = [f"{percentile(wall, share) / percentile(alone, share):.2f}x" for share in SHARES]
                print(f"| {pair} | {mode} |", " | ".join(times + ratios), f"| {len(wall)} |")


def work_of(result):
    """What the status says of the best-effort program."""
    return next((program for program in result["programs"] if program["class"] == "best-effort"), {})


def print_chosen(results):
    """What `gridsmith run` chose by itself. Pairs with the worst p99 are first."""
    print("| request, work beside it | alone p50, p99 ms | chosen | p99 | p50 | p99.9 | kept | requests | why |\n" + "| --- " * 9 + "|")
    rows = sorted(((*compare(given["ours"], given["alone"]), pair) for pair, given in results.items()), reverse=True)
    for ratio, kept, pair in rows:
        ours, alone = (of_all(results[pair][mode], 0, "wall_ms") for mode in ("ours", "alone"))
        p50, p999 = (percentile(ours, share) / percentile(alone, share) for share in (0.5, 0.999))
        work = work_of(results[pair]["ours"])
        print(f"| {NAMES.get(pair, pair)} | {percentile(alone, 0.5):.2f}, {percentile(alone, 0.99):.2f} | {work.get('sharing')} | {ratio:.2f}x "
              f"| {p50:.2f}x | {p999:.2f}x | {kept:.0f}% | {len(ours)} | {work.get('sharing_why')} |")
    ratios, kept, _ = zip(*rows)
    print(f"| average of {len(rows)} | | | {statistics.mean(ratios):.2f}x | | | {statistics.mean(kept):.0f}% | | |\n")


def is_complete(result):
    return bool(result["rounds"]) and not any("failed" in answer for answers in result["rounds"] for answer in answers)


def read(paths):
    """Pairs of several files. Modes that failed, or have no rounds, are left out."""
    results = {}
    for path in paths:
        with open(path) as file:
            for pair, given in json.load(file).items():
                results.setdefault(pair, {}).update({mode: result for mode, result in given.items() if is_complete(result)})
    return {pair: given for pair, given in results.items() if "alone" in given}


def main():
    results = read(sys.argv[1:])
    for given in results.values():
        if choose(given):
            given["rule"] = given[choose(given)]
    chosen = {pair: given for pair, given in results.items() if "ours" in given}
    if chosen:
        print_chosen(chosen)
    modes = list(dict.fromkeys(mode for given in results.values() for mode in given if mode != "alone"))
    modes.sort(key=lambda mode: list(HEADS).index(mode) if mode in HEADS else len(HEADS))
    print_ratios(results, modes)
    print_times(results)


if __name__ == "__main__":
    main()
