/*
 * pipeline.c: does all work that does not need the GPU while the GPU plays.
 *
 * A run of a campaign is drawn and predicted, played, followed, repeated if necessary, judged and freed. Together these
 * steps take longer than playing. So the calling thread only plays and repeats. Other threads, the helpers, do the
 * rest, for up to AHEAD runs. All items are in a ring, and each goes through the states below. A thread that makes work
 * for another one wakes it.
 *
 * Helpers take the oldest work first, and the calling thread repeats before it plays, so that a campaign ends soon
 * after it is stopped. Items after the one that ended it are dropped.
 */
#include "pipeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 16, HELPERS = 3 };

enum state { EMPTY, AT_WORK, PREPARED, PLAYED, TO_REPEAT, FOLLOWED };

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
    pthread_mutex_t lock;               /* protects the members below; an item belongs to the thread that works on it */
    pthread_cond_t for_helpers;         /* there is work for a helper */
    pthread_cond_t for_player;          /* there is work for the calling thread */
    struct place places[AHEAD];         /* of item i: i % AHEAD */
    int64_t prepared, played, finished; /* items whose preparation has begun; played items; finished items */
    int64_t freed;                      /* the places of all items before this one are free */
    bool is_finishing;                  /* a helper finishes an item */
    bool is_over;
    gs_code code; /* of the item that ended it */
    gs_error error;
};

/* The first item in a range with this state; NULL: none. */
static struct place *first_in(struct pipeline *pipeline, int64_t begin, int64_t end, enum state state) {
    for (int64_t i = begin; i < end; i++)
        if (pipeline->places[i % AHEAD].state == state)
            return &pipeline->places[i % AHEAD];
    return NULL;
}

static void end_pipeline(struct pipeline *pipeline) {
    pipeline->is_over = true;
    pthread_cond_broadcast(&pipeline->for_helpers);
    pthread_cond_signal(&pipeline->for_player);
}

/* ---- the helpers ---- */

static void prepare_place(struct pipeline *pipeline, int64_t number) {
    struct place *place = &pipeline->places[number % AHEAD];
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    place->code = pipeline->steps->prepare(pipeline->user, place->item, number, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    place->state = PREPARED;
    pthread_cond_signal(&pipeline->for_player);
}

static void follow_place(struct pipeline *pipeline, struct place *place) {
    bool repeats = false;
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    if (place->code == GS_OK)
        place->code = pipeline->steps->follow(pipeline->user, place->item, &repeats, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    repeats = repeats && place->code == GS_OK;
    place->state = repeats ? TO_REPEAT : FOLLOWED;
    if (repeats)
        pthread_cond_signal(&pipeline->for_player);
}

/* Frees the contents of a place. Places may become free in any order. */
static void empty_place(struct pipeline *pipeline, struct place *place) {
    pthread_mutex_unlock(&pipeline->lock);
    pipeline->steps->clear(place->item);
    memset(place->item, 0, pipeline->steps->item_size);
    pthread_mutex_lock(&pipeline->lock);
    place->state = EMPTY;
    while (pipeline->freed < pipeline->finished && pipeline->places[pipeline->freed % AHEAD].state == EMPTY)
        pipeline->freed++;
    pthread_cond_signal(&pipeline->for_helpers);
}

static void finish_place(struct pipeline *pipeline, struct place *place) {
    bool go_on = true;
    place->state = AT_WORK;
    pipeline->is_finishing = true;
    pthread_mutex_unlock(&pipeline->lock);
    if (place->code == GS_OK)
        place->code = pipeline->steps->finish(pipeline->user, place->item, &go_on, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->is_finishing = false;
    pipeline->finished++;
    if (place->code != GS_OK) {
        pipeline->code = place->code;
        pipeline->error = place->error;
    }
    if (place->code != GS_OK || !go_on || pipeline->finished == pipeline->count)
        end_pipeline(pipeline);
    else
        pthread_cond_signal(&pipeline->for_helpers); /* the next item may have been followed */
    empty_place(pipeline, place);
}

/* False: no work. */
static bool help_once(struct pipeline *pipeline) {
    struct place *oldest = &pipeline->places[pipeline->finished % AHEAD];
    struct place *played = first_in(pipeline, pipeline->finished, pipeline->played, PLAYED);
    if (oldest->state == FOLLOWED && !pipeline->is_finishing)
        finish_place(pipeline, oldest);
    else if (played)
        follow_place(pipeline, played);
    else if (pipeline->prepared < pipeline->count && pipeline->prepared < pipeline->freed + AHEAD)
        prepare_place(pipeline, pipeline->prepared++);
    else
        return false;
    return true;
}

static void *run_helper(void *argument) {
    struct pipeline *pipeline = argument;
    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->is_over)
        if (!help_once(pipeline))
            pthread_cond_wait(&pipeline->for_helpers, &pipeline->lock);
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

/* ---- the calling thread ---- */

static void play_place(struct pipeline *pipeline, struct place *place) {
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    if (place->code == GS_OK)
        place->code = pipeline->steps->play(pipeline->user, place->item, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->played++;
    place->state = PLAYED;
    pthread_cond_signal(&pipeline->for_helpers);
}

static void repeat_place(struct pipeline *pipeline, struct place *place) {
    place->state = AT_WORK;
    pthread_mutex_unlock(&pipeline->lock);
    place->code = pipeline->steps->repeat(pipeline->user, place->item, &place->error);
    pthread_mutex_lock(&pipeline->lock);
    place->state = FOLLOWED;
    pthread_cond_signal(&pipeline->for_helpers);
}

static void play_all(struct pipeline *pipeline) {
    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->is_over) {
        struct place *again = first_in(pipeline, pipeline->finished, pipeline->played, TO_REPEAT);
        struct place *next = first_in(pipeline, pipeline->played, pipeline->played + 1, PREPARED);
        if (again)
            repeat_place(pipeline, again);
        else if (next)
            play_place(pipeline, next);
        else
            pthread_cond_wait(&pipeline->for_player, &pipeline->lock);
    }
    pthread_mutex_unlock(&pipeline->lock);
}

static gs_code run_threads(struct pipeline *pipeline, gs_error *error) {
    pthread_t helpers[HELPERS];
    int count = 0;
    while (count < HELPERS && pthread_create(&helpers[count], NULL, run_helper, pipeline) == 0)
        count++;
    if (!count)
        return gs_fail(error, GS_E_MEMORY, "cannot start a thread");
    play_all(pipeline);
    for (int i = 0; i < count; i++)
        pthread_join(helpers[i], NULL);
    if (pipeline->code != GS_OK && error)
        *error = pipeline->error;
    return pipeline->code;
}

gs_code gs_pipeline_run(const gs_pipeline_steps *steps, void *user, int64_t count, gs_error *error) {
    struct pipeline pipeline = {.steps = steps, .user = user, .count = count, .is_over = count <= 0};
    char *items = calloc(AHEAD, steps->item_size);
    if (!items)
        return gs_fail_memory(error);
    for (size_t i = 0; i < AHEAD; i++)
        pipeline.places[i].item = items + i * steps->item_size;
    pthread_mutex_init(&pipeline.lock, NULL);
    pthread_cond_init(&pipeline.for_helpers, NULL);
    pthread_cond_init(&pipeline.for_player, NULL);
    gs_code code = run_threads(&pipeline, error);
    for (size_t i = 0; i < AHEAD; i++)
        steps->clear(pipeline.places[i].item);
    pthread_cond_destroy(&pipeline.for_player);
    pthread_cond_destroy(&pipeline.for_helpers);
    pthread_mutex_destroy(&pipeline.lock);
    free(items);
    return code;
}
