/*
 * playing.cuh: the host plays a plan: it makes streams, graphs and green contexts, launches each kernel at the
 * beginning of its slot, and reads the notes of the blocks at the end.
 */
#pragma once

#include "plan.cuh"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <ctime>

enum {
    MOST_NOTES = 1 << 17,
    STREAMS = 96,
    GREEN_STREAMS = 32, /* of each green context */
    MOST_CHILDREN = 64,
    EARLIER_NS = 1000000 /* the clocks of host and GPU are not exactly alike */
};

struct machine {
    cudaStream_t streams[STREAMS], green_streams[GREENS][GREEN_STREAMS];
    std::vector<int> green_sms[GREENS]; /* empty: the contexts are not made yet */
    note *notes;                        /* on the GPU */
    std::vector<note> seen;
    uint32_t *words, *sink;
    uint64_t *base;  /* on the GPU */
    child *children; /* on the GPU, of the one kernel of a run that has some */
    int child_count, parent_registers;
    char *to, *from;         /* of copies, on the GPU */
    void *host;              /* of copies */
    volatile uint64_t *told; /* by tell_time, in host memory */
    uint64_t *told_device;
    double slot_us = 100;
    int least, greatest; /* priorities */
};

static uint64_t host_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void open_machine(machine &m) {
    check(cudaSetDevice(0), "no GPU");
    check(cudaDeviceGetStreamPriorityRange(&m.least, &m.greatest), "priorities");
    for (auto &stream : m.streams)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check(cudaMalloc(&m.notes, MOST_NOTES * sizeof(note)), "memory");
    check(cudaMalloc(&m.words, 1 << 16), "memory");
    check(cudaMemset(m.words, 0, 1 << 16), "memory");
    m.sink = m.words + (1 << 14) - 1;
    check(cudaMalloc(&m.base, sizeof *m.base), "memory");
    check(cudaMalloc(&m.children, MOST_CHILDREN * sizeof *m.children), "memory");
    check(cudaMalloc(&m.to, MOST_BYTES), "memory");
    check(cudaMalloc(&m.from, MOST_BYTES), "memory");
    check(cudaHostAlloc(&m.host, MOST_BYTES, cudaHostAllocDefault), "host memory");
    uint64_t *host;
    check(cudaHostAlloc(&host, 64, cudaHostAllocMapped), "host memory");
    m.told = host;
    check(cudaHostGetDevicePointer(&m.told_device, host, 0), "host memory");
    cudaFuncAttributes facts;
#ifdef CHILDREN
    check(cudaFuncGetAttributes(&facts, parent), "kernel");
    m.parent_registers = facts.numRegs;
#endif
    for (variant &v : variants) {
        check(cudaFuncGetAttributes(&facts, v.kernel), "kernel");
        v.registers = facts.numRegs;
        check(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   232448 - (int)facts.sharedSizeBytes),
              "shared memory");
        check(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "cluster");
    }
}

/* The clock of the GPU minus that of the host. */
static int64_t find_offset(machine &m) {
    int64_t best = 0, best_took = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        *m.told = 0;
        uint64_t before = host_clock();
        tell_time<<<1, 1, 0, m.streams[0]>>>(m.told_device);
        while (!*m.told)
            ;
        uint64_t after = host_clock();
        if ((int64_t)(after - before) < best_took) {
            best_took = (int64_t)(after - before);
            best = (int64_t)*m.told - (int64_t)((before + after) / 2);
        }
        check(cudaDeviceSynchronize(), "clock");
    }
    return best;
}

static const variant &variant_of(const kernel &k) {
    for (const variant &v : variants)
        if (v.live >= k.live)
            return v;
    fail("too many live words", k.name);
}

struct timing {
    uint64_t base_ns; /* of slot 0, on the GPU's clock */
    double slot_us;
    uint64_t since_base(int slot) const {
        return (uint64_t)(slot * slot_us * 1000);
    }
    uint64_t at(int slot) const {
        return base_ns + since_base(slot);
    }
};

static orders orders_of(const machine &m, const plan &p, const kernel &k, const timing &t) {
    orders told = {};
    told.notes = m.notes + k.notes;
    told.words = m.words;
    told.sink = m.sink;
    told.trigger = k.trigger;
    told.base_ns = m.base;
    told.exit_ns = t.since_base(k.exits >= 0 ? k.exits : (int)p.events.size() + 1);
    told.trigger_ns = k.triggers >= 0 ? t.since_base(k.triggers) : UINT64_MAX / 2;
    told.run_ns = (uint64_t)(k.us * 1000);
    told.spread_ns = (uint64_t)(k.spread * 1000);
    return told;
}

static bool is_parent(const plan &p, const kernel &k) {
    for (const kernel &other : p.kernels)
        if (other.by == k.name)
            return true;
    return false;
}

static cudaStream_t stream_of(const machine &m, const plan &p, int number) {
    const kernel &k = p.kernels[number];
    if (k.green >= 0)
        return m.green_streams[k.green][number % GREEN_STREAMS];
    if (k.stream == "-")
        return m.streams[16 + number % (STREAMS - 16)];
    return m.streams[atoi(k.stream.c_str()) % 16];
}

#ifdef CHILDREN
/* Sends the children of a kernel, in the order of their launches, to the GPU. Returns how many there are. */
static int send_children(machine &m, const plan &p, const kernel &parent, const timing &t) {
    std::vector<child> children;
    for (const event &e : p.events) {
        const kernel &k = p.kernels[e.kernels[0]];
        if (e.op != "launch" || k.by != parent.name)
            continue;
        child c = {};
        c.live = k.live;
        std::copy(k.grid, k.grid + 3, c.grid);
        std::copy(k.block, k.block + 3, c.block);
        c.shared = (unsigned)k.shared;
        c.at_ns = t.since_base(k.launched);
        c.told = orders_of(m, p, k, t);
        children.push_back(c);
    }
    if (children.size() > MOST_CHILDREN)
        fail("too many children", parent.name);
    check(cudaMemcpy(m.children, children.data(), children.size() * sizeof(child), cudaMemcpyHostToDevice), "children");
    return (int)children.size();
}

static bool launch_parent(machine &m, const plan &p, int number, const orders &told) {
    parent<<<1, p.kernels[number].block[0], 0, stream_of(m, p, number)>>>(told, m.children, m.child_count);
    return cudaGetLastError() == cudaSuccess;
}
#else
static int send_children(machine &, const plan &, const kernel &parent, const timing &) {
    fail("a kernel that launches others needs -DCHILDREN", parent.name);
}

static bool launch_parent(machine &, const plan &, int, const orders &) {
    return false;
}
#endif

/* False: the driver refuses it. */
static bool launch_kernel(machine &m, const plan &p, int number, const orders &told) {
    const kernel &k = p.kernels[number];
    cudaLaunchAttribute attributes[6];
    unsigned count = 0;
    memset(attributes, 0, sizeof attributes);
    if (k.cluster > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim.x = (unsigned)k.cluster;
        attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
        count++;
    }
    if (k.cooperative) {
        attributes[count].id = cudaLaunchAttributeCooperative;
        attributes[count++].val.cooperative = 1;
    }
    if (k.programmatic) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (k.priority) {
        attributes[count].id = cudaLaunchAttributePriority;
        attributes[count++].val.priority = -abs(k.priority);
    }
    if (k.carveout >= 0) {
        attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
        attributes[count++].val.sharedMemCarveout = (unsigned)k.carveout;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(k.grid[0], k.grid[1], k.grid[2]);
    config.blockDim = dim3(k.block[0], k.block[1], k.block[2]);
    config.dynamicSmemBytes = (size_t)k.shared;
    config.stream = stream_of(m, p, number);
    config.attrs = attributes;
    config.numAttrs = count;
    cudaError_t code = cudaLaunchKernelEx(&config, variant_of(k).kernel, told);
    if (code != cudaSuccess)
        fprintf(stderr, "recorder: run %s, %s: %s\n", p.id.c_str(), k.name.c_str(),
                cudaGetErrorString(cudaGetLastError()));
    return code == cudaSuccess;
}

/* Adds a memset or copy to a graph. */
static cudaError_t add_memory(const machine &m, const kernel &k, cudaGraph_t graph,
                              const std::vector<cudaGraphNode_t> &after, cudaGraphNode_t *node) {
    if (k.memory == "memset") {
        cudaMemsetParams params = {};
        params.dst = m.to;
        params.elementSize = 4;
        params.width = (size_t)k.bytes / 4;
        params.height = 1;
        return cudaGraphAddMemsetNode(node, graph, after.data(), after.size(), &params);
    }
    bool is_in = k.memory == "host_to_device", is_out = k.memory == "device_to_host";
    return cudaGraphAddMemcpyNode1D(node, graph, after.data(), after.size(), is_out ? m.host : m.to,
                                    is_in ? m.host : m.from, (size_t)k.bytes,
                                    is_in    ? cudaMemcpyHostToDevice
                                    : is_out ? cudaMemcpyDeviceToHost
                                             : cudaMemcpyDeviceToDevice);
}

/* NULL: the driver refuses it. */
static cudaGraphExec_t make_graph(const machine &m, const plan &p, const event &e, const timing &t) {
    cudaGraph_t graph;
    cudaGraphExec_t ready = nullptr;
    std::map<std::string, cudaGraphNode_t> nodes;
    cudaError_t code = cudaGraphCreate(&graph, 0);
    for (int number : e.kernels) {
        const kernel &k = p.kernels[number];
        orders told = orders_of(m, p, k, t);
        void *arguments[] = {&told};
        cudaKernelNodeParams params = {};
        params.func = (void *)variant_of(k).kernel;
        params.gridDim = dim3(k.grid[0], k.grid[1], k.grid[2]);
        params.blockDim = dim3(k.block[0], k.block[1], k.block[2]);
        params.sharedMemBytes = (unsigned)k.shared;
        params.kernelParams = arguments;
        std::vector<cudaGraphNode_t> after;
        for (const std::string &name : k.after)
            after.push_back(nodes.at(name));
        if (code == cudaSuccess && !k.memory.empty())
            code = add_memory(m, k, graph, after, &nodes[k.name]);
        else if (code == cudaSuccess)
            code = cudaGraphAddKernelNode(&nodes[k.name], graph, after.data(), after.size(), &params);
    }
    if (code == cudaSuccess)
        code = cudaGraphInstantiate(&ready, graph, 0);
    check(cudaGraphDestroy(graph), "graph");
    if (code == cudaSuccess)
        check(cudaGraphUpload(ready, m.streams[15]), "upload");
    else
        fprintf(stderr, "recorder: run %s, graph %d: %s\n", p.id.c_str(), e.graph,
                cudaGetErrorString(cudaGetLastError()));
    return ready;
}

/* ---- green contexts ---- */

/* A function of the driver, which need not be there to build. */
template <typename function> static function find_driver(function, const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    check(cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result), name);
    if (!found)
        fail("the driver has no", name);
    return (function)found;
}

#define DRIVER(name, ...) check_driver(find_driver((decltype(&name))nullptr, #name)(__VA_ARGS__), #name)

static void check_driver(CUresult code, const char *what) {
    if (code != CUDA_SUCCESS)
        fail(what, "error " + std::to_string((int)code));
}

/* The SMs of a context: those on which any of many short blocks ran. */
static std::vector<int> find_sms(machine &m, cudaStream_t stream) {
    enum { BLOCKS = 2048, SHORT_NS = 20000, MOST_SMS = 1024 };
    orders told = {};
    std::vector<note> notes(BLOCKS);
    std::vector<int> sms;
    bool has[MOST_SMS] = {};
    told.notes = m.notes;
    told.words = m.words;
    told.sink = m.sink;
    told.base_ns = m.base;
    told.run_ns = SHORT_NS;
    hold<0><<<BLOCKS, 512, 0, stream>>>(told);
    check(cudaStreamSynchronize(stream), "the SMs of a green context");
    check(cudaMemcpy(notes.data(), m.notes, BLOCKS * sizeof(note), cudaMemcpyDeviceToHost), "notes");
    for (const note &n : notes)
        has[n.sm % MOST_SMS] = true;
    for (int sm = 0; sm < MOST_SMS; sm++)
        if (has[sm])
            sms.push_back(sm);
    return sms;
}

/* Makes the contexts and their streams: a quarter of the SMs each, in the pieces that the driver deals out. */
static void make_greens(machine &m) {
    CUdevResource all, parts[GREENS], rest;
    unsigned count = GREENS;
    DRIVER(cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM);
    DRIVER(cuDevSmResourceSplitByCount, parts, &count, &all, &rest, 0, all.sm.smCount / GREENS / 8 * 8);
    if (count < GREENS)
        fail("too few parts for green contexts", std::to_string(count));
    for (int i = 0; i < GREENS; i++) {
        CUdevResourceDesc description;
        CUgreenCtx context;
        DRIVER(cuDevResourceGenerateDesc, &description, &parts[i], 1);
        DRIVER(cuGreenCtxCreate, &context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
        for (cudaStream_t &stream : m.green_streams[i])
            DRIVER(cuGreenCtxStreamCreate, (CUstream *)&stream, context, CU_STREAM_NON_BLOCKING, 0);
        m.green_sms[i] = find_sms(m, m.green_streams[i][0]);
    }
}

/* ---- runs ---- */

enum outcome { PLAYED, LATE_HOST, REFUSED };

static outcome play(machine &m, plan &p, timing &t) {
    size_t notes = 0;
    for (kernel &k : p.kernels) {
        k.notes = notes;
        notes += k.blocks();
    }
    if (notes > MOST_NOTES)
        fail("too many blocks", p.id);
    for (const kernel &k : p.kernels)
        if (k.green >= 0 && m.green_sms[0].empty())
            make_greens(m);
    check(cudaMemset(m.notes, 0, notes * sizeof(note)), "memset");
    t.slot_us = m.slot_us;
    for (const kernel &k : p.kernels)
        if (is_parent(p, k))
            m.child_count = send_children(m, p, k, t);
    std::map<int, cudaGraphExec_t> graphs;
    for (size_t i = 0; i < p.events.size(); i++)
        if (p.events[i].graph >= 0)
            graphs[(int)i] = make_graph(m, p, p.events[i], t);
    check(cudaDeviceSynchronize(), "graphs");
    int64_t offset = find_offset(m);
    uint64_t begin_ns = host_clock() + 150000;
    t.base_ns = begin_ns + (uint64_t)offset;
    check(cudaMemcpy(m.base, &t.base_ns, sizeof t.base_ns, cudaMemcpyHostToDevice), "the beginning of a run");
    bool was_late = host_clock() > begin_ns, was_refused = false;
    for (auto &graph : graphs)
        was_refused |= !graph.second;
    for (size_t i = 0; i < p.events.size() && !was_refused; i++) {
        const event &e = p.events[i];
        if ((e.op != "launch" && e.op != "graph") || !p.kernels[e.kernels[0]].by.empty())
            continue;
        uint64_t at_ns = begin_ns + (uint64_t)(i * t.slot_us * 1000);
        while (host_clock() < at_ns)
            ;
        if (e.op == "graph")
            check(cudaGraphLaunch(graphs[(int)i], m.streams[16 + e.kernels[0] % (STREAMS - 16)]), "launch of a graph");
        else if (is_parent(p, p.kernels[e.kernels[0]]))
            was_refused = !launch_parent(m, p, e.kernels[0], orders_of(m, p, p.kernels[e.kernels[0]], t));
        else
            was_refused = !launch_kernel(m, p, e.kernels[0], orders_of(m, p, p.kernels[e.kernels[0]], t));
        was_late |= !p.is_timed && host_clock() > at_ns + (uint64_t)(t.slot_us * 500);
    }
    check(cudaDeviceSynchronize(), "the end of a run");
    for (size_t i = 0; i < p.kernels.size(); i++)
        if (p.kernels[i].green >= 0)
            check(cudaStreamSynchronize(stream_of(m, p, (int)i)), "the end of a run");
    for (auto &graph : graphs)
        if (graph.second)
            check(cudaGraphExecDestroy(graph.second), "graph");
    m.seen.resize(notes);
    check(cudaMemcpy(m.seen.data(), m.notes, notes * sizeof(note), cudaMemcpyDeviceToHost), "notes");
    return was_refused ? REFUSED : was_late ? LATE_HOST : PLAYED;
}
