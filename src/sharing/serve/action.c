/*
 * action.c: checked commands, from their arrival until they are done.
 *
 * Actions come from a pool, because every launch needs one. The worker knows an action by its tag: its index and a
 * generation, which changes when the action is freed. Tags that come back are checked: kernels share the worker's
 * address space on the CPU, and could have written over its memory.
 *
 * The pool grows while many actions are in flight. When there are few, its memory is freed a part at a time.
 */
#include "server.h"

#ifdef __GLIBC__
#    include <malloc.h>
#endif
#include <stdlib.h>

enum { ALLOCATED_AT_ONCE = 32, FREED_AT_ONCE = 2048, KEPT = 1024 };

static bool grow_actions(gs_actions *actions) {
    if (!GS_RESERVE(actions, ALLOCATED_AT_ONCE))
        return false;
    gs_action *list = calloc(ALLOCATED_AT_ONCE, sizeof *list);
    for (uint32_t i = 0; i < ALLOCATED_AT_ONCE && list; i++) {
        list[i].index = (uint32_t)actions->count;
        list[i].generation = actions->generation;
        actions->data[actions->count++] = &list[i];
    }
    return list;
}

/* Used ones come first. */
static gs_action *take_action(gs_actions *actions) {
    gs_action *action = actions->free;
    if (action) {
        actions->free = action->next;
        return action;
    }
    return actions->used < actions->count || grow_actions(actions) ? actions->data[actions->used++] : NULL;
}

/* Later actions get different tags. */
static void free_last(gs_actions *actions) {
    actions->count -= ALLOCATED_AT_ONCE;
    gs_action *list = actions->data[actions->count];
    for (int i = 0; i < ALLOCATED_AT_ONCE; i++)
        if (list[i].generation >= actions->generation)
            actions->generation = list[i].generation + 1;
    free(list);
}

/* From now on the first unused actions are taken first. */
static void sort_free(gs_actions *actions) {
    while (actions->used && !actions->data[actions->used - 1]->session)
        actions->used--;
    actions->free = NULL;
    for (size_t i = actions->used; i-- > 0;)
        if (!actions->data[i]->session) {
            actions->data[i]->next = actions->free;
            actions->free = actions->data[i];
        }
}

bool gs_actions_may_trim(const gs_server *server) {
    return server->actions.count > KEPT && server->quotas.all.used[GS_QUOTA_ACTIONS] < server->actions.count / 4;
}

void gs_actions_trim(gs_server *server) {
    enum { SORTED_NS = 1000000000 };
    gs_actions *actions = &server->actions;
    if (!gs_actions_may_trim(server))
        return;
    if (server->now_ns - actions->sorted_ns >= SORTED_NS) {
        sort_free(actions);
        actions->sorted_ns = server->now_ns;
    }
    for (int i = 0; i < FREED_AT_ONCE && actions->count > KEPT && actions->used + ALLOCATED_AT_ONCE <= actions->count;
         i += ALLOCATED_AT_ONCE)
        free_last(actions);
#ifdef __GLIBC__
    if (actions->count <= KEPT)
        malloc_trim(0);
#endif
}

/* The packed arguments and the memory list of a launch are not cleared: their counts are 0. */
gs_action *gs_action_new(gs_session *session, uint32_t command) {
    gs_action *action = take_action(&session->server->actions);
    if (!action)
        return NULL;
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
