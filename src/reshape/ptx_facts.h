/*
 * ptx_facts.h: what a kernel does that matters for its forms. Shared by the files that make forms of PTX.
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
    gs_block_loop loop;
} gs_ptx_kernel;

/* Reads the kernel and decides what its loop needs. GS_E_REFUSED: it cannot be reshaped. The caller frees it, also
   after a failure. */
gs_code gs_ptx_kernel_examine(gs_ptx_kernel *kernel, const gs_ptx_options *options, gs_error *error);
void gs_ptx_kernel_free(gs_ptx_kernel *kernel);

/* An error about a statement: the kernel, the statement, the error, the format and its arguments. */
#define gs_ptx_refuse(kernel, statement, error, ...)                                                                   \
    gs_ptx_fail((kernel)->module, (statement)->first, error, GS_E_REFUSED, __VA_ARGS__)

/* Refuses a loop that waits for memory that other blocks write (ptx_waits.c). */
gs_code gs_ptx_check_waits(const gs_ptx_kernel *kernel, gs_error *error);

/* Whether an operation of lanes with a mask is at this statement: shfl.sync, vote.sync, bar.warp.sync, ... */
static inline bool gs_ptx_is_warp_step(const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION &&
           (statement->opcode == GS_PTX_SHUFFLE || statement->opcode == GS_PTX_BARRIER_WARP);
}

/* Checks that masks can be made for all warp steps that not all lanes reach, and adds the edits that do it
   (edits NULL: only checks). */
gs_code gs_ptx_add_lanes(const gs_ptx_kernel *kernel, gs_edits *edits, gs_error *error);

#endif
