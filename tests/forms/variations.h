/*
 * variations.h: what is decided of a kernel, and of the kernels that differ from it in one statement.
 *
 * Most mistakes in an analysis show in kernels that are nearly right: a fence is missing, a test is the opposite, an
 * index is one more. Whether such kernels compute the same in each form is tried elsewhere, for some of them. Here all
 * of them are decided on, and compared with a file of earlier decisions: a change of the analyses, or of the text of a
 * form, is seen, and it should be one that was meant. With GRIDSMITH_WRITE=1 the files are written anew.
 *
 * The files are in tests/forms/variations. A line has a kernel, and a letter for each decision: first of the kernel
 * itself, then of its variations, statement by statement: without the statement, with other numbers, with other
 * instructions, with another statement in front of it, with a guard. An upper-case letter is an accepted kernel, by
 * what its forms are and need; a lower-case letter a refused one, by place and reason; "." a text that is no PTX.
 *
 * In tests/forms/facts is what the analyses know of these kernels (facts.h), without each statement or with a variation
 * of it.
 */
#ifndef GS_VARIATIONS_H
#define GS_VARIATIONS_H

#include "test.h"

/* Opens tests/forms/variations/NAME.txt. */
void variations_open(const char *name);
/* What the statements of a kernel may use. */
typedef struct variations_scope {
    const char *symbol; /* of the kernel */
    const char *guard, *value;
    const char *const *inserted; /* statements; the last is NULL */
} variations_scope;

/* Compares the decisions on a kernel whose statements are between `from` and `to` in the text. With few GRIDSMITH_RUNS
   most kernels are left out. */
void variations_expect(const char *name, const char *text, const char *from, const char *to,
                       const variations_scope *scope);
void variations_close(void);

#endif
