/*
 * page.c: writes the page that a client reads (src/sharing/client/wire.h).
 *
 * After a client's end nothing more is written: dropped commands are never reported as done.
 */
#define _GNU_SOURCE
#include "server.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Overcommitted memory could be missing when it is touched. */
int gs_page_new(const char *name, size_t bytes) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 || fallocate(fd, 0, 0, (off_t)bytes) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0))
        gs_close_fd(&fd);
    return fd;
}

static bool is_told(const gs_session *session) {
    return session->page && !session->end_code;
}

void gs_page_wake(gs_session *session) {
    if (!session->page)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&session->page->client_sleeps, memory_order_relaxed) &&
        atomic_exchange(&session->page->client_sleeps, 0))
        gs_bell_ring_socket(session->options.socket);
}

void gs_page_reply(gs_session *session, uint32_t slot, uint32_t ticket, gs_client_code code, const char *message) {
    if (!session->page)
        return;
    gs_wire_reply *reply = &session->page->replies[slot];
    reply->code = code;
    snprintf(reply->message, sizeof reply->message, "%s", message);
    atomic_store_explicit(&reply->ticket, ticket, memory_order_release);
    gs_page_wake(session);
}

void gs_page_refuse(gs_session *session, uint32_t slot, uint32_t ticket, const char *message) {
    session->counts.errors++;
    gs_page_reply(session, slot, ticket, GS_CLIENT_MEMORY, message);
}

/* The first error stays until the client has seen it. */
void gs_page_error(const gs_stream *stream, gs_client_code code, const char *message) {
    gs_session *session = stream->session;
    session->counts.errors++;
    if (!is_told(session))
        return;
    gs_wire_stream *page = &session->page->streams[stream->number];
    uint32_t errors = atomic_load_explicit(&page->errors, memory_order_relaxed);
    if (errors == atomic_load_explicit(&page->errors_seen, memory_order_acquire)) {
        page->code = code;
        snprintf(page->message, sizeof page->message, "%s", message);
    }
    atomic_store_explicit(&page->errors, errors + 1, memory_order_release);
}

void gs_page_event(const gs_action *action) {
    if (action->command != GS_WIRE_EVENT || !is_told(action->session))
        return;
    gs_wire_event *event = &action->session->page->events[action->event];
    uint64_t time_ns = gs_max_u64(action->stream->ended_ns, action->arrived_ns);
    atomic_store_explicit(&event->time_ns, (int64_t)time_ns, memory_order_relaxed);
    atomic_store_explicit(&event->command, action->number, memory_order_release);
}

void gs_page_done(const gs_stream *stream, uint64_t command) {
    gs_session *session = stream->session;
    if (!is_told(session))
        return;
    atomic_store_explicit(&session->page->streams[stream->number].done, command, memory_order_release);
    gs_page_wake(session);
}

void gs_page_end(gs_session *session, gs_client_code code, const char *message) {
    if (!session->page)
        return;
    snprintf(session->page->end_message, sizeof session->page->end_message, "%s", message);
    atomic_store_explicit(&session->page->end_code, (uint32_t)code, memory_order_release);
}
