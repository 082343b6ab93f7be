/*
 * ulps.c: how far two numbers of a type are apart. See ulps.h.
 */
#include "ulps.h"

#include <stdbool.h>
#include <string.h>

struct number {
    int64_t place; /* on the line of all numbers of the type */
    bool is_number;
};

static struct number read_number(uint32_t bytes, int fraction_bits, const void *at) {
    uint64_t bits = 0, sign = (uint64_t)1 << (bytes * 8 - 1);
    uint64_t infinite = (sign - 1) & ~(((uint64_t)1 << fraction_bits) - 1);
    memcpy(&bits, at, bytes);
    uint64_t size = bits & ~sign;
    return (struct number){bits & sign ? -(int64_t)size : (int64_t)size, size <= infinite};
}

uint64_t ulps_apart(uint32_t bytes, int fraction_bits, const void *a, const void *b) {
    if (memcmp(a, b, bytes) == 0)
        return 0;
    struct number first = read_number(bytes, fraction_bits, a), second = read_number(bytes, fraction_bits, b);
    if (!fraction_bits || !first.is_number || !second.is_number)
        return UINT64_MAX;
    uint64_t apart = (uint64_t)first.place - (uint64_t)second.place;
    apart = first.place < second.place ? 0 - apart : apart;
    return apart ? apart : 1; /* 0 and -0 */
}
