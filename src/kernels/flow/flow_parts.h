/*
 * flow_parts.h: what the files of this room share: the code, decoded, and the graph of one function.
 *
 * A graph has the blocks that can be reached from the first instruction of a function. Blocks end at branches, before
 * targets of branches, and behind BSYNC. Loops are natural: their header dominates them. Loop 0 is the whole function.
 */
#ifndef GS_FLOW_PARTS_H
#define GS_FLOW_PARTS_H

#include "flow.h"

enum {
    GS_FLOW_BYTES = 16, /* of an instruction */
    GS_NO_REGISTER = 255,
    GS_NO_UNIFORM = 63,
    GS_NO_PREDICATE = 7,
    GS_NO_BLOCK = -1,
    GS_NOT_GIVEN = -1,
    GS_MOST_GROUPS = 32 /* of threads of a warp */
};

/* Numbers of instructions that control. */
enum {
    GS_OP_MOV = 0x002,
    GS_OP_BAR = 0x11d,
    GS_OP_BSYNC = 0x141,
    GS_OP_BREAK = 0x142,
    GS_OP_CALL = 0x144,
    GS_OP_BSSY = 0x145,
    GS_OP_BRA = 0x147,
    GS_OP_WARPSYNC = 0x148,
    GS_OP_EXIT = 0x14d,
    GS_OP_RET = 0x150,
    GS_OP_S2R = 0x119,
    GS_OP_LDG = 0x181,
    GS_OP_LDS = 0x184,
    GS_OP_STG = 0x186,
    GS_OP_STS = 0x188,
    GS_OP_UNKNOWN = 0xfff
};

typedef struct gs_flow_code {
    gs_flow_instruction *data;
    size_t count;
} gs_flow_code;

typedef struct gs_flow_block {
    size_t first, end; /* instructions */
    int32_t next[2];   /* GS_NO_BLOCK: none. If the last one is a branch, next[1] is its target */
    int32_t dominator; /* the block that every way to it goes through last; the first block: itself */
    int32_t loop;      /* the innermost one */
    int32_t rank;      /* in an order in which, but for branches back, a block comes after those before it */
    bool is_reached;   /* some thread of the launch may come to it */
    bool is_uniform;   /* its branch: all threads that are at it go the same way */
    int groups;        /* how many groups of threads of a warp may come to it, one after the other */
} gs_flow_block;

typedef struct gs_flow_loop {
    int32_t header, parent;
    int64_t times;
    gs_flow_source source;
    int32_t given;  /* the number of the rounds that the user gives; GS_NOT_GIVEN: none */
    int64_t exact;  /* the rounds that the code makes, no more and no fewer; -1: not known */
    bool is_closed; /* nothing leaves it in the rounds that are given */
} gs_flow_loop;

typedef struct gs_flow_graph {
    const gs_flow_code *code;
    size_t entry;   /* instruction */
    bool is_called; /* a function, not a kernel: nothing is known of what it gets */
    struct {
        gs_flow_block *data;
        size_t count, capacity;
    } blocks;
    struct {
        gs_flow_loop *data;
        size_t count, capacity;
    } loops;
    int32_t *order; /* blocks by rank */
} gs_flow_graph;

/* ---- instructions ---- */

static inline unsigned gs_bits(uint64_t word, int at, int count) {
    return (unsigned)(word >> at & ((1u << count) - 1));
}

static inline unsigned gs_operation(const gs_flow_instruction *instruction) {
    return instruction->opcode->number;
}

/* What the operand in bits 32 to 63 is: 1 a register; 2 and 4 a number; 3 and 5 a constant; 6 and 7 a register of the
   warp. In 2, 3 and 7 it is the third operand, and the second is in bits 64 to 71. */
static inline unsigned gs_form(const gs_flow_instruction *instruction) {
    return gs_bits(instruction->low, 9, 3);
}

static inline unsigned gs_guard_predicate(const gs_flow_instruction *instruction) {
    return gs_bits(instruction->low, 12, 3);
}

static inline bool gs_is_always(const gs_flow_instruction *instruction) {
    return gs_bits(instruction->low, 12, 4) == GS_NO_PREDICATE;
}

/* VIMNMX: whether it chooses one of two numbers of 32 bits, and not halves of them (bit 73), or a third, 0 (bit 76). */
static inline bool gs_flow_is_plain_choice(const gs_flow_instruction *instruction) {
    return !gs_bits(instruction->high, 9, 8);
}

/* How many registers it writes, from gs_bits(low, 16, 8) on. */
int gs_flow_written(const gs_flow_instruction *instruction);

/* The instruction that a branch, call or WARPSYNC leads to; SIZE_MAX: outside of the code. */
size_t gs_flow_target(const gs_flow_code *code, size_t at);
bool gs_flow_branches(const gs_flow_instruction *instruction);     /* it has a target besides the next one */
bool gs_flow_never_passes(const gs_flow_instruction *instruction); /* the next one is not reached from it */

/* ---- the graph ---- */

gs_code gs_flow_graph_make(gs_flow_graph *graph, const gs_flow_code *code, size_t entry, gs_error *error);
void gs_flow_graph_clear(gs_flow_graph *graph);
bool gs_flow_dominates(const gs_flow_graph *graph, int32_t above, int32_t block);
bool gs_flow_in_loop(const gs_flow_graph *graph, int32_t block, int32_t loop);
/* The loop right inside `loop` that a block is in; 0: it is in none. */
int32_t gs_flow_loop_inside(const gs_flow_graph *graph, int32_t block, int32_t loop);

/* Registers and predicates that a function writes, with those it calls. */
typedef struct gs_flow_written_set {
    bool registers[GS_NO_REGISTER + 1], uniform[GS_NO_UNIFORM + 1];
    bool predicates[GS_NO_PREDICATE + 1], uniform_predicates[GS_NO_PREDICATE + 1];
    int calls; /* that were followed */
} gs_flow_written_set;

void gs_flow_add_written(gs_flow_written_set *set, const gs_flow_instruction *instruction);
/* GS_E_REFUSED: too deep, or too many calls. */
gs_code gs_flow_called(const gs_flow_code *code, size_t entry, gs_flow_written_set *set, int depth, gs_error *error);

/* ---- values ---- */

enum { GS_NO_BASE = -1, GS_UNIFORM_BASE = 256, GS_VALUES = 320, GS_FACTS = 16, GS_UNIFORM_FACT = 8 };

/* What a register can hold: a number from `low` to `high`, as signed 32 bits, or that plus what register `base` held at
   the begin of a round; or, if `shift` is not 0, what it held shifted to the left, or below 0 to the right, with zeros.
   Registers of the warp have numbers from GS_UNIFORM_BASE on. */
typedef struct gs_flow_value {
    bool is_known;
    int8_t shift;
    int16_t base;
    int64_t low, high;
} gs_flow_value;

typedef enum gs_flow_relation {
    GS_NEVER,
    GS_LESS,
    GS_EQUAL,
    GS_AT_MOST,
    GS_MORE,
    GS_DIFFERS,
    GS_AT_LEAST,
    GS_ALWAYS
} gs_flow_relation;

/* What a predicate says: x relation y. */
typedef struct gs_flow_fact {
    bool if_true, if_false; /* it holds if the predicate is true; its opposite holds if it is false */
    bool is_signed;
    gs_flow_relation relation;
    gs_flow_value x, y;
    int16_t x_register, y_register; /* that held them and were not written since; or GS_NO_BASE */
} gs_flow_fact;

typedef struct gs_flow_state {
    gs_flow_value values[GS_VALUES];
    gs_flow_fact facts[GS_FACTS]; /* of predicates, and from GS_UNIFORM_FACT on of those of the warp */
} gs_flow_state;

void gs_flow_execute(gs_flow_state *state, const gs_flow_instruction *instruction, const gs_flow_launch *launch);
/* Whether what it extends to 64 bits, IMAD.WIDE or SHF of a sign, is known to be in a range: then values that grow from
   lane to lane do not go around, because that is a step of almost 2^32. */
bool gs_flow_has_index(const gs_flow_state *state, const gs_flow_instruction *instruction,
                       const gs_flow_launch *launch);
void gs_flow_forget(gs_flow_state *state, const gs_flow_written_set *set);
/* What holds if `more` may be the case as well. */
void gs_flow_join(gs_flow_state *state, const gs_flow_state *more);
/* What the branch at the end of a block says on one of its ways. False: nothing. */
bool gs_flow_says(const gs_flow_state *state, const gs_flow_instruction *branch, bool is_taken, gs_flow_fact *fact);
/* Uses that for the registers that were compared. False: this way is never taken. */
bool gs_flow_narrow(gs_flow_state *state, const gs_flow_fact *fact);
gs_flow_relation gs_flow_opposite(gs_flow_relation relation);
gs_flow_relation gs_flow_mirrored(gs_flow_relation relation); /* y relation x */
gs_flow_value gs_flow_number(int64_t low, int64_t high);
bool gs_flow_is_exact(gs_flow_value value); /* one number */

/* ---- lanes ---- */

/* What is known of a register in the lanes of a warp that are together (flow_lanes.c). */
typedef enum gs_lanes_kind {
    GS_LANES_VARY,
    GS_LANES_NUMBER, /* `step` is the number */
    GS_LANES_STEP,   /* it grows by `step` from lane to lane */
    GS_LANES_LOW,    /* the low half of 64 bits that do so, */
    GS_LANES_HIGH    /* and the high half */
} gs_lanes_kind;

typedef struct gs_lanes {
    uint8_t kind, pieces;
    uint8_t others; /* how many other values lanes may have, each the same in all lanes that have it */
    uint8_t guard;  /* it holds in lanes in which this predicate does: 1 + bits 12 to 15 of an instruction; 0: in all */
    uint8_t width;  /* it holds in each group of this number of lanes, which begins at a multiple of that */
    bool is_thread; /* of step 1, and a multiple of the width in the first lane of a group */
    int32_t step, maker;
} gs_lanes;

/* In a predicate: the carry from the low half that `maker` wrote; the addend was written by `of`. A sum of three has
   two carries, in two predicates. */
typedef struct gs_carry {
    int32_t maker, of;
    bool has_two, is_second;
} gs_carry;

typedef struct gs_flow_lanes {
    bool is_reached;
    gs_lanes registers[GS_NO_REGISTER + 1];
    bool predicates[GS_NO_PREDICATE + 1]; /* they vary */
    gs_carry carries[GS_NO_PREDICATE + 1];
} gs_flow_lanes;

gs_lanes gs_lanes_step(int64_t step, int width);
bool gs_lanes_uniform(gs_lanes lanes);
bool gs_lanes_same(gs_lanes lanes); /* in all lanes of a group */
bool gs_lanes_have_step(gs_lanes lanes);
bool gs_lanes_are_halves(gs_lanes low, gs_lanes high);
/* A register, for an instruction under this guard. */
gs_lanes gs_lanes_at(const gs_flow_lanes *now, const gs_flow_instruction *instruction, unsigned number);
/* How many lanes of a warp are in a row of the block; 0: a warp has parts of rows. */
int gs_flow_row_lanes(const gs_flow_launch *launch);
/* Executes an instruction; `is_varying`: its results may vary in lanes that execute it, unless more is known. */
void gs_lanes_execute(gs_flow_lanes *now, const gs_flow_instruction *instruction, const gs_flow_launch *launch,
                      size_t at, bool is_varying);
/* Adds what comes to the begin of a block on another way. True: that changes something. */
bool gs_lanes_join(gs_flow_lanes *into, const gs_flow_lanes *more, int32_t block);
/* The bytes that each lane of a load or store reads or writes. */
int64_t gs_flow_access_bytes(const gs_flow_instruction *instruction);
/* In how many parts a warp does a load or store: halves or quarters, if it is wider than 4 bytes. */
int gs_flow_access_parts(const gs_flow_instruction *instruction);
/* Whether it loads, at once, from a place that is the same for all lanes. */
bool gs_lanes_read_one(const gs_flow_lanes *now, const gs_flow_instruction *instruction);
/* The most transactions of a load or store; 0: not known. Of a load of constants, 1: all lanes read the same. */
int gs_lanes_transactions(const gs_flow_lanes *now, const gs_flow_instruction *instruction);

/* ---- the analyses ---- */

/* Finds is_uniform and groups of each block, and the transactions of its instructions. Only blocks that threads come to
   count, so rounds are counted before. */
gs_code gs_flow_find_divergence(gs_flow_graph *graph, const gs_flow_launch *launch, gs_error *error);

/* Finds the rounds of each loop: -1 where they are not known. What is there before is a bound of the user. */
gs_code gs_flow_count_rounds(gs_flow_graph *graph, const gs_flow_launch *launch, gs_error *error);

gs_code gs_flow_refuse(gs_error *error, size_t instruction, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
