/*
 * backend.h: the interface of a device: one table of functions, two devices (host_backend.c, cuda_backend.c). Private
 * to this room.
 *
 * Operations go to lanes. A lane is a stream of the device: operations of one lane run in order, lanes do not wait for
 * each other, and a lane counts the operations given and done. Functions marked "slow" may take long; they are not
 * called by the loop's thread, but by one thread for memory and one for modules. No other function ever waits for a
 * kernel.
 */
#ifndef GS_WORKER_BACKEND_H
#define GS_WORKER_BACKEND_H

#include "worker_wire.h"

enum { GS_LANE_FAILURES = 512 }; /* more than a lane can have in flight */

typedef struct gs_lane {
    struct gs_lane *next; /* in the list of free lanes */
    uint32_t given;
    _Atomic uint32_t *done; /* follows `given`; both wrap around */
    bool is_unreported;     /* `done` will reach `given` only after further work is given */
    uint64_t counter;       /* the address of the block loop's counter; 0: this device launches the original instead */
    _Atomic uint64_t failed[GS_LANE_FAILURES / 64]; /* bit N % GS_LANE_FAILURES: work N failed; set before `done` */
} gs_lane;

/* Whether the work that was given number `number` is done. */
bool gs_lane_is_done(const gs_lane *lane, uint32_t number);

/* A kernel of a module. */
typedef struct gs_loaded_kernel {
    gs_product product; /* with rows: it is this product */
    bool can_be_confined;
    uint32_t parameters; /* of the original */
    uint32_t sizes[GS_WORKER_PARAMETERS];
    gs_worker_cost cost; /* of the confined form */
    void *inside;
} gs_loaded_kernel;

typedef struct gs_loaded {
    size_t kernel_count;
    gs_loaded_kernel *kernels;
} gs_loaded;

typedef struct gs_worker_loop gs_worker_loop; /* the process */

typedef struct gs_backend {
    /* Opens the device and fills in its facts. */
    void *(*open)(gs_worker_loop *loop, const gs_worker_options *options, gs_worker_facts *facts, gs_error *error);
    void (*enter_thread)(void *device); /* each thread that calls slow functions calls it first */
    bool rings;                         /* whether it rings the bell of the process when an operation is done */

    /* slow; memory. Allocated memory is zero. */
    gs_code (*allocate)(void *device, uint64_t bytes, uint64_t *address, gs_error *error);
    void (*free)(void *device, uint64_t address, uint64_t bytes);
    gs_code (*map)(void *device, int fd, uint64_t bytes, void **pointer, gs_error *error);
    void (*unmap)(void *device, void *pointer, uint64_t bytes);
    /* slow; modules */
    gs_code (*load)(void *device, const gs_image_file *file, gs_loaded **loaded, gs_error *error);
    void (*unload)(void *device, gs_loaded *loaded);

    gs_lane *(*lane_new)(void *device); /* NULL: out of memory. Lanes are never freed */
    gs_code (*copy)(void *device, gs_lane *lane, bool in, uint64_t address, void *pointer, uint64_t bytes,
                    gs_error *error);
    gs_code (*fill)(void *device, gs_lane *lane, uint64_t address, uint8_t value, uint64_t bytes, gs_error *error);
    /* Launches the original, or, with a control, the confined form on `sms` SMs; or the block loop, which uses the
       counter of the lane. `arguments` are pointers to values, which it copies; the other forms get one more, the last.
       GS_E_NO_FIT: such a block never fits on an SM. The confined form gets as many blocks as fill the device, or fewer
       if the grid has fewer, so that they spread over the SMs. */
    gs_code (*launch)(void *device, gs_lane *lane, const gs_loaded_kernel *kernel, const gs_worker_launch *launch,
                      void **arguments, gs_control *control, uint32_t sms, gs_error *error);

    /* The control of a confined launch; it has a counter and a mask. */
    gs_control *(*control_new)(void *device); /* NULL: out of memory */
    void (*control_free)(void *device, gs_control *control);
    gs_code (*control_begin)(void *device, gs_control *control, uint64_t next, const uint32_t *mask, gs_error *error);
    gs_code (*control_confine)(void *device, gs_control *control, const uint32_t *mask, gs_error *error);
    /* The first block not yet taken: approximate while launches run, exact once all are done. */
    uint64_t (*control_next)(void *device, gs_control *control, bool exactly);
    /* Reads device memory that nothing uses; for counts of blocks. */
    gs_code (*read)(void *device, void *into, uint64_t address, uint64_t bytes, gs_error *error);

    /* Whether the device still works. Called periodically, and after failures. */
    gs_code (*check)(void *device, gs_error *error);
} gs_backend;

extern const gs_backend gs_backend_host, gs_backend_cuda;

/* Whether a launch runs the block loop on this lane. */
static inline bool gs_lane_loops(const gs_lane *lane, const gs_worker_launch *launch) {
    return launch->form == GS_LAUNCH_BLOCK_LOOP && lane->counter;
}

/* Wakes the loop; for threads of a backend. */
void gs_loop_wake(gs_worker_loop *loop);
/* Where a backend writes how much memory kernels take for themselves. */
_Atomic uint64_t *gs_loop_kernel_bytes(gs_worker_loop *loop);
/* The device has failed: leaves a note for the daemon and ends the process. Any thread and signal handlers may call it.
   The first note is kept. */
void gs_loop_give_up(gs_worker_loop *loop, gs_code code, uint64_t tag, const char *note) __attribute__((noreturn));

#endif
