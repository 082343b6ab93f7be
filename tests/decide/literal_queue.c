/*
 * literal_queue.c: the online scheduler, written out. See literal_queue.h.
 */
#include "literal_queue.h"

#include <math.h>

static double rate_beside(const literal_queue *queue, size_t launch, const bool *runs) {
    double rate = 1;
    size_t others = 0;
    for (size_t i = 0; i < queue->count; i++)
        if (i != launch && runs[i]) {
            rate *= gs_partner_of(queue->partners, queue->launches[launch].kind, queue->launches[i].kind)->rate;
            others++;
        }
    return others > 0 ? rate : queue->launches[launch].rate;
}

/* Plays the launches for which `runs` is true to their end. */
static double play_to_the_end(const literal_queue *original, const bool *given) {
    static literal_queue queue;
    bool runs[LITERAL_LAUNCHES];
    double total = 0;
    queue = *original;
    memcpy(runs, given, sizeof runs);
    for (;;) {
        double step = INFINITY;
        size_t first = SIZE_MAX;
        for (size_t i = 0; i < queue.count; i++)
            if (runs[i] && queue.launches[i].left_us / rate_beside(&queue, i, runs) < step) {
                step = queue.launches[i].left_us / rate_beside(&queue, i, runs);
                first = i;
            }
        if (first == SIZE_MAX)
            return total;
        double rates[LITERAL_LAUNCHES];
        for (size_t i = 0; i < queue.count; i++)
            rates[i] = runs[i] ? rate_beside(&queue, i, runs) : 0;
        runs[first] = false;
        for (size_t i = 0; i < queue.count; i++)
            if (runs[i]) {
                queue.launches[i].left_us = fmax(queue.launches[i].left_us - step * rates[i], 0);
                queue.launches[i].rate =
                    gs_partner_of(queue.partners, queue.launches[i].kind, queue.launches[first].kind)->rate_after;
            }
        total += step;
    }
}

void literal_add(literal_queue *queue, const literal_launch *launch) {
    queue->launches[queue->count] = *launch;
    queue->launches[queue->count].left_us = launch->alone_us;
    queue->launches[queue->count].rate = 1;
    queue->count++;
}

void literal_pass(literal_queue *queue, double now_us) {
    bool runs[LITERAL_LAUNCHES];
    double rates[LITERAL_LAUNCHES];
    for (size_t i = 0; i < queue->count; i++)
        runs[i] = queue->launches[i].is_running;
    for (size_t i = 0; i < queue->count; i++)
        rates[i] = runs[i] ? rate_beside(queue, i, runs) : 0;
    for (size_t i = 0; i < queue->count; i++)
        if (runs[i])
            queue->launches[i].left_us = fmax(queue->launches[i].left_us - (now_us - queue->now_us) * rates[i], 0);
    queue->now_us = now_us;
    for (size_t i = 0; i < queue->count; i++) {
        literal_launch *launch = &queue->launches[i];
        bool waits = false;
        for (size_t k = 0; k < launch->after_count; k++)
            waits |= !queue->launches[launch->after[k]].is_over;
        if (!waits && !launch->is_ready) {
            launch->is_ready = true;
            launch->ready_us = now_us;
            launch->due_us = now_us + queue->options->patience_us;
            for (size_t k = 0; k < queue->count; k++) /* running launches, then ready ones */
                if (k != i && queue->launches[k].is_ready && !queue->launches[k].is_over)
                    launch->due_us += queue->launches[k].left_us;
            launch->order = queue->next_order++;
        }
    }
}

static bool waits_to_start(const literal_launch *launch) {
    return launch->is_ready && !launch->is_running && !launch->is_over;
}

static size_t count_running(const literal_queue *queue) {
    size_t count = 0;
    for (size_t i = 0; i < queue->count; i++)
        count += queue->launches[i].is_running;
    return count;
}

static size_t literal_oldest(const literal_queue *queue) {
    size_t oldest = SIZE_MAX;
    for (size_t i = 0; i < queue->count; i++)
        if (waits_to_start(&queue->launches[i]) &&
            (oldest == SIZE_MAX || queue->launches[i].order < queue->launches[oldest].order))
            oldest = i;
    return oldest;
}

static bool is_late(const literal_queue *queue, size_t launch) {
    return queue->now_us > queue->launches[launch].due_us;
}

/* The time that is saved if these start now; -1: they may not, or the gain is too small. */
static double saved(const literal_queue *queue, const size_t *starts, size_t count) {
    bool runs[LITERAL_LAUNCHES] = {false};
    double alone = 0, shorter = INFINITY;
    int32_t kinds[GS_QUEUE_TOGETHER], workers[GS_QUEUE_TOGETHER], all = 0;
    for (size_t i = 0; i < queue->count; i++)
        runs[i] = queue->launches[i].is_running;
    alone += play_to_the_end(queue, runs);
    for (size_t i = 0; i < count; i++) {
        alone += queue->launches[starts[i]].alone_us;
        shorter = fmin(shorter, queue->launches[starts[i]].alone_us);
        runs[starts[i]] = true;
    }
    for (size_t a = 0; a < queue->count; a++)
        for (size_t b = 0; b < queue->count; b++) {
            if (a == b || !runs[a] || !runs[b])
                continue;
            const gs_partner *partner =
                gs_partner_of(queue->partners, queue->launches[a].kind, queue->launches[b].kind);
            if (partner->state != GS_PARTNER_MEASURED)
                return -1;
            if (queue->launches[a].is_running && partner->workers != queue->launches[a].workers)
                return -1;
            for (size_t c = 0; c < queue->count; c++)
                if (c != a && runs[c] &&
                    gs_partner_of(queue->partners, queue->launches[a].kind, queue->launches[c].kind)->workers !=
                        partner->workers)
                    return -1;
        }
    for (size_t pass = 0; pass < 2; pass++) /* those that run come first */
        for (size_t i = 0; i < queue->count; i++)
            if (runs[i] && queue->launches[i].is_running == (pass == 0)) {
                size_t other = 0;
                while (other == i || !runs[other])
                    other++;
                kinds[all] = queue->launches[i].kind;
                workers[all] = gs_partner_of(queue->partners, kinds[all], queue->launches[other].kind)->workers;
                all++;
            }
    if (all > 2 && !(queue->options->fits && queue->options->fits(queue->options->user, kinds, workers, (size_t)all)))
        return -1;
    double gain = alone - play_to_the_end(queue, runs);
    return gain > 0 && gain >= queue->options->least_gain * shorter ? gain : -1;
}

static bool are_of_two_queues(const literal_queue *queue, size_t a, size_t b) {
    int32_t x = queue->launches[a].kind, y = queue->launches[b].kind;
    return (queue->is_first[x] && queue->is_second[y]) || (queue->is_first[y] && queue->is_second[x]);
}

static size_t ready_of(const literal_queue *queue, bool first) {
    size_t count = 0;
    for (size_t i = 0; i < queue->count; i++)
        count += waits_to_start(&queue->launches[i]) && queue->is_first[queue->launches[i].kind] == first;
    return count;
}

/* Whether the end of `launch` alone makes a launch ready, of a class without ready ones. */
static bool literal_opens(const literal_queue *queue, size_t launch) {
    for (size_t i = 0; i < queue->count; i++) {
        size_t left = 0;
        bool waits_for_it = false;
        for (size_t k = 0; k < queue->launches[i].after_count; k++) {
            left += !queue->launches[queue->launches[i].after[k]].is_over;
            waits_for_it |= queue->launches[i].after[k] == launch;
        }
        if (waits_for_it && left == 1 && ready_of(queue, queue->is_first[queue->launches[i].kind]) == 0)
            return true;
    }
    return false;
}

static size_t literal_alone(const literal_queue *queue) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < queue->count && queue->options->most_together > 1; i++) {
        const literal_launch *launch = &queue->launches[i];
        if (waits_to_start(launch) && ready_of(queue, !queue->is_first[launch->kind]) == 0 && literal_opens(queue, i) &&
            (best == SIZE_MAX || launch->order < queue->launches[best].order))
            best = i;
    }
    return best != SIZE_MAX ? best : literal_oldest(queue);
}

/* The best start of one or two launches; `must` is one of them unless it is SIZE_MAX. */
static size_t best_start(const literal_queue *queue, size_t count, size_t must, size_t *starts) {
    double best = 0;
    for (size_t a = 0; a < queue->count; a++)
        for (size_t b = count == 2 ? a + 1 : a; b < (count == 2 ? queue->count : a + 1); b++) {
            size_t both[] = {a, b};
            if (!waits_to_start(&queue->launches[a]) || !waits_to_start(&queue->launches[b]) ||
                (must != SIZE_MAX && a != must && b != must) || (count == 2 && !are_of_two_queues(queue, a, b)))
                continue;
            double gain = saved(queue, both, count);
            if (gain <= best)
                continue;
            best = gain;
            memcpy(starts, both, sizeof both);
        }
    return best > 0 ? count : 0;
}

size_t literal_next(literal_queue *queue, size_t *starts) {
    size_t running = count_running(queue), oldest = literal_oldest(queue);
    if (oldest == SIZE_MAX || (int32_t)running >= queue->options->most_together)
        return 0;
    size_t must = is_late(queue, oldest) ? oldest : SIZE_MAX;
    size_t count = 0;
    if (queue->options->most_together > 1)
        count = best_start(queue, running > 0 ? 1 : 2, must, starts);
    if (count == 0 && running > 0)
        return 0;
    if (count == 0) {
        starts[0] = must != SIZE_MAX ? must : literal_alone(queue);
        count = 1;
    }
    for (size_t i = 0; i < count; i++) {
        literal_launch *launch = &queue->launches[starts[i]];
        size_t other = SIZE_MAX;
        for (size_t k = 0; k < queue->count; k++)
            if (queue->launches[k].is_running && k != starts[0] && k != starts[count - 1])
                other = k;
        if (count == 2)
            other = starts[1 - i];
        launch->workers =
            other == SIZE_MAX ? 0 : gs_partner_of(queue->partners, launch->kind, queue->launches[other].kind)->workers;
        launch->is_running = true;
    }
    return count;
}

void literal_end(literal_queue *queue, size_t ended) {
    queue->launches[ended].is_running = false;
    queue->launches[ended].is_over = true;
    for (size_t i = 0; i < queue->count; i++)
        if (queue->launches[i].is_running)
            queue->launches[i].rate =
                gs_partner_of(queue->partners, queue->launches[i].kind, queue->launches[ended].kind)->rate_after;
}
