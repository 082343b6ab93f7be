/*
 * test_plan_search.c: the search of a plan, on a device on which it is known what kernels do to each other.
 *
 * Random pairs are planned, and all ways to run them are tried, literally: each form of each kernel, each number of
 * workers, each limit of registers, each split. GRIDSMITH_RUNS is how many, GRIDSMITH_SEED where they start.
 */
#include "plan_support.h"

#include "pairs/pairs.h"

#include <math.h>
#include <stdlib.h>

enum { REGISTER_STEP = 8 };

struct pair_case {
    gs_search_kernel given[2];
    gs_model_kernel kernels[2];
    gs_model model;
};

static double real_from(gs_random *random, double low, double high) {
    return low + (high - low) * (double)gs_random_from(random, 0, 1 << 20) / (1 << 20);
}

static void draw_kernel(gs_random *random, struct pair_case *drawn, int number) {
    gs_search_kernel *given = &drawn->given[number];
    gs_model_kernel *kernel = &drawn->kernels[number];
    int32_t threads = 32 << gs_random_from(random, 1, 4), registers = (int32_t)gs_random_from(random, 3, 16) * 8;
    int64_t shared = gs_random_chance(random, 60) ? gs_random_from(random, 0, 96) * 1024 : 0;
    snprintf(given->name, sizeof given->name, "k%d", number);
    given->blocks = gs_random_from(random, 1, 100000);
    int forms = gs_random_chance(random, 50) ? GS_SEARCH_FORMS : 1;
    *kernel = (gs_model_kernel){.us = exp(real_from(random, log(100), log(3000))),
                                .surplus = gs_random_chance(random, 30) ? real_from(random, 1, 3) : 1,
                                .spills = real_from(random, 0, 0.5)};
    double cost = 1;
    for (int i = 0; i < forms; i++, cost *= real_from(random, 1, 1.15)) {
        given->forms[i] = gs_shape_of(threads >> i, registers, shared >> i);
        given->has_form[i] = true;
        kernel->cost[i] = cost;
        kernel->registers[i] = registers;
    }
    for (int i = 0; i < GS_MODEL_UNITS; i++)
        kernel->units[i] = gs_random_chance(random, 50) ? real_from(random, 0, 1) : real_from(random, 0, 0.3);
}

/* What each form needs depends on what fits. */
static void draw_needs(gs_random *random, struct pair_case *drawn, gs_search *search) {
    static const gs_shape nothing = {.threads = 32, .registers = 1, .carveout_percent = GS_NO_CARVEOUT};
    (void)search;
    (void)nothing;
    for (int k = 0; k < 2; k++) {
        double part = real_from(random, 0.2, 1);
        for (int i = 0; i < GS_SEARCH_FORMS; i++) {
            gs_occupancy occupancy = {.blocks = 0};
            if (drawn->given[k].has_form[i])
                gs_occupancy_of(gs_search_gpu(search), &drawn->given[k].forms[i], &occupancy, NULL);
            drawn->kernels[k].needed[i] = fmax(1, round(part * occupancy.blocks));
        }
    }
}

/* ---- everything, literally ---- */

static void try(const gs_model *model, const gs_measurement *measurement, double *best, gs_measurement *at) {
    gs_measure_result measured;
    gs_model_time(model, measurement, &measured);
    if (measured.us < *best) {
        *best = measured.us;
        *at = *measurement;
    }
}

/* Fewer registers are for one more block of either kernel. */
static bool is_one_more(gs_search *search, const struct pair_case *drawn, const gs_measurement *measurement) {
    const gs_shape *a = &drawn->given[0].forms[measurement->sides[0].form];
    const gs_shape *b = &drawn->given[1].forms[measurement->sides[1].form];
    int32_t first = measurement->sides[0].workers, second = measurement->sides[1].workers;
    return gs_search_room(search, a, first, b) >= second - 1 ||
           (first > 1 && gs_search_room(search, a, first - 1, b) >= second);
}

static void try_registers(gs_search *search, const struct pair_case *drawn, gs_measurement *measurement, double *best,
                          gs_measurement *at) {
    int32_t registers[2] = {drawn->kernels[0].registers[0], drawn->kernels[1].registers[0]}, before = 0;
    for (int32_t first = registers[0]; first >= registers[0] * 0.66 && first >= 24; first -= REGISTER_STEP)
        for (int32_t second = registers[1]; second >= registers[1] * 0.66 && second >= 24; second -= REGISTER_STEP) {
            gs_shape a = drawn->given[0].forms[measurement->sides[0].form];
            gs_shape b = drawn->given[1].forms[measurement->sides[1].form];
            a.registers = first;
            b.registers = second;
            int32_t fit = gs_search_room(search, &a, measurement->sides[0].workers, &b);
            bool is_limited = first < registers[0] || second < registers[1];
            measurement->sides[0].registers = first == registers[0] ? 0 : first;
            measurement->sides[1].registers = second == registers[1] ? 0 : second;
            if (!is_limited)
                before = fit;
            for (int32_t workers = is_limited ? before + 1 : 1; workers <= fit; workers++) {
                measurement->sides[1].workers = workers;
                if (!is_limited || is_one_more(search, drawn, measurement))
                    try(&drawn->model, measurement, best, at);
            }
        }
}

static double try_everything(gs_search *search, const struct pair_case *drawn, const gs_found_pair *pair,
                             gs_measurement *at) {
    double best = INFINITY;
    gs_measurement measurement = {.measure = GS_MEASURE_TURNS};
    for (int i = 0; i < 2; i++)
        measurement.sides[i] = (gs_measure_side){.kernel = i, .repeats = pair->repeats[i], .percent = 100};
    const gs_measurement none = measurement;
    try(&drawn->model, &measurement, &best, at);
    for (int32_t sms = 1; sms < drawn->model.sms; sms++) {
        measurement.measure = GS_MEASURE_SPLIT;
        measurement.sides[0].sms = sms;
        measurement.sides[1].sms = drawn->model.sms - sms;
        for (int i = 0; i < 2; i++)
            measurement.sides[i].workers = gs_search_kernel_at(search, (size_t)i)->forms[0].most;
        try(&drawn->model, &measurement, &best, at);
    }
    measurement = none;
    measurement.measure = GS_MEASURE_INSIDE;
    for (int first = 0; first < GS_SEARCH_FORMS; first++)
        for (int second = 0; second < GS_SEARCH_FORMS; second++) {
            if (!gs_search_kernel_at(search, 0)->forms[first].is_used ||
                !gs_search_kernel_at(search, 1)->forms[second].is_used)
                continue;
            int32_t most = gs_search_kernel_at(search, 0)->forms[first].most;
            measurement.sides[0].form = first;
            measurement.sides[1].form = second;
            for (measurement.sides[0].workers = 1; measurement.sides[0].workers <= most; measurement.sides[0].workers++)
                try_registers(search, drawn, &measurement, &best, at);
        }
    return best;
}

/* ---- the tests ---- */

static void run_search(gs_search *search, gs_player *player) {
    gs_measurement next;
    gs_measure_result measured;
    gs_error error;
    while (gs_search_next(search, &next, &error)) {
        assert_int_equal(player->ops->measure(player, &next, &measured, &error), GS_OK);
        assert_null(gs_search_find(search, &next));
        assert_int_equal(gs_search_add(search, &next, &measured, &error), GS_OK);
    }
    assert_int_equal(error.code, GS_OK);
}

static void search_finds_the_best_way_of_random_pairs(void **state) {
    (void)state;
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    int rounds = plan_rounds(100000) < 1000 ? plan_rounds(100000) : 1000;
    int32_t measurements = 0, gains[3] = {0};
    for (int round = getenv("ONE") ? atoi(getenv("ONE")) : 0; round < (getenv("ONE") ? atoi(getenv("ONE")) + 1 : rounds); round++) {
        gs_random random = gs_random_at(seed, (uint64_t)round);
        struct pair_case drawn = {.model = {.sms = gpu->sms, .noise = 0.002, .seed = (uint64_t)round}};
        drawn.model.kernels = drawn.kernels;
        drawn.model.penalty = gs_random_chance(&random, 50) ? real_from(&random, 0, 0.1) : 0;
        for (int i = 0; i < 2; i++)
            draw_kernel(&random, &drawn, i);
        gs_search *search = gs_search_new(gpu, drawn.given, 2, &(gs_search_options){.models = false}, &error);
        draw_needs(&random, &drawn, search);
        gs_player *player = gs_player_model(&drawn.model, &error);
        run_search(search, player);
        const gs_found_pair *pair = gs_search_pair_at(search, 0);
        gs_measurement at = {.measure = GS_MEASURE_TURNS}, chosen = pair->chosen;
        gs_measure_result measured;
        double best = try_everything(search, &drawn, pair, &at);
        if (pair->option == GS_PAIR_TURNS)
            for (int i = 0; i < 2; i++) {
                chosen.measure = GS_MEASURE_TURNS;
                chosen.sides[i] = (gs_measure_side){.kernel = i, .repeats = pair->repeats[i], .percent = 100};
            }
        gs_model_time(&drawn.model, &chosen, &measured);
        if (measured.us > best * 1.01)
            print_message("seed %llu, pair %d: %s %.2f us, but %s takes %.2f us (%s), %d measured: %d.%d/%d+%d.%d/%d %d; best %d.%d/%d+%d.%d/%d %d\n",
                       (unsigned long long)seed, round, gs_measure_name(chosen.measure), measured.us,
                       gs_measure_name(at.measure), best, pair->reason, pair->measurements,
                       chosen.sides[0].form,chosen.sides[0].workers,chosen.sides[0].registers,chosen.sides[1].form,chosen.sides[1].workers,chosen.sides[1].registers,chosen.sides[0].sms,
                       at.sides[0].form,at.sides[0].workers,at.sides[0].registers,at.sides[1].form,at.sides[1].workers,at.sides[1].registers,at.sides[0].sms);
        measurements += pair->measurements;
        gains[pair->option]++;
        gs_player_close(player);
        gs_search_free(search);
    }
    print_message("%d measurements for %d pairs; turns %d, inside %d, split %d\n", measurements, rounds, gains[0], gains[1], gains[2]);
    assert_true(measurements <= 4 * rounds);
    gs_gpu_free(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_finds_the_best_way_of_random_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
