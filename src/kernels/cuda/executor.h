/* executor.h: the members of a GPU's executor, for executor.c, which runs work and waits for it, and app_stream.c,
   which does not wait. */
#ifndef GS_CUDA_EXECUTOR_H
#define GS_CUDA_EXECUTOR_H

#include "cuda.h"

typedef struct cuda_kernel {
    char *name; /* as in the build */
    cu_kernel kernel;
    gs_cost cost; /* with what ptxas has reported */
} cuda_kernel;

typedef struct cuda_module {
    struct cuda_executor *owner;
    struct cuda_module *next;
    gs_modules loaded;
    cuda_kernel *kernels; /* in the order of the build */
    size_t count;
} cuda_module;

typedef struct cuda_executor {
    cu_api api;
    int device, sms, architecture;
    bool has_context;
    cu_stream stream, signals;
    cu_event began, ended;
    cuda_module *first;
    uint64_t kept_as; /* the work whose buffers are kept, or 0; */
    cu_pointer *kept; /* its buffers */
    size_t kept_count;
} cuda_executor;

/* The kernel of that name, or NULL. */
cuda_kernel *gs_cuda_kernel(cuda_module *module, const char *name);

#endif
