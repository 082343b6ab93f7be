/*
 * plan.c: gridsmith plan: measures ahead of time which kernels should share the GPU, and in what shape.
 *
 * With --simulate it is another command (plan_simulate.c), which main.c calls.
 */
#include "cmd.h"
#include "sharing/measure/measure.h"

#include <stdlib.h>

struct options {
    const char *on, *gpu, *size, *plan, *svg, *output;
    int64_t seconds, most, seed;
    bool json, models, all, coarse, elastic, simulate;
};

static const gs_option option_table[] = {
    GS_TEXT_RENAMED(struct options, "device", "on", on, "cuda[:N]|model", "where to measure (default cuda)"),
    GS_TEXT(struct options, "gpu", gpu, "NAME|FILE",
            "the description used to compute what fits together (default: that of the GPU, or h200)"),
    GS_TEXT_RENAMED(struct options, "measurements", "plan", plan, "FILE",
                    "keep the measurements in FILE (SQLite); those in it are not repeated"),
    GS_TEXT(struct options, "size", size, "NAME", "size of zoo kernels: tiny, odd, small or large (default large)"),
    GS_FLAG(struct options, "elastic", elastic,
            "zoo kernels: also compile and measure halves and quarters of their blocks"),
    GS_FLAG(struct options, "models", models, "also measure grids and load ratios, for models of durations"),
    GS_INT(struct options, "seconds", seconds, "N", 1, 100000,
           "a measurement that takes longer has failed (default 60)"),
    GS_INT_RENAMED(struct options, "count", "most", most, "N", 1, INT64_MAX,
                   "stop after N measurements; with --measurements, the next call continues"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "model: seed of the noise (default 0)"),
    GS_FLAG(struct options, "simulate", simulate,
            "play tasks with a plan, without a GPU; see 'gridsmith plan --simulate --help'"),
    GS_FLAG(struct options, "all", all,
            "compare the choices with all ways to run each pair; with --models, forecasts with measurements"),
    GS_FLAG(struct options, "coarse", coarse, "all: a third of the ways, in coarser steps"),
    GS_TEXT(struct options, "svg", svg, "FILE", "write a heat map of the gains"),
    GS_FLAG(struct options, "json", json, "print the plan (gridsmith.plan/1) instead of a table"),
    GS_OUTPUT(struct options, output, "write the plan to FILE, for 'plan --simulate' and 'serve --plan'"),
};

/* One call of the command. */
struct planning {
    const struct options *options;
    gs_gpu *gpu;
    gs_named_kernels list;
    gs_pair_search_kernel *kernels;
    gs_model_kernel *models;
    gs_player *player;
    gs_plan_file *file;
    gs_pair_search *search;
};

static bool is_model(const struct planning *planning) {
    return planning->options->on && strcmp(planning->options->on, "model") == 0;
}

/* ---- opening ---- */

static gs_code open_model(struct planning *planning, gs_error *error) {
    static const double NOISE = 0.002;
    gs_model model = {.sms = planning->gpu->sms, .noise = NOISE, .seed = (uint64_t)planning->options->seed};
    planning->models = calloc(planning->list.count + 1, sizeof *planning->models);
    if (!planning->models)
        return gs_fail_memory(error);
    for (size_t i = 0; i < planning->list.count; i++) {
        const gs_kernel_source *source = &planning->list.data[i];
        if (source->kind != GS_SOURCE_MODEL && source->kind != GS_SOURCE_BLACK_BOX)
            return gs_fail(error, GS_E_USAGE,
                           "%s: the model knows kernels of a list that says how long they take "
                           "(gridsmith.plan-kernels/1, \"model\"), and no others",
                           source->name);
        planning->kernels[i] = source->given;
        planning->models[i] = source->model;
    }
    model.kernels = planning->models;
    planning->player = gs_player_model(&model, error);
    return planning->player ? GS_OK : error->code;
}

/* Opens the description of the command line, or that of the GPU with this name. */
static gs_code describe_gpu(struct planning *planning, const gs_player_gpu *gpu, gs_error *error) {
    gs_gpu *found = NULL;
    for (size_t i = 0; !planning->options->gpu && gs_gpu_builtin(i) && !found; i++) {
        found = gs_gpu_open(gs_gpu_builtin(i), error);
        if (found && !gs_gpu_is_called(found, gpu->name, gpu->sms)) {
            gs_gpu_free(found);
            found = NULL;
        }
    }
    if (!found && !planning->options->gpu && gpu->name[0])
        fprintf(stderr, "gridsmith plan: what fits on \"%s\" is computed for %s; --gpu names another description\n",
                gpu->name, planning->gpu->name);
    if (!found && gpu->sms != planning->gpu->sms && !(found = gs_gpu_part(planning->gpu, gpu->sms, error)))
        return error->code;
    if (found) {
        gs_gpu_free(planning->gpu);
        planning->gpu = found;
    }
    return GS_OK;
}

static gs_code open_cuda(struct planning *planning, gs_error *error) {
    const char *on = planning->options->on ? planning->options->on : "cuda";
    gs_cuda_player_options options = {.rest = strncmp(on, "cuda:", 5) == 0 ? on + 5 : "",
                                      .sources = planning->list.data,
                                      .count = planning->list.count,
                                      .seconds = planning->options->seconds};
    gs_player_gpu gpu;
    for (size_t i = 0; i < planning->list.count; i++)
        planning->list.data[i].given.is_black_box |= planning->list.data[i].kind == GS_SOURCE_MODEL;
    planning->player = gs_player_cuda(&options, planning->kernels, &gpu, error);
    return planning->player ? describe_gpu(planning, &gpu, error) : error->code;
}

static gs_code open_plan(struct planning *planning, gs_error *error) {
    const struct options *options = planning->options;
    planning->kernels = calloc(planning->list.count + 1, sizeof *planning->kernels);
    planning->gpu = gs_gpu_open(options->gpu ? options->gpu : "h200", error);
    if (!planning->kernels)
        return gs_fail_memory(error);
    gs_code code = !planning->gpu       ? error->code
                   : is_model(planning) ? open_model(planning, error)
                                        : open_cuda(planning, error);
    if (code != GS_OK || !options->plan)
        return code;
    planning->file = gs_plan_file_open(options->plan, planning->gpu->name, planning->player->ops->name, error);
    return planning->file ? gs_plan_file_kernels(planning->file, planning->kernels, planning->list.count, error)
                          : error->code;
}

static void close_plan(struct planning *planning) {
    gs_pair_search_free(planning->search);
    gs_plan_file_close(planning->file);
    gs_player_close(planning->player);
    gs_gpu_free(planning->gpu);
    gs_named_kernels_free(&planning->list);
    free(planning->kernels);
    free(planning->models);
}

/* ---- the plan ---- */

static gs_code make_plan(struct planning *planning, gs_error *error) {
    gs_pair_search_options wanted = {.models = planning->options->models};
    gs_code code = open_plan(planning, error);
    if (code != GS_OK)
        return code;
    planning->search = gs_pair_search_new(planning->gpu, planning->kernels, planning->list.count, &wanted, error);
    if (!planning->search)
        return error->code;
    gs_planning run = {.player = planning->player, .file = planning->file, .most = planning->options->most};
    return gs_planning_run(&run, planning->search, error);
}

static bool is_on_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

/* The plan on standard output is not followed by a table. */
static gs_code print_plan(const struct planning *planning, gs_error *error) {
    const struct options *options = planning->options;
    gs_text plan = {0}, picture = {0}, table = gs_text_for_people(stdout);
    gs_code code = GS_OK;
    if (options->json || options->output)
        gs_plan_put_json(&plan, planning->search);
    if (!options->json && !is_on_stdout(options->output))
        gs_plan_put_table(&table, planning->search);
    if (options->json || options->output)
        code = gs_output_text(options->output, &plan, error);
    code = gs_print_text(&table, code, error);
    if (code == GS_OK && options->svg)
        code = gs_plan_put_svg(&picture, planning->search, error);
    if (code == GS_OK && options->svg)
        code = gs_output_text(options->svg, &picture, error);
    gs_text_free(&plan);
    gs_text_free(&picture);
    return code;
}

/* ---- against all ways ---- */

/* " 2 + 3 blocks per SM; gemm: 80 registers" */
static void print_sharing(const struct planning *planning, const gs_found_pair *pair, const gs_measure_side *sides) {
    static const char *const threads[GS_SEARCH_FORMS] = {"", " half of its threads", " a quarter of its threads"};
    const int32_t kernels[2] = {pair->first, pair->second};
    printf(" %d + %d blocks per SM", sides[0].workers, sides[1].workers);
    for (int i = 0; i < 2; i++) {
        if (sides[i].form || sides[i].registers)
            printf("; %s:%s", planning->kernels[kernels[i]].name, threads[sides[i].form]);
        if (sides[i].registers)
            printf("%s %d registers", sides[i].form ? "," : "", sides[i].registers);
    }
}

static void print_compared(const struct planning *planning, size_t number, const gs_planning_compared *compared) {
    const gs_found_pair *pair = gs_pair_search_pair_at(planning->search, number);
    const gs_measure_side *sides = compared->best.sides;
    printf("%s + %s: %.1f us, best of %zu ways %.1f us (%s", planning->kernels[pair->first].name,
           planning->kernels[pair->second].name, compared->chosen_us, compared->ways, compared->best_us,
           gs_measure_name(compared->best.measure));
    if (compared->best.measure == GS_MEASURE_INTRA_SM)
        print_sharing(planning, pair, sides);
    else if (compared->best.measure == GS_MEASURE_SPLIT)
        printf(" %d + %d SMs", sides[0].sms, sides[1].sms);
    printf("): %+.1f%%\n", 100 * (compared->chosen_us / compared->best_us - 1));
    fflush(stdout);
}

static void print_errors(const char *first, const char *second, const gs_forecast_errors *errors) {
    printf("%s%s%s: ", first, second[0] ? " + " : "", second);
    if (errors->is_refused)
        printf("the model does not apply: its residual is too large\n");
    else
        printf("forecasts of %lld other sizes are off by %.1f%%, at most %.1f%%%s\n", (long long)errors->count,
               100 * errors->sum / (double)errors->count, 100 * errors->worst, errors->wave > 0 ? " (by waves)" : "");
    fflush(stdout);
}

static void add_errors(gs_forecast_errors *to, const gs_forecast_errors *errors) {
    to->sum += errors->sum;
    to->count += errors->count;
    to->worst = errors->worst > to->worst ? errors->worst : to->worst;
}

static gs_code check_models(const gs_planning *run, const struct planning *planning, gs_error *error) {
    gs_forecast_errors errors, alone = {.count = 0}, together = {.count = 0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < gs_pair_search_kernels(planning->search) && code == GS_OK; i++) {
        code = gs_planning_check_kernel(run, planning->search, i, &errors, error);
        if (code == GS_OK && (errors.count || errors.is_refused))
            print_errors(planning->kernels[i].name, "", &errors);
        add_errors(&alone, &errors);
    }
    for (size_t i = 0; i < gs_pair_search_pairs(planning->search) && code == GS_OK; i++) {
        const gs_found_pair *pair = gs_pair_search_pair_at(planning->search, i);
        code = gs_planning_check_pair(run, planning->search, i, &errors, error);
        if (code == GS_OK && (errors.count || errors.is_refused))
            print_errors(planning->kernels[pair->first].name, planning->kernels[pair->second].name, &errors);
        add_errors(&together, &errors);
    }
    if (code == GS_OK && alone.count)
        print_errors("all kernels", "", &alone);
    if (code == GS_OK && together.count)
        print_errors("all pairs", "", &together);
    return code;
}

/* Measures all ways to run each pair, and prints how far the plan is from the best. */
static gs_code compare_pairs(const struct planning *planning, gs_error *error) {
    gs_planning run = {.player = planning->player, .file = planning->file, .is_coarse = planning->options->coarse};
    gs_code code = planning->options->models ? check_models(&run, planning, error) : GS_OK;
    for (size_t i = 0; i < gs_pair_search_pairs(planning->search) && code == GS_OK; i++) {
        gs_planning_compared compared;
        code = gs_planning_compare(&run, planning->search, i, &compared, error);
        if (code == GS_OK && compared.ways)
            print_compared(planning, i, &compared);
    }
    return code;
}

/* ---- the command ---- */

static int run_plan(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    struct planning planning = {.options = options};
    gs_error error = {.code = GS_OK};
    gs_code code = GS_OK;
    if (options->on && strcmp(options->on, "model") != 0 && !gs_cuda_is_device(options->on))
        return gs_usage(command, "--device takes cuda, cuda:N or model, not \"%.40s\"", options->on);
    if (options->size && !gs_zoo_size_find(gs_zoo_at(0), options->size))
        return gs_usage(command, "--size takes tiny, odd, small or large, not \"%.40s\"", options->size);
    if (options->all && options->json)
        return gs_usage(command, "--all and --json exclude each other");
    if (options->all && is_on_stdout(options->output))
        return gs_usage(command, "--all prints its comparison: --output takes the name of a file");
    if (options->plan && options->output && gs_is_same_path(options->plan, options->output))
        return gs_usage(command, "--measurements and --output name the same file");
    if (options->svg &&
        (is_on_stdout(options->svg) || (options->output && gs_is_same_path(options->svg, options->output))))
        return gs_usage(command, "--svg takes the name of a file of its own");
    if (options->coarse && !options->all)
        return gs_usage(command, "--coarse is for --all");
    planning.list = (gs_named_kernels){.size = options->size ? options->size : "large", .is_elastic = options->elastic};
    for (size_t i = 0; i < words->count && code == GS_OK; i++)
        code = gs_named_kernels_add(&planning.list, words->data[i], &error);
    if (code == GS_OK)
        code = make_plan(&planning, &error);
    if (code == GS_OK)
        code = print_plan(&planning, &error);
    if (code == GS_OK && options->all)
        code = compare_pairs(&planning, &error);
    close_plan(&planning);
    return code == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_plan = {
    .name = "plan",
    .summary = "Measure which kernels should share the GPU, and in what shape; simulate plans without a GPU.",
    .usage = "KERNEL|FILE... [options] | --simulate|--play PLAN --tasks LIST [options]",
    .details = "Measures each kernel alone and each pair: on the same SMs, on separate SMs, and in sequence. "
               "Each is\n"
               "  a kernel of the zoo ('gridsmith zoo list'),\n"
               "  FILE.cu:KERNEL or FILE.ptx:KERNEL, with its launch in FILE.json (gridsmith.launch/1),\n"
               "  a list of kernels (gridsmith.plan-kernels/1), or\n"
               "  a recorded program (gridsmith.run/1), whose kernels are black boxes: their partners are fitted "
               "around them.\n\n"
               "  gridsmith plan tgemm lbm black_scholes --measurements kernels.db\n"
               "  gridsmith plan kernels/reduce.cu:'reduce<256>' tgemm -o plan.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.seconds = 60},
    .words = {1, GS_SEARCH_KERNELS, "give kernels of the zoo, or files with kernels"},
    .run = run_plan,
};
