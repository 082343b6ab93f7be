/*
 * groups.c: the SMs in the order in which they are drawn: by GPC, then by number; and the share of an SM that a block
 * takes.
 *
 * The GPCs are those of the description. If it only has groups of grants, these are used: they are the GPCs, and before
 * them the SMs that are served first (docs/hopper.md). Otherwise all SMs are one group.
 */
#include "scene.h"

#include <stdlib.h>

static bool add_group(gs_scene *scene, const char *word, int32_t number, int32_t first, int32_t count) {
    if (!GS_RESERVE(&scene->groups, 1))
        return false;
    gs_scene_group *group = &scene->groups.data[scene->groups.count++];
    *group = (gs_scene_group){.first = first, .count = count};
    if (number < 0)
        snprintf(group->name, sizeof group->name, "%s", word);
    else
        snprintf(group->name, sizeof group->name, "%s %d", word, number);
    return true;
}

/* Adds the groups of a description. The first `front` groups go before the others. */
static bool add_listed(gs_scene *scene, const gs_sm_groups *groups, int32_t front, bool *is_listed) {
    int32_t at = 0;
    for (int32_t i = 0; i < groups->count; i++) {
        int32_t from = i ? groups->ends[i - 1] : 0, count = groups->ends[i] - from;
        for (int32_t j = 0; j < count; j++) {
            scene->sms[at + j] = groups->sms[from + j];
            is_listed[groups->sms[from + j]] = true;
        }
        if (!add_group(scene, i < front ? "front" : "GPC", i < front ? i : i - front, at, count))
            return false;
        at += count;
    }
    return true;
}

/* SMs that are in no group. */
static bool add_others(gs_scene *scene, const bool *is_listed) {
    size_t groups = scene->groups.count;
    int32_t at = groups ? scene->groups.data[groups - 1].first + scene->groups.data[groups - 1].count : 0, first = at;
    for (int32_t sm = 0; sm < scene->gpu->sms; sm++)
        if (!is_listed[sm])
            scene->sms[at++] = sm;
    return at == first || add_group(scene, groups ? "other SMs" : "SMs", -1, first, at - first);
}

gs_code gs_scene_add_groups(gs_scene *scene, gs_error *error) {
    const gs_gpu *gpu = scene->gpu;
    bool *is_listed = calloc((size_t)gpu->sms + 1, sizeof *is_listed), done = true;
    scene->sms = calloc((size_t)gpu->sms + 1, sizeof *scene->sms);
    if (!is_listed || !scene->sms) {
        free(is_listed);
        return gs_fail_memory(error);
    }
    if (gpu->gpc_sms.count)
        done = add_listed(scene, &gpu->gpc_sms, 0, is_listed);
    else if (gpu->grants.groups.count)
        done = add_listed(scene, &gpu->grants.groups, gpu->grants.first, is_listed);
    done = done && add_others(scene, is_listed);
    free(is_listed);
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- the share of an SM that a block takes ---- */

/* The larger of two shares; the second is `of` out of `all`. */
static double larger_share(double share, int64_t of, int64_t all) {
    double other = (double)of / (double)gs_max(all, 1);
    return share > other ? share : other;
}

gs_share gs_share_of(const gs_gpu *gpu, const gs_shape *shape) {
    const gs_limits *limits = &gpu->limits;
    gs_need need;
    gs_error error;
    gs_share share = {.most = larger_share(0, 1, limits->blocks_per_sm)};
    if (gs_need_of(gpu, shape, &need, &error) != GS_OK)
        return share;
    share.warps = need.warps;
    share.registers = need.warps * need.registers * limits->register_granularity;
    share.shared_bytes = (int64_t)need.shared * limits->shared_granularity_bytes;
    share.most = larger_share(share.most, share.warps, gpu->warps_per_partition * limits->partitions_per_sm);
    share.most = larger_share(share.most, share.registers, limits->registers_per_sm);
    share.most = larger_share(share.most, share.shared_bytes, gpu->largest_config_bytes);
    return share;
}
