/*
 * score.c: how far a prediction agrees with a recording.
 *
 * A recording is scored launch by launch, up to and including the first launch with blocks that did not start at once,
 * because later ones depend on when blocks ended. A launch is exact when the right number of its blocks is on every SM,
 * and the right number waits. Blocks on the right SM, each with its own number, are counted separately. A recording
 * with times is scored up to and including the first launch that differs, because later ones depend on it.
 *
 * A launch that waits for the end of others, such as a node of a graph, does not end the score, nor does one of a
 * program with few connections. It is scored when it is first observed, which must be after the same launch or exit in
 * both. If the others have ended and it is not observed, it waits for room, and is the last that is scored. If it exits
 * before, the score ends: on a GPU its blocks still have to start, but the model drops them. With few connections only
 * the prediction knows whether a launch waits for room; the score ends after the first launch or exit at which one
 * does.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* Blocks on each SM, those that wait at [0]. */
static void count_blocks(const gs_seen *seen, int64_t blocks, int64_t *counts, size_t sms) {
    memset(counts, 0, (sms + 1) * sizeof *counts);
    for (int64_t i = 0; i < blocks; i++)
        counts[gs_seen_sm(seen, i) + 1]++;
}

static size_t sms_of(const gs_seen *seen) {
    int32_t most = -1;
    for (size_t i = 0; i < seen->placed.count; i++)
        most = seen->placed.data[i] > most ? seen->placed.data[i] : most;
    return (size_t)(most + 1);
}

static gs_code is_exact(const gs_seen *recorded, const gs_seen *predicted, int64_t blocks, bool *exact,
                        gs_error *error) {
    size_t one = sms_of(recorded), two = sms_of(predicted), sms = gs_max_u64(one, two);
    int64_t *counts = malloc(2 * (sms + 1) * sizeof *counts);
    if (!counts)
        return gs_fail_memory(error);
    count_blocks(recorded, blocks, counts, sms);
    count_blocks(predicted, blocks, counts + sms + 1, sms);
    *exact = memcmp(counts, counts + sms + 1, (sms + 1) * sizeof *counts) == 0;
    free(counts);
    return GS_OK;
}

enum { MOST_COPIES = 64 }; /* copies before a launch that are followed: a graph that can be played has no more */

/* Copies whose edges are still to be followed. */
struct copy_list {
    uint32_t data[MOST_COPIES];
    size_t count;
};

static void list_copy(struct copy_list *list, uint32_t number) {
    for (size_t i = 0; i < list->count; i++)
        if (list->data[i] == number)
            return;
    if (list->count < MOST_COPIES)
        list->data[list->count++] = number;
}

/* Whether a launch has not exited before the event. */
static bool is_there(const gs_run *run, size_t launch, size_t event) {
    size_t exit = run->launches.data[launch].exit;
    return exit == SIZE_MAX || exit > event;
}

/* Whether one of the launches whose end it waits for has not exited before the event. Lists the copies that it waits
   for. */
static bool waits_for_launch(const gs_run *run, const gs_issue *issue, size_t event, struct copy_list *copies) {
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &run->edges.data[i];
        if (edge->is_copy)
            list_copy(copies, edge->number);
        else if (edge->when != GS_AT_START && is_there(run, edge->number, event))
            return true;
    }
    return false;
}

/* The launch before this one in its stream; SIZE_MAX: none. */
static size_t before_in_stream(const gs_run *run, size_t launch) {
    const char *stream = run->launches.data[launch].stream;
    for (size_t i = launch; stream && i-- > 0;)
        if (run->launches.data[i].stream && strcmp(run->launches.data[i].stream, stream) == 0)
            return i;
    return SIZE_MAX;
}

/* The entry of a launch for another one of its stream; NULL: it has none, or is cooperative and so never programmatic.
 */
static const gs_edge *entry_for(const gs_run *run, size_t launch, size_t other) {
    const gs_issue *issue = &run->launches.data[launch].issue;
    if (issue->facts && issue->facts->is_cooperative)
        return NULL;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++)
        if (!run->edges.data[i].is_copy && run->edges.data[i].number == other)
            return &run->edges.data[i];
    return NULL;
}

/* Whether a launch may have to wait for older ones in its stream: it does, unless it is programmatic, and an entry for
   the end of the one before it does not say that. `surely`: without such an entry. */
static bool waits_in_stream(const gs_run *run, size_t launch, size_t event, bool surely) {
    size_t before = before_in_stream(run, launch);
    const gs_edge *entry = before == SIZE_MAX ? NULL : entry_for(run, launch, before);
    if (entry && (surely || entry->when != GS_AT_END))
        return false;
    for (; before != SIZE_MAX; before = before_in_stream(run, before))
        if (is_there(run, before, event))
            return true;
    return false;
}

/* The launch before it in its stream, if it waits for the start of that one. SIZE_MAX: it does not. */
static size_t starts_after(const gs_run *run, size_t launch) {
    size_t before = before_in_stream(run, launch);
    const gs_edge *entry = before == SIZE_MAX ? NULL : entry_for(run, launch, before);
    return entry && entry->when == GS_AT_START ? before : SIZE_MAX;
}

/* Whether a launch waits for others; `surely`: not if that depends on whether it is programmatic. A launch that waits
   for the start of another one is held with it. */
static bool is_held_at(const gs_run *run, size_t launch, size_t event, bool surely) {
    struct copy_list copies;
    copies.count = 0;
    for (; launch != SIZE_MAX; launch = starts_after(run, launch)) {
        if (!is_there(run, launch, event))
            return false;
        if (waits_for_launch(run, &run->launches.data[launch].issue, event, &copies) ||
            waits_in_stream(run, launch, event, surely))
            return true;
    }
    for (size_t i = 0; i < copies.count; i++)
        if (waits_for_launch(run, &run->copies.data[copies.data[i]].issue, event, &copies))
            return true;
    return false;
}

bool gs_run_is_held(const gs_run *run, size_t launch) {
    return is_held_at(run, launch, run->launches.data[launch].event, false);
}

/* The observation of a launch after this many launches and exits; NULL: none. */
static const gs_seen *observed_after(const gs_run *run, size_t steps, size_t launch) {
    const gs_seen *seen = NULL;
    for (size_t i = 0; i < run->events.count && steps != SIZE_MAX; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op != GS_OBSERVE && steps-- == 0)
            break;
        if (event->op == GS_OBSERVE && event->launch == launch && steps == 0)
            seen = event->seen;
    }
    return seen;
}

struct scoring {
    gs_score *score;
    const gs_run *recorded, *predicted;
    bool *is_held; /* by launch: it waits for others, and is not yet scored */
    size_t held;   /* how many do */
    bool all_exact, goes_on;
};

static gs_code score_launch(struct scoring *scoring, size_t launch, const gs_seen *one, const gs_seen *two,
                            gs_error *error) {
    static const gs_seen nothing = {.has_placed = true};
    gs_score *score = scoring->score;
    int64_t blocks = scoring->recorded->launches.data[launch].blocks;
    bool exact = false;
    two = two ? two : &nothing;
    gs_code code = is_exact(one, two, blocks, &exact, error);
    if (code != GS_OK)
        return code;
    score->launches++;
    score->launches_exact += exact;
    score->blocks += blocks;
    for (int64_t block = 0; block < blocks; block++)
        score->blocks_exact += gs_seen_sm(one, block) == gs_seen_sm(two, block);
    scoring->all_exact = scoring->all_exact && exact;
    scoring->goes_on = gs_seen_started(one) == blocks && (exact || !one->has_end);
    return GS_OK;
}

/* Whether the program has few connections, and the launch does not wait for room. */
static bool is_held_in_connection(const struct scoring *scoring, size_t launch) {
    const gs_run *predicted = scoring->predicted;
    return scoring->recorded->connections &&
           !predicted->events.data[predicted->launches.data[launch].event].lacks_headroom;
}

/* Whether the program has few connections, and after this launch or exit a launch waits for room. */
static bool lacks_headroom_after(const struct scoring *scoring, const gs_event *event) {
    const gs_launch *launch = &scoring->predicted->launches.data[event->launch];
    size_t number = event->op == GS_LAUNCH ? launch->event : launch->exit;
    return scoring->recorded->connections && number < scoring->predicted->events.count &&
           scoring->predicted->events.data[number].lacks_headroom;
}

static gs_code score_event(struct scoring *scoring, size_t number, size_t steps, gs_error *error) {
    const gs_event *event = &scoring->recorded->events.data[number];
    size_t launch = event->launch;
    if (event->op == GS_LAUNCH) {
        const gs_event *other = &scoring->predicted->events.data[scoring->predicted->launches.data[launch].event];
        const gs_seen *two = other->seen;
        bool may_be_held = is_held_in_connection(scoring, launch) ||
                           is_held_at(scoring->recorded, launch, number, other->lacks_headroom);
        scoring->is_held[launch] = !gs_seen_started(event->seen) && !gs_seen_started(two) && may_be_held;
        scoring->held += scoring->is_held[launch];
        return scoring->is_held[launch] ? GS_OK : score_launch(scoring, launch, event->seen, two, error);
    }
    if (!scoring->is_held[launch])
        return GS_OK;
    if (event->op == GS_EXIT) {
        scoring->goes_on = false;
        return GS_OK;
    }
    scoring->is_held[launch] = false;
    scoring->held--;
    return score_launch(scoring, launch, event->seen, observed_after(scoring->predicted, steps, launch), error);
}

/* Called before a launch or an exit. Scores a launch that waits for room because its predecessors have ended, or that
   only the prediction has started. */
static gs_code score_waiting(struct scoring *scoring, size_t event, size_t steps, gs_error *error) {
    static const gs_seen nothing = {.has_placed = true};
    const gs_run *run = scoring->recorded;
    if (!scoring->held || run->connections || !event)
        return GS_OK;
    for (size_t i = 0; i < run->launches.count && run->launches.data[i].event < event; i++) {
        const gs_seen *seen = scoring->is_held[i] ? observed_after(scoring->predicted, steps, i) : NULL;
        if (scoring->is_held[i] && (seen || !is_held_at(run, i, event - 1, false)))
            return score_launch(scoring, i, &nothing, seen, error);
    }
    return GS_OK;
}

gs_code gs_score_add(gs_score *score, const gs_run *recorded, const gs_run *predicted, gs_error *error) {
    struct scoring scoring = {.score = score,
                              .recorded = recorded,
                              .predicted = predicted,
                              .is_held = calloc(recorded->launches.count + 1, sizeof(bool)),
                              .all_exact = true,
                              .goes_on = true};
    gs_code code = scoring.is_held ? GS_OK : gs_fail_memory(error);
    size_t steps = 0;
    bool lacks_headroom = false;
    for (size_t i = 0; i < recorded->events.count && scoring.goes_on && code == GS_OK; i++) {
        const gs_event *event = &recorded->events.data[i];
        if (event->op != GS_OBSERVE && lacks_headroom)
            break;
        if (event->op != GS_OBSERVE) {
            lacks_headroom = lacks_headroom_after(&scoring, event);
            code = score_waiting(&scoring, i, steps++, error);
        }
        if (code == GS_OK && scoring.goes_on)
            code = score_event(&scoring, i, steps, error);
    }
    free(scoring.is_held);
    if (code != GS_OK)
        return code;
    score->runs++;
    score->runs_exact += scoring.all_exact;
    return GS_OK;
}
