/*
 * recorder.cu: a second recorder of runs, which shares no code and no method with src/lab/device.
 *
 * A plan (draw.py writes plans) is a list of events. Each event has a slot, a fixed piece of time. The host launches a
 * kernel at the beginning of its slot. A block is told when it is launched at what time it has to trigger its
 * dependents and at what time it has to exit; it watches the clock of the GPU, and nobody talks to it. It notes its SM,
 * its start and its end in the memory of the GPU. When the run is over, the notes say what happened in which slot:
 * which blocks had started by then, and which had not. So nothing is polled while a run is played, and the recorder
 * need not guess how long to wait for a block that does not start. A run in which the host was late is played again.
 *
 * A plan is lines of words; `#` begins a comment:
 *
 *   run ID CLASS           begins a run
 *   kernel NAME KEY=VALUE  describes a kernel; keys, with defaults: grid=1,1,1 block=32,1,1 live=0 (words that a
 *                          thread keeps in registers) shared=0 stream=- (its own) cluster=1 cooperative=0
 *                          programmatic=0 trigger=never|early|some|late priority=0 carveout=-1 after=A,B (only nodes)
 *                          us=0 spread=0 (each block runs so long; 0: until its exit) green=-1 (of 4 contexts)
 *                          by=NAME (the kernel that launches it, of one block; needs -DCHILDREN -rdc=true)
 *   memory NAME KEY=VALUE  describes a memset or copy, which can only be a node; keys: bytes=4 after=A,B
 *                          kind=memset|host_to_device|device_to_host|device_to_device
 *   launch NAME            launches it into its stream
 *   graph N NAME ...       makes a graph with these nodes, in this order, and launches it
 *   trigger NAME           the blocks with trigger=late, and every second one with trigger=some, trigger
 *   exit NAME              its blocks exit
 *   end                    plays the run
 *
 * Output is gridsmith.run/1. A launch that waits for a trigger is written where the trigger comes, because the format
 * has no events for triggers; so are those behind it in its stream. A run is written up to the exit of a kernel of
 * which not all blocks have started. `--check` only reads the plans. `--times FILE` also writes, for each block, the
 * run, the kernel, the block, the SM, the slot of its launch, and its start and end in ns since the beginning of that
 * slot.
 */
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

static void check(cudaError_t code, const char *what) {
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "recorder: %s: %s\n", what, cudaGetErrorString(code));
    exit(3);
}

[[noreturn]] static void fail(const std::string &what, const std::string &word) {
    fprintf(stderr, "recorder: %s: %s\n", what.c_str(), word.c_str());
    exit(2);
}

/* ---- on the GPU ---- */

struct note {
    uint64_t start_ns, end_ns; /* 0: not yet */
    uint32_t sm;
};

enum trigger_mode { NEVER, EARLY, SOME, LATE };

struct orders {
    note *notes;
    const uint32_t *words; /* to be kept in registers */
    uint32_t *sink;
    const uint64_t *base_ns;                         /* the beginning of slot 0, on the GPU's clock */
    uint64_t trigger_ns, exit_ns, run_ns, spread_ns; /* since then; run_ns 0: until exit_ns */
    int trigger;
};

__device__ static uint64_t gpu_clock() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ static void trigger_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <int LIVE> __global__ void hold(orders told) {
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), kept[LIVE + 1], sum = 0;
    bool is_first = !threadIdx.x && !threadIdx.y && !threadIdx.z;
    if (is_first) {
        uint32_t sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        told.notes[block].sm = sm;
        told.notes[block].start_ns = gpu_clock();
    }
    bool is_early = told.trigger == EARLY || (told.trigger == SOME && block % 2 == 0);
    bool is_late = told.trigger == LATE || (told.trigger == SOME && block % 2);
    if (is_early)
        trigger_dependents();
#pragma unroll
    for (int i = 0; i < LIVE; i++)
        kept[i] = ((const volatile uint32_t *)told.words)[i * 32];
    if (is_first) {
        uint64_t base = *(const volatile uint64_t *)told.base_ns, until = base + told.exit_ns;
        if (told.run_ns)
            until = told.notes[block].start_ns + told.run_ns + block * 40503ull % 65536 * told.spread_ns / 65536;
        if (is_late)
            while (gpu_clock() < base + told.trigger_ns && gpu_clock() < until)
                ;
        if (is_late && base + told.trigger_ns < until)
            trigger_dependents();
        while (gpu_clock() < until)
            ;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < LIVE; i++)
        sum ^= kept[i];
    if (sum)
        *told.sink = sum; /* never: all words are 0 */
    if (is_first)
        told.notes[block].end_ns = gpu_clock();
}

__global__ void tell_time(volatile uint64_t *to) {
    *to = gpu_clock();
}

typedef void (*hold_kernel)(orders);

struct variant {
    int live;
    hold_kernel kernel;
    int registers;
};

#define VARIANT(live)                                                                                                  \
    { live, hold<live>, 0 }
static variant variants[] = {VARIANT(0),   VARIANT(12),  VARIANT(20),  VARIANT(28), VARIANT(36),
                             VARIANT(44),  VARIANT(60),  VARIANT(76),  VARIANT(92), VARIANT(112),
                             VARIANT(140), VARIANT(172), VARIANT(204), VARIANT(228)};

/* ---- kernels that launch kernels ---- */

/* A kernel that a block launches at a time. */
struct child {
    int live;
    unsigned grid[3], block[3], shared;
    uint64_t at_ns; /* since base_ns */
    orders told;
};

#ifdef CHILDREN
template <int LIVE> __device__ static void start_child(const child &c) {
    dim3 grid(c.grid[0], c.grid[1], c.grid[2]), block(c.block[0], c.block[1], c.block[2]);
    hold<LIVE><<<grid, block, c.shared, cudaStreamFireAndForget>>>(c.told);
}

/* A block that launches its children, one after the other, and then does as it is told. */
__global__ void parent(orders told, const child *children, int count) {
    if (threadIdx.x)
        return;
    uint32_t sm;
    uint64_t base = *(const volatile uint64_t *)told.base_ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    told.notes[0].sm = sm;
    told.notes[0].start_ns = gpu_clock();
    for (int i = 0; i < count; i++) {
        while (gpu_clock() < base + children[i].at_ns)
            ;
        if (children[i].live <= 0)
            start_child<0>(children[i]);
        else if (children[i].live <= 36)
            start_child<36>(children[i]);
        else
            start_child<92>(children[i]);
    }
    while (gpu_clock() < base + told.exit_ns)
        ;
    told.notes[0].end_ns = gpu_clock();
}
#endif

/* ---- plans ---- */

enum { GREENS = 4, MOST_BYTES = 1 << 20 };

struct kernel {
    std::string name, stream = "-", by; /* by: the kernel that launches it; empty: the host */
    unsigned grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
    int live = 0, shared = 0, cluster = 1, cooperative = 0, programmatic = 0, trigger = NEVER, priority = 0;
    int carveout = -1, graph = -1, green = -1, bytes = 4;
    double us = 0, spread = 0;
    std::string memory; /* of a memset or copy: its kind */
    std::vector<std::string> after;
    /* while it is played */
    int launched = -1, exits = -1, triggers = -1; /* slots */
    int written = -1;                             /* the slot in which it is written as launched */
    size_t notes = 0;                             /* the first of its notes */
    uint32_t blocks() const {
        return memory.empty() ? all_blocks() : 0;
    }
    uint32_t all_blocks() const {
        return grid[0] * grid[1] * grid[2];
    }
    uint32_t threads() const {
        return block[0] * block[1] * block[2];
    }
};

struct event {
    std::string op;
    int graph = -1;
    std::vector<int> kernels;
};

struct plan {
    std::string id, type;
    std::vector<kernel> kernels;
    std::vector<event> events;
    std::map<std::string, int> names;
    bool is_timed = false;
};

static void read_sizes(const std::string &text, unsigned sizes[3]) {
    if (sscanf(text.c_str(), "%u,%u,%u", &sizes[0], &sizes[1], &sizes[2]) < 1)
        fail("not a size", text);
}

static std::vector<std::string> split(const std::string &text, char at) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, at);)
        parts.push_back(part);
    return parts;
}

static int trigger_of(const std::string &word) {
    static const char *const words[] = {"never", "early", "some", "late"};
    for (int i = 0; i < 4; i++)
        if (word == words[i])
            return i;
    fail("unknown trigger", word);
}

static void set_key(kernel &k, const std::string &key, const std::string &value) {
    std::map<std::string, int *> numbers = {{"live", &k.live},
                                            {"shared", &k.shared},
                                            {"cluster", &k.cluster},
                                            {"cooperative", &k.cooperative},
                                            {"programmatic", &k.programmatic},
                                            {"priority", &k.priority},
                                            {"carveout", &k.carveout},
                                            {"green", &k.green},
                                            {"bytes", &k.bytes}};
    if (numbers.count(key))
        *numbers[key] = atoi(value.c_str());
    else if (key == "grid")
        read_sizes(value, k.grid);
    else if (key == "block")
        read_sizes(value, k.block);
    else if (key == "stream")
        k.stream = value;
    else if (key == "trigger")
        k.trigger = trigger_of(value);
    else if (key == "kind")
        k.memory = value;
    else if (key == "by")
        k.by = value;
    else if (key == "after")
        k.after = split(value, ',');
    else if (key == "us")
        k.us = atof(value.c_str());
    else if (key == "spread")
        k.spread = atof(value.c_str());
    else
        fail("unknown key", key);
}

static int find_kernel(const plan &p, const std::string &name) {
    auto at = p.names.find(name);
    if (at == p.names.end())
        fail("unknown kernel", name);
    return at->second;
}

static void read_kernel(plan &p, const std::vector<std::string> &words) {
    kernel k;
    k.name = words.at(1);
    for (size_t i = 2; i < words.size(); i++) {
        size_t equals = words[i].find('=');
        if (equals == std::string::npos)
            fail("not a key with a value", words[i]);
        set_key(k, words[i].substr(0, equals), words[i].substr(equals + 1));
    }
    if ((words[0] == "memory") == k.memory.empty() || k.green >= GREENS || k.bytes < 4 || k.bytes > MOST_BYTES)
        fail("not a kernel or a memory node", k.name);
    p.is_timed |= k.us > 0;
    if (k.trigger == SOME && k.blocks() == 1)
        k.trigger = EARLY;
    p.names[k.name] = (int)p.kernels.size();
    p.kernels.push_back(k);
}

static void read_event(plan &p, const std::vector<std::string> &words) {
    event e;
    size_t first = 1;
    e.op = words[0];
    if (e.op == "graph")
        e.graph = atoi(words.at(first++).c_str());
    int slot = (int)p.events.size();
    for (size_t i = first; i < words.size(); i++) {
        int number = find_kernel(p, words[i]);
        kernel &k = p.kernels[number];
        e.kernels.push_back(number);
        (e.op == "exit" ? k.exits : e.op == "trigger" ? k.triggers : k.launched) = slot;
        k.graph = e.op == "graph" ? e.graph : k.graph;
    }
    p.events.push_back(e);
}

/* Reads a run; false: there are no more. */
static bool read_plan(std::istream &in, plan &p) {
    p = plan();
    for (std::string line; std::getline(in, line);) {
        std::stringstream stream(line.substr(0, line.find('#')));
        std::vector<std::string> words;
        for (std::string word; stream >> word;)
            words.push_back(word);
        if (words.empty())
            continue;
        if (words[0] == "run")
            p.id = words.at(1), p.type = words.at(2);
        else if (words[0] == "kernel" || words[0] == "memory")
            read_kernel(p, words);
        else if (words[0] == "end")
            return true;
        else if (words[0] == "launch" || words[0] == "graph" || words[0] == "exit" || words[0] == "trigger")
            read_event(p, words);
        else
            fail("unknown line", words[0]);
    }
    return false;
}

/* ---- playing ---- */

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

/* ---- writing ---- */

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

/* Reads plans without a GPU, and says how many there are. */
static int check_plans(std::istream &in) {
    int count = 0;
    for (plan p; read_plan(in, p); count++)
        for (const kernel &k : p.kernels)
            if (k.launched < 0 || (!k.memory.empty() && (k.graph < 0 || k.exits >= 0)) ||
                (k.exits >= 0 && k.exits <= k.launched) || k.threads() > 1024)
                fail("is not launched, exits too early or is too large", k.name);
    printf("%d\n", count);
    return 0;
}

int main(int count, char **words) {
    machine m;
    const char *plans = nullptr, *runs = nullptr, *times = nullptr;
    int repeats = 1;
    bool only_check = false;
    for (int i = 1; i < count; i++)
        if (!strcmp(words[i], "--slot") && i + 1 < count)
            m.slot_us = atof(words[++i]);
        else if (!strcmp(words[i], "--repeat") && i + 1 < count)
            repeats = atoi(words[++i]);
        else if (!strcmp(words[i], "--times") && i + 1 < count)
            times = words[++i];
        else if (!strcmp(words[i], "--check"))
            only_check = true;
        else if (!plans)
            plans = words[i];
        else
            runs = words[i];
    if (!plans || (!runs && !only_check)) {
        fprintf(stderr, "usage: recorder [--slot US] [--repeat N] [--times FILE] PLANS RUNS\n"
                        "       recorder --check PLANS\n");
        return 2;
    }
    std::ifstream in(plans);
    if (only_check)
        return check_plans(in);
    FILE *out = fopen(runs, "w"), *out_times = times ? fopen(times, "w") : nullptr;
    if (!in || !out || (times && !out_times))
        fail("cannot open", plans);
    open_machine(m);
    int played = 0, late = 0;
    for (plan p; read_plan(in, p);)
        for (int i = 0; i < repeats; i++) {
            timing t;
            outcome result = LATE_HOST;
            for (int tries = 0; result == LATE_HOST && tries < 4; tries++)
                result = play(m, p, t);
            late += result == LATE_HOST;
            if (result != PLAYED)
                continue;
            played++;
            write_run(out, m, p, t);
            if (out_times)
                write_times(out_times, m, p, t);
        }
    fclose(out);
    if (out_times)
        fclose(out_times);
    fprintf(stderr, "recorder: %d runs, %d given up because the host was late\n", played, late);
    return 0;
}
