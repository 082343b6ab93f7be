/*
 * search_split.c: how to split the SMs between two kernels.
 *
 * From the measurements on a quarter and a half of the SMs, the rate of a kernel is proportional to its SMs until it
 * reaches the rate of the next measurement: then a resource shared by all SMs is the limit.
 */
#include "search_state.h"

#include <math.h>

double gs_split_us(const gs_found_kernel *found, int32_t sms, int32_t of_sms) {
    const gs_found_form *form = &found->forms[0];
    double all = 1 / form->points[form->point_count - 1].us, part = (double)sms / of_sms;
    double half = found->half_us > 0 ? fmin(1 / found->half_us, all) : all / 2;
    double quarter = found->quarter_us > 0 ? fmin(1 / found->quarter_us, half) : half / 2;
    double rate = part <= 0.25  ? quarter * part * 4
                  : part <= 0.5 ? fmin(half, quarter * part * 4)
                                : fmin(all, half * part * 2);
    return 1 / rate;
}

/* Of splits that end equally late, the one whose other kernel ends last: with more SMs it would use more of what all
   SMs share, and slow the first for nothing. */
int32_t gs_split_best(const struct gs_pair_question *question, const int32_t repeats[2], double *us) {
    static const double AS_LATE = 1.005;
    int32_t sms = question->gpu->sms, best = 0;
    double best_early = 0;
    *us = INFINITY;
    for (int32_t first = 1; first < sms; first++) {
        double first_us = gs_split_us(question->found[0], first, sms) * repeats[0];
        double second_us = gs_split_us(question->found[1], sms - first, sms) * repeats[1];
        double late = fmax(first_us, second_us), early = fmin(first_us, second_us);
        if (late * AS_LATE < *us || (late < *us * AS_LATE && early > best_early)) {
            *us = fmin(late, *us);
            best_early = early;
            best = first;
        }
    }
    return best;
}
