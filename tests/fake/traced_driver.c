/*
 * traced_driver.c: libcuda.so.1 for tests of the recorder: launches run nothing and end at once.
 *
 * It does what a recorder sees of a driver: it loads the library that CUDA_INJECTION64_PATH names when CUDA is started,
 * tells CUPTI of each call before and after it, and makes a record of each kernel, copy and memset. While a stream is
 * captured its work becomes a graph, with the edges that streams and events ask for.
 */
#define _GNU_SOURCE
#include "traced.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { MOST_NODES = 256, INVALID = 1, REFUSED = 701, NULL_STREAM = 7, CONTEXT = 1 };

struct traced_graph {
    struct traced_node *nodes[MOST_NODES];
    int count;
    int uses;
};

struct traced_stream {
    uint32_t id;
    int priority;
    struct traced_graph *captured; /* NULL: it runs */
    struct traced_node *last[8];   /* of the graph */
    int last_count;
};

struct traced_event {
    struct traced_graph *captured;
    struct traced_node *last[8];
    int last_count;
};

static struct driver {
    pthread_mutex_t lock;
    void (*call)(uint32_t, const cupti_call *);
    void (*graph)(uint32_t, const cupti_graph *);
    void (*record)(const void *, size_t);
    uint64_t next_node;
    uint32_t next_stream, next_graph;
    atomic_uint correlation, launches;
    bool has_started;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_stream = 13};

static struct traced_stream null_stream = {.id = NULL_STREAM};

/* ---- telling CUPTI ---- */

static uint32_t number_of(const char *function) {
    for (size_t i = 0; i < gs_call_count; i++)
        if (strcmp(gs_calls[i].symbol, function) == 0 && gs_calls[i].domain == CUPTI_DRIVER && !gs_calls[i].per_thread)
            return gs_calls[i].id;
    return 0;
}

/* A call that is being told of. */
struct telling {
    cupti_call call;
    uint32_t number;
    int result;
};

static void begin(struct telling *telling, const char *function, const void *parameters) {
    *telling = (struct telling){.call = {.site = CUPTI_ENTER,
                                         .function = function,
                                         .parameters = parameters,
                                         .context = &driver,
                                         .context_id = CONTEXT,
                                         .correlation = ++driver.correlation},
                                .number = number_of(function)};
    telling->call.result = &telling->result;
    if (driver.call)
        driver.call(telling->number, &telling->call);
}

static int end(struct telling *telling, int result) {
    telling->result = result;
    telling->call.site = CUPTI_EXIT;
    if (driver.call)
        driver.call(telling->number, &telling->call);
    return result;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *symbol(void *library, const char *name) {
    return library ? dlsym(library, name) : NULL;
}

static void connect_cupti(void) {
    void *cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *call = symbol(cupti, "traced_call"), *graph = symbol(cupti, "traced_graph"),
         *record = symbol(cupti, "traced_record");
    memcpy(&driver.call, &call, sizeof call);
    memcpy(&driver.graph, &graph, sizeof graph);
    memcpy(&driver.record, &record, sizeof record);
}

VISIBLE int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    int (*initialize)(void) = NULL;
    pthread_mutex_lock(&driver.lock);
    if (!driver.has_started && path) {
        void *found = symbol(dlopen(path, RTLD_NOW | RTLD_LOCAL), "InitializeInjection");
        memcpy(&initialize, &found, sizeof found);
        if (!initialize)
            fprintf(stderr, "the fake driver: %s\n", dlerror());
    }
    if (initialize) {
        initialize();
        connect_cupti();
    }
    driver.has_started = true;
    pthread_mutex_unlock(&driver.lock);
    return flags ? INVALID : 0;
}

VISIBLE int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, (size_t)size, "NVIDIA H200 NVL");
    return device ? INVALID : 0;
}

VISIBLE int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = 132;
    return device || attribute != 16 ? INVALID : 0;
}

VISIBLE int cuCtxGetCurrent(void **context);
int cuCtxGetCurrent(void **context) {
    *context = &driver;
    return 0;
}

VISIBLE int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device) {
    *device = 0;
    return 0;
}

/* A function by its name without a version. */
VISIBLE int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    Dl_info self;
    char versioned[64];
    void *library = dladdr(&driver, &self) ? dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    (void)version, (void)flags;
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    *function = symbol(library, versioned);
    if (!*function)
        *function = symbol(library, name);
    if (status)
        *status = *function ? 0 : 1;
    return *function ? 0 : 500;
}

/* ---- work: runs at once, or becomes a node ---- */

static struct traced_stream *stream_of(void *stream) {
    return stream ? stream : &null_stream;
}

static void run_node(const struct traced_node *node, uint32_t stream, uint32_t correlation, uint32_t graph) {
    uint64_t start = now_ns();
    if (!driver.record)
        return;
    if (node->type == 0) {
        /* As long as a record of CUPTI 13 is. */
        struct {
            cupti_kernel kernel;
            char more[24];
        } record = {.kernel = node->kernel};
        record.kernel.stream = stream;
        record.kernel.correlation = correlation;
        record.kernel.start = start;
        record.kernel.end = start + 1500;
        record.kernel.graph = graph;
        record.kernel.graph_node = graph ? node->id : 0;
        driver.record(&record, sizeof record);
    } else if (node->type == 1) {
        cupti_memcpy record = {.kind = CUPTI_MEMCPY,
                               .copy_kind = node->kernel.launch_type,
                               .bytes = node->bytes,
                               .start = start,
                               .end = start + 700,
                               .context = CONTEXT,
                               .stream = stream,
                               .correlation = correlation,
                               .graph = graph,
                               .graph_node = graph ? node->id : 0};
        driver.record(&record, sizeof record);
    } else if (node->type == 2) {
        cupti_memset record = {.kind = CUPTI_MEMSET,
                               .bytes = node->bytes,
                               .start = start,
                               .end = start + 300,
                               .context = CONTEXT,
                               .stream = stream,
                               .correlation = correlation,
                               .graph = graph,
                               .graph_node = graph ? node->id : 0};
        driver.record(&record, sizeof record);
    }
}

static void capture_node(struct traced_stream *stream, const struct traced_node *node) {
    struct traced_node *made = malloc(sizeof *made);
    *made = *node;
    made->after_count = stream->last_count;
    made->priority = stream->priority;
    memcpy(made->after, stream->last, sizeof made->after);
    memset(made->edge_types, node->edge_types[0], sizeof made->edge_types);
    memset(made->edge_ports, node->edge_ports[0], sizeof made->edge_ports);
    pthread_mutex_lock(&driver.lock);
    made->id = ++driver.next_node;
    stream->captured->nodes[stream->captured->count++] = made;
    pthread_mutex_unlock(&driver.lock);
    stream->last[0] = made;
    stream->last_count = 1;
}

static int do_node(struct telling *telling, void *handle, const struct traced_node *node) {
    struct traced_stream *stream = stream_of(handle);
    if (++driver.launches % 5 == 0 && fake_has("refuses"))
        return end(telling, REFUSED);
    if (stream->captured)
        capture_node(stream, node);
    else
        run_node(node, stream->id, telling->call.correlation, 0);
    return end(telling, 0);
}

/* ---- kernels ---- */

struct launch {
    const char *function; /* the name of a kernel is its handle */
    unsigned grid[3], block[3], shared_bytes;
    void *stream, **arguments, **extra;
};

struct config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    const char *attributes;
    unsigned attribute_count;
};

static atomic_int settable_percent = -1; /* the carve-out of the kernel "settable" */

static struct traced_node kernel_node(const char *name, const unsigned *grid, const unsigned *block, unsigned shared) {
    struct traced_node node = {.kernel = {.kind = CUPTI_KERNEL,
                                          .registers = 40,
                                          .context = CONTEXT,
                                          .name = name,
                                          .static_shared_bytes = 512,
                                          .dynamic_shared_bytes = (int32_t)shared,
                                          .shared_executed_bytes = 65536}};
    for (int i = 0; i < 3; i++) {
        node.kernel.grid[i] = (int32_t)grid[i];
        node.kernel.block[i] = (int32_t)block[i];
    }
    if (strstr(name, "local"))
        node.kernel.local_bytes = 96;
    if (strstr(name, "cached"))
        node.kernel.cache_config = CUPTI_PREFER_SHARED;
    if (strstr(name, "impossible"))
        node.kernel.shared_executed_bytes = 8192;
    int percent = strstr(name, "carveout") ? 75 : strcmp(name, "settable") == 0 ? settable_percent : -1;
    if (percent >= 0) {
        node.kernel.has_carveout = 1;
        node.kernel.carveout_percent = (uint8_t)percent;
    }
    return node;
}

VISIBLE int cuLaunchKernel(const char *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
                           void **extra);
int cuLaunchKernel(const char *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments, void **extra) {
    struct launch launch = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, arguments,
                            extra};
    struct telling telling;
    struct traced_node node = kernel_node(function, launch.grid, launch.block, shared);
    begin(&telling, "cuLaunchKernel", &launch);
    return do_node(&telling, stream, &node);
}

VISIBLE int cuLaunchKernelEx(const struct config *config, const char *function, void **arguments, void **extra);
int cuLaunchKernelEx(const struct config *config, const char *function, void **arguments, void **extra) {
    struct {
        const struct config *config;
        const char *function;
        void **arguments, **extra;
    } parameters = {config, function, arguments, extra};
    struct telling telling;
    struct traced_node node = kernel_node(function, config->grid, config->block, config->shared_bytes);
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const int *attribute = (const int *)(const void *)(config->attributes + (size_t)i * 72);
        if (attribute[0] == 4)
            for (int k = 0; k < 3; k++)
                node.kernel.cluster[k] = (uint32_t)attribute[2 + k];
        if (attribute[0] == 6)
            node.edge_types[0] = node.edge_ports[0] = (uint8_t)attribute[2];
    }
    begin(&telling, "cuLaunchKernelEx", &parameters);
    return do_node(&telling, config->stream, &node);
}

/* ---- what is known of kernels: their handles are their names ---- */

VISIBLE int cuFuncGetName(const char **name, const char *function);
int cuFuncGetName(const char **name, const char *function) {
    *name = function;
    return 0;
}

static atomic_int questions; /* calls of cuFuncGetAttribute; TRACED_QUESTIONS names a file to which it is added */

__attribute__((destructor)) static void tell_questions(void) {
    const char *path = getenv("TRACED_QUESTIONS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file && fprintf(file, "%d\n", questions) >= 0)
        fclose(file);
}

VISIBLE int cuFuncGetAttribute(int *value, int attribute, const char *function);
int cuFuncGetAttribute(int *value, int attribute, const char *function) {
    static const unsigned one[3] = {1, 1, 1};
    struct traced_node node = kernel_node(function, one, one, 0);
    questions++;
    switch (attribute) {
    case 1:
        *value = node.kernel.static_shared_bytes;
        return 0;
    case 3:
        *value = (int)node.kernel.local_bytes;
        return 0;
    case 4:
        *value = node.kernel.registers;
        return 0;
    case 9:
        *value = node.kernel.has_carveout ? node.kernel.carveout_percent : -1;
        return 0;
    default:
        return INVALID;
    }
}

VISIBLE int cuFuncSetAttribute(const char *function, int attribute, int value);
int cuFuncSetAttribute(const char *function, int attribute, int value) {
    if (strcmp(function, "settable") != 0 || attribute != 9)
        return INVALID;
    settable_percent = value;
    return 0;
}

/* The kernel of a function has another handle: its name with a K before it. */
VISIBLE int cuKernelGetFunction(const char **function, const char *kernel);
int cuKernelGetFunction(const char **function, const char *kernel) {
    *function = kernel + 1;
    return kernel[0] == 'K' ? 0 : INVALID;
}

VISIBLE int cuKernelSetAttribute(int attribute, int value, const char *kernel, int device);
int cuKernelSetAttribute(int attribute, int value, const char *kernel, int device) {
    return kernel[0] == 'K' && device == 0 ? cuFuncSetAttribute(kernel + 1, attribute, value) : INVALID;
}

VISIBLE int cuFuncSetCacheConfig(const char *function, int config);
int cuFuncSetCacheConfig(const char *function, int config) {
    return function && config == CUPTI_PREFER_SHARED ? 0 : INVALID; /* the name says it */
}

/* ---- copies ---- */

VISIBLE int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    struct {
        uint64_t to;
        const void *from;
        size_t bytes;
        void *stream;
    } parameters = {to, from, bytes, stream};
    struct telling telling;
    struct traced_node node = {.type = 1, .bytes = bytes, .kernel = {.launch_type = 1}};
    begin(&telling, "cuMemcpyHtoDAsync_v2", &parameters);
    return do_node(&telling, stream, &node);
}

VISIBLE int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    struct {
        void *to;
        uint64_t from;
        size_t bytes;
    } parameters = {to, from, bytes};
    struct telling telling;
    struct traced_node node = {.type = 1, .bytes = bytes, .kernel = {.launch_type = 2}};
    begin(&telling, "cuMemcpyDtoH_v2", &parameters);
    return do_node(&telling, NULL, &node);
}

VISIBLE int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream) {
    struct {
        uint64_t to;
        unsigned char value;
        size_t bytes;
        void *stream;
    } parameters = {to, value, bytes, stream};
    struct telling telling;
    struct traced_node node = {.type = 2, .bytes = bytes};
    begin(&telling, "cuMemsetD8Async", &parameters);
    return do_node(&telling, stream, &node);
}

/* ---- streams and events ---- */

VISIBLE int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    struct {
        void **stream;
        unsigned flags;
        int priority;
    } parameters = {stream, flags, priority};
    struct telling telling;
    struct traced_stream *made = calloc(1, sizeof *made);
    begin(&telling, "cuStreamCreateWithPriority", &parameters);
    pthread_mutex_lock(&driver.lock);
    made->id = driver.next_stream++;
    made->priority = priority;
    pthread_mutex_unlock(&driver.lock);
    *stream = made;
    return end(&telling, 0);
}

VISIBLE int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) {
    struct {
        void *stream;
    } parameters = {stream};
    struct telling telling;
    begin(&telling, "cuStreamDestroy_v2", &parameters);
    free(stream);
    return end(&telling, 0);
}

VISIBLE int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(struct traced_event));
    return 0;
}

VISIBLE int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
    struct {
        void *event;
    } parameters = {event};
    struct telling telling;
    begin(&telling, "cuEventDestroy_v2", &parameters);
    free(event);
    return end(&telling, 0);
}

VISIBLE int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    struct {
        void *event, *stream;
    } parameters = {event, stream};
    struct telling telling;
    const struct traced_stream *from = stream_of(stream);
    struct traced_event *to = event;
    begin(&telling, "cuEventRecord", &parameters);
    to->captured = from->captured;
    to->last_count = from->last_count;
    memcpy(to->last, from->last, sizeof to->last);
    return end(&telling, 0);
}

VISIBLE int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    struct {
        void *stream, *event;
        unsigned flags;
    } parameters = {stream, event, flags};
    struct telling telling;
    const struct traced_event *from = event;
    struct traced_stream *to = stream_of(stream);
    begin(&telling, "cuStreamWaitEvent", &parameters);
    if (from->captured) {
        if (!to->captured)
            to->last_count = 0;
        to->captured = from->captured;
        for (int i = 0; i < from->last_count; i++)
            to->last[to->last_count++] = from->last[i];
    }
    return end(&telling, 0);
}

/* ---- graphs ---- */

VISIBLE int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
    struct {
        void *stream;
        int mode;
    } parameters = {stream, mode};
    struct telling telling;
    struct traced_stream *captured = stream_of(stream);
    begin(&telling, "cuStreamBeginCapture_v2", &parameters);
    captured->captured = calloc(1, sizeof *captured->captured);
    captured->last_count = 0;
    return end(&telling, 0);
}

VISIBLE int cuStreamEndCapture(void *stream, void **graph);
int cuStreamEndCapture(void *stream, void **graph) {
    struct {
        void *stream, **graph;
    } parameters = {stream, graph};
    struct telling telling;
    struct traced_stream *captured = stream_of(stream);
    begin(&telling, "cuStreamEndCapture", &parameters);
    *graph = captured->captured;
    captured->captured = NULL;
    return end(&telling, 0);
}

/* The streams that joined the capture are told by the test. */
VISIBLE int traced_leave_capture(void *stream);
int traced_leave_capture(void *stream) {
    stream_of(stream)->captured = NULL;
    return 0;
}

/* Adds a node of a type that runs nothing, or a child graph. */
VISIBLE int traced_add_node(void *graph, int type, void *child);
int traced_add_node(void *graph, int type, void *child) {
    struct traced_graph *to = graph;
    struct traced_node *made = calloc(1, sizeof *made);
    made->id = ++driver.next_node;
    made->type = type;
    made->child = child;
    if (to->count)
        made->after[made->after_count++] = to->nodes[to->count - 1];
    to->nodes[to->count++] = made;
    return 0;
}

/* As with CUPTI 13, nodes of a graph within the graph have other ids in records than in callbacks. */
static struct traced_graph *clone_graph(const struct traced_graph *graph, bool is_nested) {
    struct traced_graph *made = calloc(1, sizeof *made);
    for (; made->count < graph->count; made->count++) {
        struct traced_node *node = malloc(sizeof *node);
        *node = *graph->nodes[made->count];
        node->id = ++driver.next_node;
        made->nodes[made->count] = node;
        if (node->child)
            node->child = clone_graph(node->child, true);
        cupti_graph clone = {.node = node, .original_node = graph->nodes[made->count]};
        if (driver.graph)
            driver.graph(CUPTI_NODE_CLONED, &clone);
        if (is_nested)
            node->id = ++driver.next_node;
    }
    return made;
}

VISIBLE int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    struct {
        void **exec, *graph;
        unsigned long long flags;
    } parameters = {exec, graph, flags};
    struct telling telling;
    begin(&telling, "cuGraphInstantiateWithFlags", &parameters);
    *exec = clone_graph(graph, false);
    return end(&telling, 0);
}

static void run_graph(const struct traced_graph *graph, uint32_t stream, uint32_t correlation) {
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i]->child)
            run_graph(graph->nodes[i]->child, stream, correlation);
        else
            run_node(graph->nodes[i], stream, correlation, 3);
}

VISIBLE int cuGraphLaunch(void *exec, void *stream);
int cuGraphLaunch(void *exec, void *stream) {
    struct {
        void *exec, *stream;
    } parameters = {exec, stream};
    struct telling telling;
    begin(&telling, "cuGraphLaunch", &parameters);
    run_graph(exec, stream_of(stream)->id, telling.call.correlation);
    return end(&telling, 0);
}

static void free_graph(struct traced_graph *graph) {
    for (int i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->child)
            free_graph(graph->nodes[i]->child);
        free(graph->nodes[i]);
    }
    free(graph);
}

VISIBLE int cuGraphExecDestroy(void *exec);
int cuGraphExecDestroy(void *exec) {
    cupti_graph graph = {.exec = exec};
    if (driver.graph)
        driver.graph(CUPTI_EXEC_DESTROYED, &graph);
    free_graph(exec);
    return 0;
}

/* A graph of the same form: nodes of the executable one stay, and do what the others do. */
VISIBLE int cuGraphExecUpdate_v2(struct traced_graph *exec, const struct traced_graph *graph, void *result);
int cuGraphExecUpdate_v2(struct traced_graph *exec, const struct traced_graph *graph, void *result) {
    (void)result;
    for (int i = 0; i < exec->count && i < graph->count; i++)
        exec->nodes[i]->kernel = graph->nodes[i]->kernel;
    return exec->count == graph->count ? 0 : INVALID;
}

VISIBLE int cuGraphDestroy(void *graph);
int cuGraphDestroy(void *graph) {
    free_graph(graph);
    return 0;
}

VISIBLE int cuGraphGetNodes(const struct traced_graph *graph, void **nodes, size_t *count);
int cuGraphGetNodes(const struct traced_graph *graph, void **nodes, size_t *count) {
    for (int i = 0; i < graph->count && nodes; i++)
        nodes[i] = graph->nodes[i];
    *count = (size_t)graph->count;
    return 0;
}

VISIBLE int cuGraphGetEdges_v2(const struct traced_graph *graph, void **from, void **to, unsigned char *data,
                               size_t *count);
int cuGraphGetEdges_v2(const struct traced_graph *graph, void **from, void **to, unsigned char *data, size_t *count) {
    size_t edge = 0;
    for (int i = 0; i < graph->count; i++)
        for (int k = 0; k < graph->nodes[i]->after_count; k++, edge++) {
            if (!from)
                continue;
            from[edge] = graph->nodes[i]->after[k];
            to[edge] = graph->nodes[i];
            data[edge * 8] = graph->nodes[i]->edge_ports[k];
            data[edge * 8 + 2] = graph->nodes[i]->edge_types[k];
        }
    *count = edge;
    return 0;
}

VISIBLE int cuGraphNodeGetType(const struct traced_node *node, int *type);
int cuGraphNodeGetType(const struct traced_node *node, int *type) {
    *type = node->type;
    return 0;
}

VISIBLE int cuGraphKernelNodeGetAttribute(const struct traced_node *node, int attribute, int *value);
int cuGraphKernelNodeGetAttribute(const struct traced_node *node, int attribute, int *value) {
    *value = node->priority;
    return attribute != 8 || node->type ? INVALID : 0;
}

VISIBLE int cuGraphChildGraphNodeGetGraph(const struct traced_node *node, void **graph);
int cuGraphChildGraphNodeGetGraph(const struct traced_node *node, void **graph) {
    *graph = node->child;
    return node->child ? 0 : INVALID;
}

/* ---- what nodes do ---- */

VISIBLE int cuGraphKernelNodeGetParams_v2(const struct traced_node *node, void *parameters);
int cuGraphKernelNodeGetParams_v2(const struct traced_node *node, void *parameters) {
    struct {
        const char *function;
        int shape[6], shared;
        void *rest[4];
    } found = {.function = node->kernel.name, .shared = node->kernel.dynamic_shared_bytes};
    memcpy(found.shape, node->kernel.grid, sizeof node->kernel.grid);
    memcpy(found.shape + 3, node->kernel.block, sizeof node->kernel.block);
    memcpy(parameters, &found, sizeof found);
    return node->type == 0 ? 0 : INVALID;
}

VISIBLE int cuGraphMemsetNodeGetParams(const struct traced_node *node, void *parameters);
int cuGraphMemsetNodeGetParams(const struct traced_node *node, void *parameters) {
    struct {
        uint64_t to;
        size_t pitch;
        unsigned value, element_bytes;
        size_t width, height;
    } found = {.element_bytes = 1, .width = node->bytes, .height = 1};
    memcpy(parameters, &found, sizeof found);
    return node->type == 2 ? 0 : INVALID;
}
