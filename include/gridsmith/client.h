/*
 * client.h: the public face of libgridsmith-client: kernels of this process on a GPU that `gridsmith serve` shares
 * among many.
 *
 * The calls have the shape of the CUDA calls they stand for. Read from top to bottom:
 *
 *   errors       every way to fail, and its words
 *   clients      a connection to the daemon
 *   memory       of the GPU, and memory of the host that the daemon sees too
 *   copies       in and out; without a copy on the host where shared memory is used
 *   kernels      CUDA C source in, kernels out
 *   launches     on streams: in order within one, independent of each other between them
 *   events       points in a stream, and the time between them
 *
 * Conventions. What can fail returns a code; gs_client_message() has the words of the last failure in the calling
 * thread. Any thread may call anything at any time, also on the same client; calls on one stream from several threads
 * happen in some order. Nothing blocks but what says "waits". A child made by fork() must not use the client of its
 * parent. The library needs the C library and nothing else, prints nothing, and never exits.
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

/* Every way to fail. LOST, RESET and KERNEL stay: each later call says the same until the client is closed. */
#define GS_CLIENT_ERRORS(X)                                                                                            \
    X(GS_CLIENT_OK, "done")                                                                                            \
    X(GS_CLIENT_NO_DAEMON, "no daemon listens there: start 'gridsmith serve'")                                         \
    X(GS_CLIENT_REFUSED, "the daemon refused the connection")                                                          \
    X(GS_CLIENT_LOST, "the daemon is gone")                                                                            \
    X(GS_CLIENT_RESET, "the GPU was started anew because of another client: its memory is gone, open again")           \
    X(GS_CLIENT_KERNEL, "a kernel of this client failed")                                                              \
    X(GS_CLIENT_SOURCE, "the source does not compile")                                                                 \
    X(GS_CLIENT_MEMORY, "out of memory")                                                                               \
    X(GS_CLIENT_INVALID, "the call is wrong")                                                                          \
    X(GS_CLIENT_SYSTEM, "the system failed")

#define GS_CLIENT_ENUM(name, words) name,
typedef enum gs_client_code { GS_CLIENT_ERRORS(GS_CLIENT_ENUM) GS_CLIENT_CODES } gs_client_code;
#undef GS_CLIENT_ENUM

/* The words of the table above. */
GS_CLIENT_API const char *gs_client_meaning(gs_client_code code);
/* What exactly went wrong at the last failure in this thread. Valid until the next one. */
GS_CLIENT_API const char *gs_client_message(void);

/* ---- clients --------------------------------------------------------------------------------------------------- */

typedef struct gs_client gs_client;

typedef struct gs_client_options {
    const char *socket; /* NULL: $GRIDSMITH_SOCKET, or else gridsmith.sock in $XDG_RUNTIME_DIR */
    const char *name;   /* what 'gridsmith top' shows; NULL: the name of the program */
    uint32_t weight;    /* its share of the GPU, from 1 to 1000; 0: 100 */
    int32_t priority;   /* more is more urgent, from -10 to 10 */
    uint32_t most_sms;  /* it never has more SMs than that; 0: no limit */
} gs_client_options;

/* What kernels run on. */
typedef struct gs_client_facts {
    char name[96];
    bool is_gpu; /* false: the CPU plays a GPU */
    int32_t sms, architecture;
    uint64_t memory_bytes;
} gs_client_facts;

/* Connects, and waits for the daemon's answer. `options` may be NULL. The caller closes the client, when no other
   thread uses it. What the client had on the GPU goes with it. */
GS_CLIENT_API gs_client_code gs_client_open(const gs_client_options *options, gs_client **client);
GS_CLIENT_API void gs_client_close(gs_client *client); /* NULL is fine */
GS_CLIENT_API const gs_client_facts *gs_client_facts_of(const gs_client *client);

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* An address on the GPU. Adding to it works as long as the sum stays within the allocation. 0 is never one. */
typedef uint64_t gs_client_memory;

/* Zeros, to begin with. Waits for the answer, not for kernels. GS_CLIENT_MEMORY: there is not enough. */
GS_CLIENT_API gs_client_code gs_client_malloc(gs_client *client, size_t bytes, gs_client_memory *memory);
/* What was asked for before still happens, then the memory is gone. `memory` must be what malloc gave. */
GS_CLIENT_API gs_client_code gs_client_free(gs_client *client, gs_client_memory memory);

/* Memory of this process that the daemon sees too: copies from and to it are made by the GPU itself. */
GS_CLIENT_API gs_client_code gs_client_host_malloc(gs_client *client, size_t bytes, void **memory);
/* Copies that use it must be done. */
GS_CLIENT_API gs_client_code gs_client_host_free(gs_client *client, void *memory);

/* ---- copies ---------------------------------------------------------------------------------------------------- */

/* Streams are numbers from 0 to GS_CLIENT_STREAMS - 1 and need not be made. None waits for another. */
enum { GS_CLIENT_STREAMS = 32 };

/* In memory of gs_client_host_malloc a copy reads and writes when its turn in the stream comes: leave that memory alone
   until then. Any other memory of the host may be used again at once: it is copied twice, and gs_client_copy_out
   waits. */
GS_CLIENT_API gs_client_code gs_client_copy_in(gs_client *client, uint32_t stream, gs_client_memory to,
                                               const void *from, size_t bytes);
GS_CLIENT_API gs_client_code gs_client_copy_out(gs_client *client, uint32_t stream, void *to, gs_client_memory from,
                                                size_t bytes);
/* Each byte becomes `value`. */
GS_CLIENT_API gs_client_code gs_client_fill(gs_client *client, uint32_t stream, gs_client_memory to, uint8_t value,
                                            size_t bytes);

/* ---- kernels --------------------------------------------------------------------------------------------------- */

typedef struct gs_client_source {
    const char *name;           /* what errors call it; NULL: "source.cu" */
    const char *text;           /* CUDA C */
    size_t size;                /* 0: up to the NUL */
    const char *const *kernels; /* names, with template arguments where they have some: "reduce<256>" */
    uint32_t kernel_count;
    const char *const *options; /* for the compiler: "-DTILE=16" */
    uint32_t option_count;
} gs_client_source;

/* Compiles the source, or finds it in the daemon's cache, and waits for that. Kernel number i of the module is
   `source->kernels[i]`. GS_CLIENT_SOURCE: it does not compile. */
GS_CLIENT_API gs_client_code gs_client_load(gs_client *client, const gs_client_source *source, uint32_t *module);
/* What was launched before still runs. */
GS_CLIENT_API gs_client_code gs_client_unload(gs_client *client, uint32_t module);

/* ---- launches -------------------------------------------------------------------------------------------------- */

enum { GS_CLIENT_ARGUMENTS = 64, GS_CLIENT_VALUE_BYTES = 256, GS_CLIENT_VALUES_BYTES = 2048 };

/* An argument: a value of at most GS_CLIENT_VALUE_BYTES, or an address on the GPU. Addresses inside of structs are not
   found: pass each on its own. */
typedef struct gs_client_argument {
    const void *value; /* of an address: of the gs_client_memory */
    uint32_t bytes;
    bool is_memory;
} gs_client_argument;

/* One from a variable. */
#define GS_CLIENT_VALUE(variable)                                                                                      \
    { &(variable), sizeof(variable), false }
#define GS_CLIENT_AT(variable)                                                                                         \
    { &(variable), sizeof(variable), true }

typedef struct gs_client_launch {
    uint32_t module, kernel;
    uint32_t grid[3], block[3]; /* 0 is 1 */
    size_t shared_bytes;        /* dynamic */
    const gs_client_argument *arguments;
    uint32_t argument_count;
} gs_client_launch;

/* Returns at once, unless thousands of launches are waiting; what is wrong with the kernel shows when its stream is
   waited for. */
GS_CLIENT_API gs_client_code gs_client_start(gs_client *client, uint32_t stream, const gs_client_launch *launch);

/* Waits until all that was asked for before in the stream, or in all streams, has happened. */
GS_CLIENT_API gs_client_code gs_client_wait(gs_client *client, uint32_t stream);
GS_CLIENT_API gs_client_code gs_client_wait_all(gs_client *client);

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* Events are numbers from 0 to GS_CLIENT_EVENTS - 1 and need not be made. */
enum { GS_CLIENT_EVENTS = 1024 };

/* The event happens when all before it in the stream has. Recording it again forgets the time before. */
GS_CLIENT_API gs_client_code gs_client_event(gs_client *client, uint32_t stream, uint32_t event);
GS_CLIENT_API gs_client_code gs_client_event_wait(gs_client *client, uint32_t event);
/* Waits for both, and tells the time between them. */
GS_CLIENT_API gs_client_code gs_client_elapsed(gs_client *client, uint32_t from, uint32_t to, int64_t *nanoseconds);

#ifdef __cplusplus
}
#endif

#endif
