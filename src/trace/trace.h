/*
 * trace.h: real programs as runs.
 *
 *   gs_import     reads the traces of other tools: the PyTorch profiler, Nsight Systems, cuobjdump, ptxas (import.c)
 *   recording.c   runs a program with the recorder in it (recorder.h lists the files of the recorder)
 *
 * A run holds the launches and copies of one GPU. What a tool does not record is named in `lacks` of the run's origin,
 * and can be supplied by the user or by a recording of the same program (supply.c).
 */
#ifndef GS_TRACE_H
#define GS_TRACE_H

#include "run/run.h"

/* ---- recording a program ---- */

/* Who tells of launches: CUPTI; a library in front of the driver, which does not know when kernels run; or the first if
   there is a CUPTI, else the second. */
typedef enum gs_trace_through { GS_TRACE_ANY, GS_TRACE_BY_CUPTI, GS_TRACE_BY_DRIVER } gs_trace_through;

typedef struct gs_trace_options {
    const char *output; /* %p in it is the number of the process */
    gs_trace_through through;
    const char *cupti;   /* NULL: search for it */
    int64_t limit_bytes; /* 0: none */
    bool keep_newest;    /* at the limit the oldest is dropped, else the newest */
} gs_trace_options;

/* What was recorded of a process. */
typedef struct gs_trace_process {
    int64_t process, kernels, graph_kernels, copies, memsets, streams, gpus;
    int64_t unknown;     /* kernels, copies and memsets of which it is not known when the host launched them */
    int64_t dropped;     /* lost by CUPTI */
    int64_t skipped;     /* not kept because of the limit */
    int64_t failed;      /* not written because of an error */
    int64_t silent;      /* calls that left no record, such as copies of no bytes */
    int64_t duration_ns; /* from the first start to the last end */
    bool has_ended;      /* the recording is complete */
    bool has_times;      /* of the GPU: CUPTI was there */
    char *path;          /* "": there is no file */
} gs_trace_process;

typedef struct gs_trace_summary {
    gs_trace_process *data; /* of each process that used CUDA */
    size_t count, capacity;
    int exit_status; /* of the program, as a shell reports it */
} gs_trace_summary;

/* Runs a program until it ends and records it. The caller clears the summary, also after an error. */
gs_code gs_trace_program(const gs_trace_options *options, char *const *words, gs_trace_summary *summary,
                         gs_error *error);
void gs_trace_summary_clear(gs_trace_summary *summary);

/* ---- importing ---- */

typedef struct gs_import_options {
    int64_t device;              /* only this GPU; GS_NOT_GIVEN: all */
    const char *const *settings; /* "PATTERN:KEY=VALUE,...": values for the kernels whose names match */
    size_t setting_count;
    const char *with; /* a recording of the same program that knows more, or NULL */
} gs_import_options;

/* A kernel of which only the resources are known, not how it is launched. */
typedef struct gs_kernel_entry {
    char *name, *architecture;
    int32_t registers;
    int64_t shared_bytes, local_bytes;
} gs_kernel_entry;

typedef struct gs_kernel_list {
    gs_kernel_entry *data;
    size_t count, capacity;
} gs_kernel_list;

/* What a file holds: runs, or kernels. Zero it before the first import. */
typedef struct gs_imported {
    gs_run **data;
    size_t count, capacity;
    gs_kernel_list kernels;
    gs_text notes; /* what the user should know, a line each */
} gs_imported;

/* Reads a trace of any known kind and appends what it holds. */
gs_code gs_import(const char *path, const gs_import_options *options, gs_imported *imported, gs_error *error);
/* The same for the bytes of a file, which must not be a database. */
gs_code gs_import_bytes(const char *name, const char *bytes, size_t count, const gs_import_options *options,
                        gs_imported *imported, gs_error *error);
void gs_imported_free(gs_imported *imported);

/* A run with a launch of each kernel for which the settings give blocks and threads; NULL: there is none, or an error.
   Sets `*left_out` to how many kernels are not in it. */
gs_run *gs_kernels_run(const gs_kernel_list *kernels, const gs_import_options *options, size_t *left_out,
                       gs_error *error);

#endif
