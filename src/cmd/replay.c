/*
 * replay.c: gridsmith replay: how far the predictions agree with recordings, by class.
 */
#include "cmd.h"
#include "view/view.h"

#include <stdlib.h>

struct replay {
    gs_gpu_choice gpu;
    bool json;
    int64_t most_listed;
};

static const gs_option options[] = {
    GS_GPU_OPTIONS(struct replay, gpu),
    {.name = "mismatches",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct replay, most_listed),
     .argument = "N",
     .help = "name the first N runs that differ",
     .least = 0,
     .most = INT64_MAX},
    {.name = "json", .offset = offsetof(struct replay, json), .help = "write gridsmith.score/1, one line"},
};

/* What was found so far, over all files. */
struct result {
    gs_scores scores;
    gs_text differing; /* the runs to name, a line each */
    int64_t runs, differ, uncovered;
};

static void put_differing(gs_text *text, const char *path, const gs_run *run) {
    gs_text_add(text, "differs: %s:%ld", gs_input_name(path), run->source.line);
    if (run->has_id)
        gs_text_add(text, ", run %lld", (long long)run->id);
    if (run->class_name)
        gs_text_add(text, ", %s", run->class_name);
    gs_text_add(text, "\n");
}

static gs_code replay_run(const struct replay *replay, const char *path, const gs_gpu *gpu, const gs_run *run,
                          struct result *result, gs_error *error) {
    bool exact = true;
    gs_code code = gs_run_is_recorded(run, error);
    if (code != GS_OK)
        return code;
    result->runs++;
    gs_run *predicted = gs_predict_recorded(gpu, run, error);
    if (!predicted && error->code == GS_E_UNSUPPORTED) {
        *error = (gs_error){.code = GS_OK};
        result->uncovered++;
        return GS_OK;
    }
    if (!predicted)
        return error->code;
    code = gs_scores_add(&result->scores, run, predicted, &exact, error);
    if (!exact && result->differ++ < replay->most_listed)
        put_differing(&result->differing, path, run);
    gs_run_free(predicted);
    return code;
}

static gs_code replay_file(const struct replay *replay, const char *path, struct result *result, gs_progress *progress,
                           gs_error *error) {
    gs_gpu_of_runs kept = {0};
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *run;
    int64_t before = result->runs;
    gs_code code = runs ? GS_OK : error->code;
    while (code == GS_OK && (run = gs_runs_next(runs, error))) {
        const gs_gpu *gpu = gs_gpu_for(&kept, &replay->gpu, run, error);
        code = gpu ? replay_run(replay, path, gpu, run, result, error) : error->code;
        gs_progress_say(progress, "%lld runs, %.0f a second, %lld differ", (long long)result->runs,
                        (double)result->runs / gs_progress_seconds(progress), (long long)result->differ);
        gs_run_free(run);
    }
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && result->runs == before)
        code = gs_fail(error, GS_E_USAGE, "%s holds no run", gs_input_name(path));
    gs_runs_close(runs);
    gs_gpu_of_runs_clear(&kept);
    return code;
}

static void print_result(const struct replay *replay, const struct result *result) {
    gs_text text = {.sink = stdout};
    if (replay->json) {
        gs_put_scores_json(&text, &result->scores);
        gs_text_add(&text, "}\n");
    } else {
        gs_put_scores(&text, &result->scores);
    }
    gs_text_flush(&text);
    gs_text_free(&text);
    if (result->differing.count)
        fputs(result->differing.data, replay->json ? stderr : stdout);
    if (result->uncovered)
        fprintf(stderr, "gridsmith replay: %lld run%s not scored: the GPU is not known to take clusters\n",
                (long long)result->uncovered, result->uncovered == 1 ? " was" : "s were");
}

static int replay_files(const struct replay *replay, const gs_words *files) {
    struct result result = {0};
    gs_error error = {.code = GS_OK};
    gs_progress progress;
    gs_code code = GS_OK;
    gs_progress_start(&progress, "replaying");
    for (size_t i = 0; i < files->count && code == GS_OK; i++)
        code = replay_file(replay, files->data[i], &result, &progress, &error);
    gs_progress_end(&progress);
    if (code == GS_OK)
        print_result(replay, &result);
    int status = code != GS_OK ? gs_report(&error) : result.differ ? 1 : 0;
    gs_scores_free(&result.scores);
    gs_text_free(&result.differing);
    return status;
}

static int run(const gs_command *command, int argc, char **argv) {
    struct replay replay = {0};
    gs_words files;
    gs_parsed parsed = gs_parse(command, argc, argv, &replay, &files);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED && !files.count)
        status = gs_usage(command, "give files of recordings, or - for standard input");
    else if (parsed == GS_PARSED)
        status = replay_files(&replay, &files);
    free(files.data);
    free(replay.gpu.settings.data);
    return status;
}

const gs_command gs_command_replay = {
    .name = "replay",
    .summary = "Score recordings: how far do the predictions agree with them?",
    .usage = "[options] FILE...",
    .details =
        "A launch is exact when the right number of its blocks is on every SM and the right number waits; a run\n"
        "is scored up to and including its first launch that waits. Exit code 0: all exact; 1: some differ.\n\n"
        "  gridsmith replay corpus/h200-starter.jsonl.gz\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
