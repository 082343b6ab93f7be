/*
 * dump_tables.c: the tables of a dump.
 *
 * Each table that others hang on is noted with its section and its first row, so that `link` and `info` of a section
 * give a row. Sections come in the order of their numbers, so the notes are sorted.
 */
#include "dump.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Section types, from FIRST_TYPE on. */
#define FIRST_TYPE 0x80000000u
enum {
    REGISTERS = 5,
    IMAGE = 7, /* with the addresses of the GPU */
    DEVICES = 9,
    CONTEXTS = 10,
    SMS = 11,
    GRIDS = 12,
    BLOCKS = 13,
    WARPS = 14,
    LANES = 15,
    MODULES = 16
};

struct note {
    uint32_t section, type, first, count, parent; /* parent: the row above; of SMs, the device */
};

struct reading {
    gs_dump *dump;
    gs_dump_window window;
    struct {
        struct note *data;
        size_t count, capacity;
    } notes;
    struct {
        uint64_t *data; /* handles of modules */
        size_t count, capacity;
    } modules;
    struct {
        uint32_t *data; /* numbers of SMs, of all devices */
        size_t count, capacity;
    } sms;
};

enum { MOST_ROWS = 1 << 22, MOST_REGISTERS = 256 };

static uint32_t word_at(const unsigned char *row, size_t at, uint64_t row_bytes) {
    uint32_t value = 0;
    if (at + sizeof value <= row_bytes)
        memcpy(&value, row + at, sizeof value);
    return value;
}

static uint64_t long_at(const unsigned char *row, size_t at, uint64_t row_bytes) {
    uint64_t value = 0;
    if (at + sizeof value <= row_bytes)
        memcpy(&value, row + at, sizeof value);
    return value;
}

static gs_code fail_section(const struct reading *reading, const gs_dump_section *section, gs_error *error,
                            const char *what) {
    gs_fail(error, GS_E_FORMAT, "section %u: %s", section->number, what);
    return gs_error_name_file(error, reading->dump->path);
}

/* The note of a section, or NULL. */
static const struct note *find_note(const struct reading *reading, uint32_t section, uint32_t type) {
    size_t low = 0, high = reading->notes.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (reading->notes.data[middle].section < section)
            low = middle + 1;
        else
            high = middle;
    }
    const struct note *found = low < reading->notes.count ? &reading->notes.data[low] : NULL;
    return found && found->section == section && found->type == type ? found : NULL;
}

/* The row above a table; GS_DUMP_NONE: there is none. */
static uint32_t row_above(const struct reading *reading, const gs_dump_section *section, uint32_t type) {
    const struct note *note = find_note(reading, section->link, type);
    return note && section->info < note->count ? note->first + section->info : GS_DUMP_NONE;
}

/* ---- rows ---- */

typedef bool add_row(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                     const unsigned char *row);

static bool add_device(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                       const unsigned char *row) {
    gs_dump *dump = reading->dump;
    (void)parent;
    if (dump->sms)
        return true;
    dump->sms = word_at(row, 36, section->row_bytes);
    dump->architecture = 10 * word_at(row, 56, section->row_bytes) + word_at(row, 60, section->row_bytes);
    return true;
}

static bool add_context(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                        const unsigned char *row) {
    (void)reading, (void)section, (void)parent, (void)row;
    return true;
}

static bool add_module(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                       const unsigned char *row) {
    (void)parent;
    return GS_PUSH(&reading->modules, long_at(row, 0, section->row_bytes));
}

static bool add_grid(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                     const unsigned char *row) {
    uint64_t bytes = section->row_bytes;
    gs_dump_grid grid = {.id = long_at(row, 0, bytes),
                         .entry = long_at(row, 24, bytes),
                         .module = long_at(row, 32, bytes),
                         .registers = word_at(row, 68, bytes),
                         .device = parent,
                         .last = -1};
    double blocks = 1;
    for (size_t i = 0; i < 3; i++) {
        grid.grid[i] = word_at(row, 72 + 4 * i, bytes);
        grid.block[i] = word_at(row, 84 + 4 * i, bytes);
        grid.cluster[i] = word_at(row, 104 + 4 * i, bytes);
        blocks *= grid.grid[i];
    }
    grid.blocks = blocks < 1e15 ? (int64_t)blocks : 0; /* 0: damaged */
    return GS_PUSH(&reading->dump->grids, grid);
}

static bool add_sm(struct reading *reading, const gs_dump_section *section, uint32_t parent, const unsigned char *row) {
    (void)parent;
    return GS_PUSH(&reading->sms, word_at(row, 0, section->row_bytes));
}

static uint32_t find_grid(const gs_dump *dump, uint64_t id, uint32_t device) {
    for (size_t i = 0; i < dump->grids.count; i++)
        if (dump->grids.data[i].id == id && dump->grids.data[i].device == device)
            return (uint32_t)i;
    return GS_DUMP_NONE;
}

/* The number of a block in its grid, which has so many: x changes fastest. */
static int64_t number_of_block(const gs_dump_grid *grid, const gs_dump_block *block) {
    return block->index[0] + (int64_t)grid->grid[0] * (block->index[1] + (int64_t)grid->grid[1] * block->index[2]);
}

static bool add_block(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                      const unsigned char *row) {
    gs_dump *dump = reading->dump;
    const struct note *sms = find_note(reading, section->link, SMS);
    gs_dump_block block = {.sm = reading->sms.data[parent], .device = sms->parent};
    for (size_t i = 0; i < 3; i++)
        block.index[i] = word_at(row, 8 + 4 * i, section->row_bytes);
    block.grid = find_grid(dump, long_at(row, 0, section->row_bytes), block.device);
    if (block.grid != GS_DUMP_NONE) {
        gs_dump_grid *grid = &dump->grids.data[block.grid];
        bool is_within = grid->blocks > 0;
        for (size_t i = 0; i < 3; i++)
            is_within = is_within && block.index[i] < grid->grid[i];
        grid->resident++;
        if (is_within)
            grid->last = gs_max(grid->last, number_of_block(grid, &block));
    }
    return GS_PUSH(&dump->blocks, block);
}

static bool add_warp(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                     const unsigned char *row) {
    gs_dump *dump = reading->dump;
    uint64_t bytes = section->row_bytes;
    gs_dump_warp warp = {.block = parent,
                         .number = word_at(row, 8, bytes),
                         .valid = word_at(row, 12, bytes),
                         .active = word_at(row, 16, bytes),
                         .in_syscall = word_at(row, 48, bytes),
                         .lane = GS_DUMP_NONE};
    uint32_t grid = dump->blocks.data[parent].grid;
    if (grid != GS_DUMP_NONE)
        dump->grids.data[grid].shared_bytes =
            (uint32_t)gs_max(dump->grids.data[grid].shared_bytes, word_at(row, 40, bytes));
    return GS_PUSH(&dump->warps, warp);
}

/* Of a warp whose lanes are at several places, those ahead wait for the others: the lowest address counts. */
static bool add_lane(struct reading *reading, const gs_dump_section *section, uint32_t parent,
                     const unsigned char *row) {
    gs_dump_warp *warp = &reading->dump->warps.data[parent];
    const struct note *note = &reading->notes.data[reading->notes.count - 1]; /* of this table */
    uint64_t pc = long_at(row, 0, section->row_bytes), offset = long_at(row, 8, section->row_bytes);
    if (warp->lane == GS_DUMP_NONE || pc < warp->pc) {
        warp->lane = note->count;
        warp->pc = pc;
        warp->start = pc - offset;
    }
    return true;
}

/* ---- sections ---- */

static const struct table {
    uint32_t type, above; /* 0: nothing is above it */
    size_t least_bytes;   /* of a row, in the oldest drivers that are read */
    add_row *add;
} tables[] = {
    {DEVICES, 0, 72, add_device},       {CONTEXTS, DEVICES, 32, add_context},
    {MODULES, CONTEXTS, 8, add_module}, {GRIDS, DEVICES, 104, add_grid},
    {SMS, DEVICES, 8, add_sm},          {BLOCKS, SMS, 24, add_block},
    {WARPS, BLOCKS, 32, add_warp},      {LANES, WARPS, 48, add_lane},
};

/* How many rows a table has that others hang on, before this one. */
static uint32_t rows_before(const struct reading *reading, uint32_t type) {
    const gs_dump *dump = reading->dump;
    size_t rows = type == MODULES  ? reading->modules.count
                  : type == SMS    ? reading->sms.count
                  : type == BLOCKS ? dump->blocks.count
                  : type == WARPS  ? dump->warps.count
                                   : 0;
    return (uint32_t)rows;
}

static gs_code read_table(struct reading *reading, const struct table *table, const gs_dump_section *section,
                          gs_error *error) {
    uint32_t parent = table->above ? row_above(reading, section, table->above) : 0;
    uint64_t rows = section->row_bytes ? section->size / section->row_bytes : 0;
    if (parent == GS_DUMP_NONE)
        return fail_section(reading, section, error, "its parent table does not come before it, or has no such row");
    if (section->size && (section->row_bytes < table->least_bytes || section->row_bytes > GS_DUMP_WINDOW))
        return fail_section(reading, section, error, "its rows have an impossible length");
    if (rows > MOST_ROWS || rows_before(reading, table->type) > MOST_ROWS)
        return fail_section(reading, section, error, "too many rows");
    struct note note = {.section = section->number,
                        .type = table->type,
                        .parent = table->above == DEVICES ? section->info : parent,
                        .first = table->type == LANES ? parent : rows_before(reading, table->type)};
    if (!GS_PUSH(&reading->notes, note))
        return gs_fail_memory(error);
    for (uint64_t i = 0; i < rows; i++) {
        const unsigned char *row = gs_dump_bytes(reading->dump, &reading->window, section->at + i * section->row_bytes,
                                                 (size_t)section->row_bytes);
        if (!row)
            return gs_fail_system(error, "read", reading->dump->path);
        if (!table->add(reading, section, table->above == DEVICES ? section->info : parent, row))
            return gs_fail_memory(error);
        reading->notes.data[reading->notes.count - 1].count++;
    }
    return GS_OK;
}

static gs_code read_registers(struct reading *reading, const gs_dump_section *section, gs_error *error) {
    const struct note *note = find_note(reading, section->link, LANES);
    if (!note)
        return fail_section(reading, section, error, "registers without lanes");
    gs_dump_warp *warp = &reading->dump->warps.data[note->first];
    if (section->info == warp->lane) {
        warp->registers_at = section->at;
        warp->registers = (uint32_t)(gs_min_u64(section->size, MOST_REGISTERS * 4) / 4);
    }
    return GS_OK;
}

static gs_code read_image(struct reading *reading, const gs_dump_section *section, gs_error *error) {
    uint32_t module = row_above(reading, section, MODULES);
    if (module == GS_DUMP_NONE)
        return fail_section(reading, section, error, "code of an unknown module");
    gs_dump_image image = {reading->modules.data[module], section->at, section->size};
    return GS_PUSH(&reading->dump->images, image) ? GS_OK : gs_fail_memory(error);
}

static gs_code read_section(void *state, const gs_dump_section *section, gs_error *error) {
    struct reading *reading = state;
    uint32_t type = section->type - FIRST_TYPE;
    if (type == REGISTERS)
        return read_registers(reading, section, error);
    if (type == IMAGE)
        return read_image(reading, section, error);
    for (size_t i = 0; i < GS_COUNT(tables); i++)
        if (tables[i].type == type)
            return read_table(reading, &tables[i], section, error);
    return GS_OK;
}

gs_code gs_dump_read(gs_dump *dump, const char *path, gs_error *error) {
    gs_code code = gs_dump_open(dump, path, error);
    struct reading *reading = code == GS_OK ? calloc(1, sizeof *reading) : NULL;
    if (code == GS_OK && !reading)
        code = gs_fail_memory(error);
    if (code == GS_OK) {
        reading->dump = dump;
        code = gs_dump_visit_sections(dump, read_section, reading, error);
    }
    if (reading) {
        free(reading->notes.data);
        free(reading->modules.data);
        free(reading->sms.data);
    }
    free(reading);
    return code;
}

void gs_dump_free(gs_dump *dump) {
    if (dump->file >= 0 && dump->path)
        close(dump->file);
    free(dump->path);
    free(dump->grids.data);
    free(dump->blocks.data);
    free(dump->warps.data);
    free(dump->images.data);
    *dump = (gs_dump){.file = -1};
}
