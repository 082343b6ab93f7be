/*
 * change.h: what the files about what-ifs share: a plan is the part of a program, operation by operation in the order
 * of the host, as it would be issued. Changes are made in the plan; a run is made of it, and played.
 */
#ifndef GS_CHANGE_H
#define GS_CHANGE_H

#include "explain.h"

typedef struct gs_issue_planned {
    size_t operation; /* of the recorded run */
    size_t step;
    int64_t gap_ns;     /* how long after the operation before it the host issues it */
    int64_t slack_ns;   /* of `waits_for_all`: how long after the end of all before it */
    int64_t at_ns;      /* so it is issued */
    bool waits_for_all; /* the host waited until all before it had ended */
    bool is_with_last;  /* issued by the same call as the one before: a node of a graph */
    bool is_chosen;     /* by the patterns of a change */
    const char *stream; /* NULL: a stream of its own */
    int32_t priority;
    int32_t blocks;           /* -1: as recorded; 0: as many as fill whole waves */
    int32_t registers;        /* 0: as recorded */
    int32_t carveout_percent; /* -1: as recorded */
    bool is_apart;            /* in the green context, where others are in the rest */
    size_t joins;             /* the number in the plan of another one that it waits for; SIZE_MAX: none */
} gs_issue_planned;

typedef struct gs_plan {
    gs_issue_planned *data;
    size_t count;
    size_t steps;
    bool has_next;      /* the last of them is the one after the part: it shows when the next step begins */
    gs_strings strings; /* names of streams */
    const gs_gpu *gpu;  /* another one; NULL: that of the recording */
    int32_t sms;        /* of a green context; 0: all */
    bool is_parted;     /* others than those that are apart have a green context of the rest */
    bool has_blocks;    /* some launches have another number of blocks */
    bool keeps_times;   /* they take as long as before: something else than SMs limits them */
    bool makes_graphs;  /* of steps that were none */
    bool is_never_late;
    bool is_beside;    /* operations may run side by side that did not before */
    bool is_mixed;     /* and so may kernels of different steps */
    bool is_reordered; /* others are served first: by order or priority */
} gs_plan;

/* A program repeats at least so often. */
enum { GS_FEWEST_STEPS = 3 };

#define GS_PROFILER_STEP "ProfilerStep" /* the range that the PyTorch profiler puts around a step */

/* How long the host took from the operation before a place of the order to the one there; 0: not known. */
int64_t gs_host_gap(const gs_run *run, const gs_sequence *order, size_t place);

/* Launches and copies are alike if these are equal. */
uint64_t gs_operation_kind(const gs_run *run, size_t operation);

/* The time of a step is taken from the end of the step with this number, from 0, to the end of the last one; an even
   number of steps where there are enough. */
static inline size_t gs_plan_timed_from(const gs_plan *plan) {
    return plan->steps % 2 ? (plan->steps > 4 ? 2 : 0) : 1;
}

/* The plan of a part as it was recorded, of at most `most_steps` steps. The caller clears it. */
gs_code gs_plan_of(const gs_recorded_program *program, size_t most_steps, gs_plan *plan, gs_error *error);
void gs_plan_clear(gs_plan *plan);

/* Makes one change. GS_E_USAGE: its pattern matches nothing. */
gs_code gs_plan_change(const gs_recorded_program *program, const gs_program_change *change, gs_plan *plan,
                       gs_error *error);

/* Sets `at_ns`. `ends_ns`: when each operation of the plan ends, for those that wait for all; NULL: not known yet. Sets
   `*has_moved` to whether a time has changed. */
void gs_plan_issue(gs_plan *plan, const int64_t *ends_ns, bool *has_moved);

/* How many launches of a step are of kernels that another GPU cannot run: they are made for another architecture, or
   need more than it has. */
int64_t gs_plan_foreign(const gs_recorded_program *program, const gs_plan *plan);

/* What kernels save that run side by side. */
typedef struct gs_side_by_side {
    int64_t saved_ns;
    int64_t known_ns, lost_ns; /* while two run that are a measured pair, and what is lost of that */
    int64_t risk_ns;           /* what others may lose at most */
} gs_side_by_side;

/* Of a run on `sms` SMs, which `timeline` shows; `played` has the times of launches alone. */
gs_code gs_side_by_side_of(const gs_recorded_program *program, const gs_run *run, const gs_timeline *played,
                           const gs_timeline *timeline, int32_t sms, gs_side_by_side *beside, gs_error *error);

/* The run of a plan. The caller frees it. `numbers`, which may be NULL: by number in the plan, its operation there. */
gs_run *gs_plan_run(const gs_recorded_program *program, const gs_plan *plan, size_t *numbers, gs_error *error);

#endif
