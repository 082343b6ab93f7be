/*
 * nearest.c: the built-in description that is most like a GPU without one.
 *
 * What counts first is what decides where blocks go: the compute capability, then its major number, then the limits of
 * an SM that the trace tells. Then it is the name, which a slice of a GPU begins with, the number of SMs, and among
 * equals a description that was measured. A number that the trace does not have counts as equal.
 */
#include "collect.h"

#include <stdlib.h>

enum { RANKS = 6 };

/* How far a description is from a GPU: smaller is nearer, the first number first. */
typedef struct distance {
    int64_t ranks[RANKS];
} distance;

static int64_t differs(int64_t known, int64_t other) {
    return known > 0 && known != other;
}

static distance distance_of(const gs_traced_gpu *gpu, const gs_gpu *described) {
    int architecture = gs_gpu_architecture(described);
    bool has_capability = gpu->major > 0;
    return (distance){{has_capability && 10 * gpu->major + gpu->minor != architecture,
                       has_capability ? llabs((long long)gpu->major - architecture / 10) : 0,
                       differs(gpu->threads_per_sm, described->limits.threads_per_sm) +
                           differs(gpu->registers_per_sm, described->limits.registers_per_sm) +
                           differs(gpu->shared_per_sm_bytes, described->largest_config_bytes),
                       !gs_gpu_is_called(described, gpu->name, described->sms),
                       gpu->sms > 0 ? llabs((long long)gpu->sms - described->sms) : 0, described->assumed != NULL}};
}

static bool is_nearer(const distance *a, const distance *b) {
    for (int i = 0; i < RANKS; i++)
        if (a->ranks[i] != b->ranks[i])
            return a->ranks[i] < b->ranks[i];
    return false;
}

gs_gpu *gs_nearest_gpu(const gs_traced_gpu *gpu) {
    gs_gpu *best = NULL;
    distance least = {{0}};
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *described = gs_gpu_open(gs_gpu_builtin(i), NULL);
        distance found = described ? distance_of(gpu, described) : (distance){{0}};
        if (described && (!best || is_nearer(&found, &least))) {
            gs_gpu_free(best);
            best = described;
            least = found;
        } else {
            gs_gpu_free(described);
        }
    }
    return best;
}
