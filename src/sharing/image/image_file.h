/*
 * image_file.h: writing and verifying images, and the protocol between the daemon and a compiler process, private to
 * this room. See image_file.c, compilation.c and compiler.c.
 */
#ifndef GS_IMAGE_FILE_H
#define GS_IMAGE_FILE_H

#include "dependencies.h"
#include "image.h"

/* An image under construction. */
typedef struct gs_image_made {
    gs_image_stored kernels[GS_IMAGE_KERNELS];
    size_t kernel_count;
    gs_text parts[GS_IMAGE_KERNELS];
    size_t part_count;
    uint64_t device_bytes; /* see gs_image */
} gs_image_made;

/* GS_E_KERNEL: it is larger than `most_mb`. */
gs_code gs_image_write(const char *path, const gs_image_made *made, const gs_dependencies *dependencies,
                       uint32_t most_mb, gs_error *error);

/* The part of the file before the parts. */
typedef struct gs_image_front {
    char *bytes;
    const gs_image_stored *kernels;
    size_t kernel_count;
    uint64_t device_bytes;
    const gs_dependency *dependencies;
    size_t dependency_count;
    const char *paths; /* of the dependencies */
} gs_image_front;

/* Adds the bytes of a file from `at` to `end` to a digest. False: they cannot be read. */
bool gs_image_digest(gs_digest *hash, int fd, uint64_t at, uint64_t end);

/* Checks every byte of a file by its hash. The caller frees the front. */
gs_code gs_image_verify(int fd, gs_image_front *front, gs_error *error);
void gs_image_front_free(gs_image_front *front);

/* ---- the compiler process ---- */

/* Inherited descriptors: the source, and memory shared with the daemon. */
enum { GS_COMPILER_SOURCE = 3, GS_COMPILER_SHARED };

typedef struct gs_compiler_shared {
    /* The request. */
    uint64_t bytes; /* of the source */
    uint32_t option_count, kernel_count;
    int32_t architecture;
    uint32_t counts_blocks, has_others;
    gs_compiler_limits limits;
    /* The answer. */
    uint32_t is_done;   /* 0: it ended before it could answer */
    uint32_t is_stable; /* the image can be kept: its dependencies are known, and are unchanged */
    gs_code code;
    gs_error error;
} gs_compiler_shared;

#endif
