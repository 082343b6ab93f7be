/* builtin.h: the descriptions of gpus/, compiled into the library. The build makes builtin.c from the files. */
#ifndef GS_BUILTIN_H
#define GS_BUILTIN_H

#include <stddef.h>

typedef struct gs_builtin_gpu {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} gs_builtin_gpu;

extern const gs_builtin_gpu gs_builtin_gpus[];
extern const size_t gs_builtin_gpu_count;

#endif
