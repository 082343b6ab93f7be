/*
 * hang_report.c: a hang as text, as JSON (gridsmith.hang/1) and as a page. See docs/watch.md.
 */
#include "hang.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double seconds(int64_t ns) {
    return (double)ns / 1e9;
}

static double longest_wait(const gs_hang *hang) {
    return hang->threads.count ? seconds(hang->threads.data[0].waited_ns) : 0;
}

/* ---- operations ---- */

static const char *const kind_names[] = {"none",       "kernel",     "graph",       "copy",         "event record",
                                         "event wait", "value wait", "value write", "host function"};

static const char *kind_name(const gs_watch_operation *operation) {
    return operation->kind < GS_COUNT(kind_names) ? kind_names[operation->kind] : "?";
}

static void put_operation(const gs_hang *hang, const gs_watch_operation *operation, gs_text *text) {
    const gs_hang_kernel *kernel = gs_hang_kernel_of(hang, operation);
    gs_text_add(text, "%s", kind_name(operation));
    if (kernel && kernel->graph == operation)
        gs_text_add(text, ", its kernel");
    if (kernel)
        gs_text_add(text, " %s, %" PRId64 " x %" PRId64, kernel->name, kernel->blocks, kernel->threads);
    if (operation->kind == GS_WATCH_WAIT_EVENT && operation->other)
        gs_text_add(text, " for operation %" PRIu64 " of stream %u", operation->until,
                    operation->other <= GS_WATCH_STREAMS ? hang->page->streams[operation->other - 1].number : 0);
    if (operation->kind == GS_WATCH_WAIT_EVENT && !operation->other)
        gs_text_add(text, " for one that no stream of this process recorded");
    if (operation->kind == GS_WATCH_WAIT_VALUE)
        gs_text_add(text, " for %u at 0x%" PRIx64, operation->value, operation->object);
    if (kernel && hang->has_dump)
        gs_text_add(text, kernel->grid == GS_DUMP_NONE ? ", not started" : ", %" PRId64 " blocks resident",
                    kernel->grid == GS_DUMP_NONE ? 0 : hang->dump.grids.data[kernel->grid].resident);
    if (operation->collective)
        gs_text_add(text, ", collective %u", operation->collective);
    if (operation->communicator)
        gs_text_add(text, " (communicator %u)", operation->communicator);
}

/* ---- text ---- */

static void put_stack(const gs_watch_thread *thread, gs_text *text) {
    enum { HANDLER = 2, MOST = 12 };
    for (uint32_t i = HANDLER; i < atomic_load(&thread->frame_count) && i < MOST && i < GS_WATCH_FRAMES; i++)
        gs_text_add(text, "    %s\n", thread->stack[i]);
}

static void put_thread(const gs_hang_thread *waits, gs_text *text) {
    const gs_watch_thread *thread = waits->thread;
    int answer = atomic_load(&thread->answer);
    gs_text_add(text, "  thread %d %s %s for %.1f s", atomic_load(&thread->thread), waits->call ? "is in" : "polls",
                waits->call ? waits->call : "an event or a stream", seconds(waits->waited_ns));
    if (!waits->call && answer)
        gs_text_add(text, ", and gets error %d", answer);
    gs_text_add(text, "\n");
    put_stack(thread, text);
}

/* Threads that have called CUDA, if none of them is in a call: they wait for something else. */
static void put_other_threads(const gs_hang *hang, gs_text *text) {
    for (size_t i = 0; i < GS_WATCH_THREADS; i++) {
        const gs_watch_thread *thread = &hang->page->threads[i];
        if (!atomic_load(&thread->thread) || !atomic_load(&thread->frame_count))
            continue;
        gs_text_add(text, "  thread %d is in no call of CUDA\n", atomic_load(&thread->thread));
        put_stack(thread, text);
    }
}

/* The last call that could not issue its work. */
static void put_failed(const gs_hang *hang, gs_text *text) {
    const gs_watch_page *page = hang->page;
    uint32_t call = atomic_load(&page->failed.call), function = page->failed.function;
    if (!call || call > GS_WATCH_CALLS)
        return;
    char *name = function && function <= GS_WATCH_FUNCTIONS
                     ? gs_demangle(page->functions[function - 1].name, GS_NAME_ALONE)
                     : NULL;
    if (name)
        gs_make_printable(name);
    gs_text_add(text, "  %s%s%s failed with error %d %.1f s ago\n", page->calls[call - 1].name, name ? " of " : "",
                name ? name : "", page->failed.result, seconds(hang->now_ns - page->failed.at_ns));
    free(name);
}

static void put_source(const gs_hang *hang, gs_text *text) {
    if (hang->has_dump)
        gs_text_add(text, "seen in a dump of the GPU: %zu grid%s, %zu resident blocks\n", hang->dump.grids.count,
                    hang->dump.grids.count == 1 ? "" : "s", hang->dump.blocks.count);
    else
        gs_text_add(text, "inferred from the calls of the program%s%s%s\n",
                    hang->gpu ? " and the model of the GPU; blocks were not seen" : "; blocks were not seen",
                    hang->no_dump ? ": " : "", hang->no_dump ? hang->no_dump : "");
}

void gs_hang_put_text(const gs_hang *hang, gs_text *text) {
    const gs_watch_page *page = hang->page;
    gs_text_add(text, "gridsmith: %s in process %d for %.1f s: %s\n",
                hang->is_alarm ? "no progress" : "a wait that may be long, or a hang,", page->process,
                longest_wait(hang), gs_hang_cause_name(hang->cause));
    if (hang->said.count)
        gs_text_add(text, "%s\n", hang->said.data);
    if (hang->fixes.count)
        gs_text_add(text, "what helps:\n");
    for (size_t i = 0; i < hang->fixes.count; i++)
        gs_text_add(text, "  %s\n", hang->fixes.data[i]);
    put_source(hang, text);
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        bool is_guess = !hang->has_dump && stream->head && stream->head->number != stream->first;
        gs_text_add(text,
                    "  stream %u%s: %" PRIu64 " of %" PRIu64 " operations may be unfinished, %sat: ", stream->number,
                    atomic_load(&stream->stream->handle) >> 63 ? " (default)" : "",
                    atomic_load(&stream->stream->issued) - stream->first + 1, atomic_load(&stream->stream->issued),
                    is_guess ? "probably " : "");
        if (stream->head)
            put_operation(hang, stream->head, text);
        else
            gs_text_add(text, "none that waits");
        gs_text_add(text, "\n");
    }
    put_failed(hang, text);
    for (size_t i = 0; i < hang->threads.count; i++)
        put_thread(&hang->threads.data[i], text);
    if (!hang->threads.count)
        put_other_threads(hang, text);
    if (!hang->threads.count && hang->forked)
        gs_text_add(text, "  process %d was forked from this one after CUDA had started, and cannot use CUDA\n",
                    hang->forked);
}

/* ---- JSON ---- */

static void write_streams(const gs_hang *hang, gs_writer *writer) {
    gs_write_array(writer, "streams");
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        gs_text at = {0};
        gs_write_object(writer, NULL);
        gs_write_int(writer, "stream", stream->number);
        gs_write_uint(writer, "issued", atomic_load(&stream->stream->issued));
        gs_write_uint(writer, "first_unfinished", stream->first);
        gs_write_uint(writer, "collectives", atomic_load(&stream->stream->collectives));
        if (stream->head) {
            put_operation(hang, stream->head, &at);
            gs_write_string(writer, "at", at.data);
            gs_write_string(writer, "kind", kind_name(stream->head));
            const gs_hang_kernel *kernel = gs_hang_kernel_of(hang, stream->head);
            if (kernel)
                gs_write_string(writer, "kernel", kernel->name);
            if (stream->head->collective)
                gs_write_int(writer, "collective", stream->head->collective);
            if (stream->head->communicator)
                gs_write_int(writer, "communicator", stream->head->communicator);
        }
        gs_write_end(writer);
        gs_text_free(&at);
    }
    gs_write_end(writer);
}

static void write_places(const gs_hang *hang, uint32_t grid, gs_writer *writer) {
    static const char *const names[] = {"runs",     "barrier", "cluster barrier", "dependency",
                                        "mbarrier", "memory",  "endless loop"};
    gs_write_array(writer, "places");
    for (size_t i = 0; i < hang->places.count; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (place->grid != grid)
            continue;
        gs_write_object(writer, NULL);
        gs_write_string(writer, "waits_for", names[place->wait.kind]);
        gs_write_optional(writer, "function", place->function);
        gs_write_uint(writer, "offset", place->offset);
        gs_write_optional(writer, "source", place->source);
        if (place->line)
            gs_write_int(writer, "line", place->line);
        if (place->address)
            gs_write_uint(writer, "address", place->address);
        gs_write_optional(writer, "variable", place->variable);
        gs_write_int(writer, "warps", (int64_t)place->warps);
        gs_write_int(writer, "blocks", (int64_t)place->blocks);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_kernels(const gs_hang *hang, gs_writer *writer) {
    gs_write_array(writer, "kernels");
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        gs_write_object(writer, NULL);
        gs_write_string(writer, "kernel", kernel->name);
        gs_write_int(writer, "stream", kernel->stream_number);
        gs_write_int(writer, "blocks", kernel->blocks);
        gs_write_int(writer, "threads", kernel->threads);
        gs_write_string(writer, "code",
                        !kernel->code                       ? "unknown"
                        : kernel->code & GS_SASS_CODE_WAITS ? "waits"
                        : kernel->code & GS_HANG_MAY_WAIT   ? "may wait"
                                                            : "runs");
        gs_write_int(writer, "never_started", kernel->never_started);
        if (kernel->grid != GS_DUMP_NONE) {
            gs_write_int(writer, "resident", hang->dump.grids.data[kernel->grid].resident);
            write_places(hang, kernel->grid, writer);
        }
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_threads(const gs_hang *hang, gs_writer *writer) {
    gs_write_array(writer, "threads");
    for (size_t i = 0; i < hang->threads.count; i++) {
        const gs_hang_thread *waits = &hang->threads.data[i];
        gs_write_object(writer, NULL);
        gs_write_int(writer, "thread", atomic_load(&waits->thread->thread));
        gs_write_string(writer, "call", waits->call ? waits->call : "polls");
        gs_write_real(writer, "waits_s", seconds(waits->waited_ns), 3);
        gs_write_array(writer, "stack");
        for (uint32_t k = 2; k < atomic_load(&waits->thread->frame_count) && k < GS_WATCH_FRAMES; k++)
            gs_write_string(writer, NULL, waits->thread->stack[k]);
        gs_write_end(writer);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

void gs_hang_put_json(const gs_hang *hang, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    const gs_watch_page *page = hang->page;
    gs_write_document(&writer, "gridsmith.hang/1");
    gs_write_string(&writer, "cause", gs_hang_cause_name(hang->cause));
    gs_write_string(&writer, "certainty", hang->has_dump ? "seen" : hang->is_alarm ? "inferred" : "possible");
    gs_write_string(&writer, "said", hang->said.count ? hang->said.data : "");
    gs_write_array(&writer, "fixes");
    for (size_t i = 0; i < hang->fixes.count; i++)
        gs_write_string(&writer, NULL, hang->fixes.data[i]);
    gs_write_end(&writer);
    gs_write_int(&writer, "process", page->process);
    gs_write_string(&writer, "program", page->program);
    gs_write_string(&writer, "gpu_name", page->gpu);
    if (page->rank >= 0)
        gs_write_int(&writer, "rank", page->rank);
    if (page->ranks > 0)
        gs_write_int(&writer, "ranks", page->ranks);
    gs_write_real(&writer, "waits_s", longest_wait(hang), 3);
    write_streams(hang, &writer);
    write_kernels(hang, &writer);
    write_threads(hang, &writer);
    gs_write_finish(&writer);
}

/* ---- the page ---- */

/* A cell for each SM, with the number of its resident blocks. */
static void put_sms(const gs_hang *hang, gs_text *text) {
    gs_text_add(text, "<h2>Resident blocks by SM</h2><div class=sms>");
    for (uint32_t sm = 0; sm < hang->dump.sms && sm < GS_MAX_SMS; sm++) {
        size_t blocks = 0;
        gs_text title = {0};
        for (size_t i = 0; i < hang->dump.blocks.count; i++) {
            const gs_dump_block *block = &hang->dump.blocks.data[i];
            if (block->sm != sm || block->device)
                continue;
            blocks++;
            const char *name = block->grid == GS_DUMP_NONE ? NULL : hang->places.kernels.data[block->grid];
            gs_text_add(&title, "%s (%u,%u,%u)\n", name ? name : "?", block->index[0], block->index[1],
                        block->index[2]);
        }
        gs_text_add(text, "<div class=%s title=\"SM %u\n", blocks ? "busy" : "idle", sm);
        gs_text_put_xml(text, title.count ? title.data : "idle");
        gs_text_add(text, "\">%zu</div>", blocks);
        gs_text_free(&title);
    }
    gs_text_add(text, "</div>\n");
}

void gs_hang_put_page(const gs_hang *hang, gs_text *text) {
    gs_text report = {0};
    gs_hang_put_text(hang, &report);
    gs_text_add(text,
                "<!doctype html><html lang=en><meta charset=utf-8><title>Hang: %s</title>\n"
                "<style>body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
                "pre{white-space:pre-wrap}.sms{display:flex;flex-wrap:wrap;gap:2px}"
                ".sms div{width:2em;text-align:center;padding:2px}.busy{background:#e8b4a0}"
                ".idle{background:#ddd}</style>\n<h1>%s</h1>\n<p>",
                gs_hang_cause_name(hang->cause), gs_hang_cause_name(hang->cause));
    gs_text_put_xml(text, hang->said.count ? hang->said.data : "The cause is not known.");
    gs_text_add(text, "</p>\n");
    if (hang->has_dump)
        put_sms(hang, text);
    gs_text_add(text, "<h2>Report</h2><pre>");
    gs_text_put_xml(text, report.count ? report.data : "");
    gs_text_add(text, "</pre></html>\n");
    gs_text_free(&report);
}
