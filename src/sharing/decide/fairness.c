/*
 * fairness.c: what each client has had, so that the one that was served least goes first.
 *
 * A new client starts with the account of a client that was always there and got its share. So clients that connect,
 * launch and leave repeatedly gain nothing over one that stays.
 */
#include "decide.h"

#include <math.h>

enum {
    ABSENT_NS = 100000000, /* a client that was away for longer counts as new */
    MOST_BEHIND = 4,       /* time slices that a client may have to catch up */
    PATIENCE = 8,          /* a returning client waits about 1/8 of its absence at most, */
    GAP_NS = 50000         /* or this long: with less work on the device there would be gaps between launches */
};

/* A time slice of a client, divided by its weight. */
static double turn_of(const gs_fairness *fairness, const gs_fair_client *client) {
    return (double)fairness->slice_ns * fairness->sms / client->weight;
}

double gs_fair_had(const gs_fair_client *client) {
    return (double)client->had / client->weight;
}

int64_t gs_fair_slice_ns(const gs_fairness *fairness) {
    enum { USUAL = 4, MANY = 40 }; /* clients: a slice is from 10 ms to 1 ms */
    int64_t clients = gs_max(USUAL, gs_min((int64_t)fairness->present, MANY));
    return fairness->slice_ns * USUAL / clients;
}

/* The account of a new client: its share, limited so that it waits at most until each other client had one time slice.
 */
static double fair_for(const gs_fairness *fairness, const gs_fair_client *client, double least_had) {
    double turn = (double)gs_fair_slice_ns(fairness) * fairness->sms / client->weight;
    return fmin(fairness->share, least_had + turn);
}

/* A new or returning client has no more to catch up than others. One that was away briefly, between two launches, keeps
   its account, down to some time slices below its share. If it could be further behind, new clients would start as far
   behind as it is, and would keep out those that had their share. */
void gs_fair_join(gs_fairness *fairness, gs_fair_client *client, double least_had, uint64_t now_ns) {
    bool was_there = client->left_ns && now_ns - client->left_ns < ABSENT_NS;
    double fair =
        was_there ? fairness->share - MOST_BEHIND * turn_of(fairness, client) : fair_for(fairness, client, least_had);
    fairness->clients++;
    fairness->weight += client->weight;
    client->had = gs_max_u64(client->had, fair > 0 ? (uint64_t)(fair * client->weight) : 0);
}

/* It is remembered for a while, because it may come back. */
void gs_fair_leave(gs_fairness *fairness, gs_fair_client *client, uint64_t now_ns) {
    client->left_ns = now_ns;
    client->has_slice = false;
    fairness->weight -= client->weight;
    if (!--fairness->clients)
        return;
    fairness->left_ns = now_ns;
    fairness->left_had = gs_fair_had(client);
}

void gs_fair_charge(gs_fairness *fairness, gs_fair_client *client, uint64_t served) {
    client->had += served;
    fairness->share += (double)served / (double)gs_max_u64(fairness->weight, client->weight);
}

void gs_fair_charge_beside(gs_fairness *fairness, gs_fair_client *client, uint64_t served, uint64_t expected) {
    uint64_t most = expected + client->spare, charged = gs_min_u64(served, most);
    client->spare = gs_min_u64(most - charged, (uint64_t)(fairness->slice_ns * fairness->sms));
    gs_fair_charge(fairness, client, charged);
}

/* ---- clients that have had more than others ---- */

/* Whether a client that has left may come back soon. */
static bool is_missed(const gs_fairness *fairness, uint64_t now_ns) {
    return fairness->left_ns && now_ns - fairness->left_ns < ABSENT_NS;
}

/* Whether it is ahead of another client that is there. */
static bool leads(const gs_fairness *fairness, const gs_fair_client *client) {
    double lead_ns = (double)(fairness->lead_ns ? fairness->lead_ns : fairness->slice_ns);
    double lead = client->lets_pass ? 0 : lead_ns * fairness->sms / client->weight;
    return fairness->clients > 1 && gs_fair_had(client) > fairness->least_had + lead;
}

void gs_fair_note_lead(const gs_fairness *fairness, gs_fair_client *client) {
    client->lets_pass = leads(fairness, client);
}

bool gs_fair_is_ahead(const gs_fairness *fairness, const gs_fair_client *client, uint64_t now_ns) {
    return leads(fairness, client) ||
           (is_missed(fairness, now_ns) && gs_fair_had(client) - turn_of(fairness, client) > fairness->left_had);
}

bool gs_fair_is_alone(const gs_fairness *fairness, const gs_fair_client *client, uint64_t now_ns) {
    return fairness->clients == 1 && !is_missed(fairness, now_ns) && client->has_slice &&
           now_ns - client->turn_since_ns > (uint64_t)fairness->slice_ns;
}

int64_t gs_fair_patience_ns(const gs_fairness *fairness, const gs_fair_client *client, uint64_t now_ns) {
    if (!gs_fair_is_ahead(fairness, client, now_ns))
        return INT64_MAX;
    if (fairness->present > 1)
        return 0;
    return fairness->clients > 1 ? GAP_NS : gs_max(GAP_NS, (int64_t)(now_ns - fairness->left_ns) / PATIENCE);
}

/* ---- time slices ---- */

void gs_fair_note_turns(const gs_contender *contenders, const gs_decided_place *places, size_t count, uint64_t now_ns) {
    for (size_t i = 0; i < count; i++)
        if (!contenders[i].fair->has_slice)
            contenders[i].fair->turn_since_ns = now_ns;
    for (size_t i = 0; i < count; i++)
        contenders[i].fair->has_slice = false;
    for (size_t i = 0; i < count; i++)
        contenders[i].fair->has_slice |= places[i].how != GS_DECIDE_WAIT;
}
