/*
 * kernel.h: kernels on a GPU: how they are loaded, launched, stopped, continued and waited for. A part of cuda.h.
 *
 *   modules    images that the driver has loaded (kernel.c)
 *   kernels    found in a module: what they cost, and what they must be allowed before a launch (kernel.c)
 *   launches   one call of the driver, plain or with attributes; and waiting for a stream (kernel.c)
 *   controls   the words in memory by which running worker blocks are moved and stopped (control.c)
 *   grids      what worker blocks work through, over one or several launches (control.c)
 *
 * Functions that return an int return the driver's code, 0 for success; gs_cuda_check makes an error of it. After
 * loading, nothing here allocates memory, and the driver is not asked twice for what it has granted. Only
 * gs_cuda_wait_until waits.
 */
#ifndef GS_CUDA_KERNEL_H
#define GS_CUDA_KERNEL_H

#include "driver.h"

#include "gridsmith_job.h"

/* ---- modules ---- */

typedef struct gs_modules {
    cu_module *data;
    size_t count, capacity;
} gs_modules;

/* Loads an image: a cubin, or PTX that ends with a 0. */
int gs_modules_load(gs_modules *modules, const cu_api *api, const void *image);
void gs_modules_unload(gs_modules *modules, const cu_api *api);

/* ---- kernels ---- */

typedef struct cu_kernel {
    cu_function function;       /* NULL: there is none */
    int registers, local_bytes; /* per thread */
    int shared_bytes;           /* per block, without what a launch adds */
    uint32_t form_shared;       /* what each launch of a form adds to the dynamic shared memory: see gs_ptx_form */
    uint64_t most_shared;       /* what a launch may add so far */
    int carveout_percent;       /* as it was last set; INT_MIN: never */
    bool allows_large_clusters; /* of more than CU_PORTABLE_CLUSTER blocks */
    uint32_t fit_threads;       /* the last answer of gs_cuda_kernel_fit, */
    uint64_t fit_shared;        /* for blocks of this size */
    int fit;                    /* 0: none yet */
} cu_kernel;

enum { CU_PORTABLE_CLUSTER = 8 };

/* Finds a kernel by its symbol. */
int gs_cuda_kernel_find(const cu_api *api, cu_module module, const char *symbol, cu_kernel *kernel);
/* It is a form, whose last parameter is a struct of `bytes` bytes. Finds what its launches must add to the dynamic
   shared memory: forms that need nothing have a shorter parameter. Needs CUDA 12.4; without it, they end with a trap.
 */
void gs_cuda_kernel_is_form(const cu_api *api, cu_kernel *kernel, size_t bytes);
/* Allows launches this number of bytes of shared memory, besides those of the kernel itself. */
int gs_cuda_kernel_allow_shared(const cu_api *api, cu_kernel *kernel, uint64_t bytes);
/* Sets how much of an SM's memory is shared memory while the kernel runs. */
int gs_cuda_kernel_carve(const cu_api *api, cu_kernel *kernel, int percent);
/* How many blocks of this size fit on an SM. 0: none, or there is no kernel. */
int gs_cuda_kernel_fit(const cu_api *api, cu_kernel *kernel, uint32_t threads, uint64_t shared_bytes);

/* ---- launches ---- */

typedef struct cu_call {
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;
    cu_stream stream;
    uint32_t cluster; /* blocks, along x; 0 or 1: no clusters */
    int priority;
    bool has_priority; /* without, that of the stream */
    bool is_programmatic, is_cooperative;
} cu_call;

/* Points to the arguments of a call: to values, or to the addresses of buffers. */
void gs_cuda_point(void **pointers, const gs_job_argument *arguments, uint32_t count, const uint64_t *buffers);
/* Launches. `arguments` are pointers to values, which the driver copies. */
int gs_cuda_launch(const cu_api *api, cu_kernel *kernel, const cu_call *call, void **arguments);
/* Polls until a stream has nothing left to do, or failed. CU_ERROR_NOT_READY: it has at `deadline_ns`; 0: none. */
int gs_cuda_wait_until(const cu_api *api, cu_stream stream, int64_t deadline_ns);

/* ---- words that the host and a running kernel share, if both can reach them ---- */

static inline uint32_t gs_shared_word(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void gs_shared_word_set(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- controls: how the blocks of a running kernel are moved and stopped ---- */

enum { GS_CONTROL_LINE = 128 }; /* bytes between words that are used at the same time */

/* What lies in memory. `queue` is for the persistent form, all others for the confined one; gridsmith_job.h says how
   blocks use them. */
typedef struct gs_control_words {
    uint64_t next;
    unsigned char after_next[GS_CONTROL_LINE - sizeof(uint64_t)];
    uint32_t mask[GS_JOB_SMS / 32];
    uint32_t stop;
    unsigned char after_stop[GS_CONTROL_LINE - sizeof(uint32_t)];
    uint64_t queue;
    unsigned char after_queue[GS_CONTROL_LINE - sizeof(uint64_t)];
} gs_control_words;

/* The addresses of these words for the kernel, and the words for the host. Where both are the same memory (`is_mapped`:
   mapped memory of the host, or the CPU plays the GPU), a change is a store. Otherwise `words` is the host's copy, best
   in pinned memory, and a change is a copy to the GPU in the order of a stream, for which these functions do not wait;
   the words must not change before it is done. */
typedef struct gs_control {
    uint64_t next;  /* the counter of the queue */
    uint64_t mask;  /* 0: on all SMs */
    uint64_t stop;  /* 0: only an empty mask stops it */
    uint64_t queue; /* 0: not of the persistent form */
    bool is_mapped;
    gs_control_words *words;
} gs_control;

/* A control whose words are at this address for the kernel. */
gs_control gs_control_at(uint64_t address, gs_control_words *words, bool is_mapped);

/* All words are 0. */
int gs_control_clear(gs_control *control, const cu_api *api, cu_stream stream);
/* Before a launch: `next` blocks are taken, the SMs of `mask` are allowed, and nothing is stopped. */
int gs_control_begin(gs_control *control, uint64_t next, const uint32_t *mask, const cu_api *api, cu_stream stream);
/* Other SMs, while blocks run. Those on other SMs leave after the task at hand; blocks on new SMs must be launched. */
int gs_control_confine(gs_control *control, const uint32_t *mask, const cu_api *api, cu_stream stream);
/* All blocks leave after the task at hand. The stream must have nothing to do: the front end of the GPU writes the
   word, because a memset would be a kernel, and would wait for an SM that the worker blocks hold. */
int gs_control_stop(gs_control *control, const cu_api *api, cu_stream stream);
/* Asks for the counter; gs_control_next returns what came last. */
int gs_control_fetch(gs_control *control, const cu_api *api, cu_stream stream);
uint64_t gs_control_next(const gs_control *control);

/* ---- grids: the last argument of a controlled kernel ---- */

/* That of the confined form, and that of the persistent one. `shared_bytes`: the dynamic shared memory of the original.
   `task_blocks`: blocks taken at a time. `counts`: see gridsmith_job.h. */
gs_confined_parameter gs_control_grid(const gs_control *control, const uint32_t grid[3], uint64_t shared_bytes,
                                      uint32_t task_blocks, uint64_t counts);
gs_persistent_parameter gs_control_persistent(const gs_control *control, const uint32_t grid[3], uint64_t shared_bytes,
                                              uint32_t task_blocks, uint64_t counts);
/* The first launch: each worker block begins with the block of its number, which is not in the queue. */
void gs_grid_give(gs_confined_parameter *grid, uint32_t worker_blocks);
/* A launch has ended, and another one goes on with what is left. */
void gs_grid_continue(gs_confined_parameter *grid);
/* How many blocks of the grid are taken after a launch, if the counter is at `next`; and whether all are. */
uint64_t gs_grid_taken(const gs_confined_parameter *grid, uint64_t next);
bool gs_grid_is_finished(const gs_confined_parameter *grid, uint64_t next);

#endif
