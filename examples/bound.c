/*
 * bound.c: by when the warps of an SM are done, at the latest: the program of the finishing-time paper.
 *
 *   cc bound.c $(pkg-config --cflags --libs gridsmith) -o bound && ./bound
 */
#include <gridsmith/gridsmith.h>

int main(void) {
    gs_error error = {.code = GS_OK};
    gs_bound_options options = {.search = true};
    gs_program *program = gs_program_paper(2, &error);
    for (int64_t warps = 1; program && warps <= 3; warps++) {
        gs_bound bound;
        if (gs_bound_of(program, warps, &options, &bound, &error) != GS_OK)
            break;
        printf("%lld warps: the paper says %lld cycles, the worst case is %lld, proven are %lld\n", (long long)warps,
               (long long)bound.formula_cycles, (long long)bound.exact_cycles, (long long)bound.proven_cycles);
    }
    if (error.code != GS_OK)
        fprintf(stderr, "%s\n", error.message);
    gs_program_free(program);
    return gs_code_exit(error.code);
}
