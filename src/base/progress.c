/*
 * progress.c: a line on standard error that shows the progress of long work, if standard error is a terminal.
 *
 * The progress is recorded even without a terminal, because an interrupted program reports it (interrupt.c).
 */
#include "interrupt.h"

#include <stdarg.h>
#include <unistd.h>

void gs_progress_start(gs_progress *progress, const char *what) {
    *progress = (gs_progress){.what = what, .started_ns = gs_now_ns(), .on = isatty(STDERR_FILENO)};
    progress->shown_ns = progress->started_ns;
    gs_interrupt_says(what);
}

double gs_progress_seconds(const gs_progress *progress) {
    return (double)(gs_now_ns() - progress->started_ns) / 1e9;
}

/* The first time after 0.2 seconds, then five times a second. */
static bool is_time_to_show(gs_progress *progress) {
    int64_t now = gs_now_ns();
    if (now - progress->shown_ns < 200000000)
        return false;
    progress->shown_ns = now;
    progress->shown = progress->on;
    return true;
}

static void show_progress(const gs_progress *progress, const char *format, va_list arguments) {
    fprintf(stderr, "\r%s: ", progress->what);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\033[K");
}

void gs_progress_say(gs_progress *progress, const char *format, ...) {
    if (!progress || !is_time_to_show(progress))
        return;
    va_list arguments;
    va_start(arguments, format);
    gs_interrupt_note(progress->on, format, arguments);
    va_end(arguments);
    if (!progress->on)
        return;
    va_start(arguments, format);
    show_progress(progress, format, arguments);
    va_end(arguments);
}

void gs_progress_show(gs_progress *progress, int64_t done, int64_t total) {
    gs_progress_say(progress, "%.1f%%, %.2f million a second", total ? 100.0 * (double)done / (double)total : 0.0,
                    (double)done / gs_progress_seconds(progress) / 1e6);
}

void gs_progress_end(gs_progress *progress) {
    gs_interrupt_says(NULL);
    if (progress->shown)
        fprintf(stderr, "\r\033[K");
}
