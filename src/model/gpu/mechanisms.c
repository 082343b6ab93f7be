/*
 * mechanisms.c: the mechanisms in which schedulers differ, and the policies of the literature in terms of them.
 *
 * A mechanism is a row here and an int in gs_mechanisms. The reader of descriptions, the command line and the help
 * texts all use this table. The first value of each is what the paper found on Ampere.
 */
#include "gpu.h"

#include <string.h>

#define ROW(field) #field, offsetof(gs_mechanisms, field)

const gs_mechanism gs_mechanism_table[] = {
    {ROW(placement), {"most-room", "round-robin", NULL}, "which SM gets a block"},
    {ROW(tie_order),
     {"even-odd", "ascending", "listed", NULL},
     "which SM among equals; a list of SMs in a description"},
    {ROW(warp_placement), {"strict", "free", NULL}, "warps go to partitions round-robin, or step aside"},
    {ROW(extra_step), {"yes", "no", NULL}, "one more step after a block whose warps are a multiple of the partitions"},
    {ROW(shared_scope), {"tpc", "sm", NULL}, "what a shared-memory configuration belongs to"},
    {ROW(shared_given), {"need", "largest", "generous", NULL}, "the configuration that an idle TPC or SM is given"},
    {ROW(shared_kept),
     {"while-busy", "for-waiting", NULL},
     "an idle TPC or SM loses its configuration at once, or a kernel that waited for it finds it there"},
    {ROW(shared_allocation),
     {"contiguous", "counted", "ring", NULL},
     "shared memory in one piece, first fit; counted; or in one piece of a ring"},
    {ROW(registers), {"renamed", "contiguous", NULL}, "registers of a warp anywhere, or in one piece"},
    {ROW(local_growth_waits), {"yes", "no", NULL}, "more local memory waits for an idle GPU"},
    {ROW(queue), {"in-order", "overtaking", NULL}, "a waiting kernel holds up later ones, or not"},
    {ROW(numbering),
     {"as-placed", "by-grant", NULL},
     "blocks are numbered in the order of placement, or as groups of SMs are granted, where those are described"},
};
const size_t gs_mechanism_count = GS_COUNT(gs_mechanism_table);

/* Papers from before partitions were known count each resource of an SM as one pool, and have no configurations. Values
   that are not named here are 0, those of the scheduler paper. */
#define POOLED                                                                                                         \
    .warp_placement = GS_WARPS_FREE, .extra_step = GS_NO, .shared_scope = GS_SCOPE_SM,                                 \
    .shared_given = GS_GIVEN_LARGEST, .shared_allocation = GS_SPACE_COUNTED, .local_growth_waits = GS_NO

const gs_policy gs_policy_table[] = {
    {"paper", NULL, "Algorithm 1 of the scheduler paper, as found on Ampere", {0}},
    {"most-room",
     "leftover/most-room",
     "leftover: a kernel takes what earlier ones left; each block goes where most of its kind fit",
     {.placement = GS_PLACEMENT_MOST_ROOM, POOLED}},
    {"round-robin",
     NULL,
     "the next SM, round-robin, that has the resources",
     {.placement = GS_PLACEMENT_ROUND_ROBIN, .tie_order = GS_TIES_ASCENDING, POOLED}},
};
const size_t gs_policy_count = GS_COUNT(gs_policy_table);

const gs_mechanism *gs_mechanism_find(const char *name) {
    for (size_t i = 0; i < gs_mechanism_count; i++)
        if (strcmp(gs_mechanism_table[i].name, name) == 0)
            return &gs_mechanism_table[i];
    return NULL;
}

int *gs_mechanism_value(gs_mechanisms *mechanisms, const gs_mechanism *mechanism) {
    return (int *)(void *)((char *)mechanisms + mechanism->offset);
}

static gs_code fail_unknown_mechanism(const char *name, gs_error *error) {
    gs_text known = {0};
    for (size_t i = 0; i < gs_mechanism_count; i++)
        gs_text_add(&known, "%s%s", i ? ", " : "", gs_mechanism_table[i].name);
    gs_fail(error, GS_E_USAGE, "unknown mechanism \"%.60s\"; known: %s", name, known.data ? known.data : "");
    gs_text_free(&known);
    return GS_E_USAGE;
}

/* Some values need a list in the description. */
static bool lacks_data(const gs_gpu *gpu, const int *mechanism, int value) {
    if (mechanism == &gpu->mechanisms.tie_order && value == GS_TIES_LISTED)
        return !gpu->listed_order;
    return mechanism == &gpu->mechanisms.numbering && value == GS_NUMBERED_BY_GRANT && !gpu->grants.groups.count;
}

gs_code gs_gpu_set(gs_gpu *gpu, const char *name, const char *value, gs_error *error) {
    const gs_mechanism *mechanism = gs_mechanism_find(name);
    if (!mechanism)
        return fail_unknown_mechanism(name, error);
    int *chosen = gs_mechanism_value(&gpu->mechanisms, mechanism);
    gs_text known = {0};
    for (int i = 0; mechanism->values[i]; i++) {
        if (lacks_data(gpu, chosen, i))
            continue;
        if (strcmp(mechanism->values[i], value) == 0) {
            *chosen = i;
            gs_text_free(&known);
            return GS_OK;
        }
        gs_text_add(&known, "%s%s", i ? ", " : "", mechanism->values[i]);
    }
    gs_fail(error, GS_E_USAGE, "%s cannot be \"%.60s\"; it can be: %s", name, value, known.data ? known.data : "");
    gs_text_free(&known);
    return GS_E_USAGE;
}

gs_code gs_gpu_use(gs_gpu *gpu, const char *name, gs_error *error) {
    gs_text known = {0};
    for (size_t i = 0; i < gs_policy_count; i++) {
        const gs_policy *policy = &gs_policy_table[i];
        if (strcmp(policy->name, name) == 0 || (policy->alias && strcmp(policy->alias, name) == 0)) {
            gpu->mechanisms = policy->mechanisms;
            gs_text_free(&known);
            return GS_OK;
        }
        gs_text_add(&known, "%s%s", i ? ", " : "", policy->name);
    }
    gs_fail(error, GS_E_USAGE, "unknown policy \"%.60s\"; known: %s", name, known.data ? known.data : "");
    gs_text_free(&known);
    return GS_E_USAGE;
}
