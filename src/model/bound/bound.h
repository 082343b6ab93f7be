/*
 * bound.h: the latest time at which work on an SM is done.
 *
 *   gs_program    what a warp does, instruction by instruction, and the units of the SM that it needs (program.c)
 *   gs_formula_   the formula of the finishing-time paper, for its one program (proven.c)
 *   gs_proven_    a bound for any program on any units, with its proof in docs/bounds.md (proven.c)
 *   gs_search     the exact worst case over all work-conserving schedules (search.c)
 *   gs_schedule one schedule, cycle by cycle, as in Figure 3 of the paper (schedule.c)
 *   gs_compare    the proven bound against the exact worst case on random programs; anomalies (compare.c)
 *   gs_run_bound  the bound of a whole run, from the placement of its blocks (placed.c)
 *   gs_body       what a warp of a compiled kernel does, as a tree (body.h, body.c)
 *   gs_bound_body the bound of a compiled kernel (demand.c, body_bound.c)
 *   gs_body_share what the bound of a compiled kernel consists of, and what would lower it (shares.c)
 *   gs_measured   latencies measured on a real SM, and the bound for them (measured.c)
 *
 * The model. A warp executes its instructions in order. In each cycle at most `issue` of the waiting warps are
 * selected. A selected warp takes one of the `warps` places of the unit that its instruction needs, holds it for the
 * `cycles` of the unit, and can continue after the `latency` of the instruction, which is not shorter. The scheduler is
 * work-conserving: it selects every warp for which there is a place. Nothing else is assumed about it. A fair scheduler
 * also prefers instructions of earlier sub-blocks.
 */
#ifndef GS_BOUND_H
#define GS_BOUND_H

#include "body.h"
#include "model/engine/engine.h"

/* ---- programs ---- */

/* A class of units of an SM. */
typedef struct gs_unit {
    char *name;
    int64_t warps;  /* its places: how many warps it serves at once */
    int64_t cycles; /* how long a warp holds its place */
} gs_unit;

#define GS_REPEAT (-1)

/* An instruction, or a repetition of the nodes after it, up to `end`. A program is a tree whose nodes are stored in
   order. */
typedef struct gs_node {
    int32_t unit; /* or GS_REPEAT */
    char letter;  /* that shows it in a schedule */
    int64_t latency, times;
    size_t end; /* the number of the first node after it and its body */
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
    int64_t issue; /* the most warps that are selected in a cycle */
    int64_t warps; /* `warps` of the file; 0: not given */
    bool is_paper; /* the program and the SM of the paper, with `repetitions` */
    int64_t repetitions;
};

/* Reads a program (schema gridsmith.program/1) from the one value of an input. */
gs_program *gs_program_input(gs_input *input, gs_error *error);

/* One line of JSON, without the newline. */
void gs_program_text(const gs_program *program, gs_text *text);

gs_program *gs_program_copy(const gs_program *program, gs_error *error);
bool gs_program_same_sm(const gs_program *a, const gs_program *b);
bool gs_program_same(const gs_program *a, const gs_program *b); /* the same instructions too */

/* The totals of one warp. GS_E_UNSUPPORTED: more than 2^60. */
typedef struct gs_totals {
    int64_t instructions, latency;
    int64_t on_unit[GS_MOST_UNITS]; /* instructions on each unit */
} gs_totals;

gs_code gs_program_totals(const gs_program *program, gs_totals *totals, gs_error *error);

/* The program with its repetitions unrolled. A warp goes through phases 0 to `phases`: one for each cycle of latency,
   and the last is its end. It waits to be selected in the first phase of each instruction; each other phase takes one
   cycle. */
typedef struct gs_flat {
    const gs_program *program;
    int32_t instructions, phases;
    int32_t *start;       /* of each instruction: its first phase */
    int16_t *unit;        /* of each instruction */
    char *letter;         /* of each instruction */
    int32_t *sub_block;   /* of each instruction, from 0; for fairness */
    int32_t *instruction; /* of each phase: the one that waits or executes in it */
} gs_flat;

enum { GS_MOST_PHASES = 60000 };

/* GS_E_UNSUPPORTED: longer than GS_MOST_PHASES. */
gs_code gs_flat_make(gs_flat *flat, const gs_program *program, gs_error *error);
void gs_flat_clear(gs_flat *flat);

static inline int32_t gs_flat_latency(const gs_flat *flat, int32_t instruction) {
    int32_t end = instruction + 1 < flat->instructions ? flat->start[instruction + 1] : flat->phases;
    return end - flat->start[instruction];
}

/* ---- bounds in closed form ---- */

/* The paper's formula: for the warps of one SM, and for a kernel as the maximum over its SMs. */
gs_code gs_formula_cycles(int64_t warps, int64_t repetitions, int64_t *cycles, gs_error *error);
gs_code gs_formula_kernel(const int64_t *warps, size_t sms, int64_t repetitions, int64_t *cycles, gs_error *error);

/* The latest end of `warps` warps that start together, under any work-conserving schedule. */
gs_code gs_proven_cycles(const gs_program *program, int64_t warps, int64_t *cycles, gs_error *error);

/* The general theorem, for warps of several programs on one SM that start and end at any time: the cycles from the
   start of a warp of `program` to its end, while at most `others[i]` other warps of `programs[i]` are ever on the SM.
 */
gs_code gs_proven_among(const gs_program *program, const gs_program *const *programs, const int64_t *others,
                        size_t count, int64_t *cycles, gs_error *error);

/* Parts of it that the search uses for states: whether a unit can be full in a cycle in which fewer than `issue` warps
   are selected; and the cycles in which a warp is not selected because `issue` others are, for `instructions` of others
   and the delays by each unit. */
bool gs_unit_can_fill(const gs_program *program, size_t unit);
int64_t gs_issue_delay(const gs_program *program, int64_t instructions, const int64_t *unit_delays);

/* a * b / c, rounded down; and `*sum` plus `more`. False: the result is more than GS_MOST_CYCLES. */
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

/* Which warps are selected first: by number (Figure 3a), or those that have executed the fewest instructions (Figure
   3b). */
typedef enum gs_order_rule { GS_WARP_BY_WARP, GS_ROUND_ROBIN_WARPS } gs_order_rule;

gs_code gs_schedule_play(const gs_flat *flat, int64_t warps, gs_order_rule rule, bool fair, gs_schedule *schedule,
                         gs_error *error);
void gs_schedule_clear(gs_schedule *schedule);

/* A row of letters for each warp, and a line of cycles below, as in Figure 3; in parts that fit `columns`, 0: whole. */
void gs_schedule_text(const gs_schedule *schedule, const gs_flat *flat, int columns, gs_text *text);

/* ---- the exact worst case ---- */

typedef struct gs_search_options {
    bool fair;                                                   /* instructions of an earlier sub-block go first */
    int64_t memory_bytes;                                        /* the most to use; 0: GS_SEARCH_BYTES */
    void (*progress)(void *user, int64_t states, int64_t bytes); /* called from time to time; may be NULL */
    void *user;
} gs_search_options;

#define GS_SEARCH_BYTES ((int64_t)2000 << 20)

enum { GS_SEARCH_WARPS = 64, GS_SEARCH_CYCLES = 4000 };

/* The result of a search. */
typedef struct gs_worst {
    bool exact; /* the search was completed: `cycles` is the worst case. Otherwise the worst case is at least that */
    int64_t cycles;       /* of the longest schedule that was found */
    int64_t states;       /* that were visited */
    gs_schedule schedule; /* one of that length */
    char stopped[160];    /* why the search was not completed, or "" */
} gs_worst;

gs_code gs_search(const gs_flat *flat, int64_t warps, const gs_search_options *options, gs_worst *worst,
                  gs_error *error);
void gs_worst_clear(gs_worst *worst);

/* ---- random programs ---- */

/* The proven bound over the exact worst case: programs are counted by the first of these that is not smaller. */
enum { GS_QUOTIENTS = 7 };
extern const double gs_quotients[GS_QUOTIENTS]; /* the last is larger than any */

typedef struct gs_compared {
    int64_t programs, by_quotient[GS_QUOTIENTS], below; /* below: the bound was wrong */
    int64_t first_below;                                /* the index of such a program, or -1 */
    double worst, sum;
    int64_t worst_index;
} gs_compared;

/* A random small program on a small SM, and a number of warps, repeatable from seed and index. */
gs_program *gs_random_program(uint64_t seed, uint64_t index, int64_t *warps, gs_error *error);

gs_code gs_compare(uint64_t seed, int64_t from, int64_t count, gs_compared *compared, gs_error *error);

/* An anomaly: a relief, which is a change that should help, makes the end later. */
typedef enum gs_relief { GS_FEWER_WARPS, GS_SHORTER, GS_FASTER_UNIT, GS_MORE_PLACES, GS_RELIEFS } gs_relief;

typedef struct gs_anomaly {
    gs_relief relief;
    bool one_order; /* the end is that of one fixed order of the warps, not the worst case */
    gs_program *before, *after;
    int64_t warps_before, warps_after, cycles_before, cycles_after;
} gs_anomaly;

const char *gs_relief_words(gs_relief relief);

/* Tries every relief on a program. True: found an anomaly, which the caller clears. `one_order`: in the order of Figure
   3a, not in the worst case. */
bool gs_find_anomaly(const gs_program *program, int64_t warps, bool one_order, gs_anomaly *anomaly);
void gs_anomaly_clear(gs_anomaly *anomaly);

/* ---- from the placement to a run ---- */

typedef struct gs_kernel_bound {
    int64_t warps_per_block, blocks_per_sm; /* blocks_per_sm: on an empty SM */
    int64_t most_on_sm;                     /* the most blocks on one SM at a time */
    int64_t cycles;                         /* by which it has ended */
} gs_kernel_bound;

typedef struct gs_run_bound {
    bool at_once;             /* all blocks of kernels that are on the GPU together start at once */
    bool one_stream;          /* kernels run one after the other */
    gs_kernel_bound *kernels; /* by launch */
    size_t count;
    int64_t cycles;         /* by which all have ended */
    int64_t formula_cycles; /* the paper's formula, or GS_NOT_KNOWN */
} gs_run_bound;

/* The latest end of the kernels of `run` on `gpu`, if all are launched before any of their blocks ends. `programs` has
   the program of each launch, all for the same SM. GS_E_UNSUPPORTED: no bound is known for such a run. */
gs_code gs_bound_run(const gs_gpu *gpu, const gs_run *run, const gs_program *const *programs, gs_run_bound *bound,
                     gs_error *error);
void gs_run_bound_clear(gs_run_bound *bound);

/* The least number of blocks of a kernel on an SM that has no headroom for another of them, if no other kernel is
   there. `is_alone`: and no other kernel was there before. */
int64_t gs_least_when_full(const gs_gpu *gpu, const gs_need *need, bool is_alone);

/* ---- compiled kernels ---- */

/* Which latencies count: the longest of each access, or, in the second of each two, what some in a chain take. */
typedef enum gs_latency_kind {
    GS_LATENCY_ALONE,
    GS_LATENCY_ALONE_REPEATED,
    GS_LATENCY_KEPT, /* alone, and the L2 has all that the kernel accesses */
    GS_LATENCY_KEPT_REPEATED,
    GS_LATENCY_BESIDE, /* beside others: with the delays by them, but not by the kernel itself */
    GS_LATENCY_BESIDE_REPEATED,
    GS_LATENCY_LOADED, /* under load: with all delays on units of the GPU */
    GS_LATENCY_REPEATED,
    GS_LATENCY_KINDS
} gs_latency_kind;

static inline bool gs_latency_is_repeated(gs_latency_kind kind) {
    return kind % 2 == 1;
}

/* What one warp asks of the machine, at most. */
typedef struct gs_demand {
    int64_t path_cycles;                        /* the longest chain of latencies from its start to its end, */
    int64_t burst_cycles;                       /* and what a chain of any number of warps takes beyond it, once */
    int64_t issue_millicycles;                  /* of its partition, until its units there are free again */
    int64_t after_issue_millicycles;            /* the part of it after the cycle of the issue */
    int64_t held_millicycles[GS_MACHINE_UNITS]; /* of the units of its SM and of the GPU */
    int64_t lines, constant_lines;              /* of instructions, and of constants: those that are fetched once */
    int64_t any_constants; /* that are read at places in registers, where they may also be counted line by line, once */
    bool has_barrier;
} gs_demand;

/* `keeps_constants`: each line of constants counts once, if all that the kernel may read are few enough; otherwise each
   read at a place in a register counts as one of a new line. Both hold. Under load the demand on units of the GPU is 0.
   GS_E_UNSUPPORTED: the machine has no row for a class, or more than 2^60 cycles. */
gs_code gs_demand_of(const gs_machine *machine, const gs_body *body, gs_latency_kind kind, bool keeps_constants,
                     gs_demand *demand, gs_error *error);

/* The latest end of a kernel that is launched on an idle GPU, and the parts of it. */
typedef struct gs_body_bound {
    int64_t cycles;       /* from the start of its first block to the end of its last */
    int64_t nanoseconds;  /* the same at the lowest clock, with the launch, */
    int64_t launch_ns;    /* which takes so long */
    int64_t path_cycles;  /* of one warp */
    int64_t burst_cycles; /* what loads and stores of the chain take beyond it, under load */
    int64_t chain_blocks; /* blocks that follow each other in the longest chain; 1: all start at once */
    int64_t block_cycles; /* starting and ending the blocks of the chain, and those before them on their SM */
    int64_t issue_cycles; /* of other warps in the partition */
    int64_t unit_cycles[GS_MACHINE_UNITS];
    int64_t fetch_cycles; /* lines of instructions and constants that are fetched for the first time */
    int64_t warps_per_block, blocks_per_sm, most_on_sm;
    bool at_once;         /* all blocks start at once */
    gs_latency_kind kind; /* the latencies that it has: those that give the lowest bound */
} gs_body_bound;

/* Without the launch. */
static inline int64_t gs_body_kernel_ns(const gs_body_bound *bound) {
    return bound->nanoseconds - bound->launch_ns;
}

/* `beside`: other programs may use other SMs, and latencies are those under load. Theorems 6 to 8 of docs/bounds.md. */
gs_code gs_bound_body(const gs_gpu *gpu, const gs_machine *machine, const gs_body *body, const gs_shape *shape,
                      int64_t blocks, bool beside, gs_body_bound *bound, gs_error *error);

/* ---- what the bound of a kernel consists of ---- */

/* A source line of a kernel, or where lines are not known the part of its code that begins at an offset. */
typedef struct gs_body_row {
    uint32_t line, offset; /* line 0: not known */
    int64_t instructions;  /* that a warp executes at most */
    int64_t saved_cycles;  /* by how much the bound would be lower without them; GS_NOT_KNOWN: not computed */
} gs_body_row;

/* A change of a loop or a branch. */
typedef struct gs_body_relief {
    size_t part; /* of the body: a loop with one round less, or a branch that is uniform */
    int64_t saved_cycles;
} gs_body_relief;

typedef struct gs_body_shares {
    struct {
        gs_body_row *data;
        size_t count, capacity;
    } rows; /* those that save most first, if there is a machine; else in the order of the code */
    struct {
        gs_body_relief *data;
        size_t count, capacity;
    } reliefs; /* those that save most first; none that saves nothing */
} gs_body_shares;

/* `bound` is that of the body; `machine` may be NULL: then nothing is known but instructions. */
gs_code gs_body_share(const gs_gpu *gpu, const gs_machine *machine, const gs_body *body, const gs_shape *shape,
                      int64_t blocks, const gs_body_bound *bound, gs_body_shares *shares, gs_error *error);
void gs_body_shares_clear(gs_body_shares *shares);

/* The task on the CPU around the kernels: Figure 1(a) of the paper. */
typedef struct gs_task {
    int64_t before_ns, copy_in_ns; /* phase 1 */
    int64_t clock_mhz;             /* phase 2: the lowest clock of the GPU */
    int64_t copy_out_ns, after_ns; /* phase 3 */
} gs_task;

/* The duration of phase 2, and of all three phases. */
gs_code gs_response_ns(const gs_task *task, int64_t cycles, int64_t *gpu_ns, int64_t *response_ns, gs_error *error);

/* ---- a real SM ---- */

/* Repeated measurements of one value, in thousandths of a cycle. */
typedef struct gs_range {
    int64_t least, median, most;
} gs_range;

enum { GS_M_COMPUTE, GS_M_LOAD, GS_M_STORE, GS_M_CLOCK, GS_M_CLASSES };
enum { GS_CLOCK_READINGS = 2 }; /* by each warp */

/* The times of the instructions of the paper's program on a GPU. */
typedef struct gs_latencies {
    gs_range latency[GS_M_CLOCK]; /* of an instruction alone, until the next one that needs its result */
    gs_range delay[GS_M_CLASSES]; /* caused by one instruction of another warp on the same SM */
    gs_range overhead;            /* of a warp: reading the clock, and everything else */
} gs_latencies;

extern const char *const gs_measured_classes[GS_M_CLASSES];

/* One measured kernel: `blocks` blocks of `warps` warps. The fullest SM had `on_sm` of the blocks. */
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

/* The bound for a sample, in cycles. It holds if latencies are never longer than those measured. */
int64_t gs_measured_bound(const gs_latencies *latencies, const gs_sample *sample);

/* gridsmith.measured/1: a line for the latencies and one for each sample. */
void gs_measured_text(const gs_measured *measured, gs_text *text);
/* The same lines one by one, as runs of a campaign, with their numbers and without the bound. */
void gs_measured_head_text(const gs_measured *measured, int64_t number, gs_text *text);
void gs_sample_text(const gs_sample *sample, int64_t number, gs_text *text);
/* Also reads the file of such a campaign. */
gs_code gs_measured_read(const char *path, gs_measured *measured, gs_error *error);
gs_code gs_measured_input(gs_input *input, gs_measured *measured, gs_error *error);

#endif
