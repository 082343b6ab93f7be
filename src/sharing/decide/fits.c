/*
 * fits.c: which kernels are resident together, and how many waves a launch has, as computed by the engine.
 *
 * ISPA adds up the needs of blocks (Equation 9). The dispatcher also models partitions, the pointer at which warps
 * start, granularities and the configurations of shared memory, so that no pair is planned that the GPU would not place
 * together.
 */
#include "simulate.h"

#include "model/engine/engine.h"

/* Places blocks as the GPU would, until `most` are placed or none fits. Returns how many were placed. */
static int64_t place_blocks(gs_dispatcher *dispatcher, int kernel, int64_t most) {
    int64_t placed = 0;
    for (; placed < most; placed++) {
        int sm = gs_dispatcher_next(dispatcher, kernel);
        if (sm == GS_WAIT || gs_dispatcher_place(dispatcher, kernel, sm) < 0)
            break;
    }
    return placed;
}

static bool place_all(gs_dispatcher *dispatcher, const gs_shape *shape, int64_t blocks) {
    int kernel = gs_dispatcher_kernel(dispatcher, shape, NULL);
    return kernel >= 0 && place_blocks(dispatcher, kernel, blocks) == blocks;
}

int32_t gs_fits_beside(const gs_gpu *gpu, const gs_shape *others, const int32_t *workers, size_t count,
                       const gs_shape *shape, int32_t most) {
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    bool do_others_fit = true;
    int64_t placed = 0;
    if (!dispatcher)
        return -1;
    for (size_t i = 0; i < count && do_others_fit; i++)
        do_others_fit = place_all(dispatcher, &others[i], (int64_t)workers[i] * gpu->sms);
    int kernel = do_others_fit ? gs_dispatcher_kernel(dispatcher, shape, NULL) : -1;
    if (kernel >= 0)
        placed = place_blocks(dispatcher, kernel, (int64_t)most * gpu->sms);
    gs_dispatcher_free(dispatcher);
    return (int32_t)(placed / gpu->sms);
}

/* ---- waves ---- */

static bool may_skip(void *user, size_t launch, int64_t wave) {
    (void)user, (void)launch, (void)wave;
    return true;
}

static void on_skipped(void *user, size_t launch, int64_t blocks) {
    (void)user, (void)launch, (void)blocks;
}

double gs_waves_on(const gs_gpu *gpu, const char *name, const gs_shape *shape, int64_t blocks, gs_error *error) {
    enum { BLOCK_NS = 1000000 };
    gs_engine_hooks hooks = {.may_skip = may_skip, .skipped = on_skipped};
    gs_run *run = gs_run_new(error);
    gs_engine *engine = NULL;
    double waves = 0;
    gs_launch_spec spec = {.kernel = name, .blocks = blocks, .shape = *shape, .duration_ns = BLOCK_NS};
    if (run && gs_run_launch(run, &spec, error) == GS_OK)
        engine = gs_engine_new(gpu, run, &hooks, error);
    if (engine && gs_engine_launch(engine, 0, error) == GS_OK && gs_engine_finish(engine, error) == GS_OK) {
        gs_course course = gs_engine_course(engine, 0);
        waves = (double)(course.end_ns - course.start_ns) / BLOCK_NS;
    }
    gs_engine_free(engine);
    gs_run_free(run);
    return waves;
}
