/*
 * durations.c: how long the blocks of a recorded launch ran.
 *
 * A recording of a program says how long launches ran, not blocks. The blocks of a launch that has the GPU to itself
 * run in W waves: W is the number of its blocks divided by the number that the empty GPU holds at once, rounded up. So
 * a block runs for the Wth part of the time of the launch.
 *
 * The time of a launch that ran beside others contains what it waited for their blocks, and how they slowed it down. If
 * the same kernel with the same shape and the same number of blocks was also measured alone, the median of those times
 * is taken instead.
 */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

struct sorted {
    const gs_run *run;
    uint32_t *data; /* numbers of launches */
    size_t count;
};

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* ---- which launches ran beside others ---- */

/* qsort has no argument for the run, so what is sorted carries its key. */
struct started {
    int64_t start_ns, end_ns;
    uint32_t launch;
};

static int compare_started(const void *a, const void *b) {
    const struct started *one = a, *two = b;
    int order = compare(one->start_ns, two->start_ns);
    return order ? order : compare(one->launch, two->launch);
}

static gs_code mark_shared(const gs_run *run, gs_timeline *timeline, gs_error *error) {
    struct started *started = malloc((run->launches.count + 1) * sizeof *started);
    size_t count = 0;
    int64_t latest_ns = INT64_MIN;
    if (!started)
        return gs_fail_memory(error);
    for (size_t i = 0; i < run->launches.count; i++)
        if (gs_measured_ns(&run->launches.data[i].issue))
            started[count++] =
                (struct started){run->launches.data[i].issue.start_ns, run->launches.data[i].issue.end_ns, (uint32_t)i};
    qsort(started, count, sizeof *started, compare_started);
    for (size_t i = 0; i < count; i++) {
        bool has_next = i + 1 < count && started[i + 1].start_ns < started[i].end_ns;
        timeline->operations[started[i].launch].is_shared = has_next || started[i].start_ns < latest_ns;
        latest_ns = gs_max(latest_ns, started[i].end_ns);
    }
    free(started);
    return GS_OK;
}

/* ---- launches alike ---- */

struct alike {
    const gs_launch *launch;
    uint32_t number;
};

static int compare_alike(const void *first, const void *second) {
    const gs_launch *a = ((const struct alike *)first)->launch, *b = ((const struct alike *)second)->launch;
    int64_t keys[][2] = {{(intptr_t)a->kernel, (intptr_t)b->kernel},
                         {a->blocks, b->blocks},
                         {a->cluster, b->cluster},
                         {a->shape.threads, b->shape.threads},
                         {a->shape.registers, b->shape.registers},
                         {a->shape.shared_bytes, b->shape.shared_bytes},
                         {a->shape.local_bytes, b->shape.local_bytes},
                         {a->shape.carveout_percent, b->shape.carveout_percent}};
    for (size_t i = 0; i < GS_COUNT(keys); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static int compare_times(const void *a, const void *b) {
    return compare(*(const int64_t *)a, *(const int64_t *)b);
}

/* The median of the times of those that ran alone; 0: none did. */
static int64_t median_alone(const struct alike *alike, size_t count, const gs_timeline *timeline, int64_t *times) {
    size_t alone = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t measured_ns = gs_measured_ns(&alike[i].launch->issue);
        if (measured_ns && !timeline->operations[alike[i].number].is_shared)
            times[alone++] = measured_ns;
    }
    qsort(times, alone, sizeof *times, compare_times);
    return alone ? times[alone / 2] : 0;
}

/* How many blocks of a launch the empty GPU holds at once. */
static gs_code capacity_of(const gs_gpu *gpu, const gs_launch *launch, int64_t *blocks, gs_error *error) {
    gs_need need;
    gs_code code = gs_need_of(gpu, &launch->shape, &need, error);
    if (code != GS_OK)
        return code;
    *blocks = (int64_t)gpu->sms * gs_min(need.blocks_per_sm, gs_max(need.shared_when_idle, 1));
    if (launch->cluster > 1 && gs_gpu_has_clusters(gpu)) {
        int64_t most = gs_clusters_most(gpu, &launch->shape, launch->cluster, error);
        if (most < 0)
            return error ? error->code : GS_E_NO_FIT;
        *blocks = gs_max(most, 1) * launch->cluster;
    }
    return GS_OK;
}

static void set_span(gs_operation *span, const gs_launch *launch, int64_t median_ns, int64_t waves) {
    int64_t measured_ns = gs_measured_ns(&launch->issue);
    span->waves = waves;
    if (launch->duration_ns) { /* the run itself says how long a block runs */
        span->block_ns = launch->duration_ns;
        span->alone_ns = launch->duration_ns * waves;
        return;
    }
    span->is_borrowed = median_ns && (span->is_shared || !measured_ns);
    span->alone_ns = span->is_borrowed ? median_ns : gs_max(measured_ns, 1);
    span->block_ns = gs_max(1, (span->alone_ns + waves / 2) / waves);
    span->is_unknown = !span->is_borrowed && !measured_ns;
}

static gs_code set_group(const gs_gpu *gpu, const struct alike *alike, size_t count, gs_timeline *timeline,
                         int64_t *times, gs_error *error) {
    int64_t capacity, median_ns = median_alone(alike, count, timeline, times);
    gs_error problem;
    gs_code code = capacity_of(gpu, alike[0].launch, &capacity, &problem);
    if (code == GS_E_MEMORY)
        return gs_fail_memory(error);
    if (code != GS_OK) /* it can never run there: playing says so */
        capacity = alike[0].launch->blocks;
    for (size_t i = 0; i < count; i++)
        set_span(&timeline->operations[alike[i].number], alike[i].launch, median_ns,
                 gs_divide_up(alike[i].launch->blocks, capacity));
    return GS_OK;
}

gs_code gs_timeline_durations(const gs_gpu *gpu, const gs_run *run, gs_timeline *timeline, gs_error *error) {
    size_t launches = run->launches.count;
    gs_code code = mark_shared(run, timeline, error);
    struct alike *alike = malloc((launches + 1) * sizeof *alike);
    int64_t *times = malloc((launches + 1) * sizeof *times);
    if (code == GS_OK && (!alike || !times))
        code = gs_fail_memory(error);
    for (size_t i = 0; i < launches && code == GS_OK; i++)
        alike[i] = (struct alike){&run->launches.data[i], (uint32_t)i};
    if (code == GS_OK)
        qsort(alike, launches, sizeof *alike, compare_alike);
    for (size_t from = 0, to; from < launches && code == GS_OK; from = to) {
        for (to = from + 1; to < launches && compare_alike(&alike[from], &alike[to]) == 0; to++)
            ;
        code = set_group(gpu, alike + from, to - from, timeline, times, error);
    }
    free(alike);
    free(times);
    return code;
}

gs_gpu *gs_gpu_recorded_on(const gs_gpu *gpu, const gs_run *run) {
    gs_gpu *named = run->gpu ? gs_gpu_open(run->gpu, NULL) : NULL;
    if (named && strcmp(named->name, gpu->name) == 0 && named->sms == gpu->sms) {
        gs_gpu_free(named);
        named = NULL;
    }
    return named;
}
