/*
 * probe.c: the probe kernel, and how it is compiled to use exactly as many registers as requested.
 *
 * A block of the probe reports its SM, the hardware slots of its warps and when it started. Then it waits: until it is
 * stopped, or for the duration that the host put into its `end`. At last it reports when it ended. All of this is in
 * host memory, so the host sees it while the kernel runs. Only block 0 polls the stop word in host memory, across the
 * bus, and copies it to device memory for the others: thousands of blocks that poll host memory would be slow.
 *
 * Registers: each thread loads LIVE words before the wait and uses them after it, so it must keep them. Volatile loads
 * cannot be moved over the barrier, dropped or repeated, so more LIVE words need more registers, and no local memory.
 * The compiler does not always use one more register for one more word. So gs_probe_open guesses LIVE, asks the driver
 * how many registers the kernel has, and compiles again what is not exact.
 */
#include "probe.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

static const char source_head[] =
    "struct probe_arguments {\n"
    "    unsigned *sm; unsigned char *slots; unsigned long long *start, *end; volatile unsigned *stop, *relay;\n"
    "    unsigned long long is_timed; unsigned warps, generation; unsigned long long triggers;\n"
    "};\n"
    "static __device__ __forceinline__ unsigned long long now_ns() {\n"
    "    unsigned long long now;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
    "    return now;\n"
    "}\n"
    "static __device__ __forceinline__ void wait(const probe_arguments &arguments, unsigned long long until) {\n"
    "    if (arguments.is_timed) {\n"
    "        while (now_ns() < until) __nanosleep(20);\n"
    "    } else if (blockIdx.x == 0) {\n"
    "        while (*arguments.stop != arguments.generation) __nanosleep(100);\n"
    "        *arguments.relay = arguments.generation;\n"
    "    } else {\n"
    "        while (*arguments.relay != arguments.generation) __nanosleep(100);\n"
    "    }\n"
    "}\n"
    "template <int LIVE, int LOCAL> static __device__ __forceinline__ void probe(const probe_arguments &arguments) {\n"
    "    unsigned long long began = now_ns();\n"
    "    unsigned sm, slot, live[LIVE + 1], sum = 0;\n"
    "    asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(sm));\n"
    "    asm volatile(\"mov.u32 %0, %%warpid;\" : \"=r\"(slot));\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        arguments.slots[blockIdx.x * arguments.warps + threadIdx.x / 32] = (unsigned char)slot;\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "    if (arguments.triggers) asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
    "#endif\n"
    "    __threadfence_system();\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        arguments.start[blockIdx.x] = began;\n"
    "        __threadfence_system();\n"
    "        *(volatile unsigned *)&arguments.sm[blockIdx.x] = sm + 1;\n"
    "    }\n"
    "    unsigned long long until = began + (arguments.is_timed ? arguments.end[blockIdx.x] : 0);\n"
    "    volatile unsigned char local[LOCAL ? LOCAL : 1];\n"
    "    if (LOCAL) local[threadIdx.x % (LOCAL ? LOCAL : 1)] = (unsigned char)slot;\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < LIVE; i++)\n"
    "        asm volatile(\"ld.volatile.global.u32 %0, [%1];\"\n"
    "                     : \"=r\"(live[i]) : \"l\"(arguments.relay) : \"memory\");\n"
    "    if (threadIdx.x == 0) wait(arguments, until);\n"
    "    __syncthreads();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < LIVE; i++) asm volatile(\"xor.b32 %0, %0, %1;\" : \"+r\"(sum) : \"r\"(live[i]));\n"
    "    if (LOCAL) sum += local[threadIdx.x % (LOCAL ? LOCAL : 1)];\n"
    "    if (threadIdx.x == 0) arguments.end[blockIdx.x] = now_ns();\n"
    "    if (sum == 0x9e3779b9u && threadIdx.x > 2000) arguments.sm[0] = sum;\n"
    "}\n";

/* A kernel to compile, and how many live words it is compiled with. */
struct request {
    int32_t registers;
    int64_t local_bytes;
    int live;
    bool is_done;
};

enum { MOST_ROUNDS = 16, OWN_REGISTERS = 12 };

/* ---- compiling ---- */

static void put_source(gs_text *text, const struct request *requests, size_t count) {
    gs_text_put(text, source_head, sizeof source_head - 1);
    for (size_t i = 0; i < count; i++)
        if (!requests[i].is_done)
            gs_text_add(
                text,
                "extern \"C\" __global__ void probe_%zu(probe_arguments arguments) { probe<%d, %d>(arguments); }\n", i,
                requests[i].live, (int)requests[i].local_bytes);
}

/* ---- checking the result ---- */

static gs_code add_kernel(gs_probe *probe, const struct request *request, cu_function function, gs_error *error) {
    if (!GS_RESERVE(&probe->kernels, 1))
        return gs_fail_memory(error);
    probe->kernels.data[probe->kernels.count++] =
        (probe_kernel){.registers = request->registers, .local_bytes = request->local_bytes, .function = function};
    return gs_cuda_check(probe->api,
                         probe->api->function_set(function, CU_FUNCTION_MAX_SHARED, probe->most_shared_bytes),
                         "allowing the probe all shared memory", error);
}

/* In the first rounds by the difference; if that is not exact in the end, one more, one less, two more, two less ... */
static void next_guess(struct request *request, int registers, int round) {
    enum { BY_RESULT = 5 };
    int change = request->registers - registers, sweep = round - BY_RESULT + 1;
    if (round < BY_RESULT)
        request->live += change > 2 ? change - 1 : change > 0 ? 1 : change < -2 ? change + 1 : -1;
    else
        request->live += sweep % 2 ? sweep : -sweep;
    request->live = (int)gs_max(request->live, 0);
}

/* Keeps the kernel if it is exact, otherwise makes the next guess. */
static gs_code check_kernel(gs_probe *probe, cu_module module, struct request *request, size_t number, int round,
                            gs_error *error) {
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
    if (registers == request->registers && local == request->local_bytes) {
        request->is_done = true;
        return add_kernel(probe, request, function, error);
    }
    next_guess(request, registers, round);
    return GS_OK;
}

static gs_code compile_round(gs_probe *probe, struct request *requests, size_t count, int round, gs_error *error) {
    gs_text source = {0};
    char *image = NULL;
    cu_module module;
    put_source(&source, requests, count);
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
        if (!requests[i].is_done)
            code = check_kernel(probe, module, &requests[i], i, round, error);
    return code;
}

static gs_code compile_all(gs_probe *probe, struct request *requests, size_t count, gs_error *error) {
    gs_code code = GS_OK;
    for (int round = 0; round < MOST_ROUNDS && code == GS_OK; round++) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++)
            left += !requests[i].is_done;
        if (!left)
            return GS_OK;
        code = compile_round(probe, requests, count, round, error);
    }
    for (size_t i = 0; i < count && code == GS_OK; i++)
        if (!requests[i].is_done)
            code = gs_fail(error, GS_E_NO_GPU,
                           "the compiler gives no probe kernel with exactly %d registers and %lld bytes of local "
                           "memory",
                           requests[i].registers, (long long)requests[i].local_bytes);
    return code;
}

/* ---- the probe ---- */

gs_code gs_probe_open(gs_probe *probe, const cu_api *api, int architecture, int32_t most_shared_bytes,
                      gs_error *error) {
    struct request requests[64];
    size_t count = 0;
    *probe = (gs_probe){.api = api, .architecture = architecture, .most_shared_bytes = most_shared_bytes};
    for (int32_t registers; (registers = gs_generated_registers(count)); count++)
        requests[count] = (struct request){.registers = registers, .live = registers - OWN_REGISTERS};
    gs_code code = compile_all(probe, requests, count, error);
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
    struct request request = {.registers = registers, .local_bytes = local_bytes, .live = registers - OWN_REGISTERS};
    gs_code code = compile_all(probe, &request, 1, error);
    if (code == GS_OK)
        *function = probe->kernels.data[probe->kernels.count - 1].function;
    return code;
}
