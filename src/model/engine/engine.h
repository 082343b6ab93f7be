/*
 * engine.h: which block goes to which SM.
 *
 *   gs_dispatcher (public)  decides the SM of one block (dispatch.c), or of all blocks of a launch: then it is an
 *                           engine whose blocks the caller ends (launched.c)
 *   gs_clusters             decides the SMs of clusters, and their order (cluster.c)
 *   gs_number               numbers the placed blocks 0, 1, 2 ... (number.c)
 *   gs_engine               plays launches, exits and time: the queue, streams, priorities (engine_play.c, serve.c;
 *                           engine_state.h draws its state and states its invariants, engine_check.c checks them)
 *   gs_why                  explains why a kernel waits (explain.c)
 *   gs_engine_lack          which resource it waits for, and which launch holds it (lack.c)
 */
#ifndef GS_ENGINE_H
#define GS_ENGINE_H

#include "model/gpu/gpu.h"
#include "model/run/run.h"

/* ---- dispatcher ---- */

const gs_state *gs_dispatcher_state(const gs_dispatcher *dispatcher);
const gs_need *gs_dispatcher_need(const gs_dispatcher *dispatcher, int kernel);

/* Whether there is a kernel with this number. */
bool gs_dispatcher_knows(const gs_dispatcher *dispatcher, int kernel);

/* Frees a dispatcher that has no launches (launched.c). */
void gs_dispatcher_free_sms(gs_dispatcher *dispatcher);

/* Forgets the kernels of `to`, unless they are the first of `from`. */
void gs_dispatcher_keep_kernels(gs_dispatcher *to, const gs_dispatcher *from);

/* Copies the SMs of `from` to `to`, which is of the same GPU and has no kernels that `from` has not. */
gs_code gs_dispatcher_copy_sms(gs_dispatcher *to, const gs_dispatcher *from, gs_error *error);

/* See gs_state_image. */
void gs_dispatcher_image(const gs_dispatcher *dispatcher, const int32_t *handles, const int32_t *names, gs_text *image);

/* Releases a block. If no kernel waits for its place, gs_dispatcher_settle comes after it. */
void gs_dispatcher_end(gs_dispatcher *dispatcher, int block);

/* What a dispatcher remembers besides the state of its SMs. */
typedef struct gs_remembered {
    int32_t turn;                   /* round-robin: the position of the next SM */
    int32_t warm_group, warm_bytes; /* the group that has just become idle, and its configuration; -1 and 0: none */
} gs_remembered;

/* Fills `*remembered`. False: more than one group has just become idle. */
bool gs_dispatcher_remembers(const gs_dispatcher *dispatcher, gs_remembered *remembered);

/* An idle group of SMs still has a configuration. */
void gs_dispatcher_warm(gs_dispatcher *dispatcher, int32_t group, int32_t config_bytes);

/* Makes the GPU what a kernel leaves behind, whose blocks are not there and were not placed. */
void gs_dispatcher_leave(gs_dispatcher *dispatcher, int kernel, const gs_remembered *remembered, const gs_mark *moves);

/* Drops the configurations of the groups that became idle since the last call and are still idle. */
void gs_dispatcher_settle(gs_dispatcher *dispatcher);

/* The SM of a placed block. */
int32_t gs_dispatcher_sm(const gs_dispatcher *dispatcher, int block);

/* Sets local memory up for at least `bytes` per thread. */
void gs_dispatcher_grow_local(gs_dispatcher *dispatcher, int64_t bytes);

/* The SM of the next block of a kernel, or GS_WAIT. If there is an SM, sets `*headroom` to its headroom for blocks of
   this kernel. */
int gs_dispatcher_choose(gs_dispatcher *dispatcher, int kernel, int32_t *headroom);

/* The same for the open SMs only. Slower: looks at each SM. */
int gs_dispatcher_choose_among(gs_dispatcher *dispatcher, int kernel, const bool *open, int32_t *headroom);

/* How many more blocks of the kernel the SM takes. */
int32_t gs_dispatcher_headroom(const gs_dispatcher *dispatcher, int kernel, int32_t sm);

/* Places a block, and returns its handle; -1: the SM has no headroom. */
int gs_dispatcher_put(gs_dispatcher *dispatcher, int kernel, int sm);

/* The same for a block that is part of a cluster. */
int gs_dispatcher_place_in_cluster(gs_dispatcher *dispatcher, int kernel, int sm);

/* Whether no SM has headroom for a block of this kernel. */
bool gs_dispatcher_is_full(gs_dispatcher *dispatcher, int kernel);

/* A block that was placed. */
typedef struct gs_placement {
    int32_t sm, headroom; /* headroom: of the SM, before the block was placed */
    int32_t handle;
} gs_placement;

/* Ends a block, and places blocks of a kernel on its SM while there is headroom. Before the first of a series of such
   calls, gs_dispatcher_is_full was true for the kernel; after the last one, gs_dispatcher_replaced says that it is true
   again. Puts the new blocks into `placed`, and returns how many there are; -1: nothing was done, because other SMs
   may get headroom too. */
int32_t gs_dispatcher_replace(gs_dispatcher *dispatcher, int block, int kernel, gs_placement *placed);
void gs_dispatcher_replaced(gs_dispatcher *dispatcher, int kernel);

/* Whether an SM has no headroom for a block of this kernel, wherever its pointer is. */
bool gs_dispatcher_stays_full(gs_dispatcher *dispatcher, int kernel, int32_t sm);

/* Between these two: moves the pointer of each SM by its steps, `times` times, as blocks do that replace each other;
   the last of them on `last_sm`. */
void gs_dispatcher_step_pointers(gs_dispatcher *dispatcher, const int32_t *steps, int64_t times, int32_t last_sm);

/* The launches that were given to a dispatcher (launched.c), which the dispatcher only keeps; NULL: there are none. */
typedef struct gs_launched gs_launched;

gs_launched *gs_dispatcher_launched(const gs_dispatcher *dispatcher);
void gs_dispatcher_keep_launched(gs_dispatcher *dispatcher, gs_launched *launched);

/* ---- the numbers of blocks ---- */

/* Blocks of one kernel, placed one after the other. */
typedef struct gs_burst {
    gs_placement *placed;
    int64_t count;
    bool is_cut; /* the grid ended while other SMs had as much headroom as the last one */
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

/* Places clusters while there is headroom. Returns how many of the blocks wait. */
int64_t gs_clusters_place(gs_clusters *clusters, gs_dispatcher *dispatcher, const gs_grid *grid);

/* How many clusters of `size` blocks of this shape an empty GPU takes; -1 with the reason if none ever fits. */
int64_t gs_clusters_most(const gs_gpu *gpu, const gs_shape *shape, int32_t size, gs_error *error);

/* ---- grids ---- */

/* A flag for each SM in each green context, context after context. NULL: out of memory. */
bool *gs_green_flags(const gs_gpu *gpu, const gs_green_contexts *contexts);

/* The flags of the green context of a launch or a copy on a GPU with `sms` SMs; NULL: it is in none. */
const bool *gs_green_of(const gs_green_contexts *contexts, const bool *flags, int32_t sms, const gs_issue *issue);

gs_grid gs_grid_of(const gs_launch *launch, int kernel, const bool *open);

/* For how many of its blocks, one by one, there is headroom now. */
int64_t gs_grid_headroom(const gs_dispatcher *dispatcher, const gs_grid *grid);

/* Places its blocks while there is headroom. Returns how many wait. `clusters` may be NULL if it has none. */
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

/* What a GPU does not always repeat:

                                  usual                           other                       rare
   a memory node that waits
     for nothing: its blocks      are gone when the next comes    stay until that is placed   only the first one stays
   another: its blocks            stay until all children are     are gone when the next      are gone when the next but
                                  placed                          comes                       one comes
   one without blocks: what       in the order of the graph       as behind a kernel: joins
     waits for it comes                                           last
   a kernel with joins: a signal  before the last child           before the last two
   with children elsewhere        in the order of the graph       in the opposite order

   What waits for a memory node can come later, or sooner, by one node that waits for nothing. Some: of the blocks of a
   memory node those on some SMs stay (`stays` below), and the others are gone when the next node comes. A memory node
   is a memset or copy of a graph; if it takes no SMs, it has no blocks. Elsewhere: in another green context. */
typedef enum gs_way { GS_WAY_USUAL, GS_WAY_OTHER, GS_WAY_RARE, GS_WAY_LATER, GS_WAY_SOONER, GS_WAY_SOME } gs_way;

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
    /* The next block of a launch has no headroom, for the first time before any of its blocks has started, or since
       then. Looks at the engine, and changes nothing. */
    void (*held)(void *user, size_t launch);
    const int64_t *durations_ns; /* of the blocks of each launch, instead of those of the run; NULL: those of the run */
    const int64_t *ready_ns; /* when each launch and copy is ready, instead of when its stream and what it depends on
                                let it; NULL: then */
    const bool *is_normal; /* by launch: it waits for all launches before it in its stream, whatever its entries; NULL:
                              none does */
    const uint8_t *ways; /* by launch, then by copy: gs_way, of what a GPU does not always repeat; NULL: all as usual */
    const bool *stays; /* by copy, GS_MAX_SMS each: whether its blocks on an SM stay, if it goes the way GS_WAY_SOME */
    gs_gaps gaps;
    int64_t latency_ns;        /* from when the host issues a launch or a copy to when it reaches the GPU */
    bool endless;              /* ignore durations: blocks stay until their exit */
    gs_dispatcher *dispatcher; /* the SMs, which the engine does not free; NULL: SMs of its own */
    bool follow;               /* the run is a recording: take from it what no model can know, see gs_predict_options */
    int32_t turn;              /* the turns at the beginning, see gs_predict_options */
} gs_engine_hooks;

typedef struct gs_engine gs_engine;

gs_engine *gs_engine_new(const gs_gpu *gpu, const gs_run *run, const gs_engine_hooks *hooks, gs_error *error);
void gs_engine_free(gs_engine *engine);

/* Copies `from` to `to`. Both are of the same GPU, of the same run or equal ones, ignore durations, and have the same
   kernels in their dispatchers. False: out of memory. */
bool gs_engine_copy(gs_engine *to, const gs_engine *from);

/* Appends the state of a dispatcher, and of the engine that has its launches, if there is one (image.c). States of one
   GPU with equal bytes behave alike. False: out of memory. */
bool gs_engine_image(const gs_dispatcher *dispatcher, const gs_engine *engine, gs_text *image);

/* Plays one launch or exit. Events are played in order. Before a launch, time passes until the host issues it, if the
   run says when, and the copies before it are issued. */
gs_code gs_engine_launch(gs_engine *engine, size_t launch, gs_error *error);
gs_code gs_engine_exit(gs_engine *engine, size_t launch, gs_error *error);

/* The same for an exit after which the launch is played again. */
gs_code gs_engine_exit_again(gs_engine *engine, size_t launch, gs_error *error);

/* Lets time pass until nothing more happens by itself. */
gs_code gs_engine_finish(gs_engine *engine, gs_error *error);

/* For an endless engine whose run grows launch by launch and has no copies: makes memory for the next launch, before it
   is added; false: out of memory. */
bool gs_engine_grow(gs_engine *engine);

/* The same engine: the time is at least this; and a block ends, with its launch if it is the last. The latter is false
   if memory runs out. */
void gs_engine_wait_until(gs_engine *engine, int64_t now_ns);
bool gs_engine_end(gs_engine *engine, int32_t block);

/* The launch of a running block. */
size_t gs_engine_launch_of(const gs_engine *engine, int32_t block);

/* The same for a block on its SMs that is of no launch. */
bool gs_engine_end_other(gs_engine *engine, int32_t block);

/* The handle of the block that started last of a launch that has not ended. */
int32_t gs_engine_latest(const gs_engine *engine, size_t launch);

/* The dispatcher's number of the kernel of a launch that was played. */
int gs_engine_kernel(const gs_engine *engine, size_t launch);

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

int64_t gs_engine_started(const gs_engine *engine, size_t launch);
/* While `started` is called: the headroom that the SM had for blocks of this kernel; 0: the block is part of a cluster.
 */
int32_t gs_engine_headroom(const gs_engine *engine);
gs_dispatcher *gs_engine_dispatcher(gs_engine *engine);

/* Whether the engine is in order between two events: NULL, or a sentence that names the invariant of engine_state.h
   that is violated. Slow: for tests. Not after an error. */
const char *gs_engine_check(gs_engine *engine);

/* Why the next block of a launch does not start. */
typedef enum gs_hold {
    GS_HOLD_NONE,       /* all its blocks have started */
    GS_HOLD_STREAM,     /* an earlier kernel or copy of its stream has not ended: `*other` */
    GS_HOLD_EVENT,      /* a kernel or copy that it depends on has not ended or started: `*other` */
    GS_HOLD_CONNECTION, /* another launch of its connection has not left it: `*other` */
    GS_HOLD_KERNELS,    /* as many kernels are on the GPU as it takes */
    GS_HOLD_QUEUE,      /* another kernel is served first: `*other` */
    GS_HOLD_HEADROOM    /* it is being served, and no SM takes a block */
} gs_hold;

gs_hold gs_engine_hold(const gs_engine *engine, size_t launch, size_t *other);

/* Whether a kernel waits for headroom. */
bool gs_engine_lacks_headroom(const gs_engine *engine);

/* The blocks of a launch that was played, and the SMs that it may use. */
gs_grid gs_engine_grid(const gs_engine *engine, size_t launch);

/* ---- explanations ---- */

/* Adds a sentence to `text` that says why blocks of `launch` wait now. */
void gs_why(gs_engine *engine, const gs_run *run, size_t launch, gs_text *text);

/* The same, and in parentheses what a block needs and what is free (gs_why_numbers). */
void gs_why_with_numbers(gs_engine *engine, const gs_run *run, size_t launch, gs_text *text);

/* Only the part about headroom, with these numbers: why no SM takes the next block. */
void gs_why_not_placed(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text);

/* That part without the numbers. */
void gs_why_no_headroom(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text);

/* The same for a kernel more than the GPU takes at a time. */
void gs_why_too_many(const gs_gpu *gpu, gs_text *text);

/* What a block needs and what is free, on the SM that has most of it free, for each resource that some SM
   lacks: "a block needs 6,144 registers in partition 0 where at most 5,632 are free". Nothing where gs_why_no_headroom
   has all numbers. */
void gs_why_numbers(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text);

/* ---- what is lacking ---- */

/* What a launch lacks that waits for headroom: as gs_obstacle_kind, and two more. */
typedef enum gs_lack {
    GS_LACK_NONE,
    GS_LACK_CONFIG = GS_OBSTACLE_CONFIG,
    GS_LACK_BLOCK_SLOTS = GS_OBSTACLE_BLOCK_SLOTS,
    GS_LACK_WARP_SLOTS = GS_OBSTACLE_WARP_SLOTS,
    GS_LACK_REGISTERS = GS_OBSTACLE_REGISTERS,
    GS_LACK_SHARED = GS_OBSTACLE_SHARED,
    GS_LACK_SHARED_HOLES = GS_OBSTACLE_SHARED_HOLES,
    GS_LACK_LOCAL,  /* local memory grows only when the GPU is idle */
    GS_LACK_CLUSTER /* SMs have headroom, but not together */
} gs_lack;

/* "registers" and so on, as in files. */
const char *gs_lack_name(gs_lack lack);

/* What a launch lacks whose next block has no headroom now, and the launch that holds most of it; `*holder` is the
   launch itself if only its own blocks are in the way. */
gs_lack gs_engine_lack(const gs_engine *engine, size_t launch, size_t *holder);

#endif
