/*
 * class_table.c: Slate's Table I, as printed.
 *
 * Memory counts before compute: high and medium in memory are one class each, and kernels low in memory have three
 * classes, by compute. The printed table should be symmetric and is not: for H_C with M_M and for H_C with H_M its
 * lower half says the opposite of its upper half. Here the upper half is used. There H_C with H_M run together, as the
 * text of the paper says, and H_C with M_M do not. The table is a guess: measurements replace it (team.c).
 */
#include "decide.h"

enum kind { L_C, M_C, H_C, M_M, H_M, KINDS };
enum { SOLO, CORUN };

static const unsigned char table[KINDS][KINDS] = {
    /*           L_C    M_C    H_C    M_M    H_M */
    [L_C] = {CORUN, CORUN, SOLO, CORUN, CORUN}, /* of low memory */
    [M_C] = {CORUN, CORUN, SOLO, SOLO, CORUN},  /* of low memory */
    [H_C] = {SOLO, SOLO, SOLO, SOLO, CORUN},    /* of low memory */
    [M_M] = {CORUN, SOLO, CORUN, SOLO, SOLO},   /* of any compute */
    [H_M] = {CORUN, CORUN, SOLO, SOLO, SOLO}};  /* of any compute */

static enum kind kind_of(enum gs_level compute, enum gs_level memory) {
    if (memory == GS_LEVEL_HIGH)
        return H_M;
    if (memory == GS_LEVEL_MEDIUM)
        return M_M;
    return compute == GS_LEVEL_HIGH ? H_C : compute == GS_LEVEL_MEDIUM ? M_C : L_C;
}

bool gs_table_says_corun(enum gs_level compute_a, enum gs_level memory_a, enum gs_level compute_b,
                         enum gs_level memory_b) {
    if (compute_a == GS_LEVEL_UNKNOWN || memory_a == GS_LEVEL_UNKNOWN || compute_b == GS_LEVEL_UNKNOWN ||
        memory_b == GS_LEVEL_UNKNOWN)
        return false;
    enum kind a = kind_of(compute_a, memory_a), b = kind_of(compute_b, memory_b);
    return table[gs_min(a, b)][gs_max(a, b)] == CORUN;
}
