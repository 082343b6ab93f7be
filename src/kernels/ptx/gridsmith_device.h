/*
 * gridsmith_device.h: CUDA C++ for clang, so that a kernel can be compiled to PTX on a machine without CUDA.
 *
 * clang knows CUDA's grammar, but its keywords and functions come from NVIDIA's headers and libraries. This header
 * defines those that kernels use: keywords (__global__), built-in variables (threadIdx), vectors, barriers, warp
 * functions, atomics, fences, half, 16x16x16 tensor-core fragments, and math functions. It is included before the
 * source.
 *
 * Math functions are short and accurate to some units in the last place for ordinary arguments. They differ from those
 * of NVIDIA in the last digits, and angles beyond 10^5 lose accuracy.
 */
#ifndef GRIDSMITH_DEVICE_H
#define GRIDSMITH_DEVICE_H

#define __global__             __attribute__((global))
#define __device__             __attribute__((device))
#define __host__               __attribute__((host))
#define __shared__             __attribute__((shared))
#define __constant__           __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__        inline __attribute__((always_inline))
#define __noinline__           __attribute__((noinline))
#define __align__(bytes)       __attribute__((aligned(bytes)))
#define __grid_constant__
#define CUDART_INF_F __builtin_huge_valf()
#define CUDART_PI_F  3.14159265f
#define warpSize     32

#define GS_DEVICE   static inline __attribute__((device, always_inline))
#define GS_ANYWHERE static inline __attribute__((device, host, always_inline))
#define GS_MEMBER   __attribute__((device, host, always_inline))
/* A function that returns an expression of its parameters. */
#define GS_VALUE(type, name, parameters, ...)                                                                          \
    GS_DEVICE type name parameters {                                                                                   \
        return __VA_ARGS__;                                                                                            \
    }

typedef __SIZE_TYPE__ size_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef __INT64_TYPE__ int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;

/* ---- vectors ---- */

#define GS_VECTORS(type, name, one, two, four)                                                                         \
    struct name##1 {                                                                                                   \
        type x;                                                                                                        \
    };                                                                                                                 \
    struct __attribute__((aligned(two))) name##2 {                                                                     \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    struct name##3 {                                                                                                   \
        type x, y, z;                                                                                                  \
    };                                                                                                                 \
    struct __attribute__((aligned(four))) name##4 {                                                                    \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    GS_ANYWHERE name##2 make_##name##2(type x, type y) {                                                               \
        return {x, y};                                                                                                 \
    }                                                                                                                  \
    GS_ANYWHERE name##3 make_##name##3(type x, type y, type z) {                                                       \
        return {x, y, z};                                                                                              \
    }                                                                                                                  \
    GS_ANYWHERE name##4 make_##name##4(type x, type y, type z, type w) {                                               \
        return {x, y, z, w};                                                                                           \
    }

GS_VECTORS(signed char, char, 1, 2, 4)
GS_VECTORS(unsigned char, uchar, 1, 2, 4)
GS_VECTORS(short, short, 2, 4, 8)
GS_VECTORS(unsigned short, ushort, 2, 4, 8)
GS_VECTORS(int, int, 4, 8, 16)
GS_VECTORS(unsigned, uint, 4, 8, 16)
GS_VECTORS(long long, longlong, 8, 16, 16)
GS_VECTORS(unsigned long long, ulonglong, 8, 16, 16)
GS_VECTORS(float, float, 4, 8, 16)
GS_VECTORS(double, double, 8, 16, 16)
#undef GS_VECTORS

struct __attribute__((aligned(4))) dim3 {
    unsigned x, y, z;
    GS_MEMBER dim3(unsigned from_x = 1, unsigned from_y = 1, unsigned from_z = 1) : x(from_x), y(from_y), z(from_z) {}
};

/* Launches in host code, which is not compiled. */
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes = 0, void *stream = 0);
extern "C" unsigned cudaConfigureCall(dim3 grid, dim3 block, size_t shared_bytes = 0, void *stream = 0);

/* ---- built-in variables: reading a member reads a special register ---- */

#define GS_INDEX(type, name, special)                                                                                  \
    struct type {                                                                                                      \
        __declspec(property(get = get_x)) unsigned x;                                                                  \
        __declspec(property(get = get_y)) unsigned y;                                                                  \
        __declspec(property(get = get_z)) unsigned z;                                                                  \
        static __attribute__((device, always_inline)) unsigned get_x() {                                               \
            return __nvvm_read_ptx_sreg_##special##_x();                                                               \
        }                                                                                                              \
        static __attribute__((device, always_inline)) unsigned get_y() {                                               \
            return __nvvm_read_ptx_sreg_##special##_y();                                                               \
        }                                                                                                              \
        static __attribute__((device, always_inline)) unsigned get_z() {                                               \
            return __nvvm_read_ptx_sreg_##special##_z();                                                               \
        }                                                                                                              \
        __attribute__((device, always_inline)) operator dim3() const {                                                 \
            return dim3(get_x(), get_y(), get_z());                                                                    \
        }                                                                                                              \
        __attribute__((device, always_inline)) operator uint3() const {                                                \
            return {get_x(), get_y(), get_z()};                                                                        \
        }                                                                                                              \
    };                                                                                                                 \
    extern const __attribute__((device, weak)) type name;

GS_INDEX(gs_thread_index, threadIdx, tid)
GS_INDEX(gs_block_index, blockIdx, ctaid)
GS_INDEX(gs_block_size, blockDim, ntid)
GS_INDEX(gs_grid_size, gridDim, nctaid)
#undef GS_INDEX

/* ---- barriers, fences, clocks ---- */

/* clang 14 assumes that its barriers do not change shared variables, and moves loads of these across them. Inline
   assembly that clobbers memory prevents that. */
#define GS_ORDERED(call)                                                                                               \
    asm volatile("" ::: "memory");                                                                                     \
    call;                                                                                                              \
    asm volatile("" ::: "memory")

GS_DEVICE void gs_syncthreads() {
    asm volatile("bar.sync 0;" ::: "memory");
}
#define __syncthreads gs_syncthreads
GS_DEVICE int __syncthreads_count(int holds) {
    GS_ORDERED(int result = __nvvm_bar0_popc(holds));
    return result;
}
GS_DEVICE int __syncthreads_and(int holds) {
    GS_ORDERED(int result = __nvvm_bar0_and(holds));
    return result;
}
GS_DEVICE int __syncthreads_or(int holds) {
    GS_ORDERED(int result = __nvvm_bar0_or(holds));
    return result;
}
GS_DEVICE void __syncwarp(unsigned mask = 0xffffffff) {
    GS_ORDERED(__nvvm_bar_warp_sync(mask));
}
GS_DEVICE void __threadfence_block() {
    GS_ORDERED(__nvvm_membar_cta());
}
GS_DEVICE void __threadfence() {
    GS_ORDERED(__nvvm_membar_gl());
}
GS_DEVICE void __threadfence_system() {
    GS_ORDERED(__nvvm_membar_sys());
}
#undef GS_ORDERED
GS_VALUE(long long, clock64, (), __nvvm_read_ptx_sreg_clock64())
GS_VALUE(int, clock, (), __nvvm_read_ptx_sreg_clock())
GS_DEVICE void __nanosleep(unsigned nanoseconds) {
    asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}
GS_DEVICE void __trap() {
    asm volatile("trap;");
}

/* ---- warps ---- */

/* Shuffles of 4 bytes; larger types are split. `edge` is the last lane of a segment and the mask of segments. */
#define GS_SHUFFLE(name, instruction, edge)                                                                            \
    GS_DEVICE int name(unsigned mask, int value, unsigned lane, int width = 32) {                                      \
        return instruction(mask, value, lane, (32 - width) << 8 | (edge));                                             \
    }                                                                                                                  \
    GS_DEVICE unsigned name(unsigned mask, unsigned value, unsigned lane, int width = 32) {                            \
        return name(mask, (int)value, lane, width);                                                                    \
    }                                                                                                                  \
    GS_DEVICE float name(unsigned mask, float value, unsigned lane, int width = 32) {                                  \
        return __builtin_bit_cast(float, name(mask, __builtin_bit_cast(int, value), lane, width));                     \
    }                                                                                                                  \
    GS_DEVICE long long name(unsigned mask, long long value, unsigned lane, int width = 32) {                          \
        unsigned low = name(mask, (unsigned)value, lane, width),                                                       \
                 high = name(mask, (unsigned)(value >> 32), lane, width);                                              \
        return (long long)((unsigned long long)high << 32 | low);                                                      \
    }                                                                                                                  \
    GS_DEVICE unsigned long long name(unsigned mask, unsigned long long value, unsigned lane, int width = 32) {        \
        return name(mask, (long long)value, lane, width);                                                              \
    }                                                                                                                  \
    GS_DEVICE double name(unsigned mask, double value, unsigned lane, int width = 32) {                                \
        return __builtin_bit_cast(double, name(mask, __builtin_bit_cast(long long, value), lane, width));              \
    }

GS_SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, 31)
GS_SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, 0)
GS_SHUFFLE(__shfl_down_sync, __nvvm_shfl_sync_down_i32, 31)
GS_SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, 31)
#undef GS_SHUFFLE

GS_VALUE(int, __all_sync, (unsigned mask, int holds), __nvvm_vote_all_sync(mask, holds != 0))
GS_VALUE(int, __any_sync, (unsigned mask, int holds), __nvvm_vote_any_sync(mask, holds != 0))
GS_VALUE(int, __uni_sync, (unsigned mask, int holds), __nvvm_vote_uni_sync(mask, holds != 0))
GS_VALUE(unsigned, __ballot_sync, (unsigned mask, int holds), __nvvm_vote_ballot_sync(mask, holds != 0))
GS_VALUE(unsigned, __match_any_sync, (unsigned mask, unsigned value), __nvvm_match_any_sync_i32(mask, value))
GS_DEVICE unsigned __match_all_sync(unsigned mask, unsigned value, int *all) {
    return __nvvm_match_all_sync_i32p(mask, value, all);
}
GS_DEVICE unsigned __activemask() {
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}

/* ---- atomics ---- */

#define GS_ATOMIC(name, type, as, instruction)                                                                         \
    GS_VALUE(type, name, (type * at, type value), (type)instruction((as *)at, (as)value))

GS_ATOMIC(atomicAdd, int, int, __nvvm_atom_add_gen_i)
GS_ATOMIC(atomicAdd, unsigned, int, __nvvm_atom_add_gen_i)
GS_ATOMIC(atomicAdd, unsigned long long, long long, __nvvm_atom_add_gen_ll)
GS_ATOMIC(atomicAdd, float, float, __nvvm_atom_add_gen_f)
GS_ATOMIC(atomicAdd, double, double, __nvvm_atom_add_gen_d)
GS_ATOMIC(atomicExch, int, int, __nvvm_atom_xchg_gen_i)
GS_ATOMIC(atomicExch, unsigned, int, __nvvm_atom_xchg_gen_i)
GS_ATOMIC(atomicExch, unsigned long long, long long, __nvvm_atom_xchg_gen_ll)
GS_ATOMIC(atomicMin, int, int, __nvvm_atom_min_gen_i)
GS_ATOMIC(atomicMin, unsigned, unsigned, __nvvm_atom_min_gen_ui)
GS_ATOMIC(atomicMin, long long, long long, __nvvm_atom_min_gen_ll)
GS_ATOMIC(atomicMin, unsigned long long, unsigned long long, __nvvm_atom_min_gen_ull)
GS_ATOMIC(atomicMax, int, int, __nvvm_atom_max_gen_i)
GS_ATOMIC(atomicMax, unsigned, unsigned, __nvvm_atom_max_gen_ui)
GS_ATOMIC(atomicMax, long long, long long, __nvvm_atom_max_gen_ll)
GS_ATOMIC(atomicMax, unsigned long long, unsigned long long, __nvvm_atom_max_gen_ull)
GS_ATOMIC(atomicAnd, int, int, __nvvm_atom_and_gen_i)
GS_ATOMIC(atomicAnd, unsigned, int, __nvvm_atom_and_gen_i)
GS_ATOMIC(atomicOr, int, int, __nvvm_atom_or_gen_i)
GS_ATOMIC(atomicOr, unsigned, int, __nvvm_atom_or_gen_i)
GS_ATOMIC(atomicOr, unsigned long long, long long, __nvvm_atom_or_gen_ll)
GS_ATOMIC(atomicXor, int, int, __nvvm_atom_xor_gen_i)
GS_ATOMIC(atomicXor, unsigned, int, __nvvm_atom_xor_gen_i)
GS_ATOMIC(atomicInc, unsigned, unsigned, __nvvm_atom_inc_gen_ui)
GS_ATOMIC(atomicDec, unsigned, unsigned, __nvvm_atom_dec_gen_ui)
#undef GS_ATOMIC

GS_VALUE(int, atomicSub, (int *at, int value), atomicAdd(at, -value))
GS_VALUE(unsigned, atomicSub, (unsigned *at, unsigned value), atomicAdd(at, 0 - value))
GS_DEVICE float atomicExch(float *at, float value) {
    return __builtin_bit_cast(float, atomicExch((int *)at, __builtin_bit_cast(int, value)));
}
GS_VALUE(int, atomicCAS, (int *at, int expected, int value), __nvvm_atom_cas_gen_i(at, expected, value))
GS_DEVICE unsigned atomicCAS(unsigned *at, unsigned expected, unsigned value) {
    return (unsigned)__nvvm_atom_cas_gen_i((int *)at, (int)expected, (int)value);
}
GS_DEVICE unsigned long long atomicCAS(unsigned long long *at, unsigned long long expected, unsigned long long value) {
    return (unsigned long long)__nvvm_atom_cas_gen_ll((long long *)at, (long long)expected, (long long)value);
}

/* ---- integers ---- */

#define GS_MIN_MAX(type)                                                                                               \
    GS_ANYWHERE type min(type a, type b) {                                                                             \
        return b < a ? b : a;                                                                                          \
    }                                                                                                                  \
    GS_ANYWHERE type max(type a, type b) {                                                                             \
        return a < b ? b : a;                                                                                          \
    }

GS_MIN_MAX(int)
GS_MIN_MAX(unsigned)
GS_MIN_MAX(long)
GS_MIN_MAX(unsigned long)
GS_MIN_MAX(long long)
GS_MIN_MAX(unsigned long long)
GS_MIN_MAX(float)
GS_MIN_MAX(double)
#undef GS_MIN_MAX

GS_VALUE(int, __popc, (unsigned value), __builtin_popcount(value))
GS_VALUE(int, __popcll, (unsigned long long value), __builtin_popcountll(value))
GS_VALUE(int, __clz, (int value), value ? __builtin_clz((unsigned)value) : 32)
GS_VALUE(int, __ffs, (int value), __builtin_ffs(value))
GS_VALUE(unsigned, __brev, (unsigned value), __builtin_bitreverse32(value))
GS_VALUE(int, __mul24, (int a, int b), (a << 8 >> 8) * (b << 8 >> 8))
GS_VALUE(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xffffff) * (b & 0xffffff))
GS_DEVICE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
GS_DEVICE int __mulhi(int a, int b) {
    return (int)((long long)a * b >> 32);
}
GS_ANYWHERE int abs(int value) {
    return value < 0 ? -value : value;
}

/* Reads through the read-only cache are ordinary reads here. */
template <typename T> GS_DEVICE T __ldg(const T *at) {
    return *at;
}

/* ---- floating point ---- */

GS_VALUE(int, __float_as_int, (float value), __builtin_bit_cast(int, value))
GS_VALUE(unsigned, __float_as_uint, (float value), __builtin_bit_cast(unsigned, value))
GS_VALUE(float, __int_as_float, (int bits), __builtin_bit_cast(float, bits))
GS_VALUE(float, __uint_as_float, (unsigned bits), __builtin_bit_cast(float, bits))
GS_VALUE(float, __fadd_rn, (float a, float b), __nvvm_add_rn_f(a, b))
GS_VALUE(float, __fsub_rn, (float a, float b), __nvvm_add_rn_f(a, -b))
GS_VALUE(float, __fmul_rn, (float a, float b), __nvvm_mul_rn_f(a, b))
GS_VALUE(float, __fmaf_rn, (float a, float b, float c), __nvvm_fma_rn_f(a, b, c))
GS_VALUE(float, __fdividef, (float a, float b), __nvvm_div_approx_f(a, b))
GS_VALUE(float, __fsqrt_rn, (float value), __nvvm_sqrt_rn_f(value))
GS_VALUE(float, fmaf, (float a, float b, float c), __nvvm_fma_rn_f(a, b, c))
GS_VALUE(double, fma, (double a, double b, double c), __nvvm_fma_rn_d(a, b, c))
GS_VALUE(float, fabsf, (float value), __builtin_fabsf(value))
GS_VALUE(double, fabs, (double value), __builtin_fabs(value))
GS_VALUE(float, fminf, (float a, float b), __nvvm_fmin_f(a, b))
GS_VALUE(float, fmaxf, (float a, float b), __nvvm_fmax_f(a, b))
GS_VALUE(float, floorf, (float value), __nvvm_floor_f(value))
GS_VALUE(float, ceilf, (float value), __nvvm_ceil_f(value))
GS_DEVICE float rintf(float value) {
    float whole;
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(whole) : "f"(value));
    return whole;
}
GS_VALUE(float, sqrtf, (float value), __nvvm_sqrt_rn_f(value))
GS_VALUE(double, sqrt, (double value), __nvvm_sqrt_rn_d(value))
GS_VALUE(float, rsqrtf, (float value), __nvvm_rsqrt_approx_f(value))
GS_VALUE(float, __sinf, (float angle), __nvvm_sin_approx_f(angle))
GS_VALUE(float, __cosf, (float angle), __nvvm_cos_approx_f(angle))
GS_VALUE(float, exp2f, (float value), __nvvm_ex2_approx_f(value))
GS_VALUE(float, __expf, (float value), __nvvm_ex2_approx_f(value * 1.44269504f))
GS_VALUE(float, __logf, (float value), __nvvm_lg2_approx_f(value) * 0.693147181f)
GS_DEVICE float __powf(float base, float power) {
    return __nvvm_ex2_approx_f(power * __nvvm_lg2_approx_f(base));
}

/* e^x = 2^n e^r with r between -ln(2)/2 and ln(2)/2; ln(2) is taken in two parts, so that r is exact. 2^n is multiplied
   in two steps, because it may be infinite where the result is not. */
GS_DEVICE float expf(float x) {
    x = x > 200.0f ? 200.0f : x < -200.0f ? -200.0f : x;
    float n = rintf(x * 1.44269504f), r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float e = 1.0f / 5040;
    e = fmaf(e, r, 1.0f / 720);
    e = fmaf(e, r, 1.0f / 120);
    e = fmaf(e, r, 1.0f / 24);
    e = fmaf(e, r, 1.0f / 6);
    e = fmaf(e, r, 0.5f);
    e = fmaf(e, r, 1.0f);
    e = fmaf(e, r, 1.0f);
    float first = floorf(n * 0.5f);
    return e * __nvvm_ex2_approx_f(first) * __nvvm_ex2_approx_f(n - first);
}

/* ln(2^n m) with m between sqrt(1/2) and sqrt(2): the series of the inverse hyperbolic tangent of (m - 1) / (m + 1). */
GS_DEVICE float logf(float x) {
    if (!(x > 0) || x == CUDART_INF_F)
        return __nvvm_lg2_approx_f(x);
    float scale = x < 1.17549435e-38f ? 8388608.0f : 1.0f;
    int bits = __float_as_int(x * scale), n = (bits - 0x3f3504f3) >> 23;
    float m = __int_as_float(bits - n * (1 << 23)), s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float sum = fmaf(fmaf(fmaf(1.0f / 9, z, 1.0f / 7), z, 1.0f / 5), z, 1.0f / 3);
    float exponent = (float)n - (scale > 1.0f ? 23.0f : 0.0f);
    return fmaf(exponent, 0.693147181f, 2.0f * fmaf(s * z, sum, s));
}
GS_VALUE(float, log2f, (float x), logf(x) * 1.44269504f)
GS_DEVICE float powf(float base, float power) {
    return expf(power * logf(base));
}

/* The series of sine and cosine between -pi/4 and pi/4, exchanged and negated by quarters of a turn. */
GS_DEVICE void gs_sine_cosine(float r, int quarters, float *sine, float *cosine) {
    float z = r * r;
    float s = fmaf(fmaf(fmaf(fmaf(1.0f / 362880, z, -1.0f / 5040), z, 1.0f / 120), z, -1.0f / 6), z * r, r);
    float c = fmaf(fmaf(fmaf(fmaf(-1.0f / 3628800, z, 1.0f / 40320), z, -1.0f / 720), z, 1.0f / 24), z, -0.5f);
    c = fmaf(c, z, 1.0f);
    float turned_s = quarters & 1 ? c : s, turned_c = quarters & 1 ? s : c;
    *sine = quarters & 2 ? -turned_s : turned_s;
    *cosine = (quarters + 1) & 2 ? -turned_c : turned_c;
}
GS_DEVICE void sincosf(float angle, float *sine, float *cosine) {
    float n = rintf(angle * 0.636619772f), r = fmaf(n, -1.57079637f, angle);
    gs_sine_cosine(fmaf(n, 4.37113883e-8f, r), (int)n, sine, cosine);
}
GS_DEVICE void sincospif(float turns, float *sine, float *cosine) {
    float n = rintf(turns * 2.0f);
    gs_sine_cosine(fmaf(n, -0.5f, turns) * 3.14159265f, (int)n, sine, cosine);
}
GS_DEVICE float sinf(float angle) {
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    return sine;
}
GS_DEVICE float cosf(float angle) {
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    return cosine;
}
/* Near 0 the first terms of the series, elsewhere by e^2x. */
GS_DEVICE float tanhf(float x) {
    float z = x * x;
    if (z < 0.04f)
        return fmaf(fmaf(fmaf(fmaf(62.0f / 2835, z, -17.0f / 315), z, 2.0f / 15), z, -1.0f / 3), z * x, x);
    float e = expf(2.0f * fminf(fabsf(x), 20.0f)), t = (e - 1.0f) / (e + 1.0f);
    return x < 0 ? -t : t;
}

/* Below 1 the power series of erf, above it the continued fraction of erfc. */
GS_DEVICE float gs_erf_series(float x) {
    float term = x, sum = x;
    for (int n = 1; n < 16; n++) {
        term *= -x * x / (float)n;
        sum += term / (float)(2 * n + 1);
    }
    return 1.12837917f * sum;
}
GS_DEVICE float gs_erfc_fraction(float x) {
    float below = x;
    for (int n = 60; n > 0; n--)
        below = x + 0.5f * (float)n / below;
    return 0.564189584f * expf(-x * x) / below;
}
GS_DEVICE float erfcf(float x) {
    if (fabsf(x) < 1.0f)
        return 1.0f - gs_erf_series(x);
    return x < 0 ? 2.0f - gs_erfc_fraction(-x) : gs_erfc_fraction(x);
}
GS_VALUE(float, erff, (float x), fabsf(x) < 1.0f ? gs_erf_series(x) : 1.0f - erfcf(x))
GS_VALUE(float, normcdff, (float x), 0.5f * erfcf(x * -0.707106781f))

/* ---- half ---- */

struct __attribute__((aligned(2))) __half {
    unsigned short bits;
    __half() = default;
    __attribute__((device, always_inline)) __half(float value) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    }
    __attribute__((device, always_inline)) operator float() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};
typedef __half half;

GS_VALUE(half, __float2half, (float value), half(value))
GS_VALUE(float, __half2float, (half value), value)

/* ---- tensor cores: 16x16x16, halves in, floats out ---- */

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t : int { mem_row_major = 0, mem_col_major = 1 };

template <typename Layout> struct gs_layout { static constexpr int value = 0; };
template <> struct gs_layout<col_major> { static constexpr int value = 1; };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment;
template <typename Layout> struct fragment<matrix_a, 16, 16, 16, half, Layout> { int x[8]; };
template <typename Layout> struct fragment<matrix_b, 16, 16, 16, half, Layout> { int x[8]; };
template <> struct fragment<accumulator, 16, 16, 16, float> {
    enum { num_elements = 8 };
    float x[8];
};
typedef fragment<accumulator, 16, 16, 16, float> gs_sums;

GS_DEVICE void fill_fragment(gs_sums &sums, float value) {
    for (int i = 0; i < 8; i++)
        sums.x[i] = value;
}
template <typename Layout>
GS_DEVICE void load_matrix_sync(fragment<matrix_a, 16, 16, 16, half, Layout> &part, const half *from, unsigned stride) {
    __hmma_m16n16k16_ld_a(part.x, (const int *)from, stride, gs_layout<Layout>::value);
}
template <typename Layout>
GS_DEVICE void load_matrix_sync(fragment<matrix_b, 16, 16, 16, half, Layout> &part, const half *from, unsigned stride) {
    __hmma_m16n16k16_ld_b(part.x, (const int *)from, stride, gs_layout<Layout>::value);
}
GS_DEVICE void store_matrix_sync(float *to, const gs_sums &sums, unsigned stride, layout_t layout) {
    float *from = (float *)sums.x;
    if (layout == mem_row_major)
        __hmma_m16n16k16_st_c_f32(to, from, stride, 0);
    else
        __hmma_m16n16k16_st_c_f32(to, from, stride, 1);
}
/* The layouts of a and b, as numbered by the instruction. */
template <typename A, typename B>
GS_DEVICE void mma_sync(gs_sums &to, const fragment<matrix_a, 16, 16, 16, half, A> &a,
                        const fragment<matrix_b, 16, 16, 16, half, B> &b, const gs_sums &c) {
    __hmma_m16n16k16_mma_f32f32(to.x, a.x, b.x, c.x, gs_layout<A>::value * 2 + gs_layout<B>::value, 0);
}
} // namespace wmma
} // namespace nvcuda

extern "C" __attribute__((device)) int printf(const char *format, ...);

#endif
