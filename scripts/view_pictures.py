# view_pictures.py: the pictures of the README and of docs/view.md, taken in Chromium.
#
#   python3 scripts/view_pictures.py build/release/gridsmith
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(source, "tests", "browser"))
import chromium

SIXTY = ("predict", "scenarios/h200-sixty.json")
ONE_SM = """gridsmith.setDepth('group'); gridsmith.clickLabel(gridsmith.state.rows.find(row => row.label === 'GPC 0'));
    gridsmith.clickLabel(gridsmith.state.rows.find(row => row.label === 'SM 0')); gridsmith.showSpan(240000, 420000);"""
# The view of a tool that knows only launches.
STREAMS = """gridsmith.state.scene.waits.lanes = []; gridsmith.state.scene.waits.more = []; gridsmith.state.scene.layers = [null, null];
    gridsmith.setDepth('sm'); gridsmith.fit();"""
TIP = """(row => { const { state } = gridsmith; state.pointer = { x: gridsmith.xOf(295000), y: row.y + 30 - state.scroll };
    showTip(state, state.pointer.x, state.pointer.y); })(gridsmith.state.rows.find(row => row.kind === 'blocks'))"""
GRAPH = """(row => { const { op_start, op_end, op_measured_start } = gridsmith.state.scene.arrays, first = row.operations[0];
    gridsmith.showSpan(Math.min(op_start[first], op_measured_start[first]), op_end[row.operations[Math.min(40, row.operations.length - 1)]]); })
    (gridsmith.state.rows.find(row => row.label === 'graph 2'))"""
# The picture of the README: all GPCs, one with its SMs, and the reason of one wait.
FRONT = """gridsmith.setDepth('group'); gridsmith.clickLabel(gridsmith.state.rows.find(row => row.label === 'GPC 7'));
    (row => { const { state } = gridsmith; state.pointer = { x: gridsmith.xOf(280000), y: row.y + 6 - state.scroll };
    showTip(state, state.pointer.x, state.pointer.y); })(gridsmith.state.rows.find(row => row.kind === 'waits'))"""
KERNEL = "gridsmith.chooseFunction(gridsmith.state.scene.functions.findIndex(one => one.name === 'attention'))"

# Name, words of the command, width, height, dark, actions.
PICTURES = (
    ("view-all", SIXTY, 1200, 720, False, ""),
    ("view-front", SIXTY, 1280, 900, False, FRONT),
    ("view-dark", SIXTY, 1200, 720, True, KERNEL),
    ("view-blocks", SIXTY, 1200, 720, False, ONE_SM + TIP),
    ("view-warps", SIXTY, 1200, 720, False, ONE_SM + "gridsmith.clickLabel(gridsmith.state.rows.find(row => row.label === 'SM 0'));"),
    ("view-streams", SIXTY, 1200, 260, False, STREAMS),
    ("view-differences", ("predict", "--set", "warp_placement=free", "scenarios/h200-case-2.1.json"), 1200, 620, False, ""),
    ("view-program", ("predict", "corpus/h200-program-graphs.jsonl.gz"), 1200, 620, False, GRAPH),
    ("view-schedule", ("bound", "--warps", "8", "--repeat", "6"), 1200, 330, False, ""),
    ("view-occupancy", ("occupancy", "--gpu", "h200", "--threads", "256", "--registers", "64", "--shared", "16384"), 1200, 600, False, ""),
)


def main():
    gridsmith, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    folder = tempfile.mkdtemp(prefix="gridsmith-pictures-")
    for name, words, width, height, dark, script in PICTURES:
        if wanted and name not in wanted:
            continue
        path = os.path.join(folder, name + ".html")
        subprocess.run([gridsmith, *words, "--html", "-o", path], cwd=source, check=True)
        with chromium.Page(path, width, height, dark) as page:
            page.evaluate(script or "0")
            page.frame()
            page.wait_for("!(gridsmith.state.unfinished || []).length")
            page.picture(os.path.join(source, "docs", "pictures", name + ".png"))
    if not wanted or "view-sixty" in wanted:
        path = os.path.join(folder, "sixty.svg")
        subprocess.run([gridsmith, "predict", "--svg", "-o", path, "scenarios/h200-sixty.json"], cwd=source, check=True)
        with chromium.Page(None, 1060, 745) as page:
            page.call("Page.navigate", url="file://" + path)
            page.wait_for("document.querySelectorAll('path').length > 100")
            page.frame()
            page.picture(os.path.join(source, "docs", "pictures", "view-sixty.png"))
    shutil.rmtree(folder)
    if not wanted or "view-limits" in wanted:
        words = ("occupancy", "--svg", "--gpu", "h200", "--threads", "256", "--registers", "64", "--shared", "16384")
        subprocess.run([gridsmith, *words, "-o", "docs/pictures/view-limits.svg"], cwd=source, check=True)


main()
