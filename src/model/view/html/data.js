// data.js: reads the data of the page: base64, deflate, JSON and arrays (src/model/view/html.h says in which order).

function bytesOfBase64(text) {
    if (Uint8Array.fromBase64)
        return Uint8Array.fromBase64(text);
    const binary = atob(text), bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++)
        bytes[i] = binary.charCodeAt(i);
    return bytes;
}

async function inflate(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
}

// Differences become sums. Their bytes are in four arrays, the lowest first; the lowest bit is the sign. 2^53 nanoseconds
// are 104 days.
function sums(bytes, count) {
    const values = new Float64Array(count), b = bytes.subarray(count), c = bytes.subarray(2 * count), d = bytes.subarray(3 * count);
    for (let i = 0, sum = 0; i < count; i++) {
        const folded = bytes[i] | b[i] << 8 | c[i] << 16 | d[i] << 24;
        values[i] = sum += folded >>> 1 ^ -(folded & 1);
    }
    return values;
}

const arrayTypes = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array };

// The JSON, with the arrays in `arrays` by name.
function parseScene(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const scene = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const arrays = {};
    let at = Math.ceil((4 + length) / 8) * 8;
    for (const { name, type, count } of scene.arrays) {
        const array = type === "delta" ? new Uint8Array(buffer, at, 4 * count) : new arrayTypes[type](buffer, at, count);
        arrays[name] = type === "delta" ? sums(array, count) : array;
        at = Math.ceil((at + array.byteLength) / 8) * 8;
    }
    scene.arrays = arrays;
    return scene;
}

// Launches of the same function and shape form a class: one of its blocks always takes the same of an SM.
function addClasses(scene) {
    const { op_function, op_shape } = scene.arrays, known = new Map();
    scene.classOf = new Uint16Array(scene.launches);
    scene.classes = [];
    for (let i = 0; i < scene.launches; i++) {
        const key = op_function[i] * 4294967296 + op_shape[i];
        let number = known.get(key);
        if (number === undefined) {
            number = Math.min(scene.classes.length, 65534);
            known.set(key, number);
            const shape = scene.shapes[op_shape[i]], gpu = scene.gpu;
            scene.classes[number] = { function: op_function[i], share: shape.share, slots: 1 / gpu.block_slots,
                warps: shape.block_warps / gpu.warps, registers: shape.block_registers / gpu.registers,
                shared: shape.block_shared_bytes / Math.max(gpu.shared_bytes, 1) };
        }
        scene.classOf[i] = number;
    }
}

// The blocks of a layer, by SM and start. `maxEnd` of 64 blocks lets a search skip those that have ended.
function makeLayer(scene, letter) {
    const arrays = scene.arrays, start = arrays[letter + "_start"];
    if (!start)
        return null;
    const count = start.length, duration = arrays[letter + "_duration"], end = new Float64Array(count);
    const first = new Uint32Array(scene.gpu.sms + 1), maxEnd = new Float64Array(Math.ceil(count / 64)).fill(-Infinity);
    for (let i = 0; i < count; i++) {
        end[i] = start[i] + duration[i];
        if (end[i] > maxEnd[i >> 6])
            maxEnd[i >> 6] = end[i];
    }
    arrays[letter + "_count"].forEach((own, sm) => first[sm + 1] = first[sm] + own);
    return { count, first, start, end, maxEnd, launch: arrays[letter + "_launch"],
        block: arrays[letter + "_block"], difference: arrays[letter + "_difference"], room: arrays[letter + "_room"],
        slots: arrays[letter + "_slots"], slot: arrays[letter + "_slot"], lanes: new Map(), warps: new Map() };
}

// A scene without its blocks.
async function readScene(element) {
    const scene = parseScene(await inflate(bytesOfBase64(element.textContent)));
    addClasses(scene);
    scene.layers = [null, null];
    return scene;
}

// The blocks, which are in the element after that of the scene.
async function readBlocks(scene, element) {
    const blocks = parseScene(await inflate(bytesOfBase64(element.nextElementSibling.textContent)));
    Object.assign(scene.arrays, blocks.arrays);
    scene.layers = [makeLayer(scene, "a"), makeLayer(scene, "b")];
}
