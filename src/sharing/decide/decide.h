/*
 * decide.h: which kernels run together, and on how many SMs.
 *
 *   inside     the ways in which two kernels can share SMs: of a plan, measured, or to be tried
 *   table      Slate's Table I: the guess for pairs that were not measured
 *   decisions  contenders in; out, for each: wait, run whole, or run on a number of SMs
 *   masks      numbers of SMs into sets of SMs, with as few moves as possible
 *   queue      launches of several tasks in, out what starts next, and together (queue.h)
 *   simulation a plan tried without a GPU (simulate.h)
 *
 * No processes, no clocks, no threads: times come in as numbers, and the same input gives the same answer. The daemon
 * measures and calls; docs/plan.md says why things are decided as they are.
 *
 * Each time a kernel arrives or ends, a measurement is done, or a slice is over:
 *
 *   gs_profile_ran, gs_profile_rate, gs_profile_store_beside, _turns, _inside   add what was measured
 *   gs_plan_decide                                                              says what should run
 *   gs_plan_masks                                                               says on which SMs
 *
 * docs/glossary.md has the words.
 */
#ifndef GS_DECIDE_H
#define GS_DECIDE_H

#include "queue.h"
#include "sharing/measure/measure.h"
#include "simulate.h"

enum {
    GS_PLAN_WORDS = GS_JOB_SMS / 32, /* of a mask; bit 0 of word 0 is SM 0 */
    GS_PLAN_TOGETHER = 8             /* no team has more members */
};

/* ---- Slate's Table I ---- */

/* Whether the table says "corun". Unknown classes: no. docs/plan.md names the entries that contradict each other. */
bool gs_table_says_corun(enum gs_level compute_a, enum gs_level memory_a, enum gs_level compute_b,
                         enum gs_level memory_b);

/* ---- pairs of a plan ---- */

/* Two kernels of a plan that was made ahead of time. */
typedef struct gs_planned_pair {
    char names[2][GS_PROFILE_NAME];
    double shares[2];   /* of each beside the other */
    int32_t workers[2]; /* per SM; 0: they gain nothing on the same SMs */
    uint64_t key;
} gs_planned_pair;

typedef struct gs_planned {
    gs_planned_pair *data;
    size_t count;
    size_t sharing; /* pairs that share SMs */
} gs_planned;

/* The pairs of a plan that were measured in the forms that a daemon has. False: out of memory. The caller clears it. */
bool gs_planned_init(gs_planned *planned, const gs_plan_table *table);
void gs_planned_clear(gs_planned *planned);
/* The pair of two kernels, by name, or NULL. `*first` is the place of `one` in it: 0 or 1. */
const gs_planned_pair *gs_planned_find(const gs_planned *planned, const char *one, const char *other, int *first);

/* ---- decisions ---- */

typedef struct gs_plan_options {
    int32_t sms;           /* of the GPU */
    int32_t granularity;   /* SMs are given out in units of this many */
    int32_t most_together; /* kernels side by side, at most GS_PLAN_TOGETHER */
    int64_t short_ns;      /* kernels shorter than this are never confined, unless their client has a cap */
    int64_t yield_ns;      /* kernels longer than this run confined also when alone, so that they can be stopped */
    int64_t resize_ns;     /* what it costs to change the SMs of a running kernel, as measured */
    int64_t slice_ns;      /* how long a kernel keeps its turn while others of its rank wait */
    int64_t patience_ns;   /* waiting this long raises a kernel's rank by one */
    double least_gain;     /* the throughput must rise by this part for kernels to run side by side, or be resized */
    double fair_slack;     /* side by side, a kernel may have this part less than its weight gives it in turns */
    double priority_floor; /* beside a kernel of lower priority, the part of its share alone that a kernel keeps */
    double trials;         /* measurements of a pair that are needed before they are used */
    bool probes;           /* kernels may be probed */
    const gs_planned *planned; /* pairs of a plan, which may share SMs; NULL: there is none */
    bool tries_inside;         /* other pairs may share SMs, too: ways that fit are tried */
    int64_t trial_ns;          /* how long two kernels share SMs for a measurement */
    double trial_part;         /* the part of the time of a pair that such trials may cost */
} gs_plan_options;

/* Defaults for a GPU with that many SMs. */
gs_plan_options gs_plan_defaults(int32_t sms);

/* A way in which two kernels can share SMs now. */
typedef struct gs_inside_way {
    int32_t workers[2];
    double shares[2]; /* as expected; of a trial: 1, the most that there can be */
    bool is_trial;
} gs_inside_way;

enum { GS_INSIDE_WAYS = GS_PAIR_WAYS + 2 };

/* All ways for two kernels: that of the plan, those that were measured, and one to try, if that can be afforded.
   Returns how many; `workers[0]` and `shares[0]` are those of `one`. */
size_t gs_inside_ways(const gs_plan_options *options, const gs_profile_store *store, const gs_profile *one,
                      const gs_profile *other, gs_inside_way ways[GS_INSIDE_WAYS]);

enum gs_plan_how {
    GS_PLAN_WAIT,    /* not now; a confined kernel that runs stops after the tasks that its workers have taken */
    GS_PLAN_WHOLE,   /* on the SMs that no other kernel is confined to */
    GS_PLAN_CONFINED /* on a number of SMs */
};

enum gs_contender_state {
    GS_CONTENDER_WAITS,
    GS_CONTENDER_RUNS,
    GS_CONTENDER_EXPECTED /* its last launch has just ended and the next is likely to come: its SMs are kept for it. The
                             caller leaves it out when the next one is no longer expected */
};

/* A kernel at the head of a stream. */
typedef struct gs_contender {
    const gs_profile *profile; /* NULL: nothing is known */
    enum gs_contender_state state;
    uint32_t client;
    int32_t priority; /* higher goes first */
    uint32_t weight;  /* of its client, at least 1 */
    int32_t cap;      /* SMs that its client may have at once; 0: all */
    uint64_t arrival; /* order of arrival, unique */
    uint64_t blocks_left;
    bool can_confine;   /* false: it can only run whole */
    bool can_share;     /* it can have a number of workers: as can_confine; of one that is expected also if the launch
                           before it ran whole */
    int64_t waited_ns;  /* since it arrived or last ran; of one that runs: how long it waited before */
    int64_t running_ns; /* since its stream began to run; launches without a wait between them count as one */
    uint64_t served;    /* to its client so far, in SMs times nanoseconds. A new client starts with the least of the
                           others */
    /* Of one that runs: how it runs. Of one that is expected: how the launch before it ran. Of one that waits:
       GS_PLAN_CONFINED and `sms` if it takes the place of the launch before it, which was the same kernel; GS_PLAN_WAIT
       and 0 if it has no place. A launch that takes a place counts as a member of the team that runs, which stays
       as it is unless a change is worth its cost. */
    enum gs_plan_how how;
    int32_t sms;     /* confined: on so many; whole: so many were left free for it */
    int32_t workers; /* of one that runs: as in its placement */
} gs_contender;

typedef struct gs_plan_place {
    enum gs_plan_how how;
    int32_t sms;     /* confined: on so many; whole: so many are left free for it, all where no kernel is confined */
    int32_t workers; /* confined: so many worker blocks on each SM, which another kernel has too; 0: as many as fit */
    bool is_probe;   /* a probe: run it so for a moment, call gs_profile_rate, decide again */
    bool is_trial;   /* a trial: run the two so for a moment, call gs_profile_store_beside or gs_profile_store_inside,
                        decide again */
} gs_plan_place;

typedef struct gs_decision {
    size_t running;        /* how many do not wait */
    double throughput;     /* as expected */
    bool is_changed;       /* something starts, stops, or changes its SMs */
    int64_t look_again_ns; /* decide again after this time even if nothing happens: a slice or a patience ends then.
                              INT64_MAX: no need */
} gs_decision;

/* Decides for all contenders; placements[i] is for contenders[i]. Allocates nothing. `store` may be NULL. A weight of 0
   counts as 1, a cap out of range as none, negative times as 0. */
gs_decision gs_plan_decide(const gs_plan_options *options, const gs_profile_store *store,
                           const gs_contender *contenders, size_t count, gs_plan_place *placements);

/* ---- masks ---- */

typedef struct gs_mask {
    uint32_t words[GS_PLAN_WORDS];
} gs_mask;

int32_t gs_mask_count(const gs_mask *mask);
static inline bool gs_mask_has(const gs_mask *mask, int32_t sm) {
    return mask->words[sm / 32] >> (sm % 32) & 1;
}

/* Gives each of `count` users wanted[i] SMs of the GPU's `sms`. masks[i] is the set it has (all zero: none) and becomes
   the set it gets. The sets are disjoint, and as few SMs as possible get a new user. Returns how many do; -1: more SMs
   are wanted than there are, and nothing was changed. */
int32_t gs_plan_masks(int32_t sms, size_t count, const int32_t *wanted, gs_mask *masks);

#endif
