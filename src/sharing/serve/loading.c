/*
 * loading.c: turns sources into modules: looks them up in the cache, has them compiled if they are not there
 * (src/sharing/image), and has the worker load them.
 *
 * Each client has three queues: sources to be looked up, sources to be compiled, and images for the worker. Threads of
 * src/sharing/image do the first two, a few at a time. The next source is that of the client with the fewest in
 * progress, and among those of the client that has used the least time. So a client with many or slow sources delays
 * only itself. Each queue has its own account: long compilations do not delay look-ups. A new or returning client
 * starts with the account of a client that was always there and got its share, so it gains nothing by reconnecting.
 *
 * The last free compiler goes only to a client that has none: another client's source can always begin. While other
 * clients are active, one client's compilers use at most half of the cores. Half of the look-up threads take small
 * sources only: large ones take long to hash.
 *
 * A file system that does not respond blocks a thread without limit. A source that takes much too long is set aside: it
 * continues, and others begin in its place. A process or a family with several of them cannot begin more.
 *
 * No kernel runs while the worker loads modules. Clients that come, load and leave could always have one to load, so
 * launches would never start. So after MOST_LOADING_NS no more images are handed over, and when all are loaded,
 * launches that wait have the device for as long as the loading took.
 */
#include "server.h"

#include <stdlib.h>

/* ---- queues ---- */

static bool is_busy(const struct gs_load_queue *queue) {
    return queue->first || queue->running;
}

/* Charges used time, which all clients with sources in this stage share. */
static void advance_share(gs_server *server, enum gs_load_stage stage, uint64_t took_ns) {
    uint64_t count = 0;
    for (size_t i = 0; i < server->sessions.count; i++) {
        const gs_session *session = server->sessions.data[i];
        count += session && is_busy(&session->loads.stages[stage]);
    }
    server->loads.share_ns[stage] += took_ns / gs_max_u64(count, 1);
}

static void append_load(gs_load *load) {
    struct gs_load_queue *queue = &load->session->loads.stages[load->stage];
    if (!is_busy(queue))
        queue->used_ns = gs_max_u64(queue->used_ns, load->session->server->loads.share_ns[load->stage]);
    load->next = NULL;
    if (queue->last)
        queue->last->next = load;
    else
        queue->first = load;
    queue->last = load;
    load->session->server->loads.waiting[load->stage]++;
}

static gs_load *shift_load(gs_session *session, enum gs_load_stage stage) {
    struct gs_load_queue *queue = &session->loads.stages[stage];
    gs_load *load = queue->first;
    queue->first = load->next;
    if (!queue->first)
        queue->last = NULL;
    session->server->loads.waiting[stage]--;
    return load;
}

enum {
    MOST_LOADING_NS = 10000000, /* how long images are handed over while launches wait, */
    LOADING_AT_ONCE = 2         /* and how many at a time: with one more there is no gap */
};

/* Whether an image may be handed over. */
static bool may_hand_over(const gs_server *server) {
    const gs_loads *loads = &server->loads;
    if (!loads->loading)
        return server->now_ns >= loads->next_after_ns;
    return !server->contenders.count ||
           (loads->loading < LOADING_AT_ONCE && server->now_ns - loads->loading_since_ns < MOST_LOADING_NS);
}

bool gs_loads_wait(const gs_server *server, uint64_t *until_ns) {
    *until_ns = server->loads.next_after_ns;
    return server->loads.waiting[GS_LOAD_HANDS_OVER] && !server->loads.loading;
}

/* How many sources of a stage can begin. */
static uint32_t free_slots(const gs_server *server, enum gs_load_stage stage) {
    if (stage == GS_LOAD_HANDS_OVER)
        return may_hand_over(server);
    return stage == GS_LOAD_FINDS ? GS_LOOK_UPS - server->loads.finding : GS_COMPILERS - server->loads.compiling;
}

static bool is_large(const gs_load *load) {
    enum { SMALL_SOURCE = 1 << 20 };
    return load->job->request.bytes > SMALL_SOURCE;
}

/* Whether the process of a client, or its family, has reached its limit of sources set aside. */
static bool has_slow(const gs_session *session) {
    enum { MOST = GS_SLOW_JOBS / 8, MOST_OF_FAMILY = GS_SLOW_JOBS / 4 };
    const gs_loads *loads = &session->server->loads;
    const gs_account *process = session->account.above;
    int count = 0, of_family = 0;
    for (size_t i = 0; i < GS_COUNT(loads->running) && loads->slow; i++) {
        const gs_load *load = loads->running[i];
        count += load && load->is_slow && load->process == process->id;
        of_family += load && load->is_slow && load->family == process->above->id;
    }
    return count >= MOST || of_family >= MOST_OF_FAMILY;
}

/* Whether a client that has compilers may have one more. While others are active, half of the cores are theirs. */
static bool leaves_cores(const gs_session *session) {
    enum { RECENT_NS = 1000000000 };
    return (int64_t)session->loads.stages[GS_LOAD_COMPILES].running < session->server->cores / 2 ||
           !gs_activity_has_others(session, RECENT_NS);
}

static bool may_begin(const gs_session *session, enum gs_load_stage stage) {
    const gs_server *server = session->server;
    const struct gs_load_queue *queue = &session->loads.stages[stage];
    if (stage == GS_LOAD_HANDS_OVER)
        return queue->first;
    if (!queue->first || has_slow(session))
        return false;
    if (stage == GS_LOAD_FINDS)
        return !queue->running && (!is_large(queue->first) || server->loads.finding_large < GS_LOOK_UPS / 2);
    return !queue->running || (free_slots(server, stage) > 1 && leaves_cores(session));
}

static bool is_before(const gs_session *a, const gs_session *b, enum gs_load_stage stage) {
    const struct gs_load_queue *of_a = &a->loads.stages[stage], *of_b = &b->loads.stages[stage];
    return of_a->running != of_b->running ? of_a->running < of_b->running : of_a->used_ns < of_b->used_ns;
}

static gs_session *next_session(const gs_server *server, enum gs_load_stage stage) {
    gs_session *best = NULL;
    for (size_t i = 0; i < server->sessions.count; i++) {
        gs_session *session = server->sessions.data[i];
        if (session && may_begin(session, stage) && (!best || is_before(session, best, stage)))
            best = session;
    }
    return best;
}

/* ---- loads ---- */

static void count_place(gs_server *server, const gs_load *load, int change) {
    gs_loads *loads = &server->loads;
    bool is_finding = load->stage == GS_LOAD_FINDS;
    uint32_t *count = load->is_slow ? &loads->slow : is_finding ? &loads->finding : &loads->compiling;
    *count += (uint32_t)change;
    if (!load->is_slow && is_finding && is_large(load))
        loads->finding_large += (uint32_t)change;
}

static void count_running(gs_server *server, const gs_load *load, int change) {
    count_place(server, load, change);
    if (load->session)
        load->session->loads.stages[load->stage].running += (uint32_t)change;
}

static void enter_session(gs_load *load) {
    gs_loads *all = &load->session->server->loads;
    load->session->loads.count++;
    load->session->loads.bytes += load->job->request.bytes;
    all->count++;
    all->bytes += load->job->request.bytes;
}

static void leave_session(gs_load *load) {
    gs_loads *all = &load->session->server->loads;
    load->session->loads.count--;
    load->session->loads.bytes -= load->job->request.bytes;
    all->count--;
    all->bytes -= load->job->request.bytes;
    load->session = NULL;
}

static void free_load(gs_server *server, gs_load *load) {
    gs_images_drop(server->images, load->job);
    free(load);
}

/* The first digits of the key identify the source. */
static uint64_t hash_of(const gs_image *image) {
    char first[17] = {0};
    memcpy(first, image->key, sizeof first - 1);
    return strtoull(first, NULL, 16);
}

/* Hands an image's file to the worker. It works without ns_per_block if memory for it is missing. */
static void load_image(gs_server *server, gs_action *action, gs_image *image) {
    gs_resource *module = action->resource;
    char message[GS_WIRE_MESSAGE];
    if (!gs_resource_set_bytes(module, image->device_bytes, message)) {
        gs_image_free(image);
        gs_creation_refuse(action, GS_CLIENT_MEMORY, message);
        return;
    }
    module->image = image;
    module->ns_per_block = calloc(image->kernel_count + 1, sizeof *module->ns_per_block);
    if (server->is_down) {
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, gs_no_worker);
        return;
    }
    action->is_issued = true;
    module->source = hash_of(image);
    if (!server->loads.loading++)
        server->loads.loading_since_ns = server->now_ns;
    server->scheduler.must_decide = true;
    gs_code code = gs_worker_load(server->worker, gs_action_tag(action), module->handle, image);
    gs_image_close(image);
    if (code != GS_OK)
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, gs_no_memory);
}

/* Clients take turns, one image each. */
static void hand_over(gs_server *server, gs_load *load) {
    enum { TURN = 1 << 20 }; /* of which each client has a share */
    gs_image *image = load->job->image;
    load->session->loads.stages[GS_LOAD_HANDS_OVER].used_ns += TURN;
    advance_share(server, GS_LOAD_HANDS_OVER, TURN);
    leave_session(load);
    load->job->image = NULL;
    load_image(server, load->action, image);
    free_load(server, load);
}

static void begin_load(gs_server *server, gs_load *load) {
    size_t place = 0;
    while (server->loads.running[place])
        place++;
    server->loads.running[place] = load;
    load->since_ns = server->now_ns;
    count_running(server, load, 1);
    if (load->stage == GS_LOAD_FINDS)
        gs_images_find(server->images, load->job);
    else
        gs_images_compile(server->images, load->job);
}

static void begin_next(gs_server *server) {
    for (enum gs_load_stage stage = GS_LOAD_FINDS; stage < GS_LOAD_STAGES; stage++)
        while (server->loads.waiting[stage] && free_slots(server, stage)) {
            gs_session *session = next_session(server, stage);
            if (!session)
                break;
            gs_load *load = shift_load(session, stage);
            if (stage == GS_LOAD_HANDS_OVER)
                hand_over(server, load);
            else
                begin_load(server, load);
        }
}

/* The load is no longer in progress. */
static void end_running(gs_server *server, gs_load *load) {
    size_t place = 0;
    while (server->loads.running[place] != load)
        place++;
    server->loads.running[place] = NULL;
    count_running(server, load, -1);
    load->is_slow = false;
}

/* ---- sources that take much too long ---- */

/* A look-up takes milliseconds. A compiler is killed when its time limit is reached, or when its client has left. */
static bool is_late(const gs_load *load, uint64_t now_ns) {
    enum { LOOK_UP_SECONDS = 1, KILLED_SECONDS = 5 };
    uint64_t seconds = load->stage == GS_LOAD_FINDS ? LOOK_UP_SECONDS
                       : load->session              ? GS_COMPILER_SECONDS + KILLED_SECONDS
                                                    : KILLED_SECONDS;
    return now_ns - load->since_ns > seconds * 1000000000;
}

void gs_loads_check(gs_server *server) {
    gs_loads *loads = &server->loads;
    for (size_t i = 0; i < GS_COUNT(loads->running) && loads->slow < GS_SLOW_JOBS; i++) {
        gs_load *load = loads->running[i];
        if (!load || load->is_slow || !is_late(load, server->now_ns))
            continue;
        count_place(server, load, -1);
        load->is_slow = true;
        count_place(server, load, 1);
    }
    begin_next(server);
}

bool gs_load_is_allowed(const gs_session *session, uint64_t bytes, char *message, size_t size) {
    const gs_session_loads *loads = &session->loads;
    const gs_loads *all = &session->server->loads;
    bool is_too_much = all->count >= GS_SOURCES || all->bytes + bytes > (uint64_t)GS_SOURCES_MB << 20;
    if (loads->count >= GS_SESSION_SOURCES)
        snprintf(message, size, "a client may have at most %d sources in progress", GS_SESSION_SOURCES);
    else if (loads->bytes + bytes > (uint64_t)GS_SESSION_SOURCES_MB << 20)
        snprintf(message, size, "a client's sources in progress may have at most %d MB together",
                 GS_SESSION_SOURCES_MB);
    else if (is_too_much && loads->count)
        snprintf(message, size, "the daemon may have at most %d sources of %d MB in progress: try again later",
                 GS_SOURCES, GS_SOURCES_MB);
    else
        return true;
    return false;
}

void gs_load_start(gs_action *action, const gs_image_request *request) {
    gs_session *session = action->session;
    gs_server *server = session->server;
    gs_image_request given = *request;
    given.program = server->options.worker.program;
    given.architecture = server->facts.architecture;
    given.counts_blocks = server->options.worker.checks_counts;
    given.has_others = true;
    gs_load *load = calloc(1, sizeof *load);
    gs_image_job *job = gs_image_job_new(&given, load);
    if (!load || !job) {
        if (job)
            gs_images_drop(server->images, job);
        free(load);
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, "the daemon is out of memory or descriptors");
        return;
    }
    *load = (gs_load){.job = job,
                      .session = session,
                      .action = action,
                      .process = session->options.process,
                      .family = session->account.above->above->id};
    enter_session(load);
    append_load(load);
    begin_next(server);
}

/* ---- results ---- */

_Static_assert((int)GS_IMAGE_KERNELS == GS_WIRE_SOURCE_KERNELS && (int)GS_IMAGE_OPTIONS == GS_WIRE_SOURCE_OPTIONS,
               "a client checks the limits of a source");

static gs_client_code code_of(const gs_error *error) {
    switch (error->code) {
    case GS_E_KERNEL:
    case GS_E_SYNTAX:
    case GS_E_FORMAT:
        return GS_CLIENT_SOURCE;
    case GS_E_USAGE:
        return GS_CLIENT_INVALID;
    default:
        return GS_CLIENT_SYSTEM;
    }
}

static void finish_load(gs_server *server, gs_load *load) {
    gs_action *action = load->action;
    gs_image_job *job = load->job;
    char message[GS_WIRE_MESSAGE];
    advance_share(server, load->stage, job->took_ns);
    end_running(server, load);
    if (load->session)
        load->session->loads.stages[load->stage].used_ns += job->took_ns;
    if (load->session && (job->must_compile || job->image)) {
        load->stage = job->image ? GS_LOAD_HANDS_OVER : GS_LOAD_COMPILES;
        append_load(load);
        return;
    }
    if (load->session) {
        leave_session(load);
        gs_creation_refuse(action, code_of(&job->error), gs_error_text(&job->error, message, sizeof message));
    }
    free_load(server, load);
}

void gs_loads_collect(gs_server *server) {
    for (gs_image_job *job; (job = gs_images_take(server->images));)
        finish_load(server, job->owner);
    begin_next(server);
}

static void drop_load(gs_load *load, gs_client_code code, const char *message) {
    gs_action *action = load->action;
    load->since_ns = load->session->server->now_ns;
    leave_session(load);
    load->action = NULL;
    gs_creation_refuse(action, code, message);
}

void gs_loads_drop(gs_session *session, gs_client_code code, const char *message) {
    gs_server *server = session->server;
    for (size_t i = 0; i < GS_COUNT(server->loads.running); i++) {
        gs_load *load = server->loads.running[i];
        if (!load || load->session != session)
            continue;
        session->loads.stages[load->stage].running--;
        gs_image_job_stop(load->job);
        drop_load(load, code, message);
    }
    for (enum gs_load_stage stage = GS_LOAD_FINDS; stage < GS_LOAD_STAGES; stage++)
        while (session->loads.stages[stage].first) {
            gs_load *load = shift_load(session, stage);
            drop_load(load, code, message);
            free_load(server, load);
        }
}

void gs_loads_close(gs_server *server) {
    gs_images_close(server->images);
    server->images = NULL;
    for (size_t i = 0; i < GS_COUNT(server->loads.running); i++)
        free(server->loads.running[i]);
}
