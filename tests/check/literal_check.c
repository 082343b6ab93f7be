/*
 * literal_check.c: `check`, written in the most obvious way.
 *
 * Each sequence of kernels is a run of its own, which the engine plays from the beginning. Equal kernels are found by
 * comparing all of them. Aborts if memory runs out.
 */
#include "literal.h"

#include <stdlib.h>
#include <string.h>

static bool order_push(gs_order *order, size_t launch) {
    if (!GS_RESERVE(order, 1))
        return false;
    order->data[order->count++] = launch;
    return true;
}

static void conflict_clear(gs_conflict *conflict) {
    free(conflict->order.data);
    gs_text_free(&conflict->why);
    gs_text_free(&conflict->numbers);
    *conflict = (gs_conflict){0};
}

/* ---- this order ---- */

static gs_code play_event(gs_engine *engine, const gs_event *event, gs_error *error) {
    if (event->op == GS_LAUNCH)
        return gs_engine_launch(engine, event->launch, error);
    return event->op == GS_EXIT ? gs_engine_exit(engine, event->launch, error) : GS_OK;
}

/* Started blocks, and those that could start. */
static int64_t room_of(gs_engine *engine, size_t launch) {
    gs_grid grid = gs_engine_grid(engine, launch);
    int64_t room = gs_engine_started(engine, launch);
    const gs_gpu *gpu = gs_dispatcher_state(gs_engine_dispatcher(engine))->gpu;
    for (int sm = 0; sm < gpu->sms && grid.is_whole; sm++)
        if (!grid.open || grid.open[sm])
            room += gs_dispatcher_room(gs_engine_dispatcher(engine), grid.kernel, sm);
    return room < grid.blocks ? room : grid.blocks;
}

/* Plays the events of the launches that are not left out, up to the first launch that waits. Fills in the conflict if
   there is one. */
static gs_code play_as_given(const gs_gpu *gpu, const gs_run *run, const bool *left_out, gs_conflict *conflict,
                             gs_error *error) {
    gs_engine_hooks hooks = {.endless = true};
    gs_engine *engine = gs_engine_new(gpu, run, &hooks, error);
    gs_code code = engine ? GS_OK : GS_E_MEMORY;
    gs_order order = {0};
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        size_t other;
        if (left_out[event->launch])
            continue;
        code = play_event(engine, event, error);
        if (code != GS_OK || event->op != GS_LAUNCH)
            continue;
        if (!order_push(&order, event->launch)) {
            code = gs_fail_memory(error);
        } else if (gs_engine_hold(engine, event->launch, &other)) {
            conflict->waiting = run->launches.data[event->launch].blocks - gs_engine_started(engine, event->launch);
            conflict->room = room_of(engine, event->launch);
            conflict->order = order;
            order = (gs_order){0};
            gs_why(engine, run, event->launch, &conflict->why);
            break;
        }
    }
    free(order.data);
    gs_engine_free(engine);
    return code == GS_OK && conflict->why.failed ? gs_fail_memory(error) : code;
}

/* Leaves out one kernel after the other, as long as there still is a conflict. In the end none of the kernels can be
   left out, but a smaller set of other kernels may exist. */
static gs_code reduce(const gs_gpu *gpu, const gs_run *run, gs_check *check, gs_error *error) {
    bool *left_out = calloc(run->launches.count + 1, sizeof *left_out);
    gs_code code = left_out ? play_as_given(gpu, run, left_out, &check->smallest, error) : gs_fail_memory(error);
    for (size_t i = run->launches.count; i-- > 0 && code == GS_OK;) {
        gs_conflict fewer = {0};
        left_out[i] = true;
        code = play_as_given(gpu, run, left_out, &fewer, error);
        if (fewer.order.count) {
            conflict_clear(&check->smallest);
            check->smallest = fewer;
        } else {
            left_out[i] = false;
        }
    }
    free(left_out);
    return code;
}

/* ---- any order ---- */

struct search {
    const gs_gpu *gpu;
    const gs_run *run;
    gs_order candidates; /* the launches, in the order in which they are tried */
    gs_order sequence;   /* the launches being tried */
    int64_t budget;
};

/* Whether a kernel of the sequence waits. `conflict` gets the kernel and the reason. */
static bool sequence_waits(const struct search *search, gs_conflict *conflict) {
    gs_run *run = gs_run_new(NULL);
    bool *none_left_out = calloc(search->sequence.count, sizeof *none_left_out);
    for (size_t i = 0; i < search->sequence.count; i++) {
        gs_launch launch = search->run->launches.data[search->sequence.data[i]];
        launch.stream = NULL;
        if (gs_run_copy_launch(run, &launch, NULL) != GS_OK)
            abort();
    }
    *conflict = (gs_conflict){0};
    if (!gs_green_copy(&run->green_contexts, &search->run->green_contexts) ||
        play_as_given(search->gpu, run, none_left_out, conflict, NULL) != GS_OK)
        abort();
    for (size_t i = 0; i < conflict->order.count; i++)
        conflict->order.data[i] = search->sequence.data[i];
    free(none_left_out);
    gs_run_free(run);
    return conflict->order.count > 0;
}

static bool are_alike(const gs_launch *a, const gs_launch *b) {
    const gs_launch_facts *first = a->issue.facts, *second = b->issue.facts;
    bool as_issued = !first || !second ? first == second
                                       : first->green_context == second->green_context &&
                                             first->is_cooperative == second->is_cooperative;
    return as_issued && a->blocks == b->blocks && a->cluster == b->cluster && gs_shape_equal(&a->shape, &b->shape);
}

static bool is_in(const gs_order *order, size_t launch) {
    for (size_t i = 0; i < order->count; i++)
        if (order->data[i] == launch)
            return true;
    return false;
}

/* Whether an equal candidate before it is not in the sequence: trying that one was enough. */
static bool repeats(const struct search *search, size_t candidate) {
    const gs_launch *launches = search->run->launches.data;
    const size_t *candidates = search->candidates.data;
    for (size_t i = 0; i < candidate; i++)
        if (!is_in(&search->sequence, candidates[i]) &&
            are_alike(&launches[candidates[i]], &launches[candidates[candidate]]))
            return true;
    return false;
}

enum outcome { FOUND, NOTHING, OUT_OF_BUDGET };

/* Appends kernels to the sequence in all ways, up to `length`, until one waits or, if `want_fit`, all of them fit. Then
   the sequence stays. A sequence in which a kernel waits is not continued. */
static enum outcome look(struct search *search, size_t length, bool want_fit, gs_conflict *conflict) {
    for (size_t i = 0; i < search->candidates.count; i++) {
        if (is_in(&search->sequence, search->candidates.data[i]) || repeats(search, i))
            continue;
        if (search->budget-- <= 0)
            return OUT_OF_BUDGET;
        if (!order_push(&search->sequence, search->candidates.data[i]))
            abort();
        bool waits = sequence_waits(search, conflict), is_long = search->sequence.count == length;
        if (want_fit ? !waits && is_long : waits)
            return FOUND;
        conflict_clear(conflict);
        enum outcome outcome = waits || is_long ? NOTHING : look(search, length, want_fit, conflict);
        if (outcome != NOTHING)
            return outcome;
        search->sequence.count--;
    }
    return NOTHING;
}

static void find_smallest(struct search *search, gs_check *check) {
    enum outcome outcome = NOTHING;
    for (size_t length = 1; length <= search->candidates.count && outcome == NOTHING; length++) {
        outcome = look(search, length, false, &check->smallest);
        if (outcome == NOTHING)
            check->searched = length;
    }
    check->is_least = outcome == FOUND;
    if (outcome != OUT_OF_BUDGET)
        check->in_any_order = outcome == FOUND ? GS_ANSWER_NO : GS_ANSWER_YES;
}

/* Whether a kernel is tried before another one that is launched earlier. */
static bool is_harder(const struct search *search, size_t a, size_t b) {
    const gs_launch *launches = search->run->launches.data;
    gs_occupancy first, second;
    gs_occupancy_of(search->gpu, &launches[a].shape, &first, NULL);
    gs_occupancy_of(search->gpu, &launches[b].shape, &second, NULL);
    if (launches[a].shape.local_bytes != launches[b].shape.local_bytes)
        return launches[a].shape.local_bytes > launches[b].shape.local_bytes;
    return first.shared_config_bytes > second.shared_config_bytes;
}

/* All launches: always the hardest of those that are left. */
static void sort_candidates(struct search *search) {
    search->candidates.count = 0;
    while (search->candidates.count < search->run->launches.count) {
        size_t hardest = SIZE_MAX;
        for (size_t i = 0; i < search->run->launches.count; i++)
            if (!is_in(&search->candidates, i) && (hardest == SIZE_MAX || is_harder(search, i, hardest)))
                hardest = i;
        search->candidates.data[search->candidates.count++] = hardest;
    }
}

/* More kernels than the GPU takes at a time are not tried in all orders. */
static void find_working(struct search *search, gs_check *check) {
    gs_conflict conflict = {0};
    int32_t most = search->gpu->limits.kernels_per_gpu;
    size_t count = search->candidates.count;
    search->sequence.count = 0;
    enum outcome outcome = most && count > (size_t)most ? NOTHING : look(search, count, true, &conflict);
    check->none_works = outcome == NOTHING;
    if (outcome == FOUND) {
        check->works = search->sequence;
        search->sequence = (gs_order){0};
    }
    conflict_clear(&conflict);
}

static void search_orders(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_check *check) {
    struct search search = {.gpu = gpu, .run = run, .budget = budget};
    for (size_t i = 0; i < run->launches.count; i++)
        if (!order_push(&search.candidates, i))
            abort();
    find_smallest(&search, check);
    if (check->in_this_order == GS_ANSWER_NO) {
        search.budget = budget;
        sort_candidates(&search);
        find_working(&search, check);
    }
    free(search.candidates.data);
    free(search.sequence.data);
}

/* ---- both ---- */

/* Whether a kernel waits for another one, which another order does not change. */
static bool has_ordered_kernels(const gs_run *run) {
    const gs_launch *launches = run->launches.data;
    for (size_t i = 0; i < run->launches.count; i++)
        for (size_t j = 0; j <= i; j++)
            if (i != j && launches[i].stream && launches[j].stream &&
                strcmp(launches[i].stream, launches[j].stream) == 0)
                return true;
    return false;
}

static bool has_a_fixed_order(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (run->launches.data[i].exit != SIZE_MAX || run->launches.data[i].issue.after_count)
            return true;
    return false;
}

gs_code literal_check_run(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_check *check, gs_error *error) {
    *check = (gs_check){.in_any_order = GS_ANSWER_UNKNOWN};
    bool *none_left_out = calloc(run->launches.count + 1, sizeof *none_left_out);
    gs_code code = none_left_out ? play_as_given(gpu, run, none_left_out, &check->here, error) : gs_fail_memory(error);
    free(none_left_out);
    if (code != GS_OK)
        return code;
    check->in_this_order = check->here.order.count ? GS_ANSWER_NO : GS_ANSWER_YES;
    check->order_is_fixed = has_a_fixed_order(run);
    if (check->in_this_order == GS_ANSWER_NO)
        check->in_any_order = GS_ANSWER_NO;
    if (!check->order_is_fixed && !has_ordered_kernels(run))
        search_orders(gpu, run, budget, check);
    if (code == GS_OK && check->in_this_order == GS_ANSWER_NO && !check->smallest.order.count)
        code = reduce(gpu, run, check, error);
    return code;
}
