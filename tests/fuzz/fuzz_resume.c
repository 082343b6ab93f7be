/*
 * fuzz_resume.c: any bytes as the file of a campaign that is continued (--resume). The campaign is that of the first
 * line. Complete lines are kept as they are, whatever follows them, and one more run can be added.
 */
#include "lab/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const char *bytes, size_t size);

static void require(bool holds) {
    if (!holds)
        abort();
}

static void write_bytes(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "w");
    require(file && fwrite(bytes, 1, size, file) == size);
    fclose(file);
}

/* Everything up to the last newline is still there. */
static void check_kept(const char *path, const char *bytes, size_t size) {
    char *now = NULL;
    size_t count = 0, whole = size;
    while (whole && bytes[whole - 1] != '\n')
        whole--;
    FILE *file = fopen(path, "r");
    require(file != NULL);
    now = malloc(whole + 1);
    count = now ? fread(now, 1, whole, file) : 0;
    require(now && count == whole && memcmp(now, bytes, whole) == 0);
    fclose(file);
    free(now);
}

static void continue_campaign(const char *path, const char *line) {
    gs_error error = {.code = GS_OK};
    gs_journal_options options = {.path = path, .command = "fuzz", .line = line, .most = 1 << 20, .resume = true};
    gs_journal *journal = gs_journal_open(&options, &error);
    if (!journal) {
        require(error.code != GS_OK && error.message[0]);
        return;
    }
    int64_t count = 0;
    for (gs_run *run; (run = gs_journal_next(journal, &error)); gs_run_free(run))
        count++;
    if (error.code == GS_OK) {
        require(count == gs_journal_runs(journal));
        require(gs_journal_end(journal, &error) == GS_OK);
    }
    gs_journal_close(journal);
}

int LLVMFuzzerTestOneInput(const char *bytes, size_t size) {
    char path[60], line[2000];
    const char *end = memchr(bytes, '\n', size);
    snprintf(path, sizeof path, "/tmp/gridsmith-fuzz-resume-%d", (int)getpid());
    snprintf(line, sizeof line, "%.*s\n", end ? (int)gs_min_u64((uint64_t)(end - bytes), sizeof line - 2) : 0, bytes);
    write_bytes(path, bytes, size);
    continue_campaign(path, line);
    check_kept(path, bytes, size);
    unlink(path);
    return 0;
}
