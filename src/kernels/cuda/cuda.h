/*
 * cuda.h: the CUDA driver and its run-time compiler, opened at run time.
 *
 * Read from top to bottom:
 *
 *   driver        the table of driver and NVRTC calls, and the driver's constants (driver.h, driver.c)
 *   contexts      a GPU, or a part of one, made current (context.c, green.c)
 *   kernels       loaded, launched, stopped, continued and waited for (kernel.h, kernel.c, control.c)
 *   compiling     CUDA C and PTX for a GPU that need not be there (nvrtc.c, assembler.c, cubin.c)
 *   work          buffers, and calls of kernels on them (work.c)
 *   executors     where work runs: a GPU (executor.c), the CPU (src/kernels/cpu), a daemon (src/sharing/client)
 *   app streams   asynchronous launches, as an application makes them (app_stream.c)
 *   products      matrix products, and the documents that name them (product.c)
 *   blas          the same by cuBLAS, opened at run time (blas.c)
 *
 * No header and no library of CUDA is needed to build.
 */
#ifndef GS_CUDA_H
#define GS_CUDA_H

#include "kernel.h"

/* ---- work: buffers, and calls of kernels on them ---- */

typedef struct gs_work {
    struct {
        gs_job_call *data;
        size_t count, capacity;
    } calls;
    struct {
        gs_job_argument *data;
        size_t count, capacity;
    } arguments;
    struct {
        struct gs_work_buffer {
            void *data; /* owned by the caller; read before the first call, written after the last */
            size_t bytes;
        } * data;
        size_t count, capacity;
    } buffers;
    uint32_t threads, sms, seconds; /* of the CPU: see gs_job */
    bool backwards, shuffled;
    uint64_t seed;
    bool discards_results; /* the buffers are not written: only the times of the calls are of interest; */
    uint64_t kept_as;      /* not 0: a GPU keeps them, as they are then, for the next work of this number */
    bool failed;           /* out of memory while calls were added; reported when it runs */
} gs_work;

/* Adds memory of the caller, which must outlive the work. Returns its number. */
int32_t gs_work_buffer(gs_work *work, void *data, size_t bytes);
/* Adds a call without arguments; gs_work_pass adds them. The pointer is valid until the next call is added. */
gs_job_call *gs_work_call(gs_work *work, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes);
void gs_work_pass_buffer(gs_work *work, int32_t buffer);
void gs_work_pass(gs_work *work, const void *value, size_t bytes);
void gs_work_free(gs_work *work); /* not the buffers */

/* ---- executors: where work runs ---- */

/* A source to compile, and the kernels of it that are called. */
typedef struct gs_build {
    const char *name, *text; /* the name of the source in errors, and its text */
    size_t size;
    const char *const *kernels; /* names, with their template arguments: "reduce<256>" */
    size_t kernel_count;
    const char *const *options; /* for the compiler: "-DTILE=16" */
    size_t option_count;
    const char *const *known_as;      /* on the CPU, of PTX: other names by which callers know the kernels, or NULL */
    bool address_sanitizer;           /* on the CPU: detect accesses out of bounds */
    bool as_library;                  /* on the CPU: make a shared library with gs_host_launch, not a program */
    const char *const *ptxas_options; /* of PTX: more words for ptxas */
    size_t ptxas_option_count;
    uint32_t max_registers; /* on a GPU: the most registers of a thread; 0: the compiler decides */
    bool with_lines;        /* on a GPU, of PTX: keep which line an instruction is of */
    bool is_watched;        /* the caller watches this process group: compilers stay in it */
} gs_build;

/* Whether the text is PTX, not CUDA: its first word is `.version`. Kernels are then named by their symbols. */
bool gs_build_is_ptx(const gs_build *build);

/* The resources of a compiled kernel. */
typedef struct gs_cost {
    int32_t registers, local_bytes, shared_bytes; /* per thread, per thread, per block (static) */
    int32_t spill_stores, spill_loads;            /* bytes */
    int32_t blocks_per_sm, sms;                   /* how many blocks fit at once; 0: not known */
} gs_cost;

typedef struct gs_executor gs_executor;

typedef struct gs_executor_ops {
    const char *name;
    /* Starts compiling; errors may be reported when it runs. The returned module is freed with the executor. */
    void *(*compile)(gs_executor *executor, const gs_build *build, gs_error *error);
    gs_code (*run)(void *module, gs_work *work, gs_error *error);
    /* The resources of a kernel of the module, with blocks of this shape. All zero: not known. */
    gs_code (*cost)(void *module, const char *kernel, const uint32_t block[3], size_t shared_bytes, gs_cost *cost,
                    gs_error *error);
    void (*close)(gs_executor *executor);
} gs_executor_ops;

struct gs_executor {
    const gs_executor_ops *ops;
    void *inside;
    char uuid[48], driver[24]; /* of a real GPU: see gs_device; or "" */
};

void gs_executor_close(gs_executor *executor);

/* A GPU, or a part of one, as an executor; `rest` is the part of its name after "cuda:", or "". */
gs_executor *gs_executor_cuda(const char *rest, gs_error *error);

/* Kernels compiled for a GPU, which need not be there. */
typedef struct gs_cubin {
    char *image; /* for the driver to load */
    size_t bytes;
    char **symbols; /* of each kernel of the build: its name for the driver */
    gs_cost *costs; /* of each; blocks_per_sm is 0 */
    size_t count;
} gs_cubin;

/* Compiles CUDA C by NVRTC, or PTX by ptxas, for an architecture (90: compute capability 9.0). The caller frees the
   result. GS_E_KERNEL: the text has an error; GS_E_NO_GPU: there is no NVRTC, or no ptxas. */
gs_code gs_cubin_make(const gs_build *build, int architecture, gs_cubin *cubin, gs_error *error);
void gs_cubin_free(gs_cubin *cubin);
/* The same, of which only the costs of `build->kernels` are kept; `costs` may be NULL. */
gs_code gs_cubin_costs(const gs_build *build, int architecture, gs_cost *costs, gs_error *error);

/* The program of ptxas: $GRIDSMITH_PTXAS, that of the toolkit, or that in PATH. False: there is none. */
bool gs_assembler_find(char *path, size_t size);
/* The file of the library of NVRTC, or "". */
void gs_nvrtc_library(char *path, size_t size);

/* Inside: the parts of gs_cubin_make. Assembles PTX; and what ptxas says of a kernel in its output, `log`, or NULL. */
gs_code gs_assemble(const gs_build *build, int architecture, gs_cubin *cubin, gs_error *error);

/* Words for ptxas. */
typedef struct gs_ptxas_words {
    char **data;
    size_t count, capacity;
} gs_ptxas_words;

/* Adds what ptxas is told by options of nvcc: "-maxrregcount=32", "-Xptxas", "-O1,-v", "-G". Others are not for it. The
   caller frees the words, also if it fails. GS_E_USAGE: an option lacks its value, or is for code that is linked. */
gs_code gs_ptxas_words_of(gs_ptxas_words *words, const char *const *options, size_t count, gs_error *error);
void gs_ptxas_words_free(gs_ptxas_words *words);
gs_cost gs_ptxas_cost(const char *log, const char *symbol);

/* The folders in which NVRTC looks for headers, in order. Returns how many there are. */
size_t gs_nvrtc_folders(char folders[2][300]);

/* ---- app streams: asynchronous launches on a stream, as an application makes them ---- */

typedef struct gs_app_stream gs_app_stream;

/* A stream has this many tracks, each a stream of the driver or of a client: as many as the daemon looks at launches of
   one client. Launches on one are executed in order; copies, and launches that say nothing else, are on track 0. */
enum { GS_APP_TRACKS = 4 };

/* One launch. For an argument that is a buffer, the kernel gets the address of that buffer in `buffers`. */
typedef struct gs_app_launch {
    uintptr_t module;
    uint32_t kernel; /* number in its build */
    uint32_t track;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    const gs_job_argument *arguments;
    uint32_t argument_count;
    const uint64_t *buffers;
} gs_app_launch;

/* What an application does with a GPU. Requests of a track are executed in order; only functions marked "waits" wait. A
   kernel that failed is reported by a later call. Memory and modules are freed with the stream. */
typedef struct gs_app_stream_ops {
    const char *name;
    gs_code (*enter)(gs_app_stream *stream, gs_error *error); /* from now on only this thread may use it */
    gs_code (*allocate)(gs_app_stream *stream, size_t bytes, uint64_t *address, gs_error *error); /* zeros; waits */
    gs_code (*copy_in)(gs_app_stream *stream, uint64_t to, const void *from, size_t bytes, gs_error *error); /* waits */
    gs_code (*copy_out)(gs_app_stream *stream, void *to, uint64_t from, size_t bytes, gs_error *error);      /* waits */
    gs_code (*load)(gs_app_stream *stream, const gs_build *build, uintptr_t *module, gs_error *error);       /* waits */
    gs_code (*launch)(gs_app_stream *stream, const gs_app_launch *call, gs_error *error);
    /* What track `after` gets from now on begins when all that track `before` has got until now has ended. May wait. */
    gs_code (*order)(gs_app_stream *stream, uint32_t before, uint32_t after, gs_error *error);
    gs_code (*wait)(gs_app_stream *stream, gs_error *error); /* waits for all requests of all tracks */
    gs_code (*poll)(gs_app_stream *stream, bool *is_done,
                    gs_error *error); /* whether those of track 0 are done; NULL: only `wait` */
    /* What is loaded from now on: launches of the zoo's `tgemm` are products of cuBLAS. */
    gs_code (*use_blas)(gs_app_stream *stream, gs_error *error);
    void (*close)(gs_app_stream *stream);
} gs_app_stream_ops;

struct gs_app_stream {
    const gs_app_stream_ops *ops;
    void *inside;
};

/* A stream of a GPU, or of a part of one; `rest` is the part of its name after "cuda:", or "". */
gs_app_stream *gs_app_stream_cuda(const char *rest, gs_error *error);
void gs_app_stream_close(gs_app_stream *stream);

/* ---- products: C = A B, all by rows ---- */

/* A has `rows` x `depth` numbers of 16 bits, B `depth` x `columns`, C `rows` x `columns` floats. */
typedef struct gs_product {
    int32_t rows, columns, depth;
    int32_t is_b_transposed; /* B has `columns` x `depth` numbers */
    int32_t is_bfloat16;     /* A and B are bfloat16, not halves */
} gs_product;

enum { GS_PRODUCT_MATRICES = 3 };
#define GS_PRODUCT_KERNEL "product" /* the kernel that a product is to callers: its parameters are A, B and C */

/* Whether a text is the document of a product, and no code. */
bool gs_product_is(const char *text, size_t size);
/* Reads and writes that document, a gridsmith.product/1. A product that was read has no matrix without numbers, or of
   more than 4 GiB. */
gs_code gs_product_read(const char *name, const char *text, size_t size, gs_product *product, gs_error *error);
void gs_product_write(const gs_product *product, gs_text *text);
/* The size of A (0), B (1) or C (2). */
uint64_t gs_product_bytes(const gs_product *product, size_t matrix);
/* A kernel that computes it with any grid, slowly: for the CPU. */
void gs_product_ptx(const gs_product *product, gs_text *text);
/* The product that a launch of the zoo's `tgemm` computes; its buffers are the first three arguments. */
gs_product gs_product_of_tgemm(const gs_app_launch *launch);
/* Whether the kernels of a build are the zoo's `tgemm`; the first of them is launched so. */
bool gs_product_is_tgemm(const gs_build *build);

/* ---- blas: products of cuBLAS ---- */

typedef struct gs_blas gs_blas;

/* The workspace that cuBLAS recommends for an architecture (90: compute capability 9.0). */
static inline uint64_t gs_blas_workspace_bytes(int architecture) {
    return (uint64_t)(architecture >= 90 ? 32 : 4) << 20;
}

/* `path` is a library, or NULL: that of the system or of the toolkit. NULL: not found. */
gs_blas *gs_blas_open(const char *path, gs_error *error);
/* Starts it the first time, in the context that is current. What it multiplies from now on is on this stream, and uses
   this workspace; 0: one of its own. One thread at a time. */
gs_code gs_blas_use(gs_blas *blas, cu_stream stream, cu_pointer workspace, uint64_t workspace_bytes, gs_error *error);
/* Multiplies the matrices A, B and C; does not wait. */
gs_code gs_blas_multiply(gs_blas *blas, const gs_product *product, const cu_pointer *matrices, gs_error *error);
void gs_blas_close(gs_blas *blas); /* waits for all kernels; may be NULL */

#endif
