/*
 * body.h: what a warp of a compiled kernel does, as a tree: instructions in order, branches, loops and barriers.
 *
 * The parts of a tree are stored in order, as the nodes of a gs_program are: the children of a part follow it, up to
 * `end`. The tree says what a warp executes at most: for every warp of the launch, what it executes is some walk of the
 * tree in which a loop is left after any number of rounds up to `times`, even in the middle of one, and of a branch one
 * side is walked (`is_uniform`), or any of them, in any order. Nothing else is executed.
 *
 * A class of instructions is a name. What a machine needs for it, its unit and its latency, is data of that machine.
 * The times of an instruction are those of the machine code: the next instruction of the warp is issued `stall` cycles
 * later at the earliest; the result of one with a variable latency is announced by a scoreboard, and an instruction
 * waits for those in `waits` before it is issued.
 */
#ifndef GS_BODY_H
#define GS_BODY_H

#include "base/base.h"

typedef enum gs_body_part_kind {
    GS_PART_INSTRUCTION,
    GS_PART_BRANCH,  /* its children are GS_PART_SIDE */
    GS_PART_SIDE,    /* may be empty */
    GS_PART_LOOP,    /* its children are walked up to `times` times */
    GS_PART_BARRIER, /* of all warps of the block; the instruction itself is the part after it */
} gs_body_part_kind;

/* How the number of rounds of a loop is known. */
typedef enum gs_rounds_source {
    GS_ROUNDS_OF_CODE,   /* its counter, and the launch */
    GS_ROUNDS_GIVEN,     /* by the user */
    GS_ROUNDS_OF_INPUT,  /* counted for one input: the bound is one for this input */
    GS_ROUNDS_OF_GROUPS, /* not a loop: threads of a warp that have parted may come here one group after the other */
} gs_rounds_source;

#define GS_ANY_CONSTANT UINT32_MAX
/* Lines of constants that an SM keeps for sure: the table with which the probe measures that. */
enum { GS_KEPT_CONSTANT_LINES = 64 };

enum { GS_NO_SCOREBOARD = 7, GS_SCOREBOARDS = 6, GS_MOST_DEPTH = 200 /* of a tree */ };

typedef struct gs_body_part {
    gs_body_part_kind kind;
    size_t end;      /* the number of the first part after it and its children */
    uint32_t offset; /* in the code of the kernel */
    uint32_t line;   /* of the source; 0: not known */
    /* GS_PART_INSTRUCTION */
    int32_t class_number;  /* in `classes` of the body */
    uint8_t stall;         /* cycles */
    uint8_t result, reads; /* the scoreboard that says that its result is there, and that its operands were read */
    uint8_t waits;         /* a bit for each scoreboard */
    uint8_t transactions;  /* of a memory instruction, by a warp, at most; 0: not known, so the most of its class */
    uint32_t constant;     /* what it reads of constant memory: 1 + its place; 0: nothing; or GS_ANY_CONSTANT */
    bool is_call;          /* of a function, whose parts follow; and the return from it */
    /* GS_PART_BRANCH */
    bool is_uniform; /* all threads of a warp take the same side */
    /* GS_PART_LOOP */
    int64_t times;
    gs_rounds_source source;
} gs_body_part;

typedef struct gs_body {
    char *kernel;
    char *file;                             /* of `line`, or NULL */
    int64_t memory_bytes;                   /* that all warps access, with what lies between */
    int64_t constant_bytes, constant_banks; /* of all constants that it may read, in so many pieces; 0: not known */
    bool is_kept;                           /* and the L2 has it when the kernel starts, if it is not too much */
    bool others_write;                      /* other programs beside it write memory, instead of reading it */
    struct {
        char **data;
        size_t count, capacity;
    } classes;
    struct {
        gs_body_part *data;
        size_t count, capacity;
    } parts;
} gs_body;

void gs_body_clear(gs_body *body);

/* The number of a class in `classes`, which is added if it is new. -1: out of memory. */
int32_t gs_body_class(gs_body *body, const char *name);

/* Adds a part, whose children are added after it. gs_body_close ends it. NULL: out of memory. */
gs_body_part *gs_body_open(gs_body *body, gs_body_part_kind kind, uint32_t offset, uint32_t line);
void gs_body_close(gs_body *body, size_t part);

/* Whether the tree is one: children within their parents, sides in branches only, classes that are listed, and not
   deeper than GS_MOST_DEPTH. The functions below expect that. */
bool gs_body_is_sound(const gs_body *body);

/* GS_E_REFUSED: the kernel takes more than GS_MOST_CYCLES. The place is the loop with the most rounds in all. */
gs_code gs_body_fail_large(const gs_body *body, gs_error *error);

/* The most instructions of each class that a warp executes: an array of classes.count. False: more than 2^60. */
bool gs_body_most(const gs_body *body, int64_t *of_class);

#endif
