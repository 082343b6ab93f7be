/*
 * scheduler.c: which launches run now and on which SMs: src/plan decides, this file asks it and does what it says.
 *
 * Contenders are the streams with a launch that waits or runs, one launch each, and for a little while those whose last
 * launch has just ended. A decision is asked for whenever a launch comes that cannot simply follow the one before it,
 * when one ends, and when the plan wants to look again. Doing it is: new masks for those that run, an empty one for
 * those that should stop, a start for those that wait.
 *
 * Most launches that run whole need no decision: they follow the one before them (follow.c).
 *
 * What is measured. A launch that ran with nobody beside it tells how long it takes (whole), or its rate on so many SMs
 * (confined). The rest are windows: times in which the same one or two kernels ran on the same SMs, or two took turns,
 * over as many launches as there were; the gaps between launches count, because they are there. Two that both run whole
 * take turns, too: the GPU begins with the second when no block of the first waits any more.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum {
    EXPECT_NS = 200000,          /* so long a stream keeps its SMs after a launch */
    LEAST_WINDOW_NS = 4000000,   /* progress is known to a millisecond or so */
    WHOLE_WINDOW_NS = 20000000,  /* many launches of both */
    TURNS_WINDOW_NS = 100000000, /* both have had turns */
    USUAL_WINDOW_NS = 50000000   /* then it is told, and a new one begins */
};

/* ---- contenders ---- */

/* A client that comes, or comes back, has no more to catch up than the others: what it did not ask for is gone. */
static void join(gs_session *session) {
    const gs_server *server = session->server;
    double least = -1;
    if (session->listed++)
        return;
    for (size_t i = 0; i < server->contenders.count; i++) {
        const gs_session *other = server->contenders.data[i]->session;
        double had = (double)other->had / other->options.weight;
        if (other != session && (least < 0 || had < least))
            least = had;
    }
    uint64_t fair = least > 0 ? (uint64_t)(least * session->options.weight) : 0;
    session->had = session->had > fair ? session->had : fair;
}

void gs_stream_list(gs_stream *stream) {
    gs_server *server = stream->session->server;
    if (stream->is_listed)
        return;
    stream->is_listed = true;
    join(stream->session);
    server->contenders.data[server->contenders.count++] = stream;
}

static void expect_nothing(gs_stream *stream) {
    if (stream->last)
        gs_profile_store_put(stream->session->server->store, stream->last);
    stream->last = NULL;
}

static void unlist(gs_server *server, size_t at) {
    gs_stream *stream = server->contenders.data[at];
    expect_nothing(stream);
    stream->is_listed = false;
    stream->session->listed--;
    server->contenders.data[at] = server->contenders.data[--server->contenders.count];
}

static void close_window(gs_server *server);

void gs_schedule_unlist(gs_session *session) {
    gs_server *server = session->server;
    for (size_t i = server->contenders.count; i-- > 0;)
        if (server->contenders.data[i]->session == session)
            unlist(server, i);
}

void gs_schedule_close(gs_server *server) {
    if (server->store)
        close_window(server);
    while (server->contenders.count)
        unlist(server, server->contenders.count - 1);
}

static bool can_confine(const gs_action *action) {
    return action->resource->image->kernels[action->launch.run.kernel].can_be_confined &&
           action->launch.blocks <= GS_JOB_BLOCKS;
}

/* Whether a launch that runs whole is walked: where that is faster, but for those that are to tell whether it is. */
bool gs_launch_uses_block_loop(const gs_action *action) {
    gs_profile *profile = action->launch.profile;
    bool is_alone = action->session->server->contenders.count <= 1;
    return profile && can_confine(action) &&
           profile->prefers_block_loop != (is_alone && gs_profile_takes_other(profile));
}

/* Whether SMs are kept for a stream whose last launch has just ended. */
static bool has_kept_sms(const gs_stream *stream) {
    return stream->last && stream->session->server->now_ns < stream->expected_until_ns && !stream->session->end_code;
}

/* Whether a launch takes the place of the one before it, the same kernel on SMs of its own. */
static bool takes_place(const gs_stream *stream, const gs_action *action) {
    return !action->is_issued && has_kept_sms(stream) && stream->last_how == GS_PLAN_CONFINED &&
           stream->last == action->launch.profile;
}

/* False: the stream is not one. */
static bool describe(const gs_server *server, gs_stream *stream, gs_contender *contender) {
    const gs_session *session = stream->session;
    const gs_action *action = gs_stream_launch(stream);
    uint64_t now = server->now_ns;
    int32_t all = server->facts.sms;
    *contender = (gs_contender){.client = session->slot,
                                .priority = session->options.priority,
                                .weight = session->options.weight,
                                .cap = (int32_t)gs_min(session->options.most_sms, all),
                                .served = session->had};
    if (!action && has_kept_sms(stream)) {
        contender->profile = stream->last;
        contender->state = GS_CONTENDER_EXPECTED;
        contender->how = stream->last_how;
        contender->sms = stream->last_sms;
        contender->can_confine = stream->last_how == GS_PLAN_CONFINED;
        contender->blocks_left = stream->last->blocks;
        return true;
    }
    if (!action)
        return false;
    const gs_action_launch *launch = &action->launch;
    bool is_running = action->is_issued && !launch->is_stopping;
    contender->profile = launch->profile;
    contender->state = is_running ? GS_CONTENDER_RUNS : GS_CONTENDER_WAITS;
    contender->arrival = launch->arrival;
    contender->blocks_left = launch->blocks - launch->run.first_block;
    contender->can_confine = can_confine(action);
    contender->waited_ns = (int64_t)(now - launch->waits_since);
    contender->running_ns = is_running ? (int64_t)(now - stream->running_since) : 0;
    bool has_place = takes_place(stream, action);
    contender->how = is_running ? launch->how : has_place ? GS_PLAN_CONFINED : GS_PLAN_WAIT;
    contender->sms = is_running ? launch->sms : has_place ? stream->last_sms : 0;
    return true;
}

/* ---- windows ---- */

/* Blocks of a launch that were not counted yet. */
static uint64_t new_blocks(gs_action_launch *launch, uint64_t done) {
    uint64_t fresh = done > launch->counted ? done - launch->counted : 0;
    launch->counted += fresh;
    return fresh;
}

static void count_blocks(gs_server *server, gs_action *action, uint64_t done) {
    uint64_t fresh = new_blocks(&action->launch, done);
    for (size_t i = 0; i < server->window.count; i++)
        if (server->window.streams[i] == action->stream && server->window.profiles[i] == action->launch.profile)
            server->window.blocks[i] += fresh;
}

static void count_running(gs_server *server) {
    for (size_t i = 0; i < server->contenders.count; i++) {
        gs_action *action = server->contenders.data[i]->confined;
        if (action)
            count_blocks(server, action, gs_worker_progress(server->engine, gs_action_tag(action)));
    }
}

static void close_window(gs_server *server) {
    struct gs_window *window = &server->window;
    uint64_t ns = server->now_ns - window->since_ns;
    if (window->count)
        count_running(server);
    gs_beside both[2];
    for (size_t i = 0; i < window->count; i++)
        both[i] = (gs_beside){window->profiles[i], window->sms[i], window->blocks[i]};
    bool is_told = window->count && ns >= window->least_ns && both[0].blocks && both[window->count - 1].blocks;
    if (is_told && window->count == 1)
        gs_profile_rate(both[0].profile, both[0].sms, both[0].blocks, ns);
    else if (is_told && window->is_turns)
        gs_profile_store_turns(server->store, &both[0], &both[1], ns);
    else if (is_told)
        gs_profile_store_beside(server->store, &both[0], &both[1], ns);
    for (size_t i = 0; i < window->count; i++)
        gs_profile_store_put(server->store, window->profiles[i]);
    window->count = 0;
}

/* The window that what was decided belongs to; no kernels: none does. */
static struct gs_window window_of(gs_server *server, size_t count) {
    struct gs_window window = {.since_ns = server->now_ns, .least_ns = LEAST_WINDOW_NS};
    size_t running = 0, whole = 0;
    for (size_t i = 0; i < count; i++) {
        running += server->placed.data[i].how != GS_PLAN_WAIT;
        whole += server->placed.data[i].how == GS_PLAN_WHOLE;
    }
    if (count > 2 || running == 0 || (count == 1 && whole == 1))
        return window;
    window.is_turns = running < count || whole == count;
    if (window.is_turns)
        window.least_ns = running < count ? TURNS_WINDOW_NS : WHOLE_WINDOW_NS;
    for (size_t i = 0; i < count; i++) {
        gs_profile *profile = (gs_profile *)server->asked.data[i].profile; /* it is the store's */
        if (!profile)
            return (struct gs_window){.count = 0};
        window.streams[i] = server->contenders.data[i];
        window.profiles[i] = profile;
        window.sms[i] = window.is_turns ? 0 : server->placed.data[i].sms;
        window.is_probe |= server->placed.data[i].is_probe || server->placed.data[i].is_trial;
    }
    window.count = count;
    return window;
}

static bool is_same_window(const struct gs_window *a, const struct gs_window *b) {
    if (a->count != b->count || a->is_turns != b->is_turns || a->least_ns != b->least_ns)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        size_t k = a->streams[i] == b->streams[i] ? i : a->count - 1 - i;
        if (a->streams[i] != b->streams[k] || a->profiles[i] != b->profiles[k] || a->sms[i] != b->sms[k])
            return false;
    }
    return true;
}

/* What a probe or a trial was for is told as soon as there is something to tell, so that the next decision has it. */
static void end_probe(gs_server *server) {
    struct gs_window *window = &server->window;
    if (!window->count || !window->is_probe || server->now_ns - window->since_ns < LEAST_WINDOW_NS)
        return;
    count_running(server);
    for (size_t i = 0; i < window->count; i++)
        if (!window->blocks[i])
            return;
    close_window(server);
}

static void watch(gs_server *server, size_t count) {
    struct gs_window next = window_of(server, count);
    uint64_t most = next.least_ns == TURNS_WINDOW_NS ? 2 * TURNS_WINDOW_NS : USUAL_WINDOW_NS;
    if (is_same_window(&server->window, &next) && server->now_ns - server->window.since_ns < most)
        return;
    close_window(server);
    count_running(server); /* what was before does not count */
    server->window = next;
    server->window.count = 0;
    for (size_t i = 0; i < next.count; i++) {
        const gs_profile *profile = next.profiles[i];
        server->window.profiles[i] = gs_profile_store_get(server->store, profile->key, profile->name, profile->blocks);
        if (!server->window.profiles[i]) {
            close_window(server);
            return;
        }
        server->window.count++;
    }
}

void gs_schedule_ran(gs_action *action, const gs_worker_report *event) {
    gs_server *server = action->session->server;
    gs_action_launch *launch = &action->launch;
    gs_stream *stream = action->stream;
    bool is_confined = launch->run.is_confined;
    uint64_t ns = event->ended_ns > event->began_ns ? event->ended_ns - event->began_ns : 0;
    uint64_t done = is_confined ? event->blocks_done : launch->blocks;
    launch->ran_ns += ns;
    uint64_t served = ns * (uint64_t)(launch->sms > 0 ? launch->sms : server->facts.sms);
    action->session->counts.served += served;
    action->session->had += served;
    if (event->code != GS_OK || !launch->profile)
        return;
    count_blocks(server, action, done);
    if (!launch->had_neighbors && !is_confined && action->resource->ns_per_block)
        action->resource->ns_per_block[launch->run.kernel] = (double)ns / (double)(launch->blocks ? launch->blocks : 1);
    if (!launch->had_neighbors && !is_confined)
        gs_profile_ran(launch->profile, launch->run.is_block_loop, launch->blocks, ns);
    else if (!launch->had_neighbors && !launch->was_resized && done > launch->run.first_block)
        gs_profile_rate(launch->profile, launch->sms, done - launch->run.first_block, ns);
    expect_nothing(stream);
    if (server->contenders.count > 1 && done >= launch->blocks) {
        const gs_profile *profile = launch->profile;
        stream->last = gs_profile_store_get(server->store, profile->key, profile->name, profile->blocks);
        stream->last_how = launch->how;
        stream->last_sms = launch->sms;
        stream->last_mask = launch->mask;
        stream->expected_until_ns = server->now_ns + EXPECT_NS;
    }
}

/* ---- doing it ---- */

/* Who gets SMs of its own. */
struct dealt {
    size_t count;
    gs_stream *streams[GS_PLAN_TOGETHER];
    int32_t wanted[GS_PLAN_TOGETHER];
    gs_mask masks[GS_PLAN_TOGETHER], before[GS_PLAN_TOGETHER];
};

static void deal_to(struct dealt *dealt, gs_stream *stream, int32_t sms) {
    const gs_action *action = gs_stream_launch(stream);
    static const gs_mask nothing;
    if (dealt->count == GS_PLAN_TOGETHER)
        return;
    size_t i = dealt->count++;
    dealt->streams[i] = stream;
    dealt->wanted[i] = sms;
    dealt->before[i] = !action || takes_place(stream, action)             ? stream->last_mask
                       : action->is_issued && !action->launch.is_stopping ? action->launch.mask
                                                                          : nothing;
    dealt->masks[i] = dealt->before[i];
}

static void confine(gs_server *server, gs_action *action, const gs_mask *mask, int32_t sms) {
    gs_action_launch *launch = &action->launch;
    if (memcmp(&launch->mask, mask, sizeof *mask) == 0)
        return;
    launch->mask = *mask;
    launch->was_resized = true;
    launch->is_stopping = sms == 0;
    launch->sms = sms ? sms : launch->sms;
    gs_worker_confine(server->engine, gs_action_tag(action), mask->words);
    server->resizes++;
    action->session->counts.resizes++;
}

static bool is_running_confined(const gs_action *action) {
    return action && action->is_issued && action->launch.run.is_confined && !action->launch.is_stopping;
}

/* How many blocks a worker takes at a time: as many as Slate's default, but so few that each worker takes many tasks,
   and that a task is short: a kernel that shall make room does so after the tasks at hand. */
static uint32_t task_of(const gs_server *server, const gs_action_launch *launch) {
    enum { USUAL = 10, TASKS = 16, TASK_NS = 200000 };
    uint64_t sms = (uint64_t)server->facts.sms, task = launch->blocks / (sms * TASKS);
    double rate = launch->profile ? launch->profile->alone : 0;
    uint64_t short_task = rate > 0 ? (uint64_t)(TASK_NS * rate / (double)sms) : USUAL;
    task = task < short_task ? task : short_task;
    return task > USUAL ? USUAL : task ? (uint32_t)task : 1;
}

static void start(gs_action *action, enum gs_plan_how how, int32_t sms, const gs_mask *mask) {
    gs_action_launch *launch = &action->launch;
    static const gs_mask nothing;
    gs_stream *stream = action->stream;
    const gs_server *server = stream->session->server;
    expect_nothing(stream);
    launch->how = how;
    launch->sms = sms;
    launch->mask = mask ? *mask : nothing;
    launch->was_resized = false;
    launch->had_neighbors = false;
    launch->counted = launch->run.first_block;
    launch->run.task_blocks = task_of(server, launch);
    stream->next = action->next;
    gs_server_start(action);
    gs_server_advance(stream);
}

/* A launch of which some blocks ran must go on confined. */
static bool may_start_whole(const gs_action *action) {
    return action->launch.run.first_block == 0;
}

static void apply_dealt(gs_server *server, struct dealt *dealt) {
    if (gs_plan_masks(server->facts.sms, dealt->count, dealt->wanted, dealt->masks) < 0)
        return;
    /* Those that shrink go first. */
    for (int growing = 0; growing < 2; growing++)
        for (size_t i = 0; i < dealt->count; i++) {
            gs_action *action = gs_stream_launch(dealt->streams[i]);
            bool grows = gs_mask_count(&dealt->masks[i]) > gs_mask_count(&dealt->before[i]);
            if (is_running_confined(action) && grows == growing)
                confine(server, action, &dealt->masks[i], dealt->wanted[i]);
        }
    for (size_t i = 0; i < dealt->count; i++) {
        gs_action *action = gs_stream_launch(dealt->streams[i]);
        if (action && !action->is_issued)
            start(action, GS_PLAN_CONFINED, dealt->wanted[i], &dealt->masks[i]);
        else if (!action)
            dealt->streams[i]->last_mask = dealt->masks[i];
    }
}

/* Those who wait for a turn get it when what runs has ended: nothing follows it then. */
static void count_waiting(gs_server *server, size_t count) {
    server->somebody_waits = false;
    for (size_t i = 0; i < count; i++)
        server->somebody_waits |=
            server->placed.data[i].how == GS_PLAN_WAIT && server->asked.data[i].state == GS_CONTENDER_WAITS;
}

static void apply(gs_server *server, size_t count) {
    struct dealt dealt = {.count = 0};
    static const gs_mask nowhere;
    for (size_t i = 0; i < count; i++) {
        const gs_plan_place *placement = &server->placed.data[i];
        gs_stream *stream = server->contenders.data[i];
        gs_action *action = gs_stream_launch(stream);
        if (!action) { /* what is kept for the next one */
            stream->last_how = placement->how;
            stream->last_sms = placement->sms;
        }
        bool is_confined =
            placement->how == GS_PLAN_CONFINED ||
            (placement->how == GS_PLAN_WHOLE && action && !action->is_issued && !may_start_whole(action)) ||
            (placement->how == GS_PLAN_WHOLE && is_running_confined(action));
        if (is_confined && placement->sms > 0)
            deal_to(&dealt, stream, placement->sms);
        else if (placement->how == GS_PLAN_WAIT && is_running_confined(action))
            confine(server, action, &nowhere, 0);
    }
    apply_dealt(server, &dealt);
    for (size_t i = 0; i < count; i++) {
        gs_action *action = gs_stream_launch(server->contenders.data[i]);
        if (action && !action->is_issued && server->placed.data[i].how == GS_PLAN_WHOLE && may_start_whole(action))
            start(action, GS_PLAN_WHOLE, server->placed.data[i].sms, NULL);
    }
}

/* For tests: some of those that can be confined get random parts of the SMs, the others wait; all change all the time.
 */
static void shuffle(gs_server *server, size_t count) {
    int32_t left = server->facts.sms;
    size_t first = count ? (size_t)gs_random_from(&server->random, 0, (int64_t)count - 1) : 0;
    size_t together = (size_t)gs_random_from(&server->random, 1, 4);
    for (size_t k = 0; k < count; k++) {
        size_t i = (first + k) % count;
        gs_plan_place *placement = &server->placed.data[i];
        const gs_contender *asked = &server->asked.data[i];
        *placement = (gs_plan_place){.how = GS_PLAN_WAIT};
        if (!asked->can_confine) {
            placement->how = GS_PLAN_WHOLE;
        } else if (left > 0 && together > 0 && asked->state != GS_CONTENDER_EXPECTED) {
            placement->how = GS_PLAN_CONFINED;
            placement->sms = (int32_t)gs_random_from(&server->random, 1, left);
            left -= placement->sms;
            together--;
        }
    }
    server->look_at_ns = server->now_ns + server->options.shuffle_ns;
}

/* ---- deciding ---- */

static size_t gather(gs_server *server) {
    for (size_t i = 0; i < server->contenders.count;)
        if (describe(server, server->contenders.data[i], &server->asked.data[i]))
            i++;
        else
            unlist(server, i);
    return server->contenders.count;
}

/* When to look again, though nothing happens. */
static void set_alarm(gs_server *server, const gs_decision *decision, size_t count) {
    uint64_t now = server->now_ns, at = UINT64_MAX;
    if (decision->look_again_ns < INT64_MAX)
        at = now + (uint64_t)(decision->look_again_ns > 0 ? decision->look_again_ns : 0);
    for (size_t i = 0; i < count; i++) {
        uint64_t other = UINT64_MAX;
        if (server->placed.data[i].is_probe || server->placed.data[i].is_trial)
            other = now + LEAST_WINDOW_NS + LEAST_WINDOW_NS / 4;
        else if (server->asked.data[i].state == GS_CONTENDER_EXPECTED)
            other = server->contenders.data[i]->expected_until_ns;
        at = other < at ? other : at;
    }
    server->look_at_ns = at;
}

/* A driver that loads a module waits until no kernel runs, however long that takes: so all make room for it. */
static void stop_all(gs_server *server, size_t count) {
    for (size_t i = 0; i < count; i++)
        server->placed.data[i] = (gs_plan_place){.how = GS_PLAN_WAIT};
    if (server->window.count)
        close_window(server);
    apply(server, count);
}

void gs_schedule_decide(gs_server *server) {
    size_t count = gather(server);
    server->must_decide = false;
    server->somebody_waits = false;
    server->look_at_ns = UINT64_MAX;
    if (count == 0 || server->is_down) {
        if (server->window.count)
            close_window(server);
        return;
    }
    server->decisions++;
    if (server->loading) {
        stop_all(server, count);
        return;
    }
    if (server->options.shuffle_ns) {
        shuffle(server, count);
    } else {
        end_probe(server);
        gs_decision decision =
            gs_plan_decide(&server->plan, server->store, server->asked.data, count, server->placed.data);
        set_alarm(server, &decision, count);
        watch(server, count);
        count_waiting(server, count);
    }
    apply(server, count);
}
