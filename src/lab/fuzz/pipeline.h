/*
 * pipeline.h: work in steps; two of them need the device (pipeline.c).
 */
#ifndef GS_PIPELINE_H
#define GS_PIPELINE_H

#include "base/base.h"

/* The steps of an item. `play` and `repeat` run in the calling thread, `play` in the order of the items. The others run
   in other threads: `prepare` and `follow` for several items at a time, `finish` for one item at a time, in their
   order. */
typedef struct gs_pipeline_steps {
    gs_code (*prepare)(void *user, void *item, int64_t number, gs_error *error);
    gs_code (*play)(void *user, void *item, gs_error *error);
    gs_code (*follow)(void *user, void *item, bool *repeats, gs_error *error); /* `*repeats`: `repeat` is needed */
    gs_code (*repeat)(void *user, void *item, gs_error *error);
    gs_code (*finish)(void *user, void *item, bool *go_on, gs_error *error);
    void (*clear)(void *item); /* frees the contents of an item; it may be all zero */
    size_t item_size;          /* an item is all zero at first */
} gs_pipeline_steps;

/* Takes `count` items through the steps, until one fails, or `finish` sets `*go_on` to false. */
gs_code gs_pipeline_run(const gs_pipeline_steps *steps, void *user, int64_t count, gs_error *error);

#endif
