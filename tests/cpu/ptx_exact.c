/*
 * ptx_exact.c: PTX without instructions that are approximate by specification. See ptx_exact.h.
 */
#include "ptx_exact.h"

#include <string.h>

/* `$` is the destination, `?` the source. */
static const struct row {
    const char *word, *text;
} rows[] = {
    {"rsqrt.approx.f32", "sqrt.rn.f32 $, ?; rcp.rn.f32 $, $;"},
    {"rsqrt.approx.ftz.f32", "sqrt.rn.ftz.f32 $, ?; rcp.rn.ftz.f32 $, $;"},
    {"rsqrt.approx.f64", "sqrt.rn.f64 $, ?; rcp.rn.f64 $, $;"},
    /* 2^i and a polynomial for the rest. */
    {"ex2.approx.f32", "{ .reg .f32 %gx<5>; .reg .b32 %gi<3>;\n"
                       "max.f32 %gx1, ?, 0fC2FA0000; min.f32 %gx1, %gx1, 0f42FC0000;\n"
                       "cvt.rni.f32.f32 %gx2, %gx1; sub.rn.f32 %gx3, %gx1, %gx2;\n"
                       "fma.rn.f32 %gx4, %gx3, 0f39218489, 0f3AAEC3FF;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0f3C1D955B; fma.rn.f32 %gx4, %gx4, %gx3, 0f3D635847;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0f3E75FDF0; fma.rn.f32 %gx4, %gx4, %gx3, 0f3F317218;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0f3F800000;\n"
                       "cvt.rni.s32.f32 %gi1, %gx2; shl.b32 %gi1, %gi1, 23; mov.b32 %gi2, %gx4;\n"
                       "add.s32 %gi2, %gi2, %gi1; mov.b32 $, %gi2; }"},
    /* The exponent, and twice the area tangent of (m - 1) / (m + 1). */
    {"lg2.approx.f32", "{ .reg .f32 %gx<6>; .reg .b32 %gi<3>;\n"
                       "mov.b32 %gi1, ?; shr.u32 %gi2, %gi1, 23; sub.s32 %gi2, %gi2, 127; cvt.rn.f32.s32 %gx5, %gi2;\n"
                       "and.b32 %gi1, %gi1, 8388607; or.b32 %gi1, %gi1, 1065353216; mov.b32 %gx1, %gi1;\n"
                       "sub.rn.f32 %gx2, %gx1, 0f3F800000; add.rn.f32 %gx3, %gx1, 0f3F800000;\n"
                       "div.rn.f32 %gx2, %gx2, %gx3; mul.rn.f32 %gx3, %gx2, %gx2;\n"
                       "fma.rn.f32 %gx4, %gx3, 0f3EA4258A, 0f3ED30BB1; fma.rn.f32 %gx4, %gx4, %gx3, 0f3F13BB63;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0f3F76384F; fma.rn.f32 %gx4, %gx4, %gx3, 0f4038AA3B;\n"
                       "fma.rn.f32 $, %gx2, %gx4, %gx5; }"},
    {"sin.approx.f32", "{ .reg .f32 %gx<5>;\n"
                       "mul.rn.f32 %gx1, ?, 0f3E22F983; cvt.rni.f32.f32 %gx1, %gx1;\n"
                       "fma.rn.f32 %gx2, %gx1, 0fC0C90FDB, ?; mul.rn.f32 %gx3, %gx2, %gx2;\n"
                       "fma.rn.f32 %gx4, %gx3, 0fB2D7322B, 0f3638EF1D; fma.rn.f32 %gx4, %gx4, %gx3, 0fB9500D01;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0f3C088889; fma.rn.f32 %gx4, %gx4, %gx3, 0fBE2AAAAB;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0f3F800000; mul.rn.f32 $, %gx2, %gx4; }"},
    {"cos.approx.f32", "{ .reg .f32 %gx<5>;\n"
                       "mul.rn.f32 %gx1, ?, 0f3E22F983; cvt.rni.f32.f32 %gx1, %gx1;\n"
                       "fma.rn.f32 %gx2, %gx1, 0fC0C90FDB, ?; mul.rn.f32 %gx3, %gx2, %gx2;\n"
                       "fma.rn.f32 %gx4, %gx3, 0f310F76C7, 0fB493F27E; fma.rn.f32 %gx4, %gx4, %gx3, 0f37D00D01;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0fBAB60B61; fma.rn.f32 %gx4, %gx4, %gx3, 0f3D2AAAAB;\n"
                       "fma.rn.f32 %gx4, %gx4, %gx3, 0fBF000000; fma.rn.f32 $, %gx4, %gx3, 0f3F800000; }"},
};

static bool has_name(const char *word, const char *name) {
    return strncmp(word, name, strlen(name)) == 0;
}

/* div.approx and its like become div.rn. */
static bool round_to_nearest(gs_edits *edits, const char *word, size_t at) {
    static const char *const names[] = {"div.approx", "div.full", "rcp.approx", "sqrt.approx"};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (has_name(word, names[i]) && !strstr(word, "f64")) {
            size_t dot = (size_t)(strchr(names[i], '.') - names[i]) + 1;
            gs_edits_add(edits, at + dot, strlen(names[i]) - dot, "rn");
            return true;
        }
    return false;
}

static void put_operand(gs_text *into, const gs_ptx_module *module, const gs_ptx_statement *statement, uint32_t i) {
    const gs_ptx_operand *operand = &module->operands.data[statement->operands + i];
    const gs_ptx_token *last = &module->tokens.data[operand->last];
    size_t from = module->tokens.data[operand->first].at;
    gs_text_put(into, module->text + from, last->at + last->length - from);
}

static void put_row(gs_edits *edits, const gs_ptx_module *module, const gs_ptx_statement *statement,
                    const struct row *row) {
    const gs_ptx_token *last = &module->tokens.data[statement->last];
    size_t from = module->tokens.data[statement->first].at;
    gs_text text = {0};
    for (const char *c = row->text; *c; c++)
        if (*c == '$' || *c == '?')
            put_operand(&text, module, statement, *c == '?');
        else
            gs_text_put(&text, c, 1);
    gs_edits_put(edits, from, last->at + last->length - from, text.data, text.count);
    gs_text_free(&text);
}

static void remove_ftz(char *plain, const char *word) {
    const char *ftz = strstr(word, ".ftz");
    size_t before = ftz ? (size_t)(ftz - word) : strlen(word);
    memcpy(plain, word, before);
    memcpy(plain + before, word + before + (ftz ? 4 : 0), strlen(word + before) - (ftz ? 4 : 0) + 1);
}

static void replace(gs_edits *edits, const gs_ptx_module *module, const gs_ptx_statement *statement) {
    char word[100], plain[100];
    gs_ptx_token_text(module, statement->word, word, sizeof word);
    if (statement->guard != GS_PTX_NONE || round_to_nearest(edits, word, module->tokens.data[statement->word].at))
        return;
    remove_ftz(plain, word);
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        if (strcmp(word, rows[i].word) == 0 || (!has_name(word, "rsqrt") && strcmp(plain, rows[i].word) == 0)) {
            put_row(edits, module, statement, &rows[i]);
            return;
        }
}

gs_text ptx_exact(const gs_ptx_module *module) {
    gs_edits edits = {0};
    gs_text text = {0};
    for (uint32_t i = 0; i < module->statements.count; i++)
        if (module->statements.data[i].kind == GS_PTX_INSTRUCTION)
            replace(&edits, module, &module->statements.data[i]);
    gs_edits_apply(&edits, module->text, 0, module->size, &text);
    gs_edits_free(&edits);
    return text;
}
