/*
 * settings.c: the settings of the mechanisms by number, and which of them a run cannot tell apart.
 *
 * A setting has one value for each switch. Settings are numbered in a mixed radix: each switch is a digit with its own
 * base. Most switches do not matter to most runs (if nothing ends, memory has no holes). Two settings that differ only
 * in such switches are alike to the run, and only one of them is played.
 */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

int gs_setting_values(const gs_gpu *gpu, const gs_mechanism *mechanism) {
    int count = 0;
    while (mechanism->values[count])
        count++;
    if (mechanism->offset == offsetof(gs_mechanisms, tie_order) && !gpu->listed_order)
        return GS_TIES_LISTED;
    if (mechanism->offset == offsetof(gs_mechanisms, numbering) && !gpu->grants.groups.count)
        return GS_NUMBERED_BY_GRANT;
    return count;
}

size_t gs_setting_count(const gs_gpu *gpu) {
    size_t count = 1;
    for (size_t i = 0; i < gs_mechanism_count; i++)
        count *= (size_t)gs_setting_values(gpu, &gs_mechanism_table[i]);
    return count;
}

gs_mechanisms gs_setting_at(const gs_gpu *gpu, size_t number) {
    gs_mechanisms setting = {0};
    for (size_t i = gs_mechanism_count; i-- > 0;) {
        size_t values = (size_t)gs_setting_values(gpu, &gs_mechanism_table[i]);
        *gs_mechanism_value(&setting, &gs_mechanism_table[i]) = (int)(number % values);
        number /= values;
    }
    return setting;
}

static size_t number_of(const gs_gpu *gpu, gs_mechanisms setting) {
    size_t number = 0;
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        number = number * (size_t)gs_setting_values(gpu, mechanism) + (size_t)*gs_mechanism_value(&setting, mechanism);
    }
    return number;
}

/* ---- kinds of runs ---- */

unsigned gs_kind_of(const gs_run *run) {
    unsigned kind = GS_KIND_LATER | (gs_run_is_timed(run) ? GS_KIND_TIMED | GS_KIND_ENDS : 0);
    for (size_t i = 0; i < run->launches.count; i++) {
        kind |= run->launches.data[i].shape.local_bytes > 0 ? GS_KIND_LOCAL : 0;
        kind |= run->launches.data[i].exit != SIZE_MAX ? GS_KIND_ENDS : 0;
    }
    return kind;
}

/* Without durations a run counts up to the first launch that waits, so no start of a waiting kernel is observed: the
   queue does not matter, nor does a configuration for which a kernel waits. If nothing ends, memory has no holes. The
   first launch finds an idle GPU, on which growing local memory never waits. All its blocks have one size: they need
   one configuration; and if their warps are a multiple of the partitions, the partition of the first warp does not
   matter. */
gs_mechanisms gs_what_matters(gs_mechanisms setting, unsigned kind, bool block_by_block) {
    if (!(kind & GS_KIND_TIMED))
        setting.queue = setting.shared_kept = 0;
    if (!(kind & GS_KIND_LOCAL))
        setting.local_growth_waits = 0;
    if (!(kind & GS_KIND_ENDS))
        setting.shared_allocation = setting.registers = 0;
    if (!(kind & GS_KIND_LATER))
        setting.extra_step = setting.shared_scope = setting.local_growth_waits = 0;
    if (!block_by_block)
        setting.numbering = 0;
    return setting;
}

/* `seen` has an entry for each possible setting: the first of the list that was reduced to it. */
static void group_alike(const gs_gpu *gpu, const gs_mechanisms *settings, size_t count, unsigned kind,
                        bool block_by_block, uint32_t *seen, uint32_t *first) {
    memset(seen, -1, gs_setting_count(gpu) * sizeof *seen);
    for (size_t i = 0; i < count; i++) {
        uint32_t *same = &seen[number_of(gpu, gs_what_matters(settings[i], kind, block_by_block))];
        *same = *same == UINT32_MAX ? (uint32_t)i : *same;
        first[i] = *same;
    }
}

gs_code gs_alike_init(gs_alike *alike, const gs_gpu *gpu, const gs_mechanisms *settings, size_t count,
                      bool block_by_block, gs_error *error) {
    *alike = (gs_alike){0};
    uint32_t *seen = malloc(gs_setting_count(gpu) * sizeof *seen);
    gs_code code = seen ? GS_OK : gs_fail_memory(error);
    for (unsigned kind = 0; kind < GS_KINDS && code == GS_OK; kind++) {
        alike->first[kind] = malloc((count + 1) * sizeof *alike->first[kind]);
        if (alike->first[kind])
            group_alike(gpu, settings, count, kind, block_by_block, seen, alike->first[kind]);
        else
            code = gs_fail_memory(error);
    }
    free(seen);
    return code;
}

void gs_alike_clear(gs_alike *alike) {
    for (unsigned kind = 0; kind < GS_KINDS; kind++)
        free(alike->first[kind]);
    *alike = (gs_alike){0};
}
