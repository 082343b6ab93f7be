/*
 * probe.c: the probe kernel, and how it is made to use exactly as many registers as requested.
 *
 * A block of the probe reports its SM, the hardware slots of its warps and when it started. Then it waits: until it is
 * stopped, or for the duration that the host put into its `end`. At last it reports when it ended. All of this is in
 * host memory, so the host sees it while the kernel runs. Only block 0 polls the stop word in host memory, across the
 * bus, and copies it to device memory for the others: thousands of blocks that poll host memory would be slow. The
 * parts of a report arrive in any order. Fences, which would order them, make a launch slower by 3 us (H200,
 * 2026-11-16), so the host waits for each part of a report instead.
 *
 * The kernel is PTX, which the driver itself compiles, so that a machine needs nothing but a driver. It is written here
 * for the GPU at hand: GPUs from Hopper on can trigger dependents, and GPUs before Volta cannot sleep.
 *
 * Registers: each thread loads `live` words before the wait and uses them after it, so it must keep them. Volatile
 * loads cannot be moved over the barrier, dropped or repeated, so more live words need more registers. Each thread has
 * an address of its own, because newer GPUs keep what is the same for a whole warp in other registers. `.maxnreg` is
 * the requested number: without it the compiler sometimes uses several more than it needs, and skips some numbers. Too
 * many live words would go to local memory then. So gs_probe_open guesses `live`, asks the driver how many registers
 * and how much local memory the kernel has, and compiles again what is not exact. With ptxas of CUDA 13.0 the first
 * guess is exact for every architecture from sm_75 to sm_121.
 */
#include "probe.h"
#include "model/run/run.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Offsets in `arguments` are those of probe_arguments. */
_Static_assert(offsetof(probe_arguments, slots) == 8 && offsetof(probe_arguments, start) == 16 &&
                   offsetof(probe_arguments, end) == 24 && offsetof(probe_arguments, stop) == 32 &&
                   offsetof(probe_arguments, relay) == 40 && offsetof(probe_arguments, is_timed) == 48 &&
                   offsetof(probe_arguments, warps) == 56 && offsetof(probe_arguments, generation) == 60 &&
                   offsetof(probe_arguments, triggers) == 64 && sizeof(probe_arguments) == 72,
               "the PTX below has other offsets");

/* The first thread of a warp reports its slot. */
static const char report_slots[] = "    mov.u64 %began, %globaltimer;\n"
                                   "    mov.u32 %thread, %tid.x;\n"
                                   "    mov.u32 %block, %ctaid.x;\n"
                                   "    mov.u32 %sm, %smid;\n"
                                   "    mov.u32 %slot, %warpid;\n"
                                   "    ld.param.u64 %sms, [arguments];\n"
                                   "    ld.param.u64 %relay, [arguments+40];\n"
                                   "    and.b32 %lane, %thread, 31;\n"
                                   "    setp.ne.u32 %p, %lane, 0;\n"
                                   "    @%p bra REPORTED;\n"
                                   "    ld.param.u64 %at, [arguments+8];\n"
                                   "    ld.param.u32 %word, [arguments+56];\n"
                                   "    shr.u32 %warp, %thread, 5;\n"
                                   "    mad.lo.u32 %word, %block, %word, %warp;\n"
                                   "    cvt.u64.u32 %time, %word;\n"
                                   "    add.u64 %at, %at, %time;\n"
                                   "    st.volatile.global.u8 [%at], %slot;\n"
                                   "REPORTED:\n";

static const char trigger_dependents[] = "    ld.param.u64 %time, [arguments+64];\n"
                                         "    setp.ne.u64 %p, %time, 0;\n"
                                         "    @%p griddepcontrol.launch_dependents;\n";

/* The first thread of the block reports when it started, and its SM. All threads know until when they wait. */
static const char report_start[] = "    setp.ne.u32 %other, %thread, 0;\n"
                                   "    @%other bra STARTED;\n"
                                   "    ld.param.u64 %at, [arguments+16];\n"
                                   "    mad.wide.u32 %at, %block, 8, %at;\n"
                                   "    st.volatile.global.u64 [%at], %began;\n"
                                   "    mad.wide.u32 %at, %block, 4, %sms;\n"
                                   "    add.u32 %sm, %sm, 1;\n"
                                   "    st.volatile.global.u32 [%at], %sm;\n"
                                   "STARTED:\n"
                                   "    mov.u32 %sum, 0;\n"
                                   "    mov.u64 %until, %began;\n"
                                   "    ld.param.u64 %time, [arguments+48];\n"
                                   "    setp.eq.u64 %endless, %time, 0;\n"
                                   "    @%endless bra BEGUN;\n"
                                   "    ld.param.u64 %at, [arguments+24];\n"
                                   "    mad.wide.u32 %at, %block, 8, %at;\n"
                                   "    ld.global.u64 %time, [%at];\n"
                                   "    add.u64 %until, %until, %time;\n"
                                   "BEGUN:\n";

/* The address of a byte of local memory, another one for each thread, so that it must be in memory. */
static const char find_local[] = "    rem.u32 %%word, %%thread, %lld;\n"
                                 "    cvt.u64.u32 %%time, %%word;\n"
                                 "    mov.u64 %%at, local;\n"
                                 "    cvta.local.u64 %%at, %%at;\n"
                                 "    add.u64 %%at, %%at, %%time;\n";

/* The first thread of the block waits. In between there are pauses. */
static const char wait_for_time[] = "    @%other bra WAITED;\n"
                                    "    @%endless bra ENDLESS;\n"
                                    "TIMED:\n"
                                    "    mov.u64 %time, %globaltimer;\n"
                                    "    setp.ge.u64 %p, %time, %until;\n"
                                    "    @%p bra WAITED;\n";
static const char wait_for_stop[] = "    bra TIMED;\n"
                                    "ENDLESS:\n"
                                    "    ld.param.u32 %generation, [arguments+60];\n"
                                    "    mov.u64 %at, %relay;\n"
                                    "    setp.ne.u32 %p, %block, 0;\n"
                                    "    @%p bra POLL;\n"
                                    "    ld.param.u64 %at, [arguments+32];\n"
                                    "POLL:\n"
                                    "    ld.volatile.global.u32 %word, [%at];\n"
                                    "    setp.eq.u32 %p, %word, %generation;\n"
                                    "    @%p bra STOPPED;\n";
static const char waited[] = "    bra POLL;\n"
                             "STOPPED:\n"
                             "    st.volatile.global.u32 [%relay], %generation;\n"
                             "WAITED:\n"
                             "    bar.sync 0;\n";

/* The sum is never used, because no block has that many threads, but the compiler does not know that. */
static const char report_end[] = "    @%other bra ENDED;\n"
                                 "    ld.param.u64 %at, [arguments+24];\n"
                                 "    mad.wide.u32 %at, %block, 8, %at;\n"
                                 "    mov.u64 %time, %globaltimer;\n"
                                 "    st.global.u64 [%at], %time;\n"
                                 "ENDED:\n"
                                 "    setp.ne.u32 %p, %sum, 0x9e3779b9;\n"
                                 "    @%p bra DONE;\n"
                                 "    setp.le.u32 %p, %thread, 2000;\n"
                                 "    @%p bra DONE;\n"
                                 "    st.global.u32 [%sms], %sum;\n"
                                 "DONE:\n"
                                 "    ret;\n"
                                 "}\n";

/* A kernel to compile, and how many live words it is compiled with. */
struct request {
    int32_t registers;
    int64_t local_bytes;
    int live;
    bool is_done;
};

enum { MOST_ROUNDS = 16, OWN_REGISTERS = 8, LOCAL_REGISTERS = 1 };

static struct request request_of(int32_t registers, int64_t local_bytes) {
    int live = registers - OWN_REGISTERS - (local_bytes ? LOCAL_REGISTERS : 0);
    return (struct request){.registers = registers, .local_bytes = local_bytes, .live = live};
}

/* ---- the kernel ---- */

static void put_pause(gs_text *text, int architecture, int nanoseconds) {
    if (architecture >= 70)
        gs_text_add(text, "    nanosleep.u32 %d;\n", nanoseconds);
}

static void put_registers(gs_text *text, const struct request *request) {
    gs_text_add(text, "    .reg .pred %%p, %%other, %%endless;\n"
                      "    .reg .b32 %%thread, %%lane, %%warp, %%block, %%sm, %%slot, %%sum, %%word, %%generation;\n"
                      "    .reg .b64 %%began, %%until, %%time, %%at, %%sms, %%relay;\n");
    if (request->live)
        gs_text_add(text, "    .reg .b32 %%live<%d>;\n", request->live);
    if (request->local_bytes)
        gs_text_add(text, "    .local .align 8 .b8 local[%lld];\n", (long long)request->local_bytes);
}

static void put_wait(gs_text *text, int architecture) {
    gs_text_put(text, wait_for_time, sizeof wait_for_time - 1);
    put_pause(text, architecture, 20);
    gs_text_put(text, wait_for_stop, sizeof wait_for_stop - 1);
    put_pause(text, architecture, 100);
    gs_text_put(text, waited, sizeof waited - 1);
}

static void put_local(gs_text *text, const struct request *request, const char *use) {
    if (!request->local_bytes)
        return;
    gs_text_add(text, find_local, (long long)request->local_bytes);
    gs_text_add(text, "%s", use);
}

static void put_kernel(gs_text *text, const struct request *request, size_t number, int architecture) {
    gs_text_add(text, ".visible .entry probe_%zu(.param .align 8 .b8 arguments[72])\n.maxnreg %d\n{\n", number,
                request->registers);
    put_registers(text, request);
    gs_text_put(text, report_slots, sizeof report_slots - 1);
    if (architecture >= 90)
        gs_text_put(text, trigger_dependents, sizeof trigger_dependents - 1);
    gs_text_put(text, report_start, sizeof report_start - 1);
    put_local(text, request, "    st.volatile.u8 [%at], %slot;\n");
    gs_text_add(text, "    mad.wide.u32 %%at, %%lane, 4, %%relay;\n");
    for (int i = 0; i < request->live; i++)
        gs_text_add(text, "    ld.volatile.global.u32 %%live%d, [%%at];\n", i);
    put_wait(text, architecture);
    for (int i = 0; i < request->live; i++)
        gs_text_add(text, "    xor.b32 %%sum, %%sum, %%live%d;\n", i);
    put_local(text, request, "    ld.volatile.u8 %word, [%at];\n    add.u32 %sum, %sum, %word;\n");
    gs_text_put(text, report_end, sizeof report_end - 1);
}

/* PTX for a GPU runs on all later ones, so the oldest that has what is needed will do. */
static void put_module(gs_text *text, const struct request *requests, size_t count, int architecture) {
    bool is_hopper = architecture >= 90;
    gs_text_add(text, ".version %s\n.target sm_%d\n.address_size 64\n", is_hopper ? "7.8" : "6.3",
                is_hopper ? 90 : (int)gs_min(architecture, 75));
    for (size_t i = 0; i < count; i++)
        if (!requests[i].is_done)
            put_kernel(text, &requests[i], i, architecture);
}

bool gs_probe_text(gs_text *text, int architecture, int64_t local_bytes) {
    struct request requests[64];
    size_t count = 0;
    for (int32_t registers; (registers = gs_generated_registers(count)); count++)
        requests[count] = request_of(registers, local_bytes);
    put_module(text, requests, count, architecture);
    return !text->failed;
}

/* ---- checking the result ---- */

static gs_code add_kernel(gs_probe *probe, const cu_kernel *found, gs_error *error) {
    cu_kernel *kernel = GS_RESERVE(&probe->kernels, 1) ? malloc(sizeof *kernel) : NULL;
    if (!kernel)
        return gs_fail_memory(error);
    *kernel = *found;
    probe->kernels.data[probe->kernels.count++] = kernel;
    return gs_cuda_check(probe->api,
                         gs_cuda_kernel_allow_shared(probe->api, kernel, (uint64_t)probe->most_shared_bytes),
                         "allowing the probe all shared memory", error);
}

/* Words in local memory are too many. In the first rounds by the difference; if that is not exact in the end, one more,
   one less, two more, two less ... */
static void next_guess(struct request *request, int registers, int local, int round) {
    enum { BY_RESULT = 8 };
    int change = request->registers - registers, sweep = round - BY_RESULT + 1;
    if (round < BY_RESULT && local > request->local_bytes)
        request->live--;
    else if (round < BY_RESULT)
        request->live += change > 2 ? change - 1 : change > 0 ? 1 : change < -2 ? change + 1 : -1;
    else
        request->live += sweep % 2 ? sweep : -sweep;
    request->live = (int)gs_max(request->live, 0);
}

/* Keeps the kernel if it is exact, otherwise makes the next guess. */
static gs_code check_kernel(gs_probe *probe, cu_module module, struct request *request, size_t number, int round,
                            gs_error *error) {
    char name[32];
    cu_kernel kernel;
    snprintf(name, sizeof name, "probe_%zu", number);
    int failed = gs_cuda_kernel_find(probe->api, module, name, &kernel);
    if (failed)
        return gs_cuda_check(probe->api, failed, "loading the probe", error);
    if (kernel.registers == request->registers && kernel.local_bytes == request->local_bytes) {
        request->is_done = true;
        return add_kernel(probe, &kernel, error);
    }
    next_guess(request, kernel.registers, kernel.local_bytes, round);
    return GS_OK;
}

static gs_code compile_round(gs_probe *probe, struct request *requests, size_t count, int round, gs_error *error) {
    gs_text text = {0};
    put_module(&text, requests, count, probe->architecture);
    gs_code code = text.failed ? gs_fail_memory(error) : GS_OK;
    if (code == GS_OK)
        code = gs_cuda_check(probe->api, gs_modules_load(&probe->modules, probe->api, text.data), "compiling the probe",
                             error);
    gs_text_free(&text);
    for (size_t i = 0; i < count && code == GS_OK; i++)
        if (!requests[i].is_done)
            code = check_kernel(probe, probe->modules.data[probe->modules.count - 1], &requests[i], i, round, error);
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
        requests[count] = request_of(registers, 0);
    gs_code code = compile_all(probe, requests, count, error);
    if (code != GS_OK)
        gs_probe_close(probe);
    return code;
}

void gs_probe_close(gs_probe *probe) {
    gs_modules_unload(&probe->modules, probe->api);
    for (size_t i = 0; i < probe->kernels.count; i++)
        free(probe->kernels.data[i]);
    free(probe->kernels.data);
    *probe = (gs_probe){0};
}

gs_code gs_probe_find(gs_probe *probe, int32_t registers, int64_t local_bytes, size_t copy, cu_kernel **kernel,
                      gs_error *error) {
    for (size_t i = 0; i < probe->kernels.count; i++) {
        *kernel = probe->kernels.data[i];
        if ((*kernel)->registers == registers && (*kernel)->local_bytes == local_bytes && !copy--)
            return GS_OK;
    }
    if (registers < 24 || registers > 255 || local_bytes < 0 || local_bytes > 1 << 16)
        return gs_fail(error, GS_E_USAGE,
                       "the probe has kernels of 24 to 255 registers and up to 64 KB of local memory a thread, not of "
                       "%d registers and %lld bytes",
                       registers, (long long)local_bytes);
    struct request request = request_of(registers, local_bytes);
    gs_code code = compile_all(probe, &request, 1, error);
    if (code == GS_OK)
        *kernel = probe->kernels.data[probe->kernels.count - 1];
    return code;
}
