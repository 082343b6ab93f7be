/*
 * profile_store.c: all profiles and pairs in memory.
 *
 * Both are kept like lines in an 8-way cache: a key can be in eight places, and if all are taken, the least recently
 * used entry is replaced. So the memory is bounded whatever clients launch, and a search checks eight places. A profile
 * that is held (pins > 0) is not replaced.
 */
#include "profile_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double least_factor = 0.01, most_factor = 2;
enum { REMEMBERED = 8 }; /* a new measurement has at least the weight 1 / REMEMBERED in a mean */

gs_profile_store *gs_profile_store_new(const char *gpu, int32_t sms, gs_error *error) {
    if (sms < 1 || sms > GS_JOB_SMS) {
        gs_fail(error, GS_E_USAGE, "a GPU must have 1 to %d SMs, not %d", GS_JOB_SMS, sms);
        return NULL;
    }
    gs_profile_store *store = calloc(1, sizeof *store);
    if (!store) {
        gs_fail_memory(error);
        return NULL;
    }
    store->sms = sms;
    snprintf(store->gpu, sizeof store->gpu, "%s", gpu);
    return store;
}

void gs_profile_store_free(gs_profile_store *store) {
    for (size_t i = 0; i < GS_STORE_PROFILES; i++)
        free(store->profiles[i]);
    for (size_t i = 0; i < GS_STORE_PAIRS; i++)
        free(store->pairs[i]);
    if (store->fit)
        gs_room_fit_close(store->fit);
    free(store->fit);
    free(store);
}

gs_code gs_profile_store_predict(gs_profile_store *store, const gs_gpu *gpu, gs_error *error) {
    gs_room_fit *fit = store->fit ? store->fit : calloc(1, sizeof *fit);
    if (!fit)
        return gs_fail_memory(error);
    gs_room_fit_close(fit);
    store->fit = fit;
    return gs_room_fit_open(fit, gpu, error);
}

/* ---- profiles ---- */

static gs_profile **profile_ways(const gs_profile_store *store, uint64_t key) {
    return (gs_profile **)&store->profiles[key % (GS_STORE_PROFILES / STORE_WAYS) * STORE_WAYS];
}

/* The place of a new profile: an empty one, or that of the least recently used one that is not held. NULL: all are
   held.
 */
static gs_profile **profile_place(gs_profile_store *store, uint64_t key) {
    gs_profile **ways = profile_ways(store, key), **oldest = NULL;
    for (int i = 0; i < STORE_WAYS; i++) {
        if (!ways[i])
            return &ways[i];
        if (ways[i]->pins == 0 && (!oldest || ways[i]->used < (*oldest)->used))
            oldest = &ways[i];
    }
    return oldest;
}

gs_profile *gs_profile_store_find(gs_profile_store *store, uint64_t key) {
    gs_profile **ways = profile_ways(store, key);
    for (int i = 0; i < STORE_WAYS; i++)
        if (ways[i] && ways[i]->key == key)
            return ways[i];
    return NULL;
}

gs_profile *gs_profile_store_make(gs_profile_store *store, uint64_t key) {
    gs_profile *known = gs_profile_store_find(store, key);
    gs_profile **place = known ? NULL : profile_place(store, key);
    if (!place)
        return known;
    if (!*place)
        *place = malloc(sizeof **place);
    if (*place)
        **place = (gs_profile){.key = key, .sms = store->sms};
    return *place;
}

gs_profile *gs_profile_store_get(gs_profile_store *store, uint64_t key, const char *name, uint64_t blocks) {
    gs_profile *profile = gs_profile_store_make(store, key);
    if (!profile)
        return NULL;
    if (profile->blocks != blocks) /* new, or another kernel has the same key: the measurements are not of this one */
        *profile = (gs_profile){.key = key, .sms = store->sms, .blocks = blocks, .pins = profile->pins};
    if (name != profile->name) /* the caller may pass the profile's own name */
        snprintf(profile->name, sizeof profile->name, "%s", name);
    profile->used = ++store->uses;
    profile->pins++;
    return profile;
}

void gs_profile_store_put(gs_profile_store *store, gs_profile *profile) {
    (void)store;
    if (profile && profile->pins > 0)
        profile->pins--;
}

/* ---- pairs ---- */

static gs_pair **pair_ways(const gs_profile_store *store, uint64_t a, uint64_t b) {
    uint64_t hash = gs_hash(gs_hash(0, &a, sizeof a), &b, sizeof b);
    return (gs_pair **)&store->pairs[hash % (GS_STORE_PAIRS / STORE_WAYS) * STORE_WAYS];
}

const gs_pair *gs_profile_store_pair(const gs_profile_store *store, uint64_t one, uint64_t other) {
    uint64_t a = gs_min_u64(one, other), b = gs_max_u64(one, other);
    gs_pair **ways = pair_ways(store, a, b);
    for (int i = 0; i < STORE_WAYS; i++)
        if (ways[i] && ways[i]->a == a && ways[i]->b == b)
            return ways[i];
    return NULL;
}

gs_pair *gs_profile_store_make_pair(gs_profile_store *store, uint64_t one, uint64_t other) {
    gs_pair *pair = (gs_pair *)gs_profile_store_pair(store, one, other);
    uint64_t a = gs_min_u64(one, other), b = gs_max_u64(one, other);
    gs_pair **ways = pair_ways(store, a, b), **place = &ways[0];
    if (pair)
        return pair;
    for (int i = 0; i < STORE_WAYS && *place; i++)
        if (!ways[i] || ways[i]->used < (*place)->used)
            place = &ways[i];
    if (!*place)
        *place = malloc(sizeof **place);
    if (*place)
        **place = (gs_pair){.a = a, .b = b};
    return *place;
}

/* An exponentially weighted mean, which starts as an ordinary one. */
static void add_to_mean(double *mean, double samples, double value) {
    *mean += (value - *mean) / fmin(samples + 1, REMEMBERED);
}

static int split_of(int32_t sms, int32_t all) {
    int split = (int)((int64_t)sms * GS_PAIR_SPLITS / all);
    return (int)gs_min(gs_max(split, 0), GS_PAIR_SPLITS - 1);
}

static void add_split(gs_pair *pair, int split, double a, double b) {
    struct gs_pair_split *into = &pair->splits[split];
    add_to_mean(&into->a, into->samples, a);
    add_to_mean(&into->b, into->samples, b);
    into->samples++;
}

/* The rate beside the other, divided by the rate alone on the same SMs. */
static double factor_of(const gs_beside *beside, uint64_t ns) {
    double alone = gs_profile_share(beside->profile, beside->sms) * beside->profile->alone;
    double factor = (double)beside->blocks / (double)ns / alone;
    return isfinite(factor) ? fmin(fmax(factor, least_factor), most_factor) : 0;
}

/* The rate beside the other, divided by the rate alone on all SMs. */
static double share_of(const gs_beside *beside, uint64_t ns) {
    double share = (double)beside->blocks / (double)ns / beside->profile->alone;
    return isfinite(share) ? fmin(share, most_factor) : 0;
}

/* Of both together. */
static double throughput_of(const gs_beside *one, const gs_beside *other, uint64_t ns) {
    return ((double)one->blocks / one->profile->alone + (double)other->blocks / other->profile->alone) / (double)ns;
}

/* The two ran for `ns` without intra-SM sharing: the reference for trials. */
static void note_otherwise(gs_profile_store *store, gs_pair *pair, const gs_profile *a, const gs_profile *b,
                           double throughput, uint64_t ns) {
    pair->otherwise = fmin(throughput, most_factor);
    pair->competed_ns += (double)ns;
    if (store->fit && !pair->is_asked && a->worker.registers && b->worker.registers) {
        pair->is_asked = true; /* it takes some time, and the result stays the same */
        gs_pair_choose_next(pair, store->fit, a, b);
    }
}

void gs_profile_store_inter_sm(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns) {
    bool swap = one->profile->key > other->profile->key;
    const gs_beside *a = swap ? other : one, *b = swap ? one : other;
    double factor_a = factor_of(a, ns), factor_b = factor_of(b, ns);
    if (factor_a <= 0 || factor_b <= 0)
        return;
    gs_pair *pair = gs_profile_store_make_pair(store, a->profile->key, b->profile->key);
    if (!pair)
        return;
    add_split(pair, split_of(a->sms, store->sms), factor_a, factor_b);
    if (pair->a == pair->b) /* the same kernel twice: the measurement applies to both splits */
        add_split(pair, split_of(b->sms, store->sms), factor_b, factor_a);
    if (pair->splits_since++ == 0 && pair->last_serial > 0)
        gs_samples_add(&pair->gains, throughput_of(a, b, ns) / pair->last_serial);
    note_otherwise(store, pair, a->profile, b->profile, throughput_of(a, b, ns), ns);
    pair->is_dirty = true;
    pair->used = ++store->uses;
}

void gs_profile_store_serial(gs_profile_store *store, const gs_beside *one, const gs_beside *other, uint64_t ns) {
    bool swap = one->profile->key > other->profile->key;
    const gs_beside *a = swap ? other : one, *b = swap ? one : other;
    double serial = throughput_of(a, b, ns);
    gs_pair *pair =
        isfinite(serial) && serial > 0 ? gs_profile_store_make_pair(store, a->profile->key, b->profile->key) : NULL;
    if (!pair)
        return;
    serial = fmin(fmax(serial, least_factor), most_factor);
    add_to_mean(&pair->serial, pair->serial_samples, serial);
    pair->serial_samples++;
    pair->last_serial = serial;
    pair->splits_since = 0;
    note_otherwise(store, pair, a->profile, b->profile, serial, ns);
    pair->is_dirty = true;
    pair->used = ++store->uses;
}

/* The way with these workers. If a pair already has the most ways, because a new plan adds another one, that replaces
   the last. */
static gs_pair_way *way_for(gs_pair *pair, const int32_t workers[2]) {
    gs_pair_way *way = gs_pair_way_of(pair, workers);
    if (way)
        return way;
    pair->ways[GS_PAIR_WAYS - 1] = (gs_pair_way){.workers = {workers[0], workers[1]}};
    return &pair->ways[GS_PAIR_WAYS - 1];
}

uint64_t gs_profile_store_gather(gs_profile_store *store, gs_beside *one, gs_beside *other, const int32_t workers[2],
                                 uint64_t ns) {
    int swap = one->profile->key > other->profile->key;
    gs_beside *both[2] = {swap ? other : one, swap ? one : other};
    gs_pair *pair = gs_profile_store_make_pair(store, both[0]->profile->key, both[1]->profile->key);
    if (!pair)
        return ns;
    struct gs_pair_pieces sum = {.workers = {workers[swap], workers[!swap]}, .ns = ns};
    bool is_same = pair->pieces.workers[0] == sum.workers[0] && pair->pieces.workers[1] == sum.workers[1];
    sum.ns += is_same ? pair->pieces.ns : 0;
    for (int i = 0; i < 2; i++)
        sum.blocks[i] = both[i]->blocks += is_same ? pair->pieces.blocks[i] : 0;
    pair->pieces = sum;
    return sum.ns;
}

void gs_profile_store_intra_sm(gs_profile_store *store, const gs_beside *one, const gs_beside *other,
                               const int32_t workers[2], uint64_t ns) {
    int swap = one->profile->key > other->profile->key;
    const gs_beside *a = swap ? other : one, *b = swap ? one : other;
    const int32_t ordered[2] = {workers[swap], workers[!swap]};
    double shares[2] = {share_of(a, ns), share_of(b, ns)};
    gs_pair *pair = ns > 0 ? gs_profile_store_make_pair(store, a->profile->key, b->profile->key) : NULL;
    if (!pair)
        return;
    bool is_measured = shares[0] > 0 && shares[1] > 0;
    double otherwise = pair->otherwise > 0 ? pair->otherwise : 1;
    pair->pieces = (struct gs_pair_pieces){0};
    pair->competed_ns += (double)ns;
    pair->lost_ns += (double)ns * (is_measured ? 1 - (shares[0] + shares[1]) / otherwise : 0.5);
    gs_pair_way *way = is_measured ? way_for(pair, ordered) : NULL;
    for (int i = 0; way && i < 2; i++)
        gs_samples_add(&way->shares[i], shares[i]);
    if (store->fit)
        gs_pair_choose_next(pair, store->fit, a->profile, b->profile);
    pair->is_dirty = true;
    pair->used = ++store->uses;
}

/* The measured split nearest to `wanted`; -1: none. */
static int nearest_split(const gs_pair *pair, int wanted) {
    for (int away = 0; away < GS_PAIR_SPLITS; away++)
        for (int side = -1; side <= 1; side += 2) {
            int split = wanted + side * away;
            if (split >= 0 && split < GS_PAIR_SPLITS && pair->splits[split].samples > 0)
                return split;
        }
    return -1;
}

bool gs_pair_factor(const gs_pair *pair, const gs_profile *profile, int32_t sms, double *factor) {
    bool is_a = profile->key == pair->a;
    int32_t all = profile->sms;
    int wanted = split_of(is_a ? sms : all - sms, all), split = nearest_split(pair, wanted);
    if (split < 0)
        return false;
    *factor = is_a ? pair->splits[split].a : pair->splits[split].b;
    bool had_more = is_a ? split > wanted : split < wanted;
    if (had_more && *factor < 1) {
        int32_t middle = (2 * split + 1) * all / (2 * GS_PAIR_SPLITS), had = is_a ? middle : all - middle;
        *factor = fmin(1, *factor * gs_profile_share(profile, had) / gs_profile_share(profile, sms));
    }
    return true;
}

/* ---- listings ---- */

const gs_profile *gs_profile_store_next(const gs_profile_store *store, size_t *at) {
    while (*at < GS_STORE_PROFILES && !store->profiles[*at])
        ++*at;
    return *at < GS_STORE_PROFILES ? store->profiles[(*at)++] : NULL;
}

const gs_pair *gs_profile_store_next_pair(const gs_profile_store *store, size_t *at) {
    while (*at < GS_STORE_PAIRS && !store->pairs[*at])
        ++*at;
    return *at < GS_STORE_PAIRS ? store->pairs[(*at)++] : NULL;
}
