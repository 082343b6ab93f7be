/*
 * plan.c: gridsmith plan: which kernels share the GPU, and in what shape: measured ahead of time.
 */
#include "cmd.h"
#include "pairs/pairs.h"

#include <stdlib.h>

struct options {
    const char *on, *gpu, *size, *plan, *svg;
    int64_t seconds, most;
    bool json, models, all;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "on", on, "cuda[:N]|model", "where to measure (default cuda)"),
    GS_TEXT(struct options, "gpu", gpu, "NAME|FILE", "the description that says what fits together (default h200)"),
    GS_TEXT(struct options, "plan", plan, "FILE", "the plan file (SQLite): what it has is not measured again"),
    GS_TEXT(struct options, "size", size, "NAME", "of kernels of the zoo: tiny, odd, small or large (default large)"),
    GS_FLAG(struct options, "models", models, "also measure grids and load ratios, for models of durations"),
    GS_INT(struct options, "seconds", seconds, "N", 1, 100000,
           "a measurement that takes longer has failed (default 60)"),
    GS_INT(struct options, "most", most, "N", 1, INT64_MAX, "stop after N measurements; the plan goes on with --plan"),
    GS_FLAG(struct options, "all", all, "compare what is chosen with all ways to run each pair"),
    GS_TEXT(struct options, "svg", svg, "FILE", "write a heat map of the gains"),
    GS_FLAG(struct options, "json", json, "write gridsmith.plan/1"),
};

/* One call of the command. */
struct planning {
    const struct options *options;
    gs_gpu *gpu;
    gs_pairs_source *sources;
    gs_search_kernel *kernels;
    size_t count;
    gs_player *player;
    gs_plan_file *file;
    gs_search *search;
};

static int add_source(const gs_command *command, struct planning *planning, const char *word) {
    gs_pairs_source *source = &planning->sources[planning->count];
    if (!gs_zoo_find(word))
        return gs_usage(command, "there is no kernel \"%.40s\"", word);
    source->kind = GS_PAIRS_ZOO;
    snprintf(source->name, sizeof source->name, "%s", word);
    snprintf(source->size, sizeof source->size, "%s", planning->options->size ? planning->options->size : "large");
    planning->count++;
    return 0;
}

static gs_code open_player(struct planning *planning, gs_error *error) {
    const char *on = planning->options->on ? planning->options->on : "cuda";
    gs_cuda_player_options options = {.rest = strncmp(on, "cuda:", 5) == 0 ? on + 5 : "",
                                      .sources = planning->sources,
                                      .count = planning->count,
                                      .seconds = planning->options->seconds};
    int32_t sms = 0;
    planning->player = gs_player_cuda(&options, planning->kernels, &sms, error);
    if (!planning->player)
        return error->code;
    if (sms == planning->gpu->sms)
        return GS_OK;
    gs_gpu *part = gs_gpu_part(planning->gpu, sms, error);
    if (!part)
        return error->code;
    gs_gpu_free(planning->gpu);
    planning->gpu = part;
    return GS_OK;
}

static gs_code make_plan(struct planning *planning, gs_error *error) {
    const struct options *options = planning->options;
    gs_search_options wanted = {.models = options->models};
    planning->gpu = gs_gpu_open(options->gpu ? options->gpu : "h200", error);
    gs_code code = planning->gpu ? open_player(planning, error) : error->code;
    if (code != GS_OK)
        return code;
    if (options->plan) {
        planning->file = gs_plan_file_open(options->plan, planning->gpu->name, planning->player->ops->name, error);
        code = planning->file ? gs_plan_file_kernels(planning->file, planning->kernels, planning->count, error)
                              : error->code;
    }
    if (code != GS_OK)
        return code;
    planning->search = gs_search_new(planning->gpu, planning->kernels, planning->count, &wanted, error);
    if (!planning->search)
        return error->code;
    gs_planning run = {.player = planning->player, .file = planning->file, .most = options->most};
    return gs_planning_run(&run, planning->search, error);
}

static int print_plan(const struct planning *planning, gs_error *error) {
    gs_text text = {.sink = stdout};
    if (planning->options->json)
        gs_plan_put_json(&text, planning->search);
    else
        gs_plan_put_table(&text, planning->search);
    return gs_print_text(&text, GS_OK, error) == GS_OK ? 0 : gs_report(error);
}

static void print_compared(const struct planning *planning, size_t number, const gs_planning_compared *compared) {
    const gs_found_pair *pair = gs_search_pair_at(planning->search, number);
    const gs_measure_side *sides = compared->best.sides;
    printf("%s + %s: %.1f us, best of %zu ways %.1f us (%s", planning->kernels[pair->first].name,
           planning->kernels[pair->second].name, compared->chosen_us, compared->ways, compared->best_us,
           gs_measure_name(compared->best.measure));
    if (compared->best.measure == GS_MEASURE_INSIDE)
        printf(" %d + %d blocks per SM", sides[0].workers, sides[1].workers);
    else if (compared->best.measure == GS_MEASURE_SPLIT)
        printf(" %d + %d SMs", sides[0].sms, sides[1].sms);
    printf("): %+.1f%%\n", 100 * (compared->chosen_us / compared->best_us - 1));
    fflush(stdout);
}

/* Measures all ways to run each pair, and prints how far the plan is from the best. */
static int compare(const struct planning *planning, gs_error *error) {
    gs_planning run = {.player = planning->player};
    for (size_t i = 0; i < gs_search_pairs(planning->search); i++) {
        gs_planning_compared compared;
        if (gs_planning_compare(&run, planning->search, i, &compared, error) != GS_OK)
            return gs_report(error);
        if (compared.ways)
            print_compared(planning, i, &compared);
    }
    return 0;
}

static void close_plan(struct planning *planning) {
    gs_search_free(planning->search);
    gs_plan_file_close(planning->file);
    gs_player_close(planning->player);
    gs_gpu_free(planning->gpu);
    free(planning->sources);
    free(planning->kernels);
}

static int run(const gs_command *command, void *given, const gs_words *words) {
    struct planning planning = {.options = given,
                                .sources = calloc(words->count + 1, sizeof *planning.sources),
                                .kernels = calloc(words->count + 1, sizeof *planning.kernels)};
    gs_error error = {.code = GS_OK};
    int status = planning.sources && planning.kernels ? 0 : gs_report_memory();
    for (size_t i = 0; i < words->count && !status; i++)
        status = add_source(command, &planning, words->data[i]);
    if (!status)
        status = make_plan(&planning, &error) == GS_OK ? print_plan(&planning, &error) : gs_report(&error);
    if (!status && planning.options->all)
        status = compare(&planning, &error);
    close_plan(&planning);
    return status;
}

const gs_command gs_command_plan = {
    .name = "plan",
    .summary = "Which kernels share the GPU, in what shape: measured ahead of time.",
    .usage = "KERNEL... [options]",
    .details = "  gridsmith plan tgemm conv lbm black_scholes --on cuda --plan kernels.plan\n",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .defaults = &(const struct options){.seconds = 60},
    .words = {1, GS_SEARCH_KERNELS, "give the names of kernels"},
    .run = run,
};
