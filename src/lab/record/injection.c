/*
 * injection.c: InitializeInjection, which the driver calls when the program starts CUDA: recording begins here.
 *
 * Threads of the program enter through on_callback, before and after each call listed in calls.c. CUPTI's own thread
 * enters through on_buffer, with records; so does the thread of the recorder, which requests them twice a second, so
 * that a crash loses little, and writes the ranges of nvtx.c.
 *
 * A forked child is not recorded: CUDA does not work there either. A child that executes a program is recorded anew.
 *
 * CUPTI passes no user data to the buffer functions, so there is one global variable.
 */
#define _GNU_SOURCE
#include "recorder.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CALLS = 1024,
    FLUSH_MS = 500,
    BUFFER_BYTES = 1 << 17, /* about 600 kernels */
    MOST_BUFFERS = 32
};

static struct injection {
    cupti_api cupti;
    void *subscriber;
    gs_graph_reader reader;
    const gs_call *calls[CUPTI_RUNTIME + 1][MOST_CALLS]; /* by CUPTI's number */

    pthread_mutex_t buffer_lock;
    uint8_t *buffers[MOST_BUFFERS]; /* unused and zeroed */
    int buffer_count;
} injection = {.buffer_lock = GS_SHORT_LOCK};

static gs_recorder recorder = GS_RECORDER_INITIALIZER;

/* The state of a thread in CUDA: calls of the runtime make calls of the driver. */
static _Thread_local struct calling {
    int depth;
    uint32_t correlation; /* of the outermost call, if that launches something; otherwise 0 */
    struct clone {
        uint64_t id, original;
    } * clones; /* of the graph that is being instantiated */
    size_t clone_count, clone_capacity;
} calling;

/* ---- calls ---- */

static void *pointer_at(const void *parameters, int offset) {
    void *found;
    memcpy(&found, (const char *)parameters + offset, sizeof found);
    return found;
}

/* CUlaunchConfig, and the runtime's cudaLaunchConfig_t, from the stream on. */
struct config {
    char sizes[32];
    void *stream;
    const char *attributes;
    unsigned attribute_count;
};

/* Whether the launch may start before the kernel before it has ended (programmatic dependent launch). */
static bool is_programmatic(const struct config *config) {
    enum { ATTRIBUTE_BYTES = 72, VALUE_AT = 8, SERIALIZATION = 6 };
    for (unsigned i = 0; i < config->attribute_count && config->attributes; i++) {
        const char *attribute = config->attributes + (size_t)i * ATTRIBUTE_BYTES;
        if (gs_int_at(attribute, 0) == SERIALIZATION)
            return gs_int_at(attribute, VALUE_AT) != 0;
    }
    return false;
}

static gs_host_call describe_call(const gs_call *row, const cupti_call *call) {
    gs_host_call made = {
        .call = row, .context = call->context, .correlation = call->correlation, .at_ns = gs_recorder_now_ns()};
    if (row->stream_at == GS_STREAM_IN_CONFIG) {
        const struct config *config = pointer_at(call->parameters, 0);
        made.stream = config->stream;
        made.is_programmatic = is_programmatic(config);
    } else if (row->stream_at >= 0) {
        made.stream = pointer_at(call->parameters, row->stream_at);
    }
    if (row->kind != GS_CALL_LAUNCH)
        made.other = pointer_at(call->parameters, row->other_at);
    return made;
}

static void enter_order(const gs_call *row, const cupti_call *call) {
    gs_host_call made = describe_call(row, call);
    uint64_t id = gs_recorder_call(&recorder, &made);
    calling.correlation = id ? call->correlation : 0;
}

static void read_stream(const gs_call *row, const cupti_call *call) {
    enum { NON_BLOCKING = 1 };
    void **stream = pointer_at(call->parameters, 0);
    int priority = row->other_at == GS_NO_PRIORITY ? 0 : gs_int_at(call->parameters, row->other_at);
    int flags = row->stream_at == GS_STREAM_NONE ? 0 : gs_int_at(call->parameters, row->stream_at);
    if (stream)
        gs_recorder_stream(&recorder, call->context, *stream, !(flags & NON_BLOCKING), priority);
}

/* Frees the state of a thread that ends. */
static void forget_clones(void) {
    free(calling.clones);
    calling.clones = NULL;
    calling.clone_count = calling.clone_capacity = 0;
}

static void read_graph(const gs_call *row, const cupti_call *call) {
    void **exec = pointer_at(call->parameters, 0);
    gs_graph_shape *shape = gs_graph_shape_read(&injection.reader, pointer_at(call->parameters, row->other_at));
    for (size_t i = 0; i < calling.clone_count && shape; i++)
        gs_graph_shape_alias(shape, calling.clones[i].id, calling.clones[i].original);
    forget_clones();
    gs_recorder_exec(&recorder, *exec, shape);
}

static void enter_call(const gs_call *row, const cupti_call *call) {
    if (calling.depth++)
        return;
    calling.correlation = 0;
    calling.clone_count = 0;
    switch (row->kind) {
    case GS_CALL_LAUNCH:
    case GS_CALL_GRAPH:
    case GS_CALL_EVENT_RECORD:
    case GS_CALL_EVENT_WAIT:
    case GS_CALL_EVENT_FREE:
    case GS_CALL_STREAM_FREE:
        enter_order(row, call);
        break;
    default:
        break;
    }
}

static void leave_call(const gs_call *row, const cupti_call *call) {
    bool failed = call->result && *(const int *)call->result != 0;
    if (calling.depth && --calling.depth)
        return;
    if (row->kind == GS_CALL_END_CAPTURE || (row->kind == GS_CALL_BEGIN_CAPTURE && !failed)) {
        enter_order(row, call);
    } else if (failed && calling.correlation) {
        gs_recorder_failed(&recorder, call->correlation);
    } else if (row->kind == GS_CALL_STREAM_NEW && !failed) {
        read_stream(row, call);
    } else if (row->kind == GS_CALL_INSTANTIATE && !failed) {
        read_graph(row, call);
    }
}

/* ---- graphs, as they are made ---- */

static void note_clone(const cupti_graph *graph) {
    struct clone made;
    if (injection.cupti.node_id(graph->node, &made.id) != 0 ||
        injection.cupti.node_id(graph->original_node, &made.original) != 0)
        return;
    if (gs_grow((void **)&calling.clones, &calling.clone_capacity, calling.clone_count + 1, sizeof made))
        calling.clones[calling.clone_count++] = made;
}

static void on_resource(uint32_t id, const cupti_resource *resource) {
    const cupti_graph *graph = resource->descriptor;
    if (id == CUPTI_NODE_CLONED && graph) {
        note_clone(graph);
    } else if (id == CUPTI_EXEC_DESTROYED && graph) {
        gs_recorder_exec(&recorder, graph->exec, NULL);
    }
}

static void on_callback(void *user, int32_t domain, uint32_t id, const void *data) {
    (void)user;
    if (domain == CUPTI_RESOURCE) {
        on_resource(id, data);
        return;
    }
    const gs_call *row = id < MOST_CALLS && domain <= CUPTI_RUNTIME ? injection.calls[domain][id] : NULL;
    const cupti_call *call = data;
    if (row && call->site == CUPTI_ENTER)
        enter_call(row, call);
    else if (row)
        leave_call(row, call);
}

/* ---- records ---- */

/* CUPTI 12.6 and later say which contexts are green. */
static void note_context(const cupti_context *context) {
    enum { KNOWS_GREEN = 24 };
    if (recorder.style.cupti_version >= KNOWS_GREEN && context->is_green && context->context < GS_MOST_CONTEXTS)
        recorder.style.parents[context->context] = context->parent;
}

static void note_device(const void *record) {
    const cupti_device *device = record;
    if (*(const uint32_t *)record == CUPTI_CONTEXT)
        note_context(record);
    if (*(const uint32_t *)record != CUPTI_DEVICE || device->id >= GS_MOST_DEVICES || !device->name)
        return;
    snprintf(recorder.style.device_names[device->id], sizeof recorder.style.device_names[0], "%s", device->name);
    recorder.style.device_sms[device->id] = device->sms;
}

static void write_record(const void *record) {
    gs_recorder_record(&recorder, record);
}

static void each_record(uint8_t *buffer, size_t valid, void (*use)(const void *)) {
    void *record = NULL;
    while (injection.cupti.next_record(buffer, valid, &record) == 0)
        use(record);
}

/* ---- buffers ---- */

/* CUPTI keeps a buffer until all its work has run: with small ones a crash loses little. CUPTI would zero each one in
   the thread of the program, so they are zeroed here, and reused. */
static void on_wanted(uint8_t **buffer, size_t *size, size_t *most_records) {
    pthread_mutex_lock(&injection.buffer_lock);
    *buffer = injection.buffer_count ? injection.buffers[--injection.buffer_count] : NULL;
    pthread_mutex_unlock(&injection.buffer_lock);
    if (!*buffer)
        *buffer = calloc(1, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static void keep_buffer(uint8_t *buffer, size_t used) {
    memset(buffer, 0, used);
    pthread_mutex_lock(&injection.buffer_lock);
    if (injection.buffer_count < MOST_BUFFERS) {
        injection.buffers[injection.buffer_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&injection.buffer_lock);
    free(buffer);
}

static void on_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    size_t dropped = 0;
    (void)context, (void)stream;
    if (gs_recorder_is_here(&recorder)) {
        pthread_mutex_lock(&recorder.file_lock);
        each_record(buffer, valid, note_device);
        each_record(buffer, valid, write_record);
        gs_recorder_write(&recorder);
        if (injection.cupti.dropped(NULL, 0, &dropped) == 0)
            recorder.status->dropped += dropped;
        pthread_mutex_unlock(&recorder.file_lock);
    }
    keep_buffer(buffer, size);
}

static void flush_buffers(void) {
    injection.cupti.flush(0);
    pthread_mutex_lock(&recorder.file_lock);
    gs_recorder_write(&recorder);
    pthread_mutex_unlock(&recorder.file_lock);
}

static void flush_all(void) {
    injection.cupti.flush(CUPTI_FLUSH_FORCED);
}

/* ---- beginning and end ---- */

/* Also runs when a forked child exits, where there is nothing to do. */
static void finish_recording(void) {
    if (gs_recorder_is_here(&recorder))
        gs_recorder_finish(&recorder, flush_all);
}

static void check_cupti(int code, const char *what) {
    enum { SUBSCRIBED = 39 };
    const char *words = "unknown error";
    char problem[300];
    if (!code)
        return;
    injection.cupti.error_string(code, &words);
    snprintf(problem, sizeof problem, "%s: %s (CUPTI error %d)%s", what, words, code,
             code == SUBSCRIBED ? "; another profiler is active" : "");
    gs_recorder_give_up(problem);
}

static void open_reader(gs_graph_reader *reader) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const struct {
        const char *symbol;
        void *into;
    } symbols[] = {{"cuGraphGetNodes", &reader->nodes},
                   {"cuGraphGetEdges_v2", &reader->edges},
                   {"cuGraphGetEdges", &reader->edges_plain},
                   {"cuGraphNodeGetType", &reader->node_type},
                   {"cuGraphKernelNodeGetAttribute", &reader->attribute},
                   {"cuGraphChildGraphNodeGetGraph", &reader->child}};
    for (size_t i = 0; driver && i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(driver, symbols[i].symbol);
        memcpy(symbols[i].into, &found, sizeof found);
    }
    reader->node_id = injection.cupti.node_id;
}

static void start_callbacks(void) {
    static const uint32_t resources[] = {CUPTI_EXEC_DESTROYED, CUPTI_NODE_CLONED};
    const cupti_api *cupti = &injection.cupti;
    check_cupti(cupti->subscribe(&injection.subscriber, on_callback, NULL), "subscribing to CUDA calls");
    for (size_t i = 0; i < gs_call_count; i++) {
        if (!gs_calls[i].id)
            continue;
        injection.calls[gs_calls[i].domain][gs_calls[i].id] = &gs_calls[i];
        /* An older CUPTI lacks the newest functions. */
        cupti->enable_callback(1, injection.subscriber, gs_calls[i].domain, gs_calls[i].id);
    }
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++)
        cupti->enable_callback(1, injection.subscriber, CUPTI_RESOURCE, resources[i]);
}

static void start_records(void) {
    static const uint32_t kinds[] = {CUPTI_DEVICE, CUPTI_CONTEXT, CUPTI_KERNEL,
                                     CUPTI_MEMCPY, CUPTI_MEMSET,  CUPTI_MEMCPY_PEER};
    /* Times in pinned memory cost the program's threads less than times in device memory. */
    static const int32_t attributes[] = {CUPTI_ZEROED, CUPTI_PINNED};
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        size_t size = 1;
        uint8_t yes = 1;
        injection.cupti.set_attribute(attributes[i], &size, &yes);
    }
    check_cupti(injection.cupti.register_buffers(on_wanted, on_buffer), "asking for records");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        check_cupti(injection.cupti.enable(kinds[i]), "asking for records");
}

/* Lets the library in front of the driver record, if it is loaded and CUPTI is not required. */
static bool record_in_front(void) {
    const char *through = getenv(GS_TRACE_THROUGH);
    bool may = through && strcmp(through, "any") == 0;
    void *front = may ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *found = front ? dlsym(front, "gridsmith_record_here") : NULL;
    void (*record_here)(void);
    memcpy(&record_here, &found, sizeof found);
    if (found)
        record_here();
    return found;
}

static void start_recording(void) {
    char problem[GS_TRACE_PATH];
    uint32_t version = 0;
    if (!gs_cupti_open(&injection.cupti, getenv(GS_TRACE_CUPTI), problem, sizeof problem)) {
        if (!record_in_front())
            gs_recorder_give_up(problem);
        return;
    }
    injection.cupti.version(&version);
    gs_recorder_open(&recorder, version);
    open_reader(&injection.reader);
    start_callbacks();
    start_records();
    gs_recorder_start(&recorder, flush_buffers, FLUSH_MS);
    gs_nvtx_record(&recorder);
    atexit(finish_recording);
}

/* The driver calls it. 1: success. */
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (getenv(GS_TRACE_OUTPUT))
        pthread_once(&once, start_recording);
    return 1;
}
