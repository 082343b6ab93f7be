/*
 * profile.h: profiles of kernels and pairs: a part of measure.h.
 *
 *   profiles   a kernel: its duration, its rate over its number of SMs, its bottleneck
 *   pairs      how much two kernels slow each other side by side, and their throughput in sequence
 *   store      all profiles and pairs, in memory and in an SQLite file
 *
 * No processes, no clocks, no threads: times come in as numbers, and the same input gives the same answer. The daemon
 * measures and calls gs_profile_ran, gs_profile_rate, gs_profile_store_inter_sm, _serial and _intra_sm.
 * docs/glossary.md has the words.
 */
#ifndef GS_PROFILE_H
#define GS_PROFILE_H

#include "kernels/cuda/cuda.h"
#include "model/gpu/gpu.h"

/* ---- profiles ---- */

enum gs_level { GS_LEVEL_UNKNOWN, GS_LEVEL_LOW, GS_LEVEL_MEDIUM, GS_LEVEL_HIGH };

/* "unknown", "low", "medium", "high" */
const char *gs_level_name(enum gs_level level);

enum { GS_PROFILE_SAMPLES = 7, GS_PROFILE_POINTS = 12, GS_PROFILE_NAME = 96 };

/* The last few measurements of one quantity. Its value is their median, so that a disturbed sample has no effect. */
typedef struct gs_samples {
    double last[GS_PROFILE_SAMPLES];
    uint64_t count; /* of all samples, including those not kept */
} gs_samples;

void gs_samples_add(gs_samples *samples, double value);
double gs_samples_median(const gs_samples *samples); /* 0: there are none */
int gs_samples_kept(const gs_samples *samples);      /* how many are in `last` */

/* The logarithms of the times of one form, during a comparison of the two. */
typedef struct gs_form_times {
    uint32_t count;
    double mean, squares; /* `squares` is the sum of squared deviations from the mean */
} gs_form_times;

typedef struct gs_profile {
    uint64_t key;
    char name[GS_PROFILE_NAME];
    int32_t sms;     /* of the GPU */
    uint64_t blocks; /* of a launch: gs_profile_blocks of it */

    gs_samples whole_ns;      /* a launch alone on the GPU, original form */
    gs_samples block_loop_ns; /* the same as a block loop */
    /* Which of the two is used. A block loop is faster if blocks are many and small: starting a block takes longer than
       looping to the next one. The two are compared periodically; this is not kept in the file. */
    bool prefers_block_loop;
    gs_form_times compared[2]; /* in the comparison under way: original, block loop */
    uint32_t until_compared;   /* launches until the next comparison; 0: it is under way */
    uint64_t drawn;            /* launches for which a form was drawn */
    struct gs_profile_point {
        int32_t sms;
        gs_samples rate;         /* confined to `sms` SMs, with the others idle */
    } points[GS_PROFILE_POINTS]; /* in order of sms */
    int32_t point_count;

    /* The curve, computed from the above: starts at (0, 0), never falls, straight between the knots. */
    struct gs_profile_knot {
        int32_t sms;
        double rate;
    } curve[GS_PROFILE_POINTS + 2];
    int32_t knots;
    double alone;   /* the best known rate alone on the GPU; 0: never ran */
    double mean_ns; /* of the last launches that ran whole, alone on the GPU; 0: none did. Not kept in the file */
    double knee;    /* the part of the SMs on which it has nine tenths of its rate on all */

    gs_shape worker; /* a block of its confined form; 0 registers: not known. Not kept in the file */

    /* For the store. */
    uint32_t pins; /* calls of gs_profile_store_get minus gs_profile_store_put */
    bool is_dirty; /* changed since it was saved */
    uint64_t used; /* a count, not a time */
} gs_profile;

/* Adds a measurement, made with no other kernel on the GPU. gs_profile_ran: a launch of `blocks` blocks that ran whole,
   original or as a block loop, took `ns`. gs_profile_rate: confined to `sms` SMs, `blocks` were done in `ns`.
   Impossible numbers (0 blocks, 0 ns, more SMs than the GPU has) are ignored. */
void gs_profile_ran(gs_profile *profile, bool is_block_loop, uint64_t blocks, uint64_t ns);
void gs_profile_rate(gs_profile *profile, int32_t sms, uint64_t blocks, uint64_t ns);

/* The duration of a launch alone on the GPU. 0: not known. */
uint64_t gs_profile_duration_ns(const gs_profile *profile);
/* How long a launch of `blocks` blocks takes alone on average: what many launches take together, even if they differ.
   0: not known. */
double gs_profile_mean_ns(const gs_profile *profile, uint64_t blocks);
/* Whether the next launch, with no other kernel on the GPU, should be in the other form, to compare the two. During a
   comparison that is drawn for each launch. */
bool gs_profile_takes_other(gs_profile *profile);
/* Whether a comparison is under way. */
bool gs_profile_is_comparing(const gs_profile *profile);
/* Whether enough launches were measured, so that few more are needed. */
bool gs_profile_is_settled(const gs_profile *profile);
/* The share on `sms` SMs with no other kernel on the GPU. Without measurements: proportional. */
double gs_profile_share(const gs_profile *profile, int32_t sms);
/* The same for step, 2 * step, ... count * step SMs, each limited to `most`. */
void gs_profile_shares(const gs_profile *profile, int32_t step, int32_t count, int32_t most, double *shares);
/* The number of SMs to measure next, to learn most about the curve. 0: the curve is known well enough. */
int32_t gs_profile_wanted(const gs_profile *profile, int32_t granularity);

/* Slate's classes, read off the curve by the thresholds in profile.c. Unknown until a measurement on half of the SMs or
   fewer. */
enum gs_level gs_profile_compute(const gs_profile *profile);
enum gs_level gs_profile_memory(const gs_profile *profile);

/* Some programs never launch the same grid twice. So launches of a kernel with about the same number of blocks share a
   profile: that of a launch of 1, 2, 3, 4, 6, 8, 12, 16, 24... blocks, rounded down. */
uint64_t gs_profile_blocks(uint64_t blocks);
/* The key of a launch. `source` is a hash of its source, `blocks` is gs_profile_blocks of its grid. Never 0. */
uint64_t gs_profile_key(uint64_t source, const char *kernel, uint64_t blocks, const uint32_t block[3],
                        uint64_t shared_bytes);

/* ---- pairs ---- */

enum {
    GS_PAIR_SPLITS = 8,
    GS_PAIR_WAYS = 2,  /* of intra-SM sharing that are tried for a pair */
    GS_WAY_SAMPLES = 2 /* measurements of a way before they count: a pair has at most four trials */
};

/* A way of intra-SM sharing, and its measurements. */
typedef struct gs_pair_way {
    int32_t workers[2];   /* per SM; 0: unused */
    gs_samples shares[2]; /* of each kernel */
} gs_pair_way;

/* Two kernels a and b; a has the smaller key. How much they slow each other side by side depends on the split: there is
   an exponentially weighted mean for each eighth of the SMs that a had. */
typedef struct gs_pair {
    uint64_t a, b;
    struct gs_pair_split {
        double a, b;    /* the rate beside the other, divided by the rate alone on the same SMs */
        double samples; /* 0: not measured */
    } splits[GS_PAIR_SPLITS];
    double serial, serial_samples; /* the throughput in sequence, a mean like the others */
    /* A split is compared with the sequence right before it, because GPUs change their clocks. Not kept in the file. */
    gs_samples gains;               /* the throughput of a split divided by that of the sequence before it */
    double last_serial;             /* the throughput of that sequence; 0: none */
    uint64_t splits_since;          /* splits measured since then */
    gs_pair_way ways[GS_PAIR_WAYS]; /* the last one was tried last */
    /* The cost of trials, not kept in the file. */
    bool is_asked;           /* the predictor was asked for the first way */
    int32_t next_workers[2]; /* the way to try next; 0: none */
    double otherwise;        /* the throughput of the last sequence or split; 0: not measured */
    double competed_ns;      /* measured time in which both were present */
    double lost_ns;          /* of that, lost by sharing SMs; negative: gained */
    /* Times on the same SMs that are not measured yet, because each was too short. Not kept in the file. */
    struct gs_pair_pieces {
        int32_t workers[2];
        uint64_t blocks[2], ns;
    } pieces;
    bool is_dirty;
    uint64_t used;
} gs_pair;

/* ---- the store ---- */

typedef struct gs_profile_store gs_profile_store;

/* Opens the store of a GPU, kept in the file `path`; NULL: in memory only. A file that is damaged, locked, written by a
   later version, of another program, or cannot be created is not an error: the store works in memory, and
   gs_profile_store_problem says why. NULL: out of memory, or `sms` is not from 1 to GS_JOB_SMS. */
gs_profile_store *gs_profile_store_open(const char *path, const char *gpu, int32_t sms, gs_error *error);
/* Saves changes, closes the file and frees the store. A failure of that save is not reported: to know, save before and
   ask for the problem. */
void gs_profile_store_close(gs_profile_store *store);
/* Saves changes in one transaction; never waits for a lock. At most about 10 ms of work. False: not saved (or there is
   no file). A damaged file is not used again; otherwise the next save retries. */
bool gs_profile_store_save(gs_profile_store *store);
/* Why profiles are not saved, in one line without a newline; NULL: they are, or the line was returned before. Call it
   after gs_profile_store_open and after each gs_profile_store_save, and print what it returns:

     const char *problem = gs_profile_store_problem(store);
     if (problem)
         fprintf(stderr, "gridsmith serve: %s\n", problem);

   A persistent problem is returned once, however often the store is saved. It is returned again if it recurs after a
   successful save. The text is valid until the next save. */
const char *gs_profile_store_problem(gs_profile_store *store);
/* Whether the last save left changes for the next one. */
bool gs_profile_store_has_unsaved(const gs_profile_store *store);

/* The profile of a kernel, created if there is none. The store owns it, and it stays valid until gs_profile_store_put
   was called as often as this. The store is bounded: a new profile can replace the least recently used one that is not
   held. NULL: all candidates are held, or out of memory. */
gs_profile *gs_profile_store_get(gs_profile_store *store, uint64_t key, const char *name, uint64_t blocks);
void gs_profile_store_put(gs_profile_store *store, gs_profile *profile);

enum { GS_STORE_PROFILES = 4096, GS_STORE_PAIRS = 16384 };

/* The work of one of two kernels while only these two ran: `blocks` blocks on `sms` SMs. */
typedef struct gs_beside {
    gs_profile *profile;
    int32_t sms;
    uint64_t blocks;
} gs_beside;
/* Adds a measurement of two kernels that ran side by side for `ns`. */
void gs_profile_store_inter_sm(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns);
/* The same for two in sequence, for `ns` in total (`sms` is not used). */
void gs_profile_store_serial(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns);
/* Adds up the times for which two shared all SMs with these workers since they were last measured: this one and those
   before it, also in the blocks of both. Returns the sum. */
uint64_t gs_profile_store_gather(gs_profile_store *store, gs_beside *one, gs_beside *other, const int32_t workers[2],
                                 uint64_t ns);
/* The same for two that shared all SMs, with these numbers of workers (`sms` is not used). Without blocks of one of
   them it is an interrupted trial, which counts as a loss of half of its time. */
void gs_profile_store_intra_sm(gs_profile_store *store, const gs_beside *one, const gs_beside *other,
                               const int32_t workers[2], uint64_t ns);
/* Enables the predictor, which finds ways of intra-SM sharing to try on this GPU, for pairs whose kernels both have a
   known `worker`. Without it no pair has a way to try. */
gs_code gs_profile_store_predict(gs_profile_store *store, const gs_gpu *gpu, gs_error *error);

/* NULL: not measured. */
const gs_pair *gs_profile_store_pair(const gs_profile_store *store, uint64_t one, uint64_t other);
/* The slowdown of this kernel with `sms` SMs by the other one of the pair, from the measurement nearest to that split;
   1: none. With fewer SMs than in that measurement it is assumed to keep its rate, as far as its curve allows: the
   bottleneck is usually the memory bandwidth. False: not measured. */
bool gs_pair_factor(const gs_pair *pair, const gs_profile *profile, int32_t sms, double *factor);

/* ---- programs of `gridsmith run` ---- */

enum { GS_STORE_COMMANDS = 256 };

typedef struct gs_command_profile {
    uint64_t key;      /* of what was executed; 0: not used */
    double lost_us[2]; /* what requests lost beside it, by time slices and under MPS; negative: not measured */
    double kernels_us; /* what they can lose to its kernels under MPS */
    bool is_sliced;    /* a latency program: its neighbors will use time slices */
    bool is_dirty;     /* not saved */
    uint64_t used;
} gs_command_profile;

#define GS_UNKNOWN_COMMAND(of) ((gs_command_profile){.key = (of), .lost_us = {-1, -1}})

/* NULL: not known. */
const gs_command_profile *gs_profile_store_command(const gs_profile_store *store, uint64_t key);
/* Its key is not 0. */
void gs_profile_store_put_command(gs_profile_store *store, const gs_command_profile *command);
const gs_command_profile *gs_profile_store_next_command(const gs_profile_store *store, size_t *at);

/* All profiles, and all pairs, one after the other, in no order: start with *at = 0. NULL: no more. */
const gs_profile *gs_profile_store_next(const gs_profile_store *store, size_t *at);
const gs_pair *gs_profile_store_next_pair(const gs_profile_store *store, size_t *at);

#endif
