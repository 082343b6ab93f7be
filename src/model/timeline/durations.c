/*
 * durations.c: how long the blocks of a recorded launch ran.
 *
 * A recording of a program says how long launches ran, not blocks. The blocks of a launch that has the GPU to itself
 * run in W waves: W is the number of its blocks divided by the number that the empty GPU holds at once, rounded up. So
 * a block runs for the Wth part of the time of the launch, less its tail (gs_gaps).
 *
 * A launch that started before the one before it in its stream had ended (a programmatic launch) is played from that
 * end on: so it ends when it did, and the two are not beside each other.
 *
 * The time of a launch that ran beside others may contain what it waited for their blocks, and how they slowed it down.
 * If the others left headroom for all its blocks, its time is taken as it is. If not, and the same kernel with the same
 * shape and number of blocks ran alone in less than two thirds of that time, the median of its times alone is taken;
 * unless these differ much: then the kernel does not always have the same work to do.
 */
#include "timeline_parts.h"

#include <stdlib.h>
#include <string.h>

struct sorted {
    const gs_run *run;
    uint32_t *data; /* numbers of launches */
    size_t count;
};

/* ---- which launches ran beside others ---- */

/* qsort has no argument for the run, so what is sorted carries its key. */
struct started {
    int64_t start_ns, end_ns;
    uint32_t launch;
};

GS_ORDER_THEN(compare_started, struct started, start_ns, launch)

/* How much of the GPU a launch takes, at most: 1 is all of it. */
static double share_of(const gs_timeline *timeline, size_t launch) {
    const gs_operation *span = &timeline->operations[launch];
    return span->waves > 1 ? 1 : span->share;
}

/* Drops those that had ended by then. Returns the shares of the others. */
static double close_ended(struct started *open, size_t *count, int64_t time_ns, const gs_timeline *timeline) {
    size_t kept = 0;
    double shares = 0;
    for (size_t i = 0; i < *count; i++)
        if (open[i].end_ns > time_ns) {
            shares += share_of(timeline, open[i].launch);
            open[kept++] = open[i];
        }
    *count = kept;
    return shares;
}

/* Marks the launches that ran beside others, and those that may not have had headroom for all their blocks. */
static void mark_beside(struct started *started, size_t count, struct started *open, gs_timeline *timeline) {
    size_t open_count = 0;
    for (size_t i = 0; i < count; i++) {
        double shares = close_ended(open, &open_count, started[i].start_ns, timeline);
        open[open_count++] = started[i];
        bool is_crowded = shares + share_of(timeline, started[i].launch) > 1;
        for (size_t j = 0; j < open_count && open_count > 1; j++) {
            timeline->operations[open[j].launch].is_shared = true;
            timeline->operations[open[j].launch].is_crowded |= is_crowded;
        }
    }
}

/* Where two launches are together only for the tail of the first, its blocks have ended. */
static gs_code mark_shared(const gs_run *run, const gs_freed *freed, gs_timeline *timeline, gs_error *error) {
    struct started *started = malloc((run->launches.count + 1) * sizeof *started);
    struct started *open = malloc((run->launches.count + 1) * sizeof *open);
    size_t count = 0;
    for (size_t i = 0; started && open && i < run->launches.count; i++) {
        const gs_issue *issue = &run->launches.data[i].issue;
        if (gs_measured_ns(issue))
            started[count++] = (struct started){issue->end_ns - gs_own_ns(issue, &freed[i]),
                                                issue->end_ns - timeline->pace.gaps.tail_ns, (uint32_t)i};
    }
    bool done = started && open;
    if (done) {
        qsort(started, count, sizeof *started, compare_started);
        mark_beside(started, count, open, timeline);
    }
    free(started);
    free(open);
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- launches alike ---- */

struct alike {
    const gs_launch *launch;
    int64_t measured_ns; /* 0: it was not */
    uint32_t number;
};

/* How long a launch ran from when the engine lets it start. */
static int64_t played_ns(const gs_issue *issue, const gs_freed *freed) {
    return gs_started_early(issue, freed) ? gs_max(1, issue->end_ns - freed->ready_ns) : gs_measured_ns(issue);
}

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
            return GS_COMPARE(keys[i][0], keys[i][1]);
    return 0;
}

/* The median of the times of those that ran alone; 0: none did, or the times differ too much to say anything. */
static int64_t median_alone(const struct alike *alike, size_t count, const gs_timeline *timeline, int64_t *times) {
    size_t alone = 0;
    for (size_t i = 0; i < count; i++) {
        if (alike[i].measured_ns && !timeline->operations[alike[i].number].is_shared)
            times[alone++] = alike[i].measured_ns;
    }
    qsort(times, alone, sizeof *times, gs_compare_int64);
    bool agree = alone && times[alone * 9 / 10] <= times[alone / 10] + times[alone / 10] / 2;
    return agree ? times[alone / 2] : 0;
}

/* How many blocks of a launch the empty GPU holds at once. */
gs_code gs_launch_capacity(const gs_gpu *gpu, const gs_launch *launch, int64_t *blocks, gs_error *error) {
    gs_need need;
    gs_code code = gs_need_of(gpu, &launch->shape, &need, error);
    if (code != GS_OK)
        return code;
    *blocks = (int64_t)gpu->sms * need.blocks_per_sm;
    if (launch->cluster > 1 && gs_gpu_has_clusters(gpu)) {
        int64_t most = gs_clusters_most(gpu, &launch->shape, launch->cluster, error);
        if (most < 0)
            return error ? error->code : GS_E_NO_FIT;
        *blocks = gs_max(most, 1) * launch->cluster;
    }
    return GS_OK;
}

static void set_span(gs_operation *span, const struct alike *alike, int64_t median_ns, int64_t tail_ns) {
    int64_t measured_ns = alike->measured_ns, waves = span->waves;
    if (alike->launch->duration_ns) { /* the run itself says how long a block runs */
        span->block_ns = alike->launch->duration_ns;
        span->alone_ns = alike->launch->duration_ns * waves;
        return;
    }
    bool is_held_up = span->is_crowded && measured_ns > median_ns + median_ns / 2;
    span->is_borrowed = median_ns && (!measured_ns || is_held_up);
    span->alone_ns = span->is_borrowed ? median_ns : gs_max(measured_ns, 1);
    span->block_ns = gs_max(1, (span->alone_ns - tail_ns + waves / 2) / waves);
    span->is_unknown = !span->is_borrowed && !measured_ns;
}

/* ---- all launches ---- */

/* Launches, those that are alike one after the other. */
struct groups {
    const gs_gpu *gpu;
    gs_timeline *timeline;
    struct alike *data;
    size_t count;
    int64_t *times;
};

static gs_code set_waves(const struct groups *groups, size_t from, size_t to, gs_error *error) {
    const gs_launch *launch = groups->data[from].launch;
    gs_error problem;
    int64_t capacity;
    gs_code code = gs_launch_capacity(groups->gpu, launch, &capacity, &problem);
    if (code == GS_E_MEMORY)
        return gs_fail_memory(error);
    if (code != GS_OK) /* it can never run there: playing says so */
        capacity = launch->blocks;
    for (size_t i = from; i < to; i++) {
        gs_operation *span = &groups->timeline->operations[groups->data[i].number];
        span->waves = gs_divide_up(launch->blocks, capacity);
        span->share = (double)launch->blocks / (double)capacity;
    }
    return GS_OK;
}

static gs_code set_spans(const struct groups *groups, size_t from, size_t to, gs_error *error) {
    (void)error;
    int64_t median_ns = median_alone(groups->data + from, to - from, groups->timeline, groups->times);
    for (size_t i = from; i < to; i++)
        set_span(&groups->timeline->operations[groups->data[i].number], &groups->data[i], median_ns,
                 groups->timeline->pace.gaps.tail_ns);
    return GS_OK;
}

static gs_code for_each(const struct groups *groups,
                        gs_code (*set)(const struct groups *, size_t from, size_t to, gs_error *), gs_error *error) {
    gs_code code = GS_OK;
    for (size_t from = 0, to; from < groups->count && code == GS_OK; from = to) {
        for (to = from + 1; to < groups->count && compare_alike(&groups->data[from], &groups->data[to]) == 0; to++)
            ;
        code = set(groups, from, to, error);
    }
    return code;
}

gs_code gs_timeline_durations(const gs_gpu *gpu, const gs_run *run, gs_timeline *timeline, gs_error *error) {
    struct groups groups = {.gpu = gpu, .timeline = timeline, .count = run->launches.count};
    groups.data = malloc((groups.count + 1) * sizeof *groups.data);
    groups.times = malloc((groups.count + 1) * sizeof *groups.times);
    gs_freed *freed = groups.data && groups.times ? gs_freed_times(run, &timeline->pace, error) : NULL;
    gs_code code = freed ? GS_OK : gs_fail_memory(error);
    /* The times of a changed part are durations only: where they overlap, nothing started early. */
    for (size_t i = 0; i < groups.count && code == GS_OK && run->has_pace; i++)
        freed[i].freed_ns = GS_NO_TIME;
    for (size_t i = 0; i < groups.count && code == GS_OK; i++)
        groups.data[i] =
            (struct alike){&run->launches.data[i], played_ns(&run->launches.data[i].issue, &freed[i]), (uint32_t)i};
    if (code == GS_OK) {
        qsort(groups.data, groups.count, sizeof *groups.data, compare_alike);
        code = for_each(&groups, set_waves, error);
    }
    if (code == GS_OK)
        code = mark_shared(run, freed, timeline, error);
    if (code == GS_OK)
        code = for_each(&groups, set_spans, error);
    free(groups.data);
    free(groups.times);
    free(freed);
    return code;
}
