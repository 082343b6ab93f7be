/*
 * plan.h: which kernels run together, and on how many SMs.
 *
 *   profiles   what is known of a kernel: how long it takes, how its rate grows with its SMs, what it is bound by
 *   pairs      what two kernels did to each other side by side, and what one after the other gave
 *   store       all profiles and pairs, in memory and in an SQLite file
 *   table      Slate's Table I: the guess for pairs that were not measured
 *   decisions  contenders in, for each: wait, run whole, or run on so many SMs
 *   masks      numbers of SMs into sets of SMs, moving as few as can be
 *
 * No processes, no clocks, no threads: times come in as numbers, and the same input gives the same answer. The daemon
 * measures and calls; docs/plan.md says why things are decided as they are.
 *
 * How it is used, each time a kernel arrives or ends, a measurement is done, or a slice is over:
 *
 *   gs_profile_ran, gs_profile_rate, gs_profile_store_beside, gs_profile_store_turns    tell what was measured
 *   gs_plan_decide                                                    ask what should run
 *   gs_plan_masks                                                     ask on which SMs
 *
 * A *rate* is blocks a nanosecond. A *share* is a rate as a part of the kernel's rate alone on the whole GPU, so 1 is
 * what it would have without company. The *throughput* of kernels side by side is the sum of their shares; kernels
 * that take turns have 1.
 */
#ifndef GS_PLAN_H
#define GS_PLAN_H

#include "base/base.h"
#include "gridsmith_job.h"

enum {
    GS_PLAN_WORDS = GS_JOB_SMS / 32, /* of a mask; bit 0 of word 0 is SM 0 */
    GS_PLAN_TOGETHER = 8             /* the most kernels side by side that are ever considered */
};

/* ---- profiles ---- */

enum gs_level { GS_LEVEL_UNKNOWN, GS_LEVEL_LOW, GS_LEVEL_MEDIUM, GS_LEVEL_HIGH };

/* "unknown", "low", "medium", "high" */
const char *gs_level_name(enum gs_level level);

enum { GS_PROFILE_SAMPLES = 7, GS_PROFILE_POINTS = 12, GS_PROFILE_NAME = 96 };

/* The last few measurements of one thing. Its value is their median: a sample that something disturbed changes nothing.
 */
typedef struct gs_samples {
    double last[GS_PROFILE_SAMPLES];
    uint64_t count; /* all there ever were */
} gs_samples;

void gs_samples_add(gs_samples *samples, double value);
double gs_samples_median(const gs_samples *samples); /* 0: there are none */
int gs_samples_kept(const gs_samples *samples);

typedef struct gs_profile {
    uint64_t key;
    char name[GS_PROFILE_NAME];
    int32_t sms;     /* of the GPU */
    uint64_t blocks; /* of a launch: gs_profile_blocks of it */

    gs_samples whole_ns;      /* launched whole, with the GPU to itself, as it was written */
    gs_samples block_loop_ns; /* the same, with workers that walk over the blocks */
    bool prefers_block_loop;  /* the form that was found to be faster: as kernels of many small blocks are walked,
                    because  starting a block costs more than going on to the next one. Each daemon finds out anew */
    bool is_compared;
    uint32_t since_compared; /* launches in that form since they were compared; after enough of them they are again, */
    uint32_t tried;          /* by so many in the other one, */
    bool takes_other;        /* every second launch; the last one was one */
    struct gs_profile_point {
        int32_t sms;
        gs_samples rate;         /* confined to so many SMs, with the others idle */
    } points[GS_PROFILE_POINTS]; /* by sms */
    int32_t point_count;

    /* Made of the above by gs_profile_ran and gs_profile_rate: the curve, from (0, 0) on, rising. */
    struct gs_profile_knot {
        int32_t sms;
        double rate;
    } curve[GS_PROFILE_POINTS + 2];
    int32_t knots;
    double alone; /* the best rate known with the GPU to itself; 0: never ran */
    double knee;  /* the part of the SMs on which it has nearly its full rate */

    /* The store's business. */
    uint32_t pins;
    bool is_dirty;
    uint64_t used; /* a count, not a time */
} gs_profile;

/* What was measured: one launch of so many blocks, whole (as it was written, or walked), with no other kernel on the
   GPU; and `blocks` done in `ns` on `sms` SMs with no other kernel on the GPU (confined, or whole with all others'
   masks leaving these SMs free). Nonsense (0 blocks, 0 ns, SMs that are not there) is ignored. */
void gs_profile_ran(gs_profile *profile, bool is_block_loop, uint64_t blocks, uint64_t ns);
void gs_profile_rate(gs_profile *profile, int32_t sms, uint64_t blocks, uint64_t ns);

/* How long a launch takes alone on the GPU. 0: not known. */
uint64_t gs_profile_duration_ns(const gs_profile *profile);
/* Whether the next launch, with nobody beside it, should be in the form that is not `walks`, to compare them: now and
   then, and then every second one, because GPUs change their clocks. */
bool gs_profile_takes_other(gs_profile *profile);
/* The share it has with so many SMs to itself. Without measurements: in proportion. */
double gs_profile_share(const gs_profile *profile, int32_t sms);
/* The same for step, 2 step, ... count * step SMs, but never more than `most`, at once. */
void gs_profile_shares(const gs_profile *profile, int32_t step, int32_t count, int32_t most, double *shares);
/* On how many SMs it should be run for a moment, so that most is learned. 0: the curve is known well enough. */
int32_t gs_profile_wanted(const gs_profile *profile, int32_t granularity);

/* Classes, as Slate has them, derived from the curve by the thresholds in profile.c. Unknown until the curve is known
   on a half of the SMs or less. */
enum gs_level gs_profile_compute(const gs_profile *profile);
enum gs_level gs_profile_memory(const gs_profile *profile);

/* Launches of a kernel with about as many blocks are alike, and there are programs that never launch the same grid
   twice. So they share a profile, which is that of a launch of so many blocks: 1, 2, 3, 4, 6, 8, 12, 16, 24... */
uint64_t gs_profile_blocks(uint64_t blocks);
/* The key of a launch: of its source's hash, its kernel's name, gs_profile_blocks and its blocks. Never 0. */
uint64_t gs_profile_key(uint64_t source, const char *kernel, uint64_t blocks, const uint32_t block[3],
                        uint64_t shared_bytes);

/* ---- pairs ---- */

enum { GS_PAIR_SPLITS = 8 };

/* Of two kernels a and b, a's key the smaller one. How much side by side slows them depends on how the SMs are split:
   an exponentially forgetting mean for each eighth of the SMs that a had. */
typedef struct gs_pair {
    uint64_t a, b;
    struct gs_pair_split {
        double a, b;    /* the rate beside the other over the rate with the same SMs and no company */
        double samples; /* how much there is behind it; 0: nothing */
    } splits[GS_PAIR_SPLITS];
    double turns, turns_samples; /* throughput when they took turns; 1 would be: no gap between them, no overlap */
    /* Splits are compared with the turns right before them, because GPUs change their clocks. Each daemon does so anew.
     */
    gs_samples gains;      /* the throughput of a split over that of those turns */
    double last_turns;     /* their throughput; 0: there were none */
    uint64_t splits_since; /* splits that were measured since */
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

/* The profile of a kernel, made where there is none. It stays where it is until gs_profile_store_put was called as
   often as this. The store keeps the GS_STORE_PROFILES used last. NULL: all of them are held, or out of memory. */
gs_profile *gs_profile_store_get(gs_profile_store *store, uint64_t key, const char *name, uint64_t blocks);
void gs_profile_store_put(gs_profile_store *store, gs_profile *profile);

enum { GS_STORE_PROFILES = 4096, GS_STORE_PAIRS = 16384 };

/* What was measured while two kernels and nobody else ran: `blocks` in `ns`, on so many SMs each. */
typedef struct gs_beside {
    gs_profile *profile;
    int32_t sms;
    uint64_t blocks;
} gs_beside;
void gs_profile_store_beside(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns);
/* The same while both took turns: `blocks` of each in `ns` altogether (sms is not looked at). */
void gs_profile_store_turns(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns);

/* NULL: nothing is known of them. */
const gs_pair *gs_profile_store_pair(const gs_profile_store *store, uint64_t one, uint64_t other);
/* How much a kernel of the pair, on so many SMs, is slowed by the other: by the measurement nearest to that split. With
   fewer SMs than when it was measured, it is taken to keep the rate that it had, as far as its curve allows: what slows
   it is mostly that the memory gives no more. False: nothing was measured. */
bool gs_pair_factor(const gs_pair *pair, const gs_profile *profile, int32_t sms, double *factor);

/* All profiles, and all pairs, one after the other, in no order, for listings: start with *at = 0. NULL: that was all.
 */
const gs_profile *gs_profile_store_next(const gs_profile_store *store, size_t *at);
const gs_pair *gs_profile_store_next_pair(const gs_profile_store *store, size_t *at);

/* ---- Slate's Table I ---- */

/* Whether the table says "corun". Unknown classes: no. See docs/plan.md for the one pair on which it contradicts
 * itself. */
bool gs_table_says_corun(enum gs_level compute_a, enum gs_level memory_a, enum gs_level compute_b,
                         enum gs_level memory_b);

/* ---- decisions ---- */

typedef struct gs_plan_options {
    int32_t sms;           /* of the GPU */
    int32_t granularity;   /* SMs are given out in this many at a time */
    int32_t most_together; /* kernels side by side, at most GS_PLAN_TOGETHER */
    int64_t short_ns;      /* kernels shorter than this are never split: they run whole, on SMs left free */
    int64_t yield_ns;      /* kernels longer than this run confined also when alone, so that they can give way */
    int64_t resize_ns;     /* what changing the SMs of a running kernel costs, as measured */
    int64_t slice_ns;      /* so long a kernel keeps its turn where others of its priority wait */
    int64_t patience_ns;   /* for each such time that a kernel waits it counts as one priority higher */
    double least_gain;     /* throughput must rise by this much for kernels to run side by side, or to be resized */
    double fair_slack; /* side by side nobody may have less than this part short of what its weight gives in turns */
    double priority_floor; /* beside a kernel of lower priority one keeps at least this share of what it has alone */
    double trials;         /* so many measurements of a pair come before they are believed */
    bool probes;           /* kernels may be run on fewer SMs for a moment to learn their curves */
} gs_plan_options;

/* Sensible values for a GPU of so many SMs. */
gs_plan_options gs_plan_defaults(int32_t sms);

enum gs_plan_how {
    GS_PLAN_WAIT,    /* not now; a confined kernel that runs stops after the tasks at hand */
    GS_PLAN_WHOLE,   /* the original, launched whole; on SMs that nobody else's mask has */
    GS_PLAN_CONFINED /* on so many SMs */
};

enum gs_contender_state {
    GS_CONTENDER_WAITS,
    GS_CONTENDER_RUNS,
    GS_CONTENDER_EXPECTED /* its last launch just ended and the next is likely to come: its SMs are kept for it. For how
                             long is the daemon's choice: it leaves it out when that is over */
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
    bool can_confine;   /* false: it can only be launched whole */
    int64_t waited_ns;  /* since it arrived or last ran; of one that runs: when it began to */
    int64_t running_ns; /* since its stream began to run; launches without a wait between them count as one */
    uint64_t served; /* to its client so far: SMs times nanoseconds. A new client starts with the least of the others */
    enum gs_plan_how how; /* as it is now; one that waits may have the place of the launch before it: confined */
    int32_t sms;          /* confined: on so many; whole: so many were left for it */
} gs_contender;

typedef struct gs_plan_place {
    enum gs_plan_how how;
    int32_t sms;   /* confined: so many; whole: so many are left free for it, all where nobody is confined */
    bool is_probe; /* to learn its curve: run it so for a moment, tell gs_profile_rate, decide again */
    bool is_trial; /* to learn about the pair: the same with gs_profile_store_beside */
} gs_plan_place;

typedef struct gs_decision {
    size_t running;        /* how many do not wait */
    double throughput;     /* that is expected */
    bool is_changed;       /* something starts, stops, or changes its SMs */
    int64_t look_again_ns; /* when to decide again at the latest, though nothing happens: a slice or somebody's patience
                              ends; INT64_MAX: never */
} gs_decision;

/* Decides for all contenders; placements[i] is for contenders[i]. Allocates nothing. `store` may be NULL. A contender's
   numbers are taken as they are: a weight of 0 counts as 1, a cap out of range as none, negative times as 0. */
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

/* Gives each of `count` users wanted[i] SMs of the GPU's `sms`. masks[i] is what it has (all zero: nothing), and
   becomes what it gets: disjoint sets, and as many SMs as possible stay where they are. Returns how many SMs got a new
   user. The wanted numbers together must not be more than `sms`; -1: they are, and nothing was changed. */
int32_t gs_plan_masks(int32_t sms, size_t count, const int32_t *wanted, gs_mask *masks);

#endif
