/* variant.h: a way to run a kernel, the original or a reshaped one, and runs of it. For this room only. See
   verify_run.c. */
#ifndef GS_VARIANT_H
#define GS_VARIANT_H

#include "launch.h"

/* The original as a variant. */
gs_variant gs_variant_original(const gs_launch_file *launch, const char *kernel);

/* The inputs and outputs of a launch: an allocation for each argument that is a buffer. */
typedef struct gs_buffers {
    void **data;
    size_t count;
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
   and `*element` its place. */
bool gs_verify_runs_agree(const gs_verify_run *first, const gs_verify_run *second, double tolerance, gs_error *reason,
                          size_t *argument, size_t *element);

/* Runs the original and a variant of it, which is freed, and compares them. */
gs_code gs_verify_variant(gs_executor *executor, const gs_source *source, const gs_launch_file *launch,
                          const gs_verify_options *options, gs_variant *variant, gs_verify_result *result,
                          gs_error *error);
/* Appends to the message of a reason. */
void gs_verify_add_words(gs_error *reason, const char *words);

#endif
