/*
 * plan_table.c: reads the JSON of a plan (gridsmith.plan/1), and answers how long its kernels and pairs take.
 *
 * A kernel may be listed in several forms; the fastest one counts. Pairs with at least five points get the two-stage
 * model, if it is better than its simple form. Pairs with fewer points get the simple form, and pairs without points
 * the plan's one measurement.
 *
 * What is read must be right, and be there: a plan that was damaged must not become another plan. Keys that are not
 * read are ignored.
 */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_POINTS = 5, FEW_POINTS = 2, MOST_KERNELS = 4096 };

#define LEAST_US 1e-6
#define MOST_US  1e12

/* ---- reading ---- */

/* A plan while it is read. After an error nothing more is read, so callers need not look at each result. */
struct reading {
    const gs_json *json;
    gs_plan_table *table;
    bool *seen; /* pairs, by their kernels */
    gs_code code;
    gs_error *error;
};

/* A key that must be there. */
static void need_key(struct reading *reading, const gs_step *at, const char *key) {
    json_t *value = gs_step_key(at, key).value;
    if (reading->code == GS_OK && (!value || json_is_null(value)))
        reading->code = gs_json_fail(reading->json, at, false, reading->error, "\"%s\" is missing", key);
}

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
static void read_count(struct reading *reading, const gs_step *at, const char *key, int64_t least, int64_t most,
                       int64_t *value) {
    gs_step step;
    if (find_value(reading, at, key, &step))
        reading->code = gs_json_int(reading->json, &step, least, most, value, reading->error);
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
    static const char *const needed[] = {"base_us", "per_block_us", "min_blocks", "max_blocks", "residual"};
    gs_step step;
    gs_line_model *model = &kernel->model;
    if (!find_value(reading, at, "model", &step))
        return;
    if (!json_is_object(step.value))
        reading->code =
            gs_json_fail(reading->json, &step, false, reading->error, "\"model\" must be an object or null");
    for (size_t i = 0; i < GS_COUNT(needed); i++)
        need_key(reading, &step, needed[i]);
    read_number(reading, &step, "base_us", -MOST_US, MOST_US, &model->base);
    read_number(reading, &step, "per_block_us", 0, MOST_US, &model->slope);
    read_number(reading, &step, "min_blocks", 0, MOST_US, &model->least);
    read_number(reading, &step, "max_blocks", model->least, MOST_US, &model->most);
    read_number(reading, &step, "residual", 0, MOST_US, &model->residual);
    read_number(reading, &step, "wave_blocks", 0, MOST_US, &model->wave);
    kernel->has_model = model->slope > 0;
}

/* The shape of a block. What is missing stays as it is. */
static void read_shape(struct reading *reading, const gs_step *at, const char *const keys[3], gs_shape *shape) {
    int64_t threads = shape->threads, registers = shape->registers, shared = shape->shared_bytes;
    read_count(reading, at, keys[0], 0, 65536, &threads);
    read_count(reading, at, keys[1], 0, 65536, &registers);
    read_count(reading, at, keys[2], 0, 1 << 24, &shared);
    *shape = gs_shape_of((int32_t)threads, (int32_t)registers, shared);
}

static void read_workers(struct reading *reading, const gs_step *at, const char *key, int64_t least, int32_t *workers) {
    int64_t count = 0;
    read_count(reading, at, key, least, GS_MAX_BLOCKS_PER_SM, &count);
    *workers = (int32_t)count;
}

/* Which of these words a key has, which may be missing. */
static int read_word(struct reading *reading, const gs_step *at, const char *key, const char *const *words,
                     size_t count) {
    gs_step step;
    if (!find_value(reading, at, key, &step))
        return -1;
    const char *word = json_string_value(step.value);
    for (size_t i = 0; i < count && word; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    gs_text known = {0};
    for (size_t i = 0; i < count; i++)
        gs_text_add(&known, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
    reading->code =
        known.failed ? gs_fail_memory(reading->error)
                     : gs_json_fail(reading->json, &step, false, reading->error, "\"%s\" must be %s", key, known.data);
    gs_text_free(&known);
    return -1;
}

/* Appends a kernel, with a copy of the name. */
static gs_code add_kernel(gs_table_kernels *kernels, const gs_table_kernel *kernel, const char *name, gs_error *error) {
    if (!GS_RESERVE(kernels, 1))
        return gs_fail_memory(error);
    gs_table_kernel *added = &kernels->data[kernels->count];
    *added = *kernel;
    added->name = strdup(name);
    kernels->count += added->name != NULL;
    return added->name ? GS_OK : gs_fail_memory(error);
}

static int32_t find_kernel(const gs_table_kernels *kernels, const char *name) {
    for (size_t i = 0; i < kernels->count; i++)
        if (strcmp(kernels->data[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

/* Keeps a kernel; of several forms of a kernel, the fastest. */
static void keep_kernel(struct reading *reading, const gs_step *at, const gs_table_kernel *kernel, const char *name) {
    gs_table_kernels *kernels = kernel->alone_us > 0 ? &reading->table->kernels : &reading->table->unmeasured;
    int32_t known = find_kernel(kernels, name);
    gs_table_kernel *other = known >= 0 ? &kernels->data[known] : NULL;
    if (!other) {
        reading->code = add_kernel(kernels, kernel, name, reading->error);
    } else if (other->forms & kernel->forms) {
        gs_step step = gs_step_key(at, "name");
        reading->code =
            gs_json_fail(reading->json, &step, false, reading->error, "the plan has the kernel \"%.60s\" twice", name);
    } else {
        char *kept = other->name;
        uint32_t forms = other->forms | kernel->forms;
        if (kernel->alone_us < other->alone_us)
            *other = *kernel;
        other->name = kept;
        other->forms = forms;
    }
}

static void read_kernel(struct reading *reading, const gs_step *at) {
    static const char *const keys[3] = {"block_threads", "registers", "shared_bytes"};
    static const char *const forms[] = {"whole", "half", "quarter", "black box"};
    gs_table_kernel kernel = {.blocks = 1};
    const char *name = read_name(reading, at, "name");
    if (reading->code == GS_OK && !gs_step_key(at, "alone_us").value)
        need_key(reading, at, "alone_us"); /* it may be null */
    read_number(reading, at, "alone_us", LEAST_US, MOST_US, &kernel.alone_us);
    if (kernel.alone_us > 0)
        need_key(reading, at, "blocks");
    read_count(reading, at, "blocks", kernel.alone_us > 0, INT64_MAX / 2, &kernel.blocks);
    read_shape(reading, at, keys, &kernel.shape);
    if (!kernel.shape.threads != !kernel.shape.registers)
        need_key(reading, at, keys[kernel.shape.threads > 0]);
    read_workers(reading, at, "workers_per_sm", 0, &kernel.workers);
    read_model(reading, at, &kernel);
    int form = read_word(reading, at, "form", forms, GS_COUNT(forms)); /* -1: none */
    kernel.forms = 1U << (form + 1);
    kernel.is_black_box = form == GS_COUNT(forms) - 1;
    if (reading->code == GS_OK)
        keep_kernel(reading, at, &kernel, name);
}

static void read_option(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    static const char *const names[] = {
        [GS_TABLE_SERIAL] = "turns", [GS_TABLE_INTRA_SM] = "inside", [GS_TABLE_SPLIT] = "split"};
    need_key(reading, at, "option");
    int option = read_word(reading, at, "option", names, GS_COUNT(names));
    pair->option = option < 0 ? GS_TABLE_SERIAL : (gs_table_option)option;
}

/* A duration together, divided by that of the first alone. */
static gs_fit_point read_point(struct reading *reading, const gs_step *at, double first_us) {
    double us = 0, ratio = 0;
    if (!json_is_object(at->value))
        reading->code = gs_json_fail(reading->json, at, false, reading->error, "a point must be an object");
    need_key(reading, at, "ratio");
    need_key(reading, at, "us");
    read_number(reading, at, "ratio", LEAST_US, 1e6, &ratio);
    read_number(reading, at, "us", LEAST_US, MOST_US, &us);
    return (gs_fit_point){ratio, us / first_us};
}

static void read_points(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    gs_step list;
    gs_fit_point points[GS_PAIR_MODEL_POINTS];
    if (!find_value(reading, at, "points", &list))
        return;
    size_t count = json_array_size(list.value);
    if (!json_is_array(list.value) || count > GS_PAIR_MODEL_POINTS)
        reading->code = gs_json_fail(reading->json, &list, false, reading->error,
                                     "\"points\" must be a list of at most %d points", GS_PAIR_MODEL_POINTS);
    for (size_t i = 0; i < count && reading->code == GS_OK; i++) {
        gs_step point = gs_step_index(&list, i);
        points[i] = read_point(reading, &point, pair->first_us);
    }
    if (reading->code != GS_OK)
        return;
    pair->has_model = count >= LEAST_POINTS && gs_pair_model_fit(points, count, &pair->model) && pair->model.bend != 0;
    pair->has_few = count >= FEW_POINTS && gs_pair_few_rates(points, count, &pair->few);
    if (pair->has_few && pair->has_model)
        pair->has_model = pair->model.deviation < pair->few.deviation;
}

/* A kernel of the plan. -1: it has no duration. */
static int32_t read_kernel_of_pair(struct reading *reading, const gs_step *at, const char *key) {
    const char *name = read_name(reading, at, key);
    int32_t kernel = reading->code == GS_OK ? gs_plan_table_find(reading->table, name) : -1;
    if (reading->code == GS_OK && kernel < 0 && !gs_plan_table_is_unmeasured(reading->table, name)) {
        gs_step step = gs_step_key(at, key);
        reading->code =
            gs_json_fail(reading->json, &step, false, reading->error, "the plan has no kernel \"%.60s\"", name);
    }
    return kernel;
}

/* The shape of a worker is that of its kernel, unless the pair says otherwise. */
static void read_shapes(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    static const char *const keys[2][3] = {{"first_block_threads", "first_registers", "first_shared_bytes"},
                                           {"second_block_threads", "second_registers", "second_shared_bytes"}};
    for (int i = 0; i < 2; i++) {
        const gs_shape *kernel = &reading->table->kernels.data[i ? pair->second : pair->first].shape;
        pair->shapes[i] = *kernel;
        read_shape(reading, at, keys[i], &pair->shapes[i]);
        if (pair->option == GS_TABLE_INTRA_SM && reading->code == GS_OK &&
            !(pair->shapes[i].threads && pair->shapes[i].registers))
            reading->code = gs_json_fail(reading->json, at, false, reading->error,
                                         "the plan does not say how many %s of \"%.60s\" has",
                                         pair->shapes[i].threads ? "registers a thread" : "threads a block",
                                         reading->table->kernels.data[i ? pair->second : pair->first].name);
        pair->is_reshaped = pair->is_reshaped || !gs_shape_equal(kernel, &pair->shapes[i]);
    }
}

/* How the two run: the worker blocks of each, or the SMs of the first. */
static void read_places(struct reading *reading, const gs_step *at, gs_table_pair *pair) {
    int64_t first_sms = 0, least = pair->option == GS_TABLE_INTRA_SM;
    if (pair->option == GS_TABLE_INTRA_SM) {
        need_key(reading, at, "first_workers_per_sm");
        need_key(reading, at, "second_workers_per_sm");
    }
    if (pair->option == GS_TABLE_SPLIT)
        need_key(reading, at, "first_sms");
    read_workers(reading, at, "first_workers_per_sm", least, &pair->first_workers);
    read_workers(reading, at, "second_workers_per_sm", least, &pair->second_workers);
    read_count(reading, at, "first_sms", 1, GS_MAX_SMS, &first_sms);
    pair->first_sms = (int32_t)first_sms;
}

static void refuse_second(struct reading *reading, const gs_step *at, const gs_table_pair *pair) {
    const gs_table_kernel *kernels = reading->table->kernels.data;
    size_t count = reading->table->kernels.count, first = (size_t)gs_min(pair->first, pair->second),
           second = (size_t)gs_max(pair->first, pair->second);
    bool *seen = &reading->seen[first * count + second];
    if (*seen && reading->code == GS_OK)
        reading->code = gs_json_fail(reading->json, at, false, reading->error,
                                     "the plan has the pair \"%.60s\" and \"%.60s\" twice", kernels[pair->first].name,
                                     kernels[pair->second].name);
    *seen = true;
}

/* Pairs of kernels without a duration are left out. */
static void read_pair(struct reading *reading, const gs_step *at) {
    gs_plan_table *table = reading->table;
    gs_table_pair pair = {.first = read_kernel_of_pair(reading, at, "first")};
    pair.second = read_kernel_of_pair(reading, at, "second");
    read_option(reading, at, &pair);
    if (pair.first < 0 || pair.second < 0)
        return;
    refuse_second(reading, at, &pair);
    pair.first_us = table->kernels.data[pair.first].alone_us;
    pair.second_us = table->kernels.data[pair.second].alone_us;
    read_shapes(reading, at, &pair);
    read_places(reading, at, &pair);
    read_number(reading, at, "together_us", 0, MOST_US, &pair.together_us);
    read_number(reading, at, "first_us", LEAST_US, MOST_US, &pair.first_us);
    read_number(reading, at, "second_us", LEAST_US, MOST_US, &pair.second_us);
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
    const char *name = gpu.value ? read_name(&reading, &root, "gpu") : NULL;
    if (reading.code == GS_OK && name && !(table->gpu = strdup(name)))
        return gs_fail_memory(error);
    if (table->gpu)
        gs_make_printable(table->gpu);
    read_list(&reading, &root, "kernels", read_kernel);
    reading.seen = calloc(table->kernels.count * table->kernels.count + 1, sizeof *reading.seen);
    if (reading.code == GS_OK && !reading.seen)
        reading.code = gs_fail_memory(error);
    read_list(&reading, &root, "pairs", read_pair);
    free(reading.seen);
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
    return code == GS_OK ? gs_json_end(input, error) : code;
}

static void clear_kernels(gs_table_kernels *kernels) {
    for (size_t i = 0; i < kernels->count; i++)
        free(kernels->data[i].name);
    free(kernels->data);
}

void gs_plan_table_clear(gs_plan_table *table) {
    clear_kernels(&table->kernels);
    clear_kernels(&table->unmeasured);
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
        double waves = gs_waves_on(recorded_on, kernel->name, &kernel->shape, kernel->blocks, error);
        if (waves == 0)
            return error->code;
        kernel->one_block_us = kernel->alone_us / waves;
    }
    return GS_OK;
}

int32_t gs_plan_table_find(const gs_plan_table *table, const char *kernel) {
    return find_kernel(&table->kernels, kernel);
}

bool gs_plan_table_is_unmeasured(const gs_plan_table *table, const char *kernel) {
    return find_kernel(&table->unmeasured, kernel) >= 0;
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
