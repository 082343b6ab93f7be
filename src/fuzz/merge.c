/*
 * merge.c: the files of the shards of a campaign as the one file that a single process would have written.
 *
 * Each file is looked at first: what it is a campaign of, which shard, and whether its runs are all there and in order.
 * Only if nothing is missing, twice or foreign are the runs copied, shard by shard, in constant memory. The GPUs of all
 * shards are listed in the first line.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct part {
    char *path, *line; /* of the file; its first line about the campaign */
    gs_shard shard;
    int64_t count; /* runs of the whole campaign */
};

struct parts {
    struct part *data;
    size_t count, capacity;
    json_t *gpus; /* of all parts, each once */
    gs_merged *merged;
};

#define COMPLAIN(parts, ...) gs_text_add(&(parts)->merged->complaints, __VA_ARGS__)

/* ---- looking at a file ---- */

static void add_gpus(struct parts *parts, const json_t *gpus) {
    size_t i, k;
    json_t *gpu, *known;
    json_array_foreach(gpus, i, gpu) {
        bool is_known = false;
        json_array_foreach(parts->gpus, k, known) {
            is_known |= json_equal(known, gpu);
        }
        if (!is_known)
            json_array_append(parts->gpus, gpu);
    }
}

/* The first line of a file, in full: which shard it is. False: it is not the file of a shard. */
static bool read_line(struct part *part, const char *line) {
    json_t *root = json_loads(line, 0, NULL), *shard = json_object_get(root, "shard");
    part->count = json_integer_value(json_object_get(root, "count"));
    part->shard.number = json_integer_value(json_array_get(shard, 0));
    part->shard.of = json_integer_value(json_array_get(shard, 1));
    part->line = strdup(line);
    json_decref(root);
    return part->line && part->count > 0 && part->shard.of > 0 && part->shard.of <= GS_MOST_SHARDS &&
           part->shard.number > 0 && part->shard.number <= part->shard.of;
}

/* A line about the campaign inside a file: the runs behind it were played by another GPU. */
static bool read_more(struct parts *parts, const struct part *part, const char *line) {
    json_t *root = json_loads(line, 0, NULL);
    add_gpus(parts, json_object_get(root, "gpus"));
    json_decref(root);
    return gs_campaign_line_same(part->line, line, "gpus");
}

static bool is_run(const char *line, int64_t id) {
    char wanted[80];
    int length = snprintf(wanted, sizeof wanted, "{\"schema\":\"gridsmith.run/1\",\"id\":%lld,", (long long)id);
    return strncmp(line, wanted, (size_t)length) == 0;
}

/* Goes through a file. What is wrong with it is a complaint. */
static void look_at(struct parts *parts, struct part *part, FILE *file) {
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    int64_t runs = 0, first = 0, wanted = 0;
    while ((length = getline(&line, &size, file)) > 0 && line[length - 1] == '\n') {
        bool is_about = gs_is_campaign_line(line, (size_t)length);
        if (!part->line && !(is_about && read_line(part, line))) {
            COMPLAIN(parts, "%s: not the file of a campaign\n", part->path);
            free(line);
            return;
        }
        first = gs_shard_begin(&part->shard, part->count);
        wanted = gs_shard_count(&part->shard, part->count);
        if (is_about ? !read_more(parts, part, line) : !is_run(line, first + runs++)) {
            COMPLAIN(parts, "%s: line %lld is not the next run of this shard\n", part->path, (long long)runs + 1);
            free(line);
            return;
        }
    }
    if (!part->line)
        COMPLAIN(parts, "%s: not the file of a campaign\n", part->path);
    else if (runs != wanted)
        COMPLAIN(parts, "%s: incomplete, %lld of %lld runs: play it with --resume\n", part->path, (long long)runs,
                 (long long)wanted);
    parts->merged->runs += runs;
    free(line);
}

static gs_code add_file(struct parts *parts, const char *path, gs_error *error) {
    if (!GS_RESERVE(parts, 1))
        return gs_fail_memory(error);
    struct part *part = &parts->data[parts->count];
    *part = (struct part){.path = strdup(path)};
    if (!part->path)
        return gs_fail_memory(error);
    parts->count++;
    FILE *file = fopen(path, "re");
    if (!file)
        return gs_fail_system(error, "read", path);
    look_at(parts, part, file);
    fclose(file);
    return GS_OK;
}

/* ---- the files of folders ---- */

static int is_shard_name(const struct dirent *entry) {
    const char *end = strrchr(entry->d_name, '.');
    return strstr(entry->d_name, "-shard") && end && strcmp(end, ".jsonl") == 0;
}

static gs_code add_folder(struct parts *parts, const char *folder, gs_error *error) {
    struct dirent **names;
    char path[4200];
    gs_code code = GS_OK;
    int count = scandir(folder, &names, is_shard_name, alphasort);
    if (count < 0)
        return gs_fail_system(error, "read", folder);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (code == GS_OK)
            code = add_file(parts, path, error);
        free(names[i]);
    }
    free(names);
    if (code == GS_OK && !count)
        COMPLAIN(parts, "%s: there is no shard in this folder\n", folder);
    return code;
}

static gs_code add_path(struct parts *parts, const char *path, gs_error *error) {
    struct stat status;
    if (stat(path, &status) != 0)
        return gs_fail_system(error, "read", path);
    return S_ISDIR(status.st_mode) ? add_folder(parts, path, error) : add_file(parts, path, error);
}

/* ---- do they belong together? ---- */

static int compare_parts(const void *one, const void *two) {
    const struct part *a = one, *b = two;
    return (a->shard.number > b->shard.number) - (a->shard.number < b->shard.number);
}

static void check_together(struct parts *parts) {
    const struct part *first = &parts->data[0];
    qsort(parts->data, parts->count, sizeof *parts->data, compare_parts);
    int64_t next = 1;
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = &parts->data[i];
        if (part->shard.of != first->shard.of || !gs_campaign_line_same(first->line, part->line, "shard")) {
            COMPLAIN(parts, "%s: not of the same campaign as %s\n", part->path, first->path);
            continue;
        }
        for (; next < part->shard.number; next++)
            COMPLAIN(parts, "shard %lld of %lld is missing\n", (long long)next, (long long)first->shard.of);
        if (next > part->shard.number)
            COMPLAIN(parts, "%s: shard %lld is there twice\n", part->path, (long long)part->shard.number);
        else
            next++;
    }
    for (; next <= first->shard.of; next++)
        COMPLAIN(parts, "shard %lld of %lld is missing\n", (long long)next, (long long)first->shard.of);
}

/* ---- writing ---- */

/* The first line of the whole: that of a shard, with the GPUs of all. */
static gs_code write_line(const struct parts *parts, FILE *file, gs_error *error) {
    const char *line = parts->data[0].line, *shard = strstr(line, ",\"shard\":[");
    char *gpus = json_dumps(parts->gpus, JSON_COMPACT);
    if (!gpus)
        return gs_fail_memory(error);
    fprintf(file, "%.*s,\"shard\":[1,1],\"gpus\":%s}\n", (int)(shard - line), line, gpus);
    free(gpus);
    return GS_OK;
}

static gs_code copy_runs(const struct part *part, FILE *output, gs_error *error) {
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    FILE *file = fopen(part->path, "re");
    if (!file)
        return gs_fail_system(error, "read", part->path);
    while ((length = getline(&line, &size, file)) > 0)
        if (!gs_is_campaign_line(line, (size_t)length))
            fwrite(line, 1, (size_t)length, output);
    gs_code code = ferror(file) ? gs_fail_system(error, "read", part->path) : GS_OK;
    free(line);
    fclose(file);
    return code;
}

static gs_code write_all(const struct parts *parts, const char *path, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, path, error);
    if (code != GS_OK)
        return code;
    code = write_line(parts, output.file, error);
    for (size_t i = 0; i < parts->count && code == GS_OK; i++)
        code = copy_runs(&parts->data[i], output.file, error);
    if (code == GS_OK)
        return gs_output_keep(&output, error);
    gs_output_drop(&output);
    return code;
}

static void free_parts(struct parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        free(parts->data[i].path);
        free(parts->data[i].line);
    }
    free(parts->data);
    json_decref(parts->gpus);
}

gs_code gs_merge(const char *const *paths, size_t count, const char *output, gs_merged *merged, gs_error *error) {
    struct parts parts = {.gpus = json_array(), .merged = merged};
    *merged = (gs_merged){0};
    gs_code code = parts.gpus ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++)
        code = add_path(&parts, paths[i], error);
    merged->shards = (int64_t)parts.count;
    if (code == GS_OK && !merged->complaints.count && parts.count)
        check_together(&parts);
    if (code == GS_OK && !merged->complaints.count)
        code = write_all(&parts, output, error);
    free_parts(&parts);
    return code;
}
