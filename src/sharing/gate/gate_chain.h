/*
 * gate_chain.h: whether a long kernel is launched with a guard, and as a chain of how many launches. No driver.
 *
 * A kernel with a guard stops at a block boundary when a request comes (src/kernels/sass). What is left of it is done
 * by the next launch of its chain, which waits until no flag is set. All launches of a chain are put into the stream at
 * once: whether a kernel is stopped, and how often, is the GPU's business, and no thread has to come and launch the
 * rest. The last launch cannot be stopped, so each kernel ends. Launches that find nothing left cost time: a chain is
 * as long as requests are frequent, and as its cost allows.
 */
#ifndef GS_GATE_CHAIN_H
#define GS_GATE_CHAIN_H

#include <stdint.h>

enum { GS_CHAIN_LAUNCHES = 32 }; /* at most */

typedef struct gs_chain_kernel {
    int64_t expected_ns;
    uint64_t blocks;        /* or clusters */
    uint64_t resident;      /* how many the GPU runs at a time */
    double requests_per_ns; /* of all latency programs */
    double most_cost;       /* of the guard, as a part of the kernel's own time */
    uint32_t cluster;       /* blocks of a cluster */
} gs_chain_kernel;

typedef struct gs_chain_plan {
    uint32_t launches;  /* 0: the kernel is launched without a guard */
    uint32_t first;     /* blocks that each launch starts at once */
    uint32_t mask;      /* of gs_guard_parameter */
    int64_t stop_ns;    /* how long it takes to stop it, at most */
    int64_t cost_ns;    /* of the guard, if nothing is stopped */
    const char *reason; /* why it is launched without a guard */
} gs_chain_plan;

gs_chain_plan gs_chain_plan_of(const gs_chain_kernel *kernel);

/* What guards may still cost. All 0 at first. */
typedef struct gs_chain_budget {
    double left_ns;
    uint64_t work_ns; /* that it was made of */
} gs_chain_budget;

/* The part of a kernel's own time that its guard may cost, when the program has launched `work_ns` of work in all. The
   caller takes the cost of the plan from what is left. */
double gs_chain_most_cost(gs_chain_budget *budget, uint64_t work_ns, int64_t expected_ns);

#endif
