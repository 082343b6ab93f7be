/*
 * pair_search.h: planning ahead of time: which measurements of kernels and pairs to make, and the best way to run each
 * pair.
 *
 *   gs_pair_search_next       the next measurement
 *   gs_pair_search_add        adds a result
 *   gs_pair_search_kernel_at, gs_pair_search_pair_at   the plan so far
 *
 * The search itself never measures. Its questions depend only on the kernels and on the answers, so an interrupted plan
 * continues when its answers are added again.
 *
 * docs/glossary.md has the words.
 */
#ifndef GS_PAIR_SEARCH_H
#define GS_PAIR_SEARCH_H

#include "duration.h"
#include "model/gpu/gpu.h"

enum {
    GS_SEARCH_FORMS = 3,
    GS_SEARCH_POINTS = 8,
    GS_SEARCH_NAME = 96,
    GS_SEARCH_WORDS = 240,
    GS_SEARCH_KERNELS = 256,
    GS_SEARCH_RATIOS = 5,
    GS_SEARCH_GRIDS = 5
};

/* ---- kernels ---- */

typedef struct gs_pair_search_kernel {
    char name[GS_SEARCH_NAME];
    int64_t blocks;                  /* of its grid */
    gs_shape forms[GS_SEARCH_FORMS]; /* of a worker: with all threads, a half, a quarter */
    bool has_form[GS_SEARCH_FORMS];  /* the first is needed */
    bool is_black_box;               /* only its shape is known: not measured; partners are fitted beside it */
    bool keeps_registers;            /* it cannot be compiled with fewer registers */
    int32_t launches;                /* identical launches, each of its grid; 0: they differ */
    double known_us;                 /* of a black box: its duration; 0: not known */
    char problem[GS_SEARCH_WORDS];   /* why it cannot be planned, or "" */
} gs_pair_search_kernel;

/* ---- measurements ---- */

enum gs_measure { GS_MEASURE_WRITTEN, GS_MEASURE_ALONE, GS_MEASURE_SERIAL, GS_MEASURE_INTRA_SM, GS_MEASURE_SPLIT };

/* "written", "alone", "turns", "inside", "split" */
const char *gs_measure_name(enum gs_measure measure);

typedef struct gs_measure_side {
    int32_t kernel, form;
    int32_t workers;   /* per SM; 0: as written */
    int32_t registers; /* limit per thread; 0: as compiled */
    int32_t sms;       /* 0: all */
    int32_t repeats;
    int32_t percent; /* of its blocks, that run */
} gs_measure_side;

typedef struct gs_measurement {
    enum gs_measure measure;
    gs_measure_side sides[2]; /* of WRITTEN and ALONE: the first; of SPLIT the first has the first SMs */
    int32_t leader;           /* of INSIDE: the side that is launched first, which sets the shared-memory configuration.
                                 It follows from the sides */
} gs_measurement;

typedef struct gs_measure_result {
    bool is_failed;
    double us;         /* until both have ended */
    double side_us[2]; /* until each has ended */
    char reason[GS_SEARCH_WORDS];
} gs_measure_result;

bool gs_measurement_equal(const gs_measurement *a, const gs_measurement *b);

/* ---- results ---- */

typedef struct gs_found_form {
    bool is_used;       /* measured, and within 20% of the kernel's best */
    int32_t most, best; /* workers: the most that fit, and the fewest that are as fast */
    double best_us;
    struct {
        int32_t workers;
        double us;
    } points[GS_SEARCH_POINTS]; /* by workers */
    int32_t point_count;
} gs_found_form;

typedef struct gs_found_kernel {
    bool is_done;
    char problem[GS_SEARCH_WORDS]; /* why it is not in the plan, or "" */
    double written_us;             /* as written, alone */
    gs_found_form forms[GS_SEARCH_FORMS];
    int32_t form;               /* the fastest */
    bool keeps_registers;       /* it is not compiled with fewer registers */
    double spills;              /* with half of its registers it is slower by half of this part */
    double half_us, quarter_us; /* its first form on a half and on a quarter of the SMs; 0: not measured */
    struct {
        int32_t percent;
        double us;
    } grids[GS_SEARCH_GRIDS]; /* the fastest form on parts of its grid, if models are requested */
    int32_t grid_count;
    int32_t measurements;
} gs_found_kernel;

enum gs_pair_option { GS_PAIR_SERIAL, GS_PAIR_INTRA_SM, GS_PAIR_SPLIT };

/* "turns", "inside", "split" */
const char *gs_pair_option_name(enum gs_pair_option option);

typedef struct gs_found_pair {
    int32_t first, second;
    bool is_done, is_measured; /* not measured: a side is a black box */
    enum gs_pair_option option;
    gs_measurement chosen; /* of INSIDE and SPLIT */
    int32_t repeats[2];
    double serial_us, together_us, gain;
    char reason[GS_SEARCH_WORDS]; /* why there is no gain, or what was chosen */
    struct {
        double ratio, us;
    } points[GS_SEARCH_RATIOS]; /* the load of the second divided by that of the first */
    int32_t point_count;
    int32_t measurements; /* without those for models */
} gs_found_pair;

/* ---- the search ---- */

typedef struct gs_pair_search_options {
    bool models; /* also measure 3 grids of each kernel and 3 load ratios of each pair */
} gs_pair_search_options;

typedef struct gs_pair_search gs_pair_search;

/* Keeps `gpu`. The kernels are copied. */
gs_pair_search *gs_pair_search_new(const gs_gpu *gpu, const gs_pair_search_kernel *kernels, size_t count,
                                   const gs_pair_search_options *options, gs_error *error);
void gs_pair_search_free(gs_pair_search *search);

/* The next measurement. False: the plan is complete, or out of memory (`*error`). */
bool gs_pair_search_next(gs_pair_search *search, gs_measurement *next, gs_error *error);
gs_code gs_pair_search_add(gs_pair_search *search, const gs_measurement *measurement, const gs_measure_result *measured,
                           gs_error *error);

size_t gs_pair_search_kernels(const gs_pair_search *search);
const gs_pair_search_kernel *gs_pair_search_given(const gs_pair_search *search, size_t kernel);
const gs_found_kernel *gs_pair_search_kernel_at(const gs_pair_search *search, size_t kernel);
/* Pairs: 0 with 1, 0 with 2, ... 1 with 2, ... */
size_t gs_pair_search_pairs(const gs_pair_search *search);
const gs_found_pair *gs_pair_search_pair_at(const gs_pair_search *search, size_t pair);
const gs_gpu *gs_pair_search_gpu(const gs_pair_search *search);
/* The best duration of a launch alone, as written or in a form; 0: not known. */
double gs_pair_search_alone_us(const gs_pair_search *search, size_t kernel);

/* The model of its duration alone, over its blocks. False: no grids were measured, they do not determine it, or fewer
   blocks take longer. */
bool gs_pair_search_model(const gs_pair_search *search, size_t kernel, gs_line_model *model);

/* How many blocks of `second` fit on an SM beside `workers` blocks of `first`, also when either kernel is launched
   again while the other one stays: computed by the predictor, with partitions, pointers and shared-memory
   configurations. */
int32_t gs_pair_search_room(gs_pair_search *search, const gs_shape *first, int32_t workers, const gs_shape *second);

typedef struct gs_measurements {
    gs_measurement *data;
    size_t count, capacity;
} gs_measurements;

/* Appends all ways to run a pair, or those of coarser steps: the first is in sequence. None, if the pair was not
   measured. */
gs_code gs_pair_search_all(gs_pair_search *search, size_t pair, bool is_coarse, gs_measurements *list, gs_error *error);

/* ---- plan files: measurements in an SQLite file (plan_file.c) ---- */

typedef struct gs_plan_file gs_plan_file;

/* Opens or creates the plan of a GPU. GS_E_FORMAT: the file is damaged, of another program, of a later version or of
   another GPU; it is not changed. */
gs_plan_file *gs_plan_file_open(const char *path, const char *gpu, const char *device, gs_error *error);
void gs_plan_file_close(gs_plan_file *file);
/* The kernels of the search, in its order. Measurements of a changed kernel are dropped. */
gs_code gs_plan_file_kernels(gs_plan_file *file, const gs_pair_search_kernel *kernels, size_t count, gs_error *error);
/* True: the file has it. */
bool gs_plan_file_get(gs_plan_file *file, const gs_measurement *measurement, gs_measure_result *result);
gs_code gs_plan_file_put(gs_plan_file *file, const gs_measurement *measurement, const gs_measure_result *result,
                         gs_error *error);
/* Writes the plan itself, for readers of the file. */
gs_code gs_plan_file_results(gs_plan_file *file, const gs_pair_search *search, gs_error *error);

/* ---- the plan as text and JSON (plan_report.c) ---- */

void gs_plan_put_table(gs_text *text, const gs_pair_search *search);
void gs_plan_put_json(gs_text *text, const gs_pair_search *search);                    /* gridsmith.plan/1 */
gs_code gs_plan_put_svg(gs_text *text, const gs_pair_search *search, gs_error *error); /* a heat map of the gains */

#endif
