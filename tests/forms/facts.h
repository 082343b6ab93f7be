/*
 * facts.h: all that the analyses of src/kernels/forms know of a kernel, as a number.
 *
 * Whether a kernel is accepted depends on few of the facts: one that is wrong shows only in a kernel that needs it. So
 * the facts themselves are compared with those of before, all of them: what operands are as sums, between which numbers
 * they are and from which pointers they come; what statements access, and whether they meet; and of each loop what
 * decides in it, what is steady, where a thread may go that has loaded a certain number, and for whom it waits.
 */
#ifndef GS_FACTS_H
#define GS_FACTS_H

#include "test.h"

/* 0: the text is no PTX, or has no such kernel. */
uint64_t facts_of(const gs_text *text, const char *symbol);

#endif
