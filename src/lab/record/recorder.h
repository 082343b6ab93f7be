/*
 * recorder.h: the libraries that record a CUDA program from inside it.
 *
 * There are two. The driver loads the first (CUDA_INJECTION64_PATH) and calls InitializeInjection. CUPTI then reports
 * every call that launches something, before the call, and every kernel, copy and memset, after it has run. The call
 * gives the launch time and the dependencies, the record the work and its times. Both have the same correlation id. The
 * second library is in front of the driver and needs no CUPTI: see driver_work.h.
 *
 *   injection.c     InitializeInjection: starts CUPTI, takes its callbacks and its buffers
 *   cupti_open.c    finds CUPTI
 *   nvtx.c          InitializeInjectionNvtx2: the ranges that the program names
 *   recorder.c      the common part of both libraries: calls and records in, lines out
 *   calls.c         the table of followed calls
 *   host_order.c    streams, events and launches, in the order of the calls: dependencies of launches
 *   graph_shape.c   the nodes of an executable graph and their dependencies
 *   record_line.c   a kernel, a copy or a memset as a line of the recording
 *   record_file.c   the file: a whole line or nothing, within a limit
 *   number_map.c    a table from numbers to numbers, and arrays that grow
 *
 * The libraries need only the C library. They are loaded into other people's programs: they print only if they cannot
 * start to record, and later they never end the program.
 */
#ifndef GS_TRACE_RECORDER_H
#define GS_TRACE_RECORDER_H

#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* An int among the parameters of a call. */
static inline int gs_int_at(const void *parameters, int offset) {
    int found;
    memcpy(&found, (const char *)parameters + offset, sizeof found);
    return found;
}

/* ---- number_map.c ---- */

/* Maps nonzero numbers to numbers. */
typedef struct gs_number_map {
    struct gs_number_entry {
        uint64_t key, value;
    } * slots;
    size_t count, capacity;
} gs_number_map;

uint64_t *gs_number_map_find(const gs_number_map *map, uint64_t key); /* NULL: not there */
uint64_t *gs_number_map_add(gs_number_map *map, uint64_t key);        /* a new value is 0; NULL: out of memory */
void gs_number_map_remove(gs_number_map *map, uint64_t key);
void gs_number_map_clear(gs_number_map *map);

/* Makes an array long enough for `wanted` elements of `size` bytes. False: out of memory. */
bool gs_grow(void **data, size_t *capacity, size_t wanted, size_t size);

/* ---- graph_shape.c ---- */

/* Functions of the driver that read a graph; NULL if the driver lacks them. */
typedef struct gs_graph_reader {
    int (*nodes)(void *graph, void **nodes, size_t *count);
    int (*edges)(void *graph, void **from, void **to, void *data, size_t *count); /* data: 8 bytes per edge */
    int (*edges_plain)(void *graph, void **from, void **to, size_t *count);
    int (*node_type)(void *node, int *type);
    int (*child)(void *node, void **graph);
    int (*attribute)(void *node, int attribute, void *value); /* value: 64 bytes */
    int (*node_id)(void *node, uint64_t *id);
} gs_graph_reader;

/* The condition of a dependency: the other node has ended, all its blocks have allowed dependents to start, or all have
   started. */
typedef enum gs_shape_when { GS_SHAPE_AT_END, GS_SHAPE_AT_TRIGGER, GS_SHAPE_AT_START } gs_shape_when;

enum { GS_SHAPE_WHEN_BITS = 2 };

/* A node that runs on the GPU. */
typedef struct gs_shape_node {
    uint64_t id;
    uint32_t after, after_count; /* first in gs_graph_shape.after, and how many */
    int priority;
    bool is_last;     /* no node waits for it */
    bool is_nested;   /* of a graph within the graph */
    bool has_exec_id; /* its id in the executable graph is known */
} gs_shape_node;

typedef struct gs_graph_shape {
    gs_shape_node *nodes;
    uint32_t count, last_count;
    uint32_t *after;         /* the positions of nodes << GS_SHAPE_WHEN_BITS | gs_shape_when */
    gs_number_map positions; /* of a node's id, plus 1 */
    atomic_int references;   /* different threads launch and write records */
} gs_graph_shape;

/* Reads a graph. Nodes that run nothing (empty ones, events, host functions) are left out; their successors wait for
   their predecessors. NULL: it cannot be read, or out of memory. */
gs_graph_shape *gs_graph_shape_read(const gs_graph_reader *reader, void *graph);
/* A node of the executable graph, which has a separate id. */
void gs_graph_shape_alias(gs_graph_shape *shape, uint64_t id, uint64_t original);
void gs_graph_shape_release(gs_graph_shape *shape);

/* ---- host_order.c ---- */

/* A launch whose record has not arrived, or has just arrived. */
typedef struct gs_host_launch {
    uint64_t id;     /* of a graph: of its first node; the others follow */
    uint64_t before; /* the launch before it in its stream, 0: none, or a graph */
    int64_t at_ns;   /* when the host made the call */
    uint64_t *after; /* its dependencies besides the launch before it in its stream */
    gs_graph_shape *shape;
    const gs_shape_node *node; /* of a graph, in its shape; NULL: not known */
    uint32_t after_count;
    uint32_t stream; /* its number, in the order in which streams were first seen */
    uint32_t left;   /* nodes of the graph whose records have not arrived */
    int priority;    /* of its stream or its node */
    bool is_graph;
    bool is_programmatic; /* may start before the kernel before it has ended */
} gs_host_launch;

/* A call as the recorder sees it. */
typedef struct gs_host_call {
    const gs_call *call;
    void *context, *stream, *other;
    uint32_t correlation;
    int64_t at_ns;
    bool is_programmatic;
} gs_host_call;

/* Not thread-safe: the caller locks. */
typedef struct gs_host_order gs_host_order;
gs_host_order *gs_host_order_new(void); /* NULL: out of memory */
void gs_host_order_free(gs_host_order *order);

/* Adds a call. Returns the id of a launch, otherwise 0. */
uint64_t gs_host_order_call(gs_host_order *order, const gs_host_call *call);
/* The call failed: nothing was launched. */
void gs_host_order_failed(gs_host_order *order, uint32_t correlation);
/* The same without records: the caller gets the launch at once and clears it. False: nothing is launched. */
bool gs_host_order_call_now(gs_host_order *order, const gs_host_call *call, gs_host_launch *made);
void gs_host_order_failed_now(gs_host_order *order, gs_host_launch *failed);
void gs_host_order_stream_new(gs_host_order *order, void *context, void *stream, bool is_blocking, int priority);
/* Sets the shape of an executable graph, and owns it; NULL: the graph was destroyed. */
void gs_host_order_exec(gs_host_order *order, void *exec, gs_graph_shape *shape);

/* Takes the launch of a record; of a graph, the node with this id. False: unknown. The caller clears it. */
bool gs_host_order_take(gs_host_order *order, uint32_t correlation, uint64_t node, gs_host_launch *launch);
/* An id for a launch whose call was not seen. */
uint64_t gs_host_order_new_id(gs_host_order *order);
/* How many launches have no record yet, or never had one. */
uint64_t gs_host_order_waiting(const gs_host_order *order);
void gs_host_launch_clear(gs_host_launch *launch);
/* The launch of a node of a launched graph; NULL: of any node. The caller clears it. */
void gs_host_launch_node(const gs_host_launch *launch, const gs_shape_node *node, gs_host_launch *taken);

/* ---- record_line.c ---- */

typedef struct gs_lines {
    char *data;
    size_t count, capacity;
    bool failed; /* out of memory: the last line is missing */
} gs_lines;

enum { GS_MOST_DEVICES = 64, GS_MOST_CONTEXTS = 256 };

/* The common data of all lines of a recording. */
typedef struct gs_record_style {
    int64_t start_ns; /* times are since then */
    char device_names[GS_MOST_DEVICES][64];
    uint32_t device_sms[GS_MOST_DEVICES];
    const char *gpus;                   /* GS_TRACE_GPUS, or NULL */
    const char *folder;                 /* GS_TRACE_FOLDER, or NULL */
    uint32_t parents[GS_MOST_CONTEXTS]; /* of a green context: the context that it belongs to */
    uint32_t cupti_version;             /* 0: recorded without CUPTI, so run times are not known */
} gs_record_style;

/* The first line. `program` is the command line, NULs between its words. */
void gs_line_header(gs_lines *lines, const gs_record_style *style, uint32_t device, const char *program,
                    size_t program_length);
/* A kernel, a copy or a memset. A launch whose call was not seen has only the id and the time. */
void gs_line_kernel(gs_lines *lines, const gs_record_style *style, const cupti_kernel *kernel,
                    const gs_host_launch *launch);
void gs_line_memcpy(gs_lines *lines, const gs_record_style *style, const cupti_memcpy *copy,
                    const gs_host_launch *launch);
void gs_line_memset(gs_lines *lines, const gs_record_style *style, const cupti_memset *set,
                    const gs_host_launch *launch);
/* A range that the program named. */
void gs_line_range(gs_lines *lines, const gs_record_style *style, const char *name, int64_t from_ns, int64_t to_ns);
void gs_line_end(gs_lines *lines, const gs_record_style *style, int64_t now_ns, uint64_t lost);

/* ---- record_file.c ---- */

/* Environment variables by which `gridsmith trace` controls the library. */
#define GS_TRACE_OUTPUT  "GRIDSMITH_TRACE_OUTPUT"  /* path; %p is the number of the process */
#define GS_TRACE_STATUS  "GRIDSMITH_TRACE_STATUS"  /* folder for a file of each process, a gs_trace_status */
#define GS_TRACE_LIMIT   "GRIDSMITH_TRACE_LIMIT"   /* most bytes of a recording */
#define GS_TRACE_KEEP    "GRIDSMITH_TRACE_KEEP"    /* "oldest" or "newest" */
#define GS_TRACE_CUPTI   "GRIDSMITH_TRACE_CUPTI"   /* the file of the library */
#define GS_TRACE_THROUGH "GRIDSMITH_TRACE_THROUGH" /* "cupti", "driver", or "any": CUPTI if there is one */
#define GS_TRACE_GPUS    "GRIDSMITH_TRACE_GPUS"    /* descriptions of GPUs: a line "NAME SMS TITLE" for each */
#define GS_TRACE_FOLDER  "GRIDSMITH_TRACE_FOLDER"  /* where the program was started */

enum { GS_TRACE_PATH = 4096 };

/* The status of a recording. The process writes it, and `gridsmith trace` reads it after the process has ended, even by
   a crash: the file is mapped into memory. */
typedef struct gs_trace_status {
    uint32_t magic, process;
    uint64_t kernels, graph_kernels, copies, memsets, streams;
    uint64_t launched; /* calls that launch something */
    uint64_t devices;  /* a bit for each GPU */
    uint64_t unknown;  /* records of calls that were not seen */
    uint64_t dropped;  /* records that CUPTI lost */
    uint64_t skipped;  /* lines that were not written, or were removed, because of the limit */
    uint64_t failed;   /* failed writes, and lines dropped for lack of memory */
    uint64_t silent;   /* launches without a record */
    uint64_t bytes;
    int64_t start_ns, first_ns, last_ns; /* of the recording; of the kernels */
    uint32_t has_ended, cupti_version;
    char path[GS_TRACE_PATH];
} gs_trace_status;

enum { GS_TRACE_MAGIC = 0x67737472 };

typedef struct gs_record_file {
    int descriptor;   /* -1: not open */
    uint64_t limit;   /* 0: none */
    bool keep_newest; /* at the limit the older half is dropped, otherwise later lines are */
    bool is_full;     /* nothing more is written */
    bool is_first;    /* of the first process that uses CUDA */
    char *header;
    size_t header_length;
    uint64_t bytes, lines, older_lines;
    gs_trace_status *status;
} gs_record_file;

/* Creates the file that `pattern` names: %p is the number of the process. Without it, the first process gets the
   unchanged name, and others insert the number of the process before the suffix. */
bool gs_record_file_open(gs_record_file *file, const char *pattern);
/* Appends whole lines: `line_count` of them. The limit does not apply to uncounted lines. */
void gs_record_file_write(gs_record_file *file, const char *lines, size_t count, uint64_t line_count);
void gs_record_file_close(gs_record_file *file);
/* The name of the file with the older half. */
void gs_record_file_older(const char *path, char *older, size_t size);

/* ---- recorder.c ---- */

typedef struct gs_recorder {
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

    pthread_mutex_t range_lock; /* may be taken while file_lock is held */
    gs_lines ranges;            /* lines that wait for the file */
    uint64_t range_count, lost_ranges;

    pthread_t thread;
    pthread_mutex_t quit_lock;
    pthread_cond_t quit_changed;
    void (*work)(void);
    long period_ms;
    bool has_thread, quits;
} gs_recorder;

/* Spins before it sleeps: threads of the program hold this lock for less time than a sleep takes. */
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#    define GS_SHORT_LOCK PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#else
#    define GS_SHORT_LOCK PTHREAD_MUTEX_INITIALIZER
#endif

#define GS_RECORDER_INITIALIZER                                                                                        \
    {                                                                                                                  \
        .order_lock = GS_SHORT_LOCK, .range_lock = GS_SHORT_LOCK, .file_lock = PTHREAD_MUTEX_INITIALIZER,              \
        .quit_lock = PTHREAD_MUTEX_INITIALIZER, .quit_changed = PTHREAD_COND_INITIALIZER                               \
    }

/* Prepares it for calls and records, as the environment says. */
void gs_recorder_open(gs_recorder *recorder, uint32_t cupti_version);
/* Starts a thread that calls `work` periodically. */
void gs_recorder_start(gs_recorder *recorder, void (*work)(void), int period_ms);
/* False in a forked child, which this recorder does not record. */
bool gs_recorder_is_here(const gs_recorder *recorder);
/* Ends the thread, gets the last records from `last_work`, and ends the file. */
void gs_recorder_finish(gs_recorder *recorder, void (*last_work)(void));
/* One line on standard error, and the end of the program. */
void gs_recorder_give_up(const char *problem);
int64_t gs_recorder_now_ns(void);

/* Calls, from any thread: see host_order.c. */
uint64_t gs_recorder_call(gs_recorder *recorder, const gs_host_call *made);
void gs_recorder_failed(gs_recorder *recorder, uint32_t correlation);
bool gs_recorder_call_now(gs_recorder *recorder, const gs_host_call *made, gs_host_launch *launch);
void gs_recorder_failed_now(gs_recorder *recorder, gs_host_launch *launch);
void gs_recorder_stream(gs_recorder *recorder, void *context, void *stream, bool is_blocking, int priority);
void gs_recorder_exec(gs_recorder *recorder, void *exec, gs_graph_shape *shape);

/* A range that the program named, when it has ended, from any thread. */
void gs_recorder_range(gs_recorder *recorder, const char *name, int64_t from_ns, int64_t to_ns);

/* A record, with file_lock held: becomes a line. */
void gs_recorder_record(gs_recorder *recorder, const void *record);
/* The same for a launch that was given at once. */
void gs_recorder_record_now(gs_recorder *recorder, const void *record, const gs_host_launch *launch);
/* Writes the lines, with file_lock held. */
void gs_recorder_write(gs_recorder *recorder);

/* ---- nvtx.c ---- */

/* From now on, ranges that end are recorded. */
void gs_nvtx_record(gs_recorder *recorder);

#endif
