/*
 * issued.c: launches and copies in the order in which the host issued them, and what they wait for.
 *
 * A recorder writes a launch when it is reported, often after its end, so the lines of a file can be in another order
 * than the launches of the program. Their times (at_us) put them in order. Launches of the same time, such as the nodes
 * of a graph, stay in the order of the file.
 */
#include "event_fields.h"

#include <stdlib.h>

/* A launch or a copy, and its place in the order of the file. */
struct issued {
    int64_t at_ns;
    uint32_t file_order, number;
    bool is_copy;
};

struct order {
    struct issued *data;
    size_t count;
    bool has_times, is_sorted;
};

static void append_issue(struct order *order, const gs_issue *issue, size_t number, bool is_copy) {
    order->has_times = order->has_times && issue->at_ns != GS_NO_TIME;
    order->is_sorted = order->is_sorted && (!order->count || order->data[order->count - 1].at_ns <= issue->at_ns);
    order->data[order->count] = (struct issued){issue->at_ns, (uint32_t)order->count, (uint32_t)number, is_copy};
    order->count++;
}

/* Lists launches and copies in the order of the file. False: out of memory. */
static bool list_issued(const gs_run *run, struct order *order) {
    size_t copies = 0;
    *order = (struct order){.has_times = true, .is_sorted = true};
    order->data = malloc((run->launches.count + run->copies.count + 1) * sizeof *order->data);
    if (!order->data)
        return false;
    for (size_t i = 0; i <= run->launches.count; i++) {
        for (; copies < run->copies.count && run->copies.data[copies].before <= i; copies++)
            append_issue(order, &run->copies.data[copies].issue, copies, true);
        if (i < run->launches.count)
            append_issue(order, &run->launches.data[i].issue, i, false);
    }
    return true;
}

GS_ORDER_THEN(compare_issued, struct issued, at_ns, file_order)

/* The arrays of a run in their new order, and the new number of each launch and copy. */
struct sorted {
    gs_launch *launches;
    gs_event *events;
    gs_copy *copies;
    uint32_t *launch_numbers, *copy_numbers;
};

static bool sorted_new(struct sorted *sorted, const gs_run *run) {
    size_t launches = run->launches.count + 1, copies = run->copies.count + 1;
    *sorted = (struct sorted){malloc(launches * sizeof *sorted->launches), malloc(launches * sizeof *sorted->events),
                              malloc(copies * sizeof *sorted->copies), calloc(launches, sizeof(uint32_t)),
                              calloc(copies, sizeof(uint32_t))};
    return sorted->launches && sorted->events && sorted->copies && sorted->launch_numbers && sorted->copy_numbers;
}

static void sorted_free(struct sorted *sorted) {
    free(sorted->launches);
    free(sorted->events);
    free(sorted->copies);
    free(sorted->launch_numbers);
    free(sorted->copy_numbers);
}

static void fill_sorted(struct sorted *sorted, const gs_run *run, const struct order *order) {
    uint32_t launches = 0, copies = 0;
    for (size_t i = 0; i < order->count; i++) {
        const struct issued *issued = &order->data[i];
        if (issued->is_copy) {
            sorted->copies[copies] = run->copies.data[issued->number];
            sorted->copies[copies].before = launches;
            sorted->copy_numbers[issued->number] = copies++;
            continue;
        }
        sorted->launches[launches] = run->launches.data[issued->number];
        sorted->events[launches] = run->events.data[run->launches.data[issued->number].event];
        sorted->launches[launches].event = sorted->launches[launches].observed = launches;
        sorted->events[launches].launch = launches;
        sorted->launch_numbers[issued->number] = launches++;
    }
}

/* All numbers of launches and copies change: those of edges and of ids too. */
static void renumber_operations(gs_run *run, const struct sorted *sorted) {
    for (size_t i = 0; i < run->edges.count; i++) {
        gs_edge *edge = &run->edges.data[i];
        edge->number = (edge->is_copy ? sorted->copy_numbers : sorted->launch_numbers)[edge->number];
    }
    for (size_t i = 0; i < run->ids.capacity; i++) {
        struct gs_name *slot = &run->ids.slots[i];
        if (slot->name)
            slot->number =
                (size_t)(slot->number % 2 ? sorted->copy_numbers : sorted->launch_numbers)[slot->number / 2] * 2 +
                slot->number % 2;
    }
}

static gs_code apply_order(gs_run *run, struct order *order, gs_error *error) {
    struct sorted sorted;
    if (!sorted_new(&sorted, run)) {
        sorted_free(&sorted);
        return gs_fail_memory(error);
    }
    qsort(order->data, order->count, sizeof *order->data, compare_issued);
    fill_sorted(&sorted, run, order);
    renumber_operations(run, &sorted);
    if (run->launches.count) {
        memcpy(run->launches.data, sorted.launches, run->launches.count * sizeof *sorted.launches);
        memcpy(run->events.data, sorted.events, run->launches.count * sizeof *sorted.events);
    }
    if (run->copies.count)
        memcpy(run->copies.data, sorted.copies, run->copies.count * sizeof *sorted.copies);
    sorted_free(&sorted);
    return GS_OK;
}

gs_code gs_run_sort(gs_run *run, gs_error *error) {
    struct order order;
    if (!list_issued(run, &order))
        return gs_fail_memory(error);
    gs_code code = GS_OK;
    bool is_needed = order.has_times && !order.is_sorted;
    if (is_needed && run->events.count > run->launches.count)
        code = gs_fail(error, GS_E_FORMAT,
                       "\"at_us\" must not decrease in a run with exits or observations, which have no time");
    else if (is_needed)
        code = apply_order(run, &order, error);
    free(order.data);
    return code;
}

/* ---- what launches wait for ---- */

/* Whether `found` was issued before a launch or copy: `launch` is its number, or the number of the launch after it. */
static bool is_earlier(const gs_run *run, gs_edge found, size_t number, bool is_copy) {
    if (found.is_copy == is_copy)
        return found.number < number;
    return is_copy ? found.number < run->copies.data[number].before : run->copies.data[found.number].before <= number;
}

struct owner {
    gs_issue *issue;
    size_t number;
    bool is_copy;
    uint32_t place;
};

/* Finds the launches and copies that a launch or copy waits for. In an incomplete recording some may be missing. */
static gs_code resolve_one(gs_run *run, const struct owner *owner, const gs_wanted *wanted, gs_error *error) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < owner->issue->after_count; i++) {
        size_t at = owner->issue->after + i;
        gs_edge found, *edge = &run->edges.data[at];
        if (!gs_run_find(run, wanted->data[at], &found)) {
            if (run->is_followed && (!run->has_ended || run->lost))
                continue;
            return gs_run_fail_at(run, owner->place, error, GS_E_FORMAT,
                                  "\"after\" names \"%.60s\", but no launch or copy has this id", wanted->data[at]);
        }
        if (!is_earlier(run, found, owner->number, owner->is_copy))
            return gs_run_fail_at(run, owner->place, error, GS_E_FORMAT,
                                  "\"after\" names \"%.60s\", which is not issued before this event", wanted->data[at]);
        found.when = edge->when;
        run->edges.data[owner->issue->after + kept++] = found;
    }
    owner->issue->after_count = kept;
    return GS_OK;
}

gs_code gs_run_resolve(gs_run *run, const gs_wanted *wanted, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        gs_launch *launch = &run->launches.data[i];
        const struct owner owner = {&launch->issue, i, false, run->events.data[launch->event].place};
        code = resolve_one(run, &owner, wanted, error);
    }
    for (size_t i = 0; i < run->copies.count && code == GS_OK; i++) {
        gs_copy *copy = &run->copies.data[i];
        const struct owner owner = {&copy->issue, i, true, copy->place};
        code = resolve_one(run, &owner, wanted, error);
    }
    return code;
}
