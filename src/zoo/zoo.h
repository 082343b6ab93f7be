/*
 * zoo.h: the kernels of kernels/, each with inputs of several sizes and a plain-C reference.
 *
 *   kernels    what there is: one struct a kernel, in dense.c, fields.c, signals.c, counts.c and sparse.c
 *   instances      a kernel at one size: buffers, and the launches that work on them (instance.c)
 *   forms      a instance's kernels reshaped and compiled (forms.c)
 *   runs       a instance run in a form, and what came out compared (play.c)
 *   benches    what the forms cost, compared in one run (bench.c)
 *   loads      a instance as an application: its launches again and again, on a stream (load.c)
 */
#ifndef GS_ZOO_H
#define GS_ZOO_H

#include "reshape/reshape.h"

/* ---- kernels ---- */

struct gs_zoo_instance;

enum { GS_ZOO_SIZES = 4, GS_ZOO_NUMBERS = 4, GS_ZOO_BUFFERS = 12, GS_ZOO_KINDS = 2 };

/* A size: "tiny", "odd", "small" or "large". The large one is for measuring: the reference would take too long. */
typedef struct gs_zoo_size {
    const char *name;
    int32_t n[GS_ZOO_NUMBERS]; /* what they are: gs_zoo_kernel.numbers */
} gs_zoo_size;

typedef struct gs_zoo_kernel {
    const char *name, *summary;
    const char *numbers; /* what n[0], n[1], ... of its sizes are, for people */
    gs_zoo_size sizes[GS_ZOO_SIZES];
    gs_zoo_size load; /* "load": for loads, where the large one is too small to fill a GPU; else no name */
    double tolerance; /* see gs_scalars_differ */
    /* Adds buffers and launches. */
    void (*instance)(struct gs_zoo_instance *instance, const int32_t *n);
    /* Does to the buffers what the launches do. */
    void (*reference)(void *const *data, const int32_t *n);
    /* Which guess at fewer threads, a half and a quarter, computes the same: it is tried first. */
    uint8_t elastic[2];
    bool is_once; /* the launches change their own inputs: doing it again on the results is other work */
} gs_zoo_kernel;

const gs_zoo_kernel *gs_zoo_at(size_t number); /* NULL: there are no more */
const gs_zoo_kernel *gs_zoo_find(const char *name);
/* "tiny", ...; NULL: there is none of that name. */
const gs_zoo_size *gs_zoo_size_find(const gs_zoo_kernel *kernel, const char *name);
const gs_zoo_size *gs_zoo_size_for_loads(const gs_zoo_kernel *kernel);
bool gs_zoo_size_is_large(const gs_zoo_size *size); /* so that nobody asked the reference */

/* ---- instances ---- */

typedef struct gs_zoo_buffer {
    gs_scalar type;
    size_t count;
    double low, high; /* filled with random numbers between them, or: */
    void (*make)(void *data, size_t count, const int32_t *n);
    bool is_scratch;     /* what is in it afterwards is nobody's business */
    void *data, *wanted; /* what the launches work on, and what the reference makes of it */
} gs_zoo_buffer;

typedef struct gs_zoo_launch {
    size_t kind; /* which of the instance's kinds */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t arguments;
    gs_job_argument list[12];
} gs_zoo_launch;

/* The kernels that a instance calls: `kernel` of kernels/SOURCE.cu. Most instances call one. */
typedef struct gs_zoo_kind {
    const char *source, *kernel;
} gs_zoo_kind;

typedef struct gs_zoo_instance {
    const gs_zoo_kernel *kernel;
    const gs_zoo_size *size;
    gs_zoo_buffer buffers[GS_ZOO_BUFFERS];
    size_t buffer_count;
    gs_zoo_kind kinds[GS_ZOO_KINDS];
    size_t kind_count;
    struct {
        gs_zoo_launch *data;
        size_t count, capacity;
    } launches;
    bool failed; /* out of memory while it was put together */
} gs_zoo_instance;

/* Makes a instance, its inputs, and, but for large sizes, the results of the reference. */
gs_code gs_zoo_instance_make(gs_zoo_instance *instance, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                             gs_error *error);
void gs_zoo_instance_free(gs_zoo_instance *instance);

/* What `instance` functions call. A buffer of random numbers from `low` to `high`; returns its number. */
int gs_zoo_buffer_add(gs_zoo_instance *instance, gs_scalar type, size_t count, double low, double high);
/* One that starts as zeros. */
int gs_zoo_buffer_zero(gs_zoo_instance *instance, gs_scalar type, size_t count);
/* One that a function fills. */
int gs_zoo_buffer_made(gs_zoo_instance *instance, gs_scalar type, size_t count,
                       void (*make)(void *data, size_t count, const int32_t *n));
/* A launch. `arguments` has a letter for each: 'b' the number of a buffer, 'i' an int, 'f' a double that becomes a
   float. */
void gs_zoo_launch_add(gs_zoo_instance *instance, const char *source, const char *kernel, const uint32_t grid[3],
                       const uint32_t block[3], const char *arguments, ...);

/* ---- forms ---- */

typedef struct gs_zoo_form {
    enum gs_form form;
    uint32_t factor;        /* elastic: 2 or 4 */
    uint32_t max_registers; /* registers: the limit; 0: none */
    uint32_t workers, task_blocks, stops;
    uint64_t seed;
    uint32_t seconds; /* a launch that takes longer has failed */
    bool is_marked;   /* each block of the grid counts how often it ran, and must have run once */
    bool backwards;   /* on the CPU: threads in reverse order */
} gs_zoo_form;

/* A kernel in a form: its text, and how its launches change. */
typedef struct gs_zoo_part {
    gs_text text;
    char name[GS_JOB_NAME]; /* as it is called */
    uint32_t divide_block[3], multiply_grid[3], divide_shared;
    uint32_t max_registers;
    void *program;
    gs_cost cost; /* zero where nobody knows */
    char words[300];
} gs_zoo_part;

/* The text of a kernel of the zoo, compiled in. */
gs_code gs_zoo_text(const char *source, const char **text, size_t *size, gs_error *error);
/* Reshapes a kind of a instance. `guess` is for elastic forms. GS_E_REFUSED: that cannot be done. */
gs_code gs_zoo_part_make(gs_zoo_part *part, const gs_zoo_instance *instance, size_t kind, const gs_zoo_form *form,
                         uint32_t guess, gs_error *error);
gs_code gs_zoo_part_compile(gs_zoo_part *part, gs_executor *executor, const char *file, bool is_marked,
                            gs_error *error);
/* What it costs: as the executor says, or else NVRTC for that GPU; as for how many fit on an SM, `gpu` where the
   executor does not know. */
gs_code gs_zoo_part_price(gs_zoo_part *part, gs_executor *executor, const gs_gpu *gpu, const gs_zoo_instance *instance,
                          size_t kind, gs_error *error);
void gs_zoo_part_free(gs_zoo_part *part);

/* ---- runs ---- */

typedef struct gs_zoo_result {
    bool is_right;
    gs_error reason; /* what is wrong, or was refused; for elastic forms that are right: what changed */
    uint64_t elapsed_ns;
    uint32_t launches;
} gs_zoo_result;

/* Runs the launches on the inputs, in the programs of `parts`, one for each kind. What is wrong with the kernel is a
   result, not an error. */
gs_code gs_zoo_play(gs_zoo_instance *instance, const gs_zoo_part *parts, gs_executor *executor, const gs_zoo_form *form,
                    gs_zoo_result *result, gs_error *error);

/* All of it: reshapes, compiles, runs and compares with the reference; for large sizes, with the original on the same
   executor. `parts` has GS_ZOO_KINDS, zero before the first size of a kernel; the other sizes use them again. The
   caller frees them. */
gs_code gs_zoo_run(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form, gs_zoo_part *parts,
                   gs_zoo_result *result, gs_error *error);

/* ---- benches ---- */

enum { GS_ZOO_BENCHED = 3 }; /* original, persistent, confined */

typedef struct gs_zoo_bench {
    uint64_t median_ns[GS_ZOO_BENCHED];
    gs_cost costs[GS_ZOO_BENCHED];          /* of the first kernel */
    uint32_t max_registers[GS_ZOO_BENCHED]; /* 0: no limit was needed to keep the original's occupancy */
    double cost_percent[GS_ZOO_BENCHED];    /* more than the original takes */
    uint32_t launches;
} gs_zoo_bench;

/* Runs the original, the persistent and the confined form by turns, `repeat` times each after one that does not count,
   and compares the results once. `is_unlimited`: reshaped kernels get as many registers as the compiler likes, also
   where fewer of their blocks fit then. GS_E_KERNEL: one of them is wrong. */
gs_code gs_zoo_measure(gs_zoo_instance *instance, gs_executor *executor, const gs_gpu *gpu, const gs_zoo_form *form,
                       uint32_t repeat, bool is_unlimited, gs_zoo_bench *bench, gs_error *error);

/* ---- loads ---- */

/* A instance whose memory is on the GPU and whose kernels are loaded. */
typedef struct gs_zoo_load {
    gs_zoo_instance instance;
    gs_app_stream *stream; /* not owned */
    uintptr_t modules[GS_ZOO_KINDS];
    bool is_changed[GS_ZOO_BUFFERS];                       /* by the launches */
    uint64_t memory[GS_ZOO_BUFFERS], kept[GS_ZOO_BUFFERS]; /* the buffers; those that are changed, as they were */
    uint32_t ahead, unwaited;                              /* launches that may be, and are, not waited for */
    uint32_t launches;                                     /* of this round */
    int64_t setup_ns, compile_ns, pass_ns;                 /* all of it, of that compiling, and a pass */
} gs_zoo_load;

typedef struct gs_zoo_round {
    int64_t began_ns, ended_ns; /* CLOCK_MONOTONIC, so that processes can be compared */
    uint32_t launches;
} gs_zoo_round;

/* Makes the inputs, sends them, compiles, and runs the launches once or twice. The stream, which this thread has
   entered, must outlive the load. The caller closes it, also where it fails. GS_E_KERNEL: a result is wrong. */
gs_code gs_zoo_load_open(gs_zoo_load *load, const gs_zoo_kernel *kernel, const gs_zoo_size *size, gs_app_stream *stream,
                         gs_error *error);
/* How many repetitions take about so long. */
gs_code gs_zoo_load_repeat(gs_zoo_load *load, int64_t wanted_ns, uint32_t *repeat, gs_error *error);
/* So many repetitions, and waits for the last. */
gs_code gs_zoo_load_round(gs_zoo_load *load, uint32_t repeat, gs_zoo_round *round, gs_error *error);
/* Whether the last repetition left what is wanted. GS_E_KERNEL: it did not. */
gs_code gs_zoo_load_check(gs_zoo_load *load, gs_error *error);
void gs_zoo_load_close(gs_zoo_load *load); /* the memory goes with the stream */

/* What launching a kernel that does nothing takes. */
typedef struct gs_zoo_launch_times {
    int64_t waited_ns;      /* with waiting for it: the median, */
    int64_t waited_most_ns; /* and the time that 1% exceed */
    double pipelined_ns;    /* a launch of many that are not waited for */
} gs_zoo_launch_times;

gs_code gs_zoo_launch_cost(gs_app_stream *stream, uint32_t count, gs_zoo_launch_times *times, gs_error *error);

#endif
