/*
 * literal_check.c: `check`, written in the most obvious way.
 *
 * Each question is answered by playing from the beginning, and equal kernels are found by comparing all of them.
 */
#include "literal.h"

#include <stdlib.h>

struct search {
    const gs_gpu *gpu;
    const gs_run *run;
    size_t count;           /* kernels */
    size_t *candidates;     /* the launches, in the order in which they are tried */
    bool *is_used;          /* by candidate */
    gs_clusters *clusters;  /* NULL: the GPU takes none */
    gs_dispatcher **levels; /* [n]: the GPU after n kernels; made when first needed */
    gs_order order;         /* the sequence being tried */
    int64_t budget;
    int64_t waiting; /* blocks of its last kernel that wait */
};

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

/* Places a whole kernel. Returns how many of its blocks wait. */
static int64_t place_all(gs_clusters *clusters, gs_dispatcher *dispatcher, const gs_launch *launch) {
    int kernel = gs_dispatcher_kernel(dispatcher, &launch->shape, NULL), sm;
    int64_t waiting = launch->blocks;
    if (launch->cluster > 1)
        return gs_clusters_place(clusters, dispatcher, kernel, launch->cluster, launch->blocks);
    while (waiting && (sm = gs_dispatcher_next(dispatcher, kernel)) != GS_WAIT) {
        gs_dispatcher_place(dispatcher, kernel, sm);
        waiting--;
    }
    return waiting;
}

static bool are_alike(const gs_launch *a, const gs_launch *b) {
    return a->blocks == b->blocks && a->cluster == b->cluster && gs_shape_equal(&a->shape, &b->shape);
}

/* Whether an equal candidate before it is not in use: then trying this one would repeat what was tried with that. */
static bool repeats(const struct search *search, size_t candidate) {
    const gs_launch *launches = search->run->launches.data;
    for (size_t i = 0; i < candidate; i++)
        if (!search->is_used[i] &&
            are_alike(&launches[search->candidates[i]], &launches[search->candidates[candidate]]))
            return true;
    return false;
}

enum outcome { FOUND, NOTHING, OUT_OF_BUDGET, FAILED };

/* Whether the GPU takes fewer kernels at a time. */
static bool is_one_too_many(const struct search *search, size_t kernels) {
    int32_t most = search->gpu->limits.kernels_per_gpu;
    return most && kernels > (size_t)most;
}

/* Launches a candidate after the first `depth` kernels. False: out of memory. */
static bool try_next(struct search *search, size_t depth, size_t candidate, gs_error *error) {
    gs_dispatcher **next = &search->levels[depth + 1];
    if (!*next && !(*next = gs_dispatcher_new(search->gpu, error)))
        return false;
    if (gs_dispatcher_copy(*next, search->levels[depth], error) != GS_OK)
        return false;
    size_t launch = search->candidates[candidate];
    search->order.data[depth] = launch;
    search->order.count = depth + 1;
    const gs_launch *placed = &search->run->launches.data[launch];
    search->waiting = is_one_too_many(search, depth + 1) ? placed->blocks : place_all(search->clusters, *next, placed);
    search->budget--;
    return true;
}

/* Tries all sequences of `length` kernels that begin with the present one, until one is found that fits or does not. */
static enum outcome look(struct search *search, size_t depth, size_t length, bool want_fit, gs_error *error) {
    for (size_t i = 0; i < search->count; i++) {
        if (search->is_used[i] || repeats(search, i))
            continue;
        if (search->budget <= 0)
            return OUT_OF_BUDGET;
        if (!try_next(search, depth, i, error))
            return FAILED;
        bool fits = search->waiting == 0;
        if (fits ? want_fit && depth + 1 == length : !want_fit)
            return FOUND;
        if (!fits || depth + 1 == length)
            continue;
        search->is_used[i] = true;
        enum outcome outcome = look(search, depth + 1, length, want_fit, error);
        search->is_used[i] = false;
        if (outcome != NOTHING)
            return outcome;
    }
    return NOTHING;
}

static gs_code describe_conflict(struct search *search, gs_conflict *conflict, gs_error *error) {
    size_t count = search->order.count;
    gs_dispatcher *dispatcher = search->levels[count];
    conflict_clear(conflict);
    for (size_t i = 0; i < count; i++)
        if (!order_push(&conflict->order, search->order.data[i]))
            return gs_fail_memory(error);
    const gs_launch *last = &search->run->launches.data[search->order.data[count - 1]];
    conflict->waiting = search->waiting;
    gs_text_add(&conflict->why, "%lld of %lld blocks of %s wait: ", (long long)search->waiting, (long long)last->blocks,
                last->kernel);
    int kernel = gs_dispatcher_kernel(dispatcher, &last->shape, error);
    if (is_one_too_many(search, count))
        gs_why_too_many(search->gpu, &conflict->why);
    else if (last->cluster > 1)
        gs_why_no_cluster(dispatcher, kernel, last->cluster, &conflict->why);
    else
        gs_why_no_room(dispatcher, kernel, &conflict->why);
    return conflict->why.failed ? gs_fail_memory(error) : GS_OK;
}

static gs_code find_smallest(struct search *search, gs_check *check, gs_error *error) {
    enum outcome outcome = NOTHING;
    for (size_t length = 1; length <= search->count && outcome == NOTHING; length++) {
        outcome = look(search, 0, length, false, error);
        if (outcome == NOTHING)
            check->searched = length;
    }
    if (outcome == FAILED)
        return GS_E_MEMORY;
    if (outcome == NOTHING)
        check->in_any_order = GS_ANSWER_YES;
    if (outcome != FOUND)
        return GS_OK;
    check->in_any_order = GS_ANSWER_NO;
    check->is_least = true;
    return describe_conflict(search, &check->smallest, error);
}

/* The candidates are sorted so that the order that most often works comes first: kernels that need a setup of an idle
   GPU or TPC (local memory, large configurations) before those that do not. */
static gs_code find_working(struct search *search, gs_check *check, gs_error *error) {
    enum outcome outcome =
        is_one_too_many(search, search->count) ? NOTHING : look(search, 0, search->count, true, error);
    if (outcome == FAILED)
        return GS_E_MEMORY;
    check->none_works = outcome == NOTHING;
    for (size_t i = 0; outcome == FOUND && i < search->order.count; i++)
        if (!order_push(&check->works, search->order.data[i]))
            return gs_fail_memory(error);
    return GS_OK;
}

/* The order in which candidates are sorted: those that are harder to place first. */
static bool is_harder(const struct search *search, size_t a, size_t b) {
    const gs_launch *launches = search->run->launches.data;
    gs_occupancy first, second;
    gs_occupancy_of(search->gpu, &launches[a].shape, &first, NULL);
    gs_occupancy_of(search->gpu, &launches[b].shape, &second, NULL);
    if (launches[a].shape.local_bytes != launches[b].shape.local_bytes)
        return launches[a].shape.local_bytes > launches[b].shape.local_bytes;
    return first.shared_config_bytes > second.shared_config_bytes;
}

static void sort_candidates(struct search *search) {
    for (size_t i = 1; i < search->count; i++)
        for (size_t j = i; j > 0 && is_harder(search, search->candidates[j], search->candidates[j - 1]); j--) {
            size_t harder = search->candidates[j];
            search->candidates[j] = search->candidates[j - 1];
            search->candidates[j - 1] = harder;
        }
}

static gs_code search_init(struct search *search, gs_error *error) {
    search->count = search->run->launches.count;
    search->candidates = calloc(search->count + 1, sizeof *search->candidates);
    search->is_used = calloc(search->count + 1, sizeof *search->is_used);
    search->levels = calloc(search->count + 1, sizeof *search->levels);
    search->order.data = calloc(search->count + 1, sizeof *search->order.data);
    if (!search->candidates || !search->is_used || !search->levels || !search->order.data)
        return gs_fail_memory(error);
    for (size_t i = 0; i < search->count; i++)
        search->candidates[i] = i;
    search->levels[0] = gs_dispatcher_new(search->gpu, error);
    bool has_clusters = gs_gpu_has_clusters(search->gpu);
    search->clusters = has_clusters ? gs_clusters_new(search->gpu, error) : NULL;
    if (!search->levels[0] || (has_clusters && !search->clusters))
        return GS_E_MEMORY;
    for (size_t i = 0; i < search->count; i++) /* all levels know all kernels by the same numbers */
        if (gs_dispatcher_kernel(search->levels[0], &search->run->launches.data[i].shape, error) < 0)
            return error ? error->code : GS_E_MEMORY;
    return GS_OK;
}

static void search_free(struct search *search) {
    for (size_t i = 0; search->levels && i <= search->count; i++)
        gs_dispatcher_free(search->levels[i]);
    gs_clusters_free(search->clusters);
    free(search->candidates);
    free(search->is_used);
    free(search->levels);
    free(search->order.data);
}

static gs_code search_orders(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_check *check, gs_error *error) {
    struct search search = {.gpu = gpu, .run = run, .budget = budget};
    gs_code code = search_init(&search, error);
    if (code == GS_OK)
        code = find_smallest(&search, check, error);
    if (code == GS_OK && check->in_this_order == GS_ANSWER_NO) {
        search.budget = budget;
        sort_candidates(&search);
        code = find_working(&search, check, error);
    }
    search_free(&search);
    return code;
}

/* ---- both ---- */

/* Two kernels of one stream are never resident together, in any order. */
static bool shares_a_stream(const gs_run *run) {
    gs_names names = {0};
    bool shared = false;
    for (size_t i = 0; i < run->launches.count && !shared; i++) {
        const char *stream = run->launches.data[i].stream;
        shared = stream && gs_names_add(&names, stream, i) != i;
    }
    gs_names_free(&names);
    return shared;
}

static bool has_exits(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (run->launches.data[i].exit != SIZE_MAX)
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
    check->order_is_fixed = has_exits(run);
    if (check->in_this_order == GS_ANSWER_NO)
        check->in_any_order = GS_ANSWER_NO;
    if (!check->order_is_fixed && !shares_a_stream(run))
        code = search_orders(gpu, run, budget, check, error);
    if (code == GS_OK && check->in_this_order == GS_ANSWER_NO && !check->smallest.order.count)
        code = reduce(gpu, run, check, error);
    return code;
}
