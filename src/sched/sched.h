/*
 * sched.h: which block goes to which SM.
 *
 *   gs_dispatcher (public)  decides the SM of one block (dispatch.c)
 *   gs_clusters             decides the SMs of clusters, and their order (cluster.c)
 *   gs_number               numbers the placed blocks 0, 1, 2 ... (number.c)
 *   gs_engine               plays launches, exits and time: the queue, streams, priorities (engine.c)
 *   gs_predict (public)     plays a run and records what happens (predict.c); gs_predict_recorded follows a recording
 *   gs_why                  explains why a kernel waits (explain.c)
 *   gs_check                are all blocks of these kernels resident together? (check.c)
 *   gs_orders               in which launch orders? (orders.c)
 *   gs_fixes                what would have to change, so that they are? (fix.c)
 *   gs_check_all            all three (check_all.c)
 */
#ifndef GS_SCHED_H
#define GS_SCHED_H

#include "gpu/gpu.h"
#include "run/run.h"

/* ---- dispatcher ---- */

const gs_state *gs_dispatcher_state(const gs_dispatcher *dispatcher);
const gs_need *gs_dispatcher_need(const gs_dispatcher *dispatcher, int kernel);

/* Copies `from` to `to`, which is of the same GPU and has no kernels that `from` has not. */
gs_code gs_dispatcher_copy(gs_dispatcher *to, const gs_dispatcher *from, gs_error *error);

/* See gs_state_image. */
void gs_dispatcher_image(const gs_dispatcher *dispatcher, const int32_t *handles, const int32_t *names, gs_text *image);

/* Releases a block while kernels may wait for its place; gs_dispatcher_release is for when none does. */
void gs_dispatcher_end(gs_dispatcher *dispatcher, int block);

/* What a dispatcher remembers besides the state of its SMs. */
typedef struct gs_remembered {
    int32_t turn;                   /* round-robin: the position of the next SM */
    int32_t warm_group, warm_bytes; /* the group that has just become idle, and its configuration; -1 and 0: none */
} gs_remembered;

/* Fills `*remembered`. False: more than one group has just become idle. */
bool gs_dispatcher_remembers(const gs_dispatcher *dispatcher, gs_remembered *remembered);

/* Makes the GPU what a kernel leaves behind, whose blocks are not there and were not placed. */
void gs_dispatcher_leave(gs_dispatcher *dispatcher, int kernel, const gs_remembered *remembered, const gs_mark *moves);

/* Drops the configurations of the groups that became idle since the last call and are still idle. */
void gs_dispatcher_settle(gs_dispatcher *dispatcher);

/* The SM of a placed block. */
int32_t gs_dispatcher_sm(const gs_dispatcher *dispatcher, int block);

/* Sets local memory up for at least `bytes` per thread. */
void gs_dispatcher_grow_local(gs_dispatcher *dispatcher, int64_t bytes);

/* As gs_dispatcher_next. If there is an SM, sets `*room` to its room for blocks of this kernel. */
int gs_dispatcher_choose(gs_dispatcher *dispatcher, int kernel, int32_t *room);

/* The same for the open SMs only. Slower: looks at each SM. */
int gs_dispatcher_choose_among(gs_dispatcher *dispatcher, int kernel, const bool *open, int32_t *room);

/* As gs_dispatcher_place, for a block that is part of a cluster. */
int gs_dispatcher_place_in_cluster(gs_dispatcher *dispatcher, int kernel, int sm);

/* Whether no SM has room for a block of this kernel. */
bool gs_dispatcher_is_full(gs_dispatcher *dispatcher, int kernel);

/* Ends a block, and places blocks of a kernel on its SM while there is room. Before the first of a series of such
   calls, gs_dispatcher_is_full was true for the kernel; after the last one, gs_dispatcher_replaced says that it is true
   again. Puts the new blocks into `handles`, and returns how many there are; -1: nothing was done, because other SMs
   may get room too. */
int32_t gs_dispatcher_replace(gs_dispatcher *dispatcher, int block, int kernel, int32_t *handles);
void gs_dispatcher_replaced(gs_dispatcher *dispatcher, int kernel);

/* Whether an SM has no room for a block of this kernel, wherever its pointer is. */
bool gs_dispatcher_stays_full(gs_dispatcher *dispatcher, int kernel, int32_t sm);

/* Between these two: moves the pointer of each SM on so many times by so many steps, as blocks do that replace each
   other; the last of them on `last_sm`. */
void gs_dispatcher_step_pointers(gs_dispatcher *dispatcher, const int32_t *steps, int64_t times, int32_t last_sm);

/* ---- the numbers of blocks ---- */

/* A block that was placed. */
typedef struct gs_placement {
    int32_t sm, room; /* room: of the SM, before the block was placed */
    int32_t handle;
} gs_placement;

/* Blocks of one kernel, placed one after the other. */
typedef struct gs_burst {
    gs_placement *placed;
    int64_t count;
    bool is_cut; /* the grid ended while other SMs had as much room as the last one */
} gs_burst;

/* Which group is next: among those that go first, among their parts for clusters, and among the others. */
typedef struct gs_turns {
    int32_t first, part, other;
} gs_turns;

/* The first set bit at or after `from`, or the first of all if there is none; `bits` is not 0. */
static inline int32_t gs_bit_from(uint64_t bits, int32_t from) {
    uint64_t later = bits & ~(uint64_t)0 << from;
    return __builtin_ctzll(later ? later : bits);
}

typedef struct gs_numberer gs_numberer;

/* For a GPU that numbers blocks by grant. */
gs_numberer *gs_numberer_new(const gs_gpu *gpu, gs_error *error);
void gs_numberer_free(gs_numberer *numberer);

/* Sets `order[i]` to the index in the burst of the block with number i, and advances the turns. */
void gs_number(gs_numberer *numberer, const gs_burst *burst, gs_turns *turns, int32_t *order);

/* The same for a cooperative launch. */
void gs_number_whole(gs_numberer *numberer, const gs_burst *burst, gs_turns *turns, int32_t *order);

/* Whether the SM is in one of the groups that go first. */
bool gs_numberer_is_first(const gs_numberer *numberer, int32_t sm);

/* ---- clusters ---- */

typedef struct gs_clusters gs_clusters;

/* For a GPU whose description has clusters. */
gs_clusters *gs_clusters_new(const gs_gpu *gpu, gs_error *error);
void gs_clusters_free(gs_clusters *clusters);

/* The most blocks that a cluster can have. */
int32_t gs_clusters_largest(const gs_clusters *clusters);

/* By SM: whether it stays open to later kernels while a cluster of three or more waits. */
const bool *gs_clusters_always_open(const gs_clusters *clusters);

/* Decides the next round of clusters of `size` blocks, of at most `most` clusters. Puts the SMs of their blocks into
   `sms`, which has an element for each SM of the GPU: cluster after cluster, block after block. Only open SMs are used
   (NULL: all are open). Returns the number of clusters. */
int32_t gs_clusters_round(gs_clusters *clusters, const gs_dispatcher *dispatcher, int kernel, int32_t size,
                          int64_t most, const bool *open, int16_t *sms);

/* As gs_number, for a burst that is one round of clusters of `size`. */
void gs_clusters_number(const gs_clusters *clusters, const gs_burst *burst, int32_t size, gs_turns *turns,
                        int32_t *order);

/* Blocks that are to be placed. */
typedef struct gs_grid {
    int kernel; /* the dispatcher's number */
    int64_t blocks;
    int32_t cluster;  /* blocks in a cluster, or 1 */
    bool is_whole;    /* it starts with all its blocks or not at all */
    const bool *open; /* by SM: whether it may be used; NULL: all may */
} gs_grid;

/* Places clusters while there is room. Returns how many of the blocks wait. */
int64_t gs_clusters_place(gs_clusters *clusters, gs_dispatcher *dispatcher, const gs_grid *grid);

/* How many clusters of `size` blocks of this shape an empty GPU takes; -1 with the reason if none ever fits. */
int64_t gs_clusters_most(const gs_gpu *gpu, const gs_shape *shape, int32_t size, gs_error *error);

/* ---- grids ---- */

/* A flag for each SM in each green context, context after context. NULL: out of memory. */
bool *gs_green_flags(const gs_gpu *gpu, const gs_green_contexts *contexts);

/* The flags of the green context of a launch or a copy on a GPU with `sms` SMs; NULL: it is in none. */
const bool *gs_green_of(const gs_green_contexts *contexts, const bool *flags, int32_t sms, const gs_issue *issue);

/* Whether a launch is cooperative and starts with all its blocks or not at all. */
bool gs_launch_is_whole(const gs_launch *launch);

gs_grid gs_grid_of(const gs_launch *launch, int kernel, const bool *open);

/* For how many of its blocks, one by one, there is room now. */
int64_t gs_grid_room(const gs_dispatcher *dispatcher, const gs_grid *grid);

/* Places its blocks while there is room. Returns how many wait. `clusters` may be NULL if it has none. */
int64_t gs_grid_place(gs_clusters *clusters, gs_dispatcher *dispatcher, const gs_grid *grid);

/* ---- engine ---- */

/* What passes from the end of one launch or copy to the start of the next that waited for it: between launches, between
   launches of a graph, before a copy, and between a copy and a launch; and from the end of the last block of a launch
   to its end. */
typedef struct gs_gaps {
    int64_t stream_ns, graph_ns, copy_ns, after_copy_ns, tail_ns;
} gs_gaps;

/* Whether a launch is part of a graph: the recording says so, or its neighbor was issued at the same time. */
bool gs_is_in_graph(const gs_run *run, size_t launch);

/* Callbacks and options of an engine. `launch` is the number of the launch in the run. */
typedef struct gs_engine_hooks {
    void *user;
    /* False: play stops, and the engine says that memory ran out. */
    bool (*started)(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns);
    bool (*ended)(void *user, size_t launch, int64_t block, int64_t now_ns);
    /* Waves of blocks that repeat earlier ones may be skipped if both are set (waves.c). may_skip is asked first: later
       blocks of the launch go where the last `wave` blocks went, in this order. skipped says how many blocks started
       and ended so. */
    bool (*may_skip)(void *user, size_t launch, int64_t wave);
    void (*skipped)(void *user, size_t launch, int64_t blocks);
    /* A launch that had the scheduler to itself may be played as one event if this is set (solo.c): its blocks went
       where those of the launch `like` went, in this order. `started` and `ended` are not called for them. */
    void (*repeated)(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns);
    /* The next block of a launch has no room, for the first time before any of its blocks has started, or since then.
       Looks at the engine, and changes nothing. */
    void (*held)(void *user, size_t launch);
    const int64_t *durations_ns; /* of the blocks of each launch, instead of those of the run; NULL: those of the run */
    const int64_t *ready_ns; /* when each launch and copy is ready, instead of when its stream and what it depends on
                                let it; NULL: then */
    gs_gaps gaps;
    int64_t latency_ns; /* from when the host issues a launch or a copy to when it reaches the GPU */
    bool endless;       /* ignore durations: blocks stay until their exit */
    bool follow;        /* the run is a recording: take from it what no model can know, see gs_predict_options */
    int32_t turn;       /* the turns at the beginning, see gs_predict_options */
} gs_engine_hooks;

typedef struct gs_engine gs_engine;

gs_engine *gs_engine_new(const gs_gpu *gpu, const gs_run *run, const gs_engine_hooks *hooks, gs_error *error);
void gs_engine_free(gs_engine *engine);

/* Copies `from` to `to`. Both are of the same GPU and run, ignore durations, and have the same kernels in their
   dispatchers. False: out of memory. */
bool gs_engine_copy(gs_engine *to, const gs_engine *from);

/* Plays one launch or exit. Events are played in order. Before a launch, time passes until the host issues it, if the
   run says when, and the copies before it are issued. */
gs_code gs_engine_launch(gs_engine *engine, size_t launch, gs_error *error);
gs_code gs_engine_exit(gs_engine *engine, size_t launch, gs_error *error);

/* Lets time pass until nothing more happens by itself. */
gs_code gs_engine_finish(gs_engine *engine, gs_error *error);

/* When a launch or a copy did what, and what it waited for; GS_NO_TIME: not yet. Copies are numbered after launches. */
typedef struct gs_course {
    int64_t arrived_ns; /* the host issued it */
    int64_t freed_ns;   /* the last thing that it depended on had ended, in its stream or elsewhere */
    int64_t ready_ns;   /* it entered the queue */
    int64_t served_ns;  /* it was its turn */
    int64_t start_ns, end_ns;
    size_t freed_by; /* that last thing; SIZE_MAX: there was none */
    bool is_freed_by_event;
    size_t behind;        /* what was served first when it entered the queue; SIZE_MAX: nothing */
    int32_t config_bytes; /* the shared-memory configuration of the SM of its first block */
} gs_course;

gs_course gs_engine_course(const gs_engine *engine, size_t operation);

int64_t gs_engine_now_ns(const gs_engine *engine);
int64_t gs_engine_started(const gs_engine *engine, size_t launch);
/* While `started` is called: the room that the SM had for blocks of this kernel; 0: the block is part of a cluster. */
int32_t gs_engine_room(const gs_engine *engine);
gs_dispatcher *gs_engine_dispatcher(gs_engine *engine);

/* Why the next block of a launch does not start. */
typedef enum gs_hold {
    GS_HOLD_NONE,       /* all its blocks have started */
    GS_HOLD_STREAM,     /* an earlier kernel or copy of its stream has not ended: `*other` */
    GS_HOLD_EVENT,      /* a kernel or copy that it depends on has not ended or started: `*other` */
    GS_HOLD_CONNECTION, /* another launch of its connection has not left it: `*other` */
    GS_HOLD_KERNELS,    /* as many kernels are on the GPU as it takes */
    GS_HOLD_QUEUE,      /* another kernel is served first: `*other` */
    GS_HOLD_ROOM        /* it is being served, and no SM takes a block */
} gs_hold;

gs_hold gs_engine_hold(const gs_engine *engine, size_t launch, size_t *other);

/* Whether a kernel waits for room. */
bool gs_engine_lacks_room(const gs_engine *engine);

/* The blocks of a launch that was played, and the SMs that it may use. */
gs_grid gs_engine_grid(const gs_engine *engine, size_t launch);

/* ---- prediction ---- */

/* As gs_predict, but without lists: what a table shows of it (gs_brief). The cost depends on how many different waves
   there are, not on the number of blocks. */
gs_run *gs_predict_brief(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options, gs_error *error);

/* What the model says of a recording that it follows: to be compared with it. */
gs_run *gs_predict_recorded(const gs_gpu *gpu, const gs_run *recorded, gs_error *error);

/* ---- explanations ---- */

/* Adds a sentence to `text` that says why blocks of `launch` wait now. */
void gs_why(gs_engine *engine, const gs_run *run, size_t launch, gs_text *text);

/* Only the part about room: why no SM takes the next block. */
void gs_why_no_room(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text);

/* The same for a kernel more than the GPU takes at a time. */
void gs_why_too_many(const gs_gpu *gpu, gs_text *text);

/* What a block needs and what is free, on the SM that has most of it free, for each resource that some SM
   lacks: "a block needs 6,144 registers in partition 0 where at most 5,632 are free". Nothing where gs_why_no_room has
   all numbers. */
void gs_why_numbers(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text);

/* ---- timelines: when the launches and copies of a program run, and what they wait for ---- */

/* What a launch lacks that waits for room: as gs_obstacle_kind, and two more. */
typedef enum gs_lack {
    GS_LACK_NONE,
    GS_LACK_CONFIG = GS_OBSTACLE_CONFIG,
    GS_LACK_BLOCK_SLOTS = GS_OBSTACLE_BLOCK_SLOTS,
    GS_LACK_WARP_SLOTS = GS_OBSTACLE_WARP_SLOTS,
    GS_LACK_REGISTERS = GS_OBSTACLE_REGISTERS,
    GS_LACK_SHARED = GS_OBSTACLE_SHARED,
    GS_LACK_SHARED_HOLES = GS_OBSTACLE_SHARED_HOLES,
    GS_LACK_LOCAL,  /* local memory grows only when the GPU is idle */
    GS_LACK_CLUSTER /* SMs have room, but not together */
} gs_lack;

/* "registers" and so on, as in files. */
const char *gs_lack_name(gs_lack lack);

/* What a launch lacks whose next block has no room now, and the launch that holds most of it; `*holder` is the launch
   itself if only its own blocks are in the way. */
gs_lack gs_engine_lack(const gs_engine *engine, size_t launch, size_t *holder);

/* How fast the host and the GPU hand launches on. */
typedef struct gs_pace {
    int64_t latency_ns; /* see gs_engine_hooks */
    gs_gaps gaps;
} gs_pace;

/* A launch or a copy of a program. */
typedef struct gs_operation {
    gs_course course;
    /* Of launches: */
    int64_t block_ns;  /* how long each block runs */
    int64_t alone_ns;  /* how long the launch runs alone */
    int64_t waves;     /* of blocks, alone on the GPU of the recording */
    double share;      /* of that GPU which its blocks take; more than 1 if there are several waves */
    bool is_crowded;   /* it ran beside others that may not have left room for all its blocks */
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

/* Plays a program on `gpu`. How long blocks run is taken from its recording on `recorded_on`. `pace` NULL: that of the
   recording. The caller clears the timeline. */
gs_code gs_timeline_play(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const gs_pace *pace,
                         gs_timeline *timeline, gs_error *error);
void gs_timeline_clear(gs_timeline *timeline);

/* Plays a program again of which `played` is the timeline, but each launch is ready when it was in the recording: when
   what it waits for had ended there, and the gap had passed. So what differs does not add up. The caller clears the
   timeline. */
gs_code gs_timeline_follow(const gs_gpu *gpu, const gs_run *run, const gs_timeline *played, gs_timeline *timeline,
                           gs_error *error);

/* Whether a run is a program with a timeline: launches that were measured as a whole; or durations, and copies,
   dependencies or host times. */
bool gs_run_is_program(const gs_run *run);

/* How long the blocks of each launch of a recorded program run, by launch, as gs_timeline_play takes it. The caller
   frees it. NULL: out of memory. */
int64_t *gs_program_durations(const gs_gpu *recorded_on, const gs_run *run, gs_error *error);

/* The GPU that the run names, if it is another one than `gpu` or has another number of SMs; the caller frees it. NULL:
   it is this one, or not known. */
gs_gpu *gs_gpu_recorded_on(const gs_gpu *gpu, const gs_run *run);

/* What is known of a prediction besides the run itself. */
typedef struct gs_played {
    gs_timeline timeline; /* of a run with durations; otherwise it has no operations */
    uint8_t **rooms;      /* by launch, then by block: see gs_engine_room, at most 255 */
    size_t launches;
} gs_played;

/* As gs_predict, and fills `*played`, which the caller clears. */
gs_run *gs_predict_played(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options, gs_played *played,
                          gs_error *error);
void gs_played_clear(gs_played *played);

/* ---- what launches waited for ---- */

typedef enum gs_reason {
    GS_REASON_HOST,     /* its stream was idle: the host issued it late */
    GS_REASON_STREAM,   /* an operation before it in its stream */
    GS_REASON_EVENT,    /* an operation elsewhere that it depends on */
    GS_REASON_OVERHEAD, /* the gap after these */
    GS_REASON_ENGINE,   /* copies: the copy engine */
    GS_REASON_QUEUE,    /* another launch was served first */
    GS_REASON_ROOM,     /* room on the SMs */
    GS_REASON_REST,     /* it had started, but its other blocks waited for room that another launch held */
    GS_REASONS
} gs_reason;

/* "host", "stream" and so on, as in files. */
const char *gs_reason_name(gs_reason reason);

typedef struct gs_wait {
    gs_reason reason;
    gs_lack lack;  /* of ROOM and REST */
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
typedef struct gs_pairs {
    int64_t possible;
    int64_t right;                     /* that overlap in both, the measurement and the prediction, or in neither */
    int64_t brief;                     /* that overlap in one of them, for at most GS_SHORT_NS */
    int64_t measured, predicted, both; /* that overlap */
} gs_pairs;

typedef struct gs_program_compared {
    int64_t launches;    /* that were measured */
    gs_pairs pairs;      /* each launch is ready when it was in the recording */
    gs_pairs from_start; /* the whole program is played */
    int64_t measured_end_ns, predicted_end_ns;
    int64_t measured_busy_ns, predicted_busy_ns; /* while at least one launch runs */
    int64_t starts_within_ns[4]; /* launches that start at most 1, 10, 100 and 1000 us from the measurement */
    int64_t configs,
        configs_same; /* launches of which the shared-memory configuration was recorded, and is predicted */
    gs_launch_compared *data;
} gs_program_compared;

/* `played`: the whole program; `followed`: by gs_timeline_follow. */
gs_code gs_program_compare(const gs_run *run, const gs_timeline *played, const gs_timeline *followed,
                           gs_program_compared *compared, gs_error *error);
void gs_program_compared_clear(gs_program_compared *compared);

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
    gs_conflict here; /* if not in this order: the launches up to the first that waits */
    gs_conflict
        smallest;        /* if not in any order: the fewest kernels found that conflict, in an order in which they do */
    bool is_least;       /* no fewer kernels conflict */
    gs_order works;      /* if not in this order: an order in which all fit, if one was found */
    bool none_works;     /* all orders were tried, and none fits */
    size_t searched;     /* all orders of up to this many kernels were tried and fit */
    bool order_is_fixed; /* the run has exits, so only its own order makes sense */
} gs_check;

/* Will all blocks of the kernels of `run` be resident together? Durations are ignored. Tries other orders too, with at
   most `budget` launches. `progress` may be NULL. */
gs_code gs_check_run(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_progress *progress, gs_check *check,
                     gs_error *error);
void gs_check_clear(gs_check *check);

/* ---- orders ---- */

typedef enum gs_orders_rule {
    GS_ORDERS_UNKNOWN, /* there are too many kernels, or exits fix the order */
    GS_ORDERS_ALL,
    GS_ORDERS_NONE,
    GS_ORDERS_FIRST,  /* exactly those in which `launch` is first */
    GS_ORDERS_LAST,   /* exactly those in which `launch` is last */
    GS_ORDERS_BEFORE, /* exactly those in which `launch` is before `other` */
    GS_ORDERS_SOME    /* no rule above says which */
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
    GS_FIX_GREEN,     /* a green context with so many SMs, the other SMs for the other kernels */
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
    size_t launch;    /* of an order: the kernel that moves, SIZE_MAX: several */
    int64_t from, to; /* of an order: places in it */
    bool is_limit;    /* every smaller value that was possible works too */
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
    unsigned unfinished; /* a bit for each kind that the budget did not suffice for */
    bool pairs_searched; /* no single change helps, so pairs of changes were tried, */
    bool pairs_finished; /* and all of them were */
} gs_fixes;

typedef struct gs_fix_options {
    unsigned kinds;   /* a bit for each kind that may be used */
    bool every_order; /* a fix must work in every launch order, not only in that of the run */
    int64_t budget;   /* launches to try */
    gs_progress *progress;
    const gs_order *among;       /* change only these kernels; NULL: any */
    const gs_order *known_order; /* an order that works, for when no simpler one is found; NULL or empty: none */
} gs_fix_options;

/* Finds the smallest change of each kind to each kernel after which all blocks are resident together. If there is none,
   finds the cheapest pair of changes. Each was played by the engine. The caller clears `fixes`. */
gs_code gs_fix_run(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, gs_fixes *fixes,
                   gs_error *error);
void gs_fixes_clear(gs_fixes *fixes);

/* Appends a change in words: "launch nccl first". */
void gs_change_text(const gs_gpu *gpu, const gs_run *run, const gs_fix *fix, size_t change, gs_text *text);

/* ---- check, orders and fixes together ---- */

/* All that is known about one run. */
typedef struct gs_check_answer {
    const gs_gpu *gpu;
    const gs_run *run;
    gs_check check;
    gs_orders orders;
    gs_fixes fixes;
    bool every_order; /* asked for: all launch orders */
    bool works;       /* the answer to what was asked for; not known counts as no */
    bool has_fixes;   /* fixes were searched for */
    bool too_many;    /* they were not, because too many kernels are in the conflict */
} gs_check_answer;

/* Of `options`, `among` and `known_order` are not used. The caller clears the answer, also where this fails. */
gs_code gs_check_all(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, gs_check_answer *answer,
                     gs_error *error);
void gs_check_answer_clear(gs_check_answer *answer);

#endif
