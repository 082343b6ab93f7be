/*
 * ptx_linear.h: addresses as sums of products, and the pointers that they are derived from. See ptx_linear.c.
 */
#ifndef GS_PTX_LINEAR_H
#define GS_PTX_LINEAR_H

#include "ptx_facts.h"

enum { GS_LINEAR_TERMS = 16, GS_LINEAR_FACTORS = 4, GS_LINEAR_ORIGINS = 8 };

/* The kinds of symbols, in their upper byte. The lower ones: a parameter's number and the offset in it, a variable, a
   coordinate 'x', 'y' or 'z', the statement that takes a ticket, a register. */
enum {
    GS_LINEAR_PARAMETER = 1,
    GS_LINEAR_VARIABLE,
    GS_LINEAR_BLOCK,  /* %ctaid */
    GS_LINEAR_BLOCKS, /* %nctaid */
    GS_LINEAR_THREAD, /* %tid */
    GS_LINEAR_THREADS,
    GS_LINEAR_LANE,
    GS_LINEAR_TICKET, /* what an atomic addition to global memory returns */
    GS_LINEAR_REGISTER
};

/* The most blocks of a grid, as of that of a form. */
enum { GS_LINEAR_MOST_BLOCKS = 1 << 30 };
/* In the upper half of the symbol of a ticket: it has 64 bits. */
enum { GS_LINEAR_IS_WIDE = 1 };

/* A number, and products of symbols times numbers. */
typedef struct gs_linear {
    bool is_known;
    uint8_t lost;  /* the register has this sum modulo 2^(64 - lost): see ptx_wraps.c */
    uint64_t step; /* the most by which a loop moves it away from this bound in an iteration */
    int64_t number;
    int count;
    struct gs_linear_term {
        uint64_t factors[GS_LINEAR_FACTORS]; /* sorted; unused ones are 0 and come first */
        int64_t times;
    } terms[GS_LINEAR_TERMS];
} gs_linear;

/* Which value is asked for: a register that a loop changes has a least or a greatest one. */
typedef enum gs_linear_side { GS_LINEAR_EXACT, GS_LINEAR_AT_MOST, GS_LINEAR_AT_LEAST } gs_linear_side;

/* The value of an operand: a register, a number, a special register, or the address `[register+number]`. */
gs_linear gs_linear_value(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, gs_linear_side side);
/* one + other * times; one * other. */
gs_linear gs_linear_add(gs_linear one, const gs_linear *other, int64_t times);
gs_linear gs_linear_product(const gs_linear *one, const gs_linear *other);
/* Whether registers with these sums have the same value. */
bool gs_linear_is_equal(const gs_linear *one, const gs_linear *other);
/* Whether it is a number. */
bool gs_linear_is_number(const gs_linear *value);
/* Whether a register with this sum is above 0 in each thread of each grid: sizes of blocks and grids are. */
bool gs_linear_is_positive(const gs_linear *value);
/* Whether all threads of all blocks have the same value: parameters, variables, and the sizes of block and grid. */
bool gs_linear_is_same_everywhere(const gs_linear *value);
/* Whether a thread has one such value only: no registers, and no tickets. */
bool gs_linear_is_same_in_thread(const gs_linear *value);

/* The order in which blocks begin, and what must hold of the grid for it. */
typedef enum gs_linear_order {
    GS_LINEAR_BY_TICKETS, /* the order of tickets, not that of their numbers; in any grid */
    GS_LINEAR_ANY_GRID,
    GS_LINEAR_ONE_LAYER, /* the grid has one layer: its z is 1 */
    GS_LINEAR_ONE_ROW,   /* its y is 1, too */
    GS_LINEAR_NO_ORDER
} gs_linear_order;

typedef struct gs_linear_sizes {
    int64_t bytes;    /* of the word that is waited for, */
    int64_t written;  /* and of what is written */
    int64_t threads;  /* the most of a block; 0: not known */
    uint64_t tickets; /* how far the tickets of a block are apart at most; UINT64_MAX: not known */
} gs_linear_sizes;

/* Whether a block that writes at `written` began before a block that reads at `awaited`, or is the same, whenever the
   two overlap. `zeros` are 0 in the writing thread. `most_blocks`: in grids of at most this many blocks. */
gs_linear_order gs_linear_order_of(const gs_linear *awaited, const gs_linear *written, gs_linear_sizes sizes,
                                   const gs_linear *zeros, int zero_count, uint32_t *most_blocks);

/* Whether two addresses with the same pointer are of different words because of their lowest bits, as the keys and the
   values of a table are. */
bool gs_linear_are_apart(const gs_ptx_kernel *kernel, const gs_ptx_operand *one, int64_t one_bytes,
                         const gs_ptx_operand *other, int64_t other_bytes);

/* The pointers that an address may be derived from: parameters and variables. */
typedef struct gs_linear_origin {
    bool is_unknown; /* or from one in memory, of a call, or made in another way */
    int count;
    uint64_t symbols[GS_LINEAR_ORIGINS];
} gs_linear_origin;

gs_linear_origin gs_linear_origin_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *address);
/* Whether both may be derived from the same pointer. */
bool gs_linear_share_origin(const gs_linear_origin *one, const gs_linear_origin *other);
/* Whether an address is derived from variables of the module alone. */
bool gs_linear_is_of_variables(const gs_linear_origin *origin);
/* Whether an address is known to be in shared or local memory, or in that of parameters. */
bool gs_linear_is_private(const gs_ptx_kernel *kernel, const gs_linear_origin *origin);
/* Whether it may be: a pointer may be chosen between a shared variable and a parameter. */
bool gs_linear_may_be_private(const gs_ptx_kernel *kernel, const gs_linear_origin *origin);

/* ---- ptx_wraps.c ---- */

/* The most that a sum is, without its sign, in a grid of `blocks` blocks; UINT64_MAX: more than that, or not known. */
uint64_t gs_linear_most(const gs_linear *value, uint64_t blocks);
/* What is known of a register of `bytes` bytes with this sum. */
gs_linear gs_linear_in_register(gs_linear value, uint32_t bytes);
/* Set `lost` and `step` of sum + other * times, and of one * other. */
void gs_linear_note_sum(gs_linear *sum, const gs_linear *other, int64_t times);
void gs_linear_note_product(gs_linear *product, const gs_linear *one, const gs_linear *other);
/* Whether a difference of two such values is below the modulus of this one, if it is at most `most`. */
bool gs_linear_are_below_modulus(const gs_linear *value, uint64_t most);
/* The most blocks of a grid in which addresses with these sums, and this difference, overlap only where the sums do; 0:
   none. */
uint32_t gs_linear_most_blocks(const gs_linear *awaited, const gs_linear *written, const gs_linear *difference,
                               gs_linear_sizes sizes);

/* ---- registers ---- */

/* The only statement that writes a register, or NULL. */
const gs_ptx_statement *gs_ptx_only_writer(const gs_ptx_kernel *kernel, uint32_t number);

#endif
