/*
 * image_file.h: writing images, and what the daemon tells a compiler process, for this room alone. See image_file.c,
 * image.c and compile.c.
 */
#ifndef GS_IMAGE_FILE_H
#define GS_IMAGE_FILE_H

#include "image.h"

/* An image that is put together. */
typedef struct gs_image_made {
    gs_image_stored kernels[GS_IMAGE_KERNELS];
    size_t kernel_count;
    gs_text parts[3 * GS_IMAGE_KERNELS + 1];
    size_t part_count;
} gs_image_made;

gs_code gs_image_write(const char *path, const gs_image_made *made, gs_error *error);

/* ---- the compiler process ---- */

/* Descriptors that it inherits: the request as a file, the answer as shared memory. */
enum { GS_COMPILER_REQUEST = 3, GS_COMPILER_ANSWER };

/* The request: this, then the name, the text, the kernels and the options, each with a NUL behind it. */
typedef struct gs_compiler_request {
    uint64_t size; /* of the text */
    uint64_t kernel_count, option_count;
    int32_t architecture;
    uint32_t has_marks, seconds, unused;
} gs_compiler_request;

typedef struct gs_compiler_answer {
    uint32_t is_done, unused; /* 0: it was ended before it could answer */
    gs_code code;
    gs_error error;
} gs_compiler_answer;

#endif
