/*
 * serve.c: gridsmith serve: the daemon that shares a GPU among processes.
 */
#include "sharing/serve/serve.h"
#include "cmd.h"

#include <stdlib.h>

struct options {
    const char *device, *socket, *limit, *metrics, *profiles, *cache, *plan, *group;
    int64_t sms, memory, client_memory, client_host_memory, shuffle;
    bool marks, mps, no_mps;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "device", device, "cuda:N|host",
            "the GPU, or the CPU instead of one (default: cuda:0, or host if there is no GPU)"),
    GS_TEXT(struct options, "socket", socket, "PATH",
            "where clients connect (default: $GRIDSMITH_SOCKET, or gridsmith.sock in $XDG_RUNTIME_DIR or "
            "/tmp/gridsmith-UID)"),
    GS_TEXT(struct options, "limit", limit, "SECONDS",
            "a kernel that runs longer is stopped, together with the worker (default 60)"),
    GS_TEXT(struct options, "metrics", metrics, "ADDRESS:PORT",
            "serve metrics for Prometheus at this address, over HTTP"),
    GS_TEXT_OR_EMPTY(struct options, "profiles", profiles, "FILE",
                     "the profiles of kernels (default: in $XDG_DATA_HOME/gridsmith; empty: none)"),
    GS_TEXT(struct options, "cache", cache, "FOLDER", "compiled kernels (default: $XDG_CACHE_HOME/gridsmith)"),
    GS_TEXT(struct options, "plan", plan, "FILE",
            "a plan as JSON: its pairs with a gain share SMs at once; others are tried, if both fit"),
    GS_INT(struct options, "sms", sms, "N", 1, 1024, "host: number of SMs (default 8)"),
    GS_INT(struct options, "memory", memory, "MIB", 1, 1 << 20, "host: memory of the device (default 1024)"),
    GS_INT(struct options, "client-memory", client_memory, "MIB", 1, 1 << 30,
           "device memory that a client may have (default: 7/8 of all)"),
    GS_INT(struct options, "client-host-memory", client_host_memory, "MIB", 1, 1 << 30,
           "host memory that a client may share (default: half of all)"),
    GS_TEXT(struct options, "group", group, "NAME",
            "members of this group may use 'gridsmith run' with this daemon (default: only the user who starts it)"),
    GS_FLAG(struct options, "mps", mps,
            "start MPS for 'gridsmith run', or fail (default: where it is installed, without --group)"),
    GS_FLAG(struct options, "no-mps", no_mps, "do not start MPS"),
    GS_FLAG(struct options, "marks", marks, "for debugging: check that each block of a confined kernel runs once"),
    GS_INT(struct options, "shuffle", shuffle, "US", 1, 1000000000,
           "for debugging: assign SMs to kernels at random, every US microseconds"),
};

static void print_daemon_line(const char *line) {
    fprintf(stderr, "gridsmith: %s\n", line);
}

static int run_serve(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    (void)words;
    gs_error error = {.code = GS_OK};
    gs_serve_options request = {.socket = options->socket,
                                .device = options->device,
                                .sms = (int32_t)options->sms,
                                .memory_bytes = (uint64_t)options->memory << 20,
                                .client_memory_bytes = (uint64_t)options->client_memory << 20,
                                .client_host_memory_bytes = (uint64_t)options->client_host_memory << 20,
                                .metrics = options->metrics,
                                .profiles = options->profiles,
                                .cache = options->cache,
                                .plan = options->plan,
                                .group = options->group,
                                .mps = options->mps      ? GS_SERVE_MPS
                                       : options->no_mps ? GS_SERVE_NO_MPS
                                                         : GS_SERVE_MPS_IF_THERE,
                                .counts_blocks = options->marks,
                                .shuffle_us = options->shuffle,
                                .say = print_daemon_line};
    char *end;
    if (options->mps && options->no_mps)
        return gs_usage(command, "give --mps or --no-mps, not both");
    if (options->limit) {
        request.limit_seconds = strtod(options->limit, &end);
        if (end == options->limit || *end || !(request.limit_seconds >= 0.1 && request.limit_seconds <= 1e6))
            return gs_usage(command, "--limit takes seconds, from 0.1 to 1000000, not \"%.40s\"", options->limit);
    }
    return gs_serve(&request, &error) == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_serve = {
    .name = "serve",
    .summary = "Share a GPU: run the kernels of many processes side by side.",
    .usage = "[options]",
    .details = "Programs use it through libgridsmith-client. SIGTERM stops it, after pending requests of clients, or\n"
               "after 10 seconds.\n\n"
               "  gridsmith serve --metrics 127.0.0.1:9400 &\n"
               "  gridsmith zoo run sgemm --device serve\n"
               "  gridsmith top\n",
    GS_OPTION_TABLE(struct options, option_table),
    .run = run_serve,
};
