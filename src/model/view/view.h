/*
 * view.h: runs, scores and bounds, for people and for programs.
 *
 * A gs_format says what to write before the first run, for each run, and after the last. One loop in src/cmd drives all
 * formats. They show any run: a scenario, a recording or a prediction.
 *
 *   table.c, data.c          runs as tables, JSON and CSV
 *   svg.c, trace.c, html.c   runs drawn: all three show a scene (scene.h lists the files that make one)
 *   timeline_view.c, waits_view.c, comparison_view.c, difference_view.c   recorded programs
 *   explain_view.c, versions_view.c   what limits one, and what changed from one version to another
 *   check_view.c, occupancy_view.c, bound.c, body_view.c, body_page.c, schedule_page.c   answers about kernels
 *   score_table.c, pairs.c, heat_map.c   scores
 *   show.c                   all of them as text, for users of the library
 */
#ifndef GS_VIEW_H
#define GS_VIEW_H

#include "model/bound/bound.h"
#include "model/check/check.h"
#include "model/explain/explain.h"
#include "model/timeline/timeline.h"

typedef struct gs_view {
    gs_text text;                /* is written to its sink as it grows */
    size_t runs;                 /* shown so far */
    size_t number;               /* of the current run in its file, from 1 */
    bool explain;                /* say why kernels wait */
    const gs_run *measured;      /* the measurement of the current run, or NULL */
    const gs_played *played;     /* the details of the prediction, or NULL */
    const gs_short_names *names; /* of the kernels of the run, or NULL */
    const char *file;            /* where the run is from, or NULL */
    const gs_text *report;       /* a text that goes with the run, for pages, or NULL */
    const char *report_title;    /* of one that a page shows at once; NULL: it is closed at first */
} gs_view;

typedef struct gs_format {
    const char *name, *help;
    bool is_brief;     /* does not show each block: gs_predict_brief is enough */
    bool one_run;      /* for one run, not for a file of many */
    bool wants_played; /* gs_predict_played, with explanations */
    void (*begin)(gs_view *view);
    gs_code (*run)(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error);
    void (*end)(gs_view *view);
} gs_format;

extern const gs_format gs_format_table, gs_format_json, gs_format_csv, gs_format_svg, gs_format_trace, gs_format_html;

/* ---- scores ---- */

/* A table with a row for each class, and one for all together if there are several. */
void gs_put_scores(gs_text *text, const gs_scores *scores);

/* Adds the classes of gridsmith.score/1 to a document that the caller begins and ends. */
void gs_put_scores_json(gs_writer *writer, const gs_scores *scores);

/* ---- pairs of features (pairs.c) ---- */

typedef enum gs_feature {
    GS_HAS_GRAPH,
    GS_HAS_TRIGGER,
    GS_HAS_NORMAL,
    GS_HAS_WHOLE,
    GS_HAS_CLUSTER,
    GS_HAS_GREEN,
    GS_HAS_MEMORY,
    GS_HAS_PRIORITY,
    GS_HAS_CARVEOUT,
    GS_HAS_SHARED,
    GS_HAS_PART_WARP,
    GS_HAS_EXIT,
    GS_HAS_TIMES,
    GS_HAS_WAIT,
    GS_FEATURES
} gs_feature;

/* How many runs have two features; a feature twice: how many have it. */
typedef struct gs_pairs {
    int64_t runs[GS_FEATURES][GS_FEATURES];
} gs_pairs;

void gs_pairs_add(gs_pairs *pairs, const gs_run *run);
void gs_put_pairs(gs_text *text, const gs_pairs *pairs);

/* A page of the runs of a campaign. They are added one by one; those after the first `most` are left out. The caller
   frees `scenes`. */
typedef struct gs_campaign_page {
    gs_text scenes;
    size_t most, runs, left_out;
} gs_campaign_page;

gs_code gs_campaign_page_add(gs_campaign_page *page, const gs_gpu *gpu, const gs_run *recorded, const gs_run *predicted,
                             gs_error *error);
/* The page, with the report of the campaign. */
void gs_put_campaign_page(gs_text *text, const gs_campaign_page *page, const gs_text *report);

/* ---- check ---- */

/* For people, and as one line of gridsmith.check/2. */
void gs_put_check(const gs_check_answer *answer, gs_text *text);
void gs_put_check_json(const gs_check_answer *answer, gs_text *text);

/* ---- programs ---- */

/* Append "3.1 us"; a shortened name; and the reason of a wait, as the end of a sentence. */
void gs_put_duration(gs_text *text, int64_t ns);
void gs_put_name(gs_text *text, const char *name);
void gs_put_wait(gs_text *text, gs_reason reason, gs_lack lack, const char *behind);

/* "a waited 3.1 ms in 412 launches for b to release shared memory" */
void gs_put_wait_sum(gs_text *text, const gs_wait_sum *sum);

/* The head of a timeline: the GPU, the number of launches, and the pace. */
void gs_put_program_title(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_timeline *timeline);
void gs_write_pace(gs_writer *writer, const gs_pace *pace);

/* A row for each launch and copy, or for the `top` that waited longest; and gridsmith.timeline/1. */
gs_code gs_put_timeline(gs_text *text, const gs_run *run, const gs_timeline *timeline, int64_t top, gs_error *error);
gs_code gs_put_timeline_json(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_timeline *timeline,
                             int64_t top, gs_error *error);

/* A prediction and its measurement. */
typedef struct gs_comparison {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_timeline *played;   /* the whole program */
    const gs_timeline *timeline; /* each launch is ready when it was in the recording */
    const gs_wait_sums *sums;
    const gs_program_compared *compared;
    int64_t top; /* how many waits and differences; 0: all */
} gs_comparison;

/* Compares a program that was played with its measurement. GS_E_USAGE: nothing was measured. */
gs_code gs_put_program_compared(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_timeline *played,
                                int64_t top, bool is_json, gs_error *error);

/* Why launches overlap only when measured (`is_measured`), or only in the prediction. */
void gs_put_difference(gs_text *text, const gs_comparison *comparison, size_t launch, size_t other, bool is_measured);

/* What limits a program, and what would help: one screen with the `top` kernels (0: all), and gridsmith.explain/1.
   `advice_first`: before the kernels, as a page is read from its top. */
void gs_put_explained(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_explained *explained,
                      const gs_explain_options *options, int64_t top, bool advice_first);
void gs_put_explained_json(gs_text *text, const gs_gpu *gpu, const gs_explained *explained,
                           const gs_explain_options *options);
void gs_put_explained_csv(gs_text *text, const gs_explained *explained); /* a row for each kernel */
void gs_put_csv_name(gs_text *text, const char *name);                   /* quoted if necessary */

/* What changed from one version of a program to another: a step, and the `top` kernels that changed most (0: all). */
gs_code gs_put_versions(gs_text *text, const gs_explained *before, const gs_explained *after, int64_t top,
                        gs_error *error);

/* ---- bounds ---- */

/* The bounds of some warps, for people and as gridsmith.bound/1. */
void gs_put_bound(gs_text *text, const gs_bound *bound);
void gs_put_bound_json(gs_text *text, const gs_bound *bound);

/* A table of the formula minus the exact worst case, and gridsmith.bound-grid/1. `cells` has the bounds for one warp
   first, by repetitions, then those for two warps, ... */
void gs_put_grid(gs_text *text, const gs_bound *cells, int64_t warps, int64_t repeat, bool fair);
void gs_put_grid_json(gs_text *text, const gs_bound *cells, int64_t warps, int64_t repeat);

/* A schedule as a picture: warps down, cycles across, a color for each unit. */
void gs_put_schedule_svg(gs_text *text, const gs_schedule *schedule, const gs_flat *flat);

/* The same as a page, with the bounds as a report; and any picture (SVG) as a page with its report. */
gs_code gs_put_schedule_html(gs_text *text, const gs_schedule *schedule, const gs_flat *flat, const gs_text *report,
                             gs_error *error);
void gs_put_picture_html(gs_text *text, const char *title, const gs_text *picture, const gs_text *report);

/* The proven bound against the worst case, as a table with a row for each range of quotients. */
void gs_put_compared(gs_text *text, const gs_compared *compared);

/* The bounds of the kernels of a run and of the whole run, for people and as gridsmith.run-bound/1. `gpu_ns` and
   `response_ns` are those of the task around it; NULL: no task. */
void gs_put_run_bound(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_run_bound *bound);
void gs_put_run_bound_json(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_run_bound *bound,
                           const int64_t *gpu_ns, const int64_t *response_ns);

/* The bound of a compiled kernel. */
typedef struct gs_body_answer {
    const gs_gpu *gpu;
    const gs_machine *machine; /* NULL: instructions are counted only */
    const gs_body *body;
    gs_shape shape;
    int64_t blocks;
    gs_body_bound bound, beside; /* beside: other programs are on other SMs */
    gs_body_shares shares;
    const int64_t *of_class; /* instructions of a warp at most, for each class of the body */
    bool is_for_input;       /* rounds of loops were counted for one input */
    const char *source;      /* the text of the lines, or NULL */
} gs_body_answer;

/* For people, as gridsmith.kernel-bound/1, the rows as CSV, and a page, which needs a machine. */
/* "line 12", or the place in the machine code where no line is known. */
void gs_put_body_place(gs_text *text, uint32_t line, uint32_t offset);
void gs_put_body_bound(gs_text *text, const gs_body_answer *answer);
void gs_put_body_bound_json(gs_text *text, const gs_body_answer *answer);
void gs_put_body_bound_csv(gs_text *text, const gs_body_answer *answer);
void gs_put_body_bound_html(gs_text *text, const gs_body_answer *answer);

/* Measurements against their bounds: the latencies, and the tightness by warps on an SM; and as a picture. Returns how
   many samples ended after their bound. */
int64_t gs_put_measured(gs_text *text, const gs_measured *measured);
void gs_put_measured_svg(gs_text *text, const gs_measured *measured);

/* ---- a GPU ---- */

/* Its GPCs, TPCs and SMs, and the SMs of the first blocks: as lines, and as a picture. */
gs_code gs_put_gpu_layout(gs_text *text, const gs_gpu *gpu, gs_error *error);
gs_code gs_put_gpu_svg(gs_text *text, const gs_gpu *gpu, gs_error *error);

/* ---- occupancy ---- */

/* How many blocks fit on an SM, over the threads, registers and shared memory of a kernel. */
void gs_put_occupancy_svg(gs_text *text, const gs_gpu *gpu, const gs_shape *shape);
/* The same as a page, in which these, the GPU, the carve-out and the cluster (0: none) can be changed. */
gs_code gs_put_occupancy_html(gs_text *text, const gs_gpu *gpu, const gs_shape *shape, int32_t cluster,
                              gs_error *error);

/* ---- heat maps ---- */

typedef struct gs_heat_cell {
    double percent;    /* NAN: not known */
    const char *words; /* shown when the pointer is on it; or NULL */
} gs_heat_cell;

/* A number for any two names; the diagonal is empty. */
typedef struct gs_heat_map {
    const char *title, *summary;
    const char *const *names;
    size_t count;
    const gs_heat_cell *cells; /* count x count */
} gs_heat_map;

void gs_put_heat_map(gs_text *text, const gs_heat_map *map);

/* ---- for the formats that draw ---- */

/* The color of a kernel or unit, by its number. */
void gs_put_color(gs_text *text, size_t number);

/* Begins a picture on white, up to its first element. */
void gs_put_svg_begin(gs_text *text, double width, double height, double font_size);

/* The stay of a block on an SM, or of blocks of one kernel that start and end together. */
typedef struct gs_stay {
    int32_t sm, lane; /* stays of an SM that overlap have different lanes */
    int32_t count;    /* blocks */
    uint32_t launch;
    int64_t block;    /* the first of them */
    int64_t from, to; /* nanoseconds, or columns: the launches and exits of the run, counted from 0 */
} gs_stay;

typedef struct gs_stays {
    gs_stay *data; /* by SM, then by time */
    size_t count, capacity;
    bool timed;       /* from and to are nanoseconds */
    int64_t horizon;  /* the end of time, or the number of columns */
    int64_t first_ns; /* the time of the first start, from which times count */
    int32_t lanes;    /* the most of any SM */
} gs_stays;

/* The stays of all blocks of a run. `together`: blocks that start and end together are one stay. */
gs_code gs_stays_of(const gs_run *run, bool together, gs_stays *stays, gs_error *error);
/* The same without times: by launches and exits. */
gs_code gs_stays_in_columns(const gs_run *run, bool together, gs_stays *stays, gs_error *error);
void gs_stays_free(gs_stays *stays);

#endif
