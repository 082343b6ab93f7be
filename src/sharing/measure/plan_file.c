/*
 * plan_file.c: a plan in an SQLite file: its measurements and choices.
 *
 * Each measurement is stored as soon as it is known, so an interrupted plan can be resumed. Kernels are stored by name,
 * with a digest: a changed kernel is measured again. A file can hold anything, so impossible numbers are ignored.
 */
#include "pair_search.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>

enum { APPLICATION = 0x4773706c, VERSION = 1, WAIT_MS = 2000, DIGEST = 65 };

struct gs_plan_file {
    sqlite3 *database;
    char *path;
    char (*names)[GS_SEARCH_NAME];
    size_t count;
    sqlite3_stmt *get, *put;
};

#define SIDE(n)                                                                                                        \
    "kernel" n " TEXT NOT NULL, form" n " INTEGER NOT NULL, workers" n " INTEGER NOT NULL, registers" n                \
    " INTEGER NOT NULL, sms" n " INTEGER NOT NULL, repeats" n " INTEGER NOT NULL, percent" n " INTEGER NOT NULL, "
#define KEYS(n) "kernel" n ", form" n ", workers" n ", registers" n ", sms" n ", repeats" n ", percent" n

static const char schema[] =
    "CREATE TABLE plan(gpu TEXT NOT NULL, device TEXT NOT NULL);"
    "CREATE TABLE kernels(name TEXT PRIMARY KEY, digest TEXT NOT NULL, blocks INTEGER, block_threads INTEGER,"
    " registers INTEGER, shared_bytes INTEGER, workers_per_sm INTEGER, alone_us REAL, problem TEXT);"
    "CREATE TABLE measurements(measure TEXT NOT NULL, " SIDE("1")
        SIDE("2") "us REAL, us1 REAL, us2 REAL, reason TEXT, PRIMARY KEY(measure, " KEYS("1") ", " KEYS(
            "2") ")) WITHOUT ROWID;"
                 "CREATE TABLE pairs(first TEXT NOT NULL, second TEXT NOT NULL, option TEXT, first_workers_per_sm "
                 "INTEGER,"
                 " second_workers_per_sm INTEGER, first_sms INTEGER, turns_us REAL, together_us REAL, gain REAL, "
                 "reason TEXT,"
                 " PRIMARY KEY(first, second)) WITHOUT ROWID;";

/* ---- errors ---- */

static gs_code fail_sql(gs_plan_file *file, gs_error *error) {
    int code = sqlite3_errcode(file->database);
    gs_code kind = code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? GS_E_FORMAT : GS_E_IO;
    return gs_fail(error, kind, "the measurements %s: %s", file->path, sqlite3_errmsg(file->database));
}

static gs_code execute_sql(gs_plan_file *file, const char *sql, gs_error *error) {
    return sqlite3_exec(file->database, sql, NULL, NULL, NULL) == SQLITE_OK ? GS_OK : fail_sql(file, error);
}

static gs_code prepare_statement(gs_plan_file *file, const char *sql, sqlite3_stmt **statement, gs_error *error) {
    return sqlite3_prepare_v2(file->database, sql, -1, statement, NULL) == SQLITE_OK ? GS_OK : fail_sql(file, error);
}

/* Runs a statement without result rows, and frees it. */
static gs_code finish_statement(gs_plan_file *file, sqlite3_stmt *statement, gs_error *error) {
    bool good = sqlite3_step(statement) == SQLITE_DONE;
    return sqlite3_finalize(statement) == SQLITE_OK && good ? GS_OK : fail_sql(file, error);
}

/* ---- opening ---- */

static gs_code read_number(gs_plan_file *file, const char *sql, int64_t *number, gs_error *error) {
    sqlite3_stmt *statement = NULL;
    gs_code code = prepare_statement(file, sql, &statement, error);
    if (code != GS_OK)
        return code;
    bool good = sqlite3_step(statement) == SQLITE_ROW;
    *number = good ? sqlite3_column_int64(statement, 0) : 0;
    return sqlite3_finalize(statement) == SQLITE_OK && good ? GS_OK : fail_sql(file, error);
}

static gs_code create_tables(gs_plan_file *file, const char *gpu, const char *device, gs_error *error) {
    char sql[120];
    sqlite3_stmt *statement = NULL;
    gs_code code = execute_sql(file, "BEGIN IMMEDIATE", error);
    if (code == GS_OK)
        code = execute_sql(file, schema, error);
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d;PRAGMA user_version=%d", APPLICATION, VERSION);
    if (code == GS_OK)
        code = execute_sql(file, sql, error);
    if (code == GS_OK)
        code = prepare_statement(file, "INSERT INTO plan VALUES(?1, ?2)", &statement, error);
    if (code == GS_OK) {
        sqlite3_bind_text(statement, 1, gpu, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, device, -1, SQLITE_STATIC);
        code = finish_statement(file, statement, error);
    }
    return code == GS_OK ? execute_sql(file, "COMMIT", error) : code;
}

/* A plan belongs to one GPU and one device: durations of others are not comparable. */
static gs_code check_owner(gs_plan_file *file, const char *gpu, const char *device, gs_error *error) {
    sqlite3_stmt *statement = NULL;
    gs_code code = prepare_statement(file, "SELECT gpu, device FROM plan", &statement, error);
    if (code != GS_OK)
        return code;
    if (sqlite3_step(statement) != SQLITE_ROW)
        code = gs_fail(error, GS_E_FORMAT, "the file of measurements %s does not name its GPU", file->path);
    const char *had = code == GS_OK ? (const char *)sqlite3_column_text(statement, 0) : "";
    const char *on = code == GS_OK ? (const char *)sqlite3_column_text(statement, 1) : "";
    if (code == GS_OK && (!had || !on || strcmp(had, gpu) != 0 || strcmp(on, device) != 0))
        code = gs_fail(error, GS_E_FORMAT,
                       "the file of measurements %s was made for %.40s on %.40s; expected %.40s on %.40s", file->path,
                       had ? had : "no GPU", on ? on : "no device", gpu, device);
    sqlite3_finalize(statement);
    return code;
}

static gs_code check_version(gs_plan_file *file, const char *gpu, const char *device, gs_error *error) {
    int64_t application = 0, version = 0, tables = 0;
    gs_code code = read_number(file, "PRAGMA application_id", &application, error);
    if (code == GS_OK)
        code = read_number(file, "PRAGMA user_version", &version, error);
    if (code == GS_OK)
        code = read_number(file, "SELECT count(*) FROM sqlite_master", &tables, error);
    if (code != GS_OK)
        return code;
    if (!application && !tables)
        return create_tables(file, gpu, device, error);
    if (application != APPLICATION)
        return gs_fail(error, GS_E_FORMAT, "%s is a database of another program", file->path);
    if (version != VERSION)
        return gs_fail(error, GS_E_FORMAT, "the file of measurements %s was written by another version of this program",
                       file->path);
    return check_owner(file, gpu, device, error);
}

gs_plan_file *gs_plan_file_open(const char *path, const char *gpu, const char *device, gs_error *error) {
    static const char get[] = "SELECT us, us1, us2, reason FROM measurements WHERE (measure, " KEYS("1") ", " KEYS(
        "2") ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    static const char put[] = "INSERT OR REPLACE INTO measurements VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
                              "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
    gs_plan_file *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        gs_fail_memory(error);
        return NULL;
    }
    gs_code code = sqlite3_open_v2(path, &file->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK
                       ? GS_OK
                       : fail_sql(file, error);
    if (code == GS_OK) {
        sqlite3_busy_timeout(file->database, WAIT_MS);
        code = check_version(file, gpu, device, error);
    }
    if (code == GS_OK)
        code = execute_sql(file, "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL", error);
    if (code == GS_OK)
        code = prepare_statement(file, get, &file->get, error);
    if (code == GS_OK)
        code = prepare_statement(file, put, &file->put, error);
    if (code == GS_OK)
        return file;
    gs_plan_file_close(file);
    return NULL;
}

void gs_plan_file_close(gs_plan_file *file) {
    if (!file)
        return;
    sqlite3_finalize(file->get);
    sqlite3_finalize(file->put);
    sqlite3_close_v2(file->database);
    free(file->path);
    free(file->names);
    free(file);
}

/* ---- kernels ---- */

static void digest_of(const gs_pair_search_kernel *kernel, char text[DIGEST]) {
    unsigned char bytes[32];
    char words[400];
    gs_digest digest;
    gs_digest_begin(&digest);
    snprintf(words, sizeof words, "%lld %d %d %.6g", (long long)kernel->blocks, kernel->is_black_box,
             kernel->keeps_registers, kernel->known_us);
    gs_digest_add_text(&digest, words);
    for (int i = 0; i < GS_SEARCH_FORMS; i++) {
        const gs_shape *shape = &kernel->forms[i];
        snprintf(words, sizeof words, "%d %d %d %lld %lld", kernel->has_form[i], shape->threads, shape->registers,
                 (long long)shape->shared_bytes, (long long)shape->local_bytes);
        gs_digest_add_text(&digest, words);
    }
    gs_digest_end(&digest, bytes);
    gs_digest_hex(bytes, text);
}

/* Drops measurements of a changed kernel. */
static gs_code add_kernel(gs_plan_file *file, const gs_pair_search_kernel *kernel, gs_error *error) {
    static const char *const statements[] = {
        "DELETE FROM measurements WHERE (kernel1 = ?1 OR kernel2 = ?1) AND ?1 IN (SELECT name FROM kernels WHERE name "
        "= ?1 AND digest <> ?2)",
        "DELETE FROM pairs WHERE (first = ?1 OR second = ?1) AND ?1 IN (SELECT name FROM kernels WHERE name = ?1 AND "
        "digest <> ?2)",
        "INSERT INTO kernels(name, digest) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET digest = ?2"};
    char digest[DIGEST];
    gs_code code = GS_OK;
    digest_of(kernel, digest);
    for (size_t i = 0; i < GS_COUNT(statements) && code == GS_OK; i++) {
        sqlite3_stmt *statement = NULL;
        code = prepare_statement(file, statements[i], &statement, error);
        if (code != GS_OK)
            break;
        sqlite3_bind_text(statement, 1, kernel->name, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, digest, -1, SQLITE_STATIC);
        code = finish_statement(file, statement, error);
    }
    return code;
}

gs_code gs_plan_file_kernels(gs_plan_file *file, const gs_pair_search_kernel *kernels, size_t count, gs_error *error) {
    free(file->names);
    file->names = calloc(count + 1, sizeof *file->names);
    file->count = count;
    gs_code code = file->names ? execute_sql(file, "BEGIN IMMEDIATE", error) : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        memcpy(file->names[i], kernels[i].name, sizeof file->names[i]);
        code = add_kernel(file, &kernels[i], error);
    }
    return code == GS_OK ? execute_sql(file, "COMMIT", error) : code;
}

/* ---- measurements ---- */

static void bind_key(const gs_plan_file *file, sqlite3_stmt *statement, const gs_measurement *measurement) {
    bool is_pair = measurement->measure >= GS_MEASURE_SERIAL;
    sqlite3_reset(statement);
    sqlite3_bind_text(statement, 1, gs_measure_name(measurement->measure), -1, SQLITE_STATIC);
    for (int i = 0; i < 2; i++) {
        const gs_measure_side *side = &measurement->sides[i];
        int at = 2 + 7 * i;
        bool is_there = i == 0 || is_pair;
        sqlite3_bind_text(statement, at, is_there ? file->names[side->kernel] : "", -1, SQLITE_STATIC);
        const int32_t numbers[] = {side->form, side->workers, side->registers, side->sms, side->repeats, side->percent};
        for (int k = 0; k < (int)GS_COUNT(numbers); k++)
            sqlite3_bind_int(statement, at + 1 + k, is_there ? numbers[k] : 0);
    }
}

static bool is_time(double us) {
    return isfinite(us) && us > 0 && us < 1e12;
}

bool gs_plan_file_get(gs_plan_file *file, const gs_measurement *measurement, gs_measure_result *result) {
    bind_key(file, file->get, measurement);
    if (sqlite3_step(file->get) != SQLITE_ROW) {
        sqlite3_reset(file->get);
        return false;
    }
    const char *reason = (const char *)sqlite3_column_text(file->get, 3);
    *result = (gs_measure_result){.us = sqlite3_column_double(file->get, 0),
                                  .side_us = {sqlite3_column_double(file->get, 1), sqlite3_column_double(file->get, 2)},
                                  .is_failed = reason && *reason};
    snprintf(result->reason, sizeof result->reason, "%s", reason ? reason : "");
    gs_make_printable(result->reason);
    sqlite3_reset(file->get);
    bool is_pair = measurement->measure >= GS_MEASURE_SERIAL;
    return result->is_failed ||
           (is_time(result->us) && is_time(result->side_us[0]) && (!is_pair || is_time(result->side_us[1])));
}

gs_code gs_plan_file_put(gs_plan_file *file, const gs_measurement *measurement, const gs_measure_result *result,
                         gs_error *error) {
    enum { US = 16, US1, US2, REASON };
    bind_key(file, file->put, measurement);
    sqlite3_bind_double(file->put, US, result->us);
    sqlite3_bind_double(file->put, US1, result->side_us[0]);
    sqlite3_bind_double(file->put, US2, result->side_us[1]);
    sqlite3_bind_text(file->put, REASON, result->is_failed ? result->reason : "", -1, SQLITE_STATIC);
    gs_code code = sqlite3_step(file->put) == SQLITE_DONE ? GS_OK : fail_sql(file, error);
    sqlite3_reset(file->put);
    sqlite3_clear_bindings(file->put);
    return code;
}

/* ---- the plan ---- */

static gs_code put_kernel(gs_plan_file *file, const gs_pair_search *search, size_t number, gs_error *error) {
    const gs_pair_search_kernel *given = gs_pair_search_given(search, number);
    const gs_found_kernel *found = gs_pair_search_kernel_at(search, number);
    const gs_shape *shape = &given->forms[found->form];
    sqlite3_stmt *statement = NULL;
    gs_code code =
        prepare_statement(file,
                          "UPDATE kernels SET blocks = ?2, block_threads = ?3, registers = ?4, shared_bytes = ?5, "
                          "workers_per_sm = ?6, alone_us = ?7, problem = ?8 WHERE name = ?1",
                          &statement, error);
    if (code != GS_OK)
        return code;
    sqlite3_bind_text(statement, 1, given->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, given->blocks);
    sqlite3_bind_int(statement, 3, shape->threads);
    sqlite3_bind_int(statement, 4, shape->registers);
    sqlite3_bind_int64(statement, 5, shape->shared_bytes);
    sqlite3_bind_int(statement, 6, found->forms[found->form].best);
    if (found->written_us > 0)
        sqlite3_bind_double(statement, 7, found->written_us);
    sqlite3_bind_text(statement, 8, found->problem, -1, SQLITE_STATIC);
    return finish_statement(file, statement, error);
}

static gs_code put_pair(gs_plan_file *file, const gs_pair_search *search, size_t number, gs_error *error) {
    const gs_found_pair *pair = gs_pair_search_pair_at(search, number);
    const gs_measure_side *sides = pair->chosen.sides;
    sqlite3_stmt *statement = NULL;
    if (!pair->is_done) /* --most ended the search before this pair */
        return GS_OK;
    gs_code code = prepare_statement(
        file, "INSERT OR REPLACE INTO pairs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)", &statement, error);
    if (code != GS_OK)
        return code;
    sqlite3_bind_text(statement, 1, gs_pair_search_given(search, (size_t)pair->first)->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, gs_pair_search_given(search, (size_t)pair->second)->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, gs_pair_option_name(pair->option), -1, SQLITE_STATIC);
    if (pair->option == GS_PAIR_INTRA_SM)
        for (int i = 0; i < 2; i++)
            sqlite3_bind_int(statement, 4 + i, sides[i].workers);
    if (pair->option == GS_PAIR_SPLIT)
        sqlite3_bind_int(statement, 6, sides[0].sms);
    if (pair->is_measured) {
        sqlite3_bind_double(statement, 7, pair->serial_us);
        sqlite3_bind_double(statement, 8, pair->together_us);
        sqlite3_bind_double(statement, 9, pair->gain);
    }
    sqlite3_bind_text(statement, 10, pair->reason, -1, SQLITE_STATIC);
    return finish_statement(file, statement, error);
}

gs_code gs_plan_file_results(gs_plan_file *file, const gs_pair_search *search, gs_error *error) {
    gs_code code = execute_sql(file, "BEGIN IMMEDIATE", error);
    for (size_t i = 0; i < gs_pair_search_kernels(search) && code == GS_OK; i++)
        code = put_kernel(file, search, i, error);
    for (size_t i = 0; i < gs_pair_search_pairs(search) && code == GS_OK; i++)
        code = put_pair(file, search, i, error);
    return code == GS_OK ? execute_sql(file, "COMMIT", error) : code;
}
