/*
 * link.c: a client's end of the link to the daemon: the socket, the page and the ring that they share.
 *
 * A command is a record in the ring; sending it does not wait. The client counts commands, and the daemon writes each
 * stream's progress into the page. A thread that waits polls the page for some microseconds, then sleeps. If several
 * threads wait, one of them sleeps on the socket, where the daemon rings or hangs up, and wakes the others.
 *
 * Locks: `lock` for the ring and the tables; `staging.lock`, taken before it; `sleep_lock` for sleepers, taken last.
 */
#define _GNU_SOURCE
#include "link.h"

#include "descriptors.h"

#include <errno.h>
#include <poll.h>
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
    ANSWER_MS = 60000,   /* timeout of opening: a daemon that was just started opens its GPU */
    CONNECT_MS = 1000,   /* how long connecting sleeps at a time: a wake-up can be lost, see listener.c */
    CLOSE_MS = 1000,     /* the same of closing: a kernel that is running may take longer */
    SPIN_NS = 50000,     /* polling the page before sleeping, at most */
    SPIN_LEAST_NS = 2000 /* and at least */
};

/* ---- errors ---- */

static _Thread_local char message[GS_WIRE_MESSAGE + 100];

const char *gs_client_meaning(gs_client_code code) {
#define MEANING(name, meaning) meaning,
    static const char *const meanings[] = {GS_CLIENT_ERRORS(MEANING)};
#undef MEANING
    return code >= 0 && code < GS_CLIENT_CODES ? meanings[code] : "unknown";
}

const char *gs_client_message(void) {
    return message;
}

gs_client_code gs_link_fail(gs_client_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return code;
}

gs_client_code gs_link_fail_system(const char *what) {
    return gs_link_fail(GS_CLIENT_SYSTEM, "cannot %s: %s", what, strerror(errno));
}

gs_client_code gs_link_fail_message(uint32_t code, const char *text) {
    if (code == GS_CLIENT_OK || code >= GS_CLIENT_CODES)
        code = GS_CLIENT_SYSTEM;
    return gs_link_fail(code, "%.*s", GS_WIRE_MESSAGE - 1, text[0] ? text : gs_client_meaning(code));
}

gs_client_code gs_link_end_code(gs_client *client) {
    uint32_t end_code = atomic_load(&client->page->end_code); /* read again after announcing sleep */
    if (end_code)
        return gs_link_fail_message(end_code, client->page->end_message);
    if (atomic_load_explicit(&client->is_lost, memory_order_relaxed))
        return gs_link_fail_message(GS_CLIENT_LOST, "");
    return GS_CLIENT_OK;
}

/* ---- waiting ---- */

static bool is_met(const struct gs_link_condition *condition) {
    if (condition->counter)
        return atomic_load_explicit(condition->counter, memory_order_seq_cst) >= condition->least;
    if (condition->ticket)
        return atomic_load_explicit(condition->ticket, memory_order_seq_cst) == condition->wanted;
    return gs_ring_wants_space(condition->ring, condition->room) != GS_RING_NOT_NOW;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void relax_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins for a while. */
static bool spin_until(gs_client *client, const struct gs_link_condition *condition, uint64_t began) {
    uint64_t until = began + atomic_load_explicit(&client->spin_ns, memory_order_relaxed);
    bool met;
    do {
        for (int i = 0; i < 32 && !(met = is_met(condition)); i++)
            relax_cpu();
        if (!met)
            sched_yield();
    } while (!met && !atomic_load_explicit(&client->page->end_code, memory_order_relaxed) && now_ns() < until);
    return met;
}

/* A wait is over. If spinning would have seen its end, the next wait spins as long, otherwise less. */
static void learn_to_wait(gs_client *client, uint64_t ns) {
    uint32_t most = atomic_load_explicit(&client->spin_ns, memory_order_relaxed);
    uint32_t next = ns < SPIN_NS ? SPIN_NS : most / 2 > SPIN_LEAST_NS ? most / 2 : SPIN_LEAST_NS;
    if (next != most)
        atomic_store_explicit(&client->spin_ns, next, memory_order_relaxed);
}

/* Sleeps until the daemon rings or hangs up. */
static void sleep_on_socket(gs_client *client) {
    struct pollfd watched = {.fd = client->socket, .events = POLLIN};
    char byte;
    ssize_t got = 1;
    if (poll(&watched, 1, -1) < 0)
        return;
    while (got > 0)
        got = recv(client->socket, &byte, sizeof byte, MSG_DONTWAIT);
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        atomic_store(&client->is_lost, true);
}

/* Sleeps once. The thread that sleeps on the socket announces it while it holds `sleep_lock`, and the others check
   their conditions after that, so no ring is missed. */
static void sleep_once(gs_client *client, const struct gs_link_condition *condition) {
    pthread_mutex_lock(&client->sleep_lock);
    if (client->is_polling) {
        if (!is_met(condition) && gs_link_end_code(client) == GS_CLIENT_OK)
            pthread_cond_wait(&client->woken, &client->sleep_lock);
        pthread_mutex_unlock(&client->sleep_lock);
        return;
    }
    client->is_polling = true;
    atomic_store(&client->page->client_sleeps, 1);
    pthread_mutex_unlock(&client->sleep_lock);
    if (!is_met(condition) && gs_link_end_code(client) == GS_CLIENT_OK)
        sleep_on_socket(client);
    pthread_mutex_lock(&client->sleep_lock);
    client->is_polling = false;
    pthread_cond_broadcast(&client->woken);
    pthread_mutex_unlock(&client->sleep_lock);
}

gs_client_code gs_link_wait(gs_client *client, const struct gs_link_condition *condition) {
    if (is_met(condition))
        return GS_CLIENT_OK;
    uint64_t began = now_ns();
    while (!spin_until(client, condition, began)) {
        gs_client_code end_code = gs_link_end_code(client);
        if (end_code != GS_CLIENT_OK)
            return is_met(condition) ? GS_CLIENT_OK : end_code;
        sleep_once(client, condition);
    }
    learn_to_wait(client, now_ns() - began);
    return GS_CLIENT_OK;
}

/* ---- tables; under the lock ---- */

uint32_t gs_link_add(struct gs_link_table *table, uint64_t bytes) {
    uint32_t handle = table->hint ? table->hint : 1;
    while (handle < table->count && table->slots[handle].is_used)
        handle++;
    if (handle >= table->most)
        return 0;
    if (handle >= table->count) {
        uint32_t count = table->count ? table->count * 2 : 16;
        struct gs_link_slot *slots = realloc(table->slots, count * sizeof *slots);
        if (!slots)
            return 0;
        memset(slots + table->count, 0, (count - table->count) * sizeof *slots);
        table->slots = slots;
        table->count = count;
    }
    table->slots[handle] = (struct gs_link_slot){.is_used = true, .bytes = bytes};
    table->hint = handle + 1;
    return handle;
}

struct gs_link_slot *gs_link_find(const struct gs_link_table *table, uint32_t handle) {
    return handle < table->count && table->slots[handle].is_used ? &table->slots[handle] : NULL;
}

void gs_link_remove(struct gs_link_table *table, uint32_t handle) {
    table->slots[handle] = (struct gs_link_slot){.is_used = false};
    if (handle < table->hint)
        table->hint = handle;
}

/* ---- commands ---- */

gs_client_code gs_link_put(gs_client *client, const void *command, size_t bytes) {
    gs_client_code end_code = gs_link_end_code(client);
    while (end_code == GS_CLIENT_OK) {
        gs_ring_result result = gs_ring_put(&client->ring, command, (uint32_t)bytes);
        if (result == GS_RING_DONE) {
            client->commands++;
            return GS_CLIENT_OK;
        }
        if (result != GS_RING_NOT_NOW)
            return gs_link_fail(GS_CLIENT_SYSTEM, "the ring of commands is broken");
        end_code = gs_link_wait(client, &(struct gs_link_condition){.ring = &client->ring, .room = (uint32_t)bytes});
    }
    return end_code;
}

gs_client_code gs_link_put_stream(gs_client *client, const void *command, size_t bytes) {
    uint32_t stream = ((const gs_wire_head *)command)->stream;
    gs_client_code code = gs_link_put(client, command, bytes);
    if (code == GS_CLIENT_OK)
        client->last[stream] = client->commands;
    return code;
}

static gs_client_code send_file(gs_client *client, int fd) {
    const char byte = GS_WIRE_FILE;
    ssize_t sent;
    while ((sent = gs_descriptors_send(client->socket, &byte, sizeof byte, &fd, 1, 0)) < 0 && errno == EINTR)
        ;
    if (sent < 0 && errno == ETOOMANYREFS) /* too many descriptors of this user are in flight */
        return gs_link_fail_system("send a file to the daemon");
    return sent < 0 ? gs_link_fail(GS_CLIENT_LOST, "the daemon has ended") : GS_CLIENT_OK;
}

gs_client_code gs_link_put_file(gs_client *client, const void *command, size_t bytes, int fd) {
    while (client->files == GS_WIRE_FILES)
        pthread_cond_wait(&client->file_taken, &client->lock);
    client->files++;
    gs_client_code code = gs_link_end_code(client);
    if (code == GS_CLIENT_OK)
        code = send_file(client, fd);
    return code == GS_CLIENT_OK ? gs_link_put(client, command, bytes) : code;
}

void gs_link_file_taken(gs_client *client) {
    client->files--;
    pthread_cond_signal(&client->file_taken);
}

gs_client_code gs_link_check_stream(uint32_t stream) {
    return stream < GS_CLIENT_STREAMS
               ? GS_CLIENT_OK
               : gs_link_fail(GS_CLIENT_INVALID, "unknown stream %u: the last is %d", stream, GS_CLIENT_STREAMS - 1);
}

/* ---- replies ---- */

uint32_t gs_link_reply_take(gs_client *client, uint32_t *ticket) {
    while (client->replies == UINT64_MAX)
        pthread_cond_wait(&client->reply_free, &client->lock);
    uint32_t slot = 0;
    while (client->replies >> slot & 1)
        slot++;
    client->replies |= (uint64_t)1 << slot;
    *ticket = ++client->tickets ? client->tickets : ++client->tickets;
    return slot;
}

gs_client_code gs_link_reply_wait(gs_client *client, uint32_t slot, uint32_t ticket) {
    gs_wire_reply *reply = &client->page->replies[slot];
    gs_client_code code = gs_link_wait(client, &(struct gs_link_condition){.ticket = &reply->ticket, .wanted = ticket});
    if (code == GS_CLIENT_OK && reply->code != GS_CLIENT_OK)
        code = gs_link_fail_message(reply->code, reply->message);
    return code;
}

void gs_link_reply_give(gs_client *client, uint32_t slot) {
    client->replies &= ~((uint64_t)1 << slot);
    pthread_cond_signal(&client->reply_free);
}

/* ---- opening and closing ---- */

const char gs_wire_too_long[] = "the path of the socket is too long: Linux allows 107 bytes";

/* The default folder of the socket. */
static void fallback_folder(char *folder, size_t size) {
    snprintf(folder, size, "/tmp/gridsmith-%u", (unsigned)geteuid());
}

bool gs_wire_socket(const char *path_or_null, char *path, size_t size) {
    const char *named = path_or_null ? path_or_null : getenv("GRIDSMITH_SOCKET"), *folder = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address;
    char fallback[40];
    int length;
    fallback_folder(fallback, sizeof fallback);
    if (named && named[0])
        length = snprintf(path, size, "%s", named);
    else
        length = snprintf(path, size, "%s/gridsmith.sock", folder && folder[0] == '/' ? folder : fallback);
    return length > 0 && (size_t)length < size && (size_t)length < sizeof address.sun_path;
}

bool gs_wire_can_trust(const char *path, bool make) {
    struct stat status;
    char folder[40];
    fallback_folder(folder, sizeof folder);
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0 || path[length] != '/')
        return true;
    if (make)
        mkdir(folder, 0700); /* if it exists, its owner is checked */
    if (lstat(folder, &status) != 0)
        return !make; /* there is no daemon */
    return S_ISDIR(status.st_mode) && status.st_uid == geteuid() && !(status.st_mode & (S_IRWXG | S_IRWXO));
}

static void fail_connect(const char *path) {
    struct stat status;
    bool is_forbidden = errno == EACCES || errno == EPERM;
    if (is_forbidden && stat(path, &status) == 0 && status.st_mode & S_IWGRP)
        gs_link_fail(GS_CLIENT_NO_DAEMON, "%s is open only to its user, root and the members of group %u", path,
                     (unsigned)status.st_gid);
    else if (is_forbidden)
        gs_link_fail(GS_CLIENT_NO_DAEMON, "%s belongs to another user: only that user and root may use the daemon",
                     path);
    else if (errno == EAGAIN)
        gs_link_fail(GS_CLIENT_NO_DAEMON, "the daemon at %s does not answer", path);
    else
        gs_link_fail(GS_CLIENT_NO_DAEMON, "no daemon listens at %s (%s): start 'gridsmith serve'", path,
                     strerror(errno));
}

/* Sleeps while too many others wait to be accepted. */
static bool connect_socket(int fd, const struct sockaddr_un *address) {
    struct timeval most = {.tv_sec = CONNECT_MS / 1000, .tv_usec = CONNECT_MS % 1000 * 1000};
    uint64_t until = now_ns() + (uint64_t)ANSWER_MS * 1000000;
    int result;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    while ((result = connect(fd, (const struct sockaddr *)address, sizeof *address)) != 0 &&
           (errno == EAGAIN || errno == EINTR) && now_ns() < until)
        ;
    int reason = errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0}, sizeof most);
    errno = reason;
    return result == 0;
}

int gs_wire_connect(const char *path_or_null, const gs_wire_hello *hello) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!gs_wire_socket(path_or_null, address.sun_path, sizeof address.sun_path)) {
        gs_link_fail(GS_CLIENT_NO_DAEMON, "%s", gs_wire_too_long);
        return -1;
    }
    if (!gs_wire_can_trust(address.sun_path, false)) {
        gs_link_fail(GS_CLIENT_NO_DAEMON, GS_WIRE_NOT_OURS, address.sun_path);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        gs_link_fail_system("make a socket");
        return -1;
    }
    /* A daemon that refuses may hang up before the hello is sent; its reason can still be read. */
    if (connect_socket(fd, &address) &&
        (send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == sizeof *hello || errno == EPIPE || errno == ECONNRESET))
        return fd;
    fail_connect(address.sun_path);
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
    if (ready > 0 && got < 0 && errno == ECONNRESET) /* returned once; data sent before it can still be read */
        got = gs_descriptors_receive(socket, welcome, sizeof *welcome, fds, most, 0);
    if (got <= 0)
        return gs_link_fail(GS_CLIENT_REFUSED, ready > 0 ? "the daemon hung up" : "the daemon does not answer");
    if (got != sizeof *welcome || welcome->magic != GS_WIRE_MAGIC)
        return gs_link_fail(GS_CLIENT_REFUSED, "the program that listens there is not gridsmith serve");
    if (welcome->code != GS_CLIENT_OK)
        return gs_link_fail_message(welcome->code, welcome->message);
    if (welcome->version != GS_WIRE_VERSION)
        return gs_link_fail(GS_CLIENT_REFUSED, "the daemon uses version %u of the protocol, this program version %d",
                            welcome->version, GS_WIRE_VERSION);
    return GS_CLIENT_OK;
}

static gs_client_code map_page(gs_client *client, int fd, uint64_t bytes) {
    if (bytes != gs_wire_page_bytes())
        return gs_link_fail(GS_CLIENT_REFUSED, "the daemon uses a different layout of shared memory");
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return gs_link_fail_system("map the memory that the daemon shares");
    client->page = memory;
    gs_ring_attach_socket(&client->ring, client->page + 1, GS_WIRE_RING_BYTES, client->socket);
    return GS_CLIENT_OK;
}

static gs_client_code open_session(gs_client *client, const gs_client_options *options) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_HELLO};
    hello.weight = options && options->weight ? options->weight : 100;
    hello.priority = options ? options->priority : 0;
    hello.most_sms = options ? options->most_sms : 0;
    snprintf(hello.name, sizeof hello.name, "%s",
             options && options->name ? options->name : program_invocation_short_name);
    client->socket = gs_wire_connect(options ? options->socket : NULL, &hello);
    if (client->socket < 0)
        return GS_CLIENT_NO_DAEMON;
    gs_wire_welcome welcome;
    int page;
    gs_client_code code = gs_wire_answer(client->socket, &welcome, &page, 1);
    if (code == GS_CLIENT_OK)
        code = page < 0 ? gs_link_fail(GS_CLIENT_REFUSED, "the daemon shared no memory")
                        : map_page(client, page, welcome.page_bytes);
    if (page >= 0)
        close(page);
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
        return gs_link_fail(GS_CLIENT_INVALID, "a weight must be 1 to 1000, a priority -10 to 10");
    gs_client *client = calloc(1, sizeof *client);
    if (!client)
        return gs_link_fail(GS_CLIENT_MEMORY, "this process is out of memory");
    client->socket = -1;
    client->process = getpid();
    client->memories.most = GS_WIRE_MEMORIES;
    client->regions.most = GS_WIRE_REGIONS;
    client->modules.most = GS_WIRE_MODULES;
    atomic_init(&client->spin_ns, SPIN_NS);
    pthread_mutex_init(&client->lock, NULL);
    pthread_mutex_init(&client->staging.lock, NULL);
    pthread_mutex_init(&client->sleep_lock, NULL);
    pthread_cond_init(&client->reply_free, NULL);
    pthread_cond_init(&client->file_taken, NULL);
    pthread_cond_init(&client->woken, NULL);
    gs_client_code code = open_session(client, options);
    if (code == GS_CLIENT_OK)
        *opened = client;
    else
        gs_client_close(client);
    return code;
}

/* Tells the daemon that this client ends, and waits until it has freed everything: then it hangs up. A child that has
   inherited the socket must not end the client of its parent. */
static void hang_up(const gs_client *client) {
    struct pollfd watched = {.fd = client->socket, .events = POLLIN};
    uint64_t until = now_ns() + (uint64_t)CLOSE_MS * 1000000;
    char byte;
    ssize_t got = 1;
    if (!client->page || client->process != getpid() || shutdown(client->socket, SHUT_WR) != 0)
        return;
    for (uint64_t now; got != 0 && (now = now_ns()) < until;) {
        if (poll(&watched, 1, (int)((until - now) / 1000000) + 1) > 0)
            got = recv(client->socket, &byte, sizeof byte, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return;
    }
}

void gs_client_close(gs_client *client) {
    if (!client)
        return;
    if (client->socket >= 0)
        hang_up(client);
    for (uint32_t i = 1; i < client->regions.count; i++)
        if (client->regions.slots[i].is_used)
            munmap(client->regions.slots[i].address, client->regions.slots[i].bytes);
    if (client->page)
        munmap(client->page, gs_wire_page_bytes());
    if (client->socket >= 0)
        close(client->socket);
    free(client->memories.slots);
    free(client->regions.slots);
    free(client->modules.slots);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&client->staging.lock);
    pthread_mutex_destroy(&client->sleep_lock);
    pthread_cond_destroy(&client->reply_free);
    pthread_cond_destroy(&client->file_taken);
    pthread_cond_destroy(&client->woken);
    free(client);
}

const gs_client_facts *gs_client_facts_of(const gs_client *client) {
    return &client->facts;
}
