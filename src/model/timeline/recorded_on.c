/*
 * recorded_on.c: predictions of runs that name the GPU that they were recorded on: the library's gs_predict.
 *
 * A recorded program says how long launches ran, not blocks. How many blocks run at a time depends on the GPU on which
 * that was measured, so its description is needed besides that of the GPU to predict for. This is the only place of the
 * model that opens a description because a run names it. The functions that read runs call it, before anything is
 * played.
 */
#include "timeline.h"

#include <string.h>

gs_gpu *gs_gpu_recorded_on(const gs_gpu *gpu, const gs_run *run) {
    gs_gpu *named = run->gpu ? gs_gpu_open(run->gpu, NULL) : NULL;
    if (named && strcmp(named->name, gpu->name) == 0 && named->sms == gpu->sms) {
        gs_gpu_free(named);
        named = NULL;
    }
    return named;
}

/* Whether it matters on which GPU a run was recorded. */
static bool needs_gpu(const gs_run *run, const gs_predict_options *options) {
    return !(options && options->follow) && gs_run_is_program(run);
}

gs_run *gs_predict(const gs_gpu *gpu, const gs_run *run, const gs_predict_options *options, gs_error *error) {
    gs_gpu *named = needs_gpu(run, options) ? gs_gpu_recorded_on(gpu, run) : NULL;
    gs_run *prediction = gs_predict_on(gpu, named ? named : gpu, run, options, error);
    gs_gpu_free(named);
    return prediction;
}
