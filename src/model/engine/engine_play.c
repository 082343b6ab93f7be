/*
 * engine_play.c: plays launches, exits and the passing of time.
 *
 * A launch enters the queue when what is before it in its stream has ended (ready.c), and is served there (serve.c).
 * Time passes by a heap of running blocks, ordered by when they end, and a heap of timers. Launches and exits take no
 * time. Blocks that end at the same time end one after the other, in the order of launches and blocks, and the queue is
 * served after each. At the exit of a kernel with a duration the host waits: time passes until the kernel has ended.
 * While a recording is followed, blocks end when they ended in it (follow.c). Waves of blocks that repeat can be
 * skipped (waves.c), and so can the blocks of launches that have the scheduler to themselves, if an earlier one went
 * alike (solo.c).
 */
#include "engine_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The turns with this number: the groups that go first are the highest digit, then come their parts and the others. */
static gs_turns turns_of(const gs_gpu *gpu, int32_t number) {
    int32_t others = gpu->grants.groups.count - gpu->grants.first;
    int32_t parts = gpu->grants.cluster_first.count ? gpu->grants.cluster_first.count : 1;
    return (gs_turns){number / others / parts, number / others % parts, number % others};
}

static void turns_begin(gs_engine *engine, const gs_gpu *gpu) {
    struct possibilities *turns = &engine->numbering.turns;
    int32_t all = gs_gpu_turns(gpu), first = engine->hooks.follow ? 0 : engine->hooks.turn;
    int32_t past = engine->hooks.follow ? all : first + 1;
    for (int32_t turn = first; engine->numbering.numberer && turn < past; turn++)
        turns->data[turns->count++] = turns_of(gpu, turn);
}

static bool init_sms(gs_engine *engine, const gs_gpu *gpu) {
    struct open_sms *sms = &engine->sms;
    sms->closed = calloc((size_t)gpu->sms, sizeof *sms->closed);
    sms->usable = calloc((size_t)gpu->sms, sizeof *sms->usable);
    sms->usable_by = NO_LAUNCH;
    sms->contexts = gs_green_flags(gpu, &engine->run->green_contexts);
    return sms->closed && sms->usable && sms->contexts;
}

static bool init_numbering(gs_engine *engine, const gs_gpu *gpu) {
    struct numbering *numbering = &engine->numbering;
    bool by_grant = gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT;
    numbering->burst.placed = calloc(gs_gpu_most_blocks(gpu), sizeof *numbering->burst.placed);
    numbering->order = calloc(gs_gpu_most_blocks(gpu), sizeof *numbering->order);
    numbering->numberer = by_grant ? gs_numberer_new(gpu, NULL) : NULL;
    turns_begin(engine, gpu);
    return numbering->burst.placed && numbering->order && (numbering->numberer || !by_grant);
}

static bool init_blocks(gs_engine *engine, const gs_gpu *gpu) {
    bool has_clusters = gs_gpu_has_clusters(gpu);
    engine->running = calloc(gs_gpu_most_blocks(gpu), sizeof *engine->running);
    engine->clusters = has_clusters ? gs_clusters_new(gpu, NULL) : NULL;
    engine->round = calloc((size_t)gpu->sms, sizeof *engine->round);
    return engine->running && engine->round && (engine->clusters || !has_clusters);
}

static bool init_solos(gs_engine *engine, const gs_gpu *gpu) {
    const gs_engine_hooks *hooks = &engine->hooks;
    bool may_repeat = hooks->repeated && !hooks->follow && !hooks->endless;
    engine->solo.launch = NO_LAUNCH;
    engine->solos = may_repeat ? gs_solos_new(gpu) : NULL;
    return engine->solos || !may_repeat;
}

gs_engine *gs_engine_new(const gs_gpu *gpu, const gs_run *run, const gs_engine_hooks *hooks, gs_error *error) {
    gs_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        gs_fail_memory(error);
        return NULL;
    }
    engine->run = run;
    engine->hooks = *hooks;
    engine->overtaking = gpu->mechanisms.queue == GS_QUEUE_OVERTAKING;
    engine->clock.horizon_ns = INT64_MAX;
    engine->owns_dispatcher = !hooks->dispatcher;
    engine->dispatcher = hooks->dispatcher ? hooks->dispatcher : gs_dispatcher_new(gpu, NULL);
    engine->capacity = run->launches.count + run->copies.count + 1;
    engine->plays = calloc(engine->capacity, sizeof *engine->plays);
    gs_launch_queue_init(&engine->queue);
    if (engine->dispatcher && engine->plays && init_sms(engine, gpu) && init_numbering(engine, gpu) &&
        init_blocks(engine, gpu) && init_solos(engine, gpu) && gs_ready_init(engine) && gs_join_init(engine) &&
        gs_connections_init(engine) && gs_bulk_init(engine))
        return engine;
    gs_engine_free(engine);
    gs_fail_memory(error);
    return NULL;
}

void gs_engine_free(gs_engine *engine) {
    if (!engine)
        return;
    if (engine->owns_dispatcher)
        gs_dispatcher_free_sms(engine->dispatcher);
    gs_dispatcher_free_sms(engine->trial);
    gs_ready_free(engine);
    free(engine->graph.nodes);
    free(engine->graph.by_place);
    free(engine->graph.hidden.data);
    free(engine->connections.data);
    for (size_t i = 0; engine->plays && i < engine->run->launches.count; i++)
        free(engine->plays[i].on_sms);
    free(engine->plays);
    free(engine->running);
    free(engine->sms.closed);
    free(engine->sms.usable);
    free(engine->sms.contexts);
    free(engine->endings.data);
    free(engine->numbering.burst.placed);
    free(engine->numbering.order);
    free(engine->round);
    gs_waves_free(engine);
    gs_replace_free(engine);
    gs_solos_free(engine->solos);
    gs_bulk_free(engine->bulk);
    gs_numberer_free(engine->numbering.numberer);
    gs_clusters_free(engine->clusters);
    free(engine);
}

bool gs_engine_copy(gs_engine *to, const gs_engine *from) {
    size_t most_blocks = gs_gpu_most_blocks(gs_dispatcher_state(from->dispatcher)->gpu);
    memcpy(to->plays, from->plays, from->launched * sizeof *to->plays);
    for (size_t i = from->launched; i < to->launched; i++)
        to->plays[i] = gs_play_new();
    to->launched = from->launched;
    memcpy(to->running, from->running, most_blocks * sizeof *to->running);
    to->queue = from->queue;
    to->clock.host_events = from->clock.host_events;
    to->clock.now_ns = from->clock.now_ns;
    to->numbering.turns = from->numbering.turns;
    gs_waves_restart(to);
    return gs_ready_copy(to, from) && gs_dispatcher_copy_sms(to->dispatcher, from->dispatcher, NULL) == GS_OK;
}

/* ---- events ---- */

static gs_code register_kernel(gs_engine *engine, size_t number, gs_error *error) {
    const gs_launch *launch = &engine->run->launches.data[number];
    if (launch->cluster != 1 && !engine->clusters)
        return gs_run_fail(engine->run, launch->event, error, GS_E_UNSUPPORTED,
                           "kernel \"%.60s\" launches clusters of %d blocks, but this GPU has no clusters, or its "
                           "description does not place them",
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
    if (engine->clock.resumes_ns &&
        (!engine->endings.count || engine->endings.data[0].at_ns > engine->clock.resumes_ns)) {
        engine->clock.now_ns = engine->clock.resumes_ns;
        engine->clock.resumes_ns = 0;
        return gs_serve_queue(engine);
    }
    const struct endings *timers = &engine->readiness.timers;
    if (timers->count && (!engine->endings.count || timers->data[0].at_ns < engine->endings.data[0].at_ns)) {
        gs_waves_restart(engine);
        return gs_ready_pass(engine) && gs_enter_all(engine) && gs_serve_queue(engine);
    }
    return gs_serve_ending(engine, gs_follow_ending(engine));
}

/* With sanitizers the invariants are checked after the first steps of each engine, and then from time to time. */
static void check_step(gs_engine *engine) {
#ifdef GRIDSMITH_CHECKED
    enum { FIRST_STEPS = 400, SOME_STEPS = 256, MOST_OPERATIONS = 256 };
    bool is_small = engine->run->launches.count + engine->run->copies.count <= MOST_OPERATIONS;
    bool is_due = engine->checks < FIRST_STEPS || engine->checks % SOME_STEPS == 0;
    const char *violated = is_small && is_due ? gs_engine_check(engine) : NULL;
    engine->checks++;
    if (violated) {
        fprintf(stderr, "the engine violates invariant %s\n", violated);
        abort();
    }
#else
    (void)engine;
#endif
}

/* The next thing that happens, or many alike. */
static bool play_step(gs_engine *engine) {
    size_t first = engine->queue.first;
    bool replaced = false, is_whole = first != NO_LAUNCH && gs_engine_is_cooperative(engine, first);
    if (!is_whole && !engine->run->green_contexts.count && !engine->bulk && !gs_replace_pass(engine, &replaced))
        return false;
    bool done = replaced ? !gs_waves_are_likely(engine, 0) || gs_waves_pass(engine)
                         : pass_time(engine) && gs_waves_pass(engine);
    if (done)
        check_step(engine);
    return done;
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
    engine->clock.now_ns = gs_max(engine->clock.now_ns, arrival_ns);
    return true;
}

/* What happens by itself until the host issues an operation. False: out of memory. */
static bool wait_for_host(gs_engine *engine, const gs_issue *issue) {
    if (issue->at_ns == GS_NO_TIME)
        return true;
    int64_t time_ns = gs_later(issue->at_ns, engine->hooks.latency_ns), at_ns;
    engine->clock.horizon_ns = time_ns;
    while ((at_ns = next_ns(engine)) != GS_NO_TIME && at_ns <= time_ns)
        if (!play_step(engine))
            return false;
    engine->clock.horizon_ns = INT64_MAX;
    engine->clock.now_ns = gs_max(engine->clock.now_ns, time_ns);
    return true;
}

static const gs_copy *next_copy(const gs_engine *engine) {
    const gs_copies *copies = &engine->run->copies;
    return engine->copies_issued < copies->count ? &copies->data[engine->copies_issued] : NULL;
}

static bool enter_in_order(gs_engine *engine, size_t ended);

/* The blocks of the driver have ended: the one that signals, and those of memory nodes. Kernels that wait take their
   headroom. */
static bool end_hidden(gs_engine *engine) {
    return !gs_hidden_end(engine) || gs_serve_queue(engine);
}

/* Ends the next of the copies that are nodes of a graph in a run without times. What waits for it comes then. */
static bool end_copy(gs_engine *engine) {
    size_t copy = engine->readiness.untimed.data[0].launch;
    engine->clock.host_events++;
    return gs_ready_end_copy(engine) &&
           (gs_join_orders(engine, copy) ? enter_in_order(engine, copy) : gs_enter_all(engine)) &&
           gs_serve_queue(engine) && end_hidden(engine);
}

/* Before a node of a graph in a run without times that waits for nothing: they come one after the other, and copies end
   in between. */
static bool pass_node(gs_engine *engine, const gs_issue *issue) {
    struct readiness *readiness = &engine->readiness;
    bool done = true;
    if (!gs_issue_is_node(issue) || issue->at_ns != GS_NO_TIME || issue->after_count)
        return true;
    readiness->untimed_ns += GS_NODE_NS;
    while (done && readiness->untimed.count && readiness->untimed.data[0].at_ns <= readiness->untimed_ns)
        done = end_copy(engine);
    return done;
}

static bool issue_copy(gs_engine *engine) {
    size_t operation = engine->run->launches.count + engine->copies_issued;
    const gs_issue *issue = &next_copy(engine)->issue;
    bool done = wait_for_host(engine, issue) && pass_node(engine, issue) && gs_ready_issue(engine, operation) &&
                gs_enter_all(engine) && gs_serve_queue(engine);
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
    engine->clock.host_events++;
    gs_code code = register_kernel(engine, launch, error);
    if (code != GS_OK)
        return code;
    if (!arrive(engine, launch) ||
        (!engine->hooks.endless && !pass_node(engine, &engine->run->launches.data[launch].issue)))
        return gs_fail_memory(error);
    engine->launched = gs_max_u64(engine->launched, launch + 1);
    if (!gs_ready_issue(engine, launch) || !gs_enter_all(engine))
        return gs_fail_memory(error);
    bool is_waiting = engine->run->launches.data[launch].issue.after_count; /* then it is not the next that comes */
    bool done = (engine->clock.resumes_ns || gs_serve_queue(engine)) && (is_waiting || end_hidden(engine)) &&
                issue_nodes(engine, launch) &&
                (gs_run_graph_goes_on(engine->run, launch) || (end_hidden(engine) && end_copies(engine)));
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- joins of graphs ---- */

/* Starts the block that signals the end of a node, on an SM of its green context, if no kernel waits. */
static bool start_join(gs_engine *engine, size_t operation) {
    if (engine->queue.first != NO_LAUNCH)
        return true;
    return gs_hidden_start(engine, engine->graph.join_kernel, 1, gs_engine_context(engine, operation));
}

/* Hidden blocks, by their numbers, that end when the next operation has been placed. */
struct leaving {
    size_t first, past;
};

static void end_leaving(gs_engine *engine, struct leaving *leaving) {
    gs_hidden_end_some(engine, leaving->first, leaving->past);
    *leaving = (struct leaving){0};
}

/* Enters an operation, and serves it. Hidden blocks of a memory node may end earlier than those of others. */
static bool enter_node(gs_engine *engine, size_t operation, struct leaving *leaving) {
    const struct handles *hidden = &engine->graph.hidden;
    gs_way way = operation < engine->run->launches.count ? GS_WAY_USUAL : gs_engine_way(engine, operation);
    size_t before = hidden->count - (leaving->past - leaving->first);
    bool done = gs_enter_node(engine, operation);
    end_leaving(engine, leaving);
    if (way == GS_WAY_OTHER)
        gs_hidden_end_some(engine, before, hidden->count);
    if (way == GS_WAY_SOME)
        gs_hidden_end_others(engine, operation, before);
    if (way == GS_WAY_RARE)
        *leaving = (struct leaving){before, hidden->count};
    return done;
}

/* Enters and serves these operations of the list, one after the other. */
static bool enter_nodes(gs_engine *engine, const struct ready_list *list, size_t from, size_t to,
                        struct leaving *leaving) {
    for (size_t i = from; i < to; i++)
        if (!enter_node(engine, list->data[i], leaving))
            return false;
    return true;
}

/* What the end of a node of a graph has made ready comes one after the other (join.c). */
static bool enter_in_order(gs_engine *engine, size_t ended) {
    struct ready_list list = engine->readiness.list;
    struct leaving leaving = {0};
    gs_comers order;
    const size_t *ends = order.ends;
    engine->readiness.list = (struct ready_list){0};
    bool done = gs_join_sort(engine, &list, ended, &order) &&
                enter_nodes(engine, &list, 0, ends[GS_JOIN_FIRST], &leaving) &&
                (!order.is_signaled || start_join(engine, ended)) &&
                enter_nodes(engine, &list, ends[GS_JOIN_FIRST], ends[GS_JOIN_BESIDE], &leaving) && end_hidden(engine) &&
                enter_nodes(engine, &list, ends[GS_JOIN_BESIDE], ends[GS_JOIN_AFTER], &leaving);
    gs_hidden_end(engine);
    free(list.data);
    return done;
}

gs_code gs_engine_exit(gs_engine *engine, size_t launch, gs_error *error) {
    struct play *play = &engine->plays[launch];
    engine->clock.host_events++;
    if (gs_engine_duration(engine, launch))
        while (play->status != ENDED && next_ns(engine) != GS_NO_TIME)
            if (!play_step(engine))
                return gs_fail_memory(error);
    if (play->status == ENDED)
        return GS_OK;
    if (!gs_end_solo(engine))
        return gs_fail_memory(error);
    while (play->first_running >= 0)
        if (!gs_end_block(engine, play->first_running))
            return gs_fail_memory(error);
    if (play->status == QUEUED)
        gs_launch_queue_remove(engine, launch);
    if (!engine->clock.resumes_ns && !gs_serve_queue(engine))
        return gs_fail_memory(error);
    gs_waves_restart(engine);
    bool done = gs_ready_ended(engine, launch) &&
                (gs_join_orders(engine, launch) ? enter_in_order(engine, launch) : gs_enter_all(engine)) &&
                gs_serve_queue(engine) && end_copies(engine);
    return done ? GS_OK : gs_fail_memory(error);
}

gs_code gs_engine_exit_again(gs_engine *engine, size_t launch, gs_error *error) {
    gs_code code = gs_engine_exit(engine, launch, error);
    bool is_awaited = engine->plays[launch].is_awaited;
    engine->plays[launch] = gs_play_new();
    engine->plays[launch].is_awaited = is_awaited;
    return code;
}

gs_code gs_engine_finish(gs_engine *engine, gs_error *error) {
    engine->clock.host_events++;
    if (!engine->hooks.endless && !engine->hooks.follow && !issue_copies(engine, engine->run->launches.count))
        return gs_fail_memory(error);
    while (next_ns(engine) != GS_NO_TIME || engine->clock.resumes_ns)
        if (!play_step(engine))
            return gs_fail_memory(error);
    return GS_OK;
}

/* ---- a run that grows, whose blocks are ended one by one ---- */

bool gs_engine_grow(gs_engine *engine) {
    size_t count = engine->run->launches.count, capacity = 2 * (engine->capacity + 8);
    if (count + 1 >= engine->capacity) {
        struct play *plays = realloc(engine->plays, capacity * sizeof *plays);
        engine->plays = plays ? plays : engine->plays;
        struct stream *streams = plays ? realloc(engine->readiness.streams, capacity * sizeof *streams) : NULL;
        if (!streams)
            return false;
        engine->readiness.streams = streams;
        engine->capacity = capacity;
    }
    engine->plays[count] = gs_play_new();
    return true;
}

void gs_engine_wait_until(gs_engine *engine, int64_t now_ns) {
    engine->clock.now_ns = gs_max(engine->clock.now_ns, now_ns);
}

bool gs_engine_end(gs_engine *engine, int32_t block) {
    return gs_serve_end(engine, block);
}

size_t gs_engine_launch_of(const gs_engine *engine, int32_t block) {
    return engine->running[block].launch;
}

bool gs_engine_end_other(gs_engine *engine, int32_t block) {
    gs_dispatcher_end(engine->dispatcher, block);
    return gs_serve_queue(engine);
}

/* ---- looking at the engine ---- */

gs_course gs_engine_course(const gs_engine *engine, size_t operation) {
    const struct play *play = &engine->plays[operation];
    return (gs_course){play->arrived_ns, play->freed_ns, play->ready_ns,          play->served_ns, play->start_ns,
                       play->end_ns,     play->freed_by, play->is_freed_by_event, play->behind,    play->config_bytes};
}

int32_t gs_engine_headroom(const gs_engine *engine) {
    return engine->headroom;
}

int64_t gs_engine_started(const gs_engine *engine, size_t launch) {
    return engine->plays[launch].started;
}

int32_t gs_engine_latest(const gs_engine *engine, size_t launch) {
    return engine->plays[launch].first_running;
}

int gs_engine_kernel(const gs_engine *engine, size_t launch) {
    return engine->plays[launch].kernel;
}

gs_dispatcher *gs_engine_dispatcher(gs_engine *engine) {
    return engine->dispatcher;
}

gs_grid gs_engine_grid(const gs_engine *engine, size_t launch) {
    return gs_grid_of(&engine->run->launches.data[launch], engine->plays[launch].kernel,
                      gs_engine_context(engine, launch));
}

bool gs_engine_lacks_headroom(const gs_engine *engine) {
    return engine->queue.first != NO_LAUNCH;
}

/* The operation in its stream for whose end an operation waits: the one before it, or the first; NO_LAUNCH: none. */
static size_t waits_in_stream_for(const gs_engine *engine, size_t operation) {
    const struct play *play = &engine->plays[operation];
    if (play->status != IN_STREAM || play->stream == NO_LAUNCH || play->is_early)
        return NO_LAUNCH;
    size_t head = engine->readiness.streams[play->stream].head;
    if (play->previous != NO_LAUNCH || play->names_previous)
        return play->previous;
    return head == operation ? NO_LAUNCH : head;
}

gs_hold gs_engine_hold(const gs_engine *engine, size_t launch, size_t *other) {
    const struct play *play = &engine->plays[launch];
    *other = launch;
    for (size_t next; (next = waits_in_stream_for(engine, *other)) != NO_LAUNCH;)
        *other = next;
    if (play->status == HELD)
        return GS_HOLD_KERNELS;
    if (play->status == IN_STREAM && *other == launch && !play->pending && play->connection >= 0) {
        *other = engine->connections.data[play->connection].head;
        return GS_HOLD_CONNECTION;
    }
    if (play->status == IN_STREAM || play->status == COMING)
        return *other != launch ? GS_HOLD_STREAM : GS_HOLD_EVENT;
    if (play->status != QUEUED)
        return GS_HOLD_NONE;
    *other = engine->queue.first;
    if (engine->overtaking || engine->queue.first == launch)
        return GS_HOLD_HEADROOM;
    for (size_t i = engine->queue.first; i != launch; i = engine->plays[i].after)
        if (!gs_engine_leaves_open(engine, i)) {
            *other = i;
            break;
        }
    return GS_HOLD_QUEUE;
}
