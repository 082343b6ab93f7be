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

/* The obstacle that most of the open SMs have. GS_OBSTACLE_NONE: every SM has headroom. */
static gs_obstacle_kind most_frequent(const gs_state *state, const gs_need *need, const bool *open, uint8_t *kinds) {
    int32_t counts[GS_OBSTACLE_SHARED_HOLES + 1] = {0};
    for (int32_t i = 0; i < state->gpu->sms; i++) {
        kinds[i] = !open || open[i] ? (uint8_t)gs_state_obstacle(state, need, i).kind : GS_OBSTACLE_NONE;
        counts[kinds[i]]++;
    }
    gs_obstacle_kind most = GS_OBSTACLE_NONE;
    for (int kind = GS_OBSTACLE_NONE + 1; kind <= GS_OBSTACLE_SHARED_HOLES; kind++)
        if (counts[kind] > (most == GS_OBSTACLE_NONE ? 0 : counts[most]))
            most = (gs_obstacle_kind)kind;
    return most;
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

/* Others come before the launch itself. */
static size_t largest_holder(const struct holders *holders, size_t launch) {
    size_t best = launch;
    int64_t most = 0;
    for (size_t i = 0; i < holders->count; i++)
        if (holders->launches[i] != launch && holders->held[i] > most) {
            best = holders->launches[i];
            most = holders->held[i];
        }
    return best;
}

gs_lack gs_engine_lack(const gs_engine *engine, size_t launch, size_t *holder) {
    const struct play *play = &engine->plays[launch];
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    const gs_need *need = gs_dispatcher_need(engine->dispatcher, play->kernel);
    uint8_t kinds[GS_MAX_SMS];
    struct holders holders = {.count = 0};
    *holder = launch;
    if (state->resident_count == play->started - play->ended)
        return GS_LACK_NONE; /* only its own blocks are there */
    bool is_local = gs_state_local_waits(state, need);
    gs_obstacle_kind most =
        is_local ? GS_OBSTACLE_NONE : most_frequent(state, need, gs_engine_grid(engine, launch).open, kinds);
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
