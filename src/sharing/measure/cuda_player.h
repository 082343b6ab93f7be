/* cuda_player.h: measures on a GPU, in the process that has it. For this room only. See cuda_player.c. */
#ifndef GS_CUDA_PLAYER_H
#define GS_CUDA_PLAYER_H

#include "subject.h"

typedef struct gs_bench {
    gs_bench_gpu gpu;
    gs_subject *subjects;
    size_t count;
    uint64_t control[2]; /* memory for controls and counters, one for each stream */
    size_t control_bytes[2];
} gs_bench;

/* Opens the GPU and all sources. Nothing is closed: the process ends without that, because a kernel may still run. */
gs_code gs_bench_open(gs_bench *bench, const char *rest, const gs_kernel_source *sources, size_t count,
                      gs_error *error);
/* Measures. GS_E_KERNEL: a kernel failed, or its results are wrong; a kernel that never ends is waited for. */
gs_code gs_bench_measure(gs_bench *bench, const gs_measurement *measurement, gs_measure_result *measured,
                         gs_error *error);

#endif
