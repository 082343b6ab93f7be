/*
 * fuzz_wire.c: arbitrary commands of two clients, against a worker that checks all its requests.
 *
 * The input is a list of steps: a command of one of the clients, as it would be in its ring (with small first words, so
 * that it is almost valid, or any bytes), a file over its socket, with or without its command, the end of a
 * compilation, or a report of the worker. The worker here only keeps records: all its requests must name resources that
 * exist, stay within their bounds, and use only resources of one client. The compiler here compiles nothing.
 */
#define _GNU_SOURCE
#include "serve/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
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
    the_worker = (gs_worker){.facts = {.name = "stores", .sms = 8, .memory_bytes = 1 << 30}};
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

uint64_t gs_worker_owes_ns(gs_worker *worker, uint64_t now_ns, bool *is_alive) {
    (void)worker, (void)now_ns;
    *is_alive = true;
    return 0;
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

/* ---- a compiler that makes an image of two kernels of anything, or refuses it ---- */

static gs_image_job *compiling[GS_LOOK_UPS + GS_COMPILERS]; /* more are never under way at a time */
static size_t compiling_count;
static gs_image_job *done;
static uint64_t taken_ns; /* what jobs take, so that clients differ */

gs_images *gs_images_open(const char *folder, gs_error *error) {
    static int any;
    (void)folder, (void)error;
    return (gs_images *)&any;
}

void gs_images_close(gs_images *images) {
    (void)images;
}

int gs_images_fd(const gs_images *images) {
    (void)images;
    return -1;
}

gs_image_job *gs_image_job_new(const gs_image_request *request, void *owner) {
    gs_image_job *job = calloc(1, sizeof *job);
    must(job);
    *job = (gs_image_job){.request = *request, .owner = owner};
    return job;
}

void gs_images_find(gs_images *images, gs_image_job *job) {
    (void)images;
    must(compiling_count < GS_COUNT(compiling));
    job->kind = 0;
    compiling[compiling_count++] = job;
}

void gs_images_compile(gs_images *images, gs_image_job *job) {
    gs_images_find(images, job);
    job->kind = 1;
    const gs_session *session = ((const gs_load *)job->owner)->session;
    size_t compilers = 0, of_session = 0;
    for (size_t i = 0; i < compiling_count; i++) {
        compilers += (size_t)compiling[i]->kind;
        of_session += compiling[i]->kind && ((const gs_load *)compiling[i]->owner)->session == session;
    }
    must(compilers <= GS_COMPILERS && of_session < GS_COMPILERS); /* one is left for others */
}

gs_image_job *gs_images_take(gs_images *images) {
    gs_image_job *job = done;
    (void)images;
    done = NULL;
    return job;
}

void gs_image_job_stop(gs_image_job *job) {
    job->stop = 1;
}

void gs_images_drop(gs_images *images, gs_image_job *job) {
    (void)images;
    gs_image_free(job->image);
    close(job->request.source);
    free(job);
}

static gs_image *new_image(void) {
    gs_image *image = calloc(1, sizeof *image + 2 * sizeof image->kernels[0]);
    must(image);
    image->kernel_count = 2;
    image->kernels[0].can_be_confined = true;
    return image;
}

void gs_image_close(gs_image *image) {
    (void)image;
}

void gs_image_free(gs_image *image) {
    free(image);
}

/* Of five sources two are in the cache, one is refused at once, and one by the compiler. */
static void finish_compiling(gs_server *server, size_t which) {
    gs_image_job *job = compiling[which];
    compiling[which] = compiling[--compiling_count];
    uint64_t kind = job->request.bytes % 5;
    job->error.code = GS_OK;
    job->must_compile = false;
    if (job->stop || kind == 4 || (kind == 3 && job->kind))
        gs_fail(&job->error, kind == 4 ? GS_E_FORMAT : GS_E_KERNEL, "refused");
    else if (job->kind || kind < 2)
        job->image = new_image();
    else
        job->must_compile = true;
    job->took_ns = taken_ns += 1000;
    done = job;
    gs_loads_collect(server);
}

/* ---- the clients ---- */

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
            resource->image = new_image();
        }
    }
}

/* `*far` is the client's end of the socket. */
static gs_session *open_session(gs_server *server, int *far) {
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
    *far = ends[1];
    gs_session_options options = {.weight = 1, .socket = ends[0]};
    options.page = memfd_create("fuzz", 0);
    must(options.page >= 0 && ftruncate(options.page, (off_t)gs_wire_page_bytes()) == 0);
    gs_session *session = gs_session_open(server, &options, NULL);
    must(session);
    close(options.page);
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

/* ---- files ---- */

/* Sealed memory with bytes of the input, memory that is not sealed, or something else. */
static int new_file(struct reader *reader, uint8_t kind, size_t *bytes) {
    *bytes = next(reader) % 64u;
    *bytes = gs_min_u64(*bytes, reader->size);
    if (kind % 8 == 7)
        return open("/dev/zero", O_RDWR);
    int fd = memfd_create("fuzz", MFD_ALLOW_SEALING);
    must(fd >= 0 && write(fd, reader->data, *bytes) == (ssize_t)*bytes);
    reader->data += *bytes;
    reader->size -= *bytes;
    if (kind % 8 != 6)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (kind & 8 ? 0 : F_SEAL_WRITE));
    return fd;
}

/* A file, and mostly the command that goes with it; or a message that is neither a file nor a ring. */
static void send_file(gs_session *session, int far, struct reader *reader) {
    uint8_t kind = next(reader);
    size_t bytes;
    int fd = new_file(reader, kind, &bytes);
    const char message[2] = {kind % 32 == 31 ? (char)kind : GS_WIRE_FILE, 0};
    must(fd >= 0);
    gs_descriptors_send(far, message, kind % 32 == 30 ? 2 : 1, &fd, kind % 32 != 29, MSG_DONTWAIT);
    close(fd);
    gs_wire_share share = {.head = {.command = GS_WIRE_SHARE}, .region = next(reader) % 16u, .bytes = bytes};
    gs_wire_load load = {.head = {.command = GS_WIRE_LOAD},
                         .module = next(reader) % 16u,
                         .options = next(reader) % 3u,
                         .kernels = next(reader) % 4u,
                         .bytes = bytes};
    share.reply = load.reply = next(reader) % (GS_WIRE_REPLIES + 1u);
    if (kind >> 5 == 0)
        return;
    if (kind & 8)
        gs_session_command(session, &share, sizeof share);
    else
        gs_session_command(session, &load, sizeof load);
}

static void unpack(struct reader *reader) {
    gs_image_source source;
    uint32_t options = next(reader) % 5, kernels = next(reader) % 5;
    size_t size = next(reader) < reader->size ? next(reader) % (reader->size + 1) : reader->size;
    char *bytes = malloc(size + 1);
    must(bytes);
    memcpy(bytes, reader->data, size);
    if (gs_image_unpack(bytes, size, options, kernels, &source, NULL) == GS_OK)
        must(source.text >= bytes && source.text + source.size == bytes + size);
    free(bytes);
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
    gs_server_options options = {.say = nothing_to_say, .limit_ns = UINT64_MAX / 2};
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
    int far[2];
    gs_session *sessions[2] = {open_session(server, &far[0]), open_session(server, &far[1])};
    const int near[2] = {sessions[0]->options.socket, sessions[1]->options.socket};
    while (reader.size) {
        uint8_t how = next(&reader);
        gs_session *session = sessions[how & 1];
        if (how >> 4 == 15)
            unpack(&reader);
        else if (how >> 4 == 14)
            add_false_report(server, &reader);
        else if (how >> 4 == 13 && compiling_count)
            finish_compiling(server, how % compiling_count);
        else if (how >> 4 == 13)
            gs_session_receive(session);
        else if (how >> 4 < 3 || the_worker.count > GS_SESSION_ACTIONS || session->actions >= GS_SESSION_ACTIONS)
            gs_server_work(server);
        else if (how >> 4 == 12)
            send_file(session, far[how & 1], &reader);
        else
            send_command(session, &reader, how);
    }
    gs_session_close(sessions[0]);
    gs_session_close(sessions[1]);
    while (the_worker.count || server->sessions.must_sweep || compiling_count) {
        if (compiling_count)
            finish_compiling(server, 0);
        gs_server_work(server);
    }
    for (int i = 0; i < 2; i++) {
        close(near[i]);
        close(far[i]);
    }
    nothing_is_left(server);
    must(!server->loads.count && !server->loads.bytes && !server->loads.compiling && !server->loads.finding &&
         !server->loads.waiting[GS_LOAD_FINDS] && !server->loads.waiting[GS_LOAD_COMPILES]);
    return 0;
}
