/*
 * engine_state.h: the state of the engine, for engine.c, which plays events; ready.c, which knows when launches and copies
 * may begin; follow.c, which takes from a recording what no model can know; waves.c, which skips waves that repeat;
 * replace.c, which lets blocks take the place of others; and solo.c, which knows launches that had the scheduler to
 * themselves.
 */
#ifndef GS_ENGINE_STATE_H
#define GS_ENGINE_STATE_H

#include "engine.h"

/* A launch that is issued waits for its stream and what it depends on, then for the gap, then for a place on the GPU
   (HELD), then in the queue. STARTED: all its blocks have. A copy waits for its copy engine instead of in the queue. */
enum status { NOT_LAUNCHED, IN_STREAM, COMING, HELD, QUEUED, STARTED, ENDED };

#define NO_LAUNCH SIZE_MAX

enum { MOST_URGENT = 1000 }; /* what is more urgent shares a tail with this */

/* A launch or copy being played. */
struct play {
    enum status status;
    bool was_alone;         /* it has had its chance to fly (solo.c) */
    int kernel;             /* the dispatcher's number */
    int64_t started, ended; /* blocks */
    int32_t first_running;  /* handle of one of its running blocks, -1: none */
    int32_t last_ending;    /* handle of the running block that ends last, if blocks end in their order; -1: none */
    size_t before, after;   /* neighbors in the queue */
    uint64_t ready_at;      /* `host_events` when it was ready */
    size_t stream;          /* number of its stream, or NO_LAUNCH */
    size_t next_in_stream;  /* the next launch or copy in the same stream */
    int32_t connection;     /* in which it waits (connections.c); -1: none */
    size_t next_connected;  /* the next launch in the same connection */
    size_t early;           /* the one before it in its stream, if it may start before that has ended; or NO_LAUNCH */
    uint32_t pending;       /* dependencies that are not met */
    bool is_awaited;        /* others depend on its start */
    bool is_freed_by_event;
    bool is_freed_by_copy; /* or one of several that it waited for last */
    bool was_held;         /* the hook `held` was called for it */
    size_t freed_by;       /* the one that it waited for last, in its stream or as a dependency, or NO_LAUNCH */
    size_t behind;         /* the one that was served when it entered the queue, or NO_LAUNCH */
    int64_t freed_ns, arrived_ns, ready_ns, served_ns, start_ns, end_ns; /* see gs_course */
    int32_t config_bytes;  /* the shared-memory configuration of the SM of its first block */
    struct on_sms *on_sms; /* when a recording is followed: see follow.c */
    int64_t recorded_ns;   /* then: blocks that end before this make room before it arrives; INT64_MIN: none does */
};

/* A launch or copy that has not been issued. */
static inline struct play gs_play_new(void) {
    return (struct play){.before = NO_LAUNCH,
                         .after = NO_LAUNCH,
                         .stream = NO_LAUNCH,
                         .next_in_stream = NO_LAUNCH,
                         .connection = -1,
                         .next_connected = NO_LAUNCH,
                         .early = NO_LAUNCH,
                         .freed_by = NO_LAUNCH,
                         .behind = NO_LAUNCH,
                         .freed_ns = GS_NO_TIME,
                         .arrived_ns = GS_NO_TIME,
                         .ready_ns = GS_NO_TIME,
                         .served_ns = GS_NO_TIME,
                         .start_ns = GS_NO_TIME,
                         .end_ns = GS_NO_TIME,
                         .first_running = -1,
                         .last_ending = -1};
}

struct stream {
    size_t head, tail;  /* the first launch or copy that has not ended, and the last issued */
    int32_t connection; /* of its last launch; -1: none */
    size_t emptied_by;  /* of those that have ended, the one with the latest end; or NO_LAUNCH */
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
    size_t busy;        /* the copy that is under way, or NO_LAUNCH */
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
    bool is_join, is_signaled;
};

/* When launches and copies may begin (ready.c). */
struct readiness {
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

enum { FLYING = -1 }; /* instead of a handle: all blocks of a launch that flies */

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
    gs_text image; /* see gs_state_image */
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
typedef struct gs_flight gs_flight;

/* The launch that has the scheduler to itself. */
struct solo {
    size_t launch; /* NO_LAUNCH: there is none */
    int64_t began_ns;
    const gs_flight *flight; /* it flies; NULL: it is played */
};

struct gs_engine {
    const gs_run *run;
    gs_dispatcher *dispatcher;
    gs_engine_hooks hooks;
    bool overtaking;
    bool *closed, *usable; /* by SM: closed by a launch that waits; open to the launch `usable_by` */
    size_t usable_by;      /* NO_LAUNCH: it must be found */
    bool *contexts;        /* by green context and SM: it has the SM */
    int32_t closed_count;
    int64_t now_ns;
    struct play *plays; /* by launch; then by copy */
    size_t launched;    /* no launch from this number on was launched */
    struct readiness readiness;
    int64_t horizon_ns; /* nothing later may be played now */
    size_t copies_issued;
    struct stream *streams;
    struct connection *connections; /* NULL: there are enough */
    uint64_t connection_uses;
    gs_names stream_names;
    size_t queue_first, queue_last;
    size_t queue_latest; /* the launch that was added last, or NO_LAUNCH if it has left */
    uint64_t host_events; /* launches, exits, and nodes of graphs that came or ended one after the other, so far */
    size_t queue_tails[MOST_URGENT + 1]; /* by urgency: the last in the queue, or NO_LAUNCH */
    struct running *running;             /* by handle */
    struct endings endings;              /* a heap */
    gs_burst burst;                      /* blocks of `burst_launch` that were placed and have no number yet */
    size_t burst_launch;
    int32_t *order; /* of the burst, see gs_number */
    gs_numberer *numberer;
    gs_clusters *clusters; /* NULL: the GPU takes none */
    int16_t *round;        /* SMs of a round of clusters */
    struct possibilities turns;
    gs_dispatcher *trial; /* to try what a recording shows; NULL: not yet needed */
    struct waves waves;
    int32_t *steps;  /* two by SM: see replace.c */
    gs_solos *solos; /* NULL: every launch is played */
    struct solo solo;
    struct node *nodes;    /* by operation; NULL: the run has no graphs */
    bool has_joins;        /* nodes wait for others, and the GPU has blocks that signal their ends */
    int join_kernel;       /* such a block */
    struct handles hidden; /* blocks of hidden kernels (hidden.c) that have not ended */
    int64_t resumes_ns;    /* when the next kernel of a recording is served; 0: there is no pause */
    int32_t room;          /* of the SM of the block that starts, before it was placed; 0: a part of a cluster */
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

/* ---- when launches and copies may begin (ready.c); false: out of memory ---- */

bool gs_ready_init(gs_engine *engine);
void gs_ready_free(gs_engine *engine);

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

/* Starts as many of the blocks as find room, on SMs of which the flag is set; NULL: on all. `kernel`: the dispatcher's
   number. False: out of memory. */
bool gs_hidden_start(gs_engine *engine, int kernel, int64_t blocks, const bool *sms);

/* Starts the blocks of a memset or copy. False: out of memory. */
bool gs_hidden_start_memory(gs_engine *engine, size_t operation);

/* Ends the blocks of all that were started. Returns whether there were any. */
bool gs_hidden_end(gs_engine *engine);

/* ---- what comes when a node of a graph has ended (join.c) ---- */

/* Before the block that signals the end, beside it, after it. */
typedef enum gs_join_phase { GS_JOIN_FIRST, GS_JOIN_BESIDE, GS_JOIN_AFTER, GS_JOIN_PHASES } gs_join_phase;

/* False: out of memory. */
bool gs_join_init(gs_engine *engine);

/* Whether what waits for this operation comes in the order of a graph. */
bool gs_join_orders(const gs_engine *engine, size_t operation);

/* Whether the end of this node is signaled by a block. */
bool gs_join_is_due(const gs_engine *engine, size_t operation);

/* Sorts the operations that the end of a node has made ready: as they come, phase after phase. `ends`: where each phase
   ends in the list. False: out of memory. */
bool gs_join_sort(const gs_engine *engine, struct ready_list *list, size_t ended, size_t ends[GS_JOIN_PHASES]);

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
/* Whether so many blocks have ended since the last look, and `more`, that a look is worth its time even where blocks
   are played fast. */
bool gs_waves_are_likely(const gs_engine *engine, int64_t more);

/* A launch has entered or left the queue, or has ended: what was before does not repeat. */
void gs_waves_restart(gs_engine *engine);
void gs_waves_free(gs_engine *engine);

/* ---- blocks that take the place of others (replace.c) ---- */

/* Plays the next endings, if each makes room only for blocks of the same launch. `*replaced`: whether there were any.
   False: out of memory. */
bool gs_replace_pass(gs_engine *engine, bool *replaced);
void gs_replace_free(gs_engine *engine);

/* ---- launches that have the scheduler to themselves (solo.c) ---- */

/* NULL: out of memory. */
gs_solos *gs_solos_new(const gs_gpu *gpu);
void gs_solos_free(gs_solos *solos);

/* A launch begins, and nothing else waits. `*flight`: how one that began alike went, or NULL. Unless `*is_known`, it
   cannot be learned how it goes. False: out of memory. */
bool gs_solo_begin(gs_engine *engine, size_t launch, bool *is_known, const gs_flight **flight);

/* The launch has ended, and no other block has started or ended in the meantime. False: out of memory. */
bool gs_solo_learn(gs_engine *engine, size_t launch, int64_t began_ns);

/* How long a launch takes that goes like this. */
int64_t gs_flight_took(const gs_engine *engine, size_t launch, const gs_flight *flight);

/* The launch has ended: the GPU becomes as it leaves it. Returns the launch that went alike. */
size_t gs_flight_land(gs_engine *engine, size_t launch, const gs_flight *flight);

#endif
