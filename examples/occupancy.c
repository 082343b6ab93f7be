/*
 * occupancy.c: how many blocks of a kernel fit on an SM of some GPUs, and what the limit is. gs_gpu_builtin
 * lists all GPUs that the library describes.
 *
 *   cc occupancy.c $(pkg-config --cflags --libs gridsmith) -o occupancy && ./occupancy
 */
#include <gridsmith/gridsmith.h>

static const char *limit_of(const gs_occupancy *occupancy) {
    return occupancy->limits & GS_LIMIT_BLOCKS      ? "block slots"
           : occupancy->limits & GS_LIMIT_WARPS     ? "warps"
           : occupancy->limits & GS_LIMIT_REGISTERS ? "registers"
                                                    : "shared memory";
}

int main(void) {
    gs_error error = {.code = GS_OK};
    gs_shape shape = gs_shape_of(256, 64, 40 * 1024);
    static const char *const names[] = {"h200", "a100", "rtx3090", "rtx2080ti"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gs_occupancy occupancy;
        gs_gpu *gpu = gs_gpu_open(names[i], &error);
        if (!gpu)
            return gs_code_exit(error.code);
        gs_occupancy_of(gpu, &shape, &occupancy, &error);
        if (occupancy.blocks)
            printf("%-10s %2d blocks, limit: %s\n", gs_gpu_name(gpu), occupancy.blocks, limit_of(&occupancy));
        else
            printf("%-10s %s\n", gs_gpu_name(gpu), error.message);
        gs_gpu_free(gpu);
    }
    return 0;
}
