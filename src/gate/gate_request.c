/*
 * gate_request.c: when a latency program has work. See gate_request.h.
 *
 * Launches are numbered, so that what another thread launches during a synchronization is not taken for done. When more
 * streams have work than the table has places for, one of them is forgotten: the request then may end early.
 */
#include "gate_request.h"

enum {
    AT_ONCE_NS = 200000, /* a launch so soon after a sign belongs to it */
    TRUSTED = 20,        /* the trust that a sign needs, */
    MOST_TRUST = 40,     /* can have, */
    LOST_TRUST = 8       /* and loses when nothing follows */
};

/* ---- signs ---- */

/* Nothing has followed it. */
static void miss_sign(gs_request_sign *sign) {
    sign->since_ns = 0;
    sign->trust -= sign->trust < LOST_TRUST ? sign->trust : LOST_TRUST;
}

/* Whether anything belongs to the sign may be known now. */
static void judge_sign(gs_request_sign *sign, uint64_t now_ns) {
    if (sign->since_ns && now_ns - sign->since_ns > AT_ONCE_NS)
        miss_sign(sign);
}

static void follow_sign(gs_request_sign *sign, uint64_t now_ns) {
    judge_sign(sign, now_ns);
    sign->trust += sign->since_ns && sign->trust < MOST_TRUST;
    sign->since_ns = 0;
}

/* There is a sign. True: it announces a request. */
static bool see_sign(const gs_request *request, gs_request_sign *sign, uint64_t now_ns) {
    if (request->count)
        return false;
    judge_sign(sign, now_ns);
    if (!sign->since_ns)
        sign->since_ns = now_ns;
    return sign->trust >= TRUSTED;
}

bool gs_request_wake(gs_request *request, uint64_t now_ns) {
    return see_sign(request, &request->wake, now_ns);
}

void gs_request_mistrust(gs_request *request) {
    request->record = (gs_request_sign){0};
    miss_sign(&request->wake);
}

/* ---- work ---- */

bool gs_request_launch(gs_request *request, const void *stream, uint64_t now_ns) {
    uint64_t number = ++request->launches;
    follow_sign(&request->record, now_ns);
    follow_sign(&request->wake, now_ns);
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
    return see_sign(request, &request->record, now_ns);
}

bool gs_request_event_done(gs_request *request, const void *event) {
    const gs_request_event *found = find_event(request, event);
    return found->event == event && event && gs_request_stream_done(request, found->stream, found->number);
}
