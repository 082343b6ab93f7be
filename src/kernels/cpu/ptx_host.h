/*
 * ptx_host.h: shared by the files that translate PTX to C. Other rooms use gs_host_translate_ptx of cpu.h.
 *
 *   ptx_host.c             the module: variables, functions, the table of kernels
 *   ptx_host_statements.c  which file translates an instruction
 *   ptx_host_compute.c     the table of instructions that compute a register from registers
 *   ptx_host_convert.c     cvt, mov, setp and their like
 *   ptx_host_memory.c      ld, st, atom, cp.async, mbarrier, addresses
 *   ptx_host_flow.c        branches, calls, barriers, warps
 *   ptx_host_matrix.c      mma, wmma, ldmatrix
 *   ptx_host_operands.c    operands as C expressions
 *   ptx_host_layout.c      which functions and variables are needed, and their offsets
 *
 * The first instruction that cannot be translated sets `code`; text that is added after it is not used. So functions
 * that translate return nothing.
 */
#ifndef GS_PTX_HOST_H
#define GS_PTX_HOST_H

#include "cpu.h"
#include "kernels/ptx/ptx.h"

enum { GS_PTX_MOST_WORDS = 24, GS_PTX_EXPRESSION = 200, GS_PTX_NAME = 4096 };

/* A label, and the statements of the braces around it. */
typedef struct gs_ptx_label {
    uint32_t statement, open, close;
} gs_ptx_label;

typedef struct gs_ptx_shared_place {
    uint32_t variable;
    uint64_t at;
} gs_ptx_shared_place;

/* The shared memory of a kernel: the variables that it uses. */
struct gs_ptx_shared {
    gs_ptx_shared_place *data;
    size_t count, capacity;
    uint64_t end, dynamic_align; /* of the variables; the largest alignment of arrays in dynamic shared memory */
};

typedef struct gs_ptx_host {
    const gs_ptx_module *module;
    gs_text *into;
    gs_error *error;
    gs_code code;                        /* of the first failure */
    uint32_t function;                   /* that is translated */
    uint32_t line, at;                   /* of the PTX: the line of the byte `at` */
    uint32_t out_line;                   /* the current line in the view of the C compiler */
    bool *is_needed;                     /* of each function */
    bool *is_used;                       /* of each variable */
    uint32_t tail_bytes;                 /* behind each variable in memory: see gs_tails */
    uint64_t *offsets;                   /* of each parameter of a kernel */
    struct gs_ptx_shared *shared;        /* of each function that is a kernel */
    uint64_t *array_bytes;               /* the same: of local variables, its own and of functions that it calls */
    GS_PTX_LIST_OF(gs_ptx_label) labels; /* of the function */
} gs_ptx_host;

/* An instruction with its opcode split into words: "ld.global.v4.f32" is "ld", "global", "v4", "f32". */
typedef struct gs_ptx_instruction {
    const gs_ptx_statement *statement;
    uint32_t number; /* of the statement */
    uint32_t line;
    char text[256];
    const char *words[GS_PTX_MOST_WORDS];
    uint32_t count;
    const gs_ptx_operand *operands;
    uint32_t operand_count;
} gs_ptx_instruction;

/* ---- failures ---- */

/* Sets GS_E_UNSUPPORTED at a token, unless there was an error before. */
void gs_ptx_host_refuse(gs_ptx_host *host, uint32_t token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gs_ptx_host_refuse_instruction(gs_ptx_host *host, const gs_ptx_instruction *instruction);

/* ---- instructions ---- */

bool gs_ptx_word(const gs_ptx_instruction *instruction, const char *word);
/* Whether a word of a list, "rn rz rm rp", is the first `length` characters of `word`. */
bool gs_ptx_listed(const char *list, const char *word);
/* The type that a word names, or GS_PTX_NO_TYPE. */
gs_ptx_type gs_ptx_type_of(const char *word);
/* The n-th type among the words, or GS_PTX_NO_TYPE. */
gs_ptx_type gs_ptx_nth_type(const gs_ptx_instruction *instruction, uint32_t n);
/* Refuses another number of operands. */
bool gs_ptx_wants(gs_ptx_host *host, const gs_ptx_instruction *instruction, uint32_t least, uint32_t most);

/* ---- operands as C ---- */

/* An expression. */
typedef struct gs_ptx_c {
    char text[GS_PTX_EXPRESSION];
} gs_ptx_c;

const char *gs_ptx_c_type(gs_ptx_type type);    /* "uint32_t", "int8_t" */
const char *gs_ptx_bits_type(gs_ptx_type type); /* "uint32_t": without sign */
uint32_t gs_ptx_bits(gs_ptx_type type);         /* of a register or memory */
bool gs_ptx_is_float(gs_ptx_type type);
bool gs_ptx_is_signed(gs_ptx_type type);
gs_ptx_type gs_ptx_operand_type(const gs_ptx_host *host, const gs_ptx_operand *operand); /* of a register */

/* The value of an operand that is read as this type. */
gs_ptx_c gs_ptx_value(gs_ptx_host *host, const gs_ptx_operand *operand, gs_ptx_type type);
/* The beginning of an assignment: "w5 = ", or "(void)" for `_`. */
gs_ptx_c gs_ptx_target(gs_ptx_host *host, const gs_ptx_operand *operand);
/* The number of elements of {a, b}, or 1; and each. */
uint32_t gs_ptx_elements(const gs_ptx_operand *operand);
const gs_ptx_operand *gs_ptx_element(const gs_ptx_host *host, const gs_ptx_operand *operand, uint32_t n);

/* The address of a variable: a number. */
gs_ptx_c gs_ptx_variable_address(gs_ptx_host *host, uint32_t variable, uint64_t offset);
gs_ptx_c gs_ptx_function_address(gs_ptx_host *host, uint32_t token);
/* The value of an address operand, as a number. */
gs_ptx_c gs_ptx_address_number(gs_ptx_host *host, const gs_ptx_operand *operand, gs_ptx_space space);
/* A pointer to `bytes` bytes, checked as far as possible. `space` GS_PTX_REG: a generic address. */
gs_ptx_c gs_ptx_pointer(gs_ptx_host *host, const gs_ptx_instruction *instruction, const gs_ptx_operand *operand,
                        gs_ptx_space space, uint32_t bytes);
/* The space that the words name; GS_PTX_REG: none, addresses are generic. */
gs_ptx_space gs_ptx_space_of(const gs_ptx_instruction *instruction);

/* Adds to the text. */
void gs_ptx_put(gs_ptx_host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- translating ---- */

typedef void gs_ptx_translate(gs_ptx_host *host, const gs_ptx_instruction *instruction);
gs_ptx_translate gs_ptx_translate_compute, gs_ptx_translate_mov, gs_ptx_translate_cvt, gs_ptx_translate_setp,
    gs_ptx_translate_set, gs_ptx_translate_selp, gs_ptx_translate_slct, gs_ptx_translate_video, gs_ptx_translate_lop3;
gs_ptx_translate gs_ptx_translate_ld, gs_ptx_translate_st, gs_ptx_translate_atom, gs_ptx_translate_cvta,
    gs_ptx_translate_isspacep, gs_ptx_translate_async, gs_ptx_translate_mbarrier, gs_ptx_translate_alloca,
    gs_ptx_translate_mapa, gs_ptx_translate_access;
gs_ptx_translate gs_ptx_translate_branch, gs_ptx_translate_branch_table, gs_ptx_translate_call, gs_ptx_translate_return,
    gs_ptx_translate_exit, gs_ptx_translate_trap, gs_ptx_translate_barrier, gs_ptx_translate_barrier_warp,
    gs_ptx_translate_barrier_cluster, gs_ptx_translate_shfl, gs_ptx_translate_vote, gs_ptx_translate_match,
    gs_ptx_translate_redux, gs_ptx_translate_elect, gs_ptx_translate_activemask, gs_ptx_translate_fence,
    gs_ptx_translate_sleep, gs_ptx_translate_nothing;
gs_ptx_translate gs_ptx_translate_mma, gs_ptx_translate_wmma, gs_ptx_translate_wgmma, gs_ptx_translate_ldmatrix,
    gs_ptx_translate_movmatrix;

/* The statements of the function that is translated. */
void gs_ptx_translate_statements(gs_ptx_host *host);

/* ---- layout ---- */

/* Finds the functions and variables that the kernels need, and where their shared variables lie. Without kernels: all
   of them. */
void gs_ptx_find_needed(gs_ptx_host *host, const gs_build *build);
/* Gives parameters their offsets. */
void gs_ptx_lay_out(gs_ptx_host *host);
/* Where a shared variable lies in a kernel. */
uint64_t gs_ptx_shared_at(const gs_ptx_host *host, uint32_t kernel, uint32_t variable);
/* The bytes of shared memory of a kernel, up to its dynamic shared memory, where all dynamic arrays begin. */
uint64_t gs_ptx_shared_bytes(const gs_ptx_host *host, uint32_t function);
uint64_t gs_ptx_parameter_bytes(const gs_ptx_host *host, uint32_t function);

#endif
