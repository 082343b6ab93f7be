/*
 * record.c: gridsmith record: plays the runs of a file on a device and records where their blocks go.
 *
 * The answers in scenarios are made with it on a real GPU. It waits long whenever nothing seems to start, because the
 * recordings must be right.
 *
 * With --resume or --shard, the runs of all files are kept as the file of a campaign, renumbered from 0. So the files
 * are read twice, first to count the runs.
 */
#include "cmd.h"
#include "lab/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

struct options {
    gs_shard_choice keep;
    const char *device;
};

static const gs_option option_table[] = {
    GS_DEVICE_OPTION(struct options, device),
    GS_SHARD_OPTIONS(struct options, keep,
                     "write to FILE instead of standard output; with --resume as a campaign, numbered from 0"),
};

/* ---- to a file or standard output ---- */

/* Plays a run. The recording keeps its number and class, and names its GPU. The caller frees it. */
static gs_run *play_run(gs_device *device, const gs_run *run, gs_error *error) {
    gs_play_options request = {.patient = true};
    gs_run *seen = gs_device_play(device, run, &request, error);
    if (!seen)
        return NULL;
    seen->has_id = run->has_id;
    seen->id = run->id;
    free(seen->gpu);
    free(seen->class_name);
    seen->gpu = strdup(device->gpu->name);
    seen->class_name = run->class_name ? strdup(run->class_name) : NULL;
    if (seen->gpu)
        return seen;
    gs_fail_memory(error);
    gs_run_free(seen);
    return NULL;
}

static gs_code record_one(gs_device *device, const gs_run *run, FILE *file, gs_error *error) {
    gs_run *seen = play_run(device, run, error);
    gs_code code = seen ? gs_run_write(seen, file, error) : error->code;
    gs_run_free(seen);
    return code;
}

static gs_code record_all(gs_device *device, const char *path, FILE *file, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *run;
    gs_code code = runs ? GS_OK : error->code;
    size_t count = 0;
    for (; code == GS_OK && (run = gs_runs_next(runs, error)); count++) {
        code = record_one(device, run, file, error);
        gs_run_free(run);
    }
    gs_runs_close(runs);
    if (code == GS_OK && error->code == GS_OK && !count)
        gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(path));
    return code == GS_OK ? error->code : code;
}

static gs_code record_files(const struct options *options, const gs_words *files, gs_error *error) {
    gs_output output;
    gs_device *device = gs_device_open(options->device, error);
    if (!device)
        return error->code;
    gs_code code = gs_output_open(&output, options->keep.out, error);
    if (code == GS_OK) {
        for (size_t i = 0; i < files->count && code == GS_OK; i++)
            code = record_all(device, files->data[i], output.file, error);
        code = gs_output_end(&output, code, error);
    }
    gs_device_close(device);
    return code;
}

/* ---- as a campaign ---- */

/* The runs of several files, in order. */
struct list {
    const gs_words *files;
    size_t next; /* file to open */
    gs_runs *runs;
};

/* The next run, which the caller frees; NULL with GS_OK in `error` after the last. */
static gs_run *next_run(struct list *list, gs_error *error) {
    gs_run *run = NULL;
    error->code = GS_OK;
    while (!run && error->code == GS_OK) {
        if (!list->runs && list->next == list->files->count)
            return NULL;
        if (!list->runs && !(list->runs = gs_runs_open(list->files->data[list->next++], error)))
            return NULL;
        run = gs_runs_next(list->runs, error);
        if (!run) {
            gs_runs_close(list->runs);
            list->runs = NULL;
        }
    }
    return run;
}

/* Counts the runs, and computes their digest. */
static gs_code count_runs(const gs_words *files, int64_t *count, char hex[65], gs_error *error) {
    struct list list = {.files = files};
    unsigned char digest[32];
    gs_digest hash;
    gs_text text = {0};
    gs_run *run;
    gs_digest_begin(&hash);
    for (*count = 0; (run = next_run(&list, error)); ++*count) {
        gs_text_clear(&text);
        gs_run_text(run, &text);
        gs_digest_add(&hash, text.data ? text.data : "", text.count);
        gs_run_free(run);
    }
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, hex);
    if (error->code == GS_OK && text.failed)
        gs_fail_memory(error);
    gs_text_free(&text);
    if (error->code == GS_OK && !*count)
        gs_fail(error, GS_E_FORMAT, "the files have no runs");
    return error->code;
}

/* Plays the runs of the shard that its file lacks. */
static gs_code record_list(gs_device *device, const gs_words *files, const gs_campaign_about *about,
                           gs_journal *journal, gs_error *error) {
    struct list list = {.files = files};
    int64_t first = gs_shard_begin(&about->shard, about->count),
            end = first + gs_shard_count(&about->shard, about->count);
    gs_code code = GS_OK;
    first += gs_journal_runs(journal);
    for (int64_t i = 0; i < end && code == GS_OK; i++) {
        gs_run *run = next_run(&list, error), *seen = NULL;
        if (!run)
            code = error->code != GS_OK ? error->code : gs_fail(error, GS_E_IO, "the files were changed meanwhile");
        if (run && i >= first) {
            run->has_id = true;
            run->id = i;
            seen = play_run(device, run, error);
            code = seen ? gs_journal_add(journal, seen, error) : error->code;
        }
        gs_run_free(run);
        gs_run_free(seen);
    }
    gs_runs_close(list.runs);
    return code == GS_OK ? gs_journal_end(journal, error) : code;
}

static int record_campaign(const gs_command *command, const struct options *options, const gs_shard *shard,
                           const gs_words *files) {
    gs_error error = {.code = GS_OK};
    gs_text line = {0};
    gs_writer writer = gs_writer_to(&line);
    char hex[65];
    gs_campaign_about about = {.command = "record", .device = options->device, .shard = *shard};
    gs_device *device =
        count_runs(files, &about.count, hex, &error) == GS_OK ? gs_device_open(options->device, &error) : NULL;
    gs_journal *journal = NULL;
    if (device) {
        about.gpu = device->gpu;
        about.uuid = device->uuid;
        about.driver = device->driver;
        gs_campaign_line_begin(&writer, &about);
        gs_write_string(&writer, "runs", hex);
        gs_campaign_line_end(&writer, &about);
        journal = gs_open_shard(&options->keep, &about, "record", &line, NULL, &error);
    }
    int64_t there = journal ? gs_journal_runs(journal) : 0;
    gs_code code = journal ? record_list(device, files, &about, journal, &error) : error.code;
    if (code == GS_OK)
        gs_say_shard(command, &about, there);
    gs_journal_close(journal);
    gs_device_close(device);
    gs_text_free(&line);
    return code == GS_OK ? 0 : gs_report(&error);
}

static int check_campaign(const gs_command *command, const struct options *options, const gs_words *files,
                          gs_shard *shard) {
    int status = gs_check_shard(command, &options->keep, shard);
    for (size_t i = 0; i < files->count && !status; i++)
        if (strcmp(files->data[i], "-") == 0)
            status = gs_usage(command, "a campaign needs files that can be read twice, not standard input");
    return status;
}

static int run_record(const gs_command *command, void *given, const gs_words *files) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    gs_shard shard;
    if (!options->keep.resume && !options->keep.shard)
        return record_files(options, files, &error) == GS_OK ? 0 : gs_report(&error);
    int status = check_campaign(command, options, files, &shard);
    return status ? status : record_campaign(command, options, &shard, files);
}

const gs_command gs_command_record = {
    .name = "record",
    .summary = "Play the runs of files on a device and record where their blocks go.",
    .usage = "--device DEVICE [-o FILE] FILE...",
    .details = "Register counts must be those of the probe kernels: 24, 32, ... 248, 255.\n\n"
               "  gridsmith record --device cuda scenarios/h200-case-*.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {1, SIZE_MAX, "give files of runs, or - for standard input"},
    .run = run_record,
};
