/*
 * state.c: the current state of the SMs: their headroom, and placing and releasing blocks.
 *
 * The scheduler picks the SM with the most headroom (Mechanism 1), so gs_state_headroom is called most often. Headroom
 * is the least of what block slots, warps and shared memory allow. Warps are counted for each partition, because they
 * go to partitions in strict round-robin order and do not step aside (Mechanism 2.1): one full partition stops the SM,
 * however empty the others are.
 *
 * Shared memory is counted in granules. `shared_free` is the memory that a block can use: the largest hole if memory
 * must be in one piece, or all free memory if it is only counted. Only a ring is searched hole by hole. Registers are
 * likewise in one piece or counted, for each partition.
 */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- spaces: memory allocated in pieces ---- */

static void space_reset(gs_space *space, int32_t size) {
    space->count = 0;
    space->size = space->largest_hole = (uint16_t)size;
}

/* The size and the address of the hole before piece number `i`, or after the last piece. */
static int32_t space_hole(const gs_space *space, int32_t i, int32_t *at) {
    const gs_piece *pieces = space->pieces;
    *at = i ? pieces[i - 1].at + pieces[i - 1].size : 0;
    return (i == space->count ? space->size : pieces[i].at) - *at;
}

static void space_measure(gs_space *space) {
    int32_t largest = 0, at;
    for (int32_t i = 0; i <= space->count; i++) {
        int32_t hole = space_hole(space, i, &at);
        largest = hole > largest ? hole : largest;
    }
    space->largest_hole = (uint16_t)largest;
}

/* How many pieces of this size fit in all holes together. */
static int32_t space_fits(const gs_space *space, int32_t size) {
    int32_t fits = 0, at;
    if (space->largest_hole < size)
        return 0;
    for (int32_t i = 0; i <= space->count; i++) {
        int32_t hole = space_hole(space, i, &at);
        fits += hole < size ? 0 : hole / size;
    }
    return fits;
}

/* First fit: takes the beginning of the first hole that is large enough. There must be one. */
static void space_take(gs_space *space, int32_t size, int32_t block) {
    int32_t at, i = 0;
    int32_t hole;
    while ((hole = space_hole(space, i, &at)) < size)
        i++;
    if (i < space->count)
        memmove(&space->pieces[i + 1], &space->pieces[i], (size_t)(space->count - i) * sizeof *space->pieces);
    space->pieces[i] = (gs_piece){(uint16_t)at, (uint16_t)size, block};
    space->count++;
    if (hole == space->largest_hole)
        space_measure(space);
}

/* The addresses of a ring count from an origin. When the memory at the origin is free, the origin moves back over the
   free memory before it, which is the hole at the end. So the addresses of all pieces grow by the size of that hole. */
static void move_origin(gs_space *space) {
    int32_t at, end;
    if (!space->count || !space_hole(space, 0, &at))
        return;
    end = space_hole(space, space->count, &at);
    for (int32_t i = 0; i < space->count && end; i++)
        space->pieces[i].at = (uint16_t)(space->pieces[i].at + end);
}

/* Gives back the piece with this number, and joins the holes beside it. */
static void give_back_piece(gs_space *space, int32_t i) {
    int32_t at;
    space->count--;
    memmove(&space->pieces[i], &space->pieces[i + 1], (size_t)(space->count - i) * sizeof *space->pieces);
    if (space->is_ring)
        move_origin(space);
    space->largest_hole = (uint16_t)gs_max(space->largest_hole, space_hole(space, i, &at));
    space->largest_hole = (uint16_t)gs_max(space->largest_hole, space_hole(space, 0, &at));
}

static void space_give_back(gs_space *space, int32_t block) {
    for (int32_t i = space->count - 1; i >= 0; i--)
        if (space->pieces[i].block == block)
            give_back_piece(space, i);
}

static int32_t space_free_in_all(const gs_space *space) {
    int32_t free_size = space->size;
    for (int32_t i = 0; i < space->count; i++)
        free_size -= space->pieces[i].size;
    return free_size;
}

/* ---- making a state ---- */

static bool keeps_shared_pieces(const gs_gpu *gpu) {
    return gpu->mechanisms.shared_allocation != GS_SPACE_COUNTED;
}

static bool keeps_register_pieces(const gs_gpu *gpu) {
    return gpu->mechanisms.registers == GS_REGISTERS_CONTIGUOUS;
}

static size_t pieces_per_sm(const gs_gpu *gpu) {
    size_t shared = keeps_shared_pieces(gpu) ? (size_t)gpu->limits.blocks_per_sm : 0;
    size_t registers = (size_t)gpu->warps_per_partition * (size_t)gpu->limits.partitions_per_sm;
    return shared + (keeps_register_pieces(gpu) ? registers : 0);
}

static void sm_attach_spaces(gs_state *state, int32_t number) {
    const gs_gpu *gpu = state->gpu;
    gs_sm *sm = &state->sms[number];
    gs_piece *pieces = state->pieces + (size_t)number * pieces_per_sm(gpu);
    if (keeps_shared_pieces(gpu)) {
        sm->shared_space.pieces = pieces;
        sm->shared_space.is_ring = gpu->mechanisms.shared_allocation == GS_SPACE_RING;
        pieces += gpu->limits.blocks_per_sm;
    }
    if (!keeps_register_pieces(gpu))
        return;
    sm->register_spaces = state->spaces + number * gpu->limits.partitions_per_sm;
    for (int32_t p = 0; p < gpu->limits.partitions_per_sm; p++) {
        sm->register_spaces[p].pieces = pieces + p * gpu->warps_per_partition;
        space_reset(&sm->register_spaces[p], gpu->registers_per_partition);
    }
}

static void sm_init(gs_state *state, int32_t number) {
    const gs_gpu *gpu = state->gpu;
    gs_sm *sm = &state->sms[number];
    sm->block_slots = number + 1 == gpu->skipped_sm ? 0 : gpu->limits.blocks_per_sm;
    sm->group = gpu->mechanisms.shared_scope == GS_SCOPE_TPC ? number / gpu->sms_per_tpc : number;
    for (int32_t p = 0; p < gpu->limits.partitions_per_sm; p++) {
        sm->warp_slots[p] = gpu->warps_per_partition;
        sm->registers[p] = gpu->registers_per_partition;
    }
    sm_attach_spaces(state, number);
    gs_group *group = &state->groups[sm->group];
    if (!group->sms++)
        group->first_sm = number;
}

gs_code gs_state_init(gs_state *state, const gs_gpu *gpu, gs_error *error) {
    size_t sms = (size_t)gpu->sms;
    *state = (gs_state){.gpu = gpu};
    state->sms = calloc(sms, sizeof *state->sms);
    state->groups = calloc(sms, sizeof *state->groups);
    state->residents = calloc(gs_gpu_most_blocks(gpu), sizeof *state->residents);
    state->in_cluster = calloc(gs_gpu_most_blocks(gpu), sizeof *state->in_cluster);
    state->pieces = calloc(sms * pieces_per_sm(gpu) + 1, sizeof *state->pieces);
    state->spaces = calloc(sms * GS_MAX_PARTITIONS, sizeof *state->spaces);
    if (!state->sms || !state->groups || !state->residents || !state->in_cluster || !state->pieces || !state->spaces) {
        gs_state_free(state);
        return gs_fail_memory(error);
    }
    for (int32_t i = 0; i < gpu->sms; i++)
        sm_init(state, i);
    state->group_count = state->sms[sms - 1].group + 1;
    for (size_t i = 0; i < gs_gpu_most_blocks(gpu); i++)
        state->residents[i] = (gs_resident){.need = -1, .sm = (int32_t)i + 1};
    state->residents[gs_gpu_most_blocks(gpu) - 1].sm = -1;
    return GS_OK;
}

void gs_state_free(gs_state *state) {
    free(state->sms);
    free(state->groups);
    free(state->residents);
    free(state->in_cluster);
    free(state->pieces);
    free(state->spaces);
    *state = (gs_state){0};
}

void gs_state_copy(gs_state *to, const gs_state *from) {
    const gs_gpu *gpu = from->gpu;
    size_t sms = (size_t)gpu->sms;
    memcpy(to->sms, from->sms, sms * sizeof *to->sms);
    memcpy(to->groups, from->groups, sms * sizeof *to->groups);
    memcpy(to->residents, from->residents, gs_gpu_most_blocks(gpu) * sizeof *to->residents);
    memcpy(to->in_cluster, from->in_cluster, gs_gpu_most_blocks(gpu) * sizeof *to->in_cluster);
    memcpy(to->pieces, from->pieces, sms * pieces_per_sm(gpu) * sizeof *to->pieces);
    for (int32_t i = 0; i < gpu->sms; i++) {
        sm_attach_spaces(to, i);
        for (int32_t p = 0; to->sms[i].register_spaces && p < gpu->limits.partitions_per_sm; p++) {
            gs_space *space = &to->sms[i].register_spaces[p];
            gs_piece *pieces = space->pieces;
            *space = from->sms[i].register_spaces[p];
            space->pieces = pieces;
        }
    }
    to->free_handle = from->free_handle;
    to->resident_count = from->resident_count;
    to->local_bytes = from->local_bytes;
}

/* ---- images ---- */

static void space_image(const gs_space *space, const int32_t *names, gs_text *image) {
    gs_text_put(image, (const char *)&space->count, sizeof space->count);
    gs_text_put(image, (const char *)&space->size, sizeof space->size);
    for (int32_t i = 0; i < space->count; i++) {
        const int32_t piece[] = {space->pieces[i].at, space->pieces[i].size, names[space->pieces[i].block]};
        gs_text_put(image, (const char *)piece, sizeof piece);
    }
}

static void sm_image(const gs_gpu *gpu, const gs_sm *sm, const int32_t *names, gs_text *image) {
    const int32_t numbers[] = {sm->block_slots, sm->pointer, sm->shared_free, sm->cluster_blocks};
    gs_text_put(image, (const char *)numbers, sizeof numbers);
    gs_text_put(image, (const char *)sm->warp_slots, sizeof sm->warp_slots);
    gs_text_put(image, (const char *)sm->registers, sizeof sm->registers);
    if (keeps_shared_pieces(gpu))
        space_image(&sm->shared_space, names, image);
    for (int32_t p = 0; sm->register_spaces && p < gpu->limits.partitions_per_sm; p++)
        space_image(&sm->register_spaces[p], names, image);
}

void gs_state_image(const gs_state *state, const int32_t *handles, const int32_t *names, gs_text *image) {
    gs_text_put(image, (const char *)&state->local_bytes, sizeof state->local_bytes);
    for (int32_t i = 0; i < state->gpu->sms; i++)
        sm_image(state->gpu, &state->sms[i], names, image);
    for (int32_t i = 0; i < state->group_count; i++) {
        const int32_t numbers[] = {state->groups[i].residents, state->groups[i].config_bytes, state->groups[i].is_warm};
        gs_text_put(image, (const char *)numbers, sizeof numbers);
    }
    for (int32_t i = 0; i < state->resident_count; i++) {
        const gs_resident *resident = &state->residents[handles[i]];
        const int32_t numbers[] = {resident->need, resident->sm, state->in_cluster[handles[i]]};
        gs_text_put(image, (const char *)numbers, sizeof numbers);
        gs_text_put(image, (const char *)resident->warps, sizeof resident->warps);
    }
}

/* ---- headroom ---- */

/* Warps of this kernel that one partition can still take. */
static inline int32_t partition_limit(const gs_sm *sm, const gs_need *need, int32_t partition) {
    int32_t slots = sm->warp_slots[partition], registers = sm->registers[partition];
    return slots * need->registers <= registers ? slots : registers / need->registers;
}

/* Warps that the SM can take in round-robin order from its pointer: as many full rounds as the fullest partition
   allows, and the warps before the first such partition comes up again (Algorithm 1, lines 14 to 24). */
static inline int32_t strict_limit(const gs_gpu *gpu, const gs_sm *sm, const gs_need *need, int32_t *stopper) {
    int32_t partitions = gpu->limits.partitions_per_sm, least = INT32_MAX, turns = 0, partition = sm->pointer;
    for (int32_t turn = 0; turn < partitions; turn++) {
        int32_t limit = partition_limit(sm, need, partition);
        if (limit < least) {
            least = limit;
            turns = turn;
        }
        partition = partition + 1 == partitions ? 0 : partition + 1;
    }
    *stopper = sm->pointer + turns < partitions ? sm->pointer + turns : sm->pointer + turns - partitions;
    return least * partitions + turns;
}

static int32_t free_limit(const gs_gpu *gpu, const gs_sm *sm, const gs_need *need) {
    int32_t limit = 0;
    for (int32_t p = 0; p < gpu->limits.partitions_per_sm; p++)
        limit += partition_limit(sm, need, p);
    return limit;
}

static inline int32_t warp_limit(const gs_gpu *gpu, const gs_sm *sm, const gs_need *need) {
    int32_t stopper;
    return gpu->mechanisms.warp_placement == GS_WARPS_STRICT ? strict_limit(gpu, sm, need, &stopper)
                                                             : free_limit(gpu, sm, need);
}

/* Blocks that the shared memory of a busy SM can take. In a ring all holes count, otherwise the largest. */
static inline int32_t shared_limit(const gs_sm *sm, const gs_need *need) {
    if (!need->shared)
        return GS_NO_LIMIT;
    return sm->shared_space.is_ring ? space_fits(&sm->shared_space, need->shared) : sm->shared_free / need->shared;
}

static inline bool config_suits(const gs_group *group, const gs_need *need) {
    return group->config_bytes >= need->config_bytes && group->config_bytes <= need->most_bytes;
}

/* Whether the group has a configuration that counts for this kernel: the group is busy, or was just now and has a
 * suitable one.
 */
static inline bool is_configured(const gs_group *group, const gs_need *need) {
    return group->residents || (group->is_warm && config_suits(group, need));
}

int32_t gs_state_headroom(const gs_state *state, const gs_need *need, int32_t number) {
    const gs_sm *sm = &state->sms[number];
    const gs_group *group = &state->groups[sm->group];
    int32_t headroom = sm->block_slots;
    int32_t by_shared = need->shared_when_idle;
    if (is_configured(group, need)) {
        if (!config_suits(group, need))
            return 0;
        by_shared = shared_limit(sm, need);
    }
    if (!headroom || !by_shared)
        return 0;
    int32_t by_warps = warp_limit(state->gpu, sm, need) / need->warps;
    headroom = by_shared < headroom ? by_shared : headroom;
    return by_warps < headroom ? by_warps : headroom;
}

bool gs_state_local_waits(const gs_state *state, const gs_need *need) {
    return state->gpu->mechanisms.local_growth_waits == GS_YES && state->resident_count &&
           need->shape.local_bytes > state->local_bytes;
}

/* ---- place and release ---- */

/* The first block on an idle group sets its configuration (Mechanism 3). */
static void group_configure(gs_state *state, gs_group *group, int32_t config_bytes) {
    int32_t granules = config_bytes / state->gpu->limits.shared_granularity_bytes;
    group->config_bytes = config_bytes;
    for (int32_t i = group->first_sm; i < group->first_sm + group->sms; i++) {
        state->sms[i].shared_free = granules;
        if (keeps_shared_pieces(state->gpu))
            space_reset(&state->sms[i].shared_space, granules);
    }
}

static void take_shared(const gs_gpu *gpu, gs_sm *sm, const gs_need *need, int32_t handle) {
    if (!keeps_shared_pieces(gpu)) {
        sm->shared_free -= need->shared;
    } else if (need->shared) {
        space_take(&sm->shared_space, need->shared, handle);
        sm->shared_free = sm->shared_space.largest_hole;
    }
}

static void take_warps(const gs_gpu *gpu, gs_sm *sm, const gs_need *need, int32_t partition, int32_t warps,
                       int32_t handle) {
    sm->warp_slots[partition] -= warps;
    if (!keeps_register_pieces(gpu)) {
        sm->registers[partition] -= warps * need->registers;
        return;
    }
    for (int32_t i = 0; i < warps; i++)
        space_take(&sm->register_spaces[partition], need->registers, handle);
    sm->registers[partition] = sm->register_spaces[partition].largest_hole;
}

/* Warps go to partitions round-robin from the pointer: the partition j steps after it gets the warps j, j + partitions,
   j + 2 partitions ... */
static void place_strict(const gs_gpu *gpu, gs_sm *sm, const gs_need *need, gs_resident *resident, int32_t handle) {
    int32_t partitions = gpu->limits.partitions_per_sm, partition = sm->pointer;
    int32_t rounds = need->warps / partitions, more = need->warps - rounds * partitions;
    for (int32_t turn = 0; turn < partitions && turn < need->warps; turn++) {
        int32_t warps = rounds + (turn < more);
        take_warps(gpu, sm, need, partition, warps, handle);
        resident->warps[partition] = (uint8_t)warps;
        partition = partition + 1 == partitions ? 0 : partition + 1;
    }
    int32_t pointer = sm->pointer + more;
    sm->pointer = pointer < partitions ? pointer : pointer - partitions;
}

static void place_free(const gs_gpu *gpu, gs_sm *sm, const gs_need *need, gs_resident *resident, int32_t handle) {
    int32_t partitions = gpu->limits.partitions_per_sm;
    for (int32_t warp = 0; warp < need->warps; warp++) {
        while (partition_limit(sm, need, sm->pointer) == 0)
            sm->pointer = (sm->pointer + 1) % partitions;
        take_warps(gpu, sm, need, sm->pointer, 1, handle);
        resident->warps[sm->pointer]++;
        sm->pointer = (sm->pointer + 1) % partitions;
    }
}

/* Mechanism 2.2. */
static void step_once_more(const gs_gpu *gpu, gs_sm *sm, const gs_need *need) {
    int32_t partitions = gpu->limits.partitions_per_sm;
    if (gpu->mechanisms.extra_step == GS_YES && need->warps % partitions == 0)
        sm->pointer = sm->pointer + 1 == partitions ? 0 : sm->pointer + 1;
}

int32_t gs_state_place(gs_state *state, const gs_need *need, int32_t need_number, int32_t number, bool in_cluster,
                       bool *group_changed) {
    gs_sm *sm = &state->sms[number];
    gs_group *group = &state->groups[sm->group];
    int32_t handle = state->free_handle;
    gs_resident *resident = &state->residents[handle];
    state->free_handle = resident->sm;
    *resident = (gs_resident){.need = need_number, .sm = number};
    *group_changed = group->residents == 0;
    if (!is_configured(group, need))
        group_configure(state, group, need->given_bytes);
    group->is_warm = false;
    group->residents++;
    state->resident_count++;
    sm->block_slots--;
    if (in_cluster) {
        sm->cluster_blocks++;
        state->in_cluster[handle] = true;
    }
    take_shared(state->gpu, sm, need, handle);
    if (state->gpu->mechanisms.warp_placement == GS_WARPS_STRICT)
        place_strict(state->gpu, sm, need, resident, handle);
    else
        place_free(state->gpu, sm, need, resident, handle);
    step_once_more(state->gpu, sm, need);
    state->local_bytes = gs_max(state->local_bytes, need->shape.local_bytes);
    return handle;
}

static void give_back_registers(const gs_gpu *gpu, gs_sm *sm, const gs_need *need, int32_t partition, int32_t warps,
                                int32_t handle) {
    if (!keeps_register_pieces(gpu)) {
        sm->registers[partition] += warps * need->registers;
        return;
    }
    space_give_back(&sm->register_spaces[partition], handle);
    sm->registers[partition] = sm->register_spaces[partition].largest_hole;
}

void gs_state_release(gs_state *state, const gs_need *need, int32_t handle, bool *group_changed) {
    const gs_gpu *gpu = state->gpu;
    gs_resident *resident = &state->residents[handle];
    gs_sm *sm = &state->sms[resident->sm];
    for (int32_t p = 0; p < gpu->limits.partitions_per_sm; p++) {
        if (!resident->warps[p])
            continue;
        sm->warp_slots[p] += resident->warps[p];
        give_back_registers(gpu, sm, need, p, resident->warps[p], handle);
    }
    if (!keeps_shared_pieces(gpu)) {
        sm->shared_free += need->shared;
    } else if (need->shared) {
        space_give_back(&sm->shared_space, handle);
        sm->shared_free = sm->shared_space.largest_hole;
    }
    sm->block_slots++;
    if (sm->cluster_blocks && state->in_cluster[handle]) {
        sm->cluster_blocks--;
        state->in_cluster[handle] = false;
    }
    state->resident_count--;
    gs_group *group = &state->groups[sm->group];
    *group_changed = --group->residents == 0;
    group->is_warm = *group_changed && gpu->mechanisms.shared_kept == GS_KEPT_FOR_WAITING;
    *resident = (gs_resident){.need = -1, .sm = state->free_handle};
    state->free_handle = handle;
}

/* Blocks that come and go move the origin of a ring, and with it the addresses of all other pieces. */
void gs_state_move(gs_state *state, const gs_mark *moves) {
    for (int32_t i = 0; i < state->gpu->sms; i++) {
        gs_sm *sm = &state->sms[i];
        sm->pointer = (sm->pointer + moves[i].pointer) % state->gpu->limits.partitions_per_sm;
        for (int32_t j = 0; moves[i].at && j < sm->shared_space.count; j++)
            sm->shared_space.pieces[j].at = (uint16_t)(sm->shared_space.pieces[j].at + moves[i].at);
        if (moves[i].at) {
            space_measure(&sm->shared_space);
            sm->shared_free = sm->shared_space.largest_hole;
        }
    }
}

void gs_state_warm(gs_state *state, int32_t group, int32_t config_bytes) {
    group_configure(state, &state->groups[group], config_bytes);
    state->groups[group].is_warm = true;
}

void gs_state_cool(gs_state *state, int32_t group) {
    state->groups[group].is_warm = false;
}

/* ---- why an SM has no headroom ---- */

static gs_obstacle warp_obstacle(const gs_gpu *gpu, const gs_sm *sm, const gs_need *need) {
    int32_t partitions = gpu->limits.partitions_per_sm;
    int32_t fits = free_limit(gpu, sm, need);
    gs_obstacle obstacle = {.partition = -1, .share = need->warps, .fits = fits, .others_could = fits >= need->warps};
    int32_t looked_at = sm->pointer;
    if (gpu->mechanisms.warp_placement == GS_WARPS_STRICT) {
        strict_limit(gpu, sm, need, &looked_at);
        int32_t turn = (looked_at - sm->pointer + partitions) % partitions;
        obstacle.partition = looked_at;
        obstacle.share = (need->warps - turn + partitions - 1) / partitions;
        obstacle.fits = partition_limit(sm, need, looked_at);
    }
    bool out_of_registers = sm->registers[looked_at] / need->registers < sm->warp_slots[looked_at];
    obstacle.kind = out_of_registers ? GS_OBSTACLE_REGISTERS : GS_OBSTACLE_WARP_SLOTS;
    return obstacle;
}

gs_obstacle gs_state_obstacle(const gs_state *state, const gs_need *need, int32_t number) {
    const gs_gpu *gpu = state->gpu;
    const gs_sm *sm = &state->sms[number];
    const gs_group *group = &state->groups[sm->group];
    if (group->residents && !config_suits(group, need))
        return (gs_obstacle){.kind = GS_OBSTACLE_CONFIG, .config_bytes = group->config_bytes};
    if (!sm->block_slots)
        return (gs_obstacle){.kind = GS_OBSTACLE_BLOCK_SLOTS};
    if (warp_limit(gpu, sm, need) < need->warps)
        return warp_obstacle(gpu, sm, need);
    if (group->residents && sm->shared_free < need->shared) {
        bool holes = keeps_shared_pieces(gpu) && space_free_in_all(&sm->shared_space) >= need->shared;
        return (gs_obstacle){.kind = holes ? GS_OBSTACLE_SHARED_HOLES : GS_OBSTACLE_SHARED};
    }
    return (gs_obstacle){.kind = GS_OBSTACLE_NONE};
}
