/*
 * model_player.c: a device with known effects of kernels on each other, to test a search and to try one without a GPU.
 *
 * A kernel has a speed, at most 1: it grows with its workers and its SMs. At speed 1 it uses a part of each unit of the
 * SMs, and of the memory. If two kernels need more of a unit than there is, both are slower by the same factor until
 * one of them ends; then the other one continues with its workers and SMs.
 */
#include "measure.h"

#include <math.h>
#include <stdlib.h>

static double speed_of(const gs_model *model, const gs_measure_side *side) {
    const gs_model_kernel *kernel = &model->kernels[side->kernel];
    double part = side->sms ? (double)side->sms / model->sms : 1;
    if (!side->workers)
        return fmin(1, part * kernel->surplus);
    double on_sms = fmin(side->workers / kernel->needed[side->form], kernel->surplus);
    return fmin(1, part * on_sms);
}

static double cost_of(const gs_model *model, const gs_measure_side *side) {
    const gs_model_kernel *kernel = &model->kernels[side->kernel];
    double cost = side->workers ? kernel->cost[side->form] : 1;
    if (side->registers && side->registers < kernel->registers[side->form])
        cost *= 1 + 2 * kernel->spills * (1 - (double)side->registers / kernel->registers[side->form]);
    return cost;
}

/* The duration of all launches of a side alone. */
static double side_us(const gs_model *model, const gs_measure_side *side) {
    return model->kernels[side->kernel].us * side->repeats * side->percent / 100 * cost_of(model, side) /
           speed_of(model, side);
}

/* The slowdown of both while both run. */
static double factor_of(const gs_model *model, const gs_measurement *measurement) {
    double most = 1;
    for (int unit = 0; unit < GS_MODEL_UNITS; unit++) {
        double used = 0;
        for (int i = 0; i < 2; i++)
            used += model->kernels[measurement->sides[i].kernel].units[unit] * speed_of(model, &measurement->sides[i]);
        if (measurement->measure == GS_MEASURE_INTRA_SM || unit == 0)
            most = fmax(most, used);
    }
    return measurement->measure == GS_MEASURE_INTRA_SM ? most * (1 + model->penalty) : most;
}

void gs_model_time(const gs_model *model, const gs_measurement *measurement, gs_measure_result *measured) {
    const gs_measure_side *sides = measurement->sides;
    *measured = (gs_measure_result){.us = side_us(model, &sides[0])};
    measured->side_us[0] = measured->us;
    if (measurement->measure == GS_MEASURE_WRITTEN || measurement->measure == GS_MEASURE_ALONE)
        return;
    double us[2] = {measured->us, side_us(model, &sides[1])};
    if (measurement->measure == GS_MEASURE_SERIAL) {
        measured->us = measured->side_us[1] = us[0] + us[1];
        return;
    }
    double factor = factor_of(model, measurement), both = fmin(us[0], us[1]) * factor;
    for (int i = 0; i < 2; i++)
        measured->side_us[i] = both + fmax(0, us[i] - us[!i]);
    measured->us = fmax(measured->side_us[0], measured->side_us[1]);
}

/* ---- the player ---- */

static void fail_measurement(gs_measure_result *measured, const char *words) {
    measured->is_failed = true;
    snprintf(measured->reason, sizeof measured->reason, "%s", words);
}

/* The noise of a measurement is always the same, so that a resumed plan equals an uninterrupted one. */
static uint64_t number_of(const gs_measurement *measurement) {
    uint64_t number = (uint64_t)measurement->measure;
    for (int i = 0; i < 2; i++) {
        const gs_measure_side *side = &measurement->sides[i];
        const int32_t parts[] = {side->kernel, side->form,    side->workers, side->registers,
                                 side->sms,    side->repeats, side->percent};
        for (size_t k = 0; k < GS_COUNT(parts); k++)
            number = (number ^ (uint64_t)(uint32_t)parts[k]) * 0x100000001b3;
    }
    return number;
}

static gs_code measure_on_model(gs_player *player, const gs_measurement *measurement, gs_measure_result *measured,
                                gs_error *error) {
    const gs_model *model = player->inside;
    bool is_pair = measurement->measure >= GS_MEASURE_SERIAL;
    gs_random random = gs_random_at(model->seed, number_of(measurement));
    double noise = 1 + model->noise * ((double)gs_random_from(&random, -1000, 1000) / 1000);
    (void)error;
    gs_model_time(model, measurement, measured);
    measured->us *= noise;
    for (int i = 0; i < 2; i++) {
        measured->side_us[i] *= noise;
        const gs_model_kernel *kernel = &model->kernels[measurement->sides[i].kernel];
        if ((i == 0 || is_pair) && kernel->never_ends)
            fail_measurement(measured, "it exceeded the time limit");
        else if (measurement->measure == GS_MEASURE_INTRA_SM && kernel->is_changed)
            fail_measurement(measured, "its results change beside the other kernel");
    }
    return GS_OK;
}

static void close_model(gs_player *player) {
    free(player->inside);
    free(player);
}

gs_player *gs_player_model(const gs_model *model, gs_error *error) {
    static const gs_player_ops ops = {.name = "model", .measure = measure_on_model, .close = close_model};
    gs_player *player = calloc(1, sizeof *player);
    gs_model *copy = malloc(sizeof *copy);
    if (!player || !copy) {
        free(player);
        free(copy);
        gs_fail_memory(error);
        return NULL;
    }
    *copy = *model;
    *player = (gs_player){.ops = &ops, .inside = copy};
    return player;
}

void gs_player_close(gs_player *player) {
    if (player)
        player->ops->close(player);
}
