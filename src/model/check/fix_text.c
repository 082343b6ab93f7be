/*
 * fix_text.c: a change of a fix in words that a CUDA programmer can act on.
 */
#include "check.h"

static const char *const kind_names[GS_FIX_KINDS] = {"order",  "stream",  "local",     "carveout", "green",
                                                     "blocks", "cluster", "registers", "shared"};

const char *gs_fix_kind_name(gs_fix_kind kind) {
    return kind_names[kind];
}

static void put_order(const gs_run *run, const gs_fix *fix, const gs_change *change, gs_text *text) {
    const gs_launch *launches = run->launches.data;
    if (change->launch == SIZE_MAX) {
        gs_text_add(text, "launch in this order: ");
        for (size_t i = 0; i < fix->order.count; i++)
            gs_text_add(text, "%s%s", i ? ", " : "", launches[fix->order.data[i]].kernel);
        return;
    }
    gs_text_add(text, "launch %s ", launches[change->launch].kernel);
    if (change->to == 0)
        gs_text_add(text, "first");
    else if ((size_t)change->to + 1 == fix->order.count)
        gs_text_add(text, "last");
    else
        gs_text_add(text, "before %s", launches[fix->order.data[change->to + 1]].kernel);
}

static void put_carveout(const char *kernel, const gs_change *change, gs_text *text) {
    if (change->to == GS_NO_CARVEOUT)
        gs_text_add(text, "%s without its carve-out of %lld percent", kernel, (long long)change->from);
    else
        gs_text_add(text, "%s with a carve-out of %lld percent", kernel, (long long)change->to);
}

static void put_green(const gs_gpu *gpu, const char *kernel, const gs_change *change, gs_text *text) {
    int32_t least, step;
    gs_gpu_green_sizes(gpu, &least, &step);
    gs_text_add(text, "a green context of %lld SMs for %s, and the other %lld SMs for the rest (multiples of %d",
                (long long)change->to, kernel, (long long)(gpu->sms - change->to), step);
    if (gpu->compute_capability)
        gs_text_add(text, " on compute capability %s", gpu->compute_capability);
    gs_text_add(text, ")");
}

/* "at most" if every smaller number works too. For combinations that is not known. */
static void put_amount(const char *kernel, const gs_fix *fix, const gs_change *change, const char *unit,
                       gs_text *text) {
    static const char *const words[] = {
        [GS_ANSWER_NO] = "exactly ", [GS_ANSWER_YES] = "at most ", [GS_ANSWER_UNKNOWN] = ""};
    gs_text_add(text, "%s with %s", kernel, fix->count > 1 ? "" : words[change->is_limit]);
    gs_text_put_grouped(text, change->to);
    gs_text_add(text, " %s%s", unit, change->to == 1 ? "" : "s");
}

static void put_blocks(const gs_gpu *gpu, const gs_launch *launch, const gs_fix *fix, const gs_change *change,
                       bool is_of_several, gs_text *text) {
    gs_occupancy occupancy;
    gs_occupancy_of(gpu, &launch->shape, &occupancy, NULL);
    put_amount(launch->kernel, fix, change, "block", text);
    if (occupancy.blocks == 1 && change->to < gpu->sms && !is_of_several)
        gs_text_add(text, " (leaves %lld SM%s free)", (long long)(gpu->sms - change->to),
                    gpu->sms - change->to == 1 ? "" : "s");
}

void gs_change_text(const gs_gpu *gpu, const gs_run *run, const gs_fix *fix, size_t number, gs_text *text) {
    const gs_change *change = &fix->changes[number];
    const gs_launch *launch = change->launch == SIZE_MAX ? NULL : &run->launches.data[change->launch];
    bool is_of_several = launch && change->launch + 1 < run->launches.count && launch[1].is_again;
    switch (change->kind) {
    case GS_FIX_ORDER:
        put_order(run, fix, change, text);
        break;
    case GS_FIX_STREAM:
        gs_text_add(text, "launch %s in a stream of its own", launch->kernel);
        break;
    case GS_FIX_LOCAL:
        gs_text_add(text, "run %s once before, so that local memory is set up for its ", launch->kernel);
        gs_text_put_grouped(text, change->to);
        gs_text_add(text, " bytes a thread");
        break;
    case GS_FIX_CARVEOUT:
        put_carveout(launch->kernel, change, text);
        break;
    case GS_FIX_GREEN:
        put_green(gpu, launch->kernel, change, text);
        break;
    case GS_FIX_BLOCKS:
        put_blocks(gpu, launch, fix, change, is_of_several, text);
        break;
    case GS_FIX_CLUSTER:
        if (change->to == 1)
            gs_text_add(text, "%s without clusters, instead of clusters of %lld", launch->kernel,
                        (long long)change->from);
        else
            gs_text_add(text, "%s with clusters of %lld instead of %lld", launch->kernel, (long long)change->to,
                        (long long)change->from);
        break;
    case GS_FIX_REGISTERS:
        put_amount(launch->kernel, fix, change, "register", text);
        gs_text_add(text, " a thread (-maxrregcount %lld)", (long long)change->to);
        break;
    case GS_FIX_SHARED:
        put_amount(launch->kernel, fix, change, "byte", text);
        gs_text_add(text, " of shared memory a block");
        break;
    case GS_FIX_KINDS:
        break;
    }
    bool is_need = change->kind == GS_FIX_CARVEOUT || change->kind >= GS_FIX_BLOCKS;
    if (is_of_several && is_need)
        gs_text_add(text, ", in each launch of it");
}
