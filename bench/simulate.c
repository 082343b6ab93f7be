/*
 * simulate.c: the number of launches per minute that `gridsmith plan --simulate` plays: networks and tasks of the zoo,
 * with the plan of examples/plan-invented.json, in order and in pairs.
 *
 *   bench_simulate [PLAN]
 */
#include "sharing/decide/decide.h"

#include <stdlib.h>

static void fail(const gs_error *error) {
    fprintf(stderr, "bench_simulate: %s\n", error->message);
    exit(4);
}

static void add_all(gs_task_list *tasks, const gs_plan_table *table, gs_error *error) {
    gs_network_options options = gs_network_defaults();
    for (size_t i = 0; gs_network_at(i); i++)
        if (gs_task_list_add_network(tasks, gs_network_at(i), &options, table, 1, error) != GS_OK)
            fail(error);
    for (int32_t i = 0; i < (int32_t)table->kernels.count; i++)
        if (gs_task_list_add_kernel(tasks, i, table, 1, error) != GS_OK)
            fail(error);
}

static void play(const gs_plan_table *table, const gs_task_list *tasks, const gs_gpu *gpu, int32_t together) {
    gs_error error;
    gs_simulation result;
    gs_simulation_options options = {
        .gpu = gpu, .recorded_on = gpu, .together = together, .unknown = 1, .for_us = 60e6, .noise = 0.02};
    int64_t began = gs_now_ns();
    if (gs_simulate(table, tasks, &options, &result, &error) != GS_OK)
        fail(&error);
    double seconds = (double)(gs_now_ns() - began) / 1e9;
    printf("%d at a time: %9llu launches in %6.2f s: %6.1f million a minute, throughput %.3f\n", together,
           (unsigned long long)result.launches, seconds, (double)result.launches / seconds * 60 / 1e6,
           result.alone_us / result.end_us);
    gs_simulation_clear(&result);
}

int main(int argc, char **argv) {
    gs_error error = {.code = GS_OK};
    gs_plan_table table;
    gs_task_list tasks = {0};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_input *input = gs_input_open(argc > 1 ? argv[1] : GRIDSMITH_SOURCE "/examples/plan-invented.json", &error);
    if (!gpu || !input || gs_plan_table_read(input, &table, &error) != GS_OK ||
        gs_plan_table_divide(&table, gpu, &error) != GS_OK)
        fail(&error);
    add_all(&tasks, &table, &error);
    for (int32_t together = 1; together <= 2; together++)
        play(&table, &tasks, gpu, together);
    gs_input_close(input);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
    gs_gpu_free(gpu);
    return 0;
}
