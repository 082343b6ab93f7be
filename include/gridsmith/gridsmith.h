/*
 * gridsmith.h: the public interface of libgridsmith.
 *
 * Gridsmith predicts on which SM the NVIDIA thread-block scheduler places every thread block of concurrent kernels.
 * Read this header from top to bottom; each part builds on the one before:
 *
 *   errors       what went wrong, and where in which file
 *   GPUs         the description of a GPU: its limits, topology and scheduling mechanisms
 *   occupancy    how many blocks of one kernel fit on an SM, and which resource is the limit
 *   runs         launches and exits in order, made call by call, or read from files or memory
 *   prediction   play a whole run: where each block goes, when, and which blocks wait for what
 *   dispatcher   the same step by step, for simulators: launch, ask for the SM of the next block, place it, release it
 *   pictures     the same as text: a table, JSON, CSV, SVG, a trace; programs beside their measurement
 *   together     whether all blocks of some kernels will be resident at the same time, and what would help
 *   bounds       by when the warps of an SM are done, at the latest
 *
 * Conventions. A function that can fail takes a `gs_error *` as its last argument, which may be NULL, and returns NULL
 * or a code other than GS_OK. The library never prints and never exits. Objects are opaque. The caller frees an object
 * from a function named `_open`, `_memory`, `_next`, `_new`, `_paper` or `_predict` with the matching `_free` (gs_runs:
 * `_close`), and a `char *` with gs_string_free. `_free(NULL)` does nothing. Other pointers must not be NULL, unless
 * their comment allows it. There is no hidden shared state: different threads may use different objects at the same
 * time, and any number of threads may read one `gs_gpu`.
 */
#ifndef GRIDSMITH_H
#define GRIDSMITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(GS_INSIDE)
#    define GS_API
#elif defined(__GNUC__)
#    define GS_API __attribute__((visibility("default")))
#else
#    define GS_API
#endif

#define GS_VERSION "0.1.0"

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Every error code: its name, the exit code of the program for it, and its meaning. */
#define GS_ERRORS(X)                                                                                                   \
    X(GS_OK, 0, "done")                                                                                                \
    X(GS_E_USAGE, 2, "the call or the command line is wrong")                                                          \
    X(GS_E_SYNTAX, 2, "the text is not JSON")                                                                          \
    X(GS_E_FORMAT, 2, "the JSON does not have the expected format")                                                    \
    X(GS_E_NO_FIT, 1, "a kernel can never fit on this GPU")                                                            \
    X(GS_E_UNSUPPORTED, 2, "the model does not cover this")                                                            \
    X(GS_E_REFUSED, 1, "the kernel cannot be reshaped safely")                                                         \
    X(GS_E_KERNEL, 2, "the kernel does not compile, or failed while it ran")                                           \
    X(GS_E_NO_GPU, 3, "no usable GPU")                                                                                 \
    X(GS_E_IO, 4, "a file could not be read or written")                                                               \
    X(GS_E_MEMORY, 4, "out of memory")                                                                                 \
    X(GS_E_FULL, 4, "not enough memory on the GPU")

#define GS_ERROR_ENUM(name, exit_code, meaning) name,
typedef enum gs_code { GS_ERRORS(GS_ERROR_ENUM) GS_CODES } gs_code;
#undef GS_ERROR_ENUM

/* An error. `line` and `column` count from 1, and are 0 if there is no place. */
typedef struct gs_error {
    gs_code code;
    long line, column;
    char file[200];
    char message[400];
    char excerpt[120]; /* the part of the line around the place, or "" */
    int caret;         /* the position of the place in `excerpt`, from 0 */
} gs_error;

/* Writes "FILE:LINE:COLUMN: message", without the parts that are not known, to `text`. Returns `text`. */
GS_API const char *gs_error_text(const gs_error *error, char *text, size_t size);

/* The exit code and the meaning of an error code, from the table above. */
GS_API int gs_code_exit(gs_code code);
GS_API const char *gs_code_meaning(gs_code code);

/* ---- GPUs ------------------------------------------------------------------------------------------------------ */

/* A description of a GPU (schema gridsmith.gpu/1). Only gs_gpu_set and gs_gpu_use change it. */
typedef struct gs_gpu gs_gpu;

/* Opens a built-in description by name ("rtx3090", or as the driver reports it, "NVIDIA GeForce RTX 3090"), or a file
   by path (anything that contains a '/' or ends in ".json"). The caller frees it. */
GS_API gs_gpu *gs_gpu_open(const char *name_or_path, gs_error *error);
GS_API void gs_gpu_free(gs_gpu *gpu);

/* Limits of an SM, for a GPU that has others than those of a description. 0: that of the description. */
typedef struct gs_gpu_limits {
    int32_t sms;
    int32_t blocks_per_sm;
    int32_t threads_per_sm; /* 32 times its warp slots: a multiple of 32 times its partitions */
    int32_t threads_per_block;
    int32_t registers_per_sm;
    int32_t shared_per_sm_bytes;    /* the largest shared-memory configuration */
    int32_t shared_per_block_bytes; /* 0 with the above: that, less the bytes that the runtime reserves */
} gs_gpu_limits;

/* A GPU like the one with this name or path, but with other limits: that of a simulator, say. With another number of
   SMs it has no GPCs and takes no clusters. The caller frees it. */
GS_API gs_gpu *gs_gpu_new(const char *like, const gs_gpu_limits *limits, gs_error *error);

/* The name of the built-in description number `index`, from 0; NULL past the last. */
GS_API const char *gs_gpu_builtin(size_t index);

GS_API const char *gs_gpu_name(const gs_gpu *gpu);
GS_API int gs_gpu_sms(const gs_gpu *gpu);

/* Changes one mechanism of the description: gs_gpu_set(gpu, "warp_placement", "free", &error). */
GS_API gs_code gs_gpu_set(gs_gpu *gpu, const char *mechanism, const char *value, gs_error *error);

/* Sets all mechanisms at once to a published policy: "paper", "most-room" or "round-robin". */
GS_API gs_code gs_gpu_use(gs_gpu *gpu, const char *policy, gs_error *error);

/* ---- occupancy ------------------------------------------------------------------------------------------------- */

/* The needs of a block of a kernel. `shared_bytes` is static and dynamic shared memory together, without the bytes that
   the runtime reserves. `carveout_percent` is the shared-memory carve-out that the program requests, or
   GS_NO_CARVEOUT. */
typedef struct gs_shape {
    int32_t threads;
    int32_t registers; /* per thread, as the driver reports them */
    int64_t shared_bytes;
    int64_t local_bytes; /* per thread */
    int32_t carveout_percent;
} gs_shape;

#define GS_NO_CARVEOUT (-1)
#define GS_NO_LIMIT    INT32_MAX

/* A shape without local memory and without a carve-out. */
static inline gs_shape gs_shape_of(int32_t threads, int32_t registers, int64_t shared_bytes) {
    gs_shape shape = {threads, registers, shared_bytes, 0, GS_NO_CARVEOUT};
    return shape;
}

/* The resources that limit the number of blocks, as bits. */
enum { GS_LIMIT_BLOCKS = 1, GS_LIMIT_WARPS = 2, GS_LIMIT_REGISTERS = 4, GS_LIMIT_SHARED = 8 };

typedef struct gs_occupancy {
    int32_t blocks;       /* per SM, the least of the four below; 0: the kernel can never run */
    int32_t by_blocks;    /* how many blocks the block slots, */
    int32_t by_warps;     /* the warp slots, */
    int32_t by_registers; /* the registers, */
    int32_t by_shared;    /* and the shared memory allow; GS_NO_LIMIT: the kernel uses none of it */
    unsigned limits;      /* GS_LIMIT_ bits of those that are equal to `blocks` */
    int32_t warps_per_block;
    int32_t warps_per_sm;        /* the warp slots of an SM */
    int64_t shared_block_bytes;  /* of a block, rounded up, with the bytes that the runtime reserves */
    int64_t shared_config_bytes; /* the shared-memory configuration that the kernel needs; with a carve-out, the
                                    one that an idle SM is given */
} gs_occupancy;

/* Fills `*occupancy`. If the kernel can never run, `blocks` is 0, and `*error` holds the reason. */
GS_API void gs_occupancy_of(const gs_gpu *gpu, const gs_shape *shape, gs_occupancy *occupancy, gs_error *error);

/* ---- runs ------------------------------------------------------------------------------------------------------ */

/* Launches, copies and exits in order, with or without observations (schema gridsmith.run/1). */
typedef struct gs_run gs_run;

/* A file of runs: one JSON object, or JSON Lines; or, for recorded programs, a line for each event; gzip or plain. */
typedef struct gs_runs gs_runs;

/* Opens a file for reading; "-" is standard input. */
GS_API gs_runs *gs_runs_open(const char *path, gs_error *error);
GS_API void gs_runs_close(gs_runs *runs);

/* The same for text in memory, which must stay there until it is closed. `name` stands for the file in errors. */
GS_API gs_runs *gs_runs_memory(const char *name, const char *bytes, size_t count, gs_error *error);

/* The next run of the file, which the caller frees. A recording of several GPUs is a run for each of them. NULL:
   error->code is GS_OK at the end of the file, otherwise the error. */
GS_API gs_run *gs_runs_next(gs_runs *runs, gs_error *error);
GS_API void gs_run_free(gs_run *run);

/* A new run without launches. */
GS_API gs_run *gs_run_new(gs_error *error);

/* A launch. Fields that are 0 or NULL have their defaults, except the shape, for which gs_shape_of helps. */
typedef struct gs_launch_spec {
    const char *kernel; /* a name that is unique in the run: UTF-8 without control characters */
    int64_t blocks;
    gs_shape shape;
    int32_t cluster;     /* blocks of a cluster; 0: no clusters */
    int32_t priority;    /* what is farther from 0 goes first: CUDA's 0 to -5, or 0 to 5 */
    const char *stream;  /* its name; NULL: a stream of its own */
    int64_t duration_ns; /* of a block; 0: until gs_run_exit */
    int64_t spread_ns;   /* blocks run up to this much longer, evenly spread, in the same way in every run */
    bool is_cooperative; /* all its blocks start together, or none */
} gs_launch_spec;

/* Appends a launch, and the end of a kernel that has no duration. Strings are copied. */
GS_API gs_code gs_run_launch(gs_run *run, const gs_launch_spec *spec, gs_error *error);
GS_API gs_code gs_run_exit(gs_run *run, const char *kernel, gs_error *error);

/* The GPU that the run names, or NULL. Valid as long as the run. */
GS_API const char *gs_run_gpu(const gs_run *run);

/* Writes the run as one line of JSON. */
GS_API gs_code gs_run_write(const gs_run *run, FILE *file, gs_error *error);

#define GS_WAIT (-1)

/* The launches of a run, in order: how many there are, the kernel's name, its number of blocks, and the SM of one of
   its blocks as recorded or predicted (GS_WAIT: it did not start). Blocks that started after their launch count. A
   launch or block that does not exist has NULL, 0 and GS_WAIT. */
GS_API size_t gs_run_launches(const gs_run *run);
GS_API const char *gs_run_kernel(const gs_run *run, size_t launch);
GS_API int64_t gs_run_blocks(const gs_run *run, size_t launch);
GS_API int gs_run_placed(const gs_run *run, size_t launch, int64_t block);

/* When a block started and ended, in nanoseconds, or GS_NO_TIME. */
#define GS_NO_TIME INT64_MIN
GS_API int64_t gs_run_start_ns(const gs_run *run, size_t launch, int64_t block);
GS_API int64_t gs_run_end_ns(const gs_run *run, size_t launch, int64_t block);

/* The same for all blocks of a launch at once: fills arrays of gs_run_blocks(run, launch) elements. Each may be NULL.
 */
GS_API void gs_run_copy_blocks(const gs_run *run, size_t launch, int32_t *sms, int64_t *start_ns, int64_t *end_ns);

/* In a prediction with `explain`: why blocks of the launch waited when it was launched, a sentence a line; otherwise
   NULL. Valid as long as the run. */
GS_API const char *gs_run_why(const gs_run *run, size_t launch);

/* ---- prediction ------------------------------------------------------------------------------------------------ */

typedef struct gs_predict_options {
    bool explain;                                                /* say why kernels wait */
    void (*progress)(void *user, int64_t blocks, int64_t total); /* called from time to time; may be NULL */
    void *user;
    bool follow; /* the run is a recording: use its data that a model cannot know */
    int turn;    /* the state of the GPU's turns at the beginning, from 0 to gs_gpu_turns(gpu) - 1 */
} gs_predict_options;

/* The number of states of the GPU's turns. Some GPUs remember, from one launch to the next, which group of SMs was
   served last. The state decides which block goes to which of the chosen SMs, and is not known when a run begins, so a
   prediction assumes one (`turn`). How many blocks each SM gets is the same for all states. 1: the GPU remembers
   nothing. */
GS_API int gs_gpu_turns(const gs_gpu *gpu);

/* The most blocks that a run may have in all its launches, because a prediction lists every block. */
#define GS_MOST_PREDICTED 100000000

/* Plays `run` on `gpu` and returns the same run with the prediction filled in; the caller frees it. `options` may be
   NULL. Without durations, `placed` of a launch holds the blocks that start at that point (the others wait), and an
   `observe` event after an exit shows the blocks that start then. With durations, `placed` holds every block that ever
   starts, and `start_ns` and `end_ns` say when. With `follow`, two things are taken from the recording: the turns at
   its beginning, as its first launches show them, and the times at which blocks ended, if it has them. */
GS_API gs_run *gs_predict(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options, gs_error *error);

/* ---- dispatcher ------------------------------------------------------------------------------------------------ */

/* The state of one GPU: a block dispatcher for a simulator, which says when kernels are launched and when blocks end.
   The blocks of launches go to the SMs that gs_predict gives, in the same order: for each launch and each end of a
   block the dispatcher does what a prediction does. Each decision takes constant time, and a block allocates nothing.
 */
typedef struct gs_dispatcher gs_dispatcher;

/* Creates an empty GPU. It uses `gpu`, which must live longer and must not change. */
GS_API gs_dispatcher *gs_dispatcher_new(const gs_gpu *gpu, gs_error *error);
GS_API void gs_dispatcher_free(gs_dispatcher *dispatcher);

/* Makes `to` equal to `from`; both are of the same `gs_gpu` object. Numbers of kernels, launches and blocks of `from`
   are valid for `to`, those that `to` had are not. After an error `to` can only be copied to again, or freed. */
GS_API gs_code gs_dispatcher_copy(gs_dispatcher *to, const gs_dispatcher *from, gs_error *error);

/* Whether both are in the same state: the same launches, blocks on the same SMs, the same time. Then all later calls
   have the same answers. The handles of blocks may differ. Both are of the same `gs_gpu` object. False: they differ
   (error->code is GS_OK), or an error. */
GS_API bool gs_dispatcher_equal(const gs_dispatcher *a, const gs_dispatcher *b, gs_error *error);

/* The state of the GPU's turns at the beginning, as `turn` of gs_predict_options (0 if this is not called). Only before
   the first launch. */
GS_API gs_code gs_dispatcher_turn(gs_dispatcher *dispatcher, int turn, gs_error *error);

/* Launches a kernel now, and returns the number of the launch. -1: it can never run, and `*error` holds the reason. The
   launch waits for its stream and for its place in the queue as in a prediction: more urgent launches are served first,
   and one that waits holds up those behind it. It ends with its last block. The name of the kernel need not be unique.
   Durations are ignored. A launch takes some 500 bytes until the dispatcher is freed. */
GS_API int gs_dispatcher_launch(gs_dispatcher *dispatcher, const gs_launch_spec *spec, gs_error *error);

/* The SM of the next block of the launch, of those that have not been placed, in the order of their numbers: 0, 1, 2
   ... GS_WAIT: it does not start yet, or there is none. Changes nothing. */
GS_API int gs_dispatcher_next(gs_dispatcher *dispatcher, int launch);

/* Starts that block. `sm` is the one from gs_dispatcher_next. Returns a handle of the block, or -1: it does not start
   there. The dispatcher counts a block as resident from the moment when it can start, so the answers do not depend on
   when this is called, nor on the order in which launches are asked. */
GS_API int gs_dispatcher_place(gs_dispatcher *dispatcher, int launch, int sm);

/* Ends a block that was placed. Its handle may be reused for a later block. An invalid handle is ignored. A prediction
   ends blocks that end at the same time in the order of their launches, then of their numbers. */
GS_API void gs_dispatcher_release(gs_dispatcher *dispatcher, int block);

/* Ends a launch with all its blocks at once, also those that have not started, as gs_run_exit does in a run without
   durations. */
GS_API void gs_dispatcher_exit(gs_dispatcher *dispatcher, int launch);

/* It is this late. The time decides only which launch of those that became ready is served first, so it matters only
   for launches in streams; without it, all become ready at the same time. It never goes back. */
GS_API void gs_dispatcher_wait_until(gs_dispatcher *dispatcher, int64_t now_ns);

/* Why blocks of the launch wait, a sentence. The caller frees it with gs_string_free. NULL: nothing waits (error->code
   is GS_OK), or an error. */
GS_API char *gs_dispatcher_why(gs_dispatcher *dispatcher, int launch, gs_error *error);

/* How many more blocks of the kernel of this launch the SM can take. */
GS_API int gs_dispatcher_room(const gs_dispatcher *dispatcher, int launch, int sm);

/* The number of blocks on one SM, and on the whole GPU. */
GS_API int gs_dispatcher_resident(const gs_dispatcher *dispatcher, int sm);
GS_API int gs_dispatcher_resident_all(const gs_dispatcher *dispatcher);

/* For simulators that try schedulers of their own: a kernel whose blocks stand in no queue. Returns its number, which
   is the same for the same shape; the functions above take it instead of that of a launch. -1: its blocks can never
   fit. gs_dispatcher_next gives the SM where a block would go if it were placed now, alone, and gs_dispatcher_place
   takes any SM with room for it. On a GPU with turns, blocks of a launch have other numbers than the order of these
   answers. */
GS_API int gs_dispatcher_kernel(gs_dispatcher *dispatcher, const gs_shape *shape, gs_error *error);

/* ---- pictures and texts ---------------------------------------------------------------------------------------- */

/* The output of `gridsmith predict` for the run: "table", "json" (gridsmith.run/1), "csv", "svg", "html" or "trace";
   or, for a recorded program, "timeline" (gridsmith.timeline/1) or "comparison" (gridsmith.compare/2), both JSON.
   `*bytes` is the length of the text, which also ends in a NUL; it may be NULL. The caller frees the text. NULL: an
   error. */
GS_API char *gs_show(const gs_gpu *gpu, const gs_run *run, const char *format, size_t *bytes, gs_error *error);
GS_API void gs_string_free(char *string);

/* ---- together -------------------------------------------------------------------------------------------------- */

typedef enum gs_answer { GS_ANSWER_NO, GS_ANSWER_YES, GS_ANSWER_UNKNOWN, GS_ANSWER_ERROR } gs_answer;

typedef struct gs_together_options {
    bool every_order; /* ask for every launch order, not only for that of the run */
    bool no_fixes;    /* do not search for changes that would help */
    int64_t budget;   /* launches to try in each search; 0: 100,000 */
} gs_together_options;

/* Whether all blocks of all kernels of the run will be resident together. Durations are ignored. If `json` is not NULL,
   it gets the complete answer (gridsmith.check/2): the fewest kernels that conflict, an order that works, and the
   changes that would help. The caller frees it. GS_ANSWER_UNKNOWN: the budget was exceeded. */
GS_API gs_answer gs_together(const gs_gpu *gpu, const gs_run *run, const gs_together_options *options, char **json,
                             gs_error *error);

/* ---- bounds ---------------------------------------------------------------------------------------------------- */

/* The instructions of a warp, and the units of the SM that execute them (schema gridsmith.program/1). */
typedef struct gs_program gs_program;

/* Reads a program from a file; "-" is standard input. The caller frees it. */
GS_API gs_program *gs_program_open(const char *path, gs_error *error);

/* The program and the SM of the finishing-time paper, with `repetitions` of its sub-block. The caller frees it. */
GS_API gs_program *gs_program_paper(int64_t repetitions, gs_error *error);
GS_API void gs_program_free(gs_program *program);

typedef struct gs_bound_options {
    bool search;          /* search for the exact worst cases */
    int64_t memory_bytes; /* the memory limit of the search; 0: 2 GB */
} gs_bound_options;

#define GS_NOT_KNOWN (-1)

/* The cycle in which the last of several warps that start together on one SM ends, or GS_NOT_KNOWN. */
typedef struct gs_bound {
    int64_t formula_cycles;    /* the paper's formula, for its own program only; it can be too small */
    int64_t exact_fair_cycles; /* the worst case if instructions of earlier sub-blocks go first */
    int64_t exact_cycles;      /* the worst case over all work-conserving schedules */
    int64_t proven_cycles;     /* a bound that holds for all of them; known for any size */
} gs_bound;

/* Fills `*bound`. `options` may be NULL: no search. A value that a search does not find within its limits is
   GS_NOT_KNOWN, which is not an error. */
GS_API gs_code gs_bound_of(const gs_program *program, int64_t warps, const gs_bound_options *options, gs_bound *bound,
                           gs_error *error);

#ifdef __cplusplus
}
#endif

#endif
