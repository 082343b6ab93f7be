/*
 * ptx.h: a reader and analyses of PTX, NVIDIA's portable assembly.
 *
 * Read from top to bottom, after ptx_input.h, which describes the sources of PTX:
 *
 *   tokens        the text as tokens with their places (ptx_tokens.c)
 *   modules       functions, variables, instructions and their operands (ptx_module.c, ptx_variables.c, ptx_body.c)
 *   opcodes       the class of an instruction, and which operands it writes (ptx_opcodes.c)
 *   flow          basic blocks, their edges, and the branches that control each block (ptx_flow.c)
 *   uniformity    which registers have one value in a block or in a warp (ptx_uniform.c)
 *
 * A module keeps its text. Everything else points into it by tokens. To change a module, edit its text (gs_edits); the
 * rest stays as it is, understood or not. An instruction that is not in the table of opcodes is read like any other;
 * its class is GS_PTX_UNKNOWN.
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
    X(S16, "s16", 2) X(S32, "s32", 4) X(S64, "s64", 8) X(F16, "f16", 2) X(F16X2, "f16x2", 4) X(BF16, "bf16", 2)        \
        X(BF16X2, "bf16x2", 4) X(F32, "f32", 4) X(F64, "f64", 8) X(TEXREF, "texref", 8) X(SAMPLERREF, "samplerref", 8) \
            X(SURFREF, "surfref", 8)

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

typedef struct gs_ptx_statement {
    uint8_t kind;
    uint8_t opcode; /* gs_ptx_class of an instruction */
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
    bool has_cluster_words;                                   /* any directive about clusters */
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
    GS_PTX_LIST_OF(gs_ptx_token) tokens;
    GS_PTX_LIST_OF(gs_ptx_variable) variables;
    GS_PTX_LIST_OF(gs_ptx_function) functions;
    GS_PTX_LIST_OF(gs_ptx_statement) statements;
    GS_PTX_LIST_OF(gs_ptx_operand) operands;
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
char gs_ptx_punct(const gs_ptx_module *module, uint32_t token); /* the character of a punctuation token, else 0 */
/* Copies a token, cut to `size`. Returns `into`. */
char *gs_ptx_token_text(const gs_ptx_module *module, uint32_t token, char *into, size_t size);

/* The function of that name: the definition, else a declaration; -1: none. */
int gs_ptx_find_function(const gs_ptx_module *module, const char *name);
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

/* A row of the table of opcodes. `operands` has the access to each operand: 'w' written, 'r' read, 'm' both; the last
   letter stands for all that follow. */
typedef struct gs_ptx_opcode {
    const char *name; /* "st", or with suffixes that make it another opcode: "bar.warp" */
    gs_ptx_class class;
    const char *operands;
} gs_ptx_opcode;

/* The row with the longest matching name, or that of unknown opcodes. */
const gs_ptx_opcode *gs_ptx_opcode_find(const char *word, size_t length);

/* ---- special registers ---- */

#define GS_PTX_SPECIALS(X)                                                                                             \
    X(TID, "tid", THREAD)                                                                                              \
    X(NTID, "ntid", BLOCK)                                                                                             \
    X(LANEID, "laneid", THREAD)                                                                                        \
    X(WARPID, "warpid", WARP)                                                                                          \
    X(NWARPID, "nwarpid", BLOCK)                                                                                       \
    X(CTAID, "ctaid", BLOCK)                                                                                           \
    X(NCTAID, "nctaid", BLOCK)                                                                                         \
    X(SMID, "smid", BLOCK)                                                                                             \
    X(NSMID, "nsmid", BLOCK)                                                                                           \
    X(GRIDID, "gridid", BLOCK)                                                                                         \
    X(CLUSTERID, "clusterid", BLOCK)                                                                                   \
    X(NCLUSTERID, "nclusterid", BLOCK) X(CLUSTER_CTAID, "cluster_ctaid", BLOCK)                                        \
        X(CLUSTER_NCTAID, "cluster_nctaid", BLOCK) X(CLUSTER_CTARANK, "cluster_ctarank", BLOCK)                        \
            X(CLUSTER_NCTARANK, "cluster_nctarank", BLOCK) X(IS_EXPLICIT_CLUSTER, "is_explicit_cluster", BLOCK)        \
                X(LANEMASK_EQ, "lanemask_eq", THREAD) X(LANEMASK_LE, "lanemask_le", THREAD)                            \
                    X(LANEMASK_LT, "lanemask_lt", THREAD) X(LANEMASK_GE, "lanemask_ge", THREAD)                        \
                        X(LANEMASK_GT, "lanemask_gt", THREAD) X(CLOCK, "clock", THREAD)                                \
                            X(CLOCK_HI, "clock_hi", THREAD) X(CLOCK64, "clock64", THREAD)                              \
                                X(GLOBALTIMER, "globaltimer", THREAD) X(GLOBALTIMER_LO, "globaltimer_lo", THREAD)      \
                                    X(GLOBALTIMER_HI, "globaltimer_hi", THREAD) X(ENVREG, "envreg", BLOCK)             \
                                        X(PM, "pm", THREAD) X(TOTAL_SMEM_SIZE, "total_smem_size", BLOCK)               \
                                            X(AGGR_SMEM_SIZE, "aggr_smem_size", BLOCK)                                 \
                                                X(DYNAMIC_SMEM_SIZE, "dynamic_smem_size", BLOCK)                       \
                                                    X(RESERVED_SMEM, "reserved_smem_offset", BLOCK)                    \
                                                        X(CURRENT_GRAPH_EXEC, "current_graph_exec", BLOCK)

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
    uint8_t *guards;  /* of each statement of the function: the same for its guard */
} gs_ptx_uniform;

/* `has_whole_rows`: the block is a multiple of 32 wide, so that a warp is a part of one row of it. */
gs_code gs_ptx_uniform_make(gs_ptx_uniform *uniform, const gs_ptx_flow *flow, bool has_whole_rows, gs_error *error);
void gs_ptx_uniform_free(gs_ptx_uniform *uniform);

#endif
