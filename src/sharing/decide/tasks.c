/*
 * tasks.c: the tasks of a simulation, from a file, a recording, a network, or one kernel.
 *
 * A value of a file is a network (networks.c) or a task (gridsmith.task/1): a list of launches, each of which waits for
 * the one before it, or for those that its "after" lists by their index. The launches of a recording wait for those
 * before them in their streams, and for those of other streams that they waited for when they were recorded.
 */
#include "model/run/run.h"
#include "simulate.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_LAUNCHES = 1 << 20, MOST_BATCH = 1 << 16 };

#define MOST_WORK 1e6
/* Of a launch. */
#define MOST_BLOCKS (INT64_MAX / 1024)

void gs_task_list_clear(gs_task_list *tasks) {
    for (size_t i = 0; i < tasks->count; i++) {
        free(tasks->data[i].name);
        free(tasks->data[i].launches.data);
        free(tasks->data[i].after.data);
    }
    free(tasks->data);
    memset(tasks, 0, sizeof *tasks);
}

/* A new task, without launches. NULL: out of memory. */
static gs_listed_task *add_task(gs_task_list *tasks, const char *name, int64_t repeat) {
    if (!GS_RESERVE(tasks, 1))
        return NULL;
    gs_listed_task *task = &tasks->data[tasks->count];
    *task = (gs_listed_task){.name = strdup(name), .repeat = repeat};
    if (!task->name)
        return NULL;
    gs_make_printable(task->name);
    tasks->count++;
    return task;
}

/* A launch that waits for nothing. NULL: out of memory. */
static gs_listed_launch *add_launch(gs_listed_task *task, int32_t kernel, int64_t blocks, double work) {
    if (!GS_RESERVE(&task->launches, 1))
        return NULL;
    gs_listed_launch *launch = &task->launches.data[task->launches.count++];
    *launch = (gs_listed_launch){.kernel = kernel, .blocks = blocks, .work = work, .after = task->after.count};
    return launch;
}

/* Makes the last launch wait for another. */
static bool wait_for(gs_listed_task *task, size_t before) {
    if (!GS_RESERVE(&task->after, 1))
        return false;
    task->after.data[task->after.count++] = before;
    task->launches.data[task->launches.count - 1].after_count++;
    return true;
}

/* A launch that waits for the one before it. */
static bool add_next(gs_listed_task *task, int32_t kernel, int64_t blocks, double work) {
    size_t index = task->launches.count;
    return add_launch(task, kernel, blocks, work) && (index == 0 || wait_for(task, index - 1));
}

/* ---- of a kernel ---- */

gs_code gs_task_list_add_kernel(gs_task_list *tasks, int32_t kernel, const gs_plan_table *table, int64_t repeat,
                                gs_error *error) {
    const gs_table_kernel *known = &table->kernels.data[kernel];
    gs_listed_task *task = add_task(tasks, known->name, repeat);
    return task && add_next(task, kernel, known->blocks, 1) ? GS_OK : gs_fail_memory(error);
}

/* ---- of a network ---- */

gs_network_options gs_network_defaults(void) {
    return (gs_network_options){.gemm = "tgemm", .rows = 64, .columns = 64, .depth = 2048, .batch = 32};
}

/* The kernel that copies pixels into the matrix: im2col, or else transpose, which is memory-bound too. A block
   of im2col writes 256 numbers of 2 bytes, one of transpose 32 x 32 of 4 bytes. */
static int32_t copying_kernel(const gs_plan_table *table, double *work) {
    int32_t kernel = gs_plan_table_find(table, "im2col");
    *work = 1;
    if (kernel >= 0)
        return kernel;
    *work = 0.125;
    return gs_plan_table_find(table, "transpose");
}

/* Numbers that a block of im2col copies. */
enum { COPIED = 256 };

static bool is_small_enough(const gs_layer *layer, const gs_network_options *options) {
    double places = (double)options->batch * layer->size * layer->size;
    double copied = (places / COPIED + 1) * layer->in * layer->height * layer->width;
    double tiles = ((double)layer->out / options->rows + layer->groups) * (places / options->columns + 1);
    return fmax(copied, tiles) <= MOST_BLOCKS;
}

static bool add_layer(gs_listed_task *task, const gs_layer *layer, const gs_network_options *options, int32_t gemm,
                      const gs_plan_table *table) {
    int64_t places = (int64_t)options->batch * layer->size * layer->size;
    int64_t depth = (int64_t)layer->in / layer->groups * layer->height * layer->width;
    int64_t tiles = gs_divide_up(layer->out / layer->groups, options->rows) * gs_divide_up(places, options->columns);
    bool is_direct = layer->height == 1 && layer->width == 1 && layer->stride == 1;
    double copy_work;
    int32_t copy = copying_kernel(table, &copy_work);
    if (!is_direct && copy >= 0 &&
        !add_next(task, copy, gs_divide_up(places, COPIED) * depth * layer->groups, copy_work))
        return false;
    return add_next(task, gemm, tiles * layer->groups, (double)depth / options->depth);
}

static gs_code add_layers(gs_task_list *tasks, const gs_network *network, const gs_network_options *options,
                          const gs_plan_table *table, int64_t repeat, gs_error *error) {
    int32_t gemm = gs_plan_table_find(table, options->gemm);
    if (gemm < 0)
        return gs_fail(error, GS_E_USAGE, "%.60s needs the kernel %.60s, which %s: name another one with --gemm",
                       network->name, options->gemm,
                       gs_plan_table_is_unmeasured(table, options->gemm) ? "has no duration in the plan"
                                                                         : "the plan lacks");
    gs_listed_task *task = add_task(tasks, network->name, repeat);
    if (!task)
        return gs_fail_memory(error);
    task->is_network = true;
    for (size_t i = 0; i < network->layers.count; i++) {
        const gs_layer *layer = &network->layers.data[i];
        if (!is_small_enough(layer, options))
            return gs_fail(error, GS_E_USAGE, "the layer %.60s of %.60s has more than %lld blocks", layer->name,
                           network->name, (long long)MOST_BLOCKS);
        if (!add_layer(task, layer, options, gemm, table))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

gs_code gs_task_list_add_network(gs_task_list *tasks, const char *name, const gs_network_options *options,
                                 const gs_plan_table *table, int64_t repeat, gs_error *error) {
    gs_network network;
    gs_code code = gs_network_open(name, &network, error);
    if (code != GS_OK)
        return code;
    code = add_layers(tasks, &network, options, table, repeat, error);
    gs_network_free(&network);
    return code;
}

/* ---- of a file ---- */

typedef struct task_line {
    char *name, *schema;
    int64_t repeat, at_ns;
} task_line;

static const gs_field task_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"task", GS_FIELD_NAME, true, offsetof(task_line, name), 0, 0},
    {"repeat", GS_FIELD_INT64, false, offsetof(task_line, repeat), 1, INT32_MAX},
    {"at_us", GS_FIELD_DURATION, false, offsetof(task_line, at_ns), 0, INT64_MAX / 4},
    {"kernels", GS_FIELD_OTHER, true, 0, 0, 0},
};

typedef struct launch_line {
    char *kernel, *file, *launch;
    int64_t blocks;
} launch_line;

static const gs_field launch_fields[] = {
    {"kernel", GS_FIELD_NAME, true, offsetof(launch_line, kernel), 0, 0},
    {"blocks", GS_FIELD_INT64, false, offsetof(launch_line, blocks), 1, MOST_BLOCKS},
    {"work", GS_FIELD_OTHER, false, 0, 0, 0},
    {"after", GS_FIELD_OTHER, false, 0, 0, 0},
    {"file", GS_FIELD_NAME, false, offsetof(launch_line, file), 0, 0},     /* where a kernel that is played is, */
    {"launch", GS_FIELD_NAME, false, offsetof(launch_line, launch), 0, 0}, /* and its launch */
};

static gs_code read_work(const gs_json *json, const gs_step *at, double *work, gs_error *error) {
    gs_step step = gs_step_key(at, "work");
    *work = step.value ? json_number_value(step.value) : 1;
    if (step.value && (!json_is_number(step.value) || !(*work > 0) || !(*work <= MOST_WORK)))
        return gs_json_fail(json, &step, false, error, "\"work\" must be a number above 0, at most %g", MOST_WORK);
    return GS_OK;
}

static gs_code read_after(const gs_json *json, const gs_step *at, gs_listed_task *task, gs_error *error) {
    gs_step list = gs_step_key(at, "after");
    size_t index = task->launches.count - 1;
    if (!list.value)
        return index == 0 || wait_for(task, index - 1) ? GS_OK : gs_fail_memory(error);
    if (!json_is_array(list.value))
        return gs_json_fail(json, &list, false, error, "\"after\" must be a list of earlier kernels, by their index");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        gs_step entry = gs_step_index(&list, i);
        int64_t before;
        if (index == 0)
            return gs_json_fail(json, &entry, false, error, "the first kernel cannot have \"after\"");
        gs_code code = gs_json_int(json, &entry, 0, (int64_t)index - 1, &before, error);
        if (code != GS_OK)
            return code;
        if (!wait_for(task, (size_t)before))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

static gs_code read_launch(const gs_json *json, const gs_step *at, gs_listed_task *task, const gs_plan_table *table,
                           gs_error *error) {
    launch_line line = {.blocks = 0};
    double work = 1;
    gs_code code = gs_json_object(json, at, launch_fields, GS_COUNT(launch_fields), &line, error);
    if (code == GS_OK)
        code = read_work(json, at, &work, error);
    if (code == GS_OK && line.launch && !line.file) {
        gs_step step = gs_step_key(at, "launch");
        code = gs_json_fail(json, &step, false, error, "\"launch\" belongs to a \"file\"");
    }
    int32_t kernel = code == GS_OK ? gs_plan_table_find(table, line.kernel) : -1;
    if (code == GS_OK && kernel < 0) {
        gs_step step = gs_step_key(at, "kernel");
        bool is_unmeasured = gs_plan_table_is_unmeasured(table, line.kernel);
        code = gs_json_fail(json, &step, false, error, "task \"%.60s\": %s has no %s \"%.60s\"", task->name,
                            table->title ? table->title : "the plan", is_unmeasured ? "duration of" : "kernel",
                            line.kernel);
    }
    if (code == GS_OK) {
        int64_t blocks = line.blocks > 0 ? line.blocks : table->kernels.data[kernel].blocks;
        code = add_launch(task, kernel, blocks, work) ? read_after(json, at, task, error) : gs_fail_memory(error);
    }
    free(line.kernel);
    free(line.file);
    free(line.launch);
    return code;
}

static gs_code read_launches(const gs_json *json, const gs_step *root, gs_listed_task *task, const gs_plan_table *table,
                             gs_error *error) {
    gs_step list = gs_step_key(root, "kernels");
    size_t count = json_array_size(list.value);
    if (!count || count > MOST_LAUNCHES)
        return gs_json_fail(json, &list, false, error, "\"kernels\" must be a list of 1 to %d launches", MOST_LAUNCHES);
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        code = read_launch(json, &entry, task, table, error);
    }
    return code;
}

static gs_code read_task(const gs_json *json, gs_task_list *tasks, const gs_plan_table *table, gs_error *error) {
    gs_step root = gs_step_root(json);
    task_line line = {.repeat = 1};
    gs_code code = gs_json_schema(json, &root, "gridsmith.task/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, task_fields, GS_COUNT(task_fields), &line, error);
    gs_listed_task *task = code == GS_OK ? add_task(tasks, line.name, line.repeat) : NULL;
    if (code == GS_OK && !task)
        code = gs_fail_memory(error);
    if (task) {
        task->at_us = (double)line.at_ns / 1000;
        code = read_launches(json, &root, task, table, error);
    }
    free(line.name);
    return code;
}

/* ---- of a recording ---- */

/* The last launch of each stream so far. */
struct recorded_streams {
    struct {
        const char *stream; /* of the strings of the run */
        size_t last;
    } * data;
    size_t count, capacity;
};

/* A launch waits for the one before it in its stream. False: out of memory. */
static bool follow_stream(struct recorded_streams *streams, gs_listed_task *task, const char *stream) {
    size_t index = task->launches.count - 1, at = 0;
    if (!stream)
        return true;
    while (at < streams->count && streams->data[at].stream != stream)
        at++;
    if (at < streams->count && !wait_for(task, streams->data[at].last))
        return false;
    if (at == streams->count && !GS_RESERVE(streams, 1))
        return false;
    streams->count += at == streams->count;
    streams->data[at].stream = stream;
    streams->data[at].last = index;
    return true;
}

/* Whether a kernel of a plan is that of a recorded launch. */
static bool is_recorded(const gs_table_kernel *kernel, const gs_launch *launch) {
    const gs_shape *a = &kernel->shape, *b = &launch->shape;
    return gs_named_kernel_is(kernel->name, launch->kernel) && a->threads == b->threads &&
           a->registers == b->registers && a->shared_bytes == b->shared_bytes;
}

/* A launch of a black box takes as long as when it was recorded, to 1%: those that take about as long share a
   profile. */
static void set_recorded_time(gs_listed_launch *listed, const gs_table_kernel *kernel, const gs_issue *issue) {
    static const double step = 1.02;
    double us = (double)(issue->end_ns - issue->start_ns) / 1e3;
    double planned_us = gs_table_kernel_us(kernel, listed->blocks, 1).value;
    bool is_timed = issue->start_ns != GS_NO_TIME && issue->end_ns != GS_NO_TIME && us > 0;
    if (!kernel->is_black_box || !is_timed || !(planned_us > 0))
        return;
    listed->work = fmin(pow(step, round(log(us / planned_us) / log(step))), MOST_WORK);
    listed->is_recorded = true;
}

static gs_code add_recorded(gs_listed_task *task, struct recorded_streams *streams, const gs_run *run,
                            const gs_launch *launch, const gs_plan_table *table, gs_error *error) {
    size_t kernel = 0, index = task->launches.count;
    while (kernel < table->kernels.count && !is_recorded(&table->kernels.data[kernel], launch))
        kernel++;
    if (kernel == table->kernels.count)
        return gs_fail(error, GS_E_USAGE,
                       "%.60s, launch %zu: the plan has no kernel \"%.60s\" of this shape and with a duration: plan "
                       "the recording, too",
                       task->name, index, launch->kernel);
    gs_listed_launch *listed = add_launch(task, (int32_t)kernel, launch->blocks, 1);
    bool is_added = listed && follow_stream(streams, task, launch->stream);
    for (uint32_t i = 0; i < launch->issue.after_count && is_added; i++) {
        const gs_edge *edge = &run->edges.data[launch->issue.after + i];
        is_added = edge->is_copy || wait_for(task, edge->number);
    }
    if (is_added)
        set_recorded_time(listed, &table->kernels.data[kernel], &launch->issue);
    return is_added ? GS_OK : gs_fail_memory(error);
}

/* "mix" of "runs/mix.jsonl.gz". */
static void name_run(const char *file, char *name, size_t size) {
    const char *slash = strrchr(file, '/');
    file = slash ? slash + 1 : file;
    snprintf(name, size, "%.*s", (int)strcspn(file, "."), file);
}

static gs_code add_run(gs_task_list *tasks, const gs_run *run, const char *name, const gs_plan_table *table,
                       gs_error *error) {
    struct recorded_streams streams = {.count = 0};
    if (!run->launches.count || run->launches.count > MOST_LAUNCHES)
        return gs_fail(error, GS_E_USAGE, "%.60s must have 1 to %d launches", name, MOST_LAUNCHES);
    gs_listed_task *task = add_task(tasks, name, 1);
    gs_code code = task ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = add_recorded(task, &streams, run, &run->launches.data[i], table, error);
    free(streams.data);
    return code;
}

/* All runs of a file: a recorded program has one for each GPU. Takes the input and its first value. */
static gs_code read_recording(gs_task_list *tasks, gs_input *input, gs_json *first, const gs_plan_table *table,
                              gs_error *error) {
    char name[64];
    gs_error at_end = {.code = GS_OK};
    name_run(first->file, name, sizeof name);
    gs_runs *runs = gs_runs_after(input, first, error);
    gs_code code = runs ? GS_OK : error->code;
    for (gs_run *run; code == GS_OK && (run = gs_runs_next(runs, &at_end));) {
        code = add_run(tasks, run, name, table, error);
        gs_run_free(run);
    }
    gs_runs_close(runs);
    if (code == GS_OK && at_end.code != GS_OK)
        return *error = at_end, at_end.code;
    return code;
}

static gs_code read_network(const gs_json *json, gs_task_list *tasks, const gs_network_options *options,
                            const gs_plan_table *table, gs_error *error) {
    gs_network network;
    gs_code code = gs_network_read(json, &network, error);
    if (code != GS_OK)
        return code;
    code = add_layers(tasks, &network, options, table, network.repeat, error);
    gs_network_free(&network);
    return code;
}

gs_code gs_task_list_add_json(gs_task_list *tasks, const gs_json *json, const gs_network_options *options,
                              const gs_plan_table *table, gs_error *error) {
    return gs_network_is(json) ? read_network(json, tasks, options, table, error)
                               : read_task(json, tasks, table, error);
}

static bool is_recording(const gs_json *json) {
    const char *schema = json_string_value(json_object_get(json->root, "schema"));
    return schema && strcmp(schema, "gridsmith.run/1") == 0;
}

gs_code gs_task_list_read(gs_task_list *tasks, gs_input *input, const gs_network_options *options,
                          const gs_plan_table *table, gs_error *error) {
    gs_code code = GS_OK;
    for (bool is_first = true, is_over = false; code == GS_OK && !is_over; is_first = false) {
        gs_json json;
        code = gs_json_next(input, &json, error);
        is_over = code != GS_OK || !json.root;
        if (code == GS_OK && is_over && is_first)
            code = gs_input_fail(input, error, GS_E_FORMAT, "the file has no task");
        if (!is_over && is_first && is_recording(&json))
            return read_recording(tasks, input, &json, table, error);
        if (!is_over)
            code = gs_task_list_add_json(tasks, &json, options, table, error);
        gs_json_free(&json);
    }
    gs_input_close(input);
    return code;
}
