/*
 * fuzz_wire.c: arbitrary clients, against a worker that checks all its requests.
 *
 * The input is a list of steps. A step is a command of one of two clients (likely: of small numbers, so that most are
 * valid; or any words), words of its page or its ring overwritten, a message with descriptors over its socket, a file
 * with or without its command, a client that leaves and another that comes, a whole connection with its hello, the end
 * of a compilation, reports of the worker that are late, that are errors, or that no request is the reason for, a lost
 * worker, or a question for the status.
 *
 * The worker here only keeps records: all its requests must name resources that exist, stay within their bounds, and
 * use only resources of one client. The compiler here compiles nothing. After each input all clients leave, and nothing
 * may be left of them, descriptors included.
 */
#define _GNU_SOURCE
#include "sharing/serve/daemon.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the worker is asked and the clients are told, as a number, and how many steps there were: test_random_clients.c
   compares them. */
extern uint64_t gs_wire_told, gs_wire_steps;
uint64_t gs_wire_told, gs_wire_steps;

static void tell(const void *bytes, size_t count) {
    gs_wire_told = gs_hash(gs_wire_told, bytes, count);
}
#define TELL(...) tell((const uint64_t[]){__VA_ARGS__}, sizeof(const uint64_t[]){__VA_ARGS__})

/* ---- a worker that keeps records ---- */

enum { MOST = 4096 };

struct resource {
    bool is_there;
    uint64_t bytes;
};

struct gs_worker {
    struct resource memories[MOST], regions[MOST], modules[MOST];
    gs_worker_report reports[8 * GS_SESSION_ACTIONS];
    size_t first, count, held; /* the last `held` of them are not shown yet */
    bool holds;                /* new reports are held */
    bool is_lost, cannot_start;
    gs_code next_code; /* of the next report */
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
    worker->reports[at] = (gs_worker_report){.kind = what,
                                             .code = worker->next_code,
                                             .tag = tag,
                                             .blocks_done = blocks,
                                             .began_ns = 1,
                                             .ended_ns = 2 + (blocks & 0xffff) * 10000};
    if (worker->next_code != GS_OK && tag % 2)
        snprintf(worker->reports[at].message, sizeof worker->reports[at].message, "it went wrong");
    worker->next_code = GS_OK;
    if (worker->holds)
        worker->held++;
}

static void show_reports(gs_worker *worker) {
    worker->held = 0;
    worker->holds = false;
}

static void check(const struct resource *list, uint32_t number, uint64_t at, uint64_t bytes) {
    must(number < MOST);
    must(had_false_report || (list[number].is_there && at <= list[number].bytes && bytes <= list[number].bytes - at));
}

static struct gs_worker the_worker;

/* As it is after a start. Reports are many, and none of them is looked at that was not written before. */
static void reset_worker(gs_worker *worker, bool forgets_resources) {
    worker->first = worker->count = worker->held = 0;
    worker->holds = worker->is_lost = worker->cannot_start = false;
    worker->next_code = GS_OK;
    if (!forgets_resources)
        return;
    memset(worker->memories, 0, sizeof worker->memories);
    memset(worker->regions, 0, sizeof worker->regions);
    memset(worker->modules, 0, sizeof worker->modules);
}

gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error) {
    (void)options, (void)error;
    the_worker.facts = (gs_worker_facts){.name = "stores", .sms = 8, .memory_bytes = 1 << 30};
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
    if (worker->count == worker->held)
        return false;
    *report = worker->reports[worker->first];
    worker->first = (worker->first + 1) % GS_COUNT(worker->reports);
    worker->count--;
    return true;
}

bool gs_worker_poll(gs_worker *worker, gs_worker_report *report) {
    if (!worker->is_lost)
        return false;
    worker->is_lost = false;
    *report = (gs_worker_report){.kind = GS_REPORT_LOST, .tag = UINT64_MAX, .message = "lost"};
    return true;
}

gs_code gs_worker_restart(gs_worker *worker, gs_error *error) {
    bool cannot_start = worker->cannot_start;
    reset_worker(worker, true);
    return cannot_start ? gs_fail(error, GS_E_IO, "it does not start") : GS_OK;
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
    TELL(1, tag, memory, bytes);
    must(memory < MOST && (had_false_report || !worker->memories[memory].is_there) && bytes > 0);
    if (bytes > 1 << 20 && worker->next_code == GS_OK)
        worker->next_code = GS_E_FULL;
    worker->memories[memory] = (struct resource){worker->next_code == GS_OK, bytes};
    add_report(worker, GS_REPORT_ALLOCATED, tag, 0);
    return GS_OK;
}

void gs_worker_release(gs_worker *worker, uint32_t memory) {
    TELL(2, memory);
    check(worker->memories, memory, 0, 0);
    worker->memories[memory].is_there = false;
}

gs_code gs_worker_share(gs_worker *worker, uint32_t region, int fd, uint64_t bytes) {
    (void)fd;
    TELL(3, region, bytes);
    must(region < MOST && !worker->regions[region].is_there);
    worker->regions[region] = (struct resource){true, bytes};
    return GS_OK;
}

void gs_worker_unshare(gs_worker *worker, uint32_t region) {
    TELL(4, region);
    check(worker->regions, region, 0, 0);
    worker->regions[region].is_there = false;
}

gs_code gs_worker_copy(gs_worker *worker, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    TELL(5, tag, queue, in, memory, at, region, region_at, bytes);
    must(queue != GS_WORKER_NO_QUEUE);
    check(worker->memories, memory, at, bytes);
    check(worker->regions, region, region_at, bytes);
    add_report(worker, GS_REPORT_COPIED, tag, 0);
    return GS_OK;
}

gs_code gs_worker_fill(gs_worker *worker, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    TELL(6, tag, queue, memory, at, bytes, value);
    must(queue != GS_WORKER_NO_QUEUE);
    check(worker->memories, memory, at, bytes);
    add_report(worker, GS_REPORT_COPIED, tag, 0);
    return GS_OK;
}

gs_code gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image) {
    (void)image;
    TELL(7, tag, module);
    must(module < MOST && !worker->modules[module].is_there);
    worker->modules[module].is_there = worker->next_code == GS_OK;
    add_report(worker, GS_REPORT_LOADED, tag, 0);
    return GS_OK;
}

void gs_worker_unload(gs_worker *worker, uint32_t module) {
    TELL(8, module);
    check(worker->modules, module, 0, 0);
    worker->modules[module].is_there = false;
}

gs_code gs_worker_start(gs_worker *worker, uint64_t tag, gs_worker_launch *launch) {
    unsigned char copy[GS_CLIENT_VALUE_BYTES];
    gs_launch_argument_view argument;
    uint32_t at = 0, count = 0;
    TELL(9, tag, launch->request.handle, launch->kernel, launch->form, launch->first_block, launch->argument_count,
         launch->task_blocks, launch->workers, launch->shared_bytes, launch->defer_report);
    tell(launch->grid, sizeof launch->grid);
    tell(launch->block, sizeof launch->block);
    tell(launch->mask, sizeof launch->mask);
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
    (void)worker;
    TELL(10, tag);
    tell(mask, GS_WORKER_MASK_WORDS * sizeof *mask);
}

uint64_t gs_worker_progress(const gs_worker *worker, uint64_t tag) {
    (void)worker, (void)tag;
    return 0;
}

uint64_t gs_worker_kernel_bytes(const gs_worker *worker) {
    (void)worker;
    return 0;
}

/* ---- a compiler that makes an image of two kernels of anything, or refuses it ---- */

static gs_image_job *compiling[GS_LOOK_UPS + GS_COMPILERS + GS_SLOW_JOBS]; /* more are never under way at a time */
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

const gs_error *gs_images_problem(const gs_images *of) {
    (void)of;
    return NULL;
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
        const gs_load *load = compiling[i]->owner;
        compilers += compiling[i]->kind && !load->is_slow;
        of_session += compiling[i]->kind && !load->is_slow && load->session == session;
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
    image->device_bytes = 4096;
    image->kernels[0].can_be_confined = true;
    image->kernels[0].form.most_blocks = GS_JOB_BLOCKS;
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

/* A client, its end of the socket, and the writer's end of its ring. */
struct client {
    gs_session *session;
    int near, far;
    gs_ring ring;
};

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

static void note_line(void *context, const char *line) {
    (void)context;
    tell(line, strlen(line));
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
        if (kind == GS_RESOURCE_MODULE)
            resource->image = new_image();
    }
}

static void come(struct client *client, gs_server *server, uint8_t kind) {
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
    *client = (struct client){.near = ends[0], .far = ends[1]};
    gs_session_options options = {
        .weight = 1 + kind % 3, .priority = kind / 4 % 3 - 1, .most_sms = kind / 16 % 4, .socket = client->near};
    options.page = memfd_create("fuzz", 0);
    must(options.page >= 0 && ftruncate(options.page, (off_t)gs_wire_page_bytes()) == 0);
    client->session = gs_session_open(server, &options, NULL);
    must(client->session);
    close(options.page);
    add_resources(client->session);
    gs_ring_attach_socket(&client->ring, client->session->page + 1, GS_WIRE_RING_BYTES, client->far);
}

/* What a client sees on its page. */
static void tell_page(const gs_wire_page *page) {
    tell(page->end_message, strnlen(page->end_message, sizeof page->end_message));
    tell(page->streams, sizeof page->streams);
    tell(page->replies, sizeof page->replies);
    tell(page->events, sizeof page->events);
}

/* How often the daemon has woken the client. */
static void tell_bells(const struct client *client) {
    char bell;
    uint64_t bells = 0;
    while (recv(client->far, &bell, sizeof bell, MSG_DONTWAIT) == sizeof bell)
        bells++;
    TELL(bells);
}

static void leave(struct client *client) {
    tell_page(client->session->page);
    tell_bells(client);
    gs_session_close(client->session);
    close(client->near);
    close(client->far);
}

/* ---- commands ---- */

/* A command that is likely to be valid, with what is allowed to be anything taken from the input. */
static uint32_t likely_command(struct reader *reader, uint32_t *words, uint32_t what) {
    uint32_t stream = next(reader) % 4u, handle = 1 + next(reader) % 3u, other = 1 + next(reader) % 3u;
    uint64_t bytes = 1 + next(reader), at = next(reader) % 8u, command = what;
    const gs_wire_head head = {.command = (uint32_t)command, .stream = stream};
    const gs_wire_allocate allocate = {
        .head = head, .reply = handle, .ticket = other, .memory = handle, .bytes = bytes};
    const gs_wire_free forget = {.head = head, .handle = handle};
    const gs_wire_copy copy = {
        .head = head, .memory = handle, .region = other, .at = at, .region_at = at, .bytes = 1 + bytes / 2};
    const gs_wire_fill fill = {.head = head, .memory = handle, .value = (uint32_t)at, .at = at, .bytes = 1 + bytes / 2};
    const gs_wire_record record = {.head = head, .event = handle};
    gs_wire_launch launch = {.head = head,
                             .module = handle,
                             .kernel = other % 2,
                             .grid = {(uint32_t)bytes, 1 + (uint32_t)at, 1},
                             .block = {1 + (uint32_t)at * 32, 1, 1},
                             .arguments = other};
    uint32_t size = sizeof launch;
    bool is_wrong = bytes == 256; /* a launch: in one of three ways */
    if (is_wrong && at % 3 == 0)
        launch.grid[1] = launch.grid[2] = 1u << 30;
    switch (what) {
    case GS_WIRE_ALLOCATE:
        memcpy(words, &allocate, sizeof allocate);
        return sizeof allocate;
    case GS_WIRE_COPY_IN:
    case GS_WIRE_COPY_OUT:
        memcpy(words, &copy, sizeof copy);
        return sizeof copy;
    case GS_WIRE_FILL:
        memcpy(words, &fill, sizeof fill);
        return sizeof fill;
    case GS_WIRE_EVENT:
        memcpy(words, &record, sizeof record);
        return sizeof record;
    case GS_WIRE_LAUNCH:
        memcpy(words, &launch, sizeof launch);
        for (uint32_t i = 0; i < launch.arguments; i++, size += 16) {
            uint32_t memory = next(reader) % 4u;
            words[size / 4] = memory;
            words[size / 4 + 1] = memory ? 8 : 1 + next(reader) % 8u;
            words[size / 4 + 2] = next(reader) % 4u;
        }
        if (is_wrong && at % 3 == 1)
            words[offsetof(gs_wire_launch, arguments) / 4] += 8;
        if (is_wrong && at % 3 == 2)
            words[size / 4 - 3] = GS_CLIENT_VALUE_BYTES + 1;
        return size;
    default:
        memcpy(words, &forget, sizeof forget);
        return sizeof forget;
    }
}

/* Each word of the command is a byte of the input, or a large number. */
static uint32_t any_command(struct reader *reader, uint32_t *words, size_t most, uint32_t what, uint8_t how) {
#define SIZE(name, type) sizeof(type),
    static const size_t sizes[] = {GS_WIRE_COMMANDS(SIZE)};
#undef SIZE
    size_t count = (what < GS_WIRE_COMMAND_COUNT ? sizes[what] : 8) / 4;
    if (what == GS_WIRE_LAUNCH || how & 4)
        count += next(reader) % 64;
    for (size_t i = 1; i < count && i < most; i++) {
        words[i] = next(reader);
        if (how & 8 && words[i] == 255)
            words[i] = UINT32_MAX - next(reader);
    }
    words[0] = what;
    return (uint32_t)gs_min_u64(count, most) * 4;
}

/* Through the ring, as far as there is space, or directly, as the daemon does while there is a worker. */
static void send_command(struct client *client, struct reader *reader, uint8_t how, bool is_likely) {
    alignas(8) uint32_t words[GS_WIRE_MOST_BYTES / 4] = {0};
    uint8_t choice = next(reader);
    uint32_t what = choice % 16u, bytes;
    if (what > GS_WIRE_COMMAND_COUNT)
        what = is_likely ? GS_WIRE_LAUNCH : GS_WIRE_COMMAND_COUNT;
    bytes = is_likely ? likely_command(reader, words, what % GS_WIRE_COMMAND_COUNT)
                      : any_command(reader, words, GS_COUNT(words), what, how);
    if (choice & 128 || client->session->server->is_down)
        gs_ring_put(&client->ring, words, bytes);
    else
        gs_session_command(client->session, words, bytes);
}

/* Overwrites a word of the page or of the ring. The first words of the ring are its positions. */
static void overwrite(const struct client *client, struct reader *reader) {
    uint32_t *words = (uint32_t *)client->session->page;
    uint8_t where = next(reader);
    size_t in_page = sizeof(gs_wire_page) / 4, count = gs_wire_page_bytes() / 4,
           at = where < 64    ? (size_t)where * 16
                : where < 128 ? in_page + (where - 64u) * 4
                              : in_page + where * 97u;
    words[at % count] = next(reader) | (where & 1 ? (uint32_t)next(reader) << 24 : 0);
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

/* A source with its name, an option and two kernels. */
static int new_source(struct reader *reader, size_t *bytes) {
    static const char start[] = "a.cu\0-DA\0k\0l";
    char text[sizeof start + 8];
    size_t more = next(reader) % 8u;
    memset(text, ' ', sizeof text);
    memcpy(text, start, sizeof start);
    *bytes = sizeof start + more;
    int fd = memfd_create("fuzz", MFD_ALLOW_SEALING);
    must(fd >= 0 && write(fd, text, *bytes) == (ssize_t)*bytes);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

/* A file, and mostly the command that goes with it; or a message that is neither a file nor a ring. */
static void send_file(const struct client *client, struct reader *reader) {
    uint8_t kind = next(reader);
    size_t bytes;
    bool is_source = kind % 8 == 5;
    int fd = is_source ? new_source(reader, &bytes) : new_file(reader, kind, &bytes);
    const char message[2] = {kind % 32 == 31 ? (char)kind : GS_WIRE_FILE, 0};
    must(fd >= 0);
    gs_descriptors_send(client->far, message, kind % 32 == 30 ? 2 : 1, &fd, kind % 32 != 29, MSG_DONTWAIT);
    close(fd);
    gs_wire_share share = {.head = {.command = GS_WIRE_SHARE}, .region = next(reader) % 16u, .bytes = bytes};
    gs_wire_load load = {.head = {.command = GS_WIRE_LOAD},
                         .module = next(reader) % 16u,
                         .options = is_source ? 1 : next(reader) % 3u,
                         .kernels = is_source ? 2 : next(reader) % 4u,
                         .bytes = bytes};
    share.reply = load.reply = is_source ? 0 : next(reader) % (GS_WIRE_REPLIES + 1u);
    share.ticket = load.ticket = 7u * kind;
    if (kind >> 5 == 0 || client->session->server->is_down)
        return;
    if (kind & 8 && !is_source)
        gs_session_command(client->session, &share, sizeof share);
    else
        gs_session_command(client->session, &load, sizeof load);
}

/* A message of any length with any number of descriptors, and what the client did to its end of the socket. */
static void send_message(const struct client *client, struct reader *reader) {
    char bytes[64] = {0};
    uint8_t kind = next(reader);
    size_t size = next(reader) % sizeof bytes, count = kind % 6u;
    int fds[6] = {0};
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)next(reader);
    gs_descriptors_send(client->far, bytes, size, fds, count, MSG_DONTWAIT);
    if (kind & 8)
        fcntl(client->far, F_SETFL, kind & 16 ? O_NONBLOCK : 0);
    if (kind & 32)
        shutdown(client->far, kind & 64 ? SHUT_WR : SHUT_RD);
    gs_session_receive(client->session);
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

/* ---- connections ---- */

static uv_loop_t loop;
static gs_connections connections;
static int listening = -1;
static struct sockaddr_un address;
static socklen_t address_size;

static void listen_once(gs_server *server) {
    if (listening >= 0)
        return;
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    address_size = sizeof address;
    listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    must(listening >= 0 && bind(listening, (struct sockaddr *)&address, sizeof address.sun_family) == 0);
    must(listen(listening, 8) == 0 && getsockname(listening, (struct sockaddr *)&address, &address_size) == 0);
    must(uv_loop_init(&loop) == 0);
    gs_connections_open(&connections, &loop, server);
}

/* Connects, says something like a hello, then perhaps something more, and leaves. */
static void connect_once(struct reader *reader) {
    uint8_t kind = next(reader);
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC,
                           .version = GS_WIRE_VERSION - (kind & 1 && kind & 2),
                           .kind = 1 + kind / 4 % 4u,
                           .weight = next(reader) * 8u,
                           .priority = (int8_t)next(reader),
                           .most_sms = next(reader)};
    char bytes[300] = {0};
    size_t size = kind & 32 ? next(reader) : sizeof hello;
    int fds[2] = {0, 1}, far = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    for (size_t i = 0; i < sizeof hello.name; i += 8)
        hello.name[i] = (char)next(reader);
    memcpy(bytes, &hello, sizeof hello);
    must(far >= 0 && connect(far, (struct sockaddr *)&address, address_size) == 0);
    connections.is_stopping = kind & 64 && kind & 128;
    gs_descriptors_send(far, bytes, size, fds, kind % 4u == 2 ? 2 : 0, MSG_DONTWAIT);
    connections.accept_after_ns = 0;
    gs_connections_accept(&connections, listening);
    uv_run(&loop, UV_RUN_NOWAIT);
    gs_descriptors_send(far, bytes, kind / 16 % 4u, fds, kind / 16 % 2u, MSG_DONTWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    close(far);
    for (int i = 0; i < 100 && (connections.first || connections.silent); i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    must(!connections.first && !connections.silent);
}

/* ---- the worker, the status ---- */

/* A report without a reason: a kernel may have overwritten the memory of the worker. */
static void add_false_report(const gs_server *server, struct reader *reader) {
    uint32_t what = next(reader) % 6;
    size_t number = next(reader);
    uint64_t blocks = next(reader);
    had_false_report = true;
    if (server->actions.count)
        add_report(&the_worker, what, gs_action_tag(server->actions.data[number % server->actions.count]), blocks);
}

static void change_worker(gs_server *server, struct reader *reader) {
    static const gs_code codes[] = {GS_E_USAGE, GS_E_FULL, GS_E_KERNEL, GS_E_MEMORY};
    uint8_t how = next(reader);
    if (how < 64)
        the_worker.holds = true;
    else if (how < 128)
        the_worker.next_code = codes[how % GS_COUNT(codes)];
    else if (how < 192)
        the_worker.is_lost = true; /* it is noticed when limits are checked */
    else
        the_worker.cannot_start = true;
    if (how & 1)
        server->checked_ns = server->tried_ns = 0;
    if (how == 127)
        server->options.limit_ns = 1;
}

/* The numbers of the status that depend on neither the machine nor the process: who is a user or a family of processes
   does. */
static void tell_status(const char *json) {
    static const char *const others[] = {"process\":", "resident_bytes\":", "limit\":"};
    const char *users = strstr(json, "\"users\":["), *clients = strstr(json, "\"clients\":[");
    must(users && clients);
    for (const char *at = json; (at = strchr(at, ':')); at++) {
        static const char used[] = "used\":";
        bool is_used = memcmp(at + 1 - strlen(used), used, strlen(used)) == 0;
        bool is_other = at > users && at < clients && !is_used;
        for (size_t i = 0; i < GS_COUNT(others); i++) {
            size_t length = strlen(others[i]);
            is_other |= (size_t)(at + 1 - json) >= length && memcmp(at + 1 - length, others[i], length) == 0;
        }
        if (!is_other)
            tell(at, strcspn(at, ",{}["));
    }
}

/* What clients and programs can ask for. */
static void ask(const gs_server *server) {
    gs_text json = {0}, metrics = {0};
    gs_status_json(server, &json);
    gs_metrics_text(server, &metrics);
    must(json.count && metrics.count);
    tell_status(json.data);
    tell(metrics.data, metrics.count);
    gs_text_free(&json);
    gs_text_free(&metrics);
}

/* ---- an input ---- */

static void step(gs_server *server, struct client *client, struct reader *reader, uint8_t how) {
    uint64_t most_ns = 0;
    gs_wire_steps++;
    switch (how >> 3) {
    case 0:
    case 1:
    case 2:
        gs_server_work(server);
        break;
    case 3:
        TELL(gs_server_sleep(server, &most_ns), most_ns);
        gs_session_receive(client->session);
        break;
    case 4:
        overwrite(client, reader);
        break;
    case 5:
        change_worker(server, reader);
        break;
    case 6:
        if (server->is_down) /* nobody is let in */
            break;
        leave(client);
        come(client, server, next(reader));
        break;
    case 7:
        if (how & 2)
            ask(server);
        else
            connect_once(reader);
        break;
    case 8:
        send_message(client, reader);
        break;
    case 9:
        show_reports(&the_worker);
        break;
    case 10:
    case 11:
        send_command(client, reader, how, false);
        break;
    case 24:
    case 25:
        send_file(client, reader);
        break;
    case 26:
    case 27:
        if (compiling_count)
            finish_compiling(server, how % compiling_count);
        break;
    case 28:
        add_false_report(server, reader);
        break;
    case 29:
        unpack(reader);
        break;
    default:
        send_command(client, reader, how, true);
    }
}

/* When all clients have left, and all actions are done, no resources are left. */
static void nothing_is_left(const gs_server *server) {
    gs_text json = {0};
    gs_status_json(server, &json);
    for (const char *at = json.data; (at = strstr(at, "\"used\":")); at++)
        must(at[strlen("\"used\":")] == '0');
    gs_text_free(&json);
    must(!gs_server_is_busy(server) && server->running == 0);
    for (size_t i = 0; i < server->sessions.count; i++)
        must(!server->sessions.data[i]);
    for (size_t i = 0; i < 64 && !had_false_report; i++)
        must(!the_worker.memories[i].is_there && !the_worker.regions[i].is_there && !the_worker.modules[i].is_there);
}

/* So that what happens next does not depend on the threads that close. */
static void wait_for_closing(gs_server *server) {
    while (server->closing.count) {
        gs_closing_collect(&server->closing, &server->quotas);
        sched_yield();
    }
}

static void finish(gs_server *server) {
    show_reports(&the_worker);
    the_worker.cannot_start = false;
    while (the_worker.count || server->sessions.must_sweep || compiling_count || server->is_down) {
        if (compiling_count)
            finish_compiling(server, 0);
        if (server->is_down)
            server->checked_ns = server->tried_ns = 0;
        gs_server_work(server);
    }
}

static int lowest_descriptor(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

/* Which of 64 descriptors from the lowest free one on are open, as bits. The runtime of the sanitizer may have some. */
static uint64_t open_from(int lowest) {
    uint64_t open = 0;
    for (int i = 0; i < 64; i++)
        if (fcntl(lowest + i, F_GETFD) >= 0)
            open |= (uint64_t)1 << i;
    return open;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_server_options options = {.say = note_line, .limit_ns = UINT64_MAX / 2};
    enum { ENOUGH = 1024 };
    struct reader reader = {data, gs_min_u64(size, ENOUGH)};
    static gs_server *server;
    if (!server)
        server = gs_server_open(&options, NULL);
    must(server);
    listen_once(server);
    server->options.shuffle_ns = next(&reader) & 1;
    server->options.limit_ns = options.limit_ns;
    reset_worker(&the_worker, had_false_report);
    had_false_report = false;
    int lowest = lowest_descriptor();
    uint64_t open_before = open_from(lowest);
    struct client clients[2];
    come(&clients[0], server, 0);
    come(&clients[1], server, 0);
    while (reader.size) {
        uint8_t how = next(&reader);
        struct client *client = &clients[how & 1];
        if (the_worker.count > GS_SESSION_ACTIONS || client->session->actions >= GS_SESSION_ACTIONS) {
            show_reports(&the_worker);
            gs_server_work(server);
        } else {
            step(server, client, &reader, how);
        }
        wait_for_closing(server);
    }
    leave(&clients[0]);
    leave(&clients[1]);
    finish(server);
    wait_for_closing(server);
    nothing_is_left(server);
    must(!server->loads.count && !server->loads.bytes && !server->loads.compiling && !server->loads.finding &&
         !server->loads.waiting[GS_LOAD_FINDS] && !server->loads.waiting[GS_LOAD_COMPILES]);
    must(open_from(lowest) == open_before);
    return 0;
}
