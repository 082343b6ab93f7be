/*
 * graph.c: CUDA graphs of the fake driver, and captures.
 *
 * A graph is a list of nodes, each with the nodes that it waits for. An executable graph is a copy in an order that the
 * edges allow. Probe kernels are launched on the modeled GPU all at once, and a node waits there for those that it
 * depends on (gpu.c); memsets and copies do nothing there, and what waits for one waits for what it waits for. Other
 * nodes are put into the stream in order.
 *
 * As with CUPTI 13, nodes of a graph within a graph have other ids in records than in callbacks.
 */
#include "fake.h"

#include <pthread.h>

/* A driver built with FAKE_WHOLE keeps graphs to itself. */
#ifdef FAKE_WHOLE
#    define GRAPH_CALL int
#else
#    define GRAPH_CALL FAKE_VISIBLE
#endif

enum { MOST_PROBES = 64, MOST_CAPTURES = 16, IN_GRAPH = 3 };
enum { CAPTURES = 1, CAPTURE_IS_INVALID = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_id;                  /* of a node; under the lock */
static cu_stream captures[MOST_CAPTURES]; /* that can become invalid; under the lock */

/* ---- nodes ---- */

GRAPH_CALL cuGraphCreate(fake_graph **made, unsigned flags) {
    *made = calloc(1, sizeof **made);
    return *made && !flags ? FAKE_OK : FAKE_INVALID_VALUE;
}

/* Adds a copy of a node that waits for those before it. NULL: there are too many. */
static fake_node *add_node(fake_graph *graph, const fake_node *node, fake_node *const *after, size_t count) {
    if (graph->count == FAKE_MOST_NODES || count > FAKE_MOST_AFTER)
        return NULL;
    fake_node *made = malloc(sizeof *made);
    *made = *node;
    made->graph = graph;
    made->after.count = count;
    if (count)
        memcpy(made->after.last, after, count * sizeof *after);
    pthread_mutex_lock(&lock);
    made->id = ++next_id;
    graph->nodes[graph->count++] = made;
    pthread_mutex_unlock(&lock);
    return made;
}

/* The driver's CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMSET_NODE_PARAMS, CUDA_MEMCPY3D and CUDA_BATCH_MEM_OP_NODE_PARAMS. */
struct kernel_parameters {
    cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **arguments, **extra;
    void *kernel, *context;
};

struct memset_parameters {
    cu_pointer to;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
};

struct copy_parameters;

struct memory_operations {
    void *context;
    unsigned count;
    struct fake_batch *operations;
    unsigned flags;
};

/* Returns an error of the driver. */
static int give_node(fake_node **made, fake_node *node) {
    *made = node;
    return node ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphAddKernelNode_v2(fake_node **made, fake_graph *graph, fake_node *const *after, size_t count,
                                   const struct kernel_parameters *parameters) {
    const cu_launch call = {.grid_x = parameters->grid_x,
                            .grid_y = parameters->grid_y,
                            .grid_z = parameters->grid_z,
                            .block_x = parameters->block_x,
                            .block_y = parameters->block_y,
                            .block_z = parameters->block_z,
                            .shared_bytes = parameters->shared_bytes};
    if (parameters->extra)
        return FAKE_INVALID_VALUE;
    fake_node node = fake_kernel_node(&call, parameters->function, parameters->arguments);
    return give_node(made, add_node(graph, &node, after, count));
}

GRAPH_CALL cuGraphAddMemsetNode(fake_node **made, fake_graph *graph, fake_node *const *after, size_t count,
                                const struct memset_parameters *parameters, cu_context context) {
    if (!parameters || !context)
        return FAKE_INVALID_VALUE;
    const fake_node node = {.type = FAKE_NODE_SET,
                            .to = parameters->element_bytes == 4 ? (void *)(uintptr_t)parameters->to : NULL,
                            .value = parameters->value,
                            .bytes = parameters->width * parameters->height * parameters->element_bytes};
    return give_node(made, add_node(graph, &node, after, count));
}

GRAPH_CALL cuGraphAddMemcpyNode(fake_node **made, fake_graph *graph, fake_node *const *after, size_t count,
                                const struct copy_parameters *parameters, cu_context context) {
    if (!parameters || !context)
        return FAKE_INVALID_VALUE;
    return give_node(made, add_node(graph, &(fake_node){.type = FAKE_NODE_COPY}, after, count));
}

GRAPH_CALL cuGraphAddBatchMemOpNode(fake_node **made, fake_graph *graph, fake_node *const *after, size_t count,
                                    const struct memory_operations *how) {
    enum { WAIT_VALUE_32 = 1, WAIT_EQUAL = 1 };
    if (!how->context || how->count != 1 || how->operations->operation != WAIT_VALUE_32 ||
        how->operations->flags != WAIT_EQUAL || fake_has("no-graph-waits"))
        return FAKE_INVALID_VALUE;
    const fake_node node = {.type = FAKE_NODE_WAIT,
                            .word = (void *)(uintptr_t)how->operations->address,
                            .value = (uint32_t)how->operations->value,
                            .batch = *how->operations};
    return give_node(made, add_node(graph, &node, after, count));
}

GRAPH_CALL cuGraphBatchMemOpNodeGetParams(fake_node *node, struct memory_operations *how) {
    *how = (struct memory_operations){.count = 1, .operations = &node->batch};
    return node->type == FAKE_NODE_WAIT ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphAddEventRecordNode(fake_node **made, fake_graph *graph, fake_node *const *after, size_t count,
                                     cu_event event) {
    return give_node(made, add_node(graph, &(fake_node){.type = FAKE_NODE_RECORD, .event = event}, after, count));
}

int fake_add_node(fake_graph *graph, int type, fake_graph *child) {
    fake_node *last = graph->count ? graph->nodes[graph->count - 1] : NULL;
    return add_node(graph, &(fake_node){.type = type, .child = child}, &last, last != NULL) ? FAKE_OK
                                                                                            : FAKE_INVALID_VALUE;
}

/* ---- edges ---- */

GRAPH_CALL cuGraphAddDependencies_v2(fake_graph *graph, fake_node *const *from, fake_node *const *to, const void *data,
                                     size_t count) {
    fake_front *after = &to[0]->after;
    if (!graph || data || count != 1 || after->count == FAKE_MOST_AFTER)
        return FAKE_INVALID_VALUE;
    after->last[after->count++] = from[0];
    return FAKE_OK;
}

GRAPH_CALL cuGraphRemoveDependencies_v2(fake_graph *graph, fake_node *const *from, fake_node *const *to,
                                        const void *data, size_t count) {
    fake_front *after = &to[0]->after;
    for (size_t i = 0; graph && i < after->count && !data && count == 1; i++)
        if (after->last[i] == from[0]) {
            after->last[i] = after->last[--after->count];
            return FAKE_OK;
        }
    return FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphDestroyNode(fake_node *node) {
    fake_graph *graph = node->graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->count; i++) {
        cuGraphRemoveDependencies_v2(graph, &node, &graph->nodes[i], NULL, 1);
        if (graph->nodes[i] != node)
            graph->nodes[kept++] = graph->nodes[i];
    }
    graph->count = kept;
    free(node);
    return FAKE_OK;
}

/* ---- what a graph consists of; without arrays: how many there are ---- */

GRAPH_CALL cuGraphGetNodes(const fake_graph *graph, fake_node **nodes, size_t *count) {
    for (size_t i = 0; nodes && i < graph->count; i++)
        nodes[i] = graph->nodes[i];
    *count = graph->count;
    return FAKE_OK;
}

GRAPH_CALL cuGraphGetEdges_v2(const fake_graph *graph, fake_node **from, fake_node **to, unsigned char *data,
                              size_t *count) {
    enum { DATA_BYTES = 8, TYPE_AT = 2 };
    size_t edge = 0;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->after.count; k++, edge++) {
            if (from) {
                from[edge] = graph->nodes[i]->after.last[k];
                to[edge] = graph->nodes[i];
            }
            if (from && data) {
                data[edge * DATA_BYTES] = graph->nodes[i]->edge_port;
                data[edge * DATA_BYTES + TYPE_AT] = graph->nodes[i]->edge_type;
            }
        }
    *count = edge;
    return FAKE_OK;
}

GRAPH_CALL cuGraphNodeGetType(const fake_node *node, int *type) {
    *type = node->type;
    return FAKE_OK;
}

GRAPH_CALL cuGraphKernelNodeGetAttribute(const fake_node *node, int attribute, int *value) {
    enum { PREFERRED_CLUSTER = 11 };
    static const int pair[3] = {2, 1, 1};
    if (attribute == CU_LAUNCH_CLUSTER)
        memcpy(value, node->cluster, sizeof node->cluster);
    else if (attribute == PREFERRED_CLUSTER && fake_has("preferred"))
        memcpy(value, pair, sizeof pair);
    else
        *value = attribute == CU_LAUNCH_PRIORITY ? node->priority : 0;
    return node->type != FAKE_NODE_KERNEL ? FAKE_INVALID_VALUE : FAKE_OK;
}

GRAPH_CALL cuGraphKernelNodeCopyAttributes(fake_node *to, const fake_node *from) {
    to->priority = from->priority;
    memcpy(to->cluster, from->cluster, sizeof to->cluster);
    return to->type == FAKE_NODE_KERNEL && from->type == FAKE_NODE_KERNEL ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphKernelNodeSetAttribute(fake_node *node, int attribute, const void *value) {
    memcpy(&node->priority, value, sizeof node->priority);
    return attribute == CU_LAUNCH_PRIORITY ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphChildGraphNodeGetGraph(const fake_node *node, fake_graph **graph) {
    *graph = node->child;
    return node->child ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphKernelNodeGetParams_v2(fake_node *node, struct kernel_parameters *parameters) {
    node->values[0] = &node->blocks.counters;
    *parameters = (struct kernel_parameters){.function = node->function,
                                             .grid_x = node->call.grid_x,
                                             .grid_y = node->call.grid_y,
                                             .grid_z = node->call.grid_z,
                                             .block_x = node->call.block_x,
                                             .block_y = node->call.block_y,
                                             .block_z = node->call.block_z,
                                             .shared_bytes = node->call.shared_bytes,
                                             .arguments = node->values};
    return node->type == FAKE_NODE_KERNEL ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphMemsetNodeGetParams(const fake_node *node, struct memset_parameters *parameters) {
    *parameters = (struct memset_parameters){.element_bytes = 1, .width = node->bytes, .height = 1};
    return node->type == FAKE_NODE_SET ? FAKE_OK : FAKE_INVALID_VALUE;
}

/* ---- captures ---- */

enum { GLOBAL = 0, RELAXED = 2 };
static _Thread_local int thread_mode;

/* Not used by another thread of the process at the same time. */
static uint64_t this_thread(void) {
    return (uint64_t)(uintptr_t)&thread_mode;
}

FAKE_VISIBLE cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return FAKE_OK;
}

/* Whether this thread has to respect the capture of a stream. */
static bool is_respected(const struct cu_stream *stream) {
    bool is_own = stream->capture_thread == this_thread();
    return thread_mode != RELAXED &&
           ((is_own && stream->capture_mode != RELAXED) || (thread_mode == GLOBAL && stream->capture_mode == GLOBAL));
}

int fake_unsafe(void) {
    int code = FAKE_OK;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST_CAPTURES; i++)
        if (captures[i] && is_respected(captures[i])) {
            captures[i]->capture = CAPTURE_IS_INVALID;
            code = FAKE_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&lock);
    return code;
}

/* Notes a stream in the place of another one; NULL: of none. */
static void replace_capture(cu_stream old, cu_stream new) {
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < MOST_CAPTURES && captures[i] != old)
        i++;
    if (i < MOST_CAPTURES)
        captures[i] = new;
    pthread_mutex_unlock(&lock);
}

int fake_capture(cu_stream stream, const fake_node *node) {
    fake_node *made = add_node(stream->captured, node, stream->front.last, stream->front.count);
    if (!made)
        return FAKE_INVALID_VALUE;
    stream->front.last[0] = made;
    stream->front.count = 1;
    return stream->capture == CAPTURE_IS_INVALID ? FAKE_CAPTURE_INVALIDATED : FAKE_OK;
}

GRAPH_CALL cuStreamBeginCapture_v2(cu_stream stream, int mode) {
    const struct {
        cu_stream stream;
        int mode;
    } parameters = {stream, mode};
    cu_stream asked = fake_stream(stream);
    fake_telling telling;
    fake_tell(&telling, "cuStreamBeginCapture_v2", &parameters);
    asked->captured = calloc(1, sizeof *asked->captured);
    asked->front.count = 0;
    asked->capture = CAPTURES;
    asked->capture_mode = mode;
    asked->capture_thread = this_thread();
    replace_capture(NULL, asked);
    return fake_told(&telling, FAKE_OK);
}

GRAPH_CALL cuStreamBeginCaptureToGraph(cu_stream stream, fake_graph *graph, fake_node *const *after, const void *edges,
                                       size_t count, int mode) {
    if (stream->captured || edges || mode != RELAXED || count > FAKE_MOST_AFTER)
        return FAKE_INVALID_VALUE;
    stream->captured = graph;
    stream->capture = CAPTURES;
    stream->front.count = count;
    if (count)
        memcpy(stream->front.last, after, count * sizeof *after);
    return FAKE_OK;
}

GRAPH_CALL cuStreamGetCaptureInfo_v2(cu_stream stream, int *state, uint64_t *id, fake_graph **graph,
                                     fake_node *const **last, size_t *count) {
    *state = stream->capture;
    *id = 1;
    *graph = stream->captured;
    *last = stream->front.last;
    *count = stream->front.count;
    return stream->captured ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuStreamIsCapturing(cu_stream stream, int *state) {
    *state = fake_stream(stream)->capture;
    return FAKE_OK;
}

GRAPH_CALL cuStreamEndCapture(cu_stream stream, fake_graph **graph) {
    const struct {
        cu_stream stream;
        fake_graph **graph;
    } parameters = {stream, graph};
    cu_stream asked = fake_stream(stream);
    fake_telling telling;
    fake_tell(&telling, "cuStreamEndCapture", &parameters);
    replace_capture(asked, NULL);
    int state = asked->capture;
    *graph = asked->captured;
    asked->captured = NULL;
    asked->capture = 0;
    return fake_told(&telling, state == CAPTURES ? FAKE_OK : FAKE_CAPTURE_INVALIDATED);
}

int fake_leave_capture(cu_stream stream) {
    fake_stream(stream)->captured = NULL;
    return FAKE_OK;
}

/* ---- copies of graphs ---- */

static size_t place_of(const fake_graph *graph, const fake_node *node) {
    size_t i = 0;
    while (i < graph->count && graph->nodes[i] != node)
        i++;
    return i;
}

static fake_graph *copy_graph(const fake_graph *graph) {
    fake_graph *made = calloc(1, sizeof *made);
    for (size_t i = 0; i < graph->count; i++)
        add_node(made, graph->nodes[i], graph->nodes[i]->after.last, graph->nodes[i]->after.count);
    for (size_t i = 0; i < made->count; i++) {
        fake_node *node = made->nodes[i];
        for (size_t k = 0; k < node->after.count; k++)
            node->after.last[k] = made->nodes[place_of(graph, node->after.last[k])];
        node->child = node->child ? copy_graph(node->child) : NULL;
        node->original = graph->nodes[i];
    }
    return made;
}

GRAPH_CALL cuGraphClone(fake_graph **copy, const fake_graph *graph) {
    if (fake_has("no-clones"))
        return FAKE_INVALID_VALUE;
    *copy = copy_graph(graph);
    return FAKE_OK;
}

GRAPH_CALL cuGraphNodeFindInClone(fake_node **found, const fake_node *original, const fake_graph *clone) {
    for (size_t i = 0; i < clone->count; i++)
        if (clone->nodes[i]->original == original)
            return give_node(found, clone->nodes[i]);
    return FAKE_INVALID_VALUE;
}

static void free_graph(fake_graph *graph) {
    for (size_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->child)
            free_graph(graph->nodes[i]->child);
        free(graph->nodes[i]);
    }
    free(graph);
}

GRAPH_CALL cuGraphDestroy(fake_graph *graph) {
    free_graph(graph);
    return FAKE_OK;
}

/* ---- executable graphs ---- */

static bool is_ready(const fake_graph *graph, size_t number, const bool *is_done) {
    const fake_front *after = &graph->nodes[number]->after;
    for (size_t i = 0; i < after->count; i++)
        if (!is_done[place_of(graph, after->last[i])])
            return false;
    return true;
}

/* Puts the nodes into an order that the edges allow. False: there is none. */
static bool order_nodes(fake_graph *graph) {
    fake_node *ordered[FAKE_MOST_NODES];
    bool is_done[FAKE_MOST_NODES + 1] = {false};
    size_t count = 0;
    for (size_t before = 1; count != before;) {
        before = count;
        for (size_t i = 0; i < graph->count; i++)
            if (!is_done[i] && is_ready(graph, i, is_done)) {
                ordered[count++] = graph->nodes[i];
                is_done[i] = true;
            }
    }
    memcpy(graph->nodes, ordered, count * sizeof *ordered);
    return count == graph->count;
}

/* The copy has its nodes in the order of the original. */
static void tell_clones(fake_graph *made, const fake_graph *graph, bool is_nested) {
    for (size_t i = 0; i < made->count; i++) {
        cupti_graph clone = {.node = made->nodes[i], .original_node = graph->nodes[i]};
        if (made->nodes[i]->child)
            tell_clones(made->nodes[i]->child, graph->nodes[i]->child, true);
        fake_tell_graph(CUPTI_NODE_CLONED, &clone);
        pthread_mutex_lock(&lock);
        made->nodes[i]->id = is_nested ? ++next_id : made->nodes[i]->id;
        pthread_mutex_unlock(&lock);
    }
}

GRAPH_CALL cuGraphInstantiateWithFlags(fake_graph **made, fake_graph *graph, unsigned long long flags) {
    enum { USE_NODE_PRIORITY = 8 };
    const struct {
        fake_graph **made, *graph;
        unsigned long long flags;
    } parameters = {made, graph, flags};
    fake_telling telling;
    fake_tell(&telling, "cuGraphInstantiateWithFlags", &parameters);
    *made = copy_graph(graph);
    tell_clones(*made, graph, false);
    bool is_good = order_nodes(*made) && (flags == USE_NODE_PRIORITY || !flags);
    return fake_told(&telling, is_good ? FAKE_OK : FAKE_INVALID_VALUE);
}

GRAPH_CALL cuGraphExecDestroy(fake_graph *executable) {
    fake_tell_graph(CUPTI_EXEC_DESTROYED, &(cupti_graph){.exec = executable});
    free_graph(executable);
    return FAKE_OK;
}

/* A graph of the same form: nodes of the executable one stay, and do what the others do. */
GRAPH_CALL cuGraphExecUpdate_v2(fake_graph *executable, const fake_graph *graph, void *result) {
    (void)result;
    for (size_t i = 0; i < executable->count && i < graph->count; i++) {
        executable->nodes[i]->function = graph->nodes[i]->function;
        executable->nodes[i]->call = graph->nodes[i]->call;
    }
    return executable->count == graph->count ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphNodeSetEnabled(fake_graph *executable, fake_node *node, unsigned is_enabled) {
    (void)node, (void)is_enabled;
    return executable ? FAKE_OK : FAKE_INVALID_VALUE;
}

GRAPH_CALL cuGraphUpload(fake_graph *executable, cu_stream stream) {
    return executable && stream ? FAKE_OK : FAKE_INVALID_VALUE;
}

/* ---- launches ---- */

/* The kernels that a node waits for, as bits. */
static uint64_t kernels_before(const fake_graph *graph, const fake_node *node) {
    uint64_t before = 0;
    for (size_t i = 0; i < node->after.count; i++) {
        const fake_node *other = node->after.last[i];
        before |=
            other->type == FAKE_NODE_KERNEL ? UINT64_C(1) << place_of(graph, other) : kernels_before(graph, other);
    }
    return before;
}

static bool has_probes(const fake_graph *graph) {
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->type == FAKE_NODE_KERNEL && graph->nodes[i]->function->kind == FAKE_PROBE)
            return true;
    return false;
}

static int launch_probes(const fake_graph *graph, cu_stream stream) {
    uint64_t first = fake_gpu_next_id(graph->count);
    int failed = graph->count > MOST_PROBES ? FAKE_INVALID_VALUE : FAKE_OK;
    for (size_t i = 0; i < graph->count && !failed; i++) {
        fake_node *node = graph->nodes[i];
        if (node->type != FAKE_NODE_KERNEL)
            continue;
        cu_attribute priority = {.id = CU_LAUNCH_PRIORITY, .value = {.priority = node->priority}};
        cu_launch call = node->call;
        call.stream = stream;
        call.attributes = &priority;
        call.attribute_count = 1;
        fake_place place = {.is_node = true, .id = first + i, .first_id = first, .after = kernels_before(graph, node)};
        failed = fake_launch_probe(&call, node->function, &node->arguments, &place);
    }
    return failed;
}

static void launch_nodes(const fake_graph *graph, cu_stream stream, uint32_t correlation) {
    for (size_t i = 0; i < graph->count; i++) {
        const fake_node *node = graph->nodes[i];
        if (node->child)
            launch_nodes(node->child, stream, correlation);
        else
            fake_tell_work(node, stream->id, correlation, IN_GRAPH);
        if (node->type == FAKE_NODE_KERNEL && node->function->kind == FAKE_OF_CUBIN)
            fake_add_step(stream, &(fake_step){.kind = FAKE_BLOCKS, .blocks = node->blocks});
        else if (node->type == FAKE_NODE_KERNEL)
            fake_add_step(stream, &(fake_step){.kind = FAKE_NAP, .number = node->function->us});
        if (node->type == FAKE_NODE_SET && node->to)
            fake_add_step(
                stream,
                &(fake_step){.kind = FAKE_SET_WORDS, .to = node->to, .value = node->value, .bytes = node->bytes});
        if (node->type == FAKE_NODE_RECORD) {
            uint64_t number = atomic_fetch_add(&node->event->asked, 1) + 1;
            fake_add_step(stream, &(fake_step){.kind = FAKE_RECORD, .event = node->event, .number = number});
        }
        if (node->type == FAKE_NODE_WAIT) {
            fake.graph_waits++;
            fake_add_step(stream, &(fake_step){.kind = FAKE_WAIT, .to = node->word, .value = node->value});
        }
    }
}

GRAPH_CALL cuGraphLaunch(fake_graph *executable, cu_stream stream) {
    const struct {
        fake_graph *executable;
        cu_stream stream;
    } parameters = {executable, stream};
    cu_stream asked = fake_stream(stream);
    fake_telling telling;
    if (!fake_current())
        return FAKE_NOT_INITIALIZED;
    if (has_probes(executable))
        return launch_probes(executable, asked);
    fake_tell(&telling, "cuGraphLaunch", &parameters);
    fake.launches++;
    launch_nodes(executable, asked, telling.call.correlation);
    return fake_told(&telling, FAKE_OK);
}
