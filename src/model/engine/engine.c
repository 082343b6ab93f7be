/*
 * engine.c: plays launches, exits and the passing of time.
 *
 * Launches wait in one queue, by priority and then in the order in which they were ready. The first is served until all
 * its blocks have started; then comes the next (unless the mechanism lets later ones overtake). A kernel enters the
 * queue when the kernels before it in its stream have ended. The blocks of a kernel start in order, so those that have
 * started are always the first ones. A cooperative launch starts as a whole. A kernel that waits closes the GPU to all
 * after it, with one exception: a kernel of clusters of three or more blocks leaves the SMs open on which it cannot run
 * anyway, those of the groups of clusters that go first.
 *
 * Time passes by a heap of running blocks, ordered by when they end. Launches and exits take no time. Blocks that end
 * at the same time end one after the other, in the order of launches and blocks, and the queue is served after each. At
 * the exit of a kernel with a duration the host waits: time passes until the kernel has ended. While a recording is
 * followed, blocks end when they ended in it (follow.c). Waves of blocks that repeat can be skipped (waves.c), and so
 * can the blocks of launches that have the scheduler to themselves, if one before went alike (solo.c).
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

/* The turns with this number: the groups that go first are the highest digit, then come their parts and the others. */
static gs_turns turns_of(const gs_gpu *gpu, int32_t number) {
    int32_t others = gpu->grants.groups.count - gpu->grants.first;
    int32_t parts = gpu->grants.cluster_first.count ? gpu->grants.cluster_first.count : 1;
    return (gs_turns){number / others / parts, number / others % parts, number % others};
}

static void turns_begin(gs_engine *engine, const gs_gpu *gpu) {
    struct possibilities *turns = &engine->turns;
    int32_t all = gs_gpu_turns(gpu), first = engine->hooks.follow ? 0 : engine->hooks.turn;
    int32_t past = engine->hooks.follow ? all : first + 1;
    for (int32_t turn = first; engine->numberer && turn < past; turn++)
        turns->data[turns->count++] = turns_of(gpu, turn);
}

gs_engine *gs_engine_new(const gs_gpu *gpu, const gs_run *run, const gs_engine_hooks *hooks, gs_error *error) {
    gs_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        gs_fail_memory(error);
        return NULL;
    }
    size_t most_blocks = (size_t)gpu->sms * (size_t)gpu->limits.blocks_per_sm;
    engine->run = run;
    engine->hooks = *hooks;
    engine->overtaking = gpu->mechanisms.queue == GS_QUEUE_OVERTAKING;
    engine->queue_first = engine->queue_last = engine->queue_latest = engine->usable_by = NO_LAUNCH;
    for (size_t i = 0; i <= MOST_URGENT; i++)
        engine->queue_tails[i] = NO_LAUNCH;
    engine->dispatcher = gs_dispatcher_new(gpu, error);
    engine->plays = calloc(run->launches.count + run->copies.count + 1, sizeof *engine->plays);
    engine->horizon_ns = INT64_MAX;
    engine->closed = calloc((size_t)gpu->sms, sizeof *engine->closed);
    engine->usable = calloc((size_t)gpu->sms, sizeof *engine->usable);
    engine->contexts = gs_green_flags(gpu, &run->green_contexts);
    engine->running = calloc(most_blocks, sizeof *engine->running);
    engine->burst.placed = calloc(most_blocks, sizeof *engine->burst.placed);
    engine->order = calloc(most_blocks, sizeof *engine->order);
    bool by_grant = gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT;
    engine->numberer = by_grant ? gs_numberer_new(gpu, error) : NULL;
    bool has_clusters = gs_gpu_has_clusters(gpu);
    engine->clusters = has_clusters ? gs_clusters_new(gpu, error) : NULL;
    engine->round = calloc((size_t)gpu->sms, sizeof *engine->round);
    engine->solo.launch = NO_LAUNCH;
    bool may_repeat = hooks->repeated && !hooks->follow && !hooks->endless;
    engine->solos = may_repeat ? gs_solos_new(gpu) : NULL;
    turns_begin(engine, gpu);
    if (engine->dispatcher && engine->closed && engine->usable && engine->contexts && (engine->solos || !may_repeat) &&
        engine->plays && gs_ready_init(engine) && gs_join_init(engine) && gs_connections_init(engine) &&
        engine->running && engine->burst.placed && engine->order && engine->round && (engine->numberer || !by_grant) &&
        (engine->clusters || !has_clusters))
        return engine;
    gs_engine_free(engine);
    gs_fail_memory(error);
    return NULL;
}

void gs_engine_free(gs_engine *engine) {
    if (!engine)
        return;
    gs_dispatcher_free(engine->dispatcher);
    gs_dispatcher_free(engine->trial);
    gs_ready_free(engine);
    free(engine->nodes);
    free(engine->hidden.data);
    free(engine->connections);
    for (size_t i = 0; engine->plays && i < engine->run->launches.count; i++)
        free(engine->plays[i].on_sms);
    free(engine->plays);
    free(engine->running);
    free(engine->closed);
    free(engine->usable);
    free(engine->contexts);
    free(engine->endings.data);
    free(engine->burst.placed);
    free(engine->order);
    free(engine->round);
    gs_waves_free(engine);
    gs_replace_free(engine);
    gs_solos_free(engine->solos);
    gs_numberer_free(engine->numberer);
    gs_clusters_free(engine->clusters);
    free(engine);
}

bool gs_engine_copy(gs_engine *to, const gs_engine *from) {
    const gs_gpu *gpu = gs_dispatcher_state(from->dispatcher)->gpu;
    size_t most_blocks = (size_t)gpu->sms * (size_t)gpu->limits.blocks_per_sm;
    memcpy(to->plays, from->plays, from->launched * sizeof *to->plays);
    for (size_t i = from->launched; i < to->launched; i++)
        to->plays[i] = gs_play_new();
    to->launched = from->launched;
    memcpy(to->streams, from->streams, from->stream_names.count * sizeof *to->streams);
    memcpy(to->running, from->running, most_blocks * sizeof *to->running);
    to->queue_first = from->queue_first;
    to->queue_last = from->queue_last;
    to->queue_latest = from->queue_latest;
    memcpy(to->queue_tails, from->queue_tails, sizeof to->queue_tails);
    to->host_events = from->host_events;
    to->now_ns = from->now_ns;
    to->turns = from->turns;
    gs_waves_restart(to);
    return gs_ready_copy(to, from) && gs_names_copy(&to->stream_names, &from->stream_names) &&
           gs_dispatcher_copy(to->dispatcher, from->dispatcher, NULL) == GS_OK;
}

/* ---- the queue ---- */

/* The priorities of CUDA are 0 and below, and the lowest is the most urgent. Some people count upwards from 0 instead.
   Either way, what is farther from 0 goes first. */
static int urgency(const gs_engine *engine, size_t launch) {
    return abs(engine->run->launches.data[launch].priority);
}

static bool goes_before(const gs_engine *engine, size_t a, size_t b) {
    int first = urgency(engine, a), second = urgency(engine, b);
    const struct play *one = &engine->plays[a], *two = &engine->plays[b];
    if (first != second)
        return first > second;
    if (one->ready_ns != two->ready_ns)
        return one->ready_ns < two->ready_ns;
    return one->ready_at != two->ready_at ? one->ready_at < two->ready_at : a < b;
}

static size_t *tail_of(gs_engine *engine, size_t launch) {
    return &engine->queue_tails[gs_min(urgency(engine, launch), MOST_URGENT)];
}

/* The last launch in the queue that is as urgent as this one, or more urgent if there is none. */
static size_t last_as_urgent(gs_engine *engine, size_t launch) {
    const size_t *tail = tail_of(engine, launch), *end = engine->queue_tails + MOST_URGENT;
    while (*tail == NO_LAUNCH && tail < end)
        tail++;
    return *tail;
}

/* The search for its place goes from the back to the front. Launches that become ready together are added in reverse
   order, each just before the one that was added last: then the search begins there. */
static void queue_add(gs_engine *engine, size_t launch) {
    size_t latest = engine->queue_latest, *tail = tail_of(engine, launch);
    size_t before = latest != NO_LAUNCH && goes_before(engine, launch, latest) ? engine->plays[latest].before
                                                                               : last_as_urgent(engine, launch);
    engine->queue_latest = launch;
    gs_waves_restart(engine);
    if (*tail == NO_LAUNCH || !goes_before(engine, launch, *tail))
        *tail = launch;
    while (before != NO_LAUNCH && goes_before(engine, launch, before))
        before = engine->plays[before].before;
    size_t after = before == NO_LAUNCH ? engine->queue_first : engine->plays[before].after;
    struct play *play = &engine->plays[launch];
    play->status = QUEUED;
    play->before = before;
    play->after = after;
    *(before == NO_LAUNCH ? &engine->queue_first : &engine->plays[before].after) = launch;
    *(after == NO_LAUNCH ? &engine->queue_last : &engine->plays[after].before) = launch;
}

static void queue_remove(gs_engine *engine, size_t launch) {
    const struct play *play = &engine->plays[launch];
    size_t *tail = tail_of(engine, launch);
    gs_waves_restart(engine);
    if (*tail == launch)
        *tail = play->before != NO_LAUNCH && tail_of(engine, play->before) == tail ? play->before : NO_LAUNCH;
    if (engine->queue_latest == launch)
        engine->queue_latest = NO_LAUNCH;
    *(play->before == NO_LAUNCH ? &engine->queue_first : &engine->plays[play->before].after) = play->after;
    *(play->after == NO_LAUNCH ? &engine->queue_last : &engine->plays[play->after].before) = play->before;
}

/* ---- blocks ---- */

/* When a block that starts now ends; GS_NO_TIME: when its kernel exits. */
static int64_t end_of(gs_engine *engine, size_t launch, int64_t block, int32_t sm) {
    if (!gs_engine_duration(engine, launch))
        return GS_NO_TIME;
    const gs_seen *seen = gs_follow(engine, launch);
    if (!seen || !seen->has_end)
        return gs_later(engine->now_ns, gs_engine_block_duration(engine, launch, block));
    int64_t end_ns = gs_follow_end(engine, launch, block, sm);
    return gs_max(end_ns, engine->now_ns);
}

static bool is_flying(const gs_engine *engine) {
    return engine->solo.launch != NO_LAUNCH && engine->solo.flight;
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
    if (ending.handle == FLYING || !gs_end_in_order(engine, ending.launch))
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
    engine->room = placed->room;
    if (end_ns != GS_NO_TIME && !add_ending(engine, (struct ending){end_ns, launch, block, placed->handle}))
        return false;
    return !engine->hooks.started ||
           engine->hooks.started(engine->hooks.user, launch, block, placed->sm, engine->now_ns);
}

/* Whether the recording has the blocks of the burst, numbered from `first` in this order, on the same SMs. */
static bool order_agrees(const gs_engine *engine, int64_t first) {
    const gs_seen *seen = gs_follow(engine, engine->burst_launch);
    for (int64_t i = 0; i < engine->burst.count; i++)
        if (engine->burst.placed[engine->order[i]].sm != gs_seen_sm(seen, first + i))
            return false;
    return true;
}

static bool is_cooperative(const gs_engine *engine, size_t launch) {
    const gs_launch_facts *facts = engine->run->launches.data[launch].issue.facts;
    return facts && facts->is_cooperative;
}

static void number_burst(gs_engine *engine, gs_turns *turns) {
    int32_t size = cluster_of(engine, engine->burst_launch);
    if (size > 1)
        gs_clusters_number(engine->clusters, &engine->burst, size, turns, engine->order);
    else if (is_cooperative(engine, engine->burst_launch))
        gs_number_whole(engine->numberer, &engine->burst, turns, engine->order);
    else
        gs_number(engine->numberer, &engine->burst, turns, engine->order);
}

/* Numbers the burst. While several turns are possible, those that disagree with the recording are dropped, unless all
   do. */
static void order_burst(gs_engine *engine, int64_t first) {
    struct possibilities *turns = &engine->turns;
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
    size_t launch = engine->burst_launch;
    int64_t count = engine->burst.count, first = count ? engine->plays[launch].started - count : 0;
    if (!count)
        return true;
    if (engine->numberer)
        order_burst(engine, first);
    bool done = true;
    for (int64_t i = 0; i < count && done; i++)
        done = start_block(engine, launch, first + i, &engine->burst.placed[engine->numberer ? engine->order[i] : i]);
    engine->burst.count = 0;
    engine->burst.is_cut = false;
    return done;
}

static bool end_block(gs_engine *engine, int32_t handle) {
    struct running running = engine->running[handle];
    gs_running_remove(engine, handle);
    gs_dispatcher_end(engine->dispatcher, handle);
    engine->plays[running.launch].ended++;
    return !engine->hooks.ended ||
           engine->hooks.ended(engine->hooks.user, running.launch, running.block, engine->now_ns);
}

/* ---- serving ---- */

/* The SM of the next block of a plain kernel, among those that are open (NULL: all). */
static inline int choose(gs_engine *engine, size_t launch, const bool *open, int32_t *room) {
    int kernel = engine->plays[launch].kernel;
    return open ? gs_dispatcher_choose_among(engine->dispatcher, kernel, open, room)
                : gs_dispatcher_choose(engine->dispatcher, kernel, room);
}

enum outcome { PLACED, COMPLETED, WAITS, OUT_OF_MEMORY };

/* Places a block, if possible, and adds it to the burst, which numbers it later. A burst has blocks of one launch. */
static inline enum outcome place_block(gs_engine *engine, size_t launch, const bool *open) {
    struct play *play = &engine->plays[launch];
    int32_t room;
    int sm = choose(engine, launch, open, &room);
    if (sm == GS_WAIT)
        return WAITS;
    if (engine->burst_launch != launch && !start_burst(engine))
        return OUT_OF_MEMORY;
    int32_t handle = gs_dispatcher_place(engine->dispatcher, play->kernel, sm);
    engine->burst_launch = launch;
    engine->burst.placed[engine->burst.count++] = (gs_placement){sm, room, handle};
    engine->running[handle].launch = launch; /* it has no number yet, but an owner */
    play->started++;
    return PLACED;
}

/* A cooperative launch starts as a whole: it waits until all its blocks fit. */
static bool is_held_back(const gs_engine *engine, size_t launch, const bool *open) {
    const struct play *play = &engine->plays[launch];
    gs_grid grid = gs_grid_of(&engine->run->launches.data[launch], play->kernel, open);
    return grid.is_whole && !play->started && gs_grid_room(engine->dispatcher, &grid) < grid.blocks;
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
    engine->burst_launch = launch;
    for (int32_t i = 0; i < count; i++) {
        int32_t sm = engine->round[i], handle = gs_dispatcher_place_in_cluster(engine->dispatcher, play->kernel, sm);
        engine->burst.placed[engine->burst.count++] = (gs_placement){sm, 0, handle};
        engine->running[handle].launch = launch;
    }
    play->started += count;
    return PLACED;
}

/* All blocks of a launch are placed. Its last round is cut if another SM has as much room as the last one had. */
static bool complete(gs_engine *engine, size_t launch, const bool *open) {
    int32_t room = 0;
    queue_remove(engine, launch);
    engine->plays[launch].status = STARTED;
    bool told = gs_ready_started(engine, launch);
    if (engine->numberer && cluster_of(engine, launch) == 1)
        engine->burst.is_cut = choose(engine, launch, open, &room) != GS_WAIT &&
                               room == engine->burst.placed[engine->burst.count - 1].room;
    return start_burst(engine) && told;
}

/* Whether a launch that waits leaves SMs open to later ones. */
static bool leaves_some_open(const gs_engine *engine, size_t launch) {
    return engine->overtaking || cluster_of(engine, launch) > 2 || engine->run->green_contexts.count;
}

static int32_t sms_of(const gs_engine *engine) {
    return gs_dispatcher_state(engine->dispatcher)->gpu->sms;
}

static void open_all(gs_engine *engine) {
    if (!engine->closed_count)
        return;
    memset(engine->closed, 0, (size_t)sms_of(engine) * sizeof *engine->closed);
    engine->closed_count = 0;
    engine->usable_by = NO_LAUNCH;
}

/* The SMs of the green context of a launch or a copy, as flags; NULL: it is in none. */
static const bool *context_of(const gs_engine *engine, size_t operation) {
    const gs_issue *issue = gs_run_issue(engine->run, operation);
    return gs_green_of(&engine->run->green_contexts, engine->contexts, sms_of(engine), issue);
}

/* The SMs that the launch may use now; NULL: all. */
static const bool *usable_by(gs_engine *engine, size_t launch) {
    if (!engine->closed_count && !engine->run->green_contexts.count)
        return NULL;
    if (engine->usable_by == launch)
        return engine->usable;
    const bool *context = context_of(engine, launch);
    for (int32_t sm = 0; sm < sms_of(engine); sm++)
        engine->usable[sm] = !engine->closed[sm] && (!context || context[sm]);
    engine->usable_by = launch;
    return engine->usable;
}

/* A launch that waits closes the SMs that it could use. */
static void close_sms(gs_engine *engine, size_t launch) {
    const bool *stays_open = cluster_of(engine, launch) > 2 ? gs_clusters_always_open(engine->clusters) : NULL;
    const bool *context = context_of(engine, launch);
    engine->usable_by = NO_LAUNCH;
    for (int32_t sm = 0; sm < sms_of(engine); sm++)
        if (!engine->closed[sm] && !(stays_open && stays_open[sm]) && (!context || context[sm])) {
            engine->closed[sm] = true;
            engine->closed_count++;
        }
}

/* The launch that may start while this one waits. */
static size_t pass_over(gs_engine *engine, size_t launch) {
    if (!leaves_some_open(engine, launch))
        return NO_LAUNCH;
    if (!engine->overtaking)
        close_sms(engine, launch);
    return engine->closed_count < sms_of(engine) ? engine->plays[launch].after : NO_LAUNCH;
}

/* ---- launches that have the scheduler to themselves ---- */

static bool is_alone(const gs_engine *engine, size_t launch) {
    const struct play *play = &engine->plays[launch];
    return engine->queue_last == launch && !play->started && !play->was_alone && !play->is_awaited &&
           !is_cooperative(engine, launch) && !engine->run->green_contexts.count && gs_engine_duration(engine, launch);
}

/* The only launch in the queue flies, if it can. If not, it is watched, so that a later one can. */
static bool take_off(gs_engine *engine, size_t launch) {
    const gs_flight *flight;
    bool is_known;
    engine->plays[launch].was_alone = true;
    if (!gs_solo_begin(engine, launch, &is_known, &flight))
        return false;
    int64_t end_ns = flight ? gs_later(engine->now_ns, gs_flight_took(engine, launch, flight)) : 0;
    if (!is_known || (engine->endings.count && engine->endings.data[0].at_ns <= end_ns))
        return true;
    engine->solo = (struct solo){launch, engine->now_ns, flight};
    if (!flight)
        return true;
    queue_remove(engine, launch);
    engine->plays[launch].status = STARTED;
    return gs_endings_add(&engine->endings, (struct ending){end_ns, launch, 0, FLYING});
}

static void land(gs_engine *engine, size_t launch) {
    struct play *play = &engine->plays[launch];
    size_t like = gs_flight_land(engine, launch, engine->solo.flight);
    play->started = play->ended = engine->run->launches.data[launch].blocks;
    play->served_ns = play->start_ns = engine->solo.began_ns;
    play->config_bytes = engine->plays[like].config_bytes;
    engine->hooks.repeated(engine->hooks.user, launch, like, engine->solo.began_ns, engine->now_ns);
    engine->solo.launch = NO_LAUNCH;
}

/* A launch has ended. If it had the scheduler to itself, the next one that begins alike can fly. */
static bool learn(gs_engine *engine, size_t launch) {
    if (engine->solo.launch != launch)
        return true;
    engine->solo.launch = NO_LAUNCH;
    return engine->now_ns == INT64_MAX || gs_solo_learn(engine, launch, engine->solo.began_ns);
}

/* A block of the launch was placed, or none can be now. */
static inline void note_service(gs_engine *engine, size_t launch, bool waits) {
    struct play *play = &engine->plays[launch];
    if (play->served_ns == GS_NO_TIME)
        play->served_ns = engine->now_ns;
    if (!waits && play->start_ns == GS_NO_TIME) {
        play->start_ns = engine->now_ns;
        play->was_held = false;
        const gs_state *state = gs_dispatcher_state(engine->dispatcher);
        int32_t sm = engine->burst.placed[0].sm;
        play->config_bytes = state->groups[state->sms[sm].group].config_bytes;
    }
    if (waits && !play->was_held && engine->hooks.held) {
        play->was_held = true;
        engine->hooks.held(engine->hooks.user, launch);
    }
}

/* Starts blocks until all of a launch have started (COMPLETED), or no more can (WAITS). Begins with `launch`, and after
   each block at the front of the queue: if kernels may overtake, a block of a later kernel can let an earlier one start,
   because it moves the pointer of an SM. */
static enum outcome fill_sms(gs_engine *engine, size_t launch) {
    open_all(engine);
    while (launch != NO_LAUNCH) {
        const bool *open = usable_by(engine, launch);
        enum outcome outcome = is_held_back(engine, launch, open) ? WAITS
                               : cluster_of(engine, launch) == 1  ? place_block(engine, launch, open)
                                                                  : place_clusters(engine, launch, open);
        note_service(engine, launch, outcome == WAITS);
        if (outcome == WAITS) {
            launch = pass_over(engine, launch);
            continue;
        }
        if (outcome == OUT_OF_MEMORY)
            return OUT_OF_MEMORY;
        if (engine->plays[launch].started == engine->run->launches.data[launch].blocks)
            return complete(engine, launch, open) ? COMPLETED : OUT_OF_MEMORY;
        launch = engine->resumes_ns ? NO_LAUNCH : engine->queue_first;
        open_all(engine);
    }
    if (!engine->resumes_ns)
        gs_dispatcher_settle(engine->dispatcher);
    return start_burst(engine) ? WAITS : OUT_OF_MEMORY;
}

/* ---- entering the queue ---- */

/* Serves the queue while nothing may enter it. False: out of memory. */
static bool serve_past(gs_engine *engine) {
    enum outcome outcome;
    while ((outcome = fill_sms(engine, engine->queue_first)) == COMPLETED)
        ;
    return outcome == WAITS;
}

/* Plays a flying launch after all, from its beginning to the present. False: out of memory. */
static bool ground(gs_engine *engine) {
    size_t launch = engine->solo.launch;
    int64_t now_ns = engine->now_ns;
    engine->solo.launch = NO_LAUNCH;
    engine->now_ns = engine->solo.began_ns;
    take_ending(engine, 0);
    queue_add(engine, launch);
    bool done = serve_past(engine);
    while (done && engine->endings.count && engine->endings.data[0].at_ns <= now_ns) {
        struct ending ending = take_ending(engine, 0);
        engine->now_ns = ending.at_ns;
        done = end_block(engine, ending.handle) && serve_past(engine);
    }
    engine->now_ns = now_ns;
    return done;
}

/* Another launch is about to enter the queue, or blocks are about to end: no launch has the scheduler to itself. */
static bool end_solo(gs_engine *engine) {
    bool grounded = !is_flying(engine) || ground(engine);
    engine->solo.launch = NO_LAUNCH;
    return grounded;
}

static bool enter_queue(gs_engine *engine, size_t launch) {
    if (!end_solo(engine))
        return false;
    queue_add(engine, launch);
    if (engine->queue_first != launch)
        engine->plays[launch].behind = engine->queue_first;
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
        if (engine->nodes[list->data[i]].place < engine->nodes[list->data[first]].place)
            first = i;
    size_t operation = list->data[first];
    list->data[first] = list->data[--list->count];
    return operation;
}

/* The kernel of a memory node takes its SMs, unless a launch waits: then the GPU is full. */
static bool enter_memory(gs_engine *engine, size_t operation) {
    return engine->queue_first != NO_LAUNCH || gs_hidden_start_memory(engine, operation);
}

/* A launch enters the queue behind those that came at the same event. */
static bool enter_behind(gs_engine *engine, size_t launch) {
    engine->plays[launch].ready_at = ++engine->host_events;
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
        gs_hidden_end(engine);
    }
    for (size_t launch; (launch = gs_ready_next(engine)) != NO_LAUNCH;)
        if (!enter_queue(engine, launch))
            return false;
    return true;
}

/* ---- serving the queue ---- */

static enum outcome begin_pass(gs_engine *engine) {
    size_t launch = engine->queue_first;
    if (engine->solos && launch != NO_LAUNCH && is_alone(engine, launch) && !take_off(engine, launch))
        return OUT_OF_MEMORY;
    return is_flying(engine) ? WAITS : fill_sms(engine, engine->queue_first);
}

/* Starts all blocks that can start. When all blocks of a launch have started, others may become ready, and one of these
   may have to be served before the next one comes. Then the pass over the queue waits until a pass for that one is done,
   in which the same can happen. A pass that waits needs no memory but that it is counted: it goes on at the front of the
   queue. False: out of memory. */
static bool serve(gs_engine *engine) {
    size_t passes = 1; /* the one that is under way, and those that wait for it */
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
        if (!must_serve)
            engine->resumes_ns = gs_follow_resume(engine);
        outcome = must_serve ? begin_pass(engine)
                             : fill_sms(engine, engine->resumes_ns ? NO_LAUNCH : engine->queue_first);
    }
    return false;
}

/* All that has become ready enters the queue. */
static bool enter_all(gs_engine *engine) {
    bool done, must_serve;
    while ((done = enter_ready(engine, &must_serve)) && must_serve) {
        if (!serve(engine))
            return false;
        gs_hidden_end(engine);
    }
    return done;
}

/* A node of a graph enters, and is served. */
static bool enter_node(gs_engine *engine, size_t operation) {
    if (operation >= engine->run->launches.count)
        return enter_memory(engine, operation);
    return enter_behind(engine, operation) && serve(engine);
}

/* A kernel has ended. What waits for its end comes later than what waits for room: it does not find the shared-memory
   configuration that the last block has left. False: out of memory. */
static bool serve_waiting(gs_engine *engine) {
    return engine->resumes_ns || serve(engine);
}

/* False: out of memory. */
static bool kernel_ended(gs_engine *engine, size_t launch) {
    if (engine->solo.launch == launch)
        engine->solo.launch = NO_LAUNCH;
    gs_waves_restart(engine);
    return gs_ready_ended(engine, launch) && enter_all(engine);
}

/* ---- events ---- */

static gs_code register_kernel(gs_engine *engine, size_t number, gs_error *error) {
    const gs_launch *launch = &engine->run->launches.data[number];
    if (launch->cluster != 1 && !engine->clusters)
        return gs_run_fail(engine->run, launch->event, error, GS_E_UNSUPPORTED,
                           "kernel \"%.60s\" launches clusters of %d blocks; placement is modeled for single blocks",
                           launch->kernel, launch->cluster);
    if (launch->cluster != 1 && launch->cluster > gs_clusters_largest(engine->clusters))
        return gs_run_fail(
            engine->run, launch->event, error, GS_E_NO_FIT,
            "kernel \"%.60s\" can never run on this GPU: its clusters have %d blocks, and no GPC has more "
            "than %d SMs",
            launch->kernel, launch->cluster, gs_clusters_largest(engine->clusters));
    gs_error problem;
    engine->plays[number].kernel = gs_dispatcher_kernel(engine->dispatcher, &launch->shape, &problem);
    if (engine->plays[number].kernel >= 0)
        return GS_OK;
    if (problem.code == GS_E_MEMORY)
        return gs_fail_memory(error);
    return gs_run_fail(engine->run, launch->event, error, GS_E_NO_FIT, "kernel \"%.60s\" can never run on this GPU: %s",
                       launch->kernel, problem.message);
}

/* When something happens by itself; GS_NO_TIME: never. */
static int64_t next_ns(const gs_engine *engine) {
    const struct endings *endings = &engine->endings, *timers = &engine->readiness.timers;
    int64_t first_ns = endings->count ? endings->data[0].at_ns : INT64_MAX;
    if (timers->count)
        return gs_min(first_ns, timers->data[0].at_ns);
    return endings->count ? first_ns : GS_NO_TIME;
}

/* Plays the next timer, or ends the next block, or the pause before the next kernel, and serves the queue. */
static bool pass_time(gs_engine *engine) {
    if (engine->resumes_ns && (!engine->endings.count || engine->endings.data[0].at_ns > engine->resumes_ns)) {
        engine->now_ns = engine->resumes_ns;
        engine->resumes_ns = 0;
        return serve(engine);
    }
    const struct endings *timers = &engine->readiness.timers;
    if (timers->count && (!engine->endings.count || timers->data[0].at_ns < engine->endings.data[0].at_ns)) {
        gs_waves_restart(engine);
        return gs_ready_pass(engine) && enter_all(engine) && serve(engine);
    }
    struct ending ending = take_ending(engine, gs_follow_ending(engine));
    engine->now_ns = gs_max(engine->now_ns, ending.at_ns);
    if (ending.launch != engine->solo.launch)
        engine->solo.launch = NO_LAUNCH;
    if (ending.handle == FLYING)
        land(engine, ending.launch);
    else if (!end_block(engine, ending.handle))
        return false;
    if (engine->plays[ending.launch].ended == engine->run->launches.data[ending.launch].blocks &&
        (!learn(engine, ending.launch) || !serve_waiting(engine) || !kernel_ended(engine, ending.launch)))
        return false;
    return engine->resumes_ns || serve(engine);
}

/* The next thing that happens, or many alike. */
static bool step(gs_engine *engine) {
    size_t first = engine->queue_first;
    bool replaced = false, is_whole = first != NO_LAUNCH && is_cooperative(engine, first);
    if (!is_whole && !engine->run->green_contexts.count && !gs_replace_pass(engine, &replaced))
        return false;
    if (replaced)
        return !gs_waves_are_likely(engine, 0) || gs_waves_pass(engine);
    return pass_time(engine) && gs_waves_pass(engine);
}

/* Before a launch of a recording that is followed: ends the blocks that had ended by then. If the kernel started at
   once, local memory was set up for it before. */
static bool catch_up(gs_engine *engine, size_t launch) {
    const gs_launch *which = &engine->run->launches.data[launch];
    if (!gs_follow(engine, launch))
        return true;
    if (gs_seen_started(engine->run->events.data[which->event].seen))
        gs_dispatcher_grow_local(engine->dispatcher, which->shape.local_bytes);
    if (launch == 0)
        gs_follow_arrivals(engine);
    int64_t arrival_ns = engine->plays[launch].recorded_ns;
    while (engine->endings.count && engine->endings.data[0].at_ns < arrival_ns)
        if (!pass_time(engine))
            return false;
    engine->now_ns = gs_max(engine->now_ns, arrival_ns);
    return true;
}

/* What happens by itself until the host issues an operation. False: out of memory. */
static bool wait_for_host(gs_engine *engine, const gs_issue *issue) {
    if (issue->at_ns == GS_NO_TIME)
        return true;
    int64_t time_ns = gs_later(issue->at_ns, engine->hooks.latency_ns), at_ns;
    engine->horizon_ns = time_ns;
    while ((at_ns = next_ns(engine)) != GS_NO_TIME && at_ns <= time_ns)
        if (!step(engine))
            return false;
    engine->horizon_ns = INT64_MAX;
    engine->now_ns = gs_max(engine->now_ns, time_ns);
    return true;
}

static const gs_copy *next_copy(const gs_engine *engine) {
    const gs_copies *copies = &engine->run->copies;
    return engine->copies_issued < copies->count ? &copies->data[engine->copies_issued] : NULL;
}

static bool enter_in_order(gs_engine *engine, size_t ended);

/* Ends the next of the copies that are nodes of a graph in a run without times. What waits for it comes then. */
static bool end_copy(gs_engine *engine) {
    size_t copy = engine->readiness.untimed.data[0].launch;
    engine->host_events++;
    return gs_ready_end_copy(engine) &&
           (gs_join_orders(engine, copy) ? enter_in_order(engine, copy) : enter_all(engine)) && serve(engine);
}

/* Before a node of a graph in a run without times that waits for nothing: they come one after the other, and copies end
   in between. */
static bool pass_node(gs_engine *engine, const gs_issue *issue) {
    enum { NODE_NS = 1100 }; /* measured on an H200 */
    struct readiness *readiness = &engine->readiness;
    bool done = true;
    if (!gs_issue_is_node(issue) || issue->at_ns != GS_NO_TIME || issue->after_count)
        return true;
    readiness->untimed_ns += NODE_NS;
    while (done && readiness->untimed.count && readiness->untimed.data[0].at_ns <= readiness->untimed_ns)
        done = end_copy(engine);
    return done;
}

static bool issue_copy(gs_engine *engine) {
    size_t operation = engine->run->launches.count + engine->copies_issued;
    const gs_issue *issue = &next_copy(engine)->issue;
    bool done = wait_for_host(engine, issue) && pass_node(engine, issue) && gs_ready_issue(engine, operation) &&
                enter_all(engine) && serve(engine);
    engine->copies_issued++;
    return done;
}

/* Issues the copies before this launch that have not been issued. */
static bool issue_copies(gs_engine *engine, size_t launch) {
    bool done = true;
    while (done && next_copy(engine) && next_copy(engine)->before <= launch)
        done = issue_copy(engine);
    return done;
}

/* Issues the copies behind this launch that are nodes of its graph, in a run without times: they are launched with it.
 */
static bool issue_nodes(gs_engine *engine, size_t launch) {
    const gs_issue *issue = gs_run_issue(engine->run, launch);
    bool done = true;
    if (engine->hooks.endless)
        return true;
    for (const gs_copy *copy; done && (copy = next_copy(engine)) && copy->before <= launch + 1;) {
        if (copy->issue.at_ns != GS_NO_TIME || !gs_issue_is_beside(&copy->issue, issue))
            break;
        done = issue_copy(engine);
    }
    return done;
}

/* Copies of a run without times end at the latest when all that could start has started. */
static bool end_copies(gs_engine *engine) {
    bool done = true;
    while (done && engine->readiness.untimed.count)
        done = end_copy(engine);
    return done;
}

/* What the host does before a launch. Kernels that are checked or followed are taken as they come. */
static bool arrive(gs_engine *engine, size_t launch) {
    if (engine->hooks.endless || engine->hooks.follow)
        return catch_up(engine, launch);
    return issue_copies(engine, launch) && wait_for_host(engine, &engine->run->launches.data[launch].issue);
}

gs_code gs_engine_launch(gs_engine *engine, size_t launch, gs_error *error) {
    engine->host_events++;
    gs_code code = register_kernel(engine, launch, error);
    if (code != GS_OK)
        return code;
    if (!arrive(engine, launch) ||
        (!engine->hooks.endless && !pass_node(engine, &engine->run->launches.data[launch].issue)))
        return gs_fail_memory(error);
    engine->launched = gs_max_u64(engine->launched, launch + 1);
    if (!gs_ready_issue(engine, launch) || !enter_all(engine))
        return gs_fail_memory(error);
    bool done = (engine->resumes_ns || serve(engine)) && issue_nodes(engine, launch) &&
                (gs_run_graph_goes_on(engine->run, launch) || end_copies(engine));
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- joins of graphs ---- */

/* Starts the block that signals the end of a node, on an SM of its green context, if there is one and no kernel waits.
 */
static bool start_join(gs_engine *engine, size_t operation) {
    if (engine->queue_first != NO_LAUNCH || !gs_join_is_due(engine, operation))
        return true;
    return gs_hidden_start(engine, engine->join_kernel, 1, context_of(engine, operation));
}

/* The block has ended, and the kernels of memory nodes that came with it. Kernels that wait take their room. */
static bool end_join(gs_engine *engine) {
    return !gs_hidden_end(engine) || serve(engine);
}

/* Enters and serves these operations of the list, one after the other. */
static bool enter_nodes(gs_engine *engine, const struct ready_list *list, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (!enter_node(engine, list->data[i]))
            return false;
    return true;
}

/* What the end of a node of a graph has made ready comes one after the other (join.c). */
static bool enter_in_order(gs_engine *engine, size_t ended) {
    struct ready_list list = engine->readiness.list;
    size_t ends[GS_JOIN_PHASES];
    engine->readiness.list = (struct ready_list){0};
    bool done = gs_join_sort(engine, &list, ended, ends) && enter_nodes(engine, &list, 0, ends[GS_JOIN_FIRST]) &&
                start_join(engine, ended) && enter_nodes(engine, &list, ends[GS_JOIN_FIRST], ends[GS_JOIN_BESIDE]) &&
                end_join(engine) && enter_nodes(engine, &list, ends[GS_JOIN_BESIDE], ends[GS_JOIN_AFTER]);
    gs_hidden_end(engine);
    free(list.data);
    return done;
}

gs_code gs_engine_exit(gs_engine *engine, size_t launch, gs_error *error) {
    struct play *play = &engine->plays[launch];
    engine->host_events++;
    if (gs_engine_duration(engine, launch))
        while (play->status != ENDED && next_ns(engine) != GS_NO_TIME)
            if (!step(engine))
                return gs_fail_memory(error);
    if (play->status == ENDED)
        return GS_OK;
    if (!end_solo(engine))
        return gs_fail_memory(error);
    while (play->first_running >= 0)
        if (!end_block(engine, play->first_running))
            return gs_fail_memory(error);
    if (play->status == QUEUED)
        queue_remove(engine, launch);
    if (!serve_waiting(engine))
        return gs_fail_memory(error);
    gs_waves_restart(engine);
    bool done = gs_ready_ended(engine, launch) &&
                (gs_join_orders(engine, launch) ? enter_in_order(engine, launch) : enter_all(engine)) && serve(engine) &&
                end_copies(engine);
    return done ? GS_OK : gs_fail_memory(error);
}

gs_code gs_engine_finish(gs_engine *engine, gs_error *error) {
    engine->host_events++;
    if (!engine->hooks.endless && !engine->hooks.follow && !issue_copies(engine, engine->run->launches.count))
        return gs_fail_memory(error);
    while (next_ns(engine) != GS_NO_TIME || engine->resumes_ns)
        if (!step(engine))
            return gs_fail_memory(error);
    return GS_OK;
}

/* ---- looking at the engine ---- */

gs_course gs_engine_course(const gs_engine *engine, size_t operation) {
    const struct play *play = &engine->plays[operation];
    return (gs_course){play->arrived_ns, play->freed_ns, play->ready_ns,          play->served_ns, play->start_ns,
                       play->end_ns,     play->freed_by, play->is_freed_by_event, play->behind,    play->config_bytes};
}

int64_t gs_engine_now_ns(const gs_engine *engine) {
    return engine->now_ns;
}

int32_t gs_engine_room(const gs_engine *engine) {
    return engine->room;
}

int64_t gs_engine_started(const gs_engine *engine, size_t launch) {
    return engine->plays[launch].started;
}

gs_dispatcher *gs_engine_dispatcher(gs_engine *engine) {
    return engine->dispatcher;
}

gs_grid gs_engine_grid(const gs_engine *engine, size_t launch) {
    return gs_grid_of(&engine->run->launches.data[launch], engine->plays[launch].kernel, context_of(engine, launch));
}

bool gs_engine_lacks_room(const gs_engine *engine) {
    return engine->queue_first != NO_LAUNCH;
}

gs_hold gs_engine_hold(const gs_engine *engine, size_t launch, size_t *other) {
    const struct play *play = &engine->plays[launch];
    size_t head = play->stream == NO_LAUNCH ? launch : engine->streams[play->stream].head;
    *other = head;
    if (play->status == HELD)
        return GS_HOLD_KERNELS;
    if (play->status == IN_STREAM && head == launch && !play->pending && play->connection >= 0) {
        *other = engine->connections[play->connection].head;
        return GS_HOLD_CONNECTION;
    }
    if (play->status == IN_STREAM || play->status == COMING)
        return head != launch && play->early == NO_LAUNCH ? GS_HOLD_STREAM : GS_HOLD_EVENT;
    if (play->status != QUEUED)
        return GS_HOLD_NONE;
    *other = engine->queue_first;
    if (engine->overtaking || engine->queue_first == launch)
        return GS_HOLD_ROOM;
    for (size_t i = engine->queue_first; i != launch; i = engine->plays[i].after)
        if (!leaves_some_open(engine, i)) {
            *other = i;
            break;
        }
    return GS_HOLD_QUEUE;
}
