/*
 * watch_join.c: the reports of several ranks put together: which rank is at which collective, and which ranks are
 * missing.
 *
 * Reports are files hang.rankN.json in a folder (gridsmith.hang/1). Collectives are counted in each stream, so two
 * ranks that are at different numbers, at the same number of another collective, or in different communicators, do not
 * meet.
 */
#include "watch.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

struct rank {
    int64_t rank, ranks, collective, communicator;
    char cause[40], kernel[200];
};

struct ranks {
    struct rank *data;
    size_t count, capacity;
};

static void copy_string(const json_t *object, const char *key, char *into, size_t size) {
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(into, size, "%s", text ? text : "");
    gs_make_printable(into);
}

static gs_code read_report(const char *path, struct ranks *ranks, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_json json = {0};
    struct rank rank = {.rank = -1};
    gs_code code = input ? gs_json_next(input, &json, error) : error->code;
    if (code == GS_OK && !json.root)
        code = gs_fail(error, GS_E_FORMAT, "%s is empty", path);
    if (code == GS_OK) {
        gs_step root = gs_step_root(&json);
        code = gs_json_schema(&json, &root, "gridsmith.hang/1", error);
    }
    if (code == GS_OK) {
        const json_t *number = json_object_get(json.root, "rank"), *stream;
        size_t i;
        rank.rank = json_is_integer(number) ? json_integer_value(number) : -1;
        rank.ranks = json_integer_value(json_object_get(json.root, "ranks"));
        copy_string(json.root, "cause", rank.cause, sizeof rank.cause);
        json_array_foreach(json_object_get(json.root, "streams"), i, stream) {
            int64_t collective = json_integer_value(json_object_get(stream, "collective"));
            if (collective <= 0 || rank.collective)
                continue;
            rank.collective = collective;
            rank.communicator = json_integer_value(json_object_get(stream, "communicator"));
            copy_string(stream, "kernel", rank.kernel, sizeof rank.kernel);
        }
        if (!GS_PUSH(ranks, rank))
            code = gs_fail_memory(error);
    }
    gs_json_free(&json);
    gs_input_close(input);
    return code;
}

GS_ORDER(by_rank, struct rank, rank)

static gs_code read_folder(const char *folder, struct ranks *ranks, gs_error *error) {
    DIR *files = opendir(folder);
    gs_code code = files ? GS_OK : gs_fail_read(error, folder);
    for (struct dirent *entry; code == GS_OK && (entry = readdir(files));) {
        size_t length = strlen(entry->d_name);
        char path[1300];
        if (strncmp(entry->d_name, "hang.", 5) != 0 || length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        code = read_report(path, ranks, error);
    }
    if (files)
        closedir(files);
    if (ranks->count)
        qsort(ranks->data, ranks->count, sizeof *ranks->data, by_rank);
    if (code == GS_OK && !ranks->count)
        code =
            gs_fail(error, GS_E_USAGE, "%s has no report: run each rank with 'gridsmith watch -o %s'", folder, folder);
    return code;
}

static void say_missing(const struct ranks *ranks, gs_text *text) {
    int64_t known = 0;
    for (size_t i = 0; i < ranks->count; i++)
        known = gs_max(known, ranks->data[i].ranks);
    for (int64_t rank = 0; rank < known && rank < 100000; rank++) {
        bool is_there = false;
        for (size_t i = 0; i < ranks->count; i++)
            is_there = is_there || ranks->data[i].rank == rank;
        if (!is_there)
            gs_text_add(text, "rank %lld has no report: it has ended, does not wait, or is not watched\n",
                        (long long)rank);
    }
}

/* Compares each rank with the one that is ahead. */
static void say_verdict(const struct ranks *ranks, gs_text *text) {
    const struct rank *ahead = NULL;
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->data[i].collective && (!ahead || ranks->data[i].collective > ahead->collective))
            ahead = &ranks->data[i];
    bool differs = false, is_behind = false;
    for (size_t i = 0; i < ranks->count && ahead; i++) {
        const struct rank *rank = &ranks->data[i];
        if (rank->communicator && ahead->communicator && rank->communicator != ahead->communicator) {
            gs_text_add(text,
                        "rank %lld waits in communicator %lld, and rank %lld in communicator %lld: the ranks issue "
                        "collectives of these in different orders\n",
                        (long long)ahead->rank, (long long)ahead->communicator, (long long)rank->rank,
                        (long long)rank->communicator);
            differs = true;
        } else if (rank->collective == ahead->collective && strcmp(rank->kernel, ahead->kernel) != 0) {
            gs_text_add(text,
                        "collective %lld is %s on rank %lld, and %s on rank %lld: the ranks issue collectives in "
                        "different orders\n",
                        (long long)ahead->collective, ahead->kernel, (long long)ahead->rank, rank->kernel,
                        (long long)rank->rank);
            differs = true;
        } else if (rank->collective < ahead->collective) {
            gs_text_add(text, "rank %lld has not come to collective %lld (%s), which rank %lld waits in\n",
                        (long long)rank->rank, (long long)ahead->collective, ahead->kernel, (long long)ahead->rank);
            is_behind = true;
        }
    }
    if (!ahead)
        gs_text_add(text, "no rank waits in a collective: see the report of each rank\n");
    else if (!differs && !is_behind)
        gs_text_add(text, "all ranks with a report are in collective %lld (%s)\n", (long long)ahead->collective,
                    ahead->kernel);
}

gs_code gs_watch_join(const char *folder, gs_text *text, bool *is_hang, gs_error *error) {
    struct ranks ranks = {0};
    gs_code code = read_folder(folder, &ranks, error);
    for (size_t i = 0; i < ranks.count && code == GS_OK; i++) {
        const struct rank *rank = &ranks.data[i];
        gs_text_add(text, "rank %lld: %s", (long long)rank->rank, rank->cause);
        if (rank->collective)
            gs_text_add(text, ", in collective %lld, %s", (long long)rank->collective, rank->kernel);
        if (rank->communicator)
            gs_text_add(text, ", communicator %lld", (long long)rank->communicator);
        gs_text_add(text, "\n");
    }
    if (code == GS_OK) {
        say_missing(&ranks, text);
        say_verdict(&ranks, text);
    }
    *is_hang = ranks.count > 0;
    free(ranks.data);
    return code;
}
