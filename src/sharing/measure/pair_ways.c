/*
 * pair_ways.c: the next way of intra-SM sharing to try for a pair that no plan has.
 *
 * Only ways that fit are tried, as computed by the predictor with partitions, granularities and configurations of
 * shared memory, also when either kernel is launched again while the other one stays (search_fit.c). How much the
 * kernels slow each other is not known. So in the first way each has as large a part as possible of the workers that it
 * has alone. If one kernel is then much slower than the other, the faster one gets fewer workers, and the slower one as
 * many as then fit: the rule of the search ahead of time (`find_balanced_way` in search_pair.c). A pair that is much
 * worse on the same SMs than otherwise is not tried again. Two launches of one kernel are never tried: together they
 * use an SM as each does alone.
 */
#include "profile_store.h"

#include <math.h>

static const double LEAST_PART = 0.25; /* of the workers that a kernel has alone */
static const double BALANCED = 1.15;   /* shares that differ by less are balanced */
static const double BAD = 0.9;         /* one measurement below this part of the throughput otherwise is enough */

gs_pair_way *gs_pair_way_of(gs_pair *pair, const int32_t workers[2]) {
    for (int i = 0; i < GS_PAIR_WAYS; i++) {
        gs_pair_way *way = &pair->ways[i];
        if (way->workers[0] == 0)
            memcpy(way->workers, workers, sizeof way->workers);
        if (way->workers[0] == workers[0] && way->workers[1] == workers[1])
            return way;
    }
    return NULL;
}

/* How many ways have measurements. */
static int count_ways(const gs_pair *pair) {
    int count = 0;
    while (count < GS_PAIR_WAYS && pair->ways[count].shares[0].count > 0)
        count++;
    return count;
}

static void set_next(gs_pair *pair, int32_t first, int32_t second) {
    pair->next_workers[0] = first;
    pair->next_workers[1] = second;
}

/* The way that maximizes the smaller part. With more workers of the first, fewer of the second fit. */
static void choose_first(gs_pair *pair, gs_room_fit *fit, const gs_shape *a, const gs_shape *b) {
    int32_t most[2] = {gs_room_fit_alone(fit, a), gs_room_fit_alone(fit, b)};
    double best = 0;
    for (int32_t first = most[0]; first > 0; first--) {
        int32_t second = gs_room_fit_beside(fit, a, first, b, most[1]);
        double parts[2] = {(double)first / most[0], most[1] > 0 ? (double)second / most[1] : 0};
        double part = fmin(parts[0], parts[1]);
        if (part > best && part >= LEAST_PART)
            set_next(pair, first, second);
        best = fmax(best, part);
        if (parts[1] >= parts[0])
            return;
    }
}

/* Gives the faster kernel of the last way fewer workers, so that both slow down about equally. */
static void choose_balanced(gs_pair *pair, gs_room_fit *fit, const gs_shape *shapes[2], const gs_pair_way *last) {
    double shares[2] = {gs_samples_median(&last->shares[0]), gs_samples_median(&last->shares[1])};
    int fast = shares[1] > shares[0], slow = !fast;
    int32_t workers[2];
    if (shares[fast] < BALANCED * shares[slow])
        return;
    workers[fast] = (int32_t)lround(last->workers[fast] * 2 * shares[slow] / (shares[fast] + shares[slow]));
    workers[fast] = (int32_t)gs_max(gs_min(workers[fast], last->workers[fast] - 1), 0);
    workers[slow] = workers[fast] ? gs_room_fit_beside(fit, shapes[fast], workers[fast], shapes[slow],
                                                       gs_room_fit_alone(fit, shapes[slow]))
                                  : 0;
    if (workers[slow] > 0)
        set_next(pair, workers[0], workers[1]);
}

void gs_pair_choose_next(gs_pair *pair, gs_room_fit *fit, const gs_profile *a, const gs_profile *b) {
    const gs_shape *shapes[2] = {&a->worker, &b->worker};
    int count = count_ways(pair);
    const gs_pair_way *last = count > 0 ? &pair->ways[count - 1] : NULL;
    double gain = last ? (gs_samples_median(&last->shares[0]) + gs_samples_median(&last->shares[1])) /
                             (pair->otherwise > 0 ? pair->otherwise : 1)
                       : 1;
    set_next(pair, 0, 0);
    if (pair->a == pair->b || !a->worker.registers || !b->worker.registers || gain < BAD)
        return;
    if (!last)
        choose_first(pair, fit, shapes[0], shapes[1]);
    else if (last->shares[0].count < GS_WAY_SAMPLES)
        set_next(pair, last->workers[0], last->workers[1]);
    else if (count < GS_PAIR_WAYS)
        choose_balanced(pair, fit, shapes, last);
}
