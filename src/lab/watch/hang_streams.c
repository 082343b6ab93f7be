/*
 * hang_streams.c: rules about streams that wait for each other, and about what is left. See hang_rules.h.
 */
#include "hang_rules.h"

#include <inttypes.h>

/* ---- waits between streams ---- */

/* The stream that would write the value that a stream waits for, or NULL. */
static const gs_hang_stream *writer_of(const gs_hang *hang, uint64_t word) {
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        uint64_t issued = atomic_load(&stream->stream->issued);
        for (uint64_t number = stream->first; number <= issued; number++) {
            const gs_watch_operation *operation = gs_hang_operation(stream->stream, number);
            if (operation && operation->kind == GS_WATCH_WRITE_VALUE && operation->object == word)
                return stream;
        }
    }
    return NULL;
}

/* The last write of a word among the operations that are kept, also of those that have ended; NULL: none. */
static const gs_watch_operation *last_write_of(const gs_hang *hang, uint64_t word) {
    const gs_watch_operation *last = NULL;
    for (size_t i = 0; i < (size_t)GS_WATCH_STREAMS * GS_WATCH_OPERATIONS; i++) {
        const gs_watch_operation *operation =
            &hang->page->streams[i / GS_WATCH_OPERATIONS].operations[i % GS_WATCH_OPERATIONS];
        if (operation->kind == GS_WATCH_WRITE_VALUE && operation->object == word &&
            (!last || operation->at_ns >= last->at_ns))
            last = operation;
    }
    return last;
}

/* The stream that a stream waits for, or NULL. */
static const gs_hang_stream *awaited_by(const gs_hang *hang, const gs_hang_stream *stream) {
    const gs_watch_operation *head = stream->head;
    if (head && head->kind == GS_WATCH_WAIT_VALUE)
        return writer_of(hang, head->object);
    if (!head || !gs_hang_waits_for_event(hang, head))
        return NULL;
    const gs_hang_stream *other = gs_hang_stream_of(hang, head->other - 1);
    return other && other->head && other->head->number <= head->until ? other : NULL;
}

/* Whether streams that wait in a circle have nothing to do that takes time. Otherwise they may have gone on: a wait is
   only known to have ended if the program has waited for it. */
static bool circle_stands(const gs_hang *hang, const gs_hang_stream *first) {
    const gs_hang_stream *at = first;
    do {
        uint64_t issued = atomic_load(&at->stream->issued);
        for (uint64_t number = at->first; number <= issued; number++) {
            const gs_watch_operation *operation = gs_hang_operation(at->stream, number);
            if (operation && operation->kind != GS_WATCH_WAIT_VALUE && operation->kind != GS_WATCH_WRITE_VALUE &&
                operation->kind != GS_WATCH_WAIT_EVENT && operation->kind != GS_WATCH_RECORD)
                return false;
        }
        if (at->head->number < at->first)
            return false;
        at = awaited_by(hang, at);
    } while (at && at != first);
    return true;
}

gs_hang_cause gs_hang_judge_waits(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *first = &hang->streams.data[i], *at = first;
        for (size_t steps = 0; at && steps <= hang->streams.count; steps++) {
            at = awaited_by(hang, at);
            if (at != first)
                continue;
            gs_text_add(&hang->said, "Streams wait in a circle: stream %u", first->number);
            for (at = awaited_by(hang, first); at != first; at = awaited_by(hang, at))
                gs_text_add(&hang->said, " waits for stream %u, which", at->number);
            gs_text_add(&hang->said, " waits for stream %u.", first->number);
            gs_hang_add_fix(hang, "issue the write before the wait in one of these streams");
            hang->is_alarm = !hang->host_may_act && circle_stands(hang, first);
            return GS_HANG_NEVER_ISSUED;
        }
    }
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_watch_operation *head = hang->streams.data[i].head;
        const gs_watch_graph *graph = gs_hang_graph_of(hang, head);
        uint64_t word = head && head->kind == GS_WATCH_WAIT_VALUE ? head->object : graph ? graph->word : 0;
        if (!word || writer_of(hang, word) || gs_hang_first_waiting(hang))
            continue;
        const gs_watch_operation *last = last_write_of(hang, word);
        gs_text_add(&hang->said,
                    "%stream %u waits until the word at 0x%" PRIx64 " is %u, and no stream has an operation that "
                    "writes it.",
                    graph ? "A graph of s" : "S", hang->streams.data[i].number, word,
                    graph ? graph->value : head->value);
        if (last)
            gs_text_add(&hang->said, " The last one that did wrote %u.", last->value);
        gs_hang_add_fix(hang, "issue the write of that word (cuStreamWriteValue32), or let the host or a kernel do it");
        return GS_HANG_NEVER_ISSUED;
    }
    return GS_HANG_UNKNOWN;
}

/* ---- the default stream ---- */

/* Whether the default stream, as it was before there was one for each thread, waits for a stream and it for that one.
 */
static bool waits_for_all(const gs_watch_stream *stream) {
    enum { OF_THREAD_BIT = 40 };
    uint64_t handle = atomic_load(&stream->handle);
    return handle >> 63 && !(handle >> OF_THREAD_BIT & 1);
}

static bool waits_for_default(const gs_watch_stream *stream) {
    enum { NON_BLOCKING = 1 };
    return stream->flags & GS_WATCH_FLAGS_KNOWN && !(stream->flags & NON_BLOCKING);
}

/* Whether a stream waits for an event that was recorded here. */
static bool is_awaited(const gs_hang *hang, const gs_hang_stream *stream, const gs_watch_operation *record) {
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *other = &hang->streams.data[i];
        uint64_t issued = atomic_load(&other->stream->issued);
        for (uint64_t number = other->first; number <= issued; number++) {
            const gs_watch_operation *wait = gs_hang_operation(other->stream, number);
            if (wait && wait->kind == GS_WATCH_WAIT_EVENT && wait->other == stream->place + 1 &&
                wait->until == record->number)
                return true;
        }
    }
    return false;
}

/* The first operation of a stream that was issued after a kernel, and that something waits for; NULL: none. */
static const gs_watch_operation *issued_after(const gs_hang *hang, const gs_hang_stream *stream,
                                              const gs_hang_kernel *kernel) {
    uint64_t issued = atomic_load(&stream->stream->issued);
    for (uint64_t number = stream->first; number <= issued; number++) {
        const gs_watch_operation *operation = gs_hang_operation(stream->stream, number);
        if (operation && operation->at_ns > kernel->operation->at_ns &&
            (operation->kind != GS_WATCH_RECORD || is_awaited(hang, stream, operation)))
            return operation;
    }
    return NULL;
}

/* Work that stands behind a kernel in another stream, because one of the two is the default stream. */
gs_hang_cause gs_hang_judge_default_stream(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *kernel = gs_hang_first_waiting(hang);
    (void)fit;
    if (!kernel && !hang->has_dump)
        kernel = gs_hang_first_head(hang);
    if (!kernel || !(hang->has_dump || kernel->code & (GS_SASS_CODE_WAITS | GS_SASS_CODE_READS)))
        return GS_HANG_UNKNOWN;
    const gs_watch_stream *own = &hang->page->streams[kernel->stream];
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        bool is_behind = (waits_for_all(own) && waits_for_default(stream->stream)) ||
                         (waits_for_default(own) && waits_for_all(stream->stream));
        const gs_watch_operation *behind = is_behind ? issued_after(hang, stream, kernel) : NULL;
        if (!behind)
            continue;
        const gs_hang_kernel *other = gs_hang_kernel_of(hang, behind);
        gs_hang_put_kernel(&hang->said, kernel);
        gs_text_add(&hang->said, hang->has_dump ? " does not end" : " does not end, and its code %s",
                    gs_hang_code_words(kernel));
        gs_hang_put_places(hang, kernel);
        const char *what = other                             ? "kernel "
                           : behind->kind == GS_WATCH_RECORD ? "an event that another stream waits for"
                                                             : "a copy or another operation";
        gs_text_add(&hang->said,
                    ". Behind it stands %s%s in stream %u: the default stream and streams that are not "
                    "cudaStreamNonBlocking wait for each other.",
                    what, other ? other->name : "", stream->number);
        gs_hang_add_fix(hang, "create stream %u with cudaStreamNonBlocking",
                        waits_for_all(own) ? stream->number : kernel->stream_number);
        gs_hang_add_fix(hang, "compile with --default-stream per-thread, or issue that work in a stream of its own");
        hang->is_alarm = hang->has_dump;
        return GS_HANG_DEFAULT_STREAM;
    }
    return GS_HANG_UNKNOWN;
}

/* ---- what is left ---- */

/* A kernel that does not end by itself, or NULL. */
static const gs_hang_kernel *endless_kernel(gs_hang *hang) {
    const gs_hang_kernel *kernel = gs_hang_first_waiting(hang);
    for (size_t i = 0; i < hang->kernels.count && !kernel; i++) {
        const gs_hang_kernel *other = &hang->kernels.data[i];
        if (hang->has_dump ? other->grid != GS_DUMP_NONE : other->is_head && other->code & GS_HANG_MAY_WAIT)
            kernel = other;
    }
    return kernel;
}

/* What is not seen: what the kernel stands at, what stands behind it, and that a graph runs once at a time. */
static void say_code(gs_hang *hang, const gs_hang_kernel *kernel) {
    const gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
    uint64_t behind = stream ? atomic_load(&stream->stream->issued) - kernel->operation->number : 0;
    gs_text_add(&hang->said, " does not end. Its code %s.", gs_hang_code_words(kernel));
    if (behind)
        gs_text_add(&hang->said, " %" PRIu64 " operation%s of its stream wait%s for it.", behind,
                    behind == 1 ? "" : "s", behind == 1 ? "s" : "");
    for (size_t i = 0; i < hang->streams.count && kernel->graph; i++) {
        const gs_watch_operation *head = hang->streams.data[i].head;
        if (head && head != kernel->graph && head->kind == GS_WATCH_GRAPH && head->object == kernel->graph->object)
            gs_text_add(&hang->said, " Stream %u launched the same graph, which runs once at a time.",
                        hang->streams.data[i].number);
    }
    gs_hang_add_fix(
        hang, kernel->code & GS_SASS_CODE_WAITS ? "find what sets the value that it waits for: issue that before the "
                                                  "kernel, or in a stream that does not wait for the kernel"
              : kernel->code & GS_SASS_CODE_ENDLESS
                  ? "let the loop end; a flag that others set must be volatile or atomic, or the compiler reads it once"
                  : "it may only be long, or some of its threads may wait for something that never comes");
    if (kernel->code & GS_SASS_CODE_RETRIES)
        gs_hang_add_fix(hang,
                        "it also calls a function again and again: if it tries until malloc succeeds, a larger heap "
                        "(cudaLimitMallocHeapSize)");
    gs_hang_add_fix(hang, "gridsmith watch --now %d --abort shows where its blocks are, and ends the program",
                    hang->page->process);
}

static void say_seen(gs_hang *hang, const gs_hang_kernel *kernel) {
    bool is_endless = false;
    for (size_t i = 0; i < hang->places.count; i++)
        is_endless = is_endless ||
                     (hang->places.data[i].grid == kernel->grid && hang->places.data[i].wait.kind == GS_SASS_ENDLESS);
    bool waits = gs_hang_kernel_waits(hang, kernel);
    gs_text_add(&hang->said, is_endless ? " never ends"
                             : waits    ? " waits for something that no issued operation can do"
                                        : " runs: it takes long, or never ends");
    gs_hang_put_places(hang, kernel);
    gs_text_add(&hang->said, ".");
    gs_hang_add_fix(
        hang,
        "look at the lines above: what sets the values that they wait for, and do all threads reach the barrier?");
    hang->is_alarm = is_endless || waits;
}

/* Whether all kernels of a graph are known, and end soon: they have no loop, and call nothing. */
static bool graph_is_short(const gs_hang *hang, const gs_watch_operation *graph) {
    for (size_t i = 0; i < hang->kernels.count; i++) {
        unsigned code = hang->kernels.data[i].code;
        if (hang->kernels.data[i].graph == graph && (!code || code & ~(GS_SASS_CODE_KNOWN | GS_SASS_CODE_AT_BARRIERS)))
            return false;
    }
    return true;
}

/* A graph at the head of a stream with a host function, and nothing else that could last. */
gs_hang_cause gs_hang_judge_host_node(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        const gs_watch_graph *graph = gs_hang_graph_of(hang, stream->head);
        if (!graph || !graph->has_host || !graph_is_short(hang, stream->head))
            continue;
        gs_text_add(&hang->said,
                    "The graph that stream %u is at has a host function, and its kernels have no loop: the host "
                    "function has probably not returned.",
                    stream->number);
        gs_hang_add_fix(hang, "let host functions take no lock that a thread holds while it waits for the GPU");
        return GS_HANG_HOST_FUNCTION;
    }
    return GS_HANG_UNKNOWN;
}

/* A graph at the head of a stream that may repeat its nodes. */
gs_hang_cause gs_hang_judge_condition(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        const gs_watch_graph *graph = gs_hang_graph_of(hang, stream->head);
        if (!graph || !graph->has_condition)
            continue;
        gs_text_add(&hang->said,
                    "The graph that stream %u is at has a conditional node: if it is a loop, its condition may never "
                    "become false.",
                    stream->number);
        gs_hang_add_fix(hang, "let the loop of the graph count, and end after a number of iterations");
        return GS_HANG_ENDLESS;
    }
    return GS_HANG_UNKNOWN;
}

gs_hang_cause gs_hang_judge_endless(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *kernel = endless_kernel(hang);
    (void)fit;
    if (!kernel)
        return GS_HANG_UNKNOWN;
    gs_hang_put_kernel(&hang->said, kernel);
    if (hang->has_dump)
        say_seen(hang, kernel);
    else
        say_code(hang, kernel);
    return GS_HANG_ENDLESS;
}
