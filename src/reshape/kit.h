/* kit.h: the files of host/, compiled in: what kernels that run on the CPU are compiled with. The build makes kit.c. */
#ifndef GS_KIT_H
#define GS_KIT_H

#include <stddef.h>

typedef struct gs_kit_file {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} gs_kit_file;

extern const gs_kit_file gs_kit_files[];
extern const size_t gs_kit_file_count;

#endif
