/* host_runtime.h: the files of src/kernels/cpu/runtime/, compiled into the library. Kernels that run on the CPU are
   compiled with them. The build generates host_runtime.c. */
#ifndef GS_HOST_RUNTIME_H
#define GS_HOST_RUNTIME_H

#include "base/base.h"

extern const gs_embedded_files gs_host_runtime_files;

/* The C files among them, compiled: "run0.o"; the number is a kind of module (host.c). */
extern const gs_embedded_files gs_host_objects;

#endif
