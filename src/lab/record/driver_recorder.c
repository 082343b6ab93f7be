/*
 * driver_recorder.c: the work of a hook: it notes the call, lets the driver make it, and puts a record into a queue.
 *
 * Threads of the program only copy a record into the queue, in some tens of nanoseconds. A thread of the recorder turns
 * records into lines. The queue is a list of blocks, so that nothing moves when it grows.
 *
 * InitializeInjection, which searches for CUPTI while CUDA starts, calls gridsmith_record_here if there is none. With
 * `--through driver` there is no injection, and GS_TRACE_THROUGH says so.
 *
 * The child of a recorded process is not recorded after fork(): CUDA does not work there either.
 */
#define _GNU_SOURCE
#include "driver_work.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_RECORDS = 512, MOST_SPARE = 32, WRITE_MS = 100 };

struct item {
    gs_driver_record record;
    gs_host_launch launch;
};

struct block {
    struct block *next;
    size_t count;
    struct item items[BLOCK_RECORDS];
};

static struct state {
    gs_driver_queries driver;
    atomic_bool is_wanted, has_started, is_on;

    pthread_mutex_t queue_lock;
    struct block *first, *last, *spare;
    int spare_count;
    uint64_t lost; /* records dropped for lack of memory */

    pthread_mutex_t names_lock;
    gs_number_map contexts; /* of a context: its number << 32 | its GPU */
    gs_number_map execs;    /* of an executable graph: its gs_driver_graph */
} state = {.queue_lock = GS_SHORT_LOCK, .names_lock = GS_SHORT_LOCK};

static gs_recorder recorder = GS_RECORDER_INITIALIZER;

/* ---- the queue ---- */

/* With the queue locked: a block with space. */
static struct block *block_with_space(void) {
    if (state.last && state.last->count < BLOCK_RECORDS)
        return state.last;
    struct block *made = state.spare ? state.spare : malloc(sizeof *made);
    if (!made)
        return NULL;
    if (made == state.spare) {
        state.spare = made->next;
        state.spare_count--;
    }
    made->next = NULL;
    made->count = 0;
    if (state.last)
        state.last->next = made;
    else
        state.first = made;
    return state.last = made;
}

/* The writer used this memory, so it is in the caches of another core: it is prefetched for the next record. */
static void prefetch_item(const struct item *item) {
    enum { LINE = 64 };
    for (size_t at = 0; at < sizeof *item; at += LINE)
        __builtin_prefetch((const char *)item + at, 1);
}

static void add_record(const gs_driver_record *record, gs_host_launch *launch) {
    pthread_mutex_lock(&state.queue_lock);
    struct block *block = block_with_space();
    if (block)
        block->items[block->count++] = (struct item){*record, *launch};
    else
        state.lost++;
    if (block && block->count < BLOCK_RECORDS)
        prefetch_item(&block->items[block->count]);
    pthread_mutex_unlock(&state.queue_lock);
    if (!block)
        gs_host_launch_clear(launch);
}

static struct block *take_queue(void) {
    pthread_mutex_lock(&state.queue_lock);
    struct block *first = state.first;
    state.first = state.last = NULL;
    recorder.status->dropped += state.lost;
    state.lost = 0;
    pthread_mutex_unlock(&state.queue_lock);
    return first;
}

static void keep_block(struct block *block) {
    pthread_mutex_lock(&state.queue_lock);
    bool is_kept = state.spare_count < MOST_SPARE;
    if (is_kept) {
        block->next = state.spare;
        state.spare = block;
        state.spare_count++;
    }
    pthread_mutex_unlock(&state.queue_lock);
    if (!is_kept)
        free(block);
}

/* ---- writing ---- */

/* Both kinds of copies, and kernels, have these at different offsets. */
static void place_record(gs_driver_record *record, uint32_t context, uint32_t device, uint32_t stream) {
    if (record->kind == CUPTI_KERNEL) {
        record->kernel.context = context;
        record->kernel.device = device;
        record->kernel.stream = stream;
    } else if (record->kind == CUPTI_MEMCPY) {
        record->copy.context = context;
        record->copy.device = device;
        record->copy.stream = stream;
    } else {
        record->set.context = context;
        record->set.device = device;
        record->set.stream = stream;
    }
}

static void place_node(gs_driver_record *record, uint32_t graph, uint32_t position) {
    if (record->kind == CUPTI_KERNEL) {
        record->kernel.graph = graph;
        record->kernel.graph_node = position;
    } else if (record->kind == CUPTI_MEMCPY) {
        record->copy.graph = graph;
        record->copy.graph_node = position;
    } else {
        record->set.graph = graph;
        record->set.graph_node = position;
    }
}

/* The launch has the shape of the graph, unless the graph was changed in another thread at the same time. */
static void write_graph(const struct gs_driver_launch *made, const gs_host_launch *launch) {
    gs_driver_graph *graph = made->graph;
    for (uint32_t i = 0; i < graph->count && launch->shape && i < launch->shape->count; i++) {
        gs_driver_record record = graph->nodes[i];
        gs_host_launch node;
        gs_host_launch_node(launch, &launch->shape->nodes[i], &node);
        place_record(&record, made->context, made->device, launch->stream);
        place_node(&record, graph->number, i + 1);
        gs_recorder_record_now(&recorder, &record, &node);
        free(node.after);
        gs_graph_shape_release(node.shape);
    }
    gs_driver_graph_release(graph);
}

static void write_block(struct block *block) {
    for (size_t i = 0; i < block->count; i++) {
        struct item *item = &block->items[i];
        if (item->record.kind == GS_DRIVER_GRAPH)
            write_graph(&item->record.graph, &item->launch);
        else
            gs_recorder_record_now(&recorder, &item->record, &item->launch);
        gs_host_launch_clear(&item->launch);
    }
}

static void write_queue(void) {
    pthread_mutex_lock(&recorder.file_lock);
    for (struct block *block = take_queue(), *next; block; block = next) {
        next = block->next;
        write_block(block);
        keep_block(block);
    }
    gs_recorder_write(&recorder);
    pthread_mutex_unlock(&recorder.file_lock);
}

/* ---- contexts ---- */

/* The number of a context, counted from 1, and its GPU: context << 32 | GPU. */
static uint64_t find_context(void *handle) {
    pthread_mutex_lock(&state.names_lock);
    uint64_t *found = gs_number_map_add(&state.contexts, (uint64_t)(uintptr_t)handle | 1);
    if (found && !*found) {
        int current = 0;
        if (!state.driver.cuCtxGetDevice || state.driver.cuCtxGetDevice(&current) != GS_CUDA_OK)
            current = 0;
        *found = (uint64_t)state.contexts.count << 32 | (uint32_t)current;
    }
    uint64_t number = found ? *found : 0;
    pthread_mutex_unlock(&state.names_lock);
    return number;
}

/* A thread rarely changes its context. */
static uint64_t number_of(void *handle) {
    static _Thread_local struct {
        void *handle;
        uint64_t number;
    } latest;
    if (!latest.number || latest.handle != handle) {
        latest.number = find_context(handle);
        latest.handle = handle;
    }
    return latest.number;
}

static void *current_context(void) {
    void *context = NULL;
    if (state.driver.cuCtxGetCurrent)
        state.driver.cuCtxGetCurrent(&context);
    return context;
}

/* ---- launches ---- */

static bool is_programmatic(const gs_launch_config *config) {
    enum { ATTRIBUTE_BYTES = 72, VALUE_AT = 8, SERIALIZATION = 6 };
    for (unsigned i = 0; config && config->attributes && i < config->attribute_count; i++) {
        int attribute[3];
        memcpy(attribute, config->attributes + (size_t)i * ATTRIBUTE_BYTES, sizeof attribute);
        if (attribute[0] == SERIALIZATION)
            return attribute[VALUE_AT / sizeof *attribute] != 0;
    }
    return false;
}

void gs_driver_before(gs_driver_work *work) {
    work->context = current_context();
    gs_host_call made = {.call = work->call,
                         .context = work->context,
                         .stream = work->stream,
                         .other = work->other,
                         .at_ns = gs_recorder_now_ns(),
                         .is_programmatic = is_programmatic(work->config)};
    work->is_launch = gs_recorder_call_now(&recorder, &made, &work->launch);
}

static gs_driver_record kernel_record(const gs_driver_work *work) {
    enum { ATTRIBUTE_BYTES = 72, VALUE_AT = 8 };
    const gs_launch_config *config = work->config;
    gs_driver_function function = gs_driver_function_get(&state.driver, work->function);
    gs_driver_record record = gs_driver_kernel(&function, work->shape, work->shared_bytes);
    for (unsigned i = 0; config && config->attributes && i < config->attribute_count; i++) {
        int attribute, value[3];
        memcpy(&attribute, config->attributes + (size_t)i * ATTRIBUTE_BYTES, sizeof attribute);
        memcpy(value, config->attributes + (size_t)i * ATTRIBUTE_BYTES + VALUE_AT, sizeof value);
        gs_driver_kernel_attribute(&record.kernel, attribute, value);
    }
    if (work->is_cooperative)
        record.kernel.launch_type = CUPTI_COOPERATIVE;
    return record;
}

/* Nothing is recorded of a graph that could not be read. */
static bool graph_record(const gs_driver_work *work, gs_driver_record *record) {
    pthread_mutex_lock(&state.names_lock);
    const uint64_t *found = gs_number_map_find(&state.execs, (uint64_t)(uintptr_t)work->other);
    gs_driver_graph *graph = found ? (gs_driver_graph *)(uintptr_t)*found : NULL;
    if (graph)
        graph->references++;
    pthread_mutex_unlock(&state.names_lock);
    *record = (gs_driver_record){.graph = {.kind = GS_DRIVER_GRAPH, .graph = graph}};
    return graph;
}

/* The work of a launch; false: not known. */
static bool record_of(const gs_driver_work *work, gs_driver_record *record) {
    uint64_t number = number_of(work->context);
    uint32_t context = (uint32_t)(number >> 32), device = (uint32_t)number;
    if (work->call->kind == GS_CALL_GRAPH) {
        if (!graph_record(work, record))
            return false;
        record->graph.context = context;
        record->graph.device = device;
        return true;
    }
    *record = work->function ? kernel_record(work) : work->record;
    place_record(record, context, device, work->launch.stream);
    return true;
}

void gs_driver_after(gs_driver_work *work, int result) {
    gs_driver_record record;
    if (!work->is_launch)
        return;
    if (result != GS_CUDA_OK)
        gs_recorder_failed_now(&recorder, &work->launch);
    else if (record_of(work, &record))
        add_record(&record, &work->launch);
    else
        gs_host_launch_clear(&work->launch);
}

/* ---- streams and graphs ---- */

void gs_driver_stream_new(void *stream, unsigned flags, int priority) {
    enum { NON_BLOCKING = 1 };
    gs_recorder_stream(&recorder, current_context(), stream, !(flags & NON_BLOCKING), priority);
}

void gs_driver_exec(void *exec, void *graph) {
    gs_graph_shape *shape = NULL;
    gs_driver_graph *made = graph ? gs_driver_graph_read(&state.driver, graph, &shape) : NULL;
    uint64_t key = (uint64_t)(uintptr_t)exec;
    gs_recorder_exec(&recorder, exec, shape);
    pthread_mutex_lock(&state.names_lock);
    uint64_t *found = made ? gs_number_map_add(&state.execs, key) : gs_number_map_find(&state.execs, key);
    gs_driver_graph *old = found ? (gs_driver_graph *)(uintptr_t)*found : made;
    if (found && made)
        *found = (uint64_t)(uintptr_t)made;
    else if (found)
        gs_number_map_remove(&state.execs, key);
    pthread_mutex_unlock(&state.names_lock);
    gs_driver_graph_release(old);
}

/* ---- beginning and end ---- */

/* Locks of other threads may be held in a forked child. */
static void leave_alone(void) {
    atomic_store(&state.has_started, false);
    atomic_store(&state.is_on, false);
}

static void finish_recording(void) {
    if (!gs_recorder_is_here(&recorder))
        return;
    leave_alone();
    gs_recorder_finish(&recorder, write_queue);
}

static void start_recording(void) {
    gs_recorder_open(&recorder, 0);
    gs_recorder_start(&recorder, write_queue, WRITE_MS);
    atexit(finish_recording);
    pthread_atfork(NULL, NULL, leave_alone);
    atomic_store(&state.has_started, true);
    atomic_store(&state.is_on, true);
}

/* The injection library calls it if there is no CUPTI. */
__attribute__((visibility("default"))) void gridsmith_record_here(void);
void gridsmith_record_here(void) {
    atomic_store(&state.is_wanted, true);
}

/* For programs that record only a part of their run: 0 stops the recorder, any other value restarts it. */
__attribute__((visibility("default"))) void gridsmith_record(int is_on);
void gridsmith_record(int is_on) {
    if (atomic_load(&state.has_started))
        atomic_store(&state.is_on, is_on != 0);
}

void gs_driver_recorder_ready(void) {
    const char *through = getenv(GS_TRACE_THROUGH);
#define RESOLVE(name, arguments)                                                                                       \
    {                                                                                                                  \
        gs_front_function *function = gs_front_driver_symbol(#name);                                                   \
        memcpy(&state.driver.name, &function, sizeof function);                                                        \
    }
    GS_DRIVER_QUERIES(RESOLVE)
#undef RESOLVE
    atomic_store(&state.is_wanted, through && strcmp(through, "driver") == 0);
}

void gs_driver_recorder_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (atomic_load(&state.is_wanted) && getenv(GS_TRACE_OUTPUT))
        pthread_once(&once, start_recording);
}

const gs_driver_queries *gs_driver_recorder_driver(void) {
    return &state.driver;
}

bool gs_driver_recorder_is_on(void) {
    return atomic_load_explicit(&state.is_on, memory_order_relaxed);
}
