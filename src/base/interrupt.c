/*
 * interrupt.c: cleans up when a signal ends the program.
 *
 * Long work can be interrupted at any time with Ctrl-C. The handler removes the incomplete output file and the
 * temporary folders, reports the progress, and lets the signal end the program, so that a shell sees exit code 130. It
 * may run between any two instructions, so its data is in static variables that are valid at all times. There are two
 * texts of progress: one is written while the other is valid.
 */
#include "interrupt.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_FOLDERS = 16 };

static struct {
    char *volatile file;         /* the incomplete output file, or NULL */
    const char *volatile what;   /* what the program does, or NULL */
    volatile sig_atomic_t valid; /* the number of the valid text */
    volatile sig_atomic_t is_line_begun;
    char texts[2][160];
    _Atomic(const char *) folders[MOST_FOLDERS]; /* or NULL; for all threads */
    atomic_int folder_count;
    void (*_Atomic remove_folder)(const char *);
    _Atomic(pid_t) owner; /* the process that made the folders, or 0 */
} state;

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

static void put_error(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* standard error is closed */
}

static void say_how_far(void) {
    const char *text = state.texts[state.valid];
    put_error(state.is_line_begun ? "\r\033[K" : "");
    put_error("gridsmith: interrupted while ");
    put_error(state.what);
    put_error(text[0] ? ": " : "");
    put_error(text);
    put_error("\n");
}

static void end_by_signal(int signal_number) {
    if (state.file)
        unlink(state.file);
    for (int i = 0; i < MOST_FOLDERS && state.owner == getpid(); i++)
        if (state.folders[i])
            state.remove_folder(state.folders[i]);
    if (state.what && (signal_number == SIGINT || signal_number == SIGTERM))
        say_how_far();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Signals that the program ignores, or handles itself, are left alone. */
static void set_handlers(void) {
    bool is_needed = state.file || state.what || state.folder_count;
    for (size_t i = 0; i < GS_COUNT(deadly); i++) {
        struct sigaction action;
        if (sigaction(deadly[i], NULL, &action) == 0 && action.sa_handler == (is_needed ? SIG_DFL : end_by_signal))
            signal(deadly[i], is_needed ? end_by_signal : SIG_DFL);
    }
}

void gs_interrupt_removes(char *path) {
    state.file = path;
    set_handlers();
}

/* Puts `to` in the place of a `from`. */
static bool replace_folder(const char *from, const char *to) {
    for (int i = 0; i < MOST_FOLDERS; i++) {
        const char *expected = from;
        if (atomic_compare_exchange_strong(&state.folders[i], &expected, to))
            return true;
    }
    return false;
}

/* The folders that a child of fork() inherits are not its own. */
static void forget_inherited_folders(void) {
    pid_t process = getpid(), owner = atomic_exchange(&state.owner, process);
    if (!owner || owner == process)
        return;
    for (int i = 0; i < MOST_FOLDERS; i++)
        state.folders[i] = NULL;
    state.folder_count = 0;
}

void gs_interrupt_add_folder(const char *path, void (*remove_folder)(const char *)) {
    forget_inherited_folders();
    state.remove_folder = remove_folder;
    if (!replace_folder(NULL, path))
        return;
    state.folder_count++;
    set_handlers();
}

void gs_interrupt_drop_folder(const char *path) {
    if (!replace_folder(path, NULL))
        return;
    state.folder_count--;
    set_handlers();
}

void gs_interrupt_says(const char *what) {
    state.is_line_begun = 0;
    state.texts[!state.valid][0] = '\0';
    state.valid = !state.valid;
    state.what = what;
    set_handlers();
}

void gs_interrupt_note(bool is_line_begun, const char *format, va_list arguments) {
    vsnprintf(state.texts[!state.valid], sizeof state.texts[0], format, arguments);
    state.valid = !state.valid;
    state.is_line_begun = is_line_begun;
}
