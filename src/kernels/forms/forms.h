/*
 * forms.h: the forms of a kernel, made from its PTX.
 *
 *   forms      their names (form_names.c)
 *   PTX        persistent and confined forms (ptx_form.c): whether this is safe (ptx_examine.c), the loop (ptx_loop.c)
 *   files      the PTX of a file of any kind (ptx_file.c)
 *   registers  what a kernel costs under limits of registers (registers.c)
 */
#ifndef GS_FORMS_H
#define GS_FORMS_H

#include "kernels/cuda/cuda.h"
#include "kernels/ptx/ptx.h"

/* ---- forms ---- */

const char *gs_form_name(enum gs_form form);
bool gs_form_find(const char *name, enum gs_form *form); /* not "original" */

/* ---- forms of PTX (ptx_form.c) ---- */

typedef struct gs_ptx_options {
    enum gs_form form;      /* GS_FORM_PERSISTENT or GS_FORM_CONFINED */
    uint32_t task_blocks;   /* the most blocks in a task if the launch does not set it; 0: 10 */
    uint32_t max_registers; /* of a thread of the form; 0: the assembler decides */
    bool counts_blocks;     /* the form counts how often each block ran */
    bool looks_back; /* the caller asserts that blocks wait only for lower-numbered ones: such waits are not refused */
} gs_ptx_options;

/* How a form was made. */
typedef struct gs_ptx_form {
    bool needs_whole_rows; /* it may be launched only with blocks that are a multiple of 32 wide */
    bool needs_one_row;    /* it may be launched only with grids of one row, */
    bool needs_one_layer;  /* or of one layer: z is 1; */
    uint32_t most_blocks;  /* and only in grids of at most this many blocks */
    bool needs_queue;      /* blocks wait for lower ones: even the first block of a worker block comes from the queue */
    bool takes_single;     /* its tasks have one block: see put_taking in ptx_loop.c */
    uint32_t needs_shared; /* bytes of dynamic shared memory that a launch must add; 0 or GS_JOB_SHARED */
    bool exited_threads_wait;   /* exited threads take part in the barriers of the others */
    bool reduces_masks;         /* warp operations leave out lanes that have returned */
    bool warps_are_independent; /* no barrier between the blocks of a task */
} gs_ptx_form;

/* Why a form may not be launched with this grid and block, though the original may; NULL: it may. */
const char *gs_ptx_form_misfit(const gs_ptx_form *form, const uint32_t grid[3], const uint32_t block[3]);

/* Appends the form of a kernel: an entry named by gs_ptx_form_symbol, to be put after the text of the module. Its last
   parameter is a gs_persistent_parameter or a gs_confined_parameter. GS_E_REFUSED: reshaping is not safe; the error has
   the place and the reason. `into` may be NULL, to check only, and so may `form`. */
gs_code gs_ptx_reshape(const gs_ptx_module *module, uint32_t function, const gs_ptx_options *options, gs_text *into,
                       gs_ptx_form *form, gs_error *error);
/* The name of a form: that of the kernel followed by "__persistent" or "__confined". Returns `into`. */
const char *gs_ptx_form_symbol(const gs_ptx_module *module, uint32_t function, enum gs_form form, char *into,
                               size_t size);

/* ---- files with kernels, as PTX (ptx_file.c) ---- */

typedef struct gs_ptx_file_request {
    const char *path;           /* a CUDA source, PTX, or a file that contains PTX */
    const char *kernel;         /* of a source: the required instance, "reduce<256>"; or NULL */
    const char *const *options; /* of a source, for the compiler */
    size_t option_count;
    const char *compiler; /* see gs_ptx_source_request */
    int architecture;     /* 90: compute capability 9.0 */
    bool takes_newer;     /* accepts PTX for newer GPUs, if there is no other */
} gs_ptx_file_request;

/* The modules of a file. Of a module for several architectures, the best one. */
typedef struct gs_ptx_file {
    struct gs_ptx_file_module {
        gs_ptx_module module;
        char *name;
    } * data;
    size_t count, capacity;
    gs_ptx_texts texts;
    gs_ptx_compiled compiled;
    char symbol[GS_PTX_SYMBOL_MOST]; /* of the requested instance, or "" */
} gs_ptx_file;

gs_code gs_ptx_file_open(gs_ptx_file *file, const gs_ptx_file_request *request, gs_error *error);
void gs_ptx_file_free(gs_ptx_file *file);

typedef struct gs_ptx_place {
    const gs_ptx_module *module;
    uint32_t function;
} gs_ptx_place;

/* Finds a kernel by its symbol, or by its name as people write it: "softmax", "reduce<256>". */
gs_code gs_ptx_file_find(const gs_ptx_file *file, const char *kernel, gs_ptx_place *place, gs_error *error);

typedef struct gs_ptx_list_counts {
    size_t kernels, accepted[GS_FORMS];
} gs_ptx_list_counts;

/* Appends gridsmith.reshape/2: each kernel, and whether it has each form. `options->form` is ignored. */
gs_code gs_ptx_file_list(const gs_ptx_file *file, const char *path, const gs_ptx_options *options, gs_text *into,
                         gs_ptx_list_counts *counts, gs_error *error);

/* ---- registers (registers.c) ---- */

/* The register limit with which a reshaped kernel should be compiled, given the register counts of the original and of
   the reshaped kernel without a limit. It is the count of the original, but at least 32, in two cases: if the reshaped
   kernel takes more, because fewer blocks would fit on an SM; and if the original takes more than 64, because the
   compiler may otherwise aim at more blocks and keep fewer loads in flight. 0: no limit. */
uint32_t gs_register_limit(int32_t original, int32_t reshaped);

/* The cost of a kernel under register limits, from none downwards. */
typedef struct gs_register_variant {
    uint32_t limit; /* 0: none */
    gs_cost cost;
} gs_register_variant;

typedef struct gs_register_variants {
    gs_register_variant list[16];
    size_t count;
} gs_register_variants;

/* `architecture` is e.g. 90 for compute capability 9.0. GS_E_NO_GPU: no assembler was found. */
gs_code gs_registers_find(const gs_ptx_place *place, int architecture, gs_register_variants *found, gs_error *error);

#endif
