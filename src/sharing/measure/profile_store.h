/*
 * profile_store.h: the inside of a store, for the files of this room.
 *
 * Each file calls only files below it:
 *
 *   profile_sync.c    opens, saves and closes a store
 *   profile_file.c    the SQLite file
 *   profile_store.c   the profiles and pairs in memory
 *   pair_ways.c       which way to share SMs a pair should be tried in next
 *   search_fit.c      what fits together: asks the predictor
 *   profile.c         one profile
 */
#ifndef GS_PROFILE_STORE_H
#define GS_PROFILE_STORE_H

#include "measure.h"
#include "search_inside.h"

enum { STORE_WAYS = 8 };

struct gs_profile_store {
    char gpu[GS_PROFILE_NAME];
    int32_t sms;
    uint64_t uses; /* of all profiles and pairs: the one with the smallest `used` was used longest ago */
    gs_profile *profiles[GS_STORE_PROFILES];
    gs_pair *pairs[GS_STORE_PAIRS];
    gs_room_fit *fit;         /* the predictor; NULL: no ways to share SMs are tried */
    struct sqlite3 *file;     /* NULL: in memory only */
    char problem[240];        /* why profiles are not saved; "": they are */
    bool is_problem_reported; /* gs_profile_store_problem has returned it */
    bool has_unsaved;         /* the last save left something for the next one */
};

/* ---- profile.c ---- */

/* Makes a profile's curve out of its points. */
void gs_profile_curve(gs_profile *profile);

/* ---- pair_ways.c ---- */

/* Sets the way to share SMs that the pair should be tried in next. */
void gs_pair_choose_next(gs_pair *pair, gs_room_fit *fit, const gs_profile *a, const gs_profile *b);
/* The way with these workers; NULL: there is none, and there are as many others as a pair has. */
gs_pair_way *gs_pair_way_of(gs_pair *pair, const int32_t workers[2]);

/* ---- profile_store.c ---- */

/* An empty store without a file. NULL: out of memory, or a number of SMs that no GPU has. */
gs_profile_store *gs_profile_store_new(const char *gpu, int32_t sms, gs_error *error);
void gs_profile_store_free(gs_profile_store *store);

/* The profile or pair itself, made where there is none. NULL: no place, or out of memory. */
gs_profile *gs_profile_store_make(gs_profile_store *store, uint64_t key);
gs_profile *gs_profile_store_find(gs_profile_store *store, uint64_t key); /* NULL: there is none */
gs_pair *gs_profile_store_make_pair(gs_profile_store *store, uint64_t one, uint64_t other);

/* ---- profile_file.c ---- */

/* Opens the file and reads its rows into the store. Where that fails, store->file is NULL and store->problem says why.
 */
void gs_profile_file_open(gs_profile_store *store, const char *path);
void gs_profile_file_close(gs_profile_store *store);
/* Writes profiles and pairs between begin and end. With keep == false, end takes them back. */
bool gs_profile_file_begin(gs_profile_store *store);
bool gs_profile_file_profile(gs_profile_store *store, const gs_profile *profile);
bool gs_profile_file_pair(gs_profile_store *store, const gs_pair *pair);
bool gs_profile_file_end(gs_profile_store *store, bool keep);

#endif
