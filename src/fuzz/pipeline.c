/*
 * pipeline.c: predictions are computed while the GPU plays.
 *
 * A run of a campaign is drawn and predicted, played, followed and judged. Drawing, predicting and following take about
 * as long as playing, and need no GPU: two threads do them, for up to AHEAD runs, while the calling thread plays. All
 * items are in a ring. Each goes through the states below, and whoever sets one wakes the others.
 *
 * The calling thread judges before it plays, so that a campaign ends soon after it is told to. Items after the one that
 * ended it are dropped.
 */
#include "pipeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 16, HELPERS = 2 };

enum state { EMPTY, AT_WORK, PREPARED, PLAYED, FOLLOWED };

struct place {
    enum state state;
    void *item;
    gs_code code;
    gs_error error;
};

struct pipeline {
    const gs_pipeline_steps *steps;
    void *user;
    int64_t count;
    pthread_mutex_t lock; /* protects the members below; an item belongs to whoever works at it */
    pthread_cond_t changed;
    struct place places[AHEAD];         /* of item i: i % AHEAD */
    int64_t prepared, played, finished; /* items that were begun to be prepared, were played, are finished */
    bool is_over;
};

static void set_state(struct pipeline *pipeline, struct place *place, enum state state) {
    place->state = state;
    pthread_cond_broadcast(&pipeline->changed);
}

/* ---- the other threads ---- */

static void prepare(struct pipeline *pipeline, int64_t number) {
    struct place *place = &pipeline->places[number % AHEAD];
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    place->code = pipeline->steps->prepare(pipeline->user, place->item, number, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    set_state(pipeline, place, PREPARED);
}

static void follow(struct pipeline *pipeline, struct place *place) {
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    if (place->code == GS_OK)
        place->code = pipeline->steps->follow(pipeline->user, place->item, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    set_state(pipeline, place, FOLLOWED);
}

/* The first item that was played and that nobody follows; NULL: there is none. */
static struct place *first_played(struct pipeline *pipeline) {
    for (int64_t i = pipeline->finished; i < pipeline->played; i++)
        if (pipeline->places[i % AHEAD].state == PLAYED)
            return &pipeline->places[i % AHEAD];
    return NULL;
}

static void *help(void *argument) {
    struct pipeline *pipeline = argument;
    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->is_over) {
        struct place *played = first_played(pipeline);
        bool may_prepare = pipeline->prepared < pipeline->count && pipeline->prepared < pipeline->finished + AHEAD;
        if (played)
            follow(pipeline, played);
        else if (may_prepare)
            prepare(pipeline, pipeline->prepared++);
        else
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

/* ---- the calling thread ---- */

static void play(struct pipeline *pipeline, struct place *place) {
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    if (place->code == GS_OK)
        place->code = pipeline->steps->play(pipeline->user, place->item, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->played++;
    set_state(pipeline, place, PLAYED);
}

static gs_code finish(struct pipeline *pipeline, struct place *place, bool *go_on) {
    pthread_mutex_unlock(&pipeline->lock);
    gs_code code = place->code;
    if (code == GS_OK)
        code = place->code = pipeline->steps->finish(pipeline->user, place->item, go_on, &place->error);
    pipeline->steps->clear(place->item);
    memset(place->item, 0, pipeline->steps->item_size);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->finished++;
    set_state(pipeline, place, EMPTY);
    return code;
}

static gs_code run_all(struct pipeline *pipeline, gs_error *error) {
    bool go_on = true;
    gs_code code = GS_OK;
    pthread_mutex_lock(&pipeline->lock);
    while (pipeline->finished < pipeline->count && go_on && code == GS_OK) {
        struct place *oldest = &pipeline->places[pipeline->finished % AHEAD];
        struct place *next = &pipeline->places[pipeline->played % AHEAD];
        if (oldest->state == FOLLOWED)
            code = finish(pipeline, oldest, &go_on);
        else if (next->state == PREPARED)
            play(pipeline, next);
        else
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
        if (code != GS_OK && error)
            *error = oldest->error;
    }
    pipeline->is_over = true;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    return code;
}

gs_code gs_pipeline_run(const gs_pipeline_steps *steps, void *user, int64_t count, gs_error *error) {
    struct pipeline pipeline = {.steps = steps, .user = user, .count = count};
    char *items = calloc(AHEAD, steps->item_size);
    pthread_t helpers[HELPERS];
    int helper_count = 0;
    gs_code code = items ? GS_OK : gs_fail_memory(error);
    if (!items)
        return code;
    for (size_t i = 0; i < AHEAD; i++)
        pipeline.places[i].item = items + i * steps->item_size;
    pthread_mutex_init(&pipeline.lock, NULL);
    pthread_cond_init(&pipeline.changed, NULL);
    while (helper_count < HELPERS && pthread_create(&helpers[helper_count], NULL, help, &pipeline) == 0)
        helper_count++;
    code = helper_count ? run_all(&pipeline, error) : gs_fail(error, GS_E_MEMORY, "cannot start a thread");
    for (int i = 0; i < helper_count; i++)
        pthread_join(helpers[i], NULL);
    for (size_t i = 0; i < AHEAD; i++)
        steps->clear(pipeline.places[i].item);
    pthread_cond_destroy(&pipeline.changed);
    pthread_mutex_destroy(&pipeline.lock);
    free(items);
    return code;
}
