/*
 * test_loads.c: clients send sources at random, which are looked up, compiled and handed to the worker, and what the
 * daemon begins, and what the clients are told, is compared with the rules of src/sharing/serve/loading.c. They are
 * written out here over one list of sources: whoever is asked for walks through it.
 *
 * The clock is played. The jobs of src/sharing/image and the worker end when the test says so.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MS = 1000000,
    SECOND = 1000000000,
    CLIENTS = 20,
    SOURCES = 2500,
    PLACES = GS_LOOK_UPS + GS_COMPILERS + GS_SLOW_JOBS,
    DEVICE_BYTES = 1 << 20,
    MOST_NOTES = 4096,
};

/* ---- what happens, as notes ---- */

enum event { FOUND, COMPILED, STOPPED, DROPPED, LOADED, CLOSED, REPLIED };

struct note {
    enum event event;
    uint32_t source; /* its number */
    int code;
    char message[60];
};

/* What the daemon does, and what it should do. */
static struct notes {
    struct note list[MOST_NOTES];
    size_t count;
} done, wanted;

static void note(struct notes *notes, enum event event, uint32_t source, int code, const char *message) {
    assert_true(notes->count < MOST_NOTES);
    struct note *added = &notes->list[notes->count++];
    memset(added, 0, sizeof *added);
    added->event = event;
    added->source = source;
    added->code = code;
    snprintf(added->message, sizeof added->message, "%s", message);
}

static void compare_notes(void) {
    for (size_t i = 0; i < done.count && i < wanted.count; i++) {
        assert_int_equal(done.list[i].event, wanted.list[i].event);
        assert_int_equal(done.list[i].source, wanted.list[i].source);
        assert_int_equal(done.list[i].code, wanted.list[i].code);
        assert_string_equal(done.list[i].message, wanted.list[i].message);
    }
    assert_int_equal(done.count, wanted.count);
    done.count = wanted.count = 0;
}

/* ---- the rest of the daemon ---- */

static gs_image_job *finished[PLACES];
static size_t finished_count;
static int images_alive;
static bool worker_must_fail;
static struct {
    uint64_t tag;
    uint32_t source;
} with_worker[SOURCES];
static size_t with_worker_count;

/* The number of a source is its count of kernels. */
static uint32_t number_of(const gs_image_job *job) {
    return job->request.kernel_count;
}

gs_image_job *__wrap_gs_image_job_new(const gs_image_request *request, void *owner);
gs_image_job *__wrap_gs_image_job_new(const gs_image_request *request, void *owner) {
    gs_image_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    *job = (gs_image_job){.request = *request, .owner = owner};
    assert_true(request->has_others && request->architecture == 90 && request->counts_blocks);
    assert_string_equal(request->program, "program");
    return job;
}

void __wrap_gs_images_find(gs_images *images, gs_image_job *job);
void __wrap_gs_images_find(gs_images *images, gs_image_job *job) {
    (void)images;
    note(&done, FOUND, number_of(job), 0, "");
}

void __wrap_gs_images_compile(gs_images *images, gs_image_job *job);
void __wrap_gs_images_compile(gs_images *images, gs_image_job *job) {
    (void)images;
    note(&done, COMPILED, number_of(job), 0, "");
}

gs_image_job *__wrap_gs_images_take(gs_images *images);
gs_image_job *__wrap_gs_images_take(gs_images *images) {
    (void)images;
    return finished_count ? finished[--finished_count] : NULL;
}

void __wrap_gs_image_job_stop(gs_image_job *job);
void __wrap_gs_image_job_stop(gs_image_job *job) {
    note(&done, STOPPED, number_of(job), 0, "");
}

void __wrap_gs_image_free(gs_image *image);
void __wrap_gs_image_free(gs_image *image) {
    images_alive -= image != NULL;
    free(image);
}

void __wrap_gs_images_drop(gs_images *images, gs_image_job *job);
void __wrap_gs_images_drop(gs_images *images, gs_image_job *job) {
    (void)images;
    note(&done, DROPPED, number_of(job), 0, "");
    __wrap_gs_image_free(job->image);
    free(job);
}

static uint32_t number_of_image(const gs_image *image) {
    uint32_t number = 0;
    assert_int_equal(sscanf(image->key, "%16x", &number), 1);
    return number;
}

void __wrap_gs_image_close(gs_image *image);
void __wrap_gs_image_close(gs_image *image) {
    note(&done, CLOSED, number_of_image(image), 0, "");
}

static const char TOO_LARGE[] = "a client may have at most so many bytes";

static gs_server server;

gs_code __wrap_gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image);
gs_code __wrap_gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image) {
    const gs_action *action = gs_action_find(&server, tag);
    (void)worker;
    assert_non_null(action);
    assert_true(action->resource->handle == module && action->resource->image == image);
    assert_true(action->resource->source == number_of_image(image) && action->resource->ns_per_block);
    note(&done, LOADED, number_of_image(image), 0, "");
    if (worker_must_fail)
        return GS_E_MEMORY;
    with_worker[with_worker_count].tag = tag;
    with_worker[with_worker_count++].source = number_of_image(image);
    return GS_OK;
}

void __wrap_gs_worker_unload(gs_worker *worker, uint32_t module);
void __wrap_gs_worker_unload(gs_worker *worker, uint32_t module) {
    (void)worker, (void)module;
}

size_t __wrap_gs_worker_backlog(const gs_worker *worker);
size_t __wrap_gs_worker_backlog(const gs_worker *worker) {
    (void)worker;
    return 0;
}

void __wrap_gs_page_reply(gs_session *session, uint32_t slot, uint32_t ticket, gs_client_code code,
                          const char *message);
void __wrap_gs_page_reply(gs_session *session, uint32_t slot, uint32_t ticket, gs_client_code code,
                          const char *message) {
    (void)session;
    assert_int_equal(slot, ticket % GS_WIRE_REPLIES);
    note(&done, REPLIED, ticket, (int)code, strstr(message, "bytes of device memory") ? TOO_LARGE : message);
}

int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user);
int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user) {
    (void)families, (void)proc, (void)user;
    return process / 3;
}

/* ---- sources and clients, as the rules see them ---- */

enum state { NOT_SENT, WAITS, RUNS, IS_LOADED, IS_GONE };

struct source {
    enum state state;
    int client; /* -1: it was ended meanwhile */
    int process;
    enum gs_load_stage stage;
    uint64_t bytes;
    uint64_t place; /* among those that wait: the number of when it came */
    uint64_t since_ns;
    bool is_slow;
    gs_image_job *job;
    uint64_t device_bytes;
};

static struct source sources[SOURCES]; /* 0: none */
static uint32_t source_count;

static struct client {
    gs_session *session;
    int socket, process;
    uint64_t used_ns[GS_LOAD_STAGES], active_ns;
    uint64_t device_bytes;
} clients[CLIENTS];

static struct {
    uint64_t now_ns, share_ns[GS_LOAD_STAGES], moves;
    uint32_t running[PLACES]; /* sources; 0: free */
    uint32_t loading;
    uint64_t loading_since_ns, next_after_ns;
    int launches, cores;
    int last_active[2]; /* clients, the last one first; -1: nobody */
    bool is_down;
} world;

static gs_random generator;

static int64_t draw(int64_t from, int64_t to) {
    return gs_random_from(&generator, from, to);
}

static struct source *source_of(uint32_t number) {
    return &sources[number];
}

static bool is_large(const struct source *source) {
    return source->bytes > 1 << 20;
}

static int running_of(int client, enum gs_load_stage stage) {
    int count = 0;
    for (uint32_t i = 1; i <= source_count; i++)
        count += sources[i].state == RUNS && sources[i].client == client && sources[i].stage == stage;
    return count;
}

static bool is_busy(int client, enum gs_load_stage stage) {
    for (uint32_t i = 1; i <= source_count; i++)
        if ((sources[i].state == WAITS || sources[i].state == RUNS) && sources[i].client == client &&
            sources[i].stage == stage)
            return true;
    return false;
}

/* How many run that were not set aside, or were. */
static int count_running(enum gs_load_stage stage, bool is_slow, bool large_only) {
    int count = 0;
    for (uint32_t i = 1; i <= source_count; i++)
        count += sources[i].state == RUNS && (is_slow || sources[i].stage == stage) && sources[i].is_slow == is_slow &&
                 (!large_only || is_large(&sources[i]));
    return count;
}

/* The first that waits; 0: none. */
static uint32_t first_of(int client, enum gs_load_stage stage) {
    uint32_t first = 0;
    for (uint32_t i = 1; i <= source_count; i++)
        if (sources[i].state == WAITS && sources[i].client == client && sources[i].stage == stage &&
            (!first || sources[i].place < sources[first].place))
            first = i;
    return first;
}

/* Whether too many sources of the same process, or family, are set aside. */
static bool has_slow(int client) {
    int of_process = 0, of_family = 0;
    for (uint32_t i = 1; i <= source_count; i++) {
        if (sources[i].state != RUNS || !sources[i].is_slow)
            continue;
        of_process += sources[i].process == clients[client].process;
        of_family += sources[i].process / 3 == clients[client].process / 3;
    }
    return of_process >= 2 || of_family >= 4;
}

static bool others_are_active(int client) {
    for (int i = 0; i < 2; i++)
        if (world.last_active[i] >= 0 && world.last_active[i] != client &&
            world.now_ns - clients[world.last_active[i]].active_ns < SECOND)
            return true;
    return false;
}

static int free_slots(enum gs_load_stage stage) {
    if (stage != GS_LOAD_HANDS_OVER)
        return (stage == GS_LOAD_FINDS ? GS_LOOK_UPS : GS_COMPILERS) - count_running(stage, false, false);
    if (!world.loading)
        return world.now_ns >= world.next_after_ns;
    return !world.launches || (world.loading < 2 && world.now_ns - world.loading_since_ns < 10 * MS);
}

static bool may_begin(int client, enum gs_load_stage stage) {
    uint32_t first = first_of(client, stage);
    if (stage == GS_LOAD_HANDS_OVER || !first)
        return first;
    int running = running_of(client, stage);
    if (has_slow(client))
        return false;
    if (stage == GS_LOAD_FINDS)
        return !running && (!is_large(source_of(first)) || count_running(GS_LOAD_FINDS, false, true) < GS_LOOK_UPS / 2);
    return !running || (free_slots(stage) > 1 && (running < world.cores / 2 || !others_are_active(client)));
}

/* Of those that may begin: who has the fewest in progress, and of these who has used least; of these the first. */
static int next_client(enum gs_load_stage stage) {
    int best = -1;
    for (int i = 0; i < CLIENTS; i++) {
        if (!clients[i].session || !may_begin(i, stage))
            continue;
        int running = running_of(i, stage), of_best = best < 0 ? 0 : running_of(best, stage);
        if (best < 0 || running < of_best ||
            (running == of_best && (clients[i].used_ns[stage] < clients[best].used_ns[stage] ||
                                    (clients[i].used_ns[stage] == clients[best].used_ns[stage] &&
                                     clients[i].session->slot < clients[best].session->slot))))
            best = i;
    }
    return best;
}

/* ---- what should happen ---- */

static void advance_share(enum gs_load_stage stage, uint64_t took_ns) {
    uint64_t count = 0;
    for (int i = 0; i < CLIENTS; i++)
        count += clients[i].session && is_busy(i, stage);
    world.share_ns[stage] += took_ns / (count ? count : 1);
}

static void append(uint32_t number, enum gs_load_stage stage) {
    struct source *source = source_of(number);
    struct client *client = &clients[source->client];
    source->state = IS_GONE; /* not yet there */
    if (!is_busy(source->client, stage) && client->used_ns[stage] < world.share_ns[stage])
        client->used_ns[stage] = world.share_ns[stage];
    source->stage = stage;
    source->state = WAITS;
    source->place = ++world.moves;
}

static void end_loading(void) {
    if (!--world.loading && world.launches)
        world.next_after_ns = world.now_ns + (world.now_ns - world.loading_since_ns);
}

static void hand_over(uint32_t number) {
    struct source *source = source_of(number);
    struct client *client = &clients[source->client];
    source->state = IS_GONE;
    client->used_ns[GS_LOAD_HANDS_OVER] += 1 << 20;
    advance_share(GS_LOAD_HANDS_OVER, 1 << 20);
    if (client->device_bytes + source->device_bytes > DEVICE_BYTES) {
        note(&wanted, REPLIED, number, GS_CLIENT_MEMORY, TOO_LARGE);
    } else if (world.is_down) {
        note(&wanted, REPLIED, number, GS_CLIENT_SYSTEM, "the worker cannot be started");
    } else {
        if (!world.loading++)
            world.loading_since_ns = world.now_ns;
        note(&wanted, LOADED, number, 0, "");
        note(&wanted, CLOSED, number, 0, "");
        if (worker_must_fail) {
            end_loading();
            note(&wanted, REPLIED, number, GS_CLIENT_SYSTEM, "the daemon is out of memory");
        } else {
            source->state = IS_LOADED;
            client->device_bytes += source->device_bytes;
        }
    }
    note(&wanted, DROPPED, number, 0, "");
}

static void begin_next(void) {
    for (enum gs_load_stage stage = GS_LOAD_FINDS; stage < GS_LOAD_STAGES; stage++)
        for (int client; free_slots(stage) > 0 && (client = next_client(stage)) >= 0;) {
            uint32_t number = first_of(client, stage);
            if (stage == GS_LOAD_HANDS_OVER) {
                hand_over(number);
                continue;
            }
            int place = 0;
            while (world.running[place])
                place++;
            world.running[place] = number;
            sources[number].state = RUNS;
            sources[number].since_ns = world.now_ns;
            note(&wanted, stage == GS_LOAD_FINDS ? FOUND : COMPILED, number, 0, "");
        }
}

static void check_late(void) {
    for (int i = 0; i < PLACES && count_running(0, true, false) < GS_SLOW_JOBS; i++) {
        struct source *source = source_of(world.running[i]);
        if (!world.running[i] || source->is_slow)
            continue;
        uint64_t seconds = source->stage == GS_LOAD_FINDS ? 1 : source->client >= 0 ? 120 + 5 : 5;
        source->is_slow = world.now_ns - source->since_ns > seconds * SECOND;
    }
    begin_next();
}

/* ---- clients ---- */

static void note_active(int client) {
    if (world.last_active[0] != client)
        world.last_active[1] = world.last_active[0];
    world.last_active[0] = client;
    clients[client].active_ns = world.now_ns;
}

/* Processes have up to three numbers one after the other in a family. */
static void come(int place) {
    int ends[2];
    struct client *client = &clients[place];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    close(ends[1]);
    *client = (struct client){.socket = ends[0], .process = (int)draw(3000000, 3000011)};
    gs_session_options options = {.weight = 1, .socket = client->socket, .process = client->process};
    options.page = gs_page_new("page", gs_wire_page_bytes());
    client->session = gs_session_open(&server, &options, NULL);
    assert_non_null(client->session);
    close(options.page);
    note_active(place);
}

static void end_client(int place) {
    struct client *client = &clients[place];
    for (int i = 0; i < PLACES; i++) {
        struct source *source = source_of(world.running[i]);
        if (!world.running[i] || source->client != place)
            continue;
        note(&wanted, STOPPED, world.running[i], 0, "");
        note(&wanted, REPLIED, world.running[i], GS_CLIENT_LOST, "closed");
        source->client = -1;
        source->since_ns = world.now_ns;
    }
    for (enum gs_load_stage stage = GS_LOAD_FINDS; stage < GS_LOAD_STAGES; stage++)
        for (uint32_t number; (number = first_of(place, stage));) {
            note(&wanted, REPLIED, number, GS_CLIENT_LOST, "closed");
            note(&wanted, DROPPED, number, 0, "");
            sources[number].state = IS_GONE;
        }
    gs_session_close(client->session);
    client->session = NULL;
    for (int i = 0; i < 2; i++) /* its slot may be given to another one */
        if (world.last_active[i] == place)
            world.last_active[i] = -1;
    for (size_t i = 0; i < GS_COUNT(server.activity.last); i++)
        server.activity.last[i] = (struct gs_active){0};
    world.last_active[0] = world.last_active[1] = -1;
    close(client->socket);
}

/* Sessions whose last module is loaded are freed. */
static void sweep(void) {
    size_t contenders = server.contenders.count;
    server.contenders.count = 0;
    if (server.sessions.must_sweep)
        gs_sessions_sweep(&server);
    server.contenders.count = contenders;
}

/* ---- steps ---- */

static const char *why_not(const struct client *client, int place, uint64_t bytes) {
    uint32_t count = 0, all = 0;
    uint64_t sum = 0, sum_of_all = 0;
    (void)client;
    for (uint32_t i = 1; i <= source_count; i++) {
        if ((sources[i].state != WAITS && sources[i].state != RUNS) || sources[i].client < 0)
            continue;
        all++;
        sum_of_all += sources[i].bytes;
        count += sources[i].client == place;
        sum += sources[i].client == place ? sources[i].bytes : 0;
    }
    if (count == 64)
        return "a client may have at most 64 sources in progress";
    if (sum + bytes > (uint64_t)64 << 20)
        return "a client's sources in progress may have at most 64 MB together";
    if (count && (all >= 1024 || sum_of_all + bytes > (uint64_t)1024 << 20))
        return "the daemon may have at most 1024 sources of 1024 MB in progress: try again later";
    return NULL;
}

static void send_source(int place, bool may_be_large) {
    static const uint64_t sizes[] = {1, 1 << 10, 1 << 20, (1 << 20) + 1, 1 << 24, (1 << 24) - 1};
    struct client *client = &clients[place];
    gs_session *session = client->session;
    char message[GS_WIRE_MESSAGE];
    uint64_t bytes = sizes[draw(0, may_be_large ? GS_COUNT(sizes) - 1 : 2)];
    gs_resource **handle = NULL;
    const char *refusal = why_not(client, place, bytes);
    bool is_allowed = gs_load_is_allowed(session, bytes, message, sizeof message);
    assert_int_equal(is_allowed, !refusal);
    if (refusal)
        assert_string_equal(message, refusal);
    if (refusal || source_count + 1 == SOURCES)
        return;
    uint32_t number = ++source_count, module = 1;
    while (gs_resource_place(session, GS_RESOURCE_MODULE, module, &handle) != GS_TABLE_OK)
        module++;
    gs_action *action = gs_creation_new(session, GS_WIRE_LOAD, GS_RESOURCE_MODULE, 0, handle);
    assert_non_null(action);
    action->reply = number % GS_WIRE_REPLIES;
    action->ticket = number;
    action->handle = module;
    sources[number] = (struct source){.client = place, .process = client->process, .bytes = bytes};
    append(number, GS_LOAD_FINDS);
    begin_next();
    gs_load_start(action, &(gs_image_request){.source = -1, .bytes = bytes, .kernel_count = number});
}

/* Finds the job of a source that runs. */
static gs_load *load_of(uint32_t number) {
    for (size_t i = 0; i < GS_COUNT(server.loads.running); i++)
        if (server.loads.running[i] && number_of(server.loads.running[i]->job) == number)
            return server.loads.running[i];
    fail();
    return NULL;
}

static gs_image *new_image(uint32_t number, uint64_t device_bytes) {
    gs_image *image = calloc(1, sizeof *image);
    assert_non_null(image);
    image->device_bytes = device_bytes;
    snprintf(image->key, sizeof image->key, "%016x%032x", number, 7);
    images_alive++;
    return image;
}

/* A job ends: it has an image, or must be compiled, or failed. */
static void end_job(int place) {
    static const struct {
        gs_code code;
        gs_client_code told;
    } codes[] = {{GS_E_KERNEL, GS_CLIENT_SOURCE},
                 {GS_E_SYNTAX, GS_CLIENT_SOURCE},
                 {GS_E_FORMAT, GS_CLIENT_SOURCE},
                 {GS_E_USAGE, GS_CLIENT_INVALID},
                 {GS_E_IO, GS_CLIENT_SYSTEM}};
    uint32_t number = world.running[place];
    struct source *source = source_of(number);
    gs_image_job *job = load_of(number)->job;
    size_t error = (size_t)draw(0, GS_COUNT(codes) - 1);
    int outcome = (int)draw(0, 9);
    job->took_ns = (uint64_t)draw(0, 1) * (uint64_t)draw(0, 200 * MS);
    job->image = NULL;
    job->must_compile = false;
    job->error.code = GS_OK;
    source->device_bytes = (uint64_t)draw(0, 9) ? (uint64_t)draw(0, 1000) : DEVICE_BYTES / 2 + (uint64_t)draw(0, 1);
    if (outcome == 0)
        gs_fail(&job->error, codes[error].code, "wrong");
    else if (outcome < 5 && source->stage == GS_LOAD_FINDS)
        job->must_compile = true;
    else
        job->image = new_image(number, source->device_bytes);
    finished[finished_count++] = job;
    advance_share(source->stage, job->took_ns);
    world.running[place] = 0;
    source->state = IS_GONE;
    source->is_slow = false;
    if (source->client >= 0) {
        clients[source->client].used_ns[source->stage] += job->took_ns;
        if (outcome > 0) {
            append(number, job->image ? GS_LOAD_HANDS_OVER : GS_LOAD_COMPILES);
            return;
        }
        note(&wanted, REPLIED, number, (int)codes[error].told, "wrong");
    }
    note(&wanted, DROPPED, number, 0, "");
}

/* Up to two jobs end. The last one is taken first. */
static void end_jobs(void) {
    int first = (int)draw(0, PLACES - 1);
    for (int i = 0; i < PLACES && !finished_count; i++)
        if (world.running[(first + i) % PLACES])
            end_job((first + i) % PLACES);
    begin_next();
    gs_loads_collect(&server);
}

static void end_load_of_worker(void) {
    if (!with_worker_count)
        return;
    size_t which = (size_t)draw(0, (int64_t)with_worker_count - 1);
    uint32_t number = with_worker[which].source;
    struct source *source = source_of(number);
    gs_action *action = gs_action_find(&server, with_worker[which].tag);
    gs_worker_report report = {.code = draw(0, 5) ? GS_OK : draw(0, 1) ? GS_E_FULL : GS_E_KERNEL};
    with_worker[which] = with_worker[--with_worker_count];
    assert_non_null(action);
    if (report.code == GS_OK)
        note(&wanted, REPLIED, number, GS_CLIENT_OK, "");
    else
        note(&wanted, REPLIED, number, report.code == GS_E_FULL ? GS_CLIENT_MEMORY : GS_CLIENT_SYSTEM,
             gs_code_meaning(report.code));
    end_loading();
    if (report.code != GS_OK && clients[source->client].session == action->session)
        clients[source->client].device_bytes -= source->device_bytes;
    source->state = IS_GONE;
    gs_creation_end(action, &report);
}

/* The client forgets all its modules. */
static void forget_modules(int place) {
    gs_session *session = clients[place].session;
    gs_resource_table *table = &session->resources[GS_RESOURCE_MODULE];
    for (size_t i = 0; i < table->count; i++) {
        gs_resource *module = table->data[i];
        if (!module || !module->is_ready)
            continue;
        clients[place].device_bytes -= module->bytes;
        table->data[i] = NULL;
        gs_resource_forget(module);
    }
}

static void pass_time(void) {
    static const int64_t most[] = {5 * MS, 20 * MS, SECOND, 10 * (int64_t)SECOND, 130 * (int64_t)SECOND};
    int kind = (int)draw(0, 19);
    int64_t time = draw(0, 3)   ? draw(0, most[kind < 10   ? 0
                                               : kind < 17 ? 1
                                                           : kind - 15])
                   : draw(0, 1) ? 10 * MS
                                : SECOND;
    world.now_ns += (uint64_t)time;
}

static void step(bool is_crowded) {
    int place = (int)draw(0, CLIENTS - 1);
    if (is_crowded || draw(0, 1))
        place = (int)draw(0, is_crowded ? CLIENTS - 1 : 3);
    int what = (int)draw(0, 19);
    if (!clients[place].session) {
        come(place);
    } else if (what < 8 || (is_crowded && what < 19)) {
        for (int i = 0; i < (is_crowded ? 40 : 1); i++) {
            send_source(place, true);
            compare_notes();
        }
    } else if (what < 12) {
        end_jobs();
    } else if (what < 14) {
        end_load_of_worker();
    } else if (what < 16) {
        check_late();
        gs_loads_check(&server);
    } else if (what == 16) {
        forget_modules(place);
    } else if (what == 17) {
        gs_activity_note(clients[place].session);
        note_active(place);
    } else if (what == 18 && draw(0, 2) == 0) {
        end_client(place);
    } else if (what == 19) {
        world.launches = (int)draw(0, 1);
        world.is_down = draw(0, 9) == 0;
        worker_must_fail = draw(0, 9) == 0;
    }
}

/* What the status says, and when the daemon must look again. */
static void compare_counts(void) {
    const gs_loads *loads = &server.loads;
    uint32_t count = 0, waiting = 0;
    uint64_t bytes = 0, until;
    for (uint32_t i = 1; i <= source_count; i++) {
        bool is_in_progress = sources[i].state == WAITS || (sources[i].state == RUNS && sources[i].client >= 0);
        count += is_in_progress;
        bytes += is_in_progress ? sources[i].bytes : 0;
        waiting += sources[i].state == WAITS && sources[i].stage == GS_LOAD_HANDS_OVER;
    }
    assert_int_equal(loads->count, count);
    assert_int_equal(loads->bytes, bytes);
    assert_int_equal(loads->compiling, count_running(GS_LOAD_COMPILES, false, false));
    assert_int_equal(loads->loading, world.loading);
    assert_int_equal(gs_loads_wait(&server, &until), waiting && !world.loading);
    assert_int_equal(until, world.next_after_ns);
}

/* ---- tests ---- */

static void open_scene(uint64_t seed) {
    memset(sources, 0, sizeof sources);
    memset(clients, 0, sizeof clients);
    memset(&world, 0, sizeof world);
    memset(&server, 0, sizeof server);
    source_count = 0;
    with_worker_count = finished_count = 0;
    worker_must_fail = false;
    generator = gs_random_at(36, seed);
    world.now_ns = 1000 * (uint64_t)SECOND;
    world.cores = (int)draw(1, 8);
    world.last_active[0] = world.last_active[1] = -1;
    server.life = 1;
    server.now_ns = world.now_ns;
    server.cores = world.cores;
    server.facts.architecture = 90;
    server.options.worker = (gs_worker_options){.program = "program", .checks_counts = true};
    gs_quotas_open(&server.quotas, &(gs_quotas_options){.client_memory_bytes = DEVICE_BYTES},
                   (uint64_t)DEVICE_BYTES << 20);
    server.quotas.most[GS_ACCOUNT_PROCESS][GS_QUOTA_MEMORY] = UINT64_MAX;
}

static void close_scene(void) {
    server.contenders.count = 0;
    world.launches = 0;
    world.is_down = worker_must_fail = false;
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].session)
            end_client(i);
    compare_notes();
    while (count_running(GS_LOAD_FINDS, false, false) + count_running(GS_LOAD_COMPILES, false, false) +
           count_running(0, true, false))
        end_jobs();
    while (with_worker_count)
        end_load_of_worker();
    compare_notes();
    compare_counts();
    while (server.sessions.must_sweep)
        gs_sessions_sweep(&server);
    assert_int_equal(images_alive, 0);
    for (int i = 0; i < GS_QUOTAS; i++)
        assert_int_equal(server.quotas.all.used[i], 0);
    gs_quotas_close(&server.quotas);
    gs_contenders_close(&server);
    gs_actions_free(&server.actions);
    free(server.sessions.data);
    free(server.sessions.slots.data);
    for (int i = 0; i < GS_RESOURCE_KINDS; i++)
        free(server.handles[i].data);
}

static void play(uint64_t seed, int steps, bool is_crowded) {
    open_scene(seed);
    for (int i = 0; i < steps; i++) {
        pass_time();
        server.now_ns = world.now_ns;
        server.is_down = world.is_down;
        server.contenders.count = (size_t)world.launches;
        step(is_crowded);
        compare_notes();
        compare_counts();
        sweep();
    }
    close_scene();
}

TEST(sources_are_loaded_by_the_rules) {
    for (uint64_t seed = 0; seed < 10 + test_number("GRIDSMITH_RUNS", 20000) / 200; seed++)
        play(seed, 400, false);
}

TEST(sources_of_many_clients_are_refused) {
    for (uint64_t seed = 0; seed < 3; seed++)
        play(1000000 + seed, 60, true);
}

TEST_MAIN(NULL, NULL)
