/*
 * descriptors.c: file descriptors that travel over a socket.
 *
 * The receiver owns all descriptors that arrive, including those that it did not ask for.
 */
#define _GNU_SOURCE
#include "descriptors.h"

#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t gs_descriptors_send(int socket, const void *bytes, size_t size, const int *fds, size_t count, int flags) {
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * GS_DESCRIPTORS)] = {0};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0 && count <= GS_DESCRIPTORS) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *with = CMSG_FIRSTHDR(&message);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(with), fds, sizeof(int) * count);
    }
    return sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

ssize_t gs_descriptors_receive(int socket, void *bytes, size_t size, int *fds, size_t most, int flags) {
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * GS_DESCRIPTORS)];
    struct iovec part = {.iov_base = bytes, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    size_t count = 0;
    ssize_t got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    for (struct cmsghdr *with = got < 0 ? NULL : CMSG_FIRSTHDR(&message); with; with = CMSG_NXTHDR(&message, with)) {
        if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= with->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(with) + at, sizeof fd);
            if (count < most)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    while (count < most)
        fds[count++] = -1;
    return got;
}
