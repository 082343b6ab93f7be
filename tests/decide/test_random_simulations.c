/*
 * test_random_simulations.c: random tasks of the kernels of a plan, played by the decisions of the daemon. The result
 * of each simulation is a line of tests/decide/simulations.txt, to the nanosecond. A change that changes a line should
 * be one that was meant: with GRIDSMITH_WRITE=1 the file is written anew.
 *
 * Beside that, what holds for every simulation: each task runs as often as it should, no faster than alone, none
 * of its blocks and no launch is counted twice, and nothing takes longer than all launches in sequence if only one may
 * run at a time.
 *
 * Numbers are drawn in statements of their own: in which order arguments are evaluated is up to the compiler.
 */
#include "decide_support.h"

#include <math.h>

enum { SIMULATIONS = 120 };

static gs_plan_table read_plan(gs_random *random) {
    gs_plan_table table = {0};
    gs_error error;
    gs_input *input = gs_input_open(test_path("examples/plan-invented.json"), &error);
    assert_non_null(input);
    assert_int_equal(gs_plan_table_read(input, &table, &error), GS_OK);
    gs_input_close(input);
    for (size_t i = 0; i < table.pairs.count; i++) /* some run on SMs of their own */
        if (gs_random_from(random, 0, 2) == 0) {
            table.pairs.data[i].option = GS_TABLE_SPLIT;
            table.pairs.data[i].first_sms = (int32_t)gs_random_from(random, 1, 16) * 8;
        }
    return table;
}

/* Launches of a few kernels; each waits for some of those before it. */
static void put_task(gs_random *random, const gs_plan_table *table, int number, gs_text *into) {
    const gs_table_pair *pair = &table->pairs.data[gs_random_from(random, 0, (int64_t)table->pairs.count - 1)];
    int64_t launches = gs_random_from(random, 1, 8), least = gs_random_from(random, 1, 20);
    const int64_t kernels[3] = {pair->first, pair->second,
                                gs_random_from(random, 0, (int64_t)table->kernels.count - 1)};
    int repeat = (int)gs_random_from(random, 1, 3), at_us = (int)gs_random_from(random, 0, 3) * 700;
    gs_text_add(into, "{\"schema\":\"gridsmith.task/1\",\"task\":\"t%d\",\"repeat\":%d,\"at_us\":%d,\"kernels\":[",
                number, repeat, at_us);
    for (int64_t i = 0; i < launches; i++) {
        const gs_table_kernel *kernel = &table->kernels.data[kernels[gs_random_from(random, 0, 2)]];
        gs_text_add(into, "%s{\"kernel\":\"%s\",\"blocks\":%lld", i ? "," : "", kernel->name,
                    (long long)gs_max(kernel->blocks / gs_random_from(random, 1, least), 1));
        if (gs_random_from(random, 0, 3) == 0)
            gs_text_add(into, ",\"work\":0.5");
        if (i > 0 && gs_random_from(random, 0, 1))
            gs_text_add(into, ",\"after\":[%d]", (int)gs_random_from(random, 0, i - 1));
        else if (i > 1 && gs_random_from(random, 0, 1))
            gs_text_add(into, ",\"after\":[]");
        gs_text_add(into, "}");
    }
    gs_text_add(into, "]}\n");
}

static gs_task_list draw_tasks(gs_random *random, const gs_plan_table *table) {
    gs_network_options networks = gs_network_defaults();
    gs_task_list tasks = {0};
    gs_text text = {0};
    gs_error error = {.code = GS_OK};
    int count = (int)gs_random_from(random, 1, 5);
    for (int i = 0; i < count; i++)
        put_task(random, table, i, &text);
    gs_input *input = gs_input_memory("tasks", text.data, text.count, &error);
    assert_non_null(input);
    if (gs_task_list_read(&tasks, input, &networks, table, &error) != GS_OK)
        fail_msg("%s in %s", error.message, text.data);
    gs_text_free(&text);
    return tasks;
}

static gs_simulation_options draw_options(gs_random *random, gs_gpu *const gpus[2]) {
    static const double times_us[] = {0, 0, 0, 20000}, noises[] = {0, 0, 0.1}, patience_us[] = {0, 0, 500};
    gs_simulation_options options = {.recorded_on = gpus[0]};
    options.gpu = gpus[gs_random_from(random, 0, 3) == 0];
    options.together = (int32_t)gs_random_from(random, 1, 4);
    options.for_us = times_us[gs_random_from(random, 0, 3)];
    options.noise = noises[gs_random_from(random, 0, 2)];
    options.seed = (uint64_t)gs_random_from(random, 0, 1000);
    options.unknown = (double)gs_random_from(random, 8, 12) / 10;
    options.patience_us = patience_us[gs_random_from(random, 0, 2)];
    return options;
}

/* Blocks that the measurement windows were told of. */
static uint64_t counted_blocks;

void __real_gs_window_count(gs_window *window, uint64_t stream, const gs_profile *profile, uint64_t blocks);
void __wrap_gs_window_count(gs_window *window, uint64_t stream, const gs_profile *profile, uint64_t blocks);
void __wrap_gs_window_count(gs_window *window, uint64_t stream, const gs_profile *profile, uint64_t blocks) {
    counted_blocks += blocks;
    __real_gs_window_count(window, stream, profile, blocks);
}

static void expect_possible(const gs_simulation *result, const gs_task_list *tasks,
                            const gs_simulation_options *options) {
    double sum_us = 0;
    uint64_t blocks = 0;
    for (size_t i = 0; i < tasks->count; i++) {
        const gs_simulated_task *task = &result->tasks[i];
        for (size_t k = 0; k < tasks->data[i].launches.count; k++)
            blocks += task->done * (uint64_t)tasks->data[i].launches.data[k].blocks;
        assert_true(options->for_us > 0 ? task->done > 0 : task->done == (uint64_t)tasks->data[i].repeat);
        assert_true(task->mean_us <= task->longest_us * (1 + 1e-12));
        sum_us += task->alone_us * (double)task->done;
    }
    assert_true(fabs(sum_us - result->alone_us) <= 1e-9 * sum_us);
    assert_true(options->for_us > 0 || counted_blocks <= blocks);
    assert_true(result->shared <= result->launches);
    if (options->together == 1) /* a stop costs time, and a task may come late */
        assert_true(result->shared == 0 && result->end_us >= sum_us * (1 - 1e-9));
}

static void put_result(const gs_simulation *result, gs_text *into) {
    gs_text_clear(into);
    gs_text_add(into, "%.3f %.3f %.3f %llu %llu %llu %d", result->end_us, result->alone_us, result->longest_wait_us,
                (unsigned long long)result->launches, (unsigned long long)result->shared,
                (unsigned long long)result->doubtful, (int)result->doubt);
    for (size_t i = 0; i < result->task_count; i++)
        gs_text_add(into, ", %llu %.3f %.3f %.3f", (unsigned long long)result->tasks[i].done, result->tasks[i].alone_us,
                    result->tasks[i].mean_us, result->tasks[i].longest_us);
    gs_text_add(into, "\n");
}

static void simulate_once(uint64_t index, gs_gpu *const gpus[2], gs_text *line) {
    gs_random random = gs_random_at(53, index);
    gs_plan_table table = read_plan(&random);
    gs_task_list tasks = draw_tasks(&random, &table);
    gs_simulation_options options = draw_options(&random, gpus);
    gs_simulation result;
    gs_error error = {.code = GS_OK};
    counted_blocks = 0;
    if (gs_plan_table_divide(&table, gpus[0], &error) != GS_OK ||
        gs_simulate(&table, &tasks, &options, &result, &error) != GS_OK)
        fail_msg("%s", error.message);
    expect_possible(&result, &tasks, &options);
    put_result(&result, line);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
}

TEST(random_simulations_end_as_they_did) {
    gs_gpu *gpus[2] = {gs_gpu_open("h200", NULL), gs_gpu_open("a100", NULL)};
    bool is_written = test_number("GRIDSMITH_WRITE", 0) != 0;
    uint64_t count = test_is_brief() && !is_written ? SIMULATIONS / 8 : SIMULATIONS;
    FILE *file = fopen(test_path("tests/decide/simulations.txt"), is_written ? "w" : "r");
    gs_text line = {0};
    assert_true(file && gpus[0] && gpus[1]);
    for (uint64_t index = 0; index < count; index++) {
        char wanted[1000] = "";
        simulate_once(index, gpus, &line);
        if (is_written)
            fputs(line.data, file);
        else
            assert_non_null(fgets(wanted, sizeof wanted, file));
#if defined __x86_64__ || !defined __clang__ /* elsewhere products and sums are rounded at once */
        if (!is_written && strcmp(line.data, wanted) != 0)
            fail_msg("simulations.txt:%llu:\n%s instead of\n%s", (unsigned long long)index + 1, line.data, wanted);
#endif
    }
    gs_text_free(&line);
    fclose(file);
    gs_gpu_free(gpus[0]);
    gs_gpu_free(gpus[1]);
}

TEST_MAIN(NULL, NULL)
