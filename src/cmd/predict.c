/*
 * predict.c: gridsmith predict: the SM of every block, which blocks wait, and why.
 *
 * Runs are read, played and written one at a time, so a file of any length takes the memory of its largest run.
 */
#include "cmd.h"
#include "model/timeline/timeline.h"
#include "model/view/view.h"

struct options {
    gs_gpu_choice gpu;
    bool json, csv, svg, html, trace, explain;
    bool follow, compare, placed, all;
    int64_t top;
    int64_t turn;
    int64_t only;      /* 0: all runs */
    gs_words what_ifs; /* at most one */
    const char *output;
};

static const gs_option option_table[] = {
    GS_GPU_OPTIONS(struct options, gpu),
    GS_FLAG(struct options, "explain", explain,
            "show which limit, on which SMs, keeps each waiting kernel from starting"),
    GS_INT(struct options, "turn", turn, "N", 0, INT32_MAX,
           "the group of SMs that has the first turn, from 0: decides which block is on which SM"),
    GS_FLAG(struct options, "follow", follow, "the runs are recordings: use their turns and the ends of their blocks"),
    GS_FLAG(struct options, "all", all, "every possible result, where the GPU does not always repeat itself"),
    GS_FLAG(struct options, "compare", compare,
            "recorded programs: show the measurement beside the prediction, and what launches waited for"),
    GS_INT(struct options, "top", top, "N", 1, INT64_MAX, "recorded programs: only the N longest waits"),
    GS_FLAG(struct options, "placed", placed, "recorded programs: the SM of every block, as for other runs"),
    GS_LIST(struct options, "what-if", what_ifs, "CHANGE[,CHANGE...]",
            "of a recorded program: its steps with changes, as in 'gridsmith explain'"),
    GS_FLAG(struct options, "json", json, "write the runs with \"placed\", one line each"),
    GS_FLAG(struct options, "csv", csv, "write one row per block"),
    GS_FLAG(struct options, "svg", svg, "draw it: SMs down, time or launches across, one color per kernel"),
    GS_FLAG(struct options, "html", html, "write a page that shows it in a browser: zoom, search, occupancy, waits"),
    GS_FLAG(struct options, "trace", trace, "write a Chrome trace, for ui.perfetto.dev"),
    GS_INT(struct options, "run", only, "N", 1, INT64_MAX, "only the Nth run of the file, from 1"),
    GS_OUTPUT(struct options, output, "write to FILE instead of standard output"),
};

/* Whether a run has observations that a prediction can follow. */
static bool is_recording(const gs_run *run) {
    for (size_t i = 0; i < run->events.count; i++)
        if (run->events.data[i].op != GS_EXIT && run->events.data[i].seen->has_placed)
            return true;
    return false;
}

/* A run to predict, the GPU for which, and the GPU that it was recorded on. */
struct subject {
    const gs_gpu *gpu, *recorded_on;
    const gs_run *run;
};

/* ---- one run ---- */

static void show_progress(void *user, int64_t blocks, int64_t total) {
    gs_progress_show(user, blocks, total);
}

static gs_code predict_run(const struct options *options, const gs_format *format, gs_view *view,
                           const struct subject *subject, gs_error *error) {
    const gs_gpu *gpu = subject->gpu, *recorded_on = subject->recorded_on;
    const gs_run *run = subject->run;
    gs_progress progress;
    gs_played played = {0};
    gs_text report = {0};
    gs_predict_options request = {.explain = options->explain,
                                  .progress = show_progress,
                                  .user = &progress,
                                  .follow = options->follow,
                                  .turn = (int)options->turn};
    gs_progress_start(&progress, "placing blocks");
    gs_run *prediction = format->wants_played
                             ? gs_predict_to_draw(view, gpu, recorded_on, run, &request, &played, error)
                         : format->is_brief ? gs_predict_brief(gpu, recorded_on, run, &request, error)
                                            : gs_predict_on(gpu, recorded_on, run, &request, error);
    gs_progress_end(&progress);
    gs_code code = prediction ? GS_OK : error->code;
    if (code == GS_OK && options->compare)
        code = gs_put_program_compared(&report, gpu, run, &played.timeline, options->top, options->json, error);
    view->report = &report;
    if (code == GS_OK && !view->runs && format->begin)
        format->begin(view);
    if (code == GS_OK)
        code = format->run(view, gpu, prediction, error);
    view->runs += code == GS_OK;
    gs_text_free(&report);
    gs_run_free(prediction);
    gs_played_clear(&played);
    return code;
}

/* Writes all predictions of a run, the usual one first. */
static gs_code predict_possible(const struct options *options, const gs_format *format, gs_view *view,
                                const struct subject *subject, gs_error *error) {
    gs_predict_options request = {.follow = options->follow, .turn = (int)options->turn};
    gs_possible possible;
    gs_code code = gs_predict_possible(subject->gpu, subject->run, &request, &possible, error);
    if (code != GS_OK)
        return code;
    gs_text report = {0};
    view->report = &report;
    if (!view->runs && format->begin)
        format->begin(view);
    for (size_t i = 0; i < possible.count && code == GS_OK; i++) {
        code = format->run(view, subject->gpu, possible.data[i], error);
        view->runs += code == GS_OK;
    }
    fprintf(stderr, "gridsmith predict: %s%zu prediction%s\n", possible.is_cut ? "at least " : "", possible.count,
            possible.count == 1 ? "" : "s; the first is the usual one");
    gs_possible_free(&possible);
    return code;
}

/* ---- a recorded program ---- */

static gs_code put_timeline(const struct options *options, gs_view *view, const struct subject *subject,
                            const gs_timeline *timeline, gs_error *error) {
    const gs_gpu *gpu = subject->gpu;
    const gs_run *run = subject->run;
    if (options->compare)
        return gs_put_program_compared(&view->text, gpu, run, timeline, options->top, options->json, error);
    if (options->json)
        return gs_put_timeline_json(&view->text, gpu, run, timeline, options->top, error);
    gs_put_program_title(&view->text, gpu, run, timeline);
    return gs_put_timeline(&view->text, run, timeline, options->top, error);
}

static gs_code predict_program(const struct options *options, gs_view *view, const struct subject *subject,
                               gs_error *error) {
    gs_timeline timeline;
    gs_code code = gs_timeline_play(subject->gpu, subject->recorded_on, subject->run, NULL, &timeline, error);
    if (code != GS_OK)
        return code;
    code = put_timeline(options, view, subject, &timeline, error);
    gs_timeline_clear(&timeline);
    view->runs++;
    return code;
}

/* Whether the run is shown as a timeline: not if each block is requested. */
static bool is_timeline(const struct options *options, const gs_format *format, const gs_run *run) {
    bool has_timeline = format == &gs_format_table || format == &gs_format_json;
    return has_timeline && !options->placed && !options->follow && !options->explain && gs_run_is_program(run);
}

/* An option that has no effect on the run is a mistake. */
static gs_code check_effects(const struct options *options, const gs_format *format, const gs_run *run,
                             gs_error *error) {
    bool is_program = gs_run_is_program(run), has_timeline = is_timeline(options, format, run);
    if (options->placed && !is_program)
        return gs_fail(error, GS_E_USAGE, "--placed is for recorded programs; of other runs every block is shown");
    if (options->top && !is_program)
        return gs_fail(error, GS_E_USAGE, "--top is for recorded programs: launches with start_us and end_us");
    if (options->top && !has_timeline && !options->compare)
        return gs_fail(error, GS_E_USAGE, "--top goes with the table and --json of a recorded program, and --compare");
    if (options->follow && !is_recording(run))
        return gs_fail(error, GS_E_USAGE, "--follow needs a recording: events with \"placed\"");
    if (options->all && (format->wants_played || format->one_run || options->explain || is_program))
        return gs_fail(error, GS_E_USAGE, "--all goes with the table, --json and --csv, of runs that are no programs");
    if (options->turn && has_timeline)
        return gs_fail(error, GS_E_USAGE, "--turn decides the SMs of blocks: add --placed to show them");
    return GS_OK;
}

/* What is assumed of kernels that are words; and of the GPU, where the output has no place for it. */
static void say_assumed(const gs_format *format, const struct subject *subject) {
    gs_text text = {0};
    if (format == &gs_format_csv)
        gs_gpu_put_assumed(subject->gpu, &text);
    gs_run_put_assumed(subject->run, &text);
    gs_print_lines("predict", &text);
    gs_text_free(&text);
}

static gs_code predict_one(const struct options *options, const gs_format *format, gs_view *view,
                           const struct subject *subject, gs_error *error) {
    gs_code code = check_effects(options, format, subject->run, error);
    if (code != GS_OK)
        return code;
    say_assumed(format, subject);
    if (is_timeline(options, format, subject->run))
        return predict_program(options, view, subject, error);
    if (options->compare && !(format == &gs_format_html && gs_run_is_program(subject->run)))
        return gs_fail(error, GS_E_USAGE, "--compare needs a recorded program: launches with start_us and end_us");
    return (options->all ? predict_possible : predict_run)(options, format, view, subject, error);
}

/* ---- the file ---- */

/* The runs of a file, or one of kernels that are words. */
struct input {
    const char *path;
    gs_runs *runs;
    const gs_words *words; /* NULL: the file */
};

/* The next run, which the caller frees; NULL: there is none, or an error. */
static gs_run *next_run(const struct input *input, size_t number, gs_error *error) {
    if (!input->words)
        return gs_runs_next(input->runs, error);
    return number ? NULL : gs_run_of_words(NULL, input->words, input->words->count, error);
}

/* A picture shows one run: refuses the first if another follows, before anything is written. */
static gs_code check_many(const struct options *options, const gs_format *format, const struct input *input,
                          gs_error *error) {
    if (!format->one_run || options->only)
        return GS_OK;
    gs_run *second = next_run(input, 1, error);
    gs_run_free(second);
    return !second ? error->code
                   : gs_fail(error, GS_E_USAGE, "the file has several runs, but --%s shows one: choose it with --run N",
                             format->name);
}

/* Predicts a recorded program with changes made in it. */
static gs_code predict_changed(const struct options *options, const gs_format *format, gs_view *view,
                               const struct subject *subject, gs_error *error) {
    gs_what_if what_if;
    gs_code code = gs_what_if_read(options->what_ifs.data[0], &what_if, error);
    if (code == GS_OK && gs_what_if_gpu(&what_if))
        code = gs_fail(error, GS_E_USAGE, "choose another GPU with --gpu, not with --what-if");
    if (code != GS_OK)
        return code;
    gs_run *changed = gs_changed_part(subject->gpu, subject->recorded_on, subject->run, NULL, &what_if, error);
    if (!changed)
        return error->code;
    struct subject with_changes = {subject->gpu, subject->recorded_on, changed};
    code = predict_one(options, format, view, &with_changes, error);
    gs_run_free(changed);
    return code;
}

static gs_code predict_all(const struct options *options, const gs_format *format, gs_view *view,
                           const struct input *input, gs_error *error) {
    gs_gpu_of_runs kept = {0};
    gs_run *run;
    size_t number = 0;
    gs_code code = GS_OK;
    while (code == GS_OK && !view->text.failed && !(options->only && view->runs) &&
           (run = next_run(input, number, error))) {
        gs_short_names names = {0};
        code = ++number == 1 ? check_many(options, format, input, error) : GS_OK;
        if (code == GS_OK && format != &gs_format_json)
            code = gs_run_shorten(run, &names, error);
        view->names = &names;
        if (code == GS_OK && (!options->only || number == (size_t)options->only)) {
            const gs_gpu *gpu = gs_gpu_for(&kept, &options->gpu, run, error);
            struct subject subject = {gpu, gpu ? gs_recorded_gpu_for(&kept, run) : NULL, run};
            if (gpu)
                gs_say_device("predict", run);
            view->number = number;
            code = !gpu ? error->code
                        : (options->what_ifs.count ? predict_changed : predict_one)(options, format, view, &subject,
                                                                                    error);
        }
        gs_run_free(run);
        gs_short_names_clear(&names);
    }
    gs_gpu_of_runs_clear(&kept);
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !view->runs)
        code = gs_fail_no_run(input->path, number, options->only, error);
    return code;
}

static gs_code predict_input(const struct options *options, const gs_format *format, const struct input *input,
                             gs_error *error) {
    gs_output output;
    gs_progress progress;
    gs_progress_start(&progress, "reading runs");
    bool is_document = format->one_run || format->end;
    gs_code code = (is_document ? gs_output_open_whole : gs_output_open)(&output, options->output, error);
    if (code == GS_OK) {
        gs_view view = {.text = gs_text_folded(output.file, format == &gs_format_table ? gs_columns(output.file) : 0),
                        .explain = options->explain,
                        .file = input->words ? NULL : input->path};
        code = predict_all(options, format, &view, input, error);
        if (code == GS_OK && format->end)
            format->end(&view);
        code = gs_output_end(&output, gs_print_text(&view.text, code, error), error);
    }
    gs_progress_end(&progress);
    return code;
}

static gs_code predict_words(const struct options *options, const gs_format *format, const gs_words *words,
                             gs_error *error) {
    struct input input = {.path = words->data[0], .words = gs_find_file_word(words) == words->count ? words : NULL};
    if (input.words && !options->gpu.name && !options->gpu.like)
        return gs_fail(error, GS_E_USAGE, "kernels on the command line need --gpu NAME (see 'gridsmith gpus')");
    if (input.words && options->only > 1)
        return gs_fail(error, GS_E_USAGE, "the kernels on the command line are one run: there is no run %lld",
                       (long long)options->only);
    input.runs = input.words ? NULL : gs_runs_open(input.path, error);
    gs_code code = input.words || input.runs ? predict_input(options, format, &input, error) : error->code;
    gs_runs_close(input.runs);
    return code;
}

static const gs_format *choose_format(const struct options *options) {
    const struct {
        bool is_chosen;
        const gs_format *format;
    } formats[] = {{options->json, &gs_format_json},
                   {options->csv, &gs_format_csv},
                   {options->svg, &gs_format_svg},
                   {options->html, &gs_format_html},
                   {options->trace, &gs_format_trace}};
    const gs_format *chosen = NULL;
    for (size_t i = 0; i < GS_COUNT(formats); i++) {
        if (formats[i].is_chosen && chosen)
            return NULL;
        if (formats[i].is_chosen)
            chosen = formats[i].format;
    }
    return chosen ? chosen : &gs_format_table;
}

/* Either one file, or kernels. 0: so it is. */
static int check_words(const gs_command *command, const gs_words *words) {
    char suggestion[100];
    for (size_t i = 0; i < words->count && words->count > 1; i++)
        if (!gs_is_launch_word(words->data[i]))
            return gs_usage(command,
                            "give one file of runs, or kernels as NAME=BLOCKSxTHREADS: \"%.60s\" is no kernel%s",
                            words->data[i], gs_suggest_option(command, words->data[i], suggestion, sizeof suggestion));
    return 0;
}

static int run_predict(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    const gs_format *format = choose_format(options);
    gs_error error = {.code = GS_OK};
    if (!format)
        return gs_usage(command, "--json, --csv, --svg, --html and --trace exclude each other");
    bool may_compare = format == &gs_format_table || format == &gs_format_json || format == &gs_format_html;
    if (options->compare && (options->placed || options->explain || options->follow || !may_compare))
        return gs_usage(command, "--compare goes with the table, with --json and with --html");
    if (options->what_ifs.count > 1)
        return gs_usage(command, "give --what-if once: changes made together are separated by commas");
    if (options->explain && format != &gs_format_table && format != &gs_format_json)
        return gs_usage(command, "--explain goes with the table and with --json");
    int status = check_words(command, words);
    if (status)
        return status;
    return predict_words(options, format, words, &error) == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_predict = {
    .name = "predict",
    .summary = "Predict the SM of every thread block, which blocks wait, and why.",
    .usage = "[options] FILE | [options] KERNEL...",
    .details =
        "FILE holds runs (gridsmith.run/1): one JSON object, or one a line; plain or gzip; - is standard input.\n"
        "Kernels can also be words, launched in the given order.\n\n" GS_KERNEL_WORDS_HELP "\n"
        "  gridsmith predict --explain scenarios/case-2.1.json\n"
        "  gridsmith predict --gpu h200 a=8x256,r32 b=4x512,s20K\n"
        "  gridsmith predict --svg -o run.svg scenarios/case-4.1.json\n"
        "  gridsmith predict --compare app.jsonl\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {1, 10000, "give a file of runs, or - for standard input, or kernels as NAME=BLOCKSxTHREADS"},
    .run = run_predict,
};
