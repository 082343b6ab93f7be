/*
 * nsys.c: databases that Nsight Systems exports (nsys export --type sqlite).
 *
 * Each kind of event has a table. Tables and columns differ between versions, so each query is made from the columns of
 * the table; a missing column reads as NULL, which means "not given". Names are ids of the table StringIds.
 *
 * Correlation numbers are unique in a process. The process of an event is in its globalPid, that of a call in its
 * globalTid, which is the globalPid with the thread in the lowest 24 bits.
 *
 * A file can be made to yield rows and texts without end: views, and pages that are their own descendants. So only
 * ordinary tables are read, and no more rows and names than the bytes of the file can hold.
 */
#include "collect.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>

#define KIND(name) "CUPTI_ACTIVITY_KIND_" name

enum { NAMES = 4096, MOST_TEXT = 16 << 20 /* bytes of one name */ };

struct database {
    sqlite3 *sqlite;
    const char *path;
    gs_collection *collection;
    gs_error *error;
    uint64_t bytes, name_bytes; /* of the file, and of the names that were kept */
    struct {
        int64_t *data; /* global process ids; calls are keyed by their index */
        size_t count, capacity;
    } processes;
    sqlite3_stmt *lookup; /* of a name; made when first needed */
    struct {
        int64_t id;
        const char *name;
    } names[NAMES]; /* cached, by the low digits of their ids */
};

static gs_code fail_sqlite(const struct database *database) {
    return gs_fail(database->error, GS_E_FORMAT, "%s: cannot be read as a database of Nsight Systems: %s",
                   database->path, sqlite3_errmsg(database->sqlite));
}

/* ---- the schema ---- */

/* Runs a query with one text parameter. Sets `*found` if it has a row. */
static gs_code query_row(const struct database *database, const char *query, const char *parameter, bool *found) {
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(database->sqlite, query, -1, &statement, NULL);
    if (result == SQLITE_OK && parameter)
        result = sqlite3_bind_text(statement, 1, parameter, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    *found = result == SQLITE_ROW;
    gs_code code = result == SQLITE_ROW || result == SQLITE_DONE ? GS_OK : fail_sqlite(database);
    sqlite3_finalize(statement);
    return code;
}

/* An ordinary table has a root page; views and virtual tables have none. */
static gs_code has_table(const struct database *database, const char *table, bool *found) {
    bool is_other = false;
    gs_code code = query_row(
        database, "SELECT 1 FROM sqlite_master WHERE name = ? AND (type <> 'table' OR rootpage < 1)", table, &is_other);
    if (code == GS_OK && is_other)
        code = gs_fail(database->error, GS_E_FORMAT, "%s: %s is not an ordinary table", database->path, table);
    return code == GS_OK ? query_row(database, "SELECT 1 FROM sqlite_master WHERE name = ?", table, found) : code;
}

static gs_code has_column(const struct database *database, const char *table, const char *column, bool *found) {
    char query[160];
    snprintf(query, sizeof query, "SELECT 1 FROM pragma_table_info('%s') WHERE name = ?", table);
    return query_row(database, query, column, found);
}

static gs_code measure_file(struct database *database) {
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(database->sqlite,
                                    "SELECT page_count * page_size FROM pragma_page_count, "
                                    "pragma_page_size",
                                    -1, &statement, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        database->bytes = (uint64_t)sqlite3_column_int64(statement, 0);
    gs_code code = result == SQLITE_ROW ? GS_OK : fail_sqlite(database);
    sqlite3_finalize(statement);
    return code;
}

/* ---- reading a table ---- */

/* A column: its name, or alternative names, and which numbers it may have. All are whole. */
enum { MOST_NAMES = 3, MOST_COLUMNS = 24 };

typedef enum column_range { OF_64_BITS, OF_32_BITS, CALL_NUMBER } column_range;

typedef struct table_column {
    const char *names[MOST_NAMES];
    column_range range;
} table_column;

/* A table, and the function that reads its rows. */
struct table {
    const char *name;
    const table_column *columns;
    size_t count;
    gs_code (*row)(struct database *database, sqlite3_stmt *row);
};

/* "SELECT start, end, NULL, ... FROM table" */
static gs_code make_query(const struct database *database, const struct table *table, gs_text *query) {
    gs_code code = GS_OK;
    gs_text_add(query, "SELECT ");
    for (size_t i = 0; i < table->count && code == GS_OK; i++) {
        const char *column = NULL;
        for (size_t k = 0; k < MOST_NAMES && table->columns[i].names[k] && !column && code == GS_OK; k++) {
            bool found;
            code = has_column(database, table->name, table->columns[i].names[k], &found);
            column = found ? table->columns[i].names[k] : NULL;
        }
        gs_text_add(query, column ? "%s\"%s\"" : "%sNULL", i ? ", " : "", column);
    }
    gs_text_add(query, " FROM \"%s\"", table->name);
    return code == GS_OK && query->failed ? gs_fail_memory(database->error) : code;
}

static gs_code refuse_number(const struct database *database, const char *table, const char *column, sqlite3_stmt *row,
                             int at, const char *why) {
    return gs_fail(database->error, GS_E_FORMAT, "%s: %s has a \"%s\" of %.40s: %s", database->path, table, column,
                   (const char *)sqlite3_column_text(row, at), why);
}

/* Refuses numbers that would become others. */
static gs_code check_numbers(const struct database *database, const struct table *table, sqlite3_stmt *row) {
    static const struct {
        int64_t least, most;
    } ranges[] = {[OF_64_BITS] = {INT64_MIN, INT64_MAX},
                  [OF_32_BITS] = {INT32_MIN, INT32_MAX},
                  [CALL_NUMBER] = {INT32_MIN, UINT32_MAX}};
    for (size_t i = 0; i < table->count; i++) {
        int at = (int)i, type = sqlite3_column_type(row, at);
        const char *column = table->columns[i].names[0];
        double real = type == SQLITE_FLOAT ? sqlite3_column_double(row, at) : 0;
        int64_t whole = type == SQLITE_INTEGER ? sqlite3_column_int64(row, at) : 0;
        if (type == SQLITE_FLOAT && fabs(real) < 9e18) {
            whole = (int64_t)real;
            if ((double)whole != real)
                return refuse_number(database, table->name, column, row, at, "not a whole number");
        }
        if ((type == SQLITE_FLOAT && !(fabs(real) < 9e18)) || whole < ranges[table->columns[i].range].least ||
            whole > ranges[table->columns[i].range].most)
            return refuse_number(database, table->name, column, row, at, "out of range");
    }
    return GS_OK;
}

static gs_code read_row(struct database *database, const struct table *table, sqlite3_stmt *row) {
    gs_code code = check_numbers(database, table, row);
    return code == GS_OK ? table->row(database, row) : code;
}

static gs_code read_rows(struct database *database, const struct table *table, const char *query) {
    enum { ROW_BYTES = 4 }; /* at least: where it is in its page, its length, its number or key */
    sqlite3_stmt *statement = NULL;
    gs_code code = GS_OK;
    uint64_t rows = 0;
    int result = sqlite3_prepare_v2(database->sqlite, query, -1, &statement, NULL);
    if (result == SQLITE_OK)
        while (code == GS_OK && (result = sqlite3_step(statement)) == SQLITE_ROW)
            code = ++rows <= database->bytes / ROW_BYTES
                       ? read_row(database, table, statement)
                       : gs_fail(database->error, GS_E_FORMAT, "%s: the file of %llu bytes cannot hold all rows of %s",
                                 database->path, (unsigned long long)database->bytes, table->name);
    if (code == GS_OK && result != SQLITE_DONE)
        code = fail_sqlite(database);
    sqlite3_finalize(statement);
    return code;
}

/* Reads a table, if the database has it. */
static gs_code read_table(struct database *database, const struct table *table, bool *found) {
    gs_text query = {0};
    gs_code code = has_table(database, table->name, found);
    if (code == GS_OK && *found)
        code = make_query(database, table, &query);
    if (code == GS_OK && *found)
        code = read_rows(database, table, query.data);
    gs_text_free(&query);
    return code;
}

/* Text and null are not numbers. */
static bool is_number(sqlite3_stmt *row, int column) {
    int type = sqlite3_column_type(row, column);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

static int64_t number_at(sqlite3_stmt *row, int column) {
    return is_number(row, column) ? sqlite3_column_int64(row, column) : GS_NOT_GIVEN;
}

/* A number; 0 if it is not given. */
static int64_t amount_at(sqlite3_stmt *row, int column) {
    return is_number(row, column) ? sqlite3_column_int64(row, column) : 0;
}

/* That of a column of 32 bits. */
static int32_t small_amount_at(sqlite3_stmt *row, int column) {
    return (int32_t)amount_at(row, column);
}

/* ---- processes and names ---- */

/* The index of a global process id; -1: out of memory. */
static int64_t process_index(struct database *database, int64_t global) {
    for (size_t i = database->processes.count; i-- > 0;)
        if (database->processes.data[i] == global)
            return (int64_t)i;
    if (!GS_PUSH(&database->processes, global))
        return -1;
    return (int64_t)database->processes.count - 1;
}

/* The process id: bits 24 to 47 of a global one. */
static int64_t process_of(int64_t global) {
    return global == GS_NOT_GIVEN ? GS_NOT_GIVEN : global >> 24 & 0xffffff;
}

static int64_t global_of_thread(int64_t thread) {
    return thread == GS_NOT_GIVEN ? GS_NOT_GIVEN : thread & ~(int64_t)0xffffff;
}

/* The key of a call, from the correlation number in the tables of events and of calls. */
static gs_code call_of(struct database *database, int64_t global, int64_t correlation, uint64_t *call) {
    int64_t process = process_index(database, global);
    *call = gs_collect_call(process, correlation);
    return process < 0 ? gs_fail_memory(database->error) : GS_OK;
}

/* ---- events ---- */

static const table_column kernel_columns[] = {
    {.names = {"start"}},
    {.names = {"end"}},
    {.names = {"deviceId"}, .range = OF_32_BITS},
    {.names = {"contextId"}},
    {.names = {"greenContextId"}},
    {.names = {"streamId"}},
    {.names = {"correlationId"}, .range = CALL_NUMBER},
    {.names = {"globalPid"}},
    {.names = {"demangledName", "name"}},
    {.names = {"registersPerThread"}, .range = OF_32_BITS},
    {.names = {"gridX"}, .range = OF_32_BITS},
    {.names = {"gridY"}, .range = OF_32_BITS},
    {.names = {"gridZ"}, .range = OF_32_BITS},
    {.names = {"blockX"}, .range = OF_32_BITS},
    {.names = {"blockY"}, .range = OF_32_BITS},
    {.names = {"blockZ"}, .range = OF_32_BITS},
    {.names = {"staticSharedMemory"}},
    {.names = {"dynamicSharedMemory"}},
    {.names = {"localMemoryPerThread"}},
    {.names = {"sharedMemoryExecuted"}},
    {.names = {"graphNodeId"}},
    {.names = {"graphId"}},
    {.names = {"launchType"}},
    {.names = {"shortName"}},
};

/* Counts the bytes of a name that is kept. */
static gs_code count_name(struct database *database, const char *name) {
    database->name_bytes += strlen(name);
    return database->name_bytes <= database->bytes
               ? GS_OK
               : gs_fail(database->error, GS_E_FORMAT, "%s: the file of %llu bytes cannot hold all of its names",
                         database->path, (unsigned long long)database->bytes);
}

/* `*name` is NULL if there is no text. */
static gs_code keep_name(struct database *database, const unsigned char *text, const char **name) {
    const gs_strings *names = &database->collection->strings;
    size_t before = names->count;
    *name = NULL;
    if (!text || !*text)
        return GS_OK;
    char *copy = strdup((const char *)text);
    *name = copy ? gs_collect_name(database->collection, copy) : NULL;
    free(copy);
    if (!*name)
        return gs_fail_memory(database->error);
    return names->count > before ? count_name(database, *name) : GS_OK;
}

/* The name with this id in StringIds. */
static gs_code look_up_name(struct database *database, int64_t id, const char **name) {
    size_t slot = (size_t)((uint64_t)id % NAMES);
    if (database->names[slot].name && database->names[slot].id == id) {
        *name = database->names[slot].name;
        return GS_OK;
    }
    if (!database->lookup && sqlite3_prepare_v2(database->sqlite, "SELECT value FROM StringIds WHERE id = ?", -1,
                                                &database->lookup, NULL) != SQLITE_OK)
        return fail_sqlite(database);
    sqlite3_bind_int64(database->lookup, 1, id);
    int result = sqlite3_step(database->lookup);
    gs_code code = result != SQLITE_ROW && result != SQLITE_DONE ? fail_sqlite(database) : GS_OK;
    if (code == GS_OK)
        code = keep_name(database, result == SQLITE_ROW ? sqlite3_column_text(database->lookup, 0) : NULL, name);
    sqlite3_reset(database->lookup);
    if (code == GS_OK) {
        database->names[slot].id = id;
        database->names[slot].name = *name;
    }
    return code;
}

/* A name: an id in StringIds, or in old versions a text. */
static gs_code read_name(struct database *database, sqlite3_stmt *row, int column, const char **name) {
    if (sqlite3_column_type(row, column) == SQLITE_INTEGER)
        return look_up_name(database, sqlite3_column_int64(row, column), name);
    return keep_name(database, sqlite3_column_text(row, column), name);
}

/* The name of a kernel, or its short name if there is no other. `*given` gets the bit of the name if there is one. */
static gs_code read_kernel_name(struct database *database, sqlite3_stmt *row, const char **name,
                                gs_trace_fields *given) {
    gs_code code = read_name(database, row, 8, name);
    if (code == GS_OK && !*name)
        code = read_name(database, row, 23, name);
    *given |= *name ? 1u << GS_TRACE_NAME : 0;
    return code == GS_OK && !*name ? keep_name(database, (const unsigned char *)"unnamed", name) : code;
}

static const char *const field_names[GS_TRACE_FIELDS] = {
    [GS_TRACE_START] = "start",
    [GS_TRACE_END] = "end",
    [GS_TRACE_STREAM] = "streamId",
    [GS_TRACE_GRID] = "gridX, gridY, gridZ",
    [GS_TRACE_BLOCK] = "blockX, blockY, blockZ",
    [GS_TRACE_REGISTERS] = "registersPerThread",
    [GS_TRACE_SHARED] = "staticSharedMemory, dynamicSharedMemory",
    [GS_TRACE_LOCAL] = "localMemoryPerThread",
    [GS_TRACE_CORRELATION] = "correlationId",
    [GS_TRACE_DEVICE] = "deviceId",
    [GS_TRACE_NAME] = "demangledName",
    [GS_TRACE_BYTES] = "bytes",
    [GS_TRACE_KIND] = "copyKind",
    [GS_TRACE_CONTEXT] = "contextId",
    [GS_TRACE_PROCESS] = "globalPid",
};

/* The bit of a field, if these columns of the row have values. */
static gs_trace_fields field_at(sqlite3_stmt *row, gs_trace_field field, int first, int count) {
    for (int i = first; i < first + count; i++)
        if (!is_number(row, i))
            return 0;
    return 1u << field;
}

/* Columns 0 to 7 are the same for kernels, copies and memsets. */
static gs_code read_common(struct database *database, sqlite3_stmt *row, gs_traced_what *what, gs_traced *traced,
                           gs_trace_fields *given) {
    *given = field_at(row, GS_TRACE_START, 0, 1) | field_at(row, GS_TRACE_END, 1, 1) |
             field_at(row, GS_TRACE_DEVICE, 2, 1) | field_at(row, GS_TRACE_STREAM, 5, 1) |
             field_at(row, GS_TRACE_CORRELATION, 6, 1) | field_at(row, GS_TRACE_CONTEXT, 3, 1) |
             field_at(row, GS_TRACE_PROCESS, 7, 1);
    *what = gs_traced_what_none();
    *traced = (gs_traced){.start_ns = number_at(row, 0), .end_ns = number_at(row, 1)};
    what->device = small_amount_at(row, 2);
    what->context = number_at(row, 3);
    what->green_context = number_at(row, 4) > 0 ? number_at(row, 4) : GS_NOT_GIVEN;
    what->stream = number_at(row, 5);
    what->process = process_of(number_at(row, 7));
    return call_of(database, number_at(row, 7), number_at(row, 6), &traced->call);
}

static gs_code name_file(const struct database *database, gs_code code) {
    if (code == GS_E_FORMAT && database->error)
        snprintf(database->error->file, sizeof database->error->file, "%s", database->path);
    return code;
}

static gs_code add_work(const struct database *database, const gs_traced_what *what, gs_trace_fields given,
                        gs_traced traced) {
    return name_file(database, gs_collect_add(database->collection, what, given, traced, database->error));
}

/* The sum of static and dynamic shared memory; negative if one of them is. */
static int64_t shared_at(sqlite3_stmt *row, int fixed, int dynamic) {
    int64_t sum;
    if (amount_at(row, fixed) < 0 || amount_at(row, dynamic) < 0)
        return -1;
    return __builtin_add_overflow(amount_at(row, fixed), amount_at(row, dynamic), &sum) ? INT64_MAX : sum;
}

static gs_code kernel_row(struct database *database, sqlite3_stmt *row) {
    gs_traced_what what;
    gs_traced traced;
    gs_trace_fields given;
    gs_code code = read_common(database, row, &what, &traced, &given);
    if (code == GS_OK)
        code = read_kernel_name(database, row, &what.name, &given);
    if (code != GS_OK)
        return code;
    given |= field_at(row, GS_TRACE_REGISTERS, 9, 1) | field_at(row, GS_TRACE_GRID, 10, 3) |
             field_at(row, GS_TRACE_BLOCK, 13, 3) | field_at(row, GS_TRACE_SHARED, 16, 2) |
             field_at(row, GS_TRACE_LOCAL, 18, 1);
    given |= 1u << GS_TRACE_PRIORITY; /* no database has it, as `lacks` says */
    what.op = GS_TRACED_LAUNCH;
    what.registers = small_amount_at(row, 9);
    for (int i = 0; i < 3; i++) {
        what.grid[i] = small_amount_at(row, 10 + i);
        what.block[i] = small_amount_at(row, 13 + i);
    }
    what.static_shared_bytes = number_at(row, 16);
    what.shared_bytes = shared_at(row, 16, 17);
    what.local_bytes = amount_at(row, 18);
    what.shared_config_bytes = number_at(row, 19);
    traced.node = number_at(row, 20) ? number_at(row, 20) : GS_NOT_GIVEN;
    what.graph = number_at(row, 21) ? number_at(row, 21) : GS_NOT_GIVEN;
    what.is_cooperative = number_at(row, 22) == 1 || number_at(row, 22) == 2;
    return add_work(database, &what, given, traced);
}

static const table_column copy_columns[] = {
    {.names = {"start"}},
    {.names = {"end"}},
    {.names = {"deviceId"}, .range = OF_32_BITS},
    {.names = {"contextId"}},
    {.names = {"greenContextId"}},
    {.names = {"streamId"}},
    {.names = {"correlationId"}, .range = CALL_NUMBER},
    {.names = {"globalPid"}},
    {.names = {"bytes"}},
    {.names = {"copyKind"}},
    {.names = {"graphNodeId"}},
};

/* CUPTI's kinds of copies. Arrays are device memory. */
static gs_copy_kind copy_kind(int64_t kind) {
    static const gs_copy_kind kinds[] = {
        [1] = GS_COPY_HOST_TO_DEVICE,   [2] = GS_COPY_DEVICE_TO_HOST,   [3] = GS_COPY_HOST_TO_DEVICE,
        [4] = GS_COPY_DEVICE_TO_HOST,   [5] = GS_COPY_DEVICE_TO_DEVICE, [6] = GS_COPY_DEVICE_TO_DEVICE,
        [7] = GS_COPY_DEVICE_TO_DEVICE, [8] = GS_COPY_DEVICE_TO_DEVICE, [9] = GS_COPY_HOST_TO_HOST,
        [10] = GS_COPY_PEER_TO_PEER};
    return kind >= 0 && kind < (int64_t)GS_COUNT(kinds) ? kinds[kind] : GS_COPY_UNKNOWN;
}

static gs_code add_copy(struct database *database, sqlite3_stmt *row, gs_traced_op op) {
    gs_traced_what what;
    gs_traced traced;
    gs_trace_fields given;
    gs_code code = read_common(database, row, &what, &traced, &given);
    if (code != GS_OK)
        return code;
    given |= field_at(row, GS_TRACE_BYTES, 8, 1);
    given |= op == GS_TRACED_MEMSET ? 1u << GS_TRACE_KIND : field_at(row, GS_TRACE_KIND, 9, 1);
    what.op = op;
    what.bytes = amount_at(row, 8);
    what.copy_kind = op == GS_TRACED_COPY ? (int32_t)copy_kind(number_at(row, 9)) : 0;
    traced.node = number_at(row, 10) ? number_at(row, 10) : GS_NOT_GIVEN;
    return add_work(database, &what, given, traced);
}

static gs_code copy_row(struct database *database, sqlite3_stmt *row) {
    return add_copy(database, row, GS_TRACED_COPY);
}

static gs_code memset_row(struct database *database, sqlite3_stmt *row) {
    return add_copy(database, row, GS_TRACED_MEMSET);
}

/* ---- calls ---- */

static const table_column call_columns[] = {
    {.names = {"start"}}, {.names = {"correlationId"}, .range = CALL_NUMBER}, {.names = {"globalTid"}}};

static gs_code call_row(struct database *database, sqlite3_stmt *row) {
    uint64_t call;
    if (number_at(row, 1) == GS_NOT_GIVEN) {
        database->collection->calls_without_id++;
        return GS_OK;
    }
    if (!field_at(row, GS_TRACE_START, 0, 1))
        return name_file(database, gs_fail(database->error, GS_E_FORMAT,
                                           "call %lld has no \"start\" in the trace, the time at which it was made",
                                           (long long)number_at(row, 1)));
    gs_code code = call_of(database, global_of_thread(number_at(row, 2)), number_at(row, 1), &call);
    return code == GS_OK ? gs_collect_add_call(database->collection, call, number_at(row, 0), database->error) : code;
}

/* ---- named ranges ---- */

static const table_column range_columns[] = {
    {.names = {"start"}}, {.names = {"end"}}, {.names = {"text"}}, {.names = {"textId"}}};

/* Marks have no end, and categories and domains have no times. */
static gs_code range_row(struct database *database, sqlite3_stmt *row) {
    gs_traced_range range = {.from_ns = number_at(row, 0), .to_ns = number_at(row, 1)};
    if (!is_number(row, 0) || !is_number(row, 1))
        return GS_OK;
    gs_code code = read_name(database, row, 2, &range.name);
    if (code == GS_OK && !range.name)
        code = read_name(database, row, 3, &range.name);
    return code == GS_OK && range.name ? gs_collect_add_range(database->collection, &range, database->error) : code;
}

/* ---- waits ---- */

/* A stream waits for the record of an event with the same eventSyncId; without that column, for the latest record of
   the event before the wait. */
static gs_code wait_query(const struct database *database, gs_text *query) {
    bool has_sync_id, has_process;
    gs_code code = has_column(database, KIND("SYNCHRONIZATION"), "eventSyncId", &has_sync_id);
    if (code == GS_OK && has_sync_id)
        code = has_column(database, KIND("CUDA_EVENT"), "eventSyncId", &has_sync_id);
    if (code == GS_OK)
        code = has_column(database, KIND("SYNCHRONIZATION"), "globalPid", &has_process);
    if (code == GS_OK && has_process)
        code = has_column(database, KIND("CUDA_EVENT"), "globalPid", &has_process);
    gs_text_add(query,
                "SELECT s.correlationId, %s, s.deviceId, s.contextId, s.streamId, e.correlationId, e.deviceId, "
                "e.contextId, e.streamId FROM " KIND("SYNCHRONIZATION") " s LEFT JOIN " KIND(
                    "CUDA_EVENT") " e ON %s%s "
                                  "WHERE s.syncType = 2",
                has_process ? "s.globalPid" : "NULL",
                has_sync_id ? "e.eventSyncId = s.eventSyncId"
                            : "e.eventId = s.eventId AND e.correlationId = (SELECT max(f.correlationId) FROM " KIND(
                                  "CUDA_EVENT") " f WHERE f.eventId = s.eventId AND f.correlationId < s.correlationId)",
                has_process ? " AND e.globalPid = s.globalPid" : "");
    return code == GS_OK && query->failed ? gs_fail_memory(database->error) : code;
}

/* A wait whose record is not in the database has none. */
static gs_code wait_row(struct database *database, sqlite3_stmt *row) {
    gs_collection *collection = database->collection;
    gs_traced_wait wait;
    if (!is_number(row, 0) || !is_number(row, 5)) {
        collection->lost_waits++;
        return GS_OK;
    }
    int64_t global = number_at(row, 1), process = gs_max(process_of(global), GS_NOT_GIVEN);
    wait.waits = gs_collect_stream(collection, process, number_at(row, 3), small_amount_at(row, 2), number_at(row, 4));
    wait.records =
        gs_collect_stream(collection, process, number_at(row, 7), small_amount_at(row, 6), number_at(row, 8));
    gs_code code = call_of(database, global, number_at(row, 0), &wait.wait_call);
    if (code == GS_OK)
        code = call_of(database, global, number_at(row, 5), &wait.record_call);
    if (code == GS_OK && (wait.waits < 0 || wait.records < 0))
        code = gs_fail_memory(database->error);
    return code == GS_OK ? gs_collect_add_wait(collection, &wait, database->error) : code;
}

static const table_column wait_columns[] = {{.names = {"correlationId"}, .range = CALL_NUMBER},
                                            {.names = {"globalPid"}},
                                            {.names = {"deviceId"}, .range = OF_32_BITS},
                                            {.names = {"contextId"}},
                                            {.names = {"streamId"}},
                                            {.names = {"correlationId"}, .range = CALL_NUMBER},
                                            {.names = {"deviceId"}, .range = OF_32_BITS},
                                            {.names = {"contextId"}},
                                            {.names = {"streamId"}}};

/* Both tables are needed, with the columns that identify the event. */
static gs_code read_waits(struct database *database) {
    static const char *const needed[] = {"correlationId", "deviceId", "contextId", "streamId", "eventId"};
    static const struct table table = {KIND("SYNCHRONIZATION"), wait_columns, GS_COUNT(wait_columns), wait_row};
    bool is_there = true, found;
    gs_code code = has_table(database, KIND("SYNCHRONIZATION"), &found);
    if (code == GS_OK)
        code = has_table(database, KIND("CUDA_EVENT"), &found);
    for (size_t i = 0; i < GS_COUNT(needed) && code == GS_OK; i++) {
        code = has_column(database, KIND("SYNCHRONIZATION"), needed[i], &found);
        is_there = is_there && found;
        if (code == GS_OK)
            code = has_column(database, KIND("CUDA_EVENT"), needed[i], &found);
        is_there = is_there && found;
    }
    gs_text query = {0};
    if (code == GS_OK && is_there)
        code = wait_query(database, &query);
    if (code == GS_OK && is_there)
        code = read_rows(database, &table, query.data);
    gs_text_free(&query);
    database->collection->has_waits = is_there;
    return code;
}

/* ---- GPUs and the start time ---- */

static const table_column gpu_columns[] = {
    {.names = {"id", "cudaId"}},
    {.names = {"name"}},
    {.names = {"smCount"}, .range = OF_32_BITS},
    {.names = {"computeMajor"}, .range = OF_32_BITS},
    {.names = {"computeMinor"}, .range = OF_32_BITS},
    {.names = {"maxWarpsPerSm"}, .range = OF_32_BITS},
    {.names = {"maxRegistersPerSm"}, .range = OF_32_BITS},
    {.names = {"maxShmemPerSm"}},
};

static gs_code gpu_row(struct database *database, sqlite3_stmt *row) {
    enum { WARP_THREADS = 32, MOST_WARPS = 1 << 20 };
    const char *name = (const char *)sqlite3_column_text(row, 1);
    gs_traced_gpu gpu = {.device = number_at(row, 0),
                         .name = name ? strdup(name) : NULL,
                         .sms = (int32_t)gs_max(0, small_amount_at(row, 2)),
                         .major = (int32_t)gs_max(0, small_amount_at(row, 3)),
                         .minor = (int32_t)gs_max(0, small_amount_at(row, 4)),
                         .threads_per_sm = (int32_t)(WARP_THREADS * gs_max(0, gs_min(amount_at(row, 5), MOST_WARPS))),
                         .registers_per_sm = (int32_t)gs_max(0, small_amount_at(row, 6)),
                         .shared_per_sm_bytes = gs_max(0, amount_at(row, 7))};
    gs_code code = name ? gs_collect_add_gpu(database->collection, gpu, database->error) : GS_OK;
    return code == GS_OK && name ? count_name(database, name) : code;
}

static const table_column start_columns[] = {{.names = {"utcEpochNs"}}};

static gs_code start_row(struct database *database, sqlite3_stmt *row) {
    database->collection->unix_ns = number_at(row, 0);
    return GS_OK;
}

/* By default nsys records the launch of a graph as one event. */
static const table_column graph_columns[] = {{.names = {"start"}}};

static gs_code graph_row(struct database *database, sqlite3_stmt *row) {
    (void)row;
    database->collection->whole_graphs++;
    return GS_OK;
}

/* ---- the database ---- */

#define TABLE(name, columns, row)                                                                                      \
    { name, columns, GS_COUNT(columns), row }

static const struct table kernel_table = TABLE(KIND("KERNEL"), kernel_columns, kernel_row);

static const struct table other_tables[] = {
    TABLE(KIND("MEMCPY"), copy_columns, copy_row),
    TABLE(KIND("MEMSET"), copy_columns, memset_row),
    TABLE(KIND("RUNTIME"), call_columns, call_row),
    TABLE(KIND("DRIVER"), call_columns, call_row),
    TABLE(KIND("GRAPH_TRACE"), graph_columns, graph_row),
    TABLE("NVTX_EVENTS", range_columns, range_row),
    TABLE("TARGET_INFO_GPU", gpu_columns, gpu_row),
    TABLE("TARGET_INFO_SESSION_START_TIME", start_columns, start_row),
};

/* A database without kernels may be of another program. */
static gs_code check_database(struct database *database) {
    bool has_strings, has_gpus;
    gs_code code = has_table(database, "StringIds", &has_strings);
    if (code == GS_OK)
        code = has_table(database, "TARGET_INFO_GPU", &has_gpus);
    if (code != GS_OK || has_strings || has_gpus)
        return code;
    return gs_fail(database->error, GS_E_FORMAT,
                   "%s: not a database of Nsight Systems: it has no table " KIND("KERNEL"), database->path);
}

static gs_code read_all(struct database *database) {
    bool found;
    gs_code code = measure_file(database);
    if (code == GS_OK)
        code = has_table(database, "StringIds", &found);
    if (code == GS_OK)
        code = read_table(database, &kernel_table, &found);
    if (code == GS_OK && !found)
        code = check_database(database);
    for (size_t i = 0; i < GS_COUNT(other_tables) && code == GS_OK; i++)
        code = read_table(database, &other_tables[i], &found);
    return code == GS_OK ? read_waits(database) : code;
}

gs_code gs_import_nsys_database(sqlite3 *sqlite, const char *path, gs_collection *collection, gs_error *error) {
    struct database database = {.sqlite = sqlite, .path = path, .collection = collection, .error = error};
    collection->recorder = "Nsight Systems profiler";
    collection->field_names = field_names;
    collection->unix_ns = GS_NOT_GIVEN;
    sqlite3_db_config(sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL); /* expressions in the file are untrusted */
    sqlite3_limit(sqlite, SQLITE_LIMIT_LENGTH, MOST_TEXT);
    gs_code code = read_all(&database);
    sqlite3_finalize(database.lookup);
    free(database.processes.data);
    return code;
}

/* A big-endian number in the header of a database. */
static int64_t header_number(const unsigned char *bytes, size_t count) {
    int64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* SQLite reads a file that ends inside its last page. The header has the size of a page, and how many there are if both
   change counters agree. */
static gs_code check_size(const char *path, gs_error *error) {
    enum { HEADER = 100, PAGE_BYTES = 16, CHANGES = 24, PAGES = 28, VALID_FOR = 92, MOST_PAGE_BYTES = 65536 };
    unsigned char header[HEADER];
    FILE *file = fopen(path, "rb");
    bool is_read = file && fread(header, sizeof header, 1, file) == 1 && fseeko(file, 0, SEEK_END) == 0;
    int64_t size = is_read ? (int64_t)ftello(file) : -1;
    if (file)
        fclose(file);
    if (size < 0) /* SQLite says why */
        return GS_OK;
    int64_t page_bytes = header_number(header + PAGE_BYTES, 2), pages = header_number(header + PAGES, 4);
    if (page_bytes == 1)
        page_bytes = MOST_PAGE_BYTES;
    if (memcmp(header + CHANGES, header + VALID_FOR, 4) == 0 && size < pages * page_bytes)
        return gs_fail(error, GS_E_FORMAT, "%s: the file is cut short: it has %lld bytes, and should have %lld", path,
                       (long long)size, (long long)(pages * page_bytes));
    return GS_OK;
}

gs_code gs_import_nsys(const char *path, gs_collection *collection, gs_error *error) {
    sqlite3 *sqlite = NULL;
    gs_code code = check_size(path, error);
    if (code != GS_OK)
        return code;
    if (sqlite3_open_v2(path, &sqlite, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK)
        code = gs_import_nsys_database(sqlite, path, collection, error);
    else
        code = gs_fail(error, GS_E_IO, "cannot open %s: %s", path, sqlite ? sqlite3_errmsg(sqlite) : "out of memory");
    sqlite3_close(sqlite);
    return code;
}
