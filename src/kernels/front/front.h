/*
 * front.h: a libcuda.so.1 that stands between a program and the driver.
 *
 * It exports every function of the driver as a jump through a table. Most entries are the driver's own functions. A
 * library that uses this room replaces some entries by its own functions, the hooks. `gridsmith run` uses it
 * (src/sharing/gate), `gridsmith trace` where there is no CUPTI (src/lab/record), and `gridsmith watch`
 * (src/lab/watch).
 *
 *   driver_symbols.txt   the exports of the driver; front.cmake makes the jumps from them
 *   front_driver.c       finds and opens the real driver
 *   front_hooks.c        finds the hook of a function, also for cuGetProcAddress
 *   front_place.c        puts a folder with such a library in front, for the programs that are started afterwards
 *   front_table.c        the table of the jumps, filled when the library is loaded
 *
 * The room needs the C library alone. It has state of its own because the driver's interface has no handle for one.
 */
#ifndef GS_FRONT_H
#define GS_FRONT_H

#include <stdbool.h>
#include <stddef.h>

typedef void gs_front_function(void); /* any function of the driver */

enum {
    GS_CUDA_OK = 0,
    GS_CUDA_OUT_OF_MEMORY = 2,
    GS_CUDA_NO_DEVICE = 100,
    GS_CUDA_NOT_FOUND = 500,
    GS_CUDA_NOT_READY = 600
};

/* CUlaunchConfig. */
typedef struct gs_launch_config {
    unsigned shape[6], shared_bytes; /* of the grid and of the block */
    void *stream;
    const char *attributes;
    unsigned attribute_count;
} gs_launch_config;

/* CUDA_KERNEL_NODE_PARAMS_v2. */
typedef struct gs_kernel_node {
    void *function;
    unsigned shape[6], shared_bytes;
    void *values, *extra, *kernel, *context;
} gs_kernel_node;

/* `gridsmith run`, `gridsmith trace` and `gridsmith watch` look for the driver as the system does, before this library
   is in front, and put its path here. */
#define GS_FRONT_DRIVER "GRIDSMITH_DRIVER"

/* ---- front_driver.c ---- */

/* Opens the driver. False: not found. */
bool gs_front_driver_open(void);
void *gs_front_driver_handle(void);                          /* as dlopen returned it; NULL: not found */
gs_front_function *gs_front_driver_symbol(const char *name); /* NULL: the driver does not have it */

/* ---- front_place.c: for the program, not for the library ---- */

/* Finds the first of these places, relative to the folder of the program, that has a libcuda.so.1. False: none has. */
bool gs_front_find(const char *const *places, size_t count, char *folder, size_t size);
/* Changes the environment so that programs find the libcuda.so.1 in this folder. False: out of memory. */
bool gs_front_place(const char *folder);

/* ---- front_hooks.c ---- */

/* Puts a function of the driver, or NULL, into the function pointer at `function`. */
void gs_front_find_real(const char *name, void *function);

/* A function that replaces one of the driver. */
typedef struct gs_front_hook {
    const char *name;
    gs_front_function *hook;
    void *real; /* the address of the pointer to the driver's function, which is set before gs_front_ready */
    void *note; /* what the library keeps for each hook */
    int kind;
} gs_front_hook;

/* ---- what a library using this room defines ---- */

/* cuGetProcAddress is not among them: it is hooked in any case. */
extern const struct gs_front_hooks {
    const gs_front_hook *list;
    size_t count;
    bool (*is_needed)(const gs_front_hook *hook); /* NULL: all are */
} gs_front_hooks;

/* Called when the library is loaded, after the driver was opened. */
void gs_front_ready(bool has_driver);

#endif
