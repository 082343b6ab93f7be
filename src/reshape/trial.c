/*
 * trial.c: a kernel run on the inputs of a launch, and what came out of two such runs compared.
 *
 * Each run fills the buffers anew, so that every variant sees the same bytes. A persistent or confined kernel is
 * compiled with GRIDSMITH_MARKS, and each block of its grid must have run exactly once.
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

gs_code gs_buffers_fill(gs_buffers *buffers, const gs_launch_file *launch, gs_error *error) {
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
    *buffers = (gs_buffers){0};
}

/* ---- running ---- */

static bool is_walked(const gs_trial *trial) {
    return trial->variant->form == GS_FORM_PERSISTENT || trial->variant->form == GS_FORM_CONFINED;
}

gs_code gs_trial_compile(gs_trial *trial, const gs_source *source, gs_error *error) {
    static const char *const marks[] = {"-DGRIDSMITH_MARKS"};
    const char *kernels[] = {trial->variant->kernel};
    const gs_variant *variant = trial->variant;
    gs_build build = {.name = source->name,
                      .text = variant->text.data ? variant->text.data : source->text,
                      .size = variant->text.data ? variant->text.count : source->size,
                      .kernels = kernels,
                      .kernel_count = 1,
                      .options = marks,
                      .option_count = is_walked(trial) && !trial->is_timed,
                      .address_sanitizer = trial->options->address_sanitizer,
                      .max_registers = variant->max_registers};
    trial->module = trial->executor->ops->compile(trial->executor, &build, error);
    return trial->module ? GS_OK : error->code;
}

static gs_code make_marks(gs_trial *trial, gs_error *error) {
    const uint32_t *grid = trial->launch->grid;
    trial->blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    free(trial->marks);
    trial->marks = NULL;
    if (!is_walked(trial) || trial->is_timed)
        return GS_OK;
    if (trial->blocks > (uint64_t)1 << 32)
        return gs_fail(error, GS_E_USAGE, "a grid of more than 2^32 blocks cannot be counted");
    trial->marks = calloc(trial->blocks + 1, sizeof *trial->marks);
    return trial->marks ? GS_OK : gs_fail_memory(error);
}

/* The first buffer of the work is the first argument that is one, and so on. */
static void add_buffers(const gs_trial *trial, gs_work *work) {
    for (size_t i = 0; i < trial->launch->arguments.count; i++) {
        const gs_launch_argument *argument = &trial->launch->arguments.data[i];
        if (argument->is_buffer)
            gs_work_buffer(work, trial->buffers.data[i], (size_t)argument->count * gs_scalar_bytes(argument->type));
    }
}

static gs_job_call *add_call(const gs_trial *trial, gs_work *work) {
    const gs_variant *variant = trial->variant;
    const gs_verify_options *options = trial->options;
    gs_job_call *call = gs_work_call(work, variant->kernel, variant->grid, variant->block, variant->shared_bytes);
    int32_t buffer = 0;
    call->form = variant->form;
    call->workers = options->workers;
    call->task_blocks = options->task_blocks;
    call->stops = options->stops;
    call->first_blocks = trial->first_blocks;
    for (size_t i = 0; i < trial->launch->arguments.count; i++) {
        const gs_launch_argument *argument = &trial->launch->arguments.data[i];
        if (argument->is_buffer)
            gs_work_pass_buffer(work, buffer++);
        else
            gs_work_pass(work, argument->value, gs_scalar_bytes(argument->type));
    }
    return call;
}

static void take_times(gs_trial *trial, const gs_work *work) {
    trial->elapsed_ns = work->calls.data[0].elapsed_ns;
    trial->launches = work->calls.data[0].launches;
    for (size_t i = 0; i < work->calls.count && trial->times_ns; i++)
        trial->times_ns[i] = work->calls.data[i].elapsed_ns;
}

gs_code gs_trial_run(gs_trial *trial, gs_error *error) {
    gs_code code = gs_buffers_fill(&trial->buffers, trial->launch, error);
    if (code == GS_OK)
        code = make_marks(trial, error);
    if (code != GS_OK)
        return code;
    gs_work work = {.seconds = trial->options->seconds, .seed = trial->options->seed, .backwards = trial->backwards};
    add_buffers(trial, &work);
    int32_t marks = trial->marks ? gs_work_buffer(&work, trial->marks, trial->blocks * sizeof *trial->marks) : -1;
    for (uint32_t i = 0; i < (trial->calls ? trial->calls : 1); i++)
        add_call(trial, &work)->marks = marks;
    code = trial->executor->ops->run(trial->module, &work, error);
    if (code == GS_OK)
        take_times(trial, &work);
    gs_work_free(&work);
    return code;
}

void gs_trial_free(gs_trial *trial) {
    gs_buffers_free(&trial->buffers);
    free(trial->marks);
    trial->marks = NULL;
    if (trial->variant)
        gs_text_free(&trial->variant->text);
}

/* ---- comparing ---- */

bool gs_trials_agree(const gs_trial *first, const gs_trial *second, double tolerance, gs_error *reason,
                     size_t *argument, size_t *element) {
    for (size_t i = 0; i < first->launch->arguments.count; i++) {
        const gs_launch_argument *shape = &first->launch->arguments.data[i];
        const void *a = first->buffers.data[i], *b = second->buffers.data[i];
        if (!shape->is_buffer)
            continue;
        *argument = i;
        *element = gs_scalars_differ(shape->type, a, b, (size_t)shape->count, tolerance);
        if (*element == (size_t)shape->count)
            continue;
        gs_fail(reason, GS_OK, "argument %zu, element %zu: the original has %.9g, the reshaped kernel %.9g", i + 1,
                *element, gs_scalar_value(shape->type, a, *element), gs_scalar_value(shape->type, b, *element));
        return false;
    }
    return true;
}
