/*
 * proven.c: bounds in closed form: the paper's formula, and the theorems of docs/bounds.md.
 *
 * The theorems have the numbers of that document, which has the proofs. Each considers the warp that ends last: in a
 * cycle it either makes progress, or there is no place for it, because others do work that they do only once.
 * Everything is counted on the tree of the program, which takes microseconds at any size. Results over 2^60 cycles are
 * refused.
 */
#include "bound.h"

/* ---- the paper ---- */

gs_code gs_formula_cycles(int64_t warps, int64_t repetitions, int64_t *cycles, gs_error *error) {
    int64_t first = 0, more = 0;
    bool fits = gs_scale(warps, 3, 1, &first) && gs_scale(repetitions - 1, 2, 1, &more) &&
                gs_scale(warps, more, 1, &more) && gs_plus(&first, more) && gs_plus(&first, 2);
    *cycles = first;
    return fits ? GS_OK : gs_fail_large(error);
}

gs_code gs_formula_kernel(const int64_t *warps, size_t sms, int64_t repetitions, int64_t *cycles, gs_error *error) {
    gs_code code = GS_OK;
    *cycles = 0;
    for (size_t i = 0; i < sms && code == GS_OK; i++) {
        int64_t of_sm = 0;
        if (warps[i])
            code = gs_formula_cycles(warps[i], repetitions, &of_sm, error);
        *cycles = gs_max(*cycles, of_sm);
    }
    return code;
}

/* ---- properties of a program ---- */

static int64_t all_places(const gs_program *program) {
    int64_t places = 0;
    for (size_t i = 0; i < program->units.count; i++)
        places += program->units.data[i].warps;
    return places;
}

/* Whether a warp may not be selected although its unit has a place, because `issue` others are. */
static bool issue_binds(const gs_program *program, int64_t others) {
    return program->issue <= others && program->issue < all_places(program);
}

/* The distances, in phases, between the instructions on one unit in a part of the program. */
struct spacing {
    bool has;
    int64_t before, after; /* from the start of the part to the first; from the last to the end of the part */
    int64_t least;         /* the least between one and the next */
    int64_t length;
};

static struct spacing join_spacings(struct spacing a, struct spacing b) {
    struct spacing whole = {.has = a.has || b.has, .least = gs_min(a.least, b.least), .length = a.length + b.length};
    whole.before = a.has ? a.before : a.length + b.before;
    whole.after = b.has ? b.after : a.after + b.length;
    if (a.has && b.has)
        whole.least = gs_min(whole.least, a.after + b.before);
    return whole;
}

/* The totals of the program were counted before and fit, so no length overflows. */
static struct spacing spacing_of(const gs_program *program, int32_t unit, size_t from, size_t to) {
    struct spacing whole = {.least = INT64_MAX};
    for (size_t i = from; i < to; i = program->nodes.data[i].end) {
        const gs_node *node = &program->nodes.data[i];
        struct spacing part = {.has = node->unit == unit, .least = INT64_MAX, .after = node->latency};
        part.length = node->latency;
        if (node->unit == GS_REPEAT) {
            part = spacing_of(program, unit, i + 1, node->end);
            int64_t once = part.length;
            part = node->times > 1 ? join_spacings(part, part) : part;
            part.length = once * node->times;
        }
        whole = join_spacings(whole, part);
    }
    return whole;
}

/* Whether no two instructions in a row are on other units than `unit`. `*first`, `*last`: whether the first and the
   last of this part are on `unit`. */
static bool unit_alternates(const gs_program *program, int32_t unit, size_t from, size_t to, bool *first, bool *last) {
    bool holds = true;
    for (size_t i = from; i < to && holds; i = program->nodes.data[i].end) {
        const gs_node *node = &program->nodes.data[i];
        bool begins = node->unit == unit, ends = begins;
        if (node->unit == GS_REPEAT) {
            holds = unit_alternates(program, unit, i + 1, node->end, &begins, &ends);
            holds = holds && (node->times == 1 || begins || ends);
        }
        if (i == from)
            *first = begins;
        else
            holds = holds && (*last || begins);
        *last = ends;
    }
    return holds;
}

static bool all_take_one_cycle(const gs_program *program) {
    for (size_t i = 0; i < program->nodes.count; i++)
        if (program->nodes.data[i].unit != GS_REPEAT && program->nodes.data[i].latency != 1)
            return false;
    return true;
}

int gs_proven_bottleneck(const gs_program *program) {
    bool first, last;
    if (!all_take_one_cycle(program) || program->issue < all_places(program))
        return -1;
    for (int32_t unit = 0; unit < (int32_t)program->units.count; unit++)
        if (program->units.data[unit].warps == 1 &&
            unit_alternates(program, unit, 0, program->nodes.count, &first, &last) && last)
            return unit;
    return -1;
}

/* ---- Theorem 1: a warp among others ---- */

/* The work of other warps: their number, their instructions, and the cycles for which they hold places of each unit. */
struct work {
    int64_t warps, instructions, on_unit[GS_MOST_UNITS];
};

static bool add_work(struct work *work, const gs_program *program, const gs_totals *totals, int64_t warps) {
    int64_t more;
    bool fits = gs_plus(&work->warps, warps) && gs_scale(warps, totals->instructions, 1, &more) &&
                gs_plus(&work->instructions, more);
    for (size_t unit = 0; unit < program->units.count && fits; unit++)
        fits = gs_scale(warps, totals->on_unit[unit], 1, &more) &&
               gs_scale(more, program->units.data[unit].cycles, 1, &more) && gs_plus(&work->on_unit[unit], more);
    return fits;
}

/* The cycles in which a warp is not selected because `issue` others are. A unit that is held for one cycle is filled by
   warps that are selected in that cycle. Such cycles were counted as delays by the unit, so these instructions are
   subtracted. */
int64_t gs_issue_delay(const gs_program *program, int64_t instructions, const int64_t *unit_delays) {
    for (size_t i = 0; i < program->units.count; i++)
        if (program->units.data[i].cycles == 1)
            instructions -= program->units.data[i].warps * unit_delays[i];
    return instructions / program->issue;
}

bool gs_unit_can_fill(const gs_program *program, size_t unit) {
    const gs_unit *of = &program->units.data[unit];
    return of->cycles > 1 || of->warps < program->issue || program->issue >= all_places(program);
}

/* The latency of a warp and all its delays. */
static bool sum_delays(const gs_program *program, const gs_totals *own, const struct work *work,
                       const int64_t *unit_delays, int64_t *cycles) {
    bool fits = true;
    *cycles = own->latency;
    for (size_t unit = 0; unit < program->units.count && fits; unit++)
        fits = gs_plus(cycles, unit_delays[unit]);
    if (fits && issue_binds(program, work->warps))
        fits = gs_plus(cycles, gs_issue_delay(program, work->instructions, unit_delays));
    return fits;
}

static void find_delays(const gs_program *program, const gs_totals *own, const struct work *work, int64_t *delays) {
    for (size_t unit = 0; unit < program->units.count; unit++) {
        const gs_unit *of = &program->units.data[unit];
        bool can_fill = own->on_unit[unit] && work->warps >= of->warps && gs_unit_can_fill(program, unit);
        delays[unit] = can_fill ? work->on_unit[unit] / of->warps : 0;
    }
}

/* If all warps have the same program, and are always selected when there is a place, each visit to a unit is bounded
   too: every other warp can be there once before the first of them can come again. */
static void limit_visits(const gs_program *program, const gs_totals *own, const struct work *work, int64_t *delays) {
    for (int32_t unit = 0; unit < (int32_t)program->units.count; unit++) {
        const gs_unit *of = &program->units.data[unit];
        int64_t a_visit, visits;
        if (delays[unit] && gs_scale(work->warps, of->cycles, of->warps, &a_visit) &&
            a_visit < spacing_of(program, unit, 0, program->nodes.count).least &&
            gs_scale(a_visit, own->on_unit[unit], 1, &visits))
            delays[unit] = gs_min(delays[unit], visits);
    }
}

static bool among_equals(const gs_program *program, const gs_totals *totals, int64_t others, int64_t *cycles) {
    struct work work = {0};
    int64_t delays[GS_MOST_UNITS];
    if (!add_work(&work, program, totals, others))
        return false;
    find_delays(program, totals, &work, delays);
    if (!issue_binds(program, others))
        limit_visits(program, totals, &work, delays);
    return sum_delays(program, totals, &work, delays, cycles);
}

gs_code gs_proven_among(const gs_program *program, const gs_program *const *programs, const int64_t *others,
                        size_t count, int64_t *cycles, gs_error *error) {
    gs_totals own, totals;
    struct work work = {0};
    int64_t delays[GS_MOST_UNITS];
    gs_code code = gs_program_totals(program, &own, error);
    bool fits = true;
    for (size_t i = 0; i < count && code == GS_OK && fits; i++) {
        code = gs_program_totals(programs[i], &totals, error);
        fits = code != GS_OK || add_work(&work, program, &totals, others[i]);
    }
    if (code != GS_OK)
        return code;
    find_delays(program, &own, &work, delays);
    return fits && sum_delays(program, &own, &work, delays, cycles) ? GS_OK : gs_fail_large(error);
}

/* ---- the least bound of all theorems ---- */

gs_code gs_proven_cycles(const gs_program *program, int64_t warps, int64_t *cycles, gs_error *error) {
    gs_totals totals;
    gs_code code = gs_program_totals(program, &totals, error);
    if (code != GS_OK)
        return code;
    int64_t bound = GS_MOST_CYCLES, other = 0;
    bool any = among_equals(program, &totals, warps - 1, &bound);
    if (!any)
        bound = GS_MOST_CYCLES;
    if (gs_scale(warps, totals.latency, 1, &other)) /* Theorem 2: some warp makes progress in each cycle */
        bound = gs_min(bound, other), any = true;
    int unit = gs_proven_bottleneck(program);
    if (unit >= 0 && gs_scale(warps, totals.on_unit[unit], 1, &other) && /* Theorem 3 */
        gs_plus(&other, totals.instructions - totals.on_unit[unit]))
        bound = gs_min(bound, other), any = true;
    *cycles = bound;
    return any ? GS_OK : gs_fail_large(error);
}
