/*
 * hang_calls.c: rules about the calls that threads are in, and host functions. See hang_rules.h.
 */
#include "hang_rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- threads ---- */

static const gs_hang_thread *thread_in(const gs_hang *hang, gs_watch_class class) {
    for (size_t i = 0; i < hang->threads.count; i++)
        if (hang->threads.data[i].class == class && hang->threads.data[i].call &&
            hang->threads.data[i].waited_ns >= hang->after_ns / 2)
            return &hang->threads.data[i];
    return NULL;
}

/* ---- the rules ---- */

/* Whether a call in a host function waits for the stream of the host function: for it alone, or for all. */
static bool waits_for_itself(const gs_watch_stream *stream, const gs_hang_thread *within) {
    static const char all[] = "cuCtxSynchronize";
    return strncmp(within->call, all, sizeof all - 1) == 0 ||
           (within->class == GS_WATCH_SYNC && atomic_load(&within->thread->object) == atomic_load(&stream->handle));
}

gs_hang_cause gs_hang_judge_host_function(gs_hang *hang, gs_hang_fit *fit) {
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
        hang->is_alarm = within && waits_for_itself(stream->stream, within);
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
gs_hang_cause gs_hang_judge_error(gs_hang *hang, gs_hang_fit *fit) {
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
gs_hang_cause gs_hang_judge_event(gs_hang *hang, gs_hang_fit *fit) {
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

/* The function that a call which a thread is in loads, because it was not loaded with its module; NULL: none. */
static const gs_watch_function *loaded_by(const gs_hang *hang, const gs_hang_thread *loading) {
    bool is_lazy = loading && (strncmp(loading->call, "cuKernel", 8) == 0 || strncmp(loading->call, "cuFunc", 6) == 0);
    uint32_t place = is_lazy ? atomic_load(&loading->thread->function) : 0;
    return place && place <= GS_WATCH_FUNCTIONS ? &hang->page->functions[place - 1] : NULL;
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

/* `name` is the kernel that is loaded; NULL: not known. `call` loads it; NULL: its first launch does. */
static gs_hang_cause say_loading(gs_hang *hang, const gs_hang_kernel *waiting, const char *name, const char *call) {
    gs_text_add(&hang->said, "%s%s loads %s, which waits until the GPU is idle; ", call ? "" : "The first launch of ",
                call ? call : name,
                !call  ? "its code"
                : name ? name
                       : "code");
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
gs_hang_cause gs_hang_judge_loading(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_thread *launching = thread_in(hang, GS_WATCH_LAUNCH), *loading = thread_in(hang, GS_WATCH_LOAD);
    const gs_watch_function *first = first_launch_of(hang, launching);
    const gs_watch_function *function = first ? first : loaded_by(hang, loading);
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    (void)fit;
    if (!waiting || (!loading && !first))
        return GS_HANG_UNKNOWN;
    char *name = function ? gs_demangle(function->name, GS_NAME_ALONE) : NULL;
    gs_hang_cause cause = say_loading(hang, waiting, name, first ? NULL : loading->call);
    free(name);
    return cause;
}

/* The call has returned, and the kernel has room, but does not start. */
gs_hang_cause gs_hang_judge_late(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *late = loaded_late(hang);
    bool has_room = !fit->is_known || fit->fits;
    return late && has_room ? say_loading(hang, gs_hang_first_waiting(hang), late->name, NULL) : GS_HANG_UNKNOWN;
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

gs_hang_cause gs_hang_judge_whole_gpu(gs_hang *hang, gs_hang_fit *fit) {
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
gs_hang_cause gs_hang_judge_nccl(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < GS_WATCH_THREADS && !hang->threads.count; i++) {
        const gs_watch_thread *thread = &hang->page->threads[i];
        const char *function = atomic_load(&thread->thread) ? function_of_nccl(thread) : NULL;
        if (!function)
            continue;
        gs_text_add(&hang->said, "Thread %d is in %.*s, and in no call of CUDA: it waits for another rank.",
                    atomic_load(&thread->thread), (int)strcspn(function, " "), function);
        gs_hang_add_fix(hang, "look at the other ranks: which one has not reached this call, or is in another one?");
        return GS_HANG_RANKS;
    }
    return GS_HANG_UNKNOWN;
}
