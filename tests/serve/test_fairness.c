/*
 * test_fairness.c: the share of the device that clients keep beside a client that floods it.
 *
 * The daemon's code runs on a clock of the test, against a device that is played: it has one engine for copies, one for
 * kernels and one that loads modules, each takes the first operation of each queue in the order in which they became
 * first, like the CPU backend (src/sharing/worker/host_backend.c). The threads that look sources up and compile them
 * are played, too. Clients send work, wait for it, and pause for a moment. The throughput of such a client beside one
 * like itself is its share. Beside a flood it must keep most of that. Nothing here depends on the machine.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/daemon.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SMS = 4,
    TURN_NS = 1000, /* of the daemon */
    USUAL_WAY_NS = 1000,
    DECISION_NS = 4000, /* for each contender */
    DEFER_NS = 20000,   /* that a deferred report waits for the next launch */
    THREAD_NS = 10000,  /* of the daemon's thread, from one look at its clock to the next */
    BLOCK_NS = 6000,    /* of a kernel, divided by the SMs */
    BYTES_PER_NS = 8,   /* that the device copies, */
    SLOWER = 8,         /* that copies beyond slow_from take longer, as a factor */
    MODULE_NS = 500000, /* to load one */
    MODULE = 1,         /* handles of each client, */
    LOADED_MODULE = 2,  /* and of the module that it loads */
    QUEUES = 128,
    LOADING_QUEUE = QUEUES - 1,
    OPERATIONS = 8192
};

#define MEMORY_BYTES ((uint64_t)8 << 30) /* of each client, and of its region */

static int64_t module_ns = MODULE_NS;
static int64_t clock_ns, turn_ns = TURN_NS, way_ns = USUAL_WAY_NS; /* way_ns: from the daemon to the worker, or back */
static uint64_t slow_from = UINT64_MAX; /* the first byte of a region whose pages were not touched before */

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_now_ns(void) {
    return clock_ns;
}

int64_t __wrap_gs_thread_ns(void);
int64_t __wrap_gs_thread_ns(void) {
    static int64_t thread_ns;
    return thread_ns += THREAD_NS;
}

/* Decisions take time, too. */
gs_decision __real_gs_decide(const gs_decide_options *options, const gs_profile_store *store,
                             const gs_contender *contenders, size_t count, gs_decided_place *placements);
gs_decision __wrap_gs_decide(const gs_decide_options *options, const gs_profile_store *store,
                             const gs_contender *contenders, size_t count, gs_decided_place *placements);
gs_decision __wrap_gs_decide(const gs_decide_options *options, const gs_profile_store *store,
                             const gs_contender *contenders, size_t count, gs_decided_place *placements) {
    clock_ns += (int64_t)count * DECISION_NS;
    return __real_gs_decide(options, store, contenders, count, placements);
}

/* Whether two clients take turns: as the daemon decides, always, or never. */
static enum { AS_DECIDED, IN_TURNS, MIXED } forced_way;

void __real_gs_mixing_follow(gs_mixing *mixing_now, const gs_decide_options *options, const gs_contender *contenders,
                             size_t count, gs_decided_place *places, uint64_t now_ns);
void __wrap_gs_mixing_follow(gs_mixing *mixing_now, const gs_decide_options *options, const gs_contender *contenders,
                             size_t count, gs_decided_place *places, uint64_t now_ns);
void __wrap_gs_mixing_follow(gs_mixing *mixing_now, const gs_decide_options *options, const gs_contender *contenders,
                             size_t count, gs_decided_place *places, uint64_t now_ns) {
    if (mixing_now->now && forced_way != AS_DECIDED) {
        mixing_now->now->is_compared = false;
        mixing_now->now->is_mixed = forced_way == MIXED;
        mixing_now->now->due_ns = INFINITY;
    }
    __real_gs_mixing_follow(mixing_now, options, contenders, count, places, now_ns);
}

/* ---- the device ---- */

enum engine { COPIES, KERNELS, LOADS, ENGINES };

struct operation {
    uint32_t queue;
    enum engine engine;
    bool defers;
    uint64_t tag, blocks, first_block, expected_ns;
    uint32_t mask; /* of a confined launch that has its SMs for itself */
    int64_t given_ns, takes_ns;
    int64_t ready_ns; /* when it became the first of its queue; 0: it is not */
    uint64_t taken;   /* by slots: blocks that have begun, those of earlier launches included, */
    uint32_t slots;   /* and how many of them run */
    struct operation *next;
};

struct queue {
    struct operation *first, **last; /* that wait or run */
    struct operation *ended;         /* reports are deferred, */
    int64_t ended_ns;                /* the last one ended then */
    int64_t reported_ns;
    uint64_t given, restarts; /* operations, and those that found the queue empty */
};

struct gs_worker {
    gs_worker_facts facts;
    struct queue queues[QUEUES];
    struct operation *running[ENGINES];
    int64_t ends_ns[ENGINES];
    int64_t busy_ns[ENGINES];
    int64_t mixed_ns; /* while two queues or more had something to do */
    uint64_t done[ENGINES];
    gs_worker_report reports[OPERATIONS];
    int64_t visible_ns[OPERATIONS];
    size_t first, count;
    int shared; /* regions */
    struct {
        uint64_t launches, blocks, deferred, sms, first_blocks;
    } asked[GS_LAUNCH_CONFINED + 1]; /* by form */
    uint64_t confined, confined_sms; /* changes of running launches */
};

static struct gs_worker device;

/* If blocks are long, each runs in a slot of an SM of its launch, and a launch that is stopped waits for those that
   have begun. */
enum { SLOTS = 8 }; /* of an SM */
static struct {
    int64_t block_ns; /* 0: launches take the time of their blocks on the whole device */
    struct slot {
        struct operation *launch; /* NULL: it is free */
        int64_t until_ns;
    } all[SMS][SLOTS];
} slots;

/* What the device was asked and when, as a number. */
static uint64_t told;

static void tell(const void *bytes, size_t count) {
    told = gs_hash(told, bytes, count);
}
#define TELL(...)                                                                                                      \
    tell((const uint64_t[]){(uint64_t)clock_ns, __VA_ARGS__}, sizeof(const uint64_t[]){(uint64_t)clock_ns, __VA_ARGS__})

/* Of four launches with this many blocks, one takes nine times as long; 0: there are none. */
static uint64_t uneven_blocks, uneven_launches;

/* How much longer launches take than their blocks say. */
static struct {
    bool is_used;
    gs_random random;
    double depths[32]; /* of launches in turn; 0 is the end */
    uint64_t launches;
    double loops[64]; /* of block loops, relative to the original, for each gs_profile_blocks */
    double noise;
    int held_up_percent;
} varied;

static double draw(gs_random *random, double low, double high) {
    return low + (high - low) * (double)gs_random_from(random, 0, 1000000) / 1e6;
}

static double *loop_of(uint64_t blocks) {
    uint64_t class = gs_profile_blocks(blocks);
    int bits = 63 - __builtin_clzll(class);
    return &varied.loops[2 * bits % 64 + (class != (uint64_t)1 << bits)];
}

static double vary(const gs_worker_launch *launch) {
    uint64_t count = 0;
    while (varied.depths[count] > 0)
        count++;
    double factor = varied.depths[varied.launches++ % count] * draw(&varied.random, 1 - varied.noise, 1 + varied.noise);
    if (launch->form == GS_LAUNCH_BLOCK_LOOP)
        factor *= *loop_of(gs_launch_blocks(launch));
    return gs_random_chance(&varied.random, varied.held_up_percent) ? factor * draw(&varied.random, 1, 10) : factor;
}

/* Launches of two clients, which are mixed if both have some on the device. */
static struct {
    bool is_used;
    double factor;        /* how much longer a launch takes then */
    double depths[2][32]; /* how much longer a launch takes than its blocks say, for launches in turn; 0 is the end */
    double noise;
    gs_random random;
    double work_ns[2]; /* of the launches of each that have begun, if none was mixed */
} mixing;

/* The first or the second client: slots of sessions are counted from 1. */
static size_t client_of(uint32_t queue) {
    return (queue / GS_CLIENT_STREAMS - 1) % 2;
}

static double depth_of(uint32_t queue) {
    const double *depths = mixing.depths[client_of(queue)];
    uint64_t count = 0;
    while (depths[count] > 0)
        count++;
    return depths[device.queues[queue].given % count] * draw(&mixing.random, 1 - mixing.noise, 1 + mixing.noise);
}

/* Called when a launch begins. */
static void mix(struct operation *launch) {
    bool is_mixed = false;
    for (size_t i = 0; i < QUEUES; i++) {
        const struct operation *other = device.queues[i].first;
        is_mixed |= other && other != launch && other->engine == KERNELS && other->ready_ns <= clock_ns;
    }
    mixing.work_ns[client_of(launch->queue)] += (double)launch->takes_ns;
    if (is_mixed)
        launch->takes_ns = (int64_t)((double)launch->takes_ns * mixing.factor);
}

/* Launches that share SMs, by a plan or because they fit. */
static struct {
    const char *plan;      /* its file; NULL: none */
    bool is_tried;         /* the GPU is one that the predictor knows */
    uint32_t most_workers; /* of each launch; 0: none shares */
    int64_t percent;       /* of the time in sequence that they take */
    int64_t from_ns;
    uint64_t launches; /* from then on */
} sharing;

/* Of so many copies and launches one fails; 0: none. */
static uint64_t fails_every, reports;

static gs_code next_code(uint32_t kind) {
    bool fails = kind != GS_REPORT_LOADED && fails_every && ++reports % fails_every == 0;
    return !fails ? GS_OK : reports / fails_every % 2 ? GS_E_FULL : GS_E_USAGE;
}

static void report(uint32_t kind, const struct operation *operation, int64_t began, int64_t ended, bool is_estimated) {
    assert_true(device.count < OPERATIONS);
    size_t at = (device.first + device.count++) % OPERATIONS;
    device.reports[at] = (gs_worker_report){.kind = kind,
                                            .code = next_code(kind),
                                            .tag = operation->tag,
                                            .began_ns = (uint64_t)began,
                                            .ended_ns = (uint64_t)ended,
                                            .blocks_done = operation->blocks,
                                            .is_estimated = is_estimated,
                                            .cost = {.registers = sharing.is_tried ? 32 : 0}};
    if (device.reports[at].code == GS_E_USAGE)
        snprintf(device.reports[at].message, sizeof device.reports[at].message, "it went wrong");
    device.visible_ns[at] = ended + way_ns;
}

/* Operations that are found done at the same time have shared the time. */
static void retire(struct queue *queue, int64_t now) {
    static const uint32_t kinds[ENGINES] = {GS_REPORT_COPIED, GS_REPORT_RAN, GS_REPORT_LOADED};
    uint64_t left = 0;
    bool is_estimated = false;
    for (const struct operation *operation = queue->ended; operation; operation = operation->next) {
        left += operation->expected_ns + 1;
        is_estimated |= operation->blocks != queue->ended->blocks;
    }
    for (struct operation *operation; (operation = queue->ended);) {
        uint64_t mine = operation->expected_ns + 1;
        int64_t began = gs_max(operation->given_ns, queue->reported_ns);
        int64_t ended = began + (int64_t)((double)(now - began) * (double)mine / (double)left);
        report(kinds[operation->engine], operation, began, ended, is_estimated);
        device.visible_ns[(device.first + device.count - 1) % OPERATIONS] = now + way_ns;
        queue->reported_ns = ended;
        queue->ended = operation->next;
        left -= mine;
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
    device.done[engine]++;
    if (!operation->defers)
        retire(queue, now);
}

/* Starts the operation that has been first of its queue for longest. */
static void begin(enum engine engine, int64_t from) {
    struct operation *best = NULL;
    for (size_t i = 0; i < QUEUES && !(engine == KERNELS && slots.block_ns); i++) {
        struct operation *operation = device.queues[i].first;
        if (operation && operation->engine == engine && operation->ready_ns <= clock_ns &&
            (!best || operation->ready_ns < best->ready_ns))
            best = operation;
    }
    if (!best)
        return;
    device.running[engine] = best;
    if (engine == KERNELS && mixing.is_used)
        mix(best);
    device.ends_ns[engine] = gs_max(from, best->ready_ns) + best->takes_ns;
    device.busy_ns[engine] += best->takes_ns;
}

/* The launch whose blocks a slot of this SM takes: that which has been first of its queue for longest. */
static struct operation *launch_for(int32_t sm) {
    struct operation *best = NULL;
    for (size_t i = 0; i < QUEUES; i++) {
        struct operation *launch = device.queues[i].first;
        bool may_take = launch && launch->engine == KERNELS && launch->ready_ns <= clock_ns &&
                        launch->taken < launch->blocks && (!launch->mask || launch->mask >> sm & 1);
        if (may_take && (!best || launch->ready_ns < best->ready_ns))
            best = launch;
    }
    return best;
}

static void fill_slots(int64_t now) {
    for (int32_t at = 0; at < SMS * SLOTS; at++) {
        struct slot *slot = &slots.all[at % SMS][at / SMS];
        struct operation *launch = slot->launch ? NULL : launch_for(at % SMS);
        if (!launch)
            continue;
        *slot = (struct slot){launch, now + slots.block_ns};
        launch->taken++;
        launch->slots++;
    }
}

static void end_if_done(struct operation *launch, int64_t now) {
    if (launch->slots || launch->taken < launch->blocks)
        return;
    device.running[KERNELS] = launch;
    end(KERNELS, now);
}

static struct slot *first_to_end(void) {
    struct slot *first = NULL;
    for (int32_t at = 0; at < SMS * SLOTS; at++) {
        struct slot *slot = &slots.all[at % SMS][at / SMS];
        if (slot->launch && (!first || slot->until_ns < first->until_ns))
            first = slot;
    }
    return first;
}

static void play_slots(void) {
    fill_slots(clock_ns);
    for (struct slot *slot; (slot = first_to_end()) && slot->until_ns <= clock_ns;) {
        struct operation *launch = slot->launch;
        int64_t now = slot->until_ns;
        slot->launch = NULL;
        launch->slots--;
        device.busy_ns[KERNELS] += slots.block_ns / (SMS * SLOTS);
        end_if_done(launch, now);
        fill_slots(now);
    }
}

static void play_device(void) {
    if (slots.block_ns)
        play_slots();
    for (enum engine engine = 0; engine < ENGINES; engine++)
        for (int64_t from = 0;; from = device.ends_ns[engine]) {
            if (!device.running[engine])
                begin(engine, from);
            if (!device.running[engine] || device.ends_ns[engine] > clock_ns)
                break;
            end(engine, device.ends_ns[engine]);
        }
    int busy = 0;
    for (size_t i = 0; i < QUEUES; i++) {
        struct queue *queue = &device.queues[i];
        busy += queue->first != NULL;
        if (queue->ended && !queue->first && clock_ns >= queue->ended_ns + DEFER_NS)
            retire(queue, queue->ended_ns + DEFER_NS);
    }
    device.mixed_ns += busy > 1 ? turn_ns : 0;
}

static gs_code give(struct operation operation) {
    struct operation *made = malloc(sizeof *made);
    struct queue *queue = &device.queues[operation.queue % QUEUES];
    assert_non_null(made);
    *made = operation;
    made->queue = operation.queue % QUEUES;
    made->given_ns = clock_ns + way_ns;
    queue->given++;
    if (!queue->first) {
        queue->restarts++;
        queue->last = &queue->first;
        made->ready_ns = made->given_ns;
    }
    *queue->last = made;
    queue->last = &made->next;
    return GS_OK;
}

/* ---- launches that are stopped ---- */

static struct operation *find_launch(uint64_t tag) {
    for (size_t i = 0; i < QUEUES; i++)
        for (struct operation *at = device.queues[i].first; at; at = at->next)
            if (at->engine == KERNELS && at->tag == tag)
                return at;
    return NULL;
}

/* The blocks that are done, those of earlier launches included. */
static uint64_t progress_of(const struct operation *launch) {
    if (slots.block_ns)
        return launch->taken;
    int64_t left_ns = device.ends_ns[KERNELS] - clock_ns;
    if (device.running[KERNELS] != launch || left_ns > launch->takes_ns)
        return launch->first_block;
    return launch->blocks - (launch->blocks - launch->first_block) * (uint64_t)gs_max(left_ns, 0) /
                                (uint64_t)gs_max(launch->takes_ns, 1);
}

/* A launch without SMs ends with the blocks that it has done. */
static void stop_launch(struct operation *launch) {
    launch->blocks = progress_of(launch);
    if (slots.block_ns)
        end_if_done(launch, clock_ns);
    else if (device.running[KERNELS] == launch)
        device.ends_ns[KERNELS] = gs_min(device.ends_ns[KERNELS], clock_ns);
    else
        launch->takes_ns = 0;
}

/* No SM belongs to two launches, unless these may share SMs. */
static void expect_own_sms(const struct operation *launch) {
    for (size_t i = 0; i < QUEUES && !sharing.most_workers; i++)
        for (const struct operation *at = device.queues[i].first; at; at = at->next)
            if (at != launch && at->engine == KERNELS && at->queue != launch->queue)
                assert_int_equal(at->mask & launch->mask, 0);
}

/* ---- functions that the daemon calls ---- */

gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error) {
    (void)options, (void)error;
    device = (struct gs_worker){.facts = {.name = "played", .sms = SMS, .memory_bytes = (uint64_t)1 << 33}};
    if (sharing.is_tried)
        snprintf(device.facts.name, sizeof device.facts.name, "NVIDIA H200");
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
    (void)worker, (void)fd;
    TELL(1, region, bytes);
    device.shared++;
    return GS_OK;
}

void gs_worker_unshare(gs_worker *worker, uint32_t region) {
    (void)worker, (void)region;
}

gs_code gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image) {
    (void)worker, (void)image;
    TELL(2, tag, module);
    return give((struct operation){.queue = LOADING_QUEUE, .engine = LOADS, .tag = tag, .takes_ns = module_ns});
}

void gs_worker_unload(gs_worker *worker, uint32_t module) {
    (void)worker, (void)module;
}

gs_code gs_worker_copy(gs_worker *worker, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    (void)worker;
    TELL(3, tag, queue, in, memory, at, region, region_at, bytes);
    int64_t takes_ns = (int64_t)bytes / BYTES_PER_NS * (region_at >= slow_from ? SLOWER : 1);
    return give((struct operation){.queue = queue, .engine = COPIES, .tag = tag, .takes_ns = 1000 + takes_ns});
}

gs_code gs_worker_fill(gs_worker *worker, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    (void)value;
    return gs_worker_copy(worker, tag, queue, true, memory, at, 0, 0, bytes);
}

/* Kernels take the whole device one after the other, also those that are confined. */
gs_code gs_worker_start(gs_worker *worker, uint64_t tag, gs_worker_launch *launch) {
    uint64_t blocks = gs_launch_blocks(launch);
    worker->asked[launch->form].launches++;
    worker->asked[launch->form].blocks += blocks;
    worker->asked[launch->form].deferred += launch->defer_report;
    worker->asked[launch->form].sms += (uint64_t)__builtin_popcount(launch->mask[0]);
    worker->asked[launch->form].first_blocks += launch->first_block;
    if (launch->workers) {
        assert_int_equal(launch->form, GS_LAUNCH_CONFINED);
        assert_in_range(launch->workers, 1, sharing.most_workers);
        assert_int_equal(launch->mask[0], (1 << SMS) - 1);
        sharing.launches += clock_ns > sharing.from_ns;
    }
    bool is_heavy = blocks == uneven_blocks && uneven_launches++ % 4 == 0;
    TELL(4, tag, launch->request.queue, launch->form, blocks, launch->first_block, launch->task_blocks, launch->workers,
         launch->defer_report, launch->mask[0]);
    struct operation operation = {.queue = launch->request.queue,
                                  .engine = KERNELS,
                                  .tag = tag,
                                  .blocks = blocks,
                                  .first_block = launch->first_block,
                                  .taken = launch->first_block,
                                  .expected_ns = launch->expected_ns,
                                  .mask = launch->workers ? 0 : launch->mask[0],
                                  .defers = launch->defer_report,
                                  .takes_ns = (int64_t)(blocks - launch->first_block) * BLOCK_NS / 100 *
                                              (launch->workers ? sharing.percent : 100) * (is_heavy ? 9 : 1)};
    if (varied.is_used)
        operation.takes_ns = (int64_t)((double)operation.takes_ns * vary(launch));
    if (mixing.is_used)
        operation.takes_ns = (int64_t)((double)operation.takes_ns * depth_of(operation.queue % QUEUES));
    expect_own_sms(&operation);
    return give(operation);
}

void gs_worker_confine(gs_worker *worker, uint64_t tag, const uint32_t *mask) {
    struct operation *launch = find_launch(tag);
    TELL(5, tag, mask[0]);
    worker->confined++;
    worker->confined_sms += (uint64_t)__builtin_popcount(mask[0]);
    if (!launch)
        return;
    launch->mask = launch->mask ? mask[0] : 0;
    expect_own_sms(launch);
    if (!mask[0])
        stop_launch(launch);
}

uint64_t gs_worker_progress(const gs_worker *worker, uint64_t tag) {
    (void)worker;
    const struct operation *launch = find_launch(tag);
    return launch ? progress_of(launch) : 0;
}

uint64_t gs_worker_kernel_bytes(const gs_worker *worker) {
    (void)worker;
    return 0;
}

/* ---- clients ---- */

struct client {
    gs_session *session;
    int near, far;
    gs_ring ring;
    enum engine engine;
    uint32_t streams, at_once; /* commands that it sends before it waits; 0: it never waits */
    uint64_t size;             /* of each: bytes or blocks, */
    const uint32_t *sizes;     /* or of one after the other; 0 is the end */
    int64_t pause_ns, asleep_until_ns;
    uint64_t sent;   /* commands */
    uint32_t weight; /* 0: 100, as in the client library */
    int32_t priority;
    uint32_t most_sms;                   /* 0: all */
    int64_t comes_ns;                    /* after the others */
    bool leaves;                         /* when it has waited, and another client like it comes */
    int64_t began_ns, longest_ns, waits; /* how long it waited; not for what must be compiled */
    int64_t compile_ns; /* LOADS: of the first source; the others, and if it is 0 all, are in the cache */
    bool hangs;         /* LOADS: a file system does not answer */
    uint32_t loads;     /* LOADS: of how many modules at a time; 0: one */
    bool alternates;    /* KERNELS: every other command is a copy of as many bytes */
    int32_t process;
};

static gs_image *new_image(void) {
    gs_image *image = calloc(1, sizeof *image + sizeof image->kernels[0]);
    assert_non_null(image);
    *image = (gs_image){.fd = -1, .kernel_count = 1};
    image->kernels[0].can_be_confined = true;
    image->kernels[0].form.most_blocks = GS_JOB_BLOCKS;
    image->kernels[0].name[0] = 'k';
    return image;
}

static void add_resources(gs_session *session) {
    for (int kind = 0; kind < GS_RESOURCE_KINDS; kind++) {
        uint64_t bytes = kind == GS_RESOURCE_MODULE ? 0 : MEMORY_BYTES;
        gs_resource **place, *resource = gs_resource_new(session, (enum gs_resource_kind)kind, bytes);
        assert_non_null(resource);
        assert_int_equal(gs_resource_place(session, (enum gs_resource_kind)kind, MODULE, &place), GS_TABLE_OK);
        *place = resource;
        resource->is_ready = true;
        resource->life = session->server->life;
        if (kind != GS_RESOURCE_MODULE)
            continue;
        resource->image = new_image();
        resource->ns_per_block = calloc(1, sizeof *resource->ns_per_block);
        assert_non_null(resource->ns_per_block);
    }
}

static void come(struct client *client, gs_server *server) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    client->near = ends[0];
    client->far = ends[1];
    gs_session_options options = {.weight = client->weight ? client->weight : 100,
                                  .socket = client->near,
                                  .page = memfd_create("test", 0),
                                  .priority = client->priority,
                                  .most_sms = client->most_sms,
                                  .process = client->process};
    snprintf(options.name, sizeof options.name, "%s", client->engine == KERNELS ? "kernels" : "others");
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

/* ---- sources ---- */

enum { LOOK_UP_NS = 3000000, JOBS = GS_LOOK_UPS + GS_COMPILERS + GS_SLOW_JOBS };

struct gs_images {
    gs_image_job *jobs[JOBS]; /* NULL: free */
    int64_t ends_ns[JOBS];
};

static struct gs_images images;

gs_images *gs_images_open(const char *folder, gs_error *error) {
    (void)folder, (void)error;
    images = (struct gs_images){.jobs = {0}};
    return &images;
}

void gs_images_close(gs_images *played) {
    for (int i = 0; i < JOBS; i++)
        free(played->jobs[i]);
}

const gs_error *gs_images_problem(const gs_images *of) {
    (void)of;
    return NULL;
}

int gs_images_fd(const gs_images *played) {
    (void)played;
    return -1;
}

gs_image_job *gs_image_job_new(const gs_image_request *request, void *owner) {
    gs_image_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    *job = (gs_image_job){.request = *request, .owner = owner};
    return job;
}

static void begin_job(gs_images *played, gs_image_job *job, int64_t takes_ns) {
    int place = 0;
    while (played->jobs[place])
        assert_true(++place < JOBS);
    played->jobs[place] = job;
    played->ends_ns[place] = clock_ns + takes_ns;
    job->took_ns = (uint64_t)takes_ns;
}

enum { NEVER = INT32_MAX };

/* The number of kernels stands for how long the compiler takes. */
void gs_images_find(gs_images *played, gs_image_job *job) {
    bool is_ending = job->request.kernel_count != NEVER;
    job->must_compile = is_ending && job->request.kernel_count > 0;
    begin_job(played, job, is_ending ? LOOK_UP_NS : INT64_MAX / 2);
}

void gs_images_compile(gs_images *played, gs_image_job *job) {
    job->must_compile = false;
    assert_true(job->request.has_others);
    begin_job(played, job, (int64_t)job->request.kernel_count * 1000000);
}

gs_image_job *gs_images_take(gs_images *played) {
    for (int i = 0; i < JOBS; i++) {
        gs_image_job *job = played->jobs[i];
        if (!job || played->ends_ns[i] > clock_ns)
            continue;
        played->jobs[i] = NULL;
        job->image = job->must_compile ? NULL : new_image();
        return job;
    }
    return NULL;
}

void gs_image_job_stop(gs_image_job *job) {
    (void)job;
}

void gs_images_drop(gs_images *played, gs_image_job *job) {
    (void)played;
    gs_image_free(job->image);
    free(job);
}

static void load_module(gs_session *session, uint32_t handle, uint32_t takes_ms) {
    gs_resource **place;
    gs_action *action = gs_action_new(session, GS_WIRE_LOAD);
    assert_non_null(action);
    assert_int_equal(gs_resource_place(session, GS_RESOURCE_MODULE, handle, &place), GS_TABLE_OK);
    *place = gs_resource_new(session, GS_RESOURCE_MODULE, 0);
    assert_non_null(*place);
    gs_resource_use(action->resource = *place);
    action->handle = handle;
    gs_load_start(action, &(gs_image_request){.source = -1, .kernel_count = takes_ms});
}

static void start_load(struct client *client) {
    bool is_new = client->compile_ns && !client->waits;
    client->began_ns = is_new ? INT64_MAX : clock_ns;
    for (uint32_t i = 0; i == 0 || i < client->loads; i++)
        load_module(client->session, LOADED_MODULE + i,
                    client->hangs ? NEVER
                    : is_new      ? (uint32_t)(client->compile_ns / 1000000)
                                  : 0);
}

/* Called when the work of a client is done: it pauses, or another client takes its place. */
static void end_wait(struct client *client, gs_server *server) {
    client->longest_ns = gs_max(client->longest_ns, clock_ns - client->began_ns);
    client->began_ns = 0;
    client->waits++;
    client->asleep_until_ns = clock_ns + client->pause_ns;
    if (!client->leaves)
        return;
    leave(client);
    client->sent = 0;
    come(client, server);
}

/* A client loads, unloads, and pauses. */
static void play_loader(struct client *client, gs_server *server) {
    gs_wire_free unload = {.head = {GS_WIRE_UNLOAD, 0}, .handle = LOADED_MODULE};
    if (client->session->actions || client->session->commands < client->sent)
        return;
    if (!client->began_ns && clock_ns >= client->asleep_until_ns) {
        start_load(client);
    } else if (client->began_ns) {
        for (uint32_t i = 0; !client->leaves && (i == 0 || i < client->loads); i++, unload.handle++)
            client->sent += gs_ring_put(&client->ring, &unload, sizeof unload) == GS_RING_DONE;
        end_wait(client, server);
    }
}

/* ---- commands ---- */

/* False: the ring is full. */
static bool send_one(struct client *client) {
    uint32_t stream = (uint32_t)(client->sent % client->streams), count = 0;
    while (client->sizes && client->sizes[count])
        count++;
    client->size = count ? client->sizes[client->sent % count] : client->size;
    gs_wire_copy copy = {.head = {GS_WIRE_COPY_IN, stream}, .memory = 1, .region = 1, .bytes = client->size};
    gs_wire_launch launch = {
        .head = {GS_WIRE_LAUNCH, stream}, .module = MODULE, .grid = {(uint32_t)client->size, 1, 1}, .block = {1, 1, 1}};
    bool is_copy = client->engine == COPIES || (client->alternates && client->sent / client->streams % 2);
    gs_ring_result result =
        is_copy ? gs_ring_put(&client->ring, &copy, sizeof copy) : gs_ring_put(&client->ring, &launch, sizeof launch);
    client->sent += result == GS_RING_DONE;
    return result == GS_RING_DONE;
}

static bool is_idle(const struct client *client) {
    return client->session->commands == client->sent && !client->session->actions;
}

static void play_client(struct client *client, gs_server *server) {
    if (client->engine == LOADS) {
        play_loader(client, server);
        return;
    }
    if (!client->at_once) {
        while (send_one(client))
            ;
        return;
    }
    if (!is_idle(client))
        return;
    if (client->began_ns)
        end_wait(client, server);
    if (clock_ns < client->asleep_until_ns)
        return;
    client->began_ns = clock_ns;
    for (uint32_t i = 0; i < client->at_once; i++)
        assert_true(send_one(client));
}

static void note_line(void *context, const char *line) {
    (void)context;
    tell(line, strlen(line));
}

/* ---- tests ---- */

enum { START_NS = 1000000000, WARM_UP_MS = 150, MEASURED_MS = 150, MOST_CLIENTS = 16 };

struct result {
    uint64_t did[MOST_CLIENTS]; /* bytes, blocks or loads that were done for each client, */
    int64_t busy_ns[ENGINES];   /* how long the device worked, */
    uint64_t done[ENGINES];     /* and how many operations it did, after the warm-up */
};

static uint64_t done_for(const struct client *client) {
    if (!client->session || client->engine == LOADS)
        return (uint64_t)client->waits;
    const gs_session_counts *counts = &client->session->counts;
    return client->engine == COPIES ? counts->copied_bytes : counts->blocks;
}

static struct result difference(const struct client *clients, size_t count, const struct result *before) {
    struct result result = {.did = {0}};
    for (size_t i = 0; i < count; i++)
        result.did[i] = done_for(&clients[i]) - (before ? before->did[i] : 0);
    for (int i = 0; i < ENGINES; i++) {
        result.busy_ns[i] = device.busy_ns[i] - (before ? before->busy_ns[i] : 0);
        result.done[i] = device.done[i] - (before ? before->done[i] : 0);
    }
    return result;
}

static void play_until(gs_server *server, struct client *clients, size_t count, int64_t until) {
    while (clock_ns < until) {
        clock_ns += turn_ns;
        play_device();
        gs_loads_collect(server);
        for (size_t i = 0; i < count; i++) {
            if (!clients[i].session && clock_ns >= START_NS + clients[i].comes_ns)
                come(&clients[i], server);
            if (clients[i].session)
                play_client(&clients[i], server);
        }
        gs_server_work(server);
    }
}

static gs_server *open_server(void) {
    gs_error error;
    clock_ns = START_NS;
    gs_server *server = gs_server_open(
        &(gs_server_options){
            .plan = sharing.plan, .tries_intra_sm = sharing.is_tried, .limit_ns = UINT64_MAX / 2, .say = note_line},
        &error);
    assert_non_null(server);
    server->cores = 16; /* regardless of this machine */
    return server;
}

/* Counts the work after the warm-up, or, if a client comes later, from then on. */
static struct result play(struct client *clients, size_t count) {
    gs_server *server = open_server();
    int64_t warm_up_ns = 0;
    for (size_t i = 0; i < count; i++)
        warm_up_ns = gs_max(warm_up_ns, clients[i].comes_ns);
    if (!warm_up_ns)
        warm_up_ns = (int64_t)WARM_UP_MS * 1000000;
    play_until(server, clients, count, clock_ns + warm_up_ns);
    struct result before = difference(clients, count, NULL);
    play_until(server, clients, count, clock_ns + (int64_t)MEASURED_MS * 1000000);
    struct result result = difference(clients, count, &before);
    for (size_t i = 0; i < count; i++)
        leave(&clients[i]);
    play_until(server, clients, 0, clock_ns + (int64_t)WARM_UP_MS * 1000000);
    assert_int_equal(server->transfers.held, 0); /* nothing is left of them */
    assert_int_equal(server->transfers.moving, 0);
    gs_server_close(server);
    return result;
}

/* The throughput of a client beside a flood, in percent of that beside a client like itself. */
static double kept(struct client honest, struct client flood) {
    struct client equal[] = {honest, honest}, flooded[] = {honest, flood};
    struct result share = play(equal, 2), rest = play(flooded, 2);
    return 100.0 * (double)rest.did[0] / (double)share.did[0];
}

/* For clients with pauses, and ways to the worker and back, of several lengths. */
static void expect_shares(struct client honest, struct client flood) {
    static const struct {
        int64_t pause_ns, way_ns;
    } cases[] = {{60000, 10000}, {200000, 30000}, {5000, 1000}, {200000, 1000}, {1000000, 1000}, {3000000, 10000}};
    size_t count = test_number("GRIDSMITH_RUNS", 100000) < 10000 ? 1 : GS_COUNT(cases);
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

TEST(copies_keep_their_share_beside_large_copies) {
    expect_shares(copier, large_copies);
}

/* Small copies take no longer than a piece of a large one. */
TEST(small_copies_keep_their_share_beside_large_copies) {
    struct client honest = copier;
    honest.size = 256 << 10;
    expect_shares(honest, large_copies);
}

/* A copy that begins when another client has just copied is in small pieces at first only. */
TEST(a_long_copy_gets_larger_pieces) {
    struct client clients[] = {copier, large_copies};
    clients[0].pause_ns = INT64_MAX / 2;
    clients[1].streams = 1;
    clients[1].size = MEMORY_BYTES;
    clients[1].comes_ns = 1000000;
    struct result result = play(clients, 2);
    assert_true(result.did[1] / result.done[COPIES] > 1 << 20);
    assert_true(result.did[1] > (uint64_t)MEASURED_MS * 1000 * BYTES_PER_NS * 950);
}

/* Clients that copy little are behind all others by as much as they may catch up. Clients that come are not: otherwise
   one that had its share would wait until they have caught up, too. */
TEST(clients_that_come_have_nothing_to_catch_up) {
    enum { SMALL = 6, LARGE = 8, COUNT = 1 + SMALL + LARGE, LONGEST_NS = 5000000 };
    struct client clients[COUNT] = {copier};
    clients[0].pause_ns = 60000;
    for (int i = 1; i < COUNT; i++)
        clients[i] = (struct client){.engine = COPIES, .streams = 1, .at_once = 1, .size = 4096, .pause_ns = 30000};
    for (int i = 1 + SMALL; i < COUNT; i++) {
        clients[i] = large_copies;
        clients[i].comes_ns = 100000000 + i * 5000000 + i * 10000;
    }
    play(clients, COUNT);
    assert_true(clients[0].waits > 100);
    assert_in_range(clients[0].longest_ns, 1, LONGEST_NS);
}

/* The limit for catching up is a time, also if copies of a client are slower than those before them. */
TEST(nobody_waits_long_for_a_client_that_catches_up) {
    enum {
        LONGEST_NS = 30000000
    }; /* the limit for catching up, and the work that was on its way when it became slow */
    struct client clients[] = {copier, copier};
    clients[0].pause_ns = 60000;
    clients[1].size = 64 << 20;
    clients[1].pause_ns = 50000000;
    slow_from = copier.size;
    play(clients, 2);
    slow_from = UINT64_MAX;
    assert_true(clients[1].waits > 1);
    assert_in_range(clients[0].longest_ns, 1, LONGEST_NS);
}

TEST(copies_keep_their_share_beside_many_small_copies) {
    expect_shares(copier, small_copies);
}

TEST(launches_keep_their_share_beside_launches) {
    expect_shares(launcher, launches);
}

/* Launches of one kernel with the same grid may differ. They are charged with what they take on average. */
TEST(uneven_launches_have_their_share_and_no_more) {
    enum { PLAYED_MS = 600 };
    struct client clients[] = {{.engine = KERNELS, .streams = 1, .size = 20, .comes_ns = 20000000},
                               {.engine = KERNELS, .streams = 1, .size = 12}};
    uneven_blocks = clients[1].size;
    gs_server *server = open_server();
    play_until(server, clients, GS_COUNT(clients), clock_ns + clients[0].comes_ns + turn_ns);
    int64_t before_ns = device.busy_ns[KERNELS];
    play_until(server, clients, GS_COUNT(clients), clock_ns + (int64_t)PLAYED_MS * 1000000);
    double even_ns = (double)clients[0].session->counts.blocks * BLOCK_NS;
    double uneven_ns = (double)(device.busy_ns[KERNELS] - before_ns) - even_ns;
    uneven_blocks = 0;
    for (size_t i = 0; i < GS_COUNT(clients); i++)
        leave(&clients[i]);
    gs_server_close(server);
    if (fabs(uneven_ns / even_ns - 1) > 0.1)
        fail_msg("uneven launches had %.2f times as much", uneven_ns / even_ns);
}

/* A client with kernels of 12 ms, which are confined and resized, beside two with kernels of 50 us: each has a third.
 */
TEST(long_launches_have_their_share_beside_short_ones) {
    enum { LEARNED_MS = 300, PLAYED_MS = 900, COUNT = 3, SHORT = SMS * SLOTS };
    struct client clients[COUNT] = {{.engine = KERNELS, .streams = 1, .size = 240 * SHORT},
                                    {.engine = KERNELS, .streams = 1, .size = SHORT},
                                    {.engine = KERNELS, .streams = 1, .size = SHORT}};
    uint64_t before[COUNT], sum = 0;
    slots.block_ns = 50000;
    gs_server *server = open_server();
    play_until(server, clients, COUNT, clock_ns + (int64_t)LEARNED_MS * 1000000);
    for (size_t i = 0; i < COUNT; i++)
        before[i] = clients[i].session->counts.blocks;
    play_until(server, clients, COUNT, clock_ns + (int64_t)PLAYED_MS * 1000000);
    for (size_t i = 0; i < COUNT; i++)
        sum += clients[i].session->counts.blocks - before[i];
    for (size_t i = 0; i < COUNT; i++) {
        double part = (double)(clients[i].session->counts.blocks - before[i]) / (double)sum;
        if (fabs(part - 1.0 / COUNT) > 0.02)
            fail_msg("client %zu has %.3f of what was done", i, part);
    }
    for (size_t i = 0; i < COUNT; i++)
        leave(&clients[i]);
    play_until(server, clients, 0, clock_ns + 100000000);
    slots.block_ns = 0;
    gs_server_close(server);
}

/* Kernels of long blocks that need few SMs run beside others. A third client, which needs all, does not wait longer for
   that: few SMs are not little service. */
TEST(launches_on_few_sms_leave_others_their_share) {
    enum { LEARNED_MS = 600, PLAYED_MS = 900, COUNT = 3, ALL = SMS * SLOTS };
    static const struct {
        uint64_t sizes[2];
        double least; /* part of the time that the third has for itself */
    } rows[] = {{{8, 24}, 0.31}, {{8, 8}, 0.45}};
    slots.block_ns = 4500000;
    for (size_t row = 0; row < GS_COUNT(rows); row++) {
        struct client clients[COUNT] = {{.engine = KERNELS, .streams = 1, .size = rows[row].sizes[0]},
                                        {.engine = KERNELS, .streams = 1, .size = rows[row].sizes[1]},
                                        {.engine = KERNELS, .streams = 1, .size = ALL}};
        gs_server *server = open_server();
        play_until(server, clients, COUNT, clock_ns + (int64_t)LEARNED_MS * 1000000);
        uint64_t before = clients[2].session->counts.blocks;
        play_until(server, clients, COUNT, clock_ns + (int64_t)PLAYED_MS * 1000000);
        double ns = (double)(clients[2].session->counts.blocks - before) / ALL * (double)slots.block_ns;
        if (ns < rows[row].least * PLAYED_MS * 1e6)
            fail_msg("beside %llu and %llu blocks: %.3f", (unsigned long long)rows[row].sizes[0],
                     (unsigned long long)rows[row].sizes[1], ns / (PLAYED_MS * 1e6));
        for (size_t i = 0; i < COUNT; i++)
            leave(&clients[i]);
        play_until(server, clients, 0, clock_ns + 100000000);
        gs_server_close(server);
    }
    slots.block_ns = 0;
}

/* A network: layers of many sizes, of which some differ in their depth. */
static const uint32_t layers[] = {40, 8, 12, 60, 3, 12, 80, 6, 12, 24, 5, 12, 33, 10, 4, 12, 15, 20, 7, 12, 0};

/* What a network does beside another client, or alone. */
struct mixed {
    double busy, task; /* parts of the time: that the device works, that it works for the other client, */
    double both;       /* and that both have launches there */
    double reports,
        restarts; /* for each launch: those reported at its end; those of the other that found its queue empty */
};

static uint64_t count_given(const struct client *client, uint64_t *restarts) {
    const struct queue *queue = &device.queues[client->session->streams[0].queue % QUEUES];
    *restarts = queue->restarts;
    return queue->given;
}

/* Beside launches of this size; 0: alone. */
static struct mixed play_network_beside(uint64_t size) {
    enum { LEARNED_MS = 300, PLAYED_MS = 600 };
    struct client clients[] = {{.engine = KERNELS, .streams = 1, .sizes = layers},
                               {.engine = KERNELS, .streams = 1, .size = size, .comes_ns = 50000000}};
    size_t count = size ? 2 : 1;
    struct client *other = &clients[count - 1];
    uint64_t restarts, restarts_before;
    uneven_blocks = 12;
    gs_server *server = open_server();
    play_until(server, clients, count, clock_ns + (int64_t)LEARNED_MS * 1000000);
    struct gs_worker before = device;
    uint64_t blocks = other->session->counts.blocks, given = count_given(other, &restarts_before);
    play_until(server, clients, count, clock_ns + (int64_t)PLAYED_MS * 1000000);
    uint64_t count_all = device.asked[GS_LAUNCH_ORIGINAL].launches - before.asked[GS_LAUNCH_ORIGINAL].launches;
    uint64_t deferred = device.asked[GS_LAUNCH_ORIGINAL].deferred - before.asked[GS_LAUNCH_ORIGINAL].deferred;
    given = count_given(other, &restarts) - given;
    assert_int_equal(device.asked[GS_LAUNCH_CONFINED].launches, before.asked[GS_LAUNCH_CONFINED].launches);
    uneven_blocks = 0;
    struct mixed mixed = {.busy = (double)(device.busy_ns[KERNELS] - before.busy_ns[KERNELS]) / (PLAYED_MS * 1e6),
                          .both = (double)(device.mixed_ns - before.mixed_ns) / (PLAYED_MS * 1e6),
                          .task = (double)(other->session->counts.blocks - blocks) * BLOCK_NS / (PLAYED_MS * 1e6),
                          .reports = 1 - (double)deferred / (double)count_all,
                          .restarts = (double)(restarts - restarts_before) / (double)given};
    for (size_t i = 0; i < count; i++)
        leave(&clients[i]);
    gs_server_close(server);
    return mixed;
}

/* Two clients that always have more to launch run as the GPU mixes them: nothing is confined, the device is busy, and
   each has about half of it, also if the kernels of one take some milliseconds. Most launches find another one before
   them in their queue, and most are reported together, although the layers of a network differ. */
TEST(networks_are_mixed_with_long_kernels) {
    static const struct {
        uint64_t size;
        double most_reports, most_restarts;
    } cases[] = {{20, 0.2, 0.1}, {105, 0.3, 0.1}, {433, 0.3, 0.3}, {600, 0.3, 0.5}, {1500, 0.3, 1.01}};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        struct mixed found = play_network_beside(cases[i].size);
        print_message("beside launches of %d us: busy %.3f, and %.3f for them; both there for %.2f; %.2f reports and "
                      "%.2f restarts a launch\n",
                      (int)(cases[i].size * BLOCK_NS / 1000), found.busy, found.task, found.both, found.reports,
                      found.restarts);
        assert_true(found.busy > 0.99 && fabs(found.task - 0.5) < 0.08);
        assert_true(found.reports < cases[i].most_reports && found.restarts < cases[i].most_restarts);
    }
}

/* Two clients with kernels of 32 ms and more, which are confined, stopped and probed while the other one waits. */
TEST(probes_end_while_others_wait) {
    enum { PLAYED_MS = 800 };
    static const struct {
        int64_t block_us;
        uint32_t blocks[2];
    } cases[] = {{4000, {352, 352}}, {1000, {1408, 2112}}, {300, {4600, 6900}}};
    turn_ns = 10000;
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        struct client clients[2];
        slots.block_ns = cases[i].block_us * 1000;
        for (int k = 0; k < 2; k++)
            clients[k] = (struct client){.engine = KERNELS, .streams = 1, .at_once = 4, .size = cases[i].blocks[k]};
        gs_server *server = open_server();
        play_until(server, clients, 2, clock_ns + PLAYED_MS * 1000000);
        double busy = (double)device.busy_ns[KERNELS] / (PLAYED_MS * 1e6);
        if (busy < 0.9)
            fail_msg("with blocks of %lld us the device is busy for %.2f of the time", (long long)cases[i].block_us,
                     busy);
        for (int k = 0; k < 2; k++)
            leave(&clients[k]);
        play_until(server, clients, 0, clock_ns + 100000000);
        gs_server_close(server);
    }
    slots.block_ns = 0;
    turn_ns = TURN_NS;
}

/* The same beside a client that waits for some launches of 6 ms before it sends more: the last of them is followed by
   none. */
TEST(last_launches_of_a_batch_are_mixed) {
    enum { LEARNED_MS = 300, PLAYED_MS = 600 };
    struct client clients[] = {{.engine = KERNELS, .streams = 1, .sizes = layers},
                               {.engine = KERNELS, .streams = 1, .size = 1000, .at_once = 6, .comes_ns = 50000000}};
    gs_server *server = open_server();
    play_until(server, clients, GS_COUNT(clients), clock_ns + (int64_t)LEARNED_MS * 1000000);
    uint64_t confined = device.asked[GS_LAUNCH_CONFINED].launches, blocks = clients[1].session->counts.blocks;
    play_until(server, clients, GS_COUNT(clients), clock_ns + (int64_t)PLAYED_MS * 1000000);
    double part = (double)(clients[1].session->counts.blocks - blocks) * BLOCK_NS / (PLAYED_MS * 1e6);
    assert_int_equal(device.asked[GS_LAUNCH_CONFINED].launches, confined);
    assert_true(fabs(part - 0.5) < 0.05);
    for (size_t i = 0; i < GS_COUNT(clients); i++)
        leave(&clients[i]);
    gs_server_close(server);
}

/* Two clients that always have more to launch: one has long launches and waits for some of them before it sends more,
   so that for moments nothing is behind them. It may get ahead as far as one that never waits: while one of the two
   waits, nothing is mixed. */
TEST(clients_that_wait_now_and_then_are_mixed) {
    enum { LEARNED_MS = 300, PLAYED_MS = 600 };
    static const uint32_t long_layers[] = {280, 190, 330, 100, 240, 0};
    for (int number = 0; number < 8; number++) {
        uint32_t at_once = (uint32_t)number / 2 * 6;
        int64_t pause_ns = number % 2 ? 1000000 : 0;
        struct client clients[] = {
            {.engine = KERNELS, .streams = 1, .sizes = long_layers, .at_once = at_once, .pause_ns = pause_ns},
            {.engine = KERNELS, .streams = 1, .size = 60, .comes_ns = 50000000}};
        double most_ms = 0;
        forced_way = MIXED;
        gs_server *server = open_server();
        play_until(server, clients, GS_COUNT(clients), clock_ns + (int64_t)LEARNED_MS * 1000000);
        for (int i = 0; i < PLAYED_MS; i++) {
            play_until(server, clients, GS_COUNT(clients), clock_ns + 1000000);
            double lead = (double)clients[0].session->fair.had - (double)clients[1].session->fair.had;
            most_ms = fmax(most_ms, lead / SMS / 1e6);
        }
        print_message("waits after %u launches, and %.1f ms more: %.1f ms ahead at most\n", at_once,
                      (double)pause_ns / 1e6, most_ms);
        assert_true(most_ms > 38 && most_ms < 46);
        for (size_t i = 0; i < GS_COUNT(clients); i++)
            leave(&clients[i]);
        gs_server_close(server);
        forced_way = AS_DECIDED;
    }
}

/* ---- two clients that are mixed, or take turns ---- */

/* A random pair of programs. */
struct pair {
    struct client clients[2];
    uint32_t sizes[2][32];
    double depths[2][32];
    double factor, noise;
};

/* One in three has launches of one size; the others have layers. Half of them wait now and then. */
static void draw_program(gs_random *random, struct pair *pair, int number) {
    size_t count = gs_random_chance(random, 33) ? 1 : (size_t)gs_random_from(random, 4, 30);
    double longest = exp(draw(random, log(10), log(600))), deepest = draw(random, 1, 5);
    for (size_t i = 0; i < count; i++) {
        pair->sizes[number][i] = (uint32_t)draw(random, 3, longest);
        pair->depths[number][i] = gs_random_chance(random, 70) ? 1 : draw(random, 1, deepest);
    }
    bool waits = gs_random_chance(random, 50);
    pair->clients[number] = (struct client){.engine = KERNELS,
                                            .streams = 1,
                                            .sizes = pair->sizes[number],
                                            .at_once = waits ? (uint32_t)gs_random_from(random, 20, 200) : 0,
                                            .pause_ns = waits ? gs_random_from(random, 10000, 200000) : 0,
                                            .comes_ns = number * gs_random_from(random, 50, 150) * 1000000};
}

static struct pair draw_pair(uint64_t index) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), index);
    struct pair pair = {.factor = draw(&random, 0.85, 1.2), .noise = draw(&random, 0, 0.05)};
    for (int number = 0; number < 2; number++)
        draw_program(&random, &pair, number);
    return pair;
}

struct pair_result {
    double both_ms, late_ms; /* what was done in three seconds, and in the last of them, as it takes alone */
    double most_lead_ms;     /* in the last of them */
    double least_part;       /* that one of the two had of it */
    double turns_ms;         /* of three seconds: in turns */
    uint64_t turns;
};

static double lead_ms(const struct pair *pair) {
    double lead = (double)pair->clients[0].session->fair.had - (double)pair->clients[1].session->fair.had;
    return fabs(lead) / SMS / 1e6;
}

/* Plays two programs from when the second one comes. Before that the first is alone. */
static struct pair_result play_pair(struct pair pair, uint64_t index, int way) {
    struct pair_result result = {.both_ms = 0};
    for (int number = 0; number < 2; number++)
        pair.clients[number].sizes = pair.sizes[number];
    forced_way = way;
    mixing.is_used = true;
    mixing.factor = pair.factor;
    mixing.noise = pair.noise;
    mixing.random = gs_random_at(test_number("GRIDSMITH_SEED", 1), index);
    memcpy(mixing.depths, pair.depths, sizeof mixing.depths);
    turn_ns = 4000;
    gs_server *server = open_server();
    play_until(server, pair.clients, 2, clock_ns + pair.clients[1].comes_ns + turn_ns);
    mixing.work_ns[0] = mixing.work_ns[1] = 0;
    double before_ns[2] = {0, 0};
    for (int i = 0; i < 3000; i++) {
        play_until(server, pair.clients, 2, clock_ns + 1000000);
        result.turns_ms += server->mixing.now && !server->mixing.now->is_mixed;
        result.most_lead_ms = i > 2000 ? fmax(result.most_lead_ms, lead_ms(&pair)) : 0;
        if (i == 2000)
            memcpy(before_ns, mixing.work_ns, sizeof before_ns);
    }
    double first_ns = mixing.work_ns[0] - before_ns[0], second_ns = mixing.work_ns[1] - before_ns[1];
    result.both_ms = (mixing.work_ns[0] + mixing.work_ns[1]) / 1e6;
    result.late_ms = (first_ns + second_ns) / 1e6;
    result.least_part = fmin(first_ns, second_ns) / (first_ns + second_ns);
    result.turns = server->mixing.taken;
    for (int i = 0; i < 2; i++)
        leave(&pair.clients[i]);
    gs_server_close(server);
    mixing.is_used = false;
    forced_way = AS_DECIDED;
    turn_ns = TURN_NS;
    return result;
}

/* Random pairs of programs of which the GPU makes 15% less to 20% more work when it mixes them. */
TEST(two_clients_do_as_much_as_mixed_or_in_turns) {
    enum { MOST_LEAD_MS = 50 }; /* 40, and a launch */
    int count = (int)gs_max(test_number("GRIDSMITH_RUNS", 100000) / 5000, 1), near = 0, gaining = 0, losing = 0;
    double worst = 1, sum = 0, most_cost = 0, sum_costs = 0, worst_losing = 1, sum_losing = 0, sum_mixed = 0;
    for (int i = 0; i < count; i++) {
        struct pair pair = draw_pair((uint64_t)i);
        struct pair_result free = play_pair(pair, (uint64_t)i, AS_DECIDED), mixed = play_pair(pair, (uint64_t)i, MIXED),
                           turns = play_pair(pair, (uint64_t)i, IN_TURNS);
        double part = free.late_ms / fmax(mixed.late_ms, turns.late_ms), gain = mixed.late_ms / turns.late_ms;
        worst = fmin(worst, part);
        sum += part;
        near += part > 0.99;
        if (gain > 1.02) { /* what is not gained in turns */
            double cost = (gain - 1) * free.turns_ms / 3000;
            most_cost = fmax(most_cost, cost);
            sum_costs += cost;
            gaining++;
        } else if (gain < 0.98) {
            worst_losing = fmin(worst_losing, part);
            sum_losing += part;
            sum_mixed += gain;
            losing++;
        }
        if (test_number("GRIDSMITH_SHOW", 0))
            print_message("%d: mixed %.3f of turns, as decided %.3f of the better; %llu turns in %.0f ms, at most %.1f "
                          "ms ahead (%.1f mixed, %.1f in turns), %.2f of what was done (%.2f, %.2f)\n",
                          i, gain, part, (unsigned long long)free.turns, free.turns_ms, free.most_lead_ms,
                          mixed.most_lead_ms, turns.most_lead_ms, free.least_part, mixed.least_part, turns.least_part);
        if (free.most_lead_ms > fmax(MOST_LEAD_MS, mixed.most_lead_ms + 2))
            fail_msg("pair %d: one is %.1f ms ahead", i, free.most_lead_ms);
        if (turns.least_part < mixed.least_part - 0.05)
            fail_msg("pair %d: one has %.2f of what was done, and %.2f if they are mixed", i, turns.least_part,
                     mixed.least_part);
    }
    print_message(
        "%d pairs: after two seconds %d are within 1%% of the better way, %.2f%% behind on average, %.1f%% at "
        "most\n",
        count, near, 100 * (1 - sum / count), 100 * (1 - worst));
    if (gaining)
        print_message("%d gain 2%% or more mixed: trials cost %.2f%% of three seconds, %.2f%% at most\n", gaining,
                      100 * sum_costs / gaining, 100 * most_cost);
    if (losing)
        print_message("%d lose 2%% or more mixed, %.1f%% on average: after two seconds %.2f%% behind turns, %.1f%% at "
                      "most\n",
                      losing, 100 * (1 - sum_mixed / losing), 100 * (1 - sum_losing / losing),
                      100 * (1 - worst_losing));
    assert_true(near >= count * 80 / 100 - 1);
    assert_true(sum / count > 0.99);
    assert_true(!gaining || (sum_costs / gaining < 0.008 && most_cost < 0.025));
    assert_true(!losing || sum_losing / losing > 0.98);
}

/* Two programs that run 16 times, each for 40 ms alone, and pause until both are done: a network, and launches that are
   alike. Both have run alone before. If mixing loses, then from the eighth time on they take turns, and the two take as
   long as one after the other. */
TEST(programs_that_repeat_find_the_better_way) {
    enum { ROUNDS = 16, ALONE = 6, LAYERS = 20, PAUSE_NS = 120000000 };
    static const double factors[] = {0.9, 1, 1.03, 1.1};
    turn_ns = 4000;
    for (size_t row = 0; row < GS_COUNT(factors); row++) {
        struct client clients[] = {
            {.engine = KERNELS, .streams = 1, .sizes = layers, .at_once = 15 * LAYERS},
            {.engine = KERNELS, .streams = 1, .size = 35, .at_once = 190, .asleep_until_ns = INT64_MAX}};
        double late_ms = 0, early_ms = 0;
        mixing.is_used = true;
        mixing.factor = factors[row];
        mixing.noise = 0.03;
        mixing.random = gs_random_at(test_number("GRIDSMITH_SEED", 1), row);
        memset(mixing.depths, 0, sizeof mixing.depths);
        for (int i = 0; i < LAYERS; i++)
            mixing.depths[0][i] = layers[i] == 12 && i % 3 == 0 ? 3 : 1;
        mixing.depths[1][0] = 1;
        gs_server *server = open_server();
        clients[0].pause_ns = clients[1].pause_ns = INT64_MAX / 2;
        double alone_ms = 0;
        for (int round = -2 * ALONE; round < ROUNDS; round++) {
            play_until(server, clients, 2, clock_ns + PAUSE_NS);
            int64_t waits[2] = {clients[0].waits, clients[1].waits}, began_ns = clock_ns;
            for (int i = 0; i < 2; i++) /* alone, in turns, and then both */
                clients[i].asleep_until_ns = round >= 0 || (round & 1) == i ? 0 : INT64_MAX;
            for (int i = 0; i < 2; i++)
                while (clients[i].asleep_until_ns < INT64_MAX / 4 && clients[i].waits == waits[i])
                    play_until(server, clients, 2, clock_ns + turn_ns);
            double ms = (double)(clock_ns - began_ns) / 1e6;
            alone_ms += round < 0 && round >= -4 ? ms / 2 : 0;
            early_ms += round >= 0 && round < ROUNDS / 2 ? ms * 2 / ROUNDS : 0;
            late_ms += round >= ROUNDS / 2 ? ms * 2 / ROUNDS : 0;
            if (test_number("GRIDSMITH_SHOW", 0))
                print_message("%.1f%s", ms, round == ROUNDS - 1 ? "\n" : " ");
        }
        print_message("mixed launches take %.3f times as long: %.1f ms one after the other, %.1f ms at first, %.1f ms "
                      "later; %llu turns\n",
                      factors[row], alone_ms, early_ms, late_ms, (unsigned long long)server->mixing.taken);
        assert_true(late_ms < 1.01 * alone_ms * (factors[row] < 1 ? (1 + factors[row]) / 2 : 1) + 0.5);
        for (int i = 0; i < 2; i++)
            leave(&clients[i]);
        gs_server_close(server);
        mixing.is_used = false;
    }
    turn_ns = TURN_NS;
}

/* A client that comes while two take turns waits no longer than while the two are mixed. */
TEST(a_newcomer_does_not_wait_for_turns) {
    double waited_ms[2] = {0};
    for (int way = IN_TURNS; way <= MIXED; way++) {
        struct client clients[] = {
            {.engine = KERNELS, .streams = 1, .sizes = layers},
            {.engine = KERNELS, .streams = 1, .size = 60},
            {.engine = KERNELS, .streams = 1, .at_once = 1, .size = 10, .pause_ns = 150000000, .comes_ns = 300000000}};
        forced_way = way;
        gs_server *server = open_server();
        play_until(server, clients, 3, clock_ns + 3000000000);
        waited_ms[way - IN_TURNS] = (double)clients[2].longest_ns / 1e6;
        assert_true(clients[2].waits > 10);
        assert_true((server->mixing.taken > 50) == (way == IN_TURNS));
        for (int i = 0; i < 3; i++)
            leave(&clients[i]);
        gs_server_close(server);
        forced_way = AS_DECIDED;
    }
    print_message("a newcomer waits for %.1f ms at most beside two in turns, %.1f ms beside two that are mixed\n",
                  waited_ms[0], waited_ms[1]);
    assert_true(waited_ms[0] < waited_ms[1] + 1);
}

/* Alone, too, a network's launches are reported together once they are known; one of some is measured by itself. */
TEST(layers_of_a_network_are_reported_together) {
    struct mixed found = play_network_beside(0);
    print_message("alone: busy %.3f; %.3f reports and %.2f restarts a launch\n", found.busy, found.reports,
                  found.restarts);
    assert_true(found.busy > 0.99 && found.reports > 1.0 / 31 && found.reports < 0.25);
}

/* ---- forms ---- */

/* A network whose layers of one grid differ in depth, and a kernel of 0.13 ms. */
static const uint32_t deep_layers[] = {40, 8, 12, 60, 3, 12, 80, 6, 12, 5, 12, 33, 10, 4, 12, 15, 7, 12, 0},
                      short_kernel[] = {22, 0};

/* What daemons have chosen. */
struct chosen {
    int kernels, gaining; /* whose block loop gains 3% at most; and much */
    int wrong, missed;
    double lost[2], worst[2]; /* of the network and of the kernel: the time that was lost by these, as a part; sums */
};

static void draw_forms(gs_random *random) {
    varied.is_used = true;
    varied.random = *random;
    varied.noise = draw(random, 0, 0.1);
    varied.held_up_percent = (int)gs_random_from(random, 0, 5);
    for (size_t i = 0; i < GS_COUNT(varied.loops); i++)
        varied.loops[i] = gs_random_chance(random, 25) ? draw(random, 0.1, 0.4) : draw(random, 0.97, 1.2);
}

/* A client is alone; then the forms of its kernels are compared with those that are faster. */
static void learn_alone(gs_server *server, gs_random *random, const uint32_t *sizes, int64_t ms) {
    struct client client = {.engine = KERNELS, .streams = 1, .sizes = sizes};
    size_t count = 0;
    for (; sizes[count]; count++)
        varied.depths[count] = gs_random_chance(random, 50) ? 1 : draw(random, 1, 9);
    varied.depths[count] = 0;
    varied.launches = 0;
    play_until(server, &client, 1, clock_ns + ms * 1000000);
    leave(&client);
    play_until(server, &client, 0, clock_ns + 100000000);
}

/* The form that a daemon has chosen for launches of this size. */
static bool takes_loop(const gs_server *server, uint32_t size) {
    const gs_profile *profile;
    for (size_t at = 0; (profile = gs_profile_store_next(server->profiles, &at));)
        if (profile->blocks == gs_profile_blocks(size))
            return profile->prefers_block_loop;
    fail_msg("launches of %u blocks are not known", size);
    return false;
}

static void count_chosen(const gs_server *server, const uint32_t *sizes, bool is_network, struct chosen *chosen) {
    double took = 0, best = 0;
    for (size_t i = 0; sizes[i]; i++) {
        double loop = *loop_of(sizes[i]), ns = sizes[i] * varied.depths[i];
        bool is_looped = takes_loop(server, sizes[i]), gains = loop < 0.9, is_first = true;
        for (size_t k = 0; k < i; k++)
            is_first &= gs_profile_blocks(sizes[k]) != gs_profile_blocks(sizes[i]);
        took += is_looped ? ns * loop : ns;
        best += ns * fmin(1, loop);
        chosen->kernels += is_first && !gains;
        chosen->gaining += is_first && gains;
        chosen->wrong += is_first && is_looped && !gains;
        chosen->missed += is_first && !is_looped && gains;
    }
    chosen->lost[!is_network] += took / best - 1;
    chosen->worst[!is_network] = fmax(chosen->worst[!is_network], took / best - 1);
}

/* Each daemon learns for itself what form of a kernel is faster: from launches that differ, and in some noise. */
TEST(daemons_choose_the_forms_that_are_faster) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    int daemons = (int)gs_max(1, (int64_t)test_number("GRIDSMITH_RUNS", 100000) / 2000);
    struct chosen chosen = {.kernels = 0};
    turn_ns = 10 * TURN_NS;
    for (int i = 0; i < daemons; i++) {
        gs_random random = gs_random_at(seed, (uint64_t)i);
        gs_server *server = open_server();
        draw_forms(&random);
        learn_alone(server, &random, deep_layers, 2000);
        count_chosen(server, deep_layers, true, &chosen);
        learn_alone(server, &random, short_kernel, 100);
        count_chosen(server, short_kernel, false, &chosen);
        gs_server_close(server);
    }
    turn_ns = TURN_NS;
    varied.is_used = false;
    print_message(
        "%d daemons: %d of %d block loops that gain 3%% at most are used, %d of %d that gain much are not; a network "
        "takes %.2f%% longer than with the best forms, at worst %.1f%%, a kernel of 0.13 ms %.2f%% and %.1f%%\n",
        daemons, chosen.wrong, chosen.kernels, chosen.missed, chosen.gaining, 100 * chosen.lost[0] / daemons,
        100 * chosen.worst[0], 100 * chosen.lost[1] / daemons, 100 * chosen.worst[1]);
    assert_true(chosen.wrong <= 1 + chosen.kernels / 1000 && chosen.missed <= 1 + chosen.gaining / 100);
}

TEST(alone_a_client_keeps_the_device_busy) {
    static const struct client *const all[] = {&large_copies, &launches};
    for (size_t i = 0; i < GS_COUNT(all); i++) {
        struct client client = *all[i];
        struct result result = play(&client, 1);
        assert_true(result.busy_ns[client.engine] > (int64_t)MEASURED_MS * 1000000 / 1000 * 995);
    }
}

TEST(bytes_go_by_weight) {
    struct client clients[] = {large_copies, large_copies, large_copies};
    clients[0].weight = 200;
    struct result result = play(clients, 3);
    double all = (double)(result.did[0] + result.did[1] + result.did[2]);
    assert_true(result.busy_ns[COPIES] > (int64_t)MEASURED_MS * 1000000 / 1000 * 995);
    assert_true(fabs((double)result.did[0] / all - 0.5) < 0.02);
    assert_true(fabs((double)result.did[1] / all - 0.25) < 0.02);
}

/* Twelve clients work without a pause, and a thirteenth that comes when they have done so for a while. */
static struct client play_crowd(struct client one, struct client crowd) {
    enum { COUNT = 13 };
    struct client clients[COUNT] = {one};
    clients[0].comes_ns = (int64_t)WARM_UP_MS * 10 * 1000000;
    for (int i = 1; i < COUNT; i++)
        clients[i] = crowd;
    turn_ns = 20000;
    play(clients, COUNT);
    turn_ns = TURN_NS;
    return clients[0];
}

static const struct client loader = {.engine = LOADS, .pause_ns = 15000000};
enum { FAIR_LOAD_NS = 13 * (LOOK_UP_NS / GS_LOOK_UPS + MODULE_NS) };

TEST(what_is_in_the_cache_does_not_wait_for_what_was_compiled) {
    struct client one = loader;
    one.compile_ns = 50000000;
    one = play_crowd(one, (struct client){.engine = LOADS});
    assert_true(one.waits > 1);
    assert_true(one.longest_ns < 2 * FAIR_LOAD_NS);
}

TEST(loads_do_not_wait_for_clients_that_come_and_go) {
    struct client one = play_crowd(loader, (struct client){.engine = LOADS, .leaves = true});
    assert_true(one.waits > 2);
    assert_true(one.longest_ns < 2 * FAIR_LOAD_NS);
}

/* The device loads a module only while no kernel runs. Twelve clients always have something to load. */
TEST(launches_do_not_wait_for_loads_that_never_end) {
    for (int leaves = 0; leaves < 2; leaves++) {
        module_ns = 4000000;
        struct client one = play_crowd(launcher, (struct client){.engine = LOADS, .leaves = leaves});
        module_ns = MODULE_NS;
        assert_true(one.waits > 20);
        assert_true(one.longest_ns < 80000000);
    }
}

enum other { NOBODY, CAME, LAUNCHES, COMPILES };

/* The number of compilers on `cores` cores if one client sends many sources and another does this. */
static uint32_t compilers_at_work(int64_t cores, enum other what) {
    enum { COMPILES_MS = 1000, SOURCES = 8, LOOKED_UP_NS = (SOURCES + 2) * LOOK_UP_NS };
    gs_server *server = open_server();
    struct client sender = {.engine = LOADS}, other = launcher;
    server->cores = cores;
    come(&sender, server);
    if (what != NOBODY)
        come(&other, server);
    for (uint32_t i = 0; i < SOURCES; i++)
        load_module(sender.session, LOADED_MODULE + i, COMPILES_MS);
    if (what == COMPILES)
        load_module(other.session, LOADED_MODULE, COMPILES_MS);
    play_until(server, &other, what == LAUNCHES, clock_ns + LOOKED_UP_NS);
    uint32_t count = server->loads.compiling;
    leave(&sender);
    if (what != NOBODY)
        leave(&other);
    gs_server_close(server);
    return count;
}

TEST(compilers_of_one_client_leave_cores_for_others) {
    turn_ns = 20000;
    assert_int_equal(compilers_at_work(2, NOBODY), 2);
    assert_int_equal(compilers_at_work(2, CAME), 1);
    assert_int_equal(compilers_at_work(2, LAUNCHES), 1);
    assert_int_equal(compilers_at_work(2, COMPILES), 2);
    assert_int_equal(compilers_at_work(1, COMPILES), 2);
    assert_int_equal(compilers_at_work(4, LAUNCHES), 2);
    turn_ns = TURN_NS;
}

/* Twelve clients of two processes load sources whose file systems do not answer. */
TEST(loads_do_not_wait_for_file_systems_that_do_not_answer) {
    enum { COUNT = 13 };
    struct client clients[COUNT] = {loader};
    clients[0].comes_ns = 2500000000;
    for (int i = 1; i < COUNT; i++)
        clients[i] = (struct client){.engine = LOADS, .hangs = true, .process = 1 + i % 2};
    turn_ns = 20000;
    play(clients, COUNT);
    turn_ns = TURN_NS;
    assert_true(clients[0].waits > 5);
    assert_true(clients[0].longest_ns < 2 * FAIR_LOAD_NS);
}

/* Processes from this one on do not exist. Eight in a row are a family, whatever runs on this machine. */
enum { ABSENT = (1 << 30), ABSENT_FAMILY = 8 };

int64_t __real_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user);
int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user);
int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user) {
    return process >= ABSENT ? process / ABSENT_FAMILY : __real_gs_family_of(families, proc, process, user);
}

/* Clients of one family load such sources one after the other: as many are set aside as a process and a family may
   have. */
TEST(sources_are_set_aside_up_to_the_limits) {
    enum { OF_PROCESS = GS_SLOW_JOBS / 8, OF_FAMILY = GS_SLOW_JOBS / 4, TRIES = OF_PROCESS + 1, LATE_NS = 1500000000 };
    struct client clients[3 * TRIES];
    turn_ns = 1000000;
    gs_server *server = open_server();
    for (uint32_t i = 0; i < GS_COUNT(clients); i++) {
        uint32_t process = i / TRIES, of_process = (uint32_t)gs_min(i % TRIES + 1, OF_PROCESS);
        clients[i] = (struct client){.engine = LOADS, .process = ABSENT + (int32_t)process};
        come(&clients[i], server);
        load_module(clients[i].session, LOADED_MODULE, NEVER);
        play_until(server, NULL, 0, clock_ns + LATE_NS);
        assert_int_equal(server->loads.slow, gs_min(process * OF_PROCESS + of_process, OF_FAMILY));
    }
    for (size_t i = 0; i < GS_COUNT(clients); i++)
        leave(&clients[i]);
    gs_server_close(server);
    turn_ns = TURN_NS;
}

/* Families set aside what they may, up to the limit for all. */
TEST(sources_of_all_families_are_set_aside_up_to_the_limit) {
    enum { OF_PROCESS = GS_SLOW_JOBS / 8, OF_FAMILY = GS_SLOW_JOBS / 4, LATE_NS = 1500000000 };
    struct client clients[GS_SLOW_JOBS + 2];
    turn_ns = 1000000;
    gs_server *server = open_server();
    for (int32_t i = 0; i < (int32_t)GS_COUNT(clients); i++) {
        int32_t process = ABSENT + i / OF_FAMILY * ABSENT_FAMILY + i % OF_FAMILY / OF_PROCESS;
        clients[i] = (struct client){.engine = LOADS, .process = process};
        come(&clients[i], server);
        load_module(clients[i].session, LOADED_MODULE, NEVER);
        play_until(server, NULL, 0, clock_ns + LATE_NS);
        assert_int_equal(server->loads.slow, gs_min(i + 1, GS_SLOW_JOBS));
    }
    for (size_t i = 0; i < GS_COUNT(clients); i++)
        leave(&clients[i]);
    gs_server_close(server);
    turn_ns = TURN_NS;
}

/* Beside launches the device loads few modules. A client that comes later, with many sources as the others, has no
   claim on what they got before: all get the same from then on. */
TEST(modules_of_a_client_that_comes_later_do_not_go_first) {
    enum { LOADERS = 3, SOURCES = 200, BEFORE_MS = 600, AFTER_MS = 300 };
    struct client clients[LOADERS], other = launches;
    uint32_t left[LOADERS], least = SOURCES, most = 0;
    turn_ns = 20000;
    module_ns = 2000000;
    gs_server *server = open_server();
    for (int i = 0; i < LOADERS; i++) {
        clients[i] = (struct client){.engine = LOADS};
        come(&clients[i], server);
        for (uint32_t k = 0; k < SOURCES; k++)
            load_module(clients[i].session, LOADED_MODULE + k, 0);
        if (i == 0)
            come(&other, server);
        if (i == LOADERS - 2)
            play_until(server, &other, 1, clock_ns + (int64_t)BEFORE_MS * 1000000);
    }
    for (int i = 0; i < LOADERS; i++)
        left[i] = clients[i].session->loads.count;
    play_until(server, &other, 1, clock_ns + (int64_t)AFTER_MS * 1000000);
    for (int i = 0; i < LOADERS; i++) {
        uint32_t loaded = left[i] - clients[i].session->loads.count;
        least = (uint32_t)gs_min(least, loaded);
        most = (uint32_t)gs_max(most, loaded);
        leave(&clients[i]);
    }
    leave(&other);
    gs_server_close(server);
    module_ns = MODULE_NS;
    turn_ns = TURN_NS;
    assert_true(least > 20 && most <= least + 2);
}

/* A daemon without work sleeps until somebody wakes it, also beside a client that has launched. */
TEST(daemon_without_work_is_not_woken) {
    struct client client = launcher;
    uint64_t most_ns = 0;
    client.pause_ns = INT64_MAX / 2;
    gs_server *server = open_server();
    assert_true(gs_server_sleep(server, &most_ns));
    assert_true(most_ns == UINT64_MAX);
    come(&client, server);
    play_until(server, &client, 1, clock_ns + 100000);
    assert_true(client.began_ns && gs_server_sleep(server, &most_ns));
    assert_true(most_ns < UINT64_MAX); /* launches are looked at */
    play_until(server, &client, 1, clock_ns + 3000000000);
    assert_int_equal(client.waits, 1);
    assert_true(gs_server_sleep(server, &most_ns));
    assert_true(most_ns == UINT64_MAX);
    leave(&client);
    gs_server_close(server);
}

/* Clients that run two at a time must not keep the device to themselves, nor must new clients go before old ones. */
TEST(short_launches_do_not_wait_for_many_others) {
    struct client one = launcher, crowd = launcher;
    one.pause_ns = 5000000;
    crowd.size = 100;
    for (int leaves = 0; leaves < 2; leaves++) {
        crowd.leaves = leaves;
        one.at_once = leaves ? 8 : 1;
        struct client waited = play_crowd(one, crowd);
        assert_true(waited.waits > 5);
        assert_true(waited.longest_ns < 80000000);
    }
}

/* Eight clients launch a short kernel now and then. Two more come, launch much, and leave. */
TEST(launches_do_not_wait_for_clients_that_come_and_go) {
    enum { STAY = 8, COUNT = STAY + 2 };
    for (size_t leaving = 1; leaving <= 2; leaving++) {
        struct client clients[COUNT + 1];
        for (int i = 0; i < COUNT; i++)
            clients[i] = (struct client){.engine = KERNELS,
                                         .streams = 1,
                                         .at_once = 1,
                                         .size = 94 + 7 * (uint64_t)i,
                                         .pause_ns = 15000000 + i * 300000};
        for (int i = STAY; i < COUNT; i++)
            clients[i] = (struct client){.engine = KERNELS, .streams = 32, .at_once = 400, .size = 1, .leaves = true};
        clients[STAY + leaving] = copier; /* what is before it is played for so long */
        clients[STAY + leaving].comes_ns = 3000000000;
        turn_ns = 20000;
        play(clients, STAY + leaving + 1);
        turn_ns = TURN_NS;
        for (int i = 0; i < STAY; i++)
            assert_true(clients[i].waits > 100 && clients[i].longest_ns < 20000000);
        for (size_t i = STAY; i < STAY + leaving; i++)
            assert_true(clients[i].longest_ns < 150000000);
    }
}

/* Plays two clients whose kernels have `sizes` blocks, each with `at_once` launches at a time. Side by side on the same
   SMs, two kernels take `percent` of the time of turns. Returns the part of the launches that shared SMs after
   `later_ns`. */
static double part_that_shares(const uint64_t sizes[2], uint32_t at_once, int64_t percent, int64_t later_ns) {
    struct client clients[] = {launcher, launcher, copier};
    for (int i = 0; i < 2; i++) {
        clients[i].size = sizes[i];
        clients[i].at_once = at_once;
    }
    clients[2].comes_ns = later_ns;
    clients[2].pause_ns = INT64_MAX / 2;
    sharing.percent = percent;
    sharing.from_ns = START_NS + later_ns;
    sharing.launches = 0;
    struct result result = play(clients, 3);
    double first = (double)result.did[0] / (double)(result.did[0] + result.did[1]);
    assert_true(fabs(first - 0.5) < 0.11);
    return (double)sharing.launches / (double)result.done[KERNELS];
}

/* A sanitizer sees the same code in one of the cases. */
static bool is_sanitized(void) {
    return test_number("GRIDSMITH_RUNS", 100000) < 100000;
}

/* Most launches share if that is as good as in the plan, and few if it is not. Without the plan none do. */
TEST(launches_share_sms_by_a_plan) {
    static const char text[] =
        "{\"format\": \"gridsmith.plan/1\", \"kernels\": [{\"name\": \"k\", \"blocks\": 100, \"block_threads\": 256, "
        "\"registers\": 32, \"alone_us\": 600}], \"pairs\": [{\"first\": \"k\", \"second\": \"k\", \"option\": "
        "\"inside\", "
        "\"first_workers_per_sm\": 3, \"second_workers_per_sm\": 3, \"together_us\": 900}]}";
    enum { AT_ONCE = 8, LATER_NS = 1000000000 }; /* then it is known what sharing gives */
    static const uint64_t sizes[] = {100, 100};
    char path[] = "/tmp/gridsmith-plan-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    assert_true(is_sanitized() || part_that_shares(sizes, AT_ONCE, 100, LATER_NS) == 0);
    sharing.plan = path;
    sharing.most_workers = 3;
    assert_true(is_sanitized() || part_that_shares(sizes, AT_ONCE, 75, LATER_NS) > 0.8);
    assert_true(is_sanitized() || part_that_shares(sizes, AT_ONCE, 110, LATER_NS) == 0);
    assert_true(part_that_shares(sizes, 1, 75, LATER_NS) > 0.8);
    sharing.plan = NULL;
    sharing.most_workers = 0;
    unlink(path);
}

/* The same without a plan: 32 blocks of one warp fit on an SM. They are tried after two seconds. */
TEST(launches_that_fit_share_sms_without_a_plan) {
    static const struct {
        uint64_t sizes[2];
        uint32_t at_once;
        int64_t percent;
    } cases[] = {{{150, 200}, 1, 75}, {{100, 130}, 8, 110}, {{100, 130}, 8, 75}};
    const int64_t learned_ns = 3000000000;
    sharing.is_tried = true;
    assert_true(part_that_shares(cases[1].sizes, cases[1].at_once, 75, 100000000) == 0); /* not yet */
    sharing.most_workers = 31;
    for (size_t i = 0; i < (is_sanitized() ? 1 : GS_COUNT(cases)); i++) {
        double part = part_that_shares(cases[i].sizes, cases[i].at_once, cases[i].percent, learned_ns);
        if (cases[i].percent < 100 ? part < 0.8 : part > 0)
            fail_msg("case %zu: %.3f of the launches share", i, part);
    }
    sharing.is_tried = false;
    sharing.most_workers = 0;
}

/* ---- a day ---- */

/* What depends on the machine and the process is not compared. */
static void mask_numbers(char *text, const char *key) {
    for (char *at = strstr(text, key); at; at = strstr(at, key)) {
        at += strlen(key);
        memmove(at + 1, at + strspn(at, "0123456789"), strlen(at + strspn(at, "0123456789")) + 1);
        *at = '#';
    }
}

/* The status and the metrics after a day, as users see them. */
static void put_day(const gs_server *server, gs_text *into) {
    gs_text status = {0}, metrics = {0};
    gs_status_json(server, &status);
    gs_metrics_text(server, &metrics);
    static const char *const masked[] = {"\"process\":", "\"user\":", "\"resident_bytes\":", "\"limit\":"};
    for (size_t i = 0; i < GS_COUNT(masked); i++)
        mask_numbers(status.data, masked[i]);
    for (char *at = status.data; (at = strstr(at, ",\"")); at++) /* a key a line, so that differences can be read */
        *at = '\n';
    gs_text_add(into, "%s\n%s", status.data, metrics.data);
    gs_text_free(&status);
    gs_text_free(&metrics);
}

/* Clients of all kinds: short and long kernels, copies, loads, weights, priorities, a limit of SMs; some come later,
   some leave. */
static void play_day(gs_text *into) {
    enum { COUNT = 8, DAY_MS = 400, ALONE_NS = 40000000 };
    struct client clients[COUNT] = {launcher, launches, copier, large_copies, loader, launcher, launcher, loader};
    clients[0].streams = 2;
    clients[0].pause_ns = 60000;
    clients[1].streams = 3;
    clients[1].size = 40;
    clients[1].weight = 300;
    clients[2].pause_ns = 200000;
    clients[3].streams = 4;
    clients[3].weight = 50;
    clients[3].comes_ns = 100000000;
    clients[4].compile_ns = 20000000;
    clients[5].size = 400; /* 2.4 ms: confined, so that it can be stopped */
    clients[5].at_once = 2;
    clients[5].pause_ns = 1000000;
    clients[5].comes_ns = 50000000;
    clients[5].most_sms = 3;
    clients[6].size = 100;
    clients[6].priority = 1;
    clients[6].pause_ns = 20000000;
    clients[6].leaves = true;
    clients[7].leaves = true;
    for (size_t i = 1; i < COUNT; i++)
        clients[i].comes_ns += ALONE_NS; /* the first is alone before */
    gs_server *server = open_server();
    play_until(server, clients, COUNT, clock_ns + (int64_t)DAY_MS * 1000000);
    put_day(server, into);
    for (int form = 0; form <= GS_LAUNCH_CONFINED; form++)
        gs_text_add(into, "form %d: %llu launches of %llu blocks on %llu SMs, %llu deferred, first blocks %llu\n", form,
                    (unsigned long long)device.asked[form].launches, (unsigned long long)device.asked[form].blocks,
                    (unsigned long long)device.asked[form].sms, (unsigned long long)device.asked[form].deferred,
                    (unsigned long long)device.asked[form].first_blocks);
    gs_text_add(into, "confined %llu times, to %llu SMs\n", (unsigned long long)device.confined,
                (unsigned long long)device.confined_sms);
    for (enum engine engine = 0; engine < ENGINES; engine++)
        gs_text_add(into, "engine %d: %llu operations, %lld ns\n", (int)engine, (unsigned long long)device.done[engine],
                    (long long)device.busy_ns[engine]);
    for (size_t i = 0; i < COUNT; i++) {
        gs_text_add(into, "client %zu: waited %lld times, at most %lld ns\n", i, (long long)clients[i].waits,
                    (long long)clients[i].longest_ns);
        leave(&clients[i]);
    }
    gs_server_close(server);
}

/* The clock and the device are played, so a day ends in the same way each time, to the last nanosecond. A change of the
   daemon that changes this is seen here, and it should be one that was meant: with GRIDSMITH_WRITE=1 the file is
   written anew. */
TEST(a_day_ends_as_it_did) {
#if !defined __x86_64__ && defined __clang__ /* products and sums are rounded at once */
    skip();
#endif
    static char wanted[1 << 16];
    gs_text found = {0};
    const char *path = test_path("tests/serve/day.txt");
    play_day(&found);
    FILE *file = fopen(path, test_number("GRIDSMITH_WRITE", 0) ? "w+" : "r");
    assert_non_null(file);
    if (test_number("GRIDSMITH_WRITE", 0))
        fwrite(found.data, 1, found.count, file);
    rewind(file);
    wanted[fread(wanted, 1, sizeof wanted - 1, file)] = '\0';
    fclose(file);
    const char *a = found.data, *b = wanted;
    for (int line = 1; *a || *b; line++) {
        int a_length = (int)strcspn(a, "\n"), b_length = (int)strcspn(b, "\n");
        if (a_length != b_length || memcmp(a, b, (size_t)a_length) != 0)
            fail_msg("day.txt:%d: \"%.*s\" instead of \"%.*s\"", line, a_length, a, b_length, b);
        a += a_length + (a[a_length] == '\n');
        b += b_length + (b[b_length] == '\n');
    }
    gs_text_free(&found);
}

/* ---- random days ---- */

/* One of `count` numbers. */
static int64_t any_of(gs_random *random, const int64_t *numbers, size_t count) {
    return numbers[gs_random_from(random, 0, (int64_t)count - 1)];
}
#define ANY_OF(random, ...)                                                                                            \
    any_of(random, (const int64_t[]){__VA_ARGS__}, sizeof(const int64_t[]){__VA_ARGS__} / sizeof(int64_t))

/* In statements of their own: in which order initializers are evaluated is up to the compiler. */
static struct client draw_client(gs_random *random) {
    enum engine engine = (enum engine)ANY_OF(random, KERNELS, KERNELS, KERNELS, COPIES, LOADS);
    struct client client = {.engine = engine};
    client.streams = (uint32_t)ANY_OF(random, 1, 1, 2, 4);
    client.at_once = (uint32_t)ANY_OF(random, 0, 1, 2, 8);
    client.size = engine == KERNELS ? (uint64_t)ANY_OF(random, 1, 4, 40, 100, 400, 2000)
                                    : (uint64_t)ANY_OF(random, 4, 1 << 20, 64 << 20);
    client.pause_ns = ANY_OF(random, 0, 5000, 60000, 1000000, 8000000);
    client.weight = (uint32_t)ANY_OF(random, 50, 100, 100, 300);
    client.priority = (int32_t)ANY_OF(random, 0, 0, 0, 1, -1);
    client.most_sms = (uint32_t)ANY_OF(random, 0, 0, 0, 3, 1);
    client.comes_ns = ANY_OF(random, 0, 0, 3000000, 12000000);
    client.leaves = gs_random_from(random, 0, 4) == 0;
    client.compile_ns = ANY_OF(random, 0, 5000000);
    client.loads = (uint32_t)ANY_OF(random, 1, 1, 4, 40);
    client.alternates = gs_random_from(random, 0, 3) == 0;
    client.process = (int32_t)ANY_OF(random, 0, ABSENT, ABSENT + 1);
    return client;
}

/* Launches that the device has, or whose report is on its way. */
static uint32_t launches_of(const gs_stream *stream) {
    uint32_t count = 0;
    for (const gs_action *action = stream->head; action; action = action->next)
        count += action->command == GS_WIRE_LAUNCH && action->is_issued && !action->is_done;
    return count;
}

static void counts_add_up(const gs_server *server) {
    uint64_t running = 0, actions = 0, moving = 0, held = 0;
    for (size_t i = 0; i < server->sessions.count; i++) {
        const gs_session *session = server->sessions.data[i];
        for (int k = 0; session && k < GS_CLIENT_STREAMS; k++) {
            assert_int_equal(session->streams[k].launches, launches_of(&session->streams[k]));
            running += session->streams[k].launches > 0;
        }
        actions += session ? session->actions : 0;
        moving += session && session->moving;
        held += session && session->is_held;
    }
    assert_int_equal(server->running, running);
    assert_int_equal(server->quotas.all.used[GS_QUOTA_ACTIONS], actions);
    assert_int_equal(server->transfers.moving, moving);
    assert_int_equal(server->transfers.held, held);
}

/* Ten times a millisecond the daemon would like to sleep. */
static void play_with_naps(gs_server *server, struct client *clients, size_t count, int64_t until) {
    enum { NAP_NS = 100000 };
    while (clock_ns < until) {
        uint64_t most_ns = 0;
        play_until(server, clients, count, clock_ns + NAP_NS);
        bool may_sleep = gs_server_sleep(server, &most_ns);
        TELL(6, may_sleep, most_ns);
        counts_add_up(server);
        for (size_t i = 0; i < count; i++) /* who finds it asleep rings the bell */
            while (clients[i].session && gs_session_receive(clients[i].session) == GS_RECEIVED)
                ;
    }
}

/* A day of some clients, until the last has left. Some days are those of a daemon that lets kernels share SMs, or that
   places launches at random. */
static void play_random_day(uint64_t index) {
    enum { MOST = 6, DAY_MS = 40, MOST_EVENING_MS = 500 };
    gs_random random = gs_random_at(15, index);
    struct client clients[MOST];
    size_t count = (size_t)gs_random_from(&random, 2, MOST);
    gs_text text = {0};
    turn_ns = 5000;
    way_ns = ANY_OF(&random, 1000, 10000);
    sharing.is_tried = index % 4 == 1;
    sharing.most_workers = index % 2 ? 31 : 0;
    sharing.percent = 60;
    for (size_t i = 0; i < count; i++)
        clients[i] = draw_client(&random);
    gs_server *server = open_server();
    server->options.shuffle_ns = index % 4 == 3 ? 200000 : 0;
    fails_every = index % 3 ? 0 : 19;
    reports = 0;
    play_with_naps(server, clients, count, clock_ns + (int64_t)DAY_MS * 1000000);
    put_day(server, &text);
    tell(text.data, text.count);
    fails_every = 0;
    for (size_t i = 0; i < count; i++) {
        const gs_wire_page *page = clients[i].session->page;
        tell(page->streams, sizeof page->streams);
        tell(page->replies, sizeof page->replies);
        leave(&clients[i]);
    }
    for (int ms = 0; ms < MOST_EVENING_MS && (ms == 0 || server->running || server->transfers.moving); ms++)
        play_until(server, clients, 0, clock_ns + 1000000);
    assert_int_equal(server->transfers.held + server->transfers.moving, 0);
    assert_int_equal(server->contenders.count + server->loads.count + server->running, 0);
    gs_server_close(server);
    gs_text_free(&text);
    sharing.is_tried = false;
    sharing.most_workers = 0;
    turn_ns = TURN_NS;
    way_ns = USUAL_WAY_NS;
}

/* What is asked of the device, and when, and the status in the evening are a number for each day. As for the day above,
   a change should be one that was meant. */
TEST(random_days_end_as_they_did) {
    enum { DAYS = 48 };
    bool is_written = test_number("GRIDSMITH_WRITE", 0) != 0;
    FILE *file = fopen(test_path("tests/serve/days.txt"), is_written ? "w" : "r");
    assert_non_null(file);
    for (uint64_t index = 0; index < DAYS; index++) {
        unsigned long long wanted = 0;
        told = 0;
        play_random_day(index);
        if (is_written)
            fprintf(file, "%016llx\n", (unsigned long long)told);
        else
            assert_int_equal(fscanf(file, "%llx", &wanted), 1);
#if defined __x86_64__ || !defined __clang__ /* elsewhere products and sums are rounded at once */
        if (!is_written && told != wanted)
            fail_msg("days.txt:%llu: the daemon does something else", (unsigned long long)index + 1);
#endif
    }
    fclose(file);
}

/* ---- files ---- */

static void share_region(struct client *client, uint32_t region) {
    const gs_wire_share command = {.head = {GS_WIRE_SHARE, 0}, .ticket = region, .region = region, .bytes = 4096};
    const char byte = GS_WIRE_FILE;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_int_equal(gs_descriptors_send(client->far, &byte, 1, &fd, 1, 0), 1);
    assert_int_equal(gs_ring_put(&client->ring, &command, sizeof command), GS_RING_DONE);
    client->sent++;
    close(fd);
}

/* Sharing host memory is work for the worker, too: the pause after it is nine times as long, if others work. */
TEST(files_have_a_tenth_of_the_time_beside_others) {
    enum { COUNT = 4, FIRST = 10 };
    gs_server *server = open_server();
    struct client flood = {.engine = KERNELS, .streams = 1}, other = copier;
    come(&flood, server);
    come(&other, server);
    for (int kind = 0; kind < GS_ACCOUNTS; kind++)
        server->quotas.most[kind][GS_QUOTA_SHARED] = UINT64_MAX / 2;
    device.shared = 0;
    clock_ns += 20000000; /* the other one came a while ago */
    for (uint32_t i = 0; i < COUNT; i++)
        share_region(&flood, FIRST + i);
    gs_server_work(server);
    assert_int_equal(device.shared, COUNT);
    assert_true(send_one(&other));
    gs_server_work(server);
    for (uint32_t i = 0; i < COUNT; i++)
        share_region(&flood, FIRST + COUNT + i);
    for (int i = 1; i <= COUNT; i++) {
        gs_server_work(server);
        assert_int_equal(device.shared, COUNT + i);
        clock_ns += 9 * THREAD_NS - 1;
        gs_server_work(server);
        assert_int_equal(device.shared, COUNT + i);
        clock_ns++;
    }
    assert_int_equal(flood.session->end_code, 0);
    leave(&flood);
    leave(&other);
    gs_server_close(server);
}

/* Clients whose pauses end at different times: the daemon sleeps no longer than all of them. */
TEST(the_daemon_wakes_up_after_all_pauses) {
    gs_server *server = open_server();
    struct client clients[2] = {{.engine = KERNELS, .streams = 1}, {.engine = KERNELS, .streams = 1}};
    uint64_t most_ns = 0;
    for (int i = 0; i < 2; i++)
        come(&clients[i], server);
    for (int kind = 0; kind < GS_ACCOUNTS; kind++)
        server->quotas.most[kind][GS_QUOTA_SHARED] = UINT64_MAX / 2;
    for (uint32_t i = 0; i < 8; i++)
        share_region(&clients[i % 2], 10 + i);
    for (int i = 0; i < 1000 && clients[0].session->commands + clients[1].session->commands < 8; i++) {
        if (gs_server_work(server))
            continue;
        if (gs_server_sleep(server, &most_ns)) {
            assert_true(most_ns < 10000000);
            clock_ns += (int64_t)most_ns;
        }
    }
    assert_int_equal(clients[0].session->commands + clients[1].session->commands, 8);
    for (int i = 0; i < 2; i++)
        leave(&clients[i]);
    gs_server_close(server);
}

/* ---- commands ---- */

static void send_event(struct client *client) {
    const gs_wire_record command = {.head = {GS_WIRE_EVENT, 0}};
    assert_int_equal(gs_ring_put(&client->ring, &command, sizeof command), GS_RING_DONE);
    client->sent++;
}

/* Where there are few cores, a client that sends all it can pauses three times as long as its commands took, if others
   work: 64 commands at a time. */
TEST(commands_have_a_quarter_of_the_time_beside_others) {
    enum { AT_ONCE = 64, TURNS = 3 };
    for (int64_t cores = 2; cores <= 4; cores++) {
        gs_server *server = open_server();
        struct client flood = {.engine = KERNELS, .streams = 1}, other = copier;
        server->cores = cores;
        come(&flood, server);
        come(&other, server);
        assert_true(send_one(&other));
        gs_server_work(server);
        for (int i = 0; i < TURNS * AT_ONCE; i++)
            send_event(&flood);
        for (uint64_t turn = 1; turn <= TURNS; turn++) {
            gs_server_work(server);
            assert_int_equal(flood.session->counts.commands, AT_ONCE * turn);
            clock_ns += 3 * THREAD_NS - 1;
            if (cores > 3)
                continue; /* no pause */
            gs_server_work(server);
            assert_int_equal(flood.session->counts.commands, AT_ONCE * turn);
            clock_ns++;
        }
        leave(&flood);
        leave(&other);
        gs_server_close(server);
    }
}

/* ---- connections ---- */

struct door {
    gs_server *server;
    gs_connections connections;
    uv_loop_t loop;
    int listening;
    struct sockaddr_un address;
    socklen_t address_size;
};

static void open_door(struct door *door) {
    *door = (struct door){.server = open_server(), .address = {.sun_family = AF_UNIX}};
    door->address_size = sizeof door->address;
    door->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(door->listening, (struct sockaddr *)&door->address, sizeof door->address.sun_family), 0);
    assert_int_equal(listen(door->listening, 128), 0);
    assert_int_equal(getsockname(door->listening, (struct sockaddr *)&door->address, &door->address_size), 0);
    assert_int_equal(uv_loop_init(&door->loop), 0);
    gs_connections_open(&door->connections, &door->loop, door->server);
}

static void close_door(struct door *door) {
    gs_connections_close(&door->connections);
    uv_run(&door->loop, UV_RUN_DEFAULT);
    uv_loop_close(&door->loop);
    close(door->listening);
    gs_server_close(door->server);
}

static int knock(const struct door *door) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&door->address, door->address_size), 0);
    return fd;
}

static bool is_answered(int fd) {
    gs_wire_welcome welcome;
    return recv(fd, &welcome, sizeof welcome, MSG_DONTWAIT) == sizeof welcome;
}

/* The connections of one round: the others before it send nothing. */
TEST(the_status_does_not_wait_for_silent_connections) {
    enum { BEFORE = 31 };
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_STATUS};
    int silent[BEFORE];
    struct door door;
    open_door(&door);
    for (int i = 0; i < BEFORE; i++)
        silent[i] = knock(&door);
    int fd = knock(&door);
    assert_int_equal(send(fd, &hello, sizeof hello, 0), sizeof hello);
    assert_true(gs_connections_accept(&door.connections, door.listening));
    assert_true(is_answered(fd));
    for (int i = 0; i < BEFORE; i++)
        close(silent[i]);
    close(fd);
    close_door(&door);
}

/* With any number of connections, other work has two thirds of the time. */
TEST(accepting_leaves_time_for_others) {
    enum { COUNT = 70, TURN = 32 };
    int silent[COUNT];
    size_t serial = 0;
    struct door door;
    open_door(&door);
    for (int i = 0; i < COUNT; i++)
        silent[i] = knock(&door);
    for (; door.connections.silent_count < COUNT; serial++) {
        size_t before = door.connections.silent_count;
        gs_connections_accept(&door.connections, door.listening);
        size_t accepted = door.connections.silent_count - before;
        assert_true(accepted > 0 && accepted <= TURN);
        clock_ns += 2 * ((int64_t)accepted - 1) * THREAD_NS - 1; /* the pause is at least as long */
        gs_connections_accept(&door.connections, door.listening);
        assert_int_equal(door.connections.silent_count, before + accepted);
        clock_ns += 10 * THREAD_NS;
    }
    assert_int_equal(serial, (COUNT + TURN - 1) / TURN);
    for (int i = 0; i < COUNT; i++)
        close(silent[i]);
    close_door(&door);
}

/* ---- cores ---- */

/* A container, or taskset, may leave a process few of the cores of a machine. */
TEST(polling_depends_on_the_cores_that_may_be_used) {
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(gs_process_cores(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(gs_process_cores(), 1);
    assert_false(gs_process_may_spin(0));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_false(gs_process_may_spin(gs_process_cores()));
}

/* ---- descriptors ---- */

static _Atomic int closed_elsewhere, closed_here; /* memory "large" */
static _Atomic bool does_not_answer;              /* the file system of memory "stuck" */

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    char path[40], name[40] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    while (length > 0 && strncmp(name, "/memfd:stuck", 12) == 0 && does_not_answer)
        usleep(1000);
    if (length > 0 && strncmp(name, "/memfd:large", 12) == 0)
        (*(gettid() == getpid() ? &closed_here : &closed_elsewhere))++;
    return __real_close(fd);
}

/* Sends `count` descriptors; the receiver has the last reference. */
static void send_memory(int socket, const char *name, const void *bytes, size_t size, size_t count) {
    int fds[8];
    for (size_t i = 0; i < count; i++)
        assert_true((fds[i] = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)) >= 0);
    assert_int_equal(gs_descriptors_send(socket, bytes, size, fds, count, 0), size);
    for (size_t i = 0; i < count; i++)
        __real_close(fds[i]);
}

static void send_large(int socket, const void *bytes, size_t size, size_t count) {
    send_memory(socket, "large", bytes, size, count);
}

static void play_door(struct door *door) {
    uv_run(&door->loop, UV_RUN_NOWAIT);
    gs_server_work(door->server);
    gs_connections_resume(&door->connections);
    clock_ns += 1000000;
    usleep(1000);
}

/* Files can be large, and who closes the last descriptor of one frees its memory. */
TEST(the_daemon_closes_nothing_that_clients_have_sent) {
    enum { WITH_HELLO = 1, WITH_BELL = 3, WITH_FILE = 2, LATER = 2, ALL = 8 };
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_HELLO};
    const char bell = GS_RING_BYTE, file = GS_WIRE_FILE;
    struct door door;
    open_door(&door);
    closed_here = closed_elsewhere = 0;
    int fd = knock(&door);
    send_large(fd, &hello, sizeof hello, WITH_HELLO);
    gs_connections_accept(&door.connections, door.listening);
    assert_true(is_answered(fd));
    send_large(fd, &bell, sizeof bell, WITH_BELL);
    send_large(fd, &file, sizeof file, WITH_FILE);
    uv_run(&door.loop, UV_RUN_NOWAIT);
    for (int i = 0; i < LATER; i++)
        send_large(fd, &file, sizeof file, 1);
    __real_close(fd);
    for (int i = 0; i < 10000 && closed_elsewhere < ALL; i++)
        play_door(&door);
    assert_int_equal(closed_here, 0);
    assert_int_equal(closed_elsewhere, ALL);
    close_door(&door);
}

/* Closing a file of a file system that does not answer does not end. Others are closed meanwhile; from a process with
   four of them nothing more is taken. */
TEST(descriptors_that_cannot_be_closed_hold_up_only_their_process) {
    enum { STUCK = 3, LARGE = 5, LATER = 2 };
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_HELLO};
    const char bell = GS_RING_BYTE;
    struct door door;
    open_door(&door);
    closed_here = closed_elsewhere = 0;
    does_not_answer = true;
    int fd = knock(&door);
    assert_int_equal(send(fd, &hello, sizeof hello, 0), sizeof hello);
    gs_connections_accept(&door.connections, door.listening);
    assert_true(is_answered(fd));
    send_memory(fd, "stuck", &bell, sizeof bell, STUCK);
    for (int i = 0; i < LARGE; i++)
        send_large(fd, &bell, sizeof bell, 1);
    for (int i = 0; i < 10000 && closed_elsewhere < LARGE; i++)
        play_door(&door);
    assert_int_equal(closed_elsewhere, LARGE);
    send_memory(fd, "stuck", &bell, sizeof bell, 1);
    send_large(fd, &bell, sizeof bell, LATER);
    for (int i = 0; i < 200; i++)
        play_door(&door);
    assert_int_equal(closed_elsewhere, LARGE);
    assert_int_equal(door.connections.paused, 1);
    does_not_answer = false;
    for (int i = 0; i < 10000 && closed_elsewhere < LARGE + LATER; i++)
        play_door(&door);
    assert_int_equal(closed_elsewhere, LARGE + LATER);
    assert_int_equal(door.connections.paused, 0);
    assert_int_equal(closed_here, 0);
    __real_close(fd);
    close_door(&door);
}

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return TEST_ALL(NULL, NULL);
}
