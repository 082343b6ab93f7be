/*
 * gate_node.c: the nodes of a long graph of a best-effort program: how long each takes, and long kernels that can be
 * stopped. See gate_node.h.
 *
 * Times come from one launch of a copy with events between its nodes. A long kernel is replaced by a chain as in
 * gate_guard.c: its controls are set, and then come launches of its twin with waits between them. Launches of a graph
 * never run side by side, so each chain has memory of its own, and no stream has a lane.
 */
#include "gate_node.h"

#include "gate_chain.h"
#include "gate_twin.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TIMED = 4096, /* nodes of a graph */
    KERNEL_NODE = 0,
    WAIT_VALUE_32 = 1,
    WAIT_EQUAL = 1,
    INVALID_VALUE = 1,
    CONTROL = sizeof(gs_guard_control),
    CONTROLS = GS_CHAIN_LAUNCHES + 1 /* of a chain */
};

/* ---- times ---- */

void gs_gate_timing_free(gs_gate_timing *timing) {
    if (timing->exec)
        gs_gate_real.cuGraphExecDestroy(timing->exec);
    for (size_t i = 0; timing->events && i < timing->count; i++)
        if (timing->events[i])
            gs_gate_real.cuEventDestroy_v2(timing->events[i]);
    free(timing->events);
    *timing = (gs_gate_timing){0};
}

static bool make_events(gs_gate_timing *timing, size_t nodes) {
    timing->count = nodes + 1;
    timing->events = calloc(timing->count, sizeof *timing->events);
    for (size_t i = 0; timing->events && i < timing->count; i++)
        if (gs_gate_real.cuEventCreate(&timing->events[i], 0) != GS_CUDA_OK)
            return false;
    return timing->events;
}

/* Puts the events into the graph. Returns an error of the driver. */
static int put_events(const gs_gate_timing *timing, gs_gate_parts *parts) {
    void *begin = NULL, *end = NULL, **nodes = calloc(parts->count + 1, sizeof *nodes);
    int code = nodes
                   ? gs_gate_real.cuGraphAddEventRecordNode(&begin, parts->graph, NULL, 0, timing->events[parts->count])
                   : INVALID_VALUE;
    for (uint32_t i = 0; i < parts->count && code == GS_CUDA_OK; i++) {
        if (!gs_gate_parts_before(parts, i, nodes))
            code = gs_gate_real.cuGraphAddDependencies_v2(parts->graph, &begin, &parts->heads[i], NULL, 1);
        if (code == GS_CUDA_OK)
            code = gs_gate_real.cuGraphAddEventRecordNode(&end, parts->graph, &parts->tails[i], 1, timing->events[i]);
        if (code == GS_CUDA_OK)
            code = gs_gate_parts_extend(parts, i, end);
    }
    free(nodes);
    return code;
}

bool gs_gate_timing_make(gs_gate_timing *timing, const gs_gate_parts *parts, uint64_t flags) {
    gs_gate_parts copied = {0};
    void *clone = NULL;
    *timing = (gs_gate_timing){0};
    if (parts->count > MOST_TIMED || !gs_gate_real.cuGraphAddEventRecordNode || !gs_gate_real.cuEventDestroy_v2 ||
        gs_gate_real.cuGraphClone(&clone, parts->graph) != GS_CUDA_OK)
        return false;
    if (!gs_gate_parts_of_clone(&copied, parts, clone) || !make_events(timing, parts->count) ||
        put_events(timing, &copied) != GS_CUDA_OK ||
        gs_gate_real.cuGraphInstantiateWithFlags(&timing->exec, clone, flags) != GS_CUDA_OK) {
        timing->exec = NULL;
        gs_gate_timing_free(timing);
    }
    gs_gate_parts_free(&copied);
    gs_gate_real.cuGraphDestroy(clone);
    return timing->exec;
}

bool gs_gate_timing_is_done(const gs_gate_timing *timing) {
    for (size_t i = 0; i < timing->count; i++)
        if (gs_gate_real.cuEventQuery(timing->events[i]) == GS_CUDA_NOT_READY)
            return false;
    return true;
}

bool gs_gate_timing_read(const gs_gate_timing *timing, const gs_gate_parts *parts, int64_t *ns) {
    int64_t *ended = calloc(parts->count + 1, sizeof *ended), *began = calloc(parts->count + 1, sizeof *began);
    bool is_read = ended && began;
    for (size_t i = 0; i < parts->count && is_read; i++) {
        float ms = 0;
        is_read = gs_gate_real.cuEventElapsedTime(&ms, timing->events[parts->count], timing->events[i]) == GS_CUDA_OK;
        ended[i] = (int64_t)(ms * 1e6f);
    }
    for (size_t i = 0; i < parts->edges && is_read; i++)
        if (ended[parts->from[i]] > began[parts->to[i]])
            began[parts->to[i]] = ended[parts->from[i]];
    for (size_t i = 0; i < parts->count && is_read; i++)
        ns[i] = ended[i] > began[i] ? ended[i] - began[i] : 1;
    free(ended);
    free(began);
    return is_read;
}

/* ---- waits ---- */

struct wait_operation { /* CUstreamBatchMemOpParams */
    int operation;
    gs_gate_pointer address;
    uint64_t value;
    unsigned flags;
    uint64_t rest[2];
};

struct wait_node { /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
    void *context;
    unsigned count;
    struct wait_operation *operations;
    unsigned flags;
};

/* A wait behind the node `*last`, which it becomes. Returns an error of the driver. */
static int add_wait(void *graph, void **last, gs_gate_pointer flags) {
    struct wait_operation operation = {.operation = WAIT_VALUE_32, .address = flags, .flags = WAIT_EQUAL};
    struct wait_node wait = {.count = 1, .operations = &operation};
    void *before = *last;
    int code = gs_gate_real.cuCtxGetCurrent(&wait.context);
    return code ? code : gs_gate_real.cuGraphAddBatchMemOpNode(last, graph, &before, 1, &wait);
}

int gs_gate_node_wait(gs_gate_parts *parts, uint32_t number, gs_gate_pointer flags) {
    void *last = parts->tails[number];
    int code = add_wait(parts->graph, &last, flags);
    return code ? code : gs_gate_parts_extend(parts, number, last);
}

/* ---- chains ---- */

struct kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *function;
    unsigned shape[6], shared_bytes;
    void **values, **extra;
    void *kernel, *context;
};

struct set_node { /* CUDA_MEMSET_NODE_PARAMS */
    gs_gate_pointer to;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
};

/* The memory of the next chain; 0: there is none. */
static gs_gate_pointer find_controls(gs_gate_chains *chains, void *stream) {
    enum { CHAINS = 32, BYTES = CONTROLS * CONTROL };
    gs_gate_pointer made = 0;
    if (!chains->controls && gs_gate_real.cuMemAlloc_v2(&made, CHAINS * BYTES) == GS_CUDA_OK) {
        if (gs_gate_real.cuMemsetD32Async(made, 0, CHAINS * BYTES / 4, stream) == GS_CUDA_OK)
            chains->controls = made;
        else
            gs_gate_real.cuMemFree_v2(made);
    }
    return chains->controls && chains->count < CHAINS ? chains->controls + chains->count * BYTES : 0;
}

/* Whether the node is a kernel that can be launched more than once, and how many blocks a cluster has. */
static bool read_kernel(void *node, struct kernel_node *kernel, unsigned *cluster) {
    enum { COOPERATIVE = 2, CLUSTER = 4, PREFERRED_CLUSTER = 11 };
    union {
        int flag;
        unsigned cluster[3];
        char bytes[64];
    } value = {0};
    int type;
    if (!gs_gate_real.cuGraphKernelNodeGetParams_v2 || !gs_gate_real.cuGraphKernelNodeGetAttribute ||
        !gs_gate_real.cuGraphKernelNodeCopyAttributes || !gs_gate_real.cuGraphAddKernelNode_v2 ||
        !gs_gate_real.cuGraphAddMemsetNode || !gs_gate_real.cuGraphDestroyNode ||
        gs_gate_real.cuGraphNodeGetType(node, &type) != GS_CUDA_OK || type != KERNEL_NODE ||
        gs_gate_real.cuGraphKernelNodeGetParams_v2(node, kernel) != GS_CUDA_OK || kernel->extra ||
        gs_gate_real.cuGraphKernelNodeGetAttribute(node, COOPERATIVE, &value) != GS_CUDA_OK || value.flag)
        return false;
    /* with a choice of two sizes a block may be in another cluster at each launch */
    memset(&value, 0, sizeof value);
    if (gs_gate_real.cuGraphKernelNodeGetAttribute(node, PREFERRED_CLUSTER, &value) == GS_CUDA_OK &&
        value.cluster[0] * value.cluster[1] * value.cluster[2] > 1)
        return false;
    memset(&value, 0, sizeof value);
    if (gs_gate_real.cuGraphKernelNodeGetAttribute(node, CLUSTER, &value) != GS_CUDA_OK)
        return false;
    *cluster = value.cluster[0] ? value.cluster[0] * value.cluster[1] * value.cluster[2] : 1;
    return *cluster;
}

/* The controls are set to what each launch starts with. Returns an error of the driver. */
static int add_set(gs_gate_parts *parts, uint32_t number, const gs_gate_guard *guard, gs_gate_pointer controls,
                   void **head) {
    struct set_node set = {.to = controls + CONTROL,
                           .value = guard->first,
                           .element_bytes = 4,
                           .width = CONTROL / 4 * guard->launches,
                           .height = 1};
    void *context = NULL, **before = calloc(parts->count + 1, sizeof *before);
    int code = before ? gs_gate_real.cuCtxGetCurrent(&context) : INVALID_VALUE;
    if (code == GS_CUDA_OK)
        code = gs_gate_real.cuGraphAddMemsetNode(head, parts->graph, before,
                                                 gs_gate_parts_before(parts, number, before), &set, context);
    free(before);
    return code;
}

/* The launches, with waits between them, behind `*last`, which becomes the last one. Returns an error of the driver. */
static int add_launches(gs_gate_parts *parts, uint32_t number, struct kernel_node *kernel, const gs_gate_guard *guard,
                        gs_gate_pointer flags, gs_gate_pointer controls, void **last) {
    gs_guard_parameter own = {.mask = guard->mask};
    void **given = kernel->values, **values = calloc(guard->parameter + (size_t)1, sizeof *values);
    int code = values && (given || !guard->parameter) ? GS_CUDA_OK : INVALID_VALUE;
    if (code == GS_CUDA_OK && guard->parameter)
        memcpy(values, given, guard->parameter * sizeof *values);
    kernel->values = values;
    kernel->function = guard->twin;
    kernel->kernel = kernel->context = NULL;
    for (uint32_t i = 0; i < guard->launches && code == GS_CUDA_OK; i++) {
        values[guard->parameter] = &own;
        own.control = controls + CONTROL * i;
        own.stop = i + 1 == guard->launches ? controls : flags;
        code = i ? add_wait(parts->graph, last, flags) : GS_CUDA_OK;
        void *before = *last;
        if (code == GS_CUDA_OK)
            code = gs_gate_real.cuGraphAddKernelNode_v2(last, parts->graph, &before, 1, kernel);
        if (code == GS_CUDA_OK)
            code = gs_gate_real.cuGraphKernelNodeCopyAttributes(*last, parts->heads[number]);
    }
    free(values);
    return code;
}

int gs_gate_node_guard(gs_gate_parts *parts, uint32_t number, int64_t ns, const gs_gate_work *work,
                       gs_gate_chains *chains) {
    struct kernel_node kernel = {0};
    void *head = NULL, *last;
    unsigned cluster = 1;
    if (!read_kernel(parts->heads[number], &kernel, &cluster))
        return GS_CUDA_OK;
    gs_gate_config launch = {.shared_bytes = kernel.shared_bytes};
    memcpy(launch.shape, kernel.shape, sizeof launch.shape);
    gs_gate_guard guard = gs_gate_guard_find(kernel.kernel ? kernel.kernel : kernel.function, &launch, cluster, ns);
    if (!guard.twin || guard.constants.bytes)
        return GS_CUDA_OK;
    gs_gate_pointer controls = find_controls(chains, work->stream);
    if (!controls)
        return GS_CUDA_OK;
    int code = add_set(parts, number, &guard, controls, &head);
    last = head;
    if (code == GS_CUDA_OK)
        code = add_launches(parts, number, &kernel, &guard, work->flags, controls, &last);
    if (code != GS_CUDA_OK)
        return code;
    chains->count++;
    gs_gate_twin_use(guard.twin);
    return gs_gate_parts_replace(parts, number, head, last);
}
