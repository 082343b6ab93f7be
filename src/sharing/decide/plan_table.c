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

/* A plan while it is read. After an error nothing more is read, so callers need not look at each result. */
struct reading {
    const gs_json *json;
    gs_plan_table *table;
    gs_code code;
    gs_error *error;
};

/* The value of a key that may be missing. False: there is none to read. */
static bool find_value(const struct reading *reading, const gs_step *at, const char *key, gs_step *step) {
    *step = gs_step_key(at, key);
    return reading->code == GS_OK && step->value && !json_is_null(step->value);
}

static void read_number(struct reading *reading, const gs_step *at, const char *key, double least, double most,
                        double *value) {
    gs_step step;
    if (!find_value(reading, at, key, &step))
        return;
    double number = json_number_value(step.value);
    if (json_is_number(step.value) && number >= least && number <= most)
        *value = number;
    else
        reading->code = gs_json_fail(reading->json, &step, false, reading->error,
                                     "\"%s\" must be a number from %g to %g", key, least, most);
}

/* The same for whole numbers. */
static void read_count(struct reading *reading, const gs_step *at, const char *key, int64_t most, int64_t *value) {
    gs_step step;
    if (find_value(reading, at, key, &step))
        reading->code = gs_json_int(reading->json, &step, 0, most, value, reading->error);
}

/* A name, which must be there. */
static const char *read_name(struct reading *reading, const gs_step *at, const char *key) {
    gs_step step = gs_step_key(at, key);
    const char *text = json_string_value(step.value);
    if (reading->code == GS_OK && !(text && *text))
        reading->code =
            gs_json_fail(reading->json, step.value ? &step : at, false, reading->error, "\"%s\" must be a name", key);
    return text;
}

static void read_model(struct reading *reading, const gs_step *at, gs_table_kernel *kernel) {
    gs_step step = gs_step_key(at, "model");
    gs_line_model *model = &kernel->model;
    if (!json_is_object(step.value))
        return;
    read_number(reading, &step, "base_us", -MOST_US, MOST_US, &model->base);
    read_number(reading, &step, "per_block_us", 0, MOST_US, &model->slope);
    read_number(reading, &step, "min_blocks", 0, MOST_US, &model->least);
    read_number(reading, &step, "max_blocks", 0, MOST_US, &model->most);
    read_number(reading, &step, "residual", 0, MOST_US, &model->residual);
    read_number(reading, &step, "wave_blocks", 0, MOST_US, &model->wave);
    kernel->has_model = model->slope > 0;
}

/* The shape of a block. What is missing stays as it is. */
static void read_shape(struct reading *reading, const gs_step *at, const char *const keys[3], gs_shape *shape) {
    int64_t threads = shape->threads, registers = shape->registers, shared = shape->shared_bytes;
    read_count(reading, at, keys[0], 65536, &threads);
    read_count(reading, at, keys[1], 65536, &registers);
    read_count(reading, at, keys[2], 1 << 24, &shared);
    *shape = gs_shape_of((int32_t)threads, (int32_t)registers, shared);
}

static void read_workers(struct reading *reading, const gs_step *at, const char *key, int32_t *workers) {
    int64_t count = 0;
    read_count(reading, at, key, GS_MAX_BLOCKS_PER_SM, &count);
    *workers = (int32_t)count;
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
static void read_kernel(struct reading *reading, const gs_step *at) {
    static const char *const keys[3] = {"block_threads", "registers", "shared_bytes"};
    gs_table_kernel kernel = {.blocks = 1};
    const char *name = read_name(reading, at, "name");
    read_count(reading, at, "blocks", INT64_MAX / 2, &kernel.blocks);
    read_shape(reading, at, keys, &kernel.shape);
    read_workers(reading, at, "workers_per_sm", &kernel.workers);
    read_number(reading, at, "alone_us", 0, MOST_US, &kernel.alone_us);
    read_model(reading, at, &kernel);
    const char *form = json_string_value(json_object_get(at->value, "form"));
    kernel.is_black_box = form && strcmp(form, "black box") == 0;
    kernel.blocks = gs_max(kernel.blocks, 1);
    if (reading->code == GS_OK && kernel.alone_us != 0)
        reading->code = keep_kernel(reading->table, &kernel, name, reading->error);
}

static void read_option(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    static const char *const names[] = {"turns", "inside", "split"};
    const char *name = read_name(reading, at, "option");
    gs_step step = gs_step_key(at, "option");
    if (reading->code != GS_OK)
        return;
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) {
            pair->option = (gs_table_option)i;
            return;
        }
    reading->code =
        gs_json_fail(reading->json, &step, false, reading->error, "\"option\" must be inside, split or turns");
}

/* The points: durations of both together, divided by that of the first alone. */
static void read_points(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    gs_step list = gs_step_key(at, "points");
    gs_fit_point points[GS_PAIR_MODEL_POINTS];
    size_t count = gs_min_u64(json_array_size(list.value), GS_PAIR_MODEL_POINTS), kept = 0;
    for (size_t i = 0; i < count && reading->code == GS_OK; i++) {
        gs_step point = gs_step_index(&list, i);
        double us = 0, ratio = 0;
        read_number(reading, &point, "ratio", 0, 1e6, &ratio);
        read_number(reading, &point, "us", 0, MOST_US, &us);
        if (us > 0 && ratio > 0)
            points[kept++] = (gs_fit_point){ratio, us / pair->first_us};
    }
    if (reading->code != GS_OK)
        return;
    pair->has_model = kept >= LEAST_POINTS && gs_pair_model_fit(points, kept, &pair->model) && pair->model.bend != 0;
    pair->has_few = kept >= FEW_POINTS && gs_pair_few_rates(points, kept, &pair->few);
    if (pair->has_few && pair->has_model)
        pair->has_model = pair->model.deviation < pair->few.deviation;
}

static int32_t read_kernel_of_pair(struct reading *reading, const gs_step *at, const char *key) {
    const char *name = read_name(reading, at, key);
    return reading->code == GS_OK ? gs_plan_table_find(reading->table, name) : -1;
}

/* The shape of a worker is that of its kernel, unless the pair says otherwise. */
static void read_shapes(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    static const char *const keys[2][3] = {{"first_block_threads", "first_registers", "first_shared_bytes"},
                                           {"second_block_threads", "second_registers", "second_shared_bytes"}};
    for (int i = 0; i < 2; i++) {
        const gs_shape *kernel = &reading->table->kernels.data[i ? pair->second : pair->first].shape;
        pair->shapes[i] = *kernel;
        read_shape(reading, at, keys[i], &pair->shapes[i]);
        pair->is_reshaped = pair->is_reshaped || !gs_shape_equal(kernel, &pair->shapes[i]);
    }
}

/* Pairs of kernels that are not in the table are left out. */
static void read_pair(struct reading *reading, const gs_step *at) {
    gs_plan_table *table = reading->table;
    gs_table_pair pair = {.first = read_kernel_of_pair(reading, at, "first")};
    pair.second = read_kernel_of_pair(reading, at, "second");
    if (pair.first < 0 || pair.second < 0)
        return;
    pair.first_us = table->kernels.data[pair.first].alone_us;
    pair.second_us = table->kernels.data[pair.second].alone_us;
    read_option(reading, at, &pair);
    read_shapes(reading, at, &pair);
    read_workers(reading, at, "first_workers_per_sm", &pair.first_workers);
    read_workers(reading, at, "second_workers_per_sm", &pair.second_workers);
    int64_t first_sms = 0;
    read_count(reading, at, "first_sms", GS_MAX_SMS, &first_sms);
    pair.first_sms = (int32_t)first_sms;
    read_number(reading, at, "together_us", 0, MOST_US, &pair.together_us);
    read_number(reading, at, "first_us", 1e-6, MOST_US, &pair.first_us);
    read_number(reading, at, "second_us", 1e-6, MOST_US, &pair.second_us);
    read_points(reading, at, &pair);
    if (reading->code != GS_OK)
        return;
    if (GS_RESERVE(&table->pairs, 1))
        table->pairs.data[table->pairs.count++] = pair;
    else
        reading->code = gs_fail_memory(reading->error);
}

static void read_list(struct reading *reading, const gs_step *root, const char *key,
                      void (*read)(struct reading *, const gs_step *)) {
    gs_step list = gs_step_key(root, key);
    if (reading->code == GS_OK && !json_is_array(list.value))
        reading->code =
            gs_json_fail(reading->json, list.value ? &list : root, false, reading->error, "\"%s\" must be a list", key);
    for (size_t i = 0; i < json_array_size(list.value) && reading->code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        if (json_is_object(entry.value))
            read(reading, &entry);
        else
            reading->code = gs_json_fail(reading->json, &entry, false, reading->error, "must be an object");
    }
    if (reading->code == GS_OK && reading->table->kernels.count > MOST_KERNELS)
        reading->code = gs_json_fail(reading->json, &list, false, reading->error, "a plan may have at most %d kernels",
                                     MOST_KERNELS);
}

static gs_code read_table(const gs_json *json, gs_plan_table *table, gs_error *error) {
    struct reading reading = {.json = json, .table = table, .error = error};
    gs_step root = gs_step_root(json), format = gs_step_key(&root, "format"), gpu = gs_step_key(&root, "gpu");
    if (!format.value)
        format = gs_step_key(&root, "schema");
    const char *word = json_string_value(format.value);
    if (!word || strcmp(word, "gridsmith.plan/1") != 0)
        return gs_json_fail(json, format.value ? &format : &root, false, error,
                            "not a plan: \"schema\" must be \"gridsmith.plan/1\"");
    if (json_is_string(gpu.value) && !(table->gpu = strdup(json_string_value(gpu.value))))
        return gs_fail_memory(error);
    read_list(&reading, &root, "kernels", read_kernel);
    read_list(&reading, &root, "pairs", read_pair);
    return reading.code;
}

gs_code gs_plan_table_read(gs_input *input, gs_plan_table *table, gs_error *error) {
    static const char database[] = "SQLite format 3";
    gs_json json;
    const char *bytes = NULL;
    size_t count = 0;
    memset(table, 0, sizeof *table);
    gs_code code = gs_input_more(input, &bytes, &count, error);
    if (code == GS_OK && count >= sizeof database && memcmp(bytes, database, sizeof database) == 0)
        code = gs_input_fail(input, error, GS_E_FORMAT,
                             "the file has the measurements of 'gridsmith plan'; the plan is what -o FILE writes");
    if (code != GS_OK)
        return code;
    code = gs_json_next(input, &json, error);
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
    table->sms = recorded_on->sms;
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
    else if (fabs(amount - (double)kernel->blocks) > 1e-9 * amount)
        forecast.doubt = GS_DOUBT_FEW;
    forecast.value = fmax(forecast.value, least);
    return forecast;
}
