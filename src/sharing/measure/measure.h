/*
 * measure.h: measurements of kernels, alone and in pairs: their profiles, what to measure next, and the players that
 * measure.
 *
 *   profiles  measurements of kernels and pairs (profile.h)
 *   durations predicted durations of kernels, alone and in pairs (duration.h)
 *   search    ahead of time: which measurements to make, and the best way to run each pair (pair_search.h)
 *   players   a device that runs and times kernels: the model (model_player.c) and, in a separate
 *             process that is killed if a kernel never ends, a GPU (process_player.c, cuda_player.c)
 *   sources   the kernels named by a user: zoo, files, lists, recorded programs (kernel_list.c)
 *   planning  runs a search, measures, and keeps the results in a plan file (planning.c, planning_check.c)
 */
#ifndef GS_MEASURE_H
#define GS_MEASURE_H

#include "duration.h"
#include "kernels/zoo/zoo.h"
#include "pair_search.h"
#include "profile.h"

/* ---- players ---- */

typedef struct gs_player gs_player;

typedef struct gs_player_ops {
    const char *name;
    /* Measures. A kernel that fails is a result, not an error; an error ends the plan. */
    gs_code (*measure)(gs_player *player, const gs_measurement *measurement, gs_measure_result *measured,
                       gs_error *error);
    void (*close)(gs_player *player);
} gs_player_ops;

struct gs_player {
    const gs_player_ops *ops;
    void *inside;
};

void gs_player_close(gs_player *player);

/* ---- sources ---- */

/* A kernel of the model, with known effects on others. */
enum { GS_MODEL_UNITS = 6 };

typedef struct gs_model_kernel {
    double us;                          /* alone, at full speed */
    double needed[GS_SEARCH_FORMS];     /* workers per SM that give its full speed on all SMs */
    double cost[GS_SEARCH_FORMS];       /* of the form: 1.1 takes 10% longer */
    double surplus;                     /* its SMs could do at most this many times its full speed: above 1, it has its
                                           full speed on fewer SMs, too */
    double spills;                      /* the relative slowdown with half of its registers */
    double units[GS_MODEL_UNITS];       /* the part of each unit that it uses at full speed; the first is the memory,
                                           which all SMs share */
    int32_t registers[GS_SEARCH_FORMS]; /* as compiled */
    bool never_ends;
    bool is_changed; /* its results change beside another kernel */
} gs_model_kernel;

enum { GS_SOURCE_PATH = 512 };

enum gs_source_kind { GS_SOURCE_ZOO, GS_SOURCE_FILE, GS_SOURCE_BLACK_BOX, GS_SOURCE_MODEL };

/* A kernel named by a user. It is sent to another process unchanged. */
typedef struct gs_kernel_source {
    enum gs_source_kind kind;
    char name[GS_SEARCH_NAME];   /* in the plan */
    char zoo[40], size[16];      /* of the zoo: the kernel and its size */
    bool is_elastic;             /* of the zoo: with halves and quarters of its blocks */
    char file[GS_SOURCE_PATH];   /* of a file: the source or PTX, */
    char kernel[GS_JOB_NAME];    /* the kernel, */
    char launch[GS_SOURCE_PATH]; /* and its launch */
    gs_pair_search_kernel given; /* of a black box and of a kernel of the model: its shape */
    gs_model_kernel model;
} gs_kernel_source;

typedef struct gs_named_kernels {
    gs_kernel_source *data;
    size_t count, capacity;
    const char *size; /* the default for kernels of the zoo */
    bool is_elastic;
} gs_named_kernels;

/* Adds what a word of a user names: a kernel of the zoo; FILE.cu:KERNEL or FILE.ptx:KERNEL, also compressed
   (FILE.ptx.gz:KERNEL), with its launch in FILE.json; or a file of JSON with a list of kernels or a recorded program.
 */
gs_code gs_named_kernels_add(gs_named_kernels *list, const char *word, gs_error *error);
/* The same for JSON; paths in it are relative to the folder of `path`. Closes `input`. */
gs_code gs_named_kernels_read(gs_named_kernels *list, gs_input *input, const char *path, gs_error *error);
void gs_named_kernels_free(gs_named_kernels *list);
/* Whether a kernel of such a list, or of its plan, has the name of a recorded one, whose shape may be another. */
bool gs_named_kernel_is(const char *name, const char *recorded);

/* ---- a GPU ---- */

/* The player process; `argv` is that of a process started with GS_PLAYER_PROCESS. Returns its exit code. */
#define GS_PLAYER_PROCESS "player-process"
int gs_player_process(int argc, char **argv);

typedef struct gs_cuda_player_options {
    const char *rest;                /* the part of the name of the device after "cuda:", or "" */
    const gs_kernel_source *sources; /* not owned */
    size_t count;
    int64_t seconds; /* a measurement that takes longer has failed */
} gs_cuda_player_options;

/* The GPU of a player: the driver's name of it, and its SMs. */
typedef struct gs_player_gpu {
    char name[96];
    int32_t sms;
} gs_player_gpu;

/* Starts the process, and fills `kernels`, one for each source: their shapes, or their problems. GS_E_NO_GPU: no
   GPU. */
gs_player *gs_player_cuda(const gs_cuda_player_options *options, gs_pair_search_kernel *kernels, gs_player_gpu *gpu,
                          gs_error *error);

/* ---- the model ---- */

typedef struct gs_model {
    const gs_model_kernel *kernels; /* not owned */
    int32_t sms;
    double penalty; /* the relative slowdown of both by intra-SM sharing itself */
    double noise;   /* the largest relative error of measurements */
    uint64_t seed;  /* of the noise */
} gs_model;

/* The duration of a measurement, without noise. */
void gs_model_time(const gs_model *model, const gs_measurement *measurement, gs_measure_result *measured);
gs_player *gs_player_model(const gs_model *model, gs_error *error); /* copies the model, keeps the kernels */

/* ---- planning ---- */

typedef struct gs_planning {
    gs_player *player;
    gs_plan_file *file; /* NULL: nothing is kept */
    int64_t most;       /* new measurements; 0: no limit */
    bool is_coarse;     /* gs_planning_compare: some of the ways (gs_pair_search_all) */
} gs_planning;

/* Measures until the plan is complete. */
gs_code gs_planning_run(const gs_planning *planning, gs_pair_search *search, gs_error *error);

/* The plan's choice for a pair, compared with the best of all ways. */
typedef struct gs_planning_compared {
    size_t ways; /* measured; 0: none */
    double chosen_us, best_us;
    gs_measurement best;
} gs_planning_compared;

/* Relative errors of forecasts. */
typedef struct gs_forecast_errors {
    double sum, worst;
    int64_t count;   /* 0: no model, or it is refused */
    bool is_refused; /* its residuals are too large */
    double wave;     /* blocks of a wave, if the model is by waves */
} gs_forecast_errors;

/* Compare the model of a kernel, or of a pair, with new measurements at other sizes (planning_check.c). */
gs_code gs_planning_check_kernel(const gs_planning *planning, const gs_pair_search *search, size_t number,
                                 gs_forecast_errors *errors, gs_error *error);
gs_code gs_planning_check_pair(const gs_planning *planning, const gs_pair_search *search, size_t number,
                               gs_forecast_errors *errors, gs_error *error);

gs_code gs_planning_compare(const gs_planning *planning, gs_pair_search *search, size_t pair,
                            gs_planning_compared *compared, gs_error *error);

#endif
