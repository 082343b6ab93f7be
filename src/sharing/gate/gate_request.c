/*
 * gate_request.c: when a latency program has work. See gate_request.h.
 *
 * Launches are numbered, so that launches of another thread during a synchronization do not count as done. If more
 * streams have work than the table holds, one of them is dropped, and the request may end early.
 */
#include "gate_request.h"

enum {
    AT_ONCE_NS = 200000, /* a launch this soon after an event belongs to it */
    TRUSTED = 20,        /* the confidence that events need, */
    MOST_TRUST = 40,     /* can have, */
    LOST_TRUST = 8       /* and lose when no launch follows one */
};

/* An event that no launch followed at once was no announcement. */
static void judge_event(gs_request *request, uint64_t now_ns) {
    if (!request->recorded_ns || now_ns - request->recorded_ns <= AT_ONCE_NS)
        return;
    request->recorded_ns = 0;
    request->trust -= request->trust < LOST_TRUST ? request->trust : LOST_TRUST;
}

void gs_request_wait(gs_request *request) {
    if (request->recorded_ns)
        request->trust = 0;
    request->recorded_ns = 0;
}

bool gs_request_launch(gs_request *request, const void *stream, uint64_t now_ns) {
    uint64_t number = ++request->launches;
    judge_event(request, now_ns);
    request->trust += request->recorded_ns && request->trust < MOST_TRUST;
    request->recorded_ns = 0;
    for (size_t i = 0; i < request->count; i++)
        if (request->streams[i].stream == stream) {
            request->streams[i].number = number;
            return false;
        }
    size_t at = request->count < GS_REQUEST_STREAMS ? request->count++ : number % GS_REQUEST_STREAMS;
    request->streams[at] = (gs_request_stream){.stream = stream, .number = number};
    return request->count == 1;
}

uint64_t gs_request_now(const gs_request *request) {
    return request->launches;
}

bool gs_request_stream_done(gs_request *request, const void *stream, uint64_t number) {
    for (size_t i = 0; i < request->count; i++)
        if (request->streams[i].stream == stream && request->streams[i].number <= number) {
            request->streams[i] = request->streams[--request->count];
            return request->count == 0;
        }
    return false;
}

bool gs_request_all_done(gs_request *request, uint64_t number) {
    size_t before = request->count;
    for (size_t i = request->count; i-- > 0;)
        if (request->streams[i].number <= number)
            request->streams[i] = request->streams[--request->count];
    return before && !request->count;
}

static gs_request_event *find_event(gs_request *request, const void *event) {
    return &request->events[(uintptr_t)event / 16 * 31 % GS_REQUEST_EVENTS];
}

bool gs_request_record(gs_request *request, const void *event, const void *stream, uint64_t now_ns) {
    *find_event(request, event) = (gs_request_event){.event = event, .stream = stream, .number = request->launches};
    if (request->count)
        return false;
    judge_event(request, now_ns);
    if (!request->recorded_ns)
        request->recorded_ns = now_ns;
    return request->trust >= TRUSTED;
}

bool gs_request_event_done(gs_request *request, const void *event) {
    const gs_request_event *found = find_event(request, event);
    return found->event == event && event && gs_request_stream_done(request, found->stream, found->number);
}
