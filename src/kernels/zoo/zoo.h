/*
 * zoo.h: the kernels of kernels/, each with inputs of several sizes and a reference in plain C.
 *
 *   kernels    one struct for each kernel, in dense.c, fields.c, signals.c, counts.c and sparse.c
 *   sizes      those of a kernel, and those between them (sizes.c)
 *   instances  a kernel at one size: its buffers, and the launches that work on them (instance.c)
 *   forms      the kernels of an instance, reshaped and compiled (forms.c)
 *   runs       runs an instance in a form and compares the results (play.c)
 *   benches    measures the cost of the forms (bench.c)
 *   tasks      launches of kernels at sizes, which may wait for each other (task.c)
 *   loads      a task as an application: its launches again and again, on a stream (load.c, resident.c)
 */
#ifndef GS_ZOO_H
#define GS_ZOO_H

#include "kernels/cpu/cpu.h"

/* ---- kernels ---- */

struct gs_zoo_instance;

enum { GS_ZOO_SIZES = 4, GS_ZOO_NUMBERS = 4, GS_ZOO_BUFFERS = 12, GS_ZOO_KINDS = 2 };

/* A size: "tiny", "odd", "small" or "large". The large one is for measurements: the reference would take too long. */
typedef struct gs_zoo_size {
    const char *name;
    int32_t n[GS_ZOO_NUMBERS]; /* their meaning: gs_zoo_kernel.numbers */
} gs_zoo_size;

typedef struct gs_zoo_kernel {
    const char *name, *summary;
    const char *numbers; /* the meaning of n[0], n[1], ..., for users */
    gs_zoo_size sizes[GS_ZOO_SIZES];
    gs_zoo_size load; /* "load": for loads, if the large size does not fill a GPU; otherwise its name is NULL */
    double tolerance; /* see gs_scalars_differ */
    /* How a size decides about blocks, for gs_zoo_size_fit: in the direction of number i each launch has a block for
       each `block_of[i]` of it, rounded up; 0: it has no such direction. All 0: other blocks cannot be computed. */
    int32_t block_of[GS_ZOO_NUMBERS];
    uint8_t work;    /* the work of a block is in proportion to number `work` - 1; 0: it cannot be changed */
    uint8_t divided; /* that number is divided among the blocks in direction `divided` - 1; 0: each has all of it */
    /* Adds buffers and launches. */
    void (*instance)(struct gs_zoo_instance *instance, const int32_t *n);
    /* Computes the results of the launches in the buffers. NULL: a kernel of a file, whose only size is large. */
    void (*reference)(void *const *data, const int32_t *n);
    /* The correct elastic guess (gs_elastic_guess) for a half and for a quarter of the threads. It is tried first. */
    uint8_t elastic[2];
    bool is_assembly;    /* the source has inline assembly: it has no elastic forms, and the CPU runs its PTX only */
    bool changes_inputs; /* the launches change their own inputs, so a repetition would do different work */
} gs_zoo_kernel;

const gs_zoo_kernel *gs_zoo_at(size_t number); /* NULL: number is too large */
const gs_zoo_kernel *gs_zoo_find(const char *name);
/* The size of that name, or NULL. */
const gs_zoo_size *gs_zoo_size_find(const gs_zoo_kernel *kernel, const char *name);
const gs_zoo_size *gs_zoo_size_for_loads(const gs_zoo_kernel *kernel);
bool gs_zoo_size_is_large(const gs_zoo_size *size); /* instances of this size have no reference results */
/* A size like `size`, of the same name, whose launches have `blocks` blocks in all (0: those of `size`), each with
   `work` times the work. GS_E_USAGE: there is none. */
gs_code gs_zoo_size_fit(const gs_zoo_kernel *kernel, const gs_zoo_size *size, int64_t blocks, double work,
                        gs_zoo_size *fitted, gs_error *error);

/* ---- instances ---- */

typedef struct gs_zoo_buffer {
    gs_scalar type;
    size_t count;
    double low, high; /* filled with random numbers between them, or by `make` */
    void (*make)(void *data, size_t count, const int32_t *n);
    bool is_scratch;       /* its contents afterwards are not compared */
    void *data, *expected; /* the input, and the result of the reference */
} gs_zoo_buffer;

typedef struct gs_zoo_launch {
    size_t kind; /* index in the kinds of the instance */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t arguments;
    gs_job_argument list[12];
} gs_zoo_launch;

/* A kernel function that an instance calls: `kernel` of kernels/SOURCE.cu, or of a user's file SOURCE. Most instances
   call one. */
typedef struct gs_zoo_kind {
    const char *source, *kernel;
    bool is_file;
    const char *ptx, *symbol; /* of a file that was read or compiled before; NULL: not yet */
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
    bool failed; /* out of memory while the instance was made */
} gs_zoo_instance;

/* Makes an instance and its inputs and, except at large sizes, the results of the reference. */
gs_code gs_zoo_instance_make(gs_zoo_instance *instance, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                             gs_error *error);
void gs_zoo_instance_free(gs_zoo_instance *instance);
/* The first launch of a kind, or NULL. */
const gs_zoo_launch *gs_zoo_launch_first(const gs_zoo_instance *instance, size_t kind);
static inline size_t gs_zoo_buffer_bytes(const gs_zoo_buffer *buffer) {
    return buffer->count * gs_scalar_bytes(buffer->type);
}

/* Functions for gs_zoo_kernel.instance. Adds a buffer of random numbers from `low` to `high`; returns its number. */
int gs_zoo_buffer_add(gs_zoo_instance *instance, gs_scalar type, size_t count, double low, double high);
/* Adds a buffer of zeros. */
int gs_zoo_buffer_zero(gs_zoo_instance *instance, gs_scalar type, size_t count);
/* Adds a buffer that a function fills. */
int gs_zoo_buffer_made(gs_zoo_instance *instance, gs_scalar type, size_t count,
                       void (*make)(void *data, size_t count, const int32_t *n));
/* Adds a launch. `arguments` has a letter for each argument: 'b' the number of a buffer, 'i' an int, 'f' a double that
   is converted to float. */
void gs_zoo_launch_add(gs_zoo_instance *instance, const char *source, const char *kernel, const uint32_t grid[3],
                       const uint32_t block[3], const char *arguments, ...);

/* Adds a launch of the kernel `kernel` of a user's file `source`, as `launch` says, with its buffers, which are filled
   unless it is only to be checked. The instance is empty before; the caller frees it, also if this fails. GS_E_USAGE:
   too many arguments or buffers. */
gs_code gs_zoo_launch_add_file(gs_zoo_instance *instance, const char *source, const char *kernel,
                               const gs_launch_file *launch, bool is_filled, gs_error *error);

/* Sets the dynamic shared memory of the last launch. */
void gs_zoo_launch_shared(gs_zoo_instance *instance, size_t bytes);

/* ---- forms ---- */

typedef struct gs_zoo_form {
    enum gs_form form;
    uint32_t factor;        /* elastic: 2 or 4 */
    uint32_t max_registers; /* the limit; 0: none */
    uint32_t workers, task_blocks, stops;
    uint64_t seed;
    uint32_t seconds;   /* time limit of a launch */
    bool counts_blocks; /* counts how often each block of the grid ran, which must be once */
    bool backwards;     /* on the CPU: threads in reverse order */
    bool shuffled;      /* on the CPU: blocks and threads in random order */
} gs_zoo_form;

/* A kernel in a form: its text, and the changes to its launches. */
typedef struct gs_zoo_part {
    gs_text text;
    char name[GS_JOB_NAME]; /* the symbol or, of elastic forms, the name with template arguments */
    uint32_t divide_block[3], multiply_grid[3], divide_shared;
    bool needs_queue; /* see gs_ptx_form */
    uint32_t max_registers;
    void *program;
    gs_cost cost; /* 0 where unknown */
    char words[300];
} gs_zoo_part;

/* Puts the PTX of a kernel of an instance into `text`, which must be empty and which the caller frees, and its symbol
   into `symbol`, which has space for GS_JOB_NAME bytes. */
gs_code gs_zoo_ptx(const gs_zoo_kind *kind, gs_text *text, char *symbol, gs_error *error);
/* Reshapes a kernel of an instance: its PTX or, for elastic forms, its source. `guess` is for elastic forms.
   GS_E_REFUSED: it cannot be reshaped. */
gs_code gs_zoo_part_make(gs_zoo_part *part, const gs_zoo_instance *instance, size_t kind, const gs_zoo_form *form,
                         uint32_t guess, gs_error *error);
gs_code gs_zoo_part_compile(gs_zoo_part *part, gs_executor *executor, const char *file, gs_error *error);
/* Sets the cost of the part: as reported by the executor, or else by the compiler for `architecture` (90: compute
   capability 9.0), which does not know how many blocks fit on an SM. */
gs_code gs_zoo_part_cost(gs_zoo_part *part, gs_executor *executor, int architecture, const gs_zoo_instance *instance,
                         size_t kind, gs_error *error);
void gs_zoo_part_free(gs_zoo_part *part);

/* ---- runs ---- */

typedef struct gs_zoo_result {
    bool is_right;
    gs_error reason; /* why a result is wrong or a form was refused; for correct elastic forms: the changes */
    uint64_t elapsed_ns;
    uint32_t launches;
} gs_zoo_result;

/* Runs the launches on the inputs with the programs of `parts`, one for each kind. A wrong result or a failing kernel
   is a result, not an error. */
gs_code gs_zoo_play(gs_zoo_instance *instance, const gs_zoo_part *parts, gs_executor *executor, const gs_zoo_form *form,
                    gs_zoo_result *result, gs_error *error);

/* Reshapes, compiles, runs and compares with the reference; at large sizes, with the original on the same executor.
   `parts` has GS_ZOO_KINDS elements, zero before the first size of a kernel; the other sizes use them again. The caller
   frees them. */
gs_code gs_zoo_run(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form, gs_zoo_part *parts,
                   gs_zoo_result *result, gs_error *error);

/* ---- benches ---- */

enum { GS_ZOO_BENCHED = 3 }; /* original, persistent, confined */

typedef struct gs_zoo_bench {
    uint64_t median_ns[GS_ZOO_BENCHED];
    gs_cost costs[GS_ZOO_BENCHED];          /* of the first kernel */
    uint32_t max_registers[GS_ZOO_BENCHED]; /* 0: no limit was needed for the occupancy of the original */
    double cost_percent[GS_ZOO_BENCHED];    /* additional time, in percent of that of the original */
    uint32_t launches;
} gs_zoo_bench;

/* Runs the original, the persistent and the confined form alternately, `repeat` times each after one run that does not
   count, and compares the results once. `is_unlimited`: reshaped kernels are compiled without a register limit, even if
   fewer of their blocks fit then. GS_E_KERNEL: a result is wrong. */
gs_code gs_zoo_measure(gs_zoo_instance *instance, gs_executor *executor, int architecture, const gs_zoo_form *form,
                       uint32_t repeat, bool is_unlimited, gs_zoo_bench *bench, gs_error *error);

/* ---- tasks ---- */

/* A launch of a task: all launches of the kernel at this size. */
typedef struct gs_zoo_step {
    const gs_zoo_kernel *kernel; /* not owned */
    gs_zoo_size size;
    size_t after, after_count; /* in `after` of the task: the earlier steps that it waits for */
} gs_zoo_step;

/* What an application does. */
typedef struct gs_zoo_task {
    char *name;
    uint32_t repeat; /* how often, one time after the other; 0: not said */
    struct {
        gs_zoo_step *data; /* at least one, in order */
        size_t count, capacity;
    } steps;
    struct {
        size_t *data;
        size_t count, capacity;
    } after;
} gs_zoo_task;

/* Adds a step that waits for nothing; makes the last step wait for an earlier one. False: out of memory. */
bool gs_zoo_task_add(gs_zoo_task *task, const gs_zoo_kernel *kernel, const gs_zoo_size *size);
bool gs_zoo_task_wait(gs_zoo_task *task, size_t before);
void gs_zoo_task_free(gs_zoo_task *task);

/* ---- loads ---- */

/* Launches on a stream, and waits when the host is far ahead. */
typedef struct gs_zoo_pace {
    gs_app_stream *stream;    /* not owned */
    uint32_t track;           /* of the next launches */
    uint32_t ahead, unwaited; /* the most launches before a wait, and those since the last one */
    uint32_t launches;        /* of this round */
} gs_zoo_pace;

/* An instance whose memory is on the GPU and whose kernels are loaded. */
typedef struct gs_zoo_resident {
    gs_zoo_instance instance;
    uintptr_t modules[GS_ZOO_KINDS];
    bool is_changed[GS_ZOO_BUFFERS];                        /* by the launches */
    uint64_t memory[GS_ZOO_BUFFERS], saved[GS_ZOO_BUFFERS]; /* the buffers, and copies of the inputs that change */
    int64_t compile_ns;
    uint32_t track;
    size_t last_step; /* of the task, that uses it */
} gs_zoo_resident;

/* Where a step runs. */
typedef struct gs_zoo_place {
    size_t resident;
    bool is_last;   /* no later step uses the resident */
    uint32_t track; /* of the stream */
    uint32_t waits; /* a bit for each track whose launches must end before */
} gs_zoo_place;

/* A task on the GPU. */
typedef struct gs_zoo_load {
    const gs_zoo_task *task; /* not owned */
    gs_zoo_pace pace;
    struct {
        gs_zoo_resident *data;
        size_t count, capacity;
    } residents;
    gs_zoo_place *places;                  /* of the steps */
    uint32_t tracks;                       /* that they use */
    uint64_t launches, blocks;             /* of a repetition, without copies */
    int64_t setup_ns, compile_ns, pass_ns; /* the whole setup, its compiling part, and a pass */
} gs_zoo_load;

typedef struct gs_zoo_round {
    int64_t began_ns, ended_ns; /* CLOCK_MONOTONIC, which all processes share */
    uint32_t launches;
} gs_zoo_round;

/* Makes the inputs, copies them to the GPU, compiles, and runs the launches once or twice. The task, and the stream,
   which this thread has entered, must outlive the load. The caller closes the load, also if this fails. GS_E_KERNEL: a
   result is wrong. */
gs_code gs_zoo_load_open(gs_zoo_load *load, const gs_zoo_task *task, gs_app_stream *stream, gs_error *error);
/* Finds the number of repetitions that take about `wanted_ns`. */
gs_code gs_zoo_load_repeat(gs_zoo_load *load, int64_t wanted_ns, uint32_t *repeat, gs_error *error);
/* Runs `repeat` repetitions, and waits for the last. */
gs_code gs_zoo_load_round(gs_zoo_load *load, uint32_t repeat, gs_zoo_round *round, gs_error *error);
/* Compares the results of the last repetition. GS_E_KERNEL: they are wrong. */
gs_code gs_zoo_load_check(gs_zoo_load *load, gs_error *error);
void gs_zoo_load_close(gs_zoo_load *load); /* the stream frees the memory */

/* The cost of launching an empty kernel. */
typedef struct gs_zoo_launch_times {
    int64_t waited_ns;      /* with a wait for each launch: the median, */
    int64_t waited_most_ns; /* and the time that 1% exceed */
    double pipelined_ns;    /* per launch, if many are launched before a wait */
} gs_zoo_launch_times;

gs_code gs_zoo_launch_cost(gs_app_stream *stream, uint32_t count, gs_zoo_launch_times *times, gs_error *error);

#endif
