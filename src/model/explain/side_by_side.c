/*
 * side_by_side.c: how much time kernels save by running side by side, and how much of that is lost by measured pairs.
 *
 * Where exactly two kernels run, and they were measured as a pair, it is known how much of the time that they save is
 * lost because they slow each other down. Of more than two it is not.
 */
#include "change.h"

#include <fnmatch.h>
#include <stdlib.h>

enum { MOST_ACTIVE = 16, CACHED = 256 };

struct span {
    int64_t from_ns, to_ns;
    const char *kernel;
};

struct spans {
    struct span *data; /* by start */
    size_t count;
};

static int compare_spans(const void *first, const void *second) {
    return GS_COMPARE(((const struct span *)first)->from_ns, ((const struct span *)second)->from_ns);
}

/* ---- pairs ---- */

/* What is lost of two kernels, found before. */
struct cache {
    const gs_recorded_program *program;
    struct {
        const char *one, *other;
        double loss;
    } data[CACHED];
};

static bool is_called(const gs_recorded_program *program, const char *kernel, const char *pattern) {
    const char *brief = program->names ? gs_short_name(program->names, kernel) : kernel;
    return fnmatch(pattern, kernel, 0) == 0 || fnmatch(pattern, brief, 0) == 0;
}

static double search_loss(const gs_recorded_program *program, const char *one, const char *other) {
    for (size_t i = 0; i < program->pairs.count; i++) {
        const gs_measured_pair *pair = &program->pairs.data[i];
        if ((is_called(program, one, pair->first) && is_called(program, other, pair->second)) ||
            (is_called(program, one, pair->second) && is_called(program, other, pair->first)))
            return pair->loss;
    }
    return -1;
}

/* The part of the time saved that two kernels lose; -1: not known. */
static double find_loss(struct cache *cache, const char *one, const char *other) {
    const uintptr_t key[] = {(uintptr_t)one, (uintptr_t)other};
    size_t slot = gs_hash(0, key, sizeof key) % CACHED;
    if (cache->data[slot].one != one || cache->data[slot].other != other) {
        cache->data[slot].one = one;
        cache->data[slot].other = other;
        cache->data[slot].loss = search_loss(cache->program, one, other);
    }
    return cache->data[slot].loss;
}

/* ---- going through time ---- */

struct sweep {
    struct span active[MOST_ACTIVE];
    size_t count;
    bool is_crowded; /* more than MOST_ACTIVE run: until none does, nothing is known */
};

static void drop_ended(struct sweep *sweep, int64_t now_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->active[i].to_ns > now_ns)
            sweep->active[kept++] = sweep->active[i];
    sweep->count = kept;
    sweep->is_crowded = sweep->is_crowded && kept;
}

static int64_t next_end(const struct sweep *sweep) {
    int64_t ns = INT64_MAX;
    for (size_t i = 0; i < sweep->count; i++)
        ns = gs_min(ns, sweep->active[i].to_ns);
    return ns;
}

static void sum_pairs(struct cache *cache, const struct spans *spans, gs_side_by_side *beside) {
    struct sweep sweep = {.count = 0};
    size_t next = 0;
    while (next < spans->count || sweep.count) {
        int64_t now_ns = next < spans->count ? spans->data[next].from_ns : INT64_MAX;
        now_ns = sweep.count ? gs_min(now_ns, next_end(&sweep)) : now_ns;
        drop_ended(&sweep, now_ns);
        for (; next < spans->count && spans->data[next].from_ns <= now_ns; next++) {
            if (sweep.count < MOST_ACTIVE)
                sweep.active[sweep.count++] = spans->data[next];
            else
                sweep.is_crowded = true;
        }
        int64_t until_ns = gs_min(next_end(&sweep), next < spans->count ? spans->data[next].from_ns : INT64_MAX);
        if (sweep.count != 2 || sweep.is_crowded || until_ns <= now_ns)
            continue;
        double loss = find_loss(cache, sweep.active[0].kernel, sweep.active[1].kernel);
        beside->known_ns += loss >= 0 ? until_ns - now_ns : 0;
        beside->lost_ns += loss >= 0 ? (int64_t)(loss * (double)(until_ns - now_ns)) : 0;
    }
}

/* The time of all kernels, one after the other, less the time while any of them runs. */
gs_code gs_side_by_side_of(const gs_recorded_program *program, const gs_run *run, const gs_timeline *played,
                           const gs_timeline *timeline, gs_side_by_side *beside, gs_error *error) {
    struct spans spans = {.data = malloc((run->launches.count + 1) * sizeof *spans.data)};
    int64_t alone_ns = 0, busy_ns = 0, until_ns = INT64_MIN;
    struct cache cache = {.program = program};
    *beside = (gs_side_by_side){0};
    if (!spans.data)
        return gs_fail_memory(error);
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_course *course = &timeline->operations[i].course;
        if (course->start_ns == GS_NO_TIME || course->end_ns == GS_NO_TIME || course->end_ns <= course->start_ns)
            continue;
        alone_ns += played->operations[i].alone_ns;
        spans.data[spans.count++] = (struct span){course->start_ns, course->end_ns, run->launches.data[i].kernel};
    }
    qsort(spans.data, spans.count, sizeof *spans.data, compare_spans);
    for (size_t i = 0; i < spans.count; i++) {
        busy_ns += gs_max(0, spans.data[i].to_ns - gs_max(until_ns, spans.data[i].from_ns));
        until_ns = gs_max(until_ns, spans.data[i].to_ns);
    }
    beside->saved_ns = gs_max(0, alone_ns - busy_ns);
    if (program->pairs.count)
        sum_pairs(&cache, &spans, beside);
    free(spans.data);
    return GS_OK;
}
