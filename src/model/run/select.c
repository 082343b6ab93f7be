/*
 * select.c: selects kernels of a recorded program by name, each shape once.
 *
 * A program launches the same kernel again and again, with more or fewer blocks. Of all launches of one kernel with the
 * same shape, the one with the most blocks is kept. Streams, times and exits are left out: the question is whether
 * these kernels could be resident together. An answer about kernels needs names that differ: those that share one get
 * their id or place.
 */
#include "run.h"
#include "model/gpu/gpu.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 5 }; /* kernels, if none matches */

/* Whether the name matches one of the patterns, which are separated by commas. */
static bool name_matches(const char *name, const char *patterns) {
    bool matches = false;
    for (const char *at = patterns; *at && !matches;) {
        size_t length = strcspn(at, ",");
        char *pattern = strndup(at, length);
        matches = pattern && fnmatch(pattern, name, 0) == 0;
        free(pattern);
        at += length + (at[length] == ',');
    }
    return matches;
}

/* The key of a launch, as text. Of launches with equal keys, one is kept. */
static void put_shape(gs_text *text, const gs_launch *launch) {
    const gs_shape *shape = &launch->shape;
    gs_text_clear(text);
    gs_text_add(text, "%d %d %lld %lld %d %d ", shape->threads, shape->registers, (long long)shape->shared_bytes,
                (long long)shape->local_bytes, shape->carveout_percent, launch->cluster);
    gs_text_put(text, launch->kernel, strlen(launch->kernel) + 1);
}

struct kept {
    size_t *launches; /* of the recorded run, in the order in which their shapes first occur */
    char **shapes;    /* owned: the names of `by_shape` */
    size_t count;
    gs_names by_shape;
};

static bool keep_launch(struct kept *kept, const gs_run *run, size_t launch, gs_text *shape) {
    const gs_launch *launches = run->launches.data;
    put_shape(shape, &launches[launch]);
    size_t known = shape->failed ? SIZE_MAX : gs_names_find(&kept->by_shape, shape->data);
    if (known != SIZE_MAX) {
        if (launches[launch].blocks > launches[kept->launches[known]].blocks)
            kept->launches[known] = launch;
        return true;
    }
    char *name = shape->failed ? NULL : strdup(shape->data);
    kept->shapes[kept->count] = name;
    kept->launches[kept->count] = launch;
    return name && gs_names_add(&kept->by_shape, name, kept->count++) != SIZE_MAX;
}

/* A launch without its place in the recording: no stream, times or exit. The second shape of a kernel is called
   NAME#2. */
static gs_code add_kept(gs_run *to, const gs_launch *from, gs_error *error) {
    gs_launch launch = gs_launch_default();
    size_t same = 0, length = strlen(from->kernel), size = length + 24;
    for (size_t i = 0; i < to->launches.count; i++) {
        const char *other = to->launches.data[i].kernel;
        same += strncmp(other, from->kernel, length) == 0 && (!other[length] || other[length] == '#');
    }
    launch.kernel = malloc(size);
    launch.blocks = from->blocks;
    launch.shape = from->shape;
    launch.cluster = from->cluster;
    launch.priority = from->priority;
    launch.issue.facts = from->issue.facts;
    if (!launch.kernel)
        return gs_fail_memory(error);
    snprintf(launch.kernel, size, same ? "%s#%zu" : "%s", from->kernel, same + 1);
    gs_code code = gs_run_copy_launch(to, &launch, error);
    free(launch.kernel);
    return code;
}

static gs_code fail_none(const gs_run *run, const char *patterns, gs_error *error) {
    gs_text names = {0};
    gs_names seen = {0};
    size_t found = 0;
    for (size_t i = 0; i < run->launches.count && found <= MOST_NAMED; i++)
        if (gs_names_add(&seen, run->launches.data[i].kernel, found) == found && found++ < MOST_NAMED)
            gs_text_add(&names, "%s%.40s", found > 1 ? ", " : "", run->launches.data[i].kernel);
    gs_code code = gs_fail(error, GS_E_USAGE, "no kernel matches \"%.60s\"; the kernels are %s%s", patterns,
                           names.data ? names.data : "none", found > MOST_NAMED ? ", ..." : "");
    gs_names_free(&seen);
    gs_text_free(&names);
    return code;
}

static gs_code fill_selected(gs_run *selected, const gs_run *run, const char *patterns, struct kept *kept,
                             gs_error *error) {
    gs_text shape = {0};
    bool done = true;
    for (size_t i = 0; i < run->launches.count && done; i++)
        if (name_matches(run->launches.data[i].kernel, patterns))
            done = keep_launch(kept, run, i, &shape);
    gs_text_free(&shape);
    if (!done)
        return gs_fail_memory(error);
    if (!kept->count)
        return fail_none(run, patterns, error);
    gs_code code = GS_OK;
    for (size_t i = 0; i < kept->count && code == GS_OK; i++)
        code = add_kept(selected, &run->launches.data[kept->launches[i]], error);
    return code;
}

gs_run *gs_run_select(const gs_run *run, const char *patterns, gs_error *error) {
    gs_run *selected = gs_run_new(error);
    struct kept kept = {.launches = calloc(run->launches.count + 1, sizeof *kept.launches),
                        .shapes = calloc(run->launches.count + 1, sizeof *kept.shapes)};
    gs_code code = selected && kept.launches && kept.shapes ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && run->gpu && !(selected->gpu = strdup(run->gpu)))
        code = gs_fail_memory(error);
    if (code == GS_OK && !gs_green_copy(&selected->green_contexts, &run->green_contexts))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = fill_selected(selected, run, patterns, &kept, error);
    for (size_t i = 0; kept.shapes && i < kept.count; i++)
        free(kept.shapes[i]);
    gs_names_free(&kept.by_shape);
    free(kept.launches);
    free(kept.shapes);
    if (code == GS_OK)
        return selected;
    gs_run_free(selected);
    return NULL;
}

static bool is_same_kernel(const gs_launch *one, const gs_launch *other) {
    return strcmp(one->kernel, other->kernel) == 0 && one->blocks == other->blocks && one->cluster == other->cluster &&
           gs_shape_equal(&one->shape, &other->shape);
}

gs_run *gs_run_pick(const gs_run *run, const size_t *launches, size_t count, gs_error *error) {
    gs_run *picked = gs_run_new(error);
    gs_code code = picked ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && run->gpu && !(picked->gpu = strdup(run->gpu)))
        code = gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        const gs_launch *launch = &run->launches.data[launches[i]];
        code = add_kept(picked, launch, error);
        if (code == GS_OK && i)
            picked->launches.data[i].is_again = is_same_kernel(launch, &run->launches.data[launches[i - 1]]);
    }
    if (code == GS_OK)
        return picked;
    gs_run_free(picked);
    return NULL;
}

bool gs_run_matches(const char *kernel, const char *patterns) {
    return name_matches(kernel, patterns);
}

/* ---- kernels that share a name ---- */

/* A new name for a launch: one that no kernel has. NULL: out of memory. */
static const char *name_launch(gs_run *run, size_t launch, gs_names *names) {
    const gs_launch *launched = &run->launches.data[launch];
    char place[24];
    gs_text name = {0};
    const char *kept = NULL;
    snprintf(place, sizeof place, "%zu", launch + 1);
    gs_text_add(&name, "%s", launched->kernel);
    do {
        gs_text_add(&name, "#%s", launched->issue.id ? launched->issue.id : place);
        kept = name.failed ? NULL : gs_strings_add(&run->strings, name.data, name.count);
    } while (kept && gs_names_find(names, kept) != SIZE_MAX);
    gs_text_free(&name);
    return kept && gs_names_add(names, kept, launch) == launch ? kept : NULL;
}

/* Marks the launches whose kernels share a name, and collects all names. False: out of memory. */
static bool find_shared(const gs_run *run, gs_names *names, bool *is_shared) {
    for (size_t i = 0; i < run->launches.count; i++) {
        size_t first = gs_names_add(names, run->launches.data[i].kernel, i);
        if (first == SIZE_MAX)
            return false;
        if (first != i)
            is_shared[i] = is_shared[first] = true;
    }
    return true;
}

gs_code gs_run_name_apart(gs_run *run, gs_error *error) {
    gs_names names = {0};
    bool *is_shared = calloc(run->launches.count + 1, sizeof *is_shared);
    bool done = is_shared && find_shared(run, &names, is_shared);
    for (size_t i = 0; i < run->launches.count && done; i++) {
        const char *name = is_shared[i] ? name_launch(run, i, &names) : run->launches.data[i].kernel;
        done = name;
        run->launches.data[i].kernel = name ? (char *)name : run->launches.data[i].kernel;
    }
    gs_names_free(&names);
    free(is_shared);
    return done ? GS_OK : gs_fail_memory(error);
}
