/*
 * cupti.h: CUPTI, NVIDIA's library that reports a program's CUDA calls, opened at run time.
 *
 * The types are those of CUPTI 12 and 13 under different names, so that no header of CUDA is needed to build. Records
 * only grow at their end: the part common to all versions since 12.0 is declared. tests/record/test_cupti.c compares
 * every offset with NVIDIA's headers if the toolkit is installed.
 *
 *   cupti_open.c   finds the library and fills a table of its functions
 */
#ifndef GS_TRACE_CUPTI_H
#define GS_TRACE_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- activity records: what the GPU did, delivered in buffers ---- */

enum {
    CUPTI_MEMCPY = 1,
    CUPTI_MEMSET = 2,
    CUPTI_DEVICE = 8,
    CUPTI_CONTEXT = 9,
    CUPTI_KERNEL = 10, /* "concurrent kernel": kernels are not serialized to be timed */
    CUPTI_MEMCPY_PEER = 22
};

/* CUpti_ActivityKernel8, and the beginning of all later ones. */
typedef struct cupti_kernel {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t global_cache_requested, global_cache_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared_bytes, dynamic_shared_bytes;
    uint32_t local_bytes, local_total, correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, has_carveout, carveout_percent, padding;
    uint32_t shared_executed_bytes;
    uint64_t graph_node;
    uint32_t shared_limit_config, graph;
    void *access_policy;
    uint32_t channel, channel_type, cluster[3], cluster_policy;
    uint64_t local_total_2;
} cupti_kernel;

/* CUpti_ActivityMemcpy5. */
typedef struct cupti_memcpy {
    uint32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation, runtime_correlation, padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} cupti_memcpy;

/* CUpti_ActivityMemcpyPtoP4. */
typedef struct cupti_memcpy_peer {
    uint32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} cupti_memcpy_peer;

/* CUpti_ActivityMemset4. */
typedef struct cupti_memset {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} cupti_memset;

/* CUpti_ActivityContext3; before CUPTI 12.6 it ends after null_stream. */
typedef struct cupti_context {
    uint32_t kind, context, device;
    uint16_t api, null_stream;
    uint32_t parent;
    uint8_t is_green, padding;
    uint16_t sms;
} cupti_context;

/* CUpti_ActivityDevice5, up to its name. */
typedef struct cupti_device {
    uint32_t kind, flags;
    uint64_t bandwidth, memory_bytes;
    uint32_t constant_bytes, cache_bytes, warp_threads, clock_khz, copy_engines, sms, instructions, warps_per_sm,
        blocks_per_sm, shared_per_sm, registers_per_sm, registers_per_block, shared_per_block, threads_per_block,
        block_limits[3], grid_limits[3], major, minor, id, has_ecc;
    unsigned char uuid[16];
    const char *name;
} cupti_device;

/* cache_config of a kernel: the requested one is in the lower four bits */
enum { CUPTI_PREFER_SHARED = 1, CUPTI_PREFER_L1 = 2, CUPTI_PREFER_EQUAL = 3 };

/* launch_type of a kernel */
enum { CUPTI_COOPERATIVE = 1, CUPTI_COOPERATIVE_DEVICES = 2 };

/* copy_kind of a copy: host, array or device to which. */
enum { CUPTI_COPY_KINDS = 11 };

/* ---- callbacks: calls of the program, reported as they are made ---- */

enum { CUPTI_ENTER = 0, CUPTI_EXIT = 1 };
enum { CUPTI_DRIVER = 1, CUPTI_RUNTIME = 2, CUPTI_RESOURCE = 3 };
enum { CUPTI_EXEC_CREATED = 18, CUPTI_EXEC_DESTROYED = 19, CUPTI_NODE_CLONED = 20 };

typedef struct cupti_call {
    int32_t site; /* CUPTI_ENTER or CUPTI_EXIT */
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *data;
    uint32_t correlation;
} cupti_call;

typedef struct cupti_resource {
    void *context, *handle, *descriptor;
} cupti_resource;

typedef struct cupti_graph {
    void *graph, *original_graph, *node, *original_node;
    int32_t node_type;
    void *dependency, *exec;
} cupti_graph;

typedef void cupti_callback(void *user, int32_t domain, uint32_t id, const void *data);
typedef void cupti_wants_buffer(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void cupti_gives_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* ---- functions ---- */

enum { CUPTI_FLUSH_FORCED = 1 };

/* Attributes: buffers given to CUPTI are zeroed; times of kernels are collected in pinned host memory. */
enum { CUPTI_ZEROED = 5, CUPTI_PINNED = 8 };

/* Name in the table, symbol, parameters. All return 0 for success. */
#define CUPTI_SYMBOLS(X)                                                                                               \
    X(version, cuptiGetVersion, (uint32_t *))                                                                          \
    X(error_string, cuptiGetResultString, (int, const char **))                                                        \
    X(subscribe, cuptiSubscribe, (void **, cupti_callback *, void *))                                                  \
    X(enable_callback, cuptiEnableCallback, (uint32_t, void *, int32_t, uint32_t))                                     \
    X(register_buffers, cuptiActivityRegisterCallbacks, (cupti_wants_buffer *, cupti_gives_buffer *))                  \
    X(set_attribute, cuptiActivitySetAttribute, (int32_t, size_t *, void *))                                           \
    X(enable, cuptiActivityEnable, (uint32_t))                                                                         \
    X(next_record, cuptiActivityGetNextRecord, (uint8_t *, size_t, void **))                                           \
    X(dropped, cuptiActivityGetNumDroppedRecords, (void *, uint32_t, size_t *))                                        \
    X(flush, cuptiActivityFlushAll, (uint32_t))                                                                        \
    X(node_id, cuptiGetGraphNodeId, (void *, uint64_t *))

#define CUPTI_POINTER(name, symbol, arguments) int(*name) arguments;
typedef struct cupti_api {
    void *library;
    CUPTI_SYMBOLS(CUPTI_POINTER)
} cupti_api;
#undef CUPTI_POINTER

/* Opens CUPTI: the file `path`, or if that is NULL the copy that the program has loaded, the one found by the loader,
   or one beside the CUDA libraries of the program or the machine. False: `problem` says why. */
bool gs_cupti_open(cupti_api *api, const char *path, char *problem, size_t size);

/* ---- the driver's calls that the recorder follows ---- */

typedef enum gs_call_kind {
    GS_CALL_LAUNCH,       /* a kernel, a copy or a memset on a stream */
    GS_CALL_GRAPH,        /* a whole graph */
    GS_CALL_EVENT_RECORD, /* an event stands for the work of its stream so far */
    GS_CALL_EVENT_WAIT,   /* a stream waits for an event */
    GS_CALL_EVENT_FREE,
    GS_CALL_BEGIN_CAPTURE,
    GS_CALL_END_CAPTURE,
    GS_CALL_STREAM_NEW, /* the first parameter says where it goes; stream_at: flags; other_at: priority */
    GS_CALL_STREAM_FREE,
    GS_CALL_INSTANTIATE
} gs_call_kind;

/* Where a call keeps its stream, or the priority of a new one. */
enum { GS_STREAM_NONE = -1, GS_STREAM_IN_CONFIG = -2, GS_NO_PRIORITY = -1 };

typedef struct gs_call {
    uint32_t id; /* CUPTI's number of the function; 0: none */
    uint8_t kind;
    int8_t domain;     /* CUPTI_DRIVER or CUPTI_RUNTIME */
    bool per_thread;   /* stream 0 is the calling thread's own default stream */
    int16_t stream_at; /* offset of the stream in the parameters, or GS_STREAM_... */
    int16_t other_at;  /* offset of the event, the graph, or the priority of a new stream */
    const char *symbol;
} gs_call;

/* Kind, function, CUPTI's number, its number for programs with a default stream per thread (0: none), offset of the
   stream, offset of the event, the graph, or the priority of a new stream. */
#define GS_DRIVER_CALLS(X)                                                                                             \
    X(LAUNCH, cuLaunchKernel, 307, 442, 40, 0)                                                                         \
    X(LAUNCH, cuLaunchKernelEx, 652, 653, GS_STREAM_IN_CONFIG, 0)                                                      \
    X(LAUNCH, cuLaunchCooperativeKernel, 477, 478, 40, 0)                                                              \
    X(GRAPH, cuGraphLaunch, 514, 515, 8, 0)                                                                            \
    X(LAUNCH, cuMemcpyAsync, 306, 418, 24, 0)                                                                          \
    X(LAUNCH, cuMemcpyHtoDAsync_v2, 277, 421, 24, 0)                                                                   \
    X(LAUNCH, cuMemcpyDtoHAsync_v2, 279, 422, 24, 0)                                                                   \
    X(LAUNCH, cuMemcpyDtoDAsync_v2, 281, 423, 24, 0)                                                                   \
    X(LAUNCH, cuMemcpyHtoAAsync_v2, 293, 419, 32, 0)                                                                   \
    X(LAUNCH, cuMemcpyAtoHAsync_v2, 283, 420, 32, 0)                                                                   \
    X(LAUNCH, cuMemcpy2DAsync_v2, 289, 424, 8, 0)                                                                      \
    X(LAUNCH, cuMemcpy3DAsync_v2, 291, 425, 8, 0)                                                                      \
    X(LAUNCH, cuMemcpyPeerAsync, 319, 426, 40, 0)                                                                      \
    X(LAUNCH, cuMemcpy3DPeerAsync, 321, 427, 8, 0)                                                                     \
    X(LAUNCH, cuMemcpyBatchAsync, 776, 777, 64, 0)                                                                     \
    X(LAUNCH, cuMemcpyBatchAsync_v2, 796, 797, 56, 0)                                                                  \
    X(LAUNCH, cuMemcpy, 305, 408, GS_STREAM_NONE, 0)                                                                   \
    X(LAUNCH, cuMemcpyHtoD_v2, 276, 397, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyDtoH_v2, 278, 398, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyDtoD_v2, 280, 399, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpy2D_v2, 287, 405, GS_STREAM_NONE, 0)                                                              \
    X(LAUNCH, cuMemcpy2DUnaligned_v2, 288, 406, GS_STREAM_NONE, 0)                                                     \
    X(LAUNCH, cuMemcpy3D_v2, 290, 407, GS_STREAM_NONE, 0)                                                              \
    X(LAUNCH, cuMemcpyHtoA_v2, 292, 402, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyAtoH_v2, 282, 403, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyDtoA_v2, 285, 400, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyAtoD_v2, 284, 401, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyAtoA_v2, 286, 404, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemcpyPeer, 318, 409, GS_STREAM_NONE, 0)                                                               \
    X(LAUNCH, cuMemcpy3DPeer, 320, 410, GS_STREAM_NONE, 0)                                                             \
    X(LAUNCH, cuMemcpy3DBatchAsync, 778, 779, 32, 0)                                                                   \
    X(LAUNCH, cuMemcpy3DBatchAsync_v2, 798, 799, 24, 0)                                                                \
    X(LAUNCH, cuMemsetD8Async, 216, 428, 24, 0)                                                                        \
    X(LAUNCH, cuMemsetD16Async, 218, 429, 24, 0)                                                                       \
    X(LAUNCH, cuMemsetD32Async, 220, 430, 24, 0)                                                                       \
    X(LAUNCH, cuMemsetD2D8Async, 222, 431, 40, 0)                                                                      \
    X(LAUNCH, cuMemsetD2D16Async, 224, 432, 40, 0)                                                                     \
    X(LAUNCH, cuMemsetD2D32Async, 226, 433, 40, 0)                                                                     \
    X(LAUNCH, cuMemsetD8_v2, 249, 411, GS_STREAM_NONE, 0)                                                              \
    X(LAUNCH, cuMemsetD16_v2, 250, 412, GS_STREAM_NONE, 0)                                                             \
    X(LAUNCH, cuMemsetD32_v2, 251, 413, GS_STREAM_NONE, 0)                                                             \
    X(LAUNCH, cuMemsetD2D8_v2, 252, 414, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cuMemsetD2D16_v2, 253, 415, GS_STREAM_NONE, 0)                                                           \
    X(LAUNCH, cuMemsetD2D32_v2, 254, 416, GS_STREAM_NONE, 0)                                                           \
    X(EVENT_RECORD, cuEventRecord, 119, 441, 8, 0)                                                                     \
    X(EVENT_RECORD, cuEventRecordWithFlags, 587, 588, 8, 0)                                                            \
    X(EVENT_WAIT, cuStreamWaitEvent, 295, 436, 0, 8)                                                                   \
    X(EVENT_FREE, cuEventDestroy_v2, 325, 0, GS_STREAM_NONE, 0)                                                        \
    X(STREAM_NEW, cuStreamCreate, 124, 0, 8, GS_NO_PRIORITY)                                                           \
    X(STREAM_NEW, cuStreamCreateWithPriority, 367, 0, 8, 12)                                                           \
    X(STREAM_NEW, cuGreenCtxStreamCreate, 758, 0, 16, 20)                                                              \
    X(STREAM_FREE, cuStreamDestroy_v2, 326, 0, 0, 0)                                                                   \
    X(BEGIN_CAPTURE, cuStreamBeginCapture, 495, 496, 0, 0)                                                             \
    X(BEGIN_CAPTURE, cuStreamBeginCapture_v2, 539, 540, 0, 0)                                                          \
    X(BEGIN_CAPTURE, cuStreamBeginCaptureToGraph, 720, 721, 0, 0)                                                      \
    X(END_CAPTURE, cuStreamEndCapture, 497, 498, 0, 0)                                                                 \
    X(INSTANTIATE, cuGraphInstantiate_v2, 578, 0, GS_STREAM_NONE, 8)                                                   \
    X(INSTANTIATE, cuGraphInstantiateWithFlags, 643, 0, GS_STREAM_NONE, 8)                                             \
    X(INSTANTIATE, cuGraphInstantiateWithParams, 656, 657, GS_STREAM_NONE, 8)

/* The same for the runtime. CUPTI does not report its launches as calls of the driver. */
#define GS_RUNTIME_CALLS(X)                                                                                            \
    X(LAUNCH, cudaLaunchKernel_v7000, 211, 214, 48, 0)                                                                 \
    X(LAUNCH, __cudaLaunchKernel_v13000, 505, 506, 48, 0)                                                              \
    X(LAUNCH, cudaLaunchCooperativeKernel_v9000, 269, 270, 48, 0)                                                      \
    X(LAUNCH, cudaLaunchKernelExC_v11060, 430, 431, GS_STREAM_IN_CONFIG, 0)                                            \
    X(GRAPH, cudaGraphLaunch_v10000, 311, 312, 8, 0)                                                                   \
    X(LAUNCH, cudaMemcpyAsync_v3020, 41, 225, 32, 0)                                                                   \
    X(LAUNCH, cudaMemcpy2DAsync_v3020, 44, 228, 56, 0)                                                                 \
    X(LAUNCH, cudaMemsetAsync_v3020, 51, 235, 24, 0)                                                                   \
    X(LAUNCH, cudaMemcpyToArrayAsync_v3020, 42, 226, 48, 0)                                                            \
    X(LAUNCH, cudaMemcpyFromArrayAsync_v3020, 43, 227, 48, 0)                                                          \
    X(LAUNCH, cudaMemcpy2DToArrayAsync_v3020, 45, 229, 64, 0)                                                          \
    X(LAUNCH, cudaMemcpy2DFromArrayAsync_v3020, 46, 230, 64, 0)                                                        \
    X(LAUNCH, cudaMemcpyToSymbolAsync_v3020, 47, 231, 40, 0)                                                           \
    X(LAUNCH, cudaMemcpyFromSymbolAsync_v3020, 48, 232, 40, 0)                                                         \
    X(LAUNCH, cudaMemcpy3DAsync_v3020, 145, 246, 8, 0)                                                                 \
    X(LAUNCH, cudaMemcpyPeerAsync_v4000, 161, 0, 40, 0)                                                                \
    X(LAUNCH, cudaMemcpy3DPeerAsync_v4000, 163, 250, 8, 0)                                                             \
    X(LAUNCH, cudaMemcpyBatchAsync_v12080, 482, 483, 64, 0)                                                            \
    X(LAUNCH, cudaMemcpyBatchAsync_v13000, 509, 510, 56, 0)                                                            \
    X(LAUNCH, cudaMemcpy3DBatchAsync_v12080, 484, 485, 32, 0)                                                          \
    X(LAUNCH, cudaMemcpy3DBatchAsync_v13000, 511, 512, 24, 0)                                                          \
    X(LAUNCH, cudaMemset2DAsync_v3020, 52, 236, 40, 0)                                                                 \
    X(LAUNCH, cudaMemset3DAsync_v3020, 143, 244, 64, 0)                                                                \
    X(LAUNCH, cudaMemcpy2D_v3020, 32, 216, GS_STREAM_NONE, 0)                                                          \
    X(LAUNCH, cudaMemcpyToArray_v3020, 33, 217, GS_STREAM_NONE, 0)                                                     \
    X(LAUNCH, cudaMemcpy2DToArray_v3020, 34, 218, GS_STREAM_NONE, 0)                                                   \
    X(LAUNCH, cudaMemcpyFromArray_v3020, 35, 219, GS_STREAM_NONE, 0)                                                   \
    X(LAUNCH, cudaMemcpy2DFromArray_v3020, 36, 220, GS_STREAM_NONE, 0)                                                 \
    X(LAUNCH, cudaMemcpyArrayToArray_v3020, 37, 221, GS_STREAM_NONE, 0)                                                \
    X(LAUNCH, cudaMemcpy2DArrayToArray_v3020, 38, 222, GS_STREAM_NONE, 0)                                              \
    X(LAUNCH, cudaMemcpyToSymbol_v3020, 39, 223, GS_STREAM_NONE, 0)                                                    \
    X(LAUNCH, cudaMemcpyFromSymbol_v3020, 40, 224, GS_STREAM_NONE, 0)                                                  \
    X(LAUNCH, cudaMemcpy3D_v3020, 144, 245, GS_STREAM_NONE, 0)                                                         \
    X(LAUNCH, cudaMemcpyPeer_v4000, 160, 0, GS_STREAM_NONE, 0)                                                         \
    X(LAUNCH, cudaMemcpy3DPeer_v4000, 162, 249, GS_STREAM_NONE, 0)                                                     \
    X(LAUNCH, cudaMemset2D_v3020, 50, 234, GS_STREAM_NONE, 0)                                                          \
    X(LAUNCH, cudaMemset3D_v3020, 142, 243, GS_STREAM_NONE, 0)                                                         \
    X(LAUNCH, cudaMemcpy_v3020, 31, 215, GS_STREAM_NONE, 0)                                                            \
    X(LAUNCH, cudaMemset_v3020, 49, 233, GS_STREAM_NONE, 0)                                                            \
    X(EVENT_RECORD, cudaEventRecord_v3020, 135, 242, 8, 0)                                                             \
    X(EVENT_RECORD, cudaEventRecordWithFlags_v11010, 370, 371, 8, 0)                                                   \
    X(EVENT_WAIT, cudaStreamWaitEvent_v3020, 147, 247, 0, 8)                                                           \
    X(EVENT_FREE, cudaEventDestroy_v3020, 136, 0, GS_STREAM_NONE, 0)                                                   \
    X(STREAM_NEW, cudaStreamCreate_v3020, 129, 0, GS_STREAM_NONE, GS_NO_PRIORITY)                                      \
    X(STREAM_NEW, cudaStreamCreateWithFlags_v5000, 198, 0, 8, GS_NO_PRIORITY)                                          \
    X(STREAM_NEW, cudaStreamCreateWithPriority_v5050, 202, 0, 8, 12)                                                   \
    X(STREAM_FREE, cudaStreamDestroy_v5050, 201, 0, 0, 0)                                                              \
    X(BEGIN_CAPTURE, cudaStreamBeginCaptureToGraph_v12030, 452, 453, 0, 0)                                             \
    X(BEGIN_CAPTURE, cudaStreamBeginCapture_v10000, 315, 316, 0, 0)                                                    \
    X(END_CAPTURE, cudaStreamEndCapture_v10000, 319, 320, 0, 0)                                                        \
    X(INSTANTIATE, cudaGraphInstantiateWithFlags_v11040, 418, 0, GS_STREAM_NONE, 8)                                    \
    X(INSTANTIATE, cudaGraphInstantiate_v12000, 443, 0, GS_STREAM_NONE, 8)                                             \
    X(INSTANTIATE, cudaGraphInstantiateWithParams_v12000, 436, 437, GS_STREAM_NONE, 8)

extern const gs_call gs_calls[];
extern const size_t gs_call_count;

#endif
