// rows.js: the layout of the picture: the band of waits, the calls of the host and the ranges that the program named, a row for each stream, occupancy, and the SMs by GPC and TPC.
// Identical SMs that are next to each other are one row. A row of SMs can be unfolded: to its SMs,
// to the blocks of an SM, and to its warp slots.

const axisHeight = 26, laneHeight = 15, streamHeight = 18, occupancyHeight = 84, headHeight = 17, gap = 8;
const mostLanes = 12, mostStreams = 400;

// ---- lanes: intervals that overlap go to different lanes ----

// Gives each interval, in order of `from`, the lowest free lane. Returns the intervals of each lane; intervals without
// a lane are in `more`.
function layLanes(order, fromOf, toOf, most) {
    const lanes = [], ends = [], more = [];
    for (const i of order) {
        let lane = 0;
        while (lane < ends.length && ends[lane] > fromOf(i))
            lane++;
        if (lane >= most) {
            more.push(i);
            continue;
        }
        if (lane === ends.length)
            lanes.push([]);
        ends[lane] = toOf(i);
        lanes[lane].push(i);
    }
    return { lanes, more };
}

function sortedNumbers(count, keyOf) {
    const order = Array.from({ length: count }, (_, i) => i).filter(i => !Number.isNaN(keyOf(i)));
    return order.sort((a, b) => keyOf(a) - keyOf(b) || a - b);
}

function prepareWaits(scene) {
    const { wait_from, wait_to } = scene.arrays;
    const order = sortedNumbers(wait_from.length, i => wait_from[i]);
    scene.waits = layLanes(order, i => wait_from[i], i => wait_to[i], mostLanes);
}

// Ranges are times of the host. One that is inside another is below it.
function prepareRanges(scene) {
    const ranges = scene.ranges, order = ranges.map((_, i) => i);
    order.sort((a, b) => ranges[a][1] - ranges[b][1] || ranges[b][2] - ranges[a][2] || a - b);
    scene.rangeLanes = layLanes(order, i => ranges[i][1], i => ranges[i][2], mostLanes).lanes;
}

// When the host of a recorded program issued each operation.
function prepareCalls(scene) {
    const { op_arrived } = scene.arrays;
    scene.calls = scene.timed && scene.isMeasured ? sortedNumbers(op_arrived.length, i => op_arrived[i]) : [];
}

function operationEnd(scene, i) {
    const end = scene.arrays.op_end[i];
    return Number.isNaN(end) ? scene.to : end;
}

// Launches of a stream overlap if one starts before the one before it has ended: then the stream has several rows.
function splitStream(scene, { name, operations, measured }) {
    const { op_start, op_measured_start, op_measured_end } = scene.arrays;
    const upper = layLanes(measured, i => op_measured_start[i], i => op_measured_end[i], mostLanes).lanes;
    const lower = layLanes(operations, i => op_start[i], i => operationEnd(scene, i), mostLanes).lanes;
    return Array.from({ length: Math.max(upper.length, lower.length, 1) }, (_, i) =>
        ({ name: i ? "" : name, operations: lower[i] || [], measured: upper[i] || [] }));
}

function prepareStreams(scene) {
    const { op_stream, op_start, op_measured_start } = scene.arrays;
    const streams = scene.streams.map(name => ({ name, operations: [], measured: [] }));
    for (const i of sortedNumbers(op_stream.length, i => op_start[i]))
        streams[op_stream[i]].operations.push(i);
    for (const i of sortedNumbers(op_stream.length, i => op_measured_start[i]))
        streams[op_stream[i]].measured.push(i);
    scene.streamRows = streams.flatMap(stream => splitStream(scene, stream));
    scene.isMeasured = op_measured_start.some(time => !Number.isNaN(time));
}

// ---- blocks and warp slots of an SM ----

function lanesOf(layer, sm) {
    let lanes = layer.lanes.get(sm);
    if (!lanes) {
        const first = layer.first[sm], last = layer.first[sm + 1], ends = [];
        lanes = { lane: new Uint8Array(last - first), count: 0 };
        for (let i = first; i < last; i++) {
            let lane = 0;
            while (lane < ends.length && ends[lane] > layer.start[i])
                lane++;
            lane = Math.min(lane, 254);
            ends[lane] = layer.end[i];
            lanes.lane[i - first] = lane;
        }
        lanes.count = Math.max(ends.length, 1);
        layer.lanes.set(sm, lanes);
    }
    return lanes;
}

// The slots of each block: as recorded, or the lowest that are free when it starts.
function warpsOf(scene, layer, sm) {
    let warps = layer.warps.get(sm);
    if (warps)
        return warps;
    const first = layer.first[sm], last = layer.first[sm + 1], ends = new Float64Array(256).fill(-Infinity);
    warps = { slots: [], count: scene.gpu.warps, isRecorded: Boolean(layer.slots) };
    let at = 0;
    for (let i = 0; layer.slots && i < first; i++)
        at += layer.slots[i];
    for (let i = first; i < last; i++) {
        const own = [];
        const wanted = scene.shapes[scene.arrays.op_shape[layer.launch[i]]].block_warps;
        if (layer.slots)
            for (let j = 0; j < layer.slots[i]; j++)
                own.push(layer.slot[at++]);
        for (let slot = 0; !layer.slots && slot < warps.count && own.length < wanted; slot++)
            if (ends[slot] <= layer.start[i]) {
                ends[slot] = layer.end[i];
                own.push(slot);
            }
        warps.slots.push(own);
    }
    layer.warps.set(sm, warps);
    return warps;
}

// ---- identical SMs ----

// A hash of the launches and times of each SM.
function findAlike(scene) {
    const known = new Map();
    scene.alike = new Uint32Array(scene.gpu.sms);
    for (let sm = 0; sm < scene.gpu.sms; sm++) {
        let key = "";
        for (const layer of scene.layers) {
            let a = 17, b = 23;
            for (let i = layer ? layer.first[sm] : 0, last = layer ? layer.first[sm + 1] : 0; i < last; i++) {
                const start = layer.start[i], end = layer.end[i];
                a = Math.imul(a ^ (start | 0), 0x9e3779b1) ^ Math.imul(layer.launch[i] + 1, 0x85ebca6b);
                b = Math.imul(b ^ (end | 0) ^ (start / 4294967296), 0xc2b2ae35) + a | 0;
                a ^= a >>> 15;
            }
            key += `${layer ? layer.first[sm + 1] - layer.first[sm] : 0} ${a} ${b},`;
        }
        if (!known.has(key))
            known.set(key, sm);
        scene.alike[sm] = known.get(key);
    }
}

function prepareRows(scene) {
    prepareWaits(scene);
    prepareRanges(scene);
    prepareStreams(scene);
    prepareCalls(scene);
    findAlike(scene);
    scene.groupOf = new Array(scene.gpu.sms).fill("");
    for (const group of scene.groups)
        for (const sm of group.sms)
            scene.groupOf[sm] = group.name;
}

// Identical parts of a group become neighbors, after the first of them.
function togetherAlike(scene, parts) {
    const kinds = new Map();
    for (const part of parts) {
        const key = part.map(sm => scene.alike[sm]).join();
        kinds.has(key) ? kinds.get(key).push(part) : kinds.set(key, [part]);
    }
    return [...kinds.values()].flat();
}

// Joins identical neighbors.
function mergeAlike(scene, parts) {
    const merged = [];
    for (const part of parts) {
        const last = merged[merged.length - 1], key = part.map(sm => scene.alike[sm]).join();
        if (last && last.key === key)
            last.parts.push(part);
        else
            merged.push({ key, parts: [part] });
    }
    return merged.map(({ parts: all }) => all);
}

// ---- the list of rows ----

function listText(numbers) {
    const parts = [];
    for (let i = 0, j; i < numbers.length; i = j) {
        for (j = i + 1; j < numbers.length && numbers[j] === numbers[j - 1] + 1; j++)
            ;
        parts.push(j - i > 2 ? `${numbers[i]}-${numbers[j - 1]}` : numbers.slice(i, j).join(", "));
    }
    return parts.length > 4 ? `${parts.slice(0, 3).join(", ")} ... ${numbers[numbers.length - 1]}` : parts.join(", ");
}

function smLabel(sms) {
    return `${rowWord} ${listText(sms)}`;
}

function isOpen(state, key, byDefault) {
    const open = state.open.get(key);
    return open === undefined ? byDefault : open;
}

// How far an SM is unfolded: 0 not, 1 to blocks, 2 to warp slots.
function levelOf(state, key) {
    const level = state.level.get(key);
    return level === undefined ? { block: 1, warp: 2 }[state.depth] || 0 : level;
}

function addSm(state, rows, sms, depth) {
    const key = `s${sms[0]}`, level = levelOf(state, key), layers = shownLayers(state);
    rows.push({ kind: "sms", key, label: smLabel(sms), sms, depth, layers, mark: level ? "-" : "+", level, isSingle: true });
    for (const number of level ? layers : []) {
        const layer = state.scene.layers[number];
        const lanes = level === 2 ? state.scene.gpu.warps : lanesOf(layer, sms[0]).count;
        rows.push({ kind: level === 2 ? "warps" : "blocks", key, sms, depth: depth + 1, layers: [number], lanes,
            label: layers.length > 1 ? (number ? "measured" : "predicted") : "", height: lanes * (level === 2 ? 5 : 12) + 2 });
    }
}

function addMerged(state, rows, parts, depth) {
    const sms = parts.flat(), key = `m${sms[0]}`;
    if (parts.length === 1 && parts[0].length === 1)
        return addSm(state, rows, sms, depth);
    const open = isOpen(state, key, false);
    if (parts[0].length === 1 && !open && levelOf(state, `s${sms[0]}`))
        return addSm(state, rows, sms, depth);
    const tpc = parts.length === 1 && parts[0].length > 1 ? `TPC ${Math.floor(sms[0] / state.scene.gpu.sms_per_tpc)}: ` : "";
    rows.push({ kind: open ? "head" : "sms", key, label: tpc + smLabel(sms), sms, depth, layers: shownLayers(state),
        mark: open ? "-" : "+", isOpen: open });
    if (open)
        for (const part of parts.length > 1 ? parts : sms.map(sm => [sm]))
            part.length > 1 ? addMerged(state, rows, [part], depth + 1) : addSm(state, rows, part, depth + 1);
}

function tpcsOf(scene, sms) {
    const tpcs = new Map();
    for (const sm of sms) {
        const tpc = Math.floor(sm / scene.gpu.sms_per_tpc);
        tpcs.has(tpc) ? tpcs.get(tpc).push(sm) : tpcs.set(tpc, [sm]);
    }
    return [...tpcs.values()];
}

function addGroup(state, rows, group, isOnly) {
    const open = isOpen(state, `g${group.name}`, state.depth !== "group");
    if (!isOnly || !open)
        rows.push({ kind: open ? "head" : "sms", key: `g${group.name}`, label: group.name, sms: group.sms, depth: 0,
            layers: shownLayers(state), mark: open ? "-" : "+", isOpen: open });
    if (!open)
        return;
    const parts = togetherAlike(state.scene, state.depth === "tpc" ? tpcsOf(state.scene, group.sms) : group.sms.map(sm => [sm]));
    for (const merged of mergeAlike(state.scene, parts))
        addMerged(state, rows, merged, isOnly ? 0 : 1);
}

function shownLayers(state) {
    const there = [1, 0].filter(number => state.scene.layers[number]);
    return state.layers === "both" ? there : there.filter(number => number === Number(state.layers) || there.length === 1);
}

function addSection(rows, label, height) {
    rows.push({ kind: "section", label, height, sms: [], depth: 0 });
}

function listRows(state) {
    const scene = state.scene, rows = [], waits = scene.waits;
    if (waits.lanes.length) {
        addSection(rows, "waiting", headHeight);
        waits.lanes.forEach((lane, number) => rows.push({ kind: "waits", label: "", lane, number, height: laneHeight, sms: [] }));
        if (waits.more.length)
            rows.push({ kind: "more", label: `and ${waits.more.length} more`, lane: waits.more, height: laneHeight, sms: [] });
    }
    if (scene.rangeLanes.length || scene.calls.length) {
        addSection(rows, "host", headHeight);
        if (scene.calls.length)
            rows.push({ kind: "calls", label: "calls", lane: scene.calls, height: laneHeight, sms: [], depth: 0 });
        for (const lane of scene.rangeLanes)
            rows.push({ kind: "ranges", label: "", lane, height: laneHeight, sms: [] });
    }
    if (scene.streamRows.length && !scene.row_word) {
        addSection(rows, scene.streams.some(name => name.startsWith("graph")) ? "streams and graphs" : "streams", headHeight);
        for (const row of scene.streamRows.slice(0, mostStreams))
            rows.push({ kind: "stream", label: row.name, operations: row.operations, measured: row.measured,
                height: streamHeight, sms: [] });
    }
    if (shownLayers(state).length) {
        if (!scene.row_word) {
            addSection(rows, `occupancy: ${state.scope.label}`, headHeight);
            rows.push({ kind: "occupancy", label: "", height: occupancyHeight, sms: [] });
        }
        addSection(rows, `${rowWord}s`, headHeight);
        for (const group of scene.groups)
            addGroup(state, rows, group, scene.groups.length === 1);
    }
    return rows;
}

// Rows of SMs share the height that the others leave, within limits.
function layRows(state) {
    const rows = listRows(state);
    const fixed = rows.reduce((sum, row) => sum + (row.kind === "sms" ? 0 : row.height || headHeight), 0);
    const strips = rows.reduce((sum, row) => sum + (row.kind === "sms" ? row.layers.length : 0), 0);
    const left = state.height - axisHeight - fixed - gap;
    const strip = Math.max(5, Math.min(26, Math.floor(left / Math.max(strips, 1))));
    let y = axisHeight;
    for (const row of rows) {
        row.height = row.height || (row.kind === "sms" ? Math.max(strip, row.level ? 14 : 5) * row.layers.length : headHeight);
        row.y = y;
        y += row.height;
    }
    state.rows = rows;
    state.contentHeight = y + gap;
    state.scroll = Math.max(0, Math.min(state.scroll, state.contentHeight - state.height));
}
