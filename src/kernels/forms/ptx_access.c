/*
 * ptx_access.c: where an instruction reads or writes memory, and how many bytes. See ptx_waits.h.
 */
#include "ptx_waits.h"

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
