/*
 * import.h: reads the traces of other tools as runs: the PyTorch profiler, Nsight Systems, cuobjdump, ptxas (import.c).
 *
 * A run holds the launches and copies of one GPU. What a tool does not record is named in `lacks` of the run's origin,
 * and can be supplied by the user or by a recording of the same program (supply.c).
 */
#ifndef GS_IMPORT_H
#define GS_IMPORT_H

#include "model/run/run.h"

/* ---- importing ---- */

typedef struct gs_import_options {
    int64_t device;              /* only this GPU; GS_NOT_GIVEN: all */
    const char *const *settings; /* "PATTERN:KEY=VALUE,...": values for the kernels whose names match */
    size_t setting_count;
    const char *with; /* a recording of the same program that knows more, or NULL */
} gs_import_options;

/* A kernel of which only the resources are known, not how it is launched. */
typedef struct gs_kernel_entry {
    char *name, *architecture;
    int32_t registers;
    int64_t shared_bytes, local_bytes;
} gs_kernel_entry;

typedef struct gs_kernel_list {
    gs_kernel_entry *data;
    size_t count, capacity;
} gs_kernel_list;

/* What a file holds: runs, or kernels. Zero it before the first import. */
typedef struct gs_imported {
    gs_run **data;
    size_t count, capacity;
    gs_kernel_list kernels;
    gs_text notes; /* what the user should know, a line each */
} gs_imported;

/* Reads a trace of any known kind and appends what it holds. */
gs_code gs_import(const char *path, const gs_import_options *options, gs_imported *imported, gs_error *error);
/* The same for the bytes of a file, which must not be a database. */
gs_code gs_import_bytes(const char *name, const char *bytes, size_t count, const gs_import_options *options,
                        gs_imported *imported, gs_error *error);
void gs_imported_free(gs_imported *imported);

/* A run with a launch of each kernel for which the settings give blocks and threads; NULL: there is none, or an error.
   Sets `*left_out` to how many kernels are not in it. */
gs_run *gs_kernels_run(const gs_kernel_list *kernels, const gs_import_options *options, size_t *left_out,
                       gs_error *error);

#endif
