/*
 * bulk.c: plays many blocks in one step, where only times are asked.
 *
 * Blocks of a launch that start at the same time also end at the same time, if they run equally long. They are a
 * cohort. Of a block in it only its SM is kept: its number follows from its place, because the blocks of a launch end
 * in the order in which they started. When a cohort ends and the first launch of the queue waits, new blocks take the
 * place of each block that ends, on its SM alone, as in replace.c; together they are a cohort of that launch. What
 * happens on an SM is not computed, but looked up (patterns.c).
 *
 * This form of the state is used while blocks are on the GPU. When the GPU is idle, the dispatcher has the state, so
 * that launches that have the scheduler to themselves can be memoized (solo.c). Whether a run is played in bulk is
 * decided at its beginning: not if a hook asks for blocks, and not with mechanisms or launches that need more than a
 * pattern has: clusters, cooperative launches, green contexts, graphs in a run without times, blocks that do not run
 * equally long or that run until their exit, SMs that share a configuration.
 */
#include "bulk.h"

#include <stdlib.h>
#include <string.h>

/* ---- whether a run is played in bulk ---- */

/* Whether no time can become too large. */
static bool has_small_times(const gs_engine *engine) {
    const gs_launches *launches = &engine->run->launches;
    int64_t sum = 0, all;
    for (size_t i = 0; i < launches->count; i++)
        if (__builtin_mul_overflow(launches->data[i].blocks, gs_engine_duration(engine, i), &all) ||
            __builtin_add_overflow(sum, all, &sum))
            return false;
    return sum < INT64_MAX / 4;
}

/* Whether all is issued at a time that is known: then no kernels of the driver are beside the nodes of graphs
   (hidden.c). */
static bool has_times(const gs_engine *engine) {
    for (size_t i = 0; i < engine->run->launches.count + engine->run->copies.count; i++)
        if (gs_run_issue(engine->run, i)->at_ns == GS_NO_TIME)
            return false;
    return true;
}

static bool is_simple(const gs_engine *engine, size_t launch) {
    gs_grid grid = gs_grid_of(&engine->run->launches.data[launch], 0, NULL);
    return grid.cluster == 1 && !grid.is_whole && gs_engine_duration(engine, launch) &&
           !gs_engine_spread(engine, launch);
}

static bool suits_gpu(const gs_gpu *gpu) {
    const gs_mechanisms *mechanisms = &gpu->mechanisms;
    return mechanisms->placement == GS_PLACEMENT_MOST_ROOM && mechanisms->warp_placement == GS_WARPS_STRICT &&
           mechanisms->registers != GS_REGISTERS_CONTIGUOUS && mechanisms->queue == GS_QUEUE_IN_ORDER &&
           (mechanisms->shared_scope == GS_SCOPE_SM || gpu->sms_per_tpc == 1) && !gpu->skipped_sm &&
           256 % gpu->limits.partitions_per_sm == 0;
}

static bool suits_run(const gs_engine *engine) {
    const gs_engine_hooks *hooks = &engine->hooks;
    if (hooks->started || hooks->ended || hooks->follow || hooks->endless || hooks->dispatcher ||
        engine->run->green_contexts.count || (engine->graph.nodes && !has_times(engine)) ||
        !suits_gpu(gs_dispatcher_state(engine->dispatcher)->gpu) || !has_small_times(engine))
        return false;
    for (size_t i = 0; i < engine->run->launches.count; i++)
        if (!is_simple(engine, i))
            return false;
    return true;
}

static bool init_bulk(gs_bulk *bulk, const gs_engine *engine) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    size_t sms = (size_t)gpu->sms;
    bulk->sms = gpu->sms;
    bulk->is_regular = gpu->mechanisms.shared_allocation != GS_SPACE_CONTIGUOUS;
    bulk->full_for = NO_LAUNCH;
    bulk->last[0] = bulk->last[1] = -1;
    bulk->ring = 1;
    while (bulk->ring <= (uint32_t)gpu->sms * (uint32_t)gpu->limits.blocks_per_sm)
        bulk->ring *= 2;
    bulk->ring--;
    bulk->patterns = gs_patterns_new(engine->dispatcher);
    bulk->of_sms = calloc(sms, sizeof *bulk->of_sms);
    bulk->changed = calloc(sms, sizeof *bulk->changed);
    bulk->warm = calloc(sms, sizeof *bulk->warm);
    bulk->is_listed = calloc(sms, sizeof *bulk->is_listed);
    bulk->nowhere = calloc((size_t)bulk->ring + 1, sizeof *bulk->nowhere);
    bulk->is_first = calloc(sms, sizeof *bulk->is_first);
    bulk->order = calloc(sms, sizeof *bulk->order);
    bulk->position = calloc(sms, sizeof *bulk->position);
    bulk->takers = calloc(sms, sizeof *bulk->takers);
    bulk->moves = calloc(sms, sizeof *bulk->moves);
    bulk->marks = calloc(sms, sizeof *bulk->marks);
    if (!bulk->patterns || !bulk->of_sms || !bulk->changed || !bulk->warm || !bulk->is_listed || !bulk->nowhere ||
        !bulk->is_first || !bulk->order || !bulk->position || !bulk->takers || !bulk->moves || !bulk->marks)
        return false;
    gs_gpu_tie_order(gpu, bulk->order);
    for (int32_t i = 0; i < gpu->sms; i++) {
        bulk->position[bulk->order[i]] = i;
        bulk->is_first[i] = engine->numbering.numberer && gs_numberer_is_first(engine->numbering.numberer, i);
    }
    return true;
}

bool gs_bulk_init(gs_engine *engine) {
    if (!suits_run(engine))
        return true;
    engine->bulk = calloc(1, sizeof *engine->bulk);
    return engine->bulk && init_bulk(engine->bulk, engine);
}

void gs_bulk_free(gs_bulk *bulk) {
    if (!bulk)
        return;
    for (size_t i = 0; i < bulk->lanes.count; i++) {
        free(bulk->lanes.data[i].sms);
        free(bulk->lanes.data[i].cohorts.data);
    }
    free(bulk->lanes.data);
    gs_patterns_free(bulk->patterns);
    free(bulk->of_sms);
    free(bulk->changed);
    free(bulk->warm);
    free(bulk->is_listed);
    free(bulk->nowhere);
    free(bulk->is_first);
    free(bulk->order);
    free(bulk->position);
    free(bulk->takers);
    free(bulk->moves);
    free(bulk->marks);
    free(bulk);
}

/* ---- from the dispatcher and back ---- */

bool gs_bulk_is_idle(const gs_bulk *bulk) {
    return !bulk->residents;
}

static void list_warm(gs_bulk *bulk, int32_t sm) {
    if (bulk->is_listed[sm] || !gs_pattern_is_warm(bulk->patterns, bulk->of_sms[sm]))
        return;
    bulk->is_listed[sm] = true;
    bulk->warm[bulk->warm_count++] = (int16_t)sm;
}

/* The first block is about to start: takes the state of the idle SMs. False: out of memory. */
static bool take_over(gs_engine *engine) {
    gs_bulk *bulk = engine->bulk;
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    bulk->local_bytes = state->local_bytes;
    bulk->full_for = NO_LAUNCH;
    for (int32_t i = 0; i < bulk->sms; i++) {
        const gs_group *group = &state->groups[state->sms[i].group];
        bulk->of_sms[i] = gs_patterns_idle(bulk->patterns, group->is_warm ? group->config_bytes : -1);
        bulk->moves[i] = 0;
        if (bulk->of_sms[i] == UINT32_MAX)
            return false;
        list_warm(bulk, i);
    }
    gs_dispatcher_settle(engine->dispatcher);
    return true;
}

/* The last block has ended: gives the state of the idle SMs back. */
static void hand_over(gs_engine *engine, size_t launch) {
    gs_bulk *bulk = engine->bulk;
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    uint64_t partitions = (uint64_t)state->gpu->limits.partitions_per_sm;
    for (int32_t i = 0; i < bulk->sms; i++)
        bulk->marks[i] = (gs_mark){(uint16_t)(bulk->moves[i] % partitions), 0};
    gs_bulk_move_turns(engine);
    gs_remembered remembered = {0, -1, 0};
    gs_dispatcher_leave(engine->dispatcher, engine->plays[launch].kernel, &remembered, bulk->marks);
    gs_dispatcher_grow_local(engine->dispatcher, bulk->local_bytes);
    for (int32_t i = 0; i < bulk->warm_count; i++) {
        int32_t sm = bulk->warm[i];
        bulk->is_listed[sm] = false;
        if (gs_pattern_is_warm(bulk->patterns, bulk->of_sms[sm]))
            gs_dispatcher_warm(engine->dispatcher, state->sms[sm].group,
                               gs_pattern_config(bulk->patterns, bulk->of_sms[sm]));
    }
    bulk->warm_count = 0;
}

bool gs_bulk_settle(gs_engine *engine) {
    gs_bulk *bulk = engine->bulk;
    if (gs_bulk_is_idle(bulk)) {
        gs_dispatcher_settle(engine->dispatcher);
        return true;
    }
    gs_patterns_look_at(bulk->patterns, (gs_turnover){0, GS_COOLS});
    while (bulk->warm_count) {
        int32_t sm = bulk->warm[--bulk->warm_count];
        bulk->is_listed[sm] = false;
        if (!gs_pattern_is_warm(bulk->patterns, bulk->of_sms[sm]))
            continue;
        const gs_pattern_step *step = gs_patterns_step(bulk->patterns, bulk->of_sms[sm]);
        if (!step)
            return false;
        bulk->of_sms[sm] = step->next;
    }
    return true;
}

/* ---- lanes ---- */

/* A lane that is free, or a new one; NULL: out of memory. */
static struct lane *free_lane(gs_bulk *bulk) {
    for (size_t i = 0; i < bulk->lanes.count; i++)
        if (bulk->lanes.data[i].launch == NO_LAUNCH)
            return &bulk->lanes.data[i];
    if (!GS_PUSH(&bulk->lanes, (struct lane){.launch = NO_LAUNCH}))
        return NULL;
    struct lane *lane = &bulk->lanes.data[bulk->lanes.count - 1];
    lane->sms = malloc(((size_t)bulk->ring + 1) * sizeof *lane->sms);
    return lane->sms ? lane : NULL;
}

static bool open_lane(gs_engine *engine, size_t launch) {
    struct play *play = &engine->plays[launch];
    gs_bulk *bulk = engine->bulk;
    if (play->lane >= 0)
        return true;
    struct lane *lane = free_lane(bulk);
    gs_tag tag = lane ? gs_patterns_take_tag(bulk->patterns, play->kernel, launch) : 0;
    if (!tag)
        return false;
    play->lane = (int32_t)(lane - bulk->lanes.data);
    lane->launch = launch;
    lane->tag = tag;
    lane->first = lane->past = 0;
    lane->cohorts.count = lane->first_cohort = 0;
    lane->unsteady_until = 0;
    return true;
}

static void close_lane(gs_engine *engine, size_t launch) {
    struct lane *lane = gs_lane_of(engine, launch);
    gs_patterns_return_tag(engine->bulk->patterns, lane->tag);
    lane->launch = NO_LAUNCH;
    engine->plays[launch].lane = -1;
}

static void forget_old_cohorts(struct lane *lane) {
    size_t left = lane->cohorts.count - lane->first_cohort;
    if (lane->first_cohort <= left)
        return;
    memmove(lane->cohorts.data, lane->cohorts.data + lane->first_cohort, left * sizeof *lane->cohorts.data);
    lane->cohorts.count = left;
    lane->first_cohort = 0;
}

/* The last `blocks` in a lane have started now. False: out of memory. */
static bool add_cohort(gs_engine *engine, size_t launch, int64_t blocks) {
    struct lane *lane = gs_lane_of(engine, launch);
    int64_t end_ns = engine->clock.now_ns + gs_engine_duration(engine, launch);
    bool was_empty = gs_lane_is_empty(lane);
    forget_old_cohorts(lane);
    struct cohort *last = was_empty ? NULL : &lane->cohorts.data[lane->cohorts.count - 1];
    if (last && last->end_ns == end_ns) {
        last->blocks += blocks;
        return true;
    }
    return GS_PUSH(&lane->cohorts, (struct cohort){end_ns, blocks}) &&
           (!was_empty || gs_endings_add(&engine->endings, gs_lane_ending(engine, launch)));
}

/* ---- placing blocks ---- */

bool gs_bulk_local_waits(const gs_engine *engine, size_t launch) {
    const gs_bulk *bulk = engine->bulk;
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    const gs_need *need = gs_dispatcher_need(engine->dispatcher, engine->plays[launch].kernel);
    return state->gpu->mechanisms.local_growth_waits == GS_YES && bulk->residents &&
           need->shape.local_bytes > bulk->local_bytes;
}

static int compare_positions(const void *first, const void *second) {
    return GS_COMPARE(*(const int32_t *)first, *(const int32_t *)second);
}

/* Lists the SMs that have headroom, in tie order. Returns how many there are; -1: out of memory. */
static int32_t list_takers(gs_bulk *bulk, size_t launch) {
    bool are_few = bulk->full_for == launch;
    int32_t most = are_few ? bulk->changed_count : bulk->sms, count = 0;
    if (are_few && most > 1)
        qsort(bulk->changed, (size_t)most, sizeof *bulk->changed, compare_positions);
    for (int32_t i = 0; i < most; i++) {
        if (are_few && i && bulk->changed[i] == bulk->changed[i - 1])
            continue;
        int32_t sm = bulk->order[are_few ? bulk->changed[i] : i];
        const gs_pattern_step *step = gs_patterns_step(bulk->patterns, bulk->of_sms[sm]);
        if (!step)
            return -1;
        bool is_busy = bulk->patterns->data[bulk->of_sms[sm]].residents;
        if (step->count)
            bulk->takers[count++] = (struct taker){sm, step->count, 0, bulk->is_regular && is_busy};
    }
    return count;
}

static int32_t highest_of(const gs_bulk *bulk, int32_t takers) {
    int32_t highest = 0;
    for (int32_t i = 0; i < takers; i++)
        highest = bulk->takers[i].headroom > highest ? bulk->takers[i].headroom : highest;
    return highest;
}

/* The blocks that were placed on an SM start there. False: out of memory. */
static bool start_taken(gs_bulk *bulk, struct taker *taker, gs_tag tag) {
    gs_patterns_look_at(bulk->patterns, (gs_turnover){GS_STARTS + (uint32_t)taker->taken, tag});
    const gs_pattern_step *step = gs_patterns_step(bulk->patterns, bulk->of_sms[taker->sm]);
    if (!step)
        return false;
    bulk->of_sms[taker->sm] = step->next;
    bulk->moves[taker->sm] = (uint8_t)(bulk->moves[taker->sm] + step->moves);
    taker->taken = 0;
    return true;
}

/* A block was placed on an SM: what headroom is left must be found out. False: out of memory. */
static bool find_headroom(gs_bulk *bulk, struct taker *taker, gs_tag tag) {
    if (!start_taken(bulk, taker, tag))
        return false;
    gs_patterns_look_at(bulk->patterns, (gs_turnover){0, tag});
    const gs_pattern_step *step = gs_patterns_step(bulk->patterns, bulk->of_sms[taker->sm]);
    if (!step)
        return false;
    taker->headroom = step->count;
    taker->is_known = bulk->is_regular;
    return true;
}

/* Places up to `most` blocks where there is most headroom, and adds them to the burst. False: out of memory. */
static bool place_all(gs_engine *engine, int32_t takers, int64_t most, gs_tag tag) {
    gs_bulk *bulk = engine->bulk;
    gs_placement *placed = engine->numbering.burst.placed;
    int64_t count = 0;
    for (int32_t level = highest_of(bulk, takers); level > 0 && count < most; level--)
        for (struct taker *taker = bulk->takers; taker < bulk->takers + takers; taker++)
            while (taker->headroom >= level && count < most) {
                placed[count++] = (gs_placement){taker->sm, taker->headroom--, -1};
                taker->taken++;
                if (!taker->is_known && !find_headroom(bulk, taker, tag))
                    return false;
            }
    for (int32_t i = 0; i < takers; i++)
        if (bulk->takers[i].taken && !start_taken(bulk, &bulk->takers[i], tag))
            return false;
    engine->numbering.burst.count = count;
    return true;
}

bool gs_bulk_place(gs_engine *engine, size_t launch) {
    gs_bulk *bulk = engine->bulk;
    struct play *play = &engine->plays[launch];
    gs_burst *burst = &engine->numbering.burst;
    if (gs_bulk_local_waits(engine, launch) || (bulk->full_for == launch && !bulk->changed_count))
        return true;
    if ((!bulk->residents && !take_over(engine)) || !gs_patterns_tidy(bulk->patterns, bulk->of_sms, bulk->sms) ||
        !open_lane(engine, launch))
        return false;
    gs_tag tag = gs_lane_of(engine, launch)->tag;
    gs_patterns_look_at(bulk->patterns, (gs_turnover){0, tag});
    int32_t takers = list_takers(bulk, launch);
    if (takers < 0 || !place_all(engine, takers, engine->run->launches.data[launch].blocks - play->started, tag))
        return false;
    const gs_need *need = gs_dispatcher_need(engine->dispatcher, play->kernel);
    if (burst->count) {
        bulk->local_bytes = gs_max(bulk->local_bytes, need->shape.local_bytes);
        burst->is_cut = highest_of(bulk, takers) == burst->placed[burst->count - 1].headroom;
    }
    if (burst->count)
        gs_bulk_move_turns(engine);
    engine->numbering.launch = launch;
    play->started += burst->count;
    bulk->residents += burst->count;
    bulk->full_for = play->started < engine->run->launches.data[launch].blocks ? launch : NO_LAUNCH;
    bulk->changed_count = 0;
    return true;
}

bool gs_bulk_start_burst(gs_engine *engine, size_t launch) {
    const gs_burst *burst = &engine->numbering.burst;
    const int32_t *order = engine->numbering.numberer ? engine->numbering.order : NULL;
    struct lane *lane = gs_lane_of(engine, launch);
    for (int64_t i = 0; i < burst->count; i++)
        lane->sms[lane->past++ & engine->bulk->ring] = (int16_t)burst->placed[order ? order[i] : i].sm;
    return add_cohort(engine, launch, burst->count);
}

int32_t gs_bulk_config(const gs_bulk *bulk, int32_t sm) {
    return gs_pattern_config(bulk->patterns, bulk->of_sms[sm]);
}

/* ---- ending blocks ---- */

/* What is done with a cohort. */
struct batch {
    struct lane *from, *to; /* to: NULL if no blocks start */
    int64_t most;           /* blocks to end */
    int64_t left;           /* blocks that may start */
    int64_t ended, started;
};

/* Ends blocks, and starts others on their SMs, as long as there are enough of them. False: out of memory. This is where
   most time passes, so all that is used often is in variables. */
static bool play_batch(gs_bulk *bulk, struct batch *batch) {
    gs_patterns *patterns = bulk->patterns;
    gs_turnover turnover = patterns->turnover;
    uint32_t ring = bulk->ring, first = batch->from->first, past = batch->to ? batch->to->past : 0;
    uint32_t most = (uint32_t)batch->most, ended = 0, *of_sms = bulk->of_sms;
    const int16_t *from = batch->from->sms;
    int16_t *to = batch->to ? batch->to->sms : bulk->nowhere;
    const bool *is_first = bulk->is_first;
    uint8_t *moves = bulk->moves;
    int32_t last[3] = {bulk->last[0], bulk->last[1], -1};
    int64_t left = batch->left;
    bool has_memory = true;
    for (const gs_pattern *data = patterns->data; ended < most; ended++) {
        int16_t sm = from[(first + ended) & ring];
        const gs_pattern_step *step = &data[of_sms[sm]].steps[1];
        if (!gs_is_step_of(step, turnover)) {
            has_memory = gs_patterns_find_step(patterns, of_sms[sm]);
            data = patterns->data;
            step = &data[of_sms[sm]].steps[1];
        }
        if (!has_memory || step->count > left)
            break;
        uint32_t count = step->count;
        of_sms[sm] = step->next;
        moves[sm] = (uint8_t)(moves[sm] + step->moves);
        left -= count;
        last[count ? is_first[sm] : 2] = sm;
        to[past & ring] = sm; /* it counts if there is a block */
        past += count;
        for (; count > 1; count--)
            to[(past - count + 1) & ring] = sm;
    }
    bulk->last[0] = last[0];
    bulk->last[1] = last[1];
    batch->ended = ended;
    batch->started = batch->left - left;
    batch->from->first = first + ended;
    if (batch->to)
        batch->to->past = past;
    return has_memory;
}

/* How many blocks of the cohort may end before the queue is served, and which blocks start in their place. */
static struct batch plan_batch(const gs_engine *engine, size_t launch) {
    const struct play *play = &engine->plays[launch];
    struct lane *lane = gs_lane_of(engine, launch);
    size_t waiting = engine->queue.first;
    int64_t blocks = lane->cohorts.data[lane->first_cohort].blocks;
    bool is_last = play->ended + blocks == engine->run->launches.data[launch].blocks;
    bool is_all = blocks == engine->bulk->residents;
    struct batch batch = {.from = lane, .most = is_last || is_all ? blocks - 1 : blocks};
    if (waiting == NO_LAUNCH)
        return batch;
    if (gs_bulk_local_waits(engine, waiting) || engine->bulk->full_for != waiting || engine->bulk->changed_count) {
        batch.most = 0;
        return batch;
    }
    batch.to = gs_lane_of(engine, waiting);
    if (engine->plays[waiting].started) /* the first block is served, and the last */
        batch.left = engine->run->launches.data[waiting].blocks - engine->plays[waiting].started - 1;
    return batch;
}

/* Ends the next block alone. False: out of memory. */
static bool end_one(gs_bulk *bulk, struct lane *lane) {
    int16_t sm = lane->sms[lane->first++ & bulk->ring];
    gs_patterns_look_at(bulk->patterns, (gs_turnover){lane->tag, 0});
    const gs_pattern_step *step = gs_patterns_step(bulk->patterns, bulk->of_sms[sm]);
    if (!step)
        return false;
    bulk->of_sms[sm] = step->next;
    list_warm(bulk, sm);
    if (bulk->changed_count == bulk->sms)
        bulk->full_for = NO_LAUNCH; /* there is no room for more in the list */
    else
        bulk->changed[bulk->changed_count++] = bulk->position[sm];
    return true;
}

/* Ends the first blocks of a cohort that has to end, and renews its ending. */
static bool end_blocks(gs_engine *engine, size_t launch, int64_t blocks) {
    struct lane *lane = gs_lane_of(engine, launch);
    struct cohort *cohort = &lane->cohorts.data[lane->first_cohort];
    engine->plays[launch].ended += blocks;
    engine->bulk->residents -= blocks;
    engine->waves.ended += blocks - 1;
    cohort->blocks -= blocks;
    lane->first_cohort += !cohort->blocks;
    gs_endings_take(&engine->endings, 0);
    return gs_lane_is_empty(lane) || gs_endings_add(&engine->endings, gs_lane_ending(engine, launch));
}

bool gs_bulk_end(gs_engine *engine) {
    gs_bulk *bulk = engine->bulk;
    size_t launch = engine->endings.data[0].launch, waiting = engine->queue.first;
    if (!gs_patterns_tidy(bulk->patterns, bulk->of_sms, bulk->sms))
        return false;
    int64_t skipped;
    if (!gs_bulk_skip(engine, launch, &skipped))
        return false;
    if (skipped)
        return true;
    struct batch batch = plan_batch(engine, launch);
    gs_patterns_look_at(bulk->patterns, (gs_turnover){batch.from->tag, batch.to ? batch.to->tag : GS_COOLS});
    if (!play_batch(bulk, &batch))
        return false;
    if (batch.ended && !batch.to)
        bulk->full_for = NO_LAUNCH;
    if (!batch.ended && !end_one(bulk, batch.from))
        return false;
    if (!end_blocks(engine, launch, batch.ended ? batch.ended : 1))
        return false;
    if (batch.started) {
        engine->plays[waiting].started += batch.started;
        bulk->residents += batch.started;
        if (!add_cohort(engine, waiting, batch.started))
            return false;
    }
    if (engine->plays[launch].ended == engine->run->launches.data[launch].blocks)
        close_lane(engine, launch);
    if (!bulk->residents)
        hand_over(engine, launch);
    return true;
}

/* ---- looking at the SMs ---- */

int64_t gs_bulk_residents(const gs_bulk *bulk) {
    return bulk->residents;
}

gs_patterns *gs_bulk_patterns(const gs_bulk *bulk) {
    return bulk->patterns;
}

int32_t gs_bulk_alike(const gs_bulk *bulk, struct alike *alike) {
    int32_t count = 0, at = 0;
    for (int32_t i = 0; i < bulk->sms; i++) {
        if (!count || alike[at].pattern != bulk->of_sms[i])
            for (at = 0; at < count && alike[at].pattern != bulk->of_sms[i];)
                at++;
        if (at == count)
            alike[count++] = (struct alike){bulk->of_sms[i], 0};
        alike[at].sms++;
    }
    return count;
}
