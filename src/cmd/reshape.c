/*
 * reshape.c: gridsmith reshape: a kernel in another form. The kernel is read as PTX from any file; only elastic kernels
 * are made from CUDA source.
 */
#include "cmd.h"
#include "kernels/cpu/cpu.h"

#include <stdlib.h>

struct options {
    const char *kernel, *form, *output, *launch, *gpu, *compiler;
    const char *path; /* the file, which is a word */
    int64_t factor, task, registers;
    bool json, list, looks_back;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "kernel", kernel, "NAME", "the kernel: its symbol, or its name as in the source"),
    GS_TEXT(struct options, "as", form, "FORM", "persistent, confined, elastic or registers"),
    GS_FLAG(struct options, "list", list, "list the kernels of the file, and their possible forms"),
    GS_OUTPUT(struct options, output, "write the result to FILE (default: standard output)"),
    GS_INT(struct options, "task", task, "N", 1, GS_JOB_TASK,
           "the most blocks that a worker block takes at a time, unless the launch sets it (default 10)"),
    GS_INT(struct options, "registers", registers, "N", 0, 255,
           "the most registers of a thread of the form; 0: no limit (default: those of the original, if ptxas is there "
           "to count them, else 64)"),
    GS_FLAG(struct options, "look-back", looks_back,
            "accept blocks that wait for other blocks, if those have lower numbers"),
    GS_TEXT(struct options, "compiler", compiler, "NAME",
            "for CUDA sources: nvcc, nvrtc or clang (default: the first that can compile the file)"),
    GS_TEXT(struct options, "launch", launch, "FILE",
            "elastic: the launch on which variants are tried (gridsmith.launch/1)"),
    GS_INT(struct options, "factor", factor, "N", 2, 4,
           "elastic: 2 for half of the threads (default), 4 for a quarter"),
    GS_TEXT(struct options, "gpu", gpu, "NAME|FILE", "the GPU to compile for (default h200)"),
    GS_FLAG(struct options, "json", json, "with --list: write gridsmith.reshape/2"),
};

static int write_text(const gs_text *text, const char *path, gs_error *error) {
    return gs_output_text(path, text, error) == GS_OK ? 0 : gs_report(error);
}

static gs_code find_architecture(const struct options *options, int *architecture, gs_error *error) {
    gs_gpu *gpu = gs_gpu_open(options->gpu ? options->gpu : "h200", error);
    if (!gpu)
        return error->code;
    *architecture = gs_gpu_architecture(gpu);
    gs_gpu_free(gpu);
    return GS_OK;
}

static gs_code find_kernel(const struct options *options, const gs_ptx_file *file, gs_ptx_place *place,
                           gs_error *error) {
    gs_code code = gs_ptx_file_find(file, options->kernel, place, error);
    return code == GS_OK ? code : gs_error_name_file(error, gs_input_name(options->path));
}

/* ---- persistent and confined ---- */

/* The module, followed by the form. */
static gs_code make_form(const gs_ptx_place *place, const gs_ptx_options *request, gs_text *text, gs_error *error) {
    text->count = 0;
    gs_text_put(text, place->module->text, place->module->size);
    return gs_ptx_reshape(place->module, place->function, request, text, NULL, error);
}

/* The registers that the form may have, so that it can be launched with every block with which the original can. A
   kernel that declares its largest block, or its registers, needs no other limit. */
static uint32_t find_limit(const gs_ptx_place *place, const gs_ptx_options *request, int architecture,
                           const gs_text *text) {
    enum { SAFE = 64 }; /* with this limit, a block may have 1,024 threads */
    const gs_ptx_limits *limits = &place->module->functions.data[place->function].limits;
    char original[GS_PTX_SYMBOL_MOST], form[GS_PTX_SYMBOL_MOST];
    const char *kernels[] = {original, form};
    gs_cost costs[GS_COUNT(kernels)];
    gs_error error;
    if (limits->max_threads[0] || limits->required_threads[0] || limits->max_registers)
        return 0;
    gs_ptx_token_text(place->module, place->module->functions.data[place->function].name, original, sizeof original);
    gs_ptx_form_symbol(place->module, place->function, request->form, form, sizeof form);
    gs_build build = {.name = place->module->name,
                      .text = text->data,
                      .size = text->count,
                      .kernels = kernels,
                      .kernel_count = GS_COUNT(kernels)};
    if (gs_cubin_costs(&build, architecture, costs, &error) == GS_OK)
        return gs_register_limit(costs[0].registers, costs[1].registers);
    fprintf(stderr,
            "gridsmith: without ptxas the registers of the original are not known; the form has at most %d "
            "(--registers)\n",
            SAFE);
    return SAFE;
}

static int write_form(const struct options *options, const gs_ptx_file *file, gs_ptx_options request, int architecture,
                      gs_error *error) {
    gs_text text = {0};
    gs_ptx_place place;
    int status;
    gs_code code = find_kernel(options, file, &place, error);
    request.max_registers = options->registers > 0 ? (uint32_t)options->registers : 0;
    if (code == GS_OK)
        code = make_form(&place, &request, &text, error);
    if (code == GS_OK && options->registers < 0)
        request.max_registers = find_limit(&place, &request, architecture, &text);
    if (code == GS_OK && options->registers < 0 && request.max_registers)
        code = make_form(&place, &request, &text, error);
    status = code == GS_OK ? write_text(&text, options->output, error) : gs_report(error);
    gs_text_free(&text);
    return status;
}

/* "yes", "no", or "yes, for blocks that are a multiple of 32 wide", or "for grids of one row", "of one layer", "of
   fewer than 2^30 blocks". */
static const char *words_of(json_t *form) {
    enum { MOST_BLOCKS = 1 << 30 }; /* of any form */
    if (!json_is_true(json_object_get(form, "accepted")))
        return "no";
    if (json_is_true(json_object_get(form, "needs_whole_rows")))
        return "32x";
    if (json_is_true(json_object_get(form, "needs_one_row")))
        return "1 row";
    if (json_is_true(json_object_get(form, "needs_one_layer")))
        return "1 layer";
    return json_integer_value(json_object_get(form, "most_blocks")) < MOST_BLOCKS ? "small" : "yes";
}

static void print_list(const gs_text *text, const gs_ptx_list_counts *counts) {
    json_t *root = json_loadb(text->data, text->count, 0, NULL), *kernel;
    size_t i;
    printf("persistent  confined  kernel\n");
    json_array_foreach(json_object_get(root, "kernels"), i, kernel) {
        json_t *persistent = json_object_get(kernel, "persistent"), *confined = json_object_get(kernel, "confined");
        const char *reason = json_string_value(json_object_get(confined, "reason"));
        printf("%-10s  %-8s  %s\n", words_of(persistent), words_of(confined),
               json_string_value(json_object_get(kernel, "name")));
        if (reason)
            printf("                      %s\n", reason);
    }
    printf("%zu kernel%s, %zu persistent, %zu confined\n", counts->kernels, counts->kernels == 1 ? "" : "s",
           counts->accepted[GS_FORM_PERSISTENT], counts->accepted[GS_FORM_CONFINED]);
    json_decref(root);
}

static int list_kernels(const struct options *options, const gs_ptx_file *file, const char *path,
                        const gs_ptx_options *request, gs_error *error) {
    gs_text text = {0};
    gs_ptx_list_counts counts;
    int status = 0;
    if (gs_ptx_file_list(file, path, request, &text, &counts, error) != GS_OK)
        status = gs_report(error);
    else if (options->json)
        status = write_text(&text, options->output, error);
    else
        print_list(&text, &counts);
    gs_text_free(&text);
    return status;
}

/* ---- registers ---- */

static void print_register_table(const gs_register_variants *found) {
    printf("  limit  registers  local bytes  spilled: stored  loaded\n");
    for (size_t i = 0; i < found->count; i++) {
        const gs_cost *cost = &found->list[i].cost;
        char limit[16] = "none";
        if (found->list[i].limit)
            snprintf(limit, sizeof limit, "%u", found->list[i].limit);
        printf("  %5s  %9d  %11d  %15d  %6d\n", limit, cost->registers, cost->local_bytes, cost->spill_stores,
               cost->spill_loads);
    }
}

static gs_code print_register_json(const gs_register_variants *found, gs_error *error) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.registers/1");
    gs_write_array(&writer, "variants");
    for (size_t i = 0; i < found->count; i++) {
        const gs_cost *cost = &found->list[i].cost;
        gs_write_object(&writer, NULL);
        gs_write_int(&writer, "max_registers", found->list[i].limit);
        gs_write_int(&writer, "registers", cost->registers);
        gs_write_int(&writer, "local_bytes", cost->local_bytes);
        gs_write_int(&writer, "spill_store_bytes", cost->spill_stores);
        gs_write_int(&writer, "spill_load_bytes", cost->spill_loads);
        gs_write_int(&writer, "shared_bytes", cost->shared_bytes);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, error);
}

static int list_registers(const struct options *options, const gs_ptx_file *file, int architecture, gs_error *error) {
    gs_register_variants found;
    gs_ptx_place place;
    if (find_kernel(options, file, &place, error) != GS_OK ||
        gs_registers_find(&place, architecture, &found, error) != GS_OK)
        return gs_report(error);
    if (options->json)
        return print_register_json(&found, error) == GS_OK ? 0 : gs_report(error);
    print_register_table(&found);
    return 0;
}

/* ---- PTX ---- */

static int reshape_ptx(const struct options *options, const gs_words *words, enum gs_form form) {
    gs_error error = {.code = GS_OK};
    gs_ptx_options request = {.form = form, .task_blocks = (uint32_t)options->task, .looks_back = options->looks_back};
    gs_ptx_file_request wanted = {.path = words->data[0],
                                  .kernel = options->kernel,
                                  .options = (const char *const *)words->data + 1,
                                  .option_count = words->count - 1,
                                  .compiler = options->compiler};
    gs_ptx_file file;
    if (find_architecture(options, &wanted.architecture, &error) != GS_OK ||
        gs_ptx_file_open(&file, &wanted, &error) != GS_OK)
        return gs_report(&error);
    int status = options->list               ? list_kernels(options, &file, words->data[0], &request, &error)
                 : form == GS_FORM_REGISTERS ? list_registers(options, &file, wanted.architecture, &error)
                                             : write_form(options, &file, request, wanted.architecture, &error);
    gs_ptx_file_free(&file);
    return status;
}

/* ---- elastic ---- */

static int write_elastic(const struct options *options, const gs_source *source, gs_error *error) {
    gs_text text = {0};
    gs_verify_result result = {0};
    gs_verify_options request = {.form = GS_FORM_ELASTIC, .kernel = options->kernel, .seconds = 60};
    gs_launch_file *launch = gs_launch_open(options->launch, error);
    gs_executor *executor = launch ? gs_executor_host(error) : NULL;
    int status;
    if (!executor ||
        gs_verify_elastic(executor, source, launch, &request, (uint32_t)(options->factor ? options->factor : 2), &text,
                          &result, error) != GS_OK)
        status = gs_report(error);
    else if (result.verdict != GS_VERDICT_SAME)
        status = gs_report(&result.reason);
    else
        status = write_text(&text, options->output, error);
    gs_executor_close(executor);
    gs_launch_free(launch);
    gs_text_free(&text);
    return status;
}

static int reshape_source(const struct options *options, const char *path) {
    char *text = NULL;
    gs_source source = {0};
    gs_error error = {.code = GS_OK};
    int status = gs_read_source(path, &text, &source, &error);
    if (status == 0)
        status = write_elastic(options, &source, &error);
    gs_source_free(&source);
    free(text);
    return status;
}

/* ---- the command ---- */

/* An option that has no effect on the form (or on --list) is a mistake. 0: there is none. */
static int check_effects(const gs_command *command, const struct options *options, enum gs_form form) {
    bool is_written = !options->list && (form == GS_FORM_PERSISTENT || form == GS_FORM_CONFINED);
    bool is_elastic = !options->list && form == GS_FORM_ELASTIC;
    bool is_listed = options->list || form == GS_FORM_REGISTERS;
    const struct {
        bool is_given, has_effect;
        const char *name, *use;
    } rules[] = {
        {options->task, is_written, "task", "--as persistent and --as confined"},
        {options->looks_back, is_written || options->list, "look-back", "--as persistent, --as confined and --list"},
        {options->launch, is_elastic, "launch", "--as elastic"},
        {options->factor, is_elastic, "factor", "--as elastic"},
        {options->compiler, !is_elastic, "compiler", "forms that are made of PTX"},
        {options->gpu, !is_elastic, "gpu", "forms that are made of PTX"},
        {options->json, is_listed, "json", "--list and --as registers"},
        {options->output, !is_listed || (options->list && options->json), "output", "forms, and with --list --json"},
    };
    for (size_t i = 0; i < GS_COUNT(rules); i++)
        if (rules[i].is_given && !rules[i].has_effect)
            return gs_usage(command, "--%s goes with %s", rules[i].name, rules[i].use);
    return 0;
}

static int check_usage(const gs_command *command, const struct options *options, size_t words, enum gs_form *form) {
    *form = GS_FORM_CONFINED;
    if (options->list)
        return options->kernel || options->form ? gs_usage(command, "--list lists all kernels in all forms") : 0;
    if (!options->form)
        return gs_usage(command, "--as FORM is needed: persistent, confined, elastic or registers");
    if (!gs_form_find(options->form, form))
        return gs_usage(command, "--as takes persistent, confined, elastic or registers, not \"%.40s\"", options->form);
    if (!options->kernel)
        return gs_usage(command, "--kernel NAME is needed; --list shows the kernels of the file");
    if (*form == GS_FORM_ELASTIC && words > 1)
        return gs_usage(command, "elastic kernels take no compiler options");
    if (*form == GS_FORM_ELASTIC && !options->launch)
        return gs_usage(command, "--launch FILE is needed, because elastic forms are found by trying");
    if (*form == GS_FORM_ELASTIC && options->factor == 3)
        return gs_usage(command, "--factor takes 2 or 4");
    return 0;
}

static int run_reshape(const gs_command *command, void *given, const gs_words *words) {
    enum gs_form form;
    int status = check_usage(command, given, words->count, &form);
    if (status == 0)
        status = check_effects(command, given, form);
    if (status == 0 && words->before_dashes > 1)
        status = gs_usage(command, "give one file with kernels: compiler options stand after --");
    if (status)
        return status;
    ((struct options *)given)->path = words->data[0];
    return form == GS_FORM_ELASTIC ? reshape_source(given, words->data[0]) : reshape_ptx(given, words, form);
}

const gs_command gs_command_reshape = {
    .name = "reshape",
    .summary = "Convert a kernel to another form: PTX in, PTX out.",
    .usage = "FILE --kernel NAME --as FORM [-o OUT] [options] [-- COMPILER OPTIONS], or reshape --list FILE",
    .details =
        "FILE is PTX, a file that contains PTX (executable, library, fatbin), or a CUDA source, which is compiled.\n\n"
        "persistent: a few worker blocks per SM loop over the blocks of the grid.\n"
        "confined:   worker blocks stay on some SMs, stop at a signal, and continue later.\n"
        "elastic:    a half or a quarter of the threads; CUDA source in and out. It is found by trying on the inputs\n"
        "            of --launch, and is known to compute the same only for those.\n"
        "registers:  lists the kernel's costs under limits of registers (needs CUDA, but no GPU).\n\n"
        "Exit code 1: the kernel is refused; the place and the reason are on standard error.\n\n"
        "  gridsmith reshape --list app\n"
        "  gridsmith reshape a.cu --kernel softmax --as confined -o a.ptx -- -I include -DN=4 -std=c++20\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.registers = -1},
    .words = {1, 100, "give one file with kernels"},
    .run = run_reshape,
};
