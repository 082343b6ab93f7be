/*
 * gridsmith_ptx.c: instructions of PTX that are long, rare, or wait for other threads. See gridsmith_ptx.h.
 *
 * Read from top to bottom: rounding, conversions, integers, memory, barriers in shared memory, warps, video, functions.
 *
 * It is compiled with -frounding-math. Directed rounding sets the mode of the CPU for one operation; volatile variables
 * keep the operation between the two calls.
 */
#include "gridsmith_ptx.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- rounding ---- */

static const int cpu_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
enum { MODE_rz = FE_TOWARDZERO, MODE_rm = FE_DOWNWARD, MODE_rp = FE_UPWARD };

#define ROUNDED(T, mode, expression)                                                                                   \
    fesetround(mode);                                                                                                  \
    volatile T result = (expression);                                                                                  \
    fesetround(FE_TONEAREST)

/* If both operands are NaN, the result is the second one; for divisions, the first one. */
#define LEFT(a, b)  (a)
#define RIGHT(a, b) (b)

#define BINARY(name, mode, n, U, T, FIRST, LAST, expression)                                                           \
    U ptx_##name##_##mode##_##n(U a, U b) {                                                                            \
        volatile T x = ptx_##n(a), y = ptx_##n(b);                                                                     \
        ROUNDED(T, MODE_##mode, expression);                                                                           \
        return ptx_result_##n(FIRST(a, b), LAST(a, b), ptx_bits_##n(result));                                          \
    }

#define UNARY(name, mode, n, U, T, expression)                                                                         \
    U ptx_##name##_##mode##_##n(U a) {                                                                                 \
        volatile T x = ptx_##n(a);                                                                                     \
        ROUNDED(T, MODE_##mode, expression);                                                                           \
        return ptx_result_##n(a, a, ptx_bits_##n(result));                                                             \
    }

#define FUSED(mode, n, U, T, function)                                                                                 \
    U ptx_fma_##mode##_##n(U a, U b, U c) {                                                                            \
        volatile T x = ptx_##n(a), y = ptx_##n(b), z = ptx_##n(c);                                                     \
        ROUNDED(T, MODE_##mode, function(x, y, z));                                                                    \
        U bits = ptx_bits_##n(result);                                                                                 \
        return ptx_result_##n(ptx_result_##n(a, c, bits), b, bits);                                                    \
    }

#define ALL(mode, n, U, T, root, fused)                                                                                \
    BINARY(add, mode, n, U, T, LEFT, RIGHT, x + y)                                                                     \
    BINARY(sub, mode, n, U, T, LEFT, RIGHT, x - y)                                                                     \
    BINARY(mul, mode, n, U, T, LEFT, RIGHT, x *y)                                                                      \
    BINARY(div, mode, n, U, T, RIGHT, LEFT, x / y)                                                                     \
    UNARY(rcp, mode, n, U, T, (T)1 / x)                                                                                \
    UNARY(sqrt, mode, n, U, T, root(x))                                                                                \
    FUSED(mode, n, U, T, fused)

#define X(mode)                                                                                                        \
    ALL(mode, f32, uint32_t, float, sqrtf, fmaf)                                                                       \
    ALL(mode, f64, uint64_t, double, sqrt, fma)
PTX_DIRECTED(X)
#undef X

double ptx_odd_sum(double a, double b) {
    double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
    uint64_t bits = ptx_bits_f64(sum);
    if (!isfinite(sum) || error == 0 || error != error || bits & 1)
        return sum;
    return ptx_f64((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

/* Whether a magnitude is rounded up. `rest` is the part after the last bit, from 0 to less than 1. */
static int rounds_up(double rest, int is_odd, int is_negative, int rounding) {
    switch (rounding) {
    case PTX_RZ:
        return 0;
    case PTX_RM:
        return rest > 0 && is_negative;
    case PTX_RP:
        return rest > 0 && !is_negative;
    case PTX_RNA:
        return rest >= 0.5;
    default:
        return rest > 0.5 || (rest == 0.5 && is_odd);
    }
}

uint32_t ptx_pack(double value, int exponent_bits, int fraction_bits, int rounding) {
    int width = exponent_bits + fraction_bits, bias = (1 << (exponent_bits - 1)) - 1, exponent;
    uint32_t sign = signbit(value) ? 1u << width : 0, infinite = ((1u << exponent_bits) - 1) << fraction_bits;
    if (value != value)
        return (1u << width) - 1;
    if (value == 0 || isinf(value))
        return sign | (value == 0 ? 0 : infinite);
    frexp(value, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    if (exponent > bias + 1)
        exponent = bias + 1;
    double scaled = ldexp(fabs(value), fraction_bits - exponent), whole = floor(scaled);
    if (whole > 16777216.0 * 128) /* far above infinity, and an integer of 32 bits */
        whole = scaled = 16777216.0 * 128;
    uint32_t number = (uint32_t)whole;
    number += (uint32_t)rounds_up(scaled - whole, number & 1, sign != 0, rounding);
    uint64_t bits = ((uint64_t)(exponent + bias - 1) << fraction_bits) + number;
    if (bits < infinite)
        return sign | (uint32_t)bits;
    int stays_finite = rounding == PTX_RZ || (rounding == PTX_RM && !sign) || (rounding == PTX_RP && sign);
    return sign | (infinite - (stays_finite ? 1 : 0));
}

/* ---- conversions ---- */

uint32_t ptx_pack_f64(double value, int exponent_bits, int fraction_bits, int rounding) {
    uint64_t bits = ptx_bits_f64(value);
    uint32_t upper = (uint32_t)(bits >> (52 - fraction_bits)) & ((1u << fraction_bits) - 1);
    uint32_t not_a_number = ((1u << exponent_bits) - 1) << fraction_bits | 1u << (fraction_bits - 1) | upper;
    if (value != value)
        return (uint32_t)(bits >> 48 & 0x8000) | not_a_number;
    return ptx_pack(value, exponent_bits, fraction_bits, rounding);
}

uint64_t ptx_integral_f64(uint64_t bits, int rounding) {
    double value = ptx_f64(bits);
    return value == value ? ptx_bits_f64(ptx_integral(value, rounding)) : ptx_quiet_f64(bits);
}

double ptx_integral(double value, int rounding) {
    switch (rounding) {
    case PTX_RZ:
        return trunc(value);
    case PTX_RM:
        return floor(value);
    case PTX_RP:
        return ceil(value);
    default:
        return rint(value);
    }
}

int64_t ptx_to_signed(double value, int rounding, int bits, int64_t not_a_number) {
    double whole = ptx_integral(value, rounding), limit = ldexp(1, bits - 1);
    int64_t most = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    if (whole != whole)
        return not_a_number;
    return whole >= limit ? most : whole < -limit ? -most - 1 : (int64_t)whole;
}

uint64_t ptx_to_unsigned(double value, int rounding, int bits, uint64_t not_a_number) {
    double whole = ptx_integral(value, rounding);
    if (whole != whole)
        return not_a_number;
    return whole >= ldexp(1, bits) ? UINT64_MAX >> (64 - bits) : whole > 0 ? (uint64_t)whole : 0;
}

uint32_t ptx_f32_of_signed(int64_t value, int rounding) {
    volatile int64_t x = value;
    ROUNDED(float, cpu_modes[rounding & 3], (float)x);
    return ptx_bits_f32(result);
}

uint32_t ptx_f32_of_unsigned(uint64_t value, int rounding) {
    volatile uint64_t x = value;
    ROUNDED(float, cpu_modes[rounding & 3], (float)x);
    return ptx_bits_f32(result);
}

uint64_t ptx_f64_of_signed(int64_t value, int rounding) {
    volatile int64_t x = value;
    ROUNDED(double, cpu_modes[rounding & 3], (double)x);
    return ptx_bits_f64(result);
}

uint64_t ptx_f64_of_unsigned(uint64_t value, int rounding) {
    volatile uint64_t x = value;
    ROUNDED(double, cpu_modes[rounding & 3], (double)x);
    return ptx_bits_f64(result);
}

/* NaN keeps its sign and its upper bits. */
static uint32_t short_nan(double value) {
    uint64_t bits = ptx_bits_f64(value);
    return (uint32_t)(bits >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(bits >> 29 & 0x3fffff);
}

uint32_t ptx_f32_of_f64(double value, int rounding) {
    volatile double x = value;
    if (value != value)
        return short_nan(value);
    ROUNDED(float, cpu_modes[rounding & 3], (float)x);
    return ptx_bits_f32(result);
}

double ptx_odd_of_unsigned(uint64_t value) {
    if (value >> 53 == 0)
        return (double)value;
    int shift = 11 - __builtin_clzll(value);
    uint64_t kept = value >> shift;
    return ldexp((double)(kept | (kept << shift != value)), shift);
}

double ptx_odd_of_signed(int64_t value) {
    return value < 0 ? -ptx_odd_of_unsigned(0 - (uint64_t)value) : ptx_odd_of_unsigned((uint64_t)value);
}

uint32_t ptx_tf32(float value, int rounding) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? ptx_pack(value, 8, 10, rounding) << 13 : bits & 0xffffe000u;
}

uint8_t ptx_f8_of(float value, int exponent_bits, int fraction_bits) {
    uint8_t sign = signbit(value) ? 0x80 : 0;
    float magnitude = fabsf(value);
    if (value != value)
        return 0x7f;
    if (exponent_bits == 5) {
        uint32_t bits = ptx_pack(value, 5, fraction_bits, PTX_RN);
        return (uint8_t)((bits & 0x7f) >= 0x7c ? sign | 0x7b : bits);
    }
    if (magnitude >= 448)
        return sign | 0x7e;
    if (magnitude >= 256) /* exponents that are infinity in other formats */
        return (uint8_t)(sign | (0x70 + (uint32_t)rintf(magnitude / 32)));
    return (uint8_t)ptx_pack(value, exponent_bits, fraction_bits, PTX_RN);
}

float ptx_of_f8(uint8_t bits, int exponent_bits, int fraction_bits) {
    if (exponent_bits == 5)
        return ptx_f16((uint16_t)(bits << 8));
    int exponent = bits >> fraction_bits & 15, fraction = bits & 7;
    float value = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    return (bits & 0x7f) == 0x7f ? ptx_f32(0x7fffffff) : bits & 0x80 ? -value : value;
}

/* ---- integers ---- */

static uint32_t choose_bytes(uint32_t a, uint32_t b, const unsigned char choices[4]) {
    uint32_t selector = 0;
    for (int i = 0; i < 4; i++)
        selector |= (uint32_t)choices[i] << 4 * i;
    return ptx_prmt_b32(a, b, selector);
}

#define X(name, ...)                                                                                                   \
    uint32_t ptx_prmt_##name##_b32(uint32_t a, uint32_t b, uint32_t c) {                                               \
        static const unsigned char choices[4][4] = {__VA_ARGS__};                                                      \
        return choose_bytes(a, b, choices[c & 3]);                                                                     \
    }
X(f4e, {0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6})
X(b4e, {0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0})
X(rc8, {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3})
X(ecl, {0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3})
X(ecr, {0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3})
X(rc16, {0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3})
#undef X

uint32_t ptx_fns_b32(uint32_t mask, uint32_t base, uint32_t offset) {
    int32_t left = (int32_t)offset, step = left < 0 ? -1 : 1;
    base &= 31;
    if (left == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && (left -= step) == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}

/* ---- threads and memory ---- */

static const gs_ptx_variable_place *find_place(const gs_ptx_thread *t, uint32_t number) {
    const gs_ptx_variable_place *place = t->variables;
    while (place->number != number && place->number != UINT32_MAX)
        place++;
    return place;
}

uint32_t ptx_shared_at(const gs_ptx_thread *t, uint32_t number) {
    return find_place(t, number)->at;
}

uint32_t ptx_dynamic_at(const gs_ptx_thread *t, uint32_t align) {
    uint32_t least = align > 16 ? align : 16, end = find_place(t, UINT32_MAX)->at;
    return (end + least - 1) / least * least;
}

void ptx_begin(gs_ptx_thread *t, const char *file, uint32_t dynamic, unsigned char *parameters,
               const gs_ptx_parameter_place *places, uint32_t count, void **arguments) {
    size_t shared_bytes;
    gs_ptx_thread begun = {.file = file, .dynamic = dynamic, .jumps = PTX_JUMPS, .parameters = parameters};
    begun.shared = gs_host_shared(&shared_bytes);
    begun.shared_bytes = shared_bytes;
    gs_host_indices(&begun.tid, &begun.ntid, &begun.ctaid, &begun.nctaid);
    uint32_t number = begun.tid.x + begun.ntid.x * (begun.tid.y + begun.ntid.y * begun.tid.z);
    begun.lane = number % 32;
    begun.warp = number / 32;
    begun.warps = (begun.ntid.x * begun.ntid.y * begun.ntid.z + 31) / 32;
    begun.sm = gs_host_sm();
    for (uint32_t i = 0; i < count; i++) {
        memcpy(parameters + places[i].at, arguments[i], places[i].bytes);
        begun.parameter_bytes = places[i].at + places[i].bytes;
    }
    *t = begun;
}

void ptx_give_way(gs_ptx_thread *t) {
    t->jumps = PTX_JUMPS;
    gs_host_yield();
}

void ptx_bad_shared(const gs_ptx_thread *t, uint64_t at, uint32_t bytes, int line) {
    if (at & (bytes - 1))
        gs_host_fail("%s:%d: the shared address %llu must be a multiple of %u", t->file, line, (unsigned long long)at,
                     bytes);
    gs_host_fail("%s:%d: %u bytes at %llu are outside of the %llu bytes of shared memory", t->file, line, bytes,
                 (unsigned long long)at, (unsigned long long)t->shared_bytes);
}

void ptx_bad_address(const gs_ptx_thread *t, uint64_t address, uint32_t bytes, int line) {
    gs_host_fail("%s:%d: the address 0x%llx must be a multiple of %u", t->file, line, (unsigned long long)address,
                 bytes);
}

void ptx_trap(const gs_ptx_thread *t, int line) {
    gs_host_fail("%s:%d: the kernel trapped", t->file, line);
}

unsigned char *ptx_shared_range(const gs_ptx_thread *t, uint64_t at, uint64_t bytes, int line) {
    if (at > t->shared_bytes || bytes > t->shared_bytes - at)
        gs_host_fail("%s:%d: %llu bytes at %llu are outside of the %llu bytes of shared memory", t->file, line,
                     (unsigned long long)bytes, (unsigned long long)at, (unsigned long long)t->shared_bytes);
    return t->shared + at;
}

uint8_t ptx_isspacep_shared(const gs_ptx_thread *t, uint64_t address) {
    return address - (uint64_t)(uintptr_t)t->shared < t->shared_bytes;
}

uint8_t ptx_isspacep_local(const gs_ptx_thread *t, uint64_t address) {
    char *first, *end;
    (void)t;
    gs_host_stack(&first, &end);
    return address >= (uint64_t)(uintptr_t)first && address < (uint64_t)(uintptr_t)end &&
           !ptx_isspacep_param(t, address);
}

uint8_t ptx_isspacep_param(const gs_ptx_thread *t, uint64_t address) {
    return address - (uint64_t)(uintptr_t)t->parameters < t->parameter_bytes;
}

uint8_t ptx_isspacep_global(const gs_ptx_thread *t, uint64_t address) {
    return !ptx_isspacep_shared(t, address) && !ptx_isspacep_local(t, address);
}

void ptx_cp_async(void *to, const void *from, uint32_t bytes, uint32_t read_bytes) {
    read_bytes = read_bytes < bytes ? read_bytes : bytes;
    memcpy(to, from, read_bytes);
    memset((unsigned char *)to + read_bytes, 0, bytes - read_bytes);
}

void ptx_copy(void *to, const void *from, uint64_t bytes) {
    memmove(to, from, bytes);
}

/* ---- barriers in shared memory ---- */

/* An mbarrier. Only the threads of one block use it, and these run on one thread of the CPU. */
typedef struct {
    uint64_t bytes : 23; /* still to come, a two's complement */
    uint64_t pending : 20, expected : 20, phase : 1;
} mbarrier;

static mbarrier read_mbarrier(const void *at) {
    mbarrier barrier;
    memcpy(&barrier, at, sizeof barrier);
    return barrier;
}

static void complete_mbarrier(void *at, mbarrier barrier) {
    if (barrier.pending == 0 && barrier.bytes == 0) {
        barrier.phase ^= 1;
        barrier.pending = barrier.expected;
    }
    memcpy(at, &barrier, sizeof barrier);
}

void ptx_mbarrier_init(void *at, uint32_t count) {
    mbarrier barrier = {.pending = count, .expected = count};
    memcpy(at, &barrier, sizeof barrier);
}

void ptx_mbarrier_expect_tx(void *at, uint32_t bytes) {
    mbarrier barrier = read_mbarrier(at);
    barrier.bytes += bytes;
    memcpy(at, &barrier, sizeof barrier);
}

void ptx_mbarrier_complete_tx(void *at, uint32_t bytes) {
    mbarrier barrier = read_mbarrier(at);
    barrier.bytes -= bytes;
    complete_mbarrier(at, barrier);
}

static uint64_t arrive_mbarrier(void *at, uint32_t count, uint32_t bytes, uint32_t dropped) {
    mbarrier barrier = read_mbarrier(at);
    uint64_t state = ptx_ld_u64(at);
    if (count > barrier.pending)
        gs_host_fail("an mbarrier got %u arrivals, but only %u are pending", count, (uint32_t)barrier.pending);
    barrier.bytes += bytes;
    barrier.expected -= dropped;
    barrier.pending -= count;
    complete_mbarrier(at, barrier);
    return state;
}

uint64_t ptx_mbarrier_arrive(void *at, uint32_t count) {
    return arrive_mbarrier(at, count, 0, 0);
}

uint64_t ptx_mbarrier_arrive_drop(void *at, uint32_t count) {
    return arrive_mbarrier(at, count, 0, count);
}

uint64_t ptx_mbarrier_arrive_expect_tx(void *at, uint32_t bytes) {
    return arrive_mbarrier(at, 1, bytes, 0);
}

uint64_t ptx_mbarrier_arrive_drop_expect_tx(void *at, uint32_t bytes) {
    return arrive_mbarrier(at, 1, bytes, 1);
}

uint8_t ptx_mbarrier_test_wait_parity(const void *at, uint32_t parity) {
    return read_mbarrier(at).phase != (parity & 1);
}

uint8_t ptx_mbarrier_test_wait(const void *at, uint64_t state) {
    return ptx_mbarrier_test_wait_parity(at, read_mbarrier(&state).phase);
}

uint8_t ptx_mbarrier_try_wait_parity(const void *at, uint32_t parity) {
    if (!ptx_mbarrier_test_wait_parity(at, parity))
        gs_host_yield();
    return ptx_mbarrier_test_wait_parity(at, parity);
}

uint8_t ptx_mbarrier_try_wait(const void *at, uint64_t state) {
    return ptx_mbarrier_try_wait_parity(at, read_mbarrier(&state).phase);
}

uint32_t ptx_mbarrier_pending_count(uint64_t state) {
    return (uint32_t)read_mbarrier(&state).pending;
}

/* ---- other threads ---- */

static gs_place place_of(const gs_ptx_thread *t, int line) {
    return (gs_place){t->file, line};
}

uint32_t ptx_bar(const gs_ptx_thread *t, int kind, int scope, uint32_t number, uint32_t count, int vote, int line) {
    gs_barrier barrier = {
        .number = number, .count = count, .kind = kind, .vote = vote, .scope = scope, .place = place_of(t, line)};
    return (uint32_t)gs_host_barrier_at(&barrier);
}

static void finish_nothing(void **lanes) {
    (void)lanes;
}

void ptx_bar_warp(const gs_ptx_thread *t, uint32_t mask, int line) {
    int nothing;
    gs_host_warp(GS_WAIT_BAR_WARP, mask, &nothing, finish_nothing, place_of(t, line));
}

uint32_t ptx_activemask(const gs_ptx_thread *t, int line, uint32_t instruction) {
    return gs_host_active_at(place_of(t, line), instruction);
}

/* The input and the result of a lane of a warp instruction. */
struct lane {
    uint64_t value;
    int from;
    uint32_t mask;
    uint8_t flag;
    ptx_combine *combine;
};

static void finish_shfl(void **lanes) {
    uint32_t values[32];
    for (int i = 0; i < 32; i++)
        values[i] = lanes[i] ? (uint32_t)((struct lane *)lanes[i])->value : 0;
    for (int i = 0; i < 32; i++) {
        struct lane *lane = lanes[i];
        if (lane && lanes[lane->from])
            lane->value = values[lane->from];
    }
}

uint32_t ptx_shfl(const gs_ptx_thread *t, int mode, uint32_t a, uint32_t b, uint32_t c, uint32_t mask, uint8_t *in,
                  int line) {
    int self = (int)t->lane, by = b & 31, segment = c >> 8 & 31, clamp = c & 31;
    int last = (self & segment) | (clamp & ~segment), from;
    switch (mode) {
    case PTX_SHFL_UP:
        from = self - by;
        break;
    case PTX_SHFL_DOWN:
        from = self + by;
        break;
    case PTX_SHFL_BFLY:
        from = self ^ by;
        break;
    default:
        from = (self & segment) | (by & ~segment);
    }
    *in = mode == PTX_SHFL_UP ? from >= last : from <= last;
    struct lane mine = {.value = a, .from = *in ? from & 31 : self};
    gs_host_warp(GS_WAIT_SHUFFLE, mask, &mine, finish_shfl, place_of(t, line));
    return (uint32_t)mine.value;
}

/* The lanes that took part, and the lanes that voted yes. */
static void finish_vote(void **lanes) {
    uint32_t present = 0, yes = 0;
    for (int i = 0; i < 32; i++)
        if (lanes[i]) {
            present |= 1u << i;
            yes |= (uint32_t)(((struct lane *)lanes[i])->flag != 0) << i;
        }
    for (int i = 0; i < 32; i++)
        if (lanes[i]) {
            ((struct lane *)lanes[i])->value = yes;
            ((struct lane *)lanes[i])->mask = present;
        }
}

static struct lane vote_in_warp(const gs_ptx_thread *t, uint8_t flag, uint32_t mask, int line) {
    struct lane mine = {.flag = flag};
    gs_host_warp(GS_WAIT_VOTE, mask, &mine, finish_vote, place_of(t, line));
    return mine;
}

uint32_t ptx_vote_ballot(const gs_ptx_thread *t, uint8_t flag, uint32_t mask, int line) {
    return (uint32_t)vote_in_warp(t, flag, mask, line).value;
}

uint8_t ptx_vote_all(const gs_ptx_thread *t, uint8_t flag, uint32_t mask, int line) {
    struct lane mine = vote_in_warp(t, flag, mask, line);
    return mine.value == mine.mask;
}

uint8_t ptx_vote_any(const gs_ptx_thread *t, uint8_t flag, uint32_t mask, int line) {
    return vote_in_warp(t, flag, mask, line).value != 0;
}

uint8_t ptx_vote_uni(const gs_ptx_thread *t, uint8_t flag, uint32_t mask, int line) {
    struct lane mine = vote_in_warp(t, flag, mask, line);
    return mine.value == 0 || mine.value == mine.mask;
}

/* The lanes that have the same value. */
static void finish_match(void **lanes) {
    for (int i = 0; i < 32; i++) {
        struct lane *lane = lanes[i];
        if (!lane)
            continue;
        lane->mask = 0;
        lane->flag = 1;
        for (int k = 0; k < 32; k++)
            if (lanes[k]) {
                int is_same = ((struct lane *)lanes[k])->value == lane->value;
                lane->mask |= (uint32_t)is_same << k;
                lane->flag &= (uint8_t)is_same;
            }
    }
}

uint32_t ptx_match_any(const gs_ptx_thread *t, uint64_t value, uint32_t mask, int line) {
    struct lane mine = {.value = value};
    gs_host_warp(GS_WAIT_MATCH, mask, &mine, finish_match, place_of(t, line));
    return mine.mask;
}

uint32_t ptx_match_all(const gs_ptx_thread *t, uint64_t value, uint32_t mask, uint8_t *all, int line) {
    struct lane mine = {.value = value};
    gs_host_warp(GS_WAIT_MATCH, mask, &mine, finish_match, place_of(t, line));
    *all = mine.flag;
    return mine.flag ? mine.mask : 0;
}

static void finish_elect(void **lanes) {
    int chosen = 0;
    while (!lanes[chosen])
        chosen++;
    for (int i = 0; i < 32; i++)
        if (lanes[i])
            ((struct lane *)lanes[i])->from = chosen;
}

uint32_t ptx_elect(const gs_ptx_thread *t, uint32_t mask, uint8_t *chosen, int line) {
    struct lane mine = {0};
    gs_host_warp(GS_WAIT_ELECT, mask, &mine, finish_elect, place_of(t, line));
    *chosen = mine.from == (int)t->lane;
    return (uint32_t)mine.from;
}

static void finish_redux(void **lanes) {
    const struct lane *first = NULL;
    uint32_t result = 0;
    for (int i = 0; i < 32; i++) {
        const struct lane *lane = lanes[i];
        if (lane)
            result = first ? first->combine(result, (uint32_t)lane->value) : (uint32_t)lane->value;
        first = first ? first : lane;
    }
    for (int i = 0; i < 32; i++)
        if (lanes[i])
            ((struct lane *)lanes[i])->value = result;
}

uint32_t ptx_redux(const gs_ptx_thread *t, ptx_combine *combine, uint32_t value, uint32_t mask, int line) {
    struct lane mine = {.value = value, .combine = combine};
    gs_host_warp(GS_WAIT_REDUCE, mask, &mine, finish_redux, place_of(t, line));
    return (uint32_t)mine.value;
}

#define X(name)                                                                                                        \
    uint32_t ptx_redux_##name(uint32_t a, uint32_t b) {                                                                \
        return ptx_##name(a, b);                                                                                       \
    }
X(add_u32)
X(add_s32)
X(min_u32)
X(min_s32)
X(max_u32)
X(max_s32)
X(and_b32)
X(or_b32)
X(xor_b32)
X(min_f32)
X(max_f32)
X(min_NaN_f32)
X(max_NaN_f32)
#undef X

/* ---- video ---- */

static int64_t part_of(uint32_t word, int lane, int width, int is_signed) {
    uint64_t bits = (uint64_t)word >> lane * width;
    return is_signed ? (int64_t)(bits << (64 - width)) >> (64 - width) : (int64_t)(bits & (UINT64_MAX >> (64 - width)));
}

static int64_t clamp_to(int64_t value, int width, int is_signed) {
    int64_t most = ((int64_t)1 << (is_signed ? width - 1 : width)) - 1, least = is_signed ? -most - 1 : 0;
    return value < least ? least : value > most ? most : value;
}

static int64_t video_operation(int operation, int64_t a, int64_t b) {
    switch (operation) {
    case PTX_V_ADD:
        return a + b;
    case PTX_V_SUB:
        return a - b;
    case PTX_V_ABSDIFF:
        return a < b ? b - a : a - b;
    case PTX_V_MIN:
        return a < b ? a : b;
    case PTX_V_MAX:
        return a > b ? a : b;
    default: /* PTX_V_AVRG */
        return (a + b + (a + b >= 0)) >> 1;
    }
}

uint32_t ptx_video(const gs_ptx_video *video, uint32_t a, uint32_t b, uint32_t c) {
    int width = 32 / video->lanes;
    uint32_t result = video->sums ? c : 0;
    for (int lane = 0; lane < video->lanes; lane++) {
        int64_t value = video_operation(video->operation, part_of(a, lane, width, video->a_is_signed),
                                        part_of(b, lane, width, video->b_is_signed));
        if (video->saturates)
            value = clamp_to(value, width, video->d_is_signed);
        if (video->sums)
            result += (uint32_t)value;
        else
            result |= (uint32_t)((uint64_t)value & (UINT64_MAX >> (64 - width))) << lane * width;
    }
    return result;
}

/* ---- functions ---- */

/* One conversion of a format, such as "%-5lld", and the value that belongs to it. */
static const unsigned char *print_one(const char *specification, char type, const unsigned char *values) {
    int is_long = strchr(specification, 'l') || strchr(specification, 'z') || strchr(specification, 'j') ||
                  type == 's' || type == 'p' || strchr("aAeEfFgG", type);
    size_t bytes = is_long ? 8 : 4;
    values = (const unsigned char *)(((uintptr_t)values + bytes - 1) / bytes * bytes);
    uint64_t bits = is_long ? ptx_ld_u64(values) : ptx_ld_u32(values);
    if (strchr("aAeEfFgG", type))
        printf(specification, ptx_f64(bits));
    else if (type == 's')
        printf(specification, (const char *)(uintptr_t)bits);
    else if (type == 'p')
        printf(specification, (void *)(uintptr_t)bits);
    else if (is_long)
        printf(specification, (unsigned long long)bits);
    else
        printf(specification, (unsigned)bits);
    return values + bytes;
}

void ptx_call_vprintf(gs_ptx_thread *t, void **io) {
    const char *format = (const char *)(uintptr_t)ptx_ld_u64(io[1]);
    const unsigned char *values = (const unsigned char *)(uintptr_t)ptx_ld_u64(io[2]);
    (void)t;
    while (*format) {
        char specification[32];
        size_t plain = strcspn(format, "%"),
               length = strspn(format + plain + (format[plain] != 0), "-+ #0123456789.hljztL");
        printf("%.*s", (int)plain, format);
        format += plain;
        if (!*format)
            break;
        char type = format[1 + length];
        if (type == '%' || !type || length + 3 > sizeof specification) {
            putchar('%');
            format += type == '%' ? length + 2 : 1;
            continue;
        }
        memcpy(specification, format, length + 2);
        specification[length + 2] = '\0';
        values = print_one(specification, type, values);
        format += length + 2;
    }
    ptx_st_u32(io[0], 0);
}

void ptx_call_assertfail(gs_ptx_thread *t, void **io) {
    (void)t;
    gs_host_fail("%s:%u: assertion failed: %s", (const char *)(uintptr_t)ptx_ld_u64(io[1]), ptx_ld_u32(io[2]),
                 (const char *)(uintptr_t)ptx_ld_u64(io[0]));
}

void ptx_call_malloc(gs_ptx_thread *t, void **io) {
    (void)t;
    ptx_st_u64(io[0], (uint64_t)(uintptr_t)gs_host_allocate(ptx_ld_u64(io[1])));
}

void ptx_call_free(gs_ptx_thread *t, void **io) {
    (void)t;
    gs_host_free((void *)(uintptr_t)ptx_ld_u64(io[0]));
}

uint64_t ptx_globaltimer(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A cycle is a nanosecond. */
uint64_t ptx_clock(void) {
    return ptx_globaltimer();
}
