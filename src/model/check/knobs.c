/*
 * knobs.c: the possible changes to a run, value by value, the smallest change first.
 *
 * Whether a change helps is not monotone in general: with fewer registers or less shared memory, more blocks fit on an
 * SM, and a kernel may then need a larger shared-memory configuration. So every value that makes a difference is
 * listed, and only those: registers and shared memory in granules, carve-outs that lead to another configuration, block
 * counts up to what an empty GPU takes.
 */
#include "knobs.h"

#include <stdlib.h>
#include <string.h>

enum {
    MILLION = 1000000,
    LEAST_REGISTERS = 24 /* of ptxas, for -maxrregcount */
};

#define NONE SIZE_MAX

/* ---- orders ---- */

/* The length of the longest subsequence in launch order: the other kernels are moved. */
static int32_t count_kept(const size_t *order, size_t count) {
    int32_t longest = 0, length[GS_MOST_PERMUTED];
    for (size_t i = 0; i < count; i++) {
        length[i] = 1;
        for (size_t j = 0; j < i; j++)
            if (order[j] < order[i] && length[j] >= length[i])
                length[i] = length[j] + 1;
        longest = (int32_t)gs_max(longest, length[i]);
    }
    return longest;
}

static bool is_sorted_without(const size_t *order, size_t count, size_t left_out) {
    size_t last = NONE;
    for (size_t i = 0; i < count; i++) {
        if (i == left_out)
            continue;
        if (last != NONE && order[last] > order[i])
            return false;
        last = i;
    }
    return true;
}

/* A kernel that is launched first is preferred to one that is launched last, and that to others. */
size_t gs_order_moved(const size_t *order, size_t count, size_t *place) {
    size_t found = NONE;
    for (size_t i = count; i-- > 0;)
        if (is_sorted_without(order, count, i) && (i == 0 || found != count - 1))
            found = i;
    *place = found;
    return found == NONE ? NONE : order[found];
}

struct ranked {
    int32_t moves, rank;
    size_t number;
};

static int compare_ranked(const void *first, const void *second) {
    const struct ranked *a = first, *b = second;
    int order = GS_COMPARE(a->moves, b->moves);
    order = order ? order : GS_COMPARE(a->rank, b->rank);
    return order ? order : GS_COMPARE(a->number, b->number);
}

static struct ranked rank_order(const size_t *order, size_t count, size_t number) {
    size_t place;
    gs_order_moved(order, count, &place);
    return (struct ranked){(int32_t)count - count_kept(order, count),
                           place == 0           ? 0
                           : place == count - 1 ? 1
                                                : 2,
                           number};
}

/* All orders but the given one, sorted. `all` has room for them, `ranks` too. */
static void sort_orders(gs_knobs *knobs, size_t *all, struct ranked *ranks, size_t orders) {
    size_t count = knobs->run->launches.count, order[GS_MOST_PERMUTED];
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = 0; i < orders; i++) {
        gs_next_permutation(order, count);
        memcpy(all + i * count, order, count * sizeof *order);
        ranks[i] = rank_order(order, count, i);
    }
    qsort(ranks, orders, sizeof *ranks, compare_ranked);
    for (size_t i = 0; i < orders; i++) {
        memcpy(knobs->orders + i * count, all + ranks[i].number * count, count * sizeof *order);
        knobs->moves[i] = ranks[i].moves;
    }
}

static gs_code list_permutations(gs_knobs *knobs, size_t *orders, gs_error *error) {
    size_t count = knobs->run->launches.count, all = 1;
    for (size_t i = 2; i <= count; i++)
        all *= i;
    *orders = all - 1;
    size_t *unsorted = calloc(all * count, sizeof *unsorted);
    struct ranked *ranks = calloc(all, sizeof *ranks);
    knobs->orders = calloc(all * count, sizeof *knobs->orders);
    knobs->moves = calloc(all, sizeof *knobs->moves);
    bool failed = !unsorted || !ranks || !knobs->orders || !knobs->moves;
    if (!failed)
        sort_orders(knobs, unsorted, ranks, *orders);
    free(unsorted);
    free(ranks);
    return failed ? gs_fail_memory(error) : GS_OK;
}

/* Of many kernels, one is moved: number 2 k launches kernel k first, and 2 k + 1 launches it last. */
static const size_t *move_one(gs_knobs *knobs, size_t number) {
    size_t count = knobs->run->launches.count, moved = number / 2, at = 0;
    if (number % 2 == 0)
        knobs->scratch[at++] = moved;
    for (size_t i = 0; i < count; i++)
        if (i != moved)
            knobs->scratch[at++] = i;
    if (number % 2)
        knobs->scratch[at] = moved;
    return knobs->scratch;
}

const size_t *gs_knobs_order(gs_knobs *knobs, int64_t number) {
    if (knobs->orders)
        return knobs->orders + (size_t)number * knobs->run->launches.count;
    return move_one(knobs, (size_t)number);
}

/* ---- knobs ---- */

static gs_knob *knob_add(gs_knobs *knobs, gs_fix_kind kind, size_t launch, int64_t from, gs_error *error) {
    if (!GS_RESERVE(knobs, 1)) {
        gs_fail_memory(error);
        return NULL;
    }
    gs_knob *knob = &knobs->data[knobs->count++];
    *knob = (gs_knob){.kind = kind, .launch = launch, .from = from};
    return knob;
}

static gs_code value_add(gs_knob *knob, int64_t value, gs_error *error) {
    return GS_PUSH(knob, value) ? GS_OK : gs_fail_memory(error);
}

/* From `first` down to `last`. */
static gs_code values_down(gs_knob *knob, int64_t first, int64_t last, int64_t step, gs_error *error) {
    gs_code code = knob ? GS_OK : GS_E_MEMORY;
    for (int64_t value = first; value >= last && code == GS_OK; value -= step)
        code = value_add(knob, value, error);
    return code;
}

static gs_code list_orders(gs_knobs *knobs, int64_t most_orders, gs_error *error) {
    size_t count = knobs->run->launches.count, orders = 2 * count;
    if (count < 2 || !gs_run_order_is_free(knobs->run))
        return GS_OK;
    gs_code code = count <= GS_MOST_PERMUTED ? list_permutations(knobs, &orders, error) : GS_OK;
    knobs->scratch = calloc(count, sizeof *knobs->scratch);
    if (code == GS_OK && !knobs->scratch)
        code = gs_fail_memory(error);
    gs_knob *knob = code == GS_OK ? knob_add(knobs, GS_FIX_ORDER, NONE, 0, error) : NULL;
    code = knob ? code : GS_E_MEMORY;
    for (size_t i = 0; i < orders && code == GS_OK && (int64_t)knob->count < most_orders; i++)
        if (knobs->orders || (i != 0 && i != orders - 1)) /* the given order */
            code = value_add(knob, (int64_t)i, error);
    return code;
}

static bool is_among(const gs_knobs *knobs, size_t launch) {
    bool found = !knobs->among;
    for (size_t i = 0; !found && i < knobs->among->count; i++)
        found = knobs->among->data[i] == launch;
    return found;
}

/* Kernels that follow another in their stream. */
static gs_code list_streams(gs_knobs *knobs, gs_error *error) {
    const gs_launches *launches = &knobs->run->launches;
    gs_names names = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < launches->count && code == GS_OK; i++) {
        const char *stream = launches->data[i].stream;
        if (!stream || gs_names_add(&names, stream, i) == i || !is_among(knobs, i))
            continue;
        gs_knob *knob = knob_add(knobs, GS_FIX_STREAM, i, 0, error);
        code = knob ? value_add(knob, 1, error) : GS_E_MEMORY;
    }
    gs_names_free(&names);
    return code;
}

static gs_code list_local(gs_knobs *knobs, size_t launch, gs_error *error) {
    int64_t bytes = knobs->run->launches.data[launch].shape.local_bytes;
    if (!bytes || knobs->gpu->mechanisms.local_growth_waits != GS_YES)
        return GS_OK;
    return values_down(knob_add(knobs, GS_FIX_LOCAL, launch, 0, error), bytes, bytes, 1, error);
}

static bool same_configuration(const gs_need *a, const gs_need *b) {
    return a->config_bytes == b->config_bytes && a->given_bytes == b->given_bytes && a->most_bytes == b->most_bytes &&
           a->blocks_per_sm == b->blocks_per_sm;
}

/* The nearest percentages first; no carve-out before all of them. */
static int32_t carveout_number(int32_t from, int32_t number) {
    if (from == GS_NO_CARVEOUT)
        return number;
    if (number == 0)
        return GS_NO_CARVEOUT;
    int32_t distance = (number + 1) / 2;
    return number % 2 ? from - distance : from + distance;
}

static bool is_new_configuration(const gs_knobs *knobs, const gs_knob *knob, const gs_need *need) {
    gs_shape shape = knobs->run->launches.data[knob->launch].shape;
    gs_need other;
    if (gs_need_of(knobs->gpu, &shape, &other, NULL) != GS_OK || same_configuration(need, &other))
        return false;
    for (size_t i = 0; i < knob->count; i++) {
        shape.carveout_percent = (int32_t)knob->data[i];
        if (gs_need_of(knobs->gpu, &shape, &other, NULL) == GS_OK && same_configuration(need, &other))
            return false;
    }
    return true;
}

static gs_code list_carveouts(gs_knobs *knobs, size_t launch, gs_error *error) {
    gs_shape shape = knobs->run->launches.data[launch].shape;
    int32_t from = shape.carveout_percent;
    gs_knob *knob = knob_add(knobs, GS_FIX_CARVEOUT, launch, from, error);
    gs_code code = knob ? GS_OK : GS_E_MEMORY;
    for (int32_t i = 0; i <= 2 * 100 && code == GS_OK; i++) {
        gs_need need;
        shape.carveout_percent = carveout_number(from, i);
        if (gs_need_of(knobs->gpu, &shape, &need, NULL) == GS_OK && is_new_configuration(knobs, knob, &need))
            code = value_add(knob, shape.carveout_percent, error);
    }
    return code;
}

/* Not for runs with clusters, or with green contexts already. */
static gs_code list_green(gs_knobs *knobs, size_t launch, gs_error *error) {
    int32_t least, step, sms = knobs->gpu->sms;
    gs_gpu_green_sizes(knobs->gpu, &least, &step);
    if (knobs->run->green_contexts.count)
        return GS_OK;
    for (size_t i = 0; i < knobs->run->launches.count; i++)
        if (knobs->run->launches.data[i].cluster > 1)
            return GS_OK;
    gs_knob *knob = knob_add(knobs, GS_FIX_GREEN, launch, sms, error);
    gs_code code = knob ? GS_OK : GS_E_MEMORY;
    for (int32_t value = least; value <= sms - least && code == GS_OK; value += step)
        code = value_add(knob, value, error);
    return code;
}

/* Up to the number of blocks that fit on an empty GPU with the least registers and shared memory, because this change
   may be combined with another. */
static gs_code list_blocks(gs_knobs *knobs, size_t launch, gs_error *error) {
    const gs_launch *given = &knobs->run->launches.data[launch];
    int64_t registers = gs_min(given->shape.registers, LEAST_REGISTERS);
    gs_shape shape = gs_shape_of(given->shape.threads, (int32_t)registers, 0);
    gs_occupancy occupancy;
    gs_occupancy_of(knobs->gpu, &shape, &occupancy, NULL);
    int64_t step = given->cluster, most = (int64_t)occupancy.blocks * knobs->gpu->sms / step * step;
    gs_knob *knob = knob_add(knobs, GS_FIX_BLOCKS, launch, given->blocks, error);
    return values_down(knob, gs_min(given->blocks - step, most), step, step, error);
}

static gs_code list_clusters(gs_knobs *knobs, size_t launch, gs_error *error) {
    const gs_launch *given = &knobs->run->launches.data[launch];
    gs_knob *knob = knob_add(knobs, GS_FIX_CLUSTER, launch, given->cluster, error);
    gs_code code = knob ? GS_OK : GS_E_MEMORY;
    for (int32_t size = given->cluster - 1; size >= 1 && code == GS_OK; size--)
        if (given->blocks % size == 0)
            code = value_add(knob, size, error);
    return code;
}

static gs_code list_registers(gs_knobs *knobs, size_t launch, gs_error *error) {
    const gs_limits *limits = &knobs->gpu->limits;
    int64_t step = gs_max(1, limits->register_granularity / limits->warp_threads);
    int64_t from = knobs->run->launches.data[launch].shape.registers;
    gs_knob *knob = knob_add(knobs, GS_FIX_REGISTERS, launch, from, error);
    return values_down(knob, (gs_divide_up(from, step) - 1) * step, LEAST_REGISTERS, step, error);
}

static gs_code list_shared(gs_knobs *knobs, size_t launch, gs_error *error) {
    int64_t step = knobs->gpu->limits.shared_granularity_bytes;
    int64_t from = knobs->run->launches.data[launch].shape.shared_bytes;
    gs_knob *knob = knob_add(knobs, GS_FIX_SHARED, launch, from, error);
    return values_down(knob, (gs_divide_up(from, step) - 1) * step, 0, step, error);
}

typedef gs_code list_function(gs_knobs *knobs, size_t launch, gs_error *error);

static list_function *const of_launch[GS_FIX_KINDS] = {
    [GS_FIX_LOCAL] = list_local,   [GS_FIX_CARVEOUT] = list_carveouts, [GS_FIX_GREEN] = list_green,
    [GS_FIX_BLOCKS] = list_blocks, [GS_FIX_CLUSTER] = list_clusters,   [GS_FIX_REGISTERS] = list_registers,
    [GS_FIX_SHARED] = list_shared,
};

static void drop_empty(gs_knobs *knobs) {
    size_t kept = 0;
    for (size_t i = 0; i < knobs->count; i++)
        if (knobs->data[i].count)
            knobs->data[kept++] = knobs->data[i];
    knobs->count = kept;
}

/* Whether the knobs of the launch before it turn this one, too. */
static bool is_turned_before(const gs_knobs *knobs, size_t launch, int kind) {
    return kind != GS_FIX_GREEN && knobs->run->launches.data[launch].is_again && is_among(knobs, launch - 1);
}

gs_code gs_knobs_list(gs_knobs *knobs, unsigned kinds, int64_t most_orders, gs_error *error) {
    gs_code code = kinds >> GS_FIX_ORDER & 1 ? list_orders(knobs, most_orders, error) : GS_OK;
    if (code == GS_OK && kinds >> GS_FIX_STREAM & 1)
        code = list_streams(knobs, error);
    size_t count = knobs->among ? knobs->among->count : knobs->run->launches.count;
    for (int kind = 0; kind < GS_FIX_KINDS; kind++)
        for (size_t i = 0; i < count && code == GS_OK; i++) {
            size_t launch = knobs->among ? knobs->among->data[i] : i;
            if (kinds >> kind & 1 && of_launch[kind] && !is_turned_before(knobs, launch, kind))
                code = of_launch[kind](knobs, launch, error);
        }
    drop_empty(knobs);
    return code;
}

void gs_knobs_free(gs_knobs *knobs) {
    for (size_t i = 0; i < knobs->count; i++)
        free(knobs->data[i].data);
    free(knobs->data);
    free(knobs->orders);
    free(knobs->moves);
    free(knobs->scratch);
}

/* ---- costs ---- */

/* The cost is the part that is taken away, as a share of the original value. A change that takes nothing away costs a
   little. */
int64_t gs_knob_cost(const gs_knobs *knobs, const gs_knob *knob, int64_t value) {
    switch (knob->kind) {
    case GS_FIX_ORDER:
        return (knobs->orders ? knobs->moves[value] : 1) * (int64_t)10000;
    case GS_FIX_STREAM:
    case GS_FIX_LOCAL:
        return 20000;
    case GS_FIX_CARVEOUT:
        return 50000;
    case GS_FIX_GREEN:
        return 100000 + value * MILLION / knob->from;
    default:
        return (knob->from - value) * MILLION / knob->from;
    }
}
