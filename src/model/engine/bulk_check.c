/*
 * bulk_check.c: checks the invariants of a run that is played in bulk. See engine_check.c.
 */
#include "bulk.h"

/* The blocks of a launch on each SM, added to `counts`. False: its lane is damaged. */
static bool count_lane(const gs_engine *engine, size_t launch, int64_t *counts) {
    const struct lane *lane = gs_lane_of(engine, launch);
    const struct play *play = &engine->plays[launch];
    int64_t blocks = 0, last_ns = engine->clock.now_ns;
    for (size_t i = lane->first_cohort; i < lane->cohorts.count; last_ns = lane->cohorts.data[i++].end_ns) {
        if (lane->cohorts.data[i].end_ns < last_ns || lane->cohorts.data[i].blocks < 1)
            return false;
        blocks += lane->cohorts.data[i].blocks;
    }
    for (uint32_t i = lane->first; i != lane->past; i++)
        counts[lane->sms[i & engine->bulk->ring]]++;
    return lane->launch == launch && blocks == play->started - play->ended && blocks == lane->past - lane->first;
}

/* How many blocks of a launch a pattern has. */
static int64_t count_in_pattern(const gs_patterns *patterns, uint32_t pattern, size_t launch) {
    int64_t count = 0;
    for (int32_t i = 0; i < patterns->data[pattern].residents; i++)
        count += gs_pattern_launch(patterns, pattern, i) == launch;
    return count;
}

static const char *check_lane(const gs_engine *engine, size_t launch, int64_t *residents) {
    const gs_bulk *bulk = engine->bulk;
    int64_t counts[GS_MAX_SMS] = {0};
    size_t endings = 0;
    if (!count_lane(engine, launch, counts))
        return "21: the lane of a launch is damaged";
    for (int32_t i = 0; i < bulk->sms; *residents += counts[i++])
        if (count_in_pattern(bulk->patterns, bulk->of_sms[i], launch) != counts[i])
            return "21: the pattern of an SM has other blocks than are there";
    for (size_t i = 0; i < engine->endings.count; i++)
        if (engine->endings.data[i].launch == launch)
            endings += engine->endings.data[i].at_ns == gs_lane_ending(engine, launch).at_ns;
    return endings == !gs_lane_is_empty(gs_lane_of(engine, launch)) ? NULL : "21: the ending of a cohort is wrong";
}

static const char *check_full(const gs_engine *engine) {
    const gs_bulk *bulk = engine->bulk;
    size_t launch = engine->queue.first;
    if (launch == NO_LAUNCH || gs_bulk_is_idle(bulk) || gs_bulk_local_waits(engine, launch))
        return NULL;
    for (int32_t i = 0; i < bulk->sms; i++)
        if (gs_pattern_obstacle(bulk->patterns, bulk->of_sms[i], engine->plays[launch].kernel) == GS_OBSTACLE_NONE)
            return "18: the first launch of the queue waits, and an SM has headroom";
    return NULL;
}

const char *gs_bulk_check(const gs_engine *engine) {
    const gs_bulk *bulk = engine->bulk;
    int64_t residents = 0;
    size_t lanes = 0;
    const char *violated = NULL;
    for (size_t i = 0; i < engine->run->launches.count && !violated; i++)
        if (engine->plays[i].lane >= 0)
            violated = check_lane(engine, i, &residents), lanes++;
        else if (engine->plays[i].started != engine->plays[i].ended)
            violated = "21: a launch has running blocks and no lane";
    if (violated)
        return violated;
    if (residents != bulk->residents || gs_dispatcher_state(engine->dispatcher)->resident_count)
        return "21: the number of blocks on the SMs is wrong";
    if (gs_patterns_taken_tags(bulk->patterns) != lanes)
        return "21: a launch that has no lane has a tag";
    int32_t listed = 0;
    for (int32_t i = 0; i < bulk->sms; i++)
        listed += bulk->is_listed[i];
    if (listed != bulk->warm_count)
        return "21: the list of idle SMs that keep their configuration is wrong";
    if (!gs_bulk_is_idle(bulk) && bulk->warm_count && engine->queue.first == NO_LAUNCH)
        return "21: an idle SM keeps its configuration";
    return check_full(engine);
}
