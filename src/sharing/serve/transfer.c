/*
 * transfer.c: copies and fills: how they are divided into pieces for the worker, and which client's piece is next.
 *
 * The worker moves pieces in the order in which it gets them, and none can be taken back. So the bytes that a client
 * has in flight are limited, and the order is decided here.
 *
 * Each client has an account of the bytes moved for it, divided by its weight. While others have something to move, a
 * client that is ahead of one of them by more than a piece waits, and one that is behind may have as much in flight as
 * it is behind. So a client that copies, waits, and computes briefly gets its share beside one that never pauses. A
 * client that was away briefly can catch up what others had in the meantime, up to a limit. A new client, or one that
 * was away for longer, has nothing to catch up.
 *
 * While no other client has something to move, the bytes that a client has in flight take at most an eighth of the time
 * since another client moved something, or are one small piece. So a client that returns after a pause waits at most an
 * eighth of the pause, and one that copies, waits and copies again does not meet a long piece of another client each
 * time.
 */
#include "server.h"

#include <math.h>

enum {
    SHARED_PIECE_NS = 40000, /* approximate duration of a piece while others move something; */
    RETURN_PIECE_NS = 15000, /* while only one does, but another may return soon; */
    PIECE_NS = 200000,       /* and if a client is alone, */
    PIECES_ALONE = 8,        /* with this many in flight, so that there is no gap */
    LEAST_PIECE = 128 << 10,
    MOST_PIECE = 16 << 20,
    PIECE_COST = 16 << 10, /* overhead of a piece, in bytes */
    PATIENCE = 8,          /* a returning client waits at most 1/8 of its pause */
    ABSENT_NS = 100000000, /* a client that was away for longer has nothing to catch up, */
    CATCH_UP_NS = 10000000 /* others this much */
};

static uint64_t bytes_in(const gs_server *server, uint64_t ns) {
    return (uint64_t)(server->transfers.rate * (double)ns);
}

/* ---- accounts ---- */

static bool wants_to_move(const gs_session *session) {
    return session->moving || (session->is_held && !session->end_code);
}

/* The least account among the other clients with something to move. INFINITY: there is none. */
static double least_moved(const gs_session *session) {
    const gs_sessions *sessions = &session->server->sessions;
    const gs_transfers *transfers = &session->server->transfers;
    double least = INFINITY;
    if (transfers->moving + transfers->held <= (uint32_t)(session->moving > 0) + session->is_held)
        return least;
    for (size_t i = 0; i < sessions->count; i++) {
        const gs_session *other = sessions->data[i];
        if (other && other != session && wants_to_move(other))
            least = fmin(least, other->moved);
    }
    return least;
}

/* A new or returning client starts with the largest account: it has nothing to catch up. An active client, or one that
   was recently, can catch up as many bytes as take CATCH_UP_NS at the current rate. The rate varies: copies are ten
   times slower when pages are touched for the first time. So it is computed for each piece. */
static void limit_catch_up(gs_session *session) {
    const gs_server *server = session->server;
    bool is_there = wants_to_move(session) || (session->moved_ns && server->now_ns - session->moved_ns < ABSENT_NS);
    double behind = is_there ? (double)bytes_in(server, CATCH_UP_NS) / session->options.weight : 0;
    session->moved = fmax(session->moved, server->transfers.most_moved - behind);
}

static void hold_commands(gs_session *session, bool is_held) {
    session->server->transfers.held += (uint32_t)is_held - session->is_held;
    session->is_held = is_held;
}

/* ---- how much ---- */

/* A part of the time since another client moved something. */
static uint64_t patience_ns(const gs_session *session) {
    const gs_transfers *transfers = &session->server->transfers;
    uint64_t since = transfers->mover == session->slot ? transfers->other_ns : transfers->mover_ns;
    return (session->server->now_ns - since) / PATIENCE;
}

static uint64_t piece_bytes(const gs_session *session, double least) {
    uint64_t ns =
        isfinite(least) ? SHARED_PIECE_NS : gs_max_u64(RETURN_PIECE_NS, gs_min_u64(PIECE_NS, patience_ns(session)));
    return gs_max_u64(LEAST_PIECE, gs_min_u64(MOST_PIECE, bytes_in(session->server, ns)));
}

/* Bytes that may be in flight. */
static uint64_t most_moving(const gs_session *session, double least, uint64_t piece) {
    uint64_t most = PIECES_ALONE * gs_max_u64(piece, bytes_in(session->server, PIECE_NS));
    double behind = (least - session->moved) * session->options.weight;
    if (!isfinite(least))
        return gs_max_u64(piece, gs_min_u64(most, bytes_in(session->server, patience_ns(session))));
    if (behind < -(double)piece)
        return 0;
    return behind > (double)piece ? (uint64_t)fmin(behind, (double)most) : piece;
}

/* One piece at least, if any. */
static bool may_have(const gs_session *session, uint64_t bytes, uint64_t most) {
    return session->moving ? session->moving + bytes <= most : most > 0;
}

/* ---- pieces ---- */

/* The piece size changes during a copy, as other clients come and go. Pieces in flight have at most two sizes, so that
   each report can be assigned: those before `changed_at` have the old size. */
static void choose_piece(gs_action *action, double least) {
    uint64_t piece = piece_bytes(action->session, least);
    if (action->moved < action->changed_at || piece == action->piece)
        return;
    action->piece_before = action->piece;
    action->piece = piece;
    action->changed_at = action->sent;
}

/* Size of the piece that is reported next. */
static uint64_t first_piece(const gs_action *action) {
    uint64_t piece = action->moved < action->changed_at ? action->piece_before : action->piece;
    return gs_min_u64(piece, action->sent - action->moved);
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

static void note_mover(gs_transfers *transfers, uint32_t slot, uint64_t now_ns) {
    if (transfers->mover != slot)
        transfers->other_ns = transfers->mover_ns;
    transfers->mover = slot;
    transfers->mover_ns = now_ns;
}

static void count_piece(gs_session *session, uint64_t bytes) {
    gs_transfers *transfers = &session->server->transfers;
    note_mover(transfers, session->slot, session->server->now_ns);
    hold_commands(session, false);
    transfers->moving += !session->moving;
    transfers->most_moved = fmax(transfers->most_moved, session->moved);
    session->moving += bytes + PIECE_COST;
    session->moved += (double)(bytes + PIECE_COST) / session->options.weight;
}

bool gs_transfer_hand_over(gs_action *action) {
    gs_session *session = action->session;
    double least = least_moved(session);
    action->is_issued = true;
    limit_catch_up(session);
    choose_piece(action, least);
    while (action->sent < action->bytes) {
        uint64_t bytes = gs_min_u64(action->piece, action->bytes - action->sent);
        if (!may_have(session, bytes, most_moving(session, least, action->piece))) {
            hold_commands(session, true);
            return false;
        }
        if (hand_over_piece(action, bytes) != GS_OK) {
            gs_page_error(action->stream, GS_CLIENT_SYSTEM, gs_no_memory);
            action->bytes = action->sent; /* the rest is dropped */
            action->is_done = action->moved == action->sent;
            break;
        }
        action->sent += bytes;
        count_piece(session, bytes);
    }
    return true;
}

/* ---- reports ---- */

/* Pieces of several clients follow each other: time spent waiting for others is not charged. */
static void learn_rate(gs_transfers *transfers, uint64_t bytes, const gs_worker_report *report) {
    uint64_t began = gs_max_u64(report->began_ns, transfers->ended_ns);
    transfers->ended_ns = gs_max_u64(report->ended_ns, transfers->ended_ns);
    if (bytes < LEAST_PIECE || report->ended_ns <= began)
        return;
    double rate = (double)bytes / (double)(report->ended_ns - began);
    transfers->rate += (fmin(rate, 2 * transfers->rate) - transfers->rate) / 8;
}

void gs_transfer_count(gs_action *action, const gs_worker_report *report) {
    gs_session *session = action->session;
    gs_transfers *transfers = &session->server->transfers;
    uint64_t bytes = first_piece(action);
    learn_rate(transfers, bytes, report);
    action->moved += bytes;
    action->is_done = action->moved == action->sent && (action->sent == action->bytes || session->end_code);
    session->counts.copied_bytes += bytes;
    session->moving -= bytes + PIECE_COST;
    session->moved_ns = session->server->now_ns;
    transfers->moving -= !session->moving;
    note_mover(transfers, session->slot, session->server->now_ns);
}

bool gs_is_transfer(const gs_action *action) {
    return action->command == GS_WIRE_COPY_IN || action->command == GS_WIRE_COPY_OUT || action->command == GS_WIRE_FILL;
}

void gs_transfers_abandon(gs_session *session) {
    hold_commands(session, false);
    session->server->transfers.moving -= session->moving > 0;
    session->moving = 0;
}
