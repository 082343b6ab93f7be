/*
 * context.c: makes a GPU, or a part of one, the current context, by the part of its name after "cuda:".
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* The number of a GPU and, optionally, how many SMs to use and which part of that size. */
struct place {
    int number, sms, part;
};

static bool parse_place(const char *rest, struct place *place) {
    int end = 0;
    *place = (struct place){0};
    if (sscanf(rest, "%5d%n", &place->number, &end) == 1 && !rest[end])
        return true;
    end = 0;
    if (sscanf(rest, "%5d,sms=%5d%n", &place->number, &place->sms, &end) == 2 && end && !rest[end])
        return place->sms > 0;
    end = 0;
    return sscanf(rest, "%5d,sms=%5d,part=%5d%n", &place->number, &place->sms, &place->part, &end) == 3 && end &&
           !rest[end] && place->sms > 0 && place->part >= 0;
}

bool gs_cuda_is_device(const char *name) {
    struct place place;
    if (strncmp(name, "cuda", 4) != 0)
        return false;
    return !name[4] || (name[4] == ':' && parse_place(name + 5, &place) && place.number >= 0);
}

/* As the driver reads it: 1 to 32. */
int32_t gs_cuda_connections(void) {
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    long value = text ? strtol(text, NULL, 10) : 0;
    return value < 1 ? 8 : value > 32 ? 32 : (int32_t)value;
}

int gs_cuda_architecture(int most) {
    cu_api api;
    int device, major = 0, minor = 0;
    if (gs_cuda_open(&api, NULL) == GS_OK && api.init(0) == 0 && api.device_get(&device, 0) == 0) {
        api.device_attribute(&major, CU_DEVICE_MAJOR, device);
        api.device_attribute(&minor, CU_DEVICE_MINOR, device);
    }
    gs_cuda_close(&api);
    return major > 0 ? (int)gs_min(major * 10 + minor, most) : most;
}

gs_code gs_cuda_open_gpu(const cu_api *api, const char *rest, int *device, bool *has_context, gs_error *error) {
    int count = 0;
    cu_context context;
    struct place place;
    const char *text = rest[0] ? rest : "0";
    bool is_place = parse_place(text, &place);
    /* With more streams than hardware queues, streams share queues, and launches wait for those of other streams. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    gs_code code = gs_cuda_check(api, api->init(0), "starting CUDA", error);
    if (code == GS_OK)
        code = gs_cuda_check(api, api->device_count(&count), "counting GPUs", error);
    if (code == GS_OK && (!is_place || place.number < 0 || place.number >= count))
        code = gs_fail(error, GS_E_NO_GPU, "there is no GPU \"%.20s\": CUDA sees %d", text, count);
    if (code == GS_OK)
        code = gs_cuda_check(api, api->device_get(device, place.number), "opening the GPU", error);
    if (code == GS_OK)
        code = gs_cuda_check(api, api->context_retain(&context, *device), "making a context", error);
    if (code != GS_OK)
        return code;
    *has_context = true;
    if (place.sms)
        code = gs_cuda_green(api, *device, place.sms, place.part, &context, error);
    return code == GS_OK ? gs_cuda_check(api, api->context_set(context), "using the context", error) : code;
}
