/*
 * sass.h: machine code of NVIDIA GPUs: cubins read, changed and written, and a guard in front of their kernels.
 *
 *   images      a cubin as sections and symbols (sass_image.c)
 *   records     what the driver is told of a kernel: parameters, registers, places in its code (sass_records.c)
 *   the guard   instructions that let a kernel stop at a block boundary and continue later (sass_guard.c)
 *   guards      these instructions for each architecture, as ptxas made them of guard.ptx (sass_guards.c)
 *
 * The format of cubins is ELF; what is special to NVIDIA in it is not documented. This describes what ptxas of
 * CUDA 13.0 writes. What is not known is refused, kernel by kernel.
 */
#ifndef GS_SASS_H
#define GS_SASS_H

#include "base/base.h"

/* ---- images ---- */

typedef struct gs_sass_section {
    const char *name;                   /* points into the image */
    uint32_t name_at, type, link, info; /* as in ELF */
    uint64_t flags, address, align, entry_bytes;
    gs_text bytes; /* empty for sections without bytes in the file */
    uint64_t size; /* of those; else bytes.count counts */
    bool has_bytes;
    uint64_t first_at, first_size; /* in the file that was read */
} gs_sass_section;

typedef struct gs_sass_symbol {
    uint32_t name_at;
    uint8_t info, other;
    uint16_t index; /* as in ELF */
    uint64_t value, size;
    uint32_t section; /* GS_SASS_NONE: of no section */
} gs_sass_symbol;

#define GS_SASS_NONE UINT32_MAX

typedef struct gs_sass_image {
    unsigned char head[64]; /* of the ELF file */
    struct {
        gs_sass_section *data;
        size_t count, capacity;
    } sections;
    struct {
        gs_sass_symbol *data;
        size_t count, capacity;
    } symbols;
    uint32_t symbol_table; /* section */
    gs_text segments;      /* program headers */
    uint64_t segments_at;  /* in the file that was read */
} gs_sass_image;

/* Reads a cubin. The caller frees it, also after a failure. GS_E_SYNTAX: not a cubin, or damaged. */
gs_code gs_sass_read(gs_sass_image *image, const void *bytes, size_t size, gs_error *error);
/* Appends the cubin to a text. */
gs_code gs_sass_write(gs_sass_image *image, gs_text *into, gs_error *error);
void gs_sass_free(gs_sass_image *image);

int gs_sass_architecture(const gs_sass_image *image); /* 90 for sm_90 */
/* The section `prefix` + `name`, or NULL. */
gs_sass_section *gs_sass_find(const gs_sass_image *image, const char *prefix, const char *name);
/* Whether the module has variables of its own: memory that a second copy of it would not share. */
bool gs_sass_has_variables(const gs_sass_image *image);

/* Numbers in sections; little endian. */
uint32_t gs_sass_word(const gs_text *bytes, size_t at);
void gs_sass_put_word(gs_text *bytes, size_t at, uint32_t value);
uint64_t gs_sass_long(const gs_text *bytes, size_t at);
void gs_sass_put_long(gs_text *bytes, size_t at, uint64_t value);

/* ---- records: the list in .nv.info and .nv.info.KERNEL ---- */

/* The codes that matter here. */
enum {
    GS_SASS_PARAMETER_BANK = 0x0a, /* symbol, then base and size of the parameters */
    GS_SASS_PARAMETER = 0x17,      /* 0, number and offset, flags and size */
    GS_SASS_PARAMETERS_SIZE = 0x19,
    GS_SASS_REGISTERS = 0x2f,       /* symbol, number */
    GS_SASS_LARGE_PARAMETER = 0x45, /* the same as GS_SASS_PARAMETER for kernels with many bytes of parameters */
};

typedef struct gs_sass_record {
    uint8_t format, code;
    uint16_t value;     /* formats 1 to 3 */
    uint32_t at, count; /* format 4: bytes in the list's `bytes` */
} gs_sass_record;

typedef struct gs_sass_records {
    gs_sass_record *data;
    size_t count, capacity;
    gs_text bytes;
} gs_sass_records;

gs_code gs_sass_records_read(gs_sass_records *records, const gs_text *bytes, gs_error *error);
bool gs_sass_records_write(const gs_sass_records *records, gs_text *into);
void gs_sass_records_free(gs_sass_records *records);
const gs_sass_record *gs_sass_records_find(const gs_sass_records *records, uint8_t code);
/* Inserts a record with `count` words. False: out of memory. */
bool gs_sass_records_insert(gs_sass_records *records, size_t place, uint8_t code, const uint32_t *words, size_t count);
/* Adds `bytes` to all places in the code that records name. False: there is one whose content is not known. */
bool gs_sass_records_move(gs_sass_records *records, uint32_t bytes);

/* ---- the guard ---- */

/*
 * A kernel with a guard is launched several times in a row, as a chain: where a launch has been stopped, the next one
 * goes on, and after the last block of the kernel all further ones are empty. Each launch has a gs_guard_control in
 * device memory, behind that of the launch before it. In front of the first one is a control that is all 0.
 *
 * With r the number of a block, or of its cluster, from the first one that the launches before have left:
 *
 *   it was done before     the block exits
 *   open, claimed > r      it runs
 *   open, claimed <= r     it looks at the stop word. If that is 0, it claims blocks up to r + 2 * ahead, and runs;
 * else it closes the control closed                 it runs if claimed > r, else it exits
 *
 * Every block whose r is a multiple of `ahead` also looks at the stop word, and claims or closes, so that others need
 * not: the stop word may be in the memory of the host, which is slow.
 *
 * Once closed, `claimed` never changes. So all warps of a block, and all blocks of a cluster, decide alike, without
 * waiting for each other. No block is left out below one that runs. When a launch has ended and its control is open,
 * all blocks are done.
 */
typedef struct gs_guard_control {
    uint32_t word; /* GS_GUARD_CLOSED, and how many are claimed: at first, those that start at once; at least 1 */
    uint32_t base; /* written by block 0: how many blocks the launches before have done */
} gs_guard_control;

#define GS_GUARD_CLOSED 0x80000000u

/* What a kernel with a guard gets as its last parameter. */
typedef struct gs_guard_parameter {
    uint64_t control; /* device address of the control of the launch before; that of this launch follows it */
    uint64_t stop;    /* device address of the stop word: not 0: no further blocks are to begin */
    uint32_t mask;    /* ahead - 1; `ahead` is a power of two */
    uint32_t unused;
} gs_guard_parameter;

enum { GS_GUARD_MOST_BLOCKS = 1 << 30 };

/* A kernel of an image, after gs_sass_guard. */
typedef struct gs_guarded {
    const char *kernel;  /* points into the image */
    const char *refused; /* why it is as it was, or NULL */
    uint32_t parameter;  /* the number of the last parameter, a gs_guard_parameter, */
    uint32_t offset;     /* and where it is */
    uint32_t registers;  /* of a thread, with the guard */
} gs_guarded;

typedef struct gs_guarded_list {
    gs_guarded *data;
    size_t count, capacity;
} gs_guarded_list;

/* Puts the guard in front of all kernels of an image that can have it. They get a parameter more, a
   gs_guard_parameter. GS_E_REFUSED: there is no guard for this architecture. The caller frees list->data. */
gs_code gs_sass_guard(gs_sass_image *image, gs_guarded_list *list, gs_error *error);

enum { GS_GUARD_SITES = 8 };

/* The guard of an architecture. */
typedef struct gs_guard {
    int architecture;
    uint32_t registers;
    uint32_t parameter_base; /* where the parameters of a kernel begin in its constants */
    uint32_t site_count;
    struct {
        uint8_t instruction, shift;
    } sites[GS_GUARD_SITES]; /* where the offset of the guard's parameter is: in which instruction, from which bit on */
    uint32_t count;          /* instructions */
    const uint64_t *code;    /* two numbers for each */
} gs_guard;

extern const gs_guard gs_guards[];
extern const size_t gs_guard_count;
const gs_guard *gs_guard_find(int architecture);

#endif
