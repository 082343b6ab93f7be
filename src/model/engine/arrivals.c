/*
 * arrivals.c: when the kernels of a recording arrived in the queue.
 *
 * A recording says when blocks started, not when kernels were launched. A more urgent kernel holds up the others from
 * its arrival on, so it matters even while it cannot start. The recording shows a time before which a kernel arrived
 * and one after which it did, and kernels arrive in the order of their launches:
 *
 *   - A kernel arrived before it started. If its first block took the place of one that had just ended, it waited for
 *     that end, so it arrived before it (`latest`).
 *   - A kernel that waits holds up less urgent ones, so it arrived after the last block of these that started before it
 *     (`earliest`).
 *   - If nothing ended where it started and no other kernel had just got its last block, it started when it arrived.
 */
#include "engine_state.h"

#include <stdlib.h>

enum {
    RELEASE_NS = 350,  /* from when a kernel arrives to its start, if it need not wait */
    LATE_NS = 640,     /* from the end of a block to the start of one in its place, at most */
    PLACED_NS = 100,   /* from when a block is placed to its start, at least */
    PAUSE_NS = 1000,   /* from the last block of a kernel to the first block of the next, at most */
    LAUNCH_NS = 10000, /* the longest time that a launch takes, on a host that does not wait */
    HOST_NS = 60000    /* the longest time from one launch to the next, on a host that waits between them */
};

static int64_t last_start(const gs_seen *seen) {
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; seen->has_start && i < seen->start_ns.count; i++)
        if (seen->start_ns.data[i] != GS_NO_TIME)
            last_ns = gs_max(last_ns, seen->start_ns.data[i]);
    return last_ns;
}

/* The SM of the first block that started. */
static int32_t first_sm(const gs_seen *seen, int64_t started_ns) {
    for (size_t i = 0; i < seen->start_ns.count; i++)
        if (seen->start_ns.data[i] == started_ns)
            return gs_seen_sm(seen, (int64_t)i);
    return -1;
}

/* The last end on the SM where the launch started, shortly before that; INT64_MAX: there is none. */
static int64_t end_before(const gs_engine *engine, size_t launch, int64_t started_ns) {
    int64_t found_ns = INT64_MAX, since_ns = gs_time_after(started_ns, -LATE_NS);
    int32_t sm = first_sm(gs_follow(engine, launch), started_ns);
    for (size_t i = 0; i < engine->run->launches.count; i++) {
        const gs_seen *other = gs_follow(engine, i);
        for (size_t block = 0; other->has_end && block < other->end_ns.count; block++) {
            int64_t end_ns = other->end_ns.data[block];
            if (end_ns >= since_ns && end_ns < started_ns && gs_seen_sm(other, (int64_t)block) == sm)
                found_ns = found_ns == INT64_MAX ? end_ns : gs_max(found_ns, end_ns);
        }
    }
    return found_ns;
}

static int64_t latest_arrival(const gs_engine *engine, size_t launch, bool has_urgent) {
    int64_t started_ns = gs_follow_start(engine, launch);
    if (started_ns == INT64_MIN)
        return INT64_MAX;
    int64_t released_ns = gs_time_after(started_ns, -RELEASE_NS);
    return has_urgent ? gs_min(released_ns, end_before(engine, launch, started_ns)) : released_ns;
}

static int64_t earliest_arrival(const gs_engine *engine, size_t launch) {
    int64_t started_ns = gs_follow_start(engine, launch), last_ns = INT64_MIN;
    int urgency = abs(engine->run->launches.data[launch].priority);
    for (size_t i = 0; i < launch; i++) {
        const gs_seen *other = gs_follow(engine, i);
        if (abs(engine->run->launches.data[i].priority) >= urgency)
            continue;
        for (size_t block = 0; other->has_start && block < other->start_ns.count; block++)
            if (other->start_ns.data[block] != GS_NO_TIME && other->start_ns.data[block] < started_ns)
                last_ns = gs_max(last_ns, other->start_ns.data[block]);
    }
    return last_ns == INT64_MIN ? last_ns : gs_time_after(last_ns, -PLACED_NS);
}

/* Whether another kernel had just got its last block. */
static bool follows_another(const gs_engine *engine, int64_t started_ns) {
    for (size_t i = 0; i < engine->run->launches.count; i++) {
        int64_t last_ns = last_start(gs_follow(engine, i));
        if (last_ns < started_ns && last_ns >= gs_time_after(started_ns, -PAUSE_NS))
            return true;
    }
    return false;
}

/* Whether a block had just ended, on any SM. */
static bool follows_end(const gs_engine *engine, int64_t started_ns) {
    for (size_t i = 0; i < engine->run->launches.count; i++) {
        const gs_seen *seen = gs_follow(engine, i);
        for (size_t block = 0; seen->has_end && block < seen->end_ns.count; block++)
            if (seen->end_ns.data[block] < started_ns &&
                seen->end_ns.data[block] >= gs_time_after(started_ns, -LATE_NS))
                return true;
    }
    return false;
}

static bool started_at_once(const gs_engine *engine, size_t launch) {
    int64_t started_ns = gs_follow_start(engine, launch), began_ns = gs_follow_start(engine, 0);
    return started_ns != INT64_MIN && started_ns <= gs_time_after(began_ns, LAUNCH_NS * ((int64_t)launch + 1)) &&
           end_before(engine, launch, started_ns) == INT64_MAX && !follows_another(engine, started_ns);
}

static bool has_urgent_launches(const gs_run *run) {
    for (size_t i = 1; i < run->launches.count; i++)
        if (run->launches.data[i].priority != run->launches.data[0].priority)
            return true;
    return false;
}

/* When a launch arrives that is as urgent as all others, after one that arrived at `last_ns`. If it started soon after
   that, and nothing happened just before, it started at once. Otherwise it may have waited, and it is assumed that the
   host did not. */
static int64_t arrival_in_order(const gs_engine *engine, size_t launch, int64_t last_ns) {
    int64_t started_ns = gs_follow_start(engine, launch);
    bool is_soon = !launch || started_ns <= gs_time_after(last_ns, HOST_NS);
    bool at_once = is_soon && !follows_end(engine, started_ns) && !follows_another(engine, started_ns);
    return at_once ? gs_time_after(started_ns, -RELEASE_NS) : gs_time_after(last_ns, LAUNCH_NS);
}

void gs_follow_arrivals(gs_engine *engine) {
    size_t launches = engine->run->launches.count;
    bool has_urgent = has_urgent_launches(engine->run);
    int64_t next_ns = INT64_MAX, last_ns = INT64_MIN;
    for (size_t i = launches; i-- > 0;) {
        next_ns = gs_min(next_ns, latest_arrival(engine, i, has_urgent));
        engine->plays[i].recorded_ns = next_ns;
    }
    for (size_t i = 0; i < launches; i++) {
        int64_t *at_ns = &engine->plays[i].recorded_ns;
        if (gs_follow_start(engine, i) == INT64_MIN) {
            *at_ns = INT64_MIN;
            continue;
        }
        int64_t own_ns = !has_urgent                  ? arrival_in_order(engine, i, last_ns)
                         : started_at_once(engine, i) ? *at_ns
                                                      : earliest_arrival(engine, i);
        last_ns = gs_min(gs_max(last_ns, own_ns), *at_ns);
        *at_ns = last_ns;
    }
}
