/*
 * creation.c: memory and modules that the worker makes for clients. These actions belong to no stream; the client waits
 * for a reply.
 */
#include "server.h"

/* Nothing runs while a module is loaded. */
static void end_loading(gs_action *action) {
    gs_server *server = action->session->server;
    gs_loads *loads = &server->loads;
    if (action->command != GS_WIRE_LOAD || !action->is_issued || !action->resource->image)
        return;
    if (!--loads->loading && server->contenders.count) /* launches that waited have as long as the loading took */
        loads->next_after_ns = server->now_ns + (server->now_ns - loads->loading_since_ns);
    server->scheduler.must_decide = true;
}

void gs_creation_refuse(gs_action *action, gs_client_code code, const char *message) {
    gs_session *session = action->session;
    gs_resource *resource = action->resource;
    gs_resource_table *table = &session->resources[resource->kind];
    end_loading(action);
    if (action->handle < table->count && table->data[action->handle] == resource) {
        table->data[action->handle] = NULL;
        gs_resource_forget(resource);
    }
    session->counts.errors++;
    gs_page_reply(session, action->reply, action->ticket, code, message);
    gs_action_free(action);
}

gs_action *gs_creation_new(gs_session *session, uint32_t command, enum gs_resource_kind kind, uint64_t bytes,
                           gs_resource **place) {
    gs_action *action = gs_action_new(session, command);
    if (!action)
        return NULL;
    action->resource = gs_resource_new(session, kind, bytes);
    if (!action->resource) {
        gs_action_free(action);
        return NULL;
    }
    gs_resource_use(*place = action->resource);
    return action;
}

void gs_creation_allocate(gs_action *action) {
    const gs_resource *memory = action->resource;
    action->is_issued = true;
    if (gs_worker_allocate(action->session->server->worker, gs_action_tag(action), memory->handle, memory->bytes) !=
        GS_OK)
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, gs_no_memory);
}

void gs_creation_end(gs_action *action, const gs_worker_report *report) {
    if (report->code != GS_OK) {
        gs_creation_refuse(action, report->code == GS_E_FULL ? GS_CLIENT_MEMORY : GS_CLIENT_SYSTEM,
                           report->message[0] ? report->message : gs_code_meaning(report->code));
        return;
    }
    end_loading(action);
    action->resource->life = action->session->server->life;
    action->resource->is_ready = true;
    gs_page_reply(action->session, action->reply, action->ticket, GS_CLIENT_OK, "");
    gs_action_free(action);
}
