/* random_ptx.h: random kernels in PTX. See random_ptx.c. */
#ifndef GS_RANDOM_PTX_H
#define GS_RANDOM_PTX_H

#include "base/base.h"

/* A kernel NAME(u64 in, u64 out, u64 sums, u64 flags), for blocks of at most RANDOM_PTX_THREADS threads and grids of at
   most RANDOM_PTX_BLOCKS blocks. `in` and `out` have a word for each thread; `sums` and `flags` are words that are 0
   before the launch. What it computes does not depend on the order of threads and blocks. */
enum { RANDOM_PTX_SUMS = 32, RANDOM_PTX_BLOCKS = 24, RANDOM_PTX_FLAGS = 96, RANDOM_PTX_THREADS = 256 };

typedef struct random_ptx_kernel {
    const char *name;
    uint32_t grid[3], block[3]; /* for this grid, or one with another number of columns; the block is fixed */
    uint32_t shared_bytes;      /* dynamic shared memory: filled in */
    uint64_t features;          /* that it has, a bit each: filled in */
} random_ptx_kernel;

void random_ptx_put(gs_text *into, random_ptx_kernel *kernel, gs_random *random);
extern const char random_ptx_head[]; /* the first lines of a module, with the functions that kernels call */

/* What random kernels are made of. A feature has one row or several, which are alternatives. */
enum random_ptx_need {
    RANDOM_PTX_ANY,     /* works after threads have left, from the last on */
    RANDOM_PTX_WHOLE,   /* all threads come */
    RANDOM_PTX_WARPS,   /* and they are whole warps */
    RANDOM_PTX_GROUPS,  /* and these are pairs of warps, in one row */
    RANDOM_PTX_ONCE,    /* once in a kernel, in front of everything else */
    RANDOM_PTX_ONE_ROW, /* the same, in a grid of one row */
    RANDOM_PTX_LEAVES   /* once in a kernel, behind everything else: threads leave before others */
};

typedef struct random_ptx_row {
    const char *feature;
    enum random_ptx_need need;
    const char *text; /* NULL: random_ptx.c has a function for it */
} random_ptx_row;

extern const random_ptx_row random_ptx_rows[];
extern const size_t random_ptx_row_count;
/* The feature with this number, or NULL: there are no more. */
const char *random_ptx_feature(int number);

#endif
