/*
 * image_forms.h: the compiled forms of all kernels of a source, private to this room. See image_forms.c.
 */
#ifndef GS_IMAGE_FORMS_H
#define GS_IMAGE_FORMS_H

#include "image_file.h"
#include "kernels/cpu/cpu.h"

typedef struct gs_forms_request {
    gs_image_source *source;   /* if it names no kernels, they are found and added */
    const gs_product *product; /* the source is this product, or for the CPU its kernel; or NULL */
    const char *compiler;      /* of a CUDA source: "nvrtc" or "clang" */
    int32_t architecture;      /* 0: for the CPU */
    bool counts_blocks;
    gs_host *host; /* for the CPU; else NULL */
} gs_forms_request;

/* Compiles all forms into `made`. GS_E_KERNEL: errors in the source. Memory and threads are not freed: the process ends
   soon. */
gs_code gs_forms_compile(const gs_forms_request *request, gs_image_made *made, gs_error *error);

#endif
