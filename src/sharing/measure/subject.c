/*
 * subject.c: a kernel with its inputs on a GPU: compiled in the forms that are asked for, its results compared.
 *
 * The inputs are kept on the GPU a second time, and so are the results of the kernel as written, with which all others
 * are compared there. Buffers whose results differ between two runs of the kernel as written, because floating-point
 * numbers are added in another order, are compared by the tolerance of the kernel, on the CPU.
 */
#include "subject.h"

#include <stdlib.h>

/* ---- programs ---- */

static gs_code compile(gs_subject *subject, gs_bench_gpu *gpu, size_t kind, int32_t form, uint32_t registers,
                       gs_zoo_part *part, gs_error *error) {
    const gs_zoo_launch *launch = gs_zoo_launch_first(&subject->instance, kind);
    uint32_t block[3];
    gs_code code = gs_subject_make_text(subject, kind, form, registers, part, error);
    if (code == GS_OK)
        code = gs_zoo_part_compile(part, gpu->executor, subject->instance.kinds[kind].source, error);
    for (int i = 0; i < 3 && code == GS_OK; i++)
        block[i] = launch->block[i] / part->divide_block[i];
    return code == GS_OK ? gpu->executor->ops->cost(part->program, part->name, block,
                                                    launch->shared_bytes / part->divide_shared, &part->cost, error)
                         : code;
}

/* Without a limit that was asked for, a form has as many registers as the kernel as written. */
static gs_code compile_form(gs_subject *subject, gs_bench_gpu *gpu, size_t kind, int32_t form, int32_t registers,
                            gs_zoo_part *part, gs_error *error) {
    gs_code code = compile(subject, gpu, kind, form, (uint32_t)registers, part, error);
    if (code != GS_OK || form < 0 || registers)
        return code;
    const gs_subject_program *written = gs_subject_program_of(subject, gpu, -1, 0, error);
    uint32_t limit = written ? gs_register_limit(written->parts[kind].cost.registers, part->cost.registers) : 0;
    if (!limit)
        return GS_OK;
    gs_zoo_part_free(part);
    return compile(subject, gpu, kind, form, limit, part, error);
}

static gs_subject_program *add_program(gs_subject *subject, int32_t form, int32_t registers) {
    gs_subject_program *program = calloc(1, sizeof *program);
    if (!program || !GS_RESERVE(&subject->programs, 1)) {
        free(program);
        return NULL;
    }
    *program = (gs_subject_program){.form = form, .registers = registers};
    return subject->programs.data[subject->programs.count++] = program;
}

gs_subject_program *gs_subject_program_of(gs_subject *subject, gs_bench_gpu *gpu, int32_t form, int32_t registers,
                                          gs_error *error) {
    for (size_t i = 0; i < subject->programs.count; i++)
        if (subject->programs.data[i]->form == form && subject->programs.data[i]->registers == registers)
            return subject->programs.data[i];
    gs_subject_program *program = add_program(subject, form, registers);
    if (!program) {
        gs_fail_memory(error);
        return NULL;
    }
    gs_error problem = {.code = GS_OK};
    for (size_t kind = 0; kind < subject->instance.kind_count && !program->problem[0]; kind++)
        if (compile_form(subject, gpu, kind, form, registers, &program->parts[kind], &problem) != GS_OK)
            snprintf(program->problem, sizeof program->problem, "%.*s", (int)sizeof program->problem - 1,
                     problem.message);
    return program;
}

/* ---- opening ---- */

static gs_shape shape_of(const gs_subject *subject, const gs_subject_program *program, size_t kind) {
    const gs_zoo_launch *launch = gs_zoo_launch_first(&subject->instance, kind);
    const gs_zoo_part *part = &program->parts[kind];
    uint32_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= launch->block[i] / part->divide_block[i];
    gs_shape shape = gs_shape_of((int32_t)threads, part->cost.registers,
                                 part->cost.shared_bytes + (int64_t)(launch->shared_bytes / part->divide_shared));
    shape.local_bytes = part->cost.local_bytes;
    return shape;
}

/* The kind of launch whose blocks take most registers stands for all. */
static size_t main_kind(const gs_subject *subject, const gs_subject_program *program) {
    size_t most = 0;
    for (size_t kind = 1; kind < subject->instance.kind_count; kind++) {
        gs_shape shape = shape_of(subject, program, kind), other = shape_of(subject, program, most);
        if ((int64_t)shape.threads * shape.registers > (int64_t)other.threads * other.registers)
            most = kind;
    }
    return most;
}

/* Of other kinds, as many workers as take no more threads, registers and shared memory. */
int32_t gs_subject_workers(const gs_subject *subject, const gs_subject_program *program, size_t kind, int32_t workers) {
    size_t most = main_kind(subject, program);
    gs_shape all = shape_of(subject, program, most), shape = shape_of(subject, program, kind);
    if (kind == most)
        return workers;
    int64_t threads = (int64_t)workers * all.threads / shape.threads;
    int64_t registers = (int64_t)workers * all.threads * all.registers / ((int64_t)shape.threads * shape.registers);
    int64_t shared =
        shape.shared_bytes ? workers * gs_max(all.shared_bytes, shape.shared_bytes) / shape.shared_bytes : INT32_MAX;
    return (int32_t)gs_max(1, gs_min(threads, gs_min(registers, shared)));
}

static void count_blocks(gs_subject *subject) {
    bool is_alike = true;
    for (size_t i = 0; i < subject->instance.launches.count; i++) {
        const gs_zoo_launch *launch = &subject->instance.launches.data[i];
        int64_t blocks = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
        subject->given.blocks += blocks;
        is_alike = is_alike && blocks * (int64_t)(i + 1) == subject->given.blocks;
    }
    subject->given.launches = is_alike ? (int32_t)subject->instance.launches.count : 0;
}

gs_code gs_subject_open(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error) {
    gs_pair_search_kernel *given = &subject->given;
    memcpy(given->name, subject->source.name, sizeof given->name);
    gs_code code = gs_subject_make_instance(subject, error);
    if (code != GS_OK)
        return code;
    count_blocks(subject);
    for (int32_t form = -1; form < GS_SEARCH_FORMS; form++) {
        const gs_subject_program *program = gs_subject_program_of(subject, gpu, form, 0, error);
        if (!program)
            return error->code;
        if (form <= 0 && program->problem[0]) {
            memcpy(given->problem, program->problem, sizeof given->problem);
            return GS_OK;
        }
        if (form < 0 || program->problem[0])
            continue;
        given->forms[form] = shape_of(subject, program, main_kind(subject, program));
        given->has_form[form] = true;
    }
    return GS_OK;
}

/* ---- memory ---- */

static gs_code send_buffers(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error) {
    gs_app_stream *stream = gpu->streams[0];
    gs_code code = GS_OK;
    for (size_t i = 0; i < subject->instance.buffer_count && code == GS_OK; i++) {
        const gs_zoo_buffer *buffer = &subject->instance.buffers[i];
        size_t bytes = gs_zoo_buffer_bytes(buffer), whole = (bytes + 3) / 4 * 4;
        code = stream->ops->allocate(stream, whole, &subject->memory[i], error);
        if (code == GS_OK)
            code = stream->ops->allocate(stream, whole, &subject->saved[i], error);
        if (code == GS_OK)
            code = stream->ops->copy_in(stream, subject->saved[i], buffer->data, bytes, error);
        if (code == GS_OK)
            code = gs_bench_copy(gpu, subject->memory[i], subject->saved[i], bytes, error);
    }
    return code;
}

/* Which buffers the launches change, and what to. */
static gs_code find_changed(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error) {
    gs_app_stream *stream = gpu->streams[0];
    gs_code code = GS_OK;
    for (size_t i = 0; i < subject->instance.buffer_count && code == GS_OK; i++) {
        size_t bytes = gs_zoo_buffer_bytes(&subject->instance.buffers[i]), whole = (bytes + 3) / 4 * 4;
        uint64_t words = 0;
        code = gs_bench_differ(gpu, subject->memory[i], subject->saved[i], bytes, &words, error);
        subject->is_changed[i] = words > 0;
        if (code == GS_OK && words > 0)
            code = stream->ops->allocate(stream, whole, &subject->expected[i], error);
        if (code == GS_OK && words > 0)
            code = gs_bench_copy(gpu, subject->expected[i], subject->memory[i], bytes, error);
    }
    return code;
}

static gs_code find_unsteady(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < subject->instance.buffer_count && code == GS_OK; i++) {
        uint64_t words = 0;
        if (!subject->is_changed[i])
            continue;
        code = gs_bench_differ(gpu, subject->memory[i], subject->expected[i],
                               gs_zoo_buffer_bytes(&subject->instance.buffers[i]), &words, error);
        subject->is_unsteady[i] = words > 0;
    }
    return code;
}

gs_code gs_subject_restore(gs_subject *subject, gs_bench_gpu *gpu, gs_app_stream *stream, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < subject->instance.buffer_count && code == GS_OK; i++) {
        size_t bytes = gs_zoo_buffer_bytes(&subject->instance.buffers[i]);
        if (!subject->is_changed[i])
            continue;
        code = stream ? gs_bench_copy_later(gpu, stream, subject->memory[i], subject->saved[i], bytes, error)
                      : gs_bench_copy(gpu, subject->memory[i], subject->saved[i], bytes, error);
    }
    return code;
}

gs_code gs_subject_send(gs_subject *subject, gs_bench_gpu *gpu, gs_subject_play *play, void *inside, gs_error *error) {
    if (subject->is_sent)
        return GS_OK;
    gs_code code = send_buffers(subject, gpu, error);
    if (code == GS_OK)
        code = play(inside, subject, error);
    if (code == GS_OK)
        code = find_changed(subject, gpu, error);
    if (code == GS_OK)
        code = gs_subject_restore(subject, gpu, NULL, error);
    if (code == GS_OK)
        code = play(inside, subject, error);
    if (code == GS_OK)
        code = find_unsteady(subject, gpu, error);
    subject->is_sent = code == GS_OK;
    return code;
}

/* ---- results ---- */

static gs_code compare(gs_subject *subject, gs_bench_gpu *gpu, size_t number, gs_error *error) {
    const gs_zoo_buffer *buffer = &subject->instance.buffers[number];
    gs_app_stream *stream = gpu->streams[0];
    double tolerance = subject->instance.kernel ? subject->instance.kernel->tolerance : 1e-4;
    void *found = malloc(gs_zoo_buffer_bytes(buffer) + 1), *expected = malloc(gs_zoo_buffer_bytes(buffer) + 1);
    gs_code code = found && expected ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = stream->ops->copy_out(stream, found, subject->memory[number], gs_zoo_buffer_bytes(buffer), error);
    if (code == GS_OK)
        code = stream->ops->copy_out(stream, expected, subject->expected[number], gs_zoo_buffer_bytes(buffer), error);
    size_t at = code == GS_OK ? gs_scalars_differ(buffer->type, expected, found, buffer->count, tolerance) : 0;
    if (code == GS_OK && at < buffer->count)
        code = gs_fail(error, GS_E_KERNEL, "%s: its results change: buffer %zu, element %zu is %.9g, not %.9g",
                       subject->given.name, number + 1, at, gs_scalar_value(buffer->type, found, at),
                       gs_scalar_value(buffer->type, expected, at));
    free(found);
    free(expected);
    return code;
}

gs_code gs_subject_check(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < subject->instance.buffer_count && code == GS_OK; i++) {
        const gs_zoo_buffer *buffer = &subject->instance.buffers[i];
        uint64_t words = 0;
        if (!subject->is_changed[i] || buffer->is_scratch)
            continue;
        code =
            gs_bench_differ(gpu, subject->memory[i], subject->expected[i], gs_zoo_buffer_bytes(buffer), &words, error);
        if (code == GS_OK && words > 0)
            code = compare(subject, gpu, i, error);
    }
    return code;
}
