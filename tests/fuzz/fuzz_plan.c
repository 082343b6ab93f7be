/*
 * fuzz_plan.c: any bytes as a plan, and after the first empty line as tasks and networks. What is accepted is simulated
 * for a moment, in order and together.
 */
#include "fuzz.h"

#include "sharing/decide/decide.h"

#include <math.h>
#include <string.h>

static bool read_tasks(gs_task_list *tasks, const gs_plan_table *table, const char *bytes, size_t count) {
    gs_error error;
    gs_network_options options = gs_network_defaults();
    gs_input *input = gs_input_memory("tasks", bytes, count, NULL);
    options.gemm = table->kernels.count ? table->kernels.data[0].name : options.gemm;
    return input && gs_task_list_read(tasks, input, &options, table, &error) == GS_OK;
}

/* Whether a simulation is short enough. */
static bool is_small(const gs_task_list *tasks) {
    double launches = 0;
    for (size_t i = 0; i < tasks->count; i++)
        launches += (double)tasks->data[i].launches.count * (double)tasks->data[i].repeat;
    return launches < 1000;
}

static void simulate(gs_plan_table *table, const gs_task_list *tasks) {
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("orin", &error);
    for (int32_t together = 1; gpu && together <= GS_DECIDE_TOGETHER; together++) {
        gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = together, .unknown = 1};
        gs_simulation result;
        if (gs_simulate(table, tasks, &options, &result, &error) == GS_OK)
            require(isfinite(result.end_us) && result.end_us >= 0 && (together > 1 || result.shared == 0));
        gs_simulation_clear(&result);
    }
    gs_gpu_free(gpu);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const char *text = (const char *)bytes, *end = NULL;
    gs_plan_table table = {0};
    gs_task_list tasks = {0};
    gs_error error;
    for (size_t i = 0; i + 1 < count && !end; i++)
        if (text[i] == '\n' && text[i + 1] == '\n')
            end = text + i;
    size_t first = end ? (size_t)(end - text) : count;
    gs_input *input = gs_input_memory("plan", text, first, NULL);
    if (input && gs_plan_table_read(input, &table, &error) == GS_OK) {
        for (size_t i = 0; !end && i < table.kernels.count; i++)
            gs_task_list_add_kernel(&tasks, (int32_t)i, &table, 2, &error);
        if ((!end || read_tasks(&tasks, &table, end, count - first)) && is_small(&tasks))
            simulate(&table, &tasks);
    }
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
    gs_input_close(input);
    return 0;
}
