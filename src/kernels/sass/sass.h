/*
 * sass.h: machine code of NVIDIA GPUs: cubins read, changed and written, and a guard in front of their kernels.
 *
 *   fatbins     entries for several architectures, and the cubin of them that has a kernel (sass_fatbin.c, sass_lz4.c)
 *   images      a cubin as sections and symbols (sass_image.c)
 *   records     what the driver is told of a kernel: parameters, registers, places in its code (sass_records.c)
 *   resources   what a block of a kernel needs: registers, shared memory, threads (sass_resources.c)
 *   the guard   instructions that let a kernel stop at a block boundary and continue later (sass_guard.c)
 *   guards      these instructions for each architecture, as ptxas made them of guard.ptx (sass_guards.c)
 *   variables   a second copy of a module that uses the variables of the first (sass_variables.c)
 *   waits       what an instruction waits for: a barrier, or memory that a loop reads (sass_waits.c)
 *   lines       the source line of an address (sass_lines.c)
 *
 * The format of cubins is ELF; what is special to NVIDIA in it is not documented. This describes what ptxas of
 * CUDA 13.0 writes. What is not known is refused, kernel by kernel.
 *
 * A library that is loaded into other programs uses this room, too: it needs the C library alone, and text.c and
 * error.c of base.
 */
#ifndef GS_SASS_H
#define GS_SASS_H

#include "base/base.h"

/* ---- fatbins ---- */

enum { GS_FATBIN_PTX = 1, GS_FATBIN_CUBIN = 2 };

/* Offsets within it count from its first byte. */
typedef struct gs_fatbin_entry {
    size_t at;   /* in the bytes of the fatbin */
    size_t head; /* bytes of its header */
    size_t size; /* bytes after the header */
    uint32_t kind, architecture, packed_size, options_at, name_at, name_size;
    uint64_t flags, expanded_size;
} gs_fatbin_entry;

/* Expands a frame of Zstandard: ZSTD_decompress. Returns how many bytes were written. */
typedef size_t gs_expand(void *into, size_t into_size, const void *from, size_t size);

/* The most bytes of a cubin. */
#define GS_CUBIN_MOST ((size_t)512 << 20)

/* Whether a fatbin begins here. If `whole` is not NULL, the fatbin must end within `size`, and `*whole` gets its
   length. */
bool gs_fatbin_begins(const char *bytes, size_t size, size_t *whole);
size_t gs_fatbin_first(const char *bytes); /* where its first entry is */
/* Reads the header of the entry at `at`. False: it does not end before `end`. */
bool gs_fatbin_entry_at(const char *bytes, size_t at, size_t end, gs_fatbin_entry *entry);
/* The content of an entry, with a NUL after it. The caller frees it. GS_E_FORMAT: it is damaged, or has more than
   `most` bytes. GS_E_REFUSED: it needs `zstd`, which is NULL. */
gs_code gs_fatbin_expand(const char *bytes, const gs_fatbin_entry *entry, size_t most, gs_expand *zstd, char **content,
                         size_t *size, gs_error *error);
/* Expands a block of LZ4. False: it is damaged, or does not have exactly `into_size` bytes. */
bool gs_fatbin_lz4(const unsigned char *from, size_t size, unsigned char *into, size_t into_size);

/* Appends the cubin with a kernel that the driver takes on a GPU with this architecture (90), of a fatbin or of a
   cubin. `zstd` may be NULL. GS_E_REFUSED: there is none, or it cannot be told what the driver takes. */
gs_code gs_fatbin_find_cubin(const void *bytes, size_t size, int architecture, const char *kernel, gs_expand *zstd,
                             gs_text *into, gs_error *error);

/* Images as the driver gets them: an address. What it points to is trusted, as the driver does. */
const void *gs_fatbin_unwrap(const void *image); /* the fatbin in what the CUDA runtime passes on; else the image */
size_t gs_fatbin_bytes(const void *image);       /* of a fatbin or a cubin; 0: it is neither */

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
const char *gs_sass_symbol_name(const gs_sass_image *image, const gs_sass_symbol *symbol);

enum {
    GS_SASS_IN_MEMORY = 2, /* flag of a section */
    GS_SASS_ENTRY = 0x10,  /* in `other` of a symbol: a kernel */
    GS_SASS_OBJECT = 1,    /* types of symbols */
    GS_SASS_FUNCTION = 2,
    GS_SASS_SECTION = 3,
    GS_SASS_FILE = 4,
};

int gs_sass_type(const gs_sass_symbol *symbol);
bool gs_sass_has_one_table(const gs_sass_image *image); /* of symbols */

/* Relocations: sections of `step` bytes for each, with the address, the type and the symbol, and perhaps an addend,
   which otherwise is at the address. They are of the section `info`, which there is. */
bool gs_sass_has_relocations(const gs_sass_section *section);
bool gs_sass_has_addends(const gs_sass_section *section);
size_t gs_sass_relocation_bytes(const gs_sass_section *section);
/* The symbol of the relocation at `at`, or NULL. */
const gs_sass_symbol *gs_sass_relocation_symbol(const gs_sass_image *image, const gs_sass_section *section, size_t at);

/* Numbers in sections; little endian. */
uint32_t gs_sass_word(const gs_text *bytes, size_t at);
void gs_sass_put_word(gs_text *bytes, size_t at, uint32_t value);
uint64_t gs_sass_long(const gs_text *bytes, size_t at);
void gs_sass_put_long(gs_text *bytes, size_t at, uint64_t value);

/* ---- records: the list in .nv.info and .nv.info.KERNEL ---- */

/* The codes that matter here. */
enum {
    GS_SASS_BLOCK_Z = 0x04,        /* before sm_90: it reads %ctaid.z */
    GS_SASS_PARAMETER_BANK = 0x0a, /* symbol, then base and size of the parameters */
    GS_SASS_PARAMETER = 0x17,      /* 0, number and offset, flags and size */
    GS_SASS_PARAMETERS_SIZE = 0x19,
    GS_SASS_EXITS = 0x1c,           /* places of instructions, */
    GS_SASS_STACK = 0x1e,           /* bytes, */
    GS_SASS_SHUFFLES = 0x28,        /* places, */
    GS_SASS_SHUFFLE_MASKS = 0x29,   /* and the register with the lanes of each, */
    GS_SASS_REGISTERS = 0x2f,       /* symbol, number */
    GS_SASS_WARP_WIDE = 0x31,       /* places */
    GS_SASS_CLUSTER = 0x3d,         /* three words: .reqnctapercluster */
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
/* Three numbers that a record has, of a block or a cluster; 0: there is none. */
void gs_sass_records_three(const gs_sass_records *records, uint8_t code, uint32_t numbers[3]);
/* Inserts a record with `count` words. False: out of memory. */
bool gs_sass_records_insert(gs_sass_records *records, size_t place, uint8_t code, const uint32_t *words, size_t count);
/* Puts a word in front of those of a record, which may be new. False: out of memory, or there is no room. */
bool gs_sass_records_prepend(gs_sass_records *records, size_t place, uint8_t code, uint32_t word);
/* Adds `bytes` to all places in the code that records name. False: there is one whose content is not known. */
bool gs_sass_records_move(gs_sass_records *records, uint32_t bytes);

/* ---- resources ---- */

typedef struct gs_sass_resources {
    uint32_t registers;    /* of a thread */
    uint32_t threads;      /* the most of a block, as the kernel declares them; 0: it does not */
    uint64_t shared_bytes; /* static, without the share of the runtime */
} gs_sass_resources;

/* GS_E_USAGE: the kernel that has these records forbids such blocks (.maxntid, .reqntid). */
gs_code gs_sass_check_block(const gs_sass_records *own, const char *kernel, const uint32_t block[3], gs_error *error);

bool gs_sass_is_kernel(const gs_sass_symbol *symbol);
/* Of the kernel with this number in image->symbols. */
gs_code gs_sass_resources_of(const gs_sass_image *image, uint32_t symbol, gs_sass_resources *resources,
                             gs_error *error);

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
 *   open, claimed <= r     it claims blocks up to the end of the next group of `ahead` blocks, and runs
 *   closed                 it runs if claimed > r, else it exits
 *
 * The first block of each group also claims, so that others need not. Only the one warp whose claim is the first of its
 * kind looks at the stop word, once for each group; if that is not 0, it closes the control. The stop word may be in
 * the memory of the host, where an H200 reads one address about a million times a second, however many warps ask.
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
    uint32_t cluster;    /* how many blocks a cluster has (.reqnctapercluster); 0: the launch says it */
} gs_guarded;

typedef struct gs_guarded_list {
    gs_guarded *data;
    size_t count, capacity;
} gs_guarded_list;

/* Puts the guard in front of all kernels of an image that can have it. They get a parameter more, a
   gs_guard_parameter. If there is one, code that the image has for other GPUs of its family is left out.
   GS_E_REFUSED: there is no guard for this architecture. The caller frees list->data. */
gs_code gs_sass_guard(gs_sass_image *image, gs_guarded_list *list, gs_error *error);

enum { GS_GUARD_SITES = 8, GS_GUARD_NOTES = 8 };

/* The guard of an architecture. */
typedef struct gs_guard {
    int architecture;
    uint32_t registers;
    uint32_t parameter_base; /* where the parameters of a kernel begin in its constants */
    uint32_t site_count;
    struct {
        uint8_t instruction, shift;
    } sites[GS_GUARD_SITES]; /* where the offset of the guard's parameter is: in which instruction, from which bit on */
    uint32_t note_count;
    struct {
        uint8_t format, code; /* as in a gs_sass_record */
        uint32_t word;
    } notes[GS_GUARD_NOTES]; /* what records say about the guard */
    uint32_t count;          /* instructions */
    const uint64_t *code;    /* two numbers for each */
} gs_guard;

extern const gs_guard gs_guards[];
extern const size_t gs_guard_count;
const gs_guard *gs_guard_find(int architecture);

/* ---- variables ---- */

/* Finds a variable of the first copy of a module, with its bytes. False: there is none. */
typedef bool gs_sass_address(void *context, const char *name, uint64_t size, uint64_t *address);

/* The most bytes of variables, for which a copy takes memory that it does not use. */
enum { GS_SASS_MOST_VARIABLES = 16 << 20 };

/* Lets a copy of a module use the variables of the first one, which must be loaded: their addresses become numbers.
   Strings and tables of the compiler, which no code writes, stay its own where `find` does not find them.
   Only this kernel of the copy is to be launched; NULL: any. GS_E_REFUSED: a variable cannot be shared; the error is
   "reason", or "reason: name". Then the image must not be used. */
gs_code gs_sass_share_variables(gs_sass_image *image, const char *kernel, gs_sass_address *find, void *context,
                                gs_error *error);

/* Constants that a program can write (`__constant__`): code reads them by their place in a bank, so a copy of the
   module has its own. What the program wrote must be copied before each launch. */
typedef struct gs_sass_constants {
    const char *name;    /* one of them, which is at `at` in the bank; NULL: there are none. It points into the image */
    uint64_t at;         /* all are in the bytes from `begin` to `end` */
    uint64_t begin, end; /* of the bank */
    uint64_t address;    /* of the first copy's bank */
} gs_sass_constants;

/* GS_E_REFUSED: one of them is not found, or their addresses do not belong to one bank. */
gs_code gs_sass_find_constants(const gs_sass_image *image, gs_sass_address *find, void *context,
                               gs_sass_constants *constants, gs_error *error);

/* ---- waits ---- */

typedef enum gs_sass_wait_kind {
    GS_SASS_RUNS,          /* nothing that is known to wait */
    GS_SASS_AT_BARRIER,    /* of the block, or of some of its warps */
    GS_SASS_AT_CLUSTER,    /* a barrier of the cluster */
    GS_SASS_AT_DEPENDENCY, /* for the kernel before it (programmatic launch) */
    GS_SASS_AT_MBARRIER,   /* a barrier in shared memory */
    GS_SASS_POLLS,         /* a loop that reads memory until it has changed, and does nothing else */
    GS_SASS_ENDLESS        /* a loop that nothing leads out of */
} gs_sass_wait_kind;

typedef struct gs_sass_wait {
    gs_sass_wait_kind kind;
    int barrier;        /* its number; -1: not known */
    size_t read;        /* the offset of the instruction that waits or reads */
    size_t first, last; /* offsets of the loop's first and last instruction */
    bool is_global;     /* it reads global memory: the address is in `base` and the register after it, */
    bool calls;         /* or what it calls decides */
    uint8_t base;       /* 255: not known */
    int32_t offset;     /* from there */
} gs_sass_wait;

/* What a warp waits for whose next instruction is at `at` of this code of a function. */
gs_sass_wait gs_sass_wait_at(const void *code, size_t size, int architecture, size_t at);
/* What the code of a kernel can do: a set. Code that has none of the others from `AT_BARRIERS` on cannot wait. */
enum {
    GS_SASS_CODE_KNOWN = 1,
    GS_SASS_CODE_LOOPS = 2,
    GS_SASS_CODE_AT_BARRIERS = 4,   /* of the block, of the cluster, or for the kernel before it */
    GS_SASS_CODE_CALLS = 8,         /* functions elsewhere, such as malloc and printf */
    GS_SASS_CODE_READS = 16,        /* in a loop what others may write; it may also do work there */
    GS_SASS_CODE_RETRIES = 32,      /* a loop in which nothing but a call can decide about the end */
    GS_SASS_CODE_POLLS_SHARED = 64, /* waits for shared memory, or for a barrier there */
    GS_SASS_CODE_WAITS = 128,       /* a loop that reads global memory until it has changed, and does nothing else. */
    /* Who may end such a wait: */
    GS_SASS_CODE_WRITES_IT = 256, /* this kernel: it writes the same word, as at a barrier of the grid; */
    GS_SASS_CODE_TELLS = 512,     /* perhaps this kernel: it writes memory outside the loop */
    GS_SASS_CODE_ENDLESS = 1024   /* a loop that nothing leads out of */
};
/* `*at` is where it waits, if it does. */
unsigned gs_sass_code_in(const void *code, size_t size, int architecture, size_t *at);
/* Of a kernel of a fatbin or a cubin; 0: it is not there. */
unsigned gs_sass_code_of(const void *bytes, size_t size, int architecture, const char *kernel, gs_expand *zstd,
                         size_t *at);

/* ---- lines ---- */

/* The source line of an address of a loaded module. False: not known. The caller frees `*file`, which may be NULL. */
bool gs_sass_line(const gs_sass_image *image, uint64_t address, char **file, uint32_t *line);

/* The file and the line of an instruction; line 0: not known. */
typedef struct gs_sass_line_of {
    uint32_t file, line;
} gs_sass_line_of;

/* The lines of the first `count` instructions of a section of code, of the source or, where there are none, of the
   PTX. `*file` gets the name of the file of the first one, or NULL; the caller frees it. False: there are none. */
bool gs_sass_lines(const gs_sass_image *image, const gs_sass_section *code, gs_sass_line_of *of, size_t count,
                   char **file);

#endif
