/* random_loops.h: random kernels with loops and branches as PTX, and how often a thread executes their marks. */
#ifndef RANDOM_LOOPS_H
#define RANDOM_LOOPS_H

#include "base/base.h"

enum { LOOPS_MARKS = 24, LOOPS_PARAMETERS = 4, LOOPS_BLOCKS = 3, LOOPS_THREADS = 64, LOOPS_STORES = 12 };

typedef struct loops_kernel {
    gs_text *text;  /* where its PTX goes */
    uint32_t *line; /* of that text, from 1 */
    int marks;
    uint32_t mark_line[LOOPS_MARKS]; /* of the first store of each mark */
    int64_t executed[LOOPS_MARKS];   /* the most by a thread, of all threads of the launch */
    int64_t most_together;           /* marks that a warp executes at least, of all warps: those of its threads in the
                                        same rounds once */
    int32_t parameters[LOOPS_PARAMETERS];
} loops_kernel;

/* Appends a kernel called `name` and executes it. `kernel` has the text and its line. */
void loops_random(loops_kernel *kernel, gs_random *random, const char *name);

#endif
