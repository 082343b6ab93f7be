/*
 * literal_decide.h: the decisions of src/sharing/decide, found by trying everything.
 */
#ifndef GS_LITERAL_PLAN_H
#define GS_LITERAL_PLAN_H

#include "sharing/decide/decide.h"

typedef struct literal_query {
    const gs_decide_options *options;
    const gs_profile_store *store;
    const gs_contender *contenders; /* none runs */
    size_t count;
} literal_query;

/* The contender that goes first. */
size_t literal_leader(const literal_query *query);

/* The highest throughput of these contenders side by side, over all fair splits; negative: no split is fair. */
double literal_split(const literal_query *query, const size_t *members, size_t count);

/* The throughput of the best pair that the leader can be in, over all partners and all splits, or of the leader alone.
 */
double literal_pair(const literal_query *query, size_t leader);

/* The most contenders of literal_decide, and the most units of SMs that it tries to split. */
enum { GS_LITERAL_CROWD = 24, GS_LITERAL_UNITS = 192 };

/* The whole decision, whatever runs: what gs_decide must answer. Returns the throughput (literal_teams.c). */
double literal_decide(const literal_query *query, gs_decided_place *places);

/* The fewest SMs that get a new user, over all ways to give each of `count` users wanted[i] of the SMs; at most 8 SMs.
 */
int32_t literal_moves(int32_t sms, size_t count, const int32_t *wanted, const gs_mask *had);

#endif
