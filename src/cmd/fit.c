/*
 * fit.c: gridsmith fit: which settings of the mechanisms agree with recordings, and which run would decide between
 * them.
 */
#include "cmd.h"
#include "lab/calibrate/calibrate.h"

#include <stdlib.h>

struct options {
    gs_gpu_choice gpu;
    int64_t seed;
    bool json;
    const char *propose;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "gpu", gpu.name, "NAME|FILE",
            "the GPU: a name from 'gridsmith gpus', or a description (default: that of the first recording)"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "seed of the proposed run (default 1)"),
    GS_FLAG(struct options, "json", json, "write gridsmith.fit/1"),
    GS_TEXT(struct options, "propose", propose, "FILE",
            "write the run that would tell undecided settings apart to FILE, if one is found"),
};

/* ---- recordings ---- */

/* The origin of a recording: its file, and its number in the file, from 1. */
struct origin {
    const char *file;
    size_t number;
};

struct recordings {
    gs_run **data;
    struct origin *origins;
    size_t count, capacity, origin_capacity;
};

static gs_code add_recording(struct recordings *recordings, gs_run *run, struct origin origin, gs_error *error) {
    if (!GS_RESERVE(recordings, 1) || !gs_array_reserve((void **)&recordings->origins, recordings->count,
                                                        &recordings->origin_capacity, 1, sizeof origin)) {
        gs_run_free(run);
        return gs_fail_memory(error);
    }
    recordings->origins[recordings->count] = origin;
    recordings->data[recordings->count++] = run;
    return GS_OK;
}

static gs_code read_recordings(struct recordings *recordings, const char *path, gs_error *error) {
    struct origin origin = {.file = gs_input_name(path)};
    gs_runs *runs = gs_runs_open(path, error);
    gs_code code = runs ? GS_OK : error->code;
    gs_run *run;
    while (code == GS_OK && (run = gs_runs_next(runs, error))) {
        origin.number++;
        code = add_recording(recordings, run, origin, error);
    }
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !origin.number)
        code = gs_fail(error, GS_E_USAGE, "%s has no run", origin.file);
    gs_runs_close(runs);
    return code;
}

static void recordings_free(struct recordings *recordings) {
    for (size_t i = 0; i < recordings->count; i++)
        gs_run_free(recordings->data[i]);
    free(recordings->data);
    free(recordings->origins);
}

/* ---- as text ---- */

static void put_origin(gs_text *text, const struct recordings *recordings, size_t number) {
    const gs_run *run = recordings->data[number];
    const struct origin *origin = &recordings->origins[number];
    if (run->has_id)
        gs_text_add(text, "run %lld of %s", (long long)run->id, origin->file);
    else
        gs_text_add(text, "run number %zu of %s", origin->number, origin->file);
}

static int64_t best_of(const gs_fit *fit, const gs_mechanism *mechanism) {
    int64_t best = 0;
    for (size_t i = 0; i < fit->values.count; i++)
        if (fit->values.data[i].mechanism == mechanism && fit->values.data[i].best > best)
            best = fit->values.data[i].best;
    return best;
}

/* If no setting agrees with all recordings, a value is neither proved nor ruled out: it only does better or worse. */
static void put_verdict(gs_text *text, const gs_fit *fit, const struct recordings *recordings,
                        const gs_fit_value *value) {
    if (value->possible) {
        gs_text_add(text, "%s", gs_fit_verdict(fit, value));
    } else {
        gs_text_add(text, best_of(fit, value->mechanism) == fit->recordings ? "ruled out by " : "against it: ");
        if (value->killer == SIZE_MAX)
            gs_text_add(text, "several runs together");
        else
            put_origin(text, recordings, value->killer);
    }
    gs_text_add(text, gs_fit_is_by_block(value->mechanism) ? ", block by block\n" : "\n");
}

static void put_table(gs_text *text, const gs_fit *fit, const struct recordings *recordings) {
    gs_text_add(text, "%-19s %-12s %8s  %s\n", "mechanism", "value", "at best", "verdict");
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        gs_text_add(text, "%-19s %-12s %8lld  ", value->value ? "" : value->mechanism->name,
                    value->mechanism->values[value->value], (long long)value->best);
        put_verdict(text, fit, recordings, value);
    }
}

static void put_undecided(gs_text *text, const gs_fit *fit) {
    gs_text_add(text, "\nundecided: ");
    gs_text_add(text, gs_fit_put_undecided(text, fit) ? "\n" : "nothing\n");
}

static void put_decider(gs_text *text, const gs_run *run) {
    size_t launches = run->launches.count, exits = run->events.count - launches;
    const gs_launch *last = &run->launches.data[launches - 1];
    gs_text_add(text,
                "a run that tells some of them apart: %zu launch%s, %zu exit%s, class %s; they differ on its last "
                "launch, %lld block%s of %d threads, %d registers and %lld bytes of shared memory\n",
                launches, launches == 1 ? "" : "es", exits, exits == 1 ? "" : "s", run->class_name,
                (long long)last->blocks, last->blocks == 1 ? "" : "s", last->shape.threads, last->shape.registers,
                (long long)last->shape.shared_bytes);
}

static void put_words(gs_text *text, const gs_gpu *gpu, const gs_fit *fit, const struct recordings *recordings) {
    gs_text_add(text, "%s, %d SM%s: %lld recording%s, %lld settings of the mechanisms tried\n", gpu->name, gpu->sms,
                gpu->sms == 1 ? "" : "s", (long long)fit->recordings, fit->recordings == 1 ? "" : "s",
                (long long)fit->tried);
    gs_text_add(text, "%zu setting%s with %lld of %lld recordings%s\n\n", fit->setting_count,
                fit->setting_count == 1 ? " agrees" : "s agree", (long long)fit->best, (long long)fit->recordings,
                fit->best == fit->recordings ? "" : ", the most of any");
    put_table(text, fit, recordings);
    put_undecided(text, fit);
    if (fit->decider)
        put_decider(text, fit->decider);
    else if (fit->setting_count > 1)
        gs_text_add(text, "no random run was found that tells the settings apart\n");
}

/* ---- as JSON ---- */

static void put_json_value(gs_writer *writer, const struct recordings *recordings, const gs_fit_value *value) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "value", value->mechanism->values[value->value]);
    gs_write_bool(writer, "possible", value->possible);
    gs_write_int(writer, "best", value->best);
    if (!value->possible && value->killer == SIZE_MAX) {
        gs_write_null(writer, "ruled_out_by");
    } else if (!value->possible) {
        const gs_run *run = recordings->data[value->killer];
        gs_write_object(writer, "ruled_out_by");
        gs_write_string(writer, "file", recordings->origins[value->killer].file);
        gs_write_uint(writer, "run", recordings->origins[value->killer].number);
        if (run->has_id)
            gs_write_int(writer, "id", run->id);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* The values of a mechanism are adjacent, the first of them with the number 0. */
static void put_json_values(gs_writer *writer, const gs_fit *fit, const struct recordings *recordings) {
    gs_write_object(writer, "mechanisms");
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        bool is_last = i + 1 == fit->values.count || fit->values.data[i + 1].value == 0;
        if (value->value == 0)
            gs_write_array(writer, value->mechanism->name);
        put_json_value(writer, recordings, value);
        if (is_last)
            gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void put_json_setting(gs_writer *writer, const gs_mechanisms *setting) {
    gs_mechanisms copy = *setting;
    gs_write_object(writer, NULL);
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        gs_write_string(writer, mechanism->name, mechanism->values[*gs_mechanism_value(&copy, mechanism)]);
    }
    gs_write_end(writer);
}

static void put_json(gs_text *text, const gs_gpu *gpu, const gs_fit *fit, const struct recordings *recordings) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.fit/1");
    gs_write_string(&writer, "gpu", gpu->name);
    gs_write_int(&writer, "recordings", fit->recordings);
    gs_write_int(&writer, "settings_tried", fit->tried);
    gs_write_int(&writer, "best", fit->best);
    put_json_values(&writer, fit, recordings);
    gs_write_array(&writer, "undecided");
    for (size_t i = 0; i < gs_mechanism_count; i++)
        if (gs_fit_is_undecided(fit, i))
            gs_write_string(&writer, NULL, gs_mechanism_table[i].name);
    gs_write_end(&writer);
    gs_write_array(&writer, "settings");
    for (size_t i = 0; i < fit->setting_count; i++)
        put_json_setting(&writer, &fit->settings[i]);
    gs_write_end(&writer);
    if (fit->decider)
        gs_write_run(&writer, "propose", fit->decider);
    else
        gs_write_null(&writer, "propose");
    gs_write_finish(&writer);
}

/* ---- the command ---- */

static gs_code write_decider(const char *path, const gs_run *run, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, path, error);
    if (code != GS_OK)
        return code;
    return gs_output_end(&output, gs_run_write(run, output.file, error), error);
}

static gs_code fit_recordings(const struct options *options, const struct recordings *recordings, bool *all_agree,
                              gs_error *error) {
    gs_fit fit;
    gs_gpu *gpu = gs_choose_gpu(&options->gpu, recordings->data[0], error);
    if (!gpu)
        return error->code;
    gs_progress progress;
    gs_progress_start(&progress, "fitting");
    gs_code code =
        gs_fit_run(gpu, recordings->data, recordings->count, (uint64_t)options->seed, &progress, &fit, error);
    gs_progress_end(&progress);
    if (code == GS_OK && options->propose && fit.decider)
        code = write_decider(options->propose, fit.decider, error);
    bool is_taken = options->propose && fit.decider && strcmp(options->propose, "-") == 0;
    if (code == GS_OK && !is_taken) { /* standard output has the proposed run */
        gs_text text = gs_text_for_people(stdout);
        (options->json ? put_json : put_words)(&text, gpu, &fit, recordings);
        code = gs_print_text(&text, GS_OK, error);
    }
    *all_agree = fit.best == fit.recordings;
    gs_fit_clear(&fit);
    gs_gpu_free(gpu);
    return code;
}

static gs_code fit_files(const struct options *options, const gs_words *files, bool *all_agree, gs_error *error) {
    struct recordings recordings = {0};
    gs_code code = GS_OK;
    gs_progress progress;
    gs_progress_start(&progress, "reading recordings");
    for (size_t i = 0; i < files->count && code == GS_OK; i++) {
        gs_progress_say(&progress, "%zu of %zu files", i, files->count);
        code = read_recordings(&recordings, files->data[i], error);
    }
    gs_progress_end(&progress);
    if (code == GS_OK)
        code = fit_recordings(options, &recordings, all_agree, error);
    recordings_free(&recordings);
    return code;
}

static int run_fit(const gs_command *command, void *given, const gs_words *files) {
    gs_error error = {.code = GS_OK};
    bool all_agree = false;
    (void)command;
    if (fit_files(given, files, &all_agree, &error) != GS_OK)
        return gs_report(&error);
    return all_agree ? 0 : 1;
}

const gs_command gs_command_fit = {
    .name = "fit",
    .summary = "Find the settings of the model that agree with recordings, and a run that would decide the others.",
    .usage = "[options] FILE...",
    .details =
        "Tries every setting of the mechanisms on the recordings. \"At best\" is the number of recordings with which\n"
        "the best setting with that value agrees. Exit code 0: a setting agrees with all recordings; 1: none does.\n\n"
        "  gridsmith fit --gpu rtx3090 recordings.jsonl\n"
        "  gridsmith fit --propose next.json recordings.jsonl\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.seed = 1},
    .words = {1, SIZE_MAX, "give files of recordings, or - for standard input"},
    .run = run_fit,
};
