/*
 * ptx.h: a reader and analyses of PTX, NVIDIA's portable assembly.
 *
 * Read from top to bottom, after ptx_input.h, which describes the sources of PTX:
 *
 *   tokens        the text as tokens with their places (ptx_tokens.c)
 *   modules       functions, variables, instructions and their operands (ptx_module.c, ptx_variables.c, ptx_body.c)
 *   opcodes       the table of instructions: what each reads, writes and waits for (ptx_opcodes.c, ptx_effects.c)
 *   flow          basic blocks, their edges, and the branches that control each block (ptx_flow.c)
 *   uniformity    which registers have one value in a block or in a warp (ptx_uniform.c)
 *   waits         whether a loop reads memory until it has changed (ptx_memory_wait.c)
 *
 * A module keeps its text. Everything else points into it by tokens. To change a module, edit its text (gs_edits); the
 * rest stays as it is, understood or not. An instruction that is not in the table of opcodes is read like any other;
 * its class is GS_PTX_UNKNOWN. Analyses ask the table, and know no instruction by its name.
 *
 * Naming: gs_ptx_read makes a module; the other gs_ptx_ functions answer questions about it.
 */
#ifndef GS_PTX_H
#define GS_PTX_H

#include "ptx_input.h"

/* ---- tokens ---- */

typedef enum gs_ptx_token_kind {
    GS_PTX_WORD,      /* names, registers, and opcodes with all their suffixes: "ld.global.v4.f32", "%tid.x" */
    GS_PTX_DIRECTIVE, /* ".reg", ".b32" */
    GS_PTX_NUMBER,
    GS_PTX_STRING,
    GS_PTX_PUNCT /* one character of punctuation */
} gs_ptx_token_kind;

typedef struct gs_ptx_token {
    uint32_t at, length;
    uint8_t kind;     /* gs_ptx_token_kind */
    bool begins_line; /* it is the first token of its line */
} gs_ptx_token;

#define GS_PTX_NONE UINT32_MAX

/* ---- types ---- */

/* The fundamental types. Vectors are counted apart. */
#define GS_PTX_TYPES(X)                                                                                                \
    X(PRED, "pred", 1)                                                                                                 \
    X(B8, "b8", 1)                                                                                                     \
    X(B16, "b16", 2)                                                                                                   \
    X(B32, "b32", 4)                                                                                                   \
    X(B64, "b64", 8)                                                                                                   \
    X(B128, "b128", 16)                                                                                                \
    X(U8, "u8", 1)                                                                                                     \
    X(U16, "u16", 2)                                                                                                   \
    X(U32, "u32", 4)                                                                                                   \
    X(U64, "u64", 8)                                                                                                   \
    X(S8, "s8", 1)                                                                                                     \
    X(S16, "s16", 2)                                                                                                   \
    X(S32, "s32", 4)                                                                                                   \
    X(S64, "s64", 8)                                                                                                   \
    X(F16, "f16", 2)                                                                                                   \
    X(F16X2, "f16x2", 4)                                                                                               \
    X(BF16, "bf16", 2)                                                                                                 \
    X(BF16X2, "bf16x2", 4)                                                                                             \
    X(F32, "f32", 4) X(F64, "f64", 8) X(TEXREF, "texref", 8) X(SAMPLERREF, "samplerref", 8) X(SURFREF, "surfref", 8)

typedef enum gs_ptx_type {
    GS_PTX_NO_TYPE,
#define X(name, word, bytes) GS_PTX_##name,
    GS_PTX_TYPES(X)
#undef X
} gs_ptx_type;

uint32_t gs_ptx_type_bytes(gs_ptx_type type);
const char *gs_ptx_type_name(gs_ptx_type type);

typedef enum gs_ptx_space {
    GS_PTX_REG,
    GS_PTX_GLOBAL,
    GS_PTX_CONST,
    GS_PTX_SHARED,
    GS_PTX_LOCAL,
    GS_PTX_PARAM,
    GS_PTX_TEX
} gs_ptx_space;

/* ---- modules ---- */

/* A variable, a parameter, or the registers of one declaration. */
typedef struct gs_ptx_variable {
    uint32_t name;                           /* token */
    uint32_t first, last;                    /* tokens of the declaration, with its `;` or without its `,` */
    uint8_t space, type;                     /* gs_ptx_space, gs_ptx_type */
    uint8_t lanes;                           /* 2 or 4 for .v2 and .v4, 8 for .v8; else 1 */
    bool is_extern, is_array, has_no_size;   /* has_no_size: `name[]`, dynamic shared memory */
    uint32_t align;                          /* as declared, or that of the type */
    uint64_t bytes;                          /* all elements */
    uint32_t initializer;                    /* the token after `=`, or GS_PTX_NONE */
    uint32_t function;                       /* where it is declared, or GS_PTX_NONE: the module */
    uint32_t depth;                          /* the number of `{` around it within the function; 1: the body */
    uint32_t register_first, register_count; /* space GS_PTX_REG: the registers of `%r<12>`, else one */
    uint32_t memory;   /* the first variable that is the same memory, mostly itself: see gs_ptx_note_memory; */
    bool is_elsewhere; /* where it begins in that is not known */
} gs_ptx_variable;

typedef enum gs_ptx_operand_kind {
    GS_PTX_REGISTER, /* `value`: its number in the function */
    GS_PTX_SPECIAL,  /* %tid.x and its like; `value`: gs_ptx_special, or GS_PTX_NONE for an unknown one */
    GS_PTX_INTEGER,  /* `bits` */
    GS_PTX_FLOAT32,  /* `bits`: 0f3F800000 */
    GS_PTX_FLOAT64,  /* `bits`: 0d3FF0000000000000, 1.5 */
    GS_PTX_SYMBOL,   /* `value`: the variable, or GS_PTX_NONE for functions, labels and `_`; `bits`: the offset */
    GS_PTX_ADDRESS,  /* [child + bits], or [child, child] of textures */
    GS_PTX_VECTOR,   /* {child, child} */
    GS_PTX_LIST,     /* (child, child) of calls */
    GS_PTX_PAIR,     /* child|child: two destinations */
    GS_PTX_OTHER     /* anything else, kept as tokens */
} gs_ptx_operand_kind;

enum { GS_PTX_READ = 1, GS_PTX_WRITE = 2 };

typedef struct gs_ptx_operand {
    uint8_t kind, access;     /* gs_ptx_operand_kind; GS_PTX_READ, GS_PTX_WRITE or both */
    bool is_negated;          /* !%p1 */
    uint8_t part;             /* of a vector register: 'x', 'y', 'z', 'w', or of a special one; else 0 */
    uint32_t first, last;     /* tokens */
    uint32_t value;           /* see the kinds */
    uint32_t children, count; /* the first of the operands inside, and how many */
    uint64_t bits;
} gs_ptx_operand;

typedef enum gs_ptx_statement_kind {
    GS_PTX_INSTRUCTION,
    GS_PTX_LABEL,
    GS_PTX_DECLARATION, /* .reg, .local, .shared, .param; `value`: the first of its variables, `count` */
    GS_PTX_NOTE,        /* .loc, .pragma, .branchtargets and others without an effect of their own */
    GS_PTX_OPEN,        /* `{` */
    GS_PTX_CLOSE        /* `}` */
} gs_ptx_statement_kind;

enum { GS_PTX_DEEPEST = 64 }; /* the most braces around a statement */

typedef struct gs_ptx_statement {
    uint8_t kind;
    uint8_t opcode; /* gs_ptx_class of an instruction; */
    uint16_t row;   /* and its row in the table of opcodes: see gs_ptx_row */
    bool guard_is_negated;
    uint32_t guard;           /* the register of @%p, or GS_PTX_NONE */
    uint32_t first, last;     /* tokens, with the guard and the `;` */
    uint32_t word;            /* token of the opcode, or of the label */
    uint32_t operands, count; /* the first of its operands, and how many */
} gs_ptx_statement;

/* The limits that a function declares; 0: none. */
typedef struct gs_ptx_limits {
    uint32_t max_threads[3], required_threads[3], cluster[3]; /* .maxntid, .reqntid, .reqnctapercluster */
    uint32_t min_blocks, max_registers;                       /* .minnctapersm, .maxnreg */
    bool has_cluster_words;                                   /* directives that put it into a cluster */
} gs_ptx_limits;

typedef struct gs_ptx_function {
    bool is_entry, is_defined, is_extern, is_weak;
    uint32_t name;                        /* token */
    uint32_t first, last;                 /* tokens, from the linking directives to `}` or `;` */
    uint32_t parameters, parameter_count; /* variables */
    uint32_t returns, return_count;       /* variables */
    uint32_t parameter_close;             /* the `)` of the parameters, or GS_PTX_NONE: no list */
    uint32_t open, close;                 /* tokens of the body's braces */
    uint32_t statements, statement_count;
    uint32_t register_count;
    gs_ptx_limits limits;
} gs_ptx_function;

/* `.alias name, function;` */
typedef struct gs_ptx_alias {
    uint32_t name, function; /* tokens */
} gs_ptx_alias;

#define GS_PTX_LIST_OF(type)                                                                                           \
    struct {                                                                                                           \
        type *data;                                                                                                    \
        size_t count, capacity;                                                                                        \
    }

typedef struct gs_ptx_module {
    const char *name, *text; /* the name of the file for errors; neither is owned */
    size_t size;
    int version; /* 90 for 9.0 */
    char target[32];
    int address_bits;
    size_t marker_at; /* of the first line marker; SIZE_MAX: none */
    GS_PTX_LIST_OF(gs_ptx_token) tokens;
    GS_PTX_LIST_OF(gs_ptx_variable) variables;
    uint32_t dynamic; /* the first variable of dynamic shared memory, plus 1; 0: none */
    GS_PTX_LIST_OF(gs_ptx_function) functions;
    GS_PTX_LIST_OF(gs_ptx_statement) statements;
    GS_PTX_LIST_OF(gs_ptx_operand) operands;
    GS_PTX_LIST_OF(gs_ptx_alias) aliases;
    GS_PTX_LIST_OF(uint8_t) register_types;  /* of all functions; see gs_ptx_register_type */
    GS_PTX_LIST_OF(uint32_t) register_bases; /* of each function: where its registers begin in register_types */
} gs_ptx_module;

/* Reads a module; keeps `name` and `text`. GS_E_SYNTAX, with file, line, column and a caret: not valid PTX. */
gs_code gs_ptx_read(gs_ptx_module *module, const char *name, const char *text, size_t size, gs_error *error);
void gs_ptx_free(gs_ptx_module *module);
/* The kernel of this symbol that the module defines, or GS_PTX_NONE. */
uint32_t gs_ptx_find_entry(const gs_ptx_module *module, const char *symbol);

/* An error about a token. */
gs_code gs_ptx_fail(const gs_ptx_module *module, uint32_t token, gs_error *error, gs_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

bool gs_ptx_token_is(const gs_ptx_module *module, uint32_t token, const char *word);
/* Where a token begins and ends in the text. */
static inline size_t gs_ptx_token_begin(const gs_ptx_module *module, uint32_t token) {
    return module->tokens.data[token].at;
}
static inline size_t gs_ptx_token_end(const gs_ptx_module *module, uint32_t token) {
    return module->tokens.data[token].at + module->tokens.data[token].length;
}
char gs_ptx_punct(const gs_ptx_module *module, uint32_t token); /* the character of a punctuation token, else 0 */
/* Copies a token, cut to `size`. Returns `into`. */
char *gs_ptx_token_text(const gs_ptx_module *module, uint32_t token, char *into, size_t size);
enum { GS_PTX_SYMBOL_MOST = 4096 }; /* the size of a name that is copied */

/* The function of that name, or of which it is an alias: the definition, else a declaration; -1: none. */
int gs_ptx_find_function(const gs_ptx_module *module, const char *name);
/* The function that a call names, and the number of that operand; -1: the call is through a pointer, or the function is
   undeclared. */
int gs_ptx_called_function(const gs_ptx_module *module, const gs_ptx_statement *statement, uint32_t *operand);
gs_ptx_type gs_ptx_register_type(const gs_ptx_module *module, uint32_t function, uint32_t number);

/* The number that a token stands for. False: not a number. */
bool gs_ptx_number(const gs_ptx_module *module, uint32_t token, gs_ptx_operand_kind *kind, uint64_t *bits);

/* Whether the opcode of an instruction has one of these suffixes: gs_ptx_has(module, statement, "and or"). */
bool gs_ptx_has(const gs_ptx_module *module, const gs_ptx_statement *statement, const char *suffixes);
/* Whether a list of words with blanks between them has this word. */
bool gs_ptx_is_listed(const char *list, const char *word, size_t length);

/* ---- opcodes ---- */

/* The class of an instruction: its effect on control flow, other threads and memory. */
typedef enum gs_ptx_class {
    GS_PTX_UNKNOWN,
    GS_PTX_COMPUTE, /* writes registers from registers */
    GS_PTX_LOAD,    /* ld and its like: memory to registers */
    GS_PTX_STORE,
    GS_PTX_ATOMIC,  /* atom, red */
    GS_PTX_TEXTURE, /* tex, suld, sust and their like */
    GS_PTX_FENCE,
    GS_PTX_BRANCH,       /* bra */
    GS_PTX_BRANCH_TABLE, /* brx.idx */
    GS_PTX_CALL,
    GS_PTX_RETURN, /* ret */
    GS_PTX_EXIT,   /* exit */
    GS_PTX_TRAP,
    GS_PTX_BARRIER,      /* bar, barrier: sync, red, arrive */
    GS_PTX_BARRIER_WARP, /* bar.warp.sync */
    GS_PTX_BARRIER_CLUSTER,
    GS_PTX_SHUFFLE,    /* shfl, vote, match, redux, elect: lanes with a mask */
    GS_PTX_MATRIX,     /* mma, wmma, ldmatrix and others that whole warps execute */
    GS_PTX_WARPGROUP,  /* wgmma */
    GS_PTX_ASYNC_COPY, /* cp.async */
    GS_PTX_BULK_COPY,  /* cp.async.bulk, st.async, red.async and others that complete by themselves */
    GS_PTX_MBARRIER,
    GS_PTX_DEPENDENT, /* griddepcontrol */
    GS_PTX_CLUSTER,   /* mapa, getctarank and others that know clusters */
    GS_PTX_REGISTERS, /* setmaxnreg */
    GS_PTX_STACK,     /* alloca, stacksave, stackrestore */
    GS_PTX_TENSOR,    /* tcgen05, tensormap */
    GS_PTX_MISC       /* nanosleep, prefetch, pmevent and others without effect on results */
} gs_ptx_class;

/* The arithmetic that analyses follow. */
typedef enum gs_ptx_math {
    GS_PTX_MATH_NONE, /* any other */
    GS_PTX_MATH_MOVE, /* mov; with a vector on one side it packs or unpacks */
    GS_PTX_MATH_CONVERT,
    GS_PTX_MATH_CONVERT_ADDRESS, /* cvta: between generic addresses and those of a state space */
    GS_PTX_MATH_ADD,
    GS_PTX_MATH_SUB,
    GS_PTX_MATH_MUL,
    GS_PTX_MATH_MAD,
    GS_PTX_MATH_DIV,
    GS_PTX_MATH_REM,
    GS_PTX_MATH_SHL,
    GS_PTX_MATH_SHR,
    GS_PTX_MATH_AND,
    GS_PTX_MATH_OR,
    GS_PTX_MATH_XOR,
    GS_PTX_MATH_NOT,
    GS_PTX_MATH_NEGATE,
    GS_PTX_MATH_ABS,
    GS_PTX_MATH_MIN,
    GS_PTX_MATH_MAX,
    GS_PTX_MATH_COMPARE, /* setp */
    GS_PTX_MATH_SET,     /* set */
    GS_PTX_MATH_SELECT,  /* selp */
    GS_PTX_MATH_COUNT_BITS,
    GS_PTX_MATH_CARRY,  /* with the carry of an instruction with .cc before it */
    GS_PTX_MATH_ACTIVE, /* activemask */
    GS_PTX_MATH_LANES,  /* lanes of the mask for which something holds: vote.ballot */
    GS_PTX_MATH_ALIKE   /* those with the value of this lane: match.any */
} gs_ptx_math;

/* The threads, or copies, for which an instruction waits. */
typedef enum gs_ptx_wait {
    GS_PTX_WAITS_NOT,
    GS_PTX_WAITS_BLOCK,    /* a barrier of the block, or of as many threads as it counts */
    GS_PTX_WAITS_LANES,    /* the lanes of a mask */
    GS_PTX_WAITS_WARP,     /* all lanes of the warp */
    GS_PTX_WAITS_CLUSTER,  /* other blocks of the cluster */
    GS_PTX_WAITS_COPIES,   /* copies and products that this thread began */
    GS_PTX_WAITS_MBARRIER, /* a phase of an mbarrier */
    GS_PTX_WAITS_KERNEL    /* the kernels before this one: griddepcontrol.wait */
} gs_ptx_wait;

/* How results differ between threads. */
typedef enum gs_ptx_result {
    GS_PTX_AS_OPERANDS, /* threads with the same operands get the same */
    GS_PTX_OF_MEMORY,   /* the same, if the memory does not change */
    GS_PTX_OF_LANES,    /* all lanes of the mask get the same */
    GS_PTX_OF_ONE_LANE, /* that of the lane that an operand names: shfl.sync.idx */
    GS_PTX_OF_BARRIER,  /* all threads of the barrier get the same */
    GS_PTX_OF_THREAD    /* anything */
} gs_ptx_result;

/* Sets of memory. A generic address is one of global, shared or local memory. */
enum {
    GS_PTX_IN_GLOBAL = 1,
    GS_PTX_IN_SHARED = 2,
    GS_PTX_IN_LOCAL = 4,
    GS_PTX_IN_PARAM = 8,
    GS_PTX_IN_CONST = 16,   /* also that of textures, which does not change while a kernel runs */
    GS_PTX_IN_CLUSTER = 32, /* shared memory that may be that of another block: .shared::cluster */
    GS_PTX_IN_GENERIC = GS_PTX_IN_GLOBAL | GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL,
    /* in the table only: */
    GS_PTX_BY_SUFFIX = 64, /* the state space in the opcode, else generic */
    GS_PTX_BY_ORDER = 128  /* the first state space in the opcode is written, the second one read */
};

/* A row of the table of opcodes; ptx_opcodes.c says how to read it. */
typedef struct gs_ptx_opcode {
    const char *name; /* "st", or with suffixes that make it another opcode: "bar.warp.sync" */
    gs_ptx_class class;
    const char *operands;
    uint8_t math, reads, writes, waits, result; /* gs_ptx_math, sets of memory, gs_ptx_wait, gs_ptx_result */
    bool is_aligned;                            /* all lanes of a warp execute it together: bar, not barrier */
    bool is_multicast;                          /* its address is of the memory of several GPUs, and of no other */
    const char *refused;                        /* the reason why no form supports it, or NULL */
} gs_ptx_opcode;

/* The number of the row with the longest matching name; 0: unknown. */
uint16_t gs_ptx_opcode_find(const char *word, size_t length);
const gs_ptx_opcode *gs_ptx_opcode_at(uint16_t row);
/* The row of an instruction. Unknown ones have a row, which is refused. */
static inline const gs_ptx_opcode *gs_ptx_row(const gs_ptx_statement *statement) {
    return gs_ptx_opcode_at(statement->row);
}

/* ---- what an instruction does (ptx_effects.c). For statements that are not instructions: nothing ---- */

/* The arithmetic of a statement; of other statements, GS_PTX_MATH_NONE. */
gs_ptx_math gs_ptx_math_of(const gs_ptx_statement *statement);
/* Whether all lanes of a warp execute a barrier together: `bar`, and `barrier` with .aligned. */
bool gs_ptx_is_aligned(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* The types among its suffixes, first and second: `cvt.u32.s8` has two. GS_PTX_NO_TYPE: none. */
void gs_ptx_find_types(const gs_ptx_module *module, const gs_ptx_statement *statement, gs_ptx_type *types);
/* Whether it computes with floating-point numbers, in any format. */
bool gs_ptx_is_real(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* The memory that it may read and write: a set of GS_PTX_IN_*. Bulk copies also write the mbarrier they complete. */
uint8_t gs_ptx_reads(const gs_ptx_module *module, const gs_ptx_statement *statement);
uint8_t gs_ptx_writes(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* The number of the operand that is the address of all that it reads or writes; GS_PTX_NONE: not a plain address, or
   not all: a bulk copy that completes at an mbarrier writes two places. */
uint32_t gs_ptx_address_read(const gs_ptx_module *module, const gs_ptx_statement *statement);
uint32_t gs_ptx_address_written(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* The same for what it writes besides an mbarrier. */
uint32_t gs_ptx_address_copied(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* Whether other threads see its accesses in order, and it theirs: atomics, .volatile, .relaxed, .acquire, .release,
   .mmio, .cv. All others are weak. */
bool gs_ptx_is_strong(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* Whether a thread finds behind it what another block has written before, with plain loads and without a race: an
   acquire of global memory, or a fence; */
bool gs_ptx_acquires(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* or what another thread of its block has found: that, or a wait for other threads. */
bool gs_ptx_joins(const gs_ptx_module *module, const gs_ptx_statement *statement);
/* Whether it reads memory, and only such as does not change while the kernel runs: .nc, .const, .param, textures. */
bool gs_ptx_reads_constants(const gs_ptx_module *module, const gs_ptx_statement *statement);

/* What an atomic operation does to the word. */
typedef enum gs_ptx_atomic {
    GS_PTX_NOT_ATOMIC,
    GS_PTX_ATOMIC_ADD,
    GS_PTX_ATOMIC_INC,
    GS_PTX_ATOMIC_DEC,
    GS_PTX_ATOMIC_EXCH,
    GS_PTX_ATOMIC_CAS,
    GS_PTX_ATOMIC_AND,
    GS_PTX_ATOMIC_OR,
    GS_PTX_ATOMIC_XOR,
    GS_PTX_ATOMIC_MIN,
    GS_PTX_ATOMIC_MAX,
    GS_PTX_ATOMIC_OTHER
} gs_ptx_atomic;
/* Also of reductions, by bulk copies and on surfaces. */
gs_ptx_atomic gs_ptx_atomic_kind(const gs_ptx_module *module, const gs_ptx_statement *statement);

/* ---- special registers ---- */

/* clang-format off */
#define GS_PTX_SPECIALS(X) \
    X(TID, "tid", THREAD) \
    X(NTID, "ntid", BLOCK) \
    X(LANEID, "laneid", THREAD) \
    X(WARPID, "warpid", WARP) \
    X(NWARPID, "nwarpid", BLOCK) \
    X(CTAID, "ctaid", BLOCK) \
    X(NCTAID, "nctaid", BLOCK) \
    X(SMID, "smid", BLOCK) \
    X(NSMID, "nsmid", BLOCK) \
    X(GRIDID, "gridid", BLOCK) \
    X(CLUSTERID, "clusterid", BLOCK) \
    X(NCLUSTERID, "nclusterid", BLOCK) \
    X(CLUSTER_CTAID, "cluster_ctaid", BLOCK) \
    X(CLUSTER_NCTAID, "cluster_nctaid", BLOCK) \
    X(CLUSTER_CTARANK, "cluster_ctarank", BLOCK) \
    X(CLUSTER_NCTARANK, "cluster_nctarank", BLOCK) \
    X(IS_EXPLICIT_CLUSTER, "is_explicit_cluster", BLOCK) \
    X(LANEMASK_EQ, "lanemask_eq", THREAD) \
    X(LANEMASK_LE, "lanemask_le", THREAD) \
    X(LANEMASK_LT, "lanemask_lt", THREAD) \
    X(LANEMASK_GE, "lanemask_ge", THREAD) \
    X(LANEMASK_GT, "lanemask_gt", THREAD) \
    X(CLOCK, "clock", THREAD) \
    X(CLOCK_HI, "clock_hi", THREAD) \
    X(CLOCK64, "clock64", THREAD) \
    X(GLOBALTIMER, "globaltimer", THREAD) \
    X(GLOBALTIMER_LO, "globaltimer_lo", THREAD) \
    X(GLOBALTIMER_HI, "globaltimer_hi", THREAD) \
    X(ENVREG, "envreg", BLOCK) \
    X(PM, "pm", THREAD) \
    X(TOTAL_SMEM_SIZE, "total_smem_size", BLOCK) \
    X(AGGR_SMEM_SIZE, "aggr_smem_size", BLOCK) \
    X(DYNAMIC_SMEM_SIZE, "dynamic_smem_size", BLOCK) \
    X(RESERVED_SMEM, "reserved_smem_offset", BLOCK) \
    X(CURRENT_GRAPH_EXEC, "current_graph_exec", BLOCK)
/* clang-format on */

typedef enum gs_ptx_special {
#define X(name, word, scope) GS_PTX_##name,
    GS_PTX_SPECIALS(X)
#undef X
        GS_PTX_SPECIAL_COUNT
} gs_ptx_special;

/* ---- flow: the basic blocks of a function ---- */

typedef struct gs_ptx_block {
    uint32_t first, last;   /* statements of the module; `last` is the last one of the block */
    uint32_t successors[2]; /* blocks: where the branch goes, and the next one; GS_PTX_NONE: not there. The exit is the
                               block count */
    uint32_t targets, target_count; /* of a table of branches: blocks in gs_ptx_flow.targets */
} gs_ptx_block;

/* The branch at the end of `branch` decides whether `block` runs: after `edge` it always runs. */
typedef struct gs_ptx_dependence {
    uint32_t block, branch;
    uint32_t edge; /* the successor of `branch` that leads to it; the block count: the exit */
} gs_ptx_dependence;

typedef struct gs_ptx_flow {
    const gs_ptx_module *module;
    uint32_t function;
    GS_PTX_LIST_OF(gs_ptx_block) blocks; /* in the order of the text; the first is the entry */
    GS_PTX_LIST_OF(uint32_t) targets;
    GS_PTX_LIST_OF(gs_ptx_dependence) dependences; /* sorted by block */
    uint32_t *dependence_first;                    /* of each block, and one more */
    uint32_t *after;                               /* immediate post-dominator; the block count: the exit */
} gs_ptx_flow;

gs_code gs_ptx_flow_make(gs_ptx_flow *flow, const gs_ptx_module *module, uint32_t function, gs_error *error);
void gs_ptx_flow_free(gs_ptx_flow *flow);
/* The statement with the list of a table of branches (.branchtargets) that a label names, or GS_PTX_NONE. */
uint32_t gs_ptx_table_of(const gs_ptx_module *module, uint32_t label);
uint32_t gs_ptx_flow_block(const gs_ptx_flow *flow, uint32_t statement); /* the block of a statement */
/* Sets `reached[b]` for each block that can run after the end of `from`; one more for the exit. False: out of memory.
 */
bool gs_ptx_flow_reach(const gs_ptx_flow *flow, uint32_t from, bool *reached);

/* ---- uniformity ---- */

/* The threads that share a value or a decision: all threads of a block, those of a warp, or a single thread. */
typedef enum gs_ptx_scope { GS_PTX_SAME_BLOCK, GS_PTX_SAME_WARP, GS_PTX_SAME_THREAD } gs_ptx_scope;

typedef struct gs_ptx_uniform {
    uint8_t *decides; /* of each block: the gs_ptx_scope of threads that leave it by the same edge */
    uint8_t *runs;    /* of each block: the gs_ptx_scope of threads that either all run it or all skip it */
    uint8_t *guards;  /* of each statement of the function: the same for its guard, and the pointer of a call */
} gs_ptx_uniform;

/* `has_whole_rows`: the block is a multiple of 32 wide, so that a warp is a part of one row of it. */
gs_code gs_ptx_uniform_make(gs_ptx_uniform *uniform, const gs_ptx_flow *flow, bool has_whole_rows, gs_error *error);
void gs_ptx_uniform_free(gs_ptx_uniform *uniform);

/* ---- waits ---- */

/* Whether a function, or one that it calls, has a loop that reads global memory until it has changed, and does nothing
   else. `*statement` is the read; GS_PTX_NONE: there is no such loop. */
gs_code gs_ptx_waits_for_memory(const gs_ptx_module *module, uint32_t function, uint32_t *statement, gs_error *error);

#endif
