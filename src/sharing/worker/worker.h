/*
 * worker.h: the worker is the process that owns the GPU, or emulates one on the CPU. This is the daemon's view of it.
 *
 * After a kernel has faulted, or if it does not end, a CUDA context cannot be used again; only its process can be
 * ended. So the GPU belongs to a separate process. The daemon holds a gs_worker: a ring of requests to the process, and
 * a ring of reports from it. All calls except open and restart return at once. The daemon chooses the handles of
 * memory, regions and modules, and the numbers of queues and tags. The worker trusts the daemon, but checks every range
 * once more.
 *
 *   worker.c             the daemon's side
 *   launch_arguments.c   how the arguments of a launch are packed
 *   loop.c               the process: its loop, its queues
 *   operations.c         copies, fills and launches of a queue
 *   confined.c           launches confined to some SMs
 *   resources.c          memory, regions and modules, and the threads that make them
 *   reports.c            reports to the daemon
 *   host_backend.c       a GPU emulated on the CPU; host_memory.c: its memory
 *   cuda_backend.c       a GPU
 *
 * Order. A handle can be used right after the call that makes it; operations that need it wait until it is ready.
 * Copies, fills and launches happen in the order of their queue; queues do not wait for each other. A resource that is
 * released while earlier operations still use it is freed after the last of them; its handle is free at once. A request
 * that fails (a report with a code) has no effect, and its queue continues.
 */
#ifndef GS_WORKER_H
#define GS_WORKER_H

#include "base/base.h"
#include "sharing/client/client.h"
#include "sharing/image/image.h"

#include "kernels/cuda/cuda.h"

#include <stdalign.h>

typedef struct gs_worker gs_worker;

typedef struct gs_worker_facts {
    char name[96];
    bool is_gpu;
    int32_t sms, architecture; /* 90: compute capability 9.0; 0: the CPU */
    uint64_t memory_bytes;     /* in all */
    int32_t process;           /* its id, for people */
} gs_worker_facts;

/* Threads of the worker that need their own cores while it works: the SMs and the copies of an emulated GPU. */
static inline int64_t gs_worker_threads(const gs_worker_facts *facts) {
    return facts->is_gpu ? 0 : facts->sms + 1;
}

typedef struct gs_worker_options {
    const char *device;    /* "host", or "cuda" or "cuda:N" */
    const char *program;   /* the gridsmith program; NULL: $GRIDSMITH_PROGRAM, or the running one */
    int32_t sms;           /* host: number of SMs; 0: 8 */
    uint64_t memory_bytes; /* host: size of its memory; 0: 1 GiB */
    bool checks_counts;    /* confined kernels count their blocks: each block of a launch must run exactly once */
} gs_worker_options;

enum {
    GS_WORKER_MASK_WORDS = GS_JOB_SMS / 32,
    GS_WORKER_PARAMETERS = 120, /* the most per kernel */
    GS_WORKER_NO_QUEUE = 0,     /* queues have any other number */
    GS_WORKER_CONFINED = 1024   /* the most confined launches at a time with known progress */
};
#define GS_NO_TAG UINT64_MAX

/* ---- reports ---- */

enum gs_report_kind {
    GS_REPORT_ALLOCATED, /* GS_OK: all bytes are zero. GS_E_FULL: the device is out of memory */
    GS_REPORT_COPIED,    /* a copy or a fill */
    GS_REPORT_LOADED,
    GS_REPORT_RAN,   /* GS_E_KERNEL: its counts of blocks are wrong; another code: it could not be launched */
    GS_REPORT_LOST,  /* the process is dead or useless: restart, or close. `tag` is the launch that caused it, or
                        GS_NO_TAG if that is not known. It is the last report. */
    GS_REPORT_SHARED /* sent only on failure; the tag is the handle of the region. Copies that use it fail too */
};

/* The driver's attributes of a kernel. */
typedef struct gs_worker_cost {
    uint32_t registers, local_bytes; /* per thread */
    uint32_t shared_bytes;           /* per block, without dynamic shared memory */
} gs_worker_cost;

typedef struct gs_worker_report {
    uint32_t kind; /* enum gs_report_kind */
    gs_code code;
    uint64_t tag; /* as given by the caller */
    /* RAN, by CLOCK_MONOTONIC. A confined launch with fewer blocks than the grid was stopped; continue it at
       `blocks_done`. */
    uint64_t blocks_done, began_ns, ended_ns;
    uint32_t launches;   /* RAN: number of driver launches */
    bool is_estimated;   /* RAN: it was reported together with launches of other kinds, so its part of their time is
                            estimated by `expected_ns` */
    gs_worker_cost cost; /* RAN: of a block of its confined form; 0 registers: not known */
    char message[200];
} gs_worker_report;

/* ---- the process ---- */

/* Starts the process and waits for its facts. GS_E_NO_GPU: no such device. */
gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error);
const gs_worker_facts *gs_worker_facts_of(const gs_worker *worker);

/* Readable: call gs_worker_poll until it returns false. The descriptor stays the same after a restart. */
int gs_worker_fd(const gs_worker *worker);
/* The next report. False: there is none, and the descriptor becomes readable when there is. */
bool gs_worker_poll(gs_worker *worker, gs_worker_report *report);
/* The same for a caller that spins: reads a few words of shared memory, and makes no system call if there is no report.
   It does not notice a lost process, and does not arm the descriptor: gs_worker_poll does both. */
bool gs_worker_peek(gs_worker *worker, gs_worker_report *report);

/* Kills the process and starts another. Everything in it is lost, and no report of the old one follows. Blocks
   until the new one is ready (a GPU: about a second). After a failure only restart and close can be called. */
gs_code gs_worker_restart(gs_worker *worker, gs_error *error);
/* Kills the process. Nothing is left behind, even if the daemon itself is killed. */
void gs_worker_close(gs_worker *worker);

/* How long the process has owed a report: since the last one, or since a request that is answered was sent, whichever
   is later. Memory, modules and work are timed separately, and the longest time is returned; 0: it owes nothing. Call
   it periodically with the time. `*is_alive`: its loop has iterated in the last half of that time, so not the process
   hangs, but something that it waits for. */
uint64_t gs_worker_owes_ns(gs_worker *worker, uint64_t now_ns, bool *is_alive);
/* Bytes of requests that the process has not taken, and that wait on this side. Callers apply back-pressure when it
   grows. */
size_t gs_worker_backlog(const gs_worker *worker);

/* ---- resources. GS_E_MEMORY, here and below: this process is out of memory; nothing was requested ---- */

gs_code gs_worker_allocate(gs_worker *worker, uint64_t tag, uint32_t memory, uint64_t bytes);
void gs_worker_release(gs_worker *worker, uint32_t memory);
/* Memory of a client, mapped there (and pinned on a GPU). The caller may close `fd` after the call. It must be sealed
   against shrinking. */
gs_code gs_worker_share(gs_worker *worker, uint32_t region, int fd, uint64_t bytes);
void gs_worker_unshare(gs_worker *worker, uint32_t region);
/* Loads an image from its open file, which the caller may close after the call. */
gs_code gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image);
void gs_worker_unload(gs_worker *worker, uint32_t module);

/* ---- copies and fills ---- */

/* `in`: from the region to the memory. */
gs_code gs_worker_copy(gs_worker *worker, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes);
gs_code gs_worker_fill(gs_worker *worker, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value);

/* ---- launches ---- */

enum gs_request_kind {
    GS_REQUEST_ALLOCATE,
    GS_REQUEST_FREE,
    GS_REQUEST_SHARE,
    GS_REQUEST_UNSHARE,
    GS_REQUEST_COPY,
    GS_REQUEST_FILL,
    GS_REQUEST_LOAD,
    GS_REQUEST_UNLOAD,
    GS_REQUEST_LAUNCH,
    GS_REQUEST_CONFINE
};

/* A request as sent. CONFINE is followed by a mask; LAUNCH is the head of a gs_worker_launch. */
typedef struct gs_worker_request {
    uint32_t kind, queue;
    uint32_t handle; /* of the memory, region or module */
    uint32_t region; /* COPY */
    uint32_t is_in;  /* COPY */
    uint32_t value;  /* FILL */
    uint64_t tag, at, region_at, bytes;
} gs_worker_request;

enum gs_launch_form {
    GS_LAUNCH_ORIGINAL,
    GS_LAUNCH_BLOCK_LOOP, /* the confined form on all SMs: its blocks loop over the blocks of the grid */
    GS_LAUNCH_CONFINED    /* on the SMs of its mask, which can change while it runs */
};

enum { GS_LAUNCH_BYTES = GS_CLIENT_ARGUMENTS * (sizeof(gs_wire_argument) + 8) + GS_CLIENT_VALUES_BYTES };

/* A launch, in the same form from the daemon's check to the driver: the daemon keeps it in its action and sends it
   unchanged, and the worker keeps what it received. `arguments` holds what gs_launch_add_ put there, in the layout of
   src/sharing/client/wire.h. */
typedef struct gs_worker_launch {
    gs_worker_request request;  /* the caller sets `queue` and `handle`, which is the module's */
    uint32_t kernel;            /* its number in the image */
    uint32_t form;              /* enum gs_launch_form */
    uint32_t defer_report;      /* not confined: another launch of the queue follows; both may be reported together */
    uint32_t grid[3], block[3]; /* of the original */
    uint32_t task_blocks;       /* not original: blocks taken at a time; 0: 10 */
    uint32_t workers;           /* confined: worker blocks per SM, shared with another kernel; 0: all that fit */
    uint32_t slot;              /* confined: its progress slot; set by gs_worker_start */
    uint32_t argument_count, argument_bytes;
    uint64_t shared_bytes;
    uint64_t expected_ns;                /* launches reported together divide their time in this proportion */
    uint64_t first_block;                /* confined: the blocks before it are done */
    uint32_t mask[GS_WORKER_MASK_WORDS]; /* confined: bit i % 32 of word i / 32 allows SM i. Empty: it ends at once */
    alignas(8) unsigned char arguments[GS_LAUNCH_BYTES];
} gs_worker_launch;

/* Adds an argument: a value, or an address in memory. False: too many arguments, or too many bytes. */
bool gs_launch_add_value(gs_worker_launch *launch, const void *value, uint32_t bytes);
bool gs_launch_add_memory(gs_worker_launch *launch, uint32_t memory, uint64_t at);

/* An argument of a launch, as gs_launch_next finds it. */
typedef struct gs_launch_argument_view {
    uint32_t memory; /* its handle, or 0: */
    uint32_t bytes;  /* size of the value */
    uint64_t at;     /* memory: the offset */
    const unsigned char *value;
} gs_launch_argument_view;

/* The next argument; `*at` is 0 before the first. False: no more, or the list is invalid. */
bool gs_launch_next(const gs_worker_launch *launch, uint32_t *at, gs_launch_argument_view *argument);

static inline uint64_t gs_launch_blocks(const gs_worker_launch *launch) {
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

gs_code gs_worker_start(gs_worker *worker, uint64_t tag, gs_worker_launch *launch);
/* A new mask for a confined launch, running or waiting in its queue. Empty: its workers leave after their current
   tasks, and RAN reports how far it came. No effect if it has ended. A launch behind it in its queue must be stopped
   before it gets another mask: otherwise the later one could begin before this one is complete. */
void gs_worker_confine(gs_worker *worker, uint64_t tag, const uint32_t *mask);
/* Approximate number of blocks that a confined launch has taken (it may lag by a millisecond); 0: not known. */
uint64_t gs_worker_progress(const gs_worker *worker, uint64_t tag);
/* Memory that kernels take for themselves, on the CPU: local variables, long stacks, malloc. */
uint64_t gs_worker_kernel_bytes(const gs_worker *worker);

/* ---- the process: a hidden subcommand of the program ---- */

#define GS_WORKER_PROCESS "worker-process"

/* It works on descriptors inherited from the daemon, and is not meant for users. Returns an exit code. */
int gs_worker_process(int argc, char **argv);

/* Whether `bytes` at offset `at` are within memory of `size` bytes, without overflow. */
static inline bool gs_is_within(uint64_t at, uint64_t bytes, uint64_t size) {
    return at <= size && bytes <= size - at;
}

#endif
