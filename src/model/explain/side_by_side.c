/*
 * side_by_side.c: how much time kernels save by running side by side, how much of that is lost by measured pairs, and
 * how much may be lost by others.
 *
 * Where exactly two kernels run, and they were measured as a pair, it is known how much of the time that they save is
 * lost because they slow each other down. Of others it is known what they cannot lose:
 *
 *   - Kernels that have SMs of their own share only memory, and an SM asks for a part of what memory gives: on GPUs
 *     from Volta to Hopper, a tenth of the SMs and more are needed to use all of it (64 bytes per clock and SM).
 *   - Some time of a kernel passes before its first block begins and after its last one has ended, whatever runs beside
 *     it: as long as the shortest kernel takes, but at most 1 us, which is what kernels on an H200 take that do nearly
 *     nothing (0.6 to 1.4 us in the recordings of corpus/).
 *   - A kernel that has only some of its blocks on SMs, because others take the room, slows down as much less.
 */
#include "change.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_ACTIVE = 16, CACHED = 256, SMS_OVER_MEMORY = 10, EMPTY_NS = 1000 };

struct span {
    int64_t from_ns, to_ns;
    const char *kernel;
    double sms;     /* that it takes, of all */
    double working; /* the share of its time in which it can slow others down */
};

struct spans {
    struct span *data; /* by start */
    size_t count;
};

GS_ORDER(compare_spans, struct span, from_ns)

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

/* Of more than MOST_ACTIVE kernels: as much as the largest GPUs run at a time. */
static const double CROWDED_LOSS = 128;

/* How much is lost at most of a moment in which these run. All ask memory for so much that only the one that asks for
   most goes on; but together for no more than their SMs can. */
static double most_lost(const struct sweep *sweep) {
    double sms = 0, asked = 0, working = 0, most = 0;
    for (size_t i = 0; i < sweep->count; i++)
        sms += sweep->active[i].sms;
    for (size_t i = 0; i < sweep->count; i++) {
        double share = sms > 1 ? 1 : fmin(1, sweep->active[i].sms * SMS_OVER_MEMORY);
        asked += share;
        working += share * sweep->active[i].working;
        most = fmax(most, share * sweep->active[i].working);
    }
    return fmax(0, fmin(asked - 1, working - most));
}

static void sum_lost(struct cache *cache, const struct spans *spans, gs_side_by_side *beside) {
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
        if (sweep.count < 2 || until_ns <= now_ns)
            continue;
        bool is_pair = sweep.count == 2 && !sweep.is_crowded;
        double loss = is_pair ? find_loss(cache, sweep.active[0].kernel, sweep.active[1].kernel) : -1;
        beside->known_ns += loss >= 0 ? until_ns - now_ns : 0;
        beside->lost_ns += loss >= 0 ? (int64_t)(loss * (double)(until_ns - now_ns)) : 0;
        beside->risk_ns +=
            loss >= 0 ? 0
                      : (int64_t)((sweep.is_crowded ? CROWDED_LOSS : most_lost(&sweep)) * (double)(until_ns - now_ns));
    }
}

/* The kernels that ran; `*alone_ns`: how long all of them take alone. */
static void list_spans(const gs_run *run, const gs_timeline *played, const gs_timeline *timeline, int32_t sms,
                       struct spans *spans, int64_t *alone_ns) {
    int64_t empty_ns = EMPTY_NS;
    for (size_t i = 0; i < run->launches.count; i++)
        empty_ns = played->operations[i].alone_ns ? gs_min(empty_ns, played->operations[i].alone_ns) : empty_ns;
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_course *course = &timeline->operations[i].course;
        const gs_launch *launch = &run->launches.data[i];
        if (course->start_ns == GS_NO_TIME || course->end_ns == GS_NO_TIME || course->end_ns <= course->start_ns)
            continue;
        int64_t work_ns = gs_max(0, played->operations[i].alone_ns - empty_ns);
        spans->data[spans->count++] =
            (struct span){.from_ns = course->start_ns,
                          .to_ns = course->end_ns,
                          .kernel = launch->kernel,
                          .sms = fmin(1, (double)launch->blocks / (double)sms),
                          .working = fmin(1, (double)work_ns / (double)(course->end_ns - course->start_ns))};
        *alone_ns += played->operations[i].alone_ns;
    }
    qsort(spans->data, spans->count, sizeof *spans->data, compare_spans);
}

/* The time of all kernels, one after the other, less the time while any of them runs. */
gs_code gs_side_by_side_of(const gs_recorded_program *program, const gs_run *run, const gs_timeline *played,
                           const gs_timeline *timeline, int32_t sms, gs_side_by_side *beside, gs_error *error) {
    struct spans spans = {.data = malloc((run->launches.count + 1) * sizeof *spans.data)};
    int64_t alone_ns = 0, busy_ns = 0, until_ns = INT64_MIN;
    struct cache cache = {.program = program};
    *beside = (gs_side_by_side){0};
    if (!spans.data)
        return gs_fail_memory(error);
    list_spans(run, played, timeline, sms, &spans, &alone_ns);
    for (size_t i = 0; i < spans.count; i++) {
        busy_ns += gs_max(0, spans.data[i].to_ns - gs_max(until_ns, spans.data[i].from_ns));
        until_ns = gs_max(until_ns, spans.data[i].to_ns);
    }
    beside->saved_ns = gs_max(0, alone_ns - busy_ns);
    sum_lost(&cache, &spans, beside);
    free(spans.data);
    return GS_OK;
}
