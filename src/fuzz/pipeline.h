/*
 * pipeline.h: work in four steps, of which two need the device and two do not (pipeline.c).
 */
#ifndef GS_PIPELINE_H
#define GS_PIPELINE_H

#include "base/base.h"

/* The steps of an item. `prepare` and `follow` run in other threads, several items at a time. `play` and `finish` run
   in the calling thread, in the order of the items. */
typedef struct gs_pipeline_steps {
    gs_code (*prepare)(void *user, void *item, int64_t number, gs_error *error);
    gs_code (*play)(void *user, void *item, gs_error *error);
    gs_code (*follow)(void *user, void *item, gs_error *error);
    gs_code (*finish)(void *user, void *item, bool *go_on, gs_error *error);
    void (*clear)(void *item); /* frees what the steps have left in an item; it may be all zero */
    size_t item_size;          /* an item is all zero at first */
} gs_pipeline_steps;

/* Takes `count` items through the steps, until one fails, or `finish` sets `*go_on` to false. */
gs_code gs_pipeline_run(const gs_pipeline_steps *steps, void *user, int64_t count, gs_error *error);

#endif
