/*
 * scheduler.c: which launches run now, and on which SMs: src/sharing/decide decides, this file queries it and applies
 * the decision.
 *
 * A decision is made when a launch arrives that cannot simply follow the one before it (ahead.c), when one ends, and
 * when the last decision asks for another one. Applying it gives new masks to running launches, an empty mask to those
 * that must stop, and starts waiting ones.
 */
#include "server.h"

/* ---- who gets its own SMs ---- */

struct deal {
    size_t count;
    gs_stream *streams[GS_DECIDE_TOGETHER];
    int32_t wanted[GS_DECIDE_TOGETHER];
    gs_mask masks[GS_DECIDE_TOGETHER], before[GS_DECIDE_TOGETHER];
};

static gs_mask mask_of(const gs_action_launch *launch) {
    gs_mask mask;
    memcpy(mask.words, launch->request.mask, sizeof mask.words);
    return mask;
}

/* The SMs that a stream has, or that are reserved for it. */
static gs_mask current_mask(const gs_stream *stream) {
    static const gs_mask nothing;
    const gs_action *action = gs_stream_contender(stream);
    if (!action || gs_contender_takes_place(stream, action))
        return stream->kept.mask;
    return action->is_issued && !action->launch.is_stopping ? mask_of(&action->launch) : nothing;
}

static void deal_to(struct deal *deal, gs_stream *stream, int32_t sms) {
    if (deal->count == GS_DECIDE_TOGETHER)
        return;
    size_t i = deal->count++;
    deal->streams[i] = stream;
    deal->wanted[i] = sms;
    deal->before[i] = deal->masks[i] = current_mask(stream);
}

/* ---- applying a decision ---- */

static void confine_launch(gs_server *server, gs_action *action, const gs_mask *mask, int32_t sms) {
    gs_action_launch *launch = &action->launch;
    if (memcmp(launch->request.mask, mask->words, sizeof mask->words) == 0)
        return;
    gs_stream_stop_follower(action->stream);
    memcpy(launch->request.mask, mask->words, sizeof mask->words);
    launch->was_resized = true;
    launch->is_stopping = sms == 0;
    launch->served = gs_launch_served(launch, action->stream->running_since, server->now_ns);
    launch->served_ns = server->now_ns;
    launch->sms = sms ? sms : launch->sms;
    gs_worker_confine(server->worker, gs_action_tag(action), mask->words);
    server->resizes++;
    action->session->counts.resizes++;
}

static bool is_running_confined(const gs_action *action) {
    return action && action->is_issued && action->launch.request.form == GS_LAUNCH_CONFINED &&
           !action->launch.is_stopping;
}

/* How many blocks of the grid a resident block takes at a time (a task): Slate's default, but fewer if each would take
   few tasks or a task would be long, because a kernel leaves an SM only after its current task. */
static uint32_t task_of(const gs_server *server, const gs_action_launch *launch) {
    enum { USUAL = 10, TASKS = 16, TASK_NS = 200000 };
    uint64_t sms = (uint64_t)server->facts.sms, task = launch->blocks / (sms * TASKS);
    double rate = launch->profile ? launch->profile->alone : 0;
    uint64_t short_task = rate > 0 ? (uint64_t)(TASK_NS * rate / (double)sms) : USUAL;
    task = gs_min_u64(task, short_task);
    return task > USUAL ? USUAL : task ? (uint32_t)task : 1;
}

static void start_action(gs_action *action, enum gs_decide_how how, int32_t sms, const gs_mask *mask) {
    gs_action_launch *launch = &action->launch;
    gs_stream *stream = action->stream;
    gs_stream_forget_kept(stream);
    launch->how = how;
    launch->sms = sms;
    launch->was_resized = launch->had_neighbors = false;
    launch->served = launch->served_ns = 0;
    launch->counted = launch->request.first_block;
    launch->request.task_blocks = task_of(stream->session->server, launch);
    if (mask)
        memcpy(launch->request.mask, mask->words, sizeof launch->request.mask);
    else
        memset(launch->request.mask, 0, sizeof launch->request.mask);
    stream->next = action->next;
    gs_launch_start(action);
    gs_stream_advance(stream);
}

/* Launches that shrink are changed first, so that no SM has two. */
static void apply_deal(gs_server *server, struct deal *deal) {
    if (gs_decide_masks(server->facts.sms, deal->count, deal->wanted, deal->masks) < 0)
        return;
    for (int growing = 0; growing < 2; growing++)
        for (size_t i = 0; i < deal->count; i++) {
            gs_action *action = gs_stream_contender(deal->streams[i]);
            bool grows = gs_mask_count(&deal->masks[i]) > gs_mask_count(&deal->before[i]);
            if (is_running_confined(action) && grows == growing)
                confine_launch(server, action, &deal->masks[i], deal->wanted[i]);
        }
    for (size_t i = 0; i < deal->count; i++) {
        gs_action *action = gs_stream_contender(deal->streams[i]);
        if (action && !action->is_issued)
            start_action(action, GS_DECIDE_CONFINED, deal->wanted[i], &deal->masks[i]);
        else if (!action)
            deal->streams[i]->kept.mask = deal->masks[i];
    }
}

/* A launch that has run some of its blocks must continue confined. */
static bool may_start_whole(const gs_action *action) {
    return action->launch.request.first_block == 0;
}

/* Whether a contender gets its own SMs. One that is to run whole does if it is already confined. */
static bool gets_mask(const gs_decided_place *place, const gs_action *action) {
    if (place->workers > 0)
        return false;
    bool is_bound = action && ((!action->is_issued && !may_start_whole(action)) || is_running_confined(action));
    return place->sms > 0 && (place->how == GS_DECIDE_CONFINED || (place->how == GS_DECIDE_WHOLE && is_bound));
}

/* Starts or resizes a contender that shares all SMs with another (intra-SM). */
static void share_sms(gs_server *server, gs_stream *stream, const gs_decided_place *place) {
    gs_action *action = gs_stream_contender(stream);
    gs_mask all = gs_mask_all(server->facts.sms);
    if (!action)
        stream->kept.mask = all;
    else if (!action->is_issued) {
        server->inside_launches++;
        start_action(action, GS_DECIDE_CONFINED, place->sms, &all);
    } else if (is_running_confined(action))
        confine_launch(server, action, &all, place->sms);
}

static void start_wholes(const gs_contenders *contenders, size_t count, int32_t turn) {
    for (size_t i = 0; i < count; i++) {
        gs_action *action = gs_stream_contender(contenders->data[i]);
        const gs_decided_place *place = &contenders->places[i];
        if (action && !action->is_issued && place->how == GS_DECIDE_WHOLE && place->turn == turn &&
            may_start_whole(action))
            start_action(action, GS_DECIDE_WHOLE, place->sms, NULL);
    }
}

static void apply_placements(gs_server *server, size_t count) {
    static const gs_mask nowhere;
    const gs_contenders *contenders = &server->contenders;
    struct deal deal = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        const gs_decided_place *place = &contenders->places[i];
        gs_stream *stream = contenders->data[i];
        gs_action *action = gs_stream_contender(stream);
        if (!action) { /* reserved for the next launch */
            stream->kept.how = place->how;
            stream->kept.sms = place->sms;
        }
        if (action && !action->is_issued)
            action->launch.request.workers = (uint32_t)place->workers;
        if (gets_mask(place, action))
            deal_to(&deal, stream, place->sms);
        else if (place->how == GS_DECIDE_WAIT && is_running_confined(action))
            confine_launch(server, action, &nowhere, 0);
    }
    apply_deal(server, &deal);
    for (size_t i = 0; i < count; i++)
        if (contenders->places[i].workers > 0)
            share_sms(server, contenders->data[i], &contenders->places[i]);
    for (int32_t turn = 0; turn < GS_DECIDE_TOGETHER; turn++)
        start_wholes(contenders, count, turn);
}

/* ---- deciding ---- */

/* For tests: some launches that can be confined get random parts of the SMs, or share all of them, and the others wait;
   the choice changes all the time. */
static void place_at_random(gs_server *server, size_t count) {
    gs_scheduler *scheduler = &server->scheduler;
    int32_t left = server->facts.sms;
    size_t first = count ? (size_t)gs_random_from(&scheduler->random, 0, (int64_t)count - 1) : 0;
    size_t together = (size_t)gs_random_from(&scheduler->random, 1, 4);
    bool is_intra_sm = gs_random_from(&scheduler->random, 0, 2) == 0;
    for (size_t k = 0; k < count; k++) {
        size_t i = (first + k) % count;
        gs_decided_place *place = &server->contenders.places[i];
        const gs_contender *query = &server->contenders.queries[i];
        *place = (gs_decided_place){.how = GS_DECIDE_WAIT};
        if (!query->can_confine) {
            place->how = GS_DECIDE_WHOLE;
        } else if (left > 0 && together > 0 && query->state != GS_CONTENDER_EXPECTED) {
            place->how = GS_DECIDE_CONFINED;
            place->sms = is_intra_sm ? left : (int32_t)gs_random_from(&scheduler->random, 1, left);
            place->workers = is_intra_sm ? (int32_t)together : 0;
            left -= is_intra_sm ? 0 : place->sms;
            together--;
        }
    }
    scheduler->look_at_ns = server->now_ns + server->options.shuffle_ns;
}

/* Whether a client waits for others of the same or a higher priority to catch up with it. */
static bool waits_rightly(const gs_contenders *contenders, size_t count, size_t waiting) {
    for (size_t i = 0; i < count; i++)
        if (contenders->queries[i].priority < contenders->queries[waiting].priority)
            return false;
    return gs_contenders_is_ahead(contenders->data[waiting]->session);
}

/* Launches that wait for a time slice get it when the running ones have ended, so nothing may follow those. If their
   client has a time slice in another stream, nothing of that client may follow. */
static void note_waiting(gs_server *server, size_t count) {
    const gs_contenders *contenders = &server->contenders;
    gs_fair_note_turns(contenders->queries, contenders->places, count, server->now_ns);
    for (size_t i = 0; i < count; i++)
        contenders->data[i]->session->waits_for_turn = false;
    for (size_t i = 0; i < count; i++) {
        gs_session *session = contenders->data[i]->session;
        if (contenders->places[i].how != GS_DECIDE_WAIT || contenders->queries[i].state != GS_CONTENDER_WAITS)
            continue;
        session->waits_for_turn = true;
        if (contenders->places[i].waits_for_turn)
            continue;
        server->scheduler.somebody_waits |= !session->fair.has_slice && !waits_rightly(contenders, count, i);
    }
}

/* When to decide again even if nothing happens. */
static void set_alarm(gs_server *server, const gs_decision *decision, size_t count) {
    const gs_contenders *contenders = &server->contenders;
    uint64_t now = server->now_ns, at = UINT64_MAX;
    if (decision->look_again_ns < INT64_MAX)
        at = now + (uint64_t)gs_max(decision->look_again_ns, 0);
    for (size_t i = 0; i < count; i++) {
        const gs_decided_place *place = &contenders->places[i];
        if (contenders->queries[i].state == GS_CONTENDER_EXPECTED && !place->is_probe && !place->is_trial)
            at = gs_min_u64(at, contenders->data[i]->kept.until_ns);
    }
    server->scheduler.look_at_ns = at;
}

/* ---- measuring ---- */

void gs_schedule_count(gs_action *action, uint64_t done) {
    gs_action_launch *launch = &action->launch;
    uint64_t more = done > launch->counted ? done - launch->counted : 0;
    launch->counted += more;
    gs_window_count(&action->session->server->window, gs_stream_id(action->stream), launch->profile, more);
}

static void count_running(gs_server *server) {
    for (size_t i = 0; i < server->contenders.count; i++) {
        gs_action *action = server->contenders.data[i]->confined;
        if (action)
            gs_schedule_count(action, gs_worker_progress(server->worker, gs_action_tag(action)));
    }
}

void gs_schedule_end_window(gs_server *server) {
    if (server->window.count)
        count_running(server);
    gs_window_close(&server->window, server->profiles, server->now_ns);
}

/* To load a module the driver waits until no kernel runs, without limit. So all launches are stopped for it. */
static void stop_all(gs_server *server, size_t count) {
    for (size_t i = 0; i < count; i++)
        server->contenders.places[i] = (gs_decided_place){.how = GS_DECIDE_WAIT};
    gs_schedule_end_window(server);
    apply_placements(server, count);
}

/* What depends on who is there. A client that may come back soon, and has had less, does not wait long. A kernel that
   could run whole is probed only if its client has had the GPU to itself for a while. */
static gs_decide_options adapted_options(gs_server *server, size_t count) {
    const gs_contenders *contenders = &server->contenders;
    const gs_contender *first = &contenders->queries[0];
    gs_decide_options options = server->plan;
    options.slice_ns = gs_fair_slice_ns(&contenders->fairness);
    gs_decide_adapt(&options, contenders->queries, count);
    if (count == 1) {
        int64_t patience_ns = gs_fair_patience_ns(&contenders->fairness, first->fair, server->now_ns);
        options.yield_ns = gs_max(server->plan.yield_ns, gs_min(options.yield_ns, patience_ns));
        options.probes = gs_fair_is_alone(&contenders->fairness, first->fair, server->now_ns);
    }
    if (gs_sessions_have_above(server, first->priority))
        options.yield_ns = server->plan.yield_ns;
    return options;
}

static void ask_plan(gs_server *server, size_t count) {
    gs_contenders *contenders = &server->contenders;
    gs_decide_options options = adapted_options(server, count);
    if (count > 1) /* one that is alone for a moment has not become another one's equal */
        contenders->fairness.lead_ns = options.lead_ns;
    server->scheduler.yield_ns = options.yield_ns;
    count_running(server);
    gs_window_end_probe(&server->window, server->profiles, server->now_ns);
    gs_decision decision = gs_decide(&options, server->profiles, contenders->queries, count, contenders->places);
    gs_mixing_follow(&server->mixing, &options, contenders->queries, count, contenders->places, server->now_ns);
    set_alarm(server, &decision, count);
    gs_window_follow(&server->window, server->profiles, &options, contenders->queries, contenders->places, count,
                     server->now_ns);
    note_waiting(server, count);
}

void gs_schedule_decide(gs_server *server) {
    gs_scheduler *scheduler = &server->scheduler;
    size_t count = gs_contenders_describe(server);
    scheduler->must_decide = false;
    scheduler->somebody_waits = false;
    scheduler->look_at_ns = UINT64_MAX;
    if (count == 0 || server->is_down) {
        gs_schedule_end_window(server);
        gs_mixing_follow(&server->mixing, &server->plan, NULL, 0, NULL, server->now_ns);
        return;
    }
    scheduler->decisions++;
    if (server->loads.loading) {
        stop_all(server, count);
        return;
    }
    if (server->options.shuffle_ns)
        place_at_random(server, count);
    else
        ask_plan(server, count);
    apply_placements(server, count);
}
