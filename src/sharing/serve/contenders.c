/*
 * contenders.c: the streams that take part in decisions, and the query about each of them.
 *
 * Contenders are the streams with a waiting or running launch, one launch each; and, for a short time, those whose last
 * launch has just ended, because another one is expected. A launch of the same kernel that arrives in that time takes
 * the place of the one before it: the decision is told so, and gives it the same SMs.
 *
 * The client that has been served least goes first. A new client starts with the account of a client that was always
 * there and got its share. So clients that connect, launch and leave repeatedly gain nothing over one that stays.
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

enum {
    ABSENT_NS = 100000000, /* a client that was away for longer counts as new */
    MOST_BEHIND = 4,       /* time slices that a client may have to catch up */
    PATIENCE = 8,          /* a returning client waits about 1/8 of its absence at most, */
    GAP_NS = 50000         /* or this long: with less work on the device there would be gaps between launches */
};

/* A time slice of a client, divided by its weight. */
static double turn_of(const gs_session *session) {
    const gs_server *server = session->server;
    return (double)server->plan.slice_ns * server->facts.sms / session->options.weight;
}

static double had_for_weight(const gs_session *session) {
    return (double)session->had / session->options.weight;
}

int64_t gs_contenders_slice_ns(const gs_server *server) {
    enum { USUAL = 4, MANY = 40 }; /* clients: a slice is from 10 ms to 1 ms */
    int64_t clients = gs_max(USUAL, gs_min((int64_t)server->contenders.present, MANY));
    return server->plan.slice_ns * USUAL / clients;
}

/* The account of a new client: its share, limited so that it waits at most until each other client had one time slice.
 */
static double fair_for(const gs_session *session) {
    const gs_server *server = session->server;
    double least = INFINITY;
    for (size_t i = 0; i < server->contenders.count; i++) {
        const gs_session *other = server->contenders.data[i]->session;
        if (other != session)
            least = fmin(least, had_for_weight(other));
    }
    double turn = (double)gs_contenders_slice_ns(server) * server->facts.sms / session->options.weight;
    return fmin(server->contenders.share, least + turn);
}

/* A new or returning client has no more to catch up than others. One that was away briefly, between two launches, keeps
   its account, down to some time slices below its share. If it could be further behind, new clients would start as far
   behind as it is, and would keep out those that had their share. */
static void join_contenders(gs_session *session) {
    gs_contenders *contenders = &session->server->contenders;
    if (session->contenders++)
        return;
    bool was_there = session->left_ns && session->server->now_ns - session->left_ns < ABSENT_NS;
    double fair = was_there ? contenders->share - MOST_BEHIND * turn_of(session) : fair_for(session);
    contenders->sessions++;
    contenders->weight += session->options.weight;
    session->had = gs_max_u64(session->had, fair > 0 ? (uint64_t)(fair * session->options.weight) : 0);
}

void gs_contenders_count(gs_session *session, uint64_t served) {
    gs_contenders *contenders = &session->server->contenders;
    session->had += served;
    contenders->share += (double)served / (double)gs_max_u64(contenders->weight, session->options.weight);
}

void gs_contenders_add(gs_stream *stream) {
    gs_contenders *contenders = &stream->session->server->contenders;
    if (stream->is_contender)
        return;
    stream->is_contender = true;
    join_contenders(stream->session);
    contenders->data[contenders->count++] = stream;
}

/* It is remembered for a while, because it may come back. */
static void leave_contenders(gs_contenders *contenders, gs_session *session) {
    session->left_ns = session->server->now_ns;
    session->has_slice = false;
    contenders->weight -= session->options.weight;
    if (!--contenders->sessions)
        return;
    contenders->left_ns = session->left_ns;
    contenders->left_had = had_for_weight(session);
}

static void remove_at(gs_contenders *contenders, size_t at) {
    gs_stream *stream = contenders->data[at];
    gs_stream_forget_kept(stream);
    stream->is_contender = false;
    if (!--stream->session->contenders)
        leave_contenders(contenders, stream->session);
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
    query->running_ns = (int64_t)(stream->session->server->now_ns - stream->session->turn_since);
    query->profile = stream->kept.profile;
    query->state = GS_CONTENDER_EXPECTED;
    query->how = stream->kept.how;
    query->sms = stream->kept.sms;
    query->can_confine = stream->kept.how == GS_DECIDE_CONFINED;
    query->can_share = stream->kept.can_share;
    query->blocks_left = stream->kept.profile->blocks;
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
    query->running_ns = is_running ? (int64_t)(now - stream->session->turn_since) : 0;
    query->how = is_running ? launch->how : has_place ? GS_DECIDE_CONFINED : GS_DECIDE_WAIT;
    query->sms = is_running ? launch->sms : has_place ? stream->kept.sms : 0;
    query->workers = is_running ? (int32_t)launch->request.workers : 0;
}

/* False: the stream has nothing to contend for. */
static bool describe_contender(const gs_server *server, const gs_stream *stream, gs_contender *query) {
    const gs_session *session = stream->session;
    const gs_action *action = gs_stream_contender(stream);
    *query = (gs_contender){.client = session->slot,
                            .priority = session->options.priority,
                            .weight = session->options.weight,
                            .cap = (int32_t)gs_min(session->options.most_sms, server->facts.sms),
                            .served = session->had};
    if (action)
        describe_launch(stream, action, query);
    else if (has_kept_sms(stream))
        describe_expected(stream, query);
    else
        return false;
    return true;
}

/* ---- clients that have had more than others ---- */

/* Whether a client that has left may come back soon. */
static bool is_missed(const gs_server *server) {
    return server->contenders.left_ns && server->now_ns - server->contenders.left_ns < ABSENT_NS;
}

bool gs_contenders_is_ahead(const gs_session *session) {
    const gs_server *server = session->server;
    const gs_contenders *contenders = &server->contenders;
    double had = had_for_weight(session) - turn_of(session);
    return (contenders->sessions > 1 && had > contenders->least_had) ||
           (is_missed(server) && had > contenders->left_had);
}

int64_t gs_contenders_patience_ns(const gs_session *session) {
    const gs_server *server = session->server;
    const gs_contenders *contenders = &server->contenders;
    if (!gs_contenders_is_ahead(session))
        return INT64_MAX;
    if (contenders->present > 1)
        return 0;
    return contenders->sessions > 1 ? GAP_NS
                                    : gs_max(GAP_NS, (int64_t)(server->now_ns - contenders->left_ns) / PATIENCE);
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
    contenders->least_had = INFINITY;
    contenders->present = 0;
    for (size_t i = 0; i < contenders->count; i++) {
        gs_session *session = contenders->data[i]->session;
        session->running = 0;
        session->is_present = false;
        memset(session->earliest, 0, sizeof session->earliest);
        contenders->least_had = fmin(contenders->least_had, had_for_weight(session));
    }
    for (size_t i = 0; i < contenders->count; i++) {
        const gs_stream *stream = contenders->data[i];
        const gs_action *action = gs_stream_contender(stream);
        gs_session *session = stream->session;
        session->running += action && action->is_issued;
        contenders->present += action && !session->is_present;
        session->is_present |= action != NULL;
        if (action && !action->is_issued)
            note_earliest(session, stream);
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
