/* guard_maker.h: the guard of an architecture, made with ptxas. See guard_maker.c. */
#ifndef GS_GUARD_MAKER_H
#define GS_GUARD_MAKER_H

#include "kernels/cuda/cuda.h"
#include "kernels/sass/sass.h"

enum { MOST_GUARD = 200 /* instructions */ };

struct made_guard {
    gs_guard guard;
    uint64_t code[2 * MOST_GUARD];
};

void make_guard(int architecture, struct made_guard *made);
/* Assembles a kernel, or fails the test. */
gs_cubin assemble(const gs_text *text, int architecture, const char *kernel);

#endif
