/*
 * engine_cuda.c: a GPU, for the device process.
 */
#include "engine_device.h"

static void *cuda_open(gs_side *side, const gs_engine_options *options, gs_engine_facts *facts, gs_error *error) {
    (void)side, (void)options, (void)facts;
    gs_fail(error, GS_E_NO_GPU, "not yet");
    return NULL;
}

const gs_device_kind gs_device_kind_cuda = {.open = cuda_open};
