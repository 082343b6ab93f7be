/*
 * test_pair_search.c: the search of a plan, on a device with known interference of kernels.
 *
 * Random pairs are planned, and all ways to run them are tried, literally: each form of each kernel, each number of
 * workers, each limit of registers that lets more of them fit, each split. GRIDSMITH_RUNS is how many,
 * GRIDSMITH_SEED where they start.
 */
#include "decide_support.h"

#include "sharing/measure/measure.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PAIRS = 1000,
    REGISTER_STEP = 8,
    FEWEST_REGISTERS = 24,
    MOST_WORKERS = 64,
    MEASUREMENTS_PER_PAIR = 4,
    PAIRS_MISSED = 3
};
static const double REGISTERS_KEPT = 0.66, CLOSE = 1.01, FAR = 1.1, COARSE = 1.1;

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
    int32_t room[MOST_WORKERS + 1]; /* of the second beside this many of the first, with all registers */
};

static void try(struct trying *trying) {
    gs_measure_result result;
    gs_model_time(&trying->drawn->model, &trying->now, &result);
    if (result.us < trying->best_us) {
        trying->best_us = result.us;
        trying->best = trying->now;
    }
}

/* With these registers as many as fit, and more than with all of them. */
static void try_limited(struct trying *trying, int32_t first, int32_t second) {
    gs_measure_side *sides = trying->now.sides;
    gs_shape a = trying->drawn->given[0].forms[sides[0].form], b = trying->drawn->given[1].forms[sides[1].form];
    sides[0].registers = first < a.registers ? first : 0;
    sides[1].registers = second < b.registers ? second : 0;
    a.registers = first;
    b.registers = second;
    int32_t fit = gs_pair_search_room(trying->search, &a, sides[0].workers, &b);
    for (sides[1].workers = trying->room[sides[0].workers] + 1; sides[1].workers <= fit; sides[1].workers++)
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
    start(trying, GS_MEASURE_SERIAL, pair);
    try(trying);
    start(trying, GS_MEASURE_SPLIT, pair);
    try_splits(trying);
    start(trying, GS_MEASURE_INTRA_SM, pair);
    for (int32_t first = 0; first < GS_SEARCH_FORMS; first++)
        for (int32_t second = 0; second < GS_SEARCH_FORMS; second++)
            try_forms(trying, first, second);
}

/* ---- searches ---- */

static bool has_measurement(const gs_measurements *list, const gs_measurement *wanted) {
    for (size_t i = 0; i < list->count; i++)
        if (gs_measurement_equal(&list->data[i], wanted))
            return true;
    return false;
}

static void run_search(gs_pair_search *search, gs_player *player) {
    gs_measurement next;
    gs_measure_result result;
    gs_measurements measured = {0};
    gs_error error;
    while (gs_pair_search_next(search, &next, &error)) {
        assert_false(has_measurement(&measured, &next)); /* nothing is measured twice */
        assert_true(GS_PUSH(&measured, next));
        assert_int_equal(player->ops->measure(player, &next, &result, &error), GS_OK);
        assert_int_equal(gs_pair_search_add(search, &next, &result, &error), GS_OK);
    }
    assert_int_equal(error.code, GS_OK);
    free(measured.data);
}

static double chosen_us(const struct pair_case *drawn, const gs_found_pair *pair) {
    struct trying trying = {.drawn = drawn, .best_us = INFINITY};
    start(&trying, GS_MEASURE_SERIAL, pair);
    if (pair->option != GS_PAIR_SERIAL)
        trying.now = pair->chosen;
    try(&trying);
    return trying.best_us;
}

/* `plan --all --coarse` lists fewer ways, the first is the same, and the best hardly worse. */
static void check_coarse_ways(gs_pair_search *search, const struct pair_case *drawn, const gs_measurements *all) {
    gs_measurements list = {0};
    gs_error error;
    struct trying coarse = {.drawn = drawn, .best_us = INFINITY}, every = coarse;
    assert_int_equal(gs_pair_search_all(search, 0, true, &list, &error), GS_OK);
    assert_true(gs_measurement_equal(&list.data[0], &all->data[0]));
    for (size_t i = 0; i < list.count; i++) {
        assert_true(has_measurement(all, &list.data[i]));
        coarse.now = list.data[i];
        try(&coarse);
    }
    for (size_t i = 0; i < all->count; i++) {
        every.now = all->data[i];
        try(&every);
    }
    assert_true(list.count < all->count && coarse.best_us <= every.best_us * COARSE);
    free(list.data);
}

/* `plan --all` lists no way twice, none that does not fit, and the best of all that are tried here. Returns whether the
   best has a limit of registers. */
static bool check_all_ways(gs_pair_search *search, const struct pair_case *drawn, double best_us, double us) {
    gs_measurements list = {0};
    gs_error error;
    struct trying all = {.drawn = drawn, .best_us = INFINITY};
    assert_int_equal(gs_pair_search_all(search, 0, false, &list, &error), GS_OK);
    check_coarse_ways(search, drawn, &list);
    for (size_t i = 0; i < list.count; i++) {
        const gs_measure_side *sides = list.data[i].sides;
        gs_shape shapes[2];
        for (int k = 0; k < 2; k++) {
            shapes[k] = drawn->given[k].forms[sides[k].form];
            shapes[k].registers = sides[k].registers ? sides[k].registers : shapes[k].registers;
        }
        if (list.data[i].measure == GS_MEASURE_INTRA_SM)
            assert_true(gs_pair_search_room(search, &shapes[0], sides[0].workers, &shapes[1]) >= sides[1].workers);
        if (i % 97 == 0)
            for (size_t k = 0; k < i; k++)
                assert_false(gs_measurement_equal(&list.data[k], &list.data[i]));
        all.now = list.data[i];
        try(&all);
    }
    free(list.data);
    assert_true(all.best_us <= best_us * 1.000001 && all.best_us <= us * 1.000001);
    return all.best.sides[0].registers || all.best.sides[1].registers;
}

TEST(search_finds_the_best_way_of_random_pairs) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    int64_t measurements = 0;
    int pairs = plan_rounds(PAIRS), chosen[3] = {0}, limited = 0, missed = 0;
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
        if (number % 16 == 0)
            limited += check_all_ways(search, &drawn, trying.best_us, us);
        missed += us > trying.best_us * CLOSE;
        if (us > trying.best_us * FAR)
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
    print_message("%.2f measurements for each of %d pairs; %d more than 1%% from the best\n",
                  (double)measurements / pairs, pairs, missed);
    assert_true(missed <= 1 + PAIRS_MISSED * pairs / PAIRS);
    bool is_enough = pairs >= PAIRS; /* for an average, and to meet every choice */
    assert_true(!is_enough || measurements <= (int64_t)MEASUREMENTS_PER_PAIR * pairs);
    for (int i = 0; i < 3 && is_enough; i++)
        assert_true(chosen[i] > PAIRS / 40);
    assert_true(!is_enough || limited > PAIRS / 16 / 20);
    gs_gpu_free(gpu);
}

/* ---- plan files ---- */

enum { KERNELS = 5 };

struct fixture {
    gs_gpu *gpu;
    gs_pair_search_kernel given[KERNELS];
    gs_model_kernel kernels[KERNELS];
    gs_model model;
    char path[64];
};

static void set_up(struct fixture *fixture) {
    gs_random random = gs_random_at(7, 7);
    gs_error error;
    *fixture = (struct fixture){.gpu = gs_gpu_open("h200", &error), .path = "/tmp/gridsmith-plan-XXXXXX"};
    int fd = mkstemp(fixture->path);
    assert_true(fd >= 0);
    close(fd);
    unlink(fixture->path);
    for (int i = 0; i < KERNELS; i++) {
        snprintf(fixture->given[i].name, sizeof fixture->given[i].name, "kernel %d", i);
        draw_kernel(&random, fixture->gpu, &fixture->given[i], &fixture->kernels[i]);
    }
    fixture->model = (gs_model){.kernels = fixture->kernels, .sms = fixture->gpu->sms, .noise = 0.002};
}

static void tear_down(struct fixture *fixture) {
    char other[80];
    gs_gpu_free(fixture->gpu);
    unlink(fixture->path);
    snprintf(other, sizeof other, "%s-wal", fixture->path);
    unlink(other);
    snprintf(other, sizeof other, "%s-shm", fixture->path);
    unlink(other);
}

/* A plan as JSON, with at most `most` new measurements; in the file, or without one. The caller frees the text. */
static gs_text plan_of(struct fixture *fixture, bool has_file, int64_t most) {
    gs_error error = {.code = GS_OK};
    gs_text text = {0};
    gs_pair_search *search =
        gs_pair_search_new(fixture->gpu, fixture->given, KERNELS, &(gs_pair_search_options){.models = true}, &error);
    gs_player *player = gs_player_model(&fixture->model, &error);
    gs_plan_file *file = has_file ? gs_plan_file_open(fixture->path, "h200", "model", &error) : NULL;
    assert_int_equal(has_file, file != NULL);
    if (file)
        assert_int_equal(gs_plan_file_kernels(file, fixture->given, KERNELS, &error), GS_OK);
    gs_planning planning = {.player = player, .file = file, .most = most};
    assert_int_equal(gs_planning_run(&planning, search, &error), GS_OK);
    gs_plan_put_json(&text, search);
    gs_plan_file_close(file);
    gs_player_close(player);
    gs_pair_search_free(search);
    return text;
}

static int64_t number_in(const char *path, const char *sql) {
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
    int step = sqlite3_step(statement);
    int64_t number = step == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    assert_true(step == SQLITE_ROW || step == SQLITE_DONE);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return number;
}

TEST(a_plan_that_was_interrupted_goes_on) {
    struct fixture fixture;
    set_up(&fixture);
    gs_text whole = plan_of(&fixture, false, 0), part = {0};
    int64_t before = -1, after = 0;
    for (int round = 0; before != after; round++) {
        assert_true(round < 1000);
        gs_text_free(&part);
        part = plan_of(&fixture, true, 7);
        assert_true(round > 0 || strstr(part.data, "not measured yet"));
        before = after;
        after = number_in(fixture.path, "SELECT count(*) FROM measurements");
        assert_true(after - before <= 7);
    }
    assert_string_equal(whole.data, part.data);
    assert_null(strstr(whole.data, "not measured yet"));
    assert_int_equal(number_in(fixture.path, "SELECT count(*) FROM kernels WHERE alone_us > 0"), KERNELS);
    assert_int_equal(number_in(fixture.path, "SELECT count(*) FROM pairs"), KERNELS * (KERNELS - 1) / 2);
    gs_text_free(&whole);
    gs_text_free(&part);
    tear_down(&fixture);
}

TEST(a_kernel_that_has_changed_is_measured_again) {
    struct fixture fixture;
    set_up(&fixture);
    gs_text first = plan_of(&fixture, true, 0);
    int64_t others =
        number_in(fixture.path, "SELECT count(*) FROM measurements WHERE 'kernel 2' NOT IN (kernel1, kernel2)");
    fixture.given[2].blocks++;
    gs_error error;
    gs_plan_file *file = gs_plan_file_open(fixture.path, "h200", "model", &error);
    assert_int_equal(gs_plan_file_kernels(file, fixture.given, KERNELS, &error), GS_OK);
    gs_plan_file_close(file);
    assert_int_equal(number_in(fixture.path, "SELECT count(*) FROM measurements"), others);
    gs_text_free(&first);
    tear_down(&fixture);
}

/* With any contents of the file, the plan is the same as without it. */
TEST(a_plan_file_with_nonsense_changes_nothing) {
    static const char *const attacks[] = {
        "UPDATE measurements SET us = -1",
        "UPDATE measurements SET us = 0, us1 = 0",
        "UPDATE measurements SET us = 9e999",
        "UPDATE measurements SET us = NULL, us1 = 'x', us2 = x'00ff'",
        "UPDATE measurements SET us1 = -5, us2 = -5",
        "DELETE FROM measurements WHERE workers1 > 3",
        "DELETE FROM pairs; DELETE FROM kernels",
        "UPDATE kernels SET digest = 'x'",
        "INSERT INTO kernels(name, digest) VALUES('kernel 9', 'x')",
        "UPDATE measurements SET kernel1 = kernel1 || 'x'",
    };
    struct fixture fixture;
    set_up(&fixture);
    gs_text whole = plan_of(&fixture, true, 0);
    for (size_t i = 0; i < GS_COUNT(attacks); i++) {
        sqlite3 *database = NULL;
        assert_int_equal(sqlite3_open(fixture.path, &database), SQLITE_OK);
        assert_int_equal(sqlite3_exec(database, attacks[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(database);
        gs_text again = plan_of(&fixture, true, 0);
        assert_string_equal(whole.data, again.data);
        gs_text_free(&again);
    }
    gs_text_free(&whole);
    tear_down(&fixture);
}

/* A file that is not a plan is refused in one line, and stays unchanged. */
static void refuse(const char *path, const char *gpu, const char *device, const char *says) {
    gs_error error = {.code = GS_OK};
    assert_null(gs_plan_file_open(path, gpu, device, &error));
    assert_int_equal(gs_code_exit(error.code), 2);
    if (!strstr(error.message, says))
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    assert_null(strchr(error.message, '\n'));
}

TEST(files_that_are_no_plan_are_refused) {
    struct fixture fixture;
    char bytes[300];
    set_up(&fixture);
    FILE *file = fopen(fixture.path, "w");
    fprintf(file,
            "this is no database, but it is longer than the head of one would be, which has a hundred bytes.....");
    fclose(file);
    refuse(fixture.path, "h200", "model", "not a database");
    file = fopen(fixture.path, "r");
    assert_true(fread(bytes, 1, sizeof bytes, file) > 90 && memcmp(bytes, "this is no database", 19) == 0);
    fclose(file);
    unlink(fixture.path);
    number_in(fixture.path, "CREATE TABLE other(x)");
    refuse(fixture.path, "h200", "model", "another program");
    unlink(fixture.path);
    gs_text whole = plan_of(&fixture, true, 3);
    refuse(fixture.path, "rtx3090", "model", "was made for h200 on model; expected rtx3090");
    refuse(fixture.path, "h200", "cuda", "expected h200 on cuda");
    number_in(fixture.path, "PRAGMA user_version=99");
    refuse(fixture.path, "h200", "model", "another version");
    number_in(fixture.path, "PRAGMA user_version=1");
    number_in(fixture.path, "DROP TABLE measurements");
    gs_error error = {.code = GS_OK};
    assert_null(gs_plan_file_open(fixture.path, "h200", "model", &error));
    assert_non_null(strstr(error.message, "no such table"));
    gs_text_free(&whole);
    tear_down(&fixture);
}

/* ---- failures ---- */

TEST(one_bad_kernel_does_not_end_the_plan) {
    enum { STUCK = 1, TOUCHY, LARGE };
    struct fixture fixture;
    gs_error error;
    set_up(&fixture);
    for (int i = 0; i < KERNELS; i++) {
        fixture.given[i].forms[0] = gs_shape_of(128, 32, 0);
        fixture.given[i].has_form[1] = fixture.given[i].has_form[2] = false;
        fixture.kernels[i] = (gs_model_kernel){
            .us = 100, .needed = {4}, .cost = {1}, .surplus = 1, .registers = {32}, .units = {0.4, 0.5}};
    }
    fixture.kernels[STUCK].never_ends = true;
    fixture.kernels[TOUCHY].is_changed = true;
    fixture.given[LARGE].forms[0].shared_bytes = 1 << 20;
    gs_pair_search *search =
        gs_pair_search_new(fixture.gpu, fixture.given, KERNELS, &(gs_pair_search_options){.models = false}, &error);
    gs_player *player = gs_player_model(&fixture.model, &error);
    run_search(search, player);
    assert_string_equal(gs_pair_search_kernel_at(search, STUCK)->problem, "it exceeded the time limit");
    assert_int_equal(gs_pair_search_kernel_at(search, STUCK)->measurements, 1);
    assert_non_null(strstr(gs_pair_search_kernel_at(search, LARGE)->problem, "exceeds the resources of an SM"));
    for (size_t i = 0; i < gs_pair_search_pairs(search); i++) {
        const gs_found_pair *pair = gs_pair_search_pair_at(search, i);
        bool is_bad = pair->first == STUCK || pair->second == STUCK || pair->first == LARGE || pair->second == LARGE;
        bool is_touchy = pair->first == TOUCHY || pair->second == TOUCHY;
        assert_true(pair->is_done);
        assert_int_equal(pair->is_measured, !is_bad);
        if (is_touchy && !is_bad)
            assert_true(pair->option == GS_PAIR_SERIAL && strstr(pair->reason, "results change"));
    }
    gs_player_close(player);
    gs_pair_search_free(search);
    tear_down(&fixture);
}

TEST(partners_are_shaped_around_black_boxes) {
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_pair_search_kernel given[2] = {{.name = "gemm", .blocks = 1000, .has_form = {true}, .is_black_box = true},
                                      {.name = "mine", .blocks = 100, .has_form = {true}}};
    gs_model_kernel kernels[2] = {{.us = 1}, {.us = 100, .needed = {16}, .cost = {1}, .surplus = 1, .registers = {32}}};
    gs_model model = {.kernels = kernels, .sms = gpu->sms};
    given[0].forms[0] = gs_shape_of(256, 128, 100 << 10); /* two fit by shared memory; half of the registers is free */
    given[0].forms[0].registers = 64;
    given[1].forms[0] = gs_shape_of(128, 32, 0);
    gs_pair_search *search = gs_pair_search_new(gpu, given, 2, &(gs_pair_search_options){.models = false}, &error);
    gs_player *player = gs_player_model(&model, &error);
    run_search(search, player);
    const gs_found_pair *pair = gs_pair_search_pair_at(search, 0);
    assert_false(pair->is_measured);
    assert_int_equal(pair->option, GS_PAIR_INTRA_SM);
    assert_int_equal(pair->chosen.sides[0].workers, 2);
    assert_int_equal(pair->chosen.sides[1].workers, 8); /* 2 x 256 x 64 + 8 x 128 x 32 registers are all of 65,536 */
    gs_player_close(player);
    gs_pair_search_free(search);
    gs_gpu_free(gpu);
}

TEST(models_have_points) {
    struct fixture fixture;
    gs_error error;
    set_up(&fixture);
    gs_pair_search *search =
        gs_pair_search_new(fixture.gpu, fixture.given, KERNELS, &(gs_pair_search_options){.models = true}, &error);
    gs_player *player = gs_player_model(&fixture.model, &error);
    int together = 0;
    run_search(search, player);
    for (size_t i = 0; i < KERNELS; i++)
        assert_true(gs_pair_search_kernel_at(search, i)->grid_count >= 3);
    for (size_t i = 0; i < gs_pair_search_pairs(search); i++) {
        const gs_found_pair *pair = gs_pair_search_pair_at(search, i);
        together += pair->option != GS_PAIR_SERIAL;
        assert_true(pair->option == GS_PAIR_SERIAL || pair->point_count >= 3);
        for (int32_t k = 1; k < pair->point_count; k++)
            assert_true(pair->points[k].ratio > pair->points[k - 1].ratio);
    }
    assert_true(together > 0);
    gs_player_close(player);
    gs_pair_search_free(search);
    tear_down(&fixture);
}

/* A kernel whose times are mostly noise may have no model. The plan can still be read. */
TEST(a_kernel_that_is_faster_with_more_blocks_has_no_model) {
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_pair_search_kernel given = {.name = "short", .blocks = 400, .has_form = {true}, .launches = 1};
    gs_measurement next;
    gs_line_model model;
    gs_text text = {0};
    given.forms[0] = gs_shape_of(128, 32, 0);
    gs_pair_search *search = gs_pair_search_new(gpu, &given, 1, &(gs_pair_search_options){.models = true}, &error);
    while (gs_pair_search_next(search, &next, &error)) {
        gs_measure_result result = {.us = 200 - next.sides[0].percent};
        result.side_us[0] = result.us;
        assert_int_equal(gs_pair_search_add(search, &next, &result, &error), GS_OK);
    }
    assert_int_equal(gs_pair_search_kernel_at(search, 0)->grid_count, GS_SEARCH_GRIDS);
    assert_false(gs_pair_search_model(search, 0, &model));
    gs_plan_put_json(&text, search);
    assert_non_null(strstr(text.data, "\"model\":null"));
    gs_text_free(&text);
    gs_pair_search_free(search);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
