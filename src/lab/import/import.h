/*
 * import.h: reads the traces of other tools as runs: the PyTorch profiler, Nsight Systems, cuobjdump, ptxas (import.c).
 *
 * kineto.c (with json_scan.c), nsys.c and compiler_output.c read one kind of file each; collect.c makes runs of them.
 *
 * A run holds the launches and copies of one GPU. Keys that a tool does not record are listed in `lacks` of the run's
 * origin, and can be supplied by the user or by a recording of the same program (supply.c).
 */
#ifndef GS_IMPORT_H
#define GS_IMPORT_H

#include "model/run/run.h"

/* ---- importing ---- */

typedef struct gs_import_options {
    int64_t device;              /* only this GPU; GS_NOT_GIVEN: all */
    const char *const *settings; /* "PATTERN:KEY=VALUE,...": values for the kernels whose names match */
    size_t setting_count;
    const char *with; /* a recording of the same program with the missing keys, or NULL */
    bool needs_run;   /* the caller also reads recordings, and has no use for the kernels of a compiler */
} gs_import_options;

/* A kernel with known resources, but without a launch. */
typedef struct gs_kernel_entry {
    char *name, *architecture;
    int32_t registers;
    int64_t shared_bytes, local_bytes;
    bool stack_is_unknown; /* and not in local_bytes */
} gs_kernel_entry;

typedef struct gs_kernel_list {
    gs_kernel_entry *data;
    size_t count, capacity;
} gs_kernel_list;

/* The contents of a file: runs, or kernels. Zero it before the first import. */
typedef struct gs_imported {
    gs_run **data;
    size_t count, capacity;
    gs_kernel_list kernels;
    gs_text notes; /* notes for the user, a line each */
} gs_imported;

/* Reads a trace of any known kind and appends its contents. */
gs_code gs_import(const char *path, const gs_import_options *options, gs_imported *imported, gs_error *error);
/* The same for the bytes of a file, which must not be a database. */
gs_code gs_import_bytes(const char *name, const char *bytes, size_t count, const gs_import_options *options,
                        gs_imported *imported, gs_error *error);
/* Checks, after the last import, that every setting had an effect: a pattern that matches no kernel is an error. */
gs_code gs_import_finish(const gs_import_options *options, const gs_imported *imported, gs_error *error);
void gs_imported_free(gs_imported *imported);

/* Keeps the kernels that a GPU of this compute capability (90 for 9.0) would run: of each name the newest that it can.
   Sets `*removed` to the number of the others. */
gs_code gs_kernels_keep(gs_kernel_list *kernels, int architecture, size_t *removed, gs_error *error);

/* A run with a launch of each kernel whose blocks and threads are in the settings; NULL: none, or an error. Sets
   `*left_out` to the number of other kernels. A kernel that is there for several architectures is an error. */
gs_run *gs_kernels_run(const gs_kernel_list *kernels, const gs_import_options *options, size_t *left_out,
                       gs_error *error);

#endif
