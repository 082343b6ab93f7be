/*
 * ahead.c: which launches are handed over ahead, without a decision, and how many.
 *
 * The GPU must not idle while the daemon looks for the next launch, and sometimes the daemon gets no CPU for some
 * milliseconds. So launches that run whole are handed over ahead. But they cannot be taken back, and every newcomer
 * waits for them, so fewer are handed over if other clients are active, or may become so.
 *
 * A confined launch is not followed by others, because it may be stopped and go on later. A launch that shares all SMs
 * with another kernel (intra-SM) is: without a follower the other kernel would run alone with few workers. The follower
 * is stopped before its launch is stopped or resized, and then waits for a decision.
 *
 * The worker reports the end of each launch, which costs the GPU some microseconds. Launches handed over together may
 * be reported in one batch: a stream with enough launches ahead is filled up again only when a quarter of them is done.
 * A batch of launches of different kinds says nothing about the duration of each. So a kernel without other clients
 * beside it is reported by itself until its duration is known, and now and then after that.
 */
#include "server.h"

enum {
    ALONE_NS = 8000000,      /* total duration of launches handed over ahead: alone, */
    PEERS_NS = 4000000,      /* with others that do the same, */
    BELOW_NS = 2000000,      /* beside a connected client of higher priority, */
    BESIDE_NS = 500000,      /* and, if they are short, with others that do not */
    UNREPORTED_NS = 1000000, /* total duration of launches reported in one batch */
    SAMPLED = 31 /* one launch in this number is measured; a prime, so that it is not always the same one of a
                    program that repeats itself */
};

/* A kernel in a new shape is assumed to take as long per block as in its last shape. */
int64_t gs_launch_expected_ns(const gs_action *action) {
    const gs_action_launch *launch = &action->launch;
    const double *ns_per_block = action->resource->ns_per_block;
    double ns = launch->profile ? gs_profile_mean_ns(launch->profile, launch->blocks) : 0;
    if (ns <= 0 && ns_per_block)
        ns = ns_per_block[launch->request.kernel] * (double)launch->blocks;
    return (int64_t)ns;
}

/* Whether all other contenders run whole, and have the same claim to the GPU. Then all keep their queues filled, and
   the GPU runs them in sequence. */
static bool are_peers_whole(const gs_stream *stream) {
    const gs_contenders *contenders = &stream->session->server->contenders;
    const gs_session_options *mine = &stream->session->options;
    for (size_t i = 0; i < contenders->count; i++) {
        const gs_stream *other = contenders->data[i];
        const gs_session_options *theirs = &other->session->options;
        if (other->confined || theirs->priority != mine->priority || theirs->weight != mine->weight)
            return false;
    }
    return true;
}

static int64_t most_ahead_ns(const gs_stream *stream) {
    const gs_server *server = stream->session->server;
    if (gs_sessions_have_above(server, stream->session->options.priority))
        return BELOW_NS;
    return server->contenders.count <= 1 ? ALONE_NS : PEERS_NS;
}

/* A longer launch can be stopped, so it needs a decision. */
static int64_t most_whole_ns(const gs_stream *stream) {
    const gs_server *server = stream->session->server;
    bool is_below = gs_sessions_have_above(server, stream->session->options.priority);
    return is_below ? server->plan.yield_ns : gs_max(server->plan.yield_ns, server->scheduler.yield_ns);
}

/* With a second launch there is no gap between the two; between long ones a gap does not matter. */
static bool may_add(gs_stream *stream, int64_t ns, int64_t most_ns) {
    int64_t ahead_ns = stream->ahead_ns;
    stream->is_full = ahead_ns + ns >= most_ns || (stream->is_full && ahead_ns > most_ns / 4 * 3);
    return !stream->is_full || (stream->launches < 2 && ahead_ns + ns <= ALONE_NS);
}

static bool is_alike(const gs_action *a, const gs_action *b) {
    return a->launch.profile && a->launch.profile == b->launch.profile && a->launch.blocks == b->launch.blocks;
}

/* Whether both forms of a kernel are launched, to compare them. */
static bool are_forms_compared(const gs_action *action) {
    return gs_profile_is_comparing(action->launch.profile) && gs_contender_can_confine(action);
}

static bool is_known_well(const gs_action *action) {
    return action->launch.profile && gs_profile_is_settled(action->launch.profile) && !are_forms_compared(action);
}

/* Beside others nothing is learned from the time of a launch. Launches of one kernel divide their time equally. To
   measure another one, the launch before it is reported, too. */
static bool may_share_report(const gs_stream *stream, const gs_action *action, const gs_action *next) {
    if (stream->session->server->contenders.count > 1)
        return true;
    if (is_alike(action, next))
        return !are_forms_compared(action);
    return stream->started % SAMPLED > 1 && is_known_well(action) && is_known_well(next);
}

bool gs_launch_defers_report(gs_stream *stream, const gs_action *action) {
    const gs_action *next = action->next;
    int64_t ns = gs_launch_expected_ns(action);
    bool defers = action->launch.how == GS_DECIDE_WHOLE && next && next->command == GS_WIRE_LAUNCH && ns &&
                  stream->unreported_ns + ns < UNREPORTED_NS && may_share_report(stream, action, next);
    stream->unreported_ns = defers ? stream->unreported_ns + ns : 0;
    stream->started++;
    return defers;
}

static bool is_too_far_ahead(const gs_session *session, int64_t ns) {
    int64_t most_ns =
        gs_fair_patience_ns(&session->server->contenders.fairness, &session->fair, session->server->now_ns);
    for (int i = 0; i < GS_CLIENT_STREAMS && most_ns < INT64_MAX; i++)
        ns += session->streams[i].ahead_ns;
    return ns > most_ns;
}

static bool is_to_be_probed(const gs_stream *stream, const gs_action *action) {
    const gs_server *server = stream->session->server;
    return gs_fair_is_alone(&server->contenders.fairness, &stream->session->fair, server->now_ns) &&
           gs_decide_probe(&server->plan, action->launch.profile) && gs_contender_can_confine(action);
}

bool gs_launch_may_follow(gs_stream *stream, const gs_action *action) {
    const gs_server *server = stream->session->server;
    const gs_decide_options *plan = &server->plan;
    const gs_profile *profile = action->launch.profile;
    if (!stream->launches || stream->confined || !profile || server->options.shuffle_ns || server->loads.loading ||
        server->scheduler.somebody_waits || stream->session->waits_for_turn ||
        !gs_mixing_lets_follow(&server->mixing, stream->session->slot))
        return false;
    int64_t ns = gs_launch_expected_ns(action);
    if (!ns || stream->session->options.most_sms || is_too_far_ahead(stream->session, ns))
        return false;
    bool is_alone = server->contenders.count <= 1, is_short = ns < plan->short_ns;
    if (!is_alone && !are_peers_whole(stream))
        return is_short && stream->ahead_ns + ns < BESIDE_NS;
    return ns < most_whole_ns(stream) && may_add(stream, ns, most_ahead_ns(stream)) &&
           !(is_alone && is_to_be_probed(stream, action));
}

bool gs_launch_may_share_next(const gs_stream *stream, const gs_action *action) {
    enum { PAIR = 2 };
    const gs_server *server = stream->session->server;
    const gs_action_launch *before = &stream->confined->launch, *launch = &action->launch;
    return action->command == GS_WIRE_LAUNCH && stream->launches == 1 && before->request.workers &&
           !before->is_stopping && !before->was_resized && launch->profile && launch->profile == before->profile &&
           action->resource == stream->confined->resource && launch->request.first_block == 0 &&
           (server->contenders.count == PAIR || server->options.shuffle_ns) && !server->scheduler.somebody_waits &&
           !stream->session->waits_for_turn && !server->loads.loading;
}
