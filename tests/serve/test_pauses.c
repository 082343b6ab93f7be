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

/* The longest timer that was started. Once `has_passed`, timers of so many ms ring at once. */
static uint64_t longest_ms;
static bool has_passed;

int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout, uint64_t repeat) {
    longest_ms = gs_max_u64(longest_ms, timeout);
    return __real_uv_timer_start(timer, callback, has_passed && timeout == longest_ms ? 1 : timeout, repeat);
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

TEST(metrics_get_a_part_of_the_time) {
    int fds[CLIENTS];
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
TEST(silent_connection_makes_way_for_a_request) {
    int silent[CONNECTIONS];
    char text[400] = "", nothing[2] = "";
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

/* Sends a request in two parts, and returns all that comes until the connection is closed. */
static const char *answer_to(const char *request, size_t size, size_t first) {
    static char text[400];
    int fd = connect_to(&http_address, sizeof http_address, SOCK_STREAM);
    text[0] = '\0';
    assert_int_equal(send(fd, request, first, MSG_NOSIGNAL), first);
    for (int i = 0; i < 3 && first < size; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_false(has_ended(fd, text, sizeof text));
    }
    assert_int_equal(send(fd, request + first, size - first, MSG_NOSIGNAL), size - first);
    while (!has_ended(fd, text, sizeof text))
        run_once();
    close(fd);
    return text;
}

TEST(http_answers_what_it_is_asked) {
    enum { MOST = 4096 };
    static const char rest[] = "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ";
    static const struct {
        const char *request;
        bool is_found;
    } cases[] = {{"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", true},
                 {"GET / HTTP/1.0\n\n", true},
                 {"GET /other HTTP/1.1\r\n\r\n", false},
                 {"GET /metric HTTP/1.1\r\n\r\n", false},
                 {"POST /metrics HTTP/1.1\r\n\r\n", false},
                 {"GET /x\n\n", false}};
    static char much[MOST + 1000];
    open_http();
    for (size_t i = 0; i < 2 * GS_COUNT(cases); i++) {
        const char *request = cases[i / 2].request;
        char wanted[400];
        snprintf(wanted, sizeof wanted, "HTTP/1.0 %s%s%d\r\nConnection: close\r\n\r\n%s",
                 cases[i / 2].is_found ? "200 OK" : "404 Not Found", rest, cases[i / 2].is_found ? 10 : 13,
                 cases[i / 2].is_found ? "the answer" : "see /metrics\n");
        assert_string_equal(answer_to(request, strlen(request), i % 2 ? strlen(request) : strlen(request) - 1), wanted);
    }
    memset(much, 'x', sizeof much);
    memcpy(much, "GET /metrics", 12);
    assert_string_equal(answer_to(much, MOST - 1, 100), ""); /* too long */
    memcpy(much + MOST - 3, "\n\n", 2);
    assert_memory_equal(answer_to(much, MOST - 1, 100), "HTTP/1.0 200 OK", 15);
    assert_memory_equal(answer_to(much, MOST - 1, MOST - 1), "HTTP/1.0 200 OK", 15);
    memset(much + MOST - 3, 'x', 2);
    memcpy(much + sizeof much - 2, "\n\n", 2);
    assert_string_equal(answer_to(much, sizeof much, 100), ""); /* in two parts, of which one is too long */
    assert_string_equal(answer_to(much, sizeof much, 4000), "");
    close_http();
}

/* A connection without a request ends after five seconds, and not before. */
TEST(http_connections_end_in_time) {
    open_http();
    for (int is_over = 0; is_over < 2; is_over++) {
        char text[10] = "";
        has_passed = is_over;
        int fd = connect_to(&http_address, sizeof http_address, SOCK_STREAM);
        while (!http.count)
            run_once();
        assert_int_equal(longest_ms, 5000);
        assert_false(!is_over && has_ended(fd, text, sizeof text));
        if (!is_over)
            close(fd);
        while (http.count)
            run_once();
        if (is_over)
            assert_true(has_ended(fd, text, sizeof text));
        if (is_over)
            close(fd);
        assert_string_equal(text, "");
    }
    has_passed = false;
    close_http();
}

TEST(addresses_of_metrics_are_checked) {
    static const struct {
        const char *where;
        gs_code code;
    } cases[] = {{"127.0.0.1", GS_E_USAGE},    {"127.0.0.1:", GS_E_USAGE},
                 {"127.0.0.1:0", GS_E_USAGE},  {"127.0.0.1:65536", GS_E_USAGE},
                 {"127.0.0.1:9x", GS_E_USAGE}, {"nowhere:9400", GS_E_USAGE},
                 {"192.0.2.1:9400", GS_E_IO},  {"192.0.2.1:1", GS_E_IO},
                 {"::1:65535", GS_OK},         {":65535", GS_OK}};
    static int any;
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_error error = {.code = GS_OK};
        begin();
        http = (gs_http){0};
        gs_code code = gs_http_open(&http, &loop, (const gs_server *)&any, cases[i].where, &error);
        if (cases[i].code != GS_OK || code != GS_E_IO) /* the port may be in use, and a machine may have no IPv6 */
            assert_int_equal(code, cases[i].code);
        if (code == GS_OK) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            http_address = (struct sockaddr_in){
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(65535)};
            if (cases[i].where[1] != ':')
                assert_int_equal(connect(fd, (struct sockaddr *)&http_address, sizeof http_address), 0);
            close(fd);
        } else
            assert_non_null(strstr(error.message, cases[i].where));
        close_http();
    }
}

/* ---- the status ---- */

TEST(status_gets_a_part_of_the_time) {
    static gs_server server;
    static gs_connections connections;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;
    const gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_STATUS};
    int fds[CLIENTS], listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
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

TEST_MAIN(NULL, NULL)
