/*
 * verify.c: whether a reshaped kernel computes the same results as the original, on the inputs of one launch.
 *
 * Both run on the same inputs, and every buffer is compared, and the variables of the module that it can reach. If
 * something differs, the block that writes the first different element is found by running fewer and fewer blocks of
 * the original. The original also runs once more with its threads in another order, because a kernel whose results
 * depend on that order cannot be compared byte by byte.
 */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

const char *gs_verdict_name(gs_verdict verdict) {
    static const char *const names[] = {"same", "different", "refused"};
    return names[verdict];
}

/* ---- the cause of a difference ---- */

static bool has_final_value(gs_verify_run *original, uint64_t first_blocks, size_t argument, size_t element,
                            const void *final, size_t bytes) {
    gs_error ignored;
    original->first_blocks = first_blocks;
    return gs_verify_run_execute(original, &ignored) == GS_OK &&
           memcmp((const char *)original->buffers.data[argument] + element * bytes, final, bytes) == 0;
}

/* Finds, by bisection, the block after which the element has its final value. */
static void find_block(gs_verify_run *original, size_t argument, size_t element, gs_error *reason) {
    size_t bytes = gs_scalar_bytes(original->launch->arguments.data[argument].type);
    const uint32_t *grid = original->launch->grid;
    uint64_t low = 1, high = (uint64_t)grid[0] * grid[1] * grid[2];
    unsigned char final[8];
    char words[100];
    memcpy(final, (const char *)original->buffers.data[argument] + element * bytes, bytes);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (has_final_value(original, middle, argument, element, final, bytes))
            high = middle;
        else
            low = middle + 1;
    }
    original->first_blocks = 0;
    low--;
    snprintf(words, sizeof words, "; block (%u,%u,%u) writes it", (unsigned)(low % grid[0]),
             (unsigned)(low / grid[0] % grid[1]), (unsigned)(low / grid[0] / grid[1]));
    gs_verify_add_words(reason, words);
}

/* Whether the original computes the same with its threads in another order. */
static bool is_deterministic(gs_verify_run *original, double tolerance) {
    gs_verify_run again = *original;
    gs_error ignored;
    size_t argument, element;
    again.buffers = (gs_buffers){0};
    again.counts = NULL;
    again.backwards = true;
    bool same = gs_verify_run_execute(&again, &ignored) == GS_OK &&
                gs_verify_runs_agree(original, &again, tolerance, &ignored, &argument, &element);
    gs_buffers_free(&again.buffers);
    free(again.counts);
    return same;
}

static void explain_difference(gs_verify_run *original, double tolerance, size_t argument, size_t element,
                               gs_error *reason) {
    bool is_host = strcmp(original->executor->ops->name, "host") == 0;
    if (is_host && !is_deterministic(original, tolerance)) {
        gs_verify_add_words(reason,
                            "; but the original itself gives different results with its threads in another order");
        gs_verify_add_words(reason, tolerance > 0 ? "" : " (--tolerance allows for sums in another order)");
    } else if (is_host && argument != SIZE_MAX)
        find_block(original, argument, element, reason);
}

/* ---- exactly once ---- */

static bool ran_once(const gs_verify_run *run, gs_error *reason) {
    const uint32_t *grid = run->launch->grid;
    for (uint64_t i = 0; i < run->blocks && run->counts; i++)
        if (run->counts[i] != 1) {
            gs_fail(reason, GS_OK, "block (%u,%u,%u) ran %u times", (unsigned)(i % grid[0]),
                    (unsigned)(i / grid[0] % grid[1]), (unsigned)(i / grid[0] / grid[1]), run->counts[i]);
            return false;
        }
    return true;
}

/* ---- one variant ---- */

/* Says which of the two kernels an error is about. */
static void name_side(gs_error *error, const char *side) {
    char message[sizeof error->message];
    snprintf(message, sizeof message, "%s", error->message);
    snprintf(error->message, sizeof error->message, "the %s: %.*s", side, (int)(sizeof message - 20), message);
}

static gs_code compare_results(gs_verify_run *original, gs_verify_run *reshaped, gs_verify_result *result,
                               gs_error *error) {
    size_t argument, element;
    double tolerance = original->options->tolerance;
    gs_code code = gs_verify_run_execute(original, error);
    if (code == GS_E_KERNEL)
        name_side(error, "original");
    if (code != GS_OK)
        return code;
    result->original_ns = original->elapsed_ns;
    result->verdict = GS_VERDICT_DIFFERENT;
    code = gs_verify_run_execute(reshaped, &result->reason);
    if (code == GS_E_KERNEL) {
        name_side(&result->reason, "form");
        return GS_OK; /* the original ran, so this is a difference; the reason is the message of the kernel */
    }
    if (code != GS_OK) {
        *error = result->reason;
        return code;
    }
    result->reshaped_ns = reshaped->elapsed_ns;
    result->launches = reshaped->launches;
    if (!gs_verify_runs_agree(original, reshaped, tolerance, &result->reason, &argument, &element))
        explain_difference(original, tolerance, argument, element, &result->reason);
    else if (ran_once(reshaped, &result->reason))
        result->verdict = GS_VERDICT_SAME;
    return GS_OK;
}

/* Compiles the reshaped kernel for timing: without counting blocks, and with the register limit of
   gs_register_limit. */
static gs_code compile_timed(gs_verify_run *original, gs_verify_run *reshaped, const gs_source *source,
                             gs_error *error) {
    gs_variant *variant = reshaped->variant;
    gs_cost before = {0}, after = {0};
    const gs_executor_ops *ops = original->executor->ops;
    reshaped->is_timed = true;
    gs_code code = gs_verify_run_compile(reshaped, source, error);
    if (code == GS_OK)
        code = ops->cost(original->module, original->variant->kernel, variant->block, variant->shared_bytes, &before,
                         error);
    if (code == GS_OK)
        code = ops->cost(reshaped->module, variant->kernel, variant->block, variant->shared_bytes, &after, error);
    if (code != GS_OK || variant->max_registers)
        return code;
    variant->max_registers = gs_register_limit(before.registers, after.registers);
    return variant->max_registers ? gs_verify_run_compile(reshaped, source, error) : GS_OK;
}

/* Measures the median times of both kernels, alternately in a few rounds; the reshaped kernel without counting blocks.
   Here the kernels may use their own results as inputs. */
static gs_code measure_times(gs_verify_run *original, gs_verify_run *reshaped, const gs_source *source,
                             gs_verify_result *result, gs_error *error) {
    enum { ROUNDS = 4 };
    uint32_t calls = (original->options->repeat + ROUNDS - 1) / ROUNDS;
    size_t count = (size_t)calls * ROUNDS;
    uint64_t *times = calloc(2 * count + 1, sizeof *times);
    original->calls = reshaped->calls = calls;
    gs_code code = times ? compile_timed(original, reshaped, source, error) : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i += calls) {
        original->times_ns = times + i;
        reshaped->times_ns = times + count + i;
        code = gs_verify_run_execute(original, error);
        if (code == GS_OK)
            code = gs_verify_run_execute(reshaped, error);
    }
    if (code == GS_OK) {
        qsort(times, count, sizeof *times, gs_compare_int64);
        qsort(times + count, count, sizeof *times, gs_compare_int64);
        result->original_ns = times[count / 2];
        result->reshaped_ns = times[count + count / 2];
    }
    free(times);
    return code;
}

gs_code gs_verify_variant(gs_executor *executor, const gs_source *source, const gs_launch_file *launch,
                          const gs_verify_options *options, gs_variant *variant, gs_verify_result *result,
                          gs_error *error) {
    gs_variant plain = gs_variant_original(launch, options->kernel);
    gs_verify_run original = {.executor = executor, .launch = launch, .options = options, .variant = &plain};
    gs_verify_run reshaped = {.executor = executor, .launch = launch, .options = options, .variant = variant};
    plain.variables = variant->variables;
    gs_code code = gs_verify_run_compile(&original, source, error);
    if (code == GS_OK)
        code = gs_verify_run_compile(&reshaped, source, error);
    if (code == GS_OK)
        code = compare_results(&original, &reshaped, result, error);
    if (code == GS_OK && result->verdict == GS_VERDICT_SAME && !(launch->grid[0] && launch->grid[1] && launch->grid[2]))
        snprintf(result->reason.message, sizeof result->reason.message, "the grid has no blocks");
    if (code == GS_OK && result->verdict == GS_VERDICT_SAME && options->repeat)
        code = measure_times(&original, &reshaped, source, result, error);
    gs_verify_run_free(&original);
    gs_verify_run_free(&reshaped);
    return code;
}

/* ---- PTX ---- */

/* The module, followed by the form, and by what copies its variables. */
static gs_code make_form(const gs_ptx_place *place, const gs_verify_options *options, bool counts_blocks,
                         uint32_t max_registers, const gs_verify_variables *variables, gs_text *text, gs_ptx_form *form,
                         gs_error *error) {
    gs_ptx_options request = {.form = options->form,
                              .task_blocks = options->task_blocks,
                              .max_registers = max_registers,
                              .counts_blocks = counts_blocks,
                              .looks_back = options->looks_back};
    text->count = 0;
    gs_text_put(text, place->module->text, place->module->size);
    gs_code code = gs_ptx_reshape(place->module, place->function, &request, text, form, error);
    gs_verify_variables_put(variables, text);
    return code;
}

/* The form of the options: its text, with and without counting blocks, and its name. GS_E_REFUSED: there is none, or it
   may not be launched so. */
static gs_code make_variant(const gs_ptx_place *place, const gs_launch_file *launch, const gs_verify_options *options,
                            gs_variant *variant, gs_error *error) {
    variant->form = options->form;
    if (options->form == GS_FORM_REGISTERS) { /* the same text */
        variant->max_registers = options->registers;
        return GS_OK;
    }
    gs_ptx_form form = {.needs_queue = false};
    gs_ptx_form_symbol(place->module, place->function, options->form, variant->kernel, sizeof variant->kernel);
    gs_code code = make_form(place, options, true, 0, variant->variables, &variant->text, &form, error);
    variant->needs_queue = form.needs_queue;
    const char *misfit = code == GS_OK ? gs_ptx_form_misfit(&form, launch->grid, launch->block) : NULL;
    if (misfit)
        return gs_ptx_fail(place->module, place->module->functions.data[place->function].name, error, GS_E_REFUSED,
                           "%s", misfit);
    return code == GS_OK ? make_form(place, options, false, 0, variant->variables, &variant->unmarked, NULL, error)
                         : code;
}

/* On a GPU, a form must not have more registers than the original: a large block might not launch. */
static gs_code limit_registers(gs_executor *executor, const gs_ptx_place *place, const gs_source *source,
                               const gs_launch_file *launch, const gs_verify_options *options, gs_variant *variant,
                               gs_error *error) {
    gs_variant plain = gs_variant_original(launch, options->kernel);
    gs_verify_run original = {.executor = executor, .launch = launch, .options = options, .variant = &plain};
    gs_verify_run reshaped = {.executor = executor, .launch = launch, .options = options, .variant = variant};
    gs_cost before = {0}, after = {0};
    if (strcmp(executor->ops->name, "host") == 0 || options->form == GS_FORM_REGISTERS)
        return GS_OK;
    gs_code code = gs_verify_run_compile(&original, source, error);
    if (code == GS_OK)
        code = gs_verify_run_compile(&reshaped, source, error);
    if (code == GS_OK)
        code = executor->ops->cost(original.module, plain.kernel, plain.block, plain.shared_bytes, &before, error);
    if (code == GS_OK)
        code = executor->ops->cost(reshaped.module, variant->kernel, plain.block, plain.shared_bytes, &after, error);
    uint32_t limit = code == GS_OK ? gs_register_limit(before.registers, after.registers) : 0;
    return limit ? make_form(place, options, true, limit, variant->variables, &variant->text, NULL, error) : code;
}

/* Makes the form, and compares it with the original, whose text may also copy its variables. */
static gs_code verify_form(gs_executor *executor, const gs_ptx_place *place, const gs_source *source,
                           const gs_launch_file *launch, const gs_verify_options *options,
                           const gs_verify_variables *variables, gs_verify_result *result, gs_error *error) {
    gs_variant variant = gs_variant_original(launch, options->kernel);
    variant.variables = variables;
    gs_code code = make_variant(place, launch, options, &variant, &result->reason);
    if (code == GS_OK)
        code = limit_registers(executor, place, source, launch, options, &variant, &result->reason);
    if (code == GS_OK)
        return gs_verify_variant(executor, source, launch, options, &variant, result, error);
    gs_text_free(&variant.text);
    gs_text_free(&variant.unmarked);
    if (code != GS_E_REFUSED) {
        *error = result->reason;
        return code;
    }
    result->verdict = GS_VERDICT_REFUSED;
    return GS_OK;
}

gs_code gs_verify_ptx(gs_executor *executor, const gs_ptx_place *place, const gs_launch_file *launch,
                      const gs_verify_options *options, gs_verify_result *result, gs_error *error) {
    const gs_ptx_token *name = &place->module->tokens.data[place->module->functions.data[place->function].name];
    gs_verify_options request = *options;
    char symbol[GS_JOB_NAME];
    *result = (gs_verify_result){0};
    if (name->length + strlen("__persistent") >= GS_JOB_NAME)
        return gs_fail(error, GS_E_USAGE, "the name of the kernel is longer than %d bytes", GS_JOB_NAME);
    gs_ptx_token_text(place->module, place->module->functions.data[place->function].name, symbol, sizeof symbol);
    request.kernel = symbol;
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (options->form != GS_FORM_REGISTERS && blocks > GS_JOB_BLOCKS)
        return gs_fail(error, GS_E_USAGE, "a reshaped kernel may have at most %d blocks; this grid has %llu",
                       GS_JOB_BLOCKS, (unsigned long long)blocks);
    gs_verify_variables variables;
    gs_text text = {0};
    gs_code code = gs_verify_variables_find(&variables, place->module, place->function, error);
    gs_text_put(&text, place->module->text, place->module->size);
    gs_verify_variables_put(&variables, &text);
    if (code == GS_OK && text.failed)
        code = gs_fail_memory(error);
    const gs_source source = {.name = place->module->name, .text = text.data, .size = text.count};
    if (code == GS_OK)
        code = verify_form(executor, place, &source, launch, &request, &variables, result, error);
    gs_verify_variables_free(&variables);
    gs_text_free(&text);
    return code;
}
