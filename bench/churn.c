/*
 * churn.c: the memory, descriptors and mappings of the daemon and its worker over time, while clients connect, work,
 * flood, are killed and leave.
 *
 *   bench/churn PROGRAM [SECONDS [LINES]]
 *
 * PROGRAM is gridsmith. Some clients are at work at any time; each is killed after a random time, and another one takes
 * its place: an honest one, or a flood (floods.c). A line is printed now and then, LINES in all, and at the end one
 * more, when no client is left. A number that grows from line to line is a leak. Everything runs on the CPU.
 */
#define _GNU_SOURCE
#include "floods.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 12 };

struct churn {
    char *folder, socket[64];
    pid_t daemon, clients[CLIENTS];
    int64_t until_ns[CLIENTS];
    gs_random random;
    uint64_t killed;
};

/* ---- the resources of a process ---- */

struct needs {
    double resident_mib;
    int descriptors, mappings;
};

static int count_descriptors(int process) {
    char path[40];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2;
}

static int count_lines(int process) {
    char path[40];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE *file = fopen(path, "r");
    for (int c; file && (c = getc(file)) != EOF;)
        count += c == '\n';
    if (file)
        fclose(file);
    return count;
}

static struct needs needs_of(int process) {
    char path[40];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", process);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (struct needs){(double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576, count_descriptors(process),
                          count_lines(process)};
}

/* ---- clients ---- */

static void be_honest(const char *socket) {
    gs_client *client = flood_client(socket, "honest");
    gs_client_memory memory;
    uint32_t module;
    char bytes[4096] = {0};
    for (;;) {
        if (flood_load(client, 0, &module) || gs_client_malloc(client, sizeof bytes, &memory))
            _exit(1);
        for (int i = 0; i < 100; i++)
            if (flood_launch(client, 0, module, memory, 1000) || gs_client_copy_in(client, 0, memory, bytes, 4096) ||
                gs_client_wait(client, 0))
                _exit(1);
        if (gs_client_free(client, memory) || gs_client_unload(client, module))
            _exit(1);
    }
}

static void start_client(struct churn *churn, int at) {
    size_t way = (size_t)gs_random_from(&churn->random, 0, 2 * (int64_t)flood_count - 1);
    churn->until_ns[at] = gs_now_ns() + gs_random_from(&churn->random, 10, 3000) * 1000000;
    churn->clients[at] = flood_fork();
    if (churn->clients[at] != 0)
        return;
    if (way < flood_count)
        floods[way].run(churn->socket);
    else
        be_honest(churn->socket);
    _exit(1);
}

/* ---- lines ---- */

static void print_line(struct churn *churn, double seconds) {
    char *json = NULL;
    if (gs_status_request(churn->socket, &json, NULL) != GS_OK) {
        printf("%8.0f  the daemon does not answer\n", seconds);
        return;
    }
    json_t *status = json_loads(json, 0, NULL), *device = json_object_get(status, "device");
    int worker = (int)json_integer_value(json_object_get(device, "process"));
    struct needs daemon = needs_of(churn->daemon), other = needs_of(worker);
    printf("%8.0f %8zu %8llu %8lld | %8.1f %6d %6d | %8.1f %6d %6d\n", seconds,
           json_array_size(json_object_get(status, "clients")), (unsigned long long)churn->killed,
           (long long)json_integer_value(json_object_get(device, "restarts")), daemon.resident_mib, daemon.descriptors,
           daemon.mappings, other.resident_mib, other.descriptors, other.mappings);
    fflush(stdout);
    json_decref(status);
    free(json);
}

static void turn(struct churn *churn) {
    for (int i = 0; i < CLIENTS; i++) {
        if (gs_now_ns() < churn->until_ns[i])
            continue;
        flood_end(churn->clients[i], SIGKILL);
        churn->killed += churn->clients[i] > 0;
        start_client(churn, i);
    }
    flood_sleep(0.01);
}

int main(int argc, char **argv) {
    struct churn churn = {.folder = gs_folder_make_in("/tmp", "gridsmith-churn", NULL), .random = gs_random_at(1, 0)};
    double seconds = argc > 2 ? atof(argv[2]) : 60;
    int lines = argc > 3 ? atoi(argv[3]) : 10;
    if (argc < 2 || seconds <= 0 || lines < 1 || !churn.folder) {
        fprintf(stderr, "usage: bench/churn PROGRAM [SECONDS [LINES]]\n");
        return 2;
    }
    snprintf(churn.socket, sizeof churn.socket, "%s/s", churn.folder);
    churn.daemon = flood_daemon(argv[1], churn.folder, churn.socket);
    printf("%8s %8s %8s %8s | %8s %6s %6s | %8s %6s %6s\n", "seconds", "clients", "killed", "restarts", "MiB", "fds",
           "maps", "MiB", "fds", "maps");
    int64_t began = gs_now_ns();
    for (int line = 1; line <= lines && churn.daemon; line++) {
        while ((double)(gs_now_ns() - began) / 1e9 < seconds * line / lines)
            turn(&churn);
        print_line(&churn, seconds * line / lines);
    }
    for (int i = 0; i < CLIENTS; i++)
        flood_end(churn.clients[i], SIGKILL);
    flood_sleep(2);
    print_line(&churn, seconds + 2);
    flood_end(churn.daemon, SIGTERM);
    gs_folder_remove(churn.folder);
    free(churn.folder);
    return churn.daemon ? 0 : 1;
}
