/*
 * timeline.h: runs and recorded programs, played: what happens when, what waits for what, and how that compares with
 * what was measured.
 *
 *   gs_predict (public)  opens the GPU that a run was recorded on, if it is another one, and predicts (recorded_on.c)
 *   gs_predict_on        plays a run and records what happens (predict.c)
 *   gs_predict_recorded  follows a recording (unsaid.c)
 *   gs_predict_possible  all that can happen (possible.c)
 *   gs_timeline_play     plays a recorded program (timeline_play.c; durations.c, pace.c and freed.c take from its
 *                        recording what no model can know)
 *   gs_timeline_waits    what its launches waited for (waits.c)
 *   gs_program_compare   the prediction beside the measurement (overlaps.c, unordered.c) and beside a null model
 *                        (unscheduled.c)
 */
#ifndef GS_TIMELINE_H
#define GS_TIMELINE_H

#include "model/engine/engine.h"

/* ---- prediction ---- */

/* The GPU that a run names, if it is another one than `gpu` or has another number of SMs; the caller frees it. NULL: it
   is this one, or not known. For those who read runs: all functions below are given the GPU, and open nothing. */
gs_gpu *gs_gpu_recorded_on(const gs_gpu *gpu, const gs_run *run);

/* As gs_predict, for a run that was recorded on `recorded_on`: if it is a recorded program, that decides how long
   blocks run. */
gs_run *gs_predict_on(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                      const gs_predict_options *options, gs_error *error);

/* The same without lists: what a table shows of it (gs_brief). The cost depends on how many different waves there are,
   not on the number of blocks. */
gs_run *gs_predict_brief(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                         const gs_predict_options *options, gs_error *error);

/* What the model says of a recording that it follows: to be compared with it. Of the predictions that differ in what
   the recording does not say (unsaid.c), it is the one that agrees best. */
gs_run *gs_predict_recorded(const gs_gpu *gpu, const gs_run *recorded, gs_error *error);
/* The same. `*changes`: how many things are not as without a recording; 0: all that is not said is as listed. */
gs_run *gs_predict_recorded_as(const gs_gpu *gpu, const gs_run *recorded, int *changes, gs_error *error);

/* What a recording does not say, by launch. */
typedef struct gs_unsaid {
    size_t *came;    /* the launch that comes when this one is launched: itself, or another node of its graph */
    bool *is_normal; /* it waits for all launches before it in its stream, also if it has an entry for the last one */
    uint8_t *ways;   /* by launch, then by copy: gs_way */
    bool *stays;     /* by copy, GS_MAX_SMS each: whether its blocks on an SM stay, if it goes the way GS_WAY_SOME */
} gs_unsaid;

gs_run *gs_predict_unsaid(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options,
                          const gs_unsaid *unsaid, gs_error *error);

/* All predictions of a run that differ in what the GPU does not always repeat (possible.c). */
typedef struct gs_possible {
    gs_run **data; /* the first is the usual one */
    size_t count, capacity;
    bool is_cut; /* there are more */
} gs_possible;

/* GS_E_USAGE: the run has durations. The caller frees the predictions. */
gs_code gs_predict_possible(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options,
                            gs_possible *possible, gs_error *error);
void gs_possible_free(gs_possible *possible);

/* ---- timelines: when the launches and copies of a program run, and what they wait for ---- */

/* How fast the host and the GPU hand launches on. */
typedef struct gs_pace {
    int64_t latency_ns; /* see gs_engine_hooks */
    gs_gaps gaps;
} gs_pace;

/* The pace of a recording. What it does not show has a usual value. */
gs_code gs_pace_of(const gs_run *run, gs_pace *pace, gs_error *error);

/* When an operation was ready, and what it waited for last (see gs_course). */
typedef struct gs_freed {
    int64_t ready_ns, freed_ns;
    size_t freed_by;
    bool is_by_event;
} gs_freed;

/* By operation: when it was ready in the recording, by its pace. The caller frees it. NULL: out of memory. */
gs_freed *gs_freed_times(const gs_run *run, const gs_pace *pace, gs_error *error);

/* How long a launch or copy was measured to run; 0: it was not. */
static inline int64_t gs_measured_ns(const gs_issue *issue) {
    bool is_measured = issue->start_ns != GS_NO_TIME && issue->end_ns != GS_NO_TIME && issue->end_ns > issue->start_ns;
    return is_measured ? issue->end_ns - issue->start_ns : 0;
}

/* Whether an operation started before what is before it in its stream had ended, as a programmatic launch may: until
   then it prepared itself, or waited. */
static inline bool gs_started_early(const gs_issue *issue, const gs_freed *freed) {
    return gs_measured_ns(issue) && freed->freed_ns != GS_NO_TIME && freed->freed_ns > issue->start_ns &&
           freed->freed_ns < issue->end_ns;
}

/* How long an operation ran after what it waits for had ended; 0: it was not measured. */
static inline int64_t gs_own_ns(const gs_issue *issue, const gs_freed *freed) {
    return gs_started_early(issue, freed) ? issue->end_ns - freed->freed_ns : gs_measured_ns(issue);
}

/* A launch or a copy of a program. */
typedef struct gs_operation {
    gs_course course;
    /* Of launches: */
    int64_t block_ns;  /* how long each block runs */
    int64_t alone_ns;  /* how long the launch runs alone */
    int64_t waves;     /* of blocks, alone on the GPU of the recording */
    double share;      /* of that GPU which its blocks take; more than 1 if there are several waves */
    bool is_crowded;   /* it ran beside others that may not have left headroom for all its blocks */
    bool is_shared;    /* it ran beside others when it was measured, so that its time contains what they did to it */
    bool is_borrowed;  /* alone_ns is the median of other launches of the kernel that ran alone */
    bool is_unknown;   /* nothing says how long it runs */
    uint8_t lack;      /* gs_lack: why it did not start when it was its turn */
    uint8_t rest_lack; /* why its other blocks did not start when the first had */
    size_t held_by, rest_held_by; /* the launches that held it; SIZE_MAX: none */
} gs_operation;

typedef struct gs_timeline {
    gs_operation *operations; /* of launches, then of copies */
    size_t count;
    gs_pace pace;
    int64_t end_ns; /* the last end */
} gs_timeline;

/* How many blocks of a launch the empty GPU holds at once. GS_E_USAGE: it can never run there. */
gs_code gs_launch_capacity(const gs_gpu *gpu, const gs_launch *launch, int64_t *capacity, gs_error *error);

/* A timeline with an operation for each launch and copy, and all that is taken from the recording before it is played:
   the pace (that of the recording, if `pace` is NULL) and how long blocks run. The caller clears it. */
gs_code gs_timeline_prepare(const gs_gpu *recorded_on, const gs_run *run, const gs_pace *pace, gs_timeline *timeline,
                            gs_error *error);

/* Plays a program on `gpu`. How long blocks run is taken from its recording on `recorded_on`. `pace` NULL: that of the
   recording. The caller clears the timeline. */
gs_code gs_timeline_play(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const gs_pace *pace,
                         gs_timeline *timeline, gs_error *error);
void gs_timeline_clear(gs_timeline *timeline);

/* Plays a program of which `prepared` is a timeline, played or not, but each launch is ready when it was in the
   recording: when what it waits for had ended there, and the gap had passed. So what differs does not add up. The
   caller clears the timeline. */
gs_code gs_timeline_follow(const gs_gpu *gpu, const gs_run *run, const gs_timeline *prepared, gs_timeline *timeline,
                           gs_error *error);

/* The null model of a program of which `played` is the timeline: no scheduler and no end of SMs. An operation starts
   when it has reached the GPU, what it waits for has ended, and the gap has passed, and takes the time that it takes
   alone. `follows`: what it waits for ends as in the recording. What a prediction explains better than this is
   explained by the queue and the SMs. The caller clears the timeline. */
gs_code gs_timeline_unscheduled(const gs_run *run, const gs_timeline *played, bool follows, gs_timeline *timeline,
                                gs_error *error);

/* Whether a run is a program with a timeline: launches that were measured as a whole; or durations, and copies,
   dependencies or host times; or copies only. */
bool gs_run_is_program(const gs_run *run);

/* What is known of a prediction besides the run itself. */
typedef struct gs_played {
    gs_timeline timeline; /* of a run with durations; otherwise it has no operations */
    uint8_t **headroom;   /* by launch, then by block: see gs_engine_headroom, at most 255 */
    size_t launches;
} gs_played;

/* As gs_predict_on, and fills `*played`, which the caller clears. */
gs_run *gs_predict_played(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                          const gs_predict_options *options, gs_played *played, gs_error *error);
void gs_played_clear(gs_played *played);

/* ---- what launches waited for ---- */

typedef enum gs_reason {
    GS_REASON_HOST,     /* its stream was idle: the host issued it late */
    GS_REASON_STREAM,   /* an operation before it in its stream */
    GS_REASON_EVENT,    /* an operation elsewhere that it depends on */
    GS_REASON_OVERHEAD, /* the gap after these */
    GS_REASON_ENGINE,   /* copies: the copy engine */
    GS_REASON_QUEUE,    /* another launch was served first */
    GS_REASON_HEADROOM, /* headroom on the SMs */
    GS_REASON_REST,     /* it had started, but its other blocks waited for headroom that another launch held */
    GS_REASONS
} gs_reason;

/* "host", "stream" and so on, as in files. */
const char *gs_reason_name(gs_reason reason);

typedef struct gs_wait {
    gs_reason reason;
    gs_lack lack;  /* of HEADROOM and REST */
    size_t behind; /* the operation that was waited for, or SIZE_MAX */
    int64_t ns;
} gs_wait;

enum { GS_MOST_WAITS = GS_REASONS };

/* The waits of an operation, in the order of time. Returns how many. */
size_t gs_timeline_waits(const gs_timeline *timeline, size_t operation, gs_wait *waits);

/* Waits of all launches of a kernel for the same thing. */
typedef struct gs_wait_sum {
    const char *kernel; /* or "copy", "memset" */
    bool is_copy;       /* it is one of these */
    const char *behind; /* the kernel that was waited for; NULL: none */
    gs_reason reason;
    gs_lack lack;
    int64_t ns, launches;
} gs_wait_sum;

typedef struct gs_wait_sums {
    gs_wait_sum *data; /* the longest first */
    size_t count, capacity;
    int64_t ns[GS_REASONS], launches[GS_REASONS]; /* by reason */
} gs_wait_sums;

gs_code gs_wait_sums_of(const gs_run *run, const gs_timeline *timeline, gs_wait_sums *sums, gs_error *error);
void gs_wait_sums_clear(gs_wait_sums *sums);

/* The name of an operation for people: its kernel, or what it copies. */
const char *gs_operation_name(const gs_run *run, size_t operation);

/* ---- a prediction beside the measurement ---- */

/* How a launch compares. */
typedef struct gs_launch_compared {
    uint32_t measured, predicted, both;   /* launches that it overlaps, of those that it could */
    bool is_first;                        /* the first launch of its kernel */
    size_t only_measured, only_predicted; /* one of those that it overlaps only there; SIZE_MAX: there is none */
} gs_launch_compared;

enum { GS_SHORT_NS = 2000 }; /* what launch overheads differ by */

/* Pairs of launches that could overlap: the host had issued both before one of them ended, and neither waits for the
   other. */
typedef struct gs_overlaps {
    int64_t possible;
    int64_t right;                     /* that overlap in both, the measurement and the prediction, or in neither */
    int64_t brief;                     /* that overlap in one of them, for at most GS_SHORT_NS */
    int64_t measured, predicted, both; /* that overlap */
    int64_t shared_ns, longest_ns;     /* sums over all of them of the shorter and of the longer time that they overlap,
                                          in the measurement and in the prediction */
} gs_overlaps;

/* Overlaps in both, in percent of the overlaps in either; and the same by time. NAN: there are none to compare. */
double gs_overlap_percent(const gs_overlaps *pairs);
double gs_overlap_time_percent(const gs_overlaps *pairs);

/* What a model says of a program. */
typedef struct gs_side_compared {
    int64_t end_ns, busy_ns;     /* of the last launch; while at least one launch runs */
    gs_overlaps pairs;           /* each launch is ready when it was in the recording */
    gs_overlaps from_start;      /* the whole program is played */
    int64_t starts_within_ns[4]; /* launches that start at most 1, 10, 100 and 1000 us from the measurement; each is
                                    ready when it was in the recording */
} gs_side_compared;

typedef struct gs_program_compared {
    int64_t launches; /* that were measured */
    int64_t measured_end_ns, measured_busy_ns;
    gs_side_compared predicted;
    gs_side_compared unscheduled; /* the null model, see gs_timeline_unscheduled */
    int64_t configs,
        configs_same; /* launches of which the shared-memory configuration was recorded, and is predicted */
    gs_launch_compared *data;
} gs_program_compared;

/* `played`: the whole program; `followed`: by gs_timeline_follow. */
gs_code gs_program_compare(const gs_run *run, const gs_timeline *played, const gs_timeline *followed,
                           gs_program_compared *compared, gs_error *error);
void gs_program_compared_clear(gs_program_compared *compared);

#endif
