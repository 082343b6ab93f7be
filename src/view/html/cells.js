// cells.js: what is on an SM in each pixel column.
//
// A column says which classes of launches take most of the SM in its time (`k1`, `k2`, with the share of the SM that
// they take, `f1`, `f2`), how much of each resource is in use, and whether a block differs from the other layer.
// Columns are computed from the blocks. Where that is too much for a frame, they come from a pyramid: columns of a
// window of time at several widths, each half as many as those below.

const noClass = 65535, pyramidColumns = 8192, mostScanned = 120000;

function makeColumns(count) {
    return { count, k1: new Uint16Array(count), k2: new Uint16Array(count), f1: new Float32Array(count),
        f2: new Float32Array(count), warps: new Float32Array(count), registers: new Float32Array(count),
        shared: new Float32Array(count), slots: new Float32Array(count), differs: new Uint8Array(count) };
}

// Counters of the classes that are in view: `sums` of differences from column to column, used from `first` to `last`.
const scratch = { width: 0, counters: [], used: 0, counterOf: [] };

function prepareScratch(width) {
    if (scratch.width < width + 2) {
        scratch.width = width + 2;
        scratch.counters = [];
        scratch.counterOf = [];
    }
}

function newCounter(kind) {
    if (scratch.used === scratch.counters.length)
        scratch.counters.push({ kind, sums: new Float64Array(scratch.width), first: 0, last: 0 });
    const counter = scratch.counters[scratch.used++];
    counter.kind = kind;
    counter.first = Infinity;
    counter.last = 0;
    scratch.counterOf[kind] = counter;
    return counter;
}

// The number of the first block of the SM that may last beyond `time`, and of the first that starts at or after `to`.
function firstLasting(layer, sm, time) {
    let i = layer.first[sm];
    const last = layer.first[sm + 1];
    while (i < last) {
        if (layer.end[i] > time)
            return i;
        i = (i & 63) === 0 && layer.maxEnd[i >> 6] <= time ? i + 64 : i + 1;
    }
    return last;
}

function firstStarting(layer, sm, to) {
    let low = layer.first[sm], high = layer.first[sm + 1];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (layer.start[middle] < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Adds `end - begin` columns of one block to sums of differences, so that a long block costs no more than a short one.
function addSpan(counter, begin, end) {
    const first = Math.floor(begin), last = Math.floor(end), sums = counter.sums;
    if (first < counter.first)
        counter.first = first;
    if (last >= counter.last)
        counter.last = last + 1;
    if (first === last) {
        sums[first] += end - begin;
        sums[first + 1] -= end - begin;
        return;
    }
    const part = first + 1 - begin, rest = end - last;
    sums[first] += part;
    sums[first + 1] += 1 - part;
    sums[last] += rest - 1;
    sums[last + 1] -= rest;
}

// Counts the blocks of each class in each column.
function countBlocks(scene, layer, sm, from, step, out) {
    const count = out.count, to = from + step * count, { start, end, launch, difference } = layer;
    const last = firstStarting(layer, sm, to), maxEnd = layer.maxEnd, { counterOf } = scratch, { classOf } = scene;
    for (let i = firstLasting(layer, sm, from); i < last; i++) {
        if ((i & 63) === 0 && maxEnd[i >> 6] < from) {
            i += 63;
            continue;
        }
        if (end[i] < from || (end[i] === from && start[i] < from))
            continue;
        const begin = Math.max((start[i] - from) / step, 0);
        const stop = Math.min(Math.max((end[i] - from) / step, begin), count - 1e-9);
        const kind = classOf[launch[i]];
        addSpan(counterOf[kind] || newCounter(kind), begin, stop);
        if (difference && difference[i] > 0)
            for (let x = Math.floor(begin), most = Math.max(Math.ceil(stop), x + 1); x < most; x++)
                out.differs[x] = Math.max(out.differs[x], difference[i]);
    }
}

// The columns of one SM from `from`, each `step` wide.
function columnsOfSm(scene, layer, sm, from, step, out) {
    const count = out.count;
    prepareScratch(count);
    out.k1.fill(noClass);
    out.k2.fill(noClass);
    for (const name of ["f1", "f2", "warps", "registers", "shared", "slots", "differs"])
        out[name].fill(0);
    countBlocks(scene, layer, sm, from, step, out);
    for (; scratch.used > 0; scratch.used--) {
        const { kind, sums, first, last } = scratch.counters[scratch.used - 1], of = scene.classes[kind];
        scratch.counterOf[kind] = undefined;
        for (let x = first, sum = 0; x < count && x <= last; x++) {
            sum += sums[x];
            if (sum < 1e-6)
                continue;
            const share = sum * of.share;
            if (share > out.f1[x]) {
                out.k2[x] = out.k1[x];
                out.f2[x] = out.f1[x];
                out.k1[x] = kind;
                out.f1[x] = share;
            } else if (share > out.f2[x]) {
                out.k2[x] = kind;
                out.f2[x] = share;
            }
            out.warps[x] += sum * of.warps;
            out.registers[x] += sum * of.registers;
            out.shared[x] += sum * of.shared;
            out.slots[x] += sum * of.slots;
        }
        sums.fill(0, first, last + 2);
    }
}

// ---- pyramids ----

const eighths = ["f1", "f2", "warps", "registers", "shared", "slots"];

function makeLevel(count) {
    const level = { count, k1: new Uint16Array(count), k2: new Uint16Array(count), differs: new Uint8Array(count) };
    for (const name of eighths)
        level[name] = new Uint8Array(count);
    return level;
}

function keepColumns(columns, level) {
    level.k1.set(columns.k1);
    level.k2.set(columns.k2);
    level.differs.set(columns.differs);
    for (const name of eighths) {
        const from = columns[name], to = level[name];
        for (let i = 0; i < from.length; i++)
            to[i] = Math.min(Math.ceil(from[i] * 255), 255);
    }
}

// Half as many columns: means, and of the classes those with the largest sums.
function halve(fine) {
    const coarse = makeLevel(fine.count >> 1);
    for (let i = 0; i < coarse.count; i++)
        mixColumns(fine, 2 * i, 2 * i + 2, coarse, i, 1);
    return coarse;
}

// Of the columns of `fine` from `first` to before `last`: their mean, times `scale`, as column `at` of `out`.
function mixColumns(fine, first, last, out, at, scale) {
    let k1 = noClass, k2 = noClass, f1 = 0, f2 = 0, warps = 0, registers = 0, shared = 0, slots = 0, differs = 0;
    for (let i = first; i < last; i++) {
        for (let pass = 0; pass < 2; pass++) {
            const kind = pass ? fine.k2[i] : fine.k1[i], share = pass ? fine.f2[i] : fine.f1[i];
            if (kind === noClass)
                break;
            if (kind === k1)
                f1 += share;
            else if (kind === k2)
                f2 += share;
            else if (k1 === noClass)
                k1 = kind, f1 = share;
            else if (share > f2)
                k2 = kind, f2 = share;
        }
        warps += fine.warps[i];
        registers += fine.registers[i];
        shared += fine.shared[i];
        slots += fine.slots[i];
        differs = Math.max(differs, fine.differs[i]);
    }
    const part = scale / (last - first), swap = f2 > f1;
    out.k1[at] = swap ? k2 : k1;
    out.k2[at] = swap ? k1 : k2;
    out.f1[at] = (swap ? f2 : f1) * part;
    out.f2[at] = (swap ? f1 : f2) * part;
    out.warps[at] = warps * part;
    out.registers[at] = registers * part;
    out.shared[at] = shared * part;
    out.slots[at] = slots * part;
    out.differs[at] = differs;
}

// A pyramid of a window of time. The levels of an SM are made when they are asked for.
function makePyramid(scene, layer, from, to) {
    return { from, to, step: (to - from) / pyramidColumns, columns: makeColumns(pyramidColumns),
        sms: new Array(scene.gpu.sms) };
}

function levelsOf(scene, layer, pyramid, sm) {
    if (!pyramid.sms[sm]) {
        columnsOfSm(scene, layer, sm, pyramid.from, pyramid.step, pyramid.columns);
        const levels = [makeLevel(pyramidColumns)];
        keepColumns(pyramid.columns, levels[0]);
        while (levels[levels.length - 1].count > 32)
            levels.push(halve(levels[levels.length - 1]));
        pyramid.sms[sm] = levels;
    }
    return pyramid.sms[sm];
}

function columnsOfPyramid(scene, layer, pyramid, sm, from, step, out) {
    const levels = levelsOf(scene, layer, pyramid, sm);
    let number = 0;
    while (number + 1 < levels.length && pyramid.step * (2 << number) <= step)
        number++;
    const level = levels[number], width = pyramid.step * (1 << number);
    for (let x = 0; x < out.count; x++) {
        const at = (from + x * step - pyramid.from) / width;
        const first = Math.floor(at), last = Math.max(Math.min(Math.floor(at + step / width), first + 3), first + 1);
        if (first < 0 || first >= level.count) {
            out.k1[x] = out.k2[x] = noClass;
            out.f1[x] = out.f2[x] = out.warps[x] = out.registers[x] = out.shared[x] = out.slots[x] = out.differs[x] = 0;
            continue;
        }
        mixColumns(level, first, Math.min(last, level.count), out, x, 1 / 255);
    }
}

// How many blocks are in a window of time, at most: those that start in it, and those that started shortly before.
function blocksBetween(scene, layer, from, to) {
    let count = 0;
    for (let sm = 0; sm < scene.gpu.sms; sm++)
        count += firstStarting(layer, sm, to) - firstStarting(layer, sm, from);
    return count;
}

// Chooses how columns are made for a view: from the blocks (null), or from a pyramid.
function chooseSource(scene, layer, from, step, count) {
    const to = from + step * count;
    if (layer.count <= mostScanned || blocksBetween(scene, layer, from, to) <= mostScanned)
        return null;
    layer.pyramid = layer.pyramid || makePyramid(scene, layer, scene.from, scene.to);
    if (layer.pyramid.step <= step * 1.01)
        return layer.pyramid;
    const near = layer.nearby;
    if (!near || near.from > from || near.to < to || near.step > step * 1.01)
        layer.nearby = makePyramid(scene, layer, from - step * count, to + step * count);
    return layer.nearby;
}

// Fills in the columns of an SM. If `mayBuild` is false and its levels of the pyramid are not there yet, coarser ones
// are taken, or none; then it returns false.
function columnsOf(scene, layer, source, sm, from, step, out, mayBuild) {
    const isReady = !source || mayBuild || source.sms[sm];
    if (!source)
        columnsOfSm(scene, layer, sm, from, step, out);
    else if (isReady || (layer.pyramid && layer.pyramid.sms[sm]))
        columnsOfPyramid(scene, layer, isReady ? source : layer.pyramid, sm, from, step, out);
    else
        emptyColumns(out);
    return Boolean(isReady);
}

// ---- rows of several SMs ----

// Adds the columns of an SM to those of a row of several.
function addColumns(row, sm) {
    for (let x = 0; x < row.count; x++) {
        for (let pass = 0; pass < 2; pass++) {
            const kind = pass ? sm.k2[x] : sm.k1[x], share = pass ? sm.f2[x] : sm.f1[x];
            if (kind === noClass)
                break;
            if (kind === row.k1[x])
                row.f1[x] += share;
            else if (kind === row.k2[x])
                row.f2[x] += share;
            else if (row.k1[x] === noClass)
                row.k1[x] = kind, row.f1[x] = share;
            else if (share > row.f2[x])
                row.k2[x] = kind, row.f2[x] = share;
        }
        row.warps[x] += sm.warps[x];
        row.registers[x] += sm.registers[x];
        row.shared[x] += sm.shared[x];
        row.slots[x] += sm.slots[x];
        row.differs[x] = Math.max(row.differs[x], sm.differs[x]);
    }
}

function emptyColumns(row) {
    row.k1.fill(noClass);
    row.k2.fill(noClass);
    for (const name of ["f1", "f2", "warps", "registers", "shared", "slots", "differs"])
        row[name].fill(0);
}

function divideColumns(row, by) {
    for (const name of eighths)
        for (let x = 0; x < row.count; x++)
            row[name][x] /= by;
}
