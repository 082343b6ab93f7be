#!/usr/bin/env python3
"""unit_samples.py: a picture of what bench/unit_samples has sampled: units over time, a panel for each way.

    python3 bench/unit_samples.py samples.csv                                  where the GPU worked: way, begin and end in ms, means
    python3 bench/unit_samples.py samples.csv issue,l2 'two streams=streams:0-46.8' > units.svg

A panel has a title, a way, and a range in ms from the first work of that way. The first sample of a way began before it, and is left out.
"""
import csv
import gzip
import sys

WIDTH, HEIGHT, GAP, LEFT, TOP, POINTS = 720, 110, 34, 46, 26, 360
COLORS = ["#0b62a4", "#c7472e", "#3a8a3a", "#8a5aa8"]
IDLE_MS, WORKS = 1.0, 1.0


def read(path):
    """Names of units, and for each way rows of ms and percents, from its first work on."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
        rows = list(csv.reader(file))
    ways = {}
    for row in rows[1:]:
        ways.setdefault(row[0], []).append([float(row[1]) / 1000, *map(float, row[2:])])
    for way, samples in ways.items():
        first = next((row[0] for row in samples[1:] if max(row[1:]) >= WORKS), 0)
        ways[way] = [[row[0] - first, *row[1:]] for row in samples[1:]]
    return rows[0][2:], ways


def spans(samples):
    """Begins and ends of work without a pause of IDLE_MS."""
    found = []
    for ms, *units in samples:
        if max(units) < WORKS:
            continue
        if found and ms - found[-1][1] < IDLE_MS:
            found[-1][1] = ms
        else:
            found.append([ms, ms])
    return found


def within(samples, begin, end):
    return [row for row in samples if begin <= row[0] <= end]


def mean(rows, column):
    return sum(row[column] for row in rows) / max(len(rows), 1)


def line(rows, column, begin, span, top):
    """Means of POINTS parts of the range, so that the picture stays small."""
    words = []
    for i in range(POINTS):
        part = within(rows, begin + span * i / POINTS, begin + span * (i + 1) / POINTS)
        if part:
            words.append(f"{LEFT + (WIDTH - LEFT) * (i + 0.5) / POINTS:.1f},{top + HEIGHT * (1 - mean(part, column) / 100):.1f}")
    return " ".join(words)


def panel(title, rows, begin, end, span, columns, names, top):
    print(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT}" height="{HEIGHT}" fill="none" stroke="#999"/>')
    means = ", ".join(f"{names[column - 1]} {mean(rows, column):.0f}%" for column in columns)
    print(f'<text x="{LEFT}" y="{top - 6}">{title}: {end - begin:.1f} ms; on average {means}</text>')
    for percent in (0, 50, 100):
        print(f'<text x="{LEFT - 6}" y="{top + HEIGHT * (1 - percent / 100) + 4:.0f}" text-anchor="end">{percent}</text>')
    for i, column in enumerate(columns):
        print(f'<polyline fill="none" stroke="{COLORS[i]}" stroke-width="1.2" points="{line(rows, column, begin, span, top)}"/>')


def draw(names, ways, units, panels):
    columns = [names.index(unit) + 1 for unit in units]
    parsed = []
    for text in panels:
        title, place = text.split("=")
        way, ends = place.split(":")
        parsed.append((title, ways[way], *map(float, ends.split("-"))))
    span, height = max(end - begin for *_, begin, end in parsed), TOP + len(parsed) * (HEIGHT + GAP) + 20
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 10} {height}" font-family="sans-serif" font-size="12">')
    print('<rect width="100%" height="100%" fill="white"/>')
    for i, (title, samples, begin, end) in enumerate(parsed):
        panel(title, within(samples, begin, end), begin, end, span, columns, names, TOP + i * (HEIGHT + GAP))
    for i, unit in enumerate(units):
        print(f'<text x="{LEFT + 110 * i}" y="{height - 10}" fill="{COLORS[i]}">{unit}, percent</text>')
    print(f'<text x="{WIDTH}" y="{height - 10}" text-anchor="end">{span:.1f} ms</text>\n</svg>')


def main(words):
    if not words or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    names, ways = read(words[0])
    if len(words) > 2:
        draw(names, ways, words[1].split(","), words[2:])
        return 0
    for way, samples in ways.items():
        for begin, end in spans(samples):
            rows = within(samples, begin, end)
            means = ", ".join(f"{name} {mean(rows, i + 1):.0f}%" for i, name in enumerate(names))
            print(f"{way} {begin:.1f}-{end:.1f}: {end - begin:.1f} ms; {means}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
