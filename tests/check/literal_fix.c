/*
 * literal_fix.c: whether a changed run works, in the most obvious way.
 *
 * A new run is made in which the changes are what a programmer would do: launches in their new order and with their
 * changes, a kernel that is run once before is a launch and an exit at the beginning, and green contexts are those of
 * the run. The literal scheduler plays it. It works if every block started at its own launch.
 */
#include "literal.h"

#include <stdlib.h>

static void change(gs_launch *launch, size_t number, const gs_change *changes, size_t count) {
    for (size_t i = 0; i < count; i++) {
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

/* Of the launches from `first` on. */
static bool all_started(const gs_run *run, const gs_log *log, size_t first) {
    int64_t blocks = 0, in_time = 0;
    for (size_t i = first; i < run->launches.count; i++)
        blocks += run->launches.data[i].blocks;
    for (size_t i = 0; i < log->count; i++)
        in_time += log->data[i].launch >= first && log->data[i].event == run->launches.data[log->data[i].launch].event;
    return in_time == blocks;
}

static bool plays_well(const gs_gpu *gpu, const gs_run *run, size_t first) {
    gs_log log = {0};
    literal_play(gpu, run, &log);
    bool works = all_started(run, &log, first);
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

static const gs_change *find_change(const gs_change *changes, size_t count, gs_fix_kind kind) {
    for (size_t i = 0; i < count; i++)
        if (changes[i].kind == kind)
            return &changes[i];
    return NULL;
}

/* A run with changes, as it is made. */
struct changed {
    const gs_gpu *gpu;
    const gs_run *given;
    const gs_change *changes;
    size_t count;
    gs_run *run;
    size_t *number; /* by launch of the given run: that in the new one */
};

static bool add_launch(struct changed *changed, size_t number, const char *name) {
    gs_launch launch = changed->given->launches.data[number];
    gs_launch_facts facts = launch.issue.facts ? *launch.issue.facts : gs_launch_facts_none();
    const gs_change *green = find_change(changed->changes, changed->count, GS_FIX_GREEN);
    change(&launch, number, changed->changes, changed->count);
    if (green)
        facts.green_context = number != green->launch;
    launch.issue.facts = &facts;
    launch.kernel = name ? (char *)(uintptr_t)name : launch.kernel;
    changed->number[number] = changed->run->launches.count;
    return is_possible(changed->gpu, &launch) && gs_run_copy_launch(changed->run, &launch, NULL) == GS_OK;
}

/* A kernel that is run once before, alone. */
static bool run_before(struct changed *changed, const gs_change *local) {
    if (!local)
        return true;
    return add_launch(changed, local->launch, "before") && gs_run_add_exit(changed->run, 0, NULL) == GS_OK;
}

/* The launches in their new order, or all events. */
static bool add_all(struct changed *changed, const size_t *order) {
    const gs_run *given = changed->given;
    bool done = true;
    for (size_t i = 0; order && i < given->launches.count && done; i++)
        done = add_launch(changed, order[i], NULL);
    for (size_t i = 0; !order && i < given->events.count && done; i++) {
        size_t launch = given->events.data[i].launch;
        if (given->events.data[i].op == GS_LAUNCH)
            done = add_launch(changed, launch, NULL);
        else if (given->events.data[i].op == GS_EXIT)
            done = gs_run_add_exit(changed->run, changed->number[launch], NULL) == GS_OK;
    }
    return done;
}

bool literal_works(const gs_gpu *gpu, const gs_run *run, const gs_change *changes, size_t count, const size_t *order) {
    struct changed changed = {gpu, run, changes, count, gs_run_new(NULL), NULL};
    const gs_change *green = find_change(changes, count, GS_FIX_GREEN);
    changed.number = calloc(run->launches.count + 1, sizeof *changed.number);
    bool works = changed.run && changed.number &&
                 (green ? add_contexts(changed.run, gpu, (int32_t)green->to)
                        : gs_green_copy(&changed.run->green_contexts, &run->green_contexts));
    works = works && run_before(&changed, find_change(changes, count, GS_FIX_LOCAL));
    size_t first = works ? changed.run->launches.count : 0;
    works = works && add_all(&changed, order) && plays_well(gpu, changed.run, first);
    gs_run_free(changed.run);
    free(changed.number);
    return works;
}
