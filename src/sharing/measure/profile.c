/*
 * profile.c: the profile of a kernel: its rate over its number of SMs, from blocks counted over time.
 *
 * The curve of rate over SMs consists of medians, one for each measured number of SMs. It must not fall: if the medians
 * do, neighbors are pooled (isotonic regression), so that noise never makes fewer SMs look faster. Between the knots it
 * is linear.
 *
 * The bottleneck of a kernel is read off that curve, without hardware counters. All SMs of a GPU share the memory. So a
 * kernel whose rate grows up to the last SM is bound by resources of an SM, and a kernel with nearly its full rate on a
 * part of the SMs is memory-bound. The thresholds are in the table below.
 */
#include "profile_store.h"

#include <math.h>
#include <string.h>

/* ---- thresholds ---- */

/* `knee`: the part of the SMs on which a kernel has nine tenths of its rate on all. For a kernel bound only by its SMs
   it is 0.9. */
static const double nearly = 0.9;
static const struct {
    double knee; /* below this */
    enum gs_level memory, compute;
} classes[] = {{0.60, GS_LEVEL_HIGH, GS_LEVEL_LOW},
               {0.80, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM},
               {0.85, GS_LEVEL_LOW, GS_LEVEL_MEDIUM},
               {INFINITY, GS_LEVEL_LOW, GS_LEVEL_HIGH}};

static const double most_doubt = 0.05; /* of the curve, relative to the rate alone, before it is measured again */
static const double least_gain = 0.05; /* of a block loop over the original, to be preferred */
enum { SAMPLES_WANTED = 3 };           /* of each point */

/* The forms of a kernel are compared after the first launches, when the GPU's clock has settled, and again
   periodically, by LEAST_COMPARED to MOST_COMPARED launches of each. */
enum { COMPARED_AFTER = 16, COMPARED_AGAIN = 4096, LEAST_COMPARED = 8, MOST_COMPARED = 64 };
static const double certain = 4; /* standard errors by which the difference of the two must be certain */

const char *gs_level_name(enum gs_level level) {
    static const char *const names[] = {"unknown", "low", "medium", "high"};
    return names[level];
}

/* ---- samples ---- */

int gs_samples_kept(const gs_samples *samples) {
    return (int)gs_min_u64(samples->count, GS_PROFILE_SAMPLES);
}

void gs_samples_add(gs_samples *samples, double value) {
    samples->last[samples->count % GS_PROFILE_SAMPLES] = value;
    samples->count++;
}

double gs_samples_median(const gs_samples *samples) {
    double sorted[GS_PROFILE_SAMPLES];
    int kept = gs_samples_kept(samples);
    for (int i = 0; i < kept; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > samples->last[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = samples->last[i];
    }
    if (kept == 0)
        return 0;
    return (sorted[(kept - 1) / 2] + sorted[kept / 2]) / 2;
}

/* ---- the curve ---- */

typedef struct pool {
    int32_t first, last; /* indexes of points */
    double rate, weight;
} pool;

/* Weighted isotonic regression: neighbors that fall are pooled until none does. Returns how many pools are left. */
static int pool_falling(pool *pools, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        pools[kept++] = pools[i];
        while (kept > 1 && pools[kept - 2].rate > pools[kept - 1].rate) {
            pool *a = &pools[kept - 2], *b = &pools[kept - 1];
            a->rate = (a->rate * a->weight + b->rate * b->weight) / (a->weight + b->weight);
            a->weight += b->weight;
            a->last = b->last;
            kept--;
        }
    }
    return kept;
}

static void add_knot(gs_profile *profile, int32_t sms, double rate) {
    profile->curve[profile->knots++] = (struct gs_profile_knot){sms, rate};
}

/* The rate of a whole launch in the preferred form; 0: not measured. */
static double whole_rate(const gs_profile *profile) {
    double ns = gs_samples_median(profile->prefers_block_loop ? &profile->block_loop_ns : &profile->whole_ns);
    return ns > 0 ? (double)profile->blocks / ns : 0;
}

/* The end of the curve, if nothing was measured on all SMs: proportional. */
static void extend_knots(gs_profile *profile) {
    const struct gs_profile_knot *last = &profile->curve[profile->knots - 1];
    if (last->sms < profile->sms)
        add_knot(profile, profile->sms, last->rate * ((double)profile->sms / last->sms));
}

/* The rate at `sms` SMs. The search begins at knot *from, which must not be after the result, and stores the result
   there. */
static double rate_from(const gs_profile *profile, int32_t sms, int32_t *from) {
    const struct gs_profile_knot *knot = profile->curve;
    int32_t i = *from;
    while (i < profile->knots - 1 && knot[i].sms < sms)
        i++;
    *from = i;
    if (sms >= knot[i].sms)
        return knot[i].rate;
    double part = (double)(sms - knot[i - 1].sms) / (knot[i].sms - knot[i - 1].sms);
    return knot[i - 1].rate + part * (knot[i].rate - knot[i - 1].rate);
}

static double rate_at(const gs_profile *profile, int32_t sms) {
    int32_t from = 1;
    return profile->knots == 0 || sms <= 0 ? 0 : rate_from(profile, sms, &from);
}

static double knee_of(const gs_profile *profile) {
    double enough = nearly * rate_at(profile, profile->sms);
    for (int32_t i = 1; i < profile->knots; i++) {
        const struct gs_profile_knot *a = &profile->curve[i - 1], *b = &profile->curve[i];
        if (b->rate >= enough)
            return (a->sms + (b->sms - a->sms) * (enough - a->rate) / (b->rate - a->rate)) / profile->sms;
    }
    return 1;
}

void gs_profile_curve(gs_profile *profile) {
    pool pools[GS_PROFILE_POINTS + 1];
    int32_t at[GS_PROFILE_POINTS + 1], count = 0;
    double whole = whole_rate(profile);
    for (; count < profile->point_count; count++) {
        const struct gs_profile_point *point = &profile->points[count];
        at[count] = point->sms;
        pools[count] = (pool){count, count, gs_samples_median(&point->rate), gs_samples_kept(&point->rate)};
    }
    if (whole > 0 && (count == 0 || at[count - 1] < profile->sms)) {
        at[count] = profile->sms;
        pools[count] = (pool){count, count, whole, gs_samples_kept(&profile->whole_ns)};
        count++;
    }
    profile->knots = 0;
    profile->alone = 0;
    if (count == 0)
        return;
    int kept = pool_falling(pools, count);
    add_knot(profile, 0, 0);
    for (int i = 0; i < kept; i++)
        for (int32_t j = pools[i].first; j <= pools[i].last; j++)
            add_knot(profile, at[j], pools[i].rate);
    extend_knots(profile);
    profile->alone = fmax(whole, rate_at(profile, profile->sms));
    profile->knee = knee_of(profile);
}

double gs_profile_share(const gs_profile *profile, int32_t sms) {
    if (profile->alone > 0)
        return rate_at(profile, sms) / profile->alone;
    return sms <= 0 ? 0 : sms >= profile->sms ? 1 : (double)sms / profile->sms;
}

void gs_profile_shares(const gs_profile *profile, int32_t step, int32_t count, int32_t most, double *shares) {
    int32_t from = 1;
    double part = profile->alone > 0 ? 1 / profile->alone : 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t sms = (int32_t)gs_min((i + 1) * step, most);
        shares[i] = part > 0 && sms > 0 ? rate_from(profile, sms, &from) * part : gs_profile_share(profile, sms);
    }
}

/* ---- measurements ---- */

/* Welford's sums. */
static void add_time(gs_form_times *times, double ns) {
    double value = log(ns), before = value - times->mean;
    times->mean += before / ++times->count;
    times->squares += before * (value - times->mean);
}

static double squared_error(const gs_form_times *times) {
    return times->squares / ((double)times->count * (times->count - 1));
}

/* Launches with the same profile may differ, such as layers of different depth, and some are held up. So the gain of
   the block loop must be certain, compared with how much the times of each form differ. What is not certain in the end
   counts as no gain. */
static void compare_forms(gs_profile *profile) {
    const gs_form_times *whole = &profile->compared[false], *loop = &profile->compared[true];
    uint32_t least = whole->count < loop->count ? whole->count : loop->count;
    if (least < LEAST_COMPARED)
        return;
    double gain = whole->mean - loop->mean - log1p(least_gain);
    double doubt = certain * sqrt(squared_error(whole) + squared_error(loop));
    if (fabs(gain) <= doubt && least < MOST_COMPARED)
        return;
    profile->prefers_block_loop = gain > doubt;
    profile->until_compared = COMPARED_AGAIN;
    memset(profile->compared, 0, sizeof profile->compared);
}

/* A launch that was handed over before the first one in the other form is not compared: the clock may be another. */
static void count_compared(gs_profile *profile, bool is_block_loop, double ns) {
    bool is_other = is_block_loop != profile->prefers_block_loop;
    if (!gs_profile_is_comparing(profile)) {
        profile->until_compared -= profile->until_compared > 0;
    } else if (is_other || profile->compared[!profile->prefers_block_loop].count) {
        add_time(&profile->compared[is_block_loop], ns);
        compare_forms(profile);
    }
}

bool gs_profile_is_comparing(const gs_profile *profile) {
    return profile->until_compared == 0 && gs_profile_is_settled(profile);
}

bool gs_profile_is_settled(const gs_profile *profile) {
    return profile->whole_ns.count + profile->block_loop_ns.count >= COMPARED_AFTER;
}

/* Drawn, because forms that alternate could get the layers of two depths that alternate, and because GPUs change their
   clocks. */
bool gs_profile_takes_other(gs_profile *profile) {
    if (!gs_profile_is_comparing(profile))
        return false;
    gs_random random = gs_random_at(profile->key, profile->drawn++);
    return gs_random_chance(&random, 50);
}

/* A launch that was held up by something else counts with 16 times the usual. No less: layers of one grid differ as
   much as their depths, and a filter of 3x3 has nine times the depth of one of 1x1. */
static void add_to_mean(gs_profile *profile, const gs_samples *samples, double ns) {
    enum { LAST = 32, MOST = 16 };
    uint64_t count = profile->whole_ns.count + profile->block_loop_ns.count;
    double weight = profile->mean_ns > 0 ? fmax(1.0 / (double)count, 1.0 / LAST) : 1;
    profile->mean_ns += weight * (fmin(ns, MOST * gs_samples_median(samples)) - profile->mean_ns);
}

void gs_profile_ran(gs_profile *profile, bool is_block_loop, uint64_t blocks, uint64_t ns) {
    if (ns == 0 || blocks == 0)
        return;
    gs_samples *samples = is_block_loop ? &profile->block_loop_ns : &profile->whole_ns;
    double all_ns = (double)ns * ((double)profile->blocks / (double)blocks);
    gs_samples_add(samples, all_ns);
    add_to_mean(profile, samples, all_ns);
    count_compared(profile, is_block_loop, all_ns);
    gs_profile_curve(profile);
    profile->is_dirty = true;
}

/* The point for `sms` SMs. If there is none, a new one; if there are too many, it replaces the nearest one, but not the
   one for all SMs. */
static struct gs_profile_point *point_at(gs_profile *profile, int32_t sms) {
    struct gs_profile_point *points = profile->points;
    int32_t at = 0;
    while (at < profile->point_count && points[at].sms < sms)
        at++;
    if (at < profile->point_count && points[at].sms == sms)
        return &points[at];
    if (profile->point_count == GS_PROFILE_POINTS) {
        bool below = at > 0 && (at == GS_PROFILE_POINTS || points[at].sms == profile->sms ||
                                sms - points[at - 1].sms <= points[at].sms - sms);
        at -= below;
    } else {
        memmove(&points[at + 1], &points[at], (size_t)(profile->point_count - at) * sizeof *points);
        profile->point_count++;
    }
    points[at] = (struct gs_profile_point){.sms = sms};
    return &points[at];
}

void gs_profile_rate(gs_profile *profile, int32_t sms, uint64_t blocks, uint64_t ns) {
    if (ns == 0 || blocks == 0 || sms <= 0 || sms > profile->sms)
        return;
    gs_samples_add(&point_at(profile, sms)->rate, (double)blocks / (double)ns);
    gs_profile_curve(profile);
    profile->is_dirty = true;
}

double gs_profile_mean_ns(const gs_profile *profile, uint64_t blocks) {
    if (profile->mean_ns > 0)
        return profile->mean_ns * (double)blocks / (double)profile->blocks;
    return profile->alone > 0 ? (double)blocks / profile->alone : 0;
}

uint64_t gs_profile_duration_ns(const gs_profile *profile) {
    return profile->alone > 0 ? (uint64_t)ceil((double)profile->blocks / profile->alone) : 0;
}

/* ---- what to measure next ---- */

/* The straight line through two knots, at `sms`. */
static double line_at(const struct gs_profile_knot *a, const struct gs_profile_knot *b, int32_t sms) {
    return a->rate + (b->rate - a->rate) * (double)(sms - a->sms) / (b->sms - a->sms);
}

/* How far the curve could be above the straight line at `sms`, between knots i and i + 1, if it is concave: then it is
   not above the lines through the two knots on either side. */
static double doubt_at(const struct gs_profile_knot *knots, int32_t count, int32_t i, int32_t sms) {
    double most = knots[i + 1].rate;
    if (i > 0)
        most = fmin(most, line_at(&knots[i - 1], &knots[i], sms));
    if (i + 2 < count)
        most = fmin(most, line_at(&knots[i + 1], &knots[i + 2], sms));
    return most - line_at(&knots[i], &knots[i + 1], sms);
}

static int32_t middle_sms(int32_t a, int32_t b, int32_t granularity) {
    int32_t middle = (a + b) / 2 / granularity * granularity;
    return middle > a ? middle : middle + granularity;
}

static int32_t most_in_doubt(const gs_profile *profile, int32_t granularity) {
    struct gs_profile_knot knots[GS_PROFILE_POINTS + 1] = {{0, 0}};
    int32_t count = 1, wanted = 0;
    for (int32_t i = 0; i < profile->point_count; i++)
        knots[count++] =
            (struct gs_profile_knot){profile->points[i].sms, rate_at(profile, profile->points[i].sms) / profile->alone};
    double most = most_doubt;
    for (int32_t i = 0; i + 1 < count; i++) {
        int32_t middle = middle_sms(knots[i].sms, knots[i + 1].sms, granularity);
        if (middle >= knots[i + 1].sms || doubt_at(knots, count, i, middle) <= most)
            continue;
        most = doubt_at(knots, count, i, middle);
        wanted = middle;
    }
    return wanted;
}

int32_t gs_profile_wanted(const gs_profile *profile, int32_t granularity) {
    const struct gs_profile_point *points = profile->points;
    if (profile->point_count == 0 || points[profile->point_count - 1].sms != profile->sms)
        return profile->sms;
    int32_t wanted =
        profile->point_count < GS_PROFILE_POINTS ? most_in_doubt(profile, (int32_t)gs_max(granularity, 1)) : 0;
    int fewest = SAMPLES_WANTED;
    for (int32_t i = 0; wanted == 0 && i < profile->point_count; i++)
        fewest = (int)gs_min(fewest, gs_samples_kept(&points[i].rate));
    for (int32_t i = 0; wanted == 0 && fewest < SAMPLES_WANTED && i < profile->point_count; i++)
        if (gs_samples_kept(&points[i].rate) == fewest)
            wanted = points[i].sms;
    return wanted;
}

/* ---- classes ---- */

/* Whether the curve was measured on half of the SMs or fewer. */
static bool has_curve(const gs_profile *profile) {
    return profile->point_count > 0 && profile->points[0].sms <= (profile->sms + 1) / 2 && profile->alone > 0;
}

/* The row of `classes` of a profile with a known curve. */
static size_t class_of(const gs_profile *profile) {
    size_t row = 0;
    while (profile->knee >= classes[row].knee)
        row++;
    return row;
}

enum gs_level gs_profile_memory(const gs_profile *profile) {
    return has_curve(profile) ? classes[class_of(profile)].memory : GS_LEVEL_UNKNOWN;
}

enum gs_level gs_profile_compute(const gs_profile *profile) {
    return has_curve(profile) ? classes[class_of(profile)].compute : GS_LEVEL_UNKNOWN;
}

/* ---- keys ---- */

uint64_t gs_profile_blocks(uint64_t blocks) {
    uint64_t class = 1;
    while (class <= blocks / 2)
        class *= 2;
    return class >= 2 && blocks - class >= class / 2 ? class + class / 2 : class;
}

uint64_t gs_profile_key(uint64_t source, const char *kernel, uint64_t blocks, const uint32_t block[3],
                        uint64_t shared_bytes) {
    uint64_t hash = gs_hash(0, &source, sizeof source);
    hash = gs_hash(hash, kernel, strlen(kernel));
    hash = gs_hash(hash, &blocks, sizeof blocks);
    hash = gs_hash(hash, block, 3 * sizeof *block);
    hash = gs_hash(hash, &shared_bytes, sizeof shared_bytes);
    return hash ? hash : 1;
}
