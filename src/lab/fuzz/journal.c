/*
 * journal.c: the file of a campaign.
 *
 * A run is one line, written by one call. So however the program ends, the file has complete lines, and at most one
 * incomplete line at its end. That line is removed when the campaign is resumed, but only after all complete runs were
 * read and checked: a file named by mistake is not changed. While it is open, the file is locked against other
 * campaigns.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHOLE ",\"shard\":[1,1]," /* in a campaign header: not a shard */

enum { HEAD = 4096 }; /* bytes of a line that are checked */

struct gs_journal {
    int descriptor;
    char *path, *campaign; /* its name; the campaign header */
    const char *begin;     /* of the line of a run, up to its number */
    int64_t first;         /* the number of its first run */
    int64_t wrong;         /* the first complete line that is not the next run; 0: none */
    char last[HEAD];       /* the last campaign header in the file, or "" */
    bool is_announced;     /* the last header in the file is of this campaign and this GPU */
    gs_runs *reader;       /* of the existing runs; stays open, because closing it would release the lock */
    int64_t runs, read;    /* complete runs when it was opened, and how many of them were read since */
    off_t whole_bytes;     /* up to the end of the last complete line */
    bool is_torn;          /* an incomplete line follows */
    gs_text line;
};

/* ---- opening ---- */

static gs_code open_file(gs_journal *journal, bool resume, gs_error *error) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat status;
    journal->descriptor = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (resume ? 0 : O_EXCL), 0666);
    if (journal->descriptor < 0 && (errno == EEXIST || errno == EISDIR) && stat(journal->path, &status) == 0 &&
        S_ISDIR(status.st_mode))
        return gs_fail(error, GS_E_USAGE, "%.200s is a folder: name a file, or play one shard into it with --shard I/N",
                       journal->path);
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

/* Checks complete line `number`, whose first bytes are in `head`. */
static void count_line(gs_journal *journal, int64_t number, const char *head, size_t length, off_t end) {
    if (gs_is_campaign_line(head, length))
        snprintf(journal->last, sizeof journal->last, "%.*s\n", (int)length, head);
    else if (!journal->wrong && !gs_is_campaign_run(journal->begin, journal->first + journal->runs, head, length))
        journal->wrong = number;
    journal->runs += !gs_is_campaign_line(head, length);
    journal->whole_bytes = end;
}

/* Counts the complete lines, and copies the first bytes after them to `head`. */
static gs_code measure_journal(gs_journal *journal, char *head, gs_error *error) {
    char bytes[1 << 16];
    off_t at = 0;
    ssize_t count;
    size_t kept = 0;
    int64_t lines = 0;
    while ((count = pread(journal->descriptor, bytes, sizeof bytes, at)) > 0) {
        for (ssize_t i = 0; i < count; i++) {
            if (bytes[i] == '\n') {
                count_line(journal, ++lines, head, kept, at + i + 1);
                kept = 0;
            } else if (kept + 2 < HEAD) {
                head[kept++] = bytes[i];
            }
        }
        at += count;
    }
    head[kept] = '\0';
    journal->is_torn = at > journal->whole_bytes;
    return count < 0 ? gs_fail_system(error, "read", journal->path) : GS_OK;
}

/* An incomplete line must be the beginning of the next run, or of this campaign's header; anything else is not
   removed. */
static gs_code check_tail(const gs_journal *journal, const char *tail, gs_error *error) {
    char wanted[120];
    snprintf(wanted, sizeof wanted, "%s%lld,", journal->begin, (long long)(journal->first + journal->runs));
    size_t length = strlen(tail);
    if (strncmp(tail, wanted, gs_min_u64(length, strlen(wanted))) == 0 ||
        strncmp(tail, journal->campaign, gs_min_u64(length, strlen("{\"schema\":\"" GS_CAMPAIGN_SCHEMA "\""))) == 0)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE,
                   "%.200s is not the file of a campaign: its last line is not the beginning of a run", journal->path);
}

/* Names the first setting that differs. */
static gs_code fail_settings(const gs_journal *journal, gs_error *error) {
    gs_campaign_difference difference;
    gs_campaign_line_differ(journal->last, journal->campaign, &difference);
    return gs_fail(error, GS_E_USAGE, "%.120s was made with other settings: \"%s\" is %.60s in the file, but %.60s now",
                   journal->path, difference.key, difference.one, difference.two);
}

/* A resumed file must be of this campaign. A whole campaign may get more runs. A change of that, or of the GPU, is
   written as a header before the next run. */
static gs_code check_campaign(gs_journal *journal, gs_error *error) {
    if (!journal->whole_bytes)
        return GS_OK;
    if (!journal->last[0])
        return gs_fail(error, GS_E_USAGE, "%.200s has no campaign header, so it cannot be continued", journal->path);
    bool is_whole = strstr(journal->last, WHOLE) && strstr(journal->campaign, WHOLE);
    if (!gs_campaign_line_same(journal->last, journal->campaign, is_whole ? "count" : "gpus"))
        return fail_settings(journal, error);
    if (journal->wrong)
        return gs_fail(error, GS_E_USAGE, "%.200s: line %lld is not the next run of this campaign", journal->path,
                       (long long)journal->wrong);
    journal->is_announced = strcmp(journal->last, journal->campaign) == 0;
    return GS_OK;
}

static gs_code journal_init(gs_journal *journal, bool resume, gs_error *error) {
    char head[HEAD];
    gs_code code = open_file(journal, resume, error);
    if (code == GS_OK)
        code = measure_journal(journal, head, error);
    if (code == GS_OK)
        code = check_campaign(journal, error);
    if (code == GS_OK && journal->is_torn)
        code = check_tail(journal, head, error);
    if (code == GS_OK && journal->runs) {
        journal->reader = gs_runs_open(journal->path, error);
        code = journal->reader ? GS_OK : GS_E_IO;
    }
    return code;
}

gs_journal *gs_journal_open(const gs_journal_options *options, gs_error *error) {
    gs_journal *journal = calloc(1, sizeof *journal);
    bool has_memory = journal && (journal->path = strdup(options->path)) && (journal->campaign = strdup(options->line));
    if (!has_memory)
        gs_fail_memory(error);
    if (journal) {
        journal->descriptor = -1;
        journal->first = options->first;
        journal->begin = gs_campaign_run_begin(options->command);
    }
    gs_code code = has_memory ? journal_init(journal, options->resume, error) : GS_E_MEMORY;
    if (code == GS_OK && journal->runs > options->most)
        code = gs_fail(error, GS_E_USAGE, "the file already has %lld runs, more than the %lld of this campaign",
                       (long long)journal->runs, (long long)options->most);
    if (code == GS_OK)
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
    free(journal->campaign);
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

static gs_code cut_torn_line(gs_journal *journal, gs_error *error) {
    if (journal->is_torn && ftruncate(journal->descriptor, journal->whole_bytes) != 0)
        return gs_fail_system(error, "write", journal->path);
    journal->is_torn = false;
    return GS_OK;
}

/* Appends bytes. If it fails, the file is unchanged. */
static gs_code append_bytes(gs_journal *journal, const char *bytes, size_t count, gs_error *error) {
    if (write_all(journal->descriptor, bytes, count)) {
        journal->whole_bytes += (off_t)count;
        return GS_OK;
    }
    gs_code code = gs_fail_system(error, "write", journal->path);
    journal->is_torn = true;
    cut_torn_line(journal, NULL);
    return code;
}

/* Writes the campaign header if the file does not have it. */
static gs_code write_campaign_line(gs_journal *journal, gs_error *error) {
    gs_code code = cut_torn_line(journal, error);
    if (code == GS_OK && !journal->is_announced)
        code = append_bytes(journal, journal->campaign, strlen(journal->campaign), error);
    journal->is_announced |= code == GS_OK;
    return code;
}

gs_code gs_journal_add_line(gs_journal *journal, const gs_text *line, gs_error *error) {
    if (line->failed)
        return gs_fail_memory(error);
    gs_code code = write_campaign_line(journal, error);
    return code == GS_OK ? append_bytes(journal, line->data, line->count, error) : code;
}

gs_code gs_journal_add(gs_journal *journal, const gs_run *run, gs_error *error) {
    gs_text_clear(&journal->line);
    gs_run_text(run, &journal->line);
    gs_text_put(&journal->line, "\n", 1);
    return gs_journal_add_line(journal, &journal->line, error);
}

gs_code gs_journal_end(gs_journal *journal, gs_error *error) {
    return journal->whole_bytes ? cut_torn_line(journal, error) : write_campaign_line(journal, error);
}
