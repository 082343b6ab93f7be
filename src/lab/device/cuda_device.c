/*
 * cuda_device.c: a real GPU as a device.
 *
 * A run is played event by event. After a launch the host polls its own memory, where the blocks of the probe kernel
 * report, until all have started, or none has started for a while (a silence). The silence is short as long as the
 * device does what was expected, and long otherwise or if the caller is patient. After each exit the waiting kernels
 * are polled again. At the end all kernels are stopped.
 *
 * No loop waits forever: each has a deadline. The one call that can block is a launch: growing local memory blocks the
 * host until the GPU is idle, which never happens while kernels wait for the host. So a second thread, the watchdog,
 * stops all kernels then, and the recording has nothing after that launch.
 *
 * The host treats the GPU like another thread, whose writes arrive in any order: it reads each word of a report until
 * it is there (`load_`). A run ends with a synchronization, so that nothing of it arrives during the next one.
 */
#include "device.h"
#include "probe.h"
#include "timed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_LAUNCHES = 256,
    PARTS = 4,                /* green contexts that a device makes */
    RECORD_BYTES = 48 << 20,  /* host memory for the reports of blocks */
    COPY_BYTES = 1 << 20,     /* the largest memset or copy of a graph */
    LINE = 128,               /* the distance between stop words */
    BRIEF_SILENCE_NS = 6000,  /* as expected, and not scored, because an earlier kernel waits */
    SHORT_SILENCE_NS = 20000, /* as expected */
    OTHER_SILENCE_NS = 50000, /* not as expected, and not scored */
    SILENCE_NS = 200000,
    LONG_SILENCE_NS = 1500000,   /* the caller is patient, and it is scored */
    GONE_NS = 10000,             /* from the end of a block to when it has left the GPU, at most */
    MIXED_SILENCE_NS = 50000000, /* kernels with durations may wait for one without */
    STUCK_NS = 2000000000,
    BLOCKED_NS = 200000000
};

/* Where the blocks of one launch report. All pointers but `stop` and `arguments` are into host memory. */
struct slot {
    uint32_t *sm;
    uint8_t *warps;
    uint64_t *start, *end;
    uint32_t *stop;
    cu_kernel *kernel;
    cu_stream stream;
    probe_arguments arguments;
    int64_t blocks, warps_per_block;
    const gs_launch *launch;
    int64_t started;      /* how many blocks had reported at the last poll */
    int64_t first_silent; /* all blocks before this one have reported */
    int64_t shown;        /* how many blocks had started when the kernel was last recorded */
    void *graph;          /* of the first node of a graph: the graph */
    bool launched;
    bool is_stopped; /* by an exit; blocks that have not started then start and end at once */
};

struct cuda {
    cu_api api;
    int device;
    bool has_context;
    gs_probe probe;
    gs_timed timed; /* opened when it is first needed */
    cu_stream streams[MOST_LAUNCHES];
    void *contexts[PARTS];                           /* green contexts, see cuda_split */
    cu_stream context_streams[PARTS][MOST_LAUNCHES]; /* made when they are first needed */
    int32_t context_count;
    char *memory; /* host memory that the GPU sees */
    cu_pointer memory_on_device, relays;
    cu_pointer copied; /* memory of the GPU that memsets and copies of graphs write and read; made when first needed */
    void *host_copied; /* the same of the host */
    uint32_t generation;
    struct slot slots[MOST_LAUNCHES];
    /* the watchdog */
    pthread_t watchdog;
    bool has_watchdog;
    atomic_bool quits;
    pthread_mutex_t lock;       /* protects the members below */
    int64_t launching_since_ns; /* when the present launch call began; 0: none is in progress */
    bool blocked;               /* the watchdog had to end the present or the last launch call */
};

/* ---- words that the GPU reads and writes ---- */

static uint64_t load_time(const uint64_t *time) {
    return __atomic_load_n(time, __ATOMIC_ACQUIRE);
}

static uint8_t load_slot(const uint8_t *slot) {
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/* Kernels with a duration ignore it. */
static void stop_all(struct cuda *cuda) {
    for (size_t i = 0; i < MOST_LAUNCHES; i++)
        gs_shared_word_set((uint32_t *)(void *)(cuda->memory + i * LINE), cuda->generation);
}

/* ---- the watchdog ---- */

static void *watch(void *argument) {
    struct cuda *cuda = argument;
    struct timespec nap = {.tv_nsec = 10000000};
    while (!atomic_load(&cuda->quits)) {
        pthread_mutex_lock(&cuda->lock);
        if (cuda->launching_since_ns && gs_now_ns() - cuda->launching_since_ns > BLOCKED_NS) {
            cuda->blocked = true;
            stop_all(cuda);
        }
        pthread_mutex_unlock(&cuda->lock);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

static void launch_begins(struct cuda *cuda) {
    pthread_mutex_lock(&cuda->lock);
    cuda->launching_since_ns = gs_now_ns();
    cuda->blocked = false;
    pthread_mutex_unlock(&cuda->lock);
}

/* True: the call was blocked, and the watchdog ended it. */
static bool launch_ends(struct cuda *cuda) {
    pthread_mutex_lock(&cuda->lock);
    cuda->launching_since_ns = 0;
    bool blocked = cuda->blocked;
    pthread_mutex_unlock(&cuda->lock);
    return blocked;
}

/* ---- opening ---- */

static int attribute(const struct cuda *cuda, int number) {
    int value = 0;
    cuda->api.device_attribute(&value, number, cuda->device);
    return value;
}

/* Of the configurations of the shared memory the driver reports only the largest. */
static void write_limits(gs_writer *writer, const struct cuda *cuda) {
    gs_write_object(writer, "limits");
    gs_write_int(writer, "blocks_per_sm", attribute(cuda, CU_DEVICE_BLOCKS_PER_SM));
    gs_write_int(writer, "threads_per_sm", attribute(cuda, CU_DEVICE_THREADS_PER_SM));
    gs_write_int(writer, "threads_per_block", attribute(cuda, CU_DEVICE_THREADS_PER_BLOCK));
    gs_write_int(writer, "warp_threads", attribute(cuda, CU_DEVICE_WARP));
    gs_write_int(writer, "partitions_per_sm", 4);
    gs_write_int(writer, "registers_per_sm", attribute(cuda, CU_DEVICE_REGISTERS_PER_SM));
    gs_write_int(writer, "registers_per_thread", 255);
    gs_write_int(writer, "register_granularity", 256);
    gs_write_int(writer, "shared_per_block_bytes", attribute(cuda, CU_DEVICE_SHARED_OPTIN));
    gs_write_int(writer, "shared_granularity_bytes", 128);
    gs_write_int(writer, "shared_reserved_bytes", attribute(cuda, CU_DEVICE_SHARED_RESERVED));
    gs_write_array(writer, "shared_configurations_bytes");
    gs_write_int(writer, NULL, attribute(cuda, CU_DEVICE_SHARED_PER_SM));
    gs_write_end(writer);
    gs_write_end(writer);
}

/* A description for a GPU that has none: limits from the driver, mechanisms of the paper. */
static gs_gpu *describe(const struct cuda *cuda, const char *title, gs_error *error) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    char name[24], capability[24];
    snprintf(name, sizeof name, "cuda%d", cuda->device);
    snprintf(capability, sizeof capability, "%d.%d", attribute(cuda, CU_DEVICE_MAJOR),
             attribute(cuda, CU_DEVICE_MINOR));
    gs_write_document(&writer, "gridsmith.gpu/1");
    gs_write_string(&writer, "name", name);
    gs_write_string(&writer, "title", title);
    gs_write_string(&writer, "compute_capability", capability);
    gs_write_string(&writer, "source", "limits: the driver; mechanisms: not measured");
    gs_write_object(&writer, "topology");
    gs_write_int(&writer, "sms", attribute(cuda, CU_DEVICE_SMS));
    gs_write_int(&writer, "sms_per_tpc", 2);
    gs_write_end(&writer);
    write_limits(&writer, cuda);
    gs_write_finish(&writer);
    gs_input *input = text.failed ? NULL : gs_input_memory("the driver", text.data, text.count, error);
    gs_gpu *gpu = input ? gs_gpu_read(input, error) : NULL;
    gs_input_close(input);
    gs_text_free(&text);
    return gpu;
}

/* The built-in description of a GPU of this name and size: of this very GPU, or else the one with the shortest name, as
   descriptions of single GPUs have longer ones. NULL: there is none. */
static gs_gpu *find_builtin(const struct cuda *cuda, const char *title, int32_t sms) {
    char uuid[48] = "", driver[24] = "";
    gs_gpu *best = NULL;
    gs_cuda_name_gpu(&cuda->api, cuda->device, uuid, sizeof uuid, driver, sizeof driver);
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
        bool is_model = gpu && gpu->sms == sms && gs_gpu_is_called(gpu, title, sms);
        bool is_this = is_model && gpu->uuid && strcmp(gpu->uuid, uuid) == 0;
        if (is_this || (is_model && (!best || strlen(gpu->name) < strlen(best->name)))) {
            gs_gpu_free(best);
            best = gpu;
        } else {
            gs_gpu_free(gpu);
        }
        if (is_this)
            break;
    }
    return best;
}

/* Whether the limits that the driver reports are these. */
static bool has_limits(const struct cuda *cuda, const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", attribute(cuda, CU_DEVICE_MAJOR),
             attribute(cuda, CU_DEVICE_MINOR));
    return gpu->compute_capability && strcmp(gpu->compute_capability, capability) == 0 &&
           limits->blocks_per_sm == attribute(cuda, CU_DEVICE_BLOCKS_PER_SM) &&
           limits->threads_per_sm == attribute(cuda, CU_DEVICE_THREADS_PER_SM) &&
           limits->registers_per_sm == attribute(cuda, CU_DEVICE_REGISTERS_PER_SM) &&
           limits->shared_per_block_bytes == attribute(cuda, CU_DEVICE_SHARED_OPTIN) &&
           limits->shared_reserved_bytes == attribute(cuda, CU_DEVICE_SHARED_RESERVED) &&
           gpu->largest_config_bytes == attribute(cuda, CU_DEVICE_SHARED_PER_SM);
}

/* The driver does not report the configurations of the shared memory. GPUs of one compute capability have the same. */
static void take_configurations(const struct cuda *cuda, gs_gpu *gpu) {
    bool found = false;
    for (size_t i = 0; gs_gpu_builtin(i) && !found; i++) {
        gs_gpu *like = gs_gpu_open(gs_gpu_builtin(i), NULL);
        found = like && has_limits(cuda, like);
        if (found)
            gpu->limits = like->limits;
        gs_gpu_free(like);
    }
}

/* A built-in description, or one from the driver. */
static gs_gpu *find_description(const struct cuda *cuda, gs_error *error) {
    char title[128] = "";
    cuda->api.device_name(title, sizeof title, cuda->device);
    gs_gpu *gpu = find_builtin(cuda, title, attribute(cuda, CU_DEVICE_SMS));
    if (gpu)
        return gpu;
    gpu = describe(cuda, title, error);
    if (gpu)
        take_configurations(cuda, gpu);
    return gpu;
}

static gs_code open_memory(struct cuda *cuda, gs_error *error) {
    const cu_api *api = &cuda->api;
    void *memory = NULL;
    int failed = api->host_alloc(&memory, RECORD_BYTES, CU_HOST_MAPPED);
    cuda->memory = memory;
    if (!failed)
        failed = api->host_pointer(&cuda->memory_on_device, memory, 0);
    if (!failed)
        failed = api->alloc(&cuda->relays, MOST_LAUNCHES * LINE);
    if (!failed)
        failed = api->set_bytes(cuda->relays, 0, MOST_LAUNCHES * LINE);
    for (int i = 0; i < MOST_LAUNCHES && !failed; i++)
        failed = api->stream_new(&cuda->streams[i], CU_STREAM_NON_BLOCKING, 0);
    if (!failed)
        memset(cuda->memory, 0, RECORD_BYTES);
    return gs_cuda_check(api, failed, "taking memory and streams", error);
}

/* The streams of a launch, in all contexts. */
static void free_streams(struct cuda *cuda, int number) {
    if (cuda->streams[number])
        cuda->api.stream_free(cuda->streams[number]);
    for (int i = 0; i < PARTS; i++)
        if (cuda->context_streams[i][number])
            cuda->api.stream_free(cuda->context_streams[i][number]);
}

static void cuda_close(gs_device *device) {
    struct cuda *cuda = device->inside;
    atomic_store(&cuda->quits, true);
    if (cuda->has_watchdog)
        pthread_join(cuda->watchdog, NULL);
    if (cuda->has_context) {
        if (cuda->probe.api)
            gs_probe_close(&cuda->probe);
        gs_timed_close(&cuda->timed, &cuda->api);
        for (int i = 0; i < MOST_LAUNCHES; i++)
            free_streams(cuda, i);
        if (cuda->relays)
            cuda->api.free(cuda->relays);
        if (cuda->copied)
            cuda->api.free(cuda->copied);
        if (cuda->host_copied)
            cuda->api.host_free(cuda->host_copied);
        if (cuda->memory)
            cuda->api.host_free(cuda->memory);
        cuda->api.context_release(cuda->device);
    }
    gs_cuda_close(&cuda->api);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

static gs_run *cuda_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error);
static gs_code cuda_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error);
static gs_code cuda_split(gs_device *device, gs_error *error);

static const gs_device_ops cuda_ops = {
    .name = "cuda", .play = cuda_play, .close = cuda_close, .time = cuda_time, .split = cuda_split};

static gs_code open_all(gs_device *device, const char *rest, gs_error *error) {
    struct cuda *cuda = device->inside;
    gs_code code = gs_cuda_open(&cuda->api, error);
    if (code == GS_OK)
        code = gs_cuda_open_gpu(&cuda->api, rest, &cuda->device, &cuda->has_context, error);
    if (code == GS_OK)
        code = open_memory(cuda, error);
    if (code == GS_OK)
        code = gs_probe_open(&cuda->probe, &cuda->api,
                             attribute(cuda, CU_DEVICE_MAJOR) * 10 + attribute(cuda, CU_DEVICE_MINOR),
                             attribute(cuda, CU_DEVICE_SHARED_OPTIN), error);
    if (code == GS_OK && !(device->gpu = find_description(cuda, error)))
        code = GS_E_MEMORY;
    if (code != GS_OK)
        return code;
    gs_cuda_name_gpu(&cuda->api, cuda->device, device->uuid, sizeof device->uuid, device->driver,
                     sizeof device->driver);
    device->clusters = attribute(cuda, CU_DEVICE_CLUSTERS) ? 8 : 1;
    device->connections = gs_cuda_connections();
    cuda->has_watchdog = pthread_create(&cuda->watchdog, NULL, watch, cuda) == 0;
    return cuda->has_watchdog ? GS_OK : gs_fail(error, GS_E_MEMORY, "cannot start a thread");
}

gs_device *gs_device_open_cuda(const char *rest, gs_error *error) {
    gs_device *device = calloc(1, sizeof *device);
    struct cuda *cuda = calloc(1, sizeof *cuda);
    if (!device || !cuda) {
        free(device);
        free(cuda);
        gs_fail_memory(error);
        return NULL;
    }
    pthread_mutex_init(&cuda->lock, NULL);
    *device = (gs_device){.ops = &cuda_ops, .inside = cuda};
    if (open_all(device, rest, error) == GS_OK)
        return device;
    gs_device_close(device);
    return NULL;
}

/* ---- the reports of blocks ---- */

static size_t round_up(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* The duration of a block, which stands in its `end` until it has ended. */
static uint64_t planned(const gs_launch *launch, int64_t block) {
    return launch->duration_ns ? (uint64_t)gs_block_duration(launch, block) : 0;
}

/* When a block ended; 0: not yet. */
static uint64_t end_of(const struct slot *slot, int64_t block) {
    uint64_t time = load_time(&slot->end[block]);
    return time == planned(slot->launch, block) ? 0 : time;
}

/* Gives a launch its part of the host memory, from `*at` on, and clears it. */
static gs_code prepare_slot(struct cuda *cuda, size_t number, const gs_launch *launch, int32_t warp_threads, size_t *at,
                            gs_error *error) {
    struct slot *slot = &cuda->slots[number];
    size_t blocks = (size_t)launch->blocks, warps = (size_t)gs_divide_up(launch->shape.threads, warp_threads);
    size_t sizes[] = {round_up(blocks * 4), round_up(blocks * 8), round_up(blocks * 8), round_up(blocks * warps)};
    size_t needed = sizes[0] + sizes[1] + sizes[2] + sizes[3], sm = *at, start = sm + sizes[0], end = start + sizes[1],
           slots = end + sizes[2];
    if (*at + needed > RECORD_BYTES)
        return gs_fail(error, GS_E_USAGE, "the run has more blocks than can report to the host");
    cu_pointer base = cuda->memory_on_device;
    *slot = (struct slot){.sm = (uint32_t *)(void *)(cuda->memory + sm),
                          .start = (uint64_t *)(void *)(cuda->memory + start),
                          .end = (uint64_t *)(void *)(cuda->memory + end),
                          .warps = (uint8_t *)(cuda->memory + slots),
                          .stop = (uint32_t *)(void *)(cuda->memory + number * LINE),
                          .blocks = launch->blocks,
                          .launch = launch,
                          .warps_per_block = (int64_t)warps};
    slot->arguments = (probe_arguments){.sm = base + sm,
                                        .start = base + start,
                                        .end = base + end,
                                        .slots = base + slots,
                                        .stop = base + number * LINE,
                                        .relay = cuda->relays + number * LINE,
                                        .is_timed = launch->duration_ns != 0,
                                        .warps = (uint32_t)warps,
                                        .generation = cuda->generation,
                                        .triggers = true};
    memset(cuda->memory + sm, 0, sizes[0] + sizes[1]);
    memset(cuda->memory + slots, PROBE_NO_SLOT, sizes[3]);
    for (int64_t i = 0; i < launch->blocks; i++)
        slot->end[i] = planned(launch, i);
    *at += needed;
    /* The kernel is loaded now, while the GPU is idle: later, loading could wait for kernels that wait for the host. */
    return gs_probe_find(&cuda->probe, launch->shape.registers, launch->shape.local_bytes, &slot->kernel, error);
}

/* Counts the blocks that have reported their SM. Blocks start nearly in order. */
static int64_t count_started(struct slot *slot) {
    if (!slot->launched)
        return 0;
    while (slot->first_silent < slot->blocks && gs_shared_word(&slot->sm[slot->first_silent]))
        slot->first_silent++;
    int64_t started = slot->first_silent;
    for (int64_t i = slot->first_silent; i < slot->blocks; i++)
        started += gs_shared_word(&slot->sm[i]) != 0;
    return slot->started = started;
}

static bool is_complete(const struct slot *slot, int64_t block) {
    const uint8_t *warps = slot->warps + block * slot->warps_per_block;
    for (int64_t i = 0; i < slot->warps_per_block; i++)
        if (load_slot(&warps[i]) == PROBE_NO_SLOT)
            return false;
    return load_time(&slot->start[block]);
}

static int64_t count_ended(const struct slot *slot) {
    int64_t ended = 0;
    for (int64_t i = 0; i < slot->blocks; i++)
        ended += end_of(slot, i) != 0;
    return ended;
}

static bool has_ended(const struct slot *slot) {
    for (int64_t i = 0; i < slot->blocks; i++)
        if (gs_shared_word(&slot->sm[i]) && !end_of(slot, i))
            return false;
    return true;
}

/* ---- waiting ---- */

/* A play in progress. */
struct play {
    struct cuda *cuda;
    const gs_run *run;
    const gs_play_options *options;
    gs_run *out;
    size_t launched;     /* launches so far */
    int64_t *expected;   /* see count_expected; NULL: nothing is expected */
    int32_t connections; /* of this program */
    bool cut_short;      /* the watchdog had to stop it */
    bool is_scored;      /* no launch has had to wait for room, after which nothing is scored */
    int64_t surplus;     /* blocks that had started beyond those expected when the last wait ended */
    int64_t acted_ns;    /* when the host last launched a kernel, or a stopped one was gone */
    size_t watched;      /* the host has waited for the blocks of the launches before this one */
    size_t recorded;     /* launches before this one are recorded */
};

/* Blocks that have started: all of them, and those of kernels that no exit has stopped. */
struct started {
    int64_t all, running;
};

static struct started count_all(struct play *play) {
    struct started started = {0};
    for (size_t i = 0; i < play->launched; i++) {
        struct slot *slot = &play->cuda->slots[i];
        int64_t now = slot->started == slot->blocks ? slot->blocks : count_started(slot);
        started.all += now;
        started.running += slot->is_stopped ? 0 : now;
    }
    return started;
}

/* How long no block must start before the wait ends. Blocks that are left of stopped kernels can hold up others, which
   the expected run does not know. That is not a surprise at each event. */
static int64_t silence(const struct play *play, const struct started *seen, int64_t expected, bool matters) {
    int64_t surplus = seen->running - expected;
    if (play->options->patient)
        return play->expected && !play->is_scored ? SILENCE_NS : LONG_SILENCE_NS;
    if (!play->expected || (surplus && play->is_scored))
        return SILENCE_NS;
    if (surplus && surplus != play->surplus)
        return OTHER_SILENCE_NS;
    return matters ? SHORT_SILENCE_NS : BRIEF_SILENCE_NS;
}

/* Polls until `most` blocks have started in all, or none has started for long enough. That depends on whether as many
   have started as expected, of the kernels that no exit has stopped, and on whether it matters for the score. */
static void wait_for_starts(struct play *play, int64_t expected, int64_t most, bool matters) {
    int64_t last = play->acted_ns;
    struct started seen = count_all(play);
    while (seen.all < most && gs_now_ns() - last <= silence(play, &seen, expected, matters)) {
        struct started now = count_all(play);
        if (now.all != seen.all)
            last = gs_now_ns();
        seen = now;
    }
    play->surplus = seen.running - expected;
}

/* Waits until the started blocks of a launch have ended. */
static gs_code wait_for_end(const struct slot *slot, gs_error *error) {
    int64_t deadline = gs_now_ns() + STUCK_NS;
    while (!has_ended(slot))
        if (gs_now_ns() > deadline)
            return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: a kernel does not stop");
    return GS_OK;
}

/* Waits for the rest of the report of a block that has reported its SM. */
static gs_code wait_for_report(const struct slot *slot, int64_t block, gs_error *error) {
    int64_t deadline = 0;
    while (!is_complete(slot, block)) {
        deadline = deadline ? deadline : gs_now_ns() + STUCK_NS;
        if (gs_now_ns() > deadline)
            return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: a block has not reported its warps");
    }
    return GS_OK;
}

/* Waits until the launches from `first` to before `past` have ended. Kernels with durations end by themselves, but may
   wait for one without. Then nothing starts or ends for longer than the longest duration, and the wait ends too. */
static void wait_for_times(struct play *play, size_t first, size_t past) {
    int64_t longest = 0, patience = STUCK_NS, last = gs_now_ns(), seen = -1, over = 0, wanted = 0;
    for (size_t i = 0; i < play->launched; i++) {
        int64_t duration_ns = play->run->launches.data[i].duration_ns + play->run->launches.data[i].spread_ns;
        longest = gs_max(longest, duration_ns);
        patience = duration_ns ? patience : MIXED_SILENCE_NS;
        wanted += i >= first && i < past ? play->cuda->slots[i].blocks : 0;
    }
    while (over < wanted && gs_now_ns() - last <= longest + patience) {
        int64_t now_seen = count_all(play).all;
        over = 0;
        for (size_t i = 0; i < play->launched; i++) {
            int64_t ended = count_ended(&play->cuda->slots[i]);
            now_seen += ended;
            over += i >= first && i < past ? ended : 0;
        }
        if (now_seen != seen)
            last = gs_now_ns();
        seen = now_seen;
    }
}

/* For each launch and exit: how many blocks have started after it in the expected run, of the kernels that have not
   exited. A kernel that exits while some of its blocks wait loses them in the expected run, but on a GPU they still
   start. */
static gs_code count_expected(struct play *play, gs_error *error) {
    const gs_run *expected = play->options->expected;
    int64_t started[MOST_LAUNCHES] = {0}, total = 0;
    bool has_exited[MOST_LAUNCHES] = {false};
    size_t number = 0;
    if (!expected || gs_run_is_timed(play->run))
        return GS_OK;
    play->expected = calloc(play->run->events.count + 1, sizeof *play->expected);
    if (!play->expected)
        return gs_fail_memory(error);
    for (size_t i = 0; i < expected->events.count; i++) {
        const gs_event *event = &expected->events.data[i];
        number += event->op != GS_OBSERVE;
        if (number > play->run->events.count)
            break;
        if (event->launch < MOST_LAUNCHES) {
            bool is_exit = event->op == GS_EXIT, is_news = event->seen->has_placed && !has_exited[event->launch];
            int64_t before = started[event->launch];
            int64_t now = is_exit ? 0 : is_news ? gs_seen_started(event->seen) : before;
            total += now - before;
            started[event->launch] = now;
            has_exited[event->launch] |= is_exit;
        }
        if (number)
            play->expected[number - 1] = total;
    }
    return GS_OK;
}

static int64_t expected_after(const struct play *play, size_t event) {
    return play->expected ? play->expected[event] : 0;
}

/* ---- events ---- */

static int64_t context_of(const gs_launch *launch) {
    return launch->issue.facts ? launch->issue.facts->green_context : GS_NOT_GIVEN;
}

/* The CUDA stream of a launch is that of the first launch in its stream. */
static cu_stream stream_of(const struct play *play, size_t number) {
    const gs_launch *launches = play->run->launches.data;
    size_t first = 0;
    if (context_of(&launches[number]) >= 0)
        return play->cuda->context_streams[context_of(&launches[number])][number];
    while (first < number && !(launches[number].stream && launches[first].stream &&
                               strcmp(launches[first].stream, launches[number].stream) == 0))
        first++;
    return play->cuda->streams[first];
}

static bool is_programmatic(const struct play *play, const gs_launch *launch) {
    for (size_t i = launch->issue.after; i < (size_t)launch->issue.after + launch->issue.after_count; i++)
        if (play->run->edges.data[i].when != GS_AT_END)
            return true;
    return false;
}

static bool is_cooperative(const gs_launch *launch) {
    return launch->issue.facts && launch->issue.facts->is_cooperative;
}

static gs_code launch_kernel(struct play *play, size_t number, size_t event, gs_error *error) {
    struct cuda *cuda = play->cuda;
    const gs_launch *launch = &play->run->launches.data[number];
    struct slot *slot = &cuda->slots[number];
    slot->stream = stream_of(play, number);
    const cu_call call = {.grid = {(uint32_t)launch->blocks, 1, 1},
                          .block = {(uint32_t)launch->shape.threads, 1, 1},
                          .shared_bytes = (uint64_t)launch->shape.shared_bytes,
                          .stream = slot->stream,
                          .cluster = (uint32_t)launch->cluster,
                          .has_priority = true,
                          .priority = -abs(launch->priority),
                          .is_programmatic = is_programmatic(play, launch),
                          .is_cooperative = is_cooperative(launch)};
    void *arguments[] = {&slot->arguments};
    int failed = gs_cuda_kernel_carve(&cuda->api, slot->kernel, launch->shape.carveout_percent);
    launch_begins(cuda);
    if (!failed)
        failed = gs_cuda_launch(&cuda->api, slot->kernel, &call, arguments);
    play->cut_short = launch_ends(cuda);
    if (failed)
        return gs_run_fail(play->run, event, error, gs_cuda_check(&cuda->api, failed, "launching", error), "%s",
                           error ? error->message : "");
    slot->launched = true;
    return GS_OK;
}

static gs_code reserve_seen(gs_seen *seen, size_t blocks, size_t warps, bool with_ends, gs_error *error) {
    seen->warp_slots.slots = malloc(blocks * warps * sizeof *seen->warp_slots.slots + 1);
    seen->warp_slots.ends = malloc(blocks * sizeof *seen->warp_slots.ends + 1);
    bool reserved = seen->warp_slots.slots && seen->warp_slots.ends && GS_RESERVE(&seen->placed, blocks) &&
                    GS_RESERVE(&seen->start_ns, blocks) && GS_RESERVE(&seen->end_ns, with_ends ? blocks : 0);
    return reserved ? GS_OK : gs_fail_memory(error);
}

/* Copies the reports of a launch into a recording. */
static gs_code record(const struct slot *slot, gs_seen *seen, bool with_ends, gs_error *error) {
    size_t blocks = (size_t)slot->blocks, warps = (size_t)slot->warps_per_block, end = 0;
    *seen = (gs_seen){.has_placed = true, .has_warp_slots = true, .has_start = with_ends, .has_end = with_ends};
    gs_code code = reserve_seen(seen, blocks, warps, with_ends, error);
    if (code != GS_OK)
        return code;
    for (size_t i = 0; i < blocks && code == GS_OK; i++) {
        uint32_t sm = gs_shared_word(&slot->sm[i]);
        uint64_t ended = sm && with_ends ? end_of(slot, (int64_t)i) : 0;
        code = sm ? wait_for_report(slot, (int64_t)i, error) : GS_OK;
        seen->placed.data[i] = (int32_t)sm - 1;
        seen->start_ns.data[i] = sm ? (int64_t)slot->start[i] : GS_NO_TIME;
        if (with_ends)
            seen->end_ns.data[i] = ended ? (int64_t)ended : GS_NO_TIME;
        for (size_t warp = 0; sm && warp < warps; warp++)
            seen->warp_slots.slots[end++] = slot->warps[i * warps + warp];
        seen->warp_slots.ends[i] = end;
    }
    seen->placed.count = seen->start_ns.count = blocks;
    seen->end_ns.count = with_ends ? blocks : 0;
    return code;
}

/* ---- graphs: the launches of one graph follow each other in the run ---- */

/* The launch past the last node of the graph that this launch is the first node of; without a graph, the next launch.
 */
static size_t past_graph(const gs_run *run, size_t first) {
    size_t past = first + 1;
    while (gs_run_graph_goes_on(run, past - 1))
        past++;
    return past;
}

/* The nodes of a graph: kernels, and the memsets and copies between them. */
struct graph_nodes {
    struct play *play;
    size_t first, past; /* its launches */
    size_t copies, past_copies;
    size_t count;
    cu_node nodes[CU_MOST_NODES];
    uint32_t after[CU_MOST_NODES][CU_MOST_NODES];
    uint32_t of_launch[CU_MOST_NODES], of_copy[CU_MOST_NODES]; /* the numbers of the nodes */
};

/* The memsets and copies of a graph follow each other in the run. */
static void find_copies(struct graph_nodes *graph) {
    const gs_run *run = graph->play->run;
    const gs_issue *first = &run->launches.data[graph->first].issue;
    size_t at = 0;
    while (at < run->copies.count && !gs_issue_is_beside(&run->copies.data[at].issue, first))
        at++;
    graph->copies = at;
    while (at < run->copies.count && gs_issue_is_beside(&run->copies.data[at].issue, first))
        at++;
    graph->past_copies = at;
}

/* Fills in what a node waits for. Only edges inside of the graph can be played. */
static gs_code set_edges(struct graph_nodes *graph, const gs_issue *issue, uint32_t place, gs_error *error) {
    const gs_run *run = graph->play->run;
    cu_node *node = &graph->nodes[graph->count];
    node->after = graph->after[graph->count];
    for (size_t i = 0; i < issue->after_count; i++) {
        const gs_edge *edge = &run->edges.data[issue->after + i];
        size_t first = edge->is_copy ? graph->copies : graph->first;
        size_t past = edge->is_copy ? graph->past_copies : graph->past;
        if (edge->number < first || edge->number >= past || edge->when != GS_AT_END)
            return gs_run_fail_at(run, place, error, GS_E_UNSUPPORTED,
                                  "a node of a graph can wait only for the end of nodes of the same graph");
        graph->after[graph->count][node->after_count++] =
            edge->is_copy ? graph->of_copy[edge->number - first] : graph->of_launch[edge->number - first];
    }
    return GS_OK;
}

static gs_code add_kernel_node(struct graph_nodes *graph, size_t number, gs_error *error) {
    struct play *play = graph->play;
    const gs_launch *launch = &play->run->launches.data[number];
    struct slot *slot = &play->cuda->slots[number];
    int64_t context = context_of(launch);
    graph->nodes[graph->count] = (cu_node){.kernel = slot->kernel,
                                           .blocks = (unsigned)launch->blocks,
                                           .threads = (unsigned)launch->shape.threads,
                                           .shared_bytes = (unsigned)launch->shape.shared_bytes,
                                           .arguments = &slot->arguments,
                                           .priority = -abs(launch->priority)};
    if (context >= 0)
        graph->nodes[graph->count].stream = play->cuda->context_streams[context][number];
    gs_code code = set_edges(graph, &launch->issue, play->run->events.data[launch->event].place, error);
    graph->of_launch[number - graph->first] = (uint32_t)graph->count++;
    /* An earlier run may have left the carve-out of the function at another value. */
    int failed = gs_cuda_kernel_carve(&play->cuda->api, slot->kernel, launch->shape.carveout_percent);
    return code == GS_OK ? gs_cuda_check(&play->cuda->api, failed, "setting the carve-out of a node", error) : code;
}

static gs_code take_copy_memory(struct cuda *cuda, gs_error *error) {
    int failed = cuda->copied ? 0 : cuda->api.alloc(&cuda->copied, (size_t)2 * COPY_BYTES);
    if (!failed && !cuda->host_copied)
        failed = cuda->api.host_alloc(&cuda->host_copied, COPY_BYTES, 0);
    return gs_cuda_check(&cuda->api, failed, "taking memory for copies", error);
}

static gs_code add_memory_node(struct graph_nodes *graph, size_t number, gs_error *error) {
    static const cu_node_kind kinds[GS_COPY_KINDS] = {[GS_COPY_UNKNOWN] = CU_NODE_COPY,
                                                      [GS_COPY_DEVICE_TO_DEVICE] = CU_NODE_COPY,
                                                      [GS_COPY_HOST_TO_DEVICE] = CU_NODE_COPY_IN,
                                                      [GS_COPY_DEVICE_TO_HOST] = CU_NODE_COPY_OUT};
    struct cuda *cuda = graph->play->cuda;
    const gs_copy *copy = &graph->play->run->copies.data[number];
    if (copy->bytes < 4 || copy->bytes > COPY_BYTES || copy->bytes % 4)
        return gs_run_fail_at(graph->play->run, copy->place, error, GS_E_UNSUPPORTED,
                              "a memset or copy of a graph on a GPU has 4 bytes to %d, a multiple of 4", COPY_BYTES);
    gs_code code = take_copy_memory(cuda, error);
    if (code != GS_OK)
        return code;
    graph->nodes[graph->count] = (cu_node){.kind = copy->is_memset ? CU_NODE_MEMSET : kinds[copy->kind],
                                           .to = cuda->copied,
                                           .from = cuda->copied + COPY_BYTES,
                                           .host = cuda->host_copied,
                                           .bytes = (size_t)copy->bytes};
    code = set_edges(graph, &copy->issue, copy->place, error);
    graph->of_copy[number - graph->copies] = (uint32_t)graph->count++;
    return code;
}

static gs_code make_graph(struct play *play, size_t first, size_t past, gs_error *error) {
    struct cuda *cuda = play->cuda;
    struct graph_nodes graph = {.play = play, .first = first, .past = past};
    gs_code code = GS_OK;
    find_copies(&graph);
    size_t copy = graph.copies;
    if (past - first + graph.past_copies - graph.copies > CU_MOST_NODES)
        return gs_fail(error, GS_E_USAGE, "a graph on a GPU has at most %d nodes", CU_MOST_NODES);
    for (size_t i = first; i <= past && code == GS_OK; i++) {
        for (; copy < graph.past_copies && play->run->copies.data[copy].before <= i && code == GS_OK; copy++)
            code = add_memory_node(&graph, copy, error);
        if (i < past && code == GS_OK)
            code = add_kernel_node(&graph, i, error);
    }
    if (code == GS_OK)
        code = gs_cuda_graph_make(&cuda->api, graph.nodes, graph.count, cuda->streams[first], &cuda->slots[first].graph,
                                  error);
    return code;
}

static gs_code make_graphs(struct play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0, past; i < play->run->launches.count && code == GS_OK; i = past) {
        past = past_graph(play->run, i);
        if (gs_issue_is_node(&play->run->launches.data[i].issue))
            code = make_graph(play, i, past, error);
    }
    return code;
}

static void free_graphs(struct play *play) {
    for (size_t i = 0; i < play->run->launches.count && i < MOST_LAUNCHES; i++) {
        gs_cuda_graph_free(&play->cuda->api, play->cuda->slots[i].graph);
        play->cuda->slots[i].graph = NULL;
    }
}

static gs_code launch_graph(struct play *play, size_t first, size_t past, gs_error *error) {
    struct cuda *cuda = play->cuda;
    launch_begins(cuda);
    int failed = gs_cuda_graph_launch(&cuda->api, cuda->slots[first].graph, cuda->streams[first]);
    play->cut_short = launch_ends(cuda);
    for (size_t i = first; i < past && !failed; i++) {
        cuda->slots[i].stream = cuda->streams[first];
        cuda->slots[i].launched = true;
    }
    return gs_cuda_check(&cuda->api, failed, "launching a graph", error);
}

/* ---- launches and exits ---- */

/* The host was blocked: no block of these launches had started by then. */
static gs_code record_nothing(struct play *play, size_t first, size_t past, gs_error *error) {
    for (size_t i = first; i < past; i++) {
        gs_seen *seen = gs_event_see(&play->out->events.data[play->out->launches.data[i].event]);
        if (!seen)
            return gs_fail_memory(error);
        seen->has_placed = true;
    }
    return GS_OK;
}

/* Whether the launch waits for others, and not for room. */
static bool waits_for_others(const struct slot *slot) {
    return !slot->started && slot->launch->issue.after_count;
}

/* Records the launches that all blocks have started of and that are not recorded yet. This can wait until the GPU has
   something else to do, because their reports do not change. */
static gs_code record_started(struct play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (; play->recorded < play->watched && code == GS_OK; play->recorded++) {
        gs_event *out = &play->out->events.data[play->out->launches.data[play->recorded].event];
        code = record(&play->cuda->slots[play->recorded], gs_event_see(out), false, error);
    }
    return code;
}

static gs_code watch_starts(struct play *play, size_t first, size_t past, size_t event, gs_error *error) {
    struct slot *slots = play->cuda->slots;
    int64_t wanted = 0;
    bool matters = play->is_scored, all_started = true;
    for (size_t i = 0; i < past; i++) {
        wanted += i < first ? slots[i].started : slots[i].blocks;
        matters = matters && (i >= first || slots[i].started == slots[i].blocks || waits_for_others(&slots[i]));
    }
    wait_for_starts(play, expected_after(play, event), wanted, matters);
    for (size_t i = first; i < past; i++) {
        slots[i].shown = slots[i].started;
        all_started = all_started && slots[i].started == slots[i].blocks;
        if (slots[i].started < slots[i].blocks && !waits_for_others(&slots[i]) && !play->run->connections)
            play->is_scored = false;
    }
    play->watched = past;
    return all_started ? GS_OK : record_started(play, error);
}

/* A launch, or all launches of a graph. */
static gs_code play_launch(struct play *play, size_t event, gs_error *error) {
    size_t first = play->run->events.data[event].launch, past = past_graph(play->run, first);
    gs_code code = gs_issue_is_node(&play->run->launches.data[first].issue) ? launch_graph(play, first, past, error)
                                                                            : launch_kernel(play, first, event, error);
    play->acted_ns = gs_now_ns();
    if (code == GS_OK)
        code = record_started(play, error);
    for (size_t i = first; i < past && code == GS_OK; i++)
        code = gs_run_copy_launch(play->out, &play->run->launches.data[i], error);
    if (code != GS_OK)
        return code;
    play->launched += past - first;
    if (play->cut_short)
        return record_nothing(play, first, past, error);
    return gs_run_is_timed(play->run) ? GS_OK : watch_starts(play, first, past, event + past - first - 1, error);
}

static gs_code show_gained(struct play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->launched && code == GS_OK; i++) {
        struct slot *slot = &play->cuda->slots[i];
        if (count_started(slot) == slot->shown)
            continue;
        gs_event *out = gs_run_add_event(play->out, GS_OBSERVE, i, error);
        slot->shown = slot->started;
        code = out ? record(slot, gs_event_see(out), false, error) : GS_E_MEMORY;
    }
    return code;
}

/* The blocks of a launch have reported their end, but may still be on the GPU. If other launches use its stream, the
   stream does not show when it has ended. */
static void wait_until_gone(struct play *play, size_t number) {
    struct slot *slots = play->cuda->slots;
    size_t users = 0;
    for (size_t i = 0; i < play->launched; i++)
        users += slots[i].stream == slots[number].stream;
    int64_t deadline = gs_now_ns() + (users > 1 ? GONE_NS : LONG_SILENCE_NS);
    if (users == 1)
        gs_cuda_wait_until(&play->cuda->api, slots[number].stream, deadline);
    while (users > 1 && gs_now_ns() < deadline)
        ;
}

static gs_code watch_exit(struct play *play, size_t event, gs_error *error) {
    int64_t most = 0;
    bool are_left = false; /* blocks of stopped kernels, which may start now */
    for (size_t i = 0; i < play->launched; i++) {
        const struct slot *slot = &play->cuda->slots[i];
        most += slot->blocks;
        are_left |= slot->is_stopped && slot->started < slot->blocks;
    }
    wait_for_starts(play, expected_after(play, event), most, play->is_scored || are_left);
    return show_gained(play, error);
}

static gs_code play_exit(struct play *play, size_t event, gs_error *error) {
    size_t number = play->run->events.data[event].launch;
    struct slot *slot = &play->cuda->slots[number];
    if (play->run->launches.data[number].duration_ns)
        wait_for_times(play, number, number + 1);
    slot->is_stopped = true;
    gs_shared_word_set(slot->stop, play->cuda->generation);
    gs_code code = record_started(play, error);
    if (code == GS_OK)
        code = wait_for_end(slot, error);
    if (code == GS_OK && slot->started == slot->blocks)
        wait_until_gone(play, number);
    play->acted_ns = gs_now_ns();
    if (code == GS_OK && !gs_run_add_event(play->out, GS_EXIT, number, error))
        code = GS_E_MEMORY;
    return code == GS_OK && !gs_run_is_timed(play->run) ? watch_exit(play, event, error) : code;
}

/* Stops all kernels. Those that still wait start, find that they are stopped, and end too. */
static gs_code end_all(struct play *play, gs_error *error) {
    struct cuda *cuda = play->cuda;
    stop_all(cuda);
    gs_code code = play->out ? record_started(play, error) : GS_OK;
    int64_t deadline = gs_now_ns() + STUCK_NS;
    for (size_t i = 0; i < play->launched; i++) {
        struct slot *slot = &cuda->slots[i];
        while (count_started(slot) < slot->blocks || !has_ended(slot))
            if (gs_now_ns() > deadline)
                return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: not all blocks of \"%.60s\" have run",
                               play->run->launches.data[i].kernel);
    }
    int failed = cuda->api.synchronize();
    return code == GS_OK ? gs_cuda_check(&cuda->api, failed, "waiting for the GPU", error) : code;
}

/* With durations, launches are recorded when all have ended. One that blocked the host is recorded already. */
static gs_code record_timed(struct play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->launched && code == GS_OK; i++) {
        gs_event *out = &play->out->events.data[play->out->launches.data[i].event];
        if (!out->seen->has_placed)
            code = record(&play->cuda->slots[i], gs_event_see(out), true, error);
    }
    return code;
}

/* After the host was blocked nothing more is played: later events are recorded without what was seen. */
static gs_code skip_event(struct play *play, const gs_event *event, gs_error *error) {
    if (event->op == GS_LAUNCH)
        return gs_run_copy_launch(play->out, &play->run->launches.data[event->launch], error);
    return gs_run_add_event(play->out, event->op, event->launch, error) ? GS_OK : GS_E_MEMORY;
}

static gs_code play_events(struct play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->run->events.count && code == GS_OK; i++) {
        const gs_event *event = &play->run->events.data[i];
        if (event->op == GS_OBSERVE)
            continue;
        if (event->op == GS_LAUNCH && event->launch < play->launched)
            continue; /* it was launched with its graph */
        if (play->cut_short)
            code = skip_event(play, event, error);
        else
            code = event->op == GS_LAUNCH ? play_launch(play, i, error) : play_exit(play, i, error);
    }
    return code;
}

/* Makes the streams of launches in green contexts, each its own, while the GPU is idle. */
static gs_code prepare_contexts(struct play *play, gs_error *error) {
    struct cuda *cuda = play->cuda;
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->run->launches.count && code == GS_OK; i++) {
        const gs_launch *launch = &play->run->launches.data[i];
        int64_t context = context_of(launch);
        if (context < 0)
            continue;
        if (context >= cuda->context_count || launch->stream)
            return gs_run_fail(play->run, launch->event, error, GS_E_UNSUPPORTED,
                               "a run on a GPU can have launches in green contexts 0 to %d of the device, without "
                               "streams",
                               cuda->context_count - 1);
        if (!cuda->context_streams[context][i])
            code = gs_cuda_green_stream(&cuda->api, cuda->contexts[context], &cuda->context_streams[context][i], error);
    }
    return code;
}

static gs_code prepare(struct play *play, const gs_gpu *gpu, gs_error *error) {
    const gs_run *run = play->run;
    struct cuda *cuda = play->cuda;
    size_t at = (size_t)MOST_LAUNCHES * LINE;
    gs_code code = GS_OK;
    if (run->launches.count > MOST_LAUNCHES)
        return gs_fail(error, GS_E_USAGE, "a run on a GPU has at most %d launches", MOST_LAUNCHES);
    if (run->connections && run->connections != play->connections)
        return gs_fail(error, GS_E_USAGE,
                       "the run has %d connections, but this program has %d: set CUDA_DEVICE_MAX_CONNECTIONS=%d",
                       run->connections, play->connections, run->connections);
    cuda->generation++;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = prepare_slot(cuda, i, &run->launches.data[i], gpu->limits.warp_threads, &at, error);
    if (code == GS_OK)
        code = count_expected(play, error);
    if (code == GS_OK)
        code = prepare_contexts(play, error);
    if (code == GS_OK)
        code = make_graphs(play, error);
    play->out = code == GS_OK ? gs_run_new(error) : NULL;
    if (!play->out)
        return code == GS_OK ? GS_E_MEMORY : code;
    play->out->gpu = strdup(gpu->name);
    return play->out->gpu ? GS_OK : gs_fail_memory(error);
}

static gs_run *cuda_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error) {
    struct play play = {
        .cuda = device->inside, .run = run, .options = options, .connections = device->connections, .is_scored = true};
    gs_error unused;
    gs_code code = prepare(&play, device->gpu, error);
    if (code == GS_OK) {
        code = play_events(&play, error);
        if (gs_run_is_timed(run)) {
            wait_for_times(&play, 0, play.launched);
            code = code == GS_OK ? record_timed(&play, error) : code;
        }
        gs_code ended = end_all(&play, code == GS_OK ? error : &unused);
        code = code == GS_OK ? ended : code;
    }
    free(play.expected);
    free_graphs(&play);
    if (code == GS_OK)
        code = gs_run_copy_rest(play.out, run, error);
    if (code == GS_OK)
        return play.out;
    gs_run_free(play.out);
    return NULL;
}

/* ---- green contexts ---- */

/* A kernel that fills a context shows which SMs it has. The caller frees the recording. */
static gs_run *play_in_context(gs_device *device, int32_t context, gs_error *error) {
    gs_launch launch = gs_launch_default();
    gs_launch_facts facts = gs_launch_facts_none();
    gs_play_options options = {0};
    const gs_limits *limits = &device->gpu->limits;
    facts.green_context = context;
    launch.issue.facts = &facts;
    launch.kernel = strdup("k");
    launch.blocks = 2 * (int64_t)device->gpu->sms;
    launch.shape = gs_shape_of(limits->threads_per_block, gs_generated_registers(1), 0);
    gs_run *run = launch.kernel ? gs_run_new(error) : NULL, *seen = NULL;
    if (run && gs_run_add_launch(run, &launch, error) == GS_OK)
        seen = cuda_play(device, run, &options, error);
    gs_run_free(run);
    return seen;
}

/* Adds a context: the SMs that are in the recording. */
static gs_code add_context(gs_device *device, const gs_run *recorded, gs_error *error) {
    gs_green_contexts *contexts = &device->contexts;
    const gs_seen *seen = recorded->events.data[0].seen;
    bool *has = calloc((size_t)device->gpu->sms, sizeof *has);
    int32_t end = contexts->count ? contexts->ends[contexts->count - 1] : 0;
    if (!has)
        return gs_fail_memory(error);
    for (size_t i = 0; i < seen->placed.count; i++)
        if (seen->placed.data[i] >= 0 && seen->placed.data[i] < device->gpu->sms)
            has[seen->placed.data[i]] = true;
    for (int32_t sm = 0; sm < device->gpu->sms; sm++)
        if (has[sm])
            contexts->sms[end++] = (int16_t)sm;
    contexts->ends[contexts->count++] = end;
    free(has);
    return GS_OK;
}

static gs_code cuda_split(gs_device *device, gs_error *error) {
    struct cuda *cuda = device->inside;
    int32_t least, step, sms = device->gpu->sms / PARTS;
    gs_gpu_green_sizes(device->gpu, &least, &step);
    gs_code code = gs_cuda_green_all(&cuda->api, cuda->device, (int32_t)gs_max(sms / step * step, least), PARTS,
                                     cuda->contexts, &cuda->context_count, error);
    gs_green_contexts *contexts = &device->contexts;
    contexts->sms = calloc((size_t)PARTS * (size_t)device->gpu->sms, sizeof *contexts->sms);
    contexts->ends = calloc(PARTS, sizeof *contexts->ends);
    if (!contexts->sms || !contexts->ends)
        return gs_fail_memory(error);
    for (int32_t i = 0; i < cuda->context_count && code == GS_OK; i++) {
        gs_run *recorded = play_in_context(device, i, error);
        code = recorded ? add_context(device, recorded, error) : GS_E_NO_GPU;
        gs_run_free(recorded);
    }
    return code;
}

/* ---- timing ---- */

/* The reports of a timed kernel. */
struct reports {
    uint32_t *sm;
    uint64_t *start, *end;
};

/* Divides the host memory into the parts for blocks and warps to report to, and sets the arguments of the kernel. */
static struct reports lay_out_reports(struct cuda *cuda, const gs_timing_request *request, timed_arguments *arguments) {
    size_t warps = (size_t)request->blocks * (size_t)request->warps, start = round_up((size_t)request->blocks * 4);
    size_t end = start + round_up(warps * 8);
    memset(cuda->memory, 0, end + warps * 8);
    *arguments = (timed_arguments){.sm = cuda->memory_on_device,
                                   .start = cuda->memory_on_device + start,
                                   .end = cuda->memory_on_device + end,
                                   .arrived = cuda->timed.memory,
                                   .go = cuda->timed.memory + TIMED_GO_OFFSET,
                                   .blocks = (uint32_t)request->blocks,
                                   .one = 1};
    return (struct reports){.sm = (uint32_t *)(void *)cuda->memory,
                            .start = (uint64_t *)(void *)(cuda->memory + start),
                            .end = (uint64_t *)(void *)(cuda->memory + end)};
}

static gs_code launch_timed(struct cuda *cuda, timed_kernel *kernel, const gs_timing_request *request,
                            timed_arguments *arguments, int32_t warp_threads, gs_error *error) {
    const cu_api *api = &cuda->api;
    void *parameters[] = {arguments};
    const cu_call call = {.grid = {(uint32_t)request->blocks, 1, 1},
                          .block = {(uint32_t)(request->warps * warp_threads), 1, 1},
                          .stream = cuda->streams[0]};
    int failed = api->set_bytes(cuda->timed.memory, 0, TIMED_BYTES);
    if (!failed)
        failed = api->synchronize();
    if (!failed)
        failed = gs_cuda_launch(api, &kernel->kernel, &call, parameters);
    return gs_cuda_check(api, failed, "launching the timed kernel", error);
}

static gs_code wait_for_stream(struct cuda *cuda, gs_error *error) {
    int state = gs_cuda_wait_until(&cuda->api, cuda->streams[0], gs_now_ns() + 3 * (int64_t)STUCK_NS);
    if (state == CU_ERROR_NOT_READY)
        return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: a timed kernel does not end");
    return gs_cuda_check(&cuda->api, state, "timing", error);
}

/* The times of the warps, and the number of blocks on each SM. */
static gs_code read_reports(const struct reports *reports, const gs_timing_request *request, int32_t sms,
                            gs_timing *timing, gs_error *error) {
    struct of_sm {
        int32_t blocks;
        uint64_t first, last;
    } *on = calloc((size_t)sms, sizeof *on);
    gs_code code = on ? GS_OK : gs_fail_memory(error);
    for (int64_t block = 0; block < request->blocks && code == GS_OK; block++) {
        uint32_t sm = gs_shared_word(&reports->sm[block]) - 1;
        if (sm >= (uint32_t)sms) {
            code = gs_fail(error, GS_E_NO_GPU, "block %lld of a timed kernel has not reported", (long long)block);
            break;
        }
        timing->sms += !on[sm].blocks;
        timing->most_on_sm = (int32_t)gs_max(timing->most_on_sm, ++on[sm].blocks);
        for (int64_t i = block * request->warps; i < (block + 1) * request->warps; i++) {
            uint64_t start = reports->start[i];
            int64_t taken = (int64_t)(reports->end[i] - start);
            timing->cycles = gs_max(timing->cycles, taken);
            timing->shortest = timing->shortest ? gs_min(timing->shortest, taken) : taken;
            on[sm].first = on[sm].first ? gs_min_u64(on[sm].first, start) : start;
            on[sm].last = gs_max_u64(on[sm].last, start);
            timing->skew = gs_max(timing->skew, (int64_t)(on[sm].last - on[sm].first));
        }
    }
    free(on);
    return code;
}

static gs_code cuda_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error) {
    struct cuda *cuda = device->inside;
    int32_t warp_threads = device->gpu->limits.warp_threads, sms = device->gpu->sms;
    int architecture = attribute(cuda, CU_DEVICE_MAJOR) * 10 + attribute(cuda, CU_DEVICE_MINOR);
    gs_code code = gs_nvrtc_add(&cuda->api, error);
    if (code == GS_OK && !cuda->timed.modules.count)
        code = gs_timed_open(&cuda->timed, &cuda->api, architecture, error);
    if (code != GS_OK)
        return code;
    timed_kernel *kernel = gs_timed_find(&cuda->timed, request->body, request->count);
    if (!kernel || request->warps < 1 || request->warps * warp_threads > device->gpu->limits.threads_per_block ||
        sms > TIMED_MOST_SMS || request->blocks > (int64_t)sms * GS_TIMED_MOST_WARPS)
        return gs_fail(error, GS_E_USAGE, "no such timed kernel");
    *timing = (gs_timing){
        .shape = gs_shape_of(request->warps * warp_threads, kernel->kernel.registers, kernel->kernel.shared_bytes)};
    if (!request->blocks)
        return GS_OK;
    timed_arguments arguments;
    struct reports reports = lay_out_reports(cuda, request, &arguments);
    arguments.sms = (uint32_t)sms;
    code = launch_timed(cuda, kernel, request, &arguments, warp_threads, error);
    if (code == GS_OK)
        code = wait_for_stream(cuda, error);
    return code == GS_OK ? read_reports(&reports, request, sms, timing, error) : code;
}
