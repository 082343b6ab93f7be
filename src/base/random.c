/*
 * random.c: random numbers for generators and tests, repeatable from a seed and an index.
 */
#include "base.h"

/* splitmix64: any seed and index give a good start. */
uint64_t gs_random_next(gs_random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

gs_random gs_random_at(uint64_t seed, uint64_t index) {
    gs_random random = {seed};
    random.state ^= gs_random_next(&random) + index * 0xd1342543de82ef95u;
    gs_random_next(&random);
    return random;
}

int64_t gs_random_from(gs_random *random, int64_t least, int64_t most) {
    return least + (int64_t)(gs_random_next(random) % (uint64_t)(most - least + 1));
}

bool gs_random_chance(gs_random *random, int percent) {
    return gs_random_from(random, 0, 99) < percent;
}
