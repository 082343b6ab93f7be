/*
 * session.c: one client: opened, ended, closed.
 *
 * A session is *open* until it is ended, by an error of its own or because the worker was lost. An ended session takes
 * no more commands, but its client is still connected and reads why. When the client is gone the session is closed, and
 * it is swept away when its last action is done.
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

static gs_session *fail_open(gs_session *session, gs_wire_page *page, const gs_session_options *options) {
    if (page)
        munmap(page, gs_wire_page_bytes());
    close(options->page);
    free(session);
    return NULL;
}

gs_session *gs_session_open(gs_server *server, const gs_session_options *options, gs_error *error) {
    gs_sessions *sessions = &server->sessions;
    gs_session *session = calloc(1, sizeof *session);
    gs_wire_page *page = map_page(options->page, error);
    if (!page)
        return fail_open(session, page, options);
    bool has_space = session && GS_RESERVE(sessions, 2) && gs_contenders_reserve(server);
    uint32_t slot = has_space ? gs_handles_take(&sessions->slots) : 0;
    if (!slot) {
        gs_fail_memory(error);
        return fail_open(session, page, options);
    }
    *session = (gs_session){
        .server = server, .options = *options, .slot = slot, .page = page, .opened_ns = (uint64_t)gs_now_ns()};
    for (uint32_t i = 0; i < GS_CLIENT_STREAMS; i++)
        session->streams[i] = (gs_stream){.session = session, .number = i, .queue = slot * GS_CLIENT_STREAMS + i};
    gs_ring_attach_socket(&session->ring, page + 1, GS_WIRE_RING_BYTES, options->socket);
    while (sessions->count <= slot)
        sessions->data[sessions->count++] = NULL;
    sessions->data[slot] = session;
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
    gs_page_end(session, code, message);
    gs_resource_forget_all(session);
    for (int i = 0; i < GS_CLIENT_STREAMS; i++)
        gs_stream_drop(&session->streams[i]);
    gs_loads_drop(session, code, message);
    session->server->scheduler.must_decide = true;
    gs_page_wake(session);
}

static void close_file(int fd) {
    if (fd >= 0)
        close(fd);
}

void gs_session_close(gs_session *session) {
    gs_session_end(session, GS_CLIENT_LOST, "closed");
    munmap(session->page, gs_wire_page_bytes());
    session->page = NULL;
    close(session->options.page);
    while (session->file_count)
        close_file(session->files[--session->file_count]);
    session->server->sessions.must_sweep = true;
}

bool gs_session_has_resources(const gs_session *session) {
    for (int kind = 0; kind < GS_RESOURCE_KINDS; kind++)
        for (size_t i = 0; i < session->resources[kind].count; i++)
            if (session->resources[kind].data[i])
                return true;
    return session->actions > 0;
}

void gs_sessions_sweep(gs_server *server) {
    gs_sessions *sessions = &server->sessions;
    sessions->must_sweep = false;
    for (size_t i = 0; i < sessions->count; i++) {
        gs_session *session = sessions->data[i];
        if (!session || session->page || session->actions)
            continue;
        gs_contenders_remove(session);
        sessions->data[i] = NULL;
        gs_handles_give(&sessions->slots, session->slot);
        free(session);
    }
}
