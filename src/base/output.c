/*
 * output.c: output files, folders, the clock, and progress.
 *
 * Results go to a temporary file beside the wanted one, which is renamed when they are complete. A signal that ends the
 * program before that removes the temporary file. The signal handler needs its name in a static variable.
 */
#include "base.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *volatile unfinished;

static void remove_and_die(int signal_number) {
    if (unfinished)
        unlink(unfinished);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void guard(char *temporary) {
    static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    unfinished = temporary;
    for (size_t i = 0; i < GS_COUNT(deadly); i++)
        signal(deadly[i], temporary ? remove_and_die : SIG_DFL);
}

/* Devices and pipes cannot be replaced by renaming a file: they are written directly. */
static bool is_special(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static gs_code open_temporary(gs_output *output, const char *path, gs_error *error) {
    size_t size = strlen(path) + 8;
    output->path = strdup(path);
    output->temporary = malloc(size);
    if (!output->path || !output->temporary)
        return gs_fail_memory(error);
    snprintf(output->temporary, size, "%s.XXXXXX", path);
    int descriptor = mkstemp(output->temporary);
    if (descriptor < 0)
        return gs_fail_system(error, "write", path);
    guard(output->temporary);
    mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
    output->file = fdopen(descriptor, "w");
    return output->file ? GS_OK : gs_fail_system(error, "write", path);
}

gs_code gs_output_open(gs_output *output, const char *path, gs_error *error) {
    *output = (gs_output){0};
    if (!path || strcmp(path, "-") == 0) {
        output->file = stdout;
        return GS_OK;
    }
    if (is_special(path)) {
        output->path = strdup(path);
        output->file = fopen(path, "w");
        return output->file ? GS_OK : gs_fail_system(error, "write", path);
    }
    gs_code code = open_temporary(output, path, error);
    if (code != GS_OK)
        gs_output_drop(output);
    return code;
}

gs_code gs_output_keep(gs_output *output, gs_error *error) {
    const char *name = output->path ? output->path : "standard output";
    bool written = fflush(output->file) == 0 && !ferror(output->file);
    if (written && output->path)
        written = fclose(output->file) == 0;
    else if (output->path)
        fclose(output->file);
    output->file = NULL;
    gs_code code = GS_OK;
    if (!written || (output->temporary && rename(output->temporary, output->path) != 0))
        code = gs_fail_system(error, "write", name);
    else if (output->temporary)
        output->temporary[0] = '\0';
    gs_output_drop(output);
    return code;
}

void gs_output_drop(gs_output *output) {
    if (output->file && output->path)
        fclose(output->file);
    if (output->temporary) {
        if (output->temporary[0])
            unlink(output->temporary);
        guard(NULL);
    }
    free(output->path);
    free(output->temporary);
    *output = (gs_output){0};
}

int64_t gs_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

gs_code gs_make_folders(char *path, gs_error *error) {
    for (char *slash = path; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        if (failed)
            gs_fail_system(error, "make the folder", path);
        if (slash)
            *slash = '/';
        if (failed)
            return GS_E_IO;
    }
    return GS_OK;
}

void gs_progress_start(gs_progress *progress, const char *what) {
    *progress = (gs_progress){.what = what, .started_ns = gs_now_ns(), .on = isatty(STDERR_FILENO)};
    progress->shown_ns = progress->started_ns;
}

double gs_progress_seconds(const gs_progress *progress) {
    return (double)(gs_now_ns() - progress->started_ns) / 1e9;
}

/* The first time after 0.2 seconds, then five times a second. */
static bool is_time_to_show(gs_progress *progress) {
    int64_t now = progress->on ? gs_now_ns() : 0;
    if (!progress->on || now - progress->shown_ns < 200000000)
        return false;
    progress->shown_ns = now;
    progress->shown = true;
    return true;
}

void gs_progress_say(gs_progress *progress, const char *format, ...) {
    if (!is_time_to_show(progress))
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "\r%s: ", progress->what);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\033[K");
    va_end(arguments);
}

void gs_progress_show(gs_progress *progress, int64_t done, int64_t total) {
    gs_progress_say(progress, "%.1f%%, %.2f million a second", total ? 100.0 * (double)done / (double)total : 0.0,
                    (double)done / gs_progress_seconds(progress) / 1e6);
}

void gs_progress_end(gs_progress *progress) {
    if (progress->shown)
        fprintf(stderr, "\r\033[K");
}
