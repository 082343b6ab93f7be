/*
 * supply.c: what a trace lacks, from the user or from a recording of the same program.
 *
 * A setting is "PATTERN:KEY=VALUE,...". The pattern is matched with the kernel's name as a shell matches file names; as
 * names of C++ have colons, the pattern ends at the last colon. Later settings win.
 *
 * In a recording a kernel may have its mangled name, in a trace its readable one. So kernels are compared by the plain
 * name of their function (the last identifier, without namespaces, template arguments and parameters), and by their
 * grid, block, registers and shared memory. That is enough: what is taken over are the cluster, the carve-out and the
 * local memory, and kernels that agree in all of the above but not in these are rare. They are counted.
 */
#include "collect.h"

#include <fnmatch.h>
#include <stdlib.h>

/* ---- settings ---- */

static gs_code bad_setting(const char *setting, gs_error *error) {
    return gs_fail(error, GS_E_USAGE,
                   "--set '%.80s': expected PATTERN:KEY=VALUE[,KEY=VALUE...], such as '*gemm*:cluster=2'", setting);
}

/* Applies "KEY=VALUE,...". */
static gs_code apply_values(const char *setting, const char *values, gs_launch *launch, gs_error *error) {
    gs_code code = GS_OK;
    while (*values && code == GS_OK) {
        size_t length = strcspn(values, ",");
        const char *equals = memchr(values, '=', length);
        char key[40], *end;
        if (!equals || equals == values || (size_t)(equals - values) >= sizeof key)
            return bad_setting(setting, error);
        snprintf(key, sizeof key, "%.*s", (int)(equals - values), values);
        long long value = strtoll(equals + 1, &end, 10);
        if (end == equals + 1 || end != values + length)
            return bad_setting(setting, error);
        code = gs_launch_set(launch, key, value, error);
        values += length + (values[length] == ',');
    }
    return code;
}

static gs_code apply_setting(const char *setting, gs_launch *launch, gs_error *error) {
    const char *colon = strrchr(setting, ':');
    if (!colon || colon == setting || !colon[1])
        return bad_setting(setting, error);
    char *pattern = strndup(setting, (size_t)(colon - setting));
    if (!pattern)
        return gs_fail_memory(error);
    bool matches = fnmatch(pattern, launch->kernel, 0) == 0;
    free(pattern);
    gs_launch trial = *launch; /* so that a mistake is found even if no kernel matches */
    return apply_values(setting, colon + 1, matches ? launch : &trial, error);
}

static gs_code check_cluster(const gs_launch *launch, gs_error *error) {
    if (!launch->blocks || launch->blocks % launch->cluster == 0)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "clusters of %d blocks do not divide the %lld blocks of kernel \"%.60s\"",
                   launch->cluster, (long long)launch->blocks, launch->kernel);
}

gs_code gs_supply_launch(const gs_import_options *options, gs_launch *launch, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < options->setting_count && code == GS_OK; i++)
        code = apply_setting(options->settings[i], launch, error);
    return code == GS_OK ? check_cluster(launch, error) : code;
}

/* ---- recordings ---- */

/* The last identifier of a mangled name: those of "_ZN2at6native3addIfEEvPT_" are "at", "native" and "add". */
static bool mangled_name(const char *name, const char **first, size_t *length) {
    const char *at = name + 2;
    *length = 0;
    at += *at == 'N';
    while (*at >= '1' && *at <= '9') {
        char *end;
        unsigned long count = strtoul(at, &end, 10);
        if (count > strlen(end))
            return false;
        *first = end;
        *length = count;
        at = end + count;
    }
    return *length > 0;
}

/* The identifier before the template arguments or the parameters of a readable name. */
static void readable_name(const char *name, const char **first, size_t *length) {
    static const char anonymous[] = "(anonymous namespace)";
    const char *begin = name, *at = name;
    for (; *at && *at != '<' && *at != '('; at++) {
        if (*at == ':' || *at == ' ')
            begin = at + 1;
        if (strncmp(at + 1, anonymous, sizeof anonymous - 1) == 0)
            begin = (at += sizeof anonymous - 1) + 1;
    }
    *first = begin;
    *length = (size_t)(at - begin);
}

static void plain_name(const char *name, const char **first, size_t *length) {
    if (strncmp(name, "_Z", 2) != 0 || !mangled_name(name, first, length))
        readable_name(name, first, length);
}

/* What launches are compared by, as text. */
static void put_key(gs_text *key, const gs_launch *launch) {
    const char *first;
    size_t length;
    plain_name(launch->kernel, &first, &length);
    gs_text_clear(key);
    gs_text_put(key, first, length);
    gs_text_add(key, "|%lld|%d|%d|%lld", (long long)launch->blocks, launch->shape.threads, launch->shape.registers,
                (long long)launch->shape.shared_bytes);
}

/* The launches of a recording by their keys. */
struct known {
    gs_strings keys;
    gs_names numbers;
    const gs_run *run;
};

static gs_code index_recording(struct known *known, gs_error *error) {
    gs_text key = {0};
    bool is_ok = true;
    for (size_t i = 0; i < known->run->launches.count && is_ok; i++) {
        put_key(&key, &known->run->launches.data[i]);
        const char *kept = key.failed ? NULL : gs_strings_add(&known->keys, key.data, key.count);
        is_ok = kept && gs_names_add(&known->numbers, kept, i) != SIZE_MAX;
    }
    gs_text_free(&key);
    return is_ok ? GS_OK : gs_fail_memory(error);
}

static void take_over(gs_launch *launch, const gs_launch *from) {
    launch->cluster = from->cluster;
    launch->shape.local_bytes = from->shape.local_bytes;
    launch->shape.carveout_percent = from->shape.carveout_percent;
    if (from->priority)
        launch->priority = from->priority;
}

static gs_code supply_from(struct known *known, gs_run *run, const char *path, gs_text *notes, gs_error *error) {
    gs_text key = {0};
    size_t found = 0;
    gs_code code = index_recording(known, error);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        gs_launch *launch = &run->launches.data[i];
        put_key(&key, launch);
        size_t number = key.failed ? SIZE_MAX : gs_names_find(&known->numbers, key.data);
        if (number == SIZE_MAX)
            continue;
        take_over(launch, &known->run->launches.data[number]);
        found++;
    }
    if (code == GS_OK)
        gs_text_add(notes, "%zu of %zu launches are supplied from %s\n", found, run->launches.count,
                    gs_input_name(path));
    gs_text_free(&key);
    gs_strings_free(&known->keys);
    gs_names_free(&known->numbers);
    return code;
}

static gs_code supply_recording(const char *path, gs_run *run, gs_text *notes, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    if (!runs)
        return error->code;
    gs_run *recorded = gs_runs_next(runs, error);
    gs_runs_close(runs);
    if (!recorded)
        return error->code != GS_OK ? error->code : gs_fail(error, GS_E_USAGE, "%s holds no run", gs_input_name(path));
    struct known known = {.run = recorded};
    gs_code code = supply_from(&known, run, path, notes, error);
    gs_run_free(recorded);
    return code;
}

/* ---- a run ---- */

gs_code gs_supply(const gs_import_options *options, gs_run *run, gs_text *notes, gs_error *error) {
    gs_code code = options->with ? supply_recording(options->with, run, notes, error) : GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = gs_supply_launch(options, &run->launches.data[i], error);
    return code;
}
