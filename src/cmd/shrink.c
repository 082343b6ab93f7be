/*
 * shrink.c: gridsmith shrink: the smallest run on which a device and the model still differ.
 *
 * The search is in src/lab/fuzz and does not print. To show progress, this command gives it a device that counts the
 * runs, shows the count, and passes each run on to the real device.
 */
#include "cmd.h"
#include "lab/fuzz/fuzz.h"
#include "model/view/view.h"

#include <stdlib.h>
#include <string.h>

struct options {
    gs_gpu_choice gpu;
    const char *device, *output;
    int64_t only; /* 0: the first that differs */
    int64_t plays;
    bool json;
};

static const gs_option option_table[] = {
    GS_DEVICE_OPTION(struct options, device),
    GS_GPU_OPTIONS(struct options, gpu),
    GS_INT(struct options, "run", only, "N", 1, INT64_MAX,
           "the Nth run of the file, from 1 (default: the first that differs)"),
    GS_INT(struct options, "plays", plays, "N", 2, INT64_MAX, "play at most N runs on the device (default 2000)"),
    GS_OUTPUT(struct options, output, "write the small run to FILE twice: as seen, and as predicted"),
    GS_FLAG(struct options, "json", json, "write gridsmith.shrink/1 instead of tables"),
};

/* ---- a device that shows progress ---- */

struct watch {
    gs_device *device;
    gs_progress progress;
    int64_t plays, most;
};

static gs_run *play_watched(gs_device *device, const gs_run *plan, const gs_play_options *request, gs_error *error) {
    struct watch *watch = device->inside;
    gs_progress_show(&watch->progress, ++watch->plays, watch->most);
    return gs_device_play(watch->device, plan, request, error);
}

static gs_code shrink_watched(gs_device *device, const gs_gpu *model, const gs_run *run, int64_t plays,
                              gs_shrunk *shrunk, gs_error *error) {
    static const gs_device_ops ops = {.name = "watched", .play = play_watched};
    struct watch watch = {.device = device, .most = plays};
    gs_device watched = {.ops = &ops, .gpu = device->gpu, .clusters = device->clusters, .inside = &watch};
    gs_progress_start(&watch.progress, "playing runs");
    gs_code code = gs_shrink(&watched, model, run, plays, shrunk, error);
    gs_progress_end(&watch.progress);
    return code;
}

/* ---- looking for the run ---- */

struct result {
    gs_shrunk shrunk;
    size_t number;  /* of the run in its file, from 1; 0: none differs */
    size_t before;  /* its launches before it shrank */
    size_t agreed;  /* runs on which both agree */
    size_t refused; /* runs that cannot be played, and the error of the first of them */
    gs_error refusal;
};

/* Runs that the model cannot play are skipped, unless one run is chosen. */
static bool is_refusal(const struct options *options, gs_code code) {
    return !options->only && (code == GS_E_UNSUPPORTED || code == GS_E_NO_FIT);
}

static gs_code shrink_one(const struct options *options, gs_device *device, const gs_gpu *model, const gs_run *run,
                          size_t number, struct result *result, gs_error *error) {
    gs_code code = shrink_watched(device, model, run, options->plays, &result->shrunk, error);
    bool agree = code == GS_E_USAGE && result->shrunk.seen;
    if (code == GS_OK) {
        result->number = number;
        result->before = run->launches.count;
        return GS_OK;
    }
    gs_shrunk_clear(&result->shrunk);
    if (!agree && !is_refusal(options, code))
        return code;
    if (!agree && !result->refused++)
        result->refusal = *error;
    result->agreed += agree;
    *error = (gs_error){.code = GS_OK};
    return GS_OK;
}

static gs_code shrink_runs(const struct options *options, gs_device *device, const gs_gpu *model, const char *path,
                           struct result *result, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_code code = runs ? GS_OK : error->code;
    gs_run *run;
    size_t number = 0;
    bool is_found = false;
    while (code == GS_OK && !result->number && !(is_found && options->only) && (run = gs_runs_next(runs, error))) {
        number++;
        if (!options->only || number == (size_t)options->only) {
            is_found = true;
            code = shrink_one(options, device, model, run, number, result, error);
        }
        gs_run_free(run);
    }
    gs_runs_close(runs);
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !is_found)
        code = gs_fail_no_run(path, number, options->only, error);
    if (code == GS_OK && result->refused && !result->agreed && !result->number) {
        *error = result->refusal;
        code = error->code;
    }
    return code;
}

/* ---- output ---- */

static gs_code set_class(gs_run *run, const char *class_name, gs_error *error) {
    free(run->class_name);
    run->class_name = strdup(class_name);
    return run->class_name ? GS_OK : gs_fail_memory(error);
}

static gs_code put_words(gs_text *text, const gs_device *device, const gs_gpu *model, const struct result *result,
                         gs_error *error) {
    const gs_shrunk *shrunk = &result->shrunk;
    gs_view view = {.text = *text};
    gs_code code = gs_format_table.run(&view, device->gpu, shrunk->seen, error);
    view.runs++;
    if (code == GS_OK)
        code = gs_format_table.run(&view, model, shrunk->predicted, error);
    *text = view.text;
    gs_text_add(text, "\n%s\n", shrunk->state.data);
    gs_text_add(text,
                "run %zu of the file shrank from %zu launch%s to %zu: %lld tried on the device, %lld step%s kept\n",
                result->number, result->before, result->before == 1 ? "" : "es", shrunk->seen->launches.count,
                (long long)shrunk->played, (long long)shrunk->kept, shrunk->kept == 1 ? "" : "s");
    return code;
}

static void put_json(gs_text *text, const struct result *result) {
    const gs_shrunk *shrunk = &result->shrunk;
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.shrink/1");
    if (!result->number) {
        gs_write_null(&writer, "run");
    } else {
        gs_write_uint(&writer, "run", result->number);
        gs_write_uint(&writer, "launches", result->before);
        gs_write_int(&writer, "played", shrunk->played);
        gs_write_int(&writer, "kept", shrunk->kept);
        gs_write_string(&writer, "kernel", shrunk->seen->launches.data[shrunk->launch].kernel);
        gs_write_string(&writer, "state", shrunk->state.data);
        gs_write_run(&writer, "seen", shrunk->seen);
        gs_write_run(&writer, "predicted", shrunk->predicted);
    }
    gs_write_finish(&writer);
}

static void put_none(gs_text *text, const struct options *options, const struct result *result) {
    if (options->json)
        put_json(text, result);
    else if (options->only)
        gs_text_add(text, "device and model agree on run %lld\n", (long long)options->only);
    else
        gs_text_add(text, "device and model agree on all runs that can be played: %zu of %zu\n", result->agreed,
                    result->agreed + result->refused);
}

static gs_code write_runs(const struct options *options, const gs_shrunk *shrunk, gs_error *error) {
    gs_output output;
    if (!options->output)
        return GS_OK;
    gs_code code = gs_output_open(&output, options->output, error);
    if (code != GS_OK)
        return code;
    code = gs_run_write(shrunk->seen, output.file, error);
    if (code == GS_OK)
        code = gs_run_write(shrunk->predicted, output.file, error);
    return gs_output_end(&output, code, error);
}

static gs_code show_result(const struct options *options, const gs_device *device, const gs_gpu *model,
                           struct result *result, gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    gs_shrunk *shrunk = &result->shrunk;
    gs_code code = GS_OK;
    if (!result->number) {
        put_none(&text, options, result);
    } else {
        code = set_class(shrunk->seen, "shrunk: as seen", error);
        if (code == GS_OK)
            code = set_class(shrunk->predicted, "shrunk: as predicted", error);
        if (code == GS_OK)
            code = write_runs(options, shrunk, error);
        if (code == GS_OK && options->json)
            put_json(&text, result);
        else if (code == GS_OK)
            code = put_words(&text, device, model, result, error);
    }
    return gs_print_text(&text, code, error);
}

/* ---- the command ---- */

/* The model: the GPU of the command line, or else that of the device. */
static gs_gpu *open_model(const struct options *options, const gs_device *device, gs_error *error) {
    gs_gpu_choice choice = options->gpu;
    if (!choice.name && !choice.like)
        choice.name = device->gpu->name;
    return gs_choose_gpu(&choice, NULL, error);
}

static gs_code shrink_file(const struct options *options, const char *path, bool *differs, gs_error *error) {
    struct result result = {0};
    gs_device *device = gs_device_open(options->device, error);
    gs_gpu *model = device ? open_model(options, device, error) : NULL;
    gs_code code = model ? shrink_runs(options, device, model, path, &result, error) : error->code;
    if (code == GS_OK)
        code = show_result(options, device, model, &result, error);
    *differs = result.number > 0;
    gs_shrunk_clear(&result.shrunk);
    gs_gpu_free(model);
    gs_device_close(device);
    return code;
}

static int run_shrink(const gs_command *command, void *given, const gs_words *files) {
    gs_error error = {.code = GS_OK};
    bool differs = false;
    (void)command;
    if (shrink_file(given, files->data[0], &differs, &error) != GS_OK)
        return gs_report(&error);
    return differs ? 0 : 1;
}

const gs_command gs_command_shrink = {
    .name = "shrink",
    .summary = "Reduce a run on which a device and the model differ to the smallest that still differs.",
    .usage = "--device DEVICE [options] FILE",
    .details = "FILE has runs (gridsmith.run/1); - is standard input. Launches are left out, and numbers made round\n"
               "and small, as long as the device still differs from the model, twice in a row.\n"
               "Exit code 0: the small run was found; 1: device and model agree.\n\n"
               "  gridsmith shrink --device cuda -o small.jsonl mismatches.jsonl\n"
               "  gridsmith shrink --device model:rtx3090,extra_step=no scenarios/case-2.2.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.plays = 2000},
    .words = {1, 1, "give one file of runs, or - for standard input"},
    .run = run_shrink,
};
