/*
 * profile_store.h: the inside of a store, for the files of this room.
 */
#ifndef GS_PROFILE_STORE_H
#define GS_PROFILE_STORE_H

#include "plan.h"

#include <sqlite3.h>

enum { STORE_WAYS = 8 };

struct gs_profile_store {
    char gpu[GS_PROFILE_NAME];
    int32_t sms;
    uint64_t uses; /* counts up with each use of a profile or a pair: who has the least was used longest ago */
    gs_profile *profiles[GS_STORE_PROFILES];
    gs_pair *pairs[GS_STORE_PAIRS];
    sqlite3 *file; /* NULL: in memory only */
    char problem[GS_PROFILE_NAME + 200];
    bool is_problem_told; /* has been said, and was not mended since */
    bool has_unsaved;
};

/* The profile or pair itself, made where there is none. NULL: no place, or out of memory. */
gs_profile *gs_profile_store_make(gs_profile_store *store, uint64_t key);
gs_profile *gs_profile_store_find(gs_profile_store *store, uint64_t key); /* NULL: there is none */
gs_pair *gs_profile_store_make_pair(gs_profile_store *store, uint64_t one, uint64_t other);

/* Makes a profile's curve out of its points. */
void gs_profile_curve(gs_profile *profile);

/* ---- profile_file.c ---- */

void gs_profile_file_open(gs_profile_store *store, const char *path);
void gs_profile_file_close(gs_profile_store *store);
/* Writes a profile or a pair in the transaction under way. */
bool gs_profile_file_begin(gs_profile_store *store);
bool gs_profile_file_profile(gs_profile_store *store, const gs_profile *profile);
bool gs_profile_file_pair(gs_profile_store *store, const gs_pair *pair);
bool gs_profile_file_end(gs_profile_store *store, bool keep);

#endif
