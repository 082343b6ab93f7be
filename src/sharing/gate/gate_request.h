/*
 * gate_request.h: when a latency program has work. No driver and no threads: the caller locks.
 *
 * A request begins with the first launch or copy while there is no work. It ends when no stream has work left: after a
 * synchronization, or when an event behind the last launch of a stream is done.
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
    uint64_t number; /* of the last launch before the event */
} gs_request_event;

typedef struct gs_request {
    gs_request_stream streams[GS_REQUEST_STREAMS]; /* those with work */
    size_t count;
    uint64_t launches;
    gs_request_event events[GS_REQUEST_EVENTS]; /* the last recorded, by address */
    uint64_t recorded_ns; /* when the first event was recorded while there was no work; 0: none since the last launch */
    unsigned trust;       /* in such events: a launch that follows raises it, a missing launch lowers it more */
} gs_request;

/* A launch. True: a request begins. */
bool gs_request_launch(gs_request *request, const void *stream, uint64_t now_ns);
/* The number of the last launch. */
uint64_t gs_request_now(const gs_request *request);
/* Everything in this stream up to launch `number` is done. True: the request ends. */
bool gs_request_stream_done(gs_request *request, const void *stream, uint64_t number);
/* The same for all streams. */
bool gs_request_all_done(gs_request *request, uint64_t number);
/* An event is recorded. True: it announces a request. */
bool gs_request_record(gs_request *request, const void *event, const void *stream, uint64_t now_ns);
/* The host is about to wait. An event that no launch has followed was no announcement. */
void gs_request_wait(gs_request *request);
bool gs_request_event_done(gs_request *request, const void *event);

#endif
