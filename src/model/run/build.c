/*
 * build.c: runs made call by call, by programs that use the library. Numbers have the limits of the file format.
 */
#include "event_fields.h"

#include <stdlib.h>
#include <string.h>

static int64_t number_of(const gs_launch *launch, const gs_field *field) {
    const void *at = (const char *)launch + field->offset;
    return field->type == GS_FIELD_INT32 ? *(const int32_t *)at : *(const int64_t *)at;
}

/* The launch is the first part of gs_launch_parts, so the offsets of the table are those of a launch. */
static gs_code check_numbers(const gs_launch *launch, gs_error *error) {
    for (size_t i = 0; i < gs_launch_fields.count; i++) {
        const gs_field *field = &gs_launch_fields.data[i];
        bool is_number =
            field->type == GS_FIELD_INT32 || field->type == GS_FIELD_INT64 || field->type == GS_FIELD_DURATION;
        if (!is_number || field->offset >= offsetof(gs_launch, event))
            continue;
        int64_t number = number_of(launch, field);
        bool is_default = !field->required && number == 0;
        is_default |= field->offset == offsetof(gs_launch, shape.carveout_percent) && number == GS_NO_CARVEOUT;
        int unit = field->type == GS_FIELD_DURATION ? (int)strlen("us") : 0; /* of files; here it is ns */
        if (!is_default && (number < field->least || number > field->most))
            return gs_fail(error, GS_E_USAGE, "\"%.*s%s\" of a launch must be from %lld to %lld, not %lld",
                           (int)strlen(field->key) - unit, field->key, unit ? "ns" : "", (long long)field->least,
                           (long long)field->most, (long long)number);
    }
    return GS_OK;
}

gs_code gs_run_copy_spec(gs_run *run, const gs_launch_spec *spec, gs_error *error) {
    gs_launch launch = gs_launch_default();
    launch.blocks = spec->blocks;
    launch.shape = spec->shape;
    launch.cluster = spec->cluster ? spec->cluster : 1;
    launch.priority = spec->priority;
    launch.duration_ns = spec->duration_ns;
    launch.spread_ns = spec->spread_ns;
    gs_code code = check_numbers(&launch, error);
    if (code != GS_OK)
        return code;
    if (!spec->kernel || !spec->kernel[0])
        return gs_fail(error, GS_E_USAGE, "a launch needs the name of its kernel");
    if (!gs_is_printable(spec->kernel) || (spec->stream && !gs_is_printable(spec->stream)))
        return gs_fail(error, GS_E_USAGE, "the names of kernels and streams are UTF-8 without control characters");
    if (launch.blocks % launch.cluster)
        return gs_fail(error, GS_E_USAGE, "\"blocks\" of a launch must be a multiple of \"cluster\", which is %d",
                       launch.cluster);
    gs_launch_facts facts = gs_launch_facts_none();
    facts.is_cooperative = spec->is_cooperative ? 1 : facts.is_cooperative;
    launch.issue.facts = &facts;
    launch.kernel = (char *)(uintptr_t)spec->kernel; /* gs_run_copy_launch copies it */
    launch.stream = (char *)(uintptr_t)spec->stream;
    return gs_run_copy_launch(run, &launch, error);
}

gs_code gs_run_launch(gs_run *run, const gs_launch_spec *spec, gs_error *error) {
    gs_edge found;
    if (spec->kernel && spec->kernel[0] && gs_run_find(run, spec->kernel, &found))
        return gs_fail(error, GS_E_USAGE, "the run already has a kernel \"%.80s\"; names must be unique", spec->kernel);
    return gs_run_copy_spec(run, spec, error);
}

gs_code gs_run_exit(gs_run *run, const char *kernel, gs_error *error) {
    gs_edge found;
    if (!gs_run_find(run, kernel, &found) || found.is_copy)
        return gs_fail(error, GS_E_USAGE, "no kernel \"%.80s\" was launched", kernel);
    if (run->launches.data[found.number].exit != SIZE_MAX)
        return gs_fail(error, GS_E_USAGE, "kernel \"%.80s\" has already exited", kernel);
    return gs_run_add_event(run, GS_EXIT, found.number, error) ? GS_OK : error ? error->code : GS_E_MEMORY;
}
