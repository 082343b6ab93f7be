/*
 * ends.c: predictions of recordings with times, whose blocks may have ended a little earlier or later than they say.
 *
 * A block notes the time just before it exits. When its SM is free for another one varies by some 100 ns, and so it
 * does not show whether a block that ends while a kernel is placed has made space for it. So if a launch is on other
 * SMs than predicted, the end of a block on one of these SMs is moved: to an earlier time if the launch has more blocks
 * there than predicted, to a later one if it has fewer. What brings the first launch that differs further back is kept.
 * A few ends are moved so, each once.
 */
#include "timeline_parts.h"

#include <string.h>

enum {
    MOVED_NS = 300,   /* by how much an end is moved */
    NEAR_NS = 800,    /* from the end of a block to the start of one that may have taken its place */
    MOST_MOVED = 4,   /* ends of a run */
    MOST_TRIES = 200, /* predictions of a run */
};

/* ---- what differs ---- */

/* What was seen of a launch when its first blocks had started; NULL: nothing. */
static const gs_seen *first_seen(const gs_run *run, size_t launch) {
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->launch == launch && event->op != GS_EXIT && gs_seen_started(event->seen))
            return event->seen;
    }
    return NULL;
}

static void count_block(int64_t *surplus, int32_t sm, int by) {
    if (sm < GS_MAX_SMS) /* a recording can have any number */
        surplus[sm + 1] += by;
}

bool gs_count_surplus(const gs_run *recorded, const gs_run *predicted, size_t launch, int64_t *surplus) {
    const gs_seen *one = first_seen(recorded, launch), *two = first_seen(predicted, launch);
    bool is_any = false;
    memset(surplus, 0, (GS_MAX_SMS + 1) * sizeof *surplus);
    for (int64_t i = 0; one && two && i < recorded->launches.data[launch].blocks; i++) {
        count_block(surplus, gs_seen_sm(two, i), 1);
        count_block(surplus, gs_seen_sm(one, i), -1);
    }
    for (size_t sm = 0; sm < GS_MAX_SMS; sm++)
        is_any = is_any || surplus[sm + 1] > 0;
    return is_any;
}

/* ---- other ends ---- */

struct ends {
    const gs_gpu *gpu;
    const gs_run *recorded;
    gs_run *moved; /* the recording with other ends */
    gs_run *best;  /* the prediction that follows it */
    gs_score score;
    int tries, kept;
};

/* The first launch that has more blocks on an SM than recorded, with the surplus by SM; SIZE_MAX: none. */
static size_t first_differing(const struct ends *ends, int64_t *surplus) {
    for (size_t i = 0; i < ends->recorded->launches.count; i++)
        if (gs_count_surplus(ends->recorded, ends->best, i, surplus))
            return i;
    return SIZE_MAX;
}

/* Whether blocks of a launch have started near this time: on this SM, or anywhere (-1). */
static bool has_start_near(const gs_seen *seen, int64_t end_ns, int32_t sm, int64_t before_ns) {
    for (size_t i = 0; seen->has_start && i < seen->start_ns.count; i++) {
        int64_t start_ns = seen->start_ns.data[i];
        if (start_ns != GS_NO_TIME && (sm < 0 || gs_seen_sm(seen, (int64_t)i) == sm) && start_ns - end_ns < NEAR_NS &&
            start_ns - end_ns > -before_ns)
            return true;
    }
    return false;
}

/* By how much to move the end of a block, which is on this SM; 0: it has to do with no start of the launch. */
static int64_t move_of(const gs_seen *launch, int64_t end_ns, int32_t sm, const int64_t *surplus) {
    if (end_ns == GS_NO_TIME || sm < 0 || sm >= GS_MAX_SMS || !surplus[sm + 1])
        return 0;
    if (surplus[sm + 1] < 0)
        return has_start_near(launch, end_ns, sm, 0) ? -MOVED_NS : 0;
    return has_start_near(launch, end_ns, -1, NEAR_NS / 2) ? MOVED_NS : 0;
}

/* Predicts with the ends as they are now, and keeps the prediction if the first launch that differs is a later one. */
static gs_code try_ends(struct ends *ends, bool *is_better, gs_error *error) {
    const gs_predict_options options = {.follow = true};
    gs_score score = {0};
    ends->tries++;
    gs_run *predicted = gs_predict_on(ends->gpu, ends->gpu, ends->moved, &options, error);
    gs_code code = predicted ? gs_score_add(&score, ends->recorded, predicted, error) : error->code;
    *is_better = code == GS_OK && (score.runs_exact || score.launches_exact > ends->score.launches_exact);
    gs_run_free(*is_better ? ends->best : predicted);
    ends->best = *is_better ? predicted : ends->best;
    ends->score = *is_better ? score : ends->score;
    ends->kept += *is_better;
    return code;
}

static gs_event *observed(const gs_run *run, size_t launch) {
    return &run->events.data[run->launches.data[launch].observed];
}

/* Moves ends of blocks of a launch, one at a time, until one of them is kept. */
static gs_code move_ends(struct ends *ends, size_t launch, size_t differing, const int64_t *surplus, bool *is_better,
                         gs_error *error) {
    const gs_seen *recorded = observed(ends->recorded, launch)->seen, *late = observed(ends->recorded, differing)->seen;
    gs_seen *seen = gs_event_see(observed(ends->moved, launch));
    gs_code code = seen ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; recorded->has_end && i < recorded->end_ns.count && code == GS_OK && !*is_better; i++) {
        int64_t end_ns = recorded->end_ns.data[i];
        int64_t move_ns = move_of(late, end_ns, gs_seen_sm(recorded, (int64_t)i), surplus);
        if (!move_ns || seen->end_ns.data[i] != end_ns || ends->tries >= MOST_TRIES)
            continue;
        int64_t moved_ns = gs_max(gs_min(end_ns, INT64_MAX - MOVED_NS) + move_ns, 0);
        seen->end_ns.data[i] = moved_ns;
        code = try_ends(ends, is_better, error);
        seen->end_ns.data[i] = *is_better ? moved_ns : end_ns;
    }
    return code;
}

static gs_code search_ends(struct ends *ends, gs_error *error) {
    bool is_better = true;
    gs_code code = GS_OK;
    while (code == GS_OK && is_better && !ends->score.runs_exact && ends->kept < MOST_MOVED) {
        int64_t surplus[GS_MAX_SMS + 1] = {0};
        size_t differing = first_differing(ends, surplus);
        is_better = false;
        for (size_t i = 0; differing != SIZE_MAX && i < ends->recorded->launches.count && code == GS_OK && !is_better;
             i++)
            code = move_ends(ends, i, differing, surplus, &is_better, error);
    }
    return code;
}

gs_run *gs_predict_other_ends(const gs_gpu *gpu, const gs_run *recorded, gs_run *predicted, int *moved,
                              gs_error *error) {
    struct ends ends = {.gpu = gpu, .recorded = recorded, .best = predicted};
    gs_code code = gs_score_add(&ends.score, recorded, predicted, error);
    if (code == GS_OK && !ends.score.runs_exact) {
        ends.moved = gs_run_copy(recorded, error);
        code = ends.moved ? search_ends(&ends, error) : error->code;
    }
    gs_run_free(ends.moved);
    *moved = ends.kept;
    if (code == GS_OK)
        return ends.best;
    gs_run_free(ends.best);
    return NULL;
}
