/*
 * team.h: kernels that shall run side by side, for the files of this room.
 */
#ifndef GS_PLAN_TEAM_H
#define GS_PLAN_TEAM_H

#include "plan.h"

/* What was asked. */
typedef struct question {
    const gs_plan_options *options;
    const gs_profile_store *store;
    const gs_contender *contenders;
    size_t count;
    int32_t all; /* SMs of the GPU */
    int32_t sms; /* that can be given out: those that were left for kernels that run whole cannot */
    int32_t granularity, units;
    size_t most_together; /* besides kernels that run whole */
} question;

#define GS_TEAM_IMPOSSIBLE (-1.0)

struct team {
    size_t members[GS_PLAN_TOGETHER]; /* numbers of contenders; the first leads */
    int32_t sms[GS_PLAN_TOGETHER];
    size_t count;
    double throughput; /* GS_TEAM_IMPOSSIBLE: there is no split that is fair to all */
    bool is_trial;
};

/* SMs are given out in larger pieces on GPUs with more than so many times the granularity. */
enum { GS_TEAM_UNITS = 192 };

struct team gs_team_lone(const question *q, size_t leader);
/* The leader with the partner that is best for it, and whoever else makes it better; alone, where nobody does. */
struct team gs_team_best(const question *q, size_t leader);
/* The team that runs now, the leader first; impossible where the leader is not in it, or it would not be fair. */
struct team gs_team_now(const question *q, size_t leader);
/* Whether these two would be a team, if both could be told what to do. */
bool gs_team_would_form(const question *q, size_t a, size_t b);
/* On how many SMs a contender should be run for a moment, so that its curve becomes known. 0: no need, or no use. */
int32_t gs_team_probe(const question *q, const gs_contender *c);
/* The share that a member has with so many SMs, beside the others. */
double gs_team_share(const question *q, const struct team *team, size_t i, int32_t sms);

/* ---- what is known of a contender ---- */

static inline const gs_contender *member(const question *q, const struct team *team, size_t i) {
    return &q->contenders[team->members[i]];
}

static inline uint32_t weight_of(const gs_contender *c) {
    return c->weight > 0 ? c->weight : 1;
}

static inline int32_t cap_of(const question *q, const gs_contender *c) {
    return c->cap > 0 && c->cap < q->all ? c->cap : q->all;
}

static inline bool is_known(const gs_contender *c) {
    return c->profile && c->profile->alone > 0;
}

static inline int64_t duration_of(const gs_contender *c) {
    return is_known(c) ? (int64_t)gs_profile_duration_ns(c->profile) : 0;
}

static inline bool is_short(const question *q, const gs_contender *c) {
    return is_known(c) && duration_of(c) < q->options->short_ns;
}

static inline bool is_whole_now(const gs_contender *c) {
    return c->state == GS_CONTENDER_RUNS && c->how == GS_PLAN_WHOLE;
}

/* A launch that waits has a place where it is confined to SMs that are still its stream's. */
static inline bool is_placed_now(const gs_contender *c) {
    bool has_sms = c->how == GS_PLAN_CONFINED || (c->how == GS_PLAN_WHOLE && c->state == GS_CONTENDER_EXPECTED);
    return has_sms && c->sms > 0;
}

#endif
