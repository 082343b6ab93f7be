/*
 * blas.c: matrix products of cuBLAS: C = A B, 16-bit numbers in and floats out, all matrices by rows.
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
    const char *const names[] = {path, "libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                 "/usr/local/cuda/lib64/libcublas.so"};
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
        find_symbol(opened->library, "cublasGemmEx", &opened->multiply))
        return opened;
    gs_fail(error, GS_E_IO, "cuBLAS was not found (%.150s)", opened->library ? "it has no cublasGemmEx" : dlerror());
    gs_blas_close(opened);
    return NULL;
}

gs_code gs_blas_use(gs_blas *blas, cu_stream stream, gs_error *error) {
    if (!blas->handle && blas->create(&blas->handle) != 0)
        return gs_fail(error, GS_E_IO, "cuBLAS does not start");
    return blas->set_stream(blas->handle, stream) == 0 ? GS_OK : gs_fail(error, GS_E_IO, "cuBLAS refused a stream");
}

gs_code gs_blas_multiply(gs_blas *blas, const gs_blas_product *of, gs_error *error) {
    const float one = 1, zero = 0;
    int type = of->is_bfloat16 ? BFLOAT16 : HALF;
    int failed =
        blas->multiply(blas->handle, of->is_b_transposed ? TRANSPOSED : PLAIN, PLAIN, of->columns, of->rows, of->depth,
                       &one, (const void *)(uintptr_t)of->b, type, of->is_b_transposed ? of->depth : of->columns,
                       (const void *)(uintptr_t)of->a, type, of->depth, &zero, (void *)(uintptr_t)of->c, FLOAT32,
                       of->columns, COMPUTE_FLOAT32, ANY_ALGORITHM);
    return failed ? gs_fail(error, GS_E_IO, "cuBLAS failed with code %d", failed) : GS_OK;
}

void gs_blas_close(gs_blas *blas) {
    if (blas && blas->handle)
        blas->destroy(blas->handle);
    free(blas); /* the library stays: it has threads and contexts of its own */
}
