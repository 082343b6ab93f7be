/*
 * lack.c: what a launch that waits for headroom lacks, and which launch has it.
 *
 * What most SMs lack for its next block, of those that have no headroom. The launch whose blocks hold most of it on
 * these SMs is the one that is waited for.
 */
#include "engine_state.h"

const char *gs_lack_name(gs_lack lack) {
    static const char *const names[] = {"nothing", "shared_config", "block_slots",  "warp_slots", "registers",
                                        "shared",  "shared_holes",  "local_memory", "cluster"};
    return names[lack];
}

/* By obstacle: how many SMs have it. */
struct obstacles {
    int32_t sms[GS_OBSTACLE_SHARED_HOLES + 1];
};

/* The obstacle that most of the open SMs have. GS_OBSTACLE_NONE: every SM has headroom. */
static gs_obstacle_kind most_frequent(const struct obstacles *obstacles) {
    const int32_t *counts = obstacles->sms;
    gs_obstacle_kind most = GS_OBSTACLE_NONE;
    for (int kind = GS_OBSTACLE_NONE + 1; kind <= GS_OBSTACLE_SHARED_HOLES; kind++)
        if (counts[kind] > (most == GS_OBSTACLE_NONE ? 0 : counts[most]))
            most = (gs_obstacle_kind)kind;
    return most;
}

/* Sets the obstacle of each SM; of one that is not open, GS_OBSTACLE_NONE. Returns the most frequent. */
static gs_obstacle_kind find_obstacles(const gs_state *state, const gs_need *need, const bool *open, uint8_t *kinds) {
    struct obstacles obstacles = {0};
    for (int32_t i = 0; i < state->gpu->sms; i++) {
        kinds[i] = !open || open[i] ? (uint8_t)gs_state_obstacle(state, need, i).kind : GS_OBSTACLE_NONE;
        obstacles.sms[kinds[i]]++;
    }
    return most_frequent(&obstacles);
}

static int64_t held_by_block(const gs_need *need, gs_obstacle_kind kind) {
    switch (kind) {
    case GS_OBSTACLE_WARP_SLOTS:
        return need->warps;
    case GS_OBSTACLE_REGISTERS:
        return (int64_t)need->warps * need->registers;
    case GS_OBSTACLE_SHARED:
    case GS_OBSTACLE_SHARED_HOLES:
        return need->shared;
    default:
        return 1;
    }
}

/* What each launch holds; only as many launches as this are told apart. */
enum { MOST_HOLDERS = 256 };

struct holders {
    size_t launches[MOST_HOLDERS];
    int64_t held[MOST_HOLDERS];
    size_t count;
};

static void add_held(struct holders *holders, size_t launch, int64_t held) {
    size_t i = 0;
    while (i < holders->count && holders->launches[i] != launch)
        i++;
    if (i == MOST_HOLDERS)
        return;
    if (i == holders->count) {
        holders->launches[holders->count++] = launch;
        holders->held[i] = 0;
    }
    holders->held[i] += held;
}

/* Others come before the launch itself, and of those that hold as much the one that was launched first. */
static size_t largest_holder(const struct holders *holders, size_t launch) {
    size_t best = launch;
    int64_t most = 0;
    for (size_t i = 0; i < holders->count; i++) {
        size_t other = holders->launches[i];
        int64_t held = holders->held[i];
        if (other != launch && held && (held > most || (held == most && other < best))) {
            best = other;
            most = held;
        }
    }
    return best;
}

/* The same as gs_engine_lack while blocks are played in bulk. */
static gs_lack lack_in_bulk(const gs_engine *engine, size_t launch, size_t *holder) {
    gs_patterns *patterns = gs_bulk_patterns(engine->bulk);
    struct alike alike[GS_MAX_SMS];
    uint8_t kinds[GS_MAX_SMS] = {0};
    struct obstacles obstacles = {0};
    struct holders holders = {.count = 0};
    int32_t count = gs_bulk_alike(engine->bulk, alike);
    bool is_local = gs_bulk_local_waits(engine, launch);
    for (int32_t i = 0; i < count && !is_local; i++) {
        kinds[i] = (uint8_t)gs_pattern_obstacle(patterns, alike[i].pattern, engine->plays[launch].kernel);
        obstacles.sms[kinds[i]] += alike[i].sms;
    }
    gs_obstacle_kind most = most_frequent(&obstacles);
    for (int32_t i = 0; i < count; i++)
        for (int32_t block = 0; block < patterns->data[alike[i].pattern].residents; block++) {
            uint32_t pattern = alike[i].pattern;
            const gs_need *need = gs_dispatcher_need(engine->dispatcher, gs_pattern_kernel(patterns, pattern, block));
            if (most == GS_OBSTACLE_NONE || kinds[i] == most)
                add_held(&holders, gs_pattern_launch(patterns, pattern, block),
                         alike[i].sms * held_by_block(need, most));
        }
    *holder = largest_holder(&holders, launch);
    return is_local ? GS_LACK_LOCAL : (gs_lack)most;
}

gs_lack gs_engine_lack(const gs_engine *engine, size_t launch, size_t *holder) {
    const struct play *play = &engine->plays[launch];
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    const gs_need *need = gs_dispatcher_need(engine->dispatcher, play->kernel);
    uint8_t kinds[GS_MAX_SMS];
    struct holders holders = {.count = 0};
    *holder = launch;
    bool is_bulk = engine->bulk && !gs_bulk_is_idle(engine->bulk);
    int64_t residents = is_bulk ? gs_bulk_residents(engine->bulk) : state->resident_count;
    if (residents == play->started - play->ended)
        return GS_LACK_NONE; /* only its own blocks are there */
    if (is_bulk)
        return lack_in_bulk(engine, launch, holder);
    bool is_local = gs_state_local_waits(state, need);
    gs_obstacle_kind most =
        is_local ? GS_OBSTACLE_NONE : find_obstacles(state, need, gs_engine_grid(engine, launch).open, kinds);
    int32_t left = state->resident_count;
    for (int32_t handle = 0; left; handle++) {
        const gs_resident *resident = &state->residents[handle];
        if (resident->need < 0)
            continue;
        left--;
        if (most == GS_OBSTACLE_NONE || kinds[resident->sm] == most)
            add_held(&holders, engine->running[handle].launch,
                     held_by_block(gs_dispatcher_need(engine->dispatcher, resident->need), most));
    }
    *holder = largest_holder(&holders, launch);
    if (is_local)
        return GS_LACK_LOCAL;
    bool is_cluster = engine->run->launches.data[launch].cluster > 1;
    return most == GS_OBSTACLE_NONE ? (is_cluster ? GS_LACK_CLUSTER : GS_LACK_NONE) : (gs_lack)most;
}
