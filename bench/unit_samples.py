#!/usr/bin/env python3
"""unit_samples.py: a picture of what bench/unit_samples has sampled: units over time.

    python3 bench/unit_samples.py samples.csv [UNIT,UNIT...]                         where the GPU worked: begin, end and means
    python3 bench/unit_samples.py samples.csv issue,dram 'streams=120.5-171' 'daemon=300-345' > units.svg

Each panel has a name and a range in ms. A range without work of 1 ms or more divides what the first form prints.
"""
import csv
import sys

WIDTH, HEIGHT, GAP, LEFT, TOP, POINTS = 720, 110, 34, 46, 26, 360
COLORS = ["#0b62a4", "#c7472e", "#3a8a3a", "#8a5aa8", "#b8860b"]
IDLE_MS, WORKS = 1.0, 1.0


def read(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    names = rows[0][1:]
    return names, [[float(word) for word in row] for row in rows[1:] if len(row) == len(names) + 1]


def spans(samples):
    """Begins and ends, in ms, of work without a pause of IDLE_MS."""
    found = []
    for at, *units in samples:
        if max(units) < WORKS:
            continue
        ms = at / 1000
        if found and ms - found[-1][1] < IDLE_MS:
            found[-1][1] = ms
        else:
            found.append([ms, ms])
    return found


def within(samples, begin, end):
    return [row for row in samples if begin <= row[0] / 1000 <= end]


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


def panel(name, rows, begin, end, span, columns, names, top):
    print(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT}" height="{HEIGHT}" fill="none" stroke="#999"/>')
    means = ", ".join(f"{names[column - 1]} {mean(rows, column):.0f}%" for column in columns)
    print(f'<text x="{LEFT}" y="{top - 6}">{name}: {end - begin:.1f} ms; on average {means}</text>')
    for percent in (0, 50, 100):
        print(f'<text x="{LEFT - 6}" y="{top + HEIGHT * (1 - percent / 100) + 4:.0f}" text-anchor="end">{percent}</text>')
    for i, column in enumerate(columns):
        print(f'<polyline fill="none" stroke="{COLORS[i]}" stroke-width="1.2" points="{line(rows, column, begin, span, top)}"/>')


def draw(names, samples, units, ranges):
    columns = [names.index(unit) + 1 for unit in units]
    parsed = [(name, *map(float, text.split("-"))) for name, text in (word.split("=") for word in ranges)]
    span, height = max(end - begin for _, begin, end in parsed), TOP + len(parsed) * (HEIGHT + GAP) + 20
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 10} {height}" font-family="sans-serif" font-size="12">')
    print('<rect width="100%" height="100%" fill="white"/>')
    for i, (name, begin, end) in enumerate(parsed):
        panel(name, within(samples, begin, end), begin, end, span, columns, names, TOP + i * (HEIGHT + GAP))
    for i, unit in enumerate(units):
        print(f'<text x="{LEFT + 110 * i}" y="{height - 10}" fill="{COLORS[i]}">{unit}, percent</text>')
    print(f'<text x="{WIDTH}" y="{height - 10}" text-anchor="end">{span:.1f} ms</text>\n</svg>')


def main(words):
    if not words or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    names, samples = read(words[0])
    units = words[1].split(",") if len(words) > 1 else names
    if len(words) > 2:
        draw(names, samples, units, words[2:])
        return 0
    for begin, end in spans(samples):
        rows = within(samples, begin, end)
        print(f"{begin:.1f}-{end:.1f}: {end - begin:.1f} ms; " + ", ".join(f"{unit} {mean(rows, names.index(unit) + 1):.0f}%" for unit in units))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
