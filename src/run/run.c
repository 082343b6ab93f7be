/*
 * run.c: making runs, taking them apart, and the small questions.
 */
#include "run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t started = 0;
    for (size_t i = 0; i < seen->placed.count; i++)
        started += seen->placed.data[i] != GS_WAIT;
    return started;
}

/* ---- the public questions ---- */

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

/* What started later than the launch is in the latest observation; with times, the launch has everything. */
int gs_run_placed(const gs_run *run, size_t launch, int64_t block) {
    const gs_launch *what = &run->launches.data[launch];
    int sm = gs_seen_sm(&run->events.data[what->observed].seen, block);
    return sm != GS_WAIT ? sm : gs_seen_sm(&run->events.data[what->event].seen, block);
}
