/*
 * confined.c: runs that are confined to some SMs, for the device process.
 *
 * A confined run starts when all before it in its queue is done, all behind it waits until it has ended, and meanwhile
 * it has lanes of its own: one for its first workers, and another each time that it grows, so that nothing stops for
 * it. When all of its launches are done with blocks left, it is launched again.
 *
 * Workers that come while another kernel still holds their SMs find no place there, and leave from wherever they land.
 * So more are sent a few times after each change of a mask, ever later; where all SMs are full of workers this costs
 * next to nothing.
 */
#include "loop.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOP_UPS = 6,       /* times that more workers are sent after a change, */
    FIRST_TOP_UP = 50, /* from so many microseconds on, */
    LATER_TOP_UP = 4,  /* each time so much later */
    LEAST_PAUSE = 20,  /* microseconds before workers that found no place are sent again, */
    MOST_PAUSE = 500   /* and at most */
};

static bool is_empty(const uint32_t *mask) {
    return gs_count_sms(mask) == 0;
}

/* SMs that there are not are not allowed. Returns whether the new mask has SMs that the old one had not. */
static bool set_mask(const gs_worker_loop *loop, uint32_t *mask, const uint32_t *wanted) {
    bool has_more = false;
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++) {
        int32_t left = loop->facts.sms - 32 * i;
        uint32_t there = left >= 32 ? UINT32_MAX : left > 0 ? (1u << left) - 1 : 0;
        has_more = has_more || (wanted[i] & there & ~mask[i]);
        mask[i] = wanted[i] & there;
    }
    return has_more;
}

static void plan_top_ups(gs_worker_loop *loop, struct confined *confined) {
    confined->top_ups = TOP_UPS;
    confined->pause_ns = FIRST_TOP_UP * 1000;
    confined->top_up_ns = loop->now_ns + confined->pause_ns;
}

static gs_code send_workers(gs_worker_loop *loop, struct confined *confined, gs_error *error) {
    gs_lane *lane = gs_loop_take_lane(loop);
    gs_code code = gs_loop_launch(loop, lane, confined->work, confined, error);
    if (code != GS_OK) {
        gs_loop_give_lane_back(loop, lane);
        return code;
    }
    confined->flights[confined->flight_count++] = (struct flight){lane, lane->given};
    confined->wants_workers = false;
    confined->launches++;
    return GS_OK;
}

/* Each block that the run took has run once, and no other. */
static gs_code check_marks(gs_worker_loop *loop, const struct confined *confined, uint64_t done, gs_error *error) {
    uint64_t blocks = confined->blocks, wrong = UINT64_MAX;
    uint32_t *marks = gs_loop_need(loop, malloc(blocks * sizeof *marks));
    gs_code code = loop->kind->read(loop->device, marks, confined->marks, blocks * sizeof *marks, error);
    for (uint64_t i = 0; i < blocks && code == GS_OK && wrong == UINT64_MAX; i++)
        if (marks[i] != (i >= confined->work->run.first_block && i < done))
            wrong = i;
    if (wrong != UINT64_MAX)
        code = gs_fail(error, GS_E_KERNEL, "block %llu of %llu ran %u times", (unsigned long long)wrong,
                       (unsigned long long)blocks, marks[wrong]);
    free(marks);
    return code;
}

static void free_confined(gs_worker_loop *loop, struct confined *confined) {
    if (confined->marks)
        loop->kind->free(loop->device, confined->marks, confined->blocks * sizeof(uint32_t));
    loop->kind->control_free(loop->device, confined->control);
    free(confined);
}

static void end_confined(gs_worker_loop *loop, struct queue *queue, gs_code code, gs_error *error) {
    struct confined *confined = queue->confined;
    uint64_t next = loop->kind->control_next(loop->device, confined->control, true);
    gs_worker_report event = {.code = code,
                              .blocks_done = next < confined->blocks ? next : confined->blocks,
                              .began_ns = (uint64_t)confined->began_ns,
                              .ended_ns = (uint64_t)loop->now_ns,
                              .launches = confined->launches};
    if (code == GS_OK && confined->marks)
        event.code = check_marks(loop, confined, event.blocks_done, error);
    if (event.code != GS_OK)
        snprintf(event.message, sizeof event.message, "%.199s", error->message);
    struct work *work = confined->work;
    queue->confined = NULL;
    queue->ended_ns = loop->now_ns;
    free_confined(loop, confined);
    gs_loop_end_work(loop, work, &event);
}

static gs_code prepare(gs_worker_loop *loop, struct confined *confined, gs_error *error) {
    const gs_launch_request *run = &confined->work->run;
    gs_code code = loop->kind->control_begin(loop->device, confined->control, run->first_block, confined->mask, error);
    if (code == GS_OK && loop->checks_marks)
        code = loop->kind->allocate(loop->device, confined->blocks * sizeof(uint32_t), &confined->marks, error);
    confined->told = gs_told_of(run, confined->control->next);
    confined->told.marks = confined->marks;
    confined->told.sms = confined->control->mask;
    return code;
}

/* Everything before it in its queue is done. */
void gs_confined_begin(gs_worker_loop *loop, struct queue *queue, struct work *work) {
    gs_error error = {.code = GS_OK};
    const gs_launch_request *run = &work->run;
    struct confined *confined = gs_loop_need(loop, calloc(1, sizeof *confined));
    confined->work = work;
    confined->control = gs_loop_need(loop, loop->kind->control_new(loop->device));
    confined->blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2];
    confined->began_ns = loop->now_ns;
    confined->seen = UINT64_MAX;
    set_mask(loop, confined->mask, run->mask);
    queue->confined = confined;
    gs_code code = prepare(loop, confined, &error);
    if (code == GS_OK && !is_empty(confined->mask) && run->first_block < confined->blocks)
        code = send_workers(loop, confined, &error);
    plan_top_ups(loop, confined);
    if (code != GS_OK) {
        queue->confined = NULL;
        free_confined(loop, confined);
        gs_loop_fail_work(loop, work, &error);
    }
}

static bool collect_flights(gs_worker_loop *loop, struct confined *confined) {
    bool any = false;
    for (int i = confined->flight_count; i-- > 0;) {
        struct flight *flight = &confined->flights[i];
        if (!gs_lane_is_done(flight->lane, flight->number))
            continue;
        gs_loop_give_lane_back(loop, flight->lane);
        *flight = confined->flights[--confined->flight_count];
        any = true;
    }
    return any;
}

/* No worker is left. Workers that took nothing found no place: they come again, but not at once. */
static bool land(gs_worker_loop *loop, struct queue *queue) {
    struct confined *confined = queue->confined;
    gs_error error = {.code = GS_OK};
    uint64_t next = loop->kind->control_next(loop->device, confined->control, true);
    if (next >= confined->blocks || is_empty(confined->mask)) {
        end_confined(loop, queue, GS_OK, &error);
        return true;
    }
    if (next != confined->seen) {
        confined->seen = next;
        confined->again_us = confined->again_ns = 0;
    } else if (!confined->again_ns) {
        int64_t twice = confined->again_us * 2;
        confined->again_us = twice < LEAST_PAUSE ? LEAST_PAUSE : gs_min(twice, MOST_PAUSE);
        confined->again_ns = loop->now_ns + confined->again_us * 1000;
    }
    if (loop->now_ns < confined->again_ns)
        return false;
    confined->again_ns = 0;
    gs_code code = send_workers(loop, confined, &error);
    gs_error reason;
    if (code != GS_OK && loop->kind->check(loop->device, &reason) != GS_OK)
        gs_loop_fail(loop, &reason);
    if (code != GS_OK)
        end_confined(loop, queue, code, &error);
    return true;
}

/* Sends more workers where the mask has grown, or might not be full. */
static bool top_up(gs_worker_loop *loop, struct queue *queue) {
    struct confined *confined = queue->confined;
    gs_error error = {.code = GS_OK};
    bool is_time = confined->top_ups && loop->now_ns >= confined->top_up_ns;
    if (is_time) {
        confined->top_ups--;
        confined->pause_ns *= LATER_TOP_UP;
        confined->top_up_ns = loop->now_ns + confined->pause_ns;
        confined->wants_workers = confined->wants_workers || !loop->kind->rings;
    }
    if (!confined->wants_workers || confined->flight_count == GS_MOST_FLIGHTS || is_empty(confined->mask))
        return false;
    gs_code code = send_workers(loop, confined, &error);
    if (code != GS_OK) /* those that are there do the work */
        confined->wants_workers = false;
    return code == GS_OK;
}

bool gs_confined_advance(gs_worker_loop *loop, struct queue *queue) {
    struct confined *confined = queue->confined;
    bool any = collect_flights(loop, confined);
    if (!confined->flight_count)
        return land(loop, queue) || any;
    any = top_up(loop, queue) || any;
    if (confined->work->run.slot < GS_WORKER_RUNS) {
        uint64_t next = loop->kind->control_next(loop->device, confined->control, false);
        atomic_store_explicit(&loop->memory->progress[confined->work->run.slot],
                              next < confined->blocks ? next : confined->blocks, memory_order_relaxed);
    }
    return any;
}

void gs_loop_confine(gs_worker_loop *loop, uint64_t tag, const uint32_t *mask) {
    for (struct queue *queue = loop->queues; queue; queue = queue->next) {
        struct confined *confined = queue->confined;
        if (confined && confined->work->order.tag == tag) {
            gs_error error;
            if (set_mask(loop, confined->mask, mask))
                confined->wants_workers = true;
            if (loop->kind->control_confine(loop->device, confined->control, confined->mask, &error) != GS_OK)
                gs_loop_fail(loop, &error);
            plan_top_ups(loop, confined);
            return;
        }
        for (struct work *work = queue->waiting.first; work; work = work->next)
            if (work->order.kind == GS_REQUEST_RUN && work->run.is_confined && work->order.tag == tag) {
                memcpy(work->run.mask, mask, sizeof work->run.mask);
                return;
            }
    }
}
