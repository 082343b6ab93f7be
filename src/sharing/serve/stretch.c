/*
 * stretch.c: how much longer the requests of a latency program take beside best-effort work.
 *
 * A latency program counts the durations of its requests while a best-effort program worked, and keeps the last ones of
 * the others: the first requests of a program are slow, and much that it does while it loads a model looks like a
 * request. Of both, p99 and the median are compared: p99 is what is promised, but what makes all requests longer is
 * worse than what makes a few longer. Of a hundred requests p99 is the second slowest, and of fewer, too: a single
 * pause of the host does not change it.
 */
#include "server.h"

#include <math.h>
#include <string.h>

enum {
    LEAST_ALONE = 30,
    LEAST_BESIDE = 100,
    MOST_LONGER = 16, /* what takes more times as long than this beside work, or */
    MOST_SHORTER = 2  /* than this alone, is something else than the other requests */
};

static uint64_t count_of(const uint32_t *times) {
    uint64_t count = 0;
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        count += times[i];
    return count;
}

/* The duration of the longest request of this part of them, in percent, rounded down: p99 is never the slowest one. */
static uint64_t percentile_ns(const uint32_t *times, uint64_t count, uint64_t percent) {
    uint64_t rank = gs_max_u64(count * percent / 100, 1), seen = 0;
    unsigned bucket = 0;
    while ((seen += times[bucket]) < rank)
        bucket++;
    return gs_tenant_bucket_ns(bucket);
}

/* The last requests alone, without those that are something else. */
static void read_alone(const gs_tenant_page *page, uint64_t least_ns, uint64_t most_ns, uint32_t *times) {
    uint64_t count = atomic_load_explicit(&page->alone, memory_order_relaxed);
    memset(times, 0, GS_TENANT_TIMES * sizeof *times);
    for (uint64_t i = 0; i < gs_min_u64(count, GS_TENANT_ALONE); i++) {
        unsigned bucket = gs_tenant_bucket(atomic_load_explicit(&page->alone_ns[i], memory_order_relaxed));
        uint64_t ns = gs_tenant_bucket_ns(bucket);
        times[bucket] += ns >= least_ns && ns <= most_ns;
    }
}

void gs_stretch_count(const gs_tenant_page *page, uint32_t *beside) {
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        beside[i] = atomic_load_explicit(&page->beside_times[i], memory_order_relaxed);
}

double gs_stretch_lost_us(const gs_tenant_page *page, const uint32_t *before, double tolerated) {
    uint32_t alone[GS_TENANT_TIMES], beside[GS_TENANT_TIMES];
    gs_stretch_count(page, beside);
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        beside[i] -= beside[i] > before[i] ? before[i] : beside[i];
    uint64_t count_beside = count_of(beside);
    if (count_beside < LEAST_BESIDE)
        return -1;
    read_alone(page, percentile_ns(beside, count_beside, 10) / MOST_LONGER,
               percentile_ns(beside, count_beside, 99) * MOST_SHORTER, alone);
    uint64_t count_alone = count_of(alone);
    if (count_alone < LEAST_ALONE)
        return -1;
    double median_ns = (double)percentile_ns(alone, count_alone, 50),
           slow_ns = (double)percentile_ns(alone, count_alone, 99),
           median_lost_ns = fmax((double)percentile_ns(beside, count_beside, 50) - median_ns, 0),
           slow_lost_ns = fmax((double)percentile_ns(beside, count_beside, 99) - slow_ns, 0);
    return slow_lost_ns < tolerated * slow_ns ? 0 : (median_lost_ns + slow_lost_ns) / 2e3;
}
