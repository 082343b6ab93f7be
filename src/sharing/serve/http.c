/*
 * http.c: answers Prometheus: GET /metrics, and nothing else. Few connections, short requests, a time limit for each.
 *
 * Any user of the machine can connect. So answers get only a part of the daemon's time: requests during a pause are
 * answered later, in order. A request is read as soon as its connection is accepted. When there are too many
 * connections, the oldest one without a request, or whose answer is not read, is closed to make way, but not in its
 * first moment: a new connection waits to be accepted instead. So a flood delays a request, but does not end it.
 */
#include "daemon.h"

#include <stdlib.h>
#include <sys/socket.h>

enum {
    CONNECTIONS = 16,
    BACKLOG = 128, /* connections that wait to be accepted */
    LIMIT_MS = 5000,
    MOMENT_MS = 50, /* in which a connection does not have to make way */
    REQUEST_BYTES = 4096,
    PAUSE_TIMES = 4
};

struct http_request {
    gs_http *http;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    char bytes[REQUEST_BYTES];
    size_t count;
    bool is_complete, is_answered;
    int64_t since_ns; /* when it was accepted or answered */
    gs_text head, body;
    int handles;
    struct http_request *next;
};

static void accept_waiting(gs_http *http);

static void request_closed(uv_handle_t *handle) {
    struct http_request *request = handle->data, **at = &request->http->first;
    gs_http *http = request->http;
    if (--request->handles)
        return;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    http->count--;
    gs_text_free(&request->head);
    gs_text_free(&request->body);
    free(request);
    accept_waiting(http);
}

static void end_request(struct http_request *request) {
    if (uv_is_closing((uv_handle_t *)&request->tcp))
        return;
    uv_close((uv_handle_t *)&request->tcp, request_closed);
    uv_close((uv_handle_t *)&request->timer, request_closed);
}

static void time_is_over(uv_timer_t *timer) {
    end_request(timer->data);
}

static void on_written(uv_write_t *write, int status) {
    (void)status;
    end_request(write->data);
}

static void answer_request(struct http_request *request) {
    int64_t began = gs_thread_ns();
    bool is_metrics = strncmp(request->bytes, "GET /metrics", 12) == 0 || strncmp(request->bytes, "GET / ", 6) == 0;
    if (is_metrics)
        gs_metrics_text(request->http->server, &request->body);
    else
        gs_text_add(&request->body, "see /metrics\n");
    gs_text_add(&request->head,
                "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n",
                is_metrics ? "200 OK" : "404 Not Found", request->body.count);
    uv_buf_t buffers[] = {uv_buf_init(request->head.data, (unsigned)request->head.count),
                          uv_buf_init(request->body.data, (unsigned)request->body.count)};
    request->http->answer_after_ns = gs_pause_until(began, PAUSE_TIMES);
    request->is_answered = true;
    request->since_ns = gs_now_ns();
    uv_timer_start(&request->timer, time_is_over, LIMIT_MS, 0);
    request->write.data = request;
    if (request->head.failed || request->body.failed ||
        uv_write(&request->write, (uv_stream_t *)&request->tcp, buffers, 2, on_written) != 0)
        end_request(request);
}

/* ---- requests that wait ---- */

/* The oldest one; NULL: none. */
static struct http_request *next_request(const gs_http *http) {
    struct http_request *oldest = NULL;
    for (struct http_request *request = http->first; request; request = request->next)
        if (request->is_complete && !request->is_answered && !uv_is_closing((uv_handle_t *)&request->tcp))
            oldest = request;
    return oldest;
}

static void look_again(uv_timer_t *timer);

static void look_in(gs_http *http, int64_t ms) {
    if (!uv_is_active((uv_handle_t *)&http->timer))
        uv_timer_start(&http->timer, look_again, (uint64_t)ms, 0);
}

/* Answers requests, unless there is a pause. */
static void answer_requests(gs_http *http) {
    struct http_request *next;
    int64_t wait_ns = 0;
    while ((next = next_request(http)) && (wait_ns = http->answer_after_ns - gs_now_ns()) <= 0)
        answer_request(next);
    if (next)
        look_in(http, wait_ns / 1000000 + 1);
}

static void look_again(uv_timer_t *timer) {
    gs_http *http = timer->data;
    answer_requests(http);
    accept_waiting(http);
}

/* ---- reading ---- */

/* Bytes of the request came. */
static void take_bytes(struct http_request *request, size_t got) {
    request->count += got;
    request->bytes[request->count] = '\0';
    if (strstr(request->bytes, "\r\n\r\n") || strstr(request->bytes, "\n\n")) {
        request->is_complete = true;
        uv_read_stop((uv_stream_t *)&request->tcp);
        answer_requests(request->http);
    } else if (request->count == sizeof request->bytes - 1) {
        end_request(request);
    }
}

static void offer_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    struct http_request *request = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(request->bytes + request->count, (unsigned)(sizeof request->bytes - 1 - request->count));
}

static void bytes_came(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer) {
    struct http_request *request = stream->data;
    (void)buffer;
    if (got < 0) {
        end_request(request);
        return;
    }
    take_bytes(request, (size_t)got);
}

/* ---- accepting ---- */

/* A connection that can make way: one without a request, or that does not read its answer, the oldest. NULL: none. */
static struct http_request *find_oldest(const gs_http *http) {
    struct http_request *oldest = NULL;
    int64_t before = gs_now_ns() - (int64_t)MOMENT_MS * 1000000;
    for (struct http_request *request = http->first; request; request = request->next)
        if (!uv_is_closing((uv_handle_t *)&request->tcp) && (!request->is_complete || request->is_answered) &&
            request->since_ns < before)
            oldest = request;
    return oldest;
}

/* The request has usually arrived already. */
static void read_at_once(struct http_request *request) {
    uv_os_fd_t fd;
    ssize_t got = uv_fileno((uv_handle_t *)&request->tcp, &fd) == 0
                      ? recv(fd, request->bytes, sizeof request->bytes - 1, MSG_DONTWAIT)
                      : -1;
    if (got > 0)
        take_bytes(request, (size_t)got);
}

static void accept_request(gs_http *http) {
    struct http_request *request = calloc(1, sizeof *request);
    http->has_waiting = false;
    if (!request)
        return;
    request->http = http;
    request->handles = 2;
    request->next = http->first;
    request->since_ns = gs_now_ns();
    http->first = request;
    http->count++;
    uv_tcp_init(http->tcp.loop, &request->tcp);
    uv_timer_init(http->tcp.loop, &request->timer);
    request->tcp.data = request->timer.data = request;
    if (uv_accept((uv_stream_t *)&http->tcp, (uv_stream_t *)&request->tcp) != 0 ||
        uv_read_start((uv_stream_t *)&request->tcp, offer_buffer, bytes_came) != 0) {
        end_request(request);
        return;
    }
    uv_timer_start(&request->timer, time_is_over, LIMIT_MS, 0);
    read_at_once(request);
}

/* libuv keeps a connection that is not accepted, and reports no other until then. */
static void accept_waiting(gs_http *http) {
    if (!http->has_waiting || uv_is_closing((uv_handle_t *)&http->tcp))
        return;
    if (http->count < CONNECTIONS) {
        accept_request(http);
        return;
    }
    struct http_request *oldest = find_oldest(http);
    if (oldest)
        end_request(oldest); /* accepts when it is closed */
    else
        look_in(http, MOMENT_MS);
}

static void connection_came(uv_stream_t *listener, int status) {
    gs_http *http = listener->data;
    if (status != 0)
        return;
    http->has_waiting = true;
    accept_waiting(http);
}

/* ---- opening and closing ---- */

static gs_code parse_address(const char *where, struct sockaddr_storage *address, gs_error *error) {
    char host[64];
    const char *colon = strrchr(where, ':');
    char *end_of_port = NULL;
    long port = colon ? strtol(colon + 1, &end_of_port, 10) : 0;
    if (!colon || port < 1 || port > 65535 || *end_of_port || (size_t)(colon - where) >= sizeof host)
        return gs_fail(error, GS_E_USAGE, "--metrics takes ADDRESS:PORT, such as 127.0.0.1:9400, not \"%.60s\"", where);
    snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    if (uv_ip4_addr(host[0] ? host : "127.0.0.1", (int)port, (struct sockaddr_in *)address) != 0 &&
        uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)address) != 0)
        return gs_fail(error, GS_E_USAGE,
                       "\"%.60s\" is not an address: --metrics takes ADDRESS:PORT, such as 127.0.0.1:9400", where);
    return GS_OK;
}

gs_code gs_http_open(gs_http *http, uv_loop_t *loop, const gs_server *server, const char *where, gs_error *error) {
    struct sockaddr_storage address = {0};
    gs_code code = parse_address(where, &address, error);
    if (code != GS_OK)
        return code;
    *http = (gs_http){.server = server};
    uv_tcp_init(loop, &http->tcp);
    uv_timer_init(loop, &http->timer);
    http->tcp.data = http->timer.data = http;
    int status = uv_tcp_bind(&http->tcp, (const struct sockaddr *)&address, 0);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&http->tcp, BACKLOG, connection_came);
    return status == 0 ? GS_OK : gs_fail(error, GS_E_IO, "cannot listen at %s: %s", where, uv_strerror(status));
}

void gs_http_close(gs_http *http) {
    if (!http->server)
        return;
    uv_close((uv_handle_t *)&http->tcp, NULL);
    uv_close((uv_handle_t *)&http->timer, NULL);
    for (struct http_request *request = http->first; request; request = request->next)
        end_request(request);
}
