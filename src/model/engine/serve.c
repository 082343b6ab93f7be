/*
 * serve.c: serves the queue: places blocks, numbers and starts them, ends them; lets launches enter.
 *
 * The first launch of the queue is served until all its blocks have started; then comes the next (unless the mechanism
 * lets later ones overtake). The blocks of a kernel start in order, so those that have started are always the first
 * ones. A cooperative launch starts as a whole. A kernel that waits closes the GPU to all after it, with one exception:
 * a kernel of clusters of three or more blocks leaves the SMs open on which it cannot run anyway, those of the groups
 * of clusters that go first.
 *
 * Blocks are placed one by one, or clusters of them in rounds, and collected in a burst. The blocks of a burst are
 * numbered together (number.c), and then start.
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks ---- */

/* When a block that starts now ends; GS_NO_TIME: when its kernel exits. */
static int64_t end_of(gs_engine *engine, size_t launch, int64_t block, int32_t sm) {
    if (!gs_engine_duration(engine, launch))
        return GS_NO_TIME;
    const gs_seen *seen = gs_follow(engine, launch);
    if (!seen || !seen->has_end)
        return gs_later(engine->clock.now_ns, gs_engine_block_duration(engine, launch, block));
    int64_t end_ns = gs_follow_end(engine, launch, block, sm);
    return gs_max(end_ns, engine->clock.now_ns);
}

static bool is_memoized(const gs_engine *engine) {
    return engine->solo.launch != NO_LAUNCH && engine->solo.memo;
}

static int32_t cluster_of(const gs_engine *engine, size_t launch) {
    return engine->run->launches.data[launch].cluster;
}

static bool add_ending(gs_engine *engine, struct ending ending) {
    int32_t *last = &engine->plays[ending.launch].last_ending;
    engine->running[ending.handle].end_ns = ending.at_ns;
    if (!gs_end_in_order(engine, ending.launch))
        return gs_endings_add(&engine->endings, ending);
    int32_t before = *last;
    *last = ending.handle;
    if (before < 0)
        return gs_endings_add(&engine->endings, ending);
    engine->running[before].ends_next = ending.handle;
    return true;
}

/* Removes the ending at `at` of the heap; the next one of the launch takes its place. */
static struct ending take_ending(gs_engine *engine, size_t at) {
    struct ending ending = gs_endings_take(&engine->endings, at);
    if (ending.handle == MEMOIZED || !gs_end_in_order(engine, ending.launch))
        return ending;
    int32_t next = engine->running[ending.handle].ends_next;
    if (next < 0)
        engine->plays[ending.launch].last_ending = -1;
    else /* there is memory: one was just removed */
        gs_endings_add(&engine->endings,
                       (struct ending){engine->running[next].end_ns, ending.launch, engine->running[next].block, next});
    return ending;
}

static bool start_block(gs_engine *engine, size_t launch, int64_t block, const gs_placement *placed) {
    int64_t end_ns = end_of(engine, launch, block, placed->sm);
    gs_running_add(engine, launch, block, placed->handle);
    engine->headroom = placed->headroom;
    if (end_ns != GS_NO_TIME && !add_ending(engine, (struct ending){end_ns, launch, block, placed->handle}))
        return false;
    return !engine->hooks.started ||
           engine->hooks.started(engine->hooks.user, launch, block, placed->sm, engine->clock.now_ns);
}

/* Whether the recording has the blocks of the burst, numbered from `first` in this order, on the same SMs. */
static bool order_agrees(const gs_engine *engine, int64_t first) {
    const gs_seen *seen = gs_follow(engine, engine->numbering.launch);
    for (int64_t i = 0; i < engine->numbering.burst.count; i++)
        if (engine->numbering.burst.placed[engine->numbering.order[i]].sm != gs_seen_sm(seen, first + i))
            return false;
    return true;
}

static void number_burst(gs_engine *engine, gs_turns *turns) {
    int32_t size = cluster_of(engine, engine->numbering.launch);
    if (size > 1)
        gs_clusters_number(engine->clusters, &engine->numbering.burst, size, turns, engine->numbering.order);
    else if (gs_engine_is_cooperative(engine, engine->numbering.launch))
        gs_number_whole(engine->numbering.numberer, &engine->numbering.burst, turns, engine->numbering.order);
    else
        gs_number(engine->numbering.numberer, &engine->numbering.burst, turns, engine->numbering.order);
}

/* Numbers the burst. While several turns are possible, those that disagree with the recording are dropped, unless all
   do. */
static void order_burst(gs_engine *engine, int64_t first) {
    struct possibilities *turns = &engine->numbering.turns;
    int32_t agreed = 0;
    for (int32_t i = 0; turns->count > 1 && i < turns->count; i++) {
        gs_turns after = turns->data[i];
        number_burst(engine, &after);
        if (order_agrees(engine, first))
            turns->data[agreed++] = turns->data[i];
    }
    turns->count = agreed ? agreed : turns->count;
    for (int32_t i = turns->count - 1; i >= 0; i--)
        number_burst(engine, &turns->data[i]);
}

/* Numbers and starts the blocks that were placed since the last call. */
static bool start_burst(gs_engine *engine) {
    size_t launch = engine->numbering.launch;
    int64_t count = engine->numbering.burst.count, first = count ? engine->plays[launch].started - count : 0;
    if (!count)
        return true;
    if (engine->numbering.numberer)
        order_burst(engine, first);
    bool done = !engine->bulk || gs_bulk_start_burst(engine, launch);
    for (int64_t i = 0; i < count && done && !engine->bulk; i++)
        done =
            start_block(engine, launch, first + i,
                        &engine->numbering.burst.placed[engine->numbering.numberer ? engine->numbering.order[i] : i]);
    engine->numbering.burst.count = 0;
    engine->numbering.burst.is_cut = false;
    return done;
}

bool gs_end_block(gs_engine *engine, int32_t handle) {
    struct running running = engine->running[handle];
    gs_running_remove(engine, handle);
    gs_dispatcher_end(engine->dispatcher, handle);
    engine->plays[running.launch].ended++;
    return !engine->hooks.ended ||
           engine->hooks.ended(engine->hooks.user, running.launch, running.block, engine->clock.now_ns);
}

/* ---- serving ---- */

/* The SM of the next block of a plain kernel, among those that are open (NULL: all). */
static inline int choose_sm(gs_engine *engine, size_t launch, const bool *open, int32_t *headroom) {
    int kernel = engine->plays[launch].kernel;
    return open ? gs_dispatcher_choose_among(engine->dispatcher, kernel, open, headroom)
                : gs_dispatcher_choose(engine->dispatcher, kernel, headroom);
}

enum outcome { PLACED, COMPLETED, WAITS, OUT_OF_MEMORY };

/* Places a block, if possible, and adds it to the burst, which numbers it later. A burst has blocks of one launch. */
static inline enum outcome place_block(gs_engine *engine, size_t launch, const bool *open) {
    struct play *play = &engine->plays[launch];
    int32_t headroom;
    int sm = choose_sm(engine, launch, open, &headroom);
    if (sm == GS_WAIT)
        return WAITS;
    if (engine->numbering.launch != launch && !start_burst(engine))
        return OUT_OF_MEMORY;
    int32_t handle = gs_dispatcher_put(engine->dispatcher, play->kernel, sm);
    engine->numbering.launch = launch;
    engine->numbering.burst.placed[engine->numbering.burst.count++] = (gs_placement){sm, headroom, handle};
    engine->running[handle].launch = launch; /* it has no number yet, but an owner */
    play->started++;
    return PLACED;
}

/* A cooperative launch starts as a whole: it waits until all its blocks fit. */
static bool is_held_back(const gs_engine *engine, size_t launch, const bool *open) {
    const struct play *play = &engine->plays[launch];
    gs_grid grid = gs_grid_of(&engine->run->launches.data[launch], play->kernel, open);
    return grid.is_whole && !play->started && gs_grid_headroom(engine->dispatcher, &grid) < grid.blocks;
}

/* The same for a round of clusters, which is a burst by itself. */
static enum outcome place_clusters(gs_engine *engine, size_t launch, const bool *open) {
    struct play *play = &engine->plays[launch];
    int32_t size = cluster_of(engine, launch);
    int64_t left = (engine->run->launches.data[launch].blocks - play->started) / size;
    int32_t count =
        size * gs_clusters_round(engine->clusters, engine->dispatcher, play->kernel, size, left, open, engine->round);
    if (!count)
        return WAITS;
    if (!start_burst(engine))
        return OUT_OF_MEMORY;
    engine->numbering.launch = launch;
    for (int32_t i = 0; i < count; i++) {
        int32_t sm = engine->round[i], handle = gs_dispatcher_place_in_cluster(engine->dispatcher, play->kernel, sm);
        engine->numbering.burst.placed[engine->numbering.burst.count++] = (gs_placement){sm, 0, handle};
        engine->running[handle].launch = launch;
    }
    play->started += count;
    return PLACED;
}

/* Nothing waits for the configurations of idle SMs. False: out of memory. */
static bool settle(gs_engine *engine) {
    if (engine->bulk)
        return gs_bulk_settle(engine);
    gs_dispatcher_settle(engine->dispatcher);
    return true;
}

/* All blocks of a launch are placed. Its last round is cut if another SM has as much headroom as the last one had. */
static bool complete_launch(gs_engine *engine, size_t launch, const bool *open) {
    int32_t headroom = 0;
    bool was_first = engine->queue.first == launch;
    gs_launch_queue_remove(engine, launch);
    engine->plays[launch].status = STARTED;
    bool told = gs_ready_started(engine, launch);
    if (engine->numbering.numberer && cluster_of(engine, launch) == 1 && !engine->bulk)
        engine->numbering.burst.is_cut =
            choose_sm(engine, launch, open, &headroom) != GS_WAIT &&
            headroom == engine->numbering.burst.placed[engine->numbering.burst.count - 1].headroom;
    bool is_settled = !was_first || settle(engine);
    return start_burst(engine) && told && is_settled;
}

/* Whether a launch that waits leaves SMs open to later ones. */
bool gs_engine_leaves_open(const gs_engine *engine, size_t launch) {
    return engine->overtaking || cluster_of(engine, launch) > 2 || engine->run->green_contexts.count;
}

static int32_t sms_of(const gs_engine *engine) {
    return gs_dispatcher_state(engine->dispatcher)->gpu->sms;
}

static void open_all(gs_engine *engine) {
    if (!engine->sms.closed_count)
        return;
    memset(engine->sms.closed, 0, (size_t)sms_of(engine) * sizeof *engine->sms.closed);
    engine->sms.closed_count = 0;
    engine->sms.usable_by = NO_LAUNCH;
}

/* The SMs of the green context of a launch or a copy, as flags; NULL: it is in none. */
const bool *gs_engine_context(const gs_engine *engine, size_t operation) {
    const gs_issue *issue = gs_run_issue(engine->run, operation);
    return gs_green_of(&engine->run->green_contexts, engine->sms.contexts, sms_of(engine), issue);
}

/* The SMs that the launch may use now; NULL: all. */
static const bool *usable_by(gs_engine *engine, size_t launch) {
    if (!engine->sms.closed_count && !engine->run->green_contexts.count)
        return NULL;
    if (engine->sms.usable_by == launch)
        return engine->sms.usable;
    const bool *context = gs_engine_context(engine, launch);
    for (int32_t sm = 0; sm < sms_of(engine); sm++)
        engine->sms.usable[sm] = !engine->sms.closed[sm] && (!context || context[sm]);
    engine->sms.usable_by = launch;
    return engine->sms.usable;
}

/* A launch that waits closes the SMs that it could use. */
static void close_sms(gs_engine *engine, size_t launch) {
    const bool *stays_open = cluster_of(engine, launch) > 2 ? gs_clusters_always_open(engine->clusters) : NULL;
    const bool *context = gs_engine_context(engine, launch);
    engine->sms.usable_by = NO_LAUNCH;
    for (int32_t sm = 0; sm < sms_of(engine); sm++)
        if (!engine->sms.closed[sm] && !(stays_open && stays_open[sm]) && (!context || context[sm])) {
            engine->sms.closed[sm] = true;
            engine->sms.closed_count++;
        }
}

/* The launch that may start while this one waits. */
static size_t pass_over(gs_engine *engine, size_t launch) {
    if (!gs_engine_leaves_open(engine, launch))
        return NO_LAUNCH;
    if (!engine->overtaking)
        close_sms(engine, launch);
    return engine->sms.closed_count < sms_of(engine) ? engine->plays[launch].after : NO_LAUNCH;
}

/* ---- launches that have the scheduler to themselves ---- */

static bool is_alone(const gs_engine *engine, size_t launch) {
    const struct play *play = &engine->plays[launch];
    return engine->queue.last == launch && !play->started && !play->was_alone && !play->is_awaited &&
           (!engine->bulk || gs_bulk_is_idle(engine->bulk)) && !gs_engine_is_cooperative(engine, launch) &&
           !engine->run->green_contexts.count && gs_engine_duration(engine, launch);
}

/* The only launch in the queue is memoized, if a memo of it is known. If not, it is watched, so that there is one for a
   later launch. */
static bool try_memo(gs_engine *engine, size_t launch) {
    const gs_memo *memo;
    bool is_known;
    engine->plays[launch].was_alone = true;
    if (!gs_solo_begin(engine, launch, &is_known, &memo))
        return false;
    int64_t end_ns = memo ? gs_later(engine->clock.now_ns, gs_memo_took(engine, launch, memo)) : 0;
    if (!is_known || (engine->endings.count && engine->endings.data[0].at_ns <= end_ns))
        return true;
    engine->solo = (struct solo){launch, engine->clock.now_ns, memo};
    if (!memo)
        return true;
    gs_launch_queue_remove(engine, launch);
    engine->plays[launch].status = STARTED;
    return gs_endings_add(&engine->endings, (struct ending){end_ns, launch, 0, MEMOIZED});
}

static void commit_memo(gs_engine *engine, size_t launch) {
    struct play *play = &engine->plays[launch];
    size_t like = gs_memo_commit(engine, launch, engine->solo.memo);
    play->started = play->ended = engine->run->launches.data[launch].blocks;
    play->start_ns = engine->solo.began_ns;
    if (play->served_ns == GS_NO_TIME)
        play->served_ns = play->start_ns;
    play->config_bytes = engine->plays[like].config_bytes;
    engine->hooks.repeated(engine->hooks.user, launch, like, engine->solo.began_ns, engine->clock.now_ns);
    engine->solo.launch = NO_LAUNCH;
}

/* A launch has ended. If it had the scheduler to itself, the next one that begins alike can be memoized. */
static bool keep_memo(gs_engine *engine, size_t launch) {
    if (engine->solo.launch != launch)
        return true;
    engine->solo.launch = NO_LAUNCH;
    return engine->clock.now_ns == INT64_MAX || gs_solo_keep(engine, launch, engine->solo.began_ns);
}

/* A block of the launch was placed, or none can be now. */
static inline void note_service(gs_engine *engine, size_t launch, bool waits) {
    struct play *play = &engine->plays[launch];
    if (play->served_ns == GS_NO_TIME)
        play->served_ns = engine->clock.now_ns;
    if (!waits && play->start_ns == GS_NO_TIME) {
        play->start_ns = engine->clock.now_ns;
        play->was_held = false;
        const gs_state *state = gs_dispatcher_state(engine->dispatcher);
        int32_t sm = engine->numbering.burst.placed[0].sm;
        play->config_bytes =
            engine->bulk ? gs_bulk_config(engine->bulk, sm) : state->groups[state->sms[sm].group].config_bytes;
    }
    if (waits && !play->was_held && engine->hooks.held) {
        play->was_held = true;
        engine->hooks.held(engine->hooks.user, launch);
    }
}

/* Starts the next block of a launch, or round of clusters, on the SMs that are open to it. */
static enum outcome place_next(gs_engine *engine, size_t launch) {
    const bool *open = usable_by(engine, launch);
    enum outcome outcome = is_held_back(engine, launch, open) ? WAITS
                           : cluster_of(engine, launch) == 1  ? place_block(engine, launch, open)
                                                              : place_clusters(engine, launch, open);
    note_service(engine, launch, outcome == WAITS);
    if (outcome != PLACED || engine->plays[launch].started < engine->run->launches.data[launch].blocks)
        return outcome;
    return complete_launch(engine, launch, open) ? COMPLETED : OUT_OF_MEMORY;
}

/* The same as fill_sms for a run that is played in bulk. */
static enum outcome fill_in_bulk(gs_engine *engine, size_t launch) {
    if (launch != NO_LAUNCH && !gs_bulk_place(engine, launch))
        return OUT_OF_MEMORY;
    if (engine->numbering.burst.count)
        note_service(engine, launch, false);
    if (launch != NO_LAUNCH && engine->plays[launch].started == engine->run->launches.data[launch].blocks)
        return complete_launch(engine, launch, NULL) ? COMPLETED : OUT_OF_MEMORY;
    if (launch != NO_LAUNCH)
        note_service(engine, launch, true);
    return (launch != NO_LAUNCH || settle(engine)) && start_burst(engine) ? WAITS : OUT_OF_MEMORY;
}

/* Starts blocks until all of a launch have started (COMPLETED), or no more can (WAITS). Begins with `launch`, and after
   each block at the front of the queue: if kernels may overtake, a block of a later kernel can let an earlier one
   start, because it moves the pointer of an SM. */
static enum outcome fill_sms(gs_engine *engine, size_t launch) {
    if (engine->bulk)
        return fill_in_bulk(engine, launch);
    open_all(engine);
    while (launch != NO_LAUNCH) {
        enum outcome outcome = place_next(engine, launch);
        if (outcome == COMPLETED || outcome == OUT_OF_MEMORY)
            return outcome;
        if (outcome == WAITS) {
            launch = pass_over(engine, launch);
            continue;
        }
        launch = engine->clock.resumes_ns ? NO_LAUNCH : engine->queue.first;
        open_all(engine);
    }
    if (!engine->clock.resumes_ns && engine->queue.first == NO_LAUNCH)
        settle(engine);
    return start_burst(engine) ? WAITS : OUT_OF_MEMORY;
}

/* A launch has got its last block. If one with larger clusters is first in the queue now, it is not placed at once:
   before that, the launch behind it gets what it can of the SMs that these clusters cannot use. */
static enum outcome pass_clusters(gs_engine *engine) {
    size_t first = engine->queue.first;
    if (first == NO_LAUNCH || cluster_of(engine, first) <= 2 || engine->overtaking)
        return WAITS;
    open_all(engine);
    size_t next = pass_over(engine, first);
    enum outcome outcome = next == NO_LAUNCH ? WAITS : PLACED;
    while (outcome == PLACED)
        outcome = place_next(engine, next);
    return outcome == WAITS && !start_burst(engine) ? OUT_OF_MEMORY : outcome;
}

/* ---- entering the queue ---- */

/* Serves the queue while nothing may enter it. False: out of memory. */
static bool serve_past(gs_engine *engine) {
    enum outcome outcome;
    while ((outcome = fill_sms(engine, engine->queue.first)) == COMPLETED)
        ;
    return outcome == WAITS;
}

/* Takes an ending of blocks from the heap, and plays it. False: out of memory. */
static bool end_blocks(gs_engine *engine, size_t at) {
    return engine->bulk ? gs_bulk_end(engine) : gs_end_block(engine, take_ending(engine, at).handle);
}

/* Plays a memoized launch block by block after all, from its beginning to the present. False: out of memory. */
static bool replay_memo(gs_engine *engine, size_t launch) {
    int64_t now_ns = engine->clock.now_ns, horizon_ns = engine->clock.horizon_ns;
    engine->clock.now_ns = engine->solo.began_ns;
    engine->clock.horizon_ns = now_ns;
    take_ending(engine, 0);
    gs_launch_queue_add(engine, launch);
    bool done = serve_past(engine);
    while (done && engine->endings.count && engine->endings.data[0].at_ns <= now_ns) {
        engine->clock.now_ns = engine->endings.data[0].at_ns;
        done = end_blocks(engine, 0) && serve_past(engine);
    }
    engine->clock.now_ns = now_ns;
    engine->clock.horizon_ns = horizon_ns;
    return done;
}

/* Another launch is about to enter the queue, or blocks are about to end: no launch has the scheduler to itself. */
bool gs_end_solo(gs_engine *engine) {
    size_t launch = engine->solo.launch;
    bool must_replay = is_memoized(engine);
    engine->solo.launch = NO_LAUNCH;
    return !must_replay || replay_memo(engine, launch);
}

static bool enter_queue(gs_engine *engine, size_t launch) {
    if (!gs_end_solo(engine))
        return false;
    gs_launch_queue_add(engine, launch);
    if (engine->queue.first != launch)
        engine->plays[launch].behind = engine->queue.first;
    return true;
}

/* Whether there are kernels of memory nodes among the operations that have become ready. */
static bool has_memory_kernels(const gs_engine *engine) {
    const struct ready_list *list = &engine->readiness.list;
    for (size_t i = 0; engine->run->copies.count && i < list->count; i++)
        if (list->data[i] >= engine->run->launches.count)
            return true;
    return false;
}

/* Takes the first of the operations that have become ready, in the order in which they were issued. */
static size_t take_first(gs_engine *engine) {
    struct ready_list *list = &engine->readiness.list;
    size_t first = 0;
    for (size_t i = 1; i < list->count; i++)
        if (engine->graph.nodes[list->data[i]].place < engine->graph.nodes[list->data[first]].place)
            first = i;
    size_t operation = list->data[first];
    list->data[first] = list->data[--list->count];
    return operation;
}

/* The kernel of a memory node takes its SMs, unless a launch waits: then the GPU is full. */
static bool enter_memory(gs_engine *engine, size_t operation) {
    return engine->queue.first != NO_LAUNCH || gs_hidden_start_memory(engine, operation);
}

/* A launch enters the queue behind those that came at the same event. */
static bool enter_behind(gs_engine *engine, size_t launch) {
    engine->plays[launch].ready_at = ++engine->clock.host_events;
    return enter_queue(engine, launch);
}

/* What has become ready enters the queue. If kernels of memory nodes are among it, operations come one by one: such a
   kernel is gone before the next one comes, and a launch is served before (`*must_serve`). False: out of memory. */
static bool enter_ready(gs_engine *engine, bool *must_serve) {
    *must_serve = false;
    while (has_memory_kernels(engine)) {
        size_t operation = take_first(engine);
        *must_serve = operation < engine->run->launches.count;
        if (*must_serve)
            return enter_behind(engine, operation);
        if (!enter_memory(engine, operation))
            return false;
        gs_way way = gs_engine_way(engine, operation);
        if (way == GS_WAY_SOME)
            gs_hidden_end_others(engine, operation, 0);
        else if (way != GS_WAY_OTHER)
            gs_hidden_end_some(engine, way == GS_WAY_RARE, engine->graph.hidden.count);
    }
    for (size_t launch; (launch = gs_ready_next(engine)) != NO_LAUNCH;)
        if (!enter_queue(engine, launch))
            return false;
    return true;
}

/* ---- serving the queue ---- */

static enum outcome begin_pass(gs_engine *engine) {
    size_t launch = engine->queue.first;
    if (engine->solos && launch != NO_LAUNCH && is_alone(engine, launch) && !try_memo(engine, launch))
        return OUT_OF_MEMORY;
    return is_memoized(engine) ? WAITS : fill_sms(engine, engine->queue.first);
}

/* Starts all blocks that can start. When all blocks of a launch have started, others may become ready, and one of these
   may have to be served before the next one comes. Then the pass over the queue waits until a pass for that one is
   done, in which the same can happen. A pass that waits needs no memory but that it is counted: it goes on at the front
   of the queue. False: out of memory. */
bool gs_serve_queue(gs_engine *engine) {
    size_t passes = 1; /* the one that is under way, and those that wait for it */
    bool has_passed = false;
    enum outcome outcome = begin_pass(engine);
    while (outcome != OUT_OF_MEMORY) {
        bool must_serve;
        if (outcome == WAITS && --passes == 0)
            return true;
        if (outcome == WAITS)
            gs_hidden_end(engine);
        if (!enter_ready(engine, &must_serve))
            return false;
        passes += must_serve;
        bool may_pass = outcome == COMPLETED && !must_serve && !has_passed;
        has_passed = may_pass && (outcome = pass_clusters(engine)) == COMPLETED;
        if (has_passed || outcome == OUT_OF_MEMORY)
            continue;
        if (!must_serve)
            engine->clock.resumes_ns = gs_follow_resume(engine);
        outcome = must_serve ? begin_pass(engine)
                             : fill_sms(engine, engine->clock.resumes_ns ? NO_LAUNCH : engine->queue.first);
    }
    return false;
}

/* All that has become ready enters the queue. */
bool gs_enter_all(gs_engine *engine) {
    bool done, must_serve;
    while ((done = enter_ready(engine, &must_serve)) && must_serve) {
        if (!gs_serve_queue(engine))
            return false;
        gs_hidden_end(engine);
    }
    return done;
}

/* A node of a graph enters, and is served. */
bool gs_enter_node(gs_engine *engine, size_t operation) {
    if (operation >= engine->run->launches.count)
        return enter_memory(engine, operation);
    return enter_behind(engine, operation) && gs_serve_queue(engine);
}

/* ---- endings ---- */

/* A kernel has ended, and what waits for that enters. First the queue is served: what waits for headroom finds the
   shared-memory configuration that the last block has left, what waits for the end does not. */
static bool end_kernel(gs_engine *engine, size_t launch) {
    if (!engine->clock.resumes_ns && !gs_serve_queue(engine))
        return false;
    if (engine->solo.launch == launch)
        engine->solo.launch = NO_LAUNCH;
    gs_waves_restart(engine);
    return gs_ready_ended(engine, launch) && gs_enter_all(engine);
}

/* After blocks of a launch have ended. */
static bool serve_after(gs_engine *engine, size_t launch) {
    if (engine->plays[launch].ended == engine->run->launches.data[launch].blocks &&
        (!keep_memo(engine, launch) || !end_kernel(engine, launch)))
        return false;
    return engine->clock.resumes_ns || gs_serve_queue(engine);
}

bool gs_serve_ending(gs_engine *engine, size_t at) {
    struct ending ending = engine->endings.data[at];
    engine->clock.now_ns = gs_max(engine->clock.now_ns, ending.at_ns);
    if (ending.launch != engine->solo.launch)
        engine->solo.launch = NO_LAUNCH;
    if (ending.handle != MEMOIZED && !end_blocks(engine, at))
        return false;
    if (ending.handle == MEMOIZED) {
        take_ending(engine, at);
        commit_memo(engine, ending.launch);
    }
    return serve_after(engine, ending.launch);
}

bool gs_serve_end(gs_engine *engine, int32_t handle) {
    size_t launch = engine->running[handle].launch;
    return gs_end_block(engine, handle) && serve_after(engine, launch);
}
