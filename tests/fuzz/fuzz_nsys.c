/*
 * fuzz_nsys.c: databases of Nsight Systems with any values, with any of their tables and columns missing, with views,
 * virtual tables and computed columns in place of tables, and with damaged pages. What is accepted becomes runs that
 * can be written and read.
 *
 * The first bytes decide which columns there are; the others are values, table by table. The last are places in the
 * file and what is written there.
 */
#include "fuzz.h"

#include "lab/import/collect.h"
#include "sql_values.h"

#include <sqlite3.h>
#include <string.h>

static const struct {
    const char *name, *columns;
} tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName registersPerThread "
     "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread "
     "sharedMemoryExecuted graphNodeId graphId launchType"},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "start end deviceId contextId streamId correlationId globalPid bytes copyKind"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", "start end deviceId contextId streamId correlationId globalPid bytes"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", "start correlationId globalTid"},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     "deviceId contextId streamId correlationId globalPid syncType eventId eventSyncId"},
    {"CUPTI_ACTIVITY_KIND_CUDA_EVENT", "deviceId contextId streamId correlationId globalPid eventId eventSyncId"},
    {"StringIds", "id value"},
    {"TARGET_INFO_GPU", "id name smCount"},
    {"TARGET_INFO_SESSION_START_TIME", "utcEpochNs"},
};

static size_t put_columns(gs_text *sql, const char *columns, struct bytes *bytes, const char *name) {
    size_t kept = 0;
    gs_text_add(sql, "CREATE TABLE %s (", name);
    for (size_t length; (length = strcspn(columns, " ")); columns += length + (columns[length] == ' ')) {
        if (take(bytes) >= 250)
            continue;
        gs_text_add(sql, "%s\"%.*s\"", kept++ ? ", " : "", (int)length, columns);
    }
    gs_text_add(sql, kept ? ");" : "nothing);");
    return kept;
}

/* Something else with the name of a table. */
static void put_impostor(gs_text *sql, const char *name, unsigned kind) {
#define ENDLESS "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) "
#define LONG    "GENERATED ALWAYS AS (printf('%%.*c', 1000000, 'x'))"
    static const char *const forms[] = {
        ("CREATE VIEW %s AS " ENDLESS "SELECT start, start + 1 AS end, start AS id, start AS correlationId FROM n;"),
        "CREATE VIEW %s AS SELECT * FROM StringIds;", "CREATE VIRTUAL TABLE %s USING rtree(id, low, high);",
        ("CREATE TABLE %s (start, end, id INTEGER, value TEXT " LONG ");"),
        "CREATE TABLE %s (id PRIMARY KEY, value, start, end, correlationId) WITHOUT ROWID;"};
    gs_text_add(sql, forms[kind % GS_COUNT(forms)], name);
}

static void put_table(gs_text *sql, size_t table, struct bytes *bytes) {
    unsigned kind = take(bytes);
    if (kind >= 250)
        return;
    if (kind >= 240) {
        put_impostor(sql, tables[table].name, kind);
        return;
    }
    size_t columns = put_columns(sql, tables[table].columns, bytes, tables[table].name);
    for (unsigned rows = take(bytes) % 6; columns && rows; rows--) {
        gs_text_add(sql, "INSERT INTO %s VALUES (", tables[table].name);
        for (size_t i = 0; i < columns; i++) {
            gs_text_add(sql, i ? ", " : "");
            put_value(sql, bytes);
        }
        gs_text_add(sql, ");");
    }
}

/* Writes the rest of the input into pages of the database: three bytes are a place, the next its value. */
static void damage(sqlite3 *sqlite, struct bytes *bytes) {
    sqlite3_int64 size = 0;
    if (bytes->at >= bytes->end)
        return;
    unsigned char *image = sqlite3_serialize(sqlite, "main", &size, 0);
    while (image && size && bytes->at < bytes->end) {
        unsigned high = take(bytes), middle = take(bytes), low = take(bytes);
        image[(high << 16 | middle << 8 | low) % size] = (unsigned char)take(bytes);
    }
    if (image)
        sqlite3_deserialize(sqlite, "main", image, size, size, SQLITE_DESERIALIZE_FREEONCLOSE);
}

static void check_runs(gs_collection *collection) {
    gs_imported imported = {0};
    gs_error error = {.code = GS_OK};
    collection->lacks = "cluster";
    if (gs_collect_runs(collection, GS_NOT_GIVEN, &imported, &error) != GS_OK)
        require(error.code == GS_E_FORMAT);
    else
        for (size_t i = 0; i < imported.count; i++) {
            gs_text lines = {0};
            gs_run_lines(imported.data[i], &lines);
            gs_runs *runs = gs_runs_memory("lines", lines.data, lines.count, &error);
            gs_run *again = gs_runs_next(runs, &error);
            require(again != NULL);
            gs_run_free(again);
            gs_runs_close(runs);
            gs_text_free(&lines);
        }
    gs_imported_free(&imported);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    struct bytes bytes = {data, data + count};
    gs_text sql = {0};
    sqlite3 *sqlite = NULL;
    gs_collection collection = {0};
    gs_error error = {.code = GS_OK};
    for (size_t i = 0; i < GS_COUNT(tables); i++)
        put_table(&sql, i, &bytes);
    require(sqlite3_open(":memory:", &sqlite) == SQLITE_OK);
    if (!sql.data || sqlite3_exec(sqlite, sql.data, NULL, NULL, NULL) == SQLITE_OK) {
        damage(sqlite, &bytes);
        if (gs_import_nsys_database(sqlite, "fuzz", &collection, &error) == GS_OK)
            check_runs(&collection);
        else
            require(gs_code_exit(error.code) == 2 && error.message[0]);
    }
    sqlite3_close(sqlite);
    gs_collection_free(&collection);
    gs_text_free(&sql);
    return 0;
}
