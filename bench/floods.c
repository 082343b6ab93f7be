/*
 * floods.c: clients that use as much as they can, each of one kind: launches, allocations, copies and so on.
 *
 * Each flood uses everything that one client may use: all streams, several threads, as many commands as the ring takes.
 * Errors do not stop it: when it reaches a limit, it continues.
 */
#define _GNU_SOURCE
#include "floods.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, FLOOD_TURNS = 20000, COPY_BYTES = 64 << 20 };

/* ---- processes ---- */

void flood_sleep(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

pid_t flood_fork(void) {
    pid_t process = fork();
    if (process == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return process;
}

void flood_end(pid_t process, int signal) {
    if (process <= 0)
        return;
    kill(process, signal);
    waitpid(process, NULL, 0);
}

pid_t flood_daemon(const char *program, const char *folder, const char *socket) {
    const char *const words[] = {program, "serve",   "--device", "host",       "--sms", "4", "--socket",
                                 socket,  "--cache", folder,     "--profiles", "",      NULL};
    char log[80];
    pid_t process;
    snprintf(log, sizeof log, "%s/daemon.log", folder);
    const gs_process_options options = {
        .words = words, .output_fd = STDOUT_FILENO, .errors = log, .end_signal = SIGKILL};
    if (gs_process_try(&options, &process) != 0)
        return 0;
    char *json = NULL;
    for (int i = 0; i < 1000 && !json; i++) {
        if (gs_status_request(socket, &json, NULL) != GS_OK)
            flood_sleep(0.01);
    }
    bool is_there = json != NULL;
    free(json);
    if (!is_there)
        flood_end(process, SIGKILL);
    return is_there ? process : 0;
}

/* ---- clients ---- */

gs_client *flood_client(const char *socket, const char *name) {
    gs_client_options options = {.socket = socket, .name = name};
    gs_client *client = NULL;
    while (gs_client_open(&options, &client) != GS_CLIENT_OK)
        flood_sleep(0.01);
    return client;
}

gs_client_code flood_load(gs_client *client, int number, uint32_t *module) {
    static const char *const names[] = {"work", "empty"};
    char text[400];
    snprintf(text, sizeof text,
             "__global__ void work(int *out, int turns) {\n"
             "    unsigned x = blockIdx.x + %d;\n"
             "    for (int i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;\n"
             "    if (threadIdx.x == 0) out[blockIdx.x] = (int)(x | 1);\n"
             "}\n"
             "__global__ void empty(int *out) { }\n",
             number);
    gs_client_source source = {.name = "flood.cu", .text = text, .kernels = names, .kernel_count = 2};
    return gs_client_load(client, &source, module);
}

gs_client_code flood_launch(gs_client *client, uint32_t stream, uint32_t module, gs_client_memory memory, int turns) {
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(turns)};
    gs_client_launch launch = {.module = module,
                               .kernel = turns ? FLOOD_WORK : FLOOD_EMPTY,
                               .grid = {4},
                               .block = {1},
                               .arguments = arguments,
                               .argument_count = turns ? 2 : 1};
    return gs_client_start(client, stream, &launch);
}

/* ---- the kinds of floods ---- */

static void flood_launches(const char *socket) {
    gs_client *client = flood_client(socket, "launches");
    uint32_t module;
    gs_client_memory memory;
    if (flood_load(client, 0, &module) || gs_client_malloc(client, 4096, &memory))
        return;
    for (uint32_t i = 0;; i++)
        flood_launch(client, i % GS_CLIENT_STREAMS, module, memory, FLOOD_TURNS);
}

static void flood_allocations(const char *socket) {
    enum { MOST = 20000 };
    static gs_client_memory list[MOST];
    gs_client *client = flood_client(socket, "allocations");
    for (;;) {
        int count = 0;
        while (count < MOST && gs_client_malloc(client, 1, &list[count]) == GS_CLIENT_OK)
            count++;
        while (count)
            gs_client_free(client, list[--count]);
    }
}

static void flood_copies(const char *socket) {
    gs_client *client = flood_client(socket, "copies");
    gs_client_memory memory;
    void *host;
    if (gs_client_malloc(client, COPY_BYTES, &memory) || gs_client_host_malloc(client, COPY_BYTES, &host))
        return;
    for (uint32_t i = 0;; i++)
        gs_client_copy_in(client, i % GS_CLIENT_STREAMS, memory, host, COPY_BYTES);
}

static void flood_events(const char *socket) {
    gs_client *client = flood_client(socket, "events");
    for (uint32_t i = 0;; i++)
        gs_client_event(client, i % GS_CLIENT_STREAMS, i % GS_CLIENT_EVENTS);
}

static void flood_files(const char *socket) {
    gs_client *client = flood_client(socket, "files");
    for (;;) {
        void *memory;
        if (gs_client_host_malloc(client, 4096, &memory) == GS_CLIENT_OK)
            gs_client_host_free(client, memory);
    }
}

/* Connects again and again, and sends nothing. */
static void flood_connections(const char *socket_path) {
    enum { KEPT = 500 };
    int kept[KEPT];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    for (int i = 0; i < KEPT; i++)
        kept[i] = -1;
    for (int i = 0;; i = (i + 1) % KEPT) {
        if (kept[i] >= 0)
            close(kept[i]);
        kept[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (kept[i] >= 0 && connect(kept[i], (struct sockaddr *)&address, sizeof address) != 0)
            flood_sleep(0.001);
    }
}

static void flood_status(const char *socket) {
    for (;;) {
        char *json = NULL;
        gs_status_request(socket, &json, NULL);
        free(json);
    }
}

struct loader {
    gs_client *client;
    int first;
};

static void *load_for_ever(void *argument) {
    const struct loader *loader = argument;
    for (int i = loader->first;; i++) {
        uint32_t module;
        if (flood_load(loader->client, i, &module) == GS_CLIENT_OK)
            gs_client_unload(loader->client, module);
    }
    return NULL;
}

/* Each source is new, so it must be compiled. */
static void flood_loads(const char *socket) {
    gs_client *client = flood_client(socket, "loads");
    static struct loader loaders[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        loaders[i] = (struct loader){client, (int)getpid() % 1000 * 1000000 + i * 100000 + 1000};
        pthread_create(&thread, NULL, load_for_ever, &loaders[i]);
    }
    pause();
}

const flood floods[] = {
    {"launches", flood_launches}, {"allocations", flood_allocations},
    {"copies", flood_copies},     {"events", flood_events},
    {"files", flood_files},       {"connections", flood_connections},
    {"status", flood_status},     {"loads", flood_loads},
};
const size_t flood_count = GS_COUNT(floods);
