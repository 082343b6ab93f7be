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
            "let the exit code speak for every launch order, not only the file's"),
    GS_INT(struct options, "budget", budget, "N", 0, INT64_MAX,
           "launches to try in the search through orders (default 100000)"),
    GS_FLAG(struct options, "json", json, "write gridsmith.check/1, a line a run"),
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

static void put_json_order(gs_text *text, const gs_run *run, const gs_order *order) {
    gs_text_add(text, "[");
    for (size_t i = 0; i < order->count; i++) {
        gs_text_add(text, i ? "," : "");
        gs_text_put_json(text, run->launches.data[order->data[i]].kernel);
    }
    gs_text_add(text, "]");
}

static void put_json_conflict(gs_text *text, const gs_run *run, const char *key, const gs_conflict *conflict) {
    if (!conflict->order.count) {
        gs_text_add(text, ",\"%s\":null", key);
        return;
    }
    gs_text_add(text, ",\"%s\":{\"kernels\":", key);
    put_json_order(text, run, &conflict->order);
    gs_text_add(text, ",\"waiting_blocks\":%lld,\"why\":", (long long)conflict->waiting);
    gs_text_put_json(text, conflict->why.data);
    gs_text_add(text, "}");
}

static void put_json(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_check *check) {
    static const char *const answers[] = {
        [GS_ANSWER_NO] = "false", [GS_ANSWER_YES] = "true", [GS_ANSWER_UNKNOWN] = "null"};
    gs_text_add(text, "{\"schema\":\"gridsmith.check/1\"");
    if (run->has_id)
        gs_text_add(text, ",\"id\":%lld", (long long)run->id);
    gs_text_add(text, ",\"gpu\":");
    gs_text_put_json(text, gpu->name);
    gs_text_add(text, ",\"in_this_order\":%s,\"in_any_order\":%s", answers[check->in_this_order],
                check->order_is_fixed ? "null" : answers[check->in_any_order]);
    put_json_conflict(text, run, "conflict", &check->here);
    put_json_conflict(text, run, "smallest", &check->smallest);
    gs_text_add(text, ",\"smallest_is_least\":%s,\"works\":", check->is_least ? "true" : "false");
    if (check->works.count)
        put_json_order(text, run, &check->works);
    else
        gs_text_add(text, check->none_works ? "[]" : "null");
    gs_text_add(text, "}\n");
}

/* ---- the command ---- */

/* Whether the answer that was asked for is yes. Not knowing is no. */
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
    gs_code code = gs_check_run(gpu, run, options->budget, &check, error);
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
    gs_text_flush(&text);
    gs_runs_close(runs);
    gs_text_free(&text);
    return code;
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
