/*
 * recorder.c: the common part of both recorders: calls and records in, lines out.
 *
 * Threads of the program add calls and ranges. Records are added with the file locked. Three locks: `order_lock` for
 * the calls and `range_lock` for the ranges, held for a fraction of a microsecond, and `file_lock` for the file and the
 * lines. The first two may be taken while `file_lock` is held, never vice versa.
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

enum { WRITE_BYTES = 1 << 18, MOST_RANGE_BYTES = 1 << 24, NO_GPU_STATUS = 3 };

int64_t gs_recorder_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* the clock of CUPTI's records */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The program cannot be recorded, so running it is pointless. */
void gs_recorder_give_up(const char *problem) {
    fprintf(stderr, "gridsmith: the program cannot be recorded: %s\n", problem);
    _exit(NO_GPU_STATUS);
}

/* ---- calls ---- */

uint64_t gs_recorder_call(gs_recorder *recorder, const gs_host_call *made) {
    pthread_mutex_lock(&recorder->order_lock);
    uint64_t id = gs_host_order_call(recorder->order, made);
    recorder->status->launched += id != 0;
    pthread_mutex_unlock(&recorder->order_lock);
    return id;
}

void gs_recorder_failed(gs_recorder *recorder, uint32_t correlation) {
    pthread_mutex_lock(&recorder->order_lock);
    gs_host_order_failed(recorder->order, correlation);
    recorder->status->launched--;
    pthread_mutex_unlock(&recorder->order_lock);
}

bool gs_recorder_call_now(gs_recorder *recorder, const gs_host_call *made, gs_host_launch *launch) {
    pthread_mutex_lock(&recorder->order_lock);
    bool is_launch = gs_host_order_call_now(recorder->order, made, launch);
    recorder->status->launched += is_launch;
    pthread_mutex_unlock(&recorder->order_lock);
    return is_launch;
}

void gs_recorder_failed_now(gs_recorder *recorder, gs_host_launch *launch) {
    pthread_mutex_lock(&recorder->order_lock);
    gs_host_order_failed_now(recorder->order, launch);
    recorder->status->launched--;
    pthread_mutex_unlock(&recorder->order_lock);
}

void gs_recorder_stream(gs_recorder *recorder, void *context, void *stream, bool is_blocking, int priority) {
    pthread_mutex_lock(&recorder->order_lock);
    gs_host_order_stream_new(recorder->order, context, stream, is_blocking, priority);
    pthread_mutex_unlock(&recorder->order_lock);
}

void gs_recorder_exec(gs_recorder *recorder, void *exec, gs_graph_shape *shape) {
    pthread_mutex_lock(&recorder->order_lock);
    gs_host_order_exec(recorder->order, exec, shape);
    pthread_mutex_unlock(&recorder->order_lock);
}

void gs_recorder_range(gs_recorder *recorder, const char *name, int64_t from_ns, int64_t to_ns) {
    if (to_ns < recorder->style.start_ns || !gs_recorder_is_here(recorder))
        return;
    pthread_mutex_lock(&recorder->range_lock);
    gs_lines *ranges = &recorder->ranges;
    size_t before = ranges->count;
    if (before < MOST_RANGE_BYTES)
        gs_line_range(ranges, &recorder->style, name, from_ns, to_ns);
    ranges->failed = false;
    recorder->range_count += ranges->count > before;
    recorder->lost_ranges += ranges->count == before;
    pthread_mutex_unlock(&recorder->range_lock);
}

/* ---- the file ---- */

static size_t read_program(char *text, size_t size) {
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = file >= 0 ? read(file, text, size) : 0;
    if (file >= 0)
        close(file);
    return count > 0 ? (size_t)count : 0;
}

/* The record that names a GPU may come after the first launch. */
static void ask_driver(gs_record_style *style, uint32_t device) {
    enum { SMS = 16 };
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *name = driver ? dlsym(driver, "cuDeviceGetName") : NULL;
    void *attribute = driver ? dlsym(driver, "cuDeviceGetAttribute") : NULL;
    int (*get_name)(char *, int, int), (*get_attribute)(int *, int, int), sms = 0;
    memcpy(&get_name, &name, sizeof name);
    memcpy(&get_attribute, &attribute, sizeof attribute);
    if (name && get_name(style->device_names[device], sizeof style->device_names[0], (int)device) != 0)
        style->device_names[device][0] = '\0';
    if (attribute && get_attribute(&sms, SMS, (int)device) == 0)
        style->device_sms[device] = (uint32_t)sms;
}

/* The file is made when the first line is written, because the header names the GPU. */
static void open_file(gs_recorder *recorder, uint32_t device) {
    char program[1024];
    gs_lines header = {0};
    if (recorder->has_file)
        return;
    recorder->has_file = true;
    if (device < GS_MOST_DEVICES && !recorder->style.device_names[device][0])
        ask_driver(&recorder->style, device);
    gs_line_header(&header, &recorder->style, device, program, read_program(program, sizeof program));
    recorder->file.header = header.data;
    recorder->file.header_length = header.count;
    if (!gs_record_file_open(&recorder->file, getenv(GS_TRACE_OUTPUT)))
        fprintf(stderr, "gridsmith: cannot write \"%s\": %s\n", recorder->status->path, strerror(errno));
}

/* Ranges wait until there is a file. */
static void take_ranges(gs_recorder *recorder) {
    if (!recorder->has_file)
        return;
    pthread_mutex_lock(&recorder->range_lock);
    gs_lines *ranges = &recorder->ranges;
    if (ranges->count &&
        gs_grow((void **)&recorder->lines.data, &recorder->lines.capacity, recorder->lines.count + ranges->count, 1)) {
        memcpy(recorder->lines.data + recorder->lines.count, ranges->data, ranges->count);
        recorder->lines.count += ranges->count;
        recorder->line_count += recorder->range_count;
        ranges->count = recorder->range_count = 0;
    }
    recorder->status->failed += recorder->lost_ranges;
    recorder->lost_ranges = 0;
    pthread_mutex_unlock(&recorder->range_lock);
}

static void write_lines(gs_recorder *recorder) {
    gs_record_file_write(&recorder->file, recorder->lines.data, recorder->lines.count, recorder->line_count);
    recorder->lines.count = 0;
    recorder->line_count = 0;
}

void gs_recorder_write(gs_recorder *recorder) {
    take_ranges(recorder);
    write_lines(recorder);
}

/* ---- records ---- */

static void count_record(gs_recorder *recorder, uint32_t device, uint32_t context, uint32_t stream, uint64_t start,
                         uint64_t end) {
    gs_trace_status *status = recorder->status;
    status->devices |= (uint64_t)1 << device % 64;
    uint64_t *known = gs_number_map_add(&recorder->streams, (uint64_t)context << 32 | (stream + 1u));
    if (known && !*known) {
        *known = 1;
        status->streams++;
    }
    if (end && (!status->first_ns || (int64_t)start < status->first_ns))
        status->first_ns = (int64_t)start;
    if ((int64_t)end > status->last_ns)
        status->last_ns = (int64_t)end;
}

static void write_kernel(gs_recorder *recorder, const cupti_kernel *kernel, const gs_host_launch *launch) {
    open_file(recorder, kernel->device);
    gs_line_kernel(&recorder->lines, &recorder->style, kernel, launch);
    recorder->status->kernels++;
    recorder->status->graph_kernels += kernel->graph_node != 0;
    count_record(recorder, kernel->device, kernel->context, kernel->stream, kernel->start, kernel->end);
}

static void write_memcpy(gs_recorder *recorder, const cupti_memcpy *copy, const gs_host_launch *launch) {
    open_file(recorder, copy->device);
    gs_line_memcpy(&recorder->lines, &recorder->style, copy, launch);
    recorder->status->copies++;
    count_record(recorder, copy->device, copy->context, copy->stream, copy->start, copy->end);
}

static cupti_memcpy between_peers(const cupti_memcpy_peer *peer) {
    return (cupti_memcpy){.copy_kind = peer->copy_kind,
                          .bytes = peer->bytes,
                          .start = peer->start,
                          .end = peer->end,
                          .device = peer->device,
                          .context = peer->context,
                          .stream = peer->stream,
                          .correlation = peer->correlation,
                          .graph_node = peer->graph_node,
                          .graph = peer->graph};
}

static void write_memset(gs_recorder *recorder, const cupti_memset *set, const gs_host_launch *launch) {
    open_file(recorder, set->device);
    gs_line_memset(&recorder->lines, &recorder->style, set, launch);
    recorder->status->memsets++;
    count_record(recorder, set->device, set->context, set->stream, set->start, set->end);
}

void gs_recorder_record_now(gs_recorder *recorder, const void *record, const gs_host_launch *launch) {
    size_t before = recorder->lines.count;
    switch (*(const uint32_t *)record) {
    case CUPTI_KERNEL:
        write_kernel(recorder, record, launch);
        break;
    case CUPTI_MEMCPY:
        write_memcpy(recorder, record, launch);
        break;
    case CUPTI_MEMSET:
        write_memset(recorder, record, launch);
        break;
    default:
        break;
    }
    recorder->line_count += recorder->lines.count > before;
    recorder->status->failed += recorder->lines.failed;
    recorder->lines.failed = false;
    if (recorder->lines.count >= WRITE_BYTES)
        gs_recorder_write(recorder);
}

/* Finds the call. If it was not seen, it was made before the work started. */
static void write_taken(gs_recorder *recorder, const void *record, uint32_t correlation, uint64_t node,
                        uint64_t start) {
    gs_host_launch launch = {0};
    pthread_mutex_lock(&recorder->order_lock);
    bool found = gs_host_order_take(recorder->order, correlation, node, &launch);
    if (!found)
        launch = (gs_host_launch){.id = gs_host_order_new_id(recorder->order),
                                  .at_ns = start ? (int64_t)start : gs_recorder_now_ns()};
    pthread_mutex_unlock(&recorder->order_lock);
    recorder->status->unknown += !found;
    gs_recorder_record_now(recorder, record, &launch);
    gs_host_launch_clear(&launch);
}

void gs_recorder_record(gs_recorder *recorder, const void *record) {
    const cupti_kernel *kernel = record;
    const cupti_memset *set = record;
    cupti_memcpy copy;
    switch (*(const uint32_t *)record) {
    case CUPTI_KERNEL:
        write_taken(recorder, kernel, kernel->correlation, kernel->graph_node, kernel->start);
        break;
    case CUPTI_MEMCPY:
    case CUPTI_MEMCPY_PEER:
        copy = *(const uint32_t *)record == CUPTI_MEMCPY ? *(const cupti_memcpy *)record : between_peers(record);
        copy.kind = CUPTI_MEMCPY;
        write_taken(recorder, &copy, copy.correlation, copy.graph_node, copy.start);
        break;
    case CUPTI_MEMSET:
        write_taken(recorder, set, set->correlation, set->graph_node, set->start);
        break;
    default:
        break;
    }
}

/* ---- the periodic thread ---- */

static void *work_again_and_again(void *argument) {
    gs_recorder *recorder = argument;
    pthread_mutex_lock(&recorder->quit_lock);
    while (!recorder->quits) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += recorder->period_ms * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&recorder->quit_changed, &recorder->quit_lock, &until);
        if (recorder->quits)
            break;
        pthread_mutex_unlock(&recorder->quit_lock);
        recorder->work();
        pthread_mutex_lock(&recorder->quit_lock);
    }
    pthread_mutex_unlock(&recorder->quit_lock);
    return NULL;
}

/* Signals of the program are blocked in this thread. */
static void start_thread(gs_recorder *recorder) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    recorder->has_thread = pthread_create(&recorder->thread, NULL, work_again_and_again, recorder) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_thread(gs_recorder *recorder) {
    pthread_mutex_lock(&recorder->quit_lock);
    recorder->quits = true;
    pthread_cond_broadcast(&recorder->quit_changed);
    pthread_mutex_unlock(&recorder->quit_lock);
    if (recorder->has_thread)
        pthread_join(recorder->thread, NULL);
}

/* ---- beginning and end ---- */

/* A file of this process in the folder, mapped; without it the recording works, but its status is not reported. */
static gs_trace_status *map_status(gs_recorder *recorder, const char *folder) {
    char path[GS_TRACE_PATH];
    void *mapped = MAP_FAILED;
    if (!folder)
        return &recorder->own_status;
    for (int i = 0; mapped == MAP_FAILED && i < 100; i++) {
        snprintf(path, sizeof path, "%s/%ld.%d", folder, (long)getpid(), i);
        int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0)
            continue;
        if (ftruncate(file, sizeof(gs_trace_status)) == 0)
            mapped = mmap(NULL, sizeof(gs_trace_status), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    return mapped == MAP_FAILED ? &recorder->own_status : mapped;
}

/* The first process to use CUDA gets the unchanged name, even if it is not the first to launch something. */
static bool claim_first(const char *folder) {
    char path[GS_TRACE_PATH];
    snprintf(path, sizeof path, "%s/first", folder ? folder : "");
    int file = folder ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (file >= 0)
        close(file);
    return file >= 0;
}

void gs_recorder_open(gs_recorder *recorder, uint32_t cupti_version) {
    const char *limit = getenv(GS_TRACE_LIMIT), *keep = getenv(GS_TRACE_KEEP);
    recorder->process = getpid();
    recorder->order = gs_host_order_new();
    if (!recorder->order)
        gs_recorder_give_up("out of memory");
    recorder->style.cupti_version = cupti_version;
    recorder->style.start_ns = gs_recorder_now_ns();
    recorder->style.gpus = getenv(GS_TRACE_GPUS);
    recorder->style.folder = getenv(GS_TRACE_FOLDER);
    recorder->status = map_status(recorder, getenv(GS_TRACE_STATUS));
    recorder->status->magic = GS_TRACE_MAGIC;
    recorder->status->process = (uint32_t)recorder->process;
    recorder->status->start_ns = recorder->style.start_ns;
    recorder->status->cupti_version = cupti_version;
    recorder->file = (gs_record_file){.descriptor = -1,
                                      .limit = limit ? strtoull(limit, NULL, 10) : 0,
                                      .keep_newest = keep && strcmp(keep, "newest") == 0,
                                      .is_first = claim_first(getenv(GS_TRACE_STATUS)),
                                      .status = recorder->status};
}

void gs_recorder_start(gs_recorder *recorder, void (*work)(void), int period_ms) {
    recorder->work = work;
    recorder->period_ms = period_ms;
    start_thread(recorder);
}

bool gs_recorder_is_here(const gs_recorder *recorder) {
    return getpid() == recorder->process;
}

void gs_recorder_finish(gs_recorder *recorder, void (*last_work)(void)) {
    stop_thread(recorder);
    last_work();
    pthread_mutex_lock(&recorder->file_lock);
    gs_trace_status *status = recorder->status;
    if (recorder->file.is_first)
        open_file(recorder, 0);
    pthread_mutex_lock(&recorder->order_lock);
    uint64_t waiting = gs_host_order_waiting(recorder->order);
    pthread_mutex_unlock(&recorder->order_lock);
    status->silent = waiting > status->dropped ? waiting - status->dropped : 0;
    gs_recorder_write(recorder); /* the last line counts what was left out */
    gs_line_end(&recorder->lines, &recorder->style, gs_recorder_now_ns(),
                status->dropped + status->skipped + status->failed + status->silent);
    write_lines(recorder);
    status->has_ended = 1;
    gs_record_file_close(&recorder->file);
    pthread_mutex_unlock(&recorder->file_lock);
}
