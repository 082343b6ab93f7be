/*
 * gate_request.h: when a latency program has work. No driver and no threads: the caller locks.
 *
 * A request begins with the first launch or copy while there is no work. It ends when nothing is left on any stream:
 * after a synchronization, or when an event behind the last launch of a stream is done.
 *
 * Two signs may announce a request: a thread that has launched requests wakes from a call in which it slept, and an
 * event is recorded, as programs do that measure their requests. A sign announces one if launches nearly always follow
 * it at once.
 */
#ifndef GS_GATE_REQUEST_H
#define GS_GATE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GS_REQUEST_STREAMS = 32, GS_REQUEST_EVENTS = 512 };

typedef struct gs_request_stream {
    const void *stream;
    uint64_t number; /* of the last launch there */
} gs_request_stream;

typedef struct gs_request_event {
    const void *event, *stream;
    uint64_t number; /* of the last launch before it */
} gs_request_event;

/* What may announce a request. */
typedef struct gs_request_sign {
    uint64_t since_ns; /* when it was seen first while there was no work; 0: not since the last launch */
    unsigned trust;    /* grows with each that a launch follows, and shrinks by more with one that none does */
} gs_request_sign;

typedef struct gs_request {
    gs_request_stream streams[GS_REQUEST_STREAMS]; /* with work */
    size_t count;
    uint64_t launches;
    gs_request_event events[GS_REQUEST_EVENTS]; /* the last recorded, by address */
    gs_request_sign record, wake;
} gs_request;

/* A launch. True: a request begins. */
bool gs_request_launch(gs_request *request, const void *stream, uint64_t now_ns);
/* The last launch so far. */
uint64_t gs_request_now(const gs_request *request);
/* Everything in this stream up to launch `number` is done. True: the request ends. */
bool gs_request_stream_done(gs_request *request, const void *stream, uint64_t number);
/* The same of all streams. */
bool gs_request_all_done(gs_request *request, uint64_t number);
/* An event is recorded. True: it announces a request. */
bool gs_request_record(gs_request *request, const void *event, const void *stream, uint64_t now_ns);
/* A thread that has launched requests wakes. True: that announces one. */
bool gs_request_wake(gs_request *request, uint64_t now_ns);
/* The host waits, and no launch has followed what announced one. */
void gs_request_mistrust(gs_request *request);
bool gs_request_event_done(gs_request *request, const void *event);

#endif
