/*
 * kernel.c: a kernel on a GPU, from the image to the launch. See kernel.h.
 *
 * Some things must be asked of the driver before a launch: more shared memory than usual, another carve-out, clusters
 * of more than 8 blocks. A cu_kernel remembers what was granted, so that a launch that needs nothing new is one call.
 */
#include "kernel.h"

#include <limits.h>
#include <stdlib.h>

/* ---- modules ---- */

int gs_modules_load(gs_modules *modules, const cu_api *api, const void *image) {
    if (!GS_RESERVE(modules, 1))
        return CU_ERROR_MEMORY;
    int failed = api->module_load(&modules->data[modules->count], image);
    modules->count += !failed;
    return failed;
}

void gs_modules_unload(gs_modules *modules, const cu_api *api) {
    for (size_t i = 0; i < modules->count; i++)
        api->module_unload(modules->data[i]);
    free(modules->data);
    *modules = (gs_modules){.data = NULL};
}

/* ---- kernels ---- */

/* Without asking, a block may have CU_DEFAULT_SHARED_BYTES in all. */
int gs_cuda_kernel_find(const cu_api *api, cu_module module, const char *symbol, cu_kernel *kernel) {
    *kernel = (cu_kernel){.carveout_percent = INT_MIN};
    int failed = api->module_function(&kernel->function, module, symbol);
    if (!failed)
        failed = api->function_get(&kernel->registers, CU_FUNCTION_REGISTERS, kernel->function);
    if (!failed)
        failed = api->function_get(&kernel->local_bytes, CU_FUNCTION_LOCAL_BYTES, kernel->function);
    if (!failed)
        failed = api->function_get(&kernel->shared_bytes, CU_FUNCTION_SHARED_BYTES, kernel->function);
    kernel->most_shared = (uint64_t)gs_max(0, CU_DEFAULT_SHARED_BYTES - kernel->shared_bytes);
    return failed;
}

void gs_cuda_kernel_is_form(const cu_api *api, cu_kernel *kernel, size_t bytes) {
    enum { MOST_PARAMETERS = 4096 };
    uint32_t sizes[MOST_PARAMETERS], count = 0;
    gs_error ignored;
    if (kernel->function &&
        gs_cuda_parameters(api, kernel->function, MOST_PARAMETERS, sizes, &count, &ignored) == GS_OK && count &&
        sizes[count - 1] == bytes)
        kernel->form_shared = GS_JOB_SHARED;
}

int gs_cuda_kernel_allow_shared(const cu_api *api, cu_kernel *kernel, uint64_t bytes) {
    if (bytes <= kernel->most_shared)
        return 0;
    int failed = api->function_set(kernel->function, CU_FUNCTION_MAX_SHARED, (int)gs_min_u64(bytes, INT_MAX));
    if (!failed)
        kernel->most_shared = bytes;
    return failed;
}

int gs_cuda_kernel_carve(const cu_api *api, cu_kernel *kernel, int percent) {
    if (kernel->carveout_percent == percent)
        return 0;
    int failed = api->function_set(kernel->function, CU_FUNCTION_CARVEOUT, percent);
    if (!failed)
        kernel->carveout_percent = percent;
    return failed;
}

static int allow_cluster(const cu_api *api, cu_kernel *kernel, uint32_t cluster) {
    if (cluster <= CU_PORTABLE_CLUSTER || kernel->allows_large_clusters)
        return 0;
    int failed = api->function_set(kernel->function, CU_FUNCTION_NON_PORTABLE_CLUSTER, 1);
    kernel->allows_large_clusters = !failed;
    return failed;
}

int gs_cuda_kernel_fit(const cu_api *api, cu_kernel *kernel, uint32_t threads, uint64_t shared_bytes) {
    int blocks = 0;
    shared_bytes += kernel->form_shared;
    if (kernel->fit && kernel->fit_threads == threads && kernel->fit_shared == shared_bytes)
        return kernel->fit;
    if (!kernel->function || gs_cuda_kernel_allow_shared(api, kernel, shared_bytes) != 0 ||
        api->occupancy(&blocks, kernel->function, (int)threads, shared_bytes) != 0)
        return 0;
    kernel->fit_threads = threads;
    kernel->fit_shared = shared_bytes;
    return kernel->fit = blocks;
}

/* ---- launches ---- */

enum { MOST_ATTRIBUTES = 4 };

static unsigned set_attributes(const cu_call *call, cu_attribute *attributes) {
    unsigned count = 0;
    if (call->has_priority)
        attributes[count++] = (cu_attribute){.id = CU_LAUNCH_PRIORITY, .value = {.priority = call->priority}};
    if (call->cluster > 1)
        attributes[count++] = (cu_attribute){.id = CU_LAUNCH_CLUSTER, .value = {.cluster = {call->cluster, 1, 1}}};
    if (call->is_programmatic)
        attributes[count++] = (cu_attribute){.id = CU_LAUNCH_PROGRAMMATIC, .value = {.flag = 1}};
    if (call->is_cooperative)
        attributes[count++] = (cu_attribute){.id = CU_LAUNCH_COOPERATIVE, .value = {.flag = 1}};
    return count;
}

void gs_cuda_point(void **pointers, const gs_job_argument *arguments, uint32_t count, const uint64_t *buffers) {
    for (uint32_t i = 0; i < count; i++)
        pointers[i] = (void *)(uintptr_t)(arguments[i].buffer >= 0 ? (const void *)&buffers[arguments[i].buffer]
                                                                   : arguments[i].value);
}

int gs_cuda_launch(const cu_api *api, cu_kernel *kernel, const cu_call *call, void **arguments) {
    cu_attribute attributes[MOST_ATTRIBUTES];
    unsigned count = set_attributes(call, attributes);
    uint64_t shared_bytes = call->shared_bytes + kernel->form_shared;
    cu_launch config = {.grid_x = call->grid[0],
                        .grid_y = call->grid[1],
                        .grid_z = call->grid[2],
                        .block_x = call->block[0],
                        .block_y = call->block[1],
                        .block_z = call->block[2],
                        .shared_bytes = (unsigned)shared_bytes,
                        .stream = call->stream,
                        .attributes = count ? attributes : NULL,
                        .attribute_count = count};
    int failed = gs_cuda_kernel_allow_shared(api, kernel, shared_bytes);
    if (!failed)
        failed = allow_cluster(api, kernel, call->cluster);
    return failed ? failed : api->launch(&config, kernel->function, arguments, NULL);
}

int gs_cuda_wait_until(const cu_api *api, cu_stream stream, int64_t deadline_ns) {
    int state;
    while ((state = api->stream_query(stream)) == CU_ERROR_NOT_READY)
        if (deadline_ns && gs_now_ns() > deadline_ns)
            break;
    return state;
}
