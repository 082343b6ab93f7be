/*
 * probe.c: gridsmith probe: measures a GPU and writes its description.
 *
 * The description goes to a file or to standard output. A report of the measurements goes to standard error, so that
 * people can judge how certain they are.
 */
#include "cmd.h"
#include "fuzz/fuzz.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 100000, PARTS = 12 };

struct options {
    const char *device, *name, *out;
    int64_t runs, seed;
};

static const gs_option option_table[] = {
    GS_TEXT_REQUIRED(struct options, "device", device, "DEVICE",
                     "cuda[:N] or model:GPU[,MECHANISM=VALUE]...[,skip=SM]"),
    GS_TEXT(struct options, "name", name, "NAME",
            "name of the GPU in the description (default: its model, and the start of its UUID)"),
    GS_INT(struct options, "runs", runs, "N", 1, MOST_RUNS, "number of random runs to record (default 400)"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "seed of the random numbers (default 1)"),
    GS_OUTPUT(struct options, out, "write the description to FILE (default: standard output)"),
};

/* ---- the report ---- */

static gs_code put_order(gs_text *text, const gs_survey *survey, gs_error *error) {
    const gs_gpu *gpu = survey->gpu;
    int tie_order = gpu->mechanisms.tie_order;
    const char *const *names = gs_mechanism_find("tie_order")->values;
    int16_t *order = calloc((size_t)gpu->sms, sizeof *order);
    int32_t *numbers = calloc((size_t)gpu->sms, sizeof *numbers);
    if (order && numbers) {
        gs_gpu_tie_order(gpu, order);
        for (int32_t i = 0; i < gpu->sms; i++)
            numbers[i] = order[i];
        gs_text_add(text, "tie order   %s: SMs ", names[tie_order]);
        gs_text_put_numbers(text, numbers, (size_t)gpu->sms, PARTS);
        gs_text_add(text, "; %d of %d measurements alike\n", survey->order_alike, survey->order_plays);
    }
    bool has_memory = order && numbers;
    free(order);
    free(numbers);
    if (survey->unseen_sms)
        gs_text_add(text, "            the last %d of these never got a block of their own\n", survey->unseen_sms);
    if (tie_order != survey->tie_order)
        gs_text_add(text, "            single blocks went %s, but the random runs agree better with this\n",
                    names[survey->tie_order]);
    return has_memory ? GS_OK : gs_fail_memory(error);
}

static void put_gpcs(gs_text *text, const gs_survey *survey) {
    const gs_sm_groups *lists = &survey->gpu->gpc_sms;
    if (!survey->pairs) {
        gs_text_add(text, "GPCs        not measured: no cluster was seen\n");
        return;
    }
    for (int32_t i = 0, at = 0; i < lists->count; at = lists->ends[i++]) {
        gs_text_add(text, i ? "           " : "GPCs       ");
        for (int32_t k = at; k < lists->ends[i]; k++)
            gs_text_add(text, " %d", lists->sms[k]);
        gs_text_add(text, "\n");
    }
    gs_text_add(text, "TPCs        %lld of %lld clusters of two were on SMs 2k and 2k+1\n",
                (long long)survey->neighbors, (long long)survey->pairs);
}

static void put_grants(gs_text *text, const gs_survey *survey) {
    const gs_grants *grants = &survey->gpu->grants;
    if (!survey->grants.groups) {
        gs_text_add(text, "numbers     blocks are numbered as they are placed\n");
        return;
    }
    gs_text_add(text, "numbers     by %d groups of SMs, of which %d first; %d grants between rounds\n",
                survey->grants.groups, grants->first, grants->between_rounds);
    if (survey->grants.unexplained)
        gs_text_add(text, "            not explained: launches that end with one of %d SMs\n",
                    survey->grants.unexplained);
    if (grants->cluster_blocks_per_sm)
        gs_text_add(text, "clusters    an SM takes at most %d blocks of clusters\n", grants->cluster_blocks_per_sm);
}

static void put_mechanisms(gs_text *text, const gs_survey *survey) {
    const gs_fit *fit = &survey->fit;
    gs_mechanisms mechanisms = survey->gpu->mechanisms;
    gs_text_add(text, "mechanisms  %lld of %lld runs agree", (long long)fit->best, (long long)fit->recordings);
    if (survey->deciders)
        gs_text_add(text, "; %d recorded to tell settings apart", survey->deciders);
    gs_text_add(text, "\n");
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        if (*gs_mechanism_value(&mechanisms, value->mechanism) == value->value)
            gs_text_add(text, "  %-19s %-12s %s%s\n", value->mechanism->name, value->mechanism->values[value->value],
                        gs_fit_verdict(fit, value), gs_fit_is_by_block(value->mechanism) ? ", block by block" : "");
    }
}

static gs_code put_report(gs_text *text, const gs_survey *survey, gs_error *error) {
    const gs_gpu *gpu = survey->gpu;
    gs_text_add(text, "%s, %d SMs%s%s\n", gpu->title ? gpu->title : gpu->name, gpu->sms, gpu->uuid ? ", " : "",
                gpu->uuid ? gpu->uuid : "");
    gs_code code = put_order(text, survey, error);
    put_gpcs(text, survey);
    put_grants(text, survey);
    put_mechanisms(text, survey);
    gs_text_add(text, "\n");
    gs_put_scores(text, &survey->scores);
    return code;
}

static gs_code print_report(const gs_survey *survey, gs_error *error) {
    gs_text text = {.sink = stderr};
    gs_code code = put_report(&text, survey, error);
    return gs_print_text(&text, code, error);
}

/* ---- the command ---- */

static gs_code write_description(const struct options *options, const gs_gpu *gpu, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, options->out, error);
    if (code != GS_OK)
        return code;
    gs_text text = {.sink = output.file};
    gs_gpu_text(gpu, &text);
    gs_text_put(&text, "\n", 1);
    gs_text_flush(&text);
    if (text.failed && !ferror(output.file))
        code = gs_fail_memory(error);
    gs_text_free(&text);
    if (code == GS_OK)
        return gs_output_keep(&output, error);
    gs_output_drop(&output);
    return code;
}

static void show_progress(void *user, const char *step, int64_t done, int64_t total) {
    gs_progress *progress = user;
    if (total)
        gs_progress_say(progress, "%s, %lld of %lld", step, (long long)done, (long long)total);
    else
        gs_progress_say(progress, "%s", step);
}

static gs_code measure(const struct options *options, gs_device *device, gs_survey *survey, gs_error *error) {
    gs_progress progress;
    time_t now = time(NULL);
    struct tm today;
    char date[16] = "";
    if (localtime_r(&now, &today))
        strftime(date, sizeof date, "%Y-%m-%d", &today);
    gs_survey_options request = {.name = options->name,
                                 .date = date[0] ? date : NULL,
                                 .runs = options->runs,
                                 .seed = (uint64_t)options->seed,
                                 .progress = show_progress,
                                 .user = &progress};
    gs_progress_start(&progress, "measuring");
    gs_code code = gs_survey_run(device, &request, survey, error);
    gs_progress_end(&progress);
    return code;
}

static int probe_device(const struct options *options) {
    gs_survey survey = {0};
    gs_error error = {.code = GS_OK};
    gs_device *device = gs_device_open(options->device, &error);
    gs_code code = device ? measure(options, device, &survey, &error) : error.code;
    if (code == GS_OK)
        code = write_description(options, survey.gpu, &error);
    if (code == GS_OK)
        code = print_report(&survey, &error);
    gs_score total = gs_scores_total(&survey.scores);
    int status = code != GS_OK ? gs_report(&error) : total.runs_exact == total.runs ? 0 : 1;
    gs_survey_clear(&survey);
    gs_device_close(device);
    return status;
}

/* --gpu takes names and paths, so a name must not look like a path. */
static bool is_name(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    return name[0] && !name[strspn(name, allowed)];
}

static int check_usage(const gs_command *command, const struct options *options) {
    if (options->name && !is_name(options->name))
        return gs_usage(command, "--name takes letters, digits, '-' and '_', not \"%.60s\"", options->name);
    if (strncmp(options->device, "replay", 6) == 0)
        return gs_usage(command, "recordings cannot be measured, because probe chooses its runs: 'gridsmith fit' looks "
                                 "at recordings");
    return 0;
}

static int run(const gs_command *command, void *given, const gs_words *words) {
    (void)words;
    int status = check_usage(command, given);
    return status ? status : probe_device(given);
}

const gs_command gs_command_probe = {
    .name = "probe",
    .summary = "Measure a GPU and write its description: tie order, GPCs, mechanisms.",
    .no_shard = "a description is of one GPU, and each step depends on what the steps before it found: there are no "
                "shards",
    .usage = "--device DEVICE [options]",
    .details = "What is measured belongs to one GPU: others of its model may lack other SMs.\n"
               "Exit code 0: the description agrees with every recorded run; 1: not with all, but it is written; 3: no "
               "GPU.\n\n"
               "  gridsmith probe --device cuda -o mine.json\n"
               "  gridsmith fuzz --device cuda --gpu ./mine.json\n",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .defaults = &(const struct options){.runs = 400, .seed = 1},
    .run = run,
};
