/*
 * timed_classes.c: timed kernels that measure the classes of instructions of a compiled kernel.
 *
 * A row of the table is an instruction, or a few of them, of a class. Its kernels execute it again and again, each time
 * with the result of the time before:
 *
 *   chain    unrolled; the warp reports when it starts and ends
 *   single   the clock is read before and after each; the warp reports the longest, as if it had started at 0. With a
 *            rate it reports the most that any number of them in a row takes beyond that many cycles for each
 *   cold     a chain whose first round is reported, when none of its instructions is in a cache
 *   loop     a loop, with one step in a round, or some
 *
 * Where an instruction has no result, one that waits for it follows. Loads and stores have the worst pattern of
 * addresses: each lane of a warp at another place of a large memory, or in the same bank of shared memory.
 */
#include "timed.h"

#include <stdlib.h>

/* A random place of the large memory: of each lane; of 28 and of 4 lanes, which are beside each other there, and
   begin near the end of a sector of 32 bytes; and of all lanes, with 16 bytes each, which begin in the middle of one.
 */
#define RANDOM_ADDRESS                                                                                                 \
    "c.x = c.x * 1664525u + 1013904223u; unsigned v; unsigned long long at = a.data + "                                \
    "((unsigned long long)((c.x >> 4) & a.data_mask) << 5); "
#define NEAR_ADDRESS                                                                                                   \
    "c.x = c.x * 1664525u + 1013904223u; unsigned v; unsigned long long at = a.data + "                                \
    "((unsigned long long)(((c.x >> 4) + c.part * 70001u) & a.data_mask) << 5) + c.near; "
#define WIDE_ADDRESS                                                                                                   \
    "c.x = c.x * 1664525u + 1013904223u; unsigned v, w, s, t; unsigned long long at = a.data + "                       \
    "((unsigned long long)((c.x >> 4) & a.data_mask) << 5) + 16 + threadIdx.x % 32 * 16; "
#define OPERATION(text) "asm volatile(\"" text "\" : \"+r\"(c.x) : \"r\"(a.zero) : \"memory\");"
#define FMA_3           "fma.rn.f32 %0, %0, %0, %0; fma.rn.f32 %0, %0, %0, %0; fma.rn.f32 %0, %0, %0, %0; "
#define FMA_9           FMA_3 FMA_3 FMA_3
#define FRAGMENT        "\"+f\"(c.m[0]), \"+f\"(c.m[1]), \"+f\"(c.m[2]), \"+f\"(c.m[3])"

/* What c.x is at first: addresses in shared memory, in one bank and in all of them; in constant memory, the same for
   all lanes and one for each; and a random number for each warp. */
#define ONE_BANK  "base + lane * 128"
#define ALL_BANKS "base + lane * 4"
#define SAME      "(unsigned)(when >> 60)"
#define EACH      "lane * 64 + (unsigned)(when >> 60)"
#define OF_WARP   "(threadIdx.x / 32) * 7919u + blockIdx.x * 104729u + (unsigned)when"

enum { NEAR_TRANSACTIONS = 7, WIDE_TRANSACTIONS = 20 /* 5 of each quarter of a warp */ };

#define PARTITION GS_UNIT_OF_PARTITION, 1
#define SM        GS_UNIT_OF_SM
#define GPU       GS_UNIT_OF_GPU
const gs_timed_row gs_timed_rows[] = {
    {"alu", "alu", PARTITION, 70, .code = OPERATION("{ .reg .u32 t; shl.b32 t, %0, 3; add.u32 %0, t, %1; }")},
    {"alu", "alu", PARTITION, 70, .code = OPERATION("shf.l.wrap.b32 %0, %0, %0, %1;")},
    {"alu", "alu", PARTITION, 70, .code = OPERATION("{ .reg .pred p; setp.gt.u32 p, %0, %1; selp.u32 %0, 5, %0, p; }"),
     .instructions = 2},
    {"fma", "fma", PARTITION, 70, .code = OPERATION("mad.lo.u32 %0, %0, %0, %1;")},
    {"fma_float", "fma", PARTITION, 70, .code = "asm volatile(\"fma.rn.f32 %0, %0, %0, %0;\" : \"+f\"(c.f));"},
    {"half", "half", PARTITION, 70, .code = OPERATION("fma.rn.f16x2 %0, %0, %0, %1;")},
    {"fp64", "fp64", PARTITION, 70, .code = "asm volatile(\"fma.rn.f64 %0, %0, %0, %0;\" : \"+d\"(c.d));"},
    {"special", "special", PARTITION, 70, .code = "asm volatile(\"ex2.approx.ftz.f32 %0, %0;\" : \"+f\"(c.f));"},
    {"special", "special", PARTITION, 70, .code = "asm volatile(\"lg2.approx.ftz.f32 %0, %0;\" : \"+f\"(c.f));"},
    {"convert", "special", PARTITION, 70, .code = OPERATION("popc.b32 %0, %0;")},
    {"convert", "special", PARTITION, 70, .code = OPERATION("{ .reg .f32 t; mov.b32 t, %0; cvt.rzi.u32.f32 %0, t; }")},
    {"convert", "special", PARTITION, 70,
     .code = "asm volatile(\"{ .reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t; }\" : \"+f\"(c.f));",
     .instructions = 2},
    {"uniform", "uniform", PARTITION, 70, .code = "c.u = c.u * a.one + a.zero;"},
    {"move_uniform", "uniform", PARTITION, 80, .code = OPERATION("redux.sync.add.u32 %0, %0, 0xffffffff;")},
    {"special_register", "special", PARTITION, 70,
     .code = OPERATION("{ .reg .u32 t; mov.u32 t, %%smid; add.u32 %0, %0, t; }"), .is_single = true},
    {"constant", "constant", SM, 1, 70, .code = OPERATION("ld.const.u32 %0, [%0];"), .start = SAME},
    {"constant_scattered", "constant", SM, 32, 70, .code = OPERATION("ld.const.u32 %0, [%0];"), .start = EACH},
    {"shared_load", "shared", SM, 32, 70, .code = OPERATION("ld.volatile.shared.u32 %0, [%0];"), .start = ONE_BANK},
    {"shared_load_near", "shared", SM, 1, 70, .code = OPERATION("ld.volatile.shared.u32 %0, [%0];"),
     .start = ALL_BANKS},
    {"shared_store", "shared", SM, 32, 70,
     .code = OPERATION("st.volatile.shared.u32 [%0], %0; ld.volatile.shared.u32 %0, [%0];"), .start = ONE_BANK},
    {"shared_store_near", "shared", SM, 1, 70,
     .code = OPERATION("st.volatile.shared.u32 [%0], %0; ld.volatile.shared.u32 %0, [%0];"), .start = ALL_BANKS},
    {"shared_atomic", "shared", SM, 32, 70, .code = OPERATION("atom.shared.add.u32 %0, [%0], %1;"), .start = ONE_BANK},
    {"matrix_load", "shared", SM, 32, 75,
     .code = OPERATION("{ .reg .b32 t<4>; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {t0, t1, t2, t3}, [%0]; "
                       "and.b32 t0, t0, %1; or.b32 %0, %0, t0; }"),
     .start = ONE_BANK},
    {"shuffle", "shared", SM, 1, 70, .code = OPERATION("shfl.sync.idx.b32 %0, %0, %0, 31, -1;")},
    {"vote", "alu", PARTITION, 70,
     .code = OPERATION("{ .reg .pred p; setp.ne.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, -1; }")},
    {"global_load", "memory", GPU, 32, 70,
     .code = RANDOM_ADDRESS
     "asm volatile(\"ld.volatile.global.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(at) : \"memory\"); c.x += v;"},
    {"global_load", "memory", GPU, 32, 70,
     .code = RANDOM_ADDRESS
     "unsigned w, s, t; asm volatile(\"ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(v), \"=r\"(w), "
     "\"=r\"(s), \"=r\"(t) : \"l\"(at) : \"memory\"); c.x += v + w + s + t;"},
    {"global_load_near", "memory", GPU, NEAR_TRANSACTIONS, 70,
     .code = NEAR_ADDRESS
     "asm volatile(\"ld.volatile.global.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(at) : \"memory\"); c.x += v & a.zero;",
     .start = OF_WARP},
    {"global_load_wide", "memory", GPU, WIDE_TRANSACTIONS, 70,
     .code = WIDE_ADDRESS "asm volatile(\"ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(v), \"=r\"(w), "
                          "\"=r\"(s), \"=r\"(t) : "
                          "\"l\"(at) : \"memory\"); c.x += (v + w + s + t) & a.zero;",
     .start = OF_WARP},
    {"global_store", "memory", GPU, 32, 70,
     .code = RANDOM_ADDRESS
     "asm volatile(\"st.volatile.global.u32 [%1], %2; ld.volatile.global.u32 %0, [%1];\" : \"=r\"(v) : "
     "\"l\"(at), \"r\"(c.x) : \"memory\"); c.x += v;"},
    {"global_store_near", "memory", GPU, NEAR_TRANSACTIONS, 70,
     .code = NEAR_ADDRESS
     "asm volatile(\"st.volatile.global.u32 [%1], %2; ld.volatile.global.u32 %0, [%1];\" : \"=r\"(v) : "
     "\"l\"(at), \"r\"(c.x) : \"memory\"); c.x += v & a.zero;",
     .start = OF_WARP},
    {"global_store_wide", "memory", GPU, WIDE_TRANSACTIONS, 70,
     .code = WIDE_ADDRESS
     "asm volatile(\"st.volatile.global.v4.u32 [%4], {%5, %5, %5, %5}; ld.volatile.global.v4.u32 {%0, %1, %2, %3}, "
     "[%4];\" : \"=r\"(v), \"=r\"(w), \"=r\"(s), \"=r\"(t) : \"l\"(at), \"r\"(c.x) : \"memory\"); "
     "c.x += (v + w + s + t) & a.zero;",
     .start = OF_WARP},
    {"global_atomic", "memory", GPU, 32, 70,
     .code =
         RANDOM_ADDRESS "asm volatile(\"atom.global.add.u32 %0, [%1], %2;\" : \"=r\"(v) : \"l\"(at), \"r\"(a.one) : "
                        "\"memory\"); c.x += v;"},
    {"global_atomic", "memory", GPU, 32, 70,
     .code = "unsigned v; asm volatile(\"atom.global.add.u32 %0, [%1], %2;\" : \"=r\"(v) : \"l\"(a.data), \"r\"(c.x) : "
             "\"memory\"); c.x += v;"},
    {"async_copy", "memory", GPU, 32, 80,
     .code = RANDOM_ADDRESS
     "asm volatile(\"cp.async.ca.shared.global [%2], [%1], 16; cp.async.wait_all; ld.volatile.shared.u32 "
     "%0, [%2];\" : \"=r\"(v) : \"l\"(at), \"r\"(c.shared) : \"memory\"); c.x += v;"},
    {"fence", "memory", GPU, 32, 70,
     .code = RANDOM_ADDRESS
     "v = c.x; asm volatile(\"st.volatile.global.u32 [%0], %1; membar.gl;\" : : \"l\"(at), \"r\"(v) : "
     "\"memory\");"},
    {"tensor", "tensor", PARTITION, 80,
     .code = "asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
             "{%4, %4}, "
             "{%0, %1, %2, %3};\" : " FRAGMENT " : \"r\"(a.zero));"},
    {"tensor", "tensor", PARTITION, 80,
     .code = "asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
             "{%4, %4}, "
             "{%0, %1, %2, %3};\" : " FRAGMENT " : \"r\"(a.zero));"},
    {"tensor_fp64", "tensor", PARTITION, 80,
     .code = "asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%2}, {%0, %1};\" : "
             "\"+d\"(c.d), "
             "\"+d\"(c.e) : \"d\"(c.z));"},
    {"barrier", "barrier", SM, 1, 70, .code = "asm volatile(\"bar.sync 0;\" : : : \"memory\");"},
    [GS_TIMED_BARE_ROW] = {NULL, "alu", PARTITION, 70, .code = "asm volatile(\"\" : \"+r\"(c.x));"},
    [GS_TIMED_CODE_ROW] =
        {"fma_float", "fma", PARTITION, 70,
         .code = "asm volatile(\"fma.rn.f32 %0, %0, %0, %0; fma.rn.f32 %1, %1, %1, %1; fma.rn.f32 %2, %2, "
                 "%2, %2; fma.rn.f32 %3, %3, %3, %3;\" : " FRAGMENT ");",
         .instructions = GS_TIMED_CODE_INSTRUCTIONS},
    [GS_TIMED_JUMP_ROW] = {NULL, "fma", PARTITION, 70,
                           .code =
                               OPERATION("add.u32 %0, %0, %1;") " if (c.x == marker) asm volatile(\"" FMA_9 FMA_9 FMA_9
                                                                "\" : \"+f\"(c.f));"},
};
const size_t gs_timed_row_count = GS_COUNT(gs_timed_rows);

/* The lengths of the code in the caches, as chains of GS_TIMED_CODE_ROW. */
const int32_t gs_timed_code_counts[GS_TIMED_CODES] = {8, 16, 32, 64, 96, 128, 256, 496, 512, 1024, 2048};

int32_t gs_timed_jump_count(int code) {
    return gs_timed_code_counts[code] * GS_TIMED_CODE_INSTRUCTIONS * GS_TIMED_INSTRUCTION_BYTES / GS_TIMED_JUMP_BYTES;
}

static const char source_begin[] =
    "static const unsigned marker = 0xfffffff1u;\n"
    "struct chained { unsigned x, u, shared, part, near; float f, m[4]; double d, e, z; };\n"
    "template <int ROW> static __device__ __forceinline__ void step(chained &c, const timed_arguments &a) {\n";

static const char source_helpers[] =
    "/* Whether the block only reads or writes at random places while others are timed: on every second TPC. */\n"
    "static __device__ __forceinline__ bool is_neighbor(const timed_arguments &a, unsigned sm) {\n"
    "    return a.is_beside && sm / 2 % 2;\n"
    "}\n"
    "static __device__ __noinline__ void disturb(const timed_arguments &a, int round) {\n"
    "    unsigned x = threadIdx.x * 7919u + blockIdx.x * 104729u + (unsigned)now(), timed = a.arrived[TIMED_BLOCKS];\n"
    "    for (unsigned long long began = now(); a.arrived[DONE + round] < timed && now() - began < 2000000000ull;)\n"
    "        for (int i = 0; i < 8; i++) {\n"
    "            x = x * 1664525u + 1013904223u;\n"
    "            volatile unsigned *at = (volatile unsigned *)(a.data + ((unsigned long long)((x >> 4) & a.data_mask) "
    "<< 5));\n"
    "            if (a.is_beside == 2) *at = x; else x += *at;\n"
    "        }\n"
    "    if (x == marker) a.arrived[MARK] = x;\n"
    "}\n"
    "/* The cycles of a hundredth of a second. */\n"
    "static __device__ void count_cycles(unsigned long long &started, unsigned long long &ended) {\n"
    "    unsigned long long first, at;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(first));\n"
    "    do asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(at)); while (at == first);\n"
    "    first = at;\n"
    "    started = now();\n"
    "    do asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(at)); while (at < first + 10000000);\n"
    "    ended = now();\n"
    "}\n";

static const char source_end[] =
    "static __device__ __forceinline__ bool is_marked(const chained &c) {\n"
    "    unsigned m = __float_as_uint(c.m[0]) ^ __float_as_uint(c.m[1]) ^ __float_as_uint(c.m[2]) ^ "
    "__float_as_uint(c.m[3]);\n"
    "    return (c.x ^ c.u ^ m ^ __float_as_uint(c.f) ^ (unsigned)__double2loint(c.d)) == marker;\n"
    "}\n"
    "template <int ROW, int KIND, int COUNT>\n"
    "static __device__ __forceinline__ void measure(chained &c, const timed_arguments &a, unsigned long long "
    "&started,\n"
    "                                               unsigned long long &ended) {\n"
    "    if (KIND == 1) {\n"
    "        long long most = 0, late = 0;\n"
    "#pragma unroll 1\n"
    "        for (unsigned i = 0; i < a.singles; i++) {\n"
    "            unsigned long long began = now();\n"
    "            step<ROW>(c, a);\n"
    "            if (is_marked(c)) a.arrived[MARK] = marker;\n"
    "            if (a.is_together) asm volatile(\"bar.sync 1, %0;\" : : \"r\"(a.few * 32) : \"memory\");\n"
    "            late = (a.rate && late > 0 ? late : 0) + (long long)(now() - began) - (long long)a.rate;\n"
    "            if (late > most) most = late;\n"
    "        }\n"
    "        started = 0;\n"
    "        ended = (unsigned long long)most;\n"
    "        return;\n"
    "    }\n"
    "    started = now();\n"
    "    if (KIND == 3) {\n"
    "#pragma unroll 1\n"
    "        for (int i = 0; i < COUNT; i++) step<ROW>(c, a);\n"
    "    } else {\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < COUNT; i++) step<ROW>(c, a);\n"
    "    }\n"
    "    if (is_marked(c)) a.arrived[MARK] = marker;\n"
    "    ended = now();\n"
    "}\n"
    "template <int BODY, int COUNT> static __device__ __forceinline__ void timed(const timed_arguments &a) {\n"
    "    __shared__ unsigned bank[1024 + 32];\n"
    "    __shared__ volatile unsigned long long go;\n"
    "    unsigned sm, warps = (blockDim.x + 31) / 32, base, lane = threadIdx.x % 32;\n"
    "    unsigned long long started = 0, ended = 0, kept_start = 0, kept_end = 0;\n"
    "    asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(sm));\n"
    "    asm volatile(\"{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }\" : \"=r\"(base) : "
    "\"l\"(bank));\n"
    "    base = (base + 127u) / 128u * 128u;\n"
    "    unsigned first = (base - (unsigned)__cvta_generic_to_shared(bank)) / 4;\n"
    "    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) bank[first + i] = base + i * 4;\n"
    "    __syncthreads();\n"
    "    chained c;\n"
    "    c.u = a.one;\n"
    "    bool disturbs = is_neighbor(a, sm);\n"
    "    if (threadIdx.x == 0 && !disturbs) atomicAdd((unsigned *)&a.arrived[TIMED_BLOCKS], 1u);\n"
    "#pragma unroll 1\n"
    "    for (int round = 0; round < 2; round++) {\n"
    "        if (threadIdx.x == 0) {\n"
    "            wait_for_all(a, 2 * round);\n"
    "            atomicMax(&a.go[round * a.sms + sm], now() + 40000ull);\n"
    "            wait_for_all(a, 2 * round + 1);\n"
    "            go = *(volatile unsigned long long *)&a.go[round * a.sms + sm];\n"
    "        }\n"
    "        __syncthreads();\n"
    "        unsigned long long when = go;\n"
    "        float some = (float)(unsigned)when;\n"
    "        c = chained{START(BODY / 4 - 4), c.u, base + lane * 16, lane / 28, 28 + lane % 28 * 4, some,\n"
    "                    {some, some + 1, some + 2, some + 3}, (double)some, 0.0, (double)a.zero};\n"
    "        while (now() < when) {}\n"
    "        if (disturbs) disturb(a, round);\n"
    "        else if (BODY == 15) count_cycles(started, ended);\n"
    "        else if (threadIdx.x / 32 < a.few) measure<BODY / 4 - 4, BODY % 4, COUNT>(c, a, started, ended);\n"
    "        if (round == 0 || BODY % 4 != 2) kept_start = started, kept_end = ended;\n"
    "        __syncthreads();\n"
    "        if (threadIdx.x == 0 && !disturbs) atomicAdd((unsigned *)&a.arrived[DONE + round], 1u);\n"
    "    }\n"
    "    if (lane == 0) {\n"
    "        a.start[blockIdx.x * warps + threadIdx.x / 32] = kept_start;\n"
    "        a.end[blockIdx.x * warps + threadIdx.x / 32] = kept_end;\n"
    "    }\n"
    "    if (is_marked(c)) a.arrived[MARK] = c.x + table[lane];\n"
    "    __threadfence_system();\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) *(volatile unsigned *)&a.sm[blockIdx.x] = sm + 1;\n"
    "}\n";

static const char source_launches[] =
    "template <> __device__ __forceinline__ void timed<14, 0>(const timed_arguments &) {}\n"
    "/* Random loads, or stores, for 100,000 cycles. */\n"
    "template <> __device__ __forceinline__ void timed<14, 1>(const timed_arguments &a) {\n"
    "    unsigned x = threadIdx.x * 7919u + blockIdx.x * 104729u;\n"
    "    for (unsigned long long end = now() + 100000ull; now() < end;) {\n"
    "        x = x * 1664525u + 1013904223u;\n"
    "        volatile unsigned *at = (volatile unsigned *)(a.data + ((unsigned long long)((x >> 4) & a.data_mask) << "
    "5));\n"
    "        if (a.is_beside == 2) *at = x; else x += *at;\n"
    "    }\n"
    "    if (x == marker) a.arrived[MARK] = x;\n"
    "}\n";

/* Each word of the table in constant memory has the address of the one a line further, and the last line that of the
   first. It is the only thing there, so it begins at 0. */
static void add_constants(gs_text *source) {
    enum { WORDS = 1024, STEP = GS_TIMED_CONSTANT_LINE };
    gs_text_add(source, "__constant__ unsigned table[%d] = {", WORDS);
    for (int i = 0; i < WORDS; i++)
        gs_text_add(source, "%d,", (i * 4 + STEP) % (WORDS * 4));
    gs_text_add(source, "};\n");
}

void gs_timed_class_source(gs_text *source) {
    add_constants(source);
    gs_text_add(source, "#define START(row) (");
    for (size_t i = 0; i < gs_timed_row_count; i++)
        if (gs_timed_rows[i].start)
            gs_text_add(source, "(row) == %zu ? %s : ", i, gs_timed_rows[i].start);
    gs_text_add(source, "threadIdx.x * 7919u + blockIdx.x * 104729u + (unsigned)when)\n%s", source_begin);
    for (size_t i = 0; i < gs_timed_row_count; i++)
        gs_text_add(source, "    if (ROW == %zu) { %s }\n", i, gs_timed_rows[i].code);
    gs_text_add(source, "}\n%s%s%s", source_helpers, source_end, source_launches);
}

static gs_code add_kernel(gs_timed *timed, int32_t body, int32_t count, gs_error *error) {
    for (size_t i = 0; i < timed->kernels.count; i++)
        if ((int32_t)timed->kernels.data[i].body == body && timed->kernels.data[i].count == count)
            return GS_OK;
    bool added = GS_PUSH(&timed->kernels, (timed_kernel){.body = (gs_timed_body)body, .count = count});
    return added ? GS_OK : gs_fail_memory(error);
}

gs_code gs_timed_list_classes(gs_timed *timed, int architecture, gs_error *error) {
    gs_code code = add_kernel(timed, GS_TIMED_EMPTY, 0, error);
    if (code == GS_OK)
        code = add_kernel(timed, GS_TIMED_EMPTY, GS_TIMED_BUSY, error);
    if (code == GS_OK)
        code = add_kernel(timed, GS_TIMED_CLOCK, 0, error);
    for (size_t i = 0; i < gs_timed_row_count && code == GS_OK; i++) {
        static const int32_t chains[] = {32, 64};
        if (gs_timed_rows[i].architecture > architecture)
            continue;
        for (size_t j = 0; j < GS_COUNT(chains) && code == GS_OK; j++)
            code = add_kernel(timed, gs_timed_class_body(i, GS_TIMED_CHAIN), chains[j], error);
        if (code == GS_OK)
            code = add_kernel(timed, gs_timed_class_body(i, GS_TIMED_SINGLE), GS_TIMED_SINGLES, error);
    }
    for (int i = 0; i < GS_TIMED_CODES && code == GS_OK; i++)
        for (int kind = GS_TIMED_CHAIN; kind <= GS_TIMED_COLD && code == GS_OK; kind += GS_TIMED_COLD - GS_TIMED_CHAIN)
            code = add_kernel(timed, gs_timed_class_body(GS_TIMED_CODE_ROW, kind), gs_timed_code_counts[i], error);
    for (int i = 0; i < GS_TIMED_CROWDED_CODES && code == GS_OK; i++)
        code = add_kernel(timed, gs_timed_class_body(GS_TIMED_JUMP_ROW, GS_TIMED_CHAIN), gs_timed_jump_count(i), error);
    if (code == GS_OK)
        code = add_kernel(timed, gs_timed_class_body(GS_TIMED_CONSTANT_ROW, GS_TIMED_COLD), 64, error);
    return code == GS_OK ? add_kernel(timed, gs_timed_class_body(GS_TIMED_CODE_ROW, GS_TIMED_LOOP), 64, error) : code;
}
