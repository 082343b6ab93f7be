/* fuzz_plan_kernels.c: lists of kernels for a plan, and recorded programs: read, and planned on the model. */
#include "sharing/measure/measure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_error error;
    gs_named_kernels list = {.size = "large"};
    gs_input *input = gs_input_memory("fuzz", (const char *)data, size, &error);
    if (input && gs_named_kernels_read(&list, input, "folder/fuzz", &error) != GS_OK && !error.message[0])
        __builtin_trap(); /* errors have words */
    for (size_t i = 0; i < list.count; i++)
        if (!list.data[i].name[0] || list.data[i].given.forms[0].threads < 0)
            __builtin_trap();
    gs_named_kernels_free(&list);
    return 0;
}
