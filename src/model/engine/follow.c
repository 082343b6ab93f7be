/*
 * follow.c: what the engine takes from a recording, because no model can know it: when blocks ended. When kernels
 * arrived is in arrivals.c.
 *
 * The clock of an H200 steps by 32 ns. Two blocks that end within two steps may have ended in either order; the place
 * of the next block shows which. From the end of a block to the start of another in its place takes about a third of a
 * microsecond. When a kernel has got its last block, the next kernel is served after a pause, and blocks that end in
 * between leave headroom for it.
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLOCK_NS = 64,   /* blocks whose ends are at most this far apart may have ended in either order */
    SERVED_NS = 310, /* from when a kernel is served to the start of its first block */
    PAUSE_NS = 1000  /* the longest pause before the next kernel is served */
};

const gs_seen *gs_follow(const gs_engine *engine, size_t launch) {
    const gs_launch *which = &engine->run->launches.data[launch];
    return engine->hooks.follow ? engine->run->events.data[which->observed].seen : NULL;
}

int64_t gs_follow_start(const gs_engine *engine, size_t launch) {
    const gs_seen *seen = gs_follow(engine, launch);
    int64_t first_ns = INT64_MIN;
    for (size_t i = 0; seen->has_start && i < seen->start_ns.count; i++)
        if (seen->start_ns.data[i] != GS_NO_TIME && (first_ns == INT64_MIN || seen->start_ns.data[i] < first_ns))
            first_ns = seen->start_ns.data[i];
    return first_ns;
}

/* The blocks of a recorded launch by SM, in ascending order. The first block of a launch on an SM is matched with the
   first one that was recorded there, and so on: if some numbers differ, blocks still end in the order in which they
   were placed. */
struct on_sms {
    int32_t *next;   /* by block */
    int32_t first[]; /* by SM; -1: none is left */
};

static struct on_sms *list_by_sm(const gs_engine *engine, const gs_seen *seen, size_t launch) {
    size_t sms = (size_t)gs_dispatcher_state(engine->dispatcher)->gpu->sms;
    size_t blocks = (size_t)engine->run->launches.data[launch].blocks;
    struct on_sms *lists = malloc(sizeof *lists + (sms + blocks) * sizeof(int32_t));
    if (!lists)
        return NULL;
    lists->next = lists->first + sms;
    memset(lists->first, -1, sms * sizeof *lists->first);
    for (int64_t block = (int64_t)blocks - 1; block >= 0; block--) {
        int32_t sm = gs_seen_sm(seen, block);
        if (sm < 0 || (size_t)sm >= sms)
            continue;
        lists->next[block] = lists->first[sm];
        lists->first[sm] = (int32_t)block;
    }
    return lists;
}

int64_t gs_follow_end(gs_engine *engine, size_t launch, int64_t block, int32_t sm) {
    struct play *play = &engine->plays[launch];
    const gs_seen *seen = gs_follow(engine, launch);
    if (!play->on_sms)
        play->on_sms = list_by_sm(engine, seen, launch);
    int32_t recorded = play->on_sms ? play->on_sms->first[sm] : -1;
    if (recorded < 0)
        return gs_seen_time(&seen->end_ns, block);
    play->on_sms->first[sm] = play->on_sms->next[recorded];
    return gs_seen_time(&seen->end_ns, recorded);
}

int64_t gs_follow_resume(gs_engine *engine) {
    size_t next = engine->queue.first;
    if (next == NO_LAUNCH || !engine->endings.count || !gs_follow(engine, next))
        return 0;
    int64_t started_ns = gs_follow_start(engine, next);
    if (started_ns == INT64_MIN)
        return 0;
    int64_t served_ns = gs_time_after(started_ns, -SERVED_NS);
    bool is_soon = served_ns > engine->clock.now_ns && served_ns <= gs_time_after(engine->clock.now_ns, PAUSE_NS);
    if (!is_soon)
        return 0; /* it waited for headroom, or for a more urgent kernel */
    return gs_follow_served(engine, next, gs_follow(engine, next), (gs_served){served_ns, started_ns});
}

/* An ending on this SM in the part of the heap below `at`, not later than the clock can tell from the first of all;
   SIZE_MAX: there is none. */
static size_t ending_on(const gs_engine *engine, size_t at, int32_t sm) {
    const struct endings *heap = &engine->endings;
    if (at >= heap->count || heap->data[at].at_ns > gs_time_after(heap->data[0].at_ns, CLOCK_NS))
        return SIZE_MAX;
    if (gs_dispatcher_sm(engine->dispatcher, heap->data[at].handle) == sm)
        return at;
    size_t found = ending_on(engine, 2 * at + 1, sm);
    return found != SIZE_MAX ? found : ending_on(engine, 2 * at + 2, sm);
}

/* A cluster starts on several SMs: the block that ended last made space on one of them. */
size_t gs_follow_ending(const gs_engine *engine) {
    size_t first = engine->queue.first, found = SIZE_MAX;
    const gs_seen *seen = first == NO_LAUNCH ? NULL : gs_follow(engine, first);
    for (int32_t i = 0; seen && found == SIZE_MAX && i < engine->run->launches.data[first].cluster; i++)
        found = ending_on(engine, 0, gs_seen_sm(seen, engine->plays[first].started + i));
    return found == SIZE_MAX ? 0 : found;
}
