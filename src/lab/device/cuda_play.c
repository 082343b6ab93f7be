/*
 * cuda_play.c: a run played on a GPU, event by event.
 *
 * After a launch the host polls its own memory, where the blocks of the probe kernel report, until all have started, or
 * none has started for a while. After each exit the waiting kernels are polled again. At the end all kernels are
 * stopped. If the watchdog had to end a launch call, the recording has nothing after that launch.
 *
 * A run ends with a synchronization, so that nothing of it arrives during the next one.
 */
#include "cuda_device.h"

#include <stdlib.h>
#include <string.h>

/* ---- launching ---- */

/* The CUDA stream of a launch is that of the first launch in its stream. */
static cu_stream stream_of(const struct cuda_play *play, size_t number) {
    const gs_launch *launches = play->run->launches.data;
    size_t first = 0;
    if (context_of_launch(&launches[number]) >= 0)
        return play->cuda->context_streams[context_of_launch(&launches[number])][number];
    while (first < number && !(launches[number].stream && launches[first].stream &&
                               strcmp(launches[first].stream, launches[number].stream) == 0))
        first++;
    return play->cuda->streams[first];
}

static bool is_programmatic(const struct cuda_play *play, const gs_launch *launch) {
    for (size_t i = launch->issue.after; i < (size_t)launch->issue.after + launch->issue.after_count; i++)
        if (play->run->edges.data[i].when != GS_AT_END)
            return true;
    return false;
}

static bool is_cooperative(const gs_launch *launch) {
    return launch->issue.facts && launch->issue.facts->is_cooperative;
}

static gs_code launch_kernel(struct cuda_play *play, size_t number, size_t event, gs_error *error) {
    struct cuda *cuda = play->cuda;
    const gs_launch *launch = &play->run->launches.data[number];
    struct cuda_slot *slot = &cuda->slots[number];
    slot->stream = stream_of(play, number);
    const cu_call call = {.grid = {(uint32_t)launch->blocks, 1, 1},
                          .block = {(uint32_t)launch->shape.threads, 1, 1},
                          .shared_bytes = (uint64_t)launch->shape.shared_bytes,
                          .stream = slot->stream,
                          .cluster = (uint32_t)launch->cluster,
                          .has_priority = true,
                          .priority = -abs(launch->priority),
                          .is_programmatic = is_programmatic(play, launch),
                          .is_cooperative = is_cooperative(launch)};
    void *arguments[] = {&slot->arguments};
    int failed = gs_cuda_kernel_carve(&cuda->api, slot->kernel, launch->shape.carveout_percent);
    gs_watchdog_call_begins(cuda);
    if (!failed)
        failed = gs_cuda_launch(&cuda->api, slot->kernel, &call, arguments);
    play->cut_short = gs_watchdog_call_ends(cuda);
    if (failed)
        return gs_run_fail(play->run, event, error, gs_cuda_check(&cuda->api, failed, "launching", error), "%s",
                           error ? error->message : "");
    slot->launched = true;
    return GS_OK;
}

/* ---- launches and exits ---- */

/* The host was blocked: no block of these launches had started by then. */
static gs_code record_nothing(struct cuda_play *play, size_t first, size_t past, gs_error *error) {
    for (size_t i = first; i < past; i++) {
        gs_seen *seen = gs_event_see(&play->out->events.data[play->out->launches.data[i].event]);
        if (!seen)
            return gs_fail_memory(error);
        seen->has_placed = true;
    }
    return GS_OK;
}

/* Whether the launch waits for others, and not for headroom. */
static bool waits_for_others(const struct cuda_slot *slot) {
    return !slot->started && slot->launch->issue.after_count;
}

/* Records the launches that all blocks have started of and that are not recorded yet. This can wait until the GPU has
   something else to do, because their reports do not change. */
static gs_code record_started(struct cuda_play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (; play->recorded < play->watched && code == GS_OK; play->recorded++) {
        gs_event *out = &play->out->events.data[play->out->launches.data[play->recorded].event];
        code = gs_slot_record(&play->cuda->slots[play->recorded], gs_event_see(out), false, error);
    }
    return code;
}

static gs_code watch_starts(struct cuda_play *play, size_t first, size_t past, size_t event, gs_error *error) {
    struct cuda_slot *slots = play->cuda->slots;
    int64_t wanted = 0;
    bool matters = play->is_scored, all_started = true;
    for (size_t i = 0; i < past; i++) {
        wanted += i < first ? slots[i].started : slots[i].blocks;
        matters = matters && (i >= first || slots[i].started == slots[i].blocks || waits_for_others(&slots[i]));
    }
    gs_play_wait_starts(play, gs_play_expected_after(play, event), wanted, matters);
    for (size_t i = first; i < past; i++) {
        slots[i].shown = slots[i].started;
        all_started = all_started && slots[i].started == slots[i].blocks;
        if (slots[i].started < slots[i].blocks && !waits_for_others(&slots[i]) && !play->run->connections)
            play->is_scored = false;
    }
    play->watched = past;
    return all_started ? GS_OK : record_started(play, error);
}

/* A launch, or all launches of a graph. */
static gs_code play_launch(struct cuda_play *play, size_t event, gs_error *error) {
    size_t first = play->run->events.data[event].launch, past = gs_play_past_graph(play->run, first);
    gs_code code = gs_issue_is_node(&play->run->launches.data[first].issue)
                       ? gs_play_launch_graph(play, first, past, error)
                       : launch_kernel(play, first, event, error);
    play->acted_ns = gs_now_ns();
    if (code == GS_OK)
        code = record_started(play, error);
    for (size_t i = first; i < past && code == GS_OK; i++)
        code = gs_run_copy_launch(play->out, &play->run->launches.data[i], error);
    if (code != GS_OK)
        return code;
    play->launched += past - first;
    if (play->cut_short)
        return record_nothing(play, first, past, error);
    return gs_run_is_timed(play->run) ? GS_OK : watch_starts(play, first, past, event + past - first - 1, error);
}

static gs_code show_gained(struct cuda_play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->launched && code == GS_OK; i++) {
        struct cuda_slot *slot = &play->cuda->slots[i];
        if (gs_slot_started(slot) == slot->shown)
            continue;
        gs_event *out = gs_run_add_event(play->out, GS_OBSERVE, i, error);
        slot->shown = slot->started;
        code = out ? gs_slot_record(slot, gs_event_see(out), false, error) : GS_E_MEMORY;
    }
    return code;
}

static gs_code watch_exit(struct cuda_play *play, size_t event, gs_error *error) {
    int64_t most = 0;
    bool are_left = false; /* blocks of stopped kernels, which may start now */
    for (size_t i = 0; i < play->launched; i++) {
        const struct cuda_slot *slot = &play->cuda->slots[i];
        most += slot->blocks;
        are_left |= slot->is_stopped && slot->started < slot->blocks;
    }
    gs_play_wait_starts(play, gs_play_expected_after(play, event), most, play->is_scored || are_left);
    return show_gained(play, error);
}

static gs_code play_exit(struct cuda_play *play, size_t event, gs_error *error) {
    size_t number = play->run->events.data[event].launch;
    struct cuda_slot *slot = &play->cuda->slots[number];
    if (play->run->launches.data[number].duration_ns)
        gs_play_wait_times(play, number, number + 1);
    slot->is_stopped = true;
    gs_shared_word_set(slot->stop, play->cuda->generation);
    gs_code code = record_started(play, error);
    if (code == GS_OK)
        code = gs_slot_wait_end(slot, error);
    if (code == GS_OK && slot->started == slot->blocks)
        gs_play_wait_gone(play, number);
    play->acted_ns = gs_now_ns();
    if (code == GS_OK && !gs_run_add_event(play->out, GS_EXIT, number, error))
        code = GS_E_MEMORY;
    return code == GS_OK && !gs_run_is_timed(play->run) ? watch_exit(play, event, error) : code;
}

/* Stops all kernels. Those that still wait start, find that they are stopped, and end too. */
static gs_code end_all(struct cuda_play *play, gs_error *error) {
    struct cuda *cuda = play->cuda;
    gs_watchdog_stop_kernels(cuda);
    gs_code code = play->out ? record_started(play, error) : GS_OK;
    int64_t deadline = gs_now_ns() + STUCK_NS;
    for (size_t i = 0; i < play->launched; i++) {
        struct cuda_slot *slot = &cuda->slots[i];
        while (gs_slot_started(slot) < slot->blocks || !gs_slot_has_ended(slot))
            if (gs_now_ns() > deadline)
                return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: not all blocks of \"%.60s\" have run",
                               play->run->launches.data[i].kernel);
    }
    int failed = cuda->api.synchronize();
    return code == GS_OK ? gs_cuda_check(&cuda->api, failed, "waiting for the GPU", error) : code;
}

/* ---- a run ---- */

/* With durations, launches are recorded when all have ended. One that blocked the host is recorded already. */
static gs_code record_timed(struct cuda_play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->launched && code == GS_OK; i++) {
        gs_event *out = &play->out->events.data[play->out->launches.data[i].event];
        if (!out->seen->has_placed)
            code = gs_slot_record(&play->cuda->slots[i], gs_event_see(out), true, error);
    }
    return code;
}

/* After the host was blocked nothing more is played: later events are recorded without what was seen. */
static gs_code skip_event(struct cuda_play *play, const gs_event *event, gs_error *error) {
    if (event->op == GS_LAUNCH)
        return gs_run_copy_launch(play->out, &play->run->launches.data[event->launch], error);
    return gs_run_add_event(play->out, event->op, event->launch, error) ? GS_OK : GS_E_MEMORY;
}

static gs_code play_events(struct cuda_play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->run->events.count && code == GS_OK; i++) {
        const gs_event *event = &play->run->events.data[i];
        if (event->op == GS_OBSERVE)
            continue;
        if (event->op == GS_LAUNCH && event->launch < play->launched)
            continue; /* it was launched with its graph */
        if (play->cut_short)
            code = skip_event(play, event, error);
        else
            code = event->op == GS_LAUNCH ? play_launch(play, i, error) : play_exit(play, i, error);
    }
    return code;
}

/* Makes the streams of launches in green contexts, each its own, while the GPU is idle. */
static gs_code prepare_contexts(struct cuda_play *play, gs_error *error) {
    struct cuda *cuda = play->cuda;
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->run->launches.count && code == GS_OK; i++) {
        const gs_launch *launch = &play->run->launches.data[i];
        int64_t context = context_of_launch(launch);
        if (context < 0)
            continue;
        if (context >= cuda->context_count || launch->stream)
            return gs_run_fail(play->run, launch->event, error, GS_E_UNSUPPORTED,
                               "a run on a GPU can have launches in green contexts 0 to %d of the device, without "
                               "streams",
                               cuda->context_count - 1);
        if (!cuda->context_streams[context][i])
            code = gs_cuda_green_stream(&cuda->api, cuda->contexts[context], &cuda->context_streams[context][i], error);
    }
    return code;
}

/* A launch whose dependents wait for its trigger does not trigger: so they wait for its end, as the format says of a
   run without triggers. */
static void set_triggers(struct cuda_play *play) {
    const gs_run *run = play->run;
    for (size_t i = 0; i < run->edges.count; i++)
        if (run->edges.data[i].when == GS_AT_TRIGGER && !run->edges.data[i].is_copy)
            play->cuda->slots[run->edges.data[i].number].arguments.triggers = false;
}

static gs_code prepare_play(struct cuda_play *play, const gs_gpu *gpu, gs_error *error) {
    const gs_run *run = play->run;
    struct cuda *cuda = play->cuda;
    size_t at = (size_t)GS_DEVICE_LAUNCHES * LINE;
    gs_code code = GS_OK;
    if (run->launches.count > GS_DEVICE_LAUNCHES)
        return gs_fail(error, GS_E_USAGE, "a run on a GPU has at most %d launches", GS_DEVICE_LAUNCHES);
    if (run->connections && run->connections != play->connections)
        return gs_fail(error, GS_E_USAGE,
                       "the run has %d connections, but this program has %d: set CUDA_DEVICE_MAX_CONNECTIONS=%d",
                       run->connections, play->connections, run->connections);
    cuda->generation++;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = gs_slot_prepare(cuda, i, &run->launches.data[i], gpu->limits.warp_threads, &at, error);
    if (code == GS_OK)
        set_triggers(play);
    if (code == GS_OK)
        code = gs_play_count_expected(play, error);
    if (code == GS_OK)
        code = prepare_contexts(play, error);
    if (code == GS_OK)
        code = gs_play_make_graphs(play, error);
    play->out = code == GS_OK ? gs_run_new(error) : NULL;
    if (!play->out)
        return code == GS_OK ? GS_E_MEMORY : code;
    play->out->gpu = strdup(gpu->name);
    return play->out->gpu ? GS_OK : gs_fail_memory(error);
}

gs_run *gs_cuda_device_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error) {
    struct cuda_play play = {
        .cuda = device->inside, .run = run, .options = options, .connections = device->connections, .is_scored = true};
    gs_error unused;
    gs_code code = prepare_play(&play, device->gpu, error);
    if (code == GS_OK) {
        code = play_events(&play, error);
        if (gs_run_is_timed(run)) {
            gs_play_wait_times(&play, 0, play.launched);
            code = code == GS_OK ? record_timed(&play, error) : code;
        }
        gs_code ended = end_all(&play, code == GS_OK ? error : &unused);
        code = code == GS_OK ? ended : code;
    }
    free(play.expected);
    gs_play_free_graphs(&play);
    if (code == GS_OK)
        code = gs_run_copy_rest(play.out, run, error);
    if (code == GS_OK)
        return play.out;
    gs_run_free(play.out);
    return NULL;
}
