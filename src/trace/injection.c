/*
 * injection.c: InitializeInjection, which the driver calls when the program starts CUDA: from here on it is recorded.
 *
 * Threads of the program come in through on_callback, before and after each call that calls.c lists. CUPTI's own thread
 * comes in through on_buffer, with records; so does `flusher`, which asks for them twice a second, so that a crash
 * loses little. Two locks: `order_lock` for what the program asked for, held for a fraction of a microsecond, and
 * `file_lock` for the file and the lines. The second may be held when the first is taken, never the other way round.
 *
 * A forked child has no recorder: CUDA does not work there either. A child that starts a program is recorded anew.
 *
 * CUPTI passes no data of ours to the functions for buffers, so there is one global variable.
 */
#include "recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_CALLS = 1024,
    FLUSH_MS = 500,
    BUFFER_BYTES = 1 << 17, /* about 600 kernels */
    MOST_BUFFERS = 32,
    WRITE_BYTES = 1 << 18,
    NO_GPU_STATUS = 3
};

static struct recorder {
    cupti_api cupti;
    void *subscriber;
    gs_graph_reader reader;
    const gs_call *calls[CUPTI_RUNTIME + 1][MOST_CALLS]; /* by CUPTI's number */
    pid_t process;

    pthread_mutex_t order_lock;
    gs_host_order *order;

    pthread_mutex_t file_lock;
    gs_record_style style;
    gs_record_file file;
    gs_lines lines;
    uint64_t line_count; /* in `lines` */
    gs_trace_status *status, own_status;
    gs_number_map streams;
    bool has_file;

    pthread_mutex_t buffer_lock;
    uint8_t *buffers[MOST_BUFFERS]; /* not in use, and zeroed */
    int buffer_count;

    pthread_t flusher;
    pthread_mutex_t quit_lock;
    pthread_cond_t quit_changed;
    bool has_flusher, quits;
} recorder = {.order_lock = PTHREAD_MUTEX_INITIALIZER,
              .file_lock = PTHREAD_MUTEX_INITIALIZER,
              .quit_lock = PTHREAD_MUTEX_INITIALIZER,
              .buffer_lock = PTHREAD_MUTEX_INITIALIZER,
              .quit_changed = PTHREAD_COND_INITIALIZER};

/* What a thread is doing in CUDA: calls of the runtime make calls of the driver. */
static _Thread_local struct calling {
    int depth;
    uint32_t correlation; /* of the outermost call, if that launches something; else 0 */
    struct clone {
        uint64_t id, original;
    } * clones; /* of the graph that is being made executable */
    size_t clone_count, clone_capacity;
} calling;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* the clock of CUPTI's records */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- calls ---- */

static void *pointer_at(const void *parameters, int offset) {
    void *found;
    memcpy(&found, (const char *)parameters + offset, sizeof found);
    return found;
}

static int int_at(const void *parameters, int offset) {
    int found;
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
        if (int_at(attribute, 0) == SERIALIZATION)
            return int_at(attribute, VALUE_AT) != 0;
    }
    return false;
}

static gs_host_call describe(const gs_call *row, const cupti_call *call) {
    gs_host_call made = {.call = row, .context = call->context, .correlation = call->correlation, .at_ns = now_ns()};
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
    gs_host_call made = describe(row, call);
    pthread_mutex_lock(&recorder.order_lock);
    uint64_t id = gs_host_order_call(recorder.order, &made);
    recorder.status->launched += id != 0;
    pthread_mutex_unlock(&recorder.order_lock);
    calling.correlation = id ? call->correlation : 0;
}

static void read_stream(const gs_call *row, const cupti_call *call) {
    enum { NON_BLOCKING = 1 };
    void **stream = pointer_at(call->parameters, 0);
    int priority = row->other_at == GS_NO_PRIORITY ? 0 : int_at(call->parameters, row->other_at);
    int flags = row->stream_at == GS_STREAM_NONE ? 0 : int_at(call->parameters, row->stream_at);
    if (!stream)
        return;
    pthread_mutex_lock(&recorder.order_lock);
    gs_host_order_stream_new(recorder.order, call->context, *stream, !(flags & NON_BLOCKING), priority);
    pthread_mutex_unlock(&recorder.order_lock);
}

/* A thread that ends leaves nothing behind. */
static void forget_clones(void) {
    free(calling.clones);
    calling.clones = NULL;
    calling.clone_count = calling.clone_capacity = 0;
}

static void read_graph(const gs_call *row, const cupti_call *call) {
    void **exec = pointer_at(call->parameters, 0);
    gs_graph_shape *shape = gs_graph_shape_read(&recorder.reader, pointer_at(call->parameters, row->other_at));
    for (size_t i = 0; i < calling.clone_count && shape; i++)
        gs_graph_shape_alias(shape, calling.clones[i].id, calling.clones[i].original);
    forget_clones();
    pthread_mutex_lock(&recorder.order_lock);
    gs_host_order_exec(recorder.order, *exec, shape);
    pthread_mutex_unlock(&recorder.order_lock);
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
        pthread_mutex_lock(&recorder.order_lock);
        gs_host_order_failed(recorder.order, call->correlation);
        recorder.status->launched--;
        pthread_mutex_unlock(&recorder.order_lock);
    } else if (row->kind == GS_CALL_STREAM_NEW && !failed) {
        read_stream(row, call);
    } else if (row->kind == GS_CALL_INSTANTIATE && !failed) {
        read_graph(row, call);
    }
}

/* ---- graphs, as they are made ---- */

static void note_clone(const cupti_graph *graph) {
    struct clone made;
    if (recorder.cupti.node_id(graph->node, &made.id) != 0 ||
        recorder.cupti.node_id(graph->original_node, &made.original) != 0)
        return;
    if (calling.clone_count == calling.clone_capacity) {
        size_t capacity = calling.clone_capacity ? calling.clone_capacity * 2 : 64;
        struct clone *grown = realloc(calling.clones, capacity * sizeof *grown);
        if (!grown)
            return;
        calling.clones = grown;
        calling.clone_capacity = capacity;
    }
    calling.clones[calling.clone_count++] = made;
}

static void on_resource(uint32_t id, const cupti_resource *resource) {
    const cupti_graph *graph = resource->descriptor;
    if (id == CUPTI_NODE_CLONED && graph) {
        note_clone(graph);
    } else if (id == CUPTI_EXEC_DESTROYED && graph) {
        pthread_mutex_lock(&recorder.order_lock);
        gs_host_order_exec(recorder.order, graph->exec, NULL);
        pthread_mutex_unlock(&recorder.order_lock);
    }
}

static void on_callback(void *user, int32_t domain, uint32_t id, const void *data) {
    (void)user;
    if (domain == CUPTI_RESOURCE) {
        on_resource(id, data);
        return;
    }
    const gs_call *row = id < MOST_CALLS && domain <= CUPTI_RUNTIME ? recorder.calls[domain][id] : NULL;
    const cupti_call *call = data;
    if (row && call->site == CUPTI_ENTER)
        enter_call(row, call);
    else if (row)
        leave_call(row, call);
}

/* ---- records ---- */

static size_t read_program(char *text, size_t size) {
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = file >= 0 ? read(file, text, size) : 0;
    if (file >= 0)
        close(file);
    return count > 0 ? (size_t)count : 0;
}

/* The record that names a GPU may come after the first launch. */
static void ask_driver(uint32_t device) {
    enum { SMS = 16 };
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *name = driver ? dlsym(driver, "cuDeviceGetName") : NULL;
    void *attribute = driver ? dlsym(driver, "cuDeviceGetAttribute") : NULL;
    int (*get_name)(char *, int, int), (*get_attribute)(int *, int, int), sms = 0;
    memcpy(&get_name, &name, sizeof name);
    memcpy(&get_attribute, &attribute, sizeof attribute);
    if (name && get_name(recorder.style.device_names[device], sizeof recorder.style.device_names[0], (int)device) != 0)
        recorder.style.device_names[device][0] = '\0';
    if (attribute && get_attribute(&sms, SMS, (int)device) == 0)
        recorder.style.device_sms[device] = (uint32_t)sms;
}

/* The file is made when there is something to write, because the header names the GPU. */
static void open_file(uint32_t device) {
    char program[1024];
    gs_lines header = {0};
    if (recorder.has_file)
        return;
    recorder.has_file = true;
    if (device < GS_MOST_DEVICES && !recorder.style.device_names[device][0])
        ask_driver(device);
    gs_line_header(&header, &recorder.style, device, program, read_program(program, sizeof program));
    recorder.file.header = header.data;
    recorder.file.header_length = header.count;
    if (!gs_record_file_open(&recorder.file, getenv(GS_TRACE_OUTPUT)))
        fprintf(stderr, "gridsmith: cannot write \"%s\": %s\n", recorder.status->path, strerror(errno));
}

static void write_lines(void) {
    gs_record_file_write(&recorder.file, recorder.lines.data, recorder.lines.count, recorder.line_count);
    recorder.lines.count = 0;
    recorder.line_count = 0;
}

static void count_record(uint32_t device, uint32_t context, uint32_t stream, uint64_t start, uint64_t end) {
    gs_trace_status *status = recorder.status;
    status->devices |= (uint64_t)1 << device % 64;
    uint64_t *known = gs_number_map_add(&recorder.streams, (uint64_t)context << 32 | (stream + 1u));
    if (known && !*known) {
        *known = 1;
        status->streams++;
    }
    if (end && (!status->first_ns || (int64_t)start < status->first_ns))
        status->first_ns = (int64_t)start;
    if ((int64_t)end > status->last_ns)
        status->last_ns = (int64_t)end;
}

/* What is known of the call. If it was not seen, it was made before the work started. */
static gs_host_launch take(uint32_t correlation, uint64_t node, uint64_t start) {
    gs_host_launch launch = {0};
    pthread_mutex_lock(&recorder.order_lock);
    bool found = gs_host_order_take(recorder.order, correlation, node, &launch);
    if (!found)
        launch =
            (gs_host_launch){.id = gs_host_order_new_id(recorder.order), .at_ns = start ? (int64_t)start : now_ns()};
    pthread_mutex_unlock(&recorder.order_lock);
    recorder.status->unknown += !found;
    return launch;
}

static void write_kernel(const cupti_kernel *kernel) {
    gs_host_launch launch = take(kernel->correlation, kernel->graph_node, kernel->start);
    open_file(kernel->device);
    gs_line_kernel(&recorder.lines, &recorder.style, kernel, &launch);
    gs_host_launch_clear(&launch);
    recorder.status->kernels++;
    recorder.status->graph_kernels += kernel->graph_node != 0;
    count_record(kernel->device, kernel->context, kernel->stream, kernel->start, kernel->end);
}

static void write_memcpy(const cupti_memcpy *copy) {
    gs_host_launch launch = take(copy->correlation, copy->graph_node, copy->start);
    open_file(copy->device);
    gs_line_memcpy(&recorder.lines, &recorder.style, copy, &launch);
    gs_host_launch_clear(&launch);
    recorder.status->copies++;
    count_record(copy->device, copy->context, copy->stream, copy->start, copy->end);
}

static void write_memcpy_peer(const cupti_memcpy_peer *peer) {
    cupti_memcpy copy = {.copy_kind = peer->copy_kind,
                         .bytes = peer->bytes,
                         .start = peer->start,
                         .end = peer->end,
                         .device = peer->device,
                         .context = peer->context,
                         .stream = peer->stream,
                         .correlation = peer->correlation,
                         .graph_node = peer->graph_node,
                         .graph = peer->graph};
    write_memcpy(&copy);
}

static void write_memset(const cupti_memset *set) {
    gs_host_launch launch = take(set->correlation, set->graph_node, set->start);
    open_file(set->device);
    gs_line_memset(&recorder.lines, &recorder.style, set, &launch);
    gs_host_launch_clear(&launch);
    recorder.status->memsets++;
    count_record(set->device, set->context, set->stream, set->start, set->end);
}

static void write_record(const void *record) {
    size_t before = recorder.lines.count;
    switch (*(const uint32_t *)record) {
    case CUPTI_KERNEL:
        write_kernel(record);
        break;
    case CUPTI_MEMCPY:
        write_memcpy(record);
        break;
    case CUPTI_MEMCPY_PEER:
        write_memcpy_peer(record);
        break;
    case CUPTI_MEMSET:
        write_memset(record);
        break;
    default:
        break;
    }
    recorder.line_count += recorder.lines.count > before;
    recorder.status->failed += recorder.lines.failed;
    recorder.lines.failed = false;
    if (recorder.lines.count >= WRITE_BYTES)
        write_lines();
}

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

static void each_record(uint8_t *buffer, size_t valid, void (*use)(const void *)) {
    void *record = NULL;
    while (recorder.cupti.next_record(buffer, valid, &record) == 0)
        use(record);
}

/* ---- buffers ---- */

/* CUPTI keeps a buffer until all that is in it has run: small ones lose little in a crash. It would zero each in the
   thread of the program: they are zeroed here, and used again and again. */
static void on_wanted(uint8_t **buffer, size_t *size, size_t *most_records) {
    pthread_mutex_lock(&recorder.buffer_lock);
    *buffer = recorder.buffer_count ? recorder.buffers[--recorder.buffer_count] : NULL;
    pthread_mutex_unlock(&recorder.buffer_lock);
    if (!*buffer)
        *buffer = calloc(1, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static void keep_buffer(uint8_t *buffer, size_t used) {
    memset(buffer, 0, used);
    pthread_mutex_lock(&recorder.buffer_lock);
    if (recorder.buffer_count < MOST_BUFFERS) {
        recorder.buffers[recorder.buffer_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&recorder.buffer_lock);
    free(buffer);
}

static void on_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    size_t dropped = 0;
    (void)context, (void)stream;
    if (getpid() == recorder.process) {
        pthread_mutex_lock(&recorder.file_lock);
        each_record(buffer, valid, note_device);
        each_record(buffer, valid, write_record);
        write_lines();
        if (recorder.cupti.dropped(NULL, 0, &dropped) == 0)
            recorder.status->dropped += dropped;
        pthread_mutex_unlock(&recorder.file_lock);
    }
    keep_buffer(buffer, size);
}

static void *flush_again_and_again(void *argument) {
    pthread_mutex_lock(&recorder.quit_lock);
    while (!recorder.quits) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += FLUSH_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&recorder.quit_changed, &recorder.quit_lock, &until);
        if (recorder.quits)
            break;
        pthread_mutex_unlock(&recorder.quit_lock);
        recorder.cupti.flush(0);
        pthread_mutex_lock(&recorder.quit_lock);
    }
    pthread_mutex_unlock(&recorder.quit_lock);
    return argument;
}

/* ---- beginning and end ---- */

static void stop_flusher(void) {
    pthread_mutex_lock(&recorder.quit_lock);
    recorder.quits = true;
    pthread_cond_broadcast(&recorder.quit_changed);
    pthread_mutex_unlock(&recorder.quit_lock);
    if (recorder.has_flusher)
        pthread_join(recorder.flusher, NULL);
}

/* Also runs in a forked child that exits, where there is nothing to do. */
static void finish(void) {
    if (getpid() != recorder.process)
        return;
    stop_flusher();
    recorder.cupti.flush(CUPTI_FLUSH_FORCED);
    pthread_mutex_lock(&recorder.file_lock);
    gs_trace_status *status = recorder.status;
    if (recorder.file.is_first)
        open_file(0);
    pthread_mutex_lock(&recorder.order_lock);
    uint64_t waiting = gs_host_order_waiting(recorder.order);
    pthread_mutex_unlock(&recorder.order_lock);
    status->silent = waiting > status->dropped ? waiting - status->dropped : 0;
    gs_line_end(&recorder.lines, &recorder.style, now_ns(),
                status->dropped + status->skipped + status->failed + status->silent);
    write_lines();
    status->has_ended = 1;
    gs_record_file_close(&recorder.file);
    pthread_mutex_unlock(&recorder.file_lock);
}

/* The program cannot be recorded: running it would be of no use to anybody. */
static void give_up(const char *problem) {
    fprintf(stderr, "gridsmith: the program cannot be recorded: %s\n", problem);
    _exit(NO_GPU_STATUS);
}

static void check(int code, const char *what) {
    enum { SUBSCRIBED = 39 };
    const char *words = "unknown error";
    char problem[300];
    if (!code)
        return;
    recorder.cupti.error_string(code, &words);
    snprintf(problem, sizeof problem, "%s: %s (CUPTI error %d)%s", what, words, code,
             code == SUBSCRIBED ? "; another profiler is at work" : "");
    give_up(problem);
}

/* A file of its own in the folder, mapped; without it the recording works, but nobody is told how it went. */
static gs_trace_status *map_status(const char *folder) {
    char path[GS_TRACE_PATH];
    void *mapped = MAP_FAILED;
    if (!folder)
        return &recorder.own_status;
    for (int i = 0; mapped == MAP_FAILED && i < 100; i++) {
        snprintf(path, sizeof path, "%s/%ld.%d", folder, (long)getpid(), i);
        int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0)
            continue;
        if (ftruncate(file, sizeof(gs_trace_status)) == 0)
            mapped = mmap(NULL, sizeof(gs_trace_status), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    return mapped == MAP_FAILED ? &recorder.own_status : mapped;
}

/* The first process to use CUDA gets the name as it is, also if it is not the first to launch something. */
static bool claim_first(const char *folder) {
    char path[GS_TRACE_PATH];
    snprintf(path, sizeof path, "%s/first", folder ? folder : "");
    int file = folder ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (file >= 0)
        close(file);
    return file >= 0;
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
    reader->node_id = recorder.cupti.node_id;
}

static void start_callbacks(void) {
    static const uint32_t resources[] = {CUPTI_EXEC_DESTROYED, CUPTI_NODE_CLONED};
    const cupti_api *cupti = &recorder.cupti;
    check(cupti->subscribe(&recorder.subscriber, on_callback, NULL), "subscribing to CUDA calls");
    for (size_t i = 0; i < gs_call_count; i++) {
        if (!gs_calls[i].id)
            continue;
        recorder.calls[gs_calls[i].domain][gs_calls[i].id] = &gs_calls[i];
        /* An older CUPTI does not know the newest functions. */
        cupti->enable_callback(1, recorder.subscriber, gs_calls[i].domain, gs_calls[i].id);
    }
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++)
        cupti->enable_callback(1, recorder.subscriber, CUPTI_RESOURCE, resources[i]);
}

static void start_records(void) {
    static const uint32_t kinds[] = {CUPTI_DEVICE, CUPTI_CONTEXT, CUPTI_KERNEL,
                                     CUPTI_MEMCPY, CUPTI_MEMSET,  CUPTI_MEMCPY_PEER};
    /* Times in pinned memory cost the program's threads less than times in device memory. */
    static const int32_t attributes[] = {CUPTI_ZEROED, CUPTI_PINNED};
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        size_t size = 1;
        uint8_t yes = 1;
        recorder.cupti.set_attribute(attributes[i], &size, &yes);
    }
    check(recorder.cupti.register_buffers(on_wanted, on_buffer), "asking for records");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        check(recorder.cupti.enable(kinds[i]), "asking for records");
}

/* The program's signals are not for this thread. */
static void start_flusher(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    recorder.has_flusher = pthread_create(&recorder.flusher, NULL, flush_again_and_again, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void start(void) {
    char problem[GS_TRACE_PATH];
    const char *limit = getenv(GS_TRACE_LIMIT), *keep = getenv(GS_TRACE_KEEP);
    recorder.process = getpid();
    if (!gs_cupti_open(&recorder.cupti, getenv(GS_TRACE_CUPTI), problem, sizeof problem))
        give_up(problem);
    recorder.order = gs_host_order_new();
    if (!recorder.order)
        give_up("out of memory");
    recorder.cupti.version(&recorder.style.cupti_version);
    recorder.style.start_ns = now_ns();
    recorder.style.gpus = getenv(GS_TRACE_GPUS);
    recorder.status = map_status(getenv(GS_TRACE_STATUS));
    recorder.status->magic = GS_TRACE_MAGIC;
    recorder.status->process = (uint32_t)recorder.process;
    recorder.status->start_ns = recorder.style.start_ns;
    recorder.status->cupti_version = recorder.style.cupti_version;
    recorder.file = (gs_record_file){.descriptor = -1,
                                     .limit = limit ? strtoull(limit, NULL, 10) : 0,
                                     .keep_newest = keep && strcmp(keep, "newest") == 0,
                                     .is_first = claim_first(getenv(GS_TRACE_STATUS)),
                                     .status = recorder.status};
    open_reader(&recorder.reader);
    start_callbacks();
    start_records();
    start_flusher();
    atexit(finish);
}

/* The driver calls it. 1: success. */
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (getenv(GS_TRACE_OUTPUT))
        pthread_once(&once, start);
    return 1;
}
