/* knobs.h: the possible changes to a run, value by value. For fix.c. */
#ifndef GS_KNOBS_H
#define GS_KNOBS_H

#include "trial.h"

/* One thing that can be changed, and its possible values, the smallest change first. */
typedef struct gs_knob {
    gs_fix_kind kind;
    size_t launch; /* SIZE_MAX: the launch order, whose values are numbers of orders */
    int64_t from;
    int64_t *data; /* its possible values */
    size_t count, capacity;
} gs_knob;

typedef struct gs_knobs {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_order *among; /* only these kernels are changed; NULL: all */
    gs_knob *data;
    size_t count, capacity;
    size_t *orders;  /* with few kernels: all launch orders but the given one, those that move fewest kernels first */
    int32_t *moves;  /* by order: how many kernels it moves */
    size_t *scratch; /* with many kernels: the latest order that was returned */
} gs_knobs;

/* Lists the possible changes. `most_orders`: the most orders that are listed for many kernels. */
gs_code gs_knobs_list(gs_knobs *knobs, unsigned kinds, int64_t most_orders, gs_error *error);
void gs_knobs_free(gs_knobs *knobs);

/* The launch order with this number. Valid until the next call. */
const size_t *gs_knobs_order(gs_knobs *knobs, int64_t number);

/* If the order moves a single kernel: its number and its new place. Otherwise SIZE_MAX. */
size_t gs_order_moved(const size_t *order, size_t count, size_t *place);

/* What a change costs, in millionths. */
int64_t gs_knob_cost(const gs_knobs *knobs, const gs_knob *knob, int64_t value);

#endif
