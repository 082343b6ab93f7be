/*
 * need.c: what a block of a kernel takes from a GPU, and how many an empty SM holds (occupancy).
 *
 * Registers are allocated to whole warps inside a partition. So an SM holds partitions × floor(registers of a partition
 * / registers of a warp) warps of a kernel, and not registers of the SM / registers of a warp. The shared-memory
 * configuration that a kernel needs is the smallest that holds all blocks that fit on an empty SM (Mechanism 3). If the
 * program requests a carve-out, that is used instead, or the smallest configuration that holds one block if the
 * carve-out does not. Then an empty SM holds as many blocks as fit in the configuration that it is given.
 */
#include "gpu.h"

bool gs_shape_equal(const gs_shape *a, const gs_shape *b) {
    return a->threads == b->threads && a->registers == b->registers && a->shared_bytes == b->shared_bytes &&
           a->local_bytes == b->local_bytes && a->carveout_percent == b->carveout_percent;
}

static int64_t shared_block_bytes(const gs_gpu *gpu, const gs_shape *shape) {
    const gs_limits *limits = &gpu->limits;
    int64_t granule = limits->shared_granularity_bytes;
    if (shape->shared_bytes == GS_BARE)
        return 0;
    return (gs_divide_up(shape->shared_bytes, granule) + gs_divide_up(limits->shared_reserved_bytes, granule)) *
           granule;
}

static gs_code fail_too_big(gs_error *error, const char *what, int64_t requested, int64_t most) {
    return gs_fail(error, GS_E_NO_FIT, "%s: %lld requested, at most %lld possible", what, (long long)requested,
                   (long long)most);
}

/* The limits of a single block. */
static gs_code check_block(const gs_gpu *gpu, const gs_shape *shape, gs_error *error) {
    const gs_limits *limits = &gpu->limits;
    bool is_negative = shape->shared_bytes < 0 && shape->shared_bytes != GS_BARE;
    if (shape->threads < 1 || shape->registers < 1 || is_negative || shape->local_bytes < 0 ||
        shape->carveout_percent < GS_NO_CARVEOUT || shape->carveout_percent > 100)
        return gs_fail(error, GS_E_USAGE,
                       "a block has at least 1 thread, 1 register a thread and 0 bytes of memory, "
                       "and a carve-out is 0 to 100 percent");
    if (shape->threads > limits->threads_per_block)
        return fail_too_big(error, "threads of a block", shape->threads, limits->threads_per_block);
    if (shape->registers > limits->registers_per_thread)
        return fail_too_big(error, "registers of a thread", shape->registers, limits->registers_per_thread);
    if (shape->shared_bytes > limits->shared_per_block_bytes)
        return fail_too_big(error, "bytes of shared memory of a block", shape->shared_bytes,
                            limits->shared_per_block_bytes);
    return GS_OK;
}

static gs_code explain_no_blocks(const gs_gpu *gpu, const gs_occupancy *occupancy, gs_error *error) {
    const gs_limits *limits = &gpu->limits;
    if (!occupancy->by_warps)
        return fail_too_big(error, "warps of a block", occupancy->warps_per_block, occupancy->warps_per_sm);
    if (!occupancy->by_shared)
        return fail_too_big(error, "bytes of shared memory of a block, with the runtime's share",
                            occupancy->shared_block_bytes, gpu->largest_config_bytes);
    return gs_fail(error, GS_E_NO_FIT,
                   "one block needs more registers than an SM has: each of its %d partitions has %d for its share of "
                   "%d warps",
                   limits->partitions_per_sm, limits->registers_per_sm / limits->partitions_per_sm,
                   occupancy->warps_per_block);
}

/* How many blocks each resource allows on its own, and all together, on an idle SM with this configuration. */
static void count_blocks(const gs_gpu *gpu, const gs_shape *shape, int64_t config_bytes, gs_occupancy *occupancy) {
    const gs_limits *limits = &gpu->limits;
    int64_t warp_registers =
        gs_divide_up((int64_t)shape->registers * limits->warp_threads, limits->register_granularity);
    int64_t block_bytes = shared_block_bytes(gpu, shape);
    occupancy->warps_per_block = (int32_t)gs_divide_up(shape->threads, limits->warp_threads);
    occupancy->warps_per_sm = gpu->warps_per_partition * limits->partitions_per_sm;
    occupancy->shared_block_bytes = block_bytes;
    occupancy->by_blocks = limits->blocks_per_sm;
    occupancy->by_warps = occupancy->warps_per_sm / occupancy->warps_per_block;
    occupancy->by_registers = (int32_t)(gpu->registers_per_partition / warp_registers * limits->partitions_per_sm /
                                        occupancy->warps_per_block);
    occupancy->by_shared = block_bytes ? (int32_t)(config_bytes / block_bytes) : GS_NO_LIMIT;
    const int32_t by[] = {occupancy->by_blocks, occupancy->by_warps, occupancy->by_registers, occupancy->by_shared};
    occupancy->blocks = by[0];
    for (size_t i = 1; i < GS_COUNT(by); i++)
        occupancy->blocks = (int32_t)gs_min(occupancy->blocks, by[i]);
    for (size_t i = 0; i < GS_COUNT(by); i++)
        if (by[i] == occupancy->blocks)
            occupancy->limits |= 1u << i;
}

/* The configuration that an idle SM of an H200 is given. If an SM takes only one block of a kernel, the kernel gets
   what it needs. Any other kernel gets enough for 32 blocks less one for each warp of a block. If it uses shared
   memory, that is at most twice the blocks that an SM takes. The result is at most 132 KB, but never less than the
   kernel needs. The formula agrees with all 5,256 recorded runs that measured configurations. */
static int32_t generous_bytes(const gs_gpu *gpu, const gs_shape *shape, const gs_occupancy *plain) {
    enum { MOST_BLOCKS = 32, MOST_BYTES = 132 * 1024 };
    int64_t need = gs_gpu_config_for(gpu, plain->blocks * plain->shared_block_bytes);
    int64_t blocks = MOST_BLOCKS - plain->warps_per_block;
    if (plain->blocks == 1 || blocks <= 0)
        return (int32_t)need;
    if (shape->shared_bytes)
        blocks = gs_min(blocks, 2 * plain->blocks);
    int64_t more = gs_min(MOST_BYTES, gs_gpu_config_for(gpu, blocks * plain->shared_block_bytes));
    return (int32_t)gs_max(more, need);
}

/* The configurations of a kernel: a busy SM must have `need` to `most`, and an idle one is `given` its own. */
struct configs {
    int32_t need, given, most;
};

/* A carve-out on an H200, as measured for 9 shapes at 46 percentages. The kernel needs the configuration for the blocks
   that the requested one holds. It is given the requested one, or the one for as many blocks as would fit in the
   percentage without the reserved bytes of the runtime, whichever is larger. It does not go to a busy SM that has more
   than that. */
static struct configs measured_carveout(const gs_gpu *gpu, const gs_shape *shape, const gs_occupancy *plain,
                                        int64_t wanted, int32_t requested) {
    int64_t block = plain->shared_block_bytes, granule = gpu->limits.shared_granularity_bytes;
    int64_t own = block - gs_divide_up(gpu->limits.shared_reserved_bytes, granule) * granule;
    int32_t more = own ? gs_gpu_config_for(gpu, wanted / own * block) : generous_bytes(gpu, shape, plain);
    int32_t given = (int32_t)gs_max(more, requested);
    int32_t need = block ? gs_gpu_config_for(gpu, gs_min(plain->blocks, requested / block) * block) : requested;
    return (struct configs){need, given, given};
}

/* `plain`: the occupancy of the kernel without its carve-out. */
static struct configs find_configs(const gs_gpu *gpu, const gs_shape *shape, const gs_occupancy *plain) {
    int given = gpu->mechanisms.shared_given;
    int64_t block = plain->shared_block_bytes;
    int64_t wanted = (int64_t)gpu->largest_config_bytes * shape->carveout_percent / 100;
    bool is_carved = shape->carveout_percent != GS_NO_CARVEOUT;
    int32_t need = gs_gpu_config_for(gpu, is_carved ? gs_max(wanted, block) : plain->blocks * block);
    if (given == GS_GIVEN_LARGEST)
        return (struct configs){need, gpu->largest_config_bytes, INT32_MAX};
    if (given == GS_GIVEN_NEED)
        return (struct configs){need, need, INT32_MAX};
    if (is_carved)
        return measured_carveout(gpu, shape, plain, wanted, need);
    return (struct configs){need, generous_bytes(gpu, shape, plain), INT32_MAX};
}

/* Without a carve-out, the configuration makes room for all blocks that the other resources allow, if any does. */
static gs_code occupancy_of(const gs_gpu *gpu, const gs_shape *shape, gs_occupancy *occupancy, struct configs *configs,
                            gs_error *error) {
    *occupancy = (gs_occupancy){0};
    gs_code code = check_block(gpu, shape, error);
    if (code != GS_OK)
        return code;
    count_blocks(gpu, shape, gpu->largest_config_bytes, occupancy);
    *configs = find_configs(gpu, shape, occupancy);
    occupancy->shared_config_bytes = configs->need;
    if (shape->carveout_percent != GS_NO_CARVEOUT) {
        *occupancy = (gs_occupancy){0};
        count_blocks(gpu, shape, configs->given, occupancy);
        occupancy->shared_config_bytes = configs->given;
    }
    return occupancy->blocks ? GS_OK : explain_no_blocks(gpu, occupancy, error);
}

void gs_occupancy_of(const gs_gpu *gpu, const gs_shape *shape, gs_occupancy *occupancy, gs_error *error) {
    struct configs configs;
    if (occupancy_of(gpu, shape, occupancy, &configs, error) == GS_OK && error)
        *error = (gs_error){.code = GS_OK};
}

gs_code gs_need_of(const gs_gpu *gpu, const gs_shape *shape, gs_need *need, gs_error *error) {
    const gs_limits *limits = &gpu->limits;
    gs_occupancy occupancy;
    struct configs configs;
    gs_code code = occupancy_of(gpu, shape, &occupancy, &configs, error);
    if (code != GS_OK)
        return code;
    int64_t block = occupancy.shared_block_bytes;
    *need = (gs_need){
        .shape = *shape,
        .warps = occupancy.warps_per_block,
        .registers =
            (int32_t)gs_divide_up((int64_t)shape->registers * limits->warp_threads, limits->register_granularity),
        .shared = (int32_t)(block / limits->shared_granularity_bytes),
        .blocks_per_sm = occupancy.blocks,
        .config_bytes = configs.need,
        .given_bytes = configs.given,
        .most_bytes = configs.most,
        .shared_when_idle = block ? (int32_t)(configs.given / block) : GS_NO_LIMIT,
    };
    return GS_OK;
}
