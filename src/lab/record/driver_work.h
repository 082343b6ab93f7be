/*
 * driver_work.h: records without CUPTI: a libcuda.so.1 in front of the driver (src/kernels/front) sees every call.
 *
 * It makes the records that CUPTI would: one for each launch, copy and memset, but without times, and without the
 * shared-memory configuration of the SMs. The rest is the same as with CUPTI (recorder.h).
 *
 *   driver_hooks.c       the hooks
 *   driver_recorder.c    the work of a hook: calls, records, and the thread that writes them
 *   driver_functions.c   the driver's attributes of kernels, cached
 *   driver_graphs.c      the work of the nodes of an executable graph
 */
#ifndef GS_TRACE_DRIVER_WORK_H
#define GS_TRACE_DRIVER_WORK_H

#include "kernels/front/front.h"
#include "recorder.h"

/* Functions of the driver that are not hooked. One that the driver lacks is NULL. */
#define GS_DRIVER_QUERIES(X)                                                                                           \
    X(cuCtxGetCurrent, (void **))                                                                                      \
    X(cuCtxGetDevice, (int *))                                                                                         \
    X(cuFuncGetAttribute, (int *, int, const void *))                                                                  \
    X(cuFuncGetName, (const char **, const void *))                                                                    \
    X(cuKernelGetFunction, (void **, const void *))                                                                    \
    X(cuGraphGetNodes, (void *, void **, size_t *))                                                                    \
    X(cuGraphGetEdges, (void *, void **, void **, size_t *))                                                           \
    X(cuGraphGetEdges_v2, (void *, void **, void **, void *, size_t *))                                                \
    X(cuGraphNodeGetType, (void *, int *))                                                                             \
    X(cuGraphChildGraphNodeGetGraph, (void *, void **))                                                                \
    X(cuGraphKernelNodeGetAttribute, (void *, int, void *))                                                            \
    X(cuGraphKernelNodeGetParams_v2, (void *, void *))                                                                 \
    X(cuGraphMemcpyNodeGetParams, (void *, void *))                                                                    \
    X(cuGraphMemsetNodeGetParams, (void *, void *))

#define GS_DRIVER_QUERY(name, arguments) int(*name) arguments;
typedef struct gs_driver_queries {
    GS_DRIVER_QUERIES(GS_DRIVER_QUERY)
} gs_driver_queries;
#undef GS_DRIVER_QUERY

/* ---- driver_functions.c ---- */

/* The attributes common to all launches of a kernel. Never freed: records point to names. */
typedef struct gs_driver_function {
    const char *name;
    int registers, static_shared_bytes, local_bytes, carveout_percent; /* of the carve-out, -1: none is requested */
    int cluster[3];                                                    /* 0: none is compiled in */
    int cache_config;                                                  /* requested; 0: none */
} gs_driver_function;

/* `function` is a CUfunction or a CUkernel of the current context. */
gs_driver_function gs_driver_function_get(const gs_driver_queries *driver, const void *function);
/* An attribute of a function was set. */
void gs_driver_function_set(const void *function, int attribute, int value);
/* The same of a CUkernel, on a device. */
void gs_driver_kernel_set(const gs_driver_queries *driver, const void *kernel, int device, int attribute, int value);
void gs_driver_function_cache(const void *function, int config);
/* A module was unloaded: handles of functions may be reused. */
void gs_driver_functions_forget(void);

/* ---- records ---- */

/* The work of a launch, a copy or a memset. */
typedef union gs_driver_record {
    uint32_t kind; /* CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_MEMSET, or GS_DRIVER_GRAPH */
    cupti_kernel kernel;
    cupti_memcpy copy;
    cupti_memset set;
    struct gs_driver_launch {
        uint32_t kind, context, device;
        struct gs_driver_graph *graph;
    } graph;
} gs_driver_record;

enum { GS_DRIVER_GRAPH = 1000 };

gs_driver_record gs_driver_kernel(const gs_driver_function *function, const unsigned *shape, unsigned shared_bytes);
/* An attribute of a launch or of a node, with its value. */
void gs_driver_kernel_attribute(cupti_kernel *kernel, int attribute, const int *value);
gs_driver_record gs_driver_copy(int kind, uint64_t bytes);
gs_driver_record gs_driver_copy_2d(const void *parameters); /* CUDA_MEMCPY2D */
gs_driver_record gs_driver_copy_3d(const void *parameters); /* CUDA_MEMCPY3D, and CUDA_MEMCPY3D_PEER */
gs_driver_record gs_driver_memset(uint64_t bytes);

/* ---- driver_graphs.c ---- */

/* The work of the nodes of an executable graph, in the order of its shape. */
typedef struct gs_driver_graph {
    gs_driver_record *nodes;
    uint32_t count, number;
    atomic_int references;
} gs_driver_graph;

/* Reads a graph; NULL: it cannot be read. `*shape` is for gs_recorder_exec. */
gs_driver_graph *gs_driver_graph_read(const gs_driver_queries *driver, void *graph, gs_graph_shape **shape);
void gs_driver_graph_release(gs_driver_graph *graph);

/* ---- driver_recorder.c ---- */

/* A hooked call. */
typedef struct gs_driver_work {
    const gs_call *call;
    void *stream, *other;
    const gs_launch_config *config; /* or NULL */
    const void *function;           /* of a kernel */
    const unsigned *shape;
    unsigned shared_bytes;
    bool is_cooperative;
    gs_driver_record record; /* of copies and memsets */
    gs_host_launch launch;
    bool is_launch;
    void *context;
} gs_driver_work;

/* The driver is open. */
void gs_driver_recorder_ready(void);
/* CUDA has started: recording begins if this library is to record. */
void gs_driver_recorder_start(void);
bool gs_driver_recorder_is_on(void);
const gs_driver_queries *gs_driver_recorder_driver(void);

/* Before and after the call of the driver. */
void gs_driver_before(gs_driver_work *work);
void gs_driver_after(gs_driver_work *work, int result);
void gs_driver_stream_new(void *stream, unsigned flags, int priority);
/* A graph was instantiated or changed; graph NULL: destroyed. */
void gs_driver_exec(void *exec, void *graph);

#endif
