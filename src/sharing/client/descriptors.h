/* descriptors.h: file descriptors that travel over a socket, for the daemon, its clients and its worker. */
#ifndef GS_DESCRIPTORS_H
#define GS_DESCRIPTORS_H

#include <stddef.h>
#include <sys/types.h>

enum { GS_DESCRIPTORS = 253 }; /* Linux's limit for one message */

/* sendmsg() with `count` descriptors, which may be 0. */
ssize_t gs_descriptors_send(int socket, const void *bytes, size_t size, const int *fds, size_t count, int flags);
/* recvmsg(): `fds` gets up to `most` received descriptors, then -1; the caller closes them. Further descriptors are
   closed.
 */
ssize_t gs_descriptors_receive(int socket, void *bytes, size_t size, int *fds, size_t most, int flags);

#endif
