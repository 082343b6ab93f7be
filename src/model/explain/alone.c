/*
 * alone.c: how long the launches of a recording take alone.
 *
 * The time of a launch that ran beside others contains what these did to it. If the same kernel with the same shape
 * also ran alone, the median of those times is taken instead; otherwise the time is taken as it is.
 */
#include "change.h"

#include <stdlib.h>

struct alike {
    uint64_t kind;
    int64_t own_ns; /* how long it was measured to take; 0: it was not */
    size_t launch;
};

GS_ORDER_THEN(compare_alike, struct alike, kind, launch)

/* The median of those that ran alone; 0: none did. */
static int64_t median_alone(const gs_timeline *played, const struct alike *alike, size_t count, int64_t *times) {
    size_t alone = 0;
    for (size_t i = 0; i < count; i++)
        if (alike[i].own_ns && !played->operations[alike[i].launch].is_shared)
            times[alone++] = alike[i].own_ns;
    qsort(times, alone, sizeof *times, gs_compare_int64);
    return alone ? times[alone / 2] : 0;
}

int64_t *gs_alone_times(const gs_run *run, const gs_timeline *played, const gs_freed *freed, gs_error *error) {
    size_t count = run->launches.count;
    int64_t *all = malloc((count + 1) * sizeof *all);
    struct alike *alike = malloc((count + 1) * sizeof *alike);
    int64_t *times = malloc((count + 1) * sizeof *times);
    bool done = all && alike && times;
    for (size_t i = 0; done && i < count; i++)
        alike[i] = (struct alike){gs_operation_kind(run, i), gs_own_ns(&run->launches.data[i].issue, &freed[i]), i};
    if (done)
        qsort(alike, count, sizeof *alike, compare_alike);
    for (size_t from = 0, to; done && from < count; from = to) {
        for (to = from + 1; to < count && alike[to].kind == alike[from].kind; to++)
            ;
        int64_t median_ns = median_alone(played, alike + from, to - from, times);
        for (size_t i = from; i < to; i++) {
            const gs_operation *operation = &played->operations[alike[i].launch];
            bool is_taken = operation->is_shared && median_ns && alike[i].own_ns;
            all[alike[i].launch] = is_taken ? median_ns : alike[i].own_ns;
        }
    }
    free(alike);
    free(times);
    if (done)
        return all;
    free(all);
    gs_fail_memory(error);
    return NULL;
}
