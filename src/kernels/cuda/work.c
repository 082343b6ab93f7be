/*
 * work.c: builds work: buffers and calls of kernels, to run on a GPU or on the CPU.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

int32_t gs_work_buffer(gs_work *work, void *data, size_t bytes) {
    if (!GS_RESERVE(&work->buffers, 1)) {
        work->failed = true;
        return -1;
    }
    work->buffers.data[work->buffers.count] = (struct gs_work_buffer){.data = data, .bytes = bytes};
    return (int32_t)work->buffers.count++;
}

gs_job_call *gs_work_call(gs_work *work, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
                          size_t shared_bytes) {
    static gs_job_call nowhere;
    if (!GS_RESERVE(&work->calls, 1) || strlen(kernel) >= sizeof nowhere.kernel) {
        work->failed = true;
        return &nowhere;
    }
    gs_job_call *call = &work->calls.data[work->calls.count++];
    *call = (gs_job_call){.shared_bytes = shared_bytes, .counts = -1, .first = (uint32_t)work->arguments.count};
    memcpy(call->kernel, kernel, strlen(kernel) + 1);
    memcpy(call->grid, grid, sizeof call->grid);
    memcpy(call->block, block, sizeof call->block);
    return call;
}

static void pass(gs_work *work, int32_t buffer, const void *value, size_t bytes) {
    if (!GS_RESERVE(&work->arguments, 1) || !work->calls.count || bytes > GS_JOB_VALUE) {
        work->failed = true;
        return;
    }
    gs_job_argument *argument = &work->arguments.data[work->arguments.count++];
    *argument = (gs_job_argument){.buffer = buffer, .bytes = (uint32_t)bytes};
    if (bytes)
        memcpy(argument->value, value, bytes);
    work->calls.data[work->calls.count - 1].arguments++;
}

void gs_work_pass_buffer(gs_work *work, int32_t buffer) {
    pass(work, buffer, NULL, 0);
}

void gs_work_pass(gs_work *work, const void *value, size_t bytes) {
    pass(work, -1, value, bytes);
}

void gs_work_free(gs_work *work) {
    free(work->calls.data);
    free(work->arguments.data);
    free(work->buffers.data);
    *work = (gs_work){0};
}

void gs_executor_close(gs_executor *executor) {
    if (executor)
        executor->ops->close(executor);
}

bool gs_build_is_ptx(const gs_build *build) {
    size_t at = 0;
    for (;;) {
        while (at < build->size && strchr(" \t\r\n", build->text[at]) && build->text[at])
            at++;
        if (at + 1 < build->size && build->text[at] == '/' && build->text[at + 1] == '/') {
            while (at < build->size && build->text[at] != '\n')
                at++;
        } else if (at + 1 < build->size && build->text[at] == '/' && build->text[at + 1] == '*') {
            for (at += 2; at + 1 < build->size && (build->text[at] != '*' || build->text[at + 1] != '/'); at++)
                ;
            at += 2;
        } else {
            break;
        }
    }
    static const char word[] = ".version";
    return at + sizeof word - 1 < build->size && memcmp(build->text + at, word, sizeof word - 1) == 0;
}
