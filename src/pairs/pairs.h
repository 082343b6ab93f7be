/*
 * pairs.h: kernels played alone and together on a device, and measured: what a search of src/plan asks for.
 *
 *   players   a device: the kernels that it knows, and how long they take. The model (model_player.c) and, in a process
 *             of its own that is killed if a kernel never ends, a GPU (player_process.c, cuda_player.c)
 *   sources   what a user names: kernels of the zoo, files with kernels, kernel lists, recorded programs (kernel_list.c)
 *   planning  asks a search, plays, and keeps the answers in a plan file (planning.c)
 */
#ifndef GS_PAIRS_H
#define GS_PAIRS_H

#include "plan/plan.h"
#include "zoo/zoo.h"

/* ---- players ---- */

typedef struct gs_player gs_player;

typedef struct gs_player_ops {
    const char *name;
    /* Measures. A kernel that fails is an answer, not an error; an error ends the plan. */
    gs_code (*measure)(gs_player *player, const gs_measurement *measurement, gs_measured *measured, gs_error *error);
    void (*close)(gs_player *player);
} gs_player_ops;

struct gs_player {
    const gs_player_ops *ops;
    void *inside;
};

void gs_player_close(gs_player *player);

/* ---- the model ---- */

enum { GS_MODEL_UNITS = 6 };

/* A kernel of the model: what it does to others is known. */
typedef struct gs_model_kernel {
    double us;                           /* alone, at full speed */
    double needed[GS_SEARCH_FORMS];      /* workers per SM at which it has its full speed on all SMs */
    double cost[GS_SEARCH_FORMS];        /* of the form: 1.1 takes 10% longer */
    double surplus;                      /* at most this many times its full speed is what its SMs could do: with more
                                            than 1, it has its full speed on fewer SMs, too */
    double spills;                       /* part that it takes longer with half of its registers */
    double units[GS_MODEL_UNITS];        /* the part of each unit that it takes at full speed; the first is the memory,
                                            which all SMs share */
    int32_t registers[GS_SEARCH_FORMS];  /* as compiled */
    bool never_ends;
    bool is_changed;                     /* its results are others beside another kernel */
} gs_model_kernel;

typedef struct gs_model {
    const gs_model_kernel *kernels; /* not owned */
    int32_t sms;
    double penalty;  /* part that both take longer inside an SM, whatever they use */
    double noise;    /* measurements are off by up to this part */
    uint64_t seed;   /* of the noise */
    int64_t asked;   /* measurements so far */
} gs_model;

/* How long a measurement takes, without noise. */
void gs_model_time(const gs_model *model, const gs_measurement *measurement, gs_measured *measured);
gs_player *gs_player_model(const gs_model *model, gs_error *error); /* copies the model, keeps the kernels */

#endif
