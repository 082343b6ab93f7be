/*
 * adopt.c: gridsmith adopt: makes a description of the GPU of a pack, tests it, and adds it to the source tree.
 *
 * A pack comes from another machine. Its contents are checked (src/lab/calibrate/pack_read.c), and the GPU is measured
 * again from its recordings; the description is then compared with the held-out part. Four files change: the
 * description, the recordings, and a row each in the tables of GPUs and of recordings. Everything is computed before
 * the first is written, and if one cannot be written, the new ones are removed again.
 */
#include "cmd.h"
#include "model/view/view.h"
#include "survey_report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *name, *into;
    bool dry_run;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "name", name, "NAME",
            "name of the description (default: that in the pack, or one made from the GPU's model)"),
    GS_TEXT(struct options, "into", into, "DIR", "the source tree to add it to (default: the working directory)"),
    GS_FLAG(struct options, "dry-run", dry_run, "fit and test the pack, but write nothing"),
};

enum { DESCRIPTION, RECORDINGS, GPU_TABLE, RECORDING_TABLE, FILES };

struct session {
    const struct options *options;
    gs_gpu_pack *pack;
    gs_adoption adoption;
    char name[61];
    char paths[FILES][400];
    gs_text texts[FILES]; /* the contents of the files; the recordings before compression */
};

/* ---- the name ---- */

/* "NVIDIA GeForce RTX 3080 Laptop GPU" becomes rtx3080-laptop. */
static void name_by_title(const char *title, char *name, size_t size) {
    static const char *const skipped[] = {"NVIDIA", "GeForce", "GPU", "Tesla"};
    char words[128], *saved = NULL;
    size_t at = 0;
    snprintf(words, sizeof words, "%s", title);
    for (char *word = strtok_r(words, " -", &saved); word; word = strtok_r(NULL, " -", &saved)) {
        bool is_skipped = false;
        for (size_t i = 0; i < GS_COUNT(skipped); i++)
            is_skipped |= strcmp(word, skipped[i]) == 0;
        bool is_joined = at && isdigit((unsigned char)word[0]) && isalpha((unsigned char)name[at - 1]);
        if (!is_skipped && at && !is_joined && at + 1 < size)
            name[at++] = '-';
        for (; *word && !is_skipped && at + 1 < size; word++)
            if (isalnum((unsigned char)*word))
                name[at++] = (char)tolower((unsigned char)*word);
    }
    name[at] = '\0';
}

/* If the GPU's model already has a description, the beginning of the pack's digest is appended to the name. */
static gs_code choose_name(struct session *session, gs_error *error) {
    const gs_gpu_pack *pack = session->pack;
    const char *given = session->options->name ? session->options->name : pack->name;
    char model[40] = "";
    if (given)
        snprintf(session->name, sizeof session->name, "%s", gs_is_gpu_name(given) ? given : "");
    else
        name_by_title(pack->gpu->title ? pack->gpu->title : pack->gpu->name, model, sizeof model);
    if (model[0] && gs_gpu_builtin_name(model))
        snprintf(session->name, sizeof session->name, "%s-%.8s", model, pack->digest);
    else if (model[0])
        snprintf(session->name, sizeof session->name, "%s", model);
    if (gs_is_gpu_name(session->name))
        return GS_OK;
    return gs_fail(error, GS_E_FORMAT, "the pack has no usable name for the GPU: give one with --name");
}

/* ---- the contents of the files ---- */

/* For a table of a document: special characters are replaced. */
static void put_cell(gs_text *text, const char *words) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;()+-_/";
    for (; *words; words++)
        gs_text_put(text, strchr(allowed, *words) ? words : "?", 1);
}

static int64_t count_fitted(const gs_gpu_pack *pack) {
    int64_t count = 0;
    for (size_t i = 0; i < pack->items.count; i++)
        count += pack->items.data[i].run && pack->items.data[i].run->class_name && !pack->items.data[i].is_held_out;
    return count;
}

static void put_gpu_row(struct session *session, gs_text *row) {
    const gs_survey *survey = &session->adoption.survey;
    gs_score total = gs_scores_total(&session->adoption.held_out);
    gs_text_add(row, "| %s | ", session->name);
    put_cell(row, survey->gpu->title ? survey->gpu->title : survey->gpu->name);
    gs_text_add(row, " | ");
    put_cell(row, survey->gpu->compute_capability ? survey->gpu->compute_capability : "");
    gs_text_add(row, " | %d | %s | %lld of %lld | %lld of %lld | ", survey->gpu->sms,
                session->pack->date ? session->pack->date : "", (long long)survey->fit.best,
                (long long)survey->fit.recordings, (long long)total.runs_exact, (long long)total.runs);
    if (!gs_fit_put_undecided(row, &survey->fit))
        gs_text_add(row, "nothing");
    gs_text_add(row, " |\n");
}

static void put_recording_row(struct session *session, gs_text *row) {
    const gs_gpu_pack *pack = session->pack;
    gs_score total = gs_scores_total(&session->adoption.held_out);
    gs_text_add(row, "| `%s.jsonl.gz` | %lld | random runs of `gridsmith probe --pack` on ", session->name,
                (long long)(count_fitted(pack) + total.runs + session->adoption.uncovered));
    put_cell(row, pack->gpu->title ? pack->gpu->title : pack->gpu->name);
    if (pack->driver) {
        gs_text_add(row, " (driver: ");
        put_cell(row, pack->driver);
        gs_text_add(row, ")");
    }
    gs_text_add(row, ", %s; the first %lld are those to which `gpus/%s.json` was fitted |\n",
                pack->date ? pack->date : "not dated", (long long)count_fitted(pack), session->name);
}

/* The document with a row after the last row of its first table. */
static gs_code add_row(struct session *session, int file, void (*put_row)(struct session *, gs_text *),
                       gs_error *error) {
    enum { MOST_BYTES = 1 << 24 };
    gs_text *text = &session->texts[file];
    char *bytes = NULL;
    size_t count = 0, after = 0;
    gs_code code = gs_input_all(session->paths[file], MOST_BYTES, &bytes, &count, error);
    if (code != GS_OK)
        return code;
    for (size_t line = 0, end; line < count && (!after || bytes[line] == '|'); line = end) {
        const char *newline = memchr(bytes + line, '\n', count - line);
        end = newline ? (size_t)(newline - bytes) + 1 : count;
        after = bytes[line] == '|' ? end : after;
    }
    gs_text_put(text, bytes, after);
    put_row(session, text);
    gs_text_put(text, bytes + after, count - after);
    free(bytes);
    if (!after)
        return gs_fail(error, GS_E_FORMAT, "%s has no table to add a row to", session->paths[file]);
    return text->failed ? gs_fail_memory(error) : GS_OK;
}

/* The fitted runs, then the held-out ones. They name the new description. */
static gs_code put_recordings(struct session *session, gs_error *error) {
    gs_text *text = &session->texts[RECORDINGS];
    for (size_t i = 0; i < session->pack->items.count; i++) {
        gs_run *run = session->pack->items.data[i].run;
        if (!run || !run->class_name)
            continue;
        free(run->gpu);
        run->gpu = strdup(session->name);
        if (!run->gpu)
            return gs_fail_memory(error);
        gs_run_text(run, text);
        gs_text_put(text, "\n", 1);
    }
    return text->failed ? gs_fail_memory(error) : GS_OK;
}

static gs_code put_description(struct session *session, gs_error *error) {
    gs_text *text = &session->texts[DESCRIPTION];
    gs_gpu_text(session->adoption.survey.gpu, text);
    gs_text_put(text, "\n", 1);
    return text->failed ? gs_fail_memory(error) : GS_OK;
}

/* ---- writing ---- */

static gs_code find_files(struct session *session, gs_error *error) {
    const char *into = session->options->into ? session->options->into : ".";
    struct stat status;
    snprintf(session->paths[DESCRIPTION], 400, "%.300s/gpus/%s.json", into, session->name);
    snprintf(session->paths[RECORDINGS], 400, "%.300s/corpus/%s.jsonl.gz", into, session->name);
    snprintf(session->paths[GPU_TABLE], 400, "%.300s/docs/gpus.md", into);
    snprintf(session->paths[RECORDING_TABLE], 400, "%.300s/corpus/README.md", into);
    for (int i = GPU_TABLE; i < FILES; i++)
        if (stat(session->paths[i], &status) != 0)
            return gs_fail(error, GS_E_USAGE,
                           "%s does not exist: run adopt in the source tree of gridsmith, or name the tree with --into",
                           session->paths[i]);
    for (int i = DESCRIPTION; i <= RECORDINGS; i++)
        if (lstat(session->paths[i], &status) == 0)
            return gs_fail(error, GS_E_USAGE, "%s exists already: give another --name", session->paths[i]);
    return GS_OK;
}

/* The tables come last, when the files that they list exist. */
static gs_code write_files(struct session *session, gs_error *error) {
    gs_code code = GS_OK;
    int done = 0;
    for (; done < FILES && code == GS_OK; done++) {
        const gs_text *text = &session->texts[done];
        code = done == RECORDINGS ? gs_output_gzip(session->paths[done], text->data, text->count, error)
                                  : gs_output_text(session->paths[done], text, error);
    }
    for (int i = DESCRIPTION; i <= RECORDINGS && code != GS_OK; i++)
        if (i < done - 1)
            unlink(session->paths[i]);
    return code;
}

static gs_code add_to_tree(struct session *session, gs_error *error) {
    gs_code code = find_files(session, error);
    if (code == GS_OK)
        code = put_description(session, error);
    if (code == GS_OK)
        code = put_recordings(session, error);
    if (code == GS_OK)
        code = add_row(session, GPU_TABLE, put_gpu_row, error);
    if (code == GS_OK)
        code = add_row(session, RECORDING_TABLE, put_recording_row, error);
    return code == GS_OK ? write_files(session, error) : code;
}

/* ---- the report ---- */

static void put_verdicts(gs_text *text, const struct session *session) {
    const gs_adoption *adoption = &session->adoption;
    gs_score total = gs_scores_total(&adoption->held_out);
    gs_text_add(text, "\nheld out, not used for fitting:\n");
    gs_put_scores(text, &adoption->held_out);
    if (!total.runs)
        gs_text_add(text, "nothing was held out: the description is not tested\n");
    if (adoption->uncovered)
        gs_text_add(text, "%lld held-out runs are not covered by the model\n", (long long)adoption->uncovered);
    gs_text_add(text, "\nnot decided: ");
    if (!gs_fit_put_undecided(text, &adoption->survey.fit))
        gs_text_add(text, "nothing");
    gs_text_add(text, "\n");
    for (int i = 0; i < FILES && !session->options->dry_run; i++)
        gs_text_add(text, "%s %s\n", i <= RECORDINGS ? "new:    " : "changed:", session->paths[i]);
}

static gs_code print_report(const struct session *session, gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    gs_text_add(&text, "%s: ", session->name);
    gs_code code = gs_put_survey(&text, &session->adoption.survey, error);
    put_verdicts(&text, session);
    return gs_print_text(&text, code, error);
}

/* ---- the command ---- */

static gs_code fit_and_test(struct session *session, gs_error *error) {
    gs_progress progress;
    gs_survey_options request = {.progress = gs_show_step, .user = &progress};
    gs_progress_start(&progress, "adopting");
    gs_code code = gs_pack_adopt(session->pack, session->name, &request, &session->adoption, error);
    gs_progress_end(&progress);
    return code;
}

static void session_clear(struct session *session) {
    for (int i = 0; i < FILES; i++)
        gs_text_free(&session->texts[i]);
    gs_adoption_clear(&session->adoption);
    gs_pack_free(session->pack);
}

static int run_adopt(const gs_command *command, void *given, const gs_words *words) {
    struct session session = {.options = given};
    gs_error error = {.code = GS_OK};
    if (session.options->name && !gs_is_gpu_name(session.options->name))
        return gs_usage(command, "--name takes letters, digits, '-' and '_', not \"%.60s\"", session.options->name);
    session.pack = gs_pack_read(words->data[0], false, &error);
    gs_code code = session.pack ? choose_name(&session, &error) : error.code;
    if (code == GS_OK && !session.options->dry_run)
        code = find_files(&session, &error);
    if (code == GS_OK)
        code = fit_and_test(&session, &error);
    if (code == GS_OK && !session.options->dry_run)
        code = add_to_tree(&session, &error);
    if (code == GS_OK)
        code = print_report(&session, &error);
    gs_score total = gs_scores_total(&session.adoption.held_out);
    bool is_exact = total.runs && total.runs_exact == total.runs;
    session_clear(&session);
    return code != GS_OK ? gs_report(&error) : is_exact ? 0 : 1;
}

const gs_command gs_command_adopt = {
    .name = "adopt",
    .summary = "Make a description from the pack of a probe, test it, and add it to the source tree.",
    .usage = "[options] FILE",
    .details =
        "FILE was made by 'gridsmith probe --pack'. Exit code 0: the description agrees with every held-out run;\n"
        "1: not with all, but it is written; 2: the file is not a pack, or is damaged; nothing is written.\n\n"
        "  gridsmith adopt gpu.gspack\n"
        "  gridsmith adopt --dry-run gpu.gspack\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {1, 1, "give one pack, as 'gridsmith probe --pack' makes it"},
    .run = run_adopt,
};
