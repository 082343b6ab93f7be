/*
 * plan.h: which kernels run together, and on how many SMs.
 *
 *   profiles   what is known of a kernel: how long it takes, how its rate grows with its SMs, what it is bound by
 *   pairs      how much two kernels slow each other side by side, and what taking turns gave
 *   store      all profiles and pairs, in memory and in an SQLite file
 *   inside     the ways in which two kernels can share SMs: of a plan, measured, or to be tried
 *   table      Slate's Table I: the guess for pairs that were not measured
 *   decisions  contenders in; out, for each: wait, run whole, or run on a number of SMs
 *   masks      numbers of SMs into sets of SMs, with as few moves as possible
 *   search     ahead of time: what to measure of kernels and pairs, and the best way to run each pair (pair_search.h)
 *   durations  how long kernels will take, alone and in pairs (duration.h)
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
 * Words:
 *
 *   rate         blocks per nanosecond
 *   share        a rate divided by the kernel's rate alone on the GPU: 1 is what it has alone
 *   throughput   of several kernels: the sum of their shares. Without gap and overlap, turns have 1
 *   curve        a kernel's rate over its number of SMs
 *   whole        launched without a mask of SMs; cannot be stopped or resized
 *   confined     launched in the confined form of the kernel, with a mask of SMs; can be stopped and resized
 *   block loop   the confined form on all SMs: its workers go on from block to block. A launch that runs whole is
 *                original (the kernel as it was written) or a block loop
 *   beside       at the same time, each kernel on SMs of its own; `split` says how the SMs are divided
 *   turns        one behind the other, each with the whole GPU. The GPU may start the second while the last blocks of
 *                the first run
 *   contender    a kernel at the head of a stream: it waits, runs, or is expected
 *   place        the SMs of a stream. A launch can take the place of the launch before it in its stream
 *   leader       the contender whose turn it is; it runs in any case
 *   team         the leader and the kernels that run beside it
 *   probe        to run a kernel for a moment on a number of SMs, to measure its curve
 *   trial        to run two kernels side by side although Slate's table is against it, or on the same SMs although
 *                nothing is known of that, to measure the pair
 *   inside       at the same time, two kernels on the same SMs, each with a number of workers on each SM
 *   way          of sharing SMs: so many workers of one kernel and so many of the other
 */
#ifndef GS_PLAN_H
#define GS_PLAN_H

#include "base/base.h"
#include "duration.h"
#include "gridsmith_job.h"
#include "pair_search.h"
#include "queue.h"
#include "simulate.h"

enum {
    GS_PLAN_WORDS = GS_JOB_SMS / 32, /* of a mask; bit 0 of word 0 is SM 0 */
    GS_PLAN_TOGETHER = 8             /* no team has more members */
};

/* ---- profiles ---- */

enum gs_level { GS_LEVEL_UNKNOWN, GS_LEVEL_LOW, GS_LEVEL_MEDIUM, GS_LEVEL_HIGH };

/* "unknown", "low", "medium", "high" */
const char *gs_level_name(enum gs_level level);

enum { GS_PROFILE_SAMPLES = 7, GS_PROFILE_POINTS = 12, GS_PROFILE_NAME = 96 };

/* The last few measurements of one quantity. Its value is their median, so that a disturbed sample changes nothing. */
typedef struct gs_samples {
    double last[GS_PROFILE_SAMPLES];
    uint64_t count; /* of all samples, also of those that are not kept */
} gs_samples;

void gs_samples_add(gs_samples *samples, double value);
double gs_samples_median(const gs_samples *samples); /* 0: there are none */
int gs_samples_kept(const gs_samples *samples);      /* how many are in `last` */

typedef struct gs_profile {
    uint64_t key;
    char name[GS_PROFILE_NAME];
    int32_t sms;     /* of the GPU */
    uint64_t blocks; /* of a launch: gs_profile_blocks of it */

    gs_samples whole_ns;      /* a launch with the GPU to itself, original form */
    gs_samples block_loop_ns; /* the same as a block loop */
    /* Which of the two is used. A block loop is faster where blocks are many and small: starting a block takes longer
       than going on to the next. The two are compared from time to time; this is not kept in the file. */
    bool prefers_block_loop;
    bool is_compared;        /* once at least */
    uint32_t since_compared; /* launches in the preferred form since then */
    uint32_t tried;          /* launches in the other form during this comparison */
    bool takes_other;        /* the last launch was in the other form */
    struct gs_profile_point {
        int32_t sms;
        gs_samples rate;         /* confined to that many SMs, with the others idle */
    } points[GS_PROFILE_POINTS]; /* in order of sms */
    int32_t point_count;

    /* The curve, computed from the above: starts at (0, 0), never falls, straight between the knots. */
    struct gs_profile_knot {
        int32_t sms;
        double rate;
    } curve[GS_PROFILE_POINTS + 2];
    int32_t knots;
    double alone; /* the best rate known with the GPU to itself; 0: never ran */
    double knee;  /* the part of the SMs on which it has nine tenths of its rate on all */

    gs_shape worker; /* a block of its confined form; 0 registers: not known. Not kept in the file */

    /* For the store. */
    uint32_t pins; /* gs_profile_store_get less gs_profile_store_put */
    bool is_dirty; /* changed since it was saved */
    uint64_t used; /* a count, not a time */
} gs_profile;

/* Adds a measurement, made with no other kernel on the GPU. gs_profile_ran: a launch of `blocks` blocks that ran whole,
   original or as a block loop, took `ns`. gs_profile_rate: confined to `sms` SMs, `blocks` were done in `ns`.
   Impossible numbers (0 blocks, 0 ns, SMs that the GPU does not have) are ignored. */
void gs_profile_ran(gs_profile *profile, bool is_block_loop, uint64_t blocks, uint64_t ns);
void gs_profile_rate(gs_profile *profile, int32_t sms, uint64_t blocks, uint64_t ns);

/* How long a launch takes alone on the GPU. 0: not known. */
uint64_t gs_profile_duration_ns(const gs_profile *profile);
/* Whether the next launch, with no other kernel on the GPU, should be in the form that is not preferred, to compare the
   two. During a comparison this is every second launch, because GPUs change their clocks. */
bool gs_profile_takes_other(gs_profile *profile);
/* The share it has on `sms` SMs with no other kernel on the GPU. Without measurements: in proportion. */
double gs_profile_share(const gs_profile *profile, int32_t sms);
/* The same for step, 2 * step, ... count * step SMs, each limited to `most`. */
void gs_profile_shares(const gs_profile *profile, int32_t step, int32_t count, int32_t most, double *shares);
/* On how many SMs it should be measured next, to learn most about its curve. 0: the curve is known well enough. */
int32_t gs_profile_wanted(const gs_profile *profile, int32_t granularity);

/* Slate's classes, read off the curve by the thresholds in profile.c. Unknown until it was measured on half of the SMs
   or fewer. */
enum gs_level gs_profile_compute(const gs_profile *profile);
enum gs_level gs_profile_memory(const gs_profile *profile);

/* Some programs never launch the same grid twice. So launches of a kernel with about the same number of blocks share a
   profile: that of a launch of 1, 2, 3, 4, 6, 8, 12, 16, 24... blocks, rounded down. */
uint64_t gs_profile_blocks(uint64_t blocks);
/* The key of a launch. `source` is a hash of its source, `blocks` is gs_profile_blocks of its grid. Never 0. */
uint64_t gs_profile_key(uint64_t source, const char *kernel, uint64_t blocks, const uint32_t block[3],
                        uint64_t shared_bytes);

/* ---- pairs ---- */

enum {
    GS_PAIR_SPLITS = 8,
    GS_PAIR_WAYS = 3,  /* to share SMs, that are tried of a pair */
    GS_WAY_SAMPLES = 3 /* measurements of a way, before they count */
};

/* A way to share SMs, and what was measured of it. */
typedef struct gs_pair_way {
    int32_t workers[2];   /* per SM; 0: there is no such way */
    gs_samples shares[2]; /* of each kernel */
} gs_pair_way;

/* Two kernels a and b; a has the smaller key. How much they slow each other side by side depends on the split: there is
   an exponentially weighted mean for each eighth of the SMs that a had. */
typedef struct gs_pair {
    uint64_t a, b;
    struct gs_pair_split {
        double a, b;    /* the rate beside the other, divided by the rate alone on the same SMs */
        double samples; /* 0: not measured */
    } splits[GS_PAIR_SPLITS];
    double turns, turns_samples; /* the throughput when they took turns, a mean like the others */
    /* A split is compared with the turns right before it, because GPUs change their clocks. Not kept in the file. */
    gs_samples gains;               /* the throughput of a split divided by that of the turns before it */
    double last_turns;              /* the throughput of those turns; 0: there were none */
    uint64_t splits_since;          /* splits measured since those turns */
    gs_pair_way ways[GS_PAIR_WAYS]; /* the last one is the one that was tried last */
    /* What trials cost, not kept in the file. */
    bool is_asked;           /* the predictor was asked for the first way */
    int32_t next_workers[2]; /* the way to try next; 0: there is none */
    double otherwise;        /* the throughput of the last turns or split; 0: nothing was measured */
    double competed_ns;      /* how long the two were there and were measured */
    double lost_ns;          /* by sharing SMs, of that; negative: gained */
    bool is_dirty;
    uint64_t used;
} gs_pair;

/* ---- the store ---- */

typedef struct gs_profile_store gs_profile_store;

/* Opens the store of a GPU, kept in the file `path`; NULL: in memory only. A file that is damaged, locked, written by a
   later version, of another program, or cannot be created is not an error: the store works in memory, and
   gs_profile_store_problem says why. NULL: out of memory, or `sms` is not from 1 to GS_JOB_SMS. */
gs_profile_store *gs_profile_store_open(const char *path, const char *gpu, int32_t sms, gs_error *error);
/* Saves what is new, closes the file and frees the store. Whether that save worked is not reported: to know, save
   before and ask for the problem. */
void gs_profile_store_close(gs_profile_store *store);
/* Saves what changed since the last time, in one transaction; never waits for a lock. At most about 10 ms of work.
   False: it was not saved (or there is no file). A damaged file is not used again; otherwise the next save tries again
   what this one did not save. */
bool gs_profile_store_save(gs_profile_store *store);
/* Why profiles are not saved, in one line without a newline; NULL: they are, or the line was returned before. Call it
   after gs_profile_store_open and after each gs_profile_store_save, and print what it returns:

     const char *problem = gs_profile_store_problem(store);
     if (problem)
         fprintf(stderr, "gridsmith serve: %s\n", problem);

   A problem that stays is returned once, however often the store is saved. It is returned again if it comes back after
   a save that worked. The text is valid until the next save. */
const char *gs_profile_store_problem(gs_profile_store *store);
/* Whether the last save left something for the next one. */
bool gs_profile_store_has_unsaved(const gs_profile_store *store);

/* The profile of a kernel, created where there is none. It is the store's, and stays valid until gs_profile_store_put
   was called as often as this. The store is bounded: a new profile can replace the one used longest ago that is
   not held. NULL: all that it could replace are held, or out of memory. */
gs_profile *gs_profile_store_get(gs_profile_store *store, uint64_t key, const char *name, uint64_t blocks);
void gs_profile_store_put(gs_profile_store *store, gs_profile *profile);

enum { GS_STORE_PROFILES = 4096, GS_STORE_PAIRS = 16384 };

/* What one of two kernels did while they and no others ran: `blocks` blocks on `sms` SMs. */
typedef struct gs_beside {
    gs_profile *profile;
    int32_t sms;
    uint64_t blocks;
} gs_beside;
/* Adds a measurement of two kernels that ran side by side for `ns`. */
void gs_profile_store_beside(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns);
/* The same of two that took turns for `ns` altogether (`sms` is not used). */
void gs_profile_store_turns(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns);
/* The same of two that shared all SMs, with so many workers of each (`sms` is not used). Without blocks of one of them
   it is a trial that was interrupted: it counts as a loss of half of its time. */
void gs_profile_store_inside(gs_profile_store *store, const gs_beside *one, const gs_beside *other,
                             const int32_t workers[2], uint64_t ns);
/* From now on the predictor is asked which ways to share the SMs of this GPU are worth a trial, for pairs of which both
   kernels have a known `worker`. Without it no pair has a way to try. */
gs_code gs_profile_store_predict(gs_profile_store *store, const gs_gpu *gpu, gs_error *error);

/* NULL: nothing was measured of them. */
const gs_pair *gs_profile_store_pair(const gs_profile_store *store, uint64_t one, uint64_t other);
/* How much the other kernel of the pair slows this one when it has `sms` SMs, by the measurement nearest to that split;
   1: not at all. With fewer SMs than in that measurement it is taken to keep its rate, as far as its curve allows: what
   slows it is mostly the bandwidth of the memory. False: nothing was measured. */
bool gs_pair_factor(const gs_pair *pair, const gs_profile *profile, int32_t sms, double *factor);

/* All profiles, and all pairs, one after the other, in no order: start with *at = 0. NULL: that was all. */
const gs_profile *gs_profile_store_next(const gs_profile_store *store, size_t *at);
const gs_pair *gs_profile_store_next_pair(const gs_profile_store *store, size_t *at);

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
