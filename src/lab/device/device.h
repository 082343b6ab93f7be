/*
 * device.h: where a run can be played. One table of functions, three kinds of devices:
 *
 *   cuda      a real GPU, through src/kernels/cuda (cuda_device.h)
 *   replay    recordings: a run that was recorded returns what was seen then (sources.c)
 *   model     the engine in place of a GPU, with chosen mechanisms, and an SM that is skipped if wanted (sources.c)
 *
 * All of them are used in the same way.
 */
#ifndef GS_DEVICE_H
#define GS_DEVICE_H

#include "model/timeline/timeline.h"

typedef struct gs_device gs_device;

enum { GS_DEVICE_LAUNCHES = 256 }; /* that a run may have */

typedef struct gs_play_options {
    const gs_run *expected; /* a prediction, or NULL: no long waits are needed while the device agrees with it */
    bool patient;           /* always wait long before concluding that no more blocks start */
} gs_play_options;

/* ---- timing: how long a warp takes for a given body, by the clock of its SM ---- */

typedef enum gs_timed_body {
    GS_TIMED_NOTHING,  /* the clock is read twice */
    GS_TIMED_COMPUTE,  /* a chain of `count` multiplications; in all chains each needs the result of the one before */
    GS_TIMED_LOAD,     /* a chain of loads from shared memory */
    GS_TIMED_STORE,    /* a chain of stores to shared memory */
    GS_TIMED_PROGRAM,  /* C (L L C)x`count` S */
    GS_TIMED_SUB_BLOCK /* (L L C)x`count` */
} gs_timed_body;

/* ---- timing of classes of instructions (timed_classes.c) ---- */

/* An instruction of a class. Several rows may have the same class. */
typedef struct gs_timed_row {
    const char *class_name; /* NULL: it is not one of a class */
    const char *unit;
    gs_unit_scope scope;
    int32_t transactions; /* of one instruction of a warp */
    int32_t architecture; /* the least, as 90 */
    const char *code;     /* CUDA: a step of a chain */
    const char *start;    /* CUDA: what c.x is at first; NULL: a random number for each thread */
    int32_t instructions; /* of the class, in a step; 0: one */
    bool is_single;       /* chains do not show its latency */
} gs_timed_row;

extern const gs_timed_row gs_timed_rows[];
extern const size_t gs_timed_row_count;

typedef enum gs_timed_kind { GS_TIMED_CHAIN, GS_TIMED_SINGLE, GS_TIMED_COLD, GS_TIMED_LOOP } gs_timed_kind;

enum {
    GS_TIMED_EMPTY = 14, /* blocks that end at once; any number of them */
    GS_TIMED_LAUNCHES = 500,
    GS_TIMED_BUSY = 1,   /* `count` of GS_TIMED_EMPTY: on half of the SMs, while kernels on the others use the memory */
    GS_TIMED_CLOCK = 15, /* a hundredth of a second by the clock of the GPU */
    GS_TIMED_CLASSES = 16,
    GS_TIMED_SINGLES = 64,
    GS_TIMED_BARE_ROW = 40, /* no class: what is around an access when it is timed by itself */
    GS_TIMED_CODE_ROW = 41, /* the row that fills caches with code */
    GS_TIMED_CODE_INSTRUCTIONS = 4,
    GS_TIMED_INSTRUCTION_BYTES = 16,
    GS_TIMED_CODES = 11,
    GS_TIMED_CROWDED_CODES = 8, /* of them, the first: as large as code that jumps, which many warps execute */
    GS_TIMED_LARGE_CODE = 6,    /* of them, the first that one warp executes */
    GS_TIMED_JUMP_ROW = 42,     /* a test, and a jump over three lines of code; no class */
    GS_TIMED_JUMP_BYTES = 512,  /* of a step */
    GS_TIMED_CONSTANT_ROW = 15,
    GS_TIMED_CONSTANT_LINE = 64 /* bytes */
};
extern const int32_t gs_timed_code_counts[GS_TIMED_CODES];
/* The steps of GS_TIMED_JUMP_ROW that have as many bytes as code of that number. */
int32_t gs_timed_jump_count(int code);

/* The body of a row: `count` is 32 or 64 for chains, GS_TIMED_SINGLES for single ones, and one of gs_timed_code_counts
   for chains and cold ones of GS_TIMED_CODE_ROW; of GS_TIMED_JUMP_ROW, as many as have the same bytes; a loop of
   GS_TIMED_CODE_ROW has 64 rounds, a cold one of GS_TIMED_CONSTANT_ROW 64. */
static inline int32_t gs_timed_class_body(size_t row, gs_timed_kind kind) {
    return GS_TIMED_CLASSES + 4 * (int32_t)row + (int32_t)kind;
}

enum { GS_TIMED_REPEATS = 24, GS_TIMED_MOST_WARPS = 64 };

/* `count` is 0 for GS_TIMED_NOTHING, 32 or 64 for chains and sub-blocks, and 1 to GS_TIMED_REPEATS for programs. */
typedef struct gs_timing_request {
    gs_timed_body body;
    int32_t count;
    int64_t blocks; /* all must fit on the GPU together, except of GS_TIMED_EMPTY */
    int32_t warps;  /* of a block */
    /* of classes: */
    int64_t data_bytes; /* of the memory that they use, a power of 2; 0: as much as there is */
    int32_t singles;    /* of GS_TIMED_SINGLE: how many; 0: GS_TIMED_SINGLES */
    int32_t rate;       /* of GS_TIMED_SINGLE: `cycles` is the most beyond `rate` cycles for each of some in a row */
    int32_t few;        /* of GS_TIMED_SINGLE: how many warps of a block are timed, while the others wait; 0: all */
    bool is_together;   /* of GS_TIMED_SINGLE: one takes until all timed warps of the block have done theirs */
    bool is_beside;     /* blocks on every second TPC read at random places instead, while the others are timed; */
    bool is_writing;    /* or write there */
    bool is_of_sm;      /* times are those of SMs: from the start of the first warp to the end of the last */
} gs_timing_request;

typedef struct gs_timing {
    gs_shape shape;     /* of the kernel */
    int64_t cycles;     /* the longest time of any warp, or SM, from its start to its end */
    int64_t shortest;   /* the shortest */
    int64_t skew;       /* the longest time between the first and the last start on one SM */
    int32_t most_on_sm; /* the most blocks on one SM */
    int32_t sms;        /* that had blocks */
    int64_t ns;         /* of GS_TIMED_EMPTY: the longest of GS_TIMED_LAUNCHES launches */
    int64_t least_ns;   /* and the shortest */
} gs_timing;

/* A kind of device. */
typedef struct gs_device_ops {
    const char *name;
    gs_run *(*play)(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error);
    void (*close)(gs_device *device);
    gs_code (*time)(gs_device *device, const gs_timing_request *request, gs_timing *timing,
                    gs_error *error);                     /* NULL: not a real GPU */
    gs_code (*split)(gs_device *device, gs_error *error); /* NULL: it has no green contexts */
} gs_device_ops;

struct gs_device {
    const gs_device_ops *ops;
    gs_gpu *gpu;                /* its description: the limits, and the mechanisms as far as they are known */
    int32_t clusters;           /* the largest cluster it can launch; 1: none */
    char uuid[48];              /* of a real GPU, as nvidia-smi prints it, or "" */
    char driver[24];            /* the CUDA version of its driver, or "" */
    gs_green_contexts contexts; /* see gs_device_split */
    int32_t connections;        /* of this program to a real GPU; 0: as many as a run says */
    void *inside;               /* private to the kind of device */
};

/* Opens a device:
     cuda[:N[,sms=M[,part=P]]]              GPU number N (default 0); only M of its SMs, the first or the Pth such part
     replay:FILE                            recordings
     model:GPU[,MECHANISM=VALUE]...[,skip=SM]  the engine; `skip`: that SM never gets a block
   The caller closes it. */
gs_device *gs_device_open(const char *name, gs_error *error);
void gs_device_close(gs_device *device);

/* Plays the launches and exits of `run` and returns a recording: the same run with what was seen, and an observation of
   each waiting kernel of which blocks started at an exit. The caller frees it. */
gs_run *gs_device_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error);

/* Runs a timed kernel. With 0 blocks it does not run, but `timing` gets the shape of the kernel. GS_E_USAGE: the device
   is not a real GPU. */
gs_code gs_device_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error);

/* Makes green contexts, in which the launches of a run can be, unless the device has them already: `contexts` says
   which SMs they have. GS_E_USAGE: the device cannot. */
gs_code gs_device_split(gs_device *device, gs_error *error);

/* The limits of random runs on a GPU, and on this device. `largest_cluster` 1: no clusters. */
gs_bounds gs_bounds_of(const gs_gpu *gpu, int32_t largest_cluster);
gs_bounds gs_device_bounds(const gs_device *device);

/* ---- for the kinds of devices ---- */

/* A device without clusters. Takes ownership of `gpu` and `inside`, unless it fails. */
gs_device *gs_device_new(const gs_device_ops *ops, gs_gpu *gpu, void *inside, gs_error *error);

/* For gs_device_open: `rest` is the part of the name after the colon, or "". */
gs_device *gs_device_open_cuda(const char *rest, gs_error *error);
gs_device *gs_device_open_replay(const char *rest, gs_error *error);
gs_device *gs_device_open_model(const char *rest, gs_error *error);

#endif
