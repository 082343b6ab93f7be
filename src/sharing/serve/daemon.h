/*
 * daemon.h: the parts of the daemon that use sockets and libuv, private to this room. See daemon.c.
 */
#ifndef GS_DAEMON_H
#define GS_DAEMON_H

#include "serve.h"
#include "server.h"

#include <sys/un.h>
#include <uv.h>

/* Other users whose programs of `gridsmith run` are served, if any: the members of a group. */
typedef struct gs_members {
    bool are_served;
    gid_t group;
} gs_members;

/* ---- listener.c: the socket that clients connect to ---- */

typedef struct gs_listener {
    int fd, lock;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": systemd's socket */
} gs_listener;

/* Opens the socket at a path (NULL: see gridsmith/client.h), or takes the one that systemd hands over, whose owner and
   mode systemd has set. Close it even if this fails. */
gs_code gs_listener_open(gs_listener *listener, const char *path, const gs_members *members, gs_error *error);
/* No client can connect any more. */
void gs_listener_stop(const gs_listener *listener);
void gs_listener_close(gs_listener *listener);
/* Wakes the processes that sleep in connect(): there is space for them. */
void gs_listener_wake(int listening);

/* ---- connection.c: clients that are connected ---- */

typedef struct gs_connections {
    uv_loop_t *loop;
    gs_server *server;
    gs_members members;
    struct connection *first, *silent; /* clients; connections that have not said hello, the oldest first */
    size_t silent_count;
    uint32_t looks;                           /* of look_at_connections */
    size_t paused;                            /* of all: nothing is read from them at present */
    uv_timer_t timer, status_timer;           /* for silent connections, and for waiting status requests */
    int64_t status_after_ns, accept_after_ns; /* pauses end then: see gs_pause_until */
    int spares[2];                            /* descriptors for use when no others are left */
    bool is_stopping;                         /* no new client is accepted */
} gs_connections;

void gs_connections_open(gs_connections *connections, uv_loop_t *loop, gs_server *server);
/* Accepts clients that wait at the listening socket. False: no descriptors are left, not even for a refusal. */
bool gs_connections_accept(gs_connections *connections, int listening);
/* Resumes reading from paused connections where possible. */
void gs_connections_resume(gs_connections *connections);
/* Disconnects all clients; complete when the loop has run. */
void gs_connections_close(gs_connections *connections);

/* ---- http.c: metrics for Prometheus ---- */

typedef struct gs_http {
    uv_tcp_t tcp;
    const gs_server *server;
    struct http_request *first; /* the newest first */
    size_t count;
    int64_t answer_after_ns; /* a pause ends then: see gs_pause_until */
    uv_timer_t timer;        /* for requests that wait for that, and for a connection that waits to be accepted */
    bool has_waiting;        /* there is such a connection */
} gs_http;

/* Listens at ADDRESS:PORT. */
gs_code gs_http_open(gs_http *http, uv_loop_t *loop, const gs_server *server, const char *where, gs_error *error);
/* Closes what is open; complete when the loop has run. */
void gs_http_close(gs_http *http);

#endif
