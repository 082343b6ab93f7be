/*
 * stream.c: the actions of a stream, in order: done, with the worker, waiting.
 */
#include "server.h"

gs_action *gs_stream_launch(const gs_stream *stream) {
    gs_action *action = stream->head;
    while (action && (action->command != GS_WIRE_LAUNCH || action->is_done))
        action = action->next;
    return action;
}

gs_action *gs_stream_contender(const gs_stream *stream) {
    gs_action *action = gs_stream_launch(stream);
    return action && (action->is_issued || stream->next == action) ? action : NULL;
}

static bool is_confined(const gs_action *action) {
    return action && action->is_issued && !action->is_done && action->command == GS_WIRE_LAUNCH &&
           action->launch.request.form == GS_LAUNCH_CONFINED;
}

void gs_stream_find_confined(gs_stream *stream) {
    gs_action *action = stream->head;
    while (action && !is_confined(action))
        action = action->next;
    stream->confined = action;
}

static void stop_action(gs_action *action) {
    static const gs_mask nowhere;
    if (!is_confined(action) || action->launch.is_stopping)
        return;
    action->launch.is_stopping = true;
    memcpy(action->launch.request.mask, nowhere.words, sizeof nowhere.words);
    gs_worker_confine(action->session->server->worker, gs_action_tag(action), nowhere.words);
}

void gs_stream_stop_follower(gs_stream *stream) {
    stop_action(stream->confined ? stream->confined->next : NULL);
}

void gs_stream_append(gs_action *action) {
    gs_stream *stream = action->stream;
    if (stream->tail)
        stream->tail->next = action;
    else
        stream->head = action;
    stream->tail = action;
    action->next = NULL;
    if (!stream->next)
        stream->next = action;
}

/* The worker does not see events: they are done when all actions before them are. */
void gs_stream_settle(gs_stream *stream) {
    uint64_t number = 0;
    for (gs_action *action = stream->head;
         action && action->is_issued && (action->is_done || action->command == GS_WIRE_EVENT); action = stream->head) {
        gs_page_event(action);
        number = action->number;
        stream->head = action->next;
        if (!stream->head)
            stream->tail = NULL;
        gs_action_free(action);
    }
    if (number)
        gs_page_done(stream, number);
}

void gs_stream_drop(gs_stream *stream) {
    gs_action **at = &stream->head, *action;
    gs_stream_stop_follower(stream);
    stream->tail = stream->next = NULL;
    while ((action = *at)) {
        if (action->is_issued) {
            if (action->sent < action->bytes) { /* waiting pieces of a copy are dropped */
                action->bytes = action->sent;
                action->is_done = action->moved == action->sent;
            }
            stream->tail = action;
            at = &action->next;
            continue;
        }
        *at = action->next;
        gs_action_free(action);
    }
    for (action = stream->head; action; action = action->next)
        stop_action(action);
    gs_stream_settle(stream);
}

void gs_stream_forget_kept(gs_stream *stream) {
    if (stream->kept.profile)
        gs_profile_store_put(stream->session->server->profiles, stream->kept.profile);
    stream->kept.profile = NULL;
}
