/*
 * search_list.c: the ways of intra-SM sharing that are worth a measurement (ISPA 6.3, steps 1 to 3).
 *
 * For each pair of forms: each number of workers of the first, with as many of the second as fit beside them by the
 * predictor, and with more, as many as fit if one kernel, or both, are compiled with fewer registers. A way is dropped
 * if even without interference it would take as long as running in sequence (with equal loads, this is ISPA's rule that
 * half of the best number of workers must fit), or if fewer registers gain nothing.
 */
#include "search_state.h"

#include <math.h>
#include <stdlib.h>

/* With fewer registers than this part of a thread's, it would spill too much; and the allocation granularity. */
static const double REGISTERS_KEPT = 0.66;
enum { FEWEST_REGISTERS = 24, REGISTER_STEP = 8 };

struct listing {
    const struct gs_pair_question *question;
    const int32_t *repeats;
    double limit_us;
    gs_ways *ways;
    int32_t most_beside; /* of the second, seen so far, also with fewer registers */
    bool is_formed[2];   /* the kernel has a usable form */
    bool failed;
};

static gs_shape shape_of(const struct listing *listing, int side, const gs_way *way) {
    gs_shape shape = listing->question->given[side]->forms[way->form[side]];
    if (way->registers[side])
        shape.registers = way->registers[side];
    return shape;
}

static double least_us(const struct listing *listing, const gs_way *way) {
    return fmax(way->us[0] * listing->repeats[0], way->us[1] * listing->repeats[1]);
}

static void add_way(struct listing *listing, gs_way *way) {
    for (int i = 0; i < 2; i++) {
        const gs_found_form *form = &listing->question->found[i]->forms[way->form[i]];
        double had = listing->question->given[i]->forms[way->form[i]].registers;
        double missing = way->registers[i] ? 1 - way->registers[i] / had : 0;
        way->us[i] = gs_found_us(form, way->workers[i]) * (1 + missing * listing->question->found[i]->spills);
    }
    way->least_us = least_us(listing, way);
    if (way->least_us >= listing->limit_us)
        return;
    way->number = (int32_t)listing->ways->count;
    if (!GS_RESERVE(listing->ways, 1))
        listing->failed = true;
    else
        listing->ways->data[listing->ways->count++] = *way;
}

static int32_t workers_beside(const struct listing *listing, const gs_way *way, int32_t most) {
    gs_shape first = shape_of(listing, 0, way), second = shape_of(listing, 1, way);
    return gs_room_fit_beside(listing->question->fit, &first, way->workers[0], &second, most);
}

int32_t gs_least_registers(const gs_pair_search_kernel *given, const gs_found_kernel *found, int32_t form) {
    int32_t had = given->forms[form].registers;
    return found->keeps_registers ? had + 1 : (int32_t)fmax(FEWEST_REGISTERS, ceil(had * REGISTERS_KEPT));
}

int32_t gs_next_registers(int32_t registers) {
    return (registers - 1) / REGISTER_STEP * REGISTER_STEP;
}

static int32_t least_registers(const struct listing *listing, const gs_way *way, int side) {
    return gs_least_registers(listing->question->given[side], listing->question->found[side], way->form[side]);
}

/* Whether so many workers of the second fit if both have the fewest registers. */
static bool fits_limited(const struct listing *listing, gs_way way, int32_t workers) {
    for (int side = 0; side < 2; side++) {
        int32_t had = listing->question->given[side]->forms[way.form[side]].registers;
        int32_t least = least_registers(listing, &way, side);
        way.registers[side] = least < had ? (least + REGISTER_STEP - 1) / REGISTER_STEP * REGISTER_STEP : 0;
    }
    return workers_beside(listing, &way, workers) == workers;
}

/* The most registers for the kernel `side` with which the workers fit; 0: none. */
static int32_t find_registers(const struct listing *listing, gs_way way, int side) {
    int32_t had = listing->question->given[side]->forms[way.form[side]].registers;
    int32_t least = least_registers(listing, &way, side);
    for (int32_t limit = gs_next_registers(had); limit >= least; limit = gs_next_registers(limit)) {
        way.registers[side] = limit;
        if (workers_beside(listing, &way, way.workers[1]) == way.workers[1])
            return limit;
    }
    return 0;
}

/* Adds workers that fit only with fewer registers of the first kernel, of the second, or of both. */
static void add_limited(struct listing *listing, const gs_way *wanted) {
    gs_way way = *wanted;
    if ((way.registers[1] = find_registers(listing, way, 1)))
        add_way(listing, &way);
    way.registers[1] = 0;
    if ((way.registers[0] = find_registers(listing, way, 0)))
        add_way(listing, &way);
    int32_t had = listing->question->given[0]->forms[way.form[0]].registers;
    int32_t enough = way.registers[0], least = least_registers(listing, &way, 0);
    for (int32_t limit = gs_next_registers(had); limit > enough && limit >= least; limit = gs_next_registers(limit)) {
        way.registers[0] = limit;
        way.registers[1] = 0;
        if ((way.registers[1] = find_registers(listing, way, 1)))
            add_way(listing, &way);
    }
}

/* Adds fewer workers of the second than fit: if both kernels slow each other, it is best if both end at the same
   time. */
static void add_balanced(struct listing *listing, const gs_way *full) {
    const gs_found_form *forms[2] = {&listing->question->found[0]->forms[full->form[0]],
                                     &listing->question->found[1]->forms[full->form[1]]};
    double first_us = gs_found_us(forms[0], full->workers[0]) * listing->repeats[0];
    gs_way way = *full;
    while (way.workers[1] > 1 && gs_found_us(forms[1], way.workers[1]) * listing->repeats[1] <= first_us) {
        way.workers[1]--;
        add_way(listing, &way);
    }
}

/* One more than is best alone: beside another kernel it may have a larger part of what both use. */
static int32_t most_workers(const gs_found_form *form) {
    return (int32_t)gs_min(form->best + 1, form->most);
}

static void add_forms(struct listing *listing, int32_t first, int32_t second) {
    const gs_found_form *forms[2] = {&listing->question->found[0]->forms[first],
                                     &listing->question->found[1]->forms[second]};
    int32_t most[2] = {most_workers(forms[0]), most_workers(forms[1])};
    for (int32_t workers = most[0]; workers > 0; workers--) {
        gs_way way = {.form = {first, second}, .workers = {workers, 0}};
        way.workers[1] = workers_beside(listing, &way, most[1]);
        listing->most_beside = (int32_t)gs_max(listing->most_beside, way.workers[1]);
        if (way.workers[1] > 0) {
            add_way(listing, &way);
            add_balanced(listing, &way);
        }
        while (way.workers[1] < forms[1]->best && fits_limited(listing, way, way.workers[1] + 1)) {
            way.workers[1]++;
            listing->most_beside = (int32_t)gs_max(listing->most_beside, way.workers[1]);
            add_limited(listing, &way);
        }
    }
}

/* ---- dropping ways ---- */

/* Fewer registers allow more workers: if another way of the same forms is as fast without, they gain nothing. */
static bool is_for_nothing(const gs_ways *ways, const gs_way *way) {
    for (size_t i = 0; i < ways->count && (way->registers[0] || way->registers[1]); i++) {
        const gs_way *other = &ways->data[i];
        bool is_alike = other->form[0] == way->form[0] && other->form[1] == way->form[1];
        if (is_alike && !other->registers[0] && !other->registers[1] && other->us[0] <= way->us[0] &&
            other->us[1] <= way->us[1])
            return true;
    }
    return false;
}

static void drop_useless(gs_ways *ways) {
    size_t kept = 0;
    for (size_t i = 0; i < ways->count; i++)
        if (!is_for_nothing(ways, &ways->data[i]))
            ways->data[kept++] = ways->data[i];
    ways->count = kept;
}

static int by_promise(const void *a, const void *b) {
    const gs_way *first = a, *second = b;
    if (first->least_us != second->least_us)
        return first->least_us < second->least_us ? -1 : 1;
    return first->number < second->number ? -1 : 1;
}

static void say_why_none(struct listing *listing) {
    const struct gs_pair_question *question = listing->question;
    const char *first = question->given[0]->name, *second = question->given[1]->name;
    gs_ways *ways = listing->ways;
    for (int i = 0; i < 2; i++)
        if (!listing->is_formed[i]) {
            const gs_found_kernel *found = question->found[i];
            snprintf(ways->reason, sizeof ways->reason,
                     "%.60s takes %.0f%% longer if its blocks are taken from a queue", question->given[i]->name,
                     100 * (found->forms[found->form].best_us / found->written_us - 1));
            return;
        }
    int32_t needed = question->found[1]->forms[0].best;
    if (listing->most_beside >= needed)
        snprintf(ways->reason, sizeof ways->reason,
                 "too few blocks of both fit on an SM to be faster than in sequence");
    else if (listing->most_beside)
        snprintf(ways->reason, sizeof ways->reason, "beside %.60s only %d of the %d blocks per SM that %.60s needs fit",
                 first, listing->most_beside, needed, second);
    else
        snprintf(ways->reason, sizeof ways->reason, "no block of %.60s fits on an SM beside one of %.60s: it lacks %s",
                 second, first,
                 gs_room_fit_obstacle(question->fit, &question->given[0]->forms[0], 1, &question->given[1]->forms[0]));
}

gs_code gs_ways_list(const struct gs_pair_question *question, const int32_t repeats[2], double limit_us, gs_ways *ways,
                     gs_error *error) {
    struct listing listing = {.question = question, .repeats = repeats, .limit_us = limit_us, .ways = ways};
    ways->count = 0;
    ways->reason[0] = '\0';
    for (int32_t i = 0; i < 2 * GS_SEARCH_FORMS; i++)
        listing.is_formed[i % 2] |= question->found[i % 2]->forms[i / 2].is_used;
    for (int32_t first = 0; first < GS_SEARCH_FORMS; first++)
        for (int32_t second = 0; second < GS_SEARCH_FORMS; second++)
            if (question->found[0]->forms[first].is_used && question->found[1]->forms[second].is_used)
                add_forms(&listing, first, second);
    if (!ways->count)
        say_why_none(&listing);
    drop_useless(ways);
    if (ways->count)
        qsort(ways->data, ways->count, sizeof *ways->data, by_promise);
    return listing.failed ? gs_fail_memory(error) : GS_OK;
}
