/*
 * session.c: one client: what it says is checked here, and becomes actions.
 *
 * A client can say anything. Each record of its ring is copied out whole and then looked at; numbers are looked up in
 * the client's own tables, so that it cannot name what is not its own; offsets and sizes are checked against the
 * resource they are in, without overflow. What does not hold ends the client, with words, and nobody else notices: an
 * honest client checks the same before it asks (client.c).
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- numbers ---- */

uint32_t gs_handles_take(gs_handles *numbers) {
    if (numbers->count)
        return numbers->data[--numbers->count];
    if (!gs_array_reserve((void **)&numbers->data, numbers->next, &numbers->capacity, 1, sizeof *numbers->data))
        return 0;
    return ++numbers->next;
}

void gs_handles_give(gs_handles *numbers, uint32_t number) {
    numbers->data[numbers->count++] = number;
}

/* ---- resources ---- */

gs_resource *gs_resource_new(gs_session *session, enum gs_resource_kind kind, uint64_t bytes) {
    gs_resource *resource = calloc(1, sizeof *resource);
    uint32_t number = resource ? gs_handles_take(&session->server->numbers[kind]) : 0;
    if (!number) {
        free(resource);
        return NULL;
    }
    *resource = (gs_resource){.kind = kind, .number = number, .bytes = bytes, .session = session, .is_named = true};
    if (kind == GS_RESOURCE_MEMORY)
        session->counts.memory_bytes += bytes;
    return resource;
}

static void release(gs_resource *resource) {
    gs_server *server = resource->session->server;
    if (resource->is_named || resource->users)
        return;
    bool exists = resource->life == server->life;
    if (exists && resource->kind == GS_RESOURCE_MEMORY)
        gs_worker_release(server->engine, resource->number);
    else if (exists && resource->kind == GS_RESOURCE_REGION)
        gs_worker_unshare(server->engine, resource->number);
    else if (exists)
        gs_worker_unload(server->engine, resource->number);
    gs_handles_give(&server->numbers[resource->kind], resource->number);
    if (resource->kind == GS_RESOURCE_MEMORY)
        resource->session->counts.memory_bytes -= resource->bytes;
    gs_image_free(resource->image);
    free(resource->ns_per_block);
    free(resource);
}

void gs_resource_use(gs_resource *resource) {
    resource->users++;
}

void gs_resource_leave(gs_resource *resource) {
    resource->users--;
    release(resource);
}

void gs_resource_forget(gs_resource *resource) {
    resource->is_named = false;
    release(resource);
}

static gs_resource *find(const gs_session *session, enum gs_resource_kind kind, uint32_t number) {
    const gs_resource_table *table = &session->resources[kind];
    gs_resource *resource = number < table->count ? table->data[number] : NULL;
    return resource && resource->is_ready ? resource : NULL;
}

/* A place in the client's table that is free, or NULL; `*is_full`: because there is no memory. */
static gs_resource **place(gs_session *session, enum gs_resource_kind kind, uint32_t number, bool *is_full) {
    static const uint32_t most[GS_RESOURCE_KINDS] = {GS_WIRE_MEMORIES, GS_WIRE_REGIONS, GS_WIRE_MODULES};
    gs_resource_table *table = &session->resources[kind];
    *is_full = false;
    if (number == 0 || number >= most[kind])
        return NULL;
    if (number >= table->count) {
        *is_full = !GS_RESERVE(table, number + 1 - table->count);
        if (*is_full)
            return NULL;
        memset(table->data + table->count, 0, (number + 1 - table->count) * sizeof *table->data);
        table->count = number + 1;
    }
    return table->data[number] ? NULL : &table->data[number];
}

bool gs_session_has_resources(const gs_session *session) {
    for (int kind = 0; kind < GS_RESOURCE_KINDS; kind++)
        for (size_t i = 0; i < session->resources[kind].count; i++)
            if (session->resources[kind].data[i])
                return true;
    return session->actions > 0;
}

/* ---- what the client reads ---- */

void gs_session_ring(gs_session *session) {
    if (!session->page)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&session->page->client_sleeps, memory_order_relaxed) &&
        atomic_exchange(&session->page->client_sleeps, 0))
        gs_bell_ring(session->options.bell);
}

void gs_session_reply(gs_session *session, uint32_t slot, uint32_t ticket, gs_client_code code, const char *words) {
    if (!session->page)
        return;
    gs_wire_reply *reply = &session->page->replies[slot];
    reply->code = code;
    snprintf(reply->words, sizeof reply->words, "%s", words);
    atomic_store_explicit(&reply->ticket, ticket, memory_order_release);
    gs_session_ring(session);
}

static void forget_all(gs_session *session) {
    for (int kind = 0; kind < GS_RESOURCE_KINDS; kind++) {
        gs_resource_table *table = &session->resources[kind];
        for (size_t i = 0; i < table->count; i++)
            if (table->data[i])
                gs_resource_forget(table->data[i]);
        free(table->data);
        *table = (gs_resource_table){0};
    }
}

void gs_session_end(gs_session *session, gs_client_code code, const char *format, ...) {
    if (session->end_code)
        return;
    session->end_code = code;
    if (session->page) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(session->page->end_message, sizeof session->page->end_message, format, arguments);
        va_end(arguments);
        atomic_store_explicit(&session->page->end_code, (uint32_t)code, memory_order_release);
    }
    forget_all(session);
    gs_server_drop(session);
    gs_session_ring(session);
}

/* ---- commands ---- */

/* What is wrong with a command, or NULL. */
typedef const char *(*handler)(gs_session *session, const void *command, size_t bytes);

static const char no_memory[] = "the daemon has no memory left";

static bool is_within(uint64_t at, uint64_t bytes, uint64_t all) {
    return at <= all && bytes <= all - at;
}

static const char *allocate(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_allocate *asked = command;
    bool is_full;
    (void)bytes;
    if (asked->reply >= GS_WIRE_REPLIES || !asked->bytes)
        return "an allocation that cannot be";
    gs_resource **at = place(session, GS_RESOURCE_MEMORY, asked->memory, &is_full);
    if (!at)
        return is_full ? no_memory : "memory with a number that cannot be";
    gs_action *action = gs_action_new(session, GS_WIRE_ALLOCATE);
    gs_resource *resource = action ? gs_resource_new(session, GS_RESOURCE_MEMORY, asked->bytes) : NULL;
    if (!resource) {
        if (action)
            gs_action_free(action);
        return no_memory;
    }
    *at = resource;
    gs_resource_use(resource);
    action->resource = resource;
    action->reply = asked->reply;
    action->ticket = asked->ticket;
    action->at = asked->memory;
    gs_server_allocate(action);
    return NULL;
}

static const char *forget(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_forget *asked = command;
    (void)bytes;
    enum gs_resource_kind kind = asked->head.what == GS_WIRE_FREE      ? GS_RESOURCE_MEMORY
                                 : asked->head.what == GS_WIRE_UNSHARE ? GS_RESOURCE_REGION
                                                                       : GS_RESOURCE_MODULE;
    gs_resource *resource = find(session, kind, asked->number);
    if (!resource)
        return "what is freed is not there";
    session->resources[kind].data[asked->number] = NULL;
    gs_resource_forget(resource);
    return NULL;
}

/* An action of a stream, or NULL: out of memory. */
static gs_action *stream_action(gs_session *session, const gs_wire_head *head) {
    gs_action *action = gs_action_new(session, head->what);
    if (action)
        action->stream = &session->streams[head->stream];
    return action;
}

static const char *copy(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_copy *asked = command;
    (void)bytes;
    gs_resource *memory = find(session, GS_RESOURCE_MEMORY, asked->memory);
    gs_resource *region = find(session, GS_RESOURCE_REGION, asked->region);
    if (!memory || !region || !asked->bytes || !is_within(asked->at, asked->bytes, memory->bytes) ||
        !is_within(asked->region_at, asked->bytes, region->bytes))
        return "a copy out of bounds";
    gs_action *action = stream_action(session, &asked->head);
    if (!action)
        return no_memory;
    gs_resource_use(action->resource = memory);
    gs_resource_use(action->region = region);
    action->at = asked->at;
    action->region_at = asked->region_at;
    action->bytes = asked->bytes;
    gs_server_add(action);
    return NULL;
}

static const char *fill(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_fill *asked = command;
    (void)bytes;
    gs_resource *memory = find(session, GS_RESOURCE_MEMORY, asked->memory);
    if (!memory || !asked->bytes || !is_within(asked->at, asked->bytes, memory->bytes) || asked->value > UINT8_MAX)
        return "a fill out of bounds";
    gs_action *action = stream_action(session, &asked->head);
    if (!action)
        return no_memory;
    gs_resource_use(action->resource = memory);
    action->at = asked->at;
    action->bytes = asked->bytes;
    action->value = (uint8_t)asked->value;
    gs_server_add(action);
    return NULL;
}

static const char *record(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_record *asked = command;
    (void)bytes;
    if (asked->event >= GS_CLIENT_EVENTS)
        return "an event that cannot be";
    gs_action *action = stream_action(session, &asked->head);
    if (!action)
        return no_memory;
    action->event = asked->event;
    gs_server_add(action);
    return NULL;
}

/* One argument; `*at` is moved behind it. */
static const char *take_argument(gs_session *session, gs_action_launch *launch, const unsigned char *list, size_t bytes,
                                 size_t *at, size_t *values) {
    gs_wire_argument head;
    if (bytes - *at < sizeof head)
        return "a launch with fewer arguments than it says";
    memcpy(&head, list + *at, sizeof head);
    *at += sizeof head;
    size_t length = ((size_t)head.bytes + 7) & ~(size_t)7;
    if (!head.bytes || head.bytes > GS_CLIENT_VALUE_BYTES || length > bytes - *at)
        return "an argument with a size that cannot be";
    gs_worker_argument *argument = &launch->arguments[launch->run.argument_count];
    *argument = (gs_worker_argument){.bytes = head.bytes};
    if (head.memory) {
        gs_resource *memory = find(session, GS_RESOURCE_MEMORY, head.memory);
        memcpy(&argument->at, list + *at, sizeof argument->at);
        if (!memory || head.bytes != sizeof argument->at || argument->at >= memory->bytes)
            return "an argument out of bounds";
        argument->bytes = 0;
        argument->memory = memory->number;
        gs_resource_use(launch->memories[launch->memory_count++] = memory);
    } else {
        if (length > sizeof launch->values - *values)
            return "arguments with too many bytes";
        memcpy(launch->values + *values, list + *at, head.bytes);
        argument->value = launch->values + *values;
        *values += length;
    }
    *at += length;
    launch->run.argument_count++;
    return NULL;
}

static const char *check_shape(const gs_wire_launch *asked, uint64_t *blocks) {
    uint64_t threads = 1;
    *blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (!asked->grid[i] || !asked->block[i] || asked->grid[i] > INT32_MAX || asked->block[i] > 1024)
            return "a launch with a shape that cannot be";
        *blocks *= asked->grid[i]; /* at most 2^31 each, and 2^62 for two: */
        if (*blocks > (uint64_t)1 << 62 >> 16)
            return "a launch with too many blocks";
        threads *= asked->block[i];
    }
    return threads > 1024 ? "a launch with too many threads" : NULL;
}

static const char *take_launch(gs_session *session, gs_action *action, const gs_wire_launch *asked, size_t bytes) {
    gs_action_launch *launch = &action->launch;
    const unsigned char *list = (const unsigned char *)(asked + 1);
    size_t at = 0, values = 0;
    const char *wrong = check_shape(asked, &launch->blocks);
    if (wrong)
        return wrong;
    launch->run.queue = action->stream->queue;
    launch->run.module = action->resource->number;
    launch->run.kernel = asked->kernel;
    launch->run.shared_bytes = asked->shared_bytes;
    launch->run.arguments = launch->arguments;
    memcpy(launch->run.grid, asked->grid, sizeof launch->run.grid);
    memcpy(launch->run.block, asked->block, sizeof launch->run.block);
    for (uint32_t i = 0; i < asked->arguments && !wrong; i++)
        wrong = take_argument(session, launch, list, bytes - sizeof *asked, &at, &values);
    return !wrong && at != bytes - sizeof *asked ? "a launch with more arguments than it says" : wrong;
}

static const char *launch(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_launch *asked = command;
    gs_resource *module = find(session, GS_RESOURCE_MODULE, asked->module);
    if (!module || asked->kernel >= module->image->kernel_count || asked->arguments > GS_CLIENT_ARGUMENTS)
        return "a launch of a kernel that is not there";
    gs_action *action = stream_action(session, &asked->head);
    if (!action)
        return no_memory;
    gs_resource_use(action->resource = module);
    const char *wrong = take_launch(session, action, asked, bytes);
    if (wrong)
        gs_action_free(action);
    else
        gs_server_add(action);
    return wrong;
}

#define SIZE(name, type) [name] = sizeof(type),
static const uint32_t sizes[] = {GS_WIRE_COMMANDS(SIZE)};
#undef SIZE

static const handler handlers[] = {
    [GS_WIRE_ALLOCATE] = allocate, [GS_WIRE_FREE] = forget,   [GS_WIRE_UNSHARE] = forget,
    [GS_WIRE_UNLOAD] = forget,     [GS_WIRE_COPY_IN] = copy,  [GS_WIRE_COPY_OUT] = copy,
    [GS_WIRE_FILL] = fill,         [GS_WIRE_LAUNCH] = launch, [GS_WIRE_EVENT] = record,
};

void gs_session_command(gs_session *session, const void *command, size_t bytes) {
    const gs_wire_head *head = command;
    const char *wrong = NULL;
    session->commands++;
    session->counts.commands++;
    if (session->end_code)
        return;
    if (bytes < sizeof *head || head->what >= GS_WIRE_WHATS || head->stream >= GS_CLIENT_STREAMS)
        wrong = "a command that is none";
    else if (bytes < sizes[head->what] || (head->what != GS_WIRE_LAUNCH && bytes != sizes[head->what]))
        wrong = "a command with a size that cannot be";
    else
        wrong = handlers[head->what](session, command, bytes);
    if (wrong)
        gs_session_end(session, wrong == no_memory ? GS_CLIENT_SYSTEM : GS_CLIENT_INVALID,
                       wrong == no_memory ? "%s" : "the daemon was sent %s", wrong);
}

bool gs_session_take(gs_session *session) {
    gs_server *server = session->server;
    int taken = 0;
    if (!session->page || session->end_code)
        return false;
    while (taken < GS_SESSION_TURN && session->actions < GS_SESSION_ACTIONS) {
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
    return taken > 0;
}

/* ---- files ---- */

/* Whether a descriptor is memory of that size, which cannot change. */
static bool is_sealed(int fd, uint64_t bytes) {
    struct stat facts;
    int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    return seals >= 0 && (seals & wanted) == wanted && fstat(fd, &facts) == 0 && facts.st_size >= 0 &&
           (uint64_t)facts.st_size == bytes;
}

static gs_client_code share(gs_session *session, const gs_wire_file *file, gs_resource **at, int fd) {
    gs_resource *resource = gs_resource_new(session, GS_RESOURCE_REGION, file->bytes);
    if (!resource)
        return GS_CLIENT_SYSTEM;
    if (gs_worker_share(session->server->engine, resource->number, fd, file->bytes) != GS_OK) {
        gs_resource_forget(resource);
        return GS_CLIENT_SYSTEM;
    }
    resource->is_ready = true;
    resource->life = session->server->life;
    *at = resource;
    return GS_CLIENT_OK;
}

/* Words that end with NULs; `*at` is moved behind them. */
static const char **unpack_words(const char *bytes, size_t size, size_t *at, uint32_t count) {
    const char **words = calloc((size_t)count + 1, sizeof *words);
    for (uint32_t i = 0; i < count && words; i++) {
        const char *end = memchr(bytes + *at, '\0', size - *at);
        if (!end) {
            free(words);
            return NULL;
        }
        words[i] = bytes + *at;
        *at = (size_t)(end - bytes) + 1;
    }
    return words;
}

bool gs_source_unpack(const char *bytes, size_t size, uint32_t options, uint32_t kernels, gs_image_request *request) {
    enum { MOST_OPTIONS = 64 };
    size_t at = 0;
    if (options > MOST_OPTIONS || !kernels || kernels > GS_IMAGE_KERNELS)
        return false;
    const char **name = unpack_words(bytes, size, &at, 1);
    request->name = name ? name[0] : NULL;
    free(name);
    request->options = request->name ? unpack_words(bytes, size, &at, options) : NULL;
    request->kernels = request->options ? unpack_words(bytes, size, &at, kernels) : NULL;
    if (!request->kernels) {
        free((void *)request->options);
        request->options = NULL;
        return false;
    }
    request->option_count = options;
    request->kernel_count = kernels;
    request->text = bytes + at;
    request->size = size - at;
    return true;
}

void gs_source_free_unpacked(gs_image_request *request, char *bytes) {
    free((void *)request->options);
    free((void *)request->kernels);
    free(bytes);
    *request = (gs_image_request){0};
}

/* The daemon's own copy: the client may go on writing. With a NUL behind it. */
static char *read_file(int fd, size_t bytes) {
    char *text = malloc(bytes + 1);
    for (size_t at = 0; at < bytes && text;) {
        ssize_t got = pread(fd, text + at, bytes - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(text);
            return NULL;
        }
        at += (size_t)got;
    }
    if (text)
        text[bytes] = '\0';
    return text;
}

static const char *load(gs_session *session, const gs_wire_file *file, gs_resource **at, int fd) {
    gs_image_request request = {0};
    char *bytes = file->bytes <= GS_WIRE_SOURCE_BYTES ? read_file(fd, file->bytes) : NULL;
    if (!bytes || !gs_source_unpack(bytes, file->bytes, file->options, file->kernels, &request)) {
        free(bytes);
        return "a source that is none";
    }
    gs_action *action = gs_action_new(session, GS_ACTION_LOAD);
    gs_resource *resource = action ? gs_resource_new(session, GS_RESOURCE_MODULE, 0) : NULL;
    if (!resource) {
        if (action)
            gs_action_free(action);
        gs_source_free_unpacked(&request, bytes);
        return no_memory;
    }
    *at = resource;
    gs_resource_use(action->resource = resource);
    action->reply = file->reply;
    action->ticket = file->ticket;
    action->at = file->number;
    gs_server_load(action, &request, bytes);
    return NULL;
}

void gs_session_file(gs_session *session, const void *message, size_t bytes, int fd) {
    gs_wire_file file;
    if (session->end_code)
        return;
    memcpy(&file, message, bytes < sizeof file ? bytes : sizeof file);
    if (bytes != sizeof file || fd < 0 || file.reply >= GS_WIRE_REPLIES || !file.bytes ||
        (file.kind != GS_WIRE_SHARE && file.kind != GS_WIRE_LOAD) || !is_sealed(fd, file.bytes) ||
        session->actions >= GS_SESSION_ACTIONS) {
        gs_session_end(session, GS_CLIENT_INVALID, "the daemon was sent a file that is not as it should be");
        return;
    }
    if (session->server->is_down) {
        gs_session_reply(session, file.reply, file.ticket, GS_CLIENT_SYSTEM, gs_no_device);
        return;
    }
    bool is_share = file.kind == GS_WIRE_SHARE, is_full;
    gs_resource **at = place(session, is_share ? GS_RESOURCE_REGION : GS_RESOURCE_MODULE, file.number, &is_full);
    if (!at) {
        gs_session_end(session, is_full ? GS_CLIENT_SYSTEM : GS_CLIENT_INVALID,
                       is_full ? no_memory : "the daemon was sent a file with a number that cannot be");
    } else if (is_share) {
        gs_client_code code = share(session, &file, at, fd);
        gs_session_reply(session, file.reply, file.ticket, code, code == GS_CLIENT_OK ? "" : no_memory);
    } else {
        const char *wrong = load(session, &file, at, fd);
        if (wrong)
            gs_session_end(session, GS_CLIENT_INVALID, "the daemon was sent %s", wrong);
    }
}

/* ---- opening and closing ---- */

static gs_wire_page *map_page(int fd, gs_error *error) {
    void *memory = mmap(NULL, gs_wire_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        return memory;
    gs_fail_system(error, "map", "memory for a client");
    return NULL;
}

static void close_descriptors(const gs_session_options *options) {
    close(options->page);
    close(options->bell);
    close(options->own_bell);
}

gs_session *gs_session_open(gs_server *server, const gs_session_options *options, gs_error *error) {
    gs_session *session = calloc(1, sizeof *session);
    gs_wire_page *page = session ? map_page(options->page, error) : NULL;
    size_t streams = ((size_t)server->slots.next + 1) * GS_CLIENT_STREAMS;
    bool has_room = GS_RESERVE(&server->sessions, 2) && GS_RESERVE(&server->contenders, streams) &&
                    GS_RESERVE(&server->asked, server->contenders.capacity) &&
                    GS_RESERVE(&server->placed, server->contenders.capacity);
    uint32_t slot = has_room && page ? gs_handles_take(&server->slots) : 0;
    if (!slot) {
        if (page)
            munmap(page, gs_wire_page_bytes());
        if (page || !session)
            gs_fail_memory(error);
        close_descriptors(options);
        free(session);
        return NULL;
    }
    *session = (gs_session){
        .server = server, .options = *options, .slot = slot, .page = page, .opened_ns = (uint64_t)gs_now_ns()};
    for (uint32_t i = 0; i < GS_CLIENT_STREAMS; i++)
        session->streams[i] = (gs_stream){.session = session, .number = i, .queue = slot * GS_CLIENT_STREAMS + i};
    gs_ring_attach(&session->ring, page + 1, GS_WIRE_RING_BYTES, options->bell);
    while (server->sessions.count <= slot)
        server->sessions.data[server->sessions.count++] = NULL;
    server->sessions.data[slot] = session;
    return session;
}

void gs_session_close(gs_session *session) {
    gs_session_end(session, GS_CLIENT_LOST, "closed");
    munmap(session->page, gs_wire_page_bytes());
    session->page = NULL;
    close_descriptors(&session->options);
    session->server->must_sweep = true;
}
