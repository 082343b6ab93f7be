/*
 * shrink.c: gridsmith shrink: the smallest run on which a device and the model still differ.
 *
 * The search is in src/fuzz and knows nothing of terminals. So that people see how far it is, it is given a device of
 * our own: one that counts, shows the count, and lets the real one play.
 */
#include "cmd.h"
#include "fuzz/fuzz.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

struct shrink {
    gs_gpu_choice gpu;
    const char *device, *output;
    int64_t only; /* 0: the first that differs */
    int64_t plays;
    bool json;
};

static const gs_option options[] = {
    {.name = "device",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct shrink, device),
     .argument = "DEVICE",
     .help = "cuda[:N], replay:FILE or model:GPU[,MECHANISM=VALUE]...[,skip=SM]",
     .required = true},
    GS_GPU_OPTIONS(struct shrink, gpu),
    {.name = "run",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct shrink, only),
     .argument = "N",
     .help = "the Nth run of the file, from 1 (default: the first that differs)",
     .least = 1,
     .most = INT64_MAX},
    {.name = "plays",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct shrink, plays),
     .argument = "N",
     .help = "play at most so many runs on the device to shrink one (default 2000)",
     .least = 2,
     .most = INT64_MAX},
    {.name = "output",
     .letter = 'o',
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct shrink, output),
     .argument = "FILE",
     .help = "write the small run there twice: as seen, and as predicted"},
    {.name = "json", .offset = offsetof(struct shrink, json), .help = "write gridsmith.shrink/1 instead of tables"},
};

/* ---- a device that shows progress ---- */

struct watch {
    gs_device *device;
    gs_progress progress;
    int64_t plays, most;
};

static gs_run *play_watched(gs_device *device, const gs_run *plan, const gs_play_options *wishes, gs_error *error) {
    struct watch *watch = device->inside;
    gs_progress_show(&watch->progress, ++watch->plays, watch->most);
    return gs_device_play(watch->device, plan, wishes, error);
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
    size_t refused; /* runs that cannot be played, and what is wrong with the first of them */
    gs_error refusal;
};

/* In a file of many, runs that the model cannot play do not keep the others from being looked at. */
static bool is_refusal(const struct shrink *shrink, gs_code code) {
    return !shrink->only && (code == GS_E_UNSUPPORTED || code == GS_E_NO_FIT);
}

static gs_code shrink_one(const struct shrink *shrink, gs_device *device, const gs_gpu *model, const gs_run *run,
                          size_t number, struct result *result, gs_error *error) {
    gs_code code = shrink_watched(device, model, run, shrink->plays, &result->shrunk, error);
    bool agree = code == GS_E_USAGE && result->shrunk.seen;
    if (code == GS_OK) {
        result->number = number;
        result->before = run->launches.count;
        return GS_OK;
    }
    gs_shrunk_clear(&result->shrunk);
    if (!agree && !is_refusal(shrink, code))
        return code;
    if (!agree && !result->refused++)
        result->refusal = *error;
    result->agreed += agree;
    *error = (gs_error){.code = GS_OK};
    return GS_OK;
}

static gs_code shrink_runs(const struct shrink *shrink, gs_device *device, const gs_gpu *model, const char *path,
                           struct result *result, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_code code = runs ? GS_OK : error->code;
    gs_run *run;
    size_t number = 0;
    bool asked = false;
    while (code == GS_OK && !result->number && !(asked && shrink->only) && (run = gs_runs_next(runs, error))) {
        number++;
        if (!shrink->only || number == (size_t)shrink->only) {
            asked = true;
            code = shrink_one(shrink, device, model, run, number, result, error);
        }
        gs_run_free(run);
    }
    gs_runs_close(runs);
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !asked)
        code = gs_fail(error, GS_E_USAGE, "%s holds %s", gs_input_name(path), number ? "no such run" : "no run");
    if (code == GS_OK && result->refused && !result->agreed && !result->number) {
        *error = result->refusal;
        code = error->code;
    }
    return code;
}

/* ---- showing it ---- */

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
                "run %zu of the file shrank from %zu launches to %zu: %lld tried on the device, %lld steps kept\n",
                result->number, result->before, shrunk->seen->launches.count, (long long)shrunk->played,
                (long long)shrunk->kept);
    return code;
}

static void put_json(gs_text *text, const struct result *result) {
    const gs_shrunk *shrunk = &result->shrunk;
    gs_text_add(text, "{\"schema\":\"gridsmith.shrink/1\",\"run\":%zu,\"launches\":%zu,\"played\":%lld,\"kept\":%lld",
                result->number, result->before, (long long)shrunk->played, (long long)shrunk->kept);
    gs_text_add(text, ",\"kernel\":");
    gs_text_put_json(text, shrunk->seen->launches.data[shrunk->launch].kernel);
    gs_text_add(text, ",\"state\":");
    gs_text_put_json(text, shrunk->state.data);
    gs_text_add(text, ",\"seen\":");
    gs_run_text(shrunk->seen, text);
    gs_text_add(text, ",\"predicted\":");
    gs_run_text(shrunk->predicted, text);
    gs_text_add(text, "}\n");
}

static void put_none(gs_text *text, const struct shrink *shrink, const struct result *result) {
    if (shrink->json)
        gs_text_add(text, "{\"schema\":\"gridsmith.shrink/1\",\"run\":null}\n");
    else if (shrink->only)
        gs_text_add(text, "device and model agree on run %lld\n", (long long)shrink->only);
    else
        gs_text_add(text, "device and model agree on all runs that can be played: %zu of %zu\n", result->agreed,
                    result->agreed + result->refused);
}

static gs_code write_runs(const struct shrink *shrink, const gs_shrunk *shrunk, gs_error *error) {
    gs_output output;
    if (!shrink->output)
        return GS_OK;
    gs_code code = gs_output_open(&output, shrink->output, error);
    if (code != GS_OK)
        return code;
    code = gs_run_write(shrunk->seen, output.file, error);
    if (code == GS_OK)
        code = gs_run_write(shrunk->predicted, output.file, error);
    if (code == GS_OK)
        return gs_output_keep(&output, error);
    gs_output_drop(&output);
    return code;
}

static gs_code show(const struct shrink *shrink, const gs_device *device, const gs_gpu *model, struct result *result,
                    gs_error *error) {
    gs_text text = {.sink = stdout};
    gs_shrunk *shrunk = &result->shrunk;
    gs_code code = GS_OK;
    if (!result->number) {
        put_none(&text, shrink, result);
    } else {
        code = set_class(shrunk->seen, "shrunk: as seen", error);
        if (code == GS_OK)
            code = set_class(shrunk->predicted, "shrunk: as predicted", error);
        if (code == GS_OK)
            code = write_runs(shrink, shrunk, error);
        if (code == GS_OK && shrink->json)
            put_json(&text, result);
        else if (code == GS_OK)
            code = put_words(&text, device, model, result, error);
    }
    gs_text_flush(&text);
    if (code == GS_OK && text.failed && !ferror(stdout))
        code = gs_fail_memory(error);
    gs_text_free(&text);
    return code;
}

/* ---- the command ---- */

/* The model: the GPU of the command line, or else the one that the device says it is. */
static gs_gpu *open_model(const struct shrink *shrink, const gs_device *device, gs_error *error) {
    gs_gpu_choice choice = shrink->gpu;
    if (!choice.name)
        choice.name = device->gpu->name;
    return gs_choose_gpu(&choice, NULL, error);
}

static gs_code shrink_file(const struct shrink *shrink, const char *path, bool *differs, gs_error *error) {
    struct result result = {0};
    gs_device *device = gs_device_open(shrink->device, error);
    gs_gpu *model = device ? open_model(shrink, device, error) : NULL;
    gs_code code = model ? shrink_runs(shrink, device, model, path, &result, error) : error->code;
    if (code == GS_OK)
        code = show(shrink, device, model, &result, error);
    *differs = result.number > 0;
    gs_shrunk_clear(&result.shrunk);
    gs_gpu_free(model);
    gs_device_close(device);
    return code;
}

static int run(const gs_command *command, int argc, char **argv) {
    struct shrink shrink = {.plays = 2000};
    gs_words files;
    gs_error error = {.code = GS_OK};
    bool differs = false;
    gs_parsed parsed = gs_parse(command, argc, argv, &shrink, &files);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed != GS_PARSED)
        ;
    else if (files.count != 1)
        status = gs_usage(command, "give one file of runs, or - for standard input");
    else if (shrink_file(&shrink, files.data[0], &differs, &error) != GS_OK)
        status = gs_report(&error);
    else
        status = differs ? 0 : 1;
    free(files.data);
    free(shrink.gpu.settings.data);
    return status;
}

const gs_command gs_command_shrink = {
    .name = "shrink",
    .summary = "Make a run on which a device and the model differ as small as it gets.",
    .usage = "--device DEVICE [options] FILE",
    .details = "FILE holds runs (gridsmith.run/1); - is standard input. Launches are left out, and numbers made round\n"
               "and small, as long as the device still differs from the model, twice in a row.\n"
               "Exit code 0: here is the small run; 1: device and model agree.\n\n"
               "  gridsmith shrink --device cuda -o small.jsonl mismatches.jsonl\n"
               "  gridsmith shrink --device model:rtx3090,extra_step=no scenarios/case-2.2.json\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
