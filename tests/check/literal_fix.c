/*
 * literal_fix.c: whether a changed run works, in the most obvious way.
 *
 * A new run is made of the launches in their new order, with their changes, and played by the literal scheduler. It
 * works if every block started at its own launch.
 */
#include "literal.h"

#include <stdlib.h>

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

/* The first SMs for one kernel, the others for all others. */
static bool add_contexts(gs_run *run, const gs_gpu *gpu, int32_t sms) {
    int16_t *all = malloc((size_t)gpu->sms * sizeof *all);
    int32_t *ends = malloc(2 * sizeof *ends);
    for (int32_t i = 0; all && i < gpu->sms; i++)
        all[i] = (int16_t)i;
    if (ends)
        ends[0] = sms, ends[1] = gpu->sms;
    run->green_contexts = (gs_green_contexts){all, ends, 2};
    return all && ends;
}

bool literal_works(const gs_gpu *gpu, const gs_run *run, const gs_change *changes, size_t count, const size_t *order) {
    const gs_change *green = NULL;
    for (size_t i = 0; i < count; i++)
        green = changes[i].kind == GS_FIX_GREEN ? &changes[i] : green;
    gs_run *changed = gs_run_new(NULL);
    bool works = changed && (!green || add_contexts(changed, gpu, (int32_t)green->to));
    for (size_t i = 0; i < run->launches.count && works; i++) {
        size_t number = order ? order[i] : i;
        gs_launch launch = run->launches.data[number];
        gs_launch_facts facts = launch.issue.facts ? *launch.issue.facts : gs_launch_facts_none();
        change(&launch, number, changes, count);
        if (green) {
            facts.green_context = number != green->launch;
            launch.issue.facts = &facts;
        }
        works = is_possible(gpu, &launch) && gs_run_copy_launch(changed, &launch, NULL) == GS_OK;
    }
    works = works && plays_well(gpu, changed);
    gs_run_free(changed);
    return works;
}
