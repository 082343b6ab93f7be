/*
 * ptx_wraps.c: how large a sum of products may be, and what is left of it in a register.
 *
 * Sums are followed as whole numbers (ptx_linear.c), but registers lose what is above their 32 or 64 bits:
 * blockIdx.x * gridDim.x is 0 in block 4,096 of a grid of 2^20. So each sum has a modulus 2^(64 - lost): the register
 * and the sum differ by a multiple of it. An operation of 32 bits makes it 2^32, unless the sum is known to be from 0
 * to 2^31; a product with 4 then makes it 2^34.
 *
 * Two addresses that overlap have a difference that is small modulo 2^(64 - lost). If the difference of their sums is
 * below that in each grid of at most N blocks, then it is small itself, and what follows from the sums is true. N is a
 * condition for launching the form.
 */
#include "ptx_linear.h"

#include <stdlib.h>

enum { MOST_THREADS = 1 << 10, LANES = 32 };

/* Of a grid: how many blocks it has, and how far the tickets of a block are apart. */
struct extent {
    uint64_t blocks, tickets;
};

static uint64_t times_at_most(uint64_t one, uint64_t other) {
    uint64_t product;
    return __builtin_mul_overflow(one, other, &product) ? UINT64_MAX : product;
}

static uint64_t plus_at_most(uint64_t one, uint64_t other) {
    uint64_t sum;
    return __builtin_add_overflow(one, other, &sum) ? UINT64_MAX : sum;
}

static uint64_t power(uint64_t base, int exponent) {
    uint64_t product = 1;
    while (exponent-- > 0)
        product = times_at_most(product, base);
    return product;
}

/* How large a ticket is, or how far two of them are apart. They are assumed to be below 2^30, or 2^48 in 64 bits. */
static uint64_t most_of_ticket(uint64_t symbol, struct extent extent) {
    uint64_t assumed = symbol >> 32 & GS_LINEAR_IS_WIDE ? 1ull << 48 : 1ull << 30,
             taken = times_at_most(extent.blocks, extent.tickets);
    return assumed < taken ? assumed : taken;
}

static int greatest(const int *counts) {
    int most = counts[0] > counts[1] ? counts[0] : counts[1];
    return most > counts[2] ? most : counts[2];
}

/* The most that a term is, without its sign. x * y * z is at most the number of blocks: only a coordinate that occurs
   twice counts twice. */
static uint64_t most_of_term(const struct gs_linear_term *term, struct extent extent) {
    int of_blocks[3] = {0}, of_threads[3] = {0};
    uint64_t most = (uint64_t)llabs(term->times);
    for (int i = 0; i < GS_LINEAR_FACTORS; i++) {
        uint64_t symbol = term->factors[i];
        int part = (uint8_t)symbol >= 'x' && (uint8_t)symbol <= 'z' ? (uint8_t)symbol - 'x' : 0;
        switch (symbol >> 56) {
        case 0:
            break;
        case GS_LINEAR_BLOCK:
        case GS_LINEAR_BLOCKS:
            of_blocks[part]++;
            break;
        case GS_LINEAR_THREAD:
        case GS_LINEAR_THREADS:
            of_threads[part]++;
            break;
        case GS_LINEAR_LANE:
            most = times_at_most(most, LANES);
            break;
        case GS_LINEAR_TICKET:
            most = times_at_most(most, most_of_ticket(symbol, extent));
            break;
        default:
            return UINT64_MAX;
        }
    }
    most = times_at_most(most, power(extent.blocks, greatest(of_blocks)));
    return times_at_most(most, power(MOST_THREADS, greatest(of_threads)));
}

uint64_t gs_linear_most(const gs_linear *value, uint64_t blocks) {
    uint64_t most = (uint64_t)llabs(value->number);
    for (int i = 0; i < value->count; i++)
        most = plus_at_most(most, most_of_term(&value->terms[i], (struct extent){blocks, UINT64_MAX}));
    return most;
}

/* ---- what a register has of a sum ---- */

/* Whether a sum has no negative terms, and is below 2^31 in each grid: then it is right with and without a sign. */
static bool fits_in_any_grid(const gs_linear *value) {
    bool is_positive = value->number >= 0;
    for (int i = 0; i < value->count; i++)
        is_positive = is_positive && value->terms[i].times >= 0;
    return is_positive && gs_linear_most(value, GS_LINEAR_MOST_BLOCKS) < 1ull << 31;
}

gs_linear gs_linear_in_register(gs_linear value, uint32_t bytes) {
    bool is_short = bytes == 4;
    if (bytes < 4 || (is_short && (value.number > INT32_MAX || value.number < INT32_MIN)) ||
        value.step >= 1ull << (is_short ? 31 : 62))
        value.is_known = false;
    if (is_short && value.lost <= 32)
        value.lost = !value.count || fits_in_any_grid(&value) ? 0 : 32;
    return value;
}

/* How many of its lowest bits are always 0. */
static int zeros_of(const gs_linear *value) {
    uint64_t bits = (uint64_t)value->number;
    for (int i = 0; i < value->count; i++)
        bits |= (uint64_t)value->terms[i].times;
    return bits ? __builtin_ctzll(bits) : 64;
}

static uint8_t lost_after(int lost, int zeros) {
    return (uint8_t)(lost > zeros ? lost - zeros : 0);
}

void gs_linear_note_sum(gs_linear *sum, const gs_linear *other, int64_t times) {
    uint8_t lost = lost_after(other->lost, times ? __builtin_ctzll((uint64_t)times) : 64);
    sum->lost = sum->lost > lost ? sum->lost : lost;
    sum->step = plus_at_most(sum->step, times_at_most(other->step, (uint64_t)llabs(times)));
}

void gs_linear_note_product(gs_linear *product, const gs_linear *one, const gs_linear *other) {
    uint8_t lost = lost_after(one->lost, zeros_of(other)), more = lost_after(other->lost, zeros_of(one));
    product->lost = lost > more ? lost : more;
    product->step = 0;
    if (one->step)
        product->step = times_at_most(one->step, gs_linear_most(other, GS_LINEAR_MOST_BLOCKS));
    if (other->step)
        product->step =
            plus_at_most(product->step, times_at_most(other->step, gs_linear_most(one, GS_LINEAR_MOST_BLOCKS)));
}

bool gs_linear_are_below_modulus(const gs_linear *value, uint64_t most) {
    return most < (value->lost ? 1ull << (64 - value->lost) : UINT64_MAX);
}

/* ---- two addresses ---- */

static bool is_of_kinds(const struct gs_linear_term *term, uint32_t kinds) {
    for (int i = 0; i < GS_LINEAR_FACTORS; i++)
        if (term->factors[i] && kinds >> (term->factors[i] >> 56) & 1)
            return true;
    return false;
}

/* Two addresses, and their difference as sums. */
struct pair {
    const gs_linear *awaited, *written, *difference;
    gs_linear_sizes sizes;
};

/* The most that two addresses differ by: the blocks of both have the same terms and opposite signs, threads are
   different ones, and all else is the same in both. */
static uint64_t most_difference(const struct pair *pair, uint64_t blocks) {
    const uint32_t of_blocks = 1 << GS_LINEAR_BLOCK | 1 << GS_LINEAR_TICKET,
                   of_threads = 1 << GS_LINEAR_THREAD | 1 << GS_LINEAR_LANE;
    const struct extent extent = {blocks, pair->sizes.tickets};
    const gs_linear *awaited = pair->awaited, *written = pair->written, *rest = pair->difference;
    uint64_t most = (uint64_t)pair->sizes.bytes + (uint64_t)pair->sizes.written + (uint64_t)llabs(rest->number);
    for (int i = 0; i < awaited->count; i++)
        if (is_of_kinds(&awaited->terms[i], of_blocks | of_threads))
            most = plus_at_most(most, most_of_term(&awaited->terms[i], extent));
    for (int i = 0; i < written->count; i++)
        if (is_of_kinds(&written->terms[i], of_threads) && !is_of_kinds(&written->terms[i], of_blocks))
            most = plus_at_most(most, most_of_term(&written->terms[i], extent));
    for (int i = 0; i < rest->count; i++)
        if (!is_of_kinds(&rest->terms[i], of_blocks | of_threads))
            most = plus_at_most(most, most_of_term(&rest->terms[i], extent));
    return most;
}

uint32_t gs_linear_most_blocks(const gs_linear *awaited, const gs_linear *written, const gs_linear *difference,
                               gs_linear_sizes sizes) {
    const struct pair pair = {awaited, written, difference, sizes};
    uint32_t low = 0, high = difference->is_known ? GS_LINEAR_MOST_BLOCKS : 0;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (gs_linear_are_below_modulus(difference, most_difference(&pair, middle)))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
