/*
 * image.h: compiled kernels, kept on disk.
 *
 * An image is one file of the cache ($XDG_CACHE_HOME/gridsmith, or ~/.cache/gridsmith). It has the kernels of one
 * source, each as written and, if `reshape` accepts it, confined. The source may also be the document of a matrix
 * product (gridsmith.product/1), which is one kernel to callers. The name of the image is a hash of the source, the
 * options, the kernels, the GPU architecture, the program and the environment of the compiler. The image lists the
 * other files that it depends on; it is used only while they are unchanged.
 *
 *   image_source.c    a source as clients send it
 *   image_file.c      the file of an image
 *   include_scan.c    the names that a text includes
 *   include_macro.c   names that macros put together
 *   dependencies.c    the files that a source depends on
 *   include_search.c  the include folders of a compiler
 *   sandbox.c         restrictions of a compiler: limits, files, system calls
 *   image_forms.c     the forms of all kernels of a source
 *   compiler.c        the compiler process
 *   cache.c           the folder: look-up, new images, removal of old ones
 *   compilation.c     one compiler process, watched
 *   images.c          the threads that do this for the daemon
 *
 * Work whose cost depends on a client's input must not run on the daemon's thread. So the daemon makes jobs, which
 * threads of this room do:
 *
 *     gs_image_job *job = gs_image_job_new(images, &request, owner);
 *     gs_images_find(images, job);             // looks into the cache
 *     ... when gs_images_fd(images) is readable:
 *     job = gs_images_take(images);            // job->image; or job->must_compile; or job->error, for the client
 *     gs_images_compile(images, job);          // the same with a compiler
 */
#ifndef GS_IMAGE_H
#define GS_IMAGE_H

#include "base/base.h"

#include "kernels/cuda/cuda.h"
#include "kernels/forms/forms.h"

/* ---- limits; docs/share.md lists them ---- */

enum {
    GS_IMAGE_KERNELS = 64, /* requested of a source, */
    GS_IMAGE_OPTIONS = 32, /* and options */
    GS_IMAGE_MB = 128,     /* of one image */
    GS_IMAGE_CACHE_BYTES = 512 << 20,

    GS_SESSION_SOURCES = 64,    /* of one client that are not loaded yet, */
    GS_SESSION_SOURCES_MB = 64, /* and their size; */
    GS_SOURCES = 1024,          /* the same for all clients: more only for a client without sources in progress */
    GS_SOURCES_MB = 1024,
    GS_LOOK_UPS = 4,              /* at a time, one for each client; half of them for small sources only */
    GS_COMPILERS = 3,             /* at a time; the last free one is reserved for a client that has none */
    GS_SLOW_JOBS = 16,            /* in addition: they wait for a file system that does not respond */
    GS_COMPILER_SECONDS = 120,    /* of CPU time, */
    GS_COMPILER_WAITS = 5,        /* it may take this many times as long when the machine is busy */
    GS_COMPILER_MEMORY_MB = 2048, /* of all its processes together */
    GS_COMPILER_OUTPUT_MB = 128,  /* of each file that it writes */
    GS_COMPILER_PROCESSES = 64,
    GS_COMPILER_NICE = 10, /* above the daemon's: others come first if cores are scarce */

    GS_INCLUDE_MB = 16,  /* of one included file */
    GS_INCLUDES = 8192,  /* files that one source may include, directly or not, */
    GS_INCLUDES_MB = 256 /* and their size */
};

/* Other limits for one compiler; 0: those above. */
typedef struct gs_compiler_limits {
    uint32_t seconds, memory_mb, output_mb, processes;
} gs_compiler_limits;

/* ---- sources ---- */

typedef struct gs_image_source {
    const char *name; /* for errors */
    const char *text;
    size_t size;
    const char *kernels[GS_IMAGE_KERNELS + 1]; /* with template arguments, if any: "reduce<256>"; */
    size_t kernel_count;                       /* 0: all non-template kernels of the source */
    const char *options[GS_IMAGE_OPTIONS + 1]; /* "-DNAME=VALUE"; others are refused */
    size_t option_count;
} gs_image_source;

/* A requested source, in memory that is sealed against changes. */
typedef struct gs_image_request {
    const char *program; /* as in gs_worker_options */
    int source;          /* descriptor: name, options, kernels, each with a NUL behind it; the text */
    uint64_t bytes;      /* of it */
    uint32_t option_count, kernel_count;
    int32_t architecture; /* gs_worker_facts; 0: for the CPU */
    bool counts_blocks;   /* confined kernels count blocks: see gs_worker_options.checks_counts */
    bool has_others;      /* other clients are active: its compiler has a lower priority */
    gs_compiler_limits limits;
} gs_image_request;

/* Packs a source into new memory, and sets `source`, `bytes` and the counts of the request. The caller closes it. */
gs_code gs_image_pack(const gs_image_source *source, gs_image_request *request, gs_error *error);
/* The inverse. The source points into `bytes`. GS_E_FORMAT: it is malformed. GS_E_USAGE: too much is requested. */
gs_code gs_image_unpack(const char *bytes, size_t size, uint32_t options, uint32_t kernels, gs_image_source *source,
                        gs_error *error);

/* ---- images ---- */

typedef struct gs_image_kernel {
    char name[GS_JOB_NAME]; /* as requested, or as in the source */
    bool can_be_confined;
    gs_ptx_form form;  /* how that was made */
    char refusal[200]; /* if not: why */
} gs_image_kernel;

typedef struct gs_image {
    int fd;       /* of its verified file, which may be unlinked already; -1: closed */
    char key[65]; /* its hash in hexadecimal: the same for the same source, also in a later daemon */
    size_t kernel_count;
    uint64_t device_bytes; /* that the module takes: its code and its variables, or the workspace of a product */
    bool was_cached;
    bool is_kept; /* in the cache */
    gs_image_kernel kernels[];
} gs_image;

/* Closes the file, when the worker has it. The rest stays. */
void gs_image_close(gs_image *image);
void gs_image_free(gs_image *image);

/* ---- the cache ---- */

typedef struct gs_cache gs_cache;

/* Opens the folder of the cache; NULL: the user's. GS_E_USAGE: other users could write to it. */
gs_cache *gs_cache_open(const char *folder, gs_error *error);
void gs_cache_close(gs_cache *cache);
/* The image of a source, if it is in the cache and up to date. NULL with GS_OK: it must be compiled. Reads the
   source and all files that the image depends on. */
gs_image *gs_cache_find(const gs_cache *cache, const gs_image_request *request, gs_error *error);
/* Compiles a source, and keeps the image if possible. `stop`: when this descriptor becomes readable, the compiler is
   killed; or -1. GS_E_KERNEL: errors in the source, or a limit was exceeded. */
gs_image *gs_cache_compile(const gs_cache *cache, const gs_image_request *request, int stop, gs_error *error);
/* Removes folders left by killed daemons. */
void gs_cache_sweep(const gs_cache *cache);

/* Find or compile in one blocking call; for tests and benchmarks. */
gs_image *gs_image_make(const char *folder, const gs_image_source *source, const gs_image_request *request,
                        gs_error *error);

/* ---- jobs, for the daemon ---- */

typedef struct gs_images gs_images;

typedef struct gs_image_job {
    gs_image_request request; /* owns the descriptor of the source */
    void *owner;              /* the caller's */
    gs_image *image;          /* the result: the caller takes it and sets it to NULL; */
    bool must_compile;        /* or it is not in the cache; */
    gs_error error;           /* or the error */
    uint64_t took_ns;
    int stop; /* for images.c, */
    int kind;
    struct gs_image_job *next;
} gs_image_job;

/* Opens the cache and starts the threads. GS_E_USAGE: other users could write to the folder. If it cannot be opened for
   another reason, each job fails with that error. */
gs_images *gs_images_open(const char *folder, gs_error *error);
/* That error, or NULL. */
const gs_error *gs_images_problem(const gs_images *images);
/* Kills the compilers, ends the threads, and frees jobs that were not taken. A thread that waits for an unresponsive
   file system is left running until the process ends. */
void gs_images_close(gs_images *images);
int gs_images_fd(const gs_images *images);

/* Owns the descriptor of the request, even if this fails. NULL: out of memory or descriptors. */
gs_image_job *gs_image_job_new(const gs_image_request *request, void *owner);
/* With at most GS_LOOK_UPS, GS_COMPILERS and GS_SLOW_JOBS jobs at a time, each begins at once. */
void gs_images_find(gs_images *images, gs_image_job *job);
void gs_images_compile(gs_images *images, gs_image_job *job);
/* A finished job, or NULL. */
gs_image_job *gs_images_take(gs_images *images);
/* Stops a job in progress: it ends soon, its compiler at once. It must still be taken. */
void gs_image_job_stop(gs_image_job *job);
/* Frees a job that is not in progress, on a thread: its source may be large. */
void gs_images_drop(gs_images *images, gs_image_job *job);

/* ---- the file, for the worker ---- */

enum { GS_IMAGE_SYMBOL = GS_JOB_NAME };
#define GS_IMAGE_NO_PART UINT32_MAX

/* A kernel in one of the parts of the file; a driver, or dlopen, loads a part. */
typedef struct gs_image_entry {
    uint32_t part; /* or GS_IMAGE_NO_PART */
    char symbol[GS_IMAGE_SYMBOL];
} gs_image_entry;

typedef struct gs_image_stored {
    _Alignas(uint64_t) gs_image_kernel kernel; /* a list of these is followed by the parts */
    gs_image_entry original, confined;
    gs_product product; /* with rows: the kernel is this product. On a GPU it is no code, and the image has no parts */
} gs_image_stored;

typedef struct gs_image_file {
    char *bytes; /* the whole file, mapped */
    size_t size;
    const gs_image_stored *kernels;
    size_t kernel_count, part_count;
    uint64_t device_bytes; /* see gs_image */
    const struct gs_image_part { uint64_t at, bytes; } * parts;
} gs_image_file;

/* Maps a file that gs_cache_find or gs_cache_compile has verified. The caller unmaps it. */
gs_code gs_image_map(int fd, gs_image_file *file, gs_error *error);
void gs_image_unmap(gs_image_file *file);

/* ---- the compiler: a hidden subcommand of the program ---- */

#define GS_COMPILER_PROCESS "compiler-process"

/* It works on descriptors inherited from the daemon, and is not meant for users. Returns an exit code. */
int gs_compiler_process(int argc, char **argv);

#endif
