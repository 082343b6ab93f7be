/*
 * predict.c: plays a run and records what happens, as a run.
 *
 * Without durations a block starts at its launch or at some later exit, and the prediction has the form of a recording:
 * `placed` of a launch has the blocks that start at that point, and an `observe` after an exit shows those that started
 * because of it. With durations blocks start at any time. Then `placed` of a launch has every block that ever starts,
 * and `start_ns` and `end_ns` say when.
 *
 * A brief prediction has no lists: it counts blocks and keeps the first SMs. Then waves that repeat are not played.
 */
#include "timeline_parts.h"

#include <stdlib.h>
#include <string.h>

/* What has been seen of each launch so far, and what is being written. */
struct recorder {
    const gs_run *run;
    gs_engine *engine;
    gs_run *out;
    const gs_predict_options *options;
    const gs_unsaid *unsaid; /* NULL: launches come as they are listed */
    bool timed;
    size_t most_runs; /* how many runs of equal SMs of a launch a brief prediction keeps; 0: it is not brief */
    gs_seen *seen;    /* by launch */
    bool *is_gained;  /* by launch: blocks have started since the last event */
    size_t *gained;   /* the launches that are marked so */
    size_t gained_count;
    int64_t started, total; /* blocks, for progress */
    gs_timeline
        timeline;       /* what a recording says of durations and pace; without operations: nothing is taken from it */
    int64_t *durations; /* of a recorded program, by launch; NULL: the run has durations, or none */
    gs_played *played;  /* NULL: not wanted */
};

/* ---- callbacks of the engine ---- */

/* With durations nearly all blocks of a launch start, so all of its lists are reserved at once. */
static bool list_block(const struct recorder *recorder, size_t launch, int32_t sm, int64_t now_ns) {
    gs_seen *seen = &recorder->seen[launch];
    size_t more = recorder->timed ? (size_t)recorder->run->launches.data[launch].blocks - seen->placed.count : 1;
    size_t more_times = recorder->timed ? more : 0;
    if (!GS_RESERVE(&seen->placed, more) || !GS_RESERVE(&seen->start_ns, more_times) ||
        !GS_RESERVE(&seen->end_ns, more_times))
        return false;
    seen->placed.data[seen->placed.count++] = sm;
    if (recorder->timed) {
        seen->start_ns.data[seen->start_ns.count++] = now_ns;
        seen->end_ns.data[seen->end_ns.count++] = GS_NO_TIME;
    }
    return true;
}

static bool count_block(const struct recorder *recorder, size_t launch, int32_t sm, int64_t now_ns) {
    gs_brief *brief = &recorder->seen[launch].brief;
    gs_number_run *last = brief->placed.count ? &brief->placed.data[brief->placed.count - 1] : NULL;
    if (!brief->started++ && recorder->timed)
        brief->first_ns = now_ns;
    if (brief->placed.count > recorder->most_runs)
        return true;
    if (last && last->number == sm) {
        last->count++;
        return true;
    }
    return GS_PUSH(&brief->placed, (gs_number_run){sm, 1});
}

static bool keep_headroom(const struct recorder *recorder, size_t launch, int64_t block) {
    uint8_t **headroom = &recorder->played->headroom[launch];
    if (!*headroom)
        *headroom = calloc((size_t)recorder->run->launches.data[launch].blocks, sizeof **headroom);
    if (*headroom)
        (*headroom)[block] = (uint8_t)gs_min(gs_engine_headroom(recorder->engine), UINT8_MAX);
    return *headroom;
}

static bool on_started(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    struct recorder *recorder = user;
    if (recorder->played && !keep_headroom(recorder, launch, block))
        return false;
    /* Blocks of a kernel start in order, so it is the next entry. */
    if (!(recorder->most_runs ? count_block : list_block)(recorder, launch, sm, now_ns))
        return false;
    if (!recorder->is_gained[launch]) {
        recorder->is_gained[launch] = true;
        recorder->gained[recorder->gained_count++] = launch;
    }
    const gs_predict_options *options = recorder->options;
    if ((++recorder->started & 0xffff) == 0 && options && options->progress)
        options->progress(options->user, recorder->started, recorder->total);
    return true;
}

static bool on_ended(void *user, size_t launch, int64_t block, int64_t now_ns) {
    struct recorder *recorder = user;
    if (recorder->most_runs && recorder->timed)
        recorder->seen[launch].brief.last_ns = now_ns;
    else if (recorder->timed)
        recorder->seen[launch].end_ns.data[block] = now_ns;
    return true;
}

static void on_held(void *user, size_t launch) {
    struct recorder *recorder = user;
    gs_timeline_hold(&recorder->timeline, recorder->engine, launch);
}

/* The runs of a launch are not changed by a wave if no more of them are kept, or if the wave continues the last one. */
static bool may_skip(void *user, size_t launch, int64_t wave) {
    const struct recorder *recorder = user;
    const gs_brief *brief = &recorder->seen[launch].brief;
    return brief->placed.count > recorder->most_runs || brief->placed.data[brief->placed.count - 1].count >= wave;
}

static void on_skipped(void *user, size_t launch, int64_t blocks) {
    struct recorder *recorder = user;
    gs_brief *brief = &recorder->seen[launch].brief;
    if (brief->placed.count <= recorder->most_runs)
        brief->placed.data[brief->placed.count - 1].count += blocks;
    brief->started += blocks;
    recorder->started += blocks;
}

static void forget_gained(struct recorder *recorder) {
    for (size_t i = 0; i < recorder->gained_count; i++)
        recorder->is_gained[recorder->gained[i]] = false;
    recorder->gained_count = 0;
}

/* ---- writing events ---- */

/* Copies what is seen of a launch at this point into the event. */
static gs_code show_seen(const struct recorder *recorder, size_t launch, gs_event *event, gs_error *error) {
    gs_seen *seen = gs_event_see(event);
    if (!seen || !gs_seen_copy(seen, &recorder->seen[launch], recorder->run->launches.data[launch].blocks))
        return gs_fail_memory(error);
    seen->has_placed = true;
    seen->is_brief = recorder->most_runs > 0;
    seen->has_start = seen->has_end = recorder->timed;
    return GS_OK;
}

/* Adds why a launch waits to an event; `prefix` may be NULL. */
static gs_code explain_wait(struct recorder *recorder, gs_event *event, size_t launch, const char *prefix,
                            gs_error *error) {
    gs_text text = {0};
    if (event->why)
        gs_text_add(&text, "%s\n", event->why);
    if (prefix)
        gs_text_add(&text, "%s", prefix);
    gs_why_with_numbers(recorder->engine, recorder->run, launch, &text);
    free(event->why);
    event->why = text.data;
    return text.failed ? gs_fail_memory(error) : GS_OK;
}

static bool wants_why(const struct recorder *recorder) {
    return recorder->options && recorder->options->explain;
}

/* Shows earlier nodes of the graph of this launch of which blocks have started now at their own events: the host
   launches them at once. */
static gs_code show_nodes(struct recorder *recorder, size_t launch, gs_error *error) {
    gs_code code = GS_OK;
    const gs_run *run = recorder->out;
    for (size_t i = 0; i < recorder->gained_count && code == GS_OK; i++) {
        size_t node = recorder->gained[i];
        if (node >= run->launches.count)
            continue; /* it came before its turn, and is shown there */
        gs_event *out = &run->events.data[run->launches.data[node].event];
        bool is_node = node != launch && gs_issue_is_beside(gs_run_issue(run, node), gs_run_issue(run, launch));
        gs_seen *seen = is_node ? gs_event_see(out) : NULL;
        if (!seen)
            continue;
        gs_seen_clear(seen);
        *seen = (gs_seen){0};
        code = show_seen(recorder, node, out, error);
    }
    return code;
}

static gs_code play_launch(struct recorder *recorder, const gs_event *event, gs_error *error) {
    gs_event *out = &recorder->out->events.data[recorder->out->launches.data[event->launch].event];
    size_t came = recorder->unsaid ? recorder->unsaid->came[event->launch] : event->launch;
    gs_code code = gs_engine_launch(recorder->engine, came, error);
    if (code == GS_OK && !recorder->timed)
        code = show_nodes(recorder, event->launch, error);
    forget_gained(recorder);
    if (code == GS_OK && !recorder->timed)
        code = show_seen(recorder, event->launch, out, error);
    size_t other;
    out->lacks_headroom = gs_engine_lacks_headroom(recorder->engine);
    if (code == GS_OK && wants_why(recorder) && gs_engine_hold(recorder->engine, event->launch, &other))
        code = explain_wait(recorder, out, event->launch, recorder->timed ? "at its launch: " : NULL, error);
    return code;
}

/* After an exit: why each kernel that waits for headroom still does. */
static gs_code explain_rest(struct recorder *recorder, gs_event *out, size_t launches, gs_error *error) {
    gs_code code = GS_OK;
    size_t other;
    for (size_t i = 0; i < launches && code == GS_OK; i++)
        if (gs_engine_hold(recorder->engine, i, &other) == GS_HOLD_HEADROOM)
            code = explain_wait(recorder, out, i, NULL, error);
    return code;
}

/* Adds observations of the kernels of which blocks started at an exit, except those that the run itself observes next.
 */
static gs_code show_gained(struct recorder *recorder, size_t event, gs_error *error) {
    for (size_t i = event + 1; i < recorder->run->events.count; i++) {
        const gs_event *next = &recorder->run->events.data[i];
        if (next->op != GS_OBSERVE)
            break;
        recorder->is_gained[next->launch] = false;
    }
    qsort(recorder->gained, recorder->gained_count, sizeof *recorder->gained, gs_compare_int64);
    gs_code code = GS_OK;
    for (size_t i = 0; i < recorder->gained_count && code == GS_OK; i++) {
        size_t launch = recorder->gained[i];
        if (!recorder->is_gained[launch])
            continue;
        gs_event *out = gs_run_add_event(recorder->out, GS_OBSERVE, launch, error);
        code = out ? show_seen(recorder, launch, out, error) : GS_E_MEMORY;
    }
    return code;
}

static gs_code play_exit(struct recorder *recorder, size_t number, size_t launches, gs_error *error) {
    const gs_event *event = &recorder->run->events.data[number];
    gs_code code = gs_engine_exit(recorder->engine, event->launch, error);
    gs_event *out = code == GS_OK ? gs_run_add_event(recorder->out, GS_EXIT, event->launch, error) : NULL;
    if (!out)
        return code == GS_OK ? GS_E_MEMORY : code;
    out->lacks_headroom = gs_engine_lacks_headroom(recorder->engine);
    if (wants_why(recorder))
        code = explain_rest(recorder, out, launches, error);
    if (code == GS_OK && !recorder->timed)
        code = show_gained(recorder, number, error);
    forget_gained(recorder);
    return code;
}

static gs_code play_event(struct recorder *recorder, size_t number, size_t *launches, gs_error *error) {
    const gs_event *event = &recorder->run->events.data[number];
    gs_event *out;
    switch (event->op) {
    case GS_LAUNCH:
        ++*launches;
        if (gs_run_copy_launch(recorder->out, &recorder->run->launches.data[event->launch], error) != GS_OK)
            return GS_E_MEMORY;
        return play_launch(recorder, event, error);
    case GS_EXIT:
        return play_exit(recorder, number, *launches, error);
    case GS_OBSERVE:
        out = gs_run_add_event(recorder->out, GS_OBSERVE, event->launch, error);
        return out ? show_seen(recorder, event->launch, out, error) : GS_E_MEMORY;
    }
    return GS_OK;
}

/* Lets time pass until nothing more happens. Then the launches get all that was seen of them. */
static gs_code play_rest(struct recorder *recorder, gs_error *error) {
    gs_code code = gs_engine_finish(recorder->engine, error);
    gs_launches *launches = &recorder->out->launches;
    size_t other;
    for (size_t i = 0; i < launches->count && code == GS_OK; i++) {
        gs_event *out = &recorder->out->events.data[launches->data[i].event];
        gs_seen *seen = gs_event_see(out);
        if (!seen)
            return gs_fail_memory(error);
        *seen = recorder->seen[i];
        recorder->seen[i] = (gs_seen){0};
        seen->has_placed = seen->has_start = seen->has_end = true;
        seen->is_brief = recorder->most_runs > 0;
        if (wants_why(recorder) && gs_engine_hold(recorder->engine, i, &other))
            code = explain_wait(recorder, out, i, "at the end: ", error);
    }
    return code;
}

/* ---- a prediction ---- */

static gs_code play_run(struct recorder *recorder, gs_error *error) {
    gs_code code = GS_OK;
    size_t launches = 0;
    for (size_t i = 0; i < recorder->run->events.count && code == GS_OK; i++)
        code = play_event(recorder, i, &launches, error);
    if (code == GS_OK && recorder->timed)
        code = play_rest(recorder, error);
    return code;
}

/* Takes from the run, once, how long blocks run and how fast launches are handed on. A recorded program is played with
   that. What is known of a prediction besides has it too, for any run with times. */
static gs_code take_durations(struct recorder *recorder, const gs_gpu *recorded_on, gs_error *error) {
    const gs_run *run = recorder->run;
    bool is_followed = recorder->options && recorder->options->follow, is_program = gs_run_is_program(run);
    bool is_played_with = is_program && !is_followed;
    if (!is_played_with && !(recorder->played && (is_program || recorder->timed)))
        return GS_OK;
    gs_code code = gs_timeline_prepare(recorded_on, run, NULL, &recorder->timeline, error);
    if (code != GS_OK || !is_played_with)
        return code;
    recorder->timed = true;
    recorder->durations = gs_timeline_block_ns(&recorder->timeline, run->launches.count, error);
    return recorder->durations ? GS_OK : GS_E_MEMORY;
}

static gs_code recorder_init(struct recorder *recorder, const gs_gpu *gpu, const gs_gpu *recorded_on, gs_error *error) {
    const gs_run *run = recorder->run;
    size_t count = run->launches.count + 1;
    recorder->timed = gs_run_is_timed(run);
    recorder->seen = calloc(count, sizeof *recorder->seen);
    recorder->is_gained = calloc(count, sizeof *recorder->is_gained);
    recorder->gained = calloc(count, sizeof *recorder->gained);
    recorder->out = gs_run_new(error);
    if (!recorder->seen || !recorder->is_gained || !recorder->gained || !recorder->out)
        return gs_fail_memory(error);
    gs_code code = take_durations(recorder, recorded_on, error);
    if (code != GS_OK)
        return code;
    gs_pace pace = recorder->durations ? recorder->timeline.pace : (gs_pace){0};
    gs_engine_hooks hooks = {.user = recorder,
                             .started = on_started,
                             .ended = on_ended,
                             .durations_ns = recorder->durations,
                             .gaps = pace.gaps,
                             .latency_ns = pace.latency_ns};
    if (recorder->unsaid) {
        hooks.is_normal = recorder->unsaid->is_normal;
        hooks.ways = recorder->unsaid->ways;
        hooks.stays = recorder->unsaid->stays;
    }
    if (recorder->options) {
        hooks.follow = recorder->options->follow;
        hooks.turn = recorder->options->turn;
    }
    if (recorder->most_runs) {
        hooks.may_skip = may_skip;
        hooks.skipped = on_skipped;
    }
    if (recorder->played && recorder->timed)
        hooks.held = on_held;
    recorder->engine = gs_engine_new(gpu, run, &hooks, error);
    if (!recorder->engine)
        return GS_E_MEMORY;
    recorder->out->gpu = strdup(gpu->name);
    recorder->out->assumed = gpu->assumed ? strdup(gpu->assumed) : NULL;
    for (size_t i = 0; i < run->launches.count; i++)
        recorder->total += run->launches.data[i].blocks;
    for (size_t i = 0; i < run->launches.count; i++)
        recorder->seen[i].brief.first_ns = recorder->seen[i].brief.last_ns = GS_NO_TIME;
    if (!recorder->most_runs && recorder->total > GS_MOST_PREDICTED)
        return gs_fail(error, GS_E_USAGE,
                       "the run has %lld blocks, and the SM of each can be predicted for at most %d; the table of "
                       "gridsmith predict has no limit",
                       (long long)recorder->total, GS_MOST_PREDICTED);
    return recorder->out->gpu ? GS_OK : gs_fail_memory(error);
}

static void recorder_free(struct recorder *recorder) {
    for (size_t i = 0; recorder->seen && i < recorder->run->launches.count; i++)
        gs_seen_clear(&recorder->seen[i]);
    free(recorder->seen);
    free(recorder->is_gained);
    free(recorder->gained);
    free(recorder->durations);
    gs_timeline_clear(&recorder->timeline);
    gs_engine_free(recorder->engine);
}

static gs_code check_turn(const gs_gpu *gpu, const gs_predict_options *options, gs_error *error) {
    int turns = gs_gpu_turns(gpu);
    if (!options || (options->turn >= 0 && options->turn < turns))
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "the turn must be below %d on this GPU, not %d", turns, options->turn);
}

/* The timeline of a run that was played with times goes to the caller. */
static void give_timeline(struct recorder *recorder) {
    if (!recorder->timed)
        return;
    gs_timeline_keep(&recorder->timeline, recorder->engine);
    recorder->played->timeline = recorder->timeline;
    recorder->timeline = (gs_timeline){0};
}

static gs_run *predict_run(struct recorder *recorder, const gs_gpu *gpu, const gs_gpu *recorded_on, gs_error *error) {
    gs_code code = check_turn(gpu, recorder->options, error);
    if (code == GS_OK)
        code = recorder_init(recorder, gpu, recorded_on, error);
    if (code == GS_OK)
        code = play_run(recorder, error);
    if (code == GS_OK)
        code = gs_run_copy_rest(recorder->out, recorder->run, error);
    if (code == GS_OK && recorder->played)
        give_timeline(recorder);
    recorder_free(recorder);
    if (code == GS_OK)
        return recorder->out;
    gs_run_free(recorder->out);
    return NULL;
}

gs_run *gs_predict_on(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                      const gs_predict_options *options, gs_error *error) {
    return predict_run(&(struct recorder){.run = run, .options = options}, gpu, recorded_on, error);
}

gs_run *gs_predict_unsaid(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options,
                          const gs_unsaid *unsaid, gs_error *error) {
    return predict_run(&(struct recorder){.run = run, .options = options, .unsaid = unsaid}, gpu, gpu, error);
}

/* A part of a list has no more runs than the GPU has SMs. */
gs_run *gs_predict_brief(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                         const gs_predict_options *options, gs_error *error) {
    struct recorder recorder = {.run = run, .options = options, .most_runs = (size_t)gpu->sms * GS_BRIEF_PARTS};
    return predict_run(&recorder, gpu, recorded_on, error);
}

gs_run *gs_predict_played(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                          const gs_predict_options *options, gs_played *played, gs_error *error) {
    *played = (gs_played){.launches = run->launches.count};
    played->headroom = calloc(run->launches.count + 1, sizeof *played->headroom);
    if (!played->headroom) {
        gs_fail_memory(error);
        return NULL;
    }
    struct recorder recorder = {.run = run, .options = options, .played = played};
    gs_run *prediction = predict_run(&recorder, gpu, recorded_on, error);
    if (!prediction)
        gs_played_clear(played);
    return prediction;
}

void gs_played_clear(gs_played *played) {
    for (size_t i = 0; played->headroom && i < played->launches; i++)
        free(played->headroom[i]);
    free(played->headroom);
    gs_timeline_clear(&played->timeline);
    *played = (gs_played){0};
}
