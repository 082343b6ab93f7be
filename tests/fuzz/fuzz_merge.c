/*
 * fuzz_merge.c: any bytes as the files of shards. What is merged is a whole campaign, and merging it again changes
 * nothing.
 *
 * A form feed ends a file, so that one input can be several shards.
 */
#include "lab/campaign/campaign.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const char *bytes, size_t size);

enum { MOST_FILES = 4, MOST_BYTES = 1 << 20 };

/* Writes the files; returns how many. */
static int write_files(const char *folder, const char *bytes, size_t size) {
    int count = 0;
    for (size_t at = 0; count < MOST_FILES && (at < size || !count); count++) {
        const char *end = memchr(bytes + at, '\f', size - at);
        size_t length = end ? (size_t)(end - bytes) - at : size - at;
        char name[40];
        snprintf(name, sizeof name, "shards/x-shard%dof%d.jsonl", count + 1, MOST_FILES);
        gs_folder_write(folder, name, bytes + at, length, NULL);
        at += length + 1;
    }
    return count;
}

/* Merges a folder or a file into another file. True: it was merged. */
static bool merge(const char *from, const char *to) {
    gs_merged merged;
    gs_error error = {.code = GS_OK};
    bool is_merged = gs_merge(&from, 1, to, &merged, &error) == GS_OK && !merged.complaints.count;
    gs_text_free(&merged.complaints);
    return is_merged;
}

static void check(const char *folder) {
    char shards[200], once[200], twice[200];
    snprintf(shards, sizeof shards, "%s/shards", folder);
    snprintf(once, sizeof once, "%s/once.jsonl", folder);
    snprintf(twice, sizeof twice, "%s/twice.jsonl", folder);
    if (!merge(shards, once))
        return;
    if (!merge(once, twice))
        abort();
    char *first = gs_folder_read(folder, "once.jsonl", MOST_BYTES),
         *second = gs_folder_read(folder, "twice.jsonl", MOST_BYTES);
    if (first && second && strcmp(first, second) != 0)
        abort();
    free(first);
    free(second);
}

/* How far the shards are must be known of any files, too. */
static void look(const char *folder) {
    gs_shard_progress progress[MOST_FILES];
    gs_submission submission = {.path = (char *)(uintptr_t)folder, .shards = MOST_FILES};
    gs_progress_of(&submission, progress, NULL);
    for (int i = 0; i < MOST_FILES; i++)
        if (progress[i].runs < 0 || progress[i].runs > progress[i].wanted)
            abort();
}

int LLVMFuzzerTestOneInput(const char *bytes, size_t size) {
    char shards[200];
    char *folder = gs_folder_make(NULL);
    if (!folder)
        return 0;
    snprintf(shards, sizeof shards, "%s/shards", folder);
    mkdir(shards, 0700);
    if (write_files(folder, bytes, size)) {
        check(folder);
        look(folder);
    }
    gs_folder_remove(folder);
    free(folder);
    return 0;
}
