/*
 * gridsmith_ptx.h: the instructions of PTX as C functions, for kernels that src/kernels/cpu/ptx_host.c translates to C.
 *
 * `add.rz.f32 d, a, b` becomes `d = ptx_add_rz_f32(a, b)`. Registers are unsigned integers of their width for all
 * types: functions take and return bits. A predicate is 0 or 1. Short functions are here; those that are long, rare, or
 * that wait for other threads are in gridsmith_ptx.c, gridsmith_accesses.c and gridsmith_matrix.c.
 *
 * Addresses. Global, constant, local and generic addresses and those of parameters are addresses of the CPU. Shared
 * addresses are offsets into the shared memory of the block, and each access is checked. The generic address of shared
 * memory is its address on the CPU.
 *
 * Surprising: a NaN result has the same bits as on an H200, so that results do not depend on the CPU: 0x7fffffff; in
 * double precision the bits of the last operand that is NaN.
 */
#ifndef GRIDSMITH_PTX_H
#define GRIDSMITH_PTX_H

#include "gridsmith_run.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- a thread ---- */

/* A shared variable of the kernel that runs, and where it lies; the last has no number, and is the end of all. */
typedef struct gs_ptx_variable_place {
    uint32_t number, at;
} gs_ptx_variable_place;

typedef struct gs_ptx_thread {
    unsigned char *shared;
    uint64_t shared_bytes;
    uint32_t dynamic; /* where dynamic shared memory begins */
    gs_uint3 tid, ntid, ctaid, nctaid;
    uint32_t lane, warp, warps, sm;
    uint32_t jumps; /* backward jumps until the thread yields */
    const char *file;
    const unsigned char *parameters;
    uint32_t parameter_bytes;
    const gs_ptx_variable_place *variables;
    struct gs_access_group *group; /* the last one that it came to: see gridsmith_accesses.c */
} gs_ptx_thread;

/* Functions get their results and parameters as addresses, results first. */
typedef void gs_ptx_function_call(gs_ptx_thread *t, void **io);

typedef struct gs_ptx_parameter_place {
    uint32_t at, bytes;
} gs_ptx_parameter_place;

/* Fills in the thread, and copies the arguments to their places in `parameters`. */
void ptx_begin(gs_ptx_thread *t, const char *file, uint32_t dynamic, unsigned char *parameters,
               const gs_ptx_parameter_place *places, uint32_t count, void **arguments);

#define PTX_RARE __attribute__((noinline, cold, noreturn))
#ifndef PTX /* scripts/ptx_campaign.sh compiles these functions once for all kernels */
#    define PTX static inline __attribute__((always_inline, unused))
#endif
/* An instruction that is one expression of its operands. */
#define PTX_VALUE(type, name, operands, ...)                                                                           \
    PTX type name operands {                                                                                           \
        return __VA_ARGS__;                                                                                            \
    }

/* Where a shared variable lies, and an array of this alignment in dynamic shared memory. */
uint32_t ptx_shared_at(const gs_ptx_thread *t, uint32_t number);
uint32_t ptx_dynamic_at(const gs_ptx_thread *t, uint32_t align);

enum { PTX_JUMPS = 5000 };
void ptx_give_way(gs_ptx_thread *t);

/* Called before a backward jump: a loop may wait for another thread of the block. */
PTX void ptx_jump_back(gs_ptx_thread *t) {
    if (--t->jumps == 0)
        ptx_give_way(t);
}

/* ---- numbers as bits ---- */

PTX float ptx_f32(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PTX double ptx_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PTX uint32_t ptx_bits_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? bits : 0x7fffffffu;
}

PTX uint64_t ptx_bits_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The result of an operation. In double precision, a NaN operand is made quiet and returned; `last` wins over `first`.
   An invalid operation returns a new NaN. */
PTX uint64_t ptx_result_f64(uint64_t first, uint64_t last, uint64_t bits) {
    uint64_t infinite = 0x7ff0000000000000u, quiet = 0x0008000000000000u, sign = 0x8000000000000000u;
    if (__builtin_expect((bits & ~sign) <= infinite, 1))
        return bits;
    return (last & ~sign) > infinite    ? last | quiet
           : (first & ~sign) > infinite ? first | quiet
                                        : sign | infinite | quiet;
}

PTX uint32_t ptx_result_f32(uint32_t first, uint32_t last, uint32_t bits) {
    (void)first, (void)last;
    return bits;
}

#define ptx_result_f16(first, last, bits)  (bits)
#define ptx_result_bf16(first, last, bits) (bits)

/* How results are rounded: to nearest even, to zero, down, up; to nearest, halves away from zero. */
enum { PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNA };

/* The nearest number with these bits for the exponent and the fraction. Too large numbers become infinite, or the
   largest number, depending on the rounding. */
uint32_t ptx_pack(double value, int exponent_bits, int fraction_bits, int rounding);

PTX float ptx_f16(uint16_t bits) {
#ifdef __aarch64__
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
#else
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00)
        return ptx_f32(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x400)
        return (float)magnitude / 16777216.0f * (sign ? -1.0f : 1.0f);
    return ptx_f32(sign | ((magnitude << 13) + 0x38000000));
#endif
}

PTX uint16_t ptx_bits_f16(float value) {
#ifdef __aarch64__
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return value == value ? bits : 0x7fff;
#else
    return (uint16_t)ptx_pack(value, 5, 10, PTX_RN);
#endif
}

PTX_VALUE(float, ptx_bf16, (uint16_t bits), ptx_f32((uint32_t)bits << 16))

PTX uint16_t ptx_bits_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fff;
}

PTX_VALUE(uint32_t, ptx_flush, (uint32_t bits), bits & 0x7f800000 ? bits : bits & 0x80000000)

/* `cut`: the same without its last bits. */
PTX_VALUE(uint32_t, ptx_flush_quotient, (uint32_t bits, uint32_t cut), cut & 0x7f800000 ? bits : bits & 0x80000000)

/* The operand of a conversion with ftz. */
PTX_VALUE(uint32_t, ptx_flushed, (uint32_t bits), (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffffu : ptx_flush(bits))
PTX_VALUE(uint16_t, ptx_flush_f16, (uint16_t bits), bits & 0x7c00 ? bits : bits & 0x8000)

/* Values outside of 0 to 1, and NaN, become 0 or `one`. */
#define X(n, U, one) PTX_VALUE(U, ptx_sat_##n, (U bits), ptx_##n(bits) > 0 ? ptx_##n(bits) < 1 ? bits : one : 0)
X(f32, uint32_t, 0x3f800000)
X(f64, uint64_t, 0x3ff0000000000000u)
X(f16, uint16_t, 0x3c00)
X(bf16, uint16_t, 0x3f80)
#undef X

#define PTX_TWICE(function, a) ((uint32_t)function((uint16_t)(a)) | (uint32_t)function((uint16_t)((a) >> 16)) << 16)

PTX_VALUE(uint32_t, ptx_flush_f16x2, (uint32_t a), PTX_TWICE(ptx_flush_f16, a))
PTX_VALUE(uint32_t, ptx_sat_f16x2, (uint32_t a), PTX_TWICE(ptx_sat_f16, a))
PTX_VALUE(uint32_t, ptx_sat_bf16x2, (uint32_t a), PTX_TWICE(ptx_sat_bf16, a))

/* Negative numbers become 0. */
PTX_VALUE(uint16_t, ptx_relu_f16, (uint16_t bits), (bits & 0x7fff) > 0x7c00 ? 0x7fff : bits & 0x8000 ? 0 : bits)
PTX_VALUE(uint16_t, ptx_relu_bf16, (uint16_t bits), (bits & 0x7fff) > 0x7f80 ? 0x7fff : bits & 0x8000 ? 0 : bits)
PTX_VALUE(uint32_t, ptx_relu_f16x2, (uint32_t a), PTX_TWICE(ptx_relu_f16, a))
PTX_VALUE(uint32_t, ptx_relu_bf16x2, (uint32_t a), PTX_TWICE(ptx_relu_bf16, a))

/* ---- integers ---- */

/* name, bits, signed or unsigned, twice as wide: bits, signed or unsigned, width */
#define PTX_INTEGERS(X)                                                                                                \
    X(u16, uint16_t, uint16_t, uint32_t, uint32_t, 16)                                                                 \
    X(s16, uint16_t, int16_t, uint32_t, int32_t, 16)                                                                   \
    X(u32, uint32_t, uint32_t, uint64_t, uint64_t, 32)                                                                 \
    X(s32, uint32_t, int32_t, uint64_t, int64_t, 32)                                                                   \
    X(u64, uint64_t, uint64_t, unsigned __int128, unsigned __int128, 64)                                               \
    X(s64, uint64_t, int64_t, unsigned __int128, __int128, 64)

#define X(n, U, T, W, S, width)                                                                                        \
    PTX_VALUE(U, ptx_add_##n, (U a, U b), (U)(a + b))                                                                  \
    PTX_VALUE(U, ptx_sub_##n, (U a, U b), (U)(a - b))                                                                  \
    PTX_VALUE(U, ptx_mul_lo_##n, (U a, U b), (U)((W)a * (W)b))                                                         \
    PTX_VALUE(U, ptx_mul_hi_##n, (U a, U b), (U)((W)((S)(T)a * (S)(T)b) >> width))                                     \
    PTX_VALUE(W, ptx_mul_wide_##n, (U a, U b), (W)((S)(T)a * (S)(T)b))                                                 \
    PTX_VALUE(U, ptx_mad_lo_##n, (U a, U b, U c), (U)(ptx_mul_lo_##n(a, b) + c))                                       \
    PTX_VALUE(U, ptx_mad_hi_##n, (U a, U b, U c), (U)(ptx_mul_hi_##n(a, b) + c))                                       \
    PTX_VALUE(W, ptx_mad_wide_##n, (U a, U b, W c), ptx_mul_wide_##n(a, b) + c)                                        \
    PTX_VALUE(U, ptx_div_##n, (U a, U b), b == 0 ? (U)-1 : (T)-1 < 0 && b == (U)-1 ? (U)(0 - a) : (U)((T)a / (T)b))    \
    PTX_VALUE(U, ptx_rem_##n, (U a, U b), b == 0 ? (U)-1 : (T)-1 < 0 && b == (U)-1 ? 0 : (U)((T)a % (T)b))             \
    PTX_VALUE(U, ptx_min_##n, (U a, U b), (T)a < (T)b ? a : b)                                                         \
    PTX_VALUE(U, ptx_max_##n, (U a, U b), (T)a > (T)b ? a : b)                                                         \
    PTX_VALUE(U, ptx_sad_##n, (U a, U b, U c), (U)(c + ((T)a < (T)b ? b - a : a - b)))                                 \
    PTX_VALUE(U, ptx_abs_##n, (U a), (T)a < 0 ? (U)(0 - a) : a)                                                        \
    PTX_VALUE(U, ptx_neg_##n, (U a), (U)(0 - a))                                                                       \
    PTX U ptx_shr_##n(U a, uint32_t b) {                                                                               \
        return (U)((T)a >> (b < width ? b : width - 1) >> ((T)-1 > 0 && b >= width));                                  \
    }                                                                                                                  \
    PTX_VALUE(uint8_t, ptx_eq_##n, (U a, U b), a == b)                                                                 \
    PTX_VALUE(uint8_t, ptx_ne_##n, (U a, U b), a != b)                                                                 \
    PTX_VALUE(uint8_t, ptx_lt_##n, (U a, U b), (T)a < (T)b)                                                            \
    PTX_VALUE(uint8_t, ptx_le_##n, (U a, U b), (T)a <= (T)b)                                                           \
    PTX_VALUE(uint8_t, ptx_gt_##n, (U a, U b), (T)a > (T)b)                                                            \
    PTX_VALUE(uint8_t, ptx_ge_##n, (U a, U b), (T)a >= (T)b)
PTX_INTEGERS(X)
#undef X

#define X(n, U, width)                                                                                                 \
    PTX_VALUE(U, ptx_and_##n, (U a, U b), a &b)                                                                        \
    PTX_VALUE(U, ptx_or_##n, (U a, U b), a | b)                                                                        \
    PTX_VALUE(U, ptx_xor_##n, (U a, U b), a ^ b)                                                                       \
    PTX_VALUE(U, ptx_not_##n, (U a), (U)~a)                                                                            \
    PTX_VALUE(U, ptx_cnot_##n, (U a), a == 0)                                                                          \
    PTX_VALUE(U, ptx_shl_##n, (U a, uint32_t b), b < width ? (U)(a << b) : 0)                                          \
    PTX_VALUE(U, ptx_shr_##n, (U a, uint32_t b), b < width ? (U)(a >> b) : 0)                                          \
    PTX U ptx_brev_##n(U a) {                                                                                          \
        U result = 0;                                                                                                  \
        for (int i = 0; i < width; i++)                                                                                \
            result |= (U)((a >> i & 1) << (width - 1 - i));                                                            \
        return result;                                                                                                 \
    }                                                                                                                  \
    PTX_VALUE(uint32_t, ptx_popc_##n, (U a), (uint32_t)__builtin_popcountll(a))                                        \
    PTX_VALUE(uint32_t, ptx_clz_##n, (U a), a ? (uint32_t)__builtin_clzll(a) - (64 - width) : width)
X(b16, uint16_t, 16)
X(b32, uint32_t, 32)
X(b64, uint64_t, 64)
#undef X

PTX_VALUE(uint8_t, ptx_and_pred, (uint8_t a, uint8_t b), a &b)
PTX_VALUE(uint8_t, ptx_or_pred, (uint8_t a, uint8_t b), a | b)
PTX_VALUE(uint8_t, ptx_xor_pred, (uint8_t a, uint8_t b), a ^ b)
PTX_VALUE(uint8_t, ptx_not_pred, (uint8_t a), !a)

PTX uint32_t ptx_clamp_s32(int64_t value) {
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? (uint32_t)INT32_MIN : (uint32_t)value;
}

PTX_VALUE(uint32_t, ptx_add_sat_s32, (uint32_t a, uint32_t b), ptx_clamp_s32((int64_t)(int32_t)a + (int32_t)b))
PTX_VALUE(uint32_t, ptx_sub_sat_s32, (uint32_t a, uint32_t b), ptx_clamp_s32((int64_t)(int32_t)a - (int32_t)b))

PTX uint32_t ptx_mad_hi_sat_s32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_clamp_s32((int64_t)(int32_t)ptx_mul_hi_s32(a, b) + (int32_t)c);
}

/* Sums with carry. The borrow of a difference is the carry of the sum with the complement, inverted. */
#define X(n, U, W, width)                                                                                              \
    PTX U ptx_add_cc_##n(U a, U b, uint8_t *cc) {                                                                      \
        W sum = (W)a + b;                                                                                              \
        *cc = (uint8_t)(sum >> width & 1);                                                                             \
        return (U)sum;                                                                                                 \
    }                                                                                                                  \
    PTX_VALUE(U, ptx_addc_##n, (U a, U b, const uint8_t *cc), (U)(a + b + *cc))                                        \
    PTX U ptx_addc_cc_##n(U a, U b, uint8_t *cc) {                                                                     \
        W sum = (W)a + b + *cc;                                                                                        \
        *cc = (uint8_t)(sum >> width & 1);                                                                             \
        return (U)sum;                                                                                                 \
    }                                                                                                                  \
    PTX U ptx_sub_cc_##n(U a, U b, uint8_t *cc) {                                                                      \
        *cc = a < b;                                                                                                   \
        return (U)(a - b);                                                                                             \
    }                                                                                                                  \
    PTX_VALUE(U, ptx_subc_##n, (U a, U b, const uint8_t *cc), (U)(a - b - *cc))                                        \
    PTX U ptx_subc_cc_##n(U a, U b, uint8_t *cc) {                                                                     \
        uint8_t borrow = *cc;                                                                                          \
        *cc = (W)a < (W)b + borrow;                                                                                    \
        return (U)(a - b - borrow);                                                                                    \
    }                                                                                                                  \
    PTX_VALUE(U, ptx_mad_lo_cc_##n, (U a, U b, U c, uint8_t * cc), ptx_add_cc_##n(ptx_mul_lo_##n(a, b), c, cc))        \
    PTX_VALUE(U, ptx_mad_hi_cc_##n, (U a, U b, U c, uint8_t * cc), ptx_add_cc_##n(ptx_mul_hi_##n(a, b), c, cc))        \
    PTX_VALUE(U, ptx_madc_lo_##n, (U a, U b, U c, const uint8_t *cc), ptx_addc_##n(ptx_mul_lo_##n(a, b), c, cc))       \
    PTX_VALUE(U, ptx_madc_hi_##n, (U a, U b, U c, const uint8_t *cc), ptx_addc_##n(ptx_mul_hi_##n(a, b), c, cc))       \
    PTX_VALUE(U, ptx_madc_lo_cc_##n, (U a, U b, U c, uint8_t * cc), ptx_addc_cc_##n(ptx_mul_lo_##n(a, b), c, cc))      \
    PTX_VALUE(U, ptx_madc_hi_cc_##n, (U a, U b, U c, uint8_t * cc), ptx_addc_cc_##n(ptx_mul_hi_##n(a, b), c, cc))
X(u32, uint32_t, uint64_t, 32)
X(s32, uint32_t, uint64_t, 32)
X(u64, uint64_t, unsigned __int128, 64)
X(s64, uint64_t, unsigned __int128, 64)
#undef X

#define X(n, T)                                                                                                        \
    PTX_VALUE(int64_t, ptx_product24_##n, (uint32_t a, uint32_t b), (int64_t)((T)(a << 8) >> 8) * ((T)(b << 8) >> 8))  \
    PTX_VALUE(uint32_t, ptx_mul24_lo_##n, (uint32_t a, uint32_t b), (uint32_t)ptx_product24_##n(a, b))                 \
    PTX_VALUE(uint32_t, ptx_mul24_hi_##n, (uint32_t a, uint32_t b), (uint32_t)(ptx_product24_##n(a, b) >> 16))         \
    PTX_VALUE(uint32_t, ptx_mad24_lo_##n, (uint32_t a, uint32_t b, uint32_t c), ptx_mul24_lo_##n(a, b) + c)            \
    PTX_VALUE(uint32_t, ptx_mad24_hi_##n, (uint32_t a, uint32_t b, uint32_t c), ptx_mul24_hi_##n(a, b) + c)
X(u32, uint32_t)
X(s32, int32_t)
#undef X

PTX uint32_t ptx_mad24_hi_sat_s32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_clamp_s32((int64_t)(int32_t)ptx_mul24_hi_s32(a, b) + (int32_t)c);
}

/* Positions and lengths are bytes; values above 255 are undefined in PTX, and used unchanged for 64 bits. */
#define PTX_PLACE_32(number) ((number)&255)
#define PTX_PLACE_64(number) (number)

/* The position of the highest bit that differs from the sign. */
#define X(n, U, T, width)                                                                                              \
    PTX uint32_t ptx_bfind_##n(U a) {                                                                                  \
        U bits = (T)a < 0 ? (U)~a : a;                                                                                 \
        return bits ? (uint32_t)(63 - __builtin_clzll(bits)) : UINT32_MAX;                                             \
    }                                                                                                                  \
    PTX uint32_t ptx_bfind_shiftamt_##n(U a) {                                                                         \
        uint32_t found = ptx_bfind_##n(a);                                                                             \
        return found == UINT32_MAX ? found : width - 1 - found;                                                        \
    }                                                                                                                  \
    PTX U ptx_bfe_##n(U a, uint32_t from, uint32_t length) {                                                           \
        uint32_t at = PTX_PLACE_##width(from), count = PTX_PLACE_##width(length);                                      \
        uint32_t end = at + count < at ? UINT32_MAX : at + count, top = end - 1 < width - 1 ? end - 1 : width - 1;     \
        U sign = (T)-1 < 0 && count ? (U)(a >> top & 1) : 0, result = at < width ? (U)(a >> at) : 0;                   \
        if (count == 0)                                                                                                \
            return 0;                                                                                                  \
        uint32_t taken = at < width ? width - at < count ? width - at : count : 0;                                     \
        U mask = taken >= width ? (U)-1 : (U)(((U)1 << taken) - 1);                                                    \
        return (U)((result & mask) | (sign ? (U)~mask : 0));                                                           \
    }
X(u32, uint32_t, uint32_t, 32)
X(s32, uint32_t, int32_t, 32)
X(u64, uint64_t, uint64_t, 64)
X(s64, uint64_t, int64_t, 64)
#undef X

#define X(n, U, width)                                                                                                 \
    PTX U ptx_bfi_##n(U a, U b, uint32_t from, uint32_t length) {                                                      \
        uint32_t at = PTX_PLACE_##width(from), count = PTX_PLACE_##width(length);                                      \
        if (at >= width || count == 0)                                                                                 \
            return b;                                                                                                  \
        U mask = (U)((count >= width ? (U)-1 : (U)(((U)1 << count) - 1)) << at);                                       \
        return (U)((b & ~mask) | (a << at & mask));                                                                    \
    }
X(b32, uint32_t, 32)
X(b64, uint64_t, 64)
#undef X

PTX uint32_t ptx_bmsk_clamp_b32(uint32_t at, uint32_t count) {
    uint32_t ones = count >= 32 ? UINT32_MAX : (1u << count) - 1;
    return at < 32 ? ones << at : 0;
}

PTX_VALUE(uint32_t, ptx_bmsk_wrap_b32, (uint32_t at, uint32_t count), ((1u << (count & 31)) - 1) << (at & 31))
PTX_VALUE(uint32_t, ptx_szext_u32, (uint32_t a, uint32_t bits), bits >= 32 ? a : a & ((1u << bits) - 1))

PTX uint32_t ptx_szext_s32(uint32_t a, uint32_t bits) {
    return bits >= 32 ? a : bits == 0 ? 0 : (uint32_t)((int32_t)(a << (32 - bits)) >> (32 - bits));
}

PTX_VALUE(uint32_t, ptx_szext_clamp_u32, (uint32_t a, uint32_t bits), ptx_szext_u32(a, bits))
PTX_VALUE(uint32_t, ptx_szext_clamp_s32, (uint32_t a, uint32_t bits), ptx_szext_s32(a, bits))
PTX_VALUE(uint32_t, ptx_szext_wrap_u32, (uint32_t a, uint32_t bits), ptx_szext_u32(a, bits & 31))
PTX_VALUE(uint32_t, ptx_szext_wrap_s32, (uint32_t a, uint32_t bits), ptx_szext_s32(a, bits & 31))

/* The two words as one of 64 bits, shifted. */
PTX uint32_t ptx_shf_l_clamp_b32(uint32_t a, uint32_t b, uint32_t c) {
    c = c < 32 ? c : 32;
    return (uint32_t)(((uint64_t)b << 32 | a) << c >> 32);
}

PTX uint32_t ptx_shf_r_clamp_b32(uint32_t a, uint32_t b, uint32_t c) {
    c = c < 32 ? c : 32;
    return (uint32_t)(((uint64_t)b << 32 | a) >> c);
}

PTX_VALUE(uint32_t, ptx_shf_l_wrap_b32, (uint32_t a, uint32_t b, uint32_t c), ptx_shf_l_clamp_b32(a, b, c & 31))
PTX_VALUE(uint32_t, ptx_shf_r_wrap_b32, (uint32_t a, uint32_t b, uint32_t c), ptx_shf_r_clamp_b32(a, b, c & 31))

PTX uint32_t ptx_lop3_b32(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1)
            result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

PTX uint32_t ptx_prmt_b32(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t choice = selector >> (4 * i) & 15, byte = (uint32_t)(bytes >> (choice & 7) * 8) & 255;
        if (choice & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}

/* The named modes of prmt: the byte of `a` (0 to 3) or `b` (4 to 7) that each byte of the result is. */
uint32_t ptx_prmt_f4e_b32(uint32_t a, uint32_t b, uint32_t c);
uint32_t ptx_prmt_b4e_b32(uint32_t a, uint32_t b, uint32_t c);
uint32_t ptx_prmt_rc8_b32(uint32_t a, uint32_t b, uint32_t c);
uint32_t ptx_prmt_ecl_b32(uint32_t a, uint32_t b, uint32_t c);
uint32_t ptx_prmt_ecr_b32(uint32_t a, uint32_t b, uint32_t c);
uint32_t ptx_prmt_rc16_b32(uint32_t a, uint32_t b, uint32_t c);
uint32_t ptx_fns_b32(uint32_t mask, uint32_t base, uint32_t offset);

#define X(n, A, B)                                                                                                     \
    PTX uint32_t ptx_dp4a_##n(uint32_t a, uint32_t b, uint32_t c) {                                                    \
        for (int i = 0; i < 4; i++)                                                                                    \
            c += (uint32_t)((int32_t)(A##8_t)(a >> 8 * i) * (int32_t)(B##8_t)(b >> 8 * i));                            \
        return c;                                                                                                      \
    }                                                                                                                  \
    PTX uint32_t ptx_dp2a_lo_##n(uint32_t a, uint32_t b, uint32_t c) {                                                 \
        for (int i = 0; i < 2; i++)                                                                                    \
            c += (uint32_t)((int32_t)(A##16_t)(a >> 16 * i) * (int32_t)(B##8_t)(b >> 8 * i));                          \
        return c;                                                                                                      \
    }                                                                                                                  \
    PTX_VALUE(uint32_t, ptx_dp2a_hi_##n, (uint32_t a, uint32_t b, uint32_t c), ptx_dp2a_lo_##n(a, b >> 16, c))
X(u32_u32, uint, uint)
X(u32_s32, uint, int)
X(s32_u32, int, uint)
X(s32_s32, int, int)
#undef X

/* ---- floating point, rounded to nearest even ---- */

double ptx_odd_sum(double a, double b); /* the sum, where it is inexact with an odd last bit */

PTX uint16_t ptx_fma_f16(uint16_t a, uint16_t b, uint16_t c) {
    return (uint16_t)ptx_pack(ptx_odd_sum((double)ptx_f16(a) * (double)ptx_f16(b), ptx_f16(c)), 5, 10, PTX_RN);
}

PTX uint16_t ptx_fma_bf16(uint16_t a, uint16_t b, uint16_t c) {
    return (uint16_t)ptx_pack(ptx_odd_sum((double)ptx_bf16(a) * (double)ptx_bf16(b), ptx_bf16(c)), 8, 7, PTX_RN);
}

PTX uint32_t ptx_fma_f32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_bits_f32(fmaf(ptx_f32(a), ptx_f32(b), ptx_f32(c)));
}

PTX uint64_t ptx_fma_f64(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t bits = ptx_bits_f64(fma(ptx_f64(a), ptx_f64(b), ptx_f64(c)));
    return ptx_result_f64(ptx_result_f64(a, c, bits), b, bits); /* b, else c, else a */
}

/* The result for an operand that is NaN. */
#define ptx_quiet_f16(bits)  0x7fffu
#define ptx_quiet_bf16(bits) 0x7fffu
#define ptx_quiet_f32(bits)  0x7fffffffu
#define ptx_quiet_f64(bits)  ((bits) | 0x0008000000000000u)

/* name, bits, type of the CPU, sign, NaN; infinity */
#define PTX_FLOATS(X)                                                                                                  \
    X(f16, uint16_t, float, 0x8000u, 0x7fffu, 0x7c00u)                                                                 \
    X(bf16, uint16_t, float, 0x8000u, 0x7fffu, 0x7f80u)                                                                \
    X(f32, uint32_t, float, 0x80000000u, 0x7fffffffu, 0x7f800000u)                                                     \
    X(f64, uint64_t, double, 0x8000000000000000u, 0x7fffffffffffffffu, 0x7ff0000000000000u)

#define X(n, U, F, sign, nan, infinity)                                                                                \
    PTX_VALUE(uint8_t, ptx_isnan_##n, (U a), (U)(a & ~sign) > infinity)                                                \
    PTX_VALUE(U, ptx_add_##n, (U a, U b), ptx_result_##n(a, b, ptx_bits_##n(ptx_##n(a) + ptx_##n(b))))                 \
    PTX_VALUE(U, ptx_sub_##n, (U a, U b), ptx_result_##n(a, b, ptx_bits_##n(ptx_##n(a) - ptx_##n(b))))                 \
    PTX_VALUE(U, ptx_mul_##n, (U a, U b), ptx_result_##n(a, b, ptx_bits_##n(ptx_##n(a) * ptx_##n(b))))                 \
    PTX_VALUE(U, ptx_neg_##n, (U a), ptx_isnan_##n(a) ? ptx_quiet_##n(a) : (U)(a ^ sign))                              \
    PTX_VALUE(U, ptx_abs_##n, (U a), ptx_isnan_##n(a) ? ptx_quiet_##n(a) : (U)(a & ~sign))                             \
    PTX_VALUE(U, ptx_copysign_##n, (U a, U b), (U)((a & sign) | (b & ~sign)))                                          \
    PTX uint8_t ptx_less_##n(U a, U b) { /* -0 is less than 0 */                                                       \
        return ptx_##n(a) < ptx_##n(b) || (ptx_##n(a) == ptx_##n(b) && (a & sign) > (b & sign));                       \
    }                                                                                                                  \
    PTX U ptx_min_##n(U a, U b) {                                                                                      \
        if (ptx_isnan_##n(a) || ptx_isnan_##n(b))                                                                      \
            return !ptx_isnan_##n(a) ? a : !ptx_isnan_##n(b) ? b : ptx_quiet_##n(b);                                   \
        return ptx_less_##n(b, a) ? b : a;                                                                             \
    }                                                                                                                  \
    PTX U ptx_max_##n(U a, U b) {                                                                                      \
        if (ptx_isnan_##n(a) || ptx_isnan_##n(b))                                                                      \
            return !ptx_isnan_##n(a) ? a : !ptx_isnan_##n(b) ? b : ptx_quiet_##n(b);                                   \
        return ptx_less_##n(a, b) ? b : a;                                                                             \
    }                                                                                                                  \
    PTX_VALUE(U, ptx_min_NaN_##n, (U a, U b), ptx_isnan_##n(a) || ptx_isnan_##n(b) ? (U)nan : ptx_min_##n(a, b))       \
    PTX_VALUE(U, ptx_max_NaN_##n, (U a, U b), ptx_isnan_##n(a) || ptx_isnan_##n(b) ? (U)nan : ptx_max_##n(a, b))       \
    PTX_VALUE(uint8_t, ptx_eq_##n, (U a, U b), ptx_##n(a) == ptx_##n(b))                                               \
    PTX_VALUE(uint8_t, ptx_ne_##n, (U a, U b), ptx_##n(a) < ptx_##n(b) || ptx_##n(a) > ptx_##n(b))                     \
    PTX_VALUE(uint8_t, ptx_lt_##n, (U a, U b), ptx_##n(a) < ptx_##n(b))                                                \
    PTX_VALUE(uint8_t, ptx_le_##n, (U a, U b), ptx_##n(a) <= ptx_##n(b))                                               \
    PTX_VALUE(uint8_t, ptx_gt_##n, (U a, U b), ptx_##n(a) > ptx_##n(b))                                                \
    PTX_VALUE(uint8_t, ptx_ge_##n, (U a, U b), ptx_##n(a) >= ptx_##n(b))                                               \
    PTX_VALUE(uint8_t, ptx_equ_##n, (U a, U b), !ptx_ne_##n(a, b))                                                     \
    PTX_VALUE(uint8_t, ptx_neu_##n, (U a, U b), !ptx_eq_##n(a, b))                                                     \
    PTX_VALUE(uint8_t, ptx_ltu_##n, (U a, U b), !ptx_ge_##n(a, b))                                                     \
    PTX_VALUE(uint8_t, ptx_leu_##n, (U a, U b), !ptx_gt_##n(a, b))                                                     \
    PTX_VALUE(uint8_t, ptx_gtu_##n, (U a, U b), !ptx_le_##n(a, b))                                                     \
    PTX_VALUE(uint8_t, ptx_geu_##n, (U a, U b), !ptx_lt_##n(a, b))                                                     \
    PTX_VALUE(uint8_t, ptx_num_##n, (U a, U b), !ptx_isnan_##n(a) && !ptx_isnan_##n(b))                                \
    PTX_VALUE(uint8_t, ptx_nan_##n, (U a, U b), ptx_isnan_##n(a) || ptx_isnan_##n(b))
PTX_FLOATS(X)
#undef X

/* The same for both halves of a register. */
#define PTX_PAIR(n, name)                                                                                              \
    PTX uint32_t ptx_##name##_##n##x2(uint32_t a, uint32_t b) {                                                        \
        return (uint32_t)ptx_##name##_##n((uint16_t)a, (uint16_t)b) |                                                  \
               (uint32_t)ptx_##name##_##n((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;                             \
    }
#define PTX_PAIRS(n)                                                                                                   \
    PTX_PAIR(n, add)                                                                                                   \
    PTX_PAIR(n, sub)                                                                                                   \
    PTX_PAIR(n, mul)                                                                                                   \
    PTX_PAIR(n, min)                                                                                                   \
    PTX_PAIR(n, max)                                                                                                   \
    PTX_PAIR(n, min_NaN)                                                                                               \
    PTX_PAIR(n, max_NaN)                                                                                               \
    PTX_VALUE(uint32_t, ptx_neg_##n##x2, (uint32_t a), PTX_TWICE(ptx_neg_##n, a))                                      \
    PTX_VALUE(uint32_t, ptx_abs_##n##x2, (uint32_t a), PTX_TWICE(ptx_abs_##n, a))                                      \
    PTX uint32_t ptx_fma_##n##x2(uint32_t a, uint32_t b, uint32_t c) {                                                 \
        return (uint32_t)ptx_fma_##n((uint16_t)a, (uint16_t)b, (uint16_t)c) |                                          \
               (uint32_t)ptx_fma_##n((uint16_t)(a >> 16), (uint16_t)(b >> 16), (uint16_t)(c >> 16)) << 16;             \
    }
PTX_PAIRS(f16)
PTX_PAIRS(bf16)
PTX_PAIR(u16, add)
PTX_PAIR(u16, min)
PTX_PAIR(u16, max)
PTX_PAIR(s16, add)
PTX_PAIR(s16, min)
PTX_PAIR(s16, max)

/* min.xorsign.abs: of the magnitudes, with the product of the signs. */
#define X(name)                                                                                                        \
    PTX uint32_t ptx_##name##_xorsign_abs_f32(uint32_t a, uint32_t b) {                                                \
        uint32_t size = ptx_##name##_f32(a & 0x7fffffff, b & 0x7fffffff);                                              \
        return size > 0x7f800000 ? size : size | ((a ^ b) & 0x80000000);                                               \
    }
X(min)
X(max)
X(min_NaN)
X(max_NaN)
#undef X

PTX_VALUE(uint32_t, ptx_div_f32, (uint32_t a, uint32_t b), ptx_bits_f32(ptx_f32(a) / ptx_f32(b)))

PTX uint64_t ptx_div_f64(uint64_t a, uint64_t b) {
    return ptx_result_f64(b, a, ptx_bits_f64(ptx_f64(a) / ptx_f64(b)));
}

/* A divisor above 2^126 gives 0, or NaN if `a` is infinite. */
PTX uint32_t ptx_div_approx_f32(uint32_t a, uint32_t b) {
    uint32_t divisor = b & 0x7fffffff, dividend = a & 0x7fffffff;
    if (divisor > 0x7e800000 && divisor < 0x7f800000 && dividend <= 0x7f800000)
        return dividend == 0x7f800000 ? 0x7fffffff : (a ^ b) & 0x80000000;
    return ptx_div_f32(a, b);
}

PTX_VALUE(uint32_t, ptx_rcp_f32, (uint32_t a), ptx_bits_f32(1.0f / ptx_f32(a)))
PTX_VALUE(uint64_t, ptx_rcp_f64, (uint64_t a), ptx_result_f64(a, a, ptx_bits_f64(1.0 / ptx_f64(a))))
PTX_VALUE(uint32_t, ptx_sqrt_f32, (uint32_t a), ptx_bits_f32(sqrtf(ptx_f32(a))))
PTX_VALUE(uint64_t, ptx_sqrt_f64, (uint64_t a), ptx_result_f64(a, a, ptx_bits_f64(sqrt(ptx_f64(a)))))
PTX_VALUE(uint32_t, ptx_rsqrt_f32, (uint32_t a), ptx_bits_f32((float)(1.0 / sqrt((double)ptx_f32(a)))))
PTX_VALUE(uint64_t, ptx_rsqrt_f64, (uint64_t a), ptx_bits_f64(1.0 / sqrt(ptx_f64(a))))
PTX_VALUE(uint32_t, ptx_sin_f32, (uint32_t a), ptx_bits_f32(sinf(ptx_f32(a))))
PTX_VALUE(uint32_t, ptx_cos_f32, (uint32_t a), ptx_bits_f32(cosf(ptx_f32(a))))
PTX_VALUE(uint32_t, ptx_lg2_f32, (uint32_t a), ptx_bits_f32(log2f(ptx_f32(a))))
PTX_VALUE(uint32_t, ptx_ex2_f32, (uint32_t a), ptx_bits_f32(exp2f(ptx_f32(a))))
PTX_VALUE(uint32_t, ptx_tanh_f32, (uint32_t a), ptx_bits_f32(tanhf(ptx_f32(a))))

#define X(n)                                                                                                           \
    PTX_VALUE(uint16_t, ptx_ex2_##n, (uint16_t a), ptx_bits_##n(exp2f(ptx_##n(a))))                                    \
    PTX_VALUE(uint16_t, ptx_tanh_##n, (uint16_t a), ptx_bits_##n(tanhf(ptx_##n(a))))                                   \
    PTX_VALUE(uint32_t, ptx_ex2_##n##x2, (uint32_t a), PTX_TWICE(ptx_ex2_##n, a))                                      \
    PTX_VALUE(uint32_t, ptx_tanh_##n##x2, (uint32_t a), PTX_TWICE(ptx_tanh_##n, a))
X(f16)
X(bf16)
#undef X

#define X(n, U, sign, infinity, normal)                                                                                \
    PTX_VALUE(uint8_t, ptx_testp_finite_##n, (U a), (a & ~sign) < infinity)                                            \
    PTX_VALUE(uint8_t, ptx_testp_infinite_##n, (U a), (a & ~sign) == infinity)                                         \
    PTX_VALUE(uint8_t, ptx_testp_number_##n, (U a), (a & ~sign) <= infinity)                                           \
    PTX_VALUE(uint8_t, ptx_testp_notanumber_##n, (U a), (a & ~sign) > infinity)                                        \
    PTX uint8_t ptx_testp_normal_##n(U a) {                                                                            \
        return ((a & ~sign) >= normal && (a & ~sign) < infinity) || (a & ~sign) == 0; /* 0 is normal */                \
    }                                                                                                                  \
    PTX_VALUE(uint8_t, ptx_testp_subnormal_##n, (U a), (a & ~sign) < normal && (a & ~sign) != 0)
X(f32, uint32_t, 0x80000000u, 0x7f800000u, 0x00800000u)
X(f64, uint64_t, 0x8000000000000000u, 0x7ff0000000000000u, 0x0010000000000000u)
#undef X

/* ---- floating point, rounded otherwise ---- */

#define PTX_DIRECTED(X)                                                                                                \
    X(rz)                                                                                                              \
    X(rm)                                                                                                              \
    X(rp)
#define X(mode)                                                                                                        \
    uint32_t ptx_add_##mode##_f32(uint32_t a, uint32_t b);                                                             \
    uint32_t ptx_sub_##mode##_f32(uint32_t a, uint32_t b);                                                             \
    uint32_t ptx_mul_##mode##_f32(uint32_t a, uint32_t b);                                                             \
    uint32_t ptx_div_##mode##_f32(uint32_t a, uint32_t b);                                                             \
    uint32_t ptx_fma_##mode##_f32(uint32_t a, uint32_t b, uint32_t c);                                                 \
    uint32_t ptx_rcp_##mode##_f32(uint32_t a);                                                                         \
    uint32_t ptx_sqrt_##mode##_f32(uint32_t a);                                                                        \
    uint64_t ptx_add_##mode##_f64(uint64_t a, uint64_t b);                                                             \
    uint64_t ptx_sub_##mode##_f64(uint64_t a, uint64_t b);                                                             \
    uint64_t ptx_mul_##mode##_f64(uint64_t a, uint64_t b);                                                             \
    uint64_t ptx_div_##mode##_f64(uint64_t a, uint64_t b);                                                             \
    uint64_t ptx_fma_##mode##_f64(uint64_t a, uint64_t b, uint64_t c);                                                 \
    uint64_t ptx_rcp_##mode##_f64(uint64_t a);                                                                         \
    uint64_t ptx_sqrt_##mode##_f64(uint64_t a);
PTX_DIRECTED(X)
#undef X

/* ---- conversions ---- */

/* Floating point to integers: rounded to an integer, then to the nearest that the type has. */
int64_t ptx_to_signed(double value, int rounding, int bits, int64_t not_a_number);
uint64_t ptx_to_unsigned(double value, int rounding, int bits, uint64_t not_a_number);
/* Integers to floating point, and double to single precision. */
uint32_t ptx_f32_of_signed(int64_t value, int rounding);
uint32_t ptx_f32_of_unsigned(uint64_t value, int rounding);
uint64_t ptx_f64_of_signed(int64_t value, int rounding);
uint64_t ptx_f64_of_unsigned(uint64_t value, int rounding);
uint32_t ptx_f32_of_f64(double value, int rounding);
uint32_t ptx_pack_f64(double value, int exponent_bits, int fraction_bits, int rounding); /* to f16 or bf16 */
/* Integers as doubles that round further as the integer would: an inexact one has an odd last bit. */
double ptx_odd_of_signed(int64_t value);
double ptx_odd_of_unsigned(uint64_t value);
double ptx_integral(double value, int rounding);
uint64_t ptx_integral_f64(uint64_t bits, int rounding);
uint32_t ptx_tf32(float value, int rounding);
uint8_t ptx_f8_of(float value, int exponent_bits, int fraction_bits); /* e5m2, e4m3: saturates */
float ptx_of_f8(uint8_t bits, int exponent_bits, int fraction_bits);

/* Fast versions of frequent conversions. */
PTX uint32_t ptx_trunc_s32(float a) {
    return a >= 2147483648.0f ? INT32_MAX : a >= -2147483648.0f ? (uint32_t)(int32_t)a : a < 0 ? 0x80000000u : 0;
}

PTX_VALUE(uint32_t, ptx_trunc_u32, (float a), a >= 4294967296.0f ? UINT32_MAX : a > 0 ? (uint32_t)a : 0)

PTX int64_t ptx_clamp_signed(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

PTX_VALUE(uint64_t, ptx_clamp_unsigned, (uint64_t value, uint64_t most), value > most ? most : value)

PTX uint64_t ptx_clamp_positive(int64_t value, uint64_t most) {
    return value < 0 ? 0 : (uint64_t)value > most ? most : (uint64_t)value;
}

/* ---- memory ---- */

PTX_RARE void ptx_bad_shared(const gs_ptx_thread *t, uint64_t at, uint32_t bytes, int line);
PTX_RARE void ptx_bad_address(const gs_ptx_thread *t, uint64_t address, uint32_t bytes, int line);
PTX_RARE void ptx_trap(const gs_ptx_thread *t, int line);

/* The bytes at an offset of shared memory. `bytes` is a power of two, and divides the offset. */
PTX unsigned char *ptx_shared(const gs_ptx_thread *t, uint64_t at, uint32_t bytes, int line) {
    if (__builtin_expect((at & (bytes - 1)) || (at | (bytes - 1)) >= t->shared_bytes, 0))
        ptx_bad_shared(t, at, bytes, line);
    return t->shared + at;
}

PTX unsigned char *ptx_at(const gs_ptx_thread *t, uint64_t address, uint32_t bytes, int line) {
    if (__builtin_expect((address & (bytes - 1)) != 0, 0))
        ptx_bad_address(t, address, bytes, line);
    return (unsigned char *)(uintptr_t)address;
}

/* Any number of bytes. */
unsigned char *ptx_shared_range(const gs_ptx_thread *t, uint64_t at, uint64_t bytes, int line);

PTX_VALUE(uint64_t, ptx_address, (const void *variable), (uint64_t)(uintptr_t)variable)
PTX_VALUE(uint64_t, ptx_generic_shared, (const gs_ptx_thread *t, uint64_t at), (uint64_t)(uintptr_t)t->shared + at)

PTX uint64_t ptx_offset_shared(const gs_ptx_thread *t, uint64_t address) {
    return address - (uint64_t)(uintptr_t)t->shared;
}

uint8_t ptx_isspacep_shared(const gs_ptx_thread *t, uint64_t address);
uint8_t ptx_isspacep_local(const gs_ptx_thread *t, uint64_t address);
uint8_t ptx_isspacep_param(const gs_ptx_thread *t, uint64_t address);
uint8_t ptx_isspacep_global(const gs_ptx_thread *t, uint64_t address);

#define X(n, T)                                                                                                        \
    PTX T ptx_ld_##n(const void *from) {                                                                               \
        T value;                                                                                                       \
        memcpy(&value, from, sizeof value);                                                                            \
        return value;                                                                                                  \
    }                                                                                                                  \
    PTX void ptx_st_##n(void *to, T value) {                                                                           \
        memcpy(to, &value, sizeof value);                                                                              \
    }                                                                                                                  \
    PTX_VALUE(T, ptx_ld_strong_##n, (const void *from), __atomic_load_n((const T *)from, __ATOMIC_SEQ_CST))            \
    PTX void ptx_st_strong_##n(void *to, T value) {                                                                    \
        __atomic_store_n((T *)to, value, __ATOMIC_SEQ_CST);                                                            \
    }
X(u8, uint8_t)
X(s8, int8_t)
X(u16, uint16_t)
X(s16, int16_t)
X(u32, uint32_t)
X(s32, int32_t)
X(u64, uint64_t)
X(s64, int64_t)
#undef X

PTX unsigned __int128 ptx_ld_b128(const void *from) {
    unsigned __int128 value;
    memcpy(&value, from, sizeof value);
    return value;
}

PTX void ptx_st_b128(void *to, unsigned __int128 value) {
    memcpy(to, &value, sizeof value);
}

/* ---- atomic operations ---- */

#define PTX_EXCHANGE(U, next)                                                                                          \
    U old = __atomic_load_n((U *)at, __ATOMIC_RELAXED);                                                                \
    while (!__atomic_compare_exchange_n((U *)at, &old, (U)(next), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))              \
        ;                                                                                                              \
    return old

#define X(n, U)                                                                                                        \
    PTX U ptx_atom_min_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, ptx_min_##n(old, b));                                                                          \
    }                                                                                                                  \
    PTX U ptx_atom_max_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, ptx_max_##n(old, b));                                                                          \
    }                                                                                                                  \
    PTX_VALUE(U, ptx_atom_add_##n, (void *at, U b), __atomic_fetch_add((U *)at, b, __ATOMIC_SEQ_CST))                  \
    PTX U ptx_atom_inc_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, old >= b ? 0 : old + 1);                                                                       \
    }                                                                                                                  \
    PTX U ptx_atom_dec_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, old == 0 || old > b ? b : old - 1);                                                            \
    }
X(u32, uint32_t)
X(s32, uint32_t)
X(u64, uint64_t)
X(s64, uint64_t)
#undef X

#define X(n, U)                                                                                                        \
    PTX_VALUE(U, ptx_atom_exch_##n, (void *at, U b), __atomic_exchange_n((U *)at, b, __ATOMIC_SEQ_CST))                \
    PTX U ptx_atom_cas_##n(void *at, U b, U c) {                                                                       \
        __atomic_compare_exchange_n((U *)at, &b, c, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
        return b;                                                                                                      \
    }                                                                                                                  \
    PTX_VALUE(U, ptx_atom_and_##n, (void *at, U b), __atomic_fetch_and((U *)at, b, __ATOMIC_SEQ_CST))                  \
    PTX_VALUE(U, ptx_atom_or_##n, (void *at, U b), __atomic_fetch_or((U *)at, b, __ATOMIC_SEQ_CST))                    \
    PTX_VALUE(U, ptx_atom_xor_##n, (void *at, U b), __atomic_fetch_xor((U *)at, b, __ATOMIC_SEQ_CST))
X(b16, uint16_t)
X(b32, uint32_t)
X(b64, uint64_t)
#undef X

#define X(n, U)                                                                                                        \
    PTX U ptx_atom_add_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, ptx_add_##n(old, b));                                                                          \
    }                                                                                                                  \
    PTX U ptx_atom_min_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, ptx_min_##n(old, b));                                                                          \
    }                                                                                                                  \
    PTX U ptx_atom_max_##n(void *at, U b) {                                                                            \
        PTX_EXCHANGE(U, ptx_max_##n(old, b));                                                                          \
    }
X(f16, uint16_t)
X(bf16, uint16_t)
X(f16x2, uint32_t)
X(bf16x2, uint32_t)
X(f32, uint32_t)
X(f64, uint64_t)
#undef X

PTX void ptx_fence(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- copies, and barriers in shared memory ---- */

void ptx_cp_async(void *to, const void *from, uint32_t bytes, uint32_t read_bytes);
void ptx_copy(void *to, const void *from, uint64_t bytes);

void ptx_mbarrier_init(void *at, uint32_t count);
void ptx_mbarrier_expect_tx(void *at, uint32_t bytes);
void ptx_mbarrier_complete_tx(void *at, uint32_t bytes);
uint64_t ptx_mbarrier_arrive(void *at, uint32_t count);
uint64_t ptx_mbarrier_arrive_drop(void *at, uint32_t count);
uint64_t ptx_mbarrier_arrive_expect_tx(void *at, uint32_t bytes);
uint64_t ptx_mbarrier_arrive_drop_expect_tx(void *at, uint32_t bytes);
uint8_t ptx_mbarrier_test_wait(const void *at, uint64_t state);
uint8_t ptx_mbarrier_test_wait_parity(const void *at, uint32_t parity);
uint8_t ptx_mbarrier_try_wait(const void *at, uint64_t state);
uint8_t ptx_mbarrier_try_wait_parity(const void *at, uint32_t parity);
uint32_t ptx_mbarrier_pending_count(uint64_t state);

/* ---- other threads ---- */

/* `line` is the line in the PTX. */
uint32_t ptx_bar(const gs_ptx_thread *t, int kind, int scope, uint32_t number, uint32_t count, int vote, int line);
void ptx_bar_warp(const gs_ptx_thread *t, uint32_t mask, int line);
uint32_t ptx_activemask(const gs_ptx_thread *t, int line, uint32_t instruction);

enum { PTX_SHFL_UP, PTX_SHFL_DOWN, PTX_SHFL_BFLY, PTX_SHFL_IDX };
uint32_t ptx_shfl(const gs_ptx_thread *t, int mode, uint32_t a, uint32_t b, uint32_t c, uint32_t mask, uint8_t *in,
                  int line);
uint32_t ptx_vote_ballot(const gs_ptx_thread *t, uint8_t vote, uint32_t mask, int line);
uint8_t ptx_vote_all(const gs_ptx_thread *t, uint8_t vote, uint32_t mask, int line);
uint8_t ptx_vote_any(const gs_ptx_thread *t, uint8_t vote, uint32_t mask, int line);
uint8_t ptx_vote_uni(const gs_ptx_thread *t, uint8_t vote, uint32_t mask, int line);
uint32_t ptx_match_any(const gs_ptx_thread *t, uint64_t value, uint32_t mask, int line);
uint32_t ptx_match_all(const gs_ptx_thread *t, uint64_t value, uint32_t mask, uint8_t *all, int line);
uint32_t ptx_elect(const gs_ptx_thread *t, uint32_t mask, uint8_t *chosen, int line);
typedef uint32_t ptx_combine(uint32_t a, uint32_t b);
uint32_t ptx_redux(const gs_ptx_thread *t, ptx_combine *combine, uint32_t value, uint32_t mask, int line);
ptx_combine ptx_redux_add_u32, ptx_redux_add_s32, ptx_redux_min_u32, ptx_redux_min_s32, ptx_redux_max_u32,
    ptx_redux_max_s32, ptx_redux_and_b32, ptx_redux_or_b32, ptx_redux_xor_b32, ptx_redux_min_f32, ptx_redux_max_f32,
    ptx_redux_min_NaN_f32, ptx_redux_max_NaN_f32;

/* ---- counting transactions: see gridsmith_accesses.c ---- */

/* The rounds of one more loop. */
PTX_VALUE(uint64_t, ptx_round, (uint64_t rounds, uint64_t round),
          ((rounds ^ rounds >> 29) + round + 1) * 0x9e3779b97f4a7c15u)
/* A lane that comes to the round of an access, and may come past it. */
void ptx_present(gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t rounds);
void ptx_access(gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t place, uint64_t rounds);

/* ---- matrices: see gridsmith_matrix.c ---- */

/* The kinds of elements. */
enum {
    PTX_M_F16,
    PTX_M_BF16,
    PTX_M_TF32,
    PTX_M_F32,
    PTX_M_F64,
    PTX_M_S8,
    PTX_M_U8,
    PTX_M_S4,
    PTX_M_U4,
    PTX_M_B1,
    PTX_M_S32
};

/* A product of matrices, d = a * b + c. Each lane passes the registers of its fragments. */
typedef struct gs_ptx_product {
    int m, n, k;
    int a_kind, b_kind, c_kind, d_kind;
    int is_wmma; /* with the layout of wmma */
    int saturates;
    int bit_operation; /* b1: 0 xor, 1 and; the bits of the result are counted */
} gs_ptx_product;

void ptx_product(const gs_ptx_thread *t, const gs_ptx_product *product, void *d, const void *a, const void *b,
                 const void *c, int line);

/* wgmma.mma_async: d = a * b + d, of 64 by n, 16 deep, both factors in shared memory. */
typedef struct gs_ptx_group_product {
    int n, kind;          /* of the elements of a and b; those of d are f32 */
    int a_scale, b_scale; /* 1 or -1 */
} gs_ptx_group_product;

/* `a` and `b` are matrix descriptors; `d` are the registers of this thread. */
void ptx_wgmma(const gs_ptx_thread *t, const gs_ptx_group_product *product, void *d, uint64_t a, uint64_t b, int keeps,
               int line);

/* wmma.load and wmma.store: a fragment of `rows` by `columns` elements. */
typedef struct gs_ptx_fragment {
    int kind, rows, columns;
    int is_column; /* its order in memory */
} gs_ptx_fragment;

void ptx_wmma_load(const gs_ptx_thread *t, const gs_ptx_fragment *fragment, void *registers, const unsigned char *from,
                   uint32_t stride);
void ptx_wmma_store(const gs_ptx_thread *t, const gs_ptx_fragment *fragment, const void *registers, unsigned char *to,
                    uint32_t stride);

void ptx_ldmatrix(const gs_ptx_thread *t, uint32_t *registers, int count, int is_transposed, const unsigned char *row,
                  int line);
void ptx_stmatrix(const gs_ptx_thread *t, const uint32_t *registers, int count, int is_transposed, unsigned char *row,
                  int line);
uint32_t ptx_movmatrix(const gs_ptx_thread *t, uint32_t value, int line);

/* ---- video: sums and differences of bytes and halves ---- */

enum { PTX_V_ADD, PTX_V_SUB, PTX_V_ABSDIFF, PTX_V_MIN, PTX_V_MAX, PTX_V_AVRG };
typedef struct gs_ptx_video {
    int operation, lanes; /* 2 or 4 lanes */
    int d_is_signed, a_is_signed, b_is_signed;
    int saturates, sums; /* sums: the lanes are added to c */
} gs_ptx_video;
uint32_t ptx_video(const gs_ptx_video *video, uint32_t a, uint32_t b, uint32_t c);

/* ---- functions that every program has, and clocks ---- */

gs_ptx_function_call ptx_call_vprintf, ptx_call_assertfail, ptx_call_malloc, ptx_call_free;
uint64_t ptx_clock(void);
uint64_t ptx_globaltimer(void);

#endif
