/*
 * probe.h: the probe kernel, compiled for the GPU at hand with any of the register counts of generated runs.
 */
#ifndef GS_PROBE_H
#define GS_PROBE_H

#include "cuda/cuda.h"

/* What a launch of the probe is told; the kernel's source has the same struct. Pointers are the device's. */
typedef struct probe_arguments {
    cu_pointer sm;    /* uint32 a block: its SM plus 1, in host memory */
    cu_pointer slots; /* uint8 a warp: its hardware slot, in host memory */
    cu_pointer start; /* uint64 a block: nanoseconds, in host memory */
    cu_pointer end;
    cu_pointer stop;   /* uint32 in host memory: the launch ends when it is `generation` */
    cu_pointer relay;  /* uint32 in device memory: block 0 hands `stop` on here, for the others to look at */
    uint64_t is_timed; /* a block runs as long as stands where its end belongs; 0: until it is stopped */
    uint32_t warps;    /* of a block */
    uint32_t generation;
} probe_arguments;

typedef struct probe_kernel {
    int32_t registers;
    int64_t local_bytes;
    cu_function function;
} probe_kernel;

typedef struct gs_probe {
    const cu_api *api;
    int architecture; /* 90 */
    int32_t most_shared_bytes;
    struct {
        probe_kernel *data;
        size_t count, capacity;
    } kernels;
    struct {
        cu_module *data;
        size_t count, capacity;
    } modules;
} gs_probe;

/* Compiles the probe for every register count without local memory. */
gs_code gs_probe_open(gs_probe *probe, const cu_api *api, int architecture, int32_t most_shared_bytes, gs_error *error);
void gs_probe_close(gs_probe *probe);

/* The kernel with exactly these registers, as the driver reports them, and this local memory; compiled when it is first
   asked for. */
gs_code gs_probe_find(gs_probe *probe, int32_t registers, int64_t local_bytes, cu_function *function, gs_error *error);

#endif
