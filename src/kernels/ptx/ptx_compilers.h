/*
 * ptx_compilers.h: the compilers from CUDA to PTX. For this room only.
 */
#ifndef GS_PTX_COMPILERS_H
#define GS_PTX_COMPILERS_H

#include "ptx_input.h"

typedef enum gs_ptx_attempt {
    GS_PTX_COMPILED,
    GS_PTX_NO_COMPILER, /* not installed */
    GS_PTX_REFUSED,     /* `error` says why */
} gs_ptx_attempt;

typedef struct gs_ptx_compiler {
    const char *name;
    /* Compiles the text of the request, with added lines that instantiate templates. */
    gs_ptx_attempt (*compile)(const gs_ptx_source_request *request, const char *text, gs_ptx_compiled *compiled,
                              gs_error *error);
    bool has_names; /* instantiates templates and reports their symbols without such lines */
} gs_ptx_compiler;

/* In the order in which they are tried. */
extern const gs_ptx_compiler gs_ptx_compilers[];
extern const size_t gs_ptx_compiler_count;

/* gridsmith_device.h, compiled into the program. clang compiles CUDA sources with it. */
extern const gs_embedded_files gs_device_headers;

#endif
