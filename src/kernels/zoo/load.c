/*
 * load.c: an instance as an application: memory is allocated and filled once, then the launches run again and again on
 * one stream, without a wait for each of them.
 *
 * A round is a number of repetitions of the instance. Before the last repetition, the buffers that the launches change
 * are restored by a kernel that copies, so that the results can be compared: with the reference or, at large sizes,
 * with the results of the first pass, whose kernels are compared with the reference at the small size. If launches
 * change their own inputs, the inputs are restored before each repetition.
 *
 * The host runs ahead of the GPU by about 50 ms, then waits. The number of launches that take this long is computed
 * from the last round that was longer; before that it is 1,024.
 */
#include "play.h"

#include <stdlib.h>
#include <string.h>

/* restore(to, from, words): each thread copies a word. */
static const char restore_text[] = "\n.visible .entry restore(.param .u64 to, .param .u64 from, .param .u32 words) {\n"
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

enum { RESTORE = 1, RESTORE_THREADS = 256, WORD = 4, FEW_AHEAD = 8, MOST_AHEAD = 1024, AHEAD_NS = 50000000 };

static size_t words_of(const gs_zoo_buffer *buffer) {
    return gs_divide_up((int64_t)(buffer->count * gs_scalar_bytes(buffer->type)), WORD);
}

static bool starts_as_zeros(const gs_zoo_buffer *buffer) {
    return !buffer->make && !(buffer->low < buffer->high);
}

/* ---- launching ---- */

static gs_code start_launch(gs_zoo_load *load, const gs_app_launch *call, gs_error *error) {
    gs_code code = load->stream->ops->launch(load->stream, call, error);
    load->launches++;
    if (code != GS_OK || ++load->unwaited < load->ahead)
        return code;
    load->unwaited = 0;
    return load->stream->ops->wait(load->stream, error);
}

static gs_code wait_for_all(gs_zoo_load *load, gs_error *error) {
    load->unwaited = 0;
    return load->stream->ops->wait(load->stream, error);
}

/* Copies a buffer on the GPU. */
static gs_code copy_buffer(gs_zoo_load *load, size_t number, uint64_t to, uint64_t from, gs_error *error) {
    const uint64_t buffers[] = {to, from};
    uint32_t words = (uint32_t)words_of(&load->instance.buffers[number]);
    gs_job_argument arguments[] = {{.buffer = 0}, {.buffer = 1}, {.buffer = -1, .bytes = sizeof words}};
    memcpy(arguments[2].value, &words, sizeof words);
    gs_app_launch call = {.module = load->modules[0],
                          .kernel = RESTORE,
                          .grid = {(uint32_t)gs_divide_up(words, RESTORE_THREADS), 1, 1},
                          .block = {RESTORE_THREADS, 1, 1},
                          .arguments = arguments,
                          .argument_count = GS_COUNT(arguments),
                          .buffers = buffers};
    return start_launch(load, &call, error);
}

static gs_code restore_buffers(gs_zoo_load *load, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->instance.buffer_count && code == GS_OK; i++)
        if (load->is_changed[i])
            code = copy_buffer(load, i, load->memory[i], load->saved[i], error);
    return code;
}

/* Runs all launches of the instance once. */
static gs_code run_launches(gs_zoo_load *load, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->instance.launches.count && code == GS_OK; i++) {
        const gs_zoo_launch *launch = &load->instance.launches.data[i];
        gs_app_launch call = {.module = load->modules[launch->kind],
                              .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                              .block = {launch->block[0], launch->block[1], launch->block[2]},
                              .shared_bytes = launch->shared_bytes,
                              .arguments = launch->list,
                              .argument_count = launch->arguments,
                              .buffers = load->memory};
        if (launch->grid[0] && launch->grid[1] && launch->grid[2])
            code = start_launch(load, &call, error);
    }
    return code;
}

static void set_ahead(gs_zoo_load *load, const gs_zoo_round *round) {
    int64_t ahead = AHEAD_NS / ((round->ended_ns - round->began_ns) / round->launches + 1);
    load->ahead = (uint32_t)gs_max(FEW_AHEAD, gs_min(ahead, MOST_AHEAD));
}

gs_code gs_zoo_load_round(gs_zoo_load *load, uint32_t repeat, gs_zoo_round *round, gs_error *error) {
    gs_code code = GS_OK;
    load->launches = 0;
    *round = (gs_zoo_round){.began_ns = gs_now_ns()};
    for (uint32_t i = 0; i < repeat && code == GS_OK; i++) {
        if (load->instance.kernel->changes_inputs || i + 1 == repeat)
            code = restore_buffers(load, error);
        if (code == GS_OK)
            code = run_launches(load, error);
    }
    if (code == GS_OK)
        code = wait_for_all(load, error);
    round->ended_ns = gs_now_ns();
    round->launches = load->launches;
    if (code == GS_OK && round->launches && round->ended_ns - round->began_ns > AHEAD_NS)
        set_ahead(load, round);
    return code;
}

gs_code gs_zoo_load_repeat(gs_zoo_load *load, int64_t wanted_ns, uint32_t *repeat, gs_error *error) {
    enum { MOST = 1 << 24 };
    int64_t elapsed_ns = 1;
    gs_zoo_round round;
    gs_code code = GS_OK;
    for (*repeat = 1; code == GS_OK; *repeat = (uint32_t)gs_min(*repeat * (wanted_ns / elapsed_ns + 1), MOST)) {
        code = gs_zoo_load_round(load, *repeat, &round, error);
        elapsed_ns = round.ended_ns - round.began_ns + 1;
        if (elapsed_ns > wanted_ns / 2 || *repeat == MOST)
            break;
    }
    *repeat = (uint32_t)((double)wanted_ns * *repeat / (double)elapsed_ns + 0.5);
    *repeat = *repeat ? *repeat : 1;
    return code;
}

/* ---- comparing ---- */

static gs_code fetch_buffer(gs_zoo_load *load, size_t number, void **data, gs_error *error) {
    const gs_zoo_buffer *buffer = &load->instance.buffers[number];
    size_t bytes = buffer->count * gs_scalar_bytes(buffer->type);
    *data = malloc(bytes + 1);
    return *data ? load->stream->ops->copy_out(load->stream, *data, load->memory[number], bytes, error)
                 : gs_fail_memory(error);
}

gs_code gs_zoo_load_check(gs_zoo_load *load, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->instance.buffer_count && code == GS_OK; i++) {
        void *data = NULL;
        if (!load->is_changed[i] || load->instance.buffers[i].is_scratch)
            continue;
        code = fetch_buffer(load, i, &data, error);
        if (code == GS_OK && !gs_zoo_buffer_is_right(&load->instance, i, data, error))
            code = GS_E_KERNEL;
        free(data);
    }
    return code;
}

/* The results of the first pass become the expected results. */
static gs_code expect_first_pass(gs_zoo_load *load, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->instance.buffer_count && code == GS_OK; i++)
        if (load->is_changed[i] && !load->instance.buffers[i].is_scratch)
            code = fetch_buffer(load, i, &load->instance.buffers[i].expected, error);
    return code;
}

/* ---- setting up ---- */

/* Finds the buffers that the launches change: those that the reference changes at the small size. */
static void find_changed(const gs_zoo_instance *small, bool *is_changed) {
    for (size_t i = 0; i < small->buffer_count; i++) {
        const gs_zoo_buffer *buffer = &small->buffers[i];
        size_t bytes = buffer->count * gs_scalar_bytes(buffer->type);
        is_changed[i] = buffer->is_scratch || memcmp(buffer->data, buffer->expected, bytes) != 0;
    }
}

/* Loads the kernel; the first module also has the one that restores buffers. */
static gs_code load_kind(gs_zoo_load *load, size_t kind, gs_error *error) {
    const gs_zoo_kind *requested = &load->instance.kinds[kind];
    char name[100], symbol[GS_JOB_NAME];
    const char *kernels[] = {symbol, "restore"};
    gs_text whole = {0};
    gs_code code = gs_zoo_ptx(requested, &whole, symbol, error);
    snprintf(name, sizeof name, "%s.ptx", requested->source);
    if (kind == 0)
        gs_text_put(&whole, restore_text, sizeof restore_text - 1);
    gs_build build = {
        .name = name, .text = whole.data, .size = whole.count, .kernels = kernels, .kernel_count = kind == 0 ? 2 : 1};
    if (code == GS_OK)
        code = whole.failed ? gs_fail_memory(error)
                            : load->stream->ops->load(load->stream, &build, &load->modules[kind], error);
    gs_text_free(&whole);
    return code;
}

static gs_code load_kinds(gs_zoo_load *load, gs_error *error) {
    int64_t began_ns = gs_now_ns();
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->instance.kind_count && code == GS_OK; i++)
        code = load_kind(load, i, error);
    load->compile_ns = gs_now_ns() - began_ns;
    return code;
}

static gs_code send_buffers(gs_zoo_load *load, gs_error *error) {
    const gs_app_stream_ops *ops = load->stream->ops;
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->instance.buffer_count && code == GS_OK; i++) {
        const gs_zoo_buffer *buffer = &load->instance.buffers[i];
        size_t bytes = words_of(buffer) * WORD;
        code = ops->allocate(load->stream, bytes, &load->memory[i], error);
        if (code == GS_OK && !starts_as_zeros(buffer))
            code = ops->copy_in(load->stream, load->memory[i], buffer->data,
                                buffer->count * gs_scalar_bytes(buffer->type), error);
        if (code == GS_OK && load->is_changed[i])
            code = ops->allocate(load->stream, bytes, &load->saved[i], error);
        if (code == GS_OK && load->is_changed[i])
            code = copy_buffer(load, i, load->saved[i], load->memory[i], error);
    }
    return code;
}

/* Compares the same kernels with the reference at the small size. */
static gs_code check_small(const gs_zoo_load *load, const gs_zoo_instance *small, gs_error *error) {
    gs_zoo_load checked = *load;
    gs_zoo_round round;
    checked.instance = *small;
    gs_code code = send_buffers(&checked, error);
    if (code == GS_OK)
        code = gs_zoo_load_round(&checked, 2, &round, error);
    return code == GS_OK ? gs_zoo_load_check(&checked, error) : code;
}

/* Runs the first pass, and one more to measure it. */
static gs_code warm_up(gs_zoo_load *load, gs_error *error) {
    gs_zoo_round round;
    gs_code code = gs_zoo_load_round(load, 1, &round, error);
    if (code == GS_OK && gs_zoo_size_is_large(load->instance.size))
        code = expect_first_pass(load, error);
    if (code == GS_OK)
        code = gs_zoo_load_round(load, 1, &round, error);
    load->pass_ns = round.ended_ns - round.began_ns;
    return code;
}

gs_code gs_zoo_load_open(gs_zoo_load *load, const gs_zoo_kernel *kernel, const gs_zoo_size *size, gs_app_stream *stream,
                         gs_error *error) {
    int64_t began_ns = gs_now_ns();
    gs_zoo_instance small;
    *load = (gs_zoo_load){.stream = stream, .ahead = MOST_AHEAD};
    gs_code code = gs_zoo_instance_make(&small, kernel, gs_zoo_size_find(kernel, "small"), error);
    if (code != GS_OK)
        return code;
    find_changed(&small, load->is_changed);
    code = gs_zoo_instance_make(&load->instance, kernel, size, error);
    if (code == GS_OK)
        code = load_kinds(load, error);
    if (code == GS_OK && gs_zoo_size_is_large(size))
        code = check_small(load, &small, error);
    if (code == GS_OK)
        code = send_buffers(load, error);
    if (code == GS_OK)
        code = warm_up(load, error);
    gs_zoo_instance_free(&small);
    load->setup_ns = gs_now_ns() - began_ns;
    return code;
}

void gs_zoo_load_close(gs_zoo_load *load) {
    gs_zoo_instance_free(&load->instance);
}

/* ---- the cost of a launch ---- */

static gs_code launch_and_wait(gs_app_stream *stream, const gs_app_launch *call, uint32_t count, int64_t *times_ns,
                               gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < count && code == GS_OK; i++) {
        int64_t began_ns = gs_now_ns();
        code = stream->ops->launch(stream, call, error);
        if (code == GS_OK)
            code = stream->ops->wait(stream, error);
        times_ns[i] = gs_now_ns() - began_ns;
    }
    qsort(times_ns, count, sizeof *times_ns, gs_compare_int64);
    return code;
}

static gs_code launch_many(gs_app_stream *stream, const gs_app_launch *call, uint32_t count, int64_t *elapsed_ns,
                           gs_error *error) {
    int64_t began_ns = gs_now_ns();
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < count && code == GS_OK; i++)
        code = stream->ops->launch(stream, call, error);
    if (code == GS_OK)
        code = stream->ops->wait(stream, error);
    *elapsed_ns = gs_now_ns() - began_ns;
    return code;
}

gs_code gs_zoo_launch_cost(gs_app_stream *stream, uint32_t count, gs_zoo_launch_times *times, gs_error *error) {
    static const char text[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() {\n\tret;\n}\n";
    const char *kernels[] = {"nothing"};
    gs_build build = {
        .name = "nothing.ptx", .text = text, .size = sizeof text - 1, .kernels = kernels, .kernel_count = 1};
    gs_app_launch call = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    int64_t *waited_ns = calloc(count, sizeof *waited_ns), elapsed_ns = 0;
    gs_code code = waited_ns ? stream->ops->load(stream, &build, &call.module, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = launch_many(stream, &call, count, &elapsed_ns, error); /* to warm up */
    if (code == GS_OK)
        code = launch_and_wait(stream, &call, count, waited_ns, error);
    if (code == GS_OK)
        code = launch_many(stream, &call, count, &elapsed_ns, error);
    if (code == GS_OK)
        *times = (gs_zoo_launch_times){.waited_ns = waited_ns[count / 2],
                                       .waited_most_ns = waited_ns[count - 1 - count / 100],
                                       .pipelined_ns = (double)elapsed_ns / count};
    free(waited_ns);
    return code;
}
