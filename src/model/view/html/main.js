// main.js: starts the page, and handles the user's input.

const state = { scene: null, from: 0, step: 1, scroll: 0, width: 0, height: 0, scale: 1, columnCount: 0, rows: [],
    open: new Map(), level: new Map(), depth: "sm", layers: "both", search: "", matches: new Set(), chosen: null,
    scope: { key: "gpu", label: "GPU", sms: [] }, theme: "light", columns: new Map(), pool: [], sources: [], unfinished: [], pointer: null,
    stack: { kinds: new Uint16Array(most), shares: new Float32Array(most), tops: new Int32Array(most) }, drag: null, part: null, isMoved: true, isAsked: false, isReady: false, frames: 0, drawMs: 0, times: {} };

const byId = id => document.getElementById(id);

// ---- drawing when something changed ----

function ask() {
    if (state.isAsked || !state.scene)
        return;
    state.isAsked = true;
    requestAnimationFrame(() => {
        state.isAsked = false;
        draw(state);
    });
}

function moved() {
    state.isMoved = true;
    ask();
}

function relaid() {
    if (!state.scene)
        return;
    layRows(state);
    ask();
}

function recolored() {
    prepareColors(state);
    fillPanel(state);
    ask();
}

function resize() {
    const box = byId("plot"), width = box.clientWidth, height = box.clientHeight;
    if (state.isPrinting) /* the picture is scaled to the paper */
        return;
    if (state.scene && width === state.width && height === state.height && state.scale === (window.devicePixelRatio || 1))
        return;
    const full = state.scene && state.width > labelWidth ? state.step * (state.width - labelWidth) : 0;
    state.scale = window.devicePixelRatio || 1;
    state.width = width;
    state.height = height;
    state.canvas.width = Math.round(width * state.scale);
    state.canvas.height = Math.round(height * state.scale);
    state.canvas.style.width = `${state.canvas.width / state.scale}px`; /* not stretched by parts of pixels */
    state.canvas.style.height = `${state.canvas.height / state.scale}px`;
    state.columnCount = Math.max(1, state.canvas.width - Math.round(labelWidth * state.scale));
    state.mean = makeColumns(state.columnCount);
    state.occupancy = makeColumns(state.columnCount);
    state.image = null;
    state.pool = [];
    state.unfinished = [];
    state.columns.clear();
    if (full)
        state.step = full / Math.max(width - labelWidth, 1);
    if (state.scene) {
        state.isMoved = true;
        layRows(state);
        draw(state);
    }
}

// ---- moving ----

// Zoom goes from the whole run to a hundredth of a nanosecond, or of a column, per pixel.
function setView(from, step) {
    const scene = state.scene, span = scene.to - scene.from, plot = Math.max(state.width - labelWidth, 1);
    state.step = Math.max(Math.min(step, span * 1.1 / plot), scene.timed ? 0.01 : 0.001);
    const shown = state.step * plot, slack = span * 0.05;
    state.from = Math.max(scene.from - slack, Math.min(from, scene.to + slack - shown));
    if (shown >= span)
        state.from = scene.from - (shown - span) / 2;
    if (state.isReady)
        keepView(state);
    moved();
}

function fit() {
    const span = state.scene.to - state.scene.from, plot = Math.max(state.width - labelWidth, 1);
    setView(state.scene.from - span * 0.005, span * 1.01 / plot);
}

// From the first launch to the end of the last one. A program may do other work before.
function showLaunches() {
    const { op_start } = state.scene.arrays, launches = state.scene.launches;
    let first = Infinity, last = -Infinity;
    for (let i = 0; i < launches; i++)
        if (!Number.isNaN(op_start[i])) {
            first = Math.min(first, op_start[i]);
            last = Math.max(last, operationEnd(state.scene, i));
        }
    if (first === Infinity || last - first > 0.8 * (state.scene.to - state.scene.from))
        return fit();
    const span = Math.max(last - first, 1);
    setView(first - span * 0.02, span * 1.04 / Math.max(state.width - labelWidth, 1));
}

function zoom(factor, x) {
    const time = timeAt(state, x);
    const step = state.step * factor;
    setView(time - (x - labelWidth) * step, step);
    const got = state.step;
    if (got !== step)
        setView(time - (x - labelWidth) * got, got);
}

function pan(pixels) {
    setView(state.from + pixels * state.step, state.step);
}

function scrollBy(pixels) {
    const before = state.scroll;
    state.scroll = Math.max(0, Math.min(state.scroll + pixels, state.contentHeight - state.height));
    if (before !== state.scroll)
        ask();
}

// A span of time, with a margin around it.
function showSpan(_, from, to) {
    const span = Math.max(to - from, state.scene.timed ? 1 : 1) * 1.4, plot = Math.max(state.width - labelWidth, 1);
    setView(from - span * 0.14, span / plot);
}

// ---- choosing ----

function chooseFunction(_, number) {
    state.chosen = number;
    recolored();
}

function search(text) {
    state.search = text.trim();
    const wanted = state.search.toLowerCase();
    state.chosen = null;
    state.matches = new Set(state.scene.functions.flatMap((one, number) => `${one.name} ${one.full || ""}`.toLowerCase().includes(wanted) ? [number] : []));
    keepView(state);
    recolored();
}

function setTheme(theme) {
    state.theme = theme;
    document.documentElement.classList.toggle("dark", theme === "dark");
    byId("theme").textContent = theme === "dark" ? "light" : "dark";
    if (state.scene)
        recolored();
}

function setDepth(depth) {
    state.depth = byId("depth").value = depth;
    state.open.clear();
    state.level.clear();
    if (state.isReady)
        keepView(state);
    relaid();
}

function setScope(row) {
    state.scope = row ? { key: row.key, label: row.label, sms: row.sms } : { key: "gpu", label: "GPU", sms: state.scene.groups.flatMap(group => group.sms) };
}

// A click on a label: its occupancy, and unfolded or folded. An SM is unfolded to blocks, then to warp slots.
function clickLabel(row) {
    if (!row || !row.mark)
        return;
    const again = state.scope.key === row.key && row.isOpen;
    setScope(again ? null : row);
    if (row.isSingle)
        state.level.set(row.key, (row.level + 1) % 3);
    else
        state.open.set(row.key, !row.isOpen);
    relaid();
}

function click(x, y) {
    if (x < labelWidth)
        return clickLabel(rowAt(state, y));
    const what = whatIsAt(state, x, y);
    if (what && what.launch !== undefined && what.launch < state.scene.launches)
        chooseFunction(state, state.scene.arrays.op_function[what.launch]);
    else if (!what)
        chooseFunction(state, null);
}

// ---- the pointer and the keys ----

function pointOf(event) {
    const box = state.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function onDown(event) {
    const point = pointOf(event);
    if (!state.scene || event.button)
        return;
    state.drag = { ...point, from: state.from, scroll: state.scroll, far: 0, isPart: event.shiftKey && point.x > labelWidth };
    state.canvas.setPointerCapture(event.pointerId);
    state.canvas.focus();
}

function onMove(event) {
    const point = state.pointer = pointOf(event), drag = state.drag;
    if (!state.scene)
        return;
    if (drag) {
        drag.far = Math.max(drag.far, Math.abs(point.x - drag.x), Math.abs(point.y - drag.y));
        if (drag.isPart)
            state.part = { from: Math.min(drag.x, point.x), to: Math.max(drag.x, point.x) };
        else if (drag.far > 3) {
            setView(drag.from - (point.x - drag.x) * state.step, state.step);
            scrollBy(drag.scroll - (point.y - drag.y) - state.scroll);
        }
    }
    showTip(state, point.x, point.y);
    ask();
}

function onUp(event) {
    const drag = state.drag, part = state.part, point = pointOf(event);
    state.drag = state.part = null;
    if (!drag)
        return;
    if (part && part.to - part.from > 4)
        setView(timeAt(state, part.from), state.step * (part.to - part.from) / Math.max(state.width - labelWidth, 1));
    else if (drag.far <= 3)
        click(point.x, point.y);
    ask();
}

function onWheel(event) {
    const point = pointOf(event), lines = event.deltaMode === 1 ? 20 : 1;
    event.preventDefault();
    if (!state.scene)
        return;
    if (event.shiftKey || point.x < labelWidth)
        scrollBy((event.deltaY || event.deltaX) * lines);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
        pan(event.deltaX * lines);
    else
        zoom(Math.exp(Math.max(-200, Math.min(event.deltaY * lines, 200)) * 0.002), point.x);
    showTip(state, point.x, point.y);
}

const keys = {
    "+": () => zoom(0.7, state.width / 2), "=": () => zoom(0.7, state.width / 2), "w": () => zoom(0.7, state.width / 2),
    "-": () => zoom(1.4, state.width / 2), "s": () => zoom(1.4, state.width / 2), "ArrowLeft": () => pan(-90), "a": () => pan(-90),
    "ArrowRight": () => pan(90), "d": () => pan(90), "ArrowUp": () => scrollBy(-60), "ArrowDown": () => scrollBy(60),
    "PageUp": () => scrollBy(60 - state.height), "PageDown": () => scrollBy(state.height - 60), "0": fit, "Home": fit,
    "n": () => goToMatch(state, 1), "p": () => goToMatch(state, -1), "/": () => byId("search").focus(), "t": () => {
        state.isThemeChosen = true;
        setTheme(state.theme === "dark" ? "light" : "dark");
        keepView(state);
    },
    "?": () => byId("help").hidden = !byId("help").hidden, "Escape": clearAll,
};

function clearAll() {
    byId("search").value = "";
    byId("help").hidden = true;
    state.search = "";
    chooseFunction(state, null);
}

function onKey(event) {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (!state.scene || event.ctrlKey || event.metaKey || event.altKey || (isTyping && event.key !== "Escape"))
        return;
    const action = keys[event.key];
    if (action) {
        event.preventDefault();
        action();
    }
}

// Paper is white.
function onPrint() {
    state.isPrinting = true;
    state.themeBefore = state.theme;
    setTheme("light");
    draw(state);
}

function listen() {
    const { canvas } = state;
    canvas.addEventListener("pointerdown", onDown);
    canvas.addEventListener("pointermove", onMove);
    canvas.addEventListener("pointerup", onUp);
    canvas.addEventListener("pointerleave", () => {
        state.pointer = null;
        showTip(state, 0, 0);
        ask();
    });
    canvas.addEventListener("wheel", onWheel, { passive: false });
    addEventListener("keydown", onKey);
    addEventListener("beforeprint", onPrint);
    addEventListener("afterprint", () => {
        state.isPrinting = false;
        setTheme(state.themeBefore);
        resize();
    });
    new ResizeObserver(resize).observe(byId("plot"));
    byId("search").oninput = event => search(event.target.value);
    byId("depth").onchange = event => setDepth(event.target.value);
    byId("layers").onchange = event => {
        state.layers = event.target.value;
        relaid();
    };
    byId("fit").onclick = fit;
    byId("next").onclick = keys.n;
    byId("previous").onclick = keys.p;
    for (const kind of ["pointerdown", "pointermove"])
        byId("overview").addEventListener(kind, onOverview);
    byId("theme").onclick = keys.t;
    byId("print").onclick = () => print();
    byId("perfetto").onclick = () => openPerfetto(state);
    byId("download").onclick = () => saveTrace(state);
    byId("help-button").onclick = keys["?"];
}

// ---- scenes ----

// Everything except the blocks is drawn first.
async function showScene(element) {
    state.isReady = false;
    const scene = await readScene(element);
    useWords(scene);
    prepareRows(scene);
    state.scene = scene;
    state.open.clear();
    state.level.clear();
    state.scroll = 0;
    state.chosen = state.match = null;
    state.search = byId("search").value = "";
    setScope(null);
    document.title = byId("title").textContent = scene.title;
    byId("depth-label").hidden = Boolean(scene.row_word);
    state.layers = byId("layers").value = "both";
    prepareColors(state);
    say(`reading ${countText(scene.blocks, "block")}...`);
    resize();
    showRows();
    showLaunches();
    draw(state);
    state.times.first = performance.now();
    fillPanel(state);
    if (scene.blocks > 100000) /* lets the browser show it */
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    await readBlocks(scene, element);
    if (state.scene !== scene)
        return;
    findAlike(scene);
    byId("layers-label").hidden = !(scene.layers[0] && scene.layers[1]) && !scene.isMeasured;
    say(summary(scene));
    showRows();
    draw(state);
    state.times.drawn = performance.now();
    state.isReady = true;
}

// Makes the rows again, and drops the cached columns of other rows.
function showRows() {
    state.columns.clear();
    state.unfinished = [];
    state.occupancyNow = null;
    state.isMoved = true;
    layRows(state);
}

function listScenes(elements) {
    const select = byId("scenes");
    byId("scenes-label").hidden = elements.length < 2;
    elements.forEach((one, number) => select.append(new Option(one.dataset.title, String(number))));
    select.onchange = () => {
        state.sceneNumber = Number(select.value);
        showScene(elements[state.sceneNumber]).then(() => keepView(state)).catch(failed);
    };
}

// The text that the command would have printed.
async function showReport(element) {
    const report = parseScene(await inflate(bytesOfBase64(element.textContent))), box = byId("report");
    box.hidden = false;
    box.querySelector("pre").textContent = report.text;
    box.querySelector("summary").textContent = report.summary;
    box.open = Boolean(report.open);
    box.ontoggle = resize;
}

function failed(error) {
    say(`the data of this page cannot be read: ${error.message}`, true);
    throw error;
}

function begin() {
    const elements = [...document.querySelectorAll("script.gridsmith")], wanted = new URLSearchParams(location.hash.slice(1));
    state.canvas = byId("canvas");
    state.pen = state.canvas.getContext("2d", { alpha: false });
    setTheme(wanted.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    if (typeof DecompressionStream === "undefined")
        return say("This browser cannot decompress data (DecompressionStream). Chrome 80, Firefox 113 and Safari 16.4 can.", true);
    if (!elements.length)
        return say("This page has no run.", true);
    listen();
    listScenes(elements);
    const report = document.querySelector("script.gridsmith-report");
    if (report)
        showReport(report).catch(failed);
    state.isThemeChosen = wanted.has("theme");
    state.sceneNumber = Math.min(Number(wanted.get("run")) || 0, elements.length - 1);
    byId("scenes").value = String(state.sceneNumber);
    showScene(elements[state.sceneNumber]).then(() => restoreView(wanted)).catch(failed);
}

// For tests and debugging: the state of the page, without the picture.
window.gridsmith = { state, whatIsAt: (x, y) => whatIsAt(state, x, y), zoom, pan, fit, search, setDepth, setTheme, clickLabel,
    chooseFunction: number => chooseFunction(state, number), scrollBy, showSpan: (from, to) => showSpan(state, from, to), makeTrace: () => makeTrace(state.scene), draw: () => draw(state), goToMatch: step => goToMatch(state, step), xOf: time => xOf(state, time) };
begin();
