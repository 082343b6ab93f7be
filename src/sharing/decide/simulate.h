/*
 * simulate.h: a plan tried without a GPU: a part of decide.h.
 *
 *   table        durations of the kernels and pairs of a plan (gridsmith.plan/1)
 *   fits         which kernels are resident together, as computed by the engine
 *   networks     the layers of networks (gridsmith.network/1), which become launches of a matrix product and of im2col
 *   tasks        the launches to run, of kernels of the table; some wait for others
 *   simulation   the tasks, played by the decisions of the daemon
 */
#ifndef GS_SIMULATE_H
#define GS_SIMULATE_H

#include "model/gpu/gpu.h"
#include "sharing/measure/measure.h"

/* ---- table ---- */

typedef struct gs_table_kernel {
    char *name;
    int64_t blocks;      /* of the launch that took alone_us */
    gs_shape shape;      /* of a worker */
    int32_t workers;     /* per SM; 0: not known */
    double alone_us;     /* of the launch */
    gs_line_model model; /* over blocks */
    bool has_model;
    uint32_t forms;      /* a bit for each form in which the plan lists it */
    bool is_black_box;   /* of a library: it cannot be confined */
    double one_block_us; /* how long a block takes; 0: not known */
} gs_table_kernel;

typedef struct gs_table_kernels {
    gs_table_kernel *data;
    size_t count, capacity;
} gs_table_kernels;

typedef enum gs_table_option { GS_TABLE_SERIAL, GS_TABLE_INTRA_SM, GS_TABLE_SPLIT } gs_table_option;

typedef struct gs_table_pair {
    int32_t first, second; /* kernels */
    gs_table_option option;
    int32_t first_workers, second_workers; /* per SM, of INSIDE */
    int32_t first_sms;                     /* of SPLIT; 0: not known */
    gs_shape shapes[2];                    /* of the workers, of INSIDE */
    bool is_reshaped;                      /* their threads or registers differ from the plan's kernels */
    double first_us, second_us;            /* of the measurement: each alone */
    double together_us;                    /* 0: not measured */
    gs_pair_model model;
    bool has_model; /* there are enough points for two stages, and the model is better than `few` */
    gs_pair_few few;
    bool has_few; /* there are some points */
} gs_table_pair;

typedef struct gs_plan_table {
    const char *title; /* whose kernels these are, for errors; NULL: those of a plan */
    char *gpu;         /* its name; NULL: not known */
    int32_t sms;       /* of it; 0: not known */
    gs_table_kernels kernels;
    gs_table_kernels unmeasured; /* which the plan lists without a duration */
    struct {
        gs_table_pair *data;
        size_t count, capacity;
    } pairs;
} gs_plan_table;

/* Reads the JSON of a plan. What it lacks, has twice or has of another type is an error; keys that are not used here
   are ignored. The caller clears the table, even after an error. */
gs_code gs_plan_table_read(gs_input *input, gs_plan_table *table, gs_error *error);
void gs_plan_table_clear(gs_plan_table *table);
/* Computes the duration of one block of each kernel from its launch on this GPU. */
gs_code gs_plan_table_divide(gs_plan_table *table, const gs_gpu *recorded_on, gs_error *error);
/* -1: there is none. */
int32_t gs_plan_table_find(const gs_plan_table *table, const char *kernel);
/* Whether the plan lists it without a duration. */
bool gs_plan_table_is_unmeasured(const gs_plan_table *table, const char *kernel);
/* The rates of the pair, and their residual. False: the two gain nothing together. */
bool gs_table_pair_rates(const gs_table_pair *pair, gs_pair_rates *rates, double *residual);
/* The duration alone of a launch whose blocks have `work` times the work of the table's. */
gs_forecast gs_table_kernel_us(const gs_table_kernel *kernel, int64_t blocks, double work);

/* ---- fits ---- */

/* How many workers per SM a kernel has beside others that are already resident, each with its workers: the minimum over
   all SMs, and at most `most`. The dispatcher places them all. 0: none, or one of the others does not fit. -1: out of
   memory. */
int32_t gs_fits_beside(const gs_gpu *gpu, const gs_shape *others, const int32_t *workers, size_t count,
                       const gs_shape *shape, int32_t most);

/* The number of waves of a launch on an idle GPU: its duration divided by that of a block. 0: it does not fit. */
double gs_waves_on(const gs_gpu *gpu, const char *name, const gs_shape *shape, int64_t blocks, gs_error *error);

/* ---- networks ---- */

/* A convolution, or a fully connected layer: a convolution of one pixel. */
typedef struct gs_layer {
    char *name;
    int32_t in, out;       /* channels */
    int32_t height, width; /* of the filter */
    int32_t stride, groups;
    int32_t size; /* of the result: size x size pixels */
} gs_layer;

typedef struct gs_network {
    char *name;
    int64_t repeat; /* how often it runs, one time after the other */
    struct {
        gs_layer *data; /* in the order of execution */
        size_t count, capacity;
    } layers;
} gs_network;

#define GS_NETWORK_SCHEMA "gridsmith.network/1"

/* The caller frees the network if the code is GS_OK. */
gs_code gs_network_read(const gs_json *json, gs_network *network, gs_error *error);
/* A network that is built in. GS_E_USAGE: there is none of this name. */
gs_code gs_network_open(const char *name, gs_network *network, gs_error *error);
void gs_network_free(gs_network *network);
bool gs_network_is(const gs_json *json); /* whether a value is one, by its schema */
bool gs_network_exists(const char *name);
/* The names of those that are built in, from number 0; NULL behind the last. */
const char *gs_network_at(size_t number);

/* ---- tasks ---- */

typedef struct gs_listed_launch {
    int32_t kernel; /* of the table */
    int64_t blocks;
    double work;               /* of a block; 1: that of the table */
    size_t after, after_count; /* in `after` of the task */
    bool is_recorded;          /* it takes as long as when it was recorded */
} gs_listed_launch;

typedef struct gs_listed_task {
    char *name;
    double at_us;   /* when it arrives */
    int64_t repeat; /* how often it runs, one time after the other */
    bool is_network;
    struct {
        gs_listed_launch *data;
        size_t count, capacity;
    } launches;
    struct {
        size_t *data;
        size_t count, capacity;
    } after;
} gs_listed_task;

typedef struct gs_task_list {
    gs_listed_task *data;
    size_t count, capacity;
} gs_task_list;

/* How networks become launches. A layer is a matrix product by `gemm`, in which a block computes rows x columns of the
   result; im2col runs before it, unless the filter is 1x1 without a stride. A block of the table does `depth` steps. */
typedef struct gs_network_options {
    const char *gemm;
    int32_t rows, columns, depth;
    int32_t batch;
} gs_network_options;

/* tgemm of the zoo, with its large size, and 32 images. */
gs_network_options gs_network_defaults(void);

/* Adds tasks: of a value (gridsmith.task/1 or gridsmith.network/1), of a file with several of them or a recording, of a
   network that is built in, or one launch of a kernel as in the table. gs_task_list_read closes the input. */
gs_code gs_task_list_add_json(gs_task_list *tasks, const gs_json *json, const gs_network_options *options,
                              const gs_plan_table *table, gs_error *error);
gs_code gs_task_list_read(gs_task_list *tasks, gs_input *input, const gs_network_options *options,
                          const gs_plan_table *table, gs_error *error);
gs_code gs_task_list_add_network(gs_task_list *tasks, const char *name, const gs_network_options *options,
                                 const gs_plan_table *table, int64_t repeat, gs_error *error);
gs_code gs_task_list_add_kernel(gs_task_list *tasks, int32_t kernel, const gs_plan_table *table, int64_t repeat,
                                gs_error *error);
void gs_task_list_clear(gs_task_list *tasks);

/* ---- simulation ---- */

typedef struct gs_simulation_options {
    const gs_gpu *gpu, *recorded_on; /* the simulated GPU, and the one on which the table was measured */
    int32_t together;                /* most launches at a time: 1 is in order */
    double for_us;                   /* tasks start again until this time; 0: as often as `repeat` says */
    double noise;                    /* the largest relative difference of durations and rates from the table */
    uint64_t seed;
    double unknown; /* the throughput of pairs that the table lacks; 1: as in sequence */
    double patience_us;
    gs_progress *progress; /* or NULL */
} gs_simulation_options;

typedef struct gs_simulated_task {
    uint64_t done;              /* how often */
    double alone_us;            /* its duration if nothing else runs */
    double mean_us, longest_us; /* from its arrival to its end */
} gs_simulated_task;

typedef struct gs_simulation {
    double end_us;             /* of the last launch */
    double alone_us;           /* of all launches in sequence */
    double longest_wait_us;    /* of a ready launch */
    uint64_t launches, shared; /* shared: started beside another */
    uint64_t doubtful;         /* whose duration is extrapolated */
    gs_doubt doubt;            /* of one of them */
    gs_simulated_task *tasks;
    size_t task_count;
} gs_simulation;

gs_code gs_simulate(const gs_plan_table *table, const gs_task_list *tasks, const gs_simulation_options *options,
                    gs_simulation *result, gs_error *error);
void gs_simulation_clear(gs_simulation *result);

#endif
