/*
 * limits.c: the mechanisms of a described GPU with other limits: those of a simulator.
 *
 * The description with its new limits is written and read again, so it is checked as any other.
 */
#include "gpu.h"

static void change_limit(int32_t *limit, int32_t value) {
    if (value)
        *limit = value;
}

/* The largest configuration becomes `bytes`; smaller ones stay. */
static void change_shared(gs_limits *limits, int32_t bytes) {
    int32_t kept = 0;
    while (kept < limits->configs && kept < GS_MAX_CONFIGS - 1 && limits->config_bytes[kept] < bytes)
        kept++;
    limits->config_bytes[kept] = bytes;
    limits->configs = kept + 1;
    limits->shared_per_block_bytes = bytes > limits->shared_reserved_bytes ? bytes - limits->shared_reserved_bytes : 0;
}

/* What is known of the kernels of graphs is dropped: they need not fit. */
static void change_limits(gs_gpu *gpu, const gs_gpu_limits *changes) {
    gs_limits *limits = &gpu->limits;
    change_limit(&limits->blocks_per_sm, changes->blocks_per_sm);
    change_limit(&limits->threads_per_sm, changes->threads_per_sm);
    change_limit(&limits->threads_per_block, changes->threads_per_block);
    change_limit(&limits->registers_per_sm, changes->registers_per_sm);
    if (changes->shared_per_sm_bytes)
        change_shared(limits, changes->shared_per_sm_bytes);
    change_limit(&limits->shared_per_block_bytes, changes->shared_per_block_bytes);
    gpu->join = (gs_join){0};
    for (size_t i = 0; i < GS_MEMORY_KERNELS; i++)
        gpu->memory_kernels[i] = (gs_memory_kernel){0};
}

gs_gpu *gs_gpu_new(const char *like, const gs_gpu_limits *limits, gs_error *error) {
    gs_gpu *gpu = gs_gpu_open(like, error), *changed = NULL;
    bool is_part = gpu && limits->sms && limits->sms != gpu->sms;
    if (gpu)
        changed = is_part ? gs_gpu_part(gpu, limits->sms, error) : gs_gpu_copy(gpu, error);
    gs_gpu_free(gpu);
    if (!changed)
        return NULL;
    change_limits(changed, limits);
    gs_gpu *checked = gs_gpu_assume_like(changed, error) == GS_OK ? gs_gpu_copy(changed, error) : NULL;
    gs_gpu_free(changed);
    return checked;
}
