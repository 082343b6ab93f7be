/*
 * test_dump.c: core dumps of a GPU are read as cuda-gdb reads them, in little memory, and damaged ones are refused.
 *
 * The dumps in corpus/dumps were written by the driver on an H200; what is expected of them is what cuda-gdb shows.
 */
#define _GNU_SOURCE
#include "test.h"

#include "lab/dump/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file in memory; its path is valid until the next call. */
static const char *path_of(const void *bytes, size_t count, int *file) {
    static char path[40];
    *file = memfd_create("dump", 0);
    assert_true(*file >= 0);
    for (size_t at = 0; at < count;) {
        ssize_t written = write(*file, (const char *)bytes + at, count - at);
        assert_true(written > 0);
        at += (size_t)written;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", *file);
    return path;
}

static char *read_corpus(const char *name, size_t *count) {
    gs_error error = {.code = GS_OK};
    char file[80], *bytes = NULL;
    snprintf(file, sizeof file, "corpus/dumps/%s.core.gz", name);
    assert_int_equal(gs_input_all(test_path(file), 64 << 20, &bytes, count, &error), GS_OK);
    return bytes;
}

static void open_dump(const char *name, gs_dump *dump, gs_dump_places *places) {
    gs_error error = {.code = GS_OK};
    size_t count = 0;
    int file;
    char *bytes = read_corpus(name, &count);
    assert_int_equal(gs_dump_read(dump, path_of(bytes, count, &file), &error), GS_OK);
    assert_int_equal(gs_dump_find_places(dump, places, &error), GS_OK);
    close(file);
    free(bytes);
    assert_int_equal(dump->sms, 132);
    assert_int_equal(dump->architecture, 90);
}

static const gs_dump_place *place_of_kind(const gs_dump_places *places, uint32_t grid, gs_sass_wait_kind kind) {
    for (size_t i = 0; i < places->count; i++)
        if (places->data[i].grid == grid && places->data[i].wait.kind == kind)
            return &places->data[i];
    return NULL;
}

/* Two blocks of 128 threads: two warps of each poll a flag, the others are at a barrier. */
TEST(shows_where_warps_wait) {
    gs_dump dump;
    gs_dump_places places;
    open_dump("sync", &dump, &places);
    assert_int_equal(dump.grids.count, 1);
    assert_string_equal(places.kernels.data[0], "_Z11missed_synci");
    const gs_dump_grid *grid = &dump.grids.data[0];
    assert_int_equal(grid->blocks, 2);
    assert_int_equal(grid->resident, 2);
    assert_int_equal(grid->last, 1);
    assert_int_equal(grid->registers, 16);
    assert_int_equal(grid->block[0], 128);
    assert_int_equal(dump.blocks.data[0].sm, 124);
    assert_int_equal(dump.blocks.data[1].sm, 126);
    assert_int_equal(dump.warps.count, 8);
    assert_int_equal(places.count, 2);
    const gs_dump_place *polls = place_of_kind(&places, 0, GS_SASS_POLLS);
    assert_non_null(polls);
    assert_string_equal(polls->function, "_Z11missed_synci");
    assert_int_equal(polls->offset, 0x90);
    assert_string_equal(polls->source, "hang.cu");
    assert_int_equal(polls->line, 11);
    assert_string_equal(polls->variable, "go");
    assert_int_equal(polls->address, 0x7f7358a00100);
    assert_int_equal(polls->warps, 4);
    assert_int_equal(polls->blocks, 2);
    const gs_dump_place *barrier = place_of_kind(&places, 0, GS_SASS_AT_BARRIER);
    assert_non_null(barrier);
    assert_int_equal(barrier->offset, 0xd0);
    assert_int_equal(barrier->wait.barrier, 0);
    assert_int_equal(barrier->warps, 4);
    gs_dump_places_free(&places);
    gs_dump_free(&dump);
}

TEST(shows_clusters) {
    gs_dump dump;
    gs_dump_places places;
    open_dump("cluster", &dump, &places);
    assert_int_equal(dump.grids.data[0].cluster[0], 4);
    assert_int_equal(dump.grids.data[0].resident, 8);
    assert_int_equal(dump.blocks.data[0].sm, 0);
    for (size_t i = 0; i < dump.blocks.count; i++) /* SMs 0 to 3 and 16 to 19 */
        assert_true(dump.blocks.data[i].sm % 16 < 4 && dump.blocks.data[i].sm < 20);
    gs_dump_places_free(&places);
    gs_dump_free(&dump);
}

/* 100 blocks of one kernel hold SMs that 32 of the 64 blocks of another need. */
TEST(shows_blocks_that_never_started) {
    gs_dump dump;
    gs_dump_places places;
    open_dump("two-kernels", &dump, &places);
    assert_int_equal(dump.grids.count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const gs_dump_grid *grid = &dump.grids.data[i];
        bool is_barrier = strcmp(places.kernels.data[i], "_Z13other_barrierj") == 0;
        assert_int_equal(grid->blocks, is_barrier ? 64 : 100);
        assert_int_equal(grid->resident, is_barrier ? 32 : 100);
        assert_int_equal(grid->last, is_barrier ? 31 : 99);
        assert_int_equal(grid->shared_bytes, 205824);
        const gs_dump_place *polls = place_of_kind(&places, i, GS_SASS_POLLS);
        assert_non_null(polls);
        assert_string_equal(polls->variable, is_barrier ? "arrived_too" : "go");
        assert_int_equal(polls->blocks, is_barrier ? 32 : 100);
    }
    gs_dump_places_free(&places);
    gs_dump_free(&dump);
}

TEST(shows_calls_of_the_driver) {
    gs_dump dump;
    gs_dump_places places;
    open_dump("heap", &dump, &places);
    const gs_dump_place *calls = place_of_kind(&places, 0, GS_SASS_POLLS);
    assert_non_null(calls);
    assert_true(calls->wait.calls);
    assert_true(calls->in_syscall);
    assert_int_equal(calls->warps, 64);
    gs_dump_places_free(&places);
    gs_dump_free(&dump);
}

/* ---- a full GPU ---- */

/* A dump that is written section by section: data, then the headers. */
struct maker {
    FILE *file;
    struct {
        uint32_t name, type;
        uint64_t flags, address, at, size;
        uint32_t link, info;
        uint64_t align, row_bytes;
    } * sections;
    size_t count, capacity;
};

static uint32_t add_section(struct maker *maker, uint32_t type, uint32_t link, uint32_t info, const void *bytes,
                            size_t row_bytes, size_t rows) {
    if (maker->count == maker->capacity) {
        maker->capacity = maker->capacity ? 2 * maker->capacity : 1024;
        maker->sections = realloc(maker->sections, maker->capacity * sizeof *maker->sections);
        assert_non_null(maker->sections);
    }
    long at = ftell(maker->file);
    memset(&maker->sections[maker->count], 0, sizeof *maker->sections);
    maker->sections[maker->count].type = 0x80000000u + type;
    maker->sections[maker->count].link = link;
    maker->sections[maker->count].info = info;
    maker->sections[maker->count].at = (uint64_t)at;
    maker->sections[maker->count].size = row_bytes * rows;
    maker->sections[maker->count].row_bytes = row_bytes;
    assert_int_equal(fwrite(bytes, row_bytes, rows, maker->file), rows);
    return (uint32_t)maker->count++;
}

enum { SM_COUNT = 132, BLOCKS_OF_SM = 2, WARPS = 32, LANES = 32 };

static void add_warp(struct maker *maker, uint32_t table, uint32_t warp) {
    static uint32_t lanes[LANES][14], registers[14], predicates[8];
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i][0] = 0x1000;
        lanes[i][4] = i;
    }
    uint32_t of = add_section(maker, 15, table, warp, lanes, sizeof lanes[0], LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        registers[3] = warp * LANES + i;
        add_section(maker, 8, of, i, lanes, 24, 0);
        add_section(maker, 5, of, i, registers, 4, 14);
        add_section(maker, 17, of, i, predicates, 4, 8);
    }
}

static void add_block(struct maker *maker, uint32_t blocks, uint32_t block) {
    static uint32_t warps[WARPS][16];
    for (uint32_t i = 0; i < WARPS; i++) {
        warps[i][2] = block * WARPS + i;
        warps[i][3] = warps[i][4] = 0xffffffff;
    }
    uint32_t table = add_section(maker, 14, blocks, block, warps, sizeof warps[0], WARPS);
    for (uint32_t i = 0; i < WARPS; i++)
        add_warp(maker, table, i);
}

/* A full GPU: 264 blocks of 1,024 threads. */
static void make_full(struct maker *maker) {
    unsigned char head[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33, 7, [16] = 4, [18] = 190, [58] = 64};
    uint32_t device[22] = {[9] = SM_COUNT, [14] = 9}, grid[34] = {1, [18] = 272, 1, 1, 1024, 1, 1}, sms[SM_COUNT][12];
    memset(sms, 0, sizeof sms);
    assert_int_equal(fwrite(head, sizeof head, 1, maker->file), 1);
    add_section(maker, 0, 0, 0, head, 1, 0);
    uint32_t devices = add_section(maker, 9, 0, 0, device, sizeof device, 1);
    add_section(maker, 12, devices, 0, grid, sizeof grid, 1);
    for (uint32_t i = 0; i < SM_COUNT; i++)
        sms[i][0] = i;
    uint32_t table = add_section(maker, 11, devices, 0, sms, sizeof sms[0], SM_COUNT);
    for (uint32_t i = 0; i < SM_COUNT; i++) {
        uint32_t blocks[BLOCKS_OF_SM][14] = {{1, 0, i}, {1, 0, SM_COUNT + i}};
        uint32_t of = add_section(maker, 13, table, i, blocks, sizeof blocks[0], BLOCKS_OF_SM);
        for (uint32_t k = 0; k < BLOCKS_OF_SM; k++)
            add_block(maker, of, k);
    }
    uint64_t at = (uint64_t)ftell(maker->file);
    memcpy(head + 40, &at, sizeof at);
    maker->sections[0].type = 0;
    maker->sections[0].size = maker->count;
    assert_int_equal(fwrite(maker->sections, sizeof *maker->sections, maker->count, maker->file), maker->count);
    rewind(maker->file);
    assert_int_equal(fwrite(head, sizeof head, 1, maker->file), 1);
    assert_int_equal(fflush(maker->file), 0);
}

/* The most memory that this process had since the last call, in KB. */
static long peak_kb(void) {
    char line[128];
    long peak = -1;
    FILE *status = fopen("/proc/self/status", "r"), *reset = fopen("/proc/self/clear_refs", "w");
    while (status && peak < 0 && fgets(line, sizeof line, status))
        sscanf(line, "VmHWM: %ld", &peak);
    assert_true(peak > 0 && reset);
    fputs("5", reset);
    fclose(reset);
    fclose(status);
    return peak;
}

TEST(reads_a_full_gpu_in_little_memory) {
    enum { MOST_KB = 20 << 10 };
    struct maker maker = {.file = tmpfile()};
    char path[40];
    gs_dump dump;
    gs_error error = {.code = GS_OK};
    assert_non_null(maker.file);
    make_full(&maker);
    assert_int_equal(maker.count, 819856);
    free(maker.sections);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(maker.file));
    peak_kb();
    long before_kb = peak_kb();
    assert_int_equal(gs_dump_read(&dump, path, &error), GS_OK);
    long after_kb = peak_kb();
    assert_int_equal(dump.blocks.count, SM_COUNT * BLOCKS_OF_SM);
    assert_int_equal(dump.warps.count, SM_COUNT * BLOCKS_OF_SM * WARPS);
    assert_int_equal(dump.grids.data[0].resident, 264);
    assert_int_equal(dump.grids.data[0].last, 263);
    assert_true(after_kb - before_kb < MOST_KB);
    gs_dump_free(&dump);
    fclose(maker.file);
}

/* ---- damaged dumps ---- */

static gs_code read_bytes(const char *bytes, size_t count, gs_error *error) {
    gs_dump dump;
    gs_dump_places places = {0};
    int file;
    *error = (gs_error){.code = GS_OK};
    gs_code code = gs_dump_read(&dump, path_of(bytes, count, &file), error);
    if (code == GS_OK)
        code = gs_dump_find_places(&dump, &places, error);
    gs_dump_places_free(&places);
    gs_dump_free(&dump);
    close(file);
    return code;
}

TEST(refuses_what_is_no_dump) {
    size_t count = 0;
    gs_error error;
    char *bytes = read_corpus("spin", &count);
    assert_int_equal(read_bytes("", 0, &error), GS_E_FORMAT);
    assert_non_null(strstr(error.message, "not a GPU core dump"));
    assert_int_equal(read_bytes(bytes, 64, &error), GS_E_FORMAT);
    assert_int_equal(read_bytes(bytes, count - 1, &error), GS_E_FORMAT);
    assert_non_null(strstr(error.message, "the dump is not complete"));
    bytes[18] = 3;
    assert_int_equal(read_bytes(bytes, count, &error), GS_E_FORMAT);
    free(bytes);
}

/* Bytes of headers and tables that are changed at random are read, or refused with a message. */
TEST(survives_damage) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 200;
    size_t count = 0;
    char *bytes = read_corpus("spin", &count), *damaged = malloc(count);
    assert_non_null(damaged);
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_error error;
        memcpy(damaged, bytes, count);
        for (int64_t k = gs_random_from(&random, 1, 8); k > 0; k--) {
            size_t from = gs_random_chance(&random, 50) ? count - (60 << 10) : 0;
            damaged[from + (size_t)gs_random_from(&random, 0, (int64_t)(count - from) - 1)] =
                (char)gs_random_from(&random, 0, 255);
        }
        gs_code code = read_bytes(damaged, count, &error);
        if (code != GS_OK && !error.message[0])
            fail_msg("seed %llu, index %llu: no message", (unsigned long long)seed, (unsigned long long)i);
    }
    free(damaged);
    free(bytes);
}

TEST_MAIN(NULL, NULL)
