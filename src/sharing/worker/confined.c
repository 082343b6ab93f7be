/*
 * confined.c: launches that are confined to some SMs.
 *
 * A confined launch starts when everything before it in its queue is done, and everything behind it waits until it has
 * ended. Meanwhile it has lanes of its own: one for its first blocks, and another each time that it grows, so that
 * nothing has to stop. When all its launches of the driver are done and blocks of the grid are left, it is launched
 * again.
 *
 * Blocks that arrive while another kernel still holds their SMs find no place there, and leave from wherever they land.
 * So more are sent a few times after each change of the mask, later each time. Where all SMs are full of blocks this
 * costs next to nothing. A launch that may have only some workers on each SM is sent no more: they would find room.
 *
 * Two such launches of a queue, both on all SMs, may be on the device one behind the other, as launches that are not
 * confined are: the second one, the follower, is given to the lane of the first. It starts there when the first one has
 * done all its blocks: on all SMs no block leaves before. With another mask it may. So the daemon stops the follower
 * before the first one gets another mask. Masks are copied to the device in order: if blocks of the first one leave
 * early, those of the follower find an empty mask, and leave too.
 */
#include "loop.h"

#include <stdlib.h>

enum {
    TOP_UPS = 6,       /* times that more blocks are sent after a change, */
    FIRST_TOP_UP = 50, /* first after this number of microseconds, */
    LATER_TOP_UP = 4,  /* then each time this many times later */
    LEAST_PAUSE = 20,  /* microseconds before blocks that found no SM are sent again, */
    MOST_PAUSE = 500   /* and at most */
};

static bool is_empty(const uint32_t *mask) {
    uint32_t any = 0;
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++)
        any |= mask[i];
    return !any;
}

/* SMs that do not exist are left out. Returns whether the new mask has SMs that the old one did not have. */
static bool set_mask(const gs_worker_loop *loop, uint32_t *mask, const uint32_t *wanted) {
    bool has_more = false;
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++) {
        int32_t left = loop->facts.sms - 32 * i;
        uint32_t existing = left >= 32 ? UINT32_MAX : left > 0 ? (1u << left) - 1 : 0;
        has_more = has_more || (wanted[i] & existing & ~mask[i]);
        mask[i] = wanted[i] & existing;
    }
    return has_more;
}

static void plan_top_ups(gs_worker_loop *loop, struct confined *confined) {
    confined->top_ups = confined->operation->launch->workers ? 0 : TOP_UPS;
    confined->pause_ns = FIRST_TOP_UP * 1000;
    confined->top_up_ns = loop->now_ns + confined->pause_ns;
}

static gs_code send_on(gs_worker_loop *loop, gs_lane *lane, struct confined *confined, gs_error *error) {
    gs_code code = gs_operation_launch(loop, lane, confined->operation, confined, error);
    if (code != GS_OK)
        return code;
    confined->flights[confined->flight_count++] = (struct flight){lane, lane->given};
    confined->wants_blocks = false;
    confined->launches++;
    return GS_OK;
}

static gs_code send_blocks(gs_worker_loop *loop, struct confined *confined, gs_error *error) {
    gs_lane *lane = gs_lane_take(loop);
    gs_code code = send_on(loop, lane, confined, error);
    if (code != GS_OK)
        gs_lane_give_back(loop, lane);
    return code;
}

/* Each block that was taken ran once, and no other did. */
static gs_code check_marks(gs_worker_loop *loop, const struct confined *confined, uint64_t done, gs_error *error) {
    uint64_t blocks = confined->blocks, first = confined->operation->launch->first_block, wrong = UINT64_MAX;
    uint32_t *counts = gs_loop_need(loop, malloc(blocks * sizeof *counts));
    gs_code code = loop->backend->read(loop->device, counts, confined->counts, blocks * sizeof *counts, error);
    for (uint64_t i = 0; i < blocks && code == GS_OK && wrong == UINT64_MAX; i++)
        if (counts[i] != (i >= first && i < done))
            wrong = i;
    if (wrong != UINT64_MAX)
        code = gs_fail(error, GS_E_KERNEL, "block %llu of %llu ran %u times", (unsigned long long)wrong,
                       (unsigned long long)blocks, counts[wrong]);
    free(counts);
    return code;
}

static void free_confined(gs_worker_loop *loop, struct confined *confined) {
    if (confined->counts)
        loop->backend->free(loop->device, confined->counts, confined->blocks * sizeof(uint32_t));
    loop->backend->control_free(loop->device, confined->control);
    free(confined);
}

/* The launch before it has ended. */
static void promote(gs_worker_loop *loop, struct queue *queue) {
    queue->confined = queue->follower;
    queue->follower = NULL;
    if (queue->confined)
        queue->confined->began_ns = loop->now_ns;
}

static void end_confined(gs_worker_loop *loop, struct queue *queue, uint64_t next, gs_code code, gs_error *error) {
    struct confined *confined = queue->confined;
    gs_worker_report report = {.code = code,
                               .blocks_done = gs_grid_taken(&confined->grid, next),
                               .began_ns = (uint64_t)confined->began_ns,
                               .ended_ns = (uint64_t)loop->now_ns,
                               .launches = confined->launches};
    if (code == GS_OK && confined->counts)
        report.code = check_marks(loop, confined, report.blocks_done, error);
    if (report.code != GS_OK)
        snprintf(report.message, sizeof report.message, "%.199s", error->message);
    struct operation *operation = confined->operation;
    queue->ended_ns = loop->now_ns;
    free_confined(loop, confined);
    gs_operation_end(loop, operation, &report);
    promote(loop, queue);
}

static gs_code prepare(gs_worker_loop *loop, struct confined *confined, gs_error *error) {
    const gs_worker_launch *launch = confined->operation->launch;
    gs_code code =
        loop->backend->control_begin(loop->device, confined->control, launch->first_block, confined->mask, error);
    if (code == GS_OK && loop->checks_counts)
        code = loop->backend->allocate(loop->device, confined->blocks * sizeof(uint32_t), &confined->counts, error);
    confined->grid = gs_operation_grid(launch, confined->control, confined->counts);
    return code;
}

static struct confined *make_confined(gs_worker_loop *loop, struct operation *operation) {
    struct confined *confined = gs_loop_need(loop, calloc(1, sizeof *confined));
    confined->operation = operation;
    confined->control = gs_loop_need(loop, loop->backend->control_new(loop->device));
    confined->blocks = gs_launch_blocks(operation->launch);
    confined->began_ns = loop->now_ns;
    confined->seen = UINT64_MAX;
    set_mask(loop, confined->mask, operation->launch->mask);
    return confined;
}

/* Everything before it in its queue is done. */
void gs_confined_begin(gs_worker_loop *loop, struct queue *queue, struct operation *operation) {
    gs_error error = {.code = GS_OK};
    struct confined *confined = queue->confined = make_confined(loop, operation);
    gs_code code = prepare(loop, confined, &error);
    if (code == GS_OK && !is_empty(confined->mask) && operation->launch->first_block < confined->blocks)
        code = send_blocks(loop, confined, &error);
    plan_top_ups(loop, confined);
    if (code != GS_OK) {
        queue->confined = NULL;
        free_confined(loop, confined);
        gs_operation_fail(loop, operation, &error);
    }
}

/* ---- followers ---- */

/* Whether no block of it leaves before all blocks of the grid are taken. */
static bool is_on_all(const gs_worker_loop *loop, const gs_worker_launch *launch, const uint32_t *mask) {
    uint32_t existing[GS_WORKER_MASK_WORDS] = {0};
    int32_t sms = 0;
    set_mask(loop, existing, mask);
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++)
        sms += __builtin_popcount(existing[i]);
    return launch->workers && sms == loop->facts.sms && launch->first_block < gs_launch_blocks(launch);
}

static bool may_be_followed(const gs_worker_loop *loop, const struct confined *confined) {
    return confined->flight_count == 1 && confined->launches == 1 && !confined->wants_blocks &&
           is_on_all(loop, confined->operation->launch, confined->mask);
}

bool gs_confined_follow(gs_worker_loop *loop, struct queue *queue, struct operation *operation) {
    gs_error error = {.code = GS_OK};
    const struct confined *before = queue->confined;
    const gs_worker_launch *launch = operation->launch;
    if (queue->follower || !launch || launch->form != GS_LAUNCH_CONFINED || !may_be_followed(loop, before) ||
        !is_on_all(loop, launch, launch->mask) || !gs_operation_is_ready(operation, &error) || error.code != GS_OK ||
        gs_operation_check_launch(operation, &error) != GS_OK)
        return false;
    struct confined *follower = make_confined(loop, operation);
    bool is_given =
        prepare(loop, follower, &error) == GS_OK && send_on(loop, before->flights[0].lane, follower, &error) == GS_OK;
    if (is_given)
        queue->follower = follower;
    else
        free_confined(loop, follower);
    return is_given;
}

/* ---- while it runs ---- */

/* The lane of a follower stays its own. */
static bool collect_flights(gs_worker_loop *loop, const struct queue *queue) {
    struct confined *confined = queue->confined;
    const gs_lane *kept = queue->follower ? queue->follower->flights[0].lane : NULL;
    bool any = false;
    for (int i = confined->flight_count; i-- > 0;) {
        struct flight *flight = &confined->flights[i];
        if (!gs_lane_is_done(flight->lane, flight->number))
            continue;
        if (flight->lane != kept)
            gs_lane_give_back(loop, flight->lane);
        *flight = confined->flights[--confined->flight_count];
        any = true;
    }
    return any;
}

/* Blocks that took nothing found no SM: they are sent again, but not at once. False: not yet. */
static bool may_send_again(const gs_worker_loop *loop, struct confined *confined, uint64_t next) {
    if (next != confined->seen) {
        confined->seen = next;
        confined->again_us = confined->again_ns = 0;
    } else if (!confined->again_ns) {
        confined->again_us = gs_max(LEAST_PAUSE, gs_min(confined->again_us * 2, MOST_PAUSE));
        confined->again_ns = loop->now_ns + confined->again_us * 1000;
    }
    return loop->now_ns >= confined->again_ns;
}

/* None of its blocks is left on the device: ends it, or launches it again. */
static bool land(gs_worker_loop *loop, struct queue *queue) {
    struct confined *confined = queue->confined;
    gs_error error = {.code = GS_OK}, reason;
    uint64_t next = loop->backend->control_next(loop->device, confined->control, true);
    if (gs_grid_is_finished(&confined->grid, next) || is_empty(confined->mask)) {
        end_confined(loop, queue, next, GS_OK, &error);
        return true;
    }
    if (!may_send_again(loop, confined, next))
        return false;
    confined->again_ns = 0;
    gs_code code = send_blocks(loop, confined, &error);
    if (code != GS_OK && loop->backend->check(loop->device, &reason) != GS_OK)
        gs_loop_fail(loop, &reason);
    if (code != GS_OK)
        end_confined(loop, queue, next, code, &error);
    return true;
}

/* Sends more blocks where the mask has grown, or where SMs may not be full. */
static bool top_up(gs_worker_loop *loop, struct queue *queue) {
    struct confined *confined = queue->confined;
    gs_error error = {.code = GS_OK};
    if (confined->top_ups && loop->now_ns >= confined->top_up_ns) {
        confined->top_ups--;
        confined->pause_ns *= LATER_TOP_UP;
        confined->top_up_ns = loop->now_ns + confined->pause_ns;
        confined->wants_blocks = confined->wants_blocks || !loop->backend->rings;
    }
    if (!confined->wants_blocks || confined->flight_count == GS_MOST_FLIGHTS || is_empty(confined->mask))
        return false;
    gs_code code = send_blocks(loop, confined, &error);
    if (code != GS_OK) /* the blocks that are there do the work */
        confined->wants_blocks = false;
    return code == GS_OK;
}

bool gs_confined_advance(gs_worker_loop *loop, struct queue *queue) {
    struct confined *confined = queue->confined;
    uint32_t slot = confined->operation->launch->slot;
    bool any = collect_flights(loop, queue);
    if (!confined->flight_count)
        return land(loop, queue) || any;
    any = top_up(loop, queue) || any;
    if (slot < GS_WORKER_CONFINED) {
        uint64_t next = loop->backend->control_next(loop->device, confined->control, false);
        atomic_store_explicit(&loop->shared->progress[slot], gs_grid_taken(&confined->grid, next),
                              memory_order_relaxed);
    }
    return any;
}

static void resize_running(gs_worker_loop *loop, struct confined *confined, const uint32_t *mask) {
    gs_error error;
    if (set_mask(loop, confined->mask, mask))
        confined->wants_blocks = true;
    if (loop->backend->control_confine(loop->device, confined->control, confined->mask, &error) != GS_OK)
        gs_loop_fail(loop, &error);
    plan_top_ups(loop, confined);
}

static bool has_tag(const struct confined *confined, uint64_t tag) {
    return confined && confined->operation->request->tag == tag;
}

void gs_confined_resize(gs_worker_loop *loop, uint64_t tag, const uint32_t *mask) {
    for (struct queue *queue = loop->queues; queue; queue = queue->next) {
        struct confined *confined = has_tag(queue->confined, tag) ? queue->confined : queue->follower;
        if (has_tag(confined, tag)) {
            resize_running(loop, confined, mask);
            return;
        }
        for (struct operation *operation = queue->waiting.first; operation; operation = operation->next) {
            gs_worker_launch *launch = operation->launch;
            if (launch && launch->form == GS_LAUNCH_CONFINED && launch->request.tag == tag) {
                memcpy(launch->mask, mask, sizeof launch->mask);
                return;
            }
        }
    }
}
