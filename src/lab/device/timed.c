/*
 * timed.c: kernels whose warps report when they start and end.
 *
 * A warp reads the clock of its SM, executes the instructions of its body, each of which needs the result of the one
 * before, and reads the clock again. Bodies are chains of one instruction, to measure it, and the program of the
 * finishing-time paper, C (L L C)+ S: C is a multiplication and addition, L a load from shared memory and S a store to
 * it. Shared memory takes the place of the paper's cache that never misses. The word at an address holds that address,
 * so each load gives the address of the next. Factors and summands come from the host, so that the compiler cannot
 * simplify the chains.
 *
 * All warps of an SM start together: all blocks wait at a barrier, agree for each SM on a time some microseconds ahead,
 * wait at a second barrier so that all know it, and each warp waits for that time by the clock. This is done twice, and
 * only the second round counts, so that the instructions are in the caches. If not all blocks are on the GPU, they give
 * up waiting after about a second.
 */
#include "timed.h"

#include <stdlib.h>

static const char source_head[] =
    "struct timed_arguments {\n"
    "    unsigned *sm; unsigned long long *start, *end; volatile unsigned *arrived; unsigned long long *go;\n"
    "    unsigned blocks, sms, one, zero; unsigned long long data; unsigned data_mask, rate;\n"
    "    unsigned singles, is_together, is_beside, few;\n"
    "};\n"
    "/* Words of `arrived` behind those of the barriers. Nothing reads the mark: it is there for the compiler. */\n"
    "enum { TIMED_BLOCKS = 4, DONE = 6, MARK = 15 };\n"
    "static __device__ __forceinline__ unsigned long long now() {\n"
    "    unsigned long long clock;\n"
    "    asm volatile(\"mov.u64 %0, %%clock64;\" : \"=l\"(clock) : : \"memory\");\n"
    "    return clock;\n"
    "}\n"
    "static __device__ void wait_for_all(const timed_arguments &arguments, int place) {\n"
    "    unsigned long long began = now();\n"
    "    __threadfence();\n"
    "    atomicAdd((unsigned *)&arguments.arrived[place], 1u);\n"
    "    while (arguments.arrived[place] < arguments.blocks && now() - began < 2000000000ull) __nanosleep(50);\n"
    "    __threadfence();\n"
    "}\n";

static const char source_program[] =
    "static __device__ __forceinline__ void compute(unsigned &at, unsigned one, unsigned zero) {\n"
    "    asm volatile(\"mad.lo.u32 %0, %0, %1, %2;\" : \"+r\"(at) : \"r\"(one), \"r\"(zero) : \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void load(unsigned &at) {\n"
    "    asm volatile(\"ld.volatile.shared.u32 %0, [%0];\" : \"+r\"(at) : : \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void store(unsigned at) {\n"
    "    asm volatile(\"st.volatile.shared.u32 [%0], %0;\" : : \"r\"(at) : \"memory\");\n"
    "}\n"
    "template <int BODY, int COUNT>\n"
    "static __device__ __forceinline__ void work(unsigned &at, unsigned one, unsigned zero) {\n"
    "    if (BODY == 4) compute(at, one, zero);\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < COUNT; i++) {\n"
    "        if (BODY == 1) compute(at, one, zero);\n"
    "        if (BODY == 2) load(at);\n"
    "        if (BODY == 3) store(at);\n"
    "        if (BODY == 4 || BODY == 5) { load(at); load(at); compute(at, one, zero); }\n"
    "    }\n"
    "    if (BODY == 4) store(at);\n"
    "}\n"
    "template <int BODY, int COUNT> static __device__ __forceinline__ void timed(const timed_arguments &arguments) {\n"
    "    __shared__ unsigned word;\n"
    "    __shared__ volatile unsigned long long go;\n"
    "    unsigned sm, at, warps = (blockDim.x + 31) / 32, base, one = arguments.one, zero = arguments.zero;\n"
    "    unsigned long long started = 0, ended = 0;\n"
    "    asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(sm));\n"
    "    asm volatile(\"{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }\" : \"=r\"(base) : "
    "\"l\"(&word));\n"
    "    if (threadIdx.x == 0) word = base;\n"
    "    __syncthreads();\n"
    "#pragma unroll 1\n"
    "    for (int round = 0; round < 2; round++) {\n"
    "        if (threadIdx.x == 0) {\n"
    "            wait_for_all(arguments, 2 * round);\n"
    "            atomicMax(&arguments.go[round * arguments.sms + sm], now() + 40000ull);\n"
    "            wait_for_all(arguments, 2 * round + 1);\n"
    "            go = *(volatile unsigned long long *)&arguments.go[round * arguments.sms + sm];\n"
    "        }\n"
    "        __syncthreads();\n"
    "        unsigned long long when = go;\n"
    "        at = base;\n"
    "        while (now() < when) {}\n"
    "        started = now();\n"
    "        work<BODY, COUNT>(at, one, zero);\n"
    "        ended = now();\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (threadIdx.x % 32 == 0) {\n"
    "        arguments.start[blockIdx.x * warps + threadIdx.x / 32] = started;\n"
    "        arguments.end[blockIdx.x * warps + threadIdx.x / 32] = ended;\n"
    "    }\n"
    "    if (at == 0xfffffff1u) arguments.arrived[MARK] = at;\n"
    "    __threadfence_system();\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) *(volatile unsigned *)&arguments.sm[blockIdx.x] = sm + 1;\n"
    "}\n";

/* All kernels: chains of two lengths, whose difference does not contain the code around them, and programs. */
static gs_code list_kernels(gs_timed *timed, gs_error *error) {
    static const struct {
        gs_timed_body body;
        int32_t counts[GS_TIMED_REPEATS];
    } bodies[] = {{GS_TIMED_NOTHING, {0}},
                  {GS_TIMED_COMPUTE, {32, 64}},
                  {GS_TIMED_LOAD, {32, 64}},
                  {GS_TIMED_STORE, {32, 64}},
                  {GS_TIMED_SUB_BLOCK, {32, 64}}};
    for (size_t i = 0; i < GS_COUNT(bodies); i++)
        for (size_t j = 0; j == 0 || (j < GS_TIMED_REPEATS && bodies[i].counts[j]); j++) {
            if (!GS_PUSH(&timed->kernels, (timed_kernel){.body = bodies[i].body, .count = bodies[i].counts[j]}))
                return gs_fail_memory(error);
        }
    for (int32_t repeat = 1; repeat <= GS_TIMED_REPEATS; repeat++) {
        if (!GS_PUSH(&timed->kernels, (timed_kernel){.body = GS_TIMED_PROGRAM, .count = repeat}))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

static gs_code load_module(gs_timed *timed, const cu_api *api, int architecture, bool has_classes, gs_error *error) {
    gs_text source = {0};
    char *image = NULL;
    gs_text_put(&source, source_head, sizeof source_head - 1);
    if (has_classes)
        gs_timed_class_source(&source);
    else
        gs_text_put(&source, source_program, sizeof source_program - 1);
    for (size_t i = 0; i < timed->kernels.count; i++)
        gs_text_add(&source,
                    "extern \"C\" __global__ void timed_%zu(timed_arguments arguments) { timed<%d, %d>(arguments); }\n",
                    i, (int)timed->kernels.data[i].body, timed->kernels.data[i].count);
    gs_code code = source.failed
                       ? gs_fail_memory(error)
                       : gs_cuda_compile(api, architecture, "the timed kernel", "timed.cu", source.data, &image, error);
    gs_text_free(&source);
    if (code == GS_OK)
        code = gs_cuda_check(api, gs_modules_load(&timed->modules, api, image), "loading the timed kernel", error);
    free(image);
    return code;
}

static gs_code find_functions(gs_timed *timed, const cu_api *api, gs_error *error) {
    int failed = 0;
    for (size_t i = 0; i < timed->kernels.count && !failed; i++) {
        timed_kernel *kernel = &timed->kernels.data[i];
        char name[32];
        snprintf(name, sizeof name, "timed_%zu", i);
        failed = gs_cuda_kernel_find(api, timed->modules.data[0], name, &kernel->kernel);
    }
    return gs_cuda_check(api, failed, "loading the timed kernel", error);
}

/* As much memory as there is, so that caches and translations of addresses do not help. */
static gs_code take_data(gs_timed *timed, const cu_api *api, gs_error *error) {
    enum { LEAST_BITS = 21, MOST_BITS = 26 };
    for (int bits = MOST_BITS; bits >= LEAST_BITS && !timed->data; bits--)
        if (api->alloc(&timed->data, ((size_t)32 << bits) + TIMED_NEAR_BYTES) == 0)
            timed->data_mask = ((uint32_t)1 << bits) - 1;
        else
            timed->data = 0;
    return timed->data ? GS_OK : gs_fail(error, GS_E_NO_GPU, "the GPU lacks 64 MB of free memory for this");
}

gs_code gs_timed_open(gs_timed *timed, const cu_api *api, int architecture, bool has_classes, gs_error *error) {
    gs_code code = has_classes ? gs_timed_list_classes(timed, architecture, error) : list_kernels(timed, error);
    if (code == GS_OK)
        code = load_module(timed, api, architecture, has_classes, error);
    if (code == GS_OK)
        code = find_functions(timed, api, error);
    if (code == GS_OK)
        code = gs_cuda_check(api, api->alloc(&timed->memory, TIMED_BYTES), "taking memory", error);
    if (code == GS_OK && has_classes)
        code = take_data(timed, api, error);
    if (code != GS_OK)
        gs_timed_close(timed, api);
    return code;
}

void gs_timed_close(gs_timed *timed, const cu_api *api) {
    gs_modules_unload(&timed->modules, api);
    if (timed->memory)
        api->free(timed->memory);
    if (timed->data)
        api->free(timed->data);
    free(timed->kernels.data);
    *timed = (gs_timed){0};
}

timed_kernel *gs_timed_find(const gs_timed *timed, gs_timed_body body, int32_t count) {
    for (size_t i = 0; i < timed->kernels.count; i++)
        if (timed->kernels.data[i].body == body && timed->kernels.data[i].count == count)
            return &timed->kernels.data[i];
    return NULL;
}
