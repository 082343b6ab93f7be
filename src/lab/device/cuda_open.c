/*
 * cuda_open.c: a real GPU as a device: opened, split into green contexts, and closed.
 *
 * cuda_device.h lists the files that make up the device.
 */
#include "cuda_device.h"

#include <stdlib.h>
#include <string.h>

/* ---- green contexts ---- */

/* A kernel that fills a context shows which SMs it has. The caller frees the recording. */
static gs_run *play_in_context(gs_device *device, int32_t context, gs_error *error) {
    gs_launch launch = gs_launch_default();
    gs_launch_facts facts = gs_launch_facts_none();
    gs_play_options options = {0};
    const gs_limits *limits = &device->gpu->limits;
    facts.green_context = context;
    launch.issue.facts = &facts;
    launch.kernel = strdup("k");
    launch.blocks = 2 * (int64_t)device->gpu->sms;
    launch.shape = gs_shape_of(limits->threads_per_block, gs_generated_registers(1), 0);
    gs_run *run = launch.kernel ? gs_run_new(error) : NULL, *seen = NULL;
    if (run && gs_run_add_launch(run, &launch, error) == GS_OK)
        seen = gs_cuda_device_play(device, run, &options, error);
    gs_run_free(run);
    return seen;
}

/* Adds a context: the SMs that are in the recording. */
static gs_code add_context(gs_device *device, const gs_run *recorded, gs_error *error) {
    gs_green_contexts *contexts = &device->contexts;
    const gs_seen *seen = recorded->events.data[0].seen;
    bool *has = calloc((size_t)device->gpu->sms, sizeof *has);
    int32_t end = contexts->count ? contexts->ends[contexts->count - 1] : 0;
    if (!has)
        return gs_fail_memory(error);
    for (size_t i = 0; i < seen->placed.count; i++)
        if (seen->placed.data[i] >= 0 && seen->placed.data[i] < device->gpu->sms)
            has[seen->placed.data[i]] = true;
    for (int32_t sm = 0; sm < device->gpu->sms; sm++)
        if (has[sm])
            contexts->sms[end++] = (int16_t)sm;
    contexts->ends[contexts->count++] = end;
    free(has);
    return GS_OK;
}

static gs_code cuda_split(gs_device *device, gs_error *error) {
    struct cuda *cuda = device->inside;
    int32_t least, step, sms = device->gpu->sms / PARTS;
    gs_gpu_green_sizes(device->gpu, &least, &step);
    gs_code code = gs_cuda_green_all(&cuda->api, cuda->device, (int32_t)gs_max(sms / step * step, least), PARTS,
                                     cuda->contexts, &cuda->context_count, error);
    gs_green_contexts *contexts = &device->contexts;
    contexts->sms = calloc((size_t)PARTS * (size_t)device->gpu->sms, sizeof *contexts->sms);
    contexts->ends = calloc(PARTS, sizeof *contexts->ends);
    if (!contexts->sms || !contexts->ends)
        return gs_fail_memory(error);
    for (int32_t i = 0; i < cuda->context_count && code == GS_OK; i++) {
        gs_run *recorded = play_in_context(device, i, error);
        code = recorded ? add_context(device, recorded, error) : GS_E_NO_GPU;
        gs_run_free(recorded);
    }
    return code;
}

/* ---- opening ---- */

static gs_code open_memory(struct cuda *cuda, gs_error *error) {
    const cu_api *api = &cuda->api;
    void *memory = NULL;
    int failed = api->host_alloc(&memory, RECORD_BYTES, CU_HOST_MAPPED);
    cuda->memory = memory;
    if (!failed)
        failed = api->host_pointer(&cuda->memory_on_device, memory, 0);
    if (!failed)
        failed = api->alloc(&cuda->relays, GS_DEVICE_LAUNCHES * LINE);
    if (!failed)
        failed = api->set_bytes(cuda->relays, 0, GS_DEVICE_LAUNCHES * LINE);
    for (int i = 0; i < GS_DEVICE_LAUNCHES && !failed; i++)
        failed = api->stream_new(&cuda->streams[i], CU_STREAM_NON_BLOCKING, 0);
    if (!failed)
        memset(cuda->memory, 0, RECORD_BYTES);
    return gs_cuda_check(api, failed, "taking memory and streams", error);
}

/* The streams of a launch, in all contexts. */
static void free_streams(struct cuda *cuda, int number) {
    if (cuda->streams[number])
        cuda->api.stream_free(cuda->streams[number]);
    for (int i = 0; i < PARTS; i++)
        if (cuda->context_streams[i][number])
            cuda->api.stream_free(cuda->context_streams[i][number]);
}

static void free_timed(struct cuda *cuda, gs_timed *timed) {
    for (int i = 0; i < 2; i++)
        if (timed->beside[i] && timed->beside[i] != cuda->streams[i])
            cuda->api.stream_free(timed->beside[i]);
    gs_timed_close(timed, &cuda->api);
}

static void cuda_close(gs_device *device) {
    struct cuda *cuda = device->inside;
    gs_watchdog_end(cuda);
    if (cuda->has_context) {
        if (cuda->probe.api)
            gs_probe_close(&cuda->probe);
        free_timed(cuda, &cuda->timed[0]);
        free_timed(cuda, &cuda->timed[1]);
        for (int i = 0; i < GS_DEVICE_LAUNCHES; i++)
            free_streams(cuda, i);
        if (cuda->relays)
            cuda->api.free(cuda->relays);
        if (cuda->copied)
            cuda->api.free(cuda->copied);
        if (cuda->host_copied)
            cuda->api.host_free(cuda->host_copied);
        if (cuda->memory)
            cuda->api.host_free(cuda->memory);
        cuda->api.context_release(cuda->device);
    }
    gs_cuda_close(&cuda->api);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

static const gs_device_ops cuda_ops = {
    .name = "cuda", .play = gs_cuda_device_play, .close = cuda_close, .time = gs_cuda_device_time, .split = cuda_split};

static gs_code open_all(gs_device *device, const char *rest, gs_error *error) {
    struct cuda *cuda = device->inside;
    gs_code code = gs_cuda_open(&cuda->api, error);
    if (code == GS_OK)
        code = gs_cuda_open_gpu(&cuda->api, rest, &cuda->device, &cuda->has_context, error);
    if (code == GS_OK)
        code = open_memory(cuda, error);
    if (code == GS_OK)
        code = gs_probe_open(&cuda->probe, &cuda->api,
                             cuda_attribute(cuda, CU_DEVICE_MAJOR) * 10 + cuda_attribute(cuda, CU_DEVICE_MINOR),
                             cuda_attribute(cuda, CU_DEVICE_SHARED_OPTIN), error);
    if (code == GS_OK && !(device->gpu = gs_cuda_device_describe(cuda, error)))
        code = GS_E_MEMORY;
    if (code != GS_OK)
        return code;
    gs_cuda_name_gpu(&cuda->api, cuda->device, device->uuid, sizeof device->uuid, device->driver,
                     sizeof device->driver);
    device->clusters = cuda_attribute(cuda, CU_DEVICE_CLUSTERS) ? 8 : 1;
    device->connections = gs_cuda_connections();
    return gs_watchdog_start(cuda, error);
}

gs_device *gs_device_open_cuda(const char *rest, gs_error *error) {
    gs_device *device = calloc(1, sizeof *device);
    struct cuda *cuda = calloc(1, sizeof *cuda);
    if (!device || !cuda) {
        free(device);
        free(cuda);
        gs_fail_memory(error);
        return NULL;
    }
    pthread_mutex_init(&cuda->lock, NULL);
    *device = (gs_device){.ops = &cuda_ops, .inside = cuda};
    if (open_all(device, rest, error) == GS_OK)
        return device;
    gs_device_close(device);
    return NULL;
}
