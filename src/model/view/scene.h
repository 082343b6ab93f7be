/*
 * scene.h: a run prepared for drawing: the common part of the HTML page, the SVG and the trace.
 *
 *   functions   kernels by name, each with a color (scene.c)
 *   operations  launches, then copies: when they arrived, started and ended; the rows of streams (scene_operations.c)
 *   waits       which operation waits from when to when, and why (waiting.c)
 *   layers      the stays of blocks on SMs, as predicted and as measured, and where these differ (layers.c)
 *   groups      the SMs of each GPC, in the order in which they are drawn (groups.c)
 *
 * Times are nanoseconds since `origin_ns`, or columns: the launches and exits of a run without times.
 */
#ifndef GS_SCENE_H
#define GS_SCENE_H

#include "view.h"

#define GS_NO_NUMBER UINT32_MAX

typedef struct gs_scene_function {
    const char *name;
    uint32_t color;   /* 0xrrggbb */
    double weight;    /* how much of the GPU's time it takes: the heaviest get the clearest colors */
    uint32_t at_rank; /* the function that has the rank of this number, the clearest color first */
} gs_scene_function;

typedef struct gs_scene_operation {
    uint32_t function;                    /* GS_NO_NUMBER: a copy or memset */
    uint32_t shape;                       /* of launches: among `shapes` */
    uint32_t stream;                      /* its row among the streams */
    int64_t arrived, start, end;          /* or GS_NO_TIME */
    int64_t measured_start, measured_end; /* or GS_NO_TIME */
    int64_t all_started;                  /* when its last block started, or GS_NO_TIME */
    int64_t started;                      /* blocks */
} gs_scene_operation;

typedef struct gs_scene_wait {
    uint32_t operation, behind; /* behind: what it waits for, or GS_NO_NUMBER */
    uint8_t reason, lack;       /* gs_reason and gs_lack */
    uint32_t text;              /* a sentence that says more, or GS_NO_NUMBER */
    int64_t from, to;
} gs_scene_wait;

/* How a stay differs from the other layer. */
enum { GS_SAME, GS_OTHER_NUMBER, GS_OTHER_COUNT };

typedef struct gs_scene_layer {
    const gs_run *run; /* NULL: the layer is absent */
    gs_stays stays;
    size_t *first; /* by SM: its first stay; and after the last SM, the number of stays */
    struct {
        uint8_t *data; /* the warp slots of all stays, one after the other, where they were recorded */
        size_t count, capacity;
    } slots;
    uint8_t *differs; /* by launch and SM: the number of blocks differs; NULL: nothing to compare with */
} gs_scene_layer;

typedef struct gs_scene_group {
    char name[24];
    int32_t first, count; /* among `sms` */
} gs_scene_group;

/* Identical SMs, which are drawn as one row. */
typedef struct gs_scene_row {
    int32_t group;
    int32_t first, count; /* among `row_sms` */
} gs_scene_row;

typedef struct gs_scene {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_played *played;          /* NULL: not known */
    const gs_timeline *timeline;      /* NULL: not known */
    const gs_short_names *names;      /* of kernels, or NULL */
    const char *row_word, *time_word; /* the name of rows, if not SMs; the unit of time, if not nanoseconds; or NULL */
    bool is_timed;
    bool keeps_clock;            /* times are those of the run; otherwise they count from the first block */
    int64_t origin_ns, from, to; /* the scene spans `from` to `to` */
    gs_scene_layer layers[2];    /* the layer that is shown, and the measured one */
    int64_t blocks_compared, blocks_elsewhere, counts_differ; /* counts: of launches on SMs */
    struct {
        gs_scene_function *data;
        size_t count, capacity;
    } functions;
    struct {
        size_t *data; /* the first launch of each */
        size_t count, capacity;
    } shapes;
    struct {
        gs_scene_operation *data;
        size_t count;
    } operations;
    struct {
        gs_text *data;
        size_t count, capacity;
    } streams; /* their names */
    struct {
        gs_scene_wait *data;
        size_t count, capacity;
    } waits;
    struct {
        const char **data; /* of the events of the run */
        size_t count, capacity;
    } texts;
    struct {
        gs_scene_group *data;
        size_t count, capacity;
    } groups;
    int32_t *sms; /* in the order of groups */
    struct {
        gs_scene_row *data;
        size_t count, capacity;
    } rows;
    int32_t *row_sms; /* in the order of rows */
} gs_scene;

/* The input of a scene. */
typedef struct gs_scene_source {
    const gs_gpu *gpu;
    const gs_run *run;           /* a prediction, or a recording */
    const gs_run *measured;      /* what was measured of it, or NULL */
    const gs_played *played;     /* or NULL */
    const gs_short_names *names; /* of its kernels, or NULL */
    const char *row_word, *time_word;
} gs_scene_source;

/* The caller clears the scene. The input must live as long. */
gs_code gs_scene_make(gs_scene *scene, const gs_scene_source *source, gs_error *error);
void gs_scene_clear(gs_scene *scene);

/* The steps of gs_scene_make. */
gs_code gs_scene_add_groups(gs_scene *scene, gs_error *error);
gs_code gs_scene_add_layers(gs_scene *scene, const gs_run *measured, gs_error *error);
gs_code gs_scene_add_rows(gs_scene *scene, gs_error *error);
gs_code gs_scene_add_operations(gs_scene *scene, gs_error *error);
gs_code gs_scene_add_waits(gs_scene *scene, gs_error *error);

/* A time of the run as a time of the scene. */
int64_t gs_scene_time(const gs_scene *scene, int64_t time_ns);

/* How a stay differs from the other layer: GS_SAME and so on. */
int gs_scene_difference(const gs_scene *scene, int layer, const gs_stay *stay);

/* How much of an SM a block takes: the largest share of its warp slots, registers, shared memory and block slots. */
typedef struct gs_share {
    int32_t warps, registers; /* of a block; registers in the unit in which they are given out */
    int64_t shared_bytes;
    double most;
} gs_share;

gs_share gs_share_of(const gs_gpu *gpu, const gs_shape *shape);

/* ---- strips: the use of some SMs in each column of time (strips.c) ---- */

enum { GS_USE_WARPS, GS_USE_REGISTERS, GS_USE_SHARED, GS_USE_SLOTS, GS_USES };

/* "warps" and so on. */
extern const char *const gs_use_names[GS_USES];

typedef struct gs_strip {
    size_t columns;
    double *shares;      /* by function, then by column: the share of the SMs that it takes */
    uint32_t *functions; /* those that are there, ascending */
    size_t function_count;
    double *uses[GS_USES]; /* by column: the part of the resource that is in use */
    bool *differs;         /* by column: another number of blocks than in the other layer */
    bool *is_there;        /* by function */
    gs_share *takes;       /* by shape */
} gs_strip;

gs_code gs_strip_new(gs_strip *strip, const gs_scene *scene, size_t columns, gs_error *error);
void gs_strip_clear(gs_strip *strip);

/* The mean over these SMs, of the layer that is shown. */
void gs_strip_fill(gs_strip *strip, const gs_scene *scene, const int32_t *sms, int32_t count);

#endif
