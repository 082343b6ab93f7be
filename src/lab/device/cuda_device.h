/*
 * cuda_device.h: a real GPU as a device, from within. For this room only. Each file uses only files above it:
 *
 *   cuda_describe.c   the description of the GPU
 *   cuda_watchdog.c   the thread that ends calls that would block forever
 *   cuda_reports.c    what blocks report, and how it is recorded
 *   cuda_waits.c      how long the host waits for blocks
 *   cuda_graphs.c     graphs of a run as CUDA graphs
 *   cuda_play.c       a run, event by event
 *   cuda_timing.c     timed kernels
 *   cuda_open.c       opening and closing
 */
#ifndef GS_CUDA_DEVICE_H
#define GS_CUDA_DEVICE_H

#include "device.h"
#include "probe.h"
#include "timed.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    PARTS = 4,               /* green contexts that a device makes */
    RECORD_BYTES = 48 << 20, /* host memory for the reports of blocks */
    LINE = 128,              /* the distance between stop words */
    STUCK_NS = 2000000000
};

/* Where the blocks of one launch report. All pointers but `stop` and `arguments` are into host memory. */
struct cuda_slot {
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
    gs_timed timed[2]; /* that of programs, and that of classes; each is opened when it is first needed */
    cu_stream streams[GS_DEVICE_LAUNCHES];
    void *contexts[PARTS];                                /* green contexts, see cuda_split */
    cu_stream context_streams[PARTS][GS_DEVICE_LAUNCHES]; /* made when they are first needed */
    int32_t context_count;
    char *memory; /* host memory that the GPU sees */
    cu_pointer memory_on_device, relays;
    cu_pointer copied; /* memory of the GPU that memsets and copies of graphs write and read; made when first needed */
    void *host_copied; /* the same of the host */
    uint32_t generation;
    struct cuda_slot slots[GS_DEVICE_LAUNCHES];
    /* the watchdog */
    pthread_t watchdog;
    bool has_watchdog;
    atomic_bool quits;
    pthread_mutex_t lock;       /* protects the members below */
    int64_t launching_since_ns; /* when the present launch call began; 0: none is in progress */
    bool blocked;               /* the watchdog had to end the present or the last launch call */
};

/* A run that is being played. */
struct cuda_play {
    struct cuda *cuda;
    const gs_run *run;
    const gs_play_options *options;
    gs_run *out;
    size_t launched;     /* launches so far */
    int64_t *expected;   /* see cuda_waits.c; NULL: nothing is expected */
    int32_t connections; /* of this program */
    bool cut_short;      /* the watchdog had to stop it */
    bool is_scored;      /* no launch has had to wait for headroom, after which nothing is scored */
    int64_t surplus;     /* blocks that had started beyond those expected when the last wait ended */
    int64_t acted_ns;    /* when the host last launched a kernel, or a stopped one was gone */
    size_t watched;      /* the host has waited for the blocks of the launches before this one */
    size_t recorded;     /* launches before this one are recorded */
};

static inline int cuda_attribute(const struct cuda *cuda, int number) {
    int value = 0;
    cuda->api.device_attribute(&value, number, cuda->device);
    return value;
}

static inline size_t round_up_line(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* The number of the green context that a launch is in, or GS_NOT_GIVEN. */
static inline int64_t context_of_launch(const gs_launch *launch) {
    return launch->issue.facts ? launch->issue.facts->green_context : GS_NOT_GIVEN;
}

/* ---- cuda_describe.c ---- */

gs_gpu *gs_cuda_device_describe(const struct cuda *cuda, gs_error *error);

/* ---- cuda_watchdog.c ---- */

gs_code gs_watchdog_start(struct cuda *cuda, gs_error *error);
void gs_watchdog_end(struct cuda *cuda);
/* Around a call that may block. True: it was blocked, and the watchdog ended it. */
void gs_watchdog_call_begins(struct cuda *cuda);
bool gs_watchdog_call_ends(struct cuda *cuda);
/* Stops all kernels; those with a duration ignore it. */
void gs_watchdog_stop_kernels(struct cuda *cuda);

/* ---- cuda_reports.c ---- */

/* Gives a launch its part of the host memory, from `*at` on, and clears it. */
gs_code gs_slot_prepare(struct cuda *cuda, size_t number, const gs_launch *launch, int32_t warp_threads, size_t *at,
                        gs_error *error);
/* How many blocks have started, and ended; and whether all that have started have ended. */
int64_t gs_slot_started(struct cuda_slot *slot);
int64_t gs_slot_ended(const struct cuda_slot *slot);
bool gs_slot_has_ended(const struct cuda_slot *slot);
/* Copies the reports of a launch into a recording. */
gs_code gs_slot_record(const struct cuda_slot *slot, gs_seen *seen, bool with_ends, gs_error *error);

/* ---- cuda_waits.c ---- */

/* Counts, for each event, the blocks that are expected to have started after it. */
gs_code gs_play_count_expected(struct cuda_play *play, gs_error *error);
int64_t gs_play_expected_after(const struct cuda_play *play, size_t event);
/* Waits until `most` blocks have started in all, or none has started for long enough. */
void gs_play_wait_starts(struct cuda_play *play, int64_t expected, int64_t most, bool matters);
/* Waits until the launches from `first` to before `past` have ended, of a run with durations. */
void gs_play_wait_times(struct cuda_play *play, size_t first, size_t past);
/* Waits until the started blocks of a launch have ended, and until they have left the GPU. */
gs_code gs_slot_wait_end(const struct cuda_slot *slot, gs_error *error);
void gs_play_wait_gone(struct cuda_play *play, size_t number);

/* ---- cuda_graphs.c ---- */

/* The launch behind the graph that this launch begins; without a graph, the next launch. */
size_t gs_play_past_graph(const gs_run *run, size_t first);
gs_code gs_play_make_graphs(struct cuda_play *play, gs_error *error);
void gs_play_free_graphs(struct cuda_play *play);
gs_code gs_play_launch_graph(struct cuda_play *play, size_t first, size_t past, gs_error *error);

/* ---- cuda_play.c, cuda_timing.c: see gs_device_ops ---- */

gs_run *gs_cuda_device_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error);
gs_code gs_cuda_device_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error);

#endif
