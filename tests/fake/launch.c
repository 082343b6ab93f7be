/*
 * launch.c: launches of the fake driver: on the modeled GPU, on the CPU, or of kernels that do nothing.
 */
#include "fake.h"

CU_SYMBOLS(FAKE_CALL)

enum { FAILING_LAUNCH = 3, MOST_URGENCY = 5, PORTABLE_CLUSTER = 8 };

/* ---- probe and timed kernels: on the modeled GPU ---- */

static bool attributes_are_right(const cu_launch *call, cu_function function, fake_launch *launch) {
    for (unsigned i = 0; i < call->attribute_count; i++) {
        const cu_attribute *attribute = &call->attributes[i];
        unsigned cluster = attribute->value.cluster.x;
        if (attribute->id == CU_LAUNCH_PRIORITY) {
            launch->urgency = -attribute->value.priority;
            if (launch->urgency < 0 || launch->urgency > MOST_URGENCY)
                return false;
        } else if (attribute->id == CU_LAUNCH_COOPERATIVE) {
            launch->is_cooperative = attribute->value.flag;
        } else if (attribute->id == CU_LAUNCH_PROGRAMMATIC) {
            launch->is_programmatic = attribute->value.flag;
        } else if (attribute->id != CU_LAUNCH_CLUSTER || !cluster || call->grid_x % cluster ||
                   fake.description->compute_capability[0] != '9' ||
                   (cluster > PORTABLE_CLUSTER && !function->any_cluster)) {
            return false;
        }
    }
    return true;
}

int fake_launch_probe(const cu_launch *call, cu_function function, const void *arguments, const fake_place *place) {
    const gs_limits *limits = &fake.description->limits;
    fake_launch launch = {.blocks = call->grid_x, .stream = call->stream, .urgency = -call->stream->priority};
    if (call->grid_y * call->grid_z * call->block_y * call->block_z != 1 || !call->grid_x || !call->block_x ||
        call->block_x > (unsigned)limits->threads_per_block ||
        call->shared_bytes > (unsigned)function->most_shared_bytes || !attributes_are_right(call, function, &launch))
        return FAKE_INVALID_VALUE;
    if (++fake.probes == FAILING_LAUNCH && fake_has("launch-fails"))
        return FAKE_OUT_OF_RESOURCES;
    if (function->kind == FAKE_TIMED)
        return fake_time(fake.description, function->body, function->count, call, arguments) ? 0
                                                                                             : FAKE_OUT_OF_RESOURCES;
    memcpy(&launch.arguments, arguments, sizeof launch.arguments);
    if (place)
        launch.node = *place;
    launch.shape = (gs_shape){.threads = (int32_t)call->block_x,
                              .registers = function->registers,
                              .shared_bytes = call->shared_bytes,
                              .local_bytes = function->local_bytes,
                              .carveout_percent = function->carveout_percent};
    return fake_gpu_launch(fake.gpu, &launch) ? 0 : FAKE_OUT_OF_RESOURCES;
}

uint64_t fake_gpu_next_id(size_t count) {
    static _Atomic uint64_t next = 1;
    return atomic_fetch_add(&next, count);
}

/* ---- kernels of libraries: on the CPU ---- */

/* A kernel of a library runs on the CPU, in the order of its stream. */
static int launch_library(const cu_launch *call, cu_function function, void **arguments) {
    enum { USUAL_SHARED = 48 << 10 };
    if (call->shared_bytes > USUAL_SHARED && call->shared_bytes > (unsigned)function->most_shared_bytes)
        return FAKE_INVALID_VALUE;
    if (fake_is_broken())
        return FAKE_ILLEGAL_ADDRESS;
    fake_step step = {.kind = FAKE_KERNEL,
                      .library = function->library,
                      .kernel = function->number,
                      .is_fault = function->is_fault,
                      .call = *call,
                      .sms = (uint32_t)fake.description->sms};
    fake_queue_add(fake_stream(call->stream)->queue, &step, arguments);
    return 0;
}

/* ---- kernels of cubins: they take their time, too ---- */

fake_blocks fake_blocks_of(const cu_launch *call, cu_function function, void **arguments) {
    int blocks;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)call->block_x, call->shared_bytes);
    fake_blocks made = {.count = call->grid_x * call->grid_y * call->grid_z,
                        .resident = (uint32_t)(blocks * fake.description->sms),
                        .us = function->us,
                        .counters = *(uint32_t **)arguments[0],
                        .is_guarded = function->is_guarded};
    if (function->is_guarded)
        made.guard = *(const gs_guard_parameter *)arguments[1];
    return made;
}

static int launch_cubin(const cu_launch *call, cu_function function, void **arguments) {
    fake_step step = {.kind = FAKE_BLOCKS, .blocks = fake_blocks_of(call, function, arguments)};
    fake.launches++;
    return fake_add_step(fake_stream(call->stream), &step);
}

/* ---- the kernel of src/sharing/gate/gate_keeper.c ---- */

static int launch_keeper(const cu_launch *call, void **arguments) {
    fake_keeper keeper;
    memcpy(&keeper.flags, arguments[0], sizeof keeper.flags);
    memcpy(&keeper.words, arguments[1], sizeof keeper.words);
    memcpy(&keeper.bit, arguments[2], sizeof keeper.bit);
    memcpy(&keeper.number, arguments[3], sizeof keeper.number);
    memcpy(&keeper.patience_ns, arguments[4], sizeof keeper.patience_ns);
    memcpy(&keeper.most_ns, arguments[5], sizeof keeper.most_ns);
    if (!keeper.bit && fake_has("unpaired"))
        return FAKE_OUT_OF_RESOURCES;
    fake.keepers += keeper.bit != 0;
    return fake_add_step(fake_stream(call->stream), &(fake_step){.kind = FAKE_KEEPER, .keeper = keeper});
}

/* ---- kernels without a module: they take their time ---- */

static int launch_named(const cu_launch *call, cu_function function, const fake_node *node, uint32_t correlation) {
    cu_stream stream = fake_stream(call->stream);
    fake.launches++;
    fake_tell_work(node, stream->id, correlation, 0);
    return fake_add_step(stream, &(fake_step){.kind = FAKE_NAP, .number = function->us});
}

/* ---- calls ---- */

fake_node fake_kernel_node(const cu_launch *call, cu_function function, void **arguments) {
    fake_node node = {
        .type = FAKE_NODE_KERNEL, .function = function, .call = *call, .priority = fake_stream(call->stream)->priority};
    if (function->kind == FAKE_PROBE)
        memcpy(&node.arguments, arguments[0], sizeof node.arguments);
    if (function->kind == FAKE_OF_CUBIN)
        node.blocks = fake_blocks_of(call, function, arguments);
    for (unsigned i = 0; i < call->attribute_count; i++) {
        const cu_attribute *attribute = &call->attributes[i];
        if (attribute->id == CU_LAUNCH_PRIORITY)
            node.priority = attribute->value.priority;
        if (attribute->id == CU_LAUNCH_CLUSTER)
            memcpy(node.cluster, &attribute->value.cluster, sizeof node.cluster);
        if (attribute->id == CU_LAUNCH_PROGRAMMATIC)
            node.edge_type = node.edge_port = (uint8_t)attribute->value.flag;
    }
    node.call.attributes = NULL;
    node.call.attribute_count = 0;
    return node;
}

static int launch(const cu_launch *call, cu_function function, void **arguments, uint32_t correlation) {
    cu_stream stream = fake_stream(call->stream);
    if (!fake_current())
        return FAKE_NOT_INITIALIZED;
    if (++fake.attempted % 5 == 0 && fake_has("refuses"))
        return FAKE_OUT_OF_RESOURCES;
    if (function->kind == FAKE_OF_LIBRARY && !stream->captured)
        return call->attribute_count ? FAKE_INVALID_VALUE : launch_library(call, function, arguments);
    if (function->kind == FAKE_OF_CUBIN && !stream->captured)
        return launch_cubin(call, function, arguments);
    if (function->kind == FAKE_OF_GATE)
        return launch_keeper(call, arguments);
    if (function->kind != FAKE_NAMED && !stream->captured)
        return fake_launch_probe(call, function, arguments[0], NULL);
    fake_node node = fake_kernel_node(call, function, arguments);
    return stream->captured ? fake_capture(stream, &node) : launch_named(call, function, &node, correlation);
}

#ifndef FAKE_OLD
int cuLaunchKernelEx(const cu_launch *call, cu_function function, void **arguments, void **extra) {
    const struct {
        const cu_launch *call;
        cu_function function;
        void **arguments, **extra;
    } parameters = {call, function, arguments, extra};
    fake_telling telling;
    if (extra && function->kind != FAKE_NAMED)
        return FAKE_INVALID_VALUE;
    fake_tell(&telling, "cuLaunchKernelEx", &parameters);
    return fake_told(&telling, launch(call, function, arguments, telling.call.correlation));
}
#endif

/* Kernels called kernel_N are always launched with 1 to 7: the last arguments come by the stack, and what jumps here
   must leave them alone. */
static bool is_untouched(cu_function function, const unsigned *numbers) {
    bool is_checked = function->us && function->kind == FAKE_NAMED && strncmp(function->name, "kernel_", 7) == 0;
    for (unsigned i = 0; i < 7 && is_checked; i++)
        if (numbers[i] != i + 1)
            return false;
    return true;
}

FAKE_VISIBLE cuLaunchKernel(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream,
                            void **arguments, void **extra) {
    const struct {
        cu_function function;
        unsigned numbers[7];
        cu_stream stream;
        void **arguments, **extra;
    } parameters = {
        function, {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes}, stream, arguments, extra};
    const cu_launch call = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, NULL, 0};
    fake_telling telling;
    if (!is_untouched(function, parameters.numbers))
        return FAKE_INVALID_VALUE;
    fake_tell(&telling, "cuLaunchKernel", &parameters);
    return fake_told(&telling, launch(&call, function, arguments, telling.call.correlation));
}

FAKE_VISIBLE cuLaunchKernel_ptsz(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 cu_stream stream, void **arguments, void **extra) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments,
                          extra);
}
