/*
 * waiting.c: which launches and copies of a scene wait, from when to when, and why.
 *
 * With times the waits are those of the timeline (src/model/timeline/waits.c), laid out one after the other. Without
 * times a launch waits from its column to the one in which its last block starts. The sentences of `predict --explain`
 * are attached where the run has them.
 */
#include "scene.h"

static gs_code add_wait(gs_scene *scene, const gs_scene_wait *wait, gs_error *error) {
    if (wait->to <= wait->from)
        return GS_OK;
    if (!GS_PUSH(&scene->waits, *wait))
        return gs_fail_memory(error);
    scene->from = gs_min(scene->from, wait->from);
    return GS_OK;
}

/* The number of the sentences of an event, or GS_NO_NUMBER. */
static uint32_t add_text(gs_scene *scene, size_t event) {
    const char *why = event == SIZE_MAX ? NULL : scene->run->events.data[event].why;
    if (!why || !GS_RESERVE(&scene->texts, 1))
        return GS_NO_NUMBER;
    scene->texts.data[scene->texts.count] = why;
    return (uint32_t)scene->texts.count++;
}

/* ---- with times ---- */

static gs_code add_timed(gs_scene *scene, size_t operation, gs_error *error) {
    gs_wait waits[GS_MOST_WAITS];
    size_t count = gs_timeline_waits(scene->timeline, operation, waits);
    bool is_launch = operation < scene->run->launches.count;
    uint32_t text = is_launch && count ? add_text(scene, scene->run->launches.data[operation].event) : GS_NO_NUMBER;
    const gs_course *course = &scene->timeline->operations[operation].course;
    int64_t at = course->arrived_ns;
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        if (waits[i].reason == GS_REASON_HOST)
            at -= waits[i].ns;
        if (waits[i].reason == GS_REASON_REST)
            at = course->start_ns;
        gs_scene_wait wait = {.operation = (uint32_t)operation,
                              .behind = waits[i].behind == SIZE_MAX ? GS_NO_NUMBER : (uint32_t)waits[i].behind,
                              .reason = (uint8_t)waits[i].reason,
                              .lack = (uint8_t)waits[i].lack,
                              .text = waits[i].reason == GS_REASON_HOST ? GS_NO_NUMBER : text,
                              .from = gs_scene_time(scene, at),
                              .to = gs_scene_time(scene, at + waits[i].ns)};
        at += waits[i].ns;
        code = add_wait(scene, &wait, error);
    }
    return code;
}

/* An operation that never started waits to the end. */
static gs_code add_endless(gs_scene *scene, size_t operation, gs_error *error) {
    const gs_scene_operation *times = &scene->operations.data[operation];
    bool is_launch = operation < scene->run->launches.count;
    if (times->start != GS_NO_TIME || times->arrived == GS_NO_TIME)
        return GS_OK;
    const gs_operation *span = &scene->timeline->operations[operation];
    gs_scene_wait wait = {.operation = (uint32_t)operation,
                          .behind = span->held_by == SIZE_MAX ? GS_NO_NUMBER : (uint32_t)span->held_by,
                          .reason = GS_REASON_HEADROOM,
                          .lack = span->lack,
                          .text =
                              is_launch ? add_text(scene, scene->run->launches.data[operation].event) : GS_NO_NUMBER,
                          .from = times->arrived,
                          .to = scene->to};
    return add_wait(scene, &wait, error);
}

/* ---- without times ---- */

static gs_code add_untimed(gs_scene *scene, size_t launch, gs_error *error) {
    const gs_launch *which = &scene->run->launches.data[launch];
    const gs_scene_operation *operation = &scene->operations.data[launch];
    bool is_complete = operation->started >= which->blocks;
    int64_t exit = operation->end == GS_NO_TIME ? scene->to : operation->end;
    gs_scene_wait wait = {.operation = (uint32_t)launch,
                          .behind = GS_NO_NUMBER,
                          .reason = operation->started ? GS_REASON_REST : GS_REASON_HEADROOM,
                          .text = GS_NO_NUMBER,
                          .from = operation->arrived,
                          .to = is_complete ? operation->all_started : exit};
    if (wait.to > wait.from)
        wait.text = add_text(scene, which->event);
    return add_wait(scene, &wait, error);
}

gs_code gs_scene_add_waits(gs_scene *scene, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < scene->operations.count && code == GS_OK; i++) {
        if (scene->timeline) {
            code = add_timed(scene, i, error);
            if (code == GS_OK)
                code = add_endless(scene, i, error);
        } else if (!scene->is_timed && i < scene->run->launches.count) {
            code = add_untimed(scene, i, error);
        }
    }
    return code;
}
