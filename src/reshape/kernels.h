/*
 * kernels.h: the kernels, functions and macros of a CUDA source, and what they use. For this room only.
 */
#ifndef GS_KERNELS_H
#define GS_KERNELS_H

#include "reshape.h"

static inline const gs_token *gs_token_at(const gs_source *source, uint32_t token) {
    return &source->tokens.data[token];
}

/* Tokens from `first` to before `end`. */
typedef struct gs_span {
    uint32_t first, end;
} gs_span;

/* A function, class, variable with code in it, or macro, that other code can name. */
typedef struct gs_code_unit {
    uint32_t name; /* token, or GS_NO_TOKEN: it can be used without its name (operators) */
    gs_span span;
    uint32_t next; /* another unit of the same name */
    bool is_macro;
} gs_code_unit;

/* A definition or a declaration of a kernel. */
typedef struct gs_kernel_found {
    uint32_t global, name;
    uint32_t open; /* the ( of its parameters */
    uint32_t body; /* the {, or GS_NO_TOKEN: only a declaration */
} gs_kernel_found;

typedef struct gs_code_map {
    const gs_source *source;
    struct {
        gs_kernel_found *data;
        size_t count, capacity;
    } kernels;
    struct {
        gs_code_unit *data;
        size_t count, capacity;
    } units;
    uint32_t *by_name; /* a hash table from names to units; GS_NO_TOKEN: free */
    size_t by_name_size;
} gs_code_map;

gs_code gs_map_read(gs_code_map *map, const gs_source *source, gs_error *error);
void gs_map_free(gs_code_map *map);
/* The first unit with the name of this token, or GS_NO_TOKEN. */
uint32_t gs_map_find(const gs_code_map *map, uint32_t token);
/* The kernel definition that a token is in, or NULL. */
const gs_kernel_found *gs_map_kernel_at(const gs_code_map *map, uint32_t token);
/* The tokens of a kernel from its parameters to the end of its body. */
gs_span gs_kernel_span(const gs_code_map *map, const gs_kernel_found *kernel);

/* What a kernel uses, directly or through what it calls: the first such token, or GS_NO_TOKEN. */
typedef struct gs_facts {
    uint32_t barrier;        /* __syncthreads */
    uint32_t voting;         /* __syncthreads_count and the like */
    uint32_t opaque_barrier; /* a barrier that cannot be changed: cooperative groups, assembly, unknown headers */
    uint32_t warp;           /* shuffles, votes, __syncwarp */
    uint32_t opaque_warp;    /* warp operations that cannot be changed */
    uint32_t early_return;   /* a return of the kernel itself that is not its last statement */
    uint32_t nested_return;  /* an early return that is not `if (...) return;` between the outermost statements */
    uint32_t shares;         /* shared memory, or code that may use it: assembly, other headers */
    bool *uses;              /* for each unit: whether it is reached */
} gs_facts;

/* Finds the facts of a kernel. Refuses kernels that cannot have any form. The caller frees `uses`. */
gs_code gs_facts_find(const gs_code_map *map, const gs_kernel_found *kernel, const char *folder, gs_facts *facts,
                      gs_error *error);
/* Finds the units that a kernel reaches; with `macros_only`, the macros whose text the preprocessor inserts into it. */
gs_code gs_facts_reach(const gs_code_map *map, const gs_kernel_found *kernel, bool macros_only, bool *uses,
                       gs_error *error);

/* If the token is a `return` that is the only statement of an outermost if: the ( of the if. Otherwise GS_NO_TOKEN. */
uint32_t gs_guard_of(const gs_source *source, uint32_t body, uint32_t token);

typedef enum gs_word_use {
    GS_WORD_PLAIN,
    GS_WORD_BLOCK, /* blockIdx, gridDim */
    GS_WORD_BARRIER,
    GS_WORD_VOTING,
    GS_WORD_OPAQUE_BARRIER,
    GS_WORD_WARP,
    GS_WORD_OPAQUE_WARP,
    GS_WORD_REFUSED
} gs_word_use;

/* The meaning of a word for reshaping. *reason: why it is refused, if it is. */
gs_word_use gs_word_use_of(const gs_source *source, uint32_t token, const char **reason);

/* Why a kernel is refused. */
extern const char gs_reason_clusters[], gs_reason_whole_grid[], gs_reason_launches[];

/* An instruction of inline assembly that reshaping must know. */
typedef struct gs_instruction {
    const char *text, *reason; /* no reason: a barrier that cannot be changed */
} gs_instruction;

extern const gs_instruction gs_instructions[]; /* the last has no text */

/* Whether a text is the word, or starts with it if the word ends in *. */
bool gs_is_word(const char *text, size_t length, const char *word);
/* Whether the token is a ( with a matching bracket, which those in directives do not have. */
bool gs_opens(const gs_source *source, uint32_t token);
/* Whether the token is a word that precedes a value, as an operator does: return, sizeof. */
bool gs_is_operator_word(const gs_source *source, uint32_t token);
/* Whether the token is a word that precedes a ( without being a function. */
bool gs_is_attribute(const gs_source *source, uint32_t token);
/* Checks the headers that the source includes; `folder` is that of "x.h", or NULL. */
gs_code gs_check_includes(const gs_source *source, const char *folder, gs_facts *facts, gs_error *error);

#endif
