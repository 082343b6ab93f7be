/*
 * supply.c: supplies the keys that a trace lacks, from the user or from a recording of the same program.
 *
 * A setting is "PATTERN:KEY=VALUE,...". The pattern is matched with the kernel's name as a shell matches file names;
 * because C++ names contain colons, the pattern ends at the last colon. Later settings win.
 *
 * In a recording a kernel may have its mangled name, in a trace its readable one. So kernels are compared by the plain
 * name of their function (the last identifier, without namespaces, template arguments and parameters), and by their
 * grid, block, registers and shared memory. That is enough: only the cluster, the carve-out and the local memory are
 * taken over, and kernels that agree in all of the above but differ in these are rare.
 *
 * A run lists the keys that it lacks. Keys supplied for all of its launches are removed from the list.
 */
#include "collect.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- settings ---- */

static gs_code bad_setting(const char *setting, gs_error *error) {
    return gs_fail(error, GS_E_USAGE,
                   "--set '%.80s': expected PATTERN:KEY=VALUE[,KEY=VALUE...], such as '*gemm*:cluster=2'", setting);
}

/* Which of the lacking keys of a run were given: a bit for each word of the list. */
struct supplied {
    const char *lacks; /* or NULL */
    unsigned keys;
};

static void mark_supplied(struct supplied *supplied, const char *key, size_t length) {
    unsigned number = 0;
    for (const char *word = supplied->lacks; word && *word; number++) {
        size_t other = strcspn(word, " ");
        if (other == length && memcmp(word, key, length) == 0)
            supplied->keys |= 1u << number;
        word += other + (word[other] == ' ');
    }
}

static void mark_all(struct supplied *supplied, const char *keys) {
    for (size_t length; (length = strcspn(keys, " ")); keys += length + (keys[length] == ' '))
        mark_supplied(supplied, keys, length);
}

/* Applies "KEY=VALUE,...". */
static gs_code apply_values(const char *setting, const char *values, gs_launch *launch, struct supplied *supplied,
                            gs_error *error) {
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
        mark_supplied(supplied, key, strlen(key));
        values += length + (values[length] == ',');
    }
    return code;
}

static gs_code apply_setting(const char *setting, gs_launch *launch, struct supplied *supplied, gs_error *error) {
    const char *colon = strrchr(setting, ':');
    if (!colon || colon == setting || !colon[1])
        return bad_setting(setting, error);
    char *pattern = strndup(setting, (size_t)(colon - setting));
    if (!pattern)
        return gs_fail_memory(error);
    bool matches = fnmatch(pattern, launch->kernel, 0) == 0;
    free(pattern);
    if (matches)
        return apply_values(setting, colon + 1, launch, supplied, error);
    gs_launch trial = *launch; /* so that errors are found even if no kernel matches */
    struct supplied ignored = {0};
    return apply_values(setting, colon + 1, &trial, &ignored, error);
}

/* The name of a kernel of the runs, then of the list, by number; NULL: there are no more. */
static const char *kernel_name(const gs_imported *imported, size_t number) {
    for (size_t i = 0; i < imported->count; i++) {
        if (number < imported->data[i]->launches.count)
            return imported->data[i]->launches.data[number].kernel;
        number -= imported->data[i]->launches.count;
    }
    return number < imported->kernels.count ? imported->kernels.data[number].name : NULL;
}

static gs_code refuse_pattern(const char *setting, const char *pattern, const gs_imported *imported, gs_error *error) {
    enum { MOST_TRIED = 10000 };
    gs_similar similar = {.word = pattern};
    const char *name;
    for (size_t i = 0; i < MOST_TRIED && (name = kernel_name(imported, i)); i++)
        gs_similar_try(&similar, name);
    return gs_fail(error, GS_E_USAGE, "--set '%.80s': no kernel matches \"%.60s\"%s", setting, pattern,
                   gs_similar_words(&similar));
}

static gs_code check_pattern(const char *setting, const gs_imported *imported, gs_error *error) {
    const char *colon = strrchr(setting, ':'), *name;
    char *pattern = colon ? strndup(setting, (size_t)(colon - setting)) : NULL;
    bool matches = false;
    if (!colon)
        return bad_setting(setting, error);
    if (!pattern)
        return gs_fail_memory(error);
    for (size_t i = 0; !matches && (name = kernel_name(imported, i)); i++)
        matches = fnmatch(pattern, name, 0) == 0;
    gs_code code = matches ? GS_OK : refuse_pattern(setting, pattern, imported, error);
    free(pattern);
    return code;
}

gs_code gs_check_patterns(const gs_import_options *options, const gs_imported *imported, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < options->setting_count && code == GS_OK; i++)
        code = check_pattern(options->settings[i], imported, error);
    return code;
}

static gs_code check_cluster(const gs_launch *launch, gs_error *error) {
    if (!launch->blocks || launch->blocks % launch->cluster == 0)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "clusters of %d blocks do not divide the %lld blocks of kernel \"%.60s\"",
                   launch->cluster, (long long)launch->blocks, launch->kernel);
}

static gs_code supply_settings(const gs_import_options *options, gs_launch *launch, struct supplied *supplied,
                               gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < options->setting_count && code == GS_OK; i++)
        code = apply_setting(options->settings[i], launch, supplied, error);
    return code == GS_OK ? check_cluster(launch, error) : code;
}

gs_code gs_supply_launch(const gs_import_options *options, gs_launch *launch, gs_error *error) {
    struct supplied ignored = {0};
    return supply_settings(options, launch, &ignored, error);
}

gs_code gs_supply_kernel(const gs_import_options *options, gs_kernel_entry *kernel, gs_error *error) {
    struct supplied given = {.lacks = "local_bytes"};
    gs_launch launch = gs_launch_default();
    launch.kernel = kernel->name;
    launch.shape.registers = kernel->registers;
    launch.shape.shared_bytes = kernel->shared_bytes;
    launch.shape.local_bytes = kernel->local_bytes;
    gs_code code = supply_settings(options, &launch, &given, error);
    kernel->registers = launch.shape.registers;
    kernel->shared_bytes = launch.shape.shared_bytes;
    kernel->local_bytes = launch.shape.local_bytes;
    kernel->stack_is_unknown = kernel->stack_is_unknown && !given.keys;
    return code;
}

/* ---- recordings ---- */

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

/* The last identifier of a symbol or of a readable name. */
static void plain_name(const char *name, const char **first, size_t *length) {
    gs_symbol symbol = {.text = name};
    while (gs_symbol_next(&symbol))
        continue;
    *first = symbol.name;
    *length = symbol.length;
    if (!symbol.length)
        readable_name(name, first, length);
}

/* The key by which launches are compared, as text. */
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

/* The keys that a recording supplies. */
static const char taken_keys[] = "cluster carveout_percent local_bytes priority";

static void take_over(gs_launch *launch, const gs_launch *from) {
    launch->cluster = from->cluster;
    launch->shape.local_bytes = from->shape.local_bytes;
    launch->shape.carveout_percent = from->shape.carveout_percent;
    launch->priority = from->priority;
}

/* The run of this GPU in a file of recordings, or the first run if there is none. */
static gs_run *read_recording(const char *path, int64_t device, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *chosen = NULL, *run = NULL;
    while (runs && (!chosen || chosen->origin.device != device) && (run = gs_runs_next(runs, error))) {
        bool is_better = !chosen || run->origin.device == device;
        gs_run_free(is_better ? chosen : run);
        chosen = is_better ? run : chosen;
    }
    if (runs && !chosen && error->code == GS_OK)
        gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(path));
    gs_runs_close(runs);
    if (error->code == GS_OK)
        return chosen;
    gs_run_free(chosen);
    return NULL;
}

/* ---- a run ---- */

struct supply {
    const gs_import_options *options;
    struct known known; /* its run is NULL if there is no recording */
    gs_text key;
    size_t found;          /* launches found in the recording */
    struct supplied given; /* for the current launch */
    unsigned for_all;      /* keys given for all launches so far */
};

/* The names of cuBLAS's kernels for Hopper have the shape of the cluster: 2x4 in nvjet_sm90_hsh_64x32_64x16_2x4_h_bz.
   All 4,181 recorded launches of such kernels have it. */
static void read_named_cluster(gs_launch *launch) {
    int columns, rows, length = 0;
    if (sscanf(launch->kernel, "nvjet_sm%*2d_%*[a-z]_%*dx%*d_%*dx%*d_%2dx%2d_%n", &columns, &rows, &length) != 2 ||
        !length)
        return;
    int64_t cluster = (int64_t)columns * rows;
    if (cluster >= 1 && cluster <= 16 && launch->blocks % cluster == 0)
        launch->cluster = (int32_t)cluster;
}

static gs_code supply_one(struct supply *supply, gs_launch *launch, gs_error *error) {
    supply->given.keys = 0;
    read_named_cluster(launch);
    if (supply->known.run) {
        put_key(&supply->key, launch);
        size_t number = supply->key.failed ? SIZE_MAX : gs_names_find(&supply->known.numbers, supply->key.data);
        if (number != SIZE_MAX) {
            take_over(launch, &supply->known.run->launches.data[number]);
            mark_all(&supply->given, taken_keys);
            supply->found++;
        }
    }
    gs_code code = supply_settings(supply->options, launch, &supply->given, error);
    supply->for_all &= supply->given.keys;
    return code;
}

/* Removes the keys given for every launch from the list of keys that the run lacks. */
static void shorten_lacks(char *lacks, unsigned given) {
    char *to = lacks;
    unsigned number = 0;
    for (const char *word = lacks; *word; number++) {
        size_t length = strcspn(word, " ");
        const char *next = word + length + (word[length] == ' ');
        if (!(given >> number & 1)) {
            if (to > lacks)
                *to++ = ' ';
            memmove(to, word, length);
            to += length;
        }
        word = next;
    }
    *to = '\0';
}

static gs_code supply_all(struct supply *supply, gs_run *run, gs_text *notes, gs_error *error) {
    gs_code code = supply->known.run ? index_recording(&supply->known, error) : GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = supply_one(supply, &run->launches.data[i], error);
    if (code == GS_OK && supply->key.failed)
        code = gs_fail_memory(error);
    if (code != GS_OK)
        return code;
    if (supply->known.run)
        gs_text_add(notes, "%zu of %zu launches are supplied from %s\n", supply->found, run->launches.count,
                    gs_input_name(supply->options->with));
    if (run->launches.count && run->origin.lacks)
        shorten_lacks(run->origin.lacks, supply->for_all);
    return GS_OK;
}

gs_code gs_supply(const gs_import_options *options, gs_run *run, gs_text *notes, gs_error *error) {
    struct supply supply = {.options = options, .given.lacks = run->origin.lacks, .for_all = ~0u};
    gs_run *recorded = options->with ? read_recording(options->with, run->origin.device, error) : NULL;
    if (options->with && !recorded)
        return error->code;
    supply.known.run = recorded;
    gs_code code = supply_all(&supply, run, notes, error);
    gs_text_free(&supply.key);
    gs_strings_free(&supply.known.keys);
    gs_names_free(&supply.known.numbers);
    gs_run_free(recorded);
    return code;
}
