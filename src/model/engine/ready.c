/*
 * ready.c: when a launch may enter the queue, and when a copy may begin: streams, dependencies, copies and delays.
 *
 * A launch or a copy is an operation here. Launches have the numbers of the run, and copies follow them. An operation
 * is ready when the host has issued it, the operation before it in its stream has ended, and what it depends on has
 * happened. From the last of these to when it is ready takes a moment, the gap, unless it depends on a start. A launch
 * ends a moment after its last block, the tail: what it had on the SMs is free before that.
 *
 * A launch that is ready enters the queue; this file only puts it on a list, because the queue is that of the engine. A
 * GPU takes a limited number of kernels: one more is held until another one ends, and stays in its connection. A copy
 * takes its time and ends. There is one copy engine for copies from the host, one for copies to the host, and each goes
 * on with copies of one stream that follow each other; all other copies and memsets share nothing with each other.
 *
 * A launch can be allowed to start before the launch before it in its stream has ended: when all blocks of that have
 * started, or have triggered it. When blocks trigger is not known. A block that ends has triggered at the latest, so
 * that is what is taken: the launch starts when the other one has ended, but without a gap. The next one in the stream
 * waits for that launch alone, even if the launches before it still run.
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

enum { CHAIN = 8 }; /* kernels of a stream that can run at a time, measured on H200s */

static const char *stream_of(const gs_engine *engine, size_t operation) {
    size_t launches = engine->run->launches.count;
    return operation < launches ? engine->run->launches.data[operation].stream
                                : engine->run->copies.data[operation - launches].stream;
}

static bool is_copy(const gs_engine *engine, size_t operation) {
    return operation >= engine->run->launches.count;
}

/* A copy has no blocks that start. When blocks trigger is not known, see above. */
bool gs_ready_waits_for_end(const gs_edge *edge) {
    return edge->when != GS_AT_START || edge->is_copy;
}

/* ---- setting up ---- */

/* Lists, for each operation, those that depend on it. */
static bool list_dependents(gs_engine *engine) {
    const gs_run *run = engine->run;
    size_t operations = run->launches.count + run->copies.count, at = 0;
    struct readiness *readiness = &engine->readiness;
    readiness->first = calloc(operations + 2, sizeof *readiness->first);
    readiness->dependents = calloc(run->edges.count + 1, sizeof *readiness->dependents);
    if (!readiness->first || !readiness->dependents)
        return false;
    for (size_t i = 0; i < run->edges.count; i++)
        readiness->first[gs_run_operation(engine->run, &run->edges.data[i]) + 2]++;
    for (size_t i = 0; i < operations; i++)
        readiness->first[i + 2] += readiness->first[i + 1];
    for (size_t i = 0; i < operations; i++) {
        const gs_issue *issue = gs_run_issue(engine->run, i);
        engine->plays[i].pending = engine->hooks.endless ? 0 : issue->after_count;
        for (at = issue->after; at < (size_t)issue->after + issue->after_count; at++) {
            const gs_edge *edge = &run->edges.data[at];
            size_t other = gs_run_operation(engine->run, edge);
            bool at_end = gs_ready_waits_for_end(edge);
            readiness->dependents[readiness->first[other + 1]++] = (struct dependent){(uint32_t)i, at_end};
            if (!at_end)
                engine->plays[other].is_awaited = true;
        }
    }
    return true;
}

bool gs_ready_init(gs_engine *engine) {
    const gs_run *run = engine->run;
    size_t operations = run->launches.count + run->copies.count;
    int32_t most_kernels = gs_dispatcher_state(engine->dispatcher)->gpu->limits.kernels_per_gpu;
    engine->readiness.most_kernels = most_kernels ? most_kernels : INT32_MAX;
    engine->readiness.streams = calloc(operations + 1, sizeof *engine->readiness.streams);
    if (!engine->readiness.streams)
        return false;
    for (size_t i = 0; i < GS_COUNT(engine->readiness.copy_engines); i++)
        engine->readiness.copy_engines[i] = (struct copy_engine){NO_LAUNCH, NO_LAUNCH, NO_LAUNCH};
    for (size_t i = 0; i < operations; i++)
        engine->plays[i] = gs_play_new();
    return !run->edges.count || list_dependents(engine);
}

void gs_ready_free(gs_engine *engine) {
    free(engine->readiness.streams);
    gs_names_free(&engine->readiness.stream_names);
    free(engine->readiness.first);
    free(engine->readiness.dependents);
    free(engine->readiness.timers.data);
    free(engine->readiness.untimed.data);
    free(engine->readiness.list.data);
    free(engine->readiness.held.data);
}

/* Names belong to a run. If that of `to` is a copy, it has names of its own. */
static bool copy_stream_names(gs_engine *to, const gs_engine *from) {
    bool copied = true;
    if (to->run == from->run)
        return gs_names_copy(&to->readiness.stream_names, &from->readiness.stream_names);
    gs_names_free(&to->readiness.stream_names);
    for (size_t i = 0; i < from->launched && copied; i++)
        copied = to->plays[i].stream == NO_LAUNCH ||
                 gs_names_add(&to->readiness.stream_names, stream_of(to, i), to->plays[i].stream) != SIZE_MAX;
    return copied;
}

bool gs_ready_copy(gs_engine *to, const gs_engine *from) {
    struct ready_list *held = &to->readiness.held;
    size_t count = from->readiness.held.count;
    to->readiness.kernels = from->readiness.kernels;
    held->count = 0;
    if (!GS_RESERVE(held, count))
        return false;
    if (count)
        memcpy(held->data, from->readiness.held.data, count * sizeof *held->data);
    held->count = count;
    memcpy(to->readiness.streams, from->readiness.streams,
           from->readiness.stream_names.count * sizeof *to->readiness.streams);
    return copy_stream_names(to, from);
}

/* ---- becoming ready ---- */

static bool add_timer(gs_engine *engine, int64_t at_ns, size_t operation, int what) {
    return gs_endings_add(&engine->readiness.timers, (struct ending){at_ns, operation, what, 0});
}

static int64_t copy_duration(const gs_copy *copy) {
    bool is_measured = copy->issue.start_ns != GS_NO_TIME && copy->issue.end_ns >= copy->issue.start_ns;
    if (copy->duration_ns)
        return copy->duration_ns;
    return is_measured ? copy->issue.end_ns - copy->issue.start_ns : 0;
}

struct copy_engine *gs_ready_copy_engine(gs_engine *engine, size_t operation) {
    const gs_copy *copy = &engine->run->copies.data[operation - engine->run->launches.count];
    if (copy->is_memset)
        return NULL;
    if (copy->kind == GS_COPY_HOST_TO_DEVICE)
        return &engine->readiness.copy_engines[0];
    return copy->kind == GS_COPY_DEVICE_TO_HOST ? &engine->readiness.copy_engines[1] : NULL;
}

/* Whether a copy is a node of a graph in a run without times. */
static bool is_untimed_node(const gs_copy *copy) {
    return gs_issue_is_node(&copy->issue) && copy->issue.at_ns == GS_NO_TIME && !copy_duration(copy);
}

/* How long it takes from a copy in a run without times to what waits for it, about: measured on an H200. It decides
   only in which order things come. */
static int64_t usual_duration(const gs_engine *engine, size_t operation) {
    enum { KERNEL_NS = 2000, HOST_NS = 800, OTHER_NS = 1000, HOST_BYTES_PER_US = 40000, BYTES_PER_US = 1000000 };
    const gs_copy *copy = &engine->run->copies.data[operation - engine->run->launches.count];
    bool is_with_host = copy->kind == GS_COPY_HOST_TO_DEVICE || copy->kind == GS_COPY_DEVICE_TO_HOST;
    int64_t latency_ns = is_with_host ? HOST_NS : gs_hidden_has_blocks(engine, operation) ? KERNEL_NS : OTHER_NS;
    gs_way way = gs_engine_way(engine, operation);
    int64_t later_ns = way == GS_WAY_LATER ? GS_NODE_NS : way == GS_WAY_SOONER ? -GS_NODE_NS : 0;
    return later_ns + latency_ns +
           gs_min(copy->bytes, INT64_MAX / 1000) * 1000 / (is_with_host ? HOST_BYTES_PER_US : BYTES_PER_US);
}

static bool start_copy(gs_engine *engine, size_t operation) {
    struct play *play = &engine->plays[operation];
    const gs_copy *copy = &engine->run->copies.data[operation - engine->run->launches.count];
    play->status = STARTED;
    play->served_ns = play->start_ns = engine->clock.now_ns;
    if (is_untimed_node(copy)) {
        int64_t end_ns = engine->readiness.untimed_ns + usual_duration(engine, operation);
        return (!gs_hidden_has_blocks(engine, operation) || GS_PUSH(&engine->readiness.list, operation)) &&
               gs_endings_add(&engine->readiness.untimed, (struct ending){end_ns, operation, 0, 0});
    }
    return add_timer(engine, gs_later(engine->clock.now_ns, copy_duration(copy)), operation, COPY_ENDS);
}

static bool copy_is_ready(gs_engine *engine, size_t operation) {
    struct copy_engine *copy_engine = gs_ready_copy_engine(engine, operation);
    struct play *play = &engine->plays[operation];
    if (!copy_engine || copy_engine->busy == NO_LAUNCH || copy_engine->busy == operation) {
        if (copy_engine)
            copy_engine->busy = operation;
        return start_copy(engine, operation);
    }
    play->status = QUEUED;
    play->behind = copy_engine->busy;
    play->after = NO_LAUNCH;
    *(copy_engine->first == NO_LAUNCH ? &copy_engine->first : &engine->plays[copy_engine->last].after) = operation;
    copy_engine->last = operation;
    return true;
}

static void note_ready(gs_engine *engine, size_t operation) {
    engine->plays[operation].ready_ns = engine->clock.now_ns;
    engine->plays[operation].ready_at = engine->clock.host_events;
}

/* A launch takes a place on the GPU. */
static bool enter_list(gs_engine *engine, size_t operation) {
    note_ready(engine, operation);
    engine->plays[operation].status = QUEUED;
    engine->readiness.kernels++;
    return GS_PUSH(&engine->readiness.list, operation);
}

/* Nothing is in the way of an operation but the limit on kernels. `*entered`: it is a launch that entered, so it leaves
   its connection. */
static bool become_ready(gs_engine *engine, size_t operation, bool *entered) {
    *entered = false;
    if (!is_copy(engine, operation) && engine->readiness.kernels >= engine->readiness.most_kernels) {
        engine->plays[operation].status = HELD;
        return GS_PUSH(&engine->readiness.held, operation);
    }
    *entered = !is_copy(engine, operation);
    if (*entered)
        return enter_list(engine, operation);
    note_ready(engine, operation);
    return copy_is_ready(engine, operation);
}

/* A launch has ended that was in the queue or running: the first one that is held takes its place, and is returned in
   `*next`. Or it was held itself. */
static bool give_place(gs_engine *engine, size_t operation, enum status was, size_t *next) {
    struct ready_list *held = &engine->readiness.held;
    size_t at = 0;
    engine->readiness.kernels -= was >= QUEUED;
    while (was == HELD && held->data[at] != operation)
        at++;
    if (!held->count || was < HELD)
        return true;
    *next = was == HELD ? NO_LAUNCH : held->data[0];
    memmove(held->data + at, held->data + at + 1, (--held->count - at) * sizeof *held->data);
    return *next == NO_LAUNCH || enter_list(engine, *next);
}

size_t gs_ready_next(gs_engine *engine) {
    struct ready_list *list = &engine->readiness.list;
    return list->count ? list->data[--list->count] : NO_LAUNCH;
}

bool gs_is_in_graph(const gs_run *run, size_t launch) {
    const gs_launch *launches = run->launches.data;
    const gs_issue *issue = &launches[launch].issue;
    if (gs_issue_is_node(issue))
        return true;
    bool is_with_last = launch && launches[launch - 1].issue.at_ns == issue->at_ns;
    bool is_with_next = launch + 1 < run->launches.count && launches[launch + 1].issue.at_ns == issue->at_ns;
    return issue->at_ns != GS_NO_TIME && (is_with_last || is_with_next);
}

/* From when the last obstacle is gone to when the operation is ready. */
static int64_t gap_of(const gs_engine *engine, size_t operation) {
    const gs_gaps *gaps = &engine->hooks.gaps;
    const gs_issue *issue = gs_run_issue(engine->run, operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++)
        if (engine->run->edges.data[i].when != GS_AT_END)
            return 0;
    if (is_copy(engine, operation))
        return gaps->copy_ns;
    if (engine->plays[operation].is_freed_by_copy)
        return gaps->after_copy_ns;
    return gs_is_in_graph(engine->run, operation) ? gaps->graph_ns : gaps->stream_ns;
}

static void note_freed(gs_engine *engine, size_t operation, size_t by, int64_t at_ns, bool by_event) {
    struct play *play = &engine->plays[operation];
    if (at_ns == GS_NO_TIME || (play->freed_ns != GS_NO_TIME && play->freed_ns > at_ns))
        return;
    play->is_freed_by_copy = is_copy(engine, by) || (play->freed_ns == at_ns && play->is_freed_by_copy);
    play->freed_ns = at_ns;
    play->freed_by = by;
    play->is_freed_by_event = by_event;
}

/* Whether the operation is among the first of its stream that have not ended: no more than CHAIN, those in between that
   have ended included, run at a time. */
static bool is_in_chain(const gs_engine *engine, size_t operation) {
    size_t at = engine->readiness.streams[engine->plays[operation].stream].head;
    for (int i = 0; i < CHAIN && at != NO_LAUNCH; i++, at = engine->plays[at].next_in_stream)
        if (at == operation)
            return true;
    return false;
}

bool gs_ready_may_pass_stream(const gs_engine *engine, size_t operation) {
    const struct play *play = &engine->plays[operation];
    if (play->stream == NO_LAUNCH)
        return true;
    if (!play->names_previous)
        return engine->readiness.streams[play->stream].head == operation;
    bool is_free = play->previous == NO_LAUNCH || (play->is_early && engine->plays[play->previous].status >= STARTED);
    return is_free && is_in_chain(engine, operation);
}

/* The operation is ready at a time that is known. */
static bool become_ready_at(gs_engine *engine, size_t operation, int64_t at_ns, bool *entered) {
    if (at_ns <= engine->clock.now_ns)
        return become_ready(engine, operation, entered);
    *entered = false;
    engine->plays[operation].status = COMING;
    return add_timer(engine, at_ns, operation, BECOMES_READY);
}

/* The operation is ready now or in a moment, if nothing more is in its way. */
static bool try_operation(gs_engine *engine, size_t operation, bool *entered) {
    struct play *play = &engine->plays[operation];
    *entered = false;
    if (play->status != IN_STREAM || play->pending || !gs_ready_may_pass_stream(engine, operation) ||
        !gs_connections_is_first(engine, operation))
        return true;
    int64_t at_ns =
        play->freed_ns == GS_NO_TIME ? engine->clock.now_ns : gs_later(play->freed_ns, gap_of(engine, operation));
    return become_ready_at(engine, operation, at_ns, entered);
}

/* A launch leaves its connection. The next one there may be ready, then leaves it too, and so on. */
static bool leave_connection(gs_engine *engine, size_t operation) {
    bool left = true, done = true;
    while (done && left && (operation = gs_connections_leave(engine, operation)) != NO_LAUNCH)
        done = try_operation(engine, operation, &left);
    return done;
}

/* The same for an operation and, if it is a launch that enters, for those behind it in its connection. */
static bool try_with_connection(gs_engine *engine, size_t operation) {
    bool entered;
    return try_operation(engine, operation, &entered) && (!entered || leave_connection(engine, operation));
}

/* ---- what happens to operations ---- */

/* Whether the operation says when it may start after the one before it in its stream, and then whether that is before
   its end. A cooperative launch is never programmatic. */
static void find_entry(const gs_engine *engine, size_t operation, size_t before) {
    const gs_issue *issue = gs_run_issue(engine->run, operation);
    struct play *play = &engine->plays[operation];
    bool is_launch = !is_copy(engine, operation);
    if (is_launch && (gs_engine_is_cooperative(engine, operation) ||
                      (engine->hooks.is_normal && engine->hooks.is_normal[operation])))
        return;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &engine->run->edges.data[i];
        if (gs_run_operation(engine->run, edge) != before)
            continue;
        play->names_previous = true;
        play->is_early = play->is_early || !gs_ready_waits_for_end(edge);
    }
}

/* A launch takes a connection. */
static void take_connection(gs_engine *engine, size_t operation, struct stream *stream, bool is_idle) {
    if (is_copy(engine, operation))
        return;
    int32_t connection = gs_connections_join(engine, operation, is_idle ? NULL : stream);
    if (stream)
        stream->connection = connection;
}

static bool join_stream(gs_engine *engine, size_t operation) {
    const char *name = stream_of(engine, operation);
    struct play *play = &engine->plays[operation];
    if (!name) {
        take_connection(engine, operation, NULL, true);
        return true;
    }
    size_t fresh = engine->readiness.stream_names.count;
    play->stream = gs_names_add(&engine->readiness.stream_names, name, fresh);
    if (play->stream == SIZE_MAX)
        return false;
    struct stream *stream = &engine->readiness.streams[play->stream];
    if (play->stream == fresh) {
        *stream = (struct stream){operation, operation, operation, -1};
        take_connection(engine, operation, stream, true);
        return true;
    }
    take_connection(engine, operation, stream, stream->head == NO_LAUNCH);
    enum status last = engine->plays[stream->tail].status;
    bool has_ended = last == ENDED || last == NOT_LAUNCHED; /* the latter: it may be launched again */
    play->previous = has_ended ? NO_LAUNCH : stream->tail;
    find_entry(engine, operation, stream->tail);
    size_t last_gone = play->names_previous ? stream->tail : stream->last_ended;
    if (stream->head == NO_LAUNCH)
        stream->head = operation;
    else
        engine->plays[stream->tail].next_in_stream = operation;
    if (has_ended && !play->is_early)
        note_freed(engine, operation, last_gone, engine->plays[last_gone].end_ns, false);
    stream->tail = operation;
    return true;
}

/* In an endless engine some launches may be left out, and copies are: only those that were launched are waited for. */
static uint32_t count_pending(const gs_engine *engine, size_t operation) {
    const gs_issue *issue = gs_run_issue(engine->run, operation);
    uint32_t pending = 0;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &engine->run->edges.data[i];
        enum status status = engine->plays[gs_run_operation(engine->run, edge)].status;
        pending += status != NOT_LAUNCHED && status < (gs_ready_waits_for_end(edge) ? ENDED : STARTED);
    }
    return pending;
}

bool gs_ready_issue(gs_engine *engine, size_t operation) {
    struct play *play = &engine->plays[operation];
    if (engine->hooks.endless && engine->readiness.first)
        play->pending = count_pending(engine, operation);
    play->arrived_ns = engine->clock.now_ns;
    bool entered;
    if (engine->hooks.ready_ns)
        return become_ready_at(engine, operation, engine->hooks.ready_ns[operation], &entered) &&
               (!entered || leave_connection(engine, operation));
    play->status = IN_STREAM;
    return join_stream(engine, operation) && try_with_connection(engine, operation);
}

/* Those that depend on the operation at this point are one step closer. */
static bool free_dependents(gs_engine *engine, size_t operation, bool at_end) {
    const struct readiness *readiness = &engine->readiness;
    const struct play *other = &engine->plays[operation];
    int64_t freed_ns = other->status == ENDED ? other->end_ns : engine->clock.now_ns;
    for (size_t i = readiness->first ? readiness->first[operation] : 0;
         readiness->first && i < readiness->first[operation + 1]; i++) {
        const struct dependent *dependent = &readiness->dependents[i];
        if (dependent->at_end != at_end)
            continue;
        struct play *play = &engine->plays[dependent->operation];
        play->pending--;
        note_freed(engine, dependent->operation, operation, freed_ns, true);
        if (!try_with_connection(engine, dependent->operation))
            return false;
    }
    return true;
}

bool gs_ready_started(gs_engine *engine, size_t operation) {
    return !engine->plays[operation].is_awaited || free_dependents(engine, operation, false);
}

/* The next in the stream, and those after it that are no longer too far behind the first. */
static bool advance_stream(gs_engine *engine, size_t operation) {
    const struct play *play = &engine->plays[operation];
    if (play->stream == NO_LAUNCH)
        return true;
    struct stream *stream = &engine->readiness.streams[play->stream];
    size_t *head = &stream->head, next = play->next_in_stream;
    stream->last_ended = operation;
    if (next != NO_LAUNCH && !engine->plays[next].is_early)
        note_freed(engine, next, operation, play->end_ns, false);
    if (next != NO_LAUNCH)
        engine->plays[next].previous = NO_LAUNCH;
    while (*head != NO_LAUNCH && (engine->plays[*head].status == ENDED || engine->plays[*head].status == NOT_LAUNCHED))
        *head = engine->plays[*head].next_in_stream;
    if (*head != NO_LAUNCH && !engine->plays[*head].names_previous)
        note_freed(engine, *head, operation, play->end_ns, false);
    bool done = true;
    next = *head;
    for (int i = 0; i < CHAIN && next != NO_LAUNCH && done; i++, next = engine->plays[next].next_in_stream)
        done = try_with_connection(engine, next);
    return done;
}

/* A copy engine stays with a stream as long as that has copies for it: the next operation of the stream of a copy that
   has ended, if it is such a copy and waits for nothing but the gap, or for the copy engine. */
static size_t same_stream_copy(gs_engine *engine, size_t operation, const struct copy_engine *copy_engine) {
    size_t next = engine->plays[operation].next_in_stream;
    if (next == NO_LAUNCH || !is_copy(engine, next) || gs_ready_copy_engine(engine, next) != copy_engine)
        return NO_LAUNCH;
    enum status status = engine->plays[next].status;
    return status == COMING || status == QUEUED ? next : NO_LAUNCH;
}

static void take_from_copy_engine(gs_engine *engine, struct copy_engine *copy_engine, size_t operation) {
    size_t before = NO_LAUNCH, at = copy_engine->first;
    for (; at != operation; at = engine->plays[at].after)
        before = at;
    *(before == NO_LAUNCH ? &copy_engine->first : &engine->plays[before].after) = engine->plays[operation].after;
    if (copy_engine->last == operation)
        copy_engine->last = before;
}

/* The next copy of the copy engine of one that has ended. */
static bool next_copy(gs_engine *engine, size_t operation) {
    struct copy_engine *copy_engine = is_copy(engine, operation) ? gs_ready_copy_engine(engine, operation) : NULL;
    if (!copy_engine)
        return true;
    size_t next = same_stream_copy(engine, operation, copy_engine);
    copy_engine->busy = next == NO_LAUNCH ? copy_engine->first : next;
    if (copy_engine->busy == NO_LAUNCH || engine->plays[copy_engine->busy].status == COMING)
        return true;
    take_from_copy_engine(engine, copy_engine, copy_engine->busy);
    return start_copy(engine, copy_engine->busy);
}

bool gs_ready_ended(gs_engine *engine, size_t operation) {
    struct play *play = &engine->plays[operation];
    enum status was = play->status;
    bool has_started = was == STARTED;
    play->status = ENDED;
    play->end_ns =
        is_copy(engine, operation) ? engine->clock.now_ns : gs_later(engine->clock.now_ns, engine->hooks.gaps.tail_ns);
    if (!has_started && !gs_ready_started(engine, operation))
        return false; /* it was ended before all its blocks had started */
    size_t next = NO_LAUNCH;
    if (!is_copy(engine, operation) && !give_place(engine, operation, was, &next))
        return false;
    return leave_connection(engine, operation) && advance_stream(engine, operation) &&
           (next == NO_LAUNCH || leave_connection(engine, next)) && free_dependents(engine, operation, true) &&
           next_copy(engine, operation);
}

bool gs_ready_end_copy(gs_engine *engine) {
    struct ending ending = gs_endings_take(&engine->readiness.untimed, 0);
    engine->readiness.untimed_ns = gs_max(engine->readiness.untimed_ns, ending.at_ns);
    return gs_ready_ended(engine, ending.launch);
}

bool gs_ready_pass(gs_engine *engine) {
    struct ending timer = gs_endings_take(&engine->readiness.timers, 0);
    engine->clock.now_ns = gs_max(engine->clock.now_ns, timer.at_ns);
    if (timer.block == COPY_ENDS)
        return gs_ready_ended(engine, timer.launch);
    if (engine->plays[timer.launch].status != COMING)
        return true; /* it was ended in the meantime */
    bool entered;
    return become_ready(engine, timer.launch, &entered) && (!entered || leave_connection(engine, timer.launch));
}
