/*
 * compare.c: random programs: the proven bound against the exact worst case, and anomalies.
 *
 * Random programs and SMs are small enough for the search, and repeat from a seed and an index. To find an anomaly,
 * each relief is tried on a copy of the program.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

const double gs_quotients[GS_QUOTIENTS] = {1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 1e9};

/* ---- random programs ---- */

/* Draws instructions, and repetitions nested at most two deep; `budget` is the number of instructions still allowed. */
static bool draw_list(gs_random *random, gs_program *program, int depth, int *budget) {
    bool drawn = true;
    int64_t count = gs_random_from(random, 1, 4);
    for (int64_t i = 0; i < count && drawn && *budget > 0; i++) {
        if (!GS_RESERVE(&program->nodes, 1))
            return false;
        size_t at = program->nodes.count++;
        gs_node node = {.unit = GS_REPEAT, .times = gs_random_from(random, 1, 3), .end = at + 1};
        if (depth < 2 && *budget > 2 && gs_random_chance(random, 30)) {
            program->nodes.data[at] = node;
            *budget /= (int)node.times;
            drawn = draw_list(random, program, depth + 1, budget);
            program->nodes.data[at].end = program->nodes.count;
            continue;
        }
        node = (gs_node){.unit = (int32_t)gs_random_from(random, 0, (int64_t)program->units.count - 1), .end = at + 1};
        const gs_unit *unit = &program->units.data[node.unit];
        node.letter = unit->name[0];
        node.latency = unit->cycles + (gs_random_chance(random, 50) ? 0 : gs_random_from(random, 0, 3));
        program->nodes.data[at] = node;
        --*budget;
    }
    return drawn;
}

static bool draw_units(gs_random *random, gs_program *program) {
    static const char *const names[] = {"alu", "memory", "special"};
    int64_t count = gs_random_from(random, 1, 3);
    for (int64_t i = 0; i < count; i++) {
        gs_unit unit = {.name = strdup(names[i]),
                        .warps = gs_random_from(random, 1, 2),
                        .cycles = gs_random_chance(random, 70) ? 1 : gs_random_from(random, 1, 3)};
        if (!unit.name || !GS_PUSH(&program->units, unit)) {
            free(unit.name);
            return false;
        }
    }
    return true;
}

gs_program *gs_random_program(uint64_t seed, uint64_t index, int64_t *warps, gs_error *error) {
    gs_random random = gs_random_at(seed, index);
    gs_program *program = calloc(1, sizeof *program);
    int budget = 10;
    *warps = gs_random_from(&random, 1, 5);
    if (program)
        program->issue = gs_random_from(&random, 1, 4);
    if (program && draw_units(&random, program) && draw_list(&random, program, 0, &budget)) {
        program->warps = *warps;
        return program;
    }
    gs_program_free(program);
    gs_fail_memory(error);
    return NULL;
}

/* ---- comparing ---- */

/* The exact worst case of a small program, or -1. */
static int64_t exact_cycles(const gs_program *program, int64_t warps, gs_error *error) {
    gs_flat flat;
    gs_worst worst;
    gs_search_options options = {0};
    int64_t cycles = -1;
    if (gs_flat_make(&flat, program, error) != GS_OK)
        return -1;
    if (gs_search(&flat, warps, &options, &worst, error) == GS_OK && worst.exact)
        cycles = worst.cycles;
    gs_worst_clear(&worst);
    gs_flat_clear(&flat);
    return cycles;
}

static void add_quotient(gs_compared *compared, int64_t proven, int64_t exact, int64_t index) {
    double quotient = (double)proven / (double)exact;
    size_t at = 0;
    while (quotient > gs_quotients[at])
        at++;
    compared->by_quotient[at]++;
    compared->programs++;
    compared->sum += quotient;
    if (quotient > compared->worst) {
        compared->worst = quotient;
        compared->worst_index = index;
    }
    if (proven >= exact)
        return;
    compared->first_below = compared->below++ ? compared->first_below : index;
}

gs_code gs_compare(uint64_t seed, int64_t from, int64_t count, gs_compared *compared, gs_error *error) {
    gs_code code = GS_OK;
    for (int64_t i = from; i < from + count && code == GS_OK; i++) {
        int64_t warps, proven, exact = -1;
        gs_program *program = gs_random_program(seed, (uint64_t)i, &warps, error);
        code = program ? gs_proven_cycles(program, warps, &proven, error) : GS_E_MEMORY;
        if (code == GS_OK && (exact = exact_cycles(program, warps, error)) < 0)
            code = gs_fail(error, GS_E_UNSUPPORTED, "random program %lld is too large for the search", (long long)i);
        if (code == GS_OK)
            add_quotient(compared, proven, exact, i);
        gs_program_free(program);
    }
    return code;
}

/* ---- anomalies ---- */

const char *gs_relief_words(gs_relief relief) {
    static const char *const words[GS_RELIEFS] = {"fewer warps", "a shorter program", "a faster unit",
                                                  "a unit with more places"};
    return words[relief];
}

/* Removes the instruction that is node `number`. False: a list would become empty. */
static bool remove_node(gs_program *program, size_t number) {
    size_t parent = SIZE_MAX;
    for (size_t i = 0; i < number; i++)
        if (program->nodes.data[i].end > number)
            parent = i;
    size_t from = parent == SIZE_MAX ? 0 : parent + 1;
    size_t to = parent == SIZE_MAX ? program->nodes.count : program->nodes.data[parent].end;
    if (to - from == 1)
        return false;
    for (size_t i = number; i + 1 < program->nodes.count; i++)
        program->nodes.data[i] = program->nodes.data[i + 1];
    program->nodes.count--;
    for (size_t i = 0; i < program->nodes.count; i++)
        program->nodes.data[i].end -= program->nodes.data[i].end > number;
    return true;
}

/* Applies a relief to the node or unit with this number. False: it does not apply there. */
static bool apply_relief(gs_program *program, int64_t *warps, gs_relief relief, size_t number) {
    gs_node *node = number < program->nodes.count ? &program->nodes.data[number] : NULL;
    switch (relief) {
    case GS_FEWER_WARPS:
        return number == 0 && --*warps > 0;
    case GS_SHORTER:
        return node && node->unit != GS_REPEAT && remove_node(program, number);
    case GS_FASTER_UNIT:
        if (!node || node->unit == GS_REPEAT || node->latency <= program->units.data[node->unit].cycles)
            return false;
        node->latency--;
        return true;
    case GS_MORE_PLACES:
        if (number >= program->units.count)
            return false;
        program->units.data[number].warps++;
        return true;
    case GS_RELIEFS:
        break;
    }
    return false;
}

static int64_t one_order_cycles(const gs_program *program, int64_t warps) {
    gs_flat flat;
    gs_schedule schedule;
    int64_t cycles = -1;
    if (gs_flat_make(&flat, program, NULL) != GS_OK)
        return -1;
    if (gs_schedule_play(&flat, warps, GS_WARP_BY_WARP, false, &schedule, NULL) == GS_OK)
        cycles = schedule.cycles;
    gs_schedule_clear(&schedule);
    gs_flat_clear(&flat);
    return cycles;
}

static int64_t end_of(const gs_program *program, int64_t warps, bool one_order) {
    return one_order ? one_order_cycles(program, warps) : exact_cycles(program, warps, NULL);
}

static bool try_relief(const gs_program *program, int64_t warps, int64_t cycles, gs_relief relief, size_t number,
                       gs_anomaly *anomaly) {
    gs_program *after = gs_program_copy(program, NULL);
    int64_t warps_after = warps, later = -1;
    if (after && apply_relief(after, &warps_after, relief, number))
        later = end_of(after, warps_after, anomaly->one_order);
    if (later <= cycles) {
        gs_program_free(after);
        return false;
    }
    anomaly->relief = relief;
    anomaly->before = gs_program_copy(program, NULL);
    anomaly->after = after;
    anomaly->warps_before = warps;
    anomaly->warps_after = warps_after;
    anomaly->cycles_before = cycles;
    anomaly->cycles_after = later;
    after->warps = warps_after;
    return true;
}

bool gs_find_anomaly(const gs_program *program, int64_t warps, bool one_order, gs_anomaly *anomaly) {
    *anomaly = (gs_anomaly){.one_order = one_order};
    int64_t cycles = end_of(program, warps, one_order);
    size_t places = gs_max_u64(program->nodes.count, program->units.count);
    for (gs_relief relief = 0; cycles >= 0 && relief < GS_RELIEFS; relief++)
        for (size_t number = 0; number < places; number++)
            if (try_relief(program, warps, cycles, relief, number, anomaly))
                return true;
    return false;
}

void gs_anomaly_clear(gs_anomaly *anomaly) {
    gs_program_free(anomaly->before);
    gs_program_free(anomaly->after);
    *anomaly = (gs_anomaly){0};
}
