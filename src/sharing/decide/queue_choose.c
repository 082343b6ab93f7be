/*
 * queue_choose.c: which launches start now.
 *
 *   nothing runs     the two ready launches with the largest gain; otherwise two that fit together and were
 *                    never measured (a trial); otherwise one alone
 *   something runs   the launch with the largest gain beside it, if the gain is large enough
 *
 * The oldest launch goes first if it has waited longer, by `patience_us`, than it would have in order: nothing else
 * starts before it, so there is no starvation. The gain of two launches is the sum of their durations alone minus their
 * duration together (ISPA, Equation 8); the gain of a launch that joins others is computed in the same way, from their
 * remaining work. So each start shortens the predicted remaining time, and the total is at most that of all launches in
 * sequence.
 *
 * A launch that runs alone is the oldest one, unless another one would release launches that can be paired.
 */
#include "queue_state.h"

#include <math.h>

static gs_runner runner_of(const gs_queued *launch) {
    return (gs_runner){.kind = launch->kind, .left_us = launch->left_us, .rate = launch->rate};
}

static const gs_queued *launch_at(const gs_queue *queue, size_t launch) {
    return &queue->launches.data[launch];
}

/* ---- gains ---- */

static double gain_of_pair(const gs_queue *queue, const gs_queued *a, const gs_queued *b) {
    gs_runner both[] = {runner_of(a), runner_of(b)};
    return a->alone_us + b->alone_us - gs_partners_finish_us(&queue->partners, both, 2);
}

static double gain_of_joining(const gs_queue *queue, const gs_queued *launch) {
    gs_runner runners[GS_QUEUE_TOGETHER];
    size_t count = queue->running_count;
    for (size_t i = 0; i < count; i++)
        runners[i] = runner_of(launch_at(queue, queue->running[i]));
    double before = gs_partners_finish_us(&queue->partners, runners, count);
    runners[count] = runner_of(launch);
    return before + launch->alone_us - gs_partners_finish_us(&queue->partners, runners, count + 1);
}

static bool is_worth(const gs_queue *queue, double gain_us, double shorter_us) {
    return gain_us > 0 && gain_us >= queue->options.least_gain * shorter_us;
}

/* ---- which launches may run together ---- */

/* The workers that a launch has beside the others; false: the plan has another number for each of them. */
static bool workers_beside(const gs_queue *queue, int32_t kind, const int32_t *others, size_t count, int32_t *workers) {
    *workers = count > 0 ? gs_partner_of(&queue->partners, kind, others[0])->workers : 0;
    for (size_t i = 0; i < count; i++) {
        const gs_partner *partner = gs_partner_of(&queue->partners, kind, others[i]);
        if (partner->state != GS_PARTNER_MEASURED || partner->workers != *workers)
            return false;
    }
    return true;
}

/* Whether a launch can run beside the running ones, whose workers cannot change any more. */
static bool may_join(const gs_queue *queue, const gs_queued *launch) {
    int32_t kinds[GS_QUEUE_TOGETHER], workers[GS_QUEUE_TOGETHER];
    size_t count = queue->running_count;
    for (size_t i = 0; i < count; i++) {
        const gs_queued *other = launch_at(queue, queue->running[i]);
        const gs_partner *partner = gs_partner_of(&queue->partners, other->kind, launch->kind);
        if (partner->state != GS_PARTNER_MEASURED || partner->workers != other->workers)
            return false;
        kinds[i] = other->kind;
        workers[i] = other->workers;
    }
    if (!workers_beside(queue, launch->kind, kinds, count, &workers[count]))
        return false;
    kinds[count] = launch->kind;
    return count < 2 || (queue->options.fits && queue->options.fits(queue->options.user, kinds, workers, count + 1));
}

/* ---- choices ---- */

/* The launch that became ready first. */
static size_t oldest_launch(const gs_queue *queue) {
    size_t first = queue->head[GS_QUEUE_FIRST], second = queue->head[GS_QUEUE_SECOND];
    if (first == GS_NO_LAUNCH || second == GS_NO_LAUNCH)
        return first == GS_NO_LAUNCH ? second : first;
    return launch_at(queue, first)->order < launch_at(queue, second)->order ? first : second;
}

static bool is_overdue(const gs_queue *queue, size_t launch) {
    return launch != GS_NO_LAUNCH && queue->now_us > launch_at(queue, launch)->due_us;
}

/* The worst case of a trial: both kernels together progress half as fast as in sequence, and the rest of the longer one
   runs at two thirds of its speed. */
static double trial_cost_us(const gs_queued *a, const gs_queued *b) {
    double shorter = fmin(a->alone_us, b->alone_us), longer = fmax(a->alone_us, b->alone_us);
    return 2 * shorter + (longer - shorter) / 2;
}

static bool can_afford(const gs_queue *queue, double cost_us) {
    return cost_us <= queue->options.trial_part * queue->busy_us + queue->earned_us;
}

static void try_pair(const gs_queue *queue, size_t one, size_t other, gs_queue_choice *best) {
    const gs_queued *a = launch_at(queue, one), *b = launch_at(queue, other);
    gs_partner_state state = gs_partner_of(&queue->partners, a->kind, b->kind)->state;
    gs_queue_choice choice = {.launches = {one, other}, .count = 2};
    if (one == other || state == GS_PARTNER_NEVER)
        return;
    if (state == GS_PARTNER_FITS) {
        choice.is_trial = true;
        if (best->count == 0 && can_afford(queue, trial_cost_us(a, b)))
            *best = choice;
        return;
    }
    choice.gain_us = gain_of_pair(queue, a, b);
    bool is_better = best->count == 0 || best->is_trial || choice.gain_us > best->gain_us;
    if (is_better && is_worth(queue, choice.gain_us, fmin(a->alone_us, b->alone_us)))
        *best = choice;
}

/* The best partner of a launch in a queue. */
static void try_partners(const gs_queue *queue, size_t launch, int of, gs_queue_choice *best) {
    size_t other = queue->head[of];
    for (int i = 0; i < GS_QUEUE_WINDOW && other != GS_NO_LAUNCH; i++, other = launch_at(queue, other)->next)
        try_pair(queue, launch, other, best);
}

static gs_queue_choice best_pair(const gs_queue *queue) {
    gs_queue_choice best = {.count = 0};
    size_t launch = queue->head[GS_QUEUE_FIRST];
    for (int i = 0; i < GS_QUEUE_WINDOW && launch != GS_NO_LAUNCH; i++, launch = launch_at(queue, launch)->next) {
        try_partners(queue, launch, GS_QUEUE_SECOND, &best);
        if (queue->is_second[launch_at(queue, launch)->kind])
            try_partners(queue, launch, GS_QUEUE_FIRST, &best);
    }
    return best;
}

/* Whether some launch waits only for this one, and belongs to a queue that is empty now. */
static bool opens_other_queue(const gs_queue *queue, const gs_queued *launch) {
    for (size_t edge = launch->followers; edge != GS_NO_LAUNCH; edge = queue->edges.data[edge].next) {
        const gs_queued *follower = launch_at(queue, queue->edges.data[edge].launch);
        if (follower->waits_for == 1 && queue->ready[gs_queue_of_kind(queue, follower->kind)] == 0)
            return true;
    }
    return false;
}

static size_t best_alone(const gs_queue *queue) {
    for (int of = 0; of < GS_QUEUES && queue->options.most_together > 1; of++) {
        size_t launch = queue->head[of];
        if (queue->ready[1 - of] > 0)
            continue;
        for (int i = 0; i < GS_QUEUE_WINDOW && launch != GS_NO_LAUNCH; i++, launch = launch_at(queue, launch)->next)
            if (opens_other_queue(queue, launch_at(queue, launch)))
                return launch;
    }
    return oldest_launch(queue);
}

static gs_queue_choice choose_first(const gs_queue *queue) {
    gs_queue_choice best = {.count = 0};
    size_t first = oldest_launch(queue);
    if (first == GS_NO_LAUNCH)
        return best;
    bool is_late = is_overdue(queue, first);
    if (queue->options.most_together > 1 && !is_late)
        best = best_pair(queue);
    for (int of = 0; of < GS_QUEUES && queue->options.most_together > 1 && is_late; of++)
        try_partners(queue, first, of, &best);
    if (best.count == 0)
        best = (gs_queue_choice){.launches = {is_late ? first : best_alone(queue)}, .count = 1};
    return best;
}

static void try_joining(const gs_queue *queue, size_t launch, gs_queue_choice *best) {
    const gs_queued *candidate = launch_at(queue, launch);
    if (!may_join(queue, candidate))
        return;
    double gain = gain_of_joining(queue, candidate);
    if (is_worth(queue, gain, candidate->alone_us) && (best->count == 0 || gain > best->gain_us))
        *best = (gs_queue_choice){.launches = {launch}, .count = 1, .gain_us = gain};
}

static gs_queue_choice choose_more(const gs_queue *queue) {
    gs_queue_choice best = {.count = 0};
    size_t first = oldest_launch(queue);
    bool is_measured_trial = queue->pair.is_active && queue->pair.is_trial;
    if (first == GS_NO_LAUNCH || is_measured_trial || (int32_t)queue->running_count >= queue->options.most_together)
        return best;
    if (is_overdue(queue, first)) {
        try_joining(queue, first, &best);
        return best;
    }
    for (int of = 0; of < GS_QUEUES; of++) {
        size_t launch = queue->head[of];
        for (int i = 0; i < GS_QUEUE_WINDOW && launch != GS_NO_LAUNCH; i++, launch = launch_at(queue, launch)->next)
            try_joining(queue, launch, &best);
    }
    return best;
}

gs_queue_choice gs_queue_choose(const gs_queue *queue) {
    return queue->running_count == 0 ? choose_first(queue) : choose_more(queue);
}
