/*
 * check.c: whether all blocks of these kernels will be resident together, in this order, and in any.
 *
 * For the given order the run is played once (reduce.c). For any order, sequences of kernels are tried by length: all
 * single kernels, all sequences of two, of three ... The first sequence that leaves blocks waiting then has as few
 * kernels as possible, which helps to find the cause. Kernels of equal shape and size are interchangeable and tried
 * once. There are n! orders, so the search has a budget of launches, and reports up to which length it tried all
 * sequences.
 *
 * The state of the GPU is kept after each kernel of the sequence, so trying a further kernel costs one launch.
 */
#include "check_search.h"
#include "trial.h"

#include <stdlib.h>

struct search {
    const gs_gpu *gpu;
    const gs_run *run;
    size_t count;           /* kernels */
    size_t *candidates;     /* the launches, in the order in which they are tried */
    size_t *class_of;       /* by candidate: kernels that are interchangeable have the same class */
    size_t *next_alike;     /* by candidate: the next of its class, or NONE */
    size_t *unused;         /* by class: its first candidate that is not in use, or NONE */
    size_t classes_left;    /* classes with candidates that are not in use */
    gs_clusters *clusters;  /* NULL: the GPU has no clusters */
    bool *contexts;         /* see gs_green_flags */
    gs_dispatcher **levels; /* [n]: the GPU after n kernels; made when first needed */
    gs_order order;         /* the sequence being tried */
    int64_t budget;
    int64_t tried; /* launches */
    gs_progress *progress;
    int64_t waiting; /* blocks of its last kernel that wait */
};

#define NONE SIZE_MAX

static void conflict_clear(gs_conflict *conflict) {
    free(conflict->order.data);
    gs_text_free(&conflict->why);
    gs_text_free(&conflict->numbers);
    *conflict = (gs_conflict){0};
}

void gs_check_clear(gs_check *check) {
    conflict_clear(&check->here);
    conflict_clear(&check->smallest);
    free(check->works.data);
    *check = (gs_check){0};
}

/* ---- kernels that are interchangeable ---- */

/* The key of a kernel, as text: interchangeable kernels have equal keys. */
static void put_class_name(const gs_launch *launch, gs_text *text) {
    const gs_shape *shape = &launch->shape;
    const gs_launch_facts *facts = launch->issue.facts;
    gs_text_add(text, "%lld %d %d %d %lld %lld %d", (long long)launch->blocks, launch->cluster, shape->threads,
                shape->registers, (long long)shape->shared_bytes, (long long)shape->local_bytes,
                shape->carveout_percent);
    if (facts)
        gs_text_add(text, " %lld %d", (long long)facts->green_context, facts->is_cooperative);
    gs_text_put(text, "", 1);
}

/* Finds the classes of the candidates in their current order. */
static gs_code find_classes(struct search *search, gs_error *error) {
    gs_text text = {0};
    gs_names names = {0};
    size_t *starts = calloc(search->count + 1, sizeof *starts), classes = 0;
    for (size_t i = 0; starts && i < search->count; i++) {
        starts[i] = text.count;
        put_class_name(&search->run->launches.data[search->candidates[i]], &text);
    }
    bool failed = !starts || text.failed;
    for (size_t i = 0; i < search->count && !failed; i++) {
        search->class_of[i] = gs_names_add(&names, text.data + starts[i], classes);
        failed = search->class_of[i] == SIZE_MAX;
        classes += !failed && search->class_of[i] == classes;
    }
    for (size_t i = 0; i < classes; i++)
        search->unused[i] = NONE;
    for (size_t i = search->count; i-- > 0 && !failed;) {
        search->next_alike[i] = search->unused[search->class_of[i]];
        search->unused[search->class_of[i]] = i;
    }
    search->classes_left = classes;
    gs_names_free(&names);
    gs_text_free(&text);
    free(starts);
    return failed ? gs_fail_memory(error) : GS_OK;
}

/* The candidates of a class are used in order: another order would only repeat sequences. */
static void use_candidate(struct search *search, size_t candidate) {
    search->unused[search->class_of[candidate]] = search->next_alike[candidate];
    search->classes_left -= search->next_alike[candidate] == NONE;
}

static void stop_using(struct search *search, size_t candidate) {
    search->unused[search->class_of[candidate]] = candidate;
    search->classes_left += search->next_alike[candidate] == NONE;
}

/* ---- trying ---- */

enum outcome { FOUND, NOTHING, OUT_OF_BUDGET, FAILED };

static gs_grid grid_of(const struct search *search, size_t launch, gs_dispatcher *dispatcher) {
    const gs_launch *placed = &search->run->launches.data[launch];
    const bool *open = gs_green_of(&search->run->green_contexts, search->contexts, search->gpu->sms, &placed->issue);
    return gs_grid_of(placed, gs_dispatcher_kernel(dispatcher, &placed->shape, NULL), open);
}

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
    if (gs_dispatcher_copy_sms(*next, search->levels[depth], error) != GS_OK)
        return false;
    size_t launch = search->candidates[candidate];
    search->order.data[depth] = launch;
    search->order.count = depth + 1;
    gs_grid grid = grid_of(search, launch, *next);
    search->waiting = is_one_too_many(search, depth + 1) ? grid.blocks : gs_grid_place(search->clusters, *next, &grid);
    gs_progress_say(search->progress, "%lld of %lld launches, orders of %zu kernels", (long long)search->tried,
                    (long long)(search->tried + search->budget), depth + 1);
    search->tried++;
    search->budget--;
    return true;
}

/* Tries all sequences of `length` kernels that begin with the current one, until one is found that fits or does not. */
static enum outcome try_sequences(struct search *search, size_t depth, size_t length, bool want_fit, gs_error *error) {
    size_t classes = search->classes_left;
    for (size_t i = 0; classes; i++) {
        if (search->unused[search->class_of[i]] != i)
            continue;
        classes--;
        if (search->budget <= 0)
            return OUT_OF_BUDGET;
        if (!try_next(search, depth, i, error))
            return FAILED;
        bool fits = search->waiting == 0;
        if (fits ? want_fit && depth + 1 == length : !want_fit)
            return FOUND;
        if (!fits || depth + 1 == length)
            continue;
        use_candidate(search, i);
        enum outcome outcome = try_sequences(search, depth + 1, length, want_fit, error);
        stop_using(search, i);
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
        if (!GS_PUSH(&conflict->order, search->order.data[i]))
            return gs_fail_memory(error);
    size_t last = search->order.data[count - 1];
    gs_grid grid = grid_of(search, last, dispatcher);
    conflict->waiting = search->waiting;
    conflict->room = gs_room_found(dispatcher, &grid, search->waiting);
    gs_text_add(&conflict->why, "%lld of %lld blocks of %s wait: ", (long long)search->waiting, (long long)grid.blocks,
                search->run->launches.data[last].kernel);
    if (is_one_too_many(search, count)) {
        gs_why_too_many(search->gpu, &conflict->why);
    } else {
        gs_why_no_headroom(dispatcher, &grid, &conflict->why);
        gs_why_numbers(dispatcher, &grid, &conflict->numbers);
    }
    return conflict->why.failed || conflict->numbers.failed ? gs_fail_memory(error) : GS_OK;
}

static gs_code find_smallest(struct search *search, gs_check *check, gs_error *error) {
    enum outcome outcome = NOTHING;
    for (size_t length = 1; length <= search->count && outcome == NOTHING; length++) {
        outcome = try_sequences(search, 0, length, false, error);
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
        is_one_too_many(search, search->count) ? NOTHING : try_sequences(search, 0, search->count, true, error);
    if (outcome == FAILED)
        return GS_E_MEMORY;
    check->none_works = outcome == NOTHING;
    for (size_t i = 0; outcome == FOUND && i < search->order.count; i++)
        if (!GS_PUSH(&check->works, search->order.data[i]))
            return gs_fail_memory(error);
    return GS_OK;
}

/* The properties that make a candidate hard to place. */
struct hardness {
    size_t launch;
    int64_t local_bytes, config_bytes;
};

/* The candidates that are harder to place first, otherwise in launch order. */
static int compare_hardness(const void *first, const void *second) {
    const struct hardness *a = first, *b = second;
    int order = GS_COMPARE(b->local_bytes, a->local_bytes);
    order = order ? order : GS_COMPARE(b->config_bytes, a->config_bytes);
    return order ? order : GS_COMPARE(a->launch, b->launch);
}

static gs_code sort_candidates(struct search *search, gs_error *error) {
    struct hardness *list = calloc(search->count + 1, sizeof *list);
    if (!list)
        return gs_fail_memory(error);
    for (size_t i = 0; i < search->count; i++) {
        const gs_shape *shape = &search->run->launches.data[i].shape;
        gs_occupancy occupancy;
        gs_occupancy_of(search->gpu, shape, &occupancy, NULL);
        list[i] = (struct hardness){i, shape->local_bytes, occupancy.shared_config_bytes};
    }
    qsort(list, search->count, sizeof *list, compare_hardness);
    for (size_t i = 0; i < search->count; i++)
        search->candidates[i] = list[i].launch;
    free(list);
    return find_classes(search, error);
}

static gs_code search_init(struct search *search, gs_error *error) {
    search->count = search->run->launches.count;
    search->candidates = calloc(search->count + 1, sizeof *search->candidates);
    search->class_of = calloc(search->count + 1, sizeof *search->class_of);
    search->next_alike = calloc(search->count + 1, sizeof *search->next_alike);
    search->unused = calloc(search->count + 1, sizeof *search->unused);
    search->levels = calloc(search->count + 1, sizeof *search->levels);
    search->order.data = calloc(search->count + 1, sizeof *search->order.data);
    if (!search->candidates || !search->class_of || !search->next_alike || !search->unused || !search->levels ||
        !search->order.data)
        return gs_fail_memory(error);
    search->contexts = gs_green_flags(search->gpu, &search->run->green_contexts);
    if (!search->contexts)
        return gs_fail_memory(error);
    search->levels[0] = gs_dispatcher_new(search->gpu, error);
    bool has_clusters = gs_gpu_has_clusters(search->gpu);
    search->clusters = has_clusters ? gs_clusters_new(search->gpu, error) : NULL;
    if (!search->levels[0] || (has_clusters && !search->clusters))
        return GS_E_MEMORY;
    for (size_t launch = 0; launch < search->count; launch++) { /* all levels know all kernels by the same numbers */
        search->candidates[launch] = launch;
        if (gs_dispatcher_kernel(search->levels[0], &search->run->launches.data[launch].shape, error) < 0)
            return error ? error->code : GS_E_MEMORY;
    }
    return find_classes(search, error);
}

static void search_free(struct search *search) {
    for (size_t i = 0; search->levels && i <= search->count; i++)
        gs_dispatcher_free_sms(search->levels[i]);
    gs_clusters_free(search->clusters);
    free(search->contexts);
    free(search->candidates);
    free(search->class_of);
    free(search->next_alike);
    free(search->unused);
    free(search->levels);
    free(search->order.data);
}

static gs_code search_orders(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_progress *progress,
                             gs_check *check, gs_error *error) {
    struct search search = {.gpu = gpu, .run = run, .budget = budget, .progress = progress};
    gs_code code = search_init(&search, error);
    if (code == GS_OK)
        code = find_smallest(&search, check, error);
    if (code == GS_OK && check->in_this_order == GS_ANSWER_NO) {
        search.budget = budget;
        code = sort_candidates(&search, error);
        if (code == GS_OK)
            code = find_working(&search, check, error);
    }
    search_free(&search);
    return code;
}

/* ---- both ---- */

/* Whether kernels share a stream. Then they are not resident together in any order. */
static bool has_shared_streams(const gs_run *run) {
    gs_names names = {0};
    bool found = false;
    for (size_t i = 0; i < run->launches.count && !found; i++) {
        const char *stream = run->launches.data[i].stream;
        found = stream && gs_names_add(&names, stream, i) != i;
    }
    gs_names_free(&names);
    return found;
}

gs_code gs_check_run(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_progress *progress, gs_check *check,
                     gs_error *error) {
    *check = (gs_check){.in_any_order = GS_ANSWER_UNKNOWN};
    bool *none_left_out = calloc(run->launches.count + 1, sizeof *none_left_out);
    gs_code code = none_left_out ? gs_check_play(gpu, run, none_left_out, &check->here, error) : gs_fail_memory(error);
    free(none_left_out);
    if (code != GS_OK)
        return code;
    check->in_this_order = check->here.order.count ? GS_ANSWER_NO : GS_ANSWER_YES;
    check->order_is_fixed = !gs_run_order_is_free(run);
    if (check->in_this_order == GS_ANSWER_NO)
        check->in_any_order = GS_ANSWER_NO;
    if (!check->order_is_fixed && !has_shared_streams(run))
        code = search_orders(gpu, run, budget, progress, check, error);
    if (code == GS_OK && check->in_this_order == GS_ANSWER_NO && !check->smallest.order.count)
        code = gs_check_reduce(gpu, run, progress, &check->here, &check->smallest, error);
    return code;
}
