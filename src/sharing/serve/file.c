/*
 * file.c: files that clients send over the socket, and the commands that need them: host memory to share, sources to
 * load.
 *
 * A client sends a file before it puts the command for it into the ring, and files are used in the order of their
 * commands. So the file of a command is in the session's list, or is the next one at the socket.
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- receiving ---- */

/* Another thread closes it: the file may be large, or its file system may not respond. */
static void throw_away(gs_session *session, int fd) {
    gs_closing_give(&session->server->closing, fd, session->account.above);
}

enum { NOT_RECEIVED = -1, NOT_MEMORY = -2 };

/* Descriptors that are not memory are closed soon. If a client sends its own end of the socket, the daemon would
   otherwise keep that end open, and never see the client hang up. */
static int keep_memory(gs_session *session, int fd) {
    if (fd < 0 || fcntl(fd, F_GET_SEALS) >= 0)
        return fd;
    throw_away(session, fd);
    return NOT_MEMORY;
}

/* If the daemon is out of descriptors, the file is kept as NOT_RECEIVED: its command is refused, and the client
   continues. */
static int count_file(gs_session *session, int fd) {
    char message[GS_WIRE_MESSAGE];
    if (fd < 0)
        return fd;
    if (!gs_quotas_allow(&session->server->quotas, &session->account, GS_QUOTA_DESCRIPTORS, 1, message)) {
        throw_away(session, fd);
        return NOT_RECEIVED;
    }
    gs_account_add(&session->account, GS_QUOTA_DESCRIPTORS, 1);
    return fd;
}

/* After a client's end its files are discarded. */
static void add_file(gs_session *session, int fd) {
    fd = keep_memory(session, fd);
    if (!session->end_code && session->file_count < GS_WIRE_FILES) {
        session->files[session->file_count++] = count_file(session, fd);
        return;
    }
    throw_away(session, fd);
    gs_session_end(session, GS_CLIENT_INVALID, "more than %d files were sent without a command", GS_WIRE_FILES);
}

static int remove_file(gs_session *session) {
    int fd = session->files[0];
    memmove(session->files, session->files + 1, --session->file_count * sizeof *session->files);
    if (fd >= 0)
        gs_account_subtract(&session->account, GS_QUOTA_DESCRIPTORS, 1);
    return fd;
}

enum gs_receive_result gs_session_receive(gs_session *session) {
    char byte;
    int fds[GS_DESCRIPTORS], flags = MSG_DONTWAIT | MSG_TRUNC; /* returns the full length of a longer message */
    if (gs_closing_is_behind(session->account.above))
        return GS_RECEIVE_NOTHING;
    ssize_t got = gs_descriptors_receive(session->options.socket, &byte, sizeof byte, fds, GS_COUNT(fds), flags);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? GS_RECEIVE_NOTHING : GS_RECEIVE_CLOSED;
    bool is_file = got == 1 && byte == GS_WIRE_FILE;
    if (is_file)
        add_file(session, fds[0]);
    for (size_t i = is_file; i < GS_COUNT(fds) && fds[i] >= 0; i++)
        throw_away(session, fds[i]);
    if (got == 0) /* it looks like a hangup, but may carry descriptors */
        return GS_RECEIVE_CLOSED;
    if (!is_file && (got != 1 || byte != GS_RING_BYTE))
        gs_session_end(session, GS_CLIENT_INVALID, "invalid message of %zd bytes", got);
    return GS_RECEIVED;
}

/* Required seals: host memory against changes of size, a source against all changes. */
#ifndef F_SEAL_FUTURE_WRITE
#    define F_SEAL_FUTURE_WRITE 0x0010
#endif
enum { SEALED_SIZE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, SEALED_ALL = SEALED_SIZE | F_SEAL_WRITE };

/* Whether a descriptor, which is memory (keep_memory) or negative, has this size and these seals. */
static bool is_sealed(int fd, uint64_t bytes, int wanted) {
    struct stat status;
    return fstat(fd, &status) == 0 && (uint64_t)status.st_size == bytes && (fcntl(fd, F_GET_SEALS) & wanted) == wanted;
}

/* The next file, for a command that needs one of `bytes`. The caller owns `*fd`, which may be -1. False: the command is
   answered, or the client was ended. */
static bool take_file(gs_session *session, uint32_t reply, uint32_t ticket, uint64_t bytes, int seals, int *fd) {
    enum { MOST_MESSAGES = 256 }; /* an honest client sends only a few bytes before the file */
    for (int i = 0; i < MOST_MESSAGES && !session->file_count && gs_session_receive(session) == GS_RECEIVED; i++)
        ;
    *fd = -1;
    if (session->end_code)
        return false;
    if (!session->file_count || reply >= GS_WIRE_REPLIES) {
        gs_session_end(session, GS_CLIENT_INVALID, "a command without its file, or with reply slot %u", reply);
        return false;
    }
    *fd = remove_file(session);
    if (*fd == NOT_RECEIVED || session->server->is_down) {
        gs_page_reply(session, reply, ticket, GS_CLIENT_SYSTEM,
                      *fd == NOT_RECEIVED ? "the daemon is out of descriptors: try again" : gs_no_worker);
        return false;
    }
    if (!bytes || !is_sealed(*fd, bytes, seals)) {
        gs_session_end(session, GS_CLIENT_INVALID, "a file is not sealed memory of %llu bytes",
                       (unsigned long long)bytes);
        return false;
    }
    return true;
}

/* The table entry of the new resource. NULL: the client was ended. */
static gs_resource **find_place(gs_session *session, enum gs_resource_kind kind, uint32_t handle) {
    gs_resource **place;
    enum gs_table_result result = gs_resource_place(session, kind, handle, &place);
    if (result == GS_TABLE_OK)
        return place;
    if (result == GS_TABLE_NO_MEMORY)
        gs_session_end(session, GS_CLIENT_SYSTEM, "%s", gs_no_memory);
    else
        gs_session_end(session, GS_CLIENT_INVALID, "%s handle %u is %s",
                       kind == GS_RESOURCE_REGION ? "region" : "module", handle,
                       result == GS_TABLE_IN_USE ? "in use" : "out of range");
    return NULL;
}

/* ---- host memory ---- */

static gs_resource *new_region(gs_session *session, uint64_t bytes, int fd) {
    gs_resource *region = gs_resource_new(session, GS_RESOURCE_REGION, bytes);
    if (!region)
        return NULL;
    if (gs_worker_share(session->server->worker, region->handle, fd, bytes) != GS_OK) {
        gs_resource_forget(region);
        return NULL;
    }
    region->is_ready = true;
    region->life = session->server->life;
    return region;
}

/* Owns `fd`. If the worker has a copy, this is not the last one. */
static void accept_region(gs_session *session, const gs_wire_share *request, int fd) {
    char message[GS_WIRE_MESSAGE];
    gs_resource **place = find_place(session, GS_RESOURCE_REGION, request->region);
    bool is_allowed = place && gs_resource_is_allowed(session, GS_RESOURCE_REGION, request->bytes, message);
    gs_resource *region = is_allowed ? new_region(session, request->bytes, fd) : NULL;
    if (region)
        close(fd);
    else
        throw_away(session, fd);
    if (!place)
        return;
    *place = region;
    if (is_allowed)
        gs_page_reply(session, request->reply, request->ticket, region ? GS_CLIENT_OK : GS_CLIENT_SYSTEM,
                      region ? "" : gs_no_memory);
    else
        gs_page_refuse(session, request->reply, request->ticket, message);
}

/* The worker maps it for reading and writing. No seal can be added any more. */
static bool is_writable(int fd) {
    return !(fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) &&
           (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

void gs_file_share(gs_session *session, const gs_wire_share *request) {
    int fd;
    bool is_ready = take_file(session, request->reply, request->ticket, request->bytes, SEALED_SIZE, &fd);
    if (is_ready && is_writable(fd)) {
        accept_region(session, request, fd);
        return;
    }
    if (is_ready)
        gs_session_end(session, GS_CLIENT_INVALID, "host memory to share must be writable");
    throw_away(session, fd);
}

/* ---- sources ---- */

/* Owns `fd`. Threads of src/sharing/image read the source, because it may be large. */
static void accept_source(gs_session *session, const gs_wire_load *request, gs_resource **place, int fd) {
    gs_action *action = gs_creation_new(session, GS_WIRE_LOAD, GS_RESOURCE_MODULE, 0, place);
    if (!action) {
        throw_away(session, fd);
        gs_session_end(session, GS_CLIENT_SYSTEM, "%s", gs_no_memory);
        return;
    }
    action->reply = request->reply;
    action->ticket = request->ticket;
    action->handle = request->module;
    gs_load_start(action, &(gs_image_request){.source = fd,
                                              .bytes = request->bytes,
                                              .option_count = request->options,
                                              .kernel_count = request->kernels});
}

/* Checks what can be checked without reading the source. */
static bool may_load(gs_session *session, const gs_wire_load *request, gs_resource ***place) {
    char message[GS_WIRE_MESSAGE];
    *place = find_place(session, GS_RESOURCE_MODULE, request->module);
    if (!*place)
        return false;
    if (request->bytes > GS_WIRE_SOURCE_BYTES || !request->kernels || request->kernels > GS_IMAGE_KERNELS ||
        request->options > GS_IMAGE_OPTIONS) {
        gs_session_end(session, GS_CLIENT_INVALID, "a file of %llu bytes is not a source",
                       (unsigned long long)request->bytes);
        return false;
    }
    if (!gs_resource_is_allowed(session, GS_RESOURCE_MODULE, 0, message)) {
        gs_page_refuse(session, request->reply, request->ticket, message);
        return false;
    }
    if (gs_load_is_allowed(session, request->bytes, message, sizeof message))
        return true;
    session->counts.errors++;
    gs_page_reply(session, request->reply, request->ticket, GS_CLIENT_SYSTEM, message);
    return false;
}

void gs_file_load(gs_session *session, const gs_wire_load *request) {
    int fd;
    gs_resource **place;
    bool is_ready = take_file(session, request->reply, request->ticket, request->bytes, SEALED_ALL, &fd);
    if (is_ready && may_load(session, request, &place))
        accept_source(session, request, place, fd);
    else
        throw_away(session, fd);
}
