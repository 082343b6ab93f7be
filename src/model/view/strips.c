/*
 * strips.c: the use of some SMs in each column of time: the share that each function takes, and the part of each
 * resource that is in use.
 *
 * A stay is added by the differences that it makes from column to column, so that a long one costs no more than a short
 * one. The sums are formed at the end.
 */
#include "scene.h"

#include <math.h>
#include <stdlib.h>

const char *const gs_use_names[GS_USES] = {"warps", "registers", "shared memory", "block slots"};

gs_code gs_strip_new(gs_strip *strip, const gs_scene *scene, size_t columns, gs_error *error) {
    size_t functions = scene->functions.count + 1, shapes = scene->shapes.count + 1;
    *strip = (gs_strip){.columns = columns};
    strip->shares = calloc(functions * (columns + 2), sizeof *strip->shares);
    strip->functions = calloc(functions, sizeof *strip->functions);
    strip->is_there = calloc(functions, sizeof *strip->is_there);
    strip->differs = calloc(columns + 2, sizeof *strip->differs);
    strip->takes = calloc(shapes, sizeof *strip->takes);
    bool done = strip->shares && strip->functions && strip->is_there && strip->differs && strip->takes;
    for (int i = 0; i < GS_USES; i++) {
        strip->uses[i] = calloc(columns + 2, sizeof *strip->uses[i]);
        done = done && strip->uses[i];
    }
    for (size_t i = 0; done && i < scene->shapes.count; i++)
        strip->takes[i] = gs_share_of(scene->gpu, &scene->run->launches.data[scene->shapes.data[i]].shape);
    if (done)
        return GS_OK;
    gs_strip_clear(strip);
    return gs_fail_memory(error);
}

void gs_strip_clear(gs_strip *strip) {
    free(strip->shares);
    free(strip->functions);
    free(strip->is_there);
    free(strip->differs);
    free(strip->takes);
    for (int i = 0; i < GS_USES; i++)
        free(strip->uses[i]);
    *strip = (gs_strip){0};
}

/* Adds `value` from column `from` to column `to`, which may be parts of columns. */
static void add_span(double *sums, double from, double to, double value) {
    double first = floor(from), last = floor(to);
    size_t a = (size_t)first, b = (size_t)last;
    if (a == b) {
        sums[a] += (to - from) * value;
        sums[a + 1] -= (to - from) * value;
        return;
    }
    double part = first + 1 - from, rest = to - last;
    sums[a] += part * value;
    sums[a + 1] += (1 - part) * value;
    sums[b] += (rest - 1) * value;
    sums[b + 1] -= rest * value;
}

/* A block that takes no time takes a hundredth of a column, so that it can be seen. */
static void add_stay(gs_strip *strip, const gs_scene *scene, const gs_stay *stay, double part) {
    const gs_gpu *gpu = scene->gpu;
    const gs_scene_operation *operation = &scene->operations.data[stay->launch];
    const gs_share *takes = &strip->takes[operation->shape];
    double scale = (double)strip->columns / (double)(scene->to - scene->from);
    double from = (double)(stay->from - scene->from) * scale, to = (double)(stay->to - scene->from) * scale;
    to = fmin(fmax(to, 0.01), (double)strip->columns - 1e-6);
    from = fmin(from, to);
    strip->is_there[operation->function] = true;
    double seen_from = fmin(from, to - 0.01);
    add_span(strip->shares + operation->function * (strip->columns + 2), fmax(seen_from, 0), to, takes->most * part);
    double warps = (double)gpu->warps_per_partition * gpu->limits.partitions_per_sm;
    add_span(strip->uses[GS_USE_WARPS], from, to, takes->warps / fmax(warps, 1) * part);
    add_span(strip->uses[GS_USE_REGISTERS], from, to, takes->registers / fmax(gpu->limits.registers_per_sm, 1) * part);
    add_span(strip->uses[GS_USE_SHARED], from, to,
             (double)takes->shared_bytes / fmax(gpu->largest_config_bytes, 1) * part);
    add_span(strip->uses[GS_USE_SLOTS], from, to, part / fmax(gpu->limits.blocks_per_sm, 1));
    if (gs_scene_difference(scene, 0, stay) == GS_OTHER_COUNT)
        for (size_t x = (size_t)from; x <= (size_t)to; x++)
            strip->differs[x] = true;
}

static void sum_up(double *sums, size_t columns) {
    double sum = 0;
    for (size_t x = 0; x < columns; x++) {
        sum += sums[x];
        sums[x] = sum > 1e-9 ? sum : 0;
    }
}

void gs_strip_fill(gs_strip *strip, const gs_scene *scene, const int32_t *sms, int32_t count) {
    size_t columns = strip->columns;
    const gs_scene_layer *layer = &scene->layers[0];
    for (size_t i = 0; i < strip->function_count; i++) {
        memset(strip->shares + strip->functions[i] * (columns + 2), 0, (columns + 2) * sizeof *strip->shares);
        strip->is_there[strip->functions[i]] = false;
    }
    for (int i = 0; i < GS_USES; i++)
        memset(strip->uses[i], 0, (columns + 2) * sizeof *strip->uses[i]);
    memset(strip->differs, 0, (columns + 2) * sizeof *strip->differs);
    for (int32_t i = 0; i < count; i++)
        for (size_t j = layer->first[sms[i]]; j < layer->first[sms[i] + 1]; j++)
            add_stay(strip, scene, &layer->stays.data[j], 1.0 / count);
    strip->function_count = 0;
    for (size_t i = 0; i < scene->functions.count; i++)
        if (strip->is_there[i]) {
            strip->functions[strip->function_count++] = (uint32_t)i;
            sum_up(strip->shares + i * (columns + 2), columns);
        }
    for (int i = 0; i < GS_USES; i++)
        sum_up(strip->uses[i], columns);
}
