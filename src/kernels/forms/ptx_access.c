/*
 * ptx_access.c: where an instruction reads or writes memory, and how many bytes. See ptx_facts.h.
 *
 * A register may be wider than the type of a conversion, a load or a store: `cvt.s32.s8` reads the lowest byte of its
 * operand, `ld.u8` and `st.u8` load and store one. What is left of a number then proves nothing about it, so only
 * registers that are read and written whole are followed. Numbers of 8 and 16 bits wrap around too soon.
 */
#include "ptx_facts.h"

const gs_ptx_operand *gs_ptx_address_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, bool written) {
    uint32_t at =
        written ? gs_ptx_address_written(kernel->module, statement) : gs_ptx_address_read(kernel->module, statement);
    return at == GS_PTX_NONE ? NULL : gs_ptx_operand_at(kernel, statement, at);
}

int64_t gs_ptx_element_bytes(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    static const struct {
        const char *suffixes;
        int64_t bytes;
    } sizes[] = {{"b8 u8 s8", 1}, {"b16 u16 s16 f16 bf16", 2}, {"b128", 16}, {"b64 u64 s64 f64", 8}};
    if (statement->opcode != GS_PTX_LOAD && statement->opcode != GS_PTX_STORE && statement->opcode != GS_PTX_ATOMIC)
        return GS_PTX_MANY_BYTES;
    for (size_t i = 0; i < GS_COUNT(sizes); i++)
        if (gs_ptx_has(kernel->module, statement, sizes[i].suffixes))
            return sizes[i].bytes;
    return 4;
}

int64_t gs_ptx_bytes_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    int64_t bytes = gs_ptx_element_bytes(kernel, statement);
    return bytes == GS_PTX_MANY_BYTES ? bytes
                                      : bytes * (gs_ptx_has(kernel->module, statement, "v2")   ? 2
                                                 : gs_ptx_has(kernel->module, statement, "v4") ? 4
                                                 : gs_ptx_has(kernel->module, statement, "v8") ? 8
                                                                                               : 1);
}

static bool is_whole(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, int64_t bytes) {
    const int64_t least = 4;
    for (uint32_t i = 0; operand->kind == GS_PTX_VECTOR && i < operand->count; i++)
        if (!is_whole(kernel, &kernel->module->operands.data[operand->children + i], bytes))
            return false;
    switch (operand->kind) {
    case GS_PTX_REGISTER:
        return bytes >= least && !operand->part &&
               gs_ptx_type_bytes(gs_ptx_register_type(kernel->module, kernel->function, operand->value)) == bytes;
    case GS_PTX_SPECIAL:
        return bytes == least;
    default:
        return bytes >= least && (operand->kind == GS_PTX_INTEGER || operand->kind == GS_PTX_VECTOR);
    }
}

bool gs_ptx_has_whole_registers(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_operand *operands = gs_ptx_operand_at(kernel, statement, 0);
    gs_ptx_type types[2];
    if (statement->count < 2 || gs_ptx_has(kernel->module, statement, "sat"))
        return false;
    if (gs_ptx_math_of(statement) != GS_PTX_MATH_CONVERT)
        return is_whole(kernel, &operands[statement->opcode == GS_PTX_STORE], gs_ptx_element_bytes(kernel, statement));
    gs_ptx_find_types(kernel->module, statement, types);
    return !gs_ptx_is_real(kernel->module, statement) && is_whole(kernel, &operands[0], gs_ptx_type_bytes(types[0])) &&
           is_whole(kernel, &operands[1], gs_ptx_type_bytes(types[1]));
}
