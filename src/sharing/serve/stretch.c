/*
 * stretch.c: whether the requests of a latency program take longer beside best-effort work.
 *
 * A kernel that cannot be stopped need not hold up requests: it may leave room on the SMs. Whether it does is seen only
 * by the requests. So a latency program counts their durations, and apart from that those of requests while no
 * best-effort program worked. Requests that take long alone, too, are not held against others.
 */
#include "server.h"

enum { LEAST_ALONE = 30, LEAST_BESIDE = 100 };

static uint64_t count_of(const uint32_t *times) {
    uint64_t count = 0;
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        count += times[i];
    return count;
}

/* The duration that this part of the requests does not exceed, in percent. */
static uint64_t percentile_ns(const uint32_t *times, uint64_t count, uint64_t percent) {
    uint64_t seen = 0;
    unsigned bucket = 0;
    while ((seen += times[bucket]) * 100 < count * percent)
        bucket++;
    return gs_tenant_bucket_ns(bucket);
}

/* A program that loads its model has many short copies, which seem to be requests. */
static void drop_short(uint32_t *times, uint64_t least_ns) {
    for (unsigned i = 0; i < GS_TENANT_TIMES && gs_tenant_bucket_ns(i) < least_ns; i++)
        times[i] = 0;
}

/* The part of the requests that took longer than this. */
static double late_part(const uint32_t *times, uint64_t count, uint64_t ns) {
    uint64_t late = 0;
    for (unsigned i = 1; i < GS_TENANT_TIMES; i++)
        late += gs_tenant_bucket_ns(i - 1) > ns ? times[i] : 0;
    return (double)late / (double)count;
}

double gs_stretch_late_percent(const gs_tenant_page *page) {
    uint32_t alone[GS_TENANT_TIMES], beside[GS_TENANT_TIMES];
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++) {
        uint32_t all = atomic_load_explicit(&page->request_times[i], memory_order_relaxed);
        alone[i] = atomic_load_explicit(&page->alone_times[i], memory_order_relaxed);
        beside[i] = all > alone[i] ? all - alone[i] : 0;
    }
    uint64_t count_beside = count_of(beside);
    if (count_beside < LEAST_BESIDE)
        return -1;
    drop_short(alone, percentile_ns(beside, count_beside, 10) / 2);
    uint64_t count_alone = count_of(alone);
    if (count_alone < LEAST_ALONE)
        return -1;
    uint64_t most_ns = percentile_ns(alone, count_alone, 50) + GS_TENANT_LATE_NS;
    double late = late_part(beside, count_beside, most_ns) - late_part(alone, count_alone, most_ns);
    return late > 0 ? 100 * late : 0;
}
