/*
 * hang_verdict.c: the cause of a hang: the first rule of a table that holds.
 *
 * A rule looks at facts: what threads wait in, what the heads of streams are, what the dump shows, what the model says
 * of the kernels. Without a dump it is not seen whether blocks wait. Then a kernel only counts as waiting if its code
 * has a loop that does nothing but read memory. A rule raises the alarm if what it has found does not end by itself;
 * what may simply take long raises none.
 */
#include "hang_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *gs_hang_cause_name(gs_hang_cause cause) {
    static const char *const names[GS_HANG_CAUSES] = {
        "unknown",        "too-many-blocks", "two-kernels",   "ranks",        "loading",
        "whole-gpu",      "connections",     "configuration", "programmatic", "host-function",
        "default-stream", "never-issued",    "error",         "heap",         "endless"};
    return names[cause];
}

/* ---- threads ---- */

static const gs_hang_thread *thread_in(const gs_hang *hang, gs_watch_class class) {
    for (size_t i = 0; i < hang->threads.count; i++)
        if (hang->threads.data[i].class == class && hang->threads.data[i].call &&
            hang->threads.data[i].waited_ns >= hang->after_ns / 2)
            return &hang->threads.data[i];
    return NULL;
}

/* ---- the rules ---- */

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
        hang->is_alarm = within != NULL;
        if (within)
            gs_text_add(&hang->said, " It is in %s, which waits for the GPU.", within->call);
        else if (hang->host_state == 'R')
            gs_text_add(&hang->said, " It computes.");
        else
            gs_text_add(&hang->said, " It is not in a call of CUDA: it waits %s.",
                        hang->host_waits ? hang->host_waits : "for a lock, a file or another thread");
        gs_hang_add_fix(hang, within
                                  ? "do not call CUDA in host functions: signal a thread that does"
                                  : "let host functions take no lock that a thread holds while it waits for the GPU");
        return GS_HANG_HOST_FUNCTION;
    }
    return GS_HANG_UNKNOWN;
}

/* Whether an error says that a capture is going on: it ends. */
static bool is_of_capture(const gs_hang *hang, const gs_hang_thread *thread) {
    enum { FIRST = 900, LAST = 909 };
    int answer = atomic_load(&thread->thread->answer);
    for (size_t i = 0; i < GS_WATCH_EVENTS; i++) {
        const gs_watch_event *event = &hang->page->events[i];
        if (event->capture && atomic_load(&event->handle) == atomic_load(&thread->thread->polled))
            return true;
    }
    return answer >= FIRST && answer <= LAST;
}

/* A thread asks for an event or a stream again and again, and gets an error. */
static gs_hang_cause judge_error(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->threads.count; i++) {
        const gs_hang_thread *thread = &hang->threads.data[i];
        int answer = atomic_load(&thread->thread->answer);
        if (thread->call || !answer || thread->waited_ns < hang->after_ns / 2)
            continue;
        bool captures = is_of_capture(hang, thread);
        gs_text_add(
            &hang->said,
            "A thread has asked for %.1f s whether an event or a stream is ready, and the answer is error %d%s. %s",
            (double)thread->waited_ns / 1e9, answer, captures ? ", because of a stream that captures" : "",
            captures ? "It does not become ready before the capture ends." : "It does not become ready.");
        gs_hang_add_fix(
            hang,
            "look at the answers of cudaEventQuery and cudaStreamQuery: only cudaErrorNotReady means \"not yet\"");
        hang->is_alarm = !captures;
        return GS_HANG_ERROR;
    }
    return GS_HANG_UNKNOWN;
}

/* The last rule, which only says a fact: an event that is awaited was recorded elsewhere. */
static gs_hang_cause judge_event(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_thread *waiting = thread_in(hang, GS_WATCH_SYNC);
    (void)fit;
    for (size_t i = 0; i < hang->streams.count; i++) {
        const gs_watch_operation *head = hang->streams.data[i].head;
        if (head && head->kind == GS_WATCH_WAIT_EVENT && !head->other) {
            gs_text_add(&hang->said,
                        "Stream %u is at a wait for an event that no stream of this process has recorded: it is of "
                        "another process, whose report says more.",
                        hang->streams.data[i].number);
            return GS_HANG_UNKNOWN;
        }
    }
    if (!waiting || strcmp(waiting->call, "cuEventSynchronize") != 0)
        return GS_HANG_UNKNOWN;
    for (size_t i = 0; i < GS_WATCH_EVENTS; i++) {
        const gs_watch_event *event = &hang->page->events[i];
        if (atomic_load(&event->handle) == atomic_load(&waiting->thread->object) && event->stream)
            return GS_HANG_UNKNOWN;
    }
    gs_text_add(&hang->said,
                "A thread waits for an event that no stream of this process has recorded: it is of another "
                "process, whose report says more.");
    return GS_HANG_UNKNOWN;
}

/* The function that a thread launches for the first time; NULL: no thread is in such a launch. */
static const gs_watch_function *first_launch_of(const gs_hang *hang, const gs_hang_thread *launching) {
    uint32_t place = launching ? atomic_load(&launching->thread->function) : 0;
    const gs_watch_function *function = place && place <= GS_WATCH_FUNCTIONS ? &hang->page->functions[place - 1] : NULL;
    return function && !atomic_load(&function->launches) ? function : NULL;
}

/* A kernel that its launch loaded, and that has not started: that is seen, or it is the first of its stream, and has no
   loop in which it could be for so long. */
static const gs_hang_kernel *loaded_late(gs_hang *hang) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    for (size_t i = 0; i < hang->kernels.count && waiting; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        const gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        bool is_short = kernel->code && !(kernel->code & ~(GS_SASS_CODE_KNOWN | GS_SASS_CODE_AT_BARRIERS)) && stream &&
                        stream->first == kernel->operation->number;
        if (kernel->is_head && kernel->operation->loads && kernel != waiting &&
            (hang->has_dump ? kernel->grid == GS_DUMP_NONE : is_short) &&
            kernel->operation->at_ns > waiting->operation->at_ns)
            return kernel;
    }
    return NULL;
}

/* `name` is the kernel that is launched for the first time; NULL: `call` loads code. */
static gs_hang_cause say_loading(gs_hang *hang, const gs_hang_kernel *waiting, const char *name, const char *call) {
    gs_text_add(&hang->said, "%s%s loads %s, which waits until the GPU is idle; ", name ? "The first launch of " : "",
                name ? name : call, name ? "its code" : "code");
    gs_hang_put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " does not end, and waits for what comes later");
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    if (name) {
        gs_hang_add_fix(hang, "CUDA_MODULE_LOADING=EAGER");
        gs_hang_add_fix(hang, "load %s before %s is launched: cudaFuncGetAttributes, or launch it once", name,
                        waiting->name);
    } else {
        gs_hang_add_fix(hang, "call %s before %s is launched", call, waiting->name);
    }
    hang->is_alarm = !gs_hang_may_be_released(hang, waiting, NULL);
    return GS_HANG_LOADING;
}

/* A thread is in a call that loads. */
static gs_hang_cause judge_loading(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_thread *launching = thread_in(hang, GS_WATCH_LAUNCH), *loading = thread_in(hang, GS_WATCH_LOAD);
    const gs_watch_function *function = first_launch_of(hang, launching);
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
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
    return late && has_room ? say_loading(hang, gs_hang_first_waiting(hang), late->name, "") : GS_HANG_UNKNOWN;
}

static void say_behind(gs_hang *hang) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    if (!waiting)
        waiting = gs_hang_first_head(hang);
    if (!waiting)
        return;
    gs_text_add(&hang->said, " ");
    gs_hang_put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " does not end");
    gs_hang_put_places(hang, waiting);
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
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    hang->is_alarm = waiting && !gs_hang_may_be_released(hang, waiting, NULL);
    if (memory && hang->kernels.count) {
        gs_text_add(&hang->said, "A thread has been in %s for %.1f s: it waits until the whole GPU is idle.",
                    memory->call, (double)memory->waited_ns / 1e9);
        say_behind(hang);
        gs_hang_add_fix(hang, "call %s before that kernel is launched, or after it has ended", memory->call);
        if (strncmp(memory->call, "cuMemAlloc_", 11) == 0 || strncmp(memory->call, "cuMemFree_", 10) == 0)
            gs_hang_add_fix(hang, "use a memory pool: cudaMallocAsync and cudaFreeAsync do not wait for other streams");
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
    gs_hang_add_fix(hang, "cudaDeviceSetLimit(cudaLimitStackSize, %d) before the first launch", function->local_bytes);
    free(name);
    return GS_HANG_WHOLE_GPU;
}

static gs_hang_cause say_heap(gs_hang *hang) {
    gs_hang_add_fix(hang, "a larger heap: cudaDeviceSetLimit(cudaLimitMallocHeapSize, BYTES)");
    gs_hang_add_fix(hang, "free memory of the heap, or let the kernel end when malloc returns NULL");
    return GS_HANG_HEAP;
}

static gs_hang_cause judge_heap(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->places.count; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (!(place->wait.kind == GS_SASS_POLLS && place->wait.calls) && !place->in_syscall)
            continue;
        gs_text_add(&hang->said, "%zu warps are in a loop that calls a function again and again", place->warps);
        if (place->source)
            gs_text_add(&hang->said, " (%s:%u)", place->source, place->line);
        gs_text_add(&hang->said, "%s: if it tries until malloc succeeds, the device heap is full.",
                    place->in_syscall ? ", and are in the driver's part of it, such as malloc" : "");
        hang->is_alarm = true;
        return say_heap(hang);
    }
    const gs_hang_kernel *kernel = gs_hang_first_head(hang);
    if (hang->has_dump || !kernel || !(kernel->code & GS_SASS_CODE_RETRIES) || kernel->code & GS_SASS_CODE_WAITS)
        return GS_HANG_UNKNOWN;
    gs_hang_put_kernel(&hang->said, kernel);
    gs_text_add(&hang->said,
                " does not end. It has a loop that calls a function again and again: if it tries until malloc "
                "succeeds, the device heap is full.");
    return say_heap(hang);
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
            gs_hang_add_fix(hang, "%s", text.data);
        gs_text_free(&text);
    }
}

static gs_hang_cause judge_alone(gs_hang *hang, const gs_hang_fit *fit, const gs_hang_kernel *kernel) {
    int64_t room = hang->has_dump && kernel->grid != GS_DUMP_NONE ? hang->dump.grids.data[kernel->grid].resident
                                                                  : kernel->blocks - kernel->never_started;
    gs_hang_put_kernel(&hang->said, kernel);
    gs_text_add(&hang->said, hang->has_dump ? " waits for all its blocks, but only " : " has room for only ");
    gs_text_put_grouped(&hang->said, room);
    bool is_barrier = hang->has_dump || kernel->code & GS_SASS_CODE_WRITES_IT;
    gs_text_add(&hang->said, hang->has_dump ? " are resident, and "
                             : is_barrier   ? " blocks, and its code waits for others: "
                                            : " blocks, and its code waits for memory: if the other ");
    gs_text_put_grouped(&hang->said, kernel->never_started);
    gs_text_add(&hang->said, is_barrier ? " never started" : " would write it, it does not end");
    gs_hang_put_places(hang, kernel);
    gs_text_add(&hang->said, ".");
    gs_hang_add_fix(hang, "launch %s with at most %" PRId64 " blocks", kernel->name, room);
    gs_hang_add_fix(hang, "launch it with cudaLaunchCooperativeKernel, which refuses more blocks than fit");
    (void)fit;
    /* Blocks that wait for those before them, as in a scan, come to an end. */
    hang->is_alarm = is_barrier;
    return GS_HANG_TOO_MANY_BLOCKS;
}

/* Whether another shared-memory configuration alone would be enough. */
static bool is_of_configuration(const gs_hang_fit *fit) {
    const char *why = fit->answer.check.here.why.data;
    for (size_t i = 0; i < fit->answer.fixes.count; i++) {
        const gs_fix *fix = &fit->answer.fixes.data[i];
        if (fix->count == 1 && fix->changes[0].kind == GS_FIX_CARVEOUT)
            return why && strstr(why, "configuration");
    }
    return false;
}

/* The kernels that hold SMs which the one that does not start needs. */
static gs_hang_cause judge_conflict(gs_hang *hang, const gs_hang_fit *fit, const gs_hang_kernel *waiting) {
    const gs_conflict *here = &fit->answer.check.here;
    bool says = false;
    hang->is_alarm = true;
    gs_hang_put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " cannot start %" PRId64 " of its blocks", waiting->never_started);
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ". The SMs are held by ");
    for (size_t i = 0; i + 1 < here->order.count; i++) {
        const gs_hang_kernel *holder = &hang->kernels.data[fit->kernels[here->order.data[i]]];
        gs_text_add(&hang->said, "%s", says ? " and " : "");
        gs_hang_put_kernel(&hang->said, holder);
        gs_hang_put_places(hang, holder);
        says = true;
        hang->is_alarm =
            hang->is_alarm && gs_hang_kernel_waits(hang, holder) && !gs_hang_may_be_released(hang, holder, waiting);
    }
    gs_text_add(&hang->said, ", launched before. %s%s", here->why.data ? here->why.data : "",
                here->why.data ? "." : "");
    add_model_fixes(hang, fit);
    return is_of_configuration(fit) ? GS_HANG_CONFIGURATION : GS_HANG_TWO_KERNELS;
}

/* Blocks of a programmatic launch that wait for the kernel before it, which waits for one that has no room beside them.
 */
static gs_hang_cause judge_programmatic(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *dependent = NULL, *missing = NULL, *waiting = gs_hang_first_waiting(hang);
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
    gs_hang_put_kernel(&hang->said, missing);
    gs_text_add(&hang->said, " cannot start: blocks of ");
    gs_hang_put_kernel(&hang->said, dependent);
    gs_text_add(&hang->said, ", a programmatic launch, hold the SMs");
    gs_hang_put_places(hang, dependent);
    gs_text_add(&hang->said, ". They wait for the end of ");
    gs_hang_put_kernel(&hang->said, waiting);
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    gs_hang_add_fix(hang, "launch %s before %s", missing->name, dependent->name);
    gs_hang_add_fix(hang, "launch %s with fewer blocks, so that SMs stay free, or without the programmatic attribute",
                    dependent->name);
    hang->is_alarm = !gs_hang_may_be_released(hang, waiting, missing);
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
        else if (gs_hang_kernel_waits(hang, kernel))
            return judge_alone(hang, fit, kernel);
    }
    if (!fit->is_known || fit->fits || !gs_hang_first_waiting(hang) || !fit->answer.check.here.order.count)
        return GS_HANG_UNKNOWN;
    const gs_conflict *here = &fit->answer.check.here;
    gs_hang_kernel *last = &hang->kernels.data[fit->kernels[here->order.data[here->order.count - 1]]];
    if (hang->has_dump && last->grid == GS_DUMP_NONE)
        last->never_started = last->blocks;
    if (hang->has_dump && !last->never_started)
        return GS_HANG_UNKNOWN;
    if (here->order.count > 1)
        return judge_conflict(hang, fit, last);
    return gs_hang_kernel_waits(hang, last) ? judge_alone(hang, fit, last) : GS_HANG_UNKNOWN;
}

/* A kernel of a graph that waits, and another one of it that has no room beside it. The order of its nodes is not
 * known.
 */
static gs_hang_cause judge_graph(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    const gs_watch_graph *graph = waiting ? gs_hang_graph_of(hang, waiting->graph) : NULL;
    gs_hang_cause cause = GS_HANG_UNKNOWN;
    (void)fit;
    for (size_t i = 0; i < hang->kernels.count && graph && graph->has_branches && !hang->has_dump && !cause; i++) {
        const gs_hang_kernel *other = &hang->kernels.data[i];
        gs_error none = {.code = GS_OK};
        gs_hang_fit pair;
        if (other == waiting || other->graph != waiting->graph || waiting->operation->collective || !other->function ||
            !waiting->function)
            continue;
        gs_code code = gs_hang_check_pair(hang, &pair, (size_t)(waiting - hang->kernels.data), i, &none);
        if (code == GS_OK && pair.is_known && !pair.fits && pair.answer.check.here.order.count == 2) {
            cause = judge_conflict(hang, &pair, other);
            gs_text_add(&hang->said, " Both are in one graph: this holds if it runs them at the same time.");
            hang->is_alarm = false;
        }
        gs_hang_fit_free(&pair);
    }
    return cause;
}

/* A kernel at the head of a stream that has room, and still does not start. */
static gs_hang_cause judge_connections(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang), *missing = NULL;
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
    gs_hang_put_kernel(&hang->said, missing);
    gs_text_add(&hang->said, " has room, but stands in a queue behind work that waits for ");
    gs_hang_put_kernel(&hang->said, waiting);
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    gs_hang_add_fix(hang, "CUDA_DEVICE_MAX_CONNECTIONS=%zu (32 at most)", gs_min_u64(32, gs_max_u64(8, streams)));
    gs_hang_add_fix(hang, "issue %s before what waits for it", missing->name);
    hang->is_alarm = !gs_hang_may_be_released(hang, waiting, NULL);
    return GS_HANG_CONNECTIONS;
}

static gs_hang_cause judge_ranks(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (!kernel->is_head || !kernel->operation->collective || (hang->has_dump && kernel->grid == GS_DUMP_NONE))
            continue;
        gs_hang_put_kernel(&hang->said, kernel);
        gs_text_add(&hang->said, " is collective %u of its stream", kernel->operation->collective);
        if (hang->page->rank >= 0)
            gs_text_add(&hang->said, " on rank %d", hang->page->rank);
        gs_text_add(&hang->said, ", and waits for other ranks");
        gs_hang_put_places(hang, kernel);
        gs_text_add(&hang->said, ". Another rank has not come to it, or is at another collective.");
        gs_hang_add_fix(hang,
                        "gridsmith watch --join FOLDER says which rank is missing (run all ranks with -o FOLDER)");
        gs_hang_add_fix(hang, "issue the same collectives in the same order on all ranks");
        hang->is_alarm = hang->has_dump; /* the other rank may be late */
        return GS_HANG_RANKS;
    }
    return GS_HANG_UNKNOWN;
}

/* The function of NCCL that a thread which is in no call of CUDA is in; NULL: none. */
static const char *function_of_nccl(const gs_watch_thread *thread) {
    static const char name[] = "nccl";
    for (uint32_t i = 0; i < atomic_load(&thread->frame_count) && i < GS_WATCH_FRAMES; i++) {
        const char *frame = thread->stack[i] + (thread->stack[i][0] == 'p');
        if (strncmp(frame, name, sizeof name - 1) == 0 && frame[sizeof name - 1] >= 'A' &&
            frame[sizeof name - 1] <= 'Z')
            return frame;
    }
    return NULL;
}

/* Ranks also wait for each other on the host, before they launch a kernel. */
static gs_hang_cause judge_nccl(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < GS_WATCH_THREADS && !hang->threads.count; i++) {
        const gs_watch_thread *thread = &hang->page->threads[i];
        const char *function = atomic_load(&thread->thread) ? function_of_nccl(thread) : NULL;
        if (!function)
            continue;
        gs_text_add(&hang->said, "Thread %d is in %.*s, and in no call of CUDA: it waits for another rank.",
                    atomic_load(&thread->thread), (int)strcspn(function, " "), function);
        gs_hang_add_fix(hang, "look at the other ranks: who has not come to this call, or is in another one?");
        return GS_HANG_RANKS;
    }
    return GS_HANG_UNKNOWN;
}

/* Whether a cause depends on which kernels streams are at. */
static bool is_of_kernels(gs_hang_cause cause) {
    return cause != GS_HANG_HOST_FUNCTION && cause != GS_HANG_NEVER_ISSUED && cause != GS_HANG_ERROR;
}

/* Whether a stream may be at another kernel than the one that is taken: one before it that takes long, or none of so
   long ago. */
static bool is_guess(const gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count && !hang->has_dump; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        const gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        if (kernel->is_head && (kernel->is_older || (stream && stream->is_guess)))
            return true;
    }
    return false;
}

gs_code gs_hang_judge(gs_hang *hang, gs_error *error) {
    static gs_hang_rule *const rules[] = {judge_error,
                                          judge_host_function,
                                          judge_whole_gpu,
                                          judge_loading,
                                          judge_heap,
                                          judge_programmatic,
                                          judge_room,
                                          judge_ranks,
                                          judge_graph,
                                          gs_hang_judge_waits,
                                          gs_hang_judge_default_stream,
                                          judge_connections,
                                          judge_late,
                                          gs_hang_judge_condition,
                                          gs_hang_judge_endless,
                                          judge_nccl,
                                          judge_event};
    gs_hang_fit fit;
    gs_text_clear(&hang->said);
    for (size_t i = 0; i < hang->fixes.count; i++)
        free(hang->fixes.data[i]);
    hang->fixes.count = 0;
    hang->cause = GS_HANG_UNKNOWN;
    gs_code code = gs_hang_check(hang, &fit, error);
    for (size_t i = 0; i < GS_COUNT(rules) && code == GS_OK && hang->cause == GS_HANG_UNKNOWN; i++) {
        hang->is_alarm = false;
        hang->cause = rules[i](hang, &fit);
    }
    hang->is_alarm =
        hang->is_alarm && hang->cause != GS_HANG_UNKNOWN && !(is_of_kernels(hang->cause) && is_guess(hang));
    gs_hang_fit_free(&fit);
    return code == GS_OK && hang->said.failed ? gs_fail_memory(error) : code;
}
