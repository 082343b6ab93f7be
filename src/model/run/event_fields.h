/* event_fields.h: the keys of events, for read.c and lines.c: both read the same keys with the same limits. */
#ifndef GS_EVENT_FIELDS_H
#define GS_EVENT_FIELDS_H

#include "run.h"

/* The struct that the fields of an event are read into. */
typedef struct gs_launch_parts {
    gs_launch launch;
    gs_launch_facts facts;
} gs_launch_parts;

typedef struct gs_copy_parts {
    gs_copy copy;
    gs_launch_facts facts;
} gs_copy_parts;

typedef struct gs_range_parts {
    char *name;
    int64_t from_ns, to_ns;
} gs_range_parts;

typedef struct gs_field_table {
    const gs_field *data;
    size_t count;
} gs_field_table;

extern const gs_field_table gs_launch_fields, gs_copy_fields, gs_memset_fields, gs_range_fields;

/* The ids for which launches and copies wait, as they are read. Each belongs to the edge of the same number of
   the run, which gets its launch when the whole run is read. */
typedef struct gs_wanted {
    const char **data;
    size_t count, capacity;
} gs_wanted;

/* Adds the edge and the id for which the latest launch or copy waits. */
gs_code gs_run_want(gs_run *run, gs_wanted *wanted, gs_issue *issue, const char *id, gs_when when, gs_error *error);

/* Finds the launches and copies of these ids, after all events are read and sorted. */
gs_code gs_run_resolve(gs_run *run, const gs_wanted *wanted, gs_error *error);

gs_launch_parts gs_launch_parts_none(void);
gs_copy_parts gs_copy_parts_none(void);

/* Tries to read a line of a file as a launch, copy or memset. If `*is_read` is false, the line must be read as JSON,
   because it has something unusual or wrong, and the run is unchanged. The only error is GS_E_MEMORY. */
gs_code gs_run_read_line(gs_run *run, const char *line, size_t length, uint32_t place, gs_wanted *wanted, bool *is_read,
                         gs_error *error);

#endif
