/*
 * layers.c: the stays of blocks in a scene, as shown and as measured, and where the two differ.
 *
 * The measured layer counts time from its own first block, which is drawn at the first block of the other layer: the
 * two clocks are unrelated. A launch differs on an SM if the number of its blocks there differs, at its launch or at
 * the end. A block that only has another number is a smaller difference of its own kind.
 */
#include "scene.h"

#include <stdlib.h>

/* Whether `run` says of any block where it is. */
static bool has_placed(const gs_run *run) {
    for (size_t i = 0; i < run->events.count; i++)
        if (run->events.data[i].seen->has_placed && gs_seen_started(run->events.data[i].seen))
            return true;
    return false;
}

/* ---- differences ---- */

static bool is_compared(const gs_scene *scene, size_t launch) {
    const gs_run *measured = scene->layers[1].run;
    return measured && measured->events.data[measured->launches.data[launch].observed].seen->has_placed;
}

/* Counts the blocks of a launch on each SM at its launch (`is_early`) or at the end, and adds or subtracts the
   counts. */
static void count_blocks(const gs_run *run, size_t launch, bool is_early, int32_t sms, int32_t *counts, int32_t step) {
    const gs_launch *which = &run->launches.data[launch];
    const gs_seen *seen = run->events.data[is_early ? which->event : which->observed].seen;
    for (size_t i = 0; i < seen->placed.count; i++)
        if (seen->placed.data[i] != GS_WAIT && seen->placed.data[i] < sms)
            counts[seen->placed.data[i]] += step;
}

static void compare_launch(gs_scene *scene, size_t launch, int32_t *counts, uint8_t *differs) {
    const gs_run *measured = scene->layers[1].run;
    int32_t sms = scene->gpu->sms;
    for (int early = 0; early < 2; early++) {
        memset(counts, 0, (size_t)sms * sizeof *counts);
        count_blocks(scene->run, launch, early, sms, counts, 1);
        count_blocks(measured, launch, early, sms, counts, -1);
        for (int32_t sm = 0; sm < sms; sm++)
            differs[sm] = differs[sm] || counts[sm] != 0;
    }
    for (int32_t sm = 0; sm < sms; sm++)
        scene->counts_differ += differs[sm];
    for (int64_t i = 0; i < scene->run->launches.data[launch].blocks; i++)
        scene->blocks_elsewhere += gs_run_placed(scene->run, launch, i) != gs_run_placed(measured, launch, i);
    scene->blocks_compared += scene->run->launches.data[launch].blocks;
}

static gs_code compare_layers(gs_scene *scene, gs_error *error) {
    size_t sms = (size_t)scene->gpu->sms, launches = scene->run->launches.count;
    uint8_t *differs = calloc(launches * sms + 1, sizeof *differs);
    int32_t *counts = calloc(sms + 1, sizeof *counts);
    if (!differs || !counts) {
        free(differs);
        free(counts);
        return gs_fail_memory(error);
    }
    for (size_t i = 0; i < launches; i++)
        if (is_compared(scene, i))
            compare_launch(scene, i, counts, differs + i * sms);
    free(counts);
    scene->layers[0].differs = differs;
    return GS_OK;
}

int gs_scene_difference(const gs_scene *scene, int layer, const gs_stay *stay) {
    if (!scene->layers[0].differs || !is_compared(scene, stay->launch) || stay->sm >= scene->gpu->sms)
        return GS_SAME;
    if (scene->layers[0].differs[stay->launch * (size_t)scene->gpu->sms + (size_t)stay->sm])
        return GS_OTHER_COUNT;
    return gs_run_placed(scene->layers[!layer].run, stay->launch, stay->block) == stay->sm ? GS_SAME : GS_OTHER_NUMBER;
}

/* ---- the warp slots of recordings ---- */

static gs_code add_slots_of(gs_scene_layer *layer, const gs_stay *stay, gs_error *error) {
    const gs_seen *seen = layer->run->events.data[layer->run->launches.data[stay->launch].observed].seen;
    if (!seen->has_warp_slots || (size_t)stay->block >= seen->placed.count)
        return GS_OK;
    size_t from = stay->block ? seen->warp_slots.ends[stay->block - 1] : 0, to = seen->warp_slots.ends[stay->block];
    if (!GS_RESERVE(&layer->slots, to - from))
        return gs_fail_memory(error);
    for (size_t i = from; i < to; i++)
        layer->slots.data[layer->slots.count++] = (uint8_t)gs_max(gs_min(seen->warp_slots.slots[i], UINT8_MAX), 0);
    return GS_OK;
}

/* ---- layers ---- */

static void shift_stays(gs_stays *stays, int64_t by) {
    for (size_t i = 0; i < stays->count; i++) {
        stays->data[i].from += by;
        stays->data[i].to += stays->data[i].to > INT64_MAX - by ? 0 : by;
    }
    stays->horizon += stays->horizon > INT64_MAX - by ? 0 : by;
}

/* A recording may name SMs that the GPU does not have: they are not drawn. */
static void leave_out_unknown(gs_stays *stays, int32_t sms) {
    while (stays->count && stays->data[stays->count - 1].sm >= sms)
        stays->count--;
}

static gs_code index_stays(gs_scene_layer *layer, int32_t sms, gs_error *error) {
    layer->first = calloc((size_t)sms + 1, sizeof *layer->first);
    if (!layer->first)
        return gs_fail_memory(error);
    for (size_t i = 0; i < layer->stays.count; i++)
        layer->first[layer->stays.data[i].sm + 1]++;
    for (int32_t sm = 0; sm < sms; sm++)
        layer->first[sm + 1] += layer->first[sm];
    return GS_OK;
}

gs_code gs_scene_add_layers(gs_scene *scene, const gs_run *measured, gs_error *error) {
    gs_stays *stays = &scene->layers[0].stays, *others = &scene->layers[1].stays;
    scene->layers[0].run = scene->run;
    gs_code code = gs_stays_of(scene->run, false, stays, error);
    if (code == GS_OK && measured && has_placed(measured)) {
        scene->layers[1].run = measured;
        code = (stays->timed ? gs_stays_of : gs_stays_in_columns)(measured, false, others, error);
    }
    if (code != GS_OK)
        return code;
    leave_out_unknown(stays, scene->gpu->sms);
    leave_out_unknown(others, scene->gpu->sms);
    scene->is_timed = stays->timed || scene->timeline;
    if (stays->timed && !others->timed) /* the times of its blocks are not known */
        gs_stays_free(others);
    int64_t first_ns = stays->first_ns;
    scene->keeps_clock = scene->timeline && gs_run_is_program(scene->run);
    if (scene->keeps_clock && stays->timed) {
        shift_stays(stays, first_ns);
        shift_stays(others, first_ns);
    }
    scene->origin_ns = scene->keeps_clock ? 0 : first_ns;
    scene->to = gs_max(gs_max(stays->horizon, others->horizon), 1);
    for (int i = 0; i < 2 && code == GS_OK; i++)
        code = index_stays(&scene->layers[i], scene->gpu->sms, error);
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < scene->layers[i].stays.count && code == GS_OK; j++)
            code = add_slots_of(&scene->layers[i], &scene->layers[i].stays.data[j], error);
    return code == GS_OK && scene->layers[1].run ? compare_layers(scene, error) : code;
}
