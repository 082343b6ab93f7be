/*
 * honest.c: a client that works as users do, with libgridsmith-client, and measures how long it waits.
 *
 * A round allocates memory, copies in, launches, records events, copies out, checks every byte, and frees. Every few
 * rounds the client also loads a source that is in the cache, shares host memory, and requests the status. One client
 * now and then loads a source that is new. Each wait is counted where the board says at its beginning.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *const honest_names[HONEST_OPERATIONS] = {"open",   "malloc",  "copy_in", "launch",      "copy_out",
                                                     "event",  "free",    "load",    "host_malloc", "host_free",
                                                     "status", "compile", "again"};

enum { ELEMENTS = 3000, PAUSE_MS = 15 };

struct client {
    const struct honest *honest;
    struct honest_state *state;
    gs_client *client;
    uint32_t module;
    uint32_t phase; /* in which the operation began */
    int rounds;
};

/* ---- waiting times ---- */

static size_t bucket_of(uint64_t ns) {
    uint64_t value = ns < 16 ? 16 : ns;
    int top = 63 - __builtin_clzll(value);
    size_t bucket = (size_t)(top - 4) * 16 + ((value >> (top - 4)) & 15);
    return bucket < TIME_BUCKETS ? bucket : TIME_BUCKETS - 1;
}

static uint64_t bucket_end_ns(size_t bucket) {
    return (uint64_t)(17 + bucket % 16) << (bucket / 16);
}

uint64_t times_percentile_ns(const struct times *times, double part) {
    uint64_t before = 0, wanted = (uint64_t)(part * (double)atomic_load(&times->count));
    for (size_t i = 0; i < TIME_BUCKETS; i++) {
        before += atomic_load(&times->buckets[i]);
        if (before > wanted)
            return bucket_end_ns(i);
    }
    return 0;
}

uint64_t times_most_ns(const struct times *times, enum honest_operation *which) {
    uint64_t most = 0;
    for (int i = 0; i < HONEST_COMPILE; i++)
        if (atomic_load(&times->most_ns[i]) > most) {
            most = atomic_load(&times->most_ns[i]);
            if (which)
                *which = (enum honest_operation)i;
        }
    return most;
}

uint64_t times_most_inside_ns(const struct times *times) {
    uint64_t most = 0;
    for (int i = 0; i < HONEST_COMPILE; i++)
        if (i != HONEST_OPEN && i != HONEST_STATUS && atomic_load(&times->most_ns[i]) > most)
            most = atomic_load(&times->most_ns[i]);
    return most;
}

static void begin(struct client *me, enum honest_operation operation) {
    me->phase = atomic_load(&me->honest->board->phase);
    atomic_store(&me->state->operation, operation);
    atomic_store(&me->state->since_ns, hostile_now_ns());
}

static void end(struct client *me) {
    enum honest_operation operation = (enum honest_operation)atomic_load(&me->state->operation);
    struct times *times = &me->honest->board->times[me->honest->side][me->phase];
    uint64_t ns = (uint64_t)(hostile_now_ns() - atomic_load(&me->state->since_ns));
    uint64_t most = atomic_load(&times->most_ns[operation]);
    atomic_store(&me->state->since_ns, 0);
    while (ns > most && !atomic_compare_exchange_weak(&times->most_ns[operation], &most, ns))
        ;
    if (operation >= HONEST_COMPILE)
        return;
    atomic_fetch_add(&times->count, 1);
    atomic_fetch_add(&times->buckets[bucket_of(ns)], 1);
}

/* ---- failing ---- */

/* Returns false. */
__attribute__((format(printf, 2, 3))) static bool fail(struct client *me, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(me->state->message, sizeof me->state->message, format, arguments);
    va_end(arguments);
    atomic_store(&me->state->has_failed, 1);
    return false;
}

/* One operation, measured. */
static bool check(struct client *me, const char *what, gs_client_code code) {
    end(me);
    return code == GS_CLIENT_OK ||
           fail(me, "%s: %s: %s (phase %u)", what, gs_client_meaning(code), gs_client_message(), me->phase);
}
#define DO(operation, call) (begin(me, operation), check(me, honest_names[operation], call))

/* ---- what it does ---- */

static const char text[] = "__global__ void scale(int *out, const int *in, int n, int by) {\n"
                           "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < n) out[i] = in[i] * by + i;\n"
                           "}\n";
static const char *const kernels[] = {"scale"};

static gs_client_code load(struct client *me, const char *source, uint32_t *module) {
    gs_client_source wanted = {.name = "honest.cu", .text = source, .kernels = kernels, .kernel_count = 1};
    return gs_client_load(me->client, &wanted, module);
}

static gs_client_code launch(struct client *me, uint32_t stream, gs_client_memory out, gs_client_memory in, int n,
                             int by) {
    gs_client_argument arguments[] = {GS_CLIENT_AT(out), GS_CLIENT_AT(in), GS_CLIENT_VALUE(n), GS_CLIENT_VALUE(by)};
    gs_client_launch wanted = {.module = me->module,
                               .grid = {((uint32_t)n + 31) / 32},
                               .block = {32},
                               .arguments = arguments,
                               .argument_count = 4};
    gs_client_code code = gs_client_start(me->client, stream, &wanted);
    return code == GS_CLIENT_OK ? gs_client_wait(me->client, stream) : code;
}

static gs_client_code events(struct client *me, uint32_t stream) {
    int64_t ns = -1;
    gs_client_code code = gs_client_event(me->client, stream, stream);
    if (code == GS_CLIENT_OK)
        code = gs_client_event(me->client, stream, stream + 100);
    if (code == GS_CLIENT_OK)
        code = gs_client_elapsed(me->client, stream, stream + 100, &ns);
    return code == GS_CLIENT_OK && ns < 0 ? GS_CLIENT_INVALID : code;
}

static bool is_right(struct client *me, const int *values, int n, int by) {
    for (int i = 0; i < n; i++)
        if (values[i] != (i * 7 + me->rounds) * by + i)
            return fail(me, "WRONG RESULT: element %d of %d is %d (phase %u)", i, n, values[i], me->phase);
    return true;
}

static bool compute(struct client *me, int *host, int n) {
    gs_client_memory in, out;
    uint32_t stream = (uint32_t)me->rounds % GS_CLIENT_STREAMS;
    size_t bytes = (size_t)n * sizeof *host;
    int by = 3 + me->rounds % 5;
    for (int i = 0; i < n; i++)
        host[i] = i * 7 + me->rounds;
    bool is_done = DO(HONEST_MALLOC, gs_client_malloc(me->client, bytes, &in)) &&
                   DO(HONEST_MALLOC, gs_client_malloc(me->client, bytes, &out)) &&
                   DO(HONEST_COPY_IN, gs_client_copy_in(me->client, stream, in, host, bytes)) &&
                   DO(HONEST_LAUNCH, launch(me, stream, out, in, n, by));
    if (is_done)
        memset(host, 0, bytes);
    return is_done && DO(HONEST_EVENT, events(me, stream)) &&
           DO(HONEST_COPY_OUT, gs_client_copy_out(me->client, stream, host, out, bytes)) &&
           DO(HONEST_EVENT, gs_client_wait(me->client, stream)) && is_right(me, host, n, by) &&
           DO(HONEST_FREE, gs_client_free(me->client, in)) && DO(HONEST_FREE, gs_client_free(me->client, out));
}

/* The same through host memory that is shared. */
static bool compute_shared(struct client *me) {
    int *host;
    return DO(HONEST_HOST_MALLOC, gs_client_host_malloc(me->client, ELEMENTS * sizeof *host, (void **)&host)) &&
           compute(me, host, ELEMENTS) && DO(HONEST_HOST_FREE, gs_client_host_free(me->client, host));
}

static bool load_again(struct client *me) {
    uint32_t module;
    return DO(HONEST_LOAD, load(me, text, &module)) && DO(HONEST_FREE, gs_client_unload(me->client, module));
}

static bool load_new(struct client *me) {
    char source[sizeof text + 60];
    uint32_t module;
    snprintf(source, sizeof source, "// %lld %d\n%s", (long long)hostile_now_ns(), (int)getpid(), text);
    return DO(HONEST_COMPILE, load(me, source, &module)) && DO(HONEST_FREE, gs_client_unload(me->client, module));
}

/* As `gridsmith status` does it. */
static gs_client_code request_status(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_STATUS};
    gs_wire_welcome welcome = {.code = GS_CLIENT_LOST};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool is_answered = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                       send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
                       recv(fd, &welcome, sizeof welcome, 0) == sizeof welcome;
    if (fd >= 0)
        close(fd);
    return is_answered ? (gs_client_code)welcome.code : GS_CLIENT_NO_DAEMON;
}

static bool one_round(struct client *me, int64_t *compiled_ns) {
    enum { COMPILE_NS = 1000000000 };
    static int host[ELEMENTS];
    int turn = me->rounds + me->honest->number;
    bool is_good = compute(me, host, 1 + (me->rounds * 977 + me->honest->number * 131) % ELEMENTS);
    if (is_good && turn % 3 == 0)
        is_good = compute_shared(me);
    if (is_good && turn % 4 == 1)
        is_good = load_again(me);
    if (is_good && turn % 8 == 2)
        is_good = DO(HONEST_STATUS, request_status(me->honest->socket));
    if (is_good && me->honest->number == 0 && hostile_now_ns() - *compiled_ns > (int64_t)5 * COMPILE_NS) {
        is_good = load_new(me);
        *compiled_ns = hostile_now_ns();
    }
    atomic_fetch_add(&me->honest->board->times[me->honest->side][me->phase].rounds, 1);
    me->rounds++;
    return is_good;
}

static bool open_client(struct client *me) {
    gs_client_options options = {.socket = me->honest->socket, .name = "honest"};
    return DO(HONEST_OPEN, gs_client_open(&options, &me->client)) && DO(HONEST_COMPILE, load(me, text, &me->module));
}

static void note_recovery(struct client *me, int64_t since_ns) {
    begin(me, HONEST_AGAIN);
    atomic_store(&me->state->since_ns, since_ns);
    end(me);
}

/* Where errors are expected it opens again; a wrong result is never expected. */
static bool may_go_on(const struct client *me) {
    return me->honest->may_fail && !strstr(me->state->message, "WRONG");
}

int honest_works(const struct honest *honest) {
    struct client me = {.honest = honest, .state = &honest->board->honest[honest->side][honest->number]};
    int64_t compiled_ns = hostile_now_ns();
    bool is_good = open_client(&me);
    int64_t failed_ns = 0;
    while (!atomic_load(&honest->board->must_stop) && (is_good || may_go_on(&me))) {
        if (!is_good) {
            gs_client_close(me.client);
            me.client = NULL;
            atomic_store(&me.state->has_failed, 0);
            failed_ns = failed_ns ? failed_ns : hostile_now_ns();
            hostile_sleep_ms(20);
            is_good = open_client(&me);
            continue;
        }
        is_good = one_round(&me, &compiled_ns);
        if (is_good && failed_ns) {
            note_recovery(&me, failed_ns);
            failed_ns = 0;
        }
        hostile_sleep_ms(PAUSE_MS);
    }
    gs_client_close(me.client);
    return is_good || may_go_on(&me) ? 0 : 1;
}
