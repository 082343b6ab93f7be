/*
 * shard_files.c: the progress of a campaign's shards, read from their files.
 *
 * The first line of a file has the number of the shard and of its runs. The last complete run has a number, so the runs
 * need not be counted: only the two ends of a file are read, however long it is. If a file is locked, a process of this
 * machine is playing it.
 */
#define _GNU_SOURCE
#include "campaign.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 1 << 16, STEP = 1 << 16 };

/* ---- one file ---- */

/* The begin of the complete line before `end`, which is the position after its newline. */
static off_t line_before(int file, off_t end) {
    char bytes[STEP];
    off_t at = end - 1;
    while (at > 0) {
        off_t from = at > STEP ? at - STEP : 0;
        ssize_t count = pread(file, bytes, (size_t)(at - from), from);
        if (count != at - from)
            return 0;
        const char *newline = memrchr(bytes, '\n', (size_t)count);
        if (newline)
            return from + (newline - bytes) + 1;
        at = from;
    }
    return 0;
}

/* The number of a run from the beginning of its line, or -1. */
static int64_t run_number(const char *line, const char *begin) {
    size_t length = strlen(begin);
    return strncmp(line, begin, length) == 0 ? strtoll(line + length, NULL, 10) : -1;
}

/* The number of complete runs of a file, from the number of the last one. */
static int64_t count_runs(int file, off_t bytes, const char *begin, int64_t first) {
    char head[120];
    off_t end = line_before(file, bytes + 1); /* after the last newline */
    while (end > 0) {
        off_t at = line_before(file, end);
        ssize_t count = pread(file, head, sizeof head - 1, at);
        head[gs_max(count, 0)] = '\0';
        int64_t number = run_number(head, begin);
        if (number >= first)
            return number - first + 1;
        end = at;
    }
    return 0;
}

static bool is_locked(int file) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Whether the file is a shard of this campaign. */
static bool read_file(int file, int64_t shards, gs_shard *shard, gs_shard_progress *progress) {
    char *head = malloc(HEAD);
    struct stat status;
    ssize_t count = head && fstat(file, &status) == 0 && S_ISREG(status.st_mode) ? pread(file, head, HEAD, 0) : 0;
    const char *newline = count > 0 ? memchr(head, '\n', (size_t)count) : NULL;
    gs_campaign_read read;
    bool is_shard =
        newline && gs_campaign_line_read(head, (size_t)(newline - head) + 1, &read) && read.shard.of == shards;
    if (is_shard) {
        int64_t first = gs_shard_begin(&read.shard, read.count);
        *shard = read.shard;
        progress->wanted = gs_shard_count(&read.shard, read.count);
        progress->runs = gs_min(count_runs(file, status.st_size, read.begin, first), progress->wanted);
        progress->is_begun = true;
        progress->is_complete = progress->runs == progress->wanted;
        progress->is_played = is_locked(file);
    }
    free(head);
    return is_shard;
}

/* ---- a folder of them ---- */

/* The number in a name such as "fuzz-seed1-shard03of64.jsonl", or 0. */
static int64_t number_in(const char *name) {
    const char *at = strstr(name, "-shard"), *end = strrchr(name, '.');
    return at && end && strcmp(end, ".jsonl") == 0 ? strtoll(at + strlen("-shard"), NULL, 10) : 0;
}

/* Reads the files of all shards, or those of shard `only`. */
static gs_code read_folder(const gs_submission *submission, int64_t only, gs_shard_progress *progress,
                           gs_error *error) {
    gs_text path = {0};
    gs_text_add(&path, "%s/shards", submission->path);
    DIR *folder = path.failed ? NULL : opendir(path.data);
    gs_code code = path.failed ? gs_fail_memory(error) : folder ? GS_OK : gs_fail_system(error, "read", path.data);
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        int64_t named = number_in(entry->d_name);
        if (named < 1 || named > submission->shards || (only && named != only))
            continue;
        gs_shard shard;
        gs_shard_progress found = {0};
        int file = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file >= 0 && read_file(file, submission->shards, &shard, &found) && shard.number == named)
            progress[only ? 0 : named - 1] = found;
        if (file >= 0)
            close(file);
    }
    if (folder)
        closedir(folder);
    gs_text_free(&path);
    return code;
}

gs_code gs_progress_of(const gs_submission *submission, gs_shard_progress *progress, gs_error *error) {
    memset(progress, 0, (size_t)submission->shards * sizeof *progress);
    return read_folder(submission, 0, progress, error);
}

gs_code gs_progress_of_shard(const gs_submission *submission, int64_t number, gs_shard_progress *progress,
                             gs_error *error) {
    *progress = (gs_shard_progress){0};
    return read_folder(submission, number, progress, error);
}

/* ---- the output of a shard ---- */

void gs_last_words(const gs_submission *submission, int64_t number, char *line, size_t size) {
    gs_text path = {0};
    struct stat status;
    line[0] = '\0';
    gs_text_add(&path, "%s/logs/shard%lld.log", submission->path, (long long)number);
    int file = path.failed ? -1 : open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        ssize_t count = pread(file, line, size - 1, line_before(file, status.st_size));
        line[gs_max(count, 0)] = '\0';
        line[strcspn(line, "\n")] = '\0';
        gs_make_printable(line);
    }
    if (file >= 0)
        close(file);
    gs_text_free(&path);
}
