/*
 * scene.c: makes scenes: their functions and colors, and all steps in order.
 *
 * Launches of one kernel have one color. The first seven colors are those of Okabe and Ito, the next two those of Tol,
 * which people with any kind of color vision can tell apart; further functions get lighter and darker ones. If there
 * are more functions than clear colors, the heaviest get those.
 */
#include "scene.h"

#include <stdlib.h>
#include <string.h>

/* ---- colors ---- */

static const uint32_t palette[] = {0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9,
                                   0xd55e00, 0xf0e442, 0x882255, 0x999933};

enum { CLEAR_COLORS = GS_COUNT(palette) };

/* A color mixed with another: `percent` of it. */
static uint32_t mix_colors(uint32_t color, uint32_t with, uint32_t percent) {
    uint32_t mixed = 0;
    for (int shift = 0; shift < 24; shift += 8)
        mixed |= ((color >> shift & 255) * percent + (with >> shift & 255) * (100 - percent)) / 100 << shift;
    return mixed;
}

static uint32_t color_of(size_t rank) {
    uint32_t color = palette[rank % CLEAR_COLORS];
    switch (rank / CLEAR_COLORS % 3) {
    case 1:
        return mix_colors(color, 0xffffff, 55);
    case 2:
        return mix_colors(color, 0x000000, 60);
    default:
        return color;
    }
}

void gs_put_color(gs_text *text, size_t number) {
    gs_text_add(text, "#%06x", (unsigned)color_of(number));
}

struct rank {
    double weight;
    size_t function;
};

GS_ORDER_DOWN_THEN(compare_ranks, struct rank, weight, function)

static gs_code give_colors(gs_scene *scene, gs_error *error) {
    size_t count = scene->functions.count;
    struct rank *ranks = malloc((count + 1) * sizeof *ranks);
    if (!ranks)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        ranks[i] = (struct rank){scene->functions.data[i].weight, i};
    if (count > CLEAR_COLORS)
        qsort(ranks, count, sizeof *ranks, compare_ranks);
    for (size_t i = 0; i < count; i++) {
        scene->functions.data[ranks[i].function].color = color_of(i);
        scene->functions.data[i].at_rank = (uint32_t)ranks[i].function;
    }
    free(ranks);
    return GS_OK;
}

/* ---- functions ---- */

static gs_code add_function(gs_scene *scene, gs_names *names, size_t launch, gs_error *error) {
    const char *kernel = scene->run->launches.data[launch].kernel;
    size_t number = gs_names_add(names, kernel, scene->functions.count);
    bool is_new = number == scene->functions.count;
    if (number == SIZE_MAX || (is_new && !GS_PUSH(&scene->functions, (gs_scene_function){.name = kernel})))
        return gs_fail_memory(error);
    scene->operations.data[launch].function = (uint32_t)number;
    return GS_OK;
}

static gs_code add_shape(gs_scene *scene, gs_names *names, gs_strings *strings, size_t launch, gs_error *error) {
    const gs_launch *which = &scene->run->launches.data[launch];
    const gs_shape *shape = &which->shape;
    char key[160];
    int length = snprintf(key, sizeof key, "%d %d %lld %lld %d %d", shape->threads, shape->registers,
                          (long long)shape->shared_bytes, (long long)shape->local_bytes, shape->carveout_percent,
                          which->cluster);
    char *kept = gs_strings_add(strings, key, (size_t)length);
    size_t number = kept ? gs_names_add(names, kept, scene->shapes.count) : SIZE_MAX;
    if (number == SIZE_MAX || (number == scene->shapes.count && !GS_PUSH(&scene->shapes, launch)))
        return gs_fail_memory(error);
    scene->operations.data[launch].shape = (uint32_t)number;
    return GS_OK;
}

static gs_code add_shapes(gs_scene *scene, gs_error *error) {
    gs_names names = {0};
    gs_strings strings = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < scene->run->launches.count && code == GS_OK; i++)
        code = add_shape(scene, &names, &strings, i, error);
    gs_names_free(&names);
    gs_strings_free(&strings);
    return code;
}

static gs_code add_functions(gs_scene *scene, gs_error *error) {
    gs_names names = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < scene->run->launches.count && code == GS_OK; i++)
        code = add_function(scene, &names, i, error);
    gs_names_free(&names);
    return code;
}

/* A stay weighs its time. A launch without known blocks weighs its time on all SMs. */
static void weigh_functions(gs_scene *scene) {
    const gs_stays *stays = &scene->layers[0].stays;
    for (size_t i = 0; i < stays->count; i++)
        scene->functions.data[scene->operations.data[stays->data[i].launch].function].weight +=
            (double)(stays->data[i].to - stays->data[i].from);
    for (size_t i = 0; !stays->count && i < scene->run->launches.count; i++) {
        const gs_scene_operation *operation = &scene->operations.data[i];
        if (operation->start != GS_NO_TIME && operation->end != GS_NO_TIME)
            scene->functions.data[operation->function].weight += (double)(operation->end - operation->start);
    }
}

/* ---- all ---- */

static gs_code make_operations(gs_scene *scene, gs_error *error) {
    size_t count = scene->run->launches.count + scene->run->copies.count;
    scene->operations.data = calloc(count + 1, sizeof *scene->operations.data);
    scene->operations.count = count;
    for (size_t i = 0; scene->operations.data && i < count; i++)
        scene->operations.data[i] = (gs_scene_operation){GS_NO_NUMBER, 0,          0,          GS_NO_TIME, GS_NO_TIME,
                                                         GS_NO_TIME,   GS_NO_TIME, GS_NO_TIME, GS_NO_TIME, 0};
    return scene->operations.data ? GS_OK : gs_fail_memory(error);
}

gs_code gs_scene_make(gs_scene *scene, const gs_scene_source *source, gs_error *error) {
    *scene = (gs_scene){.gpu = source->gpu,
                        .run = source->run,
                        .played = source->played,
                        .names = source->names,
                        .row_word = source->row_word,
                        .time_word = source->time_word};
    if (source->played && source->played->timeline.operations)
        scene->timeline = &source->played->timeline;
    gs_code code = make_operations(scene, error);
    if (code == GS_OK)
        code = add_functions(scene, error);
    if (code == GS_OK)
        code = add_shapes(scene, error);
    if (code == GS_OK)
        code = gs_scene_add_groups(scene, error);
    if (code == GS_OK)
        code = gs_scene_add_layers(scene, source->measured, error);
    if (code == GS_OK)
        code = gs_scene_add_rows(scene, error);
    if (code == GS_OK)
        code = gs_scene_add_operations(scene, error);
    if (code == GS_OK)
        code = gs_scene_add_waits(scene, error);
    if (code == GS_OK) {
        weigh_functions(scene);
        code = give_colors(scene, error);
    }
    if (code != GS_OK)
        gs_scene_clear(scene);
    return code;
}

void gs_scene_clear(gs_scene *scene) {
    for (int i = 0; i < 2; i++) {
        gs_stays_free(&scene->layers[i].stays);
        free(scene->layers[i].differs);
        free(scene->layers[i].first);
        free(scene->layers[i].slots.data);
    }
    for (size_t i = 0; i < scene->streams.count; i++)
        gs_text_free(&scene->streams.data[i]);
    free(scene->functions.data);
    free(scene->shapes.data);
    free(scene->operations.data);
    free(scene->streams.data);
    free(scene->waits.data);
    free(scene->texts.data);
    free(scene->groups.data);
    free(scene->sms);
    free(scene->rows.data);
    free(scene->row_sms);
    *scene = (gs_scene){0};
}
