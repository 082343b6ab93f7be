/*
 * reports.c: reports from the worker to the daemon, and the end of the process.
 *
 * A report goes into the ring. If the ring is full, it waits in a list, and all later ones behind it, so that nothing
 * blocks and the order is kept.
 */
#include "loop.h"

#include <stdlib.h>
#include <unistd.h>

void gs_loop_wake(gs_worker_loop *loop) {
    (void)loop;
    gs_bell_ring(GS_WORKER_FD_BELL);
}

void gs_loop_give_up(gs_worker_loop *loop, gs_code code, uint64_t tag, const char *note) {
    gs_worker_shared *shared = loop->shared;
    uint32_t unset = 0;
    if (atomic_compare_exchange_strong(&shared->note_state, &unset, 1)) {
        size_t length = gs_min_u64(strlen(note), sizeof shared->note - 1);
        shared->code = code;
        shared->tag = tag;
        memcpy(shared->note, note, length);
        atomic_store(&shared->note_state, 2);
        atomic_store(&shared->state, GS_WORKER_FAILED);
        gs_bell_ring(GS_WORKER_FD_DAEMON_BELL);
        _exit(1);
    }
    for (;;)
        pause(); /* the other thread ends the process */
}

void *gs_loop_need(gs_worker_loop *loop, void *memory) {
    if (!memory)
        gs_loop_give_up(loop, GS_E_MEMORY, GS_NO_TAG, "the worker is out of memory");
    return memory;
}

static bool try_send(gs_worker_loop *loop, const gs_worker_report *report, uint32_t bytes) {
    gs_ring_result result = gs_ring_put(&loop->reports, report, bytes);
    if (result == GS_RING_BROKEN)
        gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "the ring of reports is broken");
    return result == GS_RING_DONE;
}

void gs_loop_flush(gs_worker_loop *loop) {
    while (loop->unsent) {
        struct unsent_report *at = loop->unsent;
        if (!try_send(loop, &at->report, at->bytes)) {
            if (gs_ring_wants_space(&loop->reports, at->bytes) != GS_RING_DONE)
                return;
            continue;
        }
        loop->unsent = at->next;
        free(at);
    }
    loop->unsent_last = &loop->unsent;
}

/* The empty part of the message is not sent. */
void gs_loop_report(gs_worker_loop *loop, const gs_worker_report *report) {
    size_t length = strlen(report->message);
    uint32_t bytes = (uint32_t)(offsetof(gs_worker_report, message) + (length ? length + 1 : 0));
    loop->active_ns = loop->now_ns;
    if (!loop->unsent && try_send(loop, report, bytes))
        return;
    struct unsent_report *made = gs_loop_need(loop, malloc(sizeof *made));
    *made = (struct unsent_report){.bytes = bytes, .report = *report};
    *loop->unsent_last = made;
    loop->unsent_last = &made->next;
    gs_loop_flush(loop);
}

_Atomic uint64_t *gs_loop_kernel_bytes(gs_worker_loop *loop) {
    return &loop->shared->kernel_bytes;
}

void gs_loop_report_error(gs_worker_loop *loop, uint32_t kind, uint64_t tag, const gs_error *error) {
    gs_worker_report report = {.kind = kind, .code = error->code, .tag = tag};
    if (error->code != GS_OK)
        snprintf(report.message, sizeof report.message, "%.199s", error->message);
    gs_loop_report(loop, &report);
}
