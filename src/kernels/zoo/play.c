/*
 * play.c: runs the launches of an instance in a form, and compares the results with the expected ones.
 *
 * Successive launches that use one program are one work, so that buffers are copied once. Persistent and confined
 * kernels count how often each block of the grid ran. A timed run of the launches returns no results, because fetching
 * them takes longer than the rest, unless the launches are several works, each of which needs the results of the one
 * before.
 */
#include "play.h"

#include <stdlib.h>
#include <string.h>

static uint64_t blocks_of(const gs_zoo_launch *launch) {
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

/* ---- one work: successive launches of one program ---- */

struct group {
    size_t first, count; /* launches */
    uint32_t *counts;    /* counts for all of them, one after the other, or NULL */
};

static bool counts_blocks(const gs_zoo_form *form) {
    return form->counts_blocks && (form->form == GS_FORM_PERSISTENT || form->form == GS_FORM_CONFINED);
}

static void add_call(const gs_zoo_pass *pass, const gs_zoo_launch *launch, int32_t counts, gs_work *work) {
    const gs_zoo_part *part = &pass->parts[launch->kind];
    uint32_t grid[3], block[3];
    for (int i = 0; i < 3; i++) {
        grid[i] = launch->grid[i] * part->multiply_grid[i];
        block[i] = launch->block[i] / part->divide_block[i];
    }
    gs_job_call *call = gs_work_call(work, part->name, grid, block, launch->shared_bytes / part->divide_shared);
    call->form = pass->form->form;
    call->workers = pass->form->workers;
    call->task_blocks = pass->form->task_blocks;
    call->stops = pass->form->stops;
    call->gives_first = !part->needs_queue;
    call->counts = counts;
    for (uint32_t i = 0; i < launch->arguments; i++)
        if (launch->list[i].buffer >= 0)
            gs_work_pass_buffer(work, launch->list[i].buffer);
        else
            gs_work_pass(work, launch->list[i].value, launch->list[i].bytes);
}

static void fill_work(const gs_zoo_pass *pass, const struct group *group, gs_work *work) {
    const gs_zoo_instance *instance = pass->instance;
    uint64_t marked = 0;
    for (size_t i = 0; i < instance->buffer_count; i++)
        gs_work_buffer(work, work->discards_results ? instance->buffers[i].data : pass->data[i],
                       gs_zoo_buffer_bytes(&instance->buffers[i]));
    for (uint32_t repeat = 0; repeat < pass->repeat; repeat++)
        for (size_t i = group->first; i < group->first + group->count; i++) {
            const gs_zoo_launch *launch = &instance->launches.data[i];
            int32_t counts = -1;
            if (group->counts)
                counts = gs_work_buffer(work, group->counts + marked, blocks_of(launch) * sizeof *group->counts);
            add_call(pass, launch, counts, work);
            marked += blocks_of(launch);
        }
}

static void add_times(gs_zoo_pass *pass, const struct group *group, const gs_work *work) {
    for (size_t i = 0; i < work->calls.count; i++) {
        pass->total_ns += work->calls.data[i].elapsed_ns;
        pass->launches += work->calls.data[i].launches;
        if (pass->elapsed_ns)
            pass->elapsed_ns[i / group->count] += work->calls.data[i].elapsed_ns;
    }
}

static gs_code check_marks(const gs_zoo_pass *pass, const struct group *group, gs_error *error) {
    const uint32_t *mark = group->counts;
    for (size_t i = group->first; i < group->first + group->count && mark; i++) {
        const gs_zoo_launch *launch = &pass->instance->launches.data[i];
        for (uint64_t block = 0; block < blocks_of(launch); block++, mark++)
            if (*mark != 1)
                return gs_fail(error, GS_E_KERNEL, "launch %zu: block %llu ran %u times", i + 1,
                               (unsigned long long)block, *mark);
    }
    return GS_OK;
}

static bool is_discarded(const gs_zoo_pass *pass) {
    return pass->elapsed_ns && !pass->form->counts_blocks && pass->instance->kind_count == 1;
}

static gs_code run_group(gs_zoo_pass *pass, struct group *group, gs_error *error) {
    const gs_zoo_launch *launches = pass->instance->launches.data + group->first;
    gs_work work = {.seconds = pass->form->seconds,
                    .seed = pass->form->seed,
                    .backwards = pass->form->backwards,
                    .shuffled = pass->form->shuffled,
                    .discards_results = is_discarded(pass),
                    .kept_as = is_discarded(pass) ? pass->kept_as : 0};
    uint64_t blocks = 0;
    for (size_t i = 0; i < group->count; i++)
        blocks += blocks_of(&launches[i]);
    if (counts_blocks(pass->form)) {
        group->counts = calloc(blocks + 1, sizeof *group->counts);
        if (!group->counts)
            return gs_fail_memory(error);
    }
    fill_work(pass, group, &work);
    gs_code code = pass->executor->ops->run(pass->parts[launches[0].kind].program, &work, error);
    if (code == GS_OK)
        code = check_marks(pass, group, error);
    if (code == GS_OK)
        add_times(pass, group, &work);
    gs_work_free(&work);
    free(group->counts);
    return code;
}

/* ---- a pass ---- */

static gs_code copy_inputs(gs_zoo_pass *pass, gs_error *error) {
    for (size_t i = 0; i < pass->instance->buffer_count; i++) {
        const gs_zoo_buffer *buffer = &pass->instance->buffers[i];
        pass->data[i] = malloc(gs_zoo_buffer_bytes(buffer) + 1);
        if (!pass->data[i])
            return gs_fail_memory(error);
        memcpy(pass->data[i], buffer->data, gs_zoo_buffer_bytes(buffer));
    }
    return GS_OK;
}

gs_code gs_zoo_pass_run(gs_zoo_pass *pass, gs_error *error) {
    const gs_zoo_instance *instance = pass->instance;
    pass->repeat = pass->repeat ? pass->repeat : 1;
    gs_code code = is_discarded(pass) ? GS_OK : copy_inputs(pass, error);
    for (size_t first = 0, count; first < instance->launches.count && code == GS_OK; first += count) {
        const gs_zoo_launch *launches = instance->launches.data + first;
        count = 1;
        while (first + count < instance->launches.count && launches[count].kind == launches[0].kind)
            count++;
        code = run_group(pass, &(struct group){.first = first, .count = count}, error);
    }
    return code;
}

void gs_zoo_pass_free(gs_zoo_pass *pass) {
    for (size_t i = 0; i < GS_ZOO_BUFFERS; i++) {
        free(pass->data[i]);
        pass->data[i] = NULL;
    }
}

bool gs_zoo_buffer_is_right(const gs_zoo_instance *instance, size_t number, const void *data, gs_error *reason) {
    const gs_zoo_buffer *buffer = &instance->buffers[number];
    if (buffer->is_scratch)
        return true;
    size_t at = gs_scalars_differ(buffer->type, buffer->expected, data, buffer->count, instance->kernel->tolerance);
    if (at == buffer->count)
        return true;
    gs_fail(reason, GS_E_KERNEL, "buffer %zu, element %zu: expected %.9g, got %.9g", number + 1, at,
            gs_scalar_value(buffer->type, buffer->expected, at), gs_scalar_value(buffer->type, data, at));
    return false;
}

bool gs_zoo_pass_is_right(const gs_zoo_pass *pass, gs_error *reason) {
    for (size_t i = 0; i < pass->instance->buffer_count; i++)
        if (!gs_zoo_buffer_is_right(pass->instance, i, pass->data[i], reason))
            return false;
    return true;
}

void gs_zoo_pass_keep(gs_zoo_pass *pass) {
    for (size_t i = 0; i < pass->instance->buffer_count; i++) {
        free(pass->instance->buffers[i].expected);
        pass->instance->buffers[i].expected = pass->data[i];
        pass->data[i] = NULL;
    }
}

gs_code gs_zoo_play(gs_zoo_instance *instance, const gs_zoo_part *parts, gs_executor *executor, const gs_zoo_form *form,
                    gs_zoo_result *result, gs_error *error) {
    gs_zoo_pass pass = {.instance = instance, .parts = parts, .executor = executor, .form = form};
    *result = (gs_zoo_result){.is_right = false};
    gs_code code = gs_zoo_pass_run(&pass, &result->reason);
    if (code == GS_OK) {
        result->is_right = gs_zoo_pass_is_right(&pass, &result->reason);
        result->elapsed_ns = pass.total_ns;
        result->launches = pass.launches;
    } else if (code != GS_E_KERNEL) {
        *error = result->reason;
    }
    gs_zoo_pass_free(&pass);
    return code == GS_E_KERNEL ? GS_OK : code;
}

/* ---- all of it ---- */

/* Makes and compiles all kinds of an instance. If this fails, those made are freed. */
static gs_code make_parts(gs_zoo_part *parts, const gs_zoo_instance *instance, gs_executor *executor,
                          const gs_zoo_form *form, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < instance->kind_count && code == GS_OK; i++) {
        code = gs_zoo_part_make(&parts[i], instance, i, form, 0, error);
        if (code == GS_OK)
            code = gs_zoo_part_compile(&parts[i], executor, instance->kinds[i].source, error);
    }
    for (size_t i = 0; i < instance->kind_count && code != GS_OK; i++)
        gs_zoo_part_free(&parts[i]);
    return code;
}

/* At large sizes, the results of the original are the expected results. */
static gs_code run_original(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form,
                            gs_error *error) {
    gs_zoo_form original = {.form = GS_FORM_ORIGINAL, .seconds = form->seconds};
    gs_zoo_part parts[GS_ZOO_KINDS] = {{.program = NULL}};
    gs_zoo_pass pass = {.instance = instance, .parts = parts, .executor = executor, .form = &original};
    if (instance->buffers[0].expected)
        return GS_OK;
    gs_code code = make_parts(parts, instance, executor, &original, error);
    if (code == GS_OK)
        code = gs_zoo_pass_run(&pass, error);
    if (code == GS_OK)
        gs_zoo_pass_keep(&pass);
    gs_zoo_pass_free(&pass);
    for (size_t i = 0; i < GS_ZOO_KINDS; i++)
        gs_zoo_part_free(&parts[i]);
    return code;
}

/* Tries one elastic guess for one kind; the other kinds stay as they are. */
static gs_code try_guess(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form, size_t kind,
                         uint32_t guess, gs_zoo_part *parts, gs_zoo_result *result, gs_error *error) {
    gs_zoo_part before = parts[kind];
    gs_code code = gs_zoo_part_make(&parts[kind], instance, kind, form, guess, error);
    if (code == GS_OK)
        code = gs_zoo_part_compile(&parts[kind], executor, instance->kinds[kind].source, error);
    result->is_right = false;
    if (code == GS_OK)
        code = gs_zoo_play(instance, parts, executor, form, result, error);
    if (code == GS_OK && result->is_right) {
        gs_zoo_part_free(&before);
        return GS_OK;
    }
    gs_zoo_part_free(&parts[kind]);
    parts[kind] = before;
    return code == GS_E_REFUSED || code == GS_E_KERNEL ? GS_OK : code;
}

/* The guess that is known to be right is tried first. On a GPU it is the only one: a wrong guess may crash it. */
static gs_code find_elastic(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form, size_t kind,
                            gs_zoo_part *parts, gs_zoo_result *result, gs_error *error) {
    const gs_zoo_kernel *owner = gs_zoo_find(instance->kinds[kind].source);
    uint32_t known = owner->elastic[form->factor / 4], last = 0;
    if (strcmp(executor->ops->name, "host") == 0)
        last = GS_ELASTIC_GUESSES;
    gs_code code = try_guess(instance, executor, form, kind, known, parts, result, error);
    for (uint32_t guess = 0; guess < last && code == GS_OK && !result->is_right; guess++)
        if (guess != known)
            code = try_guess(instance, executor, form, kind, guess, parts, result, error);
    return code;
}

static gs_code run_elastic(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form,
                           gs_zoo_part *parts, gs_zoo_result *result, gs_error *error) {
    gs_zoo_form original = {.form = GS_FORM_ORIGINAL, .seconds = form->seconds};
    if (instance->kernel->is_assembly) {
        gs_zoo_part_make(&parts[0], instance, 0, form, 0, &result->reason);
        return GS_OK;
    }
    gs_code code = make_parts(parts, instance, executor, &original, error);
    for (size_t i = 0; i < instance->kind_count && code == GS_OK; i++) {
        code = find_elastic(instance, executor, form, i, parts, result, error);
        if (code == GS_OK && !result->is_right) {
            gs_fail(&result->reason, GS_E_REFUSED,
                    "no constants of %s were found with which fewer threads compute the same results",
                    instance->kinds[i].kernel);
            break;
        }
    }
    for (size_t i = 0; i < instance->kind_count && code == GS_OK && result->is_right; i++) {
        size_t length = strlen(result->reason.message);
        snprintf(result->reason.message + length, sizeof result->reason.message - length, "%s%s: %s", i ? "; " : "",
                 instance->kinds[i].kernel, parts[i].words);
    }
    return code;
}

gs_code gs_zoo_run(gs_zoo_instance *instance, gs_executor *executor, const gs_zoo_form *form, gs_zoo_part *parts,
                   gs_zoo_result *result, gs_error *error) {
    *result = (gs_zoo_result){.is_right = false};
    gs_code code = run_original(instance, executor, form, error);
    if (code != GS_OK)
        return code;
    if (parts[0].program)
        return gs_zoo_play(instance, parts, executor, form, result, error);
    if (form->form == GS_FORM_ELASTIC)
        return run_elastic(instance, executor, form, parts, result, error);
    code = make_parts(parts, instance, executor, form, error);
    if (code == GS_OK)
        return gs_zoo_play(instance, parts, executor, form, result, error);
    if (code != GS_E_REFUSED && code != GS_E_KERNEL)
        return code;
    result->reason = *error; /* or a compile error, for example with too few registers */
    return GS_OK;
}
