/*
 * dump.h: core dumps of a GPU, as the driver writes them: which blocks are where, and what their warps do.
 *
 *   dump_file.c     the ELF file: its sections one after the other, through a small window
 *   dump_tables.c   the tables in the sections: grids, SMs, blocks, warps, lanes
 *   dump_places.c   where a warp is: function, source line, and what it waits for
 *
 * A dump is an ELF file with a section for each table. Tables form a tree: devices have contexts, grids and SMs; an SM
 * has blocks, a block has warps, a warp has lanes, and a lane has registers. `link` of a section is the section of the
 * table above it, `info` the row there; a table stands after the one above it. A full GPU has 270,000 lanes with three
 * sections each. So only one lane of each warp is kept: where it is, and where its registers
 * are. New drivers append fields to rows, so the length of a row comes from its section.
 */
#ifndef GS_DUMP_H
#define GS_DUMP_H

#include "base/base.h"
#include "kernels/sass/sass.h"

#define GS_DUMP_NONE UINT32_MAX

typedef struct gs_dump_grid {
    uint64_t id, module, entry; /* handle of its module, address of its code */
    uint32_t device, registers; /* a thread */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes; /* of a block, with what the driver reserves; 0: not known */
    int64_t blocks, resident;
    int64_t last; /* the resident block with the highest number; -1: none */
} gs_dump_grid;

typedef struct gs_dump_block {
    uint32_t grid; /* its place in `grids`; GS_DUMP_NONE: the dump does not list it */
    uint32_t sm, device;
    uint32_t index[3];
} gs_dump_block;

typedef struct gs_dump_warp {
    uint64_t pc, start;    /* of one lane: the address, and where the function begins */
    uint64_t registers_at; /* of that lane, in the file; 0: none */
    uint32_t registers, block, number, valid, active;
    uint32_t lane;       /* the row of that lane */
    uint32_t in_syscall; /* lanes that are in a function of the driver, such as malloc */
} gs_dump_warp;

/* The code of a module, with the addresses that it has on the GPU. */
typedef struct gs_dump_image {
    uint64_t module, at, size; /* its handle, its place in the file */
} gs_dump_image;

typedef struct gs_dump {
    char *path, gpu[64];
    int file;
    uint64_t size;
    uint32_t sms, architecture; /* of the first device: 90 for sm_90 */
    struct {
        gs_dump_grid *data;
        size_t count, capacity;
    } grids;
    struct {
        gs_dump_block *data;
        size_t count, capacity;
    } blocks;
    struct {
        gs_dump_warp *data;
        size_t count, capacity;
    } warps;
    struct {
        gs_dump_image *data;
        size_t count, capacity;
    } images;
} gs_dump;

/* Reads a dump. The caller frees it, also after an error. GS_E_FORMAT: it is not a dump, or damaged. */
gs_code gs_dump_read(gs_dump *dump, const char *path, gs_error *error);
void gs_dump_free(gs_dump *dump);

/* ---- dump_file.c ---- */

enum { GS_DUMP_WINDOW = 1 << 16 };

/* A part of the file in memory. */
typedef struct gs_dump_window {
    uint64_t at;
    size_t count;
    unsigned char bytes[GS_DUMP_WINDOW];
} gs_dump_window;

typedef struct gs_dump_section {
    uint32_t number, type, link, info;
    uint64_t at, size, row_bytes;
} gs_dump_section;

typedef gs_code gs_dump_visit(void *state, const gs_dump_section *section, gs_error *error);

gs_code gs_dump_open(gs_dump *dump, const char *path, gs_error *error);
/* Visits all sections in order, each within the file. */
gs_code gs_dump_visit_sections(gs_dump *dump, gs_dump_visit *visit, void *state, gs_error *error);
/* `count` bytes of the file, at most GS_DUMP_WINDOW; NULL: they are not in the file, or cannot be read. */
const unsigned char *gs_dump_bytes(const gs_dump *dump, gs_dump_window *window, uint64_t at, size_t count);

/* ---- dump_places.c ---- */

/* A place in the code where warps of a grid are. */
typedef struct gs_dump_place {
    uint32_t grid;
    uint64_t pc;    /* of a poll: of the read, for all warps in the loop */
    char *function; /* as in its symbol; NULL: not known */
    uint64_t offset;
    char *source; /* NULL: no line information */
    uint32_t line;
    gs_sass_wait wait;
    uint64_t address; /* of a wait for memory: what the first warp reads; 0: not known */
    char *variable;   /* that is there, or NULL */
    bool in_syscall;
    size_t warps, blocks;
    uint32_t last_block; /* that was counted */
} gs_dump_place;

typedef struct gs_dump_places {
    gs_dump_place *data; /* by grid, then by address */
    size_t count, capacity;
    struct {
        char **data; /* the symbol of each grid's kernel, or NULL */
        size_t count, capacity;
    } kernels;
} gs_dump_places;

/* Where the warps of all grids are. Code that cannot be read leaves places without names; that is no error. */
gs_code gs_dump_find_places(const gs_dump *dump, gs_dump_places *places, gs_error *error);
void gs_dump_places_free(gs_dump_places *places);

#endif
