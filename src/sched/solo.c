/*
 * solo.c: remembers how launches went that had the GPU to themselves.
 *
 * In most programs most kernels run alone: the GPU is idle when they start, and nothing else starts before they end.
 * What happens then depends on few things: the shape of the kernel, the number of its blocks, and what an idle GPU
 * remembers (gs_idle, and the turns). It does not depend on the pointers of the SMs, because the partitions of an idle
 * SM are alike: with another pointer the same happens on other partitions. Nor does it depend on the duration of a
 * block, if all blocks run equally long: then all happens at multiples of that duration, the waves.
 *
 * So the first such launch is played block by block, and what it did is kept. A later one that begins in the same way
 * is one event: its end. If another kernel wants to start before that, the engine plays the launch after all, from its
 * beginning (engine.c): while it flies, as this is called, the state of the GPU is still that at its start.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_BUCKETS = 1024 };

/* How a launch begins: launches with equal keys go alike. Without padding. */
struct solo_key {
    int64_t blocks;
    int64_t duration_ns, spread_ns; /* of a block; 0 if all blocks run equally long */
    int32_t kernel, cluster;
    gs_turns turns;
    gs_idle idle;
};

/* How it went. */
struct gs_flight {
    struct solo_key key;
    size_t launch;  /* the one that was played */
    int64_t took;   /* waves, or nanoseconds if blocks do not run equally long */
    gs_turns turns; /* at its end */
    gs_idle idle;
    gs_flight *next; /* in its bucket */
    uint8_t steps[]; /* by SM: how far its pointer moved */
};

struct gs_solos {
    gs_flight **buckets;
    size_t bucket_count, count;
    struct solo_key key; /* of the launch that is being played */
    uint8_t pointers[];  /* by SM: at its start */
};

static int32_t sms_of(const gs_engine *engine) {
    return gs_dispatcher_state(engine->dispatcher)->gpu->sms;
}

gs_solos *gs_solos_new(const gs_gpu *gpu) {
    gs_solos *solos = calloc(1, sizeof *solos + (size_t)gpu->sms);
    if (!solos)
        return NULL;
    solos->bucket_count = FEW_BUCKETS;
    solos->buckets = calloc(solos->bucket_count, sizeof(gs_flight *));
    if (solos->buckets)
        return solos;
    free(solos);
    return NULL;
}

void gs_solos_free(gs_solos *solos) {
    for (size_t i = 0; solos && i < solos->bucket_count; i++)
        for (gs_flight *flight = solos->buckets[i], *next; flight; flight = next) {
            next = flight->next;
            free(flight);
        }
    if (solos)
        free(solos->buckets);
    free(solos);
}

/* ---- looking up ---- */

static gs_flight **bucket_of(const gs_solos *solos, const struct solo_key *key) {
    return &solos->buckets[gs_hash(0, key, sizeof *key) & (solos->bucket_count - 1)];
}

static gs_turns turns_now(const gs_engine *engine) {
    return engine->turns.count ? engine->turns.data[0] : (gs_turns){0};
}

bool gs_solo_begin(gs_engine *engine, size_t launch, const gs_flight **flight) {
    const gs_launch *which = &engine->run->launches.data[launch];
    gs_solos *solos = engine->solos;
    bool is_even = !which->spread_ns;
    struct solo_key key = {.blocks = which->blocks,
                           .duration_ns = is_even ? 0 : which->duration_ns,
                           .spread_ns = which->spread_ns,
                           .kernel = engine->plays[launch].kernel,
                           .cluster = which->cluster,
                           .turns = turns_now(engine)};
    if (!gs_dispatcher_idle(engine->dispatcher, &key.idle))
        return false;
    *flight = NULL;
    for (const gs_flight *known = *bucket_of(solos, &key); known && !*flight; known = known->next)
        if (memcmp(&known->key, &key, sizeof key) == 0)
            *flight = known;
    solos->key = key;
    if (!*flight)
        gs_dispatcher_pointers(engine->dispatcher, solos->pointers);
    return true;
}

/* ---- learning ---- */

static bool grow(gs_solos *solos) {
    size_t old_count = solos->bucket_count;
    gs_flight **old = solos->buckets, **more = calloc(2 * old_count, sizeof(gs_flight *));
    if (!more)
        return false;
    solos->buckets = more;
    solos->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++)
        for (gs_flight *flight = old[i], *next; flight; flight = next) {
            gs_flight **bucket = bucket_of(solos, &flight->key);
            next = flight->next;
            flight->next = *bucket;
            *bucket = flight;
        }
    free(old);
    return true;
}

bool gs_solo_learn(gs_engine *engine, size_t launch, int64_t began_ns) {
    gs_solos *solos = engine->solos;
    size_t sms = (size_t)sms_of(engine);
    gs_flight *flight = calloc(1, sizeof *flight + sms);
    if (!flight || (solos->count == solos->bucket_count && !grow(solos))) {
        free(flight);
        return false;
    }
    flight->key = solos->key;
    flight->launch = launch;
    flight->took = engine->now_ns - began_ns;
    if (!solos->key.spread_ns)
        flight->took /= engine->run->launches.data[launch].duration_ns;
    flight->turns = turns_now(engine);
    if (!gs_dispatcher_idle(engine->dispatcher, &flight->idle)) { /* it can only be repeated if it ends as it began */
        free(flight);
        return true;
    }
    gs_dispatcher_pointers(engine->dispatcher, flight->steps);
    int32_t partitions = gs_dispatcher_state(engine->dispatcher)->gpu->limits.partitions_per_sm;
    for (size_t i = 0; i < sms; i++)
        flight->steps[i] = (uint8_t)((flight->steps[i] + partitions - solos->pointers[i]) % partitions);
    gs_flight **bucket = bucket_of(solos, &flight->key);
    flight->next = *bucket;
    *bucket = flight;
    solos->count++;
    return true;
}

/* ---- repeating ---- */

int64_t gs_flight_took(const gs_engine *engine, size_t launch, const gs_flight *flight) {
    int64_t took;
    if (flight->key.spread_ns)
        return flight->took;
    bool is_too_long = __builtin_mul_overflow(flight->took, engine->run->launches.data[launch].duration_ns, &took);
    return is_too_long ? INT64_MAX : took;
}

size_t gs_flight_land(gs_engine *engine, size_t launch, const gs_flight *flight) {
    if (engine->turns.count)
        engine->turns.data[0] = flight->turns;
    gs_dispatcher_leave(engine->dispatcher, engine->plays[launch].kernel, &flight->idle, flight->steps);
    return flight->launch;
}
