/*
 * hang_verdict.c: the cause of a hang: the first rule of a table that holds.
 *
 * A rule looks at facts: what threads wait in, what the heads of streams are, what the dump shows, what the model says
 * of the kernels. Without a dump it is not seen whether blocks wait. Then a kernel only counts as waiting if its code
 * has a loop that does nothing but read memory; kernels that may simply take long raise no alarm.
 */
#include "hang.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *gs_hang_cause_name(gs_hang_cause cause) {
    static const char *const names[GS_HANG_CAUSES] = {
        "unknown",       "too-many-blocks", "two-kernels",   "ranks",        "loading", "whole-gpu", "connections",
        "configuration", "programmatic",    "host-function", "never-issued", "heap",    "endless"};
    return names[cause];
}

/* ---- words ---- */

static void add_fix(gs_hang *hang, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_fix(gs_hang *hang, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *kept = strdup(text);
    if (!kept || !GS_PUSH(&hang->fixes, kept))
        free(kept);
}

static void put_kernel(gs_text *text, const gs_hang_kernel *kernel) {
    gs_text_add(text, "%s (", kernel->name);
    gs_text_put_grouped(text, kernel->blocks);
    gs_text_add(text, " block%s of %" PRId64 " threads, stream %u)", kernel->blocks == 1 ? "" : "s", kernel->threads,
                kernel->stream_number);
}

/* "264 of its blocks are resident and wait at hang.cu:7 for `arrived`" */
static void put_places(gs_hang *hang, const gs_hang_kernel *kernel) {
    static const char *const doing[] = {"run",
                                        "wait at a barrier",
                                        "wait at a barrier of their cluster",
                                        "wait for the kernel before",
                                        "wait at a barrier in shared memory",
                                        "wait for memory",
                                        "are in a loop without an end"};
    gs_text *text = &hang->said;
    int said = 0;
    if (kernel->grid == GS_DUMP_NONE)
        return;
    for (size_t i = 0; i < hang->places.count && said < 3; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (place->grid != kernel->grid)
            continue;
        gs_text_add(text, "%s%zu warp%s %s", said++ ? ", " : ": ", place->warps, place->warps == 1 ? "" : "s",
                    place->in_syscall ? "are in a function of the driver, such as malloc" : doing[place->wait.kind]);
        if (place->variable)
            gs_text_add(text, " (%s)", place->variable);
        else if (place->address)
            gs_text_add(text, " (0x%" PRIx64 ")", place->address);
        if (place->source)
            gs_text_add(text, " at %s:%u", place->source, place->line);
        else if (place->function)
            gs_text_add(text, " at %s+0x%" PRIx64, place->function, place->offset);
    }
}

/* ---- what kernels do ---- */

/* Whether its blocks are seen to wait, or its code can. */
static bool kernel_waits(const gs_hang *hang, const gs_hang_kernel *kernel) {
    bool waits = false;
    if (!hang->has_dump)
        return kernel->code == GS_SASS_CODE_WAITS;
    for (size_t i = 0; i < hang->places.count && kernel->grid != GS_DUMP_NONE; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (place->grid == kernel->grid && (place->wait.kind == GS_SASS_RUNS || place->wait.kind == GS_SASS_ENDLESS))
            return false;
        waits = waits || place->grid == kernel->grid;
    }
    return waits;
}

static gs_hang_kernel *first_waiting(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i];
        bool is_there = hang->has_dump ? kernel->grid != GS_DUMP_NONE : kernel->is_head;
        if (is_there && kernel_waits(hang, kernel))
            return kernel;
    }
    return NULL;
}

static gs_hang_kernel *first_head(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++)
        if (hang->kernels.data[i].is_head)
            return &hang->kernels.data[i];
    return NULL;
}

static const gs_hang_thread *thread_in(const gs_hang *hang, gs_watch_class class) {
    for (size_t i = 0; i < hang->threads.count; i++)
        if (hang->threads.data[i].class == class && hang->threads.data[i].call &&
            hang->threads.data[i].waited_ns >= hang->after_ns / 2)
            return &hang->threads.data[i];
    return NULL;
}

/* ---- the rules ---- */

typedef gs_hang_cause judge(gs_hang *hang, gs_hang_fit *fit);

static gs_hang_cause judge_host_function(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        uint64_t running = atomic_load(&stream->stream->host_function);
        if (!running || running <= atomic_load(&stream->stream->done))
            continue;
        const gs_hang_thread *within = NULL;
        for (size_t k = 0; k < hang->threads.count; k++)
            if (atomic_load(&hang->threads.data[k].thread->in_host_function) && hang->threads.data[k].call)
                within = &hang->threads.data[k];
        gs_text_add(&hang->said,
                    "A host function of stream %u has been running for %.1f s, and the stream waits for its end.",
                    stream->number, (double)(hang->now_ns - atomic_load(&stream->stream->host_since_ns)) / 1e9);
        if (within)
            gs_text_add(&hang->said, " It is in %s, which waits for the GPU.", within->call);
        else
            gs_text_add(&hang->said, " It is not in a call of CUDA: it waits for a lock or for another thread.");
        add_fix(hang, within ? "do not call CUDA in host functions: signal a thread that does"
                             : "let host functions take no lock that a thread holds while it waits for the GPU");
        return GS_HANG_HOST_FUNCTION;
    }
    return GS_HANG_UNKNOWN;
}

/* The function that a thread launches for the first time; NULL: no thread is in such a launch. */
static const gs_watch_function *first_launch_of(const gs_hang *hang, const gs_hang_thread *launching) {
    uint32_t place = launching ? atomic_load(&launching->thread->function) : 0;
    const gs_watch_function *function = place && place <= GS_WATCH_FUNCTIONS ? &hang->page->functions[place - 1] : NULL;
    return function && !atomic_load(&function->launches) ? function : NULL;
}

/* A kernel that its launch loaded, and that is seen not to have started. */
static const gs_hang_kernel *loaded_late(gs_hang *hang) {
    const gs_hang_kernel *waiting = first_waiting(hang);
    for (size_t i = 0; i < hang->kernels.count && waiting && hang->has_dump; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->is_head && kernel->operation->loads && kernel->grid == GS_DUMP_NONE && kernel != waiting &&
            kernel->operation->at_ns > waiting->operation->at_ns)
            return kernel;
    }
    return NULL;
}

/* `name` is the kernel that is launched for the first time; NULL: `call` loads code. */
static gs_hang_cause say_loading(gs_hang *hang, const gs_hang_kernel *waiting, const char *name, const char *call) {
    gs_text_add(&hang->said, "%s%s loads %s, which waits until the GPU is idle; ", name ? "The first launch of " : "",
                name ? name : call, name ? "its code" : "code");
    put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " does not end, and waits for what comes later");
    put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    add_fix(hang, "CUDA_MODULE_LOADING=EAGER");
    if (name)
        add_fix(hang, "load %s before %s is launched: cudaFuncGetAttributes, or launch it once", name, waiting->name);
    return GS_HANG_LOADING;
}

/* A thread is in a call that loads. */
static gs_hang_cause judge_loading(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_thread *launching = thread_in(hang, GS_WATCH_LAUNCH), *loading = thread_in(hang, GS_WATCH_LOAD);
    const gs_watch_function *function = first_launch_of(hang, launching);
    const gs_hang_kernel *waiting = first_waiting(hang);
    (void)fit;
    if (!waiting || (!loading && !function))
        return GS_HANG_UNKNOWN;
    char *name = function ? gs_demangle(function->name, GS_NAME_ALONE) : NULL;
    gs_hang_cause cause = say_loading(hang, waiting, name, (function ? launching : loading)->call);
    free(name);
    return cause;
}

/* The call has returned, and the kernel has room, but does not start. */
static gs_hang_cause judge_late(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *late = loaded_late(hang);
    bool has_room = !fit->is_known || fit->fits;
    return late && has_room ? say_loading(hang, first_waiting(hang), late->name, "") : GS_HANG_UNKNOWN;
}

static void say_behind(gs_hang *hang) {
    const gs_hang_kernel *waiting = first_waiting(hang);
    if (!waiting)
        waiting = first_head(hang);
    if (!waiting)
        return;
    gs_text_add(&hang->said, " ");
    put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " does not end");
    put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
}

/* The most local memory of a thread that a kernel had which was launched. */
static int32_t most_local(const gs_hang *hang) {
    int64_t most = 0;
    for (size_t i = 0; i < GS_WATCH_FUNCTIONS; i++)
        if (atomic_load(&hang->page->functions[i].launches))
            most = gs_max(most, hang->page->functions[i].local_bytes);
    return (int32_t)most;
}

static gs_hang_cause judge_whole_gpu(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_thread *memory = thread_in(hang, GS_WATCH_ALLOCATE);
    const gs_watch_function *function = first_launch_of(hang, thread_in(hang, GS_WATCH_LAUNCH));
    (void)fit;
    if (memory && hang->kernels.count) {
        gs_text_add(&hang->said, "A thread has been in %s for %.1f s: it waits until the whole GPU is idle.",
                    memory->call, (double)memory->waited_ns / 1e9);
        say_behind(hang);
        add_fix(hang, "call %s before that kernel is launched, or after it has ended", memory->call);
        add_fix(hang, "use a memory pool: cudaMallocAsync and cudaFreeAsync do not wait for other streams");
        return GS_HANG_WHOLE_GPU;
    }
    if (!function || !atomic_load(&function->is_known) || function->local_bytes <= most_local(hang))
        return GS_HANG_UNKNOWN;
    char *name = gs_demangle(function->name, GS_NAME_ALONE);
    gs_text_add(&hang->said,
                "The launch of %s needs %d bytes of local memory a thread, more than launches before it: the driver "
                "makes room when the whole GPU is idle.",
                name ? name : "a kernel", function->local_bytes);
    say_behind(hang);
    add_fix(hang, "cudaDeviceSetLimit(cudaLimitStackSize, %d) before the first launch", function->local_bytes);
    free(name);
    return GS_HANG_WHOLE_GPU;
}

static gs_hang_cause judge_heap(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->places.count; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (!(place->wait.kind == GS_SASS_POLLS && place->wait.calls) && !place->in_syscall)
            continue;
        gs_text_add(&hang->said, "%zu warps call a function again and again until it succeeds", place->warps);
        if (place->source)
            gs_text_add(&hang->said, " (%s:%u)", place->source, place->line);
        gs_text_add(&hang->said, "%s: the device heap or the buffer of printf is full.",
                    place->in_syscall ? ", and are in the driver's part of it, such as malloc" : "");
        add_fix(hang, "a larger heap: cudaDeviceSetLimit(cudaLimitMallocHeapSize, BYTES)");
        add_fix(hang, "free memory of the heap, or let the kernel end when malloc returns NULL");
        return GS_HANG_HEAP;
    }
    return GS_HANG_UNKNOWN;
}

/* The fixes that the model found. */
static void add_model_fixes(gs_hang *hang, const gs_hang_fit *fit) {
    enum { MOST = 6 };
    const gs_check_answer *answer = &fit->answer;
    for (size_t i = 0; i < answer->fixes.count && i < MOST; i++) {
        const gs_fix *fix = &answer->fixes.data[i];
        gs_text text = {0};
        for (size_t k = 0; k < fix->count; k++) {
            gs_text_add(&text, "%s", k ? ", and " : "");
            gs_change_text(hang->gpu, fit->run, fix, k, &text);
        }
        if (text.data)
            add_fix(hang, "%s", text.data);
        gs_text_free(&text);
    }
}

static gs_hang_cause judge_alone(gs_hang *hang, const gs_hang_fit *fit, const gs_hang_kernel *kernel) {
    int64_t room = hang->has_dump && kernel->grid != GS_DUMP_NONE ? hang->dump.grids.data[kernel->grid].resident
                                                                  : kernel->blocks - kernel->never_started;
    put_kernel(&hang->said, kernel);
    gs_text_add(&hang->said, hang->has_dump ? " waits for all its blocks, but only " : " has room for only ");
    gs_text_put_grouped(&hang->said, room);
    gs_text_add(&hang->said, hang->has_dump ? " are resident, and " : " blocks, and its code waits for others: ");
    gs_text_put_grouped(&hang->said, kernel->never_started);
    gs_text_add(&hang->said, " never started");
    put_places(hang, kernel);
    gs_text_add(&hang->said, ".");
    add_fix(hang, "launch %s with at most %" PRId64 " blocks", kernel->name, room);
    add_fix(hang, "launch it with cudaLaunchCooperativeKernel, which refuses more blocks than fit");
    (void)fit;
    return GS_HANG_TOO_MANY_BLOCKS;
}

/* The kernels that hold SMs which the one that does not start needs. */
static gs_hang_cause judge_conflict(gs_hang *hang, const gs_hang_fit *fit, const gs_hang_kernel *waiting) {
    const gs_conflict *here = &fit->answer.check.here;
    bool says = false;
    put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " cannot start %" PRId64 " of its blocks", waiting->never_started);
    put_places(hang, waiting);
    gs_text_add(&hang->said, ". The SMs are held by ");
    for (size_t i = 0; i + 1 < here->order.count; i++) {
        const gs_hang_kernel *holder = &hang->kernels.data[fit->kernels[here->order.data[i]]];
        gs_text_add(&hang->said, "%s", says ? " and " : "");
        put_kernel(&hang->said, holder);
        put_places(hang, holder);
        says = true;
    }
    gs_text_add(&hang->said, ", launched before. %s%s", here->why.data ? here->why.data : "",
                here->why.data ? "." : "");
    add_model_fixes(hang, fit);
    return here->why.data && strstr(here->why.data, "configuration") ? GS_HANG_CONFIGURATION : GS_HANG_TWO_KERNELS;
}

/* Blocks of a programmatic launch that wait for the kernel before it, which waits for one that has no room beside them.
 */
static gs_hang_cause judge_programmatic(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *dependent = NULL, *missing = NULL, *waiting = first_waiting(hang);
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->operation->is_programmatic && (!hang->has_dump || kernel->grid != GS_DUMP_NONE))
            dependent = kernel;
        if (kernel->is_head && kernel != waiting && (!hang->has_dump || kernel->grid == GS_DUMP_NONE))
            missing = kernel;
    }
    bool lacks_room = hang->has_dump || (fit->is_known && !fit->fits);
    if (!dependent || !missing || !waiting || waiting->stream != dependent->stream ||
        missing->stream == dependent->stream || !lacks_room)
        return GS_HANG_UNKNOWN;
    put_kernel(&hang->said, missing);
    gs_text_add(&hang->said, " cannot start: blocks of ");
    put_kernel(&hang->said, dependent);
    gs_text_add(&hang->said, ", a programmatic launch, hold the SMs");
    put_places(hang, dependent);
    gs_text_add(&hang->said, ". They wait for the end of ");
    put_kernel(&hang->said, waiting);
    put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    add_fix(hang, "launch %s before %s", missing->name, dependent->name);
    add_fix(hang, "launch %s with fewer blocks, so that SMs stay free, or without the programmatic attribute",
            dependent->name);
    return GS_HANG_PROGRAMMATIC;
}

static gs_hang_cause judge_room(gs_hang *hang, gs_hang_fit *fit) {
    /* Seen: a grid that waits, alone on the GPU, with blocks that never started. */
    for (size_t i = 0; i < hang->kernels.count && hang->has_dump && hang->dump.grids.count == 1; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->grid == GS_DUMP_NONE || !kernel->never_started)
            continue;
        if (fit->is_known && fit->fits)
            kernel->never_started = 0; /* alone they have room: they have ended */
        else if (kernel_waits(hang, kernel))
            return judge_alone(hang, fit, kernel);
    }
    if (!fit->is_known || fit->fits || !first_waiting(hang) || !fit->answer.check.here.order.count)
        return GS_HANG_UNKNOWN;
    const gs_conflict *here = &fit->answer.check.here;
    gs_hang_kernel *last = &hang->kernels.data[fit->kernels[here->order.data[here->order.count - 1]]];
    if (hang->has_dump && last->grid == GS_DUMP_NONE)
        last->never_started = last->blocks;
    if (hang->has_dump && !last->never_started)
        return GS_HANG_UNKNOWN;
    if (here->order.count > 1)
        return judge_conflict(hang, fit, last);
    return kernel_waits(hang, last) ? judge_alone(hang, fit, last) : GS_HANG_UNKNOWN;
}

/* A kernel at the head of a stream that has room, and still does not start. */
static gs_hang_cause judge_connections(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *waiting = first_waiting(hang), *missing = NULL;
    size_t streams = 0;
    for (size_t i = 0; i < hang->streams.count; i++)
        streams += hang->streams.data[i].head != NULL;
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->is_head && kernel != waiting && (!hang->has_dump || kernel->grid == GS_DUMP_NONE))
            missing = kernel;
    }
    bool has_room = fit->is_known && fit->fits;
    if (!waiting || !missing || !has_room || streams <= (size_t)gs_max(1, hang->page->connections))
        return GS_HANG_UNKNOWN;
    gs_text_add(&hang->said, "%zu streams have work, and CUDA_DEVICE_MAX_CONNECTIONS is %d: some share a queue. ",
                streams, hang->page->connections);
    put_kernel(&hang->said, missing);
    gs_text_add(&hang->said, " has room, but stands in a queue behind work that waits for ");
    put_kernel(&hang->said, waiting);
    put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    add_fix(hang, "CUDA_DEVICE_MAX_CONNECTIONS=%zu (32 at most)", gs_min_u64(32, gs_max_u64(8, streams)));
    add_fix(hang, "issue %s before what waits for it", missing->name);
    return GS_HANG_CONNECTIONS;
}

static gs_hang_cause judge_ranks(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (!kernel->is_head || !kernel->operation->collective || (hang->has_dump && kernel->grid == GS_DUMP_NONE))
            continue;
        put_kernel(&hang->said, kernel);
        gs_text_add(&hang->said, " is collective %u of its stream", kernel->operation->collective);
        if (hang->page->rank >= 0)
            gs_text_add(&hang->said, " on rank %d", hang->page->rank);
        gs_text_add(&hang->said, ", and waits for other ranks");
        put_places(hang, kernel);
        gs_text_add(&hang->said, ". Another rank has not come to it, or is at another collective.");
        add_fix(hang, "gridsmith watch --join FOLDER says which rank is missing (run all ranks with -o FOLDER)");
        add_fix(hang, "issue the same collectives in the same order on all ranks");
        return GS_HANG_RANKS;
    }
    return GS_HANG_UNKNOWN;
}

/* ---- waits between streams ---- */

/* The stream that would write the value that a stream waits for, or NULL. */
static const gs_hang_stream *writer_of(const gs_hang *hang, const gs_watch_operation *wait) {
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_hang_stream *stream = &hang->streams.data[i];
        uint64_t issued = atomic_load(&stream->stream->issued);
        for (uint64_t number = stream->first; number <= issued; number++) {
            const gs_watch_operation *operation = gs_hang_operation(stream->stream, number);
            if (operation && operation->kind == GS_WATCH_WRITE_VALUE && operation->object == wait->object)
                return stream;
        }
    }
    return NULL;
}

/* The stream that a stream waits for, or NULL. */
static const gs_hang_stream *awaited_by(const gs_hang *hang, const gs_hang_stream *stream) {
    const gs_watch_operation *head = stream->head;
    if (head && head->kind == GS_WATCH_WAIT_VALUE)
        return writer_of(hang, head);
    if (head && gs_hang_waits_for_event(hang, head))
        return gs_hang_stream_of(hang, head->other - 1);
    return NULL;
}

static gs_hang_cause judge_waits(gs_hang *hang, gs_hang_fit *fit) {
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
            add_fix(hang, "issue the write before the wait in one of these streams");
            return GS_HANG_NEVER_ISSUED;
        }
    }
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_watch_operation *head = hang->streams.data[i].head;
        if (!head || head->kind != GS_WATCH_WAIT_VALUE || writer_of(hang, head) || first_waiting(hang))
            continue;
        gs_text_add(&hang->said,
                    "Stream %u waits until the word at 0x%" PRIx64 " is %u, and no stream has an operation that "
                    "writes it.",
                    hang->streams.data[i].number, head->object, head->value);
        add_fix(hang, "issue the write of that word (cuStreamWriteValue32), or let the host or a kernel do it");
        return GS_HANG_NEVER_ISSUED;
    }
    return GS_HANG_UNKNOWN;
}

/* What is left: a kernel that does not end by itself. */
static gs_hang_cause judge_endless(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    const gs_hang_kernel *kernel = first_waiting(hang);
    for (size_t i = 0; i < hang->kernels.count && hang->has_dump && !kernel; i++)
        if (hang->kernels.data[i].grid != GS_DUMP_NONE)
            kernel = &hang->kernels.data[i];
    if (!kernel)
        return GS_HANG_UNKNOWN;
    put_kernel(&hang->said, kernel);
    bool is_endless = false;
    for (size_t i = 0; i < hang->places.count; i++)
        is_endless = is_endless ||
                     (hang->places.data[i].grid == kernel->grid && hang->places.data[i].wait.kind == GS_SASS_ENDLESS);
    if (is_endless)
        gs_text_add(&hang->said, " never ends");
    else if (kernel_waits(hang, kernel))
        gs_text_add(&hang->said, hang->has_dump
                                     ? " waits for something that nothing which is issued can do"
                                     : " has code that waits for memory, and nothing which is issued can end that");
    else
        gs_text_add(&hang->said, " runs: it takes long, or never ends");
    put_places(hang, kernel);
    gs_text_add(&hang->said, ".");
    add_fix(hang, "look at the lines above: who sets what they wait for, and do all threads come to the barrier?");
    return GS_HANG_ENDLESS;
}

gs_code gs_hang_judge(gs_hang *hang, gs_error *error) {
    static judge *const rules[] = {judge_host_function, judge_whole_gpu, judge_loading, judge_heap,
                                   judge_programmatic,  judge_room,      judge_ranks,   judge_waits,
                                   judge_connections,   judge_late,      judge_endless};
    gs_hang_fit fit;
    gs_text_clear(&hang->said);
    for (size_t i = 0; i < hang->fixes.count; i++)
        free(hang->fixes.data[i]);
    hang->fixes.count = 0;
    hang->cause = GS_HANG_UNKNOWN;
    gs_code code = gs_hang_check(hang, &fit, error);
    for (size_t i = 0; i < GS_COUNT(rules) && code == GS_OK && hang->cause == GS_HANG_UNKNOWN; i++)
        hang->cause = rules[i](hang, &fit);
    hang->is_alarm = hang->cause != GS_HANG_UNKNOWN && (hang->cause != GS_HANG_ENDLESS || hang->has_dump);
    gs_hang_fit_free(&fit);
    return code == GS_OK && hang->said.failed ? gs_fail_memory(error) : code;
}
