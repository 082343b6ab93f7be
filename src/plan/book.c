/*
 * book.c: all profiles and pairs that are known, in memory.
 *
 * Both are kept like lines in a cache: a key has eight places where it can be, and where all are taken, what was used
 * longest ago makes room. So the memory is bounded, whatever clients launch, and nothing is ever searched far. A
 * profile that somebody holds stays.
 */
#include "book.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double least_factor = 0.01, most_factor = 2;
enum { REMEMBERED = 8 }; /* a measurement weighs as much as this many before it, at most */

gs_book *gs_book_open(const char *path, const char *gpu, int32_t sms, gs_error *error) {
    if (sms < 1 || sms > GS_JOB_SMS) {
        gs_fail(error, GS_E_USAGE, "a GPU has 1 to %d SMs, not %d", GS_JOB_SMS, sms);
        return NULL;
    }
    gs_book *book = calloc(1, sizeof *book);
    if (!book) {
        gs_fail_memory(error);
        return NULL;
    }
    book->sms = sms;
    snprintf(book->gpu, sizeof book->gpu, "%s", gpu);
    if (path)
        gs_store_open(book, path);
    return book;
}

void gs_book_close(gs_book *book) {
    if (!book)
        return;
    while (book->file && gs_book_save(book) && gs_book_has_news(book))
        ;
    gs_store_close(book);
    for (size_t i = 0; i < GS_BOOK_PROFILES; i++)
        free(book->profiles[i]);
    for (size_t i = 0; i < GS_BOOK_PAIRS; i++)
        free(book->pairs[i]);
    free(book);
}

const char *gs_book_trouble(gs_book *book) {
    if (!book->trouble[0] || book->is_troubled)
        return NULL;
    book->is_troubled = true;
    return book->trouble;
}

/* ---- profiles ---- */

static gs_profile **profile_ways(const gs_book *book, uint64_t key) {
    return (gs_profile **)&book->profiles[key % (GS_BOOK_PROFILES / BOOK_WAYS) * BOOK_WAYS];
}

/* Where a new profile goes: an empty place, or that of the one used longest ago which nobody holds. */
static gs_profile **profile_place(gs_book *book, uint64_t key) {
    gs_profile **ways = profile_ways(book, key), **oldest = NULL;
    for (int i = 0; i < BOOK_WAYS; i++) {
        if (!ways[i])
            return &ways[i];
        if (ways[i]->pins == 0 && (!oldest || ways[i]->used < (*oldest)->used))
            oldest = &ways[i];
    }
    return oldest;
}

gs_profile *gs_book_known(gs_book *book, uint64_t key) {
    gs_profile **ways = profile_ways(book, key);
    for (int i = 0; i < BOOK_WAYS; i++)
        if (ways[i] && ways[i]->key == key)
            return ways[i];
    return NULL;
}

gs_profile *gs_book_profile(gs_book *book, uint64_t key) {
    gs_profile *known = gs_book_known(book, key);
    gs_profile **place = known ? NULL : profile_place(book, key);
    if (!place)
        return known;
    if (!*place)
        *place = malloc(sizeof **place);
    if (*place)
        **place = (gs_profile){.key = key, .sms = book->sms};
    return *place;
}

gs_profile *gs_book_get(gs_book *book, uint64_t key, const char *name, uint64_t blocks) {
    gs_profile *profile = gs_book_profile(book, key);
    if (!profile)
        return NULL;
    if (profile->blocks != blocks) /* new, or a key that two kernels share: what was measured is not of this one */
        *profile = (gs_profile){.key = key, .sms = book->sms, .blocks = blocks, .pins = profile->pins};
    if (name != profile->name) /* whoever has a profile may ask for it by what stands in it */
        snprintf(profile->name, sizeof profile->name, "%s", name);
    profile->used = ++book->uses;
    profile->pins++;
    return profile;
}

void gs_book_put(gs_book *book, gs_profile *profile) {
    (void)book;
    if (profile && profile->pins > 0)
        profile->pins--;
}

/* ---- pairs ---- */

static gs_pair **pair_ways(const gs_book *book, uint64_t a, uint64_t b) {
    uint64_t hash = (a ^ (b << 17 | b >> 47)) * 0x9e3779b97f4a7c15u >> 32;
    return (gs_pair **)&book->pairs[hash % (GS_BOOK_PAIRS / BOOK_WAYS) * BOOK_WAYS];
}

const gs_pair *gs_book_pair(const gs_book *book, uint64_t one, uint64_t other) {
    uint64_t a = one < other ? one : other, b = one < other ? other : one;
    gs_pair **ways = pair_ways(book, a, b);
    for (int i = 0; i < BOOK_WAYS; i++)
        if (ways[i] && ways[i]->a == a && ways[i]->b == b)
            return ways[i];
    return NULL;
}

gs_pair *gs_book_make_pair(gs_book *book, uint64_t one, uint64_t other) {
    gs_pair *pair = (gs_pair *)gs_book_pair(book, one, other);
    uint64_t a = one < other ? one : other, b = one < other ? other : one;
    gs_pair **ways = pair_ways(book, a, b), **place = &ways[0];
    if (pair)
        return pair;
    for (int i = 0; i < BOOK_WAYS && *place; i++)
        if (!ways[i] || ways[i]->used < (*place)->used)
            place = &ways[i];
    if (!*place)
        *place = malloc(sizeof **place);
    if (*place)
        **place = (gs_pair){.a = a, .b = b};
    return *place;
}

/* An exponentially forgetting mean, which begins as an ordinary one. */
static void forget_into(double *mean, double samples, double value) {
    *mean += (value - *mean) / fmin(samples + 1, REMEMBERED);
}

static int split_of(int32_t sms, int32_t all) {
    int split = (int)((int64_t)sms * GS_PAIR_SPLITS / all);
    return split < 0 ? 0 : split < GS_PAIR_SPLITS ? split : GS_PAIR_SPLITS - 1;
}

static void add_split(gs_pair *pair, int split, double a, double b) {
    struct gs_pair_split *into = &pair->splits[split];
    forget_into(&into->a, into->samples, a);
    forget_into(&into->b, into->samples, b);
    into->samples++;
}

/* The rate beside somebody over the rate with the same SMs and no company. */
static double factor_of(const gs_beside *beside, uint64_t ns) {
    double alone = gs_profile_share(beside->profile, beside->sms) * beside->profile->alone;
    double factor = (double)beside->blocks / (double)ns / alone;
    return isfinite(factor) ? fmin(fmax(factor, least_factor), most_factor) : 0;
}

/* Of both, alone being 1. */
static double throughput_of(const gs_beside *one, const gs_beside *other, uint64_t ns) {
    return ((double)one->blocks / one->profile->alone + (double)other->blocks / other->profile->alone) / (double)ns;
}

void gs_book_beside(gs_book *book, const gs_beside *one, const gs_beside *other, uint64_t ns) {
    bool swap = one->profile->key > other->profile->key;
    const gs_beside *a = swap ? other : one, *b = swap ? one : other;
    double factor_a = factor_of(a, ns), factor_b = factor_of(b, ns);
    if (factor_a <= 0 || factor_b <= 0)
        return;
    gs_pair *pair = gs_book_make_pair(book, a->profile->key, b->profile->key);
    if (!pair)
        return;
    add_split(pair, split_of(a->sms, book->sms), factor_a, factor_b);
    if (pair->a == pair->b) /* the same kernel twice: what holds for one holds for the other */
        add_split(pair, split_of(b->sms, book->sms), factor_b, factor_a);
    if (pair->splits_since++ == 0 && pair->last_turns > 0)
        gs_samples_add(&pair->gains, throughput_of(a, b, ns) / pair->last_turns);
    pair->is_dirty = true;
    pair->used = ++book->uses;
}

void gs_book_turns(gs_book *book, const gs_beside *one, const gs_beside *other, uint64_t ns) {
    double turns = throughput_of(one, other, ns);
    gs_pair *pair =
        isfinite(turns) && turns > 0 ? gs_book_make_pair(book, one->profile->key, other->profile->key) : NULL;
    if (!pair)
        return;
    turns = fmin(fmax(turns, least_factor), most_factor);
    forget_into(&pair->turns, pair->turns_samples, turns);
    pair->turns_samples++;
    pair->last_turns = turns;
    pair->splits_since = 0;
    pair->is_dirty = true;
    pair->used = ++book->uses;
}

/* The split nearest to `wanted` of which something is known; -1: there is none. */
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

/* ---- listings, and the file ---- */

const gs_profile *gs_book_next(const gs_book *book, size_t *at) {
    while (*at < GS_BOOK_PROFILES && !book->profiles[*at])
        ++*at;
    return *at < GS_BOOK_PROFILES ? book->profiles[(*at)++] : NULL;
}

const gs_pair *gs_book_next_pair(const gs_book *book, size_t *at) {
    while (*at < GS_BOOK_PAIRS && !book->pairs[*at])
        ++*at;
    return *at < GS_BOOK_PAIRS ? book->pairs[(*at)++] : NULL;
}

/* What one save writes at most: a few milliseconds of work. */
enum { WRITTEN_AT_ONCE = 100 };

typedef struct unsaved {
    gs_profile *profiles[WRITTEN_AT_ONCE];
    gs_pair *pairs[WRITTEN_AT_ONCE];
    int profile_count, pair_count;
} unsaved;

static void gather(const gs_book *book, unsaved *news) {
    for (size_t i = 0; i < GS_BOOK_PROFILES && news->profile_count < WRITTEN_AT_ONCE; i++)
        if (book->profiles[i] && book->profiles[i]->is_dirty)
            news->profiles[news->profile_count++] = book->profiles[i];
    for (size_t i = 0; i < GS_BOOK_PAIRS && news->pair_count < WRITTEN_AT_ONCE; i++)
        if (book->pairs[i] && book->pairs[i]->is_dirty)
            news->pairs[news->pair_count++] = book->pairs[i];
}

bool gs_book_has_news(const gs_book *book) {
    return book->has_news;
}

bool gs_book_save(gs_book *book) {
    unsaved news = {.profile_count = 0};
    if (!book->file)
        return false;
    gather(book, &news);
    book->has_news = news.profile_count == WRITTEN_AT_ONCE || news.pair_count == WRITTEN_AT_ONCE;
    if (news.profile_count + news.pair_count == 0)
        return true;
    bool good = gs_store_begin(book);
    for (int i = 0; good && i < news.profile_count; i++)
        good = gs_store_profile(book, news.profiles[i]);
    for (int i = 0; good && i < news.pair_count; i++)
        good = gs_store_pair(book, news.pairs[i]);
    good = gs_store_end(book, good);
    for (int i = 0; good && i < news.profile_count; i++)
        news.profiles[i]->is_dirty = false;
    for (int i = 0; good && i < news.pair_count; i++)
        news.pairs[i]->is_dirty = false;
    return good;
}
