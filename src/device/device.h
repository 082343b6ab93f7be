/*
 * device.h: where a run can be played. One table of functions, three sources:
 *
 *   cuda      a real GPU, by the driver that is found at run time (cuda.c)
 *   replay    recordings: a run that was recorded gives what was seen then (sources.c)
 *   model     the engine posing as a GPU, with chosen mechanisms and a planted quirk (sources.c)
 *
 * Whoever plays runs on a device cannot tell them apart.
 *
 * The last part is work: kernels with arguments, called one after the other, on a real GPU (work_cuda.c) or on the CPU
 * (src/reshape/host.c); and streams of launches that nobody waits for (feed_cuda.c).
 */
#ifndef GS_DEVICE_H
#define GS_DEVICE_H

#include "sched/sched.h"

#include <gridsmith_job.h>

typedef struct gs_device gs_device;

typedef struct gs_play_options {
    const gs_run *expected; /* a prediction, or NULL: what agrees with it needs no long wait to be believed */
    bool patient;           /* wait long before concluding that nothing starts, whatever was expected */
} gs_play_options;

/* ---- timing: what a warp of a given body takes, by the clock of its SM ---- */

typedef enum gs_timed_body {
    GS_TIMED_NOTHING,  /* the clock is read, and read again */
    GS_TIMED_COMPUTE,  /* a chain of `count` multiplications; here and below each needs the result of the one before */
    GS_TIMED_LOAD,     /* of loads from shared memory */
    GS_TIMED_STORE,    /* of stores there */
    GS_TIMED_PROGRAM,  /* C (L L C)x`count` S */
    GS_TIMED_SUB_BLOCK /* (L L C)x`count` */
} gs_timed_body;

enum { GS_TIMED_REPEATS = 24, GS_TIMED_MOST_WARPS = 64 };

/* Nothing has no count, chains and sub-blocks come 32 and 64 long, programs with 1 to GS_TIMED_REPEATS repetitions. */
typedef struct gs_timing_plan {
    gs_timed_body body;
    int32_t count;
    int64_t blocks; /* all of which must fit on the GPU together */
    int32_t warps;  /* of a block */
} gs_timing_plan;

typedef struct gs_timing {
    gs_shape shape;     /* of the kernel */
    int64_t cycles;     /* the longest time of any warp, from its start to its end */
    int64_t shortest;   /* and the shortest */
    int64_t skew;       /* between the first and the last start on one SM, at most */
    int32_t most_on_sm; /* blocks on one SM */
    int32_t sms;        /* with blocks */
} gs_timing;

/* One source of devices. */
typedef struct gs_device_ops {
    const char *name;
    gs_run *(*play)(gs_device *device, const gs_run *plan, const gs_play_options *options, gs_error *error);
    void (*close)(gs_device *device);
    gs_code (*time)(gs_device *device, const gs_timing_plan *plan, gs_timing *timing, gs_error *error); /* or NULL */
} gs_device_ops;

struct gs_device {
    const gs_device_ops *ops;
    gs_gpu *gpu;      /* its description: limits at least; mechanisms where they are known */
    int32_t clusters; /* the largest cluster it can launch; 1: none */
    char uuid[48];    /* of a real GPU, as nvidia-smi prints it, or "" */
    void *inside;     /* the source's own */
};

/* Opens a device:
     cuda[:N[,sms=M[,part=P]]]              GPU number N (default 0); only M of its SMs, the first or the Pth such part
     replay:FILE                            recordings
     model:GPU[,MECHANISM=VALUE]...[,skip=SM]  the engine; with `skip` that SM never gets a block
   The caller closes it. */
gs_device *gs_device_open(const char *name, gs_error *error);
void gs_device_close(gs_device *device);

/* Plays the launches and exits of `plan` and returns a recording: the same run with what was seen, and an observation
   of each waiting kernel that an exit let in. The caller frees it. */
gs_run *gs_device_play(gs_device *device, const gs_run *plan, const gs_play_options *options, gs_error *error);

/* Runs a timed kernel. Without blocks nothing runs, and `timing` has the shape of the kernel. GS_E_USAGE: the device is
   no GPU. */
gs_code gs_device_time(gs_device *device, const gs_timing_plan *plan, gs_timing *timing, gs_error *error);

/* What random runs may ask of a GPU, and of this device. `largest_cluster` 1: no clusters. */
gs_bounds gs_bounds_of(const gs_gpu *gpu, int32_t largest_cluster);
gs_bounds gs_device_bounds(const gs_device *device);

/* The sources, for gs_device_open: `rest` is what stands after the colon, or "". */
gs_device *gs_device_open_cuda(const char *rest, gs_error *error);
gs_device *gs_device_open_replay(const char *rest, gs_error *error);
gs_device *gs_device_open_model(const char *rest, gs_error *error);

/* ---- work: buffers, and calls of kernels on them ---- */

typedef struct gs_work {
    struct {
        gs_job_call *data;
        size_t count, room;
    } calls;
    struct {
        gs_job_argument *data;
        size_t count, room;
    } arguments;
    struct {
        struct gs_work_buffer {
            void *data; /* the caller's: read before the first call, written after the last */
            size_t bytes;
        } * data;
        size_t count, room;
    } buffers;
    uint32_t threads, sms, seconds; /* of the CPU: see gs_job */
    bool backwards;
    uint64_t seed;
    bool failed; /* out of memory while it was put together; shows when it is run */
} gs_work;

/* Adds memory of the caller, which must outlive the work. Returns its number. */
int32_t gs_work_buffer(gs_work *work, void *data, size_t bytes);
/* Adds a call without arguments; the gs_work_pass that follow give it those. Valid until the next call is added. */
gs_job_call *gs_work_call(gs_work *work, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes);
void gs_work_pass_buffer(gs_work *work, int32_t buffer);
void gs_work_pass(gs_work *work, const void *value, size_t bytes);
void gs_work_free(gs_work *work); /* not the buffers */

/* ---- executors: where work runs ---- */

/* A source to compile, and what of it is called. */
typedef struct gs_build {
    const char *name, *text; /* the .cu: what errors call it, and its bytes */
    size_t size;
    const char *const *kernels; /* names, with template arguments where they have some: "reduce<256>" */
    size_t kernel_count;
    const char *const *options; /* more for the compiler: "-DTILE=16" */
    size_t option_count;
    bool address_sanitizer; /* on the CPU: accesses out of bounds are found */
    bool as_library;        /* on the CPU: a shared library with gs_host_launch, and no program */
    uint32_t max_registers; /* on a GPU: of a thread; 0: as many as the compiler likes */
} gs_build;

/* What a compiled kernel costs. */
typedef struct gs_cost {
    int32_t registers, local_bytes, shared_bytes; /* of a thread, of a thread, of a block (static) */
    int32_t spill_stores, spill_loads;            /* bytes */
    int32_t blocks_per_sm, sms;                   /* how many fit at once; 0: not known */
} gs_cost;

typedef struct gs_executor gs_executor;

typedef struct gs_executor_ops {
    const char *name;
    /* Starts compiling; mistakes may show when it is run. The module that is returned goes with the executor. */
    void *(*compile)(gs_executor *executor, const gs_build *build, gs_error *error);
    gs_code (*run)(void *module, gs_work *work, gs_error *error);
    /* What a kernel of it costs, launched with such blocks. All zero where nobody knows. */
    gs_code (*cost)(void *module, const char *kernel, const uint32_t block[3], size_t shared_bytes, gs_cost *cost,
                    gs_error *error);
    void (*close)(gs_executor *executor);
} gs_executor_ops;

struct gs_executor {
    const gs_executor_ops *ops;
    void *inside;
};

void gs_executor_close(gs_executor *executor);

/* A GPU, or a part of one, as an executor; `rest` is what stands after "cuda:", or "". */
gs_executor *gs_executor_cuda(const char *rest, gs_error *error);

/* What NVRTC made of a source. */
typedef struct gs_nvrtc_built {
    char *image; /* for the driver to load */
    size_t bytes;
    char **symbols; /* of each kernel of the build, the name that the driver knows it by */
    gs_cost *costs; /* of each; blocks_per_sm is 0 */
    size_t count;
} gs_nvrtc_built;

/* Compiles with NVRTC for an architecture, as below, and keeps the result. The caller frees it. */
gs_code gs_nvrtc_build(const gs_build *build, int architecture, gs_nvrtc_built *built, gs_error *error);
void gs_nvrtc_built_free(gs_nvrtc_built *built);

/* Compiles with NVRTC for an architecture (90: compute capability 9.0), which needs no GPU, and throws the result away.
   GS_E_KERNEL: the compiler found a mistake; GS_E_NO_GPU: there is no NVRTC. The costs of `build->kernels` go into
   `costs`, where that is not NULL; blocks_per_sm stays 0. */
gs_code gs_nvrtc_try(const gs_build *build, int architecture, gs_cost *costs, gs_error *error);

/* ---- feeds: kernels that are not waited for, as an ordinary program launches them on a stream ---- */

typedef struct gs_feed gs_feed;

/* One launch. An argument that is a buffer is the address of that buffer in `buffers`. */
typedef struct gs_feed_call {
    uintptr_t module;
    uint32_t kernel; /* number in its build */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    const gs_job_argument *arguments;
    uint32_t argument_count;
    const uint64_t *buffers;
} gs_feed_call;

/* What an application does with a GPU. What is asked for happens in order; only what says "waits" waits. A kernel that
   failed shows at a later call. All that was allocated and loaded goes with the stream. */
typedef struct gs_feed_ops {
    const char *name;
    gs_code (*enter)(gs_feed *stream, gs_error *error); /* this thread uses it from now on; no other may */
    gs_code (*allocate)(gs_feed *stream, size_t bytes, uint64_t *address, gs_error *error); /* zeros; waits */
    gs_code (*copy_in)(gs_feed *stream, uint64_t to, const void *from, size_t bytes, gs_error *error); /* waits */
    gs_code (*copy_out)(gs_feed *stream, void *to, uint64_t from, size_t bytes, gs_error *error);      /* waits */
    gs_code (*load)(gs_feed *stream, const gs_build *build, uintptr_t *module, gs_error *error);       /* waits */
    gs_code (*launch)(gs_feed *stream, const gs_feed_call *call, gs_error *error);
    gs_code (*wait)(gs_feed *stream, gs_error *error); /* waits until all of it has happened */
    void (*close)(gs_feed *stream);
} gs_feed_ops;

struct gs_feed {
    const gs_feed_ops *ops;
    void *inside;
};

/* A stream of a GPU, or of a part of one; `rest` is what stands after "cuda:", or "". */
gs_feed *gs_feed_cuda(const char *rest, gs_error *error);
void gs_feed_close(gs_feed *stream);

#endif
