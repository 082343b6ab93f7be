/*
 * fuzz_ptx.c: any bytes as PTX. What is accepted has control flow, and every token of it is found again. Each kernel is
 * made persistent and confined, or refused with a place; the module with its form is PTX again.
 */
#include "reshape/reshape.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void require(bool holds) {
    if (!holds)
        abort();
}

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
}

static void reshape(const gs_ptx_module *module, uint32_t kernel, enum gs_form form) {
    gs_ptx_options options = {.form = form, .has_marks = true, .looks_back = kernel % 2};
    gs_ptx_module whole;
    gs_error error = {.code = GS_OK};
    gs_text text = {0};
    gs_text_put(&text, module->text, module->size);
    gs_code code = gs_ptx_reshape(module, kernel, &options, &text, NULL, &error);
    require(gs_ptx_reshape(module, kernel, &options, NULL, NULL, NULL) == code);
    if (code == GS_OK) {
        require(gs_ptx_read(&whole, "form", text.data, text.count, NULL) == GS_OK);
        require(whole.functions.count == module->functions.count + 1);
        gs_ptx_free(&whole);
    } else {
        require(error.code == code && error.message[0]);
    }
    gs_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_ptx_module module;
    if (gs_ptx_read(&module, "fuzz", (const char *)bytes, count, NULL) != GS_OK)
        return 0;
    for (uint32_t i = 0; i < module.functions.count; i++) {
        if (!module.functions.data[i].is_defined)
            continue;
        look_at_function(&module, i);
        if (module.functions.data[i].is_entry) {
            reshape(&module, i, GS_FORM_PERSISTENT);
            reshape(&module, i, GS_FORM_CONFINED);
        }
    }
    gs_ptx_free(&module);
    return 0;
}
