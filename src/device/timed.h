/*
 * timed.h: kernels whose warps say, by the clock of their SM, when they start and when they are done.
 */
#ifndef GS_TIMED_H
#define GS_TIMED_H

#include "cuda/cuda.h"
#include "device.h"

/* What a launch of a timed kernel is told; the kernel's source has the same struct. Pointers are the device's. */
typedef struct timed_arguments {
    cu_pointer sm;         /* uint32 a block: its SM plus 1, in host memory */
    cu_pointer start, end; /* uint64 a warp: its SM's clock, in host memory */
    cu_pointer arrived;    /* uint32 for each meeting of all blocks, in device memory, 0 at first */
    cu_pointer go;         /* uint64 a round and SM: the clock at which all warps of the SM start, 0 at first */
    uint32_t blocks, sms;
    uint32_t one, zero; /* are what they say, which the compiler must not know */
} timed_arguments;

typedef struct timed_kernel {
    gs_timed_body body;
    int32_t count;
    int32_t registers, shared_bytes;
    cu_function function;
} timed_kernel;

/* All timed kernels, compiled together when one is first asked for. */
typedef struct gs_timed {
    cu_module module;
    cu_pointer memory; /* of `arrived` and `go` */
    struct {
        timed_kernel *data;
        size_t count, capacity;
    } kernels;
} gs_timed;

/* Where meetings and start times lie in the device's memory, and how much of it there is. */
enum { TIMED_ROUNDS = 2, TIMED_GO_OFFSET = 64, TIMED_MOST_SMS = 1024, TIMED_BYTES = 64 + 2 * 1024 * 8 };

gs_code gs_timed_open(gs_timed *timed, const cu_api *api, int architecture, gs_error *error);
void gs_timed_close(gs_timed *timed, const cu_api *api);

/* The kernel with this body, or NULL. */
const timed_kernel *gs_timed_find(const gs_timed *timed, gs_timed_body body, int32_t count);

#endif
