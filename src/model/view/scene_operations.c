/*
 * scene_operations.c: the launches and copies of a scene: when they ran, and the row of the stream or graph that they
 * are in.
 *
 * Launches without a stream have one of their own. Rows would be wasted on these, so they share rows: each goes to the
 * first row that is free when it arrives.
 */
#include "scene.h"

#include <stdlib.h>

enum { MOST_ROWS = 64 }; /* of launches without a stream; then they overlap in the last one */

/* ---- times ---- */

/* The clock of a recording begins at any time, but the host may count from 0. */
int64_t gs_scene_time(const gs_scene *scene, int64_t time_ns) {
    if (time_ns == GS_NO_TIME)
        return GS_NO_TIME;
    return scene->keeps_clock ? time_ns : gs_max(time_ns, scene->origin_ns) - scene->origin_ns;
}

static void take_courses(gs_scene *scene) {
    for (size_t i = 0; i < scene->operations.count; i++) {
        const gs_course *course = &scene->timeline->operations[i].course;
        const gs_issue *issue = gs_run_issue(scene->run, i);
        gs_scene_operation *operation = &scene->operations.data[i];
        operation->arrived = gs_scene_time(scene, issue->at_ns == GS_NO_TIME ? course->arrived_ns : issue->at_ns);
        operation->start = gs_scene_time(scene, course->start_ns);
        operation->end = gs_scene_time(scene, course->end_ns);
        operation->measured_start = gs_scene_time(scene, issue->start_ns);
        operation->measured_end = gs_scene_time(scene, issue->end_ns);
    }
}

/* The column of each launch; and of its exit, if it has one. */
static void take_columns(gs_scene *scene) {
    int64_t column = -1;
    for (size_t i = 0; i < scene->run->events.count; i++) {
        const gs_event *event = &scene->run->events.data[i];
        column += event->op != GS_OBSERVE;
        if (event->op == GS_LAUNCH)
            scene->operations.data[event->launch].arrived = column;
        else if (event->op == GS_EXIT)
            scene->operations.data[event->launch].end = column;
    }
}

/* The times of an operation from its blocks: the first and the last start, and the last end. */
static void take_blocks(gs_scene *scene) {
    const gs_stays *stays = &scene->layers[0].stays;
    bool has_ends = scene->timeline || !scene->is_timed;
    for (size_t i = 0; i < stays->count; i++) {
        const gs_stay *stay = &stays->data[i];
        gs_scene_operation *operation = &scene->operations.data[stay->launch];
        operation->started += stay->count;
        operation->all_started = gs_max(operation->all_started, stay->from);
        if (!scene->timeline)
            operation->start = operation->start == GS_NO_TIME ? stay->from : gs_min(operation->start, stay->from);
        if (!has_ends)
            operation->end = gs_max(operation->end, stay->to);
    }
}

static int64_t first_of(int64_t from, int64_t time) {
    return time == GS_NO_TIME ? from : gs_min(from, time);
}

static void set_limits(gs_scene *scene) {
    for (size_t i = 0; i < scene->operations.count; i++) {
        const gs_scene_operation *operation = &scene->operations.data[i];
        scene->from =
            first_of(first_of(first_of(scene->from, operation->arrived), operation->start), operation->measured_start);
        scene->to = gs_max(gs_max(scene->to, operation->end), operation->measured_end);
    }
}

/* ---- streams ---- */

static gs_text *add_stream(gs_scene *scene) {
    if (!GS_RESERVE(&scene->streams, 1))
        return NULL;
    scene->streams.data[scene->streams.count] = (gs_text){0};
    return &scene->streams.data[scene->streams.count++];
}

/* The name of the row of an operation, or an empty text if it has a stream of its own. */
static void put_stream(gs_text *text, const gs_run *run, size_t operation) {
    bool is_launch = operation < run->launches.count;
    const gs_launch_facts *facts = gs_run_issue(run, operation)->facts;
    const char *stream =
        is_launch ? run->launches.data[operation].stream : run->copies.data[operation - run->launches.count].stream;
    gs_text_clear(text);
    if (facts && facts->graph != GS_NOT_GIVEN)
        gs_text_add(text, "graph %lld", (long long)facts->graph);
    else if (stream)
        gs_text_add(text, "stream %.60s", stream);
    if (text->count && facts && facts->process != GS_NOT_GIVEN && run->origin.process == GS_NOT_GIVEN)
        gs_text_add(text, " of process %lld", (long long)facts->process);
}

struct rows {
    gs_names names;
    gs_strings strings;
    struct {
        int64_t *data; /* when each row of launches without a stream is free */
        size_t count, capacity;
    } ends;
    uint32_t first; /* the first of those rows */
};

static gs_code place_named(gs_scene *scene, struct rows *rows, size_t operation, const gs_text *name, gs_error *error) {
    char *kept = gs_strings_add(&rows->strings, name->data, name->count);
    size_t number = kept ? gs_names_add(&rows->names, kept, scene->streams.count) : SIZE_MAX;
    if (number == SIZE_MAX)
        return gs_fail_memory(error);
    if (number == scene->streams.count) {
        gs_text *text = add_stream(scene);
        if (!text)
            return gs_fail_memory(error);
        gs_text_add(text, "%s", kept);
    }
    scene->operations.data[operation].stream = (uint32_t)number;
    return GS_OK;
}

/* A row in which nothing is drawn when the launch arrives. */
static gs_code place_unnamed(gs_scene *scene, struct rows *rows, size_t launch, gs_error *error) {
    gs_scene_operation *operation = &scene->operations.data[launch];
    int64_t from = operation->arrived == GS_NO_TIME ? operation->start : operation->arrived;
    int64_t to = operation->end == GS_NO_TIME ? scene->to : operation->end;
    size_t row = 0;
    while (row < rows->ends.count && row < MOST_ROWS - 1 && rows->ends.data[row] > from)
        row++;
    if (row == rows->ends.count) {
        gs_text *text = GS_RESERVE(&rows->ends, 1) ? add_stream(scene) : NULL;
        if (!text)
            return gs_fail_memory(error);
        if (!row)
            gs_text_add(text, "no stream");
        rows->ends.count++;
    }
    rows->ends.data[row] = to;
    operation->stream = rows->first + (uint32_t)row;
    return GS_OK;
}

static gs_code place_all(gs_scene *scene, struct rows *rows, bool named, gs_error *error) {
    gs_text name = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < scene->operations.count && code == GS_OK; i++) {
        put_stream(&name, scene->run, i);
        if (name.count && named)
            code = place_named(scene, rows, i, &name, error);
        else if (!name.count && !named)
            code = place_unnamed(scene, rows, i, error);
    }
    if (name.failed)
        code = gs_fail_memory(error);
    gs_text_free(&name);
    return code;
}

static gs_code add_streams(gs_scene *scene, gs_error *error) {
    struct rows rows = {0};
    gs_code code = place_all(scene, &rows, true, error);
    rows.first = (uint32_t)scene->streams.count;
    if (code == GS_OK)
        code = place_all(scene, &rows, false, error);
    gs_names_free(&rows.names);
    gs_strings_free(&rows.strings);
    free(rows.ends.data);
    return code;
}

gs_code gs_scene_add_operations(gs_scene *scene, gs_error *error) {
    if (scene->timeline)
        take_courses(scene);
    else if (!scene->is_timed)
        take_columns(scene);
    take_blocks(scene);
    set_limits(scene);
    return add_streams(scene, error);
}
