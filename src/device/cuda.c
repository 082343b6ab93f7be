/*
 * cuda.c: a real GPU.
 */
#include "device.h"

gs_device *gs_device_open_cuda(const char *rest, gs_error *error) {
    (void)rest;
    gs_fail(error, GS_E_NO_GPU, "no NVIDIA driver (libcuda.so.1) was found");
    return NULL;
}
