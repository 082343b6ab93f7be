/*
 * dispatcher.c: libgridsmith as the block dispatcher of a simulator.
 *
 * A toy simulator with three kernels on an H200. Whenever something starts or ends, it places the blocks that the
 * dispatcher has SMs for; then it lets time pass until the next block ends. A real simulator would run the warps of the
 * blocks where this one knows how long they take. At the end, its SMs are compared with those of gs_predict.
 *
 *   cc dispatcher.c $(pkg-config --cflags --libs gridsmith) -o dispatcher && ./dispatcher
 */
#include <gridsmith/gridsmith.h>

#include <stdlib.h>

enum { KERNELS = 3, MOST_BLOCKS = 1000, MOST_RUNNING = 132 * 32 };

static const gs_launch_spec specs[KERNELS] = {
    {.kernel = "gemm", .blocks = 700, .shape = {256, 96, 32768, 0, GS_NO_CARVEOUT}, .cluster = 2, .duration_ns = 9000},
    {.kernel = "copy", .blocks = 300, .shape = {1024, 24, 0, 0, GS_NO_CARVEOUT}, .duration_ns = 4000},
    {.kernel = "flag", .blocks = 2, .shape = {32, 16, 0, 0, GS_NO_CARVEOUT}, .priority = -1, .duration_ns = 1000},
};

struct running {
    int64_t end_ns;
    int launch, block; /* block: from gs_dispatcher_place */
};

struct simulator {
    gs_dispatcher *gpu;
    int64_t now_ns;
    int launches[KERNELS];
    int64_t placed[KERNELS]; /* blocks */
    int sms[KERNELS][MOST_BLOCKS];
    struct running running[MOST_RUNNING]; /* in the order in which the blocks end */
    int count;
};

/* Blocks that end at the same time are in the order of their launches, and then of their numbers. */
static bool ends_after(const struct running *a, const struct running *b) {
    return a->end_ns > b->end_ns || (a->end_ns == b->end_ns && a->launch > b->launch);
}

static void add_running(struct simulator *simulator, struct running added) {
    int at = simulator->count++;
    for (; at > 0 && ends_after(&simulator->running[at - 1], &added); at--)
        simulator->running[at] = simulator->running[at - 1];
    simulator->running[at] = added;
}

static void place_blocks(struct simulator *simulator) {
    for (int i = 0, sm; i < KERNELS; i++) {
        int launch = simulator->launches[i];
        while (launch >= 0 && (sm = gs_dispatcher_next(simulator->gpu, launch)) != GS_WAIT) {
            int block = gs_dispatcher_place(simulator->gpu, launch, sm);
            add_running(simulator, (struct running){simulator->now_ns + specs[i].duration_ns, i, block});
            simulator->sms[i][simulator->placed[i]++] = sm;
        }
    }
}

static void launch_kernel(struct simulator *simulator, int i, gs_error *error) {
    simulator->launches[i] = gs_dispatcher_launch(simulator->gpu, &specs[i], error);
    place_blocks(simulator);
    char *why = simulator->launches[i] < 0 ? NULL : gs_dispatcher_why(simulator->gpu, simulator->launches[i], NULL);
    printf("%s: %lld blocks start at once; %s\n", specs[i].kernel, (long long)simulator->placed[i],
           why ? why : "no block waits");
    gs_string_free(why);
}

static void end_next_block(struct simulator *simulator) {
    struct running next = simulator->running[0];
    simulator->count--;
    for (int i = 0; i < simulator->count; i++)
        simulator->running[i] = simulator->running[i + 1];
    simulator->now_ns = next.end_ns;
    gs_dispatcher_wait_until(simulator->gpu, next.end_ns);
    gs_dispatcher_release(simulator->gpu, next.block);
    place_blocks(simulator);
}

/* How many blocks are on the SM that gs_predict gives. */
static void compare_with_prediction(const struct simulator *simulator, const gs_gpu *gpu, gs_error *error) {
    gs_run *run = gs_run_new(error);
    for (int i = 0; i < KERNELS && run; i++)
        gs_run_launch(run, &specs[i], error);
    gs_run *prediction = run ? gs_predict(gpu, run, NULL, error) : NULL;
    for (int i = 0; i < KERNELS && prediction; i++) {
        int same = 0;
        for (int64_t block = 0; block < specs[i].blocks; block++)
            same += simulator->sms[i][block] == gs_run_placed(prediction, (size_t)i, block);
        printf("%s: %d of %lld blocks on the SM of gs_predict\n", specs[i].kernel, same, (long long)specs[i].blocks);
    }
    gs_run_free(prediction);
    gs_run_free(run);
}

int main(void) {
    static struct simulator simulator = {.launches = {-1, -1, -1}};
    gs_error error = {.code = GS_OK};
    char text[700];
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    simulator.gpu = gpu ? gs_dispatcher_new(gpu, &error) : NULL;
    for (int i = 0; i < KERNELS && simulator.gpu; i++)
        launch_kernel(&simulator, i, &error);
    while (simulator.count)
        end_next_block(&simulator);
    printf("all blocks have ended at %lld ns\n", (long long)simulator.now_ns);
    if (simulator.gpu && error.code == GS_OK)
        compare_with_prediction(&simulator, gpu, &error);
    if (error.code != GS_OK)
        fprintf(stderr, "%s\n", gs_error_text(&error, text, sizeof text));
    gs_dispatcher_free(simulator.gpu);
    gs_gpu_free(gpu);
    return gs_code_exit(error.code);
}
