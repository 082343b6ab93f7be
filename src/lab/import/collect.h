/*
 * collect.h: the contents of a trace, and the runs made from it. Private to this room.
 *
 * Traces list the work of the GPU and the calls of the host, connected by a correlation number. An importer adds both
 * in any order; gs_collect_runs joins them.
 */
#ifndef GS_COLLECT_H
#define GS_COLLECT_H

#include "import.h"
#include "model/gpu/gpu.h"

/* What a trace should say of its work. The first five are needed to make a run; for the others something is assumed. */
typedef enum gs_trace_field {
    GS_TRACE_START,
    GS_TRACE_END,
    GS_TRACE_STREAM,
    GS_TRACE_GRID,
    GS_TRACE_BLOCK,
    GS_TRACE_REGISTERS,
    GS_TRACE_SHARED,
    GS_TRACE_LOCAL,
    GS_TRACE_PRIORITY,
    GS_TRACE_CORRELATION,
    GS_TRACE_DEVICE,
    GS_TRACE_NAME,
    GS_TRACE_BYTES,
    GS_TRACE_KIND, /* of a copy */
    GS_TRACE_CONTEXT,
    GS_TRACE_PROCESS,
    GS_TRACE_FIELDS
} gs_trace_field;

/* Which of them were given: a bit for each. */
typedef unsigned gs_trace_fields;

typedef enum gs_traced_op { GS_TRACED_LAUNCH, GS_TRACED_COPY, GS_TRACED_MEMSET } gs_traced_op;

/* Data shared by many launches of a trace. It is stored once and compared bytewise, so initialize it with
   gs_traced_what_none. Numbers that the trace lacks are GS_NOT_GIVEN. */
typedef struct gs_traced_what {
    const char *name; /* of a kernel; kept with gs_collect_name */
    int64_t shared_bytes, static_shared_bytes, shared_config_bytes, local_bytes, bytes;
    int64_t process, context, green_context, graph, stream;
    int32_t device;
    int32_t op, copy_kind;
    int32_t registers, priority, is_cooperative;
    int32_t grid[3], block[3];
} gs_traced_what;

/* A launch, copy or memset. */
typedef struct gs_traced {
    const gs_traced_what *what;
    int64_t start_ns, end_ns;
    int64_t at_ns;         /* of the call */
    uint64_t call;         /* the key of the call, see gs_collect_call */
    bool has_call;         /* it is in the trace */
    int32_t stream_number; /* of the collection; set when it is added */
    int64_t node;
    uint32_t order;  /* of adding */
    uint32_t number; /* its number among the launches or copies of its run */
} gs_traced;

/* A stream of the trace. */
typedef struct gs_traced_stream {
    int64_t process, context, stream;
    int32_t device;
    int64_t beside_ns; /* while times are set: that of the work after or before in the stream */
    char name[64];     /* as runs name it; "": not set */
    bool is_number;
} gs_traced_stream;

/* A stream waits for an event recorded in another. Both are given by their calls. */
typedef struct gs_traced_wait {
    uint64_t wait_call, record_call;
    int32_t waits, records; /* numbers of streams */
} gs_traced_wait;

/* A range that the program named, in the time of the host. */
typedef struct gs_traced_range {
    const char *name; /* kept with gs_collect_name */
    int64_t from_ns, to_ns;
} gs_traced_range;

typedef struct gs_traced_gpu {
    int64_t device;
    char *name;
    /* 0: not known */
    int32_t sms, major, minor, threads_per_sm, registers_per_sm;
    int64_t shared_per_sm_bytes;
} gs_traced_gpu;

typedef struct gs_collection {
    gs_strings strings;
    struct {
        gs_traced *data;
        size_t count, capacity;
    } traced;
    struct gs_calls {
        struct gs_call {
            uint64_t call;
            int64_t at_ns;
        } * data;
        size_t count, capacity;
    } calls;
    struct {
        gs_traced_stream *data;
        size_t count, capacity;
    } streams;
    struct {
        gs_traced_wait *data;
        size_t count, capacity;
    } waits;
    struct {
        gs_traced_range *data;
        size_t count, capacity;
    } ranges;
    struct {
        gs_traced_gpu *data;
        size_t count, capacity;
    } gpus;
    int64_t unix_ns;                 /* the Unix time of time 0 of the trace, or GS_NOT_GIVEN */
    const char *recorder;            /* the name of the tool */
    const char *lacks;               /* the keys that the tool does not record, separated by spaces */
    const char *const *field_names;  /* how the tool calls each field */
    size_t missing[GS_TRACE_FIELDS]; /* launches and copies without a field */
    size_t calls_without_id;         /* calls of the host without a correlation number */
    bool has_waits;                  /* the trace has waits between streams */
    size_t without_call;             /* launches and copies without a call, counted when runs are made */
    size_t unnamed_waits;            /* waits that do not say which stream waits for what */
    size_t lost_waits;               /* waits whose calls, or whose record of an event, are not in the trace */
    size_t waits_between_gpus;
    size_t whole_graphs; /* launches of graphs whose kernels are not in the trace */
} gs_collection;

gs_traced_what gs_traced_what_none(void);

/* Makes a name printable, and stores it at a stable address. NULL: out of memory. */
const char *gs_collect_name(gs_collection *collection, char *name);

/* The key of a call: correlation numbers are unique in a process. */
static inline uint64_t gs_collect_call(int64_t process, int64_t correlation) {
    return (uint64_t)process << 32 ^ ((uint64_t)correlation & UINT32_MAX);
}

/* A time within limits, so that sums and differences of times do not overflow. */
static inline int64_t gs_collect_time(int64_t nanoseconds) {
    return gs_max(-(INT64_MAX / 4), gs_min(nanoseconds, INT64_MAX / 4));
}

/* Adds work of the GPU, of which the trace gives these fields. Its `what` is a copy of the given one. */
gs_code gs_collect_add(gs_collection *collection, const gs_traced_what *what, gs_trace_fields given, gs_traced traced,
                       gs_error *error);
gs_code gs_collect_add_call(gs_collection *collection, uint64_t call, int64_t at_ns, gs_error *error);
gs_code gs_collect_add_range(gs_collection *collection, const gs_traced_range *range, gs_error *error);
gs_code gs_collect_add_wait(gs_collection *collection, const gs_traced_wait *wait, gs_error *error);
/* Takes ownership of the name, even if it fails. */
gs_code gs_collect_add_gpu(gs_collection *collection, gs_traced_gpu gpu, gs_error *error);

/* The number of a stream, added if it is new; -1: out of memory. */
int32_t gs_collect_stream(gs_collection *collection, int64_t process, int64_t context, int32_t device, int64_t stream);

/* Appends a run for each GPU, or for one. */
gs_code gs_collect_runs(gs_collection *collection, int64_t device, gs_imported *imported, gs_error *error);

void gs_collection_free(gs_collection *collection);

/* ---- what a trace does not say (missing.c) ---- */

/* Refuses work without which there is no run; counts what else is missing. */
gs_code gs_check_fields(gs_collection *collection, const gs_traced_what *what, gs_trace_fields given, gs_error *error);

/* The keys of `lacks`: those that the tool never records, and those that are missing in this trace. The caller frees
   it; NULL: out of memory. */
char *gs_lacking_keys(const gs_collection *collection);

/* Notes the keys that the tool does not record and that some run still lacks. */
void gs_put_lacking(const gs_collection *collection, gs_run *const *runs, size_t count, const char *file,
                    gs_text *notes);

/* Notes on what is missing; those for values that were supplied since, which no run lacks any more, are left out. */
void gs_put_missing(const gs_collection *collection, gs_run *const *runs, size_t count, const char *file,
                    gs_text *notes);

/* ---- the description of a GPU that is nearest to one without (nearest.c) ---- */

/* The built-in description that is most like a GPU. The caller frees it; NULL: out of memory. */
gs_gpu *gs_nearest_gpu(const gs_traced_gpu *gpu);

/* ---- the importers ---- */

gs_code gs_import_kineto(gs_input *input, gs_collection *collection, gs_error *error);
gs_code gs_import_nsys(const char *path, gs_collection *collection, gs_error *error);
struct sqlite3;
gs_code gs_import_nsys_database(struct sqlite3 *sqlite, const char *path, gs_collection *collection, gs_error *error);
gs_code gs_import_resources(gs_input *input, gs_kernel_list *kernels, gs_error *error);

/* ---- supplied values ---- */

/* Refuses settings whose pattern matches no kernel of the runs and of the list. */
gs_code gs_check_patterns(const gs_import_options *options, const gs_imported *imported, gs_error *error);

/* Changes the resources of a kernel as the settings say; a stack that they supply is known. */
gs_code gs_supply_kernel(const gs_import_options *options, gs_kernel_entry *kernel, gs_error *error);

/* Changes one launch as the settings say. Its strings are not changed. */
gs_code gs_supply_launch(const gs_import_options *options, gs_launch *launch, gs_error *error);

/* Changes the launches of a run as the settings say, and as a recording of the same program says. */
gs_code gs_supply(const gs_import_options *options, gs_run *run, gs_text *notes, gs_error *error);

#endif
