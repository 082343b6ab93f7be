/* device_header.h: src/kernels/ptx/gridsmith_device.h, compiled into the program. clang compiles CUDA sources with it.
   The build generates device_header.c. */
#ifndef GS_DEVICE_HEADER_H
#define GS_DEVICE_HEADER_H

#include <stddef.h>

typedef struct gs_device_header {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} gs_device_header;

extern const gs_device_header gs_device_headers[];
extern const size_t gs_device_header_count;

#endif
