/*
 * gridsmith.h: the public face of libgridsmith.
 *
 * Gridsmith predicts on which SM the NVIDIA thread-block scheduler puts every thread block of concurrent kernels.
 * This header is meant to be read from top to bottom; each part builds on the one before:
 *
 *   errors       what went wrong, where in which file, in one line
 *   GPUs         a description of a GPU: its limits, topology and scheduling mechanisms
 *   occupancy    how many blocks of one kernel an SM takes, and which resource says so
 *   dispatcher   the live state of a GPU: ask for the SM of the next block, place it, free it (for simulators)
 *   runs         launches and exits in order, read from and written to files
 *   prediction   play a whole run: which block goes where, which waits, and why
 *   bounds       when the warps of an SM are done, at the latest
 *
 * Conventions. A function that can fail takes a `gs_error *` as its last argument (NULL if you do not want the words)
 * and returns NULL or a code other than GS_OK. The library never prints and never exits. Objects are opaque; whoever
 * gets one from a function named `_open`, `_read`, `_new` or `_predict` frees it with the matching `_free`, and
 * `_free(NULL)` is fine. Nothing is shared between objects behind your back: different threads may use different
 * objects, and any number of threads may read one `gs_gpu`.
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

#if defined(__GNUC__)
#    define GS_API __attribute__((visibility("default")))
#else
#    define GS_API
#endif

#define GS_VERSION "0.1.0"

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Every way to fail: the name, the exit code the program gives it, and what it means. */
#define GS_ERRORS(X)                                                                                                   \
    X(GS_OK, 0, "done")                                                                                                \
    X(GS_E_USAGE, 2, "the call or the command line is wrong")                                                          \
    X(GS_E_SYNTAX, 2, "the text is not JSON")                                                                          \
    X(GS_E_FORMAT, 2, "the JSON is not what the format asks for")                                                      \
    X(GS_E_NO_FIT, 2, "a kernel can never fit on this GPU")                                                            \
    X(GS_E_UNSUPPORTED, 2, "the model does not cover this")                                                            \
    X(GS_E_REFUSED, 1, "the kernel cannot be reshaped safely")                                                         \
    X(GS_E_KERNEL, 2, "the kernel does not compile, or failed while it ran")                                           \
    X(GS_E_NO_GPU, 3, "no usable GPU")                                                                                 \
    X(GS_E_IO, 4, "a file could not be read or written")                                                               \
    X(GS_E_MEMORY, 4, "out of memory")                                                                                 \
    X(GS_E_FULL, 4, "there is not enough memory on the GPU")

#define GS_ERROR_ENUM(name, exit_code, meaning) name,
typedef enum gs_code { GS_ERRORS(GS_ERROR_ENUM) GS_CODES } gs_code;
#undef GS_ERROR_ENUM

/* What went wrong. `line` and `column` count from 1 and are 0 where there is no place. */
typedef struct gs_error {
    gs_code code;
    long line, column;
    char file[200];
    char message[400];
    char excerpt[120]; /* the part of the line around the place, or "" */
    int caret;         /* where in `excerpt` the place is, from 0 */
} gs_error;

/* "FILE:LINE:COLUMN: message", without the parts that are not known, into `text`. Returns `text`. */
GS_API const char *gs_error_text(const gs_error *error, char *text, size_t size);

/* The exit code and the meaning of a code, from the table above. */
GS_API int gs_code_exit(gs_code code);
GS_API const char *gs_code_meaning(gs_code code);

/* ---- GPUs ------------------------------------------------------------------------------------------------------ */

/* A description of a GPU (schema gridsmith.gpu/1). Immutable once opened, except for gs_gpu_set and gs_gpu_use. */
typedef struct gs_gpu gs_gpu;

/* Opens a description by name ("rtx3090": one of those built in) or by path (anything with a '/' or ending in
   ".json"). The caller frees it. */
GS_API gs_gpu *gs_gpu_open(const char *name_or_path, gs_error *error);
GS_API void gs_gpu_free(gs_gpu *gpu);

/* The names of the built-in descriptions, in order; NULL past the last. */
GS_API const char *gs_gpu_builtin(size_t index);

GS_API const char *gs_gpu_name(const gs_gpu *gpu);
GS_API int gs_gpu_sms(const gs_gpu *gpu);

/* Changes one mechanism of the description, e.g. gs_gpu_set(gpu, "warp_placement", "free", &error). */
GS_API gs_code gs_gpu_set(gs_gpu *gpu, const char *mechanism, const char *value, gs_error *error);

/* Sets all mechanisms at once to a published policy: "paper", "most-room" or "round-robin". */
GS_API gs_code gs_gpu_use(gs_gpu *gpu, const char *policy, gs_error *error);

/* ---- occupancy ------------------------------------------------------------------------------------------------- */

/* What a block of a kernel asks for. `shared_bytes` is static and dynamic together, without what the runtime reserves.
   `carveout_percent` is the shared-memory carve-out the program asked for, or GS_NO_CARVEOUT. */
typedef struct gs_shape {
    int32_t threads;
    int32_t registers; /* per thread, as the driver reports them */
    int64_t shared_bytes;
    int64_t local_bytes; /* per thread */
    int32_t carveout_percent;
} gs_shape;

#define GS_NO_CARVEOUT (-1)
#define GS_NO_LIMIT    INT32_MAX

/* A shape without local memory and carve-out. */
static inline gs_shape gs_shape_of(int32_t threads, int32_t registers, int64_t shared_bytes) {
    gs_shape shape = {threads, registers, shared_bytes, 0, GS_NO_CARVEOUT};
    return shape;
}

/* Which resources stop one more block, as bits. */
enum { GS_LIMIT_BLOCKS = 1, GS_LIMIT_WARPS = 2, GS_LIMIT_REGISTERS = 4, GS_LIMIT_SHARED = 8 };

typedef struct gs_occupancy {
    int32_t blocks;       /* per SM, the least of the four below; 0: the kernel can never run */
    int32_t by_blocks;    /* what block slots, warp slots, registers and shared memory */
    int32_t by_warps;     /* allow each on its own */
    int32_t by_registers; /* (GS_NO_LIMIT where the kernel uses none of it) */
    int32_t by_shared;
    unsigned limits;             /* GS_LIMIT_ bits of those equal to `blocks` */
    int32_t warps_per_block;     /* */
    int32_t warps_per_sm;        /* how many warps the SM has slots for */
    int64_t shared_block_bytes;  /* of a block, rounded up, with the runtime's share */
    int64_t shared_config_bytes; /* the shared-memory configuration the kernel needs */
} gs_occupancy;

/* Fills `*occupancy`. A kernel that can never run is not an error here: blocks is 0, and `*error`, where given, holds
   the reason. */
GS_API void gs_occupancy_of(const gs_gpu *gpu, const gs_shape *shape, gs_occupancy *occupancy, gs_error *error);

/* ---- dispatcher ------------------------------------------------------------------------------------------------ */

/* The live state of one GPU: a block dispatcher for a simulator. Each decision takes constant time. */
typedef struct gs_dispatcher gs_dispatcher;

#define GS_WAIT (-1)

/* A GPU with nothing on it. Keeps `gpu`, which must outlive it and not change. */
GS_API gs_dispatcher *gs_dispatcher_new(const gs_gpu *gpu, gs_error *error);
GS_API void gs_dispatcher_free(gs_dispatcher *dispatcher);

/* Makes a kernel known and returns its number (the same number for the same shape), or -1 with the reason in `*error`
   if its blocks can never fit. */
GS_API int gs_dispatcher_kernel(gs_dispatcher *dispatcher, const gs_shape *shape, gs_error *error);

/* The SM on which the next block of `kernel` would be placed now, or GS_WAIT. Changes nothing. */
GS_API int gs_dispatcher_next(gs_dispatcher *dispatcher, int kernel);

/* How many blocks of `kernel` the SM could still take. */
GS_API int gs_dispatcher_room(const gs_dispatcher *dispatcher, int kernel, int sm);

/* Places a block of `kernel` on an SM: the one gs_dispatcher_next named, or another with room. Returns the block's
   handle, or -1 if the SM has no room for it or memory ran out. */
GS_API int gs_dispatcher_place(gs_dispatcher *dispatcher, int kernel, int sm);

/* Ends a block. The handle may be given to a later block. What is not the handle of a block does nothing. */
GS_API void gs_dispatcher_release(gs_dispatcher *dispatcher, int block);

/* Blocks on one SM, and on the whole GPU. */
GS_API int gs_dispatcher_resident(const gs_dispatcher *dispatcher, int sm);
GS_API int gs_dispatcher_resident_all(const gs_dispatcher *dispatcher);

/* ---- runs ------------------------------------------------------------------------------------------------------ */

/* Launches and exits in order, with or without what was observed (schema gridsmith.run/1). */
typedef struct gs_run gs_run;

/* A file of runs: one JSON object, or JSON Lines; gzip or plain. */
typedef struct gs_runs gs_runs;

/* Opens a file for reading; "-" is standard input. */
GS_API gs_runs *gs_runs_open(const char *path, gs_error *error);
GS_API void gs_runs_close(gs_runs *runs);

/* The next run of the file, or NULL: at the end with error->code GS_OK, otherwise with what is wrong. The caller frees
   it. */
GS_API gs_run *gs_runs_next(gs_runs *runs, gs_error *error);
GS_API void gs_run_free(gs_run *run);

/* The GPU the run names, or NULL. Valid as long as the run. */
GS_API const char *gs_run_gpu(const gs_run *run);

/* Writes the run as one line of JSON. */
GS_API gs_code gs_run_write(const gs_run *run, FILE *file, gs_error *error);

/* The launches of a run, in order: how many, the name of one, its blocks, and the SM of one of its blocks as the run
   records or predicts it (GS_WAIT: it did not start). A block that started after its launch counts as started. */
GS_API size_t gs_run_launches(const gs_run *run);
GS_API const char *gs_run_kernel(const gs_run *run, size_t launch);
GS_API int64_t gs_run_blocks(const gs_run *run, size_t launch);
GS_API int gs_run_placed(const gs_run *run, size_t launch, int64_t block);

/* ---- prediction ------------------------------------------------------------------------------------------------ */

typedef struct gs_predict_options {
    bool explain;                                                /* say why kernels wait */
    void (*progress)(void *user, int64_t blocks, int64_t total); /* called now and then; may be NULL */
    void *user;
    bool follow; /* the run is a recording: take from it what no model can know */
    int turn;    /* which of the gs_gpu_turns(gpu) states the GPU's turns are in at the beginning */
} gs_predict_options;

/* Some GPUs remember, from one launch to the next, which group of SMs was served last. That decides which block goes to
   which of the chosen SMs, and it is not known where it stands when a run begins: a prediction is one of so many, by
   `turn`. How many blocks each SM gets is the same in all of them. 1: the GPU remembers nothing. */
GS_API int gs_gpu_turns(const gs_gpu *gpu);

/* Plays `run` on `gpu` and returns the same run with the prediction filled in; the caller frees it. `options` may be
   NULL. Without durations, `placed` of a launch holds what starts at that point (the rest waits), and an `observe`
   event after an exit shows what starts then. With durations `placed` holds every block that ever starts, and
   `start_ns` and `end_ns` say when.
   Following a recording, two things are taken from it: the turns at its beginning, as its first launches show them; and
   when blocks ended, where it says so. */
GS_API gs_run *gs_predict(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options, gs_error *error);

/* ---- bounds ---------------------------------------------------------------------------------------------------- */

/* What a warp does, and the units of the SM on which it does it (schema gridsmith.program/1). */
typedef struct gs_program gs_program;

/* Reads a program from a file; "-" is standard input. The caller frees it. */
GS_API gs_program *gs_program_open(const char *path, gs_error *error);

/* The program and the SM of the finishing-time paper, its sub-block repeated so often. The caller frees it. */
GS_API gs_program *gs_program_paper(int64_t repetitions, gs_error *error);
GS_API void gs_program_free(gs_program *program);

typedef struct gs_bound_options {
    bool search;          /* look for the exact worst cases */
    int64_t memory_bytes; /* that the search may take; 0: 2 GB */
} gs_bound_options;

#define GS_NOT_KNOWN (-1)

/* The cycle in which the last of some warps ends that start together on one SM, or GS_NOT_KNOWN. */
typedef struct gs_bound {
    int64_t formula_cycles;    /* the paper's formula, for its own program only; it can be too small */
    int64_t exact_fair_cycles; /* the worst case if instructions of earlier sub-blocks go first */
    int64_t exact_cycles;      /* the worst case over all work-conserving schedules */
    int64_t proven_cycles;     /* a bound that holds for all of them, and is known at any size */
} gs_bound;

/* `options` may be NULL: no search. What a search cannot find within its limits is not known, which is no error. */
GS_API gs_code gs_bound_of(const gs_program *program, int64_t warps, const gs_bound_options *options, gs_bound *bound,
                           gs_error *error);

#ifdef __cplusplus
}
#endif

#endif
