/*
 * replay.c: gridsmith replay: scores how well predictions agree with recordings, by class.
 *
 * With --device it compares recordings with what a device does when it plays the same runs: so do recordings of two
 * recorders, or of two GPUs, agree.
 */
#include "cmd.h"
#include "lab/device/device.h"
#include "model/view/view.h"

struct options {
    gs_gpu_choice gpu;
    bool json, html, pairs;
    int64_t most_listed;
    const char *output, *device;
};

static const gs_option option_table[] = {
    GS_GPU_OPTIONS(struct options, gpu),
    GS_TEXT(struct options, "device", device, "DEVICE",
            "instead of predicting, play the runs again on this device (as for 'gridsmith fuzz'), and compare"),
    GS_INT(struct options, "mismatches", most_listed, "N", 0, INT64_MAX,
           "print the places of the first N runs that differ"),
    GS_FLAG(struct options, "pairs", pairs, "also print how many runs have each pair of features"),
    GS_FLAG(struct options, "json", json, "write gridsmith.score/1, one line"),
    GS_FLAG(struct options, "html", html,
            "write a page that shows the runs that differ, or the first ones if none does"),
    GS_OUTPUT(struct options, output, "write the page to FILE instead of standard output"),
};

/* The results so far, over all files. */
struct result {
    gs_scores scores;
    gs_pairs pairs;
    gs_text differing; /* the runs to name, a line each */
    int64_t runs, differ, uncovered;
    int64_t changed;                        /* exact only with what the recording does not say */
    gs_device *device;                      /* that plays the runs again; NULL: they are predicted */
    gs_campaign_page exact, differing_runs; /* for --html */
};

/* A page shows the runs that differ, or if none does, the first ones. */
static gs_code keep_for_page(struct result *result, const gs_gpu *gpu, const gs_run *run, const gs_run *predicted,
                             bool exact, gs_error *error) {
    return gs_campaign_page_add(exact ? &result->exact : &result->differing_runs, gpu, run, predicted, error);
}

static void put_differing(gs_text *text, const char *path, const gs_run *run) {
    gs_text_add(text, "differs: %s:%ld", gs_input_name(path), run->source.line);
    if (run->has_id)
        gs_text_add(text, ", run %lld", (long long)run->id);
    if (run->class_name)
        gs_text_add(text, ", %s", run->class_name);
    gs_text_add(text, "\n");
}

/* Plays a run again. GS_E_UNSUPPORTED: it has times, and a GPU does not repeat those, or the device has other green
   contexts. */
static gs_run *play_again(gs_device *device, const gs_run *run, gs_error *error) {
    const gs_green_contexts *wanted = &run->green_contexts, *found = &device->contexts;
    const gs_play_options request = {.expected = run};
    if (wanted->count && gs_device_split(device, error) != GS_OK)
        return NULL;
    bool is_same = wanted->count <= found->count;
    for (int32_t i = 0; i < wanted->count && is_same; i++)
        is_same = wanted->ends[i] == found->ends[i];
    for (int32_t i = 0; wanted->count && is_same && i < wanted->ends[wanted->count - 1]; i++)
        is_same = wanted->sms[i] == found->sms[i];
    if (gs_run_is_timed(run) || !is_same) {
        gs_fail(error, GS_E_UNSUPPORTED, "the run cannot be played again");
        return NULL;
    }
    return gs_device_play(device, run, &request, error);
}

static gs_code replay_run(const struct options *options, const char *path, const gs_gpu *gpu, const gs_run *run,
                          struct result *result, gs_error *error) {
    bool exact = true;
    int changes = 0;
    gs_code code = gs_run_is_recorded(run, error);
    if (code != GS_OK)
        return code;
    result->runs++;
    gs_pairs_add(&result->pairs, run);
    gs_run *predicted =
        result->device ? play_again(result->device, run, error) : gs_predict_recorded_as(gpu, run, &changes, error);
    if (!predicted && error->code == GS_E_UNSUPPORTED) {
        *error = (gs_error){.code = GS_OK};
        result->uncovered++;
        return GS_OK;
    }
    if (!predicted)
        return error->code;
    code = gs_scores_add(&result->scores, run, predicted, &exact, error);
    result->changed += exact && changes;
    if (!exact && result->differ++ < options->most_listed)
        put_differing(&result->differing, path, run);
    if (code == GS_OK && options->html)
        code = keep_for_page(result, gpu, run, predicted, exact, error);
    gs_run_free(predicted);
    return code;
}

static gs_code replay_file(const struct options *options, const char *path, struct result *result,
                           gs_progress *progress, gs_error *error) {
    gs_gpu_of_runs kept = {0};
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *run;
    int64_t before = result->runs;
    gs_code code = runs ? GS_OK : error->code;
    while (code == GS_OK && (run = gs_runs_next(runs, error))) {
        const gs_gpu *gpu = gs_gpu_for(&kept, &options->gpu, run, error);
        code = gpu ? replay_run(options, path, gpu, run, result, error) : error->code;
        gs_progress_say(progress, "%lld runs, %.0f a second, %lld differ", (long long)result->runs,
                        (double)result->runs / gs_progress_seconds(progress), (long long)result->differ);
        gs_run_free(run);
    }
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && result->runs == before)
        code = gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(path));
    gs_runs_close(runs);
    gs_gpu_of_runs_clear(&kept);
    return code;
}

static gs_code write_page(const struct options *options, const struct result *result, gs_error *error) {
    gs_text report = {0};
    gs_put_scores(&report, &result->scores);
    if (result->differing.count)
        gs_text_put(&report, result->differing.data, result->differing.count);
    return gs_write_campaign_page(options->output, result->differ ? &result->differing_runs : &result->exact, &report,
                                  error);
}

static gs_code print_result(const struct options *options, const struct result *result, gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    if (options->json) {
        gs_writer writer = gs_writer_to(&text);
        gs_write_document(&writer, "gridsmith.score/1");
        gs_put_scores_json(&writer, &result->scores);
        gs_write_finish(&writer);
    } else {
        gs_put_scores(&text, &result->scores);
        if (options->pairs)
            gs_put_pairs(&text, &result->pairs);
    }
    gs_code code = gs_print_text(&text, GS_OK, error);
    if (result->differing.count)
        fputs(result->differing.data, options->json ? stderr : stdout);
    if (result->changed)
        fprintf(stderr,
                "gridsmith replay: %lld run%s exact only under an assumption that the recording cannot confirm: nodes "
                "of a graph in another order, memory nodes that end at another time, launches that are not "
                "programmatic, or blocks that end 0.3 us earlier or later\n",
                (long long)result->changed, result->changed == 1 ? " is" : "s are");
    if (result->uncovered)
        fprintf(stderr, "gridsmith replay: %lld run%s not scored: %s\n", (long long)result->uncovered,
                result->uncovered == 1 ? " was" : "s were",
                result->device ? "they have times, or the device has other green contexts"
                               : "the description of the GPU has no clusters");
    return code;
}

static int replay_files(const struct options *options, const gs_words *files) {
    enum { MOST_SHOWN = 200, MOST_EXACT = 20 };
    struct result result = {.exact = {.most = MOST_EXACT}, .differing_runs = {.most = MOST_SHOWN}};
    gs_error error = {.code = GS_OK};
    gs_progress progress;
    gs_code code = GS_OK;
    if (options->device && !(result.device = gs_device_open(options->device, &error)))
        return gs_report(&error);
    gs_progress_start(&progress, "replaying");
    for (size_t i = 0; i < files->count && code == GS_OK; i++)
        code = replay_file(options, files->data[i], &result, &progress, &error);
    gs_progress_end(&progress);
    if (code == GS_OK)
        code = (options->html ? write_page : print_result)(options, &result, &error);
    int status = code != GS_OK ? gs_report(&error) : result.differ ? 1 : 0;
    gs_device_close(result.device);
    gs_scores_free(&result.scores);
    gs_text_free(&result.differing);
    gs_text_free(&result.exact.scenes);
    gs_text_free(&result.differing_runs.scenes);
    return status;
}

static int run_replay(const gs_command *command, void *given, const gs_words *files) {
    const struct options *options = given;
    if (options->json && options->html)
        return gs_usage(command, "--json and --html exclude each other");
    if (options->output && !options->html)
        return gs_usage(command, "--output goes with --html");
    if (options->device && (options->gpu.policy || options->gpu.settings.count))
        return gs_usage(command, "--device plays the runs instead of predicting them: --policy and --set do nothing");
    return replay_files(options, files);
}

const gs_command gs_command_replay = {
    .name = "replay",
    .summary = "Score how well predictions agree with recordings.",
    .usage = "[options] FILE...",
    .details =
        "A launch is exact when the right number of its blocks is on every SM and the right number waits; a run\n"
        "is scored up to and including its first launch that waits. Exit code 0: all exact; 1: some differ.\n\n"
        "  gridsmith replay corpus/h200-starter.jsonl.gz\n"
        "  gridsmith replay --html -o differing.html recordings.jsonl\n"
        "  gridsmith replay --device cuda recordings.jsonl\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {1, SIZE_MAX, "give files of recordings, or - for standard input"},
    .run = run_replay,
};
