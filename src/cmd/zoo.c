/*
 * zoo.c: gridsmith zoo: the kernels of kernels/, listed, run and checked, and what their forms cost. As applications:
 * zoo_load.c.
 */
#include "zoo/zoo.h"
#include "client/client.h"
#include "cmd.h"
#include "zoo_load.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *form, *on, *size, *gpu;
    int64_t factor, registers, workers, task, stops, seed, seconds, repeat, ms, rounds;
    bool json, unlimited, wait;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "as", form, "FORM",
            "run: persistent, confined, elastic or registers (default: as it was written)"),
    GS_TEXT(struct options, "on", on, "host|cuda|serve",
            "where to run (default host: on the CPU; serve: through the daemon)"),
    GS_TEXT(struct options, "size", size, "NAME",
            "tiny, odd, small or large (default: all; large only on a GPU; bench takes large, load too, or load where "
            "there is one)"),
    GS_INT(struct options, "factor", factor, "N", 2, 4,
           "elastic: 2 for half of the threads, 4 for a quarter (default: both)"),
    GS_INT(struct options, "registers", registers, "N", 16, 255,
           "registers: the most that a thread may use (default 32)"),
    GS_INT(struct options, "workers", workers, "N", 1, INT32_MAX,
           "blocks that a persistent or confined kernel is launched with (default: what fits)"),
    GS_INT(struct options, "task", task, "N", 1, GS_JOB_TASK,
           "blocks that a worker takes at a time at most (default 10)"),
    GS_INT(struct options, "stops", stops, "N", 0, 1000000,
           "confined: so many times each launch is told to leave, at random moments, and goes on on other SMs"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "of the moments of the stops"),
    GS_INT(struct options, "seconds", seconds, "N", 1, 100000,
           "a kernel that runs longer has failed, and so has a load altogether (default 60)"),
    GS_INT(struct options, "repeat", repeat, "N", 1, 1 << 24,
           "bench: so many times each form is timed (default 25); load: repetitions a round; launch: launches"),
    GS_INT(struct options, "ms", ms, "N", 1, 1000000,
           "load: as many repetitions as take so long (default 500), where nobody says how many"),
    GS_INT(struct options, "rounds", rounds, "N", 1, 1000000, "load: how many rounds (default 1)"),
    GS_FLAG(struct options, "wait", wait, "load: begin each round when a line comes on standard input"),
    GS_FLAG(struct options, "unlimited", unlimited, "bench: do not limit registers to keep the original's occupancy"),
    GS_TEXT(struct options, "gpu", gpu, "NAME|FILE",
            "the GPU that occupancy is told for, and on the CPU registers too (default h200)"),
    GS_FLAG(struct options, "json", json, "write gridsmith.zoo/1, zoo-bench/1, zoo-list/1, zoo-load/1 or zoo-launch/1"),
};

/* What a run of the command works with. */
struct session {
    const gs_command *command;
    const struct options *asked;
    gs_executor *executor;
    gs_gpu *gpu;
    const gs_zoo_kernel **kernels;
    size_t kernel_count;
    gs_zoo_form form;
    gs_text text;                                      /* with --json: the document, which goes out row by row */
    gs_writer writer;                                  /* of it */
    size_t rows, wrong;                                /* printed so far */
    double sums[GS_ZOO_BENCHED], most[GS_ZOO_BENCHED]; /* bench: percent */
};

/* ---- list ---- */

static int numbers_of(const gs_zoo_size *size) {
    int count = GS_ZOO_NUMBERS;
    while (count > 1 && size->n[count - 1] == 0)
        count--;
    return count;
}

/* The sizes in order; the one for loads, where there is one, is the last. NULL: there are no more. */
static const gs_zoo_size *size_at(const gs_zoo_kernel *kernel, size_t number) {
    if (number < GS_ZOO_SIZES)
        return &kernel->sizes[number];
    return number == GS_ZOO_SIZES && kernel->load.name ? &kernel->load : NULL;
}

static int list_json(void) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_error error;
    gs_write_document(&writer, "gridsmith.zoo-list/1");
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; gs_zoo_at(i); i++) {
        const gs_zoo_kernel *kernel = gs_zoo_at(i);
        gs_write_object(&writer, NULL);
        gs_write_string(&writer, "kernel", kernel->name);
        gs_write_string(&writer, "summary", kernel->summary);
        gs_write_string(&writer, "numbers", kernel->numbers);
        gs_write_object(&writer, "sizes");
        for (size_t k = 0; size_at(kernel, k); k++) {
            gs_write_array(&writer, size_at(kernel, k)->name);
            for (int n = 0; n < numbers_of(size_at(kernel, k)); n++)
                gs_write_int(&writer, NULL, size_at(kernel, k)->n[n]);
            gs_write_end(&writer);
        }
        gs_write_end(&writer);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, &error) == GS_OK ? 0 : gs_report(&error);
}

static void list_words(void) {
    for (size_t i = 0; gs_zoo_at(i); i++) {
        const gs_zoo_kernel *kernel = gs_zoo_at(i);
        printf("%-14s %s\n               %s:", kernel->name, kernel->summary, kernel->numbers);
        for (size_t k = 0; size_at(kernel, k); k++) {
            const gs_zoo_size *size = size_at(kernel, k);
            printf("%s %s ", k ? "," : "", size->name);
            for (int n = 0; n < numbers_of(size); n++)
                printf(n ? "x%d" : "%d", size->n[n]);
        }
        printf("\n");
    }
}

/* ---- run ---- */

static double occupancy_of(const struct session *session, const gs_cost *cost, const gs_zoo_instance *instance,
                           const gs_zoo_part *part) {
    const gs_zoo_launch *launch = &instance->launches.data[0];
    uint32_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= launch->block[i] / part->divide_block[i];
    gs_shape shape = gs_shape_of((int32_t)threads, cost->registers, cost->shared_bytes + (int64_t)launch->shared_bytes);
    gs_occupancy occupancy;
    gs_occupancy_of(session->gpu, &shape, &occupancy, NULL);
    return occupancy.warps_per_sm
               ? 100.0 * cost->blocks_per_sm * occupancy.warps_per_block / (double)occupancy.warps_per_sm
               : 0;
}

static const char *form_words(const gs_zoo_form *form) {
    return form->form == GS_FORM_ELASTIC ? form->factor == 2 ? "elastic/2" : "elastic/4" : gs_form_name(form->form);
}

/* A row of a document goes out when it is written, because the next one may take long. */
static void end_row(struct session *session) {
    gs_write_end(&session->writer);
    gs_text_flush(&session->text);
    fflush(stdout);
}

static void print_row_json(struct session *session, const gs_zoo_instance *instance, const gs_zoo_part *part,
                           const gs_zoo_form *form, const gs_zoo_result *result) {
    char words[sizeof result->reason.message + sizeof result->reason.file + 64];
    const gs_cost *cost = &part->cost;
    gs_writer *writer = &session->writer;
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
        gs_write_real(writer, "occupancy_percent", occupancy_of(session, cost, instance, part), 1);
    }
    gs_write_string(writer, "reason",
                    result->is_right ? result->reason.message : gs_error_text(&result->reason, words, sizeof words));
    end_row(session);
}

static void print_row(struct session *session, const gs_zoo_instance *instance, const gs_zoo_part *part,
                      const gs_zoo_form *form, const gs_zoo_result *result) {
    const gs_cost *cost = &part->cost;
    if (!session->rows)
        printf("kernel         size   form         launches     time ms  registers  shared  blocks/SM  occupancy\n");
    printf("%-14s %-6s %-11s %9u %11.3f", instance->kernel->name, instance->size->name, form_words(form),
           result->launches, (double)result->elapsed_ns / 1e6);
    if (cost->registers)
        printf("  %9d %7d  %9d  %8.1f%%", cost->registers, cost->shared_bytes, cost->blocks_per_sm,
               occupancy_of(session, cost, instance, part));
    else
        printf("          -       -          -          -");
    if (result->is_right)
        printf("  right%s%s\n", result->reason.message[0] ? ": " : "", result->reason.message);
    else
        printf("  %s: %s\n", result->reason.code == GS_E_REFUSED ? "refused" : "wrong", result->reason.message);
    fflush(stdout);
}

static gs_code run_size(struct session *session, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                        const gs_zoo_form *form, gs_zoo_part *parts, gs_error *error) {
    gs_zoo_instance instance;
    gs_zoo_result result;
    gs_code code = gs_zoo_instance_make(&instance, kernel, size, error);
    if (code != GS_OK)
        return code;
    code = gs_zoo_run(&instance, session->executor, form, parts, &result, error);
    if (code == GS_OK && parts[0].program && !parts[0].cost.registers)
        code = gs_zoo_part_price(&parts[0], session->executor, session->gpu, &instance, 0, error);
    if (code == GS_OK) {
        (session->asked->json ? print_row_json : print_row)(session, &instance, &parts[0], form, &result);
        session->rows++;
        session->wrong += !result.is_right;
    }
    gs_zoo_instance_free(&instance);
    return code;
}

/* From the largest size down: a guess at fewer threads that is right there is worth something. */
static gs_code run_kernel(struct session *session, const gs_zoo_kernel *kernel, const gs_zoo_form *form,
                          gs_error *error) {
    gs_zoo_part parts[GS_ZOO_KINDS] = {{.program = NULL}};
    const char *only = session->asked->size;
    bool is_cuda = strcmp(session->executor->ops->name, "cuda") == 0; /* what serves may be a CPU */
    gs_code code = GS_OK;
    for (size_t i = GS_ZOO_SIZES; i-- > 0 && code == GS_OK;) {
        const gs_zoo_size *size = &kernel->sizes[i];
        if (only ? strcmp(size->name, only) == 0 : is_cuda || !gs_zoo_size_is_large(size))
            code = run_size(session, kernel, size, form, parts, error);
    }
    for (size_t i = 0; i < GS_ZOO_KINDS; i++)
        gs_zoo_part_free(&parts[i]);
    return code;
}

static gs_code run_kernels(struct session *session, gs_error *error) {
    int64_t first = session->asked->factor ? session->asked->factor : 2, last = session->asked->factor ? first : 4;
    gs_code code = GS_OK;
    if (session->form.form != GS_FORM_ELASTIC)
        first = last = 0;
    for (size_t i = 0; i < session->kernel_count && code == GS_OK; i++)
        for (int64_t factor = first; factor <= last && code == GS_OK; factor += 2) {
            gs_zoo_form form = session->form;
            form.factor = (uint32_t)factor;
            code = run_kernel(session, session->kernels[i], &form, error);
        }
    return code;
}

/* ---- bench ---- */

static void print_bench_json(struct session *session, const gs_zoo_instance *instance, const gs_zoo_bench *bench) {
    gs_writer *writer = &session->writer;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "kernel", instance->kernel->name);
    gs_write_string(writer, "size", instance->size->name);
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
    end_row(session);
}

static void print_bench(struct session *session, const gs_zoo_instance *instance, const gs_zoo_bench *bench) {
    if (!session->rows)
        printf("                                original          persistent            confined\n"
               "kernel         size   launches        us         us    cost         us    cost  registers  "
               "blocks/SM\n");
    printf("%-14s %-6s %8u %9.1f  %9.1f %+6.2f%%  %9.1f %+6.2f%%", instance->kernel->name, instance->size->name,
           bench->launches, (double)bench->median_ns[0] / 1e3, (double)bench->median_ns[1] / 1e3,
           bench->cost_percent[1], (double)bench->median_ns[2] / 1e3, bench->cost_percent[2]);
    for (int form = 0; form < GS_ZOO_BENCHED; form++)
        printf(form ? "/%d%s" : "  %d%s", bench->costs[form].registers, bench->max_registers[form] ? "*" : "");
    for (int form = 0; form < GS_ZOO_BENCHED; form++)
        printf(form ? "/%d" : "  %d", bench->costs[form].blocks_per_sm);
    printf("\n");
    fflush(stdout);
}

static void add_bench(struct session *session, const gs_zoo_bench *bench) {
    for (int form = 0; form < GS_ZOO_BENCHED; form++) {
        session->sums[form] += bench->cost_percent[form];
        if (!session->rows || bench->cost_percent[form] > session->most[form])
            session->most[form] = bench->cost_percent[form];
    }
    session->rows++;
}

static gs_code bench_kernels(struct session *session, gs_error *error) {
    const struct options *asked = session->asked;
    bool is_host = strcmp(session->executor->ops->name, "host") == 0;
    gs_code code = GS_OK;
    for (size_t i = 0; i < session->kernel_count && code == GS_OK; i++) {
        const char *size = asked->size ? asked->size : is_host ? "small" : "large";
        gs_zoo_instance instance;
        gs_zoo_bench bench;
        code = gs_zoo_instance_make(&instance, session->kernels[i], gs_zoo_size_find(session->kernels[i], size), error);
        if (code != GS_OK)
            break;
        code = gs_zoo_measure(&instance, session->executor, session->gpu, &session->form,
                              asked->repeat ? (uint32_t)asked->repeat : 25, asked->unlimited, &bench, error);
        if (code == GS_OK) {
            (asked->json ? print_bench_json : print_bench)(session, &instance, &bench);
            add_bench(session, &bench);
        }
        gs_zoo_instance_free(&instance);
        if (code == GS_E_KERNEL) { /* the others may be right */
            fprintf(stderr, "gridsmith: %s: %s\n", session->kernels[i]->name, error->message);
            session->wrong++;
            code = GS_OK;
        }
    }
    return code;
}

static void put_percents(gs_writer *writer, const char *key, double persistent, double confined) {
    gs_write_object(writer, key);
    gs_write_real(writer, "persistent_percent", persistent, 3);
    gs_write_real(writer, "confined_percent", confined, 3);
    gs_write_end(writer);
}

static void print_average(struct session *session) {
    double rows = session->rows ? (double)session->rows : 1;
    if (session->asked->json) {
        put_percents(&session->writer, "average", session->sums[1] / rows, session->sums[2] / rows);
        put_percents(&session->writer, "most", session->most[1], session->most[2]);
    } else if (session->rows) {
        printf("average of %zu  persistent %+.2f%%, confined %+.2f%%; most %+.2f%%, %+.2f%%\n", session->rows,
               session->sums[1] / rows, session->sums[2] / rows, session->most[1], session->most[2]);
    }
}

/* ---- the command ---- */

/* Kernels by name; "all" is all of them. 0: done. */
static int choose_kernels(struct session *session, const gs_words *words) {
    size_t all = 0;
    while (gs_zoo_at(all))
        all++;
    session->kernels = calloc(words->count * all + 1, sizeof *session->kernels);
    for (size_t i = 1; i < words->count && session->kernels; i++) {
        const gs_zoo_kernel *kernel = gs_zoo_find(words->data[i]);
        bool is_all = strcmp(words->data[i], "all") == 0;
        if (!kernel && !is_all)
            return gs_usage(session->command, "there is no kernel \"%.40s\"; 'gridsmith zoo list' lists them",
                            words->data[i]);
        for (size_t k = 0; k < all && is_all; k++)
            session->kernels[session->kernel_count++] = gs_zoo_at(k);
        if (!is_all)
            session->kernels[session->kernel_count++] = kernel;
    }
    return session->kernels ? 0 : gs_code_exit(GS_E_MEMORY);
}

static gs_executor *open_executor(const char *name, gs_error *error) {
    return strcmp(name, "serve") == 0 ? gs_executor_remote(NULL, error) : gs_executor_open(name, error);
}

static int play(struct session *session, bool is_bench) {
    const struct options *asked = session->asked;
    gs_error error = {.code = GS_OK};
    session->gpu = gs_gpu_open(asked->gpu ? asked->gpu : "h200", &error);
    session->executor = session->gpu ? open_executor(asked->on ? asked->on : "host", &error) : NULL;
    if (!session->executor)
        return gs_report(&error);
    session->text = (gs_text){.sink = stdout};
    session->writer = gs_writer_to(&session->text);
    gs_write_document(&session->writer, is_bench ? "gridsmith.zoo-bench/1" : "gridsmith.zoo/1");
    gs_write_string(&session->writer, "on", session->executor->ops->name);
    gs_write_array(&session->writer, is_bench ? "kernels" : "runs");
    gs_code code = is_bench ? bench_kernels(session, &error) : run_kernels(session, &error);
    gs_write_end(&session->writer);
    if (is_bench)
        print_average(session);
    else
        gs_write_uint(&session->writer, "wrong", session->wrong);
    gs_write_finish(&session->writer);
    if (!asked->json)
        gs_text_clear(&session->text);
    code = gs_print_text(&session->text, code, &error);
    return code == GS_OK ? session->wrong > 0 : gs_report(&error);
}

/* What is wrong with the options, or 0. */
static int check_options(struct session *session, const gs_words *words) {
    const struct options *asked = session->asked;
    const char *what = words->count ? words->data[0] : "";
    bool is_run = strcmp(what, "run") == 0, is_bench = strcmp(what, "bench") == 0, is_load = strcmp(what, "load") == 0;
    if (strcmp(what, "list") != 0 && strcmp(what, "launch") != 0 && !is_run && !is_bench && !is_load)
        return gs_usage(session->command, "list, run, bench, load or launch?");
    if ((is_run || is_load) && words->count < 2)
        return gs_usage(session->command, is_run ? "which kernel? 'all' is all of them" : "which kernel?");
    if (asked->form && (!is_run || !gs_form_find(asked->form, &session->form.form)))
        return gs_usage(session->command,
                        is_run ? "--as takes persistent, confined, elastic or registers, not \"%.40s\""
                               : "--as %.40s is for 'run'; bench has forms of its own, load takes the original",
                        asked->form);
    if (asked->size && !is_load && !gs_zoo_size_find(gs_zoo_at(0), asked->size))
        return gs_usage(session->command, "--size takes tiny, odd, small or large, not \"%.40s\"", asked->size);
    if (asked->factor == 3)
        return gs_usage(session->command, "--factor takes 2 or 4");
    if (asked->on && strcmp(asked->on, "serve") == 0 && (asked->form || is_bench))
        return gs_usage(session->command,
                        "the daemon chooses the form of kernels: --on serve is for 'run' without --as");
    return 0;
}

static int run(const gs_command *command, void *given, const gs_words *words) {
    const struct options *asked = given;
    struct session session = {.command = command, .asked = asked};
    int status = check_options(&session, words);
    if (status)
        return status;
    static const char *every[] = {"bench", "all"};
    bool is_bench = strcmp(words->data[0], "bench") == 0;
    gs_words named = is_bench && words->count == 1 ? (gs_words){every, 2, 2} : *words;
    if (strcmp(words->data[0], "list") == 0) {
        if (asked->json)
            status = list_json();
        else
            list_words();
    } else if (strcmp(words->data[0], "run") != 0 && !is_bench) {
        gs_zoo_load_asked load = {.on = asked->on,
                                  .size = asked->size,
                                  .repeat = asked->repeat,
                                  .ms = asked->ms,
                                  .rounds = asked->rounds,
                                  .seconds = asked->seconds,
                                  .wait = asked->wait,
                                  .json = asked->json};
        status = strcmp(words->data[0], "load") == 0
                     ? gs_zoo_load_command(command, &load, words->data + 1, words->count - 1)
                     : gs_zoo_launch_command(&load);
    } else {
        session.form.workers = (uint32_t)asked->workers;
        session.form.task_blocks = (uint32_t)asked->task;
        session.form.stops = (uint32_t)asked->stops;
        session.form.seed = (uint64_t)asked->seed;
        session.form.seconds = (uint32_t)asked->seconds;
        session.form.max_registers = session.form.form == GS_FORM_REGISTERS ? (uint32_t)asked->registers : 0;
        session.form.is_marked = !is_bench;
        status = choose_kernels(&session, &named);
        if (status == 0)
            status = play(&session, is_bench);
    }
    gs_executor_close(session.executor);
    gs_gpu_free(session.gpu);
    free(session.kernels);
    return status;
}

const gs_command gs_command_zoo = {
    .name = "zoo",
    .summary = "Kernels to try things on: listed, run and checked, their forms measured.",
    .usage = "list | run NAME... | bench [NAME...] | load NAME[:REPEAT]... | launch [options]",
    .details =
        "'run' runs kernels at several sizes, as they are or reshaped, and compares what comes out with a plain-C\n"
        "reference (large sizes: with the original). 'bench' times the original, the persistent and the confined\n"
        "form by turns. The name 'all' is all kernels. 'load' launches kernels again and again, as applications do, "
        "and\n"
        "tells how long each round took; several have a thread each, and with --on cuda:0,sms=M a part of the GPU "
        "each.\n"
        "'launch' tells what launching an empty kernel takes. Exit code 1: something is wrong.\n\n"
        "  gridsmith zoo run sgemm --as confined --stops 3\n"
        "  gridsmith zoo bench --on cuda\n"
        "  gridsmith zoo load sgemm transpose --on cuda:0,sms=64 --rounds 5\n",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .defaults = &(const struct options){.seconds = 60, .ms = 500, .rounds = 1, .registers = 32},
    .words = {0, SIZE_MAX, NULL},
    .run = run,
};
