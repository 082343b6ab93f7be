/*
 * search_all.c: all ways to run a pair, to compare the plan with the best of them.
 *
 * Of many numbers of workers about EACH are chosen evenly; splits are multiples of a twelfth of the SMs.
 */
#include "search_state.h"

enum { EACH = 16, SPLITS = 12 };

struct every {
    const gs_found_pair *pair;
    gs_measurement *list;
    size_t count, most;
};

static gs_measurement *add_measurement(struct every *every, enum gs_measure measure) {
    const gs_found_pair *pair = every->pair;
    if (every->count == every->most)
        return NULL;
    gs_measurement *added = &every->list[every->count++];
    *added = (gs_measurement){.measure = measure,
                              .sides = {{.kernel = pair->first, .repeats = pair->repeats[0], .percent = 100},
                                        {.kernel = pair->second, .repeats = pair->repeats[1], .percent = 100}}};
    return added;
}

static void add_inside(struct every *every, int32_t form, int32_t workers, int32_t other_form, int32_t other_workers,
                       int32_t leader) {
    gs_measurement *added = add_measurement(every, GS_MEASURE_INTRA_SM);
    if (!added)
        return;
    added->sides[0].form = form;
    added->sides[0].workers = workers;
    added->sides[1].form = other_form;
    added->sides[1].workers = other_workers;
    added->leader = leader;
}

static int32_t step_of(int32_t most) {
    return (most + EACH - 1) / EACH;
}

static void add_forms(struct every *every, gs_pair_search *search, int32_t first, int32_t second) {
    const gs_pair_search_kernel *given[2] = {gs_pair_search_given(search, (size_t)every->pair->first),
                                             gs_pair_search_given(search, (size_t)every->pair->second)};
    const gs_found_form *form = &gs_pair_search_kernel_at(search, (size_t)every->pair->first)->forms[first];
    int32_t leader = gs_pair_search_leader(search, &given[0]->forms[first], &given[1]->forms[second]);
    for (int32_t workers = form->most; workers > 0; workers -= step_of(form->most)) {
        int32_t room = gs_pair_search_room(search, &given[0]->forms[first], workers, &given[1]->forms[second]);
        for (int32_t other = room; other > 0; other -= step_of(room))
            add_inside(every, first, workers, second, other, leader);
    }
}

static void add_splits(struct every *every, gs_pair_search *search) {
    int32_t sms = gs_pair_search_gpu(search)->sms;
    for (int32_t i = 1; i < SPLITS; i++) {
        gs_measurement *added = add_measurement(every, GS_MEASURE_SPLIT);
        for (int side = 0; added && side < 2; side++) {
            size_t kernel = (size_t)added->sides[side].kernel;
            added->sides[side].workers = gs_pair_search_kernel_at(search, kernel)->forms[0].most;
            added->sides[side].sms = side ? sms - sms * i / SPLITS : sms * i / SPLITS;
        }
    }
}

size_t gs_pair_search_all(gs_pair_search *search, size_t pair, gs_measurement *list, size_t most) {
    struct every every = {.pair = gs_pair_search_pair_at(search, pair), .list = list, .most = most};
    if (!every.pair->is_measured)
        return 0;
    add_measurement(&every, GS_MEASURE_SERIAL);
    for (int32_t first = 0; first < GS_SEARCH_FORMS; first++)
        for (int32_t second = 0; second < GS_SEARCH_FORMS; second++)
            if (gs_pair_search_kernel_at(search, (size_t)every.pair->first)->forms[first].most &&
                gs_pair_search_kernel_at(search, (size_t)every.pair->second)->forms[second].most)
                add_forms(&every, search, first, second);
    add_splits(&every, search);
    return every.count;
}
