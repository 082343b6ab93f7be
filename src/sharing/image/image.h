/*
 * image.h: compiled kernels, kept on disk.
 *
 * An image is one file of the cache ($XDG_CACHE_HOME/gridsmith, or ~/.cache/gridsmith). It has the kernels of one
 * source, each as it was written and, where `reshape` accepts it, confined. Its name is a hash of the source, the
 * options, the kernels, the GPU architecture, the program and the environment of the compiler. The image itself lists
 * which other files it depends on; it is used only while they are as they were.
 *
 *   image_source.c    a source as clients send it
 *   image_file.c      the file of an image
 *   include_scan.c    the names that a text includes
 *   dependencies.c    the files that a source depends on
 *   include_search.c  where a compiler looks for them
 *   sandbox.c         what a compiler may use: limits, files, system calls
 *   image_forms.c     the forms of all kernels of a source
 *   compiler.c        the compiler process
 *   cache.c           the folder: look-up, new images, removal of old ones
 *   compilation.c     one compiler process, watched
 *   images.c          the threads that do all this for the daemon
 *
 * Nothing that grows with what a client sends may happen on the daemon's thread. So it works with jobs, which threads
 * of this room do:
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

/* ---- limits; docs/share.md lists them ---- */

enum {
    GS_IMAGE_KERNELS = 64, /* of a source that are requested, */
    GS_IMAGE_OPTIONS = 32, /* and options */
    GS_IMAGE_MB = 128,     /* of one image */
    GS_IMAGE_CACHE_BYTES = 512 << 20,

    GS_SESSION_SOURCES = 64,    /* of one client that are not with the worker yet, */
    GS_SESSION_SOURCES_MB = 64, /* and their size; */
    GS_SOURCES = 1024,          /* the same of all clients: more only for a client that has none on its way */
    GS_SOURCES_MB = 1024,
    GS_LOOK_UPS = 4,   /* at a time, one for each client; half of them for small sources only */
    GS_COMPILERS = 3,  /* at a time; the last that is free is kept for a client that has none */
    GS_SLOW_JOBS = 16, /* besides: they wait for a file system that does not answer */
    GS_COMPILER_SECONDS = 120,
    GS_COMPILER_MEMORY_MB = 2048, /* of all its processes together */
    GS_COMPILER_OUTPUT_MB = 128,  /* of each file that it writes */
    GS_COMPILER_PROCESSES = 64,
    GS_COMPILER_NICE = 10, /* above the daemon's: others come first when cores are short */

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
    const char *kernels[GS_IMAGE_KERNELS + 1]; /* with template arguments where they have some: "reduce<256>"; */
    size_t kernel_count;                       /* 0: all kernels of the source that are not templates */
    const char *options[GS_IMAGE_OPTIONS + 1]; /* "-DNAME=VALUE"; others are refused */
    size_t option_count;
} gs_image_source;

/* A source as it is requested: in memory that nobody can change any more. */
typedef struct gs_image_request {
    const char *program; /* as in gs_worker_options */
    int source;          /* descriptor: name, options, kernels, each with a NUL behind it; the text */
    uint64_t bytes;      /* of it */
    uint32_t option_count, kernel_count;
    int32_t architecture; /* gs_worker_facts; 0: for the CPU */
    bool has_marks;       /* confined kernels count blocks: see gs_worker_options.checks_marks */
    bool has_others;      /* others need the cores, too: its compiler has a lower priority */
    gs_compiler_limits limits;
} gs_image_request;

/* Packs a source into new memory, and sets `source`, `bytes` and the counts of the request. The caller closes it. */
gs_code gs_image_pack(const gs_image_source *source, gs_image_request *request, gs_error *error);
/* The other way. The source points into `bytes`. GS_E_FORMAT: it is malformed. GS_E_USAGE: too much is requested. */
gs_code gs_image_unpack(const char *bytes, size_t size, uint32_t options, uint32_t kernels, gs_image_source *source,
                        gs_error *error);

/* ---- images ---- */

typedef struct gs_image_kernel {
    char name[GS_JOB_NAME]; /* as it was requested, or as it stands in the source */
    bool can_be_confined;
    bool needs_queue;  /* see gs_ptx_form */
    char refusal[200]; /* else: why not */
} gs_image_kernel;

typedef struct gs_image {
    int fd;       /* of its file, which was verified and may have no name any more; -1: closed */
    char key[65]; /* its hash in hexadecimal: the same source gives the same, also in a later daemon */
    size_t kernel_count;
    bool was_cached;
    bool is_kept; /* in the cache */
    gs_image_kernel kernels[];
} gs_image;

/* Closes the file, when the worker has it. The rest stays. */
void gs_image_close(gs_image *image);
void gs_image_free(gs_image *image);

/* ---- the cache ---- */

typedef struct gs_cache gs_cache;

/* Opens the folder of the cache; NULL: the user's. GS_E_USAGE: others could write to it. */
gs_cache *gs_cache_open(const char *folder, gs_error *error);
void gs_cache_close(gs_cache *cache);
/* The image of a source, where it is in the cache and up to date. NULL with GS_OK: it must be compiled. Reads the
   source and all files that the image depends on. */
gs_image *gs_cache_find(const gs_cache *cache, const gs_image_request *request, gs_error *error);
/* Compiles a source, and keeps the image where it can be. `stop`: when this descriptor becomes readable the compiler is
   killed; or -1. GS_E_KERNEL: mistakes in the source, or it needed too much. */
gs_image *gs_cache_compile(const gs_cache *cache, const gs_image_request *request, int stop, gs_error *error);
/* Removes what daemons that are gone have left. */
void gs_cache_sweep(const gs_cache *cache);

/* All of it in one call, which waits; for tests and benchmarks. */
gs_image *gs_image_make(const char *folder, const gs_image_source *source, const gs_image_request *request,
                        gs_error *error);

/* ---- jobs, for the daemon ---- */

typedef struct gs_images gs_images;

typedef struct gs_image_job {
    gs_image_request request; /* it owns the descriptor of the source */
    void *owner;              /* the caller's */
    gs_image *image;          /* what came of it: the caller takes it and sets it to NULL; */
    bool must_compile;        /* or it is not in the cache; */
    gs_error error;           /* or this */
    uint64_t took_ns;
    int stop; /* images.c's, */
    int kind;
    struct gs_image_job *next;
} gs_image_job;

/* Opens the cache and starts the threads. GS_E_USAGE: others could write to the folder. If it cannot be opened for
   another reason, each job fails with that. */
gs_images *gs_images_open(const char *folder, gs_error *error);
/* Kills the compilers, ends the threads, and frees jobs that were not taken. A thread that waits for a file system that
   does not answer is left to the end of the process. */
void gs_images_close(gs_images *images);
int gs_images_fd(const gs_images *images);

/* Owns the descriptor of the request from now on, also where it fails. NULL: out of memory or descriptors. */
gs_image_job *gs_image_job_new(const gs_image_request *request, void *owner);
/* At most GS_LOOK_UPS, GS_COMPILERS and GS_SLOW_JOBS jobs at a time: then each begins at once. */
void gs_images_find(gs_images *images, gs_image_job *job);
void gs_images_compile(gs_images *images, gs_image_job *job);
/* A job that is done, or NULL. */
gs_image_job *gs_images_take(gs_images *images);
/* A job that is under way ends soon, its compiler at once. It is still taken. */
void gs_image_job_stop(gs_image_job *job);
/* Frees a job that is not under way, on a thread: its source may be large. */
void gs_images_drop(gs_images *images, gs_image_job *job);

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
    char *bytes; /* the whole file, mapped */
    size_t size;
    const gs_image_stored *kernels;
    size_t kernel_count, part_count;
    const struct gs_image_part { uint64_t at, bytes; } * parts;
} gs_image_file;

/* Maps a file that gs_cache_find or gs_cache_compile has verified. The caller unmaps it. */
gs_code gs_image_map(int fd, gs_image_file *file, gs_error *error);
void gs_image_unmap(gs_image_file *file);

/* ---- the compiler: a hidden subcommand of the program ---- */

#define GS_COMPILER_PROCESS "compiler-process"

/* It works on descriptors that it inherits from the daemon, and is of no use to people. Returns an exit code. */
int gs_compiler_process(int argc, char **argv);

#endif
