/*
 * handover.c: actions handed to the worker.
 *
 * Copies, fills and events are handed over as they come, and so are launches that need no decision (ahead.c). A launch
 * that needs one holds up its stream until it has its turn; a confined one also until it has ended, because it may be
 * stopped and go on later.
 */
#include "server.h"

enum { BLOCK_LOOP_TASK = 64 }; /* blocks at a time: nobody waits for such a launch to leave an SM */

/* Whether a launch that runs whole uses the block loop: where that is faster; and, with no other kernel there, now and
   then the other form, to compare them. */
static bool uses_block_loop(const gs_action *action) {
    gs_profile *profile = action->launch.profile;
    bool is_alone = action->session->server->contenders.count <= 1;
    return profile && gs_contender_can_confine(action) &&
           profile->prefers_block_loop != (is_alone && gs_profile_takes_other(profile));
}

/* This is the first launch of a stream, and others run: they have a neighbor now. Later ones find it at their start. */
static void note_neighbors(gs_server *server, const gs_stream *stream) {
    for (size_t i = 0; i < server->contenders.count; i++) {
        const gs_stream *other = server->contenders.data[i];
        for (gs_action *beside = other->head; other != stream && beside && beside->is_issued; beside = beside->next)
            beside->launch.had_neighbors = true;
    }
}

static void set_form(gs_stream *stream, gs_action *action) {
    gs_action_launch *launch = &action->launch;
    launch->request.form = launch->how == GS_PLAN_CONFINED ? GS_LAUNCH_CONFINED
                           : uses_block_loop(action)       ? GS_LAUNCH_BLOCK_LOOP
                                                           : GS_LAUNCH_ORIGINAL;
    if (launch->request.form == GS_LAUNCH_BLOCK_LOOP)
        launch->request.task_blocks = BLOCK_LOOP_TASK;
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
    if (launch->request.form == GS_LAUNCH_CONFINED)
        stream->confined = action;
    launch->expected_ns = gs_launch_expected_ns(action);
    stream->ahead_ns += launch->expected_ns;
    server->launches++;
}

/* ---- copies and fills ---- */

/* Large copies are handed over in pieces, so that nobody waits long for another client's. With others that copy, a
   client has one short piece on its way, else some longer ones, so that there is no gap. Others that copy now and then
   count, too: they wait for their copy before they send the next, and a long piece each time would be most of it. */
enum {
    PIECE_NS = 200000,
    SHARED_PIECE_NS = 40000,
    LEAST_PIECE = 128 << 10,
    MOST_PIECE = 16 << 20,
    PIECES_ALONE = 8,
    RECENT_NS = 20000000
};

static bool has_others(const gs_session *session) {
    const gs_server *server = session->server;
    return server->moving > (session->moving > 0) ||
           (server->mover_changed_ns && server->now_ns - server->mover_changed_ns < RECENT_NS);
}

static uint64_t piece_bytes(const gs_session *session) {
    uint64_t ns = has_others(session) ? SHARED_PIECE_NS : PIECE_NS;
    return gs_max_u64(LEAST_PIECE, gs_min_u64(MOST_PIECE, (uint64_t)(session->server->move_rate * (double)ns)));
}

static bool may_move(const gs_session *session, uint64_t piece) {
    return session->moving < piece * (has_others(session) ? 1 : PIECES_ALONE);
}

static gs_code hand_over_piece(const gs_action *action, uint64_t bytes) {
    gs_worker *worker = action->session->server->worker;
    uint64_t tag = gs_action_tag(action), at = action->at + action->sent, region_at = action->region_at + action->sent;
    uint32_t queue = action->stream->queue;
    if (action->command == GS_WIRE_FILL)
        return gs_worker_fill(worker, tag, queue, action->resource->handle, at, bytes, action->value);
    return gs_worker_copy(worker, tag, queue, action->command == GS_WIRE_COPY_IN, action->resource->handle, at,
                          action->region->handle, region_at, bytes);
}

static void note_mover(const gs_session *session) {
    gs_server *server = session->server;
    if (server->mover && server->mover != session->slot)
        server->mover_changed_ns = server->now_ns;
    server->mover = session->slot;
}

/* False: a part of it must wait. */
static bool hand_over(gs_action *action) {
    gs_session *session = action->session;
    action->is_issued = true;
    if (!action->piece)
        action->piece = piece_bytes(session);
    while (action->sent < action->bytes && may_move(session, action->piece)) {
        uint64_t bytes = gs_min_u64(action->piece, action->bytes - action->sent);
        if (hand_over_piece(action, bytes) != GS_OK) {
            gs_page_error(action->stream, GS_CLIENT_SYSTEM, gs_no_memory);
            action->bytes = action->sent; /* the rest does not happen */
            action->is_done = action->moved == action->sent;
            break;
        }
        note_mover(session);
        session->server->moving += !session->moving;
        session->moving += bytes;
        action->sent += bytes;
    }
    return action->sent == action->bytes;
}

static bool is_transfer(const gs_action *action) {
    return action->command == GS_WIRE_COPY_IN || action->command == GS_WIRE_COPY_OUT || action->command == GS_WIRE_FILL;
}

/* A launch that must wait for a decision, once it is its stream's turn. */
static void request_decision(gs_stream *stream, gs_action *action) {
    gs_server *server = stream->session->server;
    if (stream->launches)
        return;
    if (!action->launch.waits_since)
        action->launch.waits_since = server->now_ns;
    gs_contenders_add(stream);
    server->scheduler.must_decide = true;
}

void gs_stream_advance(gs_stream *stream) {
    gs_action *action;
    while ((action = stream->next) && !stream->confined) {
        if (action->command == GS_WIRE_LAUNCH && !gs_launch_may_follow(stream, action)) {
            request_decision(stream, action);
            break;
        }
        if (is_transfer(action) && !hand_over(action))
            break;
        stream->next = action->next;
        action->is_issued = true;
        if (action->command == GS_WIRE_LAUNCH) {
            action->launch.how = GS_PLAN_WHOLE;
            action->launch.sms = gs_stream_launch(stream)->launch.sms; /* what was left for the one before it */
            gs_launch_start(action);
        }
    }
    gs_stream_settle(stream);
}

static void learn_rate(gs_server *server, uint64_t bytes, const gs_worker_report *report) {
    if (bytes >= LEAST_PIECE && report->ended_ns > report->began_ns)
        server->move_rate += ((double)bytes / (double)(report->ended_ns - report->began_ns) - server->move_rate) / 8;
}

void gs_transfer_moved(gs_action *action, const gs_worker_report *report) {
    gs_session *session = action->session;
    uint64_t bytes = gs_min_u64(action->piece, action->sent - action->moved);
    learn_rate(session->server, bytes, report);
    action->moved += bytes;
    action->is_done = action->moved == action->sent && (action->sent == action->bytes || session->end_code);
    session->counts.copied_bytes += bytes;
    session->moving -= bytes;
    session->server->moving -= bytes && !session->moving;
    for (int i = 0; i < GS_CLIENT_STREAMS; i++) {
        gs_stream *stream = &session->streams[i];
        if (stream != action->stream && stream->next && is_transfer(stream->next))
            gs_stream_advance(stream);
    }
}
