/* host_runtime.h: the files of src/kernels/cpu/runtime/, compiled into the library. Kernels that run on the CPU are
   compiled with them. The build generates host_runtime.c. */
#ifndef GS_HOST_RUNTIME_H
#define GS_HOST_RUNTIME_H

#include <stddef.h>

typedef struct gs_host_runtime_file {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} gs_host_runtime_file;

extern const gs_host_runtime_file gs_host_runtime_files[];
extern const size_t gs_host_runtime_file_count;

/* The C files among them, compiled: "run0.o"; the number is a kind of module (host.c). */
extern const gs_host_runtime_file gs_host_objects[];
extern const size_t gs_host_object_count;

#endif
