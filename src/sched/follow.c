/*
 * follow.c: what the engine takes from a recording, because no model can know it: when blocks ended, and when kernels
 * arrived.
 *
 * The clock of an H200 steps by 32 ns. Two blocks that end within two steps may have ended in either order; the place
 * of the next block shows which. From the end of a block to the start of another in its place takes about a third of a
 * microsecond. When a kernel has got its last block, the next kernel is served after a pause, and blocks that end in
 * between make room for it.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLOCK_NS = 64,    /* blocks whose ends are at most this far apart may have ended in either order */
    RELEASE_NS = 350, /* from the end of a block to the start of one in its place */
    SERVED_NS = 310,  /* from when a kernel is served to the start of its first block */
    PAUSE_NS = 1000,  /* the longest pause before the next kernel is served */
    LAUNCH_NS = 10000 /* the longest time that a launch takes, on a host that does not wait */
};

/* The sum, limited to int64_t: the times in a recording can be anything. */
static int64_t after(int64_t time_ns, int64_t more_ns) {
    int64_t sum;
    if (__builtin_add_overflow(time_ns, more_ns, &sum))
        return more_ns > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

const gs_seen *gs_follow(const gs_engine *engine, size_t launch) {
    const gs_launch *which = &engine->run->launches.data[launch];
    return engine->hooks.follow ? engine->run->events.data[which->observed].seen : NULL;
}

static int64_t first_start(const gs_engine *engine, size_t launch) {
    const gs_seen *seen = gs_follow(engine, launch);
    int64_t first_ns = INT64_MIN;
    for (size_t i = 0; seen->has_start && i < seen->start_ns.count; i++)
        if (seen->start_ns.data[i] != GS_NO_TIME && (first_ns == INT64_MIN || seen->start_ns.data[i] < first_ns))
            first_ns = seen->start_ns.data[i];
    return first_ns;
}

/* The blocks of a recorded launch by SM, in ascending order. A recorded block is matched with one that the engine
   started. Matched blocks are removed from a list when they are found at its beginning. */
struct on_sms {
    bool *matched;   /* by block */
    int32_t *next;   /* by block */
    int32_t first[]; /* by SM */
};

static struct on_sms *list_by_sm(const gs_engine *engine, const gs_seen *seen, size_t launch) {
    size_t sms = (size_t)gs_dispatcher_state(engine->dispatcher)->gpu->sms;
    size_t blocks = (size_t)engine->run->launches.data[launch].blocks;
    struct on_sms *lists = malloc(sizeof *lists + sms * sizeof(int32_t) + blocks * (sizeof(int32_t) + sizeof(bool)));
    if (!lists)
        return NULL;
    lists->next = lists->first + sms;
    lists->matched = (bool *)(lists->next + blocks);
    memset(lists->first, -1, sms * sizeof *lists->first);
    for (int64_t block = (int64_t)blocks - 1; block >= 0; block--) {
        int32_t sm = gs_seen_sm(seen, block);
        lists->matched[block] = false;
        if (sm < 0 || (size_t)sm >= sms)
            continue;
        lists->next[block] = lists->first[sm];
        lists->first[sm] = (int32_t)block;
    }
    return lists;
}

/* The recorded block to match with a block of the engine: the one with the same number, or if that was on another SM,
   one that was on this SM. */
static int64_t find_match(struct on_sms *lists, const gs_seen *seen, int64_t block, int32_t sm) {
    if (gs_seen_sm(seen, block) == sm && !lists->matched[block])
        return block;
    int32_t *first = &lists->first[sm];
    while (*first >= 0 && lists->matched[*first])
        *first = lists->next[*first];
    return *first >= 0 ? *first : block;
}

int64_t gs_follow_end(gs_engine *engine, size_t launch, int64_t block, int32_t sm) {
    struct play *play = &engine->plays[launch];
    const gs_seen *seen = gs_follow(engine, launch);
    if (!play->on_sms)
        play->on_sms = list_by_sm(engine, seen, launch);
    if (!play->on_sms)
        return gs_seen_time(&seen->end_ns, block);
    int64_t recorded = find_match(play->on_sms, seen, block, sm);
    play->on_sms->matched[recorded] = true;
    return gs_seen_time(&seen->end_ns, recorded);
}

/* A kernel arrives at most LAUNCH_NS after the one before it, and before it starts. */
int64_t gs_follow_arrival(const gs_engine *engine, size_t launch) {
    int64_t started_ns = first_start(engine, launch), began_ns = first_start(engine, 0);
    if (started_ns == INT64_MIN || began_ns == INT64_MIN)
        return INT64_MIN;
    return after(gs_min(started_ns, after(began_ns, LAUNCH_NS * (int64_t)launch)), -RELEASE_NS);
}

int64_t gs_follow_resume(const gs_engine *engine) {
    size_t next = engine->queue_first;
    if (next == NO_LAUNCH || !engine->endings.count || !gs_follow(engine, next))
        return 0;
    int64_t started_ns = first_start(engine, next);
    if (started_ns == INT64_MIN)
        return 0;
    int64_t served_ns = after(started_ns, -SERVED_NS);
    bool is_soon = served_ns > engine->now_ns && served_ns <= after(engine->now_ns, PAUSE_NS);
    return is_soon ? served_ns : 0; /* otherwise it waited for room, or for a more urgent kernel */
}

/* An ending on this SM in the part of the heap below `at`, not later than the clock can tell from the first of all;
   SIZE_MAX: there is none. */
static size_t ending_on(const gs_engine *engine, size_t at, int32_t sm) {
    const struct endings *heap = &engine->endings;
    if (at >= heap->count || heap->data[at].at_ns > after(heap->data[0].at_ns, CLOCK_NS))
        return SIZE_MAX;
    if (gs_dispatcher_sm(engine->dispatcher, heap->data[at].handle) == sm)
        return at;
    size_t found = ending_on(engine, 2 * at + 1, sm);
    return found != SIZE_MAX ? found : ending_on(engine, 2 * at + 2, sm);
}

size_t gs_follow_ending(const gs_engine *engine) {
    size_t first = engine->queue_first;
    const gs_seen *seen = first == NO_LAUNCH ? NULL : gs_follow(engine, first);
    size_t found = seen ? ending_on(engine, 0, gs_seen_sm(seen, engine->plays[first].started)) : SIZE_MAX;
    return found == SIZE_MAX ? 0 : found;
}
