/*
 * test_fairness.c: what clients keep of the device beside a client that takes all it can get.
 *
 * The daemon's code runs on a clock of the test, against a device that is played: it has one engine for copies and one
 * for kernels, each takes the first operation of each queue in the order in which they became first, as the CPU that
 * plays a GPU does (src/worker/host_backend.c). Clients send work, wait for it, and pause for a moment. What such a
 * client gets beside one like itself is its share. Beside a flood it must keep most of that. Nothing here depends on
 * the machine.
 */
#define _GNU_SOURCE
#include "test.h"

#include "serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SMS = 4,
    TURN_NS = 1000, /* of the daemon */
    USUAL_WAY_NS = 1000,
    DECISION_NS = 4000,      /* for each contender */
    DEFER_NS = 20000,        /* that a deferred report waits for the next launch */
    BLOCK_NS = 6000,         /* of a kernel, divided by the SMs */
    BYTES_PER_NS = 8,        /* that the device copies */
    MEMORY_BYTES = 64 << 20, /* of each client, and of its region */
    MODULE = 1,              /* handles of each client */
    QUEUES = 128,
    OPERATIONS = 8192
};

static int64_t clock_ns, way_ns = USUAL_WAY_NS; /* way_ns: from the daemon to the worker, or back */

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_now_ns(void) {
    return clock_ns;
}

/* Decisions take time, too. */
gs_decision __real_gs_plan_decide(const gs_plan_options *options, const gs_profile_store *store,
                                  const gs_contender *contenders, size_t count, gs_plan_place *placements);
gs_decision __wrap_gs_plan_decide(const gs_plan_options *options, const gs_profile_store *store,
                                  const gs_contender *contenders, size_t count, gs_plan_place *placements);
gs_decision __wrap_gs_plan_decide(const gs_plan_options *options, const gs_profile_store *store,
                                  const gs_contender *contenders, size_t count, gs_plan_place *placements) {
    clock_ns += (int64_t)count * DECISION_NS;
    return __real_gs_plan_decide(options, store, contenders, count, placements);
}

/* ---- the device ---- */

enum engine { COPIES, KERNELS, ENGINES };

struct operation {
    uint32_t queue;
    enum engine engine;
    bool defers;
    uint64_t tag, blocks;
    int64_t given_ns, takes_ns;
    int64_t ready_ns; /* when it became the first of its queue; 0: it is not */
    struct operation *next;
};

struct queue {
    struct operation *first, **last; /* that wait or run */
    struct operation *ended;         /* reports are deferred, */
    int64_t ended_ns;                /* the last one ended then */
    int64_t reported_ns;
};

struct gs_worker {
    gs_worker_facts facts;
    struct queue queues[QUEUES];
    struct operation *running[ENGINES];
    int64_t ends_ns[ENGINES];
    int64_t busy_ns[ENGINES];
    gs_worker_report reports[OPERATIONS];
    int64_t visible_ns[OPERATIONS];
    size_t first, count;
};

static struct gs_worker device;

static void report(uint32_t kind, const struct operation *operation, int64_t began, int64_t ended) {
    assert_true(device.count < OPERATIONS);
    size_t at = (device.first + device.count++) % OPERATIONS;
    device.reports[at] = (gs_worker_report){.kind = kind,
                                            .tag = operation->tag,
                                            .began_ns = (uint64_t)began,
                                            .ended_ns = (uint64_t)ended,
                                            .blocks_done = operation->blocks};
    device.visible_ns[at] = ended + way_ns;
}

/* Operations that are found done at the same time have shared the time. */
static void retire(struct queue *queue, int64_t now) {
    int64_t left = 0;
    for (const struct operation *operation = queue->ended; operation; operation = operation->next)
        left++;
    for (struct operation *operation; (operation = queue->ended); left--) {
        int64_t began = gs_max(operation->given_ns, queue->reported_ns), ended = began + (now - began) / left;
        report(operation->engine == COPIES ? GS_REPORT_COPIED : GS_REPORT_RAN, operation, began, ended);
        device.visible_ns[(device.first + device.count - 1) % OPERATIONS] = now + way_ns;
        queue->reported_ns = ended;
        queue->ended = operation->next;
        free(operation);
    }
}

static void end(enum engine engine, int64_t now) {
    struct operation *operation = device.running[engine], **at;
    struct queue *queue = &device.queues[operation->queue];
    queue->first = operation->next;
    if (queue->first)
        queue->first->ready_ns = now;
    else
        queue->last = &queue->first;
    for (at = &queue->ended; *at;)
        at = &(*at)->next;
    *at = operation;
    operation->next = NULL;
    queue->ended_ns = now;
    device.running[engine] = NULL;
    if (!operation->defers)
        retire(queue, now);
}

/* Starts the operation that has been first of its queue for longest. */
static void begin(enum engine engine, int64_t from) {
    struct operation *best = NULL;
    for (size_t i = 0; i < QUEUES; i++) {
        struct operation *operation = device.queues[i].first;
        if (operation && operation->engine == engine && operation->ready_ns <= clock_ns &&
            (!best || operation->ready_ns < best->ready_ns))
            best = operation;
    }
    if (!best)
        return;
    device.running[engine] = best;
    device.ends_ns[engine] = gs_max(from, best->ready_ns) + best->takes_ns;
    device.busy_ns[engine] += best->takes_ns;
}

static void play_device(void) {
    for (enum engine engine = 0; engine < ENGINES; engine++)
        for (int64_t from = 0;; from = device.ends_ns[engine]) {
            if (!device.running[engine])
                begin(engine, from);
            if (!device.running[engine] || device.ends_ns[engine] > clock_ns)
                break;
            end(engine, device.ends_ns[engine]);
        }
    for (size_t i = 0; i < QUEUES; i++) {
        struct queue *queue = &device.queues[i];
        if (queue->ended && !queue->first && clock_ns >= queue->ended_ns + DEFER_NS)
            retire(queue, queue->ended_ns + DEFER_NS);
    }
}

static gs_code give(struct operation operation) {
    struct operation *made = malloc(sizeof *made);
    struct queue *queue = &device.queues[operation.queue % QUEUES];
    assert_non_null(made);
    *made = operation;
    made->queue = operation.queue % QUEUES;
    made->given_ns = clock_ns + way_ns;
    if (!queue->first) {
        queue->last = &queue->first;
        made->ready_ns = made->given_ns;
    }
    *queue->last = made;
    queue->last = &made->next;
    return GS_OK;
}

/* ---- what the daemon calls ---- */

gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error) {
    (void)options, (void)error;
    device = (struct gs_worker){.facts = {.name = "played", .sms = SMS, .memory_bytes = (uint64_t)1 << 33}};
    return &device;
}

const gs_worker_facts *gs_worker_facts_of(const gs_worker *worker) {
    return &worker->facts;
}

int gs_worker_fd(const gs_worker *worker) {
    (void)worker;
    return -1;
}

bool gs_worker_peek(gs_worker *worker, gs_worker_report *into) {
    if (!worker->count || worker->visible_ns[worker->first] > clock_ns)
        return false;
    *into = worker->reports[worker->first];
    worker->first = (worker->first + 1) % OPERATIONS;
    worker->count--;
    return true;
}

bool gs_worker_poll(gs_worker *worker, gs_worker_report *into) {
    (void)worker, (void)into;
    return false;
}

gs_code gs_worker_restart(gs_worker *worker, gs_error *error) {
    (void)worker, (void)error;
    fail();
    return GS_OK;
}

void gs_worker_close(gs_worker *worker) {
    clock_ns += 1000000000;
    for (int i = 0; i < OPERATIONS; i++)
        play_device();
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
    (void)worker, (void)tag, (void)memory, (void)bytes;
    fail();
    return GS_OK;
}

void gs_worker_release(gs_worker *worker, uint32_t memory) {
    (void)worker, (void)memory;
}

gs_code gs_worker_share(gs_worker *worker, uint32_t region, int fd, uint64_t bytes) {
    (void)worker, (void)region, (void)fd, (void)bytes;
    fail();
    return GS_OK;
}

void gs_worker_unshare(gs_worker *worker, uint32_t region) {
    (void)worker, (void)region;
}

gs_code gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image) {
    (void)worker, (void)tag, (void)module, (void)image;
    fail();
    return GS_OK;
}

void gs_worker_unload(gs_worker *worker, uint32_t module) {
    (void)worker, (void)module;
}

gs_code gs_worker_copy(gs_worker *worker, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    (void)worker, (void)in, (void)memory, (void)at, (void)region, (void)region_at;
    return give((struct operation){
        .queue = queue, .engine = COPIES, .tag = tag, .takes_ns = 1000 + (int64_t)bytes / BYTES_PER_NS});
}

gs_code gs_worker_fill(gs_worker *worker, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    (void)value;
    return gs_worker_copy(worker, tag, queue, true, memory, at, 0, 0, bytes);
}

/* Kernels take the whole device one after the other, also those that are confined. */
gs_code gs_worker_start(gs_worker *worker, uint64_t tag, gs_worker_launch *launch) {
    (void)worker;
    uint64_t blocks = gs_launch_blocks(launch);
    return give((struct operation){.queue = launch->request.queue,
                                   .engine = KERNELS,
                                   .tag = tag,
                                   .blocks = blocks,
                                   .defers = launch->defer_report,
                                   .takes_ns = (int64_t)blocks * BLOCK_NS});
}

void gs_worker_confine(gs_worker *worker, uint64_t tag, const uint32_t *mask) {
    (void)worker, (void)tag, (void)mask;
}

uint64_t gs_worker_progress(const gs_worker *worker, uint64_t tag) {
    (void)worker, (void)tag;
    return 0;
}

/* ---- clients ---- */

struct client {
    gs_session *session;
    int near, far;
    gs_ring ring;
    enum engine engine;
    uint32_t streams, at_once; /* commands that it sends before it waits; 0: it never waits */
    uint64_t size;             /* of each: bytes or blocks */
    int64_t pause_ns, asleep_until_ns;
    uint64_t sent, waited; /* commands */
    uint32_t weight;       /* 0: 100, as in the client library */
};

static void add_resources(gs_session *session) {
    for (int kind = 0; kind < GS_RESOURCE_KINDS; kind++) {
        gs_resource **place, *resource = gs_resource_new(session, (enum gs_resource_kind)kind, MEMORY_BYTES);
        assert_non_null(resource);
        assert_int_equal(gs_resource_place(session, (enum gs_resource_kind)kind, MODULE, &place), GS_TABLE_OK);
        *place = resource;
        resource->is_ready = true;
        resource->life = session->server->life;
        if (kind != GS_RESOURCE_MODULE)
            continue;
        resource->image = calloc(1, sizeof *resource->image + sizeof resource->image->kernels[0]);
        resource->ns_per_block = calloc(1, sizeof *resource->ns_per_block);
        assert_true(resource->image && resource->ns_per_block);
        *resource->image = (gs_image){.fd = -1, .kernel_count = 1};
        resource->image->kernels[0].can_be_confined = true;
    }
}

static void come(struct client *client, gs_server *server) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    client->near = ends[0];
    client->far = ends[1];
    gs_session_options options = {
        .weight = client->weight ? client->weight : 100, .socket = client->near, .page = memfd_create("test", 0)};
    assert_true(options.page >= 0 && ftruncate(options.page, (off_t)gs_wire_page_bytes()) == 0);
    client->session = gs_session_open(server, &options, NULL);
    assert_non_null(client->session);
    close(options.page);
    add_resources(client->session);
    gs_ring_attach_socket(&client->ring, client->session->page + 1, GS_WIRE_RING_BYTES, client->far);
}

static void leave(struct client *client) {
    gs_session_close(client->session);
    close(client->near);
    close(client->far);
}

/* False: the ring is full. */
static bool send_one(struct client *client) {
    uint32_t stream = (uint32_t)(client->sent % client->streams);
    gs_wire_copy copy = {.head = {GS_WIRE_COPY_IN, stream}, .memory = 1, .region = 1, .bytes = client->size};
    gs_wire_launch launch = {
        .head = {GS_WIRE_LAUNCH, stream}, .module = MODULE, .grid = {(uint32_t)client->size, 1, 1}, .block = {1, 1, 1}};
    gs_ring_result result = client->engine == COPIES ? gs_ring_put(&client->ring, &copy, sizeof copy)
                                                     : gs_ring_put(&client->ring, &launch, sizeof launch);
    client->sent += result == GS_RING_DONE;
    return result == GS_RING_DONE;
}

static bool is_idle(const struct client *client) {
    return client->session->commands == client->sent && !client->session->actions;
}

static void play_client(struct client *client) {
    if (!client->at_once) {
        while (send_one(client))
            ;
        return;
    }
    if (!is_idle(client))
        return;
    if (client->waited < client->sent) {
        client->waited = client->sent;
        client->asleep_until_ns = clock_ns + client->pause_ns;
    }
    if (clock_ns < client->asleep_until_ns)
        return;
    for (uint32_t i = 0; i < client->at_once; i++)
        assert_true(send_one(client));
}

static void ignore(void *context, const char *line) {
    (void)context, (void)line;
}

/* ---- tests ---- */

enum { WARM_UP_MS = 150, MEASURED_MS = 150, MOST_CLIENTS = 3 };

struct result {
    uint64_t did[MOST_CLIENTS]; /* bytes or blocks that were done for each client, */
    int64_t busy_ns[ENGINES];   /* and how long the device worked, after the warm-up */
};

static uint64_t done_for(const struct client *client) {
    const gs_session_counts *counts = &client->session->counts;
    return client->engine == COPIES ? counts->copied_bytes : counts->blocks;
}

static struct result difference(const struct client *clients, size_t count, const struct result *before) {
    struct result result = {.did = {0}};
    for (size_t i = 0; i < count; i++)
        result.did[i] = done_for(&clients[i]) - (before ? before->did[i] : 0);
    for (int i = 0; i < ENGINES; i++)
        result.busy_ns[i] = device.busy_ns[i] - (before ? before->busy_ns[i] : 0);
    return result;
}

static void play_until(gs_server *server, struct client *clients, size_t count, int64_t until) {
    while (clock_ns < until) {
        clock_ns += TURN_NS;
        play_device();
        for (size_t i = 0; i < count; i++)
            play_client(&clients[i]);
        gs_server_work(server);
    }
}

static struct result play(struct client *clients, size_t count) {
    char folder[] = "/tmp/gridsmith-fairness-XXXXXX";
    gs_error error;
    assert_non_null(mkdtemp(folder));
    clock_ns = 1000000000;
    gs_server *server =
        gs_server_open(&(gs_server_options){.cache = folder, .limit_ns = UINT64_MAX / 2, .say = ignore}, &error);
    assert_non_null(server);
    for (size_t i = 0; i < count; i++)
        come(&clients[i], server);
    play_until(server, clients, count, clock_ns + (int64_t)WARM_UP_MS * 1000000);
    struct result before = difference(clients, count, NULL);
    play_until(server, clients, count, clock_ns + (int64_t)MEASURED_MS * 1000000);
    struct result result = difference(clients, count, &before);
    for (size_t i = 0; i < count; i++)
        leave(&clients[i]);
    gs_server_close(server);
    rmdir(folder);
    return result;
}

/* In percent, what a client keeps beside a flood of what it gets beside a client like itself. */
static double kept(struct client honest, struct client flood) {
    struct client equal[] = {honest, honest}, flooded[] = {honest, flood};
    struct result share = play(equal, 2), rest = play(flooded, 2);
    return 100.0 * (double)rest.did[0] / (double)share.did[0];
}

/* For clients that pause for so long, and ways to the worker and back that take so long. */
static void expect_shares(struct client honest, struct client flood) {
    static const struct {
        int64_t pause_ns, way_ns;
    } cases[] = {{60000, 10000}, {200000, 30000}, {5000, 1000}, {200000, 1000}, {1000000, 1000}, {3000000, 10000}};
    size_t count = test_number("GRIDSMITH_RUNS", 100000) < 10000 ? 2 : GS_COUNT(cases);
    for (size_t i = 0; i < count; i++) {
        honest.pause_ns = cases[i].pause_ns;
        way_ns = cases[i].way_ns;
        double percent = kept(honest, flood);
        if (percent < 80)
            fail_msg("a client that pauses for %lld ns keeps %.0f%% of its share", (long long)honest.pause_ns, percent);
    }
    way_ns = USUAL_WAY_NS;
}

static const struct client copier = {.engine = COPIES, .streams = 1, .at_once = 1, .size = 1 << 20},
                           launcher = {.engine = KERNELS, .streams = 1, .at_once = 8, .size = 4},
                           large_copies = {.engine = COPIES, .streams = 32, .size = 64 << 20},
                           small_copies = {.engine = COPIES, .streams = 32, .size = 4},
                           launches = {.engine = KERNELS, .streams = 32, .size = 4};

static void copies_keep_their_share_beside_large_copies(void **state) {
    (void)state;
    expect_shares(copier, large_copies);
}

static void copies_keep_their_share_beside_many_small_copies(void **state) {
    (void)state;
    expect_shares(copier, small_copies);
}

static void launches_keep_their_share_beside_launches(void **state) {
    (void)state;
    expect_shares(launcher, launches);
}

static void alone_a_client_keeps_the_device_busy(void **state) {
    (void)state;
    static const struct client *const all[] = {&large_copies, &launches};
    for (size_t i = 0; i < GS_COUNT(all); i++) {
        struct client client = *all[i];
        struct result result = play(&client, 1);
        assert_true(result.busy_ns[client.engine] > (int64_t)MEASURED_MS * 1000000 / 1000 * 995);
    }
}

static void bytes_go_by_weight(void **state) {
    (void)state;
    struct client clients[] = {large_copies, large_copies, large_copies};
    clients[0].weight = 200;
    struct result result = play(clients, 3);
    double all = (double)(result.did[0] + result.did[1] + result.did[2]);
    assert_true(result.busy_ns[COPIES] > (int64_t)MEASURED_MS * 1000000 / 1000 * 995);
    assert_true(fabs((double)result.did[0] / all - 0.5) < 0.02);
    assert_true(fabs((double)result.did[1] / all - 0.25) < 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_keep_their_share_beside_large_copies),
        cmocka_unit_test(copies_keep_their_share_beside_many_small_copies),
        cmocka_unit_test(launches_keep_their_share_beside_launches),
        cmocka_unit_test(alone_a_client_keeps_the_device_busy),
        cmocka_unit_test(bytes_go_by_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
