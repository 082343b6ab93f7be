/*
 * test_pauses.c: the metrics and the status, which programs can request as often as they like, get only a part of the
 * daemon's time; each request is answered; and what the daemon accepts is not inherited by the programs that it starts.
 *
 * Time is played: an answer takes ANSWER_NS or no time, a microsecond passes whenever somebody looks at the clock, and
 * a millisecond whenever the loop has run.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_NS = 2000000, PART = 5, CLIENTS = 30, CONNECTIONS = 16, MOST_FDS = 256, MOST_RUNS = 600 };

static int64_t now_ns, spent_ns;
static int answers, runs;
static bool was_open[MOST_FDS]; /* before the test */
static uv_loop_t loop;

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_now_ns(void) {
    return now_ns += 1000;
}

int64_t __wrap_gs_thread_ns(void);
int64_t __wrap_gs_thread_ns(void) {
    return spent_ns;
}

static void answer(gs_text *into) {
    assert_true(PART * spent_ns <= now_ns);
    for (int fd = 0; fd < MOST_FDS; fd++)
        assert_true(was_open[fd] || fcntl(fd, F_GETFD) < 0 || fcntl(fd, F_GETFD) & FD_CLOEXEC);
    int64_t took_ns = answers++ % 3 ? ANSWER_NS : 0;
    now_ns += took_ns;
    spent_ns += took_ns;
    gs_text_add(into, "the answer");
}

void __wrap_gs_metrics_text(const gs_server *server, gs_text *into);
void __wrap_gs_metrics_text(const gs_server *server, gs_text *into) {
    (void)server;
    answer(into);
}

void __wrap_gs_status_json(const gs_server *server, gs_text *into);
void __wrap_gs_status_json(const gs_server *server, gs_text *into) {
    (void)server;
    answer(into);
}

static void begin(void) {
    now_ns = spent_ns = answers = runs = 0;
    for (int fd = 0; fd < MOST_FDS; fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    assert_int_equal(uv_loop_init(&loop), 0);
}

static void run_once(void) {
    assert_true(++runs < MOST_RUNS);
    uv_run(&loop, UV_RUN_ONCE);
    now_ns += 1000000;
}

static int connect_to(const void *address, socklen_t size, int type) {
    int fd = socket(((const struct sockaddr *)address)->sa_family, type | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, address, size), 0);
    return fd;
}

/* Whether the daemon has closed the connection. `text` gets what it said, as far as it fits. */
static bool has_ended(int fd, char *text, size_t size) {
    ssize_t got;
    while ((got = recv(fd, text + strlen(text), size - 1 - strlen(text), MSG_DONTWAIT)) > 0)
        ;
    return got == 0 || errno != EAGAIN;
}

/* ---- metrics ---- */

static gs_http http;
static struct sockaddr_in http_address;

static void open_http(void) {
    char where[40];
    socklen_t size = sizeof http_address;
    gs_error error;
    static int any;
    begin();
    http_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* finds a free port */
    assert_int_equal(bind(fd, (struct sockaddr *)&http_address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&http_address, &size), 0);
    close(fd);
    snprintf(where, sizeof where, "127.0.0.1:%d", ntohs(http_address.sin_port));
    assert_int_equal(gs_http_open(&http, &loop, (const gs_server *)&any, where, &error), GS_OK);
}

static void close_http(void) {
    gs_http_close(&http);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    assert_int_equal(uv_loop_close(&loop), 0);
}

static int ask_http(void) {
    static const char question[] = "GET /metrics HTTP/1.1\r\n\r\n";
    int fd = connect_to(&http_address, sizeof http_address, SOCK_STREAM);
    assert_int_equal(send(fd, question, sizeof question - 1, 0), sizeof question - 1);
    return fd;
}

static void metrics_get_a_part_of_the_time(void **state) {
    int fds[CLIENTS];
    (void)state;
    open_http();
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = ask_http();
    for (int i = 0; i < CLIENTS; i++) {
        char text[400] = "";
        while (!has_ended(fds[i], text, sizeof text))
            run_once();
        assert_non_null(strstr(text, "HTTP/1.0 200 OK"));
        assert_non_null(strstr(text, "\r\n\r\nthe answer"));
        close(fds[i]);
    }
    assert_int_equal(answers, CLIENTS);
    close_http();
}

/* The oldest of as many connections as there may be makes way for a request, and no other. */
static void silent_connection_makes_way_for_a_request(void **state) {
    int silent[CONNECTIONS];
    char text[400] = "", nothing[2] = "";
    (void)state;
    open_http();
    for (size_t i = 0; i < CONNECTIONS; i++) {
        silent[i] = connect_to(&http_address, sizeof http_address, SOCK_STREAM);
        while (http.count <= i)
            run_once();
    }
    now_ns += 1000000000;
    int fd = ask_http();
    while (!has_ended(fd, text, sizeof text))
        run_once();
    assert_non_null(strstr(text, "HTTP/1.0 200 OK"));
    for (size_t i = 0; i < CONNECTIONS; i++) {
        assert_int_equal(has_ended(silent[i], nothing, sizeof nothing), i == 0);
        close(silent[i]);
    }
    close(fd);
    close_http();
}

/* ---- the status ---- */

static void status_gets_a_part_of_the_time(void **state) {
    static gs_server server;
    static gs_connections connections;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;
    const gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_STATUS};
    int fds[CLIENTS], listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)state;
    begin();
    gs_quotas_open(&server.quotas, &(gs_quotas_options){0}, 1 << 20);
    gs_connections_open(&connections, &loop, &server);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address.sun_family), 0);
    assert_int_equal(listen(listening, CLIENTS), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = connect_to(&address, size, SOCK_SEQPACKET);
        assert_int_equal(send(fds[i], &hello, sizeof hello, 0), sizeof hello);
    }
    for (int i = 0; i < CLIENTS; i++) {
        gs_wire_welcome welcome = {.code = GS_CLIENT_LOST};
        ssize_t got;
        while ((got = recv(fds[i], &welcome, sizeof welcome, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
            assert_int_equal(errno, EAGAIN);
            gs_connections_accept(&connections, listening);
            run_once();
        }
        assert_int_equal(got, sizeof welcome);
        assert_int_equal(welcome.code, GS_CLIENT_OK);
        close(fds[i]);
    }
    assert_int_equal(answers, CLIENTS);
    gs_connections_close(&connections);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    assert_int_equal(uv_loop_close(&loop), 0);
    gs_closing_close(&server.closing, &server.quotas);
    gs_quotas_close(&server.quotas);
    close(listening);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_get_a_part_of_the_time),
        cmocka_unit_test(silent_connection_makes_way_for_a_request),
        cmocka_unit_test(status_gets_a_part_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
