/*
 * pair_search.c: the search: first each kernel, then each pair, with their measurements.
 */
#include "search_state.h"

#include <stdlib.h>

struct gs_pair_search {
    const gs_gpu *gpu;
    gs_pair_search_options options;
    gs_room_fit fit;
    gs_pair_search_kernel *given;
    gs_found_kernel *kernels;
    size_t kernel_count;
    gs_found_pair *pairs;
    size_t pair_count;
    size_t next_kernel, next_pair; /* the first unfinished ones */
    gs_answers answers;
    gs_ways ways; /* of the next pair */
    bool is_listed;
};

static void number_pairs(gs_pair_search *search) {
    size_t number = 0;
    for (size_t first = 0; first < search->kernel_count; first++)
        for (size_t second = first + 1; second < search->kernel_count; second++, number++) {
            search->pairs[number].first = (int32_t)first;
            search->pairs[number].second = (int32_t)second;
        }
}

gs_pair_search *gs_pair_search_new(const gs_gpu *gpu, const gs_pair_search_kernel *kernels, size_t count,
                                   const gs_pair_search_options *options, gs_error *error) {
    gs_pair_search *search = calloc(1, sizeof *search);
    if (!search) {
        gs_fail_memory(error);
        return NULL;
    }
    *search = (gs_pair_search){.gpu = gpu, .options = *options, .kernel_count = count};
    search->pair_count = count * (count - (count > 0)) / 2;
    search->given = calloc(count + 1, sizeof *search->given);
    search->kernels = calloc(count + 1, sizeof *search->kernels);
    search->pairs = calloc(search->pair_count + 1, sizeof *search->pairs);
    gs_code code = search->given && search->kernels && search->pairs ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_room_fit_open(&search->fit, gpu, error);
    if (code != GS_OK) {
        gs_pair_search_free(search);
        return NULL;
    }
    memcpy(search->given, kernels, count * sizeof *kernels);
    number_pairs(search);
    return search;
}

void gs_pair_search_free(gs_pair_search *search) {
    if (!search)
        return;
    gs_room_fit_close(&search->fit);
    free(search->given);
    free(search->kernels);
    free(search->pairs);
    free(search->answers.data);
    free(search->ways.data);
    free(search);
}

/* ---- questions ---- */

static bool walk_kernels(gs_pair_search *search, gs_measurement *next) {
    for (; search->next_kernel < search->kernel_count; search->next_kernel++) {
        size_t i = search->next_kernel;
        gs_walk walk = {.answers = &search->answers};
        if (!gs_pair_search_alone(&walk, &search->fit, &search->given[i], (int32_t)i, &search->options,
                                  search->gpu->sms, &search->kernels[i])) {
            *next = walk.next;
            return true;
        }
    }
    return false;
}

static bool walk_pairs(gs_pair_search *search, gs_measurement *next, gs_error *error) {
    for (; search->next_pair < search->pair_count; search->next_pair++, search->is_listed = false) {
        gs_found_pair *pair = &search->pairs[search->next_pair];
        gs_walk walk = {.answers = &search->answers};
        struct gs_pair_question question = {.gpu = search->gpu,
                                            .fit = &search->fit,
                                            .given = {&search->given[pair->first], &search->given[pair->second]},
                                            .found = {&search->kernels[pair->first], &search->kernels[pair->second]},
                                            .options = &search->options};
        if (!gs_pair_search_pair(&walk, &question, &search->ways, &search->is_listed, pair, error)) {
            *next = walk.next;
            return error->code == GS_OK;
        }
    }
    return false;
}

bool gs_pair_search_next(gs_pair_search *search, gs_measurement *next, gs_error *error) {
    *error = (gs_error){.code = GS_OK};
    return walk_kernels(search, next) || walk_pairs(search, next, error);
}

gs_code gs_pair_search_add(gs_pair_search *search, const gs_measurement *measurement, const gs_measure_result *measured,
                           gs_error *error) {
    if (!GS_RESERVE(&search->answers, 1))
        return gs_fail_memory(error);
    search->answers.data[search->answers.count++] =
        (struct gs_pair_search_answer){.measurement = *measurement, .measured = *measured};
    return GS_OK;
}

/* ---- answers ---- */

size_t gs_pair_search_kernels(const gs_pair_search *search) {
    return search->kernel_count;
}

const gs_pair_search_kernel *gs_pair_search_given(const gs_pair_search *search, size_t kernel) {
    return &search->given[kernel];
}

const gs_found_kernel *gs_pair_search_kernel_at(const gs_pair_search *search, size_t kernel) {
    return &search->kernels[kernel];
}

size_t gs_pair_search_pairs(const gs_pair_search *search) {
    return search->pair_count;
}

const gs_found_pair *gs_pair_search_pair_at(const gs_pair_search *search, size_t pair) {
    return &search->pairs[pair];
}

const gs_gpu *gs_pair_search_gpu(const gs_pair_search *search) {
    return search->gpu;
}

double gs_pair_search_alone_us(const gs_pair_search *search, size_t kernel) {
    const gs_found_kernel *found = &search->kernels[kernel];
    return found->problem[0] || !(found->written_us > 0) ? 0 : gs_found_best_us(found);
}

bool gs_pair_search_model(const gs_pair_search *search, size_t kernel, gs_line_model *model) {
    enum { FEWEST = 2 };
    const gs_found_kernel *found = &search->kernels[kernel];
    const gs_pair_search_kernel *given = &search->given[kernel];
    gs_fit_point points[GS_SEARCH_GRIDS];
    double wave = (double)given->launches * found->forms[found->form].best * search->gpu->sms;
    for (int32_t i = 0; i < found->grid_count; i++)
        points[i] = (gs_fit_point){(double)given->blocks * found->grids[i].percent / 100, found->grids[i].us};
    return found->grid_count >= FEWEST && gs_wave_fit(points, (size_t)found->grid_count, wave, model) &&
           model->slope > 0;
}

int32_t gs_pair_search_leader(const gs_pair_search *search, const gs_shape *first, const gs_shape *second) {
    return gs_room_fit_leader(&search->fit, first, second);
}

int32_t gs_pair_search_room(gs_pair_search *search, const gs_shape *first, int32_t workers, const gs_shape *second) {
    return gs_room_fit_beside(&search->fit, first, workers, second, GS_MAX_BLOCKS_PER_SM);
}
