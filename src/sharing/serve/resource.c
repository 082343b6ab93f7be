/*
 * resource.c: resources of clients on the device: memory, shared host memory, modules.
 *
 * A client names a resource by its own handle, the worker by the daemon's, so that no client can name
 * another client's resources. A resource is reference-counted: it is released when its client has freed it and no
 * action uses it. So commands sent before a free still run, and the client can reuse the handle at once.
 */
#include "server.h"

#include <stdlib.h>

/* ---- handles ---- */

uint32_t gs_handles_take(gs_handles *handles) {
    if (handles->count)
        return handles->data[--handles->count];
    if (!gs_array_reserve((void **)&handles->data, handles->next, &handles->capacity, 1, sizeof *handles->data))
        return 0;
    return ++handles->next;
}

void gs_handles_give(gs_handles *handles, uint32_t handle) {
    handles->data[handles->count++] = handle;
}

/* ---- resources ---- */

/* The quotas of a resource: its count and its bytes. */
static const struct {
    enum gs_quota count, bytes;
} counted[GS_RESOURCE_KINDS] = {
    [GS_RESOURCE_MEMORY] = {GS_QUOTA_ALLOCATIONS, GS_QUOTA_MEMORY},
    [GS_RESOURCE_REGION] = {GS_QUOTA_REGIONS, GS_QUOTA_SHARED},
    [GS_RESOURCE_MODULE] = {GS_QUOTA_MODULES, GS_QUOTA_MEMORY},
};

bool gs_resource_is_allowed(const gs_session *session, enum gs_resource_kind kind, uint64_t bytes, char *message) {
    const gs_quotas *quotas = &session->server->quotas;
    return gs_quotas_allow(quotas, &session->account, counted[kind].count, 1, message) &&
           gs_quotas_allow(quotas, &session->account, counted[kind].bytes, bytes, message);
}

static void count_against_quotas(gs_resource *resource, uint64_t count,
                                 void (*add)(gs_account *, enum gs_quota, uint64_t)) {
    gs_session *session = resource->session;
    add(&session->account, counted[resource->kind].count, count);
    add(&session->account, counted[resource->kind].bytes, resource->bytes);
    session->counts.memory_bytes = session->account.used[GS_QUOTA_MEMORY];
}

bool gs_resource_set_bytes(gs_resource *resource, uint64_t bytes, char *message) {
    if (!gs_quotas_allow(&resource->session->server->quotas, &resource->session->account, counted[resource->kind].bytes,
                         bytes, message))
        return false;
    resource->bytes = bytes;
    count_against_quotas(resource, 0, gs_account_add);
    return true;
}

gs_resource *gs_resource_new(gs_session *session, enum gs_resource_kind kind, uint64_t bytes) {
    gs_resource *resource = calloc(1, sizeof *resource);
    uint32_t handle = resource ? gs_handles_take(&session->server->handles[kind]) : 0;
    if (!handle) {
        free(resource);
        return NULL;
    }
    *resource = (gs_resource){.kind = kind, .handle = handle, .bytes = bytes, .session = session, .has_name = true};
    count_against_quotas(resource, 1, gs_account_add);
    return resource;
}

static void release_from_worker(const gs_resource *resource) {
    gs_worker *worker = resource->session->server->worker;
    if (resource->kind == GS_RESOURCE_MEMORY)
        gs_worker_release(worker, resource->handle);
    else if (resource->kind == GS_RESOURCE_REGION)
        gs_worker_unshare(worker, resource->handle);
    else
        gs_worker_unload(worker, resource->handle);
}

static void release_resource(gs_resource *resource) {
    gs_server *server = resource->session->server;
    if (resource->has_name || resource->users)
        return;
    if (resource->life == server->life)
        release_from_worker(resource);
    gs_handles_give(&server->handles[resource->kind], resource->handle);
    count_against_quotas(resource, 1, gs_account_subtract);
    gs_image_free(resource->image);
    free(resource->ns_per_block);
    free(resource);
}

void gs_resource_use(gs_resource *resource) {
    resource->users++;
}

void gs_resource_leave(gs_resource *resource) {
    resource->users--;
    release_resource(resource);
}

void gs_resource_forget(gs_resource *resource) {
    resource->has_name = false;
    release_resource(resource);
}

/* ---- the tables of a client ---- */

/* Starts at the end of each table, which is shortened, so that no entry is visited twice. */
size_t gs_resource_forget_some(gs_session *session, size_t most) {
    size_t forgotten = 0;
    for (int kind = 0; kind < GS_RESOURCE_KINDS; kind++) {
        gs_resource_table *table = &session->resources[kind];
        while (table->count && forgotten < most) {
            gs_resource *resource = table->data[--table->count];
            if (resource)
                gs_resource_forget(resource);
            forgotten++;
        }
        if (table->count)
            return forgotten;
        free(table->data);
        *table = (gs_resource_table){0};
    }
    return forgotten;
}

gs_resource *gs_resource_find(const gs_session *session, enum gs_resource_kind kind, uint32_t handle) {
    const gs_resource_table *table = &session->resources[kind];
    gs_resource *resource = handle < table->count ? table->data[handle] : NULL;
    return resource && resource->is_ready ? resource : NULL;
}

enum gs_table_result gs_resource_place(gs_session *session, enum gs_resource_kind kind, uint32_t handle,
                                       gs_resource ***place) {
    static const uint32_t most[GS_RESOURCE_KINDS] = {GS_WIRE_MEMORIES, GS_WIRE_REGIONS, GS_WIRE_MODULES};
    gs_resource_table *table = &session->resources[kind];
    if (handle == 0 || handle >= most[kind])
        return GS_TABLE_OUT_OF_RANGE;
    if (handle >= table->count) {
        if (!GS_RESERVE(table, handle + 1 - table->count))
            return GS_TABLE_NO_MEMORY;
        memset(table->data + table->count, 0, (handle + 1 - table->count) * sizeof *table->data);
        table->count = handle + 1;
    }
    *place = &table->data[handle];
    return **place ? GS_TABLE_IN_USE : GS_TABLE_OK;
}
