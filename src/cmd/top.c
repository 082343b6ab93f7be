/*
 * top.c: gridsmith top: the state of a daemon, live on a terminal. If standard output is not a terminal, it prints one
 * table, with the rates of one second.
 *
 * The live table is on the terminal's other screen, so that what was there before comes back. `q` ends it, as Ctrl-C
 * does: while it runs, keys arrive one by one and are not shown.
 */
#include "cmd.h"
#include "status.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
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

/* ---- the terminal ---- */

struct screen {
    bool is_live;  /* standard output is a terminal */
    bool has_keys; /* so is standard input */
    struct termios before;
};

static void open_screen(struct screen *screen) {
    screen->is_live = isatty(STDOUT_FILENO);
    screen->has_keys = screen->is_live && tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->has_keys) {
        struct termios keys = screen->before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    if (screen->is_live)
        printf("\033[?1049h\033[?25l");
}

static void close_screen(const struct screen *screen) {
    if (screen->is_live)
        printf("\033[?25h\033[?1049l");
    fflush(stdout);
    if (screen->has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* Waits for the next update, a key or a signal. */
static void wait_ms(const struct screen *screen, int64_t ms) {
    int64_t until = gs_now_ns() + ms * 1000000;
    struct pollfd keys = {.fd = screen->has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    for (int64_t left; !is_over && (left = until - gs_now_ns()) > 0;) {
        char key;
        if (poll(&keys, 1, (int)gs_divide_up(left, 1000000)) <= 0 || !keys.revents)
            continue;
        if (read(STDIN_FILENO, &key, 1) != 1)
            keys.fd = -1;
        else if (key == 'q' || key == 'Q')
            is_over = 1;
    }
}

/* Shows the table in the place of the last one: as many lines as the screen has. */
static void show_table(const struct screen *screen, gs_text *table) {
    struct winsize size = {.ws_row = 0};
    gs_text folded = {0};
    if (table->columns)
        gs_text_fold(&folded, table->data, table->count, table->columns);
    else
        gs_text_put(&folded, table->data, table->count);
    bool is_limited = screen->is_live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    size_t shown = 0;
    for (int rows = 1; shown < folded.count && !(is_limited && rows >= size.ws_row); rows++)
        shown += strcspn(folded.data + shown, "\n") + 1;
    printf("%s%.*s", screen->is_live ? "\033[H\033[2J" : "", (int)gs_min_u64(shown, folded.count),
           folded.count ? folded.data : "");
    fflush(stdout);
    gs_text_free(&folded);
}

/* ---- the status ---- */

static json_t *get_status(const struct options *options, gs_error *error) {
    char *text = NULL;
    json_t *status = gs_status_get(options->socket, &text, error);
    free(text);
    return status;
}

static int watch_status(const struct options *options) {
    gs_error error = {.code = GS_OK};
    struct screen screen;
    json_t *before = get_status(options, &error), *now = before;
    if (!before)
        return gs_report(&error);
    open_screen(&screen);
    while (now && !is_over) {
        wait_ms(&screen, options->every);
        if (is_over || !(now = get_status(options, &error)))
            break;
        gs_text table = gs_text_for_people(stdout);
        gs_put_status(&table, now, before);
        show_table(&screen, &table);
        gs_text_free(&table);
        json_decref(before);
        before = now;
        is_over |= !screen.is_live;
    }
    close_screen(&screen);
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
    .details = "Ends at q or Ctrl-C. If standard output is not a terminal, prints one table and ends.\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.every = 1000},
    .run = run_top,
};
