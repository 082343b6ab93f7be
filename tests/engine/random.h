/*
 * random.h: random GPUs and runs for the tests.
 */
#ifndef GS_RANDOM_H
#define GS_RANDOM_H

#include "model/gpu/gpu.h"
#include "model/run/run.h"

/* A shape that an SM of the GPU can take. */
gs_shape random_shape(gs_random *random, const gs_gpu *gpu);

/* Two green contexts of random SMs, which may overlap. */
void random_green_contexts(gs_random *random, const gs_gpu *gpu, gs_green_contexts *contexts);

/* A built-in GPU with some of its SMs. `percent` of its mechanisms differ from those of the paper. */
gs_gpu *random_gpu(gs_random *random, int percent);

/* Launches, exits, queues, streams, priorities and durations for this GPU, more than it can hold. */
gs_run *random_run(gs_random *random, const gs_gpu *gpu);

/* As random_run, with graphs, and with few connections. */
gs_run *random_modern_run(gs_random *random, const gs_gpu *gpu);

/* A graph of small kernels that all fit, whose nodes exit one after the other. */
gs_run *random_graph(gs_random *random, const gs_gpu *gpu);

/* As random_run, with host times, copies and dependencies. */
gs_run *random_program(gs_random *random, const gs_gpu *gpu);

/* A program of copies alone, most of them from the host. */
gs_run *random_copies(gs_random *random);

/* A launch of a kernel called k0, k1, ... */
gs_launch numbered_launch(int64_t number);

/* Makes half of the launches launches of clusters, if the GPU supports them. */
void random_cluster(gs_random *random, const gs_gpu *gpu, gs_launch *launch);

/* Makes the GPU number its blocks as they are placed. */
void random_no_grants(gs_gpu *gpu);

#endif
