/*
 * test_ptx_instructions.c: each instruction of PTX computes on the CPU what the PTX manual specifies.
 *
 * Each row has an instruction (ptx_numbers.h explains its operands) and an expression for the same in C. Floating point
 * that is not rounded to nearest, and small types, are computed by comparing candidates with exact values. Where the
 * manual leaves the result open, a row has the result of an H200: division by 0, and the bits of a NaN.
 *
 * GRIDSMITH_ON=cuda runs the instructions on a GPU. GRIDSMITH_SHOWN=N prints N differences of each.
 */
#include "test.h"

#include "ptx_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float f32_of(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static double f64_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits of a float; for a NaN, those of the GPU. */
static uint64_t f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? bits : 0x7fffffffu;
}

static uint64_t f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A NaN of type double keeps its sign and its upper bits as a float; the result for any other value is `number`. */
static uint64_t short_nan(double value, uint64_t number) {
    uint64_t bits = f64_bits(value);
    return value == value ? number : (bits >> 32 & 0x80000000u) | 0x7fc00000u | (bits >> 29 & 0x3fffff);
}

static uint64_t flushed(uint64_t bits) {
    return bits & 0x7f800000u ? bits & 0xffffffffu : bits & 0x80000000u;
}

/* ---- rounding, literally: the exact value is `sum` + `error` ---- */

struct exact {
    double sum, error;
};

static struct exact exact_sum(double a, double b) {
    double sum = a + b, part = sum - a;
    return (struct exact){sum, isfinite(sum) ? (a - (sum - part)) + (b - part) : 0};
}

static int compare(struct exact x, double with) {
    double difference = x.sum - with;
    if (!isfinite(x.sum) || !isfinite(with))
        return x.sum > with ? 1 : x.sum < with ? -1 : 0;
    return difference > 0 ? 1 : difference < 0 ? -1 : x.error > 0 ? 1 : x.error < 0 ? -1 : 0;
}

/* 'n' nearest, 'z' to zero, 'm' down, 'p' up. */
static uint64_t round_f32(struct exact x, char mode) {
    float near = (float)x.sum, low, high;
    if (near != near || (isinf(x.sum) && isinf(near)))
        return f32_bits(near);
    low = compare(x, near) < 0 ? nextafterf(near, -INFINITY) : near;
    high = compare(x, near) > 0 ? nextafterf(near, INFINITY) : near;
    if (mode == 'z')
        mode = x.sum > 0 ? 'm' : 'p';
    float result = mode == 'm' ? low : high;
    if (result == 0 && x.sum != 0)
        result = x.sum < 0 ? -0.0f : 0.0f;
    return f32_bits(result);
}

static double half_value(uint32_t bits) {
    double value = bits & 0x7c00 ? ldexp(1024 + (bits & 1023), (int)(bits >> 10 & 31) - 25) : ldexp(bits & 1023, -24);
    if ((bits & 0x7c00) == 0x7c00)
        value = bits & 1023 ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

static double bfloat_value(uint32_t bits) {
    return f32_of((uint64_t)bits << 16);
}

/* The nearest of the numbers that `value` has, which grow with their bits up to `infinite`. */
static uint64_t round_small(struct exact x, double (*value)(uint32_t), uint32_t infinite, char mode) {
    if (x.sum != x.sum)
        return 0x7fff;
    bool is_negative = signbit(x.sum);
    struct exact size = is_negative ? (struct exact){-x.sum, -x.error} : x;
    uint32_t low = 0, high = infinite;
    while (low < high) { /* the largest that is not greater */
        uint32_t middle = (low + high + 1) / 2;
        if (compare(size, value(middle)) < 0)
            high = middle - 1;
        else
            low = middle;
    }
    bool is_exact = compare(size, value(low)) == 0;
    if (!is_exact && low < infinite) {
        double next = low + 1 == infinite ? 2 * value(low) - value(low - 1) : value(low + 1);
        int side = compare(size, value(low) / 2 + next / 2);
        bool is_up = mode == 'n'   ? side > 0 || (side == 0 && low & 1)
                     : mode == 'm' ? is_negative
                     : mode == 'p' ? !is_negative
                                   : false;
        low += is_up;
    }
    return low | (is_negative ? 0x8000u : 0);
}

static uint64_t half_of(double value, char mode) {
    return round_small((struct exact){value, 0}, half_value, 0x7c00, mode);
}

static uint64_t bfloat_of(double value, char mode) {
    return round_small((struct exact){value, 0}, bfloat_value, 0x7f80, mode);
}

static uint64_t half_fma(uint32_t a, uint32_t b, uint32_t c) {
    return round_small(exact_sum(half_value(a) * half_value(b), half_value(c)), half_value, 0x7c00, 'n');
}

static uint64_t bfloat_fma(uint32_t a, uint32_t b, uint32_t c) {
    return round_small(exact_sum(bfloat_value(a) * bfloat_value(b), bfloat_value(c)), bfloat_value, 0x7f80, 'n');
}

/* Quotients and roots: the sign of the rest tells on which side of the double the exact value is. */
static struct exact exact_quotient(double a, double b) {
    double q = a / b, rest = isfinite(q) && isfinite(b) ? fma(-q, b, a) : 0;
    return (struct exact){q, b < 0 ? -rest : rest};
}

static struct exact exact_root(double a) {
    double q = sqrt(a);
    return (struct exact){q, isfinite(q) ? fma(-q, q, a) : 0};
}

/* ---- integers, literally ---- */

static uint64_t clamp(double value, double least, double most, uint64_t not_a_number) {
    if (value != value)
        return not_a_number;
    if (value >= most)
        return most >= 9e18 ? (least < 0 ? (uint64_t)INT64_MAX : UINT64_MAX) : (uint64_t)(int64_t)(most - 1);
    if (value <= least)
        return least < 0 ? (uint64_t)(int64_t)least : 0;
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

static uint64_t high_product(uint64_t a, uint64_t b, bool is_signed) {
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (middle & 0xffffffffu);
    uint64_t high = ah * bh + (middle >> 32) + (other >> 32);
    if (is_signed && a >> 63)
        high -= b;
    if (is_signed && b >> 63)
        high -= a;
    return high;
}

static uint64_t bits_from(uint64_t a, uint64_t at, uint64_t count, uint64_t width, bool is_signed) {
    uint64_t result = 0;
    at &= 255;
    count &= 255;
    uint64_t top = at + count - 1 < width - 1 ? at + count - 1 : width - 1;
    uint64_t sign = is_signed && count ? a >> top & 1 : 0;
    for (uint64_t i = 0; i < width; i++)
        result |= (i < count && at + i < width ? a >> (at + i) & 1 : sign) << i;
    return result;
}

static uint64_t put_bits(uint64_t a, uint64_t b, uint64_t at, uint64_t count, uint64_t width) {
    at &= 255;
    count &= 255;
    for (uint64_t i = 0; i < count && at + i < width; i++)
        b = (b & ~((uint64_t)1 << (at + i))) | (a >> i & 1) << (at + i);
    return b;
}

static uint64_t reversed(uint64_t a, int width) {
    uint64_t result = 0;
    for (int i = 0; i < width; i++)
        result = result << 1 | (a >> i & 1);
    return result;
}

static uint64_t ones(uint64_t a) {
    uint64_t count = 0;
    for (; a; a >>= 1)
        count += a & 1;
    return count;
}

static uint64_t highest(uint64_t a) {
    uint64_t at = UINT32_MAX;
    for (uint64_t i = 0; i < 64; i++)
        at = a >> i & 1 ? i : at;
    return at;
}

static uint64_t permuted(uint64_t a, uint64_t b, uint64_t selector) {
    uint64_t result = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t choice = selector >> 4 * i & 15;
        uint64_t byte = ((choice & 4 ? b : a) >> (choice & 3) * 8) & 255;
        result |= (choice & 8 ? (byte >> 7) * 255 : byte) << 8 * i;
    }
    return result;
}

static uint64_t logic(uint64_t a, uint64_t b, uint64_t c, int table) {
    uint64_t result = 0;
    for (int i = 0; i < 32; i++)
        result |= (uint64_t)(table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
    return result;
}

static uint64_t absolute_differences(uint64_t a, uint64_t b, uint64_t c) {
    for (int i = 0; i < 32; i += 8)
        c += (uint64_t)llabs((long long)(a >> i & 255) - (long long)(b >> i & 255));
    return c;
}

static uint64_t dot(uint64_t a, uint64_t b, uint64_t c) { /* signed bytes of a, unsigned bytes of b */
    for (int i = 0; i < 32; i += 8)
        c += (uint64_t)((int64_t)(int8_t)(a >> i) * (int64_t)(b >> i & 255));
    return c;
}

static double smaller(double a, double b, int sign) {
    double x = a * sign, y = b * sign;
    if (a != a || b != b)
        return a != a ? b : a;
    return x < y || (x == y && (sign > 0 ? signbit(a) : !signbit(a))) ? a : b;
}

/* ---- the instructions: name, PTX, the register that is written, the same in C ---- */

#define INTEGERS(X)                                                                                                    \
    X(add_s32, "add.s32 w, a, b;", 'w', a + b)                                                                         \
    X(add_u16, "add.u16 h, ha, hb;", 'h', ha + hb)                                                                     \
    X(add_s64, "add.s64 D, A, B;", 'd', A + B)                                                                         \
    X(add_sat, "add.sat.s32 w, a, b;", 'w', clamp((double)sa + sb, -2147483648.0, 2147483648.0, 0))                    \
    X(sub_sat, "sub.sat.s32 w, a, b;", 'w', clamp((double)sa - sb, -2147483648.0, 2147483648.0, 0))                    \
    X(sub_u64, "sub.u64 D, A, B;", 'd', A - B)                                                                         \
    X(carry, "{.reg .u32 l; add.cc.u32 l, a, b; addc.u32 w, c, 5;}", 'w', c + 5 + (((uint64_t)a + b) >> 32))           \
    X(carries, "{.reg .u32 l; add.cc.u32 l, a, b; addc.cc.u32 l, c, c; addc.u32 w, 0, 0;}", 'w',                       \
      ((uint64_t)c + c + (((uint64_t)a + b) >> 32)) >> 32)                                                             \
    X(borrow, "{.reg .u32 l; sub.cc.u32 l, a, b; subc.u32 w, c, 0;}", 'w', c - (a < b))                                \
    X(borrows, "{.reg .u32 l; sub.cc.u32 l, a, b; subc.cc.u32 l, c, c; subc.u32 w, 9, 0;}", 'w', 9 - (a < b))          \
    X(carry_64, "{.reg .u64 l; add.cc.u64 l, A, B; addc.u64 D, C, 0;}", 'd', C + (A + B < A))                          \
    X(mad_cc, "{.reg .u32 l; mad.lo.cc.u32 l, a, b, c; madc.hi.u32 w, a, b, 0;}", 'w', ((uint64_t)a * b + c) >> 32)    \
    X(mul_lo, "mul.lo.s32 w, a, b;", 'w', (uint64_t)a *b)                                                              \
    X(mul_lo_16, "mul.lo.u16 h, ha, hb;", 'h', (uint64_t)ha *hb)                                                       \
    X(mul_hi_s, "mul.hi.s32 w, a, b;", 'w', (uint64_t)((int64_t)sa * sb) >> 32)                                        \
    X(mul_hi_u, "mul.hi.u32 w, a, b;", 'w', ((uint64_t)a * b) >> 32)                                                   \
    X(mul_hi_16, "mul.hi.s16 h, ha, hb;", 'h', (uint32_t)((int16_t)ha * (int16_t)hb) >> 16)                            \
    X(mul_hi_u64, "mul.hi.u64 D, A, B;", 'd', high_product(A, B, false))                                               \
    X(mul_hi_s64, "mul.hi.s64 D, A, B;", 'd', high_product(A, B, true))                                                \
    X(mul_wide_s, "mul.wide.s32 D, a, b;", 'd', (int64_t)sa *sb)                                                       \
    X(mul_wide_u, "mul.wide.u32 D, a, b;", 'd', (uint64_t)a *b)                                                        \
    X(mul_wide_16, "mul.wide.s16 w, ha, hb;", 'w', (int16_t)ha *(int16_t)hb)                                           \
    X(mad_lo, "mad.lo.s32 w, a, b, c;", 'w', (uint64_t)a *b + c)                                                       \
    X(mad_hi, "mad.hi.s32 w, a, b, c;", 'w', ((uint64_t)((int64_t)sa * sb) >> 32) + c)                                 \
    X(mad_wide, "mad.wide.s32 D, a, b, C;", 'd', (uint64_t)((int64_t)sa * sb) + C)                                     \
    X(mul24, "mul24.lo.s32 w, a, b;", 'w', (int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8))               \
    X(mad24, "mad24.lo.u32 w, a, b, c;", 'w', (uint64_t)(a & 0xffffff) * (b & 0xffffff) + c)                           \
    X(div_u32, "div.u32 w, a, b;", 'w', b ? a / b : UINT32_MAX)                                                        \
    X(div_s32, "div.s32 w, a, b;", 'w', b ? (uint64_t)((int64_t)sa / sb) : UINT32_MAX)                                 \
    X(div_s64, "div.s64 D, A, B;", 'd', B == 0 ? UINT64_MAX : B == UINT64_MAX ? 0 - A : (uint64_t)(SA / SB))           \
    X(div_s16, "div.s16 h, ha, hb;", 'h', hb ? (uint64_t)((int16_t)ha / (int16_t)hb) : UINT16_MAX)                     \
    X(rem_u32, "rem.u32 w, a, b;", 'w', b ? a % b : UINT32_MAX)                                                        \
    X(rem_s32, "rem.s32 w, a, b;", 'w', b ? (uint64_t)((int64_t)sa % sb) : UINT32_MAX)                                 \
    X(rem_u64, "rem.u64 D, A, B;", 'd', B ? A % B : UINT64_MAX)                                                        \
    X(abs_s32, "abs.s32 w, a;", 'w', sa < 0 ? 0 - a : a)                                                               \
    X(neg_s64, "neg.s64 D, A;", 'd', 0 - A)                                                                            \
    X(min_s32, "min.s32 w, a, b;", 'w', sa < sb ? a : b)                                                               \
    X(min_u32, "min.u32 w, a, b;", 'w', a < b ? a : b)                                                                 \
    X(max_s64, "max.s64 D, A, B;", 'd', SA > SB ? A : B)                                                               \
    X(max_u16, "max.u16 h, ha, hb;", 'h', ha > hb ? ha : hb)                                                           \
    X(sad_s32, "sad.s32 w, a, b, c;", 'w', c + (sa < sb ? b - a : a - b))                                              \
    X(and_b64, "and.b64 D, A, B;", 'd', A &B)                                                                          \
    X(or_b16, "or.b16 h, ha, hb;", 'h', ha | hb)                                                                       \
    X(xor_b32, "xor.b32 w, a, b;", 'w', a ^ b)                                                                         \
    X(not_b32, "not.b32 w, a;", 'w', ~a)                                                                               \
    X(cnot_b32, "cnot.b32 w, a;", 'w', a == 0)                                                                         \
    X(shl_b32, "shl.b32 w, a, b;", 'w', b < 32 ? a << b : 0)                                                           \
    X(shl_b64, "shl.b64 D, A, b;", 'd', b < 64 ? A << b : 0)                                                           \
    X(shl_b16, "shl.b16 h, ha, b;", 'h', b < 16 ? ha << b : 0)                                                         \
    X(shr_u32, "shr.u32 w, a, b;", 'w', b < 32 ? a >> b : 0)                                                           \
    X(shr_s32, "shr.s32 w, a, b;", 'w', sa >> (b < 32 ? b : 31))                                                       \
    X(shr_s64, "shr.s64 D, A, b;", 'd', SA >> (b < 64 ? b : 63))                                                       \
    X(shr_s16, "shr.s16 h, ha, b;", 'h', (int16_t)ha >> (b < 16 ? b : 15))                                             \
    X(shf_l, "shf.l.wrap.b32 w, a, b, c;", 'w', (((uint64_t)b << 32 | a) << (c & 31)) >> 32)                           \
    X(shf_r, "shf.r.clamp.b32 w, a, b, c;", 'w', ((uint64_t)b << 32 | a) >> (c < 32 ? c : 32))                         \
    X(popc, "popc.b64 w, A;", 'w', ones(A))                                                                            \
    X(clz, "clz.b32 w, a;", 'w', a ? 31 - highest(a) : 32)                                                             \
    X(bfind_u, "bfind.u64 w, A;", 'w', highest(A))                                                                     \
    X(bfind_s, "bfind.s32 w, a;", 'w', highest(sa < 0 ? ~a : a))                                                       \
    X(bfind_shift, "bfind.shiftamt.u32 w, a;", 'w', a ? 31 - highest(a) : UINT32_MAX)                                  \
    X(brev, "brev.b32 w, a;", 'w', reversed(a, 32))                                                                    \
    X(brev_64, "brev.b64 D, A;", 'd', reversed(A, 64))                                                                 \
    X(bfe_u32, "bfe.u32 w, a, b, c;", 'w', bits_from(a, b, c, 32, false))                                              \
    X(bfe_s32, "bfe.s32 w, a, b, c;", 'w', bits_from(a, b, c, 32, true))                                               \
    X(bfe_s64, "{.reg .u32 x, y; and.b32 x, b, 255; and.b32 y, c, 255; bfe.s64 D, A, x, y;}", 'd',                     \
      bits_from(A, b, c, 64, true))                                                                                    \
    X(bfi_b32, "bfi.b32 w, a, b, c, 9;", 'w', put_bits(a, b, c, 9, 32))                                                \
    X(bfi_b64, "{.reg .u32 x; and.b32 x, c, 255; bfi.b64 D, A, B, 5, x;}", 'd', put_bits(A, B, 5, c, 64))              \
    X(prmt, "prmt.b32 w, a, b, c;", 'w', permuted(a, b, c))                                                            \
    X(lop3, "lop3.b32 w, a, b, c, 0x6a;", 'w', logic(a, b, c, 0x6a))                                                   \
    X(dp4a, "dp4a.s32.u32 w, a, b, c;", 'w', dot(a, b, c))                                                             \
    X(vabsdiff4, "vabsdiff4.u32.u32.u32.add w, a, b, c;", 'w', absolute_differences(a, b, c))                          \
    X(selp, "selp.b32 w, a, b, q;", 'w', q ? a : b)                                                                    \
    X(slct, "slct.u32.s32 w, a, b, c;", 'w', (int32_t)c >= 0 ? a : b)                                                  \
    X(lt_s32, "setp.lt.s32 p, a, b;", 'p', sa < sb)                                                                    \
    X(lo_u32, "setp.lo.u32 p, a, b;", 'p', a < b)                                                                      \
    X(hs_u64, "setp.hs.u64 p, A, B;", 'p', A >= B)                                                                     \
    X(ge_s16, "setp.ge.s16 p, ha, hb;", 'p', (int16_t)ha >= (int16_t)hb)                                               \
    X(eq_b32, "setp.eq.b32 p, a, b;", 'p', a == b)                                                                     \
    X(combined, "setp.gt.and.s32 p, a, b, q;", 'p', sa > sb && q)                                                      \
    X(negated, "setp.gt.or.s32 p, a, b, !q;", 'p', sa > sb || !q)                                                      \
    X(second, "{.reg .pred o; setp.gt.xor.s32 o|p, a, b, q;}", 'p', !(sa > sb) != q)                                   \
    X(set_u32, "set.le.u32.s32 w, a, b;", 'w', sa <= sb ? UINT32_MAX : 0)                                              \
    X(and_pred, "{.reg .pred o; setp.ne.s32 o, a, b; and.pred p, o, q;}", 'p', a != b && q)                            \
    X(pack, "mov.b64 D, {a, b};", 'd', a | (uint64_t)b << 32)                                                          \
    X(unpack, "{.reg .b32 o; mov.b64 {o, w}, A;}", 'w', A >> 32)                                                       \
    X(pack_16, "mov.b32 w, {ha, hb};", 'w', ha | (uint32_t)hb << 16)                                                   \
    X(guard, "mov.u32 w, 1; @q mov.u32 w, a; @!q mov.u32 w, b;", 'w', q ? a : b)

#define CONVERSIONS(X)                                                                                                 \
    X(cvt_s8, "cvt.s32.s8 w, a;", 'w', (int8_t)a)                                                                      \
    X(cvt_u8, "cvt.u32.u8 w, a;", 'w', (uint8_t)a)                                                                     \
    X(cvt_s64, "cvt.s64.s32 D, a;", 'd', (int64_t)sa)                                                                  \
    X(cvt_u16, "cvt.u16.u64 h, A;", 'h', (uint16_t)A)                                                                  \
    X(cvt_sat_u8, "cvt.sat.u8.s32 w, a;", 'w', sa<0 ? 0 : sa> 255 ? 255 : sa)                                          \
    X(cvt_sat_s16, "cvt.sat.s16.s32 w, a;", 'w', sa<-32768 ? -32768 : sa> 32767 ? 32767 : sa)                          \
    X(cvt_sat_s32, "cvt.sat.s32.u64 w, A;", 'w', A > INT32_MAX ? INT32_MAX : A)                                        \
    X(rzi_s32, "cvt.rzi.s32.f32 w, a;", 'w', clamp(trunc(fa), -2147483648.0, 2147483648.0, 0))                         \
    X(rni_s32, "cvt.rni.s32.f32 w, a;", 'w', clamp(rint(fa), -2147483648.0, 2147483648.0, 0))                          \
    X(rmi_u32, "cvt.rmi.u32.f32 w, a;", 'w', clamp(floor(fa), 0, 4294967296.0, 0))                                     \
    X(rzi_u32, "cvt.rzi.u32.f32 w, a;", 'w', clamp(trunc(fa), 0, 4294967296.0, 0))                                     \
    X(rpi_s8, "cvt.rpi.s8.f32 w, a;", 'w', clamp(ceil(fa), -128, 128, 0))                                              \
    X(rzi_s64, "cvt.rzi.s64.f32 D, a;", 'd', clamp(trunc(fa), -0x1p63, 0x1p63, (uint64_t)1 << 63))                     \
    X(rzi_u64, "cvt.rzi.u64.f64 D, A;", 'd', clamp(trunc(FA), 0, 0x1p64, (uint64_t)1 << 63))                           \
    X(rni_s32_f64, "cvt.rni.s32.f64 w, A;", 'w', clamp(rint(FA), -2147483648.0, 2147483648.0, 0x80000000u))            \
    X(rzi_u32_f64, "cvt.rzi.u32.f64 w, A;", 'w', clamp(trunc(FA), 0, 4294967296.0, 0x80000000u))                       \
    X(rni_f32, "cvt.rni.f32.f32 w, a;", 'w', f32_bits(rintf(fa)))                                                      \
    X(rpi_f64, "cvt.rpi.f64.f64 D, A;", 'D', f64_bits(ceil(FA)))                                                       \
    X(sat_f32, "cvt.sat.f32.f32 w, a;", 'w', fa > 0 ? f32_bits(fa < 1 ? fa : 1) : 0)                                   \
    X(f32_s32, "cvt.rn.f32.s32 w, a;", 'w', f32_bits((float)sa))                                                       \
    X(f32_u64, "cvt.rn.f32.u64 w, A;", 'w', f32_bits((float)A))                                                        \
    X(f32_rz, "cvt.rz.f32.s32 w, a;", 'w', round_f32((struct exact){sa, 0}, 'z'))                                      \
    X(f32_rp, "cvt.rp.f32.u32 w, a;", 'w', round_f32((struct exact){a, 0}, 'p'))                                       \
    X(f64_s64, "cvt.rn.f64.s64 D, A;", 'd', f64_bits((double)SA))                                                      \
    X(f64_f32, "cvt.f64.f32 D, a;", 'D', f64_bits(fa))                                                                 \
    X(f32_f64, "cvt.rn.f32.f64 w, A;", 'w', short_nan(FA, f32_bits((float)FA)))                                        \
    X(f32_f64_rz, "cvt.rz.f32.f64 w, A;", 'w', short_nan(FA, round_f32((struct exact){FA, 0}, 'z')))                   \
    X(f32_f64_rm, "cvt.rm.f32.f64 w, A;", 'w', short_nan(FA, round_f32((struct exact){FA, 0}, 'm')))                   \
    X(f16_f32, "cvt.rn.f16.f32 h, a;", 'h', half_of(fa, 'n'))                                                          \
    X(f16_f32_rz, "cvt.rz.f16.f32 h, a;", 'h', half_of(fa, 'z'))                                                       \
    X(f16_f64, "cvt.rn.f16.f64 h, A;", 'h',                                                                            \
      FA == FA ? half_of(FA, 'n') : (A >> 48 & 0x8000) | 0x7e00 | (A >> 42 & 0x1ff))                                   \
    X(f16_s32, "cvt.rn.f16.s32 h, a;", 'h', half_of(sa, 'n'))                                                          \
    X(f16_up, "cvt.rp.f16.f32 h, a;", 'h', half_of(fa, 'p'))                                                           \
    X(bf16_f32, "cvt.rn.bf16.f32 h, a;", 'h', bfloat_of(fa, 'n'))                                                      \
    X(bf16_f32_rz, "cvt.rz.bf16.f32 h, a;", 'h', bfloat_of(fa, 'z'))                                                   \
    X(f32_f16, "cvt.f32.f16 w, ha;", 'w', f32_bits((float)half_value(ha)))                                             \
    X(f32_bf16, "cvt.f32.bf16 w, ha;", 'w', (uint32_t)ha << 16)                                                        \
    X(two, "cvt.rn.f16x2.f32 w, a, b;", 'w', half_of(fa, 'n') << 16 | half_of(fb, 'n'))                                \
    X(rzi_f16, "cvt.rzi.s32.f16 w, ha;", 'w', clamp(trunc(half_value(ha)), -2147483648.0, 2147483648.0, 0))

#define FLOATS(X)                                                                                                      \
    X(add_f32, "add.f32 w, a, b;", 'w', f32_bits(fa + fb))                                                             \
    X(add_ftz, "add.ftz.f32 w, a, b;", 'w', flushed(f32_bits(f32_of(flushed(a)) + f32_of(flushed(b)))))                \
    X(add_f32_sat, "add.sat.f32 w, a, b;", 'w', fa + fb > 0 ? f32_bits(fa + fb < 1 ? fa + fb : 1) : 0)                 \
    X(add_rz, "add.rz.f32 w, a, b;", 'w', zero_sum(fa, fb, 'z'))                                                       \
    X(add_rm, "add.rm.f32 w, a, b;", 'w', zero_sum(fa, fb, 'm'))                                                       \
    X(add_rp, "add.rp.f32 w, a, b;", 'w', zero_sum(fa, fb, 'p'))                                                       \
    X(sub_f64, "sub.f64 D, A, B;", 'D', f64_bits(FA - FB))                                                             \
    X(mul_f32, "mul.f32 w, a, b;", 'w', f32_bits(fa *fb))                                                              \
    X(mul_rz, "mul.rz.f32 w, a, b;", 'w', round_f32((struct exact){(double)fa * fb, 0}, 'z'))                          \
    X(mul_rm, "mul.rm.f32 w, a, b;", 'w', round_f32((struct exact){(double)fa * fb, 0}, 'm'))                          \
    X(mul_f64, "mul.f64 D, A, B;", 'D', f64_bits(FA *FB))                                                              \
    X(fma_f32, "fma.rn.f32 w, a, b, c;", 'w', f32_bits(fmaf(fa, fb, fc)))                                              \
    X(fma_f64, "fma.rn.f64 D, A, B, C;", 'D', f64_bits(fma(FA, FB, FC)))                                               \
    X(div_f32, "div.rn.f32 w, a, b;", 'w', f32_bits(fa / fb))                                                          \
    X(div_rz, "div.rz.f32 w, a, b;", 'w', round_f32(exact_quotient(fa, fb), 'z'))                                      \
    X(div_rp, "div.rp.f32 w, a, b;", 'w', round_f32(exact_quotient(fa, fb), 'p'))                                      \
    X(div_f64, "div.rn.f64 D, A, B;", 'D', f64_bits(FA / FB))                                                          \
    X(rcp, "rcp.rn.f32 w, a;", 'w', f32_bits(1 / fa))                                                                  \
    X(rcp_rm, "rcp.rm.f32 w, a;", 'w', round_f32(exact_quotient(1, fa), 'm'))                                          \
    X(sqrt_f32, "sqrt.rn.f32 w, a;", 'w', f32_bits(sqrtf(fa)))                                                         \
    X(sqrt_rm, "sqrt.rm.f32 w, a;", 'w', round_f32(exact_root(fa), 'm'))                                               \
    X(sqrt_f64, "sqrt.rn.f64 D, A;", 'D', f64_bits(sqrt(FA)))                                                          \
    X(neg_f32, "neg.f32 w, a;", 'w', f32_bits(-fa))                                                                    \
    X(abs_f64, "abs.f64 D, A;", 'D', A & 0x7fffffffffffffffu)                                                          \
    X(copysign, "copysign.f32 w, a, b;", 'w', (a & 0x80000000u) | (b & 0x7fffffffu))                                   \
    X(min_f32, "min.f32 w, a, b;", 'w', f32_bits((float)smaller(fa, fb, 1)))                                           \
    X(max_f32, "max.f32 w, a, b;", 'w', f32_bits((float)smaller(fa, fb, -1)))                                          \
    X(min_f64, "min.f64 D, A, B;", 'D', f64_bits(smaller(FA, FB, 1)))                                                  \
    X(max_nan, "max.NaN.f32 w, a, b;", 'w', fa != fa || fb != fb ? 0x7fffffffu : f32_bits((float)smaller(fa, fb, -1))) \
    X(lt_f32, "setp.lt.f32 p, a, b;", 'p', fa < fb)                                                                    \
    X(ltu_f32, "setp.ltu.f32 p, a, b;", 'p', !(fa >= fb))                                                              \
    X(ne_f32, "setp.ne.f32 p, a, b;", 'p', fa<fb || fa> fb)                                                            \
    X(neu_f64, "setp.neu.f64 p, A, B;", 'p', FA != FB)                                                                 \
    X(equ_f64, "setp.equ.f64 p, A, B;", 'p', !(FA < FB || FA > FB))                                                    \
    X(nan_f32, "setp.nan.f32 p, a, b;", 'p', fa != fa || fb != fb)                                                     \
    X(num_f64, "setp.num.f64 p, A, B;", 'p', FA == FA && FB == FB)                                                     \
    X(eq_ftz, "setp.eq.ftz.f32 p, a, b;", 'p', f32_of(flushed(a)) == f32_of(flushed(b)))                               \
    X(testp, "testp.subnormal.f32 p, a;", 'p', fpclassify(fa) == FP_SUBNORMAL)                                         \
    X(slct_f32, "slct.u32.f32 w, a, b, c;", 'w', fc >= 0 ? a : b)                                                      \
    X(add_f16, "add.f16 h, ha, hb;", 'h', half_of(half_value(ha) + half_value(hb), 'n'))                               \
    X(mul_f16, "mul.f16 h, ha, hb;", 'h', half_of(half_value(ha) * half_value(hb), 'n'))                               \
    X(fma_f16, "fma.rn.f16 h, ha, hb, hc;", 'h', half_fma(ha, hb, hc))                                                 \
    X(fma_f16x2, "fma.rn.f16x2 w, a, b, c;", 'w', half_fma(a >> 16, b >> 16, c >> 16) << 16 | half_fma(ha, hb, hc))    \
    X(sub_bf16, "sub.bf16 h, ha, hb;", 'h', bfloat_of(bfloat_value(ha) - bfloat_value(hb), 'n'))                       \
    X(fma_bf16, "fma.rn.bf16 h, ha, hb, hc;", 'h', bfloat_fma(ha, hb, hc))

/* A sum of exactly 0 is -0 when it is rounded down, unless both are 0. */
static uint64_t zero_sum(float a, float b, char mode) {
    struct exact x = exact_sum(a, b);
    if (x.sum == 0 && x.error == 0)
        return signbit(a) == signbit(b) ? f32_bits(a) : mode == 'm' ? 0x80000000u : 0;
    return round_f32(x, mode);
}

#define ALL(X)                                                                                                         \
    INTEGERS(X)                                                                                                        \
    CONVERSIONS(X)                                                                                                     \
    FLOATS(X)

#define X(name, code, width, expression)                                                                               \
    static uint64_t expect_##name(uint64_t A, uint64_t B, uint64_t C) {                                                \
        uint32_t a = (uint32_t)A, b = (uint32_t)B, c = (uint32_t)C;                                                    \
        int32_t sa = (int32_t)a, sb = (int32_t)b;                                                                      \
        int64_t SA = (int64_t)A, SB = (int64_t)B;                                                                      \
        uint16_t ha = (uint16_t)a, hb = (uint16_t)b, hc = (uint16_t)c;                                                 \
        float fa = f32_of(A), fb = f32_of(B), fc = f32_of(C);                                                          \
        double FA = f64_of(A), FB = f64_of(B), FC = f64_of(C);                                                         \
        bool q = C & 1;                                                                                                \
        (void)a, (void)b, (void)c, (void)sa, (void)sb, (void)SA, (void)SB, (void)ha, (void)hb, (void)hc, (void)fa;     \
        (void)fb, (void)fc, (void)FA, (void)FB, (void)FC, (void)q;                                                     \
        return (uint64_t)(expression);                                                                                 \
    }
ALL(X)
#undef X

static const struct instruction {
    const char *name, *code;
    char width;
    uint64_t (*expect)(uint64_t, uint64_t, uint64_t);
} instructions[] = {
#define X(name, code, width, expression) {#name, code, width, expect_##name},
    ALL(X)
#undef X
};

static bool is_right(char width, uint64_t found, uint64_t expected) {
    static const uint64_t masks[] = {
        ['p'] = 1, ['h'] = 0xffff, ['w'] = 0xffffffffu, ['d'] = UINT64_MAX, ['D'] = UINT64_MAX};
    expected &= masks[(unsigned char)width];
    if (width == 'D' && f64_of(expected) != f64_of(expected))
        return f64_of(found) != f64_of(found);
    return found == expected;
}

/* How many results of an instruction are wrong. The first ones are shown. */
static size_t check(const struct instruction *instruction, const uint64_t *found) {
    size_t wrong = 0;
    for (size_t i = 0; i < PTX_THREADS; i++) {
        uint64_t in[3];
        ptx_numbers_at(i, in);
        uint64_t expected = instruction->expect(in[0], in[1], in[2]);
        if (is_right(instruction->width, found[i], expected))
            continue;
        if (wrong++ < test_number("GRIDSMITH_SHOWN", 3))
            print_message("%s of 0x%llx, 0x%llx, 0x%llx is 0x%llx, not 0x%llx\n", instruction->code,
                          (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
                          (unsigned long long)expected, (unsigned long long)found[i]);
    }
    return wrong;
}

TEST(every_instruction_computes_what_the_manual_says) {
    struct ptx_row rows[GS_COUNT(instructions)];
    const char *on = getenv("GRIDSMITH_ON");
    size_t wrong = 0;
    for (size_t i = 0; i < GS_COUNT(instructions); i++)
        rows[i] = (struct ptx_row){instructions[i].code, instructions[i].width};
    uint64_t *out = ptx_numbers_run(on ? on : "host", rows, GS_COUNT(rows));
    for (size_t i = 0; i < GS_COUNT(instructions); i++)
        wrong += check(&instructions[i], out + i * PTX_THREADS);
    free(out);
    if (wrong)
        fail_msg("%zu results are wrong", wrong);
}

TEST_MAIN(NULL, NULL)
