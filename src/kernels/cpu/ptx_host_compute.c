/*
 * ptx_host_compute.c: the instructions that compute a register from registers, as a table. See ptx_host.h.
 *
 * `op.mode.type d, a, b` becomes `d = ptx_op_mode_type(a, b)`, a function of src/kernels/cpu/runtime/gridsmith_ptx.h. A
 * row has the modes, the types and the operands of an instruction:
 *
 *   t   the (last) type           w   twice as wide           u   u32
 *   p   a predicate               c   not an operand: the address of the carry flag
 *
 * A `!` before the modes: one is required. Some modes do not change the name: all functions round to nearest (rn), and
 * approximate instructions of a GPU are exact here. ftz, sat and relu wrap operands and results of floating-point
 * instructions: `ptx_sat_f32(ptx_flush(ptx_add_f32(ptx_flush(a), ptx_flush(b))))`.
 */
#include "ptx_host.h"

#include <stdlib.h>

#define INTS       "u16 u32 u64 s16 s32 s64"
#define LONG_INTS  "u32 s32 u64 s64"
#define HALVES     "f16 f16x2 bf16 bf16x2"
#define ALL_FLOATS "f32 f64 f16 f16x2 bf16 bf16x2"
#define ROUNDINGS  "rn rz rm rp"

static const struct row {
    const char *name, *modes, *types, *operands;
} rows[] = {
    {"abs", "", "s16 s32 s64", "tt"},
    {"abs", "ftz", ALL_FLOATS, "tt"},
    {"add", "", INTS " u16x2 s16x2", "ttt"},
    {"add", "!sat", "s32", "ttt"},
    {"add", "!cc", LONG_INTS, "tttc"},
    {"add", ROUNDINGS " ftz sat", "f32", "ttt"},
    {"add", ROUNDINGS, "f64", "ttt"},
    {"add", "rn ftz sat", HALVES, "ttt"},
    {"addc", "cc", LONG_INTS, "tttc"},
    {"and", "", "b16 b32 b64 pred", "ttt"},
    {"bfe", "", LONG_INTS, "ttuu"},
    {"bfi", "", "b32 b64", "tttuu"},
    {"bfind", "shiftamt", LONG_INTS, "ut"},
    {"bmsk", "!clamp wrap", "b32", "ttt"},
    {"brev", "", "b32 b64", "tt"},
    {"clz", "", "b32 b64", "ut"},
    {"cnot", "", "b16 b32 b64", "tt"},
    {"copysign", "", "f32 f64", "ttt"},
    {"cos", "approx ftz", "f32", "tt"},
    {"div", "", INTS, "ttt"},
    {"div", ROUNDINGS " full ftz", "f32", "ttt"},
    {"div", "!approx ftz", "f32", "ttt"},
    {"div", ROUNDINGS, "f64", "ttt"},
    {"dp2a", "!lo hi", "u32 s32", "tuuu"},
    {"dp4a", "", "u32 s32", "tuuu"},
    {"ex2", "approx ftz", "f32 f16 f16x2 bf16 bf16x2", "tt"},
    {"fma", ROUNDINGS " ftz sat", "f32", "tttt"},
    {"fma", ROUNDINGS, "f64", "tttt"},
    {"fma", "rn ftz sat relu", HALVES, "tttt"},
    {"fns", "", "b32", "tuuu"},
    {"lg2", "approx ftz", "f32", "tt"},
    {"mad", "!lo hi", INTS, "tttt"},
    {"mad", "!wide", "u16 s16 u32 s32", "wttw"},
    {"mad", "!hi sat", "s32", "tttt"},
    {"mad", "!lo hi cc", LONG_INTS, "ttttc"},
    {"mad", ROUNDINGS " ftz sat", "f32", "tttt"},
    {"mad", ROUNDINGS, "f64", "tttt"},
    {"mad24", "!lo hi sat", "u32 s32", "tttt"},
    {"madc", "!lo hi cc", LONG_INTS, "ttttc"},
    {"max", "", INTS " u16x2 s16x2", "ttt"},
    {"max", "ftz NaN xorsign abs", "f32", "ttt"},
    {"max", "", "f64", "ttt"},
    {"max", "ftz NaN", HALVES, "ttt"},
    {"min", "", INTS " u16x2 s16x2", "ttt"},
    {"min", "ftz NaN xorsign abs", "f32", "ttt"},
    {"min", "", "f64", "ttt"},
    {"min", "ftz NaN", HALVES, "ttt"},
    {"mul", "!lo hi", INTS, "ttt"},
    {"mul", "!wide", "u16 s16 u32 s32", "wtt"},
    {"mul", ROUNDINGS " ftz sat", "f32", "ttt"},
    {"mul", ROUNDINGS, "f64", "ttt"},
    {"mul", "rn ftz sat", HALVES, "ttt"},
    {"mul24", "!lo hi", "u32 s32", "ttt"},
    {"neg", "", "s16 s32 s64", "tt"},
    {"neg", "ftz", ALL_FLOATS, "tt"},
    {"not", "", "b16 b32 b64 pred", "tt"},
    {"or", "", "b16 b32 b64 pred", "ttt"},
    {"popc", "", "b32 b64", "ut"},
    {"prmt", "f4e b4e rc8 ecl ecr rc16", "b32", "tttt"},
    {"rcp", ROUNDINGS " approx ftz", "f32", "tt"},
    {"rcp", ROUNDINGS " approx ftz", "f64", "tt"},
    {"rem", "", INTS, "ttt"},
    {"rsqrt", "approx ftz", "f32 f64", "tt"},
    {"sad", "", INTS, "tttt"},
    {"shf", "!l r clamp wrap", "b32", "tttu"},
    {"shl", "", "b16 b32 b64", "ttu"},
    {"shr", "", "b16 b32 b64 " INTS, "ttu"},
    {"sin", "approx ftz", "f32", "tt"},
    {"sqrt", ROUNDINGS " approx ftz", "f32", "tt"},
    {"sqrt", ROUNDINGS, "f64", "tt"},
    {"sub", "", INTS, "ttt"},
    {"sub", "!sat", "s32", "ttt"},
    {"sub", "!cc", LONG_INTS, "tttc"},
    {"sub", ROUNDINGS " ftz sat", "f32", "ttt"},
    {"sub", ROUNDINGS, "f64", "ttt"},
    {"sub", "rn ftz sat", HALVES, "ttt"},
    {"subc", "cc", LONG_INTS, "tttc"},
    {"szext", "clamp wrap", "u32 s32", "ttu"},
    {"tanh", "approx ftz", "f32 f16 f16x2 bf16 bf16x2", "tt"},
    {"testp", "!finite infinite number notanumber normal subnormal", "f32 f64", "pt"},
    {"xor", "", "b16 b32 b64 pred", "ttt"},
};

static bool is_type_word(const char *word) {
    return gs_ptx_type_of(word) != GS_PTX_NO_TYPE || strcmp(word, "u16x2") == 0 || strcmp(word, "s16x2") == 0;
}

static bool row_fits(const struct row *row, const gs_ptx_instruction *instruction) {
    const char *modes = row->modes + (row->modes[0] == '!');
    uint32_t given = 0, given_types = 0;
    if (strcmp(row->name, instruction->words[0]) != 0)
        return false;
    for (uint32_t i = 1; i < instruction->count; i++) {
        const char *word = instruction->words[i];
        bool is_type = is_type_word(word);
        if (!gs_ptx_listed(is_type ? row->types : modes, word))
            return false;
        given += !is_type;
        given_types += is_type;
    }
    bool wants_two = strncmp(row->name, "dp", 2) == 0;
    return (given || row->modes[0] != '!') && given_types == (wants_two ? 2 : 1);
}

/* Modes that are not part of the name of the function. */
static bool is_left_out(const char *name, const char *word, gs_ptx_type type) {
    if (strcmp(word, "approx") == 0)
        return strcmp(name, "div") != 0;
    return gs_ptx_listed("rn full ftz relu", word) || (gs_ptx_is_float(type) && strcmp(word, "sat") == 0);
}

/* "ptx_add_rz_f32". The product of mad, if it is floating point, is not rounded: it is fma. */
static void put_name(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type type) {
    bool is_fused = strcmp(instruction->words[0], "mad") == 0 && gs_ptx_is_float(type);
    gs_ptx_put(host, "ptx_%s", is_fused ? "fma" : instruction->words[0]);
    for (uint32_t i = 1; i < instruction->count; i++)
        if (!is_type_word(instruction->words[i]) && !is_left_out(instruction->words[0], instruction->words[i], type))
            gs_ptx_put(host, "_%s", instruction->words[i]);
    for (uint32_t i = 1; i < instruction->count; i++)
        if (is_type_word(instruction->words[i]))
            gs_ptx_put(host, "_%s", instruction->words[i]);
}

static gs_ptx_type twice_as_wide(gs_ptx_type type) {
    switch (type) {
    case GS_PTX_U16:
        return GS_PTX_U32;
    case GS_PTX_S16:
        return GS_PTX_S32;
    case GS_PTX_U32:
        return GS_PTX_U64;
    default:
        return GS_PTX_S64;
    }
}

static gs_ptx_type operand_type(char letter, gs_ptx_type type) {
    return letter == 'w' ? twice_as_wide(type) : letter == 'u' ? GS_PTX_U32 : letter == 'p' ? GS_PTX_PRED : type;
}

static void put_arguments(gs_ptx_host *host, const gs_ptx_instruction *instruction, const char *letters,
                          gs_ptx_type type, const char *flush) {
    gs_ptx_put(host, "(");
    for (uint32_t i = 1; letters[i]; i++) {
        const char *comma = i > 1 ? ", " : "";
        if (letters[i] == 'c') {
            gs_ptx_put(host, "%s&cc", comma);
            continue;
        }
        gs_ptx_c value = gs_ptx_value(host, &instruction->operands[i], operand_type(letters[i], type));
        bool is_flushed = flush[0] && letters[i] == 't';
        gs_ptx_put(host, is_flushed ? "%s%s(%s)" : "%s%s%s", comma, is_flushed ? flush : "", value.text);
    }
    gs_ptx_put(host, ")");
}

/* A quotient that is rounded up or down is flushed by its value before rounding. */
static bool is_quotient(const gs_ptx_instruction *instruction) {
    bool is_directed = gs_ptx_word(instruction, "rp") || gs_ptx_word(instruction, "rm");
    return is_directed && (strcmp(instruction->words[0], "div") == 0 || strcmp(instruction->words[0], "rcp") == 0);
}

static void put_magnitude(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_put(host, ", ptx_%s_rz_f32", instruction->words[0]);
    put_arguments(host, instruction, instruction->words[0][0] == 'd' ? "ttt" : "tt", GS_PTX_F32, "ptx_flush");
}

void gs_ptx_translate_compute(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const struct row *row = NULL;
    for (size_t i = 0; i < GS_COUNT(rows) && !row; i++)
        if (row_fits(&rows[i], instruction))
            row = &rows[i];
    if (!row) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    bool has_carry = row->operands[strlen(row->operands) - 1] == 'c';
    uint32_t operands = (uint32_t)strlen(row->operands) - has_carry;
    if (!gs_ptx_wants(host, instruction, operands, operands))
        return;
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0);
    type = type == GS_PTX_NO_TYPE ? GS_PTX_U32 : type; /* u16x2 */
    const char *flush = gs_ptx_word(instruction, "ftz") && type == GS_PTX_F32 ? "ptx_flush" : "";
    bool saturates = gs_ptx_word(instruction, "sat") && gs_ptx_is_float(type);
    bool rectifies = gs_ptx_word(instruction, "relu");
    if (gs_ptx_word(instruction, "ftz") && type != GS_PTX_F32 && type != GS_PTX_F64)
        flush = type == GS_PTX_F16 ? "ptx_flush_f16" : type == GS_PTX_F16X2 ? "ptx_flush_f16x2" : "";
    gs_ptx_put(host, "%s", gs_ptx_target(host, &instruction->operands[0]).text);
    if (saturates || rectifies)
        gs_ptx_put(host, "ptx_%s_%s(", saturates ? "sat" : "relu", gs_ptx_type_name(type));
    if (flush[0])
        gs_ptx_put(host, "%s(", is_quotient(instruction) ? "ptx_flush_quotient" : flush);
    put_name(host, instruction, type);
    put_arguments(host, instruction, row->operands, type, flush);
    if (flush[0] && is_quotient(instruction))
        put_magnitude(host, instruction);
    gs_ptx_put(host, "%s%s;", flush[0] ? ")" : "", saturates || rectifies ? ")" : "");
}
