/*
 * cuda_timing.c: a timed kernel on a GPU: how long its warps take, by the clocks of their SMs.
 */
#include "cuda_device.h"

#include <stdlib.h>
#include <string.h>

/* The reports of a timed kernel. */
struct reports {
    uint32_t *sm;
    uint64_t *start, *end;
};

/* Divides the host memory into the parts for blocks and warps to report to, and sets the arguments of the kernel. */
static struct reports lay_out_reports(struct cuda *cuda, const gs_timed *timed, const gs_timing_request *request,
                                      timed_arguments *arguments) {
    size_t warps = (size_t)request->blocks * (size_t)request->warps, start = round_up_line((size_t)request->blocks * 4);
    size_t end = start + round_up_line(warps * 8);
    memset(cuda->memory, 0, end + warps * 8);
    *arguments = (timed_arguments){.sm = cuda->memory_on_device,
                                   .start = cuda->memory_on_device + start,
                                   .end = cuda->memory_on_device + end,
                                   .arrived = timed->memory,
                                   .go = timed->memory + TIMED_GO_OFFSET,
                                   .data = timed->data,
                                   .data_mask = timed->data_mask,
                                   .blocks = (uint32_t)request->blocks,
                                   .one = 1,
                                   .rate = (uint32_t)request->rate,
                                   .singles = (uint32_t)(request->singles ? request->singles : GS_TIMED_SINGLES),
                                   .is_together = request->is_together,
                                   .is_beside = request->is_beside ? 1 + request->is_writing : 0,
                                   .few = (uint32_t)(request->few ? request->few : request->warps)};
    if (request->data_bytes)
        arguments->data_mask &= (uint32_t)(request->data_bytes / TIMED_UNIT_BYTES - 1);
    return (struct reports){.sm = (uint32_t *)(void *)cuda->memory,
                            .start = (uint64_t *)(void *)(cuda->memory + start),
                            .end = (uint64_t *)(void *)(cuda->memory + end)};
}

static gs_code launch_timed(struct cuda *cuda, const gs_timed *timed, timed_kernel *kernel,
                            const gs_timing_request *request, timed_arguments *arguments, int32_t warp_threads,
                            gs_error *error) {
    const cu_api *api = &cuda->api;
    void *parameters[] = {arguments};
    const cu_call call = {.grid = {(uint32_t)request->blocks, 1, 1},
                          .block = {(uint32_t)(request->warps * warp_threads), 1, 1},
                          .stream = cuda->streams[0]};
    int failed = api->set_bytes(timed->memory, 0, TIMED_BYTES);
    if (!failed)
        failed = api->synchronize();
    if (!failed)
        failed = gs_cuda_launch(api, &kernel->kernel, &call, parameters);
    return gs_cuda_check(api, failed, "launching the timed kernel", error);
}

static gs_code wait_for_stream(struct cuda *cuda, cu_stream stream, gs_error *error) {
    int state = gs_cuda_wait_until(&cuda->api, stream, gs_now_ns() + 3 * (int64_t)STUCK_NS);
    if (state == CU_ERROR_NOT_READY)
        return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: a timed kernel does not end");
    return gs_cuda_check(&cuda->api, state, "timing", error);
}

/* The times of the warps, or of all warps of an SM together, and the number of blocks on each SM. */
static gs_code read_reports(const struct reports *reports, const gs_timing_request *request, int32_t sms,
                            gs_timing *timing, gs_error *error) {
    struct of_sm {
        int32_t blocks;
        uint64_t first, last, end;
    } *on = calloc((size_t)sms, sizeof *on);
    gs_code code = on ? GS_OK : gs_fail_memory(error);
    for (int64_t block = 0; block < request->blocks && code == GS_OK; block++) {
        uint32_t sm = gs_shared_word(&reports->sm[block]) - 1;
        if (sm >= (uint32_t)sms) {
            code = gs_fail(error, GS_E_NO_GPU, "block %lld of a timed kernel has not reported", (long long)block);
            break;
        }
        timing->sms += !on[sm].blocks;
        timing->most_on_sm = (int32_t)gs_max(timing->most_on_sm, ++on[sm].blocks);
        for (int64_t i = block * request->warps; i < (block + 1) * request->warps; i++) {
            uint64_t start = reports->start[i];
            int64_t taken = (int64_t)(reports->end[i] - start);
            timing->cycles = gs_max(timing->cycles, taken);
            timing->shortest = timing->shortest ? gs_min(timing->shortest, taken) : taken;
            on[sm].end = gs_max_u64(on[sm].end, reports->end[i]);
            on[sm].first = on[sm].first ? gs_min_u64(on[sm].first, start) : start;
            on[sm].last = gs_max_u64(on[sm].last, start);
            timing->skew = gs_max(timing->skew, (int64_t)(on[sm].last - on[sm].first));
        }
    }
    for (int32_t sm = 0, is_first = true; sm < sms && code == GS_OK && request->is_of_sm; sm++) {
        int64_t taken = (int64_t)(on[sm].end - on[sm].first);
        if (!on[sm].blocks)
            continue;
        timing->cycles = is_first ? taken : gs_max(timing->cycles, taken);
        timing->shortest = is_first ? taken : gs_min(timing->shortest, taken);
        is_first = false;
    }
    free(on);
    return code;
}

/* Whether a request can be played. Its reports must fit in the host memory. */
static bool request_fits(const gs_device *device, const gs_timing_request *request) {
    const gs_limits *limits = &device->gpu->limits;
    int64_t sms = device->gpu->sms, most = sms * GS_TIMED_MOST_WARPS;
    if ((int32_t)request->body == GS_TIMED_EMPTY)
        most = RECORD_BYTES / (int64_t)sizeof(uint32_t) / 16;
    return request->warps >= 1 && request->warps * limits->warp_threads <= limits->threads_per_block &&
           sms <= TIMED_MOST_SMS && request->blocks <= most;
}

/* ---- launches ---- */

/* Launches an empty kernel again and again, between two events each. All wait behind a kernel that takes a hundredth of
   a second, so that the host is done before the first of them begins. */
static int queue_launches(struct cuda *cuda, timed_kernel *hold, timed_kernel *kernel, const cu_call *call,
                          timed_arguments *arguments, cu_event (*events)[2]) {
    const cu_api *api = &cuda->api;
    void *parameters[] = {arguments};
    const cu_call first = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = call->stream};
    arguments->blocks = 1;
    int failed = gs_cuda_launch(api, &hold->kernel, &first, parameters);
    for (int i = 0; i < GS_TIMED_LAUNCHES && !failed; i++) {
        failed = api->event_record(events[i][0], call->stream);
        failed = failed ? failed : gs_cuda_launch(api, &kernel->kernel, call, parameters);
        failed = failed ? failed : api->event_record(events[i][1], call->stream);
    }
    return failed;
}

/* A stream for launches on half of the SMs, and one for the kernels beside them on the others; two on all SMs, if the
   driver cannot set SMs aside. */
static void choose_streams(struct cuda *cuda, gs_timed *timed, int32_t sms) {
    gs_error ignored;
    cu_stream made[2] = {NULL, NULL};
    if (timed->beside[0])
        return;
    if (gs_cuda_green_two(&cuda->api, cuda->device, sms / 2, &made[0], &made[1], &ignored) == GS_OK) {
        memcpy(timed->beside, made, sizeof made);
        return;
    }
    if (made[0])
        cuda->api.stream_free(made[0]);
    memcpy(timed->beside, cuda->streams, sizeof made);
}

/* Many short kernels that use the memory, on another stream, for longer than the launches take. */
static int queue_busy(struct cuda *cuda, cu_stream stream, timed_kernel *busy, int32_t sms,
                      timed_arguments *arguments) {
    enum { KERNELS = 800, THREADS = 1024 };
    void *parameters[] = {arguments};
    const cu_call call = {.grid = {(uint32_t)sms, 1, 1}, .block = {THREADS, 1, 1}, .stream = stream};
    int failed = 0;
    for (int i = 0; i < KERNELS && !failed; i++)
        failed = gs_cuda_launch(&cuda->api, &busy->kernel, &call, parameters);
    return failed;
}

static gs_code time_launches(struct cuda *cuda, const gs_timed *timed, const gs_timing_request *request,
                             const cu_call *call, timed_arguments *arguments, gs_timing *timing, gs_error *error) {
    const cu_api *api = &cuda->api;
    timed_kernel *kernel = gs_timed_find(timed, request->body, 0);
    cu_event events[GS_TIMED_LAUNCHES][2] = {{NULL}};
    int failed = api->set_bytes(timed->memory, 0, TIMED_BYTES);
    for (int i = 0; i < 2 * GS_TIMED_LAUNCHES && !failed; i++)
        failed = api->event_new(&events[i / 2][i % 2], 0);
    if (!failed)
        failed = api->synchronize();
    if (!failed)
        failed = queue_launches(cuda, gs_timed_find(timed, (gs_timed_body)GS_TIMED_CLOCK, 0), kernel, call, arguments,
                                events);
    if (!failed && request->count == GS_TIMED_BUSY)
        failed = queue_busy(cuda, timed->beside[1], gs_timed_find(timed, request->body, GS_TIMED_BUSY),
                            (int32_t)arguments->sms, arguments);
    gs_code code = gs_cuda_check(api, failed, "timing launches", error);
    if (code == GS_OK)
        code = wait_for_stream(cuda, call->stream, error);
    for (int i = 0; i < GS_TIMED_LAUNCHES && code == GS_OK; i++) {
        float ms = 0;
        code = gs_cuda_check(api, api->event_elapsed(&ms, events[i][0], events[i][1]), "timing launches", error);
        int64_t ns = (int64_t)((double)ms * 1e6);
        timing->ns = gs_max(timing->ns, ns);
        timing->least_ns = i ? gs_min(timing->least_ns, ns) : ns;
    }
    if (code == GS_OK)
        code = gs_cuda_check(api, api->synchronize(), "timing launches", error);
    for (int i = 0; i < 2 * GS_TIMED_LAUNCHES; i++)
        if (events[i / 2][i % 2])
            api->event_free(events[i / 2][i % 2]);
    return code;
}

gs_code gs_cuda_device_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error) {
    struct cuda *cuda = device->inside;
    bool has_classes = (int32_t)request->body >= GS_TIMED_EMPTY;
    gs_timed *timed = &cuda->timed[has_classes];
    int32_t warp_threads = device->gpu->limits.warp_threads, sms = device->gpu->sms;
    int architecture = cuda_attribute(cuda, CU_DEVICE_MAJOR) * 10 + cuda_attribute(cuda, CU_DEVICE_MINOR);
    gs_code code = gs_nvrtc_add(&cuda->api, error);
    if (code == GS_OK && !timed->modules.count)
        code = gs_timed_open(timed, &cuda->api, architecture, has_classes, error);
    if (code != GS_OK)
        return code;
    timed_kernel *kernel = gs_timed_find(timed, request->body, request->count);
    if (!kernel || !request_fits(device, request))
        return gs_fail(error, GS_E_USAGE, "no such timed kernel");
    *timing = (gs_timing){
        .shape = gs_shape_of(request->warps * warp_threads, kernel->kernel.registers, kernel->kernel.shared_bytes)};
    if (!request->blocks)
        return GS_OK;
    timed_arguments arguments;
    struct reports reports = lay_out_reports(cuda, timed, request, &arguments);
    arguments.sms = (uint32_t)sms;
    if ((int32_t)request->body == GS_TIMED_EMPTY) {
        if (request->count == GS_TIMED_BUSY)
            choose_streams(cuda, timed, sms);
        const cu_call call = {.grid = {(uint32_t)request->blocks, 1, 1},
                              .block = {(uint32_t)(request->warps * warp_threads), 1, 1},
                              .stream = request->count == GS_TIMED_BUSY ? timed->beside[0] : cuda->streams[0]};
        return time_launches(cuda, timed, request, &call, &arguments, timing, error);
    }
    code = launch_timed(cuda, timed, kernel, request, &arguments, warp_threads, error);
    if (code == GS_OK)
        code = wait_for_stream(cuda, cuda->streams[0], error);
    return code == GS_OK ? read_reports(&reports, request, sms, timing, error) : code;
}
