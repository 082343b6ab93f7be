/*
 * activity.c: which clients connected or sent commands recently.
 *
 * Some work of one client takes the cores from all others, and must be limited only while others need them.
 */
#include "server.h"

void gs_activity_note(const gs_session *session) {
    gs_activity *activity = &session->server->activity;
    if (activity->last[0].slot != session->slot)
        activity->last[1] = activity->last[0];
    activity->last[0] = (struct gs_active){session->slot, session->server->now_ns};
}

bool gs_activity_has_others(const gs_session *session, uint64_t within_ns) {
    const gs_server *server = session->server;
    for (size_t i = 0; i < GS_COUNT(server->activity.last); i++) {
        const struct gs_active *other = &server->activity.last[i];
        if (other->slot && other->slot != session->slot && server->now_ns - other->noted_ns < within_ns)
            return true;
    }
    return false;
}
