/*
 * hang.h: what is known of a process that hangs, and the verdict. See watch.h.
 *
 * What the host knows comes from the page: for each stream the operations that are not known to have ended. The head
 * of the stream is what it probably stands at: the first of those that wait, or else of those that may wait. What the
 * GPU knows comes from a dump, where there is one: then a kernel in the dump is the head of its stream, and a kernel
 * that is not in it has not started.
 */
#ifndef GS_HANG_H
#define GS_HANG_H

#include "lab/dump/dump.h"
#include "model/check/check.h"
#include "watch_page.h"

/* The causes, in the order of docs/watch.md. */
typedef enum gs_hang_cause {
    GS_HANG_UNKNOWN,
    GS_HANG_TOO_MANY_BLOCKS,
    GS_HANG_TWO_KERNELS,
    GS_HANG_RANKS,
    GS_HANG_LOADING,
    GS_HANG_WHOLE_GPU,
    GS_HANG_CONNECTIONS,
    GS_HANG_CONFIGURATION,
    GS_HANG_PROGRAMMATIC,
    GS_HANG_HOST_FUNCTION,
    GS_HANG_DEFAULT_STREAM,
    GS_HANG_NEVER_ISSUED,
    GS_HANG_ERROR,
    GS_HANG_HEAP,
    GS_HANG_ENDLESS,
    GS_HANG_CAUSES
} gs_hang_cause;

const char *gs_hang_cause_name(gs_hang_cause cause); /* "barrier", ... */

typedef struct gs_hang_kernel {
    const gs_watch_operation *operation;
    const gs_watch_operation *graph;   /* that it is a node of; NULL: none */
    const gs_watch_function *function; /* NULL: not known */
    char *name;                        /* for people */
    uint32_t stream, stream_number;    /* in the page; for people */
    uint32_t place;                    /* in the order in which kernels were found */
    int64_t blocks, threads;
    unsigned code;         /* a set of GS_SASS_CODE_; 0: not known */
    uint32_t grid;         /* in the dump; GS_DUMP_NONE: it is not there */
    int64_t never_started; /* blocks, from the dump or from the model */
    bool is_head;          /* of its stream, or in the graph that is it */
    bool is_older;         /* launched before the operations that are kept of its stream */
} gs_hang_kernel;

typedef struct gs_hang_stream {
    const gs_watch_stream *stream;
    uint32_t place, number; /* in the page; for people */
    uint64_t first;         /* the first operation that is not known to have ended */
    const gs_watch_operation *head;
    int weight;    /* how surely the head waits */
    bool is_guess; /* it may be at something before the head that takes long */
} gs_hang_stream;

typedef struct gs_hang_thread {
    const gs_watch_thread *thread;
    const char *call; /* NULL: it polls */
    gs_watch_class class;
    int64_t waited_ns;
} gs_hang_thread;

typedef struct gs_hang {
    gs_watch_page *page; /* a copy */
    int64_t now_ns, after_ns;
    bool has_dump;
    gs_dump dump;
    gs_dump_places places;
    char *no_dump; /* why there is none, or NULL */
    struct {
        gs_hang_stream *data;
        size_t count, capacity;
    } streams;
    struct {
        gs_hang_kernel *data; /* by the time of their launch */
        size_t count, capacity;
    } kernels;
    struct {
        gs_hang_thread *data; /* that wait, the longest first */
        size_t count, capacity;
    } threads;
    struct {
        gs_watch_operation **data; /* of the kernels of graphs */
        size_t count, capacity;
    } nodes;
    gs_gpu *gpu;            /* NULL: not described */
    char host_state;        /* of the thread that runs a host function and is in no call, as in /proc; 0: none does, */
    const char *host_waits; /* and what it waits for */
    bool host_may_act; /* a thread that is in no call of CUDA, a signal's handler or another process may write memory */
    int forked;        /* a child that was forked, and runs no other program; 0: none */
    /* the verdict */
    gs_hang_cause cause;
    bool is_alarm; /* more than something that may take long */
    gs_text said;
    struct {
        char **data;
        size_t count, capacity;
    } fixes;
} gs_hang;

/* Takes over `page`. The caller frees the hang, also after an error. */
gs_code gs_hang_find(gs_hang *hang, gs_watch_page *page, int64_t now_ns, int64_t after_ns, gs_error *error);
/* Adds a dump. */
gs_code gs_hang_add_dump(gs_hang *hang, const char *path, gs_error *error);
void gs_hang_free(gs_hang *hang);

/* The operation of a stream, or NULL: it is not kept any more. */
const gs_watch_operation *gs_hang_operation(const gs_watch_stream *stream, uint64_t number);
gs_hang_stream *gs_hang_stream_of(const gs_hang *hang, uint32_t place); /* NULL: it has ended */
/* The kernel of an operation, or the one that its graph is at; NULL: none. */
const gs_hang_kernel *gs_hang_kernel_of(const gs_hang *hang, const gs_watch_operation *operation);
/* What is known of the graph that an operation launched; NULL: nothing, or not a graph. */
const gs_watch_graph *gs_hang_graph_of(const gs_hang *hang, const gs_watch_operation *operation);
/* The kernel at the head of a stream that was launched first; NULL: none. */
gs_hang_kernel *gs_hang_first_head(const gs_hang *hang);
/* What the code of a kernel may wait for; or it never ends. */
enum {
    GS_HANG_MAY_WAIT =
        ((GS_SASS_CODE_WRITES_IT - 1) & ~(GS_SASS_CODE_KNOWN | GS_SASS_CODE_LOOPS)) | GS_SASS_CODE_ENDLESS
};
/* Whether a wait for an event waits. */
bool gs_hang_waits_for_event(const gs_hang *hang, const gs_watch_operation *operation);

/* What the kernels' code can do, from the images in the memory of the process; the heads of streams depend on it. */
void gs_hang_read_code(gs_hang *hang);
void gs_hang_find_heads(gs_hang *hang);
gs_code gs_hang_find_threads(gs_hang *hang, gs_error *error);
/* The letter of a thread in /proc: T and t: it is stopped; Z, or 0: it has ended. */
char gs_hang_state_of(int process, int thread);
/* Whether the thread that waits longest is in a call that loads code, and computes. */
bool gs_hang_compiles(const gs_hang *hang);
/* Whether nothing waits, as far as is known: kernels compute, or a host function or the compiler does. */
bool gs_hang_is_long(const gs_hang *hang);

/* Fills in the verdict. */
gs_code gs_hang_judge(gs_hang *hang, gs_error *error);

/* The heads of streams that are kernels, in their launch order, on the model of the GPU. */
typedef struct gs_hang_fit {
    bool is_known, fits;
    size_t *kernels; /* of each launch of the run: its kernel */
    gs_run *run;
    const gs_gpu *gpu; /* that it is played on; NULL: not described */
    gs_gpu *part;      /* the green context, if that is it */
    gs_check_answer answer;
} gs_hang_fit;
gs_code gs_hang_check(gs_hang *hang, gs_hang_fit *fit, gs_error *error);
/* The same of two kernels, by their places. */
gs_code gs_hang_check_pair(gs_hang *hang, gs_hang_fit *fit, size_t one, size_t other, gs_error *error);
void gs_hang_fit_free(gs_hang_fit *fit);

/* ---- the report ---- */

void gs_hang_put_text(const gs_hang *hang, gs_text *text);
void gs_hang_put_json(const gs_hang *hang, gs_text *text); /* gridsmith.hang/1 */
void gs_hang_put_page(const gs_hang *hang, gs_text *text); /* HTML */

#endif
