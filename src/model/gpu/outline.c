/*
 * outline.c: the resources that the blocks on the GPU leave to others.
 *
 * Two states with equal outlines take the same blocks on the same SMs, as long as the resident blocks stay. An outline
 * does not say to which kernels these blocks belong. It does not mention idle SMs, unless their configuration still
 * counts. It counts partitions from the pointer of the SM: warps go to the partitions round-robin from there, so the
 * numbers of the partitions do not matter.
 */
#include "gpu.h"

static void put_numbers(gs_text *text, const int32_t *numbers, size_t count) {
    gs_text_put(text, (const char *)numbers, count * sizeof *numbers);
}

static void put_space(gs_text *text, const gs_space *space) {
    put_numbers(text, (const int32_t[]){space->count, space->size}, 2);
    for (int32_t i = 0; i < space->count; i++)
        put_numbers(text, (const int32_t[]){space->pieces[i].at, space->pieces[i].size}, 2);
}

static void put_sm(gs_text *text, const gs_gpu *gpu, const gs_sm *sm) {
    int32_t partitions = gpu->limits.partitions_per_sm;
    put_numbers(text, (const int32_t[]){sm->block_slots, sm->shared_free, sm->cluster_blocks}, 3);
    for (int32_t i = 0; i < partitions; i++) {
        int32_t p = (sm->pointer + i) % partitions;
        put_numbers(text, (const int32_t[]){sm->warp_slots[p], sm->registers[p]}, 2);
        if (sm->register_spaces)
            put_space(text, &sm->register_spaces[p]);
    }
    if (sm->shared_space.pieces)
        put_space(text, &sm->shared_space);
}

void gs_state_outline(const gs_state *state, gs_text *text) {
    if (state->resident_count)
        gs_text_put(text, (const char *)&state->local_bytes, sizeof state->local_bytes);
    for (int32_t i = 0; i < state->group_count; i++) {
        const gs_group *group = &state->groups[i];
        if (!group->residents && !group->is_warm)
            continue;
        put_numbers(text, (const int32_t[]){i, group->residents, group->config_bytes}, 3);
        for (int32_t sm = group->first_sm; group->residents && sm < group->first_sm + group->sms; sm++)
            put_sm(text, state->gpu, &state->sms[sm]);
    }
}

void gs_state_mark(const gs_state *state, gs_mark *marks) {
    for (int32_t i = 0; i < state->gpu->sms; i++) {
        const gs_space *space = &state->sms[i].shared_space;
        bool has_first = space->is_ring && space->count;
        marks[i] = (gs_mark){(uint16_t)state->sms[i].pointer, has_first ? space->pieces[0].at : 0};
    }
}
