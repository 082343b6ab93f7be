/*
 * launches.c: the cost of a launch through the daemon, compared in one run with the same launch sent to the worker
 * directly: one at a time, and many in a row.
 *
 *   bench/launches PROGRAM [DEVICE [LAUNCHES]]
 *
 * PROGRAM is gridsmith. Both are measured alternately; medians are printed. The kernel is empty, so only the round trip
 * to the GPU is measured.
 */
#include "sharing/client/client.h"
#include "sharing/worker/worker.h"

#include <gridsmith/client.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 9 };

static const char text[] = "__global__ void empty(int *out) { }\n";
static const char *const names[] = {"empty"};

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "launches: %s: %s\n", what, why);
    exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *list) {
    qsort(list, TURNS, sizeof *list, compare);
    return list[TURNS / 2];
}

/* ---- directly ---- */

static void wait_report(gs_worker *worker, uint32_t wanted) {
    gs_worker_report report;
    for (int64_t until = gs_now_ns() + 50000;;) {
        if (gs_now_ns() < until ? gs_worker_peek(worker, &report) : gs_worker_poll(worker, &report)) {
            if (report.code != GS_OK || report.kind != wanted)
                give_up("the worker", report.message);
            return;
        }
        if (gs_now_ns() >= until)
            poll(&(struct pollfd){.fd = gs_worker_fd(worker), .events = POLLIN}, 1, 1000);
    }
}

static gs_image *compile(const char *program, const char *cache, int architecture) {
    gs_image_source source = {
        .name = "empty.cu", .text = text, .size = sizeof text - 1, .kernels = {names[0]}, .kernel_count = 1};
    gs_image_request request = {.program = program, .architecture = architecture};
    gs_error error = {.code = GS_OK};
    gs_image *image = gs_image_make(cache, &source, &request, &error);
    if (!image)
        give_up("compiling", error.message);
    return image;
}

static gs_worker *open_worker(const char *program, const char *device, const char *cache) {
    gs_worker_options options = {.device = device, .program = program};
    gs_error error = {.code = GS_OK};
    gs_worker *worker = gs_worker_open(&options, &error);
    if (!worker)
        give_up(device, error.message);
    gs_image *image = compile(program, cache, gs_worker_facts_of(worker)->architecture);
    gs_worker_allocate(worker, 1, 1, 4096);
    wait_report(worker, GS_REPORT_ALLOCATED);
    gs_worker_load(worker, 2, 1, image);
    wait_report(worker, GS_REPORT_LOADED);
    gs_image_free(image);
    return worker;
}

/* Nanoseconds per launch. */
static double run_directly(gs_worker *worker, int count, bool is_pipelined) {
    gs_worker_launch launch = {.request = {.queue = 1, .handle = 1}, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    enum { AHEAD = 256 };
    gs_launch_add_memory(&launch, 1, 0);
    int64_t began = gs_now_ns();
    for (int i = 0; i < count; i++) {
        gs_worker_start(worker, (uint64_t)i, &launch);
        if (!is_pipelined || i >= AHEAD)
            wait_report(worker, GS_REPORT_RAN);
    }
    for (int i = 0; is_pipelined && i < AHEAD && i < count; i++)
        wait_report(worker, GS_REPORT_RAN);
    return (double)(gs_now_ns() - began) / count;
}

/* ---- through the daemon ---- */

static pid_t start_daemon(const char *program, const char *device, const char *folder, const char *socket) {
    const char *const words[] = {program,   "serve", "--device",   device, "--socket", socket,
                                 "--cache", folder,  "--profiles", "",     NULL};
    pid_t process;
    if (gs_process_try(&(gs_process_options){.words = words}, &process) != 0)
        give_up("start", program);
    struct timespec moment = {.tv_nsec = 10000000};
    char *json = NULL;
    for (int i = 0; i < 3000 && gs_status_request(socket, &json, NULL) != GS_OK; i++)
        nanosleep(&moment, NULL);
    free(json);
    return process;
}

static double run_through_daemon(gs_client *client, uint32_t module, gs_client_memory memory, int count,
                                 bool is_pipelined) {
    gs_client_argument argument = GS_CLIENT_AT(memory);
    gs_client_launch launch = {.module = module, .block = {32}, .arguments = &argument, .argument_count = 1};
    gs_client_code code = GS_CLIENT_OK;
    int64_t began = gs_now_ns();
    for (int i = 0; i < count && code == GS_CLIENT_OK; i++) {
        code = gs_client_start(client, 0, &launch);
        if (!is_pipelined && code == GS_CLIENT_OK)
            code = gs_client_wait(client, 0);
    }
    if (code == GS_CLIENT_OK)
        code = gs_client_wait(client, 0);
    if (code != GS_CLIENT_OK)
        give_up("launch", gs_client_message());
    return (double)(gs_now_ns() - began) / count;
}

/* The round trip to the daemon: an event in an empty stream does not reach the worker. */
static double run_events(gs_client *client, int count, bool is_pipelined) {
    gs_client_code code = GS_CLIENT_OK;
    int64_t began = gs_now_ns();
    for (int i = 0; i < count && code == GS_CLIENT_OK; i++) {
        code = gs_client_event(client, 1, 0);
        if (code == GS_CLIENT_OK && (!is_pipelined || i == count - 1))
            code = gs_client_event_wait(client, 0);
    }
    if (code != GS_CLIENT_OK)
        give_up("event", gs_client_message());
    return (double)(gs_now_ns() - began) / count;
}

static gs_client *open_client(const char *socket, uint32_t *module, gs_client_memory *memory) {
    gs_client_options options = {.socket = socket};
    gs_client_source source = {.name = "empty.cu", .text = text, .kernels = names, .kernel_count = 1};
    gs_client *client;
    if (gs_client_open(&options, &client) || gs_client_load(client, &source, module) ||
        gs_client_malloc(client, 4096, memory))
        give_up("client", gs_client_message());
    return client;
}

int main(int argc, char **argv) {
    char *folder = gs_folder_make_in("/tmp", "gridsmith-launches", NULL), socket[64];
    const char *device = argc > 2 ? argv[2] : "host";
    int count = argc > 3 ? atoi(argv[3]) : 2000;
    double direct[2][TURNS], daemon[2][TURNS], events[2][TURNS];
    uint32_t module;
    gs_client_memory memory;
    if (argc < 2 || !folder)
        give_up("usage", "bench/launches PROGRAM [DEVICE [LAUNCHES]]");
    snprintf(socket, sizeof socket, "%s/s", folder);
    gs_worker *worker = open_worker(argv[1], device, folder);
    pid_t process = start_daemon(argv[1], device, folder, socket);
    gs_client *client = open_client(socket, &module, &memory);
    for (int turn = -1; turn < TURNS; turn++)
        for (int is_pipelined = 0; is_pipelined < 2; is_pipelined++) {
            int at = turn < 0 ? 0 : turn; /* the first round warms up */
            direct[is_pipelined][at] = run_directly(worker, count, is_pipelined);
            daemon[is_pipelined][at] = run_through_daemon(client, module, memory, count, is_pipelined);
            events[is_pipelined][at] = run_events(client, count, is_pipelined);
        }
    double a = median(direct[0]), b = median(daemon[0]), c = median(direct[1]), d = median(daemon[1]);
    printf("%-16s %14s %14s %10s %8s\n", "us a launch", "directly", "by the daemon", "more", "ratio");
    printf("%-16s %14.2f %14.2f %10.2f %8.2f\n", "one at a time", a / 1e3, b / 1e3, (b - a) / 1e3, b / a);
    printf("%-16s %14.2f %14.2f %10.2f %8.2f\n", "many in a row", c / 1e3, d / 1e3, (d - c) / 1e3, d / c);
    printf("the daemon alone (an event): one at a time %.2f us, many in a row %.2f us\n", median(events[0]) / 1e3,
           median(events[1]) / 1e3);
    gs_client_close(client);
    gs_worker_close(worker);
    kill(process, SIGTERM);
    gs_process_wait(process);
    gs_folder_remove(folder);
    free(folder);
    return 0;
}
