/*
 * top.c: gridsmith top: the state of a daemon, live on a terminal. If standard output is not a terminal, it prints one
 * table, with the rates of one second.
 */
#include "cmd.h"
#include "status.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct options {
    const char *socket;
    int64_t every;
};

static const gs_option option_table[] = {
    GS_SOCKET_OPTION(struct options, socket),
    GS_INT(struct options, "every", every, "MS", 50, 3600000, "time between two updates (default 1000)"),
};

static volatile sig_atomic_t is_over;

static void request_stop(int number) {
    (void)number;
    is_over = 1;
}

static void wait_ms(int64_t ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* Prints the status repeatedly; on a terminal over the last one. */
static int watch_status(const struct options *options) {
    gs_error error = {.code = GS_OK};
    bool is_live = isatty(STDOUT_FILENO);
    char *text = NULL;
    json_t *before = gs_status_get(options->socket, &text, &error), *now = before;
    free(text);
    while (now && !is_over) {
        wait_ms(options->every);
        if (is_over)
            break;
        text = NULL;
        now = gs_status_get(options->socket, &text, &error);
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

static int run_top(const gs_command *command, void *given, const gs_words *words) {
    struct sigaction action = {.sa_handler = request_stop};
    (void)command;
    (void)words;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return watch_status(given);
}

const gs_command gs_command_top = {
    .name = "top",
    .summary = "Show clients, kernels, SMs and rates of a daemon, live.",
    .usage = "[options]",
    .details = "Ends at Ctrl-C. If standard output is not a terminal, prints one table and ends.\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.every = 1000},
    .run = run_top,
};
