/*
 * run.c: making, copying and freeing runs, and looking at them.
 */
#include "run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *gs_op_name(gs_op op) {
    static const char *const names[] = {[GS_LAUNCH] = "launch", [GS_EXIT] = "exit", [GS_OBSERVE] = "observe"};
    return names[op];
}

gs_launch gs_launch_default(void) {
    return (gs_launch){.cluster = 1, .shape = {.carveout_percent = GS_NO_CARVEOUT}, .exit = SIZE_MAX};
}

void gs_launch_clear(gs_launch *launch) {
    free(launch->kernel);
    free(launch->stream);
    *launch = gs_launch_default();
}

void gs_seen_clear(gs_seen *seen) {
    free(seen->placed.data);
    free(seen->brief.placed.data);
    free(seen->warp_slots.slots);
    free(seen->warp_slots.ends);
    free(seen->start_ns.data);
    free(seen->end_ns.data);
    *seen = (gs_seen){0};
}

gs_run *gs_run_new(gs_error *error) {
    gs_run *run = calloc(1, sizeof *run);
    if (!run)
        gs_fail_memory(error);
    return run;
}

void gs_run_free(gs_run *run) {
    if (!run)
        return;
    for (size_t i = 0; i < run->launches.count; i++)
        gs_launch_clear(&run->launches.data[i]);
    for (size_t i = 0; i < run->events.count; i++) {
        gs_seen_clear(&run->events.data[i].seen);
        free(run->events.data[i].why);
    }
    free(run->launches.data);
    free(run->events.data);
    free(run->class_name);
    free(run->gpu);
    gs_names_free(&run->kernels);
    gs_json_free(&run->source);
    free(run);
}

gs_event *gs_run_add_event(gs_run *run, gs_op op, size_t launch, gs_error *error) {
    if (!GS_RESERVE(&run->events, 1)) {
        gs_fail_memory(error);
        return NULL;
    }
    gs_event *event = &run->events.data[run->events.count++];
    *event = (gs_event){.op = op, .launch = launch};
    if (op == GS_EXIT)
        run->launches.data[launch].exit = run->events.count - 1;
    else
        run->launches.data[launch].observed = run->events.count - 1;
    return event;
}

gs_code gs_run_add_launch(gs_run *run, const gs_launch *launch, gs_error *error) {
    gs_launch owned = *launch;
    size_t number = run->launches.count;
    if (!GS_RESERVE(&run->launches, 1) || gs_names_add(&run->kernels, owned.kernel, number) == SIZE_MAX) {
        gs_launch_clear(&owned);
        return gs_fail_memory(error);
    }
    owned.event = run->events.count;
    owned.exit = SIZE_MAX;
    run->launches.data[run->launches.count++] = owned;
    return gs_run_add_event(run, GS_LAUNCH, number, error) ? GS_OK : GS_E_MEMORY;
}

static bool copy_string(char **to, const char *from) {
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

gs_code gs_run_copy_launch(gs_run *to, const gs_launch *from, gs_error *error) {
    gs_launch launch = *from;
    bool copied = copy_string(&launch.kernel, from->kernel);
    copied = copy_string(&launch.stream, from->stream) && copied;
    if (copied)
        return gs_run_add_launch(to, &launch, error);
    gs_launch_clear(&launch);
    return gs_fail_memory(error);
}

static void *copy_array(const void *from, size_t count, size_t size) {
    void *copy = malloc(count * size + 1);
    if (copy && count)
        memcpy(copy, from, count * size);
    return copy;
}

bool gs_seen_copy(gs_seen *to, const gs_seen *from, int64_t blocks) {
    *to = *from;
    to->placed.capacity = from->placed.count;
    to->start_ns.capacity = from->start_ns.count;
    to->end_ns.capacity = from->end_ns.count;
    to->placed.data = copy_array(from->placed.data, from->placed.count, sizeof *from->placed.data);
    to->start_ns.data = copy_array(from->start_ns.data, from->start_ns.count, sizeof *from->start_ns.data);
    to->end_ns.data = copy_array(from->end_ns.data, from->end_ns.count, sizeof *from->end_ns.data);
    to->warp_slots = (gs_slot_lists){0};
    to->brief.placed.capacity = from->brief.placed.count;
    to->brief.placed.data =
        copy_array(from->brief.placed.data, from->brief.placed.count, sizeof *from->brief.placed.data);
    bool copied = to->placed.data && to->start_ns.data && to->end_ns.data && to->brief.placed.data;
    if (from->has_warp_slots) {
        const gs_slot_lists *lists = &from->warp_slots;
        size_t slots = blocks ? lists->ends[blocks - 1] : 0;
        to->warp_slots.ends = copy_array(lists->ends, (size_t)blocks, sizeof *lists->ends);
        to->warp_slots.slots = copy_array(lists->slots, slots, sizeof *lists->slots);
        copied = copied && to->warp_slots.ends && to->warp_slots.slots;
    }
    if (!copied)
        gs_seen_clear(to);
    return copied;
}

static gs_code copy_event(gs_run *to, const gs_run *from, const gs_event *event, gs_error *error) {
    if (event->op == GS_LAUNCH) {
        gs_code code = gs_run_copy_launch(to, &from->launches.data[event->launch], error);
        if (code != GS_OK)
            return code;
    } else if (!gs_run_add_event(to, event->op, event->launch, error)) {
        return GS_E_MEMORY;
    }
    gs_event *copy = &to->events.data[to->events.count - 1];
    int64_t blocks = from->launches.data[event->launch].blocks;
    return gs_seen_copy(&copy->seen, &event->seen, blocks) ? GS_OK : gs_fail_memory(error);
}

gs_run *gs_run_copy(const gs_run *run, gs_error *error) {
    gs_run *copy = gs_run_new(error);
    if (!copy)
        return NULL;
    copy->has_id = run->has_id;
    copy->id = run->id;
    gs_code code = GS_OK;
    if (!copy_string(&copy->gpu, run->gpu) || !copy_string(&copy->class_name, run->class_name))
        code = gs_fail_memory(error);
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++)
        code = copy_event(copy, run, &run->events.data[i], error);
    if (code == GS_OK)
        return copy;
    gs_run_free(copy);
    return NULL;
}

gs_code gs_run_fail(const gs_run *run, size_t event, gs_error *error, gs_code code, const char *format, ...) {
    char message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    gs_step root = {0};
    gs_step events = {.up = &root, .key = "events"};
    gs_step at = {.up = &events, .index = event};
    gs_json_fail(&run->source, &at, false, error, "%s", message);
    if (error)
        error->code = code;
    return code;
}

bool gs_run_is_timed(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (run->launches.data[i].duration_ns)
            return true;
    return false;
}

int64_t gs_seen_started(const gs_seen *seen) {
    int64_t started = seen->brief.started;
    for (size_t i = 0; i < seen->placed.count; i++)
        started += seen->placed.data[i] != GS_WAIT;
    return started;
}

/* ---- what users of the library see of runs ---- */

const char *gs_run_gpu(const gs_run *run) {
    return run->gpu;
}

size_t gs_run_launches(const gs_run *run) {
    return run->launches.count;
}

const char *gs_run_kernel(const gs_run *run, size_t launch) {
    return run->launches.data[launch].kernel;
}

int64_t gs_run_blocks(const gs_run *run, size_t launch) {
    return run->launches.data[launch].blocks;
}

/* Blocks that started after the launch are in the latest observation; with times, all are in the launch. */
int gs_run_placed(const gs_run *run, size_t launch, int64_t block) {
    const gs_launch *found = &run->launches.data[launch];
    int sm = gs_seen_sm(&run->events.data[found->observed].seen, block);
    return sm != GS_WAIT ? sm : gs_seen_sm(&run->events.data[found->event].seen, block);
}
