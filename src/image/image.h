/*
 * image.h: compiled kernels, kept on disk.
 *
 * An image is one file of the cache ($XDG_CACHE_HOME/gridsmith, or ~/.cache/gridsmith). It has the kernels of one
 * source, each as it was written and, where `reshape` accepts it, confined. Its name is a hash of everything that it
 * depends on: source, options, kernels, GPU architecture, program. Compilers may crash, hang or take long, so each
 * compilation is a process of its own, with a time limit; the daemon starts it, watches a descriptor and picks up the
 * result:
 *
 *     gs_compilation *compilation = gs_image_start(&request, &error);
 *     ... when gs_image_fd(compilation) is readable, at once for an image that is in the cache:
 *     gs_image *image = gs_image_finish(compilation, &error);      // NULL: the error says why, for the client
 */
#ifndef GS_IMAGE_H
#define GS_IMAGE_H

#include "base/base.h"

#include <gridsmith_job.h>

enum { GS_IMAGE_KERNELS = 64, GS_IMAGE_PATH = 1024, GS_IMAGE_CACHE_BYTES = 512 << 20 };

typedef struct gs_image_request {
    const char *program; /* as in gs_worker_options */
    const char *folder;  /* of the cache; NULL: the user's */
    const char *name;    /* of the source, for errors */
    const char *text;
    size_t size;
    const char *const *kernels; /* with template arguments where they have some: "reduce<256>"; */
    size_t kernel_count;        /* 0: all kernels of the source that are not templates */
    const char *const *options; /* "-DNAME=VALUE"; others are refused */
    size_t option_count;
    int32_t architecture; /* gs_worker_facts; 0: for the CPU */
    bool has_marks;       /* confined kernels count blocks: see gs_worker_options.checks_marks */
    uint32_t seconds;     /* the compiler is stopped after so many; 0: 120 */
} gs_image_request;

typedef struct gs_image_kernel {
    char name[GS_JOB_NAME]; /* as it was requested, or as it stands in the source */
    bool can_be_confined;
    char refusal[200]; /* else: why not */
} gs_image_kernel;

typedef struct gs_image {
    char path[GS_IMAGE_PATH];
    char key[65]; /* its hash in hexadecimal: the same source gives the same, also in a later daemon */
    size_t kernel_count;
    bool was_cached;
    gs_image_kernel kernels[];
} gs_image;

typedef struct gs_compilation gs_compilation;

/* Looks into the cache, or starts a compiler. The request is not needed after the call. */
gs_compilation *gs_image_start(const gs_image_request *request, gs_error *error);
/* Readable: it is done, or was stopped. */
int gs_image_fd(const gs_compilation *compilation);
/* The image, which the caller frees. Waits if it is not done. Frees the compilation. GS_E_KERNEL: mistakes in the
 * source.
 */
gs_image *gs_image_finish(gs_compilation *compilation, gs_error *error);
/* Kills the compiler and frees the compilation. */
void gs_image_cancel(gs_compilation *compilation);

/* The number of a kernel, or -1. */
int gs_image_find(const gs_image *image, const char *kernel);
void gs_image_free(gs_image *image);

/* ---- the file, for the worker ---- */

enum { GS_IMAGE_SYMBOL = 1024 };
#define GS_IMAGE_NO_PART UINT32_MAX

/* A kernel in one of the parts of the file; each part is what a driver, or dlopen, loads. */
typedef struct gs_image_entry {
    uint32_t part; /* or GS_IMAGE_NO_PART: there is none */
    char symbol[GS_IMAGE_SYMBOL];
} gs_image_entry;

typedef struct gs_image_stored {
    _Alignas(uint64_t) gs_image_kernel kernel; /* after a list of these come the parts */
    gs_image_entry original, confined;
} gs_image_stored;

typedef struct gs_image_file {
    char *bytes; /* the whole file */
    size_t size;
    const gs_image_stored *kernels;
    size_t kernel_count, part_count;
    const struct gs_image_part { uint64_t at, bytes; } * parts;
} gs_image_file;

/* Reads a file and checks every byte of it by its hash. The caller frees what is in `file`. */
gs_code gs_image_read(const char *path, gs_image_file *file, gs_error *error);
void gs_image_file_free(gs_image_file *file);

/* ---- the compiler: a hidden subcommand of the program ---- */

#define GS_COMPILER_PROCESS "compiler-process"

/* It works on descriptors that it inherits from the daemon, and is of no use to people. Returns an exit code. */
int gs_compiler_process(int argc, char **argv);

#endif
