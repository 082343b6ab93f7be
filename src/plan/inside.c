/*
 * inside.c: pairs of kernels that share SMs, as a plan has measured them.
 *
 * A daemon knows kernels by the names in their modules, and a plan by the names that its user gave. C++ functions have
 * their names in those of the modules: _Z5sgemmPKf... is sgemm. Other kernels, such as instances of templates, must
 * have the name of the module in the plan.
 *
 * What the plan says of a pair is one more way to run a team of two (team.c): each kernel on all SMs, with a number of
 * workers on each.
 */
#include "plan.h"

#include <stdlib.h>

/* A name without what surrounds it in a module. */
struct bare {
    const char *name;
    size_t length;
};

static struct bare bare_of(const char *name) {
    struct bare bare = {name, strlen(name)};
    char *end;
    if (strncmp(name, "_Z", 2) != 0 || name[2] < '1' || name[2] > '9')
        return bare;
    unsigned long length = strtoul(name + 2, &end, 10);
    return length <= strlen(end) ? (struct bare){end, length} : bare;
}

static bool is_same(const char *plan_name, struct bare bare) {
    return strlen(plan_name) == bare.length && memcmp(plan_name, bare.name, bare.length) == 0;
}

static uint64_t key_of(struct bare first, struct bare second) {
    return gs_hash(gs_hash(0, first.name, first.length), second.name, second.length);
}

static void copy_name(char *into, const char *name) {
    struct bare bare = bare_of(name);
    snprintf(into, GS_PROFILE_NAME, "%.*s", (int)gs_min_u64(bare.length, GS_PROFILE_NAME - 1), bare.name);
}

bool gs_inside_init(gs_inside *inside, const gs_plan_table *table) {
    *inside = (gs_inside){.data = calloc(table->pairs.count + 1, sizeof *inside->data)};
    for (size_t i = 0; inside->data && i < table->pairs.count; i++) {
        const gs_table_pair *pair = &table->pairs.data[i];
        gs_pair_rates rates;
        double residual;
        if (pair->option != GS_TABLE_INSIDE || pair->first_workers == 0 || pair->second_workers == 0 ||
            !gs_table_pair_rates(pair, &rates, &residual))
            continue;
        gs_inside_pair *kept = &inside->data[inside->count++];
        copy_name(kept->names[0], table->kernels.data[pair->first].name);
        copy_name(kept->names[1], table->kernels.data[pair->second].name);
        kept->key = key_of(bare_of(kept->names[0]), bare_of(kept->names[1]));
        kept->rates[0] = rates.first / (1 + 2 * residual); /* as the online scheduler expects it (partners.c) */
        kept->rates[1] = rates.second / (1 + 2 * residual);
        kept->workers[0] = pair->first_workers;
        kept->workers[1] = pair->second_workers;
    }
    return inside->data != NULL;
}

void gs_inside_clear(gs_inside *inside) {
    free(inside->data);
    *inside = (gs_inside){0};
}

static const gs_inside_pair *find_ordered(const gs_inside *inside, struct bare first, struct bare second) {
    uint64_t key = key_of(first, second);
    for (size_t i = 0; i < inside->count; i++) {
        const gs_inside_pair *pair = &inside->data[i];
        if (pair->key == key && is_same(pair->names[0], first) && is_same(pair->names[1], second))
            return pair;
    }
    return NULL;
}

const gs_inside_pair *gs_inside_find(const gs_inside *inside, const char *one, const char *other, int *first) {
    struct bare a = bare_of(one), b = bare_of(other);
    const gs_inside_pair *pair = find_ordered(inside, a, b);
    *first = pair ? 0 : 1;
    return pair ? pair : find_ordered(inside, b, a);
}

/* ---- what is measured ---- */

static double share_of(const gs_beside *beside, uint64_t ns) {
    double alone = beside->profile->alone;
    return alone > 0 ? (double)beside->blocks / (double)ns / alone : 0;
}

void gs_inside_measured(gs_inside *inside, const gs_beside *one, const gs_beside *other, uint64_t ns) {
    int first;
    const gs_inside_pair *found = gs_inside_find(inside, one->profile->name, other->profile->name, &first);
    double throughput = ns > 0 ? share_of(one, ns) + share_of(other, ns) : 0;
    if (found && throughput > 0)
        gs_samples_add(&inside->data[found - inside->data].throughput, throughput);
}

double gs_inside_throughput(const gs_inside_pair *pair) {
    enum { FEW = 3 };
    return pair->throughput.count >= FEW ? gs_samples_median(&pair->throughput) : pair->rates[0] + pair->rates[1];
}
