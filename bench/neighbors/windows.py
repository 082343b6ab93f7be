"""windows.py: the gain of running long best-effort kernels only while no request is expected: python3 bench/neighbors/windows.py

An estimate, without a GPU. After a request none comes for a while: the window, which could be learned. A kernel that is longer than
a limit, and would not end in the window, waits for the next one. Streams work in order, so the launches behind it wait, too.

Prints for each kind of work and limit what a request loses until it runs (with time slices: the switch between processes; with MPS:
the kernel that runs), and which share of the time the work has. How long kernels take was recorded on an H200 (torch.profiler); their
order is random, but for prefill. What a switch and a wait cost is measured by switch_cost.c; see docs/reports/neighbors.md.
"""
import random

from percentiles import percentile

REQUESTS = 4000
WAIT_US, AHEAD_US = 2.3, 50  # a wait for the marks; how much work lies between two
SWITCH_US, INTERRUPT_US, SPREAD_US = 160, 240, 8  # until a request runs: another process was idle; one of its kernels runs
BACK_US = {"slices": 90, "MPS": 9}  # until work goes on after a request


def spread(total_us, parts, longest):
    """Kernels of a step. Parts: (kernels longer than, how many, their share of the time in %). The longest are known one by one."""
    kernels = list(longest)
    for (above, count, share), (below, fewer, less) in zip(parts, parts[1:] + [(longest[0], 0, 0)]):
        known = [us for us in longest if above < us <= below]
        left = count - fewer - len(known)
        if left > 0:
            mean = (total_us * (share - less) / 100 - sum(known)) / left
            half = max(0, min(mean - above, below - mean))
            kernels += [mean + half * (2 * (number + 0.5) / left - 1) for number in range(left)]
    return kernels


def mixed(kernels):
    random.Random(1).shuffle(kernels)
    return kernels


BERT = mixed(spread(51113, [(0, 1554, 100), (25, 778, 82.9), (50, 350, 54.5), (100, 24, 5.9)], [129, 128, 128, 128] + [126] * 20))
RESNET = mixed(spread(27875, [(0, 904, 100), (25, 325, 87), (50, 177, 67.3), (100, 42, 33.2), (150, 26, 25.3), (200, 11, 16.2)],
                      [910, 776, 448, 416, 353, 281, 281, 280, 280, 271, 227]))
PREFILL = [12, 245, 20, 83, 85, 8, 12, 226, 75, 226, 75, 226, 8] * 8
WORK = {"BERT training": (BERT, 1020), "ResNet training": (RESNET, 910), "prefill": (PREFILL, 1110)}  # and the request beside it
GAPS = {"2 to 8 ms, at random": (lambda dice: dice.uniform(2000, 8000), 2000),  # and the window
        "5 ms, to 0.1 ms": (lambda dice: dice.uniform(4900, 5100), 4900)}


def simulate(work, gaps, limit_us, how):
    """The time that requests lose, in us, and the share of the time in which kernels ran."""
    kernels, request_us = work
    gap, window_us = gaps
    dice, lost, now, at, ran, ahead = random.Random(2), [], 0.0, 0, 0.0, 0.0
    for _ in range(REQUESTS):
        ended, mark = now, now + gap(dice)
        now += BACK_US[how]
        left = 0
        while now < mark:
            us = kernels[at % len(kernels)]
            if us > limit_us and now + us > ended + window_us:
                now = mark
                break
            ahead += us
            if ahead > AHEAD_US:
                now, ahead = now + WAIT_US, us
            now, at, ran = now + us, at + 1, ran + us
            left = max(0, now - mark)
        if how == "MPS":
            lost.append(left)
            now = mark + left + request_us
        else:  # a kernel that was interrupted ends after the request
            lost.append(dice.gauss(INTERRUPT_US if left else SWITCH_US, SPREAD_US))
            now = mark + lost[-1] + request_us + left
    return sorted(lost), 100 * ran / now


def main():
    for title, gaps in GAPS.items():
        print(f"requests after {title}\n| work | way | kernels that wait | lost p50 us | p99 us | time for work |\n" + "| --- " * 6 + "|")
        for name, work in WORK.items():
            for how in BACK_US:
                for limit_us in (None, 400, 200, 100, 0):
                    if limit_us and limit_us > max(work[0]):
                        continue
                    lost, share = simulate(work, gaps, float("inf") if limit_us is None else limit_us, how)
                    which = "none" if limit_us is None else f"longer than {limit_us} us" if limit_us else "all"
                    print(f"| {name} | {how} | {which} | {percentile(lost, 0.5):.0f} | {percentile(lost, 0.99):.0f} | {share:.0f}% |")


if __name__ == "__main__":
    main()
