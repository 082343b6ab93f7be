/*
 * rounds.h: what the files that count on the CPU share: rounds.c, rounds_accesses.c, rounds_exact.c and
 * rounds_statements.c.
 */
#ifndef GS_ROUNDS_H
#define GS_ROUNDS_H

#include "kernels/ptx/ptx.h"
#include "launch.h"

/* A kernel whose rounds and accesses are counted. Words of the memory: counters, a mark for each piece, two for each
   statement, and one for each statement: the transactions of an access. */
struct gs_counting {
    const gs_ptx_module *module;
    const gs_ptx_function *function;
    gs_loop_rounds_list *list;
    uint32_t *labels; /* of each counter: the statement of its label */
    size_t labels_count;
    uint32_t *counter_of; /* of each row of the list, */
    uint32_t *branches;   /* and the statement of its branch back */
    size_t loops;         /* these rows, which are the first */
    uint32_t *piece_of;   /* of each statement */
    size_t pieces;
    bool *is_passed; /* of each statement: some thread comes to it, */
    bool *is_placed; /* and a GPU accesses the same place of one buffer or variable */
    gs_error *error;
};

static inline const gs_ptx_statement *gs_counting_statement(const struct gs_counting *counting, uint32_t number) {
    return &counting->module->statements.data[counting->function->statements + number];
}

/* Whether a statement is a branch to a label. */
bool gs_counting_leads_to(const struct gs_counting *counting, uint32_t branch, uint32_t label);
/* Whether code outside of a loop leads into it by a branch to a label from `first` to its branch back. */
bool gs_counting_is_entered(const struct gs_counting *counting, uint32_t label, uint32_t branch, uint32_t first);
/* The line of each statement's first token and, behind these, of its last token. NULL: out of memory. */
uint32_t *gs_counting_lines(const struct gs_counting *counting);
/* The word of the first of two ways at a branch, and that of the first access. */
size_t gs_counting_ways_at(const struct gs_counting *counting, uint32_t statement);
size_t gs_counting_accesses_at(const struct gs_counting *counting);

/* Adds what counts the transactions of accesses, and, at the begin of a round, or of the kernel (GS_PTX_NONE), the
   lanes that come there; and keeps the numbers in the list. */
void gs_accesses_add(const struct gs_counting *counting, gs_edits *edits);
void gs_accesses_add_present(const struct gs_counting *counting, gs_edits *edits, size_t at, uint32_t label);
gs_code gs_accesses_keep(const struct gs_counting *counting, const uint32_t *counts);

/* Finds is_placed. GS_E_REFUSED: a branch of the kernel depends on what a CPU may compute otherwise than a GPU. */
gs_code gs_rounds_check_exact(const struct gs_counting *counting, const gs_launch_file *launch);

#endif
