/*
 * book.h: the inside of a book, for the files of this room.
 */
#ifndef GS_PLAN_BOOK_H
#define GS_PLAN_BOOK_H

#include "plan.h"

#include <sqlite3.h>

enum { BOOK_WAYS = 8 };

struct gs_book {
    char gpu[GS_PROFILE_NAME];
    int32_t sms;
    uint64_t uses; /* counts up with each use of a profile or a pair: who has the least was used longest ago */
    gs_profile *profiles[GS_BOOK_PROFILES];
    gs_pair *pairs[GS_BOOK_PAIRS];
    sqlite3 *file; /* NULL: in memory only */
    char trouble[GS_PROFILE_NAME + 200];
    bool is_troubled; /* has been said, and was not mended since */
    bool has_news;
};

/* The profile or pair itself, made where there is none. NULL: no place, or out of memory. */
gs_profile *gs_book_profile(gs_book *book, uint64_t key);
gs_profile *gs_book_known(gs_book *book, uint64_t key); /* NULL: there is none */
gs_pair *gs_book_make_pair(gs_book *book, uint64_t one, uint64_t other);

/* Makes a profile's curve out of its points. */
void gs_profile_curve(gs_profile *profile);

/* ---- store.c ---- */

void gs_store_open(gs_book *book, const char *path);
void gs_store_close(gs_book *book);
/* Writes a profile or a pair in the transaction under way. */
bool gs_store_begin(gs_book *book);
bool gs_store_profile(gs_book *book, const gs_profile *profile);
bool gs_store_pair(gs_book *book, const gs_pair *pair);
bool gs_store_end(gs_book *book, bool keep);

#endif
