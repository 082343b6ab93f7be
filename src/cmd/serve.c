/*
 * serve.c: gridsmith serve: the daemon that shares a GPU among processes.
 */
#include "serve/serve.h"
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

struct serve {
    const char *device, *socket, *limit, *metrics, *profiles, *cache;
    int64_t sms, memory, shuffle;
    bool marks;
};

static const gs_option options[] = {
    {.name = "device",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct serve, device),
     .argument = "cuda:N|host",
     .help = "the GPU, or the CPU that plays one (default: cuda:0, or host where there is no GPU)"},
    {.name = "socket",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct serve, socket),
     .argument = "PATH",
     .help = "where clients come to (default: $GRIDSMITH_SOCKET, or gridsmith.sock in $XDG_RUNTIME_DIR)"},
    {.name = "limit",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct serve, limit),
     .argument = "SECONDS",
     .help = "a kernel that runs longer is stopped, and with it the device process (default 60)"},
    {.name = "metrics",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct serve, metrics),
     .argument = "ADDRESS:PORT",
     .help = "answer Prometheus there, by HTTP"},
    {.name = "profiles",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct serve, profiles),
     .argument = "FILE",
     .help = "what is known of kernels (default: in $XDG_DATA_HOME/gridsmith; empty: forget it at the end)"},
    {.name = "cache",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct serve, cache),
     .argument = "FOLDER",
     .help = "compiled kernels (default: $XDG_CACHE_HOME/gridsmith)"},
    {.name = "sms",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct serve, sms),
     .argument = "N",
     .help = "host: so many SMs are pretended (default 8)",
     .least = 1,
     .most = 1024},
    {.name = "memory",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct serve, memory),
     .argument = "MIB",
     .help = "host: so much memory is pretended (default 1024)",
     .least = 1,
     .most = 1 << 20},
    {.name = "marks",
     .offset = offsetof(struct serve, marks),
     .help = "for debugging: check that each block of a confined kernel runs once"},
    {.name = "shuffle",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct serve, shuffle),
     .argument = "US",
     .help = "for debugging: deal SMs anew, at random, as often",
     .least = 1,
     .most = 1000000000},
};

static void say(const char *line) {
    fprintf(stderr, "gridsmith: %s\n", line);
}

static int serve(const gs_command *command, const struct serve *asked) {
    gs_error error = {.code = GS_OK};
    gs_serve_options given = {.socket = asked->socket,
                              .device = asked->device,
                              .sms = (int32_t)asked->sms,
                              .memory_bytes = (uint64_t)asked->memory << 20,
                              .metrics = asked->metrics,
                              .profiles = asked->profiles,
                              .cache = asked->cache,
                              .has_marks = asked->marks,
                              .shuffle_us = asked->shuffle,
                              .say = say};
    char *end;
    if (asked->limit) {
        given.limit_seconds = strtod(asked->limit, &end);
        if (end == asked->limit || *end || !(given.limit_seconds >= 0.1 && given.limit_seconds <= 1e6))
            return gs_usage(command, "--limit takes seconds, from 0.1 to 1000000, not \"%.40s\"", asked->limit);
    }
    return gs_serve(&given, &error) == GS_OK ? 0 : gs_report(&error);
}

static int run(const gs_command *command, int argc, char **argv) {
    struct serve asked = {0};
    gs_words words;
    gs_parsed parsed = gs_parse(command, argc, argv, &asked, &words);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED)
        status = words.count ? gs_usage(command, "\"%.40s\" is not an option", words.data[0]) : serve(command, &asked);
    free(words.data);
    return status;
}

const gs_command gs_command_serve = {
    .name = "serve",
    .summary = "Share a GPU: run the kernels of many processes side by side.",
    .usage = "[options]",
    .details = "Programs use it through libgridsmith-client. SIGTERM stops it: what clients have asked for is done\n"
               "first, for up to 10 seconds.\n\n"
               "  gridsmith serve --metrics 127.0.0.1:9400 &\n"
               "  gridsmith zoo run sgemm --on serve\n"
               "  gridsmith top\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
