/*
 * unsaid.c: predictions of recordings, which do not say everything that matters.
 *
 * Two things depend on how the host sent the launches, and others on what a GPU does not always repeat. A recording of
 * placements does not say them:
 *
 *   - Nodes of a graph that wait for nothing go through several connections of the program. The first comes first. Two
 *     neighbors among the others come in either order, and the GPU does not always repeat itself.
 *   - A launch with an entry for the end of the launch before it in its stream may be programmatic, but never
 *     triggered: then it waits for that launch. Or it is a normal one: then it waits for all before it in its stream.
 *   - The blocks of a memset or copy of a graph are gone when the next node comes, or are not, or some of them are.
 * What waits for it comes before or after another node, and joins among that before or after others.
 *   - The block that signals the end of a node comes before the last of its children, or before the last two. Children
 *     in other green contexts come in the order of the graph, or in the opposite one.
 *
 * So there is a set of predictions, and a recording is compared with the one that agrees best: each possible change is
 * tried, one after the other, and kept if fewer launches differ and no fewer agree. The same holds for the turns at the
 * beginning, which the engine takes from a recording itself (order_burst of serve.c).
 *
 * Which blocks of a memset or copy are still there is found launch by launch: those on the SMs on which more blocks of
 * the first launch that differs are predicted than recorded.
 */
#include "timeline_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 1024 }; /* changes of a recording that are tried */

/* The best prediction so far. */
struct search {
    const gs_gpu *gpu;
    const gs_run *recorded;
    gs_unsaid unsaid;
    gs_run *best;
    gs_score score;
    int tries, kept; /* changes */
};

/* Whether a launch is a node of a graph, and waits for nothing. */
static bool is_root(const gs_run *run, size_t launch) {
    const gs_issue *issue = &run->launches.data[launch].issue;
    return gs_issue_is_node(issue) && !issue->after_count;
}

/* The next root of the graph of this launch; SIZE_MAX: none. */
static size_t next_root(const gs_run *run, size_t launch) {
    while (gs_run_graph_goes_on(run, launch))
        if (is_root(run, ++launch))
            return launch;
    return SIZE_MAX;
}

/* Whether it is the first of its graph. */
static bool begins_graph(const gs_run *run, size_t launch) {
    return !launch || !gs_run_graph_goes_on(run, launch - 1);
}

size_t gs_unsaid_neighbor(const gs_run *run, size_t launch) {
    return is_root(run, launch) && !begins_graph(run, launch) ? next_root(run, launch) : SIZE_MAX;
}

int gs_unsaid_ways(const gs_run *run, size_t operation) {
    if (!gs_issue_is_node(gs_run_issue(run, operation)))
        return 1;
    return operation < run->launches.count ? GS_WAY_OTHER + 1 : GS_WAY_SOME;
}

bool gs_unsaid_new(const gs_run *run, gs_unsaid *unsaid) {
    size_t count = run->launches.count;
    *unsaid = (gs_unsaid){malloc((count + 1) * sizeof(size_t)), calloc(count + 1, sizeof(bool)),
                          calloc(count + run->copies.count + 1, sizeof(uint8_t)),
                          calloc(run->copies.count + 1, GS_MAX_SMS * sizeof(bool))};
    bool done = unsaid->came && unsaid->is_normal && unsaid->ways && unsaid->stays;
    for (size_t i = 0; done && i < count; i++)
        unsaid->came[i] = i;
    return done;
}

void gs_unsaid_free(gs_unsaid *unsaid) {
    free(unsaid->came);
    free(unsaid->is_normal);
    free(unsaid->ways);
    free(unsaid->stays);
}

/* Whether a launch has a plain entry for the launch before it in its stream. */
static bool may_be_normal(const gs_run *run, size_t launch) {
    const gs_launch *launches = run->launches.data;
    const gs_issue *issue = &launches[launch].issue;
    size_t before = launch;
    while (launches[launch].stream && before-- > 0)
        if (launches[before].stream && strcmp(launches[before].stream, launches[launch].stream) == 0)
            break;
    if (!launches[launch].stream || before == SIZE_MAX)
        return false;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++)
        if (run->edges.data[i].number == before && run->edges.data[i].when == GS_AT_END && !run->edges.data[i].is_copy)
            return true;
    return false;
}

static gs_run *predict_changes(const struct search *search, gs_error *error) {
    const gs_predict_options options = {.follow = true};
    return gs_predict_unsaid(search->gpu, search->recorded, &options, &search->unsaid, error);
}

/* Predicts with the changes so far, and keeps the prediction if it is better. `*is_better`: whether it is. */
static gs_code try_changes(struct search *search, bool *is_better, gs_error *error) {
    gs_score score = {0};
    *is_better = false;
    search->tries++;
    gs_run *predicted = predict_changes(search, error);
    gs_code code = predicted ? gs_score_add(&score, search->recorded, predicted, error) : error->code;
    const gs_score *old = &search->score;
    *is_better = code == GS_OK && score.launches - score.launches_exact < old->launches - old->launches_exact &&
                 score.launches_exact >= old->launches_exact;
    gs_run_free(*is_better ? search->best : predicted);
    search->best = *is_better ? predicted : search->best;
    search->score = *is_better ? score : search->score;
    search->kept += *is_better;
    return code;
}

static void exchange(struct search *search, size_t one, size_t other) {
    size_t came = search->unsaid.came[one];
    search->unsaid.came[one] = search->unsaid.came[other];
    search->unsaid.came[other] = came;
}

/* Tries what this launch leaves open. */
static gs_code try_launch(struct search *search, size_t launch, gs_error *error) {
    const gs_run *run = search->recorded;
    size_t next = gs_unsaid_neighbor(run, launch);
    gs_code code = GS_OK;
    bool is_better = false;
    if (next != SIZE_MAX) {
        exchange(search, launch, next);
        code = try_changes(search, &is_better, error);
        if (!is_better)
            exchange(search, launch, next);
    } else if (may_be_normal(run, launch)) {
        search->unsaid.is_normal[launch] = true;
        code = try_changes(search, &is_better, error);
        search->unsaid.is_normal[launch] = is_better;
    }
    return code;
}

/* Tries the other ways of a node. */
static gs_code try_ways(struct search *search, size_t operation, gs_error *error) {
    int ways = gs_unsaid_ways(search->recorded, operation);
    gs_code code = GS_OK;
    for (int way = GS_WAY_OTHER; way < ways && code == GS_OK; way++) {
        uint8_t before = search->unsaid.ways[operation];
        bool is_better = false;
        search->unsaid.ways[operation] = (uint8_t)way;
        code = try_changes(search, &is_better, error);
        search->unsaid.ways[operation] = is_better ? (uint8_t)way : before;
    }
    return code;
}

/* ---- blocks of a memory node that stay ---- */

/* Marks the SMs on which more blocks of a launch are predicted than recorded. `*differs`: whether there are any.
   Returns whether one of them was not marked. */
static bool mark_surplus(const gs_run *recorded, const gs_run *predicted, size_t launch, bool *stays, bool *differs) {
    int64_t surplus[GS_MAX_SMS + 1];
    bool is_new = false;
    *differs = gs_count_surplus(recorded, predicted, launch, surplus);
    for (size_t sm = 0; *differs && sm < GS_MAX_SMS; sm++)
        if (surplus[sm + 1] > 0) {
            is_new = is_new || !stays[sm];
            stays[sm] = true;
        }
    return is_new;
}

/* Marks SMs for the first launch that differs, in the order of the recording. `*launch`: which; SIZE_MAX: nothing new
   is marked. */
static gs_code mark_first(const struct search *search, bool *stays, size_t *launch, gs_error *error) {
    const gs_run *recorded = search->recorded;
    gs_run *predicted = predict_changes(search, error);
    bool differs = false;
    *launch = SIZE_MAX;
    for (size_t i = 0; predicted && i < recorded->events.count && !differs; i++) {
        const gs_event *event = &recorded->events.data[i];
        if (event->op != GS_EXIT && gs_seen_started(event->seen) &&
            mark_surplus(recorded, predicted, event->launch, stays, &differs))
            *launch = event->launch;
    }
    gs_run_free(predicted);
    return predicted ? GS_OK : error->code;
}

/* Tries whether some blocks of a memory node are still there, until the first launch that differs does not. */
static gs_code try_staying(struct search *search, size_t operation, gs_error *error) {
    bool *stays = search->unsaid.stays + (operation - search->recorded->launches.count) * GS_MAX_SMS, is_better = false;
    bool stayed[GS_MAX_SMS];
    uint8_t before = search->unsaid.ways[operation];
    size_t launch, first;
    if (gs_unsaid_ways(search->recorded, operation) == 1)
        return GS_OK;
    memcpy(stayed, stays, sizeof stayed);
    memset(stays, 0, sizeof stayed);
    search->unsaid.ways[operation] = GS_WAY_SOME;
    gs_code code = mark_first(search, stays, &launch, error);
    while (code == GS_OK && launch != SIZE_MAX && !is_better && search->tries < MOST_TRIES) {
        first = launch;
        code = try_changes(search, &is_better, error);
        if (code == GS_OK && !is_better)
            code = mark_first(search, stays, &launch, error);
        launch = launch == first ? launch : SIZE_MAX;
    }
    if (!is_better) {
        search->unsaid.ways[operation] = before;
        memcpy(stays, stayed, sizeof stayed);
    }
    return code;
}

/* ---- the search ---- */

static bool is_over(const struct search *search, gs_code code) {
    return code != GS_OK || search->tries >= MOST_TRIES || search->score.runs_exact;
}

static gs_code search_all(struct search *search, gs_error *error) {
    size_t count = search->recorded->launches.count, all = count + search->recorded->copies.count;
    gs_code code = gs_unsaid_new(search->recorded, &search->unsaid) ? GS_OK : gs_fail_memory(error);
    for (int kept = -1; kept < search->kept && !is_over(search, code);) {
        kept = search->kept;
        for (size_t i = 0; i < count && !is_over(search, code); i++)
            code = try_launch(search, i, error);
        for (size_t i = 0; i < all && !is_over(search, code); i++)
            code = try_ways(search, i, error);
        for (size_t i = count; i < all && !is_over(search, code); i++)
            code = try_staying(search, i, error);
    }
    gs_unsaid_free(&search->unsaid);
    return code;
}

/* ---- predictions ---- */

/* A recording with times may be that of a model, which starts blocks without delay. Then a plain prediction is exact,
   and the recording need not be followed. */
static gs_run *predict_timed(const gs_gpu *gpu, const gs_run *recorded, gs_error *error) {
    const gs_predict_options options = {.follow = true};
    gs_score score = {0};
    gs_run *predicted = gs_predict(gpu, recorded, NULL, error);
    if (!predicted || gs_score_add(&score, recorded, predicted, error) != GS_OK ||
        (score.runs_exact && score.blocks_exact == score.blocks))
        return predicted;
    gs_run_free(predicted);
    return gs_predict_on(gpu, gpu, recorded, &options, error);
}

static gs_run *predict_untimed(const gs_gpu *gpu, const gs_run *recorded, int *changes, gs_error *error) {
    const gs_predict_options options = {.follow = true};
    struct search search = {.gpu = gpu, .recorded = recorded};
    search.best = gs_predict_on(gpu, gpu, recorded, &options, error);
    gs_code code = search.best ? gs_score_add(&search.score, recorded, search.best, error) : error->code;
    if (code == GS_OK && !search.score.runs_exact)
        code = search_all(&search, error);
    *changes = search.kept;
    if (code == GS_OK)
        return search.best;
    gs_run_free(search.best);
    return NULL;
}

gs_run *gs_predict_recorded_as(const gs_gpu *gpu, const gs_run *recorded, int *changes, gs_error *error) {
    gs_error own;
    error = error ? error : &own;
    *changes = 0;
    if (!gs_run_is_timed(recorded))
        return predict_untimed(gpu, recorded, changes, error);
    gs_run *predicted = predict_timed(gpu, recorded, error);
    return predicted ? gs_predict_other_ends(gpu, recorded, predicted, changes, error) : NULL;
}

gs_run *gs_predict_recorded(const gs_gpu *gpu, const gs_run *recorded, gs_error *error) {
    int changes;
    gs_error own;
    error = error ? error : &own;
    return gs_run_is_timed(recorded) ? predict_timed(gpu, recorded, error)
                                     : predict_untimed(gpu, recorded, &changes, error);
}
