/* variant.h: a way to run a kernel, the original or a reshaped one, and runs of it. For this room only. See
   verify_run.c. */
#ifndef GS_VARIANT_H
#define GS_VARIANT_H

#include "launch.h"

#include <stdio.h>
#include <string.h>

/* The original as a variant. */
gs_variant gs_variant_original(const gs_launch_file *launch, const char *kernel);

enum { GS_VERIFY_NUMBER = 32 };

/* A number as text: integers whole. */
static inline const char *gs_verify_number(gs_scalar type, const void *data, size_t element,
                                           char into[static GS_VERIFY_NUMBER]) {
    bool is_integer = type == GS_INT32 || type == GS_UINT32 || type == GS_UINT8;
    int64_t number;
    if (type == GS_INT64) {
        memcpy(&number, (const char *)data + element * sizeof number, sizeof number);
        snprintf(into, GS_VERIFY_NUMBER, "%lld", (long long)number);
    } else {
        snprintf(into, GS_VERIFY_NUMBER, "%.*g", is_integer ? 17 : 9, gs_scalar_value(type, data, element));
    }
    return into;
}

/* ---- verify_variables.c ---- */

/* A variable that is compared. */
typedef struct gs_verify_variable {
    uint32_t name; /* token */
    gs_scalar type;
    bool is_bytes; /* declared so: `type` is that of the accesses */
    uint64_t at;   /* in the buffer of all variables */
    size_t count;
} gs_verify_variable;

typedef struct gs_verify_variables {
    const gs_ptx_module *module;
    gs_verify_variable *data;
    size_t count, capacity;
    uint64_t bytes; /* of all */
} gs_verify_variables;

/* The entry that copies them. */
#define GS_VERIFY_VARIABLES "gridsmith_copies_variables"

/* Finds the variables that a kernel can reach. The caller frees them, also after a failure. */
gs_code gs_verify_variables_find(gs_verify_variables *variables, const gs_ptx_module *module, uint32_t function,
                                 gs_error *error);
void gs_verify_variables_free(gs_verify_variables *variables);
/* Appends the entry that copies them to the text of the module. */
void gs_verify_variables_put(const gs_verify_variables *variables, gs_text *into);
/* Adds a call of that entry; `data` has the bytes of all variables after the work. */
void gs_verify_variables_call(const gs_verify_variables *variables, void *data, gs_work *work);
/* Whether two such buffers are the same. Otherwise `*reason` has the first difference. */
bool gs_verify_variables_agree(const gs_verify_variables *variables, const void *first, const void *second,
                               double tolerance, gs_error *reason);
/* Appends to the message of a reason. */
void gs_verify_add_words(gs_error *reason, const char *words);

/* ---- verify_accesses.c ---- */

/* How numbers of a type are compared. Those that have no name here are compared as bytes. */
gs_scalar gs_verify_scalar(gs_ptx_type type);

/* Whether a kernel, or functions, can reach a variable of the module, and the type of all accesses; GS_UINT8: it is not
   known. */
gs_code gs_verify_accesses(const gs_ptx_module *module, uint32_t function, uint32_t variable, bool *is_reached,
                           gs_scalar *type, gs_error *error);

/* ---- verify_run.c ---- */

/* The inputs and outputs of a launch: an allocation for each argument that is a buffer, and one for variables. */
typedef struct gs_buffers {
    void **data;
    size_t count;
    void *variables;
} gs_buffers;

void gs_buffers_free(gs_buffers *buffers);

/* A compiled variant, and its last run. */
typedef struct gs_verify_run {
    gs_executor *executor;
    const gs_launch_file *launch;
    const gs_verify_options *options;
    gs_variant *variant;
    void *module;
    gs_buffers buffers;    /* after a run: the results */
    uint64_t elapsed_ns;   /* of the last run */
    uint32_t launches;     /* in it */
    uint64_t first_blocks; /* how many blocks run; 0: all */
    bool backwards;        /* threads in reverse order */
    bool is_timed;         /* compiled and run without counting blocks */
    uint32_t calls;        /* how often a run calls the kernel; 0: once */
    uint64_t *times_ns;    /* of each call, or NULL */
    uint32_t *counts;      /* counts of how often each block ran, or NULL */
    uint64_t blocks;
} gs_verify_run;

gs_code gs_verify_run_compile(gs_verify_run *run, const gs_source *source, gs_error *error);
gs_code gs_verify_run_execute(gs_verify_run *run, gs_error *error);
void gs_verify_run_free(gs_verify_run *run);

/* Compares the results of two runs. True: they are the same. Otherwise `*reason` has the first difference, `*argument`
   and `*element` its place; `*argument` is SIZE_MAX for a variable. */
bool gs_verify_runs_agree(const gs_verify_run *first, const gs_verify_run *second, double tolerance, gs_error *reason,
                          size_t *argument, size_t *element);

/* Runs the original and a variant of it, which is freed, and compares them. */
gs_code gs_verify_variant(gs_executor *executor, const gs_source *source, const gs_launch_file *launch,
                          const gs_verify_options *options, gs_variant *variant, gs_verify_result *result,
                          gs_error *error);

#endif
