/*
 * flow.h: what a warp of machine code executes at most: a walk through its branches and loops.
 *
 *   opcodes      what an instruction is: its name, its class, what it reads and writes (flow_opcodes.c)
 *   graph        basic blocks, dominators, loops (flow_graph.c)
 *   divergence   which branches all threads of a warp take alike, and where threads that parted come together
 *                (flow_divergence.c)
 *   lanes        how registers differ between lanes (flow_lanes.c), and so transactions (flow_transactions.c)
 *   values       what registers can hold, as ranges (flow_values.c)
 *   counters     how many rounds a loop has (flow_counters.c)
 *   walk         the parts of the kernel, in order (flow_walk.c)
 *
 * This is the code of sm_90 as ptxas of CUDA 13.0 writes it. An instruction that the table does not have is refused,
 * and so is what has no bound: a loop whose rounds are not known, calls through pointers, waits for other blocks.
 */
#ifndef GS_FLOW_H
#define GS_FLOW_H

#include "kernels/sass/sass.h"

/* ---- the launch ---- */

typedef struct gs_flow_launch {
    int64_t grid[3], block[3];
    const unsigned char *parameters; /* as the kernel gets them */
    const bool *is_known;            /* of each byte of them; memory has no known address */
    size_t bytes;
} gs_flow_launch;

/* Where a loop is whose rounds are given: the line or the offset of its first instruction, where a round is one of its
   body in the source, or the line of a branch back to it, where it is one of its code. Or, without rounds, a line that
   no thread comes to, or one of branches that all threads leave the same way. Or a line of PTX with a load or store,
   and the most transactions that it makes where its loops are those of the PTX. */
typedef enum gs_flow_place {
    GS_FLOW_LINE,
    GS_FLOW_OFFSET,
    GS_FLOW_BRANCH_LINE,
    GS_FLOW_NEVER_LINE,
    GS_FLOW_ONE_WAY_LINE,
    GS_FLOW_ACCESS_LINE
} gs_flow_place;

typedef struct gs_flow_rounds {
    gs_flow_place place;
    uint32_t at;
    int64_t rounds; /* or transactions; -1: not known, which GS_FLOW_BRANCH_LINE and _ACCESS_LINE may say */
    uint32_t first, last, depth; /* of GS_FLOW_BRANCH_LINE: the lines of the loop; and in how many loops it is */
    uint32_t bytes;              /* of GS_FLOW_ACCESS_LINE, by each lane */
    bool is_store, is_shared;
    bool is_used; /* set by gs_flow_walk */
} gs_flow_rounds;

/* How the rounds of a loop are known: from its code, or from one of the gs_flow_rounds. */
typedef enum gs_flow_source { GS_FLOW_OF_CODE, GS_FLOW_GIVEN, GS_FLOW_OF_BRANCH_LINE } gs_flow_source;

/* ---- the walk ---- */

typedef enum gs_flow_kind { GS_FLOW_BRANCH, GS_FLOW_SIDE, GS_FLOW_LOOP, GS_FLOW_GROUPS } gs_flow_kind;

typedef struct gs_flow_step {
    uint32_t offset, line;
    const char *name, *class_name;
    uint8_t stall, result, reads, waits; /* scoreboards, see gs_body_part */
    uint8_t transactions;                /* see gs_body_part */
    uint32_t constant; /* 1 + the place of a constant that it reads; 0: none; UINT32_MAX: its place is not known */
    bool is_barrier, is_call;
} gs_flow_step;

/* Who gets the parts, in order. A part is opened, gets its children, and is closed. False: out of memory. */
typedef struct gs_flow_visitor {
    void *user;
    bool (*open)(void *user, gs_flow_kind kind, uint32_t offset, uint32_t line, bool is_uniform, int64_t times,
                 gs_flow_source source);
    bool (*close)(void *user);
    bool (*step)(void *user, const gs_flow_step *step);
} gs_flow_visitor;

/* Walks a kernel of an image. GS_E_REFUSED: it has no bound, or code that is not understood; the error has the place.
   `*file` gets the name of the source file, or NULL; the caller frees it. */
gs_code gs_flow_walk(gs_sass_image *image, const char *kernel, const gs_flow_launch *launch, gs_flow_rounds *given,
                     size_t given_count, const gs_flow_visitor *visitor, char **file, gs_error *error);

/* ---- opcodes ---- */

/* What an instruction reads and writes. */
enum {
    GS_READS_A = 1,        /* the register in bits 24 to 31, */
    GS_READS_B = 2,        /* the operand in bits 32 to 63, */
    GS_READS_C = 4,        /* the register in bits 64 to 71 */
    GS_WRITES = 8,         /* the register in bits 16 to 23, */
    GS_WRITES_2 = 16,      /* or two, */
    GS_WRITES_4 = 32,      /* or four, */
    GS_WRITES_SIZED = 64,  /* or as many as bits 73 to 75 say */
    GS_SETS = 128,         /* the predicate in bits 81 to 83, */
    GS_SETS_2 = 256,       /* and that in bits 84 to 86, */
    GS_SETS_ALL = 512,     /* or any predicate */
    GS_TESTS = 1024,       /* the predicate in bits 87 to 89, */
    GS_TESTS_2 = 2048,     /* that in bits 77 to 79, */
    GS_TESTS_3 = 4096,     /* and that in bits 68 to 70 */
    GS_IS_UNIFORM = 8192,  /* its registers and predicates are those of the warp */
    GS_IS_VARYING = 16384, /* its result may differ between threads, whatever it reads */
    GS_IS_SAME = 32768,    /* its result is the same for all threads that execute it together */
};

typedef struct gs_opcode {
    uint16_t number; /* bits 0 to 8 of an instruction */
    const char *name, *class_name;
    uint16_t operands;
} gs_opcode;

typedef struct gs_flow_instruction {
    uint64_t low, high;
    const gs_opcode *opcode;
    bool is_relocated;    /* a number in it is not final */
    uint8_t transactions; /* the most that it makes; 0: not known */
    bool is_passed;       /* some thread may come to it, */
    bool has_index;       /* and the index of 32 bits that it extends to 64 does not go around within a warp */
} gs_flow_instruction;

/* NULL: not known. */
const gs_opcode *gs_opcode_find(unsigned number);

#endif
