/*
 * alike.c: the rows of a scene: identical SMs of one group form one row.
 *
 * Two SMs are identical if they have equal numbers of blocks of the same launches from and to the same times, both in
 * the layer that is shown and in the measured one. SMs are compared by a hash of these.
 */
#include "scene.h"

#include <stdlib.h>

static uint64_t hash_sm(const gs_scene *scene, int32_t sm) {
    uint64_t hash = 0;
    for (int i = 0; i < 2; i++) {
        const gs_scene_layer *layer = &scene->layers[i];
        for (size_t j = layer->first[sm]; j < layer->first[sm + 1]; j++) {
            const gs_stay *stay = &layer->stays.data[j];
            const int64_t keys[] = {i, stay->launch, stay->from, stay->to};
            hash = gs_hash(hash, keys, sizeof keys);
        }
    }
    return hash;
}

/* Adds a row with an SM and the identical SMs after it in its group. */
static gs_code add_row(gs_scene *scene, int32_t group, int32_t at, const uint64_t *hashes, bool *is_placed,
                       int32_t *placed, gs_error *error) {
    const gs_scene_group *of = &scene->groups.data[group];
    gs_scene_row row = {.group = group, .first = *placed};
    if (!GS_RESERVE(&scene->rows, 1))
        return gs_fail_memory(error);
    for (int32_t i = at; i < of->first + of->count; i++) {
        int32_t sm = scene->sms[i];
        if (is_placed[sm] || hashes[sm] != hashes[scene->sms[at]])
            continue;
        is_placed[sm] = true;
        scene->row_sms[(*placed)++] = sm;
        row.count++;
    }
    scene->rows.data[scene->rows.count++] = row;
    return GS_OK;
}

gs_code gs_scene_add_rows(gs_scene *scene, gs_error *error) {
    size_t sms = (size_t)scene->gpu->sms + 1;
    uint64_t *hashes = calloc(sms, sizeof *hashes);
    bool *is_placed = calloc(sms, sizeof *is_placed);
    scene->row_sms = calloc(sms, sizeof *scene->row_sms);
    int32_t placed = 0;
    gs_code code = hashes && is_placed && scene->row_sms ? GS_OK : gs_fail_memory(error);
    for (int32_t sm = 0; code == GS_OK && sm < scene->gpu->sms; sm++)
        hashes[sm] = hash_sm(scene, sm);
    for (size_t i = 0; i < scene->groups.count && code == GS_OK; i++) {
        const gs_scene_group *group = &scene->groups.data[i];
        for (int32_t j = group->first; j < group->first + group->count && code == GS_OK; j++)
            if (!is_placed[scene->sms[j]])
                code = add_row(scene, (int32_t)i, j, hashes, is_placed, &placed, error);
    }
    free(hashes);
    free(is_placed);
    return code;
}
