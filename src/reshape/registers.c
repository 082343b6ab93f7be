/*
 * registers.c: what a kernel costs when the compiler may use only so many registers, and how reshaped ones are
 * compiled.
 *
 * NVRTC compiles for a GPU that need not be there, and ptxas says what came out. A limit that changes nothing is not
 * listed.
 */
#include "reshape.h"

#include <string.h>

enum { REGISTERS = 65536, GRANULARITY = 8, MOST = 255 }; /* of an SM since compute capability 5.0; of a thread */

uint32_t gs_register_limit(const gs_cost *original, const gs_cost *reshaped, const uint32_t block[3]) {
    int64_t warps = gs_divide_up((int64_t)block[0] * block[1] * block[2], 32) * original->blocks_per_sm;
    int64_t limit = warps ? REGISTERS / 32 / warps / GRANULARITY * GRANULARITY : 0;
    bool is_wanted = reshaped->blocks_per_sm < original->blocks_per_sm && reshaped->registers > limit;
    return is_wanted ? (uint32_t)gs_min(limit, MOST) : 0;
}

bool gs_needs_loop(const gs_cost *original, const gs_cost *reshaped) {
    return reshaped->registers > 0 &&
           gs_divide_up(reshaped->registers, GRANULARITY) < gs_divide_up(original->registers, GRANULARITY);
}

size_t gs_reshaped_options(bool sees_loop, bool is_marked, const char *const **options) {
    static const char *const both[] = {"-DGRIDSMITH_LOOP", "-DGRIDSMITH_MARKS"};
    *options = sees_loop ? both : both + 1;
    return (size_t)sees_loop + is_marked;
}

gs_code gs_registers_find(const gs_source *source, const char *kernel, int architecture, gs_register_variants *found,
                          gs_error *error) {
    static const uint32_t limits[] = {0, 168, 128, 112, 96, 80, 72, 64, 56, 48, 40, 32, 24};
    const char *kernels[] = {kernel};
    *found = (gs_register_variants){.count = 0};
    for (size_t i = 0; i < GS_COUNT(limits); i++) {
        gs_register_variant *variant = &found->list[found->count];
        gs_build build = {.name = source->name,
                          .text = source->text,
                          .size = source->size,
                          .kernels = kernels,
                          .kernel_count = 1,
                          .max_registers = limits[i]};
        bool is_above = found->count && limits[i] >= (uint32_t)found->list[found->count - 1].cost.registers;
        if (is_above)
            continue;
        gs_code code = gs_nvrtc_try(&build, architecture, &variant->cost, error);
        if (code == GS_E_KERNEL && found->count)
            break; /* some instructions need more registers than that */
        if (code != GS_OK)
            return code;
        variant->limit = limits[i];
        bool is_new =
            !found->count || memcmp(&variant->cost, &found->list[found->count - 1].cost, sizeof variant->cost);
        found->count += is_new;
    }
    return GS_OK;
}
