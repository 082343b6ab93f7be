/*
 * test_profile_store.c: profiles and pairs in memory and in their file, also if the file is damaged.
 *
 * GRIDSMITH_RUNS is how many random cases are played, GRIDSMITH_SEED where they start.
 */
#include "decide_support.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *fresh_file(void) {
    static char path[200];
    snprintf(path, sizeof path, "/tmp/gridsmith-plan-%d.db", (int)getpid());
    char file[220];
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < GS_COUNT(endings); i++) {
        snprintf(file, sizeof file, "%s%s", path, endings[i]);
        unlink(file);
    }
    return path;
}

static gs_profile_store *open_file(const char *path) {
    gs_profile_store *store = gs_profile_store_open(path, "h200", SMS, NULL);
    assert_non_null(store);
    return store;
}

static void fill(gs_profile_store *store) {
    gs_profile *a = plan_profile(store, UINT64_MAX - 5, 1, 1000), *b = plan_profile(store, 2, 0.5, 300);
    gs_profile_store_inter_sm(store, &(gs_beside){a, 66, 40000}, &(gs_beside){b, 66, 50000}, 1000000);
    gs_profile_store_serial(store, &(gs_beside){a, 0, 50000}, &(gs_beside){b, 0, 60000}, 1000000);
    for (int i = 0; i < GS_WAY_SAMPLES; i++)
        gs_profile_store_intra_sm(store, &(gs_beside){a, 0, 70000}, &(gs_beside){b, 0, 200000}, (int32_t[]){5, 3},
                                  1000000);
}

static void expect_filled(gs_profile_store *store) {
    gs_profile *a = gs_profile_store_get(store, UINT64_MAX - 5, "kernel", 100000);
    const gs_pair *pair = gs_profile_store_pair(store, UINT64_MAX - 5, 2);
    double factor;
    assert_int_equal(gs_profile_duration_ns(a), 1000000);
    plan_expect_near(gs_profile_share(a, 66), 0.5, 1e-3);
    assert_int_equal(a->point_count, 6);
    assert_int_equal(gs_profile_compute(a), GS_LEVEL_HIGH);
    assert_non_null(pair);
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    plan_expect_near(factor, 0.8, 1e-3);
    assert_true(pair->serial > 0.5);
    assert_true(pair->ways[0].workers[0] == 3 && pair->ways[0].workers[1] == 5 && pair->ways[1].workers[0] == 0);
    assert_true(gs_samples_kept(&pair->ways[0].shares[1]) >= GS_WAY_SAMPLES);
    plan_expect_near(gs_samples_median(&pair->ways[0].shares[0]), 0.6, 1e-3);
    plan_expect_near(gs_samples_median(&pair->ways[0].shares[1]), 0.7, 1e-3);
}

TEST(what_was_learned_is_there_next_time) {
    const char *path = fresh_file();
    gs_profile_store *store = open_file(path);
    assert_null(gs_profile_store_problem(store));
    fill(store);
    assert_true(gs_profile_store_save(store));
    assert_true(gs_profile_store_save(store)); /* nothing new */
    gs_profile_store_close(store);
    store = open_file(path);
    assert_null(gs_profile_store_problem(store));
    expect_filled(store);
    gs_profile_store_close(store);
    store = gs_profile_store_open(path, "another", SMS, NULL); /* it is not of another GPU */
    size_t at = 0;
    assert_null(gs_profile_store_next(store, &at));
    gs_profile_store_close(store);
    store = open_file(path);
    expect_filled(store);
    gs_profile_store_close(store);
}

static void execute(const char *path, const char *sql) {
    sqlite3 *file = NULL;
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_exec(file, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(file);
}

static void put_command(gs_profile_store *store, uint64_t key, double us) {
    gs_command_profile command = {
        .key = key, .lost_us = {us, key % 2 ? us + 1 : -1}, .kernels_us = us + 3, .is_sliced = key / 2 % 2};
    gs_profile_store_put_command(store, &command);
}

static void expect_command(const gs_profile_store *store, uint64_t key, double us) {
    const gs_command_profile *command = gs_profile_store_command(store, key);
    assert_non_null(command);
    assert_true(command->lost_us[0] == us && command->lost_us[1] == (key % 2 ? us + 1 : -1));
    assert_true(command->kernels_us == us + 3 && command->is_sliced == key / 2 % 2);
}

/* Of more commands than there is place for, those of last time are there. What cannot have been measured is not. */
TEST(commands_are_there_next_time) {
    enum { FIRST = 4, LAST = FIRST + GS_STORE_COMMANDS };
    const char *path = fresh_file();
    gs_profile_store *store = open_file(path);
    for (uint64_t key = FIRST; key < LAST; key++)
        put_command(store, key, 0);
    put_command(store, FIRST, 10); /* the second is the oldest now */
    put_command(store, LAST, 20);
    assert_true(gs_profile_store_save(store));
    for (int again = 0; again < 2; again++) {
        assert_null(gs_profile_store_command(store, FIRST + 1));
        expect_command(store, FIRST, 10);
        expect_command(store, FIRST + 2, 0);
        expect_command(store, FIRST + 3, 0);
        expect_command(store, LAST, 20);
        gs_profile_store_close(store);
        store = open_file(path);
    }
    gs_profile_store_close(store);
    execute(path, "UPDATE commands SET mps_us = -7, slices_us = 9e99, kernels_us = NULL WHERE key = 4");
    store = open_file(path);
    const gs_command_profile *command = gs_profile_store_command(store, FIRST);
    assert_true(command->lost_us[0] == -1 && command->lost_us[1] == -1 && command->kernels_us == 0);
    gs_profile_store_close(store);
}

static char *read_bytes(const char *path, size_t *count) {
    char *bytes = NULL;
    *count = 0;
    if (access(path, F_OK) == 0)
        assert_int_equal(gs_input_all(path, 1 << 24, &bytes, count, NULL), GS_OK);
    return bytes;
}

/* The store works without its file, reports the reason once, and leaves the file unchanged. */
static void expect_problem(const char *path, const char *words) {
    size_t count_before, count_after;
    char *before = read_bytes(path, &count_before);
    gs_profile_store *store = open_file(path);
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

TEST(without_a_usable_file_the_store_works_in_memory) {
    const char *path = fresh_file();
    FILE *text = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fprintf(text, "this is not a database\n");
    fclose(text);
    expect_problem(path, "not a database");
    execute(fresh_file(), "CREATE TABLE theirs(a)");
    expect_problem(path, "another program");
    gs_profile_store_close(open_file(fresh_file()));
    set_later_version(path);
    expect_problem(path, "later version");
    gs_profile_store_close(open_file(fresh_file()));
    execute(path, "DROP TABLE points");
    expect_problem(path, "no such table");
    expect_problem("/nowhere/at/all.db", "unable to open");
}

TEST(what_an_earlier_version_measured_is_measured_again) {
    static const char old[] = "CREATE TABLE profiles(key INTEGER, walked_ns REAL); INSERT INTO profiles VALUES(2, 9);"
                              "CREATE TABLE points(key INTEGER); INSERT INTO points VALUES(2);"
                              "PRAGMA application_id=1198746992; PRAGMA user_version=1";
    const char *path = fresh_file();
    size_t at = 0;
    execute(path, old);
    gs_profile_store *store = open_file(path);
    assert_null(gs_profile_store_problem(store));
    assert_null(gs_profile_store_next(store, &at));
    assert_null(gs_profile_store_next_pair(store, &(size_t){0}));
    fill(store);
    assert_true(gs_profile_store_save(store));
    gs_profile_store_close(store);
    store = open_file(path);
    assert_null(gs_profile_store_problem(store));
    expect_filled(store);
    gs_profile_store_close(store);
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

TEST(a_locked_file_is_tried_again) {
    const char *path = fresh_file();
    gs_profile_store *store = open_file(path);
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
    store = open_file(path);
    expect_filled(store);
    gs_profile_store_close(store);
}

/* A file that cannot be read when the store is opened is not written later. */
TEST(a_file_that_is_locked_at_the_start_is_not_used) {
    const char *path = fresh_file();
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    gs_profile_store *store = open_file(path);
    assert_non_null(strstr(gs_profile_store_problem(store), "locked"));
    unlock_file(other);
    fill(store);
    assert_false(gs_profile_store_save(store));
    assert_null(gs_profile_store_problem(store));
    expect_filled(store);
    gs_profile_store_close(store);
}

/* Damage that is found by a save is reported after it, and the file is not used again. */
TEST(a_file_that_is_damaged_while_it_is_open_is_reported) {
    const char *path = fresh_file();
    gs_profile_store *store = open_file(path);
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

TEST(a_full_disk_is_tried_again) {
    const char *path = fresh_file();
    gs_profile_store *store = open_file(path);
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
    store = open_file(path);
    expect_filled(store);
    gs_profile_store_close(store);
}

TEST(impossible_rows_of_the_file_are_left_out) {
    const char *path = fresh_file();
    gs_profile_store *store = open_file(path);
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
                  "INSERT INTO pairs VALUES('h200', 132, 5, 6, 8, 0, 0, 1, 1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 5, 6, -3, 0, 0, 1, 1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 5, 6, -2, 1, 1, 1, 1, 1e300, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 5, 6, 1, 0, 0, 1, -1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 6, 5, 1, 0, 0, 1, 1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 7, 8, -2, 0, 1, 1, 1, 1, 1);"
                  "INSERT INTO pairs VALUES('h200', 132, 7, 8, -2, 1, 99999999999, 1, 1, 1, 1);");
    store = open_file(path);
    assert_null(gs_profile_store_problem(store));
    assert_null(gs_profile_store_pair(store, 5, 6));
    assert_int_equal(gs_profile_store_pair(store, 7, 8)->ways[0].workers[0], 0);
    gs_profile *known = gs_profile_store_get(store, 2, "kernel", 100000);
    assert_int_equal(known->point_count, 6);
    expect_filled(store);
    gs_profile_store_close(store);
}

TEST(a_file_with_random_damage_never_crashes) {
    const char *path = fresh_file();
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 3);
    gs_profile_store *store = open_file(path);
    for (uint64_t i = 1; i < 60; i++)
        plan_profile(store, i, 0.5, 1000);
    fill(store);
    gs_profile_store_close(store);
    char *bytes = NULL;
    size_t count;
    assert_int_equal(gs_input_all(path, 1 << 24, &bytes, &count, NULL), GS_OK);
    int noticed = 0, all = plan_rounds(300);
    for (int i = 0; i < all; i++) {
        FILE *file = fopen(fresh_file(), "w");
        fwrite(bytes, 1, count, file);
        for (int64_t j = gs_random_from(&random, 1, 40); j > 0; j--) {
            fseek(file, gs_random_from(&random, 0, (int64_t)count - 1), SEEK_SET);
            fputc((int)gs_random_from(&random, 0, 255), file);
        }
        fclose(file);
        store = open_file(path);
        fill(store);
        gs_profile_store_save(store);
        noticed += gs_profile_store_problem(store) != NULL;
        gs_profile_store_close(store);
    }
    print_message("%d of %d damaged files were noticed\n", noticed, all);
    free(bytes);
    fresh_file();
}

TEST(the_store_is_bounded_and_held_profiles_stay) {
    gs_profile_store *store = plan_store();
    gs_profile *held = plan_profile(store, 3, 0.5, 1000);
    for (uint64_t i = 0; i < 3 * GS_STORE_PROFILES; i++) {
        gs_profile *other = gs_profile_store_get(store, 1000 + i * 7919, "other", 5);
        assert_non_null(other);
        gs_profile_rate(other, 5, 5, 5);
        gs_profile_store_inter_sm(store, &(gs_beside){held, 66, 10}, &(gs_beside){other, 66, 10}, 10);
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
    /* All eight places of a key are held: another profile has none. */
    for (uint64_t i = 0; i < 8; i++)
        assert_non_null(gs_profile_store_get(store, 11 + i * (GS_STORE_PROFILES / 8), "held", 5));
    assert_null(gs_profile_store_get(store, 11 + 8 * (GS_STORE_PROFILES / 8), "one too many", 5));
    gs_profile_store_close(store);
    assert_null(gs_profile_store_open(NULL, "x", 0, NULL));
}

TEST_MAIN(NULL, NULL)
