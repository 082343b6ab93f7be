/*
 * ptx_host_convert.c: mov, cvt, comparisons and selections, and the video instructions. See ptx_host.h.
 */
#include "ptx_host.h"

#include <stdlib.h>

/* ---- mov ---- */

/* mov.b64 {a, b}, c */
static void put_unpack(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type type) {
    const gs_ptx_operand *parts = &instruction->operands[0];
    uint32_t width = gs_ptx_bits(type) / (parts->count ? parts->count : 1);
    gs_ptx_put(host, "{ %s whole = %s;", gs_ptx_bits_type(type),
               gs_ptx_value(host, &instruction->operands[1], type).text);
    for (uint32_t i = 0; i < parts->count; i++) {
        const gs_ptx_operand *part = gs_ptx_element(host, parts, i);
        gs_ptx_put(host, " %s", gs_ptx_target(host, part).text);
        gs_ptx_put(host, i ? "(whole >> %u);" : "whole;", i * width);
    }
    gs_ptx_put(host, " }");
}

/* mov.b64 a, {b, c} */
static void put_pack(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type type) {
    static const char *const part_types[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
    static const gs_ptx_type values[] = {GS_PTX_U8, GS_PTX_U16, GS_PTX_U32, GS_PTX_U64};
    const gs_ptx_operand *parts = &instruction->operands[1];
    uint32_t width = gs_ptx_bits(type) / (parts->count ? parts->count : 1);
    uint32_t which = width == 8 ? 0 : width == 16 ? 1 : width == 32 ? 2 : 3;
    gs_ptx_put(host, "%s", gs_ptx_target(host, &instruction->operands[0]).text);
    for (uint32_t i = 0; i < parts->count; i++) {
        gs_ptx_c value = gs_ptx_value(host, gs_ptx_element(host, parts, i), values[which]);
        gs_ptx_put(host, i ? " | (%s)(%s)%s << %u" : "(%s)(%s)%s", gs_ptx_bits_type(type), part_types[which],
                   value.text, i * width);
    }
    gs_ptx_put(host, ";");
}

void gs_ptx_translate_mov(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0);
    if (!gs_ptx_wants(host, instruction, 2, 2))
        return;
    if (type == GS_PTX_NO_TYPE || instruction->count != 2)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (instruction->operands[0].kind == GS_PTX_VECTOR)
        put_unpack(host, instruction, type);
    else if (instruction->operands[1].kind == GS_PTX_VECTOR)
        put_pack(host, instruction, type);
    else
        gs_ptx_put(host, "%s%s;", gs_ptx_target(host, &instruction->operands[0]).text,
                   gs_ptx_value(host, &instruction->operands[1], type).text);
}

/* ---- cvt ---- */

/* The types that only cvt knows. */
static const struct {
    const char *word;
    int exponent_bits, fraction_bits;
} small_types[] = {{"e4m3x2", 4, 3}, {"e5m2x2", 5, 2}};

static const char *rounding_of(const gs_ptx_instruction *instruction) {
    static const struct {
        const char *words, *name;
    } roundings[] = {{"rz rzi", "PTX_RZ"}, {"rm rmi", "PTX_RM"}, {"rp rpi", "PTX_RP"}, {"rna", "PTX_RNA"}};
    for (uint32_t i = 1; i < instruction->count; i++)
        for (size_t k = 0; k < GS_COUNT(roundings); k++)
            if (gs_ptx_listed(roundings[k].words, instruction->words[i]))
                return roundings[k].name;
    return "PTX_RN";
}

static bool is_rounded_to_integer(const gs_ptx_instruction *instruction) {
    return gs_ptx_word(instruction, "rni") || gs_ptx_word(instruction, "rzi") || gs_ptx_word(instruction, "rmi") ||
           gs_ptx_word(instruction, "rpi");
}

/* A value of floating point, as float or double. */
static gs_ptx_c as_real(gs_ptx_host *host, const gs_ptx_instruction *instruction, const gs_ptx_operand *operand,
                        gs_ptx_type from) {
    gs_ptx_c value = gs_ptx_value(host, operand, from), result;
    bool is_flushed = gs_ptx_word(instruction, "ftz") && from == GS_PTX_F32;
    snprintf(result.text, sizeof result.text, is_flushed ? "ptx_f32(ptx_flushed(%s%.150s))" : "ptx_%s(%.150s)",
             is_flushed ? "" : gs_ptx_type_name(from), value.text);
    return result;
}

static void real_to_integer(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type to,
                            gs_ptx_type from) {
    gs_ptx_c value = as_real(host, instruction, &instruction->operands[1], from);
    const char *rounding = rounding_of(instruction);
    uint32_t bits = gs_ptx_bits(to);
    bool is_signed = gs_ptx_is_signed(to);
    if (from == GS_PTX_F32 && bits == 32 && strcmp(rounding, "PTX_RZ") == 0) {
        gs_ptx_put(host, "ptx_trunc_%s(%s);", gs_ptx_type_name(to), value.text);
        return;
    }
    /* NaN becomes 0, or the largest power of two if a double or 64 bits are involved. */
    bool is_zero = from != GS_PTX_F64 && bits != 64;
    gs_ptx_put(host, "(%s)ptx_to_%s(%s, %s, %u, ", gs_ptx_c_type(to), is_signed ? "signed" : "unsigned", value.text,
               rounding, bits);
    if (is_zero)
        gs_ptx_put(host, "0);");
    else
        gs_ptx_put(host, is_signed ? "(int64_t)(-1ull << %u));" : "1ull << %u);", bits - 1);
}

static void integer_to_real(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type to,
                            gs_ptx_type from) {
    gs_ptx_c value = gs_ptx_value(host, &instruction->operands[1], from);
    const char *rounding = rounding_of(instruction), *c_type = gs_ptx_c_type(from);
    const char *sign = gs_ptx_is_signed(from) ? "signed" : "unsigned";
    bool is_single = to == GS_PTX_F32, is_nearest = strcmp(rounding, "PTX_RN") == 0;
    if ((is_single || to == GS_PTX_F64) && is_nearest)
        gs_ptx_put(host, "ptx_bits_%s((%s)(%s)%s);", gs_ptx_type_name(to), is_single ? "float" : "double", c_type,
                   value.text);
    else if (is_single || to == GS_PTX_F64)
        gs_ptx_put(host, "ptx_%s_of_%s((%s)%s, %s);", gs_ptx_type_name(to), sign, c_type, value.text, rounding);
    else
        gs_ptx_put(host, "ptx_pack(ptx_odd_of_%s((%s)%s), %s, %s);", sign, c_type, value.text,
                   to == GS_PTX_F16 ? "5, 10" : "8, 7", rounding);
}

/* The bits of `value`, which is float or double, in a type. */
static void put_real(gs_ptx_host *host, const char *value, gs_ptx_type to, gs_ptx_type from, const char *rounding) {
    bool is_nearest = strcmp(rounding, "PTX_RN") == 0, is_half = gs_ptx_bits(to) == 16;
    if (is_half && is_nearest && from != GS_PTX_F64)
        gs_ptx_put(host, "ptx_bits_%s(%s)", gs_ptx_type_name(to), value);
    else if (is_half)
        gs_ptx_put(host, "ptx_pack%s(%s, %s, %s)", from == GS_PTX_F64 ? "_f64" : "", value,
                   to == GS_PTX_F16 ? "5, 10" : "8, 7", rounding);
    else if (to == GS_PTX_F32 && from == GS_PTX_F64)
        gs_ptx_put(host, "ptx_f32_of_f64(%s, %s)", value, rounding);
    else
        gs_ptx_put(host, "ptx_bits_%s(%s)", gs_ptx_type_name(to), value);
}

/* cvt.f32.bf16 is a shift, which keeps the bits of a NaN. */
static bool is_shift(const gs_ptx_instruction *instruction, gs_ptx_type to, gs_ptx_type from) {
    return to == GS_PTX_F32 && from == GS_PTX_BF16 && instruction->count == 3;
}

static void real_to_real(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type to, gs_ptx_type from) {
    gs_ptx_c value = as_real(host, instruction, &instruction->operands[1], from), integral;
    bool saturates = gs_ptx_word(instruction, "sat"), rectifies = gs_ptx_word(instruction, "relu");
    bool is_flushed = gs_ptx_word(instruction, "ftz") && to == GS_PTX_F32;
    const char *rounding = rounding_of(instruction);
    if (is_shift(instruction, to, from)) {
        gs_ptx_put(host, "(uint32_t)%s << 16;", gs_ptx_value(host, &instruction->operands[1], from).text);
        return;
    }
    if (is_rounded_to_integer(instruction) && to == GS_PTX_F64 && from == GS_PTX_F64 && !saturates) {
        gs_ptx_put(host, "ptx_integral_f64(%s, %s);", gs_ptx_value(host, &instruction->operands[1], from).text,
                   rounding);
        return;
    }
    if (is_rounded_to_integer(instruction)) {
        snprintf(integral.text, sizeof integral.text, "%sptx_integral(%.150s, %s)", from == GS_PTX_F64 ? "" : "(float)",
                 value.text, rounding);
        value = integral;
        rounding = "PTX_RN";
    }
    if (saturates || rectifies)
        gs_ptx_put(host, "ptx_%s_%s(", saturates ? "sat" : "relu", gs_ptx_type_name(to));
    if (is_flushed)
        gs_ptx_put(host, "ptx_flush(");
    put_real(host, value.text, to, from, rounding);
    gs_ptx_put(host, "%s%s;", is_flushed ? ")" : "", saturates || rectifies ? ")" : "");
}

static void integer_to_integer(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type to,
                               gs_ptx_type from) {
    gs_ptx_c value = gs_ptx_value(host, &instruction->operands[1], from);
    uint32_t bits = gs_ptx_bits(to);
    const char *c_to = gs_ptx_c_type(to), *c_from = gs_ptx_c_type(from);
    if (!gs_ptx_word(instruction, "sat")) {
        gs_ptx_put(host, "(%s)(%s)%s;", c_to, c_from, value.text);
        return;
    }
    uint64_t most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    most >>= gs_ptx_is_signed(to);
    if (gs_ptx_is_signed(from) && gs_ptx_is_signed(to))
        gs_ptx_put(host, "(%s)ptx_clamp_signed((%s)%s, -(int64_t)0x%llxull - 1, 0x%llxull);", c_to, c_from, value.text,
                   (unsigned long long)most, (unsigned long long)most);
    else
        gs_ptx_put(host, "(%s)ptx_clamp_%s((%s)%s, 0x%llxull);", c_to, gs_ptx_is_signed(from) ? "positive" : "unsigned",
                   c_from, value.text, (unsigned long long)most);
}

/* cvt.rn.f16x2.f32 d, a, b: a becomes the upper half. */
static void convert_two(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type to) {
    gs_ptx_type half = to == GS_PTX_F16X2 ? GS_PTX_F16 : GS_PTX_BF16;
    bool rectifies = gs_ptx_word(instruction, "relu");
    for (uint32_t i = 1; i <= 2; i++) {
        gs_ptx_put(host, i == 1 ? "(uint32_t)" : " | (uint32_t)");
        if (rectifies)
            gs_ptx_put(host, "ptx_relu_%s(", gs_ptx_type_name(half));
        put_real(host, as_real(host, instruction, &instruction->operands[i], GS_PTX_F32).text, half, GS_PTX_F32,
                 rounding_of(instruction));
        gs_ptx_put(host, "%s%s", rectifies ? ")" : "", i == 1 ? " << 16" : ";");
    }
}

/* cvt.rn.satfinite.e4m3x2.f32 d, a, b, cvt.rn.f16x2.e4m3x2 d, a, cvt.rna.tf32.f32 d, a. False: another instruction. */
static bool convert_special(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    if (gs_ptx_word(instruction, "tf32") && instruction->operand_count == 2) {
        gs_ptx_put(host, "%sptx_tf32(ptx_f32(%s), %s);", gs_ptx_target(host, &operands[0]).text,
                   gs_ptx_value(host, &operands[1], GS_PTX_F32).text, rounding_of(instruction));
        return true;
    }
    for (size_t i = 0; i < GS_COUNT(small_types); i++) {
        int exponent = small_types[i].exponent_bits, fraction = small_types[i].fraction_bits;
        if (!gs_ptx_word(instruction, small_types[i].word))
            continue;
        gs_ptx_put(host, "%s", gs_ptx_target(host, &operands[0]).text);
        if (instruction->operand_count == 3 && gs_ptx_nth_type(instruction, 0) == GS_PTX_F32) {
            gs_ptx_c high = gs_ptx_value(host, &operands[1], GS_PTX_F32);
            gs_ptx_c low = gs_ptx_value(host, &operands[2], GS_PTX_F32);
            gs_ptx_put(host, "ptx_f8_of(ptx_f32(%s), %d, %d) << 8 | ptx_f8_of(ptx_f32(%s), %d, %d);", high.text,
                       exponent, fraction, low.text, exponent, fraction);
            return true;
        }
        if (instruction->operand_count == 2 && gs_ptx_nth_type(instruction, 0) == GS_PTX_F16X2) {
            gs_ptx_c both = gs_ptx_value(host, &operands[1], GS_PTX_B16);
            bool is_source = strcmp(instruction->words[instruction->count - 1], small_types[i].word) == 0;
            if (!is_source)
                break;
            gs_ptx_put(host,
                       "ptx_bits_f16(ptx_of_f8((uint8_t)%s, %d, %d)) | "
                       "(uint32_t)ptx_bits_f16(ptx_of_f8((uint8_t)(%s >> 8), %d, %d)) << 16;",
                       both.text, exponent, fraction, both.text, exponent, fraction);
            return true;
        }
        break;
    }
    return false;
}

static bool words_are_known(const gs_ptx_instruction *instruction) {
    for (uint32_t i = 1; i < instruction->count; i++)
        if (gs_ptx_type_of(instruction->words[i]) == GS_PTX_NO_TYPE &&
            !gs_ptx_listed("rn rz rm rp rna rni rzi rmi rpi ftz sat relu", instruction->words[i]))
            return false;
    return true;
}

void gs_ptx_translate_cvt(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_type to = gs_ptx_nth_type(instruction, 0), from = gs_ptx_nth_type(instruction, 1);
    bool is_pack = instruction->count > 1 && strcmp(instruction->words[1], "pack") == 0;
    if (!gs_ptx_wants(host, instruction, 2, 3) || is_pack)
        goto refuse;
    if (convert_special(host, instruction))
        return;
    if (!words_are_known(instruction) || to == GS_PTX_NO_TYPE || from == GS_PTX_NO_TYPE || to == GS_PTX_PRED ||
        from == GS_PTX_PRED || to == GS_PTX_B128 || from == GS_PTX_B128)
        goto refuse;
    bool is_pair = to == GS_PTX_F16X2 || to == GS_PTX_BF16X2;
    if ((instruction->operand_count == 3) != (is_pair && from == GS_PTX_F32) || from == GS_PTX_F16X2 ||
        from == GS_PTX_BF16X2)
        goto refuse;
    gs_ptx_put(host, "%s", gs_ptx_target(host, &instruction->operands[0]).text);
    if (is_pair)
        convert_two(host, instruction, to);
    else if (gs_ptx_is_float(from) && gs_ptx_is_float(to))
        real_to_real(host, instruction, to, from);
    else if (gs_ptx_is_float(from))
        real_to_integer(host, instruction, to, from);
    else if (gs_ptx_is_float(to))
        integer_to_real(host, instruction, to, from);
    else
        integer_to_integer(host, instruction, to, from);
    return;
refuse:
    gs_ptx_host_refuse_instruction(host, instruction);
}

/* ---- comparisons ---- */

/* setp and set: their words in order: the comparison, then perhaps an operation with a predicate. */
struct comparison {
    const char *name, *operation; /* "and", or "" */
    gs_ptx_type type;             /* that is compared */
    bool is_flushed;
};

static bool read_comparison(const gs_ptx_instruction *instruction, struct comparison *comparison, uint32_t types) {
    static const char integers[] = "eq ne lt le gt ge lo ls hi hs";
    static const char floats[] = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan";
    uint32_t found = 0;
    *comparison = (struct comparison){.operation = ""};
    for (uint32_t i = 1; i < instruction->count; i++) {
        const char *word = instruction->words[i];
        gs_ptx_type type = gs_ptx_type_of(word);
        found += type != GS_PTX_NO_TYPE;
        if (type != GS_PTX_NO_TYPE)
            comparison->type = type; /* the last one */
        else if (gs_ptx_listed("and or xor", word))
            comparison->operation = word;
        else if (strcmp(word, "ftz") == 0)
            comparison->is_flushed = true;
        else
            comparison->name = word;
    }
    if (!comparison->name || found != types)
        return false;
    bool is_float = gs_ptx_is_float(comparison->type);
    return gs_ptx_listed(is_float ? floats : integers, comparison->name) && comparison->type != GS_PTX_PRED &&
           gs_ptx_bits(comparison->type) >= 16 && gs_ptx_bits(comparison->type) <= 64 &&
           comparison->type != GS_PTX_F16X2 && comparison->type != GS_PTX_BF16X2;
}

/* The type that compares the same: b32 and "lo" as u32. */
static const char *compared_type(const struct comparison *comparison) {
    static const char *const words[] = {"u16", "u32", "u64"};
    bool is_unsigned =
        gs_ptx_listed("lo ls hi hs", comparison->name) || strchr("bu", gs_ptx_type_name(comparison->type)[0]);
    if (gs_ptx_is_float(comparison->type) || !is_unsigned)
        return gs_ptx_type_name(comparison->type);
    return words[gs_ptx_bits(comparison->type) / 32];
}

static const char *compared_name(const struct comparison *comparison) {
    static const char *const names[][2] = {{"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (strcmp(names[i][0], comparison->name) == 0)
            return names[i][1];
    return comparison->name;
}

static void put_comparison(gs_ptx_host *host, const gs_ptx_instruction *instruction,
                           const struct comparison *comparison) {
    bool is_flushed = comparison->is_flushed && comparison->type == GS_PTX_F32;
    gs_ptx_c a = gs_ptx_value(host, &instruction->operands[1], comparison->type);
    gs_ptx_c b = gs_ptx_value(host, &instruction->operands[2], comparison->type);
    gs_ptx_put(host, is_flushed ? "ptx_%s_%s(ptx_flush(%s), ptx_flush(%s))" : "ptx_%s_%s(%s, %s)",
               compared_name(comparison), compared_type(comparison), a.text, b.text);
}

static void put_combined(gs_ptx_host *host, const gs_ptx_instruction *instruction, const struct comparison *comparison,
                         const char *result) {
    if (!comparison->operation[0])
        gs_ptx_put(host, "%s", result);
    else
        gs_ptx_put(host, "ptx_%s_pred(%s, %s)", comparison->operation, result,
                   gs_ptx_value(host, &instruction->operands[3], GS_PTX_PRED).text);
}

void gs_ptx_translate_setp(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    struct comparison comparison;
    if (!read_comparison(instruction, &comparison, 1)) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    uint32_t operands = comparison.operation[0] ? 4 : 3;
    if (!gs_ptx_wants(host, instruction, operands, operands))
        return;
    const gs_ptx_operand *target = &instruction->operands[0];
    bool is_pair = target->kind == GS_PTX_PAIR;
    if (!is_pair && !comparison.operation[0]) {
        gs_ptx_put(host, "%s", gs_ptx_target(host, target).text);
        put_comparison(host, instruction, &comparison);
        gs_ptx_put(host, ";");
        return;
    }
    gs_ptx_put(host, "{ uint8_t is = ");
    put_comparison(host, instruction, &comparison);
    gs_ptx_put(host, "; uint8_t first = ");
    put_combined(host, instruction, &comparison, "is");
    gs_ptx_put(host, ", second = ");
    put_combined(host, instruction, &comparison, "!is");
    gs_ptx_put(host, "; %sfirst;", gs_ptx_target(host, is_pair ? gs_ptx_element(host, target, 0) : target).text);
    if (is_pair)
        gs_ptx_put(host, " %ssecond;", gs_ptx_target(host, gs_ptx_element(host, target, 1)).text);
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_set(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    struct comparison comparison;
    gs_ptx_type to = gs_ptx_nth_type(instruction, 0);
    if (!read_comparison(instruction, &comparison, 2) || (to != GS_PTX_U32 && to != GS_PTX_S32 && to != GS_PTX_F32)) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    uint32_t operands = comparison.operation[0] ? 4 : 3;
    if (!gs_ptx_wants(host, instruction, operands, operands))
        return;
    gs_ptx_put(host, "{ uint8_t is = ");
    put_comparison(host, instruction, &comparison);
    gs_ptx_put(host, "; %s", gs_ptx_target(host, &instruction->operands[0]).text);
    put_combined(host, instruction, &comparison, "is");
    gs_ptx_put(host, " ? %s : 0; }", to == GS_PTX_F32 ? "0x3f800000u" : "UINT32_MAX");
}

void gs_ptx_translate_selp(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0);
    if (type == GS_PTX_NO_TYPE || instruction->count != 2)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_wants(host, instruction, 4, 4))
        gs_ptx_put(host, "%s%s ? %s : %s;", gs_ptx_target(host, &instruction->operands[0]).text,
                   gs_ptx_value(host, &instruction->operands[3], GS_PTX_PRED).text,
                   gs_ptx_value(host, &instruction->operands[1], type).text,
                   gs_ptx_value(host, &instruction->operands[2], type).text);
}

void gs_ptx_translate_slct(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0), by = gs_ptx_nth_type(instruction, 1);
    bool is_flushed = gs_ptx_word(instruction, "ftz");
    if (by != GS_PTX_S32 && by != GS_PTX_F32)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_wants(host, instruction, 4, 4))
        gs_ptx_put(host, "%sptx_ge_%s(%s%s%s, 0) ? %s : %s;", gs_ptx_target(host, &instruction->operands[0]).text,
                   gs_ptx_type_name(by), is_flushed ? "ptx_flush(" : "",
                   gs_ptx_value(host, &instruction->operands[3], by).text, is_flushed ? ")" : "",
                   gs_ptx_value(host, &instruction->operands[1], type).text,
                   gs_ptx_value(host, &instruction->operands[2], type).text);
}

/* lop3.b32 d, a, b, c, table, or lop3.or.b32 d|p, a, b, c, table, q: p says whether the result is not 0, combined
   with q. */
void gs_ptx_translate_lop3(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    bool is_pair = instruction->operand_count > 0 && operands[0].kind == GS_PTX_PAIR;
    const char *operation = gs_ptx_word(instruction, "or") ? "or" : gs_ptx_word(instruction, "and") ? "and" : NULL;
    if (gs_ptx_nth_type(instruction, 0) != GS_PTX_B32 || is_pair != (operation != NULL)) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    if (!gs_ptx_wants(host, instruction, is_pair ? 6 : 5, is_pair ? 6 : 5))
        return;
    gs_ptx_put(host, "{ uint32_t result = ptx_lop3_b32(");
    for (uint32_t i = 1; i <= 4; i++)
        gs_ptx_put(host, "%s%s", i > 1 ? ", " : "", gs_ptx_value(host, &operands[i], GS_PTX_B32).text);
    gs_ptx_put(host, ");");
    if (is_pair)
        gs_ptx_put(host, " uint8_t other = %s; %sresult; %sptx_%s_pred(result != 0, other); }",
                   gs_ptx_value(host, &operands[5], GS_PTX_PRED).text,
                   gs_ptx_target(host, gs_ptx_element(host, &operands[0], 0)).text,
                   gs_ptx_target(host, gs_ptx_element(host, &operands[0], 1)).text, operation);
    else
        gs_ptx_put(host, " %sresult; }", gs_ptx_target(host, &operands[0]).text);
}

/* ---- video: vadd4.u32.u32.u32.sat d, a, b, c ---- */

void gs_ptx_translate_video(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const struct {
        const char *name, *operation;
    } operations[] = {{"vadd", "PTX_V_ADD"}, {"vsub", "PTX_V_SUB"}, {"vabsdiff", "PTX_V_ABSDIFF"},
                      {"vmin", "PTX_V_MIN"}, {"vmax", "PTX_V_MAX"}, {"vavrg", "PTX_V_AVRG"}};
    size_t length = strlen(instruction->words[0]) - 1;
    char lanes = instruction->words[0][length];
    const char *operation = NULL;
    for (size_t i = 0; i < GS_COUNT(operations); i++)
        if (strlen(operations[i].name) == length && strncmp(operations[i].name, instruction->words[0], length) == 0)
            operation = operations[i].operation;
    if (!operation || (lanes != '2' && lanes != '4')) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    if (!gs_ptx_wants(host, instruction, 4, 4))
        return;
    gs_ptx_put(host, "%sptx_video(&(gs_ptx_video){%s, %c", gs_ptx_target(host, &instruction->operands[0]).text,
               operation, lanes);
    for (uint32_t i = 0; i < 3; i++)
        gs_ptx_put(host, ", %d", gs_ptx_nth_type(instruction, i) == GS_PTX_S32);
    gs_ptx_put(host, ", %d, %d}", gs_ptx_word(instruction, "sat"), gs_ptx_word(instruction, "add"));
    for (uint32_t i = 1; i <= 3; i++)
        gs_ptx_put(host, ", %s", gs_ptx_value(host, &instruction->operands[i], GS_PTX_U32).text);
    gs_ptx_put(host, ");");
}
