/*
 * attack_programs.c: programs that say hello as those of `gridsmith run` do, and write what they like on the board and
 * on their page (src/sharing/client/tenant.h), while honest clients request the status.
 */
#define _GNU_SOURCE
#include "hostile.h"
#include "sharing/client/tenant.h"

#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BOARD, PAGE, NOTICE, FILES };

static const size_t sizes[FILES] = {sizeof(gs_board), sizeof(gs_tenant_page), sizeof(gs_notice)};

/* The answer to the hello, with the descriptors of the board, the page and the notice. */
static bool take_files(int socket, int *fds) {
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * FILES)];
    gs_wire_welcome welcome;
    struct iovec part = {.iov_base = &welcome, .iov_len = sizeof welcome};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    if (poll(&wait, 1, 1000) <= 0 || recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof welcome)
        return false;
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    if (!with || with->cmsg_len != CMSG_LEN(sizeof(int) * FILES))
        return false;
    memcpy(fds, CMSG_DATA(with), sizeof(int) * FILES);
    return true;
}

static void scribble(struct attacker *me, uint64_t *words, size_t count) {
    enum { WORDS = 2000 };
    for (int i = 0; i < WORDS; i++)
        __atomic_store_n(&words[attacker_random(me, count)],
                         attacker_random(me, 2) ? UINT64_MAX : attacker_random(me, UINT64_MAX), __ATOMIC_RELAXED);
}

/* Neither can be made smaller, but pages can be taken out, and come back as zeros. */
static void write_over(struct attacker *me, int fd, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return; /* the notice */
    scribble(me, memory, bytes / sizeof(uint64_t));
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
    if (ftruncate(fd, 0) == 0)
        attacker_blames(me, "memory of the daemon can be truncated");
    scribble(me, memory, bytes / sizeof(uint64_t));
    munmap(memory, bytes);
}

void program_pages(struct attacker *me) {
    gs_wire_hello hello = raw_hello("program\n\033[31m");
    int fds[FILES], socket = raw_connect(me);
    if (socket < 0)
        return;
    hello.kind = attacker_random(me, 2) ? GS_WIRE_LATENCY : GS_WIRE_BEST_EFFORT;
    hello.weight = (uint32_t)attacker_random(me, UINT32_MAX);
    raw_send(socket, &hello, sizeof hello, NULL, 0);
    if (take_files(socket, fds)) {
        atomic_fetch_add(&me->tally->opened, 1);
        for (int i = 0; i < FILES; i++)
            write_over(me, fds[i], sizes[i]);
        hostile_sleep_ms((long)attacker_random(me, 5));
        raw_send(socket, "x", attacker_random(me, 2), fds, FILES);
        for (int i = 0; i < FILES; i++)
            close(fds[i]);
    } else {
        atomic_fetch_add(&me->tally->refused, 1);
    }
    close(socket);
}
