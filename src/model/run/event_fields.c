/*
 * event_fields.c: the keys of launches, copies, memsets and ranges, and their limits.
 *
 * There are two readers: read.c goes through jansson and knows the place of every mistake; lines.c reads the lines of
 * recorded programs, ten times faster. Both use these tables.
 */
#include "event_fields.h"

#define MOST_BLOCKS INT32_MAX
#define MOST_BYTES  ((int64_t)1 << 40)
#define MOST_NS     ((int64_t)1000000000 * 1000000)

#define OTHER(key, required)                                                                                           \
    { key, GS_FIELD_OTHER, required, 0, 0, 0 }
#define LAUNCH(member)    offsetof(gs_launch_parts, launch.member)
#define FACT(member)      offsetof(gs_launch_parts, facts.member)
#define COPY(member)      offsetof(gs_copy_parts, copy.member)
#define COPY_FACT(member) offsetof(gs_copy_parts, facts.member)

/* The numbers of GPUs, processes, contexts, graphs and nodes. */
#define NUMBER(key, at)                                                                                                \
    { key, GS_FIELD_INT64, false, at, 0, INT64_MAX }
#define THREE(key, at)                                                                                                 \
    { key, GS_FIELD_THREE, false, at, 1, INT32_MAX }
#define TIME(key, at)                                                                                                  \
    { key, GS_FIELD_DURATION, false, at, 0, MOST_NS }
#define DURATION(key, at)                                                                                              \
    { key, GS_FIELD_DURATION, false, at, 1, MOST_NS }

/* In the order in which they are written. */
static const gs_field launch_fields[] = {
    OTHER("op", true),
    OTHER("id", false),
    {"kernel", GS_FIELD_NAME, true, LAUNCH(kernel), 0, 0},
    {"blocks", GS_FIELD_INT64, true, LAUNCH(blocks), 1, MOST_BLOCKS},
    {"threads", GS_FIELD_INT32, true, LAUNCH(shape.threads), 1, 65536},
    {"registers", GS_FIELD_INT32, true, LAUNCH(shape.registers), 1, 65536},
    {"shared_bytes", GS_FIELD_INT64, true, LAUNCH(shape.shared_bytes), 0, MOST_BYTES},
    {"local_bytes", GS_FIELD_INT64, false, LAUNCH(shape.local_bytes), 0, MOST_BYTES},
    {"cluster", GS_FIELD_INT32, false, LAUNCH(cluster), 1, 4096},
    {"priority", GS_FIELD_INT32, false, LAUNCH(priority), -1000, 1000},
    {"carveout_percent", GS_FIELD_INT32, false, LAUNCH(shape.carveout_percent), 0, 100},
    OTHER("stream", false),
    DURATION("duration_us", LAUNCH(duration_ns)),
    TIME("spread_us", LAUNCH(spread_ns)),
    TIME("at_us", LAUNCH(issue.at_ns)),
    OTHER("after", false),
    TIME("start_us", LAUNCH(issue.start_ns)),
    TIME("end_us", LAUNCH(issue.end_ns)),
    THREE("grid", FACT(grid)),
    THREE("block", FACT(block)),
    THREE("cluster_shape", FACT(cluster_shape)),
    {"cooperative", GS_FIELD_BOOL, false, FACT(is_cooperative), 0, 0},
    {"static_shared_bytes", GS_FIELD_INT64, false, FACT(static_shared_bytes), 0, MOST_BYTES},
    {"shared_config_bytes", GS_FIELD_INT64, false, FACT(shared_config_bytes), 0, MOST_BYTES},
    NUMBER("device", FACT(device)),
    NUMBER("process", FACT(process)),
    NUMBER("context", FACT(context)),
    NUMBER("green_context", FACT(green_context)),
    NUMBER("graph", FACT(graph)),
    NUMBER("node", FACT(node)),
    OTHER("placed", false),
    OTHER("warp_slots", false),
    OTHER("start_ns", false),
    OTHER("end_ns", false),
    OTHER("why", false),
};

#define COPY_FIELDS                                                                                                    \
    {"bytes", GS_FIELD_INT64, true, COPY(bytes), 0, INT64_MAX}, OTHER("stream", false),                                \
        DURATION("duration_us", COPY(duration_ns)), TIME("at_us", COPY(issue.at_ns)), OTHER("after", false),           \
        TIME("start_us", COPY(issue.start_ns)), TIME("end_us", COPY(issue.end_ns)),                                    \
        NUMBER("device", COPY_FACT(device)), NUMBER("process", COPY_FACT(process)),                                    \
        NUMBER("context", COPY_FACT(context)), NUMBER("green_context", COPY_FACT(green_context)),                      \
        NUMBER("graph", COPY_FACT(graph)), NUMBER("node", COPY_FACT(node))

static const gs_field memset_fields[] = {OTHER("op", true), OTHER("id", false), COPY_FIELDS};
static const gs_field copy_fields[] = {OTHER("op", true), OTHER("id", false), OTHER("kind", false), COPY_FIELDS};

#define RANGE_TIME(key, member)                                                                                        \
    { key, GS_FIELD_DURATION, true, offsetof(gs_range_parts, member), 0, MOST_NS }

static const gs_field range_fields[] = {OTHER("op", true),
                                        {"name", GS_FIELD_NAME, true, offsetof(gs_range_parts, name), 0, 0},
                                        RANGE_TIME("from_us", from_ns),
                                        RANGE_TIME("to_us", to_ns)};

const gs_field_table gs_launch_fields = {launch_fields, GS_COUNT(launch_fields)};
const gs_field_table gs_copy_fields = {copy_fields, GS_COUNT(copy_fields)};
const gs_field_table gs_memset_fields = {memset_fields, GS_COUNT(memset_fields)};
const gs_field_table gs_range_fields = {range_fields, GS_COUNT(range_fields)};

gs_launch_parts gs_launch_parts_none(void) {
    return (gs_launch_parts){gs_launch_default(), gs_launch_facts_none()};
}

gs_copy_parts gs_copy_parts_none(void) {
    return (gs_copy_parts){{.issue = gs_issue_none()}, gs_launch_facts_none()};
}

gs_code gs_run_want(gs_run *run, gs_wanted *wanted, gs_issue *issue, const char *id, gs_when when, gs_error *error) {
    const char *kept = gs_strings_add(&run->strings, id, strlen(id));
    if (!kept || !GS_PUSH(wanted, kept))
        return gs_fail_memory(error);
    return gs_run_add_edge(run, issue, (gs_edge){.when = (uint8_t)when}, error);
}

/* The launch is the first part of gs_launch_parts, so offsets are the same. */
gs_code gs_launch_set(gs_launch *launch, const char *key, int64_t value, gs_error *error) {
    const gs_field *field = NULL;
    for (size_t i = 0; i < gs_launch_fields.count && !field; i++)
        if (strcmp(launch_fields[i].key, key) == 0)
            field = &launch_fields[i];
    bool is_number =
        field && (field->type == GS_FIELD_INT32 || field->type == GS_FIELD_INT64) && field->offset < sizeof *launch;
    if (!is_number)
        return gs_fail(error, GS_E_USAGE, "\"%.40s\" is not a numeric key of a launch", key);
    if (value < field->least || value > field->most)
        return gs_fail(error, GS_E_USAGE, "\"%s\" must be from %lld to %lld, not %lld", key, (long long)field->least,
                       (long long)field->most, (long long)value);
    if (field->type == GS_FIELD_INT32)
        *(int32_t *)(void *)((char *)launch + field->offset) = (int32_t)value;
    else
        *(int64_t *)(void *)((char *)launch + field->offset) = value;
    return GS_OK;
}
