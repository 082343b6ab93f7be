/*
 * ulps.h: how far two numbers of a type are apart, in units of the last place. For tests.
 */
#ifndef GS_ULPS_H
#define GS_ULPS_H

#include <stdint.h>

/* For two numbers of `bytes` bytes with `fraction_bits` (10: f16, 7: bf16, 23: f32, 52: f64; 0: integers). 0: the bits
   are the same. UINT64_MAX: they are integers, or one is NaN. */
uint64_t ulps_apart(uint32_t bytes, int fraction_bits, const void *a, const void *b);

#endif
