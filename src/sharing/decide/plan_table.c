/*
 * plan_table.c: reads the JSON of a plan (gridsmith.plan/1), and answers how long its kernels and pairs take.
 *
 * A kernel may be listed in several forms; the fastest one counts. Pairs with at least five points get the two-stage
 * model, if it is better than its simple form. Pairs with fewer points get the simple form, and pairs without points
 * the plan's one measurement.
 */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_POINTS = 5, FEW_POINTS = 2, MOST_KERNELS = 4096 };

#define MOST_US 1e12

/* ---- reading ---- */

/* A number that may be missing. */
static gs_code read_number(const gs_json *json, const gs_step *at, const char *key, double least, double most,
                           double *value, gs_error *error) {
    gs_step step = gs_step_key(at, key);
    if (!step.value || json_is_null(step.value))
        return GS_OK;
    double number = json_number_value(step.value);
    if (!json_is_number(step.value) || !(number >= least) || !(number <= most))
        return gs_json_fail(json, &step, false, error, "\"%s\" must be a number from %g to %g", key, least, most);
    *value = number;
    return GS_OK;
}

/* The same for whole numbers. */
static gs_code read_count(const gs_json *json, const gs_step *at, const char *key, int64_t most, int64_t *value,
                          gs_error *error) {
    gs_step step = gs_step_key(at, key);
    return !step.value || json_is_null(step.value) ? GS_OK : gs_json_int(json, &step, 0, most, value, error);
}

static gs_code read_text(const gs_json *json, const gs_step *at, const char *key, const char **text, gs_error *error) {
    gs_step step = gs_step_key(at, key);
    *text = json_string_value(step.value);
    return *text && **text ? GS_OK
                           : gs_json_fail(json, step.value ? &step : at, false, error, "\"%s\" must be a name", key);
}

static gs_code read_model(const gs_json *json, const gs_step *at, gs_table_kernel *kernel, gs_error *error) {
    gs_step step = gs_step_key(at, "model");
    gs_line_model *model = &kernel->model;
    if (!json_is_object(step.value))
        return GS_OK;
    gs_code code = read_number(json, &step, "base_us", -MOST_US, MOST_US, &model->base, error);
    if (code == GS_OK)
        code = read_number(json, &step, "per_block_us", 0, MOST_US, &model->slope, error);
    if (code == GS_OK)
        code = read_number(json, &step, "min_blocks", 0, MOST_US, &model->least, error);
    if (code == GS_OK)
        code = read_number(json, &step, "max_blocks", 0, MOST_US, &model->most, error);
    if (code == GS_OK)
        code = read_number(json, &step, "residual", 0, MOST_US, &model->residual, error);
    if (code == GS_OK && gs_step_key(&step, "wave_blocks").value)
        code = read_number(json, &step, "wave_blocks", 0, MOST_US, &model->wave, error);
    kernel->has_model = model->slope > 0;
    return code;
}

static gs_code read_shape(const gs_json *json, const gs_step *at, gs_table_kernel *kernel, gs_error *error) {
    int64_t threads = 0, registers = 0, shared = 0, workers = 0;
    gs_code code = read_count(json, at, "block_threads", 65536, &threads, error);
    if (code == GS_OK)
        code = read_count(json, at, "registers", 65536, &registers, error);
    if (code == GS_OK)
        code = read_count(json, at, "shared_bytes", 1 << 24, &shared, error);
    if (code == GS_OK)
        code = read_count(json, at, "workers_per_sm", GS_MAX_BLOCKS_PER_SM, &workers, error);
    kernel->shape = gs_shape_of((int32_t)threads, (int32_t)registers, shared);
    kernel->workers = (int32_t)workers;
    return code;
}

/* Keeps a kernel; of several forms of a kernel, the fastest. */
static gs_code keep_kernel(gs_plan_table *table, const gs_table_kernel *kernel, const char *name, gs_error *error) {
    int32_t known = gs_plan_table_find(table, name);
    if (known >= 0) {
        gs_table_kernel *other = &table->kernels.data[known];
        char *kept = other->name;
        if (kernel->alone_us < other->alone_us)
            *other = *kernel;
        other->name = kept;
        return GS_OK;
    }
    if (!GS_RESERVE(&table->kernels, 1))
        return gs_fail_memory(error);
    gs_table_kernel *added = &table->kernels.data[table->kernels.count];
    *added = *kernel;
    added->name = strdup(name);
    table->kernels.count += added->name != NULL;
    return added->name ? GS_OK : gs_fail_memory(error);
}

/* Kernels without a measured duration are left out. */
static gs_code read_kernel(const gs_json *json, const gs_step *at, gs_plan_table *table, gs_error *error) {
    gs_table_kernel kernel = {.blocks = 1};
    const char *name;
    gs_code code = read_text(json, at, "name", &name, error);
    if (code == GS_OK)
        code = read_count(json, at, "blocks", INT64_MAX / 2, &kernel.blocks, error);
    if (code == GS_OK)
        code = read_shape(json, at, &kernel, error);
    if (code == GS_OK)
        code = read_number(json, at, "alone_us", 0, MOST_US, &kernel.alone_us, error);
    if (code == GS_OK)
        code = read_model(json, at, &kernel, error);
    kernel.blocks = gs_max(kernel.blocks, 1);
    return code != GS_OK || kernel.alone_us == 0 ? code : keep_kernel(table, &kernel, name, error);
}

static gs_code read_option(const gs_json *json, const gs_step *at, gs_table_pair *pair, gs_error *error) {
    static const char *const names[] = {"turns", "inside", "split"};
    const char *name;
    gs_code code = read_text(json, at, "option", &name, error);
    for (int i = 0; code == GS_OK && i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            pair->option = (gs_table_option)i;
            return GS_OK;
        }
    gs_step step = gs_step_key(at, "option");
    return code != GS_OK ? code : gs_json_fail(json, &step, false, error, "\"option\" must be inside, split or turns");
}

/* The points: durations of both together, divided by that of the first alone. */
static gs_code read_points(const gs_json *json, const gs_step *at, gs_table_pair *pair, gs_error *error) {
    gs_step list = gs_step_key(at, "points");
    gs_fit_point points[GS_PAIR_MODEL_POINTS];
    size_t count = gs_min_u64(json_array_size(list.value), GS_PAIR_MODEL_POINTS), kept = 0;
    for (size_t i = 0; i < count; i++) {
        gs_step point = gs_step_index(&list, i);
        double us = 0, ratio = 0;
        gs_code code = read_number(json, &point, "ratio", 0, 1e6, &ratio, error);
        if (code == GS_OK)
            code = read_number(json, &point, "us", 0, MOST_US, &us, error);
        if (code != GS_OK)
            return code;
        if (us > 0 && ratio > 0)
            points[kept++] = (gs_fit_point){ratio, us / pair->first_us};
    }
    pair->has_model = kept >= LEAST_POINTS && gs_pair_model_fit(points, kept, &pair->model) && pair->model.bend != 0;
    pair->has_few = kept >= FEW_POINTS && gs_pair_few_rates(points, kept, &pair->few);
    if (pair->has_few && pair->has_model)
        pair->has_model = pair->model.deviation < pair->few.deviation;
    return GS_OK;
}

static gs_code find_kernel(const gs_json *json, const gs_step *at, const char *key, const gs_plan_table *table,
                           int32_t *kernel, gs_error *error) {
    const char *name;
    gs_code code = read_text(json, at, key, &name, error);
    *kernel = code == GS_OK ? gs_plan_table_find(table, name) : -1;
    return code;
}

/* The shape of a worker is that of its kernel, unless the pair says otherwise. */
static gs_code read_worker(const gs_json *json, const gs_step *at, const char *const keys[3], gs_shape *shape,
                           gs_error *error) {
    int64_t threads = shape->threads, registers = shape->registers, shared = shape->shared_bytes;
    gs_code code = read_count(json, at, keys[0], 65536, &threads, error);
    if (code == GS_OK)
        code = read_count(json, at, keys[1], 65536, &registers, error);
    if (code == GS_OK)
        code = read_count(json, at, keys[2], 1 << 24, &shared, error);
    *shape = gs_shape_of((int32_t)threads, (int32_t)registers, shared);
    return code;
}

static gs_code read_workers(const gs_json *json, const gs_step *at, const gs_plan_table *table, gs_table_pair *pair,
                            gs_error *error) {
    static const char *const keys[2][3] = {{"first_block_threads", "first_registers", "first_shared_bytes"},
                                           {"second_block_threads", "second_registers", "second_shared_bytes"}};
    gs_code code = GS_OK;
    for (int i = 0; i < 2 && code == GS_OK; i++) {
        const gs_shape *kernel = &table->kernels.data[i ? pair->second : pair->first].shape;
        pair->shapes[i] = *kernel;
        code = read_worker(json, at, keys[i], &pair->shapes[i], error);
        pair->is_reshaped = pair->is_reshaped || !gs_shape_equal(kernel, &pair->shapes[i]);
    }
    return code;
}

static gs_code read_pair_numbers(const gs_json *json, const gs_step *at, gs_table_pair *pair, gs_error *error) {
    int64_t first = 0, second = 0;
    gs_code code = read_count(json, at, "first_workers_per_sm", GS_MAX_BLOCKS_PER_SM, &first, error);
    if (code == GS_OK)
        code = read_count(json, at, "second_workers_per_sm", GS_MAX_BLOCKS_PER_SM, &second, error);
    if (code == GS_OK)
        code = read_number(json, at, "together_us", 0, MOST_US, &pair->together_us, error);
    if (code == GS_OK)
        code = read_number(json, at, "first_us", 1e-6, MOST_US, &pair->first_us, error);
    if (code == GS_OK)
        code = read_number(json, at, "second_us", 1e-6, MOST_US, &pair->second_us, error);
    pair->first_workers = (int32_t)first;
    pair->second_workers = (int32_t)second;
    return code;
}

/* Pairs of kernels that are not in the table are left out. */
static gs_code read_pair(const gs_json *json, const gs_step *at, gs_plan_table *table, gs_error *error) {
    gs_table_pair pair = {.first = -1};
    gs_code code = find_kernel(json, at, "first", table, &pair.first, error);
    if (code == GS_OK)
        code = find_kernel(json, at, "second", table, &pair.second, error);
    if (code != GS_OK || pair.first < 0 || pair.second < 0)
        return code;
    pair.first_us = table->kernels.data[pair.first].alone_us;
    pair.second_us = table->kernels.data[pair.second].alone_us;
    code = read_option(json, at, &pair, error);
    if (code == GS_OK)
        code = read_workers(json, at, table, &pair, error);
    if (code == GS_OK)
        code = read_pair_numbers(json, at, &pair, error);
    if (code == GS_OK)
        code = read_points(json, at, &pair, error);
    if (code != GS_OK)
        return code;
    if (!GS_RESERVE(&table->pairs, 1))
        return gs_fail_memory(error);
    table->pairs.data[table->pairs.count++] = pair;
    return GS_OK;
}

static gs_code read_list(const gs_json *json, const gs_step *root, const char *key, gs_plan_table *table,
                         gs_code (*read)(const gs_json *, const gs_step *, gs_plan_table *, gs_error *),
                         gs_error *error) {
    gs_step list = gs_step_key(root, key);
    if (!json_is_array(list.value))
        return gs_json_fail(json, list.value ? &list : root, false, error, "\"%s\" must be a list", key);
    gs_code code = GS_OK;
    for (size_t i = 0; i < json_array_size(list.value) && code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        code = json_is_object(entry.value) ? read(json, &entry, table, error)
                                           : gs_json_fail(json, &entry, false, error, "must be an object");
    }
    if (code == GS_OK && table->kernels.count > MOST_KERNELS)
        code = gs_json_fail(json, &list, false, error, "a plan may have at most %d kernels", MOST_KERNELS);
    return code;
}

static gs_code read_table(const gs_json *json, gs_plan_table *table, gs_error *error) {
    gs_step root = gs_step_root(json), format = gs_step_key(&root, "format"), gpu = gs_step_key(&root, "gpu");
    if (!format.value)
        format = gs_step_key(&root, "schema");
    const char *word = json_string_value(format.value);
    if (!word || strcmp(word, "gridsmith.plan/1") != 0)
        return gs_json_fail(json, format.value ? &format : &root, false, error,
                            "not a plan: \"schema\" must be \"gridsmith.plan/1\"");
    if (json_is_string(gpu.value) && !(table->gpu = strdup(json_string_value(gpu.value))))
        return gs_fail_memory(error);
    gs_code code = read_list(json, &root, "kernels", table, read_kernel, error);
    return code == GS_OK ? read_list(json, &root, "pairs", table, read_pair, error) : code;
}

gs_code gs_plan_table_read(gs_input *input, gs_plan_table *table, gs_error *error) {
    gs_json json;
    memset(table, 0, sizeof *table);
    gs_code code = gs_json_next(input, &json, error);
    if (code == GS_OK)
        code =
            json.root ? read_table(&json, table, error) : gs_input_fail(input, error, GS_E_FORMAT, "the file is empty");
    gs_json_free(&json);
    return code;
}

void gs_plan_table_clear(gs_plan_table *table) {
    for (size_t i = 0; i < table->kernels.count; i++)
        free(table->kernels.data[i].name);
    free(table->kernels.data);
    free(table->pairs.data);
    free(table->gpu);
    memset(table, 0, sizeof *table);
}

/* ---- answers ---- */

/* Without a shape the time of a block is not known. */
gs_code gs_plan_table_divide(gs_plan_table *table, const gs_gpu *recorded_on, gs_error *error) {
    for (size_t i = 0; i < table->kernels.count; i++) {
        gs_table_kernel *kernel = &table->kernels.data[i];
        if (kernel->shape.threads == 0)
            continue;
        double waves = gs_waves_on(recorded_on, &kernel->shape, kernel->blocks, error);
        if (waves == 0)
            return error->code;
        kernel->one_block_us = kernel->alone_us / waves;
    }
    return GS_OK;
}

int32_t gs_plan_table_find(const gs_plan_table *table, const char *kernel) {
    for (size_t i = 0; i < table->kernels.count; i++)
        if (strcmp(table->kernels.data[i].name, kernel) == 0)
            return (int32_t)i;
    return -1;
}

bool gs_table_pair_rates(const gs_table_pair *pair, gs_pair_rates *rates, double *residual) {
    *residual = 0;
    if (pair->option == GS_TABLE_SERIAL)
        return false;
    if (pair->has_model && pair->model.residual <= GS_MOST_RESIDUAL) {
        *rates = gs_pair_model_rates(&pair->model);
        *residual = pair->model.residual;
    } else if (pair->has_few && pair->few.residual <= GS_MOST_RESIDUAL) {
        *rates = pair->few.rates;
        *residual = pair->few.residual;
    } else if (pair->together_us > 0)
        *rates = gs_pair_measured_rates(pair->first_us, pair->second_us, pair->together_us);
    else
        return false;
    return true;
}

/* No launch is shorter than one of its blocks. */
gs_forecast gs_table_kernel_us(const gs_table_kernel *kernel, int64_t blocks, double work) {
    double amount = (double)blocks * work, least = kernel->one_block_us * work;
    gs_forecast forecast = {.value = kernel->alone_us * amount / (double)kernel->blocks};
    if (kernel->has_model)
        forecast = gs_line_at(&kernel->model, gs_wave_blocks(&kernel->model, (double)blocks) * work);
    else {
        forecast.low = forecast.high = forecast.value;
        forecast.doubt = fabs(amount - (double)kernel->blocks) <= 1e-9 * amount ? GS_DOUBT_NONE : GS_DOUBT_FEW;
    }
    if (forecast.value < least)
        forecast = (gs_forecast){.value = least, .low = least, .high = least, .doubt = forecast.doubt};
    return forecast;
}
