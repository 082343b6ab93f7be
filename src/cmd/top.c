/*
 * top.c: gridsmith top: what a daemon is doing, live on a terminal. Anywhere else it prints one table, with the rates
 * of one second.
 */
#include "cmd.h"
#include "status.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct top {
    const char *socket;
    int64_t every;
};

static const gs_option options[] = {
    {.name = "socket",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct top, socket),
     .argument = "PATH",
     .help = "of the daemon (default: $GRIDSMITH_SOCKET, or gridsmith.sock in $XDG_RUNTIME_DIR)"},
    {.name = "every",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct top, every),
     .argument = "MS",
     .help = "between two looks (default 1000)",
     .least = 50,
     .most = 3600000},
};

static volatile sig_atomic_t is_over;

static void stop(int number) {
    (void)number;
    is_over = 1;
}

static void wait_ms(int64_t ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* Looks again and again; the screen is cleared from the top left corner, and below what was printed. */
static int watch(const struct top *asked) {
    gs_error error = {.code = GS_OK};
    bool is_live = isatty(STDOUT_FILENO);
    char *text = NULL;
    json_t *before = gs_status_get(asked->socket, &text, &error), *now = before;
    free(text);
    while (now && !is_over) {
        wait_ms(asked->every);
        if (is_over)
            break;
        text = NULL;
        now = gs_status_get(asked->socket, &text, &error);
        free(text);
        if (!now)
            break;
        printf("%s", is_live ? "\033[H\033[2J" : "");
        gs_print_status(now, before);
        fflush(stdout);
        json_decref(before);
        before = now;
        is_over |= !is_live;
    }
    json_decref(before);
    return now ? 0 : gs_report(&error);
}

static int run(const gs_command *command, int argc, char **argv) {
    struct top asked = {.every = 1000};
    gs_words words;
    gs_parsed parsed = gs_parse(command, argc, argv, &asked, &words);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED && words.count) {
        status = gs_usage(command, "\"%.40s\" is not an option", words.data[0]);
    } else if (parsed == GS_PARSED) {
        struct sigaction action = {.sa_handler = stop};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        status = watch(&asked);
    }
    free(words.data);
    return status;
}

const gs_command gs_command_top = {
    .name = "top",
    .summary = "Clients, kernels, SMs and rates of a daemon, live.",
    .usage = "[options]",
    .details = "Ends at Ctrl-C. Where standard output is not a terminal, prints one table and ends.\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
