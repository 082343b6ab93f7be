/*
 * operations.c: copies, fills and launches: from the request to the lane, and from the lane to the report.
 */
#include "loop.h"

#include <stdlib.h>

/* ---- lanes ---- */

gs_lane *gs_lane_take(gs_worker_loop *loop) {
    gs_lane *lane = loop->free_lanes;
    if (!lane)
        return gs_loop_need(loop, loop->backend->lane_new(loop->device));
    loop->free_lanes = lane->next;
    return lane;
}

void gs_lane_give_back(gs_worker_loop *loop, gs_lane *lane) {
    lane->next = loop->free_lanes;
    loop->free_lanes = lane;
}

bool gs_lane_is_done(const gs_lane *lane, uint32_t number) {
    return (int32_t)(atomic_load_explicit(lane->done, memory_order_acquire) - number) >= 0;
}

bool gs_lane_has_failed(gs_lane *lane, uint32_t number) {
    uint32_t bit = number % GS_LANE_FAILURES;
    uint64_t mask = (uint64_t)1 << bit % 64;
    return atomic_load_explicit(&lane->failed[bit / 64], memory_order_relaxed) & mask &&
           atomic_fetch_and(&lane->failed[bit / 64], ~mask) & mask;
}

/* ---- the end of an operation, and of the process ---- */

/* The tag of the only launch on the device, or of the one just `given` to it. GS_NO_TAG: there are several, or none, or
   the failure is not the device's but the process's own. */
static uint64_t suspect_tag(const gs_worker_loop *loop, const gs_error *error, const struct operation *given) {
    if (error->code != GS_E_KERNEL)
        return GS_NO_TAG;
    uint64_t found = given && given->launch ? given->request->tag : GS_NO_TAG;
    for (const struct queue *queue = loop->queues; queue; queue = queue->next) {
        const struct operation *operation = queue->confined ? queue->confined->operation : queue->in_flight.first;
        if (!operation || !operation->launch || operation == given)
            continue;
        if (found != GS_NO_TAG)
            return GS_NO_TAG;
        found = operation->request->tag;
    }
    return found;
}

/* A failing call may be the first sign that the device is broken. */
void gs_loop_fail(gs_worker_loop *loop, const gs_error *error) {
    gs_error reason;
    if (loop->device && loop->backend->check(loop->device, &reason) != GS_OK)
        error = &reason;
    gs_loop_give_up(loop, error->code, suspect_tag(loop, error, NULL), error->message);
}

static void free_operation(gs_worker_loop *loop, struct operation *operation) {
    gs_loop_resource_let_go(loop, operation->resource);
    gs_loop_resource_let_go(loop, operation->region);
    for (uint32_t i = 0; operation->launch && i < operation->launch->argument_count; i++)
        gs_loop_resource_let_go(loop, operation->memories[i]);
    free(operation);
    loop->freed++;
}

void gs_operation_end(gs_worker_loop *loop, struct operation *operation, gs_worker_report *report) {
    report->kind = operation->launch ? GS_REPORT_RAN : GS_REPORT_COPIED;
    report->tag = operation->request->tag;
    if (operation->launch && report->code == GS_OK)
        report->cost = operation->resource->loaded->kernels[operation->launch->kernel].cost;
    gs_loop_report(loop, report);
    free_operation(loop, operation);
}

/* The device refused it. If the device itself is broken, the process ends. */
void gs_operation_fail(gs_worker_loop *loop, struct operation *operation, const gs_error *error) {
    gs_error reason;
    gs_worker_report report = {
        .code = error->code, .began_ns = (uint64_t)loop->now_ns, .ended_ns = (uint64_t)loop->now_ns};
    if (loop->backend->check(loop->device, &reason) != GS_OK)
        gs_loop_give_up(loop, reason.code, suspect_tag(loop, &reason, operation), reason.message);
    snprintf(report.message, sizeof report.message, "%.199s", error->message);
    gs_operation_end(loop, operation, &report);
}

/* ---- from the request ---- */

static void hold_arguments(gs_worker_loop *loop, struct operation *operation) {
    gs_launch_argument_view argument;
    uint32_t at = 0, count = operation->launch->argument_count;
    memset(operation->memories, 0, count * sizeof *operation->memories);
    for (uint32_t i = 0; i < count; i++) {
        if (!gs_launch_next(operation->launch, &at, &argument)) {
            operation->is_wrong = true;
            return;
        }
        if (!argument.memory)
            continue;
        operation->memories[i] = gs_loop_resource_hold(loop, MEMORY, argument.memory);
        operation->is_wrong = operation->is_wrong || !operation->memories[i];
    }
    operation->is_wrong = operation->is_wrong || at != operation->launch->argument_bytes;
}

static bool is_launch_whole(const gs_worker_launch *launch, uint32_t bytes) {
    return bytes >= offsetof(gs_worker_launch, arguments) && launch->argument_count <= GS_CLIENT_ARGUMENTS &&
           launch->argument_bytes <= GS_LAUNCH_BYTES &&
           bytes == offsetof(gs_worker_launch, arguments) + launch->argument_bytes;
}

struct operation *gs_operation_new(gs_worker_loop *loop, const void *request, uint32_t bytes) {
    bool is_launch = ((const gs_worker_request *)request)->kind == GS_REQUEST_LAUNCH;
    if (is_launch ? !is_launch_whole(request, bytes) : bytes != sizeof(gs_worker_request))
        gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "invalid request");
    uint32_t arguments = is_launch ? ((const gs_worker_launch *)request)->argument_count : 0;
    uint32_t memories_at = (bytes + 7) / 8 * 8;
    struct operation *operation =
        gs_loop_need(loop, malloc(sizeof *operation + memories_at + arguments * sizeof(struct resource *)));
    *operation = (struct operation){.next = NULL};
    memcpy(operation->record, request, bytes);
    operation->request = (gs_worker_request *)(void *)operation->record;
    operation->launch = is_launch ? (gs_worker_launch *)(void *)operation->record : NULL;
    operation->memories = (struct resource **)(void *)(operation->record + memories_at);
    operation->resource = gs_loop_resource_hold(loop, is_launch ? MODULE : MEMORY, operation->request->handle);
    operation->is_wrong = !operation->resource;
    if (operation->request->kind == GS_REQUEST_COPY) {
        operation->region = gs_loop_resource_hold(loop, REGION, operation->request->region);
        operation->is_wrong = operation->is_wrong || !operation->region;
    }
    if (is_launch)
        hold_arguments(loop, operation);
    return operation;
}

bool gs_operation_is_ready(const struct operation *operation, gs_error *error) {
    const struct resource *both[] = {operation->resource, operation->region};
    bool is_coming = false, has_failed = operation->is_wrong;
    for (size_t i = 0; i < GS_COUNT(both); i++) {
        is_coming = is_coming || (both[i] && both[i]->state == COMING);
        has_failed = has_failed || (both[i] && both[i]->state == FAILED);
    }
    for (uint32_t i = 0; operation->launch && i < operation->launch->argument_count; i++) {
        const struct resource *memory = operation->memories[i];
        is_coming = is_coming || (memory && memory->state == COMING);
        has_failed = has_failed || (memory && memory->state == FAILED);
    }
    if (has_failed)
        gs_fail(error, GS_E_USAGE,
                operation->region && operation->region->state == FAILED ? "the shared host memory could not be mapped"
                                                                        : "unknown memory, region or module");
    return !is_coming;
}

static gs_code check_arguments(const struct operation *operation, const gs_loaded_kernel *kernel, gs_error *error) {
    gs_launch_argument_view argument;
    uint32_t at = 0;
    for (uint32_t i = 0; gs_launch_next(operation->launch, &at, &argument); i++) {
        if (argument.bytes != kernel->sizes[i])
            return gs_fail(error, GS_E_USAGE, "parameter %u has %u bytes, its argument %u", i + 1, kernel->sizes[i],
                           argument.bytes);
        if (operation->memories[i] && argument.at > operation->memories[i]->bytes)
            return gs_fail(error, GS_E_USAGE, "argument %u points outside its memory", i + 1);
    }
    return GS_OK;
}

/* What cuBLAS does depends on how matrices are aligned, and it was tried with matrices that are aligned so when it was
   loaded. Memory is; so offsets must be. */
static gs_code check_product(const struct operation *operation, const gs_product *product, gs_error *error) {
    enum { ALIGNMENT = 256 };
    gs_launch_argument_view argument;
    uint32_t at = 0;
    for (uint32_t i = 0; gs_launch_next(operation->launch, &at, &argument); i++) {
        const struct resource *memory = operation->memories[i];
        uint64_t bytes = gs_product_bytes(product, i);
        if (!memory)
            return gs_fail(error, GS_E_USAGE, "argument %u of a product must be memory", i + 1);
        if (argument.at % ALIGNMENT)
            return gs_fail(error, GS_E_USAGE, "argument %u of a product must be at a multiple of %d bytes", i + 1,
                           ALIGNMENT);
        if (!gs_is_within(argument.at, bytes, memory->bytes))
            return gs_fail(error, GS_E_USAGE, "argument %u of the product needs %llu bytes, its memory has %llu", i + 1,
                           (unsigned long long)bytes,
                           (unsigned long long)(memory->bytes - gs_min_u64(argument.at, memory->bytes)));
    }
    return GS_OK;
}

gs_code gs_operation_check_launch(const struct operation *operation, gs_error *error) {
    const gs_worker_launch *launch = operation->launch;
    const gs_loaded *loaded = operation->resource->loaded;
    const uint32_t *grid = launch->grid, *block = launch->block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (launch->kernel >= loaded->kernel_count)
        return gs_fail(error, GS_E_USAGE, "the module has no kernel %u", launch->kernel);
    const gs_loaded_kernel *kernel = &loaded->kernels[launch->kernel];
    if (launch->form != GS_LAUNCH_ORIGINAL && !kernel->can_be_confined)
        return gs_fail(error, GS_E_USAGE, "this kernel cannot be confined");
    if (!grid[0] || !grid[1] || !grid[2] || grid[1] > 65535 || grid[2] > 65535 || grid[0] > INT32_MAX || !threads ||
        threads > 1024 || block[2] > 64)
        return gs_fail(error, GS_E_USAGE, "invalid grid (%u, %u, %u) of blocks (%u, %u, %u)", grid[0], grid[1], grid[2],
                       block[0], block[1], block[2]);
    if (launch->argument_count != kernel->parameters)
        return gs_fail(error, GS_E_USAGE, "the kernel has %u parameters, but %u arguments were given",
                       kernel->parameters, launch->argument_count);
    gs_code code = check_arguments(operation, kernel, error);
    return code == GS_OK && kernel->product.rows ? check_product(operation, &kernel->product, error) : code;
}

/* ---- to the lane ---- */

gs_confined_parameter gs_operation_grid(const gs_worker_launch *launch, const gs_control *control, uint64_t counts) {
    enum { USUAL_TASK = 10 };
    return gs_control_grid(control, launch->grid, launch->shared_bytes,
                           launch->task_blocks ? launch->task_blocks : USUAL_TASK, counts);
}

static uint32_t count_sms(const uint32_t *mask) {
    uint32_t count = 0;
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++)
        count += (uint32_t)__builtin_popcount(mask[i]);
    return count;
}

gs_code gs_operation_launch(gs_worker_loop *loop, gs_lane *lane, struct operation *operation, struct confined *confined,
                            gs_error *error) {
    void *arguments[GS_CLIENT_ARGUMENTS + 1];
    uint64_t addresses[GS_CLIENT_ARGUMENTS];
    gs_worker_launch *launch = operation->launch;
    gs_launch_argument_view argument;
    uint32_t count = 0;
    for (uint32_t at = 0; gs_launch_next(launch, &at, &argument); count++) {
        if (operation->memories[count])
            addresses[count] = operation->memories[count]->address + argument.at;
        arguments[count] = operation->memories[count] ? (void *)&addresses[count] : (void *)(uintptr_t)argument.value;
    }
    gs_confined_parameter grid;
    if (!confined && gs_lane_loops(lane, launch))
        grid = gs_operation_grid(launch, &(gs_control){.next = lane->counter}, 0);
    if (confined || gs_lane_loops(lane, launch))
        arguments[count] = confined ? &confined->grid : &grid;
    return loop->backend->launch(loop->device, lane, &operation->resource->loaded->kernels[launch->kernel], launch,
                                 arguments, confined ? confined->control : NULL,
                                 confined ? count_sms(confined->mask) : 0, error);
}

gs_code gs_operation_give(gs_worker_loop *loop, gs_lane *lane, struct operation *operation, gs_error *error) {
    const gs_worker_request *request = operation->request;
    if (operation->launch)
        return gs_operation_launch(loop, lane, operation, NULL, error);
    if (!gs_is_within(request->at, request->bytes, operation->resource->bytes) ||
        (operation->region && !gs_is_within(request->region_at, request->bytes, operation->region->bytes)))
        return gs_fail(error, GS_E_USAGE, "a copy or fill exceeds its memory");
    uint64_t address = operation->resource->address + request->at;
    if (!operation->region)
        return loop->backend->fill(loop->device, lane, address, (uint8_t)request->value, request->bytes, error);
    return loop->backend->copy(loop->device, lane, request->is_in, address,
                               (char *)operation->region->pointer + request->region_at, request->bytes, error);
}
