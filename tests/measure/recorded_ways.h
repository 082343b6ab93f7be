/*
 * recorded_ways.h: measurements of kernels in all ways to run them, as in corpus/h200-plan-ways.txt.
 */
#ifndef GS_RECORDED_WAYS_H
#define GS_RECORDED_WAYS_H

#include "test.h"

#include "sharing/measure/measure.h"

enum { RECORDED_KERNELS = 8, RECORDED_ROWS = 2000 };

struct recorded_row {
    gs_measurement measurement;
    gs_measure_result result;
};

struct recorded {
    gs_pair_search_kernel given[RECORDED_KERNELS];
    size_t kernels;
    struct recorded_row rows[RECORDED_ROWS];
    size_t count;
};

/* What a file has from its line number `pair` that begins with "pair" up to the next such line, from 1; 0: what is
   before the first one. NULL: it has fewer. The caller frees it. */
struct recorded *recorded_read(const char *path, int pair);

#endif
