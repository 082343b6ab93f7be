/*
 * spoiled.h: texts of JSON with one mistake, or another value, at random. For the tests of readers: what is said of a
 * file that is not right matters as much as what is read.
 */
#ifndef GS_SPOILED_H
#define GS_SPOILED_H

#include "test.h"

/* The caller frees it. */
gs_text spoiled(gs_random *random, const char *text, size_t count);

/* An error, all of it, as a hash. */
uint64_t spoiled_error(uint64_t hash, const gs_error *error);

#endif
