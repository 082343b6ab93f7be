/*
 * session.c: one client: opened, ended, closed.
 *
 * A session is *open* until it is ended, by its own error or because the worker was lost. An ended session takes
 * no more commands, but its client is still connected and reads why. When the client has disconnected, the session is
 * closed. It is freed when its last action is done and its resources are released, which is done a part at a time,
 * because a client can have many thousands of them. Only then is its socket closed: a client that closes waits for
 * that, so what it had is free when its process opens the next one.
 */
#define _GNU_SOURCE
#include "server.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static gs_wire_page *map_page(int fd, gs_error *error) {
    void *memory = mmap(NULL, gs_wire_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        return memory;
    gs_fail_system(error, "map", "memory for a client");
    return NULL;
}

enum {
    FREED_AT_ONCE = 512,        /* resources */
    MOST_RELEASES = 1024 * 1024 /* bytes queued for the worker; with more, nothing is freed */
};

static gs_session *fail_open(gs_session *session, gs_wire_page *page) {
    if (page)
        munmap(page, gs_wire_page_bytes());
    free(session);
    return NULL;
}

static void count_session(gs_session *session) {
    gs_sessions *sessions = &session->server->sessions;
    gs_account_add(&session->account, GS_QUOTA_CLIENTS, 1);
    session->account.used[GS_QUOTA_DESCRIPTORS] = 1; /* the connection counts for its process already */
    sessions->by_priority[session->options.priority + GS_MOST_PRIORITY]++;
}

gs_session *gs_session_open(gs_server *server, const gs_session_options *options, gs_error *error) {
    gs_sessions *sessions = &server->sessions;
    gs_session *session = calloc(1, sizeof *session);
    gs_wire_page *page = map_page(options->page, error);
    if (!page)
        return fail_open(session, page);
    bool has_space = session && GS_RESERVE(sessions, 2) && gs_contenders_reserve(server);
    uint32_t slot = has_space ? gs_handles_take(&sessions->slots) : 0;
    gs_account *process = slot ? gs_account_take(&server->quotas, options->process, options->user) : NULL;
    if (!process) {
        if (slot)
            gs_handles_give(&sessions->slots, slot);
        gs_fail_memory(error);
        return fail_open(session, page);
    }
    *session = (gs_session){.server = server,
                            .options = *options,
                            .fair = {.weight = options->weight},
                            .slot = slot,
                            .page = page,
                            .left_socket = -1,
                            .opened_ns = (uint64_t)gs_now_ns(),
                            .account = {.kind = GS_ACCOUNT_CLIENT, .above = process}};
    count_session(session);
    for (uint32_t i = 0; i < GS_CLIENT_STREAMS; i++)
        session->streams[i] = (gs_stream){.session = session, .number = i, .queue = slot * GS_CLIENT_STREAMS + i};
    gs_ring_attach_socket(&session->ring, page + 1, GS_WIRE_RING_BYTES, options->socket);
    while (sessions->count <= slot)
        sessions->data[sessions->count++] = NULL;
    sessions->data[slot] = session;
    gs_activity_note(session);
    return session;
}

void gs_session_end(gs_session *session, gs_client_code code, const char *format, ...) {
    char message[GS_WIRE_MESSAGE];
    if (session->end_code)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    session->end_code = code;
    session->counts.errors += code == GS_CLIENT_KERNEL;
    gs_page_end(session, code, message);
    session->server->sessions.must_sweep = true;
    for (int i = 0; i < GS_CLIENT_STREAMS; i++)
        gs_stream_drop(&session->streams[i]);
    gs_loads_drop(session, code, message);
    session->server->scheduler.must_decide = true;
    gs_page_wake(session);
}

static void close_files(gs_session *session) {
    while (session->file_count) {
        int fd = session->files[--session->file_count];
        if (fd < 0)
            continue;
        gs_closing_give(&session->server->closing, fd, session->account.above);
        gs_account_subtract(&session->account, GS_QUOTA_DESCRIPTORS, 1);
    }
}

void gs_session_leave_socket(gs_session *session) {
    session->left_socket = session->options.socket;
}

void gs_session_close(gs_session *session) {
    gs_sessions *sessions = &session->server->sessions;
    gs_session_end(session, GS_CLIENT_LOST, "closed");
    munmap(session->page, gs_wire_page_bytes());
    session->page = NULL;
    close_files(session);
    sessions->by_priority[session->options.priority + GS_MOST_PRIORITY]--;
    sessions->must_sweep = true;
}

bool gs_session_has_resources(const gs_session *session) {
    const uint64_t *used = session->account.used;
    return used[GS_QUOTA_ALLOCATIONS] || used[GS_QUOTA_REGIONS] || used[GS_QUOTA_MODULES] || session->actions;
}

bool gs_session_may_take(const gs_session *session) {
    uint64_t all = session->server->quotas.all.used[GS_QUOTA_ACTIONS];
    return session->page && !session->end_code && !gs_closing_is_behind(session->account.above) &&
           session->server->now_ns >= session->take_after_ns &&
           session->actions < (all < GS_MOST_ACTIONS ? GS_SESSION_ACTIONS : GS_LEAST_ACTIONS);
}

static void free_session(gs_session *session) {
    gs_server *server = session->server;
    gs_contenders_remove(session);
    gs_transfers_abandon(session);
    server->sessions.data[session->slot] = NULL;
    gs_mixing_forget(&server->mixing, session->slot);
    gs_handles_give(&server->sessions.slots, session->slot);
    gs_account_subtract(&session->account, GS_QUOTA_CLIENTS, 1);
    if (session->left_socket >= 0) {
        gs_closing_give_connection(&server->closing, session->left_socket, session->account.above);
        gs_account_subtract(session->account.above, GS_QUOTA_DESCRIPTORS, 1);
    }
    gs_account_leave(&server->quotas, session->account.above);
    free(session);
}

bool gs_sessions_may_free(const gs_server *server) {
    return server->is_down || gs_worker_backlog(server->worker) <= MOST_RELEASES;
}

bool gs_sessions_have_above(const gs_server *server, int32_t priority) {
    bool has_above = false;
    for (int i = priority + GS_MOST_PRIORITY + 1; i < GS_PRIORITIES; i++)
        has_above |= server->sessions.by_priority[i] > 0;
    return has_above;
}

void gs_sessions_sweep(gs_server *server) {
    gs_sessions *sessions = &server->sessions;
    size_t left = gs_sessions_may_free(server) ? FREED_AT_ONCE : 0;
    sessions->must_sweep = false;
    for (size_t i = 0; i < sessions->count; i++) {
        gs_session *session = sessions->data[(sessions->next + i) % sessions->count];
        if (!session || !session->end_code)
            continue;
        left -= left ? gs_resource_forget_some(session, left) : 0;
        sessions->must_sweep = sessions->must_sweep || !left;
        if (left && !session->page && !session->actions)
            free_session(session);
    }
}
