/*
 * fairness.c: the share that an honest client keeps while another one floods the daemon, for each kind of flood.
 *
 *   bench/fairness [--threads] PROGRAM [SECONDS [ROUNDS [WAY]]]
 *
 * PROGRAM is gridsmith. An honest client launches kernels, copies, or loads a source that is in the cache. First a
 * second client does the same beside it: the rate of each of two equal clients is its share. Then a flood replaces the
 * second client. The table has the rate of the honest client, in percent of its share, and the share: the medians of
 * ROUNDS rounds of SECONDS each. Everything runs on the CPU. The exit code is 1 if a share falls below 80%.
 *
 * On few cores clients also compete for the cores: with each other, with the daemon and with the CPU that stands in for
 * a GPU. The last row shows this: a process that computes on one core and uses no daemon. It is not judged. --threads
 * prints how many cores each kind of thread had in the last round, and how many it waited for: "SM 1.2+0.7" are threads
 * that had 1.2 cores and were ready for 0.7 more.
 *
 * Copies of 1 MiB go through buffers of 64 MiB, which no cache of the copying core holds. With buffers that stay in its
 * cache an honest client would copy faster beside one like itself, and a flood of large copies would take that
 * advantage away, however fair the daemon is.
 */
#define _GNU_SOURCE
#include "cores.h"
#include "floods.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAUNCHES, BYTES, LOADS, KINDS, MOST_ROUNDS = 99 };
enum { MOST_TENTHS = 100, WORK_TURNS = 20000, COPY_BYTES = 1 << 20, BUFFER_BYTES = 64 << 20, AHEAD = 8 };

static const char *const kinds[KINDS] = {"launches", "bytes", "loads"};
static bool shows_threads;
static _Atomic uint64_t *counter; /* the work of the honest client; shared with it */

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "fairness: %s: %s\n", what, why);
    exit(1);
}

/* ---- honest clients ---- */

struct honest {
    gs_client *client;
    uint32_t module;
    gs_client_memory memory;
    char *host;
    size_t at; /* in both */
};

static void must(gs_client_code code) {
    if (code == GS_CLIENT_OK)
        return;
    fprintf(stderr, "an honest client: %s\n", gs_client_message());
    _exit(1);
}

/* Does one kind of work once. */
static void work(struct honest *honest, int kind) {
    uint32_t module;
    for (int i = 0; kind == LAUNCHES && i < AHEAD; i++)
        must(flood_launch(honest->client, 0, honest->module, honest->memory, WORK_TURNS));
    if (kind == BYTES) {
        must(gs_client_copy_in(honest->client, 0, honest->memory + honest->at, honest->host + honest->at, COPY_BYTES));
        honest->at = (honest->at + COPY_BYTES) % BUFFER_BYTES;
    }
    if (kind == LOADS) {
        must(flood_load(honest->client, 0, &module));
        must(gs_client_unload(honest->client, module));
    } else {
        must(gs_client_wait(honest->client, 0));
    }
}

static void be_honest(const char *socket, int kind, bool is_counted) {
    static const uint64_t amounts[KINDS] = {AHEAD, COPY_BYTES, 1};
    struct honest honest = {.client = flood_client(socket, "honest")};
    void *host;
    must(flood_load(honest.client, 0, &honest.module));
    must(gs_client_malloc(honest.client, BUFFER_BYTES, &honest.memory));
    must(gs_client_host_malloc(honest.client, BUFFER_BYTES, &host));
    honest.host = host;
    for (;;) {
        work(&honest, kind);
        if (is_counted)
            *counter += amounts[kind];
    }
}

/* ---- the use of the cores ---- */

struct daemon {
    const char *socket;
    pid_t process, worker;
    cores cores; /* of the last round */
};

static void compute(const char *socket) {
    (void)socket;
    for (volatile uint64_t turns = 0;; turns++)
        ;
}

static const flood computing = {"computing", compute};

static void count_cores(struct daemon *daemon, const pid_t *clients, int sign) {
    if (sign < 0)
        daemon->cores = (cores){.count = 0};
    cores_add(&daemon->cores, "honest", clients[0], sign);
    cores_add(&daemon->cores, "other", clients[1], sign);
    cores_add(&daemon->cores, "daemon", daemon->process, sign);
    cores_add(&daemon->cores, "worker", daemon->worker, sign);
}

static void print_cores(const struct daemon *daemon, const char *kind, const char *beside, double seconds) {
    if (!shows_threads)
        return;
    printf("  %s beside %s:", kind, beside);
    for (int i = 0; i < daemon->cores.count; i++) {
        const cores_group *group = &daemon->cores.groups[i];
        double ran = group->ran_ns / 1e9 / seconds, waited = group->waited_ns / 1e9 / seconds;
        if (ran + waited > 0.005)
            printf(" %s %.2f+%.2f;", group->name, ran, waited);
    }
    printf("\n");
}

/* ---- rounds ---- */

/* The work of an honest client in a second beside `way`; NULL: beside another honest client. */
static double measure(struct daemon *daemon, const flood *way, int kind, double seconds) {
    pid_t processes[2];
    const char *socket = daemon->socket;
    for (int i = 0; i < 2; i++) {
        processes[i] = flood_fork();
        if (processes[i] == 0) {
            if (i == 0 || !way)
                be_honest(socket, kind, i == 0);
            else
                way->run(socket);
            _exit(1);
        }
    }
    uint64_t before = *counter;
    for (int i = 0; i < MOST_TENTHS && *counter == before; i++) /* the honest client may have to compile first */
        flood_sleep(0.1);
    flood_sleep(0.3);
    count_cores(daemon, processes, -1);
    int64_t began = gs_now_ns();
    before = *counter;
    flood_sleep(seconds);
    double rate = (double)(*counter - before) / ((double)(gs_now_ns() - began) / 1e9);
    count_cores(daemon, processes, 1);
    for (int i = 0; i < 2; i++)
        flood_end(processes[i], SIGKILL);
    return rate;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *list, int count) {
    qsort(list, (size_t)count, sizeof *list, compare);
    return list[count / 2];
}

/* The share that an honest client keeps beside `way`, in percent. `*share` gets its rate beside one like itself. */
static double keep(struct daemon *daemon, const flood *way, int kind, double seconds, int rounds, double *share) {
    double shares[MOST_ROUNDS], kept[MOST_ROUNDS];
    cores beside_equal = {.count = 0}, beside_way = {.count = 0};
    for (int i = 0; i < rounds; i++) {
        shares[i] = measure(daemon, NULL, kind, seconds);
        beside_equal = daemon->cores;
        kept[i] = shares[i] > 0 ? 100 * measure(daemon, way, kind, seconds) / shares[i] : 0;
        beside_way = daemon->cores;
    }
    daemon->cores = beside_equal;
    print_cores(daemon, kinds[kind], "one like itself", seconds);
    daemon->cores = beside_way;
    print_cores(daemon, kinds[kind], way->name, seconds);
    *share = median(shares, rounds);
    return median(kept, rounds);
}

/* True: all kinds kept 80 percent. */
static bool try_way(struct daemon *daemon, const flood *way, double seconds, int rounds) {
    double share[KINDS], percents[KINDS];
    bool is_fair = true;
    for (int kind = 0; kind < KINDS; kind++) {
        percents[kind] = keep(daemon, way, kind, seconds, rounds, &share[kind]);
        is_fair = is_fair && percents[kind] >= 80;
    }
    printf("%-14s %9.0f%% %9.0f%% %9.0f%%   %12.0f %12.1f %10.0f%s\n", way->name, percents[LAUNCHES], percents[BYTES],
           percents[LOADS], share[LAUNCHES], share[BYTES] / 1048576, share[LOADS],
           is_fair || way == &computing ? "" : "   below 80%");
    fflush(stdout);
    return is_fair;
}

static bool find_worker(struct daemon *daemon) {
    char *json = NULL;
    if (gs_status_request(daemon->socket, &json, NULL) != GS_OK)
        return false;
    json_t *status = json_loads(json, 0, NULL), *device = json_object_get(status, "device");
    daemon->worker = (pid_t)json_integer_value(json_object_get(device, "process"));
    json_decref(status);
    free(json);
    return true;
}

/* Each way has a daemon of its own. */
static bool play_way(const char *program, const char *folder, const flood *way, double seconds, int rounds) {
    char socket[64];
    snprintf(socket, sizeof socket, "%s/s", folder);
    struct daemon daemon = {.socket = socket, .process = flood_daemon(program, folder, socket)};
    if (!daemon.process || !find_worker(&daemon))
        give_up(program, "the daemon does not answer");
    measure(&daemon, NULL, LOADS, 0.5); /* compiles the source */
    bool is_fair = try_way(&daemon, way, seconds, rounds);
    flood_end(daemon.process, SIGTERM);
    return is_fair;
}

int main(int argc, char **argv) {
    char *folder = gs_folder_make_in("/tmp", "gridsmith-fairness", NULL);
    shows_threads = argc > 1 && strcmp(argv[1], "--threads") == 0;
    argc -= shows_threads;
    argv += shows_threads;
    double seconds = argc > 2 ? atof(argv[2]) : 2;
    int rounds = argc > 3 ? atoi(argv[3]) : 3;
    bool are_fair = true;
    if (argc < 2 || seconds <= 0 || rounds < 1 || rounds > MOST_ROUNDS || !folder)
        give_up("usage", "bench/fairness [--threads] PROGRAM [SECONDS [ROUNDS [WAY]]]");
    counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counter == MAP_FAILED)
        give_up("memory", "out of memory");
    printf("%-14s %10s %10s %10s   %12s %12s %10s\n", "flood", kinds[0], kinds[1], kinds[2], "launches/s", "MiB/s",
           "loads/s");
    for (size_t i = 0; i < flood_count; i++)
        if (argc <= 4 || strcmp(argv[4], floods[i].name) == 0)
            are_fair = play_way(argv[1], folder, &floods[i], seconds, rounds) && are_fair;
    if (argc <= 4 || strcmp(argv[4], computing.name) == 0)
        play_way(argv[1], folder, &computing, seconds, rounds);
    gs_folder_remove(folder);
    free(folder);
    return are_fair ? 0 : 1;
}
