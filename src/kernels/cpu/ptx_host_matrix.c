/*
 * ptx_host_matrix.c: the matrix instructions of PTX. See ptx_host.h. src/kernels/cpu/runtime/gridsmith_matrix.c
 * executes them.
 *
 * The registers of a fragment become an array, which is passed to one function.
 */
#include "ptx_host.h"

#include <stdlib.h>

static const struct {
    const char *word, *kind;
    int bits;
} kinds[] = {{"f16", "PTX_M_F16", 16}, {"bf16", "PTX_M_BF16", 16}, {"tf32", "PTX_M_TF32", 32}, {"f32", "PTX_M_F32", 32},
             {"f64", "PTX_M_F64", 64}, {"s8", "PTX_M_S8", 8},      {"u8", "PTX_M_U8", 8},      {"s4", "PTX_M_S4", 4},
             {"u4", "PTX_M_U4", 4},    {"b1", "PTX_M_B1", 1},      {"s32", "PTX_M_S32", 32}};

struct shape {
    int m, n, k;
};

static bool read_shape(const gs_ptx_instruction *instruction, struct shape *shape) {
    char rest;
    for (uint32_t i = 1; i < instruction->count; i++)
        if (sscanf(instruction->words[i], "m%dn%dk%d%c", &shape->m, &shape->n, &shape->k, &rest) == 3)
            return true;
    return false;
}

/* The n-th kind of elements among the words, or -1. */
static int nth_kind(const gs_ptx_instruction *instruction, uint32_t n) {
    for (uint32_t i = 1; i < instruction->count; i++)
        for (size_t k = 0; k < GS_COUNT(kinds); k++)
            if (strcmp(instruction->words[i], kinds[k].word) == 0 && n-- == 0)
                return (int)k;
    return -1;
}

static const char *array_type(int kind) {
    return kinds[kind].bits == 64 ? "uint64_t" : "uint32_t";
}

/* `uint32_t a[4] = {w1, w2, w3, w4};` Refuses registers that cannot hold `elements` elements of the kind. */
static void put_array(gs_ptx_host *host, const gs_ptx_operand *operand, const char *name, int kind, int elements,
                      bool is_read) {
    uint32_t count = gs_ptx_elements(operand);
    int bits = kinds[kind].bits == 64 ? 64 : 32;
    if (!count || (int)count * bits < elements * kinds[kind].bits) {
        gs_ptx_host_refuse(host, operand->first, "too few registers");
        return;
    }
    gs_ptx_put(host, "%s %s[%u] = {", array_type(kind), name, count);
    for (uint32_t i = 0; i < count && is_read; i++)
        gs_ptx_put(host, "%s%s", i ? ", " : "",
                   gs_ptx_value(host, gs_ptx_element(host, operand, i), bits == 64 ? GS_PTX_B64 : GS_PTX_B32).text);
    gs_ptx_put(host, is_read ? "}; " : "0}; ");
}

static void put_results(gs_ptx_host *host, const gs_ptx_operand *operand, const char *name) {
    for (uint32_t i = 0; i < gs_ptx_elements(operand); i++)
        gs_ptx_put(host, " %s%s[%u];", gs_ptx_target(host, gs_ptx_element(host, operand, i)).text, name, i);
}

/* ---- products ---- */

/* The shapes of mma, by the bits of the elements of A. m8n8k4 with f16 has another layout, and is not here. */
static bool mma_has(const struct shape *shape, int kind) {
    static const struct {
        struct shape shape;
        int bits;
    } shapes[] = {{{16, 8, 8}, 16},  {{16, 8, 16}, 16}, {{16, 8, 4}, 32},  {{16, 8, 8}, 32}, {{8, 8, 4}, 64},
                  {{16, 8, 4}, 64},  {{16, 8, 8}, 64},  {{16, 8, 16}, 64}, {{8, 8, 16}, 8},  {{16, 8, 16}, 8},
                  {{16, 8, 32}, 8},  {{8, 8, 32}, 4},   {{16, 8, 32}, 4},  {{16, 8, 64}, 4}, {{8, 8, 128}, 1},
                  {{16, 8, 128}, 1}, {{16, 8, 256}, 1}};
    for (size_t i = 0; i < GS_COUNT(shapes); i++)
        if (shapes[i].bits == kinds[kind].bits && memcmp(&shapes[i].shape, shape, sizeof *shape) == 0)
            return true;
    return false;
}

static bool wmma_has(const struct shape *shape, int kind) {
    static const struct {
        struct shape shape;
        const char *kinds;
    } shapes[] = {{{16, 16, 16}, "f16 bf16 s8 u8"},
                  {{32, 8, 16}, "f16 bf16 s8 u8"},
                  {{8, 32, 16}, "f16 bf16 s8 u8"},
                  {{16, 16, 8}, "tf32"},
                  {{8, 8, 4}, "f64"},
                  {{8, 8, 32}, "s4 u4"},
                  {{8, 8, 128}, "b1"}};
    for (size_t i = 0; i < GS_COUNT(shapes); i++)
        if (gs_ptx_listed(shapes[i].kinds, kinds[kind].word) && memcmp(&shapes[i].shape, shape, sizeof *shape) == 0)
            return true;
    return false;
}

static bool is_result_kind(int kind, int of) {
    static const char *const results[] = {"f16 f32", "f32", "f32", "", "f64", "s32", "s32", "s32", "s32", "s32", ""};
    return kind >= 0 && gs_ptx_listed(results[of], kinds[kind].word);
}

static void put_product(gs_ptx_host *host, const gs_ptx_instruction *instruction, const struct shape *shape,
                        const int kind[4], bool is_wmma) {
    const gs_ptx_operand *operands = instruction->operands;
    int m = shape->m, n = shape->n, k = shape->k;
    gs_ptx_put(host, "{ static const gs_ptx_product product = {%d, %d, %d, %s, %s, %s, %s, %d, %d, %d}; ", m, n, k,
               kinds[kind[1]].kind, kinds[kind[2]].kind, kinds[kind[3]].kind, kinds[kind[0]].kind, is_wmma,
               gs_ptx_word(instruction, "satfinite"), gs_ptx_word(instruction, "and"));
    put_array(host, &operands[1], "a", kind[1], m * k / 32, true);
    put_array(host, &operands[2], "b", kind[2], k * n / 32, true);
    put_array(host, &operands[3], "c", kind[3], m * n / 32, true);
    put_array(host, &operands[0], "d", kind[0], m * n / 32, false);
    gs_ptx_put(host, "ptx_product(t, &product, d, a, b, c, %u);", instruction->line);
    put_results(host, &operands[0], "d");
    gs_ptx_put(host, " }");
}

/* mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 d, a, b, c: the kinds of d, a, b and c. wmma.mma with f16 names
   those of d and c only. */
static void translate_product(gs_ptx_host *host, const gs_ptx_instruction *instruction, bool is_wmma) {
    struct shape shape;
    int kind[4];
    bool has_two = nth_kind(instruction, 2) < 0;
    for (uint32_t i = 0; i < 4; i++)
        kind[i] = nth_kind(instruction, has_two && i == 3 ? 1 : i);
    if (has_two)
        kind[1] = kind[2] = 0; /* f16 */
    bool fits = read_shape(instruction, &shape) && gs_ptx_word(instruction, "sync") && kind[1] >= 0 && kind[2] >= 0 &&
                is_result_kind(kind[0], kind[1]) && is_result_kind(kind[3], kind[1]) &&
                kinds[kind[1]].bits == kinds[kind[2]].bits && !gs_ptx_word(instruction, "sp") &&
                !gs_ptx_word(instruction, "sp::ordered_metadata") &&
                (is_wmma ? wmma_has(&shape, kind[1]) : mma_has(&shape, kind[1]));
    if (!fits)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_wants(host, instruction, 4, 4))
        put_product(host, instruction, &shape, kind, is_wmma);
}

void gs_ptx_translate_mma(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (strcmp(instruction->words[0], "mma") != 0)
        gs_ptx_host_refuse_instruction(host, instruction);
    else
        translate_product(host, instruction, false);
}

/* ---- wmma ---- */

/* The matrix that wmma.load and wmma.store move: a, b, c or d, which are m by k, k by n, and m by n. */
static void put_fragment(gs_ptx_host *host, const gs_ptx_instruction *instruction, const struct shape *shape, int kind,
                         bool is_store) {
    const gs_ptx_operand *operands = instruction->operands;
    const gs_ptx_operand *registers = &operands[is_store], *address = &operands[!is_store];
    char matrix = instruction->words[2][0];
    bool is_column = gs_ptx_word(instruction, "col");
    int rows = matrix == 'b' ? shape->k : shape->m, columns = matrix == 'a' ? shape->k : shape->n;
    uint32_t align = kinds[kind].bits < 8 ? 1 : (uint32_t)kinds[kind].bits / 8;
    gs_ptx_c pointer = gs_ptx_pointer(host, instruction, address, gs_ptx_space_of(instruction), align);
    gs_ptx_put(host, "{ static const gs_ptx_fragment fragment = {%s, %d, %d, %d}; ", kinds[kind].kind, rows, columns,
               is_column);
    put_array(host, registers, "r", kind, rows * columns / 32, is_store);
    gs_ptx_put(host, "ptx_wmma_%s(t, &fragment, r, %s, ", is_store ? "store" : "load", pointer.text);
    if (instruction->operand_count == 3)
        gs_ptx_put(host, "%s);", gs_ptx_value(host, &operands[2], GS_PTX_U32).text);
    else
        gs_ptx_put(host, "%d);", is_column ? rows : columns);
    if (!is_store)
        put_results(host, registers, "r");
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_wmma(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    struct shape shape;
    int kind = nth_kind(instruction, 0);
    bool is_load = gs_ptx_word(instruction, "load"), is_store = gs_ptx_word(instruction, "store");
    if (gs_ptx_word(instruction, "mma")) {
        translate_product(host, instruction, true);
        return;
    }
    static const int sides[] = {4, 8, 16, 32, 128};
    bool fits = (is_load || is_store) && instruction->count > 3 && gs_ptx_listed("a b c d", instruction->words[2]) &&
                kind >= 0 && read_shape(instruction, &shape);
    for (int i = 0; i < 3 && fits; i++) {
        int side = i == 0 ? shape.m : i == 1 ? shape.n : shape.k;
        bool is_known = false;
        for (size_t k = 0; k < GS_COUNT(sides); k++)
            is_known = is_known || sides[k] == side;
        fits = is_known;
    }
    if (!fits)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_wants(host, instruction, 2, 3))
        put_fragment(host, instruction, &shape, kind, is_store);
}

/* ---- wgmma ---- */

static bool is_number(const gs_ptx_host *host, const gs_ptx_operand *operand, const char *first, const char *second) {
    return gs_ptx_token_is(host->module, operand->last, first) || gs_ptx_token_is(host->module, operand->last, second);
}

/* Both factors are in shared memory, with the depth contiguous: the two last operands, which would transpose them, are
   0. */
static bool wgmma_fits(const gs_ptx_host *host, const gs_ptx_instruction *instruction, const struct shape *shape) {
    const gs_ptx_operand *operands = instruction->operands;
    int kind = nth_kind(instruction, 1);
    return shape->m == 64 && shape->k == 16 && shape->n % 8 == 0 && shape->n > 0 && shape->n <= 256 &&
           nth_kind(instruction, 0) == 3 && (kind == 0 || kind == 1) && kind == nth_kind(instruction, 2) &&
           instruction->operand_count == 8 && gs_ptx_elements(&operands[1]) == 1 &&
           is_number(host, &operands[4], "1", "-1") && is_number(host, &operands[5], "1", "-1") &&
           is_number(host, &operands[6], "0", "0") && is_number(host, &operands[7], "0", "0");
}

/* wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {d, ...}, a, b, keeps, 1, 1, 0, 0; fence, commit_group and
   wait_group have nothing to do, because products are computed at once. */
void gs_ptx_translate_wgmma(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    struct shape shape;
    if (!gs_ptx_word(instruction, "mma_async")) {
        gs_ptx_put(host, ";");
        return;
    }
    if (!read_shape(instruction, &shape) || !wgmma_fits(host, instruction, &shape)) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    gs_ptx_put(host, "{ static const gs_ptx_group_product product = {%d, %s, %s, %s}; ", shape.n,
               kinds[nth_kind(instruction, 1)].kind, gs_ptx_value(host, &operands[4], GS_PTX_S32).text,
               gs_ptx_value(host, &operands[5], GS_PTX_S32).text);
    put_array(host, &operands[0], "d", 3, shape.n / 2, true);
    gs_ptx_put(host, "ptx_wgmma(t, &product, d, %s, ", gs_ptx_value(host, &operands[1], GS_PTX_B64).text);
    gs_ptx_put(host, "%s, ", gs_ptx_value(host, &operands[2], GS_PTX_B64).text);
    gs_ptx_put(host, "%s, %u);", gs_ptx_value(host, &operands[3], GS_PTX_PRED).text, instruction->line);
    put_results(host, &operands[0], "d");
    gs_ptx_put(host, " }");
}

/* ---- ldmatrix, stmatrix, movmatrix ---- */

void gs_ptx_translate_ldmatrix(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    bool is_store = strcmp(instruction->words[0], "stmatrix") == 0;
    if (!gs_ptx_word(instruction, "m8n8") || !gs_ptx_word(instruction, "b16")) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    if (!gs_ptx_wants(host, instruction, 2, 2))
        return;
    int count = gs_ptx_word(instruction, "x4") ? 4 : gs_ptx_word(instruction, "x2") ? 2 : 1;
    const gs_ptx_operand *registers = &operands[is_store];
    /* Lanes whose address is not used may have any address. */
    gs_ptx_c pointer = gs_ptx_pointer(host, instruction, &operands[!is_store], gs_ptx_space_of(instruction), 16);
    gs_ptx_put(host, "{ ");
    put_array(host, registers, "r", 3, count, is_store); /* f32: words of 32 bits */
    gs_ptx_put(host, "ptx_%s(t, r, %d, %d, t->lane < %d ? %s : NULL, %u);", instruction->words[0], count,
               gs_ptx_word(instruction, "trans"), 8 * count, pointer.text, instruction->line);
    if (!is_store)
        put_results(host, registers, "r");
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_movmatrix(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (!gs_ptx_word(instruction, "trans") || !gs_ptx_word(instruction, "b16"))
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_wants(host, instruction, 2, 2))
        gs_ptx_put(host, "%sptx_movmatrix(t, %s, %u);", gs_ptx_target(host, &instruction->operands[0]).text,
                   gs_ptx_value(host, &instruction->operands[1], GS_PTX_B32).text, instruction->line);
}
