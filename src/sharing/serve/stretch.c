/*
 * stretch.c: whether the requests of a latency program take longer beside best-effort programs.
 *
 * A kernel that cannot be stopped need not hold up requests: it may leave room on the SMs. Whether it does is seen only
 * by the requests. So their durations while the GPU has no best-effort program are kept, and compared with those beside
 * some. The first requests of a program are often slow, so what nine of ten take alone is compared, and those that take
 * longer alone are not held against others.
 */
#include "server.h"

static uint32_t read_time(const gs_tenant_page *page, unsigned bucket) {
    return atomic_load_explicit(&page->request_times[bucket], memory_order_relaxed);
}

void gs_stretch_alone_begins(gs_stretch *stretch, const gs_tenant_page *page) {
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        stretch->seen[i] = read_time(page, i);
}

void gs_stretch_alone_ends(gs_stretch *stretch, const gs_tenant_page *page) {
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        stretch->alone[i] += read_time(page, i) - stretch->seen[i];
    gs_stretch_alone_begins(stretch, page);
}

/* The duration that nine of ten requests do not exceed; 0: there were too few. */
static uint64_t usual_ns(const uint32_t *times) {
    enum { LEAST = 30 };
    uint64_t all = 0, seen = 0;
    unsigned bucket = 0;
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        all += times[i];
    while (all && (seen += times[bucket]) * 10 < all * 9)
        bucket++;
    return all < LEAST ? 0 : gs_tenant_bucket_ns(bucket);
}

/* The part of the requests that took longer than this. */
static double late_part(const uint32_t *times, uint64_t ns, uint64_t *all) {
    uint64_t late = 0;
    *all = 0;
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++) {
        *all += times[i];
        late += i && gs_tenant_bucket_ns(i - 1) > ns ? times[i] : 0;
    }
    return *all ? (double)late / (double)*all : 0;
}

double gs_stretch_late_percent(const gs_stretch *stretch, const gs_tenant_page *page) {
    enum { LEAST = 100 };
    uint32_t beside[GS_TENANT_TIMES];
    uint64_t usual = usual_ns(stretch->alone), most = usual + GS_TENANT_LATE_NS, count = 0;
    double alone = late_part(stretch->alone, most, &count);
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        beside[i] = read_time(page, i) - stretch->seen[i];
    double late = late_part(beside, most, &count) - alone;
    return !usual || count < LEAST ? -1 : late > 0 ? 100 * late : 0;
}
