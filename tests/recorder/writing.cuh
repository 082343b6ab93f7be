/*
 * writing.cuh: the notes of a run as gridsmith.run/1: which blocks had started at the end of each slot.
 */
#pragma once

#include "playing.cuh"

/* How many blocks of a kernel had started before a time. */
static uint32_t started_by(const machine &m, const kernel &k, uint64_t ns) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < k.blocks(); i++)
        count += m.seen[k.notes + i].start_ns && m.seen[k.notes + i].start_ns < ns;
    return count;
}

/* What: 0 the SM, 1 the start, 2 the end, in ns, from `from_ns` on. */
static void write_list(FILE *out, const char *key, const machine &m, const kernel &k, uint64_t before, int what,
                       uint64_t from_ns = 0) {
    fprintf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < k.blocks(); i++) {
        const note &n = m.seen[k.notes + i];
        if (n.start_ns >= before || !n.start_ns)
            fprintf(out, "%snull", i ? "," : "");
        else
            fprintf(out, "%s%llu", i ? "," : "",
                    (unsigned long long)(what == 0 ? n.sm : (what == 1 ? n.start_ns : n.end_ns) - from_ns));
    }
    fprintf(out, "]");
}

static const kernel *before_in_stream(const plan &p, const kernel &k) {
    const kernel *before = nullptr;
    for (const kernel &other : p.kernels)
        if (k.stream != "-" && other.stream == k.stream && other.launched >= 0 && other.launched < k.launched &&
            (!before || other.launched > before->launched))
            before = &other;
    return before;
}

static void write_after(FILE *out, const plan &p, const kernel &k) {
    const kernel *before = before_in_stream(p, k);
    if (k.graph >= 0 && !k.after.empty()) {
        for (size_t i = 0; i < k.after.size(); i++)
            fprintf(out, "%s\"%s\"", i ? "," : ",\"after\":[", k.after[i].c_str());
        fprintf(out, "]");
    } else if (before && k.programmatic) {
        fprintf(out, ",\"after\":[{\"id\":\"%s\",\"when\":\"%s\"}]", before->name.c_str(),
                before->trigger == NEVER || (before->trigger != EARLY && before->triggers < 0) ? "trigger" : "start");
    }
}

/* The number of a node in its graph. */
static void write_node(FILE *out, const plan &p, const kernel &k) {
    int node = 0;
    for (const kernel &other : p.kernels)
        node += &other < &k && other.graph == k.graph;
    fprintf(out, ",\"graph\":%d,\"node\":%d", k.graph, node);
}

static void write_memory(FILE *out, const plan &p, const kernel &k) {
    bool is_memset = k.memory == "memset";
    fprintf(out, "{\"op\":\"%s\",\"id\":\"%s\",\"bytes\":%d", is_memset ? "memset" : "copy", k.name.c_str(), k.bytes);
    if (!is_memset)
        fprintf(out, ",\"kind\":\"%s\"", k.memory.c_str());
    write_after(out, p, k);
    write_node(out, p, k);
    fprintf(out, "}");
}

static void write_launch(FILE *out, const machine &m, const plan &p, const kernel &k, const timing &t,
                         uint64_t before) {
    fprintf(out,
            "{\"op\":\"launch\",\"kernel\":\"%s\",\"blocks\":%u,\"threads\":%u,\"registers\":%d,\"shared_bytes\":%d",
            k.name.c_str(), k.blocks(), k.threads(), is_parent(p, k) ? m.parent_registers : variant_of(k).registers,
            k.shared);
    if (k.cluster > 1)
        fprintf(out, ",\"cluster\":%d", k.cluster);
    if (k.priority)
        fprintf(out, ",\"priority\":%d", k.priority);
    if (k.carveout >= 0)
        fprintf(out, ",\"carveout_percent\":%d", k.carveout);
    if (k.stream != "-")
        fprintf(out, ",\"stream\":\"%s\"", k.stream.c_str());
    if (k.us > 0)
        fprintf(out, ",\"duration_us\":%g", k.us);
    if (k.spread > 0)
        fprintf(out, ",\"spread_us\":%g", k.spread);
    write_after(out, p, k);
    if (k.grid[1] * k.grid[2] > 1)
        fprintf(out, ",\"grid\":[%u,%u,%u]", k.grid[0], k.grid[1], k.grid[2]);
    if (k.block[1] * k.block[2] > 1)
        fprintf(out, ",\"block\":[%u,%u,%u]", k.block[0], k.block[1], k.block[2]);
    if (k.cooperative)
        fprintf(out, ",\"cooperative\":true");
    if (k.green >= 0)
        fprintf(out, ",\"green_context\":%d", k.green);
    if (k.graph >= 0)
        write_node(out, p, k);
    write_list(out, "placed", m, k, before, 0);
    if (p.is_timed) {
        write_list(out, "start_ns", m, k, before, 1, t.base_ns - EARLIER_NS);
        write_list(out, "end_ns", m, k, before, 2, t.base_ns - EARLIER_NS);
    }
    fprintf(out, "}");
}

/* When each launch is written: at its slot, or when what it waits for has triggered it, and not before the one in front
   of it in its stream. */
static void set_written(plan &p) {
    for (const event &e : p.events)
        for (int number : e.kernels) {
            kernel &k = p.kernels[number];
            if (e.op == "exit" || e.op == "trigger")
                continue;
            const kernel *before = before_in_stream(p, k);
            k.written = k.launched;
            if (!before)
                continue;
            k.written = std::max(k.written, before->written);
            if (k.programmatic && (before->trigger == LATE || before->trigger == SOME) && before->triggers >= 0)
                k.written =
                    std::max(k.written, std::min(before->triggers, before->exits < 0 ? INT32_MAX : before->exits));
        }
}

static void write_greens(FILE *out, const machine &m, const plan &p) {
    bool has_greens = false;
    for (const kernel &k : p.kernels)
        has_greens |= k.green >= 0;
    for (int i = 0; i < GREENS && has_greens; i++) {
        fprintf(out, "%s", i ? ",[" : ",\"green_contexts\":[[");
        for (size_t sm = 0; sm < m.green_sms[i].size(); sm++)
            fprintf(out, "%s%d", sm ? "," : "", m.green_sms[i][sm]);
        fprintf(out, "%s", i == GREENS - 1 ? "]]" : "]");
    }
}

static void write_run(FILE *out, const machine &m, plan &p, const timing &t) {
    std::vector<uint32_t> shown(p.kernels.size(), 0);
    bool is_first = true;
    set_written(p);
    fprintf(out, "{\"schema\":\"gridsmith.run/1\",\"id\":%s,\"gpu\":\"h200\",\"class\":\"%s\"", p.id.c_str(),
            p.type.c_str());
    write_greens(out, m, p);
    fprintf(out, ",\"events\":[");
    for (int slot = 0; slot < (int)p.events.size(); slot++) {
        const event &e = p.events[slot];
        uint64_t past = p.is_timed ? UINT64_MAX : t.at(slot + 1);
        if (e.op == "exit") {
            const kernel &k = p.kernels[e.kernels[0]];
            if (!p.is_timed && started_by(m, k, t.at(slot)) < k.blocks())
                break;
            fprintf(out, "%s{\"op\":\"exit\",\"kernel\":\"%s\"}", is_first ? "" : ",", k.name.c_str());
            is_first = false;
        }
        for (size_t i = 0; i < p.kernels.size(); i++)
            if (p.kernels[i].written == slot) {
                fprintf(out, "%s", is_first ? "" : ",");
                if (p.kernels[i].memory.empty())
                    write_launch(out, m, p, p.kernels[i], t, past);
                else
                    write_memory(out, p, p.kernels[i]);
                shown[i] = started_by(m, p.kernels[i], past);
                is_first = false;
            }
        for (size_t i = 0; i < p.kernels.size(); i++)
            if (p.kernels[i].written >= 0 && p.kernels[i].written < slot &&
                started_by(m, p.kernels[i], past) > shown[i]) {
                shown[i] = started_by(m, p.kernels[i], past);
                fprintf(out, ",{\"op\":\"observe\",\"kernel\":\"%s\"", p.kernels[i].name.c_str());
                write_list(out, "placed", m, p.kernels[i], past, 0);
                fprintf(out, "}");
            }
    }
    fprintf(out, "]}\n");
}

static void write_times(FILE *out, const machine &m, const plan &p, const timing &t) {
    for (const kernel &k : p.kernels)
        for (uint32_t i = 0; i < k.blocks() && k.launched >= 0; i++) {
            const note &n = m.seen[k.notes + i];
            int64_t from = (int64_t)t.at(k.launched);
            fprintf(out, "%s %s %u %u %d %lld %lld\n", p.id.c_str(), k.name.c_str(), i, n.sm, k.launched,
                    (long long)((int64_t)n.start_ns - from), (long long)((int64_t)n.end_ns - from));
        }
}
