/*
 * traced.h: what the driver and the CUPTI of tests/fake/traced have to say to each other.
 *
 *   traced_driver.c   libcuda.so.1: streams, events, launches and graphs, which run nothing; it loads the library that
 *                     CUDA_INJECTION64_PATH names, as the real one does
 *   traced_cupti.c    libcupti.so.13: callbacks and records of those
 *
 * The driver finds these functions with dlsym when CUPTI is loaded, so both can be used without the other.
 * GRIDSMITH_FAKE is a list of words: `drops` loses every tenth record, `subscribed` has another profiler, `refuses`
 * makes every fifth launch fail, `nameless` has no record of the GPU.
 */
#ifndef GS_TRACED_H
#define GS_TRACED_H

#include "lab/record/cupti.h"

#include <stdlib.h>
#include <string.h>

static inline bool fake_has(const char *word) {
    const char *at = getenv("GRIDSMITH_FAKE");
    size_t length = strlen(word);
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

#define VISIBLE __attribute__((visibility("default")))

/* A call of the driver, before it (CUPTI_ENTER) and after. */
VISIBLE void traced_call(uint32_t number, const cupti_call *call);
VISIBLE void traced_graph(uint32_t number, const cupti_graph *graph);
/* A record, complete or (its end is 0) not. */
VISIBLE void traced_record(const void *record, size_t size);

/* What a node's id is; nodes are the driver's. */
struct traced_node {
    uint64_t id;
    int type, priority;
    cupti_kernel kernel; /* or what stands for a copy or memset */
    size_t bytes;
    struct traced_node *after[8];
    uint8_t edge_types[8], edge_ports[8];
    int after_count;
    struct traced_graph *child;
};

#endif
