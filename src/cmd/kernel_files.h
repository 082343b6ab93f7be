/* kernel_files.h: the kernels of a file, and what their blocks need; see kernel_files.c. */
#ifndef GS_KERNEL_FILES_H
#define GS_KERNEL_FILES_H

#include "cmd.h"

typedef struct gs_file_kernel {
    char *symbol, *name; /* the name is for people */
    gs_shape shape;      /* threads 0: any number; shared memory is what it declares */
    int32_t cluster;     /* 1: none */
    int64_t launches;    /* of a recorded program; else 0 */
    int architecture;    /* of its machine code: 90 for sm_90; 0: not known */
} gs_file_kernel;

typedef struct gs_file_kernels {
    gs_file_kernel *data;
    size_t count, capacity;
    gs_names by_symbol;
} gs_file_kernels;

typedef struct gs_kernel_file_request {
    const char *path, *compiler;
    const char *const *options; /* for the compiler */
    size_t option_count;
    int architecture; /* 90: compute capability 9.0 */
} gs_kernel_file_request;

/* Of a CUDA source, PTX, a cubin, or a program or library that has one of these. */
gs_code gs_file_kernels_read(gs_file_kernels *kernels, const gs_kernel_file_request *request, gs_error *error);
/* Of a recorded program: each kernel and shape once. */
gs_code gs_file_kernels_of_run(gs_file_kernels *kernels, const gs_run *run, gs_error *error);
void gs_file_kernels_clear(gs_file_kernels *kernels);

#endif
