/*
 * trial.c: plays a run with changes, to see whether all blocks are resident together.
 *
 * The launches of a copy of the run are changed before, and restored after; launches of the same kernel together. The
 * engine plays the copy up to the first launch that waits. With a green context for one kernel, the copy has two
 * contexts: one for that kernel, and one with the other SMs for all others. Both are played by one engine, because
 * kernels of different contexts can still wait for each other: local memory grows only while the whole GPU is idle.
 */
#include "trial.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

struct gs_trial {
    const gs_gpu *gpu;
    const gs_run *given;
    gs_run *run;   /* a copy whose launches are changed */
    size_t before; /* this launch is run once before the others; NONE: none is */
    /* A green context for one kernel, and one with the other SMs: */
    int16_t *sms;           /* all SMs; the first ones are in the green context */
    int32_t ends[2];        /* see gs_green_contexts; 0: there are no contexts */
    gs_launch_facts *facts; /* by launch: its facts with its context */
};

gs_trial *gs_trial_new(const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    gs_trial *trial = calloc(1, sizeof *trial);
    if (!trial) {
        gs_fail_memory(error);
        return NULL;
    }
    trial->gpu = gpu;
    trial->given = run;
    trial->run = gs_run_copy(run, error);
    trial->sms = malloc((size_t)gpu->sms * sizeof *trial->sms);
    trial->facts = calloc(run->launches.count + 1, sizeof *trial->facts);
    for (int32_t i = 0; trial->sms && i < gpu->sms; i++)
        trial->sms[i] = (int16_t)i;
    if (trial->run && trial->sms && trial->facts)
        return trial;
    gs_trial_free(trial);
    gs_fail_memory(error);
    return NULL;
}

void gs_trial_free(gs_trial *trial) {
    if (!trial)
        return;
    free(trial->sms);
    free(trial->facts);
    gs_run_free(trial->run);
    free(trial);
}

/* ---- changes ---- */

/* Gives a launch the first SMs, and all others the rest. */
static void set_contexts(gs_trial *trial, size_t alone, int32_t sms) {
    trial->ends[0] = sms;
    trial->ends[1] = trial->gpu->sms;
    trial->run->green_contexts = (gs_green_contexts){trial->sms, trial->ends, 2};
    for (size_t i = 0; i < trial->run->launches.count; i++) {
        const gs_launch_facts *given = trial->given->launches.data[i].issue.facts;
        trial->facts[i] = given ? *given : gs_launch_facts_none();
        trial->facts[i].green_context = i != alone;
        trial->run->launches.data[i].issue.facts = &trial->facts[i];
    }
}

/* Contexts are tried only where the run has none. */
static void restore_contexts(gs_trial *trial) {
    if (!trial->ends[0])
        return;
    trial->run->green_contexts = (gs_green_contexts){.count = 0};
    for (size_t i = 0; i < trial->run->launches.count; i++)
        trial->run->launches.data[i].issue.facts = trial->given->launches.data[i].issue.facts;
    trial->ends[0] = 0;
}

/* A change of what a launch needs. */
static void apply_need(gs_launch *launch, const gs_change *change) {
    switch (change->kind) {
    case GS_FIX_CARVEOUT:
        launch->shape.carveout_percent = (int32_t)change->to;
        break;
    case GS_FIX_BLOCKS:
        launch->blocks = change->to;
        break;
    case GS_FIX_CLUSTER:
        launch->cluster = (int32_t)change->to;
        break;
    case GS_FIX_REGISTERS:
        launch->shape.registers = (int32_t)change->to;
        break;
    case GS_FIX_SHARED:
        launch->shape.shared_bytes = change->to;
        break;
    case GS_FIX_STREAM:
    case GS_FIX_LOCAL:
    case GS_FIX_GREEN:
    case GS_FIX_ORDER:
    case GS_FIX_KINDS:
        break;
    }
}

/* The end of the launches of the same kernel, which are changed together. The first of them is `launch`. */
static size_t end_of_same(const gs_trial *trial, size_t launch) {
    const gs_launches *launches = &trial->given->launches;
    for (launch++; launch < launches->count && launches->data[launch].is_again;)
        launch++;
    return launch;
}

static void apply_change(gs_trial *trial, const gs_change *change) {
    if (change->launch == NONE)
        return;
    if (change->kind == GS_FIX_STREAM)
        trial->run->launches.data[change->launch].stream = NULL;
    else if (change->kind == GS_FIX_LOCAL)
        trial->before = change->launch;
    else if (change->kind == GS_FIX_GREEN)
        set_contexts(trial, change->launch, (int32_t)change->to);
    else
        for (size_t i = change->launch; i < end_of_same(trial, change->launch); i++)
            apply_need(&trial->run->launches.data[i], change);
}

/* The launch as it was given, with the names that the copy owns. */
static void restore_launch(gs_trial *trial, const gs_change *change, char *stream) {
    if (change->launch == NONE)
        return;
    for (size_t i = change->launch; i < end_of_same(trial, change->launch); i++) {
        gs_launch *launch = &trial->run->launches.data[i];
        const gs_launch *given = &trial->given->launches.data[i];
        launch->blocks = given->blocks;
        launch->cluster = given->cluster;
        launch->shape = given->shape;
    }
    trial->run->launches.data[change->launch].stream = stream;
}

/* ---- playing ---- */

/* If a change makes a kernel impossible, the fix does not work; that is not an error. */
static gs_code play_launch(gs_engine *engine, size_t launch, bool *works, gs_error *error) {
    size_t other;
    gs_error problem = {.code = GS_OK};
    gs_code code = gs_engine_launch(engine, launch, &problem);
    *works = code == GS_OK && gs_engine_hold(engine, launch, &other) == GS_HOLD_NONE;
    if (code == GS_OK || code == GS_E_NO_FIT || code == GS_E_UNSUPPORTED)
        return GS_OK;
    if (error)
        *error = problem;
    return code;
}

static gs_code play_step(gs_engine *engine, gs_op op, size_t launch, bool *works, gs_error *error) {
    return op == GS_EXIT ? gs_engine_exit(engine, launch, error) : play_launch(engine, launch, works, error);
}

static gs_code play_all(const gs_trial *trial, gs_engine *engine, const size_t *order, bool *works, gs_error *error) {
    const gs_run *run = trial->run;
    gs_code code = GS_OK;
    size_t count = order ? run->launches.count : run->events.count;
    for (size_t i = 0; i < count && *works && code == GS_OK; i++) {
        const gs_event *event = order ? NULL : &run->events.data[i];
        size_t launch = order ? order[i] : event->launch;
        if (!event || event->op != GS_OBSERVE)
            code = play_step(engine, event ? event->op : GS_LAUNCH, launch, works, error);
    }
    return code;
}

/* Runs a kernel once, so that local memory is set up for it. That also moves the pointers of SMs. */
static gs_code play_before(gs_engine *engine, size_t launch, bool *works, gs_error *error) {
    gs_code code = play_launch(engine, launch, works, error);
    return code == GS_OK && *works ? gs_engine_exit_again(engine, launch, error) : code;
}

static gs_code play_changed(const gs_trial *trial, const size_t *order, bool *works, gs_error *error) {
    gs_engine_hooks hooks = {.endless = true};
    gs_engine *engine = gs_engine_new(trial->gpu, trial->run, &hooks, error);
    if (!engine)
        return GS_E_MEMORY;
    gs_code code = trial->before == NONE ? GS_OK : play_before(engine, trial->before, works, error);
    if (code == GS_OK)
        code = play_all(trial, engine, order, works, error);
    gs_engine_free(engine);
    return code;
}

gs_code gs_trial_play(gs_trial *trial, const gs_change *changes, size_t count, const size_t *order, bool *works,
                      gs_error *error) {
    char *streams[2] = {NULL, NULL}; /* of the changed launches; a fix has at most two changes */
    trial->before = NONE;
    for (size_t i = 0; i < count; i++) {
        if (changes[i].launch != NONE)
            streams[i] = trial->run->launches.data[changes[i].launch].stream;
        apply_change(trial, &changes[i]);
    }
    *works = true;
    gs_code code = play_changed(trial, order, works, error);
    restore_contexts(trial);
    for (size_t i = count; i-- > 0;)
        restore_launch(trial, &changes[i], streams[i]);
    return code;
}

/* ---- orders ---- */

static void swap_launches(size_t *order, size_t a, size_t b) {
    size_t kept = order[a];
    order[a] = order[b];
    order[b] = kept;
}

bool gs_next_permutation(size_t *order, size_t count) {
    size_t at = count;
    while (at > 1 && order[at - 2] > order[at - 1])
        at--;
    if (at < 2)
        return false;
    size_t larger = count - 1;
    while (order[larger] < order[at - 2])
        larger--;
    swap_launches(order, at - 2, larger);
    for (size_t first = at - 1, last = count - 1; first < last; first++, last--)
        swap_launches(order, first, last);
    return true;
}

bool gs_run_order_is_free(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (run->launches.data[i].exit != SIZE_MAX || run->launches.data[i].issue.after_count)
            return false;
    return true;
}
