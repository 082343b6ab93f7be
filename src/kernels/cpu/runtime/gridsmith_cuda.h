/*
 * gridsmith_cuda.h: CUDA C++ for the system's C++ compiler. Kernels that run on the CPU are compiled with this header
 * before them.
 *
 *   keywords    __global__, __shared__ and so on (most expand to nothing; shared memory is translated before)
 *   types       dim3, vectors, half
 *   variables   threadIdx, blockIdx, blockDim, gridDim, warpSize
 *   waiting     barriers, shuffles, votes
 *   memory      atomics, fences, loads
 *   arithmetic  intrinsics and the functions of CUDA's math library that C++ lacks
 *   wmma        matrix fragments
 *
 * A kernel that uses anything else does not compile for the CPU, although it may be correct.
 */
#ifndef GRIDSMITH_CUDA_H
#define GRIDSMITH_CUDA_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <type_traits>
#include <utility>

#define GRIDSMITH_HOST 1

struct uint3 {
    unsigned x, y, z;
};

#include "gridsmith_half.h"
#include "gridsmith_run.h"

/* ---- keywords ---- */

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __align__(n)    __attribute__((aligned(n)))
#define __shared__      static thread_local
#define __CUDACC__      1
#define CUDART_INF_F    __builtin_inff()
#define CUDART_NAN_F    __builtin_nanf("")
#define CUDART_PI_F     3.141592654f
#define CUDART_PI       3.1415926535897931

/* A function that returns an expression of its parameters. */
#define GS_VALUE(type, name, parameters, ...)                                                                          \
    static inline type name parameters {                                                                               \
        return __VA_ARGS__;                                                                                            \
    }

/* ---- types ---- */

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define GS_VECTOR(name, type)                                                                                          \
    struct name##1 {                                                                                                   \
        type x;                                                                                                        \
    };                                                                                                                 \
    struct alignas(2 * sizeof(type)) name##2 {                                                                         \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    GS_VECTOR3(name, type)                                                                                             \
    struct alignas(sizeof(type) < 4 ? 4 * sizeof(type) : 16) name##4 {                                                 \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    GS_VALUE(name##1, make_##name##1, (type x), {x})                                                                   \
    GS_VALUE(name##2, make_##name##2, (type x, type y), {x, y})                                                        \
    GS_VALUE(name##3, make_##name##3, (type x, type y, type z), {x, y, z})                                             \
    GS_VALUE(name##4, make_##name##4, (type x, type y, type z, type w), {x, y, z, w})
#define GS_VECTOR3(name, type)                                                                                         \
    struct name##3 {                                                                                                   \
        type x, y, z;                                                                                                  \
    };
GS_VECTOR(char, signed char)
GS_VECTOR(uchar, unsigned char)
GS_VECTOR(short, short)
GS_VECTOR(ushort, unsigned short)
GS_VECTOR(int, int)
GS_VECTOR(long, long)
GS_VECTOR(ulong, unsigned long)
GS_VECTOR(longlong, long long)
GS_VECTOR(ulonglong, unsigned long long)
GS_VECTOR(float, float)
GS_VECTOR(double, double)
#undef GS_VECTOR3
#define GS_VECTOR3(name, type) /* uint3 is declared above */
GS_VECTOR(uint, unsigned)
#undef GS_VECTOR3
#undef GS_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const {
        return {x, y, z};
    }
};

/* ---- variables ---- */

extern "C" __thread uint3 threadIdx, blockIdx;
extern "C" __thread dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

/* ---- shared memory: used by the translation of the .cu ---- */

/* A shared variable of type T. The translation generates a type for each declaration. */
template <class T> static inline T &gs_shared() {
    static const int slot = gs_host_new_slot();
    return *static_cast<T *>(gs_host_static(slot, sizeof(T), alignof(T)));
}

/* `extern __shared__ T name[]` outside of functions. */
template <class T> struct gs_dynamic_array {
    T &operator[](size_t i) const {
        return static_cast<T *>(gs_host_dynamic())[i];
    }
    operator T *() const {
        return static_cast<T *>(gs_host_dynamic());
    }
    template <class U> explicit operator U *() const {
        return static_cast<U *>(gs_host_dynamic());
    }
};

/* ---- waiting ---- */

#define GS_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(GS_HERE) {
    gs_host_barrier(GS_WAIT_BARRIER, 0, {file, line});
}
GS_VALUE(int, __syncthreads_and, (int vote, GS_HERE), gs_host_barrier(GS_WAIT_BARRIER_AND, vote, {file, line}))
GS_VALUE(int, __syncthreads_or, (int vote, GS_HERE), gs_host_barrier(GS_WAIT_BARRIER_OR, vote, {file, line}))
GS_VALUE(int, __syncthreads_count, (int vote, GS_HERE), gs_host_barrier(GS_WAIT_BARRIER_COUNT, vote, {file, line}))

static inline void gs_nothing(void **) {}
static inline void __syncwarp(unsigned mask = 0xffffffffu, GS_HERE) {
    int mine = 0;
    gs_host_warp(GS_WAIT_SYNCWARP, mask, &mine, gs_nothing, {file, line});
}
GS_VALUE(unsigned, __activemask, (), gs_host_active())

/* A lane of a shuffle: `from` is the lane it reads, possibly itself. */
template <class T> struct gs_shuffle {
    T value, result;
    int from;
    static void finish(void **lanes) {
        for (int i = 0; i < 32; i++)
            if (auto *lane = static_cast<gs_shuffle *>(lanes[i]))
                lane->result = lanes[lane->from] ? static_cast<gs_shuffle *>(lanes[lane->from])->value : lane->value;
    }
};
template <class T> static inline T gs_shuffle_from(unsigned mask, T value, int from, const char *file, int line) {
    gs_shuffle<T> mine = {value, value, from};
    gs_host_warp(GS_WAIT_SHUFFLE, mask, &mine, gs_shuffle<T>::finish, {file, line});
    return mine.result;
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, GS_HERE) {
    int lane = (int)gs_host_lane();
    return gs_shuffle_from(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), file, line);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, GS_HERE) {
    int lane = (int)gs_host_lane(), first = lane & ~(width - 1), from = lane - (int)delta;
    return gs_shuffle_from(mask, value, from < first ? lane : from, file, line);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, GS_HERE) {
    int lane = (int)gs_host_lane(), last = lane | (width - 1), from = lane + (int)delta;
    return gs_shuffle_from(mask, value, from > last ? lane : from, file, line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32, GS_HERE) {
    int lane = (int)gs_host_lane(), from = lane ^ other;
    return gs_shuffle_from(mask, value, from > (lane | (width - 1)) ? lane : from, file, line);
}

/* A lane of a vote. Each lane gets the mask of the lanes that voted yes, and of all that voted. */
struct gs_vote {
    bool yes;
    unsigned ayes, voters;
    static void finish(void **lanes) {
        unsigned ayes = 0, voters = 0;
        for (int i = 0; i < 32; i++)
            if (lanes[i]) {
                voters |= 1u << i;
                ayes |= static_cast<gs_vote *>(lanes[i])->yes ? 1u << i : 0;
            }
        for (int i = 0; i < 32; i++)
            if (lanes[i]) {
                static_cast<gs_vote *>(lanes[i])->ayes = ayes;
                static_cast<gs_vote *>(lanes[i])->voters = voters;
            }
    }
};
static inline gs_vote gs_vote_in(unsigned mask, bool yes, const char *file, int line) {
    gs_vote mine = {yes, 0, 0};
    gs_host_warp(GS_WAIT_VOTE, mask, &mine, gs_vote::finish, {file, line});
    return mine;
}
GS_VALUE(unsigned, __ballot_sync, (unsigned mask, int yes, GS_HERE), gs_vote_in(mask, yes != 0, file, line).ayes)
GS_VALUE(int, __any_sync, (unsigned mask, int yes, GS_HERE), gs_vote_in(mask, yes != 0, file, line).ayes != 0)
static inline int __all_sync(unsigned mask, int yes, GS_HERE) {
    gs_vote vote = gs_vote_in(mask, yes != 0, file, line);
    return vote.ayes == vote.voters;
}

template <class T> struct gs_match {
    T value;
    unsigned same, voters;
    static void finish(void **lanes) {
        for (int i = 0; i < 32; i++)
            for (int j = 0; j < 32 && lanes[i]; j++)
                if (lanes[j]) {
                    auto *mine = static_cast<gs_match *>(lanes[i]), *other = static_cast<gs_match *>(lanes[j]);
                    mine->voters |= 1u << j;
                    mine->same |= memcmp(&mine->value, &other->value, sizeof(T)) == 0 ? 1u << j : 0;
                }
    }
};
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value, GS_HERE) {
    gs_match<T> mine = {value, 0, 0};
    gs_host_warp(GS_WAIT_MATCH, mask, &mine, gs_match<T>::finish, {file, line});
    return mine.same;
}
template <class T> static inline unsigned __match_all_sync(unsigned mask, T value, int *all, GS_HERE) {
    gs_match<T> mine = {value, 0, 0};
    gs_host_warp(GS_WAIT_MATCH, mask, &mine, gs_match<T>::finish, {file, line});
    *all = mine.same == mine.voters;
    return *all ? mine.voters : 0;
}

#define GS_WARP_REDUCTION(name, types, combine)                                                                        \
    template <class T> struct gs_reduce_##name {                                                                       \
        T value;                                                                                                       \
        static void finish(void **lanes) {                                                                             \
            bool has = false;                                                                                          \
            T a = T();                                                                                                 \
            for (int i = 0; i < 32; i++)                                                                               \
                if (lanes[i]) {                                                                                        \
                    T b = static_cast<gs_reduce_##name *>(lanes[i])->value;                                            \
                    a = has ? (combine) : b;                                                                           \
                    has = true;                                                                                        \
                }                                                                                                      \
            for (int i = 0; i < 32; i++)                                                                               \
                if (lanes[i])                                                                                          \
                    static_cast<gs_reduce_##name *>(lanes[i])->value = a;                                              \
        }                                                                                                              \
    };                                                                                                                 \
    template <class T> static inline T __reduce_##name##_sync(unsigned mask, T value, GS_HERE) {                       \
        gs_reduce_##name<T> mine = {value};                                                                            \
        gs_host_warp(GS_WAIT_REDUCE, mask, &mine, gs_reduce_##name<T>::finish, {file, line});                          \
        return mine.value;                                                                                             \
    }
GS_WARP_REDUCTION(add, , a + b)
GS_WARP_REDUCTION(min, , b < a ? b : a)
GS_WARP_REDUCTION(max, , a < b ? b : a)
GS_WARP_REDUCTION(and, , a &b)
GS_WARP_REDUCTION(or, , a | b)
GS_WARP_REDUCTION(xor, , a ^ b)
#undef GS_WARP_REDUCTION

/* ---- memory ---- */

static inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __nanosleep(unsigned) {}
GS_VALUE(long long, clock64, (), 0)
GS_VALUE(int, gs_clock, (), 0)
#define clock        gs_clock /* <ctime> declares another clock */
#define __trap()     abort()
#define __brkpt()    ((void)0)
#define __ldg(p)     (*(p))
#define __ldcg(p)    (*(p))
#define __ldca(p)    (*(p))
#define __ldcs(p)    (*(p))
#define __stcs(p, v) ((void)(*(p) = (v)))
#define __stcg(p, v) ((void)(*(p) = (v)))

/* The type of the memory determines the type of the operation; values are converted, as by the overloads of CUDA. */
template <class T> struct gs_same { typedef T type; };
template <size_t N> struct gs_word;
template <> struct gs_word<2> { typedef uint16_t type; };
template <> struct gs_word<4> { typedef uint32_t type; };
template <> struct gs_word<8> { typedef uint64_t type; };

/* Replaces *at by change(*at) atomically and returns the old value. */
template <class T, class F> static inline T gs_atomic(T *at, F change) {
    typedef typename gs_word<sizeof(T)>::type word;
    word *where = reinterpret_cast<word *>(at), seen = __atomic_load_n(where, __ATOMIC_RELAXED), wanted;
    T old;
    do {
        memcpy(&old, &seen, sizeof old);
        T fresh = change(old);
        memcpy(&wanted, &fresh, sizeof wanted);
    } while (!__atomic_compare_exchange_n(where, &seen, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

#define GS_ATOMIC(name, expression)                                                                                    \
    template <class T> static inline T name(T *at, typename gs_same<T>::type value) {                                  \
        return gs_atomic(at, [&](T old) -> T { return expression; });                                                  \
    }                                                                                                                  \
    template <class T> static inline T name##_block(T *at, typename gs_same<T>::type value) {                          \
        return name(at, value);                                                                                        \
    }                                                                                                                  \
    template <class T> static inline T name##_system(T *at, typename gs_same<T>::type value) {                         \
        return name(at, value);                                                                                        \
    }
GS_ATOMIC(atomicAdd, old + value)
GS_ATOMIC(atomicSub, old - value)
GS_ATOMIC(atomicExch, ((void)old, value))
GS_ATOMIC(atomicMin, value < old ? value : old)
GS_ATOMIC(atomicMax, old < value ? value : old)
GS_ATOMIC(atomicAnd, old &value)
GS_ATOMIC(atomicOr, old | value)
GS_ATOMIC(atomicXor, old ^ value)
GS_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
GS_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef GS_ATOMIC
template <class T>
static inline T atomicCAS(T *at, typename gs_same<T>::type compare, typename gs_same<T>::type value) {
    return gs_atomic(at, [&](T old) -> T { return memcmp(&old, &compare, sizeof old) == 0 ? value : old; });
}

/* ---- arithmetic ---- */

#define GS_MIN_MAX(A, B)                                                                                               \
    static inline std::common_type<A, B>::type min(A a, B b) {                                                         \
        typedef std::common_type<A, B>::type common;                                                                   \
        return (common)b < (common)a ? (common)b : (common)a;                                                          \
    }                                                                                                                  \
    static inline std::common_type<A, B>::type max(A a, B b) {                                                         \
        typedef std::common_type<A, B>::type common;                                                                   \
        return (common)a < (common)b ? (common)b : (common)a;                                                          \
    }
#define GS_MIN_MAX_BOTH(A, B) GS_MIN_MAX(A, B) GS_MIN_MAX(B, A)
GS_MIN_MAX(int, int)
GS_MIN_MAX(unsigned, unsigned)
GS_MIN_MAX(long, long)
GS_MIN_MAX(unsigned long, unsigned long)
GS_MIN_MAX(long long, long long)
GS_MIN_MAX(unsigned long long, unsigned long long)
GS_MIN_MAX(float, float)
GS_MIN_MAX(double, double)
GS_MIN_MAX_BOTH(int, unsigned)
GS_MIN_MAX_BOTH(long, unsigned long)
GS_MIN_MAX_BOTH(long long, unsigned long long)
GS_MIN_MAX_BOTH(float, double)
#undef GS_MIN_MAX
#undef GS_MIN_MAX_BOTH

/* Math functions of CUDA that C++ lacks. A C library may declare some of them: C23 added rsqrt, sinpi and cospi. So
   they have names of ours here, and macros replace CUDA's names in the kernel, after the headers of the C library. */
static const double gs_pi = 3.14159265358979323846;
GS_VALUE(double, gs_rsqrt, (double x), 1.0 / sqrt(x))
GS_VALUE(float, gs_rsqrt, (float x), 1.0f / sqrtf(x))
GS_VALUE(double, gs_rcbrt, (double x), 1.0 / cbrt(x))
GS_VALUE(float, gs_rcbrt, (float x), 1.0f / cbrtf(x))
static inline double gs_sinpi(double x) {
    return sin(gs_pi * fmod(x, 2.0));
}
GS_VALUE(float, gs_sinpi, (float x), (float)gs_sinpi((double)x))
static inline double gs_cospi(double x) {
    return cos(gs_pi * fmod(x, 2.0));
}
GS_VALUE(float, gs_cospi, (float x), (float)gs_cospi((double)x))
template <class T> static inline void gs_sincospi(T x, T *sine, T *cosine) {
    *sine = gs_sinpi(x), *cosine = gs_cospi(x);
}
GS_VALUE(double, gs_normcdf, (double x), 0.5 * erfc(-x * 0.70710678118654752440))
GS_VALUE(float, gs_normcdf, (float x), 0.5f * erfcf(-x * 0.70710678f))
#define GS_SINGLE(name) GS_VALUE(float, gs_##name##f, (float x), gs_##name(x))
GS_SINGLE(rsqrt)
GS_SINGLE(rcbrt)
GS_SINGLE(sinpi)
GS_SINGLE(cospi)
GS_SINGLE(normcdf)
#undef GS_SINGLE
static inline void gs_sincospif(float x, float *sine, float *cosine) {
    gs_sincospi(x, sine, cosine);
}
#define rsqrt     gs_rsqrt
#define rsqrtf    gs_rsqrtf
#define rcbrt     gs_rcbrt
#define rcbrtf    gs_rcbrtf
#define sinpi     gs_sinpi
#define sinpif    gs_sinpif
#define cospi     gs_cospi
#define cospif    gs_cospif
#define sincospi  gs_sincospi
#define sincospif gs_sincospif
#define normcdf   gs_normcdf
#define normcdff  gs_normcdff
/* The C library declares functions with these names for internal use. */
#define __expf    expf
#define __exp10f  exp10f
#define __logf    logf
#define __log2f   log2f
#define __log10f  log10f
#define __powf    powf
#define __sinf    sinf
#define __cosf    cosf
#define __tanf    tanf
#define __sincosf sincosf
GS_VALUE(float, __saturatef, (float x), !(x > 0) ? 0.0f : x > 1 ? 1.0f : x)
GS_VALUE(float, __fdividef, (float a, float b), a / b)
GS_VALUE(float, __frcp_rn, (float x), 1.0f / x)
#define GS_ROUNDED(type, letter, one)                                                                                  \
    GS_VALUE(type, __##letter##add_rn, (type a, type b), a + b)                                                        \
    GS_VALUE(type, __##letter##sub_rn, (type a, type b), a - b)                                                        \
    GS_VALUE(type, __##letter##mul_rn, (type a, type b), (a * b))                                                      \
    GS_VALUE(type, __##letter##div_rn, (type a, type b), a / b)                                                        \
    GS_VALUE(type, __##letter##sqrt_rn, (type a), one(a))
GS_ROUNDED(float, f, sqrtf)
GS_ROUNDED(double, d, sqrt)
#undef GS_ROUNDED
GS_VALUE(float, __fmaf_rn, (float a, float b, float c), fmaf(a, b, c))
GS_VALUE(double, __fma_rn, (double a, double b, double c), fma(a, b, c))

template <class To, class From> static inline To gs_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
GS_VALUE(int, __float_as_int, (float x), gs_bits<int>(x))
GS_VALUE(unsigned, __float_as_uint, (float x), gs_bits<unsigned>(x))
GS_VALUE(float, __int_as_float, (int x), gs_bits<float>(x))
GS_VALUE(float, __uint_as_float, (unsigned x), gs_bits<float>(x))
GS_VALUE(long long, __double_as_longlong, (double x), gs_bits<long long>(x))
GS_VALUE(double, __longlong_as_double, (long long x), gs_bits<double>(x))
GS_VALUE(int, __float2int_rn, (float x), (int)rintf(x))
GS_VALUE(int, __float2int_rz, (float x), (int)x)
GS_VALUE(int, __float2int_rd, (float x), (int)floorf(x))
GS_VALUE(int, __float2int_ru, (float x), (int)ceilf(x))
GS_VALUE(unsigned, __float2uint_rn, (float x), (unsigned)rintf(x))
GS_VALUE(unsigned, __float2uint_rz, (float x), (unsigned)x)
GS_VALUE(float, __int2float_rn, (int x), (float)x)
GS_VALUE(float, __uint2float_rn, (unsigned x), (float)x)
GS_VALUE(int, __double2int_rn, (double x), (int)rint(x))
GS_VALUE(float, __double2float_rn, (double x), (float)x)
GS_VALUE(int, __popc, (unsigned x), __builtin_popcount(x))
GS_VALUE(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
GS_VALUE(int, __clz, (int x), x ? __builtin_clz((unsigned)x) : 32)
GS_VALUE(int, __clzll, (long long x), x ? __builtin_clzll((unsigned long long)x) : 64)
GS_VALUE(int, __ffs, (int x), __builtin_ffs(x))
GS_VALUE(int, __ffsll, (long long x), __builtin_ffsll(x))
static inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
static inline int __mul24(int a, int b) {
    return (int)((int64_t)((int)((unsigned)a << 8) >> 8) * ((int)((unsigned)b << 8) >> 8));
}
GS_VALUE(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xffffff) * (b & 0xffffff))
static inline int __mulhi(int a, int b) {
    return (int)((int64_t)a * b >> 32);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned nibble = selector >> 4 * i & 15, byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
        result |= (nibble & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}
GS_VALUE(unsigned, __sad, (int a, int b, unsigned c), c + (unsigned)(a < b ? b - a : a - b))

/* ---- half: IEEE binary16, rounded to the nearest even; arithmetic is done in float and rounded once ---- */

struct alignas(2) __half {
    uint16_t bits;
    __half() = default;
    __half(float value) : bits(gs_half_of(value)) {}
    __half(double value) : bits(gs_half_of((float)value)) {}
    __half(int value) : bits(gs_half_of((float)value)) {}
    __half(unsigned value) : bits(gs_half_of((float)value)) {}
    operator float() const {
        return gs_half_to(bits);
    }
};
typedef __half half;
struct alignas(4) __half2 {
    __half x, y;
};
typedef __half2 half2;

#define GS_HALF(name, op)                                                                                              \
    static inline __half operator op(__half a, __half b) {                                                             \
        return __half(float(a) op float(b));                                                                           \
    }                                                                                                                  \
    static inline __half &operator op##=(__half &a, __half b) {                                                        \
        return a = a op b;                                                                                             \
    }                                                                                                                  \
    GS_VALUE(__half, name, (__half a, __half b), a op b)
GS_HALF(__hadd, +)
GS_HALF(__hsub, -)
GS_HALF(__hmul, *)
GS_HALF(__hdiv, /)
#undef GS_HALF
GS_VALUE(__half, operator-, (__half a), __half(-(float)a))
GS_VALUE(__half, __float2half, (float x), __half(x))
GS_VALUE(__half, __float2half_rn, (float x), __half(x))
GS_VALUE(float, __half2float, (__half x), (float)x)
GS_VALUE(__half, __int2half_rn, (int x), __half((float)x))
GS_VALUE(unsigned short, __half_as_ushort, (__half x), x.bits)
static inline __half __ushort_as_half(unsigned short bits) {
    __half x;
    x.bits = bits;
    return x;
}
/* The product of two halves is exact in double, and the sum is rounded once to float, then to half. */
static inline __half __hfma(__half a, __half b, __half c) {
    return __half((float)((double)(float)a * (double)(float)b + (double)(float)c));
}
GS_VALUE(__half, __hneg, (__half a), -a)
GS_VALUE(bool, __hlt, (__half a, __half b), (float)a < (float)b)
GS_VALUE(bool, __hgt, (__half a, __half b), (float)a > (float)b)
GS_VALUE(bool, __heq, (__half a, __half b), (float)a == (float)b)
GS_VALUE(__half, __hmax, (__half a, __half b), (float)a < (float)b ? b : a)
GS_VALUE(__half, __hmin, (__half a, __half b), (float)b < (float)a ? b : a)
GS_VALUE(__half2, __halves2half2, (__half x, __half y), {x, y})
GS_VALUE(__half2, make_half2, (__half x, __half y), {x, y})
GS_VALUE(__half2, __float2half2_rn, (float x), {__half(x), __half(x)})
GS_VALUE(__half2, __floats2half2_rn, (float x, float y), {__half(x), __half(y)})
GS_VALUE(float2, __half22float2, (__half2 a), {(float)a.x, (float)a.y})
GS_VALUE(__half, __low2half, (__half2 a), a.x)
GS_VALUE(__half, __high2half, (__half2 a), a.y)
GS_VALUE(float, __low2float, (__half2 a), (float)a.x)
GS_VALUE(float, __high2float, (__half2 a), (float)a.y)
GS_VALUE(__half2, __hadd2, (__half2 a, __half2 b), {a.x + b.x, a.y + b.y})
static inline __half2 __hmul2(__half2 a, __half2 b) {
    return {a.x * b.x, a.y * b.y};
}
GS_VALUE(__half2, __hfma2, (__half2 a, __half2 b, __half2 c), {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)})

/* ---- wmma: a fragment is spread over the lanes of a warp, in an order that CUDA does not specify ---- */

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K> struct gs_shape;
template <int M, int N, int K> struct gs_shape<matrix_a, M, N, K> {
    enum { rows = M, columns = K };
};
template <int M, int N, int K> struct gs_shape<matrix_b, M, N, K> {
    enum { rows = K, columns = N };
};
template <int M, int N, int K> struct gs_shape<accumulator, M, N, K> {
    enum { rows = M, columns = N };
};

/* Lane l holds the elements from l * num_elements on, counted row by row. */
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    enum {
        rows = gs_shape<Use, M, N, K>::rows,
        columns = gs_shape<Use, M, N, K>::columns,
        num_elements = rows * columns / 32
    };
    typedef T element_type;
    T x[num_elements];
};

template <class F, class V> static inline void fill_fragment(F &to, V value) {
    for (int i = 0; i < F::num_elements; i++)
        to.x[i] = (typename F::element_type)value;
}

template <class F> static inline size_t gs_offset(int i, unsigned stride, bool by_rows) {
    int number = (int)gs_host_lane() * F::num_elements + i, row = number / F::columns, column = number % F::columns;
    return by_rows ? (size_t)row * stride + (size_t)column : (size_t)column * stride + (size_t)row;
}

template <class Use, int M, int N, int K, class T, class Layout>
static inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const T *from, unsigned stride, GS_HERE) {
    typedef fragment<Use, M, N, K, T, Layout> F;
    __syncwarp(0xffffffffu, file, line);
    for (int i = 0; i < F::num_elements; i++)
        to.x[i] = from[gs_offset<F>(i, stride, std::is_same<Layout, row_major>::value)];
}

template <int M, int N, int K, class T>
static inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from, unsigned stride,
                                    layout_t layout, GS_HERE) {
    typedef fragment<accumulator, M, N, K, T> F;
    __syncwarp(0xffffffffu, file, line);
    for (int i = 0; i < F::num_elements; i++)
        to.x[i] = from[gs_offset<F>(i, stride, layout == mem_row_major)];
}

template <int M, int N, int K, class T>
static inline void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride,
                                     layout_t layout, GS_HERE) {
    typedef fragment<accumulator, M, N, K, T> F;
    for (int i = 0; i < F::num_elements; i++)
        to[gs_offset<F>(i, stride, layout == mem_row_major)] = from.x[i];
    __syncwarp(0xffffffffu, file, line);
}

/* One lane of a matrix product. The last lane to arrive computes the product for all. */
template <class D, class A, class B, class C> struct gs_product {
    D *d;
    const A *a;
    const B *b;
    const C *c;
    template <class F> static void gather(void **lanes, const F *gs_product::*member, float *to) {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < F::num_elements; i++)
                to[lane * F::num_elements + i] =
                    lanes[lane] ? (float)(static_cast<gs_product *>(lanes[lane])->*member)->x[i] : 0.0f;
    }
    static void finish(void **lanes) {
        static thread_local float a[A::rows * A::columns], b[B::rows * B::columns], c[C::rows * C::columns];
        gather<A>(lanes, &gs_product::a, a);
        gather<B>(lanes, &gs_product::b, b);
        gather<C>(lanes, &gs_product::c, c);
        for (int i = 0; i < A::rows; i++)
            for (int k = 0; k < A::columns; k++)
                for (int j = 0; j < B::columns; j++)
                    c[i * B::columns + j] += a[i * A::columns + k] * b[k * B::columns + j];
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < D::num_elements && lanes[lane]; i++)
                static_cast<gs_product *>(lanes[lane])->d->x[i] =
                    (typename D::element_type)c[lane * D::num_elements + i];
    }
};

template <class D, class A, class B, class C>
static inline void mma_sync(D &d, const A &a, const B &b, const C &c, GS_HERE) {
    gs_product<D, A, B, C> mine = {&d, &a, &b, &c};
    gs_host_warp(GS_WAIT_WMMA, 0xffffffffu, &mine, gs_product<D, A, B, C>::finish, {file, line});
}

} // namespace wmma
} // namespace nvcuda

/* ---- calling a kernel with arguments that are known at run time only ---- */

template <class... P> struct gs_signature {
    typedef void (*kernel)(P...);
    static const unsigned *sizes() {
        static const unsigned list[] = {(unsigned)sizeof(P)..., 0};
        return list;
    }
    static const unsigned char *is_pointer() {
        static const unsigned char list[] = {(unsigned char)std::is_pointer<P>::value..., 0};
        return list;
    }
    template <size_t... I> static void call(kernel function, void **arguments, std::index_sequence<I...>) {
        (void)arguments;
        function(*static_cast<typename std::remove_reference<P>::type *>(arguments[I])...);
    }
};
template <class... P> static constexpr gs_signature<P...> gs_signature_of(void (*)(P...)) {
    return {};
}
template <class... P> static void gs_call_kernel(void (*kernel)(P...), void **arguments) {
    gs_signature<P...>::call(kernel, arguments, std::index_sequence_for<P...>());
}
template <class... P> static constexpr unsigned gs_parameters(gs_signature<P...>) {
    return sizeof...(P);
}

#define GS_KERNEL(text, ...)                                                                                           \
    {                                                                                                                  \
        text, [](void **arguments) { gs_call_kernel(&__VA_ARGS__, arguments); },                                       \
            gs_parameters(decltype(gs_signature_of(&__VA_ARGS__))()),                                                  \
            decltype(gs_signature_of(&__VA_ARGS__))::sizes(), decltype(gs_signature_of(&__VA_ARGS__))::is_pointer()    \
    }

#endif
