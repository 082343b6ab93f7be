/*
 * contenders.c: the streams that take part in decisions, and the query about each of them.
 *
 * Contenders are the streams with a waiting or running launch, one launch each; and, for a short time, those whose last
 * launch has just ended, because another one is expected. A launch of the same kernel that arrives in that time takes
 * the place of the one before it: the decision is told so, and gives it the same SMs.
 */
#include "server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gs_contenders_reserve(gs_server *server) {
    gs_contenders *contenders = &server->contenders;
    size_t wanted = ((size_t)server->sessions.slots.next + 1) * GS_CLIENT_STREAMS;
    if (!GS_RESERVE(contenders, wanted - contenders->count))
        return false;
    if (contenders->capacity == contenders->answer_capacity)
        return true;
    void *queries = realloc(contenders->queries, contenders->capacity * sizeof *contenders->queries);
    contenders->queries = queries ? queries : contenders->queries;
    void *places = realloc(contenders->places, contenders->capacity * sizeof *contenders->places);
    contenders->places = places ? places : contenders->places;
    if (queries && places)
        contenders->answer_capacity = contenders->capacity;
    return queries && places;
}

/* The least service per weight of another client that contends. */
static double least_of_others(const gs_session *session) {
    const gs_contenders *contenders = &session->server->contenders;
    double least = INFINITY;
    for (size_t i = 0; i < contenders->count; i++) {
        const gs_session *other = contenders->data[i]->session;
        if (other != session)
            least = fmin(least, gs_fair_had(&other->fair));
    }
    return least;
}

void gs_contenders_add(gs_stream *stream) {
    gs_contenders *contenders = &stream->session->server->contenders;
    if (stream->is_contender)
        return;
    stream->is_contender = true;
    if (!stream->session->contenders++)
        gs_fair_join(&contenders->fairness, &stream->session->fair, least_of_others(stream->session),
                     stream->session->server->now_ns);
    contenders->data[contenders->count++] = stream;
}

static void remove_at(gs_contenders *contenders, size_t at) {
    gs_stream *stream = contenders->data[at];
    gs_stream_forget_kept(stream);
    stream->is_contender = false;
    if (!--stream->session->contenders)
        gs_fair_leave(&contenders->fairness, &stream->session->fair, stream->session->server->now_ns);
    contenders->data[at] = contenders->data[--contenders->count];
}

void gs_contenders_remove(gs_session *session) {
    gs_contenders *contenders = &session->server->contenders;
    for (size_t i = contenders->count; i-- > 0;)
        if (contenders->data[i]->session == session)
            remove_at(contenders, i);
}

void gs_contenders_close(gs_server *server) {
    gs_contenders *contenders = &server->contenders;
    while (contenders->count)
        remove_at(contenders, contenders->count - 1);
    free(contenders->data);
    free(contenders->queries);
    free(contenders->places);
    *contenders = (gs_contenders){0};
}

bool gs_contender_can_confine(const gs_action *action) {
    const gs_worker_launch *request = &action->launch.request;
    const gs_image_kernel *kernel = &action->resource->image->kernels[request->kernel];
    return kernel->can_be_confined && !gs_ptx_form_misfit(&kernel->form, request->grid, request->block);
}

/* Whether SMs are kept for a stream whose last launch has just ended. */
static bool has_kept_sms(const gs_stream *stream) {
    const gs_session *session = stream->session;
    return stream->kept.profile && session->server->now_ns < stream->kept.until_ns && !session->end_code;
}

bool gs_contender_takes_place(const gs_stream *stream, const gs_action *action) {
    return !action->is_issued && has_kept_sms(stream) && stream->kept.how == GS_DECIDE_CONFINED &&
           stream->kept.profile == action->launch.profile;
}

static void describe_expected(const gs_stream *stream, gs_contender *query) {
    query->running_ns = (int64_t)(stream->session->server->now_ns - stream->session->fair.turn_since_ns);
    query->profile = stream->kept.profile;
    query->state = GS_CONTENDER_EXPECTED;
    query->how = stream->kept.how;
    query->sms = stream->kept.sms;
    query->can_confine = stream->kept.how == GS_DECIDE_CONFINED;
    query->can_share = stream->kept.can_share;
    query->blocks_left = stream->kept.profile->blocks;
}

/* The launches that are known to follow. */
static void look_ahead(const gs_action *action, gs_contender *query) {
    for (int i = 0; i < GS_DECIDE_COMING; i++) {
        action = action->next;
        if (!action || action->command != GS_WIRE_LAUNCH)
            return;
        query->coming[i] = action->launch.profile;
    }
}

uint64_t gs_launch_served(const gs_action_launch *launch, uint64_t began_ns, uint64_t now_ns) {
    uint64_t from_ns = gs_max_u64(began_ns, launch->served_ns);
    return launch->served + (now_ns > from_ns ? now_ns - from_ns : 0) * (uint64_t)gs_max(launch->sms, 0);
}

uint64_t gs_launch_work(const gs_server *server, const gs_action_launch *launch, uint64_t done) {
    uint64_t first = launch->request.form == GS_LAUNCH_CONFINED ? launch->request.first_block : 0;
    double part = done > first ? (double)(done - first) / (double)gs_max_u64(launch->blocks, 1) : 0;
    return (uint64_t)(part * (double)launch->expected_ns) * (uint64_t)server->facts.sms;
}

uint64_t gs_launch_charge(const gs_server *server, const gs_action_launch *launch, uint64_t served, uint64_t work,
                          uint64_t ns) {
    uint64_t all = ns * (uint64_t)server->facts.sms;
    return served < all && launch->expected_ns > 0 ? gs_min_u64(work, all) : served;
}

/* The service of a running launch so far: it is charged when it has ended. One that runs whole is short. */
static uint64_t served_now(const gs_stream *stream, const gs_action *action) {
    const gs_action_launch *launch = &action->launch;
    const gs_server *server = stream->session->server;
    uint64_t served = gs_launch_served(launch, stream->running_since, server->now_ns);
    if (launch->request.form != GS_LAUNCH_CONFINED)
        return 0;
    if (launch->request.workers)
        return gs_min_u64(served, (uint64_t)launch->expected_ns * (uint64_t)launch->sms);
    uint64_t ns = server->now_ns - gs_min_u64(stream->running_since, server->now_ns);
    uint64_t done = gs_launch_work(server, launch, gs_worker_progress(server->worker, gs_action_tag(action)));
    return gs_launch_charge(server, launch, served, done, ns);
}

/* A client that waits for its launches now and then has none behind them for a moment. */
static bool was_filled(const gs_stream *stream) {
    const gs_server *server = stream->session->server;
    return stream->filled_ns && server->now_ns - stream->filled_ns < (uint64_t)server->plan.slice_ns;
}

static void describe_launch(const gs_stream *stream, const gs_action *action, gs_contender *query) {
    const gs_action_launch *launch = &action->launch;
    uint64_t now = stream->session->server->now_ns;
    bool is_running = action->is_issued && !launch->is_stopping, has_place = gs_contender_takes_place(stream, action);
    query->profile = launch->profile;
    query->state = is_running ? GS_CONTENDER_RUNS : GS_CONTENDER_WAITS;
    query->arrival = launch->arrival;
    query->blocks_left = launch->blocks - launch->request.first_block;
    query->can_confine = query->can_share = gs_contender_can_confine(action);
    query->waited_ns = (int64_t)(now - launch->waits_since);
    query->running_ns = is_running ? (int64_t)(now - stream->session->fair.turn_since_ns) : 0;
    query->how = is_running ? launch->how : has_place ? GS_DECIDE_CONFINED : GS_DECIDE_WAIT;
    query->sms = is_running ? launch->sms : has_place ? stream->kept.sms : 0;
    query->workers = is_running ? (int32_t)launch->request.workers : 0;
    query->served += is_running ? served_now(stream, action) : 0;
    query->ahead_ns = stream->ahead_ns;
    look_ahead(action, query);
}

/* False: the stream has nothing to contend for. */
static bool describe_contender(const gs_server *server, const gs_stream *stream, gs_contender *query) {
    gs_session *session = stream->session;
    const gs_action *action = gs_stream_contender(stream);
    *query = (gs_contender){.client = session->slot,
                            .fair = &session->fair,
                            .lets_pass = session->fair.lets_pass,
                            .was_filled = was_filled(stream),
                            .stream = gs_stream_id(stream),
                            .priority = session->options.priority,
                            .weight = session->options.weight,
                            .cap = (int32_t)gs_min(session->options.most_sms, server->facts.sms),
                            .served = session->fair.had};
    if (action)
        describe_launch(stream, action, query);
    else if (has_kept_sms(stream))
        describe_expected(stream, query);
    else
        return false;
    return true;
}

bool gs_contenders_is_ahead(const gs_session *session) {
    const gs_server *server = session->server;
    return gs_fair_is_ahead(&server->contenders.fairness, &session->fair, server->now_ns);
}

/* Inserts a waiting stream among those of its client that have waited longest. */
static void note_earliest(gs_session *session, const gs_stream *stream) {
    for (size_t i = 0; i < GS_COUNT(session->earliest) && stream; i++) {
        const gs_stream *other = session->earliest[i];
        if (other && gs_stream_launch(other)->launch.arrival <= gs_stream_launch(stream)->launch.arrival)
            continue;
        session->earliest[i] = stream;
        stream = other;
    }
}

/* What each client has on the device, and which of its launches came first. */
static void look_at_sessions(gs_contenders *contenders) {
    gs_fairness *fairness = &contenders->fairness;
    fairness->least_had = INFINITY;
    fairness->present = 0;
    for (size_t i = 0; i < contenders->count; i++) {
        gs_session *session = contenders->data[i]->session;
        session->running = 0;
        session->is_present = false;
        memset(session->earliest, 0, sizeof session->earliest);
        fairness->least_had = fmin(fairness->least_had, gs_fair_had(&session->fair));
    }
    for (size_t i = 0; i < contenders->count; i++) {
        gs_stream *stream = contenders->data[i];
        const gs_action *action = gs_stream_contender(stream);
        gs_session *session = stream->session;
        if (action && action->next && action->next->command == GS_WIRE_LAUNCH)
            stream->filled_ns = session->server->now_ns;
        session->running += action && action->is_issued;
        fairness->present += action && !session->is_present;
        session->is_present |= action != NULL;
        if (action && !action->is_issued)
            note_earliest(session, stream);
        gs_fair_note_lead(fairness, &session->fair);
    }
}

/* The oldest waiting launches of each client take part: decisions among many take long, and more could not run together
   anyway. A client that is ahead of others takes part with one launch, if none of its launches runs. */
static bool takes_part(const gs_stream *stream) {
    const gs_session *session = stream->session;
    const gs_action *action = gs_stream_contender(stream);
    if (!action || action->is_issued)
        return true;
    if (gs_contenders_is_ahead(session))
        return !session->running && session->earliest[0] == stream;
    for (size_t i = 0; i < GS_COUNT(session->earliest); i++)
        if (session->earliest[i] == stream)
            return true;
    return false;
}

size_t gs_contenders_describe(gs_server *server) {
    gs_contenders *contenders = &server->contenders;
    size_t count = 0;
    look_at_sessions(contenders);
    for (size_t i = 0; i < contenders->count;) {
        gs_stream *stream = contenders->data[i];
        gs_contender query;
        if (!describe_contender(server, stream, &query)) {
            remove_at(contenders, i);
            continue;
        }
        if (takes_part(stream)) {
            contenders->data[i] = contenders->data[count];
            contenders->data[count] = stream;
            contenders->queries[count++] = query;
        }
        i++;
    }
    return count;
}
