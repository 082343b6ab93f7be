/*
 * search_all.c: all ways to run a pair, to compare the plan with the best of them.
 *
 * In sequence; each split of the SMs; and of intra-SM sharing each form of each kernel, each number of workers that
 * fits, and each limit of registers with which more of them fit. With a lower limit than is needed for these workers a
 * kernel is not faster, so only limits that cannot be raised are listed.
 *
 * Coarse: splits in steps of a thirty-second of the SMs, as the daemon splits them, and beside each number of workers
 * of the first kernel only the most of the second that fit.
 */
#include "search_state.h"

enum { MOST_LIMITS = 64 };

struct every {
    gs_pair_search *search;
    const gs_found_pair *pair;
    gs_measurements *list;
    bool is_coarse, failed;
};

/* The register limits of a form: as compiled (0), then each step down to the fewest. */
struct limits {
    gs_shape shapes[MOST_LIMITS];
    int32_t registers[MOST_LIMITS];
    int count;
};

static void list_limits(const struct every *every, int side, int32_t form, struct limits *limits) {
    size_t kernel = (size_t)(side ? every->pair->second : every->pair->first);
    const gs_pair_search_kernel *given = gs_pair_search_given(every->search, kernel);
    const gs_found_kernel *found = gs_pair_search_kernel_at(every->search, kernel);
    int32_t least = gs_least_registers(given, found, form), limit = gs_next_registers(given->forms[form].registers);
    limits->shapes[0] = given->forms[form];
    limits->registers[0] = 0;
    limits->count = 1;
    for (; limit >= least && limits->count < MOST_LIMITS; limit = gs_next_registers(limit)) {
        limits->shapes[limits->count] = given->forms[form];
        limits->shapes[limits->count].registers = limit;
        limits->registers[limits->count++] = limit;
    }
}

static void add_measurement(struct every *every, enum gs_measure measure, const gs_measure_side sides[2],
                            int32_t leader) {
    gs_measurement added = {.measure = measure, .sides = {sides[0], sides[1]}, .leader = leader};
    for (int i = 0; i < 2; i++) {
        added.sides[i].kernel = i ? every->pair->second : every->pair->first;
        added.sides[i].repeats = every->pair->repeats[i];
        added.sides[i].percent = 100;
    }
    every->failed = every->failed || !GS_PUSH(every->list, added);
}

/* How many workers of the second fit beside those of the first, by the limits of both. */
typedef int32_t room_table[MOST_LIMITS][MOST_LIMITS];

/* False: no worker of the second fits with any limits. */
static bool fill_rooms(const struct every *every, const struct limits limits[2], int32_t workers, room_table rooms) {
    const gs_shape *lowest = &limits[0].shapes[limits[0].count - 1], *other = &limits[1].shapes[limits[1].count - 1];
    if (!gs_pair_search_room(every->search, lowest, workers, other))
        return false;
    for (int i = 0; i < limits[0].count; i++)
        for (int k = 0; k < limits[1].count; k++)
            rooms[i][k] = gs_pair_search_room(every->search, &limits[0].shapes[i], workers, &limits[1].shapes[k]);
    return true;
}

/* The ways with these limits that do not fit with a higher limit of either. */
static void add_limited(struct every *every, const struct limits limits[2], int i, int k, room_table rooms,
                        gs_measure_side sides[2]) {
    int32_t least = (int32_t)gs_max(i ? rooms[i - 1][k] : 0, k ? rooms[i][k - 1] : 0);
    int32_t leader = gs_pair_search_leader(every->search, &limits[0].shapes[i], &limits[1].shapes[k]);
    sides[0].registers = limits[0].registers[i];
    sides[1].registers = limits[1].registers[k];
    for (sides[1].workers = rooms[i][k]; sides[1].workers > least; sides[1].workers--) {
        add_measurement(every, GS_MEASURE_INTRA_SM, sides, leader);
        if (every->is_coarse)
            return;
    }
}

static void add_forms(struct every *every, int32_t first, int32_t second) {
    struct limits limits[2];
    room_table rooms;
    gs_measure_side sides[2] = {{.form = first}, {.form = second}};
    list_limits(every, 0, first, &limits[0]);
    list_limits(every, 1, second, &limits[1]);
    for (sides[0].workers = GS_MAX_BLOCKS_PER_SM; sides[0].workers > 0; sides[0].workers--)
        if (fill_rooms(every, limits, sides[0].workers, rooms))
            for (int i = 0; i < limits[0].count; i++)
                for (int k = 0; k < limits[1].count; k++)
                    add_limited(every, limits, i, k, rooms, sides);
}

static void add_splits(struct every *every) {
    enum { COARSE = 32 };
    int32_t sms = gs_pair_search_gpu(every->search)->sms;
    int32_t step = every->is_coarse ? (int32_t)gs_max(sms / COARSE, 1) : 1;
    gs_measure_side sides[2] = {
        {.workers = gs_pair_search_kernel_at(every->search, (size_t)every->pair->first)->forms[0].most},
        {.workers = gs_pair_search_kernel_at(every->search, (size_t)every->pair->second)->forms[0].most}};
    for (sides[0].sms = step; sides[0].sms < sms; sides[0].sms += step) {
        sides[1].sms = sms - sides[0].sms;
        add_measurement(every, GS_MEASURE_SPLIT, sides, 0);
    }
}

gs_code gs_pair_search_all(gs_pair_search *search, size_t pair, bool is_coarse, gs_measurements *list,
                           gs_error *error) {
    struct every every = {
        .search = search, .pair = gs_pair_search_pair_at(search, pair), .list = list, .is_coarse = is_coarse};
    const gs_found_kernel *found[2] = {gs_pair_search_kernel_at(search, (size_t)every.pair->first),
                                       gs_pair_search_kernel_at(search, (size_t)every.pair->second)};
    if (!every.pair->is_measured)
        return GS_OK;
    add_measurement(&every, GS_MEASURE_SERIAL, (const gs_measure_side[2]){{0}}, 0);
    for (int32_t first = 0; first < GS_SEARCH_FORMS; first++)
        for (int32_t second = 0; second < GS_SEARCH_FORMS; second++)
            if (found[0]->forms[first].most && found[1]->forms[second].most)
                add_forms(&every, first, second);
    add_splits(&every);
    return every.failed ? gs_fail_memory(error) : GS_OK;
}
