# bench_view.py: how large pages, pictures and traces are, how long writing them takes, and how fast pages draw.
#
#   python3 bench/bench_view.py build/release/gridsmith [BLOCKS...]
# Pages are drawn in Chromium, if it is installed, without a GPU. Frame times are the time to draw a frame, and the
# time from one frame to the next, while the page zooms in and out by a tenth in each frame and moves back and forth.
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "browser"))
sys.dont_write_bytecode = True
import chromium

SHAPES = ((128, 32, 0), (256, 40, 8192), (64, 64, 1024), (512, 32, 0))

FRAMES = """new Promise(done => {
    const { state } = gridsmith, between = [], drawn = [];
    let last = performance.now(), number = 0, frames = state.frames;
    const step = now => {
        between.push(now - last);
        last = now;
        if (state.frames > frames)
            drawn.push(state.drawMs);
        frames = state.frames;
        gridsmith.zoom(number % 120 < 60 ? 0.9 : 1 / 0.9, 150 + 700 * (number % 37) / 37);
        if (number % 3 === 0)
            gridsmith.pan(number % 2 ? 40 : -40);
        ++number < 240 ? requestAnimationFrame(step) : done([between.slice(2), drawn.slice(2)]);
    };
    requestAnimationFrame(step);
})"""


def make_run(path, blocks):
    """60 launches of 7 functions in 5 streams on an H200; every block runs for a time of its own."""
    each = blocks // 60 + 1
    events = [{"op": "launch", "kernel": f"k{i % 7}", "id": i, "blocks": each, "threads": SHAPES[i % 4][0], "registers": SHAPES[i % 4][1],
               "shared_bytes": SHAPES[i % 4][2], "stream": i % 5, "duration_us": 10 + 3 * (i % 7), "spread_us": 5} for i in range(60)]
    with open(path, "w") as file:
        json.dump({"schema": "gridsmith.run/1", "gpu": "h200", "events": events}, file)
    return 60 * each


def write(gridsmith, run, kind, path):
    """Seconds, processor seconds and the most memory in MB."""
    began = time.monotonic()
    child = os.posix_spawn(gridsmith, [gridsmith, "predict", "--" + kind, "-o", path, run], os.environ)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"gridsmith predict --{kind} failed")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def quantiles(values):
    values = sorted(values)
    return statistics.median(values), values[int(len(values) * 0.95)], values[-1]


def look(path):
    with chromium.Page() as page:
        idle = page.processor_seconds()
        page.go(path)
        opened = page.processor_seconds() - idle
        first, ready = page.evaluate("[gridsmith.state.times.first, gridsmith.state.times.drawn]")
        page.wait_for("gridsmith.state.unfinished.length === 0")
        before, frames = page.processor_seconds(), page.evaluate("gridsmith.state.frames")
        between, drawn = page.evaluate(FRAMES)
        used = (page.processor_seconds() - before) / (page.evaluate("gridsmith.state.frames") - frames)
        problems = page.problems
    print(f"  page in Chromium: first picture after {first / 1000:.2f} s, with all blocks after {ready / 1000:.2f} s ({opened:.2f} s of a processor in its main thread)")
    print(f"  a frame while zooming takes {1000 * used:.1f} ms of a processor in the main thread")
    print("  frames while zooming, ms (median, 95th percentile, longest): drawn in {:.1f}, {:.1f}, {:.1f}; apart {:.1f}, {:.1f}, {:.1f}"
          .format(*quantiles(drawn), *quantiles(between)))
    if problems:
        print("  errors:", problems)


def main():
    gridsmith = os.path.abspath(sys.argv[1])
    folder = tempfile.mkdtemp(prefix="gridsmith-bench-")
    for blocks in map(int, sys.argv[2:] or ("50000", "500000", "2000000")):
        run = os.path.join(folder, "run.json")
        print(f"{make_run(run, blocks):,} blocks")
        for kind in ("html", "svg", "trace"):
            path = os.path.join(folder, "run." + kind)
            seconds, processor, megabytes = write(gridsmith, run, kind, path)
            print(f"  --{kind:5} {os.path.getsize(path) / 1e6:7.2f} MB in {seconds:.2f} s ({processor:.2f} s of a processor, {megabytes:.0f} MB of memory)")
        if chromium.find():
            look(os.path.join(folder, "run.html"))
        else:
            print("  chromium is not installed: no frame times")
    shutil.rmtree(folder)
    print("machine: {} processors, load {:.1f}".format(os.cpu_count(), os.getloadavg()[0]))


main()
