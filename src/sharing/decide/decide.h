/*
 * decide.h: which kernels run together, and on how many SMs.
 *
 *   intra-SM   the ways in which two kernels can share SMs: of a plan, measured, or to be tried (intra_sm.c)
 *   table      Slate's Table I: the guess for pairs that were not measured (class_table.c)
 *   decisions  contenders in; out, for each: wait, run whole, or run on a number of SMs (decide.c, team.c)
 *   fairness   what each client has had, and time slices (fairness.c)
 *   mixing     whether two clients that keep the GPU busy do more mixed or in turns (mixing.c)
 *   windows    measurements of what runs by decision, which become profiles and pairs (window.c)
 *   masks      numbers of SMs into sets of SMs, with as few moves as possible (masks.c)
 *   simulation tasks played by these decisions, without a GPU (simulate.h: simulate.c; the plan: plan_table.c, fits.c;
 *              what runs: tasks.c, networks.c)
 *
 * No processes, no clocks, no threads: times come in as numbers, and the same input gives the same decision. The daemon
 * measures and calls; docs/plan.md explains the decisions.
 *
 * Each time a kernel arrives or ends, a measurement is done, or a time slice ends:
 *
 *   gs_profile_ran, gs_profile_rate, gs_profile_store_inter_sm, _serial, _intra_sm   add a measurement
 *   gs_decide                                                                        decides what runs
 *   gs_mixing_follow                                                                  lets two clients take turns
 *   gs_decide_masks                                                                  and on which SMs
 *
 * docs/glossary.md has the words.
 */
#ifndef GS_DECIDE_H
#define GS_DECIDE_H

#include "sharing/measure/measure.h"
#include "simulate.h"

enum {
    GS_MASK_WORDS = GS_JOB_SMS / 32, /* of a mask; bit 0 of word 0 is SM 0 */
    GS_DECIDE_TOGETHER = 8,          /* the most members of a team */
    GS_DECIDE_COMING = 4             /* how far a decision looks ahead in a stream */
};

/* ---- Slate's Table I ---- */

/* Whether the table says "corun". Unknown classes: no. docs/plan.md names the entries that contradict each other. */
bool gs_table_says_corun(enum gs_level compute_a, enum gs_level memory_a, enum gs_level compute_b,
                         enum gs_level memory_b);

/* ---- pairs of a plan ---- */

/* Two kernels of a plan that was made ahead of time. */
typedef struct gs_planned_pair {
    char names[2][GS_PROFILE_NAME];
    double shares[2];   /* of each beside the other, */
    double after[2];    /* and with the same workers after that has ended */
    int32_t workers[2]; /* per SM; 0: intra-SM sharing gains nothing */
    int32_t first_sms;  /* of the first, if each has its own SMs; 0: that gains nothing */
    double alone_ns[2]; /* of the launches that were measured; 0: not known. Nothing is known of much shorter ones */
    uint64_t key;
} gs_planned_pair;

typedef struct gs_planned {
    gs_planned_pair *data;
    size_t count;
    size_t sharing; /* pairs with intra-SM sharing */
} gs_planned;

/* The pairs of a plan that were measured in forms available to a daemon, and that fit on this GPU; NULL: on that of the
   plan. False: out of memory. The caller clears it. */
bool gs_planned_init(gs_planned *planned, const gs_plan_table *table, const gs_gpu *gpu);
void gs_planned_clear(gs_planned *planned);
/* The pair of two kernels, by name, or NULL. `*first` is the place of `one` in it: 0 or 1. */
const gs_planned_pair *gs_planned_find(const gs_planned *planned, const char *one, const char *other, int *first);

/* The share of a kernel that was left alone with these workers, by its name; 1: not known. */
double gs_planned_after(const gs_planned *planned, const char *name, int32_t workers);

/* ---- decisions ---- */

typedef struct gs_decide_options {
    int32_t sms;           /* of the GPU */
    int32_t granularity;   /* SMs are given out in units of this many */
    int32_t most_together; /* kernels side by side, at most GS_DECIDE_TOGETHER */
    int64_t short_ns;      /* kernels shorter than this are never confined, unless their client has a cap */
    int64_t yield_ns;      /* kernels longer than this run confined, so that they can be stopped */
    int64_t mixed_ns;      /* the same for one that is alone, and two that keep the GPU busy: gs_decide_adapt */
    int64_t resize_ns;     /* the measured cost of changing the SMs of a running kernel */
    int64_t slice_ns;      /* the time slice of a kernel while others of its rank wait */
    int64_t lead_ns;       /* a client may be ahead of others by this much */
    int64_t patience_ns;   /* waiting this long raises a kernel's rank by one */
    double least_gain;     /* the relative gain in throughput required to run kernels side by side, or to resize them */
    double fair_slack;     /* side by side, a kernel may have this part less than its weighted share in sequence */
    double priority_floor; /* the part of its share alone that a kernel keeps beside one of lower priority */
    double trials;         /* measurements of a pair required before they are used */
    bool probes;           /* kernels may be probed */
    const gs_planned *planned; /* pairs of a plan, which may share SMs; NULL: no plan */
    bool tries_intra_sm;       /* other pairs may share SMs as well: ways that fit are tried */
    int64_t trial_ns;          /* how long two kernels share SMs for a measurement */
    double trial_part;         /* the part of a pair's time that trials may cost */
    bool are_two;              /* two with the same right to the GPU keep it busy: gs_decide_adapt */
} gs_decide_options;

/* Defaults for a GPU with that many SMs. */
gs_decide_options gs_decide_defaults(int32_t sms);

/* A way in which two kernels can share the GPU now. */
typedef struct gs_intra_sm_way {
    int32_t workers[2];
    int32_t sms[2];   /* of each; 0: both have all of them */
    double shares[2]; /* expected; of a trial: 1, the upper limit */
    bool is_trial;
} gs_intra_sm_way;

enum { GS_INTRA_SM_WAYS = GS_PAIR_WAYS + 2 };

/* All ways for two kernels: that of the plan, the measured ones, and one to try, if the budget allows.
   Returns how many; `workers[0]` and `shares[0]` are those of `one`. */
size_t gs_intra_sm_ways(const gs_decide_options *options, const gs_profile_store *store, const gs_profile *one,
                        const gs_profile *other, gs_intra_sm_way ways[GS_INTRA_SM_WAYS]);

enum gs_decide_how {
    GS_DECIDE_WAIT,    /* not now; a running confined kernel stops after its workers' current tasks */
    GS_DECIDE_WHOLE,   /* on the SMs to which no other kernel is confined */
    GS_DECIDE_CONFINED /* on a number of SMs */
};

enum gs_contender_state {
    GS_CONTENDER_WAITS,
    GS_CONTENDER_RUNS,
    GS_CONTENDER_EXPECTED /* its last launch has just ended and another one is likely: its SMs are reserved. The caller
                             removes it when no launch is expected any more */
};

/* A kernel at the head of a stream. */
typedef struct gs_contender {
    const gs_profile *profile;                  /* NULL: not known */
    const gs_profile *coming[GS_DECIDE_COMING]; /* of the launches behind it in its stream; NULL: no more are known */
    enum gs_contender_state state;
    uint32_t client;
    int32_t priority;            /* higher goes first */
    uint32_t weight;             /* of its client, at least 1 */
    int32_t cap;                 /* SMs that its client may have at once; 0: all */
    uint64_t arrival;            /* order of arrival, unique */
    struct gs_fair_client *fair; /* of its client; only gs_fair_note_turns uses it */
    bool lets_pass;              /* as in gs_fair_client */
    bool was_filled;             /* launches were known behind one of its stream within the last time slice */
    uint64_t stream;             /* unique: the launches of a stream follow each other */
    uint64_t blocks_left;
    bool can_confine;   /* false: it can only run whole */
    bool can_share;     /* it can have a number of workers: as can_confine; if it is expected, also if the launch before
                           it ran whole */
    int64_t waited_ns;  /* since it arrived or last ran; if it runs: how long it waited before */
    int64_t running_ns; /* since its stream began to run; consecutive launches without a wait count as one */
    uint64_t served;    /* service of its client so far, in SMs times nanoseconds, with that of its running launches. A
                           new client starts with the least of the others */
    int64_t ahead_ns;   /* how long its launches on the device take that `served` does not have */
    /* RUNS: how it runs. EXPECTED: how the launch before it ran. WAITS: GS_DECIDE_CONFINED and `sms` if it takes the
       place of the launch before it, which was the same kernel; GS_DECIDE_WAIT and 0 if it has no place. A launch that
       takes a place counts as a member of the running team, which stays unchanged unless a change is worth its cost. */
    enum gs_decide_how how;
    int32_t sms;     /* confined: its SMs; whole: the SMs that were reserved for it */
    int32_t workers; /* if it runs: as in its placement */
} gs_contender;

typedef struct gs_decided_place {
    enum gs_decide_how how;
    int32_t sms;     /* confined: its SMs; whole: the SMs reserved for it, all if no kernel is confined */
    int32_t workers; /* confined: worker blocks per SM, shared with another kernel; 0: as many as fit */
    int32_t turn;    /* of those that start now, the order in which they start */
    bool is_probe;   /* a probe: run it so briefly, call gs_profile_rate, decide again */
    bool is_trial;   /* a trial: run the two so briefly, call gs_profile_store_inter_sm or gs_profile_store_intra_sm,
                        decide again */
    bool waits_for_turn; /* it waits because the other client has its turn: gs_mixing_follow */
} gs_decided_place;

typedef struct gs_decision {
    size_t running;        /* contenders that do not wait */
    double throughput;     /* expected */
    bool is_changed;       /* something starts, stops, or changes its SMs */
    int64_t look_again_ns; /* decide again after this time even if nothing happens: a time slice, a patience, a probe or
                              a trial ends then. INT64_MAX: no need */
} gs_decision;

/* Decides for all contenders; placements[i] is for contenders[i]. Allocates nothing. `store` may be NULL. A weight of 0
   counts as 1, a cap out of range as none, negative times as 0. */
gs_decision gs_decide(const gs_decide_options *options, const gs_profile_store *store, const gs_contender *contenders,
                      size_t count, gs_decided_place *placements);

/* Sets yield_ns and lead_ns for a decision about these. Kernels of one that is alone, and of two with the same right to
   the GPU that both have more launches behind these, or long ones, run whole for longer, and one of the two may be
   further ahead: the GPU mixes their kernels best as they are, and what one has more is often made up for by other
   kernels of the two. */
void gs_decide_adapt(gs_decide_options *options, const gs_contender *contenders, size_t count);

/* On how many SMs a kernel that can be confined is to be probed when it is alone. 0: on none. */
int32_t gs_decide_probe(const gs_decide_options *options, const gs_profile *profile);

/* ---- fairness ---- */

/* What a client has had. */
typedef struct gs_fair_client {
    uint32_t weight;        /* at least 1 */
    uint64_t had;           /* SMs times nanoseconds */
    uint64_t left_ns;       /* when it left; 0: never */
    bool has_slice;         /* it has a time slice, */
    uint64_t turn_since_ns; /* and since when */
    uint64_t spare;         /* what its launches beside others took less than expected, at most a time slice */
    bool lets_pass;         /* it was ahead of another by more than it may, and waits until that has caught up */
} gs_fair_client;

/* Of all clients that have contenders. */
typedef struct gs_fairness {
    int32_t sms;      /* of the GPU */
    int64_t slice_ns; /* of few clients */
    int64_t lead_ns;  /* a client may be ahead by this much, as of the last decision; 0: a time slice */
    double share;     /* per weight, the service of a client that was always there */
    uint64_t weight;  /* sum over the clients, */
    size_t clients;   /* how many there are, */
    size_t present;   /* and how many of them have a waiting or running launch, as of the last decision */
    double least_had; /* the least service per weight of one, as of the last decision */
    uint64_t left_ns; /* when a client left while others stayed, */
    double left_had;  /* and its service per weight */
} gs_fairness;

/* The service of a client per weight. */
double gs_fair_had(const gs_fair_client *client);
/* The time slice of a kernel: shorter if many clients wait, so that none waits long. */
int64_t gs_fair_slice_ns(const gs_fairness *fairness);
/* A client gets its first contender. `least_had`: the least service per weight of the others; INFINITY: none. */
void gs_fair_join(gs_fairness *fairness, gs_fair_client *client, double least_had, uint64_t now_ns);
/* It has none any more. */
void gs_fair_leave(gs_fairness *fairness, gs_fair_client *client, uint64_t now_ns);
/* Charges a client: SMs times nanoseconds. */
void gs_fair_charge(gs_fairness *fairness, gs_fair_client *client, uint64_t served);
/* Charges it for a launch beside others, which took `served`, but may have waited for them in that time: no more than
   `expected`, and what earlier ones took less. So all of them together are charged with what they take, even if they
   differ. */
void gs_fair_charge_beside(gs_fairness *fairness, gs_fair_client *client, uint64_t served, uint64_t expected);
/* Called before each decision, with `least_had` as of now. A client that was too far ahead stays so until the others
   have caught up: if it went on after each of their launches, its own would come one at a time, and the GPU
   could not start one while the last blocks of another run. */
void gs_fair_note_lead(const gs_fairness *fairness, gs_fair_client *client);
/* Whether a client has had the GPU to itself for a time slice, and no other is likely to come back soon. */
bool gs_fair_is_alone(const gs_fairness *fairness, const gs_fair_client *client, uint64_t now_ns);
/* Whether a client has had more than others by more than it may, or than the one that left last by more than a time
   slice. It then has one stream at a time on the device, however many it uses. */
bool gs_fair_is_ahead(const gs_fairness *fairness, const gs_fair_client *client, uint64_t now_ns);
/* The total duration of a client's launches with the device up to which one more follows without a decision. A client
   that is ahead of one that has left has little on the device at first, and more the longer that one is away.
   INT64_MAX: it is not ahead. */
int64_t gs_fair_patience_ns(const gs_fairness *fairness, const gs_fair_client *client, uint64_t now_ns);
/* A time slice lasts while a client has a place in every decision, with any of its launches. */
void gs_fair_note_turns(const gs_contender *contenders, const gs_decided_place *places, size_t count, uint64_t now_ns);

/* ---- mixed, or in turns ---- */

/* How much a client did, as the time that its launches usually take, in some time. */
typedef struct gs_mixed_work {
    double work_ns, ns;
} gs_mixed_work;

/* Two clients that keep the GPU busy. */
typedef struct gs_mixed_pair {
    uint32_t clients[2];
    uint64_t used_ns; /* when they last did; 0: no pair */
    bool is_mixed;    /* now; if not, they take turns */
    bool prefers_turns;
    bool is_compared;                 /* both ways alternate */
    gs_mixed_work mixed[2], alone[2]; /* of the current round */
    double usual[2];                  /* the rate of each in turns, as of the last round */
    double figure;                    /* what the two do mixed, compared with that: a mean of the last measurements */
    int64_t figures;                  /* how many these are */
    double rounds, mean, squares;     /* of comparisons: logarithms of what mixing gains over turns */
    double busy_ns;                   /* how long the two have kept the GPU busy, */
    double due_ns;                    /* and when they may be compared again; */
    double part_ns;                   /* the same when the current part of a round began */
} gs_mixed_pair;

enum gs_mixing_state {
    GS_MIXING_NOT_MEASURED,
    GS_MIXING_MIXED,
    GS_MIXING_ALONE /* one of the two has the GPU for itself */
};

enum { GS_MIXED_PAIRS = 32 };

/* All zero at first. */
typedef struct gs_mixing {
    gs_mixed_pair pairs[GS_MIXED_PAIRS]; /* those used longest ago are replaced */
    gs_mixed_pair *now;                  /* the two that keep the GPU busy; NULL: none */
    enum gs_mixing_state state;
    size_t runner;          /* in state ALONE: which of the two */
    uint64_t ended_ns[2];   /* when the last launch of each ended; 0: that is not to be used */
    uint64_t first_ns[2];   /* when the first end was reported after the state changed */
    uint64_t last_ns;       /* when the last launch of any ended */
    gs_mixed_work since[2]; /* what was measured since both were last there; it does not count yet */
    uint64_t seen_ns;       /* when both were last there; 0: not since they are the two */
    uint64_t away_ns;       /* since when one of them has nothing; 0: it has */
    bool has_holder;        /* one of the two has its turn: */
    size_t holder;
    uint64_t taken; /* turns so far */
    double least; /* how much longer or shorter this part of a round is than usual, so that its length is not that of a
                     part of the programs */
    gs_random random;
} gs_mixing;

/* Called after each decision, which it may change: of two clients that would be mixed one may have to wait. */
void gs_mixing_follow(gs_mixing *mixing, const gs_decide_options *options, const gs_contender *contenders, size_t count,
                      gs_decided_place *places, uint64_t now_ns);
/* Whether a client may have more launches on the device. */
bool gs_mixing_lets_follow(const gs_mixing *mixing, uint32_t client);
/* A launch has ended. `work_ns`: how long it usually takes alone; 0: not known. Called in the order of ends of a
   client, before the decision that follows; those of one batch at the same time. */
void gs_mixing_ran(gs_mixing *mixing, uint32_t client, bool is_whole, uint64_t work_ns, uint64_t ended_ns,
                   uint64_t now_ns);
/* A client is gone; its number may be that of another one. */
void gs_mixing_forget(gs_mixing *mixing, uint32_t client);
/* What mixing gains over turns, such as -0.05, and its standard error; 0: not measured. */
double gs_mixing_gain(const gs_mixed_pair *pair, double *error);

/* ---- windows ---- */

/* A time in which the same one or two kernels run on the same SMs, or in sequence. */
typedef struct gs_window {
    size_t count; /* of kernels; 0: no window */
    uint64_t streams[2];
    gs_profile *profiles[2];
    int32_t sms[2], workers[2]; /* workers: of two that share their SMs */
    uint64_t blocks[2], since_ns;
    uint64_t least_ns; /* a shorter window is not used */
    bool is_serial;    /* they run in sequence, by decision or by the GPU */
    bool is_intra_sm;  /* they share their SMs */
    bool is_probe;     /* requested by the decision: a probe or a trial */
} gs_window;

/* The least time that a kernel must run unchanged to be measured. */
int64_t gs_window_least_ns(const gs_decide_options *options, const gs_decided_place *place);
/* Counts blocks that were done. All blocks until now must be counted before one of the following is called. */
void gs_window_count(gs_window *window, uint64_t stream, const gs_profile *profile, uint64_t blocks);
/* Ends the window of a probe or a trial as soon as it is long enough. */
void gs_window_end_probe(gs_window *window, gs_profile_store *store, uint64_t now_ns);
/* Opens the window of the current decision; an open one continues if it is the same. */
void gs_window_follow(gs_window *window, gs_profile_store *store, const gs_decide_options *options,
                      const gs_contender *contenders, const gs_decided_place *places, size_t count, uint64_t now_ns);
/* Adds the measurement to the profiles. */
void gs_window_close(gs_window *window, gs_profile_store *store, uint64_t now_ns);

/* ---- masks ---- */

typedef struct gs_mask {
    uint32_t words[GS_MASK_WORDS];
} gs_mask;

/* At most GS_JOB_SMS SMs. */
gs_mask gs_mask_all(int32_t sms);
int32_t gs_mask_count(const gs_mask *mask);
static inline bool gs_mask_has(const gs_mask *mask, int32_t sm) {
    return mask->words[sm / 32] >> (sm % 32) & 1;
}

/* Gives each of `count` users wanted[i] SMs of the GPU's `sms`. masks[i] is its current set (all zero: none) and
   becomes its new one. The sets are disjoint, and as few SMs as possible get a new user. Returns how many do; -1: more
   SMs are wanted than exist, and nothing was changed. */
int32_t gs_decide_masks(int32_t sms, size_t count, const int32_t *wanted, gs_mask *masks);

#endif
