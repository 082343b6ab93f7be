/*
 * blas.c: libcublas.so.13 of the fake driver: products on the CPU, in the order of their stream.
 *
 * What would go wrong on a GPU only now and then always shows: C is full of NaN where two products use one workspace at
 * a time, and where a handle that was given a workspace has lost it to a new stream. A handle that two threads use at a
 * time ends the program.
 */
#include "fake.h"
#include "kernels/cpu/half.h"

#include <dlfcn.h>
#include <math.h>
#include <time.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, NOT_SUPPORTED = 15 };
enum { TRANSPOSED = 1, HALF = 2, BFLOAT16 = 14, SLOW_NS = 30000000 };

struct handle {
    cu_stream stream;
    _Atomic uint32_t *workspace; /* its first word: a product uses it */
    bool had_workspace;
    atomic_bool is_used;
};

/* As cuBLAS sees it: all matrices by columns, of 16 bits but for C. */
struct multiplication {
    int m, n, k, a_stride, b_stride, c_stride;
    bool is_a_transposed, is_b_transposed, is_bfloat16, has_no_workspace;
    const uint16_t *a, *b;
    float *c;
    _Atomic uint32_t *workspace;
};

static void enter(struct handle *handle) {
    if (atomic_exchange(&handle->is_used, true)) {
        fprintf(stderr, "fake cuBLAS: two threads use one handle\n");
        abort();
    }
}

static int leave(struct handle *handle, int status) {
    atomic_store(&handle->is_used, false);
    return status;
}

FAKE_VISIBLE cublasCreate_v2(void **handle) {
    *handle = fake_has("blas-fails") ? NULL : calloc(1, sizeof(struct handle));
    return fake_has("blas-fails") ? NOT_INITIALIZED : *handle ? SUCCESS : ALLOC_FAILED;
}

FAKE_VISIBLE cublasDestroy_v2(void *handle) {
    free(handle);
    return SUCCESS;
}

__attribute__((visibility("default"))) const char *cublasGetStatusName(int status) {
    return status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

FAKE_VISIBLE cublasSetStream_v2(void *given, cu_stream stream) {
    struct handle *handle = given;
    enter(handle);
    handle->stream = stream;
    handle->workspace = NULL;
    return leave(handle, SUCCESS);
}

FAKE_VISIBLE cublasSetWorkspace_v2(void *given, void *workspace, size_t bytes) {
    struct handle *handle = given;
    enter(handle);
    handle->workspace = bytes >= sizeof *handle->workspace ? workspace : NULL;
    handle->had_workspace = true;
    return leave(handle, SUCCESS);
}

static float number_at(const struct multiplication *of, const uint16_t *matrix, size_t at) {
    if (!of->is_bfloat16)
        return gs_half_to(matrix[at]);
    uint32_t bits = (uint32_t)matrix[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float sum_of(const struct multiplication *of, size_t row, size_t column) {
    float sum = 0;
    for (size_t k = 0; k < (size_t)of->k; k++)
        sum += number_at(of, of->a,
                         of->is_a_transposed ? row * (size_t)of->a_stride + k : k * (size_t)of->a_stride + row) *
               number_at(of, of->b,
                         of->is_b_transposed ? k * (size_t)of->b_stride + column : column * (size_t)of->b_stride + k);
    return sum;
}

/* C may lie where A and B do, so it is written at the end. */
static void compute(void *given) {
    struct multiplication *of = given;
    size_t m = (size_t)of->m, count = m * (size_t)of->n;
    bool is_wrong = of->has_no_workspace || (of->workspace && atomic_exchange(of->workspace, 1));
    float *c = malloc(count * sizeof *c);
    for (size_t i = 0; c && i < count; i++)
        c[i] = is_wrong ? NAN : sum_of(of, i % m, i / m);
    if (fake_has("slow-blas"))
        nanosleep(&(struct timespec){.tv_nsec = SLOW_NS}, NULL);
    for (size_t i = 0; c && i < count; i++)
        of->c[i / m * (size_t)of->c_stride + i % m] = c[i];
    if (of->workspace)
        atomic_store(of->workspace, 0);
    free(c);
    free(of);
}

FAKE_VISIBLE cublasGemmEx(void *given, int a_operation, int b_operation, int m, int n, int k, const void *alpha,
                          const void *a, int a_type, int a_stride, const void *b, int b_type, int b_stride,
                          const void *beta, void *c, int c_type, int c_stride, int compute_type, int algorithm) {
    struct handle *handle = given;
    int (*later)(cu_stream, void (*)(void *), void *);
    void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc");
    struct multiplication *made = malloc(sizeof *made);
    (void)alpha, (void)beta, (void)c_type, (void)compute_type, (void)algorithm;
    memcpy(&later, &symbol, sizeof later);
    if (!made || a_type != b_type || (a_type != HALF && a_type != BFLOAT16)) {
        free(made);
        return NOT_SUPPORTED;
    }
    enter(handle);
    *made = (struct multiplication){.m = m,
                                    .n = n,
                                    .k = k,
                                    .a_stride = a_stride,
                                    .b_stride = b_stride,
                                    .c_stride = c_stride,
                                    .is_a_transposed = a_operation == TRANSPOSED,
                                    .is_b_transposed = b_operation == TRANSPOSED,
                                    .is_bfloat16 = a_type == BFLOAT16,
                                    .has_no_workspace = handle->had_workspace && !handle->workspace,
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .workspace = handle->workspace};
    return leave(handle, later(handle->stream, compute, made) == FAKE_OK ? SUCCESS : NOT_SUPPORTED);
}
