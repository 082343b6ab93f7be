/*
 * engine_state.h: the state of the engine, for the files that play a run with it.
 *
 * The way of a launch. On the left is where it is, in the middle its status, on the right what it waits for:
 *
 *   gs_engine_launch      NOT_LAUNCHED
 *         |
 *         v
 *   readiness.streams     IN_STREAM      the operation before it in its stream (next_in_stream), what it depends on
 *   connections                          (pending), the launch before it in its connection (next_connected)
 *         |
 *         v
 *   readiness.timers      COMING         the gap after the last of these
 *         |
 *         |-----------> readiness.held   HELD: a kernel of those on the GPU must end
 *         v                   |
 *   readiness.list <----------+          (a launch is in this list only while an event is played)
 *         |
 *         v
 *   queue                 QUEUED         more urgent launches, and those that became ready before it; then headroom
 *     first <-> ... <-> last                on an SM. The first launch is served until all its blocks have started.
 *         |       ^ tails[urgency]
 *         v
 *   numbering.burst                      (blocks are here only while an event is played: on an SM, without a number)
 *         |
 *         v
 *   running[handle]       STARTED        its blocks, which are in the heap of endings if it is known when they end:
 *     first_running                         all of them, or the first one, from which ends_next leads to the others
 *   endings                                 (gs_end_in_order)
 *         |
 *         v
 *   (nowhere)             ENDED          the next of its stream, its dependents and the first of readiness.held move on
 *
 * A copy goes the same way as far as readiness.timers. Then it is QUEUED for its copy engine (copy_engines, linked by
 * `after`), or at once STARTED, and its end is in readiness.timers, or in readiness.untimed in a run without times.
 *
 * In a run that is played in bulk (bulk.c), running blocks are in lanes instead, and the heap of endings has the first
 * cohort of each.
 *
 * A launch that has the scheduler to itself can be memoized (solo.c): it is STARTED, with no blocks on SMs and one
 * ending for all of them, until it ends (commit), or until something else would happen on the SMs (replay).
 *
 * Invariants. They hold before and after each event and each step in time; engine_check.c checks them by these numbers.
 * "Operation" is a launch or a copy.
 *
 *   Time
 *    1  Nothing is in the past: unless a recording is followed, no ending and no timer is before clock.now_ns.
 *       Neither is the horizon. There is a pause (resumes_ns) only while a recording is followed.
 *    2  The heaps are heaps: `endings`, `timers` and `untimed` have no element that is before its parent.
 *   Operations
 *    3  Of a launch, 0 <= ended <= started <= blocks. Before it is QUEUED, none has started; while it is QUEUED,
 *       some have not; when it is STARTED, all have and some have not ended, or it is memoized and none has;
 *       when it has ENDED, all that started have ended. A copy has no blocks.
 *    4  No launch from number `launched` on and no copy from number `copies_issued` on has been issued.
 *    5  `pending` of an operation is the number of its dependencies that are not met: on operations that have
 *       not ended, or on launches whose blocks have not all started.
 *    6  An operation that is IN_STREAM has a reason: a dependency, an operation before it in its stream, or a
 *       launch before it in its connection.
 *    7  There are as many timers that make operations ready as operations are COMING, besides those of
 *       operations that have ended in the meantime; and as many that end copies, or elements of `untimed`, as
 *       copies are STARTED.
 *   Lists
 *    8  readiness.list, numbering.burst and graph.hidden are empty.
 *    9  The list of a stream goes from its head, which has not ended, to its tail, and has each operation of the
 *       stream that was issued and has not ended. If there is none, the head is NO_LAUNCH.
 *   10  The list of a connection goes from its head to its tail, and has the launches that wait in it:
 *       IN_STREAM, COMING or HELD.
 *   11  readiness.held has the launches that are HELD. readiness.kernels is the number of launches that are
 *       QUEUED or STARTED, at most most_kernels; if any is held, it is most_kernels.
 *   12  The list of a copy engine has the copies that are QUEUED for it. If there are any, it is busy. `busy` is
 *       STARTED, or COMING: the engine waits for it, because it goes on with the same stream.
 *   13  The queue has the launches that are QUEUED, linked both ways, in the order of
 *       gs_launch_queue_goes_before.
 *   14  tails[u] is the last launch in the queue of urgency u, or NO_LAUNCH. `latest` is in the queue, or
 *       NO_LAUNCH.
 *   Blocks
 *   15  The list of running blocks of a launch has started - ended blocks, linked both ways, all of this launch,
 *       with numbers below `started`, resident in the dispatcher as blocks of its kernel. No other blocks are
 *       resident.
 *   16  The ending of a block, if it is known, is in the heap with the block's own time and number: of each
 *       block, or of the first of a launch whose blocks end in order. Then ends_next leads from it, through
 *       blocks that do not end earlier, to last_ending, past all that run.
 *   17  If a launch is memoized, its ending is the first of the heap, and the queue is empty. No other ending is
 *       in the heap without a block.
 *   18  Work is conserved: unless there is a pause or a launch is memoized, no SM that the first launch in the
 *       queue may use has headroom for its next block.
 *   SMs and numbers
 *   19  closed_count is the number of closed SMs; `usable` has the SMs that are not closed and in the green
 *       context of usable_by.
 *   20  At least one turn is possible, if blocks are numbered by grant.
   Bulk
   21  In a run that is played in bulk, the dispatcher has no blocks, 15 and 16 are about lanes, and 18 is about the
       patterns of SMs. The lane of a launch has started - ended blocks, in cohorts of which none ends earlier than the
       one before; the end of the first is in the heap. The pattern of an SM has as many blocks of each launch as are on
       this SM in its lane. All together are `residents`. No idle SM keeps a configuration.
 */
#ifndef GS_ENGINE_STATE_H
#define GS_ENGINE_STATE_H

#include "patterns.h"

/* See above. In the order in which an operation has them. */
enum status { NOT_LAUNCHED, IN_STREAM, COMING, HELD, QUEUED, STARTED, ENDED };

#define NO_LAUNCH SIZE_MAX

enum { MOST_URGENT = 1000 }; /* what is more urgent shares a tail with this */

/* A launch or copy being played. Changed by ready.c until it is QUEUED and when it ends; in between by serve.c, and by
   replace.c, waves.c, bulk.c and bulk_waves.c, which move blocks on. */
struct play {
    enum status status;     /* QUEUED: also launch_queue.c */
    bool was_alone;         /* it had its chance to be memoized */
    int kernel;             /* the dispatcher's number; set by engine_play.c */
    int64_t started, ended; /* blocks */
    int32_t first_running;  /* handle of one of its running blocks, -1: none */
    int32_t last_ending;    /* handle of the running block that ends last, if blocks end in their order; -1: none */
    int32_t lane;           /* of its running blocks, if they are played in bulk (bulk.c); -1: none */
    size_t before, after; /* neighbors in the queue (launch_queue.c); `after` of a copy: in its copy engine (ready.c) */
    uint64_t ready_at;    /* clock.host_events when it was ready */
    size_t stream;        /* number of its stream, or NO_LAUNCH */
    size_t next_in_stream; /* the next launch or copy in the same stream */
    int32_t connection;    /* in which it waits; -1: none. Changed by connections.c only, and so is next_connected */
    size_t next_connected; /* the next launch in the same connection */
    size_t previous;       /* the one before it in its stream, if that has not ended; or NO_LAUNCH */
    bool names_previous;   /* it says when it may start after that one; otherwise all in its stream must have ended */
    bool is_early;         /* it may start before that one has ended */
    uint32_t pending;      /* dependencies that are not met */
    bool is_awaited;       /* others depend on its start */
    bool is_freed_by_event;
    bool is_freed_by_copy; /* or one of several that it waited for last */
    bool was_held;         /* the hook `held` was called for it */
    size_t freed_by;       /* the one that it waited for last, in its stream or as a dependency, or NO_LAUNCH */
    size_t behind;         /* the one that was served when it entered the queue, or NO_LAUNCH */
    int64_t freed_ns, arrived_ns, ready_ns, served_ns, start_ns, end_ns; /* see gs_course */
    int32_t config_bytes;  /* the shared-memory configuration of the SM of its first block */
    struct on_sms *on_sms; /* when a recording is followed: see follow.c */
    int64_t
        recorded_ns; /* then: blocks that end before this leave before it arrives; INT64_MIN: none does (arrivals.c) */
};

/* A launch or copy that has not been issued. */
static inline struct play gs_play_new(void) {
    return (struct play){.before = NO_LAUNCH,
                         .after = NO_LAUNCH,
                         .stream = NO_LAUNCH,
                         .next_in_stream = NO_LAUNCH,
                         .connection = -1,
                         .next_connected = NO_LAUNCH,
                         .previous = NO_LAUNCH,
                         .freed_by = NO_LAUNCH,
                         .behind = NO_LAUNCH,
                         .freed_ns = GS_NO_TIME,
                         .arrived_ns = GS_NO_TIME,
                         .ready_ns = GS_NO_TIME,
                         .served_ns = GS_NO_TIME,
                         .start_ns = GS_NO_TIME,
                         .end_ns = GS_NO_TIME,
                         .first_running = -1,
                         .lane = -1,
                         .last_ending = -1};
}

struct stream {
    size_t head, tail;  /* the first launch or copy that has not ended, and the last issued */
    size_t last_ended;  /* the one that ended last, if any did */
    int32_t connection; /* of its last launch; -1: none */
};

/* Launches that were issued and are not ready, in order. */
struct connection {
    size_t head, tail;
    uint64_t used; /* `connection_uses` when a launch was last sent through it; 0: never */
};

/* An operation that depends on the end of another one, or on the start of all its blocks. */
struct dependent {
    uint32_t operation;
    bool at_end;
};

struct copy_engine {
    size_t busy;        /* the copy that is under way, or comes next in its stream; or NO_LAUNCH */
    size_t first, last; /* those that wait */
};

/* A block on an SM, by the dispatcher's handle. */
struct running {
    size_t launch;
    int64_t block;
    int32_t before, after; /* other running blocks of the launch */
    int32_t ends_next;     /* the one that ends next, if blocks end in their order; -1: none yet */
    int64_t end_ns;        /* or GS_NO_TIME */
};

/* When a block ends. If all blocks of a launch run equally long, they end in their order, and only the first of them is
   in the heap. */
struct ending {
    int64_t at_ns;
    size_t launch;
    int64_t block;
    int32_t handle;
};

struct endings {
    struct ending *data;
    size_t count, capacity;
};

struct ready_list {
    size_t *data;
    size_t count, capacity;
};

/* Of blocks on SMs, as the dispatcher numbers them. */
struct handles {
    int32_t *data;
    size_t count, capacity;
};

/* A node of a graph (join.c). */
struct node {
    size_t place; /* in the order in which the host issues launches and copies */
    size_t tree;  /* the place of the node with which its tree begins */
    size_t rank;  /* among the children of the parent that ended last; see gs_join_sort */
    bool is_join, is_signaled;
};

/* When launches and copies may begin. Changed by ready.c; engine_play.c lets time pass in untimed_ns, and serve.c takes
   from `list`. */
struct readiness {
    struct stream *streams;
    gs_names stream_names;
    size_t *first; /* by operation: the first of its dependents; NULL: there are no dependencies */
    struct dependent *dependents;
    struct endings timers;  /* a heap of operations that will be ready, and of copies that will end */
    struct ready_list list; /* launches that are ready and not yet in the queue, and kernels of memory nodes */
    struct ready_list held; /* launches that would be ready, but as many kernels are on the GPU as it takes; in order */
    int32_t kernels;        /* launches in the queue or running */
    int32_t most_kernels;
    struct copy_engine copy_engines[2];
    struct endings untimed; /* a heap of copies under way in a run without times */
    int64_t untimed_ns;     /* the time, if each takes as long as usual */
};

enum {
    MEMOIZED = -1, /* instead of a handle: all blocks of a memoized launch */
    IN_BULK = -2   /* the first cohort of a launch (bulk.c) */
};

static inline bool gs_ends_before(const struct ending *a, const struct ending *b) {
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns;
    return a->launch != b->launch ? a->launch < b->launch : a->block < b->block;
}

/* The possible turns: one, or while a recording is followed, all that agree with it so far. */
struct possibilities {
    gs_turns data[GS_MAX_TURNS];
    int32_t count;
};

/* A running block, or a launch in the queue, in a snapshot. */
struct noted {
    size_t launch;
    int64_t started; /* blocks of the launch */
    int64_t block;   /* -1: this is a launch in the queue */
    int64_t at_ns;   /* when the block ends, or GS_NO_TIME */
    int32_t handle;
};

/* The engine at a moment: where blocks are, and all that decides where later blocks go. */
struct snapshot {
    int64_t now_ns;
    gs_text image;    /* see gs_state_image */
    gs_text pointers; /* of all SMs, in bulk */
    struct {
        struct noted *data; /* the queue, then the running blocks by launch and number */
        size_t count, capacity;
    } noted;
};

/* The search for waves that repeat (waves.c). */
struct waves {
    struct snapshot before, now;
    int64_t ended;            /* blocks since the last snapshot */
    int64_t taken, most;      /* snapshots since `before`; how many until it is replaced */
    int32_t *handles, *names; /* see gs_state_image */
    int64_t *shifts;          /* by launch */
};

/* What is known of launches that had the scheduler to themselves, and how one of them went (solo.c). */
typedef struct gs_solos gs_solos;
typedef struct gs_memo gs_memo;

/* The launch that has the scheduler to itself. */
struct solo {
    size_t launch; /* NO_LAUNCH: there is none */
    int64_t began_ns;
    const gs_memo *memo; /* how it goes; NULL: that is not known, and it is played */
};

/* The blocks on the SMs, if they are played in bulk (bulk.c). */
typedef struct gs_bulk gs_bulk;

/* ---- the parts of the engine, each with the files that change it ---- */

/* Changed by engine_play.c; replace.c, waves.c and bulk_waves.c move the time on over the blocks that they play or
   skip, ready.c to a timer, and serve.c back and forth while it replays a memoized launch. serve.c counts nodes in
   host_events, and sets resumes_ns. */
struct clock {
    int64_t now_ns;
    int64_t horizon_ns;   /* nothing later may be played now */
    int64_t resumes_ns;   /* when the next kernel of a recording is served; 0: there is no pause */
    uint64_t host_events; /* launches, exits, and nodes of graphs that came or ended one after the other, so far */
};

/* Changed by connections.c. */
struct connections {
    struct connection *data; /* NULL: there are enough */
    uint64_t uses;
};

/* Launches that are ready and have blocks to start, linked by `before` and `after`. Changed by launch_queue.c. */
struct launch_queue {
    size_t first, last;
    size_t latest;                 /* the launch that was added last, or NO_LAUNCH if it has left */
    size_t tails[MOST_URGENT + 1]; /* by urgency: the last in the queue, or NO_LAUNCH */
};

/* Which SMs the launch that is served may use. Changed by serve.c. */
struct open_sms {
    bool *closed; /* by SM: a launch that waits has closed it to those behind */
    int32_t closed_count;
    bool *usable;     /* by SM: it is open to the launch `usable_by` */
    size_t usable_by; /* NO_LAUNCH: it must be found */
    bool *contexts;   /* by green context and SM: it has the SM. Never changed */
};

/* Which of the placed blocks is block 0, 1, 2 ... Changed by serve.c; hidden.c, replace.c, bulk.c and solo.c move the
   turns on, and use `order`. */
struct numbering {
    gs_burst burst; /* blocks of `launch` that were placed and have no number yet */
    size_t launch;
    int32_t *order;        /* of the burst, see gs_number */
    gs_numberer *numberer; /* NULL: blocks are numbered as they are placed */
    struct possibilities turns;
};

/* What graphs add. Changed by join.c at the beginning, then only by hidden.c. */
struct graph {
    struct node *nodes;    /* by operation; NULL: the run has no graphs */
    size_t *by_place;      /* the operation at each place */
    bool has_joins;        /* nodes wait for others, and the GPU has blocks that signal their ends */
    int join_kernel;       /* such a block */
    struct handles hidden; /* blocks of hidden kernels that have not ended */
};

struct gs_engine {
    /* Given, and never changed. */
    const gs_run *run;
    gs_engine_hooks hooks;
    bool overtaking;

    gs_dispatcher *dispatcher; /* the SMs. Blocks are placed and ended by serve.c, replace.c and hidden.c */
    bool owns_dispatcher;
    struct clock clock;
    struct play *plays;   /* by launch; then by copy */
    size_t capacity;      /* of `plays` and of the streams, in operations. Changed by engine_play.c */
    size_t launched;      /* no launch from this number on was launched. Changed by engine_play.c */
    size_t copies_issued; /* engine_play.c */

    struct readiness readiness;
    struct connections connections;
    struct launch_queue queue;
    struct open_sms sms;
    gs_clusters *clusters; /* NULL: the GPU takes none */
    int16_t *round;        /* SMs of a round of clusters: serve.c */
    struct numbering numbering;
    struct running *running; /* by handle. Changed by serve.c, replace.c and waves.c, and so are the endings */
    struct endings endings;  /* a heap. Changed by bulk.c and bulk_waves.c too */
    struct graph graph;

    struct solo solo; /* changed by serve.c; engine_play.c and replace.c end it */
    gs_solos *solos;  /* solo.c. NULL: every launch is played */
    gs_bulk *bulk;    /* bulk.c. NULL: blocks are played one by one */
    struct waves waves;
    int32_t *steps;       /* two by SM: replace.c */
    gs_dispatcher *trial; /* to try what a recording shows: served.c. NULL: not yet needed */
    int32_t headroom;     /* for gs_engine_headroom: set by serve.c and replace.c before the hook `started` */
    uint64_t checks;      /* how often check_step of engine_play.c was called, in builds with sanitizers */
};

/* How long the blocks of a launch run; 0: until its exit. */
static inline int64_t gs_engine_duration(const gs_engine *engine, size_t launch) {
    if (engine->hooks.durations_ns)
        return engine->hooks.durations_ns[launch];
    return engine->hooks.endless ? 0 : engine->run->launches.data[launch].duration_ns;
}

static inline int64_t gs_engine_spread(const gs_engine *engine, size_t launch) {
    return engine->hooks.durations_ns ? 0 : engine->run->launches.data[launch].spread_ns;
}

static inline int64_t gs_engine_block_duration(const gs_engine *engine, size_t launch, int64_t block) {
    if (engine->hooks.durations_ns)
        return engine->hooks.durations_ns[launch];
    return gs_block_duration(&engine->run->launches.data[launch], block);
}

/* ---- running blocks ---- */

/* The sum, but at most INT64_MAX. */
static inline int64_t gs_later(int64_t now_ns, int64_t duration_ns) {
    return now_ns > INT64_MAX - duration_ns ? INT64_MAX : now_ns + duration_ns;
}

/* The sum, limited to int64_t: the times in a recording can be anything. */
static inline int64_t gs_time_after(int64_t time_ns, int64_t more_ns) {
    int64_t sum;
    if (__builtin_add_overflow(time_ns, more_ns, &sum))
        return more_ns > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static inline void gs_running_add(gs_engine *engine, size_t launch, int64_t block, int32_t handle) {
    struct play *play = &engine->plays[launch];
    engine->running[handle] = (struct running){launch, block, -1, play->first_running, -1, GS_NO_TIME};
    if (play->first_running >= 0)
        engine->running[play->first_running].before = handle;
    play->first_running = handle;
}

static inline void gs_running_remove(gs_engine *engine, int32_t handle) {
    const struct running *running = &engine->running[handle];
    if (running->after >= 0)
        engine->running[running->after].before = running->before;
    if (running->before >= 0)
        engine->running[running->before].after = running->after;
    else
        engine->plays[running->launch].first_running = running->after;
}

/* Whether the blocks of a launch end in their order. */
static inline bool gs_end_in_order(const gs_engine *engine, size_t launch) {
    return !gs_engine_spread(engine, launch) && !engine->hooks.follow;
}

/* Adds to a heap. False: out of memory. */
bool gs_endings_add(struct endings *heap, struct ending ending);

/* Removes the ending at `at`, which need not be the first of the heap. */
struct ending gs_endings_take(struct endings *heap, size_t at);

/* ---- the queue (launch_queue.c) ---- */

void gs_launch_queue_init(struct launch_queue *queue);
void gs_launch_queue_add(gs_engine *engine, size_t launch);
void gs_launch_queue_remove(gs_engine *engine, size_t launch);

/* How urgent a launch is, as a place in `tails`. */
int gs_launch_queue_urgency(const gs_engine *engine, size_t launch);

/* Whether a launch is served before another. */
bool gs_launch_queue_goes_before(const gs_engine *engine, size_t a, size_t b);

/* ---- serving the queue (serve.c); false: out of memory ---- */

/* Starts all blocks that can start. */
bool gs_serve_queue(gs_engine *engine);

/* Takes an ending from the heap, and plays it: a block ends, or a memoized launch. */
bool gs_serve_ending(gs_engine *engine, size_t at);

/* Ends a running block. gs_serve_end: and its launch, if it was the last; then serves the queue. */
bool gs_end_block(gs_engine *engine, int32_t handle);
bool gs_serve_end(gs_engine *engine, int32_t handle);

/* All that has become ready enters the queue. */
bool gs_enter_all(gs_engine *engine);

/* An operation that has become ready enters, and is served: a launch, or the kernel of a memory node. */
bool gs_enter_node(gs_engine *engine, size_t operation);

/* Another launch is about to enter the queue, or blocks are about to end: no launch has the scheduler to itself. */
bool gs_end_solo(gs_engine *engine);

/* The SMs of the green context of a launch or a copy, as flags; NULL: it is in none. */
const bool *gs_engine_context(const gs_engine *engine, size_t operation);

bool gs_engine_is_cooperative(const gs_engine *engine, size_t launch);

/* Whether a launch that waits leaves SMs open to later ones. */
bool gs_engine_leaves_open(const gs_engine *engine, size_t launch);

/* ---- when launches and copies may begin (ready.c); false: out of memory ---- */

/* What a timer is for: the `block` of its struct ending. */
enum { BECOMES_READY, COPY_ENDS };

bool gs_ready_init(gs_engine *engine);
void gs_ready_free(gs_engine *engine);

/* Whether a dependency is met when the other operation ends, and not when all its blocks have started. */
bool gs_ready_waits_for_end(const gs_edge *edge);

/* Whether the operations before it in its stream let an operation begin. */
bool gs_ready_may_pass_stream(const gs_engine *engine, size_t operation);

/* The copy engine of a copy; NULL: it needs none. */
struct copy_engine *gs_ready_copy_engine(gs_engine *engine, size_t operation);

/* Copies which launches are on the GPU or are held, for gs_engine_copy: of an endless engine. */
bool gs_ready_copy(gs_engine *to, const gs_engine *from);

/* The host issues an operation: a launch, or a copy, which has a number after those of the launches. */
bool gs_ready_issue(gs_engine *engine, size_t operation);

/* All blocks of a launch have started; an operation has ended. */
bool gs_ready_started(gs_engine *engine, size_t operation);
bool gs_ready_ended(gs_engine *engine, size_t operation);

/* Plays the next timer. */
bool gs_ready_pass(gs_engine *engine);

/* Ends the next of the copies under way in a run without times. */
bool gs_ready_end_copy(gs_engine *engine);

/* Takes a launch from the list of those that are ready; NO_LAUNCH: there are no more. */
size_t gs_ready_next(gs_engine *engine);

/* ---- connections (connections.c) ---- */

/* False: out of memory. */
bool gs_connections_init(gs_engine *engine);

/* A launch is issued. `stream`: its stream, if that is not idle; or NULL. Returns its connection; -1: it needs none. */
int32_t gs_connections_join(gs_engine *engine, size_t launch, const struct stream *stream);

/* Whether no launch before it in its connection waits. */
bool gs_connections_is_first(const gs_engine *engine, size_t operation);

/* The launch waits no more. Returns the one that is first in its connection now, if it was the first before; or
   NO_LAUNCH. */
size_t gs_connections_leave(gs_engine *engine, size_t operation);

/* ---- kernels that the driver adds to graphs (hidden.c) ---- */

/* Whether a memset or copy is a kernel of the driver. */
bool gs_hidden_has_blocks(const gs_engine *engine, size_t operation);

/* Starts as many of the blocks as find headroom, on SMs of which the flag is set; NULL: on all. `kernel`: the
   dispatcher's number. False: out of memory. */
bool gs_hidden_start(gs_engine *engine, int kernel, int64_t blocks, const bool *sms);

/* Starts the blocks of a memset or copy. False: out of memory. */
bool gs_hidden_start_memory(gs_engine *engine, size_t operation);

/* Ends the blocks of all that were started. Returns whether there were any. */
bool gs_hidden_end(gs_engine *engine);

/* The same of some of them, from number `first` to before `past`, as far as they have not ended. */
bool gs_hidden_end_some(gs_engine *engine, size_t first, size_t past);

/* The same from number `first` on, but for those on the SMs on which the blocks of this memory node stay. */
void gs_hidden_end_others(gs_engine *engine, size_t operation, size_t first);

/* ---- what comes when a node of a graph has ended (join.c) ---- */

/* Before the block that signals the end, beside it, after it. */
typedef enum gs_join_phase { GS_JOIN_FIRST, GS_JOIN_BESIDE, GS_JOIN_AFTER, GS_JOIN_PHASES } gs_join_phase;

/* False: out of memory. */
bool gs_join_init(gs_engine *engine);

/* Whether what waits for this operation comes in the order of a graph. */
bool gs_join_orders(const gs_engine *engine, size_t operation);

/* The order in which operations come: where each phase ends in the list, and whether there is a block. */
typedef struct gs_comers {
    size_t ends[GS_JOIN_PHASES];
    bool is_signaled;
} gs_comers;

/* Sorts the operations that the end of a node has made ready: as they come, phase after phase. False: out of memory. */
bool gs_join_sort(const gs_engine *engine, struct ready_list *list, size_t ended, gs_comers *order);

/* From one node of a graph that waits for nothing to the next, in a run without times: measured on an H200. */
enum { GS_NODE_NS = 1100 };

static inline gs_way gs_engine_way(const gs_engine *engine, size_t operation) {
    return engine->hooks.ways ? (gs_way)engine->hooks.ways[operation] : GS_WAY_USUAL;
}

/* ---- following a recording (follow.c) ---- */

/* What was recorded of a launch; NULL: no recording is followed. */
const gs_seen *gs_follow(const gs_engine *engine, size_t launch);

/* When a block that the engine put on this SM ended. */
int64_t gs_follow_end(gs_engine *engine, size_t launch, int64_t block, int32_t sm);

/* When the first block of a launch started; INT64_MIN: none did. */
int64_t gs_follow_start(const gs_engine *engine, size_t launch);

/* Sets `recorded_ns` of each launch: when it arrives (arrivals.c). */
void gs_follow_arrivals(gs_engine *engine);

/* When a launch is thought to be served, and when its first block started. */
typedef struct gs_served {
    int64_t expected_ns, started_ns;
} gs_served;

/* When it was served, as far as the recording shows it (served.c). */
int64_t gs_follow_served(gs_engine *engine, size_t launch, const gs_seen *seen, gs_served asked);

/* When the kernel before it has just got its last block: the time when the first in the queue is served; 0: at once. */
int64_t gs_follow_resume(gs_engine *engine);

/* The index in the heap of the ending that is next. */
size_t gs_follow_ending(const gs_engine *engine);

/* ---- waves that repeat (waves.c) ---- */

/* After a block has ended: skips waves if they repeat. False: out of memory. */
bool gs_waves_pass(gs_engine *engine);
/* Whether enough blocks have ended since the last look, and `more`, that a look is worth its time even where blocks
   are played fast. */
bool gs_waves_are_likely(const gs_engine *engine, int64_t more);

/* A launch has entered or left the queue, or has ended: what was before does not repeat. */
void gs_waves_restart(gs_engine *engine);
void gs_waves_free(gs_engine *engine);

/* ---- blocks that take the place of others (replace.c) ---- */

/* Plays the next endings, if each leaves headroom only for blocks of the same launch. `*replaced`: whether there were
   any. False: out of memory. */
bool gs_replace_pass(gs_engine *engine, bool *replaced);
void gs_replace_free(gs_engine *engine);

/* ---- many blocks in one step (bulk.c); false: out of memory ---- */

/* Sets engine->bulk, if the run can be played in bulk. */
bool gs_bulk_init(gs_engine *engine);
void gs_bulk_free(gs_bulk *bulk);

/* Whether no blocks are on the SMs: then the state of these is that of the dispatcher. */
bool gs_bulk_is_idle(const gs_bulk *bulk);

/* Places as many blocks of a launch as find headroom, in numbering.burst, and says whether that is cut. */
bool gs_bulk_place(gs_engine *engine, size_t launch);

/* The blocks of the burst, which are numbered, start. */
bool gs_bulk_start_burst(gs_engine *engine, size_t launch);

/* The queue was served: an SM that has just become idle loses its configuration. */
bool gs_bulk_settle(gs_engine *engine);

/* Blocks of the launch that is first in `endings` end: one; or many, and blocks of the first launch of the queue start
   in their place. Then the queue must be served. */
bool gs_bulk_end(gs_engine *engine);

/* The shared-memory configuration of an SM. */
int32_t gs_bulk_config(const gs_bulk *bulk, int32_t sm);

/* Adds what waves.c must know: the first blocks of launches, and all else, as bytes, that decides what happens next. */
bool gs_bulk_note(gs_engine *engine, struct snapshot *snapshot);

/* Waves were skipped: the blocks of a launch end so much later; the pointers of SMs move `count` times as far as they
   have moved from one snapshot to the other. */
void gs_bulk_delay(gs_engine *engine, size_t launch, int64_t more_ns);
void gs_bulk_move_pointers(gs_bulk *bulk, const struct snapshot *before, const struct snapshot *now, int64_t count);

/* SMs with the same pattern. */
struct alike {
    uint32_t pattern;
    int32_t sms;
};

/* Lists the patterns of the SMs, at most one for each SM. Returns how many there are. */
int32_t gs_bulk_alike(const gs_bulk *bulk, struct alike *alike);
gs_patterns *gs_bulk_patterns(const gs_bulk *bulk);

/* Whether local memory must grow for a launch, and blocks are on the GPU. */
bool gs_bulk_local_waits(const gs_engine *engine, size_t launch);

/* The blocks on all SMs. */
int64_t gs_bulk_residents(const gs_bulk *bulk);

/* See gs_engine_check. */
const char *gs_bulk_check(const gs_engine *engine);

/* ---- launches that have the scheduler to themselves (solo.c) ---- */

/* NULL: out of memory. */
gs_solos *gs_solos_new(const gs_gpu *gpu);
void gs_solos_free(gs_solos *solos);

/* A launch begins, and nothing else waits. `*memo`: how one that began alike went, or NULL. Unless `*is_known`, no memo
   can be made of it. False: out of memory. */
bool gs_solo_begin(gs_engine *engine, size_t launch, bool *is_known, const gs_memo **memo);

/* The launch has ended, and no other block has started or ended in the meantime: keeps a memo of it. False: out of
   memory. */
bool gs_solo_keep(gs_engine *engine, size_t launch, int64_t began_ns);

/* How long a launch takes that goes like this. */
int64_t gs_memo_took(const gs_engine *engine, size_t launch, const gs_memo *memo);

/* The launch has ended: the GPU becomes as it leaves it. Returns the launch that went alike. */
size_t gs_memo_commit(gs_engine *engine, size_t launch, const gs_memo *memo);

#endif
