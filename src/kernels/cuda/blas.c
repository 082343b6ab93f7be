/*
 * blas.c: products of cuBLAS.
 *
 * The library is opened at run time, and only the functions that are needed are declared here. It uses the context that
 * is current. cuBLAS stores matrices by columns, so what it calls A is B here, and its result is the transpose of C.
 */
#include "cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSPOSED = 1, PLAIN = 0, HALF = 2, BFLOAT16 = 14, FLOAT32 = 0, COMPUTE_FLOAT32 = 68, ANY_ALGORITHM = -1 };

struct gs_blas {
    void *library, *handle;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cu_stream stream);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    const char *(*name_status)(int status);
    int (*multiply)(void *handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha,
                    const void *a, int a_type, int a_stride, const void *b, int b_type, int b_stride, const void *beta,
                    void *c, int c_type, int c_stride, int compute_type, int algorithm);
};

static bool find_symbol(void *library, const char *name, void *pointer) {
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

gs_blas *gs_blas_open(const char *path, gs_error *error) {
    const char *const names[] = {path,
                                 "libcublas.so.13",
                                 "libcublas.so.12",
                                 "libcublas.so",
                                 "/usr/local/cuda/lib64/libcublas.so.13",
                                 "/usr/local/cuda/lib64/libcublas.so.12"};
    gs_blas *opened = calloc(1, sizeof *opened);
    if (!opened) {
        gs_fail_memory(error);
        return NULL;
    }
    for (size_t i = 0; i < GS_COUNT(names) && !opened->library; i++)
        opened->library = names[i] ? dlopen(names[i], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (opened->library && find_symbol(opened->library, "cublasCreate_v2", &opened->create) &&
        find_symbol(opened->library, "cublasDestroy_v2", &opened->destroy) &&
        find_symbol(opened->library, "cublasSetStream_v2", &opened->set_stream) &&
        find_symbol(opened->library, "cublasSetWorkspace_v2", &opened->set_workspace) &&
        find_symbol(opened->library, "cublasGetStatusName", &opened->name_status) &&
        find_symbol(opened->library, "cublasGemmEx", &opened->multiply))
        return opened;
    gs_fail(error, GS_E_IO, "cuBLAS was not found (%.150s)",
            opened->library ? "the library lacks a function" : dlerror());
    gs_blas_close(opened);
    return NULL;
}

static gs_code check_blas(const gs_blas *blas, int status, const char *what, gs_error *error) {
    return status ? gs_fail(error, GS_E_IO, "cuBLAS: %s failed: %.60s (%d)", what, blas->name_status(status), status)
                  : GS_OK;
}

static gs_code start_blas(gs_blas *blas, gs_error *error) {
    int status = blas->handle ? 0 : blas->create(&blas->handle);
    if (status)
        blas->handle = NULL; /* whatever it is: the next use tries again */
    return check_blas(blas, status, "starting", error);
}

/* A new stream resets the workspace, so that is set after it. */
gs_code gs_blas_use(gs_blas *blas, cu_stream stream, cu_pointer workspace, uint64_t workspace_bytes, gs_error *error) {
    gs_code code = start_blas(blas, error);
    if (code == GS_OK)
        code = check_blas(blas, blas->set_stream(blas->handle, stream), "setting a stream", error);
    if (code == GS_OK && workspace)
        code = check_blas(blas, blas->set_workspace(blas->handle, (void *)(uintptr_t)workspace, workspace_bytes),
                          "setting a workspace", error);
    return code;
}

gs_code gs_blas_multiply(gs_blas *blas, const gs_product *product, const cu_pointer *matrices, gs_error *error) {
    const float one = 1, zero = 0;
    int type = product->is_bfloat16 ? BFLOAT16 : HALF;
    int status =
        blas->multiply(blas->handle, product->is_b_transposed ? TRANSPOSED : PLAIN, PLAIN, product->columns,
                       product->rows, product->depth, &one, (const void *)(uintptr_t)matrices[1], type,
                       product->is_b_transposed ? product->depth : product->columns,
                       (const void *)(uintptr_t)matrices[0], type, product->depth, &zero,
                       (void *)(uintptr_t)matrices[2], FLOAT32, product->columns, COMPUTE_FLOAT32, ANY_ALGORITHM);
    return check_blas(blas, status, "a product", error);
}

void gs_blas_close(gs_blas *blas) {
    if (blas && blas->handle)
        blas->destroy(blas->handle);
    free(blas); /* the library stays: it has threads and contexts of its own */
}
