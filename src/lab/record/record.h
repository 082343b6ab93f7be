/*
 * record.h: `gridsmith trace`: runs a program with a recorder in it (recording.c). recorder.h lists the files of the
 * recorder.
 */
#ifndef GS_RECORD_H
#define GS_RECORD_H

#include "base/base.h"

/* ---- recording a program ---- */

/* The source of launches: CUPTI; a library in front of the driver, which does not know when kernels run; or CUPTI if
   there is one, otherwise the library. */
typedef enum gs_trace_through { GS_TRACE_ANY, GS_TRACE_BY_CUPTI, GS_TRACE_BY_DRIVER } gs_trace_through;

typedef struct gs_trace_options {
    const char *output; /* %p in it is the number of the process */
    gs_trace_through through;
    const char *cupti;   /* NULL: search for it */
    int64_t limit_bytes; /* 0: none */
    bool keep_newest;    /* at the limit the oldest lines are dropped, otherwise the newest */
} gs_trace_options;

/* The recording of a process. */
typedef struct gs_trace_process {
    int64_t process, kernels, graph_kernels, copies, memsets, streams, gpus;
    int64_t unknown;     /* kernels, copies and memsets with unknown launch time */
    int64_t dropped;     /* lost by CUPTI */
    int64_t skipped;     /* not kept because of the limit */
    int64_t failed;      /* not written because of an error */
    int64_t silent;      /* calls without a record, such as copies of 0 bytes */
    int64_t duration_ns; /* from the first start to the last end */
    bool has_ended;      /* the recording is complete */
    bool has_times;      /* of the GPU: CUPTI was used */
    char *path;          /* "": no file */
} gs_trace_process;

typedef struct gs_trace_summary {
    gs_trace_process *data; /* of each process that used CUDA */
    size_t count, capacity;
    int exit_status; /* of the program, as a shell reports it */
} gs_trace_summary;

/* Runs a program until it ends and records it. The caller clears the summary, even after an error. */
gs_code gs_trace_program(const gs_trace_options *options, char *const *words, gs_trace_summary *summary,
                         gs_error *error);
void gs_trace_summary_clear(gs_trace_summary *summary);

#endif
