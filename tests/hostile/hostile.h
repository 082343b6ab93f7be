/*
 * hostile.h: a hostile client kit: what its parts share. hostile.c explains the whole.
 *
 *   raw.c                 the protocol by hand, as docs/protocol.md and src/sharing/client/wire.h describe it
 *   attack_bells.c        attacks on the page, the ring and the bells
 *   attack_order.c        on the order of commands and files
 *   attack_descriptors.c  with descriptors of every kind, and with messages
 *   attack_floods.c       with more of something than anybody needs
 *   attack_sources.c      on the compiler
 *   attack_programs.c     on what programs of `gridsmith run` share
 *   attack_processes.c    with many processes
 *   attack_kernels.c      with kernels that fault, never end or take memory, and with processes that are stopped
 *   attack_status.c       on the metrics and the status
 *   attack_table.c        the table of attacks
 *   honest.c              clients that work as users do, with libgridsmith-client, and measure how long they wait
 *   watch.c               what /proc says about the daemon, the worker and what they left behind
 *   stage.c               a daemon with honest clients around it, started and stopped
 *   hostile.c             the command: which attacks run when, and the report
 */
#ifndef GS_HOSTILE_H
#define GS_HOSTILE_H

#include "sharing/client/wire.h"

#include <sys/types.h>

#define HOSTILE_COUNT(array) (sizeof(array) / sizeof *(array))

/* The daemon has what this program is built with. A sanitizer reserves much memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* gcc */
#    define HOSTILE_IS_SANITIZED true
#elif defined(__has_feature) /* clang */
#    define HOSTILE_IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#    define HOSTILE_IS_SANITIZED false
#endif

int64_t hostile_now_ns(void);
void hostile_sleep_ms(long ms);

/* ---- attackers ---- */

/* What the daemon answered; in memory that all processes of the kit share. */
struct tally {
    _Atomic uint64_t begun, rounds, opened, refused, unconnected;
    _Atomic uint64_t ends[GS_CLIENT_CODES];    /* end codes of sessions */
    _Atomic uint64_t replies[GS_CLIENT_CODES]; /* codes of replies */
    _Atomic uint32_t is_broken;                /* the daemon did what it must not do: `note` says what */
    char note[200];
};

/* One process that attacks. */
struct attacker {
    const char *socket; /* of the daemon */
    const char *folder; /* for files; private */
    int metrics_port;   /* of the daemon, on this machine */
    pid_t daemon, worker;
    uint64_t random;
    int64_t until_ns;
    const _Atomic uint32_t *is_over; /* not 0: the phase is over. NULL: only its time ends it */
    struct tally *tally;
};

/* Where the daemon must do something, an attacker waits so long for it: only a hang takes longer. */
enum { HOSTILE_PATIENCE_MS = 120000 };

bool attacker_has_time(const struct attacker *me);
/* From 0 to `most` - 1. */
uint64_t attacker_random(struct attacker *me, uint64_t most);
/* The daemon did what it must not do. */
__attribute__((format(printf, 2, 3))) void attacker_blames(struct attacker *me, const char *format, ...);

enum attack_flags {
    ATTACK_ALONE = 1,  /* may reset other clients, as documented: not run beside honest ones */
    ATTACK_DELAYS = 2, /* delays others by its nature: no limit of waiting is checked */
    ATTACK_HEAVY = 4,  /* needs seconds of the processor: not in short runs */
    ATTACK_ON_CPU = 8, /* for the CPU device only */
    ATTACK_CROWDS = 16 /* crowds the door: waits are checked of what needs no new connection */
};

/* `once` is called again and again until the time is up. */
struct attack {
    const char *name;
    void (*once)(struct attacker *me);
    unsigned flags;
    const char *shows;
};

#define HOSTILE_ATTACKS(X)                                                                                             \
    /* attack_bells.c */                                                                                               \
    X(bell_flood, 0, "bells rung and never answered, client_sleeps always 1, both buffers full")                       \
    X(bell_flags, 0, "O_NONBLOCK, O_ASYNC, O_APPEND and O_DIRECT flipped on the socket and the page at any moment")    \
    X(page_random, 0, "a second thread writes random words all over the page while commands are taken")                \
    X(ring_rewritten, 0, "a second thread rewrites commands in the ring after they were put there")                    \
    X(ring_jumps, 0, "the position of the writer jumps, goes back, wraps around")                                      \
    X(record_lengths, 0, "records of every length, also longer than what was written")                                 \
    X(page_holes, 0, "holes punched into the page, again and again")                                                   \
    X(page_seals, 0, "the page truncated, sealed, locked and leased")                                                  \
    /* attack_order.c */                                                                                               \
    X(command_without_file, 0, "SHARE and LOAD without a file")                                                        \
    X(file_without_command, 0, "one to eight files and no command")                                                    \
    X(file_for_another, 0, "one file for several commands, and files of the wrong size or kind")                       \
    X(handles_reused, 0, "handles freed and used again at once behind hundreds of launches")                           \
    X(all_in_flight, 0, "512 actions in flight, more in the ring, files on top, then the socket is closed")            \
    X(random_commands, 0, "commands of almost valid numbers")                                                          \
    X(sudden_exit, 0, "clients that disappear in the middle of everything")                                            \
    /* attack_descriptors.c */                                                                                         \
    X(every_descriptor, 0, "pipes, sockets, devices, folders and others sent as memory or as sources")                 \
    X(every_seal, 0, "memory with every subset of the seals")                                                          \
    X(changing_size, 0, "memory that grows and shrinks between the file and its command")                              \
    X(sparse_regions, 0, "sparse memory of up to 2^62 bytes, shared and copied from")                                  \
    X(region_holes, 0, "holes punched into shared memory while it is copied")                                          \
    X(missing_pages, 0, "shared memory whose pages never arrive (userfaultfd)")                                        \
    X(odd_messages, 0, "messages without bytes, with too many, with several descriptors, with credentials")            \
    X(empty_messages, 0, "messages without bytes that bring descriptors")                                              \
    X(socket_cycles, 0, "sockets sent through themselves")                                                             \
    X(large_files, ATTACK_HEAVY, "files of 256 MB of which the daemon has the last descriptor")                        \
    /* attack_floods.c */                                                                                              \
    X(connect_silent, 0, "1,024 connections that never say hello")                                                     \
    X(half_hello, 0, "hellos that are too short, too long or wrong")                                                   \
    X(sessions_idle, 0, "hundreds of sessions that do nothing")                                                        \
    X(connect_close, 0, "connections that are closed at once")                                                         \
    X(status_unread, 0, "the status requested and never read")                                                         \
    X(allocations_tiny, 0, "65,534 allocations of one byte")                                                           \
    X(regions_many, 0, "1,023 sparse regions")                                                                         \
    X(event_flood, 0, "events, as many as the ring takes")                                                             \
    X(launch_flood, 0, "tiny kernels, as many as the ring takes, on 32 streams")                                       \
    X(resize_flood, 0, "long kernels of clients that come and go: each changes who has which SMs")                     \
    X(copy_flood, 0, "copies of 256 MB")                                                                               \
    X(fill_flood, 0, "fills of 256 MB")                                                                                \
    X(load_flood, 0, "a cached source loaded and unloaded without end")                                                \
    X(actions_many, 0, "512 actions of each of 48 sessions behind a long kernel, then all gone")                       \
    X(shapes_many, 0, "each launch of another shape, of which the daemon knows nothing")                               \
    X(priority_flood, ATTACK_DELAYS, "the same tiny kernels with the highest priority and weight")                     \
    /* attack_sources.c */                                                                                             \
    X(sources_large, ATTACK_HEAVY, "200 sources of 16 MB")                                                             \
    X(sources_slow, ATTACK_HEAVY, "macros and templates that never end, and their clients gone")                       \
    X(sources_devices, ATTACK_HEAVY, "#include of /dev/zero, of a fifo, of a file of 64 GB")                           \
    X(source_names, 0, "names, options and kernels that a shell or a compiler could misunderstand")                    \
    X(source_malformed, 0, "files that are no sources")                                                                \
    X(source_header, ATTACK_HEAVY, "a header that changes between two loads: the second must see the change")          \
    X(source_computed, ATTACK_HEAVY, "a header whose name macros put together: it must be found")                      \
    X(source_arrays, 0, "PTX with arrays whose size does not fit into 64 bits: it must be refused")                    \
    /* attack_programs.c */                                                                                            \
    X(program_pages, 0, "programs of gridsmith run that write all over the board and their pages")                     \
    /* attack_status.c */                                                                                              \
    X(metrics_flood, 0, "connections to the metrics that say nothing, or do not read: others must be answered")        \
    X(status_paused, 0, "the status after a pause: it must have the time of the request")                              \
    /* attack_processes.c */                                                                                           \
    X(clients_of_children, 0, "children that open clients, hand their sockets over and end")                           \
    X(ids_reused, 0, "a process with the id of one that opened a client and has ended: the client must end")           \
    X(clients_killed, ATTACK_CROWDS, "200 processes that connect at once, and are killed meanwhile")                   \
    X(clients_stopped, 0, "clients stopped (SIGSTOP) in the middle of their work, then killed")                        \
    X(loads_without_end, 0, "clients that come, load and leave: one always loads")                                     \
    X(programs_many, 0, "100 programs of gridsmith run, and the status that lists them")                               \
    /* attack_kernels.c */                                                                                             \
    X(daemon_stopped, ATTACK_DELAYS, "the daemon stopped for moments (SIGSTOP)")                                       \
    X(worker_stopped, ATTACK_DELAYS, "the worker stopped for moments (SIGSTOP)")                                       \
    X(memory_all, 0, "all device memory that a client may have")                                                       \
    X(kernel_large, ATTACK_ON_CPU, "local variables, and variables of modules, that do not fit")                       \
    X(shared_wraps, 0, "launches whose shared memory does not fit into 64 bits: they must be refused")                 \
    X(worker_killed, ATTACK_ALONE, "the worker killed (SIGKILL), idle or busy")                                        \
    X(kernel_scribbles, ATTACK_ALONE, "kernels that write to random addresses")                                        \
    X(kernel_endless, ATTACK_ALONE, "kernels that never end")                                                          \
    X(kernel_faults, ATTACK_ALONE, "kernels that fault, overflow their stack or divide by zero")

#define HOSTILE_PROTOTYPE(name, flags, shows) void name(struct attacker *me);
HOSTILE_ATTACKS(HOSTILE_PROTOTYPE)
#undef HOSTILE_PROTOTYPE

extern const struct attack hostile_attacks[];
extern const size_t hostile_attack_count;

/* ---- raw.c ---- */

struct raw {
    int socket, page_fd;
    gs_wire_page *page;
    unsigned char *bytes; /* of the ring */
    _Atomic uint64_t *written, *read;
    _Atomic uint32_t *reader_sleeps, *writer_waits;
    uint64_t position;
    uint32_t tickets;
};

/* A connected socket, or -1. */
int raw_connect(struct attacker *me);
gs_wire_hello raw_hello(const char *name);
/* Connects, says hello and maps the page. False: refused, or not connected. */
bool raw_open(struct attacker *me, struct raw *raw);
bool raw_open_hello(struct attacker *me, struct raw *raw, const gs_wire_hello *hello);
void raw_close(struct attacker *me, struct raw *raw); /* counts its end code */

ssize_t raw_send(int socket, const void *bytes, size_t size, const int *fds, size_t count);
void raw_ring(const struct raw *raw);
/* False: the ring is full. */
bool raw_put(struct raw *raw, const void *record, uint32_t bytes);
/* Waits for space. False: the session has ended, or the time is up. */
bool raw_put_wait(struct attacker *me, struct raw *raw, const void *record, uint32_t bytes);
uint32_t raw_end_code(const struct raw *raw);
/* Waits for the end of the session, at most so long. */
void raw_wait_end(struct attacker *me, const struct raw *raw, int ms);
/* Waits until a stream has done everything up to the last command, or the session ends. */
bool raw_wait_done(struct attacker *me, const struct raw *raw, uint32_t stream, uint64_t command);

/* Memory with these seals (F_SEAL_...); -1: there is none. */
int raw_memory(uint64_t bytes, unsigned seals);
enum { RAW_SEALED = 7 }; /* F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW */
void raw_send_file(const struct raw *raw, int fd);
/* A file from a socket; -1: there is none now. */
int raw_receive_file(int socket);

/* Commands that are answered. Each waits for the reply; its code is counted. GS_CLIENT_LOST: the session has ended. */
gs_client_code raw_allocate(struct attacker *me, struct raw *raw, uint32_t memory, uint64_t bytes);
gs_client_code raw_share(struct attacker *me, struct raw *raw, uint32_t region, int fd, uint64_t bytes);
gs_client_code raw_load(struct attacker *me, struct raw *raw, uint32_t module, int source, const gs_wire_load *load);
void raw_free(struct attacker *me, struct raw *raw, enum gs_wire_command command, uint32_t handle);

/* A source as it is sent. `*load` gets its numbers. */
int raw_source(const char *name, const char *text, size_t size, const char *const *options, uint32_t option_count,
               const char *const *kernels, uint32_t kernel_count, gs_wire_load *load);
/* The kernels of the kit: cached when the attacks begin. */
enum hostile_kernel {
    KERNEL_TOUCH,
    KERNEL_SPIN,
    KERNEL_ENDLESS,
    KERNEL_FAULT,
    KERNEL_DEEP,
    KERNEL_DIVIDE,
    KERNEL_SCRIBBLE
};
int raw_kernels(gs_wire_load *load);
/* Opens a session with 4096 bytes of memory 1 and the kernels as module 1. */
bool raw_open_ready(struct attacker *me, struct raw *raw, const gs_wire_hello *hello_or_null);
/* A launch of kernel (memory 1, turns). */
struct raw_launch {
    gs_wire_launch launch;
    struct {
        gs_wire_argument head;
        uint64_t value;
    } arguments[2];
};
struct raw_launch raw_launch(uint32_t stream, enum hostile_kernel kernel, uint32_t blocks, uint32_t turns);

/* ---- honest.c ---- */

/* What an honest client does, and how long it waits for it. */
enum honest_operation {
    HONEST_OPEN,
    HONEST_MALLOC,
    HONEST_COPY_IN,
    HONEST_LAUNCH,
    HONEST_COPY_OUT,
    HONEST_EVENT,
    HONEST_FREE,
    HONEST_LOAD, /* from the cache */
    HONEST_HOST_MALLOC,
    HONEST_HOST_FREE,
    HONEST_STATUS,
    HONEST_COMPILE, /* a new source; not in the histogram */
    HONEST_AGAIN,   /* from an error that was expected to the end of the next round; not in the histogram */
    HONEST_OPERATIONS
};
extern const char *const honest_names[HONEST_OPERATIONS];

enum { TIME_BUCKETS = 640, TIMES_PHASES = 96 };

/* Waiting times: 16 buckets to each power of two of nanoseconds. */
struct times {
    _Atomic uint64_t count, rounds;
    _Atomic uint32_t buckets[TIME_BUCKETS];
    _Atomic uint64_t most_ns[HONEST_OPERATIONS];
};

/* What a client does at the moment, so that one that hangs is found. */
struct honest_state {
    _Atomic int64_t since_ns; /* 0: nothing */
    int64_t reported_ns;      /* the wait that was reported as hanging, by its beginning */
    _Atomic uint32_t operation;
    _Atomic uint32_t has_failed;
    char message[300];
};

enum { HONEST_MOST = 64 };

/* What the processes of the kit share. */
struct board {
    _Atomic uint32_t phase; /* the waiting times of now go there */
    _Atomic uint32_t must_stop;
    _Atomic uint32_t is_over;            /* the phase: its attackers end */
    struct times times[2][TIMES_PHASES]; /* of the attacked daemon; of the one that is left in peace */
    struct honest_state honest[2][HONEST_MOST];
    struct tally tallies[TIMES_PHASES];
};

struct honest {
    const char *socket;
    struct board *board;
    int side;      /* 0: the attacked daemon; 1: the other */
    int number;    /* of the client */
    bool may_fail; /* errors are expected, wrong results are not */
};

/* Works until it must stop. Returns the exit code: 0, or 1 and a message. */
int honest_works(const struct honest *honest);
uint64_t times_percentile_ns(const struct times *times, double part);
uint64_t times_most_ns(const struct times *times, enum honest_operation *which);
/* The same for operations that need no new connection. */
uint64_t times_most_inside_ns(const struct times *times);

/* ---- watch.c ---- */

struct footprint {
    uint64_t resident_kib, descriptors, mappings, cpu_ms;
};

/* All zero: there is no such process. */
struct footprint watch_process(pid_t process);
/* Children of a process, zombies included. */
size_t watch_children(pid_t process, pid_t *children, size_t most);
void watch_name(pid_t process, char *name, size_t size);
/* The worker of a daemon; 0: not found. */
pid_t watch_worker(pid_t daemon);
char watch_state(pid_t process); /* as in /proc/PID/stat; 0: there is none */
/* Entries of a folder whose names begin so. */
size_t watch_entries(const char *folder, const char *prefix);

/* ---- stage.c ---- */

struct stage_options {
    const char *program;     /* gridsmith */
    const char *device;      /* "host", or "cuda" */
    const char *const *more; /* options of the daemon, up to a NULL */
    uint64_t descriptors;    /* RLIMIT_NOFILE of the daemon; 0: as it is */
};

/* A daemon with a socket, a cache and a folder for temporary files of its own. */
struct stage {
    char folder[80], socket[100], cache[100], temporary[100], log[100];
    int metrics_port;
    pid_t daemon, worker;
    pid_t honest[HONEST_MOST];
    size_t honest_count;
    bool may_fail; /* its honest clients may get errors */
    long stuck;    /* clients that should be gone and were reported */
    int side;
    struct board *board;
};

bool stage_open(struct stage *stage, const char *folder, const struct stage_options *options);
/* Requests the status. False: no answer. `*clients` and `*restarts` may be NULL. */
bool stage_status(const struct stage *stage, long *clients, long *restarts, pid_t *worker);
/* The time that the status of the daemon at this socket has. False: no answer. */
bool stage_status_time(const char *socket, int64_t *time_ns);
void stage_start_honest(struct stage *stage, size_t count, bool may_fail);
/* Starts one again that has ended. */
void stage_restart_honest(struct stage *stage, size_t number);
/* Waits until no more clients are connected than so many, and no compiler runs. Clients that stay are reported once. */
bool stage_settle(struct stage *stage, long clients, int seconds);
/* Stops the honest clients. False: one has failed; it is said on standard error. */
bool stage_stop_honest(struct stage *stage);
/* Stops the daemon. False: it did not exit with 0, or left something behind. */
bool stage_close(struct stage *stage);

#endif
