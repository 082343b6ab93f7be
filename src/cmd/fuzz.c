/*
 * fuzz.c: gridsmith fuzz: random runs on a device, each compared with its prediction.
 *
 * The report goes to standard output, and is reproducible on a deterministic device; the speed goes to standard error.
 * The first Ctrl-C ends the campaign after the current run, the second one at once: the file of recordings is complete
 * either way.
 */
#include "lab/fuzz/fuzz.h"
#include "cmd.h"
#include "model/view/view.h"

#include <signal.h>
#include <string.h>

enum { DEFAULT_COUNT = 1000, MOST_NAMED = 3, MOST_SHOWN = 200, MOST_EXACT = 20 };

struct options {
    gs_gpu_choice gpu;
    gs_shard_choice keep;
    const char *device, *html;
    gs_words classes;
    int64_t count, seed, index, patient_every;
    bool json, pairs;
};

static const gs_option option_table[] = {
    GS_DEVICE_OPTION(struct options, device),
    GS_GPU_OPTIONS(struct options, gpu),
    GS_LIST(struct options, "class", classes, "NAME",
            "a class of runs; may be repeated (default: cycles through plain, shared, small, exits)"),
    GS_INT(struct options, "count", count, "N", 1, INT64_MAX, "how many runs (default 1000)"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "seed of the random numbers (default 1)"),
    GS_INT(struct options, "index", index, "N", 0, INT64_MAX,
           "only run N of the seed; if it differs, print both answers"),
    GS_SHARD_OPTIONS(struct options, keep, "keep the recordings in FILE (gridsmith.run/1), one line per run"),
    GS_INT(struct options, "patient-every", patient_every, "N", 0, INT64_MAX,
           "play every Nth run again with long waits (default 100; 0: none)"),
    GS_TEXT(struct options, "html", html, "FILE",
            "also write a page that shows the runs that differ, or the first ones"),
    GS_FLAG(struct options, "pairs", pairs, "also print how many runs have each pair of features"),
    GS_FLAG(struct options, "json", json, "write gridsmith.score/1, one line"),
};

/* ---- stopping ---- */

static volatile sig_atomic_t is_stopping;

static void stop_soon(int signal_number) {
    is_stopping = signal_number;
}

static void listen_for_stop(void) {
    struct sigaction action = {.sa_handler = stop_soon, .sa_flags = SA_RESTART | SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- after each run ---- */

struct watch {
    const struct options *options;
    const gs_gpu *model;
    int64_t runs; /* of this shard */
    gs_campaign campaign;
    gs_progress progress;
    gs_text named;                  /* the first runs that differ, a line each */
    gs_run *differing;              /* with --index: the recording that differs */
    gs_error error;                 /* why that failed */
    gs_campaign_page exact, differ; /* for --html */
    gs_pairs pairs;
};

/* A page shows the runs that differ, or if none does, the first ones. */
static void keep_for_page(struct watch *watch, const gs_run *recorded, bool exact) {
    gs_campaign_page *page = exact ? &watch->exact : &watch->differ;
    gs_error error = {.code = GS_OK};
    if (page->runs >= page->most) {
        page->left_out++;
        return;
    }
    gs_run *predicted = gs_predict_recorded(watch->model, recorded, &error);
    if (predicted && gs_campaign_page_add(page, watch->model, recorded, predicted, &error) != GS_OK)
        watch->error = error;
    gs_run_free(predicted);
}

static bool after_run(void *user, uint64_t index, const gs_run *recorded, bool exact) {
    struct watch *watch = user;
    const gs_campaign *campaign = &watch->campaign;
    gs_pairs_add(&watch->pairs, recorded);
    if (!exact && campaign->mismatches <= MOST_NAMED)
        gs_text_add(&watch->named, "differs: class %s, --seed %lld --index %llu\n", recorded->class_name,
                    (long long)watch->options->seed, (unsigned long long)index);
    if (!exact && watch->options->index >= 0)
        watch->differing = gs_run_copy(recorded, &watch->error);
    if (watch->options->html)
        keep_for_page(watch, recorded, exact);
    gs_progress_say(&watch->progress, "%lld of %lld runs, %.0f a second, %lld differ", (long long)campaign->played,
                    (long long)watch->runs, (double)campaign->played / gs_progress_seconds(&watch->progress),
                    (long long)campaign->mismatches);
    return !is_stopping;
}

/* ---- the report ---- */

static void put_repeatability(gs_text *text, const gs_campaign *campaign) {
    gs_text_add(text, "repeatability: ");
    if (campaign->repeated)
        gs_text_add(text, "%lld run%s that differed played again, %lld with the same result",
                    (long long)campaign->repeated, campaign->repeated == 1 ? "" : "s",
                    (long long)campaign->repeated_alike);
    if (campaign->patient)
        gs_text_add(text, "%s%lld run%s played again with long waits, %lld with the same result",
                    campaign->repeated ? "; " : "", (long long)campaign->patient, campaign->patient == 1 ? "" : "s",
                    (long long)campaign->patient_alike);
    gs_text_add(text, campaign->repeated || campaign->patient ? "\n" : "no run was played twice: nothing to compare\n");
}

static void put_json(gs_text *text, const struct watch *watch) {
    const gs_campaign *campaign = &watch->campaign;
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.score/1");
    gs_put_scores_json(&writer, &campaign->scores);
    gs_write_int(&writer, "seed", watch->options->seed);
    gs_write_int(&writer, "mismatches", campaign->mismatches);
    gs_write_int(&writer, "not_covered", campaign->uncovered);
    gs_write_int(&writer, "repeated", campaign->repeated);
    gs_write_int(&writer, "repeated_alike", campaign->repeated_alike);
    gs_write_int(&writer, "patient", campaign->patient);
    gs_write_int(&writer, "patient_alike", campaign->patient_alike);
    gs_write_finish(&writer);
}

/* With --index: the run on the device and on the model. */
static gs_code put_both(gs_text *text, const struct watch *watch, gs_error *error) {
    const gs_run *recorded = watch->differing;
    gs_view view = {.text = *text};
    gs_run *predicted = gs_predict_recorded(watch->model, recorded, error);
    if (!predicted)
        return error->code;
    gs_text_add(&view.text, "the device: ");
    gs_code code = gs_format_table.run(&view, watch->model, recorded, error);
    gs_text_add(&view.text, "\nthe model: ");
    if (code == GS_OK)
        code = gs_format_table.run(&view, watch->model, predicted, error);
    gs_text_add(&view.text, "\n");
    gs_run_free(predicted);
    *text = view.text;
    return code;
}

static void print_speed(const struct watch *watch) {
    const gs_campaign *campaign = &watch->campaign;
    double seconds = gs_progress_seconds(&watch->progress);
    int64_t fresh = campaign->played - campaign->from_journal;
    if (campaign->uncovered)
        fprintf(stderr, "gridsmith fuzz: %lld run%s not scored: the description of the GPU has no clusters\n",
                (long long)campaign->uncovered, campaign->uncovered == 1 ? " was" : "s were");
    if (campaign->from_journal)
        fprintf(stderr, "gridsmith fuzz: %lld run%s already in the file\n", (long long)campaign->from_journal,
                campaign->from_journal == 1 ? " was" : "s were");
    fprintf(stderr, "gridsmith fuzz: %lld run%s in %.1f s, %.0f a second\n", (long long)fresh, fresh == 1 ? "" : "s",
            seconds, (double)fresh / seconds);
    if (campaign->played < watch->runs)
        fprintf(stderr, "gridsmith fuzz: stopped after %lld of %lld runs%s\n", (long long)campaign->played,
                (long long)watch->runs, watch->options->keep.out ? "; --resume continues" : "");
}

static gs_code write_page(const struct watch *watch, gs_error *error) {
    gs_text report = {0};
    gs_put_scores(&report, &watch->campaign.scores);
    put_repeatability(&report, &watch->campaign);
    return gs_write_campaign_page(watch->options->html, watch->campaign.mismatches ? &watch->differ : &watch->exact,
                                  &report, error);
}

static gs_code print_report(const struct watch *watch, gs_error *error) {
    const struct options *options = watch->options;
    gs_text text = gs_text_for_people(stdout);
    gs_code code = GS_OK;
    if (options->json) {
        put_json(&text, watch);
    } else {
        if (watch->differing)
            code = put_both(&text, watch, error);
        gs_put_scores(&text, &watch->campaign.scores);
        put_repeatability(&text, &watch->campaign);
        if (options->pairs)
            gs_put_pairs(&text, &watch->pairs);
        gs_text_add(&text, "seed %lld\n", (long long)options->seed);
    }
    code = gs_print_text(&text, code, error);
    if (watch->named.count)
        fputs(watch->named.data, options->json ? stderr : stdout);
    fflush(stdout);
    print_speed(watch);
    return code;
}

/* ---- the campaign ---- */

/* The model is the GPU of the command line, or the built-in description of the device's GPU. It does not get the
   changed mechanisms of a model that poses as a device: the campaign is to find those. */
static gs_gpu *choose_model(const struct options *options, const gs_device *device, gs_error *error) {
    if (options->gpu.name || options->gpu.like)
        return gs_choose_gpu(&options->gpu, NULL, error);
    const char *name = device->gpu->name;
    gs_gpu *model = gs_gpu_builtin_name(name) ? gs_gpu_open(name, error) : gs_gpu_copy(device->gpu, error);
    if (model && gs_apply_choice(&options->gpu, model, error) == GS_OK)
        return model;
    gs_gpu_free(model);
    return NULL;
}

static gs_code run_campaign(struct watch *watch, gs_device *device, const gs_campaign_options *request,
                            gs_error *error) {
    gs_progress_start(&watch->progress, "fuzzing");
    gs_code code = gs_campaign_run(device, watch->model, request, &watch->campaign, error);
    gs_progress_end(&watch->progress);
    if (code == GS_OK && watch->error.code != GS_OK) {
        *error = watch->error;
        code = error->code;
    }
    if (code == GS_OK)
        code = print_report(watch, error);
    return code == GS_OK && watch->options->html ? write_page(watch, error) : code;
}

static gs_journal *open_journal(const struct options *options, const gs_campaign_options *request,
                                const gs_device *device, gs_error *error) {
    char what[40];
    gs_text line = {0};
    gs_campaign_about about = {.command = "fuzz", .count = request->count, .shard = request->shard};
    snprintf(what, sizeof what, "fuzz-seed%llu", (unsigned long long)request->seed);
    gs_campaign_line(request, device, options->device, &line);
    gs_journal *journal = gs_open_shard(&options->keep, &about, what, &line, NULL, error);
    gs_text_free(&line);
    return journal;
}

static int fuzz_device(const struct options *options, const gs_shard *shard) {
    struct watch watch = {.options = options,
                          .runs = gs_shard_count(shard, options->count),
                          .exact = {.most = MOST_EXACT},
                          .differ = {.most = MOST_SHOWN}};
    static const char *const classes[] = {"plain", "shared", "small", "exits", NULL};
    uint64_t only = (uint64_t)gs_max(options->index, 0);
    gs_campaign_options request = {.classes = options->classes.count ? options->classes.data : classes,
                                   .count = options->count,
                                   .shard = *shard,
                                   .seed = (uint64_t)options->seed,
                                   .only = options->index >= 0 ? &only : NULL,
                                   .patient_every = options->patient_every,
                                   .done = after_run,
                                   .user = &watch};
    gs_error error = {.code = GS_OK};
    listen_for_stop();
    gs_device *device = gs_device_open(options->device, &error);
    gs_gpu *model = device ? choose_model(options, device, &error) : NULL;
    if (model && options->keep.out)
        request.journal = open_journal(options, &request, device, &error);
    watch.model = model;
    gs_code code = error.code;
    if (code == GS_OK)
        code = run_campaign(&watch, device, &request, &error);
    bool is_cut = is_stopping && watch.campaign.played < watch.runs;
    int status = code != GS_OK ? gs_report(&error) : is_cut ? 128 + is_stopping : watch.campaign.mismatches ? 1 : 0;
    gs_run_free(watch.differing);
    gs_text_free(&watch.named);
    gs_text_free(&watch.exact.scenes);
    gs_text_free(&watch.differ.scenes);
    gs_campaign_clear(&watch.campaign);
    gs_journal_close(request.journal);
    gs_gpu_free(model);
    gs_device_close(device);
    return status;
}

/* ---- the command line ---- */

static bool is_class(const char *name) {
    for (size_t i = 0; gs_class_name(i); i++)
        if (strcmp(gs_class_name(i), name) == 0)
            return true;
    return false;
}

static int check_classes(const gs_command *command, const gs_words *classes) {
    gs_text names = {0};
    int status = 0;
    for (size_t i = 0; i < classes->count && !status; i++) {
        if (is_class(classes->data[i]))
            continue;
        for (size_t j = 0; gs_class_name(j); j++)
            gs_text_add(&names, "%s%s", j ? ", " : "", gs_class_name(j));
        status =
            gs_usage(command, "unknown class \"%.60s\": use %s", classes->data[i], names.data ? names.data : "others");
    }
    gs_text_free(&names);
    return status;
}

static int check_usage(const gs_command *command, const struct options *options) {
    if (options->index >= 0 && (options->count || options->keep.resume))
        return gs_usage(command, "--index plays one run: leave out --count and --resume");
    if (options->html && strcmp(options->html, "-") == 0)
        return gs_usage(command, "--html takes the name of a file: standard output has the report");
    if (options->html && options->keep.out && gs_is_same_path(options->html, options->keep.out))
        return gs_usage(command, "--html and --output name the same file");
    if (options->keep.shard && options->index >= 0)
        return gs_usage(command, "--index plays one run: leave out --shard");
    return check_classes(command, &options->classes);
}

static int run_fuzz(const gs_command *command, void *given, const gs_words *words) {
    struct options *options = given;
    (void)words;
    gs_shard shard = {1, 1};
    int status = check_usage(command, options);
    if (status == 0)
        status = gs_check_shard(command, &options->keep, &shard);
    if (status)
        return status;
    options->count = options->index >= 0 ? 1 : options->count ? options->count : DEFAULT_COUNT;
    return fuzz_device(options, &shard);
}

const gs_command gs_command_fuzz = {
    .name = "fuzz",
    .summary = "Play random runs on a device and compare each with its prediction.",
    .usage = "--device DEVICE [options]",
    .details = "Exit code 0: every prediction was exact; 1: some differ; 3: no GPU. --seed and --index repeat a run.\n"
               "Ctrl-C stops after the current run; the exit code is then 130: not complete.\n\n"
               "  gridsmith fuzz --device cuda --count 10000 -o h200.jsonl\n"
               "  gridsmith fuzz --device model:rtx3090,warp_placement=free --count 100\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.seed = 1, .index = -1, .patient_every = 100},
    .run = run_fuzz,
};
