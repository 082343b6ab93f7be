/*
 * waits.c: what the launches and copies of a program waited for, one by one and summed by kernel.
 *
 * The time from when the host issues an operation to its start has parts, each with one reason: what is before it in
 * its stream, or what it depends on, whichever ends last; the gap after that; the queue; headroom on the SMs. If its
 * stream was idle before the host issued it, that time counts too: the host was late. A launch also waits if it has
 * started, but runs longer than alone, because other launches hold what its other blocks need.
 */
#include "timeline_parts.h"

#include <stdlib.h>
#include <string.h>

const char *gs_reason_name(gs_reason reason) {
    static const char *const names[] = {"host", "stream", "event", "overhead", "copy_engine", "queue", "room", "rest"};
    return names[reason];
}

const char *gs_operation_name(const gs_run *run, size_t operation) {
    if (operation < run->launches.count)
        return run->launches.data[operation].kernel;
    return run->copies.data[operation - run->launches.count].is_memset ? "memset" : "copy";
}

/* ---- one by one ---- */

struct adder {
    gs_wait *waits;
    size_t count;
};

static void add(struct adder *adder, gs_reason reason, gs_lack lack, size_t behind, int64_t ns) {
    if (ns > 0)
        adder->waits[adder->count++] = (gs_wait){reason, lack, behind, ns};
}

/* An operation that never started waits for ever; only what has an end is counted. */
size_t gs_timeline_waits(const gs_timeline *timeline, size_t operation, gs_wait *waits) {
    const gs_operation *span = &timeline->operations[operation];
    const gs_course *course = &span->course;
    struct adder adder = {.waits = waits};
    bool is_copy = !span->block_ns;
    if (course->start_ns == GS_NO_TIME)
        return 0;
    int64_t free_ns = course->arrived_ns;
    if (course->freed_ns != GS_NO_TIME) {
        gs_reason reason = course->is_freed_by_event ? GS_REASON_EVENT : GS_REASON_STREAM;
        add(&adder, GS_REASON_HOST, GS_LACK_NONE, SIZE_MAX, course->arrived_ns - course->freed_ns);
        add(&adder, reason, GS_LACK_NONE, course->freed_by, course->freed_ns - course->arrived_ns);
        free_ns = gs_max(free_ns, course->freed_ns);
    }
    add(&adder, GS_REASON_OVERHEAD, GS_LACK_NONE, SIZE_MAX, course->ready_ns - free_ns);
    add(&adder, is_copy ? GS_REASON_ENGINE : GS_REASON_QUEUE, GS_LACK_NONE, course->behind,
        course->served_ns - course->ready_ns);
    add(&adder, GS_REASON_HEADROOM, (gs_lack)span->lack, span->held_by, course->start_ns - course->served_ns);
    bool is_held = span->rest_held_by != SIZE_MAX || span->rest_lack != GS_LACK_NONE;
    if (!is_copy && is_held && course->end_ns != GS_NO_TIME)
        add(&adder, GS_REASON_REST, (gs_lack)span->rest_lack, span->rest_held_by,
            course->end_ns - course->start_ns - span->alone_ns);
    return adder.count;
}

/* ---- summed by kernel ---- */

/* Sums are found by what they are of. */
struct sums {
    gs_wait_sums *sums;
    size_t *slots; /* numbers of sums, from 1; 0: free */
    size_t slot_count;
};

static uint64_t hash_of(const gs_wait_sum *sum) {
    const uint64_t keys[] = {(uintptr_t)sum->kernel, (uintptr_t)sum->behind, (uint64_t)sum->reason,
                             (uint64_t)sum->lack};
    return gs_hash(0, keys, sizeof keys);
}

static bool is_of_same(const gs_wait_sum *a, const gs_wait_sum *b) {
    return a->kernel == b->kernel && a->behind == b->behind && a->reason == b->reason && a->lack == b->lack &&
           a->is_copy == b->is_copy;
}

static size_t *slot_of(const struct sums *sums, const gs_wait_sum *wanted) {
    size_t at = hash_of(wanted) & (sums->slot_count - 1);
    while (sums->slots[at] && !is_of_same(&sums->sums->data[sums->slots[at] - 1], wanted))
        at = (at + 1) & (sums->slot_count - 1);
    return &sums->slots[at];
}

static bool grow(struct sums *sums) {
    size_t count = sums->slot_count ? 2 * sums->slot_count : 1024;
    free(sums->slots);
    sums->slots = calloc(count, sizeof *sums->slots);
    sums->slot_count = count;
    for (size_t i = 0; sums->slots && i < sums->sums->count; i++)
        *slot_of(sums, &sums->sums->data[i]) = i + 1;
    return sums->slots;
}

/* Whether one launch of a graph waits for another: as in a stream, that is what nearly every one does. */
static bool is_within_graph(const gs_run *run, size_t operation, const gs_wait *wait) {
    return wait->reason == GS_REASON_EVENT &&
           gs_issue_is_beside(gs_run_issue(run, operation), gs_run_issue(run, wait->behind));
}

static bool sum_up(struct sums *sums, const gs_run *run, size_t operation, const gs_wait *wait) {
    gs_reason reason = is_within_graph(run, operation, wait) ? GS_REASON_STREAM : wait->reason;
    gs_wait_sum wanted = {.kernel = gs_operation_name(run, operation),
                          .behind = wait->behind == SIZE_MAX ? NULL : gs_operation_name(run, wait->behind),
                          .reason = reason,
                          .lack = wait->lack,
                          .is_copy = operation >= run->launches.count};
    if (2 * (sums->sums->count + 1) > sums->slot_count && !grow(sums))
        return false;
    size_t *slot = slot_of(sums, &wanted);
    if (!*slot) {
        if (!GS_PUSH(sums->sums, wanted))
            return false;
        *slot = sums->sums->count;
    }
    gs_wait_sum *sum = &sums->sums->data[*slot - 1];
    sum->ns += wait->ns;
    sum->launches++;
    sums->sums->ns[reason] += wait->ns;
    sums->sums->launches[reason]++;
    return true;
}

static int compare_sums(const void *first, const void *second) {
    const gs_wait_sum *a = first, *b = second;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    int order = strcmp(a->kernel, b->kernel);
    if (!order)
        order = strcmp(a->behind ? a->behind : "", b->behind ? b->behind : "");
    return order ? order : (int)a->reason - (int)b->reason;
}

gs_code gs_wait_sums_of(const gs_run *run, const gs_timeline *timeline, gs_wait_sums *result, gs_error *error) {
    struct sums sums = {.sums = result};
    bool done = true;
    *result = (gs_wait_sums){0};
    for (size_t i = 0; i < timeline->count && done; i++) {
        gs_wait waits[GS_MOST_WAITS];
        size_t count = gs_timeline_waits(timeline, i, waits);
        for (size_t j = 0; j < count && done; j++)
            done = sum_up(&sums, run, i, &waits[j]);
    }
    free(sums.slots);
    if (done && result->count)
        qsort(result->data, result->count, sizeof *result->data, compare_sums);
    if (!done)
        gs_wait_sums_clear(result);
    return done ? GS_OK : gs_fail_memory(error);
}

void gs_wait_sums_clear(gs_wait_sums *sums) {
    free(sums->data);
    *sums = (gs_wait_sums){0};
}
