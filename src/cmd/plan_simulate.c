/*
 * plan_simulate.c: gridsmith plan --simulate: plays tasks with a plan, in order and in pairs; and with --play on a GPU,
 * too.
 */
#include "cmd.h"
#include "plan_verbs.h"
#include "sharing/decide/decide.h"
#include "zoo_verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct simulate_options {
    bool simulate, play, json;
    const char *tasks, *gpu, *gemm, *size;
    int64_t rounds, seconds, together, for_ms, batch, noise, seed, unknown, patience_us;
} simulate_options;

static const gs_option option_table[] = {
    GS_FLAG(simulate_options, "simulate", simulate, "play tasks with a plan, without a GPU"),
    GS_FLAG(simulate_options, "play", play,
            "also play them on the GPU: one after the other, on streams, under MPS, and through the daemon"),
    GS_INT(simulate_options, "rounds", rounds, "N", 1, GS_PLAY_ROUNDS, "play: rounds, whose median counts (default 5)"),
    GS_INT(simulate_options, "seconds", seconds, "N", 4, 100000, "play: end after this time (default 600)"),
    GS_TEXT(simulate_options, "size", size, "NAME", "play: the size of the kernels and networks (default large)"),
    GS_TEXT_REQUIRED(simulate_options, "tasks", tasks, "LIST",
                     "networks, kernels of the plan, or files of tasks and networks or recordings, separated by "
                     "commas; NAME:N runs N "
                     "times"),
    GS_TEXT(simulate_options, "gpu", gpu, "NAME|FILE", "the simulated GPU (default: the GPU of the plan)"),
    GS_INT(simulate_options, "together", together, "N", 1, 2,
           "most launches at a time; 1 is in order (default: 1 and 2, compared)"),
    GS_INT(simulate_options, "for", for_ms, "MS", 1, 100000000,
           "repeat tasks until this time has passed (default: as often as they say)"),
    GS_INT(simulate_options, "batch", batch, "N", 1, 1 << 16, "batch size of networks, in images (default 32)"),
    GS_TEXT(simulate_options, "gemm", gemm, "NAME[:RxCxD]",
            "the matrix product of networks: a block has RxC of the result, and D steps in the plan (default "
            "tgemm:64x64x2048)"),
    GS_INT(simulate_options, "noise", noise, "PERCENT", 0, 50,
           "the largest deviation of durations and rates from the plan (default 0)"),
    GS_INT(simulate_options, "seed", seed, "N", 0, INT64_MAX, "seed of the noise (default 0)"),
    GS_INT(simulate_options, "unknown", unknown, "PERCENT", 10, 200,
           "throughput of pairs that the plan lacks, relative to running in sequence (default 100)"),
    GS_INT(simulate_options, "patience", patience_us, "US", 1, INT32_MAX,
           "each time that a launch has waited this long, it goes before more others (default 100000)"),
    GS_FLAG(simulate_options, "json", json, "write gridsmith.simulation/1"),
};

enum { POLICIES = 2 };

/* One call of the command. */
struct study {
    const simulate_options *options;
    gs_plan_table table;
    gs_task_list tasks;
    gs_network_options network;
    gs_gpu *recorded_on, *other; /* other: NULL if it is the same */
    int32_t together[POLICIES];
    gs_simulation results[POLICIES];
    int count;
    gs_plan_played played; /* with --play */
    bool is_played, has_blas;
};

/* ---- the command line ---- */

/* NAME[:RxCxD] */
static bool read_gemm(const char *text, char *name, size_t size, gs_network_options *network) {
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    char rest;
    if (length == 0 || length >= size)
        return false;
    memcpy(name, text, length);
    name[length] = 0;
    network->gemm = name;
    return !colon || (sscanf(colon, ":%dx%dx%d%c", &network->rows, &network->columns, &network->depth, &rest) == 3 &&
                      network->rows > 0 && network->columns > 0 && network->depth > 0);
}

/* Whether a word can only be a file. */
static bool is_path(const char *name) {
    const char *dot = strrchr(name, '.');
    return strchr(name, '/') || strcmp(name, "-") == 0 ||
           (dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".gz") == 0));
}

static gs_code add_file(struct study *study, const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    if (!input)
        return error->code;
    return gs_task_list_read(&study->tasks, input, &study->network, &study->table, error);
}

static gs_code fail_unknown(const struct study *study, const char *name, gs_error *error) {
    gs_similar similar = {.word = name};
    if (gs_plan_table_is_unmeasured(&study->table, name))
        return gs_fail(error, GS_E_USAGE, "the plan has no duration of \"%.60s\"", name);
    for (size_t i = 0; gs_network_at(i); i++)
        gs_similar_try(&similar, gs_network_at(i));
    for (size_t i = 0; i < study->table.kernels.count; i++)
        gs_similar_try(&similar, study->table.kernels.data[i].name);
    return gs_fail(error, GS_E_USAGE, "\"%.60s\" is neither a network, a kernel of the plan, nor a file%s", name,
                   gs_similar_words(&similar));
}

/* Networks and kernels of the plan go before files of the same name. */
static bool is_file(const struct study *study, const char *word) {
    return is_path(word) ||
           (!gs_network_exists(word) && gs_plan_table_find(&study->table, word) < 0 && access(word, F_OK) == 0);
}

/* A plan has no durations of cuBLAS: only --play takes it, and the forecast is that of the kernel of the plan. */
static gs_code cut_blas(struct study *study, char *word, gs_error *error) {
    char whole[80];
    snprintf(whole, sizeof whole, "%.*s", (int)sizeof whole - 1, word);
    if (!gs_zoo_cut_blas(word))
        return GS_OK;
    study->has_blas = true;
    return study->options->play
               ? GS_OK
               : gs_fail(error, GS_E_USAGE, "\"%.60s\": cuBLAS goes with --play, because a plan has no durations of it",
                         whole);
}

/* NAME[/cublas][:N] */
static gs_code add_word(struct study *study, char *word, gs_error *error) {
    gs_code code = cut_blas(study, word, error);
    if (code != GS_OK)
        return code;
    char *colon = strrchr(word, ':'), *end = colon;
    int64_t repeat = colon ? strtoll(colon + 1, &end, 10) : 1;
    bool is_number = colon && end != colon + 1 && !*end;
    if (is_file(study, word) && (!is_number || access(word, F_OK) == 0))
        return add_file(study, word, error);
    if (colon && (!is_number || repeat < 1 || repeat > INT32_MAX))
        return gs_fail(error, GS_E_USAGE, "\"%.60s\" must be NAME:N, with a number from 1 to %d", word, INT32_MAX);
    if (colon)
        *colon = 0;
    if (is_file(study, word))
        return gs_fail(error, GS_E_USAGE,
                       "\"%.60s\" is a file, which takes no \":%lld\": \"repeat\" of a task says how often it runs",
                       word, (long long)repeat);
    if (gs_network_exists(word))
        return gs_task_list_add_network(&study->tasks, word, &study->network, &study->table, repeat, error);
    int32_t kernel = gs_plan_table_find(&study->table, word);
    return kernel >= 0 ? gs_task_list_add_kernel(&study->tasks, kernel, &study->table, repeat, error)
                       : fail_unknown(study, word, error);
}

static bool has_empty_word(const char *list) {
    size_t length = strlen(list);
    return !length || list[0] == ',' || list[length - 1] == ',' || strstr(list, ",,");
}

static gs_code add_tasks(struct study *study, gs_error *error) {
    if (has_empty_word(study->options->tasks))
        return gs_fail(error, GS_E_USAGE, "--tasks has a place without a name: \"%.60s\"", study->options->tasks);
    char *list = strdup(study->options->tasks), *rest = NULL;
    gs_code code = list ? GS_OK : gs_fail_memory(error);
    for (char *word = list ? strtok_r(list, ",", &rest) : NULL; word && code == GS_OK;
         word = strtok_r(NULL, ",", &rest))
        code = add_word(study, word, error);
    free(list);
    return code;
}

static bool has_network(const struct study *study) {
    bool found = false;
    for (size_t i = 0; i < study->tasks.count && !found; i++)
        found = study->tasks.data[i].is_network;
    return found;
}

static gs_code read_plan(struct study *study, const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    if (!input)
        return error->code;
    gs_code code = gs_plan_table_read(input, &study->table, error);
    gs_input_close(input);
    return code;
}

/* The GPU of the plan, and that of --gpu. */
static gs_code open_gpus(struct study *study, gs_error *error) {
    const char *plan = study->table.gpu, *wanted = study->options->gpu;
    if (!plan && !wanted)
        return gs_fail(error, GS_E_USAGE, "the plan does not name its GPU: use --gpu");
    study->recorded_on = gs_gpu_open(plan ? plan : wanted, error);
    if (study->recorded_on && wanted && plan && strcmp(wanted, plan) != 0)
        study->other = gs_gpu_open(wanted, error);
    bool is_done = study->recorded_on && (study->other || !wanted || !plan || strcmp(wanted, plan) == 0);
    return is_done ? gs_plan_table_divide(&study->table, study->recorded_on, error) : error->code;
}

/* ---- playing ---- */

static gs_code play_study(struct study *study, int32_t together, gs_progress *progress, gs_error *error) {
    const simulate_options *options = study->options;
    gs_simulation_options simulation = {.gpu = study->other ? study->other : study->recorded_on,
                                        .recorded_on = study->recorded_on,
                                        .together = together,
                                        .for_us = (double)options->for_ms * 1000,
                                        .noise = (double)options->noise / 100,
                                        .seed = (uint64_t)options->seed,
                                        .unknown = (double)options->unknown / 100,
                                        .patience_us = (double)options->patience_us,
                                        .progress = progress};
    study->together[study->count] = together;
    return gs_simulate(&study->table, &study->tasks, &simulation, &study->results[study->count++], error);
}

static gs_code play_all(struct study *study, gs_error *error) {
    int32_t wanted = (int32_t)study->options->together;
    gs_progress progress;
    gs_progress_start(&progress, "simulating");
    gs_code code = wanted > 0 ? play_study(study, wanted, &progress, error) : GS_OK;
    for (int i = 0; i < POLICIES && wanted == 0 && code == GS_OK; i++)
        code = play_study(study, i + 1, &progress, error);
    gs_progress_end(&progress);
    return code;
}

/* ---- output ---- */

static double throughput_of(const gs_simulation *result) {
    return result->end_us > 0 ? result->alone_us / result->end_us : 1;
}

static void print_tasks(const struct study *study, const gs_simulation *result) {
    printf("\n%-16s %8s %12s %12s %12s\n", "task", "runs", "alone ms", "mean ms", "longest ms");
    for (size_t i = 0; i < result->task_count; i++) {
        const gs_simulated_task *task = &result->tasks[i];
        printf("%-16s %8llu %12.3f %12.3f %12.3f\n", study->tasks.data[i].name, (unsigned long long)task->done,
               task->alone_us / 1000, task->mean_us / 1000, task->longest_us / 1000);
    }
}

static void print_played(const struct study *study) {
    const gs_plan_played *played = &study->played;
    const struct {
        const char *name;
        double us;
    } rows[] = {{"one after the other", played->alone_us},
                {"streams", played->streams_us},
                {"MPS", played->mps_us},
                {"daemon", played->served_us}};
    printf("\n%-20s %12s %12s\n", "on the GPU", "time ms", "throughput");
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        if (rows[i].us > 0 && played->alone_us > 0)
            printf("%-20s %12.3f %12.3f\n", rows[i].name, rows[i].us / 1000, played->alone_us / rows[i].us);
        else if (rows[i].us > 0)
            printf("%-20s %12.3f %12s\n", rows[i].name, rows[i].us / 1000, "-");
}

static void print_table(const struct study *study) {
    printf("%-10s %10s %12s %12s %10s %16s\n", "policy", "launches", "time ms", "throughput", "together",
           "longest wait ms");
    for (int i = 0; i < study->count; i++) {
        const gs_simulation *result = &study->results[i];
        printf("%-10s %10llu %12.3f %12.3f %9.1f%% %16.3f\n", study->together[i] == 1 ? "in order" : "pairs",
               (unsigned long long)result->launches, result->end_us / 1000, throughput_of(result),
               100 * (double)result->shared / (double)gs_max_u64(result->launches, 1), result->longest_wait_us / 1000);
    }
    print_tasks(study, &study->results[study->count - 1]);
}

static void write_result(gs_writer *writer, const struct study *study, int at) {
    const gs_simulation *result = &study->results[at];
    gs_write_object(writer, NULL);
    gs_write_int(writer, "together", study->together[at]);
    gs_write_uint(writer, "launches", result->launches);
    gs_write_uint(writer, "launches_beside_others", result->shared);
    gs_write_real(writer, "time_us", result->end_us, 3);
    gs_write_real(writer, "alone_us", result->alone_us, 3);
    gs_write_real(writer, "throughput", throughput_of(result), 6);
    gs_write_real(writer, "longest_wait_us", result->longest_wait_us, 3);
    gs_write_array(writer, "tasks");
    for (size_t i = 0; i < result->task_count; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "task", study->tasks.data[i].name);
        gs_write_uint(writer, "runs", result->tasks[i].done);
        gs_write_real(writer, "alone_us", result->tasks[i].alone_us, 3);
        gs_write_real(writer, "mean_us", result->tasks[i].mean_us, 3);
        gs_write_real(writer, "longest_us", result->tasks[i].longest_us, 3);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_end(writer);
}

static void write_played(gs_writer *writer, const char *key, double us) {
    if (us > 0)
        gs_write_real(writer, key, us, 3);
}

static gs_code write_json(const struct study *study, gs_error *error) {
    gs_text text = gs_text_for_people(stdout);
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.simulation/1");
    gs_write_string(&writer, "gpu", gs_gpu_name(study->other ? study->other : study->recorded_on));
    gs_write_uint(&writer, "guessed_durations", study->results[0].doubtful);
    gs_write_array(&writer, "policies");
    for (int i = 0; i < study->count; i++)
        write_result(&writer, study, i);
    gs_write_end(&writer);
    if (study->is_played) {
        gs_write_object(&writer, "played");
        write_played(&writer, "alone_us", study->played.alone_us);
        write_played(&writer, "streams_us", study->played.streams_us);
        write_played(&writer, "mps_us", study->played.mps_us);
        write_played(&writer, "daemon_us", study->played.served_us);
    }
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, error);
}

/* Warns if durations of launches are extrapolated. */
static void note_doubts(const struct study *study) {
    size_t all = 0;
    for (size_t i = 0; i < study->tasks.count; i++)
        all += study->tasks.data[i].launches.count;
    if (study->results[0].doubtful > 0)
        fprintf(stderr, "gridsmith plan: the durations of %llu of %zu launches are extrapolated: %s\n",
                (unsigned long long)study->results[0].doubtful, all, gs_doubt_text(study->results[0].doubt));
    size_t reshaped = 0;
    for (size_t i = 0; i < study->table.pairs.count; i++)
        reshaped += study->table.pairs.data[i].option == GS_TABLE_INTRA_SM && study->table.pairs.data[i].is_reshaped;
    if (reshaped > 0)
        fprintf(
            stderr,
            "gridsmith plan: %zu pair%s of the plan need%s kernels with fewer registers or threads, which the daemon "
            "does not have: they run in sequence\n",
            reshaped, reshaped == 1 ? "" : "s", reshaped == 1 ? "s" : "");
    const char *stand_in = gs_plan_table_find(&study->table, "transpose") >= 0 ? "using transpose instead" : "left out";
    if (has_network(study) && gs_plan_table_find(&study->table, "im2col") < 0)
        fprintf(stderr, "gridsmith plan: the plan has no im2col: %s\n", stand_in);
    if (study->has_blas)
        fprintf(stderr, "gridsmith plan: forecasts of products of cuBLAS are those of the kernel of the plan\n");
    if (study->other)
        fprintf(stderr,
                "gridsmith plan: durations are those of %s, with the waves of %s; clocks and memory are not compared\n",
                gs_gpu_name(study->recorded_on), gs_gpu_name(study->other));
}

static void free_study(struct study *study) {
    for (int i = 0; i < study->count; i++)
        gs_simulation_clear(&study->results[i]);
    gs_task_list_clear(&study->tasks);
    gs_plan_table_clear(&study->table);
    gs_gpu_free(study->recorded_on);
    gs_gpu_free(study->other);
}

/* Reads all, so that mistakes are found before anything is printed, and simulates. */
static gs_code make_study(struct study *study, const char *plan, gs_error *error) {
    gs_code code = read_plan(study, plan, error);
    if (code == GS_OK)
        code = open_gpus(study, error);
    if (code == GS_OK)
        code = add_tasks(study, error);
    if (code == GS_OK && study->options->gemm && !has_network(study))
        code = gs_fail(error, GS_E_USAGE, "--gemm is for networks, and no task is one");
    return code == GS_OK ? play_all(study, error) : code;
}

static gs_code print_study(const struct study *study, gs_error *error) {
    note_doubts(study);
    if (study->options->json)
        return write_json(study, error);
    print_table(study);
    return GS_OK;
}

/* The simulation is printed before it is played, or, as JSON, with it. If it cannot be played, it is printed alone. */
static gs_code play_on_gpu(struct study *study, const char *plan, gs_error *error) {
    const simulate_options *options = study->options;
    gs_plan_play_options wanted = {plan, options->tasks, options->size ? options->size : "large",
                                   options->rounds ? options->rounds : 5, options->seconds ? options->seconds : 600};
    gs_plan_play *play = gs_plan_play_open(&wanted, error);
    if (!play)
        return error->code;
    if (!options->json)
        print_study(study, NULL);
    gs_code code = gs_flush(stdout) ? gs_plan_play_run(play, &study->played, error)
                                    : gs_fail_system(error, "write", "standard output");
    gs_plan_play_close(play);
    study->is_played = code == GS_OK;
    if (options->json && study->is_played)
        return print_study(study, error);
    if (options->json)
        print_study(study, NULL);
    else if (study->is_played)
        print_played(study);
    return code;
}

static int run_simulate(const gs_command *command, void *given, const gs_words *words) {
    struct study study = {.options = given, .network = gs_network_defaults()};
    const simulate_options *options = given;
    gs_error error = {.code = GS_OK};
    char gemm[96];
    if (!options->play && (options->rounds || options->seconds || options->size))
        return gs_usage(command, "--rounds, --seconds and --size are for --play");
    if (options->gemm && !read_gemm(options->gemm, gemm, sizeof gemm, &study.network))
        return gs_usage(command, "--gemm must be NAME or NAME:ROWSxCOLUMNSxDEPTH, not \"%.60s\"", options->gemm);
    study.network.batch = (int32_t)options->batch;
    gs_code code = make_study(&study, words->data[0], &error);
    if (code == GS_OK)
        code = options->play ? play_on_gpu(&study, words->data[0], &error) : print_study(&study, &error);
    free_study(&study);
    return code == GS_OK ? study.played.is_late : gs_report(&error);
}

static const gs_command command_simulate = {
    .name = "plan",
    .summary = "Play tasks with a plan, without a GPU.",
    .usage = "--simulate|--play PLAN --tasks LIST [options]",
    .help = "plan --simulate",
    .details = "PLAN is a plan as JSON (gridsmith.plan/1). Launches of the tasks run in sequence and in pairs, with\n"
               "the durations of the plan, as the daemon would decide.\n\n"
               "  gridsmith plan --simulate plan.json --tasks resnet50,lbm:10\n"
               "  gridsmith plan --simulate plan.json --tasks resnet50,vgg16,fft,lbm,mriq --for 1000\n"
               "  gridsmith plan --play plan.json --tasks resnet50:10,lbm:500\n"
               "  gridsmith plan --play plan.json --tasks tasks.json\n",
    GS_OPTION_TABLE(simulate_options, option_table),
    .defaults = &(const simulate_options){.batch = 32, .unknown = 100},
    .words = {1, 1, "give one plan"},
    .run = run_simulate,
};

int gs_cmd_plan_simulate(int argc, char **argv) {
    return gs_command_run(&command_simulate, argc, argv);
}
