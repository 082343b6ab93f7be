/*
 * action.c: commands that were checked, from their arrival until they have happened.
 *
 * Actions come from a pool, because every launch needs one. The worker knows an action by its tag: its index and a
 * generation, which changes when the action is freed. Tags that come back are checked: kernels share the worker's
 * address space on the CPU, and could have written over its memory.
 */
#include "server.h"

#include <stdlib.h>

enum { ALLOCATED_AT_ONCE = 32 };

static bool grow(gs_actions *actions) {
    if (!GS_RESERVE(actions, ALLOCATED_AT_ONCE))
        return false;
    gs_action *list = calloc(ALLOCATED_AT_ONCE, sizeof *list);
    for (int i = ALLOCATED_AT_ONCE - 1; i >= 0 && list; i--) {
        list[i].index = (uint32_t)actions->count + (uint32_t)i;
        list[i].next = actions->free;
        actions->data[list[i].index] = actions->free = &list[i];
    }
    actions->count += list ? ALLOCATED_AT_ONCE : 0;
    return list;
}

/* Of a launch, the packed arguments and the list of memories are left as they are: their counts are 0. */
gs_action *gs_action_new(gs_session *session, uint32_t command) {
    gs_actions *actions = &session->server->actions;
    if (!actions->free && !grow(actions))
        return NULL;
    gs_action *action = actions->free;
    actions->free = action->next;
    uint32_t index = action->index, generation = action->generation;
    memset(action, 0, offsetof(gs_action, launch) + offsetof(gs_action_launch, request.arguments));
    action->index = index;
    action->generation = generation;
    action->command = command;
    action->session = session;
    action->number = session->commands;
    action->arrived_ns = session->server->now_ns;
    session->actions++;
    gs_account_add(&session->account, GS_QUOTA_ACTIONS, 1);
    return action;
}

void gs_action_free(gs_action *action) {
    gs_session *session = action->session;
    gs_server *server = session->server;
    for (uint32_t i = 0; i < action->launch.memory_count; i++)
        gs_resource_leave(action->launch.memories[i]);
    if (action->resource)
        gs_resource_leave(action->resource);
    if (action->region)
        gs_resource_leave(action->region);
    if (action->launch.profile)
        gs_profile_store_put(server->profiles, action->launch.profile);
    action->session = NULL;
    action->generation++;
    action->next = server->actions.free;
    server->actions.free = action;
    session->actions--;
    gs_account_subtract(&session->account, GS_QUOTA_ACTIONS, 1);
    if (!session->page && !session->actions)
        server->sessions.must_sweep = true;
}

uint64_t gs_action_tag(const gs_action *action) {
    return (uint64_t)action->generation << 32 | action->index;
}

gs_action *gs_action_find(const gs_server *server, uint64_t tag) {
    uint32_t index = (uint32_t)tag;
    gs_action *action = index < server->actions.count ? server->actions.data[index] : NULL;
    bool is_issued = action && action->session && action->is_issued && !action->is_done;
    return is_issued && action->generation == tag >> 32 ? action : NULL;
}

void gs_actions_free(gs_actions *actions) {
    for (size_t i = 0; i < actions->count; i += ALLOCATED_AT_ONCE)
        free(actions->data[i]);
    free(actions->data);
    *actions = (gs_actions){0};
}
