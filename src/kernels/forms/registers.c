/*
 * registers.c: the cost of a kernel under register limits, and the limit for a reshaped kernel.
 *
 * ptxas assembles the module, for a GPU that need not be present, and reports the cost. A limit without an effect is
 * not listed.
 */
#include "forms.h"

#include <string.h>

uint32_t gs_register_limit(int32_t original, int32_t reshaped) {
    /* With FEW registers the threads fill an SM. Registers are allocated in units of GRANULARITY. */
    enum { FEW = 32, MANY = 64, MOST = 255, GRANULARITY = 8 };
    int64_t own = gs_min(gs_max(gs_divide_up(original, GRANULARITY) * GRANULARITY, FEW), MOST);
    return original > MANY || reshaped > own ? (uint32_t)own : 0;
}

gs_code gs_registers_find(const gs_ptx_place *place, int architecture, gs_register_variants *found, gs_error *error) {
    static const uint32_t limits[] = {0, 168, 128, 112, 96, 80, 72, 64, 56, 48, 40, 32, 24};
    const gs_ptx_module *module = place->module;
    char symbol[GS_PTX_SYMBOL_MOST];
    const char *kernels[] = {symbol};
    gs_ptx_token_text(module, module->functions.data[place->function].name, symbol, sizeof symbol);
    *found = (gs_register_variants){.count = 0};
    for (size_t i = 0; i < GS_COUNT(limits); i++) {
        gs_register_variant *variant = &found->list[found->count];
        gs_build build = {.name = module->name,
                          .text = module->text,
                          .size = module->size,
                          .kernels = kernels,
                          .kernel_count = 1,
                          .max_registers = limits[i]};
        bool is_above = found->count && limits[i] >= (uint32_t)found->list[found->count - 1].cost.registers;
        if (is_above)
            continue;
        gs_code code = gs_cubin_costs(&build, architecture, &variant->cost, error);
        if (code == GS_E_KERNEL && found->count)
            break; /* some instructions need more registers */
        if (code != GS_OK)
            return code;
        variant->limit = limits[i];
        bool is_new =
            !found->count || memcmp(&variant->cost, &found->list[found->count - 1].cost, sizeof variant->cost);
        found->count += is_new;
    }
    return GS_OK;
}
