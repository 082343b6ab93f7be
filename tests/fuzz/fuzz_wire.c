/*
 * fuzz_wire.c: arbitrary commands of two clients, against a worker that checks all its requests.
 *
 * The input is a list of steps: a command of one of the clients, as it would be in its ring (with small first words, so
 * that it is almost valid, or any bytes), a file that claims to be a source, or a report of the worker. The worker here
 * only keeps records: all its requests must name resources that exist, stay within their bounds, and use only resources
 * of one client.
 */
#define _GNU_SOURCE
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a worker that keeps records ---- */

enum { MOST = 4096 };

struct resource {
    bool is_there;
    uint64_t bytes;
};

struct gs_worker {
    struct resource memories[MOST], regions[MOST], modules[MOST];
    gs_worker_report reports[2 * GS_SESSION_ACTIONS + 16];
    size_t first, count;
    gs_worker_facts facts;
};

static void must_hold(bool holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "fuzz_wire.c:%d: %s does not hold\n", line, what);
        abort();
    }
}
#define must(holds) must_hold(holds, #holds, __LINE__)

static bool had_false_report; /* then the records of daemon and worker may differ */

static void add_report(gs_worker *worker, uint32_t what, uint64_t tag, uint64_t blocks) {
    must(worker->count < GS_COUNT(worker->reports));
    size_t at = (worker->first + worker->count++) % GS_COUNT(worker->reports);
    worker->reports[at] =
        (gs_worker_report){.kind = what, .tag = tag, .blocks_done = blocks, .began_ns = 1, .ended_ns = 2};
}

static void check(const struct resource *list, uint32_t number, uint64_t at, uint64_t bytes) {
    must(number < MOST);
    must(had_false_report || (list[number].is_there && at <= list[number].bytes && bytes <= list[number].bytes - at));
}

static struct gs_worker the_worker;

gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error) {
    (void)options, (void)error;
    the_worker = (gs_worker){.facts = {.name = "stores", .sms = 8}};
    return &the_worker;
}

const gs_worker_facts *gs_worker_facts_of(const gs_worker *worker) {
    return &worker->facts;
}

int gs_worker_fd(const gs_worker *worker) {
    (void)worker;
    return -1;
}

bool gs_worker_peek(gs_worker *worker, gs_worker_report *report) {
    if (!worker->count)
        return false;
    *report = worker->reports[worker->first];
    worker->first = (worker->first + 1) % GS_COUNT(worker->reports);
    worker->count--;
    return true;
}

bool gs_worker_poll(gs_worker *worker, gs_worker_report *report) {
    (void)worker, (void)report;
    return false;
}

gs_code gs_worker_restart(gs_worker *worker, gs_error *error) {
    (void)error;
    *worker = (gs_worker){.facts = worker->facts};
    return GS_OK;
}

void gs_worker_close(gs_worker *worker) {
    (void)worker;
}

size_t gs_worker_backlog(const gs_worker *worker) {
    (void)worker;
    return 0;
}

gs_code gs_worker_allocate(gs_worker *worker, uint64_t tag, uint32_t memory, uint64_t bytes) {
    must(memory < MOST && (had_false_report || !worker->memories[memory].is_there) && bytes > 0);
    if (bytes > 1 << 20) {
        add_report(worker, GS_REPORT_ALLOCATED, tag, 0);
        worker->reports[(worker->first + worker->count - 1) % GS_COUNT(worker->reports)].code = GS_E_FULL;
        return GS_OK;
    }
    worker->memories[memory] = (struct resource){true, bytes};
    add_report(worker, GS_REPORT_ALLOCATED, tag, 0);
    return GS_OK;
}

void gs_worker_release(gs_worker *worker, uint32_t memory) {
    check(worker->memories, memory, 0, 0);
    worker->memories[memory].is_there = false;
}

gs_code gs_worker_share(gs_worker *worker, uint32_t region, int fd, uint64_t bytes) {
    (void)fd;
    must(region < MOST && !worker->regions[region].is_there);
    worker->regions[region] = (struct resource){true, bytes};
    return GS_OK;
}

void gs_worker_unshare(gs_worker *worker, uint32_t region) {
    check(worker->regions, region, 0, 0);
    worker->regions[region].is_there = false;
}

gs_code gs_worker_copy(gs_worker *worker, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    (void)in;
    must(queue != GS_WORKER_NO_QUEUE);
    check(worker->memories, memory, at, bytes);
    check(worker->regions, region, region_at, bytes);
    add_report(worker, GS_REPORT_COPIED, tag, 0);
    return GS_OK;
}

gs_code gs_worker_fill(gs_worker *worker, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    (void)value;
    must(queue != GS_WORKER_NO_QUEUE);
    check(worker->memories, memory, at, bytes);
    add_report(worker, GS_REPORT_COPIED, tag, 0);
    return GS_OK;
}

gs_code gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image) {
    (void)image;
    must(module < MOST && !worker->modules[module].is_there);
    worker->modules[module].is_there = true;
    add_report(worker, GS_REPORT_LOADED, tag, 0);
    return GS_OK;
}

void gs_worker_unload(gs_worker *worker, uint32_t module) {
    check(worker->modules, module, 0, 0);
    worker->modules[module].is_there = false;
}

gs_code gs_worker_start(gs_worker *worker, uint64_t tag, gs_worker_launch *launch) {
    unsigned char copy[GS_CLIENT_VALUE_BYTES];
    gs_launch_argument_view argument;
    uint32_t at = 0, count = 0;
    check(worker->modules, launch->request.handle, 0, 0);
    must(launch->kernel < 2 && launch->grid[0] && launch->grid[1] && launch->grid[2]);
    for (; gs_launch_next(launch, &at, &argument); count++) {
        must(argument.bytes <= sizeof copy);
        memcpy(copy, argument.value, argument.bytes); /* the sanitizer checks the access */
        if (argument.memory)
            check(worker->memories, argument.memory, argument.at, 1);
    }
    must(count == launch->argument_count && at == launch->argument_bytes);
    uint64_t blocks = gs_launch_blocks(launch);
    bool is_stopped = launch->form == GS_LAUNCH_CONFINED && blocks > 4 && !launch->first_block;
    add_report(worker, GS_REPORT_RAN, tag, is_stopped ? blocks / 4 : blocks);
    return GS_OK;
}

void gs_worker_confine(gs_worker *worker, uint64_t tag, const uint32_t *mask) {
    (void)worker, (void)tag, (void)mask;
}

uint64_t gs_worker_progress(const gs_worker *worker, uint64_t tag) {
    (void)worker, (void)tag;
    return 0;
}

/* ---- the clients ---- */

static void nothing_to_watch(void *context, gs_load *load) {
    (void)context, (void)load;
}

static void nothing_to_say(void *context, const char *line) {
    (void)context, (void)line;
}

/* Adds a region and a module, which would come over the socket. */
static void add_resources(gs_session *session) {
    enum { CAPACITY = 8 };
    for (int kind = GS_RESOURCE_REGION; kind < GS_RESOURCE_KINDS; kind++) {
        gs_resource_table *table = &session->resources[kind];
        table->data = calloc(CAPACITY, sizeof *table->data);
        gs_resource *resource = gs_resource_new(session, (enum gs_resource_kind)kind, 5000);
        must(table->data && resource);
        table->count = table->capacity = CAPACITY;
        table->data[1] = resource;
        resource->is_ready = true;
        resource->life = session->server->life;
        (kind == GS_RESOURCE_REGION ? the_worker.regions : the_worker.modules)[resource->handle] =
            (struct resource){true, 5000};
        if (kind == GS_RESOURCE_MODULE) {
            resource->image = calloc(1, sizeof *resource->image + 2 * sizeof resource->image->kernels[0]);
            must(resource->image);
            resource->image->kernel_count = 2;
            resource->image->kernels[0].can_be_confined = true;
        }
    }
}

static gs_session *open_session(gs_server *server) {
    gs_session_options options = {.weight = 1, .socket = -1};
    options.page = memfd_create("fuzz", 0);
    must(options.page >= 0 && ftruncate(options.page, (off_t)gs_wire_page_bytes()) == 0);
    gs_session *session = gs_session_open(server, &options, NULL);
    must(session);
    add_resources(session);
    return session;
}

/* ---- steps ---- */

struct reader {
    const uint8_t *data;
    size_t size;
};

static uint8_t next(struct reader *reader) {
    if (!reader->size)
        return 0;
    reader->size--;
    return *reader->data++;
}

/* Each word of the command is a byte of the input, or a large number. */
static void send_command(gs_session *session, struct reader *reader, uint8_t how) {
    alignas(8) uint32_t words[GS_WIRE_MOST_BYTES / 4] = {0};
#define SIZE(name, type) sizeof(type),
    static const size_t sizes[] = {GS_WIRE_COMMANDS(SIZE)};
#undef SIZE
    uint32_t what = next(reader) % (GS_WIRE_COMMAND_COUNT + 1);
    size_t count = (what < GS_WIRE_COMMAND_COUNT ? sizes[what] : 8) / 4;
    if (what == GS_WIRE_LAUNCH || how & 4)
        count += next(reader) % 64;
    for (size_t i = 1; i < count && i < GS_COUNT(words); i++) {
        words[i] = next(reader);
        if (how & 8 && words[i] == 255)
            words[i] = UINT32_MAX - next(reader);
    }
    words[0] = what;
    gs_session_command(session, words, gs_min_u64(count, GS_COUNT(words)) * 4);
}

static void unpack(struct reader *reader) {
    gs_image_request request = {0};
    uint32_t options = next(reader) % 5, kernels = next(reader) % 5;
    size_t size = next(reader) < reader->size ? next(reader) % (reader->size + 1) : reader->size;
    char *bytes = malloc(size + 1);
    must(bytes);
    memcpy(bytes, reader->data, size);
    bytes[size] = '\0';
    if (gs_source_unpack(bytes, size, options, kernels, &request))
        must(request.text >= bytes && request.text + request.size == bytes + size);
    gs_source_free_unpacked(&request, bytes);
}

/* A report without a reason: a kernel may have overwritten the memory of the worker. */
static void add_false_report(const gs_server *server, struct reader *reader) {
    uint32_t what = next(reader) % 6;
    size_t number = next(reader);
    uint64_t blocks = next(reader);
    had_false_report = true;
    if (server->actions.count)
        add_report(&the_worker, what, gs_action_tag(server->actions.data[number % server->actions.count]), blocks);
}

/* When both clients have disconnected, and all actions are done, no resources are left. */
static void nothing_is_left(const gs_server *server) {
    must(!gs_server_is_busy(server) && server->running == 0);
    for (size_t i = 0; i < server->sessions.count; i++)
        must(!server->sessions.data[i]);
    for (size_t i = 0; i < 64 && !had_false_report; i++)
        must(!the_worker.memories[i].is_there && !the_worker.regions[i].is_there && !the_worker.modules[i].is_there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_server_options options = {.watch = nothing_to_watch, .say = nothing_to_say, .limit_ns = UINT64_MAX / 2};
    enum { ENOUGH = 4096 };
    struct reader reader = {data, gs_min_u64(size, ENOUGH)};
    static gs_server *server;
    if (!server)
        server = gs_server_open(&options, NULL);
    must(server);
    server->options.shuffle_ns = next(&reader) & 1;
    if (had_false_report)
        the_worker = (gs_worker){.facts = the_worker.facts};
    had_false_report = false;
    gs_session *sessions[2] = {open_session(server), open_session(server)};
    while (reader.size) {
        uint8_t how = next(&reader);
        gs_session *session = sessions[how & 1];
        if (how >> 4 == 15)
            unpack(&reader);
        else if (how >> 4 == 14)
            add_false_report(server, &reader);
        else if (how >> 4 < 3 || the_worker.count > GS_SESSION_ACTIONS || session->actions >= GS_SESSION_ACTIONS)
            gs_server_work(server);
        else
            send_command(session, &reader, how);
    }
    gs_session_close(sessions[0]);
    gs_session_close(sessions[1]);
    while (the_worker.count || server->sessions.must_sweep)
        gs_server_work(server);
    nothing_is_left(server);
    return 0;
}
