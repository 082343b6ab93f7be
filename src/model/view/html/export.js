// export.js: the data as a Chrome trace: saved as a file, or sent to ui.perfetto.dev in a tab that the user asked for.
//
// The trace has a track for each stream, waits as slices, counters of occupancy, and a track for each lane of an SM.
// Above `mostSlices` blocks, the SMs are left out and the counters say how full the GPU is.

const mostSlices = 250000, perfetto = "https://ui.perfetto.dev", streamsPid = 1, waitsPid = 2, countersPid = 3, firstSmPid = 10;

function traceTime(scene, time) {
    return scene.timed ? time / 1000 : time * 1000;
}

function named(events, pid, tid, name) {
    events.push({ ph: "M", pid, tid, name: "thread_name", args: { name } });
}

function traceStreams(scene, events) {
    const { op_start } = scene.arrays;
    events.push({ ph: "M", pid: streamsPid, name: "process_name", args: { name: "streams" } });
    scene.streamRows.forEach((row, number) => {
        named(events, streamsPid, number + 1, row.name || "no stream");
        for (const i of row.operations)
            events.push({ ph: "X", pid: streamsPid, tid: number + 1, name: nameOfOperation(scene, i), ts: traceTime(scene, op_start[i]),
                dur: traceTime(scene, operationEnd(scene, i) - op_start[i]), args: { blocks: scene.arrays.op_blocks[i] } });
    });
}

function traceWaits(scene, events) {
    const { wait_from, wait_to, wait_op } = scene.arrays;
    if (!scene.waits.lanes.length)
        return;
    events.push({ ph: "M", pid: waitsPid, name: "process_name", args: { name: "waiting" } });
    scene.waits.lanes.forEach((lane, number) => {
        for (const i of lane)
            events.push({ ph: "X", pid: waitsPid, tid: number + 1, name: `${nameOfOperation(scene, wait_op[i])} waits ${waitText(scene, i)}`,
                ts: traceTime(scene, wait_from[i]), dur: traceTime(scene, wait_to[i] - wait_from[i]), args: {} });
    });
}

function traceSms(scene, layer, events) {
    for (let sm = 0; sm < scene.gpu.sms; sm++) {
        const lanes = lanesOf(layer, sm), first = layer.first[sm];
        if (first === layer.first[sm + 1])
            continue;
        events.push({ ph: "M", pid: firstSmPid + sm, name: "process_name", args: { name: `SM ${sm}` } });
        for (let lane = 0; lane < lanes.count; lane++)
            named(events, firstSmPid + sm, lane + 1, `lane ${lane}`);
        for (let i = first; i < layer.first[sm + 1]; i++)
            events.push({ ph: "X", pid: firstSmPid + sm, tid: lanes.lane[i - first] + 1, name: nameOfOperation(scene, layer.launch[i]),
                ts: traceTime(scene, layer.start[i]), dur: traceTime(scene, layer.end[i] - layer.start[i]), args: { block: layer.block[i] } });
    }
}

function traceOccupancy(scene, layer, events) {
    const count = 2000, step = (scene.to - scene.from) / count, sum = makeColumns(count), one = makeColumns(count);
    emptyColumns(sum);
    for (let sm = 0; sm < scene.gpu.sms; sm++) {
        columnsOfSm(scene, layer, sm, scene.from, step, one);
        addColumns(sum, one);
    }
    events.push({ ph: "M", pid: countersPid, name: "process_name", args: { name: "occupancy of the GPU, %" } });
    for (const { name, text } of resources)
        for (let x = 0, last = -1; x < count; x++) {
            const value = Math.round(1000 * sum[name][x] / scene.gpu.sms) / 10;
            if (value !== last)
                events.push({ ph: "C", pid: countersPid, name: text, ts: traceTime(scene, scene.from + x * step), args: { percent: value } });
            last = value;
        }
}

function makeTrace(scene) {
    const events = [], layer = scene.layers[0] || scene.layers[1], note = { gpu: scene.gpu.title };
    traceStreams(scene, events);
    traceWaits(scene, events);
    if (layer && layer.count)
        traceOccupancy(scene, layer, events);
    if (layer && layer.count <= mostSlices)
        traceSms(scene, layer, events);
    else if (layer)
        note.left_out = `${layer.count} blocks: the trace has the occupancy in their place`;
    return JSON.stringify({ displayTimeUnit: "ns", otherData: note, traceEvents: events });
}

function saveTrace(state) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([makeTrace(state.scene)], { type: "application/json" }));
    link.download = "gridsmith.trace.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Perfetto answers "PONG" when it is ready, then takes a buffer.
function openPerfetto(state) {
    const tab = window.open(perfetto);
    if (!tab)
        return say("the browser did not open a tab for ui.perfetto.dev; save the trace and open it there", true);
    const timer = setInterval(() => tab.postMessage("PING", perfetto), 100);
    const answer = event => {
        if (event.origin !== perfetto || event.data !== "PONG")
            return;
        clearInterval(timer);
        removeEventListener("message", answer);
        const buffer = new TextEncoder().encode(makeTrace(state.scene)).buffer;
        tab.postMessage({ perfetto: { buffer, title: state.scene.title, fileName: "gridsmith.trace.json" } }, perfetto, [buffer]);
    };
    addEventListener("message", answer);
    setTimeout(() => clearInterval(timer), 60000);
}
