/*
 * resident.c: an instance whose memory is on the GPU and whose kernels are loaded.
 *
 * The buffers that the launches change are those that the reference changes at the small size. Their inputs are kept on
 * the GPU a second time, and a kernel copies them back. Results are compared with the reference or, at large sizes,
 * with those of the first pass, whose kernels are compared with the reference at the small size.
 *
 * The pace counts what was launched, and waits when the host is far enough ahead of the GPU.
 */
#include "resident.h"

#include <stdlib.h>
#include <string.h>

/* gridsmith_restore(to, from, words): each thread copies a word. A kernel of a file may be called restore. */
static const char restore_text[] =
    "\n.visible .entry gridsmith_restore(.param .u64 to, .param .u64 from, .param .u32 words) {\n"
    "\t.reg .pred %outside;\n"
    "\t.reg .b32 %word, %block, %threads, %count;\n"
    "\t.reg .b64 %to, %from, %at;\n"
    "\tmov.u32 %word, %tid.x;\n"
    "\tmov.u32 %block, %ctaid.x;\n"
    "\tmov.u32 %threads, %ntid.x;\n"
    "\tmad.lo.u32 %word, %block, %threads, %word;\n"
    "\tld.param.u32 %count, [words];\n"
    "\tsetp.ge.u32 %outside, %word, %count;\n"
    "\t@%outside ret;\n"
    "\tmul.wide.u32 %at, %word, 4;\n"
    "\tld.param.u64 %to, [to];\n"
    "\tld.param.u64 %from, [from];\n"
    "\tcvta.to.global.u64 %to, %to;\n"
    "\tcvta.to.global.u64 %from, %from;\n"
    "\tadd.u64 %to, %to, %at;\n"
    "\tadd.u64 %from, %from, %at;\n"
    "\tld.global.u32 %word, [%from];\n"
    "\tst.global.u32 [%to], %word;\n"
    "\tret;\n"
    "}\n";

enum { RESTORE = 1, RESTORE_THREADS = 256, WORD = 4 };

static size_t words_of(const gs_zoo_buffer *buffer) {
    return gs_divide_up((int64_t)(buffer->count * gs_scalar_bytes(buffer->type)), WORD);
}

static bool starts_as_zeros(const gs_zoo_buffer *buffer) {
    return !buffer->make && !(buffer->low < buffer->high);
}

/* ---- launching ---- */

static gs_code start_launch(gs_zoo_pace *pace, const gs_app_launch *call, gs_error *error) {
    gs_code code = pace->stream->ops->launch(pace->stream, call, error);
    pace->launches++;
    return code == GS_OK && ++pace->unwaited >= pace->ahead ? gs_zoo_pace_wait(pace, error) : code;
}

gs_code gs_zoo_pace_wait(gs_zoo_pace *pace, gs_error *error) {
    pace->unwaited = 0;
    return pace->stream->ops->wait(pace->stream, error);
}

/* Copies a buffer on the GPU. */
static gs_code copy_buffer(gs_zoo_resident *resident, gs_zoo_pace *pace, size_t number, uint64_t to, uint64_t from,
                           gs_error *error) {
    const uint64_t buffers[] = {to, from};
    uint32_t words = (uint32_t)words_of(&resident->instance.buffers[number]);
    gs_job_argument arguments[] = {{.buffer = 0}, {.buffer = 1}, {.buffer = -1, .bytes = sizeof words}};
    memcpy(arguments[2].value, &words, sizeof words);
    gs_app_launch call = {.track = pace->track,
                          .module = resident->modules[0],
                          .kernel = RESTORE,
                          .grid = {(uint32_t)gs_divide_up(words, RESTORE_THREADS), 1, 1},
                          .block = {RESTORE_THREADS, 1, 1},
                          .arguments = arguments,
                          .argument_count = GS_COUNT(arguments),
                          .buffers = buffers};
    return start_launch(pace, &call, error);
}

gs_code gs_zoo_resident_restore(gs_zoo_resident *resident, gs_zoo_pace *pace, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < resident->instance.buffer_count && code == GS_OK; i++)
        if (resident->is_changed[i])
            code = copy_buffer(resident, pace, i, resident->memory[i], resident->saved[i], error);
    return code;
}

gs_code gs_zoo_resident_run(gs_zoo_resident *resident, gs_zoo_pace *pace, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < resident->instance.launches.count && code == GS_OK; i++) {
        const gs_zoo_launch *launch = &resident->instance.launches.data[i];
        gs_app_launch call = {.track = pace->track,
                              .module = resident->modules[launch->kind],
                              .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                              .block = {launch->block[0], launch->block[1], launch->block[2]},
                              .shared_bytes = launch->shared_bytes,
                              .arguments = launch->list,
                              .argument_count = launch->arguments,
                              .buffers = resident->memory};
        if (launch->grid[0] && launch->grid[1] && launch->grid[2])
            code = start_launch(pace, &call, error);
    }
    return code;
}

/* ---- comparing ---- */

static gs_code fetch_buffer(gs_zoo_resident *resident, gs_app_stream *stream, size_t number, void **data,
                            gs_error *error) {
    size_t bytes = gs_zoo_buffer_bytes(&resident->instance.buffers[number]);
    *data = malloc(bytes + 1);
    return *data ? stream->ops->copy_out(stream, *data, resident->memory[number], bytes, error) : gs_fail_memory(error);
}

static bool is_compared(const gs_zoo_resident *resident, size_t number) {
    return resident->is_changed[number] && !resident->instance.buffers[number].is_scratch;
}

gs_code gs_zoo_resident_check(gs_zoo_resident *resident, gs_app_stream *stream, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < resident->instance.buffer_count && code == GS_OK; i++) {
        void *data = NULL;
        if (!is_compared(resident, i))
            continue;
        code = fetch_buffer(resident, stream, i, &data, error);
        if (code == GS_OK && !gs_zoo_buffer_is_right(&resident->instance, i, data, error))
            code = GS_E_KERNEL;
        free(data);
    }
    return code;
}

gs_code gs_zoo_resident_keep(gs_zoo_resident *resident, gs_app_stream *stream, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < resident->instance.buffer_count && code == GS_OK; i++)
        if (is_compared(resident, i))
            code = fetch_buffer(resident, stream, i, &resident->instance.buffers[i].expected, error);
    return code;
}

/* ---- setting up ---- */

/* Finds the buffers that the launches change: those that the reference changes at the small size. */
static void find_changed(const gs_zoo_instance *small, bool *is_changed) {
    for (size_t i = 0; i < small->buffer_count; i++) {
        const gs_zoo_buffer *buffer = &small->buffers[i];
        is_changed[i] = buffer->is_scratch || memcmp(buffer->data, buffer->expected, gs_zoo_buffer_bytes(buffer)) != 0;
    }
}

/* Loads the kernel; the first module also has the one that restores buffers. */
static gs_code load_kind(gs_zoo_resident *resident, gs_app_stream *stream, size_t kind, gs_error *error) {
    const gs_zoo_kind *requested = &resident->instance.kinds[kind];
    char name[100], symbol[GS_JOB_NAME];
    const char *kernels[] = {symbol, "gridsmith_restore"};
    gs_text whole = {0};
    gs_code code = gs_zoo_ptx(requested, &whole, symbol, error);
    snprintf(name, sizeof name, "%s%s", requested->source, requested->is_file ? "" : ".ptx");
    if (kind == 0)
        gs_text_put(&whole, restore_text, sizeof restore_text - 1);
    gs_build build = {
        .name = name, .text = whole.data, .size = whole.count, .kernels = kernels, .kernel_count = kind == 0 ? 2 : 1};
    if (code == GS_OK)
        code =
            whole.failed ? gs_fail_memory(error) : stream->ops->load(stream, &build, &resident->modules[kind], error);
    gs_text_free(&whole);
    return code;
}

static gs_code load_kinds(gs_zoo_resident *resident, gs_app_stream *stream, gs_error *error) {
    int64_t began_ns = gs_now_ns();
    gs_code code = GS_OK;
    for (size_t i = 0; i < resident->instance.kind_count && code == GS_OK; i++)
        code = load_kind(resident, stream, i, error);
    resident->compile_ns = gs_now_ns() - began_ns;
    return code;
}

static gs_code send_buffers(gs_zoo_resident *resident, gs_zoo_pace *pace, gs_error *error) {
    gs_app_stream *stream = pace->stream;
    gs_code code = GS_OK;
    for (size_t i = 0; i < resident->instance.buffer_count && code == GS_OK; i++) {
        const gs_zoo_buffer *buffer = &resident->instance.buffers[i];
        size_t bytes = words_of(buffer) * WORD;
        code = stream->ops->allocate(stream, bytes, &resident->memory[i], error);
        if (code == GS_OK && !starts_as_zeros(buffer))
            code = stream->ops->copy_in(stream, resident->memory[i], buffer->data, gs_zoo_buffer_bytes(buffer), error);
        if (code == GS_OK && resident->is_changed[i])
            code = stream->ops->allocate(stream, bytes, &resident->saved[i], error);
        if (code == GS_OK && resident->is_changed[i])
            code = copy_buffer(resident, pace, i, resident->saved[i], resident->memory[i], error);
    }
    return code;
}

/* Compares the same kernels with the reference at the small size. */
static gs_code check_small(const gs_zoo_resident *resident, const gs_zoo_instance *small, gs_zoo_pace *pace,
                           gs_error *error) {
    gs_zoo_resident checked = *resident;
    checked.instance = *small;
    gs_code code = send_buffers(&checked, pace, error);
    if (code == GS_OK)
        code = gs_zoo_resident_run(&checked, pace, error);
    if (code == GS_OK)
        code = gs_zoo_resident_restore(&checked, pace, error);
    if (code == GS_OK)
        code = gs_zoo_resident_run(&checked, pace, error);
    return code == GS_OK ? gs_zoo_resident_check(&checked, pace->stream, error) : code;
}

gs_code gs_zoo_resident_make(gs_zoo_resident *resident, const gs_zoo_kernel *kernel, const gs_zoo_size *size,
                             gs_zoo_pace *pace, gs_error *error) {
    gs_zoo_instance small = {0};
    bool has_small = kernel->reference != NULL;
    *resident = (gs_zoo_resident){.compile_ns = 0};
    gs_code code = has_small ? gs_zoo_instance_make(&small, kernel, gs_zoo_size_find(kernel, "small"), error) : GS_OK;
    if (code != GS_OK)
        return code;
    find_changed(&small, resident->is_changed);
    code = gs_zoo_instance_make(&resident->instance, kernel, size, error);
    for (size_t i = 0; i < resident->instance.buffer_count && !has_small; i++)
        resident->is_changed[i] = true; /* which ones are changed is not known: all are restored and compared */
    if (code == GS_OK)
        code = load_kinds(resident, pace->stream, error);
    if (code == GS_OK && has_small && gs_zoo_size_is_large(size))
        code = check_small(resident, &small, pace, error);
    if (code == GS_OK)
        code = send_buffers(resident, pace, error);
    gs_zoo_instance_free(&small);
    return code;
}

gs_code gs_zoo_resident_make_again(gs_zoo_resident *resident, const gs_zoo_resident *other, const gs_zoo_size *size,
                                   gs_zoo_pace *pace, gs_error *error) {
    *resident = (gs_zoo_resident){.compile_ns = 0};
    memcpy(resident->modules, other->modules, sizeof resident->modules);
    memcpy(resident->is_changed, other->is_changed, sizeof resident->is_changed);
    gs_code code = gs_zoo_instance_make(&resident->instance, other->instance.kernel, size, error);
    return code == GS_OK ? send_buffers(resident, pace, error) : code;
}
