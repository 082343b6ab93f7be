/*
 * share.c: a kernel on a GPU that `gridsmith serve` shares among processes.
 *
 *   gridsmith serve &
 *   cc share.c $(pkg-config --cflags --libs gridsmith-client) -o share && ./share
 */
#include <gridsmith/client.h>

#include <stdio.h>
#include <stdlib.h>

static const char source[] = "__global__ void saxpy(float *y, const float *x, float a, int n) {\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n) y[i] += a * x[i];\n"
                             "}\n";
static const char *const kernels[] = {"saxpy"};

/* Every function returns a code; gs_client_message() describes the failure. */
static void check(gs_client_code code) {
    if (code == GS_CLIENT_OK)
        return;
    fprintf(stderr, "share: %s\n", gs_client_message());
    exit(1);
}

int main(void) {
    enum { N = 100000 };
    int n = N, wrong = 0;
    float a = 2, *x, *y;
    gs_client *client;
    gs_client_memory on_x, on_y;
    uint32_t module;
    int64_t ns;
    check(gs_client_open(NULL, &client));
    check(gs_client_load(client, &(gs_client_source){.text = source, .kernels = kernels, .kernel_count = 1}, &module));
    check(gs_client_host_malloc(client, N * sizeof *x, (void **)&x)); /* the GPU copies from and to this directly */
    check(gs_client_host_malloc(client, N * sizeof *y, (void **)&y));
    check(gs_client_malloc(client, N * sizeof *x, &on_x));
    check(gs_client_malloc(client, N * sizeof *y, &on_y));
    for (int i = 0; i < N; i++)
        x[i] = (float)i, y[i] = 1;
    gs_client_argument arguments[] = {GS_CLIENT_AT(on_y), GS_CLIENT_AT(on_x), GS_CLIENT_VALUE(a), GS_CLIENT_VALUE(n)};
    gs_client_launch launch = {
        .module = module, .grid = {(N + 255) / 256}, .block = {256}, .arguments = arguments, .argument_count = 4};
    check(gs_client_copy_in(client, 0, on_x, x, N * sizeof *x));
    check(gs_client_copy_in(client, 0, on_y, y, N * sizeof *y));
    check(gs_client_event(client, 0, 0));
    check(gs_client_start(client, 0, &launch));
    check(gs_client_event(client, 0, 1));
    check(gs_client_copy_out(client, 0, y, on_y, N * sizeof *y));
    check(gs_client_wait(client, 0));
    check(gs_client_elapsed(client, 0, 1, &ns));
    for (int i = 0; i < N; i++)
        wrong += y[i] != 1 + a * (float)i;
    fprintf(stderr, "%.1f us on %s\n", (double)ns / 1e3, gs_client_facts_of(client)->name);
    printf("%d of %d are wrong\n", wrong, N);
    gs_client_close(client);
    return wrong != 0;
}
