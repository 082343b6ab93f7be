/*
 * pretended.h: a CUDA driver and a run-time compiler that need no GPU, for the tests of src/device/cuda.c.
 *
 *   compiler.c   libnvrtc.so.13: finds the kernels in a source and lists them in an "image"
 *   driver.c     libcuda.so.1: the calls of the driver, their checks and their errors
 *   gpu.c        the GPU behind it: places blocks with Gridsmith's dispatcher, and plays the probe kernel
 *   timed.c      its SMs: what warps of a timed kernel take, cycle by cycle
 *   library.c    any other kernel: runs on the CPU
 *   line.c       what a stream does one after the other: such kernels, copies, words
 *
 * GRIDSMITH_FAKE says what is pretended, in words with commas between them. Which GPU: `small` (the default;
 * small.json, which is not built in) or `h200`. How it behaves:
 *
 *   init-fails     the driver does not start            no-device      it starts, and sees no GPU
 *   compile-fails  the compiler finds a mistake         coarse         registers come in sixteens
 *   launch-fails   the third launch is refused          blocks-host    growing local memory blocks the launch call
 *   late           blocks start up to 100 us late       stuck          no kernel ever ends
 *   slows-down     programs take longer than what their instructions take by themselves
 */
#ifndef GS_PRETENDED_H
#define GS_PRETENDED_H

#include "device/probe.h"
#include "device/timed.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

static inline bool is_pretended(const char *word) {
    const char *at = getenv("GRIDSMITH_FAKE");
    size_t length = strlen(word);
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

/* What the compiler writes and the driver loads: this line, then a line for each kernel: "probe NUMBER LIVE LOCAL",
   or "timed NUMBER BODY COUNT". */
#define PRETENDED_IMAGE "pretended image\n"

/* Or, for other kernels: this line, how many bytes follow, and a shared library of host/gridsmith_run.c with the
   kernels, which run on the CPU. */
#define PRETENDED_LIBRARY "pretended library\n"

/* The driver's functions are those that our table of symbols names, and no others. */
#define PRETENDED_CALL(name, symbol, arguments) __attribute__((visibility("default"))) int symbol arguments;

/* ---- the GPU ---- */

typedef struct pretended_gpu pretended_gpu;

/* A launch as the driver hands it to the GPU. */
typedef struct pretended_launch {
    probe_arguments told;
    gs_shape shape;
    int64_t blocks;
    int urgency; /* the higher, the earlier */
    cu_stream stream;
} pretended_launch;

/* An idle GPU with its own thread; keeps `description`, which must outlive it. NULL: out of memory. */
pretended_gpu *pretended_gpu_new(const gs_gpu *description);
void pretended_gpu_free(pretended_gpu *gpu);

/* False: no SM can ever take a block of it. */
bool pretended_gpu_launch(pretended_gpu *gpu, const pretended_launch *launch);

/* Waits until nothing runs or waits, and makes the GPU as good as new. */
void pretended_gpu_synchronize(pretended_gpu *gpu);
bool pretended_gpu_is_idle(pretended_gpu *gpu, cu_stream stream);

/* Runs a timed kernel to its end. False: its blocks do not fit on the GPU together. */
bool pretended_time(const gs_gpu *description, int body, int count, const cu_launch *call, const timed_arguments *told);
/* A shared library of kernels, from an image. NULL: it cannot be loaded. */
typedef struct pretended_library pretended_library;
pretended_library *pretended_library_load(const void *image);
void pretended_library_free(pretended_library *library);
int pretended_library_find(const pretended_library *library, const char *kernel); /* -1: there is none */

uint32_t pretended_library_sizes(const pretended_library *library, int kernel, const unsigned **sizes);
/* Runs one of its kernels, and returns when that has ended. */
void pretended_library_launch(const pretended_library *library, int kernel, const cu_launch *call, uint32_t sms,
                              void **arguments);

/* ---- streams ---- */

typedef struct pretended_line pretended_line;

/* One thing of a stream. */
typedef struct pretended_step {
    enum { PRETENDED_KERNEL, PRETENDED_COPY, PRETENDED_SET, PRETENDED_WRITE } kind;
    const pretended_library *library; /* of a kernel, else NULL */
    int kernel;
    bool is_fault;
    cu_launch call;
    uint32_t sms;
    void *to;
    const void *from;
    size_t bytes;
    uint32_t value;
} pretended_step;

pretended_line *pretended_line_new(void);
void pretended_line_free(pretended_line *line); /* waits until all is done */
void pretended_line_add(pretended_line *line, const pretended_step *step, void **arguments); /* which are copied */
bool pretended_line_is_idle(pretended_line *line);
void pretended_line_wait(pretended_line *line); /* until it is idle, or the context is broken */
bool pretended_is_broken(void);

/* Drops all that runs or waits: the memory that it writes to is about to go. */
void pretended_gpu_forget(pretended_gpu *gpu);

#endif
