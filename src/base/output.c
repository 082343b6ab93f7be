/*
 * output.c: output files, folders, and the clock.
 *
 * Results go to a temporary file beside the wanted one, which is renamed when they are complete. A signal that ends the
 * program before that removes the temporary file (interrupt.c). What is to be compressed, because writers of results
 * use stdio, and a document for standard output that must be whole go to a file without a name first.
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

/* Devices, pipes and descriptors (/dev/fd, /dev/stderr, /proc) are written directly, because renaming a file would
   replace them; so is what a link names that leads nowhere yet. */
static bool is_special(const char *path) {
    struct stat status, link;
    bool exists = stat(path, &status) == 0;
    bool is_descriptor = strncmp(path, "/dev/fd/", strlen("/dev/fd/")) == 0 ||
                         strncmp(path, "/dev/std", strlen("/dev/std")) == 0 ||
                         strncmp(path, "/proc/", strlen("/proc/")) == 0;
    return is_descriptor || (exists ? !S_ISREG(status.st_mode) : lstat(path, &link) == 0);
}

/* The mode of a file that is replaced, or of a new one. */
static mode_t mode_of(const char *path) {
    struct stat status;
    mode_t mask = umask(0);
    umask(mask);
    return stat(path, &status) == 0 ? status.st_mode & 0777 : 0666 & ~mask;
}

/* The file that a link names is replaced, not the link. */
static gs_code open_temporary(gs_output *output, const char *path, gs_error *error) {
    char target[PATH_MAX];
    path = realpath(path, target) ? target : path;
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
    fchmod(descriptor, mode_of(path));
    output->file = fdopen(descriptor, "w");
    return output->file ? GS_OK : gs_fail_system(error, "write", path);
}

static bool ends_in_gz(const char *path) {
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".gz") == 0;
}

/* What is written goes to another file first, which has no name. NULL: it could not be opened. */
static gs_code write_elsewhere(gs_output *output, FILE *first, gs_error *error) {
    if (!first) {
        gs_code code = gs_fail_system(error, "make", "a temporary file");
        gs_output_drop(output);
        return code;
    }
    output->target = output->file;
    output->file = first;
    return GS_OK;
}

/* A file without a name, in the folder of the output. NULL: it cannot be opened. */
static FILE *open_beside(const char *path) {
    size_t size = strlen(path) + 8;
    char *name = malloc(size);
    int descriptor = -1;
    if (name) {
        snprintf(name, size, "%s.XXXXXX", path);
        descriptor = mkstemp(name);
    }
    if (descriptor >= 0)
        unlink(name);
    free(name);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w+");
    if (!file)
        gs_close_fd(&descriptor);
    return file;
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

static gs_code open_output(gs_output *output, const char *path, bool is_plain, gs_error *error) {
    *output = (gs_output){0};
    if (!path || strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) {
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
    output->is_compressed = code == GS_OK && !is_plain && ends_in_gz(path);
    return output->is_compressed ? write_elsewhere(output, open_beside(path), error) : code;
}

gs_code gs_output_open(gs_output *output, const char *path, gs_error *error) {
    return open_output(output, path, false, error);
}

gs_code gs_output_open_whole(gs_output *output, const char *path, gs_error *error) {
    gs_code code = gs_output_open(output, path, error);
    if (code == GS_OK && !output->temporary)
        code = write_elsewhere(output, tmpfile(), error);
    return code;
}

/* A stream of gzip into a file, which stays open. */
static gzFile open_gzip(FILE *file) {
    int descriptor = dup(fileno(file));
    gzFile gzip = descriptor < 0 ? NULL : gzdopen(descriptor, "wb9");
    if (!gzip)
        gs_close_fd(&descriptor);
    return gzip;
}

/* Copies what was written to the file for which it is meant, which takes its place. False: it cannot be read or
   written. */
static bool deliver(gs_output *output) {
    char bytes[65536];
    FILE *from = output->file, *to = output->target;
    gzFile gzip = output->is_compressed ? open_gzip(to) : NULL;
    bool done = fflush(from) == 0 && !ferror(from) && (gzip || !output->is_compressed);
    rewind(from);
    for (size_t count; done && (count = fread(bytes, 1, sizeof bytes, from)) > 0;)
        done = gzip ? gzwrite(gzip, bytes, (unsigned)count) == (int)count : fwrite(bytes, 1, count, to) == count;
    done = done && !ferror(from);
    fclose(from);
    output->file = to;
    output->target = NULL;
    return (!gzip || gzclose(gzip) == Z_OK) && done;
}

bool gs_flush(FILE *file) {
    struct stat status;
    int before = errno; /* perhaps of the write that failed */
    if (fflush(file) != 0)
        return false;
    if (ferror(file) && write(fileno(file), "", 0) == 0) /* writing nothing may fail as well, and says why */
        errno = before ? before : fstat(fileno(file), &status) == 0 && S_ISFIFO(status.st_mode) ? EPIPE : EIO;
    return !ferror(file);
}

gs_code gs_output_keep(gs_output *output, gs_error *error) {
    const char *name = output->path ? output->path : "standard output";
    bool written = (!output->target || deliver(output)) && gs_flush(output->file);
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

gs_code gs_output_check(const char *path, gs_error *error) {
    gs_output output;
    if (!path || strcmp(path, "-") == 0 || is_special(path))
        return GS_OK;
    gs_code code = gs_output_open(&output, path, error);
    if (code == GS_OK)
        gs_output_drop(&output);
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

gs_code gs_output_for_people(const char *path, const gs_text *text, gs_error *error) {
    gs_text folded = {.failed = text->failed};
    int columns = path ? 0 : gs_columns(stdout);
    if (columns)
        gs_text_fold(&folded, text->data, text->count, columns);
    gs_code code = gs_output_text(path, columns ? &folded : text, error);
    gs_text_free(&folded);
    return code;
}

static bool write_compressed(FILE *file, const char *bytes, size_t count) {
    enum { PIECE = 1 << 20 };
    gzFile gzip = open_gzip(file);
    bool written = gzip;
    for (size_t at = 0, part; written && at < count; at += part) {
        part = gs_min_u64(count - at, PIECE);
        written = gzwrite(gzip, bytes + at, (unsigned)part) == (int)part;
    }
    return gzip && gzclose(gzip) == Z_OK && written;
}

gs_code gs_output_gzip(const char *path, const char *bytes, size_t count, gs_error *error) {
    gs_output output;
    gs_code code = open_output(&output, path, true, error);
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
