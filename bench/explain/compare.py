"""What-ifs beside measurements: python3 compare.py GRIDSMITH FOLDER

FOLDER has `measured.jsonl`, what `programs.py PROGRAM measure` printed for each program, and the recordings PROGRAM.jsonl.gz
of the unchanged programs. Prints a row for each change: the measured time of a step, the predicted one or its interval, the
null model's (stream order and gaps, no scheduler), and whether the prediction is right: its middle is within 10%, or the
measurement is in its interval; and the interval is at most 25% wide. How many are right is said for the medians of the rounds, and for
the shortest rounds of both programs. Then a row for each advice that was followed: `place` is its place in the list of `explain`.
"""
import json
import subprocess
import sys


def explain(gridsmith, path, change, unchanged_us):
    """None: it fails, and says why."""
    answer = subprocess.run([gridsmith, "explain", "--json", "--step-us", "%.0f" % unchanged_us, "--what-if", change, path],
                            capture_output=True, text=True, timeout=600)
    if answer.returncode:
        print(answer.stderr, file=sys.stderr)
    return None if answer.returncode else json.loads(answer.stdout)


def verdict(measured, least, most):
    middle = (least + most) / 2
    if most - least > 0.25 * middle:
        return "wide" if least <= measured <= most else "no"
    return "yes" if least <= measured <= most or abs(middle - measured) <= 0.1 * measured else "no"


def is_right_at_best(gridsmith, path, row):
    """Of the shortest rounds of the changed and the unchanged program."""
    if "step_least_us" not in row:
        return False
    answer = explain(gridsmith, path, row["change"], row["unchanged_least_us"])
    return answer and verdict(row["step_least_us"], answer["what_if"][0]["least_us"], answer["what_if"][0]["most_us"]) == "yes"


def interval(least, most):
    return "%.0f" % least if most - least <= 0.02 * least else "%.0f to %.0f" % (least, most)


def print_followed(followed):
    if followed:
        print("\n| program | advice | place | unchanged us | predicted us | measured us |\n| --- | --- | --- | --- | --- | --- |")
    for row, least, most in followed:
        print("| %s | `%s` | %d | %.0f | %s | %.0f |" % (row["program"], row["change"], row["advice"], row["unchanged_us"],
              interval(least, most), row["step_us"]))


def main():
    gridsmith, folder = sys.argv[1:]
    good = total = null_good = at_best = 0
    followed = []
    print("| program | change | unchanged us | measured us | predicted us | off | null model us | right |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")
    for line in open(folder + "/measured.jsonl"):
        row = json.loads(line)
        if "error" in row:
            print(row, file=sys.stderr)
            continue
        path = "%s/%s.jsonl.gz" % (folder, row["program"])
        answer = explain(gridsmith, path, row["change"], row["unchanged_us"])
        if not answer:
            continue
        predicted = answer["what_if"][0]
        time, least, most = row["step_us"], predicted["least_us"], predicted["most_us"]
        right = verdict(time, least, most)
        total += 1
        good += right == "yes"
        at_best += bool(is_right_at_best(gridsmith, path, row))
        null_good += abs(predicted["unscheduled_us"] - time) <= 0.1 * time
        print("| %s | `%s` | %.0f | %.0f | %s | %+.0f%% | %.0f | %s |" % (row["program"], row["change"], row["unchanged_us"], time,
              interval(least, most), ((least + most) / 2 / time - 1) * 100, predicted["unscheduled_us"], right), flush=True)
        if row.get("advice"):
            followed.append((row, least, most))
    print("\n%d of %d are right (of the shortest rounds %d); of the null model %d" % (good, total, at_best, null_good))
    print_followed(followed)


main()
