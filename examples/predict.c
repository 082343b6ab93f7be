/*
 * predict.c: two kernels on an RTX 3090: where their blocks go, when, and why some of them wait.
 *
 *   cc predict.c $(pkg-config --cflags --libs gridsmith) -o predict && ./predict
 */
#include <gridsmith/gridsmith.h>

/* A launch whose blocks run for 10 us. */
static gs_code add(gs_run *run, const char *kernel, int64_t blocks, int32_t threads, int64_t shared, gs_error *error) {
    gs_launch_spec spec = {
        .kernel = kernel, .blocks = blocks, .shape = gs_shape_of(threads, 32, shared), .duration_ns = 10000};
    return gs_run_launch(run, &spec, error);
}

static void print_launch(const gs_run *prediction, size_t launch) {
    int64_t blocks = gs_run_blocks(prediction, launch), last = blocks - 1;
    printf("%s: block 0 on SM %d from %.1f us, block %lld on SM %d from %.1f us\n", gs_run_kernel(prediction, launch),
           gs_run_placed(prediction, launch, 0), (double)gs_run_start_ns(prediction, launch, 0) / 1e3, (long long)last,
           gs_run_placed(prediction, launch, last), (double)gs_run_start_ns(prediction, launch, last) / 1e3);
    const char *why = gs_run_why(prediction, launch);
    if (why)
        printf("  %s\n", why);
}

int main(void) {
    gs_error error = {.code = GS_OK};
    gs_predict_options options = {.explain = true};
    gs_gpu *gpu = gs_gpu_open("rtx3090", &error);
    gs_run *run = gpu ? gs_run_new(&error) : NULL, *prediction = NULL;
    if (run && add(run, "large", 82, 1024, 65536, &error) == GS_OK &&
        add(run, "small", 100, 128, 49152, &error) == GS_OK)
        prediction = gs_predict(gpu, run, &options, &error);
    for (size_t i = 0; prediction && i < gs_run_launches(prediction); i++)
        print_launch(prediction, i);
    if (!prediction)
        fprintf(stderr, "%s\n", error.message);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return gs_code_exit(error.code);
}
