/*
 * cpu.h: kernels on the CPU, and whether two kernels compute the same results.
 *
 * Read from top to bottom:
 *
 *   sources    CUDA C as tokens with their places (tokens.c)
 *   elastic    forms with fewer threads, made from sources (elastic.c)
 *   numbers    the types of the elements of buffers (launch.c)
 *   launches   files with the grid, the block and the arguments of a call (launch.c)
 *   rounds     how many rounds loops have for the input of a launch (rounds.c)
 *   host       kernels compiled by the system's compiler and run on the CPU (host.c, ptx_host.c; runtime/ has the code
 *              that they are compiled with)
 *   verifying  the original and the reshaped kernel on the same inputs (verify.c)
 */
#ifndef GS_CPU_H
#define GS_CPU_H

#include "kernels/forms/forms.h"

/* ---- sources ---- */

typedef enum gs_token_kind {
    GS_TOKEN_NAME, /* identifiers and keywords */
    GS_TOKEN_NUMBER,
    GS_TOKEN_STRING,     /* and characters; raw strings with their prefix */
    GS_TOKEN_PUNCTUATION /* one character */
} gs_token_kind;

#define GS_NO_TOKEN UINT32_MAX

typedef struct gs_token {
    uint32_t at, length;
    uint32_t directive; /* the `#` that begins the directive it is in, or GS_NO_TOKEN */
    uint8_t kind;       /* gs_token_kind */
    char punctuation;   /* the character; 0: not punctuation */
} gs_token;

typedef struct gs_source {
    const char *name; /* of the file, for errors; not owned */
    const char *text; /* not owned */
    size_t size;
    struct {
        gs_token *data;
        size_t count, capacity;
    } tokens;
} gs_source;

/* Splits `text` into tokens. Keeps `name` and `text`. */
gs_code gs_source_read(gs_source *source, const char *name, const char *text, size_t size, gs_error *error);
void gs_source_free(gs_source *source);

bool gs_token_is(const gs_source *source, size_t token, const char *word);

/* ---- elastic forms ---- */

/* One way to run a kernel, the original or a reshaped one. */
typedef struct gs_variant {
    enum gs_form form;
    gs_text text;     /* the source; empty for the original, whose source the caller has */
    gs_text unmarked; /* PTX: the same without counting blocks; else empty */
    char kernel[GS_JOB_NAME];
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t max_registers;
    bool needs_queue;                            /* see gs_ptx_form */
    char words[300];                             /* a description of the differences */
    const struct gs_verify_variables *variables; /* those that are compared, too, or NULL: see verify_variables.c */
} gs_variant;

/* Makes guess `number`, from 0 on, of a variant with 1/`factor` (2 or 4) of the threads. `variant` is the original; it
   is changed and gets a text, which the caller frees. Only a run shows whether it computes the same results. False:
   there is no such guess. All numbers are less than GS_ELASTIC_GUESSES. */
enum { GS_ELASTIC_GUESSES = 48 };
bool gs_elastic_guess(const gs_source *source, uint32_t factor, uint32_t number, gs_variant *variant);

/* ---- numbers: the types of the elements of buffers ---- */

typedef enum gs_scalar {
    GS_FLOAT32,
    GS_FLOAT64,
    GS_INT32,
    GS_UINT32,
    GS_INT64,
    GS_UINT8,
    GS_FLOAT16,
    GS_BFLOAT16,
    GS_SCALARS
} gs_scalar;

size_t gs_scalar_bytes(gs_scalar type);
bool gs_scalar_is_real(gs_scalar type); /* a floating-point number */
/* The element `index` of a buffer as a double; exact except for large int64 values. */
double gs_scalar_value(gs_scalar type, const void *data, size_t index);
/* Stores a number in a buffer. For integer types the fraction is dropped. */
void gs_scalar_put(gs_scalar type, double value, void *data, size_t index);
/* The first element that differs between two buffers, or `count`. Real numbers may differ by `tolerance` times the
   larger of 1 and the first one, if it is not 0: then an infinity equals only itself, and all NaN are equal. */
size_t gs_scalars_differ(gs_scalar type, const void *first, const void *second, size_t count, double tolerance);

/* ---- launches: gridsmith.launch/1 ---- */

typedef struct gs_launch_file gs_launch_file;

/* Read a launch; the caller frees it. */
gs_launch_file *gs_launch_read(gs_input *input, gs_error *error);
gs_launch_file *gs_launch_open(const char *path, gs_error *error);
void gs_launch_free(gs_launch_file *launch);

/* The contents of a launch: its grid and block, and its arguments, one by one. */
typedef struct gs_launch_outline {
    uint32_t grid[3], block[3];
    size_t shared_bytes, arguments;
} gs_launch_outline;

typedef struct gs_launch_part {
    bool is_buffer;
    gs_scalar type;
    size_t count;           /* of a buffer: its elements */
    unsigned char value[8]; /* of a value */
} gs_launch_part;

gs_launch_outline gs_launch_outline_of(const gs_launch_file *launch);
gs_launch_part gs_launch_part_at(const gs_launch_file *launch, size_t argument);
/* Fills the memory of a buffer argument with its initial contents. */
void gs_launch_part_fill(const gs_launch_file *launch, size_t argument, void *data);

/* ---- rounds of loops ---- */

/* The most rounds of a loop of PTX, which is closed by the branch in this line; or a line that no thread comes to, or
   one of branches of which each was left by all threads the same way; or one with an access of memory to which some
   thread comes, and the most transactions that it makes, as `rounds`. */
typedef struct gs_loop_rounds {
    uint32_t line;
    int64_t rounds;
    uint32_t first, last, depth; /* of a loop: its lines, and how many loops it is in, with itself */
    bool is_known;               /* its lines say which loop it is; of an access: `rounds` is known */
    bool is_never, is_one_way;
    bool is_access, is_store, is_shared;
    uint32_t bytes; /* of an access: by each lane */
} gs_loop_rounds;

typedef struct gs_loop_rounds_list {
    gs_loop_rounds *data;
    size_t count, capacity;
} gs_loop_rounds_list;

/* Counts the rounds of the loops of a PTX kernel for the input of a launch, on the CPU, and the transactions of its
   loads and stores, and finds the lines that no thread comes to. GS_E_REFUSED: a branch depends on what the CPU may
   compute otherwise than a GPU, or the run takes more than `seconds`. The caller frees list->data. */
gs_code gs_count_rounds(const char *name, const char *text, size_t size, const char *symbol,
                        const gs_launch_file *launch, uint32_t seconds, gs_loop_rounds_list *list, gs_error *error);

/* ---- host: kernels on the CPU ---- */

/* A folder where kernels are compiled. gs_host_close removes it and frees its modules. */
typedef struct gs_host gs_host;
typedef struct gs_module gs_module;

/* Makes the folder. $CC, or cc, compiles PTX that was translated to C. */
gs_host *gs_host_open(gs_error *error);
void gs_host_close(gs_host *host);
/* The folder, which has the headers of the host runtime, and the name of the compiler. */
const char *gs_host_folder(const gs_host *host);
const char *gs_host_compiler(const gs_host *host);

/* Compiles CUDA to PTX, and starts to compile PTX. Several modules may compile at the same time: their errors are
   returned by gs_module_wait and gs_module_run. NULL: an error of the source, or of the system. */
gs_module *gs_host_compile(gs_host *host, const gs_build *build, gs_error *error);
/* Waits for the compiler. GS_E_KERNEL: a compile error. */
gs_code gs_module_wait(gs_module *module, gs_error *error);
/* The path of the compiled file, which exists while the host is open. */
const char *gs_module_path(gs_module *module, char *path, size_t size);
/* Runs the calls in order, in a process of their own, and copies the buffers and times back. GS_E_KERNEL: a kernel
   failed (threads that diverged, a signal, an address out of bounds); GS_E_USAGE: the arguments do not match the
   kernel. */
gs_code gs_module_run(gs_module *module, gs_work *work, gs_error *error);

/* Opens an executor by name ("host", "cuda", "cuda:N"), or the CPU. The caller closes it. */
gs_executor *gs_executor_open(const char *name, gs_error *error);
gs_executor *gs_executor_host(gs_error *error);

/* Translates PTX: appends the C to compile; gridsmith_ptx.h has the instructions. Only `build->kernels` and the
   functions that they call are translated, or everything if the list is empty. GS_E_UNSUPPORTED, with line and caret:
   an instruction that does not run on the CPU. */
gs_code gs_host_translate_ptx(const gs_build *build, gs_text *into, gs_error *error);

/* ---- verifying: the original and the reshaped kernel on the same inputs ---- */

typedef struct gs_verify_options {
    enum gs_form form;
    const char *kernel; /* of a source: with template arguments, if it is a template */
    uint32_t workers, task_blocks, stops;
    uint32_t registers; /* for GS_FORM_REGISTERS: the limit */
    double tolerance;   /* allowed difference of floating-point numbers, relative to the larger of 1 and the original */
    uint64_t seed;      /* for the random times of stops */
    uint32_t seconds;   /* time limit of a kernel */
    uint32_t repeat;    /* how often each kernel runs for its time; 0: once */
    bool address_sanitizer; /* on the CPU: find accesses out of bounds */
    bool looks_back;        /* see gs_ptx_options */
} gs_verify_options;

typedef enum gs_verdict { GS_VERDICT_SAME, GS_VERDICT_DIFFERENT, GS_VERDICT_REFUSED } gs_verdict;

typedef struct gs_verify_result {
    gs_verdict verdict;
    gs_error reason; /* why it was refused, with the place; or the first difference */
    uint64_t original_ns, reshaped_ns;
    uint32_t launches; /* of the reshaped kernel */
} gs_verify_result;

const char *gs_verdict_name(gs_verdict verdict);
/* Runs a kernel of a PTX module and its persistent or confined form, or the same with a limit of registers
   (GS_FORM_REGISTERS). `options->kernel` is not used. A code other than GS_OK is an error in the input or of the
   system; a fault of the reshaped kernel is a verdict. */
gs_code gs_verify_ptx(gs_executor *executor, const gs_ptx_place *place, const gs_launch_file *launch,
                      const gs_verify_options *options, gs_verify_result *result, gs_error *error);

/* The same for elastic forms of a source: searches for variants with a half and a quarter of the threads (only one of
   them if `factor` is 2 or 4). "Same" means: with this launch, on these inputs. Stores the source of the first such
   variant in `text`, if that is not NULL. */
gs_code gs_verify_elastic(gs_executor *executor, const gs_source *source, const gs_launch_file *launch,
                          const gs_verify_options *options, uint32_t factor, gs_text *text, gs_verify_result *result,
                          gs_error *error);

#endif
