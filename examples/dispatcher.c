/*
 * dispatcher.c: libgridsmith as the block dispatcher of a simulator.
 *
 * A toy simulator with two kernels on an RTX 3090. In each cycle it places as many blocks as the dispatcher has SMs
 * for, lets time pass, and releases the blocks that are done. A real simulator would run the warps of the blocks where
 * this one counts cycles.
 *
 *   cc dispatcher.c $(pkg-config --cflags --libs gridsmith) -o dispatcher && ./dispatcher
 */
#include <gridsmith/gridsmith.h>

#include <stdlib.h>

enum { MOST_RUNNING = 82 * 16 };

struct running {
    int block, cycles_left;
};

struct kernel {
    const char *name;
    gs_shape shape;
    int blocks, cycles; /* how many blocks are left, and how long each runs */
    int number;         /* from gs_dispatcher_kernel */
};

/* Places blocks of a kernel while there is room. Returns how many it placed. */
static int issue(gs_dispatcher *gpu, struct kernel *kernel, struct running *running, int *count) {
    int placed = 0, sm;
    while (kernel->blocks && (sm = gs_dispatcher_next(gpu, kernel->number)) != GS_WAIT) {
        running[*count].block = gs_dispatcher_place(gpu, kernel->number, sm);
        running[(*count)++].cycles_left = kernel->cycles;
        kernel->blocks--;
        placed++;
    }
    return placed;
}

static void run_one_cycle(gs_dispatcher *gpu, struct running *running, int *count) {
    for (int i = 0; i < *count;) {
        if (--running[i].cycles_left > 0) {
            i++;
            continue;
        }
        gs_dispatcher_release(gpu, running[i].block);
        running[i] = running[--*count];
    }
}

static void simulate(gs_dispatcher *gpu, struct kernel *kernels, int kernel_count) {
    static struct running running[MOST_RUNNING];
    int count = 0, served = 0;
    for (int cycle = 0; served < kernel_count || count; cycle++) {
        while (served < kernel_count) {
            int placed = issue(gpu, &kernels[served], running, &count);
            if (placed)
                printf("cycle %3d: %4d blocks of %s, %4d on the GPU, %d on SM 0\n", cycle, placed, kernels[served].name,
                       gs_dispatcher_resident_all(gpu), gs_dispatcher_resident(gpu, 0));
            if (kernels[served].blocks)
                break; /* this kernel waits, and so do all kernels after it */
            served++;
        }
        run_one_cycle(gpu, running, &count);
    }
}

int main(void) {
    gs_error error;
    char text[700];
    gs_gpu *description = gs_gpu_open("rtx3090", &error);
    gs_dispatcher *gpu = description ? gs_dispatcher_new(description, &error) : NULL;
    struct kernel kernels[] = {
        {"gemm", gs_shape_of(256, 96, 32768), 400, 20, 0},
        {"copy", gs_shape_of(1024, 24, 0), 100, 5, 0},
    };
    bool ready = gpu != NULL;
    for (int i = 0; i < 2 && ready; i++)
        ready = (kernels[i].number = gs_dispatcher_kernel(gpu, &kernels[i].shape, &error)) >= 0;
    if (ready)
        simulate(gpu, kernels, 2);
    else
        fprintf(stderr, "%s\n", gs_error_text(&error, text, sizeof text));
    gs_dispatcher_free(gpu);
    gs_gpu_free(description);
    return ready ? EXIT_SUCCESS : EXIT_FAILURE;
}
