/*
 * part.c: a GPU with fewer or more SMs: the part of a green context, or a smaller model of the same family.
 *
 * Limits and mechanisms stay. Ties are broken in the same order, without the missing SMs. As long as TPCs are whole,
 * the number of blocks that fit does not depend on which SMs a part has. For clusters, which lie in a GPC, it does, so
 * the part is described without GPCs and without clusters.
 */
#include "gpu.h"

#include <stdlib.h>

static void drop_groups(gs_sm_groups *groups) {
    free(groups->sms);
    free(groups->ends);
    *groups = (gs_sm_groups){0};
}

void gs_gpu_drop_grants(gs_gpu *gpu) {
    drop_groups(&gpu->grants.groups);
    drop_groups(&gpu->grants.cluster_first);
    free(gpu->grants.before_cut);
    gpu->grants = (gs_grants){0};
}

static void drop_topology(gs_gpu *gpu) {
    drop_groups(&gpu->gpc_sms);
    gs_gpu_drop_grants(gpu);
    gpu->gpcs = 0;
    gpu->mechanisms.numbering = GS_NUMBERED_AS_PLACED;
}

static void drop_ties(gs_gpu *gpu, int32_t sms) {
    int32_t kept = 0;
    if (gpu->mechanisms.tie_order != GS_TIES_LISTED)
        return;
    if (sms > gpu->sms) {
        gpu->mechanisms.tie_order = GS_TIES_EVEN_ODD;
        return;
    }
    for (int32_t i = 0; i < gpu->sms; i++)
        if (gpu->listed_order[i] < sms)
            gpu->listed_order[kept++] = gpu->listed_order[i];
}

gs_gpu *gs_gpu_part(const gs_gpu *gpu, int32_t sms, gs_error *error) {
    if (sms < 1 || sms > GS_MAX_SMS) {
        gs_fail(error, GS_E_USAGE, "a GPU has 1 to %d SMs, not %d", GS_MAX_SMS, sms);
        return NULL;
    }
    gs_gpu *part = gs_gpu_copy(gpu, error);
    if (!part)
        return NULL;
    drop_topology(part);
    drop_ties(part, sms);
    part->sms = sms;
    return part;
}

gs_code gs_gpu_assume_like(gs_gpu *gpu, gs_error *error) {
    gs_text name = {0}, words = {0};
    gs_text_add(&name, "like-%s", gpu->name);
    gs_text_add(&words, "limits and mechanisms of %s, assumed for a GPU with %d SMs", gpu->name, gpu->sms);
    if (name.failed || words.failed) {
        gs_text_free(&name);
        gs_text_free(&words);
        return gs_fail_memory(error);
    }
    free(gpu->name);
    free(gpu->assumed);
    gpu->name = name.data;
    gpu->assumed = words.data;
    return GS_OK;
}

int gs_gpu_architecture(const gs_gpu *gpu) {
    int major = 0, minor = 0;
    if (gpu->compute_capability)
        sscanf(gpu->compute_capability, "%d.%d", &major, &minor);
    return 10 * major + minor;
}

void gs_gpu_green_sizes(const gs_gpu *gpu, int32_t *least, int32_t *step) {
    int major = gs_gpu_architecture(gpu) / 10;
    *step = major >= 9 ? 8 : 2;
    *least = major >= 9 ? 8 : major == 8 ? 4 : 2;
}
