/*
 * probe.h: the probe kernel, compiled for the present GPU with each of the register counts of generated runs.
 */
#ifndef GS_PROBE_H
#define GS_PROBE_H

#include "kernels/cuda/cuda.h"

enum { PROBE_NO_SLOT = 0xff };

/* The arguments of the probe kernel, whose source has the same struct. All pointers are addresses of the device. */
typedef struct probe_arguments {
    cu_pointer sm;    /* a uint32 for each block: its SM plus 1, in host memory */
    cu_pointer slots; /* a uint8 for each warp: its hardware slot, in host memory; PROBE_NO_SLOT until it reports */
    cu_pointer start; /* a uint64 for each block: nanoseconds, in host memory */
    cu_pointer end;
    cu_pointer stop;   /* a uint32 in host memory: the kernel stops when it is `generation` */
    cu_pointer relay;  /* a uint32 in device memory: block 0 copies `stop` to it, for the other blocks */
    uint64_t is_timed; /* 1: a block runs for the duration that the host put into its `end`; 0: until it is stopped */
    uint32_t warps;    /* of a block */
    uint32_t generation;
    uint64_t triggers; /* 1: blocks trigger their dependents as soon as they start */
} probe_arguments;

typedef struct gs_probe {
    const cu_api *api;
    int architecture; /* 90 */
    int32_t most_shared_bytes;
    struct {
        cu_kernel **data;
        size_t count, capacity;
    } kernels;
    gs_modules modules;
} gs_probe;

/* Compiles the probe for every register count without local memory. */
gs_code gs_probe_open(gs_probe *probe, const cu_api *api, int architecture, int32_t most_shared_bytes, gs_error *error);
void gs_probe_close(gs_probe *probe);

/* The kernel with exactly these registers, as the driver reports them, and this local memory. Compiles it when it is
   first requested. There can be several copies, each a function of its own, from number 0. It belongs to the probe. */
gs_code gs_probe_find(gs_probe *probe, int32_t registers, int64_t local_bytes, size_t copy, cu_kernel **kernel,
                      gs_error *error);

/* The kernels with every register count, as they are first tried, as PTX; for tests. False: out of memory. */
bool gs_probe_text(gs_text *text, int architecture, int64_t local_bytes);

#endif
