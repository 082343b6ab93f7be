/*
 * gate_request.h: when a latency program has work. No driver and no threads: the caller locks.
 *
 * A request begins with the first launch or copy while there is no work. It ends when nothing is left on any stream:
 * after a synchronization, or when an event behind the last launch of a stream is done.
 *
 * Programs that measure their requests record an event first. If launches nearly always follow such events at once,
 * the next event announces a request.
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

typedef struct gs_request {
    gs_request_stream streams[GS_REQUEST_STREAMS]; /* with work */
    size_t count;
    uint64_t launches;
    gs_request_event events[GS_REQUEST_EVENTS]; /* the last recorded, by address */
    uint64_t recorded_ns; /* when the first event was recorded while there was no work; 0: none since the last launch */
    unsigned trust;       /* in such events: grows with each that a launch follows, and shrinks faster */
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
/* The host is about to wait. An event that no launch has followed announced nothing. */
void gs_request_wait(gs_request *request);
bool gs_request_event_done(gs_request *request, const void *event);

#endif
