/*
 * client.c: the client library, the other end of session.c. It needs the C library and ring.c, and nothing else.
 *
 * A command is a record in the ring, and nobody waits for it: the client counts commands, the daemon says in the page
 * how far each stream is. Waiting is looking at the page, for some microseconds in a loop and then asleep; of several
 * threads that wait one sleeps on the bell and the socket (whose end is the end of the daemon) and wakes the others.
 *
 * Numbers of memory, regions and modules are chosen here. What a caller can get wrong is checked here, with words: a
 * daemon that is told nonsense ends the client.
 *
 * Locks: `lock` for the ring and the tables, `staging.lock` outside of it, `nap` for who sleeps, inside of both.
 */
#define _GNU_SOURCE
#include "descriptors.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 60000,    /* so long an opening client waits: a daemon that was just started looks for its GPU */
    SPIN_NS = 50000,      /* looking at the page before sleeping, at most */
    SPIN_LEAST_NS = 2000, /* and at least */
    OFFSET_BITS = 40,     /* of an address: its number is above */
    CHUNKS = 8,           /* of memory that is not shared, copies go through these */
    CHUNK_BYTES = 1 << 20,
};

/* ---- numbers: of memory, regions and modules ---- */

struct slot {
    bool is_used;
    uint64_t bytes; /* of a module: how many kernels */
    unsigned char *address;
};

struct table {
    struct slot *slots;
    uint32_t count, most, hint;
};

struct use {
    uint32_t stream;
    uint64_t number;
};

struct gs_client {
    int socket, bell, daemon_bell;
    gs_wire_page *page;
    gs_client_facts facts;

    pthread_mutex_t lock;
    gs_ring ring;
    uint64_t commands;                   /* written so far */
    uint64_t last[GS_CLIENT_STREAMS];    /* the last command of each stream */
    uint64_t recorded[GS_CLIENT_EVENTS]; /* the last command that recorded it; 0: none did */
    uint32_t errors[GS_CLIENT_STREAMS];  /* told to the caller */
    struct table memories, regions, modules;
    uint64_t replies; /* bit i: slot i is in use */
    uint32_t tickets;
    pthread_cond_t reply_free;

    struct {
        pthread_mutex_t lock;
        uint32_t region;
        unsigned char *memory;
        struct use uses[CHUNKS];
        uint32_t next;
    } staging;

    pthread_mutex_t nap;
    pthread_cond_t woken;
    bool somebody_polls;
    _Atomic bool is_lost;
    _Atomic uint32_t spin_ns;
};

/* ---- errors ---- */

static _Thread_local char words[GS_WIRE_WORDS + 100];

const char *gs_client_meaning(gs_client_code code) {
#define WORDS(name, meaning) meaning,
    static const char *const meanings[] = {GS_CLIENT_ERRORS(WORDS)};
#undef WORDS
    return code >= 0 && code < GS_CLIENT_CODES ? meanings[code] : "unknown";
}

const char *gs_client_message(void) {
    return words;
}

__attribute__((format(printf, 2, 3))) static gs_client_code fail(gs_client_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return code;
}

static gs_client_code fail_system(const char *what) {
    return fail(GS_CLIENT_SYSTEM, "cannot %s: %s", what, strerror(errno));
}

static gs_client_code fail_memory(void) {
    return fail(GS_CLIENT_MEMORY, "this process has no memory left");
}

/* Words that the daemon wrote: never longer than their room. */
static gs_client_code fail_told(uint32_t code, const char *told) {
    if (code == GS_CLIENT_OK || code >= GS_CLIENT_CODES)
        code = GS_CLIENT_SYSTEM;
    return fail(code, "%.*s", GS_WIRE_WORDS - 1, told[0] ? told : gs_client_meaning(code));
}

/* What has ended this client, or OK. */
static gs_client_code fate_of(gs_client *client) {
    uint32_t fate = atomic_load(&client->page->fate); /* also after saying that it sleeps */
    if (fate)
        return fail_told(fate, client->page->fate_words);
    if (atomic_load_explicit(&client->is_lost, memory_order_relaxed))
        return fail_told(GS_CLIENT_LOST, "");
    return GS_CLIENT_OK;
}

/* ---- waiting ---- */

/* What somebody waits for: a counter that reaches a number, a ticket, or room in the ring. */
struct wish {
    const _Atomic uint64_t *counter;
    uint64_t least;
    const _Atomic uint32_t *ticket;
    uint32_t wanted;
    gs_ring *ring;
    uint32_t room;
};

static bool is_met(const struct wish *wish) {
    if (wish->counter)
        return atomic_load_explicit(wish->counter, memory_order_seq_cst) >= wish->least;
    if (wish->ticket)
        return atomic_load_explicit(wish->ticket, memory_order_seq_cst) == wish->wanted;
    return gs_ring_wants_room(wish->ring, wish->room) != GS_RING_NOT_NOW;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Looks for a while. */
static bool spin(gs_client *client, const struct wish *wish, uint64_t began) {
    uint64_t until = began + atomic_load_explicit(&client->spin_ns, memory_order_relaxed);
    bool met;
    do {
        for (int i = 0; i < 32 && !(met = is_met(wish)); i++)
            relax();
        if (!met)
            sched_yield();
    } while (!met && !atomic_load_explicit(&client->page->fate, memory_order_relaxed) && now_ns() < until);
    return met;
}

/* A wait is over: one that looking would have seen the end of makes the next one look as long as that, others less. */
static void learn_to_wait(gs_client *client, uint64_t ns) {
    uint32_t most = atomic_load_explicit(&client->spin_ns, memory_order_relaxed);
    uint32_t next = ns < SPIN_NS ? SPIN_NS : most / 2 > SPIN_LEAST_NS ? most / 2 : SPIN_LEAST_NS;
    if (next != most)
        atomic_store_explicit(&client->spin_ns, next, memory_order_relaxed);
}

/* Sleeps until the daemon rings or is gone. */
static void sleep_on_bell(gs_client *client) {
    struct pollfd both[] = {{.fd = client->bell, .events = POLLIN}, {.fd = client->socket, .events = POLLIN}};
    if (poll(both, 2, -1) < 0)
        return;
    if (both[0].revents)
        gs_bell_silence(client->bell);
    else if (both[1].revents)
        atomic_store(&client->is_lost, true);
}

/* One turn of sleep. Who sleeps on the bell says so while it holds `nap`, and the others look at their wishes after
   that: no ring is missed. */
static void nap(gs_client *client, const struct wish *wish) {
    pthread_mutex_lock(&client->nap);
    if (client->somebody_polls) {
        if (!is_met(wish) && fate_of(client) == GS_CLIENT_OK)
            pthread_cond_wait(&client->woken, &client->nap);
        pthread_mutex_unlock(&client->nap);
        return;
    }
    client->somebody_polls = true;
    atomic_store(&client->page->client_sleeps, 1);
    pthread_mutex_unlock(&client->nap);
    if (!is_met(wish) && fate_of(client) == GS_CLIENT_OK)
        sleep_on_bell(client);
    pthread_mutex_lock(&client->nap);
    client->somebody_polls = false;
    pthread_cond_broadcast(&client->woken);
    pthread_mutex_unlock(&client->nap);
}

static gs_client_code wait_for(gs_client *client, const struct wish *wish) {
    if (is_met(wish))
        return GS_CLIENT_OK;
    uint64_t began = now_ns();
    while (!spin(client, wish, began)) {
        gs_client_code fate = fate_of(client);
        if (fate != GS_CLIENT_OK)
            return is_met(wish) ? GS_CLIENT_OK : fate;
        nap(client, wish);
    }
    learn_to_wait(client, now_ns() - began);
    return GS_CLIENT_OK;
}

/* ---- tables; under the lock ---- */

static uint32_t table_add(struct table *table, uint64_t bytes, void *address) {
    uint32_t number = table->hint ? table->hint : 1;
    while (number < table->count && table->slots[number].is_used)
        number++;
    if (number >= table->most)
        return 0;
    if (number >= table->count) {
        uint32_t count = table->count ? table->count * 2 : 16;
        struct slot *slots = realloc(table->slots, count * sizeof *slots);
        if (!slots)
            return 0;
        memset(slots + table->count, 0, (count - table->count) * sizeof *slots);
        table->slots = slots;
        table->count = count;
    }
    table->slots[number] = (struct slot){.is_used = true, .bytes = bytes, .address = address};
    table->hint = number + 1;
    return number;
}

static struct slot *table_find(const struct table *table, uint32_t number) {
    return number < table->count && table->slots[number].is_used ? &table->slots[number] : NULL;
}

static void table_remove(struct table *table, uint32_t number) {
    table->slots[number] = (struct slot){.is_used = false};
    if (number < table->hint)
        table->hint = number;
}

/* ---- commands ---- */

/* Under the lock. Waits where the ring is full: the daemon makes room whatever this client does. */
static gs_client_code put(gs_client *client, const void *command, size_t bytes) {
    gs_client_code fate = fate_of(client);
    while (fate == GS_CLIENT_OK) {
        gs_ring_result result = gs_ring_put(&client->ring, command, (uint32_t)bytes);
        if (result == GS_RING_DONE) {
            client->commands++;
            return GS_CLIENT_OK;
        }
        if (result != GS_RING_NOT_NOW)
            return fail(GS_CLIENT_SYSTEM, "the ring of commands is broken");
        fate = wait_for(client, &(struct wish){.ring = &client->ring, .room = (uint32_t)bytes});
    }
    return fate;
}

/* The same for a command of a stream. */
static gs_client_code put_stream(gs_client *client, const void *command, size_t bytes) {
    uint32_t stream = ((const gs_wire_head *)command)->stream;
    gs_client_code code = put(client, command, bytes);
    if (code == GS_CLIENT_OK)
        client->last[stream] = client->commands;
    return code;
}

static gs_client_code check_stream(uint32_t stream) {
    return stream < GS_CLIENT_STREAMS
               ? GS_CLIENT_OK
               : fail(GS_CLIENT_INVALID, "there is no stream %u: the last is %d", stream, GS_CLIENT_STREAMS - 1);
}

/* ---- replies ---- */

static uint32_t reply_take(gs_client *client, uint32_t *ticket) {
    while (client->replies == UINT64_MAX)
        pthread_cond_wait(&client->reply_free, &client->lock);
    uint32_t slot = 0;
    while (client->replies >> slot & 1)
        slot++;
    client->replies |= (uint64_t)1 << slot;
    *ticket = ++client->tickets ? client->tickets : ++client->tickets;
    return slot;
}

/* Waits, without the lock. */
static gs_client_code reply_wait(gs_client *client, uint32_t slot, uint32_t ticket) {
    gs_wire_reply *reply = &client->page->replies[slot];
    gs_client_code code = wait_for(client, &(struct wish){.ticket = &reply->ticket, .wanted = ticket});
    if (code == GS_CLIENT_OK && reply->code != GS_CLIENT_OK)
        code = fail_told(reply->code, reply->words);
    return code;
}

static void reply_give(gs_client *client, uint32_t slot) {
    client->replies &= ~((uint64_t)1 << slot);
    pthread_cond_signal(&client->reply_free);
}

/* ---- opening and closing ---- */

const char gs_wire_too_long[] = "the path of the socket is too long: 107 bytes are the most that Linux takes";

bool gs_wire_socket(const char *asked, char *path, size_t size) {
    const char *named = asked ? asked : getenv("GRIDSMITH_SOCKET"), *folder = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address;
    int length = -1;
    path[0] = '\0';
    if (named && named[0])
        length = snprintf(path, size, "%s", named);
    else if (folder && folder[0] == '/')
        length = snprintf(path, size, "%s/gridsmith.sock", folder);
    return length > 0 && (size_t)length < size && (size_t)length < sizeof address.sun_path;
}

int gs_wire_connect(const char *asked, const gs_wire_hello *hello) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!gs_wire_socket(asked, address.sun_path, sizeof address.sun_path)) {
        fail(GS_CLIENT_NO_DAEMON, "%s",
             address.sun_path[0] ? gs_wire_too_long : "where is the socket? set XDG_RUNTIME_DIR or GRIDSMITH_SOCKET");
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_system("make a socket");
        return -1;
    }
    /* A daemon that refuses may have hung up before the hello is sent: its reason can be read all the same. */
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        (send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == sizeof *hello || errno == EPIPE || errno == ECONNRESET))
        return fd;
    fail(GS_CLIENT_NO_DAEMON, "no daemon listens at %s (%s): start 'gridsmith serve'", address.sun_path,
         strerror(errno));
    close(fd);
    return -1;
}

gs_client_code gs_wire_answer(int socket, gs_wire_welcome *welcome, int *fds, size_t most) {
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    for (size_t i = 0; i < most; i++)
        fds[i] = -1;
    int ready;
    while ((ready = poll(&wait, 1, ANSWER_MS)) < 0 && errno == EINTR)
        ;
    ssize_t got = ready > 0 ? gs_descriptors_receive(socket, welcome, sizeof *welcome, fds, most, 0) : -1;
    if (ready > 0 && got < 0 && errno == ECONNRESET) /* told once; what was sent before it is still there */
        got = gs_descriptors_receive(socket, welcome, sizeof *welcome, fds, most, 0);
    if (got <= 0)
        return fail(GS_CLIENT_REFUSED, ready > 0 ? "the daemon hung up" : "the daemon does not answer");
    if (got != sizeof *welcome || welcome->magic != GS_WIRE_MAGIC)
        return fail(GS_CLIENT_REFUSED, "what listens there is not gridsmith serve");
    if (welcome->code != GS_CLIENT_OK)
        return fail_told(welcome->code, welcome->words);
    if (welcome->version != GS_WIRE_VERSION)
        return fail(GS_CLIENT_REFUSED, "the daemon speaks version %u of the protocol, this program %d",
                    welcome->version, GS_WIRE_VERSION);
    return GS_CLIENT_OK;
}

static void name_of_program(char *name, size_t size) {
    snprintf(name, size, "%s", program_invocation_short_name);
}

static gs_client_code map_page(gs_client *client, int fd, uint64_t bytes) {
    if (bytes != gs_wire_page_bytes())
        return fail(GS_CLIENT_REFUSED, "the daemon has another layout of shared memory");
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return fail_system("map the memory that the daemon shares");
    client->page = memory;
    gs_ring_attach(&client->ring, client->page + 1, GS_WIRE_RING_BYTES, client->daemon_bell);
    return GS_CLIENT_OK;
}

static gs_client_code open_session(gs_client *client, const gs_client_options *options) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_HELLO};
    hello.weight = options && options->weight ? options->weight : 100;
    hello.priority = options ? options->priority : 0;
    hello.most_sms = options ? options->most_sms : 0;
    if (options && options->name)
        snprintf(hello.name, sizeof hello.name, "%s", options->name);
    else
        name_of_program(hello.name, sizeof hello.name);
    client->socket = gs_wire_connect(options ? options->socket : NULL, &hello);
    if (client->socket < 0)
        return GS_CLIENT_NO_DAEMON;
    gs_wire_welcome welcome;
    int fds[3];
    gs_client_code code = gs_wire_answer(client->socket, &welcome, fds, 3);
    client->daemon_bell = fds[1];
    client->bell = fds[2];
    if (code == GS_CLIENT_OK)
        code = fds[2] < 0 ? fail(GS_CLIENT_REFUSED, "the daemon shared no memory")
                          : map_page(client, fds[0], welcome.page_bytes);
    if (fds[0] >= 0)
        close(fds[0]);
    if (code == GS_CLIENT_OK) {
        client->facts = (gs_client_facts){.is_gpu = welcome.is_gpu,
                                          .sms = welcome.sms,
                                          .architecture = welcome.architecture,
                                          .memory_bytes = welcome.memory_bytes};
        snprintf(client->facts.name, sizeof client->facts.name, "%.*s", (int)sizeof welcome.name - 1, welcome.name);
    }
    return code;
}

gs_client_code gs_client_open(const gs_client_options *options, gs_client **opened) {
    *opened = NULL;
    if (options && (options->weight > 1000 || options->priority < -10 || options->priority > 10))
        return fail(GS_CLIENT_INVALID, "weights are from 1 to 1000, priorities from -10 to 10");
    gs_client *client = calloc(1, sizeof *client);
    if (!client)
        return fail_memory();
    client->socket = client->bell = client->daemon_bell = -1;
    client->memories.most = GS_WIRE_MEMORIES;
    client->regions.most = GS_WIRE_REGIONS;
    client->modules.most = GS_WIRE_MODULES;
    atomic_init(&client->spin_ns, SPIN_NS);
    pthread_mutex_init(&client->lock, NULL);
    pthread_mutex_init(&client->staging.lock, NULL);
    pthread_mutex_init(&client->nap, NULL);
    pthread_cond_init(&client->reply_free, NULL);
    pthread_cond_init(&client->woken, NULL);
    gs_client_code code = open_session(client, options);
    if (code == GS_CLIENT_OK)
        *opened = client;
    else
        gs_client_close(client);
    return code;
}

static void close_fd(int fd) {
    if (fd >= 0)
        close(fd);
}

void gs_client_close(gs_client *client) {
    if (!client)
        return;
    for (uint32_t i = 1; i < client->regions.count; i++)
        if (client->regions.slots[i].is_used)
            munmap(client->regions.slots[i].address, client->regions.slots[i].bytes);
    if (client->page)
        munmap(client->page, gs_wire_page_bytes());
    close_fd(client->socket);
    close_fd(client->bell);
    close_fd(client->daemon_bell);
    free(client->memories.slots);
    free(client->regions.slots);
    free(client->modules.slots);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&client->staging.lock);
    pthread_mutex_destroy(&client->nap);
    pthread_cond_destroy(&client->reply_free);
    pthread_cond_destroy(&client->woken);
    free(client);
}

const gs_client_facts *gs_client_facts_of(const gs_client *client) {
    return &client->facts;
}

/* ---- memory of the GPU ---- */

gs_client_code gs_client_malloc(gs_client *client, size_t bytes, gs_client_memory *memory) {
    *memory = 0;
    if (!bytes || bytes >> OFFSET_BITS)
        return fail(GS_CLIENT_INVALID, "%zu bytes cannot be allocated", bytes);
    gs_wire_allocate command = {.head = {.what = GS_WIRE_ALLOCATE}, .bytes = bytes};
    pthread_mutex_lock(&client->lock);
    command.memory = table_add(&client->memories, bytes, NULL);
    gs_client_code code = command.memory ? GS_CLIENT_OK : fail(GS_CLIENT_MEMORY, "there are too many allocations");
    if (code == GS_CLIENT_OK) {
        command.reply = reply_take(client, &command.ticket);
        code = put(client, &command, sizeof command);
        pthread_mutex_unlock(&client->lock);
        if (code == GS_CLIENT_OK)
            code = reply_wait(client, command.reply, command.ticket);
        pthread_mutex_lock(&client->lock);
        reply_give(client, command.reply);
        if (code != GS_CLIENT_OK)
            table_remove(&client->memories, command.memory);
    }
    pthread_mutex_unlock(&client->lock);
    if (code == GS_CLIENT_OK)
        *memory = (uint64_t)command.memory << OFFSET_BITS;
    return code;
}

static uint32_t number_of(gs_client_memory memory) {
    return (uint32_t)(memory >> OFFSET_BITS);
}

static uint64_t offset_of(gs_client_memory memory) {
    return memory & (((uint64_t)1 << OFFSET_BITS) - 1);
}

/* Under the lock. Whether `bytes` from there on are in one allocation. */
static gs_client_code check_memory(gs_client *client, gs_client_memory memory, uint64_t bytes) {
    struct slot *slot = table_find(&client->memories, number_of(memory));
    if (!slot)
        return fail(GS_CLIENT_INVALID, "0x%llx is not an address that malloc gave", (unsigned long long)memory);
    if (offset_of(memory) > slot->bytes || bytes > slot->bytes - offset_of(memory))
        return fail(GS_CLIENT_INVALID, "%llu bytes at %llu are not within an allocation of %llu",
                    (unsigned long long)bytes, (unsigned long long)offset_of(memory), (unsigned long long)slot->bytes);
    return GS_CLIENT_OK;
}

static gs_client_code forget(gs_client *client, struct table *table, uint32_t what, uint32_t number) {
    gs_wire_forget command = {.head = {.what = what}, .number = number};
    gs_client_code code = put(client, &command, sizeof command);
    table_remove(table, number);
    return code;
}

gs_client_code gs_client_free(gs_client *client, gs_client_memory memory) {
    if (!memory)
        return GS_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    gs_client_code code = check_memory(client, memory, 0);
    if (code == GS_CLIENT_OK)
        code = offset_of(memory) ? fail(GS_CLIENT_INVALID, "what malloc gave is freed, not an address within it")
                                 : forget(client, &client->memories, GS_WIRE_FREE, number_of(memory));
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- files sent to the daemon: host memory, sources ---- */

static int sealed_file(size_t bytes) {
    int fd = memfd_create("gridsmith", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Under the lock, which it gives away while it waits. The socket takes few messages at a time, and the daemon reads
   them whatever happens, so that sending may wait. */
static gs_client_code send_file(gs_client *client, gs_wire_file *file, int fd) {
    file->reply = reply_take(client, &file->ticket);
    gs_client_code code = fate_of(client);
    pthread_mutex_unlock(&client->lock);
    if (code == GS_CLIENT_OK) {
        ssize_t sent;
        while ((sent = gs_descriptors_send(client->socket, file, sizeof *file, &fd, 1, 0)) < 0 && errno == EINTR)
            ;
        code = sent < 0 ? fail(GS_CLIENT_LOST, "the daemon is gone") : reply_wait(client, file->reply, file->ticket);
    }
    pthread_mutex_lock(&client->lock);
    reply_give(client, file->reply);
    return code;
}

static gs_client_code share(gs_client *client, int fd, size_t bytes, unsigned char *address, uint32_t *number) {
    gs_wire_file file = {.kind = GS_WIRE_SHARE, .bytes = bytes};
    pthread_mutex_lock(&client->lock);
    file.number = table_add(&client->regions, bytes, NULL); /* no copy finds it before it has its address */
    gs_client_code code =
        file.number ? send_file(client, &file, fd) : fail(GS_CLIENT_MEMORY, "there are too many pieces of host memory");
    if (file.number && code == GS_CLIENT_OK)
        client->regions.slots[file.number].address = address;
    else if (file.number)
        table_remove(&client->regions, file.number);
    pthread_mutex_unlock(&client->lock);
    *number = file.number;
    return code;
}

static gs_client_code host_malloc(gs_client *client, size_t bytes, void **memory, uint32_t *number) {
    int fd = sealed_file(bytes);
    if (fd < 0)
        return fail_system("make memory to share");
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    gs_client_code code =
        address == MAP_FAILED ? fail_system("map memory to share") : share(client, fd, bytes, address, number);
    if (code != GS_CLIENT_OK && address != MAP_FAILED)
        munmap(address, bytes);
    if (code == GS_CLIENT_OK)
        *memory = address;
    close(fd);
    return code;
}

gs_client_code gs_client_host_malloc(gs_client *client, size_t bytes, void **memory) {
    uint32_t number;
    *memory = NULL;
    if (!bytes || bytes > SIZE_MAX / 4)
        return fail(GS_CLIENT_INVALID, "%zu bytes cannot be allocated", bytes);
    return host_malloc(client, bytes, memory, &number);
}

/* Under the lock. The region that has these bytes of this process, or 0. */
static uint32_t find_region(const gs_client *client, const void *memory, size_t bytes) {
    uintptr_t at = (uintptr_t)memory;
    for (uint32_t i = 1; i < client->regions.count; i++) {
        const struct slot *slot = &client->regions.slots[i];
        uintptr_t begin = (uintptr_t)slot->address;
        if (begin && at >= begin && at - begin <= slot->bytes && bytes <= slot->bytes - (at - begin))
            return i;
    }
    return 0;
}

gs_client_code gs_client_host_free(gs_client *client, void *memory) {
    if (!memory)
        return GS_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    uint32_t region = find_region(client, memory, 0);
    gs_client_code code = GS_CLIENT_OK;
    if (!region || client->regions.slots[region].address != memory || memory == client->staging.memory)
        code = fail(GS_CLIENT_INVALID, "that is not memory that host_malloc gave");
    if (code == GS_CLIENT_OK) {
        munmap(memory, client->regions.slots[region].bytes);
        code = forget(client, &client->regions, GS_WIRE_UNSHARE, region);
    }
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- copies ---- */

static uint64_t stream_last(gs_client *client, uint32_t stream) {
    pthread_mutex_lock(&client->lock);
    uint64_t last = client->last[stream];
    pthread_mutex_unlock(&client->lock);
    return last;
}

static gs_client_code wait_number(gs_client *client, uint32_t stream, uint64_t number) {
    return wait_for(client, &(struct wish){.counter = &client->page->streams[stream].done, .least = number});
}

/* What failed in the stream without ending the client; told once. */
static gs_client_code stream_trouble(gs_client *client, uint32_t stream) {
    gs_wire_stream *told = &client->page->streams[stream];
    uint32_t errors = atomic_load_explicit(&told->errors, memory_order_acquire);
    pthread_mutex_lock(&client->lock);
    bool is_new = errors != client->errors[stream];
    client->errors[stream] = errors;
    pthread_mutex_unlock(&client->lock);
    return is_new ? fail_told(told->code, told->words) : GS_CLIENT_OK;
}

static gs_client_code put_copy(gs_client *client, bool in, uint32_t stream, gs_client_memory memory, uint32_t region,
                               uint64_t region_at, size_t bytes) {
    gs_wire_copy command = {.head = {.what = in ? GS_WIRE_COPY_IN : GS_WIRE_COPY_OUT, .stream = stream},
                            .memory = number_of(memory),
                            .region = region,
                            .at = offset_of(memory),
                            .region_at = region_at,
                            .bytes = bytes};
    return put_stream(client, &command, sizeof command);
}

/* Copies that need no staging; `*is_done`: this was one. */
static gs_client_code copy_shared(gs_client *client, bool in, uint32_t stream, gs_client_memory memory,
                                  const void *host, size_t bytes, bool *is_done) {
    *is_done = true;
    gs_client_code code = check_stream(stream);
    if (code != GS_CLIENT_OK)
        return code;
    pthread_mutex_lock(&client->lock);
    code = check_memory(client, memory, bytes);
    uint32_t region = code == GS_CLIENT_OK && bytes ? find_region(client, host, bytes) : 0;
    if (region)
        code = put_copy(client, in, stream, memory, region,
                        (uint64_t)((const unsigned char *)host - client->regions.slots[region].address), bytes);
    pthread_mutex_unlock(&client->lock);
    *is_done = code != GS_CLIENT_OK || region || !bytes;
    return code;
}

/* Under staging.lock. The next chunk, when what it was used for is done. */
static gs_client_code take_chunk(gs_client *client, uint32_t *chunk) {
    if (!client->staging.memory) {
        void *memory;
        gs_client_code code = host_malloc(client, (size_t)CHUNKS * CHUNK_BYTES, &memory, &client->staging.region);
        if (code != GS_CLIENT_OK)
            return code;
        client->staging.memory = memory;
    }
    *chunk = client->staging.next++ % CHUNKS;
    struct use *use = &client->staging.uses[*chunk];
    return use->number ? wait_number(client, use->stream, use->number) : GS_CLIENT_OK;
}

static gs_client_code put_chunk(gs_client *client, bool in, uint32_t stream, gs_client_memory memory, uint32_t chunk,
                                size_t bytes) {
    pthread_mutex_lock(&client->lock);
    gs_client_code code =
        put_copy(client, in, stream, memory, client->staging.region, (uint64_t)chunk * CHUNK_BYTES, bytes);
    client->staging.uses[chunk] = (struct use){.stream = stream, .number = client->last[stream]};
    pthread_mutex_unlock(&client->lock);
    return code;
}

static size_t chunk_part(size_t left) {
    return left < CHUNK_BYTES ? left : CHUNK_BYTES;
}

static gs_client_code stage_in(gs_client *client, uint32_t stream, gs_client_memory to, const unsigned char *from,
                               size_t bytes) {
    gs_client_code code = GS_CLIENT_OK;
    for (size_t at = 0, part; at < bytes && code == GS_CLIENT_OK; at += part) {
        uint32_t chunk;
        part = chunk_part(bytes - at);
        code = take_chunk(client, &chunk);
        if (code != GS_CLIENT_OK)
            break;
        memcpy(client->staging.memory + (size_t)chunk * CHUNK_BYTES, from + at, part);
        code = put_chunk(client, true, stream, to + at, chunk, part);
    }
    return code;
}

/* The device writes some chunks ahead while this side empties others. */
static gs_client_code stage_out(gs_client *client, uint32_t stream, unsigned char *to, gs_client_memory from,
                                size_t bytes) {
    gs_client_code code = GS_CLIENT_OK;
    uint32_t chunks[CHUNKS];
    size_t asked = 0, emptied = 0, parts = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    while (emptied < parts && code == GS_CLIENT_OK) {
        if (asked < parts && asked - emptied < CHUNKS) {
            size_t at = asked * CHUNK_BYTES;
            code = take_chunk(client, &chunks[asked % CHUNKS]);
            if (code == GS_CLIENT_OK)
                code = put_chunk(client, false, stream, from + at, chunks[asked % CHUNKS], chunk_part(bytes - at));
            asked++;
            continue;
        }
        uint32_t chunk = chunks[emptied % CHUNKS];
        size_t at = emptied++ * CHUNK_BYTES;
        code = wait_number(client, stream, client->staging.uses[chunk].number);
        if (code == GS_CLIENT_OK)
            memcpy(to + at, client->staging.memory + (size_t)chunk * CHUNK_BYTES, chunk_part(bytes - at));
    }
    return code == GS_CLIENT_OK ? stream_trouble(client, stream) : code;
}

gs_client_code gs_client_copy_in(gs_client *client, uint32_t stream, gs_client_memory to, const void *from,
                                 size_t bytes) {
    bool is_done;
    gs_client_code code = copy_shared(client, true, stream, to, from, bytes, &is_done);
    if (is_done)
        return code;
    pthread_mutex_lock(&client->staging.lock);
    code = stage_in(client, stream, to, from, bytes);
    pthread_mutex_unlock(&client->staging.lock);
    return code;
}

gs_client_code gs_client_copy_out(gs_client *client, uint32_t stream, void *to, gs_client_memory from, size_t bytes) {
    bool is_done;
    gs_client_code code = copy_shared(client, false, stream, from, to, bytes, &is_done);
    if (is_done)
        return code;
    pthread_mutex_lock(&client->staging.lock);
    code = stage_out(client, stream, to, from, bytes);
    pthread_mutex_unlock(&client->staging.lock);
    return code;
}

gs_client_code gs_client_fill(gs_client *client, uint32_t stream, gs_client_memory to, uint8_t value, size_t bytes) {
    gs_client_code code = check_stream(stream);
    if (code != GS_CLIENT_OK)
        return code;
    gs_wire_fill command = {.head = {.what = GS_WIRE_FILL, .stream = stream},
                            .memory = number_of(to),
                            .value = value,
                            .at = offset_of(to),
                            .bytes = bytes};
    pthread_mutex_lock(&client->lock);
    code = check_memory(client, to, bytes);
    if (code == GS_CLIENT_OK && bytes)
        code = put_stream(client, &command, sizeof command);
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- kernels ---- */

/* Lengths of what a source is made of, with the NULs; SIZE_MAX: something is missing. */
static size_t source_bytes(const gs_client_source *source, const char *name, size_t size) {
    size_t bytes = strlen(name) + 1 + size;
    for (uint32_t i = 0; i < source->option_count; i++)
        bytes += strlen(source->options[i]) + 1;
    for (uint32_t i = 0; i < source->kernel_count; i++)
        bytes += strlen(source->kernels[i]) + 1;
    return bytes;
}

static bool write_all(int fd, const void *bytes, size_t count) {
    for (const unsigned char *at = bytes; count;) {
        ssize_t wrote = write(fd, at, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

static bool write_source(int fd, const gs_client_source *source, const char *name, size_t size) {
    bool is_good = write_all(fd, name, strlen(name) + 1);
    for (uint32_t i = 0; i < source->option_count && is_good; i++)
        is_good = write_all(fd, source->options[i], strlen(source->options[i]) + 1);
    for (uint32_t i = 0; i < source->kernel_count && is_good; i++)
        is_good = write_all(fd, source->kernels[i], strlen(source->kernels[i]) + 1);
    return is_good && write_all(fd, source->text, size);
}

gs_client_code gs_client_load(gs_client *client, const gs_client_source *source, uint32_t *module) {
    const char *name = source->name ? source->name : "source.cu";
    size_t size = source->size ? source->size : strlen(source->text);
    *module = 0;
    if (!source->kernel_count)
        return fail(GS_CLIENT_INVALID, "which kernels of the source?");
    gs_wire_file file = {.kind = GS_WIRE_LOAD,
                         .bytes = source_bytes(source, name, size),
                         .options = source->option_count,
                         .kernels = source->kernel_count};
    if (file.bytes > GS_WIRE_SOURCE_BYTES)
        return fail(GS_CLIENT_INVALID, "a source has at most %d bytes", GS_WIRE_SOURCE_BYTES);
    int fd = sealed_file(file.bytes);
    if (fd < 0 || !write_source(fd, source, name, size)) {
        close_fd(fd);
        return fail_system("write the source for the daemon");
    }
    pthread_mutex_lock(&client->lock);
    file.number = table_add(&client->modules, source->kernel_count, NULL);
    gs_client_code code =
        file.number ? send_file(client, &file, fd) : fail(GS_CLIENT_MEMORY, "there are too many modules");
    if (file.number && code != GS_CLIENT_OK)
        table_remove(&client->modules, file.number);
    pthread_mutex_unlock(&client->lock);
    close(fd);
    if (code == GS_CLIENT_OK)
        *module = file.number;
    return code;
}

gs_client_code gs_client_unload(gs_client *client, uint32_t module) {
    pthread_mutex_lock(&client->lock);
    gs_client_code code = table_find(&client->modules, module)
                              ? forget(client, &client->modules, GS_WIRE_UNLOAD, module)
                              : fail(GS_CLIENT_INVALID, "there is no module %u", module);
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- launches ---- */

struct packed {
    gs_wire_launch launch;
    alignas(8) unsigned char arguments[GS_WIRE_MOST_BYTES - sizeof(gs_wire_launch)];
};

/* Under the lock. */
static gs_client_code pack_argument(gs_client *client, const gs_client_argument *argument, unsigned char *into,
                                    size_t *at, size_t *values) {
    gs_wire_argument head = {.bytes = argument->bytes};
    uint64_t offset;
    const void *value = argument->value;
    if (argument->is_memory) {
        gs_client_memory memory;
        if (argument->bytes != sizeof memory)
            return fail(GS_CLIENT_INVALID, "an address has %zu bytes, not %u", sizeof memory, argument->bytes);
        memcpy(&memory, value, sizeof memory);
        gs_client_code code = check_memory(client, memory, 1);
        if (code != GS_CLIENT_OK)
            return code;
        head.memory = number_of(memory);
        offset = offset_of(memory);
        value = &offset;
    } else {
        *values += (argument->bytes + 7) & ~(size_t)7;
        if (!argument->bytes || argument->bytes > GS_CLIENT_VALUE_BYTES || *values > GS_CLIENT_VALUES_BYTES)
            return fail(GS_CLIENT_INVALID, "an argument has 1 to %d bytes, all together at most %d",
                        GS_CLIENT_VALUE_BYTES, GS_CLIENT_VALUES_BYTES);
    }
    memcpy(into + *at, &head, sizeof head);
    memcpy(into + *at + sizeof head, value, head.bytes);
    *at += sizeof head + ((head.bytes + 7) & ~(size_t)7);
    return GS_CLIENT_OK;
}

static gs_client_code pack(gs_client *client, const gs_client_launch *launch, struct packed *packed, size_t *bytes) {
    const struct slot *module = table_find(&client->modules, launch->module);
    if (!module || launch->kernel >= module->bytes)
        return fail(GS_CLIENT_INVALID, "there is no kernel %u in module %u", launch->kernel, launch->module);
    if (launch->argument_count > GS_CLIENT_ARGUMENTS)
        return fail(GS_CLIENT_INVALID, "a kernel has at most %d arguments here", GS_CLIENT_ARGUMENTS);
    size_t at = 0, values = 0;
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        gs_client_code code = pack_argument(client, &launch->arguments[i], packed->arguments, &at, &values);
        if (code != GS_CLIENT_OK)
            return code;
    }
    *bytes = sizeof packed->launch + at;
    return GS_CLIENT_OK;
}

gs_client_code gs_client_start(gs_client *client, uint32_t stream, const gs_client_launch *launch) {
    struct packed packed;
    size_t bytes = 0;
    gs_client_code code = check_stream(stream);
    if (code != GS_CLIENT_OK)
        return code;
    packed.launch = (gs_wire_launch){.head = {.what = GS_WIRE_LAUNCH, .stream = stream},
                                     .module = launch->module,
                                     .kernel = launch->kernel,
                                     .shared_bytes = launch->shared_bytes,
                                     .arguments = launch->argument_count};
    for (int i = 0; i < 3; i++) {
        packed.launch.grid[i] = launch->grid[i] ? launch->grid[i] : 1;
        packed.launch.block[i] = launch->block[i] ? launch->block[i] : 1;
    }
    pthread_mutex_lock(&client->lock);
    code = pack(client, launch, &packed, &bytes);
    if (code == GS_CLIENT_OK)
        code = put_stream(client, &packed, bytes);
    pthread_mutex_unlock(&client->lock);
    return code;
}

gs_client_code gs_client_wait(gs_client *client, uint32_t stream) {
    gs_client_code code = check_stream(stream);
    if (code == GS_CLIENT_OK)
        code = wait_number(client, stream, stream_last(client, stream));
    if (code == GS_CLIENT_OK)
        code = fate_of(client);
    return code == GS_CLIENT_OK ? stream_trouble(client, stream) : code;
}

gs_client_code gs_client_wait_all(gs_client *client) {
    gs_client_code code = GS_CLIENT_OK;
    for (uint32_t i = 0; i < GS_CLIENT_STREAMS; i++) {
        gs_client_code found = gs_client_wait(client, i);
        code = code == GS_CLIENT_OK ? found : code;
    }
    return code;
}

/* ---- events ---- */

gs_client_code gs_client_event(gs_client *client, uint32_t stream, uint32_t event) {
    gs_client_code code = check_stream(stream);
    if (code == GS_CLIENT_OK && event >= GS_CLIENT_EVENTS)
        code = fail(GS_CLIENT_INVALID, "there is no event %u: the last is %d", event, GS_CLIENT_EVENTS - 1);
    if (code != GS_CLIENT_OK)
        return code;
    gs_wire_record command = {.head = {.what = GS_WIRE_EVENT, .stream = stream}, .event = event};
    pthread_mutex_lock(&client->lock);
    code = put_stream(client, &command, sizeof command);
    if (code == GS_CLIENT_OK)
        client->recorded[event] = client->commands;
    pthread_mutex_unlock(&client->lock);
    return code;
}

gs_client_code gs_client_event_wait(gs_client *client, uint32_t event) {
    if (event >= GS_CLIENT_EVENTS)
        return fail(GS_CLIENT_INVALID, "there is no event %u: the last is %d", event, GS_CLIENT_EVENTS - 1);
    pthread_mutex_lock(&client->lock);
    uint64_t number = client->recorded[event];
    pthread_mutex_unlock(&client->lock);
    if (!number)
        return fail(GS_CLIENT_INVALID, "event %u was never recorded", event);
    return wait_for(client, &(struct wish){.counter = &client->page->events[event].command, .least = number});
}

gs_client_code gs_client_elapsed(gs_client *client, uint32_t from, uint32_t to, int64_t *nanoseconds) {
    *nanoseconds = 0;
    gs_client_code code = gs_client_event_wait(client, from);
    if (code == GS_CLIENT_OK)
        code = gs_client_event_wait(client, to);
    if (code == GS_CLIENT_OK)
        *nanoseconds =
            atomic_load(&client->page->events[to].time_ns) - atomic_load(&client->page->events[from].time_ns);
    return code;
}
