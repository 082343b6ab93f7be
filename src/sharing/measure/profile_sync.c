/*
 * profile_sync.c: opens, saves and closes a store.
 *
 * profile_store.c holds the profiles and pairs in memory and does not know the file. profile_file.c reads and writes
 * the file and calls profile_store.c. This file calls both.
 *
 * A save writes a limited number of changed profiles and pairs, so that it never takes long:
 * gs_profile_store_has_unsaved says whether another save is needed.
 */
#include "profile_store.h"

/* The limit of one save: a few milliseconds of work. */
enum { WRITTEN_AT_ONCE = 100 };

/* ---- opening and closing ---- */

gs_profile_store *gs_profile_store_open(const char *path, const char *gpu, int32_t sms, gs_error *error) {
    gs_profile_store *store = gs_profile_store_new(gpu, sms, error);
    if (store && path)
        gs_profile_file_open(store, path);
    return store;
}

void gs_profile_store_close(gs_profile_store *store) {
    if (!store)
        return;
    while (store->file && gs_profile_store_save(store) && gs_profile_store_has_unsaved(store))
        ;
    gs_profile_file_close(store);
    gs_profile_store_free(store);
}

const char *gs_profile_store_problem(gs_profile_store *store) {
    if (!store->problem[0] || store->is_problem_reported)
        return NULL;
    store->is_problem_reported = true;
    return store->problem;
}

/* ---- saving ---- */

typedef struct unsaved {
    gs_profile *profiles[WRITTEN_AT_ONCE];
    gs_pair *pairs[WRITTEN_AT_ONCE];
    int profile_count, pair_count;
} unsaved;

static void gather_changes(const gs_profile_store *store, unsaved *changes) {
    for (size_t i = 0; i < GS_STORE_PROFILES && changes->profile_count < WRITTEN_AT_ONCE; i++)
        if (store->profiles[i] && store->profiles[i]->is_dirty)
            changes->profiles[changes->profile_count++] = store->profiles[i];
    for (size_t i = 0; i < GS_STORE_PAIRS && changes->pair_count < WRITTEN_AT_ONCE; i++)
        if (store->pairs[i] && store->pairs[i]->is_dirty)
            changes->pairs[changes->pair_count++] = store->pairs[i];
}

/* There are few of them. */
static bool save_commands(gs_profile_store *store) {
    bool good = true;
    for (size_t i = 0; good && i < GS_STORE_COMMANDS; i++)
        if (store->commands[i].is_dirty)
            good = gs_profile_file_command(store, &store->commands[i]);
    return good;
}

static bool has_new_commands(const gs_profile_store *store) {
    for (size_t i = 0; i < GS_STORE_COMMANDS; i++)
        if (store->commands[i].is_dirty)
            return true;
    return false;
}

bool gs_profile_store_has_unsaved(const gs_profile_store *store) {
    return store->has_unsaved;
}

bool gs_profile_store_save(gs_profile_store *store) {
    unsaved changes = {.profile_count = 0};
    if (!store->file)
        return false;
    gather_changes(store, &changes);
    store->has_unsaved = changes.profile_count == WRITTEN_AT_ONCE || changes.pair_count == WRITTEN_AT_ONCE;
    if (changes.profile_count + changes.pair_count == 0 && !has_new_commands(store))
        return true;
    bool good = gs_profile_file_begin(store);
    for (int i = 0; good && i < changes.profile_count; i++)
        good = gs_profile_file_profile(store, changes.profiles[i]);
    for (int i = 0; good && i < changes.pair_count; i++)
        good = gs_profile_file_pair(store, changes.pairs[i]);
    good = good && save_commands(store);
    good = gs_profile_file_end(store, good);
    for (int i = 0; good && i < changes.profile_count; i++)
        changes.profiles[i]->is_dirty = false;
    for (int i = 0; good && i < changes.pair_count; i++)
        changes.pairs[i]->is_dirty = false;
    for (size_t i = 0; good && i < GS_STORE_COMMANDS; i++)
        store->commands[i].is_dirty = false;
    return good;
}
