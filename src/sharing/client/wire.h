/*
 * wire.h: the protocol between a client and the daemon.
 *
 * The socket (SOCK_SEQPACKET) carries a hello and its answer, then file descriptors, and bytes that wake the other
 * side. Everything else goes through one page of shared memory, which the daemon makes and the client maps:
 *
 *   commands   from the client, in a ring (ring.h). Both sides count them; the first is number 1
 *   done       for each stream: the number of the last command that has happened
 *   replies    to commands that need one: the client chooses the slot, the daemon writes the answer
 *   events     when they happened
 *   end code   not 0: why the daemon ended this client; never reset
 *
 * There is no queue back to the client that could overflow: a client that never reads costs the daemon nothing. The
 * daemon reads each word of the client once, into private memory, and checks that copy. A side that is about to sleep
 * announces it in the page, checks once more, and waits for the socket. The other side wakes it with a byte there, and
 * sending never waits.
 *
 * Order. All commands are in one order, that of the ring. A command that needs a file (SHARE, LOAD) stands in the ring
 * like any other; the client sends the file first, and files are taken in the order of their commands.
 */
#ifndef GS_WIRE_H
#define GS_WIRE_H

#include "ring.h"

#include <gridsmith/client.h>

#include <stdalign.h>
#include <stdatomic.h>

enum {
    GS_WIRE_MAGIC = 0x47535731,
    GS_WIRE_VERSION = 6,
    GS_WIRE_GPU = 16, /* bytes of the name that a driver gives to a GPU (its UUID) */
    GS_WIRE_NAME = 64,
    GS_WIRE_MESSAGE = 240,         /* of an error */
    GS_WIRE_RING_BYTES = 1 << 18,  /* of commands */
    GS_WIRE_REPLIES = 64,          /* slots: so this many threads of a client can wait for replies at once */
    GS_WIRE_MEMORIES = 1 << 16,    /* handles of memory are below this, */
    GS_WIRE_REGIONS = 1 << 10,     /* of host memory, */
    GS_WIRE_MODULES = 1 << 10,     /* and of modules */
    GS_WIRE_SOURCE_KERNELS = 64,   /* names in a source, */
    GS_WIRE_SOURCE_OPTIONS = 32,   /* and options */
    GS_WIRE_SOURCE_BYTES = 1 << 24 /* the longest source, with its options and names */
};

/* ---- the socket ---- */

/* The path of the socket: `path_or_null`, or else $GRIDSMITH_SOCKET, or else gridsmith.sock in $XDG_RUNTIME_DIR, or
   else in /tmp/gridsmith-UID. False: the path is too long. */
bool gs_wire_socket(const char *path_or_null, char *path, size_t size);
extern const char gs_wire_too_long[]; /* the message for that */
/* False: the path is in /tmp/gridsmith-UID, and other users can write there or own it. With `make`, it is made if it
   does not exist. */
bool gs_wire_can_trust(const char *path, bool make);
#define GS_WIRE_NOT_OURS "other users can write to the folder of %s: set XDG_RUNTIME_DIR"

enum gs_wire_kind { GS_WIRE_HELLO = 1, GS_WIRE_STATUS, GS_WIRE_LATENCY, GS_WIRE_BEST_EFFORT };

/* HELLO opens a session. STATUS requests gridsmith.status/1, which comes as a file descriptor with the answer. A
   program of `gridsmith run` sends LATENCY or BEST_EFFORT: the files of tenant.h come with the answer. */
typedef struct gs_wire_hello {
    uint32_t magic, version, kind; /* enum gs_wire_kind */
    uint32_t weight;
    int32_t priority;
    uint32_t most_sms;
    uint32_t hold_ms;               /* of a LATENCY program: how long a request may hold others; 0: not declared */
    uint32_t most_percent;          /* of a BEST_EFFORT program: its cap, for the status; 0: none */
    uint32_t has_mps;               /* a program of `gridsmith run` uses MPS */
    uint32_t deadline_us;           /* of the requests of a LATENCY program, for the status; 0: none */
    uint64_t command;               /* names what a program of `gridsmith run` executes; 0: not known */
    unsigned char gpu[GS_WIRE_GPU]; /* that a program of `gridsmith run` uses */
    char name[GS_WIRE_NAME];
} gs_wire_hello;

/* The answer. OK: a descriptor comes with it, the page. */
typedef struct gs_wire_welcome {
    uint32_t magic, version, code; /* enum gs_client_code */
    uint32_t is_gpu;
    int32_t sms, architecture;
    uint64_t memory_bytes, page_bytes;
    char name[96];
    char message[GS_WIRE_MESSAGE]; /* of a refusal */
} gs_wire_welcome;

/* Connects and says hello. -1: gs_client_message() says why. */
int gs_wire_connect(const char *path_or_null, const gs_wire_hello *hello);
/* Waits for the answer. `fds` gets up to `most` descriptors; missing ones are -1. */
gs_client_code gs_wire_answer(int socket, gs_wire_welcome *welcome, int *fds, size_t most);

/* After the answer all messages have one byte: GS_RING_BYTE wakes the other side; GS_WIRE_FILE, from the client, has a
   descriptor with it: a memfd, sealed against changes of its size, and a source also against writing. */
enum {
    GS_WIRE_FILE = 'f',
    GS_WIRE_FILES = 4 /* files that a client may send ahead of their commands */
};

/* ---- the page ---- */

/* `ticket` is written last. It is the command's ticket; the client never uses the same ticket twice in a row. */
typedef struct gs_wire_reply {
    _Atomic uint32_t ticket;
    uint32_t code; /* enum gs_client_code */
    char message[GS_WIRE_MESSAGE];
} gs_wire_reply;

/* Commands that fail without ending the client. The first error stays until the client has seen it: the daemon writes
   `code` and `message` only while both counts are equal. */
typedef struct gs_wire_stream {
    _Atomic uint64_t done;
    _Atomic uint32_t errors;      /* counted by the daemon, after the message was written */
    _Atomic uint32_t errors_seen; /* the client's: `errors`, once it has read the message */
    uint32_t code;                /* enum gs_client_code */
    char message[GS_WIRE_MESSAGE];
} gs_wire_stream;

typedef struct gs_wire_event {
    _Atomic uint64_t command; /* the last one done that recorded it; written after the time */
    _Atomic int64_t time_ns;
} gs_wire_event;

typedef struct gs_wire_page {
    alignas(64) _Atomic uint32_t client_sleeps; /* the client writes 1, the daemon 0 */
    alignas(64) _Atomic uint32_t end_code;      /* enum gs_client_code; written after its message */
    char end_message[GS_WIRE_MESSAGE];
    gs_wire_stream streams[GS_CLIENT_STREAMS];
    gs_wire_reply replies[GS_WIRE_REPLIES];
    gs_wire_event events[GS_CLIENT_EVENTS];
} gs_wire_page;

/* The ring of commands follows. */
static inline size_t gs_wire_page_bytes(void) {
    return sizeof(gs_wire_page) + gs_ring_bytes(GS_WIRE_RING_BYTES);
}

/* ---- commands ---- */

#define GS_WIRE_COMMANDS(X)                                                                                            \
    X(GS_WIRE_ALLOCATE, gs_wire_allocate)                                                                              \
    X(GS_WIRE_SHARE, gs_wire_share)                                                                                    \
    X(GS_WIRE_LOAD, gs_wire_load)                                                                                      \
    X(GS_WIRE_FREE, gs_wire_free)                                                                                      \
    X(GS_WIRE_UNSHARE, gs_wire_free)                                                                                   \
    X(GS_WIRE_UNLOAD, gs_wire_free)                                                                                    \
    X(GS_WIRE_COPY_IN, gs_wire_copy)                                                                                   \
    X(GS_WIRE_COPY_OUT, gs_wire_copy)                                                                                  \
    X(GS_WIRE_FILL, gs_wire_fill)                                                                                      \
    X(GS_WIRE_LAUNCH, gs_wire_launch)                                                                                  \
    X(GS_WIRE_EVENT, gs_wire_record)

#define GS_WIRE_ENUM(name, type) name,
enum gs_wire_command { GS_WIRE_COMMANDS(GS_WIRE_ENUM) GS_WIRE_COMMAND_COUNT };
#undef GS_WIRE_ENUM

typedef struct gs_wire_head {
    uint32_t command, stream; /* enum gs_wire_command */
} gs_wire_head;

typedef struct gs_wire_allocate {
    gs_wire_head head;
    uint32_t reply, ticket;
    uint32_t memory, unused;
    uint64_t bytes;
} gs_wire_allocate;

/* The file is host memory. */
typedef struct gs_wire_share {
    gs_wire_head head;
    uint32_t reply, ticket;
    uint32_t region, unused;
    uint64_t bytes;
} gs_wire_share;

/* The file is a source: its name, the options and the kernels, each with its NUL, and then the text. */
typedef struct gs_wire_load {
    gs_wire_head head;
    uint32_t reply, ticket;
    uint32_t module, options, kernels, unused;
    uint64_t bytes;
} gs_wire_load;

/* Memory, a region or a module: its handle is free again. */
typedef struct gs_wire_free {
    gs_wire_head head;
    uint32_t handle, unused;
} gs_wire_free;

typedef struct gs_wire_copy {
    gs_wire_head head;
    uint32_t memory, region;
    uint64_t at, region_at, bytes;
} gs_wire_copy;

typedef struct gs_wire_fill {
    gs_wire_head head;
    uint32_t memory, value;
    uint64_t at, bytes;
} gs_wire_fill;

typedef struct gs_wire_record {
    gs_wire_head head;
    uint32_t event, unused;
} gs_wire_record;

/* Arguments follow, each a gs_wire_argument and then `bytes` of its value, filled up to a multiple of 8. */
typedef struct gs_wire_launch {
    gs_wire_head head;
    uint32_t module, kernel;
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;
    uint32_t arguments, unused;
} gs_wire_launch;

typedef struct gs_wire_argument {
    uint32_t memory; /* a handle; 0: a value */
    uint32_t bytes;  /* of the value; of memory: 8, and the value is the offset */
} gs_wire_argument;

enum {
    GS_WIRE_MOST_BYTES =
        sizeof(gs_wire_launch) + GS_CLIENT_ARGUMENTS * (sizeof(gs_wire_argument) + 8) + GS_CLIENT_VALUES_BYTES
};

#endif
