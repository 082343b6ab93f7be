// hover.js: the text about a point of the canvas.

const numbers = new Intl.NumberFormat("en-US");

function countText(count, word) {
    return `${numbers.format(count)} ${word}${count === 1 ? "" : "s"}`;
}

function spanText(scene, from, to) {
    if (!scene.timed)
        return to >= scene.to ? `from ${columnText(scene, from)} on` : `from ${columnText(scene, from)} to ${columnText(scene, to)}`;
    return `${timeText(from, 1)} to ${timeText(to, 1)} (${durationText(to - from)})`;
}

function waitsOfOperation(scene, operation) {
    if (!scene.waitsOf) {
        scene.waitsOf = new Map();
        scene.arrays.wait_op.forEach((of, i) => scene.waitsOf.has(of) ? scene.waitsOf.get(of).push(i) : scene.waitsOf.set(of, [i]));
    }
    return scene.waitsOf.get(operation) || [];
}

function waitLine(scene, i) {
    const { wait_from, wait_to } = scene.arrays;
    const time = scene.timed ? ` ${durationText(wait_to[i] - wait_from[i])}` : "";
    return `waited${time} ${waitText(scene, i)}`;
}

// The waits of a launch; each longer sentence is shown once.
function waitLines(scene, operation) {
    const lines = [], texts = new Set();
    for (const i of waitsOfOperation(scene, operation)) {
        const text = scene.arrays.wait_text[i];
        lines.push(`the launch ${waitLine(scene, i)}`);
        if (text < scene.texts.length)
            texts.add(text);
    }
    for (const text of texts)
        lines.push(...scene.texts[text].split("\n"));
    return lines;
}

function operationLines(scene, i) {
    const { op_blocks, op_arrived, op_start, op_measured_start, op_measured_end } = scene.arrays;
    const name = nameOfOperation(scene, i), id = scene.ids && scene.ids[i] ? `, launch ${scene.ids[i]}` : "";
    const lines = [i < scene.launches ? `${name}${id}: ${countText(op_blocks[i], "block")}`
        : `${name}: ${numbers.format(scene.copies[i - scene.launches][1])} bytes`];
    if (!Number.isNaN(op_start[i]))
        lines.push(`${scene.predicted ? "predicted: " : ""}${spanText(scene, op_start[i], operationEnd(scene, i))}`);
    else
        lines.push("never starts");
    if (!Number.isNaN(op_measured_start[i]))
        lines.push(`measured: ${spanText(scene, op_measured_start[i], op_measured_end[i])}`);
    if (scene.timed && !Number.isNaN(op_arrived[i]))
        lines.push(`issued at ${timeText(op_arrived[i], 1)}`);
    return lines.concat(waitLines(scene, i));
}

function placeText(scene, sm) {
    if (scene.row_word)
        return `${rowWord} ${sm}`;
    const group = scene.groups.length > 1 ? `, ${scene.groupOf[sm]}` : "";
    return `SM ${sm} (TPC ${Math.floor(sm / scene.gpu.sms_per_tpc)}${group})`;
}

// Why a block went to its SM.
function whyHere(scene, layer, i) {
    if (!layer.room)
        return [];
    if (!layer.room[i])
        return ["it is part of a cluster: SMs of one group are chosen together"];
    const room = countText(layer.room[i], "block");
    return [scene.gpu.most_room ? `why this SM: it had room for ${room}, and no other SM had more` : `why this SM: it was its turn, with room for ${room}`];
}

function otherPlace(scene, number, layer, i) {
    const difference = layer.difference ? layer.difference[i] : 0;
    if (!difference)
        return [];
    const other = scene.layers[1 - number], word = number ? "predicted" : "measured";
    if (!other)
        return [difference === 2 ? `${word}: another number of blocks of this launch on this SM` : `${word} on another SM`];
    for (let sm = 0; sm < scene.gpu.sms; sm++)
        for (let j = other.first[sm]; j < other.first[sm + 1]; j++)
            if (other.launch[j] === layer.launch[i] && other.block[j] === layer.block[i])
                return [`${word} on SM ${sm}`];
    return [`${word}: not started`];
}

function blockLines(scene, number, i, sm) {
    const layer = scene.layers[number], launch = layer.launch[i];
    return [nameOfOperation(scene, launch), `${scene.row_word ? "instruction" : "block"} ${numbers.format(layer.block[i])} of ${numbers.format(scene.arrays.op_blocks[launch])} on ${placeText(scene, sm)}`,
        `${scene.layers[1] && scene.layers[0] ? (number ? "measured: " : "predicted: ") : ""}${spanText(scene, layer.start[i], layer.end[i])}`,
        ...otherPlace(scene, number, layer, i), ...whyHere(scene, layer, i), ...waitLines(scene, launch)];
}

// The blocks on an SM within a pixel.
function blocksAt(state, number, sm, x) {
    const layer = state.scene.layers[number], from = timeAt(state, x - 0.5), to = timeAt(state, x + 0.5), found = [];
    const last = firstStarting(layer, sm, to);
    for (let i = firstLasting(layer, sm, from); i < last && found.length < 5000; i++)
        if (layer.end[i] > from || (layer.end[i] === layer.start[i] && layer.end[i] >= from))
            found.push(i);
    return found;
}

// Several blocks: how many of each kernel.
function blocksLines(state, number, blocks, sms) {
    const scene = state.scene, layer = scene.layers[number], counts = new Map();
    for (const i of blocks) {
        const launch = layer.launch[i];
        counts.has(launch) ? counts.get(launch).push(layer.block[i]) : counts.set(launch, [layer.block[i]]);
    }
    const lines = [sms.length === 1 ? placeText(scene, sms[0]) : smLabel(sms)];
    for (const [launch, own] of [...counts].slice(0, 6)) {
        own.sort((a, b) => a - b);
        lines.push(`${nameOfOperation(scene, launch)}: ${countText(own.length, "block")}${own.length <= 8 ? ` (${own.join(", ")})` : ""}`);
    }
    if (counts.size > 6)
        lines.push(`and blocks of ${counts.size - 6} more launches`);
    if (counts.size === 1)
        lines.push(...waitLines(scene, counts.keys().next().value));
    return lines;
}

function smsAt(state, row, x, y) {
    const strip = Math.min(Math.floor((y - row.y) / (row.height / row.layers.length)), row.layers.length - 1);
    const number = row.layers[strip], blocks = [];
    for (const sm of row.sms.slice(0, 64))
        if (blocks.length < 5000)
            blocks.push(...blocksAt(state, number, sm, x));
    const isSingle = row.sms.length === 1;
    if (!blocks.length)
        return { lines: [isSingle ? placeText(state.scene, row.sms[0]) : smLabel(row.sms), "idle"] };
    const first = state.scene.layers[number].launch[blocks[0]];
    return { launch: first, lines: isSingle && blocks.length === 1 ? blockLines(state.scene, number, blocks[0], row.sms[0])
        : blocksLines(state, number, blocks, row.sms) };
}

function lanesAt(state, row, x, y) {
    const scene = state.scene, number = row.layers[0], layer = scene.layers[number], sm = row.sms[0];
    const slot = Math.floor((y - row.y) / (row.kind === "warps" ? 5 : 12));
    for (const i of blocksAt(state, number, sm, x)) {
        const at = i - layer.first[sm];
        const isThere = row.kind === "warps" ? warpsOf(scene, layer, sm).slots[at].includes(slot) : lanesOf(layer, sm).lane[at] === slot;
        if (isThere)
            return { launch: layer.launch[i], block: i, lines: blockLines(scene, number, i, sm).concat(row.kind === "warps"
                ? [`warp slot ${slot}${layer.slots ? "" : ", numbered by Gridsmith: the model does not predict slots"}`] : []) };
    }
    return null;
}

function barAt(state, list, fromOf, toOf, x) {
    const time = timeAt(state, x + 0.5), k = firstAfter(list, toOf, timeAt(state, x - 0.5));
    return k < list.length && fromOf(list[k]) <= time ? list[k] : -1;
}

function waitAt(state, row, x) {
    const scene = state.scene, { wait_from, wait_to, wait_op, wait_text } = scene.arrays;
    const i = barAt(state, row.lane, j => wait_from[j], j => wait_to[j], x);
    if (i < 0)
        return null;
    const text = wait_text[i] < scene.texts.length ? scene.texts[wait_text[i]].split("\n") : [];
    return { launch: wait_op[i], lines: [nameOfOperation(scene, wait_op[i]), waitLine(scene, i), spanText(scene, wait_from[i], wait_to[i]), ...text] };
}

// Waits that have no lane of their own.
function moreAt(state, row, x) {
    const scene = state.scene, { wait_from, wait_to, wait_op } = scene.arrays, from = timeAt(state, x - 0.5), to = timeAt(state, x + 0.5);
    const found = row.lane.filter(i => wait_from[i] < to && wait_to[i] > from);
    return found.length ? { launch: wait_op[found[0]], lines: [`${countText(found.length, "more wait")} at this time`,
        ...found.slice(0, 8).map(i => `${nameOfOperation(scene, wait_op[i])} ${waitLine(scene, i)}`)] } : null;
}

function rangeAt(state, row, x) {
    const ranges = state.scene.ranges, i = barAt(state, row.lane, j => ranges[j][1], j => ranges[j][2], x);
    return i < 0 ? null : { lines: [ranges[i][0], spanText(state.scene, ranges[i][1], ranges[i][2])] };
}

// The call nearest to a point, at most 3 pixels from it.
function callAt(state, row, x) {
    const { op_arrived } = state.scene.arrays, time = timeAt(state, x);
    const k = firstAfter(row.lane, i => op_arrived[i], timeAt(state, x - 3)), distance = i => Math.abs(op_arrived[i] - time);
    let best = row.lane[k];
    for (let next = k; next < row.lane.length && op_arrived[row.lane[next]] <= timeAt(state, x + 3); next++)
        best = distance(row.lane[next]) < distance(best) ? row.lane[next] : best;
    return best === undefined || op_arrived[best] > timeAt(state, x + 3) ? null : { launch: best, lines: operationLines(state.scene, best) };
}

function operationAt(state, row, x, y) {
    const scene = state.scene, { op_start, op_measured_start, op_measured_end } = scene.arrays;
    const isUpper = scene.isMeasured && (state.layers === "1" || (state.layers === "both" && y - row.y < row.height / 2));
    const i = isUpper ? barAt(state, row.measured, j => op_measured_start[j], j => op_measured_end[j], x)
        : barAt(state, row.operations, j => op_start[j], j => operationEnd(scene, j), x);
    return i < 0 ? null : { launch: i, lines: operationLines(scene, i) };
}

function occupancyAt(state, x) {
    const columns = state.occupancyNow, at = Math.floor((x - labelWidth) * state.scale);
    if (!columns || at < 0 || at >= columns.count)
        return null;
    const percent = resources.map(({ name, text }) => `${text} ${(100 * columns[name][at]).toFixed(1)}%`);
    return { lines: [`${state.scope.label} at ${state.scene.timed ? timeText(timeAt(state, x), state.step) : columnText(state.scene, Math.max(0, Math.min(Math.floor(timeAt(state, x)), state.scene.columns.length - 1)))}`, ...percent] };
}

function columnAt(state, x) {
    const number = Math.floor(timeAt(state, x)), column = state.scene.timed ? null : state.scene.columns[number];
    return column ? { lines: [columnText(state.scene, number), ...(column.why ? column.why.split("\n") : [])] } : null;
}

function rowAt(state, y) {
    const at = y + state.scroll;
    return y < axisHeight ? null : state.rows.find(row => at >= row.y && at < row.y + row.height) || null;
}

function labelLines(row) {
    return row.label.startsWith("front") ? [row.label, "SMs that the scheduler serves before those of the other groups when all are equally free"]
        : row.kind === "calls" ? ["when the host issued each operation"] : [row.label];
}

// The text about a point: lines, and the launch; null if the point is empty.
function whatIsAt(state, x, y) {
    const row = rowAt(state, y), inside = y + state.scroll;
    if (x < labelWidth)
        return row && row.label && row.kind !== "section" ? { lines: labelLines(row), row } : null;
    if (y < axisHeight)
        return columnAt(state, x);
    if (!row)
        return null;
    switch (row.kind) {
    case "waits": return waitAt(state, row, x);
    case "more": return moreAt(state, row, x);
    case "ranges": return rangeAt(state, row, x);
    case "calls": return callAt(state, row, x);
    case "stream": return operationAt(state, row, x, inside);
    case "occupancy": return occupancyAt(state, x);
    case "sms": return smsAt(state, row, x, inside);
    case "blocks": case "warps": return lanesAt(state, row, x, inside);
    default: return null;
    }
}

// ---- the tooltip; text only: names are data ----

function showTip(state, x, y) {
    const tip = document.getElementById("tip"), what = state.pointer ? whatIsAt(state, x, y) : null;
    tip.hidden = !what;
    if (!what)
        return;
    tip.replaceChildren(...what.lines.map(line => {
        const element = document.createElement("div");
        element.textContent = line.length > 500 ? line.slice(0, 500) + "\u2026" : line;
        return element;
    }));
    const box = state.canvas.getBoundingClientRect(), width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(box.left + x + 14, innerWidth - width - 6))}px`;
    tip.style.top = `${box.top + y + 16 + height > innerHeight ? Math.max(4, box.top + y - height - 10) : box.top + y + 16}px`;
}
