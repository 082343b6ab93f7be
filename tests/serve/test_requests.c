/*
 * test_requests.c: programs connect to ask for the metrics, say a part of a request or all of it, wait, read or do not
 * read, and leave, at random. What becomes of each connection is compared with the rules at the beginning of
 * src/sharing/serve/http.c, which are written out here over a plain list of connections.
 *
 * The clock and the timers are played. An answer is written when its client reads, which the test decides.
 *
 * GRIDSMITH_RUNS is how many steps are played, GRIDSMITH_SEED where they start.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MS = 1000000,
    CONNECTIONS = 16, /* at a time */
    MOMENT_MS = 50,
    LIMIT_MS = 5000,
    PAUSE_TIMES = 4,
    MOST_PAUSE_MS = 20,
    PEERS = 400,
    STEPS = 400,
};

static int64_t now_ns, thread_ns, cost_ns; /* what an answer costs */
static uv_loop_t loop;
static gs_http http;
static struct sockaddr_in address;

/* ---- peers, and what should have become of them ---- */

static const char whole[] = "GET /metrics HTTP/1.1\r\n\r\n", other[] = "GET /other HTTP/1.0\r\n\r\n";

/* When a timer rings. Of two at the same time the one that was started first rings first. */
struct due {
    int64_t ns;      /* -1: never */
    uint64_t number; /* how many were started before */
};

static struct peer {
    int fd;
    const char *asks;
    size_t sent;
    bool is_accepted, is_ended, reads, is_complete, is_answered; /* is_complete: the daemon has the whole request */
    int64_t since_ns;
    struct due limit;
    char wanted[300], got[300];
    bool has_ended;
    /* an answer that the client does not read yet */
    uv_write_t *write;
    uv_stream_t *stream;
    uv_buf_t buffers[2];
    uv_write_cb written;
} peers[PEERS];
static size_t peer_count;

static struct peer *peer_at(uv_stream_t *stream) {
    struct sockaddr_in of_stream, of_peer;
    int length = sizeof of_stream;
    assert_int_equal(uv_tcp_getpeername((uv_tcp_t *)stream, (struct sockaddr *)&of_stream, &length), 0);
    for (size_t i = peer_count; i-- > 0;) {
        socklen_t size = sizeof of_peer;
        if (!peers[i].has_ended && getsockname(peers[i].fd, (struct sockaddr *)&of_peer, &size) == 0 &&
            of_peer.sin_port == of_stream.sin_port)
            return &peers[i];
    }
    fail();
    return NULL;
}

/* ---- the clock, answers and timers, played ---- */

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_now_ns(void) {
    return now_ns;
}

int64_t __wrap_gs_thread_ns(void);
int64_t __wrap_gs_thread_ns(void) {
    return thread_ns;
}

void __wrap_gs_metrics_text(const gs_server *server, gs_text *into);
void __wrap_gs_metrics_text(const gs_server *server, gs_text *into) {
    (void)server;
    thread_ns += cost_ns;
    gs_text_add(into, "the answer");
}

int __real_uv_write(uv_write_t *write, uv_stream_t *stream, const uv_buf_t *buffers, unsigned count,
                    uv_write_cb callback);
int __wrap_uv_write(uv_write_t *write, uv_stream_t *stream, const uv_buf_t *buffers, unsigned count,
                    uv_write_cb callback);
int __wrap_uv_write(uv_write_t *write, uv_stream_t *stream, const uv_buf_t *buffers, unsigned count,
                    uv_write_cb callback) {
    struct peer *peer = peer_at(stream);
    if (peer->reads)
        return __real_uv_write(write, stream, buffers, count, callback);
    assert_int_equal(count, GS_COUNT(peer->buffers));
    memcpy(peer->buffers, buffers, sizeof peer->buffers);
    peer->write = write;
    peer->stream = stream;
    peer->written = callback;
    return 0;
}

static struct timer {
    uv_timer_t *handle;
    uv_timer_cb callback;
    int64_t due_ns;
} timers[4 * CONNECTIONS]; /* as they were started */
static size_t timer_count;

static size_t find_timer(const void *handle) {
    size_t i = 0;
    while (i < timer_count && timers[i].handle != handle)
        i++;
    return i;
}

static void remove_timer(size_t number) {
    if (number < timer_count)
        memmove(&timers[number], &timers[number + 1], (--timer_count - number) * sizeof timers[0]);
}

int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb callback, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb callback, uint64_t timeout, uint64_t repeat) {
    assert_int_equal(repeat, 0);
    remove_timer(find_timer(handle));
    assert_true(timer_count < GS_COUNT(timers));
    timers[timer_count++] = (struct timer){handle, callback, now_ns + (int64_t)timeout * MS};
    return 0;
}

int __real_uv_is_active(const uv_handle_t *handle);
int __wrap_uv_is_active(const uv_handle_t *handle);
int __wrap_uv_is_active(const uv_handle_t *handle) {
    return handle->type == UV_TIMER ? find_timer(handle) < timer_count : __real_uv_is_active(handle);
}

void __real_uv_close(uv_handle_t *handle, uv_close_cb callback);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb callback);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb callback) {
    remove_timer(find_timer(handle));
    for (size_t i = 0; i < peer_count; i++)
        if (peers[i].stream == (uv_stream_t *)handle)
            peers[i].stream = NULL;
    __real_uv_close(handle, callback);
}

/* ---- the rules ---- */

static struct due look; /* for those that wait for a time */
static int64_t answer_after_ns;
static size_t closing; /* connections that have ended in this step, and still count */

static size_t count_open(void) {
    size_t count = closing;
    for (size_t i = 0; i < peer_count; i++)
        count += peers[i].is_accepted && !peers[i].is_ended;
    return count;
}

static struct peer *find_waiting(void) {
    for (size_t i = 0; i < peer_count; i++)
        if (!peers[i].is_accepted)
            return &peers[i];
    return NULL;
}

static struct due due_in(int64_t ms) {
    static uint64_t number;
    return (struct due){now_ns + ms * MS, number++};
}

static bool is_due_before(struct due a, struct due b) {
    return b.ns < 0 || a.ns < b.ns || (a.ns == b.ns && a.number < b.number);
}

static void look_in(int64_t ms) {
    if (look.ns < 0)
        look = due_in(ms);
}

static void begin_limit(struct peer *peer) {
    peer->since_ns = now_ns;
    peer->limit = due_in(LIMIT_MS);
}

static void end_peer(struct peer *peer) {
    peer->is_ended = true;
    closing++;
}

static void answer_peer(struct peer *peer) {
    bool is_found = peer->asks == whole;
    int64_t pause_ns = is_found ? PAUSE_TIMES * cost_ns : 0;
    peer->is_answered = true;
    begin_limit(peer);
    answer_after_ns = now_ns + (pause_ns < (int64_t)MOST_PAUSE_MS * MS ? pause_ns : (int64_t)MOST_PAUSE_MS * MS);
    if (!peer->reads)
        return;
    snprintf(peer->wanted, sizeof peer->wanted,
             "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %d\r\n"
             "Connection: close\r\n\r\n%s",
             is_found ? "200 OK" : "404 Not Found", is_found ? 10 : 13, is_found ? "the answer" : "see /metrics\n");
    end_peer(peer);
}

/* The one that was accepted first is answered first. */
static void answer_peers(void) {
    for (size_t i = 0; i < peer_count; i++) {
        struct peer *peer = &peers[i];
        if (!peer->is_complete || peer->is_answered || peer->is_ended)
            continue;
        if (answer_after_ns > now_ns) {
            look_in((answer_after_ns - now_ns) / MS + 1);
            return;
        }
        answer_peer(peer);
    }
}

static void read_peer(struct peer *peer) {
    peer->is_complete = peer->sent == strlen(peer->asks);
    if (peer->is_complete)
        answer_peers();
}

static void accept_peer(void) {
    struct peer *waiting = find_waiting();
    if (!waiting)
        return;
    if (count_open() < CONNECTIONS) {
        waiting->is_accepted = true;
        begin_limit(waiting);
        read_peer(waiting);
        return;
    }
    for (size_t i = 0; i < peer_count; i++) {
        struct peer *peer = &peers[i];
        if (peer->is_accepted && !peer->is_ended && (!peer->is_complete || peer->is_answered) &&
            peer->since_ns < now_ns - (int64_t)MOMENT_MS * MS) {
            end_peer(peer);
            return;
        }
    }
    look_in(MOMENT_MS);
}

static void close_ended(void) {
    while (closing) {
        closing--;
        accept_peer();
    }
}

/* ---- what has become of them ---- */

static bool reads_all(struct peer *peer) {
    ssize_t got = 1;
    while (!peer->has_ended && got > 0) {
        size_t count = strlen(peer->got);
        got = recv(peer->fd, peer->got + count, sizeof peer->got - 1 - count, MSG_DONTWAIT);
        peer->has_ended = got == 0 || (got < 0 && errno != EAGAIN);
    }
    return peer->has_ended == peer->is_ended && strcmp(peer->got, peer->wanted) == 0;
}

static bool is_as_wanted(void) {
    size_t timer = find_timer(&http.timer);
    bool is_right = true;
    for (size_t i = 0; i < peer_count; i++)
        is_right = reads_all(&peers[i]) && is_right;
    return is_right && http.count == count_open() && http.has_waiting == (find_waiting() != NULL) &&
           (timer < timer_count ? timers[timer].due_ns : -1) == look.ns;
}

static bool becomes_as_wanted(void) {
    uv_run(&loop, UV_RUN_NOWAIT);
    return is_as_wanted();
}

static void settle(void) {
    close_ended();
    TEST_WAIT(becomes_as_wanted());
    for (int i = 0; i < 3; i++)
        assert_true(becomes_as_wanted());
}

/* ---- steps ---- */

static void send_part(struct peer *peer, size_t bytes) {
    assert_int_equal(send(peer->fd, peer->asks + peer->sent, bytes, MSG_NOSIGNAL), bytes);
    peer->sent += bytes;
}

/* One connection waits at a time, so that the order in which the loop closes others does not matter. */
static void connect_peer(gs_random *random) {
    if (find_waiting() || peer_count == PEERS)
        return;
    struct peer *peer = &peers[peer_count++];
    *peer = (struct peer){.asks = gs_random_chance(random, 70) ? whole : other, .reads = gs_random_chance(random, 80)};
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(peer->fd, (struct sockaddr *)&address, sizeof address), 0);
    if (gs_random_chance(random, 40))
        send_part(peer, (size_t)gs_random_from(random, 1, (int64_t)strlen(peer->asks)));
    accept_peer();
}

static struct peer *draw_open(gs_random *random, bool (*fits)(const struct peer *)) {
    struct peer *found[PEERS];
    int64_t count = 0;
    for (size_t i = 0; i < peer_count; i++)
        if (peers[i].is_accepted && !peers[i].is_ended && fits(&peers[i]))
            found[count++] = &peers[i];
    return count ? found[gs_random_from(random, 0, count - 1)] : NULL;
}

static bool is_asking(const struct peer *peer) {
    return !peer->is_complete;
}

static bool is_unread(const struct peer *peer) {
    return peer->is_answered && peer->stream;
}

static void say_more(gs_random *random) {
    struct peer *peer = draw_open(random, is_asking);
    if (!peer)
        return;
    size_t left = strlen(peer->asks) - peer->sent;
    send_part(peer, gs_random_chance(random, 70) ? left : (size_t)gs_random_from(random, 1, (int64_t)left));
    read_peer(peer);
}

static void leave(gs_random *random) {
    struct peer *peer = draw_open(random, is_asking);
    if (peer && shutdown(peer->fd, SHUT_WR) == 0)
        end_peer(peer);
}

static void begin_to_read(gs_random *random) {
    struct peer *peer = draw_open(random, is_unread);
    if (!peer)
        return;
    int64_t after_ns = answer_after_ns, since_ns = peer->since_ns;
    peer->reads = true;
    answer_peer(peer);
    answer_after_ns = after_ns;
    peer->since_ns = since_ns;
    assert_int_equal(__real_uv_write(peer->write, peer->stream, peer->buffers, GS_COUNT(peer->buffers), peer->written),
                     0);
}

/* What is due next by the rules: a connection, or NULL: to look. -1: nothing. */
static int64_t next_due(struct peer **whose) {
    struct due due = look;
    *whose = NULL;
    for (size_t i = 0; i < peer_count; i++)
        if (peers[i].is_accepted && !peers[i].is_ended && is_due_before(peers[i].limit, due)) {
            due = peers[i].limit;
            *whose = &peers[i];
        }
    return due.ns;
}

static void ring_timer(void) {
    size_t first = 0;
    for (size_t i = 0; i < timer_count; i++)
        first = timers[i].due_ns < timers[first].due_ns ? i : first;
    assert_true(timer_count > 0 && timers[first].due_ns == now_ns);
    struct timer timer = timers[first];
    remove_timer(first);
    timer.callback(timer.handle);
}

static void pass_time(int64_t ns) {
    int64_t end_ns = now_ns + ns, due_ns;
    struct peer *whose;
    while ((due_ns = next_due(&whose)) >= 0 && due_ns <= end_ns) {
        now_ns = due_ns;
        ring_timer();
        if (whose) {
            end_peer(whose);
        } else {
            look.ns = -1;
            answer_peers();
            accept_peer();
        }
        settle();
    }
    now_ns = end_ns;
}

static void play_step(gs_random *random) {
    static const int64_t passes_ns[] = {MS / 5, MS, 5 * MS, 49 * MS, 51 * MS, 300 * MS, 2500ll * MS};
    static const int64_t costs_ns[] = {0, 0, MS / 10, 2 * MS, 30 * MS};
    cost_ns = costs_ns[gs_random_from(random, 0, GS_COUNT(costs_ns) - 1)];
    int64_t what = gs_random_from(random, 0, 99);
    if (what < 50)
        connect_peer(random);
    else if (what < 65)
        say_more(random);
    else if (what < 70)
        leave(random);
    else if (what < 75)
        begin_to_read(random);
    else
        pass_time(passes_ns[gs_random_from(random, 0, GS_COUNT(passes_ns) - 1)]);
    settle();
    now_ns += gs_random_from(random, 0, 1); /* timers are due at once, or one just after another */
}

/* ---- tests ---- */

static void open_http(void) {
    char where[40];
    socklen_t size = sizeof address;
    gs_error error;
    static int any;
    now_ns = 1;
    thread_ns = cost_ns = answer_after_ns = 0;
    look.ns = -1;
    peer_count = timer_count = closing = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* finds a free port */
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    snprintf(where, sizeof where, "127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(gs_http_open(&http, &loop, (const gs_server *)&any, where, &error), GS_OK);
}

static void close_http(void) {
    gs_http_close(&http);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    assert_int_equal(uv_loop_close(&loop), 0);
    for (size_t i = 0; i < peer_count; i++)
        close(peers[i].fd);
}

TEST(requests_are_answered_by_the_rules) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), rounds = test_number("GRIDSMITH_RUNS", 100000) / 4000 + 1;
    for (uint64_t i = 0; i < rounds; i++) {
        gs_random random = gs_random_at(seed, i);
        open_http();
        for (int step = 0; step < STEPS; step++)
            play_step(&random);
        close_http();
    }
}

TEST_MAIN(NULL, NULL)
