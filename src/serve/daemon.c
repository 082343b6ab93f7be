/*
 * daemon.c: gridsmith serve: sockets, signals and the loop around dispatch.c.
 *
 * One thread. libuv watches descriptors: the socket that clients come to, each client's connection and bell, the
 * engine, compilers, a timer, signals, and HTTP for Prometheus. While there is work, and for a while after it, the
 * loop does not sleep: it looks at the rings, which are memory, and at libuv now and then. How long it stays awake
 * without work grows where that was worth it and shrinks where it was not.
 *
 * Connections that a descriptor says anything about are handled one message at a time and never waited for.
 */
#define _GNU_SOURCE
#include "serve.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

enum {
    SPIN_NS = 2000000,          /* awake without work, at most, */
    SPIN_FEW_CORES_NS = 100000, /* where there are few cores, */
    SPIN_LEAST_NS = 5000,       /* and at least */
    LOOK_NS = 50000,            /* how often libuv's turn comes while there is work */
    DRAIN_SECONDS = 10,         /* so long a stopping daemon waits for what clients have asked for */
    HTTP_CONNECTIONS = 16,
    HTTP_MS = 5000,
    HTTP_BYTES = 4096
};

struct connection;

struct daemon {
    const gs_serve_options *options;
    gs_server *server;
    uv_loop_t loop;
    uv_poll_t listener, engine, timer;
    uv_signal_t terminate, interrupt;
    uv_tcp_t http;
    int listening, lock, timer_fd;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": systemd's socket */
    struct connection *connections;
    size_t connection_count, http_count;
    uint64_t stop_at_ns; /* 0: it is not to stop */
    bool is_stopping_now;
    uint64_t spin_ns, most_spin_ns; /* how long it looks for work before it sleeps */
    uint64_t worked_ns;             /* when there was some last */
};

/* ---- connections ---- */

struct connection {
    struct daemon *daemon;
    int socket;
    uv_poll_t poll, bell;
    bool has_bell;
    int handles;         /* that libuv has */
    gs_session *session; /* NULL: it has not said hello */
    int32_t process;
    struct connection *next;
};

static void handle_closed(uv_handle_t *handle) {
    struct connection *connection = handle->data;
    if (--connection->handles)
        return;
    close(connection->socket);
    if (connection->session)
        gs_session_close(connection->session);
    free(connection);
}

static void hang_up(struct connection *connection) {
    struct connection **at = &connection->daemon->connections;
    if (uv_is_closing((uv_handle_t *)&connection->poll))
        return;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    connection->daemon->connection_count--;
    uv_close((uv_handle_t *)&connection->poll, handle_closed);
    if (connection->has_bell)
        uv_close((uv_handle_t *)&connection->bell, handle_closed);
}

static bool answer(int socket, gs_wire_welcome *welcome, const int *fds, size_t count) {
    welcome->magic = GS_WIRE_MAGIC;
    welcome->version = GS_WIRE_VERSION;
    return gs_descriptors_send(socket, welcome, sizeof *welcome, fds, count, MSG_DONTWAIT) == sizeof *welcome;
}

__attribute__((format(printf, 2, 3))) static void refuse(int socket, const char *format, ...) {
    gs_wire_welcome welcome = {.code = GS_CLIENT_REFUSED};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(welcome.words, sizeof welcome.words, format, arguments);
    va_end(arguments);
    answer(socket, &welcome, NULL, 0);
}

/* Memory that is there: what is only promised could be missing when it is touched. */
static int new_page(void) {
    int fd = memfd_create("gridsmith-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (ftruncate(fd, (off_t)gs_wire_page_bytes()) != 0 || fallocate(fd, 0, 0, (off_t)gs_wire_page_bytes()) != 0 ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void close_if(int fd) {
    if (fd >= 0)
        close(fd);
}

static void bell_rang(uv_poll_t *poll, int status, int events) {
    struct connection *connection = poll->data;
    (void)status, (void)events;
    if (connection->session && connection->session->page)
        gs_bell_clear(connection->session->options.own_bell);
}

static gs_session *new_session(struct connection *connection, const gs_wire_hello *hello, gs_error *error) {
    gs_session_options options = {.weight = hello->weight < 1      ? 1
                                            : hello->weight > 1000 ? 1000
                                                                   : hello->weight,
                                  .priority = hello->priority < -10  ? -10
                                              : hello->priority > 10 ? 10
                                                                     : hello->priority,
                                  .most_sms = hello->most_sms,
                                  .process = connection->process};
    snprintf(options.name, sizeof options.name, "%.*s", (int)sizeof hello->name - 1, hello->name);
    options.page = new_page();
    options.bell = options.page >= 0 ? gs_bell_new() : -1;
    options.own_bell = options.bell >= 0 ? gs_bell_new() : -1;
    if (options.own_bell < 0) {
        gs_fail_system(error, "make", "memory for a client");
        close_if(options.page);
        close_if(options.bell);
        return NULL;
    }
    return gs_session_open(connection->daemon->server, &options, error);
}

static void watch_bell(struct connection *connection) {
    struct daemon *daemon = connection->daemon;
    connection->bell.data = connection;
    if (uv_poll_init(&daemon->loop, &connection->bell, connection->session->options.own_bell) != 0) {
        hang_up(connection);
        return;
    }
    connection->has_bell = true;
    connection->handles++;
    uv_poll_start(&connection->bell, UV_READABLE, bell_rang);
}

static void welcome_client(struct connection *connection, const gs_wire_hello *hello) {
    const gs_worker_facts *facts = &connection->daemon->server->facts;
    gs_error error = {.code = GS_OK};
    gs_session *session = NULL;
    if (connection->daemon->stop_at_ns)
        gs_fail(&error, GS_E_IO, "the daemon is being stopped");
    else if (connection->daemon->server->is_down)
        gs_fail(&error, GS_E_NO_GPU, "%s", gs_no_device);
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
    int fds[] = {session->options.page, session->options.own_bell, session->options.bell};
    watch_bell(connection);
    if (!answer(connection->socket, &welcome, fds, 3))
        hang_up(connection);
}

/* The answer is as long as it is, so it travels in a file. */
static void tell_status(struct connection *connection) {
    gs_wire_welcome welcome = {.code = GS_CLIENT_OK};
    gs_text text = {0};
    gs_status_json(connection->daemon->server, &text);
    int fd = text.failed ? -1 : memfd_create("gridsmith-status", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text.data, text.count) == (ssize_t)text.count)
        answer(connection->socket, &welcome, &fd, 1);
    else
        refuse(connection->socket, "the daemon has no memory left");
    close_if(fd);
    gs_text_free(&text);
    hang_up(connection);
}

static void first_message(struct connection *connection, const void *message, size_t bytes) {
    gs_wire_hello hello;
    memcpy(&hello, message, bytes < sizeof hello ? bytes : sizeof hello);
    if (bytes != sizeof hello || hello.magic != GS_WIRE_MAGIC) {
        refuse(connection->socket, "that is not how clients of gridsmith begin");
        hang_up(connection);
    } else if (hello.version != GS_WIRE_VERSION) {
        refuse(connection->socket, "the daemon speaks version %d of the protocol, the client %u", GS_WIRE_VERSION,
               hello.version);
        hang_up(connection);
    } else if (hello.kind == GS_WIRE_STATUS) {
        tell_status(connection);
    } else if (hello.kind == GS_WIRE_HELLO) {
        welcome_client(connection, &hello);
    } else {
        refuse(connection->socket, "that is neither a client nor a question");
        hang_up(connection);
    }
}

static void message_came(uv_poll_t *poll, int status, int events) {
    struct connection *connection = poll->data;
    alignas(8) char text[256];
    int fd = -1, flags = MSG_DONTWAIT | MSG_TRUNC; /* of what is too long the whole length is told */
    (void)events;
    ssize_t got = status == 0 ? gs_descriptors_receive(connection->socket, text, sizeof text, &fd, 1, flags) : 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close_if(fd);
        hang_up(connection);
        return;
    }
    if (connection->session)
        gs_session_file(connection->session, text, (size_t)got, fd);
    else
        first_message(connection, text, (size_t)got);
    close_if(fd);
}

/* Whether it is the daemon's own user, or root. */
static bool is_welcome(int socket, int32_t *process) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    *process = peer.pid;
    return peer.uid == geteuid() || peer.uid == 0;
}

static void client_came(uv_poll_t *poll, int status, int events) {
    struct daemon *daemon = poll->data;
    (void)status, (void)events;
    int32_t process = 0;
    int socket = accept4(daemon->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0)
        return;
    bool is_ours = is_welcome(socket, &process);
    struct connection *connection =
        is_ours && daemon->connection_count < GS_SESSIONS ? calloc(1, sizeof *connection) : NULL;
    if (!connection) {
        refuse(socket, is_ours ? "the daemon has as many clients as it can have"
                               : "the daemon serves the user who started it, and nobody else");
        close(socket);
        return;
    }
    *connection = (struct connection){
        .daemon = daemon, .socket = socket, .process = process, .handles = 1, .next = daemon->connections};
    connection->poll.data = connection;
    if (uv_poll_init(&daemon->loop, &connection->poll, socket) != 0) {
        close(socket);
        free(connection);
        return;
    }
    daemon->connections = connection;
    daemon->connection_count++;
    uv_poll_start(&connection->poll, UV_READABLE | UV_DISCONNECT, message_came);
}

/* ---- compilers ---- */

static void compiler_closed(uv_handle_t *handle) {
    free(handle);
}

static void compiler_done(uv_poll_t *poll, int status, int events) {
    gs_load *load = poll->data;
    (void)status, (void)events;
    uv_poll_stop(poll);
    uv_close((uv_handle_t *)poll, compiler_closed);
    gs_server_loaded(load);
}

static void watch_compiler(void *context, gs_load *load) {
    struct daemon *daemon = context;
    uv_poll_t *poll = calloc(1, sizeof *poll);
    load->watcher = poll;
    if (!poll || uv_poll_init(&daemon->loop, poll, gs_image_fd(load->work)) != 0) {
        free(poll);
        load->watcher = NULL; /* nobody will say that it is done: its client gets no reply, and no worse */
        return;
    }
    poll->data = load;
    uv_poll_start(poll, UV_READABLE | UV_DISCONNECT, compiler_done);
}

static void say_line(void *context, const char *line) {
    struct daemon *daemon = context;
    daemon->options->say(line);
}

/* ---- Prometheus ---- */

struct request {
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    struct daemon *daemon;
    char bytes[HTTP_BYTES];
    size_t count;
    gs_text head, body;
    int handles;
};

static void request_closed(uv_handle_t *handle) {
    struct request *request = handle->data;
    if (--request->handles)
        return;
    request->daemon->http_count--;
    gs_text_free(&request->head);
    gs_text_free(&request->body);
    free(request);
}

static void request_end(struct request *request) {
    if (uv_is_closing((uv_handle_t *)&request->tcp))
        return;
    uv_close((uv_handle_t *)&request->tcp, request_closed);
    uv_close((uv_handle_t *)&request->timer, request_closed);
}

static void request_late(uv_timer_t *timer) {
    request_end(timer->data);
}

static void request_written(uv_write_t *write, int status) {
    (void)status;
    request_end(write->data);
}

static void request_answer(struct request *request) {
    bool is_metrics = strncmp(request->bytes, "GET /metrics", 12) == 0 || strncmp(request->bytes, "GET / ", 6) == 0;
    if (is_metrics)
        gs_status_metrics(request->daemon->server, &request->body);
    else
        gs_text_add(&request->body, "see /metrics\n");
    gs_text_add(&request->head,
                "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n",
                is_metrics ? "200 OK" : "404 Not Found", request->body.count);
    uv_buf_t buffers[] = {uv_buf_init(request->head.data, (unsigned)request->head.count),
                          uv_buf_init(request->body.data, (unsigned)request->body.count)};
    uv_read_stop((uv_stream_t *)&request->tcp);
    request->write.data = request;
    if (request->head.failed || request->body.failed ||
        uv_write(&request->write, (uv_stream_t *)&request->tcp, buffers, 2, request_written) != 0)
        request_end(request);
}

static void request_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    struct request *request = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(request->bytes + request->count, (unsigned)(sizeof request->bytes - 1 - request->count));
}

static void request_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer) {
    struct request *request = stream->data;
    (void)buffer;
    if (got < 0) {
        request_end(request);
        return;
    }
    request->count += (size_t)got;
    request->bytes[request->count] = '\0';
    if (strstr(request->bytes, "\r\n\r\n") || strstr(request->bytes, "\n\n"))
        request_answer(request);
    else if (request->count == sizeof request->bytes - 1)
        request_end(request);
}

static void http_came(uv_stream_t *server, int status) {
    struct daemon *daemon = server->data;
    struct request *request = status == 0 ? calloc(1, sizeof *request) : NULL;
    if (!request)
        return;
    request->daemon = daemon;
    request->handles = 2;
    daemon->http_count++;
    uv_tcp_init(&daemon->loop, &request->tcp);
    uv_timer_init(&daemon->loop, &request->timer);
    request->tcp.data = request->timer.data = request;
    if (uv_accept(server, (uv_stream_t *)&request->tcp) != 0 || daemon->http_count > HTTP_CONNECTIONS ||
        uv_read_start((uv_stream_t *)&request->tcp, request_room, request_read) != 0)
        request_end(request);
    else
        uv_timer_start(&request->timer, request_late, HTTP_MS, 0);
}

static gs_code open_metrics(struct daemon *daemon, const char *where, gs_error *error) {
    char host[64];
    const char *colon = strrchr(where, ':');
    char *end;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    struct sockaddr_in address;
    struct sockaddr_in6 address6;
    if (!colon || port < 1 || port > 65535 || *end || (size_t)(colon - where) >= sizeof host)
        return gs_fail(error, GS_E_USAGE, "--metrics takes ADDRESS:PORT, such as 127.0.0.1:9400, not \"%.60s\"", where);
    snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    const struct sockaddr *any = uv_ip4_addr(host[0] ? host : "127.0.0.1", (int)port, &address) == 0
                                     ? (const struct sockaddr *)&address
                                     : (const struct sockaddr *)&address6;
    if (any == (const struct sockaddr *)&address6 && uv_ip6_addr(host, (int)port, &address6) != 0)
        return gs_fail(error, GS_E_USAGE, "\"%.60s\" is not an address; 127.0.0.1:9400 is one", where);
    uv_tcp_init(&daemon->loop, &daemon->http);
    daemon->http.data = daemon;
    int status = uv_tcp_bind(&daemon->http, any, 0);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&daemon->http, HTTP_CONNECTIONS, http_came);
    return status == 0 ? GS_OK : gs_fail(error, GS_E_IO, "cannot listen at %s: %s", where, uv_strerror(status));
}

/* ---- the socket ---- */

/* The socket that systemd has opened, or -1. */
static int inherited_socket(void) {
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int kind = 0;
    socklen_t size = sizeof kind;
    if (!process || !count || strtol(process, NULL, 10) != getpid() || strtol(count, NULL, 10) < 1)
        return -1;
    if (getsockopt(3, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 || kind != SOCK_SEQPACKET)
        return -1;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(3, F_SETFL, fcntl(3, F_GETFL) | O_NONBLOCK);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    return 3;
}

/* One daemon at a socket: who holds the lock may remove a socket that was left behind. */
static gs_code lock_path(struct daemon *daemon, gs_error *error) {
    char path[sizeof daemon->path + 8];
    snprintf(path, sizeof path, "%s.lock", daemon->path);
    for (;;) {
        struct stat facts;
        daemon->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (daemon->lock < 0)
            return gs_fail_system(error, "open", path);
        if (flock(daemon->lock, LOCK_EX | LOCK_NB) != 0)
            return gs_fail(error, GS_E_IO, "a daemon listens at %s already", daemon->path);
        if (fstat(daemon->lock, &facts) == 0 && facts.st_nlink > 0)
            return GS_OK;
        close(daemon->lock); /* a daemon that was stopping has just removed it */
    }
}

static gs_code make_socket(struct daemon *daemon, gs_error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    gs_code code = lock_path(daemon, error);
    if (code != GS_OK)
        return code;
    memcpy(address.sun_path, daemon->path, strlen(daemon->path) + 1);
    if (lstat(daemon->path, &there) == 0 && !S_ISSOCK(there.st_mode))
        return gs_fail(error, GS_E_IO, "%s is there, and is not a socket", daemon->path);
    unlink(daemon->path);
    daemon->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t before = umask(0177);
    bool is_there = daemon->listening >= 0 &&
                    bind(daemon->listening, (struct sockaddr *)&address, sizeof address) == 0 &&
                    listen(daemon->listening, 128) == 0;
    umask(before);
    return is_there ? GS_OK : gs_fail_system(error, "listen at", daemon->path);
}

static gs_code open_socket(struct daemon *daemon, gs_error *error) {
    daemon->listening = inherited_socket();
    if (daemon->listening >= 0)
        return GS_OK;
    if (!gs_wire_socket(daemon->options->socket, daemon->path, sizeof daemon->path)) {
        bool is_too_long = daemon->path[0];
        daemon->path[0] = '\0';
        return gs_fail(error, GS_E_USAGE, "%s",
                       is_too_long ? gs_wire_too_long
                                   : "where should the socket be? use --socket PATH, or set XDG_RUNTIME_DIR");
    }
    return make_socket(daemon, error);
}

static void remove_socket(struct daemon *daemon) {
    char path[sizeof daemon->path + 8];
    if (daemon->lock < 0)
        return;
    if (daemon->listening >= 0)
        unlink(daemon->path);
    snprintf(path, sizeof path, "%s.lock", daemon->path);
    if (flock(daemon->lock, LOCK_EX | LOCK_NB) == 0)
        unlink(path);
    close(daemon->lock);
    daemon->lock = -1;
}

/* ---- the loop ---- */

static void engine_spoke(uv_poll_t *poll, int status, int events) {
    (void)poll, (void)status, (void)events; /* the loop looks at it anyway */
}

static void timer_rang(uv_poll_t *poll, int status, int events) {
    struct daemon *daemon = poll->data;
    uint64_t times;
    (void)status, (void)events;
    while (read(daemon->timer_fd, &times, sizeof times) < 0 && errno == EINTR)
        ;
}

/* The first signal lets clients finish what they have asked for; the second does not. */
static void signal_came(uv_signal_t *signal, int number) {
    struct daemon *daemon = signal->data;
    (void)number;
    daemon->is_stopping_now = daemon->stop_at_ns != 0;
    daemon->stop_at_ns = (uint64_t)gs_now_ns() + (uint64_t)DRAIN_SECONDS * 1000000000;
    daemon->server->is_draining = true;
    uv_poll_stop(&daemon->listener);
    if (daemon->path[0])
        unlink(daemon->path);
}

static bool must_stop(const struct daemon *daemon) {
    return daemon->stop_at_ns && (daemon->is_stopping_now || !gs_server_is_busy(daemon->server) ||
                                  (uint64_t)gs_now_ns() >= daemon->stop_at_ns);
}

static void set_timer(struct daemon *daemon, uint64_t ns) {
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};
    if (ns == 0)
        when.it_value.tv_nsec = 1;
    timerfd_settime(daemon->timer_fd, 0, &when, NULL);
}

static void sleep_until_something(struct daemon *daemon) {
    uint64_t most_ns;
    if (!gs_server_sleep(daemon->server, &most_ns))
        return;
    if (most_ns == UINT64_MAX && daemon->stop_at_ns)
        most_ns = 100000000;
    if (most_ns != UINT64_MAX)
        set_timer(daemon, most_ns);
    uv_run(&daemon->loop, UV_RUN_ONCE);
}

/* There is work. If looking would have found it, it is worth to look as long the next time; else less. */
static void learn_to_wait(struct daemon *daemon) {
    uint64_t now = daemon->server->now_ns, most = daemon->most_spin_ns, half = daemon->spin_ns / 2;
    daemon->spin_ns = now - daemon->worked_ns < most ? most : half > SPIN_LEAST_NS ? half : SPIN_LEAST_NS;
    daemon->worked_ns = now;
}

/* Looks for work for a while. True: there was some. */
static bool spin(struct daemon *daemon) {
    uint64_t began = (uint64_t)gs_now_ns();
    while (!gs_server_work(daemon->server)) {
        sched_yield();
        if (daemon->server->now_ns - began >= daemon->spin_ns)
            return false;
    }
    learn_to_wait(daemon);
    return true;
}

static void run_loop(struct daemon *daemon) {
    uint64_t looked = 0;
    while (!must_stop(daemon)) {
        if (!spin(daemon)) {
            sleep_until_something(daemon);
            looked = (uint64_t)gs_now_ns();
        } else if (daemon->server->now_ns - looked >= LOOK_NS) {
            uv_run(&daemon->loop, UV_RUN_NOWAIT);
            looked = daemon->server->now_ns;
        }
    }
}

/* ---- opening and closing ---- */

static gs_server *open_server(struct daemon *daemon, char *profiles, size_t size, gs_error *error) {
    const gs_serve_options *options = daemon->options;
    gs_server_options asked = {
        .engine = {.device = options->device ? options->device : "cuda",
                   .sms = options->sms,
                   .memory_bytes = options->memory_bytes,
                   .checks_marks = options->has_marks},
        .cache = options->cache,
        .limit_ns = (uint64_t)((options->limit_seconds > 0 ? options->limit_seconds : 60) * 1e9),
        .shuffle_ns = (uint64_t)options->shuffle_us * 1000,
        .watch = watch_compiler,
        .say = say_line,
        .context = daemon,
    };
    const char *home = getenv("HOME"), *data = getenv("XDG_DATA_HOME");
    asked.profiles = options->profiles && options->profiles[0] ? options->profiles : NULL;
    if (!options->profiles && ((data && data[0] == '/') || (home && home[0] == '/'))) {
        snprintf(profiles, size, "%s%s", data && data[0] == '/' ? data : home,
                 data && data[0] == '/' ? "/gridsmith" : "/.local/share/gridsmith");
        gs_make_folders(profiles, NULL); /* where that fails, opening the file says so */
        snprintf(profiles + strlen(profiles), size - strlen(profiles), "/profiles.sqlite");
        asked.profiles = profiles;
    }
    gs_server *server = gs_server_open(&asked, error);
    if (!server && !options->device && error->code == GS_E_NO_GPU) {
        options->say("there is no GPU here: kernels run on the CPU, which plays one");
        asked.engine.device = "host";
        server = gs_server_open(&asked, error);
    }
    return server;
}

static gs_code watch_descriptor(struct daemon *daemon, uv_poll_t *poll, int fd, uv_poll_cb callback, gs_error *error) {
    poll->data = daemon;
    if (uv_poll_init(&daemon->loop, poll, fd) != 0 || uv_poll_start(poll, UV_READABLE, callback) != 0)
        return gs_fail(error, GS_E_IO, "cannot watch a descriptor");
    return GS_OK;
}

static gs_code start(struct daemon *daemon, gs_error *error) {
    daemon->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (daemon->timer_fd < 0)
        return gs_fail_system(error, "make", "a timer");
    gs_code code = watch_descriptor(daemon, &daemon->listener, daemon->listening, client_came, error);
    if (code == GS_OK)
        code = watch_descriptor(daemon, &daemon->engine, gs_worker_fd(daemon->server->engine), engine_spoke, error);
    if (code == GS_OK)
        code = watch_descriptor(daemon, &daemon->timer, daemon->timer_fd, timer_rang, error);
    uv_signal_init(&daemon->loop, &daemon->terminate);
    uv_signal_init(&daemon->loop, &daemon->interrupt);
    daemon->terminate.data = daemon->interrupt.data = daemon;
    uv_signal_start(&daemon->terminate, signal_came, SIGTERM);
    uv_signal_start(&daemon->interrupt, signal_came, SIGINT);
    if (code == GS_OK && daemon->options->metrics)
        code = open_metrics(daemon, daemon->options->metrics, error);
    return code;
}

static void close_any(uv_handle_t *handle, void *context) {
    struct daemon *daemon = context;
    if (uv_is_closing(handle))
        return;
    for (const gs_load *load = daemon->server ? daemon->server->loads : NULL; load; load = load->next)
        if (load->watcher == handle) {
            uv_close(handle, compiler_closed);
            return;
        }
    bool is_own = handle == (uv_handle_t *)&daemon->listener || handle == (uv_handle_t *)&daemon->engine ||
                  handle == (uv_handle_t *)&daemon->timer || handle == (uv_handle_t *)&daemon->terminate ||
                  handle == (uv_handle_t *)&daemon->interrupt || handle == (uv_handle_t *)&daemon->http;
    if (is_own)
        uv_close(handle, NULL);
    else if (handle->type == UV_TCP || handle->type == UV_TIMER)
        request_end(handle->data);
}

static void stop(struct daemon *daemon) {
    for (size_t i = 0; daemon->server && i < daemon->server->sessions.count; i++)
        if (daemon->server->sessions.data[i])
            gs_session_end(daemon->server->sessions.data[i], GS_CLIENT_LOST, "the daemon was stopped");
    while (daemon->connections)
        hang_up(daemon->connections);
    uv_walk(&daemon->loop, close_any, daemon);
    while (uv_run(&daemon->loop, UV_RUN_DEFAULT) != 0)
        ;
    gs_server_close(daemon->server);
    uv_loop_close(&daemon->loop);
    remove_socket(daemon);
    close_if(daemon->listening);
    close_if(daemon->timer_fd);
}

static void tell_where(const struct daemon *daemon) {
    const gs_worker_facts *facts = &daemon->server->facts;
    char line[300];
    snprintf(line, sizeof line, "serving %s at %s", facts->name,
             daemon->path[0] ? daemon->path : "the socket of systemd");
    daemon->options->say(line);
}

/* Each client has four descriptors here. */
static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Whoever starts a daemon without the first three gets nothing there: other descriptors must not take their place. */
static void fill_descriptors(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    close_if(fd);
}

gs_code gs_serve(const gs_serve_options *options, gs_error *error) {
    struct daemon daemon = {.options = options, .listening = -1, .lock = -1, .timer_fd = -1};
    daemon.spin_ns = daemon.most_spin_ns = gs_process_may_spin() ? SPIN_NS : SPIN_FEW_CORES_NS;
    char profiles[1024];
    signal(SIGPIPE, SIG_IGN);
    fill_descriptors();
    allow_descriptors();
    if (uv_loop_init(&daemon.loop) != 0)
        return gs_fail_memory(error);
    gs_code code = open_socket(&daemon, error);
    if (code == GS_OK) {
        daemon.server = open_server(&daemon, profiles, sizeof profiles, error);
        code = daemon.server ? start(&daemon, error) : error->code;
    }
    if (code == GS_OK) {
        tell_where(&daemon);
        run_loop(&daemon);
    }
    stop(&daemon);
    return code;
}
