/*
 * output.c: output files, folders, and the clock.
 *
 * Results go to a temporary file beside the wanted one, which is renamed when they are complete. A signal that ends the
 * program before that removes the temporary file (interrupt.c). Standard output has no name: a document that must be
 * whole goes to a temporary file without a name first.
 */
#include "interrupt.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

/* Devices and pipes are written directly, because renaming a file would replace them. */
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
    gs_interrupt_removes(output->temporary);
    mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
    output->file = fdopen(descriptor, "w");
    return output->file ? GS_OK : gs_fail_system(error, "write", path);
}

/* The path without links and dots. The file need not exist, but its folder must. False: it does not. */
static bool resolve_path(const char *path, char resolved[PATH_MAX]) {
    if (realpath(path, resolved))
        return true;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    int size = snprintf(folder, sizeof folder, "%.*s/.", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (size >= PATH_MAX || !realpath(folder, resolved))
        return false;
    size_t length = strlen(resolved);
    return (size_t)snprintf(resolved + length, PATH_MAX - length, "/%s", name) < PATH_MAX - length;
}

bool gs_is_same_path(const char *one, const char *other) {
    char first[PATH_MAX], second[PATH_MAX];
    return resolve_path(one, first) && resolve_path(other, second) && strcmp(first, second) == 0;
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

gs_code gs_output_open_whole(gs_output *output, const char *path, gs_error *error) {
    gs_code code = gs_output_open(output, path, error);
    if (code != GS_OK || output->temporary)
        return code;
    FILE *whole = tmpfile();
    if (!whole) {
        code = gs_fail_system(error, "make", "a temporary file");
        gs_output_drop(output);
        return code;
    }
    output->target = output->file;
    output->file = whole;
    return GS_OK;
}

/* Copies what was written to the file for which it is meant, which takes its place. False: it cannot be read or
   written. */
static bool deliver_whole(gs_output *output) {
    char bytes[65536];
    FILE *whole = output->file;
    bool done = fflush(whole) == 0 && !ferror(whole);
    rewind(whole);
    for (size_t count; done && (count = fread(bytes, 1, sizeof bytes, whole)) > 0;)
        done = fwrite(bytes, 1, count, output->target) == count;
    done = done && !ferror(whole);
    fclose(whole);
    output->file = output->target;
    output->target = NULL;
    return done;
}

gs_code gs_output_keep(gs_output *output, gs_error *error) {
    const char *name = output->path ? output->path : "standard output";
    bool written = (!output->target || deliver_whole(output)) && fflush(output->file) == 0 && !ferror(output->file);
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
    if (output->target) {
        fclose(output->file);
        output->file = output->target;
    }
    if (output->file && output->path)
        fclose(output->file);
    if (output->temporary) {
        if (output->temporary[0])
            unlink(output->temporary);
        gs_interrupt_removes(NULL);
    }
    free(output->path);
    free(output->temporary);
    *output = (gs_output){0};
}

gs_code gs_output_end(gs_output *output, gs_code code, gs_error *error) {
    if (code == GS_OK)
        return gs_output_keep(output, error);
    gs_output_drop(output);
    return code;
}

gs_code gs_output_text(const char *path, const gs_text *text, gs_error *error) {
    gs_output output;
    gs_code code = text->failed ? gs_fail_memory(error) : gs_output_open(&output, path, error);
    if (code != GS_OK)
        return code;
    if (text->count)
        fwrite(text->data, 1, text->count, output.file);
    return gs_output_keep(&output, error);
}

static bool write_compressed(FILE *file, const char *bytes, size_t count) {
    enum { PIECE = 1 << 20 };
    int descriptor = dup(fileno(file));
    gzFile gzip = descriptor < 0 ? NULL : gzdopen(descriptor, "wb9");
    if (!gzip && descriptor >= 0)
        close(descriptor);
    bool written = gzip;
    for (size_t at = 0, part; written && at < count; at += part) {
        part = gs_min_u64(count - at, PIECE);
        written = gzwrite(gzip, bytes + at, (unsigned)part) == (int)part;
    }
    return gzip && gzclose(gzip) == Z_OK && written;
}

gs_code gs_output_gzip(const char *path, const char *bytes, size_t count, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, path, error);
    if (code != GS_OK)
        return code;
    errno = 0;
    if (write_compressed(output.file, bytes, count))
        return gs_output_keep(&output, error);
    code = errno ? gs_fail_system(error, "write", path) : gs_fail_memory(error);
    gs_output_drop(&output);
    return code;
}

void gs_close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t gs_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

int64_t gs_thread_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
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
