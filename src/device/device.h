/*
 * device.h: where a run can be played. One table of functions, three sources:
 *
 *   cuda      a real GPU, through src/cuda (cuda_device.c)
 *   replay    recordings: a run that was recorded gives what was seen then (sources.c)
 *   model     the engine posing as a GPU, with chosen mechanisms and a planted quirk (sources.c)
 *
 * Whoever plays runs on a device cannot tell them apart.
 */
#ifndef GS_DEVICE_H
#define GS_DEVICE_H

#include "sched/sched.h"

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
typedef struct gs_timing_request {
    gs_timed_body body;
    int32_t count;
    int64_t blocks; /* all of which must fit on the GPU together */
    int32_t warps;  /* of a block */
} gs_timing_request;

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
    gs_run *(*play)(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error);
    void (*close)(gs_device *device);
    gs_code (*time)(gs_device *device, const gs_timing_request *request, gs_timing *timing,
                    gs_error *error); /* or NULL */
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

/* Plays the launches and exits of `run` and returns a recording: the same run with what was seen, and an observation
   of each waiting kernel that an exit let in. The caller frees it. */
gs_run *gs_device_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error);

/* Runs a timed kernel. Without blocks nothing runs, and `timing` has the shape of the kernel. GS_E_USAGE: the device is
   no GPU. */
gs_code gs_device_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error);

/* What random runs may ask of a GPU, and of this device. `largest_cluster` 1: no clusters. */
gs_bounds gs_bounds_of(const gs_gpu *gpu, int32_t largest_cluster);
gs_bounds gs_device_bounds(const gs_device *device);

/* ---- for the sources of devices ---- */

/* A device without clusters. Owns `gpu` and `inside`, but not where it fails. */
gs_device *gs_device_new(const gs_device_ops *ops, gs_gpu *gpu, void *inside, gs_error *error);

/* For gs_device_open: `rest` is what stands after the colon, or "". */
gs_device *gs_device_open_cuda(const char *rest, gs_error *error);
gs_device *gs_device_open_replay(const char *rest, gs_error *error);
gs_device *gs_device_open_model(const char *rest, gs_error *error);

#endif
