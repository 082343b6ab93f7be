// draw.js: draws the rows on the canvas. SMs, blocks and warp slots are written into an image pixel by pixel; all else
// is drawn with the functions of the canvas.

const themes = {
    light: { back: "#ffffff", front: "#1b1b1f", soft: "#5c5c66", line: "#d9d9e0", band: "#f3f3f6", mark: "#000000", dim: 0.16 },
    dark: { back: "#17181c", front: "#ececf1", soft: "#a2a2ad", line: "#383a42", band: "#202228", mark: "#ffffff", dim: 0.2 },
};
const mostBuildMs = 8; // time for pyramids in a frame; the rest is built in later frames
const labelWidth = 118, letterWidth = 6.8, mostLabels = 500;
const resources = [
    { name: "warps", text: "warps", color: { light: "#0072b2", dark: "#56b4e9" }, dash: [] },
    { name: "registers", text: "registers", color: { light: "#c55300", dark: "#e69f00" }, dash: [7, 3] },
    { name: "shared", text: "shared memory", color: { light: "#00795a", dark: "#00c896" }, dash: [2, 2] },
    { name: "slots", text: "block slots", color: { light: "#a0527e", dark: "#dd93bb" }, dash: [9, 3, 2, 3] },
];

// ---- colors ----

function rgbOf(color) {
    return typeof color === "number" ? [color >> 16 & 255, color >> 8 & 255, color & 255]
        : [1, 3, 5].map(i => parseInt(color.slice(i, i + 2), 16));
}

function mixColors(color, other, part) {
    const a = rgbOf(color), b = rgbOf(other);
    return a.map((value, i) => Math.round(value * part + b[i] * (1 - part)));
}

// A pixel of ImageData, on the little-endian machines that browsers run on.
function pixelOf([r, g, b]) {
    return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

function cssOf([r, g, b]) {
    return `rgb(${r},${g},${b})`;
}

function isLit(state, number) {
    if (state.chosen !== null)
        return state.chosen === number;
    return !state.search || state.matches.has(number);
}

// The colors of functions and classes: those that are not searched for are dim.
function prepareColors(state) {
    const theme = themes[state.theme], scene = state.scene;
    state.colors = scene.functions.map((one, number) => {
        const color = isLit(state, number) ? rgbOf(one.color) : mixColors(one.color, theme.back, theme.dim);
        const dark = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2] < 140;
        return { css: cssOf(color), pixel: pixelOf(color), text: dark ? "#ffffff" : "#000000" };
    });
    state.classPixels = new Uint32Array(65536);
    scene.classes.forEach((kind, number) => state.classPixels[number] = state.colors[kind.function].pixel);
    const hatch = document.createElement("canvas"), pen = hatch.getContext("2d");
    hatch.width = hatch.height = 6;
    pen.strokeStyle = theme.back;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 2;
    pen.beginPath();
    for (const shift of [-6, 0, 6]) {
        pen.moveTo(shift, 6);
        pen.lineTo(shift + 6, 0);
    }
    pen.stroke();
    state.hatch = state.pen.createPattern(hatch, "repeat");
}

function colorOfOperation(state, i) {
    const number = state.scene.arrays.op_function[i];
    return number < state.colors.length ? state.colors[number]
        : { css: themes[state.theme].soft, pixel: pixelOf(rgbOf(themes[state.theme].soft)), text: themes[state.theme].back };
}

// ---- time ----

function xOf(state, time) {
    return labelWidth + (time - state.from) / state.step;
}

function timeAt(state, x) {
    return state.from + (x - labelWidth) * state.step;
}

const usualUnits = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
let units = usualUnits, rowWord = "SM";

// The names of rows and times: SMs and nanoseconds, or those of the scene.
function useWords(scene) {
    units = scene.time_word ? [[1, scene.time_word]] : usualUnits;
    rowWord = scene.row_word || "SM";
}

function unitOf(span) {
    return units.find(([size]) => Math.abs(span) >= size) || units[units.length - 1];
}

// A time with as many decimals as `precision` (in ns) needs.
function timeText(time, precision) {
    const [size, name] = unitOf(time || precision || 1);
    const decimals = precision >= size ? 0 : Math.min(Math.ceil(Math.log10(size / precision) - 1e-9), 9);
    return `${(time / size).toFixed(decimals)} ${name}`;
}

function durationText(time, digits = 4) {
    const [size, name] = unitOf(time);
    return `${Number((time / size).toPrecision(digits))} ${name}`;
}

function niceStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map(i => i * power).find(step => step >= least);
}

function drawAxis(state, bottom) {
    const { pen, scene } = state, theme = themes[state.theme];
    pen.fillStyle = theme.back;
    pen.fillRect(0, 0, state.width, axisHeight);
    pen.strokeStyle = theme.line;
    pen.fillStyle = theme.soft;
    pen.textBaseline = "middle";
    state.ticks = [];
    scene.timed ? drawTimes(state, bottom) : drawColumns(state, bottom);
    pen.beginPath();
    pen.moveTo(0, axisHeight - 0.5);
    pen.lineTo(state.width, axisHeight - 0.5);
    pen.stroke();
}

function drawTick(state, x, bottom) {
    state.ticks.push(x);
    state.pen.beginPath();
    state.pen.moveTo(x, axisHeight - 6);
    state.pen.lineTo(x, bottom);
    state.pen.stroke();
}

function drawTimes(state, bottom) {
    const step = niceStep(state.step * 95), first = Math.ceil(state.from / step);
    const last = Math.floor(timeAt(state, state.width) / step);
    for (let i = first; i <= last; i++) {
        const x = Math.round(xOf(state, i * step)) + 0.5;
        drawTick(state, x, bottom);
        state.pen.fillText(timeText(i * step, step), x + 4, axisHeight / 2);
    }
}

function columnText(scene, number) {
    const column = scene.columns[number];
    return `${column.op === "launch" ? "+" : "\u2212"} ${nameOfOperation(scene, column.launch)}`;
}

function drawColumns(state, bottom) {
    const scene = state.scene, every = Math.max(1, Math.ceil(state.step * 46));
    const last = Math.min(scene.columns.length - 1, Math.ceil(timeAt(state, state.width)));
    for (let i = Math.max(0, Math.floor(state.from / every) * every); i <= last; i += every) {
        const x = Math.round(xOf(state, i)) + 0.5, room = Math.floor((every / state.step - 8) / letterWidth);
        drawTick(state, x, bottom);
        state.pen.fillText(columnText(scene, i).slice(0, Math.max(room, 3)), x + 4, axisHeight / 2);
    }
}

// ---- bars: waits and operations ----

// The place of the first of `list` that ends after `time`; the list is in order of time and does not overlap.
function firstAfter(list, endOf, time) {
    let low = 0, high = list.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (endOf(list[middle]) <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Bars that are narrower are written into the image; there can be many.
const leastWidth = 3;

// Calls `draw(i, x, width)` for the bars in view. Of bars that share a pixel, only the first is drawn.
function eachBar(state, list, fromOf, toOf, draw) {
    const to = timeAt(state, state.width);
    let drawn = -1;
    for (let k = firstAfter(list, toOf, state.from); k < list.length; k++) {
        const i = list[k], from = fromOf(i);
        if (from > to)
            break;
        const x = Math.max(xOf(state, from), labelWidth), end = Math.min(xOf(state, toOf(i)), state.width);
        if (end - drawn < 0.5)
            continue;
        const width = Math.max(end - x, 1);
        draw(i, x, width);
        drawn = Math.floor(x) + Math.max(1, Math.floor(width));
    }
}

function drawBarText(state, text, x, y, width, color) {
    const letters = Math.floor((width - 6) / letterWidth);
    if (letters < 3 || state.labels >= mostLabels)
        return;
    state.labels++;
    state.pen.fillStyle = color;
    state.pen.fillText(text.length > letters ? text.slice(0, letters - 1) + "\u2026" : text, x + 3, y);
}

function nameOfOperation(scene, i) {
    if (i < scene.launches)
        return scene.functions[scene.arrays.op_function[i]].name;
    const copy = scene.copies[i - scene.launches];
    return copy ? copy[0].replaceAll("_", " ") : "";
}

// "for b to release registers", from the words of the reason.
function waitText(scene, i) {
    const { wait_reason, wait_lack, wait_behind } = scene.arrays;
    const words = scene.reasons[wait_reason[i]].words[wait_lack[i]];
    const behind = wait_behind[i] < scene.arrays.op_function.length ? nameOfOperation(scene, wait_behind[i]) : "others";
    return words.replace("{}", () => behind);
}

function drawWaits(state, row, y) {
    const { pen, scene } = state, { wait_from, wait_to, wait_op } = scene.arrays;
    eachBar(state, row.lane, i => wait_from[i], i => wait_to[i], (i, x, width) => {
        if (width < leastWidth)
            return;
        const color = colorOfOperation(state, wait_op[i]);
        pen.fillStyle = color.css;
        pen.fillRect(x, y + 2, width, row.height - 4);
        pen.fillStyle = state.hatch;
        pen.fillRect(x + 2, y + 3, width - 2, row.height - 6);
        if (width > 40) {
            pen.fillStyle = themes[state.theme].back;
            pen.globalAlpha = 0.72;
            pen.fillRect(x + 3, y + 3, width - 4, row.height - 6);
            pen.globalAlpha = 1;
            drawBarText(state, `${nameOfOperation(scene, wait_op[i])} waits ${waitText(scene, i)}`, x + 2, y + row.height / 2, width - 2,
                themes[state.theme].front);
        }
    });
}

// Ranges have the color of no kernel.
function drawRanges(state, row, y) {
    const { pen, scene } = state, theme = themes[state.theme];
    eachBar(state, row.lane, i => scene.ranges[i][1], i => scene.ranges[i][2], (i, x, width) => {
        pen.fillStyle = theme.soft;
        pen.fillRect(x, y + 1, Math.max(width - 1, 1), row.height - 2);
        if (width > 20)
            drawBarText(state, scene.ranges[i][0], x, y + row.height / 2, width, theme.back);
    });
}

// A mark where the host issued an operation.
function drawCalls(state, row, y) {
    const { op_arrived } = state.scene.arrays;
    eachBar(state, row.lane, i => op_arrived[i], i => op_arrived[i], (i, x) => {
        state.pen.fillStyle = colorOfOperation(state, i).css;
        state.pen.fillRect(x, y + 2, 1, row.height - 4);
    });
}

function drawOperation(state, i, x, y, width, height) {
    if (width < leastWidth)
        return;
    const color = colorOfOperation(state, i);
    state.pen.fillStyle = color.css;
    state.pen.fillRect(x, y, Math.max(width - (width > 3 ? 0.7 : 0), 1), height);
    if (height >= 10)
        drawBarText(state, nameOfOperation(state.scene, i), x, y + height / 2, width, color.text);
}

// Whether a launch starts at least 10 us, and a tenth of its time, from its measurement.
function startDiffers(scene, i) {
    const { op_start, op_end, op_measured_start } = scene.arrays;
    const distance = Math.abs(op_start[i] - op_measured_start[i]);
    return distance > 10000 && distance > 0.1 * (op_end[i] - op_start[i]);
}

// The measurement is above, the prediction below.
function drawStream(state, row, y) {
    const { scene } = state, { op_start, op_measured_start, op_measured_end } = scene.arrays;
    const both = scene.isMeasured && state.layers === "both", half = (row.height - 4) / 2;
    if (state.layers !== "1" || !scene.isMeasured)
        eachBar(state, row.operations, i => op_start[i], i => operationEnd(scene, i), (i, x, width) =>
            drawOperation(state, i, x, both ? y + 2 + half : y + 2, width, both ? half : row.height - 4));
    if (scene.isMeasured && state.layers !== "0")
        eachBar(state, row.measured, i => op_measured_start[i], i => op_measured_end[i], (i, x, width) => {
            drawOperation(state, i, x, y + 1, width, both ? half : row.height - 4);
            if (both && startDiffers(scene, i) && Math.abs(xOf(state, op_start[i]) - x) > 4)
                drawDifference(state, x, y, xOf(state, op_start[i]), row.height);
        });
}

// The narrow bars of a row of waits or of a stream.
function paintBars(state, image, row, top) {
    const scene = state.scene, { wait_from, wait_to, wait_op, op_start, op_measured_start, op_measured_end } = scene.arrays;
    const paint = (of, first, last) => (i, x, width) => {
        const left = Math.floor((x - labelWidth) * state.scale);
        if (width < leastWidth)
            paintRect(image, left, top + Math.round(first * state.scale), left + Math.max(1, Math.round(width * state.scale)),
                top + Math.round(last * state.scale), colorOfOperation(state, of(i)).pixel);
    };
    if (row.kind !== "stream")
        return eachBar(state, row.lane, i => wait_from[i], i => wait_to[i], paint(i => wait_op[i], 2, row.height - 2));
    const both = scene.isMeasured && state.layers === "both", half = both ? row.height / 2 : row.height - 2;
    if (state.layers !== "1" || !scene.isMeasured)
        eachBar(state, row.operations, i => op_start[i], i => operationEnd(scene, i), paint(i => i, both ? half : 2, row.height - 2));
    if (scene.isMeasured && state.layers !== "0")
        eachBar(state, row.measured, i => op_measured_start[i], i => op_measured_end[i], paint(i => i, 1, half - 1));
}

// A line from where a launch was measured to where it is predicted.
function drawDifference(state, x, y, other, height) {
    const { pen } = state;
    pen.strokeStyle = themes[state.theme].mark;
    pen.beginPath();
    pen.moveTo(x + 0.5, y + 1);
    pen.lineTo(x + 0.5, y + height / 2);
    pen.lineTo(Math.max(Math.min(other, state.width), labelWidth) + 0.5, y + height / 2);
    pen.lineTo(Math.max(Math.min(other, state.width), labelWidth) + 0.5, y + height - 2);
    pen.stroke();
}

// ---- occupancy ----

function occupancyColumns(state) {
    const sum = state.occupancy, number = shownLayers(state).includes(0) ? 0 : 1;
    const layer = state.scene.layers[number], source = state.sources[number], step = state.step / state.scale;
    let there = 0;
    if (!source) {
        columnsOfSms(state.scene, layer, state.scope.sms, state.from, step, sum);
        return sum;
    }
    emptyColumns(sum);
    if (state.scope.key === "gpu" && totalOf(state.scene, source)) {
        resourcesOfTotal(state.scene, source, state.from, step, sum);
        return sum;
    }
    for (const sm of state.scope.sms) {
        const columns = columnsInView(state, number, sm);
        if (state.unfinished.includes(number * 65536 + state.scene.alike[sm]))
            continue;
        addResources(sum, columns);
        there++;
    }
    divideColumns(sum, there || 1);
    return sum;
}

// The mean of each resource over the part that is shown.
function meanText(columns) {
    const percent = values => `${(100 * values.subarray(0, columns.count).reduce((sum, value) => sum + value, 0) / columns.count).toFixed(1)}%`;
    return `mean of the part shown: ${resources.map(({ name, text }) => `${text} ${percent(columns[name])}`).join(", ")}`;
}

function drawOccupancy(state, row, y) {
    const key = `${state.scope.key} ${state.layers}`;
    if (!state.occupancyNow || state.occupancyKey !== key)
        state.occupancyNow = occupancyColumns(state);
    state.occupancyKey = key;
    const { pen } = state, theme = themes[state.theme], columns = state.occupancyNow;
    const top = y + 6, height = row.height - 12, scale = state.scale;
    pen.strokeStyle = theme.line;
    pen.strokeRect(labelWidth + 0.5, top + 0.5, state.width - labelWidth - 1, height - 1);
    resources.forEach((resource, number) => {
        const values = columns[resource.name];
        pen.strokeStyle = resource.color[state.theme];
        pen.lineWidth = 1.6;
        pen.setLineDash(resource.dash);
        pen.beginPath();
        for (let x = 0; x < columns.count; x++)
            pen.lineTo(labelWidth + (x + 0.5) / scale, top + height - Math.min(values[x], 1) * height);
        pen.stroke();
        pen.setLineDash([]);
        pen.beginPath();
        pen.setLineDash(resource.dash);
        pen.moveTo(6, top + 8 + number * 17);
        pen.lineTo(26, top + 8 + number * 17);
        pen.stroke();
        pen.setLineDash([]);
        pen.lineWidth = 1;
        pen.fillStyle = theme.front;
        pen.fillText(resource.text, 31, top + 8 + number * 17);
    });
    pen.fillStyle = theme.soft;
    pen.fillText("100%", state.width - 36, top + 7);
    pen.fillText(fitText(pen, meanText(columns), state.width - labelWidth - 12), labelWidth + 6, y - headHeight / 2);
}

// ---- SMs, as pixels ----

// The columns of an SM in the current view; identical SMs share them.
function columnsInView(state, number, sm) {
    const key = number * 65536 + state.scene.alike[sm];
    let columns = state.columns.get(key);
    if (!columns) {
        columns = state.pool.pop();
        if (!columns || columns.count !== state.columnCount)
            columns = makeColumns(state.columnCount);
        const source = state.sources[number], mustBuild = source && !source.sms[state.scene.alike[sm]], began = performance.now();
        if (!columnsOf(state.scene, state.scene.layers[number], source, state.scene.alike[sm], state.from,
            state.step / state.scale, columns, state.buildMs > 0))
            state.unfinished.push(key);
        else if (mustBuild)
            state.buildMs -= performance.now() - began;
        state.columns.set(key, columns);
    }
    return columns;
}

// Columns without a finished pyramid are made again in the next frame.
function forgetUnfinished(state) {
    if (state.unfinished.length)
        state.occupancyNow = null;
    for (const key of state.unfinished) {
        state.pool.push(state.columns.get(key));
        state.columns.delete(key);
    }
    state.unfinished = [];
}

function forgetColumns(state) {
    state.unfinished = [];
    state.occupancyNow = null;
    for (const columns of state.columns.values())
        state.pool.push(columns);
    state.columns.clear();
    state.sources = state.scene.layers.map(layer =>
        layer && chooseSource(state.scene, layer, state.from, state.step / state.scale, state.columnCount));
}

function rowColumns(state, row, number) {
    const scene = state.scene, alike = row.sms.every(sm => scene.alike[sm] === scene.alike[row.sms[0]]);
    if (alike)
        return columnsInView(state, number, row.sms[0]);
    if (!state.sources[number]) {
        columnsOfSms(scene, scene.layers[number], row.sms, state.from, state.step / state.scale, state.mean);
        return state.mean;
    }
    emptyColumns(state.mean);
    for (const sm of row.sms)
        addColumns(state.mean, columnsInView(state, number, sm));
    divideColumns(state.mean, row.sms.length);
    return state.mean;
}

// The colors of a column from bottom to top: classes in the order of their first launch, each as high as the share of the
// SM that it takes, and at least a pixel.
function stackColumn(state, columns, x, height) {
    const { kinds, shares } = columns, stack = state.stack;
    let count = 0;
    for (let i = most * x; i < most * x + most && kinds[i] !== noClass; i++) {
        let at = count++;
        for (; at > 0 && stack.kinds[at - 1] > kinds[i]; at--) {
            stack.kinds[at] = stack.kinds[at - 1];
            stack.shares[at] = stack.shares[at - 1];
        }
        stack.kinds[at] = kinds[i];
        stack.shares[at] = shares[i];
    }
    for (let i = 0, sum = 0; i < count; i++) {
        sum += stack.shares[i];
        const least = (i ? stack.tops[i - 1] : 0) + 1;
        stack.tops[i] = Math.min(Math.max(Math.round(sum * height), least), height - (count - 1 - i));
    }
    return count;
}

function paintStrip(state, image, columns, top, height) {
    const { pixels, width } = image, { stack, classPixels } = state;
    const lowest = Math.min(top + height, image.height) - 1, highest = Math.max(top, 0);
    for (let x = 0; x < width; x++) {
        if (columns.kinds[most * x] === noClass)
            continue;
        const count = stackColumn(state, columns, x, height);
        for (let i = 0, line = 0; i < count; i++) {
            const pixel = classPixels[stack.kinds[i]];
            for (; line < stack.tops[i]; line++) {
                const y = top + height - 1 - line;
                if (y >= highest && y <= lowest)
                    pixels[y * width + x] = pixel;
            }
        }
    }
    paintDifferences(state, image, columns, top, height);
}

// Stripes at the top of a strip: other numbers of blocks than in the other layer. Dots: blocks with other numbers.
function paintDifferences(state, image, columns, top, height) {
    const mark = pixelOf(rgbOf(themes[state.theme].mark)), back = pixelOf(rgbOf(themes[state.theme].back));
    for (let x = 0; x < image.width; x++) {
        const differs = columns.differs[x];
        if (!differs || (differs === 1 && x % 6))
            continue;
        for (let y = Math.max(top, 0), last = Math.min(top + (differs === 2 ? Math.max(2, height / 5) : 1), image.height); y < last; y++)
            image.pixels[y * image.width + x] = (x + y) % 6 < 3 || differs === 1 ? mark : back;
    }
}

function eachBlock(state, layer, sm, visit) {
    const to = timeAt(state, state.width), last = firstStarting(layer, sm, to), first = layer.first[sm];
    for (let i = firstLasting(layer, sm, state.from); i < last; i++) {
        if ((i & 63) === 0 && layer.maxEnd[i >> 6] < state.from)
            i += 63;
        else if (layer.end[i] >= state.from)
            visit(i, i - first);
    }
}

function paintRect(image, left, top, right, bottom, pixel) {
    left = Math.max(left, 0);
    right = Math.min(right, image.width);
    for (let y = Math.max(top, 0), last = Math.min(bottom, image.height); y < last; y++)
        image.pixels.fill(pixel, y * image.width + left, y * image.width + right);
}

function paintBlocks(state, image, row, top) {
    const scene = state.scene, layer = scene.layers[row.layers[0]], sm = row.sms[0], scale = state.scale;
    const isWarps = row.kind === "warps", warps = isWarps ? warpsOf(scene, layer, sm) : null;
    const lanes = isWarps ? null : lanesOf(layer, sm), lane = Math.round((isWarps ? 5 : 12) * scale);
    eachBlock(state, layer, sm, (i, number) => {
        const left = Math.round((layer.start[i] - state.from) / state.step * scale);
        let right = Math.round((layer.end[i] - state.from) / state.step * scale);
        right = right - left > 3 ? right - 1 : Math.max(right, left + 1);
        const pixel = state.classPixels[scene.classOf[layer.launch[i]]];
        for (const slot of isWarps ? warps.slots[number] : [lanes.lane[number]])
            paintRect(image, left, top + slot * lane + 1, right, top + (slot + 1) * lane, pixel);
        if (!isWarps && layer.difference && layer.difference[i] === 2)
            for (let x = Math.max(left, 0); x < Math.min(right, image.width); x++)
                if (x % 6 < 3)
                    paintRect(image, x, top + lanes.lane[number] * lane + 1, x + 1, top + lanes.lane[number] * lane + 3,
                        pixelOf(rgbOf(themes[state.theme].mark)));
    });
}

function isSameStack(columns, a, b) {
    for (let i = 0; i < most; i++)
        if (columns.kinds[most * a + i] !== columns.kinds[most * b + i])
            return false;
    return true;
}

// The names of kernels in strips and blocks that are large enough.
function drawStripNames(state, row, columns, y, height) {
    const count = columns.count, scale = state.scale;
    for (let x = 0, end; x < count && state.labels < mostLabels; x = end) {
        for (end = x + 1; end < count && isSameStack(columns, x, end); end++)
            ;
        const width = (end - x) / scale, stacked = width < 30 ? 0 : stackColumn(state, columns, x, height);
        for (let i = 0, bottom = 0; i < stacked; bottom = state.stack.tops[i++]) {
            const number = state.scene.classes[state.stack.kinds[i]].function, part = state.stack.tops[i] - bottom;
            if (part >= 10)
                drawBarText(state, state.scene.functions[number].name, labelWidth + x / scale, y + height - bottom - part / 2, width,
                    state.colors[number].text);
        }
    }
}

function drawBlockNames(state, row, y) {
    const scene = state.scene, layer = scene.layers[row.layers[0]], lanes = lanesOf(layer, row.sms[0]);
    eachBlock(state, layer, row.sms[0], (i, number) => {
        const x = Math.max(xOf(state, layer.start[i]), labelWidth), width = Math.min(xOf(state, layer.end[i]), state.width) - x;
        if (width < 26)
            return;
        const kernel = scene.arrays.op_function[layer.launch[i]];
        drawBarText(state, `${layer.block[i]}  ${scene.functions[kernel].name}`, x, y + lanes.lane[number] * 12 + 6.5, width,
            state.colors[kernel].text);
    });
}

function paintRow(state, image, row, top) {
    if (isBars(row))
        return paintBars(state, image, row, top);
    if (row.kind !== "sms")
        return paintBlocks(state, image, row, top);
    const height = Math.floor(row.height * state.scale / row.layers.length);
    row.layers.forEach((number, place) =>
        paintStrip(state, image, rowColumns(state, row, number), top + place * height, height - (height > 5 ? 1 : 0)));
}

function drawRowNames(state, row, y) {
    const height = row.height / (row.layers ? row.layers.length : 1);
    if (row.kind === "blocks")
        drawBlockNames(state, row, y);
    else if (row.kind === "sms" && height >= 11)
        row.layers.forEach((number, place) =>
            drawStripNames(state, row, rowColumns(state, row, number), y + place * height, height));
}

function isBars(row) {
    return row.kind === "waits" || row.kind === "more" || row.kind === "stream";
}

function isPainted(row) {
    return isBars(row) || row.kind === "sms" || row.kind === "blocks" || row.kind === "warps";
}

// All rows of SMs that are in view, as one image.
function paintRows(state, rows) {
    const first = rows.find(isPainted), last = rows.findLast(isPainted);
    if (!first)
        return;
    const scale = state.scale, width = state.columnCount;
    const top = Math.max(Math.floor((first.y - state.scroll) * scale), Math.floor(axisHeight * scale));
    const bottom = Math.min(Math.ceil((last.y + last.height - state.scroll) * scale), state.canvas.height);
    if (bottom <= top || width <= 0)
        return;
    const picture = imageOf(state, width, bottom - top), back = pixelOf(rgbOf(themes[state.theme].back));
    const band = pixelOf(rgbOf(themes[state.theme].band)), image = { pixels: picture.pixels, width, height: bottom - top };
    const line = pixelOf(rgbOf(themes[state.theme].line));
    image.pixels.fill(back, 0, width * image.height);
    for (const x of state.ticks)
        paintRect(image, Math.floor((x - labelWidth) * scale), 0, Math.floor((x - labelWidth) * scale) + 1, image.height, line);
    let odd = false;
    for (const row of rows.filter(isPainted)) {
        const y = Math.round((row.y - state.scroll) * scale) - top;
        odd = !odd && !isBars(row);
        if (odd)
            paintRect(image, 0, y, width, y + Math.round(row.height * scale), band);
        paintRow(state, image, row, y);
    }
    state.pen.putImageData(picture.data, Math.round(labelWidth * scale), top, 0, 0, width, bottom - top);
}

function imageOf(state, width, height) {
    const kept = state.image;
    if (kept && kept.data.width === width && kept.data.height >= height)
        return kept;
    const data = state.pen.createImageData(width, Math.max(height, state.canvas.height));
    state.image = { data, pixels: new Uint32Array(data.data.buffer) };
    return state.image;
}

// ---- labels on the left ----

// As much of a text as there is room for.
function fitText(pen, text, room) {
    if (pen.measureText(text).width <= room)
        return text;
    let letters = text.length;
    while (letters > 1 && pen.measureText(`${text.slice(0, letters)}\u2026`).width > room)
        letters--;
    return `${text.slice(0, letters)}\u2026`;
}

function drawLabel(state, row, y) {
    const { pen } = state, theme = themes[state.theme];
    if (row.kind === "section") {
        pen.fillStyle = theme.band;
        pen.fillRect(0, y, state.width, row.height);
        pen.fillStyle = theme.soft;
        pen.fillText(row.label, 6, y + row.height / 2);
        return;
    }
    if (!row.label || row.height < 9)
        return;
    const indent = 6 + 10 * (row.depth || 0), room = labelWidth - indent - 4 - (row.layers && row.layers.length > 1 ? 12 : 0);
    const text = fitText(pen, (row.mark ? `${row.mark} ` : "") + row.label, room);
    pen.fillStyle = row.kind === "head" || state.scope.key === row.key ? theme.front : theme.soft;
    pen.fillText(text, indent, y + Math.min(row.height / 2, 9));
    if (row.kind === "sms" && row.layers.length > 1 && row.height >= 18)
        row.layers.forEach((number, place) => pen.fillText(number ? "m" : "p", labelWidth - 12, y + (place + 0.5) * row.height / 2));
}

// If rows are too low for labels, only some of them have one.
function drawLowLabels(state, rows) {
    const heads = rows.filter(row => row.height >= 9 && row.label).map(row => row.y - state.scroll);
    let free = axisHeight, next = 0;
    for (const row of rows) {
        const y = row.y - state.scroll;
        while (next < heads.length && heads[next] <= y)
            next++;
        if (row.height >= 9 || !row.label || y < free || (next < heads.length && y + 11 > heads[next]))
            continue;
        state.pen.fillStyle = themes[state.theme].soft;
        state.pen.fillText(row.label, 6 + 10 * row.depth + 12, y + row.height / 2 + 1);
        free = y + 13;
    }
}

// ---- all of it ----

function drawRow(state, row) {
    const y = row.y - state.scroll;
    if (row.kind === "waits" || row.kind === "more")
        drawWaits(state, row, y);
    else if (row.kind === "ranges")
        drawRanges(state, row, y);
    else if (row.kind === "calls")
        drawCalls(state, row, y);
    else if (row.kind === "stream")
        drawStream(state, row, y);
    else if (row.kind === "occupancy")
        drawOccupancy(state, row, y);
    else if (isPainted(row))
        drawRowNames(state, row, y);
    drawLabel(state, row, y);
}

function draw(state) {
    const { pen, scale } = state, theme = themes[state.theme], began = performance.now();
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = theme.back;
    pen.fillRect(0, 0, state.width, state.height);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    state.labels = 0;
    state.buildMs = mostBuildMs;
    forgetUnfinished(state);
    if (state.isMoved)
        forgetColumns(state);
    state.isMoved = false;
    const rows = state.rows.filter(row => row.y + row.height > state.scroll + axisHeight && row.y < state.scroll + state.height);
    drawAxis(state, state.height);
    paintRows(state, rows);
    for (const row of rows)
        drawRow(state, row);
    drawLowLabels(state, rows);
    if (state.scroll > 0)
        drawAxis(state, axisHeight);
    drawCursor(state);
    drawOverview(state);
    state.drawMs = performance.now() - began;
    state.frames++;
    if (state.unfinished.length)
        ask();
}

// A line at the pointer, and the part selected by shift and drag.
function drawCursor(state) {
    const { pen } = state, theme = themes[state.theme];
    if (state.pointer && state.pointer.x > labelWidth) {
        pen.strokeStyle = theme.soft;
        pen.beginPath();
        pen.moveTo(Math.round(state.pointer.x) + 0.5, axisHeight);
        pen.lineTo(Math.round(state.pointer.x) + 0.5, state.height);
        pen.stroke();
    }
    if (state.part) {
        pen.fillStyle = "rgba(86,180,233,0.25)";
        pen.fillRect(state.part.from, axisHeight, state.part.to - state.part.from, state.height);
    }
}
