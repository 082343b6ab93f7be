/*
 * device.c: what all devices have in common.
 */
#include "device.h"

#include <stdlib.h>

gs_device *gs_device_new(const gs_device_ops *ops, gs_gpu *gpu, void *inside, gs_error *error) {
    gs_device *device = calloc(1, sizeof *device);
    if (!device) {
        gs_fail_memory(error);
        return NULL;
    }
    *device = (gs_device){.ops = ops, .gpu = gpu, .clusters = 1, .inside = inside};
    return device;
}

void gs_device_close(gs_device *device) {
    if (!device)
        return;
    if (device->ops->close)
        device->ops->close(device);
    gs_green_clear(&device->contexts);
    gs_gpu_free(device->gpu);
    free(device);
}

gs_run *gs_device_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error) {
    static const gs_play_options none = {0};
    return device->ops->play(device, run, options ? options : &none, error);
}

gs_code gs_device_time(gs_device *device, const gs_timing_request *request, gs_timing *timing, gs_error *error) {
    if (!device->ops->time)
        return gs_fail(error, GS_E_USAGE, "only a real GPU can be timed: use cuda, not %s", device->ops->name);
    return device->ops->time(device, request, timing, error);
}

gs_code gs_device_split(gs_device *device, gs_error *error) {
    if (device->contexts.count)
        return GS_OK;
    if (!device->ops->split)
        return gs_fail(error, GS_E_USAGE, "a device of kind %s cannot make green contexts", device->ops->name);
    return device->ops->split(device, error);
}

gs_bounds gs_bounds_of(const gs_gpu *gpu, int32_t largest_cluster) {
    return (gs_bounds){.sms = gpu->sms,
                       .blocks_per_sm = gpu->limits.blocks_per_sm,
                       .threads_per_sm = gpu->limits.threads_per_sm,
                       .threads_per_block = gpu->limits.threads_per_block,
                       .warp_threads = gpu->limits.warp_threads,
                       .partitions_per_sm = gpu->limits.partitions_per_sm,
                       .registers_per_sm = gpu->limits.registers_per_sm,
                       .shared_per_block_bytes = gpu->limits.shared_per_block_bytes,
                       .shared_per_sm_bytes = gpu->largest_config_bytes,
                       .shared_reserved_bytes = gpu->limits.shared_reserved_bytes,
                       .largest_cluster = largest_cluster};
}

gs_bounds gs_device_bounds(const gs_device *device) {
    gs_bounds bounds = gs_bounds_of(device->gpu, device->clusters);
    bounds.contexts = device->contexts.count ? &device->contexts : NULL;
    bounds.connections = device->connections;
    return bounds;
}
