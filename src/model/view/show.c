/*
 * show.c: gs_show and gs_together of the library: the answers of `gridsmith predict` and `gridsmith check` as text in
 * memory, for programs that do not start `gridsmith`.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

/* A run to show, for a GPU, and the GPU that it was recorded on. */
struct shown {
    const gs_gpu *gpu, *recorded_on;
    const gs_run *run;
    const gs_short_names *names; /* of its kernels, or NULL */
};

/* What shows one run. */
struct show {
    const char *name;
    gs_code (*put)(const struct show *show, gs_text *text, const struct shown *shown, gs_error *error);
    const gs_format *format; /* of a prediction */
    bool compares;           /* a program is compared with its recording */
};

static gs_code put_prediction(const struct show *show, gs_text *text, const struct shown *shown, gs_error *error) {
    gs_predict_options options = {.explain = show->format != &gs_format_json};
    gs_played played = {0};
    gs_view view = {.number = 1, .explain = true, .names = shown->names};
    gs_run *prediction = show->format->wants_played
                             ? gs_predict_played(shown->gpu, shown->recorded_on, shown->run, &options, &played, error)
                             : gs_predict_on(shown->gpu, shown->recorded_on, shown->run, &options, error);
    if (!prediction)
        return error->code;
    if (show->format->wants_played) {
        view.measured = shown->run;
        view.played = &played;
    }
    if (show->format->begin)
        show->format->begin(&view);
    gs_code code = show->format->run(&view, shown->gpu, prediction, error);
    if (code == GS_OK && show->format->end)
        show->format->end(&view);
    gs_run_free(prediction);
    gs_played_clear(&played);
    *text = view.text;
    return code;
}

/* The same with short names of kernels. */
static gs_code put_shortened(const struct show *show, gs_text *text, const struct shown *shown, gs_error *error) {
    gs_short_names names = {0};
    gs_run *run = gs_run_copy(shown->run, error);
    gs_code code = run ? gs_run_shorten(run, &names, error) : error->code;
    struct shown shortened = {shown->gpu, shown->recorded_on, run, &names};
    if (code == GS_OK)
        code = put_prediction(show, text, &shortened, error);
    gs_run_free(run);
    gs_short_names_clear(&names);
    return code;
}

static gs_code put_program(const struct show *show, gs_text *text, const struct shown *shown, gs_error *error) {
    gs_timeline timeline;
    gs_code code = gs_timeline_play(shown->gpu, shown->recorded_on, shown->run, NULL, &timeline, error);
    if (code != GS_OK)
        return code;
    if (show->compares)
        code = gs_put_program_compared(text, shown->gpu, shown->run, &timeline, 0, true, error);
    else
        code = gs_put_timeline_json(text, shown->gpu, shown->run, &timeline, 0, error);
    gs_timeline_clear(&timeline);
    return code;
}

static const struct show shows[] = {
    {"table", put_prediction, &gs_format_table, false},
    {"json", put_prediction, &gs_format_json, false},
    {"csv", put_prediction, &gs_format_csv, false},
    {"svg", put_prediction, &gs_format_svg, false},
    {"trace", put_prediction, &gs_format_trace, false},
    {"timeline", put_program, NULL, false},
    {"comparison", put_program, NULL, true},
    {"html", put_prediction, &gs_format_html, false},
};

static gs_code fail_format(const char *format, gs_error *error) {
    gs_similar similar = {.word = format};
    for (size_t i = 0; i < GS_COUNT(shows); i++)
        gs_similar_try(&similar, shows[i].name);
    return gs_fail(error, GS_E_USAGE, "unknown format \"%.40s\"%s", format, gs_similar_words(&similar));
}

/* The text, which the caller frees. NULL: an error. */
static char *text_or_null(gs_text *text, gs_code code, size_t *bytes, gs_error *error) {
    if (code == GS_OK && (text->failed || !text->data))
        code = gs_fail_memory(error);
    if (code != GS_OK) {
        gs_text_free(text);
        return NULL;
    }
    if (bytes)
        *bytes = text->count;
    return text->data;
}

char *gs_show(const gs_gpu *gpu, const gs_run *run, const char *format, size_t *bytes, gs_error *error) {
    gs_error ignored;
    gs_text text = {0};
    error = error ? error : &ignored;
    error->code = GS_OK;
    size_t i = 0;
    while (i < GS_COUNT(shows) && strcmp(shows[i].name, format) != 0)
        i++;
    if (i == GS_COUNT(shows)) {
        fail_format(format, error);
        return NULL;
    }
    gs_gpu *named = gs_run_is_timed(run) || gs_run_is_program(run) ? gs_gpu_recorded_on(gpu, run) : NULL;
    struct shown shown = {.gpu = gpu, .recorded_on = named ? named : gpu, .run = run};
    bool is_for_people = shows[i].format && shows[i].format != &gs_format_json;
    gs_code code = (is_for_people ? put_shortened : shows[i].put)(&shows[i], &text, &shown, error);
    gs_gpu_free(named);
    return text_or_null(&text, code, bytes, error);
}

gs_answer gs_together(const gs_gpu *gpu, const gs_run *run, const gs_together_options *options, char **json,
                      gs_error *error) {
    static const gs_together_options none;
    gs_check_answer answer;
    gs_error ignored;
    gs_text text = {0};
    options = options ? options : &none;
    gs_fix_options fix = {.kinds = json && !options->no_fixes ? (1u << GS_FIX_KINDS) - 1 : 0,
                          .every_order = options->every_order,
                          .budget = options->budget ? options->budget : 100000};
    error = error ? error : &ignored;
    if (json)
        *json = NULL;
    gs_run *named = gs_run_copy(run, error);
    gs_code code = named ? gs_run_name_apart(named, error) : error->code;
    if (code != GS_OK) {
        gs_run_free(named);
        return GS_ANSWER_ERROR;
    }
    code = gs_check_all(gpu, named, &fix, &answer, error);
    if (code == GS_OK && json) {
        gs_put_check_json(&answer, &text);
        *json = text_or_null(&text, GS_OK, NULL, error);
        code = *json ? GS_OK : error->code;
    }
    gs_answer said = answer.every_order ? answer.check.in_any_order : answer.check.in_this_order;
    gs_check_answer_clear(&answer);
    gs_run_free(named);
    return code == GS_OK ? said : GS_ANSWER_ERROR;
}

void gs_string_free(char *string) {
    free(string);
}
