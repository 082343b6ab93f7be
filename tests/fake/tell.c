/*
 * tell.c: tells CUPTI (cupti.c) what the fake driver is asked for, and what is done.
 *
 * CUPTI is connected when the driver starts with a library that uses it. Without it nothing is told.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <time.h>

enum { CONTEXT_ID = 1 };

static struct {
    void (*call)(uint32_t, const cupti_call *);
    void (*graph)(uint32_t, const cupti_graph *);
    void (*record)(const void *, size_t);
    atomic_uint correlation;
} cupti;

static void find(void *library, const char *name, void *function) {
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
}

void fake_connect_cupti(void) {
    void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    find(library, "fake_cupti_call", &cupti.call);
    find(library, "fake_cupti_graph", &cupti.graph);
    find(library, "fake_cupti_record", &cupti.record);
}

/* ---- calls ---- */

static uint32_t number_of(const char *function) {
    for (size_t i = 0; i < gs_call_count; i++)
        if (strcmp(gs_calls[i].symbol, function) == 0 && gs_calls[i].domain == CUPTI_DRIVER && !gs_calls[i].per_thread)
            return gs_calls[i].id;
    return 0;
}

void fake_tell(fake_telling *telling, const char *function, const void *parameters) {
    *telling = (fake_telling){.call = {.site = CUPTI_ENTER,
                                       .function = function,
                                       .parameters = parameters,
                                       .context = &cupti,
                                       .context_id = CONTEXT_ID,
                                       .correlation = ++cupti.correlation}};
    telling->call.result = &telling->result;
    if (!cupti.call)
        return;
    telling->number = number_of(function);
    cupti.call(telling->number, &telling->call);
}

int fake_told(fake_telling *telling, int result) {
    telling->result = result;
    telling->call.site = CUPTI_EXIT;
    if (cupti.call)
        cupti.call(telling->number, &telling->call);
    return result;
}

void fake_tell_graph(uint32_t number, const cupti_graph *graph) {
    if (cupti.graph)
        cupti.graph(number, graph);
}

/* ---- work ---- */

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static cupti_kernel kernel_record(const fake_node *node) {
    const cu_launch *call = &node->call;
    const struct cu_function *function = node->function;
    bool has_carveout = function->carveout_percent >= 0;
    return (cupti_kernel){.kind = CUPTI_KERNEL,
                          .registers = (uint16_t)function->registers,
                          .context = CONTEXT_ID,
                          .name = function->name,
                          .grid = {(int32_t)call->grid_x, (int32_t)call->grid_y, (int32_t)call->grid_z},
                          .block = {(int32_t)call->block_x, (int32_t)call->block_y, (int32_t)call->block_z},
                          .static_shared_bytes = function->shared_bytes,
                          .dynamic_shared_bytes = (int32_t)call->shared_bytes,
                          .shared_executed_bytes = strstr(function->name, "impossible") ? 8192 : 65536,
                          .local_bytes = (uint32_t)function->local_bytes,
                          .cache_config = (uint8_t)function->cache_config,
                          .has_carveout = has_carveout,
                          .carveout_percent = has_carveout ? (uint8_t)function->carveout_percent : 0,
                          .cluster = {node->cluster[0], node->cluster[1], node->cluster[2]}};
}

/* As long as a record of CUPTI 13 is. */
struct long_record {
    cupti_kernel kernel;
    char more[24];
};

void fake_tell_work(const fake_node *node, uint32_t stream, uint32_t correlation, uint32_t graph) {
    uint64_t start = clock_ns(), id = graph ? node->id : 0;
    if (!cupti.record)
        return;
    if (node->type == FAKE_NODE_KERNEL) {
        struct long_record record = {.kernel = kernel_record(node)};
        record.kernel.stream = stream;
        record.kernel.correlation = correlation;
        record.kernel.start = start;
        record.kernel.end = start + 1500;
        record.kernel.graph = graph;
        record.kernel.graph_node = id;
        cupti.record(&record, sizeof record);
    } else if (node->type == FAKE_NODE_COPY) {
        cupti_memcpy record = {.kind = CUPTI_MEMCPY,
                               .copy_kind = node->copy_kind,
                               .bytes = node->bytes,
                               .start = start,
                               .end = start + 700,
                               .context = CONTEXT_ID,
                               .stream = stream,
                               .correlation = correlation,
                               .graph = graph,
                               .graph_node = id};
        cupti.record(&record, sizeof record);
    } else if (node->type == FAKE_NODE_SET) {
        cupti_memset record = {.kind = CUPTI_MEMSET,
                               .bytes = node->bytes,
                               .start = start,
                               .end = start + 300,
                               .context = CONTEXT_ID,
                               .stream = stream,
                               .correlation = correlation,
                               .graph = graph,
                               .graph_node = id};
        cupti.record(&record, sizeof record);
    }
}
