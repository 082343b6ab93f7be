// cells.js: what is on an SM in each pixel column.
//
// A column says which classes of launches take most of the SM in its time (up to four: `kinds`, with the share of the SM
// that each takes, `shares`), how much of each resource is in use, and whether a block differs from the other layer.
// Columns are computed from the blocks. Where that is too much for a frame, they come from a pyramid: columns of a
// window of time at several widths, each half as many as those below.

const noClass = 65535, most = 4, pyramidColumns = 8192, mostScanned = 120000;
const means = ["shares", "warps", "registers", "shared", "slots"];

function makeColumns(count) {
    return { count, kinds: new Uint16Array(most * count), shares: new Float32Array(most * count), warps: new Float32Array(count),
        registers: new Float32Array(count), shared: new Float32Array(count), slots: new Float32Array(count), differs: new Uint8Array(count) };
}

function emptyColumns(columns) {
    columns.kinds.fill(noClass);
    columns.differs.fill(0);
    for (const name of means)
        columns[name].fill(0);
}

// Adds a share of a class to column `x`. If all places are taken, it replaces a smaller one.
function addShare(columns, x, kind, share) {
    const { kinds, shares } = columns;
    let least = most * x;
    for (let i = most * x; i < most * x + most; i++) {
        if (kinds[i] === kind || kinds[i] === noClass) {
            kinds[i] = kind;
            shares[i] += share;
            return;
        }
        if (shares[i] < shares[least])
            least = i;
    }
    if (share > shares[least]) {
        kinds[least] = kind;
        shares[least] = share;
    }
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

function columnsOfSm(scene, layer, sm, from, step, out) {
    columnsOfSms(scene, layer, [sm], from, step, out);
}

// The columns of some SMs together from `from`, each `step` wide: means.
function columnsOfSms(scene, layer, sms, from, step, out) {
    const count = out.count, part = 1 / sms.length;
    prepareScratch(count);
    emptyColumns(out);
    for (const sm of sms)
        countBlocks(scene, layer, sm, from, step, out);
    for (; scratch.used > 0; scratch.used--) {
        const { kind, sums, first, last } = scratch.counters[scratch.used - 1], of = scene.classes[kind];
        scratch.counterOf[kind] = undefined;
        for (let x = first, sum = 0; x < count && x <= last; x++) {
            sum += sums[x];
            if (sum < 1e-6)
                continue;
            const mean = sum * part;
            addShare(out, x, kind, mean * of.share);
            out.warps[x] += mean * of.warps;
            out.registers[x] += mean * of.registers;
            out.shared[x] += mean * of.shared;
            out.slots[x] += mean * of.slots;
        }
        sums.fill(0, first, last + 2);
    }
}

// ---- pyramids ----

// Columns in bytes: 255 is all of an SM.
function makeLevel(count) {
    const level = { count, kinds: new Uint16Array(most * count).fill(noClass), differs: new Uint8Array(count) };
    for (const name of means)
        level[name] = new Uint8Array(name === "shares" ? most * count : count);
    return level;
}

function keepColumns(columns, level) {
    level.kinds.set(columns.kinds);
    level.differs.set(columns.differs);
    for (const name of means) {
        const from = columns[name], to = level[name];
        for (let i = 0; i < from.length; i++)
            to[i] = Math.min(Math.ceil(from[i] * 255), 255);
    }
}

const mixed = makeColumns(1);

// Stores the mean of the columns of `fine` from `first` to before `last`, times `scale`, as column `at` of `out`.
function mixColumns(fine, first, last, out, at, scale) {
    const part = scale / (last - first);
    let warps = 0, registers = 0, shared = 0, slots = 0, differs = 0;
    mixed.kinds.fill(noClass);
    mixed.shares.fill(0);
    for (let i = first; i < last; i++) {
        for (let j = most * i; j < most * i + most && fine.kinds[j] !== noClass; j++)
            addShare(mixed, 0, fine.kinds[j], fine.shares[j]);
        warps += fine.warps[i];
        registers += fine.registers[i];
        shared += fine.shared[i];
        slots += fine.slots[i];
        if (fine.differs[i] > differs)
            differs = fine.differs[i];
    }
    for (let j = 0; j < most; j++) {
        out.kinds[most * at + j] = mixed.kinds[j];
        out.shares[most * at + j] = mixed.shares[j] * part;
    }
    out.warps[at] = warps * part;
    out.registers[at] = registers * part;
    out.shared[at] = shared * part;
    out.slots[at] = slots * part;
    out.differs[at] = differs;
}

// Half as many columns.
function halve(fine) {
    const coarse = makeLevel(fine.count >> 1);
    for (let i = 0; i < coarse.count; i++)
        mixColumns(fine, 2 * i, 2 * i + 2, coarse, i, 1);
    return coarse;
}

// A pyramid of a window of time. The levels of an SM are made when they are asked for.
function makePyramid(scene, layer, from, to) {
    return { from, to, step: (to - from) / pyramidColumns, columns: makeColumns(pyramidColumns),
        sms: new Array(scene.gpu.sms), ready: 0, total: null };
}

function levelsOf(scene, layer, pyramid, sm) {
    if (!pyramid.sms[sm]) {
        columnsOfSm(scene, layer, sm, pyramid.from, pyramid.step, pyramid.columns);
        const levels = [makeLevel(pyramidColumns)];
        keepColumns(pyramid.columns, levels[0]);
        while (levels[levels.length - 1].count > 32)
            levels.push(halve(levels[levels.length - 1]));
        pyramid.sms[sm] = levels;
        pyramid.ready++;
    }
    return pyramid.sms[sm];
}

// Uses the level whose columns are as wide as requested, or up to twice as wide, so that no column is lost.
function columnsOfPyramid(scene, layer, pyramid, sm, from, step, out) {
    const levels = levelsOf(scene, layer, pyramid, sm);
    let number = 0;
    while (number + 1 < levels.length && pyramid.step * (1 << number) < step * 0.999)
        number++;
    const level = levels[number], width = pyramid.step * (1 << number), scale = 1 / 255;
    emptyColumns(out);
    for (let x = 0; x < out.count; x++) {
        const at = Math.floor((from + (x + 0.5) * step - pyramid.from) / width);
        if (at < 0 || at >= level.count)
            continue;
        for (let i = most * at, j = most * x; i < most * at + most && level.kinds[i] !== noClass; i++, j++) {
            out.kinds[j] = level.kinds[i];
            out.shares[j] = level.shares[i] * scale;
        }
        out.warps[x] = level.warps[at] * scale;
        out.registers[x] = level.registers[at] * scale;
        out.shared[x] = level.shared[at] * scale;
        out.slots[x] = level.slots[at] * scale;
        out.differs[x] = level.differs[at];
    }
}

// The sums of the resources of all SMs, at the finest level, once the levels of all SMs are there.
function totalOf(scene, pyramid) {
    if (!pyramid.total && new Set(scene.alike).size === pyramid.ready) {
        pyramid.total = {};
        for (const name of ["warps", "registers", "shared", "slots"]) {
            const sums = pyramid.total[name] = new Float32Array(pyramidColumns);
            for (let sm = 0; sm < scene.gpu.sms; sm++) {
                const from = pyramid.sms[scene.alike[sm]][0][name];
                for (let i = 0; i < pyramidColumns; i++)
                    sums[i] += from[i];
            }
        }
    }
    return pyramid.total;
}

// The resources of the GPU in a view, from the finest level of a pyramid: means over the columns asked for.
function resourcesOfTotal(scene, pyramid, from, step, out) {
    for (const name of ["warps", "registers", "shared", "slots"]) {
        const sums = pyramid.total[name], values = out[name];
        for (let x = 0; x < out.count; x++) {
            const at = (from + x * step - pyramid.from) / pyramid.step, last = Math.min(Math.ceil(at + step / pyramid.step), pyramidColumns);
            let sum = 0, count = 0;
            for (let i = Math.max(Math.floor(at), 0); i < last; i++, count++)
                sum += sums[i];
            values[x] = count ? sum / count / 255 / scene.gpu.sms : 0;
        }
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
        for (let j = most * x; j < most * x + most && sm.kinds[j] !== noClass; j++)
            addShare(row, x, sm.kinds[j], sm.shares[j]);
        row.warps[x] += sm.warps[x];
        row.registers[x] += sm.registers[x];
        row.shared[x] += sm.shared[x];
        row.slots[x] += sm.slots[x];
        if (sm.differs[x] > row.differs[x])
            row.differs[x] = sm.differs[x];
    }
}

// The same, without classes.
function addResources(row, sm) {
    for (const name of ["warps", "registers", "shared", "slots"]) {
        const to = row[name], from = sm[name];
        for (let x = 0; x < to.length; x++)
            to[x] += from[x];
    }
}

function divideColumns(row, by) {
    for (const name of means)
        for (let x = 0; x < row[name].length; x++)
            row[name][x] /= by;
}
