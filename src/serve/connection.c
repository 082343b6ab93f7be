/*
 * connection.c: clients that are connected: the hello, the page that they get, and the end of the connection.
 *
 * A message is read only when there is one, and is never waited for.
 */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    gs_connections *owner;
    int socket;
    uv_poll_t poll;
    gs_session *session; /* NULL: it has not said hello */
    int32_t process;
    struct connection *next;
};

static void close_if_open(int fd) {
    if (fd >= 0)
        close(fd);
}

/* ---- disconnecting ---- */

/* The session goes before its socket. */
static void handle_closed(uv_handle_t *handle) {
    struct connection *connection = handle->data;
    if (connection->session)
        gs_session_close(connection->session);
    close(connection->socket);
    free(connection);
}

static void hang_up(struct connection *connection) {
    gs_connections *owner = connection->owner;
    struct connection **at = &owner->first;
    if (uv_is_closing((uv_handle_t *)&connection->poll))
        return;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    owner->count--;
    uv_close((uv_handle_t *)&connection->poll, handle_closed);
}

void gs_connections_close(gs_connections *connections) {
    while (connections->first)
        hang_up(connections->first);
}

/* ---- answers ---- */

static bool answer(int socket, gs_wire_welcome *welcome, const int *fds, size_t count) {
    welcome->magic = GS_WIRE_MAGIC;
    welcome->version = GS_WIRE_VERSION;
    return gs_descriptors_send(socket, welcome, sizeof *welcome, fds, count, MSG_DONTWAIT) == sizeof *welcome;
}

__attribute__((format(printf, 2, 3))) static void refuse(int socket, const char *format, ...) {
    gs_wire_welcome welcome = {.code = GS_CLIENT_REFUSED};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(welcome.message, sizeof welcome.message, format, arguments);
    va_end(arguments);
    answer(socket, &welcome, NULL, 0);
}

/* The status can be long, so it travels in a file. */
static void send_status(struct connection *connection) {
    gs_wire_welcome welcome = {.code = GS_CLIENT_OK};
    gs_text text = {0};
    gs_status_json(connection->owner->server, &text);
    int fd = text.failed ? -1 : memfd_create("gridsmith-status", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text.data, text.count) == (ssize_t)text.count)
        answer(connection->socket, &welcome, &fd, 1);
    else
        refuse(connection->socket, "%s", gs_no_memory);
    close_if_open(fd);
    gs_text_free(&text);
    hang_up(connection);
}

/* ---- sessions ---- */

/* The memory is allocated now: what is only promised could be missing when it is touched. */
static int new_page(void) {
    off_t bytes = (off_t)gs_wire_page_bytes();
    int fd = memfd_create("gridsmith-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, bytes) != 0 || fallocate(fd, 0, 0, bytes) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static gs_session *new_session(struct connection *connection, const gs_wire_hello *hello, gs_error *error) {
    gs_session_options options = {.weight = (uint32_t)gs_max(1, gs_min(hello->weight, 1000)),
                                  .priority = (int32_t)gs_max(-10, gs_min(hello->priority, 10)),
                                  .most_sms = hello->most_sms,
                                  .process = connection->process,
                                  .socket = connection->socket};
    snprintf(options.name, sizeof options.name, "%.*s", (int)sizeof hello->name - 1, hello->name);
    gs_make_printable(options.name); /* it goes to terminals and to metrics */
    options.page = new_page();
    if (options.page < 0) {
        gs_fail_system(error, "make", "memory for a client");
        return NULL;
    }
    return gs_session_open(connection->owner->server, &options, error);
}

static void welcome_client(struct connection *connection, const gs_wire_hello *hello) {
    const gs_connections *owner = connection->owner;
    const gs_worker_facts *facts = &owner->server->facts;
    gs_error error = {.code = GS_OK};
    gs_session *session = NULL;
    if (owner->is_stopping)
        gs_fail(&error, GS_E_IO, "the daemon is stopping");
    else if (owner->server->is_down)
        gs_fail(&error, GS_E_NO_GPU, "%s", gs_no_worker);
    else
        session = new_session(connection, hello, &error);
    if (!session) {
        refuse(connection->socket, "%s", error.message);
        hang_up(connection);
        return;
    }
    connection->session = session;
    gs_wire_welcome welcome = {.is_gpu = facts->is_gpu,
                               .sms = facts->sms,
                               .architecture = facts->architecture,
                               .memory_bytes = facts->memory_bytes,
                               .page_bytes = gs_wire_page_bytes()};
    memcpy(welcome.name, facts->name, sizeof welcome.name);
    if (!answer(connection->socket, &welcome, &session->options.page, 1))
        hang_up(connection);
}

/* ---- messages ---- */

static void first_message(struct connection *connection, const void *message, size_t bytes) {
    gs_wire_hello hello = {0};
    memcpy(&hello, message, gs_min_u64(bytes, sizeof hello));
    bool is_hello = bytes == sizeof hello && hello.magic == GS_WIRE_MAGIC;
    if (is_hello && hello.version == GS_WIRE_VERSION && hello.kind == GS_WIRE_STATUS) {
        send_status(connection);
        return;
    }
    if (is_hello && hello.version == GS_WIRE_VERSION && hello.kind == GS_WIRE_HELLO) {
        welcome_client(connection, &hello);
        return;
    }
    if (!is_hello)
        refuse(connection->socket, "the first message is not a hello of a gridsmith client");
    else if (hello.version != GS_WIRE_VERSION)
        refuse(connection->socket, "the daemon speaks version %d of the protocol, the client %u", GS_WIRE_VERSION,
               hello.version);
    else
        refuse(connection->socket, "unknown kind of hello %u", hello.kind);
    hang_up(connection);
}

/* Of a client that has not said hello. False: it is gone. */
static bool receive_hello(struct connection *connection) {
    alignas(8) char text[256];
    int fd = -1, flags = MSG_DONTWAIT | MSG_TRUNC; /* the whole length of a longer message is returned */
    ssize_t got = gs_descriptors_receive(connection->socket, text, sizeof text, &fd, 1, flags);
    close_if_open(fd);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got > 0)
        first_message(connection, text, (size_t)got);
    return got > 0;
}

/* A few messages at a time, so that no client has the daemon to itself. The loop looks at all rings after it. */
static void message_came(uv_poll_t *poll, int status, int events) {
    enum { AT_ONCE = 8 };
    struct connection *connection = poll->data;
    enum gs_receive_result result = GS_RECEIVED;
    (void)events;
    if (status != 0 || (!connection->session && !receive_hello(connection))) {
        hang_up(connection);
        return;
    }
    for (int i = 0; connection->session && i < AT_ONCE && result == GS_RECEIVED; i++)
        result = gs_session_receive(connection->session);
    if (result == GS_RECEIVE_CLOSED)
        hang_up(connection);
}

/* ---- accepting ---- */

/* Whether the client belongs to the daemon's own user, or to root. */
static bool is_allowed(int socket, int32_t *process) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    *process = peer.pid;
    return peer.uid == geteuid() || peer.uid == 0;
}

static void add_connection(gs_connections *connections, int socket, int32_t process) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection)
        *connection =
            (struct connection){.owner = connections, .socket = socket, .process = process, .next = connections->first};
    if (!connection || uv_poll_init(connections->loop, &connection->poll, socket) != 0) {
        refuse(socket, "%s", gs_no_memory);
        close(socket);
        free(connection);
        return;
    }
    connection->poll.data = connection;
    connections->first = connection;
    connections->count++;
    uv_poll_start(&connection->poll, UV_READABLE | UV_DISCONNECT, message_came);
}

void gs_connections_accept(gs_connections *connections, int listening) {
    int32_t process = 0;
    int socket = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0)
        return;
    if (is_allowed(socket, &process) && connections->count < GS_SESSIONS) {
        add_connection(connections, socket, process);
        return;
    }
    refuse(socket, connections->count < GS_SESSIONS ? "the daemon serves only the user who started it"
                                                    : "the daemon has as many clients as it can have");
    close(socket);
}
