/*
 * handover.c: actions handed to the worker.
 *
 * Copies, fills and events are handed over as they come, and so are launches that need no decision (ahead.c). A launch
 * that needs one blocks its stream until it is started; a confined one until it has ended, because it may be stopped
 * and continued later, or until a similar one can follow (ahead.c).
 */
#include "server.h"

enum { BLOCK_LOOP_TASK = 64 }; /* blocks at a time: such a launch is never asked to leave an SM */

/* Whether a launch that runs whole uses the block loop: if that is faster. If no other kernel runs, the other form is
   sometimes used, to compare them. */
static bool uses_block_loop(const gs_action *action) {
    gs_profile *profile = action->launch.profile;
    bool is_alone = action->session->server->contenders.count <= 1;
    return profile && gs_contender_can_confine(action) &&
           profile->prefers_block_loop != (is_alone && gs_profile_takes_other(profile));
}

/* The first launch of a stream starts beside running launches: they have a neighbor now. Later launches see it when
   they start. */
static void note_neighbors(gs_server *server, const gs_stream *stream) {
    for (size_t i = 0; i < server->contenders.count; i++) {
        const gs_stream *other = server->contenders.data[i];
        for (gs_action *beside = other->head; other != stream && beside && beside->is_issued; beside = beside->next)
            beside->launch.had_neighbors = true;
    }
}

static void set_form(gs_stream *stream, gs_action *action) {
    gs_action_launch *launch = &action->launch;
    launch->request.form = launch->how == GS_DECIDE_CONFINED ? GS_LAUNCH_CONFINED
                           : uses_block_loop(action)         ? GS_LAUNCH_BLOCK_LOOP
                                                             : GS_LAUNCH_ORIGINAL;
    if (launch->request.form == GS_LAUNCH_BLOCK_LOOP)
        launch->request.task_blocks = BLOCK_LOOP_TASK;
    if (launch->request.form != GS_LAUNCH_CONFINED)
        launch->request.workers = 0;
    launch->expected_ns = gs_launch_expected_ns(action);
    launch->request.expected_ns = (uint64_t)launch->expected_ns;
    launch->request.defer_report = gs_launch_defers_report(stream, action);
}

void gs_launch_start(gs_action *action) {
    gs_stream *stream = action->stream;
    gs_server *server = action->session->server;
    gs_action_launch *launch = &action->launch;
    set_form(stream, action);
    gs_code code = gs_worker_start(server->worker, gs_action_tag(action), &launch->request);
    action->is_issued = true;
    if (!launch->waits_since)
        launch->waits_since = server->now_ns;
    if (code != GS_OK) {
        gs_page_error(stream, GS_CLIENT_SYSTEM, gs_code_meaning(code));
        action->is_done = true;
        return;
    }
    if (!stream->launches++) {
        server->running++;
        stream->running_since = server->now_ns;
        gs_contenders_add(stream);
        if (server->running > 1)
            note_neighbors(server, stream);
    }
    launch->had_neighbors |= server->running > 1;
    if (launch->request.form == GS_LAUNCH_CONFINED && !stream->confined)
        stream->confined = action;
    stream->ahead_ns += launch->expected_ns;
    server->launches++;
    server->form_launches[launch->request.form]++;
}

/* A launch at the head of its stream that must wait for a decision. */
static void request_decision(gs_stream *stream, gs_action *action) {
    gs_server *server = stream->session->server;
    if (stream->launches)
        return;
    if (!action->launch.waits_since)
        action->launch.waits_since = server->now_ns;
    gs_contenders_add(stream);
    server->scheduler.must_decide = true;
}

/* Hands over a launch in the form, and on the SMs, of the one before it. */
static void start_follower(gs_stream *stream, gs_action *action) {
    const gs_action_launch *before = &stream->confined->launch;
    gs_action_launch *launch = &action->launch;
    launch->how = before->how;
    launch->sms = before->sms;
    launch->was_resized = launch->had_neighbors = false;
    launch->served = launch->served_ns = 0;
    launch->counted = 0;
    launch->request.workers = before->request.workers;
    launch->request.task_blocks = before->request.task_blocks;
    memcpy(launch->request.mask, before->request.mask, sizeof launch->request.mask);
    stream->session->server->inside_launches++;
    stream->next = action->next;
    gs_launch_start(action);
}

void gs_stream_advance(gs_stream *stream) {
    gs_action *action;
    while (stream->next && stream->next->is_done) /* a follower that failed, behind a launch that was stopped */
        stream->next = stream->next->next;
    if (stream->confined && stream->next && gs_launch_may_share_next(stream, stream->next))
        start_follower(stream, stream->next);
    while ((action = stream->next) && !stream->confined) {
        if (action->command == GS_WIRE_LAUNCH && !gs_launch_may_follow(stream, action)) {
            request_decision(stream, action);
            break;
        }
        if (gs_is_transfer(action) && !gs_transfer_hand_over(action))
            break;
        stream->next = action->next;
        action->is_issued = true;
        if (action->command == GS_WIRE_LAUNCH) {
            action->launch.how = GS_DECIDE_WHOLE;
            action->launch.sms = gs_stream_launch(stream)->launch.sms; /* what the one before it had left */
            gs_launch_start(action);
        }
    }
    gs_stream_settle(stream);
}

/* Hands over what waited for a piece to be moved. */
static void advance_transfers(gs_session *session, const gs_stream *except) {
    for (int i = 0; i < GS_CLIENT_STREAMS; i++) {
        gs_stream *stream = &session->streams[i];
        if (stream != except && stream->next && gs_is_transfer(stream->next))
            gs_stream_advance(stream);
    }
}

void gs_transfer_moved(gs_action *action, const gs_worker_report *report) {
    gs_session *session = action->session;
    const gs_sessions *sessions = &session->server->sessions;
    gs_transfer_count(action, report);
    advance_transfers(session, action->stream);
    for (size_t i = 0; i < sessions->count && session->server->transfers.held; i++) {
        gs_session *other = sessions->data[i];
        if (other && other != session && other->is_held)
            advance_transfers(other, NULL);
    }
}
