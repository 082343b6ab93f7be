/*
 * clocks.c: the clock of the SMs and the power of the GPU while something runs again and again, for bench/pairs.
 *
 * A GPU lowers its clock when it needs too much power, and then two kernels that do not disturb each other look as if
 * they did. The clock is that of one SM: a single warp there reads the cycles and the nanoseconds that pass, and sleeps
 * in between. It requests all shared memory, because a busy SM keeps its configuration. The power is that of the
 * driver's energy counter (NVML), over the same time.
 */
#include "pairs.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

enum { ALL_SHARED = 100, BURSTS = 3 };
static const int64_t WARM_NS = 150000000, WATCHED_NS = 350000000, IDLE_NS = 60000000, BURST_NS = 3000000;

/* meter(found, ns): cycles and nanoseconds between two moments that are at least `ns` apart. */
static const char meter_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry meter(.param .u64 found, .param .u64 ns) {\n"
    "\t.reg .pred %p;\n\t.reg .b64 %found, %ns, %c, %t, %d, %u;\n"
    "\tld.param.u64 %found, [found];\n\tld.param.u64 %ns, [ns];\n"
    "\tmov.u64 %t, %globaltimer;\n$edge:\n\tmov.u64 %u, %globaltimer;\n\tsetp.eq.u64 %p, %u, %t;\n\t@%p bra $edge;\n"
    "\tmov.u64 %c, %clock64;\n"
    "$again:\n\tnanosleep.u32 1000;\n\tmov.u64 %t, %globaltimer;\n\tsub.u64 %d, %t, %u;\n"
    "\tsetp.lt.u64 %p, %d, %ns;\n\t@%p bra $again;\n"
    "$last:\n\tmov.u64 %d, %globaltimer;\n\tsetp.eq.u64 %p, %d, %t;\n\t@%p bra $last;\n"
    "\tmov.u64 %t, %clock64;\n\tsub.u64 %t, %t, %c;\n\tsub.u64 %d, %d, %u;\n"
    "\tst.global.u64 [%found], %t;\n\tst.global.u64 [%found+8], %d;\n\tret;\n}\n";

struct pair_meter {
    const pair_card *card;
    cu_module module;
    cu_function function;
    cu_stream stream;
    cu_pointer found;
    void *library, *device; /* NVML and its handle of the GPU; NULL: not available */
    int (*energy)(void *device, unsigned long long *millijoules);
};

/* ---- opening ---- */

static void open_energy(pair_meter *meter) {
    int (*init)(void) = NULL, (*get)(unsigned, void **) = NULL;
    meter->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!meter->library)
        return;
    *(void **)&init = dlsym(meter->library, "nvmlInit_v2");
    *(void **)&get = dlsym(meter->library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&meter->energy = dlsym(meter->library, "nvmlDeviceGetTotalEnergyConsumption");
    if (!init || !get || !meter->energy || init() != 0 || get((unsigned)meter->card->device, &meter->device) != 0)
        meter->device = NULL;
}

pair_meter *meter_open(const pair_card *card) {
    const char *list[] = {"meter"};
    gs_build build = {
        .name = "meter.ptx", .text = meter_text, .size = sizeof meter_text - 1, .kernels = list, .kernel_count = 1};
    gs_cubin cubin;
    gs_error error;
    pair_meter *meter = calloc(1, sizeof *meter);
    if (!meter || gs_cubin_make(&build, card->architecture, &cubin, &error) != GS_OK) {
        free(meter);
        return NULL;
    }
    meter->card = card;
    int failed = card->api.module_load(&meter->module, cubin.image);
    failed = failed ? failed : card->api.module_function(&meter->function, meter->module, "meter");
    failed = failed ? failed : card->api.function_set(meter->function, CU_FUNCTION_CARVEOUT, ALL_SHARED);
    failed = failed ? failed : card->api.stream_new(&meter->stream, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : card->api.alloc(&meter->found, 2 * sizeof(uint64_t));
    gs_cubin_free(&cubin);
    open_energy(meter);
    if (card_check(card, failed, "loading the meter"))
        return meter;
    meter_close(meter);
    return NULL;
}

void meter_close(pair_meter *meter) {
    if (!meter)
        return;
    if (meter->found)
        meter->card->api.free(meter->found);
    if (meter->stream)
        meter->card->api.stream_free(meter->stream);
    if (meter->module)
        meter->card->api.module_unload(meter->module);
    if (meter->library)
        dlclose(meter->library);
    free(meter);
}

/* ---- watching ---- */

static double joules(const pair_meter *meter) {
    unsigned long long millijoules = 0;
    return meter->device && meter->energy(meter->device, &millijoules) == 0 ? (double)millijoules / 1e3 : 0;
}

static int start_meter(const pair_meter *meter, int64_t watched_ns) {
    uint64_t ns = (uint64_t)watched_ns;
    void *arguments[] = {(void *)(uintptr_t)&meter->found, &ns};
    cu_launch config = {.grid_x = 1, .grid_y = 1, .grid_z = 1, .block_x = 1, .block_y = 1, .block_z = 1};
    config.stream = meter->stream;
    return meter->card->api.launch(&config, meter->function, arguments, NULL);
}

/* The clock since the meter was started, when it has ended. 0: not known. */
static double read_meter(const pair_meter *meter) {
    const cu_api *api = &meter->card->api;
    uint64_t found[2] = {0, 0};
    int failed = api->stream_wait(meter->stream);
    failed = failed ? failed : api->copy_out(found, meter->found, sizeof found);
    return card_check(meter->card, failed, "the meter") && found[1] ? 1e3 * (double)found[0] / (double)found[1] : 0;
}

/* The mean of some bursts, each after the GPU was idle. */
static double burst_mhz(const pair_meter *meter, double (*round)(void *context), void *context) {
    double sum = 0;
    for (int i = 0; i < BURSTS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = IDLE_NS}, NULL);
        if (!card_check(meter->card, start_meter(meter, BURST_NS), "the meter") || round(context) <= 0)
            return 0;
        sum += read_meter(meter) / BURSTS;
    }
    return sum;
}

bool meter_watch(pair_meter *meter, double (*round)(void *context), void *context, pair_clock *clock) {
    *clock = (pair_clock){.burst_mhz = burst_mhz(meter, round, context)};
    for (int64_t began_ns = gs_now_ns(); gs_now_ns() - began_ns < WARM_NS;)
        if (round(context) <= 0)
            return false;
    double before = joules(meter);
    int64_t began_ns = gs_now_ns();
    if (!card_check(meter->card, start_meter(meter, WATCHED_NS), "the meter"))
        return false;
    while (gs_now_ns() - began_ns < WATCHED_NS) {
        double ms = round(context);
        if (ms <= 0)
            break;
        clock->round_ms += ms;
        clock->rounds++;
    }
    clock->watts = (joules(meter) - before) / ((double)(gs_now_ns() - began_ns) / 1e9);
    clock->mhz = read_meter(meter);
    clock->round_ms /= clock->rounds ? clock->rounds : 1;
    return clock->mhz > 0 && clock->rounds > 0;
}
