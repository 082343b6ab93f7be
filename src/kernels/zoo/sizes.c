/*
 * sizes.c: sizes between those of a kernel: as many blocks as are asked for, each with more or less work.
 *
 * The numbers of a size decide how many blocks a launch has in each direction (`block_of` of the kernel). A fitted size
 * has no number of blocks in a direction above that of the size that it is made from, so that what the kernel computes
 * with its indices stays in range; the first directions keep as many as possible. What comes out is counted once more,
 * from the launches themselves.
 */
#include "zoo_kernels.h"

#include <math.h>

/* What the launches of a size come to. */
struct outline {
    int64_t blocks, launches;
    bool is_too_large; /* a buffer has more elements than an int can count, and kernels count with ints */
};

static gs_code outline_of(const gs_zoo_kernel *kernel, const gs_zoo_size *size, struct outline *outline,
                          gs_error *error) {
    gs_zoo_instance instance = {.kernel = kernel, .size = size};
    *outline = (struct outline){.blocks = 0};
    kernel->instance(&instance, size->n);
    outline->launches = (int64_t)instance.launches.count;
    for (size_t i = 0; i < instance.launches.count; i++) {
        const uint32_t *grid = instance.launches.data[i].grid;
        outline->blocks += (int64_t)grid[0] * grid[1] * grid[2];
    }
    for (size_t i = 0; i < instance.buffer_count; i++)
        outline->is_too_large = outline->is_too_large || instance.buffers[i].count > INT32_MAX;
    gs_code code = instance.failed ? gs_fail_memory(error) : GS_OK;
    gs_zoo_instance_free(&instance);
    return code;
}

static int64_t blocks_along(const gs_zoo_kernel *kernel, const gs_zoo_size *size, int number) {
    return kernel->block_of[number] ? gs_divide_up(size->n[number], kernel->block_of[number]) : 1;
}

/* Makes that many blocks of the numbers from `number` on. False: it cannot. */
static bool divide_blocks(const gs_zoo_kernel *kernel, gs_zoo_size *size, int number, int64_t blocks) {
    if (number == GS_ZOO_NUMBERS)
        return blocks == 1;
    int64_t most = blocks_along(kernel, size, number);
    int32_t before = size->n[number];
    for (int64_t along = gs_min(most, blocks); along >= 1; along--) {
        if (blocks % along != 0)
            continue;
        size->n[number] = along == most ? before : (int32_t)(along * kernel->block_of[number]);
        if (divide_blocks(kernel, size, number + 1, blocks / along))
            return true;
    }
    size->n[number] = before;
    return false;
}

static gs_code fail_blocks(const gs_zoo_kernel *kernel, const gs_zoo_size *size, const struct outline *outline,
                           int64_t blocks, gs_error *error) {
    gs_text most = {0};
    for (int i = 0; i < GS_ZOO_NUMBERS; i++)
        if (kernel->block_of[i])
            gs_text_add(&most, "%s%lld", most.count ? " x " : "up to ", (long long)blocks_along(kernel, size, i));
    if (!most.count)
        gs_text_add(&most, "%lld", (long long)outline->blocks);
    gs_text_add(&most, " blocks");
    if (outline->launches > 1)
        gs_text_add(&most, " in %lld launches", (long long)outline->launches);
    gs_code code = most.failed ? gs_fail_memory(error)
                               : gs_fail(error, GS_E_USAGE, "%s (%s) has %s, and cannot have %lld", kernel->name,
                                         size->name, most.data, (long long)blocks);
    gs_text_free(&most);
    return code;
}

static gs_code fit_work(const gs_zoo_kernel *kernel, const gs_zoo_size *size, double work, gs_zoo_size *fitted,
                        gs_error *error) {
    double wanted = work;
    if (kernel->work && kernel->divided)
        wanted *= (double)blocks_along(kernel, fitted, kernel->divided - 1) /
                  (double)blocks_along(kernel, size, kernel->divided - 1);
    if (wanted == 1)
        return GS_OK;
    if (!kernel->work)
        return gs_fail(error, GS_E_USAGE, "the work of a block of %s cannot be changed", kernel->name);
    double number = round(size->n[kernel->work - 1] * wanted);
    if (!(number <= INT32_MAX))
        return gs_fail(error, GS_E_USAGE, "%s cannot have blocks with %g times the work", kernel->name, work);
    fitted->n[kernel->work - 1] = (int32_t)fmax(number, 1);
    return GS_OK;
}

gs_code gs_zoo_size_fit(const gs_zoo_kernel *kernel, const gs_zoo_size *size, int64_t blocks, double work,
                        gs_zoo_size *fitted, gs_error *error) {
    struct outline whole, made;
    *fitted = *size;
    gs_code code = outline_of(kernel, size, &whole, error);
    if (code != GS_OK)
        return code;
    blocks = blocks ? blocks : whole.blocks;
    bool is_other = blocks != whole.blocks;
    if (is_other && (blocks % whole.launches || !divide_blocks(kernel, fitted, 0, blocks / whole.launches)))
        return fail_blocks(kernel, size, &whole, blocks, error);
    code = fit_work(kernel, size, work, fitted, error);
    if (code == GS_OK)
        code = outline_of(kernel, fitted, &made, error);
    if (code == GS_OK && made.blocks != blocks)
        return fail_blocks(kernel, size, &whole, blocks, error);
    if (code == GS_OK && made.is_too_large)
        return gs_fail(error, GS_E_USAGE, "%s cannot have blocks with %g times the work: a buffer would be too large",
                       kernel->name, work);
    return code;
}
