/*
 * worker_device.h: what a device can do for the loop of the device process: one table of functions, two devices
 * (engine_host.c, engine_cuda.c). For this room alone.
 *
 * Work goes to lanes. What is given to one lane happens in order, lanes do not wait for each other; a lane counts what
 * was given and what is done. Functions that say "slow" may take long and are called from other threads than the rest,
 * one at a time each for memory and for modules; no other function ever waits for a kernel.
 */
#ifndef GS_WORKER_DEVICE_H
#define GS_WORKER_DEVICE_H

#include "worker_wire.h"

typedef struct gs_lane {
    struct gs_lane *next; /* in the list of those that nobody uses */
    uint32_t given;
    _Atomic uint32_t *done; /* counts after `given`; both go around */
    bool is_unreported;     /* `done` will not count up to `given`, but for later work */
    uint64_t counter;       /* address of the queue of walked launches; 0: this device launches the original instead */
} gs_lane;

/* The queue of a confined run, where workers find it. */
typedef struct gs_control {
    uint64_t next, mask; /* addresses for the kernel */
} gs_control;

/* A kernel of a module. */
typedef struct gs_loaded_kernel {
    bool can_be_confined;
    uint32_t parameters; /* of the original */
    uint32_t sizes[GS_WORKER_ARGUMENTS];
    void *inside;
} gs_loaded_kernel;

typedef struct gs_loaded {
    size_t kernel_count;
    gs_loaded_kernel *kernels;
} gs_loaded;

typedef struct gs_device_launch {
    const gs_loaded_kernel *kernel;
    uint64_t tag;     /* whose it is, should it fault */
    uint32_t grid[3]; /* of the original */
    uint32_t block[3];
    uint64_t shared_bytes;
    void **arguments;    /* pointers to values, which the device copies; of a confined kernel with the last one */
    gs_control *control; /* NULL: it is not confined */
    bool is_block_loop;  /* the confined form on all SMs, with the lane's counter, which is 0 */
    bool defer_report;   /* more work comes at once: the lane may leave it unreported */
    uint64_t blocks;
    uint32_t sms; /* confined: so many are allowed */
} gs_device_launch;

typedef struct gs_worker_loop gs_worker_loop; /* the device process */

typedef struct gs_device_kind {
    /* Opens the device and says what it is. */
    void *(*open)(gs_worker_loop *loop, const gs_worker_options *options, gs_worker_facts *facts, gs_error *error);
    void (*enter_thread)(void *device); /* of those that call slow functions */
    bool rings;                         /* whether the bell of the process rings when something is done */

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
    /* GS_E_NO_FIT: such a block never fits on an SM. A confined kernel gets as many workers as the device can hold;
       fewer where there are not that many blocks, so that they spread over the SMs. */
    gs_code (*launch)(void *device, gs_lane *lane, const gs_device_launch *launch, gs_error *error);

    gs_control *(*control_new)(void *device); /* NULL: out of memory */
    void (*control_free)(void *device, gs_control *control);
    gs_code (*control_begin)(void *device, gs_control *control, uint64_t next, const uint32_t *mask, gs_error *error);
    gs_code (*control_confine)(void *device, gs_control *control, const uint32_t *mask, gs_error *error);
    /* The first block that nobody has taken: as of now, about; or exactly, once all launches are done. */
    uint64_t (*control_next)(void *device, gs_control *control, bool exactly);
    /* Bytes of the device, while nothing uses them; for marks. */
    gs_code (*read)(void *device, void *into, uint64_t address, uint64_t bytes, gs_error *error);

    /* Whether the device is still of use. Called now and then, and after failures. */
    gs_code (*check)(void *device, gs_error *error);
} gs_device_kind;

extern const gs_device_kind gs_device_kind_host, gs_device_kind_cuda;

/* Wakes the loop; for threads of the device. */
void gs_loop_ring(gs_worker_loop *loop);
/* The device is of no use any more: leaves a note for the daemon and ends the process. May be called by any thread and
   by signal handlers. The first note is kept. */
void gs_loop_give_up(gs_worker_loop *loop, gs_code code, uint64_t tag, const char *words) __attribute__((noreturn));

#endif
