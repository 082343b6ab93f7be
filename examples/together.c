/*
 * together.c: will a persistent kernel and a collective be resident together on an H200, whoever comes first? The
 * answer is one of the library, what would help is JSON.
 *
 *   cc together.c $(pkg-config --cflags --libs gridsmith) -o together && ./together
 */
#include <gridsmith/gridsmith.h>

int main(void) {
    static const char *const words[] = {"no", "yes", "not known", "error"};
    gs_error error = {.code = GS_OK};
    gs_launch_spec mega = {.kernel = "mega", .blocks = 132, .shape = gs_shape_of(256, 168, 200 * 1024)};
    gs_launch_spec nccl = {.kernel = "nccl", .blocks = 16, .shape = gs_shape_of(512, 96, 60 * 1024)};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_run *run = gpu ? gs_run_new(&error) : NULL;
    char *json = NULL;
    if (run && gs_run_launch(run, &mega, &error) == GS_OK && gs_run_launch(run, &nccl, &error) == GS_OK) {
        printf("resident together: %s\n", words[gs_together(gpu, run, NULL, &json, &error)]);
        printf("all that is known: %s\n", json ? json : error.message);
    } else {
        fprintf(stderr, "%s\n", error.message);
    }
    gs_string_free(json);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return gs_code_exit(error.code);
}
