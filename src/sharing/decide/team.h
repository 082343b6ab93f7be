/*
 * team.h: kernels that run side by side, private to this room.
 */
#ifndef GS_PLAN_TEAM_H
#define GS_PLAN_TEAM_H

#include "decide.h"

/* One call of gs_decide. */
typedef struct gs_decide_query {
    const gs_decide_options *options;
    const gs_profile_store *store;
    const gs_contender *contenders;
    size_t count;
    int32_t all; /* SMs of the GPU */
    int32_t sms; /* available: without those reserved for kernels that run whole */
    int32_t granularity;
    int32_t units;        /* of `granularity` SMs, available */
    size_t most_together; /* in a team, besides the kernels that run whole */
    bool ignores_places;  /* decides as if nothing ran */
    size_t first;         /* the contender that goes first, even if another one leads; `count`: not known */
} gs_decide_query;

#define GS_TEAM_IMPOSSIBLE (-1.0)

struct team {
    size_t members[GS_DECIDE_TOGETHER]; /* indexes of contenders; the first is the leader */
    int32_t sms[GS_DECIDE_TOGETHER];
    size_t count;
    double throughput; /* GS_TEAM_IMPOSSIBLE: no split is fair to all */
    bool is_trial;
    bool is_intra_sm; /* two that share all SMs, with these workers: */
    int32_t workers[2];
    bool restarts; /* the leader alone, which now has fewer workers than it could have: it must stop first */
};

/* The limit of units. On a larger GPU a unit has more SMs. */
enum { GS_TEAM_UNITS = 192 };

/* The leader alone. */
struct team gs_team_lone(const gs_decide_query *query, size_t leader);
/* The leader with its best partner, and with more members if that is still better; alone if there is no partner.
 */
struct team gs_team_best(const gs_decide_query *query, size_t leader);
/* The running team, the leader first; impossible if the leader has no place in it, or it is not fair. */
struct team gs_team_now(const gs_decide_query *query, size_t leader);
/* Whether these two would be a team if both had no place yet. */
bool gs_team_would_form(const gs_decide_query *query, size_t a, size_t b);
/* The same on the same SMs only, with the first of them as the one that goes first. */
bool gs_team_would_share(const gs_decide_query *query, size_t a, size_t b);
/* The highest throughput of the leader with a partner that shares SMs with it; impossible: there is none. */
double gs_team_inside(const gs_decide_query *query, size_t leader);
/* The highest throughput of two kernels that share SMs in a known way; 0: none. */
double gs_team_promise(const gs_decide_query *query, const gs_profile *one, const gs_profile *other);
/* On how many SMs a contender should be probed. 0: not at all. Others wait for a probe, so a kernel that could run
   whole is probed when it is alone. */
int32_t gs_team_probe(const gs_decide_query *query, const gs_contender *contender);
/* The expected share of the i-th member on `sms` SMs, beside the others. */
double gs_team_share(const gs_decide_query *query, const struct team *team, size_t i, int32_t sms);

/* ---- facts about a contender ---- */

static inline const gs_contender *member(const gs_decide_query *query, const struct team *team, size_t i) {
    return &query->contenders[team->members[i]];
}

static inline uint32_t weight_of(const gs_contender *contender) {
    return (uint32_t)gs_max(contender->weight, 1);
}

static inline double served_for_weight(const gs_contender *contender) {
    return (double)contender->served / weight_of(contender);
}

static inline int32_t cap_of(const gs_decide_query *query, const gs_contender *contender) {
    return contender->cap > 0 && contender->cap < query->all ? contender->cap : query->all;
}

static inline bool is_known(const gs_contender *contender) {
    return contender->profile && contender->profile->alone > 0;
}

static inline int64_t duration_of(const gs_contender *contender) {
    return is_known(contender) ? (int64_t)gs_profile_duration_ns(contender->profile) : 0;
}

/* What is left of a known kernel, alone on the GPU. */
static inline double left_ns(const gs_contender *contender) {
    return (double)contender->blocks_left / (contender->profile->alone + 1e-30);
}

static inline bool is_short(const gs_decide_query *query, const gs_contender *contender) {
    return is_known(contender) && duration_of(contender) < query->options->short_ns;
}

static inline bool is_whole_now(const gs_contender *contender) {
    return contender->state == GS_CONTENDER_RUNS && contender->how == GS_DECIDE_WHOLE;
}

/* Whether it has a place: it is confined, or it is expected and SMs are reserved for it, or it waits and takes the
   place of the launch before it (gs_contender.how). */
static inline bool is_placed_now(const gs_contender *contender) {
    bool has_sms = contender->how == GS_DECIDE_CONFINED ||
                   (contender->how == GS_DECIDE_WHOLE && contender->state == GS_CONTENDER_EXPECTED);
    return has_sms && contender->sms > 0;
}

#endif
