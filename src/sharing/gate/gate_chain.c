/*
 * gate_chain.c: whether a long kernel is launched with a guard, and as a chain of how many launches. See gate_chain.h.
 *
 * A stopped kernel ends when the blocks that run have ended and the others have come and gone. A kernel of few waves,
 * or of very short blocks, is hardly sooner at its end if it is stopped: it stays as it is.
 */
#include "gate_chain.h"

#include "sharing/client/client.h"

#include <math.h>

static const double LAUNCH_NS = 5000, /* of a launch that finds nothing left, and of the wait before it, */
    EXIT_NS = 2500,                   /* and of each wave of its blocks, which come and go, */
    GUARD_NS = 500,                   /* of the guard in front of a block, */
    CLAIM_NS = 4000;                  /* and of a block that looks at the flags and claims others */
enum { MOST_BLOCKS = 1 << 30, MOST_AHEAD = 1024, LEAST_WAVES = 2 };

/* The guard computes the number of a cluster as ptxas computes %clusterid: a block's number as a float, times one by
   the size of a cluster. If that is rounded up, blocks of a cluster of 15 disagree from block 4,670,939 on; if it is
   rounded to the nearest float, from 10,186,169 on. */
enum { MOST_IN_CLUSTERS = 1 << 22 };

/* What guards may cost: this part of the kernel's time, or more for a kernel that would hold up requests for long, as
   long as it is this part of the recent work. */
static const double USUAL_COST = 0.03, MOST_COST = 0.35, COST_OF_ALL = 0.1, MOST_LEFT_NS = 2e7;

double gs_chain_most_cost(gs_chain_budget *budget, uint64_t work_ns, int64_t expected_ns) {
    budget->left_ns = fmin(budget->left_ns + COST_OF_ALL * (double)(work_ns - budget->work_ns), MOST_LEFT_NS);
    budget->work_ns = work_ns;
    double part = expected_ns > GS_TENANT_LATE_NS ? budget->left_ns / (double)expected_ns : 0;
    return fmax(USUAL_COST, fmin(part, MOST_COST));
}

/* Chosen so that more requests than that during one kernel are rare: less than one in 500. Requests come at any time.
 */
static uint32_t count_launches(const gs_chain_kernel *kernel) {
    double expected = kernel->requests_per_ns * (double)kernel->expected_ns;
    double wanted = 2 + ceil(expected + 2.5 * sqrt(expected));
    return wanted < GS_CHAIN_LAUNCHES ? (uint32_t)wanted : GS_CHAIN_LAUNCHES;
}

static uint32_t mask_of(const gs_chain_kernel *kernel, double block_ns) {
    double wanted = (double)kernel->resident * CLAIM_NS / block_ns;
    uint32_t ahead = 1;
    while (ahead < MOST_AHEAD && ahead * 2 <= wanted)
        ahead *= 2;
    return ahead - 1;
}

gs_chain_plan gs_chain_plan_of(const gs_chain_kernel *kernel) {
    if (!kernel->resident || kernel->blocks < LEAST_WAVES * kernel->resident || kernel->blocks > MOST_BLOCKS ||
        kernel->expected_ns <= 0)
        return (gs_chain_plan){.reason = "it has fewer than two waves of blocks"};
    if (kernel->cluster > 1 && kernel->blocks > MOST_IN_CLUSTERS / kernel->cluster)
        return (gs_chain_plan){.reason = "it has too many blocks in clusters"};
    double waves = ceil((double)kernel->blocks / (double)kernel->resident);
    double block_ns = (double)kernel->expected_ns / waves, pass_ns = EXIT_NS * waves, stop_ns = block_ns + pass_ns;
    double guard_ns = GUARD_NS * waves;
    double most = (kernel->most_cost * (double)kernel->expected_ns - guard_ns) / (LAUNCH_NS + pass_ns);
    uint32_t launches = count_launches(kernel);
    if (most < 1 || 2 * stop_ns > (double)kernel->expected_ns)
        return (gs_chain_plan){.reason = "its blocks are too short, or too few"};
    launches = launches - 1 > most ? (uint32_t)most + 1 : launches;
    return (gs_chain_plan){.launches = launches,
                           .first = (uint32_t)kernel->resident,
                           .mask = mask_of(kernel, block_ns),
                           .stop_ns = (int64_t)stop_ns,
                           .cost_ns = (int64_t)(guard_ns + (launches - 1) * (LAUNCH_NS + pass_ns))};
}
