/*
 * worker.h: what the daemon asks of the device process, and what happens there.
 *
 * After a kernel has faulted, or does not end, its process is the only resource that can be taken back: a CUDA context
 * cannot. So the GPU (or the CPU that plays one) belongs to a process of its own, and the daemon holds an engine: a
 * ring of commands to it, a ring of events from it. All calls but open and restart return at once. Numbers of memory,
 * regions, modules, queues and tags are chosen by the daemon; it is trusted, but ranges are checked once more over
 * there.
 *
 *   engine.c          the daemon's loop
 *   engine_process.c  the loop of the device process: orders, queues, events; engine_resources.c and engine_confined.c
 *   engine_host.c     what it does on a CPU that plays a GPU
 *   engine_cuda.c     what it does on a GPU
 *
 * Order. A number can be used in the next call after the one that makes it; work that needs it waits until it is there.
 * Copies, fills and runs happen in the order of their queue; queues do not wait for each other. What is released,
 * unshared or unloaded while works that were ordered before still need it goes after the last of them; its number is
 * free at once. A failed command (event with a code) leaves nothing behind, and the queue goes on.
 */
#ifndef GS_WORKER_H
#define GS_WORKER_H

#include "base/base.h"
#include "image/image.h"

#include <gridsmith_job.h>

typedef struct gs_worker gs_worker;

typedef struct gs_worker_facts {
    char name[96];
    bool is_gpu;
    int32_t sms, architecture; /* 90: compute capability 9.0; 0: the CPU */
    uint64_t memory_bytes;     /* in all */
    int32_t process;           /* its id, for people */
} gs_worker_facts;

typedef struct gs_worker_options {
    const char *device;    /* "host", or "cuda" or "cuda:N" */
    const char *program;   /* the gridsmith program; NULL: $GRIDSMITH_PROGRAM, or the one that runs */
    int32_t sms;           /* host: how many are pretended; 0: 8 */
    uint64_t memory_bytes; /* host: how much memory is pretended; 0: 1 GiB */
    bool checks_marks;     /* images have GRIDSMITH_MARKS: each confined run is checked, each block exactly once */
} gs_worker_options;

enum {
    GS_WORKER_MASK_WORDS = GS_JOB_SMS / 32,
    GS_WORKER_ARGUMENTS = 120,       /* the most a kernel can have, */
    GS_WORKER_ARGUMENT_BYTES = 4096, /* and their bytes together */
    GS_WORKER_NO_QUEUE = 0,          /* queues are any other numbers */
    GS_WORKER_RUNS = 1024            /* the most confined runs at a time that have progress */
};
#define GS_NO_TAG UINT64_MAX /* a tag that is not one */

enum gs_report_kind {
    GS_REPORT_ALLOCATED, /* GS_OK: all bytes are zero. GS_E_FULL: there is no memory there */
    GS_REPORT_COPIED,    /* a copy or a fill */
    GS_REPORT_LOADED,
    GS_REPORT_RAN,   /* GS_E_KERNEL: it could not be launched, or its marks are wrong; the message says what */
    GS_REPORT_LOST,  /* the device process is gone, or of no use any more: restart, or close. `tag` is the run that did
                        it, or GS_NO_TAG where that is not known. Nothing comes after it. */
    GS_REPORT_SHARED /* only where it failed: the tag is the number of the region; copies with it fail too */
};

typedef struct gs_worker_report {
    uint32_t happened;
    gs_code code;
    uint64_t tag; /* what the caller gave */
    /* RAN, by CLOCK_MONOTONIC. Confined: fewer blocks than the grid has: it was stopped, go on at `blocks_done`. */
    uint64_t blocks_done, began_ns, ended_ns;
    uint32_t launches; /* RAN: how many it took */
    char message[200];
} gs_worker_report;

/* Starts the process and waits for its facts. GS_E_NO_GPU: there is no such device. */
gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error);
const gs_worker_facts *gs_worker_facts_of(const gs_worker *engine);

/* Readable: call gs_worker_poll until it is false. It is the same descriptor after a restart. */
int gs_worker_fd(const gs_worker *engine);
/* The next event; false: none, and from then on the fd tells. */
bool gs_worker_poll(gs_worker *engine, gs_worker_report *event);
/* The same for who spins: reads some words of shared memory, and makes no system call where there is nothing. A loss is
   not seen, and the fd does not tell, until gs_worker_poll has been false. */
bool gs_worker_peek(gs_worker *engine, gs_worker_report *event);

/* Kills the process and starts a new one. All that was in it is gone, and no event of the old one comes any more.
   Blocks until the new one is there (a GPU: about a second). On failure the engine is of no use; restart can be tried
   again. */
gs_code gs_worker_restart(gs_worker *engine, gs_error *error);
/* Kills the process. Nothing is left behind; also not when the daemon is killed. */
void gs_worker_close(gs_worker *engine);

/* Bytes of commands that wait on this loop, because the device process has not taken them. For who wants to push back.
 */
size_t gs_worker_backlog(const gs_worker *engine);

/* ---- memory. GS_E_MEMORY, here and below: this process has none; the command was not given ---- */

gs_code gs_worker_allocate(gs_worker *engine, uint64_t tag, uint32_t memory, uint64_t bytes);
void gs_worker_release(gs_worker *engine, uint32_t memory);
/* Memory of a client, mapped there (and pinned on a GPU). `fd` is the caller's, who may close it after the call. It
   must be sealed against shrinking. */
gs_code gs_worker_share(gs_worker *engine, uint32_t region, int fd, uint64_t bytes);
void gs_worker_unshare(gs_worker *engine, uint32_t region);

/* ---- work ---- */

/* `in`: from the region to the memory. */
gs_code gs_worker_copy(gs_worker *engine, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes);
gs_code gs_worker_fill(gs_worker *engine, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value);

gs_code gs_worker_load(gs_worker *engine, uint64_t tag, uint32_t module, const gs_image *image);
void gs_worker_unload(gs_worker *engine, uint32_t module);

/* An argument: a value, or an address in memory. */
typedef struct gs_worker_argument {
    uint32_t bytes;  /* of the value; 0: it is memory */
    uint32_t memory; /* its number */
    uint64_t at;     /* memory: offset, less than its size */
    const void *value;
} gs_worker_argument;

typedef struct gs_worker_launch {
    uint32_t queue, module, kernel; /* number within the image */
    bool is_confined;               /* else: launched whole, */
    bool is_block_loop;             /* but in the form in which workers walk over the blocks, on all SMs */
    bool defer_report;              /* whole: the queue's next launch comes at once; the end of both may be told then */
    uint32_t grid[3], block[3];     /* of the original */
    uint64_t shared_bytes;
    uint64_t first_block;                /* confined: blocks before it are done */
    uint32_t task_blocks;                /* confined or walked: taken at a time; 0: 10 */
    uint32_t mask[GS_WORKER_MASK_WORDS]; /* confined: bit i % 32 of word i / 32: SM i is allowed. Empty: it ends at
                                            once, with no block done */
    uint32_t argument_count;
    const gs_worker_argument *arguments;
} gs_worker_launch;

/* GS_E_USAGE: the arguments are too many, or too long. */
gs_code gs_worker_start(gs_worker *engine, uint64_t tag, const gs_worker_launch *run);
/* A new mask for a confined run, under way or waiting in its queue. Empty: workers leave after the task at hand, and
   RAN says how far it came. For a run that has ended nothing happens. */
void gs_worker_confine(gs_worker *engine, uint64_t tag, const uint32_t *mask);
/* Blocks that a confined run has taken, about (it may lag by a millisecond); 0: not known. */
uint64_t gs_worker_progress(const gs_worker *engine, uint64_t tag);

/* ---- the process: a hidden subcommand of the program ---- */

#define GS_DEVICE_PROCESS "device-process"

/* It is told by descriptors that it inherits, and is of no use to people. Returns an exit code. */
int gs_device_process(int argc, char **argv);

#endif
