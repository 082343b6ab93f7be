/*
 * check.c: gridsmith check: will all blocks of these kernels be resident together, and if not, what would help?
 *
 * The kernels come from a file of runs, from words of the command line (mega=132x256,r168), or from both. Words before
 * the file are launched before its kernels, words after it later.
 */
#include "check_waiting.h"
#include "cmd.h"
#include "model/view/view.h"

#include <stdlib.h>
#include <string.h>

struct options {
    gs_gpu_choice gpu;
    bool any_order, json, waiting;
    gs_words code;
    const char *fix, *kernels;
    int64_t budget;
};

static const gs_option option_table[] = {
    GS_GPU_OPTIONS(struct options, gpu),
    GS_TEXT(struct options, "kernels", kernels, "PATTERN[,PATTERN]...",
            "only these kernels of the file, each shape once; for recorded programs"),
    GS_FLAG(struct options, "waiting", waiting,
            "of a recorded program: check the kernels that wait for other blocks, and those of --kernels: each alone, "
            "and each pair that may run at the same time, in every order"),
    GS_LIST(struct options, "code", code, "FILE",
            "with --waiting: a program, library, cubin or PTX whose code tells which kernels wait; may be repeated"),
    GS_FLAG(struct options, "any-order", any_order,
            "check every launch order, not only the given one; fixes then work in every order"),
    GS_TEXT(struct options, "fix", fix, "KIND[,KIND]...",
            "which fixes to look for: order, stream, local, carveout, green, blocks, cluster, registers, shared, "
            "all or none (default all)"),
    GS_INT(struct options, "budget", budget, "N", 0, INT64_MAX,
           "launches to try in each search, for orders and for fixes (default 100000)"),
    GS_FLAG(struct options, "json", json, "write gridsmith.check/2, one line per run"),
};

/* ---- kinds of fixes ---- */

static unsigned kind_of(const char *word, size_t length) {
    for (int kind = 0; kind < GS_FIX_KINDS; kind++)
        if (strlen(gs_fix_kind_name(kind)) == length && strncmp(gs_fix_kind_name(kind), word, length) == 0)
            return 1u << kind;
    return 0;
}

static gs_code parse_kinds(const char *list, unsigned *kinds, gs_error *error) {
    *kinds = 0;
    if (!list || strcmp(list, "all") == 0)
        *kinds = (1u << GS_FIX_KINDS) - 1;
    if (*kinds || strcmp(list, "none") == 0)
        return GS_OK;
    for (const char *at = list; at;) {
        size_t length = strcspn(at, ",");
        unsigned kind = kind_of(at, length);
        if (!kind)
            return gs_fail(error, GS_E_USAGE,
                           "--fix: unknown kind \"%.*s\": use order, stream, local, carveout, green, blocks, cluster, "
                           "registers, shared, all or none",
                           (int)gs_min((int64_t)length, 40), at);
        *kinds |= kind;
        at = at[length] ? at + length + 1 : NULL;
    }
    return GS_OK;
}

/* ---- answering ---- */

/* Names of kernels for people, each of its own. */
static gs_code name_kernels(const struct options *options, gs_run *run, gs_error *error) {
    gs_short_names names = {0};
    gs_code code = options->json ? GS_OK : gs_run_shorten(run, &names, error);
    gs_short_names_clear(&names);
    return code == GS_OK ? gs_run_name_apart(run, error) : code;
}

/* Most programs do not mind that kernels wait for others to end. */
static void say_what_else(const struct options *options, const gs_run *run, const gs_check_answer *answer,
                          gs_text *text) {
    if (!answer->works && !options->json && !options->waiting && !options->kernels && gs_run_is_program(run))
        gs_text_add(text, "This asks whether all kernels of the program fit at once. Only kernels that wait for each "
                          "other need that: check --waiting.\n");
}

static gs_code check_one(const struct options *options, unsigned kinds, gs_run *run, gs_text *text, bool *all_yes,
                         gs_error *error) {
    gs_gpu *gpu = name_kernels(options, run, error) == GS_OK ? gs_choose_gpu(&options->gpu, run, error) : NULL;
    gs_check_answer answer;
    gs_progress progress;
    if (!gpu)
        return error->code;
    gs_progress_start(&progress, "checking");
    gs_fix_options fix = {
        .kinds = kinds, .every_order = options->any_order, .budget = options->budget, .progress = &progress};
    gs_code code = gs_check_all(gpu, run, &fix, &answer, error);
    gs_progress_end(&progress);
    if (code == GS_OK) {
        *all_yes = *all_yes && answer.works;
        (options->json ? gs_put_check_json : gs_put_check)(&answer, text);
        say_what_else(options, run, &answer, text);
        gs_text_flush(text);
    }
    gs_check_answer_clear(&answer);
    gs_gpu_free(gpu);
    return code;
}

/* ---- recorded programs ---- */

static gs_code check_picked(const struct options *options, unsigned kinds, const gs_run *run, const size_t *launches,
                            size_t count, gs_text *text, bool *all_yes, gs_error *error) {
    struct options every_order = *options;
    gs_run *picked = gs_run_pick(run, launches, count, error);
    every_order.any_order = count > 1;
    if (!options->json)
        gs_text_add(text, "\n");
    gs_code code = picked ? check_one(&every_order, kinds, picked, text, all_yes, error) : error->code;
    gs_run_free(picked);
    return code;
}

/* How many kernels wait, and why each of them does. */
static void say_waiting(const gs_run *run, const gs_waiting *waiting, const gs_waiting_reason *waits, gs_text *text) {
    gs_text_add(text, "%zu kernel%s of %zu launch%s wait%s for other blocks; %zu pair%s%s may run at the same time\n",
                waiting->count, waiting->count == 1 ? "" : "s", run->launches.count,
                run->launches.count == 1 ? "" : "es", waiting->count == 1 ? "s" : "", waiting->pairs.count,
                waiting->pairs.count == 1 ? "" : "s", waiting->pairs.is_complete ? "" : " and more");
    for (size_t i = 0; i < waiting->count; i++) {
        gs_text_add(text, "  %s ", run->launches.data[waiting->data[i]].kernel);
        gs_put_waiting_reason(text, &waits[waiting->data[i]]);
        gs_text_add(text, "\n");
    }
}

/* Each kernel that waits for other blocks, and each two that may run at the same time. */
static gs_code check_waiting(const struct options *options, unsigned kinds, gs_run *run, gs_text *text, bool *all_yes,
                             gs_error *error) {
    gs_waiting waiting = {0};
    gs_waiting_reason *waits = calloc(run->launches.count + 1, sizeof *waits);
    gs_gpu *gpu = gs_choose_gpu(&options->gpu, run, error);
    gs_code code = !gpu ? error->code : waits ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_waiting_mark(run, gpu, options->kernels, &options->code, waits, error);
    if (code == GS_OK)
        code = gs_waiting_find(run, waits, &waiting, error);
    if (code == GS_OK && !options->json)
        say_waiting(run, &waiting, waits, text);
    for (size_t i = 0; i < waiting.count && code == GS_OK; i++)
        code = check_picked(options, kinds, run, &waiting.data[i], 1, text, all_yes, error);
    for (size_t i = 0; i < waiting.pairs.count && code == GS_OK; i++)
        code = check_picked(options, kinds, run, waiting.pairs.data[i].data, 2, text, all_yes, error);
    gs_waiting_clear(&waiting);
    gs_gpu_free(gpu);
    free(waits);
    return code;
}

/* ---- the command ---- */

/* Checks one run of the file, with the kernels selected by the options and the words. Frees `read`. */
static gs_code check_run(const struct options *options, unsigned kinds, gs_run *read, const gs_words *words,
                         size_t file, gs_text *text, bool *all_yes, gs_error *error) {
    if (options->waiting) {
        gs_code found = check_waiting(options, kinds, read, text, all_yes, error);
        gs_run_free(read);
        return found;
    }
    gs_run *selected = options->kernels ? gs_run_select(read, options->kernels, error) : read;
    gs_run *run = selected && words->count > 1 ? gs_run_of_words(selected, words, file, error) : selected;
    gs_code code = run ? check_one(options, kinds, run, text, all_yes, error) : error->code;
    if (run != selected)
        gs_run_free(run);
    if (selected != read)
        gs_run_free(selected);
    gs_run_free(read);
    return code;
}

static gs_code check_file(const struct options *options, unsigned kinds, const gs_words *words, size_t file,
                          bool *all_yes, gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    gs_runs *runs = gs_runs_open(words->data[file], error);
    gs_run *run;
    size_t number = 0;
    gs_code code = runs ? GS_OK : error->code;
    while (code == GS_OK && (run = gs_runs_next(runs, error))) {
        if (number++ && !options->json)
            gs_text_add(&text, "\n");
        gs_say_device("check", run);
        code = check_run(options, kinds, run, words, file, &text, all_yes, error);
    }
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !number)
        code = gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(words->data[file]));
    gs_runs_close(runs);
    return gs_print_text(&text, code, error);
}

static gs_code check_words(const struct options *options, unsigned kinds, const gs_words *words, bool *all_yes,
                           gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    if (options->kernels)
        return gs_fail(error, GS_E_USAGE, "--kernels chooses kernels of a file: give a file");
    if (!options->gpu.name && !options->gpu.like)
        return gs_fail(error, GS_E_USAGE, "kernels on the command line need --gpu NAME (see 'gridsmith gpus')");
    gs_run *run = gs_run_of_words(NULL, words, words->count, error);
    gs_code code = run ? check_one(options, kinds, run, &text, all_yes, error) : error->code;
    gs_run_free(run);
    return gs_print_text(&text, code, error);
}

static int run_check(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    bool all_yes = true;
    unsigned kinds;
    size_t file = gs_find_file_word(words);
    if (file == SIZE_MAX)
        return gs_usage(command, "give one file of runs; a kernel is NAME=BLOCKSxTHREADS");
    if (options->waiting && (file == words->count || words->count > 1))
        return gs_usage(command, "--waiting takes one recording, and no kernels on the command line");
    if (options->code.count && !options->waiting)
        return gs_usage(command, "--code needs --waiting");
    gs_code code = parse_kinds(options->fix, &kinds, &error);
    if (code == GS_OK && file < words->count)
        code = check_file(options, kinds, words, file, &all_yes, &error);
    else if (code == GS_OK)
        code = check_words(options, kinds, words, &all_yes, &error);
    if (code != GS_OK)
        return gs_report(&error);
    return all_yes ? 0 : 1;
}

const gs_command gs_command_check = {
    .name = "check",
    .summary = "Will all blocks of these kernels be resident together? If not, what would help?",
    .usage = "[options] [FILE] [KERNEL...]",
    .details = "Exit code 0: yes; 1: no, with the reason and the smallest fixes, or not known, because registers that\n"
               "were not given (r) decide. Durations are ignored: the question\n"
               "is whether kernels that stay (persistent kernels, spin barriers, NCCL) all fit. Kernels are\n"
               "launched in the given order.\n\n" GS_KERNEL_WORDS_HELP "\n"
               "  gridsmith check scenarios/case-3.json\n"
               "  gridsmith check --waiting --code ./app app.jsonl\n"
               "  gridsmith check --gpu h200 mega=132x256,r168,s200K nccl=16x512,r96\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.budget = 100000},
    .words = {1, 10000, "give a file of runs, or - for standard input, or kernels as NAME=BLOCKSxTHREADS"},
    .run = run_check,
};
