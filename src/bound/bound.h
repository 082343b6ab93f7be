/*
 * bound.h: when work on an SM is done, at the latest.
 *
 *   gs_program    what a warp does, instruction by instruction, and the units of the SM that it needs (program.c)
 *   gs_formula_   the formula of the finishing-time paper, for its one program (proven.c)
 *   gs_proven_    a bound for any program on any units, with its proof in docs/bounds.md (proven.c)
 *   gs_search     the exact worst case over all work-conserving schedules (search.c)
 *   gs_schedule   one schedule, cycle by cycle, as Figure 3 of the paper shows them (schedule.c)
 *   gs_compare    the proven bound against the exact worst case on random programs; anomalies (compare.c)
 *   gs_run_bound  from the placement of blocks to the bound of a whole run (placed.c)
 *   gs_measured   what a real SM takes, and what its bound is (measured.c)
 *
 * The model. A warp does its instructions in order. In each cycle some of the warps that wait are selected, at most
 * `issue` of them; a selected one takes one of the `warps` places of the unit that its instruction names, holds it for
 * the unit's `cycles`, and can go on after the instruction's `latency`, which is not shorter. The scheduler is
 * work-conserving: it leaves no warp out for which there is a place. That is all that is assumed of it; where it is
 * fair, instructions of an earlier sub-block go first as well.
 */
#ifndef GS_BOUND_H
#define GS_BOUND_H

#include "sched/sched.h"

/* ---- programs ---- */

/* A class of units of an SM. */
typedef struct gs_unit {
    char *name;
    int64_t warps;  /* that it serves at once */
    int64_t cycles; /* for which each of them holds it */
} gs_unit;

#define GS_REPEAT (-1)

/* An instruction, or a repetition of the nodes from the next one up to `end`. Programs are stored as trees in order. */
typedef struct gs_node {
    int32_t unit; /* or GS_REPEAT */
    char letter;  /* that stands for it in a schedule */
    int64_t latency, times;
    size_t end; /* the node after it and all that is in it */
} gs_node;

enum { GS_MOST_UNITS = 16 };

struct gs_program {
    struct {
        gs_unit *data;
        size_t count, capacity;
    } units;
    struct {
        gs_node *data;
        size_t count, capacity;
    } nodes;
    int64_t issue; /* warps that may be selected in a cycle */
    int64_t warps; /* that the file speaks of; 0: none */
    bool is_paper; /* the program and the SM of the paper, `repetitions` times */
    int64_t repetitions;
};

/* Reads a program (schema gridsmith.program/1) from a value of JSON, or from the one value of an input. */
gs_program *gs_program_read(const gs_json *json, gs_error *error);
gs_program *gs_program_input(gs_input *input, gs_error *error);

/* One line of JSON, without the newline. */
void gs_program_text(const gs_program *program, gs_text *text);

gs_program *gs_program_copy(const gs_program *program, gs_error *error);
bool gs_program_same_sm(const gs_program *a, const gs_program *b);
bool gs_program_same(const gs_program *a, const gs_program *b); /* also what the warps do */

/* What one warp does in all. GS_E_UNSUPPORTED where that is more than 2^60. */
typedef struct gs_totals {
    int64_t instructions, latency;
    int64_t on_unit[GS_MOST_UNITS]; /* instructions on each unit */
} gs_totals;

gs_code gs_program_totals(const gs_program *program, gs_totals *totals, gs_error *error);

/* The program with its repetitions written out. A warp goes through phases 0 to `phases`: one a cycle of latency, and
   the last is its end. It waits in the first phase of each instruction and passes the others by itself. */
typedef struct gs_flat {
    const gs_program *program;
    int32_t instructions, phases;
    int32_t *start;       /* of each instruction: its first phase */
    int16_t *unit;        /* of each instruction */
    char *letter;         /* of each instruction */
    int32_t *sub_block;   /* of each instruction, from 0: fairness looks at this */
    int32_t *instruction; /* of each phase: the one that waits here, or is under way */
} gs_flat;

enum { GS_MOST_PHASES = 60000 };

/* GS_E_UNSUPPORTED: longer than GS_MOST_PHASES. */
gs_code gs_flat_make(gs_flat *flat, const gs_program *program, gs_error *error);
void gs_flat_clear(gs_flat *flat);

/* ---- bounds in closed form ---- */

/* The paper's formula: for the warps of one SM, and for a kernel as the maximum over its SMs. */
gs_code gs_formula_cycles(int64_t warps, int64_t repetitions, int64_t *cycles, gs_error *error);
gs_code gs_formula_kernel(const int64_t *warps, size_t sms, int64_t repetitions, int64_t *cycles, gs_error *error);

/* The latest end of `warps` warps that start together, under any work-conserving schedule. */
gs_code gs_proven_cycles(const gs_program *program, int64_t warps, int64_t *cycles, gs_error *error);

/* The general theorem, for warps of several programs on one SM that come and go as they like: from the start of a warp
   of `program` to its end, while at most `others[i]` other warps of `programs[i]` are on the SM at some time. */
gs_code gs_proven_among(const gs_program *program, const gs_program *const *programs, const int64_t *others,
                        size_t count, int64_t *cycles, gs_error *error);

/* Parts of it, which the search uses for states: can a unit be full although not all are selected that may be; and the
   cycles in which the latter stops a warp, after `instructions` of others and what each unit was found to delay. */
bool gs_unit_can_fill(const gs_program *program, size_t unit);
int64_t gs_issue_delay(const gs_program *program, int64_t instructions, const int64_t *unit_delays);

/* a * b / c, rounded down, and sums. False: it is more than GS_MOST_CYCLES. */
#define GS_MOST_CYCLES ((int64_t)1 << 60)
bool gs_scale(int64_t a, int64_t b, int64_t c, int64_t *result);
bool gs_plus(int64_t *sum, int64_t more);
gs_code gs_fail_large(gs_error *error);

/* The unit v of the second theorem of docs/bounds.md, or -1: the program or the SM is not of its shape. */
int gs_proven_bottleneck(const gs_program *program);

/* ---- schedules ---- */

typedef struct gs_schedule {
    int64_t warps, instructions, cycles;
    int32_t *issued; /* the cycle, from 1, of each instruction of the first warp, then of the second, ... */
} gs_schedule;

/* Who goes first where not all can: the warps by number (Figure 3a), or those that have done least (Figure 3b). */
typedef enum gs_order_rule { GS_WARP_BY_WARP, GS_IN_TURN } gs_order_rule;

gs_code gs_schedule_play(const gs_flat *flat, int64_t warps, gs_order_rule rule, bool fair, gs_schedule *schedule,
                         gs_error *error);
void gs_schedule_clear(gs_schedule *schedule);

/* Rows of letters, one a warp, with a line of cycles below: as in Figure 3. */
void gs_schedule_text(const gs_schedule *schedule, const gs_flat *flat, gs_text *text);

/* ---- the exact worst case ---- */

typedef struct gs_search_options {
    bool fair;                                                   /* instructions of an earlier sub-block go first */
    int64_t memory_bytes;                                        /* the search stops there; 0: GS_SEARCH_BYTES */
    void (*progress)(void *user, int64_t states, int64_t bytes); /* called now and then; may be NULL */
    void *user;
} gs_search_options;

#define GS_SEARCH_BYTES ((int64_t)2000 << 20)

enum { GS_SEARCH_WARPS = 64, GS_SEARCH_CYCLES = 4000 };

/* What a search found. */
typedef struct gs_worst {
    bool exact;           /* the search came to its end: `cycles` is the worst case. Otherwise it is at least that */
    int64_t cycles;       /* of the longest schedule that was found */
    int64_t states;       /* that were looked at */
    gs_schedule schedule; /* one that takes so long */
    char stopped[160];    /* why it did not come to its end, or "" */
} gs_worst;

gs_code gs_search(const gs_flat *flat, int64_t warps, const gs_search_options *options, gs_worst *worst,
                  gs_error *error);
void gs_worst_clear(gs_worst *worst);

/* ---- random programs ---- */

/* How far the proven bound is above the exact worst case: shares of the programs with a quotient of at most ... */
enum { GS_QUOTIENTS = 7 };
extern const double gs_quotients[GS_QUOTIENTS]; /* the last is for all that is above */

typedef struct gs_compared {
    int64_t programs, by_quotient[GS_QUOTIENTS], below; /* below: the bound was wrong */
    int64_t first_below;                                /* the index of such a program, or -1 */
    double worst, sum;
    int64_t worst_index;
} gs_compared;

/* A small program on a small SM, and how many warps, repeatable from seed and index. */
gs_program *gs_random_program(uint64_t seed, uint64_t index, int64_t *warps, gs_error *error);

gs_code gs_compare(uint64_t seed, int64_t from, int64_t count, gs_compared *compared, gs_error *error);

/* A change that should help, and makes the worst case later. */
typedef enum gs_relief { GS_FEWER_WARPS, GS_SHORTER, GS_FASTER_UNIT, GS_MORE_PLACES, GS_RELIEFS } gs_relief;

typedef struct gs_anomaly {
    gs_relief relief;
    bool one_order; /* later for one fixed order of the warps, not in the worst case */
    gs_program *before, *after;
    int64_t warps_before, warps_after, cycles_before, cycles_after;
} gs_anomaly;

const char *gs_relief_words(gs_relief relief);

/* Tries every relief on a program. True: an anomaly, which the caller clears. `one_order`: under the rule of Figure 3a
   alone, rather than in the worst case. */
bool gs_find_anomaly(const gs_program *program, int64_t warps, bool one_order, gs_anomaly *anomaly);
void gs_anomaly_clear(gs_anomaly *anomaly);

/* ---- from the placement to a run ---- */

typedef struct gs_kernel_bound {
    int64_t warps_per_block, blocks_per_sm; /* the latter on an empty SM */
    int64_t most_on_sm;                     /* blocks on one SM at a time */
    int64_t cycles;                         /* it has ended by then */
} gs_kernel_bound;

typedef struct gs_run_bound {
    bool at_once;             /* all blocks of the kernels that are on the GPU together start at once */
    bool one_stream;          /* kernels run one after the other */
    gs_kernel_bound *kernels; /* by launch */
    size_t count;
    int64_t cycles;         /* all have ended by then */
    int64_t formula_cycles; /* the paper's formula, or GS_NOT_KNOWN */
} gs_run_bound;

/* When the kernels of `run` have ended on `gpu`, at the latest, launched before any of their blocks ends. `programs`
   has the program of each launch, all for the same SM. GS_E_UNSUPPORTED: no bound is known for such a run. */
gs_code gs_bound_run(const gs_gpu *gpu, const gs_run *run, const gs_program *const *programs, gs_run_bound *bound,
                     gs_error *error);
void gs_run_bound_clear(gs_run_bound *bound);

/* The task on the CPU around the kernels: Figure 1(a) of the paper. */
typedef struct gs_task {
    int64_t before_ns, copy_in_ns; /* phase 1 */
    int64_t clock_mhz;             /* of the GPU, for phase 2: its lowest */
    int64_t copy_out_ns, after_ns; /* phase 3 */
} gs_task;

/* How long phase 2 takes and how long all three do. */
gs_code gs_response_ns(const gs_task *task, int64_t cycles, int64_t *gpu_ns, int64_t *response_ns, gs_error *error);

/* ---- a real SM ---- */

/* Something that was measured often, in thousandths of a cycle. */
typedef struct gs_range {
    int64_t least, median, most;
} gs_range;

enum { GS_M_COMPUTE, GS_M_LOAD, GS_M_STORE, GS_M_CLOCK, GS_M_CLASSES };
enum { GS_CLOCK_READINGS = 2 }; /* of a warp */

/* What the instructions of the paper's program take on a GPU. */
typedef struct gs_latencies {
    gs_range latency[GS_M_CLOCK]; /* of an instruction by itself: until the next one that needs its result */
    gs_range delay[GS_M_CLASSES]; /* that one instruction of another warp on the same SM causes */
    gs_range overhead;            /* of a warp: reading the clock, and what else is not in the above */
} gs_latencies;

extern const char *const gs_measured_classes[GS_M_CLASSES];

/* One configuration: so many blocks of so many warps, of which one SM had `on_sm`. */
typedef struct gs_sample {
    int32_t repeat, warps, on_sm, predicted_on_sm;
    int64_t blocks, cycles, skew;
} gs_sample;

typedef struct gs_measured {
    char *gpu, *uuid;
    int64_t seed;
    gs_latencies latencies;
    struct {
        gs_sample *data;
        size_t count, capacity;
    } samples;
} gs_measured;

void gs_measured_clear(gs_measured *measured);

/* The bound of a sample, in cycles, if the latencies are never longer than what was measured. */
int64_t gs_measured_bound(const gs_latencies *latencies, const gs_sample *sample);

/* gridsmith.measured/1: a line for the latencies and one for each sample. */
void gs_measured_text(const gs_measured *measured, gs_text *text);
gs_code gs_measured_read(const char *path, gs_measured *measured, gs_error *error);
gs_code gs_measured_input(gs_input *input, gs_measured *measured, gs_error *error);

#endif
