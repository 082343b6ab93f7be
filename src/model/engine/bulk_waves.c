/*
 * bulk_waves.c: waves that repeat, of a run that is played in bulk.
 *
 * Often the blocks of a launch replace each other: each that ends leaves what the next one needs, and no more. If that
 * leaves the pattern of every SM as it was when all of them have been replaced, nothing changes until something else
 * happens, or few blocks are left, and these waves are skipped at once (gs_bulk_skip). Other waves that repeat are
 * found by waves.c, which compares what is noted here.
 */
#include "bulk.h"

#include <string.h>

enum { FEW_BLOCKS = 16 }; /* waves of fewer blocks are not skipped */

/* ---- blocks that replace each other ---- */

/* How many waves can be skipped: nothing else happens during them, and a block is left. */
static int64_t waves_left(const gs_engine *engine, size_t launch, int64_t wave) {
    const struct endings *timers = &engine->readiness.timers, *endings = &engine->endings;
    const struct lane *lane = gs_lane_of(engine, launch);
    int64_t limit_ns = gs_min(engine->clock.horizon_ns, INT64_MAX / 2);
    int64_t last_ns = lane->cohorts.data[lane->cohorts.count - 1].end_ns;
    int64_t left = engine->run->launches.data[launch].blocks - engine->plays[launch].started - 1;
    if (timers->count)
        limit_ns = gs_min(limit_ns, timers->data[0].at_ns);
    for (size_t i = 1; i < endings->count && i < 3; i++)
        limit_ns = gs_min(limit_ns, endings->data[i].at_ns);
    if (limit_ns <= last_ns)
        return 0;
    return gs_min((limit_ns - 1 - last_ns) / gs_engine_duration(engine, launch) + 1, left / wave);
}

/* Whether the blocks of a tag on an SM can replace each other, each one once, and the pattern is as before. Sets how
   far that moves the pointer. */
static bool is_steady(gs_patterns *patterns, uint32_t pattern, gs_tag tag, uint8_t *moves, bool *has_memory) {
    uint32_t at = pattern;
    int32_t blocks = gs_pattern_count(patterns, pattern, tag);
    *moves = 0;
    for (int32_t i = 0; i < blocks; i++) {
        const gs_pattern_step *step = gs_patterns_step(patterns, at);
        *has_memory = step;
        if (!step || step->count != 1)
            return false;
        *moves = (uint8_t)(*moves + step->moves);
        at = step->next;
    }
    return at == pattern;
}

/* The same for all SMs: `moves` is by SM. */
static bool are_steady(gs_bulk *bulk, gs_tag tag, uint8_t *moves, bool *has_memory) {
    int32_t known[GS_MAX_SMS], count = 0;
    gs_patterns_look_at(bulk->patterns, (gs_turnover){tag, tag});
    for (int32_t i = 0; i < bulk->sms; i++) {
        int32_t at = 0;
        while (at < count && bulk->of_sms[known[at]] != bulk->of_sms[i])
            at++;
        if (at == count && !is_steady(bulk->patterns, bulk->of_sms[i], tag, &moves[i], has_memory))
            return false;
        if (at == count)
            known[count++] = i;
        moves[i] = moves[known[at]];
    }
    return true;
}

static void skip_blocks(gs_engine *engine, size_t launch, int64_t wave, int64_t count, const uint8_t *moves) {
    gs_bulk *bulk = engine->bulk;
    struct lane *lane = gs_lane_of(engine, launch);
    struct play *play = &engine->plays[launch];
    int64_t duration_ns = gs_engine_duration(engine, launch), blocks = count * wave;
    engine->clock.now_ns = lane->cohorts.data[lane->cohorts.count - 1].end_ns + (count - 1) * duration_ns;
    gs_bulk_delay(engine, launch, count * duration_ns);
    play->started += blocks;
    play->ended += blocks;
    for (int32_t i = 0; i < bulk->sms; i++)
        bulk->moves[i] = (uint8_t)(bulk->moves[i] + count * moves[i]);
    for (uint32_t i = lane->first; i != lane->past; i++)
        bulk->last[bulk->is_first[lane->sms[i & bulk->ring]]] = lane->sms[i & bulk->ring];
    gs_endings_take(&engine->endings, 0);
    gs_endings_add(&engine->endings, gs_lane_ending(engine, launch)); /* there is memory: one was just removed */
    engine->hooks.skipped(engine->hooks.user, launch, blocks);
}

bool gs_bulk_skip(gs_engine *engine, size_t launch, int64_t *skipped) {
    gs_bulk *bulk = engine->bulk;
    struct lane *lane = gs_lane_of(engine, launch);
    int64_t wave = engine->plays[launch].started - engine->plays[launch].ended;
    bool is_full = bulk->full_for == launch && !bulk->changed_count && engine->queue.first == launch;
    *skipped = 0;
    if (!is_full || !engine->hooks.may_skip || wave < FEW_BLOCKS || engine->plays[launch].ended < lane->unsteady_until)
        return true;
    int64_t count = waves_left(engine, launch, wave);
    if (count < 1 || !engine->hooks.may_skip(engine->hooks.user, launch, wave))
        return true;
    uint8_t moves[GS_MAX_SMS];
    bool has_memory = true;
    lane->unsteady_until = engine->plays[launch].ended + wave;
    if (!are_steady(bulk, lane->tag, moves, &has_memory))
        return has_memory;
    skip_blocks(engine, launch, wave, count, moves);
    *skipped = count * wave;
    return true;
}

/* ---- for waves.c ---- */

static void put_number(gs_text *text, int64_t number) {
    gs_text_put(text, (const char *)&number, sizeof number);
}

static void put_lane(const gs_bulk *bulk, const struct lane *lane, gs_text *image) {
    const struct cohort *first = &lane->cohorts.data[lane->first_cohort];
    const struct cohort *past = lane->cohorts.data + lane->cohorts.count;
    for (const struct cohort *cohort = first; cohort < past; cohort++) {
        put_number(image, cohort->end_ns - first->end_ns);
        put_number(image, cohort->blocks);
    }
    for (uint32_t i = lane->first; i != lane->past; i++)
        gs_text_put(image, (const char *)&lane->sms[i & bulk->ring], sizeof *lane->sms);
}

bool gs_bulk_note(gs_engine *engine, struct snapshot *snapshot) {
    const gs_bulk *bulk = engine->bulk;
    gs_text *image = &snapshot->image;
    gs_bulk_move_turns(engine);
    put_number(image, bulk->local_bytes);
    put_number(image, (int64_t)gs_patterns_forgotten(bulk->patterns));
    gs_text_put(image, (const char *)bulk->of_sms, (size_t)bulk->sms * sizeof *bulk->of_sms);
    gs_text_put(&snapshot->pointers, (const char *)bulk->moves, (size_t)bulk->sms * sizeof *bulk->moves);
    for (size_t i = 0; i < bulk->lanes.count; i++) {
        const struct lane *lane = &bulk->lanes.data[i];
        if (lane->launch == NO_LAUNCH || gs_lane_is_empty(lane))
            continue;
        const struct play *play = &engine->plays[lane->launch];
        put_lane(bulk, lane, image);
        if (!GS_PUSH(&snapshot->noted, (struct noted){lane->launch, play->started, play->ended,
                                                      lane->cohorts.data[lane->first_cohort].end_ns, IN_BULK}))
            return false;
    }
    return true;
}

void gs_bulk_delay(gs_engine *engine, size_t launch, int64_t more_ns) {
    struct lane *lane = gs_lane_of(engine, launch);
    for (size_t i = lane->first_cohort; i < lane->cohorts.count; i++)
        lane->cohorts.data[i].end_ns += more_ns;
    for (size_t i = 0; i < engine->endings.count; i++)
        if (engine->endings.data[i].launch == launch)
            engine->endings.data[i].at_ns += more_ns;
}

void gs_bulk_move_pointers(gs_bulk *bulk, const struct snapshot *before, const struct snapshot *now, int64_t count) {
    for (int32_t i = 0; i < bulk->sms; i++)
        bulk->moves[i] = (uint8_t)(bulk->moves[i] + count * (now->pointers.data[i] - before->pointers.data[i]));
}
