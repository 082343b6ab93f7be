/*
 * verify_run.c: runs a kernel on the inputs of a launch, and compares the results of two such runs.
 *
 * Each run fills the buffers again, so that all variants start with the same bytes. A persistent or confined kernel
 * counts how often each block of its grid ran, which must be once, except when it is timed.
 */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

gs_variant gs_variant_original(const gs_launch_file *launch, const char *kernel) {
    gs_variant variant = {.form = GS_FORM_ORIGINAL, .shared_bytes = (size_t)launch->shared_bytes};
    memcpy(variant.grid, launch->grid, sizeof variant.grid);
    memcpy(variant.block, launch->block, sizeof variant.block);
    snprintf(variant.kernel, sizeof variant.kernel, "%s", kernel);
    return variant;
}

/* ---- buffers ---- */

static gs_code fill_buffers(gs_buffers *buffers, const gs_launch_file *launch, gs_error *error) {
    if (!buffers->data) {
        buffers->count = launch->arguments.count;
        buffers->data = calloc(buffers->count + 1, sizeof *buffers->data);
        if (!buffers->data)
            return gs_fail_memory(error);
    }
    for (size_t i = 0; i < buffers->count; i++) {
        const gs_launch_argument *argument = &launch->arguments.data[i];
        if (!argument->is_buffer)
            continue;
        if (!buffers->data[i])
            buffers->data[i] = malloc((size_t)argument->count * gs_scalar_bytes(argument->type) + 1);
        if (!buffers->data[i])
            return gs_fail_memory(error);
        gs_launch_fill(argument, buffers->data[i]);
    }
    return GS_OK;
}

void gs_buffers_free(gs_buffers *buffers) {
    for (size_t i = 0; i < buffers->count && buffers->data; i++)
        free(buffers->data[i]);
    free(buffers->data);
    free(buffers->variables);
    *buffers = (gs_buffers){0};
}

/* ---- running ---- */

static bool has_block_loop(const gs_verify_run *run) {
    return run->variant->form == GS_FORM_PERSISTENT || run->variant->form == GS_FORM_CONFINED;
}

/* Whether the variables of the module are results, too. */
static bool has_variables(const gs_verify_run *run) {
    return run->variant->variables && run->variant->variables->count && !run->is_timed && !run->times_ns;
}

gs_code gs_verify_run_compile(gs_verify_run *run, const gs_source *source, gs_error *error) {
    const char *kernels[] = {run->variant->kernel, GS_VERIFY_VARIABLES};
    const gs_variant *variant = run->variant;
    const gs_text *text = run->is_timed && variant->unmarked.data ? &variant->unmarked : &variant->text;
    gs_build build = {.name = source->name,
                      .text = text->data ? text->data : source->text,
                      .size = text->data ? text->count : source->size,
                      .kernels = kernels,
                      .kernel_count = has_variables(run) ? 2 : 1,
                      .address_sanitizer = run->options->address_sanitizer,
                      .max_registers = variant->max_registers};
    run->module = run->executor->ops->compile(run->executor, &build, error);
    return run->module ? GS_OK : error->code;
}

static gs_code make_marks(gs_verify_run *run, gs_error *error) {
    const uint32_t *grid = run->launch->grid;
    run->blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    free(run->counts);
    run->counts = NULL;
    if (!has_block_loop(run) || run->is_timed)
        return GS_OK;
    if (run->blocks > (uint64_t)1 << 32)
        return gs_fail(error, GS_E_USAGE, "a grid must have at most 2^32 blocks");
    run->counts = calloc(run->blocks + 1, sizeof *run->counts);
    return run->counts ? GS_OK : gs_fail_memory(error);
}

/* The buffers of the work are the buffer arguments, in order. */
static void add_buffers(const gs_verify_run *run, gs_work *work) {
    for (size_t i = 0; i < run->launch->arguments.count; i++) {
        const gs_launch_argument *argument = &run->launch->arguments.data[i];
        if (argument->is_buffer)
            gs_work_buffer(work, run->buffers.data[i], (size_t)argument->count * gs_scalar_bytes(argument->type));
    }
}

static gs_job_call *add_call(const gs_verify_run *run, gs_work *work) {
    const gs_variant *variant = run->variant;
    const gs_verify_options *options = run->options;
    gs_job_call *call = gs_work_call(work, variant->kernel, variant->grid, variant->block, variant->shared_bytes);
    int32_t buffer = 0;
    call->form = variant->form;
    call->workers = options->workers;
    call->task_blocks = options->task_blocks;
    call->stops = options->stops;
    call->gives_first = !variant->needs_queue;
    call->first_blocks = run->first_blocks;
    for (size_t i = 0; i < run->launch->arguments.count; i++) {
        const gs_launch_argument *argument = &run->launch->arguments.data[i];
        if (argument->is_buffer)
            gs_work_pass_buffer(work, buffer++);
        else
            gs_work_pass(work, argument->value, gs_scalar_bytes(argument->type));
    }
    return call;
}

static void take_times(gs_verify_run *run, const gs_work *work) {
    run->elapsed_ns = work->calls.data[0].elapsed_ns;
    run->launches = work->calls.data[0].launches;
    for (size_t i = 0; i < work->calls.count && run->times_ns; i++)
        run->times_ns[i] = work->calls.data[i].elapsed_ns;
}

gs_code gs_verify_run_execute(gs_verify_run *run, gs_error *error) {
    gs_code code = fill_buffers(&run->buffers, run->launch, error);
    if (code == GS_OK)
        code = make_marks(run, error);
    if (code == GS_OK && has_variables(run) && !run->buffers.variables)
        run->buffers.variables = calloc(1, run->variant->variables->bytes);
    if (code == GS_OK && has_variables(run) && !run->buffers.variables)
        code = gs_fail_memory(error);
    if (code != GS_OK)
        return code;
    gs_work work = {.seconds = run->options->seconds, .seed = run->options->seed, .backwards = run->backwards};
    add_buffers(run, &work);
    int32_t counts = run->counts ? gs_work_buffer(&work, run->counts, run->blocks * sizeof *run->counts) : -1;
    for (uint32_t i = 0; i < (run->calls ? run->calls : 1); i++)
        add_call(run, &work)->counts = counts;
    if (has_variables(run))
        gs_verify_variables_call(run->variant->variables, run->buffers.variables, &work);
    code = run->executor->ops->run(run->module, &work, error);
    if (code == GS_OK)
        take_times(run, &work);
    gs_work_free(&work);
    return code;
}

void gs_verify_run_free(gs_verify_run *run) {
    gs_buffers_free(&run->buffers);
    free(run->counts);
    run->counts = NULL;
    if (run->variant) {
        gs_text_free(&run->variant->text);
        gs_text_free(&run->variant->unmarked);
    }
}

/* ---- comparing ---- */

bool gs_verify_runs_agree(const gs_verify_run *first, const gs_verify_run *second, double tolerance, gs_error *reason,
                          size_t *argument, size_t *element) {
    for (size_t i = 0; i < first->launch->arguments.count; i++) {
        const gs_launch_argument *shape = &first->launch->arguments.data[i];
        const void *a = first->buffers.data[i], *b = second->buffers.data[i];
        char here[GS_VERIFY_NUMBER], there[GS_VERIFY_NUMBER];
        if (!shape->is_buffer)
            continue;
        *argument = i;
        *element = gs_scalars_differ(shape->type, a, b, (size_t)shape->count, tolerance);
        if (*element == (size_t)shape->count)
            continue;
        gs_fail(reason, GS_OK, "argument %zu, element %zu: the original has %s, the reshaped kernel %s", i + 1,
                *element, gs_verify_number(shape->type, a, *element, here),
                gs_verify_number(shape->type, b, *element, there));
        return false;
    }
    *argument = SIZE_MAX;
    return !has_variables(first) || gs_verify_variables_agree(first->variant->variables, first->buffers.variables,
                                                              second->buffers.variables, tolerance, reason);
}
