/*
 * search_state.h: the internals of a search, private to this room.
 *
 * Each file calls only files below it:
 *
 *   search_all.c     all ways to run a pair, to compare with
 *   pair_search.c    the search: which kernel or pair is next, and the measurements
 *   search_pair.c    one pair: inside, split or turns
 *   search_guess.c   estimates how much two kernels slow each other in other shapes
 *   search_split.c   how to split the SMs between two kernels
 *   search_list.c    the ways of intra-SM sharing for a pair
 *   search_alone.c   one kernel: its forms and their workers
 *   search_fit.c     which blocks fit together, computed by the predictor
 *   search_answers.c the results of measurements
 *
 * A walk goes through the questions about one kernel or pair from the start, with the known answers, and stops at the
 * first question without one. So no file needs a state to wait in.
 */
#ifndef GS_SEARCH_STATE_H
#define GS_SEARCH_STATE_H

#include "pair_search.h"

/* ---- answers (search_answers.c) ---- */

typedef struct gs_answers {
    struct gs_pair_search_answer {
        gs_measurement measurement;
        gs_measure_result measured;
    } * data;
    size_t count, capacity;
} gs_answers;

typedef struct gs_walk {
    const gs_answers *answers;
    gs_measurement next; /* the first question without an answer */
    int32_t asked;       /* questions with an answer */
} gs_walk;

/* The answer, or NULL: the walk ends here. */
const gs_measure_result *gs_walk_ask(gs_walk *walk, const gs_measurement *measurement);
const gs_measure_result *gs_answers_find(const gs_answers *answers, const gs_measurement *measurement);

/* ---- what fits (search_fit.c) ---- */

typedef struct gs_room_fit {
    gs_gpu *small; /* a TPC of the GPU */
    gs_state empty, state;
} gs_room_fit;

gs_code gs_room_fit_open(gs_room_fit *fit, const gs_gpu *gpu, gs_error *error);
void gs_room_fit_close(gs_room_fit *fit);
/* How many blocks of a kernel fit on an empty SM. */
int32_t gs_room_fit_alone(gs_room_fit *fit, const gs_shape *shape);
/* How many blocks of the second, at most `most`, beside `workers` of the first. */
int32_t gs_room_fit_beside(gs_room_fit *fit, const gs_shape *first, int32_t workers, const gs_shape *second,
                           int32_t most);
/* Which of two kernels is launched first: 0 or 1. */
int32_t gs_room_fit_leader(const gs_room_fit *fit, const gs_shape *first, const gs_shape *second);
/* Why a block of the second does not fit, in a few words. */
const char *gs_room_fit_obstacle(gs_room_fit *fit, const gs_shape *first, int32_t workers, const gs_shape *second);

/* The same for a search. */
int32_t gs_pair_search_leader(const gs_pair_search *search, const gs_shape *first, const gs_shape *second);

/* ---- a kernel (search_alone.c) ---- */

/* False: a measurement is needed first. */
bool gs_pair_search_alone(gs_walk *walk, gs_room_fit *fit, const gs_pair_search_kernel *given, int32_t kernel,
                          const gs_pair_search_options *options, int32_t sms, gs_found_kernel *found);
/* The duration of a launch in a form with `workers` per SM, interpolated from measurements. */
double gs_found_us(const gs_found_form *form, int32_t workers);
/* The best duration. */
double gs_found_best_us(const gs_found_kernel *found);

/* The load of the second kernel of a measurement, divided by that of the first. */
double gs_pair_ratio(const gs_found_kernel *const found[2], const gs_measurement *measurement);

/* ---- a pair ---- */

/* A way of intra-SM sharing for a pair. */
typedef struct gs_way {
    int32_t form[2], workers[2], registers[2];
    double us[2];    /* of one launch of each alone in this shape */
    double least_us; /* of the pair, if they did not slow each other */
    int32_t number;  /* in the order in which they were found */
} gs_way;

typedef struct gs_ways {
    gs_way *data;
    size_t count, capacity;
    char reason[GS_SEARCH_WORDS]; /* why there is none */
} gs_ways;

struct gs_pair_question {
    const gs_gpu *gpu;
    gs_room_fit *fit;
    const gs_pair_search_kernel *given[2];
    const gs_found_kernel *found[2];
    const gs_pair_search_options *options;
};

/* The fewest registers that a form is compiled with, and the next lower limit (search_list.c). */
int32_t gs_least_registers(const gs_pair_search_kernel *given, const gs_found_kernel *found, int32_t form);
int32_t gs_next_registers(int32_t registers);

/* All ways that fit and are not dominated by another one (search_list.c). `repeats` is how often each kernel is
   launched, `limit_us` the time that a way must be able to beat. */
gs_code gs_ways_list(const struct gs_pair_question *question, const int32_t repeats[2], double limit_us, gs_ways *ways,
                     gs_error *error);

enum { GS_GUESS_POINTS = 8 };

/* How much two kernels slow each other inside an SM, by their speeds relative to those alone (search_guess.c). */
typedef struct gs_guess {
    struct gs_guess_point {
        double s, t, factor;
    } points[GS_GUESS_POINTS];
    int count;
} gs_guess;

void gs_guess_add(gs_guess *guess, double s, double t, double factor);
double gs_guess_factor(const gs_guess *guess, double s, double t);

/* The best split from measurements of the kernels alone, and its time. Returns the SMs of the first (search_split.c).
 */
int32_t gs_split_best(const struct gs_pair_question *question, const int32_t repeats[2], double *us);
/* The duration of a launch on `sms` SMs. */
double gs_split_us(const gs_found_kernel *found, int32_t sms, int32_t of_sms);

/* False: a measurement is needed first. `ways` is empty before the first call for this pair (search_pair.c). */
bool gs_pair_search_pair(gs_walk *walk, const struct gs_pair_question *question, gs_ways *ways, bool *is_listed,
                         gs_found_pair *pair, gs_error *error);

#endif
