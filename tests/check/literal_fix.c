/*
 * literal_fix.c: whether a changed run works, in the most obvious way.
 *
 * A new run is made of the launches in their new order, with their changes, and played by the literal scheduler. It
 * works if every block started at its own launch.
 */
#include "literal.h"

#include <stdlib.h>

#define NONE SIZE_MAX

/* Local memory that is set up before: then the first kernel sets up as much. */
static void set_up_local(gs_launch *launch, int64_t bytes) {
    launch->shape.local_bytes = gs_max(launch->shape.local_bytes, bytes);
}

static void change(gs_launch *launch, size_t number, const gs_change *changes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (changes[i].kind == GS_FIX_LOCAL)
            set_up_local(launch, changes[i].to);
        if (changes[i].launch != number)
            continue;
        if (changes[i].kind == GS_FIX_CARVEOUT)
            launch->shape.carveout_percent = (int32_t)changes[i].to;
        if (changes[i].kind == GS_FIX_BLOCKS)
            launch->blocks = changes[i].to;
        if (changes[i].kind == GS_FIX_CLUSTER)
            launch->cluster = (int32_t)changes[i].to;
        if (changes[i].kind == GS_FIX_REGISTERS)
            launch->shape.registers = (int32_t)changes[i].to;
        if (changes[i].kind == GS_FIX_SHARED)
            launch->shape.shared_bytes = changes[i].to;
        if (changes[i].kind == GS_FIX_STREAM)
            launch->stream = NULL;
    }
}

static bool is_possible(const gs_gpu *gpu, const gs_launch *launch) {
    gs_occupancy occupancy;
    gs_occupancy_of(gpu, &launch->shape, &occupancy, NULL);
    return occupancy.blocks > 0 && (launch->cluster == 1 || gs_gpu_has_clusters(gpu));
}

static bool all_started(const gs_run *run, const gs_log *log) {
    int64_t blocks = 0, in_time = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        blocks += run->launches.data[i].blocks;
    for (size_t i = 0; i < log->count; i++)
        in_time += log->data[i].event == run->launches.data[log->data[i].launch].event;
    return in_time == blocks;
}

static bool plays_well(const gs_gpu *gpu, const gs_run *run) {
    gs_log log = {0};
    literal_play(gpu, run, &log);
    bool works = all_started(run, &log);
    free(log.data);
    return works;
}

/* The launches of `run` in this order, but only `alone` (or all but that). */
static bool part_works(const gs_gpu *gpu, const gs_run *run, const gs_change *changes, size_t count,
                       const size_t *order, size_t alone, bool on_part) {
    gs_run *changed = gs_run_new(NULL);
    bool works = changed != NULL;
    for (size_t i = 0; i < run->launches.count && works; i++) {
        size_t number = order ? order[i] : i;
        gs_launch launch = run->launches.data[number];
        if ((number == alone) != on_part)
            continue;
        change(&launch, number, changes, count);
        works = is_possible(gpu, &launch) && gs_run_copy_launch(changed, &launch, NULL) == GS_OK;
    }
    works = works && plays_well(gpu, changed);
    gs_run_free(changed);
    return works;
}

bool literal_works(const gs_gpu *gpu, const gs_run *run, const gs_change *changes, size_t count, const size_t *order) {
    size_t alone = NONE;
    int32_t sms = 0;
    for (size_t i = 0; i < count; i++)
        if (changes[i].kind == GS_FIX_GREEN) {
            alone = changes[i].launch;
            sms = (int32_t)changes[i].to;
        }
    if (alone == NONE)
        return part_works(gpu, run, changes, count, order, NONE, false);
    gs_gpu *part = gs_gpu_part(gpu, sms, NULL), *rest = gs_gpu_part(gpu, gpu->sms - sms, NULL);
    if (rest->limits.kernels_per_gpu > 1)
        rest->limits.kernels_per_gpu--; /* the other one is in the green context */
    bool works = part && rest && part_works(part, run, changes, count, order, alone, true) &&
                 part_works(rest, run, changes, count, order, alone, false);
    gs_gpu_free(part);
    gs_gpu_free(rest);
    return works;
}
