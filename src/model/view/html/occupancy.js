// occupancy.js: how many blocks fit on an SM, with all numbers of a kernel, and the GPU, free to change.
// The limits come from tables of the GPU: the limit of a resource depends on few numbers. A plot changes one of them.

const plots = [{ key: "threads", text: "threads of a block" }, { key: "registers", text: "registers of a thread" },
    { key: "shared", text: "shared memory of a block, KB" }];
const chosen = { threads: 0, registers: 0, shared: 0 };
const clusterSizes = [2, 4, 8, 16];
let data = null, gpu = null, table = null, carveout = -1, cluster = 0, theme = "light";

const find = id => document.getElementById(id);
const ink = { light: { front: "#1b1b1f", soft: "#5c5c66", line: "#e0e0e6", back: "#ffffff" },
    dark: { front: "#ececf1", soft: "#a2a2ad", line: "#383a42", back: "#17181c" } };

// The four limits, and the least of them.
function limitsOf({ threads, registers, shared }) {
    const warps = Math.ceil(threads / table.warp_threads);
    const by = [table.block_slots, table.by_warps[warps - 1], table.by_registers[warps - 1][registers - 1],
        table.by_shared[table.carveouts[carveout + 1]][Math.ceil(shared / table.shared_step)]];
    return { by, blocks: Math.min(...by), warps };
}

function rangeOf(key) {
    return { threads: [table.warp_threads, table.most_threads, table.warp_threads], registers: [1, table.most_registers, 1],
        shared: [0, table.most_shared, table.shared_step] }[key];
}

function brighter(color) {
    return theme === "light" ? color : "#" + [1, 3, 5].map(i => Math.round(parseInt(color.slice(i, i + 2), 16) * 0.55 + 115).toString(16).padStart(2, "0")).join("");
}

// ---- plots ----

const margin = { left: 34, right: 10, top: 12, bottom: 40 };

function scalesOf(canvas, key) {
    const [least, most] = rangeOf(key), width = canvas.clientWidth - margin.left - margin.right, height = canvas.clientHeight - margin.top - margin.bottom;
    return { least, most, width, height, x: value => margin.left + width * (value - least) / (most - least),
        y: blocks => margin.top + height * (1 - Math.min(blocks, table.block_slots * 1.06) / (table.block_slots * 1.06)) };
}

function drawFrame(pen, scales, plot) {
    const colors = ink[theme], step = Math.max(1, Math.floor(table.block_slots / 8)), unit = plot.key === "shared" ? 1024 : 1;
    pen.strokeStyle = colors.line;
    pen.fillStyle = colors.soft;
    for (let blocks = 0; blocks <= table.block_slots; blocks += step) {
        pen.beginPath();
        pen.moveTo(margin.left, scales.y(blocks));
        pen.lineTo(margin.left + scales.width, scales.y(blocks));
        pen.stroke();
        pen.textAlign = "right";
        pen.fillText(String(blocks), margin.left - 5, scales.y(blocks) + 4);
    }
    pen.textAlign = "center";
    const mark = 2 ** Math.floor(Math.log2((scales.most - scales.least) / unit / 4));
    for (let at = 0; at * unit <= scales.most; at += mark)
        if (at * unit >= scales.least)
            pen.fillText(String(at), scales.x(at * unit), margin.top + scales.height + 15);
    pen.fillStyle = colors.front;
    pen.fillText(plot.text, margin.left + scales.width / 2, margin.top + scales.height + 33);
}

function drawCurve(pen, scales, key, valueOf, color, width, dash) {
    const [least, most, step] = rangeOf(key);
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.beginPath();
    let last = null;
    for (let value = least; value <= most; value += step) {
        const y = scales.y(valueOf(limitsOf({ ...chosen, [key]: value })));
        if (last !== null && y !== last)
            pen.lineTo(scales.x(value), last);
        pen.lineTo(scales.x(value), y);
        last = y;
    }
    pen.stroke();
    pen.setLineDash([]);
}

function drawPlot(plot, number) {
    const canvas = find(`plot${number}`), pen = canvas.getContext("2d"), scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * scale);
    canvas.height = Math.round(canvas.clientHeight * scale);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const scales = scalesOf(canvas, plot.key), now = limitsOf(chosen);
    drawFrame(pen, scales, plot);
    data.curves.forEach((curve, i) => drawCurve(pen, scales, plot.key, limits => limits.by[i], brighter(curve.color), 1.5,
        curve.dash ? curve.dash.split(" ").map(Number) : []));
    drawCurve(pen, scales, plot.key, limits => limits.blocks, ink[theme].front, 2.6, []);
    pen.beginPath();
    pen.arc(scales.x(chosen[plot.key]), scales.y(now.blocks), 5, 0, 7);
    pen.fillStyle = ink[theme].back;
    pen.fill();
    pen.stroke();
}

// ---- the answer in words ----

// The nearest smaller number of registers, threads or bytes with which more warps fit.
function nextBetter(key) {
    const [least, , step] = rangeOf(key), warpsOf = limits => limits.blocks * limits.warps, now = warpsOf(limitsOf(chosen));
    for (let value = chosen[key] - step; value >= least; value -= step) {
        const limits = limitsOf({ ...chosen, [key]: value });
        if (warpsOf(limits) > now)
            return { value, warps: warpsOf(limits) };
    }
    return null;
}

function line(text, color) {
    const made = document.createElement("p");
    if (color) {
        const sample = document.createElement("i");
        sample.style.borderColor = color;
        made.append(sample);
    }
    made.append(text);
    return made;
}

// How many clusters an empty GPU takes; null: not known.
function clustersOf(blocks) {
    const row = gpu.clusters[clusterSizes.indexOf(cluster)];
    return blocks && row ? row[blocks - 1] : null;
}

function fillAnswer() {
    const { by, blocks, warps } = limitsOf(chosen), lines = [];
    const percent = (100 * blocks * warps / table.warps).toFixed(1);
    lines.push(line(blocks ? `${blocks} block${blocks === 1 ? "" : "s"} on an SM: ${blocks * warps} of ${table.warps} warps, ${percent}%` : "the kernel can never run on this GPU"));
    if (gpu.assumed)
        lines.push(line(gpu.assumed));
    if (cluster) {
        const clusters = clustersOf(blocks);
        lines.push(line(clusters === null ? "how many clusters fit is not described for this GPU" : `${clusters} cluster${clusters === 1 ? "" : "s"} of ${cluster} blocks on an empty GPU`));
    }
    data.curves.forEach((curve, i) => lines.push(line(`by ${curve.name}: ${by[i] >= 10000 ? "no limit" : by[i]}${by[i] === blocks ? ", the limit" : ""}`, brighter(curve.color))));
    for (const { key, text } of plots) {
        const better = nextBetter(key);
        if (better)
            lines.push(line(`${better.warps} warps would fit with ${better.value.toLocaleString("en-US")} ${text.replace(", KB", " (bytes)")}`));
    }
    find("answer").replaceChildren(...lines);
}

function update() {
    plots.forEach(drawPlot);
    fillAnswer();
}

// ---- inputs ----

function choose(key, value) {
    const [least, most] = rangeOf(key);
    chosen[key] = Math.max(least, Math.min(Math.round(Number(value) || least), most));
    find(key).value = find(`${key}-number`).value = chosen[key];
    update();
}

// The inputs have the limits of the GPU.
function setRanges() {
    for (const { key } of plots) {
        const [least, most, step] = rangeOf(key);
        for (const input of [find(key), find(`${key}-number`)]) {
            input.min = least;
            input.max = most;
            input.step = input.type === "range" ? step : 1;
        }
    }
}

function chooseGpu(name) {
    gpu = data.gpus.find(one => one.name === name) || data.gpus[0];
    table = data.tables[gpu.table];
    find("gpu").value = gpu.name;
    document.title = find("title").textContent = `${gpu.title}: blocks on an SM`;
    setRanges();
    for (const { key } of plots)
        choose(key, chosen[key]);
}

function chooseCarveout(text) {
    carveout = text === "" || !(Number(text) >= 0) ? -1 : Math.min(100, Math.round(Number(text)));
    find("carveout").value = carveout < 0 ? "" : carveout;
    update();
}

function chooseCluster(size) {
    cluster = clusterSizes.includes(Number(size)) ? Number(size) : 0;
    find("cluster").value = String(cluster);
    update();
}

function addChoice(select, value, text) {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    select.append(option);
}

function fillChoices() {
    for (const { name, title, assumed } of data.gpus)
        addChoice(find("gpu"), name, `${title} (${name}${assumed ? "" : ", measured"})`);
    addChoice(find("cluster"), "0", "none");
    for (const size of clusterSizes)
        addChoice(find("cluster"), String(size), `${size} blocks`);
    find("gpu").onchange = () => chooseGpu(find("gpu").value);
    find("carveout").onchange = () => chooseCarveout(find("carveout").value);
    find("cluster").onchange = () => chooseCluster(find("cluster").value);
}

function listenTo(key, number) {
    for (const input of [find(key), find(`${key}-number`)])
        input.oninput = () => choose(key, input.value);
    const canvas = find(`plot${number}`);
    canvas.onpointermove = event => {
        const scales = scalesOf(canvas, key), box = canvas.getBoundingClientRect(), tip = find("tip");
        const [low, high, wide] = rangeOf(key), at = low + (event.clientX - box.left - margin.left) / scales.width * (high - low);
        const value = Math.max(low, Math.min(low + Math.round((at - low) / wide) * wide, high)), { by, blocks } = limitsOf({ ...chosen, [key]: value });
        tip.hidden = false;
        tip.replaceChildren(line(`${value.toLocaleString("en-US")}: ${blocks} block${blocks === 1 ? "" : "s"}`),
            ...data.curves.map((curve, i) => line(`by ${curve.name}: ${by[i] >= 10000 ? "no limit" : by[i]}`)));
        tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6)}px`;
        tip.style.top = `${event.clientY + 14}px`;
        if (event.buttons & 1)
            choose(key, value);
    };
    canvas.onpointerleave = () => find("tip").hidden = true;
    canvas.onpointerdown = canvas.onpointermove;
}

function setTheme(wanted) {
    theme = wanted;
    document.documentElement.classList.toggle("dark", theme === "dark");
    find("theme").textContent = theme === "dark" ? "light" : "dark";
    if (data)
        update();
}

async function begin() {
    setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    if (typeof DecompressionStream === "undefined")
        return void (find("message").textContent = "This browser cannot decompress data (DecompressionStream). Chrome 80, Firefox 113 and Safari 16.4 can.");
    data = parseScene(await inflate(bytesOfBase64(document.querySelector("script.gridsmith").textContent)));
    find("message").textContent = "the thick line: how many blocks fit; the others: how many each resource allows. Drag in a plot, or change a number.";
    plots.forEach(({ key }, number) => listenTo(key, number));
    Object.assign(chosen, { threads: data.threads, registers: data.registers, shared: data.shared_bytes });
    fillChoices();
    chooseGpu(data.gpus[0].name);
    chooseCarveout(data.carveout < 0 ? "" : String(data.carveout));
    chooseCluster(data.cluster);
    find("theme").onclick = () => setTheme(theme === "dark" ? "light" : "dark");
    new ResizeObserver(update).observe(find("plots"));
    window.gridsmith = { state: { isReady: true }, limitsOf, clustersOf, choose, chooseGpu, chooseCarveout, chooseCluster, chosen, data };
}

begin();
