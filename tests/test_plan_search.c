/*
 * test_plan_search.c: the search of a plan, on a device on which it is known what kernels do to each other.
 *
 * Random pairs are planned, and all ways to run them are tried, literally: each form of each kernel, each number of
 * workers, each limit of registers that lets one more of them fit, each split. GRIDSMITH_RUNS is how many,
 * GRIDSMITH_SEED where they start.
 */
#include "plan_support.h"

#include "pairs/pairs.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAIRS = 1000, REGISTER_STEP = 8, FEWEST_REGISTERS = 24, MOST_WORKERS = 64, MEASUREMENTS_PER_PAIR = 4 };
static const double REGISTERS_KEPT = 0.66, CLOSE = 1.01;

/* ---- random kernels ---- */

struct pair_case {
    gs_pair_search_kernel given[2];
    gs_model_kernel kernels[2];
    gs_model model;
};

static double real_from(gs_random *random, double low, double high) {
    return low + (high - low) * (double)gs_random_from(random, 0, 1 << 20) / (1 << 20);
}

static void draw_kernel(gs_random *random, const gs_gpu *gpu, gs_pair_search_kernel *given, gs_model_kernel *kernel) {
    int32_t threads = 32 << gs_random_from(random, 1, 4), registers = (int32_t)gs_random_from(random, 3, 16) * 8;
    int64_t shared = gs_random_chance(random, 60) ? gs_random_from(random, 0, 96) * 1024 : 0;
    int forms = gs_random_chance(random, 50) ? GS_SEARCH_FORMS : 1;
    double cost = 1, part = real_from(random, 0.2, 1);
    given->blocks = gs_random_from(random, 1, 100000);
    *kernel = (gs_model_kernel){.us = exp(real_from(random, log(100), log(3000))),
                                .surplus = gs_random_chance(random, 30) ? real_from(random, 1, 3) : 1,
                                .spills = real_from(random, 0, 0.5)};
    for (int i = 0; i < forms; i++, cost *= real_from(random, 1, 1.15)) {
        gs_occupancy occupancy;
        given->forms[i] = gs_shape_of(threads >> i, registers, shared >> i);
        given->has_form[i] = true;
        kernel->cost[i] = cost;
        kernel->registers[i] = registers;
        gs_occupancy_of(gpu, &given->forms[i], &occupancy, NULL);
        kernel->needed[i] = fmax(1, round(part * occupancy.blocks));
    }
    for (int i = 0; i < GS_MODEL_UNITS; i++)
        kernel->units[i] = gs_random_chance(random, 50) ? real_from(random, 0, 1) : real_from(random, 0, 0.3);
}

static void draw_case(struct pair_case *drawn, const gs_gpu *gpu, uint64_t seed, int number) {
    gs_random random = gs_random_at(seed, (uint64_t)number);
    *drawn = (struct pair_case){.model = {.sms = gpu->sms, .noise = 0.002, .seed = (uint64_t)number}};
    drawn->model.kernels = drawn->kernels;
    drawn->model.penalty = gs_random_chance(&random, 50) ? real_from(&random, 0, 0.1) : 0;
    for (int i = 0; i < 2; i++) {
        snprintf(drawn->given[i].name, sizeof drawn->given[i].name, "k%d", i);
        draw_kernel(&random, gpu, &drawn->given[i], &drawn->kernels[i]);
    }
}

/* ---- all ways, literally ---- */

struct trying {
    gs_pair_search *search;
    const struct pair_case *drawn;
    gs_measurement now, best;
    double best_us;
    int32_t room[MOST_WORKERS + 1]; /* for the second beside so many of the first, with all registers */
};

static void try(struct trying *trying) {
    gs_measure_result result;
    gs_model_time(&trying->drawn->model, &trying->now, &result);
    if (result.us < trying->best_us) {
        trying->best_us = result.us;
        trying->best = trying->now;
    }
}

/* With these registers as many as fit, but only one more of either kernel than with all of them. */
static void try_limited(struct trying *trying, int32_t first, int32_t second) {
    gs_measure_side *sides = trying->now.sides;
    gs_shape a = trying->drawn->given[0].forms[sides[0].form], b = trying->drawn->given[1].forms[sides[1].form];
    int32_t least = trying->room[sides[0].workers] + 1;
    int32_t most = (int32_t)gs_max(least, sides[0].workers > 1 ? trying->room[sides[0].workers - 1] : 0);
    sides[0].registers = first < a.registers ? first : 0;
    sides[1].registers = second < b.registers ? second : 0;
    a.registers = first;
    b.registers = second;
    int32_t fit = (int32_t)gs_min(most, gs_pair_search_room(trying->search, &a, sides[0].workers, &b));
    for (sides[1].workers = least; sides[1].workers <= fit; sides[1].workers++)
        try(trying);
}

static void try_workers(struct trying *trying) {
    gs_measure_side *sides = trying->now.sides;
    int32_t had[2], least[2];
    for (int i = 0; i < 2; i++) {
        had[i] = trying->drawn->given[i].forms[sides[i].form].registers;
        least[i] = (int32_t)fmax(FEWEST_REGISTERS, ceil(had[i] * REGISTERS_KEPT));
        sides[i].registers = 0;
    }
    for (sides[1].workers = 1; sides[1].workers <= trying->room[sides[0].workers]; sides[1].workers++)
        try(trying);
    for (int32_t first = had[0]; first >= least[0]; first -= REGISTER_STEP)
        for (int32_t second = had[1]; second >= least[1]; second -= REGISTER_STEP)
            if (first < had[0] || second < had[1])
                try_limited(trying, first, second);
}

static void try_forms(struct trying *trying, int32_t first, int32_t second) {
    const gs_found_form *form = &gs_pair_search_kernel_at(trying->search, 0)->forms[first];
    const gs_shape *a = &trying->drawn->given[0].forms[first], *b = &trying->drawn->given[1].forms[second];
    if (!form->is_used || !gs_pair_search_kernel_at(trying->search, 1)->forms[second].is_used)
        return;
    for (int32_t workers = 1; workers <= form->most; workers++)
        trying->room[workers] = gs_pair_search_room(trying->search, a, workers, b);
    trying->now.sides[0].form = first;
    trying->now.sides[1].form = second;
    for (trying->now.sides[0].workers = 1; trying->now.sides[0].workers <= form->most; trying->now.sides[0].workers++)
        try_workers(trying);
}

static void try_splits(struct trying *trying) {
    gs_measure_side *sides = trying->now.sides;
    for (int i = 0; i < 2; i++)
        sides[i].workers = gs_pair_search_kernel_at(trying->search, (size_t)i)->forms[0].most;
    for (sides[0].sms = 1; sides[0].sms < trying->drawn->model.sms; sides[0].sms++) {
        sides[1].sms = trying->drawn->model.sms - sides[0].sms;
        try(trying);
    }
    sides[0].sms = sides[1].sms = 0;
}

static void start(struct trying *trying, enum gs_measure measure, const gs_found_pair *pair) {
    trying->now = (gs_measurement){.measure = measure};
    for (int i = 0; i < 2; i++)
        trying->now.sides[i] = (gs_measure_side){.kernel = i, .repeats = pair->repeats[i], .percent = 100};
}

static void try_everything(struct trying *trying) {
    const gs_found_pair *pair = gs_pair_search_pair_at(trying->search, 0);
    trying->best_us = INFINITY;
    start(trying, GS_MEASURE_TURNS, pair);
    try(trying);
    start(trying, GS_MEASURE_SPLIT, pair);
    try_splits(trying);
    start(trying, GS_MEASURE_INSIDE, pair);
    for (int32_t first = 0; first < GS_SEARCH_FORMS; first++)
        for (int32_t second = 0; second < GS_SEARCH_FORMS; second++)
            try_forms(trying, first, second);
}

/* ---- searches ---- */

static void run_search(gs_pair_search *search, gs_player *player) {
    gs_measurement next;
    gs_measure_result result;
    gs_error error;
    while (gs_pair_search_next(search, &next, &error)) {
        assert_null(gs_pair_search_find(search, &next)); /* nothing is measured twice */
        assert_int_equal(player->ops->measure(player, &next, &result, &error), GS_OK);
        assert_int_equal(gs_pair_search_add(search, &next, &result, &error), GS_OK);
    }
    assert_int_equal(error.code, GS_OK);
}

static double chosen_us(const struct pair_case *drawn, const gs_found_pair *pair) {
    struct trying trying = {.drawn = drawn, .best_us = INFINITY};
    start(&trying, GS_MEASURE_TURNS, pair);
    if (pair->option != GS_PAIR_TURNS)
        trying.now = pair->chosen;
    try(&trying);
    return trying.best_us;
}

static void search_finds_the_best_way_of_random_pairs(void **state) {
    (void)state;
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    int64_t measurements = 0;
    int pairs = plan_rounds(PAIRS), chosen[3] = {0};
    for (int number = 0; number < pairs; number++) {
        struct pair_case drawn;
        draw_case(&drawn, gpu, seed, number);
        gs_pair_search *search =
            gs_pair_search_new(gpu, drawn.given, 2, &(gs_pair_search_options){.models = false}, &error);
        gs_player *player = gs_player_model(&drawn.model, &error);
        run_search(search, player);
        const gs_found_pair *pair = gs_pair_search_pair_at(search, 0);
        struct trying trying = {.search = search, .drawn = &drawn};
        try_everything(&trying);
        double us = chosen_us(&drawn, pair);
        if (us > trying.best_us * CLOSE)
            fail_msg("seed %llu, pair %d: %s (%s) takes %.2f us, %s %.2f us", (unsigned long long)seed, number,
                     gs_pair_option_name(pair->option), pair->reason, us, gs_measure_name(trying.best.measure),
                     trying.best_us);
        for (int i = 0; i < 2; i++) /* as written, with all workers, bisection, fewer registers, parts of the SMs */
            assert_true(gs_pair_search_kernel_at(search, (size_t)i)->measurements <= 1 + 3 * (1 + 4) + 1 + 2);
        measurements += pair->measurements;
        chosen[pair->option]++;
        gs_player_close(player);
        gs_pair_search_free(search);
    }
    assert_true(measurements <= MEASUREMENTS_PER_PAIR * pairs);
    for (int i = 0; i < 3 && pairs >= PAIRS; i++)
        assert_true(chosen[i] > PAIRS / 20);
    gs_gpu_free(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_finds_the_best_way_of_random_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
