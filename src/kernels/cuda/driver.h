/*
 * driver.h: the CUDA driver and NVRTC, opened at run time.
 *
 * A table of functions is filled with dlopen and dlsym, so that neither a header nor a library of CUDA is needed to
 * build. The types and constants are those of the driver, under names of our own.
 */
#ifndef GS_CUDA_DRIVER_H
#define GS_CUDA_DRIVER_H

#include "base/base.h"

typedef struct cu_context *cu_context;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_pool *cu_pool;
typedef struct nvrtc_program *nvrtc_program;
typedef uint64_t cu_pointer;

typedef struct cu_attribute {
    int id;
    int padding;
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int priority;
        int flag;
    } value;
} cu_attribute;

/* ---- constants of the driver ---- */

enum {
    CU_ERROR_MEMORY = 2,
    CU_ERROR_NOT_READY = 600,
    CU_ERROR_TOO_MANY_RESOURCES = 701,
    CU_ERROR_COOPERATIVE_TOO_LARGE = 720,
    CU_ERROR_MPS_FIRST = 805, /* the connection to MPS is lost, or its server has ended */
    CU_ERROR_MPS_LAST = 810
};

/* cuDeviceGetAttribute */
enum {
    CU_DEVICE_THREADS_PER_BLOCK = 1,
    CU_DEVICE_WARP = 10,
    CU_DEVICE_SMS = 16,
    CU_DEVICE_THREADS_PER_SM = 39,
    CU_DEVICE_MAJOR = 75,
    CU_DEVICE_MINOR = 76,
    CU_DEVICE_SHARED_PER_SM = 81,
    CU_DEVICE_REGISTERS_PER_SM = 82,
    CU_DEVICE_SHARED_OPTIN = 97,
    CU_DEVICE_BLOCKS_PER_SM = 106,
    CU_DEVICE_SHARED_RESERVED = 111,
    CU_DEVICE_CLUSTERS = 120
};

/* cuFuncGetAttribute, cuFuncSetAttribute */
enum {
    CU_FUNCTION_SHARED_BYTES = 1,
    CU_FUNCTION_LOCAL_BYTES = 3,
    CU_FUNCTION_REGISTERS = 4,
    CU_FUNCTION_MAX_SHARED = 8,
    CU_FUNCTION_CARVEOUT = 9,
    CU_FUNCTION_NON_PORTABLE_CLUSTER = 14
};

/* Attributes of a launch. */
enum { CU_LAUNCH_COOPERATIVE = 2, CU_LAUNCH_CLUSTER = 4, CU_LAUNCH_PROGRAMMATIC = 6, CU_LAUNCH_PRIORITY = 8 };

/* Flags of streams and of pinned host memory; attribute of a memory pool. */
enum { CU_STREAM_NON_BLOCKING = 1, CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2, CU_POOL_RELEASE_THRESHOLD = 4 };

/* The most shared memory of a block without CU_FUNCTION_MAX_SHARED. */
enum { CU_DEFAULT_SHARED_BYTES = 48 << 10 };

/* ---- calls ---- */

typedef struct cu_launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    cu_stream stream;
    cu_attribute *attributes;
    unsigned attribute_count;
} cu_launch;

/* Name in the table, symbol, parameters. All return 0 for success. cuMemcpyHtoD is left out: it returns when the bytes
   are on their way, and a kernel on a stream of ours does not wait for them. Copies go through the stream. */
#define CU_SYMBOLS(X)                                                                                                  \
    X(init, cuInit, (unsigned))                                                                                        \
    X(driver_version, cuDriverGetVersion, (int *))                                                                     \
    X(error_string, cuGetErrorString, (int, const char **))                                                            \
    X(device_count, cuDeviceGetCount, (int *))                                                                         \
    X(device_get, cuDeviceGet, (int *, int))                                                                           \
    X(device_name, cuDeviceGetName, (char *, int, int))                                                                \
    X(device_uuid, cuDeviceGetUuid_v2, (unsigned char *, int))                                                         \
    X(device_attribute, cuDeviceGetAttribute, (int *, int, int))                                                       \
    X(context_retain, cuDevicePrimaryCtxRetain, (cu_context *, int))                                                   \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int))                                                            \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *, int))                                                             \
    X(device_pool, cuDeviceGetDefaultMemPool, (cu_pool *, int))                                                        \
    X(context_set, cuCtxSetCurrent, (cu_context))                                                                      \
    X(context_get, cuCtxGetCurrent, (cu_context *))                                                                    \
    X(synchronize, cuCtxSynchronize, (void))                                                                           \
    X(module_load, cuModuleLoadData, (cu_module *, const void *))                                                      \
    X(module_unload, cuModuleUnload, (cu_module))                                                                      \
    X(module_function, cuModuleGetFunction, (cu_function *, cu_module, const char *))                                  \
    X(function_get, cuFuncGetAttribute, (int *, int, cu_function))                                                     \
    X(function_set, cuFuncSetAttribute, (cu_function, int, int))                                                       \
    X(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))                                                         \
    X(host_free, cuMemFreeHost, (void *))                                                                              \
    X(host_pointer, cuMemHostGetDevicePointer_v2, (cu_pointer *, void *, unsigned))                                    \
    X(host_register, cuMemHostRegister_v2, (void *, size_t, unsigned))                                                 \
    X(host_unregister, cuMemHostUnregister, (void *))                                                                  \
    X(alloc, cuMemAlloc_v2, (cu_pointer *, size_t))                                                                    \
    X(free, cuMemFree_v2, (cu_pointer))                                                                                \
    X(set_bytes, cuMemsetD8_v2, (cu_pointer, unsigned char, size_t))                                                   \
    X(write_word, cuStreamWriteValue32_v2, (cu_stream, cu_pointer, unsigned, unsigned))                                \
    X(copy_out, cuMemcpyDtoH_v2, (void *, cu_pointer, size_t))                                                         \
    X(pool_set, cuMemPoolSetAttribute, (cu_pool, int, void *))                                                         \
    X(alloc_later, cuMemAllocAsync, (cu_pointer *, size_t, cu_stream))                                                 \
    X(free_later, cuMemFreeAsync, (cu_pointer, cu_stream))                                                             \
    X(set_bytes_later, cuMemsetD8Async, (cu_pointer, unsigned char, size_t, cu_stream))                                \
    X(copy_in_later, cuMemcpyHtoDAsync_v2, (cu_pointer, const void *, size_t, cu_stream))                              \
    X(copy_out_later, cuMemcpyDtoHAsync_v2, (void *, cu_pointer, size_t, cu_stream))                                   \
    X(copy_later, cuMemcpyDtoDAsync_v2, (cu_pointer, cu_pointer, size_t, cu_stream))                                   \
    X(event_new, cuEventCreate, (cu_event *, unsigned))                                                                \
    X(event_free, cuEventDestroy_v2, (cu_event))                                                                       \
    X(event_record, cuEventRecord, (cu_event, cu_stream))                                                              \
    X(event_elapsed, cuEventElapsedTime, (float *, cu_event, cu_event))                                                \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, cu_function, int, size_t))                       \
    X(stream_new, cuStreamCreateWithPriority, (cu_stream *, unsigned, int))                                            \
    X(stream_free, cuStreamDestroy_v2, (cu_stream))                                                                    \
    X(stream_wait, cuStreamSynchronize, (cu_stream))                                                                   \
    X(stream_query, cuStreamQuery, (cu_stream))                                                                        \
    X(launch, cuLaunchKernelEx, (const cu_launch *, cu_function, void **, void **))

#define NVRTC_SYMBOLS(X)                                                                                               \
    X(program_new, nvrtcCreateProgram,                                                                                 \
      (nvrtc_program *, const char *, const char *, int, const char *const *, const char *const *))                    \
    X(add_name, nvrtcAddNameExpression, (nvrtc_program, const char *))                                                 \
    X(lowered_name, nvrtcGetLoweredName, (nvrtc_program, const char *, const char **))                                 \
    X(compile, nvrtcCompileProgram, (nvrtc_program, int, const char *const *))                                         \
    X(log_size, nvrtcGetProgramLogSize, (nvrtc_program, size_t *))                                                     \
    X(log_text, nvrtcGetProgramLog, (nvrtc_program, char *))                                                           \
    X(image_size, nvrtcGetCUBINSize, (nvrtc_program, size_t *))                                                        \
    X(image, nvrtcGetCUBIN, (nvrtc_program, char *))                                                                   \
    X(ptx_size, nvrtcGetPTXSize, (nvrtc_program, size_t *))                                                            \
    X(ptx, nvrtcGetPTX, (nvrtc_program, char *))                                                                       \
    X(program_free, nvrtcDestroyProgram, (nvrtc_program *))

/* The members of a struct for a table such as CU_SYMBOLS. */
#define CU_POINTER(name, symbol, arguments) int(*name) arguments;
typedef struct cu_api {
    void *driver, *compiler; /* the libraries */
    CU_SYMBOLS(CU_POINTER)
    NVRTC_SYMBOLS(CU_POINTER)
} cu_api;

/* Looks a function up in a library; newer functions, only when they are needed. `missing` keeps the first that is not
   there. */
bool gs_cuda_find(void *library, const char *symbol, void *pointer, const char **missing);

/* Opens only the compiler, which needs no GPU. GS_E_NO_GPU: there is none, or it is too old. */
gs_code gs_nvrtc_open(cu_api *api, gs_error *error);
/* Opens the compiler besides the driver, if it is not open. */
gs_code gs_nvrtc_add(cu_api *api, gs_error *error);
/* The file of the compiler's library, or "". */
void gs_nvrtc_path(const cu_api *api, char *path, size_t size);
/* Opens the driver; most machines have nothing else. GS_E_NO_GPU: there is none, or it is too old. */
gs_code gs_cuda_open(cu_api *api, gs_error *error);
void gs_cuda_close(cu_api *api);
/* Whether a name is "cuda" or "cuda:N", with a part of the GPU as below. There need not be such a GPU. */
bool gs_cuda_is_device(const char *name);
/* Starts CUDA and makes the context of a GPU, or of a part of one, the current one. `rest` is the part of the name
   after "cuda:": "N", "N,sms=M" or "N,sms=M,part=P"; "" is "0". If `*has_context` is set, the caller releases the
   context with `context_release`, even after an error. */
gs_code gs_cuda_open_gpu(const cu_api *api, const char *rest, int *device, bool *has_context, gs_error *error);

/* How many connections this program has to a GPU that it has opened. */
int32_t gs_cuda_connections(void);
/* The architecture to compile for (90: compute capability 9.0): that of the first GPU that is there, or `most` if there
   is none or a later one, which runs the PTX of all before it. */
int gs_cuda_architecture(int most);

/* The UUID of a GPU, as nvidia-smi prints it, and the CUDA version of its driver. What is not known is left as it is.
 */
void gs_cuda_name_gpu(const cu_api *api, int device, char *uuid, size_t uuid_size, char *driver, size_t driver_size);

/* A context of part number `part` of the GPU, with about `sms` SMs (green.c). It lives until the program ends. */
gs_code gs_cuda_green(const cu_api *api, int device, int32_t sms, int32_t part, cu_context *context, gs_error *error);

/* Up to `wanted` green contexts of one split, with about `sms` SMs each; `*count`: how many there are. They live until
   the program ends. A stream of one of them: its kernels run on the SMs of the context. The caller frees the stream. */
gs_code gs_cuda_green_all(const cu_api *api, int device, int32_t sms, int32_t wanted, void **made, int32_t *count,
                          gs_error *error);
gs_code gs_cuda_green_stream(const cu_api *api, void *context, cu_stream *stream, gs_error *error);
/* A stream of a green context with `sms` SMs, rounded by the driver, and one of another with all other SMs. Both live
   until the program ends. */
gs_code gs_cuda_green_two(const cu_api *api, int device, int32_t sms, cu_stream *first, cu_stream *others,
                          gs_error *error);

/* ---- graphs (graph.c) ---- */

enum { CU_MOST_NODES = 64 };

typedef enum cu_node_kind {
    CU_NODE_KERNEL,
    CU_NODE_MEMSET,
    CU_NODE_COPY,
    CU_NODE_COPY_IN,
    CU_NODE_COPY_OUT
} cu_node_kind;

typedef struct cu_node {
    cu_node_kind kind;
    struct cu_kernel *kernel; /* see kernel.h */
    unsigned blocks, threads, shared_bytes;
    void *arguments; /* the only argument of the kernel */
    int priority;
    cu_stream stream;    /* of a green context, in which the kernel runs; NULL: in none */
    cu_pointer to, from; /* of a memset or copy: memory of the GPU */
    void *host;          /* of a copy from or to the host: its memory */
    size_t bytes;
    const uint32_t *after; /* numbers of earlier nodes */
    size_t after_count;
} cu_node;

/* Makes an executable graph and uploads it; the GPU must be idle. The caller frees it with gs_cuda_graph_free, which
   NULL is fine for. */
gs_code gs_cuda_graph_make(const cu_api *api, const cu_node *nodes, size_t count, cu_stream stream, void **executable,
                           gs_error *error);
int gs_cuda_graph_launch(const cu_api *api, void *executable, cu_stream stream);
void gs_cuda_graph_free(const cu_api *api, void *executable);

/* Puts the sizes of the parameters of a kernel, at most `most` of them, into `sizes`. Needs CUDA 12.4. */
gs_code gs_cuda_parameters(const cu_api *api, cu_function function, uint32_t most, uint32_t *sizes, uint32_t *count,
                           gs_error *error);

/* Turns a code of the driver into an error: "WHAT: message of the driver". 0 is GS_OK. */
gs_code gs_cuda_check(const cu_api *api, int code, const char *what, gs_error *error);

/* The folder of the CUDA toolkit: $CUDA_HOME, $CUDA_PATH or /usr/local/cuda. */
const char *gs_cuda_toolkit(void);

/* ---- compiling (nvrtc.c) ---- */

/* A source for NVRTC: its name in errors, its text, and the kernels whose names are looked up afterwards. */
typedef struct nvrtc_source {
    const char *file, *text;
    const char *const *kernels;
    size_t kernel_count;
    const char *const *options;
    int option_count;
} nvrtc_source;

/* Compiles. GS_OK: the caller frees the program and the log, which may be NULL. GS_E_KERNEL: the source has an error;
   the caller makes the message from the log, which may be NULL, and frees it. */
gs_code gs_nvrtc_compile(const cu_api *api, const nvrtc_source *source, nvrtc_program *program, char **log,
                         gs_error *error);
/* The compiled image, for the driver to load, and its size. The caller frees it. */
gs_code gs_nvrtc_image(const cu_api *api, nvrtc_program program, char **image, size_t *bytes, gs_error *error);

/* The PTX, if the source was compiled for a virtual architecture (compute_90). The caller frees it. */
gs_code gs_nvrtc_ptx(const cu_api *api, nvrtc_program program, char **ptx, gs_error *error);

/* Compiles and returns the image, for a source of this program and an architecture (90: sm_90). `what` is its name in
 * errors. */
gs_code gs_cuda_compile(const cu_api *api, int architecture, const char *what, const char *file, const char *text,
                        char **image, gs_error *error);

#endif
