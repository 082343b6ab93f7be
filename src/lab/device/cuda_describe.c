/*
 * cuda_describe.c: the description of a GPU that is there: a built-in one, or one made of what the driver reports.
 *
 * The driver reports limits and no mechanisms. So the built-in descriptions come first, and a GPU that has none gets
 * the mechanisms of the paper.
 */
#include "cuda_device.h"

#include <string.h>

/* Of the configurations of the shared memory the driver reports only the largest. */
static void write_limits(gs_writer *writer, const struct cuda *cuda) {
    gs_write_object(writer, "limits");
    gs_write_int(writer, "blocks_per_sm", cuda_attribute(cuda, CU_DEVICE_BLOCKS_PER_SM));
    gs_write_int(writer, "threads_per_sm", cuda_attribute(cuda, CU_DEVICE_THREADS_PER_SM));
    gs_write_int(writer, "threads_per_block", cuda_attribute(cuda, CU_DEVICE_THREADS_PER_BLOCK));
    gs_write_int(writer, "warp_threads", cuda_attribute(cuda, CU_DEVICE_WARP));
    gs_write_int(writer, "partitions_per_sm", 4);
    gs_write_int(writer, "registers_per_sm", cuda_attribute(cuda, CU_DEVICE_REGISTERS_PER_SM));
    gs_write_int(writer, "registers_per_thread", 255);
    gs_write_int(writer, "register_granularity", 256);
    gs_write_int(writer, "shared_per_block_bytes", cuda_attribute(cuda, CU_DEVICE_SHARED_OPTIN));
    gs_write_int(writer, "shared_granularity_bytes", 128);
    gs_write_int(writer, "shared_reserved_bytes", cuda_attribute(cuda, CU_DEVICE_SHARED_RESERVED));
    gs_write_array(writer, "shared_configurations_bytes");
    gs_write_int(writer, NULL, cuda_attribute(cuda, CU_DEVICE_SHARED_PER_SM));
    gs_write_end(writer);
    gs_write_end(writer);
}

/* A description for a GPU that has none: limits from the driver, mechanisms of the paper. */
static gs_gpu *describe_by_driver(const struct cuda *cuda, const char *title, gs_error *error) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    char name[24], capability[24];
    snprintf(name, sizeof name, "cuda%d", cuda->device);
    snprintf(capability, sizeof capability, "%d.%d", cuda_attribute(cuda, CU_DEVICE_MAJOR),
             cuda_attribute(cuda, CU_DEVICE_MINOR));
    gs_write_document(&writer, "gridsmith.gpu/1");
    gs_write_string(&writer, "name", name);
    gs_write_string(&writer, "title", title);
    gs_write_string(&writer, "compute_capability", capability);
    gs_write_string(&writer, "source", "limits: the driver; mechanisms: not measured");
    gs_write_string(&writer, "assumed", "limits from the driver, mechanisms assumed");
    gs_write_object(&writer, "topology");
    gs_write_int(&writer, "sms", cuda_attribute(cuda, CU_DEVICE_SMS));
    gs_write_int(&writer, "sms_per_tpc", 2);
    gs_write_end(&writer);
    write_limits(&writer, cuda);
    gs_write_finish(&writer);
    gs_input *input = text.failed ? NULL : gs_input_memory("the driver", text.data, text.count, error);
    gs_gpu *gpu = input ? gs_gpu_read(input, error) : NULL;
    gs_input_close(input);
    gs_text_free(&text);
    return gpu;
}

/* The built-in description of a GPU of this name and size: of this very GPU, or else the one with the shortest name, as
   descriptions of single GPUs have longer ones. NULL: there is none. */
static gs_gpu *find_builtin(const struct cuda *cuda, const char *title, int32_t sms) {
    char uuid[48] = "", driver[24] = "";
    gs_gpu *best = NULL;
    gs_cuda_name_gpu(&cuda->api, cuda->device, uuid, sizeof uuid, driver, sizeof driver);
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
        bool is_model = gpu && gpu->sms == sms && gs_gpu_is_called(gpu, title, sms);
        bool is_this = is_model && gpu->uuid && strcmp(gpu->uuid, uuid) == 0;
        if (is_this || (is_model && (!best || strlen(gpu->name) < strlen(best->name)))) {
            gs_gpu_free(best);
            best = gpu;
        } else {
            gs_gpu_free(gpu);
        }
        if (is_this)
            break;
    }
    return best;
}

/* Whether the limits that the driver reports are these. */
static bool has_limits(const struct cuda *cuda, const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", cuda_attribute(cuda, CU_DEVICE_MAJOR),
             cuda_attribute(cuda, CU_DEVICE_MINOR));
    return gpu->compute_capability && strcmp(gpu->compute_capability, capability) == 0 &&
           limits->blocks_per_sm == cuda_attribute(cuda, CU_DEVICE_BLOCKS_PER_SM) &&
           limits->threads_per_sm == cuda_attribute(cuda, CU_DEVICE_THREADS_PER_SM) &&
           limits->registers_per_sm == cuda_attribute(cuda, CU_DEVICE_REGISTERS_PER_SM) &&
           limits->shared_per_block_bytes == cuda_attribute(cuda, CU_DEVICE_SHARED_OPTIN) &&
           limits->shared_reserved_bytes == cuda_attribute(cuda, CU_DEVICE_SHARED_RESERVED) &&
           gpu->largest_config_bytes == cuda_attribute(cuda, CU_DEVICE_SHARED_PER_SM);
}

/* The driver does not report the configurations of the shared memory. GPUs of one compute capability have the same. */
static void take_configurations(const struct cuda *cuda, gs_gpu *gpu) {
    bool found = false;
    for (size_t i = 0; gs_gpu_builtin(i) && !found; i++) {
        gs_gpu *like = gs_gpu_open(gs_gpu_builtin(i), NULL);
        found = like && has_limits(cuda, like);
        if (found)
            gpu->limits = like->limits;
        gs_gpu_free(like);
    }
}

/* A built-in description, or one from the driver. */
gs_gpu *gs_cuda_device_describe(const struct cuda *cuda, gs_error *error) {
    char title[128] = "";
    cuda->api.device_name(title, sizeof title, cuda->device);
    gs_gpu *gpu = find_builtin(cuda, title, cuda_attribute(cuda, CU_DEVICE_SMS));
    if (gpu)
        return gpu;
    gpu = describe_by_driver(cuda, title, error);
    if (gpu)
        take_configurations(cuda, gpu);
    return gpu;
}
