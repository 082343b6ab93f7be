/*
 * fairness.c: what an honest client keeps while another one floods the daemon, for each way of flooding.
 *
 *   bench/fairness PROGRAM [SECONDS [ROUNDS [WAY]]]
 *
 * PROGRAM is gridsmith. An honest client launches kernels, copies, or loads a source that is in the cache. First a
 * second client does the same beside it: what each of two equal clients gets is its share. Then a flood takes the place
 * of the second client. The table has what the honest client still gets, in percent of its share, and the share: the
 * medians of ROUNDS rounds of SECONDS each. Everything runs on the CPU. The exit code is 1 if a share falls below 80%.
 *
 * Copies of 1 MiB go through buffers of 64 MiB, which no cache of the copying core holds. With buffers that stay in its
 * cache an honest client would copy faster beside one like itself, and a flood of large copies would take that from it,
 * however fair the daemon is.
 */
#define _GNU_SOURCE
#include "cores.h"
#include "floods.h"

#include <jansson.h>
#include <pthread.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAUNCHES, BYTES, LOADS, KINDS, MOST_ROUNDS = 99 };
enum { MOST_TENTHS = 100, WORK_TURNS = 20000, COPY_BYTES = 1 << 20, BUFFER_BYTES = 64 << 20, AHEAD = 8 };

static const char *const kinds[KINDS] = {"launches", "bytes", "loads"};
static _Atomic uint64_t *counter; /* what the honest client has done; shared with it */

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

/* ---- rounds ---- */

/* What an honest client does in a second beside `way`; NULL: beside another honest client. */
static pid_t worker, serving;
static bool verbose;
static cores last;
static void *burn_thread(void *x) { volatile uint64_t n = 0; (void)x; for (;;) n++; return NULL; }
static void burn(int n) { pthread_t t; for (int i = 1; i < n; i++) pthread_create(&t, NULL, burn_thread, NULL); burn_thread(NULL); }
static void burn1(const char *s) { (void)s; burn(1); }
static void burn2(const char *s) { (void)s; burn(2); }
static void burn3(const char *s) { (void)s; burn(3); }
static void burn4(const char *s) { (void)s; burn(4); }
static int only_kind = -1;
static void alone(const char *s) { (void)s; for (;;) pause(); }
static const flood extra[] = {{"alone", alone}, {"burn1", burn1}, {"burn2", burn2}, {"burn3", burn3}, {"burn4", burn4}};
static void add_all(const pid_t *processes, int sign) {
    cores_add(&last, "honest", processes[0], sign);
    cores_add(&last, "second", processes[1], sign);
    cores_add(&last, "daemon", serving, sign);
    cores_add(&last, "worker", worker, sign);
}
static void show(const char *title, double seconds) {
    printf("    %s:", title);
    for (int i = 0; i < last.count; i++)
        if (last.groups[i].ran_ns + last.groups[i].waited_ns > 1e7 * seconds)
            printf(" [%s %.2f+%.2f]", last.groups[i].name, last.groups[i].ran_ns / 1e9 / seconds, last.groups[i].waited_ns / 1e9 / seconds);
    printf("\n");
}
static double measure(const char *socket, const flood *way, int kind, double seconds) {
    pid_t processes[2];
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
    int64_t began = gs_now_ns();
    before = *counter;
    last = (cores){.count = 0};
    if (verbose) add_all(processes, -1);
    flood_sleep(seconds);
    if (verbose) add_all(processes, 1);
    double rate = (double)(*counter - before) / ((double)(gs_now_ns() - began) / 1e9);
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

/* True: all kinds kept 80 percent. */
static bool try_way(const char *socket, const flood *way, double seconds, int rounds) {
    double shares[MOST_ROUNDS], kept[MOST_ROUNDS], share[KINDS] = {0};
    bool is_fair = true;
    printf("%-14s", way->name);
    for (int kind = 0; kind < KINDS; kind++) {
        if (only_kind >= 0 && kind != only_kind) continue;
        for (int i = 0; i < rounds; i++) {
            shares[i] = measure(socket, NULL, kind, seconds);
            if (verbose && i == rounds - 1) { printf("\n%s beside an equal: %.0f", kinds[kind], shares[i]); show("", seconds); }
            kept[i] = shares[i] > 0 ? 100 * measure(socket, way, kind, seconds) / shares[i] : 0;
            if (verbose && i == rounds - 1) { printf("%s beside %s: %.0f%%", kinds[kind], way->name, kept[i]); show("", seconds); }
        }
        share[kind] = median(shares, rounds);
        double percent = median(kept, rounds);
        printf(" %9.0f%%", percent);
        fflush(stdout);
        is_fair = is_fair && percent >= 80;
    }
    printf("   %12.0f %12.1f %10.0f%s\n", share[LAUNCHES], share[BYTES] / 1048576, share[LOADS],
           is_fair ? "" : "   below 80%");
    return is_fair;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/gridsmith-fairness-XXXXXX", socket[64], command[80];
    double seconds = argc > 2 ? atof(argv[2]) : 2;
    int rounds = argc > 3 ? atoi(argv[3]) : 3;
    bool are_fair = true;
    if (argc < 2 || seconds <= 0 || rounds < 1 || rounds > MOST_ROUNDS || !mkdtemp(folder))
        give_up("usage", "bench/fairness PROGRAM [SECONDS [ROUNDS [WAY]]]");
    counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counter == MAP_FAILED)
        give_up("memory", "there is none");
    snprintf(socket, sizeof socket, "%s/s", folder);
    printf("%-14s %10s %10s %10s   %12s %12s %10s\n", "flood", kinds[0], kinds[1], kinds[2], "launches/s", "MiB/s",
           "loads/s");
    verbose = argc > 5;
    only_kind = argc > 6 ? atoi(argv[6]) : -1;
    for (size_t i = 0; i < flood_count + GS_COUNT(extra); i++) {
        const flood *way = i < flood_count ? &floods[i] : &extra[i - flood_count];
        if (argc > 4 && strcmp(argv[4], way->name) != 0)
            continue;
        pid_t daemon = flood_daemon(argv[1], folder, socket);
        if (!daemon)
            give_up(argv[1], "the daemon does not answer");
        char *json = NULL;
        gs_status_request(socket, &json, NULL);
        json_t *status = json_loads(json, 0, NULL);
        worker = (pid_t)json_integer_value(json_object_get(json_object_get(status, "device"), "process"));
        serving = daemon;
        measure(socket, NULL, LOADS, 0.5); /* compiles the source */
        are_fair = try_way(socket, way, seconds, rounds) && are_fair;
        flood_end(daemon, SIGTERM);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 && are_fair ? 0 : 1;
}
