/*
 * check.c: gridsmith check: will all blocks of these kernels be resident together?
 */
#include "cmd.h"
#include "sched/sched.h"

struct options {
    gs_gpu_choice gpu;
    bool any_order, json;
    int64_t budget;
};

static const gs_option option_table[] = {
    GS_GPU_OPTIONS(struct options, gpu),
    GS_FLAG(struct options, "any-order", any_order,
            "exit with 0 only if every launch order works, not just that of the file"),
    GS_INT(struct options, "budget", budget, "N", 0, INT64_MAX,
           "launches to try in the search for an order that fails (default 100000)"),
    GS_FLAG(struct options, "json", json, "write gridsmith.check/1, one line per run"),
};

/* ---- for people ---- */

static void put_order(gs_text *text, const gs_run *run, const gs_order *order) {
    for (size_t i = 0; i < order->count; i++)
        gs_text_add(text, "%s%s", i ? ", then " : "", run->launches.data[order->data[i]].kernel);
}

static void put_smallest(gs_text *text, const gs_run *run, const gs_check *check) {
    if (!check->smallest.order.count)
        return;
    gs_text_add(text, check->is_least ? "  the fewest kernels that fail: " : "  of these none can be spared: ");
    put_order(text, run, &check->smallest.order);
    gs_text_add(text, "\n  %s\n", check->smallest.why.data);
}

static void put_any_order(gs_text *text, const gs_run *run, const gs_check *check) {
    if (check->order_is_fixed)
        gs_text_add(text, "in any order:  not asked, because the exits in the file fix its order\n");
    else if (check->in_any_order == GS_ANSWER_YES)
        gs_text_add(text, "in any order:  yes\n");
    else if (check->in_any_order == GS_ANSWER_NO)
        gs_text_add(text, "in any order:  no\n");
    else
        gs_text_add(text,
                    "in any order:  not known: any %zu of the kernels fit in every order, and for more the budget ran "
                    "out (--budget)\n",
                    check->searched);
    put_smallest(text, run, check);
    if (check->works.count) {
        gs_text_add(text, "an order that works: ");
        put_order(text, run, &check->works);
        gs_text_add(text, "\n");
    } else if (check->none_works) {
        gs_text_add(text, "no order works\n");
    }
}

static void put_words(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_check *check) {
    int64_t blocks = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        blocks += run->launches.data[i].blocks;
    if (run->has_id)
        gs_text_add(text, "run %lld, ", (long long)run->id);
    gs_text_add(text, "%s, %d SMs: %zu kernel%s, %lld block%s\n", gpu->name, gpu->sms, run->launches.count,
                run->launches.count == 1 ? "" : "s", (long long)blocks, blocks == 1 ? "" : "s");
    if (check->in_this_order == GS_ANSWER_YES)
        gs_text_add(text, "in this order: yes, no block waits\n");
    else
        gs_text_add(text, "in this order: no\n  %s\n", check->here.why.data);
    put_any_order(text, run, check);
}

/* ---- for programs ---- */

static void put_json_order(gs_writer *writer, const char *key, const gs_run *run, const gs_order *order) {
    gs_write_array(writer, key);
    for (size_t i = 0; i < order->count; i++)
        gs_write_string(writer, NULL, run->launches.data[order->data[i]].kernel);
    gs_write_end(writer);
}

static void put_json_conflict(gs_writer *writer, const char *key, const gs_run *run, const gs_conflict *conflict) {
    if (!conflict->order.count) {
        gs_write_null(writer, key);
        return;
    }
    gs_write_object(writer, key);
    put_json_order(writer, "kernels", run, &conflict->order);
    gs_write_int(writer, "waiting_blocks", conflict->waiting);
    gs_write_string(writer, "why", conflict->why.data);
    gs_write_end(writer);
}

static void put_json_answer(gs_writer *writer, const char *key, gs_answer answer) {
    if (answer == GS_ANSWER_UNKNOWN)
        gs_write_null(writer, key);
    else
        gs_write_bool(writer, key, answer == GS_ANSWER_YES);
}

static void put_json(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_check *check) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.check/1");
    if (run->has_id)
        gs_write_int(&writer, "id", run->id);
    gs_write_string(&writer, "gpu", gpu->name);
    put_json_answer(&writer, "in_this_order", check->in_this_order);
    put_json_answer(&writer, "in_any_order", check->order_is_fixed ? GS_ANSWER_UNKNOWN : check->in_any_order);
    put_json_conflict(&writer, "conflict", run, &check->here);
    put_json_conflict(&writer, "smallest", run, &check->smallest);
    gs_write_bool(&writer, "smallest_is_least", check->is_least);
    if (check->works.count || check->none_works)
        put_json_order(&writer, "works", run, &check->works);
    else
        gs_write_null(&writer, "works");
    gs_write_finish(&writer);
}

/* ---- the command ---- */

/* Whether the answer, to the question of this order or of any, is yes. Not known is no. */
static bool is_yes(const struct options *options, const gs_check *check) {
    if (options->any_order && !check->order_is_fixed)
        return check->in_any_order == GS_ANSWER_YES;
    return check->in_this_order == GS_ANSWER_YES;
}

static gs_code check_one(const struct options *options, const gs_run *run, gs_text *text, bool *all_yes,
                         gs_error *error) {
    gs_check check;
    gs_gpu *gpu = gs_choose_gpu(&options->gpu, run, error);
    if (!gpu)
        return error->code;
    gs_progress progress;
    gs_progress_start(&progress, "checking");
    gs_code code = gs_check_run(gpu, run, options->budget, &progress, &check, error);
    gs_progress_end(&progress);
    if (code == GS_OK) {
        *all_yes = *all_yes && is_yes(options, &check);
        (options->json ? put_json : put_words)(text, gpu, run, &check);
        gs_text_flush(text);
    }
    gs_check_clear(&check);
    gs_gpu_free(gpu);
    return code;
}

static gs_code check_file(const struct options *options, const char *path, bool *all_yes, gs_error *error) {
    gs_text text = {.sink = stdout};
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *run;
    size_t number = 0;
    gs_code code = runs ? GS_OK : error->code;
    while (code == GS_OK && (run = gs_runs_next(runs, error))) {
        if (number++ && !options->json)
            gs_text_add(&text, "\n");
        code = check_one(options, run, &text, all_yes, error);
        gs_run_free(run);
    }
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !number)
        code = gs_fail(error, GS_E_USAGE, "%s holds no run", gs_input_name(path));
    gs_runs_close(runs);
    return gs_print_text(&text, code, error);
}

static int run(const gs_command *command, void *given, const gs_words *files) {
    gs_error error = {.code = GS_OK};
    bool all_yes = true;
    (void)command;
    if (check_file(given, files->data[0], &all_yes, &error) != GS_OK)
        return gs_report(&error);
    return all_yes ? 0 : 1;
}

const gs_command gs_command_check = {
    .name = "check",
    .summary = "Will all blocks of these kernels be resident together, in this launch order and in any?",
    .usage = "[options] FILE",
    .details = "Exit code 0: yes; 1: no, with the fewest kernels and an order that fail. Durations are ignored: the\n"
               "question is whether kernels that stay (persistent kernels, spin barriers, NCCL) all get in.\n\n"
               "  gridsmith check scenarios/case-3.json\n",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .defaults = &(const struct options){.budget = 100000},
    .words = {1, 1, "give one file of runs, or - for standard input"},
    .run = run,
};
