/*
 * launch_queue.c: the queue of launches that are ready and have blocks to start.
 *
 * A list, most urgent first, cooperative launches before others, then in the order in which launches became ready. Only
 * this file changes it. The last launch of each urgency is known (tails), so that a launch that becomes ready finds its
 * place without a walk.
 */
#include "engine_state.h"

#include <stdlib.h>

void gs_launch_queue_init(struct launch_queue *queue) {
    queue->first = queue->last = queue->latest = NO_LAUNCH;
    for (size_t i = 0; i <= MOST_URGENT; i++)
        queue->tails[i] = NO_LAUNCH;
}

bool gs_engine_is_cooperative(const gs_engine *engine, size_t launch) {
    const gs_launch_facts *facts = engine->run->launches.data[launch].issue.facts;
    return facts && facts->is_cooperative;
}

/* The priorities of CUDA are 0 and below, and the lowest is the most urgent. Some people count upwards from 0 instead.
   Either way, what is farther from 0 goes first. Cooperative launches do not wait behind others as urgent as they are,
   but those wait behind them. */
static int urgency_of(const gs_engine *engine, size_t launch) {
    return 2 * abs(engine->run->launches.data[launch].priority) + gs_engine_is_cooperative(engine, launch);
}

bool gs_launch_queue_goes_before(const gs_engine *engine, size_t a, size_t b) {
    int first = urgency_of(engine, a), second = urgency_of(engine, b);
    const struct play *one = &engine->plays[a], *two = &engine->plays[b];
    if (first != second)
        return first > second;
    if (one->ready_ns != two->ready_ns)
        return one->ready_ns < two->ready_ns;
    return one->ready_at != two->ready_at ? one->ready_at < two->ready_at : a < b;
}

int gs_launch_queue_urgency(const gs_engine *engine, size_t launch) {
    return (int)gs_min(urgency_of(engine, launch), MOST_URGENT);
}

static size_t *tail_of(gs_engine *engine, size_t launch) {
    return &engine->queue.tails[gs_launch_queue_urgency(engine, launch)];
}

/* The last launch in the queue that is as urgent as this one, or more urgent if there is none. */
static size_t last_as_urgent(gs_engine *engine, size_t launch) {
    const size_t *tail = tail_of(engine, launch), *end = engine->queue.tails + MOST_URGENT;
    while (*tail == NO_LAUNCH && tail < end)
        tail++;
    return *tail;
}

/* The search for its place goes from the back to the front. Launches that become ready together are added in reverse
   order, each just before the one that was added last: then the search begins there. */
void gs_launch_queue_add(gs_engine *engine, size_t launch) {
    size_t latest = engine->queue.latest, *tail = tail_of(engine, launch);
    bool is_before_latest = latest != NO_LAUNCH && gs_launch_queue_goes_before(engine, launch, latest);
    size_t before = is_before_latest ? engine->plays[latest].before : last_as_urgent(engine, launch);
    engine->queue.latest = launch;
    gs_waves_restart(engine);
    if (*tail == NO_LAUNCH || !gs_launch_queue_goes_before(engine, launch, *tail))
        *tail = launch;
    while (before != NO_LAUNCH && gs_launch_queue_goes_before(engine, launch, before))
        before = engine->plays[before].before;
    size_t after = before == NO_LAUNCH ? engine->queue.first : engine->plays[before].after;
    struct play *play = &engine->plays[launch];
    play->status = QUEUED;
    play->before = before;
    play->after = after;
    *(before == NO_LAUNCH ? &engine->queue.first : &engine->plays[before].after) = launch;
    *(after == NO_LAUNCH ? &engine->queue.last : &engine->plays[after].before) = launch;
}

void gs_launch_queue_remove(gs_engine *engine, size_t launch) {
    const struct play *play = &engine->plays[launch];
    size_t *tail = tail_of(engine, launch);
    gs_waves_restart(engine);
    if (*tail == launch)
        *tail = play->before != NO_LAUNCH && tail_of(engine, play->before) == tail ? play->before : NO_LAUNCH;
    if (engine->queue.latest == launch)
        engine->queue.latest = NO_LAUNCH;
    *(play->before == NO_LAUNCH ? &engine->queue.first : &engine->plays[play->before].after) = play->after;
    *(play->after == NO_LAUNCH ? &engine->queue.last : &engine->plays[play->after].before) = play->before;
}
