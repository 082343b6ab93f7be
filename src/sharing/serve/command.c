/*
 * command.c: commands of clients, checked and made into actions.
 *
 * A client can write anything into its ring. Each record is copied out whole and then checked. Handles are looked up in
 * the client's own tables, so it cannot name resources of others. Offsets and sizes are checked against the resource,
 * without overflow. An invalid command ends the client with a message; other clients are not affected. An honest client
 * makes the same checks before it sends a command (src/sharing/client/client.c).
 */
#include "server.h"

/* Commands, or time, of one client before the next client is served. */
enum { TAKEN_AT_ONCE = 64, TURN_NS = 100000 };
#define MOST_BLOCKS ((uint64_t)1 << 46)

/* Makes an action, or ends the client. */
typedef void (*handler)(gs_session *session, const void *command, size_t bytes);

/* Ends the client; false. */
#define INVALID(session, ...) (gs_session_end(session, GS_CLIENT_INVALID, __VA_ARGS__), false)

static void fail_memory(gs_session *session) {
    gs_session_end(session, GS_CLIENT_SYSTEM, "%s", gs_no_memory);
}

/* ---- resources ---- */

static void do_allocate(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_allocate *request = command;
    char message[GS_WIRE_MESSAGE];
    gs_resource **place;
    gs_action *action;
    (void)bytes;
    if (request->reply >= GS_WIRE_REPLIES || !request->bytes) {
        gs_session_end(session, GS_CLIENT_INVALID, "invalid allocation: %llu bytes, reply slot %u",
                       (unsigned long long)request->bytes, request->reply);
        return;
    }
    enum gs_table_result result = gs_resource_place(session, GS_RESOURCE_MEMORY, request->memory, &place);
    if (result == GS_TABLE_NO_MEMORY)
        fail_memory(session);
    else if (result != GS_TABLE_OK)
        gs_session_end(session, GS_CLIENT_INVALID, "memory handle %u is %s", request->memory,
                       result == GS_TABLE_IN_USE ? "in use" : "out of range");
    else if (!gs_resource_is_allowed(session, GS_RESOURCE_MEMORY, request->bytes, message))
        gs_page_refuse(session, request->reply, request->ticket, message);
    else if (!(action = gs_creation_new(session, GS_WIRE_ALLOCATE, GS_RESOURCE_MEMORY, request->bytes, place)))
        fail_memory(session);
    else {
        action->reply = request->reply;
        action->ticket = request->ticket;
        action->handle = request->memory;
        gs_creation_allocate(action);
    }
}

static void do_forget(gs_session *session, const void *command, size_t bytes) {
    static const char *const names[GS_RESOURCE_KINDS] = {"memory", "region", "module"};
    const gs_wire_free *request = command;
    (void)bytes;
    enum gs_resource_kind kind = request->head.command == GS_WIRE_FREE      ? GS_RESOURCE_MEMORY
                                 : request->head.command == GS_WIRE_UNSHARE ? GS_RESOURCE_REGION
                                                                            : GS_RESOURCE_MODULE;
    gs_resource *resource = gs_resource_find(session, kind, request->handle);
    if (!resource) {
        gs_session_end(session, GS_CLIENT_INVALID, "cannot free unknown %s handle %u", names[kind], request->handle);
        return;
    }
    session->resources[kind].data[request->handle] = NULL;
    gs_resource_forget(resource);
}

/* If others are active, a client that has used the daemon's thread since `began` (gs_thread_ns) pauses: its next
   commands stay in its ring. */
static void pause_beside_others(gs_session *session, int64_t began, int times) {
    enum { MOMENT_NS = 10000000 };
    if (!gs_activity_has_others(session, MOMENT_NS))
        return;
    uint64_t until = (uint64_t)gs_pause_until(began, times), *last = &session->server->take_after_ns;
    session->take_after_ns = until;
    *last = gs_max_u64(*last, until);
}

/* Sharing host memory is much more work for the worker than for the daemon, which does not wait for it: the worker's
   threads would take the cores from other clients. So while others are active, it gets a tenth of the daemon's time. */
static void do_share(gs_session *session, const void *command, size_t bytes) {
    enum { FILE_TIMES = 9 /* see gs_pause_until */ };
    (void)bytes;
    int64_t began = gs_thread_ns();
    gs_file_share(session, command);
    pause_beside_others(session, began, FILE_TIMES);
}

static void do_load(gs_session *session, const void *command, size_t bytes) {
    (void)bytes;
    gs_file_load(session, command);
}

/* ---- copies, fills, events ---- */

/* NULL: out of memory; the client is ended. */
static gs_action *new_in_stream(gs_session *session, const gs_wire_head *head) {
    gs_action *action = gs_action_new(session, head->command);
    if (action)
        action->stream = &session->streams[head->stream];
    else
        fail_memory(session);
    return action;
}

/* Appends the action to its stream. */
static void add_action(gs_action *action) {
    gs_stream_append(action);
    if (action->stream->next == action)
        gs_stream_advance(action->stream);
}

static void do_copy(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_copy *request = command;
    gs_resource *memory = gs_resource_find(session, GS_RESOURCE_MEMORY, request->memory);
    gs_resource *region = gs_resource_find(session, GS_RESOURCE_REGION, request->region);
    (void)bytes;
    if (!memory || !region || !request->bytes || !gs_is_within(request->at, request->bytes, memory->bytes) ||
        !gs_is_within(request->region_at, request->bytes, region->bytes)) {
        gs_session_end(session, GS_CLIENT_INVALID,
                       "a copy of %llu bytes between memory handle %u and region handle %u is out of bounds",
                       (unsigned long long)request->bytes, request->memory, request->region);
        return;
    }
    gs_action *action = new_in_stream(session, &request->head);
    if (!action)
        return;
    gs_resource_use(action->resource = memory);
    gs_resource_use(action->region = region);
    action->at = request->at;
    action->region_at = request->region_at;
    action->bytes = request->bytes;
    add_action(action);
}

static void do_fill(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_fill *request = command;
    gs_resource *memory = gs_resource_find(session, GS_RESOURCE_MEMORY, request->memory);
    (void)bytes;
    if (!memory || !request->bytes || !gs_is_within(request->at, request->bytes, memory->bytes) ||
        request->value > UINT8_MAX) {
        gs_session_end(session, GS_CLIENT_INVALID, "a fill of %llu bytes of memory handle %u with %u is out of bounds",
                       (unsigned long long)request->bytes, request->memory, request->value);
        return;
    }
    gs_action *action = new_in_stream(session, &request->head);
    if (!action)
        return;
    gs_resource_use(action->resource = memory);
    action->at = request->at;
    action->bytes = request->bytes;
    action->value = (uint8_t)request->value;
    add_action(action);
}

static void do_record(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_record *request = command;
    (void)bytes;
    if (request->event >= GS_CLIENT_EVENTS) {
        gs_session_end(session, GS_CLIENT_INVALID, "event %u is out of range", request->event);
        return;
    }
    gs_action *action = new_in_stream(session, &request->head);
    if (!action)
        return;
    action->event = request->event;
    add_action(action);
}

/* ---- launches ---- */

static bool take_memory(gs_session *session, gs_action_launch *launch, const gs_wire_argument *head,
                        const unsigned char *value) {
    gs_resource *memory = gs_resource_find(session, GS_RESOURCE_MEMORY, head->memory);
    uint64_t at;
    memcpy(&at, value, sizeof at);
    if (!memory || head->bytes != sizeof at || at >= memory->bytes)
        return INVALID(session, "an argument in memory handle %u is out of bounds", head->memory);
    gs_resource_use(launch->memories[launch->memory_count++] = memory);
    return gs_launch_add_memory(&launch->request, memory->handle, at) ||
           INVALID(session, "a launch has too many arguments");
}

/* One argument; `*at` is advanced past it. */
static bool take_argument(gs_session *session, gs_action_launch *launch, const unsigned char *list, size_t bytes,
                          size_t *at) {
    gs_wire_argument head;
    if (bytes - *at < sizeof head)
        return INVALID(session, "a launch has fewer arguments than declared");
    memcpy(&head, list + *at, sizeof head);
    *at += sizeof head;
    size_t length = ((size_t)head.bytes + 7) & ~(size_t)7;
    if (!head.bytes || head.bytes > GS_CLIENT_VALUE_BYTES || length > bytes - *at)
        return INVALID(session, "invalid argument size of %u bytes", head.bytes);
    const unsigned char *value = list + *at;
    *at += length;
    if (head.memory)
        return take_memory(session, launch, &head, value);
    return gs_launch_add_value(&launch->request, value, head.bytes) ||
           INVALID(session, "the arguments of a launch have too many bytes");
}

static bool check_shape(gs_session *session, const gs_wire_launch *request, uint64_t *blocks) {
    const uint32_t *grid = request->grid, *block = request->block;
    uint64_t threads = 1;
    *blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (!grid[i] || !block[i] || grid[i] > INT32_MAX || block[i] > 1024)
            return INVALID(session, "invalid launch: grid (%u, %u, %u), blocks of (%u, %u, %u)", grid[0], grid[1],
                           grid[2], block[0], block[1], block[2]);
        if (grid[i] > MOST_BLOCKS / *blocks)
            return INVALID(session, "a launch has too many blocks");
        *blocks *= grid[i];
        threads *= block[i];
    }
    return threads <= 1024 ||
           INVALID(session, "a block may have at most 1024 threads, not %llu", (unsigned long long)threads);
}

static bool take_launch(gs_session *session, gs_action *action, const gs_wire_launch *request, size_t bytes) {
    gs_action_launch *launch = &action->launch;
    gs_worker_launch *made = &launch->request;
    const unsigned char *list = (const unsigned char *)(request + 1);
    size_t at = 0;
    if (!check_shape(session, request, &launch->blocks))
        return false;
    made->request.queue = action->stream->queue;
    made->request.handle = action->resource->handle;
    made->kernel = request->kernel;
    made->shared_bytes = request->shared_bytes;
    memcpy(made->grid, request->grid, sizeof made->grid);
    memcpy(made->block, request->block, sizeof made->block);
    for (uint32_t i = 0; i < request->arguments; i++)
        if (!take_argument(session, launch, list, bytes - sizeof *request, &at))
            return false;
    return at == bytes - sizeof *request || INVALID(session, "a launch has more arguments than declared");
}

/* Finds the profile of the kernel in this shape. */
static void find_profile(gs_action *action) {
    gs_server *server = action->session->server;
    const gs_worker_launch *request = &action->launch.request;
    const char *name = action->resource->image->kernels[request->kernel].name;
    uint64_t blocks = gs_profile_blocks(action->launch.blocks);
    uint64_t key = gs_profile_key(action->resource->source, name, blocks, request->block, request->shared_bytes);
    action->launch.profile = gs_profile_store_get(server->profiles, key, name, blocks);
    action->launch.arrival = ++server->actions.arrivals;
}

static void do_launch(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_launch *request = command;
    gs_resource *module = gs_resource_find(session, GS_RESOURCE_MODULE, request->module);
    if (!module || request->kernel >= module->image->kernel_count || request->arguments > GS_CLIENT_ARGUMENTS) {
        gs_session_end(session, GS_CLIENT_INVALID, "unknown kernel %u with %u arguments in module handle %u",
                       request->kernel, request->arguments, request->module);
        return;
    }
    gs_action *action = new_in_stream(session, &request->head);
    if (!action)
        return;
    gs_resource_use(action->resource = module);
    if (!take_launch(session, action, request, bytes)) {
        gs_action_free(action);
        return;
    }
    find_profile(action);
    add_action(action);
}

/* ---- the ring ---- */

#define SIZE(name, type) [name] = sizeof(type),
static const uint32_t sizes[] = {GS_WIRE_COMMANDS(SIZE)};
#undef SIZE

static const handler handlers[] = {
    [GS_WIRE_ALLOCATE] = do_allocate, [GS_WIRE_SHARE] = do_share,    [GS_WIRE_LOAD] = do_load,
    [GS_WIRE_FREE] = do_forget,       [GS_WIRE_UNSHARE] = do_forget, [GS_WIRE_UNLOAD] = do_forget,
    [GS_WIRE_COPY_IN] = do_copy,      [GS_WIRE_COPY_OUT] = do_copy,  [GS_WIRE_FILL] = do_fill,
    [GS_WIRE_LAUNCH] = do_launch,     [GS_WIRE_EVENT] = do_record,
};

void gs_session_command(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_head *head = command;
    session->commands++;
    session->counts.commands++;
    if (session->end_code)
        return;
    if (bytes < sizeof *head)
        gs_session_end(session, GS_CLIENT_INVALID, "invalid command of %zu bytes", bytes);
    else if (head->command >= GS_WIRE_COMMAND_COUNT)
        gs_session_end(session, GS_CLIENT_INVALID, "unknown command %u", head->command);
    else if (head->stream >= GS_CLIENT_STREAMS)
        gs_session_end(session, GS_CLIENT_INVALID, "stream %u is out of range", head->stream);
    else if (bytes < sizes[head->command] || (head->command != GS_WIRE_LAUNCH && bytes != sizes[head->command]))
        gs_session_end(session, GS_CLIENT_INVALID, "invalid size of command %u: %zu bytes", head->command, bytes);
    else
        handlers[head->command](session, command, bytes);
}

/* A client that sends as fast as it can keeps one core busy, and the daemon another one. On a machine with few cores
   other processes would starve, so the client gets a quarter of the daemon's time while others are active. */
bool gs_session_take(gs_session *session) {
    enum { FEW_CORES = 3, TIMES = 3 };
    if (!gs_session_may_take(session))
        return false;
    gs_server *server = session->server;
    bool has_some = gs_ring_has_some(&session->ring), may_pause = has_some && server->cores <= FEW_CORES;
    int64_t began = may_pause ? gs_thread_ns() : 0, until = has_some ? gs_now_ns() + TURN_NS : 0;
    int taken = 0;
    while (taken < TAKEN_AT_ONCE && gs_session_may_take(session) && (!taken || gs_now_ns() < until)) {
        uint32_t bytes;
        gs_ring_result result = gs_ring_take(&session->ring, server->record, sizeof server->record, &bytes);
        if (result == GS_RING_NOT_NOW)
            break;
        if (result != GS_RING_DONE) {
            gs_session_end(session, GS_CLIENT_INVALID, "the ring of commands is broken");
            break;
        }
        gs_session_command(session, server->record, bytes);
        taken++;
    }
    if (taken)
        gs_activity_note(session);
    if (taken == TAKEN_AT_ONCE && may_pause)
        pause_beside_others(session, began, TIMES);
    return taken > 0;
}
