/*
 * ptx_waits.h: the analysis of a loop of a kernel. Shared by the files that find waits for other blocks: ptx_waits.c,
 * ptx_iterations.c, ptx_spins.c and ptx_atomics.c.
 */
#ifndef GS_PTX_WAITS_H
#define GS_PTX_WAITS_H

#include "ptx_linear.h"

/* The effect of an iteration on a register, from the best to the worst: ptx_spins.c explains them. */
enum gs_ptx_state { GS_PTX_STEADY, GS_PTX_AWAITED, GS_PTX_CHANGING };

typedef struct gs_ptx_loop {
    const gs_ptx_kernel *kernel;
    uint32_t head;                      /* the block at which an iteration begins */
    bool *within;                       /* blocks of the loop */
    bool *wanted;                       /* registers on which its ends depend */
    uint8_t *states;                    /* of registers: gs_ptx_state */
    uint8_t *control;                   /* of blocks: the worst state of the branches that decide about them */
    uint8_t *changes;                   /* of statements: whether the loop writes what they read, if known */
    GS_PTX_LIST_OF(uint32_t) decisions; /* branches that decide about a block, by block */
    uint32_t *decision_first;           /* of each block, and one more */
    bool *marked;                       /* registers, and */
    bool *reached;                      /* blocks: for one search at a time */
    uint8_t *outlooks;                  /* of gs_ptx_loop_decide, */
    uint64_t effort;                    /* and how much it has done so far */
} gs_ptx_loop;

static inline const gs_ptx_statement *gs_ptx_statement_at(const gs_ptx_kernel *kernel, uint32_t number) {
    return &kernel->module->statements.data[number];
}

/* ---- ptx_iterations.c ---- */

/* The caller frees it, also after a failure. */
gs_code gs_ptx_loop_init(gs_ptx_loop *loop, const gs_ptx_kernel *kernel, gs_error *error);
void gs_ptx_loop_free(gs_ptx_loop *loop);
/* Finds the blocks of the loop with the back edge from `from` to `head`. False: not a loop. */
bool gs_ptx_loop_collect(gs_ptx_loop *loop, uint32_t head, uint32_t from);
/* Finds the decisions. GS_E_REFUSED: that would take too long. */
gs_code gs_ptx_loop_decide(gs_ptx_loop *loop, gs_error *error);
/* Whether a block has a successor outside of the loop. */
bool gs_ptx_loop_ends_at(const gs_ptx_loop *loop, uint32_t block);
/* Whether an instruction reads or writes, which `access` says, one of these registers. */
bool gs_ptx_touches(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint8_t access,
                    const bool *registers);

/* ---- ptx_spins.c ---- */

/* Whether a loop cannot end by itself, but only by writes of others to global memory. Finds the states. */
bool gs_ptx_loop_spins(gs_ptx_loop *loop);
/* Whether an instruction that reads or writes memory may do so in global memory. */
bool gs_ptx_is_global(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* Whether it is an atomic operation that has no effect when it is repeated. */
bool gs_ptx_repeats(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* Whether it may write global memory. */
bool gs_ptx_may_write(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);
/* Whether a function that the kernel calls has an atomic operation on global memory. */
bool gs_ptx_calls_atomics(const gs_ptx_kernel *kernel);
/* Whether a store may be to the word that another instruction reads. */
bool gs_ptx_may_meet(const gs_ptx_kernel *kernel, const gs_ptx_statement *read, const gs_ptx_statement *store);

/* ---- ptx_atomics.c ---- */

/* Whether an atomic operation changes nothing: an addition of 0. */
bool gs_ptx_only_reads(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);
/* Whether an atomic operation of a loop lets it end without others. */
bool gs_ptx_makes_progress(const gs_ptx_loop *loop, const gs_ptx_statement *statement);
/* Whether it takes a lock that only its holders write. */
bool gs_ptx_takes_lock(const gs_ptx_loop *loop, const gs_ptx_statement *statement);

#endif
