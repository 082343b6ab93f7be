/*
 * raw.c: the protocol by hand.
 *
 * Written from docs/protocol.md and src/sharing/client/wire.h. The layout of a ring: the position of the writer, that
 * of the reader 64 bytes behind it, the two requests to be woken 64 bytes behind that, and the records from byte 192
 * on.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { READ_AT = 64, REQUESTS_AT = 128, RECORDS_AT = 192, HEAD = 8 };

/* ---- attackers ---- */

int64_t hostile_now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void hostile_sleep_ms(long ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

bool attacker_has_time(const struct attacker *me) {
    return hostile_now_ns() < me->until_ns && !(me->is_over && atomic_load(me->is_over));
}

uint64_t attacker_random(struct attacker *me, uint64_t most) {
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return most ? (me->random >> 11) % most : 0;
}

void attacker_blames(struct attacker *me, const char *format, ...) {
    va_list arguments;
    if (atomic_exchange(&me->tally->is_broken, 1))
        return;
    va_start(arguments, format);
    vsnprintf(me->tally->note, sizeof me->tally->note, format, arguments);
    va_end(arguments);
}

/* ---- opening and closing ---- */

int raw_connect(struct attacker *me) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", me->socket);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        if ((errno == EAGAIN || errno == EINTR) && attacker_has_time(me)) { /* the queue of the listener is full */
            hostile_sleep_ms(1);
            continue;
        }
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        atomic_fetch_add(&me->tally->unconnected, 1);
        hostile_sleep_ms(1);
    }
    return fd;
}

gs_wire_hello raw_hello(const char *name) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_HELLO, .weight = 100};
    snprintf(hello.name, sizeof hello.name, "%s", name);
    return hello;
}

static bool wait_readable(const struct attacker *me, int fd) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int64_t left = (me->until_ns - hostile_now_ns()) / 1000000;
    return left > 0 && poll(&wait, 1, (int)left + 1) > 0;
}

/* The answer to a hello, and its descriptor. */
static bool take_welcome(int socket, gs_wire_welcome *welcome, int *fd) {
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = welcome, .iov_len = sizeof *welcome};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *with = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *fd = -1;
    if (with && with->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(with), sizeof *fd);
    return got == sizeof *welcome && welcome->code == GS_CLIENT_OK;
}

static bool map_page(struct raw *raw) {
    char *page = mmap(NULL, gs_wire_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, raw->page_fd, 0);
    if (page == MAP_FAILED)
        return false;
    char *ring = page + sizeof(gs_wire_page);
    raw->page = (gs_wire_page *)(void *)page;
    raw->written = (void *)ring;
    raw->read = (void *)(ring + READ_AT);
    raw->reader_sleeps = (void *)(ring + REQUESTS_AT);
    raw->writer_waits = (void *)(ring + REQUESTS_AT + 4);
    raw->bytes = (unsigned char *)ring + RECORDS_AT;
    return true;
}

bool raw_open_hello(struct attacker *me, struct raw *raw, const gs_wire_hello *hello) {
    gs_wire_welcome welcome;
    *raw = (struct raw){.socket = raw_connect(me), .page_fd = -1};
    if (raw->socket < 0)
        return false;
    raw_send(raw->socket, hello, sizeof *hello, NULL, 0);
    if (wait_readable(me, raw->socket) && take_welcome(raw->socket, &welcome, &raw->page_fd) && raw->page_fd >= 0 &&
        map_page(raw)) {
        atomic_fetch_add(&me->tally->opened, 1);
        return true;
    }
    atomic_fetch_add(&me->tally->refused, 1);
    if (raw->page_fd >= 0)
        close(raw->page_fd);
    close(raw->socket);
    hostile_sleep_ms(1);
    return false;
}

bool raw_open(struct attacker *me, struct raw *raw) {
    gs_wire_hello hello = raw_hello("hostile");
    return raw_open_hello(me, raw, &hello);
}

void raw_close(struct attacker *me, struct raw *raw) {
    uint32_t code = raw_end_code(raw);
    if (code && code < GS_CLIENT_CODES)
        atomic_fetch_add(&me->tally->ends[code], 1);
    munmap(raw->page, gs_wire_page_bytes());
    close(raw->page_fd);
    close(raw->socket);
}

/* ---- messages and records ---- */

ssize_t raw_send(int socket, const void *bytes, size_t size, const int *fds, size_t count) {
    enum { MOST = 253 }; /* that Linux takes in one message */
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * MOST)] = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0 && count <= MOST) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *with = CMSG_FIRSTHDR(&message);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(with), fds, sizeof(int) * count);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void raw_ring(const struct raw *raw) {
    const char byte = GS_RING_BYTE;
    raw_send(raw->socket, &byte, 1, NULL, 0);
}

static void copy_in(const struct raw *raw, uint64_t position, const void *from, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        raw->bytes[(position + i) % GS_WIRE_RING_BYTES] = ((const unsigned char *)from)[i];
}

bool raw_put(struct raw *raw, const void *record, uint32_t bytes) {
    const uint32_t head[2] = {bytes, 0};
    uint64_t whole = HEAD + ((uint64_t)bytes + 7) / 8 * 8;
    if (raw->position + whole - atomic_load(raw->read) > GS_WIRE_RING_BYTES)
        return false;
    copy_in(raw, raw->position, head, sizeof head);
    copy_in(raw, raw->position + HEAD, record, bytes);
    raw->position += whole;
    atomic_store(raw->written, raw->position);
    if (atomic_load(raw->reader_sleeps) && atomic_exchange(raw->reader_sleeps, 0))
        raw_ring(raw);
    return true;
}

uint32_t raw_end_code(const struct raw *raw) {
    return atomic_load(&raw->page->end_code);
}

bool raw_put_wait(struct attacker *me, struct raw *raw, const void *record, uint32_t bytes) {
    while (!raw_put(raw, record, bytes)) {
        if (raw_end_code(raw) || !attacker_has_time(me))
            return false;
        hostile_sleep_ms(1);
    }
    return true;
}

void raw_wait_end(struct attacker *me, const struct raw *raw, int ms) {
    for (int i = 0; i < ms && !raw_end_code(raw) && attacker_has_time(me); i++)
        hostile_sleep_ms(1);
}

bool raw_wait_done(struct attacker *me, const struct raw *raw, uint32_t stream, uint64_t command) {
    while (atomic_load(&raw->page->streams[stream].done) < command) {
        if (raw_end_code(raw) || !attacker_has_time(me))
            return false;
        hostile_sleep_ms(1);
    }
    return true;
}

/* ---- files ---- */

int raw_memory(uint64_t bytes, unsigned seals) {
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0))
        return fd;
    close(fd);
    return -1;
}

void raw_send_file(const struct raw *raw, int fd) {
    const char byte = GS_WIRE_FILE;
    raw_send(raw->socket, &byte, 1, &fd, 1);
}

/* ---- commands that are answered ---- */

static gs_client_code wait_reply(struct attacker *me, struct raw *raw, uint32_t slot, uint32_t ticket) {
    const gs_wire_reply *reply = &raw->page->replies[slot];
    while (atomic_load(&reply->ticket) != ticket) {
        if (raw_end_code(raw) || !attacker_has_time(me))
            return GS_CLIENT_LOST;
        hostile_sleep_ms(1);
    }
    uint32_t code = reply->code < GS_CLIENT_CODES ? reply->code : (uint32_t)GS_CLIENT_SYSTEM;
    atomic_fetch_add(&me->tally->replies[code], 1);
    return (gs_client_code)code;
}

gs_client_code raw_allocate(struct attacker *me, struct raw *raw, uint32_t memory, uint64_t bytes) {
    const gs_wire_allocate command = {
        .head = {.command = GS_WIRE_ALLOCATE}, .ticket = ++raw->tickets, .memory = memory, .bytes = bytes};
    return raw_put_wait(me, raw, &command, sizeof command) ? wait_reply(me, raw, 0, raw->tickets) : GS_CLIENT_LOST;
}

gs_client_code raw_share(struct attacker *me, struct raw *raw, uint32_t region, int fd, uint64_t bytes) {
    const gs_wire_share command = {
        .head = {.command = GS_WIRE_SHARE}, .ticket = ++raw->tickets, .region = region, .bytes = bytes};
    raw_send_file(raw, fd);
    return raw_put_wait(me, raw, &command, sizeof command) ? wait_reply(me, raw, 0, raw->tickets) : GS_CLIENT_LOST;
}

gs_client_code raw_load(struct attacker *me, struct raw *raw, uint32_t module, int source, const gs_wire_load *load) {
    gs_wire_load command = *load;
    command.ticket = ++raw->tickets;
    command.module = module;
    raw_send_file(raw, source);
    return raw_put_wait(me, raw, &command, sizeof command) ? wait_reply(me, raw, 0, raw->tickets) : GS_CLIENT_LOST;
}

void raw_free(struct attacker *me, struct raw *raw, enum gs_wire_command command, uint32_t handle) {
    const gs_wire_free record = {.head = {.command = command}, .handle = handle};
    raw_put_wait(me, raw, &record, sizeof record);
}

/* ---- sources ---- */

static bool write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t put = write(fd, bytes, count);
        if (put <= 0)
            return false;
        bytes += put;
        count -= (size_t)put;
    }
    return true;
}

int raw_source(const char *name, const char *text, size_t size, const char *const *options, uint32_t option_count,
               const char *const *kernels, uint32_t kernel_count, gs_wire_load *load) {
    int fd = memfd_create("hostile-source", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool is_written = fd >= 0 && write_all(fd, name, strlen(name) + 1);
    for (uint32_t i = 0; i < option_count && is_written; i++)
        is_written = write_all(fd, options[i], strlen(options[i]) + 1);
    for (uint32_t i = 0; i < kernel_count && is_written; i++)
        is_written = write_all(fd, kernels[i], strlen(kernels[i]) + 1);
    is_written = is_written && write_all(fd, text, size);
    off_t bytes = is_written ? lseek(fd, 0, SEEK_CUR) : 0;
    *load = (gs_wire_load){
        .head = {.command = GS_WIRE_LOAD}, .options = option_count, .kernels = kernel_count, .bytes = (uint64_t)bytes};
    if (is_written && fcntl(fd, F_ADD_SEALS, RAW_SEALED | F_SEAL_WRITE) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int raw_receive_file(int socket) {
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

int raw_kernels(gs_wire_load *load) {
    static const char text[] =
        "__global__ void touch(int *out, int turns) { if (threadIdx.x == 0) out[blockIdx.x % 1000] = turns; }\n"
        "__global__ void spin(int *out, int turns) {\n"
        "    unsigned x = blockIdx.x;\n"
        "    for (int i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;\n"
        "    if (threadIdx.x == 0) out[blockIdx.x % 1000] = (int)x;\n"
        "}\n"
        "__global__ void endless(volatile int *out, int turns) { while (out[0] != turns + 1) out[1] = 1; }\n"
        "__global__ void fault(int *out, int turns) { out[turns - (1ll << 40)] = 1; }\n"
        "__device__ int deeper(volatile int *out, int n) {\n"
        "    volatile int here[256];\n"
        "    here[n & 255] = n;\n"
        "    return n < 0 ? 0 : deeper(out, n + 1) + here[out[0] & 255];\n"
        "}\n"
        "__global__ void deep(int *out, int turns) { out[1] = deeper(out, turns); }\n"
        "__global__ void divide(volatile int *out, int turns) { out[1] = turns / out[0]; __trap(); }\n"
        "__global__ void scribble(int *out, int turns) {\n"
        "    unsigned long long x = (unsigned long long)turns * 2654435761u + 1;\n"
        "    for (;;) {\n"
        "        x = x * 6364136223846793005ull + 1442695040888963407ull;\n"
        "        *(volatile int *)(x >> 17 & ~3ull) = 1;\n"
        "    }\n"
        "}\n";
    static const char *const kernels[] = {"touch", "spin", "endless", "fault", "deep", "divide", "scribble"};
    return raw_source("hostile.cu", text, sizeof text - 1, NULL, 0, kernels, HOSTILE_COUNT(kernels), load);
}

bool raw_open_ready(struct attacker *me, struct raw *raw, const gs_wire_hello *hello_or_null) {
    gs_wire_hello hello = hello_or_null ? *hello_or_null : raw_hello("hostile");
    gs_wire_load load;
    if (!raw_open_hello(me, raw, &hello))
        return false;
    int source = raw_kernels(&load);
    bool is_ready = source >= 0 && raw_allocate(me, raw, 1, 4096) == GS_CLIENT_OK &&
                    raw_load(me, raw, 1, source, &load) == GS_CLIENT_OK;
    if (source >= 0)
        close(source);
    if (!is_ready)
        raw_close(me, raw);
    return is_ready;
}

struct raw_launch raw_launch(uint32_t stream, enum hostile_kernel kernel, uint32_t blocks, uint32_t turns) {
    struct raw_launch made = {.launch = {.head = {.command = GS_WIRE_LAUNCH, .stream = stream},
                                         .module = 1,
                                         .kernel = kernel,
                                         .grid = {blocks, 1, 1},
                                         .block = {1, 1, 1},
                                         .arguments = 2}};
    made.arguments[0].head = (gs_wire_argument){.memory = 1, .bytes = 8};
    made.arguments[1].head = (gs_wire_argument){.bytes = 4};
    made.arguments[1].value = turns;
    return made;
}
