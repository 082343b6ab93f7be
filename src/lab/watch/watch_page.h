/*
 * watch_page.h: what the library of `gridsmith watch` notes of a process, in a file that both map.
 *
 * The library in front of the driver (watch_hooks.c) writes it, `gridsmith watch` reads it at any time, even if all
 * threads of the process hang. So everything has a fixed place and a fixed size: of a stream the last operations, of a
 * thread the call that it is in. What is read may be half written: numbers that are out of range are passed over.
 */
#ifndef GS_WATCH_PAGE_H
#define GS_WATCH_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GS_WATCH_THREADS = 256,
    GS_WATCH_STREAMS = 256,
    GS_WATCH_OPERATIONS = 64, /* that are kept of a stream, */
    GS_WATCH_OLDER = 16,      /* and kernels before them */
    GS_WATCH_FUNCTIONS = 1024,
    GS_WATCH_EVENTS = 4096,
    GS_WATCH_GRAPHS = 256,
    GS_WATCH_COMMUNICATORS = 64,
    GS_WATCH_GRAPH_KERNELS = 16, /* that are kept of a graph */
    GS_WATCH_CALLS = 256,
    GS_WATCH_IMAGES = 1024,
    GS_WATCH_FRAMES = 32,
    GS_WATCH_FRAME = 112,
    GS_WATCH_NAME = 512,
    GS_WATCH_CALL_NAME = 40,
    GS_WATCH_MAGIC = 0x57415432
};

/* In the flags of a stream: its making was seen. */
#define GS_WATCH_FLAGS_KNOWN (1u << 31)

/* What a call of the driver can wait for. */
typedef enum gs_watch_class {
    GS_WATCH_OTHER,
    GS_WATCH_LAUNCH,   /* waits if the queue is full, or if the kernel is loaded at its first launch */
    GS_WATCH_COPY,     /* a copy or a memset that returns when it is done, or issues it */
    GS_WATCH_SYNC,     /* waits for work: a stream, an event, the context */
    GS_WATCH_QUERY,    /* asks whether work is done */
    GS_WATCH_ALLOCATE, /* memory: may wait for the whole GPU */
    GS_WATCH_LOAD      /* a module or a kernel */
} gs_watch_class;

typedef enum gs_watch_kind {
    GS_WATCH_NONE, /* the call failed */
    GS_WATCH_KERNEL,
    GS_WATCH_GRAPH,
    GS_WATCH_COPIES, /* a copy or a memset */
    GS_WATCH_RECORD, /* an event */
    GS_WATCH_WAIT_EVENT,
    GS_WATCH_WAIT_VALUE,
    GS_WATCH_WRITE_VALUE,
    GS_WATCH_HOST_FUNCTION
} gs_watch_kind;

typedef struct gs_watch_operation {
    uint64_t number; /* in its stream, from 1 on; written last */
    uint8_t kind;
    uint8_t is_programmatic, is_cooperative, loads; /* of a kernel; loads: it was not loaded before */
    _Atomic uint8_t phase;                          /* of a host function: 1 it runs, 2 it has ended */
    uint32_t function;                              /* of a kernel: its place, plus 1 */
    uint32_t shape[6], shared_bytes, cluster;
    uint32_t collective;   /* the number of this collective in its stream, from 1 on; 0: not a collective */
    uint32_t communicator; /* of it: its place, plus 1; 0: not known */
    uint32_t value;        /* of a wait for or a write of a value */
    uint32_t other;        /* of a wait for an event: the stream that recorded it, plus 1, */
    uint64_t until;        /* and the operation after which it did */
    uint64_t object;       /* event, address, graph or host function */
    int64_t at_ns;
} gs_watch_operation;

typedef struct gs_watch_stream {
    _Atomic uint64_t handle; /* 0: this place is free; handles of default streams have the top bits set */
    uint32_t number;         /* in the order in which streams were first seen */
    uint64_t context;
    uint32_t flags;
    int32_t priority;
    uint64_t green; /* its green context, and how many SMs that has; 0: none */
    int32_t sms;
    _Atomic uint64_t issued, done;  /* operations; those up to `done` are known to have ended */
    _Atomic uint64_t host_function; /* the number of the one that runs; 0: none */
    _Atomic int64_t host_since_ns;
    _Atomic uint32_t collectives;
    _Atomic uint32_t captures;                          /* the stream whose capture this one is in, plus 1; 0: none */
    gs_watch_operation operations[GS_WATCH_OPERATIONS]; /* operation n is at n % GS_WATCH_OPERATIONS */
    gs_watch_operation older[GS_WATCH_OLDER]; /* before these: the last launch of each kernel, the first value wait */
} gs_watch_stream;

typedef struct gs_watch_thread {
    _Atomic int32_t thread; /* 0: this place is free */
    _Atomic uint32_t call;  /* its place in `calls`, plus 1; 0: in none */
    _Atomic int64_t since_ns;
    _Atomic uint64_t object;   /* of the call */
    _Atomic uint32_t function; /* that it launches */
    _Atomic uint32_t in_host_function;
    _Atomic uint64_t polled;    /* the event or stream whose last query said "not yet", or failed, */
    _Atomic int32_t answer;     /* with this error, */
    _Atomic int64_t polled_ns;  /* since when */
    _Atomic int64_t queried_ns; /* the last query */
    _Atomic uint32_t frame_count;
    void *frames[GS_WATCH_FRAMES];
    char stack[GS_WATCH_FRAMES][GS_WATCH_FRAME];
} gs_watch_thread;

typedef struct gs_watch_function {
    _Atomic uint64_t handle;
    _Atomic uint64_t launches;
    _Atomic uint32_t is_known;  /* the attributes below */
    _Atomic uint32_t is_loaded; /* a call that loads code was made for it */
    uint32_t is_collective;
    int32_t registers, static_shared_bytes, local_bytes, carveout_percent, cluster;
    char name[GS_WATCH_NAME];
} gs_watch_function;

typedef struct gs_watch_event {
    _Atomic uint64_t handle;
    uint32_t stream;  /* plus 1 */
    uint32_t capture; /* recorded in a capture: that of this stream, plus 1 */
    uint64_t number;  /* of the record in that stream */
} gs_watch_event;

/* An executable graph: its first kernels, each function and shape once. */
typedef struct gs_watch_graph {
    _Atomic uint64_t handle;
    uint32_t kernel_count;
    uint32_t has_condition; /* a node that may be repeated */
    uint32_t has_branches;  /* nodes may run at the same time */
    uint32_t has_host;      /* a node is a host function */
    uint32_t value;         /* that a node waits for, */
    uint64_t word;          /* in this word; 0: none does */
    struct {
        uint32_t function, shape[6], shared_bytes; /* as of an operation */
    } kernels[GS_WATCH_GRAPH_KERNELS];
} gs_watch_graph;

typedef struct gs_watch_page {
    uint32_t magic, size;
    int32_t process, rank, ranks; /* ranks: 0: not known */
    int32_t connections;          /* CUDA_DEVICE_MAX_CONNECTIONS */
    char gpu[64], program[256];
    int32_t sms;
    _Atomic uint32_t stream_count;
    _Atomic uint32_t asked, answered; /* stacks of threads and queries of streams, */
    _Atomic uint32_t asks_all;        /* also of threads that are in no call, whose sleep that ends */
    struct {
        char name[GS_WATCH_CALL_NAME];
        uint32_t class;
    } calls[GS_WATCH_CALLS];
    gs_watch_thread threads[GS_WATCH_THREADS];
    gs_watch_stream streams[GS_WATCH_STREAMS];
    gs_watch_function functions[GS_WATCH_FUNCTIONS];
    gs_watch_event events[GS_WATCH_EVENTS];
    gs_watch_graph graphs[GS_WATCH_GRAPHS];
    struct {
        _Atomic uint32_t call; /* the last one that could not issue its work: its place in `calls`, plus 1 */
        int32_t result;
        uint32_t function; /* as of an operation */
        int64_t at_ns;
    } failed;
    /* Addresses, in the order in which they were first used, which is the same on all ranks of most programs. */
    _Atomic uint64_t communicators[GS_WATCH_COMMUNICATORS];
    _Atomic uint32_t shares; /* memory that another process may write was given to the GPU */
    int32_t stack_signal;    /* that the library catches */
    _Atomic int32_t forked;  /* the last process that was forked from this one after CUDA had started; 0: none */
    _Atomic uint32_t image_count;
    uint64_t images[GS_WATCH_IMAGES]; /* addresses in the process of what was loaded, the last ones */
} gs_watch_page;

/* The name of the thread of the library. */
#define GS_WATCH_THREAD_NAME "gridsmith-watch"

/* The environment of the program: the folder of the pages. */
#define GS_WATCH_FOLDER "GRIDSMITH_WATCH"

#endif
