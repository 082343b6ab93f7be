/*
 * connection.c: connected clients: the hello, the page, and the end of the connection.
 *
 * Connections wait at the listening socket in the order in which they came, so a flood of them delays all others. So
 * many of them are accepted in one iteration of the loop, and then there is a pause.
 *
 * A message is read only when there is one, and is never waited for. Connections without a hello are *silent*. Their
 * number and their time are limited: when there are too many, the oldest one of the family and the process with the
 * most is closed. So a status request, and a client of another process, always get in.
 *
 * A client ends with the process that opened it, even if another process has a copy of its socket: otherwise a process
 * could have children open clients for it, as many as they like.
 *
 * Status requests get only a part of the daemon's time: processes that ask too often wait.
 *
 * When clients use all descriptors that they may have, a few more connections are accepted, as silent ones: a status
 * request is answered, any other client is told the limit. When the process itself is out of descriptors, two spare
 * ones serve one connection at a time.
 */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#    define SO_PEERGROUPS 59
#endif

enum {
    HELLO_MS = 5000,       /* how long a connection may be silent */
    LOOK_MS = 250,         /* how often silent connections are checked, */
    ENDED_TIMES = 4,       /* and, one time in this number, whether processes of clients have ended */
    MOST_SILENT = 128,     /* connections */
    ACCEPTED_AT_ONCE = 32, /* connections, */
    ACCEPT_NS = 1000000,   /* or as many as fit in this time, */
    ACCEPTED_AT_LEAST = 2, /* but no fewer */
    ACCEPT_TIMES = 2,      /* pauses: see gs_pause_until */
    STATUS_TIMES = 4,
    DESCRIPTORS_PER_USE = 4, /* silent connections may use 1/4 of the descriptors */
    BEYOND = 8,              /* connections beyond the limit of descriptors, the closing ones included, */
    SILENT_BEYOND = 4,       /* and silent ones then */
    SPARE_HELLO_MS = 2       /* how long a connection with spare descriptors may take to send its hello */
};

struct connection {
    gs_connections *owner;
    int socket;
    uv_poll_t poll;
    gs_session *session; /* of a client */
    gs_tenant *tenant;   /* of a program; both NULL: it is silent */
    gs_account *account; /* of its process */
    uint32_t user;
    uint64_t arrived_ns;
    bool wants_status;
    bool is_paused;                /* nothing is read from it: its process has too many unclosed descriptors */
    struct connection *next, **at; /* in the list of silent connections, the oldest first, or of clients */
};

/* ---- lists ---- */

static void insert_connection(struct connection *connection, struct connection **at) {
    connection->next = *at;
    connection->at = at;
    if (connection->next)
        connection->next->at = &connection->next;
    *at = connection;
}

static void append_silent(struct connection *connection) {
    gs_connections *owner = connection->owner;
    struct connection **at = &owner->silent;
    while (*at)
        at = &(*at)->next;
    insert_connection(connection, at);
    owner->silent_count++;
    connection->account->silent++;
    connection->account->above->silent++;
}

static bool is_silent(const struct connection *connection) {
    return !connection->session && !connection->tenant;
}

static void unlink_connection(struct connection *connection) {
    *connection->at = connection->next;
    if (connection->next)
        connection->next->at = connection->at;
    if (!is_silent(connection))
        return;
    connection->owner->silent_count--;
    connection->account->silent--;
    connection->account->above->silent--;
}

/* Whether the family of the first, or if that is the same its process, has more silent connections. */
static bool has_more_silent(const struct connection *first, const struct connection *second) {
    const gs_account *a = first->account, *b = second->account;
    return a->above->silent != b->above->silent ? a->above->silent > b->above->silent : a->silent > b->silent;
}

/* ---- disconnecting ---- */

static void handle_closed(uv_handle_t *handle) {
    struct connection *connection = handle->data;
    gs_quotas *quotas = &connection->owner->server->quotas;
    if (connection->session) {
        gs_session_leave_socket(connection->session);
        gs_session_close(connection->session);
    }
    if (connection->tenant) {
        gs_tenant_close(connection->tenant);
        gs_account_subtract(connection->account, GS_QUOTA_CLIENTS, 1);
    }
    if (!connection->session) {
        gs_closing_give_connection(&connection->owner->server->closing, connection->socket, connection->account);
        gs_account_subtract(connection->account, GS_QUOTA_DESCRIPTORS, 1);
    }
    gs_account_leave(quotas, connection->account);
    free(connection);
}

static void hang_up(struct connection *connection) {
    if (uv_is_closing((uv_handle_t *)&connection->poll))
        return;
    unlink_connection(connection);
    connection->owner->paused -= connection->is_paused;
    uv_close((uv_handle_t *)&connection->poll, handle_closed);
}

/* ---- answers ---- */

static bool answer_hello(int socket, gs_wire_welcome *welcome, const int *fds, size_t count) {
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
    answer_hello(socket, &welcome, NULL, 0);
}

/* An answer with a descriptor could not be sent. Linux limits descriptors in flight per user. */
static void refuse_descriptor(int socket) {
    refuse(socket, "the daemon cannot send a descriptor: %s", strerror(errno));
}

static void use_spares(gs_connections *connections) {
    for (size_t i = 0; i < GS_COUNT(connections->spares); i++)
        gs_close_fd(&connections->spares[i]);
}

static void spare_descriptors(gs_connections *connections) {
    for (size_t i = 0; i < GS_COUNT(connections->spares); i++)
        if (connections->spares[i] < 0)
            connections->spares[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int status_file(gs_connections *connections) {
    int fd = memfd_create("gridsmith-status", MFD_CLOEXEC);
    if (fd >= 0)
        return fd;
    use_spares(connections);
    return memfd_create("gridsmith-status", MFD_CLOEXEC);
}

/* The status can be long, so it travels in a file. */
static void send_status(gs_connections *connections, int socket) {
    gs_wire_welcome welcome = {.code = GS_CLIENT_OK};
    gs_text text = {0};
    gs_status_json(connections->server, &text);
    int fd = text.failed ? -1 : status_file(connections);
    if (fd < 0 || write(fd, text.data, text.count) != (ssize_t)text.count)
        refuse(socket, "%s", gs_no_memory);
    else if (!answer_hello(socket, &welcome, &fd, 1))
        refuse_descriptor(socket);
    gs_close_fd(&fd);
    spare_descriptors(connections);
    gs_text_free(&text);
}

/* ---- sessions ---- */

/* Whether the client belongs to the daemon's own user, or to root. */
static bool is_own(uid_t user) {
    return user == geteuid() || user == 0;
}

static gs_session *new_session(struct connection *connection, const gs_wire_hello *hello, int page, gs_error *error) {
    gs_server *server = connection->owner->server;
    gs_session_options options = {.weight = (uint32_t)gs_max(1, gs_min(hello->weight, 1000)),
                                  .priority =
                                      (int32_t)gs_max(-GS_MOST_PRIORITY, gs_min(hello->priority, GS_MOST_PRIORITY)),
                                  .most_sms = hello->most_sms,
                                  .process = (int32_t)connection->account->id,
                                  .user = connection->user,
                                  .page = page,
                                  .socket = connection->socket};
    snprintf(options.name, sizeof options.name, "%.*s", (int)sizeof hello->name - 1, hello->name);
    gs_make_printable(options.name); /* it is printed to terminals and in metrics */
    if (page < 0) {
        gs_fail_system(error, "make", "memory for a client");
        return NULL;
    }
    return gs_session_open(server, &options, error);
}

/* The connection of a client is counted already: the question is whether it might be. */
static bool may_keep_descriptor(const struct connection *connection, char *message) {
    gs_account_subtract(connection->account, GS_QUOTA_DESCRIPTORS, 1);
    bool may =
        gs_quotas_allow(&connection->owner->server->quotas, connection->account, GS_QUOTA_DESCRIPTORS, 1, message);
    gs_account_add(connection->account, GS_QUOTA_DESCRIPTORS, 1);
    return may;
}

/* Whether a client may be accepted. */
static gs_code check_place(const struct connection *connection, enum gs_wire_kind kind, gs_error *error) {
    char message[GS_WIRE_MESSAGE];
    const gs_server *server = connection->owner->server;
    if (connection->owner->is_stopping)
        return gs_fail(error, GS_E_IO, "the daemon is stopping");
    if (kind == GS_WIRE_HELLO && !is_own(connection->user)) /* kernels of clients share an address space */
        return gs_fail(error, GS_E_IO, "the daemon runs kernels only for the user who started it: use 'gridsmith run'");
    if (server->is_down)
        return gs_fail(error, GS_E_NO_GPU, "%s", gs_no_worker);
    if (!gs_quotas_allow(&server->quotas, connection->account, GS_QUOTA_CLIENTS, 1, message) ||
        !may_keep_descriptor(connection, message))
        return gs_fail(error, GS_E_FULL, "%s", message);
    return GS_OK;
}

/* A silent connection becomes that of a client. */
static void open_session(struct connection *connection, const gs_wire_hello *hello, int page, gs_error *error) {
    gs_session *session =
        check_place(connection, GS_WIRE_HELLO, error) == GS_OK ? new_session(connection, hello, page, error) : NULL;
    if (!session)
        return;
    unlink_connection(connection);
    connection->session = session;
    insert_connection(connection, &connection->owner->first);
}

static bool send_welcome(const struct connection *connection, int page) {
    const gs_worker_facts *facts = &connection->owner->server->facts;
    gs_wire_welcome welcome = {.is_gpu = facts->is_gpu,
                               .sms = facts->sms,
                               .architecture = facts->architecture,
                               .memory_bytes = facts->memory_bytes,
                               .page_bytes = gs_wire_page_bytes()};
    memcpy(welcome.name, facts->name, sizeof welcome.name);
    return answer_hello(connection->socket, &welcome, &page, 1);
}

static void welcome_client(struct connection *connection, const gs_wire_hello *hello) {
    gs_error error = {.code = GS_OK};
    int page = gs_page_new("gridsmith-page", gs_wire_page_bytes());
    open_session(connection, hello, page, &error);
    bool is_welcome = connection->session && send_welcome(connection, page);
    if (!connection->session)
        refuse(connection->socket, "%s", error.message);
    else if (!is_welcome)
        refuse_descriptor(connection->socket);
    if (!is_welcome)
        hang_up(connection);
    gs_close_fd(&page);
}

/* ---- programs of `gridsmith run` ---- */

/* How long requests of a program may hold others: what it declared, or the limit of the default. */
static uint64_t hold_ns_of(const gs_wire_hello *hello) {
    enum { DEFAULT_MS = 1000, MOST_MS = 10000, NS_PER_MS = 1000000 };
    return gs_min_u64(hello->hold_ms ? hello->hold_ms : DEFAULT_MS, MOST_MS) * NS_PER_MS;
}

static void open_tenant(struct connection *connection, const gs_wire_hello *hello, int *page, gs_error *error) {
    gs_tenant_options options = {.process = (int32_t)connection->account->id,
                                 .weight = (uint32_t)gs_max(1, gs_min(hello->weight, 1000)),
                                 .most_percent = (uint32_t)gs_min(hello->most_percent, 100),
                                 .command = hello->command,
                                 .has_mps = hello->has_mps,
                                 .deadline_us = hello->deadline_us,
                                 .hold_ns = hold_ns_of(hello),
                                 .is_latency = hello->kind == GS_WIRE_LATENCY};
    snprintf(options.name, sizeof options.name, "%.*s", (int)sizeof hello->name - 1, hello->name);
    gs_make_printable(options.name);
    memcpy(options.gpu, hello->gpu, sizeof options.gpu);
    gs_tenant *tenant = check_place(connection, hello->kind, error) == GS_OK
                            ? gs_tenant_open(&connection->owner->server->tenants, &options, page, error)
                            : NULL;
    if (!tenant)
        return;
    unlink_connection(connection);
    connection->tenant = tenant;
    gs_account_add(connection->account, GS_QUOTA_CLIENTS, 1);
    insert_connection(connection, &connection->owner->first);
}

static void welcome_tenant(struct connection *connection, const gs_wire_hello *hello) {
    gs_error error = {.code = GS_OK};
    gs_wire_welcome welcome = {.page_bytes = sizeof(gs_board) + sizeof(gs_tenant_page) + sizeof(gs_notice)};
    int page = -1;
    open_tenant(connection, hello, &page, &error);
    const gs_tenant_group *group = connection->tenant ? connection->tenant->group : NULL;
    const int fds[] = {group ? group->board_fd : -1, page, group ? group->notice_fd : -1};
    if (!connection->tenant)
        refuse(connection->socket, "%s", error.message);
    if (!connection->tenant || !answer_hello(connection->socket, &welcome, fds, GS_COUNT(fds)))
        hang_up(connection);
    gs_close_fd(&page);
}

/* As recv() with MSG_DONTWAIT. Descriptors received with the message are closed. */
static ssize_t receive_message(const struct connection *connection, void *bytes, size_t size, int flags) {
    int fds[GS_DESCRIPTORS];
    ssize_t got = gs_descriptors_receive(connection->socket, bytes, size, fds, GS_COUNT(fds), flags | MSG_DONTWAIT);
    for (size_t i = 0; got >= 0 && i < GS_COUNT(fds) && fds[i] >= 0; i++)
        gs_closing_give(&connection->owner->server->closing, fds[i], connection->account);
    return got;
}

/* A program sends nothing after its hello. False: it has hung up. */
static bool receive_nothing(const struct connection *connection) {
    char byte;
    return receive_message(connection, &byte, sizeof byte, 0) < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- messages ---- */

static bool is_hello(const gs_wire_hello *hello, size_t bytes, uint32_t kind) {
    return bytes == sizeof *hello && hello->magic == GS_WIRE_MAGIC && hello->version == GS_WIRE_VERSION &&
           hello->kind == kind;
}

static void refuse_hello(int socket, const gs_wire_hello *hello, size_t bytes) {
    if (bytes != sizeof *hello || hello->magic != GS_WIRE_MAGIC)
        refuse(socket, "the first message is not a hello from a gridsmith client");
    else if (hello->version != GS_WIRE_VERSION)
        refuse(socket, "the daemon uses version %d of the protocol, the client version %u", GS_WIRE_VERSION,
               hello->version);
    else
        refuse(socket, "unknown kind of hello %u", hello->kind);
}

/* The first message, of any length; missing bytes of the hello are zero. 0: the connection is closed; negative: no
   message. */
static ssize_t read_hello(const struct connection *connection, gs_wire_hello *hello) {
    *hello = (gs_wire_hello){0};
    ssize_t got = receive_message(connection, hello, sizeof *hello, MSG_TRUNC); /* returns the full length */
    return got < 0 && errno != EAGAIN && errno != EINTR ? 0 : got;
}

static void answer_status(struct connection *connection) {
    gs_connections *owner = connection->owner;
    int64_t began = gs_thread_ns();
    send_status(owner, connection->socket);
    owner->status_after_ns = gs_pause_until(began, STATUS_TIMES);
    hang_up(connection);
}

/* The status request to answer next: of the family and the process with the fewest silent connections, so a flood of
   requests delays only itself. */
static struct connection *next_for_status(const gs_connections *connections) {
    struct connection *next = NULL;
    for (struct connection *at = connections->silent; at; at = at->next)
        if (at->wants_status && (!next || has_more_silent(next, at)))
            next = at;
    return next;
}

/* Answers one waiting request, unless there is a pause; the others are answered after the next pause. */
static void answer_next(uv_timer_t *timer) {
    gs_connections *connections = timer->data;
    struct connection *next = next_for_status(connections);
    int64_t left_ns = connections->status_after_ns - gs_now_ns();
    if (next && left_ns <= 0) {
        answer_status(next);
        next = next_for_status(connections);
        left_ns = connections->status_after_ns - gs_now_ns();
    }
    if (next)
        uv_timer_start(timer, answer_next, (uint64_t)gs_max(left_ns, 0) / 1000000 + 1, 0);
}

/* Requests that have waited go first. */
static void request_status(struct connection *connection) {
    connection->wants_status = true;
    answer_next(&connection->owner->status_timer);
}

/* Handles the hello of a silent connection. */
static void receive_hello(struct connection *connection) {
    gs_wire_hello hello;
    ssize_t got = read_hello(connection, &hello);
    if (got < 0)
        return;
    if (got > 0 && !connection->wants_status && is_hello(&hello, (size_t)got, GS_WIRE_HELLO)) {
        welcome_client(connection, &hello);
        return;
    }
    if (got > 0 && is_hello(&hello, (size_t)got, GS_WIRE_STATUS)) {
        request_status(connection);
        return;
    }
    if (got > 0 && !connection->wants_status &&
        (is_hello(&hello, (size_t)got, GS_WIRE_LATENCY) || is_hello(&hello, (size_t)got, GS_WIRE_BEST_EFFORT))) {
        welcome_tenant(connection, &hello);
        return;
    }
    if (got > 0)
        refuse_hello(connection->socket, &hello, (size_t)got);
    hang_up(connection);
}

/* Stops reading: messages stay in the socket, which would wake the daemon repeatedly. */
static void pause_connection(struct connection *connection) {
    uv_poll_stop(&connection->poll);
    connection->is_paused = true;
    connection->owner->paused++;
}

/* A few messages at a time, so that no client monopolizes the daemon. The loop checks all rings afterwards. */
static void message_came(uv_poll_t *poll, int status, int events) {
    enum { AT_ONCE = 8 };
    struct connection *connection = poll->data;
    enum gs_receive_result result = GS_RECEIVED;
    (void)events;
    if (status != 0) {
        hang_up(connection);
        return;
    }
    if (gs_closing_is_behind(connection->account)) {
        pause_connection(connection);
        return;
    }
    if (is_silent(connection)) {
        receive_hello(connection);
        return;
    }
    if (connection->tenant) {
        if (!receive_nothing(connection))
            hang_up(connection);
        return;
    }
    for (int i = 0; i < AT_ONCE && result == GS_RECEIVED; i++)
        result = gs_session_receive(connection->session);
    if (result == GS_RECEIVE_CLOSED)
        hang_up(connection);
}

static void start_reading(struct connection *connection) {
    connection->is_paused = false;
    uv_poll_start(&connection->poll, UV_READABLE | UV_DISCONNECT, message_came);
}

void gs_connections_resume(gs_connections *connections) {
    struct connection *const lists[] = {connections->first, connections->silent};
    for (size_t i = 0; i < GS_COUNT(lists); i++)
        for (struct connection *at = lists[i]; at; at = at->next)
            if (at->is_paused && !gs_closing_is_behind(at->account)) {
                connections->paused--;
                start_reading(at);
            }
}

/* ---- silent connections ---- */

/* The oldest one of the family and the process with the most. */
static void drop_silent(gs_connections *connections) {
    struct connection *oldest = connections->silent;
    for (struct connection *at = oldest; at; at = at->next)
        if (has_more_silent(at, oldest))
            oldest = at;
    if (oldest->wants_status)
        send_status(connections, oldest->socket);
    else
        refuse(oldest->socket, "too many connections without a hello: try again");
    hang_up(oldest);
}

/* ---- clients of ended processes ---- */

static void end_left_behind(gs_connections *connections) {
    for (struct connection *at = connections->first, *next; at; at = next) {
        next = at->next;
        if (gs_process_has_ended((int32_t)at->account->id, at->account->serial))
            hang_up(at);
    }
}

static void look_at_connections(uv_timer_t *timer) {
    gs_connections *connections = timer->data;
    uint64_t now = (uint64_t)gs_now_ns();
    struct connection *oldest;
    if (++connections->looks % ENDED_TIMES == 0)
        end_left_behind(connections);
    while ((oldest = connections->silent) && now - oldest->arrived_ns >= (uint64_t)HELLO_MS * 1000000) {
        if (oldest->wants_status)
            send_status(connections, oldest->socket);
        else
            refuse(oldest->socket, "no hello within %d s", HELLO_MS / 1000);
        hang_up(oldest);
    }
    if (!connections->silent && !connections->first)
        uv_timer_stop(timer);
}

/* Whether more descriptors are used than clients may have, and `more`. */
static bool is_beyond(const gs_connections *connections, uint64_t more) {
    const gs_quotas *quotas = &connections->server->quotas;
    return quotas->all.used[GS_QUOTA_DESCRIPTORS] > quotas->most[GS_ACCOUNT_ALL][GS_QUOTA_DESCRIPTORS] + more;
}

static size_t most_silent(const gs_connections *connections) {
    uint64_t descriptors = connections->server->quotas.most[GS_ACCOUNT_ALL][GS_QUOTA_DESCRIPTORS];
    size_t most = gs_max_u64(1, gs_min_u64(MOST_SILENT, descriptors / DESCRIPTORS_PER_USE));
    return is_beyond(connections, 0) ? gs_min_u64(most, SILENT_BEYOND) : most;
}

/* ---- accepting ---- */

/* Whether a process was a member of the group when it connected. One in more groups than fit here is not. */
static bool is_member(int socket, const struct ucred *peer, gid_t group) {
    gid_t groups[1024] = {0};
    socklen_t size = sizeof groups;
    if (peer->gid == group)
        return true;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0)
        return false;
    for (size_t i = 0; i < size / sizeof *groups; i++)
        if (groups[i] == group)
            return true;
    return false;
}

static bool is_allowed(const gs_connections *connections, int socket, struct ucred *peer) {
    socklen_t size = sizeof *peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 &&
           (is_own(peer->uid) ||
            (connections->members.are_served && is_member(socket, peer, connections->members.group)));
}

static struct connection *new_connection(gs_connections *connections, int socket, gs_account *account) {
    struct connection *connection = account ? calloc(1, sizeof *connection) : NULL;
    if (connection && uv_poll_init(connections->loop, &connection->poll, socket) == 0) {
        connection->owner = connections;
        connection->socket = socket;
        connection->account = account;
        connection->arrived_ns = (uint64_t)gs_now_ns();
        connection->poll.data = connection;
        return connection;
    }
    free(connection);
    refuse(socket, "%s", gs_no_memory);
    close(socket);
    if (account)
        gs_account_leave(&connections->server->quotas, account);
    return NULL;
}

/* The hello has usually arrived already. */
static void add_connection(gs_connections *connections, int socket, const struct ucred *peer) {
    gs_account *account = gs_account_take(&connections->server->quotas, peer->pid, peer->uid);
    struct connection *connection = new_connection(connections, socket, account);
    if (!connection)
        return;
    connection->user = peer->uid;
    gs_account_add(account, GS_QUOTA_DESCRIPTORS, 1);
    append_silent(connection);
    start_reading(connection);
    receive_hello(connection);
    if (connections->silent_count > most_silent(connections))
        drop_silent(connections);
    if (!uv_is_active((uv_handle_t *)&connections->timer))
        uv_timer_start(&connections->timer, look_at_connections, LOOK_MS, LOOK_MS);
}

/* Serves one connection with the spare descriptors, and closes it. */
static void serve_with_spares(gs_connections *connections, int socket) {
    struct ucred peer;
    gs_wire_hello hello = {0};
    ssize_t got = -1;
    if (is_allowed(connections, socket, &peer) &&
        poll(&(struct pollfd){.fd = socket, .events = POLLIN}, 1, SPARE_HELLO_MS) > 0)
        got = recv(socket, &hello, sizeof hello, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0 && is_hello(&hello, (size_t)got, GS_WIRE_STATUS))
        send_status(connections, socket);
    else
        refuse(socket, "the daemon is out of descriptors: try again");
    close(socket);
}

static int accept_socket(int listening) {
    return accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void admit_socket(gs_connections *connections, int socket) {
    struct ucred peer;
    if (is_allowed(connections, socket, &peer)) {
        add_connection(connections, socket, &peer);
        return;
    }
    refuse(socket, "the daemon serves only the user who started it%s",
           connections->members.are_served ? " and members of its group" : "");
    close(socket);
}

/* 0 or an error: EAGAIN, or out of descriptors. Far beyond the limit a silent connection is closed first; the next
   one is accepted when the loop has run. */
static int accept_one(gs_connections *connections, int listening) {
    bool is_full = is_beyond(connections, BEYOND);
    if (is_full && connections->silent) {
        drop_silent(connections);
        return EAGAIN;
    }
    int socket = accept_socket(listening), reason = socket < 0 ? errno : 0;
    if (reason == EMFILE || reason == ENFILE) {
        is_full = true;
        use_spares(connections);
        socket = accept_socket(listening);
        reason = socket < 0 ? errno : 0;
    }
    if (socket >= 0 && is_full)
        serve_with_spares(connections, socket);
    else if (socket >= 0)
        admit_socket(connections, socket);
    spare_descriptors(connections);
    return reason;
}

/* A connection that hangs up keeps its descriptor until the loop has run: with few descriptors left, few connections
   are accepted at once.
 */
bool gs_connections_accept(gs_connections *connections, int listening) {
    size_t accepted = 0, most = gs_min_u64(ACCEPTED_AT_ONCE, most_silent(connections));
    int reason = 0;
    if (gs_now_ns() < connections->accept_after_ns)
        return true;
    int64_t began = gs_thread_ns();
    while (accepted < most && (accepted < ACCEPTED_AT_LEAST || gs_thread_ns() - began < ACCEPT_NS) &&
           !(reason = accept_one(connections, listening)))
        accepted++;
    if (accepted && reason == EAGAIN)
        gs_listener_wake(listening);
    connections->accept_after_ns = gs_pause_until(began, ACCEPT_TIMES);
    return reason != EMFILE && reason != ENFILE;
}

/* ---- opening and closing ---- */

void gs_connections_open(gs_connections *connections, uv_loop_t *loop, gs_server *server) {
    *connections = (gs_connections){.loop = loop, .server = server, .spares = {-1, -1}};
    uv_timer_init(loop, &connections->timer);
    uv_timer_init(loop, &connections->status_timer);
    connections->timer.data = connections->status_timer.data = connections;
    spare_descriptors(connections);
}

void gs_connections_close(gs_connections *connections) {
    if (!connections->server)
        return;
    while (connections->first)
        hang_up(connections->first);
    while (connections->silent)
        hang_up(connections->silent);
    uv_close((uv_handle_t *)&connections->timer, NULL);
    uv_close((uv_handle_t *)&connections->status_timer, NULL);
    use_spares(connections);
}
