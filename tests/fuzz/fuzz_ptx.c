/*
 * fuzz_ptx.c: any bytes as PTX. What is accepted has control flow, and every token of it is found again. Its kernels
 * are reshaped, and what comes out is PTX again.
 */
#include "fuzz.h"

#include "kernels/forms/forms.h"

static void look_at_function(const gs_ptx_module *module, uint32_t number) {
    gs_ptx_flow flow;
    gs_ptx_uniform uniform;
    if (gs_ptx_flow_make(&flow, module, number, NULL) != GS_OK)
        return;
    for (uint32_t b = 0; b < flow.blocks.count; b++) {
        require(flow.after[b] <= flow.blocks.count);
        require(gs_ptx_flow_block(&flow, flow.blocks.data[b].last) == b);
    }
    require(gs_ptx_uniform_make(&uniform, &flow, true, NULL) == GS_OK);
    gs_ptx_uniform_free(&uniform);
    gs_ptx_flow_free(&flow);
    uint32_t statement;
    gs_code code = gs_ptx_waits_for_memory(module, number, &statement, NULL);
    require(code == GS_OK || code == GS_E_SYNTAX);
    require(code != GS_OK || statement == GS_PTX_NONE || statement < module->statements.count);
}

static void reshape(const gs_ptx_module *module, uint32_t number) {
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++) {
        gs_ptx_options options = {.form = (enum gs_form)form, .counts_blocks = form == GS_FORM_CONFINED};
        gs_text text = {0};
        gs_ptx_module again;
        gs_error error;
        gs_text_put(&text, module->text, module->size);
        gs_code code = gs_ptx_reshape(module, number, &options, &text, NULL, &error);
        require(code == GS_OK || code == GS_E_REFUSED || code == GS_E_SYNTAX); /* a label that is not there */
        if (code == GS_OK) {
            require(gs_ptx_read(&again, "again", text.data, text.count, &error) == GS_OK);
            require(again.functions.count > module->functions.count);
            gs_ptx_free(&again);
        }
        gs_text_free(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_ptx_module module;
    if (gs_ptx_read(&module, "fuzz", (const char *)bytes, count, NULL) != GS_OK)
        return 0;
    for (uint32_t i = 0; i < module.functions.count; i++)
        if (module.functions.data[i].is_defined) {
            look_at_function(&module, i);
            if (module.functions.data[i].is_entry)
                reshape(&module, i);
        }
    gs_ptx_free(&module);
    return 0;
}
