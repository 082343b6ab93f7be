/*
 * ptx_facts.h: the properties of a kernel that matter for its forms. Shared by the files that make forms of PTX.
 */
#ifndef GS_PTX_FACTS_H
#define GS_PTX_FACTS_H

#include "ptx_loop.h"

/* A kernel under examination. */
typedef struct gs_ptx_kernel {
    const gs_ptx_module *module;
    uint32_t function;
    gs_ptx_flow flow;
    gs_ptx_uniform uniform;
    uint32_t *writers;      /* statements that write a register, sorted by register */
    uint32_t *writer_first; /* of each register: its first place in `writers`, and one more */
    bool has_whole_rows;    /* what `uniform` assumes */
    bool has_shared;        /* uses shared memory, itself or in a function that it calls */
    bool has_warp_steps;    /* shuffles, votes and barriers of warps that not all lanes reach: see ptx_lanes.c */
    bool acquires;          /* it or a function that it calls has an acquire of global memory, or a fence */
    bool *is_called;        /* functions that it calls, directly or not; */
    bool *is_copied;        /* those that the form calls as a copy: see ptx_calls.c */
    gs_block_loop loop;
} gs_ptx_kernel;

/* Reads the kernel and decides what its loop needs. GS_E_REFUSED: it cannot be reshaped. The caller frees it, also
   after a failure. */
gs_code gs_ptx_kernel_examine(gs_ptx_kernel *kernel, const gs_ptx_options *options, gs_error *error);
void gs_ptx_kernel_free(gs_ptx_kernel *kernel);

/* Fails with GS_E_REFUSED at a statement. Arguments: the kernel, the statement, the error, the format and its
   arguments. */
#define gs_ptx_refuse(kernel, statement, error, ...)                                                                   \
    gs_ptx_fail((kernel)->module, (statement)->first, error, GS_E_REFUSED, __VA_ARGS__)

/* Refuse a statement, of the kernel or of a function that it calls, that no form supports; and names of reshaped
   kernels (ptx_refused.c). */
gs_code gs_ptx_check_statement(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_error *error);
gs_code gs_ptx_check_names(const gs_ptx_kernel *kernel, uint32_t function, gs_error *error);
/* Refuses a module in which a name that the form adds is taken. */
gs_code gs_ptx_check_taken(const gs_ptx_kernel *kernel, gs_error *error);

/* The scope of threads that either all execute a statement of the kernel or all skip it. */
gs_ptx_scope gs_ptx_scope_at(const gs_ptx_kernel *kernel, uint32_t statement);

static inline const gs_ptx_statement *gs_ptx_statement_at(const gs_ptx_kernel *kernel, uint32_t number) {
    return &kernel->module->statements.data[number];
}

static inline uint32_t gs_ptx_number_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return (uint32_t)(statement - kernel->module->statements.data);
}

/* An operand of a statement; NULL: it has none of this number. */
static inline const gs_ptx_operand *gs_ptx_operand_at(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                                                      uint32_t index) {
    return index < statement->count ? &kernel->module->operands.data[statement->operands + index] : NULL;
}

/* The memory of the variable that an operand names. Whether two variables are the same memory is asked here alone. */
typedef struct gs_ptx_memory {
    uint32_t variable; /* the first of those that are the same memory; GS_PTX_NONE: the operand names no variable */
    bool is_known;     /* and the one that is named begins where that does */
} gs_ptx_memory;
static inline gs_ptx_memory gs_ptx_memory_of(const gs_ptx_module *module, const gs_ptx_operand *operand) {
    if (!operand || operand->kind != GS_PTX_SYMBOL || operand->value == GS_PTX_NONE)
        return (gs_ptx_memory){GS_PTX_NONE, false};
    const gs_ptx_variable *named = &module->variables.data[operand->value];
    return (gs_ptx_memory){named->memory, !named->is_elsewhere};
}

/* What a statement reads and writes, and how much of it (ptx_access.c). The address; NULL: not a plain one. */
const gs_ptx_operand *gs_ptx_address_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, bool written);
enum { GS_PTX_MANY_BYTES = 1 << 20 }; /* of bulk copies and matrices, whose bytes are not known */
/* The bytes that a statement accesses, and those of an element of it. */
int64_t gs_ptx_bytes_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);
int64_t gs_ptx_element_bytes(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);
/* Whether a conversion of whole numbers, a load, a store or an atomic operation reads and writes registers whole, of 32
   bits or more. */
bool gs_ptx_has_whole_registers(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);

/* The barriers of a kernel and of the functions that it calls (ptx_barriers.c). */
typedef struct gs_ptx_barriers {
    uint32_t used;                    /* a bit for each barrier with a count, */
    uint32_t open;                    /* and for each without one */
    uint32_t arrivals;                /* and for each at which threads arrive without waiting */
    uint32_t counts[GS_PTX_BARRIERS]; /* of each barrier: the count of all that use it; 0: none, GS_PTX_NONE: several,
                                         or one that is computed, or that parts of warps reach */
    bool has_votes;                   /* bar.red of all threads */
    const gs_ptx_statement *arriving; /* one at which threads arrive without waiting */
    const gs_ptx_statement *computed; /* one without a count whose number is computed */
    const gs_ptx_statement *apart;    /* one that not all threads reach */
    const gs_ptx_statement *called;   /* the call of a function with a barrier */
} gs_ptx_barriers;
gs_code gs_ptx_look_at_barrier(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_ptx_scope scope,
                               gs_ptx_barriers *barriers, gs_error *error);
/* Decides between a plain barrier after the body, and exited threads that wait in the barriers. */
gs_code gs_ptx_decide_barriers(gs_ptx_kernel *kernel, const gs_ptx_barriers *barriers, gs_error *error);

/* Between which numbers an operand of a statement of the kernel is, both included (ptx_ranges.c). False: unknown. */
bool gs_ptx_range(const gs_ptx_kernel *kernel, uint32_t statement, const gs_ptx_operand *operand, uint64_t *low,
                  uint64_t *high);

/* Decides where the shared memory of the loop lies (ptx_shared.c), after the called functions are known. */
gs_code gs_ptx_place_loop(gs_ptx_kernel *kernel, gs_error *error);
/* Whether an operand is the size of the dynamic shared memory, to which a form may add. */
static inline bool gs_ptx_reads_shared_size(const gs_ptx_operand *operand) {
    return operand->kind == GS_PTX_SPECIAL && operand->value == GS_PTX_DYNAMIC_SMEM_SIZE;
}

/* Examines the functions that the kernel calls (ptx_calls.c). */
gs_code gs_ptx_check_calls(gs_ptx_kernel *kernel, gs_ptx_barriers *barriers, gs_error *error);

/* Makes a conversion of a mov.u16 from a special register, which gets the lower half of it (ptx_copies.c). */
void gs_ptx_widen_move(const gs_ptx_module *module, const gs_ptx_statement *statement, gs_edits *edits);

/* Makes a call of a copied function call the copy (ptx_copies.c). */
void gs_ptx_replace_call(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits);
/* Appends the copies, and the variable from which they read the number of the block. */
gs_code gs_ptx_put_copies(const gs_ptx_kernel *kernel, gs_text *into, gs_error *error);

/* Refuses a loop that waits for memory that other blocks write (ptx_waits.c). `in_function`: `kernel` is a function
   called by a kernel. */
gs_code gs_ptx_check_waits(gs_ptx_kernel *kernel, bool in_function, gs_error *error);

/* Whether a statement is a warp operation with a mask: shfl.sync, vote.sync, bar.warp.sync, ... */
static inline bool gs_ptx_is_warp_step(const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION &&
           (statement->opcode == GS_PTX_SHUFFLE || statement->opcode == GS_PTX_BARRIER_WARP);
}

/* The sign of what a statement adds to a word; 0: it does something else, or that is not known (ptx_progress.c). */
int gs_ptx_sign_added(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);

/* Sets behind[b] for each block around or before which a lane may wait for another lane in a loop (ptx_polls.c). False:
   out of memory. */
bool gs_ptx_find_polls(const gs_ptx_kernel *kernel, bool *behind);

/* Checks that masks can be made for all warp operations that not all lanes reach, and adds the edits for it (edits
   NULL: only checks). `masks`: how many there are. */
gs_code gs_ptx_add_lanes(const gs_ptx_kernel *kernel, gs_edits *edits, uint32_t *masks, gs_error *error);

#endif
