/*
 * fake.h: a CUDA driver and a run-time compiler that need no GPU, for tests.
 *
 *   compiler.c      libnvrtc.so.13: finds the kernels in a source and lists them in an "image"
 *   driver.c        libcuda.so.1: the calls of the driver, their checks and their errors
 *   gpu.c           the GPU behind it: places blocks with the dispatcher of src/model/engine, and plays the probe kernel
 *   green.c         green contexts; a driver built without them is older than CUDA 12.4
 *   graph.c         CUDA graphs
 *   timed.c         the SMs of the GPU: timed kernels, cycle by cycle
 *   library.c       any other kernel: runs on the CPU
 *   stream_queue.c  the queue of a stream: such kernels, copies, words
 *
 * GRIDSMITH_FAKE is a list of words, separated by commas. The GPU is `small` (the default; small.json, which is not
 * built in) or `h200`. Its behavior:
 *
 *   init-fails     the driver does not start            no-device      it starts, and finds no GPU
 *   compile-fails  a kernel does not compile            coarse         registers are allocated in sixteens
 *   launch-fails   the third launch is refused          blocks-host    growing local memory blocks the launch call
 *   late           blocks start up to 100 us late       stuck          no kernel ever ends
 *   torn           the report of a block arrives in two parts
 *   slows-down     programs take longer than the sum of their instructions
 *   three-gpus     there are three, unless CUDA_VISIBLE_DEVICES is the number of one; its number is in the UUID
 */
#ifndef GS_FAKE_H
#define GS_FAKE_H

#include "lab/device/probe.h"
#include "lab/device/timed.h"
#include "model/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

static inline bool fake_has(const char *word) {
    const char *at = getenv("GRIDSMITH_FAKE");
    size_t length = strlen(word);
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

/* The image that the compiler writes and the driver loads: this line, then a line for each kernel, "timed NUMBER BODY
   COUNT". The probe kernel is PTX, which the driver reads itself. */
#define FAKE_IMAGE "fake image\n"

/* For other kernels: this line, the number of bytes that follow, and a shared library of src/kernels/cpu/runtime/gridsmith_run.c with the
   kernels, which run on the CPU. */
#define FAKE_LIBRARY "fake library\n"

/* The driver has exactly the functions in the table of symbols of src/kernels/cuda. */
#define FAKE_CALL(name, symbol, arguments) __attribute__((visibility("default"))) int symbol arguments;

/* ---- the GPU ---- */

typedef struct fake_gpu fake_gpu;

/* A launch as a node of a graph: it waits for the nodes `after`, whose ids count from `first_id`, and for no stream. */
typedef struct fake_node {
    bool is_node;
    uint64_t id, first_id, after;
} fake_node;

/* The first of `count` new ids of launches. */
uint64_t fake_gpu_next_id(size_t count);

/* Launches a node of a graph. Returns an error of the driver. */
int fake_launch_node(const cu_launch *call, cu_function function, const probe_arguments *arguments,
                          const fake_node *node);

/* Whether the launch is captured into a graph, instead of being launched. NULL: nothing was ever captured. */
extern bool (*fake_capture)(const cu_launch *call, cu_function function, const void *arguments);

/* A launch that the driver sends to the GPU. */
typedef struct fake_launch {
    probe_arguments arguments;
    gs_shape shape;
    int64_t blocks;
    int urgency; /* launches with a higher urgency go first */
    cu_stream stream;
    bool is_cooperative;  /* it starts as a whole */
    bool is_programmatic; /* it starts when all blocks of the launch before it in its stream have */
    fake_node node;
} fake_launch;

/* An idle GPU with a thread of its own. Keeps `description`, which must outlive it. NULL: out of memory. */
fake_gpu *fake_gpu_new(const gs_gpu *description);
void fake_gpu_free(fake_gpu *gpu);

/* False: no SM can ever take a block of the kernel. */
bool fake_gpu_launch(fake_gpu *gpu, const fake_launch *launch);

/* Waits until nothing runs or waits, and resets the GPU. */
void fake_gpu_synchronize(fake_gpu *gpu);
bool fake_gpu_is_idle(fake_gpu *gpu, cu_stream stream);

/* Runs a timed kernel to its end. False: its blocks do not fit on the GPU together. */
bool fake_time(const gs_gpu *description, int body, int count, const cu_launch *call,
                    const timed_arguments *arguments);
/* A shared library of kernels, from an image. NULL: it cannot be loaded. */
typedef struct fake_library fake_library;
fake_library *fake_library_load(const void *image);
fake_library *fake_library_compile(const char *ptx);
void fake_library_free(fake_library *library);
int fake_library_find(const fake_library *library, const char *kernel); /* -1: not found */

uint32_t fake_library_sizes(const fake_library *library, int kernel, const unsigned **sizes);
/* Runs one of its kernels to its end. */
void fake_library_launch(const fake_library *library, int kernel, const cu_launch *call, uint32_t sms,
                              void **arguments);

/* ---- streams ---- */

typedef struct fake_queue fake_queue;

/* An operation of a stream. */
typedef struct fake_step {
    enum { FAKE_KERNEL, FAKE_COPY, FAKE_SET, FAKE_WRITE } kind;
    const fake_library *library; /* of a kernel, else NULL */
    int kernel;
    bool is_fault;
    cu_launch call;
    uint32_t sms;
    void *to;
    const void *from;
    size_t bytes;
    uint32_t value;
} fake_step;

fake_queue *fake_queue_new(void);
void fake_queue_free(fake_queue *queue); /* waits until the queue is empty */
void fake_queue_add(fake_queue *queue, const fake_step *step, void **arguments); /* copied */
bool fake_queue_is_idle(fake_queue *queue);
void fake_queue_wait(fake_queue *queue); /* until it is idle, or the context is broken */
bool fake_is_broken(void);

/* Whether this is the context of the GPU, or a green one: the GPU's address and the number of a part. */
static inline bool fake_is_context(cu_context context, const fake_gpu *gpu) {
    enum { MOST_PARTS = 64 };
    return gpu && (uintptr_t)context - (uintptr_t)gpu <= MOST_PARTS;
}

/* Drops everything that runs or waits, before the memory that it writes to is freed. */
void fake_gpu_forget(fake_gpu *gpu);

#endif
