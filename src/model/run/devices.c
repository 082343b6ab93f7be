/*
 * devices.c: a run of several GPUs becomes a run for each of them.
 *
 * A recorder writes the work of all GPUs of a program into one file, and each launch and copy has the number of its GPU
 * (`device`). The blocks of one GPU do not wait for SMs of another, so each GPU is a run of its own. A wait for work of
 * another GPU has no place in such a run: it is left out, and counted.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

static int64_t device_of(const gs_run *run, size_t operation) {
    const gs_launch_facts *facts = gs_run_issue(run, operation)->facts;
    return facts ? facts->device : GS_NOT_GIVEN;
}

static size_t count_operations(const gs_run *run) {
    return run->launches.count + run->copies.count;
}

int64_t gs_run_next_device(const gs_run *run, int64_t above) {
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < count_operations(run); i++) {
        int64_t device = device_of(run, i);
        next = device > above ? gs_min(device, next) : next;
    }
    return next == INT64_MAX ? GS_NOT_GIVEN : next;
}

gs_code gs_run_check_devices(const gs_run *run, gs_error *error) {
    enum { MOST_DEVICES = 64 };
    int count = 0;
    for (int64_t device = GS_NOT_GIVEN; (device = gs_run_next_device(run, device)) != GS_NOT_GIVEN;)
        if (++count > MOST_DEVICES)
            return gs_fail(error, GS_E_FORMAT, "a run has the work of more than %d GPUs (\"device\")", MOST_DEVICES);
    for (size_t i = 0; i < count_operations(run) && count > 1; i++) {
        if (device_of(run, i) != GS_NOT_GIVEN)
            continue;
        size_t launches = run->launches.count;
        uint32_t place =
            i < launches ? run->events.data[run->launches.data[i].event].place : run->copies.data[i - launches].place;
        return gs_run_fail_at(run, place, error, GS_E_FORMAT, "\"device\" is missing: the run has the work of %d GPUs",
                              count);
    }
    return GS_OK;
}

/* ---- the run of one GPU ---- */

struct part {
    const gs_run *whole;
    gs_run *run;
    int64_t device;
    /* How many launches, and how many copies, of this GPU come before each one: if it is of this GPU, its new number.
     */
    uint32_t *launches_before, *copies_before;
};

static bool is_part(const struct part *part, size_t operation) {
    return device_of(part->whole, operation) == part->device;
}

static void count_before(struct part *part) {
    const gs_run *whole = part->whole;
    for (size_t i = 0; i < whole->launches.count; i++)
        part->launches_before[i + 1] = part->launches_before[i] + is_part(part, i);
    for (size_t i = 0; i < whole->copies.count; i++)
        part->copies_before[i + 1] = part->copies_before[i] + is_part(part, whole->launches.count + i);
}

static gs_code add_events(struct part *part, gs_error *error) {
    const gs_run *whole = part->whole;
    gs_code code = GS_OK;
    for (size_t i = 0; i < whole->events.count && code == GS_OK; i++) {
        const gs_event *event = &whole->events.data[i];
        if (!is_part(part, event->launch))
            continue;
        code = gs_run_copy_event(part->run, whole, event, part->launches_before[event->launch], error);
        if (code == GS_OK)
            part->run->events.data[part->run->events.count - 1].place = event->place;
    }
    for (size_t i = 0; i < whole->copies.count && code == GS_OK; i++) {
        if (!is_part(part, whole->launches.count + i))
            continue;
        code = gs_run_add_copy(part->run, &whole->copies.data[i], error);
        if (code == GS_OK)
            part->run->copies.data[part->run->copies.count - 1].before =
                part->launches_before[whole->copies.data[i].before];
    }
    return code;
}

/* The issue of an operation of the whole run in the part, for writing. */
static gs_issue *issue_in(const struct part *part, size_t operation) {
    size_t launches = part->whole->launches.count;
    return operation < launches ? &part->run->launches.data[part->launches_before[operation]].issue
                                : &part->run->copies.data[part->copies_before[operation - launches]].issue;
}

static gs_code add_edges(struct part *part, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < count_operations(part->whole) && code == GS_OK; i++) {
        const gs_issue *issue = gs_run_issue(part->whole, i);
        for (uint32_t k = 0; k < issue->after_count && is_part(part, i) && code == GS_OK; k++) {
            gs_edge edge = part->whole->edges.data[issue->after + k];
            if (!is_part(part, gs_run_operation(part->whole, &edge))) {
                part->run->waits_left_out++;
                continue;
            }
            edge.number = (edge.is_copy ? part->copies_before : part->launches_before)[edge.number];
            code = gs_run_add_edge(part->run, issue_in(part, i), edge, error);
        }
    }
    return code;
}

/* Where errors are: the text of the run, or its file. */
static bool copy_source(gs_json *to, const gs_json *from) {
    *to = (gs_json){.size = from->size, .line = from->line, .column = from->column};
    to->file = from->file ? strdup(from->file) : NULL;
    to->text = from->text ? malloc(from->size + 1) : NULL;
    if (to->text)
        memcpy(to->text, from->text, from->size);
    return (to->file || !from->file) && (to->text || !from->text);
}

gs_run *gs_run_of_device(const gs_run *whole, int64_t device, gs_error *error) {
    struct part part = {.whole = whole,
                        .run = gs_run_new(error),
                        .device = device,
                        .launches_before = calloc(whole->launches.count + 1, sizeof *part.launches_before),
                        .copies_before = calloc(whole->copies.count + 1, sizeof *part.copies_before)};
    bool is_made = part.run && part.launches_before && part.copies_before;
    gs_code code = is_made && copy_source(&part.run->source, &whole->source) ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && whole->gpu && !(part.run->gpu = strdup(whole->gpu)))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_run_copy_about(part.run, whole, error);
    if (code == GS_OK) {
        part.run->is_followed = whole->is_followed;
        part.run->is_of_several = true;
        part.run->origin.device = device;
        count_before(&part);
        code = add_events(&part, error);
    }
    if (code == GS_OK)
        code = add_edges(&part, error);
    free(part.launches_before);
    free(part.copies_before);
    if (code == GS_OK)
        return part.run;
    gs_run_free(part.run);
    return NULL;
}
