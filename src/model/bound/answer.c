/*
 * answer.c: all bounds for some warps of a program, for users of the library.
 */
#include "bound.h"

gs_code gs_bound_of(const gs_program *program, int64_t warps, const gs_bound_options *options, gs_bound *bound,
                    gs_error *error) {
    *bound = (gs_bound){GS_NOT_KNOWN, GS_NOT_KNOWN, GS_NOT_KNOWN, GS_NOT_KNOWN};
    if (warps < 1)
        return gs_fail(error, GS_E_USAGE, "a bound is for 1 warp or more, not for %lld", (long long)warps);
    gs_code code = gs_proven_cycles(program, warps, &bound->proven_cycles, error);
    if (code == GS_OK && program->is_paper)
        code = gs_formula_cycles(warps, program->repetitions, &bound->formula_cycles, error);
    if (code != GS_OK || !options || !options->search || bound->proven_cycles > GS_SEARCH_CYCLES ||
        warps > GS_SEARCH_WARPS)
        return code;
    gs_flat flat;
    gs_worst worst;
    gs_search_options search = {.memory_bytes = options->memory_bytes};
    code = gs_flat_make(&flat, program, error);
    for (int fair = 0; fair < 2 && code == GS_OK; fair++) {
        search.fair = fair;
        code = gs_search(&flat, warps, &search, &worst, error);
        if (code == GS_OK && worst.exact)
            *(fair ? &bound->exact_fair_cycles : &bound->exact_cycles) = worst.cycles;
        gs_worst_clear(&worst);
    }
    gs_flat_clear(&flat);
    return code;
}
