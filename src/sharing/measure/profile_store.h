/*
 * profile_store.h: the internals of a store, private to this room.
 *
 * Each file calls only files below it:
 *
 *   profile_sync.c    opens, saves and closes a store
 *   profile_file.c    the SQLite file
 *   profile_store.c   the profiles and pairs in memory
 *   profile_commands.c  programs of `gridsmith run`
 *   pair_ways.c       the next way of intra-SM sharing to try for a pair
 *   search_fit.c      which blocks fit together, computed by the predictor
 *   profile.c         one profile
 */
#ifndef GS_PROFILE_STORE_H
#define GS_PROFILE_STORE_H

#include "measure.h"
#include "search_state.h"

enum { STORE_WAYS = 8 };

struct gs_profile_store {
    char gpu[GS_PROFILE_NAME];
    int32_t sms;
    uint64_t uses; /* of all profiles and pairs: the smallest `used` is the least recently used one */
    gs_profile *profiles[GS_STORE_PROFILES];
    gs_pair *pairs[GS_STORE_PAIRS];
    gs_command_profile commands[GS_STORE_COMMANDS];
    gs_room_fit *fit;         /* the predictor; NULL: no ways to share SMs are tried */
    struct sqlite3 *file;     /* NULL: in memory only */
    char problem[240];        /* why profiles are not saved, or "" */
    bool is_problem_reported; /* gs_profile_store_problem has returned it */
    bool has_unsaved;         /* the last save left changes for the next one */
};

/* ---- profile.c ---- */

/* Computes a profile's curve from its points. */
void gs_profile_curve(gs_profile *profile);

/* ---- pair_ways.c ---- */

/* Sets the next way of intra-SM sharing to try for the pair. */
void gs_pair_choose_next(gs_pair *pair, gs_room_fit *fit, const gs_profile *a, const gs_profile *b);
/* The way with these workers; NULL: there is none, and no free entry. */
gs_pair_way *gs_pair_way_of(gs_pair *pair, const int32_t workers[2]);

/* ---- profile_store.c ---- */

/* An empty store without a file. NULL: out of memory, or the number of SMs is out of range. */
gs_profile_store *gs_profile_store_new(const char *gpu, int32_t sms, gs_error *error);
void gs_profile_store_free(gs_profile_store *store);

/* The profile or pair itself, created if there is none. NULL: no place, or out of memory. */
gs_profile *gs_profile_store_make(gs_profile_store *store, uint64_t key);
gs_profile *gs_profile_store_find(gs_profile_store *store, uint64_t key); /* NULL: there is none */
gs_pair *gs_profile_store_make_pair(gs_profile_store *store, uint64_t one, uint64_t other);

/* ---- profile_file.c ---- */

/* Opens the file and reads its rows into the store. If that fails, store->file is NULL and store->problem says why.
 */
void gs_profile_file_open(gs_profile_store *store, const char *path);
void gs_profile_file_close(gs_profile_store *store);
/* Writes profiles and pairs between begin and end. With keep == false, end rolls back. */
bool gs_profile_file_begin(gs_profile_store *store);
bool gs_profile_file_profile(gs_profile_store *store, const gs_profile *profile);
bool gs_profile_file_pair(gs_profile_store *store, const gs_pair *pair);
bool gs_profile_file_command(gs_profile_store *store, const gs_command_profile *command);
bool gs_profile_file_end(gs_profile_store *store, bool keep);

#endif
