/*
 * probe.c: the probe kernel and how it comes to use exactly as many registers as wanted.
 *
 * A block of the probe writes down its SM, the hardware slot of each warp and when it started, waits to be stopped or
 * for as long as the host wrote where its end belongs, and writes when it ended. The host sees all that in its own
 * memory while the kernel runs. Only block 0 looks at the host's stop word, across the bus, and hands it on through
 * device memory: thousands of blocks asking the host would be slow.
 *
 * Registers: each thread loads LIVE words before the wait and uses them after it, so that they live across it. Volatile
 * loads cannot be moved over the barrier, nor thrown away, nor made again, so registers grow with LIVE one for one, and
 * no kernel needs local memory. How many LIVE gives how many registers is the compiler's business, and not always one
 * more for one more: gs_probe_open guesses, asks the driver what came out, and compiles those again that are not exact.
 */
#include "probe.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

static const char source_head[] =
    "struct arguments {\n"
    "    unsigned *sm; unsigned char *slots; unsigned long long *start, *end; volatile unsigned *stop, *relay;\n"
    "    unsigned long long is_timed; unsigned warps, generation;\n"
    "};\n"
    "static __device__ __forceinline__ unsigned long long now_ns() {\n"
    "    unsigned long long now;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
    "    return now;\n"
    "}\n"
    "static __device__ __forceinline__ void wait_for_end(const arguments &told, unsigned long long until) {\n"
    "    if (told.is_timed) {\n"
    "        while (now_ns() < until) __nanosleep(20);\n"
    "    } else if (blockIdx.x == 0) {\n"
    "        while (*told.stop != told.generation) __nanosleep(100);\n"
    "        *told.relay = told.generation;\n"
    "    } else {\n"
    "        while (*told.relay != told.generation) __nanosleep(100);\n"
    "    }\n"
    "}\n"
    "template <int LIVE, int LOCAL> static __device__ __forceinline__ void probe(const arguments &told) {\n"
    "    unsigned long long began = now_ns();\n"
    "    unsigned sm, slot, live[LIVE + 1], sum = 0;\n"
    "    asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(sm));\n"
    "    asm volatile(\"mov.u32 %0, %%warpid;\" : \"=r\"(slot));\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        told.slots[blockIdx.x * told.warps + threadIdx.x / 32] = (unsigned char)slot;\n"
    "    __threadfence_system();\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        told.start[blockIdx.x] = began;\n"
    "        __threadfence_system();\n"
    "        *(volatile unsigned *)&told.sm[blockIdx.x] = sm + 1;\n"
    "    }\n"
    "    unsigned long long until = began + (told.is_timed ? told.end[blockIdx.x] : 0);\n"
    "    volatile unsigned char local[LOCAL ? LOCAL : 1];\n"
    "    if (LOCAL) local[threadIdx.x % (LOCAL ? LOCAL : 1)] = (unsigned char)slot;\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < LIVE; i++)\n"
    "        asm volatile(\"ld.volatile.global.u32 %0, [%1];\" : \"=r\"(live[i]) : \"l\"(told.relay) : \"memory\");\n"
    "    if (threadIdx.x == 0) wait_for_end(told, until);\n"
    "    __syncthreads();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < LIVE; i++) asm volatile(\"xor.b32 %0, %0, %1;\" : \"+r\"(sum) : \"r\"(live[i]));\n"
    "    if (LOCAL) sum += local[threadIdx.x % (LOCAL ? LOCAL : 1)];\n"
    "    if (threadIdx.x == 0) told.end[blockIdx.x] = now_ns();\n"
    "    if (sum == 0x9e3779b9u && threadIdx.x > 2000) told.sm[0] = sum;\n"
    "}\n";

/* A kernel that is wanted, and how many live words the compiler is told to keep for it. */
struct wish {
    int32_t registers;
    int64_t local_bytes;
    int live;
    bool met;
};

enum { MOST_ROUNDS = 16, OWN_REGISTERS = 12 };

/* ---- compiling ---- */

static void put_source(gs_text *text, const struct wish *wishes, size_t count) {
    gs_text_put(text, source_head, sizeof source_head - 1);
    for (size_t i = 0; i < count; i++)
        if (!wishes[i].met)
            gs_text_add(text, "extern \"C\" __global__ void probe_%zu(arguments told) { probe<%d, %d>(told); }\n", i,
                        wishes[i].live, (int)wishes[i].local_bytes);
}

/* ---- what came out ---- */

static gs_code add_kernel(gs_probe *probe, const struct wish *wish, cu_function function, gs_error *error) {
    if (!GS_RESERVE(&probe->kernels, 1))
        return gs_fail_memory(error);
    probe->kernels.data[probe->kernels.count++] =
        (probe_kernel){.registers = wish->registers, .local_bytes = wish->local_bytes, .function = function};
    return gs_cuda_check(probe->api,
                         probe->api->function_set(function, CU_FUNCTION_MAX_SHARED, probe->most_shared_bytes),
                         "allowing the probe all shared memory", error);
}

/* First by what came out; if that does not lead there, one more, one less, two more, two less ... */
static void next_guess(struct wish *wish, int registers, int round) {
    enum { BY_RESULT = 5 };
    int change = wish->registers - registers, sweep = round - BY_RESULT + 1;
    if (round < BY_RESULT)
        wish->live += change > 2 ? change - 1 : change > 0 ? 1 : change < -2 ? change + 1 : -1;
    else
        wish->live += sweep % 2 ? sweep : -sweep;
    wish->live = (int)gs_max(wish->live, 0);
}

/* Keeps the kernel if it is exact, otherwise changes the wish. */
static gs_code judge(gs_probe *probe, cu_module module, struct wish *wish, size_t number, int round, gs_error *error) {
    const cu_api *api = probe->api;
    char name[32];
    cu_function function;
    int registers = 0, local = 0;
    snprintf(name, sizeof name, "probe_%zu", number);
    int failed = api->module_function(&function, module, name);
    if (!failed)
        failed = api->function_get(&registers, CU_FUNCTION_REGISTERS, function);
    if (!failed)
        failed = api->function_get(&local, CU_FUNCTION_LOCAL_BYTES, function);
    if (failed)
        return gs_cuda_check(api, failed, "loading the probe", error);
    if (registers == wish->registers && local == wish->local_bytes) {
        wish->met = true;
        return add_kernel(probe, wish, function, error);
    }
    next_guess(wish, registers, round);
    return GS_OK;
}

static gs_code compile_round(gs_probe *probe, struct wish *wishes, size_t count, int round, gs_error *error) {
    gs_text source = {0};
    char *image = NULL;
    cu_module module;
    put_source(&source, wishes, count);
    gs_code code = source.failed ? gs_fail_memory(error)
                                 : gs_cuda_compile(probe->api, probe->architecture, "the probe kernel", "probe.cu",
                                                   source.data, &image, error);
    gs_text_free(&source);
    if (code == GS_OK && !GS_RESERVE(&probe->modules, 1))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_cuda_check(probe->api, probe->api->module_load(&module, image), "loading the probe", error);
    free(image);
    if (code != GS_OK)
        return code;
    probe->modules.data[probe->modules.count++] = module;
    for (size_t i = 0; i < count && code == GS_OK; i++)
        if (!wishes[i].met)
            code = judge(probe, module, &wishes[i], i, round, error);
    return code;
}

static gs_code grant(gs_probe *probe, struct wish *wishes, size_t count, gs_error *error) {
    gs_code code = GS_OK;
    for (int round = 0; round < MOST_ROUNDS && code == GS_OK; round++) {
        size_t unmet = 0;
        for (size_t i = 0; i < count; i++)
            unmet += !wishes[i].met;
        if (!unmet)
            return GS_OK;
        code = compile_round(probe, wishes, count, round, error);
    }
    for (size_t i = 0; i < count && code == GS_OK; i++)
        if (!wishes[i].met)
            code = gs_fail(error, GS_E_NO_GPU,
                           "no probe kernel with exactly %d registers and %lld bytes of local memory came out of the "
                           "compiler",
                           wishes[i].registers, (long long)wishes[i].local_bytes);
    return code;
}

/* ---- the whole ---- */

gs_code gs_probe_open(gs_probe *probe, const cu_api *api, int architecture, int32_t most_shared_bytes,
                      gs_error *error) {
    struct wish wishes[64];
    size_t count = 0;
    *probe = (gs_probe){.api = api, .architecture = architecture, .most_shared_bytes = most_shared_bytes};
    for (int32_t registers; (registers = gs_generated_registers(count)); count++)
        wishes[count] = (struct wish){.registers = registers, .live = registers - OWN_REGISTERS};
    gs_code code = grant(probe, wishes, count, error);
    if (code != GS_OK)
        gs_probe_close(probe);
    return code;
}

void gs_probe_close(gs_probe *probe) {
    for (size_t i = 0; i < probe->modules.count; i++)
        probe->api->module_unload(probe->modules.data[i]);
    free(probe->modules.data);
    free(probe->kernels.data);
    *probe = (gs_probe){0};
}

gs_code gs_probe_find(gs_probe *probe, int32_t registers, int64_t local_bytes, cu_function *function, gs_error *error) {
    for (size_t i = 0; i < probe->kernels.count; i++)
        if (probe->kernels.data[i].registers == registers && probe->kernels.data[i].local_bytes == local_bytes) {
            *function = probe->kernels.data[i].function;
            return GS_OK;
        }
    if (registers < 24 || registers > 255 || local_bytes < 0 || local_bytes > 1 << 16)
        return gs_fail(error, GS_E_USAGE,
                       "the probe has kernels of 24 to 255 registers and up to 64 KB of local memory a thread, not of "
                       "%d registers and %lld bytes",
                       registers, (long long)local_bytes);
    struct wish wish = {.registers = registers, .local_bytes = local_bytes, .live = registers - OWN_REGISTERS};
    gs_code code = grant(probe, &wish, 1, error);
    if (code == GS_OK)
        *function = probe->kernels.data[probe->kernels.count - 1].function;
    return code;
}
