/*
 * ptx_linear.h: addresses as sums. See ptx_linear.c.
 */
#ifndef GS_PTX_LINEAR_H
#define GS_PTX_LINEAR_H

#include "ptx_facts.h"

enum { GS_LINEAR_TERMS = 8 };

/* The kinds of symbols, in their upper byte. */
enum { GS_LINEAR_PARAMETER = 1, GS_LINEAR_BLOCK, GS_LINEAR_NOT_NEGATIVE, GS_LINEAR_REGISTER };
enum { GS_LINEAR_COLUMN = 'c' }; /* besides x, y and z of GS_LINEAR_BLOCK: %ctaid.x * %nctaid.y */

typedef struct gs_linear {
    bool is_known;
    bool is_bound; /* the value is at most this */
    int64_t number;
    int count;
    struct gs_linear_term {
        uint64_t symbol;
        int64_t times;
    } terms[GS_LINEAR_TERMS];
} gs_linear;

/* The value of a register, and of an operand `[register+number]`. */
gs_linear gs_linear_register(const gs_ptx_kernel *kernel, uint32_t number);
gs_linear gs_linear_address(const gs_ptx_kernel *kernel, const gs_ptx_operand *address);
/* one + other * times. */
gs_linear gs_linear_add(gs_linear one, const gs_linear *other, int64_t times);

/* Whether an address may be derived from a parameter, a symbol of GS_LINEAR_PARAMETER, or from a pointer in memory. */
bool gs_linear_may_contain(const gs_ptx_kernel *kernel, const gs_ptx_operand *address, uint64_t parameter);

/* Whether the opcode of an instruction begins with one of these words and a dot: "add sub" for add.s32. */
bool gs_ptx_begins(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, const char *words);

/* The only statement that writes a register, or NULL. */
const gs_ptx_statement *gs_ptx_only_writer(const gs_ptx_kernel *kernel, uint32_t number);

#endif
