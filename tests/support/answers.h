/*
 * answers.h: answers of today, compared with earlier ones, which a file has, line by line.
 *
 * A random case is told by its number, and its whole answer is hashed: a file of a few lines has those of thousands. A
 * change of an answer should be one that was meant: with GRIDSMITH_WRITE=1 the file is written anew.
 */
#ifndef GS_ANSWERS_H
#define GS_ANSWERS_H

#include "test.h"

/* Opens a file of the source tree, as "tests/check/answers.txt". */
void answers_open(const char *file);
/* The next line, which must begin with `name`. */
void answers_begin(const char *name);
/* The next of the cases of that line. Fails the test, with its number, if the answer is another one. */
void answers_expect(uint64_t hash);
/* The end of the line. When few random runs are wanted , cases may be left out at its end. */
void answers_end(void);
void answers_close(void);

/* Whether products and sums are rounded as where the files were written. Otherwise answers with them are not compared.
 */
bool answers_are_rounded_alike(void);

/* A hash so far, and one more value, list of values, or text. */
uint64_t answers_add(uint64_t hash, int64_t value);
uint64_t answers_add_list(uint64_t hash, const size_t *data, size_t count);
uint64_t answers_add_text(uint64_t hash, const gs_text *text);

#endif
