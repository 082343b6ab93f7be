/*
 * queue.c: the state of the online scheduler: tasks, their launches, running launches, and corrections learned for
 * pairs.
 *
 * Launches live in reusable slots. A launch counts its unfinished predecessors, and each of them has a list of edges to
 * its successors. A launch without unfinished predecessors is ready and is in one of two queues, in the order of
 * becoming ready: that of the first class or that of the second (ISPA, section 6.5). queue_choose.c decides what
 * starts.
 *
 * Two launches that began together, and that no other joined, are measured: the mean of their duration divided by the
 * expected one corrects the rates of each pair of kinds. So a pair that does not gain as expected is given up.
 */
#include "queue_state.h"

#include <math.h>
#include <stdlib.h>

gs_queue_options gs_queue_defaults(void) {
    return (gs_queue_options){.most_together = 2, .least_gain = 0.03, .patience_us = 100000, .trial_part = 0.005};
}

gs_queue *gs_queue_new(const gs_queue_options *options, size_t kinds) {
    gs_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->options = *options;
    queue->options.most_together = (int32_t)gs_min(gs_max(options->most_together, 1), GS_QUEUE_TOGETHER);
    queue->learned = calloc(kinds * kinds + 1, sizeof *queue->learned);
    queue->is_first = calloc(kinds + 1, sizeof *queue->is_first);
    queue->is_second = calloc(kinds + 1, sizeof *queue->is_second);
    queue->free_launch = queue->free_edge = GS_NO_LAUNCH;
    for (int of = 0; of < GS_QUEUES; of++)
        queue->head[of] = queue->tail[of] = GS_NO_LAUNCH;
    if (gs_partners_init(&queue->partners, kinds) && queue->learned && queue->is_first && queue->is_second)
        return queue;
    gs_queue_free(queue);
    return NULL;
}

void gs_queue_free(gs_queue *queue) {
    if (!queue)
        return;
    gs_partners_free(&queue->partners);
    free(queue->learned);
    free(queue->is_first);
    free(queue->is_second);
    free(queue->launches.data);
    free(queue->edges.data);
    free(queue);
}

void gs_queue_pair(gs_queue *queue, int32_t first, int32_t second, const gs_pair_rates *rates, double residual,
                   int32_t first_workers, int32_t second_workers) {
    gs_partners_set(&queue->partners, first, second, rates, residual, first_workers, second_workers);
    queue->is_first[first] = queue->is_second[second] = true;
}

void gs_queue_pair_fits(gs_queue *queue, int32_t first, int32_t second, int32_t first_workers, int32_t second_workers) {
    gs_pair_rates serial = {0.5, 0.5, 1, 1};
    gs_queue_pair(queue, first, second, &serial, 0, first_workers, second_workers);
    gs_partner_of(&queue->partners, first, second)->state = GS_PARTNER_FITS;
    gs_partner_of(&queue->partners, second, first)->state = GS_PARTNER_FITS;
}

size_t gs_queue_count(const gs_queue *queue) {
    return queue->alive;
}

const gs_partners *gs_queue_partners(const gs_queue *queue) {
    return &queue->partners;
}

/* ---- slots and lists ---- */

/* Reserves memory for the launches and their edges. */
static bool reserve_launches(gs_queue *queue, const gs_queue_launch *launches, size_t count) {
    size_t edges = 0;
    for (size_t i = 0; i < count; i++)
        edges += launches[i].after_count;
    return GS_RESERVE(&queue->launches, count) && GS_RESERVE(&queue->edges, edges);
}

static size_t take_slot(gs_queue *queue) {
    size_t slot = queue->free_launch;
    if (slot == GS_NO_LAUNCH)
        return queue->launches.count++;
    queue->free_launch = queue->launches.data[slot].next;
    return slot;
}

static void add_edge(gs_queue *queue, size_t from, size_t to) {
    size_t edge = queue->free_edge;
    if (edge == GS_NO_LAUNCH)
        edge = queue->edges.count++;
    else
        queue->free_edge = queue->edges.data[edge].next;
    queue->edges.data[edge] = (gs_queue_edge){.launch = to, .next = queue->launches.data[from].followers};
    queue->launches.data[from].followers = edge;
}

/* The duration of all running and ready launches in sequence. */
static double backlog_us(const gs_queue *queue) {
    double sum = queue->ready_work_us;
    for (size_t i = 0; i < queue->running_count; i++)
        sum += queue->launches.data[queue->running[i]].left_us;
    return sum;
}

/* Appends a launch to its queue. */
static void become_ready(gs_queue *queue, size_t launch) {
    gs_queued *queued = &queue->launches.data[launch];
    int of = gs_queue_of_kind(queue, queued->kind);
    queued->ready_us = queue->now_us;
    queued->due_us = queue->now_us + backlog_us(queue) + queue->options.patience_us;
    queued->order = queue->next_order++;
    queued->next = GS_NO_LAUNCH;
    queued->previous = queue->tail[of];
    *(queue->tail[of] == GS_NO_LAUNCH ? &queue->head[of] : &queue->launches.data[queue->tail[of]].next) = launch;
    queue->tail[of] = launch;
    queue->ready[of]++;
    queue->ready_work_us += queued->alone_us;
}

static void leave_queue(gs_queue *queue, size_t launch) {
    gs_queued *queued = &queue->launches.data[launch], *all = queue->launches.data;
    int of = gs_queue_of_kind(queue, queued->kind);
    *(queued->previous == GS_NO_LAUNCH ? &queue->head[of] : &all[queued->previous].next) = queued->next;
    *(queued->next == GS_NO_LAUNCH ? &queue->tail[of] : &all[queued->next].previous) = queued->previous;
    queue->ready[of]--;
    queue->ready_work_us = fmax(queue->ready_work_us - queued->alone_us, 0);
}

/* ---- tasks ---- */

static bool is_valid(const gs_queue *queue, const gs_queue_launch *launches, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (launches[i].kind < 0 || (size_t)launches[i].kind >= queue->partners.kinds || !(launches[i].alone_us >= 0))
            return false;
        for (size_t k = 0; k < launches[i].after_count; k++)
            if (launches[i].after[k] >= i)
                return false;
    }
    return true;
}

/* Advances the time: running launches progress as predicted. */
static void pass_time(gs_queue *queue, double now_us) {
    gs_runner runners[GS_QUEUE_TOGETHER];
    double rates[GS_QUEUE_TOGETHER], passed = fmax(now_us - queue->now_us, 0);
    for (size_t i = 0; i < queue->running_count; i++) {
        const gs_queued *launch = &queue->launches.data[queue->running[i]];
        runners[i] = (gs_runner){.kind = launch->kind, .left_us = launch->left_us, .rate = launch->rate};
    }
    gs_partners_rates(&queue->partners, runners, queue->running_count, rates);
    for (size_t i = 0; i < queue->running_count; i++) {
        gs_queued *launch = &queue->launches.data[queue->running[i]];
        launch->left_us = fmax(launch->left_us - passed * rates[i], 0);
    }
    queue->busy_us += queue->running_count > 0 ? passed : 0;
    queue->now_us = fmax(now_us, queue->now_us);
}

bool gs_queue_add(gs_queue *queue, const gs_queue_launch *launches, size_t count, double now_us) {
    size_t *slots = malloc((count + 1) * sizeof *slots);
    if (!slots || !is_valid(queue, launches, count) || !reserve_launches(queue, launches, count)) {
        free(slots);
        return false;
    }
    pass_time(queue, now_us);
    for (size_t i = 0; i < count; i++) {
        slots[i] = take_slot(queue);
        queue->launches.data[slots[i]] = (gs_queued){.kind = launches[i].kind,
                                                     .alone_us = launches[i].alone_us,
                                                     .left_us = launches[i].alone_us,
                                                     .rate = 1,
                                                     .user = launches[i].user,
                                                     .waits_for = launches[i].after_count,
                                                     .followers = GS_NO_LAUNCH};
        for (size_t k = 0; k < launches[i].after_count; k++)
            add_edge(queue, slots[launches[i].after[k]], slots[i]);
        if (launches[i].after_count == 0)
            become_ready(queue, slots[i]);
    }
    queue->alive += count;
    free(slots);
    return true;
}

/* ---- learning ---- */

static double *learned_of(gs_queue *queue, const int32_t *kinds) {
    int64_t low = gs_min(kinds[0], kinds[1]), high = gs_max(kinds[0], kinds[1]);
    return &queue->learned[(size_t)low * queue->partners.kinds + (size_t)high];
}

static void set_rates(gs_queue *queue, const int32_t *kinds, double factor) {
    gs_partner_of(&queue->partners, kinds[0], kinds[1])->rate *= factor;
    if (kinds[0] != kinds[1])
        gs_partner_of(&queue->partners, kinds[1], kinds[0])->rate *= factor;
}

/* A trial gives the rates themselves. The rate of a kernel with these workers after the other has ended is not known:
   it is assumed to stay the same. */
static void learn_trial(gs_queue *queue, const gs_watched_pair *pair, double took_us) {
    gs_partner *one = gs_partner_of(&queue->partners, pair->kinds[0], pair->kinds[1]);
    gs_partner *other = gs_partner_of(&queue->partners, pair->kinds[1], pair->kinds[0]);
    gs_pair_rates rates = gs_pair_measured_rates(pair->alone_us[0], pair->alone_us[1], took_us);
    one->state = other->state = GS_PARTNER_MEASURED;
    one->rate = one->rate_after = rates.first;
    other->rate = other->rate_after = rates.second;
}

/* Corrects the expected rate of a pair. A new measurement has a weight of a quarter, or more at first. */
static void learn_from_pair(gs_queue *queue, double took_us) {
    const gs_watched_pair *pair = &queue->pair;
    queue->earned_us += pair->alone_us[0] + pair->alone_us[1] - took_us;
    if (pair->is_trial)
        learn_trial(queue, pair, took_us);
    else if (pair->expected_us > 0) {
        double *learned = learned_of(queue, pair->kinds);
        double before = 1 + *learned, off = took_us / pair->expected_us * before;
        double after = fmax(before + (off - before) / 4, 1);
        set_rates(queue, pair->kinds, before / after);
        *learned = after - 1;
    }
}

/* ---- starting and ending ---- */

static void start_launch(gs_queue *queue, size_t launch, gs_queue_start *into) {
    gs_queued *queued = &queue->launches.data[launch];
    leave_queue(queue, launch);
    queue->running[queue->running_count++] = launch;
    *into = (gs_queue_start){.launch = launch,
                             .kind = queued->kind,
                             .user = queued->user,
                             .workers = queued->workers,
                             .waited_us = queue->now_us - queued->ready_us};
}

/* The workers of launches that start together, or beside those that run. */
static void give_workers(gs_queue *queue, const gs_queue_choice *choice) {
    for (size_t i = 0; i < choice->count; i++) {
        gs_queued *queued = &queue->launches.data[choice->launches[i]];
        if (choice->count > 1)
            queued->workers =
                gs_partner_of(&queue->partners, queued->kind, queue->launches.data[choice->launches[1 - i]].kind)
                    ->workers;
        else if (queue->running_count > 0)
            queued->workers =
                gs_partner_of(&queue->partners, queued->kind, queue->launches.data[queue->running[0]].kind)->workers;
    }
}

static void watch_pair(gs_queue *queue, const gs_queue_choice *choice) {
    gs_runner runners[2];
    queue->pair = (gs_watched_pair){.is_active = choice->count == 2, .is_trial = choice->is_trial};
    for (size_t i = 0; i < choice->count && choice->count == 2; i++) {
        const gs_queued *queued = &queue->launches.data[choice->launches[i]];
        queue->pair.kinds[i] = queued->kind;
        queue->pair.alone_us[i] = queued->alone_us;
        runners[i] = (gs_runner){.kind = queued->kind, .left_us = queued->alone_us, .rate = 1};
    }
    queue->pair.began_us = queue->now_us;
    if (choice->count == 2)
        queue->pair.expected_us = gs_partners_finish_us(&queue->partners, runners, 2);
}

size_t gs_queue_next(gs_queue *queue, double now_us, gs_queue_start *starts) {
    size_t count = 0;
    pass_time(queue, now_us);
    for (gs_queue_choice choice = gs_queue_choose(queue); choice.count > 0; choice = gs_queue_choose(queue)) {
        give_workers(queue, &choice);
        watch_pair(queue, &choice); /* a launch that joins ends the measurement */
        for (size_t i = 0; i < choice.count; i++)
            start_launch(queue, choice.launches[i], &starts[count++]);
    }
    return count;
}

/* Edges are added at the front; reversing them makes successors ready in the order in which they were added. */
static void reverse_followers(gs_queue *queue, gs_queued *launch) {
    size_t reversed = GS_NO_LAUNCH;
    while (launch->followers != GS_NO_LAUNCH) {
        size_t edge = launch->followers;
        launch->followers = queue->edges.data[edge].next;
        queue->edges.data[edge].next = reversed;
        reversed = edge;
    }
    launch->followers = reversed;
}

/* Launches that waited only for this one become ready. */
static void release_followers(gs_queue *queue, gs_queued *launch) {
    reverse_followers(queue, launch);
    while (launch->followers != GS_NO_LAUNCH) {
        size_t edge = launch->followers, follower = queue->edges.data[edge].launch;
        launch->followers = queue->edges.data[edge].next;
        queue->edges.data[edge].next = queue->free_edge;
        queue->free_edge = edge;
        if (--queue->launches.data[follower].waits_for == 0)
            become_ready(queue, follower);
    }
}

/* The remaining launches have fewer neighbors. */
static void set_rates_after(gs_queue *queue, int32_t ended_kind) {
    for (size_t i = 0; i < queue->running_count; i++) {
        gs_queued *other = &queue->launches.data[queue->running[i]];
        other->rate = gs_partner_of(&queue->partners, other->kind, ended_kind)->rate_after;
    }
}

void gs_queue_end(gs_queue *queue, size_t launch, double now_us) {
    pass_time(queue, now_us);
    gs_queued *queued = &queue->launches.data[launch];
    for (size_t i = 0; i < queue->running_count; i++)
        if (queue->running[i] == launch)
            queue->running[i] = queue->running[--queue->running_count];
    set_rates_after(queue, queued->kind);
    if (queue->pair.is_active && queue->running_count == 0)
        learn_from_pair(queue, now_us - queue->pair.began_us);
    release_followers(queue, queued);
    queued->next = queue->free_launch;
    queue->free_launch = launch;
    queue->alive--;
}
