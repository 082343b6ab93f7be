/*
 * check.h: whether all blocks of these kernels will be resident together, and which changes would help.
 *
 *   gs_check      in this launch order, and in any? (check.c; reduce.c finds the kernels that conflict)
 *   gs_orders     in which launch orders? (orders.c)
 *   gs_fixes      after which changes? (fix.c; knobs.c lists the possible changes, trial.c plays a run with changes,
 *                 fix_text.c puts changes into words)
 *   gs_assumed    for which other values of what was assumed is the answer the same? (assumed.c)
 *   gs_check_all  all four (check_all.c)
 *   gs_concurrent which launches of a recorded program may run at the same time? (concurrent.c)
 */
#ifndef GS_CHECK_H
#define GS_CHECK_H

#include "model/engine/engine.h"

/* ---- check ---- */

/* Launches, by number, in some order. */
typedef struct gs_order {
    size_t *data;
    size_t count, capacity;
} gs_order;

/* Kernels that are not resident together: in this order, blocks of the last one wait. */
typedef struct gs_conflict {
    gs_order order;
    int64_t waiting; /* blocks of its last kernel */
    int64_t room;    /* for how many blocks of its last kernel there was room */
    gs_text why;
    gs_text numbers; /* what a block of the last kernel needs, and what is free; empty: `why` has all numbers */
} gs_conflict;

typedef struct gs_check {
    gs_answer in_this_order, in_any_order;
    gs_conflict here;     /* if not resident in this order: the launches up to the first that waits */
    gs_conflict smallest; /* if some order fails: the fewest kernels found that conflict, in such an order */
    bool is_least;        /* no fewer kernels conflict */
    gs_order works;       /* if not resident in this order: an order in which all fit, if one was found */
    bool none_works;      /* all orders were tried, and none fits */
    size_t searched;      /* all orders of up to this many kernels were tried and fit */
    bool order_is_fixed;  /* the run has exits or edges, so only its own order makes sense */
} gs_check;

/* Will all blocks of the kernels of `run` be resident together? Durations are ignored. Tries other orders too, with at
   most `budget` launches. `progress` may be NULL. */
gs_code gs_check_run(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_progress *progress, gs_check *check,
                     gs_error *error);
void gs_check_clear(gs_check *check);

/* ---- orders ---- */

typedef enum gs_orders_rule {
    GS_ORDERS_UNKNOWN, /* there are too many kernels, or exits or edges fix the order */
    GS_ORDERS_ALL,
    GS_ORDERS_NONE,
    GS_ORDERS_FIRST,  /* exactly those in which `launch` is first */
    GS_ORDERS_LAST,   /* exactly those in which `launch` is last */
    GS_ORDERS_BEFORE, /* exactly those in which `launch` is before `other` */
    GS_ORDERS_SOME    /* no rule above describes them */
} gs_orders_rule;

/* The launch orders in which all blocks are resident together. */
typedef struct gs_orders {
    gs_orders_rule rule;
    size_t launch, other;
    size_t tried, working; /* orders */
} gs_orders;

/* Plays all launch orders of up to six kernels. */
gs_code gs_orders_that_work(const gs_gpu *gpu, const gs_run *run, gs_orders *orders, gs_error *error);

/* ---- fixes ---- */

/* What a fix changes. The kinds are in the order in which people would try them: from what costs no performance to what
   needs another kernel. */
typedef enum gs_fix_kind {
    GS_FIX_ORDER,     /* the launch order */
    GS_FIX_STREAM,    /* a stream of its own */
    GS_FIX_LOCAL,     /* local memory is set up before the first launch */
    GS_FIX_CARVEOUT,  /* the shared-memory carve-out, in percent; GS_NO_CARVEOUT: none */
    GS_FIX_GREEN,     /* a green context with `to` SMs; the other kernels get the other SMs */
    GS_FIX_BLOCKS,    /* fewer blocks */
    GS_FIX_CLUSTER,   /* smaller clusters */
    GS_FIX_REGISTERS, /* fewer registers a thread */
    GS_FIX_SHARED,    /* less shared memory a block */
    GS_FIX_KINDS
} gs_fix_kind;

/* "order", "stream", ...: for options and JSON. */
const char *gs_fix_kind_name(gs_fix_kind kind);

typedef struct gs_change {
    gs_fix_kind kind;
    size_t launch;      /* of an order: the kernel that moves, SIZE_MAX: several */
    int64_t from, to;   /* of an order: places in it */
    gs_answer is_limit; /* every smaller value that was possible works too; not known: the budget ran out */
} gs_change;

enum { GS_MOST_CHANGES = 2 };

/* Changes that together make all blocks resident. */
typedef struct gs_fix {
    gs_change changes[GS_MOST_CHANGES];
    size_t count;
    gs_order order; /* the launch order, if it changes */
    int64_t cost;   /* the smallest fix costs least; in millionths, see docs/check.md */
} gs_fix;

typedef struct gs_fixes {
    gs_fix *data; /* by kind, then by cost */
    size_t count, capacity;
    unsigned unfinished;        /* a bit for each kind whose search exceeded the budget */
    bool combinations_searched; /* no single change helps, so combinations of two changes were tried, */
    bool combinations_finished; /* and all of them were tried */
} gs_fixes;

typedef struct gs_fix_options {
    unsigned kinds;   /* a bit for each kind that may be used */
    bool every_order; /* a fix must work in every launch order, not only in that of the run */
    int64_t budget;   /* launches to try */
    gs_progress *progress;
    const gs_order *among;       /* change only these kernels; NULL: any */
    const gs_order *known_order; /* an order that works, for when no simpler one is found; NULL or empty: none */
} gs_fix_options;

/* Finds the smallest change of each kind to each kernel after which all blocks are resident together. If no change
   helps, finds the cheapest combination of two changes. Each fix was played by the engine. The caller clears
   `fixes`. */
gs_code gs_fix_run(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, gs_fixes *fixes,
                   gs_error *error);
void gs_fixes_clear(gs_fixes *fixes);

/* Appends a change in words: "launch nccl first". */
void gs_change_text(const gs_gpu *gpu, const gs_run *run, const gs_fix *fix, size_t change, gs_text *text);

/* ---- what was assumed ---- */

enum { GS_LEAST_ASSUMED_REGISTERS = 16 }; /* fewer are not plausible */

/* Something that was assumed of kernels, and the values for which the answer is the same. */
typedef struct gs_assumed {
    gs_assumed_kind kind;
    size_t kernels; /* of how many it was assumed: those with its bit in `assumed` */
    int64_t value;
    int64_t least, most; /* of any one of them, the others as assumed; of two kernels without registers: of both */
    bool is_tried;       /* other values were tried, within the budget */
    bool decides;        /* some possible value gives another answer */
    bool is_capped;      /* with more than `most` registers, a block of one of them cannot run */
} gs_assumed;

typedef struct gs_assumptions {
    gs_assumed data[GS_ASSUMED_KINDS];
    size_t count;
} gs_assumptions;

/* The answer, and what was asked. */
typedef struct gs_assumed_question {
    bool every_order, answer;
    int64_t budget; /* launches to try for each kind */
} gs_assumed_question;

/* With more than six kernels, no other values are tried. */
gs_code gs_assumed_find(const gs_gpu *gpu, const gs_run *run, const gs_assumed_question *question,
                        gs_assumptions *assumptions, gs_error *error);

/* Whether another number of registers gives another answer. No number is usual, so the answer is not known then. A
   kernel without shared or local memory is usual. */
bool gs_assumed_decide(const gs_assumptions *assumptions);

/* ---- check, orders, assumptions and fixes together ---- */

/* The complete answer about one run. */
typedef struct gs_check_answer {
    const gs_gpu *gpu;
    const gs_run *run;
    gs_check check;
    gs_orders orders;
    gs_fixes fixes;
    bool every_order; /* asked for: all launch orders */
    gs_assumptions assumptions;
    bool works;          /* the answer to the question asked; "not known" counts as no */
    bool is_conditional; /* yes with the assumed registers, but not with others: not known */
    bool has_fixes;      /* fixes were searched for, */
    bool all_kinds;      /* of every kind */
    bool too_many;       /* no search: too many kernels are in the conflict */
} gs_check_answer;

/* Ignores `among` and `known_order` of the options. The caller clears the answer, also after an error. */
gs_code gs_check_all(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, gs_check_answer *answer,
                     gs_error *error);
void gs_check_answer_clear(gs_check_answer *answer);

/* ---- launches that may run at the same time ---- */

typedef struct gs_concurrent {
    gs_order *data; /* pairs of launches; of equal pairs one */
    size_t count, capacity;
    bool is_complete; /* there are no others */
} gs_concurrent;

/* Which of the marked launches of a recorded program may run at the same time. The caller clears the sets, also after
   an error. GS_E_REFUSED: the recording is too large. */
gs_code gs_concurrent_find(const gs_run *run, const bool *marked, gs_concurrent *sets, gs_error *error);
void gs_concurrent_clear(gs_concurrent *sets);

#endif
