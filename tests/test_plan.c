/*
 * test_plan.c: profiles, pairs, the store and its file, Slate's table, decisions and masks.
 *
 * GRIDSMITH_RUNS is how many random questions are asked, GRIDSMITH_SEED where they start.
 */
#include "test.h"

#include "literal_plan.h"
#include "plan/plan.h"

#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SMS = 132 };

static int rounds(int most) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000);
    uint64_t scaled = runs * (uint64_t)most / 100000;
    return scaled < 1 ? 1 : (int)scaled;
}

static void expect_near(double value, double wanted, double off) {
    if (!(fabs(value - wanted) <= off))
        fail_msg("%.9f is not %.9f", value, wanted);
}

static gs_profile_store *memory_book(void) {
    gs_profile_store *store = gs_profile_store_open(NULL, "h200", SMS, NULL);
    assert_non_null(store);
    return store;
}

static double between(gs_random *random, double low, double high) {
    return low + (high - low) * (double)gs_random_from(random, 0, 1000000) / 1e6;
}

/* ---- profiles ---- */

/* Rises in proportion up to a part of the SMs, and is flat from there. */
static double true_share(double knee, int32_t sms) {
    return fmin(1, (double)sms / SMS / knee);
}

/* A profile of a kernel that takes `us` alone, measured without noise. */
static gs_profile *learned(gs_profile_store *store, uint64_t key, double knee, double us) {
    static const int32_t at[] = {16, 33, 53, 66, 99, SMS};
    gs_profile *profile = gs_profile_store_get(store, key, "kernel", 100000);
    assert_non_null(profile);
    gs_profile_ran(profile, false, profile->blocks, (uint64_t)(us * 1000));
    for (size_t i = 0; i < GS_COUNT(at); i++)
        gs_profile_rate(profile, at[i], (uint64_t)(1e6 * true_share(knee, at[i])), (uint64_t)(us * 10000));
    return profile;
}

static void the_curve_is_what_was_measured(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    assert_int_equal(gs_profile_duration_ns(&profile), 0);
    expect_near(gs_profile_share(&profile, 50), 0.5, 1e-9);
    gs_profile_ran(&profile, false, profile.blocks, 1000);
    assert_int_equal(gs_profile_duration_ns(&profile), 1000);
    expect_near(gs_profile_share(&profile, 25), 0.25, 1e-9);
    gs_profile_rate(&profile, 50, 900, 1000);
    gs_profile_rate(&profile, 100, 990, 1000); /* confined costs 1% */
    expect_near(gs_profile_share(&profile, 100), 0.99, 1e-9);
    expect_near(gs_profile_share(&profile, 50), 0.9, 1e-9);
    expect_near(gs_profile_share(&profile, 75), 0.945, 1e-9);
    expect_near(gs_profile_share(&profile, 25), 0.45, 1e-9);
    expect_near(gs_profile_share(&profile, 0), 0, 1e-9);
    expect_near(gs_profile_share(&profile, 1000), 0.99, 1e-9);
}

static void nonsense_is_not_measured(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000}, before = profile;
    gs_profile_ran(&profile, false, profile.blocks, 0);
    gs_profile_ran(&profile, false, 0, 10);
    gs_profile_rate(&profile, 0, 10, 10);
    gs_profile_rate(&profile, 101, 10, 10);
    gs_profile_rate(&profile, 10, 0, 10);
    gs_profile_rate(&profile, 10, 10, 0);
    assert_memory_equal(&profile, &before, sizeof profile);
}

static void a_disturbed_sample_changes_nothing(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    for (int i = 0; i < 7; i++)
        gs_profile_rate(&profile, 100, 1000, i == 3 ? 100000 : 1000);
    expect_near(profile.alone, 1, 1e-9);
    for (int i = 0; i < 7; i++) /* but what lasts is believed */
        gs_profile_rate(&profile, 100, 500, 1000);
    expect_near(profile.alone, 0.5, 1e-9);
}

static void noise_does_not_make_fewer_sms_faster(void **state) {
    (void)state;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 1);
    for (int i = 0; i < rounds(2000); i++) {
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
        for (int j = 0; j < 40; j++)
            gs_profile_rate(&profile, (int32_t)gs_random_from(&random, 1, SMS),
                            (uint64_t)gs_random_from(&random, 1, 1000), 1000);
        if (gs_random_chance(&random, 50))
            gs_profile_ran(&profile, false, profile.blocks, (uint64_t)gs_random_from(&random, 100, 100000));
        for (int32_t sms = 1; sms <= SMS; sms++)
            assert_true(gs_profile_share(&profile, sms) >= gs_profile_share(&profile, sms - 1) - 1e-12);
        assert_true(gs_profile_share(&profile, SMS) <= 1 + 1e-12);
        assert_in_range(profile.point_count, 1, GS_PROFILE_POINTS);
        gs_profile_wanted(&profile, 4);
    }
}

/* As of one with few blocks. */
static void a_rate_that_stops_growing_needs_no_more_sms(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = SMS, .blocks = 40};
    gs_profile_ran(&profile, false, profile.blocks, 1000);
    gs_profile_rate(&profile, 20, profile.blocks, 1000);
    expect_near(gs_profile_share(&profile, 20), 1, 1e-9);
    expect_near(gs_profile_share(&profile, 10), 0.5, 1e-9);
    expect_near(gs_profile_share(&profile, 100), 1, 1e-9);
}

/* What was measured on fewer SMs only is extended in proportion. */
static void more_sms_than_were_measured_do_more(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
    gs_profile_rate(&profile, 33, 1000, 1000);
    expect_near(profile.alone, 4, 1e-9);
    expect_near(gs_profile_share(&profile, 33), 0.25, 1e-9);
    expect_near(gs_profile_share(&profile, 99), 0.75, 1e-9);
}

/* Asking what to measure next, and measuring that with some noise, must find any curve in a few steps. */
static void what_is_wanted_finds_the_curve(void **state) {
    (void)state;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 2);
    int most = 0, all = 0, count = rounds(2000);
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double knee = between(&random, 0.05, 1), bend = between(&random, 1, 4);
        bool is_smooth = gs_random_chance(&random, 50);
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000000};
        int steps = 0;
        gs_profile_ran(&profile, false, profile.blocks, 1000000);
        for (int32_t sms; (sms = gs_profile_wanted(&profile, 4)) > 0; steps++) {
            double x = (double)sms / SMS, truth = is_smooth ? 1 - pow(1 - x, bend) : true_share(knee, sms);
            assert_true(steps < 100);
            gs_profile_rate(&profile, sms, (uint64_t)(1e6 * truth * between(&random, 0.99, 1.01)), 1000000);
        }
        for (int32_t sms = 4; sms <= SMS; sms += 4) {
            double x = (double)sms / SMS, truth = is_smooth ? 1 - pow(1 - x, bend) : true_share(knee, sms);
            worst = fmax(worst, fabs(gs_profile_share(&profile, sms) - truth));
        }
        all += steps;
        most = steps > most ? steps : most;
    }
    print_message("curves found in %.1f steps, %d at most; off by %.3f at most\n", (double)all / count, most, worst);
    assert_true(worst < 0.12);
    assert_true(most <= GS_PROFILE_POINTS * 3);
}

/* Of a kernel that has nine tenths of its rate on `knee` SMs. */
static void classes_follow_the_curve(void **state) {
    (void)state;
    static const struct {
        int32_t knee;
        enum gs_level memory, compute;
    } kinds[] = {{40, GS_LEVEL_HIGH, GS_LEVEL_LOW},      {79, GS_LEVEL_HIGH, GS_LEVEL_LOW},       /* 0.598 of the SMs */
                 {80, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM}, {105, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM}, /* 0.795 */
                 {106, GS_LEVEL_LOW, GS_LEVEL_MEDIUM},   {112, GS_LEVEL_LOW, GS_LEVEL_MEDIUM},    /* 0.848 */
                 {113, GS_LEVEL_LOW, GS_LEVEL_HIGH},     {119, GS_LEVEL_LOW, GS_LEVEL_HIGH}};
    for (size_t i = 0; i < GS_COUNT(kinds); i++) {
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
        gs_profile_rate(&profile, SMS, 1000000, 1000000);
        gs_profile_rate(&profile, kinds[i].knee, 900001, 1000000);
        assert_int_equal(gs_profile_memory(&profile), i == 0 ? GS_LEVEL_HIGH : GS_LEVEL_UNKNOWN);
        gs_profile_rate(&profile, 33, 33 * 900000 / (uint64_t)kinds[i].knee, 1000000);
        assert_int_equal(gs_profile_memory(&profile), kinds[i].memory);
        assert_int_equal(gs_profile_compute(&profile), kinds[i].compute);
    }
    gs_profile fresh = {.key = 1, .sms = SMS, .blocks = 10};
    gs_profile_rate(&fresh, SMS, 10, 10);
    assert_int_equal(gs_profile_memory(&fresh), GS_LEVEL_UNKNOWN);
    assert_int_equal(gs_profile_compute(&fresh), GS_LEVEL_UNKNOWN);
    assert_string_equal(gs_level_name(GS_LEVEL_MEDIUM), "medium");
}

static void keys_tell_launches_apart(void **state) {
    (void)state;
    uint32_t one[3] = {1, 2, 3}, other[3] = {1, 3, 2};
    uint64_t key = gs_profile_key(7, "k", 6, one, 0);
    assert_true(key == gs_profile_key(7, "k", 6, one, 0) && key != 0);
    assert_true(key != gs_profile_key(8, "k", 6, one, 0));
    assert_true(key != gs_profile_key(7, "kk", 6, one, 0));
    assert_true(key != gs_profile_key(7, "k", 8, one, 0));
    assert_true(key != gs_profile_key(7, "k", 6, other, 0));
    assert_true(key != gs_profile_key(7, "k", 6, one, 1));
}

/* Launches it as often as it takes until the forms were compared, on a GPU that gets faster; returns how often. */
static int compare_forms(gs_profile *profile, double whole_ns, double block_loop_ns, double clock) {
    bool was = profile->prefers_block_loop;
    int launches = 0, others = 0;
    profile->is_compared = false; /* as at first */
    for (; !profile->is_compared; launches++, clock *= 1.01) {
        bool walks = was != gs_profile_takes_other(profile);
        others += walks != was;
        gs_profile_ran(profile, walks, 1000, (uint64_t)((walks ? block_loop_ns : whole_ns) / clock));
    }
    assert_int_equal(others, 5);
    return launches;
}

static void small_blocks_are_walked_where_that_is_faster(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    assert_int_equal(compare_forms(&profile, 90000, 30000, 1), 16 + 9);
    assert_true(profile.prefers_block_loop);
    for (int i = 0; i < 4096; i++) {
        assert_false(gs_profile_takes_other(&profile));
        gs_profile_ran(&profile, true, 1000, 30000);
    }
    expect_near(profile.alone, 1000 / 30000.0, 1e-9);
    assert_true(gs_profile_takes_other(&profile)); /* again */
    compare_forms(&profile, 31000, 30000, 1);      /* by so little it does not matter */
    assert_false(profile.prefers_block_loop);
}

/* That a GPU gets faster while they are compared, or slower after it, says nothing about them. */
static void a_changing_clock_changes_no_form(void **state) {
    (void)state;
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    compare_forms(&profile, 90000, 90000, 0.5);
    assert_false(profile.prefers_block_loop);
    for (int i = 0; i < 100; i++)
        gs_profile_ran(&profile, false, 1000, 99000);
    assert_false(profile.prefers_block_loop || gs_profile_takes_other(&profile));
}

static void grids_that_are_alike_share_a_profile(void **state) {
    (void)state;
    static const uint64_t classes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    for (uint64_t blocks = 1, at = 0; blocks <= 32; blocks++) {
        at += at + 1 < GS_COUNT(classes) && classes[at + 1] <= blocks;
        assert_int_equal(gs_profile_blocks(blocks), classes[at]);
    }
    assert_true(gs_profile_blocks(UINT64_MAX) == 3ull << 62);
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1024};
    gs_profile_ran(&profile, false, 1280, 1000);
    expect_near(profile.alone, 1.28, 1e-9);
    assert_int_equal(gs_profile_duration_ns(&profile), 800);
}

/* ---- Slate's table ---- */

static void the_table_is_slates_upper_half(void **state) {
    (void)state;
    static const enum gs_level kinds[5][2] = {{GS_LEVEL_LOW, GS_LEVEL_LOW},
                                              {GS_LEVEL_MEDIUM, GS_LEVEL_LOW},
                                              {GS_LEVEL_HIGH, GS_LEVEL_LOW},
                                              {GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM},
                                              {GS_LEVEL_LOW, GS_LEVEL_HIGH}};
    /* As printed, C corun and s solo. Its halves differ in H_C with M_M, and in H_C with H_M. */
    static const char *const printed[5] = {"CCsCC", "CCssC", "ssssC", "CsCss", "CCsss"};
    int differ = 0;
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            bool corun = gs_table_says_corun(kinds[a][0], kinds[a][1], kinds[b][0], kinds[b][1]);
            assert_int_equal(corun, printed[a < b ? a : b][a < b ? b : a] == 'C');
            differ += a < b && printed[a][b] != printed[b][a];
        }
    assert_int_equal(differ, 2);
    assert_false(gs_table_says_corun(GS_LEVEL_HIGH, GS_LEVEL_LOW, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM));
    assert_true(gs_table_says_corun(GS_LEVEL_LOW, GS_LEVEL_HIGH, GS_LEVEL_HIGH, GS_LEVEL_LOW));
    assert_true(
        gs_table_says_corun(GS_LEVEL_HIGH, GS_LEVEL_HIGH, GS_LEVEL_LOW, GS_LEVEL_LOW)); /* memory counts first */
    assert_false(gs_table_says_corun(GS_LEVEL_UNKNOWN, GS_LEVEL_UNKNOWN, GS_LEVEL_LOW, GS_LEVEL_LOW));
}

/* ---- pairs ---- */

static void pairs_are_measured_by_split(void **state) {
    (void)state;
    gs_profile_store *store = memory_book();
    gs_profile *a = learned(store, 1, 1, 1000), *b = learned(store, 2, 0.5, 1000);
    double factor;
    assert_null(gs_profile_store_pair(store, 1, 2));
    /* Alone on 66 SMs a does 50 blocks a microsecond, b 100. */
    gs_beside half_a = {a, 66, 40000}, half_b = {b, 66, 50000};
    gs_profile_store_beside(store, &half_b, &half_a, 1000000);
    const gs_pair *pair = gs_profile_store_pair(store, 2, 1);
    assert_non_null(pair);
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    expect_near(factor, 0.8, 1e-6);
    assert_true(gs_pair_factor(pair, b, 132, &factor)); /* the nearest there is */
    expect_near(factor, 0.5, 1e-6);
    assert_true(gs_pair_factor(pair, b, 10, &factor)); /* so few give less than the memory does */
    expect_near(factor, 1, 1e-6);
    gs_beside most_a = {a, 120, 90000}, least_b = {b, 12, 18000};
    gs_profile_store_beside(store, &most_a, &least_b, 1000000);
    assert_true(gs_pair_factor(pair, b, 12, &factor));
    expect_near(factor, 18.0 / (12 / 66.0 * 100), 0.02);
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    expect_near(factor, 0.8, 1e-6);
    for (int i = 0; i < 60; i++) { /* old measurements fade */
        half_a.blocks = 50000;
        gs_profile_store_beside(store, &half_a, &half_b, 1000000);
    }
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    expect_near(factor, 1, 0.01);
    gs_profile_store_turns(store, &(gs_beside){a, 0, 50000}, &(gs_beside){b, 0, 60000}, 1000000);
    expect_near(pair->turns, 1.1, 1e-6);
    gs_profile_store_close(store);
}

static void a_kernel_beside_itself_is_the_same_both_ways(void **state) {
    (void)state;
    gs_profile_store *store = memory_book();
    gs_profile *a = learned(store, 1, 1, 1000);
    double few = 0, many = 0;
    gs_profile_store_beside(store, &(gs_beside){a, 33, 20000}, &(gs_beside){a, 99, 60000}, 1000000);
    const gs_pair *pair = gs_profile_store_pair(store, 1, 1);
    assert_true(gs_pair_factor(pair, a, 33, &few) && gs_pair_factor(pair, a, 99, &many));
    expect_near(few, 0.8, 1e-6);
    expect_near(many, 0.8, 1e-6);
    gs_profile_store_close(store);
}

/* ---- the store and its file ---- */

static const char *fresh_file(void) {
    static char path[200];
    snprintf(path, sizeof path, "/tmp/gridsmith-plan-%d.db", (int)getpid());
    char beside[220];
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < GS_COUNT(endings); i++) {
        snprintf(beside, sizeof beside, "%s%s", path, endings[i]);
        unlink(beside);
    }
    return path;
}

static gs_profile_store *file_book(const char *path) {
    gs_profile_store *store = gs_profile_store_open(path, "h200", SMS, NULL);
    assert_non_null(store);
    return store;
}

static void fill(gs_profile_store *store) {
    gs_profile *a = learned(store, UINT64_MAX - 5, 1, 1000), *b = learned(store, 2, 0.5, 300);
    gs_profile_store_beside(store, &(gs_beside){a, 66, 40000}, &(gs_beside){b, 66, 50000}, 1000000);
    gs_profile_store_turns(store, &(gs_beside){a, 0, 50000}, &(gs_beside){b, 0, 60000}, 1000000);
}

static void expect_filled(gs_profile_store *store) {
    gs_profile *a = gs_profile_store_get(store, UINT64_MAX - 5, "kernel", 100000);
    const gs_pair *pair = gs_profile_store_pair(store, UINT64_MAX - 5, 2);
    double factor;
    assert_int_equal(gs_profile_duration_ns(a), 1000000);
    expect_near(gs_profile_share(a, 66), 0.5, 1e-3);
    assert_int_equal(a->point_count, 6);
    assert_int_equal(gs_profile_compute(a), GS_LEVEL_HIGH);
    assert_non_null(pair);
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    expect_near(factor, 0.8, 1e-3);
    assert_true(pair->turns > 0.5);
}

static void what_was_learned_is_there_next_time(void **state) {
    (void)state;
    const char *path = fresh_file();
    gs_profile_store *store = file_book(path);
    assert_null(gs_profile_store_problem(store));
    fill(store);
    assert_true(gs_profile_store_save(store));
    assert_true(gs_profile_store_save(store)); /* nothing new */
    gs_profile_store_close(store);
    store = file_book(path);
    assert_null(gs_profile_store_problem(store));
    expect_filled(store);
    gs_profile_store_close(store);
    store = gs_profile_store_open(path, "another", SMS, NULL); /* another GPU knows nothing of it */
    size_t at = 0;
    assert_null(gs_profile_store_next(store, &at));
    gs_profile_store_close(store);
    store = file_book(path);
    expect_filled(store);
    gs_profile_store_close(store);
}

static void execute(const char *path, const char *sql) {
    sqlite3 *file = NULL;
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
}

static char *read_bytes(const char *path, size_t *count) {
    char *bytes = NULL;
    *count = 0;
    if (access(path, F_OK) == 0)
        assert_int_equal(gs_input_all(path, 1 << 24, &bytes, count, NULL), GS_OK);
    return bytes;
}

/* The store works without its file, says why once, and leaves the file as it is. */
static void expect_problem(const char *path, const char *words) {
    size_t count_before, count_after;
    char *before = read_bytes(path, &count_before);
    gs_profile_store *store = file_book(path);
    const char *problem = gs_profile_store_problem(store);
    if (!problem || strncmp(problem, "profiles are not saved: ", 24) != 0 || !strstr(problem, path) ||
        !strstr(problem, words) || strchr(problem, '\n'))
        fail_msg("expected \"%s\", got \"%s\"", words, problem ? problem : "nothing");
    assert_null(gs_profile_store_problem(store)); /* once */
    fill(store);
    expect_filled(store);
    assert_false(gs_profile_store_save(store));
    assert_null(gs_profile_store_problem(store));
    gs_profile_store_close(store);
    char *after = read_bytes(path, &count_after);
    assert_int_equal(count_after, count_before);
    if (before)
        assert_memory_equal(after, before, count_before);
    free(before);
    free(after);
}

static void set_later_version(const char *path) {
    sqlite3 *file = NULL;
    sqlite3_stmt *row = NULL;
    char sql[60];
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(file, "PRAGMA user_version", -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    snprintf(sql, sizeof sql, "PRAGMA user_version=%d", sqlite3_column_int(row, 0) + 1);
    sqlite3_finalize(row);
    sqlite3_close(file);
    execute(path, sql);
}

static void a_file_that_cannot_be_used_is_no_reason_to_stop(void **state) {
    (void)state;
    const char *path = fresh_file();
    FILE *text = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fprintf(text, "this is not a database\n");
    fclose(text);
    expect_problem(path, "not a database");
    execute(fresh_file(), "CREATE TABLE theirs(a)");
    expect_problem(path, "another program");
    gs_profile_store_close(file_book(fresh_file()));
    set_later_version(path);
    expect_problem(path, "later version");
    gs_profile_store_close(file_book(fresh_file()));
    execute(path, "DROP TABLE points");
    expect_problem(path, "no such table");
    expect_problem("/nowhere/at/all.db", "unable to open");
}

/* What versions 1 and 2 wrote; 2 had two more columns in `profiles`. */
#define OLD_PROFILES                                                                                                   \
    "CREATE TABLE profiles(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, used INTEGER NOT NULL,"  \
    " name TEXT NOT NULL, blocks INTEGER NOT NULL, blocks_per_sm INTEGER, warps_percent INTEGER,"                      \
    " bandwidth_percent INTEGER, whole_ns REAL, whole_samples INTEGER, compute TEXT, memory TEXT,"
#define OLD_KEY " PRIMARY KEY(gpu, gpu_sms, key)) WITHOUT ROWID;"
#define OLD_OTHERS                                                                                                     \
    "CREATE TABLE points(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, sms INTEGER NOT NULL,"     \
    " blocks_per_ns REAL, samples INTEGER, PRIMARY KEY(gpu, gpu_sms, key, sms)) WITHOUT ROWID;"                        \
    "CREATE TABLE pairs(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL,"          \
    " split INTEGER NOT NULL, used INTEGER NOT NULL, factor_a REAL, factor_b REAL, samples INTEGER,"                   \
    " PRIMARY KEY(gpu, gpu_sms, a, b, split)) WITHOUT ROWID;"                                                          \
    "INSERT INTO points VALUES('h200', 132, 2, 66, 0.1, 3);"                                                           \
    "INSERT INTO pairs VALUES('h200', 132, 2, 3, 4, 1, 0.5, 0.5, 3);"                                                  \
    "PRAGMA application_id=1198746992;"

static void what_an_earlier_version_measured_is_measured_again(void **state) {
    (void)state;
    static const char *const versions[] = {
        OLD_PROFILES OLD_KEY OLD_OTHERS
        "INSERT INTO profiles VALUES('h200', 132, 2, 1, 'k', 100000, 2, 50, 0, 1e6, 3, 'low', 'high');"
        "PRAGMA user_version=1",
        OLD_PROFILES
        " walked_ns REAL, walked_samples INTEGER," OLD_KEY OLD_OTHERS
        "INSERT INTO profiles VALUES('h200', 132, 2, 1, 'k', 100000, 2, 50, 0, 1e6, 3, 'low', 'high', 9, 3);"
        "PRAGMA user_version=2"};
    for (size_t i = 0; i < GS_COUNT(versions); i++) {
        const char *path = fresh_file();
        size_t at = 0;
        execute(path, versions[i]);
        gs_profile_store *store = file_book(path);
        assert_null(gs_profile_store_problem(store));
        assert_null(gs_profile_store_next(store, &at));
        assert_null(gs_profile_store_next_pair(store, &(size_t){0}));
        fill(store);
        assert_true(gs_profile_store_save(store));
        gs_profile_store_close(store);
        store = file_book(path);
        assert_null(gs_profile_store_problem(store));
        expect_filled(store);
        gs_profile_store_close(store);
    }
}

static sqlite3 *lock_file(const char *path) {
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void unlock_file(sqlite3 *other) {
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
}

static void a_locked_file_is_tried_again(void **state) {
    (void)state;
    const char *path = fresh_file();
    gs_profile_store *store = file_book(path);
    for (int i = 0; i < 2; i++) { /* a problem that comes back is reported again */
        sqlite3 *other = lock_file(path);
        fill(store);
        assert_false(gs_profile_store_save(store));
        assert_non_null(strstr(gs_profile_store_problem(store), "locked"));
        assert_false(gs_profile_store_save(store));
        assert_null(gs_profile_store_problem(store)); /* one that stays is not */
        unlock_file(other);
        assert_true(gs_profile_store_save(store));
        assert_null(gs_profile_store_problem(store));
    }
    gs_profile_store_close(store);
    store = file_book(path);
    expect_filled(store);
    gs_profile_store_close(store);
}

/* A file that cannot be read when the store is opened is not written later. */
static void a_file_that_is_locked_at_the_start_is_not_used(void **state) {
    (void)state;
    const char *path = fresh_file();
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    gs_profile_store *store = file_book(path);
    assert_non_null(strstr(gs_profile_store_problem(store), "locked"));
    unlock_file(other);
    fill(store);
    assert_false(gs_profile_store_save(store));
    assert_null(gs_profile_store_problem(store));
    expect_filled(store);
    gs_profile_store_close(store);
}

/* Damage that is found by a save is reported after it, and the file is not used again. */
static void a_file_that_is_damaged_while_it_is_open_is_reported(void **state) {
    (void)state;
    const char *path = fresh_file();
    gs_profile_store *store = file_book(path);
    fill(store);
    assert_true(gs_profile_store_save(store));
    assert_null(gs_profile_store_problem(store));
    execute(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    FILE *file = fopen(path, "r+");
    for (int i = 0; i < 32768; i++)
        fputc(0x55, file);
    fclose(file);
    fill(store);
    assert_false(gs_profile_store_save(store));
    assert_non_null(gs_profile_store_problem(store));
    assert_false(gs_profile_store_save(store));
    assert_null(gs_profile_store_problem(store));
    expect_filled(store);
    gs_profile_store_close(store);
}

static void a_full_disk_is_tried_again(void **state) {
    (void)state;
    const char *path = fresh_file();
    gs_profile_store *store = file_book(path);
    fill(store);
    struct rlimit before, none;
    getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 0;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    bool saved = gs_profile_store_save(store);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_false(saved);
    assert_non_null(gs_profile_store_problem(store));
    assert_true(gs_profile_store_save(store));
    gs_profile_store_close(store);
    store = file_book(path);
    expect_filled(store);
    gs_profile_store_close(store);
}

static void nonsense_in_the_file_is_left_out(void **state) {
    (void)state;
    const char *path = fresh_file();
    gs_profile_store *store = file_book(path);
    fill(store);
    gs_profile_store_close(store);
    execute(path, "INSERT INTO profiles VALUES('h200', 132, 77, -1, 'x', -5, 9e99, 1e99, 'a', 'b', x'00', 'x');"
                  "INSERT INTO profiles VALUES('h200', 132, 78, 9e18, '', 5, 9, 1, 9, 3, 4, 5);"
                  "INSERT INTO profiles VALUES('h200', 132, 79, 1, '', 5, -1, 9, 1e300, 9, 4, 5);");
    execute(path, "INSERT INTO points VALUES('h200', 132, 2, -1, 5, 5);"
                  "INSERT INTO points VALUES('h200', 132, 2, 133, 5, 5);"
                  "INSERT INTO points VALUES('h200', 132, 2, 3, 'x', 5);"
                  "INSERT INTO points VALUES('h200', 132, 2, 4, 1e300, 5);"
                  "INSERT INTO points VALUES('h200', 132, 99, 4, 1, 5);"
                  "INSERT INTO pairs VALUES('h200', 132, 5, 6, 8, 1, 1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 5, 6, 1, 1, -1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 6, 5, 1, 1, 1, 1, 1);");
    store = file_book(path);
    assert_null(gs_profile_store_problem(store));
    assert_null(gs_profile_store_pair(store, 5, 6));
    gs_profile *known = gs_profile_store_get(store, 2, "kernel", 100000);
    assert_int_equal(known->point_count, 6);
    expect_filled(store);
    gs_profile_store_close(store);
}

static void a_file_with_random_damage_never_crashes(void **state) {
    (void)state;
    const char *path = fresh_file();
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 3);
    gs_profile_store *store = file_book(path);
    for (uint64_t i = 1; i < 60; i++)
        learned(store, i, 0.5, 1000);
    fill(store);
    gs_profile_store_close(store);
    char *bytes = NULL;
    size_t count;
    assert_int_equal(gs_input_all(path, 1 << 24, &bytes, &count, NULL), GS_OK);
    int noticed = 0, all = rounds(300);
    for (int i = 0; i < all; i++) {
        FILE *file = fopen(fresh_file(), "w");
        fwrite(bytes, 1, count, file);
        for (int64_t j = gs_random_from(&random, 1, 40); j > 0; j--) {
            fseek(file, gs_random_from(&random, 0, (int64_t)count - 1), SEEK_SET);
            fputc((int)gs_random_from(&random, 0, 255), file);
        }
        fclose(file);
        store = file_book(path);
        fill(store);
        gs_profile_store_save(store);
        noticed += gs_profile_store_problem(store) != NULL;
        gs_profile_store_close(store);
    }
    print_message("%d of %d damaged files were noticed\n", noticed, all);
    free(bytes);
    fresh_file();
}

static void the_book_is_bounded_and_held_profiles_stay(void **state) {
    (void)state;
    gs_profile_store *store = memory_book();
    gs_profile *held = learned(store, 3, 0.5, 1000);
    for (uint64_t i = 0; i < 3 * GS_STORE_PROFILES; i++) {
        gs_profile *other = gs_profile_store_get(store, 1000 + i * 7919, "other", 5);
        assert_non_null(other);
        gs_profile_rate(other, 5, 5, 5);
        gs_profile_store_beside(store, &(gs_beside){held, 66, 10}, &(gs_beside){other, 66, 10}, 10);
        gs_profile_store_put(store, other);
    }
    size_t profiles = 0, at = 0;
    for (; gs_profile_store_next(store, &at); profiles++)
        ;
    assert_in_range(profiles, GS_STORE_PROFILES / 2, GS_STORE_PROFILES);
    assert_int_equal(held->key, 3);
    assert_ptr_equal(gs_profile_store_get(store, 3, held->name, held->blocks), held);
    assert_string_equal(held->name, "kernel");
    assert_int_equal(gs_profile_duration_ns(held), 1000000);
    /* All places of a key held: there is no room for another. */
    for (uint64_t i = 0; i < 8; i++)
        assert_non_null(gs_profile_store_get(store, 11 + i * (GS_STORE_PROFILES / 8), "held", 5));
    assert_null(gs_profile_store_get(store, 11 + 8 * (GS_STORE_PROFILES / 8), "one too many", 5));
    gs_profile_store_close(store);
    assert_null(gs_profile_store_open(NULL, "x", 0, NULL));
}

/* ---- decisions ---- */

static gs_contender waiting(const gs_profile *profile, uint32_t client) {
    return (gs_contender){.profile = profile, .client = client, .weight = 1, .arrival = client, .can_confine = true};
}

static void apply(gs_contender *contender, const gs_plan_place *placement) {
    contender->how = placement->how;
    contender->sms = placement->how == GS_PLAN_WAIT ? 0 : placement->sms;
    contender->state = placement->how == GS_PLAN_WAIT ? GS_CONTENDER_WAITS : GS_CONTENDER_RUNS;
}

struct scene {
    gs_profile_store *store;
    gs_plan_options options;
    gs_contender contenders[8];
    gs_plan_place placements[8];
    size_t count;
};

static struct scene new_scene(void) {
    struct scene scene = {.store = memory_book(), .options = gs_plan_defaults(SMS)};
    scene.options.probes = false;
    return scene;
}

static gs_decision decide(struct scene *scene) {
    return gs_plan_decide(&scene->options, scene->store, scene->contenders, scene->count, scene->placements);
}

static void expect(const struct scene *scene, size_t i, enum gs_plan_how how, int32_t sms) {
    if (scene->placements[i].how != how || (how != GS_PLAN_WAIT && scene->placements[i].sms != sms))
        fail_msg("contender %zu: how %d on %d SMs, expected %d on %d", i, scene->placements[i].how,
                 scene->placements[i].sms, how, sms);
}

static void nothing_to_do_is_fine(void **state) {
    (void)state;
    struct scene scene = new_scene();
    gs_decision decision = decide(&scene);
    assert_int_equal(decision.running, 0);
    assert_false(decision.is_changed);
    assert_true(decision.look_again_ns == INT64_MAX);
    gs_profile_store_close(scene.store);
}

static void a_kernel_alone_has_the_gpu(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 1;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 500), 0);
    assert_int_equal(decide(&scene).running, 1);
    expect(&scene, 0, GS_PLAN_WHOLE, SMS); /* as it is: no cost at all */
    scene.contenders[0].profile = learned(scene.store, 2, 1, 5000);
    decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS); /* long: so that it can give way */
    scene.contenders[0].can_confine = false;
    decide(&scene);
    expect(&scene, 0, GS_PLAN_WHOLE, SMS);
    scene.contenders[0] = waiting(NULL, 0);
    decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS); /* nobody knows how long */
    scene.contenders[0].cap = 20;
    decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, 20);
    gs_profile *confined =
        gs_profile_store_get(scene.store, 3, "confined", 100000); /* as it was written it may be faster */
    for (int i = 0; i < 4; i++)
        gs_profile_rate(confined, SMS, 100000, 5000000);
    scene.contenders[0] = waiting(confined, 0);
    scene.options.probes = false;
    decide(&scene);
    expect(&scene, 0, GS_PLAN_WHOLE, SMS);
    gs_profile_ran(confined, false, 100000, 6000000);
    decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

static void complements_run_together_split_by_their_curves(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 5000), 0);   /* bound by its SMs */
    scene.contenders[1] = waiting(learned(scene.store, 2, 0.4, 5000), 1); /* bound by memory: 53 SMs do */
    gs_decision decision = decide(&scene);
    assert_int_equal(decision.running, 2);
    assert_true(decision.throughput > 1.55);
    assert_int_equal(scene.placements[0].how, GS_PLAN_CONFINED);
    assert_in_range(scene.placements[1].sms, 48, 56);
    assert_int_equal(scene.placements[0].sms + scene.placements[1].sms, SMS);
    assert_false(scene.placements[0].is_trial); /* the table says so */
    gs_profile_store_close(scene.store);
}

static void two_of_a_kind_take_turns(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = waiting(learned(scene.store, 2, 1, 5000), 1);
    gs_decision decision = decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS);
    expect(&scene, 1, GS_PLAN_WAIT, 0);
    assert_int_equal(decision.look_again_ns, scene.options.slice_ns);
    apply(&scene.contenders[0], &scene.placements[0]);
    scene.contenders[0].running_ns = scene.options.slice_ns - 1; /* its slice is not over */
    scene.contenders[0].served = 1000000;
    scene.contenders[1].waited_ns = scene.options.slice_ns - 1;
    decision = decide(&scene);
    assert_false(decision.is_changed);
    assert_int_equal(decision.look_again_ns, 1);
    scene.contenders[0].running_ns++;
    decision = decide(&scene);
    assert_true(decision.is_changed);
    expect(&scene, 0, GS_PLAN_WAIT, 0);
    expect(&scene, 1, GS_PLAN_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

static void the_table_is_tried_and_measurements_replace_it(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    gs_profile *a = learned(scene.store, 1, 0.4, 5000), *b = learned(scene.store, 2, 0.4, 5000);
    scene.contenders[0] = waiting(a, 0);
    scene.contenders[1] = waiting(b, 1);
    /* Both bound by memory: solo says the table, 2.0 say the curves. So it is tried. */
    assert_int_equal(decide(&scene).running, 2);
    assert_true(scene.placements[0].is_trial && scene.placements[1].is_trial);
    for (int i = 0; i < 2; i++) /* and found to be useless: half the rate each */
        gs_profile_store_beside(scene.store, &(gs_beside){a, 66, 10000}, &(gs_beside){b, 66, 10000}, 1000000);
    assert_int_equal(decide(&scene).running, 1);
    expect(&scene, 1, GS_PLAN_WAIT, 0);
    /* The same where the table says corun and is wrong. */
    gs_profile *c = learned(scene.store, 3, 1, 5000);
    scene.contenders[1] = waiting(c, 1);
    assert_int_equal(decide(&scene).running, 2);
    for (int i = 0; i < 2; i++)
        gs_profile_store_beside(scene.store, &(gs_beside){a, 53, 8000}, &(gs_beside){c, 79, 4000}, 1000000);
    assert_int_equal(decide(&scene).running, 1);
    gs_profile_store_close(scene.store);
}

static void turns_that_do_more_than_one_are_preferred(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    gs_profile *a = learned(scene.store, 1, 0.88, 5000), *b = learned(scene.store, 2, 0.88, 5000);
    assert_int_equal(gs_profile_compute(a), GS_LEVEL_MEDIUM); /* low in memory: corun */
    scene.contenders[0] = waiting(a, 0);
    scene.contenders[1] = waiting(b, 1);
    assert_int_equal(decide(&scene).running, 2);
    for (int i = 0; i < 3; i++)
        gs_profile_store_turns(scene.store, &(gs_beside){a, 0, 12000}, &(gs_beside){b, 0, 12000}, 1000000);
    assert_int_equal(decide(&scene).running, 1);
    gs_profile_store_close(scene.store);
}

static void let_both_wait(struct scene *scene, gs_profile *a, gs_profile *b) {
    scene->contenders[0] = waiting(a, 0);
    scene->contenders[1] = waiting(b, 1);
}

/* Decides until turns are to be measured, tells what splits give meanwhile, and returns how many there were. */
static int measure_splits(struct scene *scene, const gs_beside *a, const gs_beside *b, uint64_t ns) {
    enum { MOST = 100 };
    int splits = 0;
    for (; splits < MOST; splits++) {
        bool is_split = decide(scene).running == 2 && scene->placements[0].how == GS_PLAN_CONFINED;
        for (size_t i = 0; i < 2; i++)
            apply(&scene->contenders[i], &scene->placements[i]);
        if (!is_split)
            break;
        gs_profile_store_beside(scene->store, a, b, ns);
    }
    return splits;
}

/* A GPU can be slow just while turns are measured. So they are again, among the splits. */
static void turns_are_measured_again_among_splits(void **state) {
    (void)state;
    static const int splits[] = {0, 0, 1, 1, 1, 2, 4, 8};
    struct scene scene = new_scene();
    scene.count = 2;
    gs_profile *a = learned(scene.store, 1, 0.4, 1000), *b = learned(scene.store, 2, 1, 1000);
    for (size_t i = 0; i < GS_COUNT(splits); i++) {
        let_both_wait(&scene, a, b);
        assert_int_equal(measure_splits(&scene, &(gs_beside){a, 53, 9000}, &(gs_beside){b, 79, 6000}, 100000),
                         splits[i]);
        gs_profile_store_turns(scene.store, &(gs_beside){a, 0, 45000}, &(gs_beside){b, 0, 45000}, 1000000);
    }
    gs_profile_store_close(scene.store);
}

/* Turns come out at 0.75 and a split at 0.95, but each split that follows turns directly is slower than they are: then
   that was the GPU's clock. */
static void splits_are_compared_with_the_turns_before(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    gs_profile *a = learned(scene.store, 1, 0.5, 1000), *b = learned(scene.store, 2, 0.5, 1000);
    gs_beside slow_a = {a, 0, 25000}, slow_b = {b, 0, 25000}, fast_a = {a, 0, 50000}, fast_b = {b, 0, 50000};
    int all = 0;
    for (int i = 0; i < 20; i++) {
        let_both_wait(&scene, a, b);
        all += measure_splits(&scene, &(gs_beside){a, 66, 4750}, &(gs_beside){b, 66, 4750}, 100000);
        gs_profile_store_turns(scene.store, &slow_a, &slow_b, 1000000);
        gs_profile_store_turns(scene.store, &fast_a, &fast_b, 1000000);
    }
    assert_int_equal(all, 3);
    gs_profile_store_close(scene.store);
}

static void short_kernels_run_whole_on_sms_left_free(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    gs_profile *few = gs_profile_store_get(scene.store, 2, "short", 40);
    gs_profile_ran(few, false, few->blocks, 50000);
    gs_profile_rate(few, 20, few->blocks, 50000); /* 20 SMs do */
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 50000), 0);
    scene.contenders[0].state = GS_CONTENDER_RUNS;
    scene.contenders[0].how = GS_PLAN_CONFINED;
    scene.contenders[0].sms = SMS;
    scene.contenders[0].blocks_left = 50000;
    scene.contenders[1] = waiting(few, 1);
    decide(&scene);
    expect(&scene, 1, GS_PLAN_WHOLE, 20);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS - 20);
    apply(&scene.contenders[0], &scene.placements[0]);
    apply(&scene.contenders[1], &scene.placements[1]);
    assert_false(decide(&scene).is_changed); /* what runs whole keeps its SMs */
    gs_profile_store_close(scene.store);
}

static void wholes_queue_without_a_gap(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 4;
    for (uint32_t i = 0; i < 4; i++)
        scene.contenders[i] = waiting(learned(scene.store, i + 1, 1, 700), i);
    decide(&scene);
    expect(&scene, 0, GS_PLAN_WHOLE, SMS);
    expect(&scene, 1, GS_PLAN_WHOLE, SMS);
    expect(&scene, 2, GS_PLAN_WAIT, 0); /* 2.1 ms would be more than may be in the way */
    scene.contenders[1].profile = learned(scene.store, 9, 1, 9000);
    decide(&scene);
    expect(&scene, 0, GS_PLAN_WHOLE, SMS);
    for (size_t i = 1; i < 4; i++) /* nobody overtakes the long one, or it would wait for ever */
        expect(&scene, i, GS_PLAN_WAIT, 0);
    gs_profile_store_close(scene.store);
}

static void a_higher_priority_goes_first_and_keeps_its_rate(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 50000), 0);
    scene.contenders[0].state = GS_CONTENDER_RUNS;
    scene.contenders[0].how = GS_PLAN_CONFINED;
    scene.contenders[0].sms = SMS;
    scene.contenders[1] = waiting(learned(scene.store, 2, 1, 5000), 1);
    scene.contenders[1].priority = 1;
    decide(&scene);
    expect(&scene, 0, GS_PLAN_WAIT, 0);
    expect(&scene, 1, GS_PLAN_CONFINED, SMS);
    scene.contenders[1].profile = learned(scene.store, 3, 0.8, 5000); /* it leaves a few SMs */
    gs_profile_store_beside(scene.store, &(gs_beside){learned(scene.store, 1, 1, 50000), 33, 1000},
                            &(gs_beside){learned(scene.store, 3, 0.8, 5000), 99, 100000}, 1000000);
    decide(&scene);
    if (scene.placements[0].how != GS_PLAN_WAIT)
        assert_true(gs_profile_share(scene.contenders[1].profile, scene.placements[1].sms) >= 0.9 - 1e-6);
    gs_profile_store_close(scene.store);
}

static void small_gains_do_not_resize(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = waiting(learned(scene.store, 2, 0.4, 5000), 1);
    decide(&scene);
    for (size_t i = 0; i < 2; i++)
        apply(&scene.contenders[i], &scene.placements[i]);
    scene.contenders[0].sms -= 2;
    scene.contenders[1].sms += 2; /* not quite the best */
    assert_false(decide(&scene).is_changed);
    scene.contenders[0].sms -= 30;
    scene.contenders[1].sms += 30;
    assert_true(decide(&scene).is_changed);
    scene.contenders[0].blocks_left = scene.contenders[1].blocks_left = 20; /* both will have ended before it pays */
    assert_false(decide(&scene).is_changed);
    gs_profile_store_close(scene.store);
}

static void sms_are_kept_for_the_next_launch(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 2;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = waiting(learned(scene.store, 2, 0.4, 5000), 1);
    decide(&scene);
    for (size_t i = 0; i < 2; i++)
        apply(&scene.contenders[i], &scene.placements[i]);
    scene.contenders[1].state = GS_CONTENDER_EXPECTED;
    assert_false(decide(&scene).is_changed);
    scene.count = 1; /* it did not come */
    decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

/* Two side by side, on so many SMs each, that do what they would do without the other. */
static void measure_undisturbed(gs_profile_store *store, gs_profile *a, gs_profile *b, int32_t sms) {
    uint64_t ns = 10000000;
    gs_profile_store_beside(store, &(gs_beside){a, sms, (uint64_t)(a->alone * gs_profile_share(a, sms) * (double)ns)},
                            &(gs_beside){b, sms, (uint64_t)(b->alone * gs_profile_share(b, sms) * (double)ns)}, ns);
}

static void more_than_two_where_the_curves_say_so(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        gs_profile *few = learned(scene.store, i + 1, 31.0 / SMS, 5000);
        scene.contenders[i] = waiting(few, i);
        for (uint32_t j = 0; j < 2 * i; j++) /* they do not slow each other: measured twice, which is enough */
            measure_undisturbed(scene.store, (gs_profile *)scene.contenders[j / 2].profile, few, 33);
    }
    gs_decision decision = decide(&scene);
    assert_int_equal(decision.running, 4);
    assert_true(decision.throughput > 3.9);
    scene.options.most_together = 2;
    assert_int_equal(decide(&scene).running, 2);
    gs_profile_store_close(scene.store);
}

static void an_unknown_kernel_is_probed_alone(void **state) {
    (void)state;
    struct scene scene = new_scene();
    scene.options.probes = true;
    scene.count = 1;
    gs_profile *profile = gs_profile_store_get(scene.store, 1, "new", 100000);
    scene.contenders[0] = waiting(profile, 0);
    decide(&scene);
    expect(&scene, 0, GS_PLAN_CONFINED, SMS);
    int probes = 0;
    for (; probes < 50; probes++) {
        gs_profile_rate(profile, scene.placements[0].sms, (uint64_t)(1e5 * true_share(0.5, scene.placements[0].sms)),
                        1000000);
        decide(&scene);
        if (!scene.placements[0].is_probe)
            break;
    }
    assert_in_range(probes, 2, 40);
    assert_int_equal(gs_profile_memory(profile), GS_LEVEL_HIGH);
    gs_profile_store_close(scene.store);
}

/* Beside a known kernel that runs, and one that waits. */
static void scene_with_unknown(enum gs_plan_how how) {
    struct scene scene = new_scene();
    scene.count = 3;
    scene.contenders[0] = waiting(learned(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = waiting(NULL, 1);
    scene.contenders[2] = waiting(learned(scene.store, 2, 0.4, 5000), 2);
    for (size_t i = 0; i < 2; i++) {
        scene.contenders[i].state = GS_CONTENDER_RUNS;
        scene.contenders[i].how = i == 1 ? how : GS_PLAN_CONFINED;
        scene.contenders[i].sms = 66;
    }
    gs_decision decision = decide(&scene);
    assert_true(decision.running >= 1);
    if (how == GS_PLAN_WHOLE)
        expect(&scene, 1, GS_PLAN_WHOLE, 66);
    gs_profile_store_close(scene.store);
}

static void kernels_nobody_knows_can_be_anywhere(void **state) {
    (void)state;
    scene_with_unknown(GS_PLAN_CONFINED);
    scene_with_unknown(GS_PLAN_WHOLE);
}

/* ---- decisions on random questions ---- */

enum { CROWD = 12, KERNELS = 10 };

struct crowd {
    gs_profile_store *store;
    gs_plan_options options;
    gs_profile *kernels[KERNELS];
    gs_contender contenders[CROWD];
    gs_plan_place placements[CROWD];
    size_t count;
};

static void make_kernels(struct crowd *crowd, gs_random *random) {
    for (size_t i = 0; i < KERNELS; i++) {
        double us = pow(10, between(random, 1, 5));
        double knee = between(random, 0.1, 1.3);
        if (gs_random_chance(random, 40))
            knee = between(random, 0.1, 0.4);
        crowd->kernels[i] = learned(crowd->store, i + 1, knee, us);
    }
    for (int i = 0; i < 200; i++) {
        gs_profile *a = crowd->kernels[gs_random_from(random, 0, KERNELS - 1)];
        gs_profile *b = crowd->kernels[gs_random_from(random, 0, KERNELS - 1)];
        int32_t sms = (int32_t)gs_random_from(random, 1, SMS - 1);
        double ns = 1e6, of_a = a->alone * gs_profile_share(a, sms), of_b = b->alone * gs_profile_share(b, SMS - sms);
        for (int64_t j = gs_random_from(random, 1, 8); j > 0; j--) {
            gs_profile_store_beside(
                crowd->store, &(gs_beside){a, sms, (uint64_t)(1 + of_a * ns * between(random, 0.3, 1.1))},
                &(gs_beside){b, SMS - sms, (uint64_t)(1 + of_b * ns * between(random, 0.3, 1.1))}, (uint64_t)ns);
            for (int64_t k = gs_random_from(random, 0, 2); k > 0; k--)
                gs_profile_store_turns(crowd->store, &(gs_beside){a, 0, (uint64_t)(a->alone * ns / 2 + 1)},
                                       &(gs_beside){b, 0, (uint64_t)(b->alone * ns * between(random, 0.4, 0.6) + 1)},
                                       (uint64_t)ns);
        }
    }
}

static void make_crowd(struct crowd *crowd, gs_random *random, size_t most, bool is_plain) {
    crowd->options = gs_plan_defaults(SMS);
    crowd->options.probes = !is_plain && gs_random_chance(random, 50);
    crowd->options.granularity = (int32_t)gs_random_from(random, 4, 11);
    crowd->options.most_together = (int32_t)gs_random_from(random, 1, 4);
    crowd->count = (size_t)gs_random_from(random, 1, (int64_t)most);
    for (size_t i = 0; i < crowd->count; i++) {
        gs_contender *c = &crowd->contenders[i];
        *c = waiting(crowd->kernels[gs_random_from(random, 0, KERNELS - 1)], (uint32_t)gs_random_from(random, 0, 5));
        if (!is_plain && gs_random_chance(random, 10))
            c->profile = NULL;
        c->arrival = i;
        c->priority = gs_random_chance(random, 70) ? 0 : (int32_t)gs_random_from(random, -2, 2);
        c->weight = (uint32_t)gs_random_from(random, 0, 4);
        c->cap = 0;
        c->blocks_left = (uint64_t)gs_random_from(random, 0, 100000);
        c->can_confine = gs_random_chance(random, 90);
        c->waited_ns = gs_random_from(random, 0, 300000000);
        c->served = (uint64_t)gs_random_from(random, 0, 4) * 1000000;
    }
    for (size_t i = 0; i < crowd->count; i++) /* a cap is a client's */
        for (size_t j = 0; j < crowd->count; j++)
            if (crowd->contenders[j].client == i % 6 && i % 6 < 2)
                crowd->contenders[j].cap = (int32_t)(i % 6 == 0 ? 40 : 90);
}

/* With nothing running, the answer must be the best there is: for pairs over all partners and all splits, for more over
   all splits. */
static void decisions_are_the_best_there_are(void **state) {
    (void)state;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 4);
    size_t seen[5] = {0};
    for (int round = 0; round < rounds(200); round++) {
        struct crowd crowd = {.store = memory_book()};
        make_kernels(&crowd, &random);
        for (int i = 0; i < 10; i++) {
            make_crowd(&crowd, &random, 6, true);
            if (crowd.options.most_together > 3)
                crowd.options.granularity = 11;
            literal_query query = {&crowd.options, crowd.store, crowd.contenders, crowd.count};
            gs_decision decision =
                gs_plan_decide(&crowd.options, crowd.store, crowd.contenders, crowd.count, crowd.placements);
            size_t members[CROWD], count = 0, leader = literal_leader(&query);
            assert_int_not_equal(crowd.placements[leader].how, GS_PLAN_WAIT);
            members[count++] = leader;
            bool is_split = false;
            for (size_t j = 0; j < crowd.count; j++) {
                is_split |= crowd.placements[j].how == GS_PLAN_CONFINED;
                if (j != leader && crowd.placements[j].how != GS_PLAN_WAIT)
                    members[count++] = j;
            }
            double pair = literal_pair(&query, leader);
            if (crowd.options.most_together == 2)
                expect_near(decision.throughput, pair, 1e-9);
            if (crowd.options.most_together > 2)
                assert_true(decision.throughput >= pair - 1e-9);
            if (is_split && count > 1)
                expect_near(decision.throughput, literal_split(&query, members, count), 1e-9);
            seen[is_split ? (count < 4 ? count : 4) : 0]++;
        }
        gs_profile_store_close(crowd.store);
    }
    print_message("of the answers %zu are whole, %zu alone, %zu pairs, %zu threes, %zu fours\n", seen[0], seen[1],
                  seen[2], seen[3], seen[4]);
    assert_true(seen[1] > 0 && seen[2] > 0 && (seen[3] > 0 || rounds(200) < 200));
}

static void describe(const struct crowd *crowd) {
    for (size_t i = 0; i < crowd->count; i++) {
        const gs_contender *c = &crowd->contenders[i];
        const gs_plan_place *p = &crowd->placements[i];
        print_message(
            "%zu: client %u, state %d, priority %d, weight %u, cap %d, confine %d, waited %lld ms, served %llu,"
            " %llu us, %d on %d -> %d on %d\n",
            i, c->client, c->state, c->priority, c->weight, c->cap, c->can_confine, (long long)c->waited_ns / 1000000,
            (unsigned long long)c->served,
            (unsigned long long)(c->profile ? gs_profile_duration_ns(c->profile) / 1000 : 0), c->how, c->sms, p->how,
            p->sms);
    }
}

static void expect_sound(const struct crowd *crowd, const gs_decision *decision) {
    int32_t sum = 0, by_client[6] = {0};
    size_t running = 0;
    bool somebody = false;
    for (size_t i = 0; i < crowd->count; i++) {
        const gs_contender *c = &crowd->contenders[i];
        const gs_plan_place *p = &crowd->placements[i];
        somebody |= c->state != GS_CONTENDER_EXPECTED;
        running += p->how != GS_PLAN_WAIT;
        if (p->how == GS_PLAN_CONFINED) {
            assert_true(c->can_confine || c->how == GS_PLAN_CONFINED);
            assert_in_range(p->sms, 1, SMS);
            sum += p->sms;
            by_client[c->client] += p->sms;
            assert_true(c->cap == 0 || by_client[c->client] <= c->cap);
        }
        if (c->state == GS_CONTENDER_RUNS && c->how == GS_PLAN_WHOLE)
            assert_int_equal(p->how, GS_PLAN_WHOLE); /* it cannot be stopped */
        if (p->how == GS_PLAN_WHOLE && c->state == GS_CONTENDER_RUNS)
            assert_int_not_equal(c->how, GS_PLAN_CONFINED);
    }
    assert_true(sum <= SMS);
    assert_int_equal(running, decision->running);
    assert_true(!somebody || running > 0);
    assert_true(decision->look_again_ns > 0);
}

static void apply_all(struct crowd *crowd) {
    for (size_t i = 0; i < crowd->count; i++) {
        bool is_expected = crowd->contenders[i].state == GS_CONTENDER_EXPECTED;
        apply(&crowd->contenders[i], &crowd->placements[i]);
        if (is_expected)
            crowd->contenders[i].state = GS_CONTENDER_EXPECTED;
        crowd->contenders[i].running_ns = 0;
    }
}

/* Decides until nothing changes, which must be soon: each change has to be a gain. Returns how often. */
static int settle(struct crowd *crowd) {
    for (int times = 1; times < 5; times++) {
        gs_decision decision =
            gs_plan_decide(&crowd->options, crowd->store, crowd->contenders, crowd->count, crowd->placements);
        expect_sound(crowd, &decision);
        bool is_same = true;
        for (size_t i = 0; i < crowd->count; i++)
            is_same &=
                crowd->contenders[i].how == crowd->placements[i].how &&
                (crowd->contenders[i].how == GS_PLAN_WAIT || crowd->contenders[i].sms == crowd->placements[i].sms);
        assert_true(is_same || decision.is_changed);
        apply_all(crowd);
        if (is_same)
            return times;
    }
    describe(crowd);
    fail_msg("does not settle");
    return 0;
}

/* Contenders come, go, run and wait at random: caps hold, SMs are given out once, something runs, and decisions come to
   rest when nothing changes. */
static void decisions_are_sound_and_stable(void **state) {
    (void)state;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 5);
    int times[5] = {0};
    for (int round = 0; round < rounds(400); round++) {
        struct crowd crowd = {.store = memory_book()};
        make_kernels(&crowd, &random);
        make_crowd(&crowd, &random, CROWD, false);
        for (int step = 0; step < 30; step++) {
            times[settle(&crowd)]++;
            /* One ends, comes back, or is looked at later. */
            gs_contender *c = &crowd.contenders[gs_random_from(&random, 0, (int64_t)crowd.count - 1)];
            if (c->state == GS_CONTENDER_RUNS && gs_random_chance(&random, 40))
                c->state = GS_CONTENDER_EXPECTED;
            else {
                c->state = GS_CONTENDER_WAITS;
                c->how = GS_PLAN_WAIT;
                c->sms = 0;
            }
            c->waited_ns = gs_random_from(&random, 0, 300000000);
            c->profile = crowd.kernels[gs_random_from(&random, 0, KERNELS - 1)];
            crowd.contenders[gs_random_from(&random, 0, (int64_t)crowd.count - 1)].running_ns = 20000000;
        }
        gs_profile_store_close(crowd.store);
    }
    print_message("decisions settled at once %d times, after one change %d, two %d, three %d\n", times[1], times[2],
                  times[3], times[4]);
}

/* Whatever numbers come in, nothing breaks, and nothing is given out that is not there. */
static void odd_numbers_are_survived(void **state) {
    (void)state;
    static const int64_t odd[] = {INT32_MIN, -1, 0, 1, 2, 3, 131, 132, 133, 1000, INT32_MAX};
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 7);
    struct crowd crowd = {.store = memory_book()};
    make_kernels(&crowd, &random);
#define ODD odd[gs_random_from(&random, 0, GS_COUNT(odd) - 1)]
    for (int round = 0; round < rounds(20000); round++) {
        make_crowd(&crowd, &random, CROWD, false);
        gs_plan_options *o = &crowd.options;
        o->granularity = (int32_t)ODD;
        o->most_together = (int32_t)ODD;
        if (gs_random_chance(&random, 20))
            o->sms = (int32_t)gs_random_from(&random, -1, 1024);
        o->short_ns = ODD;
        o->yield_ns = ODD;
        o->slice_ns = ODD;
        o->patience_ns = ODD;
        o->resize_ns = ODD;
        for (size_t i = 0; i < crowd.count; i++) {
            gs_contender *c = &crowd.contenders[i];
            c->state = (enum gs_contender_state)gs_random_from(&random, 0, 2);
            c->how = (enum gs_plan_how)gs_random_from(&random, 0, 2);
            c->sms = (int32_t)ODD;
            c->cap = (int32_t)ODD;
            c->priority = (int32_t)ODD;
            c->waited_ns = ODD;
            c->running_ns = ODD;
            c->served = gs_random_next(&random);
        }
        gs_plan_decide(o, crowd.store, crowd.contenders, crowd.count, crowd.placements);
        int64_t given = 0;
        for (size_t i = 0; i < crowd.count; i++)
            if (crowd.contenders[i].state == GS_CONTENDER_WAITS && crowd.placements[i].how == GS_PLAN_CONFINED)
                given += crowd.placements[i].sms;
        assert_true(given <= (o->sms > 0 ? o->sms : 0));
    }
#undef ODD
    gs_profile_store_close(crowd.store);
}

/* ---- masks ---- */

static void masks_move_as_few_as_can_be(void **state) {
    (void)state;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 6);
    for (int round = 0; round < rounds(3000); round++) {
        int32_t sms = (int32_t)gs_random_from(&random, 1, 6), wanted[3], left = sms;
        gs_mask masks[3] = {{{0}}}, had[3];
        for (int32_t sm = 0; sm < sms; sm++) {
            int64_t user = gs_random_from(&random, 0, 3);
            if (user < 3)
                masks[user].words[0] |= 1u << sm;
        }
        for (int i = 0; i < 3; i++) {
            wanted[i] = (int32_t)gs_random_from(&random, 0, left);
            left -= wanted[i];
        }
        memcpy(had, masks, sizeof had);
        assert_int_equal(gs_plan_masks(sms, 3, wanted, masks), literal_moves(sms, 3, wanted, had));
        for (int i = 0; i < 3; i++)
            assert_int_equal(gs_mask_count(&masks[i]), wanted[i]);
        assert_int_equal(masks[0].words[0] & masks[1].words[0], 0);
        assert_int_equal((masks[0].words[0] | masks[1].words[0]) & masks[2].words[0], 0);
        assert_int_equal((masks[0].words[0] | masks[1].words[0] | masks[2].words[0]) >> sms, 0);
    }
}

static void masks_of_a_large_gpu(void **state) {
    (void)state;
    gs_mask masks[2] = {{{0}}};
    assert_int_equal(gs_plan_masks(132, 2, (int32_t[]){132, 0}, masks), 132);
    assert_true(gs_mask_has(&masks[0], 131) && !gs_mask_has(&masks[0], 132));
    assert_int_equal(gs_plan_masks(132, 2, (int32_t[]){80, 52}, masks), 52);
    assert_int_equal(gs_plan_masks(132, 2, (int32_t[]){80, 52}, masks), 0);
    assert_int_equal(gs_plan_masks(132, 2, (int32_t[]){81, 51}, masks), 1);
    gs_mask before[2];
    memcpy(before, masks, sizeof before);
    assert_int_equal(gs_plan_masks(132, 2, (int32_t[]){81, 52}, masks), -1);
    assert_memory_equal(before, masks, sizeof before);
    assert_int_equal(gs_plan_masks(132, 2, (int32_t[]){0, 0}, masks), 0);
    assert_int_equal(gs_mask_count(&masks[0]) + gs_mask_count(&masks[1]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_curve_is_what_was_measured),
        cmocka_unit_test(nonsense_is_not_measured),
        cmocka_unit_test(a_disturbed_sample_changes_nothing),
        cmocka_unit_test(noise_does_not_make_fewer_sms_faster),
        cmocka_unit_test(a_rate_that_stops_growing_needs_no_more_sms),
        cmocka_unit_test(more_sms_than_were_measured_do_more),
        cmocka_unit_test(what_is_wanted_finds_the_curve),
        cmocka_unit_test(classes_follow_the_curve),
        cmocka_unit_test(keys_tell_launches_apart),
        cmocka_unit_test(grids_that_are_alike_share_a_profile),
        cmocka_unit_test(small_blocks_are_walked_where_that_is_faster),
        cmocka_unit_test(a_changing_clock_changes_no_form),
        cmocka_unit_test(the_table_is_slates_upper_half),
        cmocka_unit_test(pairs_are_measured_by_split),
        cmocka_unit_test(a_kernel_beside_itself_is_the_same_both_ways),
        cmocka_unit_test(what_was_learned_is_there_next_time),
        cmocka_unit_test(a_file_that_cannot_be_used_is_no_reason_to_stop),
        cmocka_unit_test(what_an_earlier_version_measured_is_measured_again),
        cmocka_unit_test(a_locked_file_is_tried_again),
        cmocka_unit_test(a_file_that_is_locked_at_the_start_is_not_used),
        cmocka_unit_test(a_file_that_is_damaged_while_it_is_open_is_reported),
        cmocka_unit_test(a_full_disk_is_tried_again),
        cmocka_unit_test(nonsense_in_the_file_is_left_out),
        cmocka_unit_test(a_file_with_random_damage_never_crashes),
        cmocka_unit_test(the_book_is_bounded_and_held_profiles_stay),
        cmocka_unit_test(nothing_to_do_is_fine),
        cmocka_unit_test(a_kernel_alone_has_the_gpu),
        cmocka_unit_test(complements_run_together_split_by_their_curves),
        cmocka_unit_test(two_of_a_kind_take_turns),
        cmocka_unit_test(the_table_is_tried_and_measurements_replace_it),
        cmocka_unit_test(turns_that_do_more_than_one_are_preferred),
        cmocka_unit_test(turns_are_measured_again_among_splits),
        cmocka_unit_test(splits_are_compared_with_the_turns_before),
        cmocka_unit_test(short_kernels_run_whole_on_sms_left_free),
        cmocka_unit_test(wholes_queue_without_a_gap),
        cmocka_unit_test(a_higher_priority_goes_first_and_keeps_its_rate),
        cmocka_unit_test(small_gains_do_not_resize),
        cmocka_unit_test(sms_are_kept_for_the_next_launch),
        cmocka_unit_test(more_than_two_where_the_curves_say_so),
        cmocka_unit_test(an_unknown_kernel_is_probed_alone),
        cmocka_unit_test(kernels_nobody_knows_can_be_anywhere),
        cmocka_unit_test(decisions_are_the_best_there_are),
        cmocka_unit_test(decisions_are_sound_and_stable),
        cmocka_unit_test(odd_numbers_are_survived),
        cmocka_unit_test(masks_move_as_few_as_can_be),
        cmocka_unit_test(masks_of_a_large_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
