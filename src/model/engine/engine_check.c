/*
 * engine_check.c: checks the invariants of the engine, which engine_state.h states and numbers.
 *
 * Each function here checks one or two of them. It returns NULL, or a sentence that names the one that is violated. A
 * list that is damaged may have no end, so no more elements are followed than there can be. The tests call
 * gs_engine_check after each event of random runs; builds with sanitizers call it after each step in time too
 * (engine_play.c).
 */
#include "engine_state.h"

static size_t operations_of(const gs_engine *engine) {
    return engine->run->launches.count + engine->run->copies.count;
}

static bool is_copy(const gs_engine *engine, size_t operation) {
    return operation >= engine->run->launches.count;
}

static bool is_memoized(const gs_engine *engine, size_t launch) {
    return engine->solo.launch == launch && engine->solo.memo;
}

static bool is_issued(const struct play *play) {
    return play->status != NOT_LAUNCHED && play->status != ENDED;
}

/* How many launches have a status from `from` to `to`. */
static size_t count_launches(const gs_engine *engine, enum status from, enum status to) {
    size_t count = 0;
    for (size_t i = 0; i < engine->run->launches.count; i++)
        count += engine->plays[i].status >= from && engine->plays[i].status <= to;
    return count;
}

static size_t count_copies(const gs_engine *engine, enum status status) {
    size_t count = 0;
    for (size_t i = engine->run->launches.count; i < operations_of(engine); i++)
        count += engine->plays[i].status == status;
    return count;
}

/* ---- time ---- */

static const char *check_time(gs_engine *engine) {
    const struct endings *heaps[] = {&engine->endings, &engine->readiness.timers};
    const struct clock *clock = &engine->clock;
    for (size_t i = 0; i < GS_COUNT(heaps) && !engine->hooks.follow; i++)
        for (size_t at = 0; at < heaps[i]->count; at++)
            if (heaps[i]->data[at].at_ns < clock->now_ns)
                return "1: an ending or a timer is in the past";
    if (clock->horizon_ns < clock->now_ns)
        return "1: the horizon is in the past";
    return clock->resumes_ns && !engine->hooks.follow ? "1: there is a pause, but no recording is followed" : NULL;
}

static const char *check_heaps(gs_engine *engine) {
    const struct endings *heaps[] = {&engine->endings, &engine->readiness.timers, &engine->readiness.untimed};
    for (size_t i = 0; i < GS_COUNT(heaps); i++)
        for (size_t at = 1; at < heaps[i]->count; at++)
            if (gs_ends_before(&heaps[i]->data[at], &heaps[i]->data[(at - 1) / 2]))
                return "2: an element of a heap is before its parent";
    return NULL;
}

/* ---- operations ---- */

static bool has_right_counts(const gs_engine *engine, size_t launch) {
    const struct play *play = &engine->plays[launch];
    int64_t blocks = engine->run->launches.data[launch].blocks;
    if (play->ended < 0 || play->ended > play->started || play->started > blocks)
        return false;
    switch (play->status) {
    case NOT_LAUNCHED:
    case IN_STREAM:
    case COMING:
    case HELD:
        return !play->started;
    case QUEUED:
        return play->started < blocks;
    case STARTED:
        return is_memoized(engine, launch) ? !play->started : play->started == blocks && play->ended < blocks;
    case ENDED:
        return play->ended == play->started;
    }
    return false;
}

static const char *check_counts(gs_engine *engine) {
    for (size_t i = 0; i < operations_of(engine); i++)
        if (is_copy(engine, i) ? engine->plays[i].started || engine->plays[i].ended : !has_right_counts(engine, i))
            return "3: the blocks that have started and ended do not fit the status of a launch";
    return NULL;
}

static const char *check_issued(gs_engine *engine) {
    size_t launches = engine->run->launches.count;
    for (size_t i = 0; i < operations_of(engine); i++) {
        bool is_later = is_copy(engine, i) ? i - launches >= engine->copies_issued : i >= engine->launched;
        if (is_later && engine->plays[i].status != NOT_LAUNCHED)
            return "4: an operation was issued before its turn";
    }
    return NULL;
}

static uint32_t count_unmet(const gs_engine *engine, size_t operation) {
    const gs_issue *issue = gs_run_issue(engine->run, operation);
    uint32_t unmet = 0;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &engine->run->edges.data[i];
        enum status status = engine->plays[gs_run_operation(engine->run, edge)].status;
        unmet += gs_ready_waits_for_end(edge) ? status != ENDED : status < STARTED;
    }
    return unmet;
}

static const char *check_pending(gs_engine *engine) {
    for (size_t i = 0; i < operations_of(engine); i++)
        if (engine->plays[i].pending != (engine->readiness.first ? count_unmet(engine, i) : 0))
            return "5: the number of dependencies that are not met is wrong";
    return NULL;
}

static const char *check_waiting(gs_engine *engine) {
    for (size_t i = 0; i < operations_of(engine); i++)
        if (engine->plays[i].status == IN_STREAM && !engine->plays[i].pending && gs_ready_may_pass_stream(engine, i) &&
            gs_connections_is_first(engine, i))
            return "6: an operation waits in its stream for nothing";
    return NULL;
}

static const char *check_timers(gs_engine *engine) {
    const struct endings *timers = &engine->readiness.timers;
    size_t coming = 0, copies = engine->readiness.untimed.count;
    for (size_t i = 0; i < timers->count; i++) {
        enum status status = engine->plays[timers->data[i].launch].status;
        bool becomes_ready = timers->data[i].block == BECOMES_READY;
        coming += becomes_ready && status == COMING;
        copies += !becomes_ready;
        if (status != ENDED && status != (becomes_ready ? COMING : STARTED))
            return "7: a timer is for an operation with another status";
    }
    for (size_t i = 0; i < engine->readiness.untimed.count; i++)
        if (engine->plays[engine->readiness.untimed.data[i].launch].status != STARTED)
            return "7: a copy under way has not started";
    if (coming != count_launches(engine, COMING, COMING) + count_copies(engine, COMING))
        return "7: an operation that is coming has no timer";
    return copies != count_copies(engine, STARTED) ? "7: a copy that has started has no end" : NULL;
}

/* ---- lists ---- */

static const char *check_passing(gs_engine *engine) {
    if (engine->readiness.list.count)
        return "8: an operation is ready and has not entered";
    if (engine->numbering.burst.count)
        return "8: a block was placed and has no number";
    return engine->graph.hidden.count ? "8: a hidden block has not ended" : NULL;
}

/* The operations of a stream that were issued and have not ended; SIZE_MAX: its list is damaged. */
static size_t count_stream(const gs_engine *engine, size_t number) {
    const struct stream *stream = &engine->readiness.streams[number];
    size_t count = 0, left = operations_of(engine), last = NO_LAUNCH;
    if (stream->head != NO_LAUNCH && engine->plays[stream->head].status == ENDED)
        return SIZE_MAX;
    for (size_t i = stream->head; i != NO_LAUNCH; last = i, i = engine->plays[i].next_in_stream) {
        if (!left-- || engine->plays[i].stream != number)
            return SIZE_MAX;
        count += is_issued(&engine->plays[i]);
    }
    return last != NO_LAUNCH && last != stream->tail ? SIZE_MAX : count;
}

static const char *check_streams(gs_engine *engine) {
    size_t listed = 0, issued = 0;
    for (size_t i = 0; i < engine->readiness.stream_names.count; i++) {
        size_t count = count_stream(engine, i);
        if (count == SIZE_MAX)
            return "9: the list of a stream is damaged";
        listed += count;
    }
    for (size_t i = 0; i < operations_of(engine); i++)
        issued += engine->plays[i].stream != NO_LAUNCH && is_issued(&engine->plays[i]);
    return listed != issued ? "9: an operation is not in the list of its stream" : NULL;
}

/* The launches in a connection; SIZE_MAX: its list is damaged. */
static size_t count_connection(const gs_engine *engine, int32_t number) {
    const struct connection *connection = &engine->connections.data[number];
    size_t count = 0, last = NO_LAUNCH;
    for (size_t i = connection->head; i != NO_LAUNCH; last = i, i = engine->plays[i].next_connected) {
        enum status status = engine->plays[i].status;
        if (count++ == operations_of(engine) || engine->plays[i].connection != number || status < IN_STREAM ||
            status > HELD)
            return SIZE_MAX;
    }
    return last != NO_LAUNCH && last != connection->tail ? SIZE_MAX : count;
}

static const char *check_connections(gs_engine *engine) {
    size_t listed = 0, waiting = 0;
    for (int32_t i = 0; engine->connections.data && i < engine->run->connections; i++) {
        size_t count = count_connection(engine, i);
        if (count == SIZE_MAX)
            return "10: the list of a connection is damaged";
        listed += count;
    }
    for (size_t i = 0; i < operations_of(engine); i++)
        waiting += engine->plays[i].connection >= 0;
    return listed != waiting ? "10: a launch is not in the list of its connection" : NULL;
}

static const char *check_kernels(gs_engine *engine) {
    const struct readiness *readiness = &engine->readiness;
    for (size_t i = 0; i < readiness->held.count; i++)
        if (engine->plays[readiness->held.data[i]].status != HELD)
            return "11: a launch is in the list of those that are held, and is not held";
    if (readiness->held.count != count_launches(engine, HELD, HELD))
        return "11: a launch that is held is not in the list";
    if ((size_t)readiness->kernels != count_launches(engine, QUEUED, STARTED))
        return "11: the number of kernels on the GPU is wrong";
    if (readiness->kernels > readiness->most_kernels)
        return "11: more kernels are on the GPU than it takes";
    bool is_full = readiness->kernels == readiness->most_kernels;
    return readiness->held.count && !is_full ? "11: a launch is held, and the GPU takes another kernel" : NULL;
}

static const char *check_copy_engines(gs_engine *engine) {
    size_t listed = 0;
    for (size_t i = 0; i < GS_COUNT(engine->readiness.copy_engines); i++) {
        const struct copy_engine *copy_engine = &engine->readiness.copy_engines[i];
        if (copy_engine->busy == NO_LAUNCH && copy_engine->first != NO_LAUNCH)
            return "12: a copy waits for a copy engine that is idle";
        if (copy_engine->busy != NO_LAUNCH && engine->plays[copy_engine->busy].status != STARTED &&
            engine->plays[copy_engine->busy].status != COMING)
            return "12: a copy engine is busy with a copy that is not under way";
        for (size_t copy = copy_engine->first; copy != NO_LAUNCH; copy = engine->plays[copy].after)
            if (listed++ == operations_of(engine) || engine->plays[copy].status != QUEUED ||
                gs_ready_copy_engine(engine, copy) != copy_engine)
                return "12: the list of a copy engine is damaged";
    }
    return listed != count_copies(engine, QUEUED) ? "12: a copy is not in the list of its copy engine" : NULL;
}

static const char *check_queue(gs_engine *engine) {
    size_t count = 0, before = NO_LAUNCH;
    for (size_t i = engine->queue.first; i != NO_LAUNCH; before = i, i = engine->plays[i].after) {
        if (count++ == operations_of(engine) || is_copy(engine, i) || engine->plays[i].status != QUEUED ||
            engine->plays[i].before != before)
            return "13: the queue is damaged";
        if (before != NO_LAUNCH && !gs_launch_queue_goes_before(engine, before, i))
            return "13: the queue is not in order";
    }
    if (engine->queue.last != before)
        return "13: the end of the queue is wrong";
    return count != count_launches(engine, QUEUED, QUEUED) ? "13: a launch is not in the queue" : NULL;
}

/* After check_queue. */
static const char *check_tails(gs_engine *engine) {
    size_t tails = 0, found = 0;
    bool has_latest = engine->queue.latest == NO_LAUNCH;
    for (size_t i = engine->queue.first; i != NO_LAUNCH; i = engine->plays[i].after) {
        size_t after = engine->plays[i].after;
        int urgency = gs_launch_queue_urgency(engine, i);
        bool is_last = after == NO_LAUNCH || gs_launch_queue_urgency(engine, after) != urgency;
        has_latest = has_latest || i == engine->queue.latest;
        tails += is_last;
        if (is_last && engine->queue.tails[urgency] != i)
            return "14: the last launch of an urgency is wrong";
    }
    for (int i = 0; i <= MOST_URGENT; i++)
        found += engine->queue.tails[i] != NO_LAUNCH;
    if (tails != found)
        return "14: an urgency without launches has a last one";
    return has_latest ? NULL : "14: the launch that was added last has left the queue";
}

/* ---- blocks ---- */

/* The blocks of a launch that run; -1: its list is damaged. */
static int64_t count_running(const gs_engine *engine, size_t launch) {
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    int64_t count = 0, most = (int64_t)state->gpu->sms * state->gpu->limits.blocks_per_sm;
    int32_t before = -1;
    for (int32_t i = engine->plays[launch].first_running; i >= 0; before = i, i = engine->running[i].after) {
        const struct running *running = &engine->running[i];
        if (i >= most || count++ == most || running->launch != launch || running->before != before ||
            running->block < 0 || running->block >= engine->plays[launch].started ||
            state->residents[i].need != engine->plays[launch].kernel)
            return -1;
    }
    return count;
}

static const char *check_running(gs_engine *engine) {
    int64_t all = 0;
    if (engine->bulk)
        return gs_bulk_check(engine);
    for (size_t i = 0; i < engine->run->launches.count; i++) {
        int64_t count = count_running(engine, i);
        if (count < 0)
            return "15: the list of running blocks of a launch is damaged";
        if (count != engine->plays[i].started - engine->plays[i].ended)
            return "15: a block that runs is not in the list of its launch";
        all += count;
    }
    bool is_all = all == gs_dispatcher_state(engine->dispatcher)->resident_count;
    return is_all ? NULL : "15: a block is on an SM that does not run";
}

/* The running blocks of a launch of which it is known when they end. */
static int64_t count_timed(const gs_engine *engine, size_t launch) {
    int64_t count = 0;
    for (int32_t i = engine->plays[launch].first_running; i >= 0; i = engine->running[i].after)
        count += engine->running[i].end_ns != GS_NO_TIME;
    return count;
}

/* How many blocks end one after the other, from this one on; -1: the list is damaged. */
static int64_t count_in_order(const gs_engine *engine, int32_t first) {
    const struct running *running = &engine->running[first];
    int64_t count = 1, most = count_timed(engine, running->launch);
    int32_t last = first;
    for (int32_t next; (next = engine->running[last].ends_next) >= 0; last = next)
        if (count++ == most || engine->running[next].launch != running->launch ||
            engine->running[next].end_ns < engine->running[last].end_ns)
            return -1;
    return last == engine->plays[running->launch].last_ending ? count : -1;
}

/* After check_running. */
static const char *check_endings(gs_engine *engine) {
    size_t wanted = 0, found = 0;
    if (engine->bulk)
        return NULL;
    for (size_t i = 0; i < engine->run->launches.count; i++) {
        int64_t timed = count_timed(engine, i);
        bool in_order = gs_end_in_order(engine, i);
        wanted += in_order ? timed > 0 : (size_t)timed;
        if (in_order && !timed && engine->plays[i].last_ending >= 0)
            return "16: a launch has a last block to end, and none runs";
    }
    for (size_t i = 0; i < engine->endings.count; i++) {
        const struct ending *ending = &engine->endings.data[i];
        if (ending->handle == MEMOIZED)
            continue;
        const struct running *running = &engine->running[ending->handle];
        if (running->launch != ending->launch || running->block != ending->block || running->end_ns != ending->at_ns)
            return "16: an ending is not that of its block";
        if (gs_end_in_order(engine, ending->launch) &&
            count_in_order(engine, ending->handle) != count_timed(engine, ending->launch))
            return "16: the blocks of a launch do not end in their order";
        found++;
    }
    return wanted != found ? "16: a block that runs has no ending" : NULL;
}

static const char *check_solo(gs_engine *engine) {
    size_t memoized = 0;
    for (size_t i = 0; i < engine->endings.count; i++)
        memoized += engine->endings.data[i].handle == MEMOIZED;
    if (engine->solo.launch == NO_LAUNCH || !engine->solo.memo)
        return memoized ? "17: there is an ending without a block" : NULL;
    const struct ending *first = &engine->endings.data[0];
    if (memoized != 1 || first->handle != MEMOIZED || first->launch != engine->solo.launch)
        return "17: the ending of a memoized launch is not the first";
    return engine->queue.first != NO_LAUNCH ? "17: a launch waits beside a memoized one" : NULL;
}

/* Whether a block of a launch, or all of a cooperative one, could start. */
static bool has_headroom(gs_engine *engine, size_t launch) {
    gs_grid grid = gs_grid_of(&engine->run->launches.data[launch], engine->plays[launch].kernel,
                              gs_engine_context(engine, launch));
    int16_t sms[GS_MAX_SMS];
    if (grid.cluster > 1)
        return gs_clusters_round(engine->clusters, engine->dispatcher, grid.kernel, grid.cluster, 1, grid.open, sms);
    bool is_whole = grid.is_whole && !engine->plays[launch].started;
    return gs_grid_headroom(engine->dispatcher, &grid) >= (is_whole ? grid.blocks : 1);
}

static const char *check_conservation(gs_engine *engine) {
    bool is_bulk = engine->bulk && !gs_bulk_is_idle(engine->bulk); /* gs_bulk_check */
    bool is_paused = is_bulk || engine->clock.resumes_ns || is_memoized(engine, engine->solo.launch);
    bool could_start = !is_paused && engine->queue.first != NO_LAUNCH && has_headroom(engine, engine->queue.first);
    return could_start ? "18: the first launch of the queue waits, and an SM has headroom" : NULL;
}

/* ---- SMs and numbers ---- */

static const char *check_sms(gs_engine *engine) {
    const struct open_sms *sms = &engine->sms;
    const bool *context = sms->usable_by == NO_LAUNCH ? NULL : gs_engine_context(engine, sms->usable_by);
    int32_t closed = 0;
    for (int32_t i = 0; i < gs_dispatcher_state(engine->dispatcher)->gpu->sms; i++) {
        closed += sms->closed[i];
        if (sms->usable_by != NO_LAUNCH && sms->usable[i] != (!sms->closed[i] && (!context || context[i])))
            return "19: an SM is not usable that is open, or the other way round";
    }
    return closed != sms->closed_count ? "19: the number of closed SMs is wrong" : NULL;
}

static const char *check_turns(gs_engine *engine) {
    const struct numbering *numbering = &engine->numbering;
    return numbering->numberer && numbering->turns.count < 1 ? "20: no turn is possible" : NULL;
}

const char *gs_engine_check(gs_engine *engine) {
    static const char *(*const checks[])(gs_engine *) = {
        check_time,    check_heaps,        check_counts,       check_issued,  check_pending,
        check_waiting, check_timers,       check_passing,      check_streams, check_connections,
        check_kernels, check_copy_engines, check_queue,        check_tails,   check_running,
        check_endings, check_solo,         check_conservation, check_sms,     check_turns};
    const char *violated = NULL;
    for (size_t i = 0; i < GS_COUNT(checks) && !violated; i++)
        violated = checks[i](engine);
    return violated;
}
