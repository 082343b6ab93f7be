/*
 * fuzz_profiles.c: files of profiles with any values, of the right schema or another one, and with damaged pages. A
 * store opens with or without its file, keeps what is measured, and can be opened again.
 */
#include "fuzz.h"

#include "sharing/measure/measure.h"
#include "sql_values.h"

#include <sqlite3.h>
#include <unistd.h>

static const struct {
    const char *name, *columns;
    int count, key; /* of columns; of those in the primary key */
} tables[] = {{"profiles",
               "gpu, gpu_sms, key, used, name, blocks, whole_ns, whole_samples, block_loop_ns, block_loop_samples, "
               "compute, memory",
               12, 3},
              {"points", "gpu, gpu_sms, key, sms, blocks_per_ns, samples", 6, 4},
              {"pairs", "gpu, gpu_sms, a, b, split, workers_a, workers_b, used, factor_a, factor_b, samples", 11, 7}};

static void put_rows(gs_text *sql, size_t table, struct bytes *bytes) {
    gs_text_add(sql, "CREATE TABLE %s(%s);", tables[table].name, tables[table].columns);
    for (unsigned rows = take(bytes) % 8; rows; rows--) {
        gs_text_add(sql, "INSERT INTO %s VALUES ('gpu', 8", tables[table].name);
        for (int i = 2; i < tables[table].count; i++) {
            gs_text_add(sql, ", ");
            put_value(sql, bytes);
        }
        gs_text_add(sql, ");");
    }
}

static void write_file(const char *path, struct bytes *bytes) {
    gs_text sql = {0};
    sqlite3 *sqlite = NULL;
    unsigned kind = take(bytes);
    gs_text_add(&sql, "PRAGMA synchronous = OFF; PRAGMA application_id = %d; PRAGMA user_version = %u;",
                kind & 1 ? 0 : 0x47736d70, kind & 2 ? take(bytes) : 4);
    for (size_t i = 0; i < GS_COUNT(tables); i++)
        if (!(kind & 4 << i))
            put_rows(&sql, i, bytes);
    unlink(path);
    if (sqlite3_open(path, &sqlite) == SQLITE_OK)
        sqlite3_exec(sqlite, sql.data, NULL, NULL, NULL);
    sqlite3_close(sqlite);
    gs_text_free(&sql);
    FILE *file = fopen(path, "r+");
    while (file && bytes->at < bytes->end) { /* the rest: places, and what is written there */
        unsigned high = take(bytes), low = take(bytes);
        fseek(file, (long)(high << 8 | low), SEEK_SET);
        fputc((int)take(bytes), file);
    }
    if (file)
        fclose(file);
}

static void use_store(const char *path) {
    gs_error error = {.code = GS_OK};
    gs_profile_store *store = gs_profile_store_open(path, "gpu", 8, &error);
    if (!store) {
        if (error.code == GS_OK)
            abort();
        return;
    }
    for (uint64_t key = 0; key < 8; key++) {
        gs_profile *profile = gs_profile_store_get(store, key, "kernel", 64);
        if (!profile)
            abort();
        gs_profile_ran(profile, false, 64, 1000);
        gs_profile_duration_ns(profile);
        gs_profile_store_put(store, profile);
    }
    gs_profile_store_save(store);
    gs_profile_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    struct bytes bytes = {data, data + count};
    char path[60], journal[70];
    snprintf(path, sizeof path, "/tmp/gridsmith-fuzz-profiles-%d", (int)getpid());
    snprintf(journal, sizeof journal, "%s-journal", path);
    write_file(path, &bytes);
    use_store(path);
    use_store(path);
    unlink(path);
    unlink(journal);
    return 0;
}
