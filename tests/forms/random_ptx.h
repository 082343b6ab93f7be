/* random_ptx.h: random kernels in PTX. See random_ptx.c. */
#ifndef GS_RANDOM_PTX_H
#define GS_RANDOM_PTX_H

#include "base/base.h"

/* Appends a kernel NAME(u64 in, u64 out, u64 sums, u32 n), for blocks of at most 256 threads and grids with at most
   RANDOM_PTX_BLOCKS blocks. `in` and `out` have a word for each thread, `sums` has 16 words. What it computes does not
   depend on the order of threads and blocks. */
enum { RANDOM_PTX_SUMS = 16, RANDOM_PTX_BLOCKS = 24 };
void random_ptx_put(gs_text *into, const char *name, gs_random *random);
extern const char random_ptx_head[]; /* the first lines of a module, and a function that kernels call */

#endif
