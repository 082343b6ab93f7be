/*
 * ptx_effects.c: what an instruction reads and writes. See ptx.h.
 *
 * The table of opcodes says which memory an instruction may access; for some, the state spaces among its suffixes
 * decide. A mistake here must be on the safe side: memory that is named but not accessed costs a refusal, memory that
 * is accessed but not named a wrong form.
 */
#include "ptx.h"

/* The suffixes of an opcode, one after the other. */
struct suffixes {
    const char *at, *end; /* the rest of the word, behind a dot or at its end */
};

static struct suffixes suffixes_of(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    const gs_ptx_token *word = &module->tokens.data[statement->word];
    struct suffixes suffixes = {module->text + word->at, module->text + word->at + word->length};
    while (suffixes.at < suffixes.end && *suffixes.at != '.')
        suffixes.at++;
    return suffixes;
}

/* The next suffix. False: there is none. */
static bool next_suffix(struct suffixes *suffixes, const char **suffix, size_t *length) {
    if (suffixes->at == suffixes->end)
        return false;
    *suffix = ++suffixes->at;
    while (suffixes->at < suffixes->end && *suffixes->at != '.')
        suffixes->at++;
    *length = (size_t)(suffixes->at - *suffix);
    return true;
}

/* ---- memory ---- */

/* The memory that a suffix names; 0: none. */
static uint8_t space_of(const char *suffix, size_t length) {
    static const struct {
        const char *suffixes;
        uint8_t space;
    } spaces[] = {
        {"global", GS_PTX_IN_GLOBAL},
        {"shared shared::cta", GS_PTX_IN_SHARED},
        {"shared::cluster", GS_PTX_IN_SHARED | GS_PTX_IN_CLUSTER},
        {"local", GS_PTX_IN_LOCAL},
        {"param param::entry param::func", GS_PTX_IN_PARAM},
        {"const", GS_PTX_IN_CONST},
    };
    for (size_t i = 0; i < GS_COUNT(spaces); i++)
        if (gs_ptx_is_listed(spaces[i].suffixes, suffix, length))
            return spaces[i].space;
    return 0;
}

/* The memory that the suffixes name, first and second. A tensor map names global memory. */
static void find_spaces(const gs_ptx_module *module, const gs_ptx_statement *statement, uint8_t *found) {
    struct suffixes suffixes = suffixes_of(module, statement);
    const char *suffix;
    size_t length, count = 0;
    found[0] = found[1] = 0;
    while (count < 2 && next_suffix(&suffixes, &suffix, &length)) {
        uint8_t space = space_of(suffix, length);
        if (space)
            found[count++] = space;
    }
}

/* `written`: the column `writes`, else `reads`. */
static uint8_t memory_of(const gs_ptx_module *module, const gs_ptx_statement *statement, bool written) {
    if (statement->kind != GS_PTX_INSTRUCTION)
        return 0;
    const gs_ptx_opcode *row = gs_ptx_row(statement);
    uint8_t column = written ? row->writes : row->reads, spaces[2];
    if (!(column & (GS_PTX_BY_SUFFIX | GS_PTX_BY_ORDER)))
        return column;
    find_spaces(module, statement, spaces);
    if (column & GS_PTX_BY_SUFFIX)
        return spaces[0] ? spaces[0] : GS_PTX_IN_GENERIC;
    uint8_t space = spaces[written ? 0 : 1];
    return space ? space : GS_PTX_IN_GENERIC;
}

uint8_t gs_ptx_reads(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return memory_of(module, statement, false);
}

/* Whether it is a bulk copy that writes an mbarrier, too. */
static bool completes_mbarrier(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_BULK_COPY &&
           gs_ptx_has(module, statement, "mbarrier::complete_tx::bytes");
}

uint8_t gs_ptx_writes(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    uint8_t written = memory_of(module, statement, true);
    bool completes = written && completes_mbarrier(module, statement);
    return (uint8_t)(written | (completes ? GS_PTX_IN_SHARED : 0));
}

/* ---- addresses ---- */

static uint32_t find_address(const gs_ptx_module *module, const gs_ptx_statement *statement, const char *letters) {
    const char *operands = gs_ptx_row(statement)->operands, *found = strpbrk(operands, letters);
    uint32_t number = found ? (uint32_t)(found - operands) : GS_PTX_NONE;
    if (statement->kind != GS_PTX_INSTRUCTION || number >= statement->count)
        return GS_PTX_NONE;
    const gs_ptx_operand *operand = &module->operands.data[statement->operands + number];
    return operand->kind == GS_PTX_ADDRESS && operand->count <= 1 ? number : GS_PTX_NONE;
}

uint32_t gs_ptx_address_read(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return find_address(module, statement, "lu");
}

uint32_t gs_ptx_address_written(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return completes_mbarrier(module, statement) ? GS_PTX_NONE : find_address(module, statement, "su");
}

uint32_t gs_ptx_address_copied(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return find_address(module, statement, "su");
}

/* ---- kinds ---- */

bool gs_ptx_is_strong(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION || !(gs_ptx_row(statement)->reads | gs_ptx_row(statement)->writes))
        return false;
    return statement->opcode == GS_PTX_ATOMIC || statement->opcode == GS_PTX_MBARRIER ||
           gs_ptx_has(module, statement, "volatile relaxed acquire release acq_rel mmio cv");
}

/* A fence makes an acquire of any strong read before it (PTX, 8.8: acquire patterns). */
bool gs_ptx_acquires(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    return statement->opcode == GS_PTX_FENCE ||
           (gs_ptx_has(module, statement, "acquire acq_rel") && gs_ptx_reads(module, statement) & GS_PTX_IN_GLOBAL);
}

bool gs_ptx_joins(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    switch (gs_ptx_row(statement)->waits) {
    case GS_PTX_WAITS_NOT:
    case GS_PTX_WAITS_COPIES: /* of this thread alone, */
    case GS_PTX_WAITS_KERNEL: /* and for other kernels */
        return gs_ptx_acquires(module, statement) || gs_ptx_has(module, statement, "acquire acq_rel");
    default:
        return true;
    }
}

bool gs_ptx_reads_constants(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    uint8_t reads = gs_ptx_reads(module, statement);
    return reads && (!(reads & ~(GS_PTX_IN_PARAM | GS_PTX_IN_CONST)) || gs_ptx_has(module, statement, "nc"));
}

gs_ptx_math gs_ptx_math_of(const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION ? (gs_ptx_math)gs_ptx_row(statement)->math : GS_PTX_MATH_NONE;
}

bool gs_ptx_is_aligned(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION &&
           (gs_ptx_row(statement)->is_aligned || gs_ptx_has(module, statement, "aligned"));
}

void gs_ptx_find_types(const gs_ptx_module *module, const gs_ptx_statement *statement, gs_ptx_type *types) {
    struct suffixes suffixes = suffixes_of(module, statement);
    const char *suffix;
    size_t length, count = 0;
    types[0] = types[1] = GS_PTX_NO_TYPE;
    while (count < 2 && next_suffix(&suffixes, &suffix, &length))
        for (gs_ptx_type type = GS_PTX_NO_TYPE + 1; type <= GS_PTX_SURFREF; type++)
            if (gs_ptx_is_listed(gs_ptx_type_name(type), suffix, length)) {
                types[count++] = type;
                break;
            }
}

bool gs_ptx_is_real(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION &&
           gs_ptx_has(module, statement,
                      "f16 f16x2 bf16 bf16x2 tf32 f32 f32x2 f64 e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1x2 e2m1x4 "
                      "e2m3x2 e2m3x4 e3m2x2 e3m2x4 ue8m0x2");
}

gs_ptx_atomic gs_ptx_atomic_kind(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    static const char *const words[] = {"add", "inc", "dec", "exch", "cas", "and", "or", "xor", "min", "max"};
    if (statement->kind != GS_PTX_INSTRUCTION || !gs_ptx_row(statement)->writes ||
        (statement->opcode != GS_PTX_ATOMIC && !gs_ptx_row(statement)->reads))
        return GS_PTX_NOT_ATOMIC;
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (gs_ptx_has(module, statement, words[i]))
            return (gs_ptx_atomic)(GS_PTX_ATOMIC_ADD + i);
    return statement->opcode == GS_PTX_ATOMIC ? GS_PTX_ATOMIC_OTHER : GS_PTX_NOT_ATOMIC;
}
