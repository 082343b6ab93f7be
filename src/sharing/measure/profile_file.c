/*
 * profile_file.c: a store in an SQLite file.
 *
 * The file is optional: without a usable file the store works in memory. A file that is damaged, of another program or
 * of a later version is neither changed nor used. If a save fails because the file is locked or the disk is full, the
 * next save retries. Only opening waits for a lock, for OPENING_MS at most.
 *
 * For each quantity the file has the median and the number of samples. When read, they count as at most RECALLED
 * samples, so that new measurements soon outweigh them.
 */
#include "profile_store.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum {
    APPLICATION = 0x47736d70,
    VERSION = 7,
    OPENING_MS = 100,   /* the longest wait for a lock when the file is opened */
    MOST_PAGES = 16384, /* of 4 KiB: the file never becomes larger */
    RECALLED = 3        /* a stored median counts as at most this many samples */
};

static const char schema[] =
    "CREATE TABLE profiles(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, used INTEGER NOT NULL,"
    " name TEXT NOT NULL, blocks INTEGER NOT NULL, whole_ns REAL, whole_samples INTEGER, block_loop_ns REAL,"
    " block_loop_samples INTEGER, compute TEXT, memory TEXT,"
    " PRIMARY KEY(gpu, gpu_sms, key)) WITHOUT ROWID;"
    "CREATE TABLE points(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, sms INTEGER NOT NULL,"
    " blocks_per_ns REAL, samples INTEGER, PRIMARY KEY(gpu, gpu_sms, key, sms)) WITHOUT ROWID;"
    /* split: which eighth of the SMs a had; -1: in sequence, and factor_a is the throughput; -2: they shared SMs with
       these workers, and the factors are their shares */
    "CREATE TABLE pairs(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL,"
    " split INTEGER NOT NULL, workers_a INTEGER NOT NULL, workers_b INTEGER NOT NULL, used INTEGER NOT NULL,"
    " factor_a REAL, factor_b REAL, samples INTEGER,"
    " PRIMARY KEY(gpu, gpu_sms, a, b, split, workers_a, workers_b)) WITHOUT ROWID;"
    "CREATE TABLE commands(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, used INTEGER NOT NULL,"
    " slices_us REAL, mps_us REAL, kernels_us REAL, is_sliced INTEGER, PRIMARY KEY(gpu, gpu_sms, key)) WITHOUT ROWID;";

enum { TURNS = -1, INSIDE = -2 }; /* in the column `split` */

#define OF_THIS_GPU " WHERE gpu = ?1 AND gpu_sms = ?2"

enum statement {
    PUT_PROFILE,
    DROP_POINTS,
    PUT_POINT,
    PUT_PAIR,
    PUT_COMMAND,
    ALL_PROFILES,
    ALL_POINTS,
    ALL_PAIRS,
    ALL_COMMANDS,
    TRIM_PROFILES,
    TRIM_PAIRS,
    TRIM_COMMANDS,
    TRIM_POINTS
};
static const char *const statements[] = {
    [PUT_PROFILE] = "INSERT OR REPLACE INTO profiles VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    [DROP_POINTS] = "DELETE FROM points" OF_THIS_GPU " AND key = ?3",
    [PUT_POINT] = "INSERT OR REPLACE INTO points VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [PUT_PAIR] = "INSERT OR REPLACE INTO pairs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [PUT_COMMAND] = "INSERT OR REPLACE INTO commands VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [ALL_PROFILES] = "SELECT key, used, name, blocks, whole_ns, whole_samples, block_loop_ns, block_loop_samples FROM "
                     "profiles" OF_THIS_GPU " ORDER BY used DESC LIMIT ?3",
    [ALL_POINTS] = "SELECT key, sms, blocks_per_ns, samples FROM points" OF_THIS_GPU " ORDER BY key, sms",
    [ALL_PAIRS] = "SELECT a, b, split, used, factor_a, factor_b, samples, workers_a, workers_b FROM pairs" OF_THIS_GPU
                  " ORDER BY used DESC LIMIT ?3",
    [ALL_COMMANDS] = "SELECT key, used, slices_us, mps_us, kernels_us, is_sliced FROM commands" OF_THIS_GPU
                     " ORDER BY used DESC LIMIT ?3",
    [TRIM_PROFILES] = "DELETE FROM profiles" OF_THIS_GPU " AND used <= (SELECT used FROM profiles" OF_THIS_GPU
                      " ORDER BY used DESC LIMIT 1 OFFSET ?3)",
    [TRIM_PAIRS] = "DELETE FROM pairs" OF_THIS_GPU " AND used <= (SELECT used FROM pairs" OF_THIS_GPU
                   " ORDER BY used DESC LIMIT 1 OFFSET ?3)",
    [TRIM_COMMANDS] = "DELETE FROM commands" OF_THIS_GPU " AND used <= (SELECT used FROM commands" OF_THIS_GPU
                      " ORDER BY used DESC LIMIT 1 OFFSET ?3)",
    [TRIM_POINTS] = "DELETE FROM points" OF_THIS_GPU " AND key NOT IN (SELECT key FROM profiles" OF_THIS_GPU ")"};

/* ---- problems ---- */

/* Keeps a problem for gs_profile_store_problem, unless it was reported already. */
static void note_problem(gs_profile_store *store, const char *path, const char *reason) {
    char problem[sizeof store->problem];
    snprintf(problem, sizeof problem, "profiles are not saved: %.120s: %s", path, reason);
    if (strcmp(problem, store->problem) != 0) {
        memcpy(store->problem, problem, sizeof problem);
        store->is_problem_reported = false;
    }
}

static void forget_problem(gs_profile_store *store) {
    store->problem[0] = '\0';
    store->is_problem_reported = false;
}

void gs_profile_file_close(gs_profile_store *store) {
    sqlite3_close_v2(store->file);
    store->file = NULL;
}

/* Notes the last error of SQLite. A damaged file is not used again; with other errors the next save may work. */
static bool fail_store(gs_profile_store *store) {
    int code = sqlite3_errcode(store->file);
    const char *path = sqlite3_db_filename(store->file, "main");
    note_problem(store, path && *path ? path : "the file", sqlite3_errmsg(store->file));
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        gs_profile_file_close(store);
    return false;
}

/* The file cannot be used, and is not changed. */
static bool refuse_file(gs_profile_store *store, const char *path, const char *reason) {
    note_problem(store, path, reason);
    gs_profile_file_close(store);
    return false;
}

static bool execute_sql(gs_profile_store *store, const char *sql) {
    return sqlite3_exec(store->file, sql, NULL, NULL, NULL) == SQLITE_OK || fail_store(store);
}

/* ---- statements ---- */

/* Prepares a statement with the GPU as its first two parameters. NULL: failed, and the problem is noted. */
static sqlite3_stmt *prepare_statement(gs_profile_store *store, enum statement which) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->file, statements[which], -1, &statement, NULL) != SQLITE_OK) {
        fail_store(store);
        return NULL;
    }
    sqlite3_bind_text(statement, 1, store->gpu, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 2, store->sms);
    return statement;
}

/* Runs a statement without result rows, and frees it. */
static bool finish_statement(gs_profile_store *store, sqlite3_stmt *statement) {
    bool good = sqlite3_step(statement) == SQLITE_DONE;
    if (sqlite3_finalize(statement) != SQLITE_OK || !good)
        return fail_store(store);
    return true;
}

static bool read_number(gs_profile_store *store, const char *sql, int64_t *number) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->file, sql, -1, &statement, NULL) != SQLITE_OK)
        return fail_store(store);
    bool good = sqlite3_step(statement) == SQLITE_ROW;
    *number = good ? sqlite3_column_int64(statement, 0) : 0;
    return sqlite3_finalize(statement) == SQLITE_OK && good ? true : fail_store(store);
}

/* ---- reading: a file can hold anything, so impossible numbers are left out ---- */

static bool is_sensible(double value) {
    return isfinite(value) && value > 0 && value < 1e18;
}

static void recall_samples(gs_samples *samples, double value, int64_t count) {
    for (int64_t i = 0; is_sensible(value) && i < gs_min(count, RECALLED); i++)
        gs_samples_add(samples, value);
}

static void read_profile(gs_profile_store *store, sqlite3_stmt *row) {
    int64_t used = sqlite3_column_int64(row, 1), blocks = sqlite3_column_int64(row, 3);
    const char *name = (const char *)sqlite3_column_text(row, 2);
    gs_profile *profile = gs_profile_store_make(store, (uint64_t)sqlite3_column_int64(row, 0));
    if (!profile || profile->used || used <= 0 || used > INT64_MAX / 2 || blocks <= 0)
        return; /* out of memory, or read already, or impossible */
    snprintf(profile->name, sizeof profile->name, "%s", name ? name : "");
    profile->used = (uint64_t)used;
    profile->blocks = (uint64_t)blocks;
    recall_samples(&profile->whole_ns, sqlite3_column_double(row, 4), sqlite3_column_int64(row, 5));
    recall_samples(&profile->block_loop_ns, sqlite3_column_double(row, 6), sqlite3_column_int64(row, 7));
    gs_profile_curve(profile);
    store->uses = gs_max_u64(store->uses, profile->used);
}

static void read_point(gs_profile_store *store, sqlite3_stmt *row) {
    gs_profile *profile = gs_profile_store_find(store, (uint64_t)sqlite3_column_int64(row, 0));
    int64_t sms = sqlite3_column_int64(row, 1);
    if (!profile || sms < 1 || sms > store->sms || profile->point_count == GS_PROFILE_POINTS)
        return;
    struct gs_profile_point point = {.sms = (int32_t)sms};
    recall_samples(&point.rate, sqlite3_column_double(row, 2), sqlite3_column_int64(row, 3));
    if (point.rate.count == 0)
        return;
    profile->points[profile->point_count++] = point; /* rows are in order */
    gs_profile_curve(profile);
}

static void recall_way(gs_pair *pair, const int64_t workers[2], const double shares[2], int64_t samples) {
    const int32_t kept[2] = {(int32_t)workers[0], (int32_t)workers[1]};
    bool is_possible =
        workers[0] > 0 && workers[0] <= GS_MAX_BLOCKS_PER_SM && workers[1] > 0 && workers[1] <= GS_MAX_BLOCKS_PER_SM;
    gs_pair_way *way = is_possible ? gs_pair_way_of(pair, kept) : NULL;
    for (int i = 0; way && i < 2; i++)
        recall_samples(&way->shares[i], shares[i], samples);
}

static void read_pair(gs_profile_store *store, sqlite3_stmt *row) {
    uint64_t a = (uint64_t)sqlite3_column_int64(row, 0), b = (uint64_t)sqlite3_column_int64(row, 1);
    int64_t split = sqlite3_column_int64(row, 2), used = sqlite3_column_int64(row, 3);
    const double factors[2] = {sqlite3_column_double(row, 4), sqlite3_column_double(row, 5)};
    int64_t samples = gs_min(sqlite3_column_int64(row, 6), RECALLED);
    const int64_t workers[2] = {sqlite3_column_int64(row, 7), sqlite3_column_int64(row, 8)};
    if (a > b || !is_sensible(factors[0]) || (split != TURNS && !is_sensible(factors[1])) || split < INSIDE ||
        split >= GS_PAIR_SPLITS || samples < 1 || used <= 0 || used > INT64_MAX / 2)
        return;
    gs_pair *pair = gs_profile_store_make_pair(store, a, b);
    if (!pair)
        return;
    if (split == TURNS) {
        pair->serial = factors[0];
        pair->serial_samples = (double)samples;
    } else if (split == INSIDE)
        recall_way(pair, workers, factors, samples);
    else
        pair->splits[split] = (struct gs_pair_split){factors[0], factors[1], (double)samples};
    pair->used = (uint64_t)used;
    store->uses = gs_max_u64(store->uses, pair->used);
}

/* A time that was measured, or -1. */
static double recall_lost(double us) {
    return us == 0 || is_sensible(us) ? us : -1;
}

static void read_command(gs_profile_store *store, sqlite3_stmt *row) {
    uint64_t key = (uint64_t)sqlite3_column_int64(row, 0);
    int64_t used = sqlite3_column_int64(row, 1);
    gs_command_profile *command = store->commands;
    if (!key || used <= 0 || used > INT64_MAX / 2)
        return;
    while (command->key) /* at most as many rows are read */
        command++;
    *command = GS_UNKNOWN_COMMAND(key);
    for (int i = 0; i < 2; i++)
        command->lost_us[i] = recall_lost(sqlite3_column_double(row, 2 + i));
    command->kernels_us = fmax(recall_lost(sqlite3_column_double(row, 4)), 0);
    command->is_sliced = sqlite3_column_int(row, 5);
    command->used = (uint64_t)used;
    store->uses = gs_max_u64(store->uses, command->used);
}

static bool read_all(gs_profile_store *store, enum statement which, int most,
                     void (*read)(gs_profile_store *, sqlite3_stmt *)) {
    sqlite3_stmt *statement = prepare_statement(store, which);
    int step = SQLITE_DONE;
    if (!statement)
        return false;
    if (most > 0)
        sqlite3_bind_int(statement, 3, most);
    while ((step = sqlite3_step(statement)) == SQLITE_ROW)
        read(store, statement);
    sqlite3_finalize(statement);
    return step == SQLITE_DONE || fail_store(store);
}

/* ---- opening ---- */

/* Creates the tables of a new file. A file of another program or of a later version is refused. The tables of an
   earlier version are dropped: their contents are measured again. */
static bool check_version(gs_profile_store *store, const char *path) {
    int64_t application = 0, version = 0, tables = 0;
    char sql[sizeof schema + 200];
    if (!read_number(store, "PRAGMA application_id", &application) ||
        !read_number(store, "PRAGMA user_version", &version) ||
        !read_number(store, "SELECT count(*) FROM sqlite_master", &tables))
        return false;
    if (application == APPLICATION && version == VERSION)
        return true;
    if (application == APPLICATION && version > VERSION)
        return refuse_file(store, path, "written by a later version of this program");
    if (application != APPLICATION && (tables > 0 || application != 0))
        return refuse_file(store, path, "a database of another program");
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE;DROP TABLE IF EXISTS profiles;DROP TABLE IF EXISTS points;DROP TABLE IF EXISTS pairs;"
             "DROP TABLE IF EXISTS commands;"
             "%sPRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
             schema, APPLICATION, VERSION);
    return execute_sql(store, sql);
}

/* Deletes the least recently used rows, so that the file does not grow from run to run. */
static bool trim_store(gs_profile_store *store) {
    static const struct {
        enum statement statement;
        int kept;
    } steps[] = {{TRIM_PROFILES, GS_STORE_PROFILES},
                 {TRIM_PAIRS, GS_STORE_PAIRS},
                 {TRIM_COMMANDS, GS_STORE_COMMANDS},
                 {TRIM_POINTS, 0}};
    for (size_t i = 0; i < GS_COUNT(steps); i++) {
        sqlite3_stmt *statement = prepare_statement(store, steps[i].statement);
        if (!statement)
            return false;
        if (steps[i].kept > 0)
            sqlite3_bind_int(statement, 3, steps[i].kept);
        if (!finish_statement(store, statement))
            return false;
    }
    return true;
}

void gs_profile_file_open(gs_profile_store *store, const char *path) {
    char sql[120];
    if (sqlite3_open_v2(path, &store->file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        refuse_file(store, path, sqlite3_errmsg(store->file));
        return;
    }
    sqlite3_busy_timeout(store->file, OPENING_MS);
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA max_page_count=%d", MOST_PAGES);
    bool good = check_version(store, path) && execute_sql(store, sql) &&
                read_all(store, ALL_PROFILES, GS_STORE_PROFILES, read_profile) &&
                read_all(store, ALL_POINTS, 0, read_point) && read_all(store, ALL_PAIRS, GS_STORE_PAIRS, read_pair) &&
                read_all(store, ALL_COMMANDS, GS_STORE_COMMANDS, read_command);
    if (good) {
        sqlite3_busy_timeout(store->file, 0);
        trim_store(store);
    } else
        gs_profile_file_close(store);
}

/* ---- writing ---- */

bool gs_profile_file_begin(gs_profile_store *store) {
    return execute_sql(store, "BEGIN IMMEDIATE");
}

/* Commits or rolls back. A commit clears the problem. */
bool gs_profile_file_end(gs_profile_store *store, bool keep) {
    if (!store->file)
        return false;
    if (keep && execute_sql(store, "COMMIT")) {
        forget_problem(store);
        return true;
    }
    if (store->file && !sqlite3_get_autocommit(store->file))
        sqlite3_exec(store->file, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

static bool store_points(gs_profile_store *store, const gs_profile *profile) {
    sqlite3_stmt *statement = prepare_statement(store, DROP_POINTS);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)profile->key);
    if (!finish_statement(store, statement))
        return false;
    for (int32_t i = 0; i < profile->point_count; i++) {
        const struct gs_profile_point *point = &profile->points[i];
        if (!(statement = prepare_statement(store, PUT_POINT)))
            return false;
        sqlite3_bind_int64(statement, 3, (int64_t)profile->key);
        sqlite3_bind_int(statement, 4, point->sms);
        sqlite3_bind_double(statement, 5, gs_samples_median(&point->rate));
        sqlite3_bind_int64(statement, 6, gs_samples_kept(&point->rate));
        if (!finish_statement(store, statement))
            return false;
    }
    return true;
}

bool gs_profile_file_profile(gs_profile_store *store, const gs_profile *profile) {
    sqlite3_stmt *statement = prepare_statement(store, PUT_PROFILE);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)profile->key);
    sqlite3_bind_int64(statement, 4, (int64_t)profile->used);
    sqlite3_bind_text(statement, 5, profile->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, (int64_t)profile->blocks);
    sqlite3_bind_double(statement, 7, gs_samples_median(&profile->whole_ns));
    sqlite3_bind_int(statement, 8, gs_samples_kept(&profile->whole_ns));
    sqlite3_bind_double(statement, 9, gs_samples_median(&profile->block_loop_ns));
    sqlite3_bind_int(statement, 10, gs_samples_kept(&profile->block_loop_ns));
    sqlite3_bind_text(statement, 11, gs_level_name(gs_profile_compute(profile)), -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 12, gs_level_name(gs_profile_memory(profile)), -1, SQLITE_STATIC);
    return finish_statement(store, statement) && store_points(store, profile);
}

/* A row of the table of pairs. */
struct pair_row {
    int split;
    int32_t workers[2];
    double factors[2], samples;
};

static bool store_row(gs_profile_store *store, const gs_pair *pair, const struct pair_row *row) {
    if (row->samples <= 0)
        return true;
    sqlite3_stmt *statement = prepare_statement(store, PUT_PAIR);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)pair->a);
    sqlite3_bind_int64(statement, 4, (int64_t)pair->b);
    sqlite3_bind_int(statement, 5, row->split);
    sqlite3_bind_int(statement, 6, row->workers[0]);
    sqlite3_bind_int(statement, 7, row->workers[1]);
    sqlite3_bind_int64(statement, 8, (int64_t)pair->used);
    sqlite3_bind_double(statement, 9, row->factors[0]);
    sqlite3_bind_double(statement, 10, row->factors[1]);
    sqlite3_bind_int64(statement, 11, (int64_t)fmin(row->samples, 1e9));
    return finish_statement(store, statement);
}

static struct pair_row row_of_way(const gs_pair_way *way) {
    return (struct pair_row){.split = INSIDE,
                             .workers = {way->workers[0], way->workers[1]},
                             .factors = {gs_samples_median(&way->shares[0]), gs_samples_median(&way->shares[1])},
                             .samples = gs_samples_kept(&way->shares[0])};
}

bool gs_profile_file_pair(gs_profile_store *store, const gs_pair *pair) {
    struct pair_row row = {.split = TURNS, .factors = {pair->serial, 0}, .samples = pair->serial_samples};
    bool good = store_row(store, pair, &row);
    for (int i = 0; good && i < GS_PAIR_SPLITS; i++) {
        const struct gs_pair_split *split = &pair->splits[i];
        row = (struct pair_row){.split = i, .factors = {split->a, split->b}, .samples = split->samples};
        good = store_row(store, pair, &row);
    }
    for (int i = 0; good && i < GS_PAIR_WAYS; i++) {
        row = row_of_way(&pair->ways[i]);
        good = store_row(store, pair, &row);
    }
    return good;
}

bool gs_profile_file_command(gs_profile_store *store, const gs_command_profile *command) {
    sqlite3_stmt *statement = prepare_statement(store, PUT_COMMAND);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)command->key);
    sqlite3_bind_int64(statement, 4, (int64_t)command->used);
    for (int i = 0; i < 2; i++)
        sqlite3_bind_double(statement, 5 + i, command->lost_us[i]);
    sqlite3_bind_double(statement, 7, command->kernels_us);
    sqlite3_bind_int(statement, 8, command->is_sliced);
    return finish_statement(store, statement);
}
