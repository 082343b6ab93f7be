/*
 * explain.h: what limits a recorded program, and what would help.
 *
 *   chosen_part.c    the part of a recording to explain
 *   steps.c          the steps of a program that repeat
 *   equal_parts.c    how many repeated parts make a step
 *   ranges.c         the ranges that a program names: the part of one, and the time of each
 *   account.c        how much of that time the GPU was busy, and what it waited for in the rest
 *   kernel_rows.c    the kernels by time: waves, occupancy, waits
 *   alone.c          how long launches take alone
 *   what_if.c        changes of a program, read from words: "graph", "streams=2"
 *   change.c         changes made in a plan (change.h): the part, operation by operation, as it would be issued
 *   changed_plan.c   when the host issues the operations of a plan; and its run
 *   outcome.c        the changed program, played
 *   side_by_side.c   what kernels save by running side by side, and lose of that by measured pairs
 *   advice.c         the changes that would help, the largest gain first
 *   explained.c      all of it
 *   requests.c       the requests of a recording
 *   beside.c         when a request is done at the latest, beside best-effort work
 *
 * Times of the recording are used as they are. Only what-ifs are played by the engine.
 */
#ifndef GS_EXPLAIN_H
#define GS_EXPLAIN_H

#include "model/timeline/timeline.h"

/* ---- the part ---- */

/* Operations in the order in which the host issued them. */
typedef struct gs_sequence {
    size_t *data; /* numbers of operations: launches, then copies */
    size_t count;
} gs_sequence;

gs_code gs_sequence_of(const gs_run *run, gs_sequence *order, gs_error *error);
void gs_sequence_clear(gs_sequence *order);

/* What shows that a step is several repeated parts. */
typedef enum gs_parts_by {
    GS_PARTS_BY_RANGES, /* the program names each step */
    GS_PARTS_BY_PAUSES, /* the host pauses longer after a step */
    GS_PARTS_BY_WORDS   /* --range every=N */
} gs_parts_by;

/* The operations from `first` to before `last` of the order. They are steps of `period` operations each; 0: nothing
   repeats. The part begins when the first of its operations starts, and ends when the step after it starts, or when all
   its operations have ended. GS_NO_TIME: none of them was measured. */
typedef struct gs_part {
    size_t first, last, period;
    int64_t from_ns, to_ns;
    size_t ranges, range; /* it is the range of this number, from 1, of those of a name; 0: steps, or not by a name */
    const char *name;     /* of that range */
    bool is_inside;       /* the steps are inside one step of the profiler: parts of it, such as layers */
    size_t equal_parts;   /* of a step, which repeats inside; 0 or 1: it does not, as far as is known */
    gs_parts_by parts_by; /* this is known by that */
} gs_part;

static inline size_t gs_part_steps(const gs_part *part) {
    return part->period ? (part->last - part->first) / part->period : 0;
}

/* Finds the steps that repeat, without those at the beginning that are slower. If there are none, or they are a small
   part of the program, it is a step of the PyTorch profiler, or all. */
gs_code gs_part_find(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error);

/* A part by words: "all", "steps=A-B" of the steps that repeat, "every=N": N repeated parts make a step, "ms=A-B" since
   the start of the recording, "nvtx=NAME" for a range that the program named. */
gs_code gs_part_read(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part, gs_error *error);

/* Whether words are a part of some recording. */
gs_code gs_part_check(const char *words, gs_error *error);

/* The part that a named range is: "NAME" or "NAME:3". If ranges of the name follow each other and are alike, they are
   steps; otherwise it is the one with the number, or the one of median length. GS_E_USAGE: there is none. */
gs_code gs_part_of_range(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part,
                         gs_error *error);

/* Sets `*is_inside` to whether two steps of a part are inside one range of a name. */
gs_code gs_part_is_inside(const gs_run *run, const gs_sequence *order, const char *name, const gs_part *part,
                          bool *is_inside, gs_error *error);

/* The steps that repeat, without those at the beginning that are slower; `period` 0: there are none. A step is
   `equal_parts` repeated parts; 0: as many as the recording shows. */
gs_code gs_part_repeated(const gs_run *run, const gs_sequence *order, size_t equal_parts, gs_part *part,
                         gs_error *error);

/* The shortest steps that repeat, as far as they do; `period` 0: there are none. */
gs_code gs_part_shortest(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error);

/* Begins steps where the host pauses, leaves slow ones at the beginning and the last one out, and sets the times. */
gs_code gs_part_settle(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error);

/* The distance at which ranges of one name begin in a part, a multiple of its period, and the first beginning. That of
   `name` if it has one, otherwise the longest of all names; 0: there is none. */
gs_code gs_ranges_distance(const gs_run *run, const gs_sequence *order, const gs_part *part, const char *name,
                           size_t *distance, size_t *from, gs_error *error);

/* Sets the times of a part: from its first start to its last end; or to the start of the step after it. */
void gs_part_set_times(const gs_run *run, const gs_sequence *order, gs_part *part);
void gs_part_set_next(const gs_run *run, const gs_sequence *order, gs_part *part);

/* Leaves the last step out, because it is not known when the next one would have started; and sets the times. */
void gs_part_cut_last(const gs_run *run, const gs_sequence *order, gs_part *part);

/* How much of the time of an operation is within the span of a part. */
int64_t gs_part_ns(const gs_part *part, const gs_issue *issue);

/* The ranges of a name in which launches of a part were issued. */
typedef struct gs_range_row {
    const char *name; /* without numbers after # */
    int64_t ranges, launches, host_ns, kernel_ns;
} gs_range_row;

typedef struct gs_range_rows {
    gs_range_row *data; /* the longest time of kernels first */
    size_t count, capacity;
    gs_strings names;
} gs_range_rows;

/* The caller frees data and names. */
gs_code gs_range_rows_of(const gs_run *run, const gs_sequence *order, const gs_part *part, gs_range_rows *rows,
                         gs_error *error);

/* ---- the account ---- */

/* Why no kernel ran. */
typedef enum gs_idle {
    GS_IDLE_COPY,  /* a copy or memset ran */
    GS_IDLE_HOST,  /* the host had not issued the next operation, or that had not reached the GPU */
    GS_IDLE_GAP,   /* the next operation was ready to start: what passes from one to the next */
    GS_IDLE_OTHER, /* the next operation waited longer than that: for something that is not recorded */
    GS_IDLES
} gs_idle;

/* "copies", "host" and so on, as in files. */
const char *gs_idle_name(gs_idle idle);

/* busy_ns and all of idle_ns together are span_ns. */
typedef struct gs_time_account {
    int64_t span_ns, busy_ns, idle_ns[GS_IDLES];
    int64_t kernel_ns;       /* of all kernels together, within the span: more than busy_ns if they run side by side */
    int64_t alone_ns;        /* the same, as if each had the GPU to itself */
    double filled;           /* of the SM time while busy: the share that is taken by blocks, at most 1 */
    int64_t launches, small; /* launches; those that do not fill the GPU once */
    int64_t copies, memsets;
} gs_time_account;

/* `played`: a timeline of the run, for its pace and how much of the GPU launches take. It need not be played. */
gs_code gs_time_account_of(const gs_run *run, const gs_sequence *order, const gs_part *part, const gs_timeline *played,
                           gs_time_account *account, gs_error *error);

/* ---- kernels ---- */

typedef struct gs_kernel_row {
    const char *kernel, *name; /* as in the run; short */
    int64_t launches;
    int64_t ns;       /* of its launches together, within the span of the part */
    int64_t whole_ns; /* also outside of it */
    int64_t least_blocks, most_blocks;
    double waves;     /* of blocks on the GPU, on average */
    double tail;      /* the share of SM time that is lost because the last wave is not full; on average over time */
    double occupancy; /* warps, of those that an SM takes, if its blocks fill SMs */
    unsigned limits;  /* GS_LIMIT_ bits */
    int64_t waits;    /* launches that waited for something else than the kernel before them in their stream */
    int64_t wait_ns;  /* the sum of the most frequent reason */
    gs_reason reason; /* that one */
    size_t behind;    /* the launch that the longest such wait was for; SIZE_MAX: none */
    gs_lack lack;     /* what it lacked then */
} gs_kernel_row;

typedef struct gs_kernel_rows {
    gs_kernel_row *data; /* the longest total first */
    size_t count, capacity;
} gs_kernel_rows;

/* `followed`: the timeline in which each launch is ready when it was in the recording. The caller frees data. */
gs_code gs_kernel_rows_of(const gs_gpu *gpu, const gs_run *run, const gs_sequence *order, const gs_part *part,
                          const gs_timeline *followed, const gs_short_names *names, gs_kernel_rows *rows,
                          gs_error *error);

/* ---- what if ---- */

typedef enum gs_program_change_kind {
    GS_CHANGE_GRAPH,    /* each step is a CUDA graph */
    GS_CHANGE_HOST,     /* the host is faster, or never late */
    GS_CHANGE_STREAMS,  /* steps on several streams in turn; or some operations on a stream of their own */
    GS_CHANGE_ORDER,    /* some operations are issued as early as possible */
    GS_CHANGE_PRIORITY, /* of some launches */
    GS_CHANGE_SMS, /* a green context with a number of SMs: for all, or for some launches, and the rest for the others
                    */
    GS_CHANGE_BLOCKS,    /* of some launches, which do the same work */
    GS_CHANGE_REGISTERS, /* per thread, of some launches */
    GS_CHANGE_CARVEOUT,  /* of some launches, in percent */
    GS_CHANGE_GPU        /* another GPU */
} gs_program_change_kind;

typedef struct gs_program_change {
    gs_program_change_kind kind;
    double factor;      /* HOST: how many times as fast; 0: never late */
    int32_t number;     /* STREAMS: 0: by patterns; PRIORITY, SMS, BLOCKS (0: full waves), REGISTERS, CARVEOUT */
    char patterns[200]; /* of kernels, as of a shell, separated by +; "copy" and "memset" are copies and memsets */
    char words[240];    /* as it was given */
} gs_program_change;

enum { GS_WHAT_IF_CHANGES = 8 };

/* Changes that are made together. */
typedef struct gs_what_if {
    gs_program_change changes[GS_WHAT_IF_CHANGES];
    size_t count;
    const gs_gpu *gpu; /* another one; NULL: the same */
} gs_what_if;

/* "graph", "host=never-late", "host=2x", "streams=2", "streams=*softmax*+copy", "order=*nccl*:first",
   "priority=*nccl*:-1", "sms=112", "sms=*nccl*:16", "blocks=*gemm*:116", "blocks=*gemm*:full", "registers=*gemm*:64",
   "carveout=*copy*:100", "gpu=a100", or several of these, separated by commas. */
gs_code gs_what_if_read(const char *words, gs_what_if *what_if, gs_error *error);

/* The name after "gpu=", or NULL. The reader opens the GPU, and sets `gpu`. */
const char *gs_what_if_gpu(const gs_what_if *what_if);

/* By launch: how long it takes alone; 0: not known. `played`: the timeline of the run; `freed`: see gs_freed_times. The
   caller frees it. NULL: out of memory. */
int64_t *gs_alone_times(const gs_run *run, const gs_timeline *played, const gs_freed *freed, gs_error *error);

/* Two kernels that were measured side by side. */
typedef struct gs_measured_pair {
    const char *first, *second; /* names of kernels, or patterns of them */
    double loss; /* of the time that they could save at most, the shorter of their times: what is lost, 0 to 1 */
} gs_measured_pair;

typedef struct gs_measured_pairs {
    gs_measured_pair *data;
    size_t count, capacity;
} gs_measured_pairs;

/* A program and its GPU, as it was recorded. */
typedef struct gs_recorded_program {
    const gs_gpu *gpu, *recorded_on;
    const gs_run *run;
    const gs_sequence *order;
    const gs_part *part;
    const gs_pace *pace;
    const gs_freed *freed;       /* by operation: see gs_freed_times */
    const gs_short_names *names; /* patterns match these too; or NULL */
    const int64_t *alone;        /* by launch: see gs_alone_times; NULL: launches take as long as measured */
    double slower;               /* how many times as long they take without a recorder; 0: as long */
    gs_measured_pairs pairs;     /* may be empty */
    bool is_host_bound;          /* the GPU waits for the host for more than a fifth of the time */
    bool never_waits;            /* the host does not wait for the GPU, though it looks so in the recording */
    int64_t step_ns; /* how long a step takes without a recorder, which slows the host down; 0: as recorded */
} gs_recorded_program;

/* Launches that never start, so that what was played has no end: clusters, mostly, that fit nowhere in the SMs they may
   use. */
typedef struct gs_stuck {
    const char *kernel; /* its short name, of the program; NULL: all launches end */
    int64_t launches;   /* of it, in a step */
    int64_t behind;     /* other operations of the step that never end either */
    int32_t cluster;    /* blocks of a cluster; 1: it has none */
} gs_stuck;

/* "4 launches of a step never start: NAME (clusters of 8 blocks); ..." */
void gs_put_stuck(gs_text *text, const gs_stuck *stuck);

/* How long a step takes, or the part if nothing repeats. The true time is between the two, if kernels that would run
   side by side do not slow each other down (`least`), or so much that nothing is gained (`most`). */
typedef struct gs_outcome {
    int64_t least_ns, most_ns;
    double loss;      /* of what is saved: what kernels lose that slow each other down; -1: not known */
    int64_t saved_ns; /* by kernels side by side, in a step */
    int64_t unscheduled_ns, unscheduled_saved_ns; /* the same by the null model: no scheduler, and SMs without end */
    int64_t foreign; /* launches of a step that another GPU cannot run: their kernels are made for other GPUs */
    gs_stuck stuck;  /* then there are no times */
} gs_outcome;

/* `what_if` NULL: as recorded; then `base` is NULL. Otherwise that one: where kernels ran side by side in it, it shows
   how they slow each other down, and there is no interval. */
gs_code gs_try(const gs_recorded_program *program, const gs_what_if *what_if, const gs_outcome *base,
               gs_outcome *outcome, gs_error *error);

/* Learns from how long a step really takes how kernels that run side by side slow each other down: `loss` of `base`. */
void gs_outcome_learn(gs_outcome *base, int64_t step_ns);

/* The first steps of a part with the changes made, as a run that can be played. The caller frees it. GS_E_USAGE: it
   would never end. */
gs_run *gs_changed_run(const gs_recorded_program *program, const gs_what_if *what_if, gs_error *error);

/* The same for a recording, of which the steps are found. */
gs_run *gs_changed_part(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const char *range,
                        const gs_what_if *what_if, gs_error *error);

/* ---- advice ---- */

typedef struct gs_advice {
    char words[240];           /* as --what-if takes it; "" if --what-if cannot make it */
    char sentence[400];        /* what to do */
    int64_t least_ns, most_ns; /* a step then takes */
} gs_advice;

typedef struct gs_advices {
    gs_advice *data; /* the largest gain first */
    size_t count, capacity;
} gs_advices;

/* ---- all of it ---- */

/* Kernels side by side: the time that this saves in a step, or in the part. */
typedef struct gs_overlap_account {
    int64_t achieved_ns;
    int64_t by_dependencies_ns; /* if the host were never late, and SMs without end */
    int64_t by_resources_ns;    /* if the host were never late, on this GPU */
} gs_overlap_account;

typedef struct gs_explained {
    const gs_gpu *recorded_on; /* what is not played is described for this GPU; belongs to the caller */
    gs_sequence order;
    gs_part part;
    gs_pace pace;
    gs_time_account account;
    gs_short_names names;
    gs_kernel_rows kernels;
    gs_range_rows ranges;
    gs_overlap_account overlap;
    int64_t recorded_ns; /* a step; the part if nothing repeats */
    int64_t step_ns;     /* the same without a recorder, if that is known */
    int64_t played_ns;   /* the same, played without a change */
    bool is_unlike; /* that differs so much from step_ns that no change can be judged: there is no advice. Not if it
                       is played on another GPU */
    double loss;    /* see gs_outcome */
    gs_advices advices;
    gs_outcome *outcomes; /* of the what-ifs that were asked for */
    size_t outcome_count;
} gs_explained;

typedef struct gs_explain_options {
    const char *range; /* NULL: the steps that repeat */
    int64_t step_ns;   /* how long a step takes without a recorder; 0: as recorded */
    gs_measured_pairs pairs;
    const gs_what_if *what_ifs;
    size_t what_if_count;
    bool has_advice;
} gs_explain_options;

/* GS_E_USAGE: the run has no launches with start_us and end_us, or never ends on `gpu`. The caller clears the result.
 */
gs_code gs_explain(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const gs_explain_options *options,
                   gs_explained *explained, gs_error *error);
void gs_explained_clear(gs_explained *explained);

/* ---- a request beside best-effort work ---- */

/* What a request can lose to one operation. Its strings belong to the run. */
typedef struct gs_request_piece {
    const char *kernel;
    int64_t ns;                /* how long it takes */
    int64_t block_ns, exit_ns; /* its longest block, and the others coming and going, if it can be stopped */
    int64_t lost_ns;
    bool is_stopped;
} gs_request_piece;

/* The requests of a recording. */
typedef struct gs_requests {
    int64_t count, longest_ns;
    int64_t host_ns;  /* of the longest one: the GPU had none of its work */
    int64_t every_ns; /* the least time from the begin of one to that of the next; 0: not known */
} gs_requests;

/* A request is a range with this name; NULL: a step that repeats. GS_E_USAGE: there is none with times. */
gs_code gs_requests_find(const gs_run *run, const char *range, gs_requests *requests, gs_error *error);

typedef struct gs_request_bound {
    gs_requests requests;
    int64_t streams, stop_ns; /* of the work, and how long it takes to stop them */
    int64_t launch_ns, response_ns;
    gs_request_piece stopped, unstopped; /* the longest ones; ns 0: none */
} gs_request_bound;

typedef struct gs_beside_options {
    const gs_machine *machine;
    const char *range;            /* requests are the ranges of this name; NULL: the steps that repeat */
    int64_t ahead_ns;             /* of work between two waits */
    int64_t every_ns;             /* the least time between two requests; 0: that of the recording */
    bool has_guards;              /* kernels are stopped between blocks where that is possible */
    const char *const *unstopped; /* patterns of names of kernels that cannot be stopped, and NULL; or NULL */
} gs_beside_options;

/* GS_E_USAGE: a run has no measured times. */
gs_code gs_bound_request(const gs_gpu *gpu, const gs_run *request, const gs_run *work, const gs_beside_options *options,
                         gs_request_bound *found, gs_error *error);

#endif
