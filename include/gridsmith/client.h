/*
 * client.h: the public interface of libgridsmith-client: run kernels of this process on a GPU that `gridsmith serve`
 * shares among processes.
 *
 * The functions resemble the CUDA functions for the same purpose. Read from top to bottom:
 *
 *   errors       every error code, and its meaning
 *   clients      a connection to the daemon
 *   memory       on the GPU, and host memory that the daemon can access too
 *   copies       to and from the GPU; from shared host memory without another copy on the host
 *   kernels      compile CUDA C source
 *   launches     on streams: in order within a stream, independent between streams
 *   events       points in a stream, and the time between them
 *
 * Conventions. A function that can fail returns a code; gs_client_message() describes the last failure in the calling
 * thread. Any thread may call any function at any time, even on the same client; calls on one stream from several
 * threads happen in some order. A function blocks only if its comment says "waits". After fork() the child must not use
 * the client of its parent. Pointers must not be NULL, unless a comment says what NULL means. The library needs only
 * the C library. It prints nothing and never exits.
 */
#ifndef GRIDSMITH_CLIENT_H
#define GRIDSMITH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(GS_CLIENT_INSIDE)
#    define GS_CLIENT_API
#elif defined(__GNUC__)
#    define GS_CLIENT_API __attribute__((visibility("default")))
#else
#    define GS_CLIENT_API
#endif

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Every error code. After LOST, RESET and KERNEL each later call that needs the daemon returns the same code: close the
   client. A call with wrong arguments still returns INVALID, and waiting for an event that was reached before succeeds.
   After the other codes the client goes on. */
#define GS_CLIENT_ERRORS(X)                                                                                            \
    X(GS_CLIENT_OK, "done")                                                                                            \
    X(GS_CLIENT_NO_DAEMON, "no daemon listens there: start 'gridsmith serve'")                                         \
    X(GS_CLIENT_REFUSED, "the daemon refused the connection")                                                          \
    X(GS_CLIENT_LOST, "the daemon has ended")                                                                          \
    X(GS_CLIENT_RESET, "the GPU was restarted because of another client, and its memory is lost: open again")          \
    X(GS_CLIENT_KERNEL, "a kernel of this client failed")                                                              \
    X(GS_CLIENT_SOURCE, "the source does not compile")                                                                 \
    X(GS_CLIENT_MEMORY, "out of memory")                                                                               \
    X(GS_CLIENT_INVALID, "the call is wrong")                                                                          \
    X(GS_CLIENT_SYSTEM, "the system failed")

#define GS_CLIENT_ENUM(name, words) name,
typedef enum gs_client_code { GS_CLIENT_ERRORS(GS_CLIENT_ENUM) GS_CLIENT_CODES } gs_client_code;
#undef GS_CLIENT_ENUM

/* The meaning of a code, from the table above. */
GS_CLIENT_API const char *gs_client_meaning(gs_client_code code);
/* The message of the last failure in this thread. Valid until the next failure. */
GS_CLIENT_API const char *gs_client_message(void);

/* ---- clients --------------------------------------------------------------------------------------------------- */

typedef struct gs_client gs_client;

typedef struct gs_client_options {
    const char *socket; /* NULL: $GRIDSMITH_SOCKET, or else gridsmith.sock in $XDG_RUNTIME_DIR, or else in
                           /tmp/gridsmith-UID */
    const char *name;   /* the name in 'gridsmith top'; NULL: the name of the program */
    uint32_t weight;    /* its share, relative to those of others, from 1 to 1000; 0: 100. See docs/share.md */
    int32_t priority;   /* from -10 to 10; higher is more urgent */
    uint32_t most_sms;  /* the most SMs that the client gets; 0: no limit */
} gs_client_options;

/* The device that kernels run on. */
typedef struct gs_client_facts {
    char name[96];
    bool is_gpu; /* false: the CPU stands in for a GPU */
    int32_t sms, architecture;
    uint64_t memory_bytes;
} gs_client_facts;

/* Connects, and waits for the daemon's answer. `options` may be NULL. The caller closes the client when no other thread
   uses it. Closing frees everything that the client has on the GPU, and waits until that is done. It waits for 1 s at
   most: what a running kernel uses is freed when the kernel has ended. */
GS_CLIENT_API gs_client_code gs_client_open(const gs_client_options *options, gs_client **client);
GS_CLIENT_API void gs_client_close(gs_client *client); /* NULL is fine */
GS_CLIENT_API const gs_client_facts *gs_client_facts_of(const gs_client *client);

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* An address on the GPU. Offsets may be added to it, within the allocation. It is never 0. */
typedef uint64_t gs_client_memory;

/* Allocates memory on the GPU, filled with zeros. Waits for the daemon's answer, not for kernels. GS_CLIENT_MEMORY: not
   enough memory, or the client has reached a limit of the daemon. */
GS_CLIENT_API gs_client_code gs_client_malloc(gs_client *client, size_t bytes, gs_client_memory *memory);
/* Frees memory from gs_client_malloc. Copies and launches before this call still happen. */
GS_CLIENT_API gs_client_code gs_client_free(gs_client *client, gs_client_memory memory);

/* Allocates host memory that the daemon can access too: the GPU copies from and to it directly. GS_CLIENT_MEMORY: the
   client has reached a limit of the daemon. */
GS_CLIENT_API gs_client_code gs_client_host_malloc(gs_client *client, size_t bytes, void **memory);
/* Frees it. Copies that use it must be done. */
GS_CLIENT_API gs_client_code gs_client_host_free(gs_client *client, void *memory);

/* ---- copies ---------------------------------------------------------------------------------------------------- */

/* Streams are numbers from 0 to GS_CLIENT_STREAMS - 1. They need not be created. No stream waits for another. */
enum { GS_CLIENT_STREAMS = 32 };

/* Copy to and from the GPU. Memory from gs_client_host_malloc is read or written when the copy happens in the stream:
   do not use it until then. Any other host memory may be used again when the call returns: it is copied twice, and
   gs_client_copy_out waits. */
GS_CLIENT_API gs_client_code gs_client_copy_in(gs_client *client, uint32_t stream, gs_client_memory to,
                                               const void *from, size_t bytes);
GS_CLIENT_API gs_client_code gs_client_copy_out(gs_client *client, uint32_t stream, void *to, gs_client_memory from,
                                                size_t bytes);
/* Sets each byte to `value`. */
GS_CLIENT_API gs_client_code gs_client_fill(gs_client *client, uint32_t stream, gs_client_memory to, uint8_t value,
                                            size_t bytes);

/* ---- kernels --------------------------------------------------------------------------------------------------- */

typedef struct gs_client_source {
    const char *name;           /* the file name in error messages; NULL: "source.cu" */
    const char *text;           /* CUDA C++, PTX, the bytes of a file that contains PTX: a cubin, a library; or a matrix
                                   product of cuBLAS, {"schema": "gridsmith.product/1", "rows": ... (docs/formats.md) */
    size_t size;                /* 0: the text ends with a NUL */
    const char *const *kernels; /* names, with template arguments if any: "reduce<256>"; or symbols */
    uint32_t kernel_count;
    const char *const *options; /* for the compiler of CUDA C++, each with -D: "-DTILE=16" */
    uint32_t option_count;
} gs_client_source;

/* Compiles the source, or finds it in the daemon's cache, and waits for the result. Kernel number i of the module is
   `source->kernels[i]`. GS_CLIENT_SOURCE: it does not compile, or lacks a kernel. */
GS_CLIENT_API gs_client_code gs_client_load(gs_client *client, const gs_client_source *source, uint32_t *module);
/* Unloads a module. Launches before this call still happen. */
GS_CLIENT_API gs_client_code gs_client_unload(gs_client *client, uint32_t module);

/* ---- launches -------------------------------------------------------------------------------------------------- */

enum { GS_CLIENT_ARGUMENTS = 64, GS_CLIENT_VALUE_BYTES = 256, GS_CLIENT_VALUES_BYTES = 2048 };

/* An argument: a value of at most GS_CLIENT_VALUE_BYTES, or an address on the GPU. Addresses inside structs are not
   translated: pass each as an argument of its own. */
typedef struct gs_client_argument {
    const void *value; /* for an address: a pointer to the gs_client_memory */
    uint32_t bytes;
    bool is_memory;
} gs_client_argument;

/* An argument from a variable: a value, or an address on the GPU. */
#define GS_CLIENT_VALUE(variable)                                                                                      \
    { &(variable), sizeof(variable), false }
#define GS_CLIENT_AT(variable)                                                                                         \
    { &(variable), sizeof(variable), true }

typedef struct gs_client_launch {
    uint32_t module, kernel;
    uint32_t grid[3], block[3]; /* 0 means 1 */
    size_t shared_bytes;        /* dynamic */
    const gs_client_argument *arguments;
    uint32_t argument_count;
} gs_client_launch;

/* Launches a kernel. Returns at once, unless thousands of launches are waiting. Errors of the kernel are returned when
   its stream is waited for. GS_CLIENT_INVALID, here or there: such a launch cannot begin (its shape, its arguments, its
   shared memory). */
GS_CLIENT_API gs_client_code gs_client_start(gs_client *client, uint32_t stream, const gs_client_launch *launch);

/* Waits until everything before this call in the stream, or in all streams, is done. */
GS_CLIENT_API gs_client_code gs_client_wait(gs_client *client, uint32_t stream);
GS_CLIENT_API gs_client_code gs_client_wait_all(gs_client *client);

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* Events are numbers from 0 to GS_CLIENT_EVENTS - 1. They need not be created. */
enum { GS_CLIENT_EVENTS = 1024 };

/* Records an event: its time is when everything before it in the stream is done. Recording it again replaces the time.
 */
GS_CLIENT_API gs_client_code gs_client_event(gs_client *client, uint32_t stream, uint32_t event);
/* Waits until the event has happened. */
GS_CLIENT_API gs_client_code gs_client_event_wait(gs_client *client, uint32_t event);
/* Waits for both events, and returns the time between them. */
GS_CLIENT_API gs_client_code gs_client_elapsed(gs_client *client, uint32_t from, uint32_t to, int64_t *nanoseconds);

#ifdef __cplusplus
}
#endif

#endif
