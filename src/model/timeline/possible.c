/*
 * possible.c: all that can happen in a run, where a GPU does not repeat itself.
 *
 * A run leaves some things open (unsaid.c): which of two neighbors among the first nodes of a graph comes first, when a
 * memset or copy has ended, whether the block that signals the end of a node comes before the last two
 * children. Each of these is a choice. Those that change the prediction, if only this one is made another way, are
 * combined in all ways. Neighbors that change places do so in pairs: a node is in one exchange at most. What is the
 * same as an earlier prediction is left out.
 */
#include "timeline_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHOICES = 12, MOST_POSSIBLE = 256 };

/* Either two launches are exchanged, or an operation goes another way. */
struct choice {
    size_t operation, neighbor; /* neighbor SIZE_MAX: it goes another way */
    uint8_t way;
};

struct choices {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_predict_options *options;
    gs_unsaid unsaid;
    struct choice data[MOST_CHOICES];
    size_t count;
};

static void exchange(gs_unsaid *unsaid, size_t one, size_t other) {
    size_t came = unsaid->came[one];
    unsaid->came[one] = unsaid->came[other];
    unsaid->came[other] = came;
}

/* Makes a choice, or takes it back: it is the same. */
static void turn_choice(gs_unsaid *unsaid, const struct choice *choice) {
    if (choice->neighbor != SIZE_MAX)
        exchange(unsaid, choice->operation, choice->neighbor);
    else
        unsaid->ways[choice->operation] ^= choice->way;
}

/* ---- the list of predictions ---- */

static bool is_same_list(const gs_sm_list *one, const gs_sm_list *other) {
    return one->count == other->count &&
           (!one->count || memcmp(one->data, other->data, one->count * sizeof *one->data) == 0);
}

static bool are_same(const gs_run *one, const gs_run *other) {
    if (one->events.count != other->events.count)
        return false;
    for (size_t i = 0; i < one->events.count; i++) {
        const gs_event *first = &one->events.data[i], *second = &other->events.data[i];
        if (first->op != second->op || first->launch != second->launch ||
            !is_same_list(&first->seen->placed, &second->seen->placed))
            return false;
    }
    return true;
}

/* Adds a prediction, which it takes, unless it is there already. `*is_new`: whether it is not. */
static gs_code add_prediction(gs_possible *possible, gs_run *prediction, bool *is_new, gs_error *error) {
    *is_new = true;
    for (size_t i = 0; i < possible->count && *is_new; i++)
        *is_new = !are_same(possible->data[i], prediction);
    if (*is_new && GS_PUSH(possible, prediction))
        return GS_OK;
    gs_run_free(prediction);
    return *is_new ? gs_fail_memory(error) : GS_OK;
}

static gs_code add_current(const struct choices *choices, gs_possible *possible, bool *is_new, gs_error *error) {
    gs_run *prediction = gs_predict_unsaid(choices->gpu, choices->run, choices->options, &choices->unsaid, error);
    return prediction ? add_prediction(possible, prediction, is_new, error) : error->code;
}

/* ---- choices ---- */

/* Keeps a choice if it makes a difference. */
static gs_code try_choice(struct choices *choices, struct choice choice, gs_possible *possible, gs_error *error) {
    bool is_new;
    turn_choice(&choices->unsaid, &choice);
    gs_code code = add_current(choices, possible, &is_new, error);
    turn_choice(&choices->unsaid, &choice);
    if (code == GS_OK && is_new && choices->count == MOST_CHOICES)
        possible->is_cut = true;
    else if (code == GS_OK && is_new)
        choices->data[choices->count++] = choice;
    return code;
}

static gs_code find_choices(struct choices *choices, gs_possible *possible, gs_error *error) {
    const gs_run *run = choices->run;
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        size_t neighbor = gs_unsaid_neighbor(run, i);
        if (neighbor != SIZE_MAX)
            code = try_choice(choices, (struct choice){i, neighbor, 0}, possible, error);
    }
    for (size_t i = 0; i < run->launches.count + run->copies.count && code == GS_OK; i++)
        for (int way = GS_WAY_OTHER; way < gs_unsaid_ways(run, i) && code == GS_OK; way++)
            code = try_choice(choices, (struct choice){i, SIZE_MAX, (uint8_t)way}, possible, error);
    return code;
}

/* Whether two choices exclude each other: they have a launch in common. */
static bool exclude(const struct choice *one, const struct choice *other) {
    if ((one->neighbor == SIZE_MAX) != (other->neighbor == SIZE_MAX))
        return false;
    return one->operation == other->operation || (one->neighbor != SIZE_MAX && one->neighbor == other->operation);
}

static bool overlap(const struct choices *choices, size_t chosen) {
    for (size_t i = 0; i < choices->count; i++)
        for (size_t j = 0; j < choices->count; j++)
            if (i != j && chosen >> i & chosen >> j & 1 && exclude(&choices->data[i], &choices->data[j]))
                return true;
    return false;
}

static gs_code combine(struct choices *choices, gs_possible *possible, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t chosen = 1; chosen >> choices->count == 0 && code == GS_OK && !possible->is_cut; chosen++) {
        bool is_single = (chosen & (chosen - 1)) == 0, is_new;
        if (is_single || overlap(choices, chosen))
            continue;
        for (size_t i = 0; i < choices->count; i++)
            if (chosen >> i & 1)
                turn_choice(&choices->unsaid, &choices->data[i]);
        code = add_current(choices, possible, &is_new, error);
        for (size_t i = 0; i < choices->count; i++)
            if (chosen >> i & 1)
                turn_choice(&choices->unsaid, &choices->data[i]);
        possible->is_cut = possible->count >= MOST_POSSIBLE;
    }
    return code;
}

gs_code gs_predict_possible(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options,
                            gs_possible *possible, gs_error *error) {
    struct choices choices = {.gpu = gpu, .run = run, .options = options};
    bool is_new;
    *possible = (gs_possible){0};
    if (gs_run_is_timed(run))
        return gs_fail(error, GS_E_USAGE, "what else can happen is known only of runs without durations");
    gs_code code = gs_unsaid_new(run, &choices.unsaid) ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = add_current(&choices, possible, &is_new, error);
    if (code == GS_OK)
        code = find_choices(&choices, possible, error);
    if (code == GS_OK)
        code = combine(&choices, possible, error);
    gs_unsaid_free(&choices.unsaid);
    if (code != GS_OK)
        gs_possible_free(possible);
    return code;
}

void gs_possible_free(gs_possible *possible) {
    for (size_t i = 0; i < possible->count; i++)
        gs_run_free(possible->data[i]);
    free(possible->data);
    *possible = (gs_possible){0};
}
