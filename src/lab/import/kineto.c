/*
 * kineto.c: traces of the PyTorch profiler (Kineto), which are in Chrome's JSON format.
 *
 * A trace is one object with a list of events, "traceEvents", or that list alone. The category of an event gives its
 * kind: work of the GPU ("kernel", "gpu_memcpy", "gpu_memset"), a call of the host ("cuda_runtime", "cuda_driver"), a
 * range that the program named ("user_annotation"), or a wait ("cuda_sync", only in traces made with
 * enable_cuda_sync_events). All other events, most of a trace, are skipped. Keys may come in any order, but "cat" is
 * near the beginning, so that the rest need not be read.
 *
 * Times are microseconds with three decimals, since "baseTimeNanoseconds" or, in older traces, since 1970.
 */
#include "collect.h"
#include "json_scan.h"

#include <stdlib.h>

typedef enum category { UNKNOWN, OTHER, KERNEL, MEMCPY, MEMSET, CALL, SYNC, RANGE } category;

/* The event being read. */
struct event {
    category category;
    gs_text name;
    int64_t start_ns, duration_ns;
    gs_traced_what what;
    gs_trace_fields given;
    int64_t correlation, node;
    int64_t wait_on_stream, record_correlation;
};

struct reading {
    gs_scan scan;
    gs_collection *collection;
    struct event event;
    gs_error *error;
};

/* ---- events ---- */

static category category_of(const char *word) {
    static const struct {
        const char *word;
        category category;
    } known[] = {{"kernel", KERNEL},    {"gpu_memcpy", MEMCPY}, {"gpu_memset", MEMSET},    {"cuda_runtime", CALL},
                 {"cuda_driver", CALL}, {"cuda_sync", SYNC},    {"Kernel", KERNEL},        {"Memcpy", MEMCPY},
                 {"Memset", MEMSET},    {"Runtime", CALL},      {"user_annotation", RANGE}};
    for (size_t i = 0; i < GS_COUNT(known); i++)
        if (strcmp(word, known[i].word) == 0)
            return known[i].category;
    return OTHER;
}

static bool read_int32(gs_scan *scan, int32_t *into) {
    int64_t value;
    if (!gs_scan_int_within(scan, INT32_MIN, INT32_MAX, &value))
        return false;
    *into = (int32_t)value;
    return true;
}

/* A list of three sizes. `*has`: there are three. */
static bool read_sizes(gs_scan *scan, int32_t *sizes, bool *has) {
    int count = 0;
    if (!gs_scan_enter(scan, '['))
        return false;
    for (; gs_scan_next(scan); count++)
        if (!(count < 3 ? read_int32(scan, &sizes[count]) : gs_scan_skip(scan)))
            return false;
    *has = count == 3;
    return scan->code == GS_OK;
}

/* The relevant keys of "args", and the offsets of their numbers. */
typedef enum argument_type { INT32, INT64, CALL_NUMBER, ANY_NUMBER, SIZES } argument_type;

#define WHAT(member) offsetof(struct event, what.member)
#define FIELD(name)  (1u << GS_TRACE_##name)

static const struct argument {
    const char *key;
    argument_type type;
    size_t offset;
    gs_trace_fields field; /* its bit, or 0 */
} arguments[] = {
    {"device", INT32, WHAT(device), FIELD(DEVICE)},
    {"context", INT64, WHAT(context), FIELD(CONTEXT)},
    {"stream", INT64, WHAT(stream), FIELD(STREAM)},
    {"correlation", CALL_NUMBER, offsetof(struct event, correlation), FIELD(CORRELATION)},
    {"registers per thread", INT32, WHAT(registers), FIELD(REGISTERS)},
    {"shared memory", INT64, WHAT(shared_bytes), FIELD(SHARED)},
    {"grid", SIZES, WHAT(grid), FIELD(GRID)},
    {"block", SIZES, WHAT(block), FIELD(BLOCK)},
    {"priority", INT32, WHAT(priority), FIELD(PRIORITY)},
    {"graph id", ANY_NUMBER, WHAT(graph), 0},
    {"graph node id", ANY_NUMBER, offsetof(struct event, node), 0},
    {"bytes", INT64, WHAT(bytes), FIELD(BYTES)},
    {"wait_on_stream", ANY_NUMBER, offsetof(struct event, wait_on_stream), 0},
    {"wait_on_cuda_event_record_corr_id", ANY_NUMBER, offsetof(struct event, record_correlation), 0},
};

static const char *const field_names[GS_TRACE_FIELDS] = {
    [GS_TRACE_START] = "ts",      [GS_TRACE_END] = "dur",
    [GS_TRACE_STREAM] = "stream", [GS_TRACE_GRID] = "grid",
    [GS_TRACE_BLOCK] = "block",   [GS_TRACE_REGISTERS] = "registers per thread",
    [GS_TRACE_DEVICE] = "device", [GS_TRACE_SHARED] = "shared memory",
    [GS_TRACE_NAME] = "name",     [GS_TRACE_CORRELATION] = "correlation",
    [GS_TRACE_BYTES] = "bytes",   [GS_TRACE_PRIORITY] = "priority",
    [GS_TRACE_KIND] = "name",     [GS_TRACE_CONTEXT] = "context",
};

static const struct argument *find_argument(const char *key) {
    for (size_t i = 0; i < GS_COUNT(arguments); i++)
        if (strcmp(arguments[i].key, key) == 0)
            return &arguments[i];
    return NULL;
}

/* A number may be null or text; then it is skipped. */
static bool read_argument(struct reading *reading, const struct argument *argument) {
    gs_scan *scan = &reading->scan;
    void *into = (char *)&reading->event + argument->offset;
    char first = gs_scan_peek(scan);
    bool fits = argument->type == SIZES ? first == '[' : first && strchr("-0123456789", first);
    if (!fits)
        return gs_scan_skip(scan);
    bool has = true;
    if (argument->type == SIZES && !read_sizes(scan, into, &has))
        return false;
    reading->event.given |= has ? argument->field : 0;
    if (argument->type == SIZES)
        return true;
    switch (argument->type) {
    case INT32:
        return read_int32(scan, into);
    case CALL_NUMBER: /* of 32 bits */
        return gs_scan_int_within(scan, INT32_MIN, UINT32_MAX, into);
    case INT64:
        return gs_scan_int(scan, into);
    default:
        return gs_scan_any_int(scan, into);
    }
}

static bool read_arguments(struct reading *reading) {
    gs_scan *scan = &reading->scan;
    if (gs_scan_peek(scan) != '{')
        return gs_scan_skip(scan);
    if (!gs_scan_enter(scan, '{'))
        return false;
    while (gs_scan_key(scan)) {
        const struct argument *argument = find_argument(scan->string.data);
        if (!(argument ? read_argument(reading, argument) : gs_scan_skip(scan)))
            return false;
    }
    return scan->code == GS_OK;
}

static bool read_name(struct reading *reading) {
    if (gs_scan_peek(&reading->scan) != '"')
        return gs_scan_skip(&reading->scan);
    if (!gs_scan_string(&reading->scan))
        return false;
    gs_text_clear(&reading->event.name);
    gs_text_put(&reading->event.name, reading->scan.string.data, reading->scan.string.count);
    reading->event.given |= reading->event.name.count ? FIELD(NAME) : 0;
    return true;
}

static bool read_category(struct reading *reading) {
    if (gs_scan_peek(&reading->scan) != '"')
        return gs_scan_skip(&reading->scan);
    if (!gs_scan_string(&reading->scan))
        return false;
    reading->event.category = category_of(reading->scan.string.data);
    return true;
}

static bool read_time(struct reading *reading, gs_trace_fields field, int64_t *nanoseconds) {
    char first = gs_scan_peek(&reading->scan);
    if (!first || !strchr("-0123456789", first))
        return gs_scan_skip(&reading->scan);
    reading->event.given |= field;
    return gs_scan_us(&reading->scan, nanoseconds);
}

static bool read_member(struct reading *reading) {
    gs_scan *scan = &reading->scan;
    if (gs_scan_is(scan, "cat"))
        return read_category(reading);
    if (gs_scan_is(scan, "name"))
        return read_name(reading);
    if (gs_scan_is(scan, "ts"))
        return read_time(reading, FIELD(START), &reading->event.start_ns);
    if (gs_scan_is(scan, "dur"))
        return read_time(reading, FIELD(END), &reading->event.duration_ns);
    if (gs_scan_is(scan, "args"))
        return read_arguments(reading);
    return gs_scan_skip(scan);
}

/* ---- using an event ---- */

static gs_copy_kind copy_kind(const char *name) {
    static const struct {
        const char *word;
        gs_copy_kind kind;
    } known[] = {{"HtoD", GS_COPY_HOST_TO_DEVICE},
                 {"DtoH", GS_COPY_DEVICE_TO_HOST},
                 {"DtoD", GS_COPY_DEVICE_TO_DEVICE},
                 {"PtoP", GS_COPY_PEER_TO_PEER},
                 {"HtoH", GS_COPY_HOST_TO_HOST}};
    for (size_t i = 0; i < GS_COUNT(known); i++)
        if (strstr(name, known[i].word))
            return known[i].kind;
    return GS_COPY_UNKNOWN;
}

/* Work of the GPU. */
static gs_code add_work(struct reading *reading) {
    struct event *event = &reading->event;
    if (!event->name.count)
        gs_text_add(&event->name, "unnamed");
    char *name = event->name.data;
    event->what.op = event->category == KERNEL   ? GS_TRACED_LAUNCH
                     : event->category == MEMCPY ? GS_TRACED_COPY
                                                 : GS_TRACED_MEMSET;
    if (event->category == KERNEL)
        event->what.name = gs_collect_name(reading->collection, name);
    else
        event->what.copy_kind = event->category == MEMCPY ? (int32_t)copy_kind(name) : 0;
    event->given |= FIELD(LOCAL);   /* no trace has it, as `lacks` says */
    event->given |= FIELD(PROCESS); /* a trace is of one */
    if (event->category != MEMCPY || event->given & FIELD(NAME))
        event->given |= FIELD(KIND);
    if (event->name.failed || (event->category == KERNEL && !event->what.name))
        return gs_fail_memory(reading->error);
    gs_traced traced = {.start_ns = event->start_ns,
                        .end_ns = gs_collect_time(event->start_ns) + gs_collect_time(event->duration_ns),
                        .call = gs_collect_call(0, event->correlation),
                        .node = event->node};
    return gs_collect_add(reading->collection, &event->what, event->given, traced, reading->error);
}

/* Numbers of streams and calls have 32 bits; -1 stands for none, also if it was written without its sign. */
static bool is_number(int64_t value) {
    return value >= 0 && value < UINT32_MAX;
}

static gs_code add_wait(struct reading *reading) {
    const struct event *event = &reading->event;
    gs_collection *collection = reading->collection;
    collection->has_waits = true;
    if (!event->name.count || strcmp(event->name.data, "Stream Wait Event") != 0)
        return GS_OK;
    const gs_trace_fields needed = FIELD(STREAM) | FIELD(CORRELATION);
    if (!is_number(event->wait_on_stream) || !is_number(event->record_correlation) ||
        (event->given & needed) != needed) {
        collection->unnamed_waits++;
        return GS_OK;
    }
    gs_traced_wait wait = {
        gs_collect_call(0, event->correlation), gs_collect_call(0, event->record_correlation),
        gs_collect_stream(collection, GS_NOT_GIVEN, event->what.context, event->what.device, event->what.stream),
        gs_collect_stream(collection, GS_NOT_GIVEN, event->what.context, event->what.device, event->wait_on_stream)};
    return wait.waits < 0 || wait.records < 0 ? gs_fail_memory(reading->error)
                                              : gs_collect_add_wait(collection, &wait, reading->error);
}

/* A call of the host. One without a correlation number launches nothing that the trace shows. */
static gs_code add_call(struct reading *reading) {
    const struct event *event = &reading->event;
    if (!(event->given & FIELD(CORRELATION))) {
        reading->collection->calls_without_id++;
        return GS_OK;
    }
    if (!(event->given & FIELD(START)))
        return gs_fail(reading->error, GS_E_FORMAT,
                       "call \"%.60s\" has no \"ts\" in the trace, the time at which it was made",
                       event->name.count ? event->name.data : "unnamed");
    return gs_collect_add_call(reading->collection, gs_collect_call(0, event->correlation), event->start_ns,
                               reading->error);
}

/* A range that the program named. One without a name or times says nothing. */
static gs_code add_range(struct reading *reading) {
    const struct event *event = &reading->event;
    const gs_trace_fields needed = FIELD(START) | FIELD(END) | FIELD(NAME);
    if ((event->given & needed) != needed)
        return GS_OK;
    gs_traced_range range = {.name = gs_collect_name(reading->collection, event->name.data),
                             .from_ns = event->start_ns,
                             .to_ns = gs_collect_time(event->start_ns) + gs_collect_time(event->duration_ns)};
    return range.name ? gs_collect_add_range(reading->collection, &range, reading->error)
                      : gs_fail_memory(reading->error);
}

static gs_code add_event(struct reading *reading) {
    const struct event *event = &reading->event;
    switch (event->category) {
    case KERNEL:
    case MEMCPY:
    case MEMSET:
        return add_work(reading);
    case CALL:
        return add_call(reading);
    case SYNC:
        return add_wait(reading);
    case RANGE:
        return add_range(reading);
    case UNKNOWN:
    case OTHER:
        break;
    }
    return GS_OK;
}

static void clear_event(struct event *event) {
    gs_text name = event->name;
    gs_text_clear(&name);
    *event = (struct event){.what = gs_traced_what_none(),
                            .name = name,
                            .correlation = -1,
                            .node = GS_NOT_GIVEN,
                            .wait_on_stream = -1,
                            .record_correlation = -1};
}

/* Reads the members up to the category; if that is not relevant, the rest is skipped. */
static bool read_event(struct reading *reading) {
    gs_scan *scan = &reading->scan;
    clear_event(&reading->event);
    if (gs_scan_peek(scan) != '{')
        return gs_scan_skip(scan);
    if (!gs_scan_enter(scan, '{'))
        return false;
    while (gs_scan_key(scan)) {
        if (!read_member(reading))
            return false;
        if (reading->event.category == OTHER)
            return gs_scan_leave(scan);
    }
    if (scan->code != GS_OK)
        return false;
    gs_code code = reading->event.name.failed ? gs_fail_memory(reading->error) : add_event(reading);
    if (code == GS_OK)
        code = gs_input_check_expansion(scan->input, reading->error);
    if (code == GS_E_FORMAT) /* add the position */
        return gs_scan_fail(scan, code, "%s", reading->error ? reading->error->message : "");
    scan->code = code;
    return code == GS_OK;
}

static bool read_events(struct reading *reading) {
    gs_scan *scan = &reading->scan;
    if (!gs_scan_enter(scan, '['))
        return false;
    while (gs_scan_next(scan))
        if (!read_event(reading))
            return false;
    return scan->code == GS_OK;
}

/* ---- the rest of a trace ---- */

/* A number of a GPU whose key was just read; others are skipped. */
static bool read_gpu_number(gs_scan *scan, gs_traced_gpu *gpu) {
    const struct {
        const char *key;
        int32_t *into;
    } numbers[] = {{"numSms", &gpu->sms},
                   {"computeMajor", &gpu->major},
                   {"computeMinor", &gpu->minor},
                   {"maxThreadsPerMultiprocessor", &gpu->threads_per_sm},
                   {"regsPerMultiprocessor", &gpu->registers_per_sm}};
    if (gs_scan_is(scan, "id"))
        return gs_scan_int(scan, &gpu->device);
    if (gs_scan_is(scan, "sharedMemPerMultiprocessor"))
        return gs_scan_int(scan, &gpu->shared_per_sm_bytes);
    for (size_t i = 0; i < GS_COUNT(numbers); i++)
        if (gs_scan_is(scan, numbers[i].key))
            return read_int32(scan, numbers[i].into);
    return gs_scan_skip(scan);
}

static bool read_gpu(struct reading *reading) {
    gs_scan *scan = &reading->scan;
    gs_traced_gpu gpu = {.device = GS_NOT_GIVEN};
    bool is_read = gs_scan_enter(scan, '{');
    while (is_read && gs_scan_key(scan)) {
        if (gs_scan_is(scan, "name") && !gpu.name) {
            is_read = gs_scan_string(scan);
            gpu.name = is_read ? strdup(scan->string.data) : NULL;
        } else {
            is_read = read_gpu_number(scan, &gpu);
        }
    }
    if (scan->code != GS_OK || !gpu.name) {
        free(gpu.name);
        return scan->code == GS_OK;
    }
    scan->code = gs_collect_add_gpu(reading->collection, gpu, reading->error);
    return scan->code == GS_OK;
}

static bool read_gpus(struct reading *reading) {
    gs_scan *scan = &reading->scan;
    if (gs_scan_peek(scan) != '[')
        return gs_scan_skip(scan);
    if (!gs_scan_enter(scan, '['))
        return false;
    while (gs_scan_next(scan))
        if (!(gs_scan_peek(scan) == '{' ? read_gpu(reading) : gs_scan_skip(scan)))
            return false;
    return scan->code == GS_OK;
}

static bool check_schema(gs_scan *scan) {
    if (!gs_scan_string(scan))
        return false;
    return strncmp(scan->string.data, "gridsmith.", 10) != 0 ||
           gs_scan_fail(scan, GS_E_FORMAT, "a file of Gridsmith needs no import");
}

static bool read_object(struct reading *reading, bool *has_events) {
    gs_scan *scan = &reading->scan;
    if (!gs_scan_enter(scan, '{'))
        return false;
    while (gs_scan_key(scan)) {
        bool is_read;
        if (gs_scan_is(scan, "traceEvents")) {
            *has_events = true;
            is_read = read_events(reading);
        } else if (gs_scan_is(scan, "deviceProperties"))
            is_read = read_gpus(reading);
        else if (gs_scan_is(scan, "baseTimeNanoseconds") && strchr("0123456789", gs_scan_peek(scan)))
            is_read = gs_scan_int(scan, &reading->collection->unix_ns);
        else if (gs_scan_is(scan, "schema") && gs_scan_peek(scan) == '"')
            is_read = check_schema(scan);
        else
            is_read = gs_scan_skip(scan);
        if (!is_read)
            return false;
    }
    return scan->code == GS_OK;
}

gs_code gs_import_kineto(gs_input *input, gs_collection *collection, gs_error *error) {
    struct reading reading = {.scan = gs_scan_of(input, error), .collection = collection, .error = error};
    gs_scan *scan = &reading.scan;
    bool has_events = gs_scan_peek(scan) == '[';
    collection->recorder = "PyTorch profiler";
    collection->field_names = field_names;
    collection->unix_ns = 0;
    if (has_events)
        read_events(&reading);
    else
        read_object(&reading, &has_events);
    if (scan->code == GS_OK && !has_events)
        gs_scan_fail(scan, GS_E_FORMAT, "not a trace of the PyTorch profiler: \"traceEvents\" is missing");
    if (scan->code == GS_OK && !gs_scan_has_ended(scan))
        gs_scan_fail(scan, GS_E_SYNTAX, "more text after the end of the trace");
    gs_code code = scan->code;
    gs_text_free(&reading.event.name);
    gs_scan_free(scan);
    return code;
}
