/*
 * attack_descriptors.c: attacks with descriptors of every kind, sent as files, and with messages that are none.
 *
 * What is not sealed memory of the right size must end the session with INVALID. Whatever was done to a descriptor
 * before, the daemon and the worker must not wait for it.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { BYTES = 4096 };

/* ---- descriptors ---- */

static int open_fifo(struct attacker *me) {
    char path[200];
    snprintf(path, sizeof path, "%s/fifo-%d", me->folder, (int)getpid());
    mkfifo(path, 0600);
    int fd = open(path, O_RDWR | O_NONBLOCK);
    unlink(path);
    return fd;
}

static int open_regular(struct attacker *me, bool is_deleted) {
    char path[200];
    snprintf(path, sizeof path, "%s/file-%d", me->folder, (int)getpid());
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd >= 0 && ftruncate(fd, BYTES) != 0)
        fd = -1;
    if (is_deleted)
        unlink(path);
    return fd;
}

static int one_end(int ends[2], bool is_second) {
    close(ends[!is_second]);
    return ends[is_second];
}

static int open_pair(int number) {
    int ends[2];
    if (number < 2)
        return pipe(ends) == 0 ? one_end(ends, number) : -1;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? one_end(ends, number % 2) : -1;
}

/* Sealed memory that is opened again for reading only: it can be mapped for reading only, too. */
static int reopen_readonly(void) {
    char path[40];
    int fd = raw_memory(BYTES, RAW_SEALED);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    return again;
}

static int open_huge(void) {
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd >= 0 && (ftruncate(fd, 2 << 20) != 0 || fcntl(fd, F_ADD_SEALS, RAW_SEALED) != 0))
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

enum kind {
    PIPE_READ,
    PIPE_WRITE,
    SOCKET_A,
    SOCKET_B,
    EVENT,
    TIMER,
    EPOLL,
    PROCESS,
    SIGNALS,
    INOTIFY,
    FOLDER,
    PATH_ONLY,
    ZERO,
    NOTHING,
    FULL,
    TERMINAL,
    RANDOM,
    REGULAR,
    DELETED,
    FIFO,
    LOOSE,
    READ_ONLY,
    HUGE_PAGES,
    SECRET,
    OWN_MEMORY,
    UDP,
    EXECUTABLE,
    MAPS,
    KINDS
};

static int open_kind(struct attacker *me, enum kind kind) {
    sigset_t none;
    sigemptyset(&none);
    switch (kind) {
    case PIPE_READ:
    case PIPE_WRITE:
    case SOCKET_A:
    case SOCKET_B:
        return open_pair((int)kind);
    case EVENT:
        return eventfd(0, 0);
    case TIMER:
        return timerfd_create(CLOCK_MONOTONIC, 0);
    case EPOLL:
        return epoll_create1(0);
    case PROCESS:
        return (int)syscall(SYS_pidfd_open, getpid(), 0);
    case SIGNALS:
        return signalfd(-1, &none, 0);
    case INOTIFY:
        return inotify_init1(0);
    case FOLDER:
        return open("/", O_RDONLY | O_DIRECTORY);
    case PATH_ONLY:
        return open("/dev/zero", O_PATH);
    case ZERO:
        return open("/dev/zero", O_RDWR);
    case NOTHING:
        return open("/dev/null", O_RDWR);
    case FULL:
        return open("/dev/full", O_RDWR);
    case TERMINAL:
        return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    case RANDOM:
        return open("/dev/urandom", O_RDONLY);
    case REGULAR:
        return open_regular(me, false);
    case DELETED:
        return open_regular(me, true);
    case FIFO:
        return open_fifo(me);
    case LOOSE:
        return raw_memory(BYTES, 0);
    case READ_ONLY:
        return reopen_readonly();
    case HUGE_PAGES:
        return open_huge();
#ifdef SYS_memfd_secret
    case SECRET:
        return (int)syscall(SYS_memfd_secret, 0);
#endif
    case OWN_MEMORY:
        return open("/proc/self/mem", O_RDWR);
    case UDP:
        return socket(AF_INET, SOCK_DGRAM, 0);
    case EXECUTABLE:
        return open("/proc/self/exe", O_RDONLY);
    case MAPS:
        return open("/proc/self/maps", O_RDONLY);
    default:
        return -1;
    }
}

/* Flags, locks and leases that could make another process wait. */
static void spoil(struct attacker *me, int fd) {
    static const int flags[] = {0, O_NONBLOCK, O_APPEND, O_DIRECT, O_ASYNC};
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_SETFL, flags[attacker_random(me, HOSTILE_COUNT(flags))]);
    switch (attacker_random(me, 4)) {
    case 0:
        flock(fd, LOCK_EX | LOCK_NB);
        break;
    case 1:
        fcntl(fd, F_OFD_SETLK, &all);
        break;
    case 2:
        fcntl(fd, F_SETLEASE, F_WRLCK);
        break;
    default:
        break;
    }
}

/* Sends a file and the command for it. */
static void send_with_command(struct attacker *me, struct raw *raw, int fd, uint64_t bytes) {
    const gs_wire_share share = {.head = {.command = GS_WIRE_SHARE}, .region = 1, .ticket = 1, .bytes = bytes};
    const gs_wire_load load = {
        .head = {.command = GS_WIRE_LOAD}, .module = 1, .ticket = 1, .kernels = 1, .bytes = bytes};
    raw_send_file(raw, fd);
    if (attacker_random(me, 2))
        raw_put(raw, &share, sizeof share);
    else
        raw_put(raw, &load, sizeof load);
}

void every_descriptor(struct attacker *me) {
    struct raw raw;
    enum kind kind = (enum kind)attacker_random(me, KINDS);
    int fd = open_kind(me, kind);
    if (fd < 0)
        return;
    spoil(me, fd);
    if (raw_open(me, &raw)) {
        send_with_command(me, &raw, fd, kind == HUGE_PAGES ? 2 << 20 : BYTES);
        if (kind != READ_ONLY && kind != HUGE_PAGES) {
            raw_wait_end(me, &raw, HOSTILE_PATIENCE_MS);
            if (attacker_has_time(me) && raw_end_code(&raw) != GS_CLIENT_INVALID)
                attacker_blames(me, "a descriptor of kind %d is taken: end code %u", (int)kind, raw_end_code(&raw));
        } else {
            raw_wait_end(me, &raw, 5);
        }
        raw_close(me, &raw);
    }
    close(fd);
}

/* ---- memory ---- */

void every_seal(struct attacker *me) {
    unsigned seals = (unsigned)attacker_random(me, 64);
    struct raw raw;
    int fd = raw_memory(BYTES, seals);
    if (fd < 0)
        return;
    enum { AGAINST_WRITING = 0x18 };                 /* F_SEAL_WRITE, F_SEAL_FUTURE_WRITE */
    unsigned got = (unsigned)fcntl(fd, F_GET_SEALS); /* some seals imply others */
    bool is_allowed = (got & RAW_SEALED) == RAW_SEALED && !(got & AGAINST_WRITING);
    if (!raw_open(me, &raw)) {
        close(fd);
        return;
    }
    const gs_wire_copy copy = {.head = {.command = attacker_random(me, 2) ? GS_WIRE_COPY_IN : GS_WIRE_COPY_OUT},
                               .memory = 1,
                               .region = 1,
                               .bytes = BYTES};
    gs_client_code code = raw_share(me, &raw, 1, fd, BYTES);
    if (attacker_has_time(me) && !is_allowed && raw_end_code(&raw) != GS_CLIENT_INVALID)
        attacker_blames(me, "memory with the seals %x is taken: %s, end code %u (%.80s)", seals,
                        gs_client_meaning(code), raw_end_code(&raw), raw.page->end_message);
    if (code == GS_CLIENT_OK && raw_allocate(me, &raw, 1, BYTES) == GS_CLIENT_OK) {
        raw_put(&raw, &copy, sizeof copy);
        raw_wait_done(me, &raw, 0, 3);
    }
    raw_close(me, &raw);
    close(fd);
}

/* Its size changes behind the daemon's back, until it is sealed. */
void changing_size(struct attacker *me) {
    enum { TURNS = 50 };
    struct raw raw;
    int fd = raw_memory(BYTES, 0);
    if (!raw_open(me, &raw)) {
        close(fd);
        return;
    }
    send_with_command(me, &raw, fd, BYTES);
    for (int i = 0; i < TURNS && !raw_end_code(&raw); i++)
        if (ftruncate(fd, i % 2 ? BYTES : 0) != 0)
            break;
    fcntl(fd, F_ADD_SEALS, RAW_SEALED);
    raw_wait_end(me, &raw, 20);
    raw_close(me, &raw);
    close(fd);
}

void sparse_regions(struct attacker *me) {
    uint64_t bytes = (uint64_t)1 << (20 + attacker_random(me, 43));
    struct raw raw;
    int fd = raw_memory(bytes, RAW_SEALED);
    if (fd < 0)
        return;
    if (raw_open(me, &raw) && raw_allocate(me, &raw, 1, BYTES) == GS_CLIENT_OK &&
        raw_share(me, &raw, 1, fd, bytes) == GS_CLIENT_OK) {
        uint64_t count = 2;
        for (int i = 0; i < 16; i++) {
            const gs_wire_copy copy = {.head = {.command = i % 2 ? GS_WIRE_COPY_IN : GS_WIRE_COPY_OUT},
                                       .memory = 1,
                                       .region = 1,
                                       .region_at = i ? attacker_random(me, bytes - BYTES) : bytes - BYTES,
                                       .bytes = BYTES};
            count += raw_put(&raw, &copy, sizeof copy);
        }
        raw_wait_done(me, &raw, 0, count);
    }
    if (raw.page)
        raw_close(me, &raw);
    close(fd);
}

void region_holes(struct attacker *me) {
    enum { LARGE = 4 << 20, TURNS = 60 };
    struct raw raw = {.page = NULL};
    int fd = raw_memory(LARGE, RAW_SEALED);
    if (fd >= 0 && raw_open(me, &raw) && raw_allocate(me, &raw, 1, LARGE) == GS_CLIENT_OK &&
        raw_share(me, &raw, 1, fd, LARGE) == GS_CLIENT_OK)
        for (uint32_t i = 0; i < TURNS && attacker_has_time(me); i++) {
            const gs_wire_copy copy = {.head = {.command = i % 2 ? GS_WIRE_COPY_IN : GS_WIRE_COPY_OUT, .stream = i % 4},
                                       .memory = 1,
                                       .region = 1,
                                       .bytes = LARGE};
            raw_put(&raw, &copy, sizeof copy);
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LARGE);
            hostile_sleep_ms(1);
        }
    if (raw.page)
        raw_close(me, &raw);
    if (fd >= 0)
        close(fd);
}

/* The client never answers the faults of its mapping. The daemon has a mapping of its own. */
void missing_pages(struct attacker *me) {
    enum { LARGE = 1 << 20 };
    struct raw raw = {.page = NULL};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK), fd = raw_memory(LARGE, RAW_SEALED);
    void *mapped = fd >= 0 ? mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {.start = (uintptr_t)mapped, .len = LARGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (faults >= 0)
        ioctl(faults, UFFDIO_API, &api), ioctl(faults, UFFDIO_REGISTER, &range);
    if (mapped != MAP_FAILED && raw_open(me, &raw) && raw_allocate(me, &raw, 1, LARGE) == GS_CLIENT_OK &&
        raw_share(me, &raw, 1, fd, LARGE) == GS_CLIENT_OK) {
        const gs_wire_copy copy = {.head = {.command = GS_WIRE_COPY_OUT}, .memory = 1, .region = 1, .bytes = LARGE};
        const gs_wire_load load = {
            .head = {.command = GS_WIRE_LOAD}, .module = 1, .reply = 1, .kernels = 1, .bytes = LARGE};
        int64_t began = hostile_now_ns();
        raw_put(&raw, &copy, sizeof copy);
        if (raw_wait_done(me, &raw, 0, 3) && hostile_now_ns() - began > 20000000000)
            attacker_blames(me, "a copy waited for a page of the client");
        raw_send_file(&raw, fd);
        raw_put(&raw, &load, sizeof load);
        raw_wait_end(me, &raw, 20);
    }
    if (raw.page)
        raw_close(me, &raw);
    if (mapped != MAP_FAILED)
        munmap(mapped, LARGE);
    if (fd >= 0)
        close(fd);
    if (faults >= 0)
        close(faults);
}

/* ---- messages ---- */

static void send_credentials(int socket) {
    const char byte = GS_WIRE_FILE;
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)&byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const struct ucred mine = {.pid = getpid(), .uid = getuid(), .gid = getgid()};
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_CREDENTIALS;
    with->cmsg_len = CMSG_LEN(sizeof mine);
    memcpy(CMSG_DATA(with), &mine, sizeof mine);
    sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void odd_messages(struct attacker *me) {
    enum { MOST = 253 };
    static char bytes[200000];
    static const size_t sizes[] = {0, 1, 2, 3, 88, 256, 257, 4096, 65536, sizeof bytes};
    int fds[MOST], kind = (int)attacker_random(me, 4);
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    int fd = raw_memory(BYTES, RAW_SEALED);
    for (int i = 0; i < MOST; i++)
        fds[i] = fd;
    bytes[0] = (char)(attacker_random(me, 2) ? GS_WIRE_FILE : (int)attacker_random(me, 256));
    size_t size = sizes[attacker_random(me, HOSTILE_COUNT(sizes))];
    if (kind == 0)
        send_credentials(raw.socket);
    else
        raw_send(raw.socket, bytes, size, fds, kind == 1 ? 0 : kind == 2 ? 2 + attacker_random(me, 8) : MOST);
    raw_wait_end(me, &raw, 10);
    raw_close(me, &raw);
    close(fd);
}

/* Reading one looks like the end of the connection. */
void empty_messages(struct attacker *me) {
    enum { COUNT = 10 };
    for (int i = 0; i < COUNT && attacker_has_time(me); i++) {
        struct raw raw;
        if (!raw_open(me, &raw))
            return;
        const int fds[] = {raw.page_fd, raw.page_fd};
        raw_send(raw.socket, "", 0, fds, 1 + attacker_random(me, 2));
        raw_close(me, &raw);
    }
}

/* Descriptors in flight that refer to each other are only freed by the garbage collector of the kernel. */
void socket_cycles(struct attacker *me) {
    int ends[2];
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    const char byte = GS_WIRE_FILE;
    for (int i = 0; i < GS_WIRE_FILES && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0; i++) {
        const int all[] = {ends[0], ends[1], raw.socket, raw.page_fd};
        raw_send(ends[0], &byte, 1, all, 2);
        raw_send(ends[1], &byte, 1, all, 4);
        raw_send(raw.socket, &byte, 1, &all[attacker_random(me, 4)], 1);
        close(ends[0]);
        close(ends[1]);
    }
    raw_wait_end(me, &raw, 3);
    raw_close(me, &raw);
}

/* Who closes the last descriptor of a file frees its memory. */
void large_files(struct attacker *me) {
    enum { LARGE_BYTES = 256 << 20 };
    const char byte = GS_WIRE_FILE;
    const gs_wire_hello hello = raw_hello("large");
    int fd = raw_memory(LARGE_BYTES, RAW_SEALED), socket = raw_connect(me);
    if (fd >= 0 && socket >= 0 && fallocate(fd, 0, 0, LARGE_BYTES) == 0) {
        bool is_with_hello = attacker_random(me, 2);
        raw_send(socket, &hello, sizeof hello, &fd, is_with_hello);
        if (!is_with_hello)
            raw_send(socket, &byte, attacker_random(me, 2), &fd, 1);
    }
    if (fd >= 0)
        close(fd);
    hostile_sleep_ms((long)attacker_random(me, 3) * 10);
    if (socket >= 0)
        close(socket);
}
