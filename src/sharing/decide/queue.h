/*
 * queue.h: which launches of several tasks run next, and together: a part of decide.h.
 *
 *   partners   how fast kernels of one kind progress beside another, and the duration of a set of launches
 *   queue      the online scheduler of ISPA, section 6.5
 *
 * The caller adds tasks, asks what to start, and says when launches have ended. There is no clock: times come in as
 * numbers.
 * docs/glossary.md has the words.
 */
#ifndef GS_QUEUE_H
#define GS_QUEUE_H

#include "sharing/measure/measure.h"

#include <stdint.h>

/* ---- partners ---- */

enum { GS_QUEUE_TOGETHER = 4 }; /* the most launches at a time */

typedef enum gs_partner_state {
    GS_PARTNER_NEVER,   /* they do not run together */
    GS_PARTNER_FITS,    /* they fit together, but were not measured */
    GS_PARTNER_MEASURED /* the rates are known */
} gs_partner_state;

/* How kernels of one kind behave beside another kind. */
typedef struct gs_partner {
    gs_partner_state state;
    int32_t workers;   /* of this kind beside the other */
    double rate;       /* while both run; 1: as fast as alone */
    double rate_after; /* after the other has ended, with the same workers */
} gs_partner;

typedef struct gs_partners {
    size_t kinds;
    gs_partner *data; /* kinds x kinds */
} gs_partners;

static inline gs_partner *gs_partner_of(const gs_partners *partners, int32_t kind, int32_t other) {
    return &partners->data[(size_t)kind * partners->kinds + (size_t)other];
}

/* False: out of memory. */
bool gs_partners_init(gs_partners *partners, size_t kinds);
void gs_partners_free(gs_partners *partners);
/* Sets how two kinds behave together. `residual` is that of the model: rates are lowered by twice as much. */
void gs_partners_set(gs_partners *partners, int32_t first, int32_t second, const gs_pair_rates *rates, double residual,
                     int32_t first_workers, int32_t second_workers);

/* A running launch, or a candidate. */
typedef struct gs_runner {
    int32_t kind;
    double left_us; /* remaining duration alone */
    double rate;    /* without others */
} gs_runner;

/* How fast each of these launches progresses while all of them run. */
void gs_partners_rates(const gs_partners *partners, const gs_runner *runners, size_t count, double *rates);
/* The time until the last of them has ended, if all run from now on. */
double gs_partners_finish_us(const gs_partners *partners, const gs_runner *runners, size_t count);

/* ---- queue ---- */

typedef struct gs_queue_options {
    int32_t most_together; /* 1: in sequence; at most GS_QUEUE_TOGETHER */
    double least_gain;     /* relative to the duration of the shorter launch: a smaller gain does not count */
    double patience_us;    /* a launch that waits this much longer than it would in order goes first */
    double trial_part;     /* the part of the time that trials may cost */
    /* Whether all workers of these kinds, with these numbers per SM, are resident together. Called for three and more.
       NULL: no. */
    bool (*fits)(void *user, const int32_t *kinds, const int32_t *workers, size_t count);
    void *user;
} gs_queue_options;

/* Pairs, a gain of 3%, 100 ms of patience, trials for 0.5% of the time. */
gs_queue_options gs_queue_defaults(void);

typedef struct gs_queue_launch {
    int32_t kind;
    double alone_us;     /* predicted duration alone */
    uint64_t user;       /* for the caller */
    const size_t *after; /* launches of the same task that must end before, by their index; all smaller than its own */
    size_t after_count;
} gs_queue_launch;

typedef struct gs_queue gs_queue;

/* An empty queue for `kinds` kinds, which do not run together unless gs_queue_partners says so. NULL: out of
   memory. The caller frees it. */
gs_queue *gs_queue_new(const gs_queue_options *options, size_t kinds);
void gs_queue_free(gs_queue *queue);

/* Sets how two kinds behave together. The first one belongs to the queue of the first class: ISPA's kernels that use
   tensor cores. A kind that is never the first of a pair belongs to the second. Call it before tasks are added. */
void gs_queue_pair(gs_queue *queue, int32_t first, int32_t second, const gs_pair_rates *rates, double residual,
                   int32_t first_workers, int32_t second_workers);
/* Two kinds that were not measured, but fit together. */
void gs_queue_pair_fits(gs_queue *queue, int32_t first, int32_t second, int32_t first_workers, int32_t second_workers);

/* Adds a task. False: out of memory, and nothing was added; or a launch waits for itself or a later one. */
bool gs_queue_add(gs_queue *queue, const gs_queue_launch *launches, size_t count, double now_us);

typedef struct gs_queue_start {
    size_t launch; /* its handle, for gs_queue_end */
    int32_t kind;
    uint64_t user;
    int32_t workers;  /* per SM; 0: as many as it has alone */
    double waited_us; /* since it was ready */
} gs_queue_start;

/* Decides what starts now. Call it after tasks were added and after launches have ended. Fills at most
   GS_QUEUE_TOGETHER elements and returns how many. 0: none now. */
size_t gs_queue_next(gs_queue *queue, double now_us, gs_queue_start *starts);
/* A launch has ended. */
void gs_queue_end(gs_queue *queue, size_t launch, double now_us);

/* Launches that have not ended. */
size_t gs_queue_count(const gs_queue *queue);
/* How two kinds behave together, with what was learned from launches. */
const gs_partners *gs_queue_partners(const gs_queue *queue);

#endif
