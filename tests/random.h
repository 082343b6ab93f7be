/*
 * random.h: random numbers and random runs for the tests, each repeatable from its seed and index.
 */
#ifndef GS_RANDOM_H
#define GS_RANDOM_H

#include "gpu/gpu.h"
#include "run/run.h"

typedef struct gs_random {
    uint64_t state;
} gs_random;

gs_random random_at(uint64_t seed, uint64_t index);
uint64_t random_next(gs_random *random);
int64_t random_from(gs_random *random, int64_t least, int64_t most); /* both included */
bool random_chance(gs_random *random, int percent);

/* A shape that an SM of the GPU can take. */
gs_shape random_shape(gs_random *random, const gs_gpu *gpu);

/* A built-in GPU with some of its SMs and mechanisms of which `percent` in a hundred are not the paper's. */
gs_gpu *random_gpu(gs_random *random, int percent);

/* Launches, exits, queues, streams, priorities and durations for this GPU, more than it can hold. */
gs_run *random_run(gs_random *random, const gs_gpu *gpu);

#endif
