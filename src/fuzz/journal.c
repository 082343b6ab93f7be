/*
 * journal.c: the file of the recordings of a campaign.
 *
 * A run is one line and is written by one call. So however the program ends, the file has complete lines, and at most
 * one incomplete line at its end. That line is removed when the campaign is resumed, but only after all complete runs
 * were read and checked: a file that was named by mistake is not changed. While it is open, the file is locked against
 * other campaigns.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct gs_journal {
    int descriptor;
    char *path;
    gs_runs *reader;    /* of the existing runs; stays open, because closing it would release the lock */
    int64_t runs, read; /* complete runs when it was opened, and how many of them were read since */
    off_t whole_bytes;  /* up to the end of the last complete line */
    bool is_torn;       /* an incomplete line follows */
    gs_text line;
};

/* ---- opening ---- */

static gs_code open_file(gs_journal *journal, bool resume, gs_error *error) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat status;
    journal->descriptor = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (resume ? 0 : O_EXCL), 0666);
    if (journal->descriptor < 0 && errno == EEXIST)
        return gs_fail(error, GS_E_USAGE, "%.200s exists already: continue it with --resume, or name another file",
                       journal->path);
    if (journal->descriptor < 0 || fstat(journal->descriptor, &status) != 0)
        return gs_fail_system(error, "write", journal->path);
    if (!S_ISREG(status.st_mode))
        return gs_fail(error, GS_E_USAGE, "%.200s is not a plain file: recordings cannot be kept in it", journal->path);
    if (fcntl(journal->descriptor, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN))
        return gs_fail(error, GS_E_USAGE, "%.200s is being written by another campaign", journal->path);
    return GS_OK;
}

/* Counts the complete lines, and copies the first bytes after them to `tail`. */
static gs_code measure(gs_journal *journal, char *tail, size_t tail_size, gs_error *error) {
    char bytes[1 << 16];
    off_t at = 0;
    ssize_t count;
    size_t kept = 0;
    while ((count = pread(journal->descriptor, bytes, sizeof bytes, at)) > 0) {
        for (ssize_t i = 0; i < count; i++) {
            if (bytes[i] == '\n') {
                journal->runs++;
                journal->whole_bytes = at + i + 1;
                kept = 0;
            } else if (kept + 1 < tail_size) {
                tail[kept++] = bytes[i];
            }
        }
        at += count;
    }
    tail[kept] = '\0';
    journal->is_torn = at > journal->whole_bytes;
    return count < 0 ? gs_fail_system(error, "read", journal->path) : GS_OK;
}

/* An incomplete line must be the beginning of the next run; anything else is not removed. */
static gs_code check_tail(const gs_journal *journal, const char *tail, gs_error *error) {
    char wanted[80];
    snprintf(wanted, sizeof wanted, "{\"schema\":\"gridsmith.run/1\",\"id\":%lld,", (long long)journal->runs);
    size_t tail_length = strlen(tail), length = strlen(wanted);
    if (strncmp(tail, wanted, gs_min_u64(tail_length, length)) == 0)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE,
                   "%.200s is not the file of a campaign: its last line is not the beginning of a run", journal->path);
}

static gs_code journal_init(gs_journal *journal, bool resume, gs_error *error) {
    char tail[80];
    gs_code code = open_file(journal, resume, error);
    if (code == GS_OK)
        code = measure(journal, tail, sizeof tail, error);
    if (code == GS_OK && journal->is_torn)
        code = check_tail(journal, tail, error);
    if (code == GS_OK && journal->runs) {
        journal->reader = gs_runs_open(journal->path, error);
        code = journal->reader ? GS_OK : GS_E_IO;
    }
    return code;
}

gs_journal *gs_journal_open(const char *path, bool resume, gs_error *error) {
    gs_journal *journal = calloc(1, sizeof *journal);
    if (!journal || !(journal->path = strdup(path))) {
        free(journal);
        gs_fail_memory(error);
        return NULL;
    }
    journal->descriptor = -1;
    if (journal_init(journal, resume, error) == GS_OK)
        return journal;
    gs_journal_close(journal);
    return NULL;
}

void gs_journal_close(gs_journal *journal) {
    if (!journal)
        return;
    gs_runs_close(journal->reader);
    if (journal->descriptor >= 0)
        close(journal->descriptor);
    gs_text_free(&journal->line);
    free(journal->path);
    free(journal);
}

/* ---- existing runs ---- */

int64_t gs_journal_runs(const gs_journal *journal) {
    return journal->runs;
}

gs_run *gs_journal_next(gs_journal *journal, gs_error *error) {
    if (error)
        error->code = GS_OK;
    if (journal->read == journal->runs)
        return NULL;
    gs_run *run = gs_runs_next(journal->reader, error);
    if (!run && error && error->code == GS_OK)
        gs_fail(error, GS_E_USAGE, "%.200s is not the file of a campaign: not every line is a run", journal->path);
    journal->read++;
    return run;
}

gs_code gs_journal_cut(gs_journal *journal, gs_error *error) {
    if (journal->is_torn && ftruncate(journal->descriptor, journal->whole_bytes) != 0)
        return gs_fail_system(error, "write", journal->path);
    journal->is_torn = false;
    return GS_OK;
}

/* ---- new runs ---- */

static bool write_all(int descriptor, const char *bytes, size_t count) {
    while (count) {
        ssize_t written = write(descriptor, bytes, count);
        if (written < 0 && errno != EINTR)
            return false;
        size_t done = (size_t)gs_max(written, 0);
        bytes += done;
        count -= done;
    }
    return true;
}

gs_code gs_journal_add(gs_journal *journal, const gs_run *run, gs_error *error) {
    gs_text *line = &journal->line;
    gs_text_clear(line);
    gs_run_text(run, line);
    gs_text_put(line, "\n", 1);
    if (line->failed)
        return gs_fail_memory(error);
    gs_code code = gs_journal_cut(journal, error);
    if (code != GS_OK)
        return code;
    if (!write_all(journal->descriptor, line->data, line->count)) {
        code = gs_fail_system(error, "write", journal->path);
        journal->is_torn = true;
        gs_journal_cut(journal, NULL);
        return code;
    }
    journal->whole_bytes += (off_t)line->count;
    return GS_OK;
}
