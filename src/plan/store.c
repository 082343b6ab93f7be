/*
 * store.c: a book in an SQLite file.
 *
 * The file is a memory of what was measured, and nothing depends on it: whatever is wrong with it, the book goes on
 * without. A file that is not ours, or newer, or damaged is left alone as it is; one that is locked or on a full disk
 * is tried again at the next save. No call waits for a lock but the first, and that not for long.
 *
 * Of samples only the median is kept, and how many there were. Read back they count as a few, so that what is measured
 * afterwards soon outweighs them.
 */
#include "book.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    APPLICATION = 0x47736d70,
    VERSION = 2,
    OPENING_MS = 100,   /* to wait for a lock when the file is opened */
    MOST_PAGES = 16384, /* of 4 KiB: the file never becomes larger */
    RECALLED = 3        /* samples that a stored median counts as */
};

static const char schema[] =
    "CREATE TABLE profiles(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, used INTEGER NOT NULL,"
    " name TEXT NOT NULL, blocks INTEGER NOT NULL, blocks_per_sm INTEGER, warps_percent INTEGER,"
    " bandwidth_percent INTEGER, whole_ns REAL, whole_samples INTEGER, compute TEXT, memory TEXT,"
    " walked_ns REAL, walked_samples INTEGER,"
    " PRIMARY KEY(gpu, gpu_sms, key)) WITHOUT ROWID;"
    "CREATE TABLE points(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, key INTEGER NOT NULL, sms INTEGER NOT NULL,"
    " blocks_per_ns REAL, samples INTEGER, PRIMARY KEY(gpu, gpu_sms, key, sms)) WITHOUT ROWID;"
    /* split: which eighth of the SMs a had; -1: they took turns, and factor_a is the throughput */
    "CREATE TABLE pairs(gpu TEXT NOT NULL, gpu_sms INTEGER NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL,"
    " split INTEGER NOT NULL, used INTEGER NOT NULL, factor_a REAL, factor_b REAL, samples INTEGER,"
    " PRIMARY KEY(gpu, gpu_sms, a, b, split)) WITHOUT ROWID;";

#define OF_THIS_GPU " WHERE gpu = ?1 AND gpu_sms = ?2"

enum statement {
    PUT_PROFILE,
    DROP_POINTS,
    PUT_POINT,
    PUT_PAIR,
    ALL_PROFILES,
    ALL_POINTS,
    ALL_PAIRS,
    TRIM_PROFILES,
    TRIM_PAIRS,
    TRIM_POINTS
};
static const char *const statements[] = {
    [PUT_PROFILE] = "INSERT OR REPLACE INTO profiles VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
                    " ?14, ?15)",
    [DROP_POINTS] = "DELETE FROM points" OF_THIS_GPU " AND key = ?3",
    [PUT_POINT] = "INSERT OR REPLACE INTO points VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [PUT_PAIR] = "INSERT OR REPLACE INTO pairs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [ALL_PROFILES] =
        "SELECT key, used, name, blocks, blocks_per_sm, warps_percent, bandwidth_percent, whole_ns,"
        " whole_samples, walked_ns, walked_samples FROM profiles" OF_THIS_GPU " ORDER BY used DESC LIMIT ?3",
    [ALL_POINTS] = "SELECT key, sms, blocks_per_ns, samples FROM points" OF_THIS_GPU " ORDER BY key, sms",
    [ALL_PAIRS] =
        "SELECT a, b, split, used, factor_a, factor_b, samples FROM pairs" OF_THIS_GPU " ORDER BY used DESC LIMIT ?3",
    [TRIM_PROFILES] = "DELETE FROM profiles" OF_THIS_GPU " AND used <= (SELECT used FROM profiles" OF_THIS_GPU
                      " ORDER BY used DESC LIMIT 1 OFFSET ?3)",
    [TRIM_PAIRS] = "DELETE FROM pairs" OF_THIS_GPU " AND used <= (SELECT used FROM pairs" OF_THIS_GPU
                   " ORDER BY used DESC LIMIT 1 OFFSET ?3)",
    [TRIM_POINTS] = "DELETE FROM points" OF_THIS_GPU " AND key NOT IN (SELECT key FROM profiles" OF_THIS_GPU ")"};

/* ---- trouble ---- */

static void complain(gs_book *book, const char *reason) {
    char trouble[sizeof book->trouble];
    snprintf(trouble, sizeof trouble, "profiles are kept in memory only: %s", reason);
    if (strcmp(trouble, book->trouble) != 0) {
        memcpy(book->trouble, trouble, sizeof trouble);
        book->is_troubled = false;
    }
}

void gs_store_close(gs_book *book) {
    sqlite3_close_v2(book->file);
    book->file = NULL;
}

/* Says what SQLite says. A damaged file is closed for good; others may be better next time. */
static bool failed(gs_book *book) {
    int code = sqlite3_errcode(book->file);
    char reason[200];
    const char *path = sqlite3_db_filename(book->file, "main");
    snprintf(reason, sizeof reason, "%.120s: %s", path && *path ? path : "the file", sqlite3_errmsg(book->file));
    complain(book, reason);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        gs_store_close(book);
    return false;
}

static bool refused(gs_book *book, const char *path, const char *reason) {
    char words[200];
    snprintf(words, sizeof words, "%.120s %s", path, reason);
    complain(book, words);
    gs_store_close(book);
    return false;
}

static bool execute(gs_book *book, const char *sql) {
    return sqlite3_exec(book->file, sql, NULL, NULL, NULL) == SQLITE_OK || failed(book);
}

/* ---- statements ---- */

/* With the GPU as its first two parameters. NULL: `failed` has said why. */
static sqlite3_stmt *prepare(gs_book *book, enum statement which) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(book->file, statements[which], -1, &statement, NULL) != SQLITE_OK) {
        failed(book);
        return NULL;
    }
    sqlite3_bind_text(statement, 1, book->gpu, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 2, book->sms);
    return statement;
}

/* Runs a statement that gives no rows, and frees it. */
static bool finish(gs_book *book, sqlite3_stmt *statement) {
    bool good = sqlite3_step(statement) == SQLITE_DONE;
    if (sqlite3_finalize(statement) != SQLITE_OK || !good)
        return failed(book);
    return true;
}

static bool read_number(gs_book *book, const char *sql, int64_t *number) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(book->file, sql, -1, &statement, NULL) != SQLITE_OK)
        return failed(book);
    bool good = sqlite3_step(statement) == SQLITE_ROW;
    *number = good ? sqlite3_column_int64(statement, 0) : 0;
    return sqlite3_finalize(statement) == SQLITE_OK && good ? true : failed(book);
}

/* ---- reading: a file can hold anything, so numbers that make no sense are left out ---- */

static bool is_sensible(double value) {
    return isfinite(value) && value > 0 && value < 1e18;
}

static void recall(gs_samples *samples, double value, int64_t count) {
    for (int64_t i = 0; is_sensible(value) && i < gs_min(count, RECALLED); i++)
        gs_samples_add(samples, value);
}

static int32_t percent(sqlite3_stmt *row, int column) {
    int64_t value = sqlite3_column_int64(row, column);
    return value > 0 && value <= 100 ? (int32_t)value : 0;
}

static void read_profile(gs_book *book, sqlite3_stmt *row) {
    int64_t used = sqlite3_column_int64(row, 1), blocks = sqlite3_column_int64(row, 3);
    int64_t blocks_per_sm = sqlite3_column_int64(row, 4);
    const char *name = (const char *)sqlite3_column_text(row, 2);
    gs_profile *profile = gs_book_profile(book, (uint64_t)sqlite3_column_int64(row, 0));
    if (!profile || profile->used || used <= 0 || used > INT64_MAX / 2 || blocks <= 0)
        return; /* out of memory, or there by an older use, or nonsense */
    snprintf(profile->name, sizeof profile->name, "%s", name ? name : "");
    profile->used = (uint64_t)used;
    profile->blocks = (uint64_t)blocks;
    profile->blocks_per_sm = blocks_per_sm > 0 && blocks_per_sm <= 1024 ? (int32_t)blocks_per_sm : 0;
    profile->warps_percent = percent(row, 5);
    profile->bandwidth_percent = percent(row, 6);
    recall(&profile->whole_ns, sqlite3_column_double(row, 7), sqlite3_column_int64(row, 8));
    recall(&profile->walked_ns, sqlite3_column_double(row, 9), sqlite3_column_int64(row, 10));
    gs_profile_curve(profile);
    if (book->uses < profile->used)
        book->uses = profile->used;
}

static void read_point(gs_book *book, sqlite3_stmt *row) {
    gs_profile *profile = gs_book_known(book, (uint64_t)sqlite3_column_int64(row, 0));
    int64_t sms = sqlite3_column_int64(row, 1);
    if (!profile || sms < 1 || sms > book->sms || profile->point_count == GS_PROFILE_POINTS)
        return;
    struct gs_profile_point point = {.sms = (int32_t)sms};
    recall(&point.rate, sqlite3_column_double(row, 2), sqlite3_column_int64(row, 3));
    if (point.rate.count == 0)
        return;
    profile->points[profile->point_count++] = point; /* they come in order */
    gs_profile_curve(profile);
}

static void read_pair(gs_book *book, sqlite3_stmt *row) {
    uint64_t a = (uint64_t)sqlite3_column_int64(row, 0), b = (uint64_t)sqlite3_column_int64(row, 1);
    int64_t split = sqlite3_column_int64(row, 2), used = sqlite3_column_int64(row, 3);
    double one = sqlite3_column_double(row, 4), other = sqlite3_column_double(row, 5);
    int64_t samples = gs_min(sqlite3_column_int64(row, 6), RECALLED);
    if (a > b || !is_sensible(one) || (split >= 0 && !is_sensible(other)) || split < -1 || split >= GS_PAIR_SPLITS ||
        samples < 1 || used <= 0 || used > INT64_MAX / 2)
        return;
    gs_pair *pair = gs_book_make_pair(book, a, b);
    if (!pair)
        return;
    if (split < 0) {
        pair->turns = one;
        pair->turns_samples = (double)samples;
    } else
        pair->splits[split] = (struct gs_pair_split){one, other, (double)samples};
    pair->used = (uint64_t)used;
    if (book->uses < pair->used)
        book->uses = pair->used;
}

static bool read_all(gs_book *book, enum statement which, int most, void (*read)(gs_book *, sqlite3_stmt *)) {
    sqlite3_stmt *statement = prepare(book, which);
    int step = SQLITE_DONE;
    if (!statement)
        return false;
    if (most > 0)
        sqlite3_bind_int(statement, 3, most);
    while ((step = sqlite3_step(statement)) == SQLITE_ROW)
        read(book, statement);
    sqlite3_finalize(statement);
    return step == SQLITE_DONE || failed(book);
}

/* ---- opening ---- */

/* A new file gets its tables; one of somebody else's, or of a later version, is left alone. What an earlier version
   measured is measured again. */
static bool check_version(gs_book *book, const char *path) {
    int64_t application, version, tables;
    char sql[sizeof schema + 200];
    if (!read_number(book, "PRAGMA application_id", &application) ||
        !read_number(book, "PRAGMA user_version", &version) ||
        !read_number(book, "SELECT count(*) FROM sqlite_master", &tables))
        return false;
    if (application == APPLICATION && version == VERSION)
        return true;
    if (application == APPLICATION && version > VERSION)
        return refused(book, path, "was written by a later version of this program");
    if (application != APPLICATION && (tables > 0 || application != 0))
        return refused(book, path, "is a database of something else");
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE;DROP TABLE IF EXISTS profiles;DROP TABLE IF EXISTS points;DROP TABLE IF EXISTS pairs;"
             "%sPRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
             schema, APPLICATION, VERSION);
    return execute(book, sql);
}

/* Drops what was used longest ago, so that the file does not grow from one daemon to the next. */
static bool trim(gs_book *book) {
    static const struct {
        enum statement statement;
        int kept;
    } steps[] = {{TRIM_PROFILES, GS_BOOK_PROFILES}, {TRIM_PAIRS, GS_BOOK_PAIRS}, {TRIM_POINTS, 0}};
    for (size_t i = 0; i < GS_COUNT(steps); i++) {
        sqlite3_stmt *statement = prepare(book, steps[i].statement);
        if (!statement)
            return false;
        if (steps[i].kept > 0)
            sqlite3_bind_int(statement, 3, steps[i].kept);
        if (!finish(book, statement))
            return false;
    }
    return true;
}

void gs_store_open(gs_book *book, const char *path) {
    char sql[120];
    if (sqlite3_open_v2(path, &book->file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        refused(book, path, sqlite3_errmsg(book->file));
        return;
    }
    sqlite3_busy_timeout(book->file, OPENING_MS);
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA max_page_count=%d", MOST_PAGES);
    bool good = check_version(book, path) && execute(book, sql) &&
                read_all(book, ALL_PROFILES, GS_BOOK_PROFILES, read_profile) &&
                read_all(book, ALL_POINTS, 0, read_point) && read_all(book, ALL_PAIRS, GS_BOOK_PAIRS, read_pair);
    if (good) {
        sqlite3_busy_timeout(book->file, 0);
        trim(book);
    } else
        gs_store_close(book);
}

/* ---- writing ---- */

bool gs_store_begin(gs_book *book) {
    return execute(book, "BEGIN IMMEDIATE");
}

/* Commits, or takes everything back. After a commit all earlier trouble is over. */
bool gs_store_end(gs_book *book, bool keep) {
    if (!book->file)
        return false;
    if (keep && execute(book, "COMMIT")) {
        book->trouble[0] = '\0';
        book->is_troubled = false;
        return true;
    }
    if (book->file && !sqlite3_get_autocommit(book->file))
        sqlite3_exec(book->file, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

static bool store_points(gs_book *book, const gs_profile *profile) {
    sqlite3_stmt *statement = prepare(book, DROP_POINTS);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)profile->key);
    if (!finish(book, statement))
        return false;
    for (int32_t i = 0; i < profile->point_count; i++) {
        const struct gs_profile_point *point = &profile->points[i];
        if (!(statement = prepare(book, PUT_POINT)))
            return false;
        sqlite3_bind_int64(statement, 3, (int64_t)profile->key);
        sqlite3_bind_int(statement, 4, point->sms);
        sqlite3_bind_double(statement, 5, gs_samples_median(&point->rate));
        sqlite3_bind_int64(statement, 6, gs_samples_kept(&point->rate));
        if (!finish(book, statement))
            return false;
    }
    return true;
}

bool gs_store_profile(gs_book *book, const gs_profile *profile) {
    sqlite3_stmt *statement = prepare(book, PUT_PROFILE);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)profile->key);
    sqlite3_bind_int64(statement, 4, (int64_t)profile->used);
    sqlite3_bind_text(statement, 5, profile->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, (int64_t)profile->blocks);
    sqlite3_bind_int(statement, 7, profile->blocks_per_sm);
    sqlite3_bind_int(statement, 8, profile->warps_percent);
    sqlite3_bind_int(statement, 9, profile->bandwidth_percent);
    sqlite3_bind_double(statement, 10, gs_samples_median(&profile->whole_ns));
    sqlite3_bind_int(statement, 11, gs_samples_kept(&profile->whole_ns));
    sqlite3_bind_text(statement, 12, gs_level_name(gs_profile_compute(profile)), -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 13, gs_level_name(gs_profile_memory(profile)), -1, SQLITE_STATIC);
    sqlite3_bind_double(statement, 14, gs_samples_median(&profile->walked_ns));
    sqlite3_bind_int(statement, 15, gs_samples_kept(&profile->walked_ns));
    return finish(book, statement) && store_points(book, profile);
}

static bool store_split(gs_book *book, const gs_pair *pair, int split, double a, double b, double samples) {
    if (samples <= 0)
        return true;
    sqlite3_stmt *statement = prepare(book, PUT_PAIR);
    if (!statement)
        return false;
    sqlite3_bind_int64(statement, 3, (int64_t)pair->a);
    sqlite3_bind_int64(statement, 4, (int64_t)pair->b);
    sqlite3_bind_int(statement, 5, split);
    sqlite3_bind_int64(statement, 6, (int64_t)pair->used);
    sqlite3_bind_double(statement, 7, a);
    sqlite3_bind_double(statement, 8, b);
    sqlite3_bind_int64(statement, 9, (int64_t)fmin(samples, 1e9));
    return finish(book, statement);
}

bool gs_store_pair(gs_book *book, const gs_pair *pair) {
    bool good = store_split(book, pair, -1, pair->turns, 0, pair->turns_samples);
    for (int i = 0; good && i < GS_PAIR_SPLITS; i++)
        good = store_split(book, pair, i, pair->splits[i].a, pair->splits[i].b, pair->splits[i].samples);
    return good;
}
