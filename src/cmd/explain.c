/*
 * explain.c: gridsmith explain: what limits a recorded program, and what would help.
 *
 * The input is a recording, a trace of another tool, which is imported, or a program, which is recorded first. Of a
 * program the exit status is kept, if it is not 0.
 */
#include "cmd.h"
#include "lab/import/import.h"
#include "lab/record/record.h"
#include "sharing/decide/decide.h"

#include <stdlib.h>
#include <string.h>

struct options {
    gs_gpu_choice gpu;
    const char *range, *output, *recording, *before, *pairs;
    gs_words what_ifs;
    int64_t only, top, step_us;
    bool json, csv, html;
};

static const struct options defaults = {.top = 12};

static const gs_option option_table[] = {
    GS_TEXT(
        struct options, "range", range, "RANGE",
        "all, steps=FIRST-LAST, every=N, ms=FROM-TO or nvtx=NAME (default: the steps that repeat, without start-up)"),
    GS_LIST(struct options, "what-if", what_ifs, "CHANGE[,CHANGE...]",
            "the time of a step with these changes: graph, host=never-late, host=2x, streams=N, streams=PATTERN, "
            "order=PATTERN:first, priority=PATTERN:N, sms=N, sms=PATTERN:N, blocks=PATTERN:N, blocks=PATTERN:full, "
            "registers=PATTERN:N, carveout=PATTERN:N, gpu=NAME; may be repeated"),
    GS_INT(struct options, "step-us", step_us, "US", 1, INT64_MAX / 1000,
           "how long a step takes when it is not recorded: recording slows the host down"),
    GS_TEXT(struct options, "pairs", pairs, "PLAN",
            "pairs of kernels that 'gridsmith plan --json' measured: they make intervals narrower"),
    GS_INT(struct options, "top", top, "N", 0, INT64_MAX,
           "show the N kernels that take most time (default: 12; 0: all)"),
    GS_TEXT(struct options, "compare", before, "BEFORE",
            "what changed since the recording BEFORE, of an earlier version of the program"),
    GS_FLAG(struct options, "json", json, "write gridsmith.explain/1"),
    GS_FLAG(struct options, "csv", csv, "write the table of kernels, all of them, as CSV"),
    GS_FLAG(struct options, "html", html,
            "write a page: the answer, and the steps (with the first --what-if) in a picture"),
    GS_INT(struct options, "run", only, "N", 1, INT64_MAX, "the Nth run of the file, from 1"),
    GS_TEXT(struct options, "record", recording, "FILE", "keep the recording of a program in FILE"),
    GS_GPU_OPTIONS(struct options, gpu),
    GS_OUTPUT(struct options, output, "write to FILE instead of standard output"),
};

/* ---- what-ifs ---- */

struct what_ifs {
    gs_what_if *data;
    gs_gpu **gpus; /* that they name, or NULL */
    size_t count;
};

static void clear_what_ifs(struct what_ifs *what_ifs) {
    for (size_t i = 0; i < what_ifs->count && what_ifs->gpus; i++)
        gs_gpu_free(what_ifs->gpus[i]);
    free(what_ifs->gpus);
    free(what_ifs->data);
}

static gs_code read_what_ifs(const gs_words *words, struct what_ifs *what_ifs, gs_error *error) {
    what_ifs->data = calloc(words->count + 1, sizeof *what_ifs->data);
    what_ifs->gpus = calloc(words->count + 1, sizeof *what_ifs->gpus);
    gs_code code = what_ifs->data && what_ifs->gpus ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < words->count && code == GS_OK; i++, what_ifs->count++) {
        code = gs_what_if_read(words->data[i], &what_ifs->data[i], error);
        const char *name = code == GS_OK ? gs_what_if_gpu(&what_ifs->data[i]) : NULL;
        if (!name)
            continue;
        what_ifs->data[i].gpu = what_ifs->gpus[i] = gs_gpu_open(name, error);
        code = what_ifs->gpus[i] ? GS_OK : error->code;
    }
    return code;
}

/* ---- measured pairs ---- */

/* What a pair loses of the time that it could save: all, if the plan runs it serially. */
static double loss_of(const gs_table_pair *pair) {
    double shorter = pair->first_us < pair->second_us ? pair->first_us : pair->second_us;
    double longer = pair->first_us + pair->second_us - shorter, loss = (pair->together_us - longer) / shorter;
    return pair->option == GS_TABLE_SERIAL || loss > 1 ? 1 : loss < 0 ? 0 : loss;
}

/* The names are those of the table. */
static gs_code read_pairs(const char *path, gs_plan_table *table, gs_measured_pairs *pairs, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_code code = input ? gs_plan_table_read(input, table, error) : error->code;
    gs_input_close(input);
    for (size_t i = 0; i < table->pairs.count && code == GS_OK; i++) {
        const gs_table_pair *pair = &table->pairs.data[i];
        const gs_measured_pair measured = {table->kernels.data[pair->first].name,
                                           table->kernels.data[pair->second].name, loss_of(pair)};
        if ((pair->together_us > 0 || pair->option == GS_TABLE_SERIAL) && !GS_PUSH(pairs, measured))
            code = gs_fail_memory(error);
    }
    return code;
}

/* ---- the command ---- */

struct program {
    const gs_gpu *gpu, *recorded_on;
    const gs_run *run;
    const char *path;
};

static const gs_what_if nothing = {0};

/* Adds the steps as they are played, with the changes of a what-if, to a page. */
static gs_code draw_part(const struct options *options, const struct program *program, const gs_what_if *what_if,
                         gs_view *view, gs_error *error) {
    const gs_gpu *gpu = what_if->gpu ? what_if->gpu : program->gpu;
    gs_predict_options predicting = {0};
    gs_short_names names = {0};
    gs_played played = {0};
    gs_run *prediction = NULL;
    gs_run *part = gs_changed_part(gpu, program->recorded_on, program->run, options->range, what_if, error);
    gs_code code = part ? gs_run_shorten(part, &names, error) : error->code;
    if (code == GS_OK)
        prediction = gs_predict_to_draw(view, gpu, program->recorded_on, part, &predicting, &played, error);
    view->names = &names;
    view->file = program->path;
    if (code == GS_OK)
        code = prediction ? gs_format_html.run(view, gpu, prediction, error) : error->code;
    view->names = NULL;
    gs_played_clear(&played);
    gs_run_free(prediction);
    gs_run_free(part);
    gs_short_names_clear(&names);
    return code;
}

enum { PAGE_KERNELS = 6 }; /* a page has a list of all kernels beside the picture */

static gs_code put_answer(const struct options *options, const struct program *program, const gs_explained *explained,
                          const gs_explain_options *request, gs_view *view, gs_error *error) {
    gs_text report = {0};
    gs_code code = GS_OK;
    if (options->json)
        gs_put_explained_json(&view->text, program->gpu, explained, request);
    else if (options->csv)
        gs_put_explained_csv(&view->text, explained);
    else
        gs_put_explained(options->html ? &report : &view->text, program->gpu, program->run, explained, request,
                         options->html ? gs_min(options->top, PAGE_KERNELS) : options->top, options->html);
    if (options->html) {
        view->report = &report;
        view->report_title = "what limits this program";
        gs_format_html.begin(view);
        bool is_changed = explained->outcome_count && !explained->outcomes[0].stuck.kernel;
        code = report.failed ? gs_fail_memory(error)
                             : draw_part(options, program, is_changed ? request->what_ifs : &nothing, view, error);
        gs_format_html.end(view);
    }
    if (code != GS_OK)
        gs_text_clear(&view->text);
    gs_text_free(&report);
    return code;
}

/* --gpu or --sms, with which the clusters of the program cannot be played: a what-if can. */
static gs_code check_clusters(const gs_gpu_choice *choice, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    size_t i = 0;
    while (i < run->launches.count && run->launches.data[i].cluster == 1)
        i++;
    if (i == run->launches.count || gs_gpu_has_clusters(gpu) || choice->like || !choice->name == !choice->sms)
        return GS_OK;
    const gs_launch *launch = &run->launches.data[i];
    if (choice->name)
        return gs_fail(error, GS_E_UNSUPPORTED,
                       "kernel \"%.60s\" launches clusters of %d blocks, but %.60s has no clusters, or its description "
                       "does not place them; --what-if gpu=%.60s plays them as single blocks",
                       launch->kernel, launch->cluster, gpu->name, choice->name);
    return gs_fail(error, GS_E_UNSUPPORTED,
                   "kernel \"%.60s\" launches clusters of %d blocks, but their SMs are not known with --sms; --what-if "
                   "sms=%lld plays a green context with that many SMs",
                   launch->kernel, launch->cluster, (long long)choice->sms);
}

static gs_code explain_run(const struct options *options, const char *path, const gs_run *run, gs_error *error) {
    gs_gpu_of_runs kept = {0};
    struct what_ifs what_ifs = {0};
    gs_explained explained = {0};
    gs_output output;
    gs_plan_table table = {0};
    gs_measured_pairs pairs = {0};
    const gs_gpu *gpu = gs_gpu_for(&kept, &options->gpu, run, error);
    gs_code code = gpu ? read_what_ifs(&options->what_ifs, &what_ifs, error) : error->code;
    if (code == GS_OK)
        code = check_clusters(&options->gpu, gpu, run, error);
    if (code == GS_OK && options->pairs)
        code = read_pairs(options->pairs, &table, &pairs, error);
    gs_explain_options request = {.range = options->range,
                                  .step_ns = options->step_us * 1000,
                                  .pairs = pairs,
                                  .what_ifs = what_ifs.data,
                                  .what_if_count = what_ifs.count,
                                  .has_advice = !what_ifs.count};
    struct program program = {gpu, gpu ? gs_recorded_gpu_for(&kept, run) : NULL, run, path};
    if (code == GS_OK)
        code = gs_explain(gpu, program.recorded_on, run, &request, &explained, error);
    if (code == GS_OK)
        code = gs_output_open(&output, options->output, error);
    if (code == GS_OK) {
        gs_view view = {.text = options->html || options->csv ? (gs_text){.sink = output.file}
                                                              : gs_text_for_people(output.file)};
        code = put_answer(options, &program, &explained, &request, &view, error);
        code = gs_output_end(&output, gs_print_text(&view.text, code, error), error);
    }
    gs_explained_clear(&explained);
    clear_what_ifs(&what_ifs);
    free(pairs.data);
    gs_plan_table_clear(&table);
    gs_gpu_of_runs_clear(&kept);
    return code;
}

static gs_code explain_file(const void *given, const char *path, gs_error *error) {
    const struct options *options = given;
    gs_run *run = gs_read_program(path, options->only, error);
    gs_code code = run ? explain_run(options, path, run, error) : error->code;
    gs_run_free(run);
    return code;
}

/* ---- two versions of a program ---- */

struct version {
    gs_run *run;
    const gs_gpu *gpu;
    gs_gpu_of_runs kept;
    gs_explained explained;
};

static gs_code explain_version(const struct options *options, const char *path, struct version *version,
                               gs_error *error) {
    const gs_explain_options request = {.range = options->range};
    version->run = gs_read_program(path, options->only, error);
    version->gpu = version->run ? gs_gpu_for(&version->kept, &options->gpu, version->run, error) : NULL;
    if (!version->gpu)
        return error->code;
    const gs_gpu *recorded_on = gs_recorded_gpu_for(&version->kept, version->run);
    return gs_explain(version->gpu, recorded_on, version->run, &request, &version->explained, error);
}

static void clear_version(struct version *version) {
    gs_explained_clear(&version->explained);
    gs_gpu_of_runs_clear(&version->kept);
    gs_run_free(version->run);
}

/* Adds the steps of a version to a page. */
static gs_code draw_version(const struct options *options, const char *path, struct version *version, gs_view *view,
                            gs_error *error) {
    struct program program = {version->gpu, gs_recorded_gpu_for(&version->kept, version->run), version->run, path};
    return draw_part(options, &program, &nothing, view, error);
}

/* A page with what changed, and both versions: before, then after. */
static gs_code draw_versions(const struct options *options, const char *path, struct version *before,
                             struct version *after, const gs_text *report, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, options->output, error);
    if (code != GS_OK)
        return code;
    gs_view view = {.text = {.sink = output.file}, .report = report, .report_title = "what changed"};
    gs_format_html.begin(&view);
    code = draw_version(options, options->before, before, &view, error);
    view.report = NULL;
    if (code == GS_OK)
        code = draw_version(options, path, after, &view, error);
    gs_format_html.end(&view);
    if (code != GS_OK)
        gs_text_clear(&view.text);
    return gs_output_end(&output, gs_print_text(&view.text, code, error), error);
}

static gs_code compare_versions(const struct options *options, const char *path, gs_error *error) {
    struct version before = {0}, after = {0};
    gs_text text = {0};
    gs_code code = explain_version(options, options->before, &before, error);
    if (code == GS_OK)
        code = explain_version(options, path, &after, error);
    if (code == GS_OK) {
        gs_gpu_put_assumed(before.gpu, &text);
        if (strcmp(before.gpu->name, after.gpu->name) != 0)
            gs_gpu_put_assumed(after.gpu, &text);
        code = gs_put_versions(&text, &before.explained, &after.explained, options->top, error);
    }
    if (code == GS_OK && text.failed)
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = options->html ? draw_versions(options, path, &before, &after, &text, error)
                             : gs_output_for_people(options->output, &text, error);
    gs_text_free(&text);
    clear_version(&before);
    clear_version(&after);
    return code;
}

/* ---- a program ---- */

/* The GPU that is named. If that is the one of the recording, policy and settings are tried with another. */
static gs_code check_gpu(const gs_gpu_choice *given, gs_error *error) {
    gs_gpu_choice choice = *given;
    if (!choice.name && !choice.like) {
        choice.name = "h200";
        choice.sms = 0;
    }
    gs_gpu *gpu = gs_choose_gpu(&choice, NULL, error);
    gs_gpu_free(gpu);
    return gpu ? GS_OK : error->code;
}

/* A mistake is told before the program is run, not after. */
static gs_code check_options(const struct options *options, gs_error *error) {
    struct what_ifs what_ifs = {0};
    gs_plan_table table = {0};
    gs_measured_pairs pairs = {0};
    gs_code code = read_what_ifs(&options->what_ifs, &what_ifs, error);
    if (code == GS_OK && options->pairs)
        code = read_pairs(options->pairs, &table, &pairs, error);
    if (code == GS_OK && options->range)
        code = gs_part_check(options->range, error);
    if (code == GS_OK)
        code = check_gpu(&options->gpu, error);
    if (code == GS_OK)
        code = gs_output_check(options->output, error);
    clear_what_ifs(&what_ifs);
    free(pairs.data);
    gs_plan_table_clear(&table);
    return code;
}

static int run_explain(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    bool is_program = words->before_dashes == 0;
    if (options->json + options->csv + options->html > 1)
        return gs_usage(command, "--json, --csv and --html exclude each other");
    if (options->before &&
        (options->json || options->csv || options->what_ifs.count || options->step_us || options->pairs || is_program))
        return gs_usage(command, "--compare goes with two recordings, and with --range, --top, --html and -o only");
    if (is_program && check_options(options, &error) != GS_OK)
        return gs_report(&error);
    if (is_program)
        return gs_with_program(options->recording, words, explain_file, options);
    if (words->count > 1)
        return gs_usage(command, "give one recording, or -- and a program");
    if (options->recording)
        return gs_usage(command, "--record goes with a program: -- PROGRAM");
    gs_code code = options->before ? compare_versions(options, words->data[0], &error)
                                   : explain_file(options, words->data[0], &error);
    return code == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_explain = {
    .name = "explain",
    .summary = "Say what limits a recorded program, and what would help.",
    .usage = "[options] FILE | [options] -- PROGRAM [ARGUMENT...]",
    .details = "FILE is a recording of 'gridsmith trace', a trace of the PyTorch profiler, or a database of Nsight\n"
               "Systems. A program is recorded first.\n\n"
               "  gridsmith explain app.jsonl\n"
               "  gridsmith explain --what-if graph --what-if graph,sms=100 trace.json.gz\n"
               "  gridsmith explain -- python train.py\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &defaults,
    .words = {1, SIZE_MAX, "give a recording, or -- and a program"},
    .run = run_explain,
};
