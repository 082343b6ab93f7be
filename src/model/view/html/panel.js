// panel.js: the list of kernels beside the picture, and the details of the selected one.

const mostListed = 200;

function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined)
        made.textContent = text;
    if (className)
        made.className = className;
    return made;
}

function cells(row, name, values) {
    for (const value of values)
        row.append(value instanceof Node ? value : element(name, value));
    return row;
}

// ---- the list of kernels ----

function launchesOf(scene, number) {
    if (!scene.launchesOf) {
        scene.launchesOf = scene.functions.map(() => []);
        for (let i = 0; i < scene.launches; i++)
            scene.launchesOf[scene.arrays.op_function[i]].push(i);
    }
    return scene.launchesOf[number];
}

// The time of all launches of a kernel, and of all kernels.
function timesOf(scene) {
    if (!scene.times) {
        const { op_start } = scene.arrays;
        const timeOf = i => Number.isNaN(op_start[i]) ? 0 : operationEnd(scene, i) - op_start[i];
        scene.times = scene.functions.map((_, number) => launchesOf(scene, number).reduce((sum, i) => sum + timeOf(i), 0));
        scene.allTimes = scene.times.reduce((sum, time) => sum + time, 0);
    }
    return scene.times;
}

function kernelButton(state, number) {
    const scene = state.scene, one = scene.functions[number], button = element("button", undefined, "kernel");
    const color = element("i"), name = element("span", one.name.length > 90 ? one.name.slice(0, 90) + "\u2026" : one.name);
    const count = `\u00d7${launchesOf(scene, number).length}`, time = timesOf(scene)[number];
    color.style.background = cssOf(rgbOf(one.color));
    name.title = one.full || one.name;
    const isTimed = scene.timed && !scene.row_word && scene.allTimes > 0;
    button.append(color, name, element("span", isTimed
        ? `${count}, ${durationText(time)}, ${(100 * time / scene.allTimes).toFixed(1)}%` : count, "soft"));
    button.classList.toggle("timed", Boolean(isTimed));
    if (!isTimed)
        button.lastChild.style.flex = "none";
    button.classList.toggle("chosen", state.chosen === number);
    button.onclick = () => chooseFunction(state, state.chosen === number ? null : number);
    return button;
}

function listKernels(state) {
    const scene = state.scene, parts = [element("h2", `${scene.row_word ? "units" : "kernels"} (${scene.functions.length})`)];
    const shown = scene.functions.map((_, number) => number).filter(number => !state.search || state.matches.has(number));
    if (scene.timed && !scene.row_word)
        shown.sort((a, b) => timesOf(scene)[b] - timesOf(scene)[a] || a - b);
    if (state.search)
        parts.push(element("p", shown.length ? `${shown.length} match "${state.search}"` : `none matches "${state.search}"`, "soft"));
    for (const number of shown.slice(0, mostListed))
        parts.push(kernelButton(state, number));
    if (shown.length > mostListed)
        parts.push(element("p", `and ${shown.length - mostListed} more`, "soft"));
    return parts;
}

// ---- one kernel ----

function limitTable(shape) {
    const table = element("table"), rows = [["block slots", shape.by_blocks], ["warps", shape.by_warps],
        ["registers", shape.by_registers], ["shared memory", shape.by_shared]];
    for (const [name, blocks] of rows) {
        const isLimit = blocks !== null && blocks === shape.blocks_per_sm;
        const row = cells(element("tr"), "td", [name, blocks === null ? "-" : String(blocks), isLimit ? "limit" : ""]);
        row.className = isLimit ? "limit" : "";
        table.append(row);
    }
    return table;
}

function shapeParts(scene, shape) {
    const words = [countText(shape.threads, "thread"), `${shape.registers} registers a thread`,
        `${numbers.format(shape.shared_bytes)} bytes of shared memory`];
    if (shape.local_bytes)
        words.push(`${numbers.format(shape.local_bytes)} bytes of local memory a thread`);
    if (shape.cluster > 1)
        words.push(`clusters of ${shape.cluster} blocks`);
    return [element("p", words.join(", ")), element("p", `${countText(shape.blocks_per_sm, "block")} fit on an SM:`, "soft"), limitTable(shape)];
}

function launchRow(state, i) {
    const scene = state.scene, { op_blocks, op_start } = scene.arrays, row = element("tr");
    const start = Number.isNaN(op_start[i]) ? "never" : scene.timed ? durationText(op_start[i], 6) : columnText(scene, op_start[i]);
    const waited = waitsOfOperation(scene, i).reduce((sum, wait) => sum + scene.arrays.wait_to[wait] - scene.arrays.wait_from[wait], 0);
    row.className = "link";
    cells(row, "td", [scene.ids && scene.ids[i] ? scene.ids[i] : String(i + 1), numbers.format(op_blocks[i]), start,
        scene.timed ? durationText(operationEnd(scene, i) - op_start[i]) : "", waited && scene.timed ? durationText(waited) : ""]);
    row.onclick = () => showSpan(state, Number.isNaN(op_start[i]) ? scene.arrays.op_arrived[i] : op_start[i], operationEnd(scene, i));
    return row;
}

function describeKernel(state, number) {
    const scene = state.scene, launches = launchesOf(scene, number), table = element("table");
    const parts = [element("h2", scene.functions[number].full || scene.functions[number].name)];
    const shapes = new Set(launches.map(i => scene.arrays.op_shape[i]));
    for (const shape of scene.row_word ? [] : [...shapes].slice(0, 4))
        parts.push(...shapeParts(scene, scene.shapes[shape]));
    if (shapes.size > 4)
        parts.push(element("p", `and ${shapes.size - 4} more shapes`, "soft"));
    table.append(cells(element("tr"), "th", ["launch", "blocks", "start", scene.timed ? "runs" : "", scene.timed ? "waits" : ""]));
    for (const i of launches.slice(0, mostListed))
        table.append(launchRow(state, i));
    parts.push(element("h2", countText(launches.length, "launch").replace("launchs", "launches")), table);
    if (launches.length > mostListed)
        parts.push(element("p", `and ${launches.length - mostListed} more`, "soft"));
    return parts;
}

function fillPanel(state) {
    const parts = listKernels(state);
    if (state.chosen !== null)
        parts.unshift(...describeKernel(state, state.chosen));
    document.getElementById("panel").replaceChildren(...parts);
}

// ---- the text above the picture ----

function summary(scene) {
    const blocks = scene.layers[0] ? scene.layers[0].count : 0;
    if (scene.row_word)
        return `${countText(blocks, "instruction")} \u00b7 ${durationText(scene.to - scene.from)}`;
    const parts = [countText(scene.launches, "launch").replace("launchs", "launches")];
    if (blocks)
        parts.push(countText(blocks, "block"));
    else if (!scene.blocks)
        parts.push("blocks are not shown");
    if (scene.timed)
        parts.push(durationText(scene.to - scene.from));
    if (scene.compared) {
        const { blocks: all, blocks_elsewhere, counts_differ } = scene.compared;
        parts.push(counts_differ ? `differs from the measurement: ${countText(counts_differ, "place")} (an SM and a launch) with another number of blocks`
            : blocks_elsewhere ? `as many blocks of each launch on each SM as measured; ${numbers.format(blocks_elsewhere)} of ${numbers.format(all)} have other numbers`
            : `exactly as measured: ${countText(all, "block")}`);
    }
    if (scene.layers[0] && scene.layers[1])
        parts.push("upper strips (m): measured, lower (p): predicted; stripes mark differences");
    if (scene.note)
        parts.push(scene.note);
    return parts.join(" \u00b7 ");
}

function say(text, isWrong) {
    const message = document.getElementById("message");
    message.textContent = text;
    message.classList.toggle("wrong", Boolean(isWrong));
}
