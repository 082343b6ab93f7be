/*
 * timed.h: kernels whose warps report when they start and end, by the clock of their SM.
 */
#ifndef GS_TIMED_H
#define GS_TIMED_H

#include "device.h"
#include "kernels/cuda/cuda.h"

/* The arguments of a timed kernel, whose source has the same struct. All pointers are addresses of the device. */
typedef struct timed_arguments {
    cu_pointer sm;         /* a uint32 for each block: its SM plus 1, in host memory */
    cu_pointer start, end; /* a uint64 for each warp: the clock of its SM, in host memory */
    cu_pointer arrived;    /* a uint32 for each barrier of all blocks, and others, in device memory, 0 at first */
    cu_pointer go;         /* a uint64 for each round and SM: the clock at which its warps start, 0 at first */
    uint32_t blocks, sms;
    uint32_t one, zero; /* 1 and 0, which the compiler must not know */
    cu_pointer data;    /* memory for loads and stores of classes; else 0 */
    uint32_t data_mask; /* its units of 32 bytes, which are a power of 2, minus 1 */
    uint32_t rate;      /* as in gs_timing_request, like the next three */
    uint32_t singles, is_together, is_beside;
    uint32_t few; /* warps of a block that are timed */
} timed_arguments;

typedef struct timed_kernel {
    gs_timed_body body;
    int32_t count;
    cu_kernel kernel;
} timed_kernel;

/* All timed kernels, compiled together when the first is requested. */
typedef struct gs_timed {
    gs_modules modules;
    cu_pointer memory; /* of `arrived` and `go` */
    cu_pointer data;   /* of classes */
    uint32_t data_mask;
    cu_stream beside[2]; /* for launches beside others, and for the others; made when they are first needed */
    struct {
        timed_kernel *data;
        size_t count, capacity;
    } kernels;
} gs_timed;

/* The layout of the device memory: `arrived` first, then `go`. */
enum { TIMED_ROUNDS = 2, TIMED_GO_OFFSET = 64, TIMED_MOST_SMS = 1024, TIMED_BYTES = 64 + 2 * 1024 * 8 };
/* The large memory is accessed in units of this size, in bytes. */
enum { TIMED_UNIT_BYTES = 32 };
/* Behind the large memory: lanes beside each other may begin at its end. */
enum { TIMED_NEAR_BYTES = 544 };

/* `has_classes`: the kernels of timed_classes.c, instead of those of timed.c. */
gs_code gs_timed_open(gs_timed *timed, const cu_api *api, int architecture, bool has_classes, gs_error *error);
void gs_timed_close(gs_timed *timed, const cu_api *api);

/* The kernel with this body, or NULL. */
timed_kernel *gs_timed_find(const gs_timed *timed, gs_timed_body body, int32_t count);

/* For timed.c: the source of the kernels of classes, and their list. */
void gs_timed_class_source(gs_text *source);
gs_code gs_timed_list_classes(gs_timed *timed, int architecture, gs_error *error);

#endif
