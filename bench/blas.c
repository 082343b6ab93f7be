/*
 * blas.c: the matrix product of cuBLAS, for bench/pairs: C = A B^T with bfloat16 in and floats out, as wgemm computes
 * it.
 *
 * The library is opened at run time, and only the functions that are needed are declared here. It uses the context that
 * is current.
 */
#include "pairs.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSPOSED = 1, PLAIN = 0, BFLOAT16 = 14, FLOAT32 = 0, COMPUTE_FLOAT32 = 68, ANY_ALGORITHM = -1 };

struct pair_blas {
    void *library, *handle;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cu_stream stream);
    int (*multiply)(void *handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha,
                    const void *a, int a_type, int a_stride, const void *b, int b_type, int b_stride, const void *beta,
                    void *c, int c_type, int c_stride, int compute_type, int algorithm);
};

static bool find(void *library, const char *name, void *pointer) {
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

pair_blas *blas_open(const char *path, char *why, size_t size) {
    const char *const names[] = {path, "libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                 "/usr/local/cuda/lib64/libcublas.so"};
    pair_blas *opened = calloc(1, sizeof *opened);
    for (size_t i = 0; i < GS_COUNT(names) && opened && !opened->library; i++)
        opened->library = names[i] ? dlopen(names[i], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (opened && opened->library && find(opened->library, "cublasCreate_v2", &opened->create) &&
        find(opened->library, "cublasDestroy_v2", &opened->destroy) &&
        find(opened->library, "cublasSetStream_v2", &opened->set_stream) &&
        find(opened->library, "cublasGemmEx", &opened->multiply))
        return opened;
    snprintf(why, size, "cuBLAS was not found (%.150s)", opened && !opened->library ? dlerror() : "");
    blas_close(opened);
    return NULL;
}

bool blas_load(pair_blas *blas, cu_stream stream) {
    if (blas->create(&blas->handle) == 0 && blas->set_stream(blas->handle, stream) == 0)
        return true;
    fprintf(stderr, "pairs: cuBLAS does not start\n");
    return false;
}

bool blas_use(pair_blas *blas, cu_stream stream) {
    return blas->set_stream(blas->handle, stream) == 0;
}

/* cuBLAS stores matrices by columns: what it calls B is A, by rows. */
bool blas_multiply(pair_blas *blas, cu_pointer a, cu_pointer b, cu_pointer c) {
    const float one = 1, zero = 0;
    int failed =
        blas->multiply(blas->handle, TRANSPOSED, PLAIN, BLAS_SIDE, BLAS_SIDE, BLAS_SIDE, &one,
                       (const void *)(uintptr_t)b, BFLOAT16, BLAS_SIDE, (const void *)(uintptr_t)a, BFLOAT16, BLAS_SIDE,
                       &zero, (void *)(uintptr_t)c, FLOAT32, BLAS_SIDE, COMPUTE_FLOAT32, ANY_ALGORITHM);
    if (failed)
        fprintf(stderr, "pairs: cuBLAS failed with code %d\n", failed);
    return !failed;
}

void blas_close(pair_blas *blas) {
    if (blas && blas->handle)
        blas->destroy(blas->handle);
    free(blas); /* the library stays: it has threads and contexts of its own */
}
