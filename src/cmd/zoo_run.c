/*
 * zoo_run.c: gridsmith zoo run: runs and checks kernels of the zoo, in a form and at several sizes; and gridsmith zoo
 * bench: the costs of the forms.
 *
 * Both print a row for each kernel and size as soon as it is known: of a table, or of the one document of --json.
 */
#include "kernels/zoo/zoo.h"
#include "lab/fuzz/fuzz.h"
#include "sharing/client/client.h"
#include "zoo_verbs.h"

#include <stdlib.h>
#include <string.h>

#define ROW_SCHEMA "gridsmith.zoo-bench-kernel/1" /* a kernel in the file of a campaign */

/* Kernels to run or time in sequence, and the results so far. */
struct experiment {
    const gs_zoo_options *options;
    gs_executor *executor;
    gs_gpu *gpu;
    const gs_zoo_kernel **kernels;
    size_t kernel_count;
    gs_zoo_form form;
    gs_text text;     /* with --json: output not yet written */
    gs_writer writer; /* of the document */
    size_t rows, wrong;
    double sums[GS_ZOO_BENCHED], most[GS_ZOO_BENCHED]; /* bench: percent */
};

static struct experiment new_experiment(const gs_zoo_options *options) {
    return (struct experiment){.options = options,
                               .text = {.sink = stdout},
                               .form = {.workers = (uint32_t)options->workers,
                                        .task_blocks = (uint32_t)options->task,
                                        .stops = (uint32_t)options->stops,
                                        .seed = (uint64_t)options->seed,
                                        .seconds = (uint32_t)options->seconds}};
}

int gs_zoo_unknown(const gs_command *command, const char *name) {
    gs_similar similar = {.word = name};
    for (size_t i = 0; gs_zoo_at(i); i++)
        gs_similar_try(&similar, gs_zoo_at(i)->name);
    return gs_usage(command, "unknown kernel \"%.40s\"%s; 'gridsmith zoo list' lists all kernels", name,
                    gs_similar_words(&similar));
}

/* A kernel with inline assembly has no elastic forms, and needs its registers. */
static bool has_form(const gs_zoo_kernel *kernel, enum gs_form form) {
    return !kernel->is_assembly || (form != GS_FORM_ELASTIC && form != GS_FORM_REGISTERS);
}

/* Kernels by name; "all" is all that have the form. 0: done. */
static int choose_kernels(const gs_command *command, const gs_words *names, struct experiment *experiment) {
    size_t all = 0;
    while (gs_zoo_at(all))
        all++;
    experiment->kernels = calloc(names->count * all + 1, sizeof *experiment->kernels);
    for (size_t i = 0; i < names->count && experiment->kernels; i++) {
        const gs_zoo_kernel *kernel = gs_zoo_find(names->data[i]);
        bool is_all = strcmp(names->data[i], "all") == 0;
        if (!kernel && !is_all)
            return gs_zoo_unknown(command, names->data[i]);
        for (size_t k = 0; k < all && is_all; k++)
            if (has_form(gs_zoo_at(k), experiment->form.form))
                experiment->kernels[experiment->kernel_count++] = gs_zoo_at(k);
        if (!is_all)
            experiment->kernels[experiment->kernel_count++] = kernel;
    }
    return experiment->kernels ? 0 : gs_report_memory();
}

static bool is_served(const gs_zoo_options *options) {
    return options->on && strcmp(options->on, "serve") == 0;
}

static gs_executor *open_executor(const gs_zoo_options *options, gs_error *error) {
    const char *on = options->on ? options->on : "host";
    if (is_served(options))
        return gs_executor_remote(NULL, error);
    if (strcmp(on, "host") == 0 || gs_cuda_is_device(on))
        return gs_executor_open(on, error);
    gs_fail(error, GS_E_USAGE, "unknown device \"%.40s\"; it must be host, cuda, cuda:N or serve", on);
    return NULL;
}

/* Checks the names and the size, and opens the executor. 0: done. */
static int open_experiment(const gs_command *command, const gs_words *names, struct experiment *experiment) {
    const gs_zoo_options *options = experiment->options;
    gs_error error = {.code = GS_OK};
    if (options->size && !gs_zoo_size_find(gs_zoo_at(0), options->size))
        return gs_usage(command, "--size takes tiny, odd, small or large, not \"%.40s\"", options->size);
    int status = choose_kernels(command, names, experiment);
    if (status)
        return status;
    experiment->gpu = gs_gpu_open(options->gpu ? options->gpu : "h200", &error);
    experiment->executor = experiment->gpu ? open_executor(options, &error) : NULL;
    return experiment->executor ? 0 : gs_report(&error);
}

static void close_experiment(struct experiment *experiment) {
    gs_executor_close(experiment->executor);
    gs_gpu_free(experiment->gpu);
    free(experiment->kernels);
    gs_text_free(&experiment->text);
}

/* The device is in the first line of a file, not in its rows. */
static void begin_document(struct experiment *experiment, const char *schema, const char *rows) {
    if (!experiment->options->json)
        return;
    experiment->writer = gs_writer_to(&experiment->text);
    gs_write_document(&experiment->writer, schema);
    if (experiment->executor)
        gs_write_string(&experiment->writer, "on", experiment->executor->ops->name);
    gs_write_array(&experiment->writer, rows);
}

/* A row is flushed at once, because the next one may take long. */
static void end_row(struct experiment *experiment) {
    gs_write_end(&experiment->writer);
    gs_text_flush(&experiment->text);
    fflush(stdout);
}

/* Prints the rest of the document; returns the exit code. */
static int end_experiment(struct experiment *experiment, gs_code code, gs_error *error) {
    if (experiment->options->json)
        gs_write_finish(&experiment->writer);
    code = gs_print_text(&experiment->text, code, error);
    return code == GS_OK ? experiment->wrong > 0 : gs_report(error);
}

/* ---- run ---- */

/* The occupancy of the first launch of an instance, with 1/`divide_block` of the threads and 1/`divide_shared` of the
   dynamic shared memory of a block. */
static gs_occupancy first_occupancy(const struct experiment *experiment, const gs_cost *cost,
                                    const gs_zoo_instance *instance, const uint32_t divide_block[3],
                                    uint32_t divide_shared) {
    const gs_zoo_launch *launch = &instance->launches.data[0];
    uint32_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= launch->block[i] / divide_block[i];
    gs_shape shape = gs_shape_of((int32_t)threads, cost->registers,
                                 cost->shared_bytes + (int64_t)(launch->shared_bytes / divide_shared));
    gs_occupancy occupancy;
    gs_occupancy_of(experiment->gpu, &shape, &occupancy, NULL);
    return occupancy;
}

/* Sets how many blocks fit on an SM if the executor did not know. */
static void complete_cost(const struct experiment *experiment, gs_cost *cost, const gs_zoo_instance *instance,
                          const uint32_t divide_block[3], uint32_t divide_shared) {
    if (cost->registers && !cost->blocks_per_sm)
        cost->blocks_per_sm = first_occupancy(experiment, cost, instance, divide_block, divide_shared).blocks;
}

static double occupancy_percent(const struct experiment *experiment, const gs_cost *cost,
                                const gs_zoo_instance *instance, const gs_zoo_part *part) {
    gs_occupancy occupancy = first_occupancy(experiment, cost, instance, part->divide_block, 1);
    return occupancy.warps_per_sm
               ? 100.0 * cost->blocks_per_sm * occupancy.warps_per_block / (double)occupancy.warps_per_sm
               : 0;
}

static const char *form_words(const gs_zoo_form *form) {
    return form->form == GS_FORM_ELASTIC ? form->factor == 2 ? "elastic/2" : "elastic/4" : gs_form_name(form->form);
}

static void print_row_json(struct experiment *experiment, const gs_zoo_instance *instance, const gs_zoo_part *part,
                           const gs_zoo_form *form, const gs_zoo_result *result) {
    char words[sizeof result->reason.message + sizeof result->reason.file + 64];
    const gs_cost *cost = &part->cost;
    gs_writer *writer = &experiment->writer;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "kernel", instance->kernel->name);
    gs_write_string(writer, "size", instance->size->name);
    gs_write_string(writer, "form", form_words(form));
    gs_write_bool(writer, "right", result->is_right);
    gs_write_real(writer, "time_us", (double)result->elapsed_ns / 1e3, 3);
    gs_write_int(writer, "launches", result->launches);
    if (cost->registers) {
        gs_write_int(writer, "registers", cost->registers);
        gs_write_int(writer, "shared_bytes", cost->shared_bytes);
        gs_write_int(writer, "local_bytes", cost->local_bytes);
        gs_write_int(writer, "blocks_per_sm", cost->blocks_per_sm);
        gs_write_real(writer, "occupancy_percent", occupancy_percent(experiment, cost, instance, part), 1);
    }
    gs_write_string(writer, "reason",
                    result->is_right ? result->reason.message : gs_error_text(&result->reason, words, sizeof words));
    end_row(experiment);
}

static void print_row(struct experiment *experiment, const gs_zoo_instance *instance, const gs_zoo_part *part,
                      const gs_zoo_form *form, const gs_zoo_result *result) {
    const gs_cost *cost = &part->cost;
    gs_text text = gs_text_for_people(stdout);
    if (!experiment->rows)
        gs_text_add(
            &text,
            "kernel         size   form         launches     time ms  registers  shared  blocks/SM  occupancy\n");
    gs_text_add(&text, "%-14s %-6s %-11s %9u %11.3f", instance->kernel->name, instance->size->name, form_words(form),
                result->launches, (double)result->elapsed_ns / 1e6);
    if (cost->registers)
        gs_text_add(&text, "  %9d %7d  %9d  %8.1f%%", cost->registers, cost->shared_bytes, cost->blocks_per_sm,
                    occupancy_percent(experiment, cost, instance, part));
    else
        gs_text_add(&text, "          -       -          -          -");
    if (result->is_right)
        gs_text_add(&text, "  right%s%s\n", result->reason.message[0] ? ": " : "", result->reason.message);
    else
        gs_text_add(&text, "  %s: %s\n", result->reason.code == GS_E_REFUSED ? "refused" : "wrong",
                    result->reason.message);
    gs_text_flush(&text);
    gs_text_free(&text);
    fflush(stdout);
}

static gs_code run_size(struct experiment *experiment, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                        const gs_zoo_form *form, gs_zoo_part *parts, gs_error *error) {
    gs_zoo_instance instance;
    gs_zoo_result result;
    gs_code code = gs_zoo_instance_make(&instance, kernel, size, error);
    if (code != GS_OK)
        return code;
    code = gs_zoo_run(&instance, experiment->executor, form, parts, &result, error);
    if (code == GS_OK && parts[0].program && !parts[0].cost.registers)
        code = gs_zoo_part_cost(&parts[0], experiment->executor, gs_gpu_architecture(experiment->gpu), &instance, 0,
                                error);
    if (code == GS_OK) {
        complete_cost(experiment, &parts[0].cost, &instance, parts[0].divide_block, parts[0].divide_shared);
        (experiment->options->json ? print_row_json : print_row)(experiment, &instance, &parts[0], form, &result);
        experiment->rows++;
        experiment->wrong += !result.is_right;
    }
    gs_zoo_instance_free(&instance);
    return code;
}

/* From the largest size down: a wrong guess at an elastic form is least likely to pass there. */
static gs_code run_kernel(struct experiment *experiment, const gs_zoo_kernel *kernel, const gs_zoo_form *form,
                          gs_error *error) {
    gs_zoo_part parts[GS_ZOO_KINDS] = {{.program = NULL}};
    const char *only = experiment->options->size;
    bool is_cuda = strcmp(experiment->executor->ops->name, "cuda") == 0; /* a daemon may use the CPU */
    gs_code code = GS_OK;
    for (size_t i = GS_ZOO_SIZES; i-- > 0 && code == GS_OK;) {
        const gs_zoo_size *size = &kernel->sizes[i];
        if (only ? strcmp(size->name, only) == 0 : is_cuda || !gs_zoo_size_is_large(size))
            code = run_size(experiment, kernel, size, form, parts, error);
    }
    for (size_t i = 0; i < GS_ZOO_KINDS; i++)
        gs_zoo_part_free(&parts[i]);
    return code;
}

/* The elastic form has two factors, 2 and 4, unless one is given. */
static gs_code run_kernels(struct experiment *experiment, gs_error *error) {
    int64_t factor_given = experiment->options->factor;
    bool is_elastic = experiment->form.form == GS_FORM_ELASTIC;
    int64_t first = !is_elastic ? 0 : factor_given ? factor_given : 2;
    int64_t last = !is_elastic ? 0 : factor_given ? factor_given : 4;
    gs_code code = GS_OK;
    for (size_t i = 0; i < experiment->kernel_count && code == GS_OK; i++)
        for (int64_t factor = first; factor <= last && code == GS_OK; factor += 2) {
            gs_zoo_form form = experiment->form;
            form.factor = (uint32_t)factor;
            code = run_kernel(experiment, experiment->kernels[i], &form, error);
        }
    return code;
}

/* Completes the form from the options. 0: done. */
static int choose_form(const gs_command *command, const gs_zoo_options *options, gs_zoo_form *form) {
    if (options->form && !gs_form_find(options->form, &form->form))
        return gs_usage(command, "--as takes persistent, confined, elastic or registers, not \"%.40s\"", options->form);
    if (options->factor == 3)
        return gs_usage(command, "--factor takes 2 or 4");
    if (is_served(options) && options->form)
        return gs_usage(command, "--as does not go with --device serve: the daemon chooses the form of kernels");
    form->max_registers = form->form == GS_FORM_REGISTERS ? (uint32_t)options->registers : 0;
    form->counts_blocks = true;
    return 0;
}

int gs_zoo_run_verb(const gs_command *command, void *given, const gs_words *names) {
    const gs_zoo_options *options = given;
    struct experiment experiment = new_experiment(options);
    gs_error error = {.code = GS_OK};
    int status = choose_form(command, options, &experiment.form);
    if (status == 0)
        status = open_experiment(command, names, &experiment);
    if (status == 0) {
        begin_document(&experiment, "gridsmith.zoo/1", "runs");
        gs_code code = run_kernels(&experiment, &error);
        if (options->json) {
            gs_write_end(&experiment.writer);
            gs_write_uint(&experiment.writer, "wrong", experiment.wrong);
        }
        status = end_experiment(&experiment, code, &error);
    }
    close_experiment(&experiment);
    return status;
}

/* ---- bench ---- */

/* A row of the table: the measurement, or an error. */
struct row {
    const char *kernel, *size, *mistake; /* mistake: an error, or NULL */
    gs_zoo_bench bench;
};

static void write_row(gs_writer *writer, const struct row *row) {
    const gs_zoo_bench *bench = &row->bench;
    gs_write_string(writer, "kernel", row->kernel);
    gs_write_string(writer, "size", row->size);
    gs_write_int(writer, "launches", bench->launches);
    for (int form = 0; form < GS_ZOO_BENCHED; form++) {
        gs_write_object(writer, gs_form_name((enum gs_form)form));
        gs_write_real(writer, "median_us", (double)bench->median_ns[form] / 1e3, 3);
        gs_write_real(writer, "cost_percent", bench->cost_percent[form], 3);
        gs_write_int(writer, "registers", bench->costs[form].registers);
        gs_write_int(writer, "max_registers", bench->max_registers[form]);
        gs_write_int(writer, "blocks_per_sm", bench->costs[form].blocks_per_sm);
        gs_write_end(writer);
    }
}

static void print_bench_json(struct experiment *experiment, const struct row *row) {
    gs_write_object(&experiment->writer, NULL);
    write_row(&experiment->writer, row);
    end_row(experiment);
}

static void print_bench(struct experiment *experiment, const struct row *row) {
    const gs_zoo_bench *bench = &row->bench;
    gs_text text = gs_text_for_people(stdout);
    if (!experiment->rows)
        gs_text_add(&text, "                                original          persistent            confined\n"
                           "kernel         size   launches        us         us    cost         us    cost  registers  "
                           "blocks/SM\n");
    gs_text_add(&text, "%-14s %-6s %8u %9.1f  %9.1f %+6.2f%%  %9.1f %+6.2f%%", row->kernel, row->size, bench->launches,
                (double)bench->median_ns[0] / 1e3, (double)bench->median_ns[1] / 1e3, bench->cost_percent[1],
                (double)bench->median_ns[2] / 1e3, bench->cost_percent[2]);
    for (int form = 0; form < GS_ZOO_BENCHED; form++)
        gs_text_add(&text, form ? "/%d%s" : "  %d%s", bench->costs[form].registers,
                    bench->max_registers[form] ? "*" : "");
    for (int form = 0; form < GS_ZOO_BENCHED; form++)
        gs_text_add(&text, form ? "/%d" : "  %d", bench->costs[form].blocks_per_sm);
    gs_text_add(&text, "\n");
    gs_text_flush(&text);
    gs_text_free(&text);
    fflush(stdout);
}

/* Prints a row, and counts it for the average. */
static void show_row(struct experiment *experiment, const struct row *row) {
    if (row->mistake) { /* the others may be right */
        fprintf(stderr, "gridsmith: %s: %s\n", row->kernel, row->mistake);
        experiment->wrong++;
        return;
    }
    (experiment->options->json ? print_bench_json : print_bench)(experiment, row);
    for (int form = 0; form < GS_ZOO_BENCHED; form++) {
        experiment->sums[form] += row->bench.cost_percent[form];
        if (!experiment->rows || row->bench.cost_percent[form] > experiment->most[form])
            experiment->most[form] = row->bench.cost_percent[form];
    }
    experiment->rows++;
}

static const char *bench_size(const struct experiment *experiment) {
    bool is_host = strcmp(experiment->executor->ops->name, "host") == 0;
    return experiment->options->size ? experiment->options->size : is_host ? "small" : "large";
}

static uint32_t bench_repeat(const struct experiment *experiment) {
    return experiment->options->repeat ? (uint32_t)experiment->options->repeat : 25;
}

/* Measures a kernel. A wrong result is a row, too. */
static gs_code measure_row(struct experiment *experiment, const gs_zoo_kernel *kernel, struct row *row,
                           gs_error *error) {
    const gs_zoo_size *size = gs_zoo_size_find(kernel, bench_size(experiment));
    gs_zoo_instance instance;
    *row = (struct row){.kernel = kernel->name, .size = size->name};
    gs_code code = gs_zoo_instance_make(&instance, kernel, size, error);
    if (code != GS_OK)
        return code;
    code = gs_zoo_measure(&instance, experiment->executor, gs_gpu_architecture(experiment->gpu), &experiment->form,
                          bench_repeat(experiment), experiment->options->unlimited, &row->bench, error);
    for (int form = 0; code == GS_OK && form < GS_ZOO_BENCHED; form++)
        complete_cost(experiment, &row->bench.costs[form], &instance, (uint32_t[]){1, 1, 1}, 1);
    gs_zoo_instance_free(&instance);
    row->mistake = code == GS_E_KERNEL ? error->message : NULL;
    return code == GS_E_KERNEL ? GS_OK : code;
}

static gs_code bench_kernels(struct experiment *experiment, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < experiment->kernel_count && code == GS_OK; i++) {
        struct row row;
        code = measure_row(experiment, experiment->kernels[i], &row, error);
        if (code == GS_OK)
            show_row(experiment, &row);
    }
    return code;
}

/* ---- bench as a campaign: each kernel is a run ---- */

static gs_code keep_row(gs_journal *journal, int64_t number, const struct row *row, gs_error *error) {
    gs_text line = {0};
    gs_writer writer = gs_writer_to(&line);
    gs_write_document(&writer, ROW_SCHEMA);
    gs_write_int(&writer, "id", number);
    if (row->mistake)
        gs_write_string(&writer, "mistake", row->mistake);
    write_row(&writer, row);
    gs_write_finish(&writer);
    gs_code code = gs_journal_add_line(journal, &line, error);
    gs_text_free(&line);
    return code;
}

static double real_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static int32_t int_of(const json_t *object, const char *key) {
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 && value < INT32_MAX ? (int32_t)value : 0;
}

/* Reads a row from its line; its names point into the line. False: not a row. */
static bool read_row(const json_t *line, struct row *row) {
    const char *schema = json_string_value(json_object_get(line, "schema"));
    *row = (struct row){.kernel = json_string_value(json_object_get(line, "kernel")),
                        .size = json_string_value(json_object_get(line, "size")),
                        .mistake = json_string_value(json_object_get(line, "mistake")),
                        .bench = {.launches = (uint32_t)int_of(line, "launches")}};
    for (int form = 0; form < GS_ZOO_BENCHED; form++) {
        const json_t *of = json_object_get(line, gs_form_name((enum gs_form)form));
        double us = real_of(of, "median_us");
        row->bench.median_ns[form] = us > 0 && us < 1e12 ? (uint64_t)(us * 1e3 + 0.5) : 0;
        row->bench.cost_percent[form] = real_of(of, "cost_percent");
        row->bench.costs[form].registers = int_of(of, "registers");
        row->bench.max_registers[form] = (uint32_t)int_of(of, "max_registers");
        row->bench.costs[form].blocks_per_sm = int_of(of, "blocks_per_sm");
    }
    return schema && strcmp(schema, ROW_SCHEMA) == 0 && row->kernel && row->size;
}

/* Shows the rows of a campaign's file. */
static gs_code show_file(struct experiment *experiment, const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_code code = input ? GS_OK : error->code;
    bool more = true;
    while (code == GS_OK && more) {
        gs_json json = {0};
        struct row row;
        code = gs_json_next(input, &json, error);
        more = code == GS_OK && json.root;
        gs_step root = gs_step_root(&json);
        if (more && !gs_is_campaign_header(json.root)) {
            if (read_row(json.root, &row))
                show_row(experiment, &row);
            else
                code = gs_json_fail(&json, &root, false, error, "not a row of 'zoo bench -o'");
        }
        gs_json_free(&json);
    }
    gs_input_close(input);
    if (code == GS_OK && !experiment->rows)
        code = gs_fail(error, GS_E_USAGE, "%s has no row of 'zoo bench -o'", gs_input_name(path));
    return code;
}

static gs_journal *open_journal(const struct experiment *experiment, const gs_campaign_about *about, gs_text *path,
                                gs_error *error) {
    const gs_zoo_options *options = experiment->options;
    gs_text line = {0};
    gs_writer writer = gs_writer_to(&line);
    gs_campaign_line_begin(&writer, about);
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < experiment->kernel_count; i++)
        gs_write_string(&writer, NULL, experiment->kernels[i]->name);
    gs_write_end(&writer);
    gs_write_string(&writer, "size", bench_size(experiment));
    gs_write_int(&writer, "repeat", bench_repeat(experiment));
    gs_write_int(&writer, "workers", options->workers);
    gs_write_int(&writer, "task", options->task);
    gs_write_int(&writer, "stops", options->stops);
    gs_write_int(&writer, "seed", options->seed);
    gs_write_bool(&writer, "unlimited", options->unlimited);
    gs_campaign_line_end(&writer, about);
    gs_journal *journal = gs_open_shard(&options->keep, about, "zoo-bench", &line, path, error);
    gs_text_free(&line);
    return journal;
}

/* Measures the kernels of the shard that its file lacks, and shows the file. */
static gs_code bench_campaign(const gs_command *command, struct experiment *experiment, const gs_shard *shard,
                              gs_error *error) {
    gs_text path = {0};
    gs_campaign_about about = {.command = "zoo-bench",
                               .device = experiment->options->on ? experiment->options->on : "host",
                               .gpu = experiment->gpu,
                               .uuid = experiment->executor->uuid,
                               .driver = experiment->executor->driver,
                               .count = (int64_t)experiment->kernel_count,
                               .shard = *shard};
    gs_journal *journal = open_journal(experiment, &about, &path, error);
    gs_code code = journal ? GS_OK : error->code;
    int64_t there = journal ? gs_journal_runs(journal) : 0, first = gs_shard_begin(shard, about.count);
    int64_t end = first + gs_shard_count(shard, about.count);
    for (int64_t i = first + there; i < end && code == GS_OK; i++) {
        struct row row;
        code = measure_row(experiment, experiment->kernels[i], &row, error);
        if (code == GS_OK)
            code = keep_row(journal, i, &row, error);
    }
    if (code == GS_OK)
        code = gs_journal_end(journal, error);
    if (code == GS_OK)
        code = show_file(experiment, path.data, error);
    if (code == GS_OK)
        gs_say_shard(command, &about, there);
    gs_journal_close(journal);
    gs_text_free(&path);
    return code;
}

/* ---- the end of a table ---- */

static void put_percents(gs_writer *writer, const char *key, double persistent, double confined) {
    gs_write_object(writer, key);
    gs_write_real(writer, "persistent_percent", persistent, 3);
    gs_write_real(writer, "confined_percent", confined, 3);
    gs_write_end(writer);
}

static void print_average(struct experiment *experiment) {
    double rows = experiment->rows ? (double)experiment->rows : 1;
    if (experiment->options->json) {
        gs_write_end(&experiment->writer);
        put_percents(&experiment->writer, "average", experiment->sums[1] / rows, experiment->sums[2] / rows);
        put_percents(&experiment->writer, "most", experiment->most[1], experiment->most[2]);
    } else if (experiment->rows) {
        printf("average of %zu  persistent %+.2f%%, confined %+.2f%%; most %+.2f%%, %+.2f%%\n", experiment->rows,
               experiment->sums[1] / rows, experiment->sums[2] / rows, experiment->most[1], experiment->most[2]);
    }
}

/* Shows a file and runs nothing. */
static int show_measured(const gs_zoo_options *options) {
    struct experiment experiment = new_experiment(options);
    gs_error error = {.code = GS_OK};
    begin_document(&experiment, "gridsmith.zoo-bench/1", "kernels");
    gs_code code = show_file(&experiment, options->measured, &error);
    print_average(&experiment);
    int status = end_experiment(&experiment, code, &error);
    close_experiment(&experiment);
    return status;
}

int gs_zoo_bench_verb(const gs_command *command, void *given, const gs_words *names) {
    const gs_zoo_options *options = given;
    const char *all = "all";
    const gs_words every = {.data = &all, .count = 1};
    struct experiment experiment = new_experiment(given);
    gs_error error = {.code = GS_OK};
    gs_shard shard;
    if (is_served(given))
        return gs_usage(command, "--device serve does not go with bench: the daemon chooses the form of kernels");
    if (options->measured)
        return show_measured(options);
    int status = gs_check_shard(command, &options->keep, &shard);
    if (status == 0)
        status = open_experiment(command, names->count ? names : &every, &experiment);
    if (status == 0) {
        begin_document(&experiment, "gridsmith.zoo-bench/1", "kernels");
        gs_code code = options->keep.out ? bench_campaign(command, &experiment, &shard, &error)
                                         : bench_kernels(&experiment, &error);
        print_average(&experiment);
        status = end_experiment(&experiment, code, &error);
    }
    close_experiment(&experiment);
    return status;
}
