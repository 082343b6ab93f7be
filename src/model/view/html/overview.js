// overview.js: the strip above the picture: when launches run, over the whole time, and the part that is shown. And the
// address of the page, which keeps that part.

const overviewHeight = 30;

// How many launches run in each of the columns.
function countRunning(scene, columns) {
    const { op_start } = scene.arrays, counts = new Float64Array(columns + 1), span = Math.max(scene.to - scene.from, 1);
    const columnOf = time => Math.max(0, Math.min(columns - 1, Math.floor((time - scene.from) / span * columns)));
    for (let i = 0; i < scene.launches; i++)
        if (!Number.isNaN(op_start[i])) {
            counts[columnOf(op_start[i])]++;
            counts[columnOf(operationEnd(scene, i)) + 1]--;
        }
    for (let i = 1; i < columns; i++)
        counts[i] += counts[i - 1];
    return counts;
}

function drawOverview(state) {
    const canvas = byId("overview"), { scene } = state, theme = themes[state.theme], width = state.width;
    canvas.hidden = !scene.timed;
    if (canvas.hidden || width <= labelWidth)
        return;
    const columns = Math.floor(width - labelWidth), pen = canvas.getContext("2d");
    if (canvas.width !== Math.round(width * state.scale)) {
        canvas.width = Math.round(width * state.scale);
        canvas.height = Math.round(overviewHeight * state.scale);
        canvas.style.width = `${width}px`;
    }
    if (!scene.running || scene.running.length !== columns + 1)
        scene.running = countRunning(scene, columns);
    pen.setTransform(state.scale, 0, 0, state.scale, 0, 0);
    pen.fillStyle = theme.back;
    pen.fillRect(0, 0, width, overviewHeight);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = theme.soft;
    pen.fillText("launches running", 6, overviewHeight / 2);
    const most = scene.running.reduce((a, b) => Math.max(a, b), 1);
    pen.fillStyle = "#56b4e9";
    for (let i = 0; i < columns; i++)
        if (scene.running[i] > 0) {
            const height = Math.max(4, scene.running[i] / most * (overviewHeight - 6));
            pen.fillRect(labelWidth + i, overviewHeight - 2 - height, 1, height);
        }
    const { from, to } = shownPart(state), span = Math.max(scene.to - scene.from, 1);
    const left = labelWidth + Math.max(0, (from - scene.from) / span) * columns, right = labelWidth + Math.min(1, (to - scene.from) / span) * columns;
    pen.strokeStyle = theme.front;
    pen.lineWidth = 1.5;
    pen.strokeRect(left + 0.75, 1, Math.max(right - left - 1.5, 2), overviewHeight - 2);
}

function shownPart(state) {
    return { from: state.from, to: state.from + state.step * Math.max(state.width - labelWidth, 1) };
}

// A click or a drag in the strip shows what is there, as much of it as before.
function onOverview(event) {
    if (!state.scene || !(event.buttons & 1))
        return;
    const box = byId("overview").getBoundingClientRect(), { from, to } = shownPart(state);
    const part = (event.clientX - box.left - labelWidth) / Math.max(state.width - labelWidth, 1);
    setView(state.scene.from + part * (state.scene.to - state.scene.from) - (to - from) / 2, state.step);
}

// ---- the address ----

// #from=...&to=...&rows=sm&find=gemm: what a reader would have to do again.
function keepView(state) {
    clearTimeout(state.keeping);
    state.keeping = setTimeout(() => {
        const kept = new URLSearchParams(), { from, to } = shownPart(state);
        kept.set("from", String(Math.round(from)));
        kept.set("to", String(Math.round(to)));
        if (state.depth !== "sm")
            kept.set("rows", state.depth);
        if (state.search)
            kept.set("find", state.search);
        if (state.sceneNumber)
            kept.set("run", String(state.sceneNumber));
        if (state.isThemeChosen)
            kept.set("theme", state.theme);
        history.replaceState(null, "", `#${kept}`);
    }, 200);
}

function restoreView(wanted) {
    const from = Number(wanted.get("from")), to = Number(wanted.get("to"));
    if (wanted.get("rows"))
        setDepth(wanted.get("rows"));
    if (wanted.get("find")) {
        byId("search").value = wanted.get("find");
        search(wanted.get("find"));
    }
    if (wanted.has("from") && to > from)
        setView(from, (to - from) / Math.max(state.width - labelWidth, 1));
}

// ---- from one match to the next ----

// The launches of the chosen kernel, or of those that the search finds, by their start.
function matchingLaunches(state) {
    const { scene } = state, { op_start, op_function } = scene.arrays;
    const isWanted = number => state.chosen !== null ? number === state.chosen : state.search && state.matches.has(number);
    return sortedNumbers(scene.launches, i => op_start[i]).filter(i => isWanted(op_function[i]));
}

function goToMatch(state, step) {
    const launches = matchingLaunches(state), { scene } = state;
    if (!launches.length)
        return say("search for a kernel, or choose one, to go through its launches");
    const at = launches.indexOf(state.match);
    const number = at < 0 ? (step > 0 ? 0 : launches.length - 1) : (at + step + launches.length) % launches.length;
    state.match = launches[number];
    showSpan(state, scene.arrays.op_start[state.match], operationEnd(scene, state.match));
    say(`launch ${number + 1} of ${launches.length}: ${nameOfOperation(scene, state.match)}`);
}
