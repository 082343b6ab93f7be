/*
 * open.c: opening a device by name.
 */
#include "device.h"
#include "kernels/cuda/cuda.h"

#include <string.h>

gs_device *gs_device_open(const char *name, gs_error *error) {
    static const struct {
        const char *name;
        gs_device *(*open)(const char *, gs_error *);
    } sources[] = {{"replay", gs_device_open_replay}, {"model", gs_device_open_model}};
    size_t length = strcspn(name, ":");
    if (gs_cuda_is_device(name))
        return gs_device_open_cuda(name[length] ? name + length + 1 : "", error);
    for (size_t i = 0; i < GS_COUNT(sources); i++)
        if (strlen(sources[i].name) == length && strncmp(sources[i].name, name, length) == 0)
            return sources[i].open(name[length] ? name + length + 1 : "", error);
    gs_fail(error, GS_E_USAGE, "there is no device \"%.60s\": use cuda[:N], replay:FILE or model:GPU[,MECHANISM=VALUE]",
            name);
    return NULL;
}
