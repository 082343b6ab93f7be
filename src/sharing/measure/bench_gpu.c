/*
 * bench_gpu.c: a GPU for measurements: a compiler, two streams, and kernels that copy and compare memory.
 *
 * The compiler and the streams use the same context, the primary one of the GPU, so a module of the one can be launched
 * on the others.
 */
#include "subject.h"

#include <stdlib.h>

/* copy(to, from, words), and differ(a, b, words, counter): each thread has a word. */
#define TOOL(name, parameters, registers, body)                                                                        \
    ".visible .entry " name "(" parameters ") {\n"                                                                     \
    "\t.reg .pred %p;\n\t.reg .b32 %i, %b, %n, %v, %w;\n\t.reg .b64 %x, %y, %at" registers ";\n"                       \
    "\tmov.u32 %i, %tid.x;\n\tmov.u32 %b, %ctaid.x;\n\tmov.u32 %n, %ntid.x;\n\tmad.lo.u32 %i, %b, %n, %i;\n"           \
    "\tld.param.u32 %n, [words];\n\tsetp.ge.u32 %p, %i, %n;\n\t@%p ret;\n\tmul.wide.u32 %at, %i, 4;\n"                 \
    "\tld.param.u64 %x, [first];\n\tld.param.u64 %y, [second];\n"                                                      \
    "\tcvta.to.global.u64 %x, %x;\n\tcvta.to.global.u64 %y, %y;\n"                                                     \
    "\tadd.u64 %x, %x, %at;\n\tadd.u64 %y, %y, %at;\n" body "\tret;\n}\n"

static const char tools[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n" TOOL("copy",
                                                           ".param .u64 first, .param .u64 second, .param .u32 words",
                                                           "", "\tld.global.u32 %v, [%y];\n\tst.global.u32 [%x], %v;\n")
        TOOL("differ", ".param .u64 first, .param .u64 second, .param .u32 words, .param .u64 counter", ", %c",
             "\tld.global.u32 %v, [%y];\n\tld.global.u32 %w, [%x];\n\tsetp.eq.u32 %p, %v, %w;\n\t@%p ret;\n"
             "\tld.param.u64 %c, [counter];\n\tcvta.to.global.u64 %c, %c;\n\tred.global.add.u32 [%c], 1;\n");

enum { COPY, DIFFER, THREADS = 256, WORD = 4 };

/* The name of the GPU, or "": it is not needed. */
static void find_name(gs_bench_gpu *gpu, const char *rest) {
    cu_api api;
    gs_error error;
    int device = 0;
    if (gs_cuda_open(&api, &error) != GS_OK)
        return;
    if (api.init(0) || api.device_get(&device, atoi(rest)) || api.device_name(gpu->name, sizeof gpu->name, device))
        gpu->name[0] = '\0';
    gs_cuda_close(&api);
}

gs_code gs_bench_gpu_open(gs_bench_gpu *gpu, const char *rest, gs_error *error) {
    const char *kernels[] = {"copy", "differ"};
    gs_build build = {
        .name = "tools.ptx", .text = tools, .size = sizeof tools - 1, .kernels = kernels, .kernel_count = 2};
    gs_cost cost = {.sms = 0};
    const uint32_t block[3] = {THREADS, 1, 1};
    *gpu = (gs_bench_gpu){.executor = gs_executor_cuda(rest, error)};
    for (int i = 0; i < 2 && gpu->executor; i++)
        if (!(gpu->streams[i] = gs_app_stream_cuda(rest, error)))
            return error->code;
    if (!gpu->executor)
        return error->code;
    gs_code code = gpu->streams[0]->ops->enter(gpu->streams[0], error);
    if (code != GS_OK)
        return code;
    gpu->tools = (uintptr_t)gpu->executor->ops->compile(gpu->executor, &build, error);
    if (!gpu->tools)
        return error->code;
    code = gpu->executor->ops->cost((void *)gpu->tools, "copy", block, 0, &cost, error);
    gpu->sms = cost.sms;
    find_name(gpu, rest);
    return code == GS_OK ? gpu->streams[0]->ops->allocate(gpu->streams[0], WORD, &gpu->counter, error) : code;
}

static gs_code start_tool(gs_bench_gpu *gpu, gs_app_stream *stream, uint32_t tool, uint64_t first, uint64_t second,
                          size_t bytes, gs_error *error) {
    const uint64_t buffers[] = {first, second, gpu->counter};
    uint32_t words = (uint32_t)gs_divide_up((int64_t)bytes, WORD);
    gs_job_argument arguments[] = {{.buffer = 0}, {.buffer = 1}, {.buffer = -1, .bytes = sizeof words}, {.buffer = 2}};
    memcpy(arguments[2].value, &words, sizeof words);
    gs_app_launch call = {.module = gpu->tools,
                          .kernel = tool,
                          .grid = {(uint32_t)gs_divide_up(words, THREADS), 1, 1},
                          .block = {THREADS, 1, 1},
                          .arguments = arguments,
                          .argument_count = tool == COPY ? 3 : 4,
                          .buffers = buffers};
    return words ? stream->ops->launch(stream, &call, error) : GS_OK;
}

static gs_code run_tool(gs_bench_gpu *gpu, uint32_t tool, uint64_t first, uint64_t second, size_t bytes,
                        gs_error *error) {
    gs_code code = start_tool(gpu, gpu->streams[0], tool, first, second, bytes, error);
    return code == GS_OK ? gpu->streams[0]->ops->wait(gpu->streams[0], error) : code;
}

gs_code gs_bench_copy_later(gs_bench_gpu *gpu, gs_app_stream *stream, uint64_t to, uint64_t from, size_t bytes,
                            gs_error *error) {
    return start_tool(gpu, stream, COPY, to, from, bytes, error);
}

gs_code gs_bench_copy(gs_bench_gpu *gpu, uint64_t to, uint64_t from, size_t bytes, gs_error *error) {
    return run_tool(gpu, COPY, to, from, bytes, error);
}

gs_code gs_bench_differ(gs_bench_gpu *gpu, uint64_t a, uint64_t b, size_t bytes, uint64_t *words, gs_error *error) {
    gs_app_stream *stream = gpu->streams[0];
    uint32_t count = 0;
    gs_code code = stream->ops->copy_in(stream, gpu->counter, &count, sizeof count, error);
    if (code == GS_OK)
        code = run_tool(gpu, DIFFER, a, b, bytes, error);
    if (code == GS_OK)
        code = stream->ops->copy_out(stream, &count, gpu->counter, sizeof count, error);
    *words = count;
    return code;
}
