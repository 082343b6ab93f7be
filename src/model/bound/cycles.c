/*
 * cycles.c: sums and products of cycles without overflow: results over GS_MOST_CYCLES are refused.
 */
#include "bound.h"

gs_code gs_fail_large(gs_error *error) {
    return gs_fail(error, GS_E_UNSUPPORTED, "this takes more than 2^60 cycles, which is 18 years at 2 GHz");
}

bool gs_plus(int64_t *sum, int64_t more) {
    return !__builtin_add_overflow(*sum, more, sum) && *sum <= GS_MOST_CYCLES;
}

bool gs_scale(int64_t a, int64_t b, int64_t c, int64_t *result) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *result = product / c;
    return *result <= GS_MOST_CYCLES;
}
