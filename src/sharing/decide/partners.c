/*
 * partners.c: how fast launches progress together, and when the last of them ends.
 *
 * The remaining work of a launch is its remaining duration alone, in microseconds. Beside another launch it progresses
 * at the rate of the pair; beside several, at the product of these rates, as the daemon assumes for teams. When all
 * others have ended, it continues with its workers, which may be fewer than it has alone.
 */
#include "queue.h"

#include <math.h>
#include <stdlib.h>

bool gs_partners_init(gs_partners *partners, size_t kinds) {
    partners->kinds = kinds;
    partners->data = calloc(kinds ? kinds * kinds : 1, sizeof *partners->data);
    return partners->data != NULL;
}

void gs_partners_free(gs_partners *partners) {
    free(partners->data);
    partners->data = NULL;
}

void gs_partners_set(gs_partners *partners, int32_t first, int32_t second, const gs_pair_rates *rates, double residual,
                     int32_t first_workers, int32_t second_workers) {
    double caution = 1 / (1 + 2 * residual);
    *gs_partner_of(partners, second, first) = (gs_partner){.state = GS_PARTNER_MEASURED,
                                                           .workers = second_workers,
                                                           .rate = rates->second * caution,
                                                           .rate_after = rates->second_alone};
    *gs_partner_of(partners, first, second) = (gs_partner){.state = GS_PARTNER_MEASURED,
                                                           .workers = first_workers,
                                                           .rate = rates->first * caution,
                                                           .rate_after = rates->first_alone};
}

void gs_partners_rates(const gs_partners *partners, const gs_runner *runners, size_t count, double *rates) {
    for (size_t i = 0; i < count; i++) {
        rates[i] = count == 1 ? runners[i].rate : 1;
        for (size_t j = 0; j < count; j++)
            rates[i] *= j == i ? 1 : gs_partner_of(partners, runners[i].kind, runners[j].kind)->rate;
    }
}

/* After all others have ended, a launch keeps the workers that it had beside the last of them; this is its rate. */
static void remember_partner(const gs_partners *partners, gs_runner *runners, size_t count, size_t ended) {
    for (size_t i = 0; i < count; i++)
        if (i != ended)
            runners[i].rate = gs_partner_of(partners, runners[i].kind, runners[ended].kind)->rate_after;
}

double gs_partners_finish_us(const gs_partners *partners, const gs_runner *runners, size_t count) {
    gs_runner left[GS_QUEUE_TOGETHER];
    double rates[GS_QUEUE_TOGETHER], total = 0;
    for (size_t i = 0; i < count; i++)
        left[i] = runners[i];
    while (count > 0) {
        size_t first = 0;
        gs_partners_rates(partners, left, count, rates);
        for (size_t i = 1; i < count; i++)
            if (left[i].left_us * rates[first] < left[first].left_us * rates[i])
                first = i;
        double step = left[first].left_us / rates[first];
        for (size_t i = 0; i < count; i++)
            left[i].left_us = fmax(left[i].left_us - step * rates[i], 0);
        remember_partner(partners, left, count, first);
        left[first] = left[--count];
        total += step;
    }
    return total;
}
