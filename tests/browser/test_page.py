# test_page.py: the pages of --html in a real browser: the picture, the texts of hovering, the effects of clicks and keys.
#
#   python3 test_page.py GRIDSMITH SOURCE_DIR
import json
import os
import re
import subprocess
import shutil
import sys
import tempfile

import chromium

gridsmith, source = sys.argv[1:3]
folder = tempfile.mkdtemp(prefix="gridsmith-pages-")
failed, passed = [], 0


def check(what, got, wanted):
    global passed
    if got == wanted:
        passed += 1
    else:
        failed.append(what)
        print(f"FAILED: {what}\n  got    {got!r}\n  wanted {wanted!r}")


def check_in(what, part, whole):
    global passed
    if part in whole:
        passed += 1
    else:
        failed.append(what)
        print(f"FAILED: {what}\n  {part!r} is not in {whole!r}")


def write(name, *words, status=0):
    """A page of any command. Returns its path."""
    path = os.path.join(folder, name + ".html")
    done = subprocess.run([gridsmith, *words, "--html", "-o", path], cwd=source)
    check(f"gridsmith {words[0]} --html", done.returncode, status)
    return path


def make(name, *words, run=None):
    """A page of `gridsmith predict --html`. Returns its path."""
    path = os.path.join(folder, name + ".html")
    if run is not None:
        words += (os.path.join(folder, name + ".json"),)
        with open(words[-1], "w") as file:
            json.dump(run, file)
    subprocess.run([gridsmith, "predict", "--html", "-o", path, *words], check=True, cwd=source)
    return path


def rows(page, kind):
    return page.evaluate(f"gridsmith.state.rows.filter(row => row.kind === '{kind}').map(row => row.label)")


def middle(page, kind, place=0):
    """The y of the middle of a row, in the canvas."""
    return page.evaluate(f"(row => row.y + row.height / 2 - gridsmith.state.scroll)"
                         f"(gridsmith.state.rows.filter(row => row.kind === '{kind}')[{place}])")


def x_of(page, time):
    return page.evaluate(f"gridsmith.xOf({time})")


def says(page, x, y):
    what = page.evaluate(f"(gridsmith.whatIsAt({x}, {y}) || {{lines: []}}).lines")
    return "\n".join(what)


def pixel(page, x, y):
    page.frame()
    return page.evaluate(f"[...gridsmith.state.pen.getImageData({x}, {y}, 1, 1).data].slice(0, 3)")


def color(page, name):
    return page.evaluate(f"rgbOf(gridsmith.state.scene.functions.find(one => one.name === '{name}').color)")


def canvas(page):
    return page.evaluate("(box => [box.left, box.top])(gridsmith.state.canvas.getBoundingClientRect())")


def no_problems(page, what):
    check(what + ": no errors", page.problems, [])
    check(what + ": no requests", [url for url in page.requests if not url.startswith("file:")], [])


# ---- the picture ----

def test_drawn(page):
    page.go(make("streams", "scenarios/streams.json"))
    check("a row for each stream", rows(page, "stream"), ["stream 1", "stream 2", "no stream"])
    check("three launches wait", len(rows(page, "waits")), 3)
    check("SMs that are alike are one row", [label[:10] for label in rows(page, "sms")[:2]], ["SM 0, 2, 4", "SM 1, 3, 5"])
    check("all SMs are there", page.evaluate("gridsmith.state.rows.flatMap(row => row.kind === 'sms' ? row.sms : []).sort((a, b) => a - b).join()"),
          ",".join(map(str, range(82))))
    for name, time, place in (("a1", 50000, 0), ("a2", 200000, 0), ("b1", 60000, 1), ("c", 155000, 2)):
        y = page.evaluate(f"(row => row.y + row.height - 4)(gridsmith.state.rows.filter(row => row.kind === 'stream')[{place}])")
        check(f"{name} is drawn in its color", pixel(page, x_of(page, time) + 20, y), color(page, name))
    y = page.evaluate("(row => row.y + row.height - 3)(gridsmith.state.rows.find(row => row.kind === 'sms'))")
    check("the SM shows a1 at the bottom", pixel(page, x_of(page, 50000), y), color(page, "a1"))
    check("and nothing before 0", pixel(page, x_of(page, 0) - 3, y), page.evaluate("rgbOf(themes.light.band)"))
    no_problems(page, "streams")


# A column has the resources that the blocks in its time take, counted one by one.
literal = """(() => {
    const { scene } = gridsmith.state, layer = scene.layers[0], count = 100, out = makeColumns(count);
    let worst = 0, seed = 7;
    const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
    for (let round = 0; round < 60; round++) {
        const sm = Math.floor(random() * scene.gpu.sms), from = scene.from + random() * (scene.to - scene.from);
        const step = 1 + random() * (scene.to - from) / count * 1.3;
        columnsOfSm(scene, layer, sm, from, step, out);
        for (let x = 0; x < count; x++) {
            let warps = 0, slots = 0;
            for (let i = layer.first[sm]; i < layer.first[sm + 1]; i++) {
                const part = (Math.min(layer.end[i], from + (x + 1) * step) - Math.max(layer.start[i], from + x * step)) / step;
                const kind = scene.classes[scene.classOf[layer.launch[i]]];
                if (part > 0)
                    warps += part * kind.warps, slots += part * kind.slots;
            }
            worst = Math.max(worst, Math.abs(warps - out.warps[x]), Math.abs(slots - out.slots[x]));
        }
    }
    return worst;
})()"""

# A pyramid has the same, as far as bytes can say it.
pyramid = """(() => {
    const { scene } = gridsmith.state, layer = scene.layers[0], made = makePyramid(scene, layer, scene.from, scene.to);
    const count = 256, step = (scene.to - scene.from) / count, a = makeColumns(count), b = makeColumns(count);
    let worst = 0;
    for (let sm = 0; sm < scene.gpu.sms; sm += 7) {
        columnsOfSm(scene, layer, sm, scene.from, step, a);
        columnsOfPyramid(scene, layer, made, sm, scene.from, step, b);
        for (let x = 0; x < count; x++)
            worst = Math.max(worst, Math.abs(a.warps[x] - b.warps[x]), Math.abs(a.registers[x] - b.registers[x]));
    }
    return worst;
})()"""


def many_blocks():
    shapes = ((128, 32, 0), (256, 40, 8192), (64, 64, 1024), (512, 32, 0))
    return {"schema": "gridsmith.run/1", "gpu": "h200", "events": [
        {"op": "launch", "kernel": f"k{i % 9}", "id": i, "blocks": 900, "threads": shapes[i % 4][0], "registers": shapes[i % 4][1],
         "shared_bytes": shapes[i % 4][2], "stream": i % 3, "duration_us": 10 + 3 * (i % 7), "spread_us": 5} for i in range(20)]}


def test_columns(page):
    page.go(make("many", run=many_blocks()))
    check("all blocks are in the page", page.evaluate("gridsmith.state.scene.layers[0].count"), 18000)
    check("launches of one kernel share a color", page.evaluate("gridsmith.state.scene.functions.length"), 9)
    check("columns are what blocks take", page.evaluate(literal) < 1e-4, True)
    check("pyramids are what columns are", page.evaluate(pyramid) < 0.03, True)
    prediction = subprocess.run([gridsmith, "predict", "--csv", os.path.join(folder, "many.json")], check=True, cwd=source, capture_output=True, text=True)
    wanted = sorted(line.split(",", 4)[4] for line in prediction.stdout.splitlines()[1:])
    got = page.evaluate("""(() => { const { scene } = gridsmith.state, layer = scene.layers[0], lines = [];
        for (let sm = 0; sm < scene.gpu.sms; sm++)
            for (let i = layer.first[sm]; i < layer.first[sm + 1]; i++)
                lines.push([nameOfOperation(scene, layer.launch[i]), layer.block[i], sm, layer.start[i], layer.end[i]].join());
        return lines; })()""")
    check("every block is where and when --csv says", sorted(got), wanted)
    no_problems(page, "many")


# ---- hovering ----

def test_hover(page):
    page.go(make("streams", "scenarios/streams.json"))
    check_in("a wait says what is waited for", "c\nwaited 150 us for a1 to leave SMs, which have another shared-memory configuration",
             says(page, x_of(page, 100000), middle(page, "waits", 2)))
    check_in("a launch says when it runs", "a2: 82 blocks\npredicted: 150.000 us to 250.000 us (100 us)", says(page, x_of(page, 200000), middle(page, "stream")))
    page.evaluate("gridsmith.setDepth('block')")
    page.frame()
    text = says(page, x_of(page, 20000), middle(page, "blocks") - page.evaluate("gridsmith.state.rows.find(row => row.kind === 'blocks').height / 2 - 6"))
    check_in("a block says its SM", "a1\nblock 0 of 82 on SM 0 (TPC 0)\n0 ns to 100.000 us (100 us)", text)
    check_in("and why it went there", "why this SM: it had room for", text)
    left, top = canvas(page)
    page.mouse("mouseMoved", left + x_of(page, 100000), top + middle(page, "waits", 2))
    page.frame()
    check_in("the tooltip shows it", "waited 150 us for a1", page.evaluate("document.getElementById('tip').innerText"))
    page.evaluate("gridsmith.setDepth('sm')")
    page.frame()
    check_in("occupancy", "GPU at 50.0", says(page, x_of(page, 50000), middle(page, "occupancy")))
    check_in("occupancy of warps", "warps 66.7%", says(page, x_of(page, 50000), middle(page, "occupancy")))
    no_problems(page, "hovering")


# ---- moving, folding, searching ----

def test_moving(page):
    page.go(make("streams", "scenarios/streams.json"))
    left, top = canvas(page)
    before = page.evaluate("gridsmith.state.step")
    at = page.evaluate("timeAt(gridsmith.state, 600)")
    page.mouse("mouseWheel", left + 600, top + 300, deltaX=0, deltaY=-100)
    page.frame()
    check("the wheel zooms in", page.evaluate("gridsmith.state.step") < before, True)
    check("around the pointer", abs(page.evaluate("timeAt(gridsmith.state, 600)") - at) < 1, True)
    zoomed = page.evaluate("gridsmith.state.from")
    page.mouse("mousePressed", left + 600, top + 300, button="left", clickCount=1)
    page.mouse("mouseMoved", left + 500, top + 300, button="left")
    page.mouse("mouseReleased", left + 500, top + 300, button="left", clickCount=1)
    check("dragging pans", page.evaluate("gridsmith.state.from") > zoomed, True)
    page.key("0")
    check("0 shows all of it", abs(page.evaluate("gridsmith.state.step") - before) < before * 0.01, True)
    for _ in range(80):
        page.key("+")
    check("zooming goes down to nanoseconds", page.evaluate("gridsmith.state.step"), 0.01)
    page.key("0")
    first = page.evaluate("gridsmith.state.rows.findIndex(row => row.kind === 'sms')")
    row = page.evaluate(f"(row => [row.y + row.height / 2, row.sms.length])(gridsmith.state.rows[{first}])")
    page.click(left + 30, top + row[0])
    page.frame()
    check("a click unfolds a row to its SMs", page.evaluate(f"gridsmith.state.rows.slice({first}, {first} + 3).map(row => row.label)"),
          [rows(page, "head")[0], "SM 0", "SM 2"])
    check("and shows its occupancy", rows(page, "section")[2], "occupancy: " + rows(page, "head")[0])
    y = page.evaluate(f"(row => row.y + row.height / 2)(gridsmith.state.rows[{first} + 1])")
    page.click(left + 30, top + y)
    page.frame()
    check("a click on an SM unfolds its blocks", page.evaluate(f"gridsmith.state.rows[{first} + 2].kind"), "blocks")
    page.evaluate("gridsmith.clickLabel(gridsmith.state.rows.find(row => row.label === 'SM 0'))")
    check("another one its warp slots", page.evaluate(f"gridsmith.state.rows[{first} + 2].kind"), "warps")
    page.evaluate("document.getElementById('search').value = 'A2'; document.getElementById('search').oninput({target: document.getElementById('search')})")
    check("a search finds kernels by name", page.evaluate("[...document.querySelectorAll('.kernel span:nth-child(2)')].map(one => one.textContent)"), ["a2"])
    page.key("Escape")
    page.evaluate("gridsmith.setDepth('sm')")
    page.frame()
    page.click(left + x_of(page, 200000), top + middle(page, "stream"))
    panel = page.evaluate("document.getElementById('panel').innerText")
    check_in("a click on a kernel shows its launches", "a2\n", panel)
    check_in("and its shape", "512 threads", panel)
    check_in("and its limits", "limit", panel)
    no_problems(page, "moving")


def test_themes(page):
    page.go(make("streams", "scenarios/streams.json"))
    low = page.evaluate("gridsmith.state.height") - 5
    check("light", pixel(page, 5, low), page.evaluate("rgbOf(themes.light.back)"))
    page.key("t")
    check("dark", pixel(page, 5, low), page.evaluate("rgbOf(themes.dark.back)"))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    check("paper is white", pixel(page, 5, low), page.evaluate("rgbOf(themes.light.back)"))
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    check("dark again", page.evaluate("gridsmith.state.theme"), "dark")
    paper = page.paper()
    check("a page of paper", len(re.findall(rb"/Type\s*/Page[^s]", paper)), 1)
    check("with the picture on it", len(re.findall(rb"/Subtype\s*/Image", paper)) > 0, True)
    no_problems(page, "themes")


# ---- measured beside predicted ----

def test_measured(page):
    page.go(make("same", "--follow", "scenarios/h200-case-2.1.json"))
    check_in("a prediction that is right", "as measured", page.evaluate("document.getElementById('message').textContent"))
    check("nothing is marked", page.evaluate("gridsmith.state.scene.arrays.a_difference.some(one => one === 2)"), False)
    page.go(make("other", "--set", "warp_placement=free", "scenarios/h200-case-2.1.json"))
    check_in("one that is wrong", "differs from the measurement: 132 places", page.evaluate("document.getElementById('message').textContent"))
    x, y = x_of(page, 6.5), page.evaluate("(row => row.y + row.height / 2)(gridsmith.state.rows.find(row => row.kind === 'sms'))")
    colors = [pixel(page, x + i, y + 1) for i in range(6)]
    check("stripes mark it", page.evaluate("rgbOf(themes.light.mark)") in colors, True)
    page.evaluate("gridsmith.setDepth('block')")
    page.frame()
    page.evaluate("gridsmith.setDepth('sm')")
    no_problems(page, "measured")


def test_program(page):
    page.go(make("program", "corpus/h200-program-everything.jsonl.gz"))
    check("streams and graphs", [name for name in rows(page, "stream") if name], ["stream 7", "stream 13", "stream 14", "stream 15", "graph 2", "graph 7", "graph 12", "stream 22"])
    check("what was measured is there", page.evaluate("gridsmith.state.scene.isMeasured"), True)
    time = page.evaluate("gridsmith.state.scene.arrays.op_measured_start[0]")
    page.evaluate(f"gridsmith.showSpan({time} - 1000, {time} + 9000)")
    page.frame()
    y = page.evaluate("gridsmith.state.rows.find(row => row.kind === 'stream').y + 4")
    check_in("a launch says what was measured", "measured: ", says(page, x_of(page, time) + 3, y))
    no_problems(page, "program")


# ---- several runs, other browsers, hostile names ----

def test_several(page):
    path = os.path.join(folder, "two.jsonl")
    with open(path, "w") as file:
        for number in (1, 2):
            run = many_blocks()
            run["id"], run["events"] = number, run["events"][:number]
            file.write(json.dumps(run) + "\n")
    page.go(make("two", path))
    check("a page has several runs", page.evaluate("[...document.getElementById('scenes').options].map(one => one.text)"), ["two.jsonl: NVIDIA H200, run 1", "two.jsonl: NVIDIA H200, run 2"])
    page.evaluate("(select => { select.value = '1'; select.onchange(); })(document.getElementById('scenes'))")
    page.wait_for("gridsmith.state.isReady && gridsmith.state.scene.launches === 2")
    no_problems(page, "several")


def test_hostile(page):
    names = ["</script><script>window.broken = 1</script>", "<img src=x onerror='window.broken = 1'>", "\u202eab & \"'`${1}", "x" * 10_000_000,
             "__proto__", "{}"]
    run = {"schema": "gridsmith.run/1", "gpu": "h200", "class": "</title></script><script>window.broken = 1</script>", "events": [
        {"op": "launch", "kernel": name, "blocks": 3, "threads": 64, "registers": 32, "shared_bytes": 0, "stream": name[:50], "duration_us": 5}
        for name in names]}
    path = make("hostile", run=run)
    check("long names are cut", os.path.getsize(path) < 400_000, True)
    page.go(path)
    check("nothing of it is executed", page.evaluate("window.broken"), None)
    check("no element is made of it", page.evaluate("[document.scripts.length, document.images.length, document.querySelectorAll('#panel script').length]"), [3, 0, 0])
    check_in("it is shown as text", names[0], page.evaluate("document.getElementById('panel').textContent"))
    check_in("so is the next", names[1], page.evaluate("document.getElementById('panel').textContent"))
    check_in("the title too", "</title></script>", page.evaluate("document.title"))
    check("the long name", page.evaluate("[gridsmith.state.scene.functions[3].name.length, gridsmith.state.scene.functions[3].full.length]"), [60, 403])
    page.evaluate("for (let i = 0; i < 6; i++) { gridsmith.chooseFunction(i); }")
    page.frame()
    left, top = canvas(page)
    page.mouse("mouseMoved", left + x_of(page, 2000), top + middle(page, "stream"))
    page.frame()
    check("nothing of it is executed after hovering", page.evaluate("window.broken"), None)
    no_problems(page, "hostile")


def test_old_browser(page):
    script = page.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")["identifier"]
    page.go(make("streams", "scenarios/streams.json"))
    check_in("a browser that cannot decompress", "cannot decompress", page.evaluate("document.getElementById('message').textContent"))
    page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    page.go(make("streams", "scenarios/streams.json"))
    page.evaluate("document.querySelector('script.gridsmith').textContent = 'AAAA'")
    message = page.evaluate("showScene(document.querySelector('script.gridsmith')).catch(failed).then(() => '', () => document.getElementById('message').textContent)")
    check_in("damaged data", "cannot be read", message)


# ---- campaigns, comparisons, bounds, occupancy ----

def test_campaign(page):
    page.go(write("campaign", "replay", "--set", "warp_placement=free", "corpus/h200-starter.jsonl.gz", status=1))
    check_in("the scores", "case: n=1", page.evaluate("document.querySelector('#report pre').textContent"))
    check_in("the first run that differs", "differs from the measurement", page.evaluate("document.getElementById('message').textContent"))
    runs = page.evaluate("document.getElementById('scenes').options.length")
    count = subprocess.run([gridsmith, "replay", "--set", "warp_placement=free", "--mismatches", "1000", "corpus/h200-starter.jsonl.gz"], cwd=source, capture_output=True, text=True)
    check("all runs that differ", runs, count.stdout.count("differs: "))
    no_problems(page, "campaign")


def test_comparison(page):
    page.go(write("comparison", "predict", "--compare", "corpus/h200-program-everything.jsonl.gz"))
    page.wait_for("!document.getElementById('report').hidden")
    check_in("the comparison", "overlaps of two launches", page.evaluate("document.querySelector('#report pre').textContent"))
    no_problems(page, "comparison")


def test_explanation(page):
    path = write("explained", "explain", "corpus/h200-program-nccl.jsonl.gz")
    page.go(path)
    page.wait_for("document.getElementById('report').open")
    check_in("the report", "host-bound: the GPU works 7.6% of the time", page.evaluate("document.querySelector('#report pre').textContent"))
    check("advice is above the kernels", page.evaluate("(text => text.indexOf('what would help') < text.indexOf('occupancy'))"
                                                       "(document.querySelector('#report pre').textContent)"), True)
    page.frame()
    check_in("occupancy of the part shown", "mean of the part shown: warps ", page.evaluate("meanText(gridsmith.state.occupancyNow)"))
    front = page.evaluate("(row => row.y + 5 - gridsmith.state.scroll)(gridsmith.state.rows.find(row => row.label === 'front 0'))")
    check_in("what front is", "the scheduler serves before", says(page, 10, front))
    check("the title has the file", page.evaluate("document.title"), "h200-program-nccl.jsonl.gz: NVIDIA H200")
    names = page.evaluate("[...document.querySelectorAll('.kernel span:nth-child(2)')].map(one => one.textContent)")
    check("all kernels can be told apart", (len(names), len(set(names))), (40, 40))
    times = page.evaluate("[...document.querySelectorAll('.kernel')].map((_, place) => timesOf(gridsmith.state.scene)"
                          "[gridsmith.state.scene.functions.findIndex(one => one.name === document.querySelectorAll('.kernel span:nth-child(2)')[place].textContent)])")
    check("the longest is first", times, sorted(times, reverse=True))
    check("the strip is there", page.evaluate("document.getElementById('overview').hidden"), False)
    page.evaluate("gridsmith.search('nvjet')")
    page.evaluate("gridsmith.goToMatch(1)")
    first = page.evaluate("gridsmith.state.match")
    page.evaluate("gridsmith.goToMatch(1)")
    check_in("the next match", "launch 2 of ", page.evaluate("document.getElementById('message').textContent"))
    page.evaluate("gridsmith.goToMatch(-1)")
    check("and back", page.evaluate("gridsmith.state.match"), first)
    page.wait_for("location.hash.includes('find=nvjet') && "
                  "location.hash.includes(`from=${Math.round(shownPart(gridsmith.state).from)}&`)")
    shown = page.evaluate("[gridsmith.state.from, gridsmith.state.step]")
    page.evaluate("history.replaceState(null, '', location.hash); restoreView(new URLSearchParams(location.hash.slice(1)))")
    again = page.evaluate("[gridsmith.state.from, gridsmith.state.step]")
    check("the address keeps the part", [abs(one - other) < 1 for one, other in zip(shown, again)], [True, True])
    no_problems(page, "explanation")


def test_ranges(page):
    """Ranges that the program named are rows: one that is inside another is below it."""
    launches = [{"op": "launch", "id": i, "kernel": "k", "blocks": 132, "threads": 64, "registers": 32, "shared_bytes": 0, "stream": 1,
                 "at_us": 100 * i, "start_us": 100 * i + 5, "end_us": 100 * i + 55} for i in range(4)]
    ranges = [{"op": "range", "name": name, "from_us": 100 * first, "to_us": 100 * last}
              for name, first, last in (("step", 0, 4), ("forward", 0, 2), ("</script>backward", 2, 4))]
    page.go(make("ranges", run={"schema": "gridsmith.run/1", "gpu": "h200", "events": launches + ranges}))
    check("two rows", len(rows(page, "ranges")), 2)
    check_in("the step", "step", says(page, x_of(page, 250000), middle(page, "ranges")))
    check_in("what is inside", "</script>backward", says(page, x_of(page, 250000), middle(page, "ranges", 1)))
    check("when the host issued each", rows(page, "calls"), ["calls"])
    check_in("a call", "issued at 200", says(page, x_of(page, 200000), middle(page, "calls")))
    check("between two calls", says(page, x_of(page, 250000), middle(page, "calls")), "")
    no_problems(page, "ranges")


def test_versions(page):
    page.go(write("versions", "explain", "--compare", "corpus/h200-program-eager.jsonl.gz", "corpus/h200-program-nccl.jsonl.gz"))
    page.wait_for("document.getElementById('report').open")
    check_in("what changed", "us per step", page.evaluate("document.querySelector('#report pre').textContent"))
    check("both versions", page.evaluate("[...document.getElementById('scenes').options].map(one => one.text)"),
          ["h200-program-eager.jsonl.gz: NVIDIA H200", "h200-program-nccl.jsonl.gz: NVIDIA H200"])
    no_problems(page, "versions")


def test_bound(page):
    page.go(write("bound", "bound", "--warps", "4", "--repeat", "3"))
    check("a row for each warp", rows(page, "sms"), ["warp 0", "warp 1", "warp 2", "warp 3"])
    page.wait_for("!document.getElementById('report').hidden")
    check_in("the bounds", "cycles until all have ended", page.evaluate("document.querySelector('#report pre').textContent"))
    check_in("cycles", "cycles", page.evaluate("document.getElementById('message').textContent"))
    check_in("an instruction", "memory", says(page, x_of(page, page.evaluate("gridsmith.state.scene.layers[0].start[1]") + 0.5), middle(page, "sms")))
    no_problems(page, "bound")


def test_occupancy(page):
    for gpu in ("h200", "rtx3090"):
        page.go(write("occupancy", "occupancy", "--gpu", gpu, "--threads", "256", "--registers", "64", "--shared", "16384"))
        for threads, registers, shared in ((256, 64, 16384), (33, 17, 1), (1024, 32, 0), (96, 255, 50001), (512, 128, 90000)):
            words = [gridsmith, "occupancy", "--json", "--gpu", gpu, "--threads", str(threads), "--registers", str(registers), "--shared", str(shared)]
            answer = json.loads(subprocess.run(words, capture_output=True, text=True).stdout or '{"blocks_per_sm": 0}')
            got = page.evaluate(f"gridsmith.limitsOf({{threads: {threads}, registers: {registers}, shared: {shared}}}).blocks")
            check(f"occupancy of {threads}, {registers}, {shared} on {gpu}", got, answer["blocks_per_sm"])
    # Another GPU, carve-out and cluster: what the program answers for them.
    for gpu, threads, registers, shared, carveout, cluster in (("h200", 256, 64, 16384, 50, 2), ("h100-sxm", 128, 40, 40000, None, 4), ("t4", 256, 32, 1000, 100, None),
                                                               ("h200", 64, 32, 5000, 0, 8), ("a100", 512, 64, 30000, 30, None), ("h200", 1024, 64, 0, None, 16)):
        words = [gridsmith, "occupancy", "--json", "--gpu", gpu, "--threads", str(threads), "--registers", str(registers), "--shared", str(shared)]
        words += ["--carveout", str(carveout)] if carveout is not None else []
        words += ["--cluster", str(cluster)] if cluster else []
        answer = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
        page.evaluate(f"gridsmith.chooseGpu('{gpu}'); gridsmith.chooseCarveout('{'' if carveout is None else carveout}'); gridsmith.chooseCluster({cluster or 0})")
        got = page.evaluate(f"gridsmith.limitsOf({{threads: {threads}, registers: {registers}, shared: {shared}}}).blocks")
        check(f"occupancy on {gpu} with carve-out {carveout}", got, answer["blocks_per_sm"])
        if cluster:
            check(f"clusters of {cluster} on {gpu}", page.evaluate(f"gridsmith.clustersOf({got})"), answer["clusters"])
    page.evaluate("gridsmith.chooseGpu('t4'); gridsmith.choose('threads', 2048)")
    check("a number is limited by the GPU", page.evaluate("gridsmith.chosen.threads"), 1024)
    check_in("what is assumed", "assumed", page.evaluate("document.getElementById('answer').innerText"))
    page.evaluate("gridsmith.choose('registers', 255)")
    check_in("the answer follows", "by registers: ", page.evaluate("document.getElementById('answer').innerText"))
    no_problems(page, "occupancy")


# ---- the trace, and Perfetto ----

def test_trace(page):
    page.go(make("streams", "scenarios/streams.json"))
    trace = json.loads(page.evaluate("gridsmith.makeTrace()"))["traceEvents"]
    check("a slice for each launch", sum(one["ph"] == "X" and one["pid"] == 1 for one in trace), 5)
    check_in("waits are slices", "c waits for a1 to leave SMs, which have another shared-memory configuration", [one["name"] for one in trace if one["ph"] == "X" and one["pid"] == 2])
    check("a slice for each block", sum(one["ph"] == "X" and one["pid"] >= 10 for one in trace), 410)
    check("counters of occupancy", {one["name"] for one in trace if one["ph"] == "C"}, {"warps", "registers", "shared memory", "block slots"})
    sent = page.evaluate("""new Promise(done => {
        const messages = [];
        window.open = url => ({ postMessage: (message, origin) => {
            messages.push([url, origin, message === "PING" ? "PING" : message.perfetto.buffer.byteLength > 10000]);
            if (message === "PING") dispatchEvent(new MessageEvent("message", { data: "PONG", origin: "https://elsewhere.example" }));
            if (message === "PING" && messages.length === 1) dispatchEvent(new MessageEvent("message", { data: "PONG", origin: "https://ui.perfetto.dev" }));
            if (message !== "PING") done(messages);
        } });
        document.getElementById("perfetto").click();
    })""")
    check("Perfetto gets the trace when it answers", sent, [["https://ui.perfetto.dev", "https://ui.perfetto.dev", "PING"], ["https://ui.perfetto.dev", "https://ui.perfetto.dev", True]])
    no_problems(page, "trace")


def main():
    with chromium.Page() as page:
        for name, test in list(globals().items()):
            if name.startswith("test_") and (len(sys.argv) < 4 or name in sys.argv[3:]):
                test(page)
    shutil.rmtree(folder)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


sys.exit(main())
