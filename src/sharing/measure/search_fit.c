/*
 * search_fit.c: which blocks of two kernels fit on an SM together, computed by the predictor (src/model/gpu/state.c).
 *
 * One TPC stands for the GPU, because workers are launched in multiples of the SMs and so go evenly to all of them. The
 * kernel that needs the larger shared-memory configuration is launched first, because it sets it. Then each kernel ends
 * and is launched again while the other one stays, as with several launches: the pointer to the next partition and the
 * holes in shared memory have changed, and the blocks must fit again.
 */
#include "search_state.h"

enum { MOST_BLOCKS = 2 * GS_MAX_BLOCKS_PER_SM * 2 };

struct placing {
    gs_room_fit *fit;
    gs_need needs[2];
    int32_t workers[2];
    int32_t handles[2][MOST_BLOCKS];
};

gs_code gs_room_fit_open(gs_room_fit *fit, const gs_gpu *gpu, gs_error *error) {
    *fit = (gs_room_fit){.small = gs_gpu_part(gpu, gpu->sms_per_tpc > 0 ? gpu->sms_per_tpc : 1, error)};
    gs_code code = fit->small ? gs_state_init(&fit->empty, fit->small, error) : error->code;
    return code == GS_OK ? gs_state_init(&fit->state, fit->small, error) : code;
}

void gs_room_fit_close(gs_room_fit *fit) {
    gs_state_free(&fit->empty);
    gs_state_free(&fit->state);
    gs_gpu_free(fit->small);
    *fit = (gs_room_fit){0};
}

int32_t gs_room_fit_alone(gs_room_fit *fit, const gs_shape *shape) {
    gs_need need;
    gs_error error;
    return gs_need_of(fit->small, shape, &need, &error) == GS_OK ? need.blocks_per_sm : 0;
}

/* Places the workers of a kernel, one on each SM, round robin. */
static bool place_block(struct placing *placing, int kernel) {
    gs_state *state = &placing->fit->state;
    int32_t sms = placing->fit->small->sms, count = 0;
    bool changed;
    for (int32_t i = 0; i < placing->workers[kernel]; i++)
        for (int32_t sm = 0; sm < sms; sm++) {
            if (gs_state_headroom(state, &placing->needs[kernel], sm) < 1)
                return false;
            placing->handles[kernel][count++] =
                gs_state_place(state, &placing->needs[kernel], kernel, sm, false, &changed);
        }
    return true;
}

static void release_block(struct placing *placing, int kernel) {
    bool changed;
    for (int32_t i = 0; i < placing->workers[kernel] * placing->fit->small->sms; i++)
        gs_state_release(&placing->fit->state, &placing->needs[kernel], placing->handles[kernel][i], &changed);
}

static bool both_fit(struct placing *placing) {
    enum { AGAIN = 2 };
    int first = placing->needs[1].config_bytes > placing->needs[0].config_bytes;
    gs_state_copy(&placing->fit->state, &placing->fit->empty);
    if (!place_block(placing, first) || !place_block(placing, !first))
        return false;
    for (int i = 0; i < 2 * AGAIN; i++) {
        release_block(placing, i % 2);
        if (!place_block(placing, i % 2))
            return false;
    }
    return true;
}

static bool prepare_placing(struct placing *placing, gs_room_fit *fit, const gs_shape *first, const gs_shape *second) {
    gs_error error;
    placing->fit = fit;
    return gs_need_of(fit->small, first, &placing->needs[0], &error) == GS_OK &&
           gs_need_of(fit->small, second, &placing->needs[1], &error) == GS_OK;
}

int32_t gs_room_fit_leader(const gs_room_fit *fit, const gs_shape *first, const gs_shape *second) {
    gs_need needs[2];
    gs_error error;
    return gs_need_of(fit->small, first, &needs[0], &error) == GS_OK &&
           gs_need_of(fit->small, second, &needs[1], &error) == GS_OK && needs[1].config_bytes > needs[0].config_bytes;
}

int32_t gs_room_fit_beside(gs_room_fit *fit, const gs_shape *first, int32_t workers, const gs_shape *second,
                           int32_t most) {
    struct placing placing;
    if (workers > GS_MAX_BLOCKS_PER_SM || !prepare_placing(&placing, fit, first, second))
        return 0;
    int32_t good = 0, bad = (int32_t)gs_min(most, placing.needs[1].blocks_per_sm) + 1;
    placing.workers[0] = workers;
    while (bad - good > 1) {
        placing.workers[1] = (good + bad) / 2;
        if (both_fit(&placing))
            good = placing.workers[1];
        else
            bad = placing.workers[1];
    }
    return good;
}

const char *gs_room_fit_obstacle(gs_room_fit *fit, const gs_shape *first, int32_t workers, const gs_shape *second) {
    static const char *const words[] = {[GS_OBSTACLE_NONE] = "room",
                                        [GS_OBSTACLE_CONFIG] = "a suitable shared-memory configuration",
                                        [GS_OBSTACLE_BLOCK_SLOTS] = "block slots",
                                        [GS_OBSTACLE_WARP_SLOTS] = "warp slots",
                                        [GS_OBSTACLE_REGISTERS] = "registers",
                                        [GS_OBSTACLE_SHARED] = "shared memory",
                                        [GS_OBSTACLE_SHARED_HOLES] = "shared memory in one piece"};
    struct placing placing;
    if (!prepare_placing(&placing, fit, first, second))
        return "room";
    int leader = placing.needs[1].config_bytes > placing.needs[0].config_bytes;
    placing.workers[0] = leader ? 1 : workers;
    placing.workers[1] = 1;
    gs_state_copy(&fit->state, &fit->empty);
    place_block(&placing, leader);
    for (int32_t i = 0; leader && i < workers && place_block(&placing, 0); i++) /* until the first one does not fit */
        ;
    return words[gs_state_obstacle(&fit->state, &placing.needs[!leader], 0).kind];
}
