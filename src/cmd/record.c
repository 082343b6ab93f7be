/*
 * record.c: gridsmith record: plays the runs of a file on a device and writes down what is seen.
 *
 * The answers in scenarios, for a GPU that is at hand, are made with it. It waits long wherever nothing seems to start:
 * few runs are recorded, and they must be right.
 */
#include "cmd.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *device, *output;
};

static const gs_option option_table[] = {
    GS_DEVICE_OPTION(struct options, device),
    GS_OUTPUT(struct options, output, "write to FILE instead of standard output"),
};

/* The recording keeps the number and the class of the run, and says on which GPU it was made. */
static gs_code record_one(gs_device *device, const gs_run *run, FILE *file, gs_error *error) {
    gs_play_options request = {.patient = true};
    gs_run *seen = gs_device_play(device, run, &request, error);
    if (!seen)
        return error->code;
    seen->has_id = run->has_id;
    seen->id = run->id;
    free(seen->gpu);
    free(seen->class_name);
    seen->gpu = strdup(device->gpu->name);
    seen->class_name = run->class_name ? strdup(run->class_name) : NULL;
    gs_code code = seen->gpu ? gs_run_write(seen, file, error) : gs_fail_memory(error);
    gs_run_free(seen);
    return code;
}

static gs_code record_all(gs_device *device, const char *path, FILE *file, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *run;
    gs_code code = runs ? GS_OK : error->code;
    while (code == GS_OK && (run = gs_runs_next(runs, error))) {
        code = record_one(device, run, file, error);
        gs_run_free(run);
    }
    gs_runs_close(runs);
    return code == GS_OK ? error->code : code;
}

static gs_code record(const struct options *options, const gs_words *files, gs_error *error) {
    gs_output output;
    gs_device *device = gs_device_open(options->device, error);
    if (!device)
        return error->code;
    gs_code code = gs_output_open(&output, options->output, error);
    if (code == GS_OK) {
        for (size_t i = 0; i < files->count && code == GS_OK; i++)
            code = record_all(device, files->data[i], output.file, error);
        if (code == GS_OK)
            code = gs_output_keep(&output, error);
        else
            gs_output_drop(&output);
    }
    gs_device_close(device);
    return code;
}

static int run(const gs_command *command, void *given, const gs_words *files) {
    gs_error error = {.code = GS_OK};
    (void)command;
    return record(given, files, &error) == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_record = {
    .name = "record",
    .summary = "Play the runs of files on a device and write down what is seen.",
    .usage = "--device DEVICE [-o FILE] FILE...",
    .details = "Register counts must be those of the probe kernel: 24, 32, ... 248, 255.\n\n"
               "  gridsmith record --device cuda scenarios/h200-case-*.json\n",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .words = {1, SIZE_MAX, "give files of runs, or - for standard input"},
    .run = run,
};
